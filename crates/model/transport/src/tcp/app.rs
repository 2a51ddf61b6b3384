//! Applications at the ends of a connection: times and sizes of writes, rate of reads.

use std::collections::VecDeque;

use bentpipe_net::Histogram;
pub use bentpipe_site::application::{Application as Source, Bulk, OnOff, Paced};
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reading behaviour of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// Immediate reads.
    #[default]
    AtOnce,
    /// Reads at a rate; unread data closes the window.
    Paced(Rate),
}

/// Wishes of a [`Writer`] at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Bytes to write.
    pub(super) bytes: u64,
    /// Time of the next poll, independent of other events.
    pub(super) again: Time,
    /// Set if the writer has finished.
    pub(super) done: bool,
}

/// A [`Source`] at work.
#[derive(Debug)]
pub(super) struct Writer {
    source: Source,
    begin: Time,
    /// Time for which it was turned off: a rate does not make up for it.
    off: Span,
    written: u64,
    /// State of an on-off writer: phase, its end, and the bytes of earlier bursts.
    on: bool,
    until: Time,
    on_since: Time,
    offered: u64,
    bursts: Bursts,
}

/// Most bursts that wait for their acknowledgement. Of more the oldest are not measured.
const MAX_OPEN_BURSTS: usize = 1 << 16;

/// Bursts of an on-off writer and their completion times.
#[derive(Debug, Default)]
struct Bursts {
    /// Start, and the offset behind the last byte, of bursts that are not yet acknowledged.
    open: VecDeque<(Time, u64)>,
    /// Times from the start of a burst to the acknowledgement of its last byte.
    completions: Histogram,
}

impl Bursts {
    /// Adds a burst that has been written up to `end`, unless it is empty.
    fn add(&mut self, since: Time, before: u64, end: u64) {
        if end == before {
            return;
        }
        if self.open.len() == MAX_OPEN_BURSTS {
            self.open.pop_front();
        }
        self.open.push_back((since, end));
    }

    #[inline]
    fn acknowledged(&mut self, now: Time, acked: u64) {
        while let Some((since, _)) = self.open.front().filter(|(_, end)| *end <= acked) {
            self.completions.record(now.since(*since));
            self.open.pop_front();
        }
    }
}

impl Writer {
    /// Creates a writer whose times count from `begin`.
    pub(super) fn new(source: Source, begin: Time) -> Writer {
        let (bursts, on_since) = (Bursts::default(), begin);
        let off = Span::ZERO;
        Writer { source, begin, off, written: 0, on: false, until: begin, on_since, offered: 0, bursts }
    }

    /// Moves what is to come by the time for which the writer was turned off. Its end stays.
    pub(super) fn skip(&mut self, off: Span) {
        self.off += off;
        self.until += off;
        self.on_since += off;
    }

