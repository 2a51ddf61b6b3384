//! Reordering of RTP datagrams that overtook each other.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};
use bentpipe_wire::rtp;

/// Maximum number of datagrams held, of all senders.
const MAX_HELD: usize = 512;
/// Maximum number of senders that are followed.
const MAX_SENDERS: usize = 32;
/// Largest jump of sequence numbers within a stream (RFC 3550, appendix A.1).
const MAX_DROPOUT: u16 = 3000;
/// Largest step back within a stream.
const MAX_MISORDER: u16 = 100;

/// Sender of RTP.
#[derive(Clone, Debug)]
struct Sender {
    ssrc: u32,
    /// Sequence number of the next datagram in order.
    next: u16,
    /// Datagrams behind a gap, with sequence number and time of arrival, in order.
    held: VecDeque<(u16, Time, Vec<u8>)>,
}

impl Sender {
    /// Returns `true` unless a datagram of the same number is held already.
    ///
    /// The datagram is delivered if it is in order, and held after a gap.
    fn take(&mut self, now: Time, seq: u16, datagram: &[u8], sink: &mut impl FnMut(&[u8])) -> bool {
        let ahead = seq.wrapping_sub(self.next);
        if ahead == 0 {
            self.next = seq.wrapping_add(1);
            sink(datagram);
            self.release(sink);
        } else if ahead <= MAX_DROPOUT {
            let at = self.held.partition_point(|(other, ..)| other.wrapping_sub(self.next) < ahead);
            if self.held.get(at).is_some_and(|(other, ..)| *other == seq) {
                return false;
            }
            self.held.insert(at, (seq, now, datagram.to_vec()));
        } else {
            // It is late, or the sender restarted: the reader of the numbers decides.
            if ahead < u16::MAX - MAX_MISORDER {
                self.held.drain(..).for_each(|(.., bytes)| sink(&bytes));
                self.next = seq.wrapping_add(1);
            }
            sink(datagram);
        }
        true
    }

    /// Delivers the held datagrams up to the next gap.
    fn release(&mut self, sink: &mut impl FnMut(&[u8])) {
        while self.held.front().is_some_and(|(seq, ..)| *seq == self.next)
            && let Some((.., datagram)) = self.held.pop_front()
        {
            self.next = self.next.wrapping_add(1);
            sink(&datagram);
        }
    }

    /// Skips the first gap, and delivers the datagrams after it.
    fn skip_gap(&mut self, sink: &mut impl FnMut(&[u8])) {
        self.next = self.held.front().map_or(self.next, |(seq, ..)| *seq);
        self.release(sink);
    }

    /// Returns the time since which the first gap is waited for.
    fn waits_since(&self) -> Option<Time> {
        self.held.iter().map(|(_, came, _)| *came).min()
    }
}

/// Reorder buffer of RTP datagrams.
///
/// A datagram behind a gap is held until the gap is filled, or for a maximum delay. Datagrams in order are not delayed. Number
/// and age of held datagrams are bounded for any input.
#[derive(Clone, Debug)]
pub(crate) struct Reorder {
    max_delay: Span,
    /// Senders, the most recent first.
    senders: VecDeque<Sender>,
    held: usize,
    /// Datagrams dropped because one of their number was held.
    repeated: u64,
}

impl Reorder {
    /// Creates a buffer that holds datagrams for `max_delay` at most; zero disables it.
    pub(crate) fn new(max_delay: Span) -> Reorder {
        Reorder { max_delay, senders: VecDeque::new(), held: 0, repeated: 0 }
    }

    /// Returns the number of datagrams dropped because one of their number was held.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Adds a datagram, and calls `sink` with those that are in order.
    pub(crate) fn push(&mut self, now: Time, datagram: &[u8], mut sink: impl FnMut(&[u8])) {
        let packet = rtp::Packet::new_checked(datagram).ok();
        let Some(packet) = packet.filter(|_| !self.max_delay.is_zero()) else { return sink(datagram) };
        self.bring_forward(packet.ssrc(), packet.seq(), &mut sink);
        let sender = &mut self.senders[0];
        let before = sender.held.len();
        self.repeated += u64::from(!sender.take(now, packet.seq(), datagram, &mut sink));
        self.held = self.held + sender.held.len() - before;
        while self.held > MAX_HELD {
            self.skip_oldest(&mut sink);
        }
    }

    /// Moves a sender to the front. The least recent one is given up for a new one.
    fn bring_forward(&mut self, ssrc: u32, seq: u16, sink: &mut impl FnMut(&[u8])) {
        let known = self.senders.iter().position(|sender| sender.ssrc == ssrc);
        let sender = known.and_then(|at| self.senders.remove(at));
        self.senders.push_front(sender.unwrap_or(Sender { ssrc, next: seq, held: VecDeque::new() }));
        while self.senders.len() > MAX_SENDERS
            && let Some(gone) = self.senders.pop_back()
        {
            self.held -= gone.held.len();
            gone.held.iter().for_each(|(.., bytes)| sink(bytes));
        }
    }

