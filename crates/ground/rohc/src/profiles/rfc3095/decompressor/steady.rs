//! Fast path of the decompressor.
//!
//! Type 0 packets, and in U-mode those of type 2 that only confirm, of a context that was confirmed by a packet of type 0
//! before: the values that move are computed, the CRC over them is compared, and they are written into a copy of the last header. All other packets, those
//! whose CRC does not match included, take the general path, which decides. Both ways deliver the same and leave the same context (tested).

use alloc::vec::Vec;

use super::evidence::Verification;
use super::{Decompressor, Restored};
use crate::framework::context::Incoming;
use crate::framework::crc::{CRC7, Fold3};
use crate::framework::fingerprint::Fingerprint;
use crate::framework::lsb;
use crate::framework::octets::Reader;
use crate::framework::packet::Level;
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::profiles::rfc3095::compressed::{self, Compact};
use crate::profiles::rfc3095::header::{self, Numbering, ts_p};

/// The longest header that goes this way: IPv6, UDP and RTP.
const MAX_HEADER_LEN: usize = 60;

/// Template of the next header: that of the last packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    pub(super) stands: bool,
    len: u8,
    header: [u8; MAX_HEADER_LEN],
    /// Sum of the words of an IPv4 header but length, identification and checksum.
    ip_sum: u32,
    /// CRC-3 after the static octets.
    crc: u8,
}

impl Default for Steady {
    fn default() -> Self {
        Self { stands: false, len: 0, header: [0; MAX_HEADER_LEN], ip_sum: 0, crc: 0 }
    }
}

/// Returns the octets of `word` as they are sent, the first one lowest.
#[inline]
const fn little(word: u16) -> u64 {
    word.swap_bytes() as u64
}

/// The values that move.
struct Moved {
    total: usize,
    sn: u32,
    id: u16,
    ip_checksum: u16,
    checksum: u16,
    ts: u32,
}

impl Decompressor {
    /// Restores a header and returns its type and its octets in the body. `None`, and nothing changed,
    /// when it must take the general path.
    #[inline]
    pub(crate) fn step(&mut self, incoming: &Incoming<'_>, out: &mut Vec<u8>) -> Option<(PacketType, usize)> {
        let (now, config) = (incoming.now, incoming.config);
        if !self.steady.stands || config.verify || !self.feedbacker.is_settled(config) {
            return None;
        }
        if incoming.first & 0x80 != 0 {
            return self.step_confirmed(incoming, out);
        }
        let fingerprint = Fingerprint::of(incoming.first, incoming.body);
        if fingerprint == self.fingerprint {
            return None;
        }
        let (moved, header_in) = self.moved_by_number(incoming)?;
        if config.report_path
            && !self.report.knows_distance(self.numbering().distance(self.values.sn, moved.sn))
        {
            return None;
        }
        if !self.follows_at_once(moved.sn, now, config)
            && self.doubts(moved.sn, true, true, now, config) != Verification::None
        {
            return None;
        }
        if self.moved_crc(&moved) != incoming.first & 0x07 {
            return None;
        }
        out.extend_from_slice(&self.header_of(&moved)[..usize::from(self.steady.len)]);
        self.fingerprint = fingerprint;
        self.keep(&moved, incoming, false);
        self.feedbacker.weak_packet();
        Some((PacketType::Uo0, header_in))
    }

    /// Restores the header of a type 2 packet without extension as [`Self::step`] does. Where there is a way back it is
    /// acknowledged, which the general path does.
    #[inline(never)]
    fn step_confirmed(&mut self, incoming: &Incoming<'_>, out: &mut Vec<u8>) -> Option<(PacketType, usize)> {
        let config = incoming.config;
        let is_unidirectional =
            config.mode == Mode::Unidirectional && self.feedbacker.mode() == Mode::Unidirectional;
        if incoming.first & 0xe0 != 0xc0 || !is_unidirectional || config.report_path {
            return None;
        }
        let fingerprint = Fingerprint::of(incoming.first, incoming.body);
        let mut reader = Reader::new(incoming.body);
        let compact = compressed::parse(incoming.first, &mut reader, self.shape()).ok()?;
        let base_len = if self.has_rtp() { 2 } else { 1 };
        if fingerprint == self.fingerprint
            || reader.consumed() != base_len
            || compact.extension3.is_some()
            || compact.marker == Some(true)
        {
            return None;
        }
        let (moved, header_in) = self.moved_by(&compact, incoming, base_len)?;
        if !self.follows_at_once(moved.sn, incoming.now, config) {
            return None;
        }
        let header = self.header_of(&moved);
        let header = header.get(..usize::from(self.steady.len))?;
        let ((_, fixed), level) = (self.static_crcs?, Level::plain(self.ip[1].is_ipv4(), 0));
        if header::dynamic_crc(&CRC7, header, &[level], self.profile, fixed) != compact.crc {
            return None;
        }
        out.extend_from_slice(header);
        self.fingerprint = fingerprint;
        self.keep(&moved, incoming, true);
        Some((compact.kind, header_in))
    }

