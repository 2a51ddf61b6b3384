//! Samples of declared metrics, and their text as JSON and for Prometheus.

pub mod declared;

use bentpipe_emu::exposition::{self, exported};
use bentpipe_net::metric::{Counter, Gauge, Metric, Of};
use bentpipe_units::Span;
use serde_json::{Map, Value, json};

use crate::{RemoteStatistics, Statistics};

pub use bentpipe_emu::exposition::Sample;

/// Adds samples with the same labels.
struct Rows<'a> {
    samples: &'a mut Vec<Sample>,
    labels: Vec<(&'static str, String)>,
}

impl Rows<'_> {
    fn add(&mut self, metric: &'static Metric, value: f64) {
        let labels = self.labels.clone();
        self.samples.push(Sample { metric, labels, value });
    }

    fn counter(&mut self, metric: &'static Of<Counter>, value: u64) {
        self.add(metric, value as f64);
    }

    fn seconds(&mut self, metric: &'static Of<Counter>, value: Span) {
        self.add(metric, value.as_secs_f64());
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.add(metric, value);
    }
}

/// Returns the samples of all metrics.
pub fn samples(statistics: &Statistics) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut rows = Rows { samples: &mut samples, labels: Vec::new() };
    site(statistics, &mut rows);
    for (n, output) in statistics.outputs.iter().enumerate() {
        rows.labels = vec![("output", n.to_string())];
        rows.counter(&declared::OUTPUT_SENT, output.sent);
        rows.counter(&declared::OUTPUT_DROPPED, output.dropped);
        rows.counter(&declared::OUTPUT_PARITY, output.parity);
        rows.counter(&declared::OUTPUT_RESTARTS, output.restarts);
    }
    for (n, input) in statistics.inputs.iter().enumerate() {
        rows.labels = vec![("input", n.to_string())];
        let datagrams = &input.datagrams;
        rows.counter(&declared::INPUT_DATAGRAMS, datagrams.datagrams);
        rows.counter(&declared::INPUT_PACKETS, datagrams.packets);
        rows.counter(&declared::INPUT_WRONG_LENGTH, datagrams.wrong_length);
        rows.counter(&declared::INPUT_NO_SYNC, datagrams.no_sync);
        rows.counter(&declared::INPUT_NO_RTP, datagrams.no_rtp);
        rows.counter(&declared::INPUT_UNEXPECTED_SOURCE, input.unexpected_sources);
        rows.counter(&declared::INPUT_OVERFLOWS, input.overflows);
        rows.counter(&declared::INPUT_PARITY, input.repair.parity);
        rows.counter(&declared::INPUT_REPAIRED, input.repair.recovered);
        rows.counter(&declared::INPUT_PARITY_MALFORMED, input.repair.malformed);
        rows.counter(&declared::INPUT_RTP_LOST, datagrams.missing);
        rows.counter(&declared::INPUT_OUT_OF_ORDER, datagrams.out_of_order);
        rows.counter(&declared::INPUT_FRAMING_LOSSES, input.framing_losses);
        rows.counter(&declared::INPUT_SKIPPED_BYTES, input.skipped_bytes);
        rows.counter(&declared::INPUT_RESTARTS, input.restarts);
        rows.counter(&declared::INPUT_ERRORS, input.errors);
    }
    for remote in &statistics.remotes {
        rows.labels = vec![("remote", remote.name.clone())];
        sent(remote, &mut rows);
        for (pid, received) in &remote.received {
            rows.labels = vec![("remote", remote.name.clone()), ("pid", format!("{pid:#x}"))];
            self::received(received, &mut rows);
        }
    }
    samples
}

