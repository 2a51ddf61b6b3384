//! Return of a unidirectional link in a tunnel (RFC 3077).
//!
//! *Models*: HELLOs of the feed on the link (DTCP), receivers that learn the tunnel's end point from them and forget it without
//! HELLOs, packets as Ethernet frames in GRE over the network of the other links, with real bytes.
//!
//! *Does not model*: choice among several feeds, IPv6 around the tunnel, LEAVE of a feed that ends, and the delay of broadcasts
//! between receivers, which a point-to-point link has not.
//!
//! *References*: RFC 3077, RFC 2784, RFC 1701 (Ethernet in GRE), RFC 6040 (ECN).

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use bentpipe_net::Packet;
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::MacAddr;

mod announced;
mod feed;
pub mod kind;
pub mod metrics;
pub mod none;
mod receiver;
#[cfg(test)]
mod tests;

pub use announced::{Announced, hello, hello_in};
pub use feed::Feed;
pub use receiver::{OVERHEAD, TunnelEnd};

/// Addresses of both ends of a tunnelled return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Address of the receiver, from which its packets come.
    pub receiver: Ipv4Addr,
    /// Address of the feed on the link (FUIP).
    pub feed: Ipv4Addr,
    /// End point of the tunnel at the feed (FBIP).
    pub tunnel: Ipv4Addr,
}

/// Returns the locally administered MAC address of a node's interface to the link.
pub fn mac_of(address: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = address.octets();
    MacAddr([0x02, 0x00, a, b, c, d])
}

/// Packets that leave after a fixed time.
#[derive(Debug)]
struct Processing {
    time: Span,
    waiting: VecDeque<(Time, Packet)>,
}

impl Processing {
    fn new(time: Span) -> Processing {
        Processing { time, waiting: VecDeque::new() }
    }

    fn push(&mut self, now: Time, packet: Packet) {
        self.waiting.push_back((now + self.time, packet));
    }

    /// Removes and returns the next packet that is due.
    fn pop(&mut self, now: Time) -> Option<Packet> {
        let is_due = self.waiting.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.waiting.pop_front().map(|(_, packet)| packet) } else { None }
    }

    fn deadline(&self) -> Time {
        self.waiting.front().map_or(Time::NEVER, |(at, _)| *at)
    }
}
