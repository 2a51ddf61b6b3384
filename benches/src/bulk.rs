//! Workloads A, A', B and D: bulk transfers by CUBIC. The path has 155 Mbit/s and 270 ms, or 2 Mbit/s and 300
//! ms with loss.

use std::net::SocketAddr;

use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::{Channel, Port, channel, link};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_transport::tcp::{Bulk, Config, Endpoint, ReceiveBuffer, Source};
use bentpipe_units::{Bytes, Rate, Span, Time};

use crate::{Workload, path};

const SERVER_PORT: u16 = 5000;
const BUFFER: Bytes = Bytes::new(16_000_000);

/// Parameters in which the workloads differ.
struct Bulks {
    flows: u8,
    /// Data in a segment; headers are 52 bytes.
    payload: u64,
    rate: Rate,
    delay: Span,
    loss: f64,
    duration: Span,
}

const A: Bulks = Bulks {
    flows: 1,
    payload: 9128,
    rate: Rate::from_bps(155_000_000),
    delay: Span::from_millis(270),
    loss: 0.0,
    duration: Span::from_secs(200),
};

pub(crate) fn a() -> Workload {
    A.build()
}

pub(crate) fn a_small_segments() -> Workload {
    Bulks { payload: 1448, duration: Span::from_secs(60), ..A }.build()
}

pub(crate) fn b() -> Workload {
    Bulks { flows: 15, payload: 512, duration: Span::from_secs(30), ..A }.build()
}

pub(crate) fn d() -> Workload {
    Bulks {
        flows: 1,
        payload: 1448,
        rate: Rate::from_bps(2_000_000),
        delay: Span::from_millis(300),
        loss: 1e-3,
        duration: Span::from_secs(2000),
    }
    .build()
}

impl Bulks {
    fn build(&self) -> Workload {
        let mut builder = Builder::new(1);
        let west = builder.add("node/west", path::hub(1, self.flows));
        let east = builder.add("node/east", path::hub(2, self.flows));
        self.join_satellite(&mut builder, west, east);
        for flow in 0..self.flows {
            self.add_flow(&mut builder, flow, west, east);
        }
        Workload { network: builder.build().expect("no loop"), duration: self.duration }
    }

    /// Joins interface 0 of both routers by the bottleneck.
    fn join_satellite(&self, builder: &mut Builder, west: ElementId, east: ElementId) {
        let packet = self.payload + 52;
        let bdp = self.rate.bdp(self.delay * 2).get() / packet;
        let config = link_config(self.rate, self.delay, bdp.max(20) as u32);
        if self.loss == 0.0 {
            return path::join(builder, "satellite", [(west, Port(0)), (east, Port(0))], &config);
        }
        let loss =
            Channel::new(&channel::Config::PacketErrors { loss: self.loss }).expect("a possible channel");
        let loss = builder.add("channel", loss);
        path::lead(builder, "satellite/there", [(west, Port(0)), (loss, Port(0))], &config);
        builder.connect((loss, Port(0)), (east, Port(0)));
        path::lead(builder, "satellite/back", [(east, Port(0)), (west, Port(0))], &config);
    }

    fn add_flow(&self, builder: &mut Builder, flow: u8, west: ElementId, east: ElementId) {
        let access = link_config(Rate::from_bps(1_000_000_000), Span::from_millis(1), 100_000);
        let interface = Port(1 + u16::from(flow));
        let [left, right] = [(1, west), (2, east)].map(|(side, router)| {
            let host = builder.add(format!("node/{side}-{flow}"), path::tcp_host(side, flow));
            path::join(builder, &format!("{side}-{flow}"), [(host, Port(0)), (router, interface)], &access);
            host
        });
        let (client, server) = self.ends(flow);
        let client = builder.add(format!("source/{flow}"), client);
        let server = builder.add(format!("sink/{flow}"), server);
        for (end, host) in [(client, left), (server, right)] {
            builder.connect((end, Port(0)), (host, Port(1)));
            builder.connect((host, Port(1)), (end, Port(0)));
        }
    }

    fn ends(&self, flow: u8) -> (Endpoint, Endpoint) {
        let config = Config {
            controller: "cubic".parse().expect("a controller"),
            mss: Bytes::new(self.payload + 12),
            send_buffer: BUFFER,
            receive_buffer: ReceiveBuffer::Exact(BUFFER),
            ..Config::default()
        };
        let client = SocketAddr::from(([10, 1, flow, 1], 40_000));
        let server = SocketAddr::from(([10, 2, flow, 1], SERVER_PORT));
        let begin = Time::ZERO + Span::from_millis(100 + 7 * u64::from(flow));
        let active = Endpoint::active(config.clone(), client, server).expect("a possible end");
        let passive = Endpoint::passive(config, server).expect("a possible end");
        (active.with_source(Source::Bulk(Bulk::default())).starting_at(begin), passive)
    }
}

fn link_config(rate: Rate, delay: Span, packets: u32) -> link::Config {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(packets), bytes: None });
    link::Config { rate: Some(rate), delay, queue, ..link::Config::default() }
}
