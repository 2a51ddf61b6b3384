//! Header compression before ROHC: Van Jacobson (RFC 1144), IPHC (RFC 2507) and CRTP (RFC 2508).
//!
//! A [`Compressor`] makes frames of IP packets, and a [`Decompressor`] makes IP packets of frames. Each frame has a
//! [`Kind`], which a link has to carry: PPP by its protocol field ([`Kind::ppp`], RFC 1332 and 3544).
//!
//! *Models*: packets of IPv4 without options and of IPv6 without extension headers, with TCP, UDP, RTP or anything else
//! behind. All other packets, and those whose checksum or length is wrong, pass as they are. IPHC has compression slow
//! start, periodic full headers and header requests, and repairs TCP by applying a difference twice. CRTP has link
//! sequence numbers, and full headers at most `max_period` packets and `max_time` apart, so that it works on links without
//! a way back.
//!
//! *Does not model*: tunnels as one chain of headers, packet sequence numbers for links that reorder, tables of
//! differences that ends negotiate.
//!
//! ```
//! use std::time::Duration;
//! use bentpipe_hc::{Compressor, Config, Decompressor, Scheme};
//!
//! let config = Config::new(Scheme::Crtp);
//! let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(config));
//! let packet = [0x60, 0, 0, 0, 0, 0, 59, 64].into_iter().chain([1; 32]).collect::<Vec<u8>>();
//! let (mut frame, mut restored) = (Vec::new(), Vec::new());
//! let sent = compressor.compress(Duration::ZERO, &packet, &mut frame);
//! decompressor.decompress(sent.kind, &frame, &mut restored)?;
//! assert_eq!(restored, packet);
//! # Ok::<(), bentpipe_hc::Error>(())
//! ```

mod chain;
mod compressor;
mod contexts;
mod decompressor;
mod delta;
mod tcp;

use std::time::Duration;

pub use compressor::{Compressor, Sent};
pub use decompressor::{Decompressor, REQUEST_INTERVAL, Restored};

/// Header compression scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Van Jacobson's: TCP over IPv4 (RFC 1144).
    VanJacobson,
    /// IP header compression: TCP, UDP and IP (RFC 2507).
    Iphc,
    /// IP, UDP and RTP, and TCP as with IPHC (RFC 2508).
    Crtp,
}

impl Scheme {
    /// Every scheme, the oldest first.
    pub const ALL: [Scheme; 3] = [Scheme::VanJacobson, Scheme::Iphc, Scheme::Crtp];
}

/// Settings that both ends agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Scheme.
    pub scheme: Scheme,
    /// Number of TCP contexts, 1 to 256.
    pub tcp_contexts: u16,
    /// Number of other contexts, 1 to 65535. Above 256, context identifiers have 16 bits.
    pub contexts: u16,
    /// Maximum number of compressed headers between full ones (F_MAX_PERIOD), at least 1. TCP has none.
    pub max_period: u16,
    /// Maximum time between full headers of a flow other than TCP (F_MAX_TIME).
    pub max_time: Duration,
}

impl Config {
    /// Creates the defaults of the RFCs. They are 16 contexts, and full headers after 256 others or 5 s.
    pub const fn new(scheme: Scheme) -> Config {
        Config { scheme, tcp_contexts: 16, contexts: 16, max_period: 256, max_time: Duration::from_secs(5) }
    }

    /// Returns the settings with the limits that formats have.
    fn limited(self) -> Config {
        Config {
            tcp_contexts: self.tcp_contexts.clamp(1, 256),
            contexts: self.contexts.max(1),
            max_period: self.max_period.max(1),
            ..self
        }
    }

    /// Returns `true` if context identifiers of flows other than TCP have 16 bits.
    fn has_long_ids(&self) -> bool {
        self.contexts > 256
    }
}

