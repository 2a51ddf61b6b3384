//! Role `pep`: split TCP against closed forms, bounded buffers, and connections that break or are not split.

use std::collections::HashMap;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_transport::tcp::{Endpoint, Failure, Pep};

use super::*;

#[derive(Default)]
struct Counts(HashMap<&'static str, u64>);

impl bentpipe_net::Observer for Counts {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.name, total);
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

fn counts(built: &mut Built) -> HashMap<&'static str, u64> {
    let mut counts = Counts::default();
    built.network.observe(built.roles[0].element, &mut counts);
    counts.0
}

fn pep(built: &mut Built) -> &mut Pep {
    built.network.element(built.roles[0].element).expect("a proxy")
}

/// Server and client with a satellite of 10 Mbit/s and an RTT of 600 ms, past a node with this role.
fn network(role: &str, more: &str) -> Built {
    built(&format!(
        r#"
title = "download"
duration = "400 s"
node.server = {{}}
node.edge = {{ kind = "router", {role} }}
node.client = {{}}
[link.core]
between = ["server", "edge"]
rate = "1 Gbit/s"
delay = "1 ms"
queue = {{ kind = "drop-tail", bytes = "20 MB" }}
[link.space]
between = ["edge", "client"]
rate = "10 Mbit/s"
delay = "299 ms"
queue = {{ kind = "drop-tail", bytes = "2 MB" }}
{more}"#
    ))
}

/// Flow of one transfer.
fn transfer(name: &str, from: &str, to: &str, size: &str) -> String {
    format!(
        "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\n\
         application = {{ kind = \"bulk\", size = \"{size}\" }}\ntraffic = {{ kind = \"tcp\" }}\n"
    )
}

/// Network after 200 s of a download.
fn download(role: &str, size: &str, more: &str) -> Built {
    let mut built = network(role, &format!("{more}{}", transfer("download", "server", "client", size)));
    built.network.run_until(at(200));
    built
}

/// Completion time and bytes delivered of a flow.
fn outcome(built: &mut Built, flow: usize) -> (Option<f64>, u64) {
    let receiver = built.flows[flow].receivers[0];
    let receiver: &mut Endpoint = built.network.element(receiver).expect("an end");
    (receiver.completed_at().map(Time::as_secs_f64), receiver.bytes_delivered())
}

/// Proxy whose satellite side sends at the line rate from its first byte.
const SPLIT: &str = "role = { kind = \"pep\", link = \"space\", \
     satellite = { controller = { name = \"fixed\", rate = \"9.6 Mbit/s\" }, send_buffer = \"12 MB\" } }";

#[test]
fn a_split_download_takes_set_up_propagation_and_transmission() {
    // The SYN of the proxy and its answer; data at 9.6 Mbit/s. The window of a SYN is not scaled (RFC 7323, section 2.2), so that
    // after 65535 B the proxy waits for the first ACK.
    let bound = |bytes: f64| {
        let first = if bytes > 65_535.0 { 0.598 - 65_535.0 * 8.0 / 9.6e6 } else { 0.0 };
        3.0 * 0.299 + 0.001 + first + bytes * 8.0 / 9.6e6
    };
    for (size, bytes) in [("50 kB", 50e3), ("500 kB", 500e3), ("1 MB", 1e6), ("10 MB", 10e6)] {
        let mut built = download(SPLIT, size, "");
        let (time, delivered) = outcome(&mut built, 0);
        let (time, bound) = (time.expect("an end"), bound(bytes));
        assert_eq!(delivered as f64, bytes, "{size}");
        assert!((time / bound - 1.0).abs() < 0.01, "{size}: {time} s against {bound} s");
    }
}

