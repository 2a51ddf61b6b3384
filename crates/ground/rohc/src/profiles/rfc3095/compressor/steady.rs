//! Fast path of the compressor.
//!
//! Most packets of a flow follow from the one before: all that is static is as it was, the sequence number went a
//! little further, timestamp and IP-ID went along. Such a packet is not taken apart: one masked comparison with a
//! template and a few with the last values recognise it, and it goes out as type 0, or 2 where it confirms. The template stands only while the
//! context has nothing to signal; it is set by the general path, which everything else goes. Both ways write the same
//! octets and leave the same context (tested).

use alloc::vec::Vec;
use core::time::Duration;

use super::choose::interval_holds;
use super::emit::Base;
use super::id::Behaviour;
use super::{Compressor, Reference, timer};
use crate::framework::config::CompressorConfig;
use crate::framework::crc::{CRC7, Fold3};
use crate::framework::flow::Hash;
use crate::framework::flow::{end_words, level_words};
use crate::framework::frame::Cid;
use crate::framework::octets;
use crate::framework::packet::{Level, is_rtp, protocol};
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::profiles::rfc3095::Job;
use crate::profiles::rfc3095::header::{self, Numbering};

/// The longest header that goes this way: IPv6, UDP and RTP.
pub(in crate::profiles) const MAX_HEADER_LEN: usize = 60;

/// Header chain that may take the fast path. It is one plain IP header and a transport header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    pub(in crate::profiles) bytes: &'a [u8],
    pub(in crate::profiles) len: usize,
    pub(in crate::profiles) ipv6: bool,
    pub(crate) profile: Profile,
    /// That of its flow's key.
    pub(crate) hash: u32,
}

/// Template of a packet on the fast path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    stands: bool,
    /// The header of a packet; fields that change with every packet do not matter.
    template: [u8; MAX_HEADER_LEN],
    /// Sum of the words of an IPv4 header but length, identification and checksum.
    ip_sum: u32,
    /// CRC-3 after the static octets.
    crc: u8,
}

impl Default for Steady {
    fn default() -> Self {
        Self { stands: false, template: [0; MAX_HEADER_LEN], ip_sum: 0, crc: 0 }
    }
}

/// Mask of octets that must be those of the template.
const fn mask<const LEN: usize>(ipv6: bool, profile: Profile) -> [u8; LEN] {
    let mut mask = [0xff; LEN];
    let changing: &[usize] = if ipv6 { &[4, 5] } else { &[2, 3, 4, 5, 10, 11] };
    clear(&mut mask, 0, changing);
    let at = if ipv6 { 40 } else { 20 };
    clear(
        &mut mask,
        at,
        match profile {
            Profile::Rtp => &[4, 5, 6, 7, 10, 11, 12, 13, 14, 15],
            Profile::Udp | Profile::Esp => &[4, 5, 6, 7],
            _ => &[],
        },
    );
    mask
}

/// Returns the sum of the words of an IPv4 header but length, identification and checksum.
pub(in crate::profiles) fn fixed_ip_sum(header: &[u8]) -> u32 {
    let word = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
    [0, 6, 8, 12, 14, 16, 18].into_iter().map(word).sum()
}

const fn clear(mask: &mut [u8], from: usize, positions: &[usize]) {
    let mut index = 0;
    while index < positions.len() {
        mask[from + positions[index]] = 0;
        index += 1;
    }
}

#[inline]
fn same<const LEN: usize>(header: &[u8], template: &[u8; MAX_HEADER_LEN], mask: &[u8; LEN]) -> bool {
    let (Some(header), Some(template)) = (header.first_chunk::<LEN>(), template.first_chunk::<LEN>()) else {
        return false;
    };
    octets::same_under(mask, header, template)
}

