//! Programs of real hosts in the place of roles and traffic.

use std::net::IpAddr;

use bentpipe_units::{Bytes, Rate, Span};

/// Traffic as programs of real hosts send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealTraffic {
    /// A TCP connection.
    Connection {
        /// Congestion controller, by its name in scenarios.
        controller: &'static str,
    },
    /// Datagrams of one length at equal intervals.
    Datagrams {
        /// Payload of each, without UDP and IP.
        payload: Bytes,
        /// Rate of the payload.
        rate: Rate,
        /// Most datagrams of each copy.
        packets: Option<u64>,
        /// Differentiated services codepoint.
        dscp: u8,
    },
    /// Voice packets at equal intervals behind RTP headers.
    Voice {
        /// RTP payload of each.
        payload: Bytes,
        /// Time between packets of a copy.
        interval: Span,
        /// RTP payload of refreshes, and their final distance.
        refresh: Option<(Bytes, u64)>,
        /// Clock of the timestamps in Hz.
        clock_hz: u32,
        /// Most packets of each copy.
        packets: Option<u64>,
        /// Differentiated services codepoint.
        dscp: u8,
        /// Set if the copies send at different instants, spread over the interval.
        is_spread: bool,
        /// Set if the copies have one port.
        shares_port: bool,
    },
    /// SIP calls over UDP.
    Calls {
        /// Mean time between calls, exponentially distributed.
        interval: Span,
        /// Mean length of a call from its answer, exponentially distributed.
        hold: Span,
        /// Time from INVITE to answer at the callee.
        ring: Span,
        /// Longest time from INVITE to answer at the caller.
        ring_limit: Span,
        /// Most calls.
        calls: Option<u64>,
        /// Timers T1 and T2 of RFC 3261.
        timers: [Span; 2],
        /// Differentiated services codepoint of messages.
        dscp: u8,
        /// Voice of calls in the words of the scenario, and its number of lines. `None`: signalling alone.
        voice: Option<(String, u16)>,
    },
    /// Echo requests.
    Requests {
        /// Data of each, without ICMP and IP headers.
        payload: Bytes,
        /// Time between requests.
        interval: Span,
        /// Number of requests.
        packets: Option<u64>,
        /// Differentiated services codepoint.
        dscp: u8,
    },
    /// Bundles at equal intervals, between nodes of bundles.
    Bundles {
        /// Payload of each.
        payload: Bytes,
        /// Time between bundles.
        interval: Span,
        /// Lifetime.
        lifetime: Span,
        /// Most bundles.
        bundles: Option<u64>,
    },
}

/// Real host that has a role, and the nodes around it.
pub struct RealAt<'a> {
    /// Name of the host.
    pub node: &'a str,
    /// Key of the role.
    pub key: String,
    /// Names of all nodes in the order of the file.
    pub nodes: &'a [String],
    /// Returns the IPv4 address of a node.
    pub address: &'a dyn Fn(&str) -> Option<IpAddr>,
}

impl RealAt<'_> {
    /// Returns the place of a node in the file, from 0.
    pub fn index(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|name| name == node)
    }
}

/// Program of a real host in the place of a role: this one, with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealProgram {
    /// Arguments. Its folder holds the files.
    pub arguments: Vec<String>,
    /// Files by name.
    pub files: Vec<(&'static str, String)>,
    /// TCP port on loopback at which it listens once it is ready.
    pub port: u16,
    /// Folder of its own that is removed at the end.
    pub scratch: &'static str,
}
