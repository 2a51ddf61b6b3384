//! HELLOs of a feed, and the tunnel that they announce. Without I/O, so that elements and gateways share them.

use std::net::{IpAddr, Ipv4Addr};

use bentpipe_units::{Span, Time};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::dtcp::{self, Command};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ipv4, udp};

use super::Ends;

/// Returns the datagram of a HELLO, its IPv4 header first.
pub fn hello(ends: &Ends, interval_s: u8, sequence: u16) -> Vec<u8> {
    let repr = dtcp::Repr {
        command: Command::Join,
        interval_s,
        sequence,
        receives: false,
        tunnel_type: Protocol::GRE.0,
        feed: IpAddr::V4(ends.feed),
        tunnels: vec![IpAddr::V4(ends.tunnel)],
    };
    let (from, to, payload_len) = (ends.feed, dtcp::GROUP_V4, repr.buffer_len());
    let ip = ipv4::Repr { ttl: 1, ..ipv4::Repr::new(from, to, Protocol::UDP, udp::HEADER_LEN + payload_len) };
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN + payload_len];
    ip.emit(&mut bytes);
    let datagram = &mut bytes[ip.buffer_len()..];
    repr.emit(&mut datagram[udp::HEADER_LEN..]);
    udp::Repr { src_port: dtcp::PORT, dst_port: dtcp::PORT, payload_len }.emit(datagram);
    let pseudo = Pseudo::new(from.into(), to.into(), Protocol::UDP);
    udp::Datagram::new_unchecked(datagram).fill_checksum(&pseudo);
    bytes
}

/// Returns the HELLO in an IPv4 packet, if it is one with the right checksum.
pub fn hello_in(packet: &[u8]) -> Option<dtcp::Repr> {
    let ip = ipv4::Packet::new_checked(packet).ok()?;
    if ip.dst() != dtcp::GROUP_V4 || ip.protocol() != Protocol::UDP {
        return None;
    }
    let datagram = udp::Datagram::new_checked(ip.payload()).ok()?;
    datagram.verify_checksum(&ip.pseudo()).ok()?;
    dtcp::Repr::parse(datagram.payload()).ok().filter(|_| datagram.dst_port() == dtcp::PORT)
}

/// Tunnel of a feed, as far as HELLOs announced it.
#[derive(Clone, Debug)]
pub struct Announced {
    feed: Ipv4Addr,
    /// Number of intervals without HELLO after which the tunnel is forgotten.
    intervals: u8,
    /// End point, and the time at which it is forgotten.
    end: Option<(Ipv4Addr, Time)>,
    lost: u64,
}

impl Announced {
    /// Creates the state of a receiver that has received no HELLO of its feed.
    pub fn new(feed: Ipv4Addr, intervals: u8) -> Announced {
        Announced { feed, intervals, end: None, lost: 0 }
    }

    /// Returns `true` if a HELLO is of the feed and of a tunnel in GRE. It is heeded then.
    pub fn accept(&mut self, hello: &dtcp::Repr, now: Time) -> bool {
        if hello.feed != IpAddr::V4(self.feed) || hello.tunnel_type != Protocol::GRE.0 {
            return false;
        }
        let lifetime = Span::from_secs(hello.interval_s.into()) * u64::from(self.intervals);
        self.end = match (hello.command, hello.tunnels.first()) {
            (Command::Join, Some(IpAddr::V4(end))) => Some((*end, now + lifetime)),
            _ => None,
        };
        true
    }

    /// Returns the end point of the tunnel; `None` without a HELLO in time.
    pub fn end(&mut self, now: Time) -> Option<Ipv4Addr> {
        if self.end.is_some_and(|(_, until)| until <= now) {
            self.end = None;
            self.lost += 1;
        }
        self.end.map(|(end, _)| end)
    }

    /// Returns the number of times that HELLOs stayed away.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