/// Kind of a frame, which a link carries with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// IPv4 packet as it was.
    Ipv4,
    /// IPv6 packet as it was.
    Ipv6,
    /// Packet with a connection number in the place of its protocol (RFC 1144).
    VjUncompressed,
    /// Compressed TCP header (RFC 1144).
    VjCompressed,
    /// Packet with a context identifier in the place of its lengths.
    FullHeader,
    /// Compressed TCP header with differences.
    CompressedTcp,
    /// TCP header without its ports.
    CompressedTcpNodelta,
    /// Compressed header other than TCP.
    CompressedNonTcp,
    /// Compressed IP and UDP header, with a context identifier of 8 or 16 bits.
    CompressedUdp {
        /// Set for 16 bits.
        long: bool,
    },
    /// Compressed IP, UDP and RTP header, with a context identifier of 8 or 16 bits.
    CompressedRtp {
        /// Set for 16 bits.
        long: bool,
    },
    /// List of contexts that are not in order, sent by a decompressor.
    ContextState,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 13] = [
        Kind::Ipv4,
        Kind::Ipv6,
        Kind::VjUncompressed,
        Kind::VjCompressed,
        Kind::FullHeader,
        Kind::CompressedTcp,
        Kind::CompressedTcpNodelta,
        Kind::CompressedNonTcp,
        Kind::CompressedUdp { long: false },
        Kind::CompressedUdp { long: true },
        Kind::CompressedRtp { long: false },
        Kind::CompressedRtp { long: true },
        Kind::ContextState,
    ];

    /// Returns the protocol field of PPP (RFC 1332, 5072, 3544).
    pub const fn ppp(self) -> u16 {
        match self {
            Kind::Ipv4 => 0x21,
            Kind::Ipv6 => 0x57,
            Kind::VjCompressed => 0x2d,
            Kind::VjUncompressed => 0x2f,
            Kind::FullHeader => 0x61,
            Kind::CompressedTcp => 0x63,
            Kind::CompressedNonTcp => 0x65,
            Kind::CompressedUdp { long: false } => 0x67,
            Kind::CompressedRtp { long: false } => 0x69,
            Kind::CompressedTcpNodelta => 0x2063,
            Kind::ContextState => 0x2065,
            Kind::CompressedUdp { long: true } => 0x2067,
            Kind::CompressedRtp { long: true } => 0x2069,
        }
    }

    /// Returns the name, as in RFC 1332 and 3544.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Ipv4 => "IPv4",
            Kind::Ipv6 => "IPv6",
            Kind::VjUncompressed => "VJ-uncompressed",
            Kind::VjCompressed => "VJ-compressed",
            Kind::FullHeader => "FULL_HEADER",
            Kind::CompressedTcp => "COMPRESSED_TCP",
            Kind::CompressedTcpNodelta => "COMPRESSED_TCP_NODELTA",
            Kind::CompressedNonTcp => "COMPRESSED_NON_TCP",
            Kind::CompressedUdp { long: false } => "COMPRESSED_UDP_8",
            Kind::CompressedUdp { long: true } => "COMPRESSED_UDP_16",
            Kind::CompressedRtp { long: false } => "COMPRESSED_RTP_8",
            Kind::CompressedRtp { long: true } => "COMPRESSED_RTP_16",
            Kind::ContextState => "CONTEXT_STATE",
        }
    }

    /// Returns the kind with this protocol field of PPP.
    pub fn of_ppp(protocol: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.ppp() == protocol)
    }
}

/// Error returned when a frame gives no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame ends within its header.
    #[error("frame cut within its header")]
    Truncated,
    /// The frame has headers that no compressor sends.
    #[error("headers that are not compressed in this way")]
    Malformed,
    /// The context was not set up, or is known to be damaged.
    #[error("no context")]
    NoContext,
    /// The context is of another generation.
    #[error("context of another generation")]
    Generation,
    /// A frame of the context is missing.
    #[error("gap in the sequence of frames")]
    Gap,
    /// The checksum of the restored TCP segment is wrong.
    #[error("wrong checksum")]
    Checksum,
}
