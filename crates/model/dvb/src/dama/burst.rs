//! Burst: terminal, requests, and MPEG cells.
//!
//! As a [`Packet`] a burst is its head, its cells, and behind them for each IP packet that ends in it the number of the
//! cell and when its data was handed over. These stamps are not sent: captures leave them out, and no length counts
//! them. The accounts of the packets are next to the bytes. The head has a CRC of its own, as a request is protected apart from the cells.

use bentpipe_net::{Body, Carried, Origin, Packet};
use bentpipe_units::Time;
use bentpipe_wire::crc32::Crc32;

use super::cells::Filled;
use super::frame::CELL_LEN;
use super::request::{self, Request};

/// Terminal, number of cells, number of requests; requests; CRC-32.
const FIXED: usize = 2 + 2 + 1;
const CRC: usize = 4;
/// Maximum number of requests in a burst header: a rate and a volume.
const MAX_REQUESTS: usize = 2;
const STAMP: usize = 2 + 8;

/// Cells and stamps of a burst, and the packets that end in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    bytes: Vec<u8>,
    /// Cell and origin of each packet.
    pub(super) ends: Vec<(u16, Origin)>,
}

impl Carried for Cells {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }

    fn flip_bit(&mut self, bit: u64) {
        if let Some(byte) = self.bytes.get_mut((bit / 8) as usize) {
            *byte ^= 0x80 >> (bit % 8);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }

    fn boxed_copy(&self) -> Box<dyn Carried> {
        let ends = self.ends.iter().map(|(cell, origin)| (*cell, origin.copy())).collect();
        Box::new(Cells { bytes: self.bytes.clone(), ends })
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Burst header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) terminal: u16,
    /// Number of cells; 0 in a slot for requests.
    pub(super) cells: u16,
    pub(super) requests: Vec<Request>,
}

impl Head {
    /// Returns the burst as a packet, sent at `at`.
    pub(super) fn packet(&self, filled: Option<Filled>, at: Time) -> Packet {
        let len = FIXED + self.requests.len() * request::LEN;
        let mut packet = Packet::new(len + CRC, 0);
        let bytes = packet.header_mut();
        bytes[..2].copy_from_slice(&self.terminal.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.cells.to_be_bytes());
        bytes[4] = self.requests.len() as u8;
        for (request, field) in self.requests.iter().zip(bytes[FIXED..].chunks_exact_mut(request::LEN)) {
            field.copy_from_slice(&request.emit());
        }
        let crc = Crc32::new().add_bytes(&bytes[..len]).register();
        bytes[len..].copy_from_slice(&crc.to_be_bytes());
        packet.set_created_at(at);
        match filled {
            Some(filled) => packet.with_body(Body::Carried(Box::new(body(filled)))),
            None => packet,
        }
    }

    /// Parses a burst header and returns the offset of its cells, or `None` if corrupt.
    pub(super) fn parse(packet: &Packet) -> Option<Head> {
        let bytes = packet.header();
        let [a, b, c, d, count, fields @ ..] = bytes else { return None };
        let count = usize::from(*count);
        if count > MAX_REQUESTS || bytes.len() != FIXED + count * request::LEN + CRC {
            return None;
        }
        if Crc32::new().add_bytes(bytes).register() != 0 {
            return None;
        }
        let field = |n: usize| Some([fields[n], fields[n + 1], fields[n + 2], fields[n + 3]]);
        let requests = (0..count).filter_map(|n| Request::parse(field(n * request::LEN)?)).collect();
        let [terminal, cells] = [[*a, *b], [*c, *d]].map(u16::from_be_bytes);
        Some(Head { terminal, cells, requests })
    }
}

fn body(filled: Filled) -> Cells {
    let Filled { cells: mut bytes, ends, .. } = filled;
    bytes.reserve_exact(ends.len() * STAMP);
    for (cell, origin) in &ends {
        bytes.extend_from_slice(&cell.to_be_bytes());
        bytes.extend_from_slice(&origin.created_at.as_nanos().to_be_bytes());
    }
    Cells { bytes, ends }
}

/// Returns the MPEG cells of a burst, for a capture.
pub fn cells_of(packet: &Packet) -> &[u8] {
    parts(packet).0
}

/// Returns the cells, and the creation times of the packets that end in each.
pub(super) fn parts(packet: &Packet) -> (&[u8], &[u8]) {
    let count = match packet.header() {
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    let bytes = packet.carried::<Cells>().map_or(&[][..], |cells| &cells.bytes[..]);
    bytes.split_at_checked(count * CELL_LEN as usize).unwrap_or_default()
}

/// Creation times of packets that end in a cell, in order.
pub(super) fn stamps(stamps: &[u8], cell: u16) -> Vec<Time> {
    let all = stamps.chunks_exact(STAMP).filter(|stamp| stamp[..2] == cell.to_be_bytes());
    let time = |stamp: &[u8]| Some(Time::from_nanos(u64::from_be_bytes(stamp[2..].try_into().ok()?)));
    all.filter_map(time).collect()
}
