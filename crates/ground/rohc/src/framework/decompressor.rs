//! Decompressor engine: parsing of ROHC packets, contexts and feedback.

use alloc::vec::Vec;
use core::time::Duration;

use crate::framework::config::DecompressorConfig;
use crate::framework::context::{DecompressorFamilies, Holder, Incoming, Input, Output, Restored};
use crate::framework::error::DecompressError;
use crate::framework::feedback::{self, Queue, option};
use crate::framework::frame::{self, Cid, Frame, Kind, PacketStart};
use crate::framework::profile::{Mode, Profile};
use crate::framework::segment::Reassembler;
use crate::framework::stats::{Decompressed, DecompressorStats};

/// Decompressor of one channel, for the profiles of `F`.
#[derive(Debug)]
pub(crate) struct DecompressorEngine<F> {
    config: DecompressorConfig,
    families: F,
    /// Holders of the contexts, by CID.
    holders: Vec<Holder>,
    /// Number of the packet that used each context last, by CID. Kept where contexts are limited.
    last_uses: Vec<u64>,
    reassembler: Reassembler,
    unit: Vec<u8>,
    feedback: Queue,
    received_feedback: Queue,
    stats: DecompressorStats,
    /// Packets in a row for which there was no context.
    orphans: u8,
    /// Sends every packet along the general path, for comparison.
    #[cfg(test)]
    pub(crate) fast_path_disabled: bool,
}

/// Packets without a context per answer.
const ORPHAN_SPACING: u8 = 8;

/// Packets per context of the limit until a context is idle and may give way.
const IDLE_PACKETS: u64 = 4;

impl<F: DecompressorFamilies> DecompressorEngine<F> {
    /// Creates a decompressor of the profiles in `families`, without contexts.
    pub(crate) fn new(mut config: DecompressorConfig, families: F) -> Self {
        config.channel.profiles = config.channel.profiles.highest_versions();
        Self {
            config,
            families,
            holders: Vec::new(),
            last_uses: Vec::new(),
            reassembler: Reassembler::default(),
            unit: Vec::new(),
            feedback: Queue::default(),
            received_feedback: Queue::default(),
            stats: DecompressorStats::default(),
            orphans: 0,
            #[cfg(test)]
            fast_path_disabled: false,
        }
    }

