//! PDCP PDUs with ROHC packets and their feedback (3GPP TS 36.323, TS 38.323).
//!
//! *Models* the data PDU of the user plane with 12 or 18 bits of sequence number, and the control PDU of interspersed ROHC
//! feedback. *Does not model* ciphering, integrity protection (MAC-I), reordering, discard timers, status reports, and the
//! negotiation by RRC: a channel of it is profiles, CIDs and this framing.

use crate::{Error, Layer};

/// D/C bit of data.
const DATA: u8 = 0x80;
/// PDU type of interspersed ROHC feedback.
const FEEDBACK: u8 = 0b001;

/// Length of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnLen {
    /// 12 bits, in two octets.
    Twelve,
    /// 18 bits, in three octets.
    Eighteen,
}

impl SnLen {
    /// Returns the length of the header of a data PDU in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Twelve => 2,
            Self::Eighteen => 3,
        }
    }

    const fn mask(self) -> u32 {
        match self {
            Self::Twelve => 0x0fff,
            Self::Eighteen => 0x3_ffff,
        }
    }
}

/// PDU of the user plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pdu<'a> {
    /// Packet, compressed or not.
    Data {
        /// Sequence number, modulo its length.
        sn: u32,
        /// Content.
        packet: &'a [u8],
    },
    /// Feedback of one ROHC decompressor, not associated with a packet.
    Feedback(&'a [u8]),
}

impl<'a> Pdu<'a> {
    /// Reads a PDU.
    ///
    /// # Errors
    /// Returns an error if it is truncated or has reserved bits set; `Unsupported` for other control PDUs.
    pub fn parse(bytes: &'a [u8], sn_len: SnLen) -> Result<Self, Error> {
        let first = *bytes.first().ok_or(Error::truncated(Layer::Pdcp, 0, 1, 0))?;
        if first & DATA == 0 {
            return match (first >> 4, first & 0x0f) {
                (FEEDBACK, 0) => Ok(Self::Feedback(&bytes[1..])),
                (FEEDBACK, _) => Err(Error::malformed(Layer::Pdcp, 0, "reserved bits")),
                _ => Err(Error::unsupported(Layer::Pdcp, 0, "control PDU without feedback")),
            };
        }
        let len = sn_len.header_len();
        let Some((header, packet)) = bytes.split_at_checked(len) else {
            return Err(Error::truncated(Layer::Pdcp, 0, len, bytes.len()));
        };
        let value = header.iter().fold(0, |value, &octet| value << 8 | u32::from(octet));
        let sn = value & sn_len.mask();
        let reserved = value ^ sn ^ u32::from(DATA) << (8 * (len - 1));
        if reserved != 0 {
            return Err(Error::malformed(Layer::Pdcp, 0, "reserved bits"));
        }
        Ok(Self::Data { sn, packet })
    }

    /// Appends the PDU. Of a sequence number the low bits are sent.
    pub fn emit(&self, sn_len: SnLen, out: &mut Vec<u8>) {
        match *self {
            Self::Feedback(feedback) => {
                out.push(FEEDBACK << 4);
                out.extend_from_slice(feedback);
            }
            Self::Data { sn, packet } => {
                let len = sn_len.header_len();
                let value = sn & sn_len.mask() | u32::from(DATA) << (8 * (len - 1));
                out.extend_from_slice(&value.to_be_bytes()[4 - len..]);
                out.extend_from_slice(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdus_come_back() {
        for (sn_len, start) in [(SnLen::Twelve, &[0x8a, 0xbc][..]), (SnLen::Eighteen, &[0x82, 0xba, 0xbc])] {
            let mut out = Vec::new();
            let pdu = Pdu::Data { sn: 0x2_babc, packet: &[1, 2] };
            pdu.emit(sn_len, &mut out);
            assert_eq!(out, [start, &[1, 2]].concat());
            let sn = if sn_len == SnLen::Twelve { 0xabc } else { 0x2_babc };
            assert_eq!(Pdu::parse(&out, sn_len), Ok(Pdu::Data { sn, packet: &[1, 2] }));
        }
        let feedback = [0x10, 0xf1, 7];
        assert_eq!(Pdu::parse(&feedback, SnLen::Twelve), Ok(Pdu::Feedback(&[0xf1, 7])));
    }

    #[test]
    fn reserved_bits_and_other_control_pdus_are_refused() {
        for wrong in [&[][..], &[0x90, 0], &[0x80], &[0x11, 0], &[0x00, 1, 2]] {
            assert!(Pdu::parse(wrong, SnLen::Twelve).is_err(), "{wrong:02x?}");
        }
    }
}
