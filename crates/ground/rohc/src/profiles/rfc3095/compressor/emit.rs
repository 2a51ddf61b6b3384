//! Writer of packets of types 0, 1 and 2. See RFC 3095 5.7.1 to 5.7.5, 5.11.3, 5.11.4 and RFC 4019 5.3.

use alloc::vec::Vec;

use super::choose::Spans;
use super::formats::Format;
use super::initialize::write_deeper;
use super::{Compressor, Current, ID_FLAGS, Lists, deeper};
use crate::framework::crc::{CRC3, CRC7};
use crate::framework::octets::Writer;
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::framework::sdvl;
use crate::profiles::rfc3095::Job;
use crate::profiles::rfc3095::header;

/// Type octets of coverage extensions.
const CCE_ONCE: u8 = 0xf9;
const CCE_ON: u8 = 0xfa;
const CCE_OFF: u8 = 0xfb;

/// Values in the base header: what extensions carry is shifted out already.
#[derive(Clone, Copy, Default)]
pub(super) struct Base {
    pub(super) sn: u32,
    pub(super) ts: u32,
    pub(super) id: u32,
    pub(super) marker: bool,
    pub(super) extended: bool,
}

impl Base {
    /// Returns the octets of a base header of `kind`, their number, and the CRC's place.
    #[inline]
    pub(super) fn octets(&self, kind: PacketType, rtp: bool, crc: u8) -> ([u8; 3], usize) {
        let (sn, ts, id) = (self.sn as u8, self.ts as u8, self.id as u8);
        let (m, x) = (u8::from(self.marker), u8::from(self.extended));
        let sn3 = (sn & 0x0f) << 3;
        match kind {
            PacketType::R0 => ([sn & 0x3f, 0, 0], 1),
            PacketType::R0Crc => ([0x40 | sn >> 1 & 0x3f, sn << 7 | crc, 0], 2),
            PacketType::Uo1 if !rtp => ([0x80 | id & 0x3f, sn << 3 | crc, 0], 2),
            PacketType::Uo1 => ([0x80 | ts & 0x3f, m << 7 | sn3 | crc, 0], 2),
            PacketType::Uo1Ts => ([0xa0 | ts & 0x1f, m << 7 | sn3 | crc, 0], 2),
            PacketType::Uo1Id => ([0x80 | id & 0x1f, x << 7 | sn3 | crc, 0], 2),
            PacketType::R1 if !rtp => ([0x80 | sn & 0x3f, x << 7 | id & 0x7f, 0], 2),
            PacketType::R1 => ([0x80 | sn & 0x3f, m << 7 | x << 6 | ts & 0x3f, 0], 2),
            PacketType::R1Ts => ([0x80 | sn & 0x3f, m << 7 | x << 6 | 0x20 | ts & 0x1f, 0], 2),
            PacketType::R1Id => ([0x80 | sn & 0x3f, m << 7 | x << 6 | id & 0x1f, 0], 2),
            PacketType::Uor2 if !rtp => ([0xc0 | sn & 0x1f, x << 7 | crc, 0], 2),
            PacketType::Uor2 => ([0xc0 | ts >> 1 & 0x1f, ts << 7 | m << 6 | sn & 0x3f, x << 7 | crc], 3),
            PacketType::Uor2Ts => ([0xc0 | ts & 0x1f, 0x80 | m << 6 | sn & 0x3f, x << 7 | crc], 3),
            PacketType::Uor2Id => ([0xc0 | id & 0x1f, m << 6 | sn & 0x3f, x << 7 | crc], 3),
            _ => ([sn3 | crc, 0, 0], 1),
        }
    }
}

/// Encoding of the timestamp in extension 3.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    /// Not at all: it follows from the sequence number.
    Absent,
    /// Scaled, in the base header alone.
    Base,
    /// Scaled timestamp with `bits` in the extension.
    Scaled(u32),
    Unscaled(u32),
}

impl Stamp {
    const fn extension_bits(self) -> u32 {
        match self {
            Self::Absent | Self::Base => 0,
            Self::Scaled(bits) | Self::Unscaled(bits) => bits,
        }
    }
}