impl<'a> Chain<'a> {
    /// Parses the start of a packet of `len` octets. `None` if it needs the general path. Lengths and checksums are not
    /// checked yet.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8], len: usize, config: &CompressorConfig) -> Option<Self> {
        let limit = config.max_packet_bytes as usize;
        let head = bytes.first_chunk::<20>().filter(|_| limit == 0 || len <= limit)?;
        let (ipv6, next, at) = match head[0] {
            0x45 => (false, head[9], 20),
            0x60..=0x6f => (true, head[6], 40),
            _ => return None,
        };
        let profile = profile_of(next, bytes.get(at..)?, config)?;
        Some(Self::with_hash(bytes, len, ipv6, next, profile, profile))
    }

    /// Creates the chain of a flow of `flow`, whose headers are those of `profile`.
    #[inline]
    pub(in crate::profiles) fn with_hash(
        bytes: &'a [u8],
        len: usize,
        ipv6: bool,
        next: u8,
        profile: Profile,
        flow: Profile,
    ) -> Self {
        let at = if ipv6 { 40 } else { 20 };
        let mut hash = Hash::default();
        level_words(bytes, 0, ipv6, next, |word| hash = hash.push(word));
        end_words(bytes, at, flow, false, |word| hash = hash.push(word));
        Self { bytes, len, ipv6, profile, hash: hash.finish() }
    }

    #[inline]
    pub(in crate::profiles) const fn transport_at(&self) -> usize {
        if self.ipv6 { 40 } else { 20 }
    }

    pub(in crate::profiles) const fn header_len(&self) -> usize {
        self.transport_at()
            + match self.profile {
                Profile::Rtp => 20,
                Profile::Udp | Profile::Esp => 8,
                _ => 0,
            }
    }

    #[inline]
    pub(in crate::profiles) fn is_as(&self, template: &[u8; MAX_HEADER_LEN]) -> bool {
        match (self.ipv6, self.profile) {
            (false, Profile::Rtp) => same(self.bytes, template, &const { mask::<40>(false, Profile::Rtp) }),
            (false, Profile::Ip) => same(self.bytes, template, &const { mask::<20>(false, Profile::Ip) }),
            (false, _) => same(self.bytes, template, &const { mask::<28>(false, Profile::Udp) }),
            (true, Profile::Rtp) => same(self.bytes, template, &const { mask::<60>(true, Profile::Rtp) }),
            (true, Profile::Ip) => same(self.bytes, template, &const { mask::<40>(true, Profile::Ip) }),
            (true, _) => same(self.bytes, template, &const { mask::<48>(true, Profile::Udp) }),
        }
    }

    #[inline]
    pub(in crate::profiles) fn word(&self, at: usize) -> u16 {
        self.bytes.get(at..at + 2).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]))
    }

    #[inline]
    pub(in crate::profiles) fn long(&self, at: usize) -> u32 {
        let octets = self.bytes.get(at..at + 4).and_then(|octets| octets.first_chunk());
        octets.map_or(0, |octets| u32::from_be_bytes(*octets))
    }

    /// Returns `true` if lengths, and the IPv4 checksum, are right; `ip_sum` is [`Steady::ip_sum`].
    #[inline]
    pub(in crate::profiles) fn is_sound(&self, ip_sum: u32) -> bool {
        let udp = matches!(self.profile, Profile::Rtp | Profile::Udp);
        let at = self.transport_at();
        if udp && usize::from(self.word(at + 4)) != self.len - at {
            return false;
        }
        if self.ipv6 {
            return usize::from(self.word(4)) == self.len - 40;
        }
        let (total, id, checksum) = (self.word(2), self.word(4), self.word(10));
        let sum = ip_sum + u32::from(total) + u32::from(id) + u32::from(checksum);
        let sum = (sum & 0xffff) + (sum >> 16);
        usize::from(total) == self.len && (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    /// Returns the CRC-3 over the header, from that of the static octets.
    ///
    /// Each version has its own branch to the end: there the bits added before are known when this is compiled.
    #[inline]
    fn crc(&self, fixed: u8) -> u8 {
        let fold = Fold3::from(fixed);
        if self.ipv6 {
            self.transport_crc(40, fold.add(self.little(4, 2), 16))
        } else {
            self.transport_crc(20, fold.add(self.little(2, 4), 32).add(self.little(10, 2), 16))
        }
    }

    #[inline]
    fn transport_crc(&self, at: usize, fold: Fold3) -> u8 {
        match self.profile {
            Profile::Rtp => {
                let numbers = self.little(at + 8, 8) >> 8;
                fold.add(self.little(at, 8) >> 32, 32).add(numbers, 56).finish()
            }
            Profile::Udp | Profile::Esp => fold.add(self.little(at, 8) >> 32, 32).finish(),
            _ => fold.finish(),
        }
    }

    /// Returns the CRC-7 over the header, from that of the static octets.
    fn crc7(&self, fixed: u8) -> u8 {
        let bytes = self.bytes.get(..self.header_len()).unwrap_or_default();
        header::dynamic_crc(&CRC7, bytes, &[Level::plain(!self.ipv6, 0)], self.profile, fixed)
    }

    /// Returns `octets` octets from `at` on, in little-endian order; zeros where there are not eight.
    #[inline]
    fn little(&self, at: usize, octets: usize) -> u64 {
        let eight = self.bytes.get(at..at + 8).and_then(|octets| octets.first_chunk());
        eight.map_or(0, |eight| u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * octets)))
    }
}

