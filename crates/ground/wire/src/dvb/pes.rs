//! Headers of packetised elementary streams (PES; ISO/IEC 13818-1, section 2.4.3.6) with their time stamps.
//!
//! *Not decoded*: clock references, rates, trick modes and extensions of a header, which count as stuffing.

use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Length in bytes of start code, stream_id and length.
pub const START_LEN: usize = 6;
/// Length in bytes of what is in front of the optional fields of a header.
pub const HEADER_LEN: usize = 9;
/// Length in bytes of a time stamp.
const STAMP_LEN: usize = 5;

/// Time stamp of 90 kHz in 33 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// Ticks in a second.
    pub const TICKS_PER_S: u64 = 90_000;
    /// Ticks after which stamps begin again, after 26.5 hours.
    pub const MODULUS: u64 = 1 << 33;

    /// Returns the stamp at a count of ticks, modulo [`Stamp::MODULUS`].
    pub const fn new(ticks: u64) -> Stamp {
        Stamp(ticks % Stamp::MODULUS)
    }

    /// Returns the ticks of 90 kHz.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Returns the ticks from `earlier` to this stamp, over a wrap. They are negative if that is the shorter way.
    pub const fn since(self, earlier: Stamp) -> i64 {
        let ahead = (self.0 + Stamp::MODULUS - earlier.0) % Stamp::MODULUS;
        if ahead < Stamp::MODULUS / 2 { ahead as i64 } else { ahead as i64 - Stamp::MODULUS as i64 }
    }

    /// Reads a stamp; its marker bits must be set.
    fn parse(bytes: &[u8; STAMP_LEN], offset: usize) -> Result<Stamp, Error> {
        let [a, b, c, d, e] = bytes.map(u64::from);
        if a & c & e & 1 == 0 {
            return Err(Error::malformed(Layer::Pes, offset, "a time stamp without marker bits"));
        }
        Ok(Stamp((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1))
    }

    /// Returns the stamp as bytes behind four bits of prefix.
    fn bytes(self, prefix: u8) -> [u8; STAMP_LEN] {
        let part = |shift: u32| (self.0 >> shift) as u8;
        [prefix << 4 | part(30) << 1 | 1, part(22), part(15) << 1 | 1, part(7), part(0) << 1 | 1]
    }
}

/// Header of a PES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// stream_id: 0xc0 to 0xdf for MPEG audio, 0xe0 to 0xef for video.
    pub stream_id: u8,
    /// Bytes behind the length field; 0 if not limited, as only video may have.
    pub packet_len: u16,
    /// Set if an access unit begins behind the header.
    pub is_aligned: bool,
    /// Presentation time stamp.
    pub pts: Option<Stamp>,
    /// Decoding time stamp. Without one, the presentation time stamp stands for it; alone it is not allowed.
    pub dts: Option<Stamp>,
    /// Bytes of optional fields and stuffing.
    pub data_len: u8,
}

impl Repr {
    /// Creates the header of a packet of unlimited length with these stamps.
    ///
    /// # Panics
    /// If there is a decoding time stamp alone.
    pub fn new(stream_id: u8, pts: Option<Stamp>, dts: Option<Stamp>) -> Repr {
        assert!(pts.is_some() || dts.is_none(), "a decoding time stamp alone");
        let stamps = usize::from(pts.is_some()) + usize::from(dts.is_some());
        let data_len = (stamps * STAMP_LEN) as u8;
        Repr { stream_id, packet_len: 0, is_aligned: true, pts, dts, data_len }
    }

