//! Measures against totals made up for the purpose.

use std::sync::Arc;

use bentpipe_net::link::metrics as link;
use bentpipe_net::queue::metrics as queue;
use bentpipe_record::{
    Column, Data, Declared, FinalValues, FlowFact, LedgerColumn, LedgerRow, Sampling, Series, Total, Totals,
    Value,
};
use bentpipe_scenario::Document;
use bentpipe_sim::{Builder, EngineCounters};
use bentpipe_transport::app::metrics as udp;
use bentpipe_transport::tcp::metrics as tcp;
use bentpipe_units::{Span, Time};

use super::*;

const TWO_FLOWS: &str = r#"
title = "two"
duration = "10 s"
node.a = {}
node.b = {}
link.l = { between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }
[flow.early]
from = "a"
to = "b"
traffic = "tcp"
[flow.late]
from = "a"
to = "b"
traffic = "tcp"
count = 2
start = "4 s"
stagger = "2 s"
stop = "8 s"
"#;

/// Parts of the recording: sender and receiver of each flow, and a direction of the link.
const PARTS: [&str; 7] = [
    "flow/early/sender",
    "flow/early/receiver",
    "flow/late.1/sender",
    "flow/late.1/receiver",
    "flow/late.2/sender",
    "flow/late.2/receiver",
    "link/l/forward",
];

fn totals_at(seconds: u64, scale: u64) -> Totals {
    let mut entries = Vec::new();
    for (flow, bytes) in [1000, 500, 500].into_iter().enumerate() {
        let (sender, receiver) = (2 * flow as u32, 2 * flow as u32 + 1);
        entries.extend([
            Total::new(sender, &tcp::DATA_SEGMENTS_SENT, Value::Counter(200 * scale)),
            Total::new(sender, &tcp::RETRANSMITS, Value::Counter(scale)),
            Total::new(sender, &tcp::SRTT, Value::Gauge(f64::NAN)),
            Total::new(receiver, &tcp::ARRIVED_BYTES, Value::Counter(bytes * scale)),
        ]);
    }
    entries.extend([
        Total::new(6, &link::BUSY, Value::Gauge(0.9 * seconds as f64)),
        Total::new(6, &link::DELIVERED, Value::Counter(90 * scale)),
        Total::new(6, &queue::DROPPED_QUEUE, Value::Counter(10 * scale)),
        Total::new(6, &queue::QUEUE_MAX, Value::Gauge(7.0)),
    ]);
    let parts = PARTS.map(Arc::from).into();
    Totals { at: Time::from_nanos(seconds * 1_000_000_000), parts, entries, ..Totals::default() }
}

fn recording() -> Recording {
    let times = (0..=10).map(|s| Time::from_nanos(s * 1_000_000_000)).collect();
    let rtt = Data::Gauge((0..=10).map(|s| if s < 5 { f64::NAN } else { f64::from(s) }).collect());
    let metric = Declared::Own(&tcp::SRTT);
    let columns = vec![Column { part: 0, element: Arc::from(PARTS[0]), metric, data: rtt }];
    Recording {
        series: Series { times, columns, starts: None },
        sampling: Sampling::default(),
        warm: totals_at(2, 1),
        end: totals_at(10, 3),
        fingerprint: Builder::new(1).build().expect("nothing").fingerprint(),
        work: EngineCounters::default(),
        stray: 0,
    }
}

#[test]
fn rates_are_over_the_time_a_flow_was_on_after_the_warm_up() {
    let scenario =
        Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("a scenario");
    let measures = measures(&scenario, 1, &recording(), &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("flow.early.goodput"), Some(2000.0 * 8.0 / 8.0));
    assert_eq!(value("flow.late.1.goodput"), Some(1000.0 * 8.0 / 4.0));
    assert_eq!(value("flow.late.2.goodput"), Some(1000.0 * 8.0 / 2.0));
    assert_eq!(value("flow.early.retransmitted"), Some(2.0 / 400.0));
    assert_eq!(value("flow.early.rtt"), Some(7.5));
    assert_eq!(value("flow.late.1.rtt"), None);
    assert_eq!(value("flows.goodput"), Some(4000.0));
    assert!((value("flows.fairness").expect("three flows") - 64.0 / 24.0 / 3.0).abs() < 1e-12);
    assert!((value("link.l.forward.utilisation").expect("busy") - 0.9).abs() < 1e-12);
    assert_eq!(value("link.l.forward.drop-ratio"), Some(0.1));
}

