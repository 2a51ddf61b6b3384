//! The statistics as one table, from which lines of JSON and Prometheus' text are made.

use std::fmt::Write as _;

use crate::{RemoteStatistics, Statistics};
use bentpipe_units::Span;
use serde_json::{Map, Value, json};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Count that only grows.
    Counter,
    /// Value that rises and falls.
    Gauge,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Metric {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    /// Labels: names and values.
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Metric {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the help text.
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// Returns the value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the name and the labels.
    pub fn place(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key} {value}")).collect();
        if labels.is_empty() {
            self.name.to_owned()
        } else {
            format!("{} of {}", self.name, labels.join(", "))
        }
    }
}

/// Adds figures that are of the same thing.
struct Rows<'a> {
    metrics: &'a mut Vec<Metric>,
    labels: Vec<(&'static str, String)>,
}

impl Rows<'_> {
    fn add(&mut self, kind: Kind, name: &'static str, help: &'static str, value: f64) {
        let labels = self.labels.clone();
        self.metrics.push(Metric { name, help, kind, labels, value });
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.add(Kind::Counter, name, help, value as f64);
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.add(Kind::Gauge, name, help, value);
    }
}

/// Returns all metrics.
pub fn metrics(statistics: &Statistics) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut rows = Rows { metrics: &mut metrics, labels: Vec::new() };
    site(statistics, &mut rows);
    for (n, output) in statistics.outputs.iter().enumerate() {
        rows.labels = vec![("output", n.to_string())];
        rows.counter("output_sent", "Datagrams or pieces that went to a receiver", output.sent);
        rows.counter("output_dropped", "Datagrams or pieces that a receiver had no room for", output.dropped);
        rows.counter("output_restarts", "Times that the program was started again", output.restarts);
    }
    for (n, input) in statistics.inputs.iter().enumerate() {
        rows.labels = vec![("input", n.to_string())];
        let datagrams = &input.datagrams;
        rows.counter("input_datagrams", "Datagrams taken", datagrams.datagrams);
        rows.counter("input_packets", "TS packets taken", datagrams.packets);
        rows.counter(
            "input_wrong_length",
            "Datagrams of no whole number of TS packets",
            datagrams.wrong_length,
        );
        rows.counter("input_no_sync", "Datagrams with a TS packet without sync byte", datagrams.no_sync);
        rows.counter(
            "input_no_rtp",
            "Datagrams without an RTP header of a transport stream",
            datagrams.no_rtp,
        );
        rows.counter("input_strangers", "Datagrams from others than the input is for", input.strangers);
        rows.counter(
            "input_overflows",
            "Datagrams that the kernel dropped before they were read",
            input.overflows,
        );
        rows.counter("input_missing", "RTP datagrams that never came", datagrams.missing);
        rows.counter("input_out_of_order", "RTP datagrams that came late or twice", datagrams.out_of_order);
        rows.counter(
            "input_framing_losses",
            "Times that the packets' place in a stream was lost",
            input.framing_losses,
        );
        rows.counter(
            "input_skipped_bytes",
            "Bytes of a stream that belong to no packet",
            input.skipped_bytes,
        );
        rows.counter("input_restarts", "Times that the program was started again", input.restarts);
        rows.counter("input_errors", "Errors of the system", input.errors);
    }
    for remote in &statistics.remotes {
        rows.labels = vec![("remote", remote.name.clone())];
        sent(remote, &mut rows);
        for (pid, received) in &remote.received {
            rows.labels = vec![("remote", remote.name.clone()), ("pid", format!("{pid:#x}"))];
            self::received(received, &mut rows);
        }
    }
    metrics
}

