//! DVB-S2 baseband frames (ETSI EN 302 307-1, section 5.1): BBHEADER and data field. Also the MODCODs, which
//! determine their length, and the mode adaptation header L.3 of modulators and receivers.
//!
//! A data field has GSE packets ([`crate::dvb::gse`]) or a transport stream ([`Framer`], [`Deframer`]).
//!
//! Not here: input stream synchronisation, deletion of NULL packets, GSE-HEM (DVB-S2X), FEC and modulation.

mod modcod;
#[cfg(test)]
mod tests;
mod transport;

pub use transport::{Deframer, DeframerCounts, Framer};

pub use modcod::{FrameSize, MODCODS, Modcod, Modulation, NoModcod};

use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// UDP port of baseband frames in captures, which selects the decoder.
pub const CAPTURE_PORT: u16 = 7001;

/// Length in bytes of the BBHEADER.
pub const HEADER_LEN: usize = 10;
/// Maximum length of a data field in bytes: rate 9/10, normal FECFRAME.
pub const MAX_DATA_FIELD_LEN: usize = 7264;
/// Length in bytes of a mode adaptation header L.3.
pub const ADAPTATION_LEN: usize = 4;

/// First byte of a mode adaptation header.
const ADAPTATION_SYNC: u8 = 0xb8;

/// `TABLE[b]`: the CRC-8 register after byte `b` on a register of 0.
static TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    const POLYNOMIAL: u8 = 0xd5;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u8;
        let mut bit = 0;
        while bit < 8 {
            let carry = if register >> 7 == 1 { POLYNOMIAL } else { 0 };
            register = register << 1 ^ carry;
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// Returns the CRC-8 of DVB-S2. Polynomial x^8 + x^7 + x^6 + x^4 + x^2 + 1, register 0 at the start.
pub fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |register, &byte| TABLE[usize::from(register ^ byte)])
}

/// Content of a stream's data fields (TS/GS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A transport stream, each sync byte replaced by the CRC-8 of the packet before.
    Transport,
    /// Packets of a constant length.
    Packetized,
    /// A continuous generic stream: GSE.
    Continuous,
}

/// Spectral roll-off factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollOff {
    /// 0.35.
    #[default]
    R035,
    /// 0.25.
    R025,
    /// 0.20.
    R020,
}

/// A BBHEADER as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Content of the data field.
    pub stream: Stream,
    /// Input stream identifier, if there are multiple input streams; `None` for a single one.
    pub input: Option<u8>,
    /// Set if all frames have the same MODCOD (CCM); otherwise ACM or VCM.
    pub is_constant: bool,
    /// Set if input stream synchronisation is used (ISSYI).
    pub has_sync: bool,
    /// Set if NULL packets are deleted (NPD).
    pub deletes_nulls: bool,
    /// Roll-off.
    pub roll_off: RollOff,
    /// User packet length in bits, 0 in a continuous stream.
    pub packet_bits: u16,
    /// Data field length in bytes.
    pub data_field_len: usize,
    /// User packet sync byte.
    pub sync: u8,
    /// Bits to the first user packet in the data field; 65,535 if none starts there.
    pub distance_bits: u16,
}

impl Repr {
    /// Creates a header for GSE packets of a single input stream, with ACM or VCM.
    pub const fn gse(data_field_len: usize) -> Repr {
        Repr {
            stream: Stream::Continuous,
            input: None,
            is_constant: false,
            has_sync: false,
            deletes_nulls: false,
            roll_off: RollOff::R035,
            packet_bits: 0,
            data_field_len,
            sync: 0,
            distance_bits: 0,
        }
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is truncated; `Checksum` if the CRC-8 is wrong; `Unsupported` for GSE-HEM and
    /// for the roll-off code that DVB-S2X gives a meaning; `Malformed` if the data field is not a whole
    /// number of bytes or over the maximum length.
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::truncated(Layer::BbFrame, 0, HEADER_LEN, bytes.len()));
        };
        let stream = stream(header)?;
        if crc8(header) != 0 {
            return Err(Error::checksum(Layer::BbFrame, 9));
        }
        let roll_off = match header[0] & 3 {
            0 => RollOff::R035,
            1 => RollOff::R025,
            2 => RollOff::R020,
            _ => return Err(Error::unsupported(Layer::BbFrame, 0, "roll-off of DVB-S2X")),
        };
        let bits = usize::from(be16(header, 4));
        if !bits.is_multiple_of(8) || bits / 8 > MAX_DATA_FIELD_LEN {
            return Err(Error::malformed(Layer::BbFrame, 4, "data field length"));
        }
        Ok(Repr {
            stream,
            input: (header[0] & 0x20 == 0).then_some(header[1]),
            is_constant: header[0] & 0x10 != 0,
            has_sync: header[0] & 0x08 != 0,
            deletes_nulls: header[0] & 0x04 != 0,
            roll_off,
            packet_bits: be16(header, 2),
            data_field_len: bits / 8,
            sync: header[6],
            distance_bits: be16(header, 7),
        })
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than 10 bytes, or the data field longer than [`MAX_DATA_FIELD_LEN`].
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.data_field_len <= MAX_DATA_FIELD_LEN, "no data field has {} bytes", self.data_field_len);
        let stream = match self.stream {
            Stream::Packetized => 0x00,
            Stream::Continuous => 0x40,
            Stream::Transport => 0xc0,
        };
        let flags = u8::from(self.input.is_none()) << 5
            | u8::from(self.is_constant) << 4
            | u8::from(self.has_sync) << 3
            | u8::from(self.deletes_nulls) << 2;
        buffer[0] = stream | flags | self.roll_off as u8;
        buffer[1] = self.input.unwrap_or(0);
        put16(buffer, 2, self.packet_bits);
        put16(buffer, 4, (self.data_field_len * 8) as u16);
        buffer[6] = self.sync;
        put16(buffer, 7, self.distance_bits);
        buffer[9] = crc8(&buffer[..9]);
    }
}

