//! Evidence for the decompressor: packets with a CRC of 7 bits where one of 3 bits would do.
//!
//! After losses that may hide a change a CRC of 3 bits proves little, and a decompressor waits for a longer one. So one
//! comes every so often, and wherever the flow itself looks like losses of the channel: after a gap in its own sequence
//! numbers, and after a pause in which so many packets could have been lost that the bits of the sequence number wrap.
//! A decompressor that has seen this done takes such a gap without a CRC of 7 bits for what it then is.

use core::time::Duration;

use super::formats::Format;
use super::{Compressor, Current};
use crate::arrival::Rhythm;
use crate::checksum;
use crate::config::CompressorConfig;
use crate::confirm::{BEHIND_CHANGES, Pace};
use crate::job::Job;
use crate::packet::Packet;
use crate::profile::{Mode, PacketType};
use crate::rfc3095::header::Numbering;

/// How often what changed is told again, besides the first times.
const RETELLS: u8 = 3;
/// So far behind a packet that set the context up, the first one after it shows the decompressor that there is evidence.
const REACH: i32 = 9;

/// When the next packet with a CRC of 7 bits is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirm {
    pace: Pace,
    /// Packets that say nothing, from the next one on, that have one because of what changed before them.
    owed: u8,
    /// So many more times what changed of IP headers is told where one is due.
    retells: u8,
    /// The last packet was IR or IR-DYN.
    is_new: bool,
    /// It was of type 0.
    is_calm: bool,
}

impl Confirm {
    /// A flow begins.
    pub(super) fn starting(config: &CompressorConfig) -> Self {
        Self { pace: Pace::starting(config), ..Self::default() }
    }

    /// Whether the next packet is to have a CRC of 7 bits.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.pace.is_due()
    }

    /// A packet was sent the short way.
    #[inline]
    pub(super) const fn stepped(&mut self) {
        self.pace.stepped();
    }

    /// A packet was sent the general way.
    #[inline]
    pub(super) fn sent(&mut self, kind: PacketType, is_strong: bool) {
        self.is_new = matches!(kind, PacketType::Ir | PacketType::IrDyn);
        self.is_calm = kind == PacketType::Uo0;
        self.pace.sent(is_strong);
        // What was set up anew is confirmed by the next packet.
        if self.is_new {
            self.pace.hurry();
        }
    }

    /// The mode is another one.
    pub(super) fn restart(&mut self, config: &CompressorConfig) {
        *self = Self { owed: self.owed, is_new: self.is_new, ..Self::starting(config) };
    }
}

impl Compressor {
    /// Fields of an IP header changed that no CRC of a later packet may show: to both some differences look like none (two
    /// bits fourteen apart, as of a traffic class).
    pub(super) fn retell_later(&mut self, config: &CompressorConfig) {
        let is_wanted = config.confirm > 0 && self.mode == Mode::Unidirectional;
        self.confirm.retells = if is_wanted { RETELLS } else { 0 };
    }

    /// Whether what changed is yet to be told again.
    pub(super) const fn is_retelling(&self) -> bool {
        self.confirm.retells > 0
    }

    /// Tells again what changed if a packet with a CRC of 7 bits is due; whether it does. In U-mode only: elsewhere an
    /// acknowledgement, or none, says whether it arrived.
    #[inline]
    pub(super) fn retell(&mut self, sn: u32) -> bool {
        let confirm = &mut self.confirm;
        if confirm.retells == 0
            || !confirm.pace.is_due()
            || !confirm.pace.is_begun()
            || self.mode != Mode::Unidirectional
        {
            return false;
        }
        confirm.retells -= 1;
        for (repeat, fields) in self.ip.iter_mut().zip(self.ip_fields) {
            if fields != 0 {
                repeat.ensure(1, sn);
            }
        }
        true
    }

    /// Takes note of when a packet came, as the decompressor does.
    #[inline]
    pub(super) fn note_arrival(&mut self, kind: PacketType, now: Duration) {
        if matches!(kind, PacketType::Ir | PacketType::IrDyn) {
            self.rhythm = Rhythm::starting(now);
        } else {
            self.rhythm.note(now);
        }
    }

    /// The packet has to say something.
    #[inline]
    pub(super) fn note_change(&mut self) {
        self.confirm.owed = BEHIND_CHANGES;
    }

    /// Whether a packet for which `shortest` would do is to have a CRC of 7 bits.
    #[inline]
    pub(super) fn must_confirm(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        shortest: Option<&Format>,
    ) -> bool {
        let config = job.config;
        if config.only_ir_and_so || self.mode == Mode::Reliable {
            return false;
        }
        let (numbering, repeats) = (self.numbering(), i32::from(Self::repeats(config)));
        let distance = numbering.distance(self.last.sn, current.sn);
        let has_gap = numbering != Numbering::Generated && !(1..=repeats).contains(&distance);
        if config.confirm == 0 {
            // Where checksums were right, a decompressor may want that of a packet behind a gap to be.
            return has_gap && current.checksum != 0 && !self.checksum_is_right(job.packet, current);
        }
        let is_idle = shortest.is_some_and(|format| format.kind == PacketType::Uo0);
        let owed = self.confirm.owed;
        self.confirm.owed = if is_idle { owed.saturating_sub(1) } else { BEHIND_CHANGES };
        let tells_time = self.profile.has_rtp() && shortest.is_some_and(|format| format.ts > 0);
        let is_numbered = numbering != Numbering::Generated || self.compressed_id(current).is_some();
        let seems_late = is_numbered && !tells_time && self.rhythm.may_seem_late(job.now);
        let is_due = self.confirm.is_due()
            && (self.confirm.pace.is_begun() || shortest.is_some() && self.is_seen(distance, is_idle));
        if is_due {
            self.confirm.pace.plan(config, self.mode);
        }
        has_gap || seems_late || is_due || is_idle && owed > 0 && self.mode == Mode::Unidirectional
    }

    fn checksum_is_right(&self, packet: &Packet<'_>, current: &Current) -> bool {
        let (header, payload) = packet.bytes.split_at((current.header_len as usize).min(packet.bytes.len()));
        let payload_len = packet.len - header.len();
        checksum::transport_is_right(header, payload, payload_len, packet.levels(), self.profile)
    }

    /// Whether a CRC of 7 bits would show the decompressor that it was not needed.
    fn is_seen(&self, distance: i32, is_idle: bool) -> bool {
        if self.confirm.is_new {
            (1..=REACH).contains(&distance)
        } else {
            self.confirm.is_calm && is_idle && distance == 1
        }
    }
}
