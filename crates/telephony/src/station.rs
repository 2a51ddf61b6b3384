//! Agent behind a port of a node.

use std::net::SocketAddr;

use bentpipe_net::{Cx, Observer, Packet, Port};
use bentpipe_signalling::agent::{Agent, Config as AgentConfig, Event};
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction};
use bentpipe_signalling::sip::Transport;
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_units::{RandomStream, Time};

use crate::config::Config;
use crate::datagram::{self, Refusal};
use crate::metrics;

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// User agent with its UDP port.
#[derive(Debug)]
pub(crate) struct Station {
    pub(crate) agent: Agent,
    local: SocketAddr,
    dscp: u8,
    messages: u64,
    bytes: u64,
    bad_checksum: u64,
    unexpected: u64,
}

impl Station {
    pub(crate) fn new(config: &Config, user: &str, local: SocketAddr, stream: &mut RandomStream) -> Station {
        let timers = Timers { t1: config.t1, t2: config.t2, ..Timers::default() };
        let seed = (stream.unit() * (1_u64 << 53) as f64) as u64;
        let agent_config = AgentConfig { timers, ..AgentConfig::new(user, local) };
        let agent = Agent::new(agent_config, RandomStream::new(seed, "sip"));
        Station { agent, local, dscp: config.dscp, messages: 0, bytes: 0, bad_checksum: 0, unexpected: 0 }
    }

    /// Returns the audio of session descriptions.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let codecs = vec![Codec::new(8, "PCMA", 8000), Codec::new(18, "G729", 8000)];
        let (address, port) = (self.local.ip(), 4000);
        Capabilities { address, port, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    pub(crate) fn receive(&mut self, packet: &Packet, now: Time) {
        match datagram::read(packet) {
            Ok((address, bytes)) => {
                self.agent.receive(now, Peer { transport: Transport::Udp, address }, &bytes)
            }
            Err(Refusal::BadChecksum) => self.bad_checksum += 1,
            Err(Refusal::Unexpected) => self.unexpected += 1,
        }
    }

    /// Returns the next event of the agent.
    pub(crate) fn event(&mut self) -> Option<Event> {
        self.agent.poll_event()
    }

    /// Sends the messages of the agent.
    pub(crate) fn send(&mut self, cx: &mut Cx<'_>) {
        while let Some(transmit) = self.agent.poll_transmit() {
            let packet = datagram::packet(self.local, transmit.to.address, self.dscp, &transmit.bytes);
            let Some(mut packet) = packet else { continue };
            packet.set_created_at(cx.now());
            self.messages += 1;
            self.bytes += transmit.bytes.len() as u64;
            cx.emit(NODE, packet);
        }
    }

    /// Reports the counters, which are zero before the start.
    pub(crate) fn observe(station: Option<&Station>, observer: &mut dyn Observer) {
        let counters = station.map(|station| station.agent.stack().counters()).unwrap_or_default();
        let own = |value: fn(&Station) -> u64| station.map_or(0, value);
        observer.counter(&metrics::MESSAGES, own(|station| station.messages));
        observer.counter(&metrics::SIP_BYTES, own(|station| station.bytes));
        observer.counter(&metrics::REQUESTS_REPEATED, counters.requests_repeated);
        observer.counter(&metrics::REQUESTS_ABSORBED, counters.requests_absorbed);
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, own(|station| station.bad_checksum));
        observer.counter(&metrics::DROPPED_UNEXPECTED, own(|station| station.unexpected));
    }
}
