//! MAC headers: generic, and bandwidth request (802.16-2004, 6.3.2.1).

use super::{Cid, need};
use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Length in bytes of a MAC header of either kind.
pub const HEADER_LEN: usize = 6;
/// Maximum length of a MAC PDU in bytes: LEN has 11 bits.
pub const MAX_PDU_LEN: usize = 0x7ff;

/// Header type: a bandwidth request.
const HT: u8 = 0x80;
/// Encryption control.
const EC: u8 = 0x40;
/// Reserved in 2004, the extended subheader field of 2005.
const ESF: u8 = 0x80;
/// CRC indicator.
const CI: u8 = 0x40;
/// Types of the subheaders that follow.
const FRAGMENTATION: u8 = 0x04;
const PACKING: u8 = 0x02;
const GRANT: u8 = 0x01;
const EXTENDED: u8 = 0x08;
const ARQ_FEEDBACK: u8 = 0x10;
const MESH: u8 = 0x20;

/// Returns the header check sequence (HCS). It is a CRC-8 with x^8 + x^2 + x + 1, initially zero.
///
/// ```
/// assert_eq!(bentpipe_wire::wman::hcs(&[0x00, 0x40, 0x3a, 0x20, 0x01]), 0x54);
/// ```
pub fn hcs(bytes: &[u8]) -> u8 {
    const POLYNOMIAL: u8 = 0x07;
    let step = |register: u8| register << 1 ^ if register & 0x80 == 0 { 0 } else { POLYNOMIAL };
    bytes.iter().fold(0, |register, byte| (0..8).fold(register ^ byte, |register, _| step(register)))
}

/// Generic MAC header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generic {
    /// Set if the payload is ARQ feedback.
    pub arq_feedback: bool,
    /// Set if fragment numbers have 11 bits.
    pub extended: bool,
    /// Set if a fragmentation subheader follows.
    pub fragmentation: bool,
    /// Set if packing subheaders follow.
    pub packing: bool,
    /// Set if a grant management subheader follows (uplink).
    pub grant: bool,
    /// Set if a CRC-32 ends the PDU.
    pub crc: bool,
    /// Length of the PDU in bytes, with header and CRC.
    pub len: u16,
    /// Connection, 16 bits.
    pub cid: u16,
}

impl Generic {
    /// Writes the header.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`HEADER_LEN`], or `len` has more than 11 bits.
    pub fn emit(&self, out: &mut [u8]) {
        assert!(usize::from(self.len) <= MAX_PDU_LEN, "a MAC PDU of {} bytes", self.len);
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        out[0] = bit(self.arq_feedback, ARQ_FEEDBACK)
            | bit(self.extended, EXTENDED)
            | bit(self.fragmentation, FRAGMENTATION)
            | bit(self.packing, PACKING)
            | bit(self.grant, GRANT);
        put16(out, 1, self.len | u16::from(bit(self.crc, CI)) << 8);
        put16(out, 3, self.cid);
        out[5] = hcs(&out[..5]);
    }

    fn parse(bytes: &[u8]) -> Result<Generic, Error> {
        let (kind, flags) = (bytes[0], bytes[1]);
        if kind & EC != 0 {
            return Err(Error::unsupported(Layer::Wman, 0, "encryption"));
        }
        if kind & MESH != 0 || flags & ESF != 0 {
            return Err(Error::unsupported(Layer::Wman, 0, "mesh or extended subheaders"));
        }
        let len = be16(bytes, 1) & 0x7ff;
        if usize::from(len) < HEADER_LEN {
            return Err(Error::malformed(Layer::Wman, 1, "length below that of the header"));
        }
        let has = |bit: u8| kind & bit != 0;
        Ok(Generic {
            arq_feedback: has(ARQ_FEEDBACK),
            extended: has(EXTENDED),
            fragmentation: has(FRAGMENTATION),
            packing: has(PACKING),
            grant: has(GRANT),
            crc: flags & CI != 0,
            len,
            cid: be16(bytes, 3),
        })
    }
}

/// Kind of a bandwidth request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Bytes in addition to those asked for before.
    Incremental,
    /// Total of waiting bytes.
    Aggregate,
}

/// Bandwidth request header, a PDU without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of the request.
    pub kind: Urgency,
    /// Requested bytes, 19 bits, without the overhead of the PHY.
    pub bytes: u32,
    /// Connection.
    pub cid: Cid,
}

impl Request {
    /// Largest request in bytes.
    pub const MAX: u32 = 0x7_ffff;

    /// Writes the header.
    ///
    /// # Panics
    /// Panics if `out` is shorter than [`HEADER_LEN`], or `bytes` has more than 19 bits.
    pub fn emit(&self, out: &mut [u8]) {
        assert!(self.bytes <= Request::MAX, "a request of {} bytes", self.bytes);
        let aggregate = if self.kind == Urgency::Aggregate { 0x08 } else { 0 };
        out[0] = HT | aggregate | (self.bytes >> 16) as u8;
        put16(out, 1, self.bytes as u16);
        put16(out, 3, self.cid.0);
        out[5] = hcs(&out[..5]);
    }

    fn parse(bytes: &[u8]) -> Result<Request, Error> {
        let kind = match (bytes[0] & EC, bytes[0] >> 3 & 7) {
            (0, 0) => Urgency::Incremental,
            (0, 1) => Urgency::Aggregate,
            _ => return Err(Error::unsupported(Layer::Wman, 0, "type of signalling header")),
        };
        let bytes_asked = u32::from(bytes[0] & 7) << 16 | u32::from(be16(bytes, 1));
        Ok(Request { kind, bytes: bytes_asked, cid: Cid(be16(bytes, 3)) })
    }
}

/// MAC header of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Header of a PDU with payload.
    Generic(Generic),
    /// Bandwidth request.
    Request(Request),
}

impl Header {
    /// Parses a header.
    ///
    /// # Errors
    /// Returns an error if the bytes end early, the HCS is wrong, or encryption, mesh or a later header type is used.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        need(bytes, HEADER_LEN)?;
        if hcs(&bytes[..5]) != bytes[5] {
            return Err(Error::checksum(Layer::Wman, 5));
        }
        if bytes[0] & HT == 0 {
            Generic::parse(bytes).map(Header::Generic)
        } else {
            Request::parse(bytes).map(Header::Request)
        }
    }
}
