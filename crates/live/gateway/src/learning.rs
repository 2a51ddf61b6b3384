//! Table of stations of a bridged network (IEEE 802.1Q, section 8.7).
//!
//! It learns from source addresses of frames, removes silent stations, and is bounded.

use std::collections::HashMap;

use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::MacAddr;

/// Location of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// LAN of this site.
    Here,
    /// Remote site, by its number.
    Remote(usize),
}

/// Bounded table of stations.
///
/// A full table learns no new station until one has been silent for the ageing time. So a flood of addresses costs others some
/// flooding and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Stations {
    limit: usize,
    ageing: Span,
    learnt: HashMap<MacAddr, (Side, Time)>,
    /// Time before which a full table is not searched for silent stations.
    next_sweep: Time,
    moves: u64,
    refused: u64,
}

impl Stations {
    /// Creates a table of `limit` stations, each for `ageing` after its last frame.
    pub(crate) fn new(limit: usize, ageing: Span) -> Stations {
        let (learnt, next_sweep) = (HashMap::new(), Time::ZERO);
        Stations { limit, ageing, learnt, next_sweep, moves: 0, refused: 0 }
    }

    /// Learns that `station` is at `side`. Group addresses are not learnt.
    pub(crate) fn learn(&mut self, now: Time, station: MacAddr, side: Side) {
        if station.is_multicast() {
            return;
        }
        if let Some(entry) = self.learnt.get_mut(&station) {
            self.moves += u64::from(entry.0 != side);
            *entry = (side, now);
            return;
        }
        if self.learnt.len() >= self.limit {
            self.sweep(now);
        }
        if self.learnt.len() < self.limit {
            self.learnt.insert(station, (side, now));
        } else {
            self.refused += 1;
        }
    }

    /// Returns the location of a station, if it is known.
    pub(crate) fn side_of(&self, now: Time, station: MacAddr) -> Option<Side> {
        let &(side, last_seen) = self.learnt.get(&station)?;
        (now.since(last_seen) <= self.ageing).then_some(side)
    }

    /// Renumbers remote sites, and removes the stations of those that are gone.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.learnt.retain(|_, (side, _)| match side {
            Side::Here => true,
            Side::Remote(old) => number(*old).map(|new| *old = new).is_some(),
        });
    }

    /// Returns the number of stations.
    pub(crate) fn count(&self) -> usize {
        self.learnt.len()
    }

    /// Returns the number of moves of stations.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Returns the number of frames whose source was not learnt because the table was full.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Removes silent stations, at most once a second.
    fn sweep(&mut self, now: Time) {
        if now < self.next_sweep {
            return;
        }
        let ageing = self.ageing;
        self.learnt.retain(|_, (_, last_seen)| now.since(*last_seen) <= ageing);
        self.next_sweep = now + Span::from_secs(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    #[test]
    fn stations_are_learnt_move_and_age() {
        let mut stations = Stations::new(4, Span::from_secs(300));
        stations.learn(at(0), mac(1), Side::Here);
        stations.learn(at(0), mac(2), Side::Remote(0));
        stations.learn(at(0), MacAddr::BROADCAST, Side::Remote(0));
        assert_eq!(stations.side_of(at(1), mac(1)), Some(Side::Here));
        assert_eq!((stations.side_of(at(1), mac(3)), stations.count()), (None, 2));
        stations.learn(at(200), mac(1), Side::Remote(1));
        assert_eq!((stations.side_of(at(201), mac(1)), stations.moves()), (Some(Side::Remote(1)), 1));
        assert_eq!(stations.side_of(at(301), mac(2)), None, "silent for over 300 s");
        assert_eq!(stations.side_of(at(500), mac(1)), Some(Side::Remote(1)));
    }

    #[test]
    fn the_table_is_bounded_and_a_flood_does_not_push_anybody_out() {
        let mut stations = Stations::new(4, Span::from_secs(300));
        (0..200).for_each(|n| stations.learn(at(1), mac(n), Side::Remote(0)));
        assert_eq!((stations.count(), stations.refused()), (4, 196));
        assert_eq!(stations.side_of(at(2), mac(0)), Some(Side::Remote(0)));
        stations.learn(at(400), mac(99), Side::Here);
        assert_eq!((stations.count(), stations.side_of(at(400), mac(99))), (1, Some(Side::Here)));
    }

    #[test]
    fn stations_of_a_removed_site_are_forgotten() {
        let mut stations = Stations::new(4, Span::from_secs(300));
        (0..3).for_each(|n| stations.learn(at(0), mac(n), Side::Remote(n.into())));
        stations.renumber(|old| [Some(0), None, Some(1)][old]);
        assert_eq!(stations.side_of(at(0), mac(1)), None);
        assert_eq!(stations.side_of(at(0), mac(2)), Some(Side::Remote(1)));
    }
}
