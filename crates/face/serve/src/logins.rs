//! Attempts to log in: the wait until the next one, by account and address.
//!
//! An attempt counts as failed from its beginning, so that many at once are not all tried. Waits are capped, and only for those
//! who guess: the same account from elsewhere and other accounts from the same address go on, at a rate. An account that has logged
//! in from an address is not held back by attempts at others there, and one on a device that proves an earlier log-in by that device's
//! failures alone, in any flood of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::since_start_ms;
use crate::limits::{Buckets, Limit, source};

/// Failed attempts without a wait.
const FREE: u32 = 5;
/// Longest wait after a failed attempt, in milliseconds.
const MAX_WAIT_MS: i64 = 60_000;
/// Time after which failures are forgotten, in milliseconds.
const FORGET_MS: i64 = 3_600_000;
/// Most accounts, each with an address, whose failures and successes are kept.
const MAX_KEPT: usize = 10_000;
/// Limit of an address, over all accounts that have not logged in from it.
const OF_ADDRESS: Limit = Limit { rate: 1.0, burst: 30.0 };
/// Limit of an account, over all addresses from which it has not logged in.
const OF_ACCOUNT: Limit = Limit { rate: 0.1, burst: 30.0 };

/// Limit of wrong codes of an account whose password was right, over all addresses.
///
/// A code is one of a million, of which three count at a time: in a month of guesses one in a hundred finds one.
const OF_CODES: Limit = Limit { rate: 1.0 / 600.0, burst: 10.0 };

/// Account, and the origin from which it is tried.
type Pair = (String, String);

/// Origin of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Address, of any client there.
    Address(IpAddr),
    /// Device on which the account has logged in before.
    Device(String),
    /// Session of the account, which asks for the password again.
    Session(i64),
}

impl Source {
    /// Returns `true` if the origin has proved that it is one of the account.
    fn is_proven(&self) -> bool {
        !matches!(self, Source::Address(_))
    }
}

/// Attempts to log in.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    pairs: Mutex<HashMap<Pair, Kept>>,
    limits: Buckets,
}

/// Record of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    failures: u32,
    last_ms: i64,
    /// Set if the account has logged in from the address.
    is_known: bool,
}

impl Kept {
    /// Returns the record without failures that are too old to count.
    fn fresh(self, now: i64) -> Kept {
        let is_old = now - self.last_ms >= FORGET_MS;
        Kept { failures: if is_old { 0 } else { self.failures }, ..self }
    }

    fn wait_ms(self, now: i64) -> i64 {
        let Some(over) = self.failures.checked_sub(FREE) else { return 0 };
        let wait = 1000_i64.checked_shl(over.min(20)).unwrap_or(MAX_WAIT_MS).min(MAX_WAIT_MS);
        self.last_ms + wait - now
    }
}

fn pair(name: &str, from: &Source) -> Pair {
    let from = match from {
        Source::Address(address) => source(*address),
        Source::Device(number) => format!("device {number}"),
        Source::Session(number) => format!("session {number}"),
    };
    (name.to_lowercase(), from)
}

impl Logins {
    /// Counts an attempt before its password is tried. Returns the seconds to wait if it is one too many.
    ///
    /// One from a device or a session of the account is held back by the failures there alone.
    pub(crate) fn begin(&self, name: &str, from: &Source) -> Result<(), i64> {
        let (pair, now) = (pair(name, from), since_start_ms());
        if from.is_proven() {
            self.lock().entry(pair.clone()).or_default().is_known = true;
        }
        self.begin_at(&pair, now)
    }

    /// Forgets the failures of an account from an origin. An address is known from here on.
    ///
    /// What the attempt took of the limits comes back: many who log in from one address, as in a lab, do not guess.
    pub(crate) fn succeeded(&self, name: &str, from: &Source) {
        let pair = pair(name, from);
        let kept = Kept { failures: 0, last_ms: since_start_ms(), is_known: true };
        let before = match from {
            Source::Address(_) => self.lock().insert(pair.clone(), kept),
            Source::Device(_) | Source::Session(_) => {
                self.lock().remove(&pair);
                return;
            }
        };
        if before.is_some_and(|before| !before.is_known) {
            self.limits.give_back(&from_address(&pair), OF_ADDRESS);
            self.limits.give_back(&of_account(&pair), OF_ACCOUNT);
        }
    }

