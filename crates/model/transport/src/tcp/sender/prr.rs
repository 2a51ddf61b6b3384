//! Proportional rate reduction (RFC 6937) with its slow start reduction bound, in bytes.

/// The state of one fast recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// `RecoverFS`.
    flight: u64,
    ssthresh: u64,
    delivered: u64,
    out: u64,
    room: u64,
}

impl Prr {
    /// Starts a recovery with `flight` outstanding that is to end at `ssthresh`.
    pub(super) fn new(flight: u64, ssthresh: u64) -> Prr {
        Prr { flight: flight.max(1), ssthresh, delivered: 0, out: 0, room: 0 }
    }

    /// Records an ACK of `delivered` more bytes, after which `pipe` are in the network.
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, smss: u64) {
        self.delivered += delivered;
        self.room = if pipe > self.ssthresh {
            let due = u128::from(self.delivered) * u128::from(self.ssthresh);
            (due.div_ceil(self.flight.into()) as u64).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + smss;
            bound.min(self.ssthresh - pipe)
        };
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
        self.room = self.room.saturating_sub(bytes);
    }

    /// Returns the number of bytes that may be sent now.
    pub(super) fn room(&self) -> u64 {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single loss among 20 segments, so ssthresh is 10.
    ///
    /// One segment is sent for every two ACKs, until 10 are in flight.
    #[test]
    fn one_loss_halves_smoothly() {
        let mut prr = Prr::new(20, 10);
        let mut pipe = 20;
        let mut sent = Vec::new();
        for ack in 1..=19 {
            pipe -= 1;
            prr.on_ack(1, pipe, 1);
            while prr.room() > 0 {
                prr.on_sent(1);
                pipe += 1;
                sent.push(ack);
            }
        }
        assert_eq!(sent, [1, 3, 5, 7, 9, 11, 13, 15, 17]);
        assert_eq!(pipe, 10);
    }

    /// RFC 6937's second example: 15 of 20 lost. The bound allows the delivered data, and one more segment
    /// for each ACK.
    #[test]
    fn heavy_loss_is_bound_by_what_is_delivered() {
        let mut prr = Prr::new(20, 10);
        let mut pipe = 5;
        let mut out = 0;
        for _ in 0..5 {
            pipe -= 1;
            prr.on_ack(1, pipe, 1);
            let room = prr.room();
            assert!(room <= 2, "{room}");
            prr.on_sent(room);
            pipe += room;
            out += room;
        }
        assert!(out > 5 && pipe <= 10, "{out} {pipe}");
    }
}
