//! Transaction at the receiver of a file.

use std::hash::{DefaultHasher, Hash, Hasher};

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::cfdp::{
    ChecksumKind, Common, Condition, Content, FileStatus, Metadata, Pdu, Status, checksum,
};

use super::segments::Segments;
use super::{Config, Event, Outcome, ReceivedFile};
use crate::credit::Credit;

/// Maximum number of requests in a NAK.
const MAX_REQUESTS: usize = 64;

/// Description of the file, as received.
#[derive(Clone, Debug)]
struct Description {
    kind: Option<ChecksumKind>,
    wants_closure: bool,
    /// Hash of the names and the size.
    hash: u64,
    source: Vec<u8>,
    destination: Vec<u8>,
}

/// Memory of a transaction that is over.
#[derive(Clone, Debug)]
pub(super) struct Past {
    condition: Condition,
    status: FileStatus,
    /// Hash of the names and the size, if they came.
    description: Option<u64>,
    /// Checksum and size, if they came.
    end: Option<(u32, u64)>,
}

impl Past {
    /// Returns `true` if a PDU is of another file than that of the transaction.
    ///
    /// What is repeated late is as it was.
    pub(super) fn is_other(&self, content: &Content<'_>) -> bool {
        match content {
            Content::Metadata(metadata) => self.description.is_some_and(|known| known != hash(metadata)),
            Content::EndOfFile { condition: Condition::NoError, checksum, size } => {
                self.end.is_some_and(|known| known != (*checksum, *size))
            }
            _ => false,
        }
    }

    /// Returns the report of the transaction's end.
    pub(super) fn finished(&self) -> Content<'static> {
        let is_complete = self.condition == Condition::NoError;
        Content::Finished { condition: self.condition, is_complete, status: self.status }
    }
}

/// Returns a hash of the names and the size of a file.
fn hash(metadata: &Metadata<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (metadata.size, metadata.source, metadata.destination).hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Receiving,
    /// The end is reported and not acknowledged.
    Finishing,
    Over,
}

#[derive(Debug)]
pub(super) struct Receiving {
    common: Common,
    /// Key of the host that began it, or the source.
    pub(super) origin: u64,
    limit: u64,
    timeout: Span,
    inactivity: Span,
    tries: u32,
    stage: Stage,
    description: Option<Description>,
    segments: Segments,
    /// Memory that the entity counts.
    pub(super) counted: usize,
    /// Bytes of answers that the sender may still cause.
    pub(super) credit: Credit,
    /// Set by a timeout: a short PDU may leave without credit.
    is_due: bool,
    /// Checksum and size.
    end: Option<(u32, u64)>,
    condition: Condition,
    status: FileStatus,
    /// Acknowledgement of the end of the file that waits.
    ack: Option<Condition>,
    needs_nak: bool,
    needs_finished: bool,
    needs_keep_alive: bool,
    /// Next byte of the scope of a NAK in several PDUs.
    nak_from: u64,
    repeats: u32,
    /// Bytes received at the last timeout.
    known: u64,
    repeat_at: Time,
    quiet_at: Time,
    event: Option<Event>,
}

impl Receiving {
    pub(super) fn new(config: &Config, common: Common, origin: u64, now: Time) -> Receiving {
        Receiving {
            common,
            origin,
            limit: config.file,
            timeout: config.timeout,
            inactivity: config.inactivity,
            tries: config.tries,
            stage: Stage::Receiving,
            description: None,
            segments: Segments::default(),
            counted: 0,
            credit: Credit::default(),
            is_due: false,
            end: None,
            condition: Condition::NoError,
            status: FileStatus::Retained,
            ack: None,
            needs_nak: false,
            needs_finished: false,
            needs_keep_alive: false,
            nak_from: 0,
            repeats: 0,
            known: 0,
            repeat_at: Time::NEVER,
            quiet_at: now + config.inactivity,
            event: None,
        }
    }

    /// Returns what is remembered after the end.
    pub(super) fn past(&self) -> Past {
        let description = self.description.as_ref().map(|file| file.hash);
        Past { condition: self.condition, status: self.status, description, end: self.end }
    }

    /// Returns the time at which it ends unless more comes.
    pub(super) fn quiet_at(&self) -> Time {
        self.quiet_at
    }

    pub(super) fn used(&self) -> usize {
        self.segments.used()
    }

