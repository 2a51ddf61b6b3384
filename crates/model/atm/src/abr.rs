//! ABR end systems (ATM Forum Traffic Management 4.0): source rates and destination feedback.
//!
//! Modelled: the source's rules 1 to 13 (section 5.10.4) and the destination's 1 to 6 (5.10.5); a destination
//! is congested if its [receive buffer](super::receive) is. Not modelled: a rate shared by several virtual
//! channels of a virtual path.

use std::collections::VecDeque;

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::atm::rm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{Vc, Word};
use super::line::cells_per_second;

/// Parameters of an ABR connection, for each direction. Rates are of cells with their headers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Peak cell rate. Default: the rate of the line.
    pub pcr: Option<Rate>,
    /// Minimum cell rate, below which the allowed rate never falls. Default: "0 bit/s".
    pub mcr: Rate,
    /// Initial cell rate, and the most after a pause of `adtf`. Default: the peak rate, or less if `frtt` is given.
    pub icr: Option<Rate>,
    /// Rate increase factor: maximum increase per backward RM cell. A share of the peak rate, up to 1.
    /// Default: 1/16.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rif: f64,
    /// Rate decrease factor: decrease per backward RM cell with CI. A share, up to 1. Default: 1/16.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rdf: f64,
    /// Number of in-rate cells per forward RM cell, itself included, 2 to 256. Default: 32.
    pub nrm: u32,
    /// Minimum number of in-rate cells between forward RM cells. Default: 2.
    pub mrm: u32,
    /// Maximum time between forward RM cells, even after fewer than `nrm` cells. Default: "100 ms".
    pub trm: Span,
    /// Transient buffer exposure: cells that may go out before feedback comes, 1 to 16777215. Default: 16777215.
    pub tbe: u32,
    /// Forward RM cells without a backward one after which the rate is cut. Default: `tbe` / `nrm`, rounded up.
    pub crm: Option<u32>,
    /// Cutoff decrease factor: decrease per forward RM cell beyond `crm`. A share; 0 for none. Default: 1/16.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub cdf: f64,
    /// Time without a forward RM cell after which the rate falls to `icr`. Default: "500 ms".
    pub adtf: Span,
    /// The most out-of-rate forward RM cells a second. Default: 10.
    #[schemars(range(max = 1_000_000.0))]
    pub tcr: f64,
    /// Fixed round-trip time, for the initial rate: at most `tbe` cells go out in it. Default: not used.
    pub frtt: Option<Span>,
    /// Enables the use-it-or-lose-it policy (rule 13): an unused rate is given up.
    ///
    /// The rate falls to the one used since the last forward RM cell plus `icr`. Default: false.
    pub use_it_or_lose_it: bool,
    /// Weight of the share above `mcr` at switches with "mcr-plus-weighted-share". Default: 1.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub weight: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            pcr: None,
            mcr: Rate::from_bps(0),
            icr: None,
            rif: 1.0 / 16.0,
            rdf: 1.0 / 16.0,
            nrm: 32,
            mrm: 2,
            trm: Span::from_millis(100),
            tbe: 16_777_215,
            crm: None,
            cdf: 1.0 / 16.0,
            adtf: Span::from_millis(500),
            tcr: 10.0,
            frtt: None,
            use_it_or_lose_it: false,
            weight: 1.0,
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), InvalidConfig> {
        let share = |value: f64| value > 0.0 && value <= 1.0;
        InvalidConfig::ensure(share(self.rif), "rif", "above 0 and at most 1")?;
        InvalidConfig::ensure(share(self.rdf), "rdf", "above 0 and at most 1")?;
        InvalidConfig::ensure((0.0..=1.0).contains(&self.cdf), "cdf", "from 0 to 1")?;
        InvalidConfig::ensure((2..=256).contains(&self.nrm), "nrm", "from 2 to 256")?;
        InvalidConfig::ensure((1..self.nrm).contains(&self.mrm), "mrm", "from 1 to below nrm")?;
        InvalidConfig::ensure((1..1 << 24).contains(&self.tbe), "tbe", "from 1 to 16777215")?;
        InvalidConfig::ensure(self.crm.is_none_or(|crm| crm > 0), "crm", "at least 1")?;
        InvalidConfig::ensure(!self.trm.is_zero(), "trm", "more than no time")?;
        let weighs = self.weight > 0.0 && self.weight <= 1e6;
        InvalidConfig::ensure(weighs, "weight", "above 0 and at most 1000000")?;
        InvalidConfig::ensure(self.tcr > 0.0 && self.tcr <= 1e6, "tcr", "above 0 and at most 1000000")
    }
}

