//! Encapsulation of PDUs into TS packets (RFC 4326, section 6).

use crate::crc32::Crc32;
use crate::dvb::ts::{Method, Packer, Pid};

use super::{PduLength, Repr};

/// RFC 4326 section 6.2 (iii): the Length field is not split over two TS packets.
const MIN_START: usize = 2;

/// Encapsulator of PDUs into TS packets of one PID.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    packer: Packer,
    header: Vec<u8>,
}

impl Encapsulator {
    /// Creates an encapsulator for a PID. Its continuity counter starts at 0.
    pub fn new(pid: Pid, method: Method) -> Encapsulator {
        Encapsulator { packer: Packer::new(pid, method, MIN_START), header: Vec::new() }
    }

    /// The PID.
    pub fn pid(&self) -> Pid {
        self.packer.pid()
    }

    /// Sets the packing of TS packets, from the next unit that ends in one on.
    pub fn set_method(&mut self, method: Method) {
        self.packer.set_method(method);
    }

    /// Returns `true` if a partly filled TS packet waits for another SNDU. From when this becomes true the
    /// packing threshold runs, at whose end [`Encapsulator::flush`] is due.
    pub fn is_pending(&self) -> bool {
        self.packer.is_pending()
    }

    /// Encapsulates a PDU and appends each completed TS packet to `out`. With padding, all packets are
    /// complete.
    ///
    /// # Errors
    /// Returns an error if no SNDU can carry a PDU of its length; nothing is sent then.
    pub fn push(&mut self, repr: &Repr<'_>, pdu: &[u8], out: &mut Vec<u8>) -> Result<(), PduLength> {
        self.push_elided(repr, pdu, 0, out)
    }

    /// Encapsulates a PDU, as [`Encapsulator::push`], that ends with `elided` zeros which `pdu` leaves out.
    /// They are written out.
    ///
    /// # Errors
    /// Returns the errors of [`Encapsulator::push`].
    pub fn push_elided(
        &mut self,
        repr: &Repr<'_>,
        pdu: &[u8],
        elided: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), PduLength> {
        let pdu_len = pdu.len() + elided;
        repr.check_pdu_len(pdu_len)?;
        self.header.resize(repr.header_len(), 0);
        repr.emit(pdu_len, &mut self.header);
        let crc = Crc32::new().add_bytes(&self.header).add_bytes(pdu).add_zeros(elided);
        self.packer.start(repr.sndu_len(pdu_len), out);
        self.packer.write(&self.header, out);
        self.packer.write(pdu, out);
        self.packer.write_zeros(elided, out);
        self.packer.write(&crc.register().to_be_bytes(), out);
        self.packer.end(out);
        Ok(())
    }

    /// Pads the TS packet that waits, if one does, and appends it to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.packer.flush(out);
    }
}
