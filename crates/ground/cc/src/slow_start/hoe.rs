//! First ssthresh estimated from the path (Hoe). Reference: "Improving the Start-up Behavior of a Congestion
//! Control Scheme for TCP", SIGCOMM 1996.
//!
//! Three ACKs of one round trip answer segments that left back to back, so their spacing is that of the bottleneck:
//! rate = bytes acknowledged after the first of them / time between the first and the third, ssthresh = rate * lowest
//! RTT. A TDMA slot that releases several ACKs at once, or a return link slower than the forward one, falsifies the
//! spacing; spacings that no bottleneck gives are dropped, and the window's maximum bounds the rest.

use bentpipe_units::{Span, Time};

use crate::round::Rounds;
use crate::{Ack, Window};

/// ACKs that make an estimate.
const ACKS: u32 = 3;
/// A group of ACKs within this came in one burst and says nothing.
const BURST: Span = Span::from_micros(10);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hoe {
    finished: bool,
    rounds: Rounds,
    first: Time,
    acks: u32,
    bytes: u64,
}

impl Hoe {
    pub(super) fn pending(&self) -> bool {
        !self.finished
    }

    /// Stops estimating: after a loss, ssthresh is set by the law.
    pub(super) fn give_up(&mut self) {
        self.finished = true;
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if self.finished || ack.acked == 0 {
            return;
        }
        if self.rounds.on_ack(ack) || self.acks == 0 {
            return self.begin(ack.now);
        }
        self.acks += 1;
        self.bytes = self.bytes.saturating_add(ack.acked);
        if self.acks >= ACKS {
            self.estimate(ack, window);
        }
    }

    fn begin(&mut self, now: Time) {
        (self.first, self.acks, self.bytes) = (now, 1, 0);
    }

    fn estimate(&mut self, ack: &Ack, window: &mut Window) {
        let spacing = ack.now.since(self.first);
        let Some(min_rtt) = ack.min_rtt.filter(|_| spacing >= BURST) else { return self.begin(ack.now) };
        let bytes_per_sec = self.bytes as f64 / spacing.as_secs_f64();
        window.set_ssthresh(bytes_per_sec * min_rtt.as_secs_f64());
        self.finished = true;
    }
}
