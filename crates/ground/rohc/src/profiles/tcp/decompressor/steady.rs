//! Fast path of the decompressor.
//!
//! Packets of a short format without a list of options, of a context that is in no doubt: the
//! values they move are written into a copy of the last header, and the CRC compared. Anything that is not as expected, a CRC
//! that does not match included, takes the general path, which decides. Both ways deliver the same and leave the same
//! context (tested).

use alloc::vec::Vec;

use super::super::base::Base;
use super::super::header::{self, FIXED_LEN};
use super::super::ip;
use super::super::options::{self, List};
use super::{Decompressor, State};
use crate::framework::config::DecompressorConfig;
use crate::framework::context::Incoming;
use crate::framework::crc::{CRC7, crc3};
use crate::framework::fingerprint::Fingerprint;
use crate::framework::octets::Reader;
use crate::framework::profile::{Mode, PacketType};

/// Octets of the option before its values: two NOPs, type and length.
const BEFORE_STAMPS: [u8; 4] = [1, 1, 8, 10];
/// The longest header that goes this way: IPv6 and TCP with timestamps.
const MAX_HEADER_LEN: usize = 40 + FIXED_LEN + 12;

/// A header on its way.
struct Restored {
    octets: [u8; MAX_HEADER_LEN],
    len: usize,
    base: Base,
    stamps: Option<[u32; 2]>,
    payload_len: u32,
    /// Octets of the body that were header.
    header_in: usize,
}

impl Decompressor {
    /// Restores the header of a packet. Returns its type and its octets in the body. `None`, and nothing changed, if
    /// it must take the general path.
    #[inline]
    pub(crate) fn step(&mut self, incoming: &Incoming<'_>, out: &mut Vec<u8>) -> Option<(PacketType, usize)> {
        let config = incoming.config;
        let has_doubts = u32::from(self.doubt) | self.failures & 1 != 0;
        let is_sure = self.state == State::Full && !has_doubts && !self.evidence.is_open();
        if !is_sure || config.verify || self.reference.control.ecn_used {
            return None;
        }
        let restored = self.restore_short(incoming, config)?;
        let header = &restored.octets[..restored.len];
        let crc = if restored.base.has_crc7 { CRC7.of(header) } else { crc3(header) };
        if crc != restored.base.crc {
            return None;
        }
        out.extend_from_slice(header);
        self.take(&restored);
        self.fingerprint = Fingerprint::of(incoming.first, incoming.body);
        Some((restored.base.packet_type, restored.header_in))
    }

    #[inline]
    fn restore_short(&self, incoming: &Incoming<'_>, config: &DecompressorConfig) -> Option<Restored> {
        let reference = &self.reference;
        let [link] = reference.chain.links.as_slice() else { return None };
        let (fixed_len, at) = (reference.headers.len(), usize::from(link.len));
        let mut reader = Reader::new(incoming.body);
        let previous = reference.previous();
        let base = Base::read(incoming.first, &mut reader, &previous).ok()?;
        let was_acked = header::flags(&reference.headers[at..]) & header::ACK != 0;
        // A CRC-7 is acknowledged where there is a way back, and `co_common` may change what is kept here.
        let is_plain = !base.has_crc7
            || config.mode == Mode::Unidirectional
                && base.packet_type != PacketType::CoCommon
                && !base.control.ecn_used;
        if !is_plain || base.list_present || !was_acked || self.has_gap(base.control, config) {
            return None;
        }
        let mut octets = [0; MAX_HEADER_LEN];
        octets.get_mut(..fixed_len)?.copy_from_slice(&reference.headers);
        let (ip_header, tcp) = octets.split_at_mut(at);
        base.apply(ip_header, tcp);
        ip::read_inner_irregular(base.inner_ip_id, &mut reader, ip_header).ok()?;
        header::read_irregular(&mut reader, tcp, false).ok()?;
        let stamps = self.read_stamps(&mut reader)?;
        let options_len = stamps.map_or(0, |stamps| write_stamps(stamps, &mut octets[fixed_len..]));
        let len = fixed_len + options_len;
        let payload_len = (reader.rest().len() + incoming.elided_bytes) as u32;
        let tcp = &mut octets[at..];
        header::set_seq(tcp, base.seq.resolve(&previous, payload_len).ok()?);
        header::set_offset(tcp, options_len);
        ip::infer(&mut octets[..at], len + payload_len as usize).ok()?;
        Some(Restored { octets, len, base, stamps, payload_len, header_in: reader.consumed() })
    }

    /// The timestamps, if that is what the options were.
    #[inline]
    fn read_stamps(&self, reader: &mut Reader<'_>) -> Option<Option<[u32; 2]>> {
        match self.reference.list {
            List::TIMESTAMPS => {
                let [value, echo] = self.reference.items.timestamps()?;
                let value = options::read_timestamp(value, reader).ok()?;
                Some(Some([value, options::read_timestamp(echo, reader).ok()?]))
            }
            list => (list == List::default()).then_some(None),
        }
    }

    /// Stores the restored header for later packets.
    #[inline]
    fn take(&mut self, restored: &Restored) {
        self.reference.control = restored.base.control;
        self.reference.payload_len = restored.payload_len;
        let fixed_len = self.reference.headers.len();
        self.reference.headers.copy_from_slice(&restored.octets[..fixed_len]);
        if let Some(stamps) = restored.stamps {
            self.reference.items.store_timestamps(stamps);
        }
        // The general path has ended all else that a success ends: it took the packet after the last failure.
        self.failures <<= 1;
    }
}

/// Writes the options and returns their length in octets.
#[inline]
fn write_stamps([value, echo]: [u32; 2], octets: &mut [u8]) -> usize {
    octets[..4].copy_from_slice(&BEFORE_STAMPS);
    octets[4..8].copy_from_slice(&value.to_be_bytes());
    octets[8..12].copy_from_slice(&echo.to_be_bytes());
    12
}
