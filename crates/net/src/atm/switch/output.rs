//! An output port of a switch: a queue for each service category, and the line behind them.
//!
//! Outputs have to do with one another only where one is asked what a backward RM cell may say. So cells that come are put down
//! first, and an output works through what has come to it when somebody wants to know: many cells in one loop, each as of its
//! own instant.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};
use bentpipe_wire::atm::rm;

use super::Config;
use crate::atm::cell::{Vc, Word, reload, unload};
use crate::atm::erica::Erica;
use crate::atm::line::{self, CELL_BITS, Line, cells_per_second};
use crate::atm::service::Class;
use crate::{Impossible, Observer, Packet, Unit};

/// Between backward RM cells that a switch makes for a channel (TM 4.0: at most ten a second).
const BECN_GAP: Span = Span::from_millis(100);

/// A cell that comes to an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Time,
    pub(super) word: Word,
    /// The number of its channel here.
    pub(super) channel: u16,
    pub(super) class: Class,
}

/// A channel whose cells leave here.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    frames: Frames,
    /// Before this no backward RM cell is made for it.
    quiet_until: Time,
}

/// How far a channel is with its AAL5 PDU, for the discard of whole ones.
#[derive(Clone, Copy, Debug)]
struct Frames {
    /// Whether the next cell begins a PDU.
    starting: bool,
    /// Whether this PDU is not let in.
    refused: bool,
    /// Whether a cell of this PDU was dropped.
    broken: bool,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames { starting: true, refused: false, broken: false }
    }
}

/// Cells of a category that wait.
#[derive(Debug)]
struct Waiting {
    cells: VecDeque<Word>,
    cargo: VecDeque<Packet>,
    limit: usize,
    most: usize,
    arrived: u64,
    dropped_full: u64,
}

impl Waiting {
    fn new(limit: Option<u32>) -> Waiting {
        Waiting {
            cells: VecDeque::new(),
            cargo: VecDeque::new(),
            limit: limit.map_or(usize::MAX, |limit| limit as usize),
            most: 0,
            arrived: 0,
            dropped_full: 0,
        }
    }

    /// Whether one more may wait; counts a cell that may not.
    #[inline(always)]
    fn has_room(&mut self) -> bool {
        let has_room = self.cells.len() < self.limit;
        self.dropped_full += u64::from(!has_room);
        has_room
    }

    /// Notes that cells came, and how many waited then.
    #[inline(always)]
    fn note(&mut self, arrived: u64, count: usize) {
        self.arrived += arrived;
        self.most = self.most.max(count);
    }
}

/// Names of what is reported of each category.
const NAMES: [[&str; 4]; 4] = [
    ["cbr-queue", "cbr-queue-max", "cbr-cells", "dropped-cbr"],
    ["vbr-queue", "vbr-queue-max", "vbr-cells", "dropped-vbr"],
    ["abr-queue", "abr-queue-max", "abr-cells", "dropped-abr"],
    ["ubr-queue", "ubr-queue-max", "ubr-cells", "dropped-ubr"],
];

/// An output port.
#[derive(Debug)]
pub(super) struct Output {
    path: String,
    pub(super) line: Line,
    /// What has come and is not looked at yet, in the order of its coming, and what travels with it.
    arrivals: Vec<Arrival>,
    cargo: VecDeque<Packet>,
    channels: Vec<Channel>,
    waiting: [Waiting; 4],
    /// A bit for each category that has cells waiting.
    busy: u8,
    /// How many cells wait in all.
    queued: usize,
    erica: Option<Erica>,
    /// When ERICA's interval ends if not enough cells come; never without ERICA.
    interval_ends: Time,
    efci: usize,
    becn: usize,
    epd: usize,
    ppd: bool,
    dropped_epd: u64,
    dropped_ppd: u64,
    rm_made: u64,
}

impl Output {
    pub(super) fn new(path: String, config: &Config, line: &line::Config) -> Result<Output, Impossible> {
        let limits = config.limit;
        let cells = cells_per_second(line.rate);
        let erica = config.abr.target().map(|(measure, target)| Erica::new(measure, target, cells));
        let erica = erica.transpose()?;
        let threshold = |cells: Option<u32>| cells.map_or(usize::MAX, |cells| cells as usize);
        Ok(Output {
            path,
            line: Line::new(line)?,
            arrivals: Vec::new(),
            cargo: VecDeque::new(),
            channels: Vec::new(),
            waiting: [limits.cbr, limits.vbr, limits.abr, limits.ubr].map(Waiting::new),
            busy: 0,
            queued: 0,
            interval_ends: erica.as_ref().map_or(Time::NEVER, Erica::ends_at),
            erica,
            efci: threshold(config.efci),
            becn: threshold(config.becn),
            epd: threshold(config.epd),
            ppd: config.ppd,
            dropped_epd: 0,
            dropped_ppd: 0,
            rm_made: 0,
        })
    }

    pub(super) fn cell_by_cell(&mut self) {
        self.line.cell_by_cell();
    }