    /// Adopts the values of a packet.
    #[inline(always)]
    fn keep(&mut self, moved: &Moved, incoming: &Incoming<'_>, is_strong: bool) {
        self.previous_sn = self.values.sn;
        self.values.sn = moved.sn;
        self.values.ip[1].id = moved.id;
        self.values.rtp.ts = moved.ts;
        self.timing.note(incoming.now);
        self.state.succeeded(is_strong);
    }

    /// Returns the values of a type 0 packet, and its octets in the body.
    #[inline(always)]
    fn moved_by_number(&self, incoming: &Incoming<'_>) -> Option<(Moved, usize)> {
        let numbering = self.numbering();
        let sn =
            lsb::decode(self.values.sn, u32::from(incoming.first >> 3), 4, numbering.p(4)) & numbering.mask();
        let offset = self.values.ip[1].offset(self.values.sn);
        self.moved(sn, offset, self.linear_ts(sn), incoming, 0)
    }

    /// Returns the values that `compact` leads to, and the octets in the body.
    fn moved_by(
        &self,
        compact: &Compact,
        incoming: &Incoming<'_>,
        base_len: usize,
    ) -> Option<(Moved, usize)> {
        let sn = self.decode_sn(compact, self.values.sn);
        let (mut offset, id) = (self.values.ip[1].offset(self.values.sn), compact.id);
        if id.count > 0 {
            offset = lsb::decode(u32::from(offset), id.value, id.count, 0) as u16;
        }
        let (rtp, bits) = (&self.values.rtp, compact.ts);
        let ts = if bits.count > 0 && rtp.stride > 0 {
            let scaled = lsb::decode(rtp.ts / rtp.stride, bits.value, bits.count, ts_p(bits.count));
            scaled.wrapping_mul(rtp.stride).wrapping_add(rtp.ts % rtp.stride)
        } else {
            self.linear_ts(sn)
        };
        self.moved(sn, offset, ts, incoming, base_len)
    }

    /// Returns the timestamp that follows from the sequence number.
    #[inline(always)]
    fn linear_ts(&self, sn: u32) -> u32 {
        let rtp = &self.values.rtp;
        match self.numbering() {
            Numbering::Rtp => {
                let distance = Numbering::Rtp.distance(self.values.sn, sn) as u32;
                rtp.ts.wrapping_add(distance.wrapping_mul(rtp.stride))
            }
            _ => rtp.ts,
        }
    }

    /// Returns the values of a packet with these, and its octets in the body.
    ///
    /// The base header has `base_len` octets there; `offset` is that of an identification which counts.
    #[inline(always)]
    fn moved(
        &self,
        sn: u32,
        offset: u16,
        ts: u32,
        incoming: &Incoming<'_>,
        base_len: usize,
    ) -> Option<(Moved, usize)> {
        let mut body = incoming.body.get(base_len..)?;
        let mut changing = self.values.ip[1];
        let mut ip_checksum = 0;
        let ipv4 = self.ip[1].is_ipv4();
        if ipv4 && changing.rnd {
            let (id, rest) = body.split_first_chunk::<2>()?;
            (changing.id, body) = (u16::from_be_bytes(*id), rest);
        } else if ipv4 && !changing.sid {
            changing.set_offset(sn, offset);
        }
        let mut checksum = 0;
        if self.values.checksum {
            let (sent, rest) = body.split_first_chunk::<2>()?;
            (checksum, body) = (u16::from_be_bytes(*sent), rest);
        }
        let total = usize::from(self.steady.len) + body.len() + incoming.elided_bytes;
        if total > 0xffff {
            return None;
        }
        if ipv4 {
            let sum = self.steady.ip_sum + total as u32 + u32::from(changing.id);
            let sum = (sum & 0xffff) + (sum >> 16);
            ip_checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        }
        let header_in = incoming.body.len() - body.len();
        Some((Moved { total, sn, id: changing.id, ip_checksum, checksum, ts }, header_in))
    }