fn site(statistics: &Statistics, rows: &mut Rows<'_>) {
    let (lan, carrier, strays) = (&statistics.lan, &statistics.carrier, &statistics.strays);
    rows.gauge("uptime_seconds", "How long the gateway has been running", statistics.uptime.as_secs_f64());
    rows.add(
        Kind::Counter,
        "cpu_seconds",
        "Processor time of the gateway's thread",
        statistics.cpu.as_secs_f64(),
    );
    rows.counter("lan_read_packets", "Packets or frames from the device", lan.read);
    rows.counter("lan_read_bytes", "Their bytes", lan.read_bytes);
    rows.counter("lan_written_packets", "Packets or frames to the device", lan.written);
    rows.counter("lan_written_bytes", "Their bytes", lan.written_bytes);
    rows.counter("lan_read_errors", "Errors reading the device", lan.read_errors);
    rows.counter("lan_write_errors", "Packets or frames that the device did not take", lan.write_errors);
    rows.counter("lan_unrouted", "Packets for no remote site's network", lan.unrouted);
    rows.counter("bridge_local", "Frames between stations here", lan.local);
    rows.counter("bridge_flooded", "Frames that went to all remote sites", lan.flooded);
    rows.counter("bridge_reserved", "Frames that no bridge passes on", lan.reserved);
    rows.gauge("bridge_stations", "Stations in the table", lan.stations as f64);
    rows.counter("bridge_moves", "Times that a station moved", lan.station_moves);
    rows.counter("bridge_refused", "Frames whose source found the table full", lan.stations_refused);
    rows.counter("carrier_data", "TS packets or baseband frames with data", carrier.data);
    rows.counter("carrier_tables", "TS packets with tables", carrier.tables);
    rows.counter("carrier_nulls", "NULL packets", carrier.nulls);
    rows.counter("carrier_idle", "Slots in which nothing was sent", carrier.idle);
    rows.counter("carrier_skipped", "Slots lost because the program was stopped", carrier.skipped);
    rows.counter("carrier_datagrams", "Datagrams or pieces sent", carrier.datagrams);
    rows.counter("carrier_bytes", "Their bytes", carrier.bytes);
    let [p50, p99, max] = statistics.lateness.map(Span::as_secs_f64);
    rows.gauge("carrier_late_p50_seconds", "How late datagrams left: median", p50);
    rows.gauge("carrier_late_p99_seconds", "How late datagrams left: 99 %", p99);
    rows.gauge("carrier_late_max_seconds", "How late datagrams left: worst", max);
    rows.counter("stray_nulls", "NULL packets received", strays.nulls);
    rows.counter("stray_unknown", "TS packets or baseband frames of nobody", strays.unknown);
    rows.counter("stray_malformed", "Baseband frames that cannot be read", strays.malformed);
}

fn sent(remote: &RemoteStatistics, rows: &mut Rows<'_>) {
    let (sent, compression) = (&remote.sent, &remote.compression);
    rows.counter("sent_packets", "Packets encapsulated", sent.pdus);
    rows.counter("sent_bytes", "Their bytes", sent.pdu_bytes);
    rows.counter("sent_compressed", "Of them, those that went through header compression", sent.compressed);
    rows.counter("sent_sndu_bytes", "Bytes of SNDUs, sections or GSE packets", sent.sndu_bytes);
    rows.counter("sent_frames", "TS packets or baseband frames", sent.frames);
    rows.counter(
        "sent_flushed",
        "Of them, those padded because the packing threshold was over",
        sent.flushed,
    );
    rows.counter("sent_feedback", "SNDUs of ROHC feedback", sent.feedback);
    rows.counter("filter_dropped", "Packets that the filter dropped", sent.dropped);
    rows.counter("sent_refused", "Packets that cannot be carried", sent.refused);
    rows.counter("queue_dropped", "Packets dropped because as much waited as may", remote.overflowed);
    rows.gauge("queue_bytes", "What waits", remote.queue_bytes as f64);
    rows.counter("looped", "Packets from the site that were for it", remote.looped);
    rows.counter("rohc_header_bytes_in", "Bytes of headers before compression", compression.header_in);
    rows.counter("rohc_header_bytes_out", "Bytes of headers after it", compression.header_out);
    rows.counter("rohc_ir", "IR packets", compression.irs);
    rows.gauge("rohc_contexts", "Contexts of the compressor", remote.contexts as f64);
}

