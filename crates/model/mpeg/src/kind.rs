//! Traffic of video at a variable rate.

use bentpipe_site::{FlowAt, FlowEnds, FlowGround, FlowTakes, Problem, TrafficKind};
use bentpipe_transport::app::{SinkConfig, datagram_ends, endpoints, port_numbers};
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::ip::Protocol;

use super::source::{Source, SourceConfig, TS_PACKET_LEN};

impl TrafficKind for SourceConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { groups: true, ..FlowTakes::default() }
    }

    fn segment_len(&self) -> Option<u64> {
        Some(self.payload().get() + self.header_len())
    }

    fn offered(&self, _: Bytes) -> Option<Rate> {
        let (rate, stream_bytes) = (&self.rate, TS_PACKET_LEN as f64 * f64::from(self.ts_packets));
        let mean = rate.bounded().mean * f64::from(rate.programmes);
        Some(Rate::from_bps(mean as u64).mul_f64(self.payload().get() as f64 / stream_bytes))
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        self.rate.check().map_err(|error| at.impossible("rate", &error))?;
        let datagrams = ground.datagrams(at, Protocol::UDP, port_numbers(self.header, 1))?;
        ground.fit(at, &datagrams, (self.payload(), self.header_len()), "ts_packets")?;
        let source = Source::new(self, endpoints(&datagrams), at.start, at.stop);
        let source = source.map_err(|error| at.impossible("", &error))?;
        let first_port = datagrams.destination.port();
        let sink = SinkConfig { first_port, count: 1, header: self.header, shared_ports: false };
        Ok(datagram_ends(source, sink, &datagrams))
    }
}
