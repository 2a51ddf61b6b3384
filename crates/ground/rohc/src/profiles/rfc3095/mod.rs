//! Profiles of RFC 3095 (RTP, UDP, ESP), RFC 3843 (IP) and RFC 4019 (UDP-Lite).

mod changes;
mod compressed;
mod compressor;
mod decompressor;
#[cfg(test)]
mod fast_path_tests;
mod header;
mod list;
mod report;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;

use changes::Spare;
use compressor::Compressor;
pub(in crate::profiles) use compressor::{Chain, MAX_HEADER_LEN, fixed_ip_sum};
use decompressor::Decompressor;
use list::List;

use crate::framework::context::{
    self, ArrivedFeedback, Built, CompressorFamily, Contexts, DecompressorFamily, FeedbackOutcome, Flows,
    Holder, Incoming, Output, Restepped, Restored, Step, Stepped, Suitable, Unfit,
};
use crate::framework::earlier::SentNumbers;
use crate::framework::error::DecompressError;
use crate::framework::packet::{Packet, Transport};
use crate::framework::profile::{CompressorState, Mode, Profile};

/// Packet to compress, with the list that all contexts of the channel write in turn.
type Job<'a> = context::Job<'a, RefCell<List>>;
/// Packet to decompress, with the memory that all contexts of the channel use in turn.
type Input<'a> = context::Input<'a, Spare>;

/// Compressor contexts of the RFC 3095 family on one channel.
#[derive(Debug, Default)]
pub(crate) struct Compressors {
    contexts: Contexts<Compressor>,
    scratch: RefCell<List>,
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
        let chain = Chain::of(step.bytes, step.len, step.config)?;
        let expects = |cid: u16, holder: &Holder| {
            *holder == own && self.contexts.get(cid).is_some_and(|context| context.expects(&chain))
        };
        let cid = flows.find_if(chain.hash, expects)?;
        let context = self.contexts.get_mut(cid)?;
        let (kind, header_in) = context.step(&chain, step.now, step.config, step.cid(cid), out)?;
        Some(Stepped { cid, profile: chain.profile, kind, header_in: header_in as u16 })
    }
}

impl CompressorFamily for Compressors {
    fn suitable(&self, packet: &Packet<'_>) -> Suitable {
        let (depth, rtp) = (packet.levels().len(), packet.rtp);
        let specific = match packet.transport {
            Transport::Udp if depth <= 2 => [rtp.then_some(Profile::Rtp), Some(Profile::Udp)],
            Transport::UdpLite => [rtp.then_some(Profile::RtpUdpLite), Some(Profile::UdpLite)],
            Transport::Esp if depth <= 2 => [Some(Profile::Esp), None],
            Transport::Udp | Transport::Esp | Transport::Tcp | Transport::Other => [None, None],
        };
        Suitable { specific, general: (depth > 0).then_some(Profile::Ip) }
    }

    fn begin(&mut self, job: &context::Job<'_>) {
        let (cid, job) = (job.cid.cid, &job.sharing(&self.scratch));
        match self.contexts.get_mut(cid) {
            Some(context) => context.renew(job),
            None => self.contexts.put(cid, Box::new(Compressor::new(job))),
        }
    }

    fn compress(&mut self, job: &context::Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        let context = self.contexts.get_mut(job.cid.cid).ok_or(Unfit)?;
        context.compress(&job.sharing(&self.scratch), out)
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

/// Decompressor contexts of the RFC 3095 family on one channel.
#[derive(Debug, Default)]
pub(crate) struct Decompressors {
    contexts: Contexts<Decompressor>,
    spare: Spare,
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
        profile.version() == 1 && !matches!(profile, Profile::Uncompressed | Profile::Tcp)
    }

    fn refresh(
        &mut self,
        profile: Profile,
        input: &context::Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let (cid, input) = (input.frame.cid, &input.sharing(&self.spare));
        if let Some(context) = self.contexts.get_mut(cid) {
            return context.refresh(profile, input, output);
        }
        let mut context = Box::new(Decompressor::new(profile));
        let restored = context.refresh(profile, input, output)?;
        self.contexts.put(cid, context);
        Ok(restored)
    }

    fn decompress(
        &mut self,
        input: &context::Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let context = self.contexts.get_mut(input.frame.cid);
        let context = context.ok_or(DecompressError::NoContext(input.frame.cid))?;
        context.decompress(&input.sharing(&self.spare), output)
    }

    fn profile(&self, cid: u16) -> Option<Profile> {
        self.contexts.get(cid).map(Decompressor::profile)
    }

    fn remove(&mut self, cid: u16) {
        self.contexts.take(cid);
    }
}

#[cfg(test)]
mod tests {
    /// Contexts stay small: thousands of them are kept.
    #[test]
    fn a_context_takes_less_than_a_kilobyte() {
        assert!(size_of::<super::Compressor>() <= 800, "{}", size_of::<super::Compressor>());
        assert!(size_of::<super::Decompressor>() <= 800, "{}", size_of::<super::Decompressor>());
    }
}
