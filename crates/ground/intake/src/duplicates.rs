//! Packets that a capture has twice, of mirrored ports or several interfaces.
//!
//! A copy has the addresses, identification and content of a packet shortly before; its TTL, checksums and link may differ. An identification
//! that its sender counts shows a copy by itself. Otherwise the stream decides: it is mirrored if almost every content comes twice, or three or four times,
//! or in part if single contents of UDP come exactly twice. A stream whose contents another link has as well is a copy as a whole ([`links`]).
//! A sender may repeat what it sends: NULL packets, constant bytes, acknowledgements.
//!
//! *Does not know*: a sender that sends each packet twice by itself, with the same identification.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use bentpipe_wire::ip::{Packet, Protocol};

use crate::Link;

mod links;
use links::Links;

/// Longest time from a packet to its copy on another link, nanoseconds.
const WINDOW_NS: u64 = 500_000;
/// Longest time to a copy on the same link with the same TTL, nanoseconds.
const LINK_WINDOW_NS: u64 = 2_000_000;
/// Longest time to a copy on the same link behind a router, nanoseconds.
const ROUTER_WINDOW_NS: u64 = 1_000_000_000;
/// Longest time from a fragment to its copy without another one in between, nanoseconds.
const FRAGMENT_WINDOW_NS: u64 = 1_000_000_000;
/// Most packets of a stream between one and its copy, where only some have one.
const MAX_BETWEEN: u32 = 4;
/// Most links that are distinguished.
const MAX_LINKS: usize = 255;
/// Number of packets that are remembered.
const REMEMBERED: usize = 1 << 14;
/// Most streams that are judged by themselves.
const MAX_STREAMS: usize = 1 << 14;

/// Trace of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Trace {
    sum: u64,
    time_ns: u64,
    /// Number of the packet in its stream.
    number: u32,
    /// Place of its link.
    link: u8,
    ttl: u8,
    /// Number of this packet among those of its content.
    count: u8,
    /// Place among a packet and its copies, from 1.
    place: u8,
    /// Set if the content came earlier as well.
    recurs: bool,
    /// Bits of other links that have the content too.
    links: u8,
    /// Set unless the packet was left out with its link.
    is_used: bool,
}

/// Memory of the last packets, in a place by their content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duplicates {
    traces: Vec<Trace>,
    /// Lower halves of the sums of all traces. Most packets are new, and these fit a cache.
    tags: Vec<u32>,
    /// Sum of the last fragment.
    fragment: u64,
    /// Links by their places.
    links: Vec<Link>,
    /// Streams by their sums.
    streams: HashMap<u64, Stream, BuildHasherDefault<Mixed>>,
    /// Contents of all streams.
    all: Tally,
    repeated: Repeated,
}

/// Contents that come again, too late for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Packets whose content came before.
    pub packets: u64,
    /// Mean time since it came before, nanoseconds.
    pub late_ns: u64,
}

/// Packets, and those that came again, with the sum of the times between.
#[derive(Clone, Copy, Debug, Default)]
struct Repeated {
    packets: u64,
    again: u64,
    late_ns: u64,
}

/// Longest time between two packets of a content that are of two captures, nanoseconds.
const ECHO_WINDOW_NS: u64 = 10_000_000_000;
/// Packets of a stream within which its identifications do not come again.
const ECHO_PACKETS: u32 = 1 << 15;

/// State of a stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Contents on all links, and on each by itself.
    tally: Tally,
    on_link: Tally,
    ident: u16,
    /// Set once the identification has changed.
    counts: bool,
    run: Run,
    /// Number of packets.
    number: u32,
    /// Contents of UDP that came twice shortly, and those that came more often.
    pairs: [u32; 2],
    links: Links,
}

