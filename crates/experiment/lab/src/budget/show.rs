//! A budget as text.

use std::fmt;

use bentpipe_units::{Bytes, Rate, Span};

use super::{
    Arrival, Budget, BundleForecast, CallBudget, CaptureBudget, Compressed, CompressedFlow, ContactBudget,
    DialBudget, FlowBudget, LinkBudget, RateShare, ShareBudget, bounded,
};

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Links\n")?;
        let head = ["link", "line rate", "delay", "MTU", "packet", "wire size", "capacity", "queue", "flows"];
        table(f, &head, self.links.iter().map(link_row).collect())?;
        let changing = || self.links.iter().filter(|link| !link.rates.is_empty() || link.delays.is_some());
        if changing().next().is_some() {
            writeln!(f, "\nOver the run\n")?;
            let head = [
                "link",
                "line rate, least",
                "mean",
                "greatest",
                "parts of the time",
                "delay, least",
                "mean",
                "greatest",
            ];
            table(f, &head, changing().map(over_time_row).collect())?;
        }
        if !self.terminals.is_empty() {
            writeln!(f, "\nTerminals\n")?;
            let head = [
                "link",
                "carrier",
                "granularity",
                "guaranteed",
                "maximum",
                "under contention",
                "access delay",
            ];
            table(f, &head, self.terminals.iter().map(terminal_row).collect())?;
        }
        if self.links.iter().any(|link| link.voice.is_some()) {
            writeln!(f, "\nVoice\n")?;
            let head = ["link", "calls", "packets/s", "IP rate", "on the line", "of capacity"];
            table(f, &head, self.links.iter().filter_map(voice_row).collect())?;
        }
        for link in &self.links {
            wifi(f, link)?;
            let name = format!("{} {}", link.name, link.direction);
            link.notes.iter().try_for_each(|note| writeln!(f, "  note: {name}: {note}"))?;
        }
        for flow in &self.flows {
            write!(f, "\n{flow}")?;
        }
        if !self.contacts.is_empty() {
            writeln!(f, "\nContacts\n")?;
            let head = ["network", "from", "to", "contacts", "open", "capacity", "light time"];
            table(f, &head, self.contacts.iter().map(contact_row).collect())?;
        }
        if !self.dial.is_empty() {
            writeln!(f, "\nDial plans\n")?;
            let row = |line: &DialBudget| {
                vec![line.exchange.clone(), line.numbers.clone(), line.way.clone(), line.there.clone()]
            };
            table(f, &["exchange", "numbers", "calls", "number there"], self.dial.iter().map(row).collect())?;
        }
        self.bundles.iter().try_for_each(|bundles| write!(f, "\n{bundles}"))?;
        captures(f, &self.captures)
    }
}

/// Writes the expected sizes of captures.
fn captures(f: &mut fmt::Formatter<'_>, all: &[CaptureBudget]) -> fmt::Result {
    let Some(first) = all.first() else { return Ok(()) };
    writeln!(f, "\nCaptures, expected in {}\n", first.lasts)?;
    let rows = all.iter().map(|capture| {
        let most = if capture.is_most { "at most " } else { "" };
        vec![
            capture.file.clone(),
            format!("{most}{}", grouped(capture.packets)),
            format!("{most}{}", size(capture.written)),
            format!("{most}{}", size(capture.on_disk)),
        ]
    });
    table(f, &["file", "packets", "written", "on disk"], rows.collect())?;
    let mut notes = all.iter().filter(|capture| !capture.not_forecast.is_empty());
    notes.try_for_each(|capture| {
        let flows = capture.not_forecast.join(", ");
        writeln!(f, "  note: {}: without packets that are not forecast, of {flows}", capture.file)
    })
}

