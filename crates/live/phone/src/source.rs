//! Source of the voice that a line receives.
//!
//! A phone behind NAT sends from another address than its description has, and so do media servers of the same host. The line follows
//! the address that voice comes from (symmetric RTP, RFC 4961), with limits against injection by others:
//!
//! * The described address is followed at once.
//! * Where nothing came yet, another port of a host that is described or that signals is followed at once, and another
//!   host after two packets in sequence (RFC 3550 A.1).
//! * Where another source is followed, it must be silent meanwhile, and more packets in sequence be of the new one.

use std::net::{IpAddr, SocketAddr};

use bentpipe_units::{Span, Time};

/// Packets in sequence of a new source of a known host (RFC 3550 A.1 `MIN_SEQUENTIAL`).
const KNOWN: Probation = Probation { packets: 2, silence: Span::from_millis(100) };
/// The same for another host, which may be anyone.
const OTHER: Probation = Probation { packets: 25, silence: Span::from_secs(2) };
/// Maximum difference between numbers of one source (RFC 3550 A.1 `MAX_DROPOUT`).
const MAX_DROPOUT: i16 = 3000;

/// Condition on which another source is followed.
#[derive(Clone, Copy, Debug)]
struct Probation {
    packets: u32,
    /// Time since the last packet of the source before.
    silence: Span,
}

/// Reason why a packet of voice is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// Not a packet of RTP or RTCP.
    Malformed,
    /// Payload type that was not negotiated.
    PayloadType,
    /// Source other than the one that speaks.
    OtherSource,
    /// First packets in sequence of a source that may be followed.
    Probation,
    /// Number far from the last one.
    Sequence,
    /// Line without a call.
    NoCall,
    /// Line of this phone.
    OwnLine,
}

impl Refusal {
    /// Returns the name in figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Refusal::Malformed => "malformed",
            Refusal::PayloadType => "payload-type",
            Refusal::OtherSource => "other-source",
            Refusal::Probation => "probation",
            Refusal::Sequence => "sequence",
            Refusal::NoCall => "no-call",
            Refusal::OwnLine => "own-line",
        }
    }
}

/// Address and synchronisation source of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) from: SocketAddr,
    pub(crate) ssrc: u32,
}

/// Numbers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
}

/// Stream that may be followed.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    stream: Stream,
    next: u16,
    packets: u32,
}

/// Stream that is followed, and the numbers that its packets get.
#[derive(Clone, Copy, Debug)]
struct Followed {
    stream: Stream,
    highest: u16,
    /// Differences to the numbers of the first stream, so that all are one account.
    shift: Numbers,
    last: Time,
    timestamp: u32,
}

/// Source of the voice at one line.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    described: SocketAddr,
    /// Host that signals.
    signals: Option<IpAddr>,
    followed: Option<Followed>,
    candidate: Option<Candidate>,
    ssrc: u32,
    /// Number of times that another stream was followed.
    pub(crate) changes: u64,
}

impl Source {
    pub(crate) fn new(described: SocketAddr, signals: Option<IpAddr>) -> Source {
        Source { described, signals, followed: None, candidate: None, ssrc: 0, changes: 0 }
    }

    /// Sets the address of a new description. What is followed stays until packets come from there.
    pub(crate) fn describe(&mut self, described: SocketAddr) {
        self.described = described;
    }

    /// Returns the source that all packets have at the line.
    pub(crate) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Returns the address that is followed.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.followed.map(|followed| followed.stream.from)
    }

    /// Returns `true` for a host that is described, signals, or is followed.
    pub(crate) fn knows(&self, host: IpAddr) -> bool {
        let followed = self.followed.map(|followed| followed.stream.from.ip());
        let known = [Some(self.described.ip()), self.signals, followed];
        known.iter().flatten().any(|known| known.to_canonical() == host.to_canonical())
    }

    /// Admits a packet, and returns its numbers in the account of the line.
    ///
    /// `ticks` is the number of ticks of the RTP clock in a time.
    pub(crate) fn take(
        &mut self,
        now: Time,
        stream: Stream,
        numbers: Numbers,
        ticks: impl Fn(Span) -> u32,
    ) -> Result<Numbers, Refusal> {
        let Some(followed) = &mut self.followed else { return self.begin(now, stream, numbers) };
        let ahead = numbers.seq.wrapping_sub(followed.highest) as i16;
        let is_same = followed.stream == stream;
        if is_same && (-MAX_DROPOUT..=MAX_DROPOUT).contains(&ahead) {
            if ahead > 0 {
                (followed.highest, followed.timestamp) = (numbers.seq, numbers.timestamp);
            }
            (followed.last, self.candidate) = (followed.last.max(now), None);
            return Ok(followed.shifted(numbers));
        }
        let last = *followed;
        let is_described = stream.from == self.described && last.stream.from != self.described;
        let needed = if self.knows(stream.from.ip()) { KNOWN } else { OTHER };
        let needed = if is_same { Probation { silence: Span::ZERO, ..needed } } else { needed };
        let in_sequence = self.try_out(stream, numbers.seq);
        let is_silent = now.since(last.last) >= needed.silence;
        if !is_described && (in_sequence < needed.packets || !is_silent) {
            return Err(match (is_same, is_silent) {
                (true, _) => Refusal::Sequence,
                (false, true) => Refusal::Probation,
                (false, false) => Refusal::OtherSource,
            });
        }
        self.changes += 1;
        // Its first packet follows on the last one of the stream before, by number and by time.
        let expected = last.shifted(Numbers { seq: last.highest.wrapping_add(1), timestamp: last.timestamp });
        let timestamp = expected.timestamp.wrapping_add(ticks(now.since(last.last)));
        let shift = Numbers {
            seq: expected.seq.wrapping_sub(numbers.seq),
            timestamp: timestamp.wrapping_sub(numbers.timestamp),
        };
        Ok(self.follow(now, stream, numbers, shift))
    }

    /// Admits a packet before any stream is followed.
    fn begin(&mut self, now: Time, stream: Stream, numbers: Numbers) -> Result<Numbers, Refusal> {
        let needed = if self.knows(stream.from.ip()) { 1 } else { KNOWN.packets };
        if self.try_out(stream, numbers.seq) < needed {
            return Err(Refusal::Probation);
        }
        self.ssrc = stream.ssrc;
        Ok(self.follow(now, stream, numbers, Numbers { seq: 0, timestamp: 0 }))
    }

    fn follow(&mut self, now: Time, stream: Stream, numbers: Numbers, shift: Numbers) -> Numbers {
        let (highest, timestamp) = (numbers.seq, numbers.timestamp);
        let followed = Followed { stream, highest, shift, last: now, timestamp };
        (self.followed, self.candidate) = (Some(followed), None);
        followed.shifted(numbers)
    }

    /// Returns the number of packets in sequence of a stream, with this one.
    fn try_out(&mut self, stream: Stream, seq: u16) -> u32 {
        let before = self.candidate.filter(|of| of.stream == stream && of.next == seq);
        let packets = before.map_or(1, |of| of.packets + 1);
        self.candidate = Some(Candidate { stream, next: seq.wrapping_add(1), packets });
        packets
    }
}

