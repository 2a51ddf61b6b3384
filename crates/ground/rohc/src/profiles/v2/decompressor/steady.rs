//! Fast path of the decompressor.
//!
//! Packets `pt_0_crc3` and `pt_0_crc7` of a context without doubts, that come in order: the fields that move are patched in a
//! copy of the last header, and its CRC is compared. All others, those whose CRC does not match included, take the general
//! path, which decides. Both ways deliver the same and leave the same context (tested).

use alloc::vec::Vec;

use super::history::Point;
use super::{Decompressor, transport};
use crate::framework::context::Incoming;
use crate::framework::crc::{CRC7, crc3};
use crate::framework::lsb;
use crate::framework::profile::{PacketType, Profile};
use crate::profiles::rfc3095::fixed_ip_sum;
use crate::profiles::tcp::ip::{IpId, put_u16, put_u32};
use crate::profiles::tcp::kind::Kind;
use crate::profiles::v2::control::{distance, mask};

/// Template of the next header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steady {
    stands: bool,
    has_checksum: bool,
    /// Sum of the words of an IPv4 header but length, identification and checksum.
    ip_sum: u32,
}

impl Steady {
    pub(super) const fn forget(&mut self) {
        self.stands = false;
    }
}

impl Decompressor {
    /// Restores a header and returns its type and its octets in the body. `None`, and nothing changed,
    /// when it must take the general path.
    #[inline]
    pub(in crate::profiles::v2) fn step(
        &mut self,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let (now, config) = (incoming.now, incoming.config);
        if !self.steady.stands || config.verify || !self.trust.is_settled() || self.trust.is_late(now) {
            return None;
        }
        let (kind, value, bits, crc, body) = self.type_0(incoming)?;
        let newest = *self.history.newest()?;
        let p = self.state.control.reorder.depth(bits);
        let number = lsb::decode(newest.number, value, bits, p) & mask(self.profile);
        let ahead = distance(self.profile, newest.number, number);
        if !(1..=i32::from(config.repeats)).contains(&ahead) {
            return None;
        }
        let start = out.len();
        let restored = self.move_header(&newest, number, ahead, body, incoming.elided_bytes, out);
        let header = out.get(start..).unwrap_or_default();
        let computed = if kind == PacketType::Pt0Crc7 { CRC7.of(header) } else { crc3(header) };
        let Some((point, rest)) = restored.filter(|_| computed == crc) else {
            out.truncate(start);
            return None;
        };
        self.state.headers.copy_from_slice(header);
        self.state.control.number = number;
        self.history.push(ahead, Point { arrival_ms: now.as_millis() as u64, ..point });
        self.trust.stepped(now);
        Some((kind, incoming.body.len() - rest))
    }

    /// Returns the fields and the irregular chain of a packet of type 0.
    #[inline]
    fn type_0<'a>(&self, incoming: &Incoming<'a>) -> Option<(PacketType, u32, u32, u8, &'a [u8])> {
        let first = u32::from(incoming.first);
        if first & 0x80 == 0 {
            return Some((PacketType::Pt0Crc3, first >> 3, 4, first as u8 & 7, incoming.body));
        }
        let (second, body) = incoming.body.split_first()?;
        let is_its = if self.profile.has_rtp() { first >> 4 == 0b1000 } else { first >> 5 == 0b100 };
        let bits = if self.profile.has_rtp() { 5 } else { 6 };
        let value = (first << 1 | u32::from(second >> 7)) & ((1 << bits) - 1);
        is_its.then_some((PacketType::Pt0Crc7, value, bits, second & 0x7f, body))
    }

    /// Appends the header with `number` to `out`; returns its values, and the octets of payload.
    #[inline]
    fn move_header(
        &self,
        newest: &Point,
        number: u32,
        ahead: i32,
        mut body: &[u8],
        elided_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<(Point, usize)> {
        let start = out.len();
        out.extend_from_slice(&self.state.headers);
        let header = out.get_mut(start..)?;
        let header_len = header.len();
        let link = self.state.chain.inner();
        let mut point = Point { number, ..*newest };
        let ipv4 = link.kind == Kind::Ipv4;
        let mut id = 0;
        if ipv4 {
            id = match link.ip_id {
                IpId::Random => take_u16(&mut body)?,
                IpId::Zero => 0,
                counting => counting.counter(newest.offset.wrapping_add(number as u16)),
            };
            point.offset = link.ip_id.counter(id).wrapping_sub(number as u16);
        }
        let checksum = if self.steady.has_checksum { take_u16(&mut body)? } else { 0 };
        let total = u16::try_from(header_len + body.len() + elided_bytes).ok()?;
        let at = if ipv4 { 20 } else { 40 };
        if ipv4 {
            put_u16(header, 2, total);
            put_u16(header, 4, id);
            let sum = self.steady.ip_sum + u32::from(total) + u32::from(id);
            let sum = (sum & 0xffff) + (sum >> 16);
            put_u16(header, 10, !(((sum & 0xffff) + (sum >> 16)) as u16));
        } else {
            put_u16(header, 4, total - 40);
        }
        let ts_step = (ahead as u32).wrapping_mul(self.state.control.ts_stride);
        point.ts =
            move_transport(self.profile, &mut header[at..], total - at as u16, checksum, &point, ts_step);
        Some((point, body.len()))
    }

    /// Sets the template after a packet on the general path.
    #[inline]
    pub(super) fn set_template(&mut self, is_late: bool) {
        let is_single = self.state.chain.is_single();
        let at = self.state.chain.len();
        let headers = &self.state.headers;
        let has_csrcs = self.profile.has_rtp() && headers.len() > at + transport::RTP_LEN;
        let is_simple =
            matches!(self.profile, Profile::RtpV2 | Profile::UdpV2 | Profile::EspV2 | Profile::IpV2);
        self.steady.stands = is_simple && is_single && !has_csrcs && !is_late;
        if !self.steady.stands {
            return;
        }
        let is_udp = matches!(self.profile, Profile::RtpV2 | Profile::UdpV2);
        self.steady.has_checksum = is_udp && headers[at + 6..at + 8] != [0, 0];
        if self.state.chain.inner().kind == Kind::Ipv4 {
            self.steady.ip_sum = fixed_ip_sum(headers);
        }
    }
}

/// Patches the transport, of which `left` octets of packet are; returns the timestamp.
#[inline]
fn move_transport(
    profile: Profile,
    transport: &mut [u8],
    left: u16,
    checksum: u16,
    point: &Point,
    ts_step: u32,
) -> u32 {
    match profile {
        Profile::RtpV2 => {
            let ts = point.ts.wrapping_add(ts_step);
            put_u16(transport, 4, left);
            put_u16(transport, 6, checksum);
            transport[9] &= !transport::MARKER;
            put_u16(transport, 10, point.number as u16);
            put_u32(transport, 12, ts);
            ts
        }
        Profile::UdpV2 => {
            put_u16(transport, 4, left);
            put_u16(transport, 6, checksum);
            0
        }
        Profile::EspV2 => {
            put_u32(transport, 4, point.number);
            0
        }
        _ => 0,
    }
}

#[inline]
fn take_u16(body: &mut &[u8]) -> Option<u16> {
    let (octets, rest) = body.split_first_chunk::<2>()?;
    *body = rest;
    Some(u16::from_be_bytes(*octets))
}
