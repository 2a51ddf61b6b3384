//! A line of cells: a serialiser and a pipe.

use std::collections::VecDeque;

use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::atm::CELL_LEN;

use super::cell::{Cell, Train, Vc, Word, reload};
use crate::{Impossible, Observer, Packet, Unit};

/// Bits of a cell on the line.
pub(crate) const CELL_BITS: u64 = 8 * CELL_LEN as u64;

/// What cells of a rate make, in cells per second.
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
    /// Whether cells are handed over singly, each when it arrives.
    singly: bool,
    /// How many were.
    handed_over: u64,
}

/// How long a cell takes.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Whole nanoseconds of a cell, and what is left in units of 2^-64 ns, rounded up: not before 2^64 cells do the times of
    /// their ends differ by a nanosecond.
    cell_nanos: u64,
    cell_fraction: u64,
    /// From the end of its transmission to its arrival.
    delay: Span,
}

impl Timing {
    /// A cell that is sent from `start` on.
    #[inline(always)]
    fn send(&self, end: &mut End, word: Word, start: Time) -> Cell {
        let (fraction, is_carried) = end.fraction.overflowing_add(self.cell_fraction);
        let free_at = start.as_nanos() + self.cell_nanos + u64::from(is_carried);
        let cell = Cell { at: Time::from_nanos(free_at + self.delay.as_nanos()), word };
        // Here and not where the train is handed over, as here it takes no time beside the rest.
        *end = End { free_at: Time::from_nanos(free_at), fraction, digest: mix(end.digest, cell) };
        cell
    }
}

/// The end of what was sent: what changes with each cell.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// When the transmission of this moment ends, or the last one ended.
    free_at: Time,
    /// And how far into the nanosecond behind that.
    fraction: u64,
    /// Of all cells sent.
    digest: u64,
}

/// A row of cells that are sent one behind the other, each written where there is room for it in the pipe.
pub(crate) struct Sending<'a> {
    room: std::slice::IterMut<'a, Cell>,
    end: End,
    timing: Timing,
}

impl Sending<'_> {
    /// Where none was written yet.
    const BLANK: Cell = Cell { at: Time::NEVER, word: Word::oam(Vc::FIRST) };

    /// When the transmission of this moment ends, or the last one ended.
    #[inline(always)]
    pub(crate) fn free_at(&self) -> Time {
        self.end.free_at
    }

    /// Whether as many were sent as there can be.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.room.len() == 0
    }

    /// Sends a cell from `start` on, which is not before the line is free; none if as many were sent as there can be.
    #[inline(always)]
    pub(crate) fn send(&mut self, word: Word, start: Time) {
        if let Some(place) = self.room.next() {
            *place = self.timing.send(&mut self.end, word, start);
        }
    }
}

impl Line {
    pub(crate) fn new(config: &Config) -> Result<Line, Impossible> {
        let rate_bps = config.rate.as_bps();
        let scaled = CELL_BITS * 1_000_000_000;
        // Faster, and two cells would arrive in one nanosecond.
        Impossible::unless((1..=scaled).contains(&rate_bps), "rate", "above zero and at most 424 Gbit/s")?;
        Ok(Line {
            timing: Timing {
                cell_nanos: scaled / rate_bps,
                cell_fraction: (u128::from(scaled % rate_bps) << 64).div_ceil(u128::from(rate_bps)) as u64,
                delay: config.delay,
            },
            rate_bps,
            end: End::default(),
            pipe: Box::default(),
            singly: false,
            handed_over: 0,
        })
    }

    /// Hands cells over one by one from now on.
    pub(crate) fn cell_by_cell(&mut self) {
        self.singly = true;
    }

    /// Whether cells are handed over one by one.
    pub(crate) fn is_cell_by_cell(&self) -> bool {
        self.singly
    }