    /// See [`Decompressor::decompress`](crate::Decompressor::decompress).
    pub(crate) fn decompress(
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

    /// See [`Decompressor::decompress_header`](crate::Decompressor::decompress_header).
    pub(crate) fn decompress_header(
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

    /// Decompresses a packet on the fast path: type 0, or a short format of TCP.
    #[inline]
    pub(crate) fn step(
        &mut self,
        now: Duration,
        packet: &[u8],
        len_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<Decompressed> {
        #[cfg(test)]
        if self.fast_path_disabled {
            return None;
        }
        let cids = self.config.channel.cids;
        let (cid, head_len) = frame::plain(packet, cids)?;
        let family = self.holders.get(usize::from(cid))?.family()?;
        let (head, body) = packet.split_at(head_len);
        let first = if cids.is_large() { head[0] } else { head[head_len - 1] };
        let elided_bytes = len_bytes - packet.len();
        let incoming = Incoming { first, body, elided_bytes, now, config: &self.config };
        let start = out.len();
        let restored = self.families.step(family, cid, &incoming, out)?;
        self.note_use(cid);
        self.reassembler.abort();
        self.stats.delivered += 1;
        Some(Decompressed {
            cid,
            profile: restored.profile,
            packet_type: restored.kind,
            header_in: head_len + usize::from(restored.header_in),
            header_out: out.len() - start,
        })
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

    /// Removes padding, feedback and segments from the front of a packet.
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
                PacketStart::Feedback { data, rest: behind } => {
                    self.received_feedback.push_data(data);
                    rest = behind;
                }
                PacketStart::Nothing => return Ok(None),
                PacketStart::Segment { last, data } => return self.segment(now, last, data, out),
                PacketStart::Header(header) => {
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
                Ok(PacketStart::Header(header)) if header.len() == unit.len() => {
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
        if at >= self.holders.len() {
            if frame.kind != Kind::Ir {
                self.orphan(frame.cid);
                return Err(DecompressError::NoContext(frame.cid));
            }
            self.holders.resize(at + 1, Holder::default());
        }
        let start = out.len();
        let restored = match frame.kind {
            Kind::Profile => self.follow(&frame, now, out),
            Kind::Ir | Kind::IrDyn => self.refresh(&frame, now, out),
        };
        if matches!(restored, Err(DecompressError::NoContext(_))) {
            self.orphan(frame.cid);
        }
        let (profile, restored) = restored?;
        self.note_use(frame.cid);
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

    /// Decompresses a packet of an existing context.
    #[inline]
    fn follow(
        &mut self,
        frame: &Frame<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(Profile, Restored), DecompressError> {
        let none = DecompressError::NoContext(frame.cid);
        let family = self.holders[usize::from(frame.cid)].family().ok_or(none)?;
        let family = self.families.get_mut(family);
        let input = Input { frame, now, config: &self.config, shared: &() };
        let restored = family.decompress(&input, &mut Output { out, feedback: &mut self.feedback })?;
        Ok((family.profile(frame.cid).ok_or(none)?, restored))
    }

    /// Decompresses IR and IR-DYN: the packet, not the context, says which profile it is of.
    fn refresh(
        &mut self,
        frame: &Frame<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(Profile, Restored), DecompressError> {
        if frame.kind == Kind::Ir && self.is_full(frame) && !self.make_room() {
            return self.refuse(frame, now, out);
        }
        let (family, profile) = self.named_family(frame)?;
        let input = Input { frame, now, config: &self.config, shared: &() };
        let mut output = Output { out, feedback: &mut self.feedback };
        let restored = self.families.get_mut(family).refresh(profile, &input, &mut output)?;
        self.hold(frame.cid, Holder::new(family));
        Ok((profile, restored))
    }

    /// Decompresses an IR packet without room for its context, and rejects the flow. See RFC 3095 5.7.6.4 and RFC 6846
    /// 8.3.2.1.
    fn refuse(
        &mut self,
        frame: &Frame<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<(Profile, Restored), DecompressError> {
        let named = self.named_family(frame);
        let result = named.and_then(|(family, profile)| {
            let input = Input { frame, now, config: &self.config, shared: &() };
            let mut output = Output { out, feedback: &mut Queue::default() };
            let restored = self.families.get_mut(family).refresh(profile, &input, &mut output);
            self.families.get_mut(family).remove(frame.cid);
            Ok((profile, restored?))
        });
        self.hold(frame.cid, Holder::default());
        if self.config.mode != Mode::Unidirectional {
            let cid = Cid { cids: self.config.channel.cids, cid: frame.cid };
            match named {
                Ok((family, _)) => {
                    self.families.get_mut(family).reject(cid, self.config.mode, &mut self.feedback)
                }
                Err(_) => feedback::push_reject(cid, self.config.mode, &mut self.feedback),
            }
        }
        result
    }

    /// Enters `holder` for the context at `cid`, and removes what another family has there.
    fn hold(&mut self, cid: u16, holder: Holder) {
        let old = core::mem::replace(&mut self.holders[usize::from(cid)], holder);
        if let Some(family) = old.family().filter(|_| old != holder) {
            self.families.get_mut(family).remove(cid);
        }
    }

    /// Returns the family and the profile that an IR or IR-DYN packet names.
    fn named_family(&self, frame: &Frame<'_>) -> Result<(usize, Profile), DecompressError> {
        let octet = *frame.body.first().ok_or(DecompressError::Truncated)?;
        let profile = Profile::from_octet(octet, self.config.channel.profiles);
        let served = profile.and_then(|profile| {
            Some(((0..F::COUNT).find(|&index| self.families.get(index).serves(profile))?, profile))
        });
        let served = served.ok_or(DecompressError::ProfileRefused(octet))?;
        if frame.kind == Kind::IrDyn && self.holders[usize::from(frame.cid)].family().is_none() {
            return Err(DecompressError::NoContext(frame.cid));
        }
        Ok(served)
    }

    /// Returns `true` if the IR packet `frame` would bring one context too many.
    fn is_full(&self, frame: &Frame<'_>) -> bool {
        let limit = usize::from(self.config.max_contexts);
        limit > 0
            && !self.is_limited(usize::from(frame.cid))
            && frame.body.first() != Some(&(Profile::Uncompressed as u8))
            && (0..self.holders.len()).filter(|&cid| self.is_limited(cid)).count() >= limit
    }

    /// Returns `true` if there is a context at `cid` that counts towards the limit.
    fn is_limited(&self, cid: usize) -> bool {
        self.holders[cid].family().is_some_and(|index| self.families.get(index).is_limited())
    }

    /// Notes that the last packet used the context at `cid`.
    #[inline]
    fn note_use(&mut self, cid: u16) {
        if self.config.max_contexts > 0 {
            let cid = usize::from(cid);
            if self.last_uses.len() <= cid {
                self.last_uses.resize(cid + 1, 0);
            }
            self.last_uses[cid] = self.stats.received;
        }
    }

    /// Returns `true` if it removed the context that has been unused for longest.
    ///
    /// Where feedback rejects flows, contexts in use stay: taking turns would cost an IR packet each time.
    fn make_room(&mut self) -> bool {
        let limited = (0..self.last_uses.len()).filter(|&cid| self.is_limited(cid));
        let Some(oldest) = limited.min_by_key(|&cid| self.last_uses[cid]) else { return false };
        let idle = self.stats.received - self.last_uses[oldest];
        let is_free = self.config.mode == Mode::Unidirectional
            || idle > IDLE_PACKETS * u64::from(self.config.max_contexts);
        if is_free {
            self.stats.displaced += 1;
            self.hold(oldest as u16, Holder::default());
        }
        is_free
    }

    /// Asks for an IR packet for a context that is not there. RFC 3095 5.2.6 would have such packets discarded in
    /// silence; but a compressor in O- or R-mode, where nothing is refreshed, would then never learn that its
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

    /// Returns `true` if there was feedback; see [`Decompressor::take_feedback`](crate::Decompressor::take_feedback).
    pub(crate) fn take_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.feedback.drain_into(out)
    }

    /// Returns `true` if any came; see
    /// [`Decompressor::take_received_feedback`](crate::Decompressor::take_received_feedback).
    pub(crate) fn take_received_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.received_feedback.drain_into(out)
    }

    /// See [`Decompressor::set_mode`](crate::Decompressor::set_mode).
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
    }

    /// See [`Decompressor::stats`](crate::Decompressor::stats).
    pub(crate) fn stats(&self) -> DecompressorStats {
        self.stats
    }
}
