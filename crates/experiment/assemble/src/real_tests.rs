//! Real hosts' places, and changes while running.

mod changeable;

use bentpipe_atm::Interface;
use bentpipe_atm::fault::Config as CellFault;
use bentpipe_net::{ExternalPort, Packet};
use bentpipe_scenario::Document;
use bentpipe_units::{Span, Time};

use super::*;

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
traffic = "tcp"
[flow.background]
from = "other"
to = "client"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "8 ms" }, payload = "972 B" }
"#;

/// Returns the virtual channel that a link is.
fn channel(scenario: &Scenario, link: &str) -> bentpipe_atm::kind::Kind {
    match &scenario.link[link].medium {
        Some(Medium::Vc(kind)) => kind.clone(),
        other => panic!("{other:?}"),
    }
}

fn document(text: &str) -> Document {
    Document::parse("geo.toml", text.as_bytes()).expect("TOML")
}

fn emulated(text: &str) -> Emulated {
    let scenario = checked(&document(text)).unwrap_or_else(|refusal| panic!("{refusal}"));
    Emulated::new(&scenario, 1, &bentpipe_scenario::Access::default())
        .unwrap_or_else(|problem| panic!("{problem}"))
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
    network.inject(from, ExternalPort::OUTSIDE, Packet::from_bytes(&bytes));
    network.run_until(Time::ZERO + Span::from_secs(1));
    let gate = network.element::<ExternalPort>(to).expect("a gate");
    // The routers ask for members of groups, too.
    let is_unicast = |(_, packet): &(Time, Packet)| packet.to_vec()[20..] == bytes[20..];
    let (at, arrived) = std::iter::from_fn(|| gate.take()).find(is_unicast).expect("it arrives");
    // 120 bytes take 0.12 ms on each link.
    assert_eq!(at, Time::ZERO + Span::from_micros(101_240));
    assert_eq!(arrived.to_vec()[20..], bytes[20..]);
    assert_eq!(network.unrouted_packets(), 0);
}

/// An echo request from the first to the second address.
fn echo_request(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let ip = bentpipe_wire::ip::Repr::new(from, to, bentpipe_wire::ip::Protocol::ICMP, 8);
    let mut bytes = vec![0; ip.buffer_len()];
    ip.emit(&mut bytes);
    bytes.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    bytes
}

/// Routers have routes to each other.
#[test]
fn routers_behind_other_routers_answer_a_real_host() {
    let text = GEO.replace("node.other = {}", "node.other = { kind = \"router\" }");
    let text = &text[..text.find("[flow.background]").expect("a flow")];
    let mut emulated = emulated(text);
    let [server, other] = [emulated.hosts[0].addresses[0], emulated.built.nodes[3].addresses[0]];
    let (host, network) = (emulated.hosts[0].interfaces[0].gate, &mut emulated.built.network);
    network.inject(host, ExternalPort::OUTSIDE, Packet::from_bytes(&echo_request(server, other)));
    network.run_until(Time::ZERO + Span::from_secs(1));
    let gate = network.element::<ExternalPort>(host).expect("a gate");
    let mut arrived = std::iter::from_fn(|| gate.take());
    let is_reply = |(_, packet): &(Time, Packet)| {
        let bytes = packet.to_vec();
        bytes[9] == 1 && (bytes[20], bytes[21]) == (0, 0)
    };
    assert!(arrived.any(|arrival| is_reply(&arrival)), "no echo reply");
}

#[test]
fn simulated_flows_run_next_to_real_hosts() {
    let mut emulated = emulated(GEO);
    let names: Vec<&str> = emulated.built.flows.iter().map(|flow| &flow.name[..]).collect();
    assert_eq!(names, ["background"]);
    assert!(
        emulated
            .notices
            .iter()
            .any(|notice| notice == "not simulated, as a real host is an end: flow \"download\"")
    );
    emulated.built.network.run_until(Time::ZERO + Span::from_secs(1));
    assert!(emulated.built.network.work().deliveries > 100);
}

