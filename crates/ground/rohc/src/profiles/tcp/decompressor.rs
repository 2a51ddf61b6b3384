//! The decompressor's context of one TCP flow (RFC 6846 5.3).

mod evidence;
mod steady;

use alloc::vec::Vec;

use super::base::{Base, Previous};
use super::chain::Chain;
use super::feedback;
use super::header::{self, Control};
use super::ip::Irregular;
use super::options::{Items, List, Received};
use super::{checksum, header::FIXED_LEN, ip};
use crate::framework::arrival::ChecksumEvidence;
use crate::framework::config::DecompressorConfig;
use crate::framework::context::{Output, Restored};
use crate::framework::crc::{CRC7, crc3};
use crate::framework::error::DecompressError;
use crate::framework::feedback::Acknowledgement;
use crate::framework::fingerprint::Fingerprint;
use crate::framework::frame::{IR, Kind};
use crate::framework::octets::Reader;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::tcp::Input;

/// Last restored header of a flow, to which compressed headers are relative.
#[derive(Clone, Debug, Default)]
struct Reference {
    chain: Chain,
    /// The chain's headers and the fixed part of TCP's.
    headers: Vec<u8>,
    control: Control,
    payload_len: u32,
    list: List,
    items: Items,
}

/// Decoded contents of a compressed header, apart from the octets restored.
struct Draft {
    control: Control,
    inner_ip_id: ip::IpId,
    received: Received,
    payload_len: u32,
    kind: PacketType,
    has_crc7: bool,
    /// Set if the transport checksum was checked.
    is_checked: bool,
    evidence: ChecksumEvidence,
    header_in: usize,
}

impl Reference {
    fn previous(&self) -> Previous {
        Previous::new(&self.chain, &self.headers, self.control, self.payload_len)
    }

    /// Reads a static chain: another flow, or a refresh of this one. The options' items stay.
    fn read_static(&mut self, input: &mut Reader<'_>) -> Result<(), DecompressError> {
        self.chain.read_static(input, &mut self.headers)?;
        self.headers.extend_from_slice(&input.array::<4>()?);
        self.headers.resize(self.chain.tcp_at() + FIXED_LEN, 0);
        Ok(())
    }

    fn read_dynamic(
        &mut self,
        input: &mut Reader<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Received, DecompressError> {
        let (chain, tcp) = self.headers.split_at_mut(self.chain.tcp_at());
        self.chain.read_dynamic(input, chain)?;
        self.control = header::read_dynamic(input, tcp, self.control)?;
        let received = Received::read(input, header::ack(tcp), scratch)?;
        if !received.is_complete() {
            return Err(DecompressError::Malformed("TCP: dynamic chain without an option's item"));
        }
        Ok(received)
    }

    fn read_replicate(
        &mut self,
        input: &mut Reader<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Received, DecompressError> {
        let (chain, tcp) = self.headers.split_at_mut(self.chain.tcp_at());
        self.chain.read_replicate(input, chain)?;
        if header::read_replicate(input, tcp, &mut self.control)? {
            Received::read(input, header::ack(tcp), scratch)
        } else {
            Ok(Received::unchanged(&self.list))
        }
    }

    /// Appends the header that an IR, IR-DYN or IR-CR said, its options as in `received`.
    fn write(
        &mut self,
        received: &Received,
        payload_len: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let start = out.len();
        self.payload_len = payload_len;
        out.extend_from_slice(&self.headers);
        let tcp_at = start + self.chain.tcp_at();
        let ack = header::ack(&out[tcp_at..]);
        received.write(&self.items, ack, None, out)?;
        self.close(&mut out[start..])
    }

    /// Fills in what is inferred of the lengths.
    fn close(&self, headers: &mut [u8]) -> Result<(), DecompressError> {
        let options_len = headers.len() - self.headers.len();
        header::set_offset(&mut headers[self.chain.tcp_at()..], options_len);
        self.chain.infer(headers, self.payload_len as usize)
    }

    /// Stores the header restored, with `received` as its options, for later packets.
    fn learn(&mut self, received: &Received, headers: &[u8]) {
        let (fixed, options) = headers.split_at(self.headers.len());
        self.headers.copy_from_slice(fixed);
        received.learn(options, &mut self.items);
        self.list = received.list;
    }
}

/// Trusted part of the context (RFC 6846 5.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    NoContext,
    Static,
    Full,
}

/// The decompressor's context.
#[derive(Debug, Default)]
pub(crate) struct Decompressor {
    reference: Reference,
    state: State,
    /// The last 32 packets, newest in bit 0: which failed their CRC.
    failures: u32,
    /// Packets that fail before another NACK may be sent.
    nack_pause: u8,
    /// Packets to hold back after many losses in a row.
    doubt: u8,
    /// The TCP checksum.
    evidence: ChecksumEvidence,
    /// The last packet that became the context.
    fingerprint: Fingerprint,
}

impl Decompressor {
    /// Any packet of the profile.
    pub(crate) fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let fingerprint = Fingerprint::of(input.frame.first, input.frame.body);
        let result = match input.frame.kind {
            Kind::Ir if input.frame.first == IR | 1 => self.ir(input, output.out),
            Kind::Ir => self.ir_cr(input, output.out),
            Kind::IrDyn => self.ir_dyn(input, output.out),
            Kind::Profile => self.compressed(input, output.out),
        };
        match result {
            Ok(restored) => self.succeeded(restored.kind, input, output),
            Err(_) if fingerprint == self.fingerprint && self.is_spared(input.config) => {}
            Err(error) => self.failed(error, input, output),
        }
        if result.is_ok() {
            self.fingerprint = fingerprint;
        }
        if self.doubt > 0 && result.is_ok() {
            self.doubt -= u8::from(self.doubt < u8::MAX);
            return Err(DecompressError::RepairPending);
        }
        result
    }

