//! Downlink frame prefix, DL-MAP and UL-MAP of OFDM-256 (802.16-2004, 8.3.5.1, 8.3.6.2 and 8.3.6.3).

use super::{Cid, MessageType, hcs, message, need};
use crate::bytes::{array, be16, be32, put16};
use crate::{Error, Layer};

/// Length in bytes of the downlink frame prefix, which fills a symbol of BPSK 1/2.
pub const FCH_LEN: usize = 11;

/// Burst in the downlink frame prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FchBurst {
    /// Rate of the first burst, DIUC of the others. Rates are 0 for BPSK 1/2 to 6 for 64-QAM 3/4.
    pub profile: u8,
    /// Set if a preamble precedes it.
    pub preamble: bool,
    /// Length in symbols; zero for none.
    pub symbols: u16,
}

/// Downlink frame prefix, the content of the frame control header (FCH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fch {
    /// Low bits of the base station's number.
    pub base_station: u8,
    /// Low bits of the frame number.
    pub frame: u8,
    /// Low bits of the configuration count.
    pub configuration: u8,
    /// Bursts after the FCH.
    pub bursts: [FchBurst; 4],
}

impl Fch {
    /// Writes the prefix.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`FCH_LEN`].
    pub fn emit(&self, out: &mut [u8]) {
        out[0] = self.base_station << 4 | self.frame & 15;
        out[1] = self.configuration << 4;
        for (n, burst) in self.bursts.iter().enumerate() {
            let field =
                u16::from(burst.profile & 15) << 12 | u16::from(burst.preamble) << 11 | burst.symbols & 0x7ff;
            put16(out, 2 + 2 * n, field);
        }
        out[FCH_LEN - 1] = hcs(&out[..FCH_LEN - 1]);
    }

    /// Parses a prefix.
    ///
    /// # Errors
    /// Returns an error if the bytes end early or the HCS is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Fch, Error> {
        need(bytes, FCH_LEN)?;
        if hcs(&bytes[..FCH_LEN - 1]) != bytes[FCH_LEN - 1] {
            return Err(Error::checksum(Layer::Wman, FCH_LEN - 1));
        }
        let burst = |n: usize| {
            let field = be16(bytes, 2 + 2 * n);
            let profile = (field >> 12) as u8;
            FchBurst { profile, preamble: field & 0x800 != 0, symbols: field & 0x7ff }
        };
        Ok(Fch {
            base_station: bytes[0] >> 4,
            frame: bytes[0] & 15,
            configuration: bytes[1] >> 4,
            bursts: [0, 1, 2, 3].map(burst),
        })
    }
}

/// Element of a DL-MAP: a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlElement {
    /// Connection, or broadcast.
    pub cid: Cid,
    /// Downlink interval usage code. Burst profiles are 1 to 11, a gap is 13, the end 14.
    pub diuc: u8,
    /// Set if a preamble precedes it.
    pub preamble: bool,
    /// First symbol, from the start of the frame; 11 bits.
    pub start: u16,
}

impl DlElement {
    /// Length in bytes.
    pub const LEN: usize = 4;
    /// DIUC of a gap.
    pub const GAP: u8 = 13;
    /// DIUC that ends the map.
    pub const END: u8 = 14;

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.cid.0.to_be_bytes());
        let field = u16::from(self.diuc & 15) << 12 | u16::from(self.preamble) << 11 | self.start & 0x7ff;
        out.extend(field.to_be_bytes());
    }

    fn parse(bytes: &[u8]) -> DlElement {
        let field = be16(bytes, 2);
        let (diuc, preamble) = ((field >> 12) as u8, field & 0x800 != 0);
        DlElement { cid: Cid(be16(bytes, 0)), diuc, preamble, start: field & 0x7ff }
    }
}

/// Downlink map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DlMap {
    /// Configuration count of the DCD.
    pub dcd_count: u8,
    /// Number of the base station.
    pub base_station: [u8; 6],
    /// Bursts.
    pub elements: Vec<DlElement>,
}

