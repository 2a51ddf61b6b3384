//! Records of calls after the run: the quality at one end.

use bentpipe_site::{CallEnd, CallQuality, CallRecord, KeepsCalls};
use bentpipe_units::{Span, Time};

use super::agent::Agent;
use super::receiver::Receiver;

impl KeepsCalls for Agent {
    fn calls(&self, now: Time) -> Vec<CallRecord> {
        let plan = self.plan();
        // Copies that would start at the end or later are none.
        if plan.start >= now {
            return Vec::new();
        }
        let has_ended = plan.stop <= now;
        let record = |(call, receiver): (usize, &Receiver)| CallRecord {
            protocol: "rtp",
            codec: Some(plan.settings.config.codec.name().to_owned()),
            placed: plan.start,
            post_dial: None,
            // Voice is there from the start.
            set_up: Some(Span::ZERO),
            ended: has_ended.then_some(plan.stop),
            end: if has_ended { CallEnd::Ended } else { CallEnd::Up },
            quality: Some(self.quality(call, receiver)),
            detail: None,
        };
        self.receivers().enumerate().map(record).collect()
    }
}

impl Agent {
    /// Returns the quality of a call since the end of the warm-up.
    fn quality(&self, call: usize, receiver: &Receiver) -> CallQuality {
        let figures = receiver.measured();
        let mouth_to_ear = figures.delays.mouth_to_ear();
        let rating = self.plan().settings.rating.filter(|_| mouth_to_ear.is_some());
        let r = Some(self.r(call, &figures.delays, &figures.losses)).filter(|r| !r.is_nan());
        CallQuality {
            packets: figures.losses.expected(),
            loss: (figures.losses.expected() > 0).then(|| figures.losses.ratio()),
            mouth_to_ear,
            r,
            mos: rating.zip(r).map(|(rating, r)| rating.mos(r)),
        }
    }
}
