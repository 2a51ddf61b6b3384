//! Sessions that receive a block.

use std::collections::BTreeMap;

use bentpipe_units::Time;
use bentpipe_wire::dtn::sdnv;

use super::few::Few;
use super::pieces::Pieces;
use super::ranges::Ranges;
use super::{Content, Control, Data, Engine, Event, MEMORY, Reason, Report, Segment, SessionId, Timer};
use crate::credit::Credit;

/// Report that has not been acknowledged.
#[derive(Clone, Debug)]
pub(super) struct OpenReport {
    report: Report,
    tries: u32,
    /// Set until it is sent. Its first transmission was counted when it was made.
    is_new: bool,
}

/// Session that receives.
#[derive(Clone, Debug)]
pub(super) struct Import {
    client: u64,
    content: Pieces,
    received: Ranges,
    /// End of the red part, once known.
    red_end: Option<u64>,
    /// End of the block, once known.
    block_end: Option<u64>,
    /// Lowest offset of green data.
    green_start: u64,
    /// Highest end of red data.
    red_seen: u64,
    reports: Few<OpenReport>,
    /// Bytes of answers that the session may still cause.
    credit: Credit,
    /// Scopes of all reports by their serial numbers.
    scopes: Few<(u64, u64)>,
    /// Checkpoints that have been answered.
    answered: Few<()>,
    next_serial: u64,
    has_delivered_red: bool,
    /// Reason of its cancellation, and the transmissions of it.
    pub(super) cancelled: Option<(Reason, u32)>,
}

/// Memory of a session that is closed, to answer a late checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    red_end: u64,
    next_serial: u64,
}

/// Maximum number of reports of one session that are open at a time.
const MAX_REPORTS: usize = 256;
/// Maximum number of reports of one session, beyond which it is cancelled.
const MAX_SCOPES: usize = 4096;
/// Maximum number of ranges of one block, beyond which it is cancelled.
const MAX_RANGES: usize = 4096;
/// Least length of a claim in bytes.
const LEAST_CLAIM: u64 = 2;

impl Import {
    fn new(client: u64, next_serial: u64) -> Import {
        Import {
            client,
            content: Pieces::default(),
            received: Ranges::default(),
            red_end: None,
            block_end: None,
            green_start: u64::MAX,
            red_seen: 0,
            reports: Few::default(),
            credit: Credit::default(),
            scopes: Few::default(),
            answered: Few::default(),
            next_serial,
            has_delivered_red: false,
            cancelled: None,
        }
    }

    /// Adds data.
    ///
    /// # Errors
    /// Returns the reason for which the session must be cancelled.
    fn take(&mut self, data: &Data, bytes: &[u8], limit: u64) -> Result<(), Reason> {
        let end = data.offset + bytes.len() as u64;
        let is_miscoloured = match data.is_green {
            true => data.offset < self.red_seen || self.red_end.is_some_and(|red| data.offset < red),
            false => end > self.green_start || self.red_end.is_some_and(|red| end > red),
        };
        if is_miscoloured {
            return Err(Reason::Miscoloured);
        }
        if end > limit || self.received.count() > MAX_RANGES {
            return Err(Reason::System);
        }
        if data.is_green {
            self.green_start = self.green_start.min(data.offset);
        } else {
            self.red_seen = self.red_seen.max(end);
        }
        // What was delivered is not kept.
        if !self.has_delivered_red && !self.received.covers(data.offset, end) {
            self.content.insert(data.offset, bytes);
        }
        self.received.insert(data.offset, end);
        self.red_end = self.red_end.or((data.ends_red && !data.is_green).then_some(end));
        self.block_end = self.block_end.or(data.ends_block.then_some(end));
        Ok(())
    }

