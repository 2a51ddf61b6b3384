//! ROHC packet framing: padding, CIDs, feedback elements and segments (RFC 3095 5.2).

use alloc::vec::Vec;

use crate::framework::config::CidSpace;
use crate::framework::crc::CRC8;
use crate::framework::error::DecompressError;

/// Profile identifier of Uncompressed.
const UNCOMPRESSED: u8 = 0;
pub(crate) const PADDING: u8 = 0xe0;
const ADD_CID: u8 = 0xe0;
pub(crate) const FEEDBACK: u8 = 0xf0;
pub(crate) const IR_DYN: u8 = 0xf8;
pub(crate) const IR: u8 = 0xfc;
pub(crate) const SEGMENT: u8 = 0xfe;

/// Class of a packet by its type octet (RFC 3095 5.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ir,
    IrDyn,
    /// Type 0, 1 or 2, or another that the profile defines.
    Profile,
}

/// A ROHC header and payload, its CID found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) cid: u16,
    pub(crate) kind: Kind,
    /// Octets before `body`, which the CRC of IR packets covers. They are the Add-CID octet unless CID 0, the type
    /// octet, and a large CID.
    pub(crate) head: &'a [u8],
    /// The type octet.
    pub(crate) first: u8,
    /// Octets after the type octet and a large CID. Header octets and as much of the payload as was given.
    pub(crate) body: &'a [u8],
    /// Octets of payload behind `body` that were not given.
    pub(crate) elided_bytes: usize,
}

impl Frame<'_> {
    /// Returns `true` if the CRC-8 of an IR or IR-DYN header is right. The header ends after `len` octets of `body`,
    /// whose first two are profile and CRC (RFC 3095 5.9.1, RFC 4815 2.2).
    pub(crate) fn ir_crc_matches(&self, len: usize) -> bool {
        let (Some([profile, crc]), Some(rest)) = (self.body.first_chunk::<2>(), self.body.get(2..len)) else {
            return false;
        };
        let head = CRC8.update(CRC8.start(), self.head);
        CRC8.update(CRC8.update(head, &[*profile, 0]), rest) == *crc
    }
}

/// Appends an IR header of the Uncompressed profile (RFC 5795 5.4).
pub(crate) fn write_uncompressed_ir(cid: Cid, out: &mut Vec<u8>) {
    let start = out.len();
    cid.write(out, IR);
    out.push(UNCOMPRESSED);
    // The CRC stops before itself here, unlike in every other profile.
    let crc = CRC8.of(&out[start..]);
    out.push(crc);
}

/// First element of a ROHC packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PacketStart<'a> {
    /// The data of a feedback element (CID and feedback), and what follows it.
    Feedback { data: &'a [u8], rest: &'a [u8] },
    /// A segment; `last` when it completes a unit.
    Segment { last: bool, data: &'a [u8] },
    /// A header, possibly behind an Add-CID octet.
    Header(&'a [u8]),
    /// Padding or feedback only: nothing is left.
    Nothing,
}

/// Reads the front of `packet` (RFC 3095 5.2.6, steps 1 to 5).
pub(crate) fn front(packet: &[u8]) -> Result<PacketStart<'_>, DecompressError> {
    let Some(start) = packet.iter().position(|&octet| octet != PADDING) else {
        return Ok(PacketStart::Nothing);
    };
    let packet = &packet[start..];
    match packet[0] {
        0xf0..=0xf7 => feedback(packet),
        0xfe | 0xff => Ok(PacketStart::Segment { last: packet[0] & 1 == 1, data: &packet[1..] }),
        _ => Ok(PacketStart::Header(packet)),
    }
}

fn feedback(packet: &[u8]) -> Result<PacketStart<'_>, DecompressError> {
    let (len, start) = match packet[0] & 7 {
        0 => (usize::from(*packet.get(1).ok_or(DecompressError::Truncated)?), 2),
        code => (usize::from(code), 1),
    };
    let (data, rest) = packet[start..].split_at_checked(len).ok_or(DecompressError::Truncated)?;
    if data.is_empty() {
        return Err(DecompressError::Malformed("feedback without data"));
    }
    Ok(PacketStart::Feedback { data, rest })
}

