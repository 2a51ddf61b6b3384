//! Ratio rho of the round trip to the reference round trip (TCP Hybla). Other laws may use its slow start
//! too.

use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Ack;

/// The paper's reference round trip.
pub const RTT0: Span = Span::from_millis(25);

/// Source of rho.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RhoFrom {
    /// The lowest RTT.
    #[default]
    MinRtt,
    /// The lowest smoothed RTT (Linux).
    MinSrtt,
}

/// Ratio rho and values derived from it, computed only when the lowest RTT changes.
#[derive(Clone, Debug)]
pub(crate) struct Rho {
    rtt0: Span,
    from: RhoFrom,
    max_exponent: f64,
    lowest: Span,
    rho: f64,
    slow_start_step: f64,
}

impl Default for Rho {
    fn default() -> Rho {
        Rho::new(RTT0, RhoFrom::MinRtt, 16.0)
    }
}

impl Rho {
    pub(crate) fn new(rtt0: Span, from: RhoFrom, max_exponent: f64) -> Rho {
        let rtt0 = rtt0.max(Span::from_millis(1));
        let max_exponent = if max_exponent >= 1.0 { max_exponent.min(1000.0) } else { 1.0 };
        Rho { rtt0, from, max_exponent, lowest: Span::MAX, rho: 1.0, slow_start_step: 1.0 }
    }

    /// Updates the lowest RTT with that of `ack`.
    #[inline]
    pub(crate) fn update(&mut self, ack: &Ack) {
        let rtt = match self.from {
            RhoFrom::MinRtt => ack.min_rtt,
            RhoFrom::MinSrtt => ack.srtt,
        };
        if let Some(rtt) = rtt.filter(|&rtt| rtt < self.lowest) {
            self.set(rtt);
        }
    }

    /// Sets `rho = RTT / RTT0`, never below 1.
    pub(crate) fn set(&mut self, rtt: Span) {
        self.lowest = rtt;
        self.rho = (rtt.as_secs_f64() / self.rtt0.as_secs_f64()).max(1.0);
        self.slow_start_step = libm::exp2(self.rho.min(self.max_exponent)) - 1.0;
    }

    /// Returns rho, at least 1.
    #[inline]
    pub(crate) fn value(&self) -> f64 {
        self.rho
    }

    /// Segments for each acknowledged in slow start: `2^rho - 1`.
    #[inline]
    pub(crate) fn slow_start_step(&self) -> f64 {
        self.slow_start_step
    }
}
