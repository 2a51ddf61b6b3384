//! What two ends agree on, and what each end may choose.

use alloc::vec::Vec;
use core::time::Duration;

use crate::profile::{Mode, Profiles};

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
    /// The profiles that may be used.
    pub profiles: Profiles,
    /// MRRU, the largest reconstructed unit in bytes, its CRC-32 included; 0: no segmentation.
    pub mrru_bytes: u32,
}

impl Default for Channel {
    /// Small CIDs 0-15, every profile, no segmentation.
    fn default() -> Self {
        Self { cids: CidSpace::Small { max_cid: 15 }, profiles: Profiles::ALL, mrru_bytes: 0 }
    }
}

/// When something is sent again although nothing demands it (RFC 3095 5.3.1.1.2): after so many packets or so long,
/// whichever is first. A zero switches that criterion off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// After so many packets of the context.
    pub packets: u32,
    /// After so long, by the times given to [`compress`](crate::Compressor::compress).
    pub interval: Duration,
}

impl Refresh {
    /// Never.
    pub const NEVER: Self = Self { packets: 0, interval: Duration::ZERO };

    /// After `packets` packets.
    pub const fn every_packets(packets: u32) -> Self {
        Self { packets, interval: Duration::ZERO }
    }

    /// After `interval`.
    pub const fn every(interval: Duration) -> Self {
        Self { packets: 0, interval }
    }
}

/// Which UDP or UDP-Lite packets carry RTP. There is no field that says so.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum RtpRule {
    /// None.
    Never,
    /// Those whose destination port is in the list and whose payload can be RTP version 2.
    Ports(Vec<u16>),
    /// Those that look like RTP: unprivileged ports, an even destination port, version 2 and a payload type of RFC 3551.
    #[default]
    Likely,
    /// Those for which the function says so, among those whose payload can be RTP version 2.
    Custom(fn(&RtpCandidate<'_>) -> bool),
}

/// What an [`RtpRule::Custom`] sees.
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
    pub(crate) fn matches(&self, candidate: &RtpCandidate<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::Ports(ports) => ports.contains(&candidate.destination_port),
            Self::Likely => likely_rtp(candidate),
            Self::Custom(rule) => rule(candidate),
        }
    }
}

fn likely_rtp(candidate: &RtpCandidate<'_>) -> bool {
    let payload_type = candidate.payload[1] & 0x7f;
    candidate.source_port >= 1024
        && candidate.destination_port >= 1024
        && candidate.destination_port.is_multiple_of(2)
        && matches!(payload_type, 0..=34 | 96..=127)
}

/// What the compressor is free to choose.
#[derive(Clone, Debug)]
pub struct CompressorConfig {
    /// The channel.
    pub channel: Channel,
    /// Which UDP packets are RTP.
    pub rtp: RtpRule,
    /// How often a change is sent in U- and O-mode (L of the optimistic approach, RFC 3095 5.3.1.1.1), and how many
    /// references the decompressor may hold; 1 to 16.
    pub repeats: u8,
    /// When a context goes back to IR in U-mode.
    pub ir_refresh: Refresh,
    /// When a context goes back to FO in U-mode: its dynamic part is sent again.
    pub fo_refresh: Refresh,
    /// How many packets in a row a periodic refresh takes in U-mode, 1 to 16. One is enough where losses are rare; librohc
    /// sends as many as of a new flow, [`Self::repeats`]. A slow start sends one at a time all the same.
    pub refresh_repeats: u8,
    /// In U-mode, the packets from one with a CRC of 7 bits to the next where nothing else demands one, up to 32; at the start
    /// of a flow fewer. They confirm what losses put in doubt, and tell again what changed in IP headers. So do four
    /// behind each change. In O-mode, where a NACK brings one, 128 packets come between. In both the compressor also
    /// sends a CRC of 7 bits where the flow itself looks like losses: after a gap in its own sequence numbers and after a
    /// pause. By the first of them a decompressor of this crate learns that it may wait for such a packet. TCP confirms in
    /// U-mode only; there every fourth such packet, or one of 32, is an IR-DYN, which tells all again. 0: none of this.
    pub confirm: u8,
    /// Whether the first IR refreshes come at exponentially growing gaps (1, 2, 4 ... packets) until the period, in packets
    /// or in time, is reached, instead of `repeats` IR packets at once.
    pub slow_start: bool,
    /// Whether the periods of refreshes, in packets and in time, begin at a different phase in every context, so that
    /// contexts set up together do not refresh in unison. With a slow start they do once that is over.
    pub spread_refreshes: bool,
    /// Send either IR packets or type 0 packets, nothing between: what no type 0 packet can carry goes as IR, refreshes of
    /// FO too. In R-mode types 1 and 2 come between all the same.
    pub only_ir_and_so: bool,
    /// Packets longer than this, in bytes, are sent Uncompressed: large packets gain little. 0: no limit.
    pub max_packet_bytes: u32,
    /// Upper bound of the jitter between compressor and decompressor for timer-based RTP timestamps (Max_Jitter_CD,
    /// RFC 3095 4.5.4); zero: not used. Used only once the decompressor has announced its clock (CLOCK option).
    pub timer_jitter: Duration,
    /// Announce a constant IP-ID as such (the SID flag of RFC 3843 3.3) in RTP, UDP and ESP contexts too. RFC 3095 leaves
    /// that bit zero there, but librohc sets and reads it, and so does this decompressor. Without it a constant IP-ID
    /// is sent as a random one, two octets a packet.
    pub constant_id_everywhere: bool,
    /// Context replication for TCP (IR-CR, RFC 6846 5.2); needs feedback to be of use.
    pub replication: bool,
}

