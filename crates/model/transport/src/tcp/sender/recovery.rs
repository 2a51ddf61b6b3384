//! Fast recovery: New Reno (RFC 6582), SACK (RFC 6675), proportional rate reduction (RFC 6937). Also the
//! answer to ECN echoes (RFC 3168).

use bentpipe_cc::Loss;
use bentpipe_units::Time;

use super::acks::{Acknowledgement, News};
use super::prr::Prr;
use super::timeout::Eifel;
use super::{Phase, Sender, Timer, Timers};
use crate::tcp::config::WindowValidation;

impl Sender {
    /// Returns `true` if fast recovery or an ECN reduction completed, and advances the recovery state.
    #[inline]
    pub(super) fn advance_recovery(
        &mut self,
        ack: &Acknowledgement<'_>,
        news: &News,
        timers: &mut Timers,
    ) -> bool {
        let recovered = self.phase != Phase::Open && self.go_on(ack, news, timers);
        if matches!(self.phase, Phase::Open | Phase::Reduced) && self.loss_is_detected() {
            self.enter_recovery(ack.now, timers);
        }
        if let Some(prr) = self.prr.as_mut() {
            prr.on_ack(news.delivered, self.board.pipe(), self.agreed.smss.into());
        }
        recovered
    }

    fn go_on(&mut self, ack: &Acknowledgement<'_>, news: &News, timers: &mut Timers) -> bool {
        let was_fast = self.phase != Phase::Loss;
        if self.timeout_was_spurious(ack, news) || self.repair_was_spurious(ack, news) {
            self.undo(ack.now, timers);
        } else if ack.ack >= self.recover {
            self.leave_recovery();
            self.settle_quick_start();
            return was_fast;
        } else if news.acked > 0 && self.phase == Phase::Recovery && !self.agreed.sack {
            self.on_partial_ack(news.acked);
        }
        false
    }

    /// Returns `true` after `DupThresh` duplicates, or if the first segment is lost (RFC 6675 `IsLost`).
    ///
    /// Data of an earlier recovery does not count.
    fn loss_is_detected(&self) -> bool {
        let una = self.board.una();
        let is_new = if self.agreed.sack { una >= self.recover } else { una > self.recover };
        let enough = self.dup_acks >= self.config.dup_ack_threshold.max(1) || self.board.first_is_lost();
        is_new && enough && self.board.flight() > 0
    }

    /// Enters fast recovery (RFC 6582 3.2 step 2, RFC 6675 5 step 4).
    fn enter_recovery(&mut self, now: Time, timers: &mut Timers) {
        self.tally.fast_recoveries += 1;
        if self.phase != Phase::Reduced {
            let loss = self.loss(now);
            self.cc.on_loss(&loss);
            self.reconsider_quick_start();
        }
        self.phase = Phase::Recovery;
        self.recover = self.board.high();
        (self.forced, self.saw_partial_ack, self.eifel) = (true, false, Eifel::Armed);
        self.rescue = self.board.una() + self.smss_u64();
        self.inflation = i64::from(self.dup_acks) * i64::from(self.agreed.smss);
        self.prr = self.reduces_by_prr().then(|| Prr::new(self.board.flight(), self.cc.window()));
        timers.set(Timer::Retransmit, now + self.rtt.rto());
    }

    /// Returns `true` if PRR decides what is sent in recovery. A controller with a law of its own for that is not bound by it.
    fn reduces_by_prr(&self) -> bool {
        self.config.prr && self.agreed.sack && !self.cc.owns_recovery()
    }

    /// Retransmits the next hole and deflates the window after a partial ACK. RFC 6582 3.2 step 3.
    fn on_partial_ack(&mut self, acked: u64) {
        self.forced = true;
        self.saw_partial_ack = true;
        let smss = i64::from(self.agreed.smss);
        let acked = i64::try_from(acked).unwrap_or(i64::MAX);
        let back = if acked >= smss { smss } else { 0 };
        self.inflation = self.inflation.saturating_sub(acked).saturating_add(back);
    }

    fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        (self.inflation, self.prr, self.forced) = (0, None, false);
        self.stop_doubting();
    }

    /// Undoes a spurious reduction.
    fn undo(&mut self, now: Time, timers: &mut Timers) {
        self.tally.spurious += 1;
        self.cc.on_spurious();
        self.trust_quick_start();
        self.board.clear_lost_marks();
        self.leave_recovery();
        (self.recover, self.dup_acks) = (self.board.una(), 0);
        self.rtt.forget_back_off();
        if self.board.flight() > 0 {
            timers.set(Timer::Retransmit, now + self.rtt.rto());
        }
    }

    /// Reduces the window for an ECN echo, without a retransmission (RFC 3168 6.1.2).
    ///
    /// The ACK that reaches `recover` still echoes a mark on data sent before the last reduction.
    pub(super) fn on_echo(&mut self, now: Time) {
        let is_new = self.board.una() > self.recover && self.board.flight() > 0;
        if !self.agreed.ecn || self.phase != Phase::Open || !is_new {
            return;
        }
        self.tally.ecn_reductions += 1;
        let loss = self.loss(now);
        self.cc.on_loss(&loss);
        self.reconsider_quick_start();
        self.phase = Phase::Reduced;
        (self.recover, self.cwr) = (self.board.high(), true);
    }

    /// Returns the loss as reported to the controller (RFC 5681 eq. 4).
    ///
    /// RFC 7661 4.4.1 covers a window that was not used. In recovery outstanding data is mostly lost and no
    /// longer in the network: there the pipe counts.
    pub(super) fn loss(&self, now: Time) -> Loss {
        let flight = match self.phase {
            Phase::Open | Phase::Reduced => self.board.flight().saturating_sub(self.limited),
            Phase::Recovery | Phase::Loss => self.board.pipe(),
        };
        let used = match self.config.window_validation {
            WindowValidation::Validate => self.usage.pipe_ack().unwrap_or(0),
            _ => 0,
        };
        Loss { now, flight: flight.max(used), pipe: self.board.pipe(), min_rtt: self.rtt.min_rtt() }
    }
}
