//! Calls placed at random times.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bentpipe_net::{Cx, Histogram, InvalidConfig, Observer};
use bentpipe_site::{CallEnd, CallQuality, CallRecord, KeepsCalls};
use bentpipe_units::{Span, Time};

use crate::config::Calls;
use crate::metrics;
use crate::party::{Party, Role};
use crate::protocol::{Cause, Happening, Protocol};
use crate::station::Station;

/// Calling end of a flow.
pub type Caller<P> = Party<P, Placing<P>>;

/// Calls of a caller.
#[derive(Debug)]
pub struct Placing<P: Protocol> {
    plan: Calls,
    remote: SocketAddr,
    start: Time,
    stop: Time,
    next: Time,
    calls: BTreeMap<P::Call, Placed>,
    /// Times at which calls end by this side.
    ends: BTreeSet<(Time, P::Call)>,
    placed: u64,
    established: u64,
    ended: u64,
    timed_out: u64,
    failed: u64,
    given_up: u64,
    /// Calls refused as busy, and for want of capacity.
    refused: [u64; 2],
    blocked: u64,
    up: u64,
    /// Calls placed in the window of measures, by what became of them.
    of_window: OfWindow,
    post_dial: Histogram,
    set_up: Histogram,
    records: Vec<Record>,
}

/// Calls placed in the window of measures, by what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct OfWindow {
    established: u64,
    timed_out: u64,
    failed: u64,
    given_up: u64,
}

/// Maximum number of calls with a record.
const MAX_RECORDS: usize = 500_000;

#[derive(Debug)]
struct Placed {
    /// Number of its record.
    record: usize,
    at: Time,
    rang: bool,
    is_up: bool,
    /// Set if this side ended it before an answer.
    is_given_up: bool,
    /// Set if it was placed in the warm-up.
    is_of_warm_up: bool,
    end: Time,
}

/// Times of a call, kept after its end.
#[derive(Clone, Copy, Debug)]
struct Record {
    placed: Time,
    rang: Option<Time>,
    answered: Option<Time>,
    ended: Option<Time>,
    end: CallEnd,
    quality: Option<CallQuality>,
}

impl<P: Protocol> Party<P, Placing<P>> {
    /// Creates a caller from `local` to `remote`, which places calls from `start` to `stop`.
    ///
    /// # Errors
    /// Returns an error if a setting is impossible.
    pub fn new(
        calls: &Calls,
        settings: P::Settings,
        (local, remote): (SocketAddr, SocketAddr),
        start: Span,
        stop: Option<Span>,
    ) -> Result<Caller<P>, InvalidConfig> {
        calls.ensure()?;
        let role = Placing {
            plan: *calls,
            remote,
            start: Time::ZERO + start,
            stop: stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            next: Time::NEVER,
            calls: BTreeMap::new(),
            ends: BTreeSet::new(),
            placed: 0,
            established: 0,
            ended: 0,
            timed_out: 0,
            failed: 0,
            given_up: 0,
            refused: [0; 2],
            blocked: 0,
            up: 0,
            of_window: OfWindow::default(),
            post_dial: Histogram::default(),
            set_up: Histogram::default(),
            records: Vec::new(),
        };
        Ok(Party::with_role(settings, calls.dscp, local, role))
    }
}

impl<P: Protocol> Placing<P> {
    /// Draws the time of the next call.
    fn draw_next(&mut self, from: Time, cx: &mut Cx<'_>) {
        let gap = Span::from_secs_f64(cx.stream().exponential(self.plan.interval.as_secs_f64()));
        let next = from + gap;
        let is_over = next >= self.stop || self.plan.calls.is_some_and(|most| self.placed >= most);
        self.next = if is_over { Time::NEVER } else { next };
    }

    fn place(&mut self, station: &mut Station<P>, cx: &mut Cx<'_>) {
        let now = cx.now();
        if let Some(call) = station.protocol.place(now, self.remote) {
            let end = now + self.plan.ring_limit;
            let record = self.record(now);
            self.calls.insert(
                call,
                Placed {
                    record,
                    at: now,
                    rang: false,
                    is_up: false,
                    is_given_up: false,
                    is_of_warm_up: false,
                    end,
                },
            );
            self.ends.insert((end, call));
            self.placed += 1;
        } else {
            self.blocked += 1;
        }
        self.draw_next(now, cx);
    }

