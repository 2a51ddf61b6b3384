//! G.711: samples of 16 bits to bytes of A-law and mu-law, and back.
//!
//! *References*: ITU-T G.711 (1988).

/// Companding law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A-law: 13 bits of a sample, even bits of the byte inverted.
    A,
    /// Mu-law: 14 bits of a sample, all bits of the byte inverted.
    Mu,
}

/// Bits of an A-law byte that are inverted on the line.
const A_INVERTED: u8 = 0x55;
/// Offset of the segments of mu-law, in units of 14-bit samples.
const MU_BIAS: i32 = 33;
/// Largest magnitude of a 14-bit sample after the offset.
const MU_CLIP: i32 = 8191;

impl Law {
    /// Returns the byte whose decoded value is next to a sample.
    pub fn encode(self, sample: i16) -> u8 {
        match self {
            Law::A => encode_a(sample),
            Law::Mu => encode_mu(sample),
        }
    }

    /// Returns the sample of a byte.
    pub fn decode(self, byte: u8) -> i16 {
        match self {
            Law::A => decode_a(byte),
            Law::Mu => decode_mu(byte),
        }
    }
}

/// Returns the segment of a magnitude. Segments double from `first` on.
fn segment(magnitude: i32, first: i32) -> i32 {
    (magnitude / first).checked_ilog2().map_or(0, |log| log as i32 + 1)
}

fn encode_a(sample: i16) -> u8 {
    let is_positive = sample >= 0;
    // The complement, so that the two signs have the same intervals.
    let magnitude = i32::from(if is_positive { sample } else { !sample }) >> 4;
    // The first two segments have 16 steps of one unit each, the others steps that double.
    let segment = segment(magnitude, 16);
    let step = magnitude >> (segment - 1).max(0) & 0xf;
    let byte = (segment << 4 | step) as u8 | if is_positive { 0x80 } else { 0 };
    byte ^ A_INVERTED
}

fn decode_a(byte: u8) -> i16 {
    let byte = byte ^ A_INVERTED;
    let (segment, step) = (i32::from(byte >> 4 & 7), i32::from(byte & 0xf));
    let magnitude = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    (if byte & 0x80 != 0 { magnitude } else { -magnitude }) as i16
}

fn encode_mu(sample: i16) -> u8 {
    let is_negative = sample < 0;
    let magnitude = i32::from(if is_negative { !sample } else { sample }) >> 2;
    let magnitude = (magnitude + MU_BIAS).min(MU_CLIP);
    let segment = segment(magnitude, 64);
    let step = magnitude >> (segment + 1) & 0xf;
    !((segment << 4 | step) as u8 | if is_negative { 0x80 } else { 0 })
}

fn decode_mu(byte: u8) -> i16 {
    let byte = !byte;
    let (segment, step) = (i32::from(byte >> 4 & 7), i32::from(byte & 0xf));
    let magnitude = ((((step << 1) + MU_BIAS) << segment) - MU_BIAS) << 2;
    (if byte & 0x80 != 0 { -magnitude } else { magnitude }) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that G.711's tables have: sample of 16 bits and byte.
    #[test]
    fn ends_and_zeros_are_those_of_the_tables() {
        assert_eq!((Law::A.encode(0), Law::A.encode(-1)), (0xd5, 0x55));
        assert_eq!((Law::A.encode(i16::MAX), Law::A.encode(i16::MIN)), (0xaa, 0x2a));
        assert_eq!((Law::A.decode(0xaa), Law::A.decode(0x2a)), (32_256, -32_256));
        assert_eq!((Law::Mu.encode(0), Law::Mu.encode(-1)), (0xff, 0x7f));
        assert_eq!((Law::Mu.encode(i16::MAX), Law::Mu.encode(i16::MIN)), (0x80, 0x00));
        assert_eq!((Law::Mu.decode(0x80), Law::Mu.decode(0x00)), (32_124, -32_124));
    }

    #[test]
    fn every_byte_and_sample_comes_back() {
        for law in [Law::A, Law::Mu] {
            for byte in 0..=255 {
                let again = law.encode(law.decode(byte));
                // Mu-law has two zeros.
                assert!(again == byte || law == Law::Mu && law.decode(byte) == 0, "{law:?} {byte:02x}");
            }
            let mut last = i16::MIN;
            for sample in i16::MIN..=i16::MAX {
                let decoded = law.decode(law.encode(sample));
                let (error, size) = (i32::from(decoded).abs_diff(sample.into()), sample.unsigned_abs());
                assert!(
                    error <= 16.max(u32::from(size) / 27) || size > 32_100,
                    "{law:?} {sample}: {decoded}"
                );
                assert!(decoded >= last, "{law:?}: not monotonous at {sample}");
                last = decoded;
            }
        }
    }
}
