//! Fast path of the compressor.
//!
//! A packet whose static fields are those of a template, and whose numbers, timestamp and IP-ID go on as they did,
//! goes out as `pt_0_crc3`, or as `pt_0_crc7` where it confirms. The template stands only while the context has nothing to signal;
//! it is set by the general path, which everything else goes. Both ways write the same octets and leave the same context
//! (tested).

use alloc::vec::Vec;
use core::time::Duration;

use super::observe::{IdWatch, StrideWatch};
use super::{Compressor, Place, Ref, Set, View};
use crate::framework::config::CompressorConfig;
use crate::framework::crc::{CRC7, crc3};
use crate::framework::frame::Cid;
use crate::framework::lsb;
use crate::framework::packet::{is_rtp, protocol};
use crate::framework::profile::{PacketType, Profile};
use crate::profiles::rfc3095::{Chain, MAX_HEADER_LEN, fixed_ip_sum};
use crate::profiles::tcp::ip::IpId;
use crate::profiles::v2::control::{distance, mask};
use crate::profiles::v2::{Job, transport};

/// Header chain that may take the fast path, of one IP header and a transport.
#[derive(Clone, Copy, Debug)]
pub(in crate::profiles::v2) struct Plain<'a> {
    chain: Chain<'a>,
    pub(in crate::profiles::v2) profile: Profile,
}

impl<'a> Plain<'a> {
    /// Returns the chain of a packet of `len` octets. `None` when it needs the general path; lengths and
    /// checksums are not compared yet.
    #[inline]
    pub(in crate::profiles::v2) fn of(
        bytes: &'a [u8],
        len: usize,
        config: &CompressorConfig,
    ) -> Option<Self> {
        let limit = config.max_packet_bytes as usize;
        let head = bytes.first_chunk::<20>().filter(|_| limit == 0 || len <= limit)?;
        let (ipv6, next, at) = match head[0] {
            0x45 => (false, head[9], 20),
            0x60..=0x6f => (true, head[6], 40),
            _ => return None,
        };
        let profile = profile_of(next, bytes.get(at..)?, config)?;
        let chain = Chain::with_hash(bytes, len, ipv6, next, profile.headers(), profile);
        Some(Self { chain, profile })
    }

    /// Returns the hash of its flow's key.
    #[inline]
    pub(in crate::profiles::v2) const fn hash(&self) -> u32 {
        self.chain.hash
    }
}

/// Returns the first choice of the general path, if it is of version 2.
#[inline]
fn profile_of(next: u8, transport: &[u8], config: &CompressorConfig) -> Option<Profile> {
    let allowed = |profile| config.channel.profiles.contains(profile);
    let profile = match next {
        protocol::UDP if transport.len() >= 8 => {
            let may_be_rtp = allowed(Profile::RtpV2) || allowed(Profile::Rtp);
            if may_be_rtp && is_rtp(transport, &config.rtp) { Profile::RtpV2 } else { Profile::UdpV2 }
        }
        protocol::ESP if transport.len() >= 8 => Profile::EspV2,
        protocol::UDP | protocol::ESP | protocol::TCP | protocol::UDP_LITE => return None,
        protocol::IPV4 | protocol::IPV6 | protocol::AH | protocol::GRE | protocol::MINIMAL => return None,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => return None,
        _ => Profile::IpV2,
    };
    allowed(profile).then_some(profile)
}

/// Template of a packet on the fast path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    stands: bool,
    /// Sum of the words of an IPv4 header but length, identification and checksum.
    ip_sum: u32,
    template: [u8; MAX_HEADER_LEN],
}

impl Default for Steady {
    fn default() -> Self {
        Self { stands: false, ip_sum: 0, template: [0; MAX_HEADER_LEN] }
    }
}

impl Steady {
    pub(super) const fn forget(&mut self) {
        self.stands = false;
    }
}

