//! Fields read with the context: the rest of extension 3 and the tail.

use super::{Arrived, Candidate, CoverageExtension, Decompressor, PADDING, chain};
use crate::framework::error::DecompressError;
use crate::framework::lsb;
use crate::framework::octets::Reader;
use crate::framework::profile::Profile;
use crate::profiles::rfc3095::compressed::{Extension3, IpFlags};
use crate::profiles::rfc3095::header;
use crate::profiles::rfc3095::list::{self, Kind, List, Received};

impl Decompressor {
    /// Reads extension 3 from behind its timestamp.
    pub(super) fn extension3(
        &self,
        extension: &Extension3,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        if extension.outer.is_some() && self.depth < 2 {
            return Err(DecompressError::Malformed("outer IP header in extension 3"));
        }
        if let Some(flags) = extension.inner {
            self.ip_fields(1, flags, packet, reader, candidate)?;
        }
        let mut inner_id = None;
        if extension.id {
            inner_id = Some(reader.u16()?);
        }
        let mut outer_id = None;
        if let Some(flags) = extension.outer {
            self.ip_fields(0, flags, packet, reader, candidate)?;
            if flags.last() {
                outer_id = Some(reader.u16()?);
            }
        }
        if extension.rtp {
            self.rtp_fields(extension, packet, reader, candidate)?;
        }
        self.sent_identifications(inner_id, outer_id, candidate);
        Ok(())
    }

    /// Applies the 16-bit offsets of extension 3 to the reference (RFC 4815 8.2).
    pub(super) fn sent_identifications(
        &self,
        inner_id: Option<u16>,
        outer_id: Option<u16>,
        candidate: &mut Candidate,
    ) {
        let target = self.compressed_id(&candidate.values).filter(|&index| !candidate.values.ip[index].sid);
        if let (Some(offset), Some(index)) = (inner_id, target) {
            candidate.values.ip[index].set_offset(self.values.sn, offset);
        }
        if let Some(offset) = outer_id.filter(|_| !candidate.values.ip[0].sid) {
            candidate.values.ip[0].set_offset(self.values.sn, offset);
        }
    }

    pub(super) fn ip_fields(
        &self,
        index: usize,
        flags: IpFlags,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let changing = &mut candidate.values.ip[index];
        if flags.tos() {
            changing.tos = reader.u8()?;
        }
        if flags.ttl() {
            changing.ttl = reader.u8()?;
        }
        if self.ip[index].is_ipv4() {
            (changing.df, changing.rnd, changing.nbo) = (flags.df(), flags.rnd(), flags.nbo());
        }
        if flags.protocol() {
            self.protocol(index, reader.u8()?, packet, candidate)?;
        }
        if flags.extensions() {
            let sn = candidate.values.sn;
            let changes = candidate.changing(packet.input);
            let place = changes.blank();
            changes.extensions[index] = Some(self.extension_field(index, sn, reader, place)?);
        }
        Ok(())
    }

    /// Reads PR. Only the type of what follows the whole chain can change.
    pub(super) fn protocol(
        &self,
        index: usize,
        next: u8,
        packet: &Arrived<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        if next == self.ip[index].next {
            return Ok(());
        }
        if self.profile != Profile::Ip || index == 0 || !self.deeper.is_empty() {
            return Err(DecompressError::Malformed("protocol change within the chain"));
        }
        candidate.changing(packet.input).protocol = Some(next);
        Ok(())
    }

    pub(super) fn rtp_fields(
        &self,
        extension: &Extension3,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let flags = reader.u8()?;
        candidate.mode = Some(flags >> 6);
        let marker = flags & 0x10 != 0;
        if packet.compact.marker.is_some_and(|base| base != marker) {
            return Err(DecompressError::Malformed("two marker bits that differ"));
        }
        candidate.marker = marker;
        let rtp = &mut candidate.values.rtp;
        candidate.kept_bits = if rtp.padding && flags & 0x20 == 0 { PADDING } else { 0 };
        (rtp.extension, rtp.padding) = (flags & 0x08 != 0, false);
        if flags & 0x20 != 0 {
            let octet = reader.u8()?;
            (rtp.padding, rtp.payload_type) = (octet & 0x80 != 0, octet & 0x7f);
        }
        if flags & 0x04 != 0 {
            let changes = candidate.changing(packet.input);
            let place = changes.blank();
            changes.csrcs = Some(self.csrc_lists().read(reader, Kind::Csrc, place)?);
        }
        if flags & 0x02 != 0 {
            let (stride, _) = crate::framework::sdvl::read(reader)?;
            // RFC 4815 4.6: a stride with a scaled timestamp is ignored.
            if !extension.scaled {
                candidate.values.rtp.stride = stride;
            }
        }
        if flags & 0x01 != 0 {
            candidate.values.rtp.time_stride_ms = crate::framework::sdvl::read(reader)?.0;
        }
        Ok(())
    }