    /// Returns `true` if a duplicate that fails shows no damage.
    ///
    /// Bits of a timestamp count from the next value, so that a duplicate may read as another packet. Where there is a way
    /// back, the NACK repairs more than the duplicate costs.
    fn is_spared(&self, config: &DecompressorConfig) -> bool {
        self.evidence.is_trusted() && config.mode == Mode::Unidirectional
    }

    fn ir(&mut self, input: &Input<'_>, out: &mut Vec<u8>) -> Result<Restored, DecompressError> {
        let mut next = Reference { control: self.reference.control, ..Reference::default() };
        next.items.copy_from(&self.reference.items);
        let mut reader = ir_body(input)?;
        next.read_static(&mut reader)?;
        let received = next.read_dynamic(&mut reader, out)?;
        self.adopt(next, &received, PacketType::Ir, None, &reader, input, out)
    }

    fn ir_dyn(&mut self, input: &Input<'_>, out: &mut Vec<u8>) -> Result<Restored, DecompressError> {
        if self.state == State::NoContext {
            return Err(DecompressError::NoContext(input.frame.cid));
        }
        let mut next = self.reference.clone();
        let mut reader = ir_body(input)?;
        let received = next.read_dynamic(&mut reader, out)?;
        self.adopt(next, &received, PacketType::IrDyn, None, &reader, input, out)
    }

    /// Context replication (RFC 6846 7.2, RFC 4164 3.5).
    fn ir_cr(&mut self, input: &Input<'_>, out: &mut Vec<u8>) -> Result<Restored, DecompressError> {
        let mut reader = ir_body(input)?;
        let octet = reader.u8()?;
        let base = if octet & 0x80 == 0 { &*self } else { base_context(&mut reader, input, self)? };
        if base.state == State::NoContext {
            return Err(DecompressError::NoContext(input.frame.cid));
        }
        let mut next = base.reference.clone();
        let received = next.read_replicate(&mut reader, out)?;
        self.adopt(next, &received, PacketType::IrCr, Some(octet & 0x7f), &reader, input, out)
    }

