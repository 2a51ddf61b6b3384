//! Cells of a transport stream, and a transport stream of cells.

use bentpipe_units::{Span, Time};
use bentpipe_wire::aal1::{self, Fec, PAYLOAD_LEN};
use bentpipe_wire::atm::PAYLOAD_LEN as CELL_PAYLOAD_LEN;
use bentpipe_wire::{aal5, ts};

use super::Adaptation;
use super::transport::Bytes;

/// Length of a cell's mark and payload.
pub(super) const CELL_LEN: usize = 1 + CELL_PAYLOAD_LEN;

/// Cell as a medium takes it: its mark and payload.
pub(super) type Cell = [u8; CELL_LEN];

/// Returns a cell.
pub(super) fn cell(payload: &[u8; CELL_PAYLOAD_LEN], last: bool) -> Cell {
    let mut cell = [u8::from(last); CELL_LEN];
    cell[1..].copy_from_slice(payload);
    cell
}

/// The cells of packets, each with when it is handed to the line.
///
/// With AAL5 a PDU's cells come at once, when its last packet is due. With AAL1 octets flow into cells as they are due;
/// with FEC a matrix, once it is full, is read out over the time that the next one takes to fill.
pub(super) fn sent(
    packets: &[Bytes],
    times: &[Span],
    adaptation: Adaptation,
    ts_packets: usize,
) -> Vec<(Span, Cell)> {
    match adaptation {
        Adaptation::Udp => Vec::new(),
        Adaptation::Aal5 => {
            let groups = packets.chunks(ts_packets).zip(times.chunks(ts_packets));
            groups.flat_map(|(group, times)| pdu(group, times.last().copied().unwrap_or_default())).collect()
        }
        Adaptation::Aal1 => constant_rate(packets, times, Fec::None, 1),
        Adaptation::Aal1Fec => {
            constant_rate(packets, times, Fec::Long, aal1::fec::MATRIX_DATA_LEN / ts::PACKET_LEN)
        }
    }
}

fn pdu(packets: &[Bytes], at: Span) -> Vec<(Span, Cell)> {
    let mut bytes = packets.concat();
    let repr = aal5::Repr::new(bytes.len());
    bytes.resize(repr.buffer_len(), 0);
    repr.emit(&mut bytes);
    let payloads: &[[u8; CELL_PAYLOAD_LEN]] = bytes.as_chunks().0;
    let last = payloads.len() - 1;
    payloads.iter().enumerate().map(|(n, payload)| (at, cell(payload, n == last))).collect()
}

/// Units of `unit` packets, whose cells are spread evenly over the time of a unit.
fn constant_rate(packets: &[Bytes], times: &[Span], fec: Fec, unit: usize) -> Vec<(Span, Cell)> {
    let mut segmenter = aal1::Segmenter::new(fec);
    let mut cells = Vec::new();
    let mut before = Span::ZERO;
    for (group, times) in packets.chunks(unit).zip(times.chunks(unit)) {
        group.iter().for_each(|packet| segmenter.push(packet));
        if group.len() < unit {
            segmenter.finish();
        }
        let ready: Vec<_> = std::iter::from_fn(|| segmenter.pop()).collect();
        let end = times.last().copied().unwrap_or_default();
        let step = end.saturating_sub(before) / (ready.len() as u64).max(1);
        // What fills while the packets come flows behind them; a matrix flows out after it is full, and after the last.
        let free = cells.last().map_or(Span::ZERO, |(at, _)| *at);
        let start = if fec == Fec::None { before } else { end.max(free) };
        cells.extend(
            ready.iter().enumerate().map(|(n, pdu)| (start + step * (n as u64 + 1), cell(pdu, false))),
        );
        before = end;
    }
    cells
}

/// Statistics of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Cells that arrived, of any kind.
    pub cells: u64,
    /// AAL5: PDUs that were whole and right.
    pub good_pdus: u64,
    /// AAL5: PDUs that were not: wrong CRC or length. UDP: datagrams with a wrong checksum.
    pub bad_pdus: u64,
    /// AAL1: what its sequence numbers and its FEC found.
    pub aal1: aal1::Stats,
    /// Packets passed on with a transport error indicator.
    pub marked: u64,
}

