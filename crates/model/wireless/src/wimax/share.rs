//! Sharing of a frame's symbols among connections of one service.

use super::config::Scheduler;

/// Claim of a connection on a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Claim {
    /// Connection.
    pub(super) conn: usize,
    /// Wanted units: symbols, or parts of them.
    pub(super) demand: u64,
    /// Units of the longest packet, the least turn of round robin.
    pub(super) turn: u64,
    /// Rank: the smallest is served first. Round robin does not use it.
    pub(super) rank: f64,
    /// Granted units.
    pub(super) granted: u64,
}

/// Shares `room` units among claims and returns what is left.
///
/// Round robin begins with claim `first`, and serves each up to an equal share or its turn before any gets more.
pub(super) fn share(scheduler: Scheduler, claims: &mut [Claim], first: usize, room: u64) -> u64 {
    let mut left = room;
    if claims.is_empty() {
        return left;
    }
    if scheduler == Scheduler::RoundRobin {
        let equal = room / claims.len() as u64;
        let at = first % claims.len();
        claims.rotate_left(at);
        claims.iter_mut().for_each(|claim| give(claim, equal.max(claim.turn), &mut left));
    } else {
        claims.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    }
    claims.iter_mut().for_each(|claim| give(claim, u64::MAX, &mut left));
    left
}

fn give(claim: &mut Claim, most: u64, left: &mut u64) {
    let units = (claim.demand - claim.granted).min(most).min(*left);
    claim.granted += units;
    *left -= units;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(demands: &[u64], turn: u64) -> Vec<Claim> {
        let rank = |n: usize| -(n as f64);
        let claim =
            |(n, demand): (usize, &u64)| Claim { conn: n, demand: *demand, turn, rank: rank(n), granted: 0 };
        demands.iter().enumerate().map(claim).collect()
    }

    fn granted(mut all: Vec<Claim>) -> Vec<u64> {
        all.sort_by_key(|claim| claim.conn);
        all.iter().map(|claim| claim.granted).collect()
    }

    #[test]
    fn round_robin_gives_equal_shares_and_the_rest_in_turn() {
        let mut all = claims(&[100, 10, 100], 0);
        assert_eq!(share(Scheduler::RoundRobin, &mut all, 2, 90), 0);
        // 30 each; the 20 that the second leaves go to the third, which was first in turn.
        assert_eq!(granted(all), [30, 10, 50]);
        let mut all = claims(&[100, 10], 0);
        assert_eq!(share(Scheduler::RoundRobin, &mut all, 0, 200), 90);
        let mut all = claims(&[12; 10], 12);
        share(Scheduler::RoundRobin, &mut all, 3, 30);
        assert_eq!(granted(all), [0, 0, 0, 12, 12, 6, 0, 0, 0, 0], "whole turns");
    }

    #[test]
    fn ranks_decide_for_the_other_schedulers() {
        for scheduler in [Scheduler::ProportionalFair, Scheduler::Deadline] {
            let mut all = claims(&[50, 50, 50], 0);
            assert_eq!(share(scheduler, &mut all, 1, 70), 0);
            assert_eq!(granted(all), [0, 20, 50]);
        }
        assert_eq!(share(Scheduler::Deadline, &mut [], 0, 7), 7);
    }
}
