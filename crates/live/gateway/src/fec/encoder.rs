//! Encoder: parity of the datagrams that are sent.

use std::collections::VecDeque;

use bentpipe_wire::rtp;

use super::header::{HEADER_LEN, Header};
use super::{Direction, Matrix};

/// Payload type of parity packets.
const PAYLOAD_TYPE: u8 = 96;

/// XOR of datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Parity {
    /// Sequence number of the first.
    pub(super) base: u16,
    pub(super) len: u16,
    pub(super) payload_type: u8,
    pub(super) timestamp: u32,
    pub(super) payload: Vec<u8>,
}

impl Parity {
    /// Adds a datagram.
    pub(super) fn add(&mut self, packet: &rtp::Packet<&[u8]>, payload: &[u8]) {
        self.len ^= payload.len() as u16;
        self.payload_type ^= packet.payload_type();
        self.timestamp ^= packet.timestamp();
        self.payload.resize(self.payload.len().max(payload.len()), 0);
        self.payload.iter_mut().zip(payload).for_each(|(sum, byte)| *sum ^= byte);
    }

    fn restart(&mut self, base: u16) {
        self.payload.clear();
        *self = Parity { base, payload: std::mem::take(&mut self.payload), ..Parity::default() };
    }
}

/// Returns an RTP packet and its payload, if parity can restore its header.
///
/// The header then has no sources, extension, padding and marker.
pub(super) fn plain(datagram: &[u8]) -> Option<(rtp::Packet<&[u8]>, &[u8])> {
    let (header, payload) = datagram.split_at_checked(rtp::HEADER_LEN)?;
    let packet = rtp::Packet::new_checked(datagram).ok()?;
    (header[0] == 0x80 && !packet.marker() && payload.len() <= usize::from(u16::MAX))
        .then_some((packet, payload))
}

/// Encoder of a stream.
#[derive(Clone, Debug)]
pub struct Encoder {
    matrix: Matrix,
    columns: Vec<Parity>,
    row: Parity,
    /// Number of the next datagram in the matrix.
    next: usize,
    /// Parity of the last matrix's columns, which leaves with the next datagrams.
    waiting: VecDeque<Vec<u8>>,
    /// Sequence numbers of the parity packets of columns and rows.
    numbers: [u16; 2],
    packet: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder.
    pub fn new(matrix: Matrix) -> Encoder {
        let columns = vec![Parity::default(); matrix.columns.into()];
        let (row, waiting) = (Parity::default(), VecDeque::new());
        Encoder { matrix, columns, row, next: 0, waiting, numbers: [0; 2], packet: Vec::new() }
    }

    /// Adds a datagram of RTP, and calls `sink` with the parity that leaves after it.
    ///
    /// That of a row leaves at its end. Those of columns leave one by one after the first datagrams of the next matrix: so a burst
    /// of losses as long as a row never has both a datagram and the parity of its column. Sequence numbers must be consecutive. A datagram whose header parity cannot restore is not protected.
    pub fn push(&mut self, datagram: &[u8], mut sink: impl FnMut(Direction, &[u8])) {
        let Some((packet, payload)) = plain(datagram) else { return };
        let (columns, rows) = (usize::from(self.matrix.columns), usize::from(self.matrix.rows));
        let (row, column) = (self.next / columns, self.next % columns);
        if row == 0 {
            if let Some(packet) = self.waiting.pop_front() {
                sink(Direction::Column, &packet);
            }
            self.columns[column].restart(packet.seq());
        }
        if column == 0 {
            self.row.restart(packet.seq());
        }
        self.columns[column].add(&packet, payload);
        self.row.add(&packet, payload);
        self.next = (self.next + 1) % (columns * rows);
        if self.matrix.has_row_parity && column + 1 == columns {
            self.write(Direction::Row, 0, packet.timestamp());
            sink(Direction::Row, &self.packet);
        }
        if row + 1 == rows {
            self.write(Direction::Column, column, packet.timestamp());
            self.waiting.push_back(self.packet.clone());
        }
    }

    /// Writes the parity packet of a direction.
    fn write(&mut self, direction: Direction, column: usize, timestamp: u32) {
        let Matrix { columns, rows, .. } = self.matrix;
        let (parity, offset, count, number) = match direction {
            Direction::Column => (&self.columns[column], columns, rows, &mut self.numbers[0]),
            Direction::Row => (&self.row, 1, columns, &mut self.numbers[1]),
        };
        let header = Header {
            base: parity.base,
            len: parity.len,
            payload_type: parity.payload_type,
            timestamp: parity.timestamp,
            is_row: direction == Direction::Row,
            offset,
            count,
        };
        self.packet.clear();
        self.packet.resize(rtp::HEADER_LEN, 0);
        // The synchronisation source of parity is zero.
        rtp::Repr::new(PAYLOAD_TYPE, *number, timestamp, 0).emit(&mut self.packet);
        self.packet.extend_from_slice(&header.to_bytes());
        self.packet.extend_from_slice(&parity.payload);
        *number = number.wrapping_add(1);
        debug_assert!(self.packet.len() >= rtp::HEADER_LEN + HEADER_LEN);
    }
}
