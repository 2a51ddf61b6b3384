//! What is measured of an ATM network: lines, their queues and faults, ends of channels.

use std::collections::HashMap;
use std::ops::ControlFlow;

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::measure::measures;
use bentpipe_record::{LedgerRow, Measure, Recorder};
use bentpipe_scenario::Document;
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
traffic = { kind = "udp", payload = "432 B", pattern = { kind = "constant", interval = "424 us" } }
"#;

/// What is measured of a run of ten seconds: units and values by name.
fn measured(text: &str) -> HashMap<String, (String, f64)> {
    let document =
        Document::parse("cells.toml", text.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}"));
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).expect("possible");
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval: Span::from_millis(50),
        warm_up: Span::ZERO,
        duration: Span::from_secs(10),
    };
    let recording = recorder.run(&mut built.network, |_| ControlFlow::Continue(())).expect("short");
    let of = |measure: Measure| (measure.name, (measure.unit, measure.value));
    let ledger = LedgerRow::of(&built.network.close());
    measures(&scenario, 1, &recording, &ledger).into_iter().map(of).collect()
}

#[test]
fn lines_and_ends_of_channels_are_measured() {
    let all = measured(NETWORK);
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

/// Datagrams of 432 bytes, ten cells each, at 20 Mbit/s on a satellite channel to a host that takes 10 Mbit/s.
const SLOW_HOST: &str = r#"
title = "t"
duration = "10 s"
[node.a]
[node.b]
[atm.switch.s]
[atm.line.up]
between = ["a", "s"]
rate = "34.368 Mbit/s"
delay = "250 ms"
[atm.line.down]
between = ["s", "b"]
rate = "34.368 Mbit/s"
[link.path]
between = ["a", "b"]
vc = { service = { kind = "abr", icr = "15 Mbit/s", nrm = 256, rif = 0.00003 }, receive = { rate = "10 Mbit/s", limit = 20000, TOLD } }
[flow.load]
from = "a"
to = "b"
traffic = { kind = "udp", payload = "432 B", pattern = { kind = "constant", interval = "212 us" } }
"#;

/// The example in `scenarios/` shows what it says.
#[test]
fn a_box_behind_a_satellite_keeps_the_queues_behind_it_short() {
    let example = include_str!("../../../../scenarios/atm-vs-vd.toml");
    let (example, _) = example.split_once("[sweep]").expect("both runs");
    let run = |transparent: bool| {
        let text =
            example.replace("limit = 100_000", &format!("limit = 100_000\ntransparent = {transparent}"));
        let all = measured(&text);
        let names = [
            "line.trunk.forward.abr-queue-max",
            "vc.slow.tablet.receive-queue-max",
            "vc.slow.tablet.receive-lost",
        ];
        names.map(|name| all[name].1)
    };
    let [queue, waiting, lost] = run(true);
    assert!(queue > 5000.0 && waiting == 1000.0 && lost > 1000.0, "{queue} {waiting} {lost}");
    let [queue, waiting, lost] = run(false);
    assert!(queue < 500.0 && waiting < 200.0 && lost == 0.0, "{queue} {waiting} {lost}");
}

#[test]
fn a_host_that_says_it_is_slow_has_fewer_cells_waiting() {
    let run = |told: &str| {
        let all = measured(&SLOW_HOST.replace(", TOLD", told));
        let names = ["b.receive-queue-max", "b.receive-lost", "b.rm-destination-sent", "a.acr-mean"];
        names.map(|name| all[&format!("vc.path.{name}")].1)
    };
    let [queue, lost, made, _] = run("");
    assert!(queue == 20_000.0 && lost > 10_000.0 && made == 0.0, "{queue} {lost} {made}");
    let [queue, lost, made, acr] = run(", congested = 500, explicit_rate = true");
    assert!(lost == 0.0 && (50.0..=100.0).contains(&made), "{lost} {made}");
    // The source sends at 15 Mbit/s, 255 of 256 cells data, until it hears of the 500th that waits: half a second more of what the
    // host does not take. From there on it is at the host's rate.
    let excess = (15e6 * 255.0 / 256.0 - 10e6) / 424.0;
    let expected = 500.0 + excess * 0.5;
    assert!((queue / expected - 1.0).abs() < 0.01, "{queue} {expected}");
    let told_s = 0.5 + 500.0 / excess + 0.02;
    assert!((acr / (1e6 * (10.0 + 5.0 * told_s / 10.0)) - 1.0).abs() < 0.01, "{acr}");
}

/// A PDU that lost its last cell is joined to the next one, and both are lost (I.363.5): PDUs arrive with (1 - p)^k (1 - q),
/// q being the probability that cells of the one in front wait.
#[test]
fn a_pdu_dies_with_the_last_cell_of_the_one_in_front_of_it() {
    for (payload, cells, loss) in [("4 B", 1, 0.1), ("40 B", 2, 0.1), ("1060 B", 23, 0.02)] {
        let text = NETWORK
            .replace(
                "channel = [{ kind = \"cell-loss\", ratio = 0.02 }, { kind = \"bit-errors\", ber = 1e-5 }]",
                &format!("channel = {{ kind = \"cell-loss\", ratio = {loss} }}"),
            )
            .replace("432 B", payload)
            .replace("424 us", "4 ms");
        let lost = measured(&text)["flow.load.loss"].1;
        let waiting = loss * (1.0 - f64::powi(loss, cells - 1)) / (1.0 - f64::powi(loss, cells));
        let expected = 1.0 - f64::powi(1.0 - loss, cells) * (1.0 - waiting);
        assert!((lost - expected).abs() < 0.03, "{cells} cells: {lost}, not {expected}");
    }
}
