//! Workload C: 300 constant flows of 33 + 12 bytes per 20 ms. They run for 100 s over 8 Mbit/s and 250 ms.

use bentpipe_net::Port;
use bentpipe_net::link;
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_sim::Builder;
use bentpipe_transport::app::{Endpoints, Header, Pattern, Sink, SinkConfig, Source, SourceConfig};
use bentpipe_units::{Bytes, Rate, Span};

use crate::{Workload, path};

const FLOWS: u16 = 300;
const FIRST_PORT: u16 = 6000;
/// Ports of all flows: RTP takes even ones.
const PORTS: std::ops::Range<u16> = FIRST_PORT..FIRST_PORT + 2 * FLOWS;

pub(crate) fn workload() -> Workload {
    let mut builder = Builder::new(1);
    let left = builder.add("node/left", path::host("10.1.0.1", 0..0));
    let west = builder.add("node/west", path::router());
    let east = builder.add("node/east", path::router());
    let right = builder.add("node/right", path::host("10.2.0.1", PORTS));
    let (access, bottleneck) = links();
    path::join(&mut builder, "left", [(left, Port(0)), (west, Port(0))], &access);
    path::join(&mut builder, "satellite", [(west, Port(1)), (east, Port(0))], &bottleneck);
    path::join(&mut builder, "right", [(east, Port(1)), (right, Port(0))], &access);
    let source = builder.add("source", source());
    builder.connect((source, Port(0)), (left, Port(1)));
    let config =
        SinkConfig { first_port: FIRST_PORT, count: FLOWS, header: Header::Rtp, shared_ports: false };
    let sink = builder.add("sink", Sink::new(config));
    builder.connect((right, Port(1)), (sink, Port(0)));
    Workload { network: builder.build().expect("no loop"), duration: Span::from_secs(100) }
}

/// Access and bottleneck.
fn links() -> (link::Config, link::Config) {
    let queue = |packets| Discipline::DropTail(DropTailConfig { packets: Some(packets), bytes: None });
    let access = link::Config {
        rate: Some(Rate::from_bps(1_000_000_000)),
        delay: Span::from_millis(1),
        queue: queue(100_000),
        ..link::Config::default()
    };
    let bottleneck = link::Config {
        rate: Some(Rate::from_bps(8_000_000)),
        delay: Span::from_millis(250),
        queue: queue(1000),
        ..link::Config::default()
    };
    (access, bottleneck)
}

fn source() -> Source {
    let pattern = Pattern::Constant { interval: Span::from_millis(20) };
    let plain = SourceConfig::new(pattern, Bytes::new(33 + 12));
    let config = SourceConfig { count: FLOWS, header: Header::Rtp, ..plain };
    let source = "10.1.0.1:5000".parse().expect("an end");
    let destination = std::net::SocketAddr::from(([10, 2, 0, 1], FIRST_PORT));
    Source::new(&config, Endpoints { source, destination }).expect("a possible source")
}
