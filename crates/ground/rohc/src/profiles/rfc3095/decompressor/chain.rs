//! Received chains of IR and IR-DYN packets. See RFC 3095 5.7.7, RFC 3843 3.1 to 3.3 and RFC 4019 5.2.

use alloc::vec::Vec;

use super::super::header::{IpChanging, IpStatic};
use super::super::list::{Kind as ListKind, List, Lists, NO_LISTS, Received};
use super::{Candidate, Coverage, Decompressor, Deeper, EXTENSION, ExtensionBit, Values};
use crate::framework::arrival::ChecksumEvidence;
use crate::framework::checksum;
use crate::framework::context::{Output, Restored};
use crate::framework::error::DecompressError;
use crate::framework::fingerprint::Fingerprint;
use crate::framework::frame::Kind;
use crate::framework::octets::Reader;
use crate::framework::packet::{Level, MAX_LEVELS, protocol};
use crate::framework::profile::{PacketType, Profile};
use crate::framework::sdvl;
use crate::profiles::rfc3095::Input;

/// The static part of a context.
struct Fixed {
    ip: [IpStatic; 2],
    depth: usize,
    deeper: Vec<IpStatic>,
    transport: [u8; 4],
    ssrc: [u8; 4],
}

/// Decoded dynamic chain.
struct Dynamic {
    candidate: Candidate,
    /// Coverage as it was sent (UDP-Lite).
    coverage: u16,
    /// Set if RX was zero, so that X was not sent.
    lacks_extras: bool,
}

impl Decompressor {
    /// An IR or IR-DYN packet of `profile`.
    pub(crate) fn refresh(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let result = self.try_refresh(profile, input, output);
        let kind = if input.frame.kind == Kind::Ir { PacketType::Ir } else { PacketType::IrDyn };
        self.settle(input, output, &result.as_ref().map(|_| ()).map_err(|error| *error), kind);
        result
    }

    fn try_refresh(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let is_ir = input.frame.kind == Kind::Ir;
        let usable = self.state.has_static() && is_prefix(profile, self.profile);
        if !is_ir && !usable {
            return Err(DecompressError::NotAllowedInState);
        }
        let mut reader = Reader::new(input.frame.body);
        reader.take(2)?;
        let fixed = if is_ir { Some(read_static(profile, &mut reader)?) } else { None };
        let has_dynamic = !is_ir || input.frame.first & 1 == 1;
        let next = self.successor(profile, fixed);
        let dynamic = if has_dynamic { Some(next.read_dynamic(self, input, &mut reader)?) } else { None };
        if !input.frame.ir_crc_matches(reader.consumed()) {
            return Err(DecompressError::CrcMismatch);
        }
        let header_in = reader.consumed();
        let payload = reader.rest();
        let kind = if is_ir { PacketType::Ir } else { PacketType::IrDyn };
        let Some(mut dynamic) = dynamic else {
            self.adopt(next);
            self.state.established(false);
            return Ok(Restored { kind, header_in, delivered: false });
        };
        let payload_len = payload.len() + input.frame.elided_bytes;
        let is_flow = !is_ir || self.is_flow_of(&next);
        let mut levels = [Level::default(); MAX_LEVELS];
        let start = output.out.len();
        let depth = next.render(&dynamic.candidate, payload_len, output.out, &mut levels)?;
        let had_extension = self.values.rtp.extension || self.extension_bit == ExtensionBit::Cleared;
        if is_flow && dynamic.lacks_extras && had_extension {
            let header = &mut output.out[start..];
            self.read_extension_bit(&mut dynamic, header, (payload, payload_len), &levels[..depth]);
        }
        let bytes = &output.out[start..];
        if input.config.verify
            && !checksum::transport_is_right(bytes, payload, payload_len, &levels[..depth], profile)
        {
            return Err(DecompressError::ChecksumMismatch);
        }
        let rest_len = bytes.len() - levels[..depth].last().map_or(0, Level::end) + payload_len;
        let is_right = input.config.caution > 0
            && checksum::transport_vouches(bytes, payload, payload_len, &levels[..depth], profile);
        self.evidence =
            if is_flow { self.evidence.renewed(is_right) } else { ChecksumEvidence::first(is_right) };
        self.is_new = true;
        self.fingerprint = Fingerprint::default();
        self.adopt(next);
        self.establish(dynamic, rest_len, input);
        Ok(Restored { kind, header_in, delivered: true })
    }

