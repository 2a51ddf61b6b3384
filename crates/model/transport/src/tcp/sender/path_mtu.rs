//! Path MTU discovery (RFC 1191, RFC 8201).

use bentpipe_units::Time;

use super::{Phase, Sender};

impl Sender {
    /// Limits segments to `smss` bytes of data, and retransmits what is not acknowledged.
    ///
    /// Nothing was lost to congestion, so the congestion window stays (RFC 1191, section 6.5).
    pub(in crate::tcp) fn on_packet_too_big(&mut self, now: Time, smss: u32) {
        if smss >= self.agreed.smss {
            return;
        }
        self.agreed.smss = smss;
        self.stop_doubting();
        self.phase = Phase::Loss;
        self.recover = self.board.high();
        self.board.lose_all();
        (self.dup_acks, self.limited, self.inflation, self.prr) = (0, 0, 0, None);
        (self.forced, self.timed, self.pace_at) = (true, None, now);
    }
}
