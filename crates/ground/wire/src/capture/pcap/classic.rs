//! The pcap format: a 24-byte header, then records of 16 bytes and the packet.

use std::io::Read;

use super::source::Source;
use super::{LinkType, MAX_RECORD_LEN, Meta, Order, ReadError};
use crate::{Error, Layer};

pub(super) const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
pub(super) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Magic number of files with longer records (patch of A. Kuznetzov).
///
/// They have interface, protocol and packet type too.
pub(super) const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Length in bytes of what these records have in addition.
const MODIFIED_LEN: usize = 8;
pub(super) const VERSION: (u16, u16) = (2, 4);

/// Decoded file header.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    order: Order,
    /// Nanoseconds in a unit of a stamp's fraction.
    fraction_ns: u64,
    link_type: LinkType,
    /// Bytes between the header of a record and its packet.
    more: usize,
}

impl File {
    /// Reads the rest of the header after the magic number.
    pub(super) fn start<R: Read>(magic: [u8; 4], source: &mut Source<R>) -> Result<File, ReadError> {
        let (order, fraction_ns, more) = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
            (MAGIC_MICROS, _) => (Order::Big, 1000, 0),
            (_, MAGIC_MICROS) => (Order::Little, 1000, 0),
            (MAGIC_NANOS, _) => (Order::Big, 1, 0),
            (_, MAGIC_NANOS) => (Order::Little, 1, 0),
            (MAGIC_MODIFIED, _) => (Order::Big, 1000, MODIFIED_LEN),
            (_, MAGIC_MODIFIED) => (Order::Little, 1000, MODIFIED_LEN),
            _ => return Err(Error::unsupported(Layer::Pcap, 0, "not a pcap or pcapng file").into()),
        };
        let header = source.array::<20>(Layer::Pcap)?;
        if order.u16(&header, 0) != VERSION.0 {
            return Err(Error::unsupported(Layer::Pcap, 4, "version other than 2").into());
        }
        // The upper half describes an FCS and may be set (draft-ietf-opsawg-pcap, section 4).
        let link_type = LinkType::from_file(order.u32(&header, 16) as u16);
        Ok(File { order, fraction_ns, link_type, more })
    }

    pub(super) fn next<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Meta>, ReadError> {
        let start = source.offset();
        let Some(header) = source.array_or_end::<16>(Layer::Pcap)? else { return Ok(None) };
        let field = |at| self.order.u32(&header, at);
        let (seconds, fraction) = (u64::from(field(0)), u64::from(field(4)));
        let (kept, original_len) = (field(8) as usize, field(12) as usize);
        if kept > MAX_RECORD_LEN {
            return Err(Error::unsupported(Layer::Pcap, start + 8, "record over 262144 bytes").into());
        }
        source.fill(Layer::Pcap, self.more + kept)?;
        Ok(Some(Meta {
            time_ns: Some(seconds * 1_000_000_000 + fraction * self.fraction_ns),
            interface: 0,
            index: 0,
            link_type: self.link_type,
            original_len: original_len.max(kept),
            range: self.more..self.more + kept,
            options: 0..0,
        }))
    }
}