/// Cells per second as the space between cells: whole nanoseconds and a 32-bit fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    nanos: u64,
    fraction: u32,
}

impl Gap {
    /// Between cells that never come.
    const NEVER: u64 = u64::MAX / 4;

    pub(crate) fn of(cells_per_second: f64) -> Gap {
        let nanos = 1e9 / cells_per_second;
        if nanos >= Gap::NEVER as f64 {
            return Gap { nanos: Gap::NEVER, fraction: 0 };
        }
        // Signed, as processors convert those in one step.
        let whole = nanos as i64;
        Gap { nanos: whole as u64, fraction: ((nanos - whole as f64) * 4_294_967_296.0) as u32 }
    }

    /// Returns the instant one gap after `from`, whose fraction of a nanosecond is `carried`.
    #[inline]
    pub(crate) fn after(self, from: Time, carried: &mut u32) -> Time {
        let (fraction, carry) = carried.overflowing_add(self.fraction);
        *carried = fraction;
        Time::from_nanos(from.as_nanos().saturating_add(self.nanos + u64::from(carry)))
    }

    /// Returns the instant one gap before another: the inverse of [`Gap::after`].
    #[inline]
    fn before(self, (instant, carried): (Time, u32)) -> (Time, u32) {
        let (fraction, is_borrowed) = carried.overflowing_sub(self.fraction);
        (Time::from_nanos(instant.as_nanos().wrapping_sub(self.nanos + u64::from(is_borrowed))), fraction)
    }
}

/// Cells of data that an end system sends one after the other.
pub(crate) struct Row {
    gap: Gap,
    /// Earliest time of the next cell, and the fraction of a nanosecond after it.
    next: (Time, u32),
    sent: u32,
    /// Maximum number of cells.
    count: u32,
    /// Time of the rival. Each cell is due, and its transmission starts, before it.
    rival: Time,
    until: Time,
}

impl Row {
    /// Returns the number of cells left.
    #[inline]
    pub(crate) fn left(&self) -> u32 {
        self.count - self.sent
    }

    /// Passes a cell and returns its start. The line is free at `free_at`; returns `None` after the deadline.
    #[inline]
    pub(crate) fn pass(&mut self, free_at: Time) -> Option<Time> {
        let (due, fraction) = self.next;
        let start = due.max(free_at);
        if due >= self.rival || start >= self.until {
            return None;
        }
        let mut carried = if due == start { fraction } else { 0 };
        self.next = (self.gap.after(start, &mut carried), carried);
        Some(start)
    }

    /// Counts cells that went.
    #[inline]
    pub(crate) fn count(&mut self, cells: u32) {
        self.sent += cells;
    }
}

/// Kind of the next cell of an end system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextCell {
    /// An RM cell.
    Rm(Word),
    /// The next cell of data.
    Data,
}

/// Congestion signal of a destination to its source (destination rules 2 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CongestionSignal {
    /// Request to slow down: CI.
    Congestion,
    /// Explicit rate: ER.
    Rate(rm::Rate),
}

/// Minimum interval of backward RM cells of a destination. Rule 5: at most ten per second.
const OWN_GAP: Span = Span::from_millis(100);

/// ABR end system of a channel: source of the outgoing, destination of the incoming cells.
#[derive(Debug)]
pub(crate) struct EndSystem {
    vc: Vc,
    pcr: f64,
    mcr: f64,
    icr: f64,
    rif: f64,
    rdf: f64,
    nrm: u32,
    mrm: u32,
    trm: Span,
    crm: u32,
    cdf: f64,
    adtf: Span,
    use_it_or_lose_it: bool,
    /// Between out-of-rate cells.
    tcr_gap: Span,
    /// The allowed cell rate, cells per second.
    acr: f64,
    gap: Gap,
    /// Time of the last in-rate cell, with the fraction of a nanosecond after it.
    last_sent: Option<(Time, u32)>,
    /// Earliest time of the next in-rate cell.
    next_in_rate: (Time, u32),
    last_out_of_rate: Time,
    /// Set if the previous out-of-rate cell was a backward one.
    turned_out_of_rate: bool,
    /// Number of in-rate cells since the last forward RM cell. Starts so that the first cell is an RM cell.
    since_frm: u32,
    last_frm: Time,
    /// Forward RM cells since a backward one came.
    unanswered: u32,
    /// Set if a backward RM cell was sent since the last forward one.
    turned: bool,
    /// RM cell to send back: a turned-round forward one, or one of the destination.
    waiting: Option<rm::Repr>,
    /// Set if the last data cell from the other side had EFCI set.
    congested: bool,
    /// Arrival times of announced data cells that change `congested`, and its new values.
    ///
    /// Also holds the value after the last announced cell.
    marks: VecDeque<(Time, bool)>,
    marked: bool,
    /// Congestion signal of the destination itself, if it is congested.
    signal: Option<CongestionSignal>,
    /// Earliest time of the destination's next own RM cell.
    quiet_until: Time,
    pub(crate) counts: Counts,
}

