//! Links over which a stream came.
//!
//! A link that has the contents of another one within 0.5 ms, or a part of them, is a mirror of it, with all of its packets, as long as the other one has some: packets that
//! the other one lost do not make a stream. Contents that came once show it: NULL packets and constant bytes are alike on any link.

use super::{Now, Trace};

/// Longest time between a packet and the one of another link, nanoseconds.
pub(super) const WINDOW_NS: u64 = 1_000_000_000;
/// Longest silence of a link for which its mirror is left out, nanoseconds.
const SILENCE_NS: u64 = 100_000_000;
/// Number of contents that show a mirror.
const LEAST: u32 = 8;
/// Most contents that are counted; more halve the counts.
const MOST: u32 = 1024;
/// Most links of a stream behind the first one, each with its bit.
const MAX_OTHERS: usize = 8;

/// Link with its packets of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct OfLink {
    /// Place of the link.
    link: u8,
    packets: u32,
    /// Contents that came once, and those of them that another link has as well.
    contents: [u32; 2],
    /// Number of these that came within the time of copies.
    near: u32,
    /// Longest time between a packet and the one of the other link.
    late_ns: u64,
    /// Longest time between two packets.
    gap_ns: u64,
    /// Set while its contents are those of the other link.
    is_alike: bool,
    /// Time of the first and of the last packet.
    times_ns: [u64; 2],
}

impl OfLink {
    fn new(now: Now) -> OfLink {
        OfLink { link: now.link, times_ns: [now.time_ns; 2], ..OfLink::default() }
    }

    /// Counts a packet, and its content if that is another one.
    fn count(&mut self, now: Now, is_content: bool) {
        if self.packets > 0 {
            let gap_ns = now.time_ns.saturating_sub(self.times_ns[1]);
            self.gap_ns = self.gap_ns.max(gap_ns.min(SILENCE_NS));
        }
        self.packets = self.packets.saturating_add(1);
        self.times_ns[1] = self.times_ns[1].max(now.time_ns);
        self.contents[0] += u32::from(is_content);
        self.decide();
    }

    fn pair(&mut self, now: Now) {
        self.contents[1] += 1;
        self.near += u32::from(now.gap_ns <= super::WINDOW_NS);
        self.late_ns = self.late_ns.max(now.gap_ns);
        self.decide();
    }

    /// Returns `true` if the link has packets at a time.
    fn is_there(&self, at_ns: u64) -> bool {
        let [from_ns, to_ns] = self.times_ns;
        let until_ns = to_ns.saturating_add(2 * (self.gap_ns + self.late_ns));
        at_ns >= from_ns && at_ns <= until_ns
    }

    fn decide(&mut self) {
        let [all, paired] = self.contents;
        self.is_alike = match self.is_alike {
            true => all < 64 || 2 * paired >= all,
            false => paired >= LEAST && 4 * paired >= 3 * all,
        };
        if all >= MOST {
            self.contents = [all / 2, paired / 2];
            self.near /= 2;
        }
    }

    /// Returns `true` if its packets are copies. They are a stream of their own if all come later.
    fn is_mirror(&self) -> bool {
        self.is_alike && 8 * self.near >= self.contents[1]
    }
}

/// Links of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    first: Option<OfLink>,
    others: Vec<OfLink>,
}

impl Links {
    /// Counts a packet, with the trace of its content.
    ///
    /// It returns `true` if it is of a mirror of the first link, and the bits of other links that have its content.
    pub(super) fn add(&mut self, sum: u64, trace: &Trace, now: Now) -> (bool, u8) {
        let is_known = trace.sum == sum && trace.count > 0;
        let first = self.first.get_or_insert_with(|| OfLink::new(now));
        let bits = if is_known { trace.links } else { 0 };
        if first.link == now.link && self.others.is_empty() {
            first.count(now, false);
            return (false, bits);
        }
        let is_single = !trace.recurs && trace.count == 1;
        let is_pair = is_known && is_single && trace.link != now.link && now.gap_ns <= WINDOW_NS;
        let of = if first.link == now.link { trace.link } else { now.link };
        let place = self.others.iter().position(|other| other.link == of);
        if first.link == now.link {
            let is_there = self.others.iter().any(|other| other.is_there(now.time_ns));
            first.count(now, is_pair || !is_known && is_there);
            let Some(place) = place.filter(|place| is_pair && bits & 1 << place == 0) else {
                return (false, bits);
            };
            first.pair(now);
            self.others[place].pair(now);
            return (false, bits | 1 << place);
        }
        if place.is_none() && self.others.len() == MAX_OTHERS {
            return (false, bits);
        }
        let place = place.unwrap_or_else(|| {
            self.others.push(OfLink::new(now));
            self.others.len() - 1
        });
        let other = &mut self.others[place];
        let is_there = first.is_there(now.time_ns);
        let is_first_too = is_pair && trace.link == first.link;
        let is_pair = is_first_too && bits & 1 << place == 0;
        other.count(now, is_pair || !is_known && is_there);
        if is_pair {
            first.pair(now);
            other.pair(now);
        }
        (other.is_mirror() && (is_there || is_first_too), if is_pair { bits | 1 << place } else { bits })
    }

    /// Returns `true` if a link is a mirror of the first one.
    pub(super) fn is_mirror(&self, link: u8) -> bool {
        self.others.iter().any(|other| other.link == link && other.is_mirror())
    }

    /// Returns `true` if two links with the same contents are two streams.
    pub(super) fn are_apart(&self, links: [u8; 2]) -> bool {
        links[0] != links[1]
            && self
                .others
                .iter()
                .any(|other| links.contains(&other.link) && other.is_alike && !other.is_mirror())
    }

    /// Returns `true` if a link is a mirror of another one.
    pub(super) fn has_mirror(&self) -> bool {
        self.others.iter().any(OfLink::is_mirror)
    }

    /// Begins the capture again. Of links with the same contents the one with the most packets is the first.
    pub(super) fn begin(&mut self) {
        let Some(first) = &mut self.first else { return };
        let most = (0..self.others.len()).max_by_key(|place| self.others[*place].packets);
        if let Some(place) =
            most.filter(|place| first.is_mirror() && self.others[*place].packets > first.packets)
        {
            std::mem::swap(first, &mut self.others[place]);
            // Further ones were compared with the link that was the first.
            for (other, of) in self.others.iter_mut().zip(0..) {
                if of != place {
                    (other.contents, other.near, other.is_alike) = ([0; 2], 0, false);
                }
            }
        }
        // The last packet is not known in advance.
        first.times_ns[1] = first.times_ns[0];
        self.others.iter_mut().for_each(|other| other.times_ns[1] = other.times_ns[0]);
    }
}