/// Notices of one kind are one line, however many flows they name.
#[test]
fn notices_are_grouped() {
    let mut text = GEO.to_owned();
    for n in 0..9 {
        text += &format!("[flow.extra{n}]\nfrom = \"server\"\nto = \"client\"\ntraffic = \"tcp\"\n");
    }
    let notices = emulated(&text).notices;
    let flows = "not simulated, as a real host is an end: flows \"download\", \"extra0\", \"extra1\", \"extra2\", \
                 \"extra3\", \"extra4\", \"extra5\", \"extra6\" and 2 more";
    assert_eq!(notices, [flows]);
}

/// The farthest real hosts give the round trip, their slowest link the bandwidth-delay product.
#[test]
fn the_longest_round_trip_of_real_hosts_is_known() {
    let far = emulated(&GEO.replace("node.client = {}", "node.client = { real = true }"));
    assert_eq!(far.max_round_trip, Span::from_millis(202));
    assert_eq!(far.max_bdp.get(), 202_000);
    let near = emulated(&GEO.replace("node.other = {}", "node.other = { real = true }"));
    assert_eq!(near.max_round_trip, Span::from_millis(4));
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
        let scenario = checked(&document(text)).expect("a scenario");
        let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).expect("a network");
        built.network.run_until(Time::ZERO + Span::from_secs(2));
        built.network.fingerprint()
    };
    assert_eq!(fingerprint(GEO), fingerprint(&GEO.replace("{ real = true }", "{}")));
}

#[test]
fn what_is_set_while_running_becomes_changes_of_elements() {
    let mut emulated = emulated(GEO);
    let mut changer = Changer::new(&emulated, &document(GEO).scenario().expect("a scenario"));
    let mut document = document(GEO);
    document.set("link.satellite.forward.delay=50 ms").expect("a key");
    document.set("link.satellite.channel={ kind = \"packet-errors\", loss = 1.0 }").expect("a key");
    let changes = changer.change(&checked(&document).expect("a scenario")).expect("possible");
    let satellite =
        emulated.built.links.iter().find(|link| link.name == "satellite").expect("a link").clone();
    let delays: Vec<&Change> = changes.iter().filter(|change| change.key.ends_with(".delay")).collect();
    assert_eq!(delays.len(), 1);
    assert_eq!(delays[0].element, satellite.line);
    let network = &mut emulated.built.network;
    changes.into_iter().for_each(|change| change.apply(network).expect("a value that was checked"));
    network.run_until(Time::ZERO + Span::from_secs(1));
    let lost = satellite.channels[0];
    struct Lost(u64);
    use bentpipe_net::channel::metrics::LOST;
    use bentpipe_net::metric::{Counter, Gauge, Of};
    impl bentpipe_net::Observer for Lost {
        fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
            self.0 += if metric.is(&LOST) { total } else { 0 };
        }
        fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    }
    let mut seen = Lost(0);
    network.observe(lost, &mut seen);
    assert!(seen.0 > 50, "all are lost, {} were", seen.0);
    document.set("link.satellite.mtu=1200 B").expect("a key");
    assert!(changer.change(&checked(&document).expect("a scenario")).is_err());
}

const SHAPED: &str = r#"
title = "t"
duration = "10 s"
node.left = {}
node.right = {}
[link.hop]
between = ["left", "right"]
rate = "8 Mbit/s"
delay = "1 ms"
queue = { kind = "drop-tail", packets = 10 }
forward.delay = "2 ms"
return.delay = "3 ms"
[link.hop.forward.shaper]
rate = "4 Mbit/s"
burst = "10 kB"
limit = "10 kB"
"#;

/// Returns the settings after a change of `SHAPED`, or its refusal.
fn changed(assignment: &str) -> Result<Vec<String>, String> {
    let mut document = document(SHAPED);
    let mut changer = Changer::new(&emulated(SHAPED), &checked(&document).expect("a scenario"));
    document.set(assignment).map_err(|refusal| refusal.to_string())?;
    let scenario = checked(&document).map_err(|refusal| refusal.to_string())?;
    let changes =
        changer.change(&scenario).map_err(|problem| format!("{}: {}", problem.key, problem.problem))?;
    Ok(changes.into_iter().map(|change| change.value()).collect())
}

