//! Seconds of a packet on its way, apart by delays and transmissions.

use bentpipe_scenario::Way;

use super::medium::Media;
use super::states::States;

/// Seconds of a packet on its way without queueing.
#[derive(Clone, Debug, Default)]
pub(super) struct Takes {
    /// Delays of each link.
    pub(super) delays: Vec<f64>,
    /// Transmissions on all of them.
    pub(super) sending: f64,
}

impl Takes {
    /// Creates them for links that take `whole` seconds in a state.
    pub(super) fn new(
        hops: &[(usize, Way, u64)],
        whole: f64,
        (media, states, state): (&Media<'_>, &States, usize),
    ) -> Takes {
        let delay = |hop: &(usize, Way, u64)| states.delay(state, media, (hop.0, hop.1)).as_secs_f64();
        let delays: Vec<f64> = hops.iter().map(delay).collect();
        let sending = (whole - delays.iter().sum::<f64>()).max(0.0);
        Takes { delays, sending }
    }

    /// Returns the delays in front of each link.
    pub(super) fn before(&self) -> Vec<f64> {
        let sum = |sum: &mut f64, delay: &f64| {
            let before = *sum;
            *sum += delay;
            Some(before)
        };
        self.delays.iter().scan(0.0, sum).collect()
    }
}