    /// Begins a record, and returns its number.
    fn record(&mut self, placed: Time) -> usize {
        if self.records.len() < MAX_RECORDS {
            let end = CallEnd::Waiting;
            let record = Record { placed, rang: None, answered: None, ended: None, end, quality: None };
            self.records.push(record);
            return self.records.len() - 1;
        }
        MAX_RECORDS
    }

    /// Notes that this side ends a call, which cancels it before the answer.
    fn note_given_up(&mut self, call: P::Call) {
        let Some(waiting) = self.calls.get_mut(&call).filter(|placed| !placed.is_up) else { return };
        waiting.is_given_up = true;
        if let Some(record) = self.records.get_mut(waiting.record) {
            record.end = CallEnd::Cancelled;
        }
    }

    fn note(&mut self, call: P::Call, happening: Happening, cx: &mut Cx<'_>) {
        match happening {
            Happening::Ringing => self.note_ringing(cx.now(), call),
            Happening::Answered => self.note_answer(call, cx),
            Happening::Ended => {
                let known = self.known(call);
                match self.forget(cx.now(), call, CallEnd::Ended) {
                    true => self.ended += 1,
                    false => self.note_failure(known),
                }
            }
            Happening::TimedOut => {
                let [_, is_of_window] = self.known(call);
                self.forget(cx.now(), call, CallEnd::TimedOut);
                self.timed_out += 1;
                self.of_window.timed_out += u64::from(is_of_window);
            }
            Happening::Failed(cause) => {
                let known = self.known(call);
                self.forget(cx.now(), call, CallEnd::Failed);
                self.note_failure(known);
                let [is_given_up, _] = known;
                match cause {
                    Cause::Busy => self.refused[0] += u64::from(!is_given_up),
                    Cause::NoCapacity => self.refused[1] += u64::from(!is_given_up),
                    Cause::Other => {}
                }
            }
            Happening::Incoming | Happening::Confirmed => {}
        }
    }

    /// Returns the calls given up whose end has not come yet.
    ///
    /// They are all, and those of the window.
    fn cancelling(&self) -> [u64; 2] {
        let cancelled = self.calls.values().filter(|placed| placed.is_given_up && !placed.is_up);
        let of_window = cancelled.clone().filter(|placed| !placed.is_of_warm_up).count();
        [cancelled.count() as u64, of_window as u64]
    }

    /// Returns whether a call was given up, and whether it is of the window.
    fn known(&self, call: P::Call) -> [bool; 2] {
        self.calls.get(&call).map_or([false; 2], |placed| [placed.is_given_up, !placed.is_of_warm_up])
    }

    /// Counts a call that ended before an answer.
    fn note_failure(&mut self, [is_given_up, is_of_window]: [bool; 2]) {
        self.failed += 1;
        self.given_up += u64::from(is_given_up);
        self.of_window.failed += u64::from(is_of_window);
        self.of_window.given_up += u64::from(is_of_window && is_given_up);
    }

    fn note_quality(&mut self, call: P::Call, quality: Option<CallQuality>) {
        let record = self.calls.get(&call).and_then(|placed| self.records.get_mut(placed.record));
        record.into_iter().for_each(|record| record.quality = quality);
    }

    fn note_ringing(&mut self, now: Time, call: P::Call) {
        let Some(placed) = self.calls.get_mut(&call) else { return };
        if !std::mem::replace(&mut placed.rang, true) {
            self.post_dial.record(now - placed.at);
            if let Some(record) = self.records.get_mut(placed.record) {
                record.rang = Some(now);
            }
        }
    }

    fn note_answer(&mut self, call: P::Call, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(placed) = self.calls.get_mut(&call) else { return };
        placed.is_up = true;
        if let Some(record) = self.records.get_mut(placed.record) {
            (record.answered, record.end) = (Some(now), CallEnd::Up);
        }
        self.established += 1;
        self.of_window.established += u64::from(!placed.is_of_warm_up);
        self.up += 1;
        self.set_up.record(now - placed.at);
        self.ends.remove(&(placed.end, call));
        placed.end = now + Span::from_secs_f64(cx.stream().exponential(self.plan.hold.as_secs_f64()));
        self.ends.insert((placed.end, call));
    }

    /// Returns `true` if the call was established, and removes it.
    fn forget(&mut self, now: Time, call: P::Call, end: CallEnd) -> bool {
        let Some(placed) = self.calls.remove(&call) else { return false };
        if let Some(record) = self.records.get_mut(placed.record) {
            record.ended = Some(now);
            // A call that this side gave up keeps that.
            record.end = if record.end == CallEnd::Cancelled { record.end } else { end };
        }
        self.ends.remove(&(placed.end, call));
        self.up -= u64::from(placed.is_up);
        placed.is_up
    }
}

