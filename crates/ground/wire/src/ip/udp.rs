//! UDP (RFC 768) over IPv4 and IPv6.

use crate::bytes::{be16, put16};
use crate::ip::checksum::Pseudo;
use crate::{Error, Layer};

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Offsets of the fields.
mod field {
    pub(super) const SRC_PORT: usize = 0;
    pub(super) const DST_PORT: usize = 2;
    pub(super) const LENGTH: usize = 4;
    pub(super) const CHECKSUM: usize = 6;
}

/// A view of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Returns a view without any check: accessors panic if the header is not all there.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Datagram<T> {
        Datagram { buffer }
    }

    /// Creates a view of a datagram whose bytes are all there. Bytes after its length are ignored.
    ///
    /// # Errors
    /// Returns an error if the header or the datagram is truncated, or the length is under 8. The checksum is
    /// not looked at.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Datagram<T>, Error> {
        Datagram::new_elided(buffer, 0)
    }

    /// Creates a view of a datagram that ends with `elided` zero bytes, not in `buffer`.
    ///
    /// # Errors
    /// Returns the errors of [`Datagram::new_checked`].
    #[inline]
    pub fn new_elided(buffer: T, elided: usize) -> Result<Datagram<T>, Error> {
        let have = buffer.as_ref().len();
        if have < HEADER_LEN {
            return Err(Error::truncated(Layer::Udp, 0, HEADER_LEN, have));
        }
        let datagram = Datagram { buffer };
        let have = have.saturating_add(elided);
        match datagram.len() {
            len if len < HEADER_LEN => Err(Error::malformed(Layer::Udp, field::LENGTH, "length under 8")),
            len if len > have => Err(Error::truncated(Layer::Udp, field::LENGTH, len, have)),
            _ => Ok(datagram),
        }
    }

    /// Returns the buffer.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns the source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.bytes(), field::SRC_PORT)
    }

    /// Returns the destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes(), field::DST_PORT)
    }

    /// Returns the length field: header and payload, in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a datagram has a header, so it is never empty")]
    pub fn len(&self) -> usize {
        be16(self.bytes(), field::LENGTH).into()
    }

    /// Returns the checksum as it stands there; 0 means none was computed.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Returns the payload's bytes that are there.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..self.end()]
    }

    /// Returns the payload's length in bytes, elided ones included.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.len() - HEADER_LEN
    }

    #[inline]
    fn end(&self) -> usize {
        self.len().min(self.bytes().len())
    }

    /// Checks the checksum, elided payload counted as zeros.
    ///
    /// # Errors
    /// `Checksum` if it does not match; `Malformed` if it is absent over IPv6 (RFC 8200, section 8.1).
    #[inline]
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> Result<(), Error> {
        match self.checksum() {
            0 if pseudo.is_v6() => {
                Err(Error::malformed(Layer::Udp, field::CHECKSUM, "no checksum over IPv6"))
            }
            0 => Ok(()),
            _ if self.sum(pseudo).is_valid() => Ok(()),
            _ => Err(Error::checksum(Layer::Udp, field::CHECKSUM)),
        }
    }

    #[inline]
    fn sum(&self, pseudo: &Pseudo) -> crate::ip::checksum::Accumulator {
        pseudo.sum(self.len()).add_bytes(&self.bytes()[..self.end()])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Writes the checksum of header, payload and elided zeros, counted by the length field.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        put16(self.buffer.as_mut(), field::CHECKSUM, 0);
        // A sum of zero is sent as its other form, since zero means "none".
        let sum = match self.sum(pseudo).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        put16(self.buffer.as_mut(), field::CHECKSUM, sum);
    }

    /// Returns the payload's bytes that are there, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.buffer.as_mut()[HEADER_LEN..end]
    }
}

/// A UDP header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Payload length in bytes, elided ones included.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the header of a checked datagram. The checksum is not looked at.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Repr {
        Repr {
            src_port: datagram.src_port(),
            dst_port: datagram.dst_port(),
            payload_len: datagram.payload_len(),
        }
    }

    /// Returns the header's length in bytes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero: see [`Datagram::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than 8 bytes or the length does not fit in 16 bits.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let len =
            u16::try_from(HEADER_LEN + self.payload_len).expect("a UDP datagram has at most 65535 bytes");
        put16(buffer, field::SRC_PORT, self.src_port);
        put16(buffer, field::DST_PORT, self.dst_port);
        put16(buffer, field::LENGTH, len);
        put16(buffer, field::CHECKSUM, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ip::Protocol;

    fn pseudo() -> Pseudo {
        Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP)
    }

    #[test]
    fn header_only_with_elided_payload_has_the_checksum_of_the_whole() {
        let repr = Repr { src_port: 5004, dst_port: 5004, payload_len: 1001 };
        let mut whole = vec![0; 1009];
        repr.emit(&mut whole);
        let mut header = whole[..8].to_vec();
        Datagram::new_checked(&mut whole[..]).unwrap().fill_checksum(&pseudo());
        Datagram::new_elided(&mut header[..], 1001).unwrap().fill_checksum(&pseudo());
        assert_eq!(header, whole[..8]);
        Datagram::new_elided(&header[..], 1001).unwrap().verify_checksum(&pseudo()).unwrap();
        let read = Datagram::new_elided(&header[..], 1001).unwrap();
        assert_eq!(Repr::parse(&read), repr);
        assert!(read.payload().is_empty());
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_all_ones() {
        let mut bytes = [0; 10];
        Repr { src_port: 0, dst_port: 0, payload_len: 2 }.emit(&mut bytes);
        let without = Datagram::new_checked(&bytes[..]).unwrap().sum(&pseudo()).fold();
        bytes[8..].copy_from_slice(&(!without).to_be_bytes());
        let mut datagram = Datagram::new_checked(&mut bytes[..]).unwrap();
        datagram.fill_checksum(&pseudo());
        assert_eq!(datagram.checksum(), 0xffff);
        datagram.verify_checksum(&pseudo()).unwrap();
    }

    #[test]
    fn no_checksum_is_fine_over_ipv4_only() {
        let mut bytes = [0; 8];
        Repr { src_port: 1, dst_port: 2, payload_len: 0 }.emit(&mut bytes);
        let datagram = Datagram::new_checked(&bytes[..]).unwrap();
        datagram.verify_checksum(&pseudo()).unwrap();
        let v6 = Pseudo::v6([0; 16].into(), [1; 16].into(), Protocol::UDP);
        assert!(matches!(datagram.verify_checksum(&v6).unwrap_err().kind, Kind::Malformed(_)));
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(
            Datagram::new_checked(&[0; 7][..]).unwrap_err().kind,
            Kind::Truncated { needed: 8, have: 7 }
        );
        let short = [0, 1, 0, 2, 0, 7, 0, 0];
        assert_eq!(Datagram::new_checked(&short[..]).unwrap_err().kind, Kind::Malformed("length under 8"));
        let long = [0, 1, 0, 2, 0, 20, 0, 0];
        assert_eq!(
            Datagram::new_elided(&long[..], 11).unwrap_err().kind,
            Kind::Truncated { needed: 20, have: 19 }
        );
        assert_eq!(Datagram::new_elided(&long[..], 12).unwrap().payload_len(), 12);
    }
}