/// Returns the CID of a plain packet, and the length of type octet and CID. The type octet is the profile's, with
/// nothing in front of it but an Add-CID octet; it is the last of a small-CID head and the first of a large-CID one.
#[inline]
pub(crate) fn plain(packet: &[u8], cids: CidSpace) -> Option<(u16, usize)> {
    let found = match *packet {
        [0x00..=0xdf, ..] if !cids.is_large() => (0, 1),
        [add @ 0xe1..=0xef, 0x00..=0xdf, ..] if !cids.is_large() => (u16::from(add & 0x0f), 2),
        [0x00..=0xdf, cid @ 0x00..=0x7f, ..] if cids.is_large() => (u16::from(cid), 2),
        [0x00..=0xdf, high @ 0x80..=0xbf, low, ..] if cids.is_large() => {
            (u16::from_be_bytes([high & 0x3f, low]), 3)
        }
        _ => return None,
    };
    (found.0 <= cids.max_cid()).then_some(found)
}

/// Finds the CID of a header (RFC 3095 5.2.6, steps 7 and 8). `packet` is what [`PacketStart::Header`] holds.
pub(crate) fn header(
    packet: &[u8],
    cids: CidSpace,
    elided_bytes: usize,
) -> Result<Frame<'_>, DecompressError> {
    let (cid, first_at) = match packet.first() {
        Some(octet @ 0xe1..=0xef) if cids.is_large() => {
            return Err(DecompressError::Malformed(if *octet == 0xe1 {
                "Add-CID with large CIDs"
            } else {
                "Add-CID"
            }));
        }
        Some(octet @ 0xe1..=0xef) => (u16::from(octet & 0x0f), 1),
        _ => (0, 0),
    };
    let first = *packet.get(first_at).ok_or(DecompressError::Truncated)?;
    let (cid, body_at) = if cids.is_large() { large_cid(packet)? } else { (cid, first_at + 1) };
    if cid > cids.max_cid() {
        return Err(DecompressError::CidOutOfRange(cid));
    }
    let (head, body) = packet.split_at(body_at);
    Ok(Frame { cid, kind: kind(first)?, head, first, body, elided_bytes })
}

fn kind(first: u8) -> Result<Kind, DecompressError> {
    match first {
        0xe0..=0xf7 => Err(DecompressError::Malformed("padding, Add-CID or feedback behind Add-CID")),
        0xfe | 0xff => Err(DecompressError::Malformed("segment behind Add-CID")),
        0xfc | 0xfd => Ok(Kind::Ir),
        IR_DYN => Ok(Kind::IrDyn),
        _ => Ok(Kind::Profile),
    }
}

/// The large CID at octet 1 of `packet`, and where the rest begins.
fn large_cid(packet: &[u8]) -> Result<(u16, usize), DecompressError> {
    match packet.get(1..) {
        Some([octet @ 0x00..=0x7f, ..]) => Ok((u16::from(*octet), 2)),
        Some([high @ 0x80..=0xbf, low, ..]) => Ok((u16::from_be_bytes([high & 0x3f, *low]), 3)),
        Some([0xc0..=0xff, ..]) => Err(DecompressError::Malformed("large CID of more than two octets")),
        _ => Err(DecompressError::Truncated),
    }
}

/// Writes a CID of the channel around and behind the type octet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cid {
    pub(crate) cids: CidSpace,
    pub(crate) cid: u16,
}

