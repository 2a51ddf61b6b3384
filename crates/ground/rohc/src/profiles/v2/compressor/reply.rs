//! Feedback (RFC 5225 5.1.3 and 6.9).

use super::{Compressor, Group, Set};
use crate::framework::config::CompressorConfig;
use crate::framework::context::{ArrivedFeedback, FeedbackOutcome};
use crate::framework::feedback::Acknowledgement;
use crate::profiles::v2::feedback;

impl Compressor {
    /// Processes feedback.
    pub(in crate::profiles::v2) fn feedback(&mut self, arrived: &ArrivedFeedback<'_>) -> FeedbackOutcome {
        let Some(feedback) = feedback::parse(arrived.data, arrived.field) else {
            return FeedbackOutcome::default();
        };
        let is_of_this_flow = match feedback.number {
            Some((number, bits)) => !arrived.earlier.may_have_sent(u32::from(number), bits),
            None => arrived.earlier.is_over(),
        };
        if is_of_this_flow {
            self.is_bidirectional = true;
            self.slow_start_gap = 0;
            feedback
                .number
                .into_iter()
                .for_each(|(number, bits)| self.acknowledged(number, bits, arrived.config));
        }
        let repeats = Self::width(arrived.config);
        let is_static = feedback.kind == Acknowledgement::StaticNack || feedback.number.is_none();
        match feedback.kind {
            Acknowledgement::Ack => {}
            _ if is_static => self.repair(Set::ALL, Group::Static, repeats),
            _ => self.repair(Set::ALL.without(Group::Static), Group::Dynamic, repeats),
        }
        FeedbackOutcome { clock_ms: feedback.clock_ms, rejected: feedback.reject || feedback.context_memory }
    }

    /// Schedules a repair, unless one is due.
    fn repair(&mut self, groups: Set, group: Group, repeats: u8) {
        self.steady.forget();
        let due = self.groups.due();
        if due.has(group) || due.has(Group::Static) {
            return;
        }
        self.csrcs.iter_mut().for_each(|csrcs| csrcs.reset());
        self.groups.changed(groups, self.control.msn().wrapping_add(1), repeats);
    }

    /// Notes that the packet whose number ends in `number` arrived.
    fn acknowledged(&mut self, number: u16, bits: u32, config: &CompressorConfig) {
        let back = self.control.msn().wrapping_sub(number) & (u16::MAX >> (16 - bits));
        if u32::from(back) >= self.packets {
            return;
        }
        let is_late = back > u16::from(config.confirm);
        if is_late && !self.is_feedback_late && config.confirms() {
            // A CRC-7 comes by itself before a NACK could bring one.
            self.confirm.expedite();
        }
        self.is_feedback_late = is_late;
        let msn = self.control.msn().wrapping_sub(back);
        // The references stay: a packet that repeats a number is read against the one before.
        self.groups.acknowledged(msn);
    }
}
