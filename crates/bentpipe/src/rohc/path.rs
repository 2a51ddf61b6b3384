//! The way of a packet: compressed, perhaps lost or damaged, decompressed, compared, feedback sent back.

use bentpipe_rohc::DecompressError;

use super::capture::Packet;
use super::ends::{Receiver, Refusal, Sender, Sent, Unit};
use super::weather::Weather;

/// What became of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody decompressed it.
    Sent,
    /// It came out as it went in.
    Right,
    /// It, or a segment of it, was lost on the way.
    Lost,
    /// The decompressor refused it.
    Refused(DecompressError),
    /// Nothing came out, and nothing was refused.
    Nothing,
    /// Something else came out than went in.
    Wrong,
}

/// Both ends of a channel and the way between them.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) sender: Sender,
    receiver: Option<Receiver>,
    forth: Option<Weather>,
    back: Option<Weather>,
    /// What the receiver sent back after the last packet; empty for nothing.
    pub(super) feedback: Vec<u8>,
    damaged: Vec<u8>,
}

impl Path {
    /// A path without loss. Without a receiver there is no feedback.
    pub(super) fn new(sender: Sender, receiver: Option<Receiver>) -> Path {
        Path { sender, receiver, forth: None, back: None, feedback: Vec::new(), damaged: Vec::new() }
    }

    /// With losses and damage on the way there, and losses on the way back.
    pub(super) fn with_weather(self, forth: Weather, back: Weather) -> Path {
        Path { forth: Some(forth), back: Some(back), ..self }
    }

    /// Carries a packet.
    ///
    /// # Errors
    /// If the sender cannot send it.
    pub(super) fn carry(&mut self, packet: &Packet<'_>) -> Result<(Sent, Fate), Refusal> {
        self.feedback.clear();
        let sent = self.sender.send(packet)?;
        if self.receiver.is_none() {
            return Ok((sent, Fate::Sent));
        }
        let fate = self.deliver(packet, sent.compressed.header_out);
        self.send_back();
        Ok((sent, fate))
    }

    fn deliver(&mut self, packet: &Packet<'_>, header_len: usize) -> Fate {
        let Some(receiver) = &mut self.receiver else { return Fate::Sent };
        let mut fate = Fate::Nothing;
        for unit in self.sender.units() {
            if self.forth.as_mut().is_some_and(Weather::loses) {
                fate = Fate::Lost;
                continue;
            }
            let arrived = damaged(unit, header_len, self.forth.as_mut(), &mut self.damaged);
            fate = match receiver.receive(packet.at(), arrived) {
                Ok(Some(received)) if receiver.ip() == packet.bytes && received.len == packet.len => {
                    Fate::Right
                }
                Ok(Some(_)) => Fate::Wrong,
                _ if fate == Fate::Lost => Fate::Lost,
                Ok(None) => Fate::Nothing,
                Err(error) => Fate::Refused(error),
            };
        }
        fate
    }

    fn send_back(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let feedback = receiver.take_feedback();
        if feedback.is_empty() || self.back.as_mut().is_some_and(Weather::loses) {
            return;
        }
        self.feedback.extend_from_slice(feedback);
        self.sender.hear(feedback);
    }

    /// What is known of the packet that came out, if one did.
    pub(super) fn ip(&self) -> &[u8] {
        self.receiver.as_ref().map_or(&[], Receiver::ip)
    }
}

/// The unit, or a damaged copy of it in `copy`.
fn damaged<'a>(
    unit: Unit<'a>,
    header_len: usize,
    weather: Option<&mut Weather>,
    copy: &'a mut Vec<u8>,
) -> Unit<'a> {
    let Some(weather) = weather else { return unit };
    copy.clear();
    copy.extend_from_slice(unit.bytes);
    weather.damages(copy, header_len);
    Unit { bytes: copy, ..unit }
}
