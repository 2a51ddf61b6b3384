//! WiMAX links in scenarios: built, measured, budgeted, refused.

use crate::common::{built, measured, scenario};
use bentpipe_assemble::Built;
use bentpipe_lab::budget::Budget;

const HILL: &str = r#"
title = "Calls on a hill"
duration = "10 s"
node.base = { kind = "router" }
node.house = { count = 4 }
node.office = {}
[cell.hill]
descriptor_interval = "10 s"
[link.radio]
between = ["base", "house"]
medium = { kind = "wimax", cell_name = "hill", snr = [24.0, 18.0] }
[link.lan]
between = ["base", "office"]
rate = "100 Mbit/s"
[flow.up]
from = "house"
to = "office"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "172 B", header = "rtp" }
[flow.down]
from = "office"
to = "house"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "172 B", header = "rtp" }
"#;

#[test]
fn calls_pass_both_ways_and_are_counted() {
    let scenario = scenario(HILL).expect("a scenario");
    let mut built = built(&scenario);
    let value = measured(&scenario, &mut built);
    assert!(value("flow.up.1.loss") < 0.001 && value("flow.down.1.loss") < 0.001);
    // A downlink packet waits for a frame of 5 ms; an uplink packet asks first.
    assert!(value("flow.down.1.delay-mean") < 0.01 && value("flow.up.1.delay-mean") > 0.01);
    assert!(value("wimax.hill.uplink-use") > 0.1);
}

#[test]
fn a_budget_counts_symbols() {
    let budget = Budget::new(&scenario(HILL).expect("a scenario")).expect("a way").to_string();
    // 62 symbols of 80 us in 5 ms; maps of one burst and one allocation: 22 + 37 bytes of BPSK 1/2.
    for line in [
        "62 symbols of 80 us per frame of 5 ms: preamble 2, FCH 1, maps 5 (59 B at bpsk-1/2), data 54",
        "ranging 8, 4 request slots 8, bursts 46",
        "packet of 200 B: SDU 200 B, PDU 210 B with header and CRC 10 B; alone 3 symbols of 72 B (16qam-3/4) and a preamble",
    ] {
        assert!(budget.contains(line), "{line}: {budget}");
    }
    assert!(!budget.contains("of its blocks"), "{budget}");
    // Not even the most robust profile carries this.
    let outage = HILL.replace("snr = [24.0, 18.0]", "snr = [24.0, -3.0]");
    let budget = Budget::new(&scenario(&outage).expect("a scenario")).expect("a way").to_string();
    let line = "radio return: at -3 dB bpsk-1/2 loses 100.0 % of its blocks, one per symbol: none of the above counts losses";
    assert_eq!(budget.matches("of its blocks").count(), 1, "{budget}");
    assert!(budget.contains(line), "{budget}");
}

#[test]
fn what_is_wrong_in_a_cell_is_said_at_its_key() {
    let medium = "medium = { kind = \"wimax\", cell_name = \"hill\", snr = [24.0, 18.0] }";
    let with = |key: &str| medium.replace("snr = [24.0, 18.0]", key);
    let ugs = "uplink = [{ service = \"ugs\", interval = \"5 ms\", sdu = \"1500 B\" }]";
    for (from, to, expected) in [
        (
            "[cell.hill]",
            "[cell.hill]\nframe = \"7 ms\"",
            "cell.hill.frame: expected 2.5, 4, 5, 8, 10, 12.5 or 20 ms",
        ),
        ("[cell.hill]", "[cell.hill]\nbandwidth = \"900 MHz\"", "cell.hill.bandwidth"),
        ("[cell.hill]", "[cell.hill]\nrequest_slots = 40", "cell.hill.request_slots: expected fewer symbols"),
        (
            medium,
            &with("profile = [\"64qam-3/4\", \"64qam-3/4\"], snr = [10.0, 10.0]"),
            "link.radio.medium.profile",
        ),
        (medium, &with(ugs), "uplink symbols per frame, where 46 are free"),
        (medium, &medium.replace("\"hill\"", "\"hall\""), "no cell is called \"hall\""),
        (medium, &format!("{medium}\nrate = \"1 Mbit/s\""), "link.radio.rate"),
        (medium, &with("base = \"office\""), "no base station"),
    ] {
        let problem = scenario(&HILL.replacen(from, to, 1)).expect_err(to);
        assert!(problem.contains(expected), "{to}: {problem}");
    }
}

/// Four base stations with a station each were one cell, in which all packets went by the uplink.
#[test]
fn copies_of_a_base_station_are_refused() {
    let text = HILL
        .replace("kind = \"router\"", "kind = \"router\", count = 4")
        .replace("node.office = {}", "node.office = { count = 4 }");
    let built = scenario(&text).and_then(|scenario| {
        Built::new(&scenario, 1, &bentpipe_scenario::Access::default())
            .map(|_| ())
            .map_err(|problem| problem.to_string())
    });
    let problem = built.expect_err("no common base station");
    assert!(problem.contains("no base station"), "{problem}");
}
