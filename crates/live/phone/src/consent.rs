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
    /// Destination of voice.
    to: SocketAddr,
    /// Source of the INVITE, where voice may be sent before the peer sends some. `None`: this side chose the peer.
    caller: Option<IpAddr>,
    /// Set once the destination has sent some.
    is_known: bool,
    /// Set while this side sends voice.
    sends: bool,
    /// Set until the call is confirmed: nothing may be sent, not even reports.
    waits: bool,
    /// Time of its last packet, or the start of the call.
    last: Time,
    /// Set if its host has refused a packet since.
    is_refused: bool,
    /// Set once its call is ended for want of consent.
    is_over: bool,
}

impl Peer {
    fn is_proven(&self) -> bool {
        self.caller.is_none_or(|caller| caller.to_canonical() == self.to.ip().to_canonical())
    }

    fn is_lost(&self, now: Time) -> bool {
        self.sends && now >= self.last + if self.is_refused { REFUSED } else { PATIENCE }
    }
}

/// Voice of a call that consent is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) to: SocketAddr,
    /// Source of the INVITE of a call that came in. `None`: this side chose the peer.
    pub(crate) caller: Option<IpAddr>,
    /// Set if voice is sent, and not on hold.
    pub(crate) sends: bool,
    /// Set until the call is confirmed.
    pub(crate) waits: bool,
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
    /// Calls ended as the peer had closed its port, among those.
    pub(crate) ended_closed: u64,
}

impl Consents {
    /// Notes the start or a change of voice. A caller has proved the address of its signals alone; a callee was chosen by this side.
    ///
    /// A host that a change names has not consented yet, unless it is the one before.
    pub(crate) fn follow(&mut self, now: Time, (call, port): (CallId, u16), asked: Asked) {
        let Asked { to, caller, sends, waits } = asked;
        let (is_known, is_refused, is_over) = (false, false, false);
        let new = Peer { call, to, caller, is_known, sends, waits, last: now, is_refused, is_over };
        let peer = self.peers.entry(port).or_insert(new);
        // Patience begins with what is sent, and with each address.
        if peer.to != to || (sends && !peer.sends) {
            (peer.last, peer.is_refused) = (now, false);
        }
        peer.is_known &= peer.to.ip() == to.ip();
        (peer.to, peer.caller, peer.sends, peer.waits) = (to, caller, sends, waits);
    }

    /// Has voice go to another address. A host that is not the one before needs its own consent, unless it signals.
    pub(crate) fn move_to(&mut self, port: u16, to: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(&port) {
            peer.is_known &= peer.to.ip().to_canonical() == to.ip().to_canonical();
            (peer.to, peer.is_refused) = (to, false);
        }
    }

    /// Forgets the call of a line.
    pub(crate) fn finish(&mut self, port: u16) {
        self.peers.remove(&port);
    }

    /// Notes a packet of RTP or RTCP that came from the peer.
    pub(crate) fn note(&mut self, now: Time, port: u16, from: IpAddr) {
        if let Some(peer) = self.peers.get_mut(&(port & !1)) {
            (peer.is_refused, peer.last) = (false, peer.last.max(now));
            peer.is_known |= from.to_canonical() == peer.to.ip().to_canonical();
        }
    }

    /// Notes that a host has no such port open. That of reports may be closed.
    pub(crate) fn refuse(&mut self, port: u16, to: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(&port).filter(|peer| peer.to == to) {
            peer.is_refused = true;
        }
    }

    /// Returns `true` if a packet may be sent from a port.
    pub(crate) fn allows(&mut self, now: Time, port: u16) -> bool {
        let peer = self.peers.get(&(port & !1));
        let is_given =
            |peer: &Peer| (peer.is_proven() || peer.is_known) && !peer.is_over && !peer.is_lost(now);
        let may = peer.is_none_or(|peer| !peer.waits && is_given(peer));
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
            self.ended_closed += u64::from(peer.is_refused);
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

    fn asked(to: SocketAddr, caller: Option<IpAddr>) -> Asked {
        Asked { to, caller, sends: true, waits: false }
    }

    #[test]
    fn a_third_party_gets_nothing_and_a_silent_peer_ends_its_call() {
        let (call, mut all) = (call(), Consents::default());
        let to: SocketAddr = "192.0.2.2:4000".parse().expect("an address");
        all.follow(at(0), (call, 4000), asked(to, Some(to.ip())));
        all.follow(at(0), (call, 4002), asked(to, "192.0.2.9".parse().ok()));
        all.follow(at(0), (call, 4004), asked(to, None));
        let sent =
            |all: &mut Consents, ms| [4000, 4001, 4002, 4003, 4004].map(|port| all.allows(at(ms), port));
        assert_eq!(sent(&mut all, 1), [true, true, false, false, true]);
        assert_eq!((all.withheld, all.lost(at(1)).len()), (1, 0));
        // A report is consent, and a port that is refused is asked for two seconds.
        all.note(at(2_000), 4003, to.ip());
        all.refuse(4004, to);
        assert_eq!(sent(&mut all, 2_001), [true, true, true, true, false]);
        assert_eq!(all.lost(at(2_001)).len(), 1);
        assert_eq!(sent(&mut all, 12_001), [false, false, true, true, false]);
        assert_eq!((all.lost(at(12_001)).len(), all.lost(at(13_000)).len(), all.ended), (1, 0, 2));
        all.note(at(13_000), 4000, to.ip());
        assert!(!all.allows(at(13_001), 4000), "it is over");
        assert_eq!(all.lost(at(14_001)).len(), 1);
        all.finish(4000);
        assert!(all.allows(at(15_000), 4000));
    }

    #[test]
    fn a_call_on_hold_needs_no_consent_and_a_new_host_needs_its_own() {
        let (call, mut all) = (call(), Consents::default());
        let (to, third): (SocketAddr, SocketAddr) =
            ("192.0.2.2:4000".parse().expect("one"), "192.0.2.7:9".parse().expect("one"));
        let caller = Some(to.ip());
        all.follow(at(0), (call, 4000), Asked { waits: true, ..asked(to, caller) });
        assert!(!all.allows(at(1), 4001), "no report before the ACK");
        all.follow(at(2), (call, 4000), asked(to, caller));
        assert!(all.allows(at(2), 4000));
        all.follow(at(3), (call, 4000), Asked { sends: false, ..asked(to, caller) });
        assert!(all.lost(at(100_000)).is_empty());
        all.follow(at(100_000), (call, 4000), asked(to, caller));
        assert!(all.allows(at(111_000), 4000) && all.lost(at(111_000)).is_empty());
        // Moved to a third host: nothing goes there, and what comes from the caller is no consent of that host.
        all.follow(at(112_000), (call, 4000), asked(third, caller));
        all.note(at(112_001), 4000, to.ip());
        assert!(!all.allows(at(112_002), 4000));
        all.note(at(112_003), 4000, third.ip());
        assert!(all.allows(at(112_004), 4000));
        all.refuse(4000, to);
        assert!(all.allows(at(115_000), 4000), "that was the address before");
        // Back from the caller's host, the third one needs consent again.
        all.move_to(4000, to);
        all.note(at(115_001), 4000, to.ip());
        assert!(all.allows(at(115_002), 4000));
        all.move_to(4000, third);
        assert!(!all.allows(at(115_003), 4000));
    }
}