    pub(super) fn handle(&mut self, content: &Content<'_>, room: usize, now: Time) {
        self.quiet_at = now + self.inactivity;
        match content {
            Content::EndOfFile { condition, checksum, size } => {
                self.on_end(*condition, (*checksum, *size), now)
            }
            Content::AckFinished(..) if self.stage == Stage::Finishing => self.stage = Stage::Over,
            _ if self.stage != Stage::Receiving => {}
            Content::Metadata(metadata) => self.on_metadata(metadata, now),
            Content::Data(offset, data) => self.on_data(*offset, data, room, now),
            Content::Prompt(true) => self.needs_keep_alive = true,
            Content::Prompt(false) => self.request(),
            _ => {}
        }
        self.check(now);
    }

    fn on_metadata(&mut self, metadata: &Metadata<'_>, now: Time) {
        if self.description.is_some() {
            return;
        }
        if metadata.size > self.limit {
            return self.cancel(Condition::FilestoreRejection, now);
        }
        self.description = Some(Description {
            kind: ChecksumKind::from_number(metadata.checksum),
            wants_closure: metadata.wants_closure,
            hash: hash(metadata),
            source: metadata.source.to_vec(),
            destination: metadata.destination.to_vec(),
        });
    }

    fn on_data(&mut self, offset: u64, data: &[u8], room: usize, now: Time) {
        let end = offset.saturating_add(data.len() as u64);
        let beyond = self.end.is_some_and(|(_, size)| end > size);
        if beyond || end > self.limit {
            return self.cancel(Condition::FileSize, now);
        }
        // Without memory it is lost, and requested later.
        if data.len() + super::MARGIN <= room {
            self.segments.put(offset, data);
        }
    }

    fn on_end(&mut self, condition: Condition, (sum, size): (u32, u64), now: Time) {
        if self.common.is_acknowledged {
            self.ack = Some(condition);
        }
        if self.stage != Stage::Receiving {
            return;
        }
        if condition != Condition::NoError {
            return self.cancel(condition, now);
        }
        if size < self.segments.end() || size > self.limit {
            return self.cancel(Condition::FileSize, now);
        }
        if self.end.replace((sum, size)).is_none() {
            self.repeat_at = now + self.timeout;
            self.request();
        }
    }

    fn request(&mut self) {
        (self.needs_nak, self.nak_from) = (self.common.is_acknowledged, 0);
    }

    fn is_missing(&self, size: u64) -> bool {
        self.description.is_none() || self.segments.bytes() < size
    }

    /// Finishes once all of the file is there.
    fn check(&mut self, now: Time) {
        let Some((sum, size)) =
            self.end.filter(|(_, size)| self.stage == Stage::Receiving && !self.is_missing(*size))
        else {
            return;
        };
        let Some(description) = self.description.clone() else { return };
        let data = self.segments.take();
        debug_assert_eq!(data.len() as u64, size);
        // A checksum that cannot be computed is not a reason to discard the file.
        if description.kind.is_some_and(|kind| checksum(kind, &data) != sum) {
            return self.cancel(Condition::FileChecksum, now);
        }
        let Description { source, destination, .. } = description;
        let file = ReceivedFile { source_name: source, destination_name: destination, data };
        self.event = Some(Event::Received(self.common.transaction, file));
        self.finish(now);
    }

    /// Ends the transaction without the file.
    pub(super) fn cancel(&mut self, condition: Condition, now: Time) {
        if self.stage != Stage::Receiving {
            return;
        }
        (self.condition, self.status) = (condition, FileStatus::Discarded);
        self.event = Some(Event::Failed(self.common.transaction, condition, self.segments.bytes()));
        self.segments = Segments::default();
        self.finish(now);
    }

    fn finish(&mut self, now: Time) {
        (self.needs_nak, self.needs_keep_alive, self.repeats) = (false, false, 0);
        let is_reported =
            self.common.is_acknowledged || self.description.as_ref().is_some_and(|file| file.wants_closure);
        self.needs_finished = is_reported;
        self.stage = if is_reported { Stage::Finishing } else { Stage::Over };
        self.repeat_at = if is_reported { now + self.timeout } else { Time::NEVER };
    }

