//! The choice of the packet, and what follows from having sent it.

use alloc::vec::Vec;

use super::formats::{Family, Format, Need, formats};
use super::initialize::Stride;
use super::{Compressor, Current, Reference, is_strong};
use crate::framework::profile::{CompressorState, Mode, PacketType, Profile};
use crate::profiles::rfc3095::Job;
use crate::profiles::rfc3095::header::{Numbering, ts_p};

/// Distances of a packet's values from those of the references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    numbering: Numbering,
    sn: (i32, i32),
    /// Range of the scaled timestamp.
    pub(super) ts: (i32, i32),
    /// Range of the unscaled timestamp.
    pub(super) unscaled: (i32, i32),
    /// Every reference leads to the timestamp by the stride: no bits are needed.
    pub(super) linear: bool,
    /// Scaled timestamps can be sent.
    pub(super) scalable: bool,
    /// Spans of the identification in base headers, and of the outer one.
    pub(super) id: u16,
    pub(super) outer_id: u16,
    /// Bits that a timer-based timestamp needs.
    pub(super) timer_bits: Option<u32>,
}

impl Spans {
    /// Returns `true` if `bits` bits of the sequence number are enough.
    #[inline]
    pub(super) fn sn_fits(&self, bits: u32) -> bool {
        let p = i64::from(self.numbering.p(bits) as i32);
        i64::from(self.sn.0) + p >= 0 && i64::from(self.sn.1) + p < 1i64 << bits.min(40)
    }

    /// Returns `true` if `bits` bits of the scaled timestamp are enough.
    #[inline]
    pub(super) fn ts_fits(&self, bits: u32) -> bool {
        self.scalable
            && match self.timer_bits {
                Some(needed) => bits >= needed,
                None => interval_holds(self.ts, bits),
            }
    }

    pub(super) fn unscaled_fits(&self, bits: u32) -> bool {
        interval_holds(self.unscaled, bits)
    }

    #[inline]
    fn holds(&self, format: &Format, marker: bool) -> bool {
        self.sn_fits(format.sn)
            && (format.marker || !marker)
            && u32::from(self.id) < 1 << format.id
            && u32::from(self.outer_id) < 1 << format.outer_id
            && (if format.ts == 0 { self.linear } else { self.ts_fits(format.ts) })
    }
}

pub(super) fn interval_holds(span: (i32, i32), bits: u32) -> bool {
    let p = i64::from(ts_p(bits));
    bits >= 32 || (i64::from(span.0) + p >= 0 && i64::from(span.1) + p < 1i64 << bits)
}

impl Compressor {
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn state(&self) -> CompressorState {
        CompressorState::of(self.ir.is_active(), self.ir_dyn.is_active() || self.must_extend())
    }

    /// Chooses, writes, and takes note.
    #[inline]
    pub(super) fn write(&mut self, job: &Job<'_>, current: &Current, out: &mut Vec<u8>) -> PacketType {
        let kind = self.choose_and_write(job, current, out);
        let is_strong = is_strong(kind);
        self.confirm.sent(kind, is_strong);
        self.note_arrival(kind, job.now);
        let updating = self.mode != Mode::Reliable || is_strong;
        if updating {
            self.since_update = 0;
            self.remember(current, job.config, job.now);
        } else {
            self.since_update = self.since_update.saturating_add(1);
        }
        kind
    }

    #[inline]
    fn choose_and_write(&mut self, job: &Job<'_>, current: &Current, out: &mut Vec<u8>) -> PacketType {
        let unconfirmed = self.unconfirmed_from.is_some();
        if self.ir.is_active() || (self.ir_dyn.is_active() && (unconfirmed || job.config.only_ir_and_so)) {
            return self.write_ir(job, current, out);
        }
        self.announce_first_stride(job, current);
        if self.ir_dyn.is_active() {
            self.note_change();
            return self.write_ir_dyn(job, current, Stride::Told, out);
        }
        let is_retold = self.resend_changes(current.sn);
        let spans = self.spans(job, current);
        let quiet = !self.must_extend();
        let format = if quiet { self.confirming_format(job, &spans, current) } else { None };
        if format.is_none() && !is_retold {
            self.note_change();
        }
        let allowed = |format: &&Format| {
            !job.config.only_ir_and_so || format.kind == PacketType::Uo0 || self.mode == Mode::Reliable
        };
        if let Some(format) = format.filter(allowed) {
            return self.write_format(job, current, &spans, format, out);
        }
        // Only RTP's IR packets have a Mode field.
        if job.config.only_ir_and_so && !self.mode_change.is_active() {
            self.ir.ensure(1, current.sn);
            return self.write_ir(job, current, out);
        }
        if !self.extension3_holds(&spans) {
            self.ir_dyn.ensure(1, current.sn);
            if unconfirmed {
                return self.write_ir(job, current, out);
            }
            return self.write_ir_dyn(job, current, Stride::Kept, out);
        }
        self.write_extension3(job, current, &spans, out)
    }

    /// Signals the stride on a reused CID. The decompressor may still have that of the flow before, which IR packets
    /// without one do not overwrite.
    #[inline]
    fn announce_first_stride(&mut self, job: &Job<'_>, current: &Current) {
        if self.stride.unannounced && self.profile.has_rtp() {
            self.stride.unannounced = false;
            if self.stride.value == 1 {
                self.stride.pending.start(Self::repeats(job.config), current.sn);
            }
        }
    }

    /// Returns `true` if something is to be sent that only extension 3 carries.
    #[inline]
    pub(super) fn must_extend(&self) -> bool {
        let lists = self.lists.as_deref().is_some_and(super::Lists::is_pending);
        self.ip.iter().any(super::Repeat::is_active)
            || self.rtp.is_active()
            || self.stride.pending.is_active()
            || self.mode_change.is_active()
            || self.timer.is_pending()
            || lists
    }

