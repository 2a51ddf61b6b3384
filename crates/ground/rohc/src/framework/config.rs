//! Channel parameters and per-endpoint configuration.

use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::framework::profile::{Mode, Profiles};

/// The CID space of a channel (LARGE_CIDS and MAX_CID, RFC 3095 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidSpace {
    /// CID 0 takes no octet, the others one; `max_cid` at most 15.
    Small {
        /// MAX_CID.
        max_cid: u8,
    },
    /// Every CID takes one octet (up to 127) or two; `max_cid` at most 16383.
    Large {
        /// MAX_CID.
        max_cid: u16,
    },
}

impl CidSpace {
    /// Small CIDs, as many as there can be (RFC 3095 5.1.3).
    pub const SMALL: Self = Self::Small { max_cid: 15 };
    /// Large CIDs, as many as there can be (RFC 3095 5.1.3).
    pub const LARGE: Self = Self::Large { max_cid: 16_383 };

    /// The highest CID, after the limit of the space.
    pub const fn max_cid(self) -> u16 {
        match self {
            Self::Small { max_cid } if max_cid < 15 => max_cid as u16,
            Self::Small { .. } => 15,
            Self::Large { max_cid } if max_cid < 16_383 => max_cid,
            Self::Large { .. } => 16_383,
        }
    }

    pub(crate) const fn is_large(self) -> bool {
        matches!(self, Self::Large { .. })
    }
}

/// The parameters of a channel: both ends must have the same (RFC 3095 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The CID space.
    pub cids: CidSpace,
    /// The profiles that may be used; of one with two versions, the second is.
    pub profiles: Profiles,
    /// MRRU, the largest reconstructed unit in bytes, its CRC-32 included; 0: no segmentation.
    pub mrru_bytes: u32,
}

impl Default for Channel {
    /// Small CIDs 0-15, every profile of version 1, no segmentation.
    fn default() -> Self {
        Self { cids: CidSpace::Small { max_cid: 15 }, profiles: Profiles::V1, mrru_bytes: 0 }
    }
}

/// Period of a refresh (RFC 3095 5.3.1.1.2), in packets or time, whichever is first. A zero switches that criterion
/// off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Number of packets of the context.
    pub packets: u32,
    /// Time between refreshes, by the times given to [`compress`](crate::Compressor::compress).
    pub interval: Duration,
}

impl Refresh {
    /// Never.
    pub const NEVER: Self = Self { packets: 0, interval: Duration::ZERO };

    /// Creates a refresh after `packets` packets.
    pub const fn every_packets(packets: u32) -> Self {
        Self { packets, interval: Duration::ZERO }
    }

    /// Creates a refresh after `interval`.
    pub const fn every(interval: Duration) -> Self {
        Self { packets: 0, interval }
    }
}

/// Rule for UDP or UDP-Lite packets that carry RTP, which no field indicates.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum RtpRule {
    /// No packets.
    Never,
    /// Destination ports in the list, if the payload can be RTP version 2.
    Ports(Vec<u16>),
    /// Packets that look like RTP. They have unprivileged ports, an even destination port, version 2 and a payload
    /// type of RFC 3551.
    #[default]
    Likely,
    /// Packets that meet one of the conditions, if the payload can be RTP version 2.
    Matching(Vec<RtpMatch>),
    /// Packets that the function accepts, if the payload can be RTP version 2.
    Custom(fn(&RtpCandidate<'_>) -> bool),
}

/// Condition on UDP packets that carry RTP. Every part that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtpMatch {
    /// Source ports.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub destination_ports: Option<RangeInclusive<u16>>,
    /// Payload types (RFC 3551).
    pub payload_types: Option<RangeInclusive<u8>>,
}

impl RtpMatch {
    fn holds(&self, candidate: &RtpCandidate<'_>) -> bool {
        let is_port = |ports: &Option<RangeInclusive<u16>>, port| {
            ports.as_ref().is_none_or(|ports| ports.contains(&port))
        };
        is_port(&self.source_ports, candidate.source_port)
            && is_port(&self.destination_ports, candidate.destination_port)
            && self.payload_types.as_ref().is_none_or(|types| types.contains(&(candidate.payload[1] & 0x7f)))
    }
}

