//! Channel descriptors DCD and UCD with their TLVs (802.16-2004, 6.3.2.3.1, 6.3.2.3.3 and 11).

use super::{MessageType, message, need};
use crate::{Error, Layer};

/// Element of type, length and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type.
    pub kind: u8,
    /// Value.
    pub value: &'a [u8],
}

impl Tlv<'_> {
    /// Appends the element.
    ///
    /// # Panics
    /// Panics if the value has 65536 bytes or more.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let len = self.value.len();
        assert!(len <= 0xffff, "a TLV of {len} bytes");
        out.push(self.kind);
        match len {
            0..=127 => out.push(len as u8),
            128..=255 => out.extend([0x81, len as u8]),
            _ => out.extend([0x82, (len >> 8) as u8, len as u8]),
        }
        out.extend_from_slice(self.value);
    }
}

/// Iterator over the elements of a message; it ends after the first error.
#[derive(Clone, Debug)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Creates the iterator over elements that follow one another.
    pub fn new(bytes: &'a [u8]) -> Tlvs<'a> {
        Tlvs(bytes)
    }

    fn read(bytes: &'a [u8]) -> Result<(Tlv<'a>, &'a [u8]), Error> {
        need(bytes, 2)?;
        let (kind, first) = (bytes[0], bytes[1]);
        let extra = if first & 0x80 == 0 { 0 } else { usize::from(first & 0x7f) };
        if extra > 2 || first == 0x80 {
            return Err(Error::malformed(Layer::Wman, 1, "length of a TLV"));
        }
        need(bytes, 2 + extra)?;
        let long = bytes[2..2 + extra].iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let len = if extra == 0 { usize::from(first) } else { long };
        need(bytes, 2 + extra + len)?;
        let (value, rest) = bytes[2 + extra..].split_at(len);
        Ok((Tlv { kind, value }, rest))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match Tlvs::read(self.0) {
            Ok((tlv, rest)) => {
                self.0 = rest;
                Some(Ok(tlv))
            }
            Err(error) => {
                self.0 = &[];
                Some(Err(error))
            }
        }
    }
}

/// Burst profile in a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// DIUC or UIUC.
    pub code: u8,
    /// Modulation and FEC, from 0 for BPSK 1/2 to 6 for 64-QAM 3/4.
    pub fec: u8,
    /// SNR at which a station leaves it, in steps of 0.25 dB. Downlink only.
    pub exit: Option<u8>,
    /// SNR at which a station enters it, in steps of 0.25 dB. Downlink only.
    pub entry: Option<u8>,
}

impl Profile {
    /// TLV type of a burst profile in a descriptor.
    pub const TLV: u8 = 1;
    const FEC: u8 = 150;
    const EXIT: u8 = 151;
    const ENTRY: u8 = 152;

    fn emit(&self, out: &mut Vec<u8>) {
        let mut value = vec![self.code & 15];
        let fields =
            [(Profile::FEC, Some(self.fec)), (Profile::EXIT, self.exit), (Profile::ENTRY, self.entry)];
        for (kind, field) in fields {
            if let Some(field) = field {
                Tlv { kind, value: &[field] }.emit(&mut value);
            }
        }
        Tlv { kind: Profile::TLV, value: &value }.emit(out);
    }

    fn parse(value: &[u8]) -> Result<Profile, Error> {
        need(value, 1)?;
        let mut profile = Profile { code: value[0] & 15, ..Profile::default() };
        for tlv in Tlvs::new(&value[1..]) {
            match tlv? {
                Tlv { kind: Profile::FEC, value: [fec] } => profile.fec = *fec,
                Tlv { kind: Profile::EXIT, value: [exit] } => profile.exit = Some(*exit),
                Tlv { kind: Profile::ENTRY, value: [entry] } => profile.entry = Some(*entry),
                Tlv { .. } => {}
            }
        }
        Ok(profile)
    }
}

/// Returns the burst profiles among elements, and checks all of them.
fn profiles(bytes: &[u8]) -> Result<Vec<Profile>, Error> {
    let of_it = |tlv: &Result<Tlv<'_>, Error>| !matches!(tlv, Ok(tlv) if tlv.kind != Profile::TLV);
    Tlvs::new(bytes).filter(of_it).map(|tlv| Profile::parse(tlv?.value)).collect()
}

