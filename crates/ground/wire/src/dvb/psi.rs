//! Programme specific information (ISO/IEC 13818-1, section 2.4.4): programmes of a transport stream and
//! their streams.
//!
//! The programme association table (PAT) and the programme map table (PMT), each in one section that applies at once. A PAT in
//! several sections, as more than 253 programmes need, is read section by section.

use crate::bytes::{be16, put16};
use crate::crc32::Crc32;
use crate::dvb::section;
use crate::dvb::ts::Pid;
use crate::{Error, Layer};

/// Length in bytes of what precedes a table's own content.
const HEADER_LEN: usize = 8;
/// Length in bytes of the longest section of a PAT or PMT.
pub const MAX_LEN: usize = 1024;

const REGISTRATION: u8 = 0x05;
const DATA_BROADCAST_ID: u8 = 0x66;
/// ULE's format identifier.
const ULE1: [u8; 4] = *b"ULE1";

const PAT: u8 = 0;
const PMT: u8 = 2;
/// The programme number that stands for the network information table.
const NETWORK: u16 = 0;

/// Place of a section within its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Number of the section, from 0.
    pub number: u8,
    /// Number of the last section of the table.
    pub last: u8,
}

/// Location of a programme's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Programme {
    /// Programme number, not 0.
    pub number: u16,
    /// The PID of its PMT.
    pub map: Pid,
}

/// A programme association table, on PID 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pat {
    /// Transport stream identifier within a network.
    pub stream_id: u16,
    /// Version, 0 to 31.
    pub version: u8,
    /// The PID of the network information table, if it is there.
    pub network: Option<Pid>,
    /// The programmes.
    pub programmes: Vec<Programme>,
}

/// A programme map table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmt {
    /// The programme's number.
    pub number: u16,
    /// Version, 0 to 31.
    pub version: u8,
    /// The PID with the programme's clock; the NULL PID if it has none.
    pub clock: Pid,
    /// Descriptors of the programme.
    pub descriptors: Vec<u8>,
    /// Elementary streams.
    pub streams: Vec<Elementary>,
}

/// An elementary stream of a programme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elementary {
    /// Stream type: 2 for MPEG-2 video, 3 and 4 for MPEG audio (table 2-34).
    pub kind: u8,
    /// PID of the stream.
    pub pid: Pid,
    /// Descriptors of the stream.
    pub descriptors: Vec<u8>,
}

impl Elementary {
    /// Creates a ULE stream (RFC 4326, section 1: type 0x91) with its registration descriptor.
    pub fn ule(pid: Pid) -> Elementary {
        let descriptors = [&[REGISTRATION, 4][..], &ULE1].concat();
        Elementary { kind: 0x91, pid, descriptors }
    }

    /// Creates an MPE stream (EN 301 192) with its data broadcast id descriptor.
    pub fn mpe(pid: Pid) -> Elementary {
        Elementary { kind: 0x0d, pid, descriptors: vec![DATA_BROADCAST_ID, 2, 0, 5] }
    }

    /// Returns `true` if it is ULE, by stream type or registration.
    pub fn is_ule(&self) -> bool {
        self.kind == 0x91
            || descriptors(&self.descriptors).any(|(tag, data)| tag == REGISTRATION && data == ULE1)
    }

    /// Returns `true` if it is MPE, by stream type or data broadcast id.
    pub fn is_mpe(&self) -> bool {
        let names_mpe = |(tag, data): (u8, &[u8])| tag == DATA_BROADCAST_ID && data.starts_with(&[0, 5]);
        self.kind == 0x0d || descriptors(&self.descriptors).any(names_mpe)
    }
}

/// Returns the descriptors in a loop: tag and content of each. What is cut short ends it.
pub fn descriptors(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [tag, len, rest @ ..] = bytes else { return None };
        let content = rest.get(..usize::from(*len))?;
        bytes = &rest[usize::from(*len)..];
        Some((*tag, content))
    })
}

