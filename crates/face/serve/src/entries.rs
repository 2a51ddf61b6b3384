//! Entries of the audit log a minute.
//!
//! The log is kept for good, so that what a client does again and again has some of them. A refusal costs its client nothing. The first one of a user or an address has an entry at once, and those of the same action and outcome
//! in the minute after it have one together. What was done has more. Addresses beyond a number share an entry.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::audit::Entry;

/// Time in which entries of one kind are counted, in milliseconds.
const WINDOW_MS: i64 = 60_000;
/// Most entries of one kind in that time, apart from the one of all others.
pub(crate) const OF_REFUSALS: u64 = 1;
pub(crate) const OF_DONE: u64 = 100;
/// Most kinds of addresses that have entries of their own in that time.
const MOST: usize = 64;
/// Client in place of addresses beyond that number.
const OTHERS: &str = "(others)";

/// Client whose entries are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// User, or site.
    Name(String),
    /// Address, and the user that it stated.
    Address(String, String),
}

/// Client, action and outcome.
pub(crate) type Kind = (Client, String, String);

/// Entries of one kind.
#[derive(Debug, Default)]
struct Counted {
    since: i64,
    entries: u64,
    /// Number without an entry.
    more: u64,
    /// User, address and object of the last one of them.
    last: [String; 3],
}

/// Entries of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Entries(Mutex<HashMap<Kind, Counted>>);

impl Entries {
    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if something has an entry of its own. It is counted otherwise.
    pub(crate) fn admits(&self, client: Client, entry: &Entry<'_>, most: u64, now: i64) -> bool {
        let mut all = self.lock();
        let own = (client, entry.action.to_owned(), entry.outcome.to_owned());
        let is_address = |(client, ..): &Kind| matches!(client, Client::Address(..));
        let is_crowded = is_address(&own)
            && !all.contains_key(&own)
            && all.keys().filter(|kind| is_address(kind)).count() >= MOST;
        let others = || Client::Address(OTHERS.to_owned(), String::new());
        let kind = if is_crowded { (others(), own.1, own.2) } else { own };
        let counted = all.entry(kind).or_insert_with(|| Counted { since: now, ..Counted::default() });
        if counted.entries < most {
            counted.entries += 1;
            return true;
        }
        counted.more += 1;
        counted.last = [entry.user, entry.address, entry.object].map(|text| text.chars().take(100).collect());
        false
    }

    /// Returns the kinds whose time is over, with those that were counted, and forgets them.
    ///
    /// One that had some begins again, so that it has one entry less.
    pub(crate) fn due(&self, now: i64, is_end: bool) -> Vec<(Kind, u64, [String; 3])> {
        let mut due = Vec::new();
        self.lock().retain(|kind, counted| {
            if !is_end && now < counted.since + WINDOW_MS {
                return true;
            }
            let more = std::mem::take(&mut counted.more);
            if more > 0 {
                due.push((kind.clone(), more, std::mem::take(&mut counted.last)));
            }
            (counted.since, counted.entries) = (now, 1);
            more > 0
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> Entry<'_> {
        Entry { user: "ann", address: "192.0.2.1", action: "request", object, outcome: "level too low" }
    }

    fn user(name: &str) -> Client {
        Client::Name(name.to_owned())
    }

    #[test]
    fn refusals_of_a_kind_have_an_entry_a_minute() {
        let all = Entries::default();
        let admits = |name: &str, object: &str, now| all.admits(user(name), &entry(object), OF_REFUSALS, now);
        assert!(admits("ann", "PATCH /a", 0) && admits("bob", "PATCH /a", 0));
        for n in 0..1000 {
            assert!(!admits("ann", &format!("PATCH /{n}"), 8 * n));
        }
        assert!(all.due(59_999, false).is_empty());
        let due = all.due(60_000, false);
        let [((client, ..), 1000, [name, address, object])] = &due[..] else { panic!("{due:?}") };
        assert_eq!(
            (client, &name[..], &address[..], &object[..]),
            (&user("ann"), "ann", "192.0.2.1", "PATCH /999")
        );
        // Bob begins anew, and Ann has had the entry of this minute.
        assert!(admits("bob", "PATCH /a", 60_001));
        assert!(!admits("ann", "PATCH /b", 60_001));
        assert!(all.due(61_000, false).is_empty());
        assert_eq!(all.due(61_000, true).len(), 1);
        all.due(200_000, false);
        assert!(all.lock().is_empty());
    }

    #[test]
    fn what_is_done_has_more_entries_and_addresses_share_theirs() {
        let all = Entries::default();
        let done = (0..10_000).filter(|_| all.admits(user("ann"), &entry("x"), OF_DONE, 0)).count();
        assert_eq!(done as u64, OF_DONE);
        let from = |n: u32| Client::Address(format!("192.0.2.{n}"), String::new());
        let entries = (0..100_000).filter(|n| all.admits(from(*n), &entry("x"), OF_REFUSALS, 0)).count();
        assert_eq!((entries, all.lock().len()), (MOST + 1, MOST + 2));
        let due = all.due(60_000, false);
        let counts: Vec<u64> = due.iter().map(|(_, more, _)| *more).collect();
        assert!(due.len() == 2 && counts.contains(&(100_000 - MOST as u64 - 1)), "{due:?}");
        assert!(all.admits(user("bob"), &entry("x"), OF_REFUSALS, 0), "users have room of their own");
    }
}
