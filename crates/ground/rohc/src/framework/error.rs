//! Errors.

use core::fmt;

use crate::framework::octets::Truncated;

/// Error returned when a packet could not be compressed. The caller may send it another way; no context was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressError {
    /// The packet has no octets.
    Empty,
    /// `len_bytes` is smaller than the octets given, or larger than an IP packet can be.
    BadLength,
    /// A CID to reserve is above MAX_CID.
    CidOutOfRange(u16),
    /// The buffer has no room for the ROHC packet, of this many octets.
    BufferTooSmall(usize),
}

impl fmt::Display for CompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the packet is empty"),
            Self::CidOutOfRange(cid) => write!(f, "CID {cid} is above the channel's MAX_CID"),
            Self::BufferTooSmall(needed) => write!(f, "the ROHC packet takes {needed} octets"),
            Self::BadLength => {
                f.write_str("packet length smaller than the octets given, or above 65575 octets")
            }
        }
    }
}

impl core::error::Error for CompressError {}

/// Error returned when a ROHC packet gave no IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecompressError {
    /// Shorter than its format.
    Truncated,
    /// Reserved or impossible value of the item named.
    Malformed(&'static str),
    /// The CID is not within the channel's CID space (RFC 3095 5.1.3).
    CidOutOfRange(u16),
    /// No IR packet has established this context.
    NoContext(u16),
    /// The profile is unknown or not allowed on this channel.
    ProfileRefused(u8),
    /// The context is damaged and this packet cannot repair it (RFC 3095 5.3.2.2.1).
    NotAllowedInState,
    /// The header's CRC does not match what was reconstructed.
    CrcMismatch,
    /// Reconstructed and CRC good, but the transport checksum is wrong ([`verify`](crate::DecompressorConfig::verify)).
    ChecksumMismatch,
    /// The context awaits confirmation after a repair or losses. Packets are held back until it is confirmed (RFC 3095
    /// 5.3.2.2.4 e, [`caution`](crate::DecompressorConfig::caution)).
    RepairPending,
    /// The reassembled unit has a wrong length or CRC-32 (RFC 3095 5.2.5.2).
    Reassembly,
    /// The context would exceed the memory limit.
    TooLarge,
    /// The buffer has no room for the IP packet, of this many octets.
    BufferTooSmall(usize),
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("ROHC packet truncated"),
            Self::Malformed(what) => write!(f, "malformed ROHC packet: {what}"),
            Self::CidOutOfRange(cid) => write!(f, "CID {cid} is above the channel's MAX_CID"),
            Self::NoContext(cid) => write!(f, "CID {cid} has no context"),
            Self::ProfileRefused(octet) => write!(f, "profile {octet:#04x} is not of this channel"),
            Self::NotAllowedInState => f.write_str("context damaged: waiting for a refresh"),
            Self::CrcMismatch => f.write_str("header CRC mismatch"),
            Self::ChecksumMismatch => f.write_str("transport checksum mismatch"),
            Self::RepairPending => f.write_str("context not confirmed yet after repair or losses"),
            Self::Reassembly => f.write_str("reassembly failed"),
            Self::TooLarge => f.write_str("context would grow too large"),
            Self::BufferTooSmall(needed) => write!(f, "the IP packet takes {needed} octets"),
        }
    }
}

impl core::error::Error for DecompressError {}

impl From<Truncated> for DecompressError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}
