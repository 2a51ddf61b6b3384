//! New Reno (RFC 5681): one segment per round trip, half the window after a loss.
//!
//! Its New Reno part (RFC 6582) is recovery, hence the transport's.

use crate::classic::{half_flight, params};
use crate::rho::Rho;
use crate::{Ack, Classic, Connection, Growth, Loss, Window, WindowLaw};

params! {
    /// Parameters of New Reno.
    slow_start: Growth::Standard;
}

impl Params {
    /// Returns a New Reno controller.
    pub fn build(&self, connection: &Connection) -> Classic<NewReno> {
        Classic::new(connection, self.frame(Rho::default()), NewReno::default())
    }
}

/// RFC 5681's congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    /// Acknowledged bytes that have not yet made a segment.
    counted: f64,
}

impl NewReno {
    /// Counts acknowledged bytes and grants a segment per window of them. RFC 5681 3.1, RFC 3465 2.1. Exactly
    /// one segment per round trip, where eq. 3 gives a little less.
    pub(crate) fn count(&mut self, credit: f64, window: &mut Window) {
        self.counted += credit;
        if self.counted >= window.cwnd() {
            self.counted = (self.counted - window.cwnd()).min(window.cwnd());
            window.grow(window.smss());
        }
    }
}

impl WindowLaw for NewReno {
    const NAME: &'static str = "newreno";

    fn avoid(&mut self, _ack: &Ack, credit: f64, window: &mut Window) {
        self.count(credit, window);
    }

    fn ssthresh(&mut self, loss: &Loss, _window: &Window) -> f64 {
        self.counted = 0.0;
        half_flight(loss)
    }
}
