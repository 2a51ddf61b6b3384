//! Demand of a terminal, and its requests.

use std::collections::VecDeque;

use bentpipe_units::{Bytes, Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frame::CELL_LEN;
use super::request::Request;
use super::{Allocation, Backlog, Frame};

/// Contract of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Contract {
    /// Continuous rate assignment (CRA), in whole units. Default: none.
    pub cra: Rate,
    /// Rate-based dynamic capacity (RBDC): maximum rate requested beyond CRA. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbdc: Option<Rate>,
    /// Volume-based dynamic capacity (VBDC): maximum assignment per superframe, in bytes of cells. Default: no volume
    /// is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbdc: Option<Bytes>,
    /// Enables absolute volume requests (AVBDC): the whole backlog in place of new arrivals. Default: false. A
    /// terminal whose volume does not arrive sends one such request, as the first may be lost.
    pub absolute: bool,
    /// Enables free capacity assignment (FCA). Default: false.
    pub fca: bool,
}

impl Contract {
    /// Returns the units that are always assigned.
    pub fn constant_units(&self, frame: &Frame) -> u32 {
        frame.units_for(self.cra)
    }

    /// Returns the maximum units for a rate and for a volume.
    pub fn units_on_demand(&self, frame: &Frame) -> [u32; 2] {
        let cells = self.vbdc.map_or(0, |bytes| bytes.get().div_ceil(CELL_LEN));
        let volume = cells.div_ceil(frame.cells_of_unit());
        [self.rbdc.map_or(0, |rate| frame.units_for(rate)), u32::try_from(volume).unwrap_or(u32::MAX)]
    }

    /// Returns the maximum units of all classes together.
    pub fn most_units(&self, frame: &Frame) -> u32 {
        let [rate, volume] = self.units_on_demand(frame);
        let free = if self.fca { u32::MAX } else { 0 };
        let all = self.constant_units(frame).saturating_add(rate).saturating_add(volume).saturating_add(free);
        all.min(frame.units_of_one())
    }

    /// Returns `true` if the terminal ever requests capacity.
    pub(super) fn asks(&self) -> bool {
        self.rbdc.is_some() || self.vbdc.is_some()
    }
}

/// Requested rates, and outstanding volumes.
#[derive(Debug)]
pub(super) struct Demand {
    contract: Contract,
    backlog: Backlog,
    superframe: Span,
    window: Span,
    /// Time from a request to the end of the superframe that it brings.
    served_after: Span,
    /// Time after which an unassigned volume is requested again.
    request_timeout: Span,
    /// Bytes that arrived since the last request.
    arrived: u64,
    /// Requests' times and what came before each, as far as the window goes back.
    arrivals: VecDeque<(Time, u64)>,
    /// Rates asked for: when, and the bytes that each pays for.
    paid: VecDeque<(Time, u64)>,
    asked: Rate,
    asked_at: Time,
    /// Announced rate, and the time until which it is assumed.
    announced: Option<(Rate, Time)>,
    /// Cells requested as a volume and not assigned.
    due: u64,
    /// Time of the last volume request with no volume due, or of the last assignment.
    due_since: Time,
}

impl Demand {
    pub(super) fn new(contract: Contract, frame: &Frame) -> Demand {
        let superframe = frame.superframe();
        let loop_delay = frame.control_delay() * 2 + superframe;
        Demand {
            contract,
            backlog: frame.backlog(),
            superframe,
            window: frame.window(),
            served_after: loop_delay,
            request_timeout: loop_delay + superframe * u64::from(frame.timeout()),
            arrived: 0,
            arrivals: VecDeque::new(),
            paid: VecDeque::new(),
            asked: Rate::default(),
            asked_at: Time::ZERO,
            announced: None,
            due: 0,
            due_since: Time::ZERO,
        }
    }

    /// Adopts the times of another structure of the carriers.
    pub(super) fn follow(&mut self, frame: &Frame) {
        let Demand { backlog, superframe, window, served_after, request_timeout, .. } =
            Demand::new(self.contract, frame);
        (self.backlog, self.superframe, self.window) = (backlog, superframe, window);
        (self.served_after, self.request_timeout) = (served_after, request_timeout);
    }

