use bentpipe_net::{Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_transport::app::datagram_packet;
use bentpipe_units::{Bytes, RandomStream, Span, Time};
use bentpipe_wire::dtn::admin::Record;
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Payload, Primary, Timestamp, UNIX_OFFSET};
use bentpipe_wire::dtn::eid::Eid;

use super::{Agent, Bearer, Neighbour};
use crate::kind::EPOCH;
use crate::network::{Layer, LtpConfig, Network, Way};
use crate::node::{self, Node, Routing};
use crate::plan::Plan;
use crate::route::{Graph, Options};

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

#[test]
fn a_neighbour_is_open_in_its_contacts_and_reachable_when_answers_arrive() {
    let text = "a contact +0 +10 1 2 100\na contact +50 +60 1 2 100\na contact +0 +100 2 1 100\na range +0 +100 1 2 5\n";
    let plan = Plan::parse(text, 0.0).unwrap();
    let mut neighbour = Neighbour::new(1, 2, [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], &plan);
    let open = [0, 9, 10, 50, 60].map(|second| neighbour.open(at(second)).is_some());
    assert_eq!(open, [true, true, false, true, false]);
    assert_eq!([4, 5, 9, 10].map(|second| neighbour.is_reachable(at(second))), [false, true, true, false]);
    let rate = neighbour.open(at(1)).unwrap();
    neighbour.occupy(72, rate, at(1));
    assert_eq!((neighbour.is_free(at(1)), neighbour.next_free(at(1))), (false, at(2)));
    assert_eq!(
        (neighbour.next_change(), neighbour.pop_changes(at(5)), neighbour.next_change()),
        (at(0), true, at(10))
    );
}

/// Calls an element at an instant with an outbox, and returns the payloads of the datagrams that it sends.
fn call(agent: &mut Agent, now: Time, act: impl FnOnce(&mut Agent, &mut Cx<'_>)) -> Vec<Vec<u8>> {
    let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(1, "test"));
    let wires = [Wire::new(0, Port(0)), Wire::new(0, Port(1))];
    act(agent, &mut Cx::new(now, &wires, &mut outbox, &mut stream));
    let sent = std::iter::from_fn(|| outbox.pop());
    let payload = |(_, packet): (Wire, Packet)| {
        let mut bytes = Vec::new();
        packet.write_to(&mut bytes);
        bytes[28..].to_vec()
    };
    sent.map(payload).collect()
}

#[test]
fn a_node_counts_from_the_date_of_an_emulation() {
    let text = "a contact +0 +100 1 2 100000\na contact +0 +100 2 1 100000\na range +0 +100 1 2 1\n";
    let plan = Plan::parse(text, 0.0).unwrap();
    let network = Network {
        reactive: true,
        plan: text.into(),
        layer: Layer::Udp,
        datagram: Bytes::new(1472),
        ltp: LtpConfig::default(),
        tcp: None,
        routing: Way::ContactGraph,
        candidates: 10,
        graph: crate::network::Shared::default(),
    };
    let addresses = [[10, 0, 0, 2].into(), [10, 0, 0, 1].into()];
    let graph = Graph::new(plan.clone(), Options { candidates: 10, margin: 0.0 });
    let config =
        node::Config { eid: Eid::ipn(2, 0), storage: 10_000, reports: true, epoch: EPOCH, no_route: None };
    let node = Node::new(config, Routing::contacts(2, graph));
    let neighbours = vec![Neighbour::new(2, 1, addresses, &plan)];
    let mut agent = Agent::new(2, node, (neighbours, Bearer::datagrams()), &network);
    // 2026-11-27T19:00:00 UTC.
    let unix = Span::from_secs(1_795_806_000);
    agent.set_date(unix);
    let start = (unix.as_secs_f64() as u64 - UNIX_OFFSET) * 1000;
    call(&mut agent, Time::ZERO, |agent, cx| _ = agent.wake(cx));
    let mut arrive = |created: u64| {
        let stamp = Timestamp { time: created, sequence: 1 };
        let mut primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(2, 9), stamp, 10_000);
        primary.flags = BundleFlags(BundleFlags::REPORT_DELIVERY.0 | BundleFlags::REPORT_TIME.0);
        primary.report_to = Eid::ipn(1, 1);
        let bundle = Bundle { primary, blocks: vec![], payload: Payload::elided(10) };
        let ends = Neighbour::new(1, 2, [addresses[1], addresses[0]], &plan).bundle_ends;
        let packet = datagram_packet(ends, bundle.to_vec());
        call(&mut agent, at(2), |agent, cx| _ = agent.receive(Port(0), packet, cx))
    };
    // A real node made it a second after the start: it reads the report's time by its own clock.
    let sent = arrive(start + 1000);
    let report = Bundle::parse(&sent[0]).unwrap();
    assert_eq!(report.primary.timestamp.time, start + 2000);
    let Ok(Record::Status(status)) = Record::parse(&report.payload.to_vec()) else { panic!("a report") };
    assert_eq!(status.delivered.time, Some(start + 2000));
    // One whose lifetime is over is not delivered, so that it has no report.
    assert_eq!(arrive(start - 60_000), Vec::<Vec<u8>>::new());
}
