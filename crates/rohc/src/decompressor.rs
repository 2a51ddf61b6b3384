//! The decompressor: takes a ROHC packet apart, finds its context, and collects the feedback to send back.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::time::Duration;

use crate::config::DecompressorConfig;
use crate::confirm::Peer;
use crate::error::DecompressError;
use crate::feedback::{Queue, option};
use crate::frame::{self, Cid, Frame, Front, Kind};
use crate::job::{Input, Others, Output, Restored};
use crate::profile::{Mode, PacketType, Profile};
use crate::rfc3095::{Incoming, Spare};
use crate::segment::Reassembler;
use crate::{rfc3095, tcp, uncompressed};

/// A context of one of the profiles. A profile is added here and in `Context::decompress`.
#[derive(Debug, Default)]
pub(crate) enum Context {
    #[default]
    Vacant,
    Uncompressed(uncompressed::Decompressor),
    Rfc3095(Box<rfc3095::Decompressor>),
    Tcp(Box<tcp::Decompressor>),
}

impl Context {
    fn profile(&self) -> Option<Profile> {
        match self {
            Self::Vacant => None,
            Self::Uncompressed(_) => Some(Profile::Uncompressed),
            Self::Rfc3095(context) => Some(context.profile()),
            Self::Tcp(_) => Some(Profile::Tcp),
        }
    }

    /// Whether it takes memory worth a limit.
    fn is_compressing(&self) -> bool {
        matches!(self, Self::Rfc3095(_) | Self::Tcp(_))
    }

    #[inline]
    fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        if input.frame.kind != Kind::Profile {
            return self.refresh(input, output);
        }
        match self {
            Self::Vacant => Err(DecompressError::NoContext(input.frame.cid)),
            Self::Uncompressed(context) => context.decompress(input, output),
            Self::Rfc3095(context) => context.decompress(input, output),
            Self::Tcp(context) => context.decompress(input, output),
        }
    }

    /// IR and IR-DYN: the packet, not the context, says which profile it is of.
    fn refresh(&mut self, input: &Input<'_>, output: &mut Output<'_>) -> Result<Restored, DecompressError> {
        let octet = *input.frame.body.first().ok_or(DecompressError::Truncated)?;
        let profile = Profile::from_octet(octet)
            .filter(|&profile| input.config.channel.profiles.contains(profile))
            .ok_or(DecompressError::ProfileRefused(octet))?;
        if input.frame.kind == Kind::IrDyn && self.profile().is_none() {
            return Err(DecompressError::NoContext(input.frame.cid));
        }
        match (profile, &mut *self) {
            (Profile::Uncompressed, Self::Uncompressed(context)) => context.decompress(input, output),
            (Profile::Uncompressed, _) => {
                let mut context = uncompressed::Decompressor::default();
                let restored = context.decompress(input, output)?;
                *self = Self::Uncompressed(context);
                Ok(restored)
            }
            (Profile::Tcp, Self::Tcp(context)) => context.decompress(input, output),
            (Profile::Tcp, _) => {
                let mut context = Box::new(tcp::Decompressor::new());
                let restored = context.decompress(input, output)?;
                *self = Self::Tcp(context);
                Ok(restored)
            }
            (_, Self::Rfc3095(context)) => context.refresh(profile, input, output),
            (_, _) => {
                let mut context = Box::new(rfc3095::Decompressor::new(profile));
                let restored = context.refresh(profile, input, output)?;
                *self = Self::Rfc3095(context);
                Ok(restored)
            }
        }
    }
}

impl Others for Vec<Context> {
    fn count(&self) -> u16 {
        self.len() as u16
    }