fn site(statistics: &Statistics, rows: &mut Rows<'_>) {
    let (lan, carrier, strays) = (&statistics.lan, &statistics.carrier, &statistics.strays);
    rows.gauge(&declared::UPTIME_SECONDS, statistics.uptime.as_secs_f64());
    rows.seconds(&declared::CPU_SECONDS, statistics.cpu);
    rows.counter(&declared::LAN_READ_PACKETS, lan.read);
    rows.counter(&declared::LAN_READ_BYTES, lan.read_bytes);
    rows.counter(&declared::LAN_WRITTEN_PACKETS, lan.written);
    rows.counter(&declared::LAN_WRITTEN_BYTES, lan.written_bytes);
    rows.counter(&declared::LAN_READ_ERRORS, lan.read_errors);
    rows.counter(&declared::LAN_WRITE_ERRORS, lan.write_errors);
    rows.counter(&declared::LAN_UNROUTED, lan.unrouted);
    rows.counter(&declared::BRIDGE_LOCAL, lan.local);
    rows.counter(&declared::BRIDGE_FLOODED, lan.flooded);
    rows.counter(&declared::BRIDGE_RESERVED, lan.reserved);
    rows.gauge(&declared::BRIDGE_STATIONS, lan.stations as f64);
    rows.counter(&declared::BRIDGE_MOVES, lan.station_moves);
    rows.counter(&declared::BRIDGE_REFUSED, lan.stations_refused);
    rows.counter(&declared::CARRIER_DATA, carrier.data);
    rows.counter(&declared::CARRIER_TABLES, carrier.tables);
    rows.counter(&declared::CARRIER_NULLS, carrier.nulls);
    rows.counter(&declared::CARRIER_IDLE, carrier.idle);
    rows.counter(&declared::CARRIER_SKIPPED, carrier.skipped);
    rows.counter(&declared::CARRIER_DATAGRAMS, carrier.datagrams);
    rows.counter(&declared::CARRIER_BYTES, carrier.bytes);
    let [p50, p99, max] = statistics.lateness.map(Span::as_secs_f64);
    rows.gauge(&declared::CARRIER_LATENESS_P50_SECONDS, p50);
    rows.gauge(&declared::CARRIER_LATENESS_P99_SECONDS, p99);
    rows.gauge(&declared::CARRIER_LATENESS_MAX_SECONDS, max);
    rows.counter(&declared::STRAY_NULLS, strays.nulls);
    rows.counter(&declared::STRAY_TABLES, strays.tables);
    rows.counter(&declared::UNASSIGNED_PID, strays.unknown);
    rows.counter(&declared::STRAY_MALFORMED, strays.malformed);
    rows.counter(&declared::CAPTURED, statistics.captures.captured);
    rows.counter(&declared::CAPTURE_MISSED, statistics.captures.missed);
}

fn sent(remote: &RemoteStatistics, rows: &mut Rows<'_>) {
    let (sent, compression) = (&remote.sent, &remote.compression);
    rows.counter(&declared::SENT_PACKETS, sent.pdus);
    rows.counter(&declared::SENT_BYTES, sent.pdu_bytes);
    rows.counter(&declared::SENT_COMPRESSED, sent.compressed);
    rows.counter(&declared::SENT_SNDU_BYTES, sent.sndu_bytes);
    rows.counter(&declared::SENT_FRAMES, sent.frames);
    rows.counter(&declared::SENT_FLUSHED, sent.flushed);
    rows.counter(&declared::SENT_FEEDBACK, sent.feedback);
    rows.counter(&declared::FILTER_DROPPED, sent.dropped);
    rows.counter(&declared::SENT_UNSUPPORTED, sent.refused);
    rows.counter(&declared::QUEUE_DROPPED, remote.overflowed);
    rows.gauge(&declared::QUEUE_BYTES, remote.queue_bytes as f64);
    rows.counter(&declared::LOOPS_DETECTED, remote.looped);
    rows.counter(&declared::ROHC_HEADER_BYTES_IN, compression.header_in);
    rows.counter(&declared::ROHC_HEADER_BYTES_OUT, compression.header_out);
    rows.counter(&declared::ROHC_IR, compression.irs);
    rows.gauge(&declared::ROHC_CONTEXTS, remote.contexts as f64);
    if let Some(tunnel) = &remote.udlr {
        rows.counter(&declared::TUNNEL_HELLOS, tunnel.hellos);
        rows.counter(&declared::TUNNEL_HELLOS_REFUSED, tunnel.hellos_refused);
        rows.counter(&declared::TUNNEL_LOST, tunnel.lost);
        rows.gauge(&declared::TUNNEL_KNOWN, f64::from(u8::from(tunnel.is_known)));
        rows.counter(&declared::TUNNEL_PACKETS, tunnel.packets);
        rows.counter(&declared::TUNNEL_UNKNOWN, tunnel.no_tunnel);
        rows.counter(&declared::TUNNEL_ERRORS, tunnel.errors);
    }
}

