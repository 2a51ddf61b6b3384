//! Profiles of version 2 (RFC 5225) for RTP, UDP, ESP, IP and UDP-Lite.
//!
//! They compress IPv4, IPv6, its extension headers, AH, GRE and minimal encapsulation in any number of tunnels.
//!
//! Both sides keep the last header octet for octet, as those of TCP do; compressed headers are what is to be patched in
//! a copy of it. The formats are those of RFC 5225's formal notation, which the tests interpret to compare.
//!
//! | module | what |
//! |---|---|
//! | [`chain`], [`ip`], [`extension`] | headers before the transport: their static, dynamic and irregular items |
//! | [`transport`], [`list`] | the same of UDP, UDP-Lite, ESP and RTP, and the list of CSRCs |
//! | [`control`] | control fields, their CRC-3, and variable-length values |
//! | [`formats`], [`common`] | base headers: the short ones, and `co_common` |
//! | [`compressor`], [`decompressor`] | the contexts |
//! | [`feedback`] | FEEDBACK-1 and FEEDBACK-2 |
//!
//! Where the RFC leaves a choice:
//!
//! - The coverage of UDP-Lite is not in dynamic chains where it is inferred, as its encoding method says; the length that the
//!   format has for it says otherwise.
//! - A late packet is read against the packet sent before it, and updates nothing (5.2.2 allows that).
//! - The compressor does not use timer-based timestamps; the decompressor reads them.

mod chain;
mod common;
mod compressor;
mod control;
mod decompressor;
mod extension;
mod feedback;
mod formats;
mod ip;
mod list;
mod transport;

use alloc::boxed::Box;
use alloc::vec::Vec;

use compressor::Compressor;
use decompressor::Decompressor;

use crate::framework::context::{
    self, ArrivedFeedback, Built, CompressorFamily, Contexts, DecompressorFamily, FeedbackOutcome, Flows,
    Holder, Incoming, Output, Restepped, Restored, Step, Stepped, Suitable, Unfit,
};
use crate::framework::earlier::SentNumbers;
use crate::framework::error::DecompressError;
use crate::framework::feedback::Queue;
use crate::framework::frame::Cid;
use crate::framework::packet::{Packet, Transport};
use crate::framework::profile::{CompressorState, Mode, Profile};

/// Packet to compress.
type Job<'a> = context::Job<'a>;
/// Packet to decompress.
type Input<'a> = context::Input<'a>;

/// Compressor contexts of the profiles on one channel.
#[derive(Debug, Default)]
pub(crate) struct Compressors {
    contexts: Contexts<Compressor>,
    /// Chain of a packet that has none in a context yet.
    spare: chain::Chain,
}

impl Compressors {
    /// Compresses a packet on the fast path, or returns `None` with nothing changed.
    ///
    /// `own` is the entry of this family's contexts in `flows`.
    #[inline]
    pub(super) fn step(
        &mut self,
        flows: &Flows,
        own: Holder,
        step: &Step<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Stepped> {
        if !step.config.channel.profiles.has_v2() {
            return None;
        }
        let plain = compressor::Plain::of(step.bytes, step.len, step.config)?;
        let expects = |cid: u16, holder: &Holder| {
            *holder == own && self.contexts.get(cid).is_some_and(|context| context.expects(&plain))
        };
        let cid = flows.find_if(plain.hash(), expects)?;
        let context = self.contexts.get_mut(cid)?;
        let (kind, header_in) = context.step(&plain, step.now, step.config, step.cid(cid), out)?;
        Some(Stepped { cid, profile: plain.profile, kind, header_in: header_in as u16 })
    }
}

impl CompressorFamily for Compressors {
    fn suitable(&self, packet: &Packet<'_>) -> Suitable {
        let rtp = packet.rtp;
        let specific = match packet.transport {
            Transport::Udp => [rtp.then_some(Profile::RtpV2), Some(Profile::UdpV2)],
            Transport::UdpLite => [rtp.then_some(Profile::RtpUdpLiteV2), Some(Profile::UdpLiteV2)],
            Transport::Esp => [Some(Profile::EspV2), None],
            Transport::Tcp | Transport::Other => [None, None],
        };
        let has_levels = !packet.levels().is_empty();
        Suitable { specific, general: has_levels.then_some(Profile::IpV2) }
    }

    fn accepts(&self, packet: &Packet<'_>, profile: Profile) -> bool {
        let mut chain = chain::Chain::default();
        compressor::View::parse(packet.bytes, packet.len, profile, &mut chain).is_some()
    }

    fn begin(&mut self, job: &Job<'_>) {
        match self.contexts.get_mut(job.cid.cid) {
            Some(context) => context.renew(job),
            None => self.contexts.put(job.cid.cid, Box::new(Compressor::new(job))),
        }
    }

    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        let context = self.contexts.get_mut(job.cid.cid).ok_or(Unfit)?;
        context.compress(job, &mut self.spare, out)
    }

    fn feedback(&mut self, feedback: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        let context = self.contexts.get_mut(feedback.cid);
        context.map_or_else(Default::default, |context| context.feedback(feedback))
    }

    fn sent_numbers(&self, cid: u16) -> SentNumbers {
        self.contexts.get(cid).map_or_else(Default::default, Compressor::sent_numbers)
    }

    fn status(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        self.contexts.get(cid).map(|context| (context.mode(), context.state()))
    }

    fn remove(&mut self, cid: u16) {
        self.contexts.take(cid);
    }
}

/// Decompressor contexts of the profiles on one channel.
#[derive(Debug, Default)]
pub(crate) struct Decompressors {
    contexts: Contexts<Decompressor>,
    /// Headers being rebuilt.
    scratch: Vec<u8>,
}

impl Decompressors {
    /// Decompresses a packet on the fast path, or returns `None` with nothing changed.
    #[inline]
    pub(super) fn step(&mut self, cid: u16, step: &Incoming<'_>, out: &mut Vec<u8>) -> Option<Restepped> {
        let context = self.contexts.get_mut(cid)?;
        let (kind, header_in) = context.step(step, out)?;
        Some(Restepped { profile: context.profile(), kind, header_in: header_in as u16 })
    }
}

impl DecompressorFamily for Decompressors {
    fn serves(&self, profile: Profile) -> bool {
        profile.version() == 2
    }

    fn refresh(
        &mut self,
        profile: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let cid = input.frame.cid;
        if let Some(context) = self.contexts.get_mut(cid) {
            return context.refresh(profile, input, output, &mut self.scratch);
        }
        let mut context = Box::new(Decompressor::new(profile));
        let restored = context.refresh(profile, input, output, &mut self.scratch)?;
        self.contexts.put(cid, context);
        Ok(restored)
    }

    fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let context = self.contexts.get_mut(input.frame.cid);
        let context = context.ok_or(DecompressError::NoContext(input.frame.cid))?;
        context.decompress(input, output, &mut self.scratch)
    }

    fn profile(&self, cid: u16) -> Option<Profile> {
        self.contexts.get(cid).map(Decompressor::profile)
    }

    fn remove(&mut self, cid: u16) {
        self.contexts.take(cid);
    }

    fn reject(&self, cid: Cid, _: Mode, feedback: &mut Queue) {
        feedback::reject(feedback, cid);
    }
}