    /// Returns the reports that answer a checkpoint, each with at most `most` claims.
    ///
    /// They are for all of its scope, or none: a checkpoint beyond the credit counts as lost, and its sender repeats it.
    fn report(&mut self, session: SessionId, checkpoint: (u64, u64), end: u64, most: usize) -> Vec<u64> {
        let (serial, answers) = checkpoint;
        if self.answered.get(serial).is_some() {
            let open = self.reports.iter().filter(|(_, open)| open.report.checkpoint == serial);
            return open.map(|(serial, _)| serial).collect();
        }
        let (lower, upper) = self.scopes.get(answers).copied().unwrap_or((0, end));
        let claims: Vec<_> = self.received.within(lower, upper).collect();
        // Not even their claims have room: they are not made.
        if claims.len() as u64 * LEAST_CLAIM > self.credit.left() {
            return Vec::new();
        }
        let reports = self.reports_on(serial, (lower, upper), &claims, most);
        let len = reports.iter().map(|report| report_len(session, report)).sum();
        if !self.credit.spend(len) {
            return Vec::new();
        }
        self.answered.insert(serial, ());
        self.next_serial += reports.len() as u64;
        reports.into_iter().map(|report| self.open(report)).collect()
    }

    /// Returns reports with at most `most` claims, which share the scope of a checkpoint.
    fn reports_on(
        &self,
        checkpoint: u64,
        (lower, upper): (u64, u64),
        claims: &[(u64, u64)],
        most: usize,
    ) -> Vec<Report> {
        let groups: Vec<&[(u64, u64)]> =
            if claims.is_empty() { vec![&[]] } else { claims.chunks(most).collect() };
        let mut reports = Vec::with_capacity(groups.len());
        let mut from = lower;
        for (n, group) in groups.iter().enumerate() {
            let to = if n + 1 == groups.len() { upper } else { group[group.len() - 1].1 };
            let claims = group.iter().map(|(start, end)| (start - from, end - start)).collect();
            let serial = self.next_serial + n as u64;
            reports.push(Report { serial, checkpoint, upper: to, lower: from, claims });
            from = to;
        }
        reports
    }

    /// Keeps a report until it is acknowledged, and returns its serial number.
    fn open(&mut self, report: Report) -> u64 {
        let serial = report.serial;
        self.scopes.insert(serial, (report.lower, report.upper));
        self.reports.insert(serial, OpenReport { report, tries: 0, is_new: true });
        serial
    }

    /// Returns a report that is not acknowledged, and whether the session has credit for it.
    pub(super) fn send_report(&mut self, session: SessionId, serial: u64) -> Option<(Report, bool)> {
        let open = self.reports.get_mut(serial)?;
        let is_new = std::mem::take(&mut open.is_new);
        let is_paid = is_new || self.credit.spend(report_len(session, &open.report));
        Some((open.report.clone(), is_paid))
    }

    /// Returns `true` if the session has credit for an answer of this length.
    pub(super) fn may_send(&mut self, len: usize) -> bool {
        self.credit.spend(len as u64)
    }

    /// Returns the reason for which a session with its reports must be cancelled.
    fn bound_reports(&self) -> Result<(), Reason> {
        match (self.reports.len() >= MAX_REPORTS, self.scopes.len() >= MAX_SCOPES) {
            (true, _) => Err(Reason::System),
            (_, true) => Err(Reason::Cycles),
            (false, false) => Ok(()),
        }
    }

    /// Returns the red part the first time that it is complete, or a green block.
    fn delivery(&mut self) -> Option<Vec<u8>> {
        let end = self.red_end.or(self.block_end.filter(|_| self.green_start == 0))?;
        if self.has_delivered_red || !self.received.covers(0, end) {
            return None;
        }
        self.has_delivered_red = true;
        Some(std::mem::take(&mut self.content).into_start(end))
    }
}

/// Returns the length of a report's segment.
fn report_len(session: SessionId, report: &Report) -> u64 {
    Segment::new(session, Content::Report(report.clone())).to_vec().len() as u64
}

impl Engine {
    /// Returns the most claims of which a report fits a segment.
    fn most_claims(&self) -> usize {
        let fixed = 64 + sdnv::MAX_LEN;
        ((self.config.segment.max(fixed + 20) - fixed) / 10).max(1)
    }

    /// Returns `true` if a block of an engine may begin.
    fn has_room(&mut self, engine: u64, len: u64) -> bool {
        loop {
            let is_beyond = self.held.saturating_add(len) > self.config.incomplete;
            if !is_beyond && self.imports.len() < self.config.imports {
                return true;
            }
            if !self.make_room(engine, is_beyond) {
                return false;
            }
        }
    }