/// Packet given to an [`RtpRule::Custom`].
#[derive(Clone, Copy, Debug)]
pub struct RtpCandidate<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// The UDP payload, as far as it was given; at least 12 octets.
    pub payload: &'a [u8],
}

impl RtpRule {
    #[inline]
    pub(crate) fn matches(&self, candidate: &RtpCandidate<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::Ports(ports) => ports.contains(&candidate.destination_port),
            Self::Likely => likely_rtp(candidate),
            Self::Matching(conditions) => conditions.iter().any(|condition| condition.holds(candidate)),
            Self::Custom(rule) => rule(candidate),
        }
    }
}

#[inline]
fn likely_rtp(candidate: &RtpCandidate<'_>) -> bool {
    let payload_type = candidate.payload[1] & 0x7f;
    candidate.source_port >= 1024
        && candidate.destination_port >= 1024
        && candidate.destination_port.is_multiple_of(2)
        && matches!(payload_type, 0..=34 | 96..=127)
}

/// Implementation of the decompressor at the other end, whose gaps a compressor avoids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compatibility {
    /// Any that follows the RFCs.
    #[default]
    Standard,
    /// librohc (<https://rohc-lib.org>). Headers that its decompressor refuses go through another profile: extension headers,
    /// GRE, AH and a third IP header as payload of IP, RTP with CSRCs as UDP, UDP-Lite as IP. IR packets of RTP always have
    /// the timestamp stride, a sequence number that wraps goes as IR-DYN, unknown TCP options are never static items, and
    /// TCP over IPv6 is not replicated.
    Librohc,
}

/// Search for the context of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// Index by a hash of the static fields. The cost does not grow with the number of contexts.
    #[default]
    Hashed,
    /// Comparison with one context after the other, for measurements. The packets sent are the same.
    Linear,
}

/// Share of the interval of sequence numbers for late packets (`reorder_ratio`, RFC 5225 6.3.2).
///
/// A header with k bits of the number is understood up to [`depth`](Self::depth) packets late, and as far ahead as that leaves of 2^k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReorderRatio {
    /// A single packet.
    #[default]
    None = 0,
    /// A quarter.
    Quarter = 1,
    /// Half.
    Half = 2,
    /// Three quarters.
    ThreeQuarters = 3,
}

impl ReorderRatio {
    /// Returns how many packets late a header with `bits` bits may be.
    pub const fn depth(self, bits: u32) -> u32 {
        let quarter = (1u32 << if bits > 30 { 30 } else { bits }) / 4;
        match self {
            Self::None => 1,
            _ => quarter * self as u32 - 1,
        }
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Quarter,
            2 => Self::Half,
            _ => Self::ThreeQuarters,
        }
    }
}

