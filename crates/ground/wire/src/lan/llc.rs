//! LLC/SNAP (IEEE 802.2) in AAL5 (RFC 2684) and IEEE 802.3 frames (RFC 1042).

use crate::bytes::{array, be16, put16};
use crate::lan::ethernet::EtherType;
use crate::{Error, Layer};

/// Length in bytes of LLC and SNAP headers together.
pub const HEADER_LEN: usize = 8;

/// DSAP and SSAP of SNAP, and the control octet of unnumbered information.
const SNAP: [u8; 3] = [0xaa, 0xaa, 0x03];
const OUI_ETHERTYPE: [u8; 3] = [0, 0, 0];
const OUI_BRIDGED: [u8; 3] = [0x00, 0x80, 0xc2];
const PID_ETHERNET_WITH_FCS: u16 = 0x0001;
const PID_ETHERNET: u16 = 0x0007;

/// An LLC/SNAP header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// A routed packet by its EtherType.
    Routed(EtherType),
    /// Bridged Ethernet frame (RFC 2684, section 5.2) after two bytes of padding.
    BridgedEthernet {
        /// Set if the frame's FCS is kept.
        with_fcs: bool,
    },
    /// Another organisation's protocol.
    Other {
        /// Organisationally unique identifier.
        oui: [u8; 3],
        /// Protocol identifier.
        pid: u16,
    },
}

impl Repr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Returns an error if it is truncated; `Unsupported` if it is LLC without SNAP.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        if bytes.len() >= SNAP.len() && bytes[..3] != SNAP {
            return Err(Error::unsupported(Layer::Llc, 0, "LLC without SNAP"));
        }
        if bytes.len() < HEADER_LEN {
            return Err(Error::truncated(Layer::Llc, 0, HEADER_LEN, bytes.len()));
        }
        let repr = match (array::<3>(bytes, 3), be16(bytes, 6)) {
            (OUI_ETHERTYPE, kind) => Repr::Routed(EtherType(kind)),
            (OUI_BRIDGED, PID_ETHERNET) => Repr::BridgedEthernet { with_fcs: false },
            (OUI_BRIDGED, PID_ETHERNET_WITH_FCS) => Repr::BridgedEthernet { with_fcs: true },
            (oui, pid) => Repr::Other { oui, pid },
        };
        match bytes.len() {
            have if have < repr.buffer_len() => {
                Err(Error::truncated(Layer::Llc, HEADER_LEN, repr.buffer_len(), have))
            }
            _ => Ok(repr),
        }
    }

    /// Returns the header's length in bytes, the padding in front of a bridged frame included.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Repr::BridgedEthernet { .. } => HEADER_LEN + 2,
            _ => HEADER_LEN,
        }
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let (oui, pid) = match *self {
            Repr::Routed(kind) => (OUI_ETHERTYPE, kind.0),
            Repr::BridgedEthernet { with_fcs: false } => (OUI_BRIDGED, PID_ETHERNET),
            Repr::BridgedEthernet { with_fcs: true } => (OUI_BRIDGED, PID_ETHERNET_WITH_FCS),
            Repr::Other { oui, pid } => (oui, pid),
        };
        buffer[..3].copy_from_slice(&SNAP);
        buffer[3..6].copy_from_slice(&oui);
        put16(buffer, 6, pid);
        buffer[HEADER_LEN..self.buffer_len()].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn the_headers_of_rfc_2684() {
        let cases: [(Repr, &[u8]); 3] = [
            (Repr::Routed(EtherType::IPV4), &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            (Repr::Routed(EtherType::IPV6), &[0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd]),
            (Repr::BridgedEthernet { with_fcs: false }, &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0]),
        ];
        for (repr, expected) in cases {
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes);
            assert_eq!(bytes, expected);
            assert_eq!(Repr::parse(expected), Ok(repr));
        }
    }

    #[test]
    fn other_llc_is_unsupported_and_short_is_truncated() {
        assert!(matches!(Repr::parse(&[0x42, 0x42, 3]).unwrap_err().kind, Kind::Unsupported(_)));
        assert_eq!(Repr::parse(&SNAP).unwrap_err().kind, Kind::Truncated { needed: 8, have: 3 });
        let bridged = [0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0];
        assert_eq!(Repr::parse(&bridged).unwrap_err().kind, Kind::Truncated { needed: 10, have: 9 });
    }

    proptest! {
        #[test]
        fn read_and_written_back(tail in proptest::collection::vec(any::<u8>(), 5..8)) {
            let bytes = [&SNAP[..], &tail, &[0, 0]].concat();
            if let Ok(repr) = Repr::parse(&bytes) {
                let mut out = vec![0xff; repr.buffer_len()];
                repr.emit(&mut out);
                prop_assert_eq!(&out[..8], &bytes[..8]);
            }
        }
    }
}
