//! Streams of RTP on several legs, merged by their numbers (SMPTE ST 2022-7).
//!
//! Legs have the same synchronisation source, payload type, numbers and contents, and other addresses or links. The first packet of
//! each number is used. Behind a hole packets wait until each leg has passed it, or for the longest skew of legs (class C).
//! A leg with other contents is a stream of its own.

use std::collections::BTreeMap;

use bentpipe_wire::rtp::{Numbers, Place};

use crate::duplicates::Sum;
use crate::kept::Kept;
use crate::refusal::Refusal;
use crate::{Reason, StreamId};

/// Longest skew of legs in nanoseconds (ST 2022-7, class C).
const MAX_SKEW_NS: u64 = 450_000_000;
/// Most packets that wait behind a hole.
const MAX_WAITING: usize = 8192;
/// Longest distance of the numbers of two legs.
const MAX_DISTANCE: u64 = 8192;
/// Most legs of a stream.
const MAX_LEGS: usize = 4;
/// Numbers whose contents are remembered.
const REMEMBERED: u64 = 4096;
/// Number of packets with other contents that show another stream.
const OTHERS: u64 = 3;

/// Leg of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Identity that it would have by itself.
    pub id: StreamId,
    /// RTP packets that came on it.
    pub datagrams: u64,
    /// RTP packets that are missing on it by their numbers.
    pub missing: u64,
    /// RTP packets with other contents than another leg's of the same number.
    pub differing: u64,
}

/// Leg with its state.
#[derive(Debug)]
struct State {
    leg: Leg,
    numbers: Numbers,
    /// Highest number, counted over wraps.
    highest: u64,
    same: u64,
    /// First packets with other contents, until the leg turns out to be another stream.
    held: Vec<Held>,
}

/// Packet that may be of another stream.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) seq: u16,
    pub(crate) stamp: u32,
    pub(crate) packet: Waiting,
}

/// Packet that waits for others in front of it.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Records that it came in. Fragments have several.
    pub(crate) kept: Vec<Kept>,
    pub(crate) payload: Vec<u8>,
    pub(crate) time_ns: Option<u64>,
}

/// Decision on a packet.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Next packet of the stream.
    Next,
    /// Packet ahead, which waits under this number.
    Wait(u64),
    /// First packet of a stream that begins again, with its number.
    Restart(u64),
    LeftOut(Refusal),
    /// Packet that counted as missing on all legs, and comes behind its place.
    TooLate,
    /// Packet that waits until it is known whether its leg is another stream.
    Hold,
    /// Packet of another stream, behind those that were held.
    Apart(Vec<Held>),
}

/// RTP packet of a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered<'a> {
    pub(crate) ssrc: u32,
    pub(crate) payload_type: u8,
    pub(crate) seq: u16,
    pub(crate) stamp: u32,
    pub(crate) payload: &'a [u8],
}

/// Stream of one leg or more.
#[derive(Debug)]
pub(crate) struct Merged {
    ssrc: u32,
    payload_type: u8,
    /// Place of its stream, once it has one.
    pub(crate) place: Option<usize>,
    legs: Vec<State>,
    /// Number of the next packet, counted over wraps.
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Numbers and sums of the last contents.
    recent: Vec<(u64, u64)>,
}

impl Merged {
    /// Begins with the first packet of a leg.
    pub(crate) fn begin(id: StreamId, packet: Numbered<'_>) -> Merged {
        let Numbered { ssrc, payload_type, seq, .. } = packet;
        // Numbers before the first one are above 0.
        let next = (1 << 32) + u64::from(seq);
        let (place, legs, waiting) = (None, Vec::new(), BTreeMap::new());
        let mut merged = Merged { ssrc, payload_type, place, legs, next, waiting, recent: Vec::new() };
        merged.add_leg(id, seq, next);
        merged
    }

    fn add_leg(&mut self, id: StreamId, seq: u16, highest: u64) {
        let leg = Leg { id, datagrams: 0, missing: 0, differing: 0 };
        // Its first packet is counted as any other.
        let numbers = Numbers::begin(seq.wrapping_sub(1));
        self.legs.push(State { leg, numbers, highest, same: 0, held: Vec::new() });
    }