    /// Returns the CRC-3 over the header with these values.
    ///
    /// Each version has its own branch to the end: there the bits added before are known when this is compiled.
    #[inline]
    fn moved_crc(&self, moved: &Moved) -> u8 {
        let total = moved.total as u16;
        let fold = Fold3::from(self.steady.crc);
        if self.ip[1].is_ipv4() {
            let fold =
                fold.add(little(total) | little(moved.id) << 16, 32).add(little(moved.ip_checksum), 16);
            self.transport_crc(moved, total - 20, fold)
        } else {
            self.transport_crc(moved, total - 40, fold.add(little(total - 40), 16))
        }
    }

    #[inline]
    fn transport_crc(&self, moved: &Moved, rest: u16, fold: Fold3) -> u8 {
        let udp = |fold: Fold3| fold.add(little(rest) | little(moved.checksum) << 16, 32);
        match self.profile {
            Profile::Rtp => {
                let octets = u64::from(self.values.rtp.payload_type) | little(moved.sn as u16) << 8;
                udp(fold).add(octets | u64::from(moved.ts.swap_bytes()) << 24, 56).finish()
            }
            Profile::Udp => udp(fold).finish(),
            Profile::Esp => fold.add(u64::from(moved.sn.swap_bytes()), 32).finish(),
            _ => fold.finish(),
        }
    }

    /// Returns the header with these values, in the first octets.
    #[inline(always)]
    fn header_of(&self, moved: &Moved) -> [u8; MAX_HEADER_LEN] {
        let mut header = self.steady.header;
        let total = moved.total as u16;
        let (ip, transport) = if self.ip[1].is_ipv4() {
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&moved.id.to_be_bytes());
            header[10..12].copy_from_slice(&moved.ip_checksum.to_be_bytes());
            header.split_at_mut(20)
        } else {
            header[4..6].copy_from_slice(&(total - 40).to_be_bytes());
            header.split_at_mut(40)
        };
        let rest = total - ip.len() as u16;
        match self.profile {
            Profile::Rtp | Profile::Udp => {
                transport[4..6].copy_from_slice(&rest.to_be_bytes());
                transport[6..8].copy_from_slice(&moved.checksum.to_be_bytes());
            }
            Profile::Esp => transport[4..8].copy_from_slice(&moved.sn.to_be_bytes()),
            _ => {}
        }
        if self.profile == Profile::Rtp {
            transport[10..12].copy_from_slice(&(moved.sn as u16).to_be_bytes());
            transport[12..16].copy_from_slice(&moved.ts.to_be_bytes());
        }
        header
    }

    /// Sets the template after `restored`, with `header`, took the general path.
    #[inline]
    pub(super) fn set_template(&mut self, restored: &Restored, header: &[u8]) {
        if self.steady.stands || restored.kind != PacketType::Uo0 || !self.is_simple() {
            return;
        }
        let (Some((crc, _)), Some(place)) = (self.static_crcs, self.steady.header.get_mut(..header.len()))
        else {
            return;
        };
        place.copy_from_slice(header);
        (self.steady.stands, self.steady.len, self.steady.crc) = (true, header.len() as u8, crc);
        if self.ip[1].is_ipv4() {
            let word = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
            self.steady.ip_sum = [0, 6, 8, 12, 14, 16, 18].into_iter().map(word).sum();
        }
    }

    pub(in crate::profiles::rfc3095) fn forget_template(&mut self) {
        self.steady.stands = false;
    }

    fn is_simple(&self) -> bool {
        self.depth == 1
            && self.deeper.is_empty()
            && self.lists.is_none()
            && self.unconfirmed == 0
            && !self.evidence.is_open()
            && self.values.rtp.time_stride_ms == 0
            && self.state.is_full()
            && self.feedbacker.mode() != Mode::Reliable
            && matches!(self.profile, Profile::Rtp | Profile::Udp | Profile::Esp | Profile::Ip)
    }
}
