//! TCP Hybla: the rate of New Reno over a reference round trip RTT0. Reference: Caini & Firrincieli, "TCP
//! Hybla: a TCP enhancement for heterogeneous networks", IJSCN 22(5), 2004.
//!
//! Its companions are switches: Hoe's estimate of the first ssthresh ([`crate::Exit::Hoe`]), packet spacing
//! ([`crate::Pacing::Window`]), and an initial window and ssthresh multiplied by rho. SACK is the
//! transport's. rho comes from the lowest RTT, so that queueing does not raise it; Linux's variant, the
//! lowest smoothed RTT, is a switch.

use bentpipe_units::Span;

use crate::classic::{half_flight, params};
use crate::rho::Rho;
pub use crate::rho::{RTT0, RhoFrom};
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

params! {
    /// Parameters of Hybla.
    slow_start: Growth::Hybla;
    /// The reference round trip RTT0, at least 1 ms.
    rtt0: Span = RTT0,
    /// RTT that rho is computed from.
    rho_from: RhoFrom = RhoFrom::MinRtt,
    /// Multiply the initial window and a finite initial ssthresh by rho, as the paper does. Needs the handshake's RTT.
    scale_initial: bool = false,
    /// Largest exponent of slow start's `2^rho - 1` (Linux: 16). The window's maximum bounds the result in any case.
    #[schemars(range(min = 1, max = 1000))]
    max_exponent: f64 = 16.0,
}

impl Params {
    /// Returns a Hybla controller.
    pub fn build(&self, connection: &Connection) -> Classic<Hybla> {
        let rho = Rho::new(self.rtt0, self.rho_from, self.max_exponent);
        let law = Hybla { rho: rho.clone(), scale_initial: self.scale_initial };
        Classic::new(connection, self.frame(rho), law)
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
            window.set(window.cwnd() * self.rho.value());
            window.set_ssthresh(window.ssthresh() * self.rho.value());
        }
    }

    fn measure(&mut self, ack: &Ack, _window: &mut Window) {
        self.rho.update(ack);
    }

    /// Grows the window: `W += rho^2 / W` for each acknowledged segment.
    fn avoid(&mut self, _ack: &Ack, credit: f64, window: &mut Window) {
        let rho = self.rho.value();
        window.grow(rho * rho * credit * window.smss() / window.cwnd());
    }

    /// Returns half of the outstanding data, as New Reno does.
    fn ssthresh(&mut self, loss: &Loss, _window: &Window) -> f64 {
        half_flight(loss)
    }
}
