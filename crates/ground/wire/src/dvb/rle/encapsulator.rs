//! Encapsulation of packets into FPDUs.

use std::collections::VecDeque;

use crate::crc32::Crc32;
use crate::dvb::ule::Type;

use super::{
    Alpdu, FRAG_IDS, HEADER_LEN, MAX_LENGTH, MAX_TOTAL_LENGTH, Ppdu, Profile, Protection, START_HEADER_LEN,
    SduLength,
};

/// A packet of which something is to be sent yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    kind: Type,
    /// Length of the protocol type, which is not split.
    field_len: usize,
    /// Length of protocol type and packet to send.
    body_len: usize,
    /// Fragment-Id, once it is fragmented.
    frag_id: Option<u8>,
}

/// Encapsulator that fills FPDUs with packets in order, fragmenting the last one of an FPDU.
///
/// Packets wait in a queue, whose length is the caller's to bound.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    profile: Profile,
    queue: VecDeque<Waiting>,
    /// Protocol types and packets of all queued packets, after `sent` bytes already sent.
    bodies: Vec<u8>,
    sent: usize,
    /// Running CRC of the fragmented packet.
    crc: Crc32,
    next_frag_id: u8,
    /// The next sequence number of each Fragment-Id.
    sequence: [u8; FRAG_IDS as usize],
}

impl Encapsulator {
    /// Creates an encapsulator without packets.
    pub fn new(profile: Profile) -> Encapsulator {
        Encapsulator {
            profile,
            queue: VecDeque::new(),
            bodies: Vec::new(),
            sent: 0,
            crc: Crc32::new(),
            next_frag_id: 0,
            sequence: [0; FRAG_IDS as usize],
        }
    }

    /// Bytes of packets and their protocol types that wait.
    pub fn waiting_len(&self) -> usize {
        self.bodies.len() - self.sent
    }

    /// Returns `true` if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a packet to the queue.
    ///
    /// # Errors
    /// Returns an error if RLE cannot carry a packet of its length; it is not queued then.
    pub fn push(&mut self, kind: Type, sdu: &[u8]) -> Result<(), SduLength> {
        self.push_elided(kind, sdu, 0)
    }

    /// Queues a packet, as [`Encapsulator::push`], that ends with `elided` zeros which `sdu` leaves out. They
    /// are written out.
    ///
    /// # Errors
    /// Returns the errors of [`Encapsulator::push`].
    pub fn push_elided(&mut self, kind: Type, sdu: &[u8], elided: usize) -> Result<(), SduLength> {
        let (len, max) = (sdu.len() + elided, self.profile.max_sdu(kind));
        if len == 0 || len > max {
            return Err(SduLength { len, max });
        }
        self.forget_sent();
        let field = self.profile.types.field(kind);
        self.bodies.extend_from_slice(field.bytes());
        self.bodies.extend_from_slice(sdu);
        self.bodies.resize(self.bodies.len() + elided, 0);
        let body_len = field.len() + len;
        self.queue.push_back(Waiting { kind, field_len: field.len(), body_len, frag_id: None });
        Ok(())
    }

    /// Compacts the buffer once over half of it is sent. Each byte moves at most once.
    fn forget_sent(&mut self) {
        if self.sent > self.bodies.len() / 2 {
            self.bodies.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Appends PPDUs of at most `capacity` bytes to `out` and returns their length. Shorter if the queue is
    /// empty or the rest has no room for a fragment. Pad the FPDU with zeros.
    pub fn fill(&mut self, capacity: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        while let Some(mut first) = self.queue.pop_front() {
            let room = (capacity - (out.len() - start)).min(HEADER_LEN + MAX_LENGTH);
            let was_sent = match first.frag_id {
                Some(frag_id) => self.send_fragment(&mut first, frag_id, room, out),
                None if HEADER_LEN + first.body_len <= room => self.send_full(&mut first, out),
                None => self.send_start(&mut first, room, out),
            };
            if first.body_len > 0 {
                self.queue.push_front(first);
            }
            if !was_sent {
                break;
            }
        }
        out.len() - start
    }

    /// Removes the next bytes of the packet at the head of the queue.
    fn take(&mut self, sdu: &mut Waiting, len: usize) -> &[u8] {
        let at = self.sent;
        self.sent += len;
        sdu.body_len -= len;
        &self.bodies[at..at + len]
    }

    fn send_full(&mut self, sdu: &mut Waiting, out: &mut Vec<u8>) -> bool {
        let alpdu = Alpdu::traffic(sdu.field_len == 0);
        let body = self.take(sdu, sdu.body_len);
        Ppdu::Full { alpdu, body }.emit(out);
        true
    }

    /// Returns `true` if a first fragment was sent. It has the whole protocol type and at least one byte, and leaves at
    /// least one.
    fn send_start(&mut self, sdu: &mut Waiting, room: usize, out: &mut Vec<u8>) -> bool {
        let protection = self.profile.protection;
        let total_len = sdu.body_len + protection.len();
        debug_assert!(total_len <= MAX_TOTAL_LENGTH, "checked as it was queued");
        let len = room.saturating_sub(START_HEADER_LEN).min(sdu.body_len - 1);
        if len <= sdu.field_len {
            return false;
        }
        let (frag_id, alpdu) = (self.next_frag_id, Alpdu::traffic(sdu.field_len == 0));
        self.crc = Crc32::new().add_bytes(&sdu.kind.0.to_be_bytes());
        let crc = self.crc;
        let field_len = sdu.field_len;
        let body = self.take(sdu, len);
        Ppdu::Start { frag_id, protection, total_len, alpdu, body }.emit(out);
        self.crc = crc.add_bytes(&body[field_len..]);
        sdu.frag_id = Some(frag_id);
        self.next_frag_id = (frag_id + 1) % FRAG_IDS;
        true
    }

    /// Returns `true` if a continuation was sent. It leaves at least a byte for the end. The end's trailer is not
    /// split.
    fn send_fragment(&mut self, sdu: &mut Waiting, frag_id: u8, room: usize, out: &mut Vec<u8>) -> bool {
        let most = room.saturating_sub(HEADER_LEN);
        let is_last = sdu.body_len + self.profile.protection.len() <= most;
        let len = if is_last { sdu.body_len } else { most.min(sdu.body_len - 1) };
        if len == 0 {
            return false;
        }
        let crc = self.crc;
        let body = self.take(sdu, len);
        let crc = crc.add_bytes(body);
        if is_last {
            let mut whole = body.to_vec();
            self.add_trailer(frag_id, crc, &mut whole);
            Ppdu::End { frag_id, body: &whole }.emit(out);
        } else {
            Ppdu::Continuation { frag_id, body }.emit(out);
        }
        self.crc = crc;
        true
    }

    fn add_trailer(&mut self, frag_id: u8, crc: Crc32, body: &mut Vec<u8>) {
        match self.profile.protection {
            Protection::Crc => body.extend(crc.register().to_be_bytes()),
            Protection::Sequence => {
                let next = &mut self.sequence[usize::from(frag_id)];
                body.push(*next);
                *next = next.wrapping_add(1);
            }
        }
    }
}