    /// Returns a copy of the context with `fixed` as its static part, without lists.
    fn successor(&self, profile: Profile, fixed: Option<Fixed>) -> Self {
        let mut next = Self::new(profile);
        next.values = if profile == self.profile {
            self.values
        } else {
            Values { sn: self.values.sn, ..Values::default() }
        };
        match fixed {
            Some(fixed) => {
                (next.ip, next.depth) = (fixed.ip, fixed.depth);
                (next.transport, next.ssrc) = (fixed.transport, fixed.ssrc);
                next.deeper =
                    fixed.deeper.into_iter().map(|fixed| Deeper { fixed, ..Deeper::default() }).collect();
            }
            None => {
                (next.ip, next.depth) = (self.ip, self.depth);
                (next.transport, next.ssrc) = (self.transport, self.ssrc);
                next.deeper =
                    self.deeper.iter().map(|old| Deeper { fixed: old.fixed, ..Deeper::default() }).collect();
            }
        }
        next
    }

    /// Decides on X after a packet of the flow without RX. Its header is `header` with X = 0.
    ///
    /// X is kept if the compressor has been seen to keep it, or if only then the UDP checksum is right. Without a checksum
    /// this packet has X = 1 if a header extension of RFC 8285 is there; the next CRC decides about the flow.
    fn read_extension_bit(
        &mut self,
        dynamic: &mut Dynamic,
        header: &mut [u8],
        (payload, payload_len): (&[u8], usize),
        levels: &[Level],
    ) {
        let rtp_at = levels.last().map_or(0, Level::end) + 8;
        let vouches =
            |header: &[u8]| checksum::transport_vouches(header, payload, payload_len, levels, self.profile);
        let is_cleared = vouches(header);
        header[rtp_at] |= EXTENSION;
        if self.extension_bit == ExtensionBit::Kept || !is_cleared && vouches(header) {
            self.extension_bit = ExtensionBit::Kept;
            dynamic.candidate.values.rtp.extension = true;
        } else {
            let is_shown = !dynamic.candidate.values.checksum && begins_with_extension(payload);
            header[rtp_at] &= if is_shown { u8::MAX } else { !EXTENSION };
            self.extension_bit = ExtensionBit::Cleared;
        }
    }

    /// Returns `true` if the static part is that of `other`.
    fn is_flow_of(&self, other: &Self) -> bool {
        let chain =
            |context: &Self| (context.profile, context.depth, context.ip, context.transport, context.ssrc);
        let deeper = self.deeper.iter().map(|level| level.fixed);
        chain(self) == chain(other) && deeper.eq(other.deeper.iter().map(|level| level.fixed))
    }

    /// Adopts static part and profile. Mode, state, and tables of lists stay (RFC 4815 6.3) unless the profile
    /// changes (RFC 4815 7.2.2).
    fn adopt(&mut self, next: Self) {
        if self.profile != next.profile {
            self.feedbacker = Default::default();
        }
        self.profile = next.profile;
        self.values = next.values;
        (self.ip, self.depth) = (next.ip, next.depth);
        (self.transport, self.ssrc) = (next.transport, next.ssrc);
        let mut old = core::mem::take(&mut self.deeper).into_iter();
        self.deeper = next.deeper;
        for deeper in &mut self.deeper {
            deeper.lists = old.next().map(|old| old.lists).unwrap_or_default();
        }
    }

    fn establish(&mut self, dynamic: Dynamic, rest_len: usize, input: &Input<'_>) {
        self.values = dynamic.candidate.values;
        self.values.coverage = Coverage {
            value: dynamic.coverage,
            present: usize::from(dynamic.coverage) != rest_len,
            inferred: usize::from(dynamic.coverage) == rest_len,
        };
        if let Some(changes) = dynamic.candidate.changes {
            self.commit_changes(&changes, true);
            input.shared.keep(changes);
        }
        self.refreshed(input.now);
        self.state.established(true);
        self.feedbacker.note_mode(dynamic.candidate.mode, true, self.profile);
    }

