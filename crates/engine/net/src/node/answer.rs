//! ICMP and ICMPv6 of a node: errors for packets that it drops, and echo replies.
//!
//! RFC 792, RFC 1812 section 4.3 and RFC 4443. Errors are limited to 1000 a second with bursts of 50, as in Linux.

use std::net::{IpAddr, Ipv4Addr};

use bentpipe_units::{Span, Time};
use bentpipe_wire::icmp::{HEADER_LEN, Message, v4, v6};
use bentpipe_wire::ip::{self, Protocol, Upper};

use super::demux::{self, Service};
use super::routes::key;
use super::{Drop, Node, Via, view};
use crate::{Cx, Packet, Port};

/// Time after which one more error may be sent.
const INTERVAL: Span = Span::from_millis(1);
/// Number of errors that may be sent at once after a pause.
const BURST: u64 = 50;

/// Limit of the rate of errors, by virtual time.
#[derive(Debug)]
pub(super) struct Limit {
    tokens: u64,
    at: Time,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { tokens: BURST, at: Time::ZERO }
    }
}

impl Limit {
    /// Returns `true` if an error may be sent, which then counts.
    fn take(&mut self, now: Time) -> bool {
        let gained = now.since(self.at).as_nanos() / INTERVAL.as_nanos();
        self.tokens = (self.tokens + gained).min(BURST);
        self.at += INTERVAL * gained;
        let may = self.tokens > 0;
        self.tokens -= u64::from(may);
        may
    }
}

/// Error about a packet, in the words of either version.
#[derive(Clone, Copy, Debug)]
enum Report {
    V4(v4::Repr),
    V6(v6::Repr),
}

impl Report {
    /// Returns the error that a cause of loss makes, if it makes one.
    fn of(ip: &ip::Packet<&[u8]>, cause: Drop, mtu: usize) -> Option<Report> {
        match ip {
            ip::Packet::V4(ip) => report_v4(cause, ip.protocol(), mtu).map(Report::V4),
            ip::Packet::V6(_) => {
                let protocol = ip.upper().ok()?.protocol;
                report_v6(cause, protocol, mtu).map(Report::V6)
            }
        }
    }

    /// Writes the message around the beginning of the packet that it is about.
    fn message(self, about: &[u8]) -> Vec<u8> {
        let most = match self {
            Report::V4(_) => v4::MAX_ERROR_LEN - 20,
            Report::V6(_) => v6::MAX_ERROR_LEN - 40,
        };
        let about = &about[..about.len().min(most - HEADER_LEN)];
        let mut message = [&[0; HEADER_LEN], about].concat();
        match self {
            Report::V4(repr) => repr.emit(&mut message),
            Report::V6(repr) => repr.emit(&mut message),
        }
        message
    }
}

fn report_v4(cause: Drop, protocol: Protocol, mtu: usize) -> Option<v4::Repr> {
    let unreachable = |code| Some(v4::Repr::DestinationUnreachable { code, next_hop_mtu: 0 });
    match cause {
        Drop::NoRoute => unreachable(v4::Repr::NET_UNREACHABLE),
        Drop::HopLimit => Some(v4::Repr::TimeExceeded { code: 0 }),
        Drop::TooBig => {
            let next_hop_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            Some(v4::Repr::DestinationUnreachable { code: v4::Repr::FRAGMENTATION_NEEDED, next_hop_mtu })
        }
        Drop::NoListener if protocol == Protocol::UDP => unreachable(v4::Repr::PORT_UNREACHABLE),
        // A host answers a segment with a reset, which is TCP's to send.
        Drop::NoListener if protocol != Protocol::TCP => unreachable(v4::Repr::PROTOCOL_UNREACHABLE),
        Drop::NoListener | Drop::BadChecksum | Drop::BadHeader | Drop::Reassembly | Drop::NoMember => None,
    }
}

fn report_v6(cause: Drop, protocol: Protocol, mtu: usize) -> Option<v6::Repr> {
    let unreachable = |code| Some(v6::Repr::DestinationUnreachable { code });
    match cause {
        Drop::NoRoute => unreachable(v6::Repr::NO_ROUTE),
        Drop::HopLimit => Some(v6::Repr::TimeExceeded { code: 0 }),
        Drop::TooBig => Some(v6::Repr::PacketTooBig { mtu: u32::try_from(mtu).unwrap_or(u32::MAX) }),
        Drop::NoListener if protocol == Protocol::UDP => unreachable(v6::Repr::PORT_UNREACHABLE),
        Drop::NoListener | Drop::BadChecksum | Drop::BadHeader | Drop::Reassembly | Drop::NoMember => None,
    }
}