impl Pat {
    /// Reads the table in a section.
    ///
    /// # Errors
    /// Returns an error if it is not a whole PAT with a correct CRC; `Unsupported` if it is one of several
    /// sections or does not apply yet.
    pub fn parse(section: &[u8]) -> Result<Pat, Error> {
        let (pat, part) = Pat::parse_part(section)?;
        whole(part)?;
        Ok(pat)
    }

    /// Reads one section of a table that may have several, and its place among them.
    ///
    /// # Errors
    /// Returns an error if it is not a whole section of a PAT with a correct CRC; `Unsupported` if it does not apply yet.
    pub fn parse_part(section: &[u8]) -> Result<(Pat, Part), Error> {
        let Read { identifier: stream_id, version, part, body } = read(section, PAT)?;
        if !body.len().is_multiple_of(4) {
            return Err(Error::malformed(Layer::Psi, 1, "a PAT has four bytes a programme"));
        }
        let mut pat = Pat { stream_id, version, ..Pat::default() };
        for entry in body.chunks_exact(4) {
            match be16(entry, 0) {
                NETWORK => pat.network = Some(pid(entry, 2)),
                number => pat.programmes.push(Programme { number, map: pid(entry, 2) }),
            }
        }
        Ok((pat, part))
    }

    /// Returns the section.
    ///
    /// # Panics
    /// If a programme's number is 0, the version over 31, or the section longer than 1024 bytes.
    pub fn to_section(&self) -> Vec<u8> {
        self.to_section_of(Part::default())
    }

    /// Returns the section with its place in a table of several.
    ///
    /// # Panics
    /// As [`Pat::to_section`], and if the place is behind the last one.
    pub fn to_section_of(&self, part: Part) -> Vec<u8> {
        let network = self.network.map(|map| (NETWORK, map));
        let programmes = self.programmes.iter().map(|programme| (programme.number, programme.map));
        let mut body = Vec::new();
        for (number, map) in
            network.into_iter().chain(programmes.inspect(|(number, _)| assert!(*number != 0)))
        {
            body.extend(number.to_be_bytes());
            body.extend(pid_bytes(map));
        }
        written(PAT, self.stream_id, self.version, part, &body)
    }
}

impl Pmt {
    /// Reads the table in a section.
    ///
    /// # Errors
    /// Returns an error if it is not a whole PMT with a correct CRC, or its loops do not fit it;
    /// `Unsupported` if it does not apply yet.
    pub fn parse(section: &[u8]) -> Result<Pmt, Error> {
        let Read { identifier: number, version, part, body } = read(section, PMT)?;
        whole(part)?;
        let mut loops = Loops { body, at: 0 };
        let clock = loops.pid()?;
        let mut pmt = Pmt { number, version, clock, descriptors: loops.descriptors()?, streams: Vec::new() };
        while loops.at < body.len() {
            let kind = loops.take(1)?[0];
            let pid = loops.pid()?;
            pmt.streams.push(Elementary { kind, pid, descriptors: loops.descriptors()? });
        }
        Ok(pmt)
    }

    /// Returns the section.
    ///
    /// # Panics
    /// If the version is over 31, or the section longer than 1024 bytes.
    pub fn to_section(&self) -> Vec<u8> {
        let mut body = pid_bytes(self.clock).to_vec();
        push_descriptors(&mut body, &self.descriptors);
        for stream in &self.streams {
            body.push(stream.kind);
            body.extend(pid_bytes(stream.pid));
            push_descriptors(&mut body, &stream.descriptors);
        }
        written(PMT, self.number, self.version, Part::default(), &body)
    }
}

/// Reads a PMT's loops one after the other.
struct Loops<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Loops<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (at, needed) = (HEADER_LEN + self.at, HEADER_LEN + self.at + len);
        let have = HEADER_LEN + self.body.len();
        let bytes = self.body.get(self.at..self.at + len);
        self.at += len;
        bytes.ok_or(Error::truncated(Layer::Psi, at, needed, have))
    }

    fn pid(&mut self) -> Result<Pid, Error> {
        self.take(2).map(|bytes| pid(bytes, 0))
    }

    fn descriptors(&mut self) -> Result<Vec<u8>, Error> {
        let len = usize::from(be16(self.take(2)?, 0) & 0x0fff);
        Ok(self.take(len)?.to_vec())
    }
}

