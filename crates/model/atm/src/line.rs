//! A line of cells: a serialiser and a pipe.

use std::collections::VecDeque;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::{Busy, InvalidConfig, Observer, Packet};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::atm::CELL_LEN;

use super::cell::{Cell, Train, Vc, Word, reload};
use crate::metrics;

/// Bits of a cell on the line.
pub(crate) const CELL_BITS: u64 = 8 * CELL_LEN as u64;

/// Converts a rate to cells per second.
pub(crate) fn cells_per_second(rate: Rate) -> f64 {
    rate.as_bps() as f64 / CELL_BITS as f64
}

/// A line of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The rate that cells get, 53 bytes each.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
}

/// Sends cells one after the other, and keeps them until the first of them arrives.
#[derive(Debug)]
pub(crate) struct Line {
    timing: Timing,
    rate_bps: u64,
    end: End,
    pipe: Box<Train>,
    /// Set if each cell is delivered in its own event.
    #[cfg(any(test, feature = "testing"))]
    batching_disabled: bool,
    /// Number of delivered cells.
    handed_over: u64,
}

/// Timing of a cell.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Cell time in whole nanoseconds, and its remainder in units of 2^-64 ns, rounded up.
    ///
    /// The error of the end times reaches a nanosecond only after 2^64 cells.
    cell_nanos: u64,
    cell_fraction: u64,
    /// Time from the end of transmission to the arrival.
    delay: Span,
}

impl Timing {
    /// Sends a cell whose transmission begins at `start`.
    #[inline(always)]
    fn send(&self, end: &mut End, word: Word, start: Time) -> Cell {
        let (fraction, is_carried) = end.fraction.overflowing_add(self.cell_fraction);
        let free_at = start.as_nanos() + self.cell_nanos + u64::from(is_carried);
        let cell = Cell { at: Time::from_nanos(free_at + self.delay.as_nanos()), word };
        // The fingerprint is updated here and not at the delivery of the train, as it takes no extra time
        // here.
        *end = End { free_at: Time::from_nanos(free_at), fraction, digest: mix(end.digest, cell) };
        cell
    }
}

/// State that changes with each sent cell.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// End of the current or last transmission.
    free_at: Time,
    /// Fraction of a nanosecond after `free_at`.
    fraction: u64,
    /// Hash over all sent cells.
    digest: u64,
}

/// Writer of back-to-back cells into the free room of the pipe.
pub(crate) struct Sending<'a> {
    room: std::slice::IterMut<'a, Cell>,
    end: End,
    timing: Timing,
}

impl Sending<'_> {
    /// Placeholder of a cell that is not yet written.
    const BLANK: Cell = Cell { at: Time::NEVER, word: Word::oam(Vc::FIRST) };

    /// Returns the end of the current or last transmission.
    #[inline(always)]
    pub(crate) fn free_at(&self) -> Time {
        self.end.free_at
    }

    /// Returns `true` if the maximum number of cells was sent.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.room.len() == 0
    }

    /// Sends a cell from `start` on, unless the row is full. The line must be free then.
    #[inline(always)]
    pub(crate) fn send(&mut self, word: Word, start: Time) {
        if let Some(place) = self.room.next() {
            *place = self.timing.send(&mut self.end, word, start);
        }
    }
}

impl Line {
    pub(crate) fn new(config: &Config) -> Result<Line, InvalidConfig> {
        let rate_bps = config.rate.as_bps();
        let scaled = CELL_BITS * 1_000_000_000;
        // Faster, and two cells would arrive in one nanosecond.
        InvalidConfig::ensure((1..=scaled).contains(&rate_bps), "rate", "above zero and at most 424 Gbit/s")?;
        Ok(Line {
            timing: Timing {
                cell_nanos: scaled / rate_bps,
                cell_fraction: (u128::from(scaled % rate_bps) << 64).div_ceil(u128::from(rate_bps)) as u64,
                delay: config.delay,
            },
            rate_bps,
            end: End::default(),
            pipe: Box::default(),
            #[cfg(any(test, feature = "testing"))]
            batching_disabled: false,
            handed_over: 0,
        })
    }