#[test]
fn goodput_is_over_the_time_until_a_flow_completed() {
    let scenario = Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    let of_early = recording.end.entries.partition_point(|total| total.part < 2);
    recording.end.entries.insert(of_early, Total::new(1, &tcp::COMPLETED, Value::Gauge(6.0)));
    let measures = measures(&scenario, 1, &recording, &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("flow.early.completion"), Some(6.0));
    assert_eq!(value("flow.early.goodput"), Some(2000.0 * 8.0 / 4.0));
    assert_eq!(value("flow.late.1.completion"), None);
    assert_eq!(value("flow.late.1.goodput"), Some(1000.0 * 8.0 / 4.0));
}

#[test]
fn copies_are_a_group_and_fairness_is_of_like_flows() {
    let calls = TWO_FLOWS.replacen("traffic = \"tcp\"", "traffic = \"tcp\"\napplication = \"paced\"", 1);
    let scenario = Document::parse("test", calls.as_bytes()).expect("TOML").scenario().expect("one");
    let measures = measures(&scenario, 1, &recording(), &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("group.late.goodput.mean"), Some(3000.0));
    assert_eq!(value("group.late.goodput.sum"), Some(2000.0), "over the window of 8 s, not over 4 s and 2 s");
    assert_eq!([value("group.late.n"), value("group.late.of")], [Some(2.0); 2]);
    assert_eq!(value("group.late.goodput.n"), Some(2.0));
    assert_eq!(value("group.late.goodput.sd"), Some(2_000_000_f64.sqrt()));
    assert_eq!(value("group.late.goodput.p50"), Some(3000.0));
    assert!((value("group.late.goodput.jain").expect("two") - 0.9).abs() < 1e-12);
    assert_eq!((value("flows.fairness"), value("flows.tcp-paced.fairness")), (None, None));
    assert!((value("flows.tcp-bulk.fairness").expect("two") - 0.9).abs() < 1e-12);
}