    /// Adds the bytes of an arrived packet on the carrier.
    pub(super) fn arrive(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Announces a rate of the carrier's cells, requested at least until the given time.
    pub(super) fn announce(&mut self, rate: Rate, until: Time) {
        self.announced = Some((rate, until));
    }

    /// Returns the rate requested last.
    pub(super) fn asked(&self) -> Rate {
        self.asked
    }

    /// Returns `true` if there is nothing to request while nothing arrives and nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        let silent = self.arrived == 0 && self.arrivals.iter().all(|(_, bytes)| *bytes == 0);
        silent && self.asked.as_bps() == 0 && self.announced.is_none()
    }

    /// Records an allocation: its volume is no longer due.
    pub(super) fn assigned(&mut self, allocation: Allocation, cells_of_unit: u64, now: Time) {
        if allocation.volume > 0 {
            self.due = self.due.saturating_sub(u64::from(allocation.volume) * cells_of_unit);
            self.due_since = now;
        }
    }

    /// Returns the requests at `now`, for the given waiting bytes and cells already assigned.
    pub(super) fn requests(&mut self, now: Time, waiting: u64, assigned_cells: u64) -> Vec<Request> {
        self.forget(now);
        let mut requests = Vec::new();
        let rate = self.rate(now, waiting);
        if self.contract.rbdc.is_some() && (rate.as_bps() > 0 || self.asked.as_bps() > 0) {
            self.asked = rate;
            requests.push(Request::rate(rate));
        }
        if self.contract.vbdc.is_some() {
            requests.extend(self.volume(now, waiting, assigned_cells));
        }
        self.asked_at = now;
        requests
    }

    fn forget(&mut self, now: Time) {
        self.arrivals.push_back((now, std::mem::take(&mut self.arrived)));
        while self.arrivals.front().is_some_and(|(at, _)| *at + self.window <= now) {
            self.arrivals.pop_front();
        }
        while self.paid.front().is_some_and(|(at, _)| *at + self.served_after <= now) {
            self.paid.pop_front();
        }
        self.announced = self.announced.filter(|(_, until)| now <= *until);
    }

    /// The rate that arrived over the window, and what the backlog calls for.
    fn rate(&mut self, now: Time, waiting: u64) -> Rate {
        let arrived: u64 = self.arrivals.iter().map(|(_, bytes)| bytes).sum();
        let paid: u64 = self.paid.iter().map(|(_, bytes)| bytes).sum();
        // Volume is asked for as such where there is VBDC too.
        let backlog = match self.backlog {
            _ if self.contract.vbdc.is_some() => 0,
            Backlog::Unasked => waiting.saturating_sub(paid),
            Backlog::Whole => waiting,
            Backlog::Ignored => 0,
        };
        let of = |bytes: u64, span: Span| bytes as f64 * 8.0 / span.as_secs_f64();
        let rate = of(arrived, self.window) + of(backlog, self.superframe);
        let announced = self.announced.map_or(0.0, |(rate, _)| rate.as_bps() as f64);
        let most = self.contract.rbdc.unwrap_or_default().as_bps().saturating_add(self.contract.cra.as_bps());
        let rate = Rate::from_bps((rate.max(announced) as u64).min(most));
        let interval = now.since(self.asked_at).min(self.superframe);
        self.paid.push_back((now, (rate.as_bytes_per_sec() * interval.as_secs_f64()) as u64));
        rate
    }

    /// Cells that wait and are neither assigned nor due.
    fn volume(&mut self, now: Time, waiting: u64, assigned_cells: u64) -> Option<Request> {
        let by_rate = (self.asked.as_bytes_per_sec() * self.served_after.as_secs_f64()) as u64 / CELL_LEN;
        let announced = self.announced.map_or(0.0, |(rate, _)| rate.as_bytes_per_sec());
        let coming = (announced * self.superframe.as_secs_f64()) as u64;
        let needed = (waiting + coming).div_ceil(CELL_LEN).saturating_sub(assigned_cells + by_rate);
        let lost = self.due > 0 && self.due_since + self.request_timeout <= now;
        let absolute = self.contract.absolute || lost;
        let ask = if absolute { needed } else { needed.saturating_sub(self.due) };
        let nothing = if absolute { ask == self.due && !lost } else { ask == 0 };
        if nothing {
            return None;
        }
        if self.due == 0 || lost {
            self.due_since = now;
        }
        self.due = if absolute { ask } else { self.due + ask };
        Some(Request::volume(ask, absolute))
    }
}
