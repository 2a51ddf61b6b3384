//! The decompressor of the RFC 3095 family.
//!
//! A compressed header is parsed, its values are decoded against the context into a [`Candidate`], the header is
//! rendered, and its CRC decides: only then is the context changed. Repair (5.3.2.2.4 and 5.3.2.2.5) is the same with
//! another reference.

mod chain;
mod commit;
mod evidence;
mod fields;
mod render;
mod state;
mod steady;

use alloc::boxed::Box;
use alloc::vec::Vec;

use self::evidence::Verification;
use self::state::{Feedbacker, State};
use self::steady::Steady;
use super::changes::Changes;
use super::compressed::{self, Compact, CrcKind, Shape};
use super::header::{self, IpChanging, IpStatic, Numbering, timer_p, ts_p};
use super::list::{Lists, NO_LISTS};
use super::report::Report;
use crate::framework::arrival::{ArrivalTiming, ChecksumEvidence};
use crate::framework::checksum;
use crate::framework::context::{Output, Restored};
use crate::framework::crc::{CRC3, CRC7};
use crate::framework::error::DecompressError;
use crate::framework::fingerprint::Fingerprint;
use crate::framework::lsb;
use crate::framework::octets::Reader;
use crate::framework::packet::{Level, MAX_LEVELS};
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::profiles::rfc3095::Input;

/// The values that the next header is decoded against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) sn: u32,
    /// Outer and inner IP header; a single one is the inner.
    pub(crate) ip: [IpChanging; 2],
    pub(crate) rtp: RtpValues,
    /// Set if UDP checksums are sent, from the last IR or IR-DYN (RFC 3095 5.7).
    pub(crate) checksum: bool,
    pub(crate) coverage: Coverage,
}

/// Values of the RTP header and of its timestamp's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpValues {
    /// The version: 2, but librohc lets it vary.
    pub(crate) version: u8,
    pub(crate) padding: bool,
    pub(crate) extension: bool,
    pub(crate) payload_type: u8,
    pub(crate) ts: u32,
    pub(crate) stride: u32,
    /// TIME_STRIDE in milliseconds; 0: no timer-based encoding.
    pub(crate) time_stride_ms: u32,
}

/// The checksum coverage of UDP-Lite (RFC 4019 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) value: u16,
    /// CFP: sent in every packet.
    pub(crate) present: bool,
    /// CFI: equal to the length.
    pub(crate) inferred: bool,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            sn: 0,
            ip: [IpChanging::default(); 2],
            rtp: RtpValues {
                version: 2,
                padding: false,
                extension: false,
                payload_type: 0,
                ts: 0,
                stride: 1,
                time_stride_ms: 0,
            },
            checksum: false,
            coverage: Coverage::default(),
        }
    }
}

/// Decoded values of a packet, not yet verified.
pub(crate) struct Candidate {
    pub(crate) values: Values,
    pub(crate) marker: bool,
    /// Checksum of UDP or UDP-Lite.
    pub(crate) checksum: u16,
    pub(crate) changes: Option<Box<Changes>>,
    /// The Mode field, if there was one.
    pub(crate) mode: Option<u8>,
    /// CRC-3 and CRC-7 after the static octets, if nothing static changed.
    pub(crate) static_crcs: Option<(u8, u8)>,
    /// Evidence of the transport checksum after this packet.
    pub(crate) evidence: ChecksumEvidence,
    /// Bits of RTP's first octet that RFC 4815 clears and other compressors keep.
    pub(crate) kept_bits: u8,
}

impl Candidate {
    /// Returns the packet's changes.
    pub(super) fn changing(&mut self, input: &Input<'_>) -> &mut Changes {
        self.changes.get_or_insert_with(|| input.shared.take())
    }

    /// Returns `true` if the packet has a checksum that vouches for it.
    fn has_checksum(&self, profile: Profile) -> bool {
        match profile {
            Profile::Udp | Profile::Rtp => self.values.checksum,
            _ => profile.has_udp_lite(),
        }
    }
}