fn received(received: &bentpipe_dvb::Received, rows: &mut Rows<'_>) {
    rows.counter("received_frames", "TS packets or baseband frames", received.frames);
    rows.counter("received_sndus", "SNDUs, sections or GSE's PDUs", received.sndus);
    rows.counter("received_packets", "Packets that came out", received.pdus);
    rows.counter("received_bytes", "Their bytes", received.pdu_bytes);
    rows.counter("received_others", "SNDUs for somebody else", received.others);
    rows.counter("received_unknown", "PDUs of a type that is not carried here", received.unknown);
    rows.counter("received_duplicates", "TS packets that came before", received.duplicates);
    rows.counter("received_damaged", "Damaged TS packets", received.damaged);
    rows.counter("received_continuity_errors", "Jumps of the continuity counter", received.continuity_errors);
    rows.counter("received_crc_errors", "Wrong CRC-32s", received.crc_errors);
    rows.counter(
        "received_format_errors",
        "InvalidConfig lengths, pointers, types and labels",
        received.format_errors,
    );
    rows.counter("received_resynchronised", "Times that an SNDU was found again", received.resynchronised);
    let rohc = &received.rohc;
    rows.counter("rohc_received", "ROHC packets", rohc.received);
    rows.counter("rohc_delivered", "Of them, those decompressed", rohc.delivered);
    rows.counter("rohc_refused", "Of them, those refused", rohc.refused);
    rows.counter("rohc_crc_failures", "Headers whose CRC was wrong", rohc.crc_failures);
    rows.counter(
        "rohc_checksum_failures",
        "Packets whose transport checksum was wrong",
        rohc.checksum_failures,
    );
}

/// Prometheus' text format (version 0.0.4).
pub fn prometheus(site: &str, metrics: &[Metric]) -> String {
    let mut text = String::new();
    let mut names: Vec<&str> = Vec::new();
    for metric in metrics {
        if names.contains(&metric.name) {
            continue;
        }
        names.push(metric.name);
        let (kind, total) = match metric.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        let name = format!("bentpipe_gateway_{}{total}", metric.name);
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
        for same in metrics.iter().filter(|other| other.name == metric.name) {
            let labels = [("site", site)]
                .into_iter()
                .chain(same.labels.iter().map(|(key, value)| (*key, value.as_str())));
            let labels: Vec<String> =
                labels.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), same.value);
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the metrics as one object. It holds objects of outputs, inputs and remote sites, by their names.
pub fn json(site: &str, unix_time_s: f64, metrics: &[Metric]) -> Value {
    let mut root = Map::new();
    root.insert("time".to_owned(), json!(unix_time_s));
    root.insert("site".to_owned(), json!(site));
    for metric in metrics {
        let mut object = &mut root;
        for (key, value) in &metric.labels {
            object = inner(inner(object, key), value);
        }
        let is_whole = metric.value.fract() == 0.0 && metric.value.abs() < 9e15;
        let value = if is_whole { json!(metric.value as i64) } else { json!(metric.value) };
        object.insert(metric.name.to_owned(), value);
    }
    Value::Object(root)
}

fn inner<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let entry = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
    entry.as_object_mut().expect("no figure is called as what figures are of")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_dvb::Received;

    fn statistics() -> Statistics {
        let received = vec![(0x201, Received { crc_errors: 3, ..Received::default() })];
        let remote = |name: &str| RemoteStatistics {
            name: name.to_owned(),
            received: received.clone(),
            ..RemoteStatistics::default()
        };
        Statistics {
            remotes: vec![remote("b"), remote("quoted \"c\"")],
            outputs: vec![Default::default()],
            ..Statistics::default()
        }
    }

    #[test]
    fn json_has_a_place_for_each_figure() {
        let value = json("a", 1.5, &metrics(&statistics()));
        assert_eq!(value["remote"]["b"]["pid"]["0x201"]["received_crc_errors"], 3);
        assert_eq!((&value["output"]["0"]["output_sent"], &value["site"]), (&json!(0), &json!("a")));
    }

    #[test]
    fn prometheus_text_names_each_figure_once() {
        let text = prometheus("a", &metrics(&statistics()));
        assert!(text.contains(
            "bentpipe_gateway_received_crc_errors_total{site=\"a\",remote=\"b\",pid=\"0x201\"} 3\n"
        ));
        assert!(text.contains("remote=\"quoted \\\"c\\\"\""));
        let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let mut unique = types.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(types.len(), unique.len());
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        assert!(
            samples
                .clone()
                .all(|line| line.rsplit(' ').next().is_some_and(|value| value.parse::<f64>().is_ok()))
        );
    }
}
