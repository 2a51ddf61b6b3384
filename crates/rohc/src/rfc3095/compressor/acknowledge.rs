//! Feedback, and what it makes known (RFC 3095 5.4.1.1, 5.5.1, 5.6 and 5.7.6).

use super::{Compressor, WINDOW};
use crate::config::CompressorConfig;
use crate::feedback::{Acknowledgement, Feedback};
use crate::job::Heard;
use crate::profile::Mode;

impl Compressor {
    /// `data` is CID and feedback, `field` the feedback.
    pub(crate) fn feedback(&mut self, data: &[u8], field: &[u8], config: &CompressorConfig) -> Heard {
        let Some(feedback) = Feedback::parse(data, field).filter(|_| self.started) else {
            return Heard::default();
        };
        self.forget_template();
        let sn = feedback.sn.map(|(lsb, bits)| self.acknowledged_sn(lsb, bits));
        let repeats = Self::repeats(config);
        let next = self.last.sn.wrapping_add(1) & self.numbering().mask();
        match feedback.kind {
            Acknowledgement::Ack => {
                if let Some(sn) = sn {
                    self.acknowledge(sn, &feedback);
                }
            }
            Acknowledgement::Nack => self.ir_dyn.ensure(repeats, next),
            Acknowledgement::StaticNack => {
                self.ir.ensure(repeats, next);
                if self.mode == Mode::Reliable {
                    // A decompressor without a context begins in U-mode: it must hear the mode again.
                    self.mode_change.start(1, next);
                    self.mode_since = None;
                }
                if let Some(lists) = self.lists.as_deref_mut() {
                    lists.iter_mut().for_each(|list| list.restart(repeats, next));
                }
            }
        }
        self.follow_mode(&feedback, next, config);
        if let Some(jitter) = feedback.jitter.filter(|_| feedback.protected) {
            self.timer.report(jitter);
        }
        if let Some(loss) = feedback.loss.filter(|_| feedback.protected) {
            self.longest_loss = self.longest_loss.max(loss.min(WINDOW as u8 - 1));
        }
        Heard {
            clock_ms: feedback.clock_ms.filter(|_| feedback.protected),
            rejected: feedback.protected && (feedback.reject || feedback.context_memory),
        }
    }

    /// The most recent sequence number with these low bits (RFC 3095 5.7.6.1).
    fn acknowledged_sn(&self, lsb: u32, bits: u32) -> u32 {
        let mask = self.numbering().mask() & if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
        self.last.sn.wrapping_sub(self.last.sn.wrapping_sub(lsb) & mask)
    }

    fn acknowledge(&mut self, sn: u32, feedback: &Feedback) {
        let numbering = self.numbering();
        let distance = |since: u32| numbering.distance(since, sn);
        let is_static_lost = self.ir.acknowledged(distance) && self.unconfirmed_from.is_some();
        let [outer, inner] = &mut self.ip;
        let mut is_lost = self.timer.acknowledged(distance);
        for repeat in [&mut self.ir_dyn, &mut self.rtp, &mut self.stride.pending, outer, inner] {
            is_lost |= repeat.acknowledged(distance);
        }
        self.coverage.change.acknowledged(distance);
        self.unconfirmed_from = self.unconfirmed_from.filter(|&from| distance(from) < 0 || is_static_lost);
        let announced = self.mode_since.is_some_and(|since| distance(since) >= 0);
        if announced && feedback.protected && feedback.mode == Some(self.mode) {
            self.mode_change.stop();
        }
        if let Some(lists) = self.lists.as_deref_mut() {
            for list in lists.iter_mut() {
                is_lost |= list.acknowledged(self.mode, distance);
            }
        }
        self.tell_again(is_static_lost, is_lost);
        // The decompressor's reference is this packet or a later one.
        while self.window.len() > 1 && self.window.oldest().is_some_and(|oldest| distance(oldest.sn) > 0) {
            self.window.pop_oldest();
        }
    }

    /// The acknowledgement was of a packet behind all those that carried a change, and none of those was acknowledged: the
    /// decompressor may have missed it. RFC 3095 5.3.1.1.1 would leave it so, until a CRC fails.
    fn tell_again(&mut self, is_static_lost: bool, is_lost: bool) {
        let next = self.last.sn.wrapping_add(1) & self.numbering().mask();
        if is_static_lost {
            self.ir.ensure(1, next);
        } else if is_lost && self.mode == Mode::Optimistic {
            self.ir_dyn.ensure(1, next);
        }
    }

    /// Mode transitions are the decompressor's decision (RFC 3095 5.6), and must be protected (RFC 4815 3.2).
    fn follow_mode(&mut self, feedback: &Feedback, next: u32, config: &CompressorConfig) {
        let Some(wanted) = feedback.mode.filter(|_| feedback.protected) else { return };
        if wanted == self.mode || self.mode_change.is_active() {
            return;
        }
        let handshake = !(self.mode == Mode::Unidirectional && wanted == Mode::Optimistic);
        self.mode = wanted;
        self.confirm.restart(config);
        if handshake {
            self.mode_change.start(1, next);
            self.mode_since = None;
        }
        if let Some(lists) = self.lists.as_deref_mut() {
            lists.iter_mut().for_each(super::Encoder::forget_reference);
        }
    }
}