impl DlMap {
    /// Length in bytes without elements.
    pub const HEADER_LEN: usize = 8;

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([MessageType::DL_MAP.0, self.dcd_count]);
        out.extend(self.base_station);
        self.elements.iter().for_each(|element| element.emit(out));
    }

    /// Parses the message.
    ///
    /// # Errors
    /// Returns an error if it is another message, or ends within an element.
    pub fn parse(bytes: &[u8]) -> Result<DlMap, Error> {
        message(bytes, MessageType::DL_MAP, DlMap::HEADER_LEN)?;
        let elements = whole::<{ DlElement::LEN }>(bytes, DlMap::HEADER_LEN)?;
        let elements = elements.map(|bytes| DlElement::parse(bytes)).collect();
        Ok(DlMap { dcd_count: bytes[1], base_station: array(bytes, 2), elements })
    }
}

/// Element of a UL-MAP: an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UlElement {
    /// Connection, or broadcast.
    pub cid: Cid,
    /// First symbol, from the allocation start time; 11 bits.
    pub start: u16,
    /// Subchannel index, 5 bits; 16 is all of them.
    pub subchannel: u8,
    /// Uplink interval usage code. Initial ranging is 1, a request region 2, burst profiles 5 to 12, the end 14.
    pub uiuc: u8,
    /// Length in symbols, 10 bits.
    pub duration: u16,
    /// Midamble repetition, 2 bits.
    pub midamble: u8,
}

impl UlElement {
    /// Length in bytes.
    pub const LEN: usize = 6;
    /// UIUC of initial ranging.
    pub const RANGING: u8 = 1;
    /// UIUC of a request region in all subchannels.
    pub const REQUEST: u8 = 2;
    /// UIUC that ends the map.
    pub const END: u8 = 14;

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.cid.0.to_be_bytes());
        let field = u32::from(self.start & 0x7ff) << 21
            | u32::from(self.subchannel & 31) << 16
            | u32::from(self.uiuc & 15) << 12
            | u32::from(self.duration & 0x3ff) << 2
            | u32::from(self.midamble & 3);
        out.extend(field.to_be_bytes());
    }

    fn parse(bytes: &[u8]) -> UlElement {
        let field = be32(bytes, 2);
        UlElement {
            cid: Cid(be16(bytes, 0)),
            start: (field >> 21) as u16,
            subchannel: (field >> 16 & 31) as u8,
            uiuc: (field >> 12 & 15) as u8,
            duration: (field >> 2 & 0x3ff) as u16,
            midamble: (field & 3) as u8,
        }
    }
}

/// Uplink map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UlMap {
    /// Configuration count of the UCD.
    pub ucd_count: u8,
    /// Start of the allocations in physical slots, from the start of the frame.
    pub allocation_start: u32,
    /// Allocations.
    pub elements: Vec<UlElement>,
}

impl UlMap {
    /// Length in bytes without elements.
    pub const HEADER_LEN: usize = 7;

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([MessageType::UL_MAP.0, 0, self.ucd_count]);
        out.extend(self.allocation_start.to_be_bytes());
        self.elements.iter().for_each(|element| element.emit(out));
    }

    /// Parses the message.
    ///
    /// # Errors
    /// Returns an error if it is another message, or ends within an element.
    pub fn parse(bytes: &[u8]) -> Result<UlMap, Error> {
        message(bytes, MessageType::UL_MAP, UlMap::HEADER_LEN)?;
        let elements = whole::<{ UlElement::LEN }>(bytes, UlMap::HEADER_LEN)?;
        let elements = elements.map(|bytes| UlElement::parse(bytes)).collect();
        Ok(UlMap { ucd_count: bytes[2], allocation_start: be32(bytes, 3), elements })
    }
}

/// Returns the elements of `N` bytes from `start` on.
fn whole<const N: usize>(bytes: &[u8], start: usize) -> Result<impl Iterator<Item = &[u8; N]>, Error> {
    let (elements, rest) = bytes[start..].as_chunks::<N>();
    if rest.is_empty() {
        Ok(elements.iter())
    } else {
        Err(Error::truncated(
            Layer::Wman,
            bytes.len() - rest.len(),
            bytes.len() - rest.len() + N,
            bytes.len(),
        ))
    }
}
