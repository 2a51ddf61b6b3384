//! Bound on the status reports that guests cause.
//!
//! A guest chooses the endpoint that reports go to. Each of them takes storage, and a place on the link to that endpoint.

use std::collections::HashMap;

use bentpipe_units::{Span, Time};
use foldhash::fast::RandomState;

use super::Share;

/// Reports that a guest may cause at once.
const AT_ONCE: u64 = 1000;
/// Time after which it may cause another one.
const EACH: Span = Span::from_millis(10);
/// Maximum number of guests with an account.
const MAX_GUESTS: usize = 10_000;

/// Reports of guests.
///
/// Each has the instant at which all of its reports are available again.
#[derive(Debug, Default)]
pub(super) struct Rations {
    full_at: HashMap<Share, Time, RandomState>,
}

impl Rations {
    /// Returns `true` if another report may be sent on a bundle of the share.
    pub(super) fn take(&mut self, share: Share, now: Time) -> bool {
        if !share.is_guest() {
            return true;
        }
        if self.full_at.len() >= MAX_GUESTS && !self.full_at.contains_key(&share) {
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        // Hosts beyond the maximum have one account.
        let is_listed = self.full_at.len() < MAX_GUESTS || self.full_at.contains_key(&share);
        let share = if is_listed { share } else { Share::Unproven };
        let full_at = self.full_at.entry(share).or_insert(now);
        let next = (*full_at).max(now) + EACH;
        let is_left = next.since(now) <= EACH * AT_ONCE;
        if is_left {
            *full_at = next;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_causes_so_many_reports_at_once_and_in_a_time() {
        let mut rations = Rations::default();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut count = |share: Share, now: Time, most: u64| {
            (0..most).filter(|_| rations.take(share, now)).count() as u64
        };
        assert_eq!(count(Share::Known, at(0), 5000), 5000);
        assert_eq!(count(Share::Host(1), at(0), 5000), 1000);
        assert_eq!(count(Share::Host(1), at(1), 5000), 100);
        assert_eq!(count(Share::Host(2), at(1), 5000), 1000, "another guest");
        assert_eq!(count(Share::Host(1), at(100), 5000), 1000);
        for host in 0..MAX_GUESTS as u64 + 100 {
            count(Share::Host(1000 + host), at(200), 1);
        }
        assert!(rations.full_at.len() <= MAX_GUESTS + 1);
    }
}