/// Returns the profile that the general path would try first. `None` if another module has it.
#[inline]
fn profile_of(next: u8, transport: &[u8], config: &CompressorConfig) -> Option<Profile> {
    let allowed = |profile| config.channel.profiles.contains(profile);
    let profile = match next {
        protocol::UDP if transport.len() >= 8 => {
            if allowed(Profile::Rtp) && is_rtp(transport, &config.rtp) {
                Profile::Rtp
            } else {
                Profile::Udp
            }
        }
        protocol::ESP if transport.len() >= 8 => Profile::Esp,
        protocol::UDP | protocol::ESP | protocol::TCP | protocol::UDP_LITE => return None,
        protocol::IPV4 | protocol::IPV6 | protocol::AH | protocol::GRE | protocol::MINIMAL => return None,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => return None,
        _ => Profile::Ip,
    };
    allowed(profile).then_some(profile)
}

/// Values of a packet on the fast path.
struct Step {
    sn: u32,
    distance: u32,
    id: u16,
    ts: u32,
    checksum: u16,
}

impl Compressor {
    /// Returns `true` if `chain` is of this flow with static fields unchanged.
    #[inline]
    pub(crate) fn expects(&self, chain: &Chain<'_>) -> bool {
        self.steady.stands && self.profile == chain.profile && chain.is_as(&self.steady.template)
    }

    /// Writes the packet if it follows from the last one. Returns its type and the length of the header that it
    /// replaces; `None`, and nothing changed, otherwise. The packet must be one that the context [`Self::expects`].
    #[inline]
    pub(crate) fn step(
        &mut self,
        chain: &Chain<'_>,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let step = self.follows(chain, config)?;
        if self.confirm.is_due() {
            return self.step_confirming(chain, &step, now, config, cid, out);
        }
        if !self.passes(now, config) {
            return None;
        }
        cid.write(out, (step.sn as u8 & 0x0f) << 3 | chain.crc(self.steady.crc));
        self.write_tail_of(&step, out);
        self.confirm.stepped();
        self.take(chain, &step, now, config);
        Some((PacketType::Uo0, chain.header_len()))
    }