    /// Counts a code before it is tried. Returns the seconds to wait if it is one too many.
    ///
    /// Who has the password and not the phone guesses from many addresses; the account's devices go on.
    pub(crate) fn begin_code(&self, name: &str, from: &Source) -> Result<(), i64> {
        match from.is_proven() {
            true => Ok(()),
            false => self.limits.take(&of_codes(name), OF_CODES),
        }
    }

    /// Returns the count of a code that was right.
    pub(crate) fn right_code(&self, name: &str, from: &Source) {
        if !from.is_proven() {
            self.limits.give_back(&of_codes(name), OF_CODES);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Pair, Kept>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_at(&self, pair: &Pair, now: i64) -> Result<(), i64> {
        let mut pairs = self.lock();
        make_room(&mut pairs, now);
        let kept = pairs.get(pair).copied().unwrap_or_default().fresh(now);
        let wait = kept.wait_ms(now);
        if wait > 0 {
            return Err(wait.div_euclid(1000) + 1);
        }
        if !kept.is_known {
            // The address first: attempts beyond its limit do not count for the account.
            self.limits.take_at(&from_address(pair), OF_ADDRESS, now)?;
            self.limits.take_at(&of_account(pair), OF_ACCOUNT, now)?;
        }
        let kept = Kept { failures: kept.failures + 1, last_ms: now, ..kept };
        pairs.insert(pair.clone(), kept);
        Ok(())
    }
}

fn from_address(pair: &Pair) -> String {
    format!("from {}", pair.1)
}

fn of_account(pair: &Pair) -> String {
    format!("of {}", pair.0)
}

fn of_codes(name: &str) -> String {
    format!("codes of {}", name.to_lowercase())
}

/// Forgets old failures, and the oldest record if there are too many.
///
/// Those of known pairs stay the longest.
fn make_room(pairs: &mut HashMap<Pair, Kept>, now: i64) {
    if pairs.len() < MAX_KEPT {
        return;
    }
    pairs.retain(|_, kept| kept.is_known || now - kept.last_ms < FORGET_MS);
    if pairs.len() >= MAX_KEPT {
        let oldest =
            pairs.iter().min_by_key(|(_, kept)| (kept.is_known, kept.last_ms)).map(|(pair, _)| pair.clone());
        oldest.map(|pair| pairs.remove(&pair));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(last: u8) -> Source {
        Source::Address(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, last)))
    }

    fn of(name: &str, last: u8) -> Pair {
        pair(name, &at(last))
    }

    #[test]
    fn a_class_logs_in_from_one_address() {
        let logins = Logins::default();
        for n in 0..200 {
            let name = format!("student-{n}");
            assert_eq!(logins.begin(&name, &at(1)), Ok(()), "{n}");
            logins.succeeded(&name, &at(1));
        }
        let guesses = (0..100).filter(|n| logins.begin(&format!("guess-{n}"), &at(1)).is_ok()).count();
        assert!((30..=40).contains(&guesses), "{guesses}");
    }

    #[test]
    fn many_attempts_at_once_are_counted_before_they_are_tried() {
        let logins = Logins::default();
        let tried = (0..60).filter(|_| logins.begin_at(&of("ann", 1), 1000).is_ok()).count();
        assert_eq!(tried, FREE as usize);
        // Another account, and the same one from elsewhere, even next door.
        assert_eq!(logins.begin_at(&of("bob", 1), 1000), Ok(()));
        assert_eq!(logins.begin_at(&of("Ann", 2), 1000), Ok(()));
    }

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let (logins, mut now, mut waits) = (Logins::default(), 0, Vec::new());
        for _ in 0..14 {
            let mut waited = 0;
            while logins.begin_at(&of("ann", 1), now).is_err() {
                (now, waited) = (now + 1000, waited + 1);
            }
            waits.push(waited);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn an_account_is_tried_from_many_addresses_at_a_rate_that_leaves_known_ones_alone() {
        let logins = Logins::default();
        logins.succeeded("ann", &at(250));
        let now = since_start_ms();
        let tried = (0..200).filter(|last| logins.begin_at(&of("ann", *last), now).is_ok()).count();
        assert_eq!(tried as f64, OF_ACCOUNT.burst);
        assert_eq!(logins.begin_at(&of("ann", 250), now), Ok(()));
    }

    #[test]
    fn many_accounts_are_tried_from_an_address_at_a_rate() {
        let logins = Logins::default();
        let tried = (0..200).filter(|n| logins.begin_at(&of(&format!("u{n}"), 1), 0).is_ok()).count();
        assert_eq!(tried as f64, OF_ADDRESS.burst);
        assert_eq!(logins.begin_at(&of("ann", 1), 1000), Ok(()), "a second later the next one");
    }

    #[test]
    fn a_flood_from_an_address_keeps_out_neither_who_is_known_there_nor_its_accounts_elsewhere() {
        let logins = Logins::default();
        logins.succeeded("ann", &at(1));
        let now = since_start_ms();
        for n in 0..100 {
            let _ = logins.begin_at(&of(&format!("u{n}"), 1), now);
            let _ = logins.begin_at(&of("bob", 1), now);
        }
        assert_eq!(logins.begin_at(&of("ann", 1), now), Ok(()));
        assert_eq!(logins.begin_at(&of("bob", 2), now), Ok(()), "attempts that were refused do not count");
        assert!(logins.begin_at(&of("eve", 1), now).is_err());
        let [one, other] = [7, 8].map(Source::Session);
        for _ in 0..FREE {
            assert_eq!(logins.begin("eve", &one), Ok(()), "who has a session is another matter");
        }
        assert!(logins.begin("eve", &one).is_err() && logins.begin("eve", &other).is_ok());
        logins.succeeded("eve", &one);
        assert_eq!(logins.begin("eve", &one), Ok(()));
    }

    #[test]
    fn guesses_at_an_account_from_its_own_address_leave_its_devices_their_attempts() {
        let logins = Logins::default();
        logins.succeeded("ann", &at(1));
        for n in 0..200 {
            let _ = logins.begin("ann", &at(1));
            let _ = logins.begin("ann", &at(n));
        }
        assert!(logins.begin("ann", &at(1)).is_err() && logins.begin("ann", &at(250)).is_err());
        let [phone, desk] = ["1", "2"].map(|number| Source::Device(number.to_owned()));
        let tried = (0..60).filter(|_| logins.begin("ann", &phone).is_ok()).count();
        assert_eq!(tried, FREE as usize, "a device that guesses waits");
        assert_eq!(logins.begin("ann", &desk), Ok(()));
        logins.succeeded("ann", &phone);
        assert_eq!(logins.begin("ann", &phone), Ok(()));
    }

    #[test]
    fn wrong_codes_of_an_account_count_over_all_addresses_but_not_those_of_its_devices() {
        let logins = Logins::default();
        for n in 0..100 {
            assert_eq!(logins.begin_code("ann", &at(n)), Ok(()));
            logins.right_code("ann", &at(n));
        }
        let tried = (0..100).filter(|n| logins.begin_code("Ann", &at(*n)).is_ok()).count();
        assert_eq!(tried as f64, OF_CODES.burst);
        assert!(logins.begin_code("ann", &at(1)).is_err_and(|wait| (1..=600).contains(&wait)));
        assert_eq!(logins.begin_code("ann", &Source::Device("1".to_owned())), Ok(()));
        assert_eq!(logins.begin_code("bob", &at(1)), Ok(()));
    }

    #[test]
    fn failures_are_forgotten_after_an_hour() {
        let logins = Logins::default();
        let tried = |now| (0..20).filter(|_| logins.begin_at(&of("ann", 1), now).is_ok()).count();
        assert_eq!([tried(0), tried(FORGET_MS)], [FREE as usize; 2]);
    }

    #[test]
    fn the_number_of_records_is_bounded() {
        let logins = Logins::default();
        for n in 0..MAX_KEPT + 10 {
            logins.lock().insert(of(&n.to_string(), 1), Kept { last_ms: n as i64, ..Kept::default() });
        }
        for n in 0..20 {
            let _ = logins.begin_at(&of(&format!("x{n}"), n), FORGET_MS / 2);
        }
        assert!(logins.lock().len() <= MAX_KEPT + 11);
        let _ = logins.begin_at(&of("later", 9), 3 * FORGET_MS);
        assert_eq!(logins.lock().len(), 1);
    }
}
