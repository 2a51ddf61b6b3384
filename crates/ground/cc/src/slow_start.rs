//! Slow start: growth of the window below ssthresh, and its end before a loss. Independent of the window law.
//!
//! Growth: standard (RFC 5681 3.1), limited (RFC 3742), Hybla's. Exit: at a loss, HyStart in Linux's form, Hoe's
//! estimate of the path.

mod hoe;
mod hystart;

use bentpipe_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rho::Rho;
use crate::{Ack, Window};
use hoe::Hoe;
use hystart::Hystart;

/// Growth of the window below ssthresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Segment per acknowledged segment (RFC 5681 3.1): doubles per round trip.
    #[default]
    Standard,
    /// Limited slow start (RFC 3742). Standard growth up to 100 segments, then at most 50 segments per round
    /// trip.
    Limited,
    /// Hybla's: `2^rho - 1` segments for each acknowledged.
    Hybla,
}

/// Condition that ends slow start before a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// No condition: the window overshoots until a loss or the initial ssthresh (RFC 5681).
    #[default]
    Loss,
    /// Hybrid slow start: a long ACK train or a rising delay. Ha & Rhee 2008, with Linux's constants.
    Hystart,
    /// Estimated bandwidth-delay product of the path as the first ssthresh (Hoe 1996). Estimated from the
    /// spacing of three ACKs; until then, growth is standard.
    Hoe,
}

/// RFC 3742's max_ssthresh in segments: the value it recommends.
const MAX_SSTHRESH_SEGMENTS: f64 = 100.0;

#[derive(Clone, Debug)]
pub(crate) struct SlowStart {
    growth: Growth,
    exit: Leave,
    rho: Rho,
}

#[derive(Clone, Debug)]
enum Leave {
    Loss,
    Hystart(Hystart),
    Hoe(Hoe),
}

impl SlowStart {
    /// Creates a slow start; only Hybla's growth uses `rho`.
    pub(crate) fn new(growth: Growth, exit: Exit, rho: Rho) -> SlowStart {
        let exit = match exit {
            Exit::Loss => Leave::Loss,
            Exit::Hystart => Leave::Hystart(Hystart::default()),
            Exit::Hoe => Leave::Hoe(Hoe::default()),
        };
        SlowStart { growth, exit, rho }
    }

    /// Sees every ACK outside recovery before the window grows; may end slow start.
    pub(crate) fn measure(&mut self, ack: &Ack, window: &mut Window) {
        match &mut self.exit {
            Leave::Loss => {}
            Leave::Hystart(hystart) => hystart.on_ack(ack, window),
            Leave::Hoe(hoe) => hoe.on_ack(ack, window),
        }
    }

    /// Grows the window for `credit` acknowledged bytes, up to ssthresh.
    pub(crate) fn grow(&mut self, ack: &Ack, credit: f64, window: &mut Window) {
        let step = match self.growth {
            Growth::Standard => 1.0,
            Growth::Limited => limited_step(window.segments()),
            Growth::Hybla if self.awaits_estimate() => 1.0,
            Growth::Hybla => {
                self.rho.update(ack);
                self.rho.slow_start_step()
            }
        };
        window.grow_to_ssthresh(credit * step);
    }

    /// Limits growth to RFC 3742's after Quick-Start (RFC 4782, section 4.4).
    pub(crate) fn limit(&mut self) {
        self.growth = Growth::Limited;
    }

    fn awaits_estimate(&self) -> bool {
        matches!(&self.exit, Leave::Hoe(hoe) if hoe.pending())
    }

    /// Discards all measurements after a loss or a timeout. They do not apply to the next slow start.
    pub(crate) fn on_congestion(&mut self, now: Time) {
        match &mut self.exit {
            Leave::Loss => {}
            Leave::Hystart(hystart) => hystart.pause(now),
            Leave::Hoe(hoe) => hoe.give_up(),
        }
    }
}

/// Returns the growth per acknowledged segment (RFC 3742 2). It is `1 / K` with `K = floor(cwnd /
/// (max_ssthresh / 2))`.
fn limited_step(cwnd_segments: f64) -> f64 {
    if cwnd_segments <= MAX_SSTHRESH_SEGMENTS {
        return 1.0;
    }
    1.0 / (cwnd_segments / (0.5 * MAX_SSTHRESH_SEGMENTS)).floor()
}