impl Cid {
    /// Appends `first` with the Add-CID octet or the large CID, if any.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>, first: u8) {
        if !self.cids.is_large() {
            if self.cid != 0 {
                out.push(ADD_CID | self.cid as u8);
            }
            out.push(first);
            return;
        }
        out.push(first);
        self.write_large(out);
    }

    fn write_large(self, out: &mut Vec<u8>) {
        if self.cid < 128 {
            out.push(self.cid as u8);
        } else {
            out.extend_from_slice(&(0x8000 | self.cid).to_be_bytes());
        }
    }

    /// Appends the CID in the form of feedback data (RFC 3095 5.2.2).
    pub(crate) fn write_in_feedback(self, out: &mut Vec<u8>) {
        match (self.cids.is_large(), self.cid) {
            (true, _) => self.write_large(out),
            (false, 0) => {}
            (false, cid) => out.push(ADD_CID | cid as u8),
        }
    }
}

/// Fills in the CRC-8 of the IR or IR-DYN header `out[start..]` at `crc_at`.
pub(crate) fn seal_ir(out: &mut [u8], start: usize, crc_at: usize) {
    debug_assert_eq!(out[crc_at], 0, "the CRC is computed over zero");
    out[crc_at] = CRC8.of(&out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: CidSpace = CidSpace::Small { max_cid: 15 };
    const LARGE: CidSpace = CidSpace::Large { max_cid: 16_383 };

    #[test]
    fn cids_round_trip() {
        for (cids, cid, expected_len) in [
            (SMALL, 0, 1),
            (SMALL, 1, 2),
            (SMALL, 15, 2),
            (LARGE, 0, 2),
            (LARGE, 127, 2),
            (LARGE, 128, 3),
            (LARGE, 16_383, 3),
        ] {
            let mut out = Vec::new();
            Cid { cids, cid }.write(&mut out, 0xfd);
            assert_eq!(out.len(), expected_len);
            out.extend_from_slice(&[1, 2, 3]);
            let frame = header(&out, cids, 0).expect("a header");
            assert_eq!(
                (frame.cid, frame.first, frame.body, frame.kind),
                (cid, 0xfd, &[1u8, 2, 3][..], Kind::Ir)
            );
        }
    }

    #[test]
    fn padding_and_feedback_come_off_the_front() {
        // The three elements of RFC 3095 5.7.6.11 for CID 8, padding before, a type 0 header behind.
        let packet = [0xe0, 0xe0, 0xf3, 0xe8, 0x30, 0x11, 0xf2, 0xe8, 0x11, 0xf0, 0x01, 0x11, 0x05];
        let mut rest = &packet[..];
        for expected in [&[0xe8u8, 0x30, 0x11][..], &[0xe8, 0x11], &[0x11]] {
            let Ok(PacketStart::Feedback { data, rest: behind }) = front(rest) else {
                panic!("feedback expected")
            };
            assert_eq!(data, expected);
            rest = behind;
        }
        assert!(matches!(front(rest), Ok(PacketStart::Header([0x05]))));
        assert!(matches!(front(&[0xe0, 0xe0]), Ok(PacketStart::Nothing)));
    }

    #[test]
    fn what_the_framework_reserves_is_refused() {
        assert!(matches!(front(&[0xf4, 1, 2]), Err(DecompressError::Truncated)));
        assert!(matches!(front(&[0xf0, 0]), Err(DecompressError::Malformed(_))));
        assert!(matches!(header(&[0xe3, 0xf1, 0], SMALL, 0), Err(DecompressError::Malformed(_))));
        assert!(matches!(header(&[0xe3, 0xe3, 0], SMALL, 0), Err(DecompressError::Malformed(_))));
        assert!(matches!(header(&[0xe3, 0x00], LARGE, 0), Err(DecompressError::Malformed(_))));
        assert!(matches!(header(&[0x00, 0xc0, 0, 0], LARGE, 0), Err(DecompressError::Malformed(_))));
        assert!(matches!(header(&[0xe3], SMALL, 0), Err(DecompressError::Truncated)));
        let few = CidSpace::Small { max_cid: 2 };
        assert!(matches!(header(&[0xe3, 0x00], few, 0), Err(DecompressError::CidOutOfRange(3))));
    }
}
