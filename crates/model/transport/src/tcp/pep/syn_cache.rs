//! SYNs answered without a connection (SYN cache, RFC 4987, section 3.5).
//!
//! An entry has the SYN and the initial sequence number of its answer. When the cache is full, the oldest entry of the source with the
//! most gives way; where each source has one, as in a flood from forged addresses, the oldest of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use bentpipe_units::{Span, Time};
use bentpipe_wire::tcp::{Flags, SeqNumber};

use super::Ends;
use crate::tcp::segment::Incoming;

/// Time for the ACK of an answer, with its repetitions.
const LIFE: Span = Span::from_secs(15);

/// Longest SYN that is kept: IPv4 and TCP with all their options.
pub(super) const MAX_SYN: usize = 120;

/// Receive window of an answer, which is not scaled (RFC 7323, section 2.2).
const WINDOW: u32 = 0xffff;

/// Bits of an IPv6 address that a site has, with all addresses behind them.
const SITE: u32 = 64;

/// Returns the address of a source, or the network of a site with IPv6.
pub(super) fn source(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> (128 - SITE) << (128 - SITE)).into(),
        v4 => v4,
    }
}

/// SYN that was answered.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Packet of the SYN.
    pub(super) syn: Box<[u8]>,
    /// Initial sequence number of the answer.
    pub(super) iss: u32,
    /// Time of the first answer.
    pub(super) at: Time,
    /// Number of further answers.
    pub(super) repeats: u32,
    /// Initial sequence number of the client.
    irs: SeqNumber,
    number: u64,
}

impl Entry {
    /// Returns `true` if a segment acknowledges the answer, and follows the SYN.
    fn is_answered_by(&self, segment: &Incoming) -> bool {
        let distance = segment.seq.delta(self.irs + 1);
        segment.ack == Some(SeqNumber(self.iss) + 1)
            && !segment.flags.intersects(Flags::SYN | Flags::RST)
            && (0..=WINDOW as i32).contains(&distance)
    }
}

/// Table of answered SYNs.
#[derive(Debug, Default)]
pub(super) struct SynCache {
    max: usize,
    entries: HashMap<Ends, Entry>,
    /// Entries by their number: the first is the oldest.
    order: BTreeMap<u64, Ends>,
    /// Numbers of the entries of each source.
    sources: HashMap<IpAddr, BTreeSet<u64>>,
    /// Sources by the number of their entries.
    crowds: BTreeSet<(usize, IpAddr)>,
    next: u64,
    /// Entries that gave way to others.
    pub(super) displaced: u64,
}