/// Compressor configuration.
#[derive(Clone, Debug)]
pub struct CompressorConfig {
    /// The channel.
    pub channel: Channel,
    /// Rule for UDP packets that are RTP.
    pub rtp: RtpRule,
    /// Number of packets that carry a change in U- and O-mode, 1 to 16. It is L of the optimistic approach (RFC 3095
    /// 5.3.1.1.1), and the number of references that the decompressor may hold.
    pub repeats: u8,
    /// Period of IR refreshes in U-mode.
    pub ir_refresh: Refresh,
    /// Period of FO refreshes in U-mode: the dynamic part is sent again.
    pub fo_refresh: Refresh,
    /// Consecutive packets of a periodic refresh in U-mode, 1 to 16. One is enough where losses are rare; librohc
    /// sends as many as of a new flow, [`Self::repeats`]. A slow start sends one at a time all the same.
    pub refresh_repeats: u8,
    /// Maximum number of packets between two with CRC-7 in U-mode, up to 32. At the start of a flow they are fewer.
    /// Packets with CRC-7 confirm the context after losses, and resend what changed in IP headers. So do four behind
    /// each change. In O-mode, where a NACK brings one, 128 packets come between. In both the compressor also sends a
    /// CRC-7 where the flow itself looks like losses: after a gap in its own sequence numbers and after a pause. A
    /// decompressor waits for such packets if it is configured to ([`DecompressorConfig::peer_confirms`]). TCP
    /// confirms in U-mode only; there every fourth such packet, or one of 32, is an IR-DYN, which sends all values
    /// again. 0: none of this.
    pub confirm: u8,
    /// Enables first IR refreshes at growing gaps (1, 2, 4 ... packets). They replace the `repeats` IR packets at the
    /// start, until the period is reached.
    pub slow_start: bool,
    /// Enables a different phase of refresh periods in every context. Contexts set up together then do not refresh in
    /// unison. With a slow start they do once that is over.
    pub spread_refreshes: bool,
    /// Restricts packets to IR and type 0. Changes that type 0 cannot carry go as IR, refreshes of FO too. In R-mode
    /// types 1 and 2 come between all the same.
    pub only_ir_and_so: bool,
    /// Maximum length of a compressed packet in bytes; longer ones go Uncompressed. 0: no limit.
    pub max_packet_bytes: u32,
    /// Maximum path jitter for timer-based RTP timestamps (Max_Jitter_CD, RFC 3095 4.5.4). Zero: not used. Used only
    /// once the decompressor has announced its clock (CLOCK option).
    pub timer_jitter: Duration,
    /// Announces constant IP-IDs (SID, RFC 3843 3.3) in RTP, UDP and ESP contexts. RFC 3095 leaves that bit zero
    /// there, but librohc sets and reads it, and so does this decompressor. Without it a constant IP-ID is sent as a
    /// random one, two octets a packet.
    pub constant_id_everywhere: bool,
    /// Reordering on the channel that profiles of version 2 allow for. A change is sent as many packets longer as
    /// the shortest header may be late, as packets before it may come behind it.
    pub reorder: ReorderRatio,
    /// Context replication for TCP (IR-CR, RFC 6846 5.2); needs feedback to be of use.
    pub replication: bool,
    /// Implementation of the decompressor.
    pub compatibility: Compatibility,
    /// Search for the context of a packet.
    pub lookup: Lookup,
}

impl CompressorConfig {
    /// Returns `true` if the compressor confirms ([`Self::confirm`]), as [`DecompressorConfig::peer_confirms`] states.
    pub const fn confirms(&self) -> bool {
        self.confirm > 0 && !self.only_ir_and_so
    }

    /// Returns `true` if the decompressor is librohc's.
    pub(crate) fn is_for_librohc(&self) -> bool {
        self.compatibility == Compatibility::Librohc
    }
}

impl Default for CompressorConfig {
    /// Default channel, 4 repeats, CRC-7 every 8 packets, likely RTP. IR after 1700 and FO after 700 packets, as
    /// librohc.
    fn default() -> Self {
        Self {
            channel: Channel::default(),
            rtp: RtpRule::default(),
            repeats: 4,
            ir_refresh: Refresh::every_packets(1700),
            fo_refresh: Refresh::every_packets(700),
            refresh_repeats: 1,
            confirm: 8,
            slow_start: false,
            spread_refreshes: false,
            only_ir_and_so: false,
            max_packet_bytes: 0,
            timer_jitter: Duration::ZERO,
            constant_id_everywhere: true,
            reorder: ReorderRatio::None,
            replication: true,
            compatibility: Compatibility::Standard,
            lookup: Lookup::Hashed,
        }
    }
}