#[test]
fn both_directions_split_alike() {
    let both = transfer("down", "server", "client", "1 MB") + &transfer("up", "client", "server", "1 MB");
    let mut built = network(SPLIT, &both);
    built.network.run_until(at(100));
    // The proxy sends the download over the satellite, and the client the upload, in slow start.
    let [down, up] = [0, 1].map(|flow| outcome(&mut built, flow));
    assert_eq!((down.1, up.1), (1_000_000, 1_000_000));
    assert!(down.0 < up.0, "{down:?} {up:?}");
    let counts = counts(&mut built);
    assert_eq!((counts["connections-split"], counts["relayed-bytes"]), (2, 2_000_000));
    // TIME-WAIT of two minutes later nothing is left.
    built.network.run_until(at(300));
    assert_eq!(pep(&mut built).connections(), 0);
}

#[test]
fn an_idle_proxy_changes_nothing() {
    let off = SPLIT.replace("link =", "state = \"draining\", link =");
    assert_eq!(outcome(&mut download(&off, "500 kB", ""), 0), outcome(&mut download("", "500 kB", ""), 0));
    // Slow start from 10 segments: 346 segments take 10 + 15 + 22 + 33 + 50 + 75 + 112 + the rest.
    let (time, _) = outcome(&mut download("", "500 kB", ""), 0);
    let (split, _) = outcome(&mut download(SPLIT, "500 kB", ""), 0);
    assert!(time.expect("an end") > split.expect("an end") + 5.0 * 0.6, "{time:?} {split:?}");
}

#[test]
fn losses_are_repaired_on_their_side() {
    let lossy = "[link.space.forward.channel]\nkind = \"packet-errors\"\nloss = 0.01\n";
    let mut built = download(SPLIT, "5 MB", lossy);
    let (split, delivered) = outcome(&mut built, 0);
    assert_eq!(delivered, 5_000_000);
    let (whole, _) = outcome(&mut download("", "5 MB", lossy), 0);
    assert!(split.expect("an end") * 5.0 < whole.unwrap_or(200.0), "{split:?} against {whole:?}");
    let counts = counts(&mut built);
    assert_eq!((counts["connections-split"], counts["lost-bytes"]), (1, 0));
    assert_eq!(counts["relayed-bytes"], 5_000_000);
    assert_eq!(counts["connections-broken"], 0);
}

/// Proxy with small buffers.
const BOUNDED: &str = "role = { kind = \"pep\", link = \"space\", state = \"on\", ground = { receive_buffer = \"100 kB\" }, \
     satellite = { controller = { name = \"fixed\", rate = \"9.6 Mbit/s\" }, send_buffer = \"300 kB\" } }";

#[test]
fn a_full_proxy_holds_no_more_than_its_buffers_and_slows_the_server() {
    let mut built = network(BOUNDED, &transfer("download", "server", "client", "5 MB"));
    let (mut most, mut ahead) = (0, 0);
    for tenth in 1..=1000 {
        built.network.run_until(Time::ZERO + Span::from_millis(100) * tenth);
        let held = pep(&mut built).held();
        assert!(held <= 400_000, "{held} B held at {tenth}");
        most = most.max(held);
        let sender: &mut Endpoint = built.network.element(built.flows[0].sender).expect("an end");
        let acked = sender.bytes_acked();
        ahead = ahead.max(acked.saturating_sub(outcome(&mut built, 0).1));
    }
    // Both buffers fill, less a segment each; the server is ahead by them and by the ACKs on their way.
    assert!(most > 395_000, "{most}");
    assert!((395_000..=400_000).contains(&ahead), "{ahead}");
    let (time, delivered) = outcome(&mut built, 0);
    assert_eq!(delivered, 5_000_000);
    // After set-up and the first 65535 B the send buffer bounds the satellite's rate: 300 kB in each RTT of 598 ms.
    let bound = 0.001 + 2.0 * 0.598 + (5e6 - 65_535.0) / 300e3 * 0.598 + 0.299;
    let time = time.expect("an end");
    assert!((time / bound - 1.0).abs() < 0.03, "{time} s against {bound} s");
}