    /// Verifies an IR, IR-DYN or IR-CR, writes its packet's header, and adopts `next`. `reader` is after its header.
    #[allow(clippy::too_many_arguments, reason = "the three kinds of IR end alike")]
    fn adopt(
        &mut self,
        mut next: Reference,
        received: &Received,
        kind: PacketType,
        crc7: Option<u8>,
        reader: &Reader<'_>,
        input: &Input<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Restored, DecompressError> {
        let header_in = IR_PREFIX_LEN + reader.consumed();
        if !input.frame.ir_crc_matches(header_in) {
            return Err(DecompressError::CrcMismatch);
        }
        let start = out.len();
        let payload = reader.rest();
        next.write(received, payload_len(payload, input), out)?;
        let headers = &out[start..];
        if crc7.is_some_and(|crc| CRC7.of(headers) != crc) {
            return Err(DecompressError::CrcMismatch);
        }
        let elided = input.frame.elided_bytes;
        let is_right = || checksum::is_valid(&next.chain, headers, payload, elided);
        let is_right = (input.config.verify || input.config.caution > 0) && is_right();
        if input.config.verify && !is_right {
            return Err(DecompressError::ChecksumMismatch);
        }
        self.evidence = if kind == PacketType::IrDyn {
            self.evidence.renewed(is_right)
        } else {
            ChecksumEvidence::first(is_right)
        };
        next.learn(received, headers);
        self.reference = next;
        self.doubt = 0;
        Ok(Restored { kind, header_in, delivered: true })
    }

    fn compressed(&mut self, input: &Input<'_>, out: &mut Vec<u8>) -> Result<Restored, DecompressError> {
        if self.state == State::NoContext {
            return Err(DecompressError::NoContext(input.frame.cid));
        }
        let start = out.len();
        let draft = self.restore(input, out)?;
        self.weigh(&draft, &out[start..], input)?;
        self.evidence = draft.evidence;
        self.reference.control = draft.control;
        self.reference.payload_len = draft.payload_len;
        self.reference.chain.inner_mut().ip_id = draft.inner_ip_id;
        self.reference.learn(&draft.received, &out[start..]);
        Ok(Restored { kind: draft.kind, header_in: draft.header_in, delivered: true })
    }

    /// Restores the header of a CO packet in `out`, without changing the context.
    fn restore(&self, input: &Input<'_>, out: &mut Vec<u8>) -> Result<Draft, DecompressError> {
        let reference = &self.reference;
        let mut reader = Reader::new(input.frame.body);
        let previous = reference.previous();
        let base = Base::read(input.frame.first, &mut reader, &previous)?;
        if !base.has_crc7 && self.state != State::Full {
            return Err(DecompressError::NotAllowedInState);
        }
        let received = if base.list_present {
            Received::read(&mut reader, base.ack, out)?
        } else {
            Received::unchanged(&reference.list)
        };
        let start = out.len();
        out.extend_from_slice(&reference.headers);
        self.read_irregular(&base, &mut reader, &mut out[start..])?;
        received.write(&reference.items, base.ack, Some(&mut reader), out)?;
        let payload = reader.rest();
        let payload_len = payload_len(payload, input);
        let headers = &mut out[start..];
        let tcp_at = reference.chain.tcp_at();
        header::set_seq(&mut headers[tcp_at..], base.seq.resolve(&previous, payload_len)?);
        let options_len = headers.len() - reference.headers.len();
        header::set_offset(&mut headers[tcp_at..], options_len);
        reference.chain.infer(headers, payload_len as usize)?;
        self.check_crc(&base, headers)?;
        let is_right = || checksum::is_valid(&reference.chain, headers, payload, input.frame.elided_bytes);
        let is_checked = self.is_checked(base.control, input.config);
        if is_checked && !is_right() {
            return Err(DecompressError::ChecksumMismatch);
        }
        let evidence = if self.evidence.is_open() { self.evidence.and(is_right()) } else { self.evidence };
        Ok(Draft {
            control: base.control,
            inner_ip_id: base.inner_ip_id,
            received,
            payload_len,
            kind: base.packet_type,
            has_crc7: base.has_crc7,
            is_checked,
            evidence,
            header_in: reader.consumed(),
        })
    }

    fn read_irregular(
        &self,
        base: &Base,
        reader: &mut Reader<'_>,
        headers: &mut [u8],
    ) -> Result<(), DecompressError> {
        let chain = &self.reference.chain;
        let (headers, tcp) = headers.split_at_mut(chain.tcp_at());
        base.apply(&mut headers[chain.inner().range()], tcp);
        let flags = Irregular {
            inner_ip_id: base.inner_ip_id,
            ecn_used: base.control.ecn_used,
            outer_ttl: base.rare.outer_ttl,
            long_sequence: false,
        };
        chain.read_irregular(reader, headers, flags)?;
        if let Some(ecn) = header::read_irregular(reader, tcp, flags.ecn_used)? {
            let inner = &mut headers[chain.inner().range()];
            ip::set_tos(inner, ip::tos(inner) & !3 | ecn);
        }
        Ok(())
    }
}

/// CRC verification.
impl Decompressor {
    fn check_crc(&self, base: &Base, headers: &mut [u8]) -> Result<(), DecompressError> {
        if crc_matches(base, headers) || self.matches_without_ack(base, headers) {
            return Ok(());
        }
        Err(DecompressError::CrcMismatch)
    }