impl Stream {
    /// Counts the content of a packet.
    fn count(&mut self, seen: &Seen, trace: &Trace, now: Now) {
        let Now { time_ns, gap_ns, link, count } = now;
        self.tally.add(count, gap_ns, 4);
        self.on_link.add(if trace.link == link { count } else { 1 }, gap_ns, 4);
        self.run.add(seen, time_ns);
        if count > 1 && trace.link == link && seen.is_udp && is_near(trace, self.number) {
            let [twice, more] = &mut self.pairs;
            match count {
                2 => *twice = twice.saturating_add(1),
                3 => (*twice, *more) = (twice.saturating_sub(1), more.saturating_add(1)),
                _ => {}
            }
        }
        self.counts |= seen.ident != self.ident && self.ident != 0 && seen.ident != 0;
        self.ident = seen.ident;
    }

    /// Returns `true` if some packets have a copy each.
    fn is_mirrored_in_part(&self) -> bool {
        let [twice, more] = self.pairs;
        twice >= 8 && 8 * more <= twice
    }
}

/// Decision on the packets of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Decision {
    /// Set if its identification shows a copy.
    counts: bool,
    mirror: Option<Mirror>,
    is_mirrored_in_part: bool,
    /// Number of the packet in its stream.
    number: u32,
    /// Set if the link is a mirror of another one.
    is_other_link: bool,
    /// Set if the content came over a link with a stream of its own.
    is_apart: bool,
    /// Set if the content came over a link that is a mirror of this one.
    is_from_mirror: bool,
    /// Bits of other links that have the content too.
    links: u8,
}

/// Contents by the number of times that they came.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    times: [u32; 4],
    late_ns: u64,
    is_mirrored: bool,
}

impl Tally {
    /// Most contents that are counted; more halve the counts.
    const MOST: u32 = 4096;

    /// Counts a content that comes for the `count`th time, `late_ns` after it came before.
    fn add(&mut self, count: u8, late_ns: u64, least: u32) {
        let count = usize::from(count);
        if let Some(before) = count.checked_sub(2).and_then(|place| self.times.get_mut(place)) {
            *before = before.saturating_sub(1);
        }
        if let Some(times) = self.times.get_mut(count - 1) {
            *times += 1;
        }
        if count == 2 {
            self.late_ns = self.late_ns.max(late_ns);
        }
        let (once, again) = (self.times[0], self.again());
        if once + again > Tally::MOST {
            self.times.iter_mut().for_each(|times| *times /= 2);
        }
        self.is_mirrored = match self.is_mirrored {
            true => once <= again || once + again < 64,
            false => again >= least && 8 * once <= again,
        };
    }

    fn again(&self) -> u32 {
        self.times[1..].iter().sum()
    }

    /// Returns `true` if there are enough contents to judge.
    fn is_enough(&self) -> bool {
        self.times[0] + self.again() >= 8
    }

    fn mirror(&self) -> Option<Mirror> {
        if !self.is_mirrored {
            return None;
        }
        let most = (2..=4).rev().max_by_key(|count| self.times[count - 1]).unwrap_or(2);
        Some(Mirror { copies: most as u8, late_ns: self.late_ns })
    }
}

/// Stretch of packets with one content.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    sum: u64,
    time_ns: u64,
    gap_ns: u64,
    ttl: u8,
    /// Number of short gaps behind long ones, and of gaps alike.
    gaps: [u32; 2],
    /// Number of packets with another TTL than the one before, and with the same.
    hops: [u32; 2],
    late_ns: u64,
}

impl Run {
    fn add(&mut self, seen: &Seen, time_ns: u64) {
        if seen.sum != self.sum {
            (self.sum, self.time_ns, self.ttl, self.gap_ns) = (seen.sum, time_ns, seen.ttl, 0);
            return;
        }
        let (gap_ns, before_ns) = (time_ns.abs_diff(self.time_ns), self.gap_ns);
        self.hops[usize::from(seen.ttl == self.ttl)] += 1;
        let is_short = |short: u64, long: u64| short <= WINDOW_NS && 8 * short <= long;
        if before_ns > 0 && is_short(gap_ns, before_ns) {
            self.gaps[0] += 1;
            self.late_ns = self.late_ns.max(gap_ns);
        } else if before_ns > 0 && !is_short(before_ns, gap_ns) {
            self.gaps[1] += 1;
        }
        if seen.ttl < self.ttl && gap_ns <= ROUTER_WINDOW_NS {
            self.late_ns = self.late_ns.max(gap_ns);
        }
        (self.time_ns, self.ttl, self.gap_ns) = (time_ns, seen.ttl, gap_ns);
    }

