//! An output port of a switch: the cells of each service category, and the line behind them.
//!
//! Outputs have to do with one another only where one is asked what a backward RM cell may say. So cells that come are put down
//! first, each with its category, and an output works through what has come to it when its train goes: at each instant when the
//! line may take a cell the first category that has one by then gives it. ERICA counts cells before that, up to where somebody
//! wants to know.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};
use bentpipe_wire::atm::rm;

use super::waiting::Waiting;
use super::{Config, Moment};
use crate::atm::cell::{Cell, Vc, Word, reload, unload};
use crate::atm::erica::Erica;
use crate::atm::line::{self, CELL_BITS, Line, cells_per_second};
use crate::atm::service::Class;
use crate::atm::sort::Sorter;
use crate::{Impossible, Observer, Packet, Unit};

/// Between backward RM cells that a switch makes for a channel (TM 4.0: at most ten a second).
const BECN_GAP: Span = Span::from_millis(100);

/// As many cells are put down at an output as a processor has at hand.
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
    /// For each VCI here its channel's number.
    numbers: Box<[u16; Vc::COUNT]>,
}

impl Channels {
    /// The number of the channel that a cell leaves on.
    #[inline]
    fn number(&self, word: Word) -> usize {
        usize::from(self.numbers[word.vc().index()])
    }

    /// The port that a cell came in by.
    fn input(&self, word: Word) -> u16 {
        self.all[self.number(word)].input
    }

    /// The channel that a cell leaves on.
    #[inline]
    fn of(&mut self, word: Word) -> &mut Channel {
        let number = self.number(word);
        &mut self.all[number]
    }
}