    /// Returns `true` if a packet came on a leg of the stream.
    pub(crate) fn has_leg(&self, id: &StreamId) -> bool {
        self.legs.iter().any(|state| state.leg.id == *id)
    }

    /// Returns `true` if a packet of a new leg may be one of the stream.
    pub(crate) fn may_have(&self, packet: Numbered<'_>) -> bool {
        let is_near = self.number(packet.seq).abs_diff(self.next) <= MAX_DISTANCE;
        self.ssrc == packet.ssrc
            && self.payload_type == packet.payload_type
            && self.legs.len() < MAX_LEGS
            && is_near
    }

    /// Returns the identity of the first leg.
    pub(crate) fn id(&self) -> Option<StreamId> {
        self.legs.first().map(|state| state.leg.id)
    }

    /// Returns the legs.
    pub(crate) fn legs(&self) -> impl Iterator<Item = Leg> {
        self.legs.iter().map(|state| state.leg)
    }

    /// Returns a number of 16 bits as the one next to the next packet's.
    fn number(&self, seq: u16) -> u64 {
        let ahead = seq.wrapping_sub(self.next as u16) as i16;
        self.next.saturating_add_signed(ahead.into())
    }

    /// Decides on a packet of a leg by its number and contents.
    pub(crate) fn take(&mut self, id: StreamId, packet: Numbered<'_>) -> Taken {
        let number = self.number(packet.seq);
        let at = self.legs.iter().position(|state| state.leg.id == id).unwrap_or_else(|| {
            self.add_leg(id, packet.seq, number);
            self.legs.len() - 1
        });
        let place = match self.count(at, packet) {
            // An outage of one leg does not end the stream.
            Place::Jump if self.goes_on(at, number) => self.rejoin(at, number, packet),
            place => place,
        };
        if place == Place::Restart {
            self.legs[at].highest = number;
            self.remember(number, packet.payload);
            return Taken::Restart(number);
        }
        if place == Place::Jump || number.abs_diff(self.next) > MAX_DISTANCE {
            return Taken::LeftOut((Reason::Content, "of RTP packets out of sequence".into()));
        }
        let state = &mut self.legs[at];
        state.highest = state.highest.max(number);
        if place == Place::Duplicate {
            return Taken::LeftOut((Reason::Duplicate, "of RTP packets that came before".into()));
        }
        if let Some(is_same) = self.recall(number, packet.payload) {
            return self.compare(at, is_same);
        }
        if number < self.next {
            if self.is_forgotten(number) {
                return Taken::LeftOut(behind());
            }
            self.remember(number, packet.payload);
            return Taken::TooLate;
        }
        self.remember(number, packet.payload);
        if number == self.next { Taken::Next } else { Taken::Wait(number) }
    }

    /// Returns `true` if another leg has a number near this one, ahead of this leg.
    fn goes_on(&self, at: usize, number: u64) -> bool {
        let is_near = |(n, state): (usize, &State)| n != at && state.highest.abs_diff(number) <= MAX_DISTANCE;
        number > self.legs[at].highest && self.legs.iter().enumerate().any(is_near)
    }

    /// Counts what a leg missed while others went on.
    fn rejoin(&mut self, at: usize, number: u64, packet: Numbered<'_>) -> Place {
        let State { leg, numbers, highest, .. } = &mut self.legs[at];
        leg.missing += number - *highest - 1;
        *numbers = Numbers::begin_at(packet.seq, packet.stamp);
        Place::Ahead(0)
    }

    /// Counts a packet on its leg.
    fn count(&mut self, at: usize, packet: Numbered<'_>) -> Place {
        let State { leg, numbers, .. } = &mut self.legs[at];
        leg.datagrams += 1;
        let place = numbers.take_at(packet.seq, packet.stamp);
        match place {
            Place::Ahead(missing) | Place::Outage(missing) => leg.missing += u64::from(missing),
            Place::Late(_) => leg.missing = leg.missing.saturating_sub(1),
            Place::Duplicate | Place::Jump | Place::Restart => {}
        }
        place
    }

