//! OAM cells (ITU-T I.610): recognised by type and function, and checked with their CRC-10. Nothing here acts on them.

use crate::atm::{PAYLOAD_LEN, crc10};
use crate::{Error, Layer};

/// OAM type: the upper four bits of the first octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Faults: alarm indication, remote defect, continuity check, loopback.
    Fault,
    /// Performance monitoring.
    Performance,
    /// Automatic protection switching.
    Protection,
    /// Activation and deactivation.
    Activation,
    /// Any other type, by its four bits.
    Other(u8),
}

/// An OAM cell's common fields as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// OAM type.
    pub kind: Kind,
    /// The function, four bits, whose meaning depends on the kind.
    pub function: u8,
}

impl Repr {
    /// Reads a cell's payload of 48 bytes.
    ///
    /// # Errors
    /// `Truncated` under 48 bytes, `Checksum` if the CRC-10 does not match.
    pub fn parse(payload: &[u8]) -> Result<Repr, Error> {
        if payload.len() < PAYLOAD_LEN {
            return Err(Error::truncated(Layer::Oam, 0, PAYLOAD_LEN, payload.len()));
        }
        if !crc10::verify(&payload[..PAYLOAD_LEN]) {
            return Err(Error::checksum(Layer::Oam, 46));
        }
        let kind = match payload[0] >> 4 {
            1 => Kind::Fault,
            2 => Kind::Performance,
            5 => Kind::Protection,
            8 => Kind::Activation,
            other => Kind::Other(other),
        };
        Ok(Repr { kind, function: payload[0] & 0xf })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_cell_is_recognised() {
        let mut payload = [0x6a; PAYLOAD_LEN];
        payload[0] = 0x18;
        crc10::fill(&mut payload);
        assert_eq!(Repr::parse(&payload), Ok(Repr { kind: Kind::Fault, function: 8 }));
        payload[20] ^= 1;
        assert_eq!(Repr::parse(&payload), Err(Error::checksum(Layer::Oam, 46)));
    }
}
