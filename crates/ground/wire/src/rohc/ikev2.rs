//! Negotiation of ROHC over IPsec: the ROHC_SUPPORTED notification of IKEv2 (RFC 5857).
//!
//! *Models* the Notify payload with its generic header. *Does not model* messages of IKEv2 around it, nor keys: what
//! [`esp`](super::esp) needs of them is given by the caller.

use super::esp::Integrity;
use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Notify Message Type of ROHC_SUPPORTED.
pub const ROHC_SUPPORTED: u16 = 16_416;

/// Length of the generic payload header, protocol, SPI size and message type.
const HEADER_LEN: usize = 8;
/// Attribute of two octets of value and no length.
const SHORT: u16 = 0x8000;
const MAX_CID: u16 = 1;
const PROFILE: u16 = 2;
const INTEG: u16 = 3;
const ICV_LEN: u16 = 4;
const MRRU: u16 = 5;
/// Highest CID that MAX_CID may announce.
const HIGHEST_CID: u16 = 16_383;

/// Parameters of the sender's decompressor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supported {
    /// Highest CID, up to 16,383.
    pub max_cid: u16,
    /// Profiles, in any order; not two versions of one.
    pub profiles: Vec<u16>,
    /// Integrity algorithms: those offered, or the one that a responder chose.
    pub integrity: Vec<u16>,
    /// Length in bytes to which the ICV is cut; `None`: whole.
    pub icv_len: Option<u16>,
    /// Largest reconstructed unit in bytes; `None` or 0: no segmentation.
    pub mrru: Option<u16>,
}

