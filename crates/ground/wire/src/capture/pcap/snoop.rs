//! The snoop format (RFC 1761), big-endian.
//!
//! It has a header of 16 bytes, then records: 24 bytes, the packet and padding.

use std::io::Read;

use super::source::Source;
use super::{LinkType, MAX_RECORD_LEN, Meta, Order, ReadError};
use crate::{Error, Layer};

/// First four bytes of "snoop".
pub(super) const MAGIC: [u8; 4] = *b"snoo";
/// Rest of the identification.
const REST: [u8; 4] = *b"p\0\0\0";
const ORDER: Order = Order::Big;
/// Length in bytes of a record's header.
const HEADER_LEN: usize = 24;
/// Most bytes of padding that are skipped behind a packet.
const MAX_PADDING: usize = 65_536;

/// Decoded file header.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    link_type: LinkType,
}

impl File {
    /// Reads the rest of the header after the first four bytes.
    pub(super) fn start<R: Read>(source: &mut Source<R>) -> Result<File, ReadError> {
        let header = source.array::<12>(Layer::Pcap)?;
        if header[..4] != REST {
            return Err(Error::unsupported(Layer::Pcap, 0, "not a capture file").into());
        }
        if ORDER.u32(&header, 4) != 2 {
            return Err(Error::unsupported(Layer::Pcap, 8, "snoop version other than 2").into());
        }
        // Of its datalink types those with a link type that is read: IEEE 802.3 and Ethernet.
        match ORDER.u32(&header, 8) {
            0 | 4 => Ok(File { link_type: LinkType::ETHERNET }),
            _ => Err(Error::unsupported(Layer::Pcap, 12, "snoop datalink type other than Ethernet").into()),
        }
    }

    pub(super) fn next<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Meta>, ReadError> {
        let start = source.offset();
        let Some(header) = source.array_or_end::<HEADER_LEN>(Layer::Pcap)? else { return Ok(None) };
        let field = |at| ORDER.u32(&header, at);
        let (original_len, kept, len) = (field(0) as usize, field(4) as usize, field(8) as usize);
        if kept > MAX_RECORD_LEN {
            return Err(Error::unsupported(Layer::Pcap, start + 4, "record over 262144 bytes").into());
        }
        let padding = len.checked_sub(HEADER_LEN + kept).filter(|padding| *padding <= MAX_PADDING);
        let padding = padding.ok_or(Error::malformed(Layer::Pcap, start + 8, "record length"))?;
        source.fill(Layer::Pcap, kept + padding)?;
        let time_ns = u64::from(field(16)) * 1_000_000_000 + u64::from(field(20)) * 1000;
        Ok(Some(Meta {
            time_ns: Some(time_ns),
            interface: 0,
            index: 0,
            link_type: self.link_type,
            original_len: original_len.max(kept),
            range: 0..kept,
            options: 0..0,
        }))
    }
}