    /// Returns `true` if a session of another engine gave way.
    ///
    /// It is of the engine that has the most, and more than this one is to have. So no peer takes all sessions, or all bytes of incomplete blocks. Sessions of which only a report is not acknowledged go first.
    fn make_room(&mut self, engine: u64, is_for_bytes: bool) -> bool {
        let amount = |import: &Import| if is_for_bytes { import.content.held() } else { 1 };
        let mut by_engine: BTreeMap<u64, u64> = BTreeMap::new();
        self.imports
            .iter()
            .for_each(|(session, import)| *by_engine.entry(session.engine).or_default() += amount(import));
        let own = by_engine.get(&engine).copied().unwrap_or(0);
        let Some((greedy, most)) = by_engine.into_iter().max_by_key(|(_, amount)| *amount) else {
            return false;
        };
        if greedy == engine || most <= own + u64::from(!is_for_bytes) {
            return false;
        }
        let of_it =
            self.imports.iter().filter(|(session, import)| session.engine == greedy && amount(import) > 0);
        let state = |import: &Import| (import.has_delivered_red, import.cancelled.is_some());
        let oldest = of_it.min_by_key(|(session, import)| (state(import) == (false, false), session.number));
        let Some((session, state)) = oldest.map(|(session, import)| (*session, state(import))) else {
            return false;
        };
        match state {
            (true, _) => self.close_import(session),
            (false, true) => self.forget_import(session),
            (false, false) => {
                self.counts.failed += 1;
                self.events.push_back(Event::Cancelled(session, Reason::System));
                self.forget_import(session);
            }
        }
        true
    }

    /// Handles data that a segment of `segment` bytes has.
    pub(super) fn handle_data(
        &mut self,
        (session, segment): (SessionId, usize),
        data: &Data,
        bytes: &[u8],
        now: Time,
    ) {
        if let Some(closed) = self.closed.get_mut(&session) {
            // The report's acknowledgement may have closed it while a checkpoint was on its way again.
            if let Some((serial, _)) = data.checkpoint.filter(|_| closed.red_end > 0) {
                closed.next_serial += 1;
                let Closed { red_end, next_serial } = *closed;
                let report = Report {
                    serial: next_serial,
                    checkpoint: serial,
                    upper: red_end,
                    lower: 0,
                    claims: vec![(0, red_end)],
                };
                self.push(session.engine, Control::LateReport(session, report));
            }
            return;
        }
        let is_new = !self.imports.contains_key(&session);
        let len = bytes.len() as u64;
        let has_room = match is_new {
            true => self.has_room(session.engine, len),
            false => self.held.saturating_add(len) <= self.config.incomplete.saturating_mul(2),
        };
        if !has_room {
            self.counts.refused += 1;
            return;
        }
        let (first, most, limit) = (self.serial(), self.most_claims(), self.config.block);
        let import = self.imports.entry(session).or_insert_with(|| Import::new(data.client, first));
        import.credit.earn(segment as u64);
        if import.cancelled.is_some() {
            return;
        }
        // Nothing of a block for a client service that does not exist is kept (RFC 5326, section 6.1).
        if self.config.service != data.client {
            return self.cancel_import(session, Reason::Unreachable);
        }
        let before = import.content.held();
        let taken = import.take(data, bytes, limit);
        self.held = self.held + import.content.held() - before;
        if let Err(reason) = taken.and_then(|()| import.bound_reports()) {
            return self.cancel_import(session, reason);
        }
        let end = data.offset + bytes.len() as u64;
        let serials = data
            .checkpoint
            .map(|checkpoint| import.report(session, checkpoint, end, most))
            .unwrap_or_default();
        let before = import.content.held();
        let (delivery, client, is_green) = (import.delivery(), import.client, import.red_seen == 0);
        self.held -= before - import.content.held();
        serials.into_iter().for_each(|serial| self.push(session.engine, Control::Report(session, serial)));
        if let Some(data) = delivery {
            self.events.push_back(Event::Received { session, client, data, is_red: !is_green });
        }
        self.close_or_wait(session, is_green, now);
    }

