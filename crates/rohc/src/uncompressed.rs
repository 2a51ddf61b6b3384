//! Profile 0x0000, Uncompressed (RFC 3095 5.10): a packet as it is, behind a CID.
//!
//! The smallest profile, and so the pattern for the others.

use alloc::vec::Vec;

use crate::config::CompressorConfig;
use crate::crc::CRC8;
use crate::error::DecompressError;
use crate::frame::{self, Cid, Kind};
use crate::job::{Built, Input, Job, Output, Restored, Unfit};
use crate::profile::{CompressorState, Mode, PacketType, Profile};
use crate::refresh::RefreshClock;

/// The compressor's context: when to send IR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compressor {
    irs_to_send: u8,
    bidirectional: bool,
    refresh: RefreshClock,
}

impl Compressor {
    pub(crate) fn new(config: &CompressorConfig) -> Self {
        Self { irs_to_send: config.repeats, bidirectional: false, refresh: RefreshClock::default() }
    }

    /// Writes the header of an IR or Normal packet. Only the first octet of the packet is "header": a large CID comes
    /// between it and the rest (RFC 3095 5.10.2).
    pub(crate) fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Result<Built, Unfit> {
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
        Ok(write_ir(job.cid, out))
    }

    pub(crate) const fn mode(&self) -> Mode {
        if self.bidirectional { Mode::Optimistic } else { Mode::Unidirectional }
    }

    pub(crate) const fn state(&self) -> CompressorState {
        CompressorState::of(self.irs_to_send > 0, false)
    }

    /// Any feedback: the decompressor has the context, and there is a way back.
    pub(crate) fn feedback(&mut self) {
        self.irs_to_send = 0;
        self.bidirectional = true;
    }
}

/// Writes the header of an IR packet.
pub(crate) fn write_ir(cid: Cid, out: &mut Vec<u8>) -> Built {
    let start = out.len();
    cid.write(out, frame::IR);
    out.push(Profile::Uncompressed as u8);
    // The CRC stops before itself here, unlike in every other profile.
    let crc = CRC8.of(&out[start..]);
    out.push(crc);
    Built { kind: PacketType::Ir, header_in: 0 }
}

/// The decompressor's context: there is nothing to remember but that there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decompressor {
    acknowledged: bool,
}

impl Decompressor {
    /// An IR or Normal packet.
    pub(crate) fn decompress(
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
