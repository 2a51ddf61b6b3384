//! Encapsulation of datagrams into TS packets.

use super::{CRC_LEN, DatagramLength, MAX_PAYLOAD_LEN, Repr};
use crate::crc32::Crc32;
use crate::dvb::section;
use crate::dvb::ts::{Method, Pid, STUFFING};
use crate::lan::llc;

/// Encapsulator of datagrams into TS packets of one PID.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    sections: section::Encapsulator,
    alignment_bytes: usize,
}

impl Encapsulator {
    /// Creates an encapsulator for a PID. Its continuity counter starts at 0.
    pub fn new(pid: Pid, method: Method) -> Encapsulator {
        Encapsulator { sections: section::Encapsulator::new(pid, method), alignment_bytes: 1 }
    }

    /// Enables stuffing of sections to a multiple of 32 bits (alignment_indicator 1). The length of the section
    /// limits it. The length of the section limits it. Unambiguous only for IP without LLC/SNAP header: other PDUs
    /// cannot be separated from it.
    #[must_use]
    pub fn aligned(self) -> Encapsulator {
        Encapsulator { alignment_bytes: 4, ..self }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.sections.pid()
    }

    /// Sets the packing of TS packets, from the next unit that ends in one on.
    pub fn set_method(&mut self, method: Method) {
        self.sections.set_method(method);
    }

    /// Returns `true` if a partly filled TS packet waits for another section.
    pub fn is_pending(&self) -> bool {
        self.sections.is_pending()
    }

    /// Encapsulates a datagram and appends each completed TS packet to `out`. With padding, all packets are
    /// complete. A datagram that is too long for a section is cut into several, all but the last of maximum
    /// length.
    ///
    /// # Errors
    /// Returns an error if MPE cannot carry it; nothing is sent then.
    pub fn push(&mut self, repr: &Repr, datagram: &[u8], out: &mut Vec<u8>) -> Result<(), DatagramLength> {
        self.push_elided(repr, datagram, 0, out)
    }

    /// Encapsulates a datagram, as [`Encapsulator::push`], that ends with `elided` zeros which `datagram`
    /// leaves out. They are written out.
    ///
    /// # Errors
    /// Returns the errors of [`Encapsulator::push`].
    pub fn push_elided(
        &mut self,
        repr: &Repr,
        datagram: &[u8],
        elided: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DatagramLength> {
        let datagram_len = datagram.len() + elided;
        repr.check_datagram_len(datagram_len)?;
        let mut llc = [0; llc::HEADER_LEN];
        let llc_len = repr.llc(&mut llc);
        let mut rest = Rest { parts: [&llc[..llc_len], datagram], elided };
        let last = (repr.sections(datagram_len) - 1) as u8;
        for number in 0..=last {
            let piece = rest.take(MAX_PAYLOAD_LEN);
            let stuffing = if number == last { self.stuffing_len(piece.len()) } else { 0 };
            let header = repr.header(number, last, piece.len() + stuffing);
            self.section(&header, &piece, &[STUFFING; 4][..stuffing], out);
        }
        Ok(())
    }

    fn section(&mut self, header: &[u8], piece: &Rest<'_>, stuffing: &[u8], out: &mut Vec<u8>) {
        let [front, bytes] = piece.parts;
        let crc = Crc32::new().add_bytes(header).add_bytes(front).add_bytes(bytes);
        let crc = crc.add_zeros(piece.elided).add_bytes(stuffing);
        let packer = &mut self.sections.packer;
        packer.start(header.len() + piece.len() + stuffing.len() + CRC_LEN, out);
        [header, front, bytes].iter().for_each(|part| packer.write(part, out));
        packer.write_zeros(piece.elided, out);
        packer.write(stuffing, out);
        packer.write(&crc.register().to_be_bytes(), out);
        packer.end(out);
    }

    /// Returns the stuffing. Header and CRC-32 are a multiple of 32 bits, and so is the content of the
    /// longest section.
    fn stuffing_len(&self, payload_len: usize) -> usize {
        payload_len.next_multiple_of(self.alignment_bytes) - payload_len
    }

    /// Stuffs the TS packet that waits, if one does, and appends it to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.sections.flush(out);
    }
}

/// Rest of a datagram to send: bytes, and zeros that are only counted.
struct Rest<'a> {
    parts: [&'a [u8]; 2],
    elided: usize,
}

impl<'a> Rest<'a> {
    fn len(&self) -> usize {
        self.parts[0].len() + self.parts[1].len() + self.elided
    }

    /// Removes at most `len` bytes from the front.
    fn take(&mut self, len: usize) -> Rest<'a> {
        let mut room = len;
        let parts = self.parts.each_mut().map(|part| {
            let (now, later) = part.split_at(room.min(part.len()));
            (*part, room) = (later, room - now.len());
            now
        });
        let elided = room.min(self.elided);
        self.elided -= elided;
        Rest { parts, elided }
    }
}
