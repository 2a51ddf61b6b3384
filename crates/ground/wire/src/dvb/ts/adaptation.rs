//! The adaptation field (ISO/IEC 13818-1, section 2.4.3.4).

use crate::bytes::be32;
use crate::{Error, Layer};

use super::{HEADER_LEN, PAYLOAD_LEN, STUFFING};

/// Offset of the field in a packet, the base of error offsets.
const START: usize = HEADER_LEN;

/// Checks that an adaptation field of `len_bytes` after its length byte fits a packet. Exactly without
/// payload, with room for at least a byte with one.
pub(super) fn check_len(len_bytes: u8, has_payload: bool) -> Result<(), Error> {
    const FULL: usize = PAYLOAD_LEN - 1;
    let fits = if has_payload { usize::from(len_bytes) < FULL } else { usize::from(len_bytes) == FULL };
    if fits { Ok(()) } else { Err(Error::malformed(Layer::Ts, START, "adaptation field's length")) }
}

/// A programme clock reference: ticks of 27 MHz, modulo 2^33 * 300.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pcr(u64);

impl Pcr {
    /// Ticks in a second.
    pub const TICKS_PER_S: u64 = 27_000_000;
    /// The count that is never reached: the clock is at 0 again after 26.5 hours.
    pub const MODULUS: u64 = (1 << 33) * 300;
    pub(super) const LEN: usize = 6;

    /// Returns the reference at a count of ticks, modulo [`Pcr::MODULUS`].
    pub const fn new(ticks: u64) -> Pcr {
        Pcr(ticks % Pcr::MODULUS)
    }

    /// Ticks of 27 MHz.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Returns the reference `ticks` later. A multiplexer adds its delay this way.
    #[must_use]
    pub const fn plus(self, ticks: u64) -> Pcr {
        Pcr::new(self.0 + ticks % Pcr::MODULUS)
    }

    /// Ticks from an earlier reference to this one, over a wrap of the clock.
    pub const fn since(self, earlier: Pcr) -> u64 {
        (self.0 + Pcr::MODULUS - earlier.0) % Pcr::MODULUS
    }

    fn parse(bytes: &[u8], offset: usize) -> Result<Pcr, Error> {
        let base = u64::from(be32(bytes, 0)) << 1 | u64::from(bytes[4] >> 7);
        let extension = u64::from(bytes[4] & 1) << 8 | u64::from(bytes[5]);
        if extension >= 300 {
            return Err(Error::malformed(
                Layer::Ts,
                START + offset + 4,
                "clock reference extension over 299",
            ));
        }
        Ok(Pcr(base * 300 + extension))
    }

    /// Returns the PCR as bytes: 33-bit base (90 kHz), six reserved bits, 9-bit extension.
    pub(super) fn bytes(self) -> [u8; Pcr::LEN] {
        let (base, extension) = (self.0 / 300, self.0 % 300);
        let field = base << 15 | 0x7e00 | extension;
        let [_, _, bytes @ ..] = field.to_be_bytes();
        bytes
    }
}

/// An adaptation field as values. What its parts leave of its length is stuffing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation<'a> {
    /// Length behind the length byte itself; 0 is a single byte of stuffing, without flags.
    pub len_bytes: u8,
    /// The clock or the continuity counter jumps here.
    pub is_discontinuous: bool,
    /// A decoder can start here.
    pub random_access: bool,
    /// Elementary stream priority.
    pub has_priority: bool,
    /// Programme clock reference.
    pub pcr: Option<Pcr>,
    /// Original programme clock reference.
    pub opcr: Option<Pcr>,
    /// Number of packets to the splicing point.
    pub splice_countdown: Option<i8>,
    /// Private data.
    pub private_data: Option<&'a [u8]>,
    /// Extension, behind its length, as it stands there.
    pub extension: Option<&'a [u8]>,
}

impl<'a> Adaptation<'a> {
    /// Reads an adaptation field, all of `bytes`, its length byte first.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Adaptation<'a>, Error> {
        let mut reader = Reader { bytes, at: 1 };
        let mut field = Adaptation { len_bytes: bytes[0], ..Adaptation::default() };
        if field.len_bytes == 0 {
            return Ok(field);
        }
        let flags = reader.take(1)?[0];
        field.is_discontinuous = flags & 0x80 != 0;
        field.random_access = flags & 0x40 != 0;
        field.has_priority = flags & 0x20 != 0;
        field.pcr = reader.part(flags & 0x10 != 0, Reader::pcr)?;
        field.opcr = reader.part(flags & 0x08 != 0, Reader::pcr)?;
        field.splice_countdown = reader.part(flags & 0x04 != 0, |reader| Ok(reader.take(1)?[0] as i8))?;
        field.private_data = reader.part(flags & 0x02 != 0, Reader::counted)?;
        field.extension = reader.part(flags & 0x01 != 0, Reader::counted)?;
        Ok(field)
    }

    /// Returns the field's length in bytes, its length byte included.
    pub fn buffer_len(&self) -> usize {
        1 + usize::from(self.len_bytes)
    }

    /// Writes the field at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Adaptation::buffer_len`], or the parts do not fit `len_bytes`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (first, rest) = buffer[..self.buffer_len()].split_at_mut(1);
        first[0] = self.len_bytes;
        let parts = self.parts();
        assert!(parts.len() <= rest.len(), "the adaptation field is too short for its parts");
        rest[..parts.len()].copy_from_slice(&parts);
        rest[parts.len()..].fill(STUFFING);
    }

    /// Flags and parts, without stuffing.
    fn parts(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let flags = self.flags();
        if self.len_bytes == 0 && flags == 0 {
            return out;
        }
        out.push(flags);
        for clock in [self.pcr, self.opcr].into_iter().flatten() {
            out.extend(clock.bytes());
        }
        out.extend(self.splice_countdown.map(|count| count as u8));
        for counted in [self.private_data, self.extension].into_iter().flatten() {
            out.push(
                u8::try_from(counted.len()).expect("a part of an adaptation field has at most 255 bytes"),
            );
            out.extend(counted);
        }
        out
    }

    fn flags(&self) -> u8 {
        let flags = [
            self.is_discontinuous,
            self.random_access,
            self.has_priority,
            self.pcr.is_some(),
            self.opcr.is_some(),
            self.splice_countdown.is_some(),
            self.private_data.is_some(),
            self.extension.is_some(),
        ];
        flags.iter().fold(0, |bits, &flag| bits << 1 | u8::from(flag))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (at, end) = (self.at, self.at + count);
        let part = self.bytes.get(at..end);
        self.at = end;
        part.ok_or(Error::malformed(Layer::Ts, START + at, "part outside the adaptation field"))
    }

    fn part<P>(
        &mut self,
        is_there: bool,
        read: impl FnOnce(&mut Self) -> Result<P, Error>,
    ) -> Result<Option<P>, Error> {
        is_there.then(|| read(self)).transpose()
    }

    fn pcr(&mut self) -> Result<Pcr, Error> {
        let at = self.at;
        Pcr::parse(self.take(Pcr::LEN)?, at)
    }

    fn counted(&mut self) -> Result<&'a [u8], Error> {
        let len = self.take(1)?[0];
        self.take(len.into())
    }
}
