//! Events of scenarios: their effect, and what they cannot change.

use super::*;

/// Two hosts with a line that a UDP flow of 16 Mbit/s overloads.
const OVERLOADED: &str = r#"
title = "t"
duration = "20 s"
node.a = {}
node.b = {}
[link.hop]
between = ["a", "b"]
rate = "8 Mbit/s"
delay = "100 ms"
queue = { kind = "drop-tail", packets = 10 }
[flow.load]
from = "a"
to = "b"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "500 us" }, payload = "972 B" }
"#;

/// Returns the bits that arrive in each of 20 seconds, IP headers included.
fn arrivals(text: &str) -> Vec<f64> {
    let mut built = built(text);
    let (receiver, mut total, mut each) = (built.flows[0].receivers[0], 0, Vec::new());
    for second in 1..=20 {
        built.network.run_until(at(second));
        let sink: &mut Sink = built.network.element(receiver).expect("a sink");
        let packets = sink.flows()[0].packets;
        each.push((packets - total) as f64 * 8000.0);
        total = packets;
    }
    each
}

#[test]
fn a_rate_changes_at_its_time_and_returns() {
    let event =
        "[[event]]\nat = \"5 s\"\nset = { \"link.hop.forward.rate\" = \"2 Mbit/s\" }\nhold = \"10 s\"\n";
    let bits = arrivals(&format!("{OVERLOADED}{event}"));
    // From 5.1 to 15.1 s packets arrive that were sent at 2 Mbit/s.
    let close = |got: f64, wanted: f64| (got - wanted).abs() < 25_000.0;
    assert!(bits[1..5].iter().all(|got| close(*got, 8e6)), "{bits:?}");
    assert!(close(bits[5], 0.1 * 8e6 + 0.9 * 2e6), "{bits:?}");
    assert!(bits[6..15].iter().all(|got| close(*got, 2e6)), "{bits:?}");
    assert!(close(bits[15], 0.1 * 2e6 + 0.9 * 8e6), "{bits:?}");
    assert!(bits[16..].iter().all(|got| close(*got, 8e6)), "{bits:?}");
}

#[test]
fn an_event_equals_the_same_change_from_outside_and_none_changes_nothing() {
    let fingerprint = |text: &str, change: &str| {
        let mut built = built(text);
        built.network.run_until(at(5));
        if !change.is_empty() {
            let element = built.sides[0].line;
            let line: &mut bentpipe_net::Link = built.network.element(element).expect("a line");
            line.set_delay(at(5), change.parse().expect("a delay"));
            built.network.poke(element);
        }
        built.network.run_until(at(20));
        built.network.fingerprint()
    };
    let event = "[[event]]\nat = \"5 s\"\nadd = { \"link.hop.forward.delay\" = \"50 ms\" }\n";
    // A network with events has idle channels, so the other has one too.
    let idle = OVERLOADED.replace("[flow", "channel = { kind = \"packet-errors\", loss = 0.0 }\n[flow");
    let changed = fingerprint(&format!("{idle}{event}"), "");
    assert_eq!(changed, fingerprint(&idle, "150 ms"));
    assert_ne!(changed, fingerprint(&idle, ""));
    assert_eq!(fingerprint(&format!("{idle}{}", event.replace("50 ms", "0 s")), ""), fingerprint(&idle, ""));
}

#[test]
fn an_emulated_network_changes_at_the_same_time() {
    let event = "[[event]]\nat = \"5 s\"\nset = { \"link.hop.delay\" = \"30 ms\" }\n";
    let mut scenario = scenario(&format!("{OVERLOADED}{event}"));
    // A run may be shorter than the file says, and have another seed.
    (scenario.duration, scenario.seed) = (Span::from_secs(7), 9);
    let emulated = Emulated::new(&scenario, 1, &bentpipe_scenario::Access::default())
        .unwrap_or_else(|problem| panic!("{problem}"));
    let mut network = emulated.built.network;
    network.run_until(at(4));
    assert_eq!(network.next_deadline(), at(5), "nothing else happens there");
}

#[test]
fn what_a_running_network_cannot_change_is_refused_at_the_event() {
    let refused = |set: &str| {
        let text = format!("{OVERLOADED}[[event]]\nat = \"5 s\"\nset = {{ {set} }}\n");
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        checked(&document).err().map(|refusal| refusal.to_string()).unwrap_or_default()
    };
    for (set, problem) in [
        ("\"link.hop.mtu\" = \"900 B\"", "cannot be changed while it runs"),
        ("\"flow.load.start\" = \"9 s\"", "cannot be changed while it runs"),
        ("\"link.hop.queue\" = \"none\"", "queue"),
        ("\"seed\" = 4", "cannot be changed while it runs"),
    ] {
        let refusal = refused(set);
        assert!(refusal.contains(problem) && refusal.contains("file.toml:1"), "{set}: {refusal}");
    }
}

#[test]
fn copies_change_together() {
    let text = OVERLOADED.replace("node.a = {}", "node.a = { count = 3 }");
    let event = "[[event]]\nat = \"1 s\"\nset = { \"link.hop.delay\" = \"20 ms\" }\n";
    let mut built = built(&format!("{text}{event}"));
    built.network.run_until(at(2));
    for side in built.sides.clone() {
        let line: &mut bentpipe_net::Link = built.network.element(side.line).expect("a line");
        assert_eq!(line.delay(at(2)), Span::from_millis(20), "{}", side.name);
    }
}

#[test]
fn an_outage_by_plan_and_one_by_event_lose_the_same_packets() {
    let channel = |fault: &str| OVERLOADED.replace("[flow", &format!("forward.channel = {fault}\n[flow"));
    let plan = channel("{ kind = \"outages\", outages = [{ at = \"5 s\", lasts = \"3 s\" }] }");
    let event =
        "[[event]]\nat = \"5 s\"\nset = { \"link.hop.forward.channel.loss\" = 1.0 }\nhold = \"3 s\"\n";
    let event = channel("{ kind = \"packet-errors\", loss = 0.0 }") + event;
    let [plan, event] = [plan, event].map(|text| arrivals(&text));
    assert_eq!(plan, event);
    assert!(plan[5..8].iter().all(|bits| *bits == 0.0) && plan[8] > 7e6, "{plan:?}");
}
