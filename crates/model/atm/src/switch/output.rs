//! Output port of a switch: the cells of each service category, and the outgoing line.
//!
//! Outputs depend on one another only where one supplies feedback for a backward RM cell. So arriving cells
//! are first enqueued, each with its category, and an output processes its arrivals when its train is sent:
//! whenever the line is free, the first category with a waiting cell sends it. ERICA counts cells up to the
//! instant of each request.

use std::collections::VecDeque;

use bentpipe_net::{InvalidConfig, Observer, Packet, Why};
use bentpipe_units::{Span, Time};
use bentpipe_wire::atm::rm;

use super::waiting::Waiting;
use super::{Config, Contract, Discard, Moment};
use crate::cell::{Cell, Kind, Vc, Word, reload, unload};
use crate::erica::Erica;
use crate::line::{self, CELL_BITS, Line, cells_per_second};
use crate::metrics;
use crate::service::Class;
use crate::sort::Sorter;

/// Minimum interval of a switch's backward RM cells, per channel. TM 4.0: at most ten per second.
const BECN_GAP: Span = Span::from_millis(100);

/// Maximum number of cells enqueued at an output in one batch, for the cache.
const MANY: usize = 512;

const CBR: usize = Class::Cbr as usize;
const VBR: usize = Class::Vbr as usize;
const ABR: usize = Class::Abr as usize;
const UBR: usize = Class::Ubr as usize;

mod serve;

/// The channels whose cells leave here.
#[derive(Debug)]
struct Channels {
    all: Vec<Channel>,
    /// Index of the channel, for each VCI of this output up to its highest.
    numbers: Vec<u16>,
}

impl Channels {
    /// Returns the index of the channel that a cell leaves on.
    #[inline]
    fn number(&self, word: Word) -> usize {
        usize::from(self.numbers[word.vc().index()])
    }

    /// Returns the port that a cell arrived by.
    fn input(&self, word: Word) -> u16 {
        self.all[self.number(word)].input
    }

    /// Returns the channel that a cell leaves on.
    #[inline]
    fn of(&mut self, word: Word) -> &mut Channel {
        let number = self.number(word);
        &mut self.all[number]
    }
}

/// A channel whose cells leave here.
#[derive(Debug)]
struct Channel {
    /// Port that its cells arrive by.
    input: u16,
    frames: Frames,
    /// Packets of its enqueued cells.
    cargo: VecDeque<Packet>,
    /// Earliest time of its next backward RM cell.
    quiet_until: Time,
}

/// Position of a channel in its AAL5 PDU, for the discard of whole PDUs.
#[derive(Clone, Copy, Debug)]
struct Frames {
    /// Set if the next cell begins a PDU.
    starting: bool,
    /// Set if this PDU is dropped.
    refused: bool,
    /// Set if a cell of this PDU was dropped.
    broken: bool,
    /// Set once the channel is known to carry PDUs.
    is_known: bool,
}

/// Data that accompanies the cells of a category.
#[derive(Debug, Default)]
struct Attached {
    /// Replacements for RM cells that got feedback and are not yet examined.
    answers: VecDeque<Word>,
    /// Packets of the cells that were examined and admitted.
    cargo: VecDeque<Packet>,
}

/// An output port.
#[derive(Debug)]
pub(super) struct Output {
    path: String,
    pub(super) line: Line,
    channels: Channels,
    /// Cells of each category.
    waiting: [Waiting; 4],
    attached: [Attached; 4],
    sorter: Sorter,
    erica: Option<Erica>,
    /// End of ERICA's interval if too few cells arrive; never without ERICA.
    interval_ends: Time,
    efci: usize,
    becn: usize,
    /// Thresholds of EPD, and PPD, for each category.
    epd: [usize; 4],
    ppd: [bool; 4],
    dropped_epd: u64,
    dropped_ppd: u64,
    rm_made: u64,
}