    fn is_enough(&self) -> bool {
        self.gaps[0] + self.gaps[1] >= 8
    }

    fn mirror(&self) -> Option<Mirror> {
        let is_clear = |[for_it, against]: [u32; 2]| for_it >= 8 && 16 * against <= for_it;
        let is_mirrored = is_clear(self.gaps) || is_clear(self.hops);
        is_mirrored.then_some(Mirror { copies: 2, late_ns: self.late_ns })
    }
}

/// Mirror of a stream.
#[derive(Clone, Copy, Debug)]
struct Mirror {
    /// Number of times that each packet comes.
    copies: u8,
    late_ns: u64,
}

impl Mirror {
    /// Returns the time within which a copy comes.
    fn window_ns(&self) -> u64 {
        2 * self.late_ns + 100_000
    }
}

impl Duplicates {
    /// Returns `true` if an IP packet is a copy of one that came shortly before.
    ///
    /// Packets without a time have none.
    pub(crate) fn is_copy(&mut self, bytes: &[u8], len: usize, time_ns: Option<u64>, link: Link) -> bool {
        self.judge(bytes, len, time_ns, link, false)
    }

    /// Returns `true` if a packet that was put together of fragments is a copy.
    pub(crate) fn is_copy_of_fragments(&mut self, bytes: &[u8], time_ns: Option<u64>, link: Link) -> bool {
        self.judge(bytes, bytes.len(), time_ns, link, true)
    }

    /// Forgets the packets, but not what was learnt of their streams.
    pub(crate) fn begin(&mut self) {
        self.traces.clear();
        self.tags.clear();
        self.fragment = 0;
        self.repeated = Repeated::default();
        for stream in self.streams.values_mut() {
            stream.run = Run { sum: 0, ..stream.run };
            stream.links.begin();
        }
    }

    /// Returns the contents that come again, if almost all come twice so.
    ///
    /// They may be of two captures of a stream whose clocks differ.
    pub(crate) fn echo(&self) -> Option<Echo> {
        let Repeated { packets, again, late_ns } = self.repeated;
        let is_echo = again >= 8 && 5 * again >= 2 * packets;
        is_echo.then(|| Echo { packets: again, late_ns: late_ns / again })
    }

    /// Returns the place of a link. Links beyond the room have the last one.
    fn place_of_link(&mut self, link: Link) -> u8 {
        let place = self.links.iter().position(|of| *of == link).unwrap_or_else(|| {
            let place = self.links.len();
            if place < MAX_LINKS {
                self.links.push(link);
            }
            place
        });
        place as u8
    }

