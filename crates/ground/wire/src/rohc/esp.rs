//! ROHC packets in ESP: Next Header and integrity check value (RFC 5858 4).
//!
//! *Models* what is between compressor and ESP: the ICV over the packet as it was, behind its ROHC packet, cut to the
//! negotiated length. *Does not model* ESP itself, its encryption, and how keys come from IKEv2's KEYMAT.
//!
//! A sender compresses, [seals](Icv::seal) and encrypts with [`NEXT_HEADER`]. A receiver decrypts, [splits](Icv::split),
//! decompresses and [checks](Icv::check); a packet that fails is dropped.

use ::hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384, Sha512};

use crate::{Error, Layer};

/// Next Header of ESP and AH in front of ROHC packets.
pub const NEXT_HEADER: u8 = 142;

/// Integrity algorithm, with its number among IKEv2's transforms of type 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// No ICV.
    None = 0,
    /// AUTH_HMAC_SHA2_256_128 (RFC 4868).
    HmacSha256 = 12,
    /// AUTH_HMAC_SHA2_384_192 (RFC 4868).
    HmacSha384 = 13,
    /// AUTH_HMAC_SHA2_512_256 (RFC 4868).
    HmacSha512 = 14,
}

impl Integrity {
    /// Returns the algorithm of a number. Those with MD5 and SHA-1 are not among them.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            12 => Some(Self::HmacSha256),
            13 => Some(Self::HmacSha384),
            14 => Some(Self::HmacSha512),
            _ => None,
        }
    }

    /// Returns the length of the ICV in bytes.
    pub const fn icv_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::HmacSha256 => 16,
            Self::HmacSha384 => 24,
            Self::HmacSha512 => 32,
        }
    }
}

/// Integrity check of one direction of an SA.
#[derive(Clone)]
pub struct Icv {
    algorithm: Integrity,
    key: Vec<u8>,
    len: usize,
}

impl std::fmt::Debug for Icv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Icv")
            .field("algorithm", &self.algorithm)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

macro_rules! mac {
    ($hash:ty, $key:expr, $packet:expr) => {{
        let mut mac = <Hmac<$hash> as Mac>::new_from_slice($key).expect("keys of any length");
        mac.update($packet);
        mac
    }};
}

impl Icv {
    /// Creates the check. `icv_len` is the receiver's ROHC_ICV_LEN; `None` or more than there is: all of it.
    pub fn new(algorithm: Integrity, key: &[u8], icv_len: Option<u16>) -> Self {
        let whole = algorithm.icv_len();
        Self { algorithm, key: key.to_vec(), len: icv_len.map_or(whole, |len| whole.min(len.into())) }
    }

    /// Returns the length of the ICV in bytes, which every ROHC packet grows by.
    pub const fn icv_len(&self) -> usize {
        self.len
    }

    /// Appends the ICV over the IP packet `ip` to its ROHC packet.
    pub fn seal(&self, ip: &[u8], rohc: &mut Vec<u8>) {
        match self.algorithm {
            Integrity::None => {}
            Integrity::HmacSha256 => self.append(&mac!(Sha256, &self.key, ip).finalize().into_bytes(), rohc),
            Integrity::HmacSha384 => self.append(&mac!(Sha384, &self.key, ip).finalize().into_bytes(), rohc),
            Integrity::HmacSha512 => self.append(&mac!(Sha512, &self.key, ip).finalize().into_bytes(), rohc),
        }
    }

    fn append(&self, code: &[u8], rohc: &mut Vec<u8>) {
        rohc.extend_from_slice(&code[..self.len]);
    }

    /// Splits what ESP delivered into ROHC packet and ICV.
    ///
    /// # Errors
    /// Returns an error if it is shorter than the ICV.
    pub fn split<'a>(&self, payload: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Error> {
        let too_short = Error::truncated(Layer::Esp, 0, self.len, payload.len());
        let at = payload.len().checked_sub(self.len).ok_or(too_short)?;
        Ok(payload.split_at(at))
    }

    /// Checks the ICV of the packet `ip` that the decompressor restored, in constant time.
    ///
    /// # Errors
    /// Returns an error if it is another packet's, which is to be dropped.
    pub fn check(&self, ip: &[u8], icv: &[u8]) -> Result<(), Error> {
        let wrong = Error::checksum(Layer::Esp, 0);
        if icv.len() != self.len {
            return Err(wrong);
        }
        let verified = match self.algorithm {
            _ if self.len == 0 => return Ok(()),
            Integrity::None => return Ok(()),
            Integrity::HmacSha256 => mac!(Sha256, &self.key, ip).verify_truncated_left(icv),
            Integrity::HmacSha384 => mac!(Sha384, &self.key, ip).verify_truncated_left(icv),
            Integrity::HmacSha512 => mac!(Sha512, &self.key, ip).verify_truncated_left(icv),
        };
        verified.map_err(|_| wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 1 of RFC 4231 4.2, cut as RFC 4868 cuts.
    #[test]
    fn the_vectors_of_rfc_4231() {
        let key = [0x0b; 20];
        let cases: [(Integrity, &[u8]); 3] = [
            (Integrity::HmacSha256, &[0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]),
            (Integrity::HmacSha384, &[0xaf, 0xd0, 0x39, 0x44, 0xd8, 0x48, 0x95, 0x62]),
            (Integrity::HmacSha512, &[0x87, 0xaa, 0x7c, 0xde, 0xa5, 0xef, 0x61, 0x9d]),
        ];
        for (algorithm, start) in cases {
            let mut rohc = vec![1, 2, 3];
            let icv = Icv::new(algorithm, &key, None);
            icv.seal(b"Hi There", &mut rohc);
            assert_eq!((rohc.len(), &rohc[3..11]), (3 + algorithm.icv_len(), start));
            let (packet, code) = icv.split(&rohc).expect("long enough");
            assert_eq!(packet, [1, 2, 3]);
            assert_eq!(icv.check(b"Hi There", code), Ok(()));
            assert!(icv.check(b"Hi there", code).is_err());
        }
    }

    #[test]
    fn the_receiver_chooses_the_length() {
        let lens = [None, Some(4), Some(0), Some(99)]
            .map(|len| Icv::new(Integrity::HmacSha256, b"key", len).icv_len());
        assert_eq!(lens, [16, 4, 0, 16]);
        let none = Icv::new(Integrity::HmacSha256, b"key", Some(0));
        assert_eq!(none.check(b"any", &[]), Ok(()));
        assert!(Icv::new(Integrity::HmacSha256, b"key", Some(4)).split(&[1, 2, 3]).is_err());
    }
}
