//! Segmentation of an octet stream into SAR-PDUs.

use std::collections::VecDeque;

use super::fec::{MATRIX_DATA_LEN, interleave};
use super::sn::SequenceNumber;
use super::{Fec, PAYLOAD_LEN, SAR_PDU_LEN};

/// Segmenter of an octet stream into SAR-PDUs.
///
/// Octets wait until they fill a payload, with FEC a matrix; [`Segmenter::finish`] fills the last with zeros.
#[derive(Clone, Debug)]
pub struct Segmenter {
    fec: Fec,
    /// Octets that do not fill a payload or a matrix yet.
    waiting: Vec<u8>,
    /// Payloads without a header, and whether each begins a matrix.
    ready: VecDeque<([u8; PAYLOAD_LEN], bool)>,
    count: u8,
}

impl Segmenter {
    /// Starts with sequence count 0.
    pub fn new(fec: Fec) -> Segmenter {
        Segmenter { fec, waiting: Vec::new(), ready: VecDeque::new(), count: 0 }
    }

    /// Adds octets to the stream.
    pub fn push(&mut self, octets: &[u8]) {
        self.waiting.extend(octets);
        let unit = match self.fec {
            Fec::None => PAYLOAD_LEN,
            Fec::Long => MATRIX_DATA_LEN,
        };
        let whole = self.waiting.len() / unit * unit;
        let octets: Vec<u8> = self.waiting.drain(..whole).collect();
        octets.chunks_exact(unit).for_each(|unit| self.fill(unit));
    }

    fn fill(&mut self, unit: &[u8]) {
        match unit.first_chunk::<MATRIX_DATA_LEN>() {
            Some(data) => {
                let columns = interleave(data).into_iter().enumerate();
                self.ready.extend(columns.map(|(n, column)| (column, n == 0)));
            }
            None => self.ready.extend(unit.first_chunk().map(|payload| (*payload, false))),
        }
    }

    /// Pads waiting octets with zeros, so that all octets are in SAR-PDUs.
    pub fn finish(&mut self) {
        let unit = if self.fec == Fec::None { PAYLOAD_LEN } else { MATRIX_DATA_LEN };
        if !self.waiting.is_empty() {
            let mut unit = vec![0; unit];
            unit[..self.waiting.len()].copy_from_slice(&self.waiting);
            self.waiting.clear();
            self.fill(&unit);
        }
    }

    /// Returns the next SAR-PDU, if one is full.
    pub fn pop(&mut self) -> Option<[u8; SAR_PDU_LEN]> {
        let (payload, csi) = self.ready.pop_front()?;
        let mut pdu = [0; SAR_PDU_LEN];
        pdu[0] = SequenceNumber { csi, count: self.count }.header();
        pdu[1..].copy_from_slice(&payload);
        self.count = (self.count + 1) % 8;
        Some(pdu)
    }
}
