//! Sessions that send a block.

use std::collections::VecDeque;
use std::ops::Range;

use bentpipe_wire::dtn::sdnv;

use super::few::Few;
use super::ranges::Ranges;
use super::{Control, Data, Engine, Reason, Report, SessionId};

/// Multiple of the red part that reports may have repeated. Beyond it the session is cancelled.
///
/// With 97 % of the segments lost a block is repeated as often.
const MAX_REPEATS: u64 = 32;

/// Maximum number of reports on one session, beyond which it is cancelled. A receiver of this project makes half as many.
const MAX_REPORTS: usize = 8192;

/// Checkpoint that has not been answered in full.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// Range of its segment in the block.
    range: Range<u64>,
    /// Report that it answers, or 0.
    report: u64,
    /// Scope that reports on it must cover.
    scope: (u64, u64),
    /// Scopes of the reports that arrived.
    covered: Ranges,
    tries: u32,
}

/// Part of the block to send.
#[derive(Clone, Debug)]
struct Part {
    from: u64,
    to: u64,
    /// Report that the checkpoint at its end answers, and the scope of that report.
    checkpoint: Option<(u64, (u64, u64))>,
    /// Serial number of a checkpoint that is sent again.
    again: Option<u64>,
}

/// Parts of a block to send, in their order. One of them needs no memory of its own.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// First part, if there is one.
    first: Option<Part>,
    rest: VecDeque<Part>,
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn push_back(&mut self, part: Part) {
        match self.first {
            None => self.first = Some(part),
            Some(_) => self.rest.push_back(part),
        }
    }

    fn pop_front(&mut self) {
        self.first = self.rest.pop_front();
    }

    fn iter(&self) -> impl Iterator<Item = &Part> {
        self.first.iter().chain(&self.rest)
    }
}

/// Session that sends.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) peer: u64,
    client: u64,
    pub(super) data: Vec<u8>,
    red: u64,
    parts: Parts,
    sent: Ranges,
    acknowledged: Ranges,
    pub(super) checkpoints: Few<Checkpoint>,
    reports: Few<()>,
    /// Serial numbers of the first checkpoint, and of the next.
    first_serial: u64,
    next_serial: u64,
    /// Bytes that reports have queued again.
    repeated: u64,
    /// Reason of its cancellation, and the transmissions of it.
    pub(super) cancelled: Option<(Reason, u32)>,
}

impl Export {
    pub(super) fn new(peer: u64, client: u64, data: Vec<u8>, red: u64, next_serial: u64) -> Export {
        let len = data.len() as u64;
        let red = red.min(len);
        let part = |from, to, checkpoint| Part { from, to, checkpoint, again: None };
        let mut parts = Parts::default();
        [part(0, red, Some((0, (0, red)))), part(red, len, None)]
            .into_iter()
            .filter(|part| part.from < part.to)
            .for_each(|part| parts.push_back(part));
        Export {
            peer,
            client,
            data,
            red,
            parts,
            sent: Ranges::default(),
            acknowledged: Ranges::default(),
            checkpoints: Few::default(),
            reports: Few::default(),
            first_serial: next_serial,
            next_serial,
            repeated: 0,
            cancelled: None,
        }
    }

    /// Returns `true` if a checkpoint with a number was sent.
    fn has_sent(&self, checkpoint: u64) -> bool {
        (self.first_serial..self.next_serial).contains(&checkpoint)
    }

    /// Returns `true` if there were more reports, or more repeated for them, than losses explain.
    fn is_reported_too_often(&self) -> bool {
        self.repeated > self.red.saturating_mul(MAX_REPEATS) || self.reports.len() > MAX_REPORTS
    }

    /// Returns `true` if the session was not cancelled before, and cancels it.
    pub(super) fn cancel(&mut self, reason: Reason) -> bool {
        self.parts = Parts::default();
        self.cancelled.is_none() && {
            self.cancelled = Some((reason, 0));
            true
        }
    }

