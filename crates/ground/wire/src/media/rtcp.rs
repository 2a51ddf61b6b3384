//! RTCP packets (RFC 3550, section 6) and extended reports (RFC 3611), alone or compound.
//!
//! Sender and receiver reports, source descriptions, BYE, and the extended reports that a call has: receiver reference
//! time, DLRR and VoIP metrics. Other packets and blocks, APP among them, are kept as bytes. SRTCP is not parsed.

use crate::bytes::{be16, be32, put16, put32};
use crate::{Error, Layer};

pub mod xr;

pub use xr::{Block, Dlrr, VoipMetrics};

/// Length in bytes of the header of a packet.
pub const HEADER_LEN: usize = 4;
/// Length in bytes of a report block.
pub const REPORT_BLOCK_LEN: usize = 24;
/// Maximum number of report blocks, chunks or sources of a packet.
pub const MAX_COUNT: usize = 31;

/// Packet types (RFC 3550, section 12.1; RFC 3611, section 2).
pub mod packet_type {
    /// Sender report.
    pub const SENDER_REPORT: u8 = 200;
    /// Receiver report.
    pub const RECEIVER_REPORT: u8 = 201;
    /// Source description.
    pub const DESCRIPTION: u8 = 202;
    /// Goodbye.
    pub const BYE: u8 = 203;
    /// Extended report.
    pub const EXTENDED: u8 = 207;
}

/// Item type of a canonical name (RFC 3550, section 6.5.1).
pub const CNAME: u8 = 1;

const VERSION: u8 = 2;
const PADDING: u8 = 0x20;
/// Length of NTP and RTP time stamps and counts of a sender.
const SENDER_INFO_LEN: usize = 20;

/// Sender's part of a sender report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// Wall clock: seconds since 1900, and their fraction in 2^-32.
    pub ntp: u64,
    /// The same instant in units of the RTP clock.
    pub rtp_timestamp: u32,
    /// RTP packets sent.
    pub packets: u32,
    /// Payload bytes sent.
    pub octets: u32,
}

/// Reception of one source (RFC 3550, section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// Source that the report is about.
    pub ssrc: u32,
    /// Share of packets lost since the last report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost since the start, 24 bits with a sign. Duplicates lower it.
    pub cumulative_lost: i32,
    /// Highest sequence number, and the number of its cycles in the upper half.
    pub highest_seq: u32,
    /// Interarrival jitter in units of the RTP clock.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time of the last sender report; 0 without one.
    pub last_report: u32,
    /// Time since that report in 2^-16 s.
    pub since_last_report: u32,
}

/// Description of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Source.
    pub ssrc: u32,
    /// Type and text of each item. Types are not zero, and texts have at most 255 bytes.
    pub items: Vec<(u8, Vec<u8>)>,
}

/// RTCP packet as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Report of a source that has sent.
    SenderReport {
        /// Source that sends the report.
        ssrc: u32,
        /// Transmission of that source.
        info: SenderInfo,
        /// Reception of other sources.
        blocks: Vec<ReportBlock>,
        /// Extension of a profile, in whole words.
        extension: Vec<u8>,
    },
    /// Report of a source that has not sent.
    ReceiverReport {
        /// Source that sends the report.
        ssrc: u32,
        /// Reception of other sources.
        blocks: Vec<ReportBlock>,
        /// Extension of a profile, in whole words.
        extension: Vec<u8>,
    },
    /// Descriptions of sources.
    Description(Vec<Chunk>),
    /// Sources that leave.
    Bye {
        /// Sources.
        sources: Vec<u32>,
        /// Reason, if one is given; at most 255 bytes.
        reason: Option<Vec<u8>>,
    },
    /// Extended report.
    Extended {
        /// Source that sends the report.
        ssrc: u32,
        /// Blocks of the report.
        blocks: Vec<Block>,
    },
    /// Packet of another type.
    Other {
        /// Packet type.
        packet_type: u8,
        /// Count or subtype, five bits.
        count: u8,
        /// Content in whole words.
        body: Vec<u8>,
    },
}

/// Packet whose length is checked: its header's fields and its content without padding.
struct Frame<'a> {
    packet_type: u8,
    count: u8,
    has_padding: bool,
    body: &'a [u8],
    len: usize,
}

impl<'a> Frame<'a> {
    fn new(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        need(bytes, 0, HEADER_LEN)?;
        if bytes[0] >> 6 != VERSION {
            return Err(malformed(0, "version is not 2"));
        }
        let len = 4 * (usize::from(be16(bytes, 2)) + 1);
        need(bytes, 2, len)?;
        let has_padding = bytes[0] & PADDING != 0;
        let body = without_padding(&bytes[HEADER_LEN..len], has_padding)?;
        Ok(Frame { packet_type: bytes[1], count: bytes[0] & 0x1f, has_padding, body, len })
    }
}