    /// Decides on a packet whose number came on another leg.
    fn compare(&mut self, at: usize, is_same: bool) -> Taken {
        let State { leg, same, .. } = &mut self.legs[at];
        if is_same {
            *same += 1;
            return Taken::LeftOut((Reason::Duplicate, "of RTP packets that another leg had".into()));
        }
        leg.differing += 1;
        let (is_apart, is_open) = (leg.differing >= OTHERS && leg.differing > *same, *same == 0);
        match self.legs.len() > 1 {
            true if is_apart => Taken::Apart(self.legs.remove(at).held),
            true if is_open => Taken::Hold,
            _ => Taken::LeftOut(differing()),
        }
    }

    /// Keeps a packet of a leg that may be another stream.
    pub(crate) fn hold(&mut self, id: &StreamId, held: Held) {
        if let Some(state) = self.legs.iter_mut().find(|state| state.leg.id == *id) {
            state.held.push(held);
        }
        debug_assert!(self.legs.iter().all(|state| state.held.len() < OTHERS as usize));
    }

    /// Returns the packets that were held at the end.
    pub(crate) fn held(&mut self) -> Vec<Held> {
        self.legs.iter_mut().flat_map(|state| std::mem::take(&mut state.held)).collect()
    }

    /// Returns `true` if a number came with the same contents.
    fn recall(&self, number: u64, payload: &[u8]) -> Option<bool> {
        let (_, sum) = self.recent.get((number % REMEMBERED) as usize).filter(|(of, _)| *of == number)?;
        Some(*sum == sum_of(payload))
    }

    /// Returns `true` if a later number has the place of this one.
    fn is_forgotten(&self, number: u64) -> bool {
        self.recent.get((number % REMEMBERED) as usize).is_some_and(|(of, _)| *of > number)
    }

    fn remember(&mut self, number: u64, payload: &[u8]) {
        if self.recent.is_empty() {
            self.recent.resize(REMEMBERED as usize, (0, 0));
        }
        self.recent[(number % REMEMBERED) as usize] = (number, sum_of(payload));
    }

    /// Keeps a packet under its number.
    pub(crate) fn wait(&mut self, number: u64, packet: Waiting) {
        self.waiting.insert(number, packet);
    }

    /// Advances behind the next packet.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Begins again with a packet of this number.
    pub(crate) fn restart(&mut self, number: u64) {
        self.next = number;
    }

    /// Returns the next packet that waits, if it is due.
    ///
    /// With it comes the number of those missing in front of it. At the end all are due.
    pub(crate) fn due(&mut self, now_ns: Option<u64>, is_end: bool) -> Option<(u64, Waiting)> {
        let (&number, first) = self.waiting.first_key_value()?;
        let is_late = now_ns
            .zip(first.time_ns)
            .is_none_or(|(now_ns, at_ns)| now_ns.saturating_sub(at_ns) > MAX_SKEW_NS);
        let have_passed = self.legs.len() > 1 && self.legs.iter().all(|state| state.highest >= number);
        let is_due =
            number <= self.next || have_passed || is_late || is_end || self.waiting.len() > MAX_WAITING;
        if !is_due {
            return None;
        }
        let missing = number.saturating_sub(self.next);
        self.next = number + 1;
        self.waiting.remove(&number).map(|packet| (missing, packet))
    }
}

/// Returns the reason of a packet that another leg has with other contents.
pub(crate) fn differing() -> Refusal {
    (Reason::Content, "of RTP packets with other contents than another leg's".into())
}

/// Returns the reason of a packet whose place has passed.
pub(crate) fn behind() -> Refusal {
    (Reason::Content, "of RTP packets behind their place in all legs".into())
}

/// Returns a sum over the contents of a packet.
fn sum_of(payload: &[u8]) -> u64 {
    let mut sum = Sum(payload.len() as u64 + 1);
    sum.bytes(payload);
    sum.0
}
