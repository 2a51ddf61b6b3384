//! Transaction at the sender of a file.

use std::collections::VecDeque;
use std::sync::Arc;

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::cfdp::{
    ChecksumKind, Common, Condition, Content, Metadata, Pdu, Status, Transaction, checksum,
};

use super::{Config, Event, Outcome, Put};

/// Maximum number of requested ranges that wait. A receiver requests the rest again.
const MAX_REQUESTS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Data is sent for the first time.
    Sending,
    /// The end of the file is not acknowledged.
    AwaitingAck,
    /// The receiver has not reported its end.
    AwaitingFinished,
    Over,
}

#[derive(Debug)]
pub(super) struct Sending {
    common: Common,
    put: Put,
    kind: ChecksumKind,
    checksum: u32,
    segment: usize,
    timeout: Span,
    inactivity: Span,
    tries: u32,
    closure: bool,
    stage: Stage,
    condition: Condition,
    /// Next byte that was never sent.
    next: u64,
    needs_metadata: bool,
    needs_end: bool,
    needs_ack: bool,
    requests: VecDeque<(u64, u64)>,
    repeats: u32,
    /// Time to repeat the end of the file.
    repeat_at: Time,
    quiet_at: Time,
    event: Option<Event>,
}

impl Sending {
    pub(super) fn new(config: &Config, transaction: Transaction, put: Put, now: Time) -> Sending {
        let size = put.file.len() as u64;
        let common = Common {
            is_acknowledged: put.is_acknowledged,
            has_crc: config.has_crc,
            is_large: size > u32::MAX.into(),
            ..Common::new(transaction, put.destination)
        };
        Sending {
            common,
            kind: config.checksum,
            checksum: checksum(config.checksum, &put.file),
            put,
            segment: config.segment.clamp(1, 65_000),
            timeout: config.timeout,
            inactivity: config.inactivity,
            tries: config.tries,
            closure: config.closure,
            stage: Stage::Sending,
            condition: Condition::NoError,
            next: 0,
            needs_metadata: true,
            needs_end: false,
            needs_ack: false,
            requests: VecDeque::new(),
            repeats: 0,
            repeat_at: Time::NEVER,
            quiet_at: now + config.inactivity,
            event: None,
        }
    }

    pub(super) fn destination(&self) -> u64 {
        self.common.destination
    }

    fn size(&self) -> u64 {
        self.put.file.len() as u64
    }

    /// Ends the transaction early: the end of the file says why.
    pub(super) fn cancel(&mut self, condition: Condition, now: Time) {
        if self.condition != Condition::NoError || self.needs_ack || self.stage == Stage::Over {
            return;
        }
        self.condition = condition;
        self.event = Some(Event::Failed(self.common.transaction, condition, self.next));
        self.requests.clear();
        (self.needs_metadata, self.needs_end, self.repeats) = (false, true, 0);
        self.stage = Stage::AwaitingAck;
        self.repeat_at = now;
    }

    pub(super) fn handle(&mut self, content: &Content<'_>, now: Time) {
        self.quiet_at = now + self.inactivity;
        match content {
            Content::AckEndOfFile(..) if self.stage == Stage::AwaitingAck => {
                (self.stage, self.repeat_at) = (Stage::AwaitingFinished, Time::NEVER);
                self.needs_end = false;
            }
            Content::Nak { requests, .. } if self.common.is_acknowledged => {
                requests.iter().for_each(|request| self.request(*request));
            }
            Content::Finished { condition, is_complete, .. } => self.finish(*condition, *is_complete),
            _ => {}
        }
    }

    fn request(&mut self, (from, to): (u64, u64)) {
        if self.condition != Condition::NoError {
            return;
        }
        if (from, to) == (0, 0) {
            self.needs_metadata = true;
        }
        // What was never sent will be.
        let to = to.min(self.next);
        if from < to && self.requests.len() < MAX_REQUESTS && !self.requests.contains(&(from, to)) {
            self.requests.push_back((from, to));
        }
    }

    fn finish(&mut self, condition: Condition, is_complete: bool) {
        // A duplicate while the acknowledgement of the first waits.
        if self.needs_ack {
            return;
        }
        let transaction = self.common.transaction;
        if self.condition == Condition::NoError {
            self.event = Some(match condition {
                Condition::NoError => Event::Sent(transaction, is_complete),
                condition => Event::Failed(transaction, condition, self.next),
            });
            self.condition = condition;
        }
        self.requests.clear();
        (self.needs_metadata, self.needs_end) = (false, false);
        (self.needs_ack, self.repeat_at) = (self.common.is_acknowledged, Time::NEVER);
        if !self.needs_ack {
            self.stage = Stage::Over;
        }
    }