    /// Reads the dynamic chain for the static chain of `self`, with the lists of `old`.
    fn read_dynamic(
        &self,
        old: &Self,
        input: &Input<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<Dynamic, DecompressError> {
        let mut candidate = Candidate {
            values: self.values,
            marker: false,
            checksum: 0,
            changes: None,
            mode: None,
            static_crcs: None,
            evidence: self.evidence,
            kept_bits: 0,
        };
        let (mut coverage, mut lacks_extras) = (0, false);
        let is_ir = input.frame.kind == Kind::Ir;
        for index in self.used() {
            let lists = old.extension_lists(index);
            let place = place_for(lists, input, &mut candidate);
            let (changing, received) = read_ip_dynamic(&self.ip[index], lists, reader, place)?;
            candidate.values.ip[index] = changing;
            // An empty list without generation in IR-DYN is how librohc says that nothing changed.
            let unchanged = received.list.is_empty() && !is_ir && !received.is_named();
            let received =
                if unchanged { Received::copy(&lists.current, received.into_list()) } else { received };
            if !received.list.is_empty() || !lists.current.is_empty() {
                candidate.changing(input).extensions[index] = Some(received);
            }
        }
        for (position, deeper) in self.deeper.iter().enumerate() {
            let lists = old.deeper.get(position).map_or(&NO_LISTS, Deeper::lists);
            let changes = candidate.changing(input);
            let read = read_ip_dynamic(&deeper.fixed, lists, reader, changes.blank())?;
            changes.deeper.push(read);
        }
        if self.profile.has_udp_lite() {
            coverage = reader.u16()?;
            candidate.values.coverage = Coverage { value: coverage, ..Coverage::default() };
            candidate.checksum = reader.u16()?;
        } else if matches!(self.profile, Profile::Udp | Profile::Rtp) {
            candidate.checksum = reader.u16()?;
            candidate.values.checksum = candidate.checksum != 0;
        }
        match self.profile {
            Profile::Rtp | Profile::RtpUdpLite => {
                lacks_extras = !read_rtp(old, input, reader, &mut candidate)?;
            }
            Profile::Esp => candidate.values.sn = reader.u32()?,
            _ => candidate.values.sn = u32::from(reader.u16()?),
        }
        Ok(Dynamic { candidate, coverage, lacks_extras })
    }
}

/// Returns `true` if data begins with a whole RTP header extension of RFC 8285.
fn begins_with_extension(data: &[u8]) -> bool {
    let Some(&[high, low, words_high, words_low]) = data.first_chunk() else { return false };
    let words = usize::from(u16::from_be_bytes([words_high, words_low]));
    let is_known = matches!((high, low), (0xbe, 0xde) | (0x10, 0x00..=0x0f));
    is_known && words > 0 && data.len() >= 4 + 4 * words
}

/// Returns the buffer for a list; an empty one is likely to stay empty.
fn place_for(lists: &Lists, input: &Input<'_>, candidate: &mut Candidate) -> List {
    if lists.current.is_empty() { List::default() } else { candidate.changing(input).blank() }
}

/// Returns `true` if the chain of `profile` begins that of `of`. See RFC 3095 5.11.1 and RFC 3843 3.5.
fn is_prefix(profile: Profile, of: Profile) -> bool {
    profile == of
        || profile == Profile::Ip
        || matches!((profile, of), (Profile::Udp, Profile::Rtp) | (Profile::UdpLite, Profile::RtpUdpLite))
}

fn read_static(profile: Profile, reader: &mut Reader<'_>) -> Result<Fixed, DecompressError> {
    let mut chain = [IpStatic::default(); MAX_LEVELS];
    let mut count = 0;
    loop {
        let place = chain.get_mut(count).ok_or(DecompressError::TooLarge)?;
        let (fixed, end) = read_ip_static(reader)?;
        *place = fixed;
        count += 1;
        if end || !matches!(fixed.next, protocol::IPV4 | protocol::IPV6) {
            break;
        }
    }
    let many = matches!(profile, Profile::Ip | Profile::UdpLite | Profile::RtpUdpLite);
    if count > 2 && !many {
        return Err(DecompressError::Malformed("more than two IP headers in this profile"));
    }
    let next = chain[count - 1].next;
    let expected = match profile {
        Profile::Rtp | Profile::Udp => protocol::UDP,
        Profile::RtpUdpLite | Profile::UdpLite => protocol::UDP_LITE,
        Profile::Esp => protocol::ESP,
        _ => next,
    };
    if next != expected {
        return Err(DecompressError::Malformed("static chain that does not end with the profile's header"));
    }
    let transport = if profile == Profile::Ip { [0; 4] } else { reader.array()? };
    let ssrc = if profile.has_rtp() { reader.array()? } else { [0; 4] };
    let (ip, depth) =
        if count == 1 { ([IpStatic::default(), chain[0]], 1) } else { ([chain[0], chain[1]], 2) };
    let deeper = chain[depth.min(count)..count].to_vec();
    Ok(Fixed { ip, depth, deeper, transport, ssrc })
}

/// Reads an IP header, and the mark of the last one (RFC 3843 3.1).
fn read_ip_static(reader: &mut Reader<'_>) -> Result<(IpStatic, bool), DecompressError> {
    let first = reader.u8()?;
    let fixed = match first >> 4 & 7 {
        4 => {
            let next = reader.u8()?;
            IpStatic::ipv4(next, reader.array()?)
        }
        6 => {
            let [middle, low, next] = reader.array()?;
            IpStatic::ipv6(next, [first & 0x0f, middle, low], &reader.array()?)
        }
        _ => return Err(DecompressError::Malformed("IP version in static chain")),
    };
    Ok((fixed, first & 0x80 != 0))
}

/// The dynamic part of an IP header.
pub(super) fn read_ip_dynamic(
    fixed: &IpStatic,
    lists: &Lists,
    reader: &mut Reader<'_>,
    place: List,
) -> Result<(IpChanging, Received), DecompressError> {
    let mut changing = IpChanging { tos: reader.u8()?, ttl: reader.u8()?, ..IpChanging::default() };
    if fixed.is_ipv4() {
        changing.id = reader.u16()?;
        let flags = reader.u8()?;
        changing.df = flags & 0x80 != 0;
        changing.rnd = flags & 0x40 != 0;
        changing.nbo = flags & 0x20 != 0;
        // RFC 3095 leaves this bit zero; librohc uses it as RFC 3843 does in every profile.
        changing.sid = flags & 0x10 != 0;
    }
    Ok((changing, lists.read(reader, ListKind::Extension, place)?))
}

/// Reads the dynamic part of an RTP header (RFC 3095 5.7.7.6) and returns RX.
fn read_rtp(
    old: &Decompressor,
    input: &Input<'_>,
    reader: &mut Reader<'_>,
    candidate: &mut Candidate,
) -> Result<bool, DecompressError> {
    let [first, second] = reader.array()?;
    let sn = reader.u16()?;
    candidate.values.sn = u32::from(sn);
    candidate.marker = second & 0x80 != 0;
    candidate.values.rtp.version = first >> 6;
    candidate.values.rtp.padding = first & 0x20 != 0;
    candidate.values.rtp.payload_type = second & 0x7f;
    candidate.values.rtp.ts = reader.u32()?;
    let lists = old.csrc_lists();
    let place = place_for(lists, input, candidate);
    let received = lists.read(reader, ListKind::Csrc, place)?;
    if !received.list.is_empty() || !lists.current.is_empty() {
        candidate.changing(input).csrcs = Some(received);
    }
    candidate.values.rtp.extension = false;
    let has_extras = first & 0x10 != 0;
    if has_extras {
        read_rtp_extras(reader, candidate)?;
    }
    Ok(has_extras)
}

fn read_rtp_extras(reader: &mut Reader<'_>, candidate: &mut Candidate) -> Result<(), DecompressError> {
    let flags = reader.u8()?;
    candidate.values.rtp.extension = flags & 0x10 != 0;
    candidate.mode = Some(flags >> 2 & 3);
    if flags & 0x01 != 0 {
        candidate.values.rtp.stride = sdvl::read(reader)?.0;
    }
    if flags & 0x02 != 0 {
        candidate.values.rtp.time_stride_ms = sdvl::read(reader)?.0;
    }
    Ok(())
}