impl Followed {
    fn shifted(&self, numbers: Numbers) -> Numbers {
        Numbers {
            seq: numbers.seq.wrapping_add(self.shift.seq),
            timestamp: numbers.timestamp.wrapping_add(self.shift.timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 20;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Returns the number at the line of packet `n` of a stream that begins with number `first`.
    fn take(source: &mut Source, from: &str, ssrc: u32, first: u16, n: u64) -> Result<u16, Refusal> {
        let now = Time::from_nanos(n * STEP * 1_000_000);
        let numbers = Numbers { seq: first.wrapping_add(n as u16), timestamp: (n * 160) as u32 };
        let ticks = |span: Span| (span.as_nanos() / 125_000) as u32;
        source.take(now, Stream { from: at(from), ssrc }, numbers, ticks).map(|numbers| numbers.seq)
    }

    const HOME: &str = "192.0.2.1:4000";

    #[test]
    fn another_port_of_a_known_host_is_followed_and_a_host_alone_after_two_packets() {
        let new = || Source::new(at(HOME), Some(at("203.0.113.9:5060").ip()));
        for known in ["192.0.2.1:61000", "203.0.113.9:40000"] {
            assert_eq!(take(&mut new(), known, 1, 100, 0), Ok(100), "{known}");
        }
        let mut source = new();
        let other = "198.51.100.7:9";
        let taken: Vec<_> = (0..3).map(|n| take(&mut source, other, 1, 100, n)).collect();
        assert_eq!(taken, [Err(Refusal::Probation), Ok(101), Ok(102)]);
        // The described address counts more than what came from elsewhere.
        assert_eq!(take(&mut source, HOME, 7, 500, 3), Ok(103));
        assert_eq!((source.ssrc(), source.address(), source.changes), (1, Some(at(HOME)), 1));
    }

    #[test]
    fn injected_packets_are_refused_while_the_peer_speaks() {
        let mut source = Source::new(at(HOME), None);
        for n in 0..100 {
            assert_eq!(take(&mut source, HOME, 1, 100, n), Ok(100 + n as u16));
            assert_eq!(take(&mut source, "198.51.100.7:9", 2, 7, n), Err(Refusal::OtherSource));
            assert_eq!(take(&mut source, "192.0.2.1:4002", 1, 7, n), Err(Refusal::OtherSource));
            assert_eq!(take(&mut source, HOME, 2, 9, n), Err(Refusal::OtherSource), "another SSRC");
        }
        // It falls silent: another host needs two seconds, and half a second in sequence.
        let first = (100..400).find(|n| take(&mut source, "198.51.100.7:9", 2, 7, *n).is_ok());
        assert_eq!(first, Some(199), "two seconds after number 99");
    }

    #[test]
    fn a_restarted_stream_of_the_peer_goes_on_in_the_same_account() {
        let mut source = Source::new(at(HOME), None);
        (0..10).for_each(|n| assert_eq!(take(&mut source, HOME, 1, 100, n), Ok(100 + n as u16)));
        // After a pause it has another SSRC and other numbers: the second packet follows on the last.
        assert_eq!(take(&mut source, HOME, 2, 40_000, 20), Err(Refusal::Probation));
        assert_eq!(take(&mut source, HOME, 2, 40_000, 21), Ok(110));
        assert_eq!(take(&mut source, HOME, 2, 40_000, 23), Ok(112), "one is missing");
        // The same source jumps.
        assert_eq!(take(&mut source, HOME, 2, 10_000, 24), Err(Refusal::Sequence));
        assert_eq!(take(&mut source, HOME, 2, 10_000, 25), Ok(113));
        assert_eq!(source.ssrc(), 1);
    }
}
