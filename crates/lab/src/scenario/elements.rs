//! The configurations of elements, as files write them.

pub use bentpipe_cc::Choice as Controller;
use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How packets are framed on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Framing {
    /// Nothing is added.
    #[default]
    None,
    /// Ethernet as on the medium (IEEE 802.3): preamble 8, header 14, FCS 4 and interframe gap 12 bytes, and frames
    /// padded to 64 bytes.
    Ethernet,
    /// LLC/SNAP and AAL5 in ATM cells (RFC 2684, I.363.5).
    Aal5LlcSnap {
        /// Whether the rate is that of an SDH or SONET line, of which cells get 260 of 270 columns.
        #[serde(default)]
        sdh: bool,
    },
    /// So many bytes more for each packet.
    Fixed {
        /// Bytes added to each packet.
        overhead: Bytes,
    },
}

/// What waits for the line, and what is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Queue {
    /// First in, first out; what does not fit is dropped.
    DropTail {
        /// The most packets that wait.
        packets: Option<u32>,
        /// The most bytes that wait.
        bytes: Option<Bytes>,
    },
}

/// What a channel does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// Loses each packet alone with a probability.
    Packets {
        /// Probability that a packet is lost.
        #[schemars(range(min = 0, max = 1))]
        probability: f64,
    },
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shaper {
    /// Tokens come at this rate.
    pub rate: Rate,
    /// The most tokens.
    pub burst: Bytes,
    /// The most bytes that wait.
    pub limit: Bytes,
}

/// A TCP connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Slow start and window law.
    pub controller: Controller,
    /// Receive buffer.
    pub receive_buffer: Bytes,
    /// Send buffer.
    pub send_buffer: Bytes,
}

impl Default for Tcp {
    fn default() -> Tcp {
        let buffer = Bytes::new(16 << 20);
        Tcp { controller: Controller::default(), receive_buffer: buffer, send_buffer: buffer }
    }
}

/// A source of UDP datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Udp {
    /// One datagram after the other at fixed distances.
    Cbr {
        /// Payload of a datagram.
        payload: Bytes,
        /// Time from one to the next.
        interval: Span,
    },
}
