//! An output port of a switch: a queue for each service category, and the line behind them.
//!
//! Outputs have to do with one another only where one is asked what a backward RM cell may say. So cells that come are put down
//! first, and an output works through what has come to it when somebody wants to know, or its train goes: many cells in one
//! loop, each as of its own instant.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};
use bentpipe_wire::atm::rm;

use super::Config;
use super::arrival::{Arrival, Moment};
use crate::atm::cell::{Vc, Word, reload, unload};
use crate::atm::erica::Erica;
use crate::atm::line::{self, CELL_BITS, Line, cells_per_second};
use crate::atm::service::Class;
use crate::atm::sort::Sorter;
use crate::{Impossible, Observer, Packet, Unit};

/// Between backward RM cells that a switch makes for a channel (TM 4.0: at most ten a second).
const BECN_GAP: Span = Span::from_millis(100);

/// As many cells are put down at an output as a processor has at hand.
const MANY: usize = 512;

/// Room for cells in a row.
const ROOM: usize = 128;

/// A channel whose cells leave here.
#[derive(Debug, Default)]
struct Channel {
    frames: Frames,
    /// What travels with its cells that have come and are not looked at yet.
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

/// Cells in a row, behind those that have gone: a ring would have to look at each step where it ends.
#[derive(Debug, Default)]
struct Row {
    words: Vec<Word>,
    gone: usize,
}

impl Row {
    #[inline]
    fn len(&self) -> usize {
        self.words.len() - self.gone
    }

    #[inline]
    fn push(&mut self, word: Word) {
        if self.words.len() == self.words.capacity() {
            self.tidy();
        }
        self.words.push(word);
    }

    /// Makes room where those were that have gone, if that is at least as much as is moved.
    #[cold]
    fn tidy(&mut self) {
        if self.gone > self.len() {
            self.words.drain(..std::mem::take(&mut self.gone));
        }
        self.words.reserve(ROOM);
    }

