//! Memory for the content of streams, and the shares of clients in it.

use std::collections::HashMap;
use std::net::IpAddr;

use bentpipe_units::Bytes;

use super::RESERVE;
use super::syn_cache::source;

/// Memory in use, by client.
///
/// A client takes more than the reserve of each connection while it has less than is free (dynamic thresholds, Choudhury and Hahne
/// 1998). One alone has half of the limit, and n have n/(n + 1) of it: a further one always finds some.
#[derive(Debug, Default)]
pub(super) struct Memory {
    limit: Option<u64>,
    total: usize,
    by_source: HashMap<IpAddr, usize>,
}

impl Memory {
    pub(super) fn new(limit: Option<Bytes>) -> Memory {
        Memory { limit: limit.map(Bytes::get), ..Memory::default() }
    }

    /// Returns the memory of all clients.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns the memory of a client, with its site.
    pub(super) fn of(&self, client: IpAddr) -> usize {
        self.by_source.get(&source(client)).copied().unwrap_or(0)
    }

    /// Counts a connection of a client that has `after` bytes in place of `before`.
    pub(super) fn change(&mut self, client: IpAddr, before: usize, after: usize) {
        if before == after {
            return;
        }
        self.total = self.total - before + after;
        let source = source(client);
        let share = self.by_source.entry(source).or_default();
        *share = *share + after - before;
        if *share == 0 {
            self.by_source.remove(&source);
        }
    }

    /// Returns the maximum of bytes that a direction of a client's connection may hold.
    pub(super) fn room(&self, client: IpAddr) -> u64 {
        let Some(limit) = self.limit else { return u64::MAX };
        let free = limit.saturating_sub(self.total as u64);
        if (self.of(client) as u64) < free { u64::MAX } else { RESERVE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_less_than_is_free() {
        let mut memory = Memory::new(Some(Bytes::new(900)));
        let [first, second, third] = [1, 2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        memory.change(first, 0, 449);
        assert_eq!(memory.room(first), u64::MAX);
        memory.change(first, 449, 450);
        assert_eq!((memory.room(first), memory.room(second)), (RESERVE, u64::MAX));
        memory.change(second, 0, 225);
        assert_eq!((memory.room(second), memory.room(third)), (RESERVE, u64::MAX));
        memory.change(first, 450, 0);
        assert_eq!((memory.room(second), memory.total(), memory.by_source.len()), (u64::MAX, 225, 1));
        assert_eq!(Memory::new(None).room(first), u64::MAX);
    }
}