/// Fields of a packet with extension 3.
struct Extension3 {
    kind: PacketType,
    /// Returns the IP header whose identification the extension carries, if any.
    target: Option<usize>,
    id: Option<usize>,
    stamp: Stamp,
    /// The low octet of SN is in the extension.
    long_sn: bool,
    /// Lists of outer and inner header.
    lists: [bool; 2],
    /// Fields of the outer IP header, and its identification among them.
    outer: bool,
    outer_id: bool,
    inner: bool,
    /// Fields of RTP.
    rtp: bool,
}

impl Compressor {
    /// Writes a packet of `format`.
    #[inline]
    pub(super) fn write_format(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        spans: &Spans,
        format: &Format,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let ts = if format.ts > 0 { self.scaled(current.ts).0 } else { 0 };
        let id =
            self.compressed_id(current).map_or(0, |index| u32::from(current.ip[index].offset(current.sn)));
        let mut base =
            Base { sn: current.sn, ts, id, marker: current.marker, extended: format.extension.is_some() };
        let mut extension = [0; 3];
        let mut extension_len = 0;
        if let Some(number) = format.extension {
            let outer = u32::from(current.ip[0].offset(current.sn));
            extension_len = self.short_extension(number, format.kind, outer, &mut base, &mut extension);
        }
        debug_assert!(spans.sn_fits(format.sn));
        self.write_base(job, current, format.kind, &base, out);
        out.extend_from_slice(&extension[..extension_len]);
        self.write_tail(job, current, format.kind, [false; 2], out);
        format.kind
    }

    /// Fills in extension 0, 1 or 2 and leaves the rest in `base`.
    fn short_extension(
        &self,
        number: u8,
        kind: PacketType,
        outer_id: u32,
        base: &mut Base,
        octets: &mut [u8; 3],
    ) -> usize {
        let id_first = matches!(kind, PacketType::Uo1Id | PacketType::R1Id | PacketType::Uor2Id);
        let ts_first = matches!(kind, PacketType::Uo1Ts | PacketType::R1Ts | PacketType::Uor2Ts);
        let wide = if number == 2 { 11 } else { 3 };
        // `plus` is in the first octet and, in extension 2, the second; `minus` in the last.
        let (plus, minus) = if !self.profile.has_rtp() {
            match number {
                2 => (outer_id, base.take_id(8)),
                1 => {
                    let low = base.take_id(8);
                    (base.take_id(3), low)
                }
                _ => (base.take_id(3), 0),
            }
        } else if id_first {
            let minus = base.ts;
            (base.take_id(wide), minus)
        } else if ts_first {
            let minus = base.id;
            (base.take_ts(wide), minus)
        } else {
            let low = if number == 0 { 0 } else { base.take_ts(8) };
            (base.take_ts(wide), low)
        };
        let sn = base.sn & 7;
        base.sn >>= 3;
        let head = number << 6 | (sn as u8) << 3;
        match number {
            0 => octets[0] = head | plus as u8 & 7,
            1 => octets[..2].copy_from_slice(&[head | plus as u8 & 7, minus as u8]),
            _ => *octets = [head | (plus >> 8) as u8 & 7, plus as u8, minus as u8],
        }
        usize::from(number) + 1
    }

    /// Writes base header and CID, after a coverage extension's type octet.
    #[inline]
    fn write_base(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        kind: PacketType,
        base: &Base,
        out: &mut Vec<u8>,
    ) {
        let crc = self.header_crc(job, kind, current);
        let (octets, len) = base.octets(kind, self.profile.has_rtp(), crc);
        match self.coverage_extension(current, kind) {
            Some(outer) => {
                job.cid.write(out, outer);
                out.push(octets[0]);
            }
            None => job.cid.write(out, octets[0]),
        }
        out.extend_from_slice(&octets[1..len]);
    }

