//! Bound on the status reports that guests cause.
//!
//! A guest chooses the endpoint that reports go to. Each of them takes storage, and a place on the link to that endpoint.

use std::collections::HashMap;

use bentpipe_units::{Span, Time};
use foldhash::fast::RandomState;

use super::Share;
use crate::credit::Credit;

/// Reports that a guest may cause at once.
const AT_ONCE: u64 = 1000;
/// Time after which it may cause another one.
const EACH: Span = Span::from_millis(10);
/// Maximum number of guests with an account.
const MAX_GUESTS: usize = 10_000;
/// Most bytes of reports that a guest keeps for later.
///
/// What an honest host has sent gives little credit to others that send in its name.
const MOST: u64 = 3 << 16;

/// Account of a guest.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Instant at which all of its reports are available again.
    full_at: Time,
    /// Bytes of reports for those that came.
    credit: Credit,
}

/// Reports of guests.
#[derive(Debug, Default)]
pub(super) struct Rations {
    accounts: HashMap<Share, Account, RandomState>,
}

impl Rations {
    /// Adds the bytes of a bundle that has come. Reports have them three times at most.
    pub(super) fn earn(&mut self, share: Share, bytes: u64, now: Time) {
        if share.is_guest() {
            let account = self.account(share, now);
            account.credit.earn(bytes);
            account.credit.cap(MOST);
        }
    }

    /// Returns `true` if a bundle of the share may cause another report of this length.
    pub(super) fn take(&mut self, share: Share, bytes: u64, now: Time) -> bool {
        if !share.is_guest() {
            return true;
        }
        let account = self.account(share, now);
        let next = account.full_at.max(now) + EACH;
        let is_left = next.since(now) <= EACH * AT_ONCE && account.credit.spend(bytes);
        if is_left {
            account.full_at = next;
        }
        is_left
    }

    fn account(&mut self, share: Share, now: Time) -> &mut Account {
        if self.accounts.len() >= MAX_GUESTS && !self.accounts.contains_key(&share) {
            self.accounts.retain(|_, account| account.full_at > now);
        }
        // Hosts beyond the maximum have one account.
        let is_listed = self.accounts.len() < MAX_GUESTS || self.accounts.contains_key(&share);
        let share = if is_listed { share } else { Share::Unproven };
        self.accounts.entry(share).or_insert(Account { full_at: now, credit: Credit::default() })
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
            (0..most)
                .filter(|_| {
                    rations.earn(share, 40, now);
                    rations.take(share, 100, now)
                })
                .count() as u64
        };
        assert_eq!(count(Share::Known, at(0), 5000), 5000);
        assert_eq!(count(Share::Host(1), at(0), 5000), 1000);
        assert_eq!(count(Share::Host(1), at(1), 5000), 100);
        assert_eq!(count(Share::Host(2), at(1), 5000), 1000, "another guest");
        assert_eq!(count(Share::Host(1), at(100), 5000), 1000);
        for host in 0..MAX_GUESTS as u64 + 100 {
            count(Share::Host(1000 + host), at(200), 1);
        }
        assert!(rations.accounts.len() <= MAX_GUESTS + 1);
    }
    #[test]
    fn reports_have_three_times_the_bytes_that_came_of_a_guest() {
        let mut rations = Rations::default();
        let (one, other, now) = (Share::Host(1), Share::Host(2), Time::ZERO);
        assert!(!rations.take(one, 1, now));
        rations.earn(one, 100, now);
        assert!(rations.take(one, 200, now) && !rations.take(one, 101, now) && rations.take(one, 100, now));
        assert!(!rations.take(other, 1, now), "each has its own");
        rations.earn(one, 1 << 40, now);
        assert_eq!((0..1000).filter(|_| rations.take(one, 1000, now)).count() as u64, MOST / 1000);
    }
}
