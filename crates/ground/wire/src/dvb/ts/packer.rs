//! Packing of payload units (SNDUs, sections) into TS packets of one PID. Header, continuity counter, pointer
//! and stuffing, which ULE and sections have in common.

use super::{HEADER_LEN, PACKET_LEN, PAYLOAD_LEN, Pid, STUFFING, SYNC};

/// The PUSI bit in a TS header's second byte.
const UNIT_START: u8 = 0x40;

/// Use of the rest of a TS packet after a payload unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Padding: each unit starts its own TS packet. Least delay.
    #[default]
    Padding,
    /// Packing: the packet waits for the next unit, until flushed. Least overhead.
    Packing,
}

/// Packer of payload units into TS packets. Units are written in pieces between [`Packer::start`] and
/// [`Packer::end`].
#[derive(Clone, Debug)]
pub(crate) struct Packer {
    pid: Pid,
    method: Method,
    /// Minimum number of bytes of a unit in the packet in which it starts.
    min_start: usize,
    continuity: u8,
    /// Partly filled TS packet that waits for another unit; empty if none does.
    held: Vec<u8>,
    /// Free bytes of the packet being written.
    room: usize,
}

impl Packer {
    pub(crate) fn new(pid: Pid, method: Method, min_start: usize) -> Packer {
        Packer { pid, method, min_start, continuity: 0, held: Vec::with_capacity(PACKET_LEN), room: 0 }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn set_method(&mut self, method: Method) {
        self.method = method;
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.held.is_empty()
    }

    /// Begins a unit of `len` bytes, in the packet that waits or a new one. A packet without pointer gets one, which
    /// counts what it has of the unit before.
    pub(crate) fn start(&mut self, len: usize, out: &mut Vec<u8>) {
        out.reserve((2 + len / PAYLOAD_LEN) * PACKET_LEN);
        if self.held.is_empty() {
            self.open(UNIT_START, out);
            out.push(0);
            self.room = PAYLOAD_LEN - 1;
            return;
        }
        if self.held[1] & UNIT_START == 0 {
            self.held[1] |= UNIT_START;
            let pointer = (self.held.len() - HEADER_LEN) as u8;
            self.held.insert(HEADER_LEN, pointer);
        }
        self.room = PACKET_LEN - self.held.len();
        out.append(&mut self.held);
    }

    fn open(&mut self, unit_start: u8, out: &mut Vec<u8>) {
        let [high, low] = self.pid.number().to_be_bytes();
        out.extend([SYNC, high | unit_start, low, 0x10 | self.continuity]);
        self.continuity = (self.continuity + 1) & 0x0f;
        self.room = PAYLOAD_LEN;
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.make_room(bytes.len(), out));
            out.extend_from_slice(now);
            bytes = later;
        }
    }

    pub(crate) fn write_zeros(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while count > 0 {
            let now = self.make_room(count, out);
            out.resize(out.len() + now, 0);
            count -= now;
        }
    }

    /// Returns up to `wanted` bytes of room in this TS packet or a new one.
    fn make_room(&mut self, wanted: usize, out: &mut Vec<u8>) -> usize {
        if self.room == 0 {
            self.open(0, out);
        }
        let now = wanted.min(self.room);
        self.room -= now;
        now
    }

    /// Ends a unit. If packing, its last packet waits for another unit, provided that there is room for the start of one
    /// and for the pointer that it might need; otherwise it is stuffed.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        let start = out.len() - (PACKET_LEN - self.room);
        let pointer_len = usize::from(out[start + 1] & UNIT_START == 0);
        if self.method == Method::Packing && self.room >= self.min_start + pointer_len {
            self.held.extend_from_slice(&out[start..]);
            out.truncate(start);
        } else {
            out.resize(start + PACKET_LEN, STUFFING);
        }
    }

    /// Stuffs the packet that waits, if one does, and appends it to `out`.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        if self.is_pending() {
            self.held.resize(PACKET_LEN, STUFFING);
            out.append(&mut self.held);
        }
    }
}