    /// Writes the packet as [`Self::step`] does, as type 2 with a CRC-7.
    #[inline(never)]
    fn step_confirming(
        &mut self,
        chain: &Chain<'_>,
        step: &Step,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let (_, fixed) = self.static_crcs?;
        if !self.confirm.is_plain() || config.only_ir_and_so {
            return None;
        }
        let kind = self.confirming_type(step)?;
        if !self.passes(now, config) {
            return None;
        }
        let base = Base {
            sn: step.sn,
            ts: self.window.newest().map_or(0, |newest| newest.scaled + step.distance),
            id: u32::from(super::IpChanging { id: step.id, ..self.last.ip[1] }.offset(step.sn)),
            ..Base::default()
        };
        let (octets, len) = base.octets(kind, self.profile.has_rtp(), chain.crc7(fixed));
        cid.write(out, octets[0]);
        out.extend_from_slice(&octets[1..len]);
        self.write_tail_of(step, out);
        self.confirm.confirmed(config, self.mode);
        self.take(chain, step, now, config);
        Some((kind, chain.header_len()))
    }

    /// Returns the shortest type of packet with CRC-7 where type 0 would do. Its bits of the sequence number do, as
    /// there are more of them.
    fn confirming_type(&self, step: &Step) -> Option<PacketType> {
        if self.profile != Profile::Rtp {
            return Some(PacketType::Uor2);
        }
        let newest = *self.window.newest()?;
        let scaled = newest.scaled + step.distance;
        let is_scalable = self.window.iter().all(|reference| reference.residue == newest.residue);
        let fits = |bits: u32| {
            is_scalable
                && self.window.iter().all(|reference| {
                    let span = scaled.wrapping_sub(reference.scaled) as i32;
                    interval_holds((span, span), bits)
                })
        };
        let has_id = self.ipv4[1] && !self.last.ip[1].rnd;
        match has_id {
            true if fits(5) => Some(PacketType::Uor2Ts),
            true => Some(PacketType::Uor2Id),
            false => fits(6).then_some(PacketType::Uor2),
        }
    }

    /// Returns `true` if no refresh is due and the packet is in time. Then both count it.
    #[inline(always)]
    fn passes(&mut self, now: Duration, config: &CompressorConfig) -> bool {
        let Some(timing) = self.timing.next(now) else { return false };
        if self.mode == Mode::Unidirectional {
            if self.ir_clock.is_next_beyond(self.slow_start_gap)
                || self.ir_clock.is_next_due(config.ir_refresh, now)
                || self.fo_clock.is_next_due(config.fo_refresh, now)
            {
                return false;
            }
            self.ir_clock.tick();
            self.fo_clock.tick();
        }
        self.timing = timing;
        true
    }

    /// Writes what follows the base header.
    #[inline]
    fn write_tail_of(&self, step: &Step, out: &mut Vec<u8>) {
        if self.ipv4[1] && self.last.ip[1].rnd {
            out.extend_from_slice(&step.id.to_be_bytes());
        }
        if step.checksum != 0 {
            out.extend_from_slice(&step.checksum.to_be_bytes());
        }
    }

    /// Compares with the last packet, as `observe` and `spans` would.
    #[inline]
    fn follows(&self, chain: &Chain<'_>, config: &CompressorConfig) -> Option<Step> {
        let at = chain.transport_at();
        let numbering = self.numbering();
        let sn = match numbering {
            Numbering::Rtp => u32::from(chain.word(at + 10)),
            Numbering::Esp => chain.long(at + 4),
            Numbering::Generated => self.last.sn.wrapping_add(1) & 0xffff,
        };
        let distance = numbering.distance(self.last.sn, sn);
        let reach = numbering.distance(self.window.oldest()?.sn, sn);
        if !chain.is_sound(self.steady.ip_sum)
            || !(1..=i32::from(Self::repeats(config))).contains(&distance)
            || !(0..16).contains(&(reach.wrapping_add_unsigned(numbering.p(4))))
        {
            return None;
        }
        let distance = distance as u32;
        let id = if chain.ipv6 { self.last.ip[1].id } else { chain.word(4) };
        if !chain.ipv6 && !self.id_follows(id, sn) {
            return None;
        }
        let (mut ts, mut checksum) = (0, 0);
        if matches!(self.profile, Profile::Udp | Profile::Rtp) {
            checksum = chain.word(at + 6);
            if (checksum == 0) != (self.last.checksum == 0) {
                return None;
            }
        }
        if self.profile == Profile::Rtp {
            ts = chain.long(at + 12);
            // Beyond a wraparound the scaled timestamp is another one; not every decompressor derives it.
            if sn < self.last.sn {
                return None;
            }
            if Some(ts) != self.last.ts.checked_add(self.stride.value.wrapping_mul(distance)) {
                return None;
            }
        }
        Some(Step { sn, distance, id, ts, checksum })
    }