    /// Returns `true` if the CRC matches without the ACK flag. Where a header does not carry that flag it is set, by
    /// RFC 6846 8.2. librohc takes it to be as it was in the packet before, which matters after one without it; the CRC
    /// shows which of the two was meant.
    fn matches_without_ack(&self, base: &Base, headers: &mut [u8]) -> bool {
        let tcp_at = self.reference.chain.tcp_at();
        let was_set = header::flags(&self.reference.headers[tcp_at..]) & header::ACK != 0;
        if was_set || base.packet_type == PacketType::CoCommon {
            return false;
        }
        let tcp = &mut headers[tcp_at..];
        header::set_flags(tcp, header::flags(tcp) & !header::ACK);
        crc_matches(base, headers)
    }
}

/// Profile and CRC.
const IR_PREFIX_LEN: usize = 2;

fn ir_body<'a>(input: &Input<'a>) -> Result<Reader<'a>, DecompressError> {
    input.frame.body.get(IR_PREFIX_LEN..).map(Reader::new).ok_or(DecompressError::Truncated)
}

/// The base context that an IR-CR names; its own CID names the context itself.
fn base_context<'a>(
    reader: &mut Reader<'_>,
    input: &Input<'a>,
    own: &'a Decompressor,
) -> Result<&'a Decompressor, DecompressError> {
    let first = reader.u8()?;
    let cid = match (input.config.channel.cids.is_large(), first) {
        (false, 0..=0x0f) | (true, 0..=0x7f) => u16::from(first),
        (true, 0x80..=0xbf) => u16::from_be_bytes([first & 0x3f, reader.u8()?]),
        _ => return Err(DecompressError::Malformed("TCP: CID of the base context")),
    };
    if cid == input.frame.cid {
        return Ok(own);
    }
    let base = input.shared.get(cid);
    base.ok_or(DecompressError::NoContext(cid))
}

fn payload_len(payload: &[u8], input: &Input<'_>) -> u32 {
    (payload.len() + input.frame.elided_bytes) as u32
}

fn crc_matches(base: &Base, headers: &[u8]) -> bool {
    let crc = if base.has_crc7 { CRC7.of(headers) } else { crc3(headers) };
    crc == base.crc
}

/// State and feedback after a packet (RFC 6846 5.3.1 and 5.3.2).
impl Decompressor {
    fn succeeded(&mut self, kind: PacketType, input: &Input<'_>, output: &mut Output<'_>) {
        self.failures <<= 1;
        self.nack_pause = 0;
        // What is held back proves nothing yet.
        if self.doubt == 0 {
            self.state = State::Full;
        }
        if input.config.mode != Mode::Unidirectional && is_significant(kind) {
            feedback::send(
                output.feedback,
                input.cid(),
                Acknowledgement::Ack,
                Some(self.reference.control.msn),
                None,
            );
        }
    }

    fn failed(&mut self, error: DecompressError, input: &Input<'_>, output: &mut Output<'_>) {
        self.failures = self.failures << 1 | 1;
        self.doubt = if self.doubt > 0 { input.config.held_back_packets() } else { 0 };
        let (limit, among) = input.config.damage_threshold;
        let recent = self.failures & u32::MAX >> (32 - u32::from(among.clamp(1, 32)));
        if self.state == State::Full && recent.count_ones() >= u32::from(limit) {
            self.state = State::Static;
            self.nack_pause = 0;
        }
        if input.config.mode == Mode::Unidirectional {
            return;
        }
        if self.nack_pause > 0 {
            self.nack_pause -= 1;
            return;
        }
        self.nack_pause = input.config.nack_spacing_packets;
        let static_suspect = self.state == State::NoContext
            || (self.state == State::Static
                && input.frame.kind != Kind::Profile
                && error == DecompressError::CrcMismatch);
        let kind = if static_suspect { Acknowledgement::StaticNack } else { Acknowledgement::Nack };
        let msn = (self.state != State::NoContext).then_some(self.reference.control.msn);
        feedback::send(output.feedback, input.cid(), kind, msn, None);
    }
}

/// Returns `true` if packets of this kind signal changes and are acknowledged.
const fn is_significant(kind: PacketType) -> bool {
    use PacketType::{CoCommon, Ir, IrCr, IrDyn, Rnd8, Seq8};
    matches!(kind, Ir | IrDyn | IrCr | CoCommon | Rnd8 | Seq8)
}
