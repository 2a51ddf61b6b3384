//! Real hosts' places, and changes while running.

use bentpipe_net::{Gate, Packet};
use bentpipe_units::{Span, Time};

use super::*;
use crate::scenario::Document;

const GEO: &str = r#"
title = "t"
duration = "10 s"
node.server = { real = true }
node.hub = { kind = "router" }
node.client = {}
node.other = {}
[link.lan]
between = ["server", "hub"]
rate = "8 Mbit/s"
delay = "1 ms"
[link.satellite]
between = ["hub", "client"]
rate = "8 Mbit/s"
delay = "100 ms"
[link.side]
between = ["other", "hub"]
rate = "8 Mbit/s"
delay = "1 ms"
[flow.download]
from = "server"
to = "client"
tcp = {}
[flow.background]
from = "other"
to = "client"
udp = { pattern = { kind = "constant", interval = "8 ms" }, payload = "972 B" }
"#;

fn document(text: &str) -> Document {
    Document::parse("geo.toml", text.as_bytes()).expect("TOML")
}

fn emulated(text: &str) -> Emulated {
    let scenario = document(text).scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    Emulated::new(&scenario, 1, Path::new(".")).unwrap_or_else(|problem| panic!("{problem}"))
}

/// A UDP packet from the first to the second address.
fn packet(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let ip = bentpipe_wire::ip::Repr::new(from, to, bentpipe_wire::ip::Protocol::UDP, 100);
    let mut bytes = vec![0; ip.buffer_len() + 100];
    ip.emit(&mut bytes);
    bytes
}

#[test]
fn a_real_host_has_a_gate_and_its_flows_are_left_out() {
    let text = GEO.replace("node.client = {}", "node.client = { real = true }");
    let mut emulated = emulated(&text);
    let names: Vec<&str> = emulated.built.flows.iter().map(|flow| &flow.name[..]).collect();
    assert!(names.is_empty(), "both end at a real host: {names:?}");
    assert_eq!(emulated.hosts.len(), 2);
    let [server, client] = [&emulated.hosts[0], &emulated.hosts[1]];
    assert_eq!(server.interfaces.len(), 1);
    assert!(server.routes.contains(&(client.addresses[0], 0)));
    let (from, to) = (server.interfaces[0].gate, client.interfaces[0].gate);
    let bytes = packet(server.addresses[0], client.addresses[0]);
    let network = &mut emulated.built.network;
    network.inject(from, Gate::OUTSIDE, Packet::from_bytes(&bytes));
    network.run_until(Time::ZERO + Span::from_secs(1));
    let (at, arrived) = network.element::<Gate>(to).expect("a gate").take().expect("it arrives");
    // 120 bytes take 0.12 ms on each link.
    assert_eq!(at, Time::ZERO + Span::from_micros(101_240));
    assert_eq!(arrived.to_vec()[20..], bytes[20..]);
    assert_eq!(network.stray(), 0);
}

#[test]
fn simulated_flows_run_beside_real_hosts() {
    let mut emulated = emulated(GEO);
    let names: Vec<&str> = emulated.built.flows.iter().map(|flow| &flow.name[..]).collect();
    assert_eq!(names, ["background"]);
    assert!(emulated.notices.iter().any(|notice| notice.contains("\"download\" is left out")));
    emulated.built.network.run_until(Time::ZERO + Span::from_secs(1));
    assert!(emulated.built.network.work().deliveries > 100);
}

#[test]
fn without_marks_all_hosts_are_real() {
    let emulated = emulated(&GEO.replace("{ real = true }", "{}"));
    let names: Vec<&str> = emulated.hosts.iter().map(|host| &host.name[..]).collect();
    assert_eq!(names, ["server", "client", "other"]);
}

#[test]
fn a_mark_changes_nothing_for_a_simulation() {
    let fingerprint = |text: &str| {
        let scenario = document(text).scenario().expect("a scenario");
        let mut built = Built::new(&scenario, 1, Path::new(".")).expect("a network");
        built.network.run_until(Time::ZERO + Span::from_secs(2));
        built.network.fingerprint()
    };
    assert_eq!(fingerprint(GEO), fingerprint(&GEO.replace("{ real = true }", "{}")));
}

#[test]
fn what_is_set_while_running_becomes_changes_of_elements() {
    let mut emulated = emulated(GEO);
    let mut changer = Changer::new(&emulated);
    let mut document = document(GEO);
    document.set("link.satellite.forward.delay=50 ms").expect("a key");
    document.set("link.satellite.channel={ kind = \"packet-errors\", loss = 1.0 }").expect("a key");
    let changes = changer.change(&document.scenario().expect("a scenario")).expect("possible");
    let satellite =
        emulated.built.links.iter().find(|link| link.name == "satellite").expect("a link").clone();
    let delays: Vec<&Change> =
        changes.iter().filter(|change| matches!(change.setting, Setting::Delay(_))).collect();
    assert_eq!(delays.len(), 1);
    assert_eq!(delays[0].element, satellite.line);
    let network = &mut emulated.built.network;
    changes.iter().for_each(|change| change.apply(network));
    network.run_until(Time::ZERO + Span::from_secs(1));
    let lost = satellite.channel.expect("a channel");
    struct Lost(u64);
    impl bentpipe_net::Observer for Lost {
        fn counter(&mut self, name: &'static str, _: bentpipe_net::Unit, total: u64) {
            self.0 += if name == "lost" { total } else { 0 };
        }
        fn gauge(&mut self, _: &'static str, _: bentpipe_net::Unit, _: f64) {}
    }
    let mut seen = Lost(0);
    network.observe(lost, &mut seen);
    assert!(seen.0 > 50, "all are lost, {} were", seen.0);
    document.set("link.satellite.mtu=1200 B").expect("a key");
    assert!(changer.change(&document.scenario().expect("a scenario")).is_err());
}
