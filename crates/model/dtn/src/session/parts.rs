//! Acknowledgements by the caller, and parts of bundles whose transfers are cut.
//!
//! A sender that knows which bytes the receiver keeps sends the rest alone. Acknowledgements say so only if the receiver does
//! keep them, which RFC 9174 does not ask for: both ends announce it by [`KEEPS_PARTS`]. The receiver then acknowledges a segment
//! of a transfer that goes on once its caller has stored it, so that the sender never starts behind what is stored.

use bentpipe_wire::dtn::tcpcl::{Extension, KEEPS_PARTS, Message, SegmentFlags};

use super::{Event, Session};

/// Usual least length of a part that is kept: [`super::Config::parts`].
pub const LEAST_PART: u64 = 1024;

/// Segment that the caller has not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unaccepted {
    pub(super) flags: SegmentFlags,
    pub(super) transfer: u64,
    /// Bytes of the transfer up to the end of the segment.
    pub(super) len: u64,
}

impl Session {
    /// Acknowledges the first received bundle that waits for it.
    pub fn accept(&mut self) {
        while let Some(Unaccepted { flags, transfer, len }) = self.unaccepted.pop_front() {
            self.put(&Message::Ack { flags, transfer, len });
            if flags.is_end() {
                self.unaccepted_ends -= 1;
                return self.end_if_idle();
            }
        }
    }

    /// Refuses the first received bundle that waits for an acknowledgement.
    pub fn decline(&mut self, reason: u8) {
        while let Some(Unaccepted { flags, transfer, .. }) = self.unaccepted.pop_front() {
            if flags.is_end() {
                self.unaccepted_ends -= 1;
                self.put(&Message::Refuse { reason, transfer });
                return self.end_if_idle();
            }
        }
    }

    /// Acknowledges segments of a transfer up to `len` bytes.
    ///
    /// The caller keeps them even if the rest does not arrive.
    pub fn acknowledge(&mut self, transfer: u64, len: u64) {
        let is_kept =
            |next: &Unaccepted| next.transfer == transfer && next.len <= len && !next.flags.is_end();
        while let Some(Unaccepted { flags, transfer, len }) = self.unaccepted.front().copied().filter(is_kept)
        {
            self.unaccepted.pop_front();
            self.put(&Message::Ack { flags, transfer, len });
        }
    }

    /// Returns the number and the bytes of the transfer that arrives.
    ///
    /// `None` if no part of it would be kept.
    pub fn incoming(&self) -> Option<(u64, &[u8])> {
        let least = self.config.parts.filter(|_| self.keeps_parts())?;
        let incoming = self.incoming.as_ref().filter(|incoming| !incoming.is_refused)?;
        let is_enough = incoming.data.len() as u64 >= least;
        is_enough.then_some((incoming.transfer, &incoming.data[..]))
    }

    /// Returns `true` if parts of bundles are kept by both ends.
    pub fn keeps_parts(&self) -> bool {
        self.parts.is_some() && !self.is_whole
    }

    /// Keeps no parts, nor expects it of the peer, although both may have announced it.
    pub fn keep_whole(&mut self) {
        self.is_whole = true;
    }

    /// Returns `true` if the peer ended the session after an announcement, without any message.
    ///
    /// RFC 9174 asks it to ignore the item, but some implementations know no items at all. They may have sent their own SESS_INIT.
    pub fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Returns `true` if the SESS_INIT of the peer says which items the own may have.
    pub(super) fn waits_for_init(&self) -> bool {
        self.config.is_passive && self.config.is_deferred && self.config.parts.is_some()
    }

    /// Returns the extension items of SESS_INIT.
    pub(super) fn announcement(&self) -> Vec<u8> {
        let mut items = Vec::new();
        let is_welcome = !self.config.is_passive || self.parts.is_some();
        if let Some(least) = self.config.parts.filter(|_| self.config.is_deferred && is_welcome) {
            let value = &least.to_be_bytes();
            Extension { is_critical: false, code: KEEPS_PARTS, value }.put(&mut items);
        }
        items
    }

    /// Notes what the peer has announced.
    pub(super) fn agree_on_parts(&mut self, items: &[Extension<'_>]) {
        let announced = items.iter().find(|item| item.code == KEEPS_PARTS);
        let least = announced.and_then(|item| item.value.try_into().ok().map(u64::from_be_bytes));
        self.parts = least.filter(|_| self.config.parts.is_some() && self.config.is_deferred);
    }

    /// Returns the bytes that the peer keeps of those it has acknowledged.
    pub(super) fn kept(&self, acknowledged: u64) -> u64 {
        let is_kept = self.keeps_parts() && self.parts.is_some_and(|least| acknowledged >= least);
        if is_kept { acknowledged } else { 0 }
    }

    /// Ends the transfer that arrives, as the session has ended.
    pub(super) fn end_incoming(&mut self) {
        let is_part = self.incoming().is_some();
        if let Some(incoming) = self.incoming.take().filter(|_| is_part) {
            self.events.push_back(Event::Cut(incoming.data));
        }
    }
}