/// Packets of a stream that arrived, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The packets.
    pub(super) packets: Vec<Bytes>,
    /// Completion time of each.
    pub times: Vec<Time>,
    /// Statistics of the path.
    pub stats: Stats,
}

/// Receiver that reassembles packets from cells.
pub(super) struct Receiver {
    adaptation: Adaptation,
    deliver_errored: bool,
    /// No PDU is longer, in bytes.
    longest: usize,
    pdu: Vec<u8>,
    stream: aal1::Reassembler,
    /// AAL1 payloads that do not make a packet yet.
    payloads: Vec<aal1::Payload>,
    out: Received,
}

impl Receiver {
    pub(super) fn new(adaptation: Adaptation, ts_packets: usize, deliver_errored: bool) -> Receiver {
        let fec = if adaptation == Adaptation::Aal1Fec { Fec::Long } else { Fec::None };
        Receiver {
            adaptation,
            deliver_errored,
            longest: aal5::pdu_len(ts_packets * ts::PACKET_LEN),
            pdu: Vec::new(),
            stream: aal1::Reassembler::new(fec),
            payloads: Vec::new(),
            out: Received::default(),
        }
    }

    /// Processes a cell as received from the line.
    pub(super) fn cell(&mut self, at: Time, cell: &[u8]) {
        self.out.stats.cells += 1;
        let whole = cell.split_first().filter(|(_, payload)| payload.len() == CELL_PAYLOAD_LEN);
        let Some((last, payload)) = whole else { return };
        if self.adaptation == Adaptation::Aal5 {
            return self.aal5(at, payload, *last == 1);
        }
        // 48 bytes are what it takes.
        let _ = self.stream.push(payload);
        self.drain(at);
    }

    /// The rest of the stream, when no more cells come.
    pub(super) fn finish(mut self, at: Time) -> Received {
        self.stream.finish();
        self.drain(at);
        self.out.stats.aal1 = self.stream.stats();
        self.out
    }

    fn aal5(&mut self, at: Time, payload: &[u8], last: bool) {
        // A lost last cell glues PDUs together; how long that grows is bounded.
        if self.pdu.len() <= self.longest {
            self.pdu.extend(payload);
        }
        if !last {
            return;
        }
        let mut bytes = std::mem::take(&mut self.pdu);
        let pdu = Some(&bytes[..]).filter(|bytes| bytes.len() <= self.longest);
        let pdu = pdu.and_then(|bytes| aal5::Pdu::new_checked(bytes).ok());
        let is_right = pdu.is_some_and(|pdu| pdu.verify_crc().is_ok());
        if is_right {
            self.out.stats.good_pdus += 1;
        } else {
            self.out.stats.bad_pdus += 1;
        }
        if let Some(pdu) = pdu.filter(|_| is_right || self.deliver_errored) {
            let (packets, _) = pdu.payload().as_chunks();
            packets.iter().for_each(|packet| self.packet(at, *packet));
        }
        bytes.clear();
        self.pdu = bytes;
    }

    /// Packets of the payloads that AAL1 has given: four payloads each.
    fn drain(&mut self, at: Time) {
        const PAYLOADS: usize = ts::PACKET_LEN / PAYLOAD_LEN;
        while let Some(payload) = self.stream.pop() {
            // A receiver that joins late, or lost count of the cells, begins again where a packet does.
            let is_start = !payload.good || payload.octets[0] == ts::SYNC;
            if !self.payloads.is_empty() || is_start {
                self.payloads.push(payload);
            }
            if self.payloads.len() == PAYLOADS {
                let payloads = std::mem::take(&mut self.payloads);
                self.of_payloads(at, &payloads);
            }
        }
    }

    fn of_payloads(&mut self, at: Time, payloads: &[aal1::Payload]) {
        let octets: Vec<u8> = payloads.iter().flat_map(|payload| payload.octets).collect();
        let Some(mut packet) = octets.first_chunk().copied() else { return };
        let is_good = payloads.iter().all(|payload| payload.good);
        if !is_good {
            packet[1] |= 0x80;
            self.out.stats.marked += u64::from(payloads[0].good);
        }
        if payloads[0].good {
            self.packet(at, packet);
        }
    }

    fn packet(&mut self, at: Time, packet: Bytes) {
        self.out.packets.push(packet);
        self.out.times.push(at);
    }
}