fn without_padding(body: &[u8], has_padding: bool) -> Result<&[u8], Error> {
    if !has_padding {
        return Ok(body);
    }
    let padding = usize::from(body.last().copied().unwrap_or(0));
    match body.len().checked_sub(padding) {
        Some(len) if padding > 0 && padding.is_multiple_of(4) => Ok(&body[..len]),
        _ => Err(malformed(HEADER_LEN + body.len(), "padding length")),
    }
}

fn need(bytes: &[u8], offset: usize, needed: usize) -> Result<(), Error> {
    match bytes.len() {
        have if have < needed => Err(Error::truncated(Layer::Rtcp, offset, needed, have)),
        _ => Ok(()),
    }
}

const fn malformed(offset: usize, problem: &'static str) -> Error {
    Error::malformed(Layer::Rtcp, offset, problem)
}

/// Returns `true` if a payload is RTCP, not RTP (RFC 5761, section 4).
pub fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes[0] >> 6 == VERSION && (192..=223).contains(&bytes[1])
}

/// Reads all packets of a compound packet.
///
/// # Errors
/// Returns an error if a packet is malformed, the first one is not an unpadded report, or one before the last has padding
/// (RFC 3550, appendix A.2).
pub fn parse_compound(bytes: &[u8]) -> Result<Vec<Repr>, Error> {
    let (mut packets, mut at, mut was_padded) = (Vec::new(), 0, false);
    while at < bytes.len() || packets.is_empty() {
        let frame = Frame::new(&bytes[at..]).map_err(|error| shifted(error, at))?;
        let is_report =
            matches!(frame.packet_type, packet_type::SENDER_REPORT | packet_type::RECEIVER_REPORT);
        if packets.is_empty() && (!is_report || frame.has_padding) {
            return Err(malformed(1, "first packet is not an unpadded report"));
        }
        if was_padded {
            return Err(malformed(at, "packet after one with padding"));
        }
        packets.push(Repr::of(&frame).map_err(|error| shifted(error, at))?);
        (at, was_padded) = (at + frame.len, frame.has_padding);
    }
    Ok(packets)
}

/// Returns an error of a packet with its place in the compound packet.
const fn shifted(error: Error, by: usize) -> Error {
    Error { offset: error.offset + by, ..error }
}

/// Returns the length of several packets in bytes.
pub fn compound_len(packets: &[Repr]) -> usize {
    packets.iter().map(Repr::buffer_len).sum()
}

/// Writes several packets one after the other.
///
/// # Panics
/// Panics like [`Repr::emit`].
pub fn emit_compound(packets: &[Repr], mut buffer: &mut [u8]) {
    for packet in packets {
        let (own, rest) = buffer.split_at_mut(packet.buffer_len());
        packet.emit(own);
        buffer = rest;
    }
}

