//! UDP-Lite (RFC 3828): UDP whose checksum covers only a part chosen by the sender.

use crate::bytes::{be16, put16};
use crate::ip::checksum::{Accumulator, Pseudo};
use crate::{Error, Layer};

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Offsets of the fields.
mod field {
    pub(super) const SRC_PORT: usize = 0;
    pub(super) const DST_PORT: usize = 2;
    pub(super) const COVERAGE: usize = 4;
    pub(super) const CHECKSUM: usize = 6;
}

/// View of a UDP-Lite datagram. IP determines its length, so the view covers all it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<T: AsRef<[u8]>> {
    buffer: T,
    elided: usize,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Returns a view of a datagram that is all of `buffer`.
    ///
    /// # Errors
    /// Returns an error if the header is truncated, or the coverage is 1 to 7 or beyond the datagram (RFC
    /// 3828, section 3.1). The checksum is not looked at.
    pub fn new_checked(buffer: T) -> Result<Datagram<T>, Error> {
        Datagram::new_elided(buffer, 0)
    }

    /// Creates a view of a datagram that fills `buffer`, followed by `elided` zero bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Datagram::new_checked`].
    pub fn new_elided(buffer: T, elided: usize) -> Result<Datagram<T>, Error> {
        let have = buffer.as_ref().len();
        if have < HEADER_LEN {
            return Err(Error::truncated(Layer::UdpLite, 0, HEADER_LEN, have));
        }
        let datagram = Datagram { buffer, elided };
        match datagram.coverage() {
            Some(len) if len < HEADER_LEN => {
                Err(Error::malformed(Layer::UdpLite, field::COVERAGE, "coverage under 8"))
            }
            Some(len) if len > datagram.total_len() => {
                Err(Error::malformed(Layer::UdpLite, field::COVERAGE, "coverage beyond the datagram"))
            }
            _ => Ok(datagram),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn total_len(&self) -> usize {
        self.bytes().len().saturating_add(self.elided)
    }

    /// Returns the source port.
    pub fn src_port(&self) -> u16 {
        be16(self.bytes(), field::SRC_PORT)
    }

    /// Returns the destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes(), field::DST_PORT)
    }

    /// Returns the number of covered bytes from the header on; `None` for all (field 0).
    pub fn coverage(&self) -> Option<usize> {
        Some(usize::from(be16(self.bytes(), field::COVERAGE))).filter(|&len| len != 0)
    }

    /// Returns the checksum as it stands there.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Returns the payload's bytes that are there.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..]
    }

    /// Returns the payload's length in bytes, elided ones included.
    pub fn payload_len(&self) -> usize {
        self.total_len() - HEADER_LEN
    }

    /// Checks the checksum over the bytes it covers.
    ///
    /// # Errors
    /// `Malformed` if it is absent, which UDP-Lite forbids; `Checksum` if it does not match.
    pub fn verify_checksum(&self, pseudo: &Pseudo) -> Result<(), Error> {
        match self.checksum() {
            0 => Err(Error::malformed(Layer::UdpLite, field::CHECKSUM, "no checksum")),
            _ if self.sum(pseudo).is_valid() => Ok(()),
            _ => Err(Error::checksum(Layer::UdpLite, field::CHECKSUM)),
        }
    }

    /// Returns the sum, with the whole length in the pseudo-header for any coverage. RFC 3828, section 3.2.
    fn sum(&self, pseudo: &Pseudo) -> Accumulator {
        let covered = self.coverage().unwrap_or(usize::MAX).min(self.bytes().len());
        pseudo.sum(self.total_len()).add_bytes(&self.bytes()[..covered])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Writes the checksum over the covered bytes; elided bytes count as zeros.
    pub fn fill_checksum(&mut self, pseudo: &Pseudo) {
        put16(self.buffer.as_mut(), field::CHECKSUM, 0);
        let sum = match self.sum(pseudo).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        put16(self.buffer.as_mut(), field::CHECKSUM, sum);
    }
}

/// A UDP-Lite header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Number of covered bytes from the header on, at least 8; `None` for all.
    pub coverage: Option<usize>,
}

impl Repr {
    /// Reads the header of a checked datagram. The checksum is not looked at.
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Repr {
        Repr { src_port: datagram.src_port(), dst_port: datagram.dst_port(), coverage: datagram.coverage() }
    }

    /// Returns the header's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, its checksum zero: see [`Datagram::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than 8 bytes, or the coverage is under 8 or over 65,535.
    pub fn emit(&self, buffer: &mut [u8]) {
        let coverage = self.coverage.unwrap_or(0);
        assert!(self.coverage.is_none() || coverage >= HEADER_LEN, "the checksum covers at least the header");
        let coverage = u16::try_from(coverage).expect("coverage has 16 bits");
        put16(buffer, field::SRC_PORT, self.src_port);
        put16(buffer, field::DST_PORT, self.dst_port);
        put16(buffer, field::COVERAGE, coverage);
        put16(buffer, field::CHECKSUM, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ip::Protocol;
    use proptest::prelude::*;

    fn pseudo() -> Pseudo {
        Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP_LITE)
    }

    #[test]
    fn damage_outside_the_coverage_goes_unnoticed() {
        let mut bytes = [9; 28];
        Repr { src_port: 1, dst_port: 2, coverage: Some(13) }.emit(&mut bytes);
        Datagram::new_checked(&mut bytes[..]).unwrap().fill_checksum(&pseudo());
        bytes[13] ^= 1;
        Datagram::new_checked(&bytes[..]).unwrap().verify_checksum(&pseudo()).unwrap();
        bytes[12] ^= 1;
        let error = Datagram::new_checked(&bytes[..]).unwrap().verify_checksum(&pseudo()).unwrap_err();
        assert_eq!(error.kind, Kind::Checksum);
    }

    #[test]
    fn coverage_is_checked() {
        let with = |coverage: u8, elided| {
            Datagram::new_elided([0, 1, 0, 2, 0, coverage, 0, 0], elided).map(|datagram| datagram.coverage())
        };
        assert_eq!(with(0, 0), Ok(None));
        assert_eq!(with(7, 0).unwrap_err().kind, Kind::Malformed("coverage under 8"));
        assert_eq!(with(9, 0).unwrap_err().kind, Kind::Malformed("coverage beyond the datagram"));
        assert_eq!(with(9, 1), Ok(Some(9)));
    }

    proptest! {
        #[test]
        fn round_trip(src_port: u16, dst_port: u16, covered in proptest::option::of(0usize..100), elided in 100usize..2000) {
            let repr = Repr { src_port, dst_port, coverage: covered.map(|len| len + 8) };
            let mut bytes = [0xff; HEADER_LEN];
            repr.emit(&mut bytes);
            let mut datagram = Datagram::new_elided(&mut bytes[..], elided).unwrap();
            datagram.fill_checksum(&pseudo());
            prop_assert!(datagram.verify_checksum(&pseudo()).is_ok());
            prop_assert_eq!((Repr::parse(&datagram), datagram.payload_len()), (repr, elided));
        }
    }
}