    /// Adds a channel whose cells leave here; gives its number.
    pub(super) fn add_channel(&mut self) -> u16 {
        if let Some(erica) = &mut self.erica {
            erica.add();
        }
        self.channels.push(Channel::default());
        self.channels.len() as u16 - 1
    }

    /// Puts down a cell that comes, which is not before those put down so far; what travels with it is next in `cargo`.
    #[inline]
    pub(super) fn arrive(&mut self, arrival: Arrival, cargo: &mut VecDeque<Packet>) {
        self.arrivals.push(arrival);
        if !arrival.word.is_middle() {
            reload(cargo, &mut self.cargo, arrival.word);
        }
    }

    /// Does all that is due before `until`, where all that comes before then has been put down.
    pub(super) fn advance(&mut self, until: Time) {
        if !self.arrivals.is_empty() {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let mut rest = &arrivals[..];
            while let Some((arrival, behind)) = rest.split_first() {
                self.settle(arrival.at);
                let passed = if self.queued == 0 { self.pass(rest, until) } else { 0 };
                if passed == 0 {
                    self.take(arrival);
                }
                rest = &behind[passed.max(1) - 1..];
            }
            arrivals.clear();
            self.arrivals = arrivals;
        }
        self.settle(until);
    }

    /// Starts all transmissions due before `until`, and ends ERICA's intervals that end before.
    #[inline(always)]
    fn settle(&mut self, until: Time) {
        while self.interval_ends < until {
            let end = self.interval_ends;
            self.serve(end);
            self.end_interval(end);
        }
        self.serve(until);
    }

    #[cold]
    fn end_interval(&mut self, at: Time) {
        let queue = self.waiting[Class::Abr as usize].cells.len();
        if let Some(erica) = &mut self.erica {
            erica.end_interval(at, queue);
            self.interval_ends = erica.ends_at();
        }
    }

    /// Starts all transmissions due before `until`.
    #[inline(always)]
    fn serve(&mut self, until: Time) {
        while self.queued > 0 && self.line.free_at < until {
            let first = self.busy.trailing_zeros() as usize;
            let Some(waiting) = self.waiting.get_mut(first) else { return };
            let Some(word) = waiting.cells.pop_front() else { return };
            self.busy ^= u8::from(waiting.cells.is_empty()) << first;
            self.queued -= 1;
            self.line.transmit(word, self.line.free_at);
            if !word.is_middle() {
                self.line.load(&mut waiting.cargo, word);
            }
        }
    }

    /// Sends cells on that find nothing in their way, where nothing waits: the line is free when each of them comes, and nothing
    /// comes or ends beside it. So nobody ever sees them wait. Of one channel, and no forward RM cells; gives how many.
    fn pass(&mut self, arrivals: &[Arrival], until: Time) -> usize {
        let Some(&Arrival { channel, class, .. }) = arrivals.first() else { return 0 };
        if class == Class::Ubr || self.waiting[class as usize].limit == 0 || self.efci == 0 {
            return 0;
        }
        let room =
            self.erica.as_ref().filter(|_| class == Class::Abr).map_or(usize::MAX, |erica| erica.room() - 1);
        let mut count = 0;
        for (n, arrival) in arrivals.iter().enumerate().take(room) {
            let Arrival { at, word, .. } = *arrival;
            let following = arrivals.get(n + 1).map_or(until, |following| following.at);
            let is_alone = self.line.free_at <= at && at < following.min(self.interval_ends);
            if !is_alone || arrival.channel != channel || word.is_forward_rm() {
                break;
            }
            self.line.transmit(word, at);
            if !word.is_middle() {
                self.line.load(&mut self.cargo, word);
            }
            count += 1;
        }
        if count > 0 {
            self.count(channel, class, count as u32);
            self.waiting[class as usize].note(count as u64, 1);
        }
        count
    }

    /// Takes a cell that may have to wait.
    #[inline(always)]
    fn take(&mut self, arrival: &Arrival) {
        let Arrival { at, mut word, channel, class } = *arrival;
        let fills = self.count(channel, class, 1);
        if word.is_forward_rm()
            && class == Class::Abr
            && let Some(erica) = &mut self.erica
        {
            erica.on_rate(channel.into(), word.current().cells_per_second());
        }
        if class == Class::Abr && self.waiting[Class::Abr as usize].cells.len() >= self.efci {
            word = word.congested();
        }
        let waiting = &mut self.waiting[class as usize];
        let is_let_in = if class == Class::Ubr { self.admits(word, channel) } else { waiting.has_room() };
        if is_let_in {
            self.enqueue(at, word, class);
        }
        if !word.is_middle() {
            match is_let_in {
                true => reload(&mut self.cargo, &mut self.waiting[class as usize].cargo, word),
                false => unload(&mut self.cargo, word),
            }
        }
        if fills {
            // The interval ends with the cell that fills it, which is in the queue by then.
            self.end_interval(at);
        }
    }

