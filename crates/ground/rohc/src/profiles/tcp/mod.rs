//! Profile 0x0006, TCP/IP (RFC 6846). Takes IPv4, IPv6, its extension headers, AH, GRE and minimal encapsulation, in
//! any number and order, and TCP with its options.
//!
//! Both sides keep the last header as it was, octet for octet, and compressed headers are what is to be patched in a
//! copy of it. What that leaves are the control fields (master sequence number, acknowledgement stride, ECN), and the
//! options' table of items. The compressor also keeps the few values that compressed headers may be relative to, of as
//! many packets as it repeats every change ([`refs`]), and for what changes seldom how often each change is still to be
//! sent ([`groups`]). From these it takes the smallest format that carries what is due.
//!
//! | module | what |
//! |---|---|
//! | [`chain`], [`kind`], [`ip`], [`extension`] | headers before TCP: their static, dynamic, replicate and irregular items |
//! | [`header`], [`options`] | the same of TCP and its options |
//! | [`formats`], [`base`] | base headers, the sixteen short ones and `co_common` |
//! | [`compressor`] with its choice of format, context replication, fast path and refreshes, [`table`], [`refs`], [`groups`], [`behaviour`] | the compressor |
//! | [`decompressor`] with its short way, [`checksum`] | the decompressor |
//! | [`feedback`] | FEEDBACK-1 and FEEDBACK-2 |
//!
//! Not done: an IR-CR that changes the length of an extension header is refused.

mod base;
mod behaviour;
mod chain;
mod checksum;
mod compressor;
mod decompressor;
pub(in crate::profiles) mod extension;
#[cfg(test)]
mod fast_path_tests;
mod feedback;
mod formats;
mod groups;
mod header;
pub(in crate::profiles) mod ip;
pub(in crate::profiles) mod kind;
mod options;
mod refs;
mod table;

use alloc::boxed::Box;
use alloc::vec::Vec;

use compressor::{Compressor, Plain};
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

/// Packet to compress, with the other contexts of the profile: bases for context replication.
type Job<'a> = context::Job<'a, Contexts<Compressor>>;
/// Packet to decompress, with the other contexts of the profile: bases for context replication.
type Input<'a> = context::Input<'a, Contexts<Decompressor>>;

/// Compressor contexts of the TCP profile on one channel.
#[derive(Debug, Default)]
pub(crate) struct Compressors(Contexts<Compressor>);

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
        let plain = Plain::of(step.bytes, step.len, step.config)?;
        let expects = |cid: u16, holder: &Holder| {
            *holder == own && self.0.get(cid).is_some_and(|context| context.expects(&plain))
        };
        let cid = flows.find_if(plain.hash, expects)?;
        let context = self.0.get_mut(cid)?;
        let (kind, header_in) = context.step(&plain, step.now, step.config, step.cid(cid), out)?;
        Some(Stepped { cid, profile: Profile::Tcp, kind, header_in: header_in as u16 })
    }
}

impl CompressorFamily for Compressors {
    fn suitable(&self, packet: &Packet<'_>) -> Suitable {
        let is_tcp = packet.transport == Transport::Tcp && packet.versions_are_announced();
        Suitable { specific: [is_tcp.then_some(Profile::Tcp), None], general: None }
    }

    fn accepts(&self, packet: &Packet<'_>, _: Profile) -> bool {
        Compressor::carries(packet)
    }

    fn begin(&mut self, job: &context::Job<'_>) {
        match self.0.get_mut(job.cid.cid) {
            Some(context) => context.renew(job),
            None => self.0.put(job.cid.cid, Box::new(Compressor::new(job))),
        }
    }

    fn compress(&mut self, job: &context::Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        // Taken out, so that it can look at the other contexts.
        let mut context = self.0.take(job.cid.cid).ok_or(Unfit)?;
        let built = context.compress(&job.sharing(&self.0), out);
        self.0.put(job.cid.cid, context);
        built
    }

    fn feedback(&mut self, feedback: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        let context = self.0.get_mut(feedback.cid);
        context.map_or_else(Default::default, |context| context.feedback(feedback))
    }

    fn sent_numbers(&self, cid: u16) -> SentNumbers {
        self.0.get(cid).map_or_else(Default::default, Compressor::sent_numbers)
    }

    fn status(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        self.0.get(cid).map(|context| (context.mode(), context.state()))
    }

    fn remove(&mut self, cid: u16) {
        self.0.take(cid);
    }
}

/// Decompressor contexts of the TCP profile on one channel.
#[derive(Debug, Default)]
pub(crate) struct Decompressors(Contexts<Decompressor>);

impl Decompressors {
    /// Decompresses a packet on the fast path, or returns `None` with nothing changed.
    #[inline]
    pub(super) fn step(&mut self, cid: u16, step: &Incoming<'_>, out: &mut Vec<u8>) -> Option<Restepped> {
        let (kind, header_in) = self.0.get_mut(cid)?.step(step, out)?;
        Some(Restepped { profile: Profile::Tcp, kind, header_in: header_in as u16 })
    }
}

impl DecompressorFamily for Decompressors {
    fn serves(&self, profile: Profile) -> bool {
        profile == Profile::Tcp
    }

    fn refresh(
        &mut self,
        _: Profile,
        input: &context::Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        // Taken out, so that it can look at the other contexts.
        let old = self.0.take(input.frame.cid);
        let is_new = old.is_none();
        let mut context = old.unwrap_or_default();
        let restored = context.decompress(&input.sharing(&self.0), output);
        if restored.is_ok() || !is_new {
            self.0.put(input.frame.cid, context);
        }
        restored
    }

    fn decompress(
        &mut self,
        input: &context::Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let none = DecompressError::NoContext(input.frame.cid);
        let mut context = self.0.take(input.frame.cid).ok_or(none)?;
        let restored = context.decompress(&input.sharing(&self.0), output);
        self.0.put(input.frame.cid, context);
        restored
    }

    fn profile(&self, cid: u16) -> Option<Profile> {
        self.0.get(cid).map(|_| Profile::Tcp)
    }

    fn remove(&mut self, cid: u16) {
        self.0.take(cid);
    }

    fn reject(&self, cid: Cid, _: Mode, feedback: &mut Queue) {
        feedback::reject(feedback, cid);
    }
}