    /// Returns the next segment and its range in the block.
    pub(super) fn next(&mut self, limit: usize, session: &SessionId) -> Option<(Data, Range<usize>)> {
        let (len, red) = (self.data.len() as u64, self.red);
        let part = self.parts.first.as_mut()?;
        let overhead = header_len(session, self.client, len);
        let to = part.to.min(part.from + (limit - overhead) as u64);
        let range = part.from..to;
        part.from = to;
        let is_last = to == part.to;
        let last = part.clone();
        if is_last {
            self.parts.pop_front();
        }
        let checkpoint = last.checkpoint.filter(|_| is_last).map(|(report, scope)| {
            let serial = last.again.unwrap_or(self.next_serial);
            self.next_serial = self.next_serial.max(serial + 1);
            let new =
                Checkpoint { range: range.clone(), report, scope, covered: Ranges::default(), tries: 0 };
            match self.checkpoints.get_mut(serial) {
                Some(open) => open.tries += 1,
                None => {
                    self.checkpoints.insert(serial, Checkpoint { tries: 1, ..new });
                }
            }
            (serial, report)
        });
        let is_green = range.start >= red;
        let data = Data {
            is_green,
            checkpoint,
            ends_red: !is_green && to == red && checkpoint.is_some(),
            ends_block: to == len && (is_green || checkpoint.is_some()),
            client: self.client,
            offset: range.start,
        };
        Some((data, range.start as usize..range.end as usize))
    }

    /// Returns `true` if the range was not sent before, and notes it as sent.
    pub(super) fn mark_sent(&mut self, range: &Range<usize>) -> bool {
        self.sent.insert(range.start as u64, range.end as u64) > 0
    }

    /// Returns `true` if all is sent and all red data acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.sent.covers(0, self.data.len() as u64) && self.acknowledged.covers(0, self.red)
    }

    /// Queues a checkpoint's segment again.
    fn repeat(&mut self, serial: u64) {
        let Some(checkpoint) = self.checkpoints.get(serial) else { return };
        let Range { start: from, end: to } = checkpoint.range;
        let checkpoint = Some((checkpoint.report, checkpoint.scope));
        self.parts.push_back(Part { from, to, checkpoint, again: Some(serial) });
    }

    /// Applies a report and queues missing data. Returns the checkpoint that is answered in full.
    fn apply(&mut self, report: &Report) -> Option<u64> {
        let Report { lower, upper, checkpoint, .. } = *report;
        let upper = upper.min(self.red);
        for (offset, len) in &report.claims {
            let from = lower.saturating_add(*offset);
            self.acknowledged.insert(from.min(self.red), from.saturating_add(*len).min(self.red));
        }
        // Data that has not been sent yet is not missing, nor what waits to be sent again.
        let is_waiting = |(from, to): &(u64, u64)| {
            self.parts.iter().any(|part| part.again.is_none() && part.from <= *from && *to <= part.to)
        };
        // What another report on this checkpoint was about is sent again by now, with a checkpoint of its own.
        let new = self.checkpoints.get(checkpoint).map(|open| open.covered.gaps(lower, upper));
        let gaps = new.into_iter().flatten().flat_map(|(from, to)| self.acknowledged.gaps(from, to));
        let gaps: Vec<_> = gaps.filter(|gap| self.sent.covers(gap.0, gap.1) && !is_waiting(gap)).collect();
        self.repeated += gaps.iter().map(|(from, to)| to - from).sum::<u64>();
        for (n, (from, to)) in gaps.iter().enumerate() {
            let is_last = n + 1 == gaps.len();
            let checkpoint = is_last.then_some((report.serial, (lower, upper)));
            self.parts.push_back(Part { from: *from, to: *to, checkpoint, again: None });
        }
        let open = self.checkpoints.get_mut(checkpoint)?;
        open.covered.insert(lower, report.upper);
        if open.covered.covers(open.scope.0, open.scope.1) {
            self.checkpoints.remove(checkpoint);
            return Some(checkpoint);
        }
        None
    }
}