#[test]
fn a_copy_that_never_starts_has_no_value_and_is_counted_apart() {
    let late = TWO_FLOWS.replace("stagger = \"2 s\"", "stagger = \"6 s\"").replace("stop = \"8 s\"\n", "");
    let scenario = Document::parse("test", late.as_bytes()).expect("TOML").scenario().expect("one");
    let measures = measures(&scenario, 1, &recording(), &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!([value("group.late.n"), value("group.late.of")], [Some(1.0), Some(2.0)]);
    assert_eq!((value("group.late.retransmitted.n"), value("group.late.goodput.n")), (None, None));
    assert!(!measures.iter().any(|measure| measure.name.starts_with("flow.late.2.")), "{measures:?}");
}

#[test]
fn a_copy_that_would_start_at_its_stop_never_begins() {
    let late = TWO_FLOWS.replace("stagger = \"2 s\"", "stagger = \"4 s\"");
    let scenario = Document::parse("test", late.as_bytes()).expect("TOML").scenario().expect("one");
    let measures = measures(&scenario, 1, &recording(), &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    let counts = ["n", "of", "after-end", "after-stop"].map(|what| value(&format!("group.late.{what}")));
    assert_eq!(counts, [Some(1.0), Some(2.0), Some(0.0), Some(1.0)]);
    assert!(!measures.iter().any(|measure| measure.name.starts_with("flow.late.2.")), "{measures:?}");
}

#[test]
fn a_rate_ends_with_the_last_arrival_however_often_it_is_sampled() {
    for interval in ["10 ms", "5 s"] {
        let text = format!("{TWO_FLOWS}[probe]\ninterval = \"{interval}\"\n");
        let scenario = Document::parse("test", text.as_bytes()).expect("TOML").scenario().expect("one");
        let mut recording = recording();
        recording.end.arrivals = vec![(3, Time::from_nanos(8_250_000_000))];
        let measures = measures(&scenario, 1, &recording, &[]);
        let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
        assert_eq!(value("flow.late.1.goodput"), Some(1000.0 * 8.0 / 4.25));
    }
}

#[test]
fn the_sum_of_flows_has_those_that_do_not_begin() {
    let late = TWO_FLOWS.replace(
        "count = 2\nstart = \"4 s\"\nstagger = \"2 s\"\nstop = \"8 s\"",
        "start = \"1 s\"\nstart_spread = \"1000 s\"",
    );
    let scenario = Document::parse("test", late.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    let parts: Vec<Arc<str>> = PARTS.iter().map(|path| path.replace("late.1", "late").into()).collect();
    let kept = |part: u32| part != 4 && part != 5;
    recording.end.parts = parts.into();
    recording.end.entries.retain(|total| kept(total.part));
    let measures = measures(&scenario, 1, &recording, &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("flows.goodput"), value("flow.early.goodput"));
    assert_eq!(value("flows.fairness"), None);
}

#[test]
fn delay_quantiles_of_tcp_leave_out_the_warm_up() {
    let scenario = Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    let mut delays = bentpipe_net::Histogram::default();
    (0..1000).for_each(|_| delays.record(Span::from_secs(5)));
    recording.warm.histograms = vec![(1, &tcp::DELAYS, delays.clone())];
    (0..100).for_each(|_| delays.record(Span::from_millis(300)));
    recording.end.histograms = vec![(1, &tcp::DELAYS, delays)];
    let measures = measures(&scenario, 1, &recording, &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    let close = |name: &str| (value(name).unwrap_or_default() / 0.3 - 1.0).abs() < 0.01;
    assert!(close("flow.early.delay-p50") && close("flow.early.delay-p99"), "{measures:?}");
    assert!((value("flow.early.delay-mean").expect("packets") - 0.3).abs() < 1e-9, "of every packet");
    assert_eq!(value("flow.late.1.delay-p50"), None);
}

#[test]
fn averages_of_a_flow_are_over_the_time_that_it_was_active() {
    let scenario = Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    let of_early = recording.end.entries.partition_point(|total| total.part < 2);
    recording.end.entries.insert(of_early, Total::new(1, &tcp::COMPLETED, Value::Gauge(6.5)));
    // The window stays at 70 kB once the flow has ended after 6.5 s.
    let cwnd = Data::Gauge((0..=10).map(|s| 10_000.0 * f64::from(s.min(7))).collect());
    let delivered = Data::Gauge((0..=10).map(|s| 1000.0 * f64::from(s.min(7))).collect());
    let column = |part: u32, metric, data| {
        let (element, metric) = (Arc::from(PARTS[part as usize]), Declared::Own(metric));
        Column { part, element, metric, data }
    };
    recording.series.columns =
        vec![column(0, &tcp::CWND.metric, cwnd), column(1, &tcp::ARRIVED_BYTES.metric, delivered)];
    let of_sender = recording.end.entries.partition_point(|total| total.part < 1);
    recording.end.entries.insert(of_sender, Total::new(0, &tcp::CWND, Value::Gauge(70_000.0)));
    let measures = measures(&scenario, 1, &recording, &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("flow.early.cwnd"), Some(45_000.0));
    assert_eq!(value("flow.early.cwnd-p50"), Some(45_000.0));
    assert_eq!(value("flow.early.goodput-p50"), Some(8000.0));
}

#[test]
fn losses_and_delays_of_datagrams_leave_out_the_warm_up() {
    let scenario = Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    for (totals, expected, lost) in [(&mut recording.warm, 100, 90.0), (&mut recording.end, 200, 95.0)] {
        let part = totals.entries.partition_point(|total| total.part < 2);
        totals.entries.insert(part, Total::new(1, &udp::EXPECTED, Value::Counter(expected)));
        totals.entries.insert(part, Total::new(1, &udp::LOST, Value::Gauge(lost)));
    }
    let mut delays = bentpipe_net::Histogram::default();
    delays.record(Span::from_secs(5));
    recording.warm.histograms = vec![(1, &udp::DELAYS, delays.clone())];
    delays.record(Span::from_millis(300));
    recording.end.histograms = vec![(1, &udp::DELAYS, delays)];
    let measures = measures(&scenario, 1, &recording, &[]);
    let value = |name: &str| measures.iter().find(|m| m.name == name).map(|m| m.value);
    assert_eq!(value("flow.early.loss"), Some(0.05));
    assert_eq!(value("flow.early.delay-mean"), Some(0.3));
    assert!((value("flow.early.delay-p99").expect("one") - 0.3).abs() < 0.003);
}

#[test]
fn drops_of_red_are_counted_once() {
    let scenario = Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("one");
    let mut recording = recording();
    recording.end.entries.retain(|total| !total.metric.is(&queue::DROPPED_QUEUE));
    let causes = [&queue::DROPPED_LIMIT, &queue::DROPPED_EARLY, &queue::DROPPED_FORCED];
    let drops = causes.into_iter().zip([5, 7, 8]).chain([(&queue::AQM_DROPPED_QUEUE, 20)]);
    recording.end.entries.extend(drops.map(|(cause, n)| Total::new(6, cause, Value::Counter(n))));
    let measures = measures(&scenario, 1, &recording, &[]);
    let dropped = measures.iter().find(|measure| measure.name == "link.l.forward.dropped");
    assert_eq!(dropped.map(|measure| (measure.value, &measure.unit[..])), Some((20.0, "packets")));
}

#[test]
fn final_values_have_no_nan() {
    let values = FinalValues::of(&recording().end);
    assert!(values.iter().all(|(.., value)| value.is_finite()));
    assert_eq!(values.get("flow.late.2.receiver.arrived-bytes"), Some((1500.0, "B")));
    assert_eq!(values.get("flow.late.2.sender.srtt"), None);
}

/// Row of a sender that sent two packets, one of them in the window.
fn sent_in_window(sender: &str) -> LedgerRow {
    LedgerRow {
        sender: sender.to_owned(),
        column: LedgerColumn::Sent,
        place: String::new(),
        reason: String::new(),
        packets: 2,
        in_warm_up: 1,
        duplicates: 0,
        arrived: Some(1),
        lost: Some(0),
        bytes: None,
    }
}

#[test]
fn causes_of_no_goodput_are_those_of_the_scenario() {
    let cause_of = |has_sent: bool, from: &str, to: &str| {
        let text = TWO_FLOWS.replacen(from, to, 1);
        let scenario =
            Document::parse("test", text.as_bytes()).expect("TOML").scenario().expect("a scenario");
        let mut recording = recording();
        // Nothing arrives at the early flow, and at the second copy of the late one.
        recording.end.entries.retain(|total| ![1, 5].contains(&total.part));
        let measures = measures(&scenario, 1, &recording, &[]);
        let ledger = ["flow.early.sender", "flow.late.2.sender", "flow.late.1.sender"].map(sent_in_window);
        let ledger = if has_sent { &ledger[..] } else { &[] };
        idle(&scenario, 1, &recording, (&measures, ledger))
            .into_iter()
            .map(|it| (it.flow, it.fact))
            .collect::<Vec<_>>()
    };
    let cause = |from: &str, to: &str| cause_of(true, from, to);
    let early = |fact| vec![("flow.early".to_owned(), fact)];
    let late = |fact| vec![("flow.late.2".to_owned(), fact)];
    assert_eq!(cause("two", "2"), [], "packets say why");
    assert_eq!(cause("traffic = \"tcp\"", "traffic = \"tcp\"\nactive = false"), early(FlowFact::Inactive));
    let nothing = "traffic = \"tcp\"\napplication = \"nothing\"";
    assert_eq!(cause("traffic = \"tcp\"", nothing), early(FlowFact::NothingAsked));
    let empty = "traffic = \"tcp\"\napplication = { kind = \"bulk\", size = \"0 B\" }";
    assert_eq!(cause("traffic = \"tcp\"", empty), early(FlowFact::NothingAsked));
    let none_of_late = || ("flow.late.2".to_owned(), FlowFact::NothingSent);
    let stopped = "traffic = \"tcp\"\nstop = \"1 s\"";
    assert_eq!(cause("traffic = \"tcp\"", stopped), [], "calls and transfers go on behind a stop");
    let in_warm_up = [&early(FlowFact::EndsInWarmUp)[..], &[none_of_late()]].concat();
    assert_eq!(cause_of(false, "traffic = \"tcp\"", stopped), in_warm_up);
    let nothing_sent = [&early(FlowFact::NothingSent)[..], &[none_of_late()]].concat();
    assert_eq!(cause_of(false, "two", "2"), nothing_sent);
    let at_its_stop = cause("stagger = \"2 s\"", "stagger = \"4 s\"");
    assert_eq!(at_its_stop, [], "the group has the number of copies that begin after their stop");
    let at_the_end = cause("stagger = \"2 s\"\nstop = \"8 s\"", "stagger = \"6 s\"");
    assert_eq!(at_the_end, [], "the group has the number of copies that do not start");
    let set = |at: &str, key: &str| {
        let event = format!("duration = \"10 s\"\nevent = [{{ at = \"{at}\", set = {{ \"flow.{key} }} }}]");
        cause("duration = \"10 s\"", &event)
    };
    assert_eq!(set("1 s", "late.active\" = false"), late(FlowFact::Inactive), "off when it starts");
    assert_eq!(set("7 s", "late.active\" = false"), [], "on when it starts");
}