/// Downlink channel descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dcd {
    /// Downlink channel.
    pub channel: u8,
    /// Configuration count, which the DL-MAP repeats.
    pub count: u8,
    /// Frame duration code. 2.5, 4, 5, 8, 10, 12.5 and 20 ms are 0 to 6.
    pub frame_code: u8,
    /// Frame number, 24 bits.
    pub frame: u32,
    /// TTG and RTG in physical slots; zero in FDD.
    pub gaps: [u8; 2],
    /// Burst profiles.
    pub profiles: Vec<Profile>,
}

impl Dcd {
    /// Length in bytes without elements.
    pub const HEADER_LEN: usize = 3;
    const TTG: u8 = 7;
    const RTG: u8 = 8;
    const FRAME_CODE: u8 = 14;
    const FRAME_NUMBER: u8 = 15;

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([MessageType::DCD.0, self.channel, self.count]);
        let [_, a, b, c] = self.frame.to_be_bytes();
        Tlv { kind: Dcd::TTG, value: &self.gaps[..1] }.emit(out);
        Tlv { kind: Dcd::RTG, value: &self.gaps[1..] }.emit(out);
        Tlv { kind: Dcd::FRAME_CODE, value: &[self.frame_code] }.emit(out);
        Tlv { kind: Dcd::FRAME_NUMBER, value: &[a, b, c] }.emit(out);
        self.profiles.iter().for_each(|profile| profile.emit(out));
    }

    /// Parses the message; unknown elements are skipped.
    ///
    /// # Errors
    /// Returns an error if it is another message, or an element does not fit.
    pub fn parse(bytes: &[u8]) -> Result<Dcd, Error> {
        message(bytes, MessageType::DCD, Dcd::HEADER_LEN)?;
        let elements = &bytes[Dcd::HEADER_LEN..];
        let mut dcd = Dcd { channel: bytes[1], count: bytes[2], ..Dcd::default() };
        dcd.profiles = profiles(elements)?;
        for tlv in Tlvs::new(elements) {
            match tlv? {
                Tlv { kind: Dcd::TTG, value: [gap] } => dcd.gaps[0] = *gap,
                Tlv { kind: Dcd::RTG, value: [gap] } => dcd.gaps[1] = *gap,
                Tlv { kind: Dcd::FRAME_CODE, value: [code] } => dcd.frame_code = *code,
                Tlv { kind: Dcd::FRAME_NUMBER, value: [a, b, c] } => {
                    dcd.frame = u32::from_be_bytes([0, *a, *b, *c])
                }
                Tlv { .. } => {}
            }
        }
        Ok(dcd)
    }
}

/// Uplink channel descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ucd {
    /// Configuration count, which the UL-MAP repeats.
    pub count: u8,
    /// First and last backoff window of initial ranging, as powers of two.
    pub ranging_backoff: [u8; 2],
    /// First and last backoff window of requests, as powers of two.
    pub request_backoff: [u8; 2],
    /// Burst profiles.
    pub profiles: Vec<Profile>,
}

impl Ucd {
    /// Length in bytes without elements.
    pub const HEADER_LEN: usize = 6;

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([MessageType::UCD.0, self.count]);
        out.extend(self.ranging_backoff);
        out.extend(self.request_backoff);
        self.profiles.iter().for_each(|profile| profile.emit(out));
    }

    /// Parses the message; unknown elements are skipped.
    ///
    /// # Errors
    /// Returns an error if it is another message, or an element does not fit.
    pub fn parse(bytes: &[u8]) -> Result<Ucd, Error> {
        message(bytes, MessageType::UCD, Ucd::HEADER_LEN)?;
        Ok(Ucd {
            count: bytes[1],
            ranging_backoff: [bytes[2], bytes[3]],
            request_backoff: [bytes[4], bytes[5]],
            profiles: profiles(&bytes[Ucd::HEADER_LEN..])?,
        })
    }
}
