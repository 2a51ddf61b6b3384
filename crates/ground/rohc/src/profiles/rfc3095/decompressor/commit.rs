//! Making what was verified the context (RFC 4815 6).

use core::time::Duration;

use super::{Arrived, Candidate, Coverage, CoverageExtension, Decompressor, EXTENSION, ExtensionBit, Values};
use crate::framework::arrival::ArrivalTiming;
use crate::framework::profile::{Mode, PacketType};
use crate::profiles::rfc3095::changes::Changes;
use crate::profiles::rfc3095::compressed::CrcKind;
use crate::profiles::rfc3095::list;

impl Decompressor {
    /// Stores verified values in the context (RFC 4815 6).
    #[inline]
    pub(super) fn commit(&mut self, packet: &Arrived<'_>, candidate: Candidate, now: Duration) {
        if packet.compact.crc_kind == CrcKind::None {
            candidate.changes.into_iter().for_each(|changes| packet.input.shared.keep(changes));
            return;
        }
        if packet.input.config.report_path {
            self.observe_path(&candidate.values, now);
        }
        self.is_new = false;
        if self.extension_bit == ExtensionBit::Cleared {
            let is_kept = candidate.kept_bits & EXTENSION != 0 && candidate.values.rtp.extension;
            self.extension_bit = if is_kept { ExtensionBit::Kept } else { ExtensionBit::Absolute };
        }
        let plain = packet.compact.extension3.is_none() && candidate.changes.is_none();
        let config = packet.input.config;
        let is_in_order = !self.has_gap(candidate.values.sn, config) && !self.state.failed_last();
        let is_confirmation = config.peer_confirms && plain && is_in_order && self.unconfirmed == 0;
        self.feedbacker.note_confirmation(is_confirmation);
        self.previous_sn = self.values.sn;
        let Candidate { values, changes, mode, static_crcs, evidence, .. } = candidate;
        self.evidence = evidence;
        if packet.compact.kind == PacketType::Uo1Id && packet.input.config.strict_uo1id {
            self.commit_restricted(values, changes.as_deref());
        } else {
            self.values = values;
            if let Some(changes) = &changes {
                self.commit_changes(changes, packet.compact.crc_kind == CrcKind::Seven);
            }
        }
        changes.into_iter().for_each(|changes| packet.input.shared.keep(changes));
        self.static_crcs = static_crcs;
        self.steady.stands &= plain;
        self.timing.note(now);
        self.feedbacker.note_mode(mode, packet.compact.crc_kind == CrcKind::Seven, self.profile);
    }

    /// Records losses and jitter.
    fn observe_path(&mut self, new: &Values, now: Duration) {
        self.report.note_distance(self.numbering().distance(self.values.sn, new.sn));
        let (rtp, stride) = (&new.rtp, self.values.rtp.stride);
        if rtp.time_stride_ms == 0
            || stride == 0
            || (rtp.stride, rtp.time_stride_ms) != (stride, self.values.rtp.time_stride_ms)
        {
            return self.report.forget_arrivals();
        }
        let at_ms = now.as_millis() as u32;
        self.report.note_arrival(rtp.ts / stride, at_ms, rtp.time_stride_ms);
    }

    /// Commits a UO-1-ID packet: numbers, timestamp, identification and list items only (RFC 4815 6.2).
    pub(super) fn commit_restricted(&mut self, values: Values, changes: Option<&Changes>) {
        self.values.sn = values.sn;
        self.values.rtp.ts = values.rtp.ts;
        for (old, new) in self.values.ip.iter_mut().zip(values.ip) {
            old.id = new.id;
        }
        let Some(changes) = changes else { return };
        let all = self.lists.get_or_insert_default();
        let extensions = all.extensions.iter_mut().zip(&changes.extensions);
        for (lists, received) in extensions.chain([(&mut all.csrcs, &changes.csrcs)]) {
            received.iter().for_each(|received| list::learn(lists, received));
        }
    }

    /// Commits lists. In R-mode those of packets with a strong CRC become references by SN.
    pub(in crate::profiles::rfc3095) fn commit_changes(&mut self, changes: &Changes, strong: bool) {
        let reliable = self.feedbacker.mode() == Mode::Reliable && strong;
        let acknowledged = reliable.then_some(self.values.sn as u8);
        if changes.csrcs.is_some() || changes.extensions.iter().any(Option::is_some) {
            let all = self.lists.get_or_insert_default();
            let extensions = all.extensions.iter_mut().zip(&changes.extensions);
            for (lists, received) in extensions.chain([(&mut all.csrcs, &changes.csrcs)]) {
                received.iter().for_each(|received| list::accept(lists, received, acknowledged));
            }
        }
        if let Some(next) = changes.protocol {
            self.ip[1].next = next;
        }
        for (deeper, (changing, received)) in self.deeper.iter_mut().zip(&changes.deeper) {
            deeper.changing = *changing;
            list::accept(&mut deeper.lists, received, acknowledged);
        }
        self.static_crcs = None;
        self.steady.stands = false;
    }

    /// Resets references after an IR or IR-DYN packet set up the context.
    pub(in crate::profiles::rfc3095) fn refreshed(&mut self, now: Duration) {
        self.previous_sn = self.values.sn;
        self.static_crcs = None;
        self.steady.stands = false;
        self.feedbacker.note_confirmation(false);
        self.unconfirmed = 0;
        self.timing = ArrivalTiming::starting(now);
    }

    /// The context's coverage after a packet that sent `value` or none (RFC 4019 5.3.2).
    pub(super) fn next_coverage(&self, packet: &Arrived<'_>, value: u16, rest_len: usize) -> Coverage {
        let old = self.values.coverage;
        match packet.coverage_extension {
            CoverageExtension::None | CoverageExtension::Once => old,
            CoverageExtension::On => Coverage { present: true, ..old },
            CoverageExtension::Off => {
                Coverage { value, present: false, inferred: usize::from(value) == rest_len }
            }
        }
    }
}