    /// When the transmission of this moment ends, or the last one ended.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.end.free_at
    }

    /// How many transmissions can begin in a span at most.
    #[inline]
    pub(crate) fn most_in(&self, span: Span) -> u64 {
        span.as_nanos() / self.timing.cell_nanos.max(1) + 1
    }

    /// Sends a cell from `start` on, which is not before the line is free.
    #[inline]
    pub(crate) fn transmit(&mut self, word: Word, start: Time) {
        self.pipe.cells.push(self.timing.send(&mut self.end, word, start));
    }

    /// Sends a row of cells, of which `most` at most are to start before `until`. `send` says which, and puts what travels with
    /// them beside them.
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

    /// Sends cells as long as `next` says which, and from when on a line that is free at the instant told: a short row, for which
    /// to make room takes longer.
    #[inline]
    pub(crate) fn send_while(&mut self, mut next: impl FnMut(Time) -> Option<(Word, Time)>) {
        let (timing, mut end) = (self.timing, self.end);
        while let Some((word, start)) = next(end.free_at) {
            self.pipe.cells.push(timing.send(&mut end, word, start));
        }
        self.end = end;
    }

    /// Puts what travels with the cell sent last beside it; it is next in `cargo`.
    #[inline]
    pub(crate) fn load(&mut self, cargo: &mut VecDeque<Packet>, word: Word) {
        reload(cargo, &mut self.pipe.cargo, word);
    }

    /// Puts a packet beside the cell sent last.
    #[inline]
    pub(crate) fn put(&mut self, packet: Packet) {
        self.pipe.cargo.push_back(packet);
    }

    /// Whether there is nothing in the pipe.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pipe.cells.is_empty()
    }

    /// When the first cell in the pipe arrives.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.pipe.cells.first().map_or(Time::NEVER, |cell| cell.at)
    }

    /// The shortest time from the start of a transmission to the arrival.
    #[inline]
    pub(crate) fn shortest(&self) -> Span {
        self.timing.delay + Span::from_nanos(self.timing.cell_nanos)
    }

    /// What there is to hand over: all that is in the pipe, if its first cell arrives by `until`.
    pub(crate) fn take(&mut self, until: Time) -> Option<Packet> {
        if self.due() > until {
            return None;
        }
        if self.singly {
            return Some(self.take_first());
        }
        self.handed_over += self.pipe.cells.len() as u64;
        // It will be about as long.
        let mut next = Train::with_room(self.pipe.cells.len());
        next.cargo.reserve(self.pipe.cargo.len());
        Some(Packet::from_train(std::mem::replace(&mut self.pipe, next), self.end.digest))
    }

    fn take_first(&mut self) -> Packet {
        let cell = self.pipe.cells.remove(0);
        self.handed_over += 1;
        let cargo = self.pipe.cargo.drain(..cell.word.cargo()).collect();
        Packet::from_train(Box::new(Train { cells: vec![cell], cargo }), self.end.digest)
    }

    /// How long it was sending up to `now`.
    fn busy(&self, now: Time) -> Span {
        let all = u128::from(self.sent()) * u128::from(CELL_BITS) * 1_000_000_000 / u128::from(self.rate_bps);
        Span::from_nanos(all as u64).saturating_sub(self.end.free_at.since(now))
    }

    /// How many cells were sent, or are being sent.
    pub(crate) fn sent(&self) -> u64 {
        self.handed_over + self.pipe.cells.len() as u64
    }

    /// Tells how many cells were sent.
    pub(crate) fn observe_sent(&self, observer: &mut dyn Observer) {
        observer.counter("delivered", Unit::Cells, self.sent());
        observer.counter("delivered-bytes", Unit::Bytes, self.sent() * (CELL_BITS / 8));
    }

    /// Tells how long it was sending, and in what part of the time.
    pub(crate) fn observe_use(&self, now: Time, observer: &mut dyn Observer) {
        let busy = self.busy(now).as_secs_f64();
        observer.gauge("busy", Unit::Seconds, busy);
        observer.gauge("utilisation", Unit::Ratio, busy / now.as_secs_f64());
    }

    /// A hash over all cells sent and the times of their arrival.
    pub(crate) fn digest(&self) -> u64 {
        self.end.digest
    }
}

/// Mixes a cell into a hash as a run's fingerprint mixes: how cells are made up into trains makes no difference.
#[inline]
fn mix(digest: u64, Cell { at, word }: Cell) -> u64 {
    let event = at.as_nanos() ^ word.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (digest.rotate_left(23) ^ event).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::cell::Vc;

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
