//! Capture files: pcap and pcapng, and for reading snoop (RFC 1761) and ERF.
//!
//! pcap has micro- or nanosecond stamps in either byte order, or the longer records of A. Kuznetzov's patch.
//!
//! Reading is bounded for any input: one record of at most [`MAX_RECORD_LEN`] bytes in memory at a time, and at
//! most [`MAX_INTERFACES`] interfaces of a pcapng section. Errors give the offset in the file.
//!
//! Options of pcapng's packets are kept as they are. Not read: compressed files, pcapng's name resolution, statistics,
//! decryption secrets and options of interfaces other than the name and the stamps' resolution and offset.

use std::io::{self, Read};

use crate::{Error, Layer};

mod classic;
mod endace;
mod foreign;
mod ng;
mod ng_writer;
mod snoop;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use foreign::foreign;
pub use ng::Damaged;
pub use ng_writer::NgWriter;
use source::Source;
pub use writer::Writer;

/// Maximum length of a captured packet in bytes, also the longest snapshot length of tcpdump.
pub const MAX_RECORD_LEN: usize = 262_144;

/// Most interfaces a section of a pcapng file may describe.
pub const MAX_INTERFACES: usize = 1024;

/// Link type: format of the start of captured packets (registry at tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: an address family in the capturing host's byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet without FCS.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with or without HDLC's address and control.
    pub const PPP: LinkType = LinkType(9);
    /// PPP after HDLC's address and control, or Cisco's HDLC.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE without Ethernet in front of it.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// IPv4 or IPv6, distinguished by the first four bits.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco's HDLC.
    pub const C_HDLC: LinkType = LinkType(104);
    /// Linux "cooked" capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// PPP whose HDLC address is a direction: 0 received, 1 sent.
    pub const PPP_PPPD: LinkType = LinkType(166);
    /// PPP behind an octet of direction.
    pub const PPP_WITH_DIR: LinkType = LinkType(204);
    /// Reserved for private use.
    pub const USER0: LinkType = LinkType(147);
    /// Endace's extensible record format, which can hold an AAL5 PDU.
    pub const ERF: LinkType = LinkType(197);
    /// IEEE 802.15.4 with FCS.
    pub const IEEE802_15_4: LinkType = LinkType(195);
    /// MPEG-2 transport stream packets.
    pub const MPEG_2_TS: LinkType = LinkType(243);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// Returns the link type of a number in a file. Old files have raw IP under the numbers of some systems,
    /// 12 and 14; IP of one version only has 228 and 229, and loopback with its family in network byte order
    /// 108.
    fn from_file(number: u16) -> LinkType {
        match number {
            12 | 14 | 228 | 229 => LinkType::RAW,
            108 => LinkType::NULL,
            _ => LinkType(number),
        }
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time stamp in nanoseconds since 1970; `None` in a pcapng simple packet block.
    pub time_ns: Option<u64>,
    /// Number of its interface in a pcapng file; 0 in pcap.
    ///
    /// Numbers go on in further sections. An interface that has name and link type of an earlier section's is the same.
    pub interface: u32,
    /// Name of its interface, if the file has it.
    pub interface_name: Option<&'a str>,
    /// Link type of the bytes.
    pub link_type: LinkType,
    /// Length in bytes on the link, of which the capture may hold fewer.
    pub original_len: usize,
    /// The bytes kept.
    pub bytes: &'a [u8],
    /// Options of its block in a pcapng file.
    pub options: Options<'a>,
}

/// Options of a packet in a pcapng file, such as flags and comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    order: Order,
    bytes: &'a [u8],
}

/// Copy of [`Options`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsBuf {
    order: Order,
    bytes: Vec<u8>,
}

impl OptionsBuf {
    /// Returns the options.
    pub fn options(&self) -> Options<'_> {
        Options { order: self.order, bytes: &self.bytes }
    }
}

impl<'a> Options<'a> {
    /// Returns a copy of options of at most `most` bytes, and nothing of longer ones.
    pub fn copied(&self, most: usize) -> OptionsBuf {
        match self.bytes.len() > most {
            true => OptionsBuf::default(),
            false => OptionsBuf { order: self.order, bytes: self.bytes.to_vec() },
        }
    }

    /// Returns the code and value of each, up to one that is malformed.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let (order, mut rest) = (self.order, self.bytes);
        std::iter::from_fn(move || {
            let (code, len) = (order.u16(rest.get(..4)?, 0), usize::from(order.u16(rest, 2)));
            let value = rest.get(4..4 + len).filter(|_| code != ng::OPTION_END)?;
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
            Some((code, value))
        })
    }
}

impl Record<'_> {
    /// Returns `true` if bytes at the end were not kept.
    pub const fn is_cut(&self) -> bool {
        self.bytes.len() < self.original_len
    }
}

