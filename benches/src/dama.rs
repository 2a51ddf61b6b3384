//! Workload E: 500 terminals that request volume on 8 Skyplex carriers, for 60 s. Each has a TCP connection
//! with alternating downloads and silence, as in browsing.

use std::net::SocketAddr;
use std::sync::Arc;

use bentpipe_dvb::dama::{Config, Contract, ControlCentre, Frame, Receiver, Terminal, TerminalConfig};
use bentpipe_net::{Node, Port, link};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_transport::tcp;
use bentpipe_transport::tcp::{Endpoint, OnOff, Source};
use bentpipe_units::{Bytes, Rate, Span, Time};

use crate::{Workload, path};

const TERMINALS: u16 = 500;
const CARRIERS: u32 = 8;
const DELAY: Span = Span::from_millis(250);
const SERVER_PORT: u16 = 2000;

pub(crate) fn workload() -> Workload {
    let mut builder = Builder::new(1);
    let config = Config { carriers: Some(CARRIERS), ..Config::default() };
    let frame = Arc::new(Frame::new(&config, TERMINALS.into()).expect("a possible frame"));
    let contract = Contract { vbdc: Some(Bytes::new(100_000)), ..Contract::default() };
    let contracts = vec![contract; TERMINALS.into()];
    let centre = builder.add("centre", ControlCentre::new(&frame, &contracts).expect("possible contracts"));
    let mut server = Node::new(TERMINALS);
    server.add_address("10.0.0.1".parse().expect("an address"));
    let ends: Vec<Port> = (0..TERMINALS)
        .map(|n| {
            server.add_route(address(n).parse().expect("a prefix"), Port(n));
            let end = server.add_endpoint();
            server.bind(end, bentpipe_net::node::TCP, SERVER_PORT + n);
            end
        })
        .collect();
    let server = builder.add("node/server", server);
    for n in 0..TERMINALS {
        let home = builder.add(format!("node/{n}"), host(n));
        let terminal = TerminalConfig { number: n, contract, delay: DELAY, ..TerminalConfig::default() };
        let terminal = Terminal::new(&terminal, &frame).expect("a possible terminal");
        let terminal = builder.add(format!("link/{n}/back"), terminal);
        let receiver = builder.add(format!("receiver/{n}"), Receiver::new(frame.encapsulation()));
        builder.connect((home, Port(0)), (terminal, Port(0)));
        builder.connect((terminal, Port(0)), (receiver, Port(0)));
        builder.connect((receiver, Port(0)), (server, Port(n)));
        builder.connect((receiver, Port(1)), (centre, Port(0)));
        builder.connect((centre, Port(n)), (terminal, Port(1)));
        path::lead(&mut builder, &format!("{n}/there"), [(server, Port(n)), (home, Port(0))], &forward());
        add_flow(&mut builder, n, (server, ends[usize::from(n)]), home);
    }
    Workload { network: builder.build().expect("no loop"), duration: Span::from_secs(60) }
}

fn address(n: u16) -> String {
    format!("10.1.{}.{}", n / 250, n % 250 + 1)
}

fn host(n: u16) -> Node {
    let mut node = path::host(&address(n), 0..0);
    node.bind_rest(Port(1));
    node
}

fn forward() -> link::Config {
    link::Config { rate: Some(Rate::from_bps(20_000_000)), delay: DELAY, ..link::Config::default() }
}

/// Downloads of 1 s at 256 kbit/s on average, every 10 s.
fn add_flow(builder: &mut Builder, n: u16, server: (ElementId, Port), home: ElementId) {
    let config = tcp::Config { controller: "cubic".parse().expect("a controller"), ..tcp::Config::default() };
    let from = SocketAddr::from(([10, 0, 0, 1], SERVER_PORT + n));
    let to = format!("{}:80", address(n)).parse().expect("an end");
    let source = Source::OnOff(OnOff {
        on: Span::from_secs(1),
        off: Span::from_secs(9),
        exponential: true,
        rate: Some(Rate::from_bps(256_000)),
        duration: None,
    });
    let begin = Time::ZERO + Span::from_millis(20 * u64::from(n));
    let active = Endpoint::active(config.clone(), from, to).expect("a possible end");
    let active = builder.add(format!("source/{n}"), active.with_source(source).starting_at(begin));
    let passive = builder.add(format!("sink/{n}"), Endpoint::passive(config, to).expect("a possible end"));
    for (end, (node, port)) in [(active, server), (passive, (home, Port(1)))] {
        builder.connect((end, Port(0)), (node, port));
        builder.connect((node, port), (end, Port(0)));
    }
}
