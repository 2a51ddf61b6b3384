//! Quick-Start for a rate-paced sender (RFC 5634, sections 2.3 and 3.2.3 to 3.2.5).

use bentpipe_units::{Span, Time};

/// Phase of a sender with an approved rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// No approved rate in use.
    Off,
    /// Quick-Start packets are sent at it: at most for a round trip.
    Mode { until: Time },
    /// Tentative use, until a report covers all Quick-Start packets. At most two round trips.
    Validation { until: Time, last: u64 },
}

/// An approved rate in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QuickStart {
    pub(super) phase: Phase,
    /// The sequence number of the first Quick-Start packet.
    first: u64,
    /// The allowed rate before it, in bytes a second.
    before: f64,
}

impl QuickStart {
    pub(super) const OFF: QuickStart = QuickStart { phase: Phase::Off, first: 0, before: 0.0 };

    /// Returns the rate is raised, from the packet with number `first` on.
    pub(super) fn begin(now: Time, rtt: Span, first: u64, before: f64) -> QuickStart {
        QuickStart { phase: Phase::Mode { until: now + rtt }, first, before }
    }

    /// Returns `true` if the standard rate rules rest.
    pub(super) fn is_on(&self) -> bool {
        self.phase != Phase::Off
    }

    /// Returns the time at which the phase changes without a report.
    pub(super) fn deadline(&self) -> Time {
        match self.phase {
            Phase::Off => Time::NEVER,
            Phase::Mode { until } | Phase::Validation { until, .. } => until,
        }
    }

    /// Handles a report without loss up to packet `sequence`; `next` has not been sent.
    pub(super) fn acknowledge(&mut self, now: Time, rtt: Span, sequence: u64, next: u64) {
        match self.phase {
            Phase::Mode { .. } if sequence >= self.first => self.validate(now, rtt, next),
            Phase::Validation { last, .. } if sequence >= last => self.phase = Phase::Off,
            _ => {}
        }
        // A single Quick-Start packet is validated by the report that ends the mode.
        if matches!(self.phase, Phase::Validation { last, .. } if sequence >= last) {
            self.phase = Phase::Off;
        }
    }

    /// Ends the phase. The mode becomes validation; a validation without a report yields the rate to return
    /// to (section 3.2.4).
    pub(super) fn expire(&mut self, now: Time, rtt: Span, next: u64, rate: f64) -> Option<f64> {
        match self.phase {
            Phase::Mode { until } if until <= now => {
                self.validate(now, rtt, next);
                None
            }
            Phase::Validation { until, .. } if until <= now => {
                self.phase = Phase::Off;
                Some(self.before.min(rate / 2.0))
            }
            _ => None,
        }
    }

    fn validate(&mut self, now: Time, rtt: Span, next: u64) {
        self.phase = Phase::Validation { until: now + rtt * 2, last: next.saturating_sub(1).max(self.first) };
    }
}
