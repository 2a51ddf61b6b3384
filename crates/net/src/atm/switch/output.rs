//! An output port of a switch: a queue for each service category, and the line behind them.

use std::collections::VecDeque;

use bentpipe_units::Time;
use bentpipe_wire::atm::rm;

use super::Config;
use crate::atm::cell::{Inbox, Kind, Vc, Word};
use crate::atm::erica::Erica;
use crate::atm::line::{self, CELL_BITS, Line, cells_per_second};
use crate::atm::service::Class;
use crate::{Impossible, Observer, Packet, Unit};

/// How far a channel is with its AAL5 PDU, for the discard of whole ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
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

    /// Adds a channel whose cells leave here; its number if ERICA knows it.
    pub(super) fn add_channel(&mut self, class: Class) -> u16 {
        match &mut self.erica {
            Some(erica) if class == Class::Abr => erica.add() as u16,
            _ => 0,
        }
    }

    /// Does all that is due before `until`: transmissions, and the ends of ERICA's intervals.
    #[inline]
    pub(super) fn settle(&mut self, until: Time) {
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
    #[inline]
    fn serve(&mut self, until: Time) {
        while self.queued > 0 && self.line.free_at < until {
            let first = self.busy.trailing_zeros() as usize;
            let Some(waiting) = self.waiting.get_mut(first) else { return };
            let Some(word) = waiting.cells.pop_front() else { return };
            self.busy ^= u8::from(waiting.cells.is_empty()) << first;
            self.queued -= 1;
            self.line.transmit(word, self.line.free_at);
            if !word.is_middle() {
                let count = word.cargo().min(waiting.cargo.len());
                waiting.cargo.drain(..count).for_each(|packet| self.line.load(packet));
            }
        }
    }

    /// Takes a cell at `at`; what travels with it is next in `inbox`.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        at: Time,
        word: Word,
        class: Class,
        channel: u16,
        frames: &mut Frames,
        inbox: &mut Inbox,
    ) {
        self.settle(at);
        let mut word = word;
        let mut is_full = false;
        if let Some(erica) = &mut self.erica {
            match class {
                Class::Abr => {
                    let is_forward_rm = word.kind() == Kind::Rm && !word.is_backward();
                    let ccr = is_forward_rm.then(|| word.current().cells_per_second());
                    erica.on_abr(channel.into(), ccr);
                    is_full = erica.is_full();
                }
                Class::Cbr | Class::Vbr => erica.on_other(),
                Class::Ubr => {}
            }
        }
        if class == Class::Abr && self.waiting[Class::Abr as usize].cells.len() >= self.efci {
            word = word.congested();
        }
        if self.admits(word, class, frames) {
            self.enqueue(at, word, class);
            if !word.is_middle() {
                let cargo = (0..word.cargo()).filter_map(|_| inbox.cargo());
                self.waiting[class as usize].cargo.extend(cargo);
            }
        } else {
            inbox.drop_cargo(word);
        }
        if is_full {
            // The interval ends with the cell that fills it, which is in the queue by then.
            self.end_interval(at);
        }
    }

    #[inline]
    fn enqueue(&mut self, at: Time, word: Word, class: Class) {
        if self.queued == 0 {
            self.line.free_at = self.line.free_at.max(at);
        }
        let waiting = &mut self.waiting[class as usize];
        waiting.cells.push_back(word);
        self.busy |= 1 << class as u8;
        waiting.arrived += 1;
        waiting.most = waiting.most.max(waiting.cells.len());
        self.queued += 1;
    }

    /// Whether so many ABR cells wait that sources are told at once.
    #[inline]
    pub(super) fn is_congested(&self) -> bool {
        self.waiting[Class::Abr as usize].cells.len() >= self.becn
    }

    /// Sends a backward RM cell of the switch's own on a channel, if there is room (TM 4.0, section 5.10.6, rule 5).
    #[cold]
    pub(super) fn tell(&mut self, at: Time, vc: Vc) {
        self.settle(at);
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: true,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        if self.admits(Word::rm(vc, false, &repr), Class::Abr, &mut Frames::default()) {
            self.enqueue(at, Word::rm(vc, false, &repr), Class::Abr);
            self.rm_made += 1;
        }
    }

    /// Whether a cell is let in; counts it if not.
    #[inline]
    fn admits(&mut self, word: Word, class: Class, frames: &mut Frames) -> bool {
        let waiting = &mut self.waiting[class as usize];
        let queue = waiting.cells.len();
        if class != Class::Ubr {
            waiting.dropped_full += u64::from(queue >= waiting.limit);
            return queue < waiting.limit;
        }
        if frames.starting {
            *frames = Frames { starting: false, refused: queue >= self.epd, broken: false };
        }
        frames.starting = word.is_last();
        if frames.refused {
            self.dropped_epd += 1;
        } else if frames.broken && self.ppd && !word.is_last() {
            self.dropped_ppd += 1;
        } else if queue >= waiting.limit {
            frames.broken = true;
            waiting.dropped_full += 1;
        } else {
            return true;
        }
        false
    }

    /// What a backward RM cell says after it passed this port, the one that its channel's data leave by.
    #[inline(never)]
    pub(super) fn feedback(&mut self, at: Time, channel: u16, word: Word) -> Word {
        self.settle(at);
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