impl Repr {
    /// Reads the packet at the start of `bytes`, and returns it with its length.
    ///
    /// # Errors
    /// Returns an error if it is truncated or malformed.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, usize), Error> {
        let frame = Frame::new(bytes)?;
        Ok((Repr::of(&frame)?, frame.len))
    }

    fn of(frame: &Frame<'_>) -> Result<Repr, Error> {
        let (body, count) = (frame.body, usize::from(frame.count));
        match frame.packet_type {
            packet_type::SENDER_REPORT => parse_sender_report(body, count),
            packet_type::RECEIVER_REPORT => {
                let ssrc = word(body, 0)?;
                let (blocks, extension) = parse_blocks(&body[4..], 8, count)?;
                Ok(Repr::ReceiverReport { ssrc, blocks, extension })
            }
            packet_type::DESCRIPTION => parse_chunks(body, count).map(Repr::Description),
            packet_type::BYE => parse_bye(body, count),
            packet_type::EXTENDED => {
                Ok(Repr::Extended { ssrc: word(body, 0)?, blocks: xr::parse_all(&body[4..])? })
            }
            packet_type => Ok(Repr::Other { packet_type, count: frame.count, body: body.to_vec() }),
        }
    }

    /// Returns the length of the packet in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.body_len()
    }

    fn body_len(&self) -> usize {
        match self {
            Repr::SenderReport { blocks, extension, .. } => {
                4 + SENDER_INFO_LEN + REPORT_BLOCK_LEN * blocks.len() + extension.len()
            }
            Repr::ReceiverReport { blocks, extension, .. } => {
                4 + REPORT_BLOCK_LEN * blocks.len() + extension.len()
            }
            Repr::Description(chunks) => chunks.iter().map(Chunk::len).sum(),
            Repr::Bye { sources, reason } => {
                let reason = reason.as_ref().map_or(0, |reason| 1 + reason.len());
                4 * sources.len() + reason.next_multiple_of(4)
            }
            Repr::Extended { blocks, .. } => 4 + blocks.iter().map(Block::buffer_len).sum::<usize>(),
            Repr::Other { body, .. } => body.len(),
        }
    }

    /// Writes the packet without padding.
    ///
    /// # Panics
    /// Panics if `buffer` is shorter than [`Repr::buffer_len`], or a count, text or length does not fit its field.
    pub fn emit(&self, buffer: &mut [u8]) {
        let len = self.buffer_len();
        let words = u16::try_from(len / 4 - 1).expect("an RTCP packet has at most 65536 words");
        assert!(len.is_multiple_of(4), "an RTCP packet is whole words");
        let (packet_type, count) = self.type_and_count();
        assert!(count <= MAX_COUNT, "an RTCP packet counts to 31");
        buffer[0] = VERSION << 6 | count as u8;
        buffer[1] = packet_type;
        put16(buffer, 2, words);
        self.emit_body(&mut buffer[HEADER_LEN..len]);
    }

    fn type_and_count(&self) -> (u8, usize) {
        match self {
            Repr::SenderReport { blocks, .. } => (packet_type::SENDER_REPORT, blocks.len()),
            Repr::ReceiverReport { blocks, .. } => (packet_type::RECEIVER_REPORT, blocks.len()),
            Repr::Description(chunks) => (packet_type::DESCRIPTION, chunks.len()),
            Repr::Bye { sources, .. } => (packet_type::BYE, sources.len()),
            Repr::Extended { .. } => (packet_type::EXTENDED, 0),
            Repr::Other { packet_type, count, .. } => (*packet_type, usize::from(*count)),
        }
    }

    fn emit_body(&self, body: &mut [u8]) {
        match self {
            Repr::SenderReport { ssrc, info, blocks, extension } => {
                put32(body, 0, *ssrc);
                info.emit(&mut body[4..]);
                emit_blocks(blocks, extension, &mut body[4 + SENDER_INFO_LEN..]);
            }
            Repr::ReceiverReport { ssrc, blocks, extension } => {
                put32(body, 0, *ssrc);
                emit_blocks(blocks, extension, &mut body[4..]);
            }
            Repr::Description(chunks) => {
                let mut at = 0;
                for chunk in chunks {
                    chunk.emit(&mut body[at..at + chunk.len()]);
                    at += chunk.len();
                }
            }
            Repr::Bye { sources, reason } => emit_bye(sources, reason.as_deref(), body),
            Repr::Extended { ssrc, blocks } => {
                put32(body, 0, *ssrc);
                let mut at = 4;
                for block in blocks {
                    block.emit(&mut body[at..at + block.buffer_len()]);
                    at += block.buffer_len();
                }
            }
            Repr::Other { body: content, .. } => body.copy_from_slice(content),
        }
    }
}

/// Returns the word at an offset in the content of a packet.
fn word(body: &[u8], at: usize) -> Result<u32, Error> {
    let needed = HEADER_LEN + at + 4;
    match body.get(at..at + 4) {
        Some(_) => Ok(be32(body, at)),
        None => Err(Error::truncated(Layer::Rtcp, HEADER_LEN + at, needed, HEADER_LEN + body.len())),
    }
}

fn parse_sender_report(body: &[u8], count: usize) -> Result<Repr, Error> {
    let ssrc = word(body, 0)?;
    word(body, SENDER_INFO_LEN)?;
    let info = SenderInfo {
        ntp: u64::from(be32(body, 4)) << 32 | u64::from(be32(body, 8)),
        rtp_timestamp: be32(body, 12),
        packets: be32(body, 16),
        octets: be32(body, 20),
    };
    let start = 4 + SENDER_INFO_LEN;
    let (blocks, extension) = parse_blocks(&body[start..], HEADER_LEN + start, count)?;
    Ok(Repr::SenderReport { ssrc, info, blocks, extension })
}

impl SenderInfo {
    fn emit(&self, buffer: &mut [u8]) {
        put32(buffer, 0, (self.ntp >> 32) as u32);
        put32(buffer, 4, self.ntp as u32);
        put32(buffer, 8, self.rtp_timestamp);
        put32(buffer, 12, self.packets);
        put32(buffer, 16, self.octets);
    }
}

/// Reads `count` report blocks, and the extension after them. `at` is their place in the packet.
fn parse_blocks(bytes: &[u8], at: usize, count: usize) -> Result<(Vec<ReportBlock>, Vec<u8>), Error> {
    let len = count * REPORT_BLOCK_LEN;
    if bytes.len() < len {
        return Err(Error::truncated(Layer::Rtcp, at, at + len, at + bytes.len()));
    }
    let (blocks, extension) = bytes.split_at(len);
    Ok((blocks.chunks_exact(REPORT_BLOCK_LEN).map(ReportBlock::parse).collect(), extension.to_vec()))
}