#[test]
fn queues_and_shapers_take_new_limits_and_rates() {
    let limits = |packets| {
        let config = bentpipe_net::queue::DropTailConfig { packets: Some(packets), bytes: None };
        format!("{:?}", bentpipe_net::queue::Discipline::DropTail(config))
    };
    assert_eq!(changed("link.hop.queue.packets=20"), Ok(vec![limits(20); 2]));
    let shaped = changed("link.hop.forward.shaper.rate=2 Mbit/s").expect("possible");
    let [config] = &shaped[..] else { panic!("{shaped:?}") };
    let had = bentpipe_site::Way::Forward;
    let scenario = checked(&document(SHAPED)).expect("a scenario");
    let shaper = scenario.link["hop"].own(had).stages.shaper.expect("a shaper");
    let wanted = bentpipe_net::shaper::Config { rate: "2 Mbit/s".parse().expect("a rate"), ..shaper };
    assert_eq!(*config, format!("{wanted:?}"));
    assert_eq!(changed("link.hop.rate=8 Mbit/s"), Ok(vec![]), "it has that already");
}

const CELLS: &str = r#"
title = "x"
duration = "10 s"
[node.host]
[node.other]
[node.near]
kind = "router"
[node.far]
kind = "router"
[atm.switch.middle]
limit = { ubr = 100 }
[atm.line.up]
between = ["near", "middle"]
rate = "10 Mbit/s"
[atm.line.down]
between = ["middle", "far"]
rate = "10 Mbit/s"
channel = [{ kind = "cell-loss", ratio = 0.1 }, { kind = "bit-errors", ber = 1e-6 }]
[link.here]
between = ["host", "near"]
rate = "10 Mbit/s"
[link.there]
between = ["far", "other"]
rate = "10 Mbit/s"
[link.path]
between = ["near", "far"]
vc = {}
"#;

fn changed_cells(assignment: &str) -> Result<Vec<String>, String> {
    let mut document = document(CELLS);
    let mut changer = Changer::new(&emulated(CELLS), &checked(&document).expect("a scenario"));
    document.set(assignment).map_err(|refusal| refusal.to_string())?;
    let scenario = checked(&document).map_err(|refusal| refusal.to_string())?;
    let changes =
        changer.change(&scenario).map_err(|problem| format!("{}: {}", problem.key, problem.problem))?;
    Ok(changes.into_iter().map(|change| change.value()).collect())
}

#[test]
fn a_host_of_a_virtual_channel_becomes_slower() {
    let text = CELLS.replace("vc = {}", "vc = { receive = { rate = \"8 Mbit/s\", limit = 500 } }");
    let change = |text: &str, assignment: &str| {
        let mut document = document(text);
        let mut changer = Changer::new(&emulated(text), &checked(&document).expect("a scenario"));
        document.set(assignment).map_err(|refusal| refusal.to_string())?;
        let scenario = checked(&document).map_err(|refusal| refusal.to_string())?;
        changer.change(&scenario).map_err(|problem| format!("{}: {}", problem.key, problem.problem))
    };
    let changes = change(&text, "link.path.vc.receive.rate=1 Mbit/s").expect("a change");
    let config = bentpipe_atm::receive::Config {
        rate: "1 Mbit/s".parse().expect("a rate"),
        ..channel(&checked(&document(&text)).expect("a scenario"), "path").receive.expect("a buffer")
    };
    assert_eq!(config.limit, 500);
    let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
    assert_eq!(keys, ["link.path.forward.medium.receive", "link.path.return.medium.receive"]);
    assert!(changes.iter().all(|change| change.value() == format!("{config:?}")));
    // It holds at the element that the channel ends at.
    let network = &mut emulated(&text).built.network;
    let ends = [("atm/near/up", "vc/path/near"), ("atm/far/down", "vc/path/far")];
    for (change, (path, end)) in changes.into_iter().zip(ends) {
        let element = change.element;
        assert_eq!(network.path(element), path);
        change.apply(network).expect("a value that was checked");
        let now = network.now();
        let interface = network.element::<Interface>(element).expect("an interface");
        assert_eq!(interface.set_receive(now, end, &config), Ok(true));
        assert_eq!(interface.set_receive(now, "vc/path/other", &config), Ok(false));
    }
    for (text, assignment, why) in [
        (&text[..], "link.path.vc.receive.limit=0", "link.path.medium.receive.limit: expected from 1"),
        (&text[..], "link.path.vc.limit=7", "cannot be changed while it runs"),
        (
            CELLS,
            r#"link.path.vc.receive={ rate = "1 Mbit/s", limit = 9 }"#,
            "link.path.medium.receive: cannot be added while it runs",
        ),
    ] {
        let refused = change(text, assignment).expect_err(assignment);
        assert!(refused.contains(why), "{assignment}: {refused}");
    }
}

