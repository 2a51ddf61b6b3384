//! References that the decompressor may hold (RFC 6846 5.2.1.1).
//!
//! By the optimistic approach the decompressor has received at least one of the last N packets, so a value may be left
//! out when all of them had it, and may be sent in few bits when they decode rightly against each of them. N is the
//! number of references kept here; an acknowledgement drops those older than the packet acknowledged.

use alloc::vec::Vec;

use super::chain::Chain;
use super::formats::{Field, Part};
use super::ip::u32_at;
use super::kind::Kind;
use super::{extension, options};

/// Values of one packet sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ref {
    pub(super) msn: u16,
    pub(super) ip_id_offset: u16,
    pub(super) window: u16,
    pub(super) ttl: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) payload_len: u32,
    /// Items of the options' table that were sent whole.
    pub(super) items_sent: u16,
}

/// Newest entries pushed, in no order.
#[derive(Clone, Debug)]
struct Ring<T> {
    slots: Vec<T>,
    /// The oldest, once the ring is full.
    oldest: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), oldest: 0 }
    }
}

impl<T> Ring<T> {
    fn clear(&mut self) {
        self.slots.clear();
        self.oldest = 0;
    }

    /// Adds `value` in place of the oldest if there are `width` already.
    #[inline]
    fn push(&mut self, value: T, width: usize) {
        if self.slots.len() < width.max(1) {
            self.slots.reserve_exact(width - self.slots.len());
            self.slots.push(value);
            return;
        }
        self.slots[self.oldest] = value;
        self.oldest = if self.oldest + 1 == self.slots.len() { 0 } else { self.oldest + 1 };
    }

    #[inline]
    fn oldest(&self) -> Option<&T> {
        self.slots.get(self.oldest)
    }

    #[inline]
    fn newest(&self) -> Option<&T> {
        if self.oldest == 0 { self.slots.last() } else { self.slots.get(self.oldest - 1) }
    }

    /// Drops what `keep` does not hold for.
    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.slots.rotate_left(self.oldest);
        self.oldest = 0;
        self.slots.retain(keep);
    }
}

/// Maximum step of a number that counts on.
const MAX_STEP: u32 = 1 << 26;

impl Ref {
    /// Returns `true` if `next` continues this packet with the same window and TTL.
    #[inline]
    fn leads_to(&self, next: &Self) -> bool {
        next.seq.wrapping_sub(self.seq) < MAX_STEP
            && next.ack.wrapping_sub(self.ack) < MAX_STEP
            && next.ip_id_offset.wrapping_sub(self.ip_id_offset) < (MAX_STEP >> 16) as u16
            && (next.window, next.ttl) == (self.window, self.ttl)
    }
}

/// The references.
#[derive(Clone, Debug, Default)]
pub(super) struct Refs {
    ring: Ring<Ref>,
    /// Number of newest references that each continue the one before.
    leading: u8,
    /// Number of the newest that were followed by one with as much payload.
    even: u8,
}

/// Least and greatest distance of a value from the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    least: i32,
    greatest: i32,
}

impl Spread {
    const EMPTY: Spread = Spread { least: i32::MAX, greatest: i32::MIN };
    const STILL: Spread = Spread { least: 0, greatest: 0 };

    #[inline]
    fn add(&mut self, distance: i32) {
        self.least = self.least.min(distance);
        self.greatest = self.greatest.max(distance);
    }

    /// Returns `true` if all references had the value.
    pub(super) const fn is_still(self) -> bool {
        self.least == 0 && self.greatest == 0
    }

    /// Returns `true` if `bits` bits with interval offset `p` decode rightly against every reference.
    #[inline]
    pub(super) const fn fits(self, bits: u32, p: u32) -> bool {
        let (least, greatest, p) = (self.least as i64, self.greatest as i64, p as i64);
        least >= -p && greatest < (1 << bits) - p
    }
}

/// The spreads of one packet's values over the references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spreads {
    pub(super) seq: Spread,
    pub(super) ack: Spread,
    pub(super) window: Spread,
    pub(super) ttl: Spread,
    pub(super) ip_id: Spread,
    msn: Spread,
    same_payload_len: bool,
}