    /// Returns the next PDU.
    pub(super) fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        if let Some(condition) = self.ack.take() {
            let ack = self.pdu(Content::AckEndOfFile(condition, Status::Active));
            if let Some(ack) = self.afford(ack) {
                return Some(ack);
            }
        }
        if std::mem::take(&mut self.needs_keep_alive) {
            let progress = self.segments.gaps(0, u64::MAX, 1)[0].0;
            let pdu = self.pdu(Content::KeepAlive(progress));
            if let Some(pdu) = self.afford(pdu) {
                return Some(pdu);
            }
        }
        if self.needs_nak {
            return self.nak();
        }
        if std::mem::take(&mut self.needs_finished) {
            if self.common.is_acknowledged {
                self.repeat_at = now + self.timeout;
            } else {
                self.stage = Stage::Over;
            }
            let is_complete = self.condition == Condition::NoError;
            let (condition, status) = (self.condition, self.status);
            let pdu = self.pdu(Content::Finished { condition, is_complete, status });
            return self.afford(pdu);
        }
        None
    }

    fn pdu(&self, content: Content<'_>) -> Vec<u8> {
        Pdu { common: self.common, content }.to_vec()
    }

    /// Returns a PDU with credit for it, or the one of a timeout. Others count as lost.
    fn afford(&mut self, pdu: Vec<u8>) -> Option<Vec<u8>> {
        let is_affordable = self.credit.spend(pdu.len() as u64) || std::mem::take(&mut self.is_due);
        is_affordable.then_some(pdu)
    }

    /// Returns a request for what is missing. Several follow each other where one has no room for all.
    ///
    /// With little credit it is for the first parts alone, and the next timeout asks for others.
    fn nak(&mut self) -> Option<Vec<u8>> {
        let end = self.end.map_or(self.segments.end(), |(_, size)| size);
        let start = self.nak_from;
        let names = usize::from(start == 0 && self.description.is_none());
        let most = MAX_REQUESTS.min(self.affordable_requests().saturating_sub(names)).max(1);
        let mut requests = self.segments.gaps(start, end, most);
        let scope = if requests.len() < most { end } else { requests[most - 1].1 };
        if names > 0 {
            requests.insert(0, (0, 0));
        }
        self.nak_from = scope;
        self.needs_nak = scope < end;
        if requests.is_empty() {
            return None;
        }
        let pdu = self.pdu(Content::Nak { start, end: scope, requests });
        let pdu = self.afford(pdu);
        self.needs_nak &= pdu.is_some();
        pdu
    }

    /// Returns the number of requests for which there is credit in a NAK.
    fn affordable_requests(&self) -> usize {
        let len = |requests| self.pdu(Content::Nak { start: 0, end: 0, requests }).len() as u64;
        let (none, one) = (len(Vec::new()), len(vec![(0, 0)]));
        (self.credit.left().saturating_sub(none) / (one - none)) as usize
    }

    pub(super) fn deadline(&self) -> Time {
        if self.stage == Stage::Over { Time::NEVER } else { self.repeat_at.min(self.quiet_at) }
    }

    /// Runs the timers.
    pub(super) fn expire(&mut self, now: Time) {
        if self.stage == Stage::Over || self.deadline() > now {
            return;
        }
        if self.quiet_at <= now {
            return self.abandon(Condition::Inactivity);
        }
        if self.stage == Stage::Receiving && self.segments.bytes() > self.known {
            (self.known, self.repeats) = (self.segments.bytes(), 0);
        }
        self.repeats += 1;
        self.is_due = true;
        self.repeat_at = now + self.timeout;
        let is_last = self.repeats > self.tries;
        match (self.stage, self.common.is_acknowledged) {
            (Stage::Receiving, true) if is_last => self.cancel(Condition::NakLimit, now),
            (Stage::Receiving, false) if is_last => self.cancel(Condition::CheckLimit, now),
            (Stage::Receiving, _) => self.request(),
            (Stage::Finishing, _) if is_last => self.stage = Stage::Over,
            _ => self.needs_finished = true,
        }
    }

    fn abandon(&mut self, condition: Condition) {
        if self.stage == Stage::Receiving {
            (self.condition, self.status) = (condition, FileStatus::Discarded);
            self.event = Some(Event::Failed(self.common.transaction, condition, self.segments.bytes()));
        }
        self.stage = Stage::Over;
    }

    pub(super) fn outcome(&mut self) -> Outcome {
        match (self.event.take(), self.stage) {
            (Some(event), _) => Outcome::Event(event),
            // The acknowledgement of the end leaves first.
            (None, Stage::Over) if self.ack.is_none() => Outcome::Over,
            (None, _) => Outcome::Continues,
        }
    }
}