fn received(received: &bentpipe_dvb::Received, rows: &mut Rows<'_>) {
    rows.counter(&declared::RECEIVED_FRAMES, received.frames);
    rows.counter(&declared::RECEIVED_SNDUS, received.sndus);
    rows.counter(&declared::RECEIVED_PACKETS, received.pdus);
    rows.counter(&declared::RECEIVED_BYTES, received.pdu_bytes);
    rows.counter(&declared::RECEIVED_OTHER_ADDRESS, received.others);
    rows.counter(&declared::RECEIVED_UNKNOWN, received.unknown);
    rows.counter(&declared::RECEIVED_DUPLICATES, received.duplicates);
    rows.counter(&declared::RECEIVED_DAMAGED, received.damaged);
    rows.counter(&declared::RECEIVED_CONTINUITY_ERRORS, received.continuity_errors);
    rows.counter(&declared::RECEIVED_CRC_ERRORS, received.crc_errors);
    rows.counter(&declared::RECEIVED_FORMAT_ERRORS, received.format_errors);
    rows.counter(&declared::RECEIVED_RESYNCHRONISED, received.resynchronised);
    let rohc = &received.rohc;
    rows.counter(&declared::ROHC_RECEIVED, rohc.received);
    rows.counter(&declared::ROHC_DELIVERED, rohc.delivered);
    rows.counter(&declared::ROHC_REFUSED, rohc.refused);
    rows.counter(&declared::ROHC_CRC_FAILURES, rohc.crc_failures);
    rows.counter(&declared::ROHC_CHECKSUM_FAILURES, rohc.checksum_failures);
}

/// Returns Prometheus' text format (version 0.0.4).
pub fn prometheus(site: &str, samples: &[Sample]) -> String {
    exposition::prometheus("bentpipe_gateway", ("site", site), samples)
}

/// Returns the metrics as one object. It holds objects of outputs, inputs and remote sites, by their names.
pub fn json(site: &str, unix_time_s: f64, samples: &[Sample]) -> Value {
    let mut root = Map::new();
    root.insert("time".to_owned(), json!(unix_time_s));
    root.insert("site".to_owned(), json!(site));
    for sample in samples {
        let mut object = &mut root;
        for (key, value) in &sample.labels {
            object = inner(inner(object, key), value);
        }
        let is_whole = sample.value.fract() == 0.0 && sample.value.abs() < 9e15;
        let value = if is_whole { json!(sample.value as i64) } else { json!(sample.value) };
        object.insert(exported(sample.metric), value);
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
            udlr: Some(crate::UdlrCounts::default()),
            ..RemoteStatistics::default()
        };
        Statistics {
            remotes: vec![remote("b"), remote("quoted \"c\"")],
            outputs: vec![Default::default()],
            ..Statistics::default()
        }
    }

    #[test]
    fn metrics_are_declared_once_and_all_reported() {
        let statistics = Statistics { inputs: vec![Default::default()], ..statistics() };
        let samples = samples(&statistics);
        let mut names: Vec<&str> = declared::ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        let is_reported = |metric: &Metric| samples.iter().any(|sample| sample.metric.is(metric));
        assert!(declared::ALL.iter().all(|metric| is_reported(metric)));
    }

    #[test]
    fn json_has_a_place_for_each_figure() {
        let value = json("a", 1.5, &samples(&statistics()));
        assert_eq!(value["remote"]["b"]["pid"]["0x201"]["received_crc_errors"], 3);
        assert_eq!((&value["output"]["0"]["output_sent"], &value["site"]), (&json!(0), &json!("a")));
    }

    #[test]
    fn prometheus_text_names_each_figure_once() {
        let text = prometheus("a", &samples(&statistics()));
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