    /// The CRC over the uncompressed header.
    #[inline]
    fn header_crc(&mut self, job: &Job<'_>, kind: PacketType, current: &Current) -> u8 {
        let (crc, seven) = match kind {
            PacketType::R0 | PacketType::R1 | PacketType::R1Id | PacketType::R1Ts => return 0,
            PacketType::Uo0 | PacketType::Uo1 | PacketType::Uo1Id | PacketType::Uo1Ts => (&CRC3, false),
            _ => (&CRC7, true),
        };
        let bytes = &job.packet.bytes[..current.header_len as usize];
        let levels = job.packet.levels();
        let cacheable = levels.len() <= 2;
        let (three, seven_bits) = match self.static_crcs {
            Some(known) if cacheable => known,
            _ => {
                let fixed = |crc| header::static_crc(crc, bytes, levels, self.profile);
                let both = (fixed(&CRC3), fixed(&CRC7));
                self.static_crcs = Some(both);
                both
            }
        };
        header::dynamic_crc(crc, bytes, levels, self.profile, if seven { seven_bits } else { three })
    }

    /// The outer type octet that this packet needs (RFC 4019 5.3.2).
    fn coverage_extension(&self, current: &Current, kind: PacketType) -> Option<u8> {
        if !self.profile.has_udp_lite() {
            return None;
        }
        let state = &self.coverage;
        let updating = self.mode != Mode::Reliable || super::is_strong(kind);
        if state.change.is_active() && updating {
            return Some(if state.present { CCE_ON } else { CCE_OFF });
        }
        let is_length = u32::from(current.coverage) == current.rest_len;
        let follows = if state.inferred { is_length } else { current.coverage == state.value };
        (state.change.is_active() || !(state.present || follows)).then_some(CCE_ONCE)
    }

    /// Writes what follows base header and extension. `sent`: lists of outer and inner header that were just sent,
    /// with their irregular parts.
    #[inline]
    fn write_tail(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        kind: PacketType,
        sent: [bool; 2],
        out: &mut Vec<u8>,
    ) {
        for index in self.used() {
            if self.ipv4[index] && current.ip[index].rnd {
                out.extend_from_slice(&current.ip[index].id.to_be_bytes());
            }
            if let Some(list) = self.extensions(index).filter(|_| !sent[index]) {
                list.write_irregular(&mut Writer::new(out));
            }
        }
        write_deeper(job, deeper(job.packet.levels()), &mut Writer::new(out));
        if self.profile.has_udp_lite() {
            self.write_coverage(current, kind, out);
            out.extend_from_slice(&current.checksum.to_be_bytes());
        } else if matches!(self.profile, Profile::Udp | Profile::Rtp) && current.checksum != 0 {
            out.extend_from_slice(&current.checksum.to_be_bytes());
        }
    }

    fn write_coverage(&mut self, current: &Current, kind: PacketType, out: &mut Vec<u8>) {
        let extension = self.coverage_extension(current, kind);
        let state = &mut self.coverage;
        if extension.is_some() || state.present {
            out.extend_from_slice(&current.coverage.to_be_bytes());
        }
        if extension == Some(CCE_OFF) {
            state.inferred = u32::from(current.coverage) == current.rest_len;
            state.value = current.coverage;
        }
        if matches!(extension, Some(CCE_ON | CCE_OFF)) {
            state.change.sent(self.mode, current.sn);
        }
    }

    /// Writes a type 2 packet with extension 3, with all that is pending.
    pub(super) fn write_extension3(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        spans: &Spans,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let parts = self.extension3(current, spans);
        let bits = parts.stamp.extension_bits();
        let base = Base {
            sn: if parts.long_sn { current.sn >> 8 } else { current.sn },
            ts: if bits >= 32 { 0 } else { self.stamped(current, parts.stamp) >> bits },
            id: parts.target.map_or(0, |index| u32::from(current.ip[index].offset(current.sn))),
            marker: current.marker,
            extended: true,
        };
        self.write_base(job, current, parts.kind, &base, out);
        self.write_extension3_fields(current, &parts, &mut Writer::new(out));
        self.write_tail(job, current, parts.kind, parts.lists, out);
        self.extension3_sent(current.sn, parts.lists, parts.rtp);
        if !self.profile.has_rtp() || parts.rtp {
            self.mode_since.get_or_insert(current.sn);
        } else {
            self.mode_since = None;
        }
        parts.kind
    }

