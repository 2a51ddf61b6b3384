//! Fast path of the compressor.
//!
//! Most packets of a connection follow from the one before: what seldom changes is as it was, no option but timestamps
//! comes, and a short format carries the rest. Such a packet is not taken apart: one masked comparison with the last
//! header recognises it. What the general path would keep or count is kept and counted here too; anything else there is
//! to say sends a packet the general path before anything is touched. Both ways write the same octets and leave the same
//! context (tested).

use alloc::vec::Vec;
use core::time::Duration;

use super::super::behaviour::{IpIdWatch, StrideWatch};
use super::super::formats::Format;
use super::super::groups::Set;
use super::super::header::{self, FIXED_LEN};
use super::super::ip::IpId;
use super::super::kind::{Kind, PROTO_TCP};
use super::super::refs::Ref;
use super::super::{ip, options};
use super::choice::Common;
use super::{Compressor, View};
use crate::framework::config::CompressorConfig;
use crate::framework::crc::{CRC7, crc3};
use crate::framework::flow::Hash;
use crate::framework::flow::{end_words, level_words};
use crate::framework::frame::Cid;
use crate::framework::octets;
use crate::framework::profile::{PacketType, Profile};

/// A packet that may take the fast path: one IP header, and TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a> {
    octets: &'a [u8],
    len: usize,
    ipv6: bool,
    /// That of its flow's key.
    pub(crate) hash: u32,
}

const IPV4_LEN: usize = 20;

/// Mask of octets that must be those of the last packet.
const fn mask<const LEN: usize>(ipv6: bool) -> [u8; LEN] {
    let mut mask = [0xff; LEN];
    let changing: &[usize] = if ipv6 {
        &[4, 5, 44, 45, 46, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57]
    } else {
        &[2, 3, 4, 5, 10, 11, 24, 25, 26, 27, 28, 29, 30, 31, 33, 34, 35, 36, 37]
    };
    let mut index = 0;
    while index < changing.len() {
        mask[changing[index]] = 0;
        index += 1;
    }
    mask
}

#[inline]
fn same<const LEN: usize>(packet: &[u8], headers: &[u8], mask: &[u8; LEN]) -> bool {
    let (Some(packet), Ok::<&[u8; LEN], _>(headers)) = (packet.first_chunk::<LEN>(), headers.try_into())
    else {
        return false;
    };
    octets::same_under(mask, packet, headers)
}

impl<'a> Plain<'a> {
    /// Parses the start of a packet of `len` octets. `None` if it needs the general path. Lengths and checksums are not
    /// checked yet.
    #[inline]
    pub(crate) fn of(octets: &'a [u8], len: usize, config: &CompressorConfig) -> Option<Self> {
        let limit = config.max_packet_bytes as usize;
        let head = octets.first_chunk::<40>().filter(|_| limit == 0 || len <= limit)?;
        let (ipv6, at) = match *head {
            [0x45, _, _, _, _, _, _, _, _, PROTO_TCP, ..] => (false, 20),
            [0x60..=0x6f, _, _, _, _, _, PROTO_TCP, ..] => (true, 40),
            _ => return None,
        };
        if !config.channel.profiles.contains(Profile::Tcp) {
            return None;
        }
        let mut hash = Hash::default();
        level_words(octets, 0, ipv6, PROTO_TCP, |word| hash = hash.push(word));
        end_words(octets, at, Profile::Tcp, false, |word| hash = hash.push(word));
        Some(Self { octets, len, ipv6, hash: hash.finish() })
    }

    /// The headers, if what is inferred of lengths, and the IPv4 checksum, are right.
    #[inline]
    fn view(&self) -> Option<View<'a>> {
        let view = View::new(self.octets, if self.ipv6 { 40 } else { 20 }, self.len)?;
        let is_sound = match view.chain.try_into() {
            // Of the two zeros that a checksum can be, a decompressor infers the other.
            Ok(ip) => {
                let ip: &[u8; 20] = ip;
                usize::from(ip::u16_at(ip, 2)) == self.len
                    && ip::folded_sum(ip, 0) == 0xffff
                    && ip[10..12] != [0xff, 0xff]
            }
            Err(_) => usize::from(ip::u16_at(view.chain, 4)) + 40 == self.len,
        };
        is_sound.then_some(view)
    }
}

/// Values of a packet on the fast path.
struct Step {
    current: Ref,
    format: &'static Format,
    /// Timestamps, and the octets that they take.
    stamps: Option<([u32; 2], [u32; 2])>,
    /// The watches behind it.
    ip_id: IpIdWatch,
    stride: StrideWatch,
}

/// Size of the buffer for octets after the first one and the CID. They are the rest of a format of seven octets,
/// IP-ID, checksum and timestamps, with room for a whole word at the last one.
#[derive(Default)]
struct Rest {
    octets: [u8; 6 + 2 + 2 + 4 + 8],
    len: usize,
}

impl Rest {
    /// Adds the `len` octets at the top of `word`.
    #[inline]
    fn put(&mut self, word: u64, len: usize) {
        // Words are copied whole; what is too much is overwritten by the next one.
        if let Some(place) = self.octets.get_mut(self.len..self.len + 8) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        self.len += len;
    }
}

