//! Text for the terminal: a table each second, and totals.

use bentpipe_record::{Cell, Table};
use bentpipe_units::Span;

use crate::{RemoteStatistics, Statistics};

/// Returns the table of the time between two looks.
pub(crate) fn second(title: &str, before: &Statistics, now: &Statistics) -> String {
    let span_s = (now.uptime - before.uptime).as_secs_f64().max(1e-9);
    let head = [
        "site",
        "out packets/s",
        "Mbit/s",
        "headers",
        "queue B",
        "dropped",
        "in packets/s",
        "Mbit/s",
        "breaks",
        "CRC",
        "ROHC",
    ];
    let rows = now.remotes.iter().map(|remote| {
        let empty = RemoteStatistics::default();
        let before = before.remotes.iter().find(|old| old.name == remote.name).unwrap_or(&empty);
        row(before, remote, span_s)
    });
    let table =
        Table { caption: String::new(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() };
    let carrier = (&before.carrier, &now.carrier);
    let mbit_s = (carrier.1.bytes - carrier.0.bytes.min(carrier.1.bytes)) as f64 * 8.0 / span_s / 1e6;
    let [p50, p99, max] = now.lateness;
    format!(
        "{title}: {} up, carrier {mbit_s:.3} Mbit/s, {} data, {} NULL, late {p50} / {p99} / {max} (median, 99 %, worst), processor {:.1} %{}\n{}",
        Span::from_millis(now.uptime.as_nanos() / 1_000_000),
        carrier.1.data - carrier.0.data.min(carrier.1.data),
        carrier.1.nulls - carrier.0.nulls.min(carrier.1.nulls),
        100.0 * (now.cpu.as_secs_f64() - before.cpu.as_secs_f64()) / span_s,
        overflows(now),
        table.to_text(false)
    )
}

/// Returns the datagrams dropped by the kernel in words, if any.
fn overflows(all: &Statistics) -> String {
    match all.inputs.iter().map(|input| input.overflows).sum::<u64>() {
        0 => String::new(),
        dropped => format!(", {dropped} datagrams dropped by the kernel"),
    }
}

fn row(before: &RemoteStatistics, now: &RemoteStatistics, span_s: f64) -> Vec<Cell> {
    let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 / span_s;
    let sum = |remote: &RemoteStatistics, count: fn(&bentpipe_dvb::Received) -> u64| -> u64 {
        remote.received.iter().map(|(_, received)| count(received)).sum()
    };
    let received = |count| per_s(sum(before, count), sum(now, count));
    let headers = |of: fn(&RemoteStatistics) -> u64| of(now).saturating_sub(of(before)) as f64;
    let (header_in, header_out) =
        (headers(|remote| remote.compression.header_in), headers(|remote| remote.compression.header_out));
    let share =
        if header_in > 0.0 { format!("{:.0} %", 100.0 * header_out / header_in) } else { "-".to_owned() };
    let dropped = |remote: &RemoteStatistics| remote.overflowed + remote.sent.dropped + remote.sent.refused;
    let number = |value: f64, digits: usize| Cell::Number(format!("{value:.digits$}"));
    vec![
        Cell::Text(now.name.clone()),
        number(per_s(before.sent.pdus, now.sent.pdus), 0),
        number(per_s(before.sent.pdu_bytes, now.sent.pdu_bytes) * 8e-6, 3),
        Cell::Number(share),
        Cell::Number(now.queue_bytes.to_string()),
        Cell::Number(dropped(now).to_string()),
        number(received(|received| received.pdus), 0),
        number(received(|received| received.pdu_bytes) * 8e-6, 3),
        Cell::Number(sum(now, |received| received.continuity_errors).to_string()),
        Cell::Number(sum(now, |received| received.crc_errors).to_string()),
        Cell::Number(sum(now, |received| received.rohc.refused).to_string()),
    ]
}

/// Returns the totals.
pub(crate) fn totals(title: &str, all: &Statistics) -> String {
    let mut text = format!(
        "{title}: {} s; to the sites {} packets and {} bytes from the device, from them {} packets and {} bytes to it\n",
        all.uptime.as_secs_f64().round(),
        all.lan.read,
        all.lan.read_bytes,
        all.lan.written,
        all.lan.written_bytes
    );
    let carrier = &all.carrier;
    text.push_str(&format!(
        "carrier: {} packets or frames of data, {} of tables, {} NULL, {} bytes in {} datagrams{}\n",
        carrier.data,
        carrier.tables,
        carrier.nulls,
        carrier.bytes,
        carrier.datagrams,
        overflows(all)
    ));
    let head =
        ["site", "sent", "compressed", "headers", "dropped", "received", "breaks", "CRC", "ROHC refused"];
    let rows = all.remotes.iter().map(|remote| {
        let sum = |count: fn(&bentpipe_dvb::Received) -> u64| {
            Cell::Number(remote.received.iter().map(|(_, received)| count(received)).sum::<u64>().to_string())
        };
        let compression = &remote.compression;
        let share = 100.0 * compression.header_out as f64 / compression.header_in as f64;
        let share = if share.is_finite() { format!("{share:.1} %") } else { "-".to_owned() };
        vec![
            Cell::Text(remote.name.clone()),
            Cell::Number(remote.sent.pdus.to_string()),
            Cell::Number(remote.sent.compressed.to_string()),
            Cell::Number(share),
            Cell::Number((remote.overflowed + remote.sent.dropped + remote.sent.refused).to_string()),
            sum(|received| received.pdus),
            sum(|received| received.continuity_errors),
            sum(|received| received.crc_errors),
            sum(|received| received.rohc.refused),
        ]
    });
    let table =
        Table { caption: String::new(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() };
    text.push_str(&table.to_text(false));
    text
}
