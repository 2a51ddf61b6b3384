//! Traffic of media under TFRC.

use bentpipe_cc::tfrc::SMALL_PACKET_GAP;
use bentpipe_site::{End, FlowAt, FlowEnds, FlowGround, FlowTakes, Opener, Problem, TrafficKind};
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::ip::Protocol;

use super::{Config, Pauses, Receiver, Sender, Transport};
use crate::app::Endpoints;

/// Length of a DCCP header with an acknowledgement.
const ACKNOWLEDGING_LEN: u64 = 24;

impl TrafficKind for Config {
    fn dscp(&self) -> Option<u8> {
        Some(self.dscp)
    }

    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn header_len(&self) -> u64 {
        match self.transport {
            Transport::Udp => 8,
            Transport::Dccp => 16,
        }
    }

    fn segment_len(&self) -> Option<u64> {
        Some(self.payload.get() + TrafficKind::header_len(self))
    }

    /// Returns the mean rate of the data, silences counted. Small packets have a least distance.
    fn offered(&self, _: Bytes) -> Option<Rate> {
        let part = self.pauses.map_or(1.0, |Pauses { on, off }| {
            on.as_secs_f64() / (on + off).as_secs_f64().max(f64::MIN_POSITIVE)
        });
        let fastest = self.control.small_packets.then(|| Rate::of(self.payload, SMALL_PACKET_GAP));
        self.rate.into_iter().chain(fastest).min().map(|rate| rate.mul_f64(part))
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let (protocol, longest) = match self.transport {
            Transport::Udp => (Protocol::UDP, 8),
            Transport::Dccp => (Protocol::DCCP, ACKNOWLEDGING_LEN),
        };
        at.ensure_fits(self.payload, longest, "payload")?;
        let pair = ground.pair(at, protocol, Opener::Sender)?;
        let endpoints = Endpoints { source: pair.local, destination: pair.remote };
        let sender = Sender::new(self, endpoints, at.start, at.stop);
        let sender = sender.map_err(|error| at.impossible("", &error))?;
        let receiver = Receiver::new(self, pair.remote).with_waits(sender.waits());
        Ok(FlowEnds {
            sender: End::new(sender, pair.sender),
            receivers: vec![End::new(receiver, pair.receiver)],
            judges: Vec::new(),
        })
    }
}
