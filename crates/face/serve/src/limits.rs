//! Limits of requests: a token bucket for each session or address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::since_start_ms;

/// Most buckets kept; the fullest ones are dropped first.
const MAX_BUCKETS: usize = 10_000;

/// Rate and size of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Requests that may come at once.
    pub(crate) burst: f64,
}

/// Limit with a session or a token.
pub(crate) const KNOWN: Limit = Limit { rate: 50.0, burst: 200.0 };
/// Limit of a site: small files come one a request.
pub(crate) const SITE: Limit = Limit { rate: 100.0, burst: 400.0 };
/// Limit without.
pub(crate) const UNKNOWN: Limit = Limit { rate: 5.0, burst: 60.0 };

/// Returns the address by which a client is counted.
///
/// Of IPv6 it is the /64, in which a client chooses freely.
pub(crate) fn source(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

/// Buckets by key.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<HashMap<String, (f64, i64)>>);

impl Buckets {
    /// Counts a request against the bucket of `key`. Returns the seconds to wait if it is empty.
    pub(crate) fn take(&self, key: &str, limit: Limit) -> Result<(), i64> {
        self.take_at(key, limit, since_start_ms())
    }

    /// Counts a request at a time in milliseconds.
    pub(crate) fn take_at(&self, key: &str, limit: Limit, now: i64) -> Result<(), i64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(key) {
            make_room(&mut buckets, limit, now);
        }
        let (level, at) = buckets.entry(key.to_owned()).or_insert((limit.burst, now));
        let passed_s = (now - *at).max(0) as f64 / 1000.0;
        *level = (*level + passed_s * limit.rate).min(limit.burst);
        *at = now;
        if *level < 1.0 {
            return Err(((1.0 - *level) / limit.rate).ceil() as i64);
        }
        *level -= 1.0;
        Ok(())
    }

    /// Returns what a request took from the bucket of `key`.
    pub(crate) fn give_back(&self, key: &str, limit: Limit) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((level, _)) = buckets.get_mut(key) {
            *level = (*level + 1.0).min(limit.burst);
        }
    }
}

/// Drops buckets that are full, or the fullest one.
///
/// So newcomers are not refused for the number of others.
fn make_room(buckets: &mut HashMap<String, (f64, i64)>, limit: Limit, now: i64) {
    let level = |(level, at): &(f64, i64)| level + (now - at) as f64 / 1000.0 * limit.rate;
    buckets.retain(|_, bucket| level(bucket) < limit.burst);
    if buckets.len() >= MAX_BUCKETS {
        let fullest = buckets.iter().max_by(|(_, a), (_, b)| level(a).total_cmp(&level(b)));
        let fullest = fullest.map(|(key, _)| key.clone());
        fullest.map(|key| buckets.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let (buckets, limit) = (Buckets::default(), Limit { rate: 2.0, burst: 3.0 });
        for _ in 0..3 {
            assert_eq!(buckets.take_at("a", limit, 1000), Ok(()));
        }
        assert_eq!(buckets.take_at("a", limit, 1000), Err(1));
        assert_eq!(buckets.take_at("b", limit, 1000), Ok(()));
        assert_eq!(buckets.take_at("a", limit, 1500), Ok(()));
        assert_eq!(buckets.take_at("a", limit, 500), Err(1), "a clock that steps back gives nothing");
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let (buckets, limit) = (Buckets::default(), Limit { rate: 0.001, burst: 3.0 });
        for n in 0..MAX_BUCKETS + 10 {
            assert_eq!(buckets.take_at(&n.to_string(), limit, 0), Ok(()), "nobody is refused for others");
        }
        assert!(buckets.0.lock().expect("not poisoned").len() <= MAX_BUCKETS);
    }
}
