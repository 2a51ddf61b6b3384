//! Consent of peers to voice.
//!
//! A description of a session may name the address of a third party.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bentpipe_signalling::agent::CallId;
use bentpipe_units::{Span, Time};

/// Time without a packet of the peer after which its call ends. Reports come every 5 s in the mean, and 7 s at most.
const PATIENCE: Span = Span::from_secs(12);
/// The same once its host has said that the port is not open.
const REFUSED: Span = Span::from_secs(2);
/// Time between two looks for calls to end.
const LOOK: Span = Span::from_millis(200);

/// Consent of one call's peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    call: CallId,
    /// Set if voice may be sent before the peer sends some.
    is_proven: bool,
    is_known: bool,
    /// Time of its last packet, or the start of the call.
    last: Time,
    /// Set if its host has refused a packet since.
    is_refused: bool,
    /// Set once its call is ended for want of consent.
    is_over: bool,
}

impl Peer {
    fn is_lost(&self, now: Time) -> bool {
        now >= self.last + if self.is_refused { REFUSED } else { PATIENCE }
    }
}

/// Consents of peers by the even port of the line.
#[derive(Debug, Default)]
pub(crate) struct Consents {
    peers: BTreeMap<u16, Peer>,
    next_look: Time,
    /// Packets of RTP that were not sent for want of consent.
    pub(crate) withheld: u64,
    /// Calls ended as the peer sent nothing.
    pub(crate) ended: u64,
}

impl Consents {
    /// Notes the start of voice. A caller has proved the address of its signals alone; a callee was chosen by this side.
    pub(crate) fn start(
        &mut self,
        now: Time,
        (call, port): (CallId, u16),
        to: SocketAddr,
        caller: Option<IpAddr>,
    ) {
        let is_proven = caller.is_none_or(|caller| caller.to_canonical() == to.ip().to_canonical());
        let peer = Peer { call, is_proven, is_known: false, last: now, is_refused: false, is_over: false };
        self.peers.entry(port).or_insert(peer);
    }

    /// Forgets the call of a line.
    pub(crate) fn finish(&mut self, port: u16) {
        self.peers.remove(&port);
    }

    /// Notes a packet of RTP or RTCP that came from the peer.
    pub(crate) fn note(&mut self, now: Time, port: u16) {
        if let Some(peer) = self.peers.get_mut(&(port & !1)) {
            (peer.is_known, peer.is_refused, peer.last) = (true, false, peer.last.max(now));
        }
    }

    /// Notes that the peer's host has no such port open. That of reports may be closed.
    pub(crate) fn refuse(&mut self, port: u16) {
        if let Some(peer) = self.peers.get_mut(&port) {
            peer.is_refused = true;
        }
    }

    /// Returns `true` if a packet may be sent from a port.
    pub(crate) fn allows(&mut self, now: Time, port: u16) -> bool {
        let peer = self.peers.get(&(port & !1));
        let may =
            peer.is_none_or(|peer| (peer.is_proven || peer.is_known) && !peer.is_over && !peer.is_lost(now));
        self.withheld += u64::from(!may && port.is_multiple_of(2));
        may
    }

    /// Returns the calls whose peers sent nothing for too long, each once.
    pub(crate) fn lost(&mut self, now: Time) -> Vec<CallId> {
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + LOOK;
        let mut calls = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| !peer.is_over && peer.is_lost(now)) {
            calls.push(peer.call);
            peer.is_over = true;
        }
        self.ended += calls.len() as u64;
        calls
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_signalling::agent::{Agent, Config};
    use bentpipe_signalling::sdp::{Capabilities, Direction};
    use bentpipe_signalling::sip::{Transport, Uri};
    use bentpipe_signalling::transaction::Peer as SipPeer;
    use bentpipe_units::RandomStream;

    use super::*;

    fn call() -> CallId {
        let at: SocketAddr = "192.0.2.1:5060".parse().expect("an address");
        let mut agent = Agent::new(Config::new("bob", at), RandomStream::new(1, "a"));
        let target: Uri = "sip:a@192.0.2.2".parse().expect("a URI");
        let audio = Capabilities {
            address: at.ip(),
            port: 4000,
            codecs: Vec::new(),
            ptime: 20,
            direction: Direction::SendRecv,
        };
        let peer = SipPeer { transport: Transport::Udp, address: at };
        agent.call(Time::ZERO, &target, peer, audio).expect("a call")
    }

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_third_party_gets_nothing_and_a_silent_peer_ends_its_call() {
        let (call, mut all) = (call(), Consents::default());
        let to: SocketAddr = "192.0.2.2:4000".parse().expect("an address");
        all.start(at(0), (call, 4000), to, Some(to.ip()));
        all.start(at(0), (call, 4002), to, "192.0.2.9".parse().ok());
        all.start(at(0), (call, 4004), to, None);
        let sent =
            |all: &mut Consents, ms| [4000, 4001, 4002, 4003, 4004].map(|port| all.allows(at(ms), port));
        assert_eq!(sent(&mut all, 1), [true, true, false, false, true]);
        assert_eq!((all.withheld, all.lost(at(1)).len()), (1, 0));
        // A report is consent, and a port that is refused is asked for two seconds.
        all.note(at(2_000), 4003);
        all.refuse(4004);
        assert_eq!(sent(&mut all, 2_001), [true, true, true, true, false]);
        assert_eq!(all.lost(at(2_001)).len(), 1);
        assert_eq!(sent(&mut all, 12_001), [false, false, true, true, false]);
        assert_eq!((all.lost(at(12_001)).len(), all.lost(at(13_000)).len(), all.ended), (1, 0, 2));
        all.note(at(13_000), 4000);
        assert!(!all.allows(at(13_001), 4000), "it is over");
        assert_eq!(all.lost(at(14_001)).len(), 1);
        all.finish(4000);
        assert!(all.allows(at(15_000), 4000));
    }
}
