//! From PDUs to TS packets (RFC 4326, section 6).

use crate::crc32::Crc32;
use crate::ts::{self, HEADER_LEN, PACKET_LEN, PAYLOAD_LEN, Pid, STUFFING};

use super::{PduLength, Repr, packets};

/// The PUSI bit in a TS header's second byte.
const UNIT_START: u8 = 0x40;

/// What becomes of the rest of a TS packet behind an SNDU (RFC 4326, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// It is padded: each SNDU starts a TS packet of its own. Least delay.
    #[default]
    Padding,
    /// It waits for the next SNDU, until [`Encapsulator::flush`]. Least overhead.
    Packing,
}

/// Makes TS packets of one PID out of PDUs.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    pid: Pid,
    method: Method,
    continuity: u8,
    /// The TS packet that waits for another SNDU, as far as it is filled; empty if none does.
    held: Vec<u8>,
    header: Vec<u8>,
}

impl Encapsulator {
    /// For a PID, whose continuity counter starts at 0.
    pub fn new(pid: Pid, method: Method) -> Encapsulator {
        Encapsulator { pid, method, continuity: 0, held: Vec::with_capacity(PACKET_LEN), header: Vec::new() }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether a partly filled TS packet waits for another SNDU. From when this becomes true the packing threshold runs,
    /// at whose end [`Encapsulator::flush`] is due.
    pub fn is_pending(&self) -> bool {
        !self.held.is_empty()
    }

    /// Encapsulates a PDU, and appends to `out` each TS packet that became full, or all of them when padding.
    ///
    /// # Errors
    /// If no SNDU can carry a PDU of its length; nothing is sent then.
    pub fn push(&mut self, repr: &Repr<'_>, pdu: &[u8], out: &mut Vec<u8>) -> Result<(), PduLength> {
        self.push_elided(repr, pdu, 0, out)
    }

    /// As [`Encapsulator::push`], of a PDU that ends with `elided` zeros which `pdu` leaves out. They are written out.
    ///
    /// # Errors
    /// As [`Encapsulator::push`].
    pub fn push_elided(
        &mut self,
        repr: &Repr<'_>,
        pdu: &[u8],
        elided: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), PduLength> {
        let pdu_len = pdu.len() + elided;
        repr.check_pdu_len(pdu_len)?;
        let mut header = std::mem::take(&mut self.header);
        header.resize(repr.header_len(), 0);
        repr.emit(pdu_len, &mut header);
        let crc = Crc32::new().add_bytes(&header).add_bytes(pdu).add_zeros(elided).register();
        out.reserve((1 + packets(repr.sndu_len(pdu_len))) * PACKET_LEN);
        let mut room = self.start(out);
        self.write(&header, &mut room, out);
        self.write(pdu, &mut room, out);
        self.write_zeros(elided, &mut room, out);
        self.write(&crc.to_be_bytes(), &mut room, out);
        self.header = header;
        self.end(room, out);
        Ok(())
    }

    /// Pads the TS packet that waits, if one does, and appends it to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if self.is_pending() {
            self.held.resize(PACKET_LEN, STUFFING);
            out.append(&mut self.held);
        }
    }

    /// Begins an SNDU, in the packet that waits or a new one, and says what room it has there.
    fn start(&mut self, out: &mut Vec<u8>) -> usize {
        if self.held.is_empty() {
            self.open(UNIT_START, out);
            out.push(0);
            return PAYLOAD_LEN - 1;
        }
        if self.held[1] & UNIT_START == 0 {
            self.held[1] |= UNIT_START;
            let pointer = (self.held.len() - HEADER_LEN) as u8;
            self.held.insert(HEADER_LEN, pointer);
        }
        let room = PACKET_LEN - self.held.len();
        out.append(&mut self.held);
        room
    }

    /// Starts a TS packet.
    fn open(&mut self, unit_start: u8, out: &mut Vec<u8>) {
        let [high, low] = self.pid.number().to_be_bytes();
        out.extend([ts::SYNC, high | unit_start, low, 0x10 | self.continuity]);
        self.continuity = (self.continuity + 1) & 0x0f;
    }

    fn write(&mut self, mut bytes: &[u8], room: &mut usize, out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.make_room(bytes.len(), room, out));
            out.extend_from_slice(now);
            bytes = later;
        }
    }

    fn write_zeros(&mut self, mut count: usize, room: &mut usize, out: &mut Vec<u8>) {
        while count > 0 {
            let now = self.make_room(count, room, out);
            out.resize(out.len() + now, 0);
            count -= now;
        }
    }

    /// Takes as much room of the `wanted` as the TS packet has, or a new one where it is full.
    fn make_room(&mut self, wanted: usize, room: &mut usize, out: &mut Vec<u8>) -> usize {
        if *room == 0 {
            self.open(0, out);
            *room = PAYLOAD_LEN;
        }
        let now = wanted.min(*room);
        *room -= now;
        now
    }

    /// Ends an SNDU with `room` bytes left in its last TS packet: that waits for another SNDU if packing, and if there is
    /// room for the Length field of one, and for the payload pointer that it might need (rules i to v of RFC 4326, section
    /// 6.2).
    fn end(&mut self, room: usize, out: &mut Vec<u8>) {
        let start = out.len() - (PACKET_LEN - room);
        let needed = if out[start + 1] & UNIT_START == 0 { 3 } else { 2 };
        if self.method == Method::Packing && room >= needed {
            self.held.extend_from_slice(&out[start..]);
            out.truncate(start);
        } else {
            out.resize(start + PACKET_LEN, STUFFING);
        }
    }
}
