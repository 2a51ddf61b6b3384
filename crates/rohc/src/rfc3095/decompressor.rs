//! The decompressor of the RFC 3095 family.
//!
//! A compressed header is parsed, its values are decoded against the context into a [`Candidate`], the header is
//! rendered, and its CRC decides: only then is the context changed. Repair (5.3.2.2.4 and 5.3.2.2.5) is the same with
//! another reference.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::compressed::{self, Compact, CrcKind, Extension3, IpFlags, Shape};
use super::header::{self, IpChanging, IpStatic, Numbering, timer_p, ts_p};
use super::list::{self, Kind, Lists, Received};
use super::state::{Feedbacker, State};
use crate::crc::{CRC3, CRC7};
use crate::decompressor::{Input, Output, Restored};
use crate::error::DecompressError;
use crate::lsb;
use crate::octets::Reader;
use crate::packet::{Level, MAX_LEVELS};
use crate::profile::{Mode, PacketType, Profile};

/// The values that the next header is decoded against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) sn: u32,
    /// Outer and inner IP header; a single one is the inner.
    pub(crate) ip: [IpChanging; 2],
    pub(crate) rtp: RtpValues,
    /// Whether UDP checksums are sent, from the last IR or IR-DYN (RFC 3095 5.7).
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

/// What one packet says, decoded but not verified.
pub(crate) struct Candidate {
    pub(crate) values: Values,
    pub(crate) marker: bool,
    /// Checksum of UDP or UDP-Lite.
    pub(crate) checksum: u16,
    pub(crate) changes: Option<Box<Changes>>,
    /// The Mode field, if there was one.
    pub(crate) mode: Option<u8>,
}

/// What only few packets change.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) extensions: [Option<Received>; 2],
    pub(crate) csrcs: Option<Received>,
    /// Protocol of the innermost IP header (PR).
    pub(crate) protocol: Option<u8>,
    /// Changing values and lists of the IP headers beyond two.
    pub(crate) deeper: Vec<(IpChanging, Received)>,
}

/// An IP header beyond the first two (RFC 3843 3.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeper {
    pub(crate) fixed: IpStatic,
    pub(crate) changing: IpChanging,
    pub(crate) lists: Lists,
}