    /// Delivers each cell in its own event from now on.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn disable_batching(&mut self) {
        self.batching_disabled = true;
    }

    /// Returns `true` if each cell is delivered in its own event.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_batching_disabled(&self) -> bool {
        self.batching_disabled
    }

    /// Returns `true` if batching is disabled, which only tests do.
    #[cfg(not(any(test, feature = "testing")))]
    #[inline(always)]
    pub(crate) fn is_batching_disabled(&self) -> bool {
        false
    }

    /// Returns the end of the current or last transmission.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.end.free_at
    }

    /// Returns the maximum number of transmissions that can begin in a span.
    #[inline]
    pub(crate) fn most_in(&self, span: Span) -> u64 {
        span.as_nanos() / self.timing.cell_nanos.max(1) + 1
    }

    /// Sends a cell from `start` on, which is not before the line is free.
    #[inline]
    pub(crate) fn transmit(&mut self, word: Word, start: Time) {
        self.pipe.cells.push(self.timing.send(&mut self.end, word, start));
    }

    /// Sends up to `most` back-to-back cells that start before `until`.
    ///
    /// `send` writes the cells, and appends the packets that travel with them.
    #[inline(always)]
    pub(crate) fn send_row(
        &mut self,
        most: usize,
        until: Time,
        send: impl FnOnce(&mut Sending<'_>, &mut VecDeque<Packet>),
    ) {
        let Train { cells, cargo } = &mut *self.pipe;
        let before = cells.len();
        let in_time = until.since(self.end.free_at).as_nanos() / self.timing.cell_nanos + 1;
        cells.resize(before + most.min(in_time as usize), Sending::BLANK);
        let mut sending = Sending { room: cells[before..].iter_mut(), end: self.end, timing: self.timing };
        send(&mut sending, cargo);
        self.end = sending.end;
        let left = sending.room.len();
        cells.truncate(cells.len() - left);
    }

    /// Sends cells while `next` returns one with its start. Its argument is the instant the line is free.
    ///
    /// For short rows, to which reserving room would add time.
    #[inline]
    pub(crate) fn send_while(&mut self, mut next: impl FnMut(Time) -> Option<(Word, Time)>) {
        let (timing, mut end) = (self.timing, self.end);
        while let Some((word, start)) = next(end.free_at) {
            self.pipe.cells.push(timing.send(&mut end, word, start));
        }
        self.end = end;
    }

    /// Appends the packets of the last sent cell, which are next in `cargo`.
    #[inline]
    pub(crate) fn load(&mut self, cargo: &mut VecDeque<Packet>, word: Word) {
        reload(cargo, &mut self.pipe.cargo, word);
    }

    /// Appends a packet to the last sent cell.
    #[inline]
    pub(crate) fn put(&mut self, packet: Packet) {
        self.pipe.cargo.push_back(packet);
    }

    /// Returns `true` if no cell is in the pipe.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pipe.cells.is_empty()
    }

    /// Returns the arrival time of the first cell in the pipe.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.pipe.cells.first().map_or(Time::NEVER, |cell| cell.at)
    }

    /// Returns the minimum time from the start of a transmission to the arrival.
    #[inline]
    pub(crate) fn shortest(&self) -> Span {
        self.timing.delay + Span::from_nanos(self.timing.cell_nanos)
    }

    /// Returns the cells in the pipe as a packet, if the first arrives by `until`.
    pub(crate) fn take(&mut self, until: Time) -> Option<Packet> {
        if self.due() > until {
            return None;
        }
        #[cfg(any(test, feature = "testing"))]
        if self.batching_disabled {
            return Some(self.take_first());
        }
        self.handed_over += self.pipe.cells.len() as u64;
        // It will be about as long.
        let mut next = Train::with_room(self.pipe.cells.len());
        next.cargo.reserve(self.pipe.cargo.len());
        Some(std::mem::replace(&mut self.pipe, next).into_packet(self.end.digest))
    }

    #[cfg(any(test, feature = "testing"))]
    fn take_first(&mut self) -> Packet {
        let cell = self.pipe.cells.remove(0);
        self.handed_over += 1;
        let cargo = self.pipe.cargo.drain(..cell.word.cargo()).collect();
        Box::new(Train { cells: vec![cell], cargo }).into_packet(self.end.digest)
    }

    /// Returns the total transmission time up to `now`.
    fn busy(&self, now: Time) -> Span {
        let all = u128::from(self.sent()) * u128::from(CELL_BITS) * 1_000_000_000 / u128::from(self.rate_bps);
        Busy::of_line(Span::from_nanos(all as u64), self.end.free_at, now)
    }

    /// Returns the number of sent cells, including the one in transmission.
    pub(crate) fn sent(&self) -> u64 {
        self.handed_over + self.pipe.cells.len() as u64
    }

    /// Reports the number of sent cells.
    pub(crate) fn observe_sent(&self, observer: &mut dyn Observer) {
        observer.counter(&metrics::DELIVERED, self.sent());
        observer.counter(&metrics::DELIVERED_BYTES, self.sent() * (CELL_BITS / 8));
    }

    /// Reports the transmission time and the utilisation.
    pub(crate) fn observe_use(&self, now: Time, observer: &mut dyn Observer) {
        let busy = self.busy(now).as_secs_f64();
        observer.gauge(&link_metrics::BUSY, busy);
        observer.gauge(&link_metrics::UTILISATION, busy / now.as_secs_f64());
    }

    /// Returns a hash over all sent cells and their arrival times.
    pub(crate) fn digest(&self) -> u64 {
        self.end.digest
    }
}

/// Mixes a cell into a hash, as the run's fingerprint does, independent of trains.
#[inline]
fn mix(digest: u64, Cell { at, word }: Cell) -> u64 {
    let event = at.as_nanos() ^ word.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (digest.rotate_left(23) ^ event).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Vc;

    #[test]
    fn cells_end_in_the_nanosecond_that_the_rate_says() {
        let most = CELL_BITS * 1_000_000_000;
        for bps in [155_520_000, 149_760_000, 1_000_003, 999_999_937, 7, 3 << 37, most - 1, most] {
            let config = Config { rate: Rate::from_bps(bps), delay: Span::ZERO };
            let mut line = Line::new(&config).expect("a line");
            for count in 1..=20_000 {
                line.transmit(Word::data(Vc::FIRST, 0, 0, false), line.free_at());
                let exact = u128::from(most) * count / u128::from(bps);
                assert_eq!(u128::from(line.free_at().as_nanos()), exact, "cell {count} at {bps} bit/s");
            }
        }
    }
}