    /// Returns bytes to the application that were written and not sent: they are written again.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.written -= bytes.min(self.written);
    }

    /// Notes the total number of bytes that the peer has acknowledged.
    #[inline]
    pub(super) fn acknowledged(&mut self, now: Time, bytes: u64) {
        self.bursts.acknowledged(now, bytes);
    }

    /// Returns the times from the start of each burst to its acknowledgement.
    pub(super) fn burst_completions(&self) -> &Histogram {
        &self.bursts.completions
    }

    /// Returns the amount to write when the buffer has `room`, which then counts as written.
    #[inline]
    pub(super) fn poll(&mut self, now: Time, room: u64, stream: &mut RandomStream) -> Wish {
        let end = self.duration().map_or(Time::NEVER, |duration| self.begin + duration);
        let wish = match self.source {
            Source::Nothing => return Wish { bytes: 0, again: Time::NEVER, done: false },
            Source::Bulk(bulk) => self.bulk(bulk, room),
            Source::Paced(paced) => self.paced(paced, now.min(end), room),
            Source::OnOff(on_off) => self.on_off(on_off, now.min(end), room, stream),
        };
        let wish = self.until_end(wish, now, end);
        self.written += wish.bytes;
        wish
    }

    fn duration(&self) -> Option<Span> {
        match self.source {
            Source::Nothing => None,
            Source::Bulk(bulk) => bulk.duration,
            Source::Paced(paced) => paced.duration,
            Source::OnOff(on_off) => on_off.duration,
        }
    }

    #[inline]
    fn until_end(&self, wish: Wish, now: Time, end: Time) -> Wish {
        if now < end {
            return Wish { again: wish.again.min(end), ..wish };
        }
        // A bulk writer stops; the others still write data that was due.
        match self.source {
            Source::Bulk(_) => Wish { bytes: 0, again: Time::NEVER, done: true },
            _ => Wish {
                again: Time::NEVER,
                done: wish.done || wish.bytes == 0 && wish.again.is_never(),
                ..wish
            },
        }
    }

    #[inline]
    fn bulk(&self, bulk: Bulk, room: u64) -> Wish {
        let left = bulk.size.map_or(u64::MAX, |size| size.get() - self.written.min(size.get()));
        let bytes = room.min(left);
        Wish { bytes, again: Time::NEVER, done: bytes == left }
    }

    fn paced(&self, paced: Paced, now: Time, room: u64) -> Wish {
        let size = paced.write.get().max(1);
        let begin = self.begin + self.off;
        let due = paced.rate.bdp(now.since(begin)).get() / size * size;
        let bytes = due.saturating_sub(self.written).min(room);
        let next = begin + paced.rate.span_of(Bytes::new(due + size));
        let again =
            if self.written + bytes < due { Time::NEVER } else { next.max(now + Span::from_nanos(1)) };
        let ended = paced.duration.is_some_and(|duration| now >= self.begin + duration);
        Wish { bytes, again, done: ended && self.written + bytes >= due }
    }

    fn on_off(&mut self, on_off: OnOff, now: Time, room: u64, stream: &mut RandomStream) -> Wish {
        while self.until <= now {
            self.turn(on_off, stream);
        }
        let bytes = match on_off.rate {
            None if self.on => room,
            None => 0,
            Some(rate) => {
                let so_far = if self.on { rate.bdp(now.since(self.on_since)).get() } else { 0 };
                (self.offered + so_far).saturating_sub(self.written).min(room)
            }
        };
        let ended = on_off.duration.is_some_and(|duration| now >= self.begin + duration);
        Wish { bytes, again: self.next_write(on_off, now), done: ended }
    }

    /// Returns the end of the burst, or with a rate the next write in it.
    fn next_write(&self, on_off: OnOff, now: Time) -> Time {
        match on_off.rate.filter(|_| self.on) {
            Some(rate) => self.until.min(now + rate.span_of(Bytes::new(1460))),
            None => self.until,
        }
    }

    /// Switches between burst and silence.
    fn turn(&mut self, on_off: OnOff, stream: &mut RandomStream) {
        if self.on {
            let (span, before) = (self.until.since(self.on_since), self.offered);
            self.offered = on_off.rate.map_or(self.written, |rate| before + rate.bdp(span).get());
            self.bursts.add(self.on_since, before, self.offered);
        }
        self.on = !self.on;
        let mean = if self.on { on_off.on } else { on_off.off };
        let span = if on_off.exponential {
            Span::from_secs_f64(stream.exponential(mean.as_secs_f64()))
        } else {
            mean
        };
        self.on_since = self.until;
        // Durations of zero would switch indefinitely.
        self.until += span.max(Span::from_nanos(1000));
    }

    /// Returns the times of its bytes, if the source has them.
    pub(super) fn schedule(&self) -> Option<Schedule> {
        let Source::Paced(paced) = self.source else { return None };
        Some(Schedule { begin: self.begin + self.off, rate: paced.rate, write: paced.write.get().max(1) })
    }
}

/// Unhindered write times of a paced source's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    begin: Time,
    rate: Rate,
    write: u64,
}

impl Schedule {
    /// Returns the time at which the byte at `offset` is written.
    pub(super) fn written_at(&self, offset: u64) -> Time {
        self.begin + self.rate.span_of(Bytes::new(offset / self.write * self.write + self.write))
    }
}

/// A [`Sink`] at work.
#[derive(Debug)]
pub(super) struct Reader {
    sink: Sink,
    /// Start of the present read, while there is data to read.
    since: Option<Time>,
}

impl Reader {
    pub(super) fn new(sink: Sink) -> Reader {
        Reader { sink, since: None }
    }

