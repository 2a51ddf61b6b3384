//! What is measured of an ATM network: lines, their queues and faults, ends of channels.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use bentpipe_lab::build::Built;
use bentpipe_lab::measure::measures;
use bentpipe_lab::record::Recorder;
use bentpipe_lab::scenario::Document;
use bentpipe_units::Span;

/// 10 Mbit/s of UBR into a line of 5 Mbit/s, with 8 Mbit/s before it, a short queue, and loss behind.
const NETWORK: &str = r#"
title = "t"
duration = "10 s"
[node.a]
[node.b]
[atm.switch.s]
limit = { ubr = 100 }
[atm.line.up]
between = ["a", "s"]
rate = "8 Mbit/s"
[atm.line.down]
between = ["s", "b"]
rate = "5 Mbit/s"
channel = [{ kind = "cell-loss", ratio = 0.02 }, { kind = "bit-errors", ber = 1e-5 }]
[link.path]
between = ["a", "b"]
vc = { limit = 500 }
[flow.load]
from = "a"
to = "b"
udp = { payload = "432 B", pattern = { kind = "constant", interval = "424 us" } }
"#;

#[test]
fn lines_and_ends_of_channels_are_measured() {
    let document =
        Document::parse("cells.toml", NETWORK.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}"));
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, Path::new("")).expect("possible");
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval: Span::from_millis(50),
        warm_up: Span::ZERO,
        duration: Span::from_secs(10),
    };
    let recording = recorder.run(&mut built.network, |_| ControlFlow::Continue(())).expect("short");
    let all: HashMap<String, (String, f64)> = measures(&scenario, &recording)
        .into_iter()
        .map(|measure| (measure.name, (measure.unit, measure.value)))
        .collect();
    let value = |name: &str| all.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", all.keys())).1;
    assert!((value("line.up.forward.utilisation") - 1.0).abs() < 0.01);
    assert!((value("line.down.forward.utilisation") - 1.0).abs() < 0.01);
    // The queue is full, and what is more is dropped: 3 of 8 Mbit/s.
    assert_eq!(value("line.down.forward.ubr-queue-max"), 100.0);
    assert!(value("line.down.forward.ubr-queue-mean") > 90.0);
    assert!((value("line.down.forward.dropped") / (3e6 / 424.0 * 10.0) - 1.0).abs() < 0.02);
    assert_eq!(all["line.down.forward.dropped"].0, "cells");
    // 2 % and, of what is left, cells with wrong bits in header or payload.
    let passed = 5e6 / 424.0 * 10.0;
    let damaged = passed * 0.98 * (1.0 - (1.0 - 1e-5_f64).powi(384));
    assert!((value("line.down.forward.cells-lost") / (passed * 0.02) - 1.0).abs() < 0.1);
    assert!((value("line.down.forward.cells-damaged") / damaged - 1.0).abs() < 0.2);
    assert!((value("line.down.forward.cell-loss-ratio") - 0.02).abs() < 0.002);
    // The host's queue is bounded: what it refuses and what it sends are what came.
    let (sent, refused) = (value("vc.path.a.pdus-sent"), value("vc.path.a.refused"));
    assert!(refused > 1000.0 && sent > 1000.0, "{sent} {refused}");
    let received = value("vc.path.b.pdus-received");
    let wrong = value("vc.path.b.wrong-length") + value("vc.path.b.wrong-crc");
    assert!(wrong > 100.0 && received < sent, "{wrong} {received}");
    assert!(!all.contains_key("line.up.forward.cells-lost") && !all.contains_key("vc.path.a.acr-mean"));
    // Nothing dropped is zero, not minus zero.
    assert!(value("line.up.forward.dropped").is_sign_positive());
}