/// Creates a packet of an ICMP message whose checksum is not filled in yet.
fn packet(source: IpAddr, destination: IpAddr, ident: u16, mut message: Vec<u8>) -> Packet {
    let protocol = if source.is_ipv4() { Protocol::ICMP } else { Protocol::ICMPV6 };
    let mut repr = ip::Repr::new(source, destination, protocol, message.len());
    if let ip::Repr::V4(repr) = &mut repr {
        (repr.dont_fragment, repr.ident) = (false, ident);
    }
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    let pseudo = ip::Packet::new_elided(&bytes[..], message.len()).ok().and_then(|ip| pseudo(&ip));
    if let Ok(mut message) = Message::new_checked(&mut message[..]) {
        message.fill_checksum(pseudo.as_ref());
    }
    bytes.extend(message);
    Packet::from_bytes(&bytes)
}

/// Returns the pseudo-header of ICMPv6's checksum, which ICMP has not.
fn pseudo(ip: &ip::Packet<&[u8]>) -> Option<bentpipe_wire::checksum::Pseudo> {
    match ip {
        ip::Packet::V4(_) => None,
        ip::Packet::V6(_) => ip.upper().ok().map(|upper| upper.pseudo),
    }
}

/// Returns `true` if an error may be sent about a packet.
///
/// RFC 1812, section 4.3.2.7; RFC 4443, section 2.4.
fn is_answerable(ip: &ip::Packet<&[u8]>, cause: Drop) -> bool {
    let Ok(upper) = ip.upper() else { return false };
    let source = ip.src();
    let is_one = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
    let to_many = ip.dst().is_multicast() || ip.dst() == IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_excepted = cause == Drop::TooBig && source.is_ipv6();
    is_one && !upper.is_later_fragment && (!to_many || is_excepted) && !is_error(&upper)
}

/// Returns `true` if the content is an ICMP error.
fn is_error(upper: &Upper<'_>) -> bool {
    let Ok(message) = Message::new_elided(upper.bytes, upper.elided) else { return false };
    match upper.protocol {
        Protocol::ICMP => v4::Repr::parse(&message).is_error(),
        Protocol::ICMPV6 => v6::Repr::parse(&message).is_error(),
        _ => false,
    }
}

/// Returns `true` if the content is an echo request.
fn is_echo(upper: &Upper<'_>) -> bool {
    let Ok(message) = Message::new_elided(upper.bytes, upper.elided) else { return false };
    match upper.protocol {
        Protocol::ICMP => matches!(v4::Repr::parse(&message), v4::Repr::EchoRequest { .. }),
        Protocol::ICMPV6 => matches!(v6::Repr::parse(&message), v6::Repr::EchoRequest { .. }),
        _ => false,
    }
}