/// Returns a size with three digits.
pub(crate) fn size(bytes: Bytes) -> String {
    let (scale, unit) = match bytes.get() {
        n if n >= 1_000_000_000 => (1e9, "GB"),
        n if n >= 1_000_000 => (1e6, "MB"),
        n if n >= 1_000 => (1e3, "kB"),
        n => return format!("{n} B"),
    };
    let value = bytes.get() as f64 / scale;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// Returns a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Number of nodes that are shown at each end of a long path.
const PATH_END: usize = 6;

fn contact_row(pair: &ContactBudget) -> Vec<String> {
    vec![
        pair.network.clone(),
        pair.from.clone(),
        pair.to.clone(),
        pair.contacts.to_string(),
        pair.open.to_string(),
        pair.capacity.to_string(),
        pair.light_time.map_or_else(|| "none: not used".to_owned(), time),
    ]
}

/// Returns the nodes of a path, without those in the middle of a long one.
fn way(path: &[String]) -> String {
    if path.len() <= 2 * PATH_END + 1 {
        return path.join(" - ");
    }
    let (first, last) = (&path[..PATH_END], &path[path.len() - PATH_END..]);
    let more = path.len() - 2 * PATH_END;
    format!("{} - ({more} more) - {}", first.join(" - "), last.join(" - "))
}

impl fmt::Display for BundleForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Bundles of {}\n", self.flow)?;
        writeln!(f, "  {:<22} {} bundles, {}", "offered", self.bundles, self.offered)?;
        for (name, arrival) in [("first bundle", &self.first), ("last bundle", &self.last)] {
            if let Some(Arrival { ready, at, path }) = arrival {
                let (from, to) = (ready.as_secs_f64(), at.as_secs_f64());
                writeln!(f, "  {name:<22} of {from:.1} s arrives at {to:.1} s by {}", way(path))?;
            }
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "  note: {warning}"))
    }
}

/// Writes the cost of a packet on a Wi-Fi link.
fn wifi(f: &mut fmt::Formatter<'_>, link: &LinkBudget) -> fmt::Result {
    let Some(wifi) = &link.wifi else { return Ok(()) };
    let us = |span: Span| format!("{:.0} us", span.as_secs_f64() * 1e6);
    let before =
        if wifi.before.is_zero() { String::new() } else { format!("reservation {}, ", us(wifi.before)) };
    writeln!(
        f,
        "  note: {} {}: {before}frame {}, ACK {}, DIFS and mean backoff {}; up to {} transmissions; both directions share the medium",
        link.name,
        link.direction,
        us(wifi.data),
        us(wifi.ack),
        us(wifi.access),
        wifi.attempts
    )
}

fn link_row(link: &LinkBudget) -> Vec<String> {
    let cells = link.cells.zip(link.padding);
    let cells =
        cells.map_or_else(String::new, |(cells, padding)| format!(" ({cells} cells, {padding} padding)"));
    vec![
        format!("{} {}", link.name, link.direction),
        rate(link.rate),
        link.delay.to_string(),
        link.mtu.to_string(),
        link.packet.to_string(),
        format!("{}{cells}", link.on_line),
        rate(link.capacity),
        link.queue.clone().unwrap_or_else(|| "of the medium".to_owned()),
        link.flows.to_string(),
    ]
}

/// Number of rates of a link that are shown with their parts of the time.
const RATES_SHOWN: usize = 6;

fn over_time_row(link: &LinkBudget) -> Vec<String> {
    let mut row = vec![format!("{} {}", link.name, link.direction)];
    let mean: f64 = link.rates.iter().map(|held| held.rate.as_bps() as f64 * held.share).sum();
    row.extend(match (link.rates.first(), link.rates.last()) {
        (Some(least), Some(most)) => {
            [rate(least.rate), rate(Rate::from_bps(mean.round() as u64)), rate(most.rate), parts(&link.rates)]
        }
        _ => [rate(link.rate), String::new(), String::new(), String::new()],
    });
    row.extend(match link.delays {
        Some(delays) => [time(delays.least), time(delays.mean), time(delays.most)],
        None => [time(link.delay), String::new(), String::new()],
    });
    row
}

/// Returns rates with their parts of the time, those with the greatest.
fn parts(rates: &[RateShare]) -> String {
    let mut rates = rates.to_vec();
    rates.sort_by(|a, b| b.share.total_cmp(&a.share));
    let part = |held: &RateShare| format!("{} {:.1} %", rate(held.rate), 100.0 * held.share);
    let mut parts: Vec<String> = rates.iter().take(RATES_SHOWN).map(part).collect();
    parts.extend((rates.len() > RATES_SHOWN).then(|| format!("{} others", rates.len() - RATES_SHOWN)));
    parts.join(", ")
}