    /// Returns the fields that extension 3 must have.
    fn extension3(&self, current: &Current, spans: &Spans) -> Extension3 {
        let rtp = self.profile.has_rtp();
        let target = self.compressed_id(current);
        let stamp = if rtp { self.stamp(spans, target.is_some()) } else { Stamp::Absent };
        let kind = match (rtp, target, stamp) {
            (true, Some(_), Stamp::Absent) => PacketType::Uor2Id,
            (true, Some(_), _) => PacketType::Uor2Ts,
            _ => PacketType::Uor2,
        };
        let base_id_bits = if kind == PacketType::Uor2Id { 5 } else { 0 };
        let lists = self.lists.as_deref().map(Lists::pending_extensions).unwrap_or_default();
        let outer_id = target == Some(1) && self.ipv4[0] && self.depth == 2 && {
            let outer = &current.ip[0];
            !outer.rnd && !outer.sid && (self.id_flags_pending(0) || spans.outer_id > 0)
        };
        let outer = self.depth == 2 && (self.ip[0].is_active() || lists[0] || outer_id);
        Extension3 {
            kind,
            target,
            stamp,
            long_sn: !spans.sn_fits(if rtp { 6 } else { 5 }),
            id: target.filter(|&index| {
                !current.ip[index].sid && (self.id_flags_pending(index) || spans.id >= 1 << base_id_bits)
            }),
            lists,
            outer_id,
            outer,
            inner: self.ip[1].is_active() || lists[1] || (outer && rtp),
            rtp: rtp && self.sends_rtp(),
        }
    }

    fn write_extension3_fields(&self, current: &Current, parts: &Extension3, writer: &mut Writer<'_>) {
        let rtp = self.profile.has_rtp();
        let Extension3 { long_sn, id, outer, inner, lists, outer_id, .. } = *parts;
        let flags = 0xc0 | u8::from(long_sn) << 5 | u8::from(id.is_some()) << 2 | u8::from(inner) << 1;
        writer.u8(flags | self.extension3_flags(rtp, parts.stamp, outer, parts.rtp));
        if inner {
            writer.u8(self.ip_flags(1, current, lists[1]) | u8::from(outer && rtp));
        }
        if outer {
            writer.u8(self.ip_flags(0, current, lists[0]) | u8::from(outer_id));
        }
        if long_sn {
            writer.u8(current.sn as u8);
        }
        if parts.stamp.extension_bits() > 0 {
            sdvl::write_bits(writer, self.stamped(current, parts.stamp), parts.stamp.extension_bits());
        }
        if inner {
            self.write_ip_fields(1, current, lists[1], writer);
        }
        if let Some(index) = id {
            writer.u16(current.ip[index].offset(current.sn));
        }
        if outer {
            self.write_ip_fields(0, current, lists[0], writer);
        }
        if outer_id {
            writer.u16(current.ip[0].offset(current.sn));
        }
        if parts.rtp {
            self.write_rtp_fields(current, writer);
        }
    }

    /// The timestamp as `stamp` sends it.
    fn stamped(&self, current: &Current, stamp: Stamp) -> u32 {
        if matches!(stamp, Stamp::Unscaled(_)) { current.ts } else { self.scaled(current.ts).0 }
    }

    /// Returns `true` if the identification counts otherwise than in the references: it is sent whole.
    fn id_flags_pending(&self, index: usize) -> bool {
        self.ip[index].is_active() && self.ip_fields[index] & ID_FLAGS != 0
    }

    fn extension3_flags(&self, rtp: bool, stamp: Stamp, outer: bool, rtp_part: bool) -> u8 {
        if !rtp {
            return (self.mode as u8) << 3 | u8::from(outer);
        }
        let present = stamp.extension_bits() > 0;
        let scaled = !matches!(stamp, Stamp::Unscaled(_));
        u8::from(present) << 4 | u8::from(scaled) << 3 | u8::from(rtp_part)
    }

