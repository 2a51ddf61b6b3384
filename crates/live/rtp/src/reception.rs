//! Reception of any number of streams in bounded memory.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

use bentpipe_emu::shares::source;
use bentpipe_wire::rtp::Packet;
use hdrhistogram::Histogram;

use super::codec::clock_of_static;
use super::figures::{Arrival, Figures, Moments};
use super::mark::Mark;

/// Identity of a stream: local port and synchronisation source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The local port.
    pub port: u16,
    /// The synchronisation source.
    pub ssrc: u32,
}

/// Counts of datagrams that belong to no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Datagrams other than RTP, or cut off.
    pub not_rtp: u64,
    /// Datagrams that are RTCP (by their type, RFC 5761, section 4).
    pub rtcp: u64,
    /// Packets of sources beyond the room for them.
    pub refused: u64,
    /// Sources forgotten for others' sake after one packet.
    pub forgotten: u64,
    /// Streams forgotten as their host had more than half of the room.
    pub displaced: u64,
    /// Packets of those.
    pub displaced_packets: u64,
}

/// Delays over this count as this in quantiles: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Time after which a source without a second packet may be evicted.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Host of a stream, or its network with IPv6. `None` if it is not known.
type Host = Option<IpAddr>;

/// Hosts of the streams, and the number of streams of each.
#[derive(Default)]
struct Hosts {
    of: Vec<Host>,
    counts: HashMap<Host, usize>,
    by_count: BTreeSet<(usize, Host)>,
}

impl Hosts {
    fn of(&self, place: usize) -> Host {
        self.of.get(place).copied().flatten()
    }

    fn count(&self, host: Host) -> usize {
        self.counts.get(&host).copied().unwrap_or(0)
    }

    /// Returns the host that has the most streams, and their number.
    fn most(&self) -> Option<(usize, Host)> {
        self.by_count.last().copied()
    }

    /// Sets the host of a place, in place of an earlier one.
    fn put(&mut self, place: usize, host: Host) {
        if place < self.of.len() {
            let old = std::mem::replace(&mut self.of[place], host);
            self.set(old, self.count(old) - 1);
        } else {
            self.of.push(host);
        }
        self.set(host, self.count(host) + 1);
    }

    fn set(&mut self, host: Host, count: usize) {
        self.by_count.remove(&(self.count(host), host));
        if count == 0 {
            self.counts.remove(&host);
        } else {
            self.counts.insert(host, count);
            self.by_count.insert((count, host));
        }
    }
}

/// Streams and their figures.
pub struct Reception {
    /// A stream has its place in `streams`.
    places: HashMap<StreamId, usize>,
    streams: Vec<(StreamId, Figures)>,
    /// Hosts of the streams, by their place.
    hosts: Hosts,
    /// Sources that may have come once only, oldest first: they make room for others.
    probation: VecDeque<StreamId>,
    limit: usize,
    machine: u32,
    /// Set if marks of other machines are believed.
    believes_others: bool,
    others: u64,
    clock_hz: Option<u32>,
    strays: Strays,
    delays: Histogram<u64>,
}

impl Reception {
    /// Room for `limit` streams. `machine` is whose marks are believed. `clock_hz` is the rate of timestamps of payload
    /// types without a fixed one.
    pub fn new(limit: usize, machine: u32, clock_hz: Option<u32>) -> Reception {
        Reception {
            places: HashMap::new(),
            streams: Vec::new(),
            hosts: Hosts::default(),
            probation: VecDeque::new(),
            limit,
            machine,
            believes_others: false,
            others: 0,
            clock_hz,
            strays: Strays::default(),
            delays: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds in order"),
        }
    }

    /// Believes the clocks of other machines too.
    #[must_use]
    pub fn believing_others(mut self) -> Reception {
        self.believes_others = true;
        self
    }

    /// Returns the number of packets whose delay is by the clock of another machine.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// Processes a datagram of local port `port`, received at `at_ns` (nanoseconds since 1970).
    pub fn take(&mut self, port: u16, at_ns: u64, datagram: &[u8]) {
        self.take_from(None, port, at_ns, datagram);
    }