    fn judge(
        &mut self,
        bytes: &[u8],
        len: usize,
        time_ns: Option<u64>,
        link: Link,
        was_in_fragments: bool,
    ) -> bool {
        let (Some(time_ns), Some(seen)) = (time_ns, Seen::of(bytes, len, link)) else { return false };
        let link = self.place_of_link(link);
        let trace = self.recall(seen.sum);
        let gap_ns = time_ns.abs_diff(trace.time_ns);
        let is_known = trace.sum == seen.sum;
        if seen.is_fragment {
            // Another fragment in between may begin another packet of the same identification.
            let window_ns = if self.fragment == seen.sum { FRAGMENT_WINDOW_NS } else { WINDOW_NS };
            self.fragment = seen.sum;
            self.remember(Trace { sum: seen.sum, time_ns, ..Trace::default() });
            return is_known && gap_ns <= window_ns;
        }
        let window_ns = match (trace.link == link, trace.ttl == seen.ttl) {
            (false, _) => WINDOW_NS,
            (true, true) => LINK_WINDOW_NS,
            (true, false) => ROUTER_WINDOW_NS,
        };
        let comes_again = trace.count > 0 && is_known && gap_ns <= window_ns;
        let count = if comes_again { trace.count.saturating_add(1) } else { 1 };
        let of = self.learn(&seen, &trace, Now { time_ns, gap_ns, link, count });
        if of.is_other_link {
            // A packet of the other link that came first is remembered in its place.
            if !is_known || trace.link == link {
                let (count, place) = (1, 1);
                let number = of.number;
                let (sum, ttl) = (seen.sum, seen.ttl);
                self.remember(Trace { sum, time_ns, number, link, ttl, count, place, ..Trace::default() });
            } else {
                self.remember(Trace { links: of.links, ..trace });
            }
            return true;
        }
        let comes_again = comes_again && !of.is_from_mirror && !of.is_apart;
        let is_identified = (of.counts || was_in_fragments) && gap_ns <= WINDOW_NS;
        let is_mirrored =
            of.mirror.is_some_and(|mirror| trace.place < mirror.copies && gap_ns <= mirror.window_ns());
        let is_first = trace.place == 1 && trace.count == 1 && trace.link == link;
        let is_single = of.is_mirrored_in_part && is_first && is_near(&trace, of.number);
        let was_used = of.is_from_mirror
            && trace.link != link
            && trace.is_used
            && !trace.recurs
            && gap_ns <= links::WINDOW_NS;
        let is_copy = was_used || comes_again && (is_identified || is_mirrored || is_single);
        // What its sender repeats recurs, and an identification comes again behind all others.
        let is_again = of.counts && is_known && !comes_again && !trace.recurs && trace.link == link;
        let is_near = gap_ns <= ECHO_WINDOW_NS && of.number.wrapping_sub(trace.number) < ECHO_PACKETS;
        self.repeated.add((!is_copy && is_again && is_near).then_some(gap_ns));
        self.remember(Trace {
            sum: seen.sum,
            time_ns,
            number: of.number,
            link,
            ttl: seen.ttl,
            count: if comes_again { count } else { 1 },
            place: if is_copy { trace.place.saturating_add(1) } else { 1 },
            recurs: is_known && (trace.recurs || !comes_again && trace.link == link),
            links: of.links,
            is_used: true,
        });
        is_copy
    }

    /// Returns the trace of a packet with this sum, or an empty one.
    fn recall(&mut self, sum: u64) -> Trace {
        if self.traces.is_empty() {
            self.traces.resize(REMEMBERED, Trace::default());
            self.tags.resize(REMEMBERED, 0);
        }
        let place = place_of(sum);
        let is_known = self.tags[place] == sum as u32;
        if is_known { self.traces[place] } else { Trace::default() }
    }

    fn remember(&mut self, trace: Trace) {
        let place = place_of(trace.sum);
        self.tags[place] = trace.sum as u32;
        self.traces[place] = trace;
    }

    /// Counts a packet in its stream, and returns what the stream decides.
    fn learn(&mut self, seen: &Seen, trace: &Trace, now: Now) -> Decision {
        let Now { gap_ns, count, .. } = now;
        self.all.add(count, gap_ns, 32);
        let has_room = self.streams.len() < MAX_STREAMS || self.streams.contains_key(&seen.stream);
        if !has_room {
            return Decision { mirror: self.all.mirror(), ..Decision::default() };
        }
        let stream = self.streams.entry(seen.stream).or_default();
        stream.number = stream.number.wrapping_add(1);
        let (is_other_link, links) = stream.links.add(seen.sum, trace, now);
        if !is_other_link {
            stream.count(seen, trace, now);
        }
        let mirror = if stream.links.has_mirror() {
            stream.on_link.mirror()
        } else if stream.tally.is_enough() || stream.tally.is_mirrored {
            stream.tally.mirror()
        } else if stream.run.is_enough() {
            stream.run.mirror()
        } else {
            self.all.mirror()
        };
        Decision {
            counts: stream.counts && seen.ident != 0,
            mirror,
            is_mirrored_in_part: stream.is_mirrored_in_part(),
            number: stream.number,
            is_other_link,
            is_apart: stream.links.are_apart([trace.link, now.link]),
            is_from_mirror: trace.sum == seen.sum && stream.links.is_mirror(trace.link),
            links,
        }
    }
}

impl Repeated {
    fn add(&mut self, late_ns: Option<u64>) {
        self.packets += 1;
        self.again += u64::from(late_ns.is_some());
        self.late_ns = self.late_ns.saturating_add(late_ns.unwrap_or(0));
    }
}