/// A channel whose cells leave here.
#[derive(Debug)]
struct Channel {
    /// The port that its cells come in by.
    input: u16,
    frames: Frames,
    /// What travels with its cells that were put down.
    cargo: VecDeque<Packet>,
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

/// What goes with the cells of a category.
#[derive(Debug, Default)]
struct Beside {
    /// What those told are to say that have asked and were not looked at.
    answers: VecDeque<Word>,
    /// What travels with those that were looked at and let in.
    cargo: VecDeque<Packet>,
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
    channels: Channels,
    /// Of each category.
    waiting: [Waiting; 4],
    beside: [Beside; 4],
    sorter: Sorter,
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
        // Where PDUs may be dropped each cell is looked at, as each says where one begins.
        let frames = limits.ubr.or(config.epd).map(|_| 0);
        let waiting = [
            Waiting::new(limits.cbr, None),
            Waiting::new(limits.vbr, None),
            Waiting::new(limits.abr, config.efci),
            Waiting::new(limits.ubr, frames),
        ];
        Ok(Output {
            path,
            line: Line::new(line)?,
            channels: Channels { all: Vec::new(), numbers: Box::new([0; Vc::COUNT]) },
            waiting,
            beside: Default::default(),
            sorter: Sorter::default(),
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

    /// Adds a channel whose cells come in by `input` and leave here on `vc`; gives its number.
    pub(super) fn add_channel(&mut self, vc: Vc, class: Class, input: u16) -> u16 {
        if let Some(erica) = &mut self.erica {
            erica.add();
        }
        let number = self.channels.all.len() as u16;
        let (frames, cargo, quiet_until) = Default::default();
        self.channels.all.push(Channel { input, frames, cargo, quiet_until });
        self.waiting[class as usize].add_input(input);
        self.channels.numbers[vc.index()] = number;
        number
    }

    /// Where cells of a category are put down; those of one input come one after the other.
    #[inline]
    pub(super) fn of_class(&mut self, class: Class) -> &mut Waiting {
        &mut self.waiting[class as usize]
    }

    /// Takes what travels with a cell that was put down, which is next in `cargo`.
    #[inline(never)]
    pub(super) fn load(&mut self, channel: u16, word: Word, cargo: &mut VecDeque<Packet>) {
        reload(cargo, &mut self.channels.all[usize::from(channel)].cargo, word);
    }

    /// Takes what the next cell of a category that has asked says from here on.
    pub(super) fn answer(&mut self, class: Class, word: Word) {
        self.beside[class as usize].answers.push_back(word);
    }

    /// Whether what has come has to be worked through: to know what goes out by `until`, or because it is much. Otherwise it can
    /// wait for more, as a train is under way, and nothing that comes can go out before that.
    pub(super) fn is_due(&self, until: Time) -> bool {
        let is_much = || self.waiting.iter().map(Waiting::unsorted).sum::<usize>() >= MANY;
        self.line.is_empty() || self.line.due() <= until || is_much()
    }

    /// Does all that is due before `now`, where all that was put down comes before then.
    pub(super) fn advance_all(&mut self, now: Time) {
        self.advance((now, 0));
        for class in 0..4 {
            self.look_up_to(class, self.waiting[class].end());
        }
    }

    /// Does all that is due before `until`, where all that comes before then has been put down.
    fn advance(&mut self, until: Moment) {
        self.measure(until);
        self.serve(until.0);
    }

    /// Lets ERICA count all that comes before `until`, and ends its intervals that end before.
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

    /// Lets ERICA count what comes before `until` in its present interval, and read rates; gives when that ends, if it ends
    /// before `until` or with the last of the cells.
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

    /// Looks at cells of a category that have come, as `has_come` tells of each, if one of them has to be looked at. Gives how many
    /// wait then.
    fn look(&mut self, class: usize, has_come: impl Fn(&Cell) -> bool) -> usize {
        let come = self.waiting[class].up_to(has_come);
        self.look_up_to(class, come)
    }

    /// Looks at cells of a category up to where they have come, if one of them has to be looked at. Gives how many wait then.
    fn look_up_to(&mut self, class: usize, come: usize) -> usize {
        if self.waiting[class].is_crowded(come) {
            self.look_at_each(class, come);
        }
        self.waiting[class].len_at(come)
    }

    /// Looks at each cell of a category up to where they have come.
    fn look_at_each(&mut self, class: usize, come: usize) {
        while let Some(cell) = self.waiting[class].look(come) {
            self.consider(class, cell);
        }
    }

    /// Lets a cell in that comes, answered or marked, or drops it where too many wait.
    fn consider(&mut self, class: usize, Cell { at, mut word }: Cell) {
        if self.is_asked() && word.is_backward_rm() {
            word = self.beside[class].answers.pop_front().unwrap_or(word);
        }
        let waiting = &mut self.waiting[class];
        if class == ABR && waiting.len() >= self.efci {
            word = word.congested();
        }
        let is_let_in = if class == UBR { self.admits(word) } else { waiting.has_room() };
        let (waiting, cargo) = (&mut self.waiting[class], &mut self.channels.of(word).cargo);
        if is_let_in {
            waiting.let_in(Cell { at, word });
            reload(cargo, &mut self.beside[class].cargo, word);
        } else {
            waiting.refuse();
            unload(cargo, word);
        }
    }

    /// Whether a source of this channel is to be told that too many ABR cells wait; not again for a while then.
    pub(super) fn is_to_be_told(&mut self, moment: Moment, channel: u16) -> bool {
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

    /// Up to where cells of ABR come before `until`.
    fn come_before(&self, until: Moment) -> usize {
        self.waiting[ABR].up_to(|cell| (cell.at, self.channels.input(cell.word)) < until)
    }

    /// Sends a backward RM cell of the switch's own on a channel, if there is room (TM 4.0, section 5.10.6).
    #[cold]
    pub(super) fn tell(&mut self, moment: Moment, vc: Vc) {
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

    /// Whether a cell of UBR is let in; counts it if not.
    #[inline(never)]
    fn admits(&mut self, word: Word) -> bool {
        let (waiting, frames) = (&mut self.waiting[UBR], &mut self.channels.of(word).frames);
        let queue = waiting.len();
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

    /// Whether there is something that a backward RM cell has to ask.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.erica.is_some()
    }

    /// What a backward RM cell says after it passed this port, the one that its channel's data leave by.
    #[inline(never)]
    pub(super) fn feedback(&mut self, moment: Moment, channel: u16, word: Word) -> Word {
        self.measure(moment);
        let Some(erica) = &mut self.erica else { return word };
        let given = rm::Rate::from_cells_per_second(erica.feedback(channel.into()));
        let repr = word.rm_repr();
        Word::rm(word.vc(), word.clp(), &rm::Repr { explicit: repr.explicit.min(given), ..repr })
    }

    /// When a cell comes to the other end of the line at the earliest, where nothing is due now.
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
        for (waiting, [queue, most, cells, dropped]) in self.waiting.iter().zip(NAMES) {
            observer.gauge(queue, Unit::Cells, waiting.len_at(waiting.end()) as f64);
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