/// Values of a packet on the fast path.
struct Next {
    reference: Ref,
    id: u16,
    checksum: u16,
}

impl Compressor {
    /// Returns `true` if `plain` is of this flow with static fields unchanged.
    #[inline]
    pub(in crate::profiles::v2) fn expects(&self, plain: &Plain<'_>) -> bool {
        self.steady.stands && self.profile == plain.profile && plain.chain.is_as(&self.steady.template)
    }

    /// Writes the packet if it follows from the last one. Returns its type and the length of the header that it
    /// replaces; `None`, and nothing changed, otherwise. The packet must be one that the context [`Self::expects`].
    #[inline]
    pub(in crate::profiles::v2) fn step(
        &mut self,
        plain: &Plain<'_>,
        now: Duration,
        config: &CompressorConfig,
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let chain = &plain.chain;
        let next = self.follows(chain, config)?;
        let header = chain.bytes.get(..chain.header_len())?;
        let timing = self.timing.next(now)?;
        if !self.is_bidirectional && self.is_refresh_due(now, config) {
            return None;
        }
        self.ir_clock.tick();
        self.fo_clock.tick();
        let number = next.reference.number;
        let kind = if self.confirm.is_due() && config.confirms() {
            self.write_strong(number, CRC7.of(header), cid, out);
            PacketType::Pt0Crc7
        } else {
            cid.write(out, (number as u8 & 0x0f) << 3 | crc3(header));
            PacketType::Pt0Crc3
        };
        if !chain.ipv6 && self.chain.inner().ip_id == IpId::Random {
            out.extend_from_slice(&next.id.to_be_bytes());
        }
        if next.checksum != 0 {
            out.extend_from_slice(&next.checksum.to_be_bytes());
        }
        self.timing = timing;
        self.keep(&next, header, kind, config);
        Some((kind, header.len()))
    }

    fn is_refresh_due(&self, now: Duration, config: &CompressorConfig) -> bool {
        self.slow_start_gap > 0
            || self.ir_clock.is_next_due(config.ir_refresh, now)
            || self.fo_clock.is_next_due(config.fo_refresh, now)
    }

    /// Writes the base header of `pt_0_crc7`.
    #[inline(never)]
    fn write_strong(&self, number: u32, crc: u8, cid: Cid, out: &mut Vec<u8>) {
        let (discriminator, bits) = if self.profile.has_rtp() { (0x8000, 5) } else { (0x8000, 6) };
        let msn = (number & ((1 << bits) - 1)) << 7;
        let [first, second] = (discriminator | msn as u16 | u16::from(crc)).to_be_bytes();
        cid.write(out, first);
        out.push(second);
    }

    /// Compares with the last packet, as `observe` and `choose` would.
    #[inline]
    fn follows(&self, chain: &Chain<'_>, config: &CompressorConfig) -> Option<Next> {
        let at = chain.transport_at();
        let last = self.window.newest()?;
        let number = match chain.profile {
            Profile::Rtp => u32::from(chain.word(at + 10)),
            Profile::Esp => chain.long(at + 4),
            _ => last.number.wrapping_add(1) & 0xffff,
        };
        let ahead = distance(self.profile, last.number, number);
        if !chain.is_sound(self.steady.ip_sum)
            || !(1..=i32::from(config.repeats.max(1))).contains(&ahead)
            || !self.steps_fit(last, number, config)
        {
            return None;
        }
        let (mut id, mut offset) = (0, 0);
        if !chain.ipv6 {
            id = chain.word(4);
            offset = self.offset_of_next(last, id, number)?;
        }
        let mut checksum = 0;
        if matches!(chain.profile, Profile::Udp | Profile::Rtp) {
            checksum = chain.word(at + 6);
            let was_zero = self.headers.get(at + 6..at + 8) == Some(&[0, 0]);
            if (checksum == 0) != was_zero {
                return None;
            }
        }
        let mut ts = 0;
        if chain.profile == Profile::Rtp {
            ts = chain.long(at + 12);
            let expected = last.ts.wrapping_add((ahead as u32).wrapping_mul(self.control.ts_stride));
            if ts != expected || usize::from(self.ts_run) + 1 < self.window.len() {
                return None;
            }
        }
        Some(Next { reference: Ref { number, ts, offset }, id, checksum })
    }

