//! Effects of acknowledgements on the sender (RFC 5681 3, RFC 6675 5, RFC 9293 3.10.7.4).

use bentpipe_cc as cc;
use bentpipe_units::{Span, Time};

use super::{Phase, Sender, Timer, Timers};
use crate::tcp::config::{PartialAcks, WindowValidation};

/// The acknowledgement in a segment that came in.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Acknowledgement<'a> {
    pub(in crate::tcp) now: Time,
    /// Position acknowledged.
    pub(in crate::tcp) ack: u64,
    /// Position of the segment itself in the peer's stream.
    pub(in crate::tcp) seq: u64,
    /// The window offered, in bytes.
    pub(in crate::tcp) window: u64,
    /// Positions of the SACK blocks.
    pub(in crate::tcp) sack: &'a [(u64, u64)],
    /// The timestamp echoed, and how long ago this end sent it.
    pub(in crate::tcp) echo: Option<(u32, Span)>,
    /// Set if the segment has no data, SYN or FIN.
    pub(in crate::tcp) is_bare: bool,
    /// ECN echo.
    pub(in crate::tcp) ece: bool,
}

/// New information of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// Bytes acknowledged cumulatively.
    pub(super) acked: u64,
    /// Bytes SACKed for the first time.
    pub(super) sacked: u64,
    /// Bytes delivered, each counted once.
    pub(super) delivered: u64,
    /// Set if it counts as a duplicate.
    pub(super) duplicate: bool,
    /// Outstanding before it.
    flight_before: u64,
}

impl Sender {
    /// Returns the highest position that the peer can acknowledge.
    #[inline]
    pub(in crate::tcp) fn acknowledgeable(&self) -> u64 {
        self.board.high() + u64::from(self.probed)
    }

    /// Returns `true` if the segment updated only the window, as nothing is outstanding.
    ///
    /// That is the usual case at the receiving end. `false` means that nothing was done, and the segment may
    /// contain more.
    #[inline]
    pub(in crate::tcp) fn apply_pure_window_update(&mut self, seq: u64, ack: u64, window: u64) -> bool {
        if self.board.high() != ack || self.board.flight() > 0 || self.phase != Phase::Open || self.probed {
            return false;
        }
        self.retries = 0;
        self.update_window(seq, ack, window);
        true
    }

    /// Processes an acknowledgement from SND.UNA to [`Sender::acknowledgeable`].
    #[inline]
    pub(in crate::tcp) fn on_ack(&mut self, ack: &Acknowledgement<'_>, timers: &mut Timers) {
        let news = self.take_news(ack);
        let rtt = self.sample(ack, news.acked);
        if news.acked > 0 {
            self.on_advance(ack, &news, timers);
        }
        if news.duplicate {
            self.on_duplicate();
        }
        if news.acked > 0 || self.board.flight() == 0 {
            self.retries = 0;
        }
        let recovered = self.advance_recovery(ack, &news, timers);
        if ack.ece {
            self.on_echo(ack.now);
        }
        if news.acked > 0 || news.sacked > 0 || news.duplicate {
            self.notify_controller(ack.now, &news, rtt, recovered);
        }
    }

    #[inline]
    fn take_news(&mut self, ack: &Acknowledgement<'_>) -> News {
        if ack.ack > self.board.high() {
            // The peer took the byte that probed its window.
            self.board.extend(1);
        }
        self.probed &= self.board.flight() == 0 && ack.window == 0;
        let (una, flight_before) = (self.board.una(), self.board.flight());
        let window_moved = self.update_window(ack.seq, ack.ack, ack.window);
        let acked = ack.ack - una;
        let mut delivered = self.board.acknowledge(ack.ack);
        let sacked = self.take_sacks(ack.sack);
        if self.board.has_sacked() {
            self.board.update_lost(self.loss_rule());
        }
        let duplicate = match self.agreed.sack {
            true => acked == 0 && sacked > 0,
            false => acked == 0 && flight_before > 0 && ack.is_bare && !window_moved,
        };
        delivered += sacked;
        if !self.agreed.sack {
            delivered = self.credit(acked, duplicate);
        }
        News { acked, sacked, delivered, duplicate, flight_before }
    }

    /// Returns the credit for an ACK. Without SACK a duplicate ACK represents a segment, which the covering
    /// ACK does not count again.
    fn credit(&mut self, acked: u64, duplicate: bool) -> u64 {
        let in_advance = if duplicate { self.smss_u64() } else { 0 };
        let owed = self.credited.min(acked);
        self.credited = self.credited - owed + in_advance;
        acked - owed + in_advance
    }

