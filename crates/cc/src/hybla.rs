//! TCP Hybla (Caini & Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", IJSCN 22(5), 2004): a
//! connection with a long round trip sends at the rate that New Reno would have over a reference round trip RTT0.
//!
//! Its companions are switches: Hoe's estimate of the first ssthresh ([`crate::Exit::Hoe`]), packet spacing
//! ([`crate::Pacing::Window`]), and an initial window and ssthresh multiplied by rho. SACK is the transport's. rho
//! comes from the lowest RTT, so that queueing does not raise it; Linux's variant, the lowest smoothed RTT, is a switch.

use bentpipe_units::Span;

use crate::classic::params;
use crate::new_reno::half_flight;
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

/// The paper's reference round trip.
pub const RTT0: Span = Span::from_millis(25);

/// Where rho comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum RhoFrom {
    /// The lowest RTT.
    #[default]
    MinRtt,
    /// The lowest smoothed RTT (Linux).
    MinSrtt,
}

params! {
    /// Parameters of Hybla.
    slow_start: Growth::Hybla;
    /// The reference round trip RTT0, at least 1 ms.
    rtt0: Span = RTT0,
    /// Which RTT rho is made from.
    rho_from: RhoFrom = RhoFrom::MinRtt,
    /// Multiply the initial window and a finite initial ssthresh by rho, as the paper does. Needs the handshake's RTT.
    scale_initial: bool = false,
    /// Largest exponent of slow start's `2^rho - 1` (Linux: 16). The window's maximum bounds the result in any case.
    max_exponent: f64 = 16.0,
}

impl Params {
    /// A Hybla controller.
    pub fn build(&self, connection: &Connection) -> Classic<Hybla> {
        let rho = Rho::new(self.rtt0, self.rho_from, self.max_exponent);
        let law = Hybla { rho: rho.clone(), scale_initial: self.scale_initial };
        Classic::new(connection, self.frame(rho), law)
    }
}

/// rho and what is made of it, computed when the lowest RTT changes and never per ACK.
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
    fn new(rtt0: Span, from: RhoFrom, max_exponent: f64) -> Rho {
        let rtt0 = rtt0.max(Span::from_millis(1));
        let max_exponent = if max_exponent >= 1.0 { max_exponent.min(1000.0) } else { 1.0 };
        Rho { rtt0, from, max_exponent, lowest: Span::MAX, rho: 1.0, slow_start_step: 1.0 }
    }

    /// Takes the RTT of `ack` if it is the lowest.
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

    /// `rho = RTT / RTT0`, never below 1.
    fn set(&mut self, rtt: Span) {
        self.lowest = rtt;
        self.rho = (rtt.as_secs_f64() / self.rtt0.as_secs_f64()).max(1.0);
        self.slow_start_step = libm::exp2(self.rho.min(self.max_exponent)) - 1.0;
    }

    /// Segments for each acknowledged in slow start: `2^rho - 1`.
    #[inline]
    pub(crate) fn slow_start_step(&self) -> f64 {
        self.slow_start_step
    }
}

/// Hybla's congestion avoidance.
#[derive(Clone, Debug)]
pub struct Hybla {
    rho: Rho,
    scale_initial: bool,
}

impl WindowLaw for Hybla {
    const NAME: &'static str = "hybla";

    fn on_established(&mut self, rtt: Span, window: &mut Window) {
        self.rho.set(rtt);
        if self.scale_initial {
            window.set(window.cwnd() * self.rho.rho);
            window.set_ssthresh(window.ssthresh() * self.rho.rho);
        }
    }

    fn measure(&mut self, ack: &Ack, _window: &mut Window) {
        self.rho.update(ack);
    }

    /// `W += rho^2 / W` for each acknowledged segment.
    fn avoid(&mut self, _ack: &Ack, credit: f64, window: &mut Window) {
        let rho = self.rho.rho;
        window.grow(rho * rho * credit * window.smss() / window.cwnd());
    }

    /// As New Reno.
    fn ssthresh(&mut self, loss: &Loss, _window: &Window) -> f64 {
        half_flight(loss)
    }
}
