//! Encapsulation of PDUs into data fields.

use std::collections::VecDeque;

use crate::crc32::Crc32;
use crate::dvb::ule::Type;

use super::{
    BASE_HEADER_LEN, CRC_LEN, FRAG_ID_LEN, Label, MAX_LENGTH, Packet, PduLength, Repr, TOTAL_LENGTH_LEN,
    TYPE_LEN, crc,
};

/// Length in bytes of a middle fragment's header.
const FRAGMENT_HEADER_LEN: usize = BASE_HEADER_LEN + FRAG_ID_LEN;

/// A PDU of which something is to be sent yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    kind: Type,
    label: Label,
    /// Extension headers, which are not split.
    extensions_len: usize,
    /// Length of extension headers and PDU to send.
    body_len: usize,
    /// Fragment identifier and running CRC, once the PDU is fragmented.
    fragments: Option<(u8, Crc32)>,
}

/// Input stream shared by encapsulators: fragment identifiers, and the label for re-use.
#[derive(Clone, Debug, Default)]
pub struct InputStream {
    /// Fragment identifier of the next PDU that is fragmented.
    frag_id: u8,
    /// Label of the previous packet in the data field.
    label: Option<Label>,
}

impl InputStream {
    /// Begins a data field, in which no label can be re-used yet.
    pub fn begin_field(&mut self) {
        self.label = None;
    }

    /// Returns the fragment identifier of a PDU, and passes on to the next one.
    fn next_frag_id(&mut self) -> u8 {
        let frag_id = self.frag_id;
        self.frag_id = frag_id.wrapping_add(1);
        frag_id
    }
}

/// Encapsulator that fills data fields with PDUs in order and fragments the last.
///
/// PDUs wait in a queue, whose length is the caller's to bound.
#[derive(Clone, Debug, Default)]
pub struct Encapsulator {
    queue: VecDeque<Waiting>,
    /// The bodies of all that waits, behind `sent` bytes of what does not any more.
    bodies: Vec<u8>,
    sent: usize,
    re_use: bool,
    /// Input stream of its own, for [`Encapsulator::fill`].
    own: InputStream,
}

impl Encapsulator {
    /// Creates an encapsulator without PDUs.
    pub fn new() -> Encapsulator {
        Encapsulator::default()
    }

    /// Enables label re-use for a whole PDU to the previous receiver in the frame.
    #[must_use]
    pub fn re_using_labels(self) -> Encapsulator {
        Encapsulator { re_use: true, ..self }
    }

    /// Bytes of PDUs and their extension headers that wait.
    pub fn waiting_len(&self) -> usize {
        self.bodies.len() - self.sent
    }

    /// Returns `true` if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a PDU to the queue. One whose extension headers have no room in the data fields there are stays at its head.
    ///
    /// # Errors
    /// Returns an error if GSE cannot carry a PDU of its length; it is not queued then.
    pub fn push(&mut self, repr: &Repr<'_>, pdu: &[u8]) -> Result<(), PduLength> {
        self.push_elided(repr, pdu, 0)
    }

    /// Queues a PDU, as [`Encapsulator::push`], that ends with `elided` zeros which `pdu` leaves out. They
    /// are written out.
    ///
    /// # Errors
    /// Returns the errors of [`Encapsulator::push`].
    pub fn push_elided(&mut self, repr: &Repr<'_>, pdu: &[u8], elided: usize) -> Result<(), PduLength> {
        repr.check_pdu_len(pdu.len() + elided)?;
        self.forget_sent();
        let start = self.bodies.len();
        for (index, extension) in repr.extensions.iter().enumerate() {
            let next = repr.extensions.get(index + 1).map_or(repr.kind, crate::dvb::ule::Extension::kind);
            self.bodies.extend_from_slice(extension.data());
            self.bodies.extend(next.0.to_be_bytes());
        }
        let extensions_len = self.bodies.len() - start;
        self.bodies.extend_from_slice(pdu);
        self.bodies.resize(self.bodies.len() + elided, 0);
        let kind = repr.extensions.first().map_or(repr.kind, crate::dvb::ule::Extension::kind);
        let body_len = self.bodies.len() - start;
        self.queue.push_back(Waiting { kind, label: repr.label, extensions_len, body_len, fragments: None });
        Ok(())
    }

