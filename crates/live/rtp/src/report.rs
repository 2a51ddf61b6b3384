//! Results as text, CSV and JSON.

use bentpipe_emu::Lateness;
use bentpipe_record::{Cell, Table};
use bentpipe_units::Span;
use serde_json::{Value, json};

use crate::{Figures, Overall, Plan, Receiver, Reception, Sender, StreamId, Tally};

/// Describes what was sent.
pub fn sent_text(plan: &Plan, tally: &Tally) -> String {
    let format = plan.format();
    let mut each = format!("{} B of payload each {}", format.payload_len, format.interval);
    if let Some(refresh) = plan.refresh() {
        each += &format!(", {} in refreshes, at the end each {}th", refresh.payload, refresh.every);
    }
    let seconds = tally.elapsed.as_secs_f64();
    let mut text =
        format!("sent {} packets of {} in {seconds:.3} s, {each}\n", tally.packets, streams(plan.streams()));
    if let (Some(error), refused @ 1..) = (&tally.error, tally.refused) {
        text += &format!("refused by the kernel: {refused} packets ({error})\n");
    }
    text + &format!("packets left after their time by {}\n", lateness(&tally.lateness))
}

fn lateness(late: &Lateness) -> String {
    format!("p50 {}, p99 {}, max {}", late.quantile(0.5), late.quantile(0.99), late.max())
}

/// Describes what was received: a table of the first `rows` streams, and the totals.
pub fn received_text(receiver: &Receiver, rows: usize) -> String {
    let reception = receiver.reception();
    let streams = reception.streams();
    if streams.is_empty() {
        return "no stream came\n".into();
    }
    let listed = streams.iter().take(rows).map(|(id, figures)| row(reception, *id, figures)).collect();
    let mut text =
        Table { caption: String::new(), head: HEAD.map(String::from).to_vec(), rows: listed }.to_text(false);
    if streams.len() > rows {
        text += &format!("  and {} more (--rows)\n", streams.len() - rows);
    }
    text += &together(&reception.overall(), receiver.delay_error());
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

fn row(reception: &Reception, id: StreamId, figures: &Figures) -> Vec<Cell> {
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
    .map(Cell::Number)
    .to_vec()
}

fn ms(nanos: Option<f64>) -> String {
    nanos.map_or("-".into(), |nanos| format!("{:.3}", nanos / 1e6))
}

/// Returns a number of streams in words.
fn streams(count: impl Into<u64>) -> String {
    match count.into() {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    }
}

fn together(overall: &Overall, error: Span) -> String {
    let seconds = overall.elapsed_ns as f64 / 1e9;
    let share = 100.0 * overall.lost as f64 / overall.expected.max(1) as f64;
    let mut text = format!(
        "together: {}, {} packets in {seconds:.3} s, {} lost ({share:.3} %), {} twice, {} late\n",
        streams(overall.streams),
        overall.packets,
        overall.lost,
        overall.duplicates,
        overall.reordered
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
        if !error.is_zero() {
            text += &format!("by clocks of two machines, at most {error} apart as stated\n");
        }
    }
    text
}

/// Describes the conditions that make the figures incomplete or wrong, one a line.
pub fn problems(receiver: &Receiver) -> Vec<String> {
    let strays = receiver.reception().strays();
    let restarts: u64 = receiver.reception().streams().iter().map(|(_, figures)| figures.restarts()).sum();
    let isolated: u64 = receiver.reception().streams().iter().map(|(_, figures)| figures.strays()).sum();
    let all = [
        (restarts, "restarts of senders; losses around them are not known"),
        (isolated, "packets had a number of no stream, and none behind them; they count as packets"),
        (strays.not_rtp, "datagrams were no RTP"),
        (strays.rtcp, "datagrams were RTCP, which is not read"),
        (
            receiver.reception().singles() + strays.forgotten,
            "sources sent one packet only; they are not in the table",
        ),
        (strays.refused, "packets were of streams beyond --streams"),
        (
            strays.displaced,
            "streams were left out of the table, as their host had more than half of --streams and others came",
        ),
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

/// Writes one line per stream as CSV. Times are in seconds.
pub fn streams_csv(reception: &Reception) -> String {
    let mut lines = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let in_memory = "writing to memory does not fail";
    lines.write_record(COLUMNS).expect(in_memory);
    for (id, figures) in reception.streams() {
        let value = stream_json(reception, id, figures);
        let cells = value.as_object().into_iter().flatten().map(|(_, value)| match value {
            Value::Null => String::new(),
            value => value.to_string(),
        });
        lines.write_record(cells).expect(in_memory);
    }
    String::from_utf8(lines.into_inner().expect(in_memory)).expect("numbers are ASCII")
}

/// Columns of the CSV.
const COLUMNS: [&str; 20] = [
    "port",
    "ssrc",
    "payload_type",
    "packets",
    "bytes",
    "expected",
    "lost",
    "duplicates",
    "reordered",
    "strays",
    "restarts",
    "markers",
    "interval_mean_s",
    "interval_deviation_s",
    "interval_min_s",
    "interval_max_s",
    "jitter_rfc3550_s",
    "delay_mean_s",
    "delay_min_s",
    "delay_max_s",
];

/// Describes one stream as JSON. Its keys are the columns of the CSV, in order.
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

/// Describes a reception as JSON.
pub fn received_json(receiver: &Receiver) -> Value {
    let reception = receiver.reception();
    let (overall, strays) = (reception.overall(), reception.strays());
    let delay = overall.delay_ns.map(|delay| {
        json!({
            "mean_s": delay.mean / 1e9, "min_s": delay.min / 1e9, "p50_s": delay.p50 / 1e9,
            "p95_s": delay.p95 / 1e9, "p99_s": delay.p99 / 1e9, "max_s": delay.max / 1e9,
            "clock_error_s": receiver.delay_error().as_secs_f64(),
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
            "displaced_streams": strays.displaced,
            "displaced_packets": strays.displaced_packets,
            "single_packet_sources": reception.singles() + strays.forgotten,
            "dropped_by_kernel": receiver.overflows(),
            "socket_errors": receiver.errors(),
            "clock_steps": receiver.clock_steps(),
        },
        "timer_lateness": lateness_json(receiver.timer_lateness()),
        "streams": streams.collect::<Vec<_>>(),
    })
}

/// Describes a transmission as JSON.
pub fn sent_json(plan: &Plan, sender: &Sender, tally: &Tally) -> Value {
    let format = plan.format();
    json!({
        "streams": plan.streams(),
        "payload_type": format.payload_type,
        "payload_bytes": format.payload_len,
        "refresh_bytes": plan.refresh().map(|refresh| refresh.payload.get()),
        "refresh_every": plan.refresh().map(|refresh| refresh.every),
        "interval_s": format.interval.as_secs_f64(),
        "clock_hz": format.clock_hz,
        "ssrcs": sender.ssrcs().collect::<Vec<_>>(),
        "packets": tally.packets,
        "bytes": tally.bytes,
        "refused": tally.refused,
        "elapsed_s": tally.elapsed.as_secs_f64(),
        "lateness": lateness_json(&tally.lateness),
    })
}

fn lateness_json(late: &Lateness) -> Value {
    let seconds = |share: f64| late.quantile(share).as_secs_f64();
    json!({
        "count": late.count(), "p50_s": seconds(0.5), "p99_s": seconds(0.99), "max_s": late.max().as_secs_f64(),
    })
}