    /// Processes a datagram of a host, as [`Reception::take`] does. Room for streams is shared by hosts.
    pub fn take_from(&mut self, host: Option<IpAddr>, port: u16, at_ns: u64, datagram: &[u8]) {
        let Ok(rtp) = Packet::new_checked(datagram) else {
            self.strays.not_rtp += 1;
            return;
        };
        // RTCP's types 192 to 223, whose highest bit is where RTP has its marker.
        if rtp.marker() && (64..96).contains(&rtp.payload_type()) {
            self.strays.rtcp += 1;
            return;
        }
        let id = StreamId { port, ssrc: rtp.ssrc() };
        let own = Mark::parse(rtp.payload(), self.machine);
        let other = || Mark::parse_any(rtp.payload(), at_ns).filter(|_| self.believes_others);
        let whole = own.or_else(other).map(|mark| mark.sent_ns);
        self.others += u64::from(own.is_none() && whole.is_some());
        let sent_ns = whole.or_else(|| self.short_mark(id, rtp.payload(), at_ns));
        let arrival = Arrival { rtp, len: datagram.len(), at_ns, sent_ns };
        self.note(id, host.map(source), &arrival);
    }

    /// Returns the time in a short mark, if its stream had a whole one.
    fn short_mark(&self, id: StreamId, payload: &[u8], at_ns: u64) -> Option<u64> {
        let place = *self.places.get(&id).filter(|_| payload.len() < Mark::LEN)?;
        let is_ours = self.streams[place].1.delay.count() > 0;
        Mark::parse_short(payload, at_ns).filter(|_| is_ours)
    }

    /// Counts a datagram that was cut off.
    pub fn take_truncated(&mut self) {
        self.strays.not_rtp += 1;
    }

    fn note(&mut self, id: StreamId, host: Host, arrival: &Arrival<'_>) {
        if let Some(sent_ns) = arrival.sent_ns {
            self.delays.saturating_record(arrival.at_ns.saturating_sub(sent_ns));
        }
        if let Some(&place) = self.places.get(&id) {
            let clock_hz = self.clock_of(arrival.rtp.payload_type());
            return self.streams[place].1.take(arrival, clock_hz);
        }
        let begun = (id, Figures::begin(arrival));
        let is_room = self.streams.len() < self.limit;
        let place = match is_room {
            true => Some(self.streams.len()),
            false => self.forget_one(arrival.at_ns).or_else(|| self.displace_one(host)),
        };
        let Some(place) = place else {
            self.strays.refused += 1;
            return;
        };
        if place == self.streams.len() {
            self.streams.push(begun)
        } else {
            self.streams[place] = begun
        }
        self.hosts.put(place, host);
        self.places.insert(id, place);
        self.probation.push_back(id);
    }

    /// Evicts the oldest source of one packet, unless its second may still arrive. RFC 3550, appendix A.1, holds no
    /// source valid before its second packet.
    fn forget_one(&mut self, now_ns: u64) -> Option<usize> {
        while let Some(&id) = self.probation.front() {
            let place = self.places[&id];
            let figures = &self.streams[place].1;
            if figures.packets == 1 && now_ns.saturating_sub(figures.span_ns.0) < PATIENCE_NS {
                return None;
            }
            self.probation.pop_front();
            if figures.packets == 1 {
                self.places.remove(&id);
                self.strays.forgotten += 1;
                return Some(place);
            }
        }
        None
    }

    /// Evicts a stream of the host that has the most, for one of another host.
    ///
    /// It has sent one packet, or has been silent for longest. Streams are results, and addresses can be forged: half of the room stays with a host that has it.
    fn displace_one(&mut self, newcomer: Host) -> Option<usize> {
        let (most, host) = self.hosts.most()?;
        if most < self.hosts.count(newcomer) + 2 {
            return None;
        }
        let is_beyond_half = 2 * most > self.limit;
        let of_host = (0..self.streams.len()).filter(|place| self.hosts.of(*place) == host);
        let (_, _, place) = of_host
            .map(|place| {
                let figures = &self.streams[place].1;
                (figures.packets > 1, figures.span_ns.1, place)
            })
            .filter(|(is_stream, ..)| !is_stream || is_beyond_half)
            .min()?;
        let (id, figures) = &self.streams[place];
        match figures.packets {
            1 => self.strays.forgotten += 1,
            packets => {
                self.strays.displaced += 1;
                self.strays.displaced_packets += packets;
            }
        }
        self.places.remove(id);
        self.probation.retain(|other| other != id);
        Some(place)
    }

    fn clock_of(&self, payload_type: u8) -> Option<u32> {
        clock_of_static(payload_type).or(self.clock_hz)
    }