    #[inline]
    fn id_follows(&self, id: u16, sn: u32) -> bool {
        let last = &self.last.ip[1];
        if last.rnd {
            return Behaviour::of_step(last.id, id) == Behaviour::Random;
        }
        if last.sid {
            return id == last.id;
        }
        super::IpChanging { id, ..*last }.offset(sn) == last.offset(self.last.sn)
    }

    /// Records the packet, as `observe` and `remember` would.
    #[inline]
    fn take(&mut self, chain: &Chain<'_>, step: &Step, now: Duration, config: &CompressorConfig) {
        self.last.sn = step.sn;
        self.last.ip[1].id = step.id;
        self.last.ts = step.ts;
        self.last.checksum = step.checksum;
        self.last.rest_len = (chain.len - chain.transport_at()) as u32;
        if matches!(self.profile, Profile::Udp | Profile::Rtp) {
            self.last.coverage = self.last.rest_len as u16;
        }
        if !chain.ipv6 {
            self.watches[1].agrees();
        }
        self.stride.seen = 0;
        let (scaled, residue) = self.window.newest().map_or((0, 0), |newest| (newest.scaled, newest.residue));
        let reference = Reference {
            sn: step.sn,
            offsets: [self.last.ip[0].offset(step.sn), self.last.ip[1].offset(step.sn)],
            ts: step.ts,
            scaled: if self.profile == Profile::Rtp { scaled + step.distance } else { scaled },
            residue,
            arrival_ms: timer::milliseconds(now),
        };
        let width = self.width(config);
        self.window.push(reference, width);
    }

    /// Sets the template after a packet on the general path.
    #[inline]
    pub(super) fn set_template(&mut self, job: &Job<'_>) {
        self.steady.stands = self.confirm.is_steady() && self.has_no_changes(job);
        let header_len = self.last.header_len as usize;
        let header = &job.packet.bytes[..header_len.min(MAX_HEADER_LEN)];
        if !self.steady.stands || header_len > MAX_HEADER_LEN {
            self.steady.stands = false;
            return;
        }
        self.steady.template[..header.len()].copy_from_slice(header);
        self.steady.crc = self.static_crcs.map_or(0, |(three, _)| three);
        if self.ipv4[1] {
            self.steady.ip_sum = fixed_ip_sum(header);
        }
    }

    pub(super) fn forget_template(&mut self) {
        self.steady.stands = false;
    }

    fn has_no_changes(&self, job: &Job<'_>) -> bool {
        let simple = self.depth == 1
            && self.lists.is_none()
            && matches!(self.profile, Profile::Rtp | Profile::Udp | Profile::Esp | Profile::Ip)
            && job.packet.levels().len() == 1;
        let timed = self.timer.stride_ms() != 0
            || (job.config.timer_jitter > Duration::ZERO && self.mode != Mode::Unidirectional);
        let strided = !self.profile.has_rtp() || (self.stride.value > 1 && !timed);
        let ascending = || {
            let numbering = self.numbering();
            let pairs = self.window.iter().zip(self.window.iter().skip(1));
            pairs.into_iter().all(|(one, two)| numbering.distance(one.sn, two.sn) > 0)
        };
        simple
            && strided
            && self.mode != Mode::Reliable
            && self.static_crcs.is_some()
            && !self.must_extend()
            && ascending()
    }
}
