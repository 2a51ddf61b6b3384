//! Fragmentation on the way and at the sender's node, and reassembly.
//!
//! RFC 791, section 3.2; RFC 8200, section 4.5.

use std::net::IpAddr;

use bentpipe_units::Time;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ip::fragments::{split, split_at_source};
use bentpipe_wire::ipv6::{self, ext};

use super::routes::{Key, key};
use super::{Node, Origin, view};
use crate::hash::Map;
use crate::{Cx, Packet, Port, Why, ledger};

/// Origin of a fragment that is in its packet's account.
pub(super) type Tagged = Option<crate::Origin>;

/// Endpoints whose packets their own node fragments.
#[derive(Debug)]
pub(super) struct Sources {
    /// Length of each one's longest fragment, in bytes.
    mtus: Map<Port, usize>,
    /// Length of the longest fragment to a destination, in bytes, where it is known.
    paths: Map<Key, usize>,
    /// Length of the longest fragment of the node's own messages, in bytes.
    own: usize,
    /// Identification of the last packet that was fragmented.
    ident: u32,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { mtus: Map::default(), paths: Map::default(), own: usize::MAX, ident: 0 }
    }
}

impl Sources {
    /// Returns the length of the longest fragment of an endpoint's packet.
    ///
    /// `None`: its node does not fragment it.
    fn mtu(&self, endpoint: Port, packet: &Packet) -> Option<usize> {
        let own = self.mtus.get(&endpoint).copied()?;
        if self.paths.is_empty() {
            return Some(own);
        }
        let to = view(packet).ok().and_then(|ip| self.paths.get(&key(ip.dst())));
        Some(to.map_or(own, |path| own.min(*path)))
    }
}

impl Node {
    /// Fragments what an endpoint sends in packets of at most `mtu` bytes.
    ///
    /// The fragments have no don't-fragment flag: a sender that knows its path's MTU does so (RFC 8200, section 5; Linux for
    /// UDP).
    pub fn fragment_at(&mut self, endpoint: Port, mtu: usize) {
        self.sources.get_or_insert_default().mtus.insert(endpoint, mtu);
    }

    /// Fragments what an endpoint sends by the MTU of the path to its destination.
    ///
    /// [`Node::set_path_mtu`] sets that.
    pub fn fragment(&mut self, endpoint: Port) {
        self.fragment_at(endpoint, usize::MAX);
    }

    /// Sets the MTU of the path to a destination.
    ///
    /// Endpoints that fragment what they send have no longer fragments to it.
    pub fn set_path_mtu(&mut self, to: IpAddr, mtu: usize) {
        self.sources.get_or_insert_default().paths.insert(key(to), mtu);
    }

    /// Fragments the node's own messages in packets of at most `mtu` bytes.
    pub fn fragment_own_at(&mut self, mtu: usize) {
        let sources = self.sources.get_or_insert_default();
        sources.own = sources.own.min(mtu);
    }

    /// Sends a packet that is longer than the MTU in fragments, or refuses it.
    #[cold]
    #[inline(never)]
    pub(super) fn send_fragments(&mut self, packet: Packet, port: Port, cx: &mut Cx<'_>) {
        let mtu = self.mtus.get(usize::from(port.0)).copied().unwrap_or_default();
        let Some(fragments) = split(&packet.to_vec(), mtu) else {
            return self.refuse_too_big(packet, mtu, cx);
        };
        self.counts.forwarded += 1;
        self.counts.fragments += fragments.len() as u64;
        parts(&fragments, packet).into_iter().for_each(|part| cx.emit(port, part));
    }

    /// Handles what an endpoint sends: in fragments, if its node fragments what is as long.
    #[cold]
    #[inline(never)]
    pub(super) fn send_as_source(&mut self, packet: Packet, endpoint: Port, cx: &mut Cx<'_>) {
        let mtu = self.sources.as_ref().and_then(|sources| sources.mtu(endpoint, &packet));
        let mtu = mtu.filter(|&mtu| packet.len() > mtu);
        let cut = |mtu| split_at_source(&packet.to_vec(), mtu, self.next_ident());
        let Some(fragments) = mtu.and_then(cut) else { return self.handle(packet, Origin::Here, cx) };
        self.counts.fragments += fragments.len() as u64;
        parts(&fragments, packet).into_iter().for_each(|part| self.handle(part, Origin::Here, cx));
    }

    /// Returns a message of this node in fragments, if it fragments what is as long.
    pub(super) fn own_parts(&mut self, message: Packet) -> Vec<Packet> {
        let mtu = self.sources.as_ref().map_or(usize::MAX, |sources| sources.own);
        if message.len() <= mtu {
            return vec![message];
        }
        let fragments = split_at_source(&message.to_vec(), mtu, self.next_ident()).unwrap_or_default();
        self.counts.fragments += fragments.len() as u64;
        parts(&fragments, message)
    }

    /// Returns the next identification: another one for 2^32 packets, or 2^16 of IPv4.
    fn next_ident(&mut self) -> u32 {
        self.sources.as_mut().map_or(0, |sources| {
            sources.ident = sources.ident.wrapping_add(1);
            sources.ident
        })
    }

    /// Keeps a fragment, and delivers the packet that it completes.
    #[cold]
    #[inline(never)]
    pub(super) fn reassemble(&mut self, fragment: Packet, cx: &mut Cx<'_>) {
        if let Some(whole) = self.whole(fragment, cx.now()) {
            self.deliver(whole, cx);
        }
    }

    /// Keeps a fragment, and returns the packet that it completes.
    pub(super) fn whole(&mut self, mut fragment: Packet, now: Time) -> Option<Packet> {
        let (bytes, created_at) = (fragment.to_vec(), fragment.created_at());
        let tagged = fragment.is_accounted().then(|| fragment.take_origin());
        let reassembly = self.reassembly.get_or_insert_default();
        // What does not come out, or came twice, ends here.
        ledger::dropping(Why::Reassembly, || {
            let (bytes, tagged) = reassembly.add_with(&bytes, now, tagged)?;
            self.counts.reassembled += 1;
            let mut whole = Packet::from_bytes(&bytes);
            whole.set_origin(crate::Origin::joined(tagged.into_iter().flatten().collect()));
            whole.set_created_at(created_at);
            Some(whole)
        })
    }
}

/// Returns `true` for a fragment, atomic ones of IPv6 included.
///
/// [`read`](super::read) has checked its header.
#[inline]
pub(super) fn is_fragment(packet: &Packet) -> bool {
    let header = packet.header();
    match header[0] >> 4 {
        // More fragments to come, or an offset.
        4 => (header[6] & 0x3f, header[7]) != (0, 0),
        _ => match Protocol(header[6]) {
            Protocol::UDP | Protocol::TCP | Protocol::ICMPV6 => false,
            Protocol::FRAGMENT => true,
            protocol => {
                ext::walk(protocol, &header[ipv6::HEADER_LEN..]).is_ok_and(|chain| chain.fragment.is_some())
            }
        },
    }
}

/// Creates the packets of a packet's fragments, as old as it, and in its account.
fn parts(fragments: &[Vec<u8>], mut of: Packet) -> Vec<Packet> {
    let origins = of.take_origin().fragments(fragments.len());
    let part = |(bytes, origin): (&Vec<u8>, crate::Origin)| {
        let mut part = Packet::from_bytes(bytes);
        part.set_origin(origin);
        part
    };
    fragments.iter().zip(origins).map(part).collect()
}
