//! Retransmission and persist timers, detection of spurious timeouts. RFC 6298, RFC 9293 3.8.6.1; F-RTO, RFC
//! 5682; Eifel, RFC 3522.

use bentpipe_units::Time;

use super::acks::{Acknowledgement, News};
use super::{Kind, Phase, Sender, Timer, Timers, Transmit};

/// The state of F-RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    Off,
    /// The first hole was repaired; its ACK is awaited (step 2).
    First,
    /// Awaits the ACK after the first of the given number of new segments (step 3).
    Second(u32),
}

impl Frto {
    #[inline]
    pub(super) fn allows_fresh(self) -> bool {
        !matches!(self, Frto::First | Frto::Second(0))
    }

    #[inline]
    pub(super) fn on_fresh_sent(&mut self) {
        if let Frto::Second(left) = self {
            *left = left.saturating_sub(1);
        }
    }
}

/// The state of Eifel detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eifel {
    Off,
    /// The next repair is the first of this recovery.
    Armed,
    /// The first repair carried this timestamp.
    Sent(u32),
}

impl Eifel {
    /// Records a repair. Of data that was repeated before (not `first`) the ACK of the earlier repeat may come now: it would
    /// be older than this one, and look like the original's.
    pub(super) fn on_repair_sent(&mut self, tsval: u32, first: bool) {
        if *self == Eifel::Armed {
            *self = if first { Eifel::Sent(tsval) } else { Eifel::Off };
        }
    }
}

/// The peer does not answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Silence;

impl Sender {
    /// Processes the expiry of the retransmission timer.
    pub(in crate::tcp) fn on_timeout(&mut self, now: Time, timers: &mut Timers) -> Result<(), Silence> {
        if self.retries >= self.config.retries {
            return Err(Silence);
        }
        self.tally.timeouts += 1;
        if self.board.reneged() {
            self.tally.renegings += 1;
            self.board.forget_sacked();
        }
        let is_first = self.retries == 0;
        self.retries += 1;
        self.doubt_timeout();
        let loss = self.loss(now);
        self.cc.on_timeout(&loss, is_first);
        self.reconsider_quick_start();
        self.phase = Phase::Loss;
        self.recover = self.board.high();
        self.board.lose_all();
        (self.dup_acks, self.limited, self.inflation, self.prr) = (0, 0, 0, None);
        (self.forced, self.timed, self.pace_at) = (true, None, now);
        self.rtt.back_off();
        timers.set(Timer::Retransmit, now + self.rtt.rto());
        Ok(())
    }

    /// Starts F-RTO and Eifel for timeouts outside an earlier recovery, repeated ones included.
    fn doubt_timeout(&mut self) {
        let is_outside = matches!(self.phase, Phase::Open | Phase::Reduced);
        let go_on = is_outside || self.frto == Frto::First;
        self.frto = if self.config.frto && go_on { Frto::First } else { Frto::Off };
        if is_outside {
            self.eifel = Eifel::Armed;
        }
    }

    pub(super) fn stop_doubting(&mut self) {
        (self.frto, self.eifel) = (Frto::Off, Eifel::Off);
    }

    /// Returns `true` if F-RTO finds the timeout spurious. RFC 5682 2.1 and 3.1, steps 2 and 3.
    pub(super) fn timeout_was_spurious(&mut self, ack: &Acknowledgement<'_>, news: &News) -> bool {
        match self.frto {
            Frto::Off => false,
            Frto::First => {
                self.frto = self.after_first(ack, news);
                false
            }
            Frto::Second(_) if news.acked == 0 && !news.duplicate && ack.sack.is_empty() => false,
            Frto::Second(_) => {
                self.frto = Frto::Off;
                let covers_more = ack.ack > self.recover
                    || self.board.highest_sacked().is_some_and(|end| end > self.recover);
                let is_news = news.acked > 0 || news.sacked > 0;
                is_news && !(self.agreed.sack && covers_more)
            }
        }
    }

    fn after_first(&mut self, ack: &Acknowledgement<'_>, news: &News) -> Frto {
        if news.acked == 0 {
            // Duplicates: with SACK they say nothing yet, without it that something is missing.
            return if news.duplicate && !self.agreed.sack { Frto::Off } else { Frto::First };
        }
        let edge = ack.ack + self.window;
        let can_send = self.board.high() < self.written && self.board.high() < edge;
        if ack.ack < self.recover && can_send { Frto::Second(2) } else { Frto::Off }
    }

    /// Returns `true` if the first ACK after a retransmission echoes an older timestamp. It answers the
    /// original then (RFC 3522 3.2).
    pub(super) fn repair_was_spurious(&mut self, ack: &Acknowledgement<'_>, news: &News) -> bool {
        let Eifel::Sent(tsval) = self.eifel else { return false };
        if !self.config.eifel || news.acked == 0 {
            return false;
        }
        self.eifel = Eifel::Off;
        ack.echo.is_some_and(|(echoed, _)| (echoed.wrapping_sub(tsval) as i32) < 0)
    }

    /// Sends data into the window, or a one-byte probe into a closed one.
    ///
    /// The persist timer fired.
    pub(in crate::tcp) fn on_persist(
        &mut self,
        now: Time,
        timers: &mut Timers,
    ) -> Result<Option<Transmit>, Silence> {
        if self.board.flight() > 0 || self.board.high() >= self.written {
            return Ok(None);
        }
        if self.retries >= self.config.retries {
            return Err(Silence);
        }
        self.retries += 1;
        self.rtt.back_off();
        timers.set(Timer::Persist, now + self.rtt.rto());
        let start = self.board.high();
        let len = (self.written - start).min(self.window).min(self.smss_u64());
        let kind = if len == 0 { Kind::Probe } else { Kind::New };
        self.probed = len == 0;
        Ok(Some(Transmit { start, len: len.max(1) as u32, fin: false, kind }))
    }
}
