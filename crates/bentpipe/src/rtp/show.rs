//! Figures as tables, CSV and JSON, and how far a long run is.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use bentpipe_emu::Lateness;
use bentpipe_emu::rtp::{Figures, Overall, Plan, Receiver, Reception, StreamId, Tally};
use bentpipe_lab::report::{Cell as TableCell, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::lateness_json;
use crate::show::table;

/// Between lines where no terminal shows a bar.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Packets so far: a bar on a terminal, otherwise a line now and then.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: bool,
    next_line: Cell<Instant>,
}

impl Progress {
    /// Up to `all` packets, if that is known.
    #[expect(clippy::disallowed_methods, reason = "how long it takes is shown")]
    pub(super) fn new(quiet: bool, all: Option<u64>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar =
            match all {
                _ if quiet || !terminal => ProgressBar::hidden(),
                Some(all) => ProgressBar::new(all)
                    .with_style(style("{bar:32} {percent:>3} %  {pos} packets, {eta} to go")),
                None => ProgressBar::no_length()
                    .with_style(style("{pos} packets  {elapsed} gone, Ctrl-C ends it")),
            };
        Progress { bar, lines: !quiet && !terminal, next_line: Cell::new(Instant::now() + LINE_EVERY) }
    }

    #[expect(clippy::disallowed_methods, reason = "how long it takes is shown")]
    pub(super) fn show(&self, packets: u64) {
        self.bar.set_position(packets);
        let now = Instant::now();
        if self.lines && now >= self.next_line.get() {
            let _ = writeln!(std::io::stderr(), "{packets} packets");
            self.next_line.set(now + LINE_EVERY);
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// What was sent.
pub(super) fn sent(plan: &Plan, tally: &Tally) -> String {
    let format = plan.format();
    let each = format!("{} B of payload each {}", format.payload_len, format.interval);
    let seconds = tally.elapsed.as_secs_f64();
    let mut text =
        format!("sent {} packets of {} streams in {seconds:.3} s, {each}\n", tally.packets, plan.streams());
    if let (Some(error), refused @ 1..) = (&tally.error, tally.refused) {
        text += &format!("refused by the kernel: {refused} packets ({error})\n");
    }
    text + &format!("packets left after their time by {}\n", lateness(&tally.lateness))
}

fn lateness(late: &Lateness) -> String {
    format!("p50 {}, p99 {}, max {}", late.quantile(0.5), late.quantile(0.99), late.max())
}

/// What came: the first `rows` streams, and all together.
pub(super) fn received(receiver: &Receiver, rows: usize) -> String {
    let reception = receiver.reception();
    let streams = reception.streams();
    if streams.is_empty() {
        return "no stream came\n".into();
    }
    let listed = streams.iter().take(rows).map(|(id, figures)| row(reception, *id, figures)).collect();
    let mut text =
        table(&Table { caption: String::new(), head: HEAD.map(String::from).to_vec(), rows: listed });
    if streams.len() > rows {
        text += &format!("  and {} more (--rows)\n", streams.len() - rows);
    }
    text += &together(&reception.overall());
    text + &format!("this machine's timers were late by {}\n", lateness(receiver.timer_lateness()))
}

/// Times are in milliseconds.
const HEAD: [&str; 11] = [
    "port",
    "SSRC",
    "packets",
    "lost",
    "twice",
    "late",
    "interval ms",
    "deviation ms",
    "jitter ms",
    "delay ms",
    "max ms",
];

fn row(reception: &Reception, id: StreamId, figures: &Figures) -> Vec<TableCell> {
    [
        id.port.to_string(),
        format!("{:08x}", id.ssrc),
        figures.packets.to_string(),
        figures.lost().to_string(),
        figures.duplicates.to_string(),
        figures.reordered.to_string(),
        ms(figures.mean_interval_ns()),
        ms(figures.interval_deviation_ns()),
        ms(reception.jitter_ns(figures)),
        ms(figures.delay.mean()),
        ms(figures.delay.range().map(|(_, max)| max)),
    ]
    .map(TableCell::Number)
    .to_vec()
}

fn ms(nanos: Option<f64>) -> String {
    nanos.map_or("-".into(), |nanos| format!("{:.3}", nanos / 1e6))
}

fn together(overall: &Overall) -> String {
    let seconds = overall.elapsed_ns as f64 / 1e9;
    let share = 100.0 * overall.lost as f64 / overall.expected.max(1) as f64;
    let mut text = format!(
        "together: {} streams, {} packets in {seconds:.3} s, {} lost ({share:.3} %), {} twice, {} late\n",
        overall.streams, overall.packets, overall.lost, overall.duplicates, overall.reordered
    );
    text += &format!(
        "mean interval {} ms, its deviation {} ms (eqs 6, 7), jitter {} ms (RFC 3550)\n",
        ms(overall.mean_interval_ns),
        ms(overall.interval_deviation_ns),
        ms(overall.jitter_ns)
    );
    if let Some(delay) = overall.delay_ns {
        let [mean, min, p50, p99, max] =
            [delay.mean, delay.min, delay.p50, delay.p99, delay.max].map(|nanos| ms(Some(nanos)));
        text += &format!("one-way delay {mean} ms: min {min}, p50 {p50}, p99 {p99}, max {max}\n");
    }
    text
}

/// What should be known beside the figures.
pub(super) fn problems(receiver: &Receiver) -> Vec<String> {
    let strays = receiver.reception().strays();
    let all = [
        (strays.not_rtp, "datagrams were no RTP"),
        (strays.rtcp, "datagrams were RTCP, which is not read"),
        (
            receiver.reception().singles() + strays.forgotten,
            "sources sent one packet only; they are not in the table",
        ),
        (strays.refused, "packets were of streams that there was no room for (--streams)"),
        (
            receiver.overflows(),
            "datagrams were dropped by the kernel, as this program was too slow to read them",
        ),
        (receiver.errors(), "errors of sockets"),
        (
            receiver.clock_steps(),
            "times the machine's clock was set meanwhile: intervals and delays around that are wrong",
        ),
    ];
    all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// A line for each stream. Times are in seconds.
pub(super) fn csv(reception: &Reception) -> String {
    let mut text =
        "port,ssrc,payload_type,packets,bytes,expected,lost,duplicates,reordered,strays,restarts,markers,\
                    interval_mean_s,interval_deviation_s,interval_min_s,interval_max_s,jitter_rfc3550_s,\
                    delay_mean_s,delay_min_s,delay_max_s\n"
            .to_owned();
    for (id, figures) in reception.streams() {
        let value = stream_json(reception, id, figures);
        let cells = value.as_object().into_iter().flatten().map(|(_, value)| match value {
            Value::Null => String::new(),
            value => value.to_string(),
        });
        text += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// One stream; its keys in this order are the columns of the CSV.
fn stream_json(reception: &Reception, id: StreamId, figures: &Figures) -> Value {
    let (intervals, delays) = (figures.intervals.range(), figures.delay.range());
    json!({
        "port": id.port,
        "ssrc": id.ssrc,
        "payload_type": figures.payload_type,
        "packets": figures.packets,
        "bytes": figures.bytes,
        "expected": figures.expected(),
        "lost": figures.lost(),
        "duplicates": figures.duplicates,
        "reordered": figures.reordered,
        "strays": figures.strays(),
        "restarts": figures.restarts(),
        "markers": figures.markers,
        "interval_mean_s": seconds(figures.mean_interval_ns()),
        "interval_deviation_s": seconds(figures.interval_deviation_ns()),
        "interval_min_s": seconds(intervals.map(|range| range.0)),
        "interval_max_s": seconds(intervals.map(|range| range.1)),
        "jitter_rfc3550_s": seconds(reception.jitter_ns(figures)),
        "delay_mean_s": seconds(figures.delay.mean()),
        "delay_min_s": seconds(delays.map(|range| range.0)),
        "delay_max_s": seconds(delays.map(|range| range.1)),
    })
}

fn seconds(nanos: Option<f64>) -> Option<f64> {
    nanos.map(|nanos| nanos / 1e9)
}

/// Everything.
pub(super) fn json(receiver: &Receiver) -> Value {
    let reception = receiver.reception();
    let (overall, strays) = (reception.overall(), reception.strays());
    let delay = overall.delay_ns.map(|delay| {
        json!({
            "mean_s": delay.mean / 1e9, "min_s": delay.min / 1e9, "p50_s": delay.p50 / 1e9,
            "p99_s": delay.p99 / 1e9, "max_s": delay.max / 1e9,
        })
    });
    let streams = reception.streams().into_iter().map(|(id, figures)| stream_json(reception, id, figures));
    json!({
        "overall": {
            "streams": overall.streams,
            "packets": overall.packets,
            "bytes": overall.bytes,
            "expected": overall.expected,
            "lost": overall.lost,
            "duplicates": overall.duplicates,
            "reordered": overall.reordered,
            "elapsed_s": overall.elapsed_ns as f64 / 1e9,
            "interval_mean_s": seconds(overall.mean_interval_ns),
            "interval_deviation_s": seconds(overall.interval_deviation_ns),
            "jitter_rfc3550_s": seconds(overall.jitter_ns),
            "delay": delay,
        },
        "strays": {
            "not_rtp": strays.not_rtp,
            "rtcp": strays.rtcp,
            "refused": strays.refused,
            "single_packet_sources": reception.singles() + strays.forgotten,
            "dropped_by_kernel": receiver.overflows(),
            "socket_errors": receiver.errors(),
            "clock_steps": receiver.clock_steps(),
        },
        "timer_lateness": lateness_json(receiver.timer_lateness()),
        "streams": streams.collect::<Vec<_>>(),
    })
}
