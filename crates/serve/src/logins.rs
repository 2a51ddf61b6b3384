//! Attempts to log in: the wait until the next one, by account and address.
//!
//! An attempt counts as failed from its beginning, so that many at once are not all tried. Waits are capped, and only for those
//! who guess: the same account from elsewhere and other accounts from the same address go on, at a rate.

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
/// Limit of an address, over all accounts.
const OF_ADDRESS: Limit = Limit { rate: 1.0, burst: 30.0 };
/// Limit of an account, over all addresses from which it has not logged in.
const OF_ACCOUNT: Limit = Limit { rate: 0.1, burst: 30.0 };

/// Account and the address from which it is tried.
type Pair = (String, String);

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
    fn wait_ms(self, now: i64) -> i64 {
        let Some(over) = self.failures.checked_sub(FREE) else { return 0 };
        let wait = 1000_i64.checked_shl(over.min(20)).unwrap_or(MAX_WAIT_MS).min(MAX_WAIT_MS);
        self.last_ms + wait - now
    }
}

fn pair(name: &str, address: IpAddr) -> Pair {
    (name.to_lowercase(), source(address))
}

impl Logins {
    /// Counts an attempt before its password is tried. Returns the seconds to wait if it is one too many.
    pub(crate) fn begin(&self, name: &str, address: IpAddr) -> Result<(), i64> {
        self.begin_at(&pair(name, address), since_start_ms())
    }

    /// Forgets the failures of an account from an address from which it has logged in.
    pub(crate) fn succeeded(&self, name: &str, address: IpAddr) {
        let kept = Kept { failures: 0, last_ms: since_start_ms(), is_known: true };
        self.lock().insert(pair(name, address), kept);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Pair, Kept>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_at(&self, pair: &Pair, now: i64) -> Result<(), i64> {
        let mut pairs = self.lock();
        make_room(&mut pairs, now);
        let kept = pairs.get(pair).copied().unwrap_or_default();
        let wait = kept.wait_ms(now);
        if wait > 0 {
            return Err(wait.div_euclid(1000) + 1);
        }
        if !kept.is_known {
            self.limits.take_at(&format!("of {}", pair.0), OF_ACCOUNT, now)?;
        }
        self.limits.take_at(&format!("from {}", pair.1), OF_ADDRESS, now)?;
        let kept = Kept { failures: kept.failures + 1, last_ms: now, ..kept };
        pairs.insert(pair.clone(), kept);
        Ok(())
    }
}

/// Forgets old failures, and the oldest record of all if there are too many.
fn make_room(pairs: &mut HashMap<Pair, Kept>, now: i64) {
    if pairs.len() < MAX_KEPT {
        return;
    }
    pairs.retain(|_, kept| kept.is_known || now - kept.last_ms < FORGET_MS);
    if pairs.len() >= MAX_KEPT {
        let oldest = pairs.iter().min_by_key(|(_, kept)| kept.last_ms).map(|(pair, _)| pair.clone());
        oldest.map(|pair| pairs.remove(&pair));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, last: u8) -> Pair {
        pair(name, IpAddr::from([192, 0, 2, last]))
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
        logins.succeeded("ann", IpAddr::from([192, 0, 2, 250]));
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