impl Spreads {
    /// Returns `true` if a field can be sent as this part of a format.
    #[inline]
    pub(super) fn fits(&self, part: &Part, current: &Ref, refs: &Refs, stride: u16) -> bool {
        match part.field {
            Field::Seq => self.seq.fits(part.bits, part.p),
            Field::Ack => self.ack.fits(part.bits, part.p),
            Field::Window => part.bits == 16 || self.window.fits(part.bits, part.p),
            Field::IpId => self.ip_id.fits(part.bits, part.p),
            Field::Ttl => self.ttl.fits(part.bits, part.p),
            Field::SeqScaled => {
                self.same_payload_len
                    && refs.fit_scaled(|r| r.seq, current.seq, current.payload_len, part.bits, part.p)
            }
            Field::AckScaled => refs.fit_scaled(|r| r.ack, current.ack, u32::from(stride), part.bits, part.p),
            // That is the same in every format: [`Self::msn_fits`].
            Field::Msn | Field::Psh | Field::Rsf | Field::EcnUsed | Field::ListPresent | Field::Crc => true,
        }
    }

    /// Returns `true` if the master sequence number follows from four bits.
    #[inline]
    pub(super) const fn msn_fits(&self) -> bool {
        self.msn.fits(4, 4)
    }
}

impl Refs {
    pub(super) fn clear(&mut self) {
        *self = Self { ring: core::mem::take(&mut self.ring), ..Self::default() };
        self.ring.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.slots.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ring.slots.len()
    }

    /// Adds the packet sent, and keeps the newest `width`.
    #[inline]
    pub(super) fn push(&mut self, sent: Ref, width: usize) {
        if let Some(newest) = self.ring.newest() {
            self.leading = if newest.leads_to(&sent) { self.leading.saturating_add(1) } else { 0 };
            self.even = if newest.payload_len == sent.payload_len { self.even.saturating_add(1) } else { 0 };
        }
        self.ring.push(sent, width);
    }

    /// The decompressor has the packet `msn`: older ones stop being references. The packet, if it is one still.
    pub(super) fn acknowledge(&mut self, msn: u16) -> Option<Ref> {
        let acknowledged = *self.ring.slots.iter().find(|sent| sent.msn == msn)?;
        self.ring.retain(|sent| !is_before(sent.msn, msn));
        Some(acknowledged)
    }

    #[inline]
    pub(super) fn spreads(&self, current: &Ref) -> Spreads {
        self.spreads_of_leading(current).unwrap_or_else(|| self.spreads_of_all(current))
    }

    /// Returns the spreads if each reference leads to the next, and the newest to `current`.
    #[inline]
    fn spreads_of_leading(&self, current: &Ref) -> Option<Spreads> {
        let (oldest, newest) = (self.ring.oldest()?, self.ring.newest()?);
        let pairs = self.len() - 1;
        if usize::from(self.leading) < pairs || !newest.leads_to(current) {
            return None;
        }
        let between = |field: fn(&Ref) -> u32| {
            let distance = |reference: &Ref| field(current).wrapping_sub(field(reference)).cast_signed();
            Spread { least: distance(newest), greatest: distance(oldest) }
        };
        let between16 = |field: fn(&Ref) -> u16| {
            let distance = |reference: &Ref| distance16(field(current), field(reference));
            Spread { least: distance(newest), greatest: distance(oldest) }
        };
        Some(Spreads {
            seq: between(|r| r.seq),
            ack: between(|r| r.ack),
            window: Spread::STILL,
            ttl: Spread::STILL,
            ip_id: between16(|r| r.ip_id_offset),
            msn: between16(|r| r.msn),
            same_payload_len: usize::from(self.even) >= pairs && newest.payload_len == current.payload_len,
        })
    }

    fn spreads_of_all(&self, current: &Ref) -> Spreads {
        let e = Spread::EMPTY;
        let mut spreads =
            Spreads { seq: e, ack: e, window: e, ttl: e, ip_id: e, msn: e, same_payload_len: true };
        for reference in &self.ring.slots {
            spreads.seq.add(current.seq.wrapping_sub(reference.seq).cast_signed());
            spreads.ack.add(current.ack.wrapping_sub(reference.ack).cast_signed());
            spreads.window.add(distance16(current.window, reference.window));
            spreads.ip_id.add(distance16(current.ip_id_offset, reference.ip_id_offset));
            spreads.msn.add(distance16(current.msn, reference.msn));
            spreads.ttl.add(i32::from(current.ttl.wrapping_sub(reference.ttl).cast_signed()));
            spreads.same_payload_len &= current.payload_len == reference.payload_len;
        }
        spreads
    }

