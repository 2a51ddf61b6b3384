//! AAL1 (ITU-T I.363.1) for a constant or piecewise constant bit rate. SAR-PDUs with a protected sequence
//! number, and the forward error correction for one-way video.
//!
//! A SAR-PDU fills a cell's payload: one octet of header and 47 of data. [`Segmenter`] makes them of an octet stream,
//! [`Reassembler`] makes the stream again, with cells lost and misinserted found by their numbers. With [`Fec::Long`] the
//! stream passes through a Reed-Solomon code and an interleaver ([`fec`]), which repairs four lost cells of 128.
//!
//! Not here: the source's clock (SRTS, adaptive), whose CSI bits a segmenter leaves zero, and the short interleaver. Of
//! structured data transfer there is the pointer's octet, in [`SarPdu::pointer`], but no segmenter that writes it.
//! I.363.1 itself was not available: header and arithmetic agree with published tables, and the constants of the
//! Reed-Solomon code, which no two sources confirm, are in [`reed_solomon`] in one place.

pub mod fec;
mod reassembler;
pub mod reed_solomon;
mod segmenter;
pub mod sn;

pub use reassembler::{Payload, Reassembler, Stats};
pub use segmenter::Segmenter;

use crate::{Error, Layer};

/// Length in bytes of a SAR-PDU: a cell's payload.
pub const SAR_PDU_LEN: usize = 48;
/// Length in bytes of a SAR-PDU's payload without a pointer.
pub const PAYLOAD_LEN: usize = 47;
/// The highest offset that a pointer holds.
pub const MAX_POINTER: u8 = 93;
/// Pointer value if no structure begins within the next 93 octets.
const NO_STRUCTURE: u8 = 0x7f;

/// Protection of an octet stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fec {
    /// Not at all.
    #[default]
    None,
    /// RS(128, 124) with an interleaver of 47 rows and 128 columns.
    Long,
}

/// A view of a SAR-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarPdu<'a> {
    bytes: &'a [u8; SAR_PDU_LEN],
}

impl<'a> SarPdu<'a> {
    /// Returns a view of the SAR-PDU that a cell's payload is. Its number is not checked: see [`sn`].
    ///
    /// # Errors
    /// `Truncated` or `Malformed` if `bytes` is not 48 long.
    pub fn new_checked(bytes: &'a [u8]) -> Result<SarPdu<'a>, Error> {
        if bytes.len() > SAR_PDU_LEN {
            return Err(Error::malformed(Layer::Aal1, SAR_PDU_LEN, "longer than a cell's payload"));
        }
        let truncated = Error::truncated(Layer::Aal1, 0, SAR_PDU_LEN, bytes.len());
        Ok(SarPdu { bytes: bytes.first_chunk().ok_or(truncated)? })
    }

    /// Returns the header: sequence number and its protection.
    pub fn header(&self) -> u8 {
        self.bytes[0]
    }

    /// Returns the octets after the header. In structured data transfer the first octet may be a pointer.
    pub fn payload(&self) -> &'a [u8; PAYLOAD_LEN] {
        self.bytes[1..].first_chunk().expect("48 bytes")
    }

    /// Returns the pointer of a SAR-PDU in P format: octets up to the next structure. `None` if none begins
    /// within reach. Only for structured data transfer, in a SAR-PDU of an even number whose CSI is set.
    ///
    /// # Errors
    /// `Checksum` if its parity is wrong, `Malformed` if the offset is over 93.
    pub fn pointer(&self) -> Result<Option<u8>, Error> {
        let octet = self.bytes[1];
        if !octet.count_ones().is_multiple_of(2) {
            return Err(Error::checksum(Layer::Aal1, 1));
        }
        match octet & 0x7f {
            NO_STRUCTURE => Ok(None),
            offset if offset <= MAX_POINTER => Ok(Some(offset)),
            _ => Err(Error::malformed(Layer::Aal1, 1, "a pointer over 93")),
        }
    }
}

/// Returns the octet that is [`SarPdu::pointer`], with its parity.
///
/// # Panics
/// If the offset is over 93.
pub fn pointer_octet(offset: Option<u8>) -> u8 {
    assert!(offset.is_none_or(|offset| offset <= MAX_POINTER), "a pointer holds up to 93");
    let octet = offset.unwrap_or(NO_STRUCTURE);
    octet | if octet.count_ones().is_multiple_of(2) { 0 } else { 0x80 }
}

#[cfg(test)]
mod tests;
