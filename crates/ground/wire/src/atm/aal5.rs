//! AAL5 common part (ITU-T I.363.5): CPCS-PDU with padding, trailer and CRC-32.
//!
//! Cells themselves are not made here. A corrupted data indication, reassembly and interleaving of PDUs belong to the
//! adaptation layer's element.

use crate::bytes::{be16, be32, put32};
use crate::crc32::Crc32;
use crate::{Error, Layer};

/// Length in bytes of an ATM cell.
pub const CELL_LEN: usize = crate::atm::CELL_LEN;
/// Length in bytes of a cell's payload.
pub const CELL_PAYLOAD_LEN: usize = crate::atm::PAYLOAD_LEN;
/// Length in bytes of the trailer.
pub const TRAILER_LEN: usize = 8;
/// Length in bytes of the longest payload.
pub const MAX_PAYLOAD_LEN: usize = 65_535;

/// The register after a whole PDU, CRC included, if nothing changed.
const CRC_RESIDUE: u32 = 0xc704_dd7b;

/// Returns the number of cells a payload of `payload_len` bytes takes.
///
/// ```
/// // A TCP segment of 512 bytes with LLC/SNAP: 512 + 20 + 20 + 8 bytes (RFC 2684).
/// assert_eq!(bentpipe_wire::aal5::cells(560), 12);
/// ```
#[inline]
pub const fn cells(payload_len: usize) -> usize {
    (payload_len + TRAILER_LEN).div_ceil(CELL_PAYLOAD_LEN)
}

/// Returns the length in bytes of the CPCS-PDU: payload, padding, trailer; a multiple of 48.
#[inline]
pub const fn pdu_len(payload_len: usize) -> usize {
    cells(payload_len) * CELL_PAYLOAD_LEN
}

/// Returns the length in bytes of the padding, 0 to 47.
#[inline]
pub const fn pad_len(payload_len: usize) -> usize {
    pdu_len(payload_len) - payload_len - TRAILER_LEN
}

/// Returns the length in bytes of the cells, headers included.
#[inline]
pub const fn wire_len(payload_len: usize) -> usize {
    cells(payload_len) * CELL_LEN
}

/// A view of a whole CPCS-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Pdu<T> {
    /// Creates a view of a PDU that fills `buffer`, as reassembled from its cells.
    ///
    /// # Errors
    /// `Truncated` under 48 bytes; `Malformed` if it is not a whole number of cells, or the length field is 0 (an
    /// abort) or leaves padding of more than 47 bytes or less than none. The CRC is not looked at: see
    /// [`Pdu::verify_crc`].
    pub fn new_checked(buffer: T) -> Result<Pdu<T>, Error> {
        let have = buffer.as_ref().len();
        if have < CELL_PAYLOAD_LEN {
            return Err(Error::truncated(Layer::Aal5, 0, CELL_PAYLOAD_LEN, have));
        }
        if !have.is_multiple_of(CELL_PAYLOAD_LEN) {
            return Err(Error::malformed(Layer::Aal5, have, "not a whole number of cells"));
        }
        let pdu = Pdu { buffer };
        let at = pdu.trailer() + 2;
        match pdu.payload_len() {
            0 => Err(Error::malformed(Layer::Aal5, at, "length 0: aborted")),
            len if pdu_len(len) != have => {
                Err(Error::malformed(Layer::Aal5, at, "length leaves impossible padding"))
            }
            _ => Ok(pdu),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn trailer(&self) -> usize {
        self.bytes().len() - TRAILER_LEN
    }

    /// Returns the user-to-user octet.
    pub fn uu(&self) -> u8 {
        self.bytes()[self.trailer()]
    }

    /// Returns the common part indicator.
    pub fn cpi(&self) -> u8 {
        self.bytes()[self.trailer() + 1]
    }

    /// Returns the length field: payload in bytes, without padding.
    pub fn payload_len(&self) -> usize {
        be16(self.bytes(), self.trailer() + 2).into()
    }

    /// Returns the CRC of the trailer.
    pub fn crc(&self) -> u32 {
        be32(self.bytes(), self.trailer() + 4)
    }

    /// Returns the payload, without padding.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[..self.payload_len()]
    }

    /// Checks the CRC over the whole PDU.
    ///
    /// # Errors
    /// `Checksum` if it does not match.
    pub fn verify_crc(&self) -> Result<(), Error> {
        if Crc32::new().add_bytes(self.bytes()).register() == CRC_RESIDUE {
            Ok(())
        } else {
            Err(Error::checksum(Layer::Aal5, self.trailer() + 4))
        }
    }
}

impl<'a> Pdu<&'a [u8]> {
    /// Returns the payload, without padding, for as long as the buffer lives.
    pub fn into_payload(self) -> &'a [u8] {
        &self.buffer[..self.payload_len()]
    }
}

/// Overhead of a CPCS-PDU as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// User-to-user octet, passed on as it is.
    pub uu: u8,
    /// Common part indicator, 0.
    pub cpi: u8,
    /// Payload length in bytes, 1 to 65,535, elided bytes included.
    pub payload_len: usize,
}

impl Repr {
    /// Returns the trailer for a payload of `payload_len` bytes, UU and CPI zero.
    pub const fn new(payload_len: usize) -> Repr {
        Repr { uu: 0, cpi: 0, payload_len }
    }