    /// Lets ERICA count cells of a channel that come; whether they fill its interval.
    #[inline(always)]
    fn count(&mut self, channel: u16, class: Class, cells: u32) -> bool {
        let Some(erica) = &mut self.erica else { return false };
        match class {
            Class::Abr => {
                erica.on_abr(channel.into(), cells);
                return erica.room() == 0;
            }
            Class::Cbr | Class::Vbr => erica.on_other(cells),
            Class::Ubr => {}
        }
        false
    }

    #[inline(always)]
    fn enqueue(&mut self, at: Time, word: Word, class: Class) {
        if self.queued == 0 {
            self.line.free_at = self.line.free_at.max(at);
        }
        let waiting = &mut self.waiting[class as usize];
        waiting.cells.push_back(word);
        waiting.note(1, waiting.cells.len());
        self.busy |= 1 << class as u8;
        self.queued += 1;
    }

    /// Whether sources are told by cells of the switch's own, so that each cell that comes has to be looked at.
    #[inline]
    pub(super) fn tells(&self) -> bool {
        self.becn < usize::MAX
    }

    /// Whether a source of this channel is to be told at `at` that too many ABR cells wait; not again for a while then.
    pub(super) fn is_to_be_told(&mut self, at: Time, channel: u16) -> bool {
        self.advance(at);
        let channel = &mut self.channels[usize::from(channel)];
        let is_due = self.waiting[Class::Abr as usize].cells.len() >= self.becn && at >= channel.quiet_until;
        if is_due {
            channel.quiet_until = at + BECN_GAP;
        }
        is_due
    }

    /// Sends a backward RM cell of the switch's own on a channel, if there is room (TM 4.0, section 5.10.6, rule 5).
    #[cold]
    pub(super) fn tell(&mut self, at: Time, vc: Vc) {
        self.advance(at);
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: true,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        let word = Word::rm(vc, false, &repr);
        if self.waiting[Class::Abr as usize].has_room() {
            self.enqueue(at, word, Class::Abr);
            self.rm_made += 1;
        }
    }

    /// Whether a cell of UBR is let in; counts it if not.
    #[inline(never)]
    fn admits(&mut self, word: Word, channel: u16) -> bool {
        let waiting = &mut self.waiting[Class::Ubr as usize];
        let frames = &mut self.channels[usize::from(channel)].frames;
        let queue = waiting.cells.len();
        if frames.starting {
            *frames = Frames { starting: false, refused: queue >= self.epd, broken: false };
        }
        frames.starting = word.is_last();
        if frames.refused {
            self.dropped_epd += 1;
        } else if frames.broken && self.ppd && !word.is_last() {
            self.dropped_ppd += 1;
        } else {
            let has_room = waiting.has_room();
            frames.broken |= !has_room;
            return has_room;
        }
        false
    }

    /// What a backward RM cell says after it passed this port, the one that its channel's data leave by.
    #[inline(never)]
    pub(super) fn feedback(&mut self, at: Time, channel: u16, word: Word) -> Word {
        self.advance(at);
        let Some(erica) = &mut self.erica else { return word };
        let given = rm::Rate::from_cells_per_second(erica.feedback(channel.into()));
        let repr = word.rm_repr();
        Word::rm(word.vc(), word.clp(), &rm::Repr { explicit: repr.explicit.min(given), ..repr })
    }

    /// When a cell comes to the other end of the line at the earliest.
    pub(super) fn deadline(&self, now: Time, next_arrival: Time) -> Time {
        let start = if self.queued > 0 { self.line.free_at } else { next_arrival };
        let later = if start.is_never() { start } else { start.max(now) + self.line.shortest() };
        self.line.due().min(later)
    }

    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.path);
        let busy = self.line.busy(now).as_secs_f64();
        observer.counter("delivered", Unit::Cells, self.line.sent());
        observer.counter("delivered-bytes", Unit::Bytes, self.line.sent() * (CELL_BITS / 8));
        observer.gauge("busy", Unit::Seconds, busy);
        observer.gauge("utilisation", Unit::Ratio, busy / now.as_secs_f64());
        for (waiting, [queue, most, cells, dropped]) in self.waiting.iter().zip(NAMES) {
            observer.gauge(queue, Unit::Cells, waiting.cells.len() as f64);
            observer.gauge(most, Unit::Cells, waiting.most as f64);
            observer.counter(cells, Unit::Cells, waiting.arrived);
            observer.counter(dropped, Unit::Cells, waiting.dropped_full);
        }
        observer.counter("dropped-epd", Unit::Cells, self.dropped_epd);
        observer.counter("dropped-ppd", Unit::Cells, self.dropped_ppd);
        observer.counter("rm-made", Unit::Cells, self.rm_made);
        if let Some(erica) = &self.erica {
            let [load, fair_share, capacity, active] = erica.state();
            let bits = CELL_BITS as f64;
            observer.gauge("abr-load", Unit::Ratio, if load.is_finite() { load } else { f64::NAN });
            observer.gauge("abr-fair-share", Unit::BitsPerSecond, fair_share * bits);
            observer.gauge("abr-capacity", Unit::BitsPerSecond, capacity * bits);
            observer.gauge("abr-active", Unit::Count, active);
        }
    }
}
