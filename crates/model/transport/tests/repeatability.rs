//! The same scenario and seed give the same run, bit for bit, and elements do not disturb each other's randomness.

use bentpipe_net::queue::{Discipline, RedConfig};
use bentpipe_net::{Channel, Link, Node, Port, channel, link, node};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_transport::app::{Endpoints, Header, Law, Pattern, Sink, SinkConfig, Source, SourceConfig};
use bentpipe_units::{Bytes, Rate, Span, Time};

const FLOWS: u16 = 5;

fn host(address: &str) -> Node {
    let mut node = Node::new(1);
    node.add_address(address.parse().expect("an address"));
    node.add_route("::/0".parse().expect("a prefix"), Port(0));
    let endpoint = node.add_endpoint();
    (6000..6000 + FLOWS).for_each(|port| node.bind(endpoint, node::UDP, port));
    node
}

fn sources() -> Source {
    let ms = Span::from_millis;
    let law = Law::Pareto { shape: 1.5 };
    let pattern = Pattern::OnOff { interval: ms(1), mean_on: ms(50), mean_off: ms(100), law };
    let config = SourceConfig { count: FLOWS, ..SourceConfig::new(pattern, Bytes::new(500)) };
    let (source, destination) = ("[2001:db8::1]:5000", "[2001:db8::2]:6000");
    let ends = Endpoints {
        source: source.parse().expect("an end"),
        destination: destination.parse().expect("an end"),
    };
    Source::new(&config, ends).expect("possible")
}

/// Two hosts, a RED link and a bursty channel between them; with `more` a second pair beside them, added first.
fn network(seed: u64, more: bool) -> (Network, ElementId) {
    let mut builder = Builder::new(seed);
    let mut pair = |name: &str| {
        let red = RedConfig::new(Bytes::new(5000), Bytes::new(15_000), Bytes::new(40_000));
        let queue = Discipline::Red(RedConfig { probability: 0.1, ..red });
        let rate = Some(Rate::from_bps(6_000_000));
        let config = link::Config { rate, delay: Span::from_millis(250), queue, ..link::Config::default() };
        let bursts = channel::Config::GilbertElliott { p: 0.01, r: 0.3, loss_good: 0.001, loss_bad: 0.8 };
        let source = builder.add(format!("{name}/source"), sources());
        let left = builder.add(format!("{name}/left"), host("2001:db8::1"));
        let link = builder.add(format!("{name}/link"), Link::new(&config).expect("possible"));
        let channel = builder.add(format!("{name}/channel"), Channel::new(&bursts).expect("possible"));
        let right = builder.add(format!("{name}/right"), host("2001:db8::2"));
        let config =
            SinkConfig { first_port: 6000, count: FLOWS, header: Header::Sequence, shared_ports: false };
        let sink = builder.add(format!("{name}/sink"), Sink::new(config));
        let at = |port| move |id| (id, Port(port));
        builder.connect(at(0)(source), at(1)(left));
        builder.connect(at(0)(left), at(0)(link));
        builder.connect(at(0)(link), at(0)(channel));
        builder.connect(at(0)(channel), at(0)(right));
        builder.connect(at(1)(right), at(0)(sink));
        sink
    };
    if more {
        pair("beside");
    }
    let sink = pair("main");
    (builder.build().expect("no loop"), sink)
}

/// What the sink saw of each flow in 30 s: packets, reordered, lost.
fn seen(seed: u64, more: bool) -> Vec<(u64, u64)> {
    let (mut network, sink) = network(seed, more);
    network.run_until(Time::ZERO + Span::from_secs(30));
    let sink = network.element::<Sink>(sink).expect("a sink");
    sink.flows().iter().map(|flow| (flow.packets, flow.lost())).collect()
}

#[test]
fn the_fingerprint_of_a_small_network_is_pinned() {
    let (mut network, sink) = network(1, false);
    network.run_until(Time::ZERO + Span::from_secs(30));
    // Where this changes, results change: say so in the changelog.
    assert_eq!(network.fingerprint().to_string(), "e21a81439bfec473");
    let sink = network.element::<Sink>(sink).expect("a sink");
    assert!(sink.flows().iter().all(|flow| flow.packets > 1000 && flow.lost() > 10), "{:?}", sink.flows());
}

#[test]
fn elements_added_beside_change_nothing() {
    assert_eq!(seen(1, false), seen(1, true));
    assert_ne!(seen(1, false), seen(2, false));
}

#[test]
fn streams_of_different_elements_are_independent() {
    let counts = |name: &str| {
        let mut stream = bentpipe_units::RandomStream::new(9, name);
        (0..100_000).map(|_| stream.exponential(1.0) - 1.0).collect::<Vec<f64>>()
    };
    let streams: Vec<Vec<f64>> = (0..6).map(|i| counts(&format!("node/{i}/source"))).collect();
    for (i, a) in streams.iter().enumerate() {
        for b in &streams[..i] {
            let correlation = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / 1e5;
            // The correlation's standard deviation is 1/sqrt(n); there are 15 pairs.
            assert!(correlation.abs() < 4.0 / 1e5_f64.sqrt(), "{correlation}");
        }
    }
}
