//! Path of a packet: compressed, perhaps lost or corrupted, decompressed, compared, feedback returned.

use std::collections::VecDeque;
use std::time::Duration;

use bentpipe_rohc::DecompressError;

use super::ends::{Receiver, Refusal, Sender, Sent, Unit};
use super::impairments::{ImpairmentConfig, Impairments};
use crate::capture::Packet;

/// Outcome of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketOutcome {
    /// Sent; there is no decompressor.
    Sent,
    /// Restored exactly.
    Right,
    /// Lost on the path, whole or in part.
    Lost,
    /// Refused by the decompressor.
    Refused(DecompressError),
    /// Neither restored nor refused.
    Nothing,
    /// Restored differently.
    Wrong,
}

/// Both ends of a channel and the path between them.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) sender: Sender,
    pub(crate) receiver: Option<Receiver>,
    forward: Option<Impairments>,
    back: Option<Impairments>,
    feedback_delay: Duration,
    /// Feedback to the last packet; empty for none.
    pub(crate) feedback: Vec<u8>,
    /// Feedback on its way, each with its time of arrival.
    returning: VecDeque<(Duration, Vec<u8>)>,
    corrupted: Vec<u8>,
}

impl Path {
    /// Creates a path without loss. Without a receiver there is no feedback.
    pub(crate) fn new(sender: Sender, receiver: Option<Receiver>) -> Path {
        Path {
            sender,
            receiver,
            forward: None,
            back: None,
            feedback_delay: Duration::ZERO,
            feedback: Vec::new(),
            returning: VecDeque::new(),
            corrupted: Vec::new(),
        }
    }

    /// Adds losses and bit errors in the forward direction, and losses and delay of feedback.
    pub(crate) fn with_impairments(self, config: &ImpairmentConfig) -> Path {
        Path {
            forward: Some(Impairments::forward(config)),
            back: Some(Impairments::feedback(config)),
            feedback_delay: config.feedback_delay,
            ..self
        }
    }

    /// Carries a packet.
    ///
    /// # Errors
    /// Returns an error if the sender cannot send it.
    pub(crate) fn carry(&mut self, packet: &Packet<'_>) -> Result<(Sent, PacketOutcome), Refusal> {
        self.feedback.clear();
        self.apply_feedback(packet.at());
        let sent = self.sender.send(packet)?;
        if self.receiver.is_none() {
            return Ok((sent, PacketOutcome::Sent));
        }
        let outcome = self.deliver(packet, sent.compressed.header_out);
        self.send_back(packet.at());
        Ok((sent, outcome))
    }

    fn deliver(&mut self, packet: &Packet<'_>, header_len: usize) -> PacketOutcome {
        let Some(receiver) = &mut self.receiver else { return PacketOutcome::Sent };
        let mut outcome = PacketOutcome::Nothing;
        for unit in self.sender.units() {
            if self.forward.as_mut().is_some_and(Impairments::loses) {
                outcome = PacketOutcome::Lost;
                continue;
            }
            let arrived = corrupted(unit, header_len, self.forward.as_mut(), &mut self.corrupted);
            outcome = match receiver.receive(packet.at(), arrived) {
                Ok(Some(received)) if receiver.ip() == packet.bytes && received.len == packet.len => {
                    PacketOutcome::Right
                }
                Ok(Some(_)) => PacketOutcome::Wrong,
                _ if outcome == PacketOutcome::Lost => PacketOutcome::Lost,
                Ok(None) => PacketOutcome::Nothing,
                Err(error) => PacketOutcome::Refused(error),
            };
        }
        outcome
    }

    /// Sends the feedback to a packet received at `now`.
    fn send_back(&mut self, now: Duration) {
        let Some(receiver) = &mut self.receiver else { return };
        let feedback = receiver.take_feedback();
        if feedback.is_empty() || self.back.as_mut().is_some_and(Impairments::loses) {
            return;
        }
        self.feedback.extend_from_slice(feedback);
        self.returning.push_back((now + self.feedback_delay, feedback.to_vec()));
        self.apply_feedback(now);
    }

    /// Passes the feedback that has arrived by `now` to the sender.
    fn apply_feedback(&mut self, now: Duration) {
        while self.returning.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, feedback)) = self.returning.pop_front() else { return };
            self.sender.apply_feedback(&feedback);
        }
    }

    /// Returns the known bytes of the restored packet, if there is one.
    pub(crate) fn ip(&self) -> &[u8] {
        self.receiver.as_ref().map_or(&[], Receiver::ip)
    }
}

/// Returns the unit, or a corrupted copy of it in `copy`.
fn corrupted<'a>(
    unit: Unit<'a>,
    header_len: usize,
    impairments: Option<&mut Impairments>,
    copy: &'a mut Vec<u8>,
) -> Unit<'a> {
    let Some(impairments) = impairments else { return unit };
    copy.clear();
    copy.extend_from_slice(unit.bytes);
    impairments.corrupts(copy, header_len);
    Unit { bytes: copy, ..unit }
}