fn push_descriptors(body: &mut Vec<u8>, descriptors: &[u8]) {
    assert!(descriptors.len() < MAX_LEN, "descriptors of {} bytes", descriptors.len());
    body.extend((0xf000 | descriptors.len() as u16).to_be_bytes());
    body.extend(descriptors);
}

fn pid(bytes: &[u8], at: usize) -> Pid {
    Pid::new(be16(bytes, at) & 0x1fff).expect("13 bits")
}

fn pid_bytes(pid: Pid) -> [u8; 2] {
    (0xe000 | pid.number()).to_be_bytes()
}

/// Header and content of a checked section.
pub(super) struct Read<'a> {
    pub(super) identifier: u16,
    pub(super) version: u8,
    pub(super) part: Part,
    pub(super) body: &'a [u8],
}

/// Reads a section of table `id`.
pub(super) fn read(section: &[u8], id: u8) -> Result<Read<'_>, Error> {
    section::check(Layer::Psi, section, HEADER_LEN + section::CRC_LEN)?;
    if section.len() > MAX_LEN {
        return Err(Error::malformed(Layer::Psi, 1, "a table's section over 1024 bytes"));
    }
    if section[0] != id {
        return Err(Error::malformed(Layer::Psi, 0, "another table"));
    }
    if section[1] & 0x80 == 0 {
        return Err(Error::malformed(Layer::Psi, 1, "a table without section_syntax_indicator"));
    }
    if section[5] & 1 == 0 {
        return Err(Error::unsupported(Layer::Psi, 5, "a table that does not apply yet"));
    }
    let part = Part { number: section[6], last: section[7] };
    if part.number > part.last {
        return Err(Error::malformed(Layer::Psi, 6, "a section behind the last one"));
    }
    let body = &section[HEADER_LEN..section.len() - section::CRC_LEN];
    Ok(Read { identifier: be16(section, 3), version: section[5] >> 1 & 31, part, body })
}

/// Refuses a section of several.
fn whole(part: Part) -> Result<(), Error> {
    match part {
        Part { number: 0, last: 0 } => Ok(()),
        _ => Err(Error::unsupported(Layer::Psi, 6, "a table in several sections")),
    }
}

