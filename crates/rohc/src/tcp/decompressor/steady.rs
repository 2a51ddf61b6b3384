//! The short way through the decompressor.
//!
//! Packets of a short format with a CRC of three bits, without a list of options, of a context that is in no doubt: the
//! values they move are written into a copy of the last header, and the CRC compared. Whatever is not as expected, a CRC
//! that does not match included, goes the general way, which decides. Both ways deliver the same and leave the same
//! context (tested).

use alloc::vec::Vec;

use super::super::base::Base;
use super::super::header::{self, FIXED_LEN};
use super::super::ip;
use super::super::options::{self, List};
use super::{Decompressor, State};
use crate::config::DecompressorConfig;
use crate::crc::crc3;
use crate::octets::Reader;
use crate::profile::PacketType;
use crate::rfc3095::Incoming;

/// Octets of the option before its values: two NOPs, type and length.
const BEFORE_STAMPS: [u8; 4] = [1, 1, 8, 10];
/// The longest header that goes this way: IPv6 and TCP with timestamps.
const MAX_HEADER_LEN: usize = 40 + FIXED_LEN + 12;

impl Decompressor {
    /// Restores the header of a packet; its type, and how many octets of the body were header. `None`, and nothing
    /// changed, when it must go the general way.
    #[inline]
    pub(crate) fn step(
        &mut self,
        incoming: &Incoming<'_>,
        config: &DecompressorConfig,
        out: &mut Vec<u8>,
    ) -> Option<(PacketType, usize)> {
        let reference = &self.reference;
        let [link] = reference.chain.links.as_slice() else { return None };
        let (fixed_len, at) = (reference.headers.len(), usize::from(link.len));
        if self.state != State::Full
            || self.doubt > 0
            || config.verify
            || self.witness.is_open()
            || reference.control.ecn_used
            || header::flags(&reference.headers[at..]) & header::ACK == 0
        {
            return None;
        }
        let mut stamps = match reference.list {
            List::TIMESTAMPS => Some(reference.items.timestamps()?),
            list if list == List::default() => None,
            _ => return None,
        };
        let mut reader = Reader::new(incoming.body);
        let previous = reference.previous();
        let base = Base::read(incoming.first, &mut reader, &previous).ok()?;
        if base.has_crc7 || base.list_present || self.has_gap(base.control, config) {
            return None;
        }
        let mut octets = [0; MAX_HEADER_LEN];
        octets.get_mut(..fixed_len)?.copy_from_slice(&reference.headers);
        let (ip_header, tcp) = octets.split_at_mut(at);
        base.apply(ip_header, tcp);
        ip::read_inner_irregular(base.inner_ip_id, &mut reader, ip_header).ok()?;
        header::read_irregular(&mut reader, tcp, false).ok()?;
        let mut len = fixed_len;
        if let Some(stamps) = &mut stamps {
            for stamp in stamps.iter_mut() {
                *stamp = options::read_timestamp(*stamp, &mut reader).ok()?;
            }
            let [value, echo] = stamps.map(u32::to_be_bytes);
            octets[len..len + 4].copy_from_slice(&BEFORE_STAMPS);
            octets[len + 4..len + 8].copy_from_slice(&value);
            octets[len + 8..len + 12].copy_from_slice(&echo);
            len += 12;
        }
        let payload_len = (reader.rest().len() + incoming.elided_bytes) as u32;
        let header = &mut octets[..len];
        header::set_seq(&mut header[at..], base.seq.resolve(&previous, payload_len).ok()?);
        header::set_offset(&mut header[at..], len - fixed_len);
        ip::infer(&mut header[..at], len + payload_len as usize).ok()?;
        if crc3(header) != base.crc {
            return None;
        }
        out.extend_from_slice(header);
        self.take(&base, payload_len, &octets[..fixed_len], stamps);
        Some((base.packet_type, reader.consumed()))
    }

    /// Takes the header restored for the packets to come.
    #[inline]
    fn take(&mut self, base: &Base, payload_len: u32, fixed: &[u8], stamps: Option<[u32; 2]>) {
        self.reference.control = base.control;
        self.reference.payload_len = payload_len;
        self.reference.headers.copy_from_slice(fixed);
        if let Some(stamps) = stamps {
            self.reference.items.store_timestamps(stamps);
        }
        self.failures <<= 1;
        self.nack_pause = 0;
    }
}