    /// Reads the header at the start of a packet. Payload may follow it.
    ///
    /// # Errors
    /// Returns an error if it is truncated or malformed; `Unsupported` for streams without such headers.
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        let have = bytes.len();
        let truncated = |needed| Error::truncated(Layer::Pes, 0, needed, have);
        let start = bytes.get(..HEADER_LEN).ok_or_else(|| truncated(HEADER_LEN))?;
        if start[..3] != [0, 0, 1] {
            return Err(Error::malformed(Layer::Pes, 0, "no start code"));
        }
        let stream_id = start[3];
        if !has_header(stream_id) {
            return Err(Error::unsupported(Layer::Pes, 3, "a stream without header fields"));
        }
        if start[6] >> 6 != 2 {
            return Err(Error::malformed(Layer::Pes, 6, "a header of MPEG-1"));
        }
        let (flags, data_len) = (start[7] >> 6, start[8]);
        let stamps = match flags {
            0 => 0,
            2 => 1,
            3 => 2,
            _ => return Err(Error::malformed(Layer::Pes, 7, "a decoding time stamp alone")),
        };
        let needed = stamps * STAMP_LEN;
        if usize::from(data_len) < needed {
            return Err(Error::malformed(Layer::Pes, 8, "time stamps beyond the header"));
        }
        let stamp = |nth: usize| {
            let at = HEADER_LEN + nth * STAMP_LEN;
            let field = bytes[at.min(have)..].first_chunk().ok_or_else(|| truncated(HEADER_LEN + needed))?;
            Stamp::parse(field, at)
        };
        Ok(Repr {
            stream_id,
            packet_len: be16(start, 4),
            is_aligned: start[6] & 4 != 0,
            pts: (stamps > 0).then(|| stamp(0)).transpose()?,
            dts: (stamps > 1).then(|| stamp(1)).transpose()?,
            data_len,
        })
    }

    /// Returns the time at which the access unit is decoded.
    pub fn decoding(&self) -> Option<Stamp> {
        self.dts.or(self.pts)
    }

    /// Returns the length of the header in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + usize::from(self.data_len)
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`], the stream has no such header, or stamps do not fit `data_len`.
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(has_header(self.stream_id), "stream {:#04x} has no header fields", self.stream_id);
        let buffer = &mut buffer[..self.buffer_len()];
        buffer[..4].copy_from_slice(&[0, 0, 1, self.stream_id]);
        put16(buffer, 4, self.packet_len);
        let flags = match (self.pts, self.dts) {
            (None, None) => 0,
            (Some(_), None) => 0x80,
            (Some(_), Some(_)) => 0xc0,
            (None, Some(_)) => panic!("a decoding time stamp alone"),
        };
        buffer[6..HEADER_LEN].copy_from_slice(&[0x80 | u8::from(self.is_aligned) << 2, flags, self.data_len]);
        buffer[HEADER_LEN..].fill(0xff);
        let fields = &mut buffer[HEADER_LEN..];
        if let Some(pts) = self.pts {
            let prefix = if self.dts.is_some() { 3 } else { 2 };
            fields[..STAMP_LEN].copy_from_slice(&pts.bytes(prefix));
        }
        if let Some(dts) = self.dts {
            fields[STAMP_LEN..2 * STAMP_LEN].copy_from_slice(&dts.bytes(1));
        }
    }
}

/// Returns `true` if packets of a stream have header fields (table 2-21).
///
/// Maps, padding, private_stream_2, ECM, EMM, DSM-CC, H.222.1 type E and directories have none.
fn has_header(stream_id: u8) -> bool {
    stream_id >= 0xbd && !matches!(stream_id, 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn stamps_that_ffmpeg_wrote() {
        // The first video PES packet of ffmpeg's multiplexer for MPEG-2 video with B pictures.
        let bytes = [
            0x00, 0x00, 0x01, 0xe0, 0x00, 0x00, 0x80, 0xc0, 0x0a, 0x31, 0x00, 0x07, 0xf4, 0x81, 0x11, 0x00,
            0x07, 0xd8, 0x61, 0x00, 0x00, 0x01, 0xb3, 0x14,
        ];
        let repr = Repr::parse(&bytes).expect("a header");
        assert_eq!(repr.pts.map(Stamp::ticks), Some(129_600));
        assert_eq!(repr.dts.map(Stamp::ticks), Some(126_000));
        let mut out = [0; 19];
        repr.emit(&mut out);
        assert_eq!(out, bytes[..19]);
    }

    #[test]
    fn stamps_wrap() {
        let (late, early) = (Stamp::new(Stamp::MODULUS - 1), Stamp::new(2));
        assert_eq!((early.since(late), late.since(early)), (3, -3));
    }

    #[test]
    fn what_is_not_a_header_is_refused() {
        let good = [0, 0, 1, 0xc0, 0, 8, 0x84, 0x80, 5, 0x21, 0, 1, 0, 1];
        let with = |at: usize, to: u8| {
            let mut bytes = good;
            bytes[at] = to;
            Repr::parse(&bytes).expect_err("refused").kind
        };
        assert!(Repr::parse(&good).is_ok_and(|repr| repr.is_aligned && repr.packet_len == 8));
        assert_eq!(with(2, 0), Kind::Malformed("no start code"));
        assert_eq!(with(3, 0xbe), Kind::Unsupported("a stream without header fields"));
        assert_eq!(with(6, 0x40), Kind::Malformed("a header of MPEG-1"));
        assert_eq!(with(7, 0x40), Kind::Malformed("a decoding time stamp alone"));
        assert_eq!(with(8, 4), Kind::Malformed("time stamps beyond the header"));
        assert_eq!(with(9, 0x20), Kind::Malformed("a time stamp without marker bits"));
        assert_eq!(Repr::parse(&good[..13]).expect_err("cut").kind, Kind::Truncated { needed: 14, have: 13 });
    }

    proptest! {
        #[test]
        fn headers_are_read_as_written(
            stream_id in 0xc0_u8..0xf0, packet_len: u16, is_aligned: bool, stuffing in 0_u8..200,
            pts in proptest::option::of(0..Stamp::MODULUS), dts in proptest::option::of(0..Stamp::MODULUS),
        ) {
            let (pts, dts) = (pts.map(Stamp::new), dts.filter(|_| pts.is_some()).map(Stamp::new));
            let new = Repr::new(stream_id, pts, dts);
            let repr = Repr { packet_len, is_aligned, data_len: new.data_len + stuffing, ..new };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
        }
    }
}