/// RM cells that an end system sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) forward_sent: u64,
    pub(crate) backward_sent: u64,
    pub(crate) out_of_rate_sent: u64,
    pub(crate) backward_received: u64,
    pub(crate) overwritten: u64,
    /// Number of backward RM cells generated by the destination.
    pub(crate) destination_sent: u64,
}

impl EndSystem {
    /// Creates an end system on a line with a cell rate of `line`.
    pub(crate) fn new(config: &Config, vc: Vc, line: Rate) -> Result<EndSystem, InvalidConfig> {
        config.check()?;
        let pcr = cells_per_second(config.pcr.unwrap_or(line).min(line));
        let mcr = cells_per_second(config.mcr);
        InvalidConfig::ensure(pcr > 0.0, "pcr", "more than zero")?;
        InvalidConfig::ensure(mcr <= pcr, "mcr", "at most the peak rate")?;
        let asked = config.icr.map_or(pcr, cells_per_second);
        InvalidConfig::ensure(
            asked >= mcr && asked <= pcr && asked > 0.0,
            "icr",
            "from mcr to pcr, and above zero",
        )?;
        // A TBE that allows few cells per round trip does not lower the initial rate below the minimum.
        let exposed = config.frtt.map_or(f64::INFINITY, |frtt| f64::from(config.tbe) / frtt.as_secs_f64());
        let icr = asked.min(exposed).max(mcr);
        Ok(EndSystem {
            vc,
            pcr,
            mcr,
            icr,
            rif: config.rif,
            rdf: config.rdf,
            nrm: config.nrm,
            mrm: config.mrm,
            trm: config.trm,
            crm: config.crm.unwrap_or(config.tbe.div_ceil(config.nrm)),
            cdf: config.cdf,
            adtf: config.adtf,
            use_it_or_lose_it: config.use_it_or_lose_it,
            tcr_gap: Span::from_secs_f64(1.0 / config.tcr),
            acr: icr,
            gap: Gap::of(icr),
            last_sent: None,
            next_in_rate: (Time::ZERO, 0),
            last_out_of_rate: Time::ZERO,
            turned_out_of_rate: false,
            since_frm: config.nrm,
            last_frm: Time::ZERO,
            unanswered: 0,
            turned: false,
            waiting: None,
            congested: false,
            marks: VecDeque::new(),
            marked: false,
            signal: None,
            quiet_until: Time::ZERO,
            counts: Counts::default(),
        })
    }

    /// Returns the allowed cell rate in cells per second.
    pub(crate) fn acr(&self) -> f64 {
        self.acr
    }

    /// Returns `true` if an RM cell is to be sent, with or without data.
    pub(crate) fn has_turn(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns the earliest time of the next cell, if there is one. Rule 1: in-rate cells are at least 1/ACR
    /// apart.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        let (in_rate, _) = self.next_in_rate;
        if self.gap.nanos < self.tcr_gap.as_nanos() { in_rate } else { in_rate.min(self.next_out_of_rate()) }
    }

    /// Returns the earliest time of an out-of-rate cell, if in-rate cells are rarer (rule 11).
    fn next_out_of_rate(&self) -> Time {
        self.last_sent.map_or(Time::NEVER, |(last, _)| last.max(self.last_out_of_rate) + self.tcr_gap)
    }

    /// Returns the kind of cell to send at `now` (rule 3).
    ///
    /// [`EndSystem::next`] must have passed, with data or an RM cell to send.
    #[inline]
    pub(crate) fn choose(&mut self, now: Time, has_data: bool) -> NextCell {
        let (in_rate, fraction) = self.next_in_rate;
        if in_rate > now {
            return NextCell::Rm(self.out_of_rate(now));
        }
        let choice = self.choose_in_rate(now, has_data);
        self.note_sent(now, (in_rate, fraction));
        choice
    }