    fn context(&self, cid: u16) -> Option<&dyn Any> {
        match self.get(usize::from(cid))? {
            Context::Vacant => None,
            Context::Uncompressed(context) => Some(context),
            Context::Rfc3095(context) => Some(&**context),
            Context::Tcp(context) => Some(&**context),
        }
    }
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decompressed {
    /// The context.
    pub cid: u16,
    /// Its profile.
    pub profile: Profile,
    /// The type of the ROHC packet.
    pub packet_type: PacketType,
    /// Octets in front of the payload in the ROHC packet: padding, feedback, CID and ROHC header. With segmentation
    /// those of the reassembled packet.
    pub header_in: usize,
    /// Octets of the restored header.
    pub header_out: usize,
}

/// What was decompressed and refused so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecompressorStats {
    /// ROHC packets given.
    pub received: u64,
    /// IP packets restored.
    pub delivered: u64,
    /// ROHC packets that gave an error.
    pub refused: u64,
    /// Of them, those whose header CRC did not match.
    pub crc_failures: u64,
    /// Of them, those whose transport checksum did not match.
    pub checksum_failures: u64,
}

/// A ROHC decompressor for one channel.
///
/// See [`Compressor`](crate::Compressor) for an example. Like it, it has no clock: times only matter for timer-based
/// RTP timestamps and for the repair of contexts after long losses.
#[derive(Debug)]
pub struct Decompressor {
    config: DecompressorConfig,
    contexts: Vec<Context>,
    reassembler: Reassembler,
    unit: Vec<u8>,
    spare: Spare,
    peer: Peer,
    feedback: Queue,
    received_feedback: Queue,
    stats: DecompressorStats,
    /// Packets in a row for which there was no context.
    orphans: u8,
    /// For the comparison of both ways.
    #[cfg(test)]
    pub(crate) general_only: bool,
}

/// Of packets without a context, one in so many is answered.
const ORPHAN_SPACING: u8 = 8;

impl Decompressor {
    /// A decompressor without contexts.
    pub fn new(config: DecompressorConfig) -> Self {
        Self {
            config,
            contexts: Vec::new(),
            reassembler: Reassembler::default(),
            unit: Vec::new(),
            spare: Spare::default(),
            peer: Peer::default(),
            feedback: Queue::default(),
            received_feedback: Queue::default(),
            stats: DecompressorStats::default(),
            orphans: 0,
            #[cfg(test)]
            general_only: false,
        }
    }

    /// Decompresses the ROHC packet `packet` and appends the IP packet to `out`. `None` when there is no packet in it:
    /// padding, feedback, a segment that is not the last, an IR packet without payload.
    ///
    /// # Errors
    /// [`DecompressError`], with nothing appended.
    pub fn decompress(
        &mut self,
        now: Duration,
        packet: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        self.stats.received += 1;
        if let Some(restored) = self.step(now, packet, packet.len(), out) {
            out.extend_from_slice(&packet[restored.header_in..]);
            return Ok(Some(restored));
        }
        self.count(|this, out| this.open(now, packet, packet.len(), true, out), out)
    }

    /// Decompresses the header of a ROHC packet of `len_bytes` octets of which `bytes` is the start, with all headers
    /// in it and all or none of the payload, and appends the IP header to `out`. The payload, from octet
    /// [`Decompressed::header_in`] on, is the caller's. Octets not given count as zeros in checksums. Segments must be
    /// given whole; what is reassembled from them is appended with its payload.
    ///
    /// # Errors
    /// [`DecompressError`], with nothing appended.
    pub fn decompress_header(
        &mut self,
        now: Duration,
        bytes: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        if len_bytes < bytes.len() {
            return Err(DecompressError::Truncated);
        }
        self.stats.received += 1;
        if let Some(restored) = self.step(now, bytes, len_bytes, out) {
            return Ok(Some(restored));
        }
        self.count(|this, out| this.open(now, bytes, len_bytes, false, out), out)
    }