impl SynCache {
    /// Creates a cache of at most `max` entries.
    pub(super) fn new(max: usize) -> SynCache {
        SynCache { max: max.max(1), ..SynCache::default() }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if a SYN of these ends was answered.
    pub(super) fn contains(&self, ends: &Ends) -> bool {
        self.entries.contains_key(ends)
    }

    /// Returns the time at which the oldest entry ends.
    pub(super) fn deadline(&self) -> Time {
        let oldest = self.order.first_key_value().and_then(|(_, ends)| self.entries.get(ends));
        oldest.map_or(Time::NEVER, |entry| entry.at + LIFE)
    }

    /// Stores a SYN, and returns the initial sequence number of its answer. That of a repeated SYN is the same; `new` is for others.
    pub(super) fn answer(&mut self, ends: Ends, syn: Vec<u8>, irs: SeqNumber, new: u32, now: Time) -> u32 {
        if let Some(entry) = self.entries.get_mut(&ends).filter(|entry| entry.irs == irs) {
            entry.repeats += 1;
            return entry.iss;
        }
        self.remove(&ends);
        if self.entries.len() >= self.max
            && let Some(ends) = self.giving_way()
        {
            self.displaced += 1;
            self.remove(&ends);
        }
        let number = self.next;
        self.next += 1;
        self.order.insert(number, ends);
        self.change_source(ends, |numbers| numbers.insert(number));
        let entry = Entry { syn: syn.into(), iss: new, at: now, repeats: 0, irs, number };
        self.entries.insert(ends, entry);
        new
    }

    /// Returns the entry that a segment completes, which leaves the cache. A reset of the client removes its entry.
    pub(super) fn complete(&mut self, ends: &Ends, segment: &Incoming) -> Option<Entry> {
        let entry = self.entries.get(ends)?;
        if segment.has(Flags::RST) && segment.seq == entry.irs + 1 {
            self.remove(ends);
            return None;
        }
        if entry.is_answered_by(segment) { self.remove(ends) } else { None }
    }

    /// Removes the entries whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        while self.deadline() <= now
            && let Some((_, &ends)) = self.order.first_key_value()
        {
            self.remove(&ends);
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        *self = SynCache { displaced: self.displaced, next: self.next, ..SynCache::new(self.max) };
    }

    /// Returns the entry that gives way to another.
    fn giving_way(&self) -> Option<Ends> {
        let crowd = self.crowds.last().filter(|(count, _)| *count > 1);
        let of_crowd = crowd.and_then(|(_, source)| self.sources.get(source)?.first());
        let number = of_crowd.or_else(|| self.order.first_key_value().map(|(number, _)| number))?;
        self.order.get(number).copied()
    }

    fn remove(&mut self, ends: &Ends) -> Option<Entry> {
        let entry = self.entries.remove(ends)?;
        self.order.remove(&entry.number);
        self.change_source(*ends, |numbers| numbers.remove(&entry.number));
        if self.entries.is_empty() {
            // The memory of a flood ends with it.
            self.clear();
        }
        Some(entry)
    }

    fn change_source(&mut self, (client, _): Ends, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let source = source(client.ip());
        let numbers = self.sources.entry(source).or_default();
        self.crowds.remove(&(numbers.len(), source));
        change(numbers);
        match numbers.len() {
            0 => drop(self.sources.remove(&source)),
            count => drop(self.crowds.insert((count, source))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Time {
        Time::ZERO + Span::from_secs(number)
    }

    fn ends(client: &str) -> Ends {
        (client.parse().expect("an address"), "10.0.1.1:80".parse().expect("an address"))
    }

    fn add(cache: &mut SynCache, client: &str, at: u64) -> u32 {
        cache.answer(ends(client), vec![0; 40], SeqNumber(7), at as u32, seconds(at))
    }

    #[test]
    fn the_source_with_the_most_gives_way_and_then_the_oldest() {
        let mut cache = SynCache::new(4);
        for (at, client) in ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2", "10.0.0.2:3"].iter().enumerate() {
            add(&mut cache, client, at as u64);
        }
        add(&mut cache, "10.0.0.3:1", 4);
        assert!(cache.contains(&ends("10.0.0.1:1")) && !cache.contains(&ends("10.0.0.2:1")));
        add(&mut cache, "10.0.0.4:1", 5);
        assert!(!cache.contains(&ends("10.0.0.2:2")));
        // Each source has one.
        add(&mut cache, "10.0.0.5:1", 6);
        assert!(!cache.contains(&ends("10.0.0.1:1")));
        assert_eq!((cache.len(), cache.displaced), (4, 3));
    }

    #[test]
    fn hosts_of_an_ipv6_site_are_one_source() {
        let mut cache = SynCache::new(3);
        for (at, client) in ["[fd00::1]:1", "[fd01::1]:1", "[fd01::2]:1"].iter().enumerate() {
            add(&mut cache, client, at as u64);
        }
        add(&mut cache, "[fd02::1]:1", 3);
        assert!(cache.contains(&ends("[fd00::1]:1")) && !cache.contains(&ends("[fd01::1]:1")));
    }

    #[test]
    fn a_repeated_syn_has_the_same_answer_and_entries_end() {
        let mut cache = SynCache::new(4);
        assert_eq!(add(&mut cache, "10.0.0.1:1", 1), 1);
        assert_eq!(add(&mut cache, "10.0.0.1:1", 2), 1);
        let other = cache.answer(ends("10.0.0.1:1"), vec![0; 40], SeqNumber(8), 5, seconds(3));
        assert_eq!((other, cache.len()), (5, 1));
        assert_eq!(cache.deadline(), seconds(18));
        cache.expire(seconds(18));
        assert_eq!((cache.len(), cache.deadline(), cache.sources.len()), (0, Time::NEVER, 0));
    }
}