fn emit_blocks(blocks: &[ReportBlock], extension: &[u8], buffer: &mut [u8]) {
    let (own, rest) = buffer.split_at_mut(REPORT_BLOCK_LEN * blocks.len());
    for (block, bytes) in blocks.iter().zip(own.chunks_exact_mut(REPORT_BLOCK_LEN)) {
        block.emit(bytes);
    }
    rest.copy_from_slice(extension);
}

impl ReportBlock {
    fn parse(bytes: &[u8]) -> ReportBlock {
        let lost = be32(bytes, 4);
        ReportBlock {
            ssrc: be32(bytes, 0),
            fraction_lost: (lost >> 24) as u8,
            cumulative_lost: ((lost << 8) as i32) >> 8,
            highest_seq: be32(bytes, 8),
            jitter: be32(bytes, 12),
            last_report: be32(bytes, 16),
            since_last_report: be32(bytes, 20),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        // A total that does not fit is sent as the nearest that does (RFC 3550, appendix A.3).
        let lost = self.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
        put32(bytes, 0, self.ssrc);
        put32(bytes, 4, u32::from(self.fraction_lost) << 24 | lost);
        put32(bytes, 8, self.highest_seq);
        put32(bytes, 12, self.jitter);
        put32(bytes, 16, self.last_report);
        put32(bytes, 20, self.since_last_report);
    }
}

impl Chunk {
    /// Returns the length in bytes, with the null bytes at the end.
    fn len(&self) -> usize {
        let items: usize = self.items.iter().map(|(_, text)| 2 + text.len()).sum();
        (4 + items + 1).next_multiple_of(4)
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        put32(bytes, 0, self.ssrc);
        let mut at = 4;
        for (kind, text) in &self.items {
            assert!(*kind != 0, "an item of type 0 ends a chunk");
            bytes[at] = *kind;
            bytes[at + 1] = u8::try_from(text.len()).expect("an item has at most 255 bytes");
            bytes[at + 2..at + 2 + text.len()].copy_from_slice(text);
            at += 2 + text.len();
        }
    }
}

fn parse_chunks(body: &[u8], count: usize) -> Result<Vec<Chunk>, Error> {
    let (mut chunks, mut at) = (Vec::new(), 0);
    for _ in 0..count {
        let ssrc = word(body, at)?;
        let (items, end) = parse_items(body, at + 4)?;
        chunks.push(Chunk { ssrc, items });
        at = end;
    }
    Ok(chunks)
}

/// Type and text of each item.
type Items = Vec<(u8, Vec<u8>)>;

/// Reads items up to the null byte. Returns them, and the start of the next word.
fn parse_items(body: &[u8], mut at: usize) -> Result<(Items, usize), Error> {
    let mut items = Vec::new();
    let missing = |at: usize, needed: usize| {
        Error::truncated(Layer::Rtcp, HEADER_LEN + at, HEADER_LEN + needed, HEADER_LEN + body.len())
    };
    loop {
        match body.get(at) {
            None => return Err(missing(at, at + 1)),
            Some(0) => return Ok((items, (at + 1).next_multiple_of(4).min(body.len()))),
            Some(kind) => {
                let len = usize::from(*body.get(at + 1).ok_or_else(|| missing(at, at + 2))?);
                let text = body.get(at + 2..at + 2 + len).ok_or_else(|| missing(at, at + 2 + len))?;
                items.push((*kind, text.to_vec()));
                at += 2 + len;
            }
        }
    }
}

fn parse_bye(body: &[u8], count: usize) -> Result<Repr, Error> {
    let sources = (0..count).map(|n| word(body, 4 * n)).collect::<Result<_, _>>()?;
    let rest = &body[4 * count..];
    let reason = match rest.split_first() {
        None => None,
        Some((len, text)) => {
            let len = usize::from(*len);
            let (at, have) = (HEADER_LEN + 4 * count, HEADER_LEN + body.len());
            let text = text.get(..len).ok_or(Error::truncated(Layer::Rtcp, at, at + 1 + len, have))?;
            Some(text.to_vec())
        }
    };
    Ok(Repr::Bye { sources, reason })
}

fn emit_bye(sources: &[u32], reason: Option<&[u8]>, body: &mut [u8]) {
    body.fill(0);
    sources.iter().enumerate().for_each(|(n, source)| put32(body, 4 * n, *source));
    if let Some(reason) = reason {
        let at = 4 * sources.len();
        body[at] = u8::try_from(reason.len()).expect("a reason has at most 255 bytes");
        body[at + 1..at + 1 + reason.len()].copy_from_slice(reason);
    }
}

#[cfg(test)]
mod tests;