impl Output {
    pub(super) fn new(path: String, config: &Config, line: &line::Config) -> Result<Output, InvalidConfig> {
        let limits = config.limit;
        let cells = cells_per_second(line.rate);
        let erica = config.abr.at(cells)?;
        let threshold = |cells: Option<u32>| cells.map_or(usize::MAX, |cells| cells as usize);
        // Where PDUs may be dropped each cell is examined, as each marks the beginning of one.
        let (limits, epd) = ([limits.cbr, limits.vbr, limits.abr, limits.ubr], Discard::each(config.epd));
        let ppd = Discard::each(config.ppd).map(Option::unwrap_or_default);
        let waiting = [CBR, VBR, ABR, UBR].map(|class| {
            let is_examined = epd[class].is_some() || (ppd[class] && limits[class].is_some());
            let marked = config.efci.filter(|_| class == ABR);
            Waiting::new(limits[class], if is_examined { Some(0) } else { marked })
        });
        Ok(Output {
            path,
            line: Line::new(line)?,
            channels: Channels { all: Vec::new(), numbers: Vec::new() },
            waiting,
            attached: Default::default(),
            sorter: Sorter::default(),
            interval_ends: erica.as_ref().map_or(Time::NEVER, Erica::ends_at),
            erica,
            efci: threshold(config.efci),
            becn: threshold(config.becn),
            epd: epd.map(threshold),
            ppd,
            dropped_epd: 0,
            dropped_ppd: 0,
            rm_made: 0,
        })
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn disable_batching(&mut self) {
        self.line.disable_batching();
    }

    /// Adds a channel that arrives by `input` and leaves on `vc`, and returns its index.
    pub(super) fn add_channel(&mut self, vc: Vc, contract: Contract, input: u16) -> u16 {
        let Contract { class, has_pdus, guarantee } = contract;
        if let Some(erica) = &mut self.erica {
            erica.add(guarantee);
        }
        let number = self.channels.all.len() as u16;
        let (cargo, quiet_until) = Default::default();
        let frames = Frames { starting: true, refused: false, broken: false, is_known: has_pdus };
        self.channels.all.push(Channel { input, frames, cargo, quiet_until });
        self.waiting[class as usize].add_input(input);
        let numbers = &mut self.channels.numbers;
        numbers.resize(numbers.len().max(vc.index() + 1), 0);
        numbers[vc.index()] = number;
        number
    }

    /// Returns the cells of a category, to enqueue further ones of one input in succession.
    #[inline]
    pub(super) fn of_class(&mut self, class: Class) -> &mut Waiting {
        &mut self.waiting[class as usize]
    }

    /// Stores the packets of an enqueued cell, which are next in `cargo`.
    #[inline(never)]
    pub(super) fn load(&mut self, channel: u16, word: Word, cargo: &mut VecDeque<Packet>) {
        reload(cargo, &mut self.channels.all[usize::from(channel)].cargo, word);
    }

    /// Stores copies of the packets of an enqueued cell, which are next in `cargo`.
    #[inline(never)]
    pub(super) fn load_copies(&mut self, channel: u16, word: Word, cargo: &VecDeque<Packet>) {
        let copies = cargo.iter().take(word.cargo()).map(Packet::copy);
        self.channels.all[usize::from(channel)].cargo.extend(copies);
    }

    /// Stores the replacement of the category's next cell with feedback.
    pub(super) fn answer(&mut self, class: Class, word: Word) {
        self.attached[class as usize].answers.push_back(word);
    }

    /// Returns `true` if arrivals must be processed: many wait, or output by `until` needs them.
    ///
    /// Otherwise they can wait for more: a train is in flight, and no later arrival can be sent before its
    /// delivery.
    pub(super) fn is_due(&self, until: Time) -> bool {
        let is_much = || self.waiting.iter().map(Waiting::unsorted).sum::<usize>() >= MANY;
        self.line.is_empty() || self.line.due() <= until || is_much()
    }

    /// Processes all events before `now`. All enqueued cells arrive before then.
    pub(super) fn advance_all(&mut self, now: Time) {
        self.advance((now, 0));
        for class in 0..4 {
            self.look_up_to(class, self.waiting[class].end());
        }
    }

    /// Processes all events before `until`. All cells that arrive before then are enqueued.
    fn advance(&mut self, until: Moment) {
        self.measure(until);
        self.serve(until.0);
    }

    /// Counts all arrivals before `until` for ERICA, and ends its intervals that end before.
    fn measure(&mut self, until: Moment) {
        let Output { waiting, sorter, .. } = self;
        waiting.iter_mut().for_each(|waiting| waiting.sort(sorter));
        while let Some(end) = self.count(until) {
            self.serve(end);
            let queue = self.look_up_to(ABR, self.waiting[ABR].counted());
            if let Some(erica) = &mut self.erica {
                erica.end_interval(end, queue);
                self.interval_ends = erica.ends_at();
            }
        }
    }

    /// Counts arrivals before `until` in ERICA's present interval, and reads rates.
    ///
    /// Returns the end of the interval, if it ends before `until` or with the last of the cells.
    fn count(&mut self, until: Moment) -> Option<Time> {
        let Output { erica, waiting, channels, interval_ends: ends, .. } = self;
        let erica = erica.as_mut()?;
        let come_before = |row: &[Cell], until: Moment| {
            let sooner = row.partition_point(|cell| cell.at < until.0.min(*ends));
            let at_once = row[sooner..]
                .iter()
                .take_while(|cell| cell.at <= *ends && (cell.at, channels.input(cell.word)) < until);
            sooner + at_once.count()
        };
        let (mut until, mut end) = (until, (*ends < until.0).then_some(*ends));
        let (row, room) = (waiting[ABR].uncounted(), erica.room());
        let row = &row[..row.len().min(room)];
        let count = come_before(row, until);
        if let [_] = channels.all[..] {
            erica.on_abr(0, count as u32);
        } else {
            row[..count].iter().for_each(|cell| erica.on_abr(channels.number(cell.word), 1));
        }
        for Cell { word, .. } in row[..count].iter().filter(|cell| cell.word.is_forward_rm()) {
            erica.on_rate(channels.number(*word), word.current().cells_per_second());
        }
        if let Some(last) = row[..count].last().filter(|_| count == room) {
            // The interval ends with the cell that fills it.
            (until, end) = ((last.at, channels.input(last.word)), Some(last.at));
        }
        waiting[ABR].count(count);
        for class in [CBR, VBR] {
            let count = come_before(waiting[class].uncounted(), until);
            erica.on_other(count as u32);
            waiting[class].count(count);
        }
        end
    }

    /// Examines a category's arrived cells, if one needs it, and returns the queue length.
    ///
    /// `has_come` is `true` for a cell that has arrived.
    fn look(&mut self, class: usize, has_come: impl Fn(&Cell) -> bool) -> usize {
        let come = self.waiting[class].up_to(has_come);
        self.look_up_to(class, come)
    }

    /// Examines a category's cells up to `come`, if needed, and returns the queue length.
    fn look_up_to(&mut self, class: usize, come: usize) -> usize {
        if self.waiting[class].needs_inspection(come) {
            self.look_at_each(class, come);
        }
        self.waiting[class].len_at(come)
    }

    /// Examines each cell of a category up to `come`.
    fn look_at_each(&mut self, class: usize, come: usize) {
        while let Some(cell) = self.waiting[class].look(come) {
            self.consider(class, cell);
        }
    }

    /// Admits an arriving cell, with feedback or mark, or drops it if too many wait.
    fn consider(&mut self, class: usize, Cell { at, mut word }: Cell) {
        if self.is_asked() && word.is_backward_rm() {
            word = self.attached[class].answers.pop_front().unwrap_or(word);
        }
        if class == ABR && self.waiting[ABR].len() >= self.efci {
            word = word.congested();
        }
        let is_admitted = self.admits(class, word);
        let (waiting, cargo) = (&mut self.waiting[class], &mut self.channels.of(word).cargo);
        if is_admitted {
            waiting.admit(Cell { at, word });
            reload(cargo, &mut self.attached[class].cargo, word);
        } else {
            waiting.refuse();
            unload(cargo, word, Why::Queue);
        }
    }

    /// Returns `true` if a congestion signal is due to this channel's source.
    ///
    /// Then none is due again for a while.
    pub(super) fn needs_signal(&mut self, moment: Moment, channel: u16) -> bool {
        self.advance(moment);
        let (at, _) = moment;
        let queue = self.look_up_to(ABR, self.come_before(moment));
        let channel = &mut self.channels.all[usize::from(channel)];
        let is_due = queue >= self.becn && at >= channel.quiet_until;
        if is_due {
            channel.quiet_until = at + BECN_GAP;
        }
        is_due
    }

    /// Returns the number of ABR cells that arrive before `until`.
    fn come_before(&self, until: Moment) -> usize {
        self.waiting[ABR].up_to(|cell| (cell.at, self.channels.input(cell.word)) < until)
    }

    /// Sends a backward RM cell of the switch, if there is room. TM 4.0, section 5.10.6.
    #[cold]
    pub(super) fn send_signal(&mut self, moment: Moment, vc: Vc) {
        self.advance(moment);
        self.look_at_each(ABR, self.come_before(moment));
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: true,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        let word = Word::rm(vc, false, &repr);
        if self.waiting[ABR].has_room() {
            self.waiting[ABR].insert(Cell { at: moment.0, word });
            self.rm_made += 1;
        }
    }

    /// Returns `true` if a cell is admitted, and counts it if not.
    ///
    /// RM and OAM cells belong to no PDU, so that room alone decides.
    #[inline(never)]
    fn admits(&mut self, class: usize, word: Word) -> bool {
        let (waiting, frames) = (&mut self.waiting[class], &mut self.channels.of(word).frames);
        let (epd, ppd) = (self.epd[class], self.ppd[class]);
        if matches!(word.kind(), Kind::Rm | Kind::Oam) || !frames.is_known {
            frames.is_known |= word.is_last();
            return waiting.has_room();
        }
        let queue = waiting.len();
        if frames.starting {
            (frames.refused, frames.broken) = (queue >= epd, false);
        }
        frames.starting = word.is_last();
        if frames.refused {
            self.dropped_epd += 1;
        } else if frames.broken && ppd && !word.is_last() {
            self.dropped_ppd += 1;
        } else {
            let has_room = waiting.has_room();
            frames.broken |= !has_room;
            return has_room;
        }
        false
    }

    /// Returns `true` if backward RM cells get feedback here.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.erica.is_some()
    }