impl Supported {
    /// Reads a Notify payload, its generic header first. Returns the type of the payload behind it, too.
    ///
    /// Attributes of unknown types are passed over.
    ///
    /// # Errors
    /// Returns an error if it is truncated or malformed, or lacks an attribute; `Unsupported` for other notifications.
    pub fn parse(bytes: &[u8]) -> Result<(Self, u8), Error> {
        let Some(&[next, flags, high, low, protocol, spi_len, kind_high, kind_low]) =
            bytes.first_chunk::<HEADER_LEN>()
        else {
            return Err(Error::truncated(Layer::Ikev2, 0, HEADER_LEN, bytes.len()));
        };
        if u16::from_be_bytes([kind_high, kind_low]) != ROHC_SUPPORTED {
            return Err(Error::unsupported(Layer::Ikev2, 6, "notification of something else"));
        }
        if flags & 0x80 != 0 || protocol != 0 || spi_len != 0 {
            return Err(Error::malformed(Layer::Ikev2, 1, "critical bit, protocol or SPI"));
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        let data = bytes.get(HEADER_LEN..len).ok_or(Error::truncated(
            Layer::Ikev2,
            2,
            len.max(HEADER_LEN),
            bytes.len(),
        ))?;
        Ok((Self::attributes(data)?, next))
    }

    fn attributes(mut data: &[u8]) -> Result<Self, Error> {
        let (mut found, mut max_cid) = (Self::default(), None);
        while !data.is_empty() {
            let cut = Error::truncated(Layer::Ikev2, HEADER_LEN, 4, data.len());
            let Some(&[kind_high, kind_low, high, low]) = data.first_chunk::<4>() else { return Err(cut) };
            let (kind, value) = (u16::from_be_bytes([kind_high, kind_low]), u16::from_be_bytes([high, low]));
            let rest = if kind & SHORT != 0 { 4 } else { 4 + usize::from(value) };
            data = data.get(rest..).ok_or(cut)?;
            let once = |is_free: bool| {
                if is_free { Ok(Some(value)) } else { Err(malformed("attribute sent twice")) }
            };
            match (kind & SHORT != 0, kind & !SHORT) {
                (true, MAX_CID) => max_cid = once(max_cid.is_none())?,
                (true, PROFILE) => found.profiles.push(value),
                (true, INTEG) => found.integrity.push(value),
                (true, ICV_LEN) => found.icv_len = once(found.icv_len.is_none())?,
                (true, MRRU) => found.mrru = once(found.mrru.is_none())?,
                (false, MAX_CID..=MRRU) => return Err(malformed("attribute with a length")),
                _ => {}
            }
        }
        found.max_cid = max_cid.filter(|&cid| cid <= HIGHEST_CID).ok_or(malformed("MAX_CID"))?;
        found.check()?;
        Ok(found)
    }

    fn check(&self) -> Result<(), Error> {
        let low = |profile: &u16| profile & 0xff;
        let is_twice = |(at, one): (usize, &u16)| {
            self.profiles[..at].iter().any(|two| low(one) == low(two) && one != two)
        };
        if self.profiles.is_empty() || self.integrity.is_empty() {
            return Err(malformed("no profile or no integrity algorithm"));
        }
        if self.profiles.iter().enumerate().any(is_twice) {
            return Err(malformed("two versions of one profile"));
        }
        Ok(())
    }

    /// Appends a Notify payload; `next` is the type of the payload behind it.
    ///
    /// # Panics
    /// Panics if it takes more than 65,535 bytes.
    pub fn emit(&self, next: u8, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[next, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&ROHC_SUPPORTED.to_be_bytes());
        let mut attribute = |kind: u16, value: u16| {
            out.extend_from_slice(&(SHORT | kind).to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        };
        attribute(MAX_CID, self.max_cid);
        self.profiles.iter().for_each(|&profile| attribute(PROFILE, profile));
        self.integrity.iter().for_each(|&algorithm| attribute(INTEG, algorithm));
        self.icv_len.into_iter().for_each(|len| attribute(ICV_LEN, len));
        self.mrru.into_iter().for_each(|mrru| attribute(MRRU, mrru));
        let len = u16::try_from(out.len() - start).expect("a payload of up to 65535 bytes");
        put16(&mut out[start..], 2, len);
    }

    /// Returns the algorithm that a responder chooses: the first offered that [`Integrity`] has. `None`: no ROHC on the SA.
    pub fn choose(&self) -> Option<Integrity> {
        self.integrity.iter().find_map(|&number| Integrity::from_number(number))
    }
}

const fn malformed(what: &'static str) -> Error {
    Error::malformed(Layer::Ikev2, HEADER_LEN, what)
}

/// Returns the type of a Notify payload, if `bytes` has that much of one.
pub fn notify_type(bytes: &[u8]) -> Option<u16> {
    (bytes.len() >= HEADER_LEN).then(|| be16(bytes, 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn supported() -> Supported {
        Supported {
            max_cid: 15,
            profiles: vec![0x0101, 0x0002],
            integrity: vec![12, 0],
            icv_len: Some(4),
            mrru: Some(1600),
        }
    }

    #[test]
    fn a_payload_comes_back() {
        let mut out = Vec::new();
        supported().emit(43, &mut out);
        assert_eq!(out[..12], [43, 0, 0, 36, 0, 0, 0x40, 0x20, 0x80, 1, 0, 15]);
        assert_eq!(Supported::parse(&out), Ok((supported(), 43)));
        assert_eq!(supported().choose(), Some(Integrity::HmacSha256));
        for len in 0..out.len() {
            assert!(Supported::parse(&out[..len]).is_err());
        }
    }

    #[test]
    fn what_the_rfc_forbids_is_refused() {
        let refused = |change: fn(&mut Supported)| {
            let (mut wrong, mut out) = (supported(), Vec::new());
            change(&mut wrong);
            wrong.emit(0, &mut out);
            Supported::parse(&out).unwrap_err().kind
        };
        let versions = refused(|wrong| wrong.profiles = vec![0x0102, 0x0002]);
        assert_eq!(versions, Kind::Malformed("two versions of one profile"));
        assert_eq!(refused(|wrong| wrong.max_cid = 16_384), Kind::Malformed("MAX_CID"));
        let none = Kind::Malformed("no profile or no integrity algorithm");
        assert_eq!(
            (refused(|wrong| wrong.profiles.clear()), refused(|wrong| wrong.integrity.clear())),
            (none, none)
        );
    }
}