    /// Returns the number of bytes read now, and the time of the next poll.
    ///
    /// The poll is due when `unit` more bytes can be read.
    #[inline]
    pub(super) fn poll(&mut self, now: Time, waiting: u64, unit: u64) -> (u64, Time) {
        let Sink::Paced(rate) = self.sink else { return (waiting, Time::NEVER) };
        let since = self.since.unwrap_or(now);
        let bytes = rate.bdp(now.since(since)).get().min(waiting);
        if bytes == waiting {
            self.since = None;
            return (bytes, Time::NEVER);
        }
        let since = if bytes > 0 { since + rate.span_of(Bytes::new(bytes)) } else { since };
        self.since = Some(since.min(now));
        let next = Bytes::new((waiting - bytes).min(unit.max(1)));
        (bytes, (since + rate.span_of(next)).max(now + Span::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> RandomStream {
        RandomStream::new(1, "app")
    }

    #[test]
    fn bulk_writes_its_size_and_is_done() {
        let bulk = Bulk { size: Some(Bytes::new(1000)), duration: None };
        let mut writer = Writer::new(Source::Bulk(bulk), Time::ZERO);
        let wish = |bytes, done| Wish { bytes, again: Time::NEVER, done };
        assert_eq!(writer.poll(Time::ZERO, 600, &mut stream()), wish(600, false));
        assert_eq!(writer.poll(Time::ZERO, 0, &mut stream()), wish(0, false));
        assert_eq!(writer.poll(Time::ZERO, 600, &mut stream()), wish(400, true));
    }

    #[test]
    fn paced_writes_make_their_rate_and_end() {
        let paced = Paced {
            rate: Rate::from_bps(80_000),
            write: Bytes::new(100),
            duration: Some(Span::from_secs(10)),
        };
        let mut writer = Writer::new(Source::Paced(paced), Time::ZERO);
        let (mut now, mut writes) = (Time::ZERO, 0);
        loop {
            let wish = writer.poll(now, 1000, &mut stream());
            assert!(wish.bytes <= 100, "{wish:?} at {now}");
            writes += u64::from(wish.bytes > 0);
            if wish.done {
                break;
            }
            assert!(wish.again > now);
            now = wish.again;
        }
        assert_eq!((now, writes, writer.written), (Time::from_nanos(10_000_000_000), 1000, 100_000));
    }

    #[test]
    fn on_off_keeps_its_rate_in_the_mean() {
        let on_off = OnOff {
            on: Span::from_millis(300),
            off: Span::from_millis(700),
            exponential: true,
            rate: Some(Rate::from_bps(1_000_000)),
            duration: Some(Span::from_secs(5000)),
        };
        let (mut writer, mut stream) = (Writer::new(Source::OnOff(on_off), Time::ZERO), stream());
        let mut now = Time::ZERO;
        while !writer.poll(now, u64::MAX, &mut stream).done {
            now = writer.poll(now, u64::MAX, &mut stream).again;
        }
        let rate = writer.written as f64 * 8.0 / 5000.0;
        assert!((rate / 300_000.0 - 1.0).abs() < 0.05, "{rate}");
    }

    #[test]
    fn bursts_complete_when_their_last_byte_is_acknowledged() {
        let on_off = OnOff {
            on: Span::from_millis(300),
            off: Span::from_millis(700),
            exponential: false,
            rate: Some(Rate::from_bps(800_000)),
            duration: None,
        };
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for on_off in [on_off, OnOff { rate: None, ..on_off }] {
            let mut writer = Writer::new(Source::OnOff(on_off), Time::ZERO);
            // Without a rate, 30 kB fit into the buffer in each burst.
            [0, 100, 299, 300, 1000, 1299, 1300].into_iter().for_each(|at| {
                let room = (30_000 * (1 + at / 1000)) - writer.written;
                writer.poll(ms(at), room, &mut stream());
            });
            assert_eq!(writer.written, 60_000);
            writer.acknowledged(ms(1400), 29_999);
            assert!(writer.burst_completions().is_empty());
            writer.acknowledged(ms(1500), 30_000);
            writer.acknowledged(ms(1600), 60_000);
            let times = writer.burst_completions();
            assert_eq!(
                (times.len(), times.range()),
                (2, Some((Span::from_millis(600), Span::from_millis(1500))))
            );
        }
    }

    #[test]
    fn a_paced_reader_reads_at_its_rate() {
        let mut reader = Reader::new(Sink::Paced(Rate::from_bps(80_000)));
        let (mut now, mut read) = (Time::ZERO, 0);
        while read < 50_000 {
            let (bytes, again) = reader.poll(now, 50_000 - read, 1460);
            read += bytes;
            now = if read < 50_000 { again } else { now };
        }
        assert!((now.as_secs_f64() - 5.0).abs() < 1e-6, "{now}");
    }
}
