//! Writer of pcapng, little-endian: records of any link types with comments.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::ng::{BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, SECTION};
use super::ng::{OPTION_COMMENT, OPTION_NAME, OPTION_STAMP_RESOLUTION};
use super::{LinkType, Order, Record};

const ORDER: Order = Order::Little;
/// Exponent of ten of a stamp's unit: nanoseconds.
const NANOSECONDS: u8 = 9;

/// Writes a pcapng file of one section.
///
/// ```
/// use bentpipe_wire::pcap::{LinkType, NgWriter, Reader, Record};
/// let mut writer = NgWriter::new(Vec::new())?;
/// let record = Record {
///     time_ns: Some(7),
///     interface: 0,
///     interface_name: Some("eth0"),
///     link_type: LinkType::RAW,
///     original_len: 20,
///     bytes: &[0x45],
///     options: Default::default(),
/// };
/// writer.write(&record, "cut by the capture")?;
/// let file = writer.into_inner();
/// let mut reader = Reader::new(&file[..])?;
/// let read = reader.next_record()?.unwrap();
/// assert_eq!((read.interface_name, read.bytes), (record.interface_name, record.bytes));
/// assert_eq!(read.options.iter().next(), Some((1, &b"cut by the capture"[..])));
/// # Ok::<(), bentpipe_wire::pcap::ReadError>(())
/// ```
#[derive(Debug)]
pub struct NgWriter<W: Write> {
    inner: W,
    /// Number of each interface that was described, by link type and name.
    interfaces: BTreeMap<(LinkType, String), u32>,
}

impl<W: Write> NgWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn new(inner: W) -> io::Result<NgWriter<W>> {
        let mut writer = NgWriter { inner, interfaces: BTreeMap::new() };
        let version = [ORDER.bytes16(1), ORDER.bytes16(0)].concat();
        // The section's length is not known.
        let body = [&ORDER.bytes32(BYTE_ORDER_MAGIC)[..], &version, &[0xff; 8]].concat();
        writer.block(SECTION, &body)?;
        Ok(writer)
    }

    /// Writes a record with its options. A comment that is not empty is kept in front of them.
    ///
    /// # Errors
    /// Returns the errors of the sink; `InvalidInput` for a record over 4 GiB.
    pub fn write(&mut self, record: &Record<'_>, comment: &str) -> io::Result<()> {
        let interface = self.interface(record.link_type, record.interface_name.unwrap_or_default())?;
        let stamp = record.time_ns.unwrap_or(0);
        let [kept, original] = [record.bytes.len(), record.original_len].map(u32::try_from);
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "too long for a pcapng record");
        let (kept, original) = (kept.map_err(too_long)?, original.map_err(too_long)?);
        let words = [interface, (stamp >> 32) as u32, stamp as u32, kept, original];
        let mut body = words.map(|word| ORDER.bytes32(word)).concat();
        body.extend_from_slice(record.bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        let bytes_end = body.len();
        option(&mut body, OPTION_COMMENT, comment.as_bytes());
        for (code, value) in record.options.iter() {
            option(&mut body, code, &in_order(code, value, record.options.order));
        }
        if body.len() > bytes_end {
            body.extend_from_slice(&[0; 4]);
        }
        self.block(ENHANCED_PACKET, &body)
    }

    /// Returns the number of an interface, which is described first if it is new.
    fn interface(&mut self, link_type: LinkType, name: &str) -> io::Result<u32> {
        let key = (link_type, name.to_owned());
        if let Some(number) = self.interfaces.get(&key) {
            return Ok(*number);
        }
        let number = self.interfaces.len() as u32;
        let mut body = [&ORDER.bytes16(link_type.0)[..], &[0; 6]].concat();
        option(&mut body, OPTION_NAME, name.as_bytes());
        option(&mut body, OPTION_STAMP_RESOLUTION, &[NANOSECONDS]);
        self.block(INTERFACE, &body)?;
        self.interfaces.insert(key, number);
        Ok(number)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let len = ORDER.bytes32((12 + body.len()) as u32);
        [&ORDER.bytes32(kind)[..], &len, body, &len].iter().try_for_each(|part| self.inner.write_all(part))
    }

    /// Returns the sink. The caller flushes a buffered sink.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

/// Returns the value of a packet's option in the byte order that is written.
///
/// Numbers are turned: flags, drops, packet and queue identifiers, and the enterprise number of custom options.
fn in_order(code: u16, value: &[u8], order: Order) -> Vec<u8> {
    let number_len = match code {
        2 | 4..=6 => value.len(),
        2988 | 2989 | 19372 | 19373 => 4,
        _ => 0,
    };
    let mut value = value.to_vec();
    if order != ORDER
        && let Some(number) = value.get_mut(..number_len)
    {
        number.reverse();
    }
    value
}

/// Appends an option, unless its value is empty.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    let value = &value[..value.len().min(usize::from(u16::MAX) & !3)];
    body.extend_from_slice(&ORDER.bytes16(code));
    body.extend_from_slice(&ORDER.bytes16(value.len() as u16));
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