fn voice_row(link: &LinkBudget) -> Option<Vec<String>> {
    let voice = link.voice.as_ref()?;
    Some(vec![
        format!("{} {}", link.name, link.direction),
        format!("{:.1}", voice.calls),
        format!("{:.0}", voice.packets_per_s),
        rate(voice.rate),
        rate(voice.on_line),
        format!("{:.1} %{}", 100.0 * voice.share, if voice.share > 1.0 + 1e-9 { " (too much)" } else { "" }),
    ])
}

fn terminal_row(terminal: &ShareBudget) -> Vec<String> {
    let copies = if terminal.copies > 1 { format!(" ({} copies)", terminal.copies) } else { String::new() };
    let grant = terminal
        .request_to_grant
        .map(|[least, mean, most]| format!("{} to {}, mean {}", time(least), time(most), time(mean)));
    vec![
        format!("{} {}{copies}", terminal.name, terminal.direction),
        terminal.carrier.clone(),
        rate(terminal.granularity),
        rate(terminal.least),
        rate(terminal.most),
        rate(terminal.share),
        grant.unwrap_or_else(|| "piggybacked on bursts".to_owned()),
    ]
}

fn packets(flow: &FlowBudget) -> String {
    if flow.is_unsized {
        return format!("of lengths that are not forecast (path MTU {})", flow.mtu);
    }
    let one = match flow.payload == flow.packet {
        // Those of a capture, whose headers are not known apart.
        true => format!(
            "{} on average; goodput and offered count their headers (path MTU {})",
            flow.packet, flow.mtu
        ),
        false => format!("{} of payload in {} (path MTU {})", flow.payload, flow.packet, flow.mtu),
    };
    match flow.fragments {
        1 => one,
        count => format!("{one}, mean of the {count} fragments of a datagram"),
    }
}

impl FlowBudget {
    /// Returns `true` if others leave it less than it asks for.
    fn is_shared(&self) -> bool {
        let window = self.tcp.as_ref().map(|tcp| tcp.window_limit);
        let arrives = |rate: Rate| rate.mul_f64(1.0 - self.lost);
        let asks = [Some(self.ceiling), self.by_answers, self.offered.map(arrives), window.map(arrives)]
            .into_iter()
            .flatten()
            .min();
        asks.is_some_and(|asks| (self.fair_share.as_bps() as f64) < asks.as_bps() as f64 * 0.9999 - 1.0)
    }
}

impl fmt::Display for FlowBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copies = if self.copies > 1 { format!(" ({} copies)", self.copies) } else { String::new() };
        writeln!(f, "Flow {}{copies}: {}\n", self.name, way(&self.path))?;
        let mut rows = vec![
            ("packets", packets(self)),
            ("one way", self.one_way.map_or_else(|| NOTHING.to_owned(), time)),
        ];
        if self.is_unsized {
            rows.truncate(1);
            rows.push(("max goodput", "not forecast".to_owned()));
        } else {
            rows.push(("bottleneck", self.bottleneck.clone()));
            rows.push(("max goodput", rate(self.ceiling)));
        }
        rows.extend(
            self.by_answers
                .map(|by_answers| ("as ACKs allow", format!("{}, once its window stays", rate(by_answers)))),
        );
        rows.extend(self.compressed.iter().map(|on| ("compressed", compressed(on, self.offered))));
        if self.lost > 0.0 {
            rows.push(("lost by channels", percent(self.lost)));
        }
        if self.is_shared() && !self.is_unsized {
            rows.push(("fair share", rate(self.fair_share)));
        }
        rows.extend(self.voice.as_ref().map(|voice| ("calls", calls(voice))));
        rows.extend(self.offered.map(|offered| ("offered", format!("{} each", rate(offered)))));
        let min_rtt = self.min_rtt.filter(|_| !self.is_unsized);
        rows.extend(min_rtt.map(|rtt| ("min RTT", time(rtt))));
        let range = |[least, mean, most]: [Span; 3]| {
            format!("{} to {}, mean {}", time(least), time(most), time(mean))
        };
        let round_trips = self.round_trips.filter(|_| !self.is_unsized);
        rows.extend(round_trips.map(|trips| ("RTT without queueing", range(trips))));
        if let Some(tcp) = &self.tcp {
            rows.push(("window", format!("{} allowed, {} needed", tcp.window_allowed, tcp.window_needed)));
            rows.push(("window-limited goodput", rate(tcp.window_limit)));
            rows.push(("buffer needed", tcp.buffer_needed.to_string()));
            let slow_start = tcp.slow_start.map_or_else(|| "not forecast".to_owned(), time);
            rows.push(("slow start", slow_start));
            rows.extend(tcp.with_slow_start.map(|goodput| ("with slow start", rate(goodput))));
            rows.extend(tcp.completion.map(|completion| ("completion, at least", time(completion))));
        }
        rows.iter().try_for_each(|(name, value)| writeln!(f, "  {name:<22} {value}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "  note: {warning}"))
    }
}