    /// Closes a green block that is delivered, or starts its idle timer.
    fn close_or_wait(&mut self, session: SessionId, is_green: bool, now: Time) {
        let is_delivered = self.imports.get(&session).is_some_and(|import| import.has_delivered_red);
        match (is_green, is_delivered) {
            (true, true) => self.close_import(session),
            (_, false) => {
                // A red part may still be repeated by its sender, as often as its checkpoint is.
                let rounds = if is_green { 1 } else { u64::from(self.config.tries) + 1 };
                let after = self.timeout(session.engine) * rounds;
                self.timers.start(Timer::Idle(session), session.engine, now, after);
            }
            (false, true) => self.timers.stop(&Timer::Idle(session)),
        }
    }

    /// Closes a session that has all, and remembers it.
    fn close_import(&mut self, session: SessionId) {
        let Some(import) = self.imports.remove(&session) else { return };
        self.held -= import.content.held();
        self.timers.stop(&Timer::Idle(session));
        import.reports.keys().for_each(|serial| self.timers.stop(&Timer::Report(session, serial)));
        self.remember(
            session,
            Closed { red_end: import.red_end.unwrap_or(0), next_serial: import.next_serial },
        );
    }

    fn remember(&mut self, session: SessionId, closed: Closed) {
        if self.closed_order.len() == MEMORY
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
        self.closed_order.push_back(session);
        self.closed.insert(session, closed);
    }

    pub(super) fn handle_report_ack(&mut self, session: SessionId, serial: u64) {
        self.timers.stop(&Timer::Report(session, serial));
        let Some(import) = self.imports.get_mut(&session) else { return };
        import.reports.remove(serial);
        if import.has_delivered_red && import.reports.is_empty() {
            self.close_import(session);
        }
    }

    pub(super) fn report_expired(&mut self, session: SessionId, serial: u64) {
        let limit = self.config.tries;
        let Some(import) = self.imports.get_mut(&session) else { return };
        let Some(open) = import.reports.get_mut(serial) else { return };
        open.tries += 1;
        let is_over = open.tries >= limit;
        match (is_over, import.has_delivered_red) {
            // All is there: the sender's repeated checkpoint will be answered from memory.
            (true, true) => self.close_import(session),
            (true, false) => self.cancel_import(session, Reason::Retransmissions),
            (false, _) => self.push(session.engine, Control::Report(session, serial)),
        }
    }

    pub(super) fn cancel_import(&mut self, session: SessionId, reason: Reason) {
        let Some(import) = self.imports.get_mut(&session) else { return };
        if import.cancelled.is_some() {
            return;
        }
        import.cancelled = Some((reason, 0));
        self.held -= std::mem::take(&mut import.content).held();
        import.reports.drain().for_each(|serial| self.timers.stop(&Timer::Report(session, serial)));
        self.timers.stop(&Timer::Idle(session));
        self.counts.failed += 1;
        self.events.push_back(Event::Cancelled(session, reason));
        self.push(session.engine, Control::CancelImport(session));
    }

    pub(super) fn cancel_import_expired(&mut self, session: SessionId) {
        let limit = self.config.tries;
        let Some((_, tries)) = self.imports.get_mut(&session).and_then(|import| import.cancelled.as_mut())
        else {
            return;
        };
        *tries += 1;
        match *tries >= limit {
            true => self.forget_import(session),
            false => self.push(session.engine, Control::CancelImport(session)),
        }
    }

    pub(super) fn idle_expired(&mut self, session: SessionId) {
        let is_green = self.imports.get(&session).is_some_and(|import| import.red_seen == 0);
        if is_green { self.forget_import(session) } else { self.cancel_import(session, Reason::Cycles) }
    }

    pub(super) fn forget_import(&mut self, session: SessionId) {
        self.timers.stop(&Timer::CancelImport(session));
        if self.imports.contains_key(&session) {
            self.close_import(session);
            self.closed.entry(session).and_modify(|closed| closed.red_end = 0);
        }
    }

    pub(super) fn handle_sender_cancel(&mut self, session: SessionId, reason: Reason) {
        self.push(session.engine, Control::SenderCancelAck(session));
        if let Some(import) = self.imports.get(&session) {
            if !import.has_delivered_red && import.cancelled.is_none() {
                self.counts.failed += 1;
                self.events.push_back(Event::Cancelled(session, reason));
            }
            self.forget_import(session);
        }
    }
}
