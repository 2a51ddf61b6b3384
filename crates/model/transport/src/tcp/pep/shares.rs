//! Shares of clients in memory and in half-open connections.

use std::collections::HashMap;
use std::net::IpAddr;

use super::syn_cache::source;

/// Amounts in use, by client.
///
/// A client takes more while it has less than is free (dynamic thresholds, Choudhury and Hahne 1998). One alone has half of the limit,
/// and n have n/(n + 1) of it: a further one always finds some.
#[derive(Debug, Default)]
pub(super) struct Shares {
    limit: Option<u64>,
    total: usize,
    by_source: HashMap<IpAddr, usize>,
}

impl Shares {
    pub(super) fn new(limit: Option<u64>) -> Shares {
        Shares { limit, ..Shares::default() }
    }

    /// Returns the amount of all clients.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns the amount of a client, with its site.
    pub(super) fn of(&self, client: IpAddr) -> usize {
        self.by_source.get(&source(client)).copied().unwrap_or(0)
    }

    /// Counts a connection of a client that has `after` in place of `before`.
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

    /// Returns `true` if a client has less than is free.
    pub(super) fn has_room(&self, client: IpAddr) -> bool {
        self.limit.is_none_or(|limit| (self.of(client) as u64) < limit.saturating_sub(self.total as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_less_than_is_free() {
        let mut shares = Shares::new(Some(900));
        let [first, second, third] = [1, 2, 3].map(|host| IpAddr::from([10, 0, 0, host]));
        shares.change(first, 0, 449);
        assert!(shares.has_room(first));
        shares.change(first, 449, 450);
        assert_eq!((shares.has_room(first), shares.has_room(second)), (false, true));
        shares.change(second, 0, 225);
        assert_eq!((shares.has_room(second), shares.has_room(third)), (false, true));
        shares.change(first, 450, 0);
        assert_eq!((shares.has_room(second), shares.total(), shares.by_source.len()), (true, 225, 1));
        assert!(Shares::new(None).has_room(first));
    }
}