    /// The IP extension header field of extension 3 (RFC 3095 5.8.5.1).
    pub(super) fn extension_field(
        &self,
        index: usize,
        sn: u32,
        reader: &mut Reader<'_>,
        place: List,
    ) -> Result<Received, DecompressError> {
        let flags = reader.u8()?;
        let mut sequences = [None; 3];
        for (bit, sequence) in [0x40, 0x20, 0x10].into_iter().zip(&mut sequences) {
            if flags & bit != 0 {
                *sequence = Some(read_sequence(reader)?);
            }
        }
        let lists = self.extension_lists(index);
        let mut received = if flags & 0x80 != 0 {
            lists.read(reader, Kind::Extension, place)?
        } else {
            Received::copy(&lists.current, place)
        };
        advance(&mut received, self.numbering().distance(self.values.sn, sn), [sequences[0], sequences[2]]);
        Ok(received)
    }

    /// Reads the tail of the header (RFC 3095 5.7, RFC 3843 3.6, RFC 4019 5.3.1).
    #[inline]
    pub(super) fn tail(
        &self,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        for index in self.used() {
            if self.ip[index].is_ipv4() && candidate.values.ip[index].rnd {
                candidate.values.ip[index].id = reader.u16()?;
            }
            if self.lists.is_some() || candidate.changes.is_some() {
                self.irregular_items(index, packet, reader, candidate)?;
            }
        }
        for deeper in &self.deeper {
            let changes = candidate.changing(packet.input);
            let read = chain::read_ip_dynamic(&deeper.fixed, deeper.lists(), reader, changes.blank())?;
            changes.deeper.push(read);
        }
        if self.profile.has_udp_lite() {
            self.coverage(packet.coverage_extension, reader, candidate)?;
            candidate.checksum = reader.u16()?;
        } else if candidate.values.checksum {
            candidate.checksum = reader.u16()?;
        }
        Ok(())
    }

    /// Advances AH and GRE numbers, and reads ICV or checksum unless the item came.
    pub(super) fn irregular_items(
        &self,
        index: usize,
        packet: &Arrived<'_>,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let sent = candidate.changes.as_deref().is_some_and(|changes| changes.extensions[index].is_some());
        if !sent {
            let current = &self.extension_lists(index).current;
            if !current.has_counters() {
                return Ok(());
            }
            let steps = self.numbering().distance(self.values.sn, candidate.values.sn);
            let changes = candidate.changing(packet.input);
            let mut received = Received::copy(current, changes.blank());
            advance(&mut received, steps, [None; 2]);
            changes.extensions[index] = Some(received);
        }
        let Some(received) =
            candidate.changes.as_deref_mut().and_then(|changes| changes.extensions[index].as_mut())
        else {
            return Ok(());
        };
        for position in 0..received.list.len() {
            if !received.is_whole(position) {
                let range = list::irregular(received.list.item(position));
                received.list.item_mut(position)[range.clone()].copy_from_slice(reader.take(range.len())?);
            }
        }
        Ok(())
    }

    pub(super) fn coverage(
        &self,
        extension: CoverageExtension,
        reader: &mut Reader<'_>,
        candidate: &mut Candidate,
    ) -> Result<(), DecompressError> {
        let coverage = &mut candidate.values.coverage;
        if coverage.present || extension != CoverageExtension::None {
            (coverage.value, coverage.inferred) = (reader.u16()?, false);
        }
        Ok(())
    }
}

/// Reads 7 or 31 low bits of an AH or GRE number (RFC 3095 5.8.5.1).
fn read_sequence(reader: &mut Reader<'_>) -> Result<(u32, u32), DecompressError> {
    if reader.peek()? & 0x80 == 0 {
        return Ok((u32::from(reader.u8()?), 7));
    }
    Ok((reader.u32()? & 0x7fff_ffff, 31))
}

/// Advances AH and GRE numbers by `distance` packets, or decodes those sent.
fn advance(received: &mut Received, distance: i32, sent: [Option<(u32, u32)>; 2]) {
    for position in 0..received.list.len() {
        if received.is_whole(position) {
            continue;
        }
        let item = received.list.item_mut(position);
        let Some(at) = list::sequence_at(item) else { continue };
        let sent = sent[usize::from(item[0] == crate::framework::packet::protocol::GRE)];
        let Some(place) = item.get_mut(at..at + 4).and_then(|place| place.first_chunk_mut::<4>()) else {
            continue;
        };
        let reference = u32::from_be_bytes(*place);
        let sequence = match sent {
            Some((value, bits)) => lsb::decode(reference, value, bits, header::sn_p(bits)),
            None => reference.wrapping_add_signed(distance),
        };
        *place = sequence.to_be_bytes();
    }
}