impl Node {
    /// Counts a dropped packet, and reports it to its source unless that is this node.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, packet: Packet, cause: Drop, cx: &mut Cx<'_>) {
        self.refuse_for(packet, cause, usize::MAX, cx);
    }

    /// Counts a packet that is longer than an MTU, and reports it.
    #[cold]
    pub(super) fn refuse_too_big(&mut self, packet: Packet, mtu: usize, cx: &mut Cx<'_>) {
        self.refuse_for(packet, Drop::TooBig, mtu, cx);
    }

    fn refuse_for(&mut self, packet: Packet, cause: Drop, mtu: usize, cx: &mut Cx<'_>) {
        self.counts.drops[cause as usize] += 1;
        self.report(&packet, cause, mtu, cx);
        packet.lose(cause.why());
    }

    fn report(&mut self, packet: &Packet, cause: Drop, mtu: usize, cx: &mut Cx<'_>) {
        let Ok(ip) = view(packet) else { return };
        let Some(report) = Report::of(&ip, cause, mtu).filter(|_| is_answerable(&ip, cause)) else { return };
        let Some(own) = self.address(ip.src()) else { return };
        if !self.leads_elsewhere(ip.src()) {
            return;
        }
        if !self.limit.take(cx.now()) {
            self.counts.icmp_suppressed += 1;
            return;
        }
        self.send_own((own, ip.src()), report.message(&packet.to_vec()), self.account, cx);
    }

    /// Returns this node's address of the version of another one.
    pub(super) fn address(&self, like: IpAddr) -> Option<IpAddr> {
        self.addresses[usize::from(like.is_ipv6())]
    }

    /// Sends a message of this node from an address to another. It is in an account.
    fn send_own(&mut self, ends: (IpAddr, IpAddr), message: Vec<u8>, account: u32, cx: &mut Cx<'_>) {
        self.send_in(ends, message, |packet, cx| cx.offer(packet, account), cx);
    }

    /// Sends a message of this node, which `offer` enters into an account.
    fn send_in(
        &mut self,
        (own, to): (IpAddr, IpAddr),
        message: Vec<u8>,
        offer: impl FnOnce(&mut Packet, &mut Cx<'_>),
        cx: &mut Cx<'_>,
    ) {
        self.ident = self.ident.wrapping_add(1);
        let mut packet = packet(own, to, self.ident, message);
        if self.leads_elsewhere(to) {
            self.counts.icmp_sent += 1;
            offer(&mut packet, cx);
            let via = self.routes.find(key(to));
            self.own_parts(packet).into_iter().for_each(|part| self.send(part, via, cx));
        }
    }

    /// Returns `true` if packets to an address leave this node.
    fn leads_elsewhere(&mut self, to: IpAddr) -> bool {
        matches!(self.routes.find(key(to)), Via::Interface(_) | Via::Tunnel(_))
    }

    /// Handles an ICMP message to this node that no endpoint is bound to.
    #[cold]
    pub(super) fn receive_icmp(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let bytes = packet.to_vec();
        let ip = ip::Packet::new_checked(&bytes[..]);
        let Ok(ip) = ip else { return self.refuse(packet, Drop::BadHeader, cx) };
        let Ok(upper) = ip.upper() else { return self.refuse(packet, Drop::BadHeader, cx) };
        let message = Message::new_elided(upper.bytes, upper.elided);
        let is_sound = message.is_ok_and(|message| message.verify_checksum(pseudo(&ip).as_ref()).is_ok());
        if !is_sound && !upper.is_fragment {
            return self.refuse(packet, Drop::BadChecksum, cx);
        }
        self.counts.icmp_received += 1;
        let account = cx.accept(&mut packet);
        if is_echo(&upper) && !ip.dst().is_multicast() {
            let account = self.account_of_answers(account);
            let reply = echo_reply(&upper);
            return self.send_in(
                (ip.dst(), ip.src()),
                reply,
                |reply, cx| cx.offer_with(reply, account, &packet),
                cx,
            );
        }
        if let Some(endpoint) = self.concerned(&upper).or_else(|| self.requester(&upper)) {
            cx.emit(endpoint, packet);
        }
    }

    /// Returns the account of the replies to requests of an account.
    fn account_of_answers(&self, requests: u32) -> u32 {
        let place = self.answered.iter().position(|answered| answered.is(requests));
        place.map_or(self.account, |place| self.account + 1 + u32::from(self.endpoints) + place as u32)
    }

    /// Returns the endpoint whose identifier an echo reply has.
    fn requester(&self, upper: &Upper<'_>) -> Option<Port> {
        let is_reply = match upper.protocol {
            Protocol::ICMP => upper.bytes.first() == Some(&0),
            Protocol::ICMPV6 => upper.bytes.first() == Some(&129),
            _ => false,
        };
        let &[a, b] = upper.bytes.get(4..6).filter(|_| is_reply)? else { return None };
        let identifier = u16::from_be_bytes([a, b]);
        self.demux.find_service(Service::new(upper.protocol, identifier))
    }

    /// Returns the endpoint of the TCP connection that an ICMP error is about.
    fn concerned(&self, upper: &Upper<'_>) -> Option<Port> {
        let about = upper.bytes.get(HEADER_LEN..).filter(|_| is_error(upper))?;
        let ip = ip::Packet::new_elided(about, usize::from(u16::MAX)).ok()?;
        let quoted = ip.upper().ok().filter(|quoted| quoted.protocol == Protocol::TCP)?;
        let (own, remote) = demux::ports(quoted.protocol, quoted.bytes, quoted.is_later_fragment);
        self.demux.find(Service::new(quoted.protocol, own), remote, || key(ip.dst()))
    }
}

/// Returns the answer to an echo request: its message with another type.
fn echo_reply(request: &Upper<'_>) -> Vec<u8> {
    let mut message = request.bytes.to_vec();
    message[0] = if request.protocol == Protocol::ICMP { 0 } else { 129 };
    message
}