    /// Returns `true` if four bits of `number` are enough, all references being in order.
    #[inline]
    fn steps_fit(&self, last: &Ref, number: u32, config: &CompressorConfig) -> bool {
        let repeats = usize::from(config.repeats.max(1));
        let oldest = if self.window.len() <= repeats {
            self.window.oldest()
        } else {
            self.window.iter().rev().nth(repeats - 1)
        };
        let p = self.control.reorder.depth(super::SHORTEST_MSN_BITS);
        self.place == Place::at(last.number)
            && usize::from(self.number_run) + 1 >= self.window.len().min(repeats)
            && oldest.is_some_and(|oldest| {
                lsb::fits(oldest.number, number, super::SHORTEST_MSN_BITS, p, mask(self.profile))
            })
    }

    /// Returns the offset of the IP-ID if it behaves as it did.
    #[inline]
    fn offset_of_next(&self, last: &Ref, id: u16, number: u32) -> Option<u16> {
        let behavior = self.chain.inner().ip_id;
        let offset = behavior.counter(id).wrapping_sub(number as u16);
        let last_id = behavior.counter(last.offset.wrapping_add(last.number as u16));
        let goes_on = match behavior {
            IpId::Sequential | IpId::Swapped => {
                offset == last.offset && usize::from(self.id_run) + 1 >= self.window.len()
            }
            _ => true,
        };
        (goes_on && IdWatch::see(last_id, id) == behavior).then_some(offset)
    }

    /// Records the packet, as `observe` and `write` would.
    #[inline]
    fn keep(&mut self, next: &Next, header: &[u8], kind: PacketType, config: &CompressorConfig) {
        let number = next.reference.number;
        (self.control.number, self.place) = (number, Place::at(number));
        self.number_run = self.number_run.saturating_add(1);
        self.ts_run = self.ts_run.saturating_add(u8::from(self.profile == Profile::RtpV2));
        let goes_on = self.window.newest().is_some_and(|last| last.offset == next.reference.offset);
        let is_v4 = header.first().is_some_and(|first| first >> 4 == 4);
        if is_v4 {
            self.id_run = if goes_on { self.id_run.saturating_add(1) } else { 0 };
        }
        (self.id_watch, self.stride_watch) = (IdWatch::default(), StrideWatch::default());
        self.confirmed(kind, config);
        self.window.push(next.reference, usize::from(Self::width(config)));
        if let Some(place) = self.headers.get_mut(..header.len()) {
            place.copy_from_slice(header);
        }
        self.packets = self.packets.saturating_add(1);
    }

    /// Sets the template after a packet on the general path.
    #[inline]
    pub(super) fn set_template(&mut self, job: &Job<'_>, view: &View<'_>) {
        let header = view.headers;
        let is_simple = self.chain.is_single()
            && job.packet.levels().len() == 1
            && header.len() <= MAX_HEADER_LEN
            && self.groups.due() == Set::NONE
            && self.behind_changes == 0
            && matches!(self.profile, Profile::RtpV2 | Profile::UdpV2 | Profile::EspV2 | Profile::IpV2);
        let rtp = || view.rtp();
        let has_rtp = self.profile.has_rtp();
        let is_plain = || !has_rtp || rtp()[1] & transport::MARKER == 0 && view.csrcs().is_empty();
        self.steady.stands = is_simple && is_plain();
        if !self.steady.stands {
            return;
        }
        self.steady.template[..header.len()].copy_from_slice(header);
        if header[0] >> 4 == 4 {
            self.steady.ip_sum = fixed_ip_sum(header);
        }
    }
}
