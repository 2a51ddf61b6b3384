//! IPv6 through an IPv4 tunnel over a satellite link, to a multicast group with members at two sites.

use bentpipe_net::node::{self, Tunnel};
use bentpipe_net::{Framing, Link, Node, Port, link};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::app::{Endpoints, Header, Pattern, Sink, SinkConfig, Source, SourceConfig};
use bentpipe_units::{Bytes, Rate, Span, Time};

const GROUP: &str = "ff0e::7";

fn satellite() -> Link {
    let config = link::Config {
        rate: Some(Rate::from_bps(155_520_000)),
        delay: Span::from_millis(270),
        framing: Framing::Aal5LlcSnap { sdh: true },
        mtu: Some(Bytes::new(9180)),
        ..link::Config::default()
    };
    Link::new(&config).expect("possible")
}

/// The sending site: an endpoint, and a tunnel to each receiving site over interfaces 0 and 1.
fn sender() -> Node {
    let mut node = Node::new(2);
    let endpoint = node.add_endpoint();
    assert_eq!(endpoint, Port(2));
    for (interface, far) in [[10, 0, 1, 1], [10, 0, 2, 1]].into_iter().enumerate() {
        let prefix = node::Prefix::host(std::net::Ipv4Addr::from(far).into());
        node.add_route(prefix, Port(interface as u16));
        let tunnel = node.add_tunnel(Tunnel::new([10, 0, 0, 1].into(), far.into(), 9180));
        node.add_group_tunnel(GROUP.parse().expect("a group"), tunnel);
    }
    node
}

/// A receiving site: the tunnel's end, and a member of the group.
fn receiver(address: [u8; 4]) -> Node {
    let mut node = Node::new(1);
    node.add_address(node::Prefix::host(std::net::Ipv4Addr::from(address).into()));
    node.add_tunnel(Tunnel::new(address.into(), [10, 0, 0, 1].into(), 9180));
    let endpoint = node.add_endpoint();
    node.join(endpoint, GROUP.parse().expect("a group"), node::UDP, 6000);
    node
}

fn source(payload: u64) -> Source {
    let pattern = Pattern::Constant { interval: Span::from_millis(2) };
    let config = SourceConfig { packets: Some(1000), ..SourceConfig::new(pattern, Bytes::new(payload)) };
    let destination = format!("[{GROUP}]:6000").parse().expect("an end");
    let source = "[2001:db8::1]:5000".parse().expect("an end");
    Source::new(&config, Endpoints { source, destination }).expect("possible")
}

/// Runs 1000 packets of this payload to the group: the network and its sinks.
fn run(payload: u64) -> (Network, [ElementId; 2]) {
    let mut builder = Builder::new(1);
    let source = builder.add("source", source(payload));
    let hub = builder.add("hub", sender());
    builder.connect((source, Port(0)), (hub, Port(2)));
    let sinks = [1, 2].map(|site: u8| {
        let link = builder.add(format!("link/{site}"), satellite());
        let node = builder.add(format!("site/{site}"), receiver([10, 0, site, 1]));
        let config = SinkConfig { first_port: 6000, count: 1, header: Header::Sequence, shared_ports: false };
        let sink = builder.add(format!("sink/{site}"), Sink::new(config));
        builder.connect((hub, Port(u16::from(site) - 1)), (link, Port(0)));
        builder.connect((link, Port(0)), (node, Port(0)));
        builder.connect((node, Port(1)), (sink, Port(0)));
        sink
    });
    let mut network = builder.build().expect("no loop");
    network.run_until(Time::ZERO + Span::from_secs(5));
    (network, sinks)
}

#[test]
fn every_member_gets_every_packet_after_the_cells_time() {
    let (mut network, sinks) = run(9000);
    for sink in sinks {
        let sink = network.element::<Sink>(sink).expect("a sink");
        let flow = sink.flows()[0].clone();
        assert_eq!((flow.packets, flow.lost(), flow.reordered), (1000, 0, 0));
        // 9000 + 8 + 40 + 20 bytes, LLC/SNAP and trailer: 190 cells at 149.76 Mbit/s.
        let cells = Rate::from_bps(149_760_000).span_of(Bytes::new(190 * 53));
        let (min, max) = sink.delay_range().expect("packets");
        assert!(max - min <= Span::from_nanos(1));
        assert!(max.saturating_sub(Span::from_millis(270) + cells) <= Span::from_nanos(1), "{max}");
    }
}

#[test]
fn the_tunnel_s_mtu_is_the_link_s_less_the_outer_header() {
    // 9160 bytes of IPv6 fit into 9180.
    for (payload, fits) in [(9112, true), (9113, false)] {
        let (mut network, sinks) = run(payload);
        let flow = network.element::<Sink>(sinks[0]).expect("a sink").flows()[0].clone();
        assert_eq!(flow.packets == 1000, fits, "{payload}");
    }
}

#[test]
fn a_link_costs_one_receive_and_one_wake_up_a_packet() {
    let (network, _) = run(1000);
    let work = network.work();
    // Two copies: over the link, into the node, into the sink; one from the source into the hub.
    assert_eq!(work.deliveries, 1000 * (1 + 2 * 3));
    // Each of the 8 elements once at the start, the source for each packet, the links for each of theirs.
    let start = network.ids().count() as u64;
    assert!(work.wakeups <= start + 1000 + 2000, "{work:?}");
}