#[test]
fn a_crash_resets_both_ends_and_counts_what_was_acknowledged_and_lost() {
    let event = "[[event]]\nat = \"5 s\"\nset = { \"node.edge.role.state\" = \"down\" }\nhold = \"20 s\"\n";
    let late =
        transfer("late", "server", "client", "50 kB").replace("[flow.late]", "[flow.late]\nstart = \"30 s\"");
    let flows = transfer("download", "server", "client", "5 MB") + &late + event;
    let mut built = network(BOUNDED, &flows);
    built.network.run_until(at(29));
    let sender: &mut Endpoint = built.network.element(built.flows[0].sender).expect("an end");
    let (acked, failure) = (sender.bytes_acked(), sender.failure());
    assert_eq!(failure, Some(Failure::Reset));
    let receiver: &mut Endpoint = built.network.element(built.flows[0].receivers[0]).expect("an end");
    let (delivered, failure) = (receiver.bytes_delivered(), receiver.failure());
    assert_eq!(failure, Some(Failure::Reset));
    let now = counts(&mut built);
    assert_eq!((now["connections-broken"], pep(&mut built).connections()), (1, 0));
    // Bytes on their way to the client arrive before the reset does, so the proxy counts more.
    let lost = acked - delivered;
    assert!(lost > 50_000 && now["lost-bytes"] >= lost, "{lost} of {}", now["lost-bytes"]);
    assert!(now["lost-bytes"] <= 400_000);
    // It restarts.
    built.network.run_until(at(100));
    assert_eq!(outcome(&mut built, 1).1, 50_000);
    assert_eq!(counts(&mut built)["connections-split"], 2);
}

#[test]
fn only_connections_over_the_satellite_are_split() {
    let text = format!(
        r#"
title = "t"
duration = "20 s"
node.near = {{}}
node.other = {{}}
node.edge = {{ kind = "router", {SPLIT} }}
node.hub = {{ kind = "router" }}
node.far = {{}}
node.home = {{ count = 3 }}
link.lan = {{ between = ["near", "edge"], rate = "100 Mbit/s" }}
link.wan = {{ between = ["other", "edge"], rate = "100 Mbit/s" }}
link.space = {{ between = ["edge", "hub"], rate = "10 Mbit/s", delay = "299 ms" }}
link.out = {{ between = ["hub", "far"], rate = "100 Mbit/s" }}
link.access = {{ between = ["hub", "home"], rate = "100 Mbit/s" }}
{}{}{}{}"#,
        transfer("ground", "near", "other", "10 kB"),
        transfer("space", "far", "other", "10 kB"),
        transfer("homes", "near", "home", "10 kB"),
        transfer("six", "near", "far", "10 kB").replace("to =", "ip = 6\nto ="),
    );
    let mut built = built(&text);
    built.network.run_until(at(20));
    for flow in 0..built.flows.len() {
        assert_eq!(outcome(&mut built, flow).1, 10_000, "{}", built.flows[flow].name);
    }
    let counts = counts(&mut built);
    assert_eq!(counts["connections-split"], 5);
    assert!(counts["packets-passed"] > 10);
}

#[test]
fn errors_of_the_role_have_their_place() {
    let refusal = |node: &str| {
        refused(&format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{ {node} }}\n\
             link.x = {{ between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }}\n"
        ))
    };
    for (role, expected) in [
        ("role = { kind = \"pep\", link = \"x\" }", "a host forwards no packets"),
        (
            "kind = \"router\", role = { kind = \"pep\", link = \"y\" }",
            "node.b.role.link: no link of this node is called \"y\"",
        ),
        ("kind = \"router\", role = { kind = \"pep\" }", "`link` is missing"),
        (
            "kind = \"router\", role = { kind = \"pep\", link = \"x\", satellite = { initial_window = 0 } }",
            "expected 1 to 1000 segments",
        ),
        ("kind = \"router\", role = { kind = \"pep\", link = \"x\", connections = 0 }", "connections"),
    ] {
        let said = refusal(role);
        assert!(said.contains(expected) && said.contains("file.toml:4:"), "{said}\nexpected {expected}");
    }
}
