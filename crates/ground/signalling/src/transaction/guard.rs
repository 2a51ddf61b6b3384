//! Bounds of a stack that anyone may send to.
//!
//! A peer over UDP may name an address that is not its own. Until an ACK with a tag of this side has shown that messages arrive there, the
//! stack repeats [`REPEATS`] responses to that host, then one in [`PACE`] and one for each request that the host repeats.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use bentpipe_units::{Span, Time};

/// Responses to a host without proof that are repeated.
const REPEATS: u32 = 2;
/// Interval of repeats after that.
const PACE: Span = Span::from_secs(30);
/// Hosts that are remembered.
const MAX_HOSTS: usize = 10_000;

/// Limits of a stack that anyone may send to. More is refused with 503, without state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of calls.
    pub calls: usize,
    /// Maximum number of calls without an ACK from hosts that never sent one.
    pub unproven: usize,
    /// Maximum number of transactions that requests of peers began.
    pub transactions: usize,
}

/// Hosts that have proved their address, and repeats to the others.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) limits: Limits,
    proven: HashSet<IpAddr>,
    repeats: HashMap<IpAddr, (u32, Time)>,
}

impl Guard {
    pub(crate) fn new(limits: Limits) -> Guard {
        Guard { limits, proven: HashSet::new(), repeats: HashMap::new() }
    }

    pub(crate) fn is_proven(&self, host: IpAddr) -> bool {
        self.proven.contains(&host)
    }

    /// Notes that a host has received a message of this side.
    pub(crate) fn prove(&mut self, host: IpAddr) {
        if self.proven.len() >= MAX_HOSTS {
            self.proven.clear();
        }
        self.proven.insert(host);
        self.repeats.remove(&host);
    }

    /// Returns `true` if a response may be sent again.
    pub(crate) fn may_repeat(&mut self, host: IpAddr, now: Time) -> bool {
        if self.is_proven(host) {
            return true;
        }
        if self.repeats.len() >= MAX_HOSTS {
            self.repeats.retain(|_, (_, last)| *last + PACE > now);
        }
        if self.repeats.len() >= MAX_HOSTS && !self.repeats.contains_key(&host) {
            return false;
        }
        let (sent, last) = self.repeats.entry(host).or_insert((0, now));
        let may = *sent < REPEATS || *last + PACE <= now;
        if may {
            (*sent, *last) = (*sent + 1, now);
        }
        may
    }

    /// Notes a request that a host has sent again, which pays for a response.
    pub(crate) fn credit(&mut self, host: IpAddr) {
        if let Some((sent, _)) = self.repeats.get_mut(&host) {
            *sent = sent.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn repeats_to_a_host_without_proof_end() {
        let mut guard = Guard::new(Limits { calls: 1, unproven: 1, transactions: 1 });
        let sent = |guard: &mut Guard, at: u64| {
            (0..100).filter(|_| guard.may_repeat(host(1), Time::ZERO + Span::from_secs(at))).count()
        };
        assert_eq!((sent(&mut guard, 0), sent(&mut guard, 29), sent(&mut guard, 31)), (2, 0, 1));
        assert!(guard.may_repeat(host(2), Time::ZERO), "each host by itself");
        (0..5).for_each(|_| guard.credit(host(1)));
        assert_eq!(sent(&mut guard, 32), 2, "requests pay for responses");
        guard.prove(host(1));
        assert_eq!(sent(&mut guard, 33), 100);
    }

    #[test]
    fn hosts_are_bounded() {
        let mut guard = Guard::new(Limits { calls: 1, unproven: 1, transactions: 1 });
        for n in 0..30_000_u32 {
            let host = std::net::Ipv4Addr::from(n).into();
            guard.may_repeat(host, Time::ZERO);
            guard.prove(host);
        }
        assert!(guard.proven.len() <= MAX_HOSTS && guard.repeats.len() <= MAX_HOSTS);
    }
}
