//! Blocks of extended reports (RFC 3611, section 4).

use crate::bytes::{be16, be32, put16, put32};
use crate::{Error, Layer};

/// Block types (RFC 3611, section 4).
mod block_type {
    pub(super) const RECEIVER_REFERENCE_TIME: u8 = 4;
    pub(super) const DLRR: u8 = 5;
    pub(super) const VOIP_METRICS: u8 = 7;
}

/// Place of the blocks in an extended report.
const BLOCKS_AT: usize = 8;
const HEADER_LEN: usize = 4;
/// Length of the content of a block of VoIP metrics.
const VOIP_METRICS_LEN: usize = 32;
const DLRR_LEN: usize = 12;

/// Value of a metric that is not available (RFC 3611, section 4.7.5).
pub const UNAVAILABLE: u8 = 127;

/// Block of an extended report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Wall clock of a receiver.
    ReceiverReferenceTime {
        /// Seconds since 1900, and their fraction in 2^-32.
        ntp: u64,
    },
    /// Delays since the last reference times of receivers.
    Dlrr(Vec<Dlrr>),
    /// Quality of a call.
    VoipMetrics(VoipMetrics),
    /// Block of another type, or of these types with another length.
    Other {
        /// Block type.
        block_type: u8,
        /// Byte that the type defines.
        specific: u8,
        /// Content in whole words.
        data: Vec<u8>,
    },
}

/// Delay since the last reference time of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dlrr {
    /// Receiver.
    pub ssrc: u32,
    /// Middle 32 bits of its last reference time.
    pub last_report: u32,
    /// Time since that arrived in 2^-16 s.
    pub since_last_report: u32,
}

/// VoIP metrics (RFC 3611, section 4.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoipMetrics {
    /// Source that the metrics are about.
    pub ssrc: u32,
    /// Share of packets lost, in 256ths.
    pub loss_rate: u8,
    /// Share of packets discarded by the playout buffer, in 256ths.
    pub discard_rate: u8,
    /// Share of packets lost or discarded within bursts, in 256ths.
    pub burst_density: u8,
    /// Share of packets lost or discarded within gaps, in 256ths.
    pub gap_density: u8,
    /// Mean duration of bursts in milliseconds.
    pub burst_duration: u16,
    /// Mean duration of gaps in milliseconds.
    pub gap_duration: u16,
    /// Last round trip delay in milliseconds; 0 if it is not known.
    pub round_trip_delay: u16,
    /// Last delay within the end system in milliseconds.
    pub end_system_delay: u16,
    /// Voice level in dBm0; [`UNAVAILABLE`].
    pub signal_level: u8,
    /// Level in pauses in dBm0; [`UNAVAILABLE`].
    pub noise_level: u8,
    /// Residual echo return loss in decibels; [`UNAVAILABLE`].
    pub echo_return_loss: u8,
    /// Packets received that separate bursts.
    pub gmin: u8,
    /// Transmission rating, 0 to 100; [`UNAVAILABLE`].
    pub r_factor: u8,
    /// Rating of the network segment beyond, 0 to 100; [`UNAVAILABLE`].
    pub external_r_factor: u8,
    /// Mean opinion score of listening, ten times; [`UNAVAILABLE`].
    pub mos_lq: u8,
    /// Mean opinion score of conversation, ten times; [`UNAVAILABLE`].
    pub mos_cq: u8,
    /// Concealment, adaptation and rate of the playout buffer (section 4.7.6).
    pub receiver_config: u8,
    /// Nominal delay of the playout buffer in milliseconds.
    pub buffer_nominal: u16,
    /// Maximum delay of the playout buffer in milliseconds.
    pub buffer_maximum: u16,
    /// Maximum delay that the playout buffer can reach, in milliseconds.
    pub buffer_absolute_maximum: u16,
}

/// Reads all blocks of an extended report.
pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<Block>, Error> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let missing = |needed| {
            Error::truncated(Layer::Rtcp, BLOCKS_AT + at, BLOCKS_AT + needed, BLOCKS_AT + bytes.len())
        };
        if rest.len() < HEADER_LEN {
            return Err(missing(at + HEADER_LEN));
        }
        let len = HEADER_LEN + 4 * usize::from(be16(rest, 2));
        let content = rest.get(HEADER_LEN..len).ok_or_else(|| missing(at + len))?;
        blocks.push(Block::parse(rest[0], rest[1], content));
        at += len;
    }
    Ok(blocks)
}

