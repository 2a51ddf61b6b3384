//! Measures against totals made up for the purpose.

use bentpipe_net::Unit;
use bentpipe_sim::{Builder, Work};
use bentpipe_units::Time;

use super::*;
use crate::record::{Column, Data, Sampling, Series, Totals, Value};
use crate::scenario::Document;

const TWO_FLOWS: &str = r#"
title = "two"
duration = "10 s"
node.a = {}
node.b = {}
link.l = { between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }
[flow.early]
from = "a"
to = "b"
tcp = {}
[flow.late]
from = "a"
to = "b"
tcp = {}
count = 2
start = "4 s"
stagger = "2 s"
stop = "8 s"
"#;

fn totals_at(seconds: u64, scale: u64) -> Totals {
    let flow = |name: &str, bytes: u64| {
        let entry = |element: &str, name: &str, unit, value| {
            (format!("flow/{element}"), name.to_owned(), unit, value)
        };
        vec![
            entry(
                &format!("{name}/sender"),
                "data_segments_sent",
                Unit::Packets,
                Value::Counter(200 * scale),
            ),
            entry(&format!("{name}/sender"), "retransmits", Unit::Packets, Value::Counter(scale)),
            entry(&format!("{name}/sender"), "srtt", Unit::Seconds, Value::Gauge(f64::NAN)),
            entry(&format!("{name}/receiver"), "bytes_delivered", Unit::Bytes, Value::Counter(bytes * scale)),
        ]
    };
    let link = |name: &str, unit, value| ("link/l/forward".to_owned(), name.to_owned(), unit, value);
    let mut entries = flow("early", 1000);
    entries.extend(flow("late.1", 500));
    entries.extend(flow("late.2", 500));
    entries.extend([
        link("busy", Unit::Seconds, Value::Gauge(0.9 * seconds as f64)),
        link("delivered", Unit::Packets, Value::Counter(90 * scale)),
        link("dropped-queue", Unit::Packets, Value::Counter(10 * scale)),
        link("queue-max", Unit::Packets, Value::Gauge(7.0)),
    ]);
    Totals { at: Time::from_nanos(seconds * 1_000_000_000), entries }
}

fn recording() -> Recording {
    let times = (0..=10).map(|s| Time::from_nanos(s * 1_000_000_000)).collect();
    let rtt = Data::Gauge((0..=10).map(|s| if s < 5 { f64::NAN } else { f64::from(s) }).collect());
    let column = |element: &str, name: &str, unit, data| Column {
        element: element.into(),
        name: name.into(),
        unit,
        data,
    };
    let columns = vec![column("flow/early/sender", "srtt", Unit::Seconds, rtt)];
    Recording {
        series: Series { times, columns },
        sampling: Sampling::default(),
        warm: totals_at(2, 1),
        end: totals_at(10, 3),
        fingerprint: Builder::new(1).build().expect("nothing").fingerprint(),
        work: Work::default(),
        stray: 0,
    }
}

#[test]
fn rates_are_over_the_time_a_flow_was_on_after_the_warm_up() {
    let scenario =
        Document::parse("test", TWO_FLOWS.as_bytes()).expect("TOML").scenario().expect("a scenario");
    let measures = measures(&scenario, &recording());
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
fn totals_have_no_nan() {
    let totals = totals(&recording());
    assert!(totals.iter().all(|total| total.value.is_finite()));
    assert!(
        totals
            .iter()
            .any(|total| total.name == "flow.late.2.receiver.bytes_delivered" && total.value == 1500.0)
    );
}
