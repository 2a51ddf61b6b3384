//! Profile 0x0000, Uncompressed (RFC 3095 5.10): a packet as it is, behind a CID.
//!
//! The smallest profile, and so the pattern for the others.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::framework::config::CompressorConfig;
use crate::framework::context::{
    ArrivedFeedback, Built, CompressorFamily, Contexts, DecompressorFamily, FeedbackOutcome, Input, Job,
    Output, Restored, Suitable, Unfit,
};
use crate::framework::crc::CRC8;
use crate::framework::earlier::SentNumbers;
use crate::framework::error::DecompressError;
use crate::framework::frame::{self, Kind};
use crate::framework::packet::Packet;
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile};
use crate::framework::refresh::RefreshClock;

/// Compressor contexts of the profile on one channel.
#[derive(Debug, Default)]
pub(crate) struct Compressors(Contexts<Compressor>);

impl CompressorFamily for Compressors {
    fn suitable(&self, _packet: &Packet<'_>) -> Suitable {
        Suitable { general: Some(Profile::Uncompressed), ..Suitable::default() }
    }

    fn begin(&mut self, job: &Job<'_>) {
        self.0.put(job.cid.cid, Box::new(Compressor::new(job.config)));
    }

    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        self.0.get_mut(job.cid.cid).ok_or(Unfit)?.compress(job, out)
    }

    fn feedback(&mut self, feedback: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        // It names no packet, so it may be of any use of the CID.
        if feedback.earlier.is_over() {
            self.0.get_mut(feedback.cid).into_iter().for_each(Compressor::feedback);
        }
        FeedbackOutcome::default()
    }

    /// The decompressor's acknowledgement has a zero where those of other profiles have a number.
    fn sent_numbers(&self, _: u16) -> SentNumbers {
        SentNumbers::new(0, 1)
    }

    fn status(&self, cid: u16) -> Option<(Mode, CompressorState)> {
        self.0.get(cid).map(|context| (context.mode(), context.state()))
    }

    fn remove(&mut self, cid: u16) {
        self.0.take(cid);
    }
}

/// Decompressor contexts of the profile on one channel.
#[derive(Debug, Default)]
pub(crate) struct Decompressors(Contexts<Decompressor>);

impl DecompressorFamily for Decompressors {
    fn serves(&self, profile: Profile) -> bool {
        profile == Profile::Uncompressed
    }

    fn is_limited(&self) -> bool {
        false
    }

    fn refresh(
        &mut self,
        _: Profile,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let cid = input.frame.cid;
        if let Some(context) = self.0.get_mut(cid) {
            return context.decompress(input, output);
        }
        let mut context = Box::<Decompressor>::default();
        let restored = context.decompress(input, output)?;
        self.0.put(cid, context);
        Ok(restored)
    }

    fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        let none = DecompressError::NoContext(input.frame.cid);
        self.0.get_mut(input.frame.cid).ok_or(none)?.decompress(input, output)
    }

    fn profile(&self, cid: u16) -> Option<Profile> {
        self.0.get(cid).map(|_| Profile::Uncompressed)
    }

    fn remove(&mut self, cid: u16) {
        self.0.take(cid);
    }
}

/// Compressor context: schedule of IR packets.
#[derive(Clone, Copy, Debug)]
struct Compressor {
    irs_to_send: u8,
    bidirectional: bool,
    refresh: RefreshClock,
}

impl Compressor {
    fn new(config: &CompressorConfig) -> Self {
        Self { irs_to_send: config.repeats, bidirectional: false, refresh: RefreshClock::default() }
    }

    /// Writes the header of an IR or Normal packet. Only the first octet of the packet is "header": a large CID comes
    /// between it and the rest (RFC 3095 5.10.2).
    fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
        let first = *job.packet.bytes.first().ok_or(Unfit)?;
        if !self.bidirectional && self.refresh.is_due(job.config.ir_refresh, job.now) {
            self.irs_to_send = self.irs_to_send.max(job.config.refresh_repeats.max(1));
        }
        // What the framework would take for something else than a Normal packet goes in an IR packet.
        if self.irs_to_send == 0 && first < frame::PADDING {
            job.cid.write(out, first);
            return Ok(Built { kind: PacketType::Normal, header_in: 1 });
        }
        self.irs_to_send = self.irs_to_send.saturating_sub(1);
        self.refresh.restart(job.now);
        frame::write_uncompressed_ir(job.cid, out);
        Ok(Built { kind: PacketType::Ir, header_in: 0 })
    }

    const fn mode(&self) -> Mode {
        if self.bidirectional { Mode::Optimistic } else { Mode::Unidirectional }
    }

    const fn state(&self) -> CompressorState {
        CompressorState::of(self.irs_to_send > 0, false)
    }

    /// Any feedback: the decompressor has the context, and there is a way back.
    fn feedback(&mut self) {
        self.irs_to_send = 0;
        self.bidirectional = true;
    }
}

/// The decompressor's context: there is nothing to remember but that there is one.
#[derive(Clone, Copy, Debug, Default)]
struct Decompressor {
    acknowledged: bool,
}

impl Decompressor {
    /// An IR or Normal packet.
    fn decompress(
        &mut self,
        input: &Input<'_>,
        output: &mut Output<'_>,
    ) -> Result<Restored, DecompressError> {
        match input.frame.kind {
            Kind::Ir => self.ir(input, output),
            Kind::IrDyn => Err(DecompressError::Malformed("IR-DYN of the Uncompressed profile")),
            Kind::Profile => {
                output.out.push(input.frame.first);
                Ok(Restored { kind: PacketType::Normal, header_in: 0, delivered: true })
            }
        }
    }

    fn ir(&mut self, input: &Input<'_>, output: &mut Output<'_>) -> Result<Restored, DecompressError> {
        let [profile, crc] = input.frame.body.first_chunk::<2>().ok_or(DecompressError::Truncated)?;
        let covered = CRC8.update(CRC8.start(), input.frame.head);
        if CRC8.update(covered, &[*profile]) != *crc {
            return Err(DecompressError::CrcMismatch);
        }
        if input.config.mode != Mode::Unidirectional && !self.acknowledged {
            self.acknowledged = true;
            output.feedback.push(input.cid(), &[0], None);
        }
        let delivered = input.frame.body.len() + input.frame.elided_bytes > 2;
        Ok(Restored { kind: PacketType::Ir, header_in: 2, delivered })
    }
}
