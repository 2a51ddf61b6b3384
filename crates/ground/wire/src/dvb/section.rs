//! Sections (ISO/IEC 13818-1, section 2.4.4), the units of tables and MPE datagrams. Encapsulation into TS
//! packets and reassembly.
//!
//! What a section says is its own format's business; here it is a table_id, a length, and up to 4093 bytes.

#[cfg(test)]
mod tests;

use crate::bytes::be16;
use crate::crc32::Crc32;
use crate::dvb::ts::{Continuity, Method, PACKET_LEN, Packer, Packet, Pid, Refusal, STUFFING};
use crate::{Error, Layer};

/// Length in bytes of table_id, flags and section_length.
pub const HEADER_LEN: usize = 3;
/// Length in bytes of the longest section.
pub const MAX_LEN: usize = 4096;
/// Length in bytes of the CRC-32 at the end.
pub const CRC_LEN: usize = 4;

/// The low 12 bits: section_length.
const LENGTH_MASK: u16 = 0x0fff;

/// Returns the number of TS packets of a single section and its pointer.
#[inline]
pub const fn packets(section_len: usize) -> usize {
    crate::dvb::ule::packets(section_len)
}

/// Returns the length in bytes of a section that starts with these bytes. `None` above 4096.
fn section_len(header: &[u8]) -> Option<usize> {
    let len = HEADER_LEN + usize::from(be16(header, 1) & LENGTH_MASK);
    (len <= MAX_LEN).then_some(len)
}

/// Checks that `bytes` is a section of at least `min_len` bytes with a correct CRC-32.
///
/// # Errors
/// `Truncated` or `Malformed` if it is shorter or longer than it says, or than `min_len`; `Checksum` if the CRC-32 is
/// wrong; all of them as the format that `layer` says.
pub(crate) fn check(layer: Layer, bytes: &[u8], min_len: usize) -> Result<(), Error> {
    let have = bytes.len();
    if have < min_len {
        return Err(Error::truncated(layer, 0, min_len, have));
    }
    match section_len(bytes) {
        Some(len) if len == have => {}
        Some(len) if len > have => return Err(Error::truncated(layer, 1, len, have)),
        _ => return Err(Error::malformed(layer, 1, "section length")),
    }
    if Crc32::new().add_bytes(bytes).register() != 0 {
        return Err(Error::checksum(layer, have - CRC_LEN));
    }
    Ok(())
}

/// Encapsulator of sections into TS packets of one PID.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    pub(crate) packer: Packer,
}

impl Encapsulator {
    /// Creates an encapsulator for a PID. Its continuity counter starts at 0. With [`Method::Packing`]
    /// sections follow each other within a TS packet, and pointer_field locates the first one that starts in
    /// it.
    pub fn new(pid: Pid, method: Method) -> Encapsulator {
        Encapsulator { packer: Packer::new(pid, method, 1) }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.packer.pid()
    }

    /// Sets the packing of TS packets, from the next unit that ends in one on.
    pub fn set_method(&mut self, method: Method) {
        self.packer.set_method(method);
    }

    /// Returns `true` if a partly filled TS packet waits for another section.
    pub fn is_pending(&self) -> bool {
        self.packer.is_pending()
    }

    /// Appends the TS packets that a section completes to `out`. With padding, all of its packets are
    /// complete.
    ///
    /// # Panics
    /// Panics if `section` does not have the length in its header.
    pub fn push(&mut self, section: &[u8], out: &mut Vec<u8>) {
        let is_whole = section.len() >= HEADER_LEN && section_len(section) == Some(section.len());
        assert!(is_whole, "a section has the length that it says");
        self.packer.start(section.len(), out);
        self.packer.write(section, out);
        self.packer.end(out);
    }

    /// Stuffs the TS packet that waits, if one does, and appends it to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.packer.flush(out);
    }
}

/// Counters of a PID's TS packets and sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TS packets of the PID.
    pub packets: u64,
    /// Sections that were whole.
    pub sections: u64,
    /// Bytes of the sections.
    pub section_bytes: u64,
    /// Packets without sync byte or with an impossible adaptation field, of any PID; dropped.
    pub malformed: u64,
    /// Packets dropped because of a transport error indicator.
    pub transmission_errors: u64,
    /// Packets dropped because they are scrambled.
    pub scrambled: u64,
    /// Packets dropped because they came before.
    pub duplicates: u64,
    /// Jumps of the continuity counter.
    pub continuity_errors: u64,
    /// Pointers beyond the packet, or not to the end of the incomplete section.
    pub pointer_errors: u64,
    /// Bytes behind a section which are neither stuffing nor announced by a pointer.
    pub delimiting_errors: u64,
    /// Sections over 4096 bytes.
    pub length_errors: u64,
}

