//! Earlier uses of CIDs.
//!
//! Feedback names a CID and a sequence number (RFC 3095 5.7.6), not a flow. Feedback that arrives late may be of the flow
//! that had the CID before, and must not confirm anything of the present one.

use alloc::vec::Vec;
use core::time::Duration;

/// Time after the end of a use for which its feedback may arrive, in milliseconds.
const LIFETIME_MS: u64 = 5000;
/// Maximum number of packets of a use whose feedback may still arrive.
const REACH: u32 = 1024;
/// Maximum number of uses of a CID that are remembered one by one.
const USES: usize = 16;

/// Sequence numbers of the packets of one use of a CID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentNumbers {
    newest: u32,
    count: u32,
}

impl SentNumbers {
    /// Any number.
    const ANY: Self = Self { newest: 0, count: u32::MAX };

    /// Creates the numbers of `count` packets up to `newest`.
    pub(crate) fn new(newest: u32, count: u32) -> Self {
        Self { newest, count: count.min(REACH) }
    }

    /// Returns the numbers of both uses if those of `next` follow these.
    ///
    /// Generated numbers go on from one use to the next.
    ///
    /// Numbers more than [`REACH`] packets old are dropped, as their feedback has arrived.
    fn followed_by(self, next: Self) -> Option<Self> {
        let follows = next.newest.wrapping_sub(self.newest) == next.count;
        follows.then(|| Self::new(next.newest, self.count.saturating_add(next.count)))
    }

    /// Returns `true` if one of the numbers ends in the `bits` low bits of `lsb`.
    fn include(self, lsb: u32, bits: u32) -> bool {
        let mask = 1u32.checked_shl(bits).map_or(u32::MAX, |period| period - 1);
        self.newest.wrapping_sub(lsb) & mask < self.count
    }
}

/// Use of a CID, and the time until which its feedback may arrive.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    sent: SentNumbers,
    until_ms: u64,
}

/// Earlier uses of the CIDs of a channel.
#[derive(Debug, Default)]
pub(crate) struct EarlierUses(Vec<Vec<Use>>);

impl EarlierUses {
    /// Records the end of a use of `cid`.
    ///
    /// A use whose numbers follow those of an earlier one joins it. A use that finds no room takes the place of another and stands for both: its numbers may then be any.
    pub(crate) fn record(&mut self, cid: u16, sent: SentNumbers, now: Duration) {
        let at = usize::from(cid);
        if at >= self.0.len() {
            self.0.resize_with(at + 1, Vec::new);
        }
        let uses = &mut self.0[at];
        let now_ms = milliseconds(now);
        let until_ms = now_ms + LIFETIME_MS;
        let ended = Use { sent, until_ms };
        for earlier in uses.iter_mut().filter(|earlier| earlier.until_ms > now_ms) {
            if let Some(sent) = earlier.sent.followed_by(sent) {
                *earlier = Use { sent, until_ms };
                return;
            }
        }
        match uses.iter().position(|earlier| earlier.until_ms <= now_ms) {
            Some(free) => uses[free] = ended,
            None if uses.len() < USES => uses.push(ended),
            None => uses[0] = Use { sent: SentNumbers::ANY, until_ms },
        }
    }

    /// Returns `true` if `cid` was used before.
    pub(crate) fn has(&self, cid: u16) -> bool {
        self.0.get(usize::from(cid)).is_some_and(|uses| !uses.is_empty())
    }

    /// Returns the uses of `cid` whose feedback may still arrive.
    pub(crate) fn of(&self, cid: u16, now: Duration) -> Earlier<'_> {
        let uses = self.0.get(usize::from(cid)).map_or(&[][..], |uses| &uses[..]);
        Earlier { uses, now_ms: milliseconds(now) }
    }
}

/// Earlier uses of one CID.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier<'a> {
    uses: &'a [Use],
    now_ms: u64,
}

impl Earlier<'_> {
    fn live(&self) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(|earlier| earlier.until_ms > self.now_ms)
    }

    /// Returns `true` if no feedback of earlier uses can arrive.
    pub(crate) fn is_over(&self) -> bool {
        self.live().next().is_none()
    }

    /// Returns `true` if feedback with these low bits may be of an earlier use.
    pub(crate) fn may_have_sent(&self, lsb: u32, bits: u32) -> bool {
        self.live().any(|earlier| earlier.sent.include(lsb, bits))
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(u64::from(time.subsec_millis())).min(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn numbers_of_earlier_uses_are_ambiguous_until_their_feedback_has_come() {
        let mut uses = EarlierUses::default();
        uses.record(3, SentNumbers::new(1003, 4), MS(100));
        let earlier = uses.of(3, MS(200));
        assert!([1000, 1003].into_iter().all(|sn| earlier.may_have_sent(sn, 12)));
        assert!([999, 1004].into_iter().all(|sn| !earlier.may_have_sent(sn, 12)));
        assert!(earlier.may_have_sent(1000 & 0xff, 8) && !earlier.may_have_sent(1000 & 0xff, 12));
        assert!(uses.of(3, MS(100 + LIFETIME_MS)).is_over() && uses.of(2, MS(0)).is_over());
        assert!(uses.has(3) && !uses.has(2) && !uses.has(4));
    }

    #[test]
    fn more_uses_than_are_remembered_make_every_number_ambiguous() {
        let mut uses = EarlierUses::default();
        (0..USES as u32).for_each(|number| uses.record(0, SentNumbers::new(100 * number, 1), MS(0)));
        assert!(!uses.of(0, MS(0)).may_have_sent(50, 16));
        uses.record(0, SentNumbers::new(50, 1), MS(1));
        assert!(uses.of(0, MS(1)).may_have_sent(70, 16));
        assert!(uses.of(0, MS(1)).may_have_sent(50, 16));
    }

    #[test]
    fn uses_whose_numbers_go_on_are_one() {
        let mut uses = EarlierUses::default();
        (0..100).for_each(|number| uses.record(0, SentNumbers::new(10 + 5 * number, 5), MS(0)));
        let earlier = uses.of(0, MS(1));
        assert!([6, 10, 11, 505].into_iter().all(|sn| earlier.may_have_sent(sn, 12)));
        assert!([5, 506].into_iter().all(|sn| !earlier.may_have_sent(sn, 12)));
        // Feedback for numbers beyond the reach has arrived.
        (100..400).for_each(|number| uses.record(0, SentNumbers::new(10 + 5 * number, 5), MS(2)));
        assert!(!uses.of(0, MS(3)).may_have_sent(6, 12) && uses.of(0, MS(3)).may_have_sent(2005, 12));
    }
}