    /// Returns the encoding of the timestamp; `t`: the base header has a T bit.
    fn stamp(&self, spans: &Spans, t: bool) -> Stamp {
        let base_bits = if t { 5 } else { 6 };
        let changing = self.stride.pending.is_active() || self.timer.is_pending();
        if !changing {
            if t && spans.linear {
                return Stamp::Absent;
            }
            if spans.ts_fits(base_bits) {
                return Stamp::Base;
            }
            if let Some(bits) = [7, 14, 21, 29].into_iter().find(|bits| spans.ts_fits(base_bits + bits)) {
                return Stamp::Scaled(bits);
            }
        }
        let enough = [7, 14, 21].into_iter().find(|bits| spans.unscaled_fits(base_bits + bits));
        Stamp::Unscaled(enough.unwrap_or(29))
    }

    fn sends_rtp(&self) -> bool {
        self.rtp.is_active()
            || self.stride.pending.is_active()
            || self.timer.is_pending()
            || self.mode_change.is_active()
            || self.lists.as_deref().is_some_and(Lists::has_pending_csrcs)
    }

    fn ip_flags(&self, index: usize, current: &Current, list: bool) -> u8 {
        let changing = &current.ip[index];
        let flags = u8::from(changing.df) << 5 | u8::from(changing.nbo) << 2 | u8::from(changing.rnd) << 1;
        let fields = if self.ip[index].is_active() { self.ip_fields[index] & 0xc0 } else { 0 };
        fields | u8::from(list) << 3 | if self.ipv4[index] { flags } else { 0 }
    }

    fn write_ip_fields(&self, index: usize, current: &Current, list: bool, writer: &mut Writer<'_>) {
        let flags = self.ip_flags(index, current, list);
        if flags & 0x80 != 0 {
            writer.u8(current.ip[index].tos);
        }
        if flags & 0x40 != 0 {
            writer.u8(current.ip[index].ttl);
        }
        if let Some(list) = self.extensions(index).filter(|_| list) {
            // A list and no sequence number (RFC 3095 5.8.5.1): counters are in the items.
            writer.u8(0x80);
            list.write_short(writer, self.mode);
        }
    }

    fn write_rtp_fields(&self, current: &Current, writer: &mut Writer<'_>) {
        let (stride, timer) = (self.stride.pending.is_active(), self.timer.is_pending());
        let csrcs = self.csrcs().filter(|csrcs| csrcs.is_pending());
        // Without R-PT the padding bit would become zero (RFC 4815 6.4).
        let with_type = self.rtp.is_active() || current.rtp.padding;
        let flags = [with_type, current.marker, current.rtp.extension, csrcs.is_some(), stride, timer];
        writer.u8((self.mode as u8) << 6 | flags.iter().fold(0, |octet, &flag| octet << 1 | u8::from(flag)));
        if with_type {
            writer.u8(u8::from(current.rtp.padding) << 7 | current.rtp.payload_type);
        }
        if let Some(csrcs) = csrcs {
            csrcs.write_short(writer, self.mode);
        }
        if stride {
            sdvl::write(writer, self.stride.value);
        }
        if timer {
            sdvl::write(writer, self.timer.stride_ms());
        }
    }

    fn extension3_sent(&mut self, sn: u32, lists: [bool; 2], rtp_part: bool) {
        let mode = self.mode;
        self.ip.iter_mut().for_each(|repeat| repeat.sent(mode, sn));
        if rtp_part {
            self.rtp.sent(mode, sn);
            self.stride.pending.sent(mode, sn);
            self.timer.sent(mode, sn);
        }
        if let Some(all) = self.lists.as_deref_mut() {
            all.short_sent(mode, lists, rtp_part, sn);
        }
    }
}

impl Base {
    /// Removes and returns the `bits` low bits of the identification.
    fn take_id(&mut self, bits: u32) -> u32 {
        let taken = self.id & ((1 << bits) - 1);
        self.id >>= bits;
        taken
    }

    fn take_ts(&mut self, bits: u32) -> u32 {
        let taken = self.ts & ((1 << bits) - 1);
        self.ts >>= bits;
        taken
    }
}