impl<P: Protocol> KeepsCalls for Caller<P> {
    fn calls(&self, _now: Time) -> Vec<CallRecord> {
        let codec = P::codec(&self.settings);
        let of = |record: &Record| CallRecord {
            protocol: P::NAME,
            codec: codec.clone(),
            placed: record.placed,
            post_dial: record.rang.map(|rang| rang - record.placed),
            set_up: record.answered.map(|answered| answered - record.placed),
            ended: record.ended,
            end: record.end,
            quality: record.quality,
            detail: None,
        };
        let mut records: Vec<CallRecord> = self.role.records.iter().map(of).collect();
        let present = self.station.iter().flat_map(|station| {
            self.role.calls.iter().map(|(call, placed)| (placed.record, station.protocol.quality(*call)))
        });
        for (number, quality) in present {
            records.get_mut(number).into_iter().for_each(|record| record.quality = quality);
        }
        records
    }
}

impl<P: Protocol> Role<P> for Placing<P> {
    const USER: &'static str = "caller";

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.draw_next(self.start.max(cx.now()), cx);
    }

    fn act(&mut self, station: &mut Station<P>, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        while self.next <= now {
            self.place(station, cx);
        }
        while let Some((_, call)) = self.ends.first().copied().filter(|(time, _)| *time <= now) {
            self.ends.pop_first();
            self.note_given_up(call);
            station.protocol.hang_up(now, call);
        }
        while let Some((call, happening)) = station.event() {
            if happening.is_last() {
                station.settle(cx);
                self.note_quality(call, station.protocol.finish(call));
            }
            self.note(call, happening, cx);
        }
        let end = self.ends.first().map_or(Time::NEVER, |(time, _)| *time);
        self.next.min(end)
    }

    fn observe(&self, observer: &mut dyn Observer) {
        let [cancelling, of_window] = self.cancelling();
        observer.counter(&metrics::CALLS_OFFERED, self.placed + self.blocked);
        observer.counter(&metrics::CALLS, self.placed);
        observer.counter(&metrics::CALLS_ESTABLISHED, self.established);
        observer.counter(&metrics::CALLS_ENDED, self.ended);
        observer.counter(&metrics::CALLS_TIMED_OUT, self.timed_out);
        observer.counter(&metrics::CALLS_FAILED, self.failed);
        observer.counter(&metrics::CALLS_REJECTED, self.failed - self.given_up);
        observer.counter(&metrics::CALLS_BLOCKED, self.blocked);
        observer.counter(&metrics::CALLS_GIVEN_UP, self.given_up);
        let OfWindow { established, timed_out, failed, given_up } = self.of_window;
        observer.gauge(&metrics::ESTABLISHED_OF_WINDOW, established as f64);
        observer.gauge(&metrics::TIMED_OUT_OF_WINDOW, timed_out as f64);
        observer.gauge(&metrics::FAILED_OF_WINDOW, (failed + of_window) as f64);
        observer.gauge(&metrics::REJECTED_OF_WINDOW, (failed - given_up) as f64);
        observer.gauge(&metrics::GIVEN_UP_OF_WINDOW, (given_up + of_window) as f64);
        observer.gauge(&metrics::CALLS_WAITING, (self.calls.len() as u64 - self.up - cancelling) as f64);
        if observer.counts_units() {
            let [busy, no_capacity] = self.refused;
            let others = self.failed - self.given_up - busy - no_capacity;
            observer.gauge(&metrics::CALLS_CANCELLING, cancelling as f64);
            observer.gauge(&metrics::CALLS_BUSY, busy as f64);
            observer.gauge(&metrics::CALLS_WITHOUT_CAPACITY, no_capacity as f64);
            observer.gauge(&metrics::CALLS_REFUSED_OTHERWISE, others as f64);
        }
        observer.gauge(&metrics::CALLS_UP, self.up as f64);
        observer.histogram(&metrics::POST_DIAL_DELAYS, &self.post_dial);
        observer.histogram(&metrics::SET_UP_TIMES, &self.set_up);
    }

    fn start_window(&mut self) {
        self.of_window = OfWindow::default();
        self.calls.values_mut().for_each(|placed| placed.is_of_warm_up = true);
        // Calls that are over have nothing in the window.
        self.records.iter_mut().for_each(|record| record.quality = None);
    }
}
