//! Results of compressing and decompressing one packet, and counts of them.

use crate::framework::profile::{PacketType, Profile};

/// Counts of what was compressed, of one context or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Octets of the packets.
    pub bytes_in: u64,
    /// Octets of the ROHC packets, without feedback.
    pub bytes_out: u64,
    /// Octets of the headers that were compressed.
    pub header_in: u64,
    /// Octets of the compressed headers.
    pub header_out: u64,
    /// Packets that were IR.
    pub irs: u64,
}

impl FlowStats {
    pub(crate) fn count(&mut self, compressed: &Compressed, len: usize) {
        self.packets += 1;
        self.bytes_in += len as u64;
        self.bytes_out += (len - compressed.header_in + compressed.header_out) as u64;
        self.header_in += compressed.header_in as u64;
        self.header_out += compressed.header_out as u64;
        self.irs += u64::from(compressed.packet_type == PacketType::Ir);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.header_in += other.header_in;
        self.header_out += other.header_out;
        self.irs += other.irs;
    }
}

/// Result of compressing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Context of the packet.
    pub cid: u16,
    /// Profile of the context.
    pub profile: Profile,
    /// The type of the ROHC packet.
    pub packet_type: PacketType,
    /// Octets of the packet that the ROHC header replaces; the others follow unchanged. For Uncompressed 1 or 0: at
    /// most the first octet is moved.
    pub header_in: usize,
    /// Octets of the ROHC header, CID included, feedback in front of it not.
    pub header_out: usize,
}

/// Result of decompressing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decompressed {
    /// The context.
    pub cid: u16,
    /// Profile of the context.
    pub profile: Profile,
    /// The type of the ROHC packet.
    pub packet_type: PacketType,
    /// Octets in front of the payload: padding, feedback, CID and ROHC header. With segmentation those of the
    /// reassembled packet.
    pub header_in: usize,
    /// Octets of the restored header.
    pub header_out: usize,
}

/// Counts of packets decompressed and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecompressorStats {
    /// ROHC packets given.
    pub received: u64,
    /// IP packets restored.
    pub delivered: u64,
    /// ROHC packets that gave an error.
    pub refused: u64,
    /// Failures of which the header CRC did not match.
    pub crc_failures: u64,
    /// Failures of which the transport checksum did not match.
    pub checksum_failures: u64,
    /// Contexts that gave way to those of other flows; see
    /// [`max_contexts`](crate::DecompressorConfig::max_contexts).
    pub displaced: u64,
}