/// Arrival of a packet.
#[derive(Clone, Copy, Debug)]
struct Now {
    time_ns: u64,
    /// Time since its content came before.
    gap_ns: u64,
    /// Place of its link.
    link: u8,
    /// Number of this packet among those of its content.
    count: u8,
}

/// Returns `true` if a content comes again shortly behind the only time before.
fn is_near(trace: &Trace, number: u32) -> bool {
    !trace.recurs && number.wrapping_sub(trace.number) <= MAX_BETWEEN + 1
}

/// Returns the place of the trace of a sum.
fn place_of(sum: u64) -> usize {
    (sum >> 32) as usize % REMEMBERED
}

/// Packet as its copies share it.
struct Seen {
    sum: u64,
    /// Sum of its addresses, protocol and ports.
    stream: u64,
    is_fragment: bool,
    is_udp: bool,
    /// Identification of IPv4, or 0.
    ident: u16,
    ttl: u8,
}

impl Seen {
    fn of(bytes: &[u8], len: usize, link: Link) -> Option<Seen> {
        let packet = Packet::new_elided(bytes, len.saturating_sub(bytes.len())).ok()?;
        let upper = packet.upper().ok()?;
        let addresses = if bytes[0] >> 4 == 4 { bytes.get(12..20) } else { bytes.get(8..40) }?;
        let mut stream = Sum(u64::from(upper.protocol.0) + 1);
        stream.bytes(addresses);
        let mut sum = Sum(len as u64 + 1);
        sum.bytes(addresses);
        let ident = match &packet {
            Packet::V4(ip) => {
                let place = (ip.fragment_offset() as u64) << 1 | u64::from(ip.more_fragments());
                sum.add(u64::from(ip.ident()) << 32 | place);
                ip.ident()
            }
            Packet::V6(_) => {
                sum.bytes(bytes.get(40..upper.offset)?);
                0
            }
        };
        let content = bytes.get(upper.offset..)?;
        let checksum = match upper.protocol {
            _ if upper.is_later_fragment => None,
            Protocol::UDP => Some(6),
            Protocol::TCP => Some(16),
            _ => None,
        };
        if checksum.is_some() {
            stream.bytes(content.get(..4).unwrap_or_default());
        }
        // A card that computes checksums has not yet, where the capture has the packet before it.
        match checksum.filter(|at| at + 2 <= content.len() && !upper.is_fragment) {
            Some(at) => {
                sum.bytes(&content[..at]);
                sum.bytes(&content[at + 2..]);
            }
            None => sum.bytes(content),
        }
        if upper.is_fragment {
            // Equal pieces of two links may be of different packets.
            let [outer, inner] = link.vlans.map(|vlan| vlan.map_or(1 << 16, u64::from));
            sum.add(u64::from(link.interface) << 32 | u64::from(link.index.unwrap_or(0)));
            sum.add(outer << 32 | inner);
        }
        Some(Seen {
            sum: sum.0,
            stream: stream.0,
            is_fragment: upper.is_fragment,
            is_udp: upper.protocol == Protocol::UDP,
            ident,
            ttl: packet.hop_limit(),
        })
    }
}

/// Hasher of numbers that are sums already.
#[derive(Clone, Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Sum of 64 bits over a packet.
///
/// It takes a multiplication and a rotation for each 8 bytes, of four words at a time.
pub(crate) struct Sum(pub(crate) u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let (fours, words) = words.as_chunks::<4>();
        if !fours.is_empty() {
            // Four sums that do not wait for one another.
            let (mut a, mut b, mut c, mut d) = (Sum(self.0), Sum(1), Sum(2), Sum(3));
            for four in fours {
                a.add(u64::from_le_bytes(four[0]));
                b.add(u64::from_le_bytes(four[1]));
                c.add(u64::from_le_bytes(four[2]));
                d.add(u64::from_le_bytes(four[3]));
            }
            self.0 = a.0;
            [b, c, d].iter().for_each(|lane| self.add(lane.0));
        }
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }
}