    #[inline]
    fn pop(&mut self) -> Option<Word> {
        let word = self.words.get(self.gone).copied();
        self.gone += usize::from(word.is_some());
        word
    }
}

/// Cells of a category that wait.
#[derive(Debug)]
struct Waiting {
    cells: Row,
    /// Whether each cell may wait, and none is marked.
    is_plain: bool,
    /// Whether a cell that finds nothing in its way goes on as it is.
    passes: bool,
    cargo: VecDeque<Packet>,
    limit: usize,
    most: usize,
    arrived: u64,
    dropped_full: u64,
}

impl Waiting {
    fn new(limit: Option<u32>, marks: Option<u32>) -> Waiting {
        Waiting {
            cells: Row::default(),
            is_plain: limit.is_none() && marks.is_none(),
            passes: limit != Some(0) && marks != Some(0),
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

    /// Notes that a cell came, and how many waited then.
    #[inline(always)]
    fn note(&mut self, count: usize) {
        self.arrived += 1;
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
    /// What has come, up to where it was looked at, and up to where it is in order. Behind that all is later.
    arrivals: Vec<Arrival>,
    next: usize,
    sorted: usize,
    sorter: Sorter<Arrival>,
    /// What cells that have asked and are not looked at yet were told.
    answers: VecDeque<Word>,
    channels: Vec<Channel>,
    waiting: [Waiting; 4],
    /// A bit for each category that has cells waiting.
    busy: u8,
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
        let is_any_let_in = limits.ubr.is_none() && config.epd.is_none();
        let threshold = |cells: Option<u32>| cells.map_or(usize::MAX, |cells| cells as usize);
        Ok(Output {
            path,
            line: Line::new(line)?,
            arrivals: Vec::new(),
            next: 0,
            sorted: 0,
            sorter: Sorter::default(),
            answers: VecDeque::new(),
            channels: Vec::new(),
            waiting: [
                Waiting::new(limits.cbr, None),
                Waiting::new(limits.vbr, None),
                Waiting::new(limits.abr, config.efci),
                // Where some PDUs may not be let in, each cell is looked at.
                Waiting { passes: is_any_let_in, ..Waiting::new(limits.ubr, config.epd) },
            ],
            busy: 0,
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

    /// Puts down a cell that nothing travels with; cells of one input come one after the other.
    #[inline]
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// Puts down a cell; what travels with it is next in `cargo`.
    pub(super) fn arrive_with(&mut self, arrival: Arrival, cargo: &mut VecDeque<Packet>) {
        self.arrivals.push(arrival);
        reload(cargo, &mut self.channels[usize::from(arrival.origin.channel())].cargo, arrival.word);
    }

    /// Takes what the next of the cells that have asked says from here on.
    pub(super) fn answer(&mut self, word: Word) {
        self.answers.push_back(word);
    }

    /// Whether what has come has to be worked through: to know what goes out by `until`, or because it is much. Otherwise it can
    /// wait for more, as a train is under way, and nothing that comes can go out before that.
    pub(super) fn is_due(&self, until: Time) -> bool {
        self.line.is_empty() || self.line.due() <= until || self.arrivals.len() >= MANY
    }

    /// Does all that is due before `until`, where all that comes before then has been put down.
    pub(super) fn advance(&mut self, until: Moment) {
        if !self.arrivals.is_empty() {
            self.take_before(until);
        }
        self.settle(until.0);
    }

    fn take_before(&mut self, until: Moment) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.sorter.sort(&mut arrivals[self.sorted..]);
        self.sorted = arrivals.len();
        let due = arrivals[self.next..].partition_point(|arrival| arrival.moment() < until);
        let mut rest = &arrivals[self.next..self.next + due];
        while let Some(first) = rest.first() {
            self.settle(first.at);
            let (count, fills) = self.count(rest);
            let (row, behind) = rest.split_at(count);
            self.work_through(row, behind.first().map_or(until.0, |next| next.at), fills);
            if let Some(last) = row.last().filter(|_| fills) {
                // The interval ends with the cell that fills it, which is in the queue by then.
                self.end_interval(last.at);
            }
            rest = behind;
        }
        self.next += due;
        if self.next == arrivals.len() {
            arrivals.clear();
            (self.next, self.sorted) = (0, 0);
        }
        self.arrivals = arrivals;
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
        while self.busy != 0 && self.line.free_at < until {
            let first = self.busy.trailing_zeros() as usize & 3;
            let waiting = &mut self.waiting[first];
            let Some(word) = waiting.cells.pop() else { return };
            self.busy ^= u8::from(waiting.cells.len() == 0) << first;
            self.line.transmit(word, self.line.free_at);
            if !word.is_middle() {
                self.line.load(&mut waiting.cargo, word);
            }
        }
    }

    /// How many of these cells come in ERICA's present interval, and whether the last of those fills it; ERICA has counted them and
    /// read their rates.
    fn count(&mut self, arrivals: &[Arrival]) -> (usize, bool) {
        let Some(erica) = &mut self.erica else { return (arrivals.len(), false) };
        for (n, &Arrival { at, word, origin }) in arrivals.iter().enumerate() {
            if at > self.interval_ends {
                return (n, false);
            }
            if origin.class() == Class::Abr as usize {
                erica.on_abr(origin.channel().into(), 1);
                if word.is_forward_rm() {
                    erica.on_rate(origin.channel().into(), word.current().cells_per_second());
                }
                if erica.room() == 0 {
                    return (n + 1, true);
                }
            } else {
                erica.on_other(u32::from(origin.class() < Class::Abr as usize));
            }
        }
        (arrivals.len(), false)
    }

    /// Takes cells of one interval, behind which something comes at `following`. Nobody sees cells wait that find nothing in their
    /// way, unless the last one fills the interval.
    fn work_through(&mut self, row: &[Arrival], following: Time, fills: bool) {
        let mut done = 0;
        while let Some(arrival) = row.get(done) {
            self.serve(arrival.at);
            if self.busy == 0 {
                let passed = self.pass(&row[done..], following, fills);
                done += passed;
                if passed > 0 {
                    continue;
                }
            }
            self.take(arrival);
            done += 1;
        }
    }

    /// Sends cells of a channel on that find nothing in their way, where nothing waits: the line is free when each of them comes,
    /// and nothing comes or ends beside it. Gives how many.
    fn pass(&mut self, row: &[Arrival], following: Time, fills: bool) -> usize {
        let Some(&Arrival { origin, .. }) = row.first() else { return 0 };
        let waiting = &mut self.waiting[origin.class()];
        if !waiting.passes || origin.asks() {
            return 0;
        }
        let (line, cargo) = (&mut self.line, &mut self.channels[usize::from(origin.channel())].cargo);
        let mut pass = |arrival: &Arrival, following: Time| {
            let &Arrival { at, word, .. } = arrival;
            let passes = arrival.origin == origin && line.free_at <= at && at < following;
            if passes {
                line.transmit(word, at);
                if !word.is_middle() {
                    line.load(cargo, word);
                }
            }
            passes
        };
        let followed = row.windows(2).position(|pair| !pass(&pair[0], pair[1].at));
        let mut count = followed.unwrap_or(row.len() - 1);
        if followed.is_none() && !fills {
            count += usize::from(pass(&row[count], following.min(self.interval_ends)));
        }
        waiting.arrived += count as u64;
        waiting.most = waiting.most.max(count.min(1));
        count
    }

    /// Takes a cell that may have to wait.
    #[inline(always)]
    fn take(&mut self, arrival: &Arrival) {
        let Arrival { at, word, origin } = *arrival;
        let class = origin.class();
        if word.is_middle() && self.waiting[class].is_plain {
            self.enqueue(at, word, class);
        } else {
            self.consider(arrival);
        }
    }

    /// Takes a cell that has asked, that packets travel with, or that is marked or dropped where too many wait.
    fn consider(&mut self, arrival: &Arrival) {
        let Arrival { at, mut word, origin } = *arrival;
        let (channel, class) = (origin.channel(), origin.class());
        if origin.asks() {
            word = self.answers.pop_front().unwrap_or(word);
        }
        if class == Class::Abr as usize && self.waiting[class].cells.len() >= self.efci {
            word = word.congested();
        }
        let waiting = &mut self.waiting[class];
        let is_let_in =
            if class == Class::Ubr as usize { self.admits(word, channel) } else { waiting.has_room() };
        if is_let_in {
            self.enqueue(at, word, class);
        }
        if !word.is_middle() {
            let cargo = &mut self.channels[usize::from(channel)].cargo;
            match is_let_in {
                true => reload(cargo, &mut self.waiting[class].cargo, word),
                false => unload(cargo, word),
            }
        }
    }

    #[inline(always)]
    fn enqueue(&mut self, at: Time, word: Word, class: usize) {
        if self.busy == 0 {
            self.line.free_at = self.line.free_at.max(at);
        }
        let waiting = &mut self.waiting[class];
        waiting.cells.push(word);
        waiting.note(waiting.cells.len());
        self.busy |= 1 << class;
    }

    /// Whether a source of this channel is to be told that too many ABR cells wait; not again for a while then.
    pub(super) fn is_to_be_told(&mut self, moment: Moment, channel: u16) -> bool {
        self.advance(moment);
        let (at, _) = moment;
        let channel = &mut self.channels[usize::from(channel)];
        let is_due = self.waiting[Class::Abr as usize].cells.len() >= self.becn && at >= channel.quiet_until;
        if is_due {
            channel.quiet_until = at + BECN_GAP;
        }
        is_due
    }

    /// Sends a backward RM cell of the switch's own on a channel, if there is room (TM 4.0, section 5.10.6).
    #[cold]
    pub(super) fn tell(&mut self, moment: Moment, vc: Vc) {
        self.advance(moment);
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: true,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        let word = Word::rm(vc, false, &repr);
        if self.waiting[Class::Abr as usize].has_room() {
            self.enqueue(moment.0, word, Class::Abr as usize);
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

    /// Whether there is something that a backward RM cell has to ask.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.erica.is_some()
    }

    /// What a backward RM cell says after it passed this port, the one that its channel's data leave by.
    #[inline(never)]
    pub(super) fn feedback(&mut self, moment: Moment, channel: u16, word: Word) -> Word {
        self.advance(moment);
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
        let start = if self.busy != 0 { self.line.free_at } else { next_arrival };
        if start.is_never() { start } else { start.max(now) + self.line.shortest() }
    }

    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.part(&self.path);
        self.line.observe_sent(observer);
        self.line.observe_use(now, observer);
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