    /// Skips the oldest gap.
    fn skip_oldest(&mut self, sink: &mut impl FnMut(&[u8])) {
        let waiting = self.senders.iter_mut().filter(|sender| !sender.held.is_empty());
        if let Some(sender) = waiting.min_by_key(|sender| sender.waits_since()) {
            let before = sender.held.len();
            sender.skip_gap(sink);
            self.held -= before - sender.held.len();
        }
    }

    /// Returns the time at which a gap is given up.
    pub(crate) fn due(&self) -> Time {
        let since = self.senders.iter().filter_map(Sender::waits_since).min();
        since.map_or(Time::NEVER, |since| since + self.max_delay)
    }

    /// Skips the gaps that are overdue at `now`, and delivers the datagrams after them.
    pub(crate) fn release(&mut self, now: Time, mut sink: impl FnMut(&[u8])) {
        while self.due() <= now {
            self.skip_oldest(&mut sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_wire::ts::{NULL_PACKET, RTP_PAYLOAD_TYPE, Unpacker};
    use proptest::prelude::*;

    const BOUND: Span = Span::from_millis(10);

    fn datagram(ssrc: u32, seq: u16) -> Vec<u8> {
        let mut header = [0; rtp::HEADER_LEN];
        rtp::Repr::new(RTP_PAYLOAD_TYPE, seq, 90_000, ssrc).emit(&mut header);
        [&header[..], &NULL_PACKET].concat()
    }

    fn seq(datagram: &[u8]) -> u16 {
        u16::from_be_bytes([datagram[2], datagram[3]])
    }

    /// Of 10,000 datagrams 1.3 ms apart each 20th comes 4 ms late: none is lost, and none waits longer than that.
    #[test]
    fn late_datagrams_are_put_in_order() {
        let at = |n: u64| n * 1_300_000 + if n.is_multiple_of(20) { 4_000_000 } else { 0 };
        let mut arrivals: Vec<(u64, u16)> = (0..10_000).map(|n| (at(n), n as u16)).collect();
        arrivals.sort_unstable();
        let (mut reorder, mut unpacker, mut worst) = (Reorder::new(BOUND), Unpacker::new(true), 0);
        // The first one is late, too: what comes before is of a sender that is not known yet.
        for (time, n) in arrivals {
            let now = Time::from_nanos(time);
            let mut take = |bytes: &[u8]| {
                worst = worst.max(time - at(seq(bytes).into()));
                unpacker.unpack(bytes);
            };
            reorder.release(now, &mut take);
            reorder.push(now, &datagram(7, n), &mut take);
        }
        let counts = unpacker.counts();
        assert_eq!((counts.datagrams, counts.missing, counts.out_of_order), (9999, 0, 1));
        assert!(worst <= 4_000_000, "{worst}");
    }

    #[test]
    fn a_lost_datagram_delays_the_next_ones_by_the_bound() {
        let mut reorder = Reorder::new(BOUND);
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let mut got = Vec::new();
        for (time, n) in [(0, 65_534), (1, 0), (2, 1)] {
            reorder.push(ms(time), &datagram(7, n), |bytes| got.push(seq(bytes)));
        }
        assert_eq!((&got[..], reorder.due()), (&[65_534][..], ms(11)));
        reorder.release(ms(10), |bytes| got.push(seq(bytes)));
        assert_eq!(got.len(), 1);
        reorder.release(ms(11), |bytes| got.push(seq(bytes)));
        assert_eq!((&got[..], reorder.due()), (&[65_534, 0, 1][..], Time::NEVER));
    }

    proptest! {
        /// Whatever the numbers and senders: every datagram is delivered once the bound is over, or counted as a duplicate, and no
        /// more are held than may be.
        #[test]
        fn datagrams_are_held_for_the_bound_at_most(
            numbers in proptest::collection::vec((0u32..40, prop_oneof![0u16..50, any::<u16>()], 0u64..3_000_000), 0..800),
        ) {
            let (mut reorder, mut now, mut delivered) = (Reorder::new(BOUND), Time::ZERO, 0);
            for (ssrc, n, gap) in &numbers {
                now += Span::from_nanos(*gap);
                reorder.release(now, |_| delivered += 1);
                reorder.push(now, &datagram(*ssrc, *n), |_| delivered += 1);
                prop_assert!(reorder.held <= MAX_HELD && reorder.senders.len() <= MAX_SENDERS);
                prop_assert_eq!(reorder.held, reorder.senders.iter().map(|sender| sender.held.len()).sum::<usize>());
                prop_assert!(reorder.due() > now);
            }
            reorder.release(now + BOUND, |_| delivered += 1);
            prop_assert_eq!((reorder.held, delivered + reorder.repeated() as usize), (0, numbers.len()));
        }
    }
}
