//! Datagrams of hosts that are not known, until their turn.
//!
//! The socket is read at once, so that a flood leaves room for neighbours in it. What waits is bounded: beyond that the host with the most
//! loses its newest. Hosts have turns. Their addresses can be forged, so all of them together are one guest among those that connect.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of datagrams that wait.
const MAX_BYTES: usize = 8 << 20;
/// Memory of a datagram in addition to its bytes.
const OVERHEAD: usize = 128;

/// Datagrams of a host.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    datagrams: VecDeque<Vec<u8>>,
}

/// Datagrams that wait, by host.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_host: BTreeMap<u64, Line>,
    /// Hosts by the bytes that they have.
    by_bytes: BTreeSet<(usize, u64)>,
    bytes: usize,
    /// Host that had the last turn.
    last: u64,
    /// Turn of the node in which they were read last.
    pub(crate) served: u64,
}

impl Waiting {
    /// Adds a datagram, and returns the number of those that are lost.
    pub(crate) fn push(&mut self, host: u64, bytes: &[u8]) -> u64 {
        let (size, mut lost) = (bytes.len() + OVERHEAD, 0);
        while self.bytes + size > MAX_BYTES {
            let own = self.by_host.get(&host).map_or(0, |line| line.bytes);
            let greedy = self.by_bytes.last().copied().filter(|(most, of)| *of != host && *most > own + size);
            lost += 1;
            match greedy {
                None => return lost,
                Some((_, of)) => drop(self.take(of, VecDeque::pop_back)),
            }
        }
        let line = self.by_host.entry(host).or_default();
        line.datagrams.push_back(bytes.to_vec());
        let before = line.bytes;
        line.bytes += size;
        self.count(host, before, before + size);
        lost
    }

    /// Removes and returns the first datagram of the next host.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let after = self.last.checked_add(1).and_then(|from| self.by_host.range(from..).next());
        let host = *after.or_else(|| self.by_host.first_key_value())?.0;
        self.last = host;
        self.take(host, VecDeque::pop_front)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_host.is_empty()
    }

    fn take(&mut self, host: u64, end: fn(&mut VecDeque<Vec<u8>>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let line = self.by_host.get_mut(&host)?;
        let taken = end(&mut line.datagrams)?;
        let (before, after) = (line.bytes, line.bytes - taken.len() - OVERHEAD);
        line.bytes = after;
        if after == 0 {
            self.by_host.remove(&host);
        }
        self.count(host, before, after);
        Some(taken)
    }

    /// Counts the bytes of a host again.
    fn count(&mut self, host: u64, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        self.by_bytes.remove(&(before, host));
        if after > 0 {
            self.by_bytes.insert((after, host));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_turns_and_the_greedy_one_loses() {
        let mut waiting = Waiting::default();
        let most = MAX_BYTES / (1000 + OVERHEAD);
        let lost: u64 = (0..2 * most).map(|n| waiting.push(1, &[n as u8; 1000])).sum();
        assert_eq!((lost, waiting.bytes <= MAX_BYTES), (most as u64, true), "its own last ones");
        for host in [2, 3, u64::MAX] {
            assert_eq!((0..10).map(|n| waiting.push(host, &[n; 1000])).sum::<u64>(), 10, "of the first host");
        }
        let hosts: Vec<u64> = (0..8).filter_map(|_| waiting.pop().map(|_| waiting.last)).collect();
        assert_eq!(hosts, [1, 2, 3, u64::MAX, 1, 2, 3, u64::MAX]);
        let mut left = 0;
        while waiting.pop().is_some() {
            left += 1;
        }
        assert_eq!(left, most - 8);
        assert_eq!((waiting.bytes, waiting.by_bytes.len(), waiting.is_empty()), (0, 0, true));
    }

    #[test]
    fn many_forged_hosts_leave_each_other_room() {
        let mut waiting = Waiting::default();
        let lost: u64 = (0..200_000).map(|host| waiting.push(host, &[7; 40])).sum();
        assert_eq!(lost as usize, 200_000 - MAX_BYTES / (40 + OVERHEAD));
        assert!(waiting.bytes <= MAX_BYTES && waiting.by_host.len() == waiting.by_bytes.len());
    }
}