    #[inline]
    fn take_sacks(&mut self, blocks: &[(u64, u64)]) -> u64 {
        // A block of old data, as DSACK sends (RFC 2883), is below SND.UNA or known.
        blocks.iter().map(|&(start, end)| self.board.sack(start, end)).sum()
    }

    /// Returns `true` if the window of the latest segment changed it (RFC 9293 3.10.7.4).
    #[inline]
    fn update_window(&mut self, seq: u64, ack: u64, window: u64) -> bool {
        if (seq, ack) < self.window_from {
            return false;
        }
        self.window_from = (seq, ack);
        self.largest_window = self.largest_window.max(window);
        std::mem::replace(&mut self.window, window) != window
    }

    /// Sets the window from the segment that completed the handshake.
    pub(in crate::tcp) fn set_window(&mut self, seq: u64, ack: u64, window: u64) {
        (self.window_from, self.window) = ((seq, ack), window);
        self.largest_window = self.largest_window.max(window);
    }

    /// Returns the RTT sample of the ACK (RFC 6298 3, 7323 4.1).
    ///
    /// Timestamps give it, or the one timed segment.
    #[inline]
    fn sample(&mut self, ack: &Acknowledgement<'_>, acked: u64) -> Option<Span> {
        if acked == 0 {
            return None;
        }
        let rtt = match (ack.echo, self.timed) {
            (Some((_, rtt)), _) => rtt,
            (None, Some((end, at))) if ack.ack >= end => {
                self.timed = None;
                ack.now.since(at)
            }
            _ => return None,
        };
        let per_round = self.board.flight().div_ceil(2 * self.smss_u64()).clamp(1, u32::MAX.into()) as u32;
        self.rtt.sample_one_of(rtt, if self.config.rtt_per_round { per_round } else { 1 });
        Some(rtt)
    }

    #[inline]
    fn on_advance(&mut self, ack: &Acknowledgement<'_>, news: &News, timers: &mut Timers) {
        (self.dup_acks, self.limited) = (0, 0);
        self.advance_quick_start();
        if self.config.window_validation == WindowValidation::Validate {
            self.usage.on_ack(news.acked, ack.ack, self.board.high());
        }
        if self.board.flight() == 0 {
            timers.clear(Timer::Retransmit);
        } else if self.ack_restarts_timer(ack.ack) {
            timers.set(Timer::Retransmit, ack.now + self.rtt.rto());
        }
    }

    /// Returns `true` if the ACK restarts the timer. RFC 6298 5.3; RFC 6582 4 for partial ACKs.
    #[inline]
    fn ack_restarts_timer(&self, ack: u64) -> bool {
        let is_partial = self.phase == Phase::Recovery && ack < self.recover && !self.agreed.sack;
        !(is_partial && self.saw_partial_ack && self.config.partial_acks == PartialAcks::Impatient)
    }

    fn on_duplicate(&mut self) {
        self.tally.duplicate_acks += 1;
        self.dup_acks = self.dup_acks.saturating_add(1);
        if self.phase == Phase::Recovery {
            self.inflation = self.inflation.saturating_add(self.agreed.smss.into());
        }
    }

    fn notify_controller(&mut self, now: Time, news: &News, rtt: Option<Span>, recovered: bool) {
        let ack = cc::Ack {
            now,
            acked: news.acked,
            delivered: news.delivered,
            flight: self.board.flight(),
            pipe: self.board.pipe(),
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            cwnd_limited: self.is_cwnd_limited(news),
            in_recovery: recovered || self.phase != Phase::Open,
        };
        self.cc.on_ack(&ack);
        if recovered {
            self.cc.on_recovered(&ack);
        }
    }

    /// Returns `true` if the sender needed its window. In slow start half of it is enough, as the window
    /// doubles before the flight does.
    #[inline]
    fn is_cwnd_limited(&self, news: &News) -> bool {
        match self.config.window_validation {
            WindowValidation::Keep => true,
            WindowValidation::Validate => self.usage.validates(self.cc.window()),
            WindowValidation::Restart | WindowValidation::Decay if self.filled => true,
            WindowValidation::Restart | WindowValidation::Decay => {
                let state = self.cc.state();
                state.cwnd < state.ssthresh && state.cwnd < 2 * news.flight_before
            }
        }
    }
}
