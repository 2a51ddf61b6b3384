//! Packets of captures, and the kinds that a capture is read for.

use std::time::Duration;

use bentpipe_wire::rohc::pdcp::SnLen;

use crate::Link;

/// IP or ROHC packet, as far as the capture kept it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of its record in the file, from 1. That of the last fragment.
    pub number: u64,
    /// Link of its record.
    pub link: Link,
    /// Time of its record, nanoseconds since 1970.
    pub time_ns: u64,
    /// Length in bytes, of which `bytes` may be fewer.
    pub len: usize,
    /// Bytes that the capture kept.
    pub bytes: &'a [u8],
    /// Protocol field of PPP, 0 where none is read.
    pub protocol: u16,
}

impl Packet<'_> {
    /// Returns the time for a compressor or decompressor.
    pub fn at(&self) -> Duration {
        Duration::from_nanos(self.time_ns)
    }

    /// Returns `true` if bytes at the end are missing.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.len
    }
}

/// Kind of packet that a capture is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// IP packets, of any link layer.
    Ip,
    /// IP packets, of any link layer, with their fragments put together.
    Datagrams,
    /// Every record of a raw IP capture, and the IP packets of any link layer. Copies are kept.
    Network,
    /// The packets of [`Wanted::Network`], without copies.
    Distinct,
    /// ROHC packets, whole records of linktype USER0, or in frames of PPP (RFC 3241).
    Rohc {
        /// Enables large CIDs. PPP has a protocol number for either size.
        has_large_cids: bool,
        /// Records of linktype USER0 are PDUs of PDCP, with sequence numbers of this length.
        pdcp: Option<SnLen>,
    },
    /// Frames of PPP with IP, or headers compressed before ROHC (RFC 1332, 3544).
    Schemes,
    /// Ethernet frames.
    Ethernet,
}