    /// Returns a backward RM cell with the feedback of the port its data leave by.
    #[inline(never)]
    pub(super) fn feedback(&mut self, moment: Moment, channel: u16, word: Word) -> Word {
        self.measure(moment);
        let Some(erica) = &mut self.erica else { return word };
        let given = rm::Rate::from_cells_per_second(erica.feedback(channel.into()));
        let repr = word.rm_repr();
        Word::rm(word.vc(), word.clp(), &rm::Repr { explicit: repr.explicit.min(given), ..repr })
    }

    /// Returns the earliest arrival at the line's far end, if nothing is due now.
    pub(super) fn deadline(&self, now: Time, next_arrival: Time) -> Time {
        if !self.line.is_empty() {
            return self.line.due();
        }
        let is_over = self.waiting.iter().all(Waiting::is_over);
        let start = if is_over { next_arrival } else { self.line.free_at() };
        if start.is_never() { start } else { start.max(now) + self.line.shortest() }
    }

    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.path);
        self.line.observe_sent(observer);
        self.line.observe_use(now, observer);
        for (category, waiting) in self.waiting.iter().enumerate() {
            waiting.observe(category, observer);
            observer.counter(&metrics::CATEGORY_CELLS[category], waiting.arrived);
            observer.counter(&metrics::CATEGORY_DROPPED[category], waiting.dropped_full);
        }
        observer.counter(&metrics::DROPPED_EPD, self.dropped_epd);
        observer.counter(&metrics::DROPPED_PPD, self.dropped_ppd);
        observer.counter(&metrics::RM_MADE, self.rm_made);
        if let Some(erica) = &self.erica {
            let [load, fair_share, capacity, active] = erica.state();
            let bits = CELL_BITS as f64;
            observer.gauge(&metrics::ABR_LOAD, if load.is_finite() { load } else { f64::NAN });
            observer.gauge(&metrics::ABR_FAIR_SHARE, fair_share * bits);
            observer.gauge(&metrics::ABR_CAPACITY, capacity * bits);
            observer.gauge(&metrics::ABR_ACTIVE, active);
        }
    }
}