    /// Returns the next PDU.
    pub(super) fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.stage == Stage::Over {
            return None;
        }
        if std::mem::take(&mut self.needs_ack) {
            self.stage = Stage::Over;
            return Some(self.pdu(Content::AckFinished(self.condition, Status::Active)));
        }
        if std::mem::take(&mut self.needs_metadata) {
            return Some(self.metadata());
        }
        if let Some((from, to)) = self.requests.pop_front() {
            let end = to.min(from + self.segment as u64);
            if end < to {
                self.requests.push_front((end, to));
            }
            return Some(self.data(from, end));
        }
        if self.stage == Stage::Sending && self.next < self.size() {
            let from = self.next;
            self.next = self.size().min(from + self.segment as u64);
            return Some(self.data(from, self.next));
        }
        if self.stage == Stage::Sending || std::mem::take(&mut self.needs_end) {
            return Some(self.end(now));
        }
        None
    }

    fn pdu(&self, content: Content<'_>) -> Vec<u8> {
        Pdu { common: self.common, content }.to_vec()
    }

    fn data(&self, from: u64, to: u64) -> Vec<u8> {
        self.pdu(Content::Data(from, &self.put.file[from as usize..to as usize]))
    }

    fn metadata(&self) -> Vec<u8> {
        self.pdu(Content::Metadata(Metadata {
            wants_closure: self.closure,
            checksum: self.kind as u8,
            size: self.size(),
            source: self.put.source_name.as_bytes(),
            destination: self.put.destination_name.as_bytes(),
            options: &[],
        }))
    }

    fn end(&mut self, now: Time) -> Vec<u8> {
        if self.stage == Stage::Sending {
            self.stage = self.after_end();
        }
        if self.stage == Stage::AwaitingAck {
            if self.common.is_acknowledged {
                self.repeat_at = now + self.timeout;
            } else {
                self.stage = Stage::Over;
            }
        }
        if self.stage == Stage::AwaitingFinished {
            self.repeat_at = now + self.timeout * u64::from(self.tries.max(1));
        }
        let file: &Arc<[u8]> = &self.put.file;
        // Of a cancelled transaction it is the checksum of what was sent.
        let is_whole = self.condition == Condition::NoError;
        let sum = if is_whole { self.checksum } else { checksum(self.kind, &file[..self.next as usize]) };
        let size = if is_whole { self.size() } else { self.next };
        self.pdu(Content::EndOfFile { condition: self.condition, checksum: sum, size })
    }

    fn after_end(&mut self) -> Stage {
        match (self.common.is_acknowledged, self.closure) {
            (true, _) => Stage::AwaitingAck,
            (false, true) => Stage::AwaitingFinished,
            (false, false) => {
                self.event = Some(Event::Sent(self.common.transaction, false));
                Stage::Over
            }
        }
    }

    pub(super) fn deadline(&self) -> Time {
        match self.stage {
            Stage::Sending | Stage::Over => Time::NEVER,
            _ => self.repeat_at.min(self.quiet_at),
        }
    }

    /// Runs the timers.
    pub(super) fn expire(&mut self, now: Time) {
        if self.deadline() > now {
            return;
        }
        if self.quiet_at <= now {
            return self.abandon(Condition::Inactivity);
        }
        match self.stage {
            Stage::AwaitingAck if self.repeats >= self.tries => self.abandon(Condition::AckLimit),
            Stage::AwaitingAck => {
                self.repeats += 1;
                (self.needs_end, self.repeat_at) = (true, now + self.timeout);
            }
            _ => self.abandon(Condition::CheckLimit),
        }
    }

    fn abandon(&mut self, condition: Condition) {
        if self.condition == Condition::NoError && !self.needs_ack {
            self.event = Some(Event::Failed(self.common.transaction, condition, self.next));
        }
        self.stage = Stage::Over;
    }

    pub(super) fn outcome(&mut self) -> Outcome {
        match (self.event.take(), self.stage) {
            (Some(event), _) => Outcome::Event(event),
            (None, Stage::Over) => Outcome::Over,
            (None, _) => Outcome::Continues,
        }
    }
}