    /// Records that an in-rate cell is sent at `now`, which was allowed from `due` on.
    #[inline]
    fn note_sent(&mut self, now: Time, due: (Time, u32)) {
        self.last_sent = Some((now, if due.0 == now { due.1 } else { 0 }));
        self.schedule_in_rate_cell();
    }

    /// Returns the back-to-back data cells that may be sent next, given enough data.
    ///
    /// The first is sent at `eligible`, and all are due before `rival` and sent before `until`.
    #[inline]
    pub(crate) fn row(&self, eligible: Time, rival: Time, until: Time) -> Row {
        let may_turn = self.waiting.is_some() && !self.turned;
        let is_none = may_turn || self.gap.nanos >= self.tcr_gap.as_nanos();
        let count = if is_none { 0 } else { (self.nrm - 1).saturating_sub(self.since_frm) };
        let (in_rate, fraction) = self.next_in_rate;
        let next = (eligible, if eligible == in_rate { fraction } else { 0 });
        // From there on a forward RM cell goes out before all data.
        let until = until.min(self.last_frm + self.trm);
        Row { gap: self.gap, next, sent: 0, count, rival, until }
    }

    /// Records the cells of a row and returns their number and the last start.
    #[inline]
    pub(crate) fn end_row(&mut self, row: &Row) -> (u32, Time) {
        let last = row.gap.before(row.next);
        if row.sent > 0 {
            self.since_frm += row.sent;
            (self.last_sent, self.next_in_rate) = (Some(last), row.next);
        }
        (row.sent, last.0)
    }

    /// Schedules the next in-rate cell.
    #[inline]
    fn schedule_in_rate_cell(&mut self) {
        if let Some((last, mut carried)) = self.last_sent {
            self.next_in_rate = (self.gap.after(last, &mut carried), carried);
        }
    }

    fn choose_in_rate(&mut self, now: Time, has_data: bool) -> NextCell {
        let is_late = self.since_frm >= self.mrm && now.since(self.last_frm) >= self.trm;
        if is_late || self.since_frm >= self.nrm - 1 {
            return NextCell::Rm(self.forward(now));
        }
        self.since_frm += 1;
        if (!self.turned || !has_data)
            && let Some(turn) = self.waiting.take()
        {
            self.turned = true;
            return NextCell::Rm(self.backward(turn, false, now));
        }
        NextCell::Data
    }

    /// Returns a forward RM cell (rules 5, 6, 7, 10, 13).
    fn forward(&mut self, now: Time) -> Word {
        let is_first = self.since_frm == self.nrm;
        if !is_first && self.acr > self.icr && now.since(self.last_frm) > self.adtf {
            self.set_acr(self.icr);
        }
        if self.use_it_or_lose_it && !is_first {
            let used = f64::from(self.since_frm + 1) / now.since(self.last_frm).as_secs_f64();
            // The standard leaves the policy to the source: with room for the initial rate, a source that
            // sends at half its rate keeps enough to recover.
            self.set_acr(self.acr.min(used + self.icr));
        }
        if self.unanswered >= self.crm {
            self.set_acr(self.acr - self.acr * self.cdf);
        }
        self.unanswered += 1;
        self.since_frm = 0;
        self.last_frm = now;
        self.turned = false;
        self.counts.forward_sent += 1;
        Word::rm(self.vc, false, &self.repr())
    }

    /// Returns an out-of-rate RM cell: a forward one, or in turn the waiting backward one.
    ///
    /// With a rate of zero in both directions, neither source would receive any feedback without them
    /// (destination rules 3 and 6).
    fn out_of_rate(&mut self, now: Time) -> Word {
        self.last_out_of_rate = now;
        self.counts.out_of_rate_sent += 1;
        self.turned_out_of_rate = !self.turned_out_of_rate && self.waiting.is_some();
        match self.waiting.take_if(|_| self.turned_out_of_rate) {
            Some(turn) => self.backward(turn, true, now),
            None => Word::rm(self.vc, true, &self.repr()),
        }
    }

