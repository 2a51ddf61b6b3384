//! Shares of incoming calls by source, so that one host never takes all.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use super::CallId;

/// Bits of an IPv6 address that a site has, with all addresses behind them.
const SITE: u32 = 64;

/// Calls by the source of their INVITE.
#[derive(Debug, Default)]
pub(super) struct Sources {
    by_source: HashMap<IpAddr, BTreeSet<CallId>>,
    /// Sources by their number of calls, then by the age of their oldest.
    order: BTreeSet<(usize, Reverse<CallId>, IpAddr)>,
    count: usize,
}

impl Sources {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the oldest call of the source with the most.
    ///
    /// That has more calls than the host has, or is to have. It makes room for a call of the host.
    pub(super) fn in_the_way_of(&self, host: IpAddr, further: usize) -> Option<CallId> {
        let own = self.by_source.get(&source(host)).map_or(0, BTreeSet::len) + further;
        self.order.last().filter(|(most, ..)| *most > own).map(|(_, Reverse(oldest), _)| *oldest)
    }

    pub(super) fn insert(&mut self, host: IpAddr, call: CallId) {
        let is_new = self.change(source(host), |calls| calls.insert(call));
        self.count += usize::from(is_new);
    }

    pub(super) fn remove(&mut self, host: IpAddr, call: CallId) {
        let was_there = self.change(source(host), |calls| calls.remove(&call));
        self.count -= usize::from(was_there);
    }

    fn change(&mut self, source: IpAddr, change: impl FnOnce(&mut BTreeSet<CallId>) -> bool) -> bool {
        let calls = self.by_source.entry(source).or_default();
        let place = |calls: &BTreeSet<CallId>| Some((calls.len(), Reverse(*calls.first()?), source));
        if let Some(before) = place(calls) {
            self.order.remove(&before);
        }
        let is_changed = change(calls);
        match place(calls) {
            Some(after) => drop(self.order.insert(after)),
            None => drop(self.by_source.remove(&source)),
        }
        is_changed
    }
}

/// Returns the address, or the network of a site with IPv6.
fn source(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> (128 - SITE) << (128 - SITE)).into(),
        v4 => v4,
    }
}
