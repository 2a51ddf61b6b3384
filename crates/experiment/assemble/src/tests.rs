mod adapt;
mod broadcast;
mod bundles;
mod common;
mod conference;
mod conservation;
mod effects;
mod events;
mod jitter;
mod leaves;
mod live_keys;
mod minima;
mod nat;
mod outages;
mod pabx;
mod path_mtu;
mod pep;
mod ping;
mod refusals;
mod roles;
mod shipped;
mod stream;
mod udlr;
mod vc;

use std::sync::{Arc, Mutex};

use bentpipe_net::Node;
use bentpipe_scenario::{Document, Traffic};
use bentpipe_transport::app::{ReplaySink, Sink};
use bentpipe_transport::tcp;
use bentpipe_units::{Bytes, Time};

use super::*;

/// Returns access to any file, as commands have it.
fn access() -> bentpipe_scenario::Access {
    bentpipe_paths::any_file(Path::new(""))
}

fn parsed(text: &str) -> Result<Document, bentpipe_scenario::ScenarioError> {
    Document::parse("file.toml", text.as_bytes()).map(|document| document.with_access(access()))
}

fn scenario(text: &str) -> Scenario {
    let document = parsed(text).unwrap_or_else(|refusal| panic!("{refusal}"));
    checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Returns why `check` refuses a file.
fn refused(text: &str) -> String {
    match parsed(text).and_then(|document| checked(&document)) {
        Err(refusal) => refusal.to_string(),
        Ok(_) => panic!("accepted: {text}"),
    }
}

fn built(text: &str) -> Built {
    Built::new(&scenario(text), 1, &access()).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Two hosts with a router and a satellite link between them.
fn geo(rest: &str) -> String {
    format!(
        r#"
title = "GEO"
duration = "20 s"
node.client = {{}}
node.gateway = {{ kind = "router" }}
node.server = {{}}
[link.access]
between = ["client", "gateway"]
rate = "1 Gbit/s"
delay = "1 ms"
[link.satellite]
between = ["gateway", "server"]
rate = "10 Mbit/s"
delay = "270 ms"
queue = {{ kind = "drop-tail", bytes = "500 kB" }}
{rest}"#
    )
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

#[test]
fn tcp_fills_the_link() {
    let text = geo(
        "[flow.bulk]\nfrom = \"client\"\nto = \"server\"\ntraffic = { kind = \"tcp\", receive_buffer = \"1 MB\" }",
    );
    let mut built = built(&text);
    built.network.run_until(at(20));
    let flow = &built.flows[0];
    assert_eq!((flow.name.as_str(), flow.traffic, flow.copies), ("bulk", "tcp", 1));
    let receiver: &mut tcp::Endpoint = built.network.element(flow.receivers[0]).expect("an end");
    // 16 s of 10 Mbit/s after slow start: nothing is lost, as the window is less than path and queue hold.
    let bytes = receiver.bytes_delivered();
    assert!((17_000_000..21_000_000).contains(&bytes), "{bytes}");
}

/// Elements of connections that never run: 127 MB of the 168 MB that `check` of 20,000 took.
#[test]
fn a_check_has_shapes_of_flows_but_of_those_that_events_turn_off() {
    let scenario = scenario(&geo(r#"
[flow.bulk]
from = "client"
to = "server"
traffic = "tcp"
count = 2
[flow.stopped]
from = "client"
to = "server"
traffic = "tcp"
count = 2
[flow.later]
from = "client"
to = "server"
traffic = "tcp"
active = false
[[event]]
at = "5 s"
set = { "flow.stopped.active" = false }"#));
    let loader = Loader { makes: false, ..Loader::new(&access()) };
    let how = (1, Flows::Shapes);
    let (mut built, _) = Built::with_gates(&scenario, how, &loader, |_, _| Gates::default())
        .unwrap_or_else(|problem| panic!("{problem}"));
    for flow in &built.flows {
        for end in [flow.sender, flow.receivers[0]] {
            let is_shape = built.network.element::<shape::Shape>(end).is_some();
            assert_eq!(is_shape, flow.flow == "bulk", "{}", flow.name);
        }
    }
}

#[test]
fn the_mss_is_the_paths() {
    let flow = "[flow.bulk]\nfrom = \"client\"\nto = \"server\"\nip = 6\ntraffic = \"tcp\"";
    let mss = |text: &str| match &scenario(text).flow["bulk"].traffic {
        Traffic::Tcp(tcp) => tcp.mss,
        other => panic!("{}", other.word()),
    };
    assert_eq!(mss(&geo(flow)), Bytes::new(1440));
    let jumbo = geo(flow).replace("rate = ", "mtu = \"4000 B\"\nrate = ");
    assert_eq!(mss(&jumbo), Bytes::new(3940));
    assert_eq!(
        mss(&jumbo.replace("traffic = \"tcp\"", "traffic = { kind = \"tcp\", mss = \"512 B\" }")),
        Bytes::new(512)
    );
}

/// A terminal approves what it then asks for: slots are there when the window is, a second and more sooner.
#[test]
fn an_approved_rate_becomes_a_request_for_capacity() {
    let delivered = |tcp: &str, capacity: bool| {
        let mut built = built(&format!(
            r#"
title = "return link"
duration = "8 s"
node.pisa = {{}}
node.cnit = {{}}
[carrier.skyplex]
[link.satellite]
between = ["pisa", "cnit"]
delay = "250 ms"
quick_start = {{ capacity = {capacity} }}
forward.dama = {{ carrier = "skyplex", rbdc = "2.112 Mbit/s" }}
return.dama = {{ carrier = "skyplex", cra = "264 kbit/s" }}
[flow.bulk]
from = "pisa"
to = "cnit"
start = "2 s"
[flow.bulk.traffic]
kind = "tcp"
{tcp}"#
        ));
        built.network.run_until(at(7));
        let receiver: &mut tcp::Endpoint =
            built.network.element(built.flows[0].receivers[0]).expect("an end");
        receiver.bytes_delivered()
    };
    let asking = "quick_start = \"1 Mbit/s\"";
    let [without, unasked, asked] = [delivered("", true), delivered(asking, false), delivered(asking, true)];
    assert!(unasked > 2 * without, "{without} {unasked}");
    assert!(asked > unasked + 100_000, "{unasked} {asked}");
}

#[test]
fn copies_of_udp_share_an_element_and_all_arrives() {
    let text = geo("[flow.voice]\nfrom = \"server\"\nto = \"client\"\ncount = 30\nstop = \"10 s\"\n\
         traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"32 B\" }");
    let mut built = built(&text);
    built.network.run_until(at(20));
    assert_eq!((built.flows.len(), built.flows[0].copies), (1, 30));
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    let packets: Vec<u64> = sink.flows().iter().map(|flow| flow.packets).collect();
    assert_eq!(packets, [500; 30]);
    let delay = sink.delay_range().expect("some").0;
    assert!(delay > Span::from_millis(271) && delay < Span::from_millis(272), "{delay}");
}

#[test]
fn video_flows_at_its_rate() {
    let text = geo("[flow.tv]\nfrom = \"server\"\nto = \"client\"\ncount = 2\n\
         traffic = { kind = \"video\", rate = { mean = \"100 kbit/s\", deviation = \"0 bit/s\" }, ts_packets = 2 }");
    let mut built = built(&text);
    built.network.run_until(at(20));
    assert_eq!(built.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(), ["tv.1", "tv.2"]);
    let sink: &mut Sink = built.network.element(built.flows[1].receivers[0]).expect("a sink");
    // A datagram of 2 * 188 octets every 30.08 ms, the last ones still under way.
    let packets = sink.flows()[0].packets;
    assert!((654..=664).contains(&packets), "{packets}");
    let refused = |video: &str| {
        let head = "[flow.tv]\nfrom = \"server\"\nto = \"client\"\ndont_fragment = true\n";
        refused(&geo(&format!("{head}video = {video}")))
    };
    let long = refused("{ rate = { mean = \"1 Mbit/s\", deviation = \"0 bit/s\" }, ts_packets = 8 }");
    assert!(long.contains("20:77: flow.tv.traffic.ts_packets: makes packets of 1544 B"), "{long}");
    let far = refused("{ rate = { mean = \"50 Mbit/s\", deviation = \"1 Mbit/s\" } }");
    assert!(far.contains("flow.tv.traffic.rate.mean: expected one that leaves"), "{far}");
}

#[test]
fn copies_with_a_stagger_start_one_after_the_other() {
    let text = geo(
        "[flow.bulk]\nfrom = \"client\"\nto = \"server\"\ncount = 3\nstagger = \"2 s\"\ntraffic = \"tcp\"",
    );
    let flows = built(&text).flows;
    let starts: Vec<_> = flows.iter().map(|flow| (flow.name.as_str(), flow.start)).collect();
    assert_eq!(
        starts,
        [("bulk.1", Span::ZERO), ("bulk.2", Span::from_secs(2)), ("bulk.3", Span::from_secs(4))]
    );
}

/// Each copy and each seed has a start of its own, in the range, and it is the same with other flows next to it.
#[test]
fn a_spread_of_starts_is_random_by_copy_and_seed() {
    let flow = "[flow.bulk]\nfrom = \"client\"\nto = \"server\"\ncount = 3\nstagger = \"2 s\"\n\
                start_spread = \"1 s\"\ntraffic = \"tcp\"\n";
    let starts = |text: &str, seed: u64| -> Vec<Span> {
        let built = Built::new(&scenario(&geo(text)), seed, &bentpipe_scenario::Access::default());
        let built = built.unwrap_or_else(|problem| panic!("{problem}"));
        built.flows.iter().filter(|flow| flow.name.starts_with("bulk")).map(|flow| flow.start).collect()
    };
    let drawn = starts(flow, 1);
    for (n, start) in (0..).zip(&drawn) {
        let first = Span::from_secs(2 * n);
        assert!(*start >= first && *start < first + Span::from_secs(1), "{drawn:?}");
    }
    assert_ne!(drawn[0] + Span::from_secs(2), drawn[1]);
    assert_ne!(drawn, starts(flow, 2));
    let beside = format!("[flow.aside]\nfrom = \"server\"\nto = \"client\"\ntraffic = \"tcp\"\n{flow}");
    assert_eq!(drawn, starts(&beside, 1));
}

#[test]
fn the_copies_of_a_node_start_one_after_the_other() {
    let text = geo(
        "[node.home]\ncount = 3\n[link.last]\nbetween = [\"home\", \"gateway\"]\nrate = \"1 Mbit/s\"\n\
         [flow.up]\nfrom = \"home\"\nto = \"server\"\ncount = 2\nnode_stagger = \"1 s\"\nstart = \"5 s\"\ntraffic = \"tcp\"",
    );
    let starts: Vec<u64> =
        built(&text).flows.iter().map(|flow| flow.start.as_nanos() / 1_000_000_000).collect();
    assert_eq!(starts, [5, 6, 7, 5, 6, 7]);
}

#[test]
fn ipv6_goes_through_the_tunnel_and_a_capture_sees_it() {
    let text = geo(
        "ip_versions = \"ipv4\"\n[tunnel.six]\nbetween = [\"gateway\", \"server\"]\n[flow.v]\nfrom = \"client\"\n\
         to = \"server\"\nip = 6\nudp = { pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"100 B\" }\n\
         [probe]\ncapture = [\"gateway:satellite\", \"gateway:access\"]",
    );
    let mut built = built(&text);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for (n, input) in [built.captures[0].sent, built.captures[1].received].into_iter().enumerate() {
        let seen = Arc::clone(&seen);
        let tap = move |_, packet: &bentpipe_net::Packet| {
            seen.lock().expect("one thread").push((n, packet.header()[0] >> 4, packet.len()));
        };
        built.network.tap(input.0, input.1, tap);
    }
    built.network.run_until(at(20));
    let seen = seen.lock().expect("one thread");
    assert_eq!(seen.iter().filter(|point| **point == (0, 4, 168)).count(), 20, "{seen:?}");
    assert_eq!(seen.iter().filter(|point| **point == (1, 6, 148)).count(), 20, "{seen:?}");
    let sink: &mut Sink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    assert!(sink.flows()[0].packets >= 19);
}

#[test]
fn a_group_gets_each_packet_once_over_each_link() {
    let text = geo(
        "[node.second]\n[link.other]\nbetween = [\"server\", \"second\"]\nrate = \"1 Mbit/s\"\n[group.all]\n\
         members = [\"server\", \"second\"]\n[flow.news]\nfrom = \"client\"\nto = \"all\"\n\
         traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"100 B\", packets = 10 }",
    )
    .replace("node.server = {}", "node.server = { kind = \"router\" }");
    let mut built = built(&text);
    built.network.run_until(at(20));
    assert_eq!(built.flows[0].receivers.len(), 2);
    for receiver in built.flows[0].receivers.clone() {
        let sink: &mut Sink = built.network.element(receiver).expect("a sink");
        assert_eq!((sink.flows()[0].packets, sink.flows()[0].duplicates), (10, 0));
    }
}

#[test]
fn a_capture_is_replayed_over_the_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let document = bentpipe_paths::document(&folder.join("replay.toml")).expect("readable");
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, document.access()).expect("possible");
    built.network.run_until(at(30));
    let sink: &mut ReplaySink = built.network.element(built.flows[0].receivers[0]).expect("a sink");
    let stats = sink.stats();
    // Stationary loss of the channel: p / (p + r).
    let arrived = stats.packets as f64 / 1000.0;
    assert!((arrived - 0.952).abs() < 0.04, "{arrived}");
    assert_eq!(stats.bytes, stats.packets * 32, "payload of UDP");
    assert_eq!(stats.lost(), stats.expected() - stats.packets);
}

#[test]
fn both_directions_of_a_capture_are_replayed_each_from_its_end() {
    let folder = bentpipe_testkit::Folder::new();
    let mut file = std::fs::File::create(folder.path().join("both.pcap")).expect("a file");
    let mut writer =
        bentpipe_wire::pcap::Writer::new(&mut file, bentpipe_wire::pcap::LinkType::RAW).expect("written");
    for n in 0..40_u8 {
        // Every fourth packet is an answer.
        let (from, to, len) = if n % 4 == 3 { (6, 7, 40) } else { (7, 6, 200) };
        let mut packet = vec![0; usize::from(len)];
        packet[..20].copy_from_slice(&[
            0x45,
            0,
            0,
            len,
            0,
            n + 1,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            9,
            8,
            from,
            10,
            9,
            8,
            to,
        ]);
        writer.write(u64::from(n) * 10_000_000, &packet, 0).expect("written");
    }
    // The second half of the capture is behind the stop.
    for (stop, [there, back]) in [("", [30, 10]), ("stop = \"200 ms\"\n", [15, 5])] {
        let flow = format!(
            "[flow.r]\nfrom = \"server\"\nto = \"client\"\n{stop}\
             traffic = {{ kind = \"replay\", file = \"both.pcap\", direction = \"both\" }}\n"
        );
        let file = folder.write("both.toml", geo(&flow));
        let document = bentpipe_paths::document(&file).expect("readable");
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut built = Built::new(&scenario, 1, document.access()).expect("possible");
        built.network.run_until(at(20));
        let statements = built.network.close();
        let senders: Vec<_> =
            statements.iter().map(|it| (it.sender.to_string(), it.account.delivered)).collect();
        let of = |is_own: bool| {
            senders.iter().filter(|(sender, _)| (sender == "flow/r/sender") == is_own).map(|(_, n)| *n).max()
        };
        assert_eq!([of(true), of(false)], [Some(there), Some(back)], "{stop} {senders:?}");
    }
}

#[test]
fn captures_that_arrive_at_one_node_are_counted_apart() {
    let folder = bentpipe_testkit::Folder::new();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/call.pcap");
    std::fs::copy(capture, folder.path().join("call.pcap")).expect("readable");
    let flow = |name: &str, start: &str| {
        format!(
            "[flow.{name}]\nfrom = \"client\"\nto = \"server\"\nstart = \"{start}\"\n\
             traffic = {{ kind = \"replay\", file = \"call.pcap\" }}\n"
        )
    };
    let long = "[flow.long]\nfrom = \"client\"\nto = \"server\"\n\
                traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"100 ms\" }, payload = \"3000 B\" }\n";
    let text = geo(&format!("{}{}{long}", flow("first", "1 s"), flow("second", "1 s")));
    let text = text.replace(
        "delay = \"270 ms\"",
        "delay = \"270 ms\"\nchannel = { kind = \"packet-errors\", loss = 0.1 }",
    );
    let file = folder.write("two.toml", &text);
    let document = bentpipe_paths::document(&file).expect("readable");
    let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut built = Built::new(&scenario, 1, document.access()).expect("possible");
    built.network.run_until(at(20));
    let receivers: Vec<_> = built.flows.iter().map(|flow| flow.receivers[0]).collect();
    let counted = [0, 1].map(|n| {
        let sink: &mut ReplaySink = built.network.element(receivers[n]).expect("a sink");
        assert!(sink.stats().lost() > 5 && sink.stats().packets > 200, "{:?}", sink.stats());
        sink.stats().packets
    });
    assert_ne!(counted[0], counted[1]);
    let sink: &mut Sink = built.network.element(receivers[2]).expect("a sink");
    assert!(sink.flows()[0].packets > 100, "datagrams in fragments are reassembled next to captures");
    let statements = built.network.close();
    let delivered = |name: &str| {
        let sender = format!("flow/{name}/sender");
        statements.iter().find(|statement| *statement.sender == *sender).map(|it| it.account.delivered)
    };
    assert_eq!([delivered("first"), delivered("second")], counted.map(Some));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let text = geo("[flow.bulk]\nfrom = \"client\"\nto = \"server\"\ntraffic = \"tcp\"").replace(
            "delay = \"270 ms\"",
            "delay = \"270 ms\"\nchannel = { kind = \"packet-errors\", loss = 0.01 }",
        );
        let mut built =
            Built::new(&scenario(&text), seed, &bentpipe_scenario::Access::default()).expect("possible");
        built.network.run_until(at(5));
        built.network.fingerprint()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn what_no_node_expects_is_counted_there() {
    let mut built = built(&geo(""));
    built.network.run_until(at(1));
    let node: &mut Node = built.network.element(built.nodes[1].element).expect("a node");
    assert_eq!(node.dropped(bentpipe_net::node::Drop::NoRoute), 0);
    assert_eq!(built.nodes[1].addresses[0].to_string(), "10.0.0.2");
    assert_eq!(built.nodes[1].addresses[1].to_string(), "fd00::2");
}

/// The delay of the satellite link forward at these times in milliseconds, as its line has it.
fn delays_ms(built: &mut Built, times_ms: &[u64]) -> Vec<u64> {
    let link =
        built.links.iter().find(|link| link.name == "satellite" && link.way == bentpipe_site::Way::Forward);
    let line = link.expect("a link").line;
    let line: &mut bentpipe_net::Link = built.network.element(line).expect("a line");
    let delay = |at_ms: &u64| line.delay(Time::from_nanos(at_ms * 1_000_000)).as_nanos() / 1_000_000;
    times_ms.iter().map(delay).collect()
}

#[test]
fn delays_change_as_a_file_or_the_scenario_says() {
    let folder = bentpipe_testkit::Folder::new();
    let file = folder.write("pass.csv", "time_s,delay_ms\n1,100\n2,200\n");
    let text = |rest: &str| geo(&format!("[link.satellite.forward]\ndelay_changes = {{ {rest} }}"));
    let from_file = format!("file = \"{}\"", file.display());
    for (changes, expected) in [
        (from_file.clone(), [270, 100, 100, 200]),
        (format!("{from_file}, ramp = \"500 ms\""), [185, 100, 150, 200]),
        ("points = [{ at = \"1.5 s\", delay = \"7 ms\" }]".to_owned(), [270, 270, 7, 7]),
    ] {
        let mut built = built(&text(&changes));
        assert_eq!(delays_ms(&mut built, &[600, 1000, 1600, 2500]), expected, "{changes}");
    }
    std::fs::write(&file, "time_s,delay_ms\n1,100\n1,far\n").expect("written");
    let said = refused(&text(&from_file));
    assert!(said.starts_with("file.toml:17:26: link.satellite.forward.delay_changes.file: "), "{said}");
    assert!(said.contains("pass.csv:3: delay \"far\""), "{said}");
}

#[test]
fn only_lines_have_delays_that_change() {
    let rest = "[link.wlan]\nbetween = [\"gateway\", \"client\"]\nwifi = {}\n\
                delay_changes = { points = [{ at = \"1 s\", delay = \"1 ms\" }] }";
    let said = refused(&geo(rest));
    assert!(said.contains("link.wlan.delay_changes: only a line's delay changes"), "{said}");
}

/// Feedback of header compression goes by the elements of the other direction, which have to be there.
#[test]
fn feedback_of_a_stage_needs_the_other_direction_on_this_machine() {
    let text = |own: &str| {
        format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
             link.l = {{ between = [\"a\", \"b\"], rate = \"1 Mbit/s\", delay = \"50 ms\", {own} = {{ scheme = \"crtp\", \
             feedback = true }} }}\n"
        )
    };
    let part = crate::ScenarioPart::new(&scenario(&text("aggregate")), "l", "a");
    let said = part.err().map(|problem| problem.to_string()).expect("refused");
    assert!(said.contains("link.l.aggregate.feedback: of a cut link"), "{said}");
    let said = refused(&text("forward.aggregate"));
    assert!(said.contains("link.l.forward.aggregate.feedback: no way back"), "{said}");
}