impl Compressor {
    /// Returns `true` if `plain` is of this flow with rarely changing fields unchanged.
    #[inline]
    pub(crate) fn expects(&self, plain: &Plain<'_>) -> bool {
        self.is_begun
            && if plain.ipv6 {
                same(plain.octets, &self.headers, &const { mask::<60>(true) })
            } else {
                same(plain.octets, &self.headers, &const { mask::<40>(false) })
            }
    }

    /// Writes the packet if it follows from the last one. Returns the format and the length of the header that it
    /// replaces; `None`, and nothing changed, otherwise. The packet must be one that the context [`Self::expects`].
    #[inline]
    pub(crate) fn step(
        &mut self,
        plain: &Plain<'_>,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        if self.confirm.is_due() {
            return self.step_confirming(plain, now, config, cid, out);
        }
        let written = self.step_as(false, plain, now, config, cid, out)?;
        self.confirm.stepped();
        Some(written)
    }

    /// Writes the packet as [`Self::step`] does, with a CRC-7.
    #[inline(never)]
    fn step_confirming(
        &mut self,
        plain: &Plain<'_>,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        if self.confirm.must_resend_all() || config.only_ir_and_so {
            return None;
        }
        let written = self.step_as(true, plain, now, config, cid, out)?;
        self.confirm.confirmed(config);
        Some(written)
    }

    /// Writes the packet with a CRC-7 if `is_strong`, or else with a CRC-3.
    #[inline(always)]
    fn step_as(
        &mut self,
        is_strong: bool,
        plain: &Plain<'_>,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let view = plain.view()?;
        let step = self.follows(&view, is_strong)?;
        if !(self.is_bidirectional || self.schedule.passes(config, now)) {
            return None;
        }
        let crc = if is_strong { CRC7.of(view.headers()) } else { crc3(view.headers()) };
        self.write_step(&view, &step, crc, cid, out);
        self.take(&view, &step);
        Some((step.format.packet_type, view.headers().len()))
    }

    /// Compares with the last packet, as [`Self::observe`] and [`Self::choose`] would.
    #[inline(always)]
    fn follows(&self, view: &View<'_>, is_strong: bool) -> Option<Step> {
        let (old_ip, old_tcp) = self.headers.split_at_checked(view.chain.len())?;
        let flags = header::flags(view.tcp);
        let [link] = *self.chain.links.as_slice() else { return None };
        if flags & !header::PSH != header::ACK
            || header::flags(old_tcp) & header::ECN != 0
            || self.groups.due() != Set::NONE
            || self.control.ecn_used
            || self.refs.is_empty()
        {
            return None;
        }
        let stamps = self.table.steady(view.options(), self.repeats)?;
        let (mut ip_id, mut stride) = (self.ip_id, self.stride);
        let (old, new) = (ip::ip_id(old_ip), ip::ip_id(view.chain));
        if link.kind == Kind::Ipv4
            && (ip_id.judge(link.ip_id, old, new, false, false) != link.ip_id || self.has_jumped(old, new))
        {
            return None;
        }
        let acked = header::ack(view.tcp).wrapping_sub(header::ack(old_tcp));
        if view.payload_len == 0 && stride.judge(self.control.ack_stride, acked).is_some() {
            return None;
        }
        let msn = self.control.msn.wrapping_add(1);
        let current = self.values(msn, view.chain, view.tcp, view.payload_len);
        let spreads = self.refs.spreads(&current);
        let format = self.short(flags, false, &spreads, &current, is_strong)?;
        // Longer formats are weighed against `co_common`.
        let is_shortest =
            format.len <= Common::FIXED_LEN || is_strong && format.len <= self.common(&spreads).len();
        is_shortest.then_some(Step { current, format, stamps, ip_id, stride })
    }

    #[inline]
    fn write_step(&self, view: &View<'_>, step: &Step, crc: u8, cid: Cid, out: &mut Vec<u8>) {
        let word = self.pack(view, &step.current, step.format, false, crc);
        cid.write(out, (word >> 56) as u8);
        let mut rest = Rest::default();
        rest.put(word << 8, step.format.len - 1);
        if view.chain.len() == IPV4_LEN && self.chain.inner().ip_id == IpId::Random {
            rest.put(u64::from(ip::ip_id(view.chain)) << 48, 2);
        }
        rest.put(u64::from(ip::u16_at(view.tcp, 16)) << 48, 2);
        if let Some((values, lens)) = step.stamps {
            for (value, len) in values.into_iter().zip(lens) {
                let coded = u64::from(options::coded_timestamp(value, len));
                rest.put(coded << (64 - 8 * len), len as usize);
            }
        }
        out.extend_from_slice(&rest.octets[..rest.len]);
    }

    /// The packet was sent: later ones may be relative to it.
    #[inline]
    fn take(&mut self, view: &View<'_>, step: &Step) {
        self.control.msn = step.current.msn;
        self.packets = self.packets.saturating_add(1);
        if let Some((values, _)) = step.stamps {
            self.table.sent_timestamps(values, step.current.msn, self.repeats);
        }
        self.ecn.judge(false, false, false);
        (self.ip_id, self.stride) = (step.ip_id, step.stride);
        self.refs.push(step.current, usize::from(self.repeats));
        self.headers[..view.chain.len()].copy_from_slice(view.chain);
        self.headers[view.chain.len()..].copy_from_slice(&view.tcp[..FIXED_LEN]);
    }
}