/// Returns the content of the data field. GSE-HEM has another header, whose CRC-8 is inverted in its last
/// bit.
fn stream(header: &[u8; HEADER_LEN]) -> Result<Stream, Error> {
    match header[0] >> 6 {
        0 => Ok(Stream::Packetized),
        1 => Ok(Stream::Continuous),
        3 => Ok(Stream::Transport),
        _ if crc8(&header[..9]) ^ 1 == header[9] => Err(Error::unsupported(Layer::BbFrame, 0, "GSE-HEM")),
        _ => Err(Error::checksum(Layer::BbFrame, 9)),
    }
}

/// Parses a frame into header and data field, without the padding to the FEC's length.
///
/// # Errors
/// Returns the errors of [`Repr::parse`]; `Truncated` if the data field is longer than the frame.
pub fn parse(frame: &[u8]) -> Result<(Repr, &[u8]), Error> {
    let repr = Repr::parse(frame)?;
    let needed = HEADER_LEN + repr.data_field_len;
    match frame.get(HEADER_LEN..needed) {
        Some(data_field) => Ok((repr, data_field)),
        None => Err(Error::truncated(Layer::BbFrame, 4, needed, frame.len())),
    }
}

/// A mode adaptation header L.3: with what a frame is, or was, modulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptation {
    /// Frame type: a MODCOD; `None` for a dummy frame.
    pub modcod: Option<Modcod>,
    /// The length of its FECFRAME.
    pub size: FrameSize,
    /// Set if there are pilots.
    pub has_pilots: bool,
    /// Received C/N+I: 0 if unlocked, otherwise (n - 1) / 8 - 1 dB.
    pub carrier_to_noise: u8,
    /// A count of frames.
    pub number: u8,
}

impl Adaptation {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is truncated; `Malformed` without sync byte; `Unsupported` for a reserved
    /// MODCOD.
    pub fn parse(bytes: &[u8]) -> Result<Adaptation, Error> {
        let Some(&[sync, command, carrier_to_noise, number]) = bytes.first_chunk::<ADAPTATION_LEN>() else {
            return Err(Error::truncated(Layer::BbFrame, 0, ADAPTATION_LEN, bytes.len()));
        };
        if sync != ADAPTATION_SYNC {
            return Err(Error::malformed(Layer::BbFrame, 0, "no mode adaptation header"));
        }
        let modcod = Modcod::new(command & 0x1f);
        if modcod.is_none() && command & 0x1f != 0 {
            return Err(Error::unsupported(Layer::BbFrame, 1, "reserved MODCOD"));
        }
        let size = if command & 0x40 != 0 { FrameSize::Short } else { FrameSize::Normal };
        Ok(Adaptation { modcod, size, has_pilots: command & 0x20 != 0, carrier_to_noise, number })
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than 4 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let size = u8::from(self.size == FrameSize::Short) << 6;
        let modcod = self.modcod.map_or(0, Modcod::number);
        let command = size | u8::from(self.has_pilots) << 5 | modcod;
        buffer[..ADAPTATION_LEN].copy_from_slice(&[
            ADAPTATION_SYNC,
            command,
            self.carrier_to_noise,
            self.number,
        ]);
    }
}
