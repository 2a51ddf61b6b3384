//! Ogg pages of one logical stream (RFC 3533): packets in, packets out.
//!
//! *Models*: packets over one or several pages, checksums, granule positions as their caller gives them.
//! *Does not model*: several streams in one file, and seeking.
//!
//! *References*: RFC 3533; RFC 7845 and RFC 5574, section 3, for the packets that Opus and Speex put in front.

use crate::crc32::Crc32;
use crate::{Error, Layer};

/// Length in bytes of a page header without its table of segments.
pub const HEADER_LEN: usize = 27;
/// Maximum number of segments of a page.
const MAX_SEGMENTS: usize = 255;
/// Length of a segment that does not end its packet.
const FULL_SEGMENT: u8 = 255;

const CAPTURE_PATTERN: &[u8; 4] = b"OggS";
const CONTINUED: u8 = 1;
const FIRST_PAGE: u8 = 2;
const LAST_PAGE: u8 = 4;

/// Offsets of the fields.
mod field {
    pub(super) const VERSION: usize = 4;
    pub(super) const FLAGS: usize = 5;
    pub(super) const SERIAL: usize = 14;
    pub(super) const CRC: usize = 22;
    pub(super) const SEGMENTS: usize = 26;
}

/// Packet of a stream to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Content.
    pub bytes: &'a [u8],
    /// Position at the end of the packet in the codec's units. Headers have 0.
    pub granule: u64,
}

/// Returns the packets of the first stream in a file. What follows the last whole packet is left out.
///
/// # Errors
/// Returns an error if a page is truncated, has a wrong checksum or version, or continues a packet that did not begin.
pub fn packets(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let (mut packets, mut open, mut at, mut serial) = (Vec::new(), None::<Vec<u8>>, 0, None);
    while at < bytes.len() {
        let page = Page::parse(&bytes[at..]).map_err(|error| Error { offset: error.offset + at, ..error })?;
        at += page.len();
        if *serial.get_or_insert(page.serial) != page.serial {
            continue;
        }
        if page.is_continued != open.is_some() {
            let what = "page and packet do not continue each other";
            return Err(Error::malformed(Layer::Ogg, at - page.len() + field::FLAGS, what));
        }
        let mut content = page.content;
        for &len in page.segments {
            let (segment, rest) = content.split_at(len.into());
            content = rest;
            let packet = open.get_or_insert_default();
            packet.extend_from_slice(segment);
            if len < FULL_SEGMENT {
                packets.extend(open.take());
            }
        }
    }
    Ok(packets)
}

/// Page in a file.
struct Page<'a> {
    serial: u32,
    is_continued: bool,
    segments: &'a [u8],
    content: &'a [u8],
}

impl<'a> Page<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Page<'a>, Error> {
        let need = |needed: usize| match bytes.len() {
            have if have < needed => Err(Error::truncated(Layer::Ogg, 0, needed, have)),
            _ => Ok(()),
        };
        need(HEADER_LEN)?;
        if !bytes.starts_with(CAPTURE_PATTERN) {
            return Err(Error::malformed(Layer::Ogg, 0, "no \"OggS\" at the start of a page"));
        }
        if bytes[field::VERSION] != 0 {
            return Err(Error::unsupported(Layer::Ogg, field::VERSION, "version is not 0"));
        }
        let start = HEADER_LEN + usize::from(bytes[field::SEGMENTS]);
        need(start)?;
        let segments = &bytes[HEADER_LEN..start];
        let end = start + segments.iter().map(|len| usize::from(*len)).sum::<usize>();
        need(end)?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc(&bytes[..end]) != word(field::CRC) {
            return Err(Error::checksum(Layer::Ogg, field::CRC));
        }
        let is_continued = bytes[field::FLAGS] & CONTINUED != 0;
        Ok(Page { serial: word(field::SERIAL), is_continued, segments, content: &bytes[start..end] })
    }

    fn len(&self) -> usize {
        HEADER_LEN + self.segments.len() + self.content.len()
    }
}

/// Returns the CRC of a page, its own field taken as zeros.
fn crc(page: &[u8]) -> u32 {
    let (head, rest) = page.split_at(field::CRC);
    Crc32::zero().add_bytes(head).add_zeros(4).add_bytes(&rest[4..]).register()
}

/// Returns a stream with a page for each packet, or several for a long one.
pub fn write(serial: u32, packets: &[Packet<'_>]) -> Vec<u8> {
    let (mut bytes, mut number) = (Vec::new(), 0);
    for (n, packet) in packets.iter().enumerate() {
        let mut table = vec![FULL_SEGMENT; packet.bytes.len() / 255];
        table.push((packet.bytes.len() % 255) as u8);
        let mut content = packet.bytes;
        let pages = table.len().div_ceil(MAX_SEGMENTS);
        for (part, segments) in table.chunks(MAX_SEGMENTS).enumerate() {
            let (of_page, rest) = content.split_at(segments.iter().map(|len| usize::from(*len)).sum());
            content = rest;
            let is_end = part + 1 == pages;
            let mut flags = if part > 0 { CONTINUED } else { 0 };
            flags |= if number == 0 { FIRST_PAGE } else { 0 };
            flags |= if is_end && n + 1 == packets.len() { LAST_PAGE } else { 0 };
            // A page in which no packet ends has no position.
            let granule = if is_end { packet.granule } else { u64::MAX };
            emit(&mut bytes, (serial, number, flags, granule), segments, of_page);
            number += 1;
        }
    }
    bytes
}

fn emit(
    bytes: &mut Vec<u8>,
    (serial, number, flags, granule): (u32, u32, u8, u64),
    segments: &[u8],
    of_page: &[u8],
) {
    let at = bytes.len();
    bytes.extend_from_slice(CAPTURE_PATTERN);
    bytes.extend([0, flags]);
    bytes.extend(granule.to_le_bytes());
    bytes.extend(serial.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.push(segments.len() as u8);
    bytes.extend_from_slice(segments);
    bytes.extend_from_slice(of_page);
    let crc = crc(&bytes[at..]);
    bytes[at + field::CRC..at + field::CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn packets_of_any_length_come_back() {
        let lens = [0, 1, 254, 255, 256, 510, 255 * 255, 70_000];
        let contents: Vec<Vec<u8>> = lens.iter().map(|&len| (0..len).map(|n| n as u8).collect()).collect();
        let of = |content: &'static str| Packet { bytes: content.as_bytes(), granule: 0 };
        let mut stream: Vec<Packet<'_>> = vec![of("head")];
        stream.extend(contents.iter().map(|bytes| Packet { bytes, granule: 960 }));
        let bytes = write(7, &stream);
        let read = packets(&bytes).expect("whole");
        assert_eq!(read[0], b"head");
        assert_eq!(read[1..], contents);
        assert_eq!(packets(&bytes[..bytes.len() - 1]).unwrap_err().layer, Layer::Ogg);
    }

    #[test]
    fn damage_is_found_and_other_streams_are_left_out() {
        let stream = [Packet { bytes: b"a", granule: 0 }, Packet { bytes: b"b", granule: 1 }];
        let (one, other) = (write(1, &stream), write(2, &stream));
        let page = one.len() / 2;
        let mixed = [&one[..page], &other[..page], &one[page..]].concat();
        assert_eq!(packets(&mixed).expect("one of them"), [b"a", b"b"]);
        let mut damaged = one;
        damaged[page + HEADER_LEN + 1] ^= 1;
        assert_eq!(packets(&damaged).unwrap_err().kind, Kind::Checksum);
        assert_eq!(packets(&damaged).unwrap_err().offset, page + field::CRC);
    }
}