    /// Returns `true` if `value` in units of `stride` decodes against every reference.
    #[inline]
    fn fit_scaled(&self, field: impl Fn(&Ref) -> u32, value: u32, stride: u32, bits: u32, p: u32) -> bool {
        let stride = i64::from(stride);
        let (least, most) = (-i64::from(p) * stride, ((1 << bits) - i64::from(p)) * stride);
        stride != 0
            && self.ring.slots.iter().all(|reference| {
                // Of two numbers with the same residue, and so without: a number that wraps has another.
                let distance = i64::from(value) - i64::from(field(reference));
                distance >= least
                    && distance < most
                    && (distance.unsigned_abs() as u32).is_multiple_of(stride as u32)
            })
    }
}

/// AH and GRE numbers of the references, oldest packet first. Each packet has as many.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences(Vec<u32>);

impl Sequences {
    /// Adds those of a packet, and keeps those of the newest `packets`.
    pub(super) fn push(&mut self, chain: &Chain, headers: &[u8], packets: usize) {
        if !chain.links.iter().any(|link| matches!(link.kind, Kind::Ah | Kind::Gre)) {
            return;
        }
        self.0.extend(sequences(chain, headers));
        self.keep(chain, headers, packets);
    }

    /// Keeps those of the newest `packets`, of a chain as that of `headers`.
    pub(super) fn keep(&mut self, chain: &Chain, headers: &[u8], packets: usize) {
        let each = sequences(chain, headers).count();
        self.0.drain(..self.0.len().saturating_sub(each * packets));
    }

    /// Returns `Some(true)` if numbers need the long form, `None` if even that is too short.
    pub(super) fn are_long(&self, chain: &Chain, headers: &[u8]) -> Option<bool> {
        if self.0.is_empty() {
            return Some(false);
        }
        let mut long = false;
        let each = sequences(chain, headers).count();
        for (at, value) in sequences(chain, headers).enumerate() {
            for &reference in self.0.iter().skip(at).step_by(each) {
                long |= extension::sequence_is_long(reference, value)?;
            }
        }
        Some(long)
    }
}

fn sequences<'a>(chain: &'a Chain, headers: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
    chain.links.iter().filter_map(|link| {
        let header = &headers[link.range()];
        extension::sequence_at(link.kind, header).map(|at| u32_at(header, at))
    })
}

/// Timestamps of the last packets with that option.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    ring: Ring<Stamp>,
    /// Number of the newest that were followed by one not before it.
    rising: u8,
}

#[derive(Clone, Copy, Debug)]
struct Stamp {
    msn: u16,
    /// Value and echo.
    values: [u32; 2],
}

impl Stamp {
    #[inline]
    fn rises_to(&self, [value, echo]: [u32; 2]) -> bool {
        value.wrapping_sub(self.values[0]) < MAX_STEP && echo.wrapping_sub(self.values[1]) < MAX_STEP
    }
}

impl Stamps {
    pub(super) fn clear(&mut self) {
        self.ring.clear();
        self.rising = 0;
    }

    #[inline]
    pub(super) fn push(&mut self, msn: u16, values: [u32; 2], width: usize) {
        if let Some(newest) = self.ring.newest() {
            self.rising = if newest.rises_to(values) { self.rising.saturating_add(1) } else { 0 };
        }
        self.ring.push(Stamp { msn, values }, width);
    }

    /// Acknowledges the packet `msn`: if it had the option, older ones stop being references.
    pub(super) fn acknowledge(&mut self, msn: u16) {
        if self.ring.slots.iter().any(|stamp| stamp.msn == msn) {
            self.ring.retain(|stamp| !is_before(stamp.msn, msn));
        }
    }

    /// Returns the octets of value and echo that decode against all references, if any do.
    #[inline]
    pub(super) fn lens(&self, values: [u32; 2]) -> Option<[u32; 2]> {
        if let (Some(oldest), Some(newest)) = (self.ring.oldest(), self.ring.newest())
            && usize::from(self.rising) + 1 >= self.ring.slots.len()
            && newest.rises_to(values)
        {
            // What decodes against these two does against all between.
            let of = |which: usize| {
                options::timestamp_len(
                    values[which],
                    [oldest, newest].map(|stamp| stamp.values[which]).into_iter(),
                )
            };
            return Some([of(0)?, of(1)?]);
        }
        let of = |which: usize| self.ring.slots.iter().map(move |stamp| stamp.values[which]);
        let value = options::timestamp_len(values[0], of(0))?;
        Some([value, options::timestamp_len(values[1], of(1))?])
    }
}

const fn is_before(msn: u16, other: u16) -> bool {
    msn.wrapping_sub(other) > 1 << 15
}

fn distance16(value: u16, reference: u16) -> i32 {
    i32::from(value.wrapping_sub(reference).cast_signed())
}