impl Default for CompressorConfig {
    /// Default channel, 4 repeats, IR after 1700 and FO after 700 packets (as librohc), a CRC of 7 bits after 8 packets,
    /// likely RTP.
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
            replication: true,
        }
    }
}

/// What the decompressor is free to choose.
#[derive(Clone, Copy, Debug)]
pub struct DecompressorConfig {
    /// The channel.
    pub channel: Channel,
    /// How many contexts are kept besides those of the Uncompressed profile, which take next to nothing. IR packets for
    /// others are restored and forgotten, with a REJECT where there is a way back. 0: as many as there are CIDs.
    pub max_contexts: u16,
    /// The mode that contexts are brought to. In U-mode nothing is sent back.
    pub mode: Mode,
    /// Check the UDP, UDP-Lite or TCP checksum of every packet: one that is wrong is repaired or refused.
    pub verify: bool,
    /// Repair contexts after loss or damage, guided by the CRC (RFC 3095 5.3.2.2.4 and 5.3.2.2.5).
    pub repair: bool,
    /// Context damage is assumed after `.0` CRC failures among the last `.1` packets (k_1 and n_1, RFC 3095
    /// 5.3.2.2.3; `.1` at most 32).
    pub damage_threshold: (u8, u8),
    /// At most one NACK of a kind in so many failing packets of a context (RFC 3095 5.7.6).
    pub nack_spacing_packets: u8,
    /// How often the other end's compressor repeats a change ([`CompressorConfig::repeats`]): fewer losses in a row hide
    /// none. Only `caution` goes by it.
    pub repeats: u8,
    /// How many packets are held back after so many losses in a row that they may hide a change: they, and the next one,
    /// must all be right before one is delivered, or one with a CRC of 7 or 8 bits. A CRC of 3 bits alone lets one wrong
    /// packet in eight pass. Of a compressor that [confirms](CompressorConfig::confirm), as this crate's does, a CRC of 7
    /// or 8 bits is waited for, however small the number. Otherwise contexts whose IR packet had a right UDP, UDP-Lite or
    /// TCP checksum have another witness: after losses, a gap or a pause that checksum must be right, and only counting
    /// IP-IDs, which it does not cover, are waited for. 0: nothing of this, as RFC 3095 has it; 255: only a CRC of 7 or 8
    /// bits will do, in U-mode perhaps the next refresh.
    pub caution: u8,
    /// Whether a gap in the sequence numbers of RTP and ESP, or a pause in RTP, is taken for losses of this channel of
    /// whatever compressor. Off, because there may have been such before the compressor: then these contexts are only
    /// doubted as far as a transport checksum can tell, unless the compressor [confirms](CompressorConfig::confirm), and
    /// so says where it had one itself. Numbers of the other profiles are the compressor's own, their gaps are losses.
    pub gaps_are_losses: bool,
    /// Whether extensions of UO-1-ID packets update nothing but sequence numbers, timestamp and IP-ID, as RFC 4815 6.2
    /// says. librohc's compressor expects that they update everything they carry, so this is off unless it is set;
    /// compressors that send such extensions at all are rare, and this crate's does not.
    pub strict_uo1id: bool,
    /// Whether contexts of the RFC 3095 family tell the compressor the longest run of lost packets (LOSS option) and, with
    /// timer-based timestamps, the largest jitter by the times given (JITTER option, RFC 3095 5.7.6.8), each time it is
    /// a larger one. A compressor then keeps more references, which costs octets. Not in U-mode.
    pub report_path: bool,
    /// The clock resolution that is announced for timer-based RTP timestamps, rounded up to milliseconds; zero: none.
    pub clock_resolution: Duration,
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
            gaps_are_losses: false,
            strict_uo1id: false,
            report_path: false,
            clock_resolution: Duration::ZERO,
        }
    }
}