    /// Returns a backward RM cell with the present state (destination rule 2).
    ///
    /// One generated by the destination obeys rule 5.
    fn backward(&mut self, turn: rm::Repr, clp: bool, now: Time) -> Word {
        let mut repr = turn;
        if repr.not_by_source {
            self.quiet_until = now + OWN_GAP;
            self.counts.destination_sent += 1;
        } else {
            self.meet(now);
            repr.congestion |= std::mem::take(&mut self.congested);
        }
        match self.signal {
            Some(CongestionSignal::Congestion) => repr.congestion = true,
            Some(CongestionSignal::Rate(rate)) => repr.explicit = repr.explicit.min(rate),
            None => {}
        }
        self.counts.backward_sent += 1;
        Word::rm(self.vc, clp, &repr)
    }

    fn repr(&self) -> rm::Repr {
        let rate = rm::Rate::from_cells_per_second;
        rm::Repr {
            explicit: rate(self.pcr),
            current: rate(self.acr),
            minimum: rate(self.mcr),
            ..rm::Repr::default()
        }
    }

    fn set_acr(&mut self, acr: f64) {
        self.acr = acr.max(self.mcr).min(self.pcr);
        self.gap = Gap::of(self.acr);
        self.schedule_in_rate_cell();
    }

    /// Records the EFCI of a data cell (destination rule 1).
    #[inline]
    pub(crate) fn on_data(&mut self, efci: bool) {
        self.congested = efci;
    }

    /// Records the EFCI of a data cell that arrives at `at`.
    ///
    /// Backward RM cells sent earlier carry the marks of earlier cells only. All cells to be sent before
    /// `settled` have been sent.
    #[inline]
    pub(crate) fn will_meet(&mut self, settled: Time, at: Time, efci: bool) {
        // Each backward RM cell clears the state it carried, so every mark counts; without one only the first
        // cell after a mark does.
        if efci || self.marked {
            self.meet(settled);
            self.marks.push_back((at, efci));
            self.marked = efci;
        }
    }

    /// Returns `true` if the last announced cell is marked, or relevant marks will arrive.
    #[inline]
    pub(crate) fn observes_efci(&self) -> bool {
        self.marked || !self.marks.is_empty()
    }

    fn meet(&mut self, now: Time) {
        while let Some(&(_, efci)) = self.marks.front().filter(|(at, _)| *at <= now) {
            self.congested = efci;
            self.marks.pop_front();
        }
    }

    /// Sets the congestion signal of the destination itself.
    pub(crate) fn set_congestion(&mut self, signal: Option<CongestionSignal>) {
        self.signal = signal;
    }

    /// Generates a backward RM cell if the destination is congested at `now` (destination rule 5).
    ///
    /// None is generated while another one waits, or within 100 ms of the last one. The cell has BN set, and
    /// CI or NI; CCR and MCR are zero.
    pub(crate) fn make_backward(&mut self, now: Time) {
        let Some(signal) = self.signal.filter(|_| self.waiting.is_none() && now >= self.quiet_until) else {
            return;
        };
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: signal == CongestionSignal::Congestion,
            no_increase: signal != CongestionSignal::Congestion,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        self.waiting = Some(repr);
    }

    /// Accepts an RM cell.
    pub(crate) fn on_rm(&mut self, word: Word) {
        if word.is_backward() {
            self.on_backward(&word.rm_repr());
        } else {
            self.on_forward(&word.rm_repr());
        }
    }

    /// Rules 6, 8 and 9.
    fn on_backward(&mut self, repr: &rm::Repr) {
        self.counts.backward_received += 1;
        if !repr.not_by_source {
            self.unanswered = 0;
        }
        let mut acr = self.acr;
        if repr.congestion {
            acr -= acr * self.rdf;
        } else if !repr.no_increase {
            acr = (acr + self.rif * self.pcr).min(self.pcr);
        }
        // An explicit rate of the peak means no limit: as an RM cell writes it, it is a little less.
        let limit = match repr.explicit {
            explicit if explicit >= rm::Rate::from_cells_per_second(self.pcr) => self.pcr,
            explicit => explicit.cells_per_second(),
        };
        self.set_acr(acr.max(self.mcr).min(limit));
    }

    /// Accepts a forward RM cell (destination rules 2 to 4 and 6). An older one that still waits is
    /// overwritten.
    ///
    /// The destination adds its own state when it sends the cell, so overwriting loses none of it.
    fn on_forward(&mut self, repr: &rm::Repr) {
        let turn = rm::Repr { backward: true, not_by_source: false, ..*repr };
        self.counts.overwritten += u64::from(self.waiting.replace(turn).is_some());
    }
}

#[cfg(test)]
mod tests;