    /// Returns the shortest format without extension 3, with CRC-7 if it must confirm.
    #[inline]
    fn confirming_format(
        &mut self,
        job: &Job<'_>,
        spans: &Spans,
        current: &Current,
    ) -> Option<&'static Format> {
        let shortest = self.short_format(job, spans, current, false);
        if !self.must_confirm(job, current, shortest) {
            return shortest;
        }
        self.short_format(job, spans, current, true)
    }

    #[inline]
    fn short_format(
        &self,
        job: &Job<'_>,
        spans: &Spans,
        current: &Current,
        must_be_strong: bool,
    ) -> Option<&'static Format> {
        let need = match self.mode {
            Mode::Reliable if self.must_update() => Need::ReliableUpdate,
            Mode::Reliable => Need::Reliable,
            _ => Need::Optimistic,
        };
        // librohc's decompressor refuses bits of an identification that is not compressed.
        let lacks_id = job.config.is_for_librohc() && self.compressed_id(current).is_none();
        formats(self.family(current), need).iter().find(|format| {
            (!must_be_strong || is_strong(format.kind))
                && spans.holds(format, current.marker)
                && !(lacks_id && format.id > 0)
        })
    }

    /// Returns `true` if, in R-mode, the decompressor needs a newer reference (RFC 3095 5.5.1.2).
    fn must_update(&self) -> bool {
        let (Some(oldest), Some(newest)) = (self.window.oldest(), self.window.newest()) else { return true };
        let ahead = self.numbering().distance(oldest.sn, newest.sn);
        let (change, coverage) = (self.coverage.change.is_active(), self.profile.has_udp_lite());
        // Often enough that a lost acknowledgement costs nothing, seldom enough to keep packets small.
        (coverage && change)
            || self.since_update >= 12
            || ahead >= 24 && self.since_update >= 3
            || ahead >= 40
    }

    #[inline]
    fn family(&self, current: &Current) -> Family {
        if !self.profile.has_rtp() {
            return Family::Plain;
        }
        if self.compressed_id(current).is_some() { Family::RtpT } else { Family::Rtp }
    }

    /// The innermost IPv4 header whose identification is compressed, by the flags of the present packet.
    #[inline]
    pub(super) fn compressed_id(&self, current: &Current) -> Option<usize> {
        self.used().rev().find(|&index| self.ipv4[index] && !current.ip[index].rnd)
    }

    /// Compares with every reference.
    #[inline]
    pub(super) fn spans(&self, job: &Job<'_>, current: &Current) -> Spans {
        let numbering = self.numbering();
        let has_rtp = self.profile.has_rtp();
        let (scaled, residue) = if has_rtp { self.scaled(current.ts) } else { (0, 0) };
        let stride = self.stride.value;
        let mut spans = Spans {
            numbering,
            sn: (i32::MAX, i32::MIN),
            ts: (i32::MAX, i32::MIN),
            unscaled: (i32::MAX, i32::MIN),
            linear: true,
            scalable: !self.stride.pending.is_active(),
            id: 0,
            outer_id: 0,
            timer_bits: None,
        };
        let target = self.compressed_id(current);
        let offsets = [current.ip[0].offset(current.sn), current.ip[1].offset(current.sn)];
        for reference in self.window.iter() {
            let sn = numbering.distance(reference.sn, current.sn);
            widen(&mut spans.sn, sn);
            if has_rtp {
                widen(&mut spans.ts, scaled.wrapping_sub(reference.scaled) as i32);
                let step = current.ts.wrapping_sub(reference.ts);
                widen(&mut spans.unscaled, step as i32);
                spans.linear &= step == (sn as u32).wrapping_mul(stride);
                spans.scalable &= residue == reference.residue;
            }
            self.widen_ids(&mut spans, reference, current, offsets, target);
        }
        spans.linear &= !self.stride.pending.is_active();
        if has_rtp {
            spans.timer_bits = self.timer.bits(job, self.window.iter(), scaled);
        }
        spans
    }

    #[inline]
    fn widen_ids(
        &self,
        spans: &mut Spans,
        reference: &Reference,
        current: &Current,
        offsets: [u16; 2],
        target: Option<usize>,
    ) {
        for index in self.used() {
            let changing = &current.ip[index];
            if !self.ipv4[index] || changing.rnd || changing.sid {
                continue;
            }
            let step = offsets[index].wrapping_sub(reference.offsets[index]);
            let span = if target == Some(index) { &mut spans.id } else { &mut spans.outer_id };
            *span = (*span).max(step);
        }
    }

    /// Returns `true` if a type 2 packet with extension 3 is enough.
    fn extension3_holds(&self, spans: &Spans) -> bool {
        spans.sn_fits(if self.profile.has_rtp() { 14 } else { 13 })
            && !(self.profile == Profile::Esp && self.window.len() == 0)
    }

    /// Records that a packet with all dynamic values was sent, which carries everything pending.
    pub(super) fn all_dynamic_sent(&mut self, sn: u32) {
        let mode = self.mode;
        self.ir_dyn.sent(mode, sn);
        for repeat in &mut self.ip {
            repeat.sent(mode, sn);
        }
        if self.profile.has_rtp() {
            self.rtp.sent(mode, sn);
            self.stride.pending.sent(mode, sn);
            self.timer.sent(mode, sn);
        }
        if let Some(lists) = self.lists.as_deref_mut() {
            lists.iter_mut().for_each(|list| list.sent(mode, true, sn));
        }
    }
}

#[inline]
fn widen(span: &mut (i32, i32), value: i32) {
    *span = (span.0.min(value), span.1.max(value));
}