/// Returns a section with header and CRC.
pub(super) fn written(id: u8, identifier: u16, version: u8, part: Part, body: &[u8]) -> Vec<u8> {
    assert!(
        version < 32 && part.number <= part.last,
        "a version has five bits, and its last section is the last"
    );
    let mut section = vec![0; HEADER_LEN];
    section.extend(body);
    let len = section.len() + section::CRC_LEN;
    assert!(len <= MAX_LEN, "a table's section of {len} bytes");
    section[0] = id;
    put16(&mut section, 1, 0xb000 | (len - section::HEADER_LEN) as u16);
    put16(&mut section, 3, identifier);
    section[5] = 0xc0 | version << 1 | 1;
    (section[6], section[7]) = (part.number, part.last);
    let crc = Crc32::new().add_bytes(&section).register();
    section.extend(crc.to_be_bytes());
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    fn pid_of(number: u16) -> Pid {
        Pid::new(number).expect("13 bits")
    }

    #[test]
    fn a_pat_that_somebody_else_wrote_is_read_and_written_the_same() {
        // ffmpeg's multiplexer, one programme.
        let section =
            [0x00, 0xb0, 0x0d, 0x00, 0x01, 0xc1, 0x00, 0x00, 0x00, 0x01, 0xf0, 0x00, 0x2a, 0xb1, 0x04, 0xb2];
        let pat = Pat::parse(&section).expect("a PAT");
        let programme = Programme { number: 1, map: pid_of(0x1000) };
        assert_eq!(pat, Pat { stream_id: 1, version: 0, network: None, programmes: vec![programme] });
        assert_eq!(pat.to_section(), section);
    }

    #[test]
    fn a_pmt_that_somebody_else_wrote_is_read_and_written_the_same() {
        // The same multiplexer: MPEG-2 video on PID 0x100 with the clock, MPEG audio on 0x101.
        let section = [
            0x02, 0xb0, 0x17, 0x00, 0x01, 0xc1, 0x00, 0x00, 0xe1, 0x00, 0xf0, 0x00, 0x02, 0xe1, 0x00, 0xf0,
            0x00, 0x03, 0xe1, 0x01, 0xf0, 0x00, 0xf6, 0x4a, 0x03, 0x55,
        ];
        let pmt = Pmt::parse(&section).expect("a PMT");
        assert_eq!((pmt.number, pmt.clock, pmt.streams.len()), (1, pid_of(0x100), 2));
        assert_eq!((pmt.streams[0].kind, pmt.streams[1].kind, pmt.streams[1].pid), (2, 3, pid_of(0x101)));
        assert_eq!(pmt.to_section(), section);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let pat = Pat { programmes: vec![Programme { number: 7, map: pid_of(32) }], ..Pat::default() };
        let section = pat.to_section();
        let kind = |section: &[u8]| Pat::parse(section).expect_err("refused").kind;
        let changed = |at: usize, to: u8| {
            let mut section = section.clone();
            section[at] = to;
            let end = section.len() - 4;
            let crc = Crc32::new().add_bytes(&section[..end]).register();
            section[end..].copy_from_slice(&crc.to_be_bytes());
            section
        };
        assert_eq!(kind(&changed(0, 2)), Kind::Malformed("another table"));
        assert_eq!(kind(&changed(5, 0xc0)), Kind::Unsupported("a table that does not apply yet"));
        assert_eq!(kind(&changed(7, 1)), Kind::Unsupported("a table in several sections"));
        assert!(Pmt::parse(&changed(0, 2)).is_err());
        let mut damaged = section.clone();
        damaged[9] ^= 1;
        assert_eq!(kind(&damaged), Kind::Checksum);
    }

    #[test]
    fn data_streams_are_named() {
        let (ule, mpe) = (Elementary::ule(pid_of(0x101)), Elementary::mpe(pid_of(0x102)));
        let pmt =
            Pmt { number: 1, version: 0, clock: Pid::NULL, descriptors: Vec::new(), streams: vec![ule, mpe] };
        let section = pmt.to_section();
        let read = Pmt::parse(&section).expect("a PMT");
        let named: Vec<_> = read.streams.iter().map(|stream| (stream.is_ule(), stream.is_mpe())).collect();
        assert_eq!(named, [(true, false), (false, true)]);
        let named_ule = [0x91, 0xe1, 0x01, 0xf0, 0x06, 0x05, 0x04, 0x55, 0x4c, 0x45, 0x31];
        assert_eq!(section[12..23], named_ule);
    }

    #[test]
    fn descriptors_end_where_they_are_cut() {
        let all: Vec<_> = descriptors(&[5, 2, 1, 2, 0xc0, 0, 9, 3, 1]).collect();
        assert_eq!(all, [(5, &[1, 2][..]), (0xc0, &[])]);
    }

    proptest! {
        #[test]
        fn tables_are_read_as_written(
            number in 1_u16.., version in 0_u8..32, clock in 0_u16..0x2000,
            info in proptest::collection::vec(any::<u8>(), 0..40),
            streams in proptest::collection::vec((any::<u8>(), 0_u16..0x2000, proptest::collection::vec(any::<u8>(), 0..20)), 0..20),
        ) {
            let streams = streams.into_iter().map(|(kind, pid, descriptors)| Elementary { kind, pid: pid_of(pid), descriptors });
            let pmt = Pmt { number, version, clock: pid_of(clock), descriptors: info, streams: streams.collect() };
            prop_assert_eq!(Pmt::parse(&pmt.to_section()), Ok(pmt.clone()));
            let programmes = pmt.streams.iter().map(|s| Programme { number: u16::from(s.kind) + 1, map: s.pid });
            let pat = Pat { stream_id: number, version, network: Some(pmt.clock), programmes: programmes.collect() };
            prop_assert_eq!(Pat::parse(&pat.to_section()), Ok(pat));
        }
    }
}