/// Decompressor configuration.
#[derive(Clone, Copy, Debug)]
pub struct DecompressorConfig {
    /// The channel.
    pub channel: Channel,
    /// Maximum number of contexts, those of the Uncompressed profile not counted. Beyond it the context that has been
    /// unused for longest gives way: always in U-mode, and in the others once four packets a context have passed by.
    /// Where none gives way, the IR packet is restored and forgotten, and REJECT is sent. 0: as many as there are CIDs.
    pub max_contexts: u16,
    /// The mode that contexts are brought to. In U-mode nothing is sent back.
    pub mode: Mode,
    /// Enables verification of transport checksums: packets with a wrong one are repaired or refused.
    pub verify: bool,
    /// Repair contexts after loss or damage, guided by the CRC (RFC 3095 5.3.2.2.4 and 5.3.2.2.5).
    pub repair: bool,
    /// Context damage threshold: `.0` CRC failures among the last `.1` packets. These are k_1 and n_1 of RFC 3095
    /// 5.3.2.2.3; `.1` is at most 32.
    pub damage_threshold: (u8, u8),
    /// Minimum number of failing packets between NACKs of a context (RFC 3095 5.7.6).
    pub nack_spacing_packets: u8,
    /// Repeats of a change by the compressor ([`CompressorConfig::repeats`]): fewer losses in a row hide
    /// none. Only `caution` goes by it.
    pub repeats: u8,
    /// Number of packets held back after losses that may hide a change. They and the next one must all be right
    /// before one is delivered, or one with CRC-7 or CRC-8. A CRC-3 alone lets one wrong packet in eight pass. With
    /// [`Self::peer_confirms`] a CRC of 7 or 8 bits is waited for, however small the number. Otherwise contexts whose
    /// IR packet had a right UDP, UDP-Lite or TCP checksum have another evidence: after losses, a gap or a pause that
    /// checksum must be right, and only counting IP-IDs, which it does not cover, are waited for. 0: nothing of this,
    /// as RFC 3095 has it; 255: only a CRC of 7 or 8 bits will do, in U-mode perhaps the next refresh.
    pub caution: u8,
    /// Set if the compressor confirms ([`CompressorConfig::confirms`]). Gaps in RTP's and ESP's numbers and pauses in RTP
    /// then count as losses of this channel, as the compressor marks those it had itself, and CRC-3 packets after losses
    /// wait for CRC-7. Never set this for another compressor: packets would be held back for a CRC-7 that it does not
    /// send.
    pub peer_confirms: bool,
    /// Treats gaps in RTP and ESP numbers, and RTP pauses, as losses of this channel. Off, because there may have
    /// been such before the compressor: then these contexts are only doubted as far as a transport checksum shows,
    /// except with [`Self::peer_confirms`]. Numbers of the other profiles are the compressor's own, their gaps are
    /// losses.
    pub gaps_are_losses: bool,
    /// Restricts updates by UO-1-ID extensions to numbers, timestamp and IP-ID (RFC 4815 6.2). Default: off. The
    /// compressor of librohc expects that they update everything they carry, so this is off unless it is set;
    /// compressors that send such extensions at all are rare, and this crate's does not.
    pub strict_uo1id: bool,
    /// Enables reports of longest loss (LOSS) and largest jitter (JITTER, RFC 3095 5.7.6.8). Contexts of the RFC 3095
    /// family send them whenever a value grows; jitter needs timer-based timestamps. A compressor then keeps more
    /// references, which costs octets. Not in U-mode.
    pub report_path: bool,
    /// Clock resolution to announce for timer-based RTP timestamps, rounded up to milliseconds. Zero: none.
    pub clock_resolution: Duration,
}

impl DecompressorConfig {
    /// Returns the number of packets held back after losses. At 255 they wait for CRC-7 or CRC-8.
    pub(crate) const fn held_back_packets(&self) -> u8 {
        if self.peer_confirms && self.caution > 0 { u8::MAX } else { self.caution }
    }
}

impl Default for DecompressorConfig {
    /// Default channel, U-mode, repair on, verification off, two packets of caution.
    fn default() -> Self {
        Self {
            channel: Channel::default(),
            max_contexts: 0,
            mode: Mode::Unidirectional,
            verify: false,
            repair: true,
            damage_threshold: (3, 8),
            nack_spacing_packets: 4,
            repeats: 4,
            caution: 2,
            peer_confirms: false,
            gaps_are_losses: false,
            strict_uo1id: false,
            report_path: false,
            clock_resolution: Duration::ZERO,
        }
    }
}
