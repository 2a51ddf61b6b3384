//! Flows through an address translator.

use bentpipe_net::Nat;
use bentpipe_transport::ping::Pinger;
use bentpipe_transport::tcp;

use super::*;

/// Two hosts behind a router. Each has a call, an upload and a ping to one host outside.
fn site(role: &str) -> Built {
    let mut built = built(&format!(
        r#"
title = "site"
duration = "20 s"
node.one = {{}}
node.two = {{}}
node.edge = {{ kind = "router"{role} }}
node.far = {{}}
link.a = {{ between = ["one", "edge"], rate = "100 Mbit/s" }}
link.b = {{ between = ["two", "edge"], rate = "100 Mbit/s" }}
link.sky = {{ between = ["edge", "far"], rate = "2 Mbit/s", delay = "260 ms", queue = {{ kind = "drop-tail", bytes = "50 kB" }} }}
[flow.call-one]
from = "one"
to = "far"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "32 B", packets = 100 }}
[flow.call-two]
from = "two"
to = "far"
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "20 ms" }}, payload = "32 B", packets = 100 }}
[flow.upload-one]
from = "one"
to = "far"
application = {{ kind = "bulk", size = "300 kB" }}
traffic = "tcp"
[flow.upload-two]
from = "two"
to = "far"
application = {{ kind = "bulk", size = "300 kB" }}
traffic = "tcp"
[flow.ping-one]
from = "one"
to = "far"
traffic = {{ kind = "ping", packets = 5 }}
[flow.ping-two]
from = "two"
to = "far"
traffic = {{ kind = "ping", packets = 5 }}"#
    ));
    built.network.run_until(at(20));
    built
}

#[test]
fn connections_calls_and_pings_of_two_hosts_pass() {
    for role in ["", ", role = { kind = \"nat\", inside = [\"a\", \"b\"], filtering = \"address\" }"] {
        let mut built = site(role);
        for n in [0, 1] {
            let sink: &mut Sink = built.network.element(built.flows[n].receivers[0]).expect("a sink");
            assert_eq!((sink.flows()[0].packets, sink.flows()[0].lost()), (100, 0), "{role}");
        }
        for n in [2, 3] {
            let end: &mut tcp::Endpoint = built.network.element(built.flows[n].receivers[0]).expect("an end");
            assert_eq!(end.bytes_delivered(), 300_000, "{role}");
        }
        for n in [4, 5] {
            let pinger: &mut Pinger = built.network.element(built.flows[n].sender).expect("a source");
            assert!(pinger.rtts().mean().is_some_and(|mean| mean >= Span::from_millis(520)), "{role}");
        }
    }
}

#[test]
fn packets_have_the_translators_address_outside() {
    let mut built = site(", role = { kind = \"nat\", inside = [\"a\", \"b\"] }");
    let nat = built.roles[0].element;
    let nat: &mut Nat = built.network.element(nat).expect("a translator");
    // Connections are closed and time out late; pings and calls of 20 s ago are still there.
    assert_eq!(nat.mappings(), 6);
    let mut few = site(", role = { kind = \"nat\", inside = [\"a\", \"b\"], ports = 1 }");
    let sinks = [0, 1].map(|n| few.flows[n].receivers[0]);
    let packets = sinks.map(|sink| few.network.element::<Sink>(sink).expect("a sink").flows()[0].packets);
    assert_eq!(packets.iter().filter(|packets| **packets == 0).count(), 1, "{packets:?}");
}

/// A download by a host behind a translator.
fn download(traffic: &str) -> String {
    format!(
        r#"
title = "download"
duration = "20 s"
node.server = {{}}
node.terminal = {{ kind = "router", role = {{ kind = "nat", inside = ["lan"] }} }}
node.pc = {{}}
link.sat = {{ between = ["server", "terminal"], rate = "10 Mbit/s", delay = "270 ms" }}
link.lan = {{ between = ["terminal", "pc"], rate = "100 Mbit/s" }}
flow.download = {{ from = "server", to = "pc", application = {{ kind = "bulk", size = "300 kB" }}, traffic = {traffic} }}"#
    )
}

#[test]
fn a_openedworks_if_the_host_inside_opens_the_connection() {
    let mut opened = built(&download("{ kind = \"tcp\", opened_by = \"receiver\" }"));
    opened.network.run_until(at(20));
    let receiver = opened.flows[0].receivers[0];
    let end: &mut tcp::Endpoint = opened.network.element(receiver).expect("an end");
    assert_eq!(end.bytes_delivered(), 300_000);
    for traffic in ["\"tcp\"", "{ kind = \"tfrc\", payload = \"1000 B\" }"] {
        let text = download(traffic).replace(", application = { kind = \"bulk\", size = \"300 kB\" }", "");
        let refusal = refused(&text);
        let problem =
            "flow.download.to: the translator at \"terminal\" hides \"pc\", so \"server\" cannot open";
        assert!(refusal.contains(problem), "{refusal}");
    }
    let outwards =
        download("\"tcp\"").replace("from = \"server\", to = \"pc\"", "from = \"pc\", to = \"server\"");
    drop(built(&outwards));
    let at_terminal = download("\"tcp\"").replace("from = \"server\"", "from = \"terminal\"");
    drop(built(&at_terminal));
}

/// RFC 3022: an address inside is unknown outside, and RFC 4787 forwards what a mapping has.
#[test]
fn packets_from_outside_to_a_hidden_host_are_dropped() {
    let flow = |name: &str, from: &str, traffic: &str| {
        format!("\n[flow.{name}]\nfrom = \"{from}\"\nto = \"pc\"\ntraffic = {{ {traffic} }}")
    };
    let text = download("{ kind = \"tcp\", opened_by = \"receiver\" }")
        + &flow(
            "udp",
            "server",
            "kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"32 B\", packets = 4",
        )
        + &flow("ping", "server", "kind = \"ping\", packets = 3")
        + &flow(
            "own",
            "terminal",
            "kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"32 B\", packets = 5",
        );
    let mut built = built(&text);
    built.network.run_until(at(20));
    let arrived = |built: &mut Built, flow: usize| {
        let sink = built.flows[flow].receivers[0];
        built.network.element::<Sink>(sink).expect("a sink").flows()[0].packets
    };
    assert_eq!((arrived(&mut built, 1), arrived(&mut built, 3)), (0, 5));
    let end: &mut tcp::Endpoint = built.network.element(built.flows[0].receivers[0]).expect("an end");
    assert_eq!(end.bytes_delivered(), 300_000);
    let pinger: &mut Pinger = built.network.element(built.flows[2].sender).expect("a source");
    assert!(pinger.rtts().mean().is_none());
}