    /// Reads the trailer of a checked PDU. The CRC is not looked at.
    pub fn parse<T: AsRef<[u8]>>(pdu: &Pdu<T>) -> Repr {
        Repr { uu: pdu.uu(), cpi: pdu.cpi(), payload_len: pdu.payload_len() }
    }

    /// Returns the PDU's length in bytes: payload, padding and trailer.
    pub const fn buffer_len(&self) -> usize {
        pdu_len(self.payload_len)
    }

    /// Writes padding and trailer after the payload, the first `payload_len` bytes of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`], or the payload length is 0 or over 65,535.
    pub fn emit(&self, buffer: &mut [u8]) {
        let trailer = self.trailer(&buffer[..self.payload_len], 0);
        let (_, tail) = buffer[..self.buffer_len()].split_at_mut(self.payload_len);
        let (pad, end) = tail.split_at_mut(pad_len(self.payload_len));
        pad.fill(0);
        end.copy_from_slice(&trailer);
    }

    /// Returns the trailer, with CRC, of a payload of `bytes` and `elided` zero bytes.
    ///
    /// # Panics
    /// If that is not `payload_len` bytes, or `payload_len` is 0 or over 65,535.
    pub fn trailer(&self, bytes: &[u8], elided: usize) -> [u8; TRAILER_LEN] {
        assert!(self.payload_len == bytes.len() + elided, "the payload does not have the announced length");
        assert!(self.payload_len != 0, "a CPCS-PDU of length 0 is an abort");
        let len = u16::try_from(self.payload_len).expect("an AAL5 payload has at most 65535 bytes");
        let [high, low] = len.to_be_bytes();
        let mut trailer = [self.uu, self.cpi, high, low, 0, 0, 0, 0];
        let crc = Crc32::new().add_bytes(bytes).add_zeros(elided + pad_len(self.payload_len));
        put32(&mut trailer, 4, crc.add_bytes(&[self.uu, self.cpi, high, low]).complement());
        trailer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn golden_trailers() {
        // 40 bytes of payload in one cell: the vectors published with the well-known AAL5 CRC implementation notes.
        let counting: Vec<u8> = (1..=40).collect();
        for (payload, crc) in
            [(vec![0; 40], 0x864d_7f99), (vec![0xff; 40], 0xc55e_457a), (counting, 0xbf67_1ed0)]
        {
            let mut pdu = payload;
            pdu.resize(48, 0xaa);
            Repr::new(40).emit(&mut pdu);
            let pdu = Pdu::new_checked(&pdu[..]).unwrap();
            assert_eq!((pdu.crc(), pdu.payload_len()), (crc, 40));
            pdu.verify_crc().unwrap();
        }
    }

    #[test]
    fn cell_counts() {
        // Sizes of RFC 2684 encapsulated TCP: MSS 512, a bare ACK, MSS 9140; then two and one MPEG-2 TS packets.
        for (payload_len, expected) in
            [(560, (12, 8)), (48, (2, 40)), (9188, (192, 20)), (376, (8, 0)), (188, (5, 44))]
        {
            assert_eq!((cells(payload_len), pad_len(payload_len)), expected);
        }
        assert_eq!(wire_len(560), 12 * 53);
    }

    #[test]
    fn impossible_pdus_are_refused() {
        let kind = |pdu: &[u8]| Pdu::new_checked(pdu).unwrap_err().kind;
        assert_eq!(kind(&[0; 47]), Kind::Truncated { needed: 48, have: 47 });
        assert_eq!(kind(&[0; 50]), Kind::Malformed("not a whole number of cells"));
        assert_eq!(kind(&[0; 48]), Kind::Malformed("length 0: aborted"));
        let mut pdu = [0; 96];
        for len in [40, 89] {
            pdu[91] = len;
            assert_eq!(kind(&pdu), Kind::Malformed("length leaves impossible padding"));
        }
    }

    #[test]
    fn a_lost_last_cell_is_noticed() {
        let mut pdu = vec![7; 96];
        Repr::new(80).emit(&mut pdu);
        let glued = [&pdu[..48], &pdu[..]].concat();
        assert!(Pdu::new_checked(&glued[..]).is_err());
        let swapped = [&pdu[..40], &[1; 8], &pdu[48..]].concat();
        assert_eq!(Pdu::new_checked(&swapped[..]).unwrap().verify_crc().unwrap_err().kind, Kind::Checksum);
    }

    proptest! {
        #[test]
        fn round_trip(head in proptest::collection::vec(any::<u8>(), 1..200), elided in 0usize..3000, uu: u8, cpi: u8) {
            let repr = Repr { uu, cpi, payload_len: head.len() + elided };
            let mut bytes = head.clone();
            bytes.resize(repr.payload_len, 0);
            bytes.resize(repr.buffer_len(), 0xff);
            repr.emit(&mut bytes);
            let pdu = Pdu::new_checked(&bytes[..]).unwrap();
            prop_assert!(pdu.verify_crc().is_ok());
            prop_assert_eq!(Repr::parse(&pdu), repr);
            prop_assert_eq!(&pdu.payload()[..head.len()], &head[..]);
            prop_assert_eq!(&repr.trailer(&head, elided)[..], &bytes[bytes.len() - 8..]);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(pdu) = Pdu::new_checked(&bytes[..]) {
                let _ = (Repr::parse(&pdu), pdu.payload(), pdu.verify_crc());
            }
        }
    }
}
