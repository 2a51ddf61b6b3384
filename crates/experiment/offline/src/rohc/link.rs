//! Link layers around ROHC packets in a capture, and their integrity check.

use bentpipe_rohc::CidSpace;
use bentpipe_wire::link::Ppp;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::rohc::esp::{Icv, Integrity};
use bentpipe_wire::rohc::pdcp::{Pdu, SnLen};

/// Link layer of a capture of ROHC packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RohcLink {
    /// Records are ROHC packets, of link type USER0.
    #[default]
    User0,
    /// PPP with HDLC's address and control (RFC 3241 4).
    Ppp,
    /// PDCP: a record is a PDU, of link type USER0 (3GPP TS 36.323 6.2).
    Pdcp(SnLen),
}

impl RohcLink {
    /// Returns the length of PDCP's sequence numbers.
    pub(super) const fn pdcp(self) -> Option<SnLen> {
        match self {
            Self::Pdcp(sn_len) => Some(sn_len),
            Self::User0 | Self::Ppp => None,
        }
    }

    pub(super) const fn link_type(self) -> LinkType {
        match self {
            Self::User0 | Self::Pdcp(_) => LinkType::USER0,
            Self::Ppp => LinkType::PPP,
        }
    }

    /// Writes the frame of ROHC packet `rohc`, the `number`th of its channel from 0.
    pub(super) fn frame(self, cids: CidSpace, number: u32, rohc: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::User0 => out.extend_from_slice(rohc),
            Self::Ppp => {
                let protocol = match cids {
                    CidSpace::Small { .. } => Ppp::ROHC_SMALL_CIDS,
                    CidSpace::Large { .. } => Ppp::ROHC_LARGE_CIDS,
                };
                out.extend_from_slice(&[0xff, 3]);
                out.extend_from_slice(&protocol.to_be_bytes());
                out.extend_from_slice(rohc);
            }
            Self::Pdcp(sn_len) => Pdu::Data { sn: number, packet: rohc }.emit(sn_len, out),
        }
    }

    /// Returns the record of `feedback`, none for none: PDCP has a control PDU for it.
    pub(super) fn feedback(self, feedback: &[u8]) -> Vec<u8> {
        let Some(sn_len) = self.pdcp().filter(|_| !feedback.is_empty()) else { return feedback.to_vec() };
        let mut out = Vec::new();
        Pdu::Feedback(feedback).emit(sn_len, &mut out);
        out
    }
}

/// Reads the key of [`icv`]: an even number of hexadecimal digits, at least two.
///
/// # Errors
/// Returns an error that says what is wrong.
pub fn key(text: &str) -> Result<Vec<u8>, String> {
    let wrong =
        || "expected pairs of hexadecimal digits, such as 00112233445566778899aabbccddeeff".to_owned();
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let pairs = text.as_bytes().chunks(2).map(|pair| match std::str::from_utf8(pair) {
        Ok(digits) if digits.len() == 2 => u8::from_str_radix(digits, 16).map_err(|_| wrong()),
        _ => Err(wrong()),
    });
    pairs.collect()
}

/// Returns the integrity check of ROHC over IPsec (RFC 5858 4.1).
///
/// It is HMAC-SHA-256-128, cut to `len` bytes.
pub fn icv(key: &[u8], len: u16) -> Icv {
    Icv::new(Integrity::HmacSha256, key, Some(len))
}