impl Block {
    fn parse(block_type: u8, specific: u8, data: &[u8]) -> Block {
        let is_plain = specific == 0;
        match (block_type, data.len()) {
            (block_type::RECEIVER_REFERENCE_TIME, 8) if is_plain => Block::ReceiverReferenceTime {
                ntp: u64::from(be32(data, 0)) << 32 | u64::from(be32(data, 4)),
            },
            (block_type::DLRR, len) if is_plain && len.is_multiple_of(DLRR_LEN) => {
                Block::Dlrr(data.chunks_exact(DLRR_LEN).map(Dlrr::parse).collect())
            }
            (block_type::VOIP_METRICS, VOIP_METRICS_LEN) if is_plain && data[25] == 0 => {
                Block::VoipMetrics(VoipMetrics::parse(data))
            }
            _ => Block::Other { block_type, specific, data: data.to_vec() },
        }
    }

    /// Returns the length of the block in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN
            + match self {
                Block::ReceiverReferenceTime { .. } => 8,
                Block::Dlrr(list) => DLRR_LEN * list.len(),
                Block::VoipMetrics(_) => VOIP_METRICS_LEN,
                Block::Other { data, .. } => data.len(),
            }
    }

    /// Writes the block.
    ///
    /// # Panics
    /// Panics if `buffer` is shorter than [`Block::buffer_len`], or data is not whole words or too long.
    pub fn emit(&self, buffer: &mut [u8]) {
        let len = self.buffer_len();
        assert!(len.is_multiple_of(4), "a block of an extended report is whole words");
        put16(buffer, 2, u16::try_from(len / 4 - 1).expect("a block has at most 65535 words"));
        let (header, data) = buffer[..len].split_at_mut(HEADER_LEN);
        (header[0], header[1]) = self.emit_data(data);
    }

    /// Writes the content, and returns type and specific byte.
    fn emit_data(&self, data: &mut [u8]) -> (u8, u8) {
        match self {
            Block::ReceiverReferenceTime { ntp } => {
                put32(data, 0, (ntp >> 32) as u32);
                put32(data, 4, *ntp as u32);
                (block_type::RECEIVER_REFERENCE_TIME, 0)
            }
            Block::Dlrr(list) => {
                list.iter().zip(data.chunks_exact_mut(DLRR_LEN)).for_each(|(dlrr, bytes)| dlrr.emit(bytes));
                (block_type::DLRR, 0)
            }
            Block::VoipMetrics(metrics) => {
                metrics.emit(data);
                (block_type::VOIP_METRICS, 0)
            }
            Block::Other { block_type, specific, data: content } => {
                data.copy_from_slice(content);
                (*block_type, *specific)
            }
        }
    }
}

impl Dlrr {
    fn parse(bytes: &[u8]) -> Dlrr {
        Dlrr { ssrc: be32(bytes, 0), last_report: be32(bytes, 4), since_last_report: be32(bytes, 8) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put32(bytes, 0, self.ssrc);
        put32(bytes, 4, self.last_report);
        put32(bytes, 8, self.since_last_report);
    }
}

impl VoipMetrics {
    fn parse(data: &[u8]) -> VoipMetrics {
        VoipMetrics {
            ssrc: be32(data, 0),
            loss_rate: data[4],
            discard_rate: data[5],
            burst_density: data[6],
            gap_density: data[7],
            burst_duration: be16(data, 8),
            gap_duration: be16(data, 10),
            round_trip_delay: be16(data, 12),
            end_system_delay: be16(data, 14),
            signal_level: data[16],
            noise_level: data[17],
            echo_return_loss: data[18],
            gmin: data[19],
            // The bytes from here on: R, external R, two scores; configuration, reserved, three times.
            ..VoipMetrics::parse_quality(data)
        }
    }

    fn parse_quality(data: &[u8]) -> VoipMetrics {
        VoipMetrics {
            r_factor: data[20],
            external_r_factor: data[21],
            mos_lq: data[22],
            mos_cq: data[23],
            receiver_config: data[24],
            buffer_nominal: be16(data, 26),
            buffer_maximum: be16(data, 28),
            buffer_absolute_maximum: be16(data, 30),
            ..VoipMetrics::default()
        }
    }

    fn emit(&self, data: &mut [u8]) {
        put32(data, 0, self.ssrc);
        data[4..8].copy_from_slice(&[
            self.loss_rate,
            self.discard_rate,
            self.burst_density,
            self.gap_density,
        ]);
        put16(data, 8, self.burst_duration);
        put16(data, 10, self.gap_duration);
        put16(data, 12, self.round_trip_delay);
        put16(data, 14, self.end_system_delay);
        data[16..20].copy_from_slice(&[
            self.signal_level,
            self.noise_level,
            self.echo_return_loss,
            self.gmin,
        ]);
        data[20..26].copy_from_slice(&[
            self.r_factor,
            self.external_r_factor,
            self.mos_lq,
            self.mos_cq,
            self.receiver_config,
            0,
        ]);
        put16(data, 26, self.buffer_nominal);
        put16(data, 28, self.buffer_maximum);
        put16(data, 30, self.buffer_absolute_maximum);
    }
}