    /// Compacts the buffer once over half of it is sent. Each byte moves at most once.
    fn forget_sent(&mut self) {
        if self.sent > self.bodies.len() / 2 {
            self.bodies.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Returns `true` if the next PDU is fragmented and its first fragment sent.
    pub fn is_fragmented(&self) -> bool {
        self.queue.front().is_some_and(|first| first.fragments.is_some())
    }

    /// Appends a data field of at most `capacity` bytes to `out` and returns its length. It is shorter if the
    /// queue is empty or the rest has no room for a start or a fragment. Pad the frame with zeros, GSE's
    /// padding.
    pub fn fill(&mut self, capacity: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let mut own = std::mem::take(&mut self.own);
        own.begin_field();
        while self.fill_packet(&mut own, capacity - (out.len() - start), out) > 0 {}
        self.own = own;
        out.len() - start
    }

    /// Appends a packet of at most `room` bytes to a data field. Returns its length. It is 0 if nothing waits or the
    /// room does not suffice.
    pub fn fill_packet(&mut self, stream: &mut InputStream, room: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let Some(mut first) = self.queue.pop_front() else { return 0 };
        let is_sent = self.send(&mut first, room, stream, out);
        if !is_sent || (first.fragments.is_some() && first.body_len > 0) {
            self.queue.push_front(first);
        }
        out.len() - start
    }

    /// Returns `true` if part of a PDU fits a packet in `room` and was sent.
    fn send(&mut self, pdu: &mut Waiting, room: usize, stream: &mut InputStream, out: &mut Vec<u8>) -> bool {
        if let Some((frag_id, crc)) = pdu.fragments {
            return self.send_fragment(pdu, frag_id, crc, room, out);
        }
        let shown = if self.re_use && stream.label == Some(pdu.label) { None } else { Some(pdu.label) };
        let header_len = BASE_HEADER_LEN + TYPE_LEN + shown.map_or(0, Label::len);
        let is_sent = if header_len + pdu.body_len <= room.min(BASE_HEADER_LEN + MAX_LENGTH) {
            let body = &self.bodies[self.sent..self.sent + pdu.body_len];
            Packet::Complete { kind: pdu.kind, label: shown, body }.emit(out);
            self.sent += pdu.body_len;
            true
        } else {
            self.send_first(pdu, room, stream, out)
        };
        if is_sent {
            stream.label = Some(pdu.label);
        }
        is_sent
    }

    /// Returns `true` if a first fragment was sent, which always includes its label. Interpretations differ on
    /// whether the CRC covers a label that is left out.
    fn send_first(
        &mut self,
        pdu: &mut Waiting,
        room: usize,
        stream: &mut InputStream,
        out: &mut Vec<u8>,
    ) -> bool {
        let header_len = BASE_HEADER_LEN + FRAG_ID_LEN + TOTAL_LENGTH_LEN + TYPE_LEN + pdu.label.len();
        let most = room.min(BASE_HEADER_LEN + MAX_LENGTH).saturating_sub(header_len);
        let len = most.min(pdu.body_len.saturating_sub(1));
        if len <= pdu.extensions_len {
            return false;
        }
        let total_len = TYPE_LEN + pdu.label.len() + pdu.body_len;
        let (kind, label, frag_id) = (pdu.kind, Some(pdu.label), stream.next_frag_id());
        let body = &self.bodies[self.sent..self.sent + len];
        Packet::First { frag_id, total_len, kind, label, body }.emit(out);
        pdu.fragments = Some((frag_id, crc(total_len, kind, label).add_bytes(body)));
        pdu.body_len -= len;
        self.sent += len;
        true
    }

    /// Returns `true` if a middle fragment was sent. It leaves at least a byte for the last one. The last one's CRC
    /// is not split.
    fn send_fragment(
        &mut self,
        pdu: &mut Waiting,
        frag_id: u8,
        crc: Crc32,
        room: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let most = room.min(BASE_HEADER_LEN + MAX_LENGTH).saturating_sub(FRAGMENT_HEADER_LEN);
        let is_last = pdu.body_len + CRC_LEN <= most;
        let len = if is_last { pdu.body_len } else { most.min(pdu.body_len - 1) };
        if len == 0 {
            return false;
        }
        let body = &self.bodies[self.sent..self.sent + len];
        let crc = crc.add_bytes(body);
        if is_last {
            Packet::Last { frag_id, body, crc: crc.register() }.emit(out);
        } else {
            Packet::Middle { frag_id, body }.emit(out);
        }
        pdu.fragments = Some((frag_id, crc));
        pdu.body_len -= len;
        self.sent += len;
        true
    }
}