/// An IP header beyond the first two (RFC 3843 3.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeper {
    pub(crate) fixed: IpStatic,
    pub(crate) changing: IpChanging,
    pub(crate) lists: Option<Box<Lists>>,
}

impl Deeper {
    pub(super) fn lists(&self) -> &Lists {
        self.lists.as_deref().unwrap_or(&NO_LISTS)
    }
}

/// Lists of the first two IP headers and of RTP. Most flows have none, or one.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllLists {
    pub(crate) extensions: [Option<Box<Lists>>; 2],
    pub(crate) csrcs: Option<Box<Lists>>,
}

/// The context.
#[derive(Debug)]
pub(crate) struct Decompressor {
    pub(super) profile: Profile,
    pub(super) state: State,
    pub(super) feedbacker: Feedbacker,
    pub(super) values: Values,
    /// The reference before the last one (ref -1 of RFC 3095 5.3.2.2.5).
    previous_sn: u32,
    /// Outer and inner IP header; a single one is the inner.
    pub(super) ip: [IpStatic; 2],
    /// 1 or 2.
    pub(super) depth: usize,
    pub(super) deeper: Vec<Deeper>,
    /// Ports, or SPI.
    pub(super) transport: [u8; 4],
    pub(super) ssrc: [u8; 4],
    pub(super) lists: Option<Box<AllLists>>,
    /// CRC-3 and CRC-7 after the static octets, while nothing static changed.
    static_crcs: Option<(u8, u8)>,
    pub(super) report: Report,
    steady: Steady,
    /// Packets to hold back until a repair, or what losses put in doubt, is confirmed.
    unconfirmed: u8,
    /// Set if the last packet set the context up.
    is_new: bool,
    /// The transport checksum.
    pub(super) evidence: ChecksumEvidence,
    /// Arrival timing, for the detection of wraparound and long losses.
    pub(super) timing: ArrivalTiming,
    /// The last packet as it arrived.
    fingerprint: Fingerprint,
    pub(super) extension_bit: ExtensionBit,
}

impl Decompressor {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            state: State::default(),
            feedbacker: Feedbacker::default(),
            values: Values::default(),
            previous_sn: 0,
            ip: [IpStatic::default(); 2],
            depth: 1,
            deeper: Vec::new(),
            transport: [0; 4],
            ssrc: [0; 4],
            lists: None,
            static_crcs: None,
            report: Report::default(),
            steady: Steady::default(),
            unconfirmed: 0,
            is_new: false,
            evidence: ChecksumEvidence::default(),
            timing: ArrivalTiming::default(),
            fingerprint: Fingerprint::default(),
            extension_bit: ExtensionBit::default(),
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    fn has_rtp(&self) -> bool {
        self.profile.has_rtp()
    }

    pub(super) fn numbering(&self) -> Numbering {
        Numbering::of(self.profile)
    }

    /// Levels in use of `ip` and `values.ip`.
    pub(super) fn used(&self) -> core::ops::Range<usize> {
        2 - self.depth..2
    }

    fn shape(&self) -> Shape {
        let rnd = |index: usize| self.ip[index].is_ipv4().then_some(self.values.ip[index].rnd);
        Shape {
            rtp: self.has_rtp(),
            reliable: self.feedbacker.mode() == Mode::Reliable,
            inner_rnd: rnd(1),
            outer_rnd: if self.depth == 2 { rnd(0) } else { None },
        }
    }