/// Lists of the first two IP headers and of RTP. Most flows have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllLists {
    pub(crate) extensions: [Lists; 2],
    pub(crate) csrcs: Lists,
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
    /// Packets to hold back until a repair is confirmed.
    unconfirmed: u8,
    arrival: Duration,
    /// Moving average of the time between packets, for wraparound detection.
    gap: Duration,
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
            unconfirmed: 0,
            arrival: Duration::ZERO,
            gap: Duration::ZERO,
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
        if !self.state.allows(compact.crc_kind == CrcKind::Seven) {
            return Err(DecompressError::NotAllowedInState);
        }
        let packet = Arrived { input, compact, reader, coverage_extension: extension };
        let sn = self.decode_sn(&packet.compact, self.values.sn);
        let start = output.out.len();
        let failure = match self.attempt(&packet, sn, output.out) {
            Ok((restored, candidate)) => {
                self.commit(&packet, candidate, input.now);
                return self.confirmed(restored, input, &output.out[start..]);
            }
            Err(failure) => failure,
        };
        output.out.truncate(start);
        let damaged = matches!(failure, DecompressError::CrcMismatch | DecompressError::ChecksumMismatch);
        self.unconfirmed = 0;
        if !damaged || !input.config.repair || self.feedbacker.mode() == Mode::Reliable {
            return Err(failure);
        }
        self.repair(&packet, sn, output.out).unwrap_or(Err(failure))
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
        let start = out.len();
        for sn in [wrapped, (earlier != tried).then_some(earlier)].into_iter().flatten() {
            if let Ok((restored, candidate)) = self.attempt(packet, sn, out) {
                let previous = self.previous_sn;
                self.commit(packet, candidate, packet.input.now);
                self.previous_sn = previous;
                self.unconfirmed = 2;
                return Some(self.confirmed(restored, packet.input, &out[start..]));
            }
            out.truncate(start);
        }
        None
    }

    /// How far the sequence number must have moved beyond its bits, if so much time has passed since the last packet
    /// (RFC 3095 5.3.2.2.4).
    fn wrapped(&self, packet: &Arrived<'_>) -> Option<u32> {
        let distance = 1u32.checked_shl(packet.compact.sn.count)?;
        let passed = packet.input.now.saturating_sub(self.arrival);
        (self.gap > Duration::ZERO && passed >= self.gap.saturating_mul(distance)).then_some(distance)
    }

    /// Holds a packet back while a repair is not confirmed.
    #[inline]
    fn confirmed(
        &mut self,
        restored: Restored,
        input: &Input<'_>,
        header: &[u8],
    ) -> Result<Restored, DecompressError> {
        if self.unconfirmed == 0 {
            return Ok(restored);
        }
        self.unconfirmed -= 1;
        // The checksum was verified already, if there is one.
        let has_checksum = match self.profile {
            Profile::Udp | Profile::Rtp => self.values.checksum && !header.is_empty(),
            _ => self.profile.has_udp_lite(),
        };
        if input.config.verify && has_checksum {
            self.unconfirmed = 0;
            return Ok(restored);
        }
        Err(DecompressError::RepairPending)
    }

    /// Takes the type octet of a coverage extension off (RFC 4019 5.3.2).
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

    /// Decodes, renders and verifies with the sequence number `sn`.
    #[inline]
    fn attempt(
        &self,
        packet: &Arrived<'_>,
        sn: u32,
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
        self.verify(packet, &candidate, &out[start..], &levels[..depth])?;
        if packet.input.config.verify
            && !crate::checksum::transport_is_right(
                &out[start..],
                payload,
                payload_len,
                &levels[..depth],
                self.profile,
            )
        {
            return Err(DecompressError::ChecksumMismatch);
        }
        if self.profile.has_udp_lite() {
            let rest_len = out.len() - start - levels[..depth].last().map_or(0, Level::end) + payload_len;
            candidate.values.coverage = self.next_coverage(packet, candidate.values.coverage.value, rest_len);
        }
        Ok((Restored { kind: packet.compact.kind, header_in, delivered: true }, candidate))
    }

    /// The context's coverage after a packet that sent `value` or none (RFC 4019 5.3.2).
    fn next_coverage(&self, packet: &Arrived<'_>, value: u16, rest_len: usize) -> Coverage {
        let old = self.values.coverage;
        match packet.coverage_extension {
            CoverageExtension::None | CoverageExtension::Once => old,
            CoverageExtension::On => Coverage { present: true, ..old },
            CoverageExtension::Off => {
                Coverage { value, present: false, inferred: usize::from(value) == rest_len }
            }
        }
    }

    /// Compares the CRC of the header.
    #[inline]
    fn verify(
        &self,
        packet: &Arrived<'_>,
        candidate: &Candidate,
        bytes: &[u8],
        levels: &[Level],
    ) -> Result<(), DecompressError> {
        let (crc, index) = match packet.compact.crc_kind {
            CrcKind::None => return Ok(()),
            CrcKind::Three => (&CRC3, 0),
            CrcKind::Seven => (&CRC7, 1),
        };
        let unchanged = packet.compact.extension3.is_none() && candidate.changes.is_none();
        let fixed = match self.static_crcs {
            Some((three, seven)) if unchanged => [three, seven][index],
            _ => header::static_crc(crc, bytes, levels, self.profile),
        };
        let computed = header::dynamic_crc(crc, bytes, levels, self.profile, fixed);
        if computed == packet.compact.crc { Ok(()) } else { Err(DecompressError::CrcMismatch) }
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

    /// Reads extension 3 from behind its timestamp.
    fn extension3(
        &self,
        extension: &Extension3,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        if extension.outer.is_some() && self.depth < 2 {
            return Err(DecompressError::Malformed("outer IP header in extension 3"));
        }
        if let Some(flags) = extension.inner {
            self.ip_fields(1, flags, reader, candidate)?;
        }
        let mut inner_id = None;
        if extension.id {
            inner_id = Some(reader.u16()?);
        }
        let mut outer_id = None;
        if let Some(flags) = extension.outer {
            self.ip_fields(0, flags, reader, candidate)?;
            if flags.last() {
                outer_id = Some(reader.u16()?);
            }
        }
        if extension.rtp {
            self.rtp_fields(extension, packet, reader, candidate)?;
        }
        self.sent_identifications(inner_id, outer_id, candidate);
        Ok(())
    }

    /// Applies the 16-bit offsets of extension 3 (RFC 4815 8.2) by making them those of the reference.
    fn sent_identifications(&self, inner_id: Option<u16>, outer_id: Option<u16>, candidate: &mut Candidate) {
        let target = self.compressed_id(&candidate.values).filter(|&index| !candidate.values.ip[index].sid);
        if let (Some(offset), Some(index)) = (inner_id, target) {
            candidate.values.ip[index].set_offset(self.values.sn, offset);
        }
        if let Some(offset) = outer_id.filter(|_| !candidate.values.ip[0].sid) {
            candidate.values.ip[0].set_offset(self.values.sn, offset);
        }
    }

    /// The innermost IPv4 header whose identification is compressed.
    fn compressed_id(&self, values: &Values) -> Option<usize> {
        self.used().rev().find(|&index| self.ip[index].is_ipv4() && !values.ip[index].rnd)
    }

    fn ip_fields(
        &self,
        index: usize,
        flags: IpFlags,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let changing = &mut candidate.values.ip[index];
        if flags.tos() {
            changing.tos = reader.u8()?;
        }
        if flags.ttl() {
            changing.ttl = reader.u8()?;
        }
        if self.ip[index].is_ipv4() {
            (changing.df, changing.rnd, changing.nbo) = (flags.df(), flags.rnd(), flags.nbo());
        }
        if flags.protocol() {
            self.protocol(index, reader.u8()?, candidate)?;
        }
        if flags.extensions() {
            let received = self.extension_field(index, candidate.values.sn, reader)?;
            candidate.changes.get_or_insert_default().extensions[index] = Some(received);
        }
        Ok(())
    }

    /// PR: only the type of what follows the whole chain can change without changing the chain.
    fn protocol(&self, index: usize, next: u8, candidate: &mut Candidate) -> Result<(), DecompressError> {
        if next == self.ip[index].next {
            return Ok(());
        }
        if self.profile != Profile::Ip || index == 0 || !self.deeper.is_empty() {
            return Err(DecompressError::Malformed("protocol change within the chain"));
        }
        candidate.changes.get_or_insert_default().protocol = Some(next);
        Ok(())
    }

    fn rtp_fields(
        &self,
        extension: &Extension3,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let flags = reader.u8()?;
        candidate.mode = Some(flags >> 6);
        let marker = flags & 0x10 != 0;
        if packet.compact.marker.is_some_and(|base| base != marker) {
            return Err(DecompressError::Malformed("two marker bits that differ"));
        }
        candidate.marker = marker;
        let rtp = &mut candidate.values.rtp;
        (rtp.extension, rtp.padding) = (flags & 0x08 != 0, false);
        if flags & 0x20 != 0 {
            let octet = reader.u8()?;
            (rtp.padding, rtp.payload_type) = (octet & 0x80 != 0, octet & 0x7f);
        }
        if flags & 0x04 != 0 {
            let empty = Lists::default();
            let received = self.lists_ref().map_or(&empty, |lists| &lists.csrcs).read(reader, Kind::Csrc)?;
            candidate.changes.get_or_insert_default().csrcs = Some(received);
        }
        if flags & 0x02 != 0 {
            let (stride, _) = crate::sdvl::read(reader)?;
            // RFC 4815 4.6: a stride beside a scaled timestamp is ignored.
            if !extension.scaled {
                rtp.stride = stride;
            }
        }
        if flags & 0x01 != 0 {
            rtp.time_stride_ms = crate::sdvl::read(reader)?.0;
        }
        Ok(())
    }

    pub(super) fn lists_ref(&self) -> Option<&AllLists> {
        self.lists.as_deref()
    }

    /// The IP extension header field of extension 3 (RFC 3095 5.8.5.1).
    fn extension_field(
        &self,
        index: usize,
        sn: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Received, DecompressError> {
        let flags = reader.u8()?;
        let mut sequences = [None; 3];
        for (bit, sequence) in [0x40, 0x20, 0x10].into_iter().zip(&mut sequences) {
            if flags & bit != 0 {
                *sequence = Some(read_sequence(reader)?);
            }
        }
        let empty = Lists::default();
        let lists = self.lists_ref().map_or(&empty, |lists| &lists.extensions[index]);
        let mut received = if flags & 0x80 != 0 {
            lists.read(reader, Kind::Extension)?
        } else {
            Received::unchanged(&lists.current)
        };
        advance(&mut received, self.numbering().distance(self.values.sn, sn), [sequences[0], sequences[2]]);
        Ok(received)
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
            let passed = packet.input.now.saturating_sub(self.arrival).as_millis() as u64;
            let ticks = (passed / u64::from(reference.time_stride_ms)) as u32;
            lsb::decode(scaled.wrapping_add(ticks), bits.value, bits.count, timer_p(bits.count))
        } else {
            lsb::decode(scaled, bits.value, bits.count, ts_p(bits.count))
        };
        Ok(value.wrapping_mul(stride).wrapping_add(offset))
    }

    /// Reads what follows base header and extension (RFC 3095 5.7, RFC 3843 3.6, RFC 4019 5.3.1).
    #[inline]
    fn tail(
        &self,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        for index in self.used() {
            if self.ip[index].is_ipv4() && candidate.values.ip[index].rnd {
                candidate.values.ip[index].id = reader.u16()?;
            }
            if self.lists.is_some() || candidate.changes.is_some() {
                self.irregular_items(index, reader, candidate)?;
            }
        }
        for deeper in &self.deeper {
            let read = super::chain::read_ip_dynamic(&deeper.fixed, &deeper.lists, reader)?;
            candidate.changes.get_or_insert_default().deeper.push(read);
        }
        if self.profile.has_udp_lite() {
            self.coverage(packet.coverage_extension, reader, candidate)?;
            candidate.checksum = reader.u16()?;
        } else if candidate.values.checksum {
            candidate.checksum = reader.u16()?;
        }
        Ok(())
    }

    /// Counts AH and GRE on, and reads their ICV or checksum unless the whole item came.
    fn irregular_items(
        &self,
        index: usize,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let sent = candidate.changes.as_deref().is_some_and(|changes| changes.extensions[index].is_some());
        if !sent {
            let Some(lists) = self.lists_ref().filter(|lists| lists.extensions[index].current.has_counters())
            else {
                return Ok(());
            };
            let mut received = Received::unchanged(&lists.extensions[index].current);
            advance(&mut received, self.numbering().distance(self.values.sn, candidate.values.sn), [None; 2]);
            candidate.changes.get_or_insert_default().extensions[index] = Some(received);
        }
        let Some(received) =
            candidate.changes.as_deref_mut().and_then(|changes| changes.extensions[index].as_mut())
        else {
            return Ok(());
        };
        for position in 0..received.list.len() {
            if received.whole >> position & 1 == 0 {
                let range = list::irregular(received.list.item(position));
                received.list.item_mut(position)[range.clone()].copy_from_slice(reader.take(range.len())?);
            }
        }
        Ok(())
    }

    fn coverage(
        &self,
        extension: CoverageExtension,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let coverage = &mut candidate.values.coverage;
        if coverage.present || extension != CoverageExtension::None {
            (coverage.value, coverage.inferred) = (reader.u16()?, false);
        }
        Ok(())
    }

    /// Appends the header, fills in `levels`, and returns how many there are.
    #[inline]
    pub(super) fn render(
        &self,
        candidate: &Candidate,
        payload_len: usize,
        out: &mut Vec<u8>,
        levels: &mut [Level; MAX_LEVELS],
    ) -> Result<usize, DecompressError> {
        let start = out.len();
        let changes = candidate.changes.as_deref();
        let csrcs = self.csrcs(changes);
        let transport_len = self.transport_len(csrcs.map_or(0, |list| list.bytes().len()));
        let total = self.chain_len(changes) + transport_len + payload_len;
        let mut count = 0;
        for position in 0..self.depth + self.deeper.len() {
            let (fixed, changing, list) = self.at(position, candidate);
            let next = match changes.and_then(|changes| changes.protocol) {
                Some(next) if position + 1 == self.depth => next,
                _ => fixed.next,
            };
            let at = out.len() - start;
            let rest_len = total - at;
            let limit = if fixed.is_ipv4() { 0xffff } else { 0xffff + 40 };
            if rest_len > limit {
                return Err(DecompressError::TooLarge);
            }
            let first = list.filter(|list| !list.is_empty()).map_or(next, |list| list.item(0)[0]);
            fixed.render(out, changing, first, rest_len);
            let extensions_at = out.len() - start;
            if let Some(list) = list {
                list.render(out, next)?;
            }
            let extensions_len = out.len() - start - extensions_at;
            levels[count] = Level { at, version: fixed.version, extensions_at, extensions_len, first, next };
            count += 1;
        }
        self.render_transport(candidate, csrcs, transport_len + payload_len, out);
        Ok(count)
    }

    /// Static, changing and list part of the IP header at `position`, outermost first.
    fn at<'a>(
        &'a self,
        position: usize,
        candidate: &'a Candidate,
    ) -> (&'a IpStatic, &'a IpChanging, Option<&'a list::List>) {
        let changes = candidate.changes.as_deref();
        if position < self.depth {
            let index = position + 2 - self.depth;
            let sent =
                changes.and_then(|changes| changes.extensions[index].as_ref()).map(|received| &received.list);
            let list = sent.or_else(|| self.lists_ref().map(|lists| &lists.extensions[index].current));
            return (&self.ip[index], &candidate.values.ip[index], list);
        }
        let deeper = &self.deeper[position - self.depth];
        match changes.and_then(|changes| changes.deeper.get(position - self.depth)) {
            Some((changing, received)) => (&deeper.fixed, changing, Some(&received.list)),
            None => (&deeper.fixed, &deeper.changing, Some(&deeper.lists.current)),
        }
    }

    fn csrcs<'a>(&'a self, changes: Option<&'a Changes>) -> Option<&'a list::List> {
        if !self.has_rtp() {
            return None;
        }
        let sent = changes.and_then(|changes| changes.csrcs.as_ref()).map(|received| &received.list);
        sent.or_else(|| self.lists_ref().map(|lists| &lists.csrcs.current))
    }

    fn chain_len(&self, changes: Option<&Changes>) -> usize {
        let fixed: usize = self.used().map(|index| self.ip[index].len()).sum();
        if self.lists.is_none() && self.deeper.is_empty() && changes.is_none() {
            return fixed;
        }
        let lists: usize = self.used().map(|index| self.extension_len(index, changes)).sum();
        let deeper: usize = (0..self.deeper.len())
            .map(|index| {
                let list = match changes.and_then(|changes| changes.deeper.get(index)) {
                    Some((_, received)) => &received.list,
                    None => &self.deeper[index].lists.current,
                };
                self.deeper[index].fixed.len() + list.raw_len()
            })
            .sum();
        fixed + lists + deeper
    }

    fn extension_len(&self, index: usize, changes: Option<&Changes>) -> usize {
        match changes.and_then(|changes| changes.extensions[index].as_ref()) {
            Some(received) => received.list.raw_len(),
            None => self.lists_ref().map_or(0, |lists| lists.extensions[index].current.raw_len()),
        }
    }

    fn transport_len(&self, csrc_len: usize) -> usize {
        match self.profile {
            Profile::Rtp | Profile::RtpUdpLite => 20 + csrc_len,
            Profile::Udp | Profile::UdpLite | Profile::Esp => 8,
            _ => 0,
        }
    }

    #[inline]
    fn render_transport(
        &self,
        candidate: &Candidate,
        csrcs: Option<&list::List>,
        rest_len: usize,
        out: &mut Vec<u8>,
    ) {
        let values = &candidate.values;
        if self.profile == Profile::Ip {
            return;
        }
        out.extend_from_slice(&self.transport);
        if self.profile == Profile::Esp {
            out.extend_from_slice(&values.sn.to_be_bytes());
            return;
        }
        let inferred = !self.profile.has_udp_lite() || values.coverage.inferred;
        let length = if inferred { rest_len as u16 } else { values.coverage.value };
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&candidate.checksum.to_be_bytes());
        if self.has_rtp() {
            let count = csrcs.map_or(0, list::List::len) as u8;
            let rtp = &values.rtp;
            let first = rtp.version << 6 | u8::from(rtp.padding) << 5 | u8::from(rtp.extension) << 4 | count;
            out.extend_from_slice(&[first, u8::from(candidate.marker) << 7 | rtp.payload_type]);
            out.extend_from_slice(&(values.sn as u16).to_be_bytes());
            out.extend_from_slice(&rtp.ts.to_be_bytes());
            out.extend_from_slice(&self.ssrc);
            out.extend_from_slice(csrcs.map_or(&[], list::List::bytes));
        }
    }

    /// Makes what was verified the context (RFC 4815 6).
    #[inline]
    fn commit(&mut self, packet: &Arrived<'_>, candidate: Candidate, now: Duration) {
        if packet.compact.crc_kind == CrcKind::None {
            return;
        }
        self.previous_sn = self.values.sn;
        let plain = packet.compact.extension3.is_none() && candidate.changes.is_none();
        let Candidate { values, changes, mode, .. } = candidate;
        if packet.compact.kind == PacketType::Uo1Id && packet.input.config.strict_uo1id {
            self.commit_restricted(values, changes.as_deref());
        } else {
            self.values = values;
            if let Some(changes) = changes {
                self.commit_changes(*changes, packet.compact.crc_kind == CrcKind::Seven);
            }
        }
        if !plain {
            self.static_crcs = None;
        }
        self.note_arrival(now);
        self.feedbacker.heard_mode(mode, packet.compact.crc_kind == CrcKind::Seven, self.profile);
    }

    /// UO-1-ID updates sequence numbers, timestamp and identification, and the tables of list items (RFC 4815 6.2).
    fn commit_restricted(&mut self, values: Values, changes: Option<&Changes>) {
        self.values.sn = values.sn;
        self.values.rtp.ts = values.rtp.ts;
        for (old, new) in self.values.ip.iter_mut().zip(values.ip) {
            old.id = new.id;
        }
        let Some(changes) = changes else { return };
        let lists = self.lists.get_or_insert_default();
        if let Some(received) = &changes.csrcs {
            lists.csrcs.learn(received);
        }
        for (lists, received) in lists.extensions.iter_mut().zip(&changes.extensions) {
            let Some(received) = received else { continue };
            lists.learn(received);
            copy_counters(&mut lists.current, &received.list);
        }
    }

    /// Takes over lists; in R-mode those of packets with a strong CRC may be referred to by their SN.
    pub(super) fn commit_changes(&mut self, changes: Changes, strong: bool) {
        let reliable = self.feedbacker.mode() == Mode::Reliable && strong;
        let acknowledged = reliable.then_some(self.values.sn as u8);
        if changes.csrcs.is_some() || changes.extensions.iter().any(Option::is_some) {
            let lists = self.lists.get_or_insert_default();
            if let Some(received) = &changes.csrcs {
                lists.csrcs.accept(received, acknowledged);
            }
            for (lists, received) in lists.extensions.iter_mut().zip(&changes.extensions) {
                if let Some(received) = received {
                    lists.accept(received, acknowledged);
                }
            }
        }
        if let Some(next) = changes.protocol {
            self.ip[1].next = next;
        }
        for (deeper, (changing, received)) in self.deeper.iter_mut().zip(changes.deeper) {
            deeper.changing = changing;
            deeper.lists.accept(&received, acknowledged);
        }
        self.static_crcs = None;
    }

    pub(super) fn note_arrival(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.arrival);
        self.gap = if self.gap == Duration::ZERO {
            passed
        } else {
            self.gap.saturating_mul(7).saturating_add(passed) / 8
        };
        self.arrival = now;
    }

    /// A new context was set up by an IR or IR-DYN packet: nothing from before may serve as reference.
    pub(super) fn refreshed(&mut self, now: Duration) {
        self.previous_sn = self.values.sn;
        self.static_crcs = None;
        self.unconfirmed = 0;
        (self.arrival, self.gap) = (now, Duration::ZERO);
    }
}