/// Returns the length of the longest header of a data segment in the block.
///
/// Room for a checkpoint's serial numbers is always left, so that a segment is repeated as one.
fn header_len(session: &SessionId, client: u64, len: u64) -> usize {
    2 + [session.engine, session.number, client, len, len].into_iter().map(sdnv::len).sum::<usize>() + 8
}

impl Engine {
    pub(super) fn handle_report(&mut self, from: u64, session: SessionId, report: &Report) {
        let Some(export) = self.exports.get_mut(&session) else {
            // A late report of a closed session is acknowledged, or its receiver would repeat it (section 6.13).
            return self.push(from, Control::ReportAck(session, report.serial));
        };
        let peer = export.peer;
        // Another engine knows nothing of the session, nor does one that names a checkpoint that it cannot have: reports of their own
        // accord (0) are not modelled.
        if peer != from || !export.has_sent(report.checkpoint) {
            self.counts.refused += 1;
            return;
        }
        let is_new = export.cancelled.is_none() && export.reports.insert(report.serial, ());
        let answered = if is_new { export.apply(report) } else { None };
        let (has_parts, is_done) = (!export.parts.is_empty(), export.is_done());
        let is_over = export.is_reported_too_often() && !is_done;
        self.push(peer, Control::ReportAck(session, report.serial));
        if let Some(serial) = answered {
            self.timers.stop(&super::Timer::Checkpoint(session, serial));
        }
        if is_over {
            self.cancel(session, Reason::Cycles);
        } else if is_done {
            self.finish_export(session);
        } else if has_parts {
            self.enqueue(peer, session);
        }
    }

    fn enqueue(&mut self, peer: u64, session: SessionId) {
        let sessions = &mut self.outgoing.entry(peer).or_default().sessions;
        if !sessions.contains(&session) {
            // Retransmissions go first, so that old blocks end.
            sessions.push_front(session);
        }
    }

    pub(super) fn checkpoint_expired(&mut self, session: SessionId, serial: u64) {
        let limit = self.config.tries;
        let Some(export) = self.exports.get_mut(&session) else { return };
        let Some(checkpoint) = export.checkpoints.get(serial) else { return };
        if checkpoint.tries >= limit {
            return self.cancel(session, Reason::Retransmissions);
        }
        export.repeat(serial);
        let peer = export.peer;
        self.enqueue(peer, session);
    }

    pub(super) fn cancel_export_expired(&mut self, session: SessionId) {
        let limit = self.config.tries;
        let Some(export) = self.exports.get_mut(&session) else { return };
        let Some((_, tries)) = &mut export.cancelled else { return };
        *tries += 1;
        let (is_over, peer) = (*tries >= limit, export.peer);
        if is_over {
            self.exports.remove(&session);
        } else {
            self.push(peer, Control::CancelExport(session));
        }
    }

    /// Returns `true` if another engine than the receiver of a session speaks of it.
    fn is_foreign(&mut self, from: u64, session: SessionId) -> bool {
        let is_foreign = self.exports.get(&session).is_some_and(|export| export.peer != from);
        self.counts.refused += u64::from(is_foreign);
        is_foreign
    }

    pub(super) fn handle_sender_cancel_ack(&mut self, from: u64, session: SessionId) {
        if self.is_foreign(from, session) {
            return;
        }
        self.timers.stop(&super::Timer::CancelExport(session));
        if self.exports.get(&session).is_some_and(|export| export.cancelled.is_some()) {
            self.exports.remove(&session);
        }
    }

    pub(super) fn handle_receiver_cancel(&mut self, from: u64, session: SessionId, reason: Reason) {
        if self.is_foreign(from, session) {
            return;
        }
        // Also of a session that is not known any more, or its receiver would repeat it (section 6.17).
        self.push(from, Control::ReceiverCancelAck(session));
        let Some(export) = self.exports.remove(&session) else { return };
        export
            .checkpoints
            .keys()
            .for_each(|serial| self.timers.stop(&super::Timer::Checkpoint(session, serial)));
        self.timers.stop(&super::Timer::CancelExport(session));
        if export.cancelled.is_none() {
            self.counts.failed += 1;
            self.events.push_back(super::Event::Refused(session, reason));
        }
    }
}
