//! Reassembly of the octet stream from SAR-PDUs.

use std::collections::VecDeque;

use super::fec::{COLUMNS, deinterleave};
use super::sn::{Checker, SequenceNumber};
use super::{Fec, PAYLOAD_LEN, SarPdu};
use crate::Error;

/// 47 octets of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The octets; zeros if they were lost.
    pub octets: [u8; PAYLOAD_LEN],
    /// Set if all of them arrived, or were repaired.
    pub good: bool,
}

/// Counters of a reassembler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// SAR-PDUs taken in.
    pub received: u64,
    /// SAR-PDUs dropped because their header could not be trusted.
    pub bad_headers: u64,
    /// Cells that the numbers say are missing, those with a bad header among them.
    pub lost: u64,
    /// Cells dropped because the adjacent sequence numbers are consecutive.
    pub misinserted: u64,
    /// Octets that FEC corrected, lost ones among them.
    pub corrected: u64,
    /// Code words that FEC could not correct.
    pub failed_rows: u64,
}

/// Reassembler of an octet stream from SAR-PDUs.
///
/// A SAR-PDU out of sequence is held until the next arrives: if that one has the expected number, the held
/// one was misinserted, otherwise cells before it were lost (the robust sequence number algorithm of I.363.1,
/// appendix III, in outline). One to seven cells lost in a row are detected; longer losses are underestimated
/// by a multiple of eight, which with FEC the next matrix corrects.
#[derive(Clone, Debug)]
pub struct Reassembler {
    fec: Fec,
    checker: Checker,
    /// Next sequence count in order; `None` before the first SAR-PDU.
    expected: Option<u8>,
    held: Option<(SequenceNumber, [u8; PAYLOAD_LEN])>,
    /// Received columns of the matrix; with FEC only.
    columns: Vec<Option<[u8; PAYLOAD_LEN]>>,
    /// Set once a matrix has begun; octets before the first are not usable.
    is_aligned: bool,
    ready: VecDeque<Payload>,
    stats: Stats,
}

impl Reassembler {
    /// Creates a reassembler of streams protected by `fec`.
    pub fn new(fec: Fec) -> Reassembler {
        Reassembler {
            fec,
            checker: Checker::default(),
            expected: None,
            held: None,
            columns: Vec::new(),
            is_aligned: false,
            ready: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Handles the payload of a cell.
    ///
    /// # Errors
    /// Returns an error if it is not 48 bytes long. An unreliable header is not an error but a lost cell.
    pub fn push(&mut self, pdu: &[u8]) -> Result<(), Error> {
        let pdu = SarPdu::new_checked(pdu)?;
        self.stats.received += 1;
        match self.checker.check(pdu.header()) {
            None => self.stats.bad_headers += 1,
            Some(number) => self.in_turn(number, *pdu.payload()),
        }
        Ok(())
    }

    /// Returns the next octets of the stream. Call it until it returns none after each [`Reassembler::push`].
    pub fn pop(&mut self) -> Option<Payload> {
        self.ready.pop_front()
    }

    /// Releases the rest when no more cells arrive. That is a held SAR-PDU, and with FEC an incomplete
    /// matrix.
    pub fn finish(&mut self) {
        if let Some((number, payload)) = self.held.take() {
            self.accept_after_loss(number, payload);
        }
        if !self.columns.is_empty() {
            self.close_matrix();
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn in_turn(&mut self, number: SequenceNumber, payload: [u8; PAYLOAD_LEN]) {
        let expected = self.expected.unwrap_or(number.count);
        match self.held.take() {
            Some(_) if number.count == expected => {
                self.stats.misinserted += 1;
                self.accept(number, payload);
            }
            None if number.count == expected => self.accept(number, payload),
            None => self.held = Some((number, payload)),
            Some((held, before)) => {
                self.accept_after_loss(held, before);
                self.in_turn(number, payload);
            }
        }
    }

    /// Handles a SAR-PDU after missing ones.
    fn accept_after_loss(&mut self, number: SequenceNumber, payload: [u8; PAYLOAD_LEN]) {
        let expected = self.expected.unwrap_or(number.count);
        let missing = (number.count + 8 - expected) % 8;
        self.stats.lost += u64::from(missing);
        (0..missing).for_each(|_| self.place(false, None));
        self.accept(number, payload);
    }

    fn accept(&mut self, number: SequenceNumber, payload: [u8; PAYLOAD_LEN]) {
        self.expected = Some((number.count + 1) % 8);
        // A matrix begins where the count does. Elsewhere the mark is of a misinserted cell, and accepting it would cost two matrices.
        self.place(number.csi && number.count == 0, Some(payload));
    }

    /// Appends the next payload in order, or a gap.
    fn place(&mut self, csi: bool, payload: Option<[u8; PAYLOAD_LEN]>) {
        if self.fec == Fec::None {
            let octets = payload.unwrap_or([0; PAYLOAD_LEN]);
            self.ready.push_back(Payload { octets, good: payload.is_some() });
            return;
        }
        if csi && !self.columns.is_empty() {
            // More was lost than the numbers show.
            self.close_matrix();
        }
        self.is_aligned |= csi;
        if self.is_aligned {
            self.columns.push(payload);
        }
        if self.columns.len() == COLUMNS {
            self.close_matrix();
        }
    }

    fn close_matrix(&mut self) {
        self.columns.resize(COLUMNS, None);
        let matrix = deinterleave(&self.columns);
        self.columns.clear();
        self.stats.corrected += matrix.corrected as u64;
        self.stats.failed_rows += matrix.good.iter().filter(|good| !**good).count() as u64;
        let row_len = matrix.data.len() / matrix.good.len();
        for (n, octets) in matrix.data.as_chunks().0.iter().enumerate() {
            let rows = n * PAYLOAD_LEN / row_len..=(n * PAYLOAD_LEN + PAYLOAD_LEN - 1) / row_len;
            let good = matrix.good[rows].iter().all(|good| *good);
            self.ready.push_back(Payload { octets: *octets, good });
        }
    }
}
