//! WAV files (RIFF/WAVE) of linear samples of 16 bits.
//!
//! *Models*: the chunks `fmt ` and `data`; others are left out. *Does not model*: other formats of samples.
//!
//! *References*: IBM and Microsoft, Multimedia Programming Interface and Data Specifications 1.0; RFC 2361.

use crate::{Error, Layer};

/// Length in bytes of what is written in front of the samples.
pub const HEADER_LEN: usize = 44;
/// Format of linear samples, and that of a format described by a further identifier.
const LINEAR: u16 = 1;
const EXTENSIBLE: u16 = 0xfffe;
/// Length of the fields of `fmt ` that each format has.
const FORMAT_LEN: usize = 16;

/// Samples of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Samples per second and channel.
    pub rate_hz: u32,
    /// Number of channels, whose samples take turns.
    pub channels: u16,
    /// Samples.
    pub samples: Vec<i16>,
}

impl Repr {
    /// Reads a file. A `data` chunk that is longer than the file ends with it, as that of a stream does.
    ///
    /// # Errors
    /// Returns an error if this is not a WAV file, or its samples are not linear with 16 bits.
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        let need = |at: usize, needed: usize| match bytes.len() {
            have if have < needed => Err(Error::truncated(Layer::Wav, at, needed, have)),
            _ => Ok(()),
        };
        need(0, 12)?;
        if &bytes[..4] != b"RIFF" || &bytes[8..12] != b"WAVE" {
            return Err(Error::malformed(Layer::Wav, 0, "no \"RIFF\" and \"WAVE\" at the start"));
        }
        let (mut at, mut format) = (12, None);
        loop {
            need(at, at + 8)?;
            let len = u32::from_le_bytes([bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]]);
            let (start, end) = (at + 8, (at + 8).saturating_add(len as usize));
            match &bytes[at..at + 4] {
                b"fmt " => {
                    need(start, start + FORMAT_LEN)?;
                    format = Some(read_format(&bytes[start..start + FORMAT_LEN], start)?);
                }
                b"data" => {
                    let (channels, rate_hz) = format.ok_or(Error::malformed(
                        Layer::Wav,
                        at,
                        "no \"fmt \" in front of the samples",
                    ))?;
                    let data = &bytes[start..end.min(bytes.len())];
                    let mut samples: Vec<i16> =
                        data.as_chunks().0.iter().map(|two| i16::from_le_bytes(*two)).collect();
                    samples.truncate(samples.len() / usize::from(channels) * usize::from(channels));
                    return Ok(Repr { rate_hz, channels, samples });
                }
                _ => {}
            }
            // Chunks of an odd length are padded.
            at = end.saturating_add(len as usize % 2);
        }
    }

    /// Returns the file.
    ///
    /// # Panics
    /// Panics if the samples exceed 4 GiB.
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = u32::try_from(2 * self.samples.len() + HEADER_LEN - 8).expect("at most 4 GiB");
        let frame_len = 2 * self.channels;
        let mut bytes = Vec::with_capacity(HEADER_LEN + 2 * self.samples.len());
        bytes.extend(b"RIFF");
        bytes.extend(len.to_le_bytes());
        bytes.extend(b"WAVEfmt ");
        bytes.extend((FORMAT_LEN as u32).to_le_bytes());
        bytes.extend(LINEAR.to_le_bytes());
        bytes.extend(self.channels.to_le_bytes());
        bytes.extend(self.rate_hz.to_le_bytes());
        bytes.extend(self.rate_hz.wrapping_mul(frame_len.into()).to_le_bytes());
        bytes.extend(frame_len.to_le_bytes());
        bytes.extend(16_u16.to_le_bytes());
        bytes.extend(b"data");
        bytes.extend((len - (HEADER_LEN as u32 - 8)).to_le_bytes());
        bytes.extend(self.samples.iter().flat_map(|sample| sample.to_le_bytes()));
        bytes
    }
}

/// Returns the channels and the rate of a `fmt ` chunk that is at `at`.
fn read_format(bytes: &[u8], at: usize) -> Result<(u16, u32), Error> {
    let half = |n: usize| u16::from_le_bytes([bytes[n], bytes[n + 1]]);
    let rate_hz = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    if ![LINEAR, EXTENSIBLE].contains(&half(0)) || half(14) != 16 {
        return Err(Error::unsupported(Layer::Wav, at, "samples are not linear with 16 bits"));
    }
    let channels = half(2);
    if channels == 0 || channels > 0x7fff || rate_hz == 0 {
        return Err(Error::malformed(Layer::Wav, at, "no channel or no rate, or too many channels"));
    }
    Ok((channels, rate_hz))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn file() -> Repr {
        Repr { rate_hz: 8000, channels: 1, samples: vec![0, 1, -1, i16::MIN, i16::MAX] }
    }

    #[test]
    fn samples_come_back_and_other_chunks_are_left_out() {
        let bytes = file().to_bytes();
        assert_eq!(bytes.len(), HEADER_LEN + 10);
        assert_eq!(Repr::parse(&bytes), Ok(file()));
        let more = [&bytes[..12], b"LIST\x03\0\0\0abc\0", &bytes[12..]].concat();
        assert_eq!(Repr::parse(&more), Ok(file()));
        // A stream whose length was not known.
        let mut open = bytes.clone();
        open[40..44].copy_from_slice(&[0xff; 4]);
        assert_eq!(Repr::parse(&open), Ok(file()));
        assert_eq!(Repr::parse(&bytes[..bytes.len() - 1]).map(|wav| wav.samples.len()), Ok(4));
    }

    #[test]
    fn what_is_not_linear_is_refused() {
        let mut other = file().to_bytes();
        other[20] = 7;
        assert!(matches!(Repr::parse(&other).unwrap_err().kind, Kind::Unsupported(_)));
        assert!(matches!(Repr::parse(b"RIFF").unwrap_err().kind, Kind::Truncated { .. }));
        assert!(matches!(Repr::parse(&[0; 50]).unwrap_err().kind, Kind::Malformed(_)));
        assert!(Repr::parse(&file().to_bytes()[..36]).is_err(), "no samples");
    }
}