#[test]
fn atm_lines_get_other_faults_and_queues_of_cells_are_bounded() {
    let loss = |ratio| format!("{:?}", CellFault::CellLoss { ratio });
    let bits = || format!("{:?}", CellFault::BitErrors { ber: 1e-6 });
    let both = |first: String| vec![first.clone(), bits(), first, bits()];
    assert_eq!(changed_cells("atm.line.down.channel.0.ratio=0.5"), Ok(both(loss(0.5))));
    // A line without faults has one that does nothing, to be changed.
    let strange = r#"atm.line.up.channel={ kind = "misinsertion", per_second = 5.0, vci = 99 }"#;
    let inserted = format!("{:?}", CellFault::Misinsertion { per_second: 5.0, vci: 99 });
    assert_eq!(changed_cells(strange), Ok(vec![inserted; 2]));
    for (assignment, why) in [
        (
            "atm.line.down.channel.0.ratio=1.5",
            "atm.line.down.channel.0.ratio: 1.5 is out of range: expected from 0 to 1",
        ),
        (r#"atm.line.down.channel={ kind = "cell-loss", ratio = 0.5 }"#, "has 2 faults: expected as many"),
        ("atm.line.up.rate=1 Mbit/s", "cannot be changed while it runs"),
        ("link.path.rate=1 Mbit/s", "link.path.rate: of a virtual channel is that of the lines"),
    ] {
        let refused = changed_cells(assignment).expect_err(assignment);
        assert!(refused.contains(why), "{assignment}: {refused}");
    }
    let scenario = emulated(CELLS).scenario;
    let limit = scenario.shared.atm.switch["middle"].limit;
    assert_eq!((limit.ubr, limit.abr), (Some(100), Some(1_200_000)));
    assert_eq!(channel(&scenario, "path").limit, Some(1_200_000));
    assert!(scenario.link["path"].forward.queue.is_none());
}

const SKY: &str = r#"
title = "x"
duration = "10 s"
[node.a]
[node.b]
[dvb.carrier]
kind = "transport-stream"
rate = "2 Mbit/s"
[link.sky]
between = ["a", "b"]
delay = "250 ms"
queue = { kind = "drop-tail", packets = 50 }
dvb = { line = "carrier", packing = "1 ms", rohc = {} }
"#;

fn changed_sky(assignment: &str) -> Result<Vec<String>, String> {
    let mut document = document(SKY);
    let mut changer = Changer::new(&emulated(SKY), &checked(&document).expect("a scenario"));
    document.set(assignment).map_err(|refusal| refusal.to_string())?;
    let scenario = checked(&document).map_err(|refusal| refusal.to_string())?;
    let changes =
        changer.change(&scenario).map_err(|problem| format!("{}: {}", problem.key, problem.problem))?;
    Ok(changes.into_iter().map(|change| change.value()).collect())
}

#[test]
fn a_stream_of_dvb_changes_what_its_sender_does_alone() {
    let packed = changed_sky("link.sky.dvb.packing=5 ms").expect("possible");
    assert!(
        packed.len() == 2 && packed.iter().all(|value| value.contains("packing: Some(Span(5000000))")),
        "{packed:?}"
    );
    let filtered = changed_sky("link.sky.dvb.filter=[{ protocol = \"udp\", action = \"plain\" }]");
    let filtered = filtered.expect("possible");
    assert!(filtered.len() == 2 && filtered.iter().all(|value| value.contains("Plain")), "{filtered:?}");
    let limited = changed_sky("link.sky.queue.packets=20").expect("possible");
    assert!(
        limited.len() == 2 && limited.iter().all(|value| value.contains("packets: Some(20)")),
        "{limited:?}"
    );
    let line = changed_sky("dvb.carrier.rate=1 Mbit/s").expect("possible");
    assert!(line.len() == 2 && line.iter().all(|value| value.contains("Rate(1000000)")), "{line:?}");
    for (assignment, why) in [
        (
            "link.sky.dvb.pid=\"0x300\"",
            "link.sky.forward.medium.pid: cannot be changed while it runs: the receiver listens",
        ),
        ("link.sky.dvb.encapsulation=mpe", "link.sky.forward.medium.encapsulation: cannot be changed"),
        (
            "link.sky.dvb.rohc.contexts=3",
            "link.sky.forward.medium.rohc: cannot be changed while it runs: contexts",
        ),
        ("link.sky.delay=20 ms", "link.sky.forward.delay: cannot be changed"),
        ("dvb.carrier.group=2", "dvb.carrier: cannot be changed while it runs: expected the rate"),
    ] {
        let said = changed_sky(assignment).expect_err(assignment);
        assert!(said.starts_with(why), "{assignment}: {said}");
    }
}

/// A flow that is left out has no link whose directions could say something else.
#[test]
fn a_change_of_what_is_left_out_says_so() {
    let mut document = document(GEO);
    let mut changer = Changer::new(&emulated(GEO), &checked(&document).expect("a scenario"));
    document.set("flow.download.start=1 s").expect("a key of the schema");
    let problem = changer.change(&checked(&document).expect("a scenario")).expect_err("nothing changes");
    assert_eq!(problem.key, "flow.download");
    assert!(problem.problem.contains("programs at real hosts send this flow"), "{}", problem.problem);
}

#[test]
fn a_link_takes_any_number_of_faults_and_none() {
    let two = "link.hop.channel=[{kind='packet-errors',loss=0.1},{kind='duplication',probability=0.2}]";
    let config = "[PacketErrors { loss: 0.1 }, Duplication { probability: 0.2 }]";
    assert_eq!(changed(two), Ok(vec![config.to_owned(); 2]));
    assert_eq!(changed("link.hop.forward.channel=none"), Ok(vec![]), "it has none already");
    let text =
        SHAPED.replace("[link.hop]\n", "[link.hop]\nchannel = { kind = \"packet-errors\", loss = 0.5 }\n");
    assert_ne!(text, SHAPED);
    for word in ["none", "[]"] {
        let mut document = document(&text);
        let mut changer = Changer::new(&emulated(&text), &checked(&document).expect("a scenario"));
        document.set(&format!("link.hop.channel={word}")).expect("a word");
        let changes = changer.change(&checked(&document).expect("a scenario")).expect("a change");
        let values: Vec<String> = changes.into_iter().map(|change| change.value()).collect();
        assert_eq!(values, ["[PacketErrors { loss: 0.0 }]"; 2], "{word}");
    }
    let several = two.replace("link.hop.channel=", "link.hop.channel=[") + "]";
    let refusal = changed(&several).expect_err("lists in a list");
    assert!(refusal.contains("expected"), "{refusal}");
}

#[test]
fn what_cannot_be_changed_says_why() {
    for (assignment, why) in [
        ("link.hop.mtu=1200 B", ": cannot be changed while it runs: `bentpipe set --help`"),
        ("duration=20 s", ": cannot be changed while it runs"),
        ("link.hop.delay=20 ms", ": has no effect: each direction"),
        (
            "link.hop.return.shaper={rate='1 Mbit/s',burst='10 kB',limit='10 kB'}",
            "link.hop.return.shaper: cannot be added",
        ),
        (
            "link.hop.queue={kind='red',min='10 kB',max='30 kB',limit='60 kB'}",
            "link.hop.forward.queue.kind: cannot be changed while it runs",
        ),
    ] {
        let problem = changed(assignment).expect_err(assignment);
        assert!(problem.starts_with(why), "{assignment}: {problem}");
    }
}