/// Error returned when a capture cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file's content.
    #[error(transparent)]
    Format(#[from] Error),
    /// The source of its bytes.
    #[error("reading a capture: {0}")]
    Io(#[from] io::Error),
}

/// Returns `true` if a file that starts with these bytes has one of the formats.
pub fn is_capture(start: [u8; 4]) -> bool {
    let magic = u32::from_be_bytes(start);
    let classic = [classic::MAGIC_MICROS, classic::MAGIC_NANOS, classic::MAGIC_MODIFIED];
    magic == ng::SECTION
        || start == snoop::MAGIC
        || classic.into_iter().any(|known| [known, known.swap_bytes()].contains(&magic))
}

/// Reads a capture file of any format, record by record.
///
/// ```
/// use bentpipe_wire::pcap::{LinkType, Reader, Writer};
/// let mut writer = Writer::new(Vec::new(), LinkType::RAW)?;
/// writer.write(1_500, &[0x45, 0], 18)?;
/// let file = writer.into_inner();
/// let mut reader = Reader::new(&file[..])?;
/// let record = reader.next_record()?.unwrap();
/// assert_eq!((record.time_ns, record.original_len, record.bytes.len()), (Some(1_500), 20, 20));
/// assert!(reader.next_record()?.is_none());
/// # Ok::<(), bentpipe_wire::pcap::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    failed: bool,
}

#[derive(Debug)]
enum Format {
    Classic(classic::File),
    Ng(ng::Section),
    Snoop(snoop::File),
    Endace(endace::File),
}

impl Format {
    /// Returns the byte order of pcapng's options.
    fn order(&self) -> Order {
        match self {
            Format::Classic(_) | Format::Snoop(_) | Format::Endace(_) => Order::default(),
            Format::Ng(section) => section.order(),
        }
    }

    fn interface_name(&self, index: usize) -> Option<&str> {
        match self {
            Format::Classic(_) | Format::Snoop(_) | Format::Endace(_) => None,
            Format::Ng(section) => section.interface_name(index),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Starts reading a file. Wrap it in a `BufReader`.
    ///
    /// The first four bytes show its format, or the first records of ERF.
    ///
    /// # Errors
    /// Returns an error if it has none of the formats, or its header is truncated or of an unknown version.
    pub fn new(inner: R) -> Result<Reader<R>, ReadError> {
        let mut source = Source::new(inner);
        let magic = source.array::<4>(Layer::Pcap)?;
        let format = if u32::from_be_bytes(magic) == ng::SECTION {
            Format::Ng(ng::Section::start(&mut source)?)
        } else if magic == snoop::MAGIC {
            Format::Snoop(snoop::File::start(&mut source)?)
        } else if is_capture(magic) {
            Format::Classic(classic::File::start(magic, &mut source)?)
        } else {
            source.put_back();
            match endace::File::start(&mut source)? {
                Some(file) => Format::Endace(file),
                None => return Err(Error::unsupported(Layer::Pcap, 0, "not a capture file").into()),
            }
        };
        Ok(Reader { source, format, failed: false })
    }

    /// Returns the next packet; `None` at the end or after an error.
    ///
    /// # Errors
    /// Returns an error if the file ends within a record or has an impossible value. Earlier packets have
    /// been delivered.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        if self.failed {
            return Ok(None);
        }
        // Cleared below if all goes well, so that a broken file is not read on from the middle of a record.
        self.failed = true;
        let meta = match &mut self.format {
            Format::Classic(file) => file.next(&mut self.source)?,
            Format::Ng(section) => section.next(&mut self.source)?,
            Format::Snoop(file) => file.next(&mut self.source)?,
            Format::Endace(file) => file.next(&mut self.source)?,
        };
        let Some(meta) = meta else { return Ok(None) };
        self.failed = false;
        Ok(Some(Record {
            time_ns: meta.time_ns,
            interface: meta.interface,
            interface_name: self.format.interface_name(meta.index),
            link_type: meta.link_type,
            original_len: meta.original_len,
            bytes: &self.source.buffer()[meta.range],
            options: Options { order: self.format.order(), bytes: &self.source.buffer()[meta.options] },
        }))
    }
}

impl<R> Reader<R> {
    /// Returns the blocks of a pcapng file whose two lengths differ.
    ///
    /// Their packets are passed over, and reading goes on behind them.
    pub fn damaged(&self) -> Option<Damaged> {
        match &self.format {
            Format::Ng(section) => section.damaged(),
            Format::Classic(_) | Format::Snoop(_) | Format::Endace(_) => None,
        }
    }
}

/// A record whose bytes are in a range of the source's buffer.
struct Meta {
    time_ns: Option<u64>,
    interface: u32,
    /// Place of the interface in its section.
    index: usize,
    link_type: LinkType,
    original_len: usize,
    range: std::ops::Range<usize>,
    /// Place of pcapng's options.
    options: std::ops::Range<usize>,
}

/// The byte order a file or section was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    Big,
    #[default]
    Little,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let array = crate::bytes::array(bytes, at);
        match self {
            Order::Big => u16::from_be_bytes(array),
            Order::Little => u16::from_le_bytes(array),
        }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let array = crate::bytes::array(bytes, at);
        match self {
            Order::Big => u32::from_be_bytes(array),
            Order::Little => u32::from_le_bytes(array),
        }
    }

    fn bytes16(self, value: u16) -> [u8; 2] {
        match self {
            Order::Big => value.to_be_bytes(),
            Order::Little => value.to_le_bytes(),
        }
    }

    fn bytes32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Big => value.to_be_bytes(),
            Order::Little => value.to_le_bytes(),
        }
    }
}
