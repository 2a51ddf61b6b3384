//! Feedback, and what it makes known (RFC 3095 5.4.1.1, 5.5.1, 5.6 and 5.7.6).

use super::{Compressor, IP_FIELDS, WINDOW};
use crate::framework::context::{ArrivedFeedback, FeedbackOutcome};
use crate::framework::earlier::{Earlier, SentNumbers};
use crate::framework::feedback::{Acknowledgement, Feedback};
use crate::framework::profile::Mode;

impl Compressor {
    /// Processes feedback.
    pub(crate) fn feedback(&mut self, arrived: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        let config = arrived.config;
        let Some(feedback) = Feedback::parse(arrived.data, arrived.field).filter(|_| self.started) else {
            return FeedbackOutcome::default();
        };
        self.forget_template();
        let is_of_this_flow = self.is_of_this_flow(&feedback, arrived.earlier);
        let sn = feedback.sn.map(|(lsb, bits)| self.acknowledged_sn(lsb, bits));
        if let Some(sn) = sn.filter(|_| is_of_this_flow) {
            self.confirm.note_feedback(self.numbering().distance(sn, self.last.sn), config);
        }
        let repeats = Self::repeats(config);
        let next = self.last.sn.wrapping_add(1) & self.numbering().mask();
        match feedback.kind {
            Acknowledgement::Ack => {
                if let Some(sn) = sn.filter(|_| is_of_this_flow) {
                    self.acknowledge(sn, &feedback);
                }
            }
            Acknowledgement::Nack => self.ir_dyn.ensure(repeats, next),
            Acknowledgement::StaticNack => {
                self.ir.ensure(repeats, next);
                if self.mode == Mode::Reliable {
                    // A decompressor without a context begins in U-mode: it needs the mode again.
                    self.mode_change.start(1, next);
                    self.mode_since = None;
                }
                if let Some(lists) = self.lists.as_deref_mut() {
                    lists.iter_mut().for_each(|list| list.restart(repeats, next));
                }
            }
        }
        if is_of_this_flow {
            self.follow_mode(&feedback, next);
        }
        if let Some(jitter) = feedback.jitter.filter(|_| feedback.protected) {
            self.timer.report(jitter);
        }
        if let Some(loss) = feedback.loss.filter(|_| feedback.protected) {
            self.longest_loss = self.longest_loss.max(loss.min(WINDOW as u8 - 1));
        }
        FeedbackOutcome {
            clock_ms: feedback.clock_ms.filter(|_| feedback.protected),
            rejected: feedback.protected && (feedback.reject || feedback.context_memory),
        }
    }

    /// Returns `true` if feedback is certainly not of a flow that had the CID before. Without a number it confirms
    /// nothing, and its mode is that of all contexts.
    fn is_of_this_flow(&self, feedback: &Feedback, earlier: Earlier<'_>) -> bool {
        let Some((lsb, bits)) = feedback.sn.filter(|_| !earlier.is_over()) else { return true };
        let sn = self.acknowledged_sn(lsb, bits);
        self.numbering().distance(self.first_sn, sn) >= 0 && !earlier.may_have_sent(lsb, bits)
    }

    /// Returns the sequence numbers of the flow's packets.
    pub(crate) fn sent_numbers(&self) -> SentNumbers {
        if !self.started {
            return SentNumbers::default();
        }
        let count = self.numbering().distance(self.first_sn, self.last.sn).saturating_add(1);
        // Numbers that seem to run backwards have gone half the way round.
        SentNumbers::new(self.last.sn, u32::try_from(count).unwrap_or(u32::MAX))
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
        self.resend_lost(is_static_lost, is_lost);
        // The decompressor's reference is this packet or a later one. If it was dropped from the window, the one before it
        // stands for it.
        while self.window.iter().nth(1).is_some_and(|next| distance(next.sn) >= 0) {
            self.window.pop_oldest();
        }
    }

    /// Resends changes that the decompressor may have missed, as a later packet was acknowledged. RFC 3095 5.3.1.1.1
    /// would leave it so, until a CRC fails.
    fn resend_lost(&mut self, is_static_lost: bool, is_lost: bool) {
        let next = self.last.sn.wrapping_add(1) & self.numbering().mask();
        if is_static_lost {
            self.ir.ensure(1, next);
        } else if is_lost && self.mode != Mode::Unidirectional {
            self.ir_dyn.ensure(1, next);
        }
    }

    /// Follows a mode transition, which the decompressor decides (RFC 3095 5.6). It must be protected (RFC 4815 3.2).
    fn follow_mode(&mut self, feedback: &Feedback, next: u32) {
        let Some(wanted) = feedback.mode.filter(|_| feedback.protected) else { return };
        if wanted == self.mode || self.mode_change.is_active() {
            return;
        }
        let handshake = !(self.mode == Mode::Unidirectional && wanted == Mode::Optimistic);
        self.mode = wanted;
        self.confirm.restart();
        if wanted == Mode::Reliable {
            self.resume_unheard(next);
        }
        if handshake {
            self.mode_change.start(1, next);
            self.mode_since = None;
        }
        if let Some(lists) = self.lists.as_deref_mut() {
            lists.iter_mut().for_each(super::Encoder::forget_reference);
        }
    }

    /// Resends in R-mode what was sent before it and not acknowledged yet.
    ///
    /// What only IR-DYN says (how the identification behaves) waits for [`Self::resend_lost`]: it shows in every packet.
    fn resume_unheard(&mut self, next: u32) {
        for repeat in [&mut self.ir, &mut self.rtp, &mut self.stride.pending] {
            repeat.resume(next);
        }
        self.coverage.change.resume(next);
        self.timer.resume(next);
        for (repeat, fields) in self.ip.iter_mut().zip(&mut self.ip_fields) {
            if repeat.resume(next) {
                // Earlier changes may be among what is not acknowledged.
                *fields = IP_FIELDS;
            }
        }
        if let Some(lists) = self.lists.as_deref_mut() {
            lists.iter_mut().for_each(|list| list.resume(next));
        }
    }
}