    /// The streams of more than one packet, in the order of port and source.
    pub fn streams(&self) -> Vec<(StreamId, &Figures)> {
        let valid = self.streams.iter().filter(|(_, figures)| figures.packets > 1);
        let mut streams: Vec<_> = valid.map(|(id, figures)| (*id, figures)).collect();
        streams.sort_unstable_by_key(|(id, _)| *id);
        streams
    }

    /// Returns the number of packets received of any stream.
    pub fn packets(&self) -> u64 {
        self.streams.iter().map(|(_, figures)| figures.packets).sum()
    }

    /// A stream's interarrival jitter (RFC 3550), in nanoseconds.
    pub fn jitter_ns(&self, figures: &Figures) -> Option<f64> {
        figures.jitter_ns(self.clock_of(figures.payload_type))
    }

    /// Returns the counts of datagrams that belong to no stream. Sources of one packet are not among them until they
    /// are forgotten.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// Sources with a single packet.
    pub fn singles(&self) -> u64 {
        self.streams.iter().filter(|(_, figures)| figures.packets == 1).count() as u64
    }

    /// Returns the figures of all streams together.
    pub fn overall(&self) -> Overall {
        let streams = self.streams();
        let sum = |of: fn(&Figures) -> u64| streams.iter().map(|(_, figures)| of(figures)).sum();
        let mean = |of: &dyn Fn(&Figures) -> Option<f64>| {
            let mut moments = Moments::default();
            streams.iter().filter_map(|(_, figures)| of(figures)).for_each(|value| moments.add(value));
            moments.mean()
        };
        let first = streams.iter().map(|(_, figures)| figures.span_ns.0).min();
        let last = streams.iter().map(|(_, figures)| figures.span_ns.1).max();
        Overall {
            streams: streams.len() as u64,
            packets: sum(|it| it.packets),
            bytes: sum(|it| it.bytes),
            expected: sum(Figures::expected),
            lost: sum(Figures::lost),
            duplicates: sum(|it| it.duplicates),
            reordered: sum(|it| it.reordered),
            mean_interval_ns: mean(&Figures::mean_interval_ns),
            interval_deviation_ns: mean(&Figures::interval_deviation_ns),
            jitter_ns: mean(&|figures| self.jitter_ns(figures)),
            delay_ns: self.delay(&streams),
            elapsed_ns: first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first)),
        }
    }

    fn delay(&self, streams: &[(StreamId, &Figures)]) -> Option<Delay> {
        let known = || streams.iter().map(|(_, figures)| figures.delay).filter(|delay| delay.count() > 0);
        let count: u64 = known().map(|delay| delay.count()).sum();
        let sum: f64 = known().filter_map(|delay| Some(delay.mean()? * delay.count() as f64)).sum();
        let ranges = || known().filter_map(|delay| delay.range());
        (count > 0).then(|| Delay {
            mean: sum / count as f64,
            min: ranges().map(|(min, _)| min).fold(f64::INFINITY, f64::min),
            p50: self.delays.value_at_quantile(0.5) as f64,
            p95: self.delays.value_at_quantile(0.95) as f64,
            p99: self.delays.value_at_quantile(0.99) as f64,
            max: ranges().map(|(_, max)| max).fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// Figures of all streams together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// Streams of more than one packet.
    pub streams: u64,
    /// Packets of them that came, duplicates among them.
    pub packets: u64,
    /// Bytes of RTP in those.
    pub bytes: u64,
    /// Packets that were sent, by the sequence numbers.
    pub expected: u64,
    /// Returns the number of those that were not received.
    pub lost: u64,
    /// Packets that came before.
    pub duplicates: u64,
    /// Packets behind a later one.
    pub reordered: u64,
    /// Returns the mean of the streams' mean times between arrivals, in nanoseconds. It is equation 6 of Ang, Sarwar and Wan.
    pub mean_interval_ns: Option<f64>,
    /// Mean over the streams of the standard deviation of interarrival times, in nanoseconds.
    pub interval_deviation_ns: Option<f64>,
    /// The mean of the streams' interarrival jitter by RFC 3550, in nanoseconds.
    pub jitter_ns: Option<f64>,
    /// The one-way delay, where this machine sent.
    pub delay_ns: Option<Delay>,
    /// Time from the first packet to the last, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Statistics of the one-way delay in nanoseconds. Quantiles have three digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Returns the mean.
    pub mean: f64,
    /// The shortest. A machine whose clock was set back has negative ones.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// Returns the 95th percentile.
    pub p95: f64,
    /// Returns the 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

#[cfg(test)]
mod tests;