    /// A packet of type 0, 1 or 2.
    #[inline]
    pub(crate) fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let result = self.attempt_all(input, output);
        let kind = result.as_ref().map_or(PacketType::Uo0, |restored| restored.kind);
        self.settle(input, output, &result.as_ref().map(|_| ()).map_err(|error| *error), kind);
        result
    }

    fn attempt_all(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let mut reader = Reader::new(input.frame.body);
        let (first, extension) = self.unwrap_extension(input.frame.first, &mut reader)?;
        let compact = compressed::parse(first, &mut reader, self.shape())?;
        if !self.state.allows(compact.crc_kind == CrcKind::Seven) || self.awaits_refresh(input.config) {
            return Err(DecompressError::NotAllowedInState);
        }
        let packet = Arrived { input, compact, reader, coverage_extension: extension };
        let fingerprint = Fingerprint::of(input.frame.first, input.frame.body);
        if let Some(restored) = self.repeated(&packet, fingerprint, output.out) {
            return Ok(restored);
        }
        self.fingerprint = fingerprint;
        let sn = self.decode_sn(&packet.compact, self.values.sn);
        let doubt = self.doubt(&packet, sn);
        let is_checked = self.is_checked(doubt, input.config);
        let start = output.out.len();
        let failure = match self.attempt(&packet, sn, is_checked, output.out) {
            Ok((restored, candidate)) => {
                let is_proven_right = is_checked && candidate.has_checksum(self.profile);
                if doubt == Verification::Late && !is_proven_right && self.has_rival(&packet, sn, output.out)
                {
                    return Err(DecompressError::NotAllowedInState);
                }
                if self.may_be_chance(&candidate.values, input.config) {
                    return Err(DecompressError::NotAllowedInState);
                }
                self.weigh(&packet, is_proven_right)?;
                self.commit(&packet, candidate, input.now);
                self.set_template(&restored, &output.out[start..]);
                return self.confirmed(restored);
            }
            Err(failure) => failure,
        };
        output.out.truncate(start);
        let damaged = matches!(failure, DecompressError::CrcMismatch | DecompressError::ChecksumMismatch);
        self.unconfirmed = if self.unconfirmed > 0 { input.config.held_back_packets() } else { 0 };
        self.forget_template();
        if !damaged || !input.config.repair || self.feedbacker.mode() == Mode::Reliable {
            return Err(failure);
        }
        match self.repair(&packet, sn, output.out) {
            Some(repaired) => repaired,
            None if doubt != Verification::None && failure == DecompressError::ChecksumMismatch => {
                self.accept_original_error(&packet, sn, failure, output.out)
            }
            None => Err(failure),
        }
    }

    /// Delivers a packet after a gap whose transport checksum is wrong with every reference. Its CRC is right.
    ///
    /// That a checksum was right in earlier packets does not make it right in this one. Where the gap is certain to be of
    /// lost packets, or with [`verify`](crate::DecompressorConfig::verify), the packet is refused.
    fn accept_original_error(
        &mut self,
        packet: &Arrived<'_>,
        sn: u32,
        failure: DecompressError,
        out: &mut Vec<u8>,
    ) -> Result<Restored, DecompressError> {
        let config = packet.input.config;
        let is_lost = self.are_losses(config) && self.has_gap(sn, config);
        if config.verify || self.unconfirmed > 0 || self.state.failed_last() || is_lost {
            return Err(failure);
        }
        let (restored, candidate) = self.attempt(packet, sn, false, out)?;
        self.commit(packet, candidate, packet.input.now);
        Ok(restored)
    }

    /// Restores a packet that the channel delivered twice. By its number alone the second might be a whole wrap ahead, and
    /// the packets between lost.
    ///
    /// What it changes is stored: another packet with this number may have the same excerpt, and its sender relies on it.
    fn repeated(
        &mut self,
        packet: &Arrived<'_>,
        fingerprint: Fingerprint,
        out: &mut Vec<u8>,
    ) -> Option<Restored> {
        let sn = packet.compact.sn;
        let is_repeated = fingerprint == self.fingerprint
            && sn.value == self.values.sn & ((1 << sn.count) - 1)
            && self.unconfirmed == 0
            && self.timing.is_prompt(packet.input.now)
            && packet.compact.crc_kind != CrcKind::None;
        if !is_repeated {
            return None;
        }
        let start = out.len();
        let result = self.attempt(packet, self.values.sn, packet.input.config.verify, out);
        if result.is_err() {
            out.truncate(start);
        }
        let (restored, candidate) = result.ok()?;
        if packet.compact.kind == PacketType::Uo1Id && packet.input.config.strict_uo1id {
            return Some(restored);
        }
        self.values = candidate.values;
        self.steady.stands &= packet.compact.extension3.is_none();
        if let Some(changes) = candidate.changes {
            self.commit_changes(&changes, packet.compact.crc_kind == CrcKind::Seven);
            packet.input.shared.keep(changes);
        }
        Some(restored)
    }

    /// Tries other references after a CRC failure (RFC 3095 5.3.2.2.3 to 5.3.2.2.5). A repair must be confirmed by two
    /// more packets before one is delivered; with a transport checksum that is right it is confirmed at once.
    fn repair(
        &mut self,
        packet: &Arrived<'_>,
        tried: u32,
        out: &mut Vec<u8>,
    ) -> Option<Result<Restored, DecompressError>> {
        let numbering = self.numbering();
        let wrapped = self.wrapped(packet).map(|distance| tried.wrapping_add(distance) & numbering.mask());
        let earlier = self.decode_sn(&packet.compact, self.previous_sn);
        let is_checked = packet.input.config.verify || self.evidence.is_trusted();
        let start = out.len();
        for sn in [wrapped, (earlier != tried).then_some(earlier)].into_iter().flatten() {
            if let Ok((restored, candidate)) = self.attempt(packet, sn, is_checked, out) {
                let previous = self.previous_sn;
                let is_proven_right = is_checked && candidate.has_checksum(self.profile);
                self.commit(packet, candidate, packet.input.now);
                self.previous_sn = previous;
                self.unconfirmed = match is_proven_right {
                    true if self.is_proven_by_checksum(packet.input.config) => 0,
                    true => self.unconfirmed,
                    false => self.unconfirmed.max(2),
                };
                return Some(self.confirmed(restored));
            }
            out.truncate(start);
        }
        None
    }

    /// Returns the distance of a sequence number wrap, if the time suggests one. See RFC 3095 5.3.2.2.4.
    fn wrapped(&self, packet: &Arrived<'_>) -> Option<u32> {
        let period = 1u32.checked_shl(packet.compact.sn.count)?;
        self.timing.has_passed(u64::from(period), packet.input.now).then_some(period)
    }

    /// Removes the type octet of a coverage extension (RFC 4019 5.3.2).
    fn unwrap_extension(
        &self,
        first: u8,
        reader: &mut Reader<'_>,
    ) -> Result<(u8, CoverageExtension), DecompressError> {
        let extension = match first {
            0xf9 => CoverageExtension::Once,
            0xfa => CoverageExtension::On,
            0xfb => CoverageExtension::Off,
            _ => return Ok((first, CoverageExtension::None)),
        };
        if !self.profile.has_udp_lite() {
            return Err(DecompressError::Malformed("packet type"));
        }
        Ok((reader.u8()?, extension))
    }

    #[inline]
    fn decode_sn(&self, compact: &Compact, reference: u32) -> u32 {
        let numbering = self.numbering();
        let bits = compact.sn.count;
        lsb::decode(reference, compact.sn.value, bits, numbering.p(bits)) & numbering.mask()
    }

    /// Decodes, renders and verifies with the sequence number `sn`. Checks the transport checksum if `is_checked`.
    #[inline]
    fn attempt(
        &self,
        packet: &Arrived<'_>,
        sn: u32,
        is_checked: bool,
        out: &mut Vec<u8>,
    ) -> Result<(Restored, Candidate), DecompressError> {
        let mut reader = packet.reader;
        let mut candidate = self.decode(packet, sn, &mut reader)?;
        let header_in = reader.consumed();
        let payload = reader.rest();
        let start = out.len();
        let payload_len = payload.len() + packet.input.frame.elided_bytes;
        let mut levels = [Level::default(); MAX_LEVELS];
        let depth = self.render(&candidate, payload_len, out, &mut levels)?;
        if self.verify(packet, &mut candidate, &out[start..], &levels[..depth]).is_err() {
            self.verify_kept(packet, &mut candidate, &mut out[start..], &levels[..depth])?;
        }
        let header = &out[start..];
        if is_checked
            && !checksum::transport_is_right(header, payload, payload_len, &levels[..depth], self.profile)
        {
            return Err(DecompressError::ChecksumMismatch);
        }
        if self.evidence.is_open() {
            let is_right =
                checksum::transport_vouches(header, payload, payload_len, &levels[..depth], self.profile);
            candidate.evidence = self.evidence.and(is_right);
        }
        if self.profile.has_udp_lite() {
            let rest_len = out.len() - start - levels[..depth].last().map_or(0, Level::end) + payload_len;
            candidate.values.coverage = self.next_coverage(packet, candidate.values.coverage.value, rest_len);
        }
        Ok((Restored { kind: packet.compact.kind, header_in, delivered: true }, candidate))
    }

    /// Compares the CRC of the header.
    #[inline]
    fn verify(
        &self,
        packet: &Arrived<'_>,
        candidate: &mut Candidate,
        bytes: &[u8],
        levels: &[Level],
    ) -> Result<(), DecompressError> {
        let crc = match packet.compact.crc_kind {
            CrcKind::None => return Ok(()),
            CrcKind::Three => &CRC3,
            CrcKind::Seven => &CRC7,
        };
        let fixed = |crc| header::static_crc(crc, bytes, levels, self.profile);
        if packet.compact.extension3.is_none() && candidate.changes.is_none() {
            candidate.static_crcs = self.static_crcs.or_else(|| Some((fixed(&CRC3), fixed(&CRC7))));
        }
        let from = match (candidate.static_crcs, packet.compact.crc_kind) {
            (Some((three, _)), CrcKind::Three) => three,
            (Some((_, seven)), _) => seven,
            (None, _) => fixed(crc),
        };
        let computed = header::dynamic_crc(crc, bytes, levels, self.profile, from);
        if computed == packet.compact.crc { Ok(()) } else { Err(DecompressError::CrcMismatch) }
    }

    /// Compares the CRC with the padding and extension bits as they were. RFC 4815 6.4 and 6.5 clear them.
    ///
    /// librohc keeps them. A CRC passes with one of the two values at most, so this costs conforming compressors nothing.
    fn verify_kept(
        &self,
        packet: &Arrived<'_>,
        candidate: &mut Candidate,
        bytes: &mut [u8],
        levels: &[Level],
    ) -> Result<(), DecompressError> {
        let kept = candidate.kept_bits;
        let rtp_at = levels.last().map_or(0, Level::end) + 8;
        let octet = bytes.get_mut(rtp_at).filter(|_| kept != 0).ok_or(DecompressError::CrcMismatch)?;
        *octet |= kept;
        candidate.values.rtp.padding |= kept & PADDING != 0;
        candidate.values.rtp.extension |= kept & EXTENSION != 0;
        self.verify(packet, candidate, bytes, levels)
    }

    #[inline]
    fn decode(
        &self,
        packet: &Arrived<'_>,
        sn: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Candidate, DecompressError> {
        let compact = &packet.compact;
        let mut candidate = Candidate {
            values: Values { sn, ..self.values },
            marker: compact.marker.unwrap_or(false),
            checksum: 0,
            changes: None,
            mode: compact.extension3.and_then(|extension| extension.mode),
            static_crcs: None,
            evidence: self.evidence,
            kept_bits: if self.extension_bit == ExtensionBit::Cleared { EXTENSION } else { 0 },
        };
        // Where identifications are not sent their offset stays; set before flags change how they count.
        let mut offsets = [0, 1].map(|index: usize| self.values.ip[index].offset(self.values.sn));
        if let Some(extension) = &compact.extension3 {
            self.extension3(extension, packet, reader, &mut candidate)?;
            offsets = [0, 1].map(|index: usize| candidate.values.ip[index].offset(self.values.sn));
        }
        self.identifications(compact, sn, offsets, &mut candidate);
        if self.has_rtp() {
            candidate.values.rtp.ts = self.timestamp(packet, sn, &candidate.values.rtp)?;
        }
        self.tail(packet, reader, &mut candidate)?;
        Ok(candidate)
    }

    /// The innermost IPv4 header whose identification is compressed.
    fn compressed_id(&self, values: &Values) -> Option<usize> {
        self.used().rev().find(|&index| self.ip[index].is_ipv4() && !values.ip[index].rnd)
    }

    /// Returns the lists of extension headers of an IP header.
    pub(super) fn extension_lists(&self, index: usize) -> &Lists {
        self.lists.as_deref().and_then(|all| all.extensions[index].as_deref()).unwrap_or(&NO_LISTS)
    }

    /// Returns the lists of CSRCs.
    pub(super) fn csrc_lists(&self) -> &Lists {
        self.lists.as_deref().and_then(|all| all.csrcs.as_deref()).unwrap_or(&NO_LISTS)
    }

    /// Reconstructs identifications from their offsets, and static ones as they were.
    #[inline]
    fn identifications(&self, compact: &Compact, sn: u32, offsets: [u16; 2], candidate: &mut Candidate) {
        let target = self.compressed_id(&candidate.values);
        for index in self.used() {
            let changing = &mut candidate.values.ip[index];
            if !self.ip[index].is_ipv4() || changing.rnd || changing.sid {
                continue;
            }
            let bits = match index {
                0 if compact.outer_id.count > 0 => compact.outer_id,
                _ if target == Some(index) => compact.id,
                _ => compressed::Bits::default(),
            };
            let sent16 = compact.extension3.is_some_and(|extension| extension.id);
            let offset = if bits.count > 0 && !sent16 {
                lsb::decode(u32::from(offsets[index]), bits.value, bits.count, 0) as u16
            } else {
                offsets[index]
            };
            changing.set_offset(sn, offset);
        }
    }

    /// Decodes the timestamp (RFC 3095 4.5.3, 4.5.4; RFC 4815 4).
    #[inline]
    fn timestamp(&self, packet: &Arrived<'_>, sn: u32, rtp: &RtpValues) -> Result<u32, DecompressError> {
        let compact = &packet.compact;
        let reference = &self.values.rtp;
        let scaled = compact.extension3.is_none_or(|extension| extension.scaled);
        let bits = compact.ts;
        if !scaled {
            if bits.count == 0 {
                return Err(DecompressError::Malformed("unscaled timestamp without bits"));
            }
            return Ok(lsb::decode(reference.ts, bits.value, bits.count, ts_p(bits.count)));
        }
        let stride = reference.stride;
        let distance = self.numbering().distance(self.values.sn, sn);
        if bits.count == 0 || stride == 0 {
            return Ok(reference.ts.wrapping_add((distance as u32).wrapping_mul(stride)));
        }
        let (scaled, offset) = (reference.ts / stride, reference.ts % stride);
        let value = if rtp.time_stride_ms > 0 && reference.time_stride_ms > 0 {
            let passed_ms = self.timing.passed_ns(packet.input.now) / 1_000_000;
            let ticks = (passed_ms / u64::from(reference.time_stride_ms)) as u32;
            lsb::decode(scaled.wrapping_add(ticks), bits.value, bits.count, timer_p(bits.count))
        } else {
            lsb::decode(scaled, bits.value, bits.count, ts_p(bits.count))
        };
        Ok(value.wrapping_mul(stride).wrapping_add(offset))
    }
}

/// P of RTP's first octet.
pub(super) const PADDING: u8 = 0x20;
/// X of RTP's first octet.
pub(super) const EXTENSION: u8 = 0x10;

/// Reading of IR and IR-DYN packets without RX in a flow with X = 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExtensionBit {
    /// X = 0 (RFC 4815 6.5).
    #[default]
    Absolute,
    /// X = 0, just received. The next CRC shows if the compressor kept X instead.
    Cleared,
    /// X as it was: a CRC or a transport checksum has shown it.
    Kept,
}

/// Packet parsed but not decoded.
struct Arrived<'a> {
    input: &'a Input<'a>,
    compact: Compact,
    /// Reader of the fields in extension 3, or after base header and extension.
    reader: Reader<'a>,
    coverage_extension: CoverageExtension,
}

/// The outer type octet of a UDP-Lite packet (RFC 4019 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CoverageExtension {
    None,
    Once,
    On,
    Off,
}