    /// The short way, for packets that follow from the last one of their context: of type 0, and TCP's short ones.
    #[inline]
    pub(crate) fn step(
        &mut self,
        now: Duration,
        packet: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Decompressed> {
        #[cfg(test)]
        if self.general_only {
            return None;
        }
        let cids = self.config.channel.cids;
        let (cid, head_len) = frame::plain(packet, cids)?;
        let context = self.contexts.get_mut(usize::from(cid))?;
        let (head, body) = packet.split_at(head_len);
        let first = if cids.is_large() { head[0] } else { head[head_len - 1] };
        let incoming = Incoming { first, body, elided_bytes: len_bytes - packet.len() };
        let start = out.len();
        let (profile, packet_type, header_in) = match context {
            Context::Rfc3095(context) => {
                let header_in = context.step(&incoming, now, &self.config, &self.peer, out)?;
                (context.profile(), PacketType::Uo0, header_in)
            }
            Context::Tcp(context) => {
                let (packet_type, header_in) = context.step(&incoming, &self.config, out)?;
                (Profile::Tcp, packet_type, header_in)
            }
            Context::Vacant | Context::Uncompressed(_) => return None,
        };
        self.reassembler.abort();
        self.stats.delivered += 1;
        let (header_in, header_out) = (head_len + header_in, out.len() - start);
        Some(Decompressed { cid, profile, packet_type, header_in, header_out })
    }

    fn count(
        &mut self,
        open: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<Option<Decompressed>, DecompressError>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        let start = out.len();
        let result = open(self, out);
        match result {
            Ok(Some(_)) => self.stats.delivered += 1,
            Ok(None) => out.truncate(start),
            Err(error) => {
                out.truncate(start);
                self.stats.refused += 1;
                self.stats.crc_failures += u64::from(error == DecompressError::CrcMismatch);
                self.stats.checksum_failures += u64::from(error == DecompressError::ChecksumMismatch);
            }
        }
        result
    }

    /// Takes padding, feedback and segments off the front.
    fn open(
        &mut self,
        now: Duration,
        packet: &[u8],
        len_bytes: usize,
        copy: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        let mut rest = packet;
        loop {
            match frame::front(rest)? {
                Front::Feedback { data, rest: behind } => {
                    self.received_feedback.push_data(data);
                    rest = behind;
                }
                Front::Nothing => return Ok(None),
                Front::Segment { last, data } => return self.segment(now, last, data, out),
                Front::Header(header) => {
                    self.reassembler.abort();
                    let before = packet.len() - header.len();
                    return self.header(now, header, len_bytes - packet.len(), copy, before, out);
                }
            }
        }
    }

    fn segment(
        &mut self,
        now: Duration,
        last: bool,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        let mrru_bytes = self.config.channel.mrru_bytes;
        if mrru_bytes == 0 {
            return Err(DecompressError::Malformed("segment on a channel without segmentation"));
        }
        let mut unit = core::mem::take(&mut self.unit);
        let result = match self.reassembler.add(last, data, mrru_bytes, &mut unit) {
            Ok(false) => Ok(None),
            Ok(true) => match frame::front(&unit) {
                Ok(Front::Header(header)) if header.len() == unit.len() => {
                    self.header(now, header, 0, true, 0, out)
                }
                _ => Err(DecompressError::Malformed("padding, feedback or segment in a reassembled unit")),
            },
            Err(error) => Err(error),
        };
        self.unit = unit;
        result
    }

    fn header(
        &mut self,
        now: Duration,
        header: &[u8],
        elided_bytes: usize,
        copy: bool,
        before: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Decompressed>, DecompressError> {
        let frame = frame::header(header, self.config.channel.cids, elided_bytes)?;
        let at = usize::from(frame.cid);
        if at >= self.contexts.len() {
            if frame.kind != Kind::Ir {
                self.orphan(frame.cid);
                return Err(DecompressError::NoContext(frame.cid));
            }
            self.contexts.resize_with(at + 1, Context::default);
        }
        let start = out.len();
        // Taken out, so that the profile can look at the other contexts.
        let mut context = core::mem::take(&mut self.contexts[at]);
        let input = Input {
            frame: &frame,
            now,
            config: &self.config,
            others: &self.contexts,
            spare: &self.spare,
            peer: &self.peer,
        };
        let is_refused = frame.kind == Kind::Ir && self.is_full(&frame, &context);
        let mut unsaid = Queue::default();
        let feedback = if is_refused { &mut unsaid } else { &mut self.feedback };
        let restored = context.decompress(&input, &mut Output { out, feedback });
        let profile = context.profile();
        if is_refused {
            self.reject(&frame);
        } else {
            self.contexts[at] = context;
        }
        if matches!(restored, Err(DecompressError::NoContext(_))) {
            self.orphan(frame.cid);
        }
        let (restored, Some(profile)) = (restored?, profile) else {
            return Err(DecompressError::NoContext(frame.cid));
        };
        let decompressed = Decompressed {
            cid: frame.cid,
            profile,
            packet_type: restored.kind,
            header_in: before + frame.head.len() + restored.header_in,
            header_out: out.len() - start,
        };
        if copy {
            out.extend_from_slice(&frame.body[restored.header_in..]);
        }
        Ok(restored.delivered.then_some(decompressed))
    }

    /// Whether the IR packet `frame` would bring a context more than there may be, in place of `old`.
    fn is_full(&self, frame: &Frame<'_>, old: &Context) -> bool {
        let limit = usize::from(self.config.max_contexts);
        limit > 0
            && !old.is_compressing()
            && frame.body.first() != Some(&(Profile::Uncompressed as u8))
            && self.contexts.iter().filter(|context| context.is_compressing()).count() >= limit
    }

    /// Tells the compressor that there is no room for this flow (RFC 3095 5.7.6.4, RFC 6846 8.3.2.1).
    fn reject(&mut self, frame: &Frame<'_>) {
        if self.config.mode == Mode::Unidirectional {
            return;
        }
        let cid = Cid { cids: self.config.channel.cids, cid: frame.cid };
        if frame.body.first() == Some(&(Profile::Tcp as u8)) {
            return tcp::reject(&mut self.feedback, cid);
        }
        let static_nack = 2 << 6 | (self.config.mode as u8) << 4;
        let options = [option::REJECT << 4, option::SN_NOT_VALID << 4, option::CRC << 4 | 1, 0];
        let field = [static_nack, 0, options[0], options[1], options[2], options[3]];
        self.feedback.push(cid, &field, Some(5));
    }

    /// Asks for an IR packet for a context that is not there. RFC 3095 5.2.6 would have such packets discarded in
    /// silence; but a compressor in O- or R-mode, where nothing is refreshed, would then never hear that its
    /// decompressor was replaced. The format is that of the RFC 3095 family.
    fn orphan(&mut self, cid: u16) {
        let due = self.orphans.is_multiple_of(ORPHAN_SPACING);
        self.orphans = self.orphans.wrapping_add(1);
        if due && self.config.mode != Mode::Unidirectional {
            let static_nack = 2 << 6 | (self.config.mode as u8) << 4;
            let field = [static_nack, 0, option::SN_NOT_VALID << 4, option::CRC << 4 | 1, 0];
            self.feedback.push(Cid { cids: self.config.channel.cids, cid }, &field, Some(4));
        }
    }

    /// Appends the feedback to send to the compressor of this channel: complete elements, to be sent as a packet of
    /// their own, or through [`Compressor::piggyback`](crate::Compressor::piggyback) in front of packets of the other
    /// direction. Returns whether there was any.
    pub fn take_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.feedback.drain_into(out)
    }

    /// Appends the feedback that came with the packets received, for
    /// [`Compressor::feedback`](crate::Compressor::feedback) of the compressor at this end. Returns whether there was
    /// any.
    pub fn take_received_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.received_feedback.drain_into(out)
    }

    /// Brings contexts to another mode from now on, by the handshakes of RFC 3095 5.6.
    pub fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
    }

    /// What was decompressed and refused so far.
    pub fn stats(&self) -> DecompressorStats {
        self.stats
    }
}
