//! Wi-Fi links in scenarios: built, measured, budgeted, refused.

use crate::common::{built, measured, scenario};
use bentpipe_assemble::{Built, checked};
use bentpipe_lab::budget::Budget;
use bentpipe_scenario::Document;
use bentpipe_units::{Span, Time};

const OFFICE: &str = r#"
title = "Two laptops"
duration = "10 s"
node.ap = { kind = "router" }
node.one = {}
node.two = {}
[link.wlan]
between = ["ap", "one"]
wifi = { cell = "office", attempts = 8 }
[link.wlan.forward]
channel = { kind = "trace", synthetic = { loss = 0.2, frames = 20000 }, fit = "bistable" }
[link.other]
between = ["ap", "two"]
wifi = { cell = "office" }
[flow.down]
from = "ap"
to = "one"
traffic = { kind = "tcp", mss = "960 B", timestamps = false }
[flow.up]
from = "two"
to = "ap"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "10 ms" }, payload = "972 B" }
"#;

#[test]
fn directions_of_a_cell_are_measured_one_by_one() {
    let scenario = scenario(OFFICE).expect("a scenario");
    let mut built = built(&scenario);
    assert!(built.links.iter().all(|link| link.line == built.links[0].line));
    let ports: Vec<u16> = built.links.iter().map(|link| link.port.0).collect();
    assert_eq!(ports, [0, 1, 2, 3]);
    let value = measured(&scenario, &mut built);
    // The other laptop's 100 packets a second come up, and nothing goes down to it.
    assert!((value("link.other.return.rate") - 800_000.0).abs() < 4000.0);
    assert_eq!(value("link.other.forward.delivered"), 0.0);
    let (sent, wrong) = (value("link.wlan.forward.frames-sent"), value("link.wlan.forward.frames-wrong"));
    assert!((0.1..0.3).contains(&(wrong / sent)), "{wrong} of {sent}");
    assert_eq!(value("link.wlan.return.frames-wrong"), 0.0);
    assert!(value("cell.office.collisions") > 0.0);
    assert!(value("flow.down.goodput") > 1e6);
    let shares: f64 = ["wlan.forward", "wlan.return", "other.return"]
        .iter()
        .map(|l| value(&format!("link.{l}.busy")))
        .sum();
    // Each sender of a collision counts its own time.
    assert!(shares >= value("cell.office.medium-busy") && shares < 10.0);
}

#[test]
fn a_budget_has_the_exchange() {
    let budget = Budget::new(&scenario(OFFICE).expect("a scenario")).expect("a way");
    let forward = &budget.links[0];
    let wifi = forward.wifi.expect("a Wi-Fi link");
    let us = [wifi.data, wifi.ack, wifi.access].map(|span| span.as_nanos() / 1000);
    assert_eq!((us, forward.on_line.get()), ([946, 258, 360], 1036));
    // 8000 bits in 1564 us.
    assert_eq!(forward.capacity.as_bps() / 1000, 5115);
    assert!(
        budget
            .to_string()
            .contains("frame 946 us, ACK 258 us, DIFS and mean backoff 360 us; up to 8 transmissions")
    );
}

#[test]
fn what_is_wrong_in_a_wifi_link_is_said_at_its_key() {
    for (from, to, expected) in [
        (
            "attempts = 8",
            "rate = \"12 Mbit/s\"",
            "link.wlan.medium.rate: expected one of 1, 2, 5.5 and 11 Mbit/s",
        ),
        (
            "attempts = 8",
            "standard = \"g\"",
            "link.other.medium.standard: expected the standard of the other links",
        ),
        (
            "[link.other]",
            "[link.other]\nrate = \"1 Mbit/s\"",
            "link.other.rate: a Wi-Fi link has no rate of a line",
        ),
        ("[link.other]", "[link.other]\ndelay = \"1 ms\"", "link.other.delay: expected at most a slot"),
        ("[link.other]", "[link.other]\nframing = \"ethernet\"", "link.other.framing"),
        (
            "synthetic = { loss = 0.2, frames = 20000 }",
            "file = \"absent.trace\"",
            "link.wlan.forward.channel.file: ",
        ),
        ("synthetic = { loss = 0.2, frames = 20000 },", "", "expected one of `file` and `synthetic`"),
        ("loss = 0.2", "loss = 1.2", "synthetic.loss: 1.2 is out of range: expected from 0.0001 to 0.95"),
        (
            "kind = \"trace\", synthetic = { loss = 0.2, frames = 20000 }, fit = \"bistable\"",
            "kind = \"duplication\", probability = 0.1",
            "link.wlan.forward.channel.kind: expected what loses frames",
        ),
    ] {
        let problem = scenario(&OFFICE.replacen(from, to, 1)).expect_err(to);
        assert!(problem.contains(expected), "{problem}");
    }
    let signal = "rate = \"1 Mbit/s\"\nchannel = { kind = \"signal\", levels = [{ power_dbm = -80.0, hold = \"1 s\" }] }";
    let line = OFFICE.replace("wifi = { cell = \"office\" }", signal);
    assert!(scenario(&line).expect_err("a line").contains("expected a Wi-Fi link"));
}

#[test]
fn a_trace_works_on_a_line_too() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("all.trace"), "# every other\n01\n").expect("written");
    let text = r#"
title = "A line"
duration = "2 s"
node.a = {}
node.b = {}
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "1 ms"
forward.channel = { kind = "trace", file = "all.trace" }
[flow.f]
from = "a"
to = "b"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "10 ms" }, payload = "100 B" }
"#;
    let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
    let file = folder.path().join("file.toml");
    std::fs::write(&file, text).expect("written");
    let read = checked(&bentpipe_paths::document(&file).expect("TOML"))
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    assert!(checked(&document).is_err(), "the trace is beside the file, not here");
    let mut built = Built::new(&read, 1, &bentpipe_paths::any_file(folder.path())).expect("possible");
    built.network.run_until(Time::ZERO + Span::from_secs(2));
    struct Lost(Option<u64>);
    use bentpipe_net::channel::metrics::LOST;
    use bentpipe_net::metric::{Counter, Gauge, Of};
    impl bentpipe_net::Observer for Lost {
        fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
            if metric.is(&LOST) {
                self.0 = Some(total);
            }
        }
        fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    }
    let mut lost = Lost(None);
    built.network.observe(built.links[0].channels[0], &mut lost);
    assert!((99..=100).contains(&lost.0.expect("a counter")));
}