/// Describes calls on a part of their way.
fn calls(voice: &CallBudget) -> String {
    let CallBudget { calls, codec, form, packets_per_s: [there, back] } = voice;
    let per_s = if (there - back).abs() < 0.5 {
        format!("{there:.0} packets/s each way")
    } else {
        format!("{there:.0} packets/s there, {back:.0} back")
    };
    format!("{calls:.1} at a time, {codec} in {form}, {per_s}")
}

/// Delay of a path that carries nothing.
const NOTHING: &str = "nothing gets through at the start";

/// Describes header compression on a link, for flows of `offered` payload.
fn compressed(on: &CompressedFlow, offered: Option<Rate>) -> String {
    let Compressed { packet_bytes, compressed_bytes, on_line_bytes } = on.lengths;
    let room = match (on.room, offered) {
        (Some(room), _) => format!("; room for {room} such flows"),
        (None, Some(_)) => "; no bound of such flows".to_owned(),
        (None, None) => String::new(),
    };
    format!(
        "{packet_bytes:.1} B to {compressed_bytes:.1} B on {}, {on_line_bytes:.1} B on the line{room}",
        on.link
    )
}

/// Returns a rate with four digits.
pub(crate) fn rate(rate: Rate) -> String {
    let (scale, unit) = match rate.as_bps() {
        n if n >= 1_000_000_000 => (1e9, "Gbit/s"),
        n if n >= 1_000_000 => (1e6, "Mbit/s"),
        n if n >= 1_000 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    let text = format!("{:.2}", rate.as_bps() as f64 / scale);
    format!("{} {unit}", text.strip_suffix(".00").unwrap_or(&text))
}

/// Returns a part in per cent, with two digits that count.
pub(super) fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    let digits = if percent < 0.01 { 4 } else { 2 };
    format!("{percent:.digits$} %")
}

/// Milliseconds or seconds to three digits.
pub(super) fn time(span: Span) -> String {
    let seconds = span.as_secs_f64();
    if bounded(span).is_none() {
        return "no bound".to_owned();
    }
    if seconds >= 10.0 { format!("{seconds:.1} s") } else { format!("{:.1} ms", seconds * 1e3) }
}

/// Columns as wide as their widest cell.
fn table(f: &mut fmt::Formatter<'_>, head: &[&str], rows: Vec<Vec<String>>) -> fmt::Result {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..all[0].len()).map(width).collect();
    for row in &all {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::way;

    #[test]
    fn a_long_path_is_shown_by_its_ends() {
        let nodes = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(way(&nodes(13)), "0 - 1 - 2 - 3 - 4 - 5 - 6 - 7 - 8 - 9 - 10 - 11 - 12");
        assert_eq!(
            way(&nodes(1000)),
            "0 - 1 - 2 - 3 - 4 - 5 - (988 more) - 994 - 995 - 996 - 997 - 998 - 999"
        );
    }
}