/// What was found out about a packet before it is decoded.
struct Arrived<'a> {
    input: &'a Input<'a>,
    compact: Compact,
    /// In extension 3, or behind base header and extension.
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

/// A compressed sequence number of AH or GRE: 7 or 31 low bits (RFC 3095 5.8.5.1).
fn read_sequence(reader: &mut Reader<'_>) -> Result<(u32, u32), DecompressError> {
    if reader.peek()? & 0x80 == 0 {
        return Ok((u32::from(reader.u8()?), 7));
    }
    Ok((reader.u32()? & 0x7fff_ffff, 31))
}

/// Counts the sequence numbers of AH and GRE on by `distance` packets, or decodes those sent (AH's and GRE's).
fn advance(received: &mut Received, distance: i32, sent: [Option<(u32, u32)>; 2]) {
    for position in 0..received.list.len() {
        if received.whole >> position & 1 == 1 {
            continue;
        }
        let item = received.list.item_mut(position);
        let Some(at) = list::sequence_at(item) else { continue };
        let sent = sent[usize::from(item[0] == crate::packet::protocol::GRE)];
        let Some(place) = item.get_mut(at..at + 4).and_then(|place| place.first_chunk_mut::<4>()) else {
            continue;
        };
        let reference = u32::from_be_bytes(*place);
        let sequence = match sent {
            Some((value, bits)) => lsb::decode(reference, value, bits, header::sn_p(bits)),
            None => reference.wrapping_add_signed(distance),
        };
        *place = sequence.to_be_bytes();
    }
}

/// Takes over sequence numbers where two lists have the same items.
fn copy_counters(to: &mut list::List, from: &list::List) {
    if to.len() != from.len() {
        return;
    }
    for position in 0..to.len() {
        if list::same_but_counters(to.item(position), from.item(position)) {
            to.item_mut(position).copy_from_slice(from.item(position));
        }
    }
}