/// Reassembles the sections of one PID. Whether they are right is for their format to say.
#[derive(Clone, Debug)]
pub struct Receiver {
    pid: Pid,
    continuity: Continuity,
    /// Incomplete section; empty if there is none.
    current: Vec<u8>,
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver for a PID.
    pub fn new(pid: Pid) -> Receiver {
        Receiver { pid, continuity: Continuity::default(), current: Vec::new(), counts: Counts::default() }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the bytes received of an incomplete section, under [`MAX_LEN`].
    pub fn waiting_len(&self) -> usize {
        self.current.len()
    }

    /// Handles a TS packet and calls `sink` with each section that ends in it. Ignores packets of another
    /// PID.
    pub fn push(&mut self, packet: &[u8; PACKET_LEN], mut sink: impl FnMut(&[u8])) {
        let Ok(packet) = Packet::new_checked(packet) else {
            self.counts.malformed += 1;
            return;
        };
        if packet.pid() != self.pid {
            return;
        }
        self.counts.packets += 1;
        if !self.admit(&packet) {
            return;
        }
        let payload = packet.payload().expect("neither damaged nor scrambled");
        if packet.unit_start() {
            self.start(payload, &mut sink);
        } else {
            self.proceed(payload, &mut sink);
        }
    }

    fn admit(&mut self, packet: &Packet<&[u8; PACKET_LEN]>) -> bool {
        let admitted = self.continuity.admit(packet);
        if matches!(admitted, Ok(true) | Err(Refusal::TransmissionError)) {
            self.current.clear();
        }
        let counts = &mut self.counts;
        match admitted {
            Ok(false) | Err(Refusal::NoPayload) => {}
            Ok(true) => counts.continuity_errors += 1,
            Err(Refusal::TransmissionError) => counts.transmission_errors += 1,
            Err(Refusal::Scrambled) => counts.scrambled += 1,
            Err(Refusal::Duplicate) => counts.duplicates += 1,
        }
        admitted.is_ok()
    }

    /// Handles a payload with a pointer, which locates the end of the incomplete section.
    fn start(&mut self, payload: &[u8], sink: &mut impl FnMut(&[u8])) {
        let (end, rest) = match payload {
            [pointer, rest @ ..] if usize::from(*pointer) < rest.len() => rest.split_at((*pointer).into()),
            _ => {
                self.counts.pointer_errors += 1;
                return self.current.clear();
            }
        };
        let is_under_way = !self.current.is_empty();
        let left = self.proceed_in(end, sink);
        if is_under_way && (left != 0 || !self.current.is_empty()) {
            self.counts.pointer_errors += 1;
        }
        self.current.clear();
        self.sections(rest, sink);
    }

    /// Handles a payload without pointer: more of the incomplete section, or its end and stuffing.
    fn proceed(&mut self, payload: &[u8], sink: &mut impl FnMut(&[u8])) {
        if self.current.is_empty() {
            return;
        }
        let left = self.proceed_in(payload, sink);
        if left != 0 && payload[payload.len() - left] != STUFFING {
            self.counts.delimiting_errors += 1;
        }
    }

    /// Adds to an incomplete section, passes it on once whole, and returns the bytes left.
    fn proceed_in(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> usize {
        if self.current.is_empty() {
            return bytes.len();
        }
        let mut current = std::mem::take(&mut self.current);
        let had = current.len();
        current.extend_from_slice(bytes);
        let left = match current.get(..HEADER_LEN).map(section_len) {
            Some(None) => {
                self.counts.length_errors += 1;
                current.clear();
                0
            }
            Some(Some(len)) if len <= current.len() => {
                self.deliver(&current[..len], sink);
                current.clear();
                had + bytes.len() - len
            }
            _ => 0,
        };
        self.current = current;
        left
    }

    /// Sections from the start of `bytes` on, up to stuffing in place of a table_id.
    fn sections(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        while let Some(&first) = bytes.first() {
            if first == STUFFING {
                return;
            }
            match bytes.get(..HEADER_LEN).map(section_len) {
                Some(None) => {
                    self.counts.length_errors += 1;
                    return;
                }
                Some(Some(len)) if len <= bytes.len() => {
                    let (section, rest) = bytes.split_at(len);
                    self.deliver(section, sink);
                    bytes = rest;
                }
                _ => return self.current.extend_from_slice(bytes),
            }
        }
    }

    fn deliver(&mut self, section: &[u8], sink: &mut impl FnMut(&[u8])) {
        self.counts.sections += 1;
        self.counts.section_bytes += section.len() as u64;
        sink(section);
    }
}
