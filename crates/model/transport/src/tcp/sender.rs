//! Sending half: the choice of the next segment within the peer's and the controller's window.
//!
//! The effects of ACKs and timers are in [`acks`], [`recovery`], [`timeout`].

mod acks;
mod path_mtu;
mod prr;
mod quick_start;
mod recovery;
mod timeout;
mod usage;

use bentpipe_cc::{Controller, RttEstimator, Sent};
use bentpipe_units::{Span, Time};

use super::config::{Config, WindowValidation};
use super::scoreboard::{LossRule, Scoreboard};
use super::timers::{Timer, Timers};

pub(super) use acks::Acknowledgement;
use prr::Prr;
use quick_start::QuickStart;
use timeout::{Eifel, Frto};
use usage::Usage;

/// Phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nowhere: nothing is lost.
    Open,
    /// Window reduced for an ECN echo. One reduction per round trip is enough (RFC 3168 6.1.2).
    Reduced,
    /// Fast recovery (RFC 6582, RFC 6675).
    Recovery,
    /// Recovery after a retransmission timeout.
    Loss,
}

/// A segment's worth of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transmit {
    /// Position of its first byte.
    pub(super) start: u64,
    /// Bytes of data.
    pub(super) len: u32,
    /// Set if the segment has the FIN.
    pub(super) fin: bool,
    pub(super) kind: Kind,
}

impl Transmit {
    /// Returns the position after the segment.
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len) + u64::from(self.fin)
    }
}

/// Reason for sending a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// New data.
    New,
    /// Retransmission of lost data.
    Retransmission,
    /// The end of a recovery might depend on it (RFC 6675 NextSeg rule 4).
    Rescue,
    /// The window is closed.
    Probe,
}

/// Totals of the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) duplicate_acks: u64,
    pub(super) retransmits: u64,
    pub(super) fast_recoveries: u64,
    pub(super) timeouts: u64,
    pub(super) spurious: u64,
    pub(super) ecn_reductions: u64,
    pub(super) renegings: u64,
    pub(super) probes: u64,
}

/// Parameters agreed by the two ends, as far as the sender needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Most data in a segment, in bytes.
    pub(super) smss: u32,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    pub(super) ecn: bool,
}

/// The sending half of a connection. Positions are 64 bit, counted from the SYN.
pub(super) struct Sender {
    pub(super) board: Scoreboard,
    pub(super) rtt: RttEstimator,
    pub(super) tally: Tally,
    config: Config,
    agreed: Agreed,
    cc: Box<dyn Controller>,
    /// Position after the last byte written by the application.
    written: u64,
    /// Set if the application will write no more.
    closed: bool,
    /// The peer's window, and the segment it came from (RFC 9293 SND.WND, WL1, WL2).
    window: u64,
    window_from: (u64, u64),
    largest_window: u64,
    phase: Phase,
    /// End of the present or last recovery (RFC 6582 `recover`, RFC 6675 `RecoveryPoint`).
    recover: u64,
    dup_acks: u32,
    /// New bytes sent for duplicate ACKs.
    limited: u64,
    /// New Reno's artificial window inflation in fast recovery: bytes represented by duplicate ACKs.
    inflation: i64,
    credited: u64,
    /// Set if the first hole is to be retransmitted regardless of the window.
    forced: bool,
    saw_partial_ack: bool,
    /// RFC 6675 `RescueRxt`.
    rescue: u64,
    prr: Option<Prr>,
    frto: Frto,
    eifel: Eifel,
    /// Position below which data may have been sent more than once.
    repaired: u64,
    /// Segment timed without timestamps: the position after it, and its send time.
    timed: Option<(u64, Time)>,
    last_sent: Time,
    /// Set if sending last stopped at the congestion window.
    filled: bool,
    usage: Usage,
    quick_start: QuickStart,
    pace_at: Time,
    /// Number of timeouts or window probes without an answer.
    retries: u32,
    probed: bool,
    /// Set if the peer is to be informed of a window reduction.
    cwr: bool,
}

impl Sender {
    /// Creates a sender whose SYN was acknowledged, with an initial window in segments.
    pub(super) fn new(config: &Config, agreed: Agreed, initial_window: u32, rtt: RttEstimator) -> Sender {
        let connection = config.connection(agreed.smss, initial_window);
        Sender {
            board: Scoreboard::new(1, config.detect_lost_retransmissions && agreed.sack),
            rtt,
            tally: Tally::default(),
            config: config.clone(),
            agreed,
            cc: config.controller.build(&connection),
            written: 1,
            closed: false,
            window: 0,
            window_from: (0, 0),
            largest_window: 0,
            phase: Phase::Open,
            recover: 0,
            dup_acks: 0,
            limited: 0,
            inflation: 0,
            credited: 0,
            forced: false,
            saw_partial_ack: false,
            rescue: 0,
            prr: None,
            frto: Frto::Off,
            eifel: Eifel::Off,
            repaired: 0,
            timed: None,
            last_sent: Time::ZERO,
            filled: false,
            usage: Usage::default(),
            quick_start: QuickStart::Off,
            pace_at: Time::ZERO,
            retries: 0,
            probed: false,
            cwr: false,
        }
    }

    /// Completes the handshake; `rtt` is its sample.
    pub(super) fn on_established(&mut self, now: Time, rtt: Option<Span>) {
        self.cc.on_established(now, rtt);
        self.last_sent = now;
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        &*self.cc
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Returns `true` if segments carry timestamps.
    pub(super) fn has_timestamps(&self) -> bool {
        self.agreed.timestamps
    }

    fn smss_u64(&self) -> u64 {
        self.agreed.smss.into()
    }

    fn loss_rule(&self) -> LossRule {
        LossRule {
            threshold: self.config.dup_ack_threshold.max(1),
            smss: self.agreed.smss,
            fack: self.config.fack,
        }
    }

    /// Returns the number of bytes the application may still write.
    #[inline]
    pub(super) fn buffer_room(&self) -> u64 {
        let queued = self.written.saturating_sub(self.board.una());
        self.config.send_buffer.get().max(self.smss_u64()).saturating_sub(queued)
    }

    /// Accepts bytes written by the application.
    #[inline]
    pub(super) fn write(&mut self, bytes: u64) {
        debug_assert!(!self.closed || bytes == 0);
        self.written += bytes;
    }

    /// Returns the number of bytes written by the application.
    pub(super) fn written(&self) -> u64 {
        self.written - 1
    }

    /// Returns the number of bytes written and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.board.high().max(1))
    }

    /// Ends the application's data: a FIN follows.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns `true` if the FIN was acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.board.una() > self.written
    }

    /// Returns the number of acknowledged bytes of data.
    pub(super) fn bytes_acked(&self) -> u64 {
        self.board.una().min(self.written) - 1
    }

    /// Removes the data that was written and not sent, and returns its length.
    pub(super) fn withdraw(&mut self) -> u64 {
        if self.closed {
            return 0;
        }
        let unsent = self.written.saturating_sub(self.board.high());
        self.written -= unsent;
        unsent
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.board.high() < self.written + u64::from(self.closed)
    }

    /// Returns `true` if there is neither new data nor a retransmission, regardless of the windows.
    #[inline]
    pub(super) fn is_silent(&mut self) -> bool {
        let silent = self.phase == Phase::Open && !self.forced && !self.has_unsent();
        self.filled &= !silent;
        silent
    }

    /// Returns the next segment to send now, if any. [`Sender::on_sent`] must follow.
    #[inline]
    pub(super) fn next(&mut self, now: Time) -> Option<Transmit> {
        if self.forced {
            self.forced = false;
            let (start, end) = self.board.first_hole()?;
            return Some(self.cut(start, end, Kind::Retransmission));
        }
        if now < self.pace_at && self.has_unsent() {
            self.filled = true;
            return None;
        }
        self.apply_idle_restart(now);
        let room = self.room();
        if self.phase == Phase::Open || self.frto != Frto::Off {
            return self.fresh(room);
        }
        self.next_in_recovery(room)
    }

    /// Returns the next segment by RFC 6675 NextSeg: lost, new, possibly lost, last data.
    fn next_in_recovery(&mut self, room: u64) -> Option<Transmit> {
        if let Some((start, end)) = self.board.next_lost() {
            let repair = self.cut(start, end, Kind::Retransmission);
            self.filled = true;
            return (u64::from(repair.len) <= room).then_some(repair);
        }
        self.fresh(room).or_else(|| self.on_suspicion(room))
    }

    /// Returns the next segment by NextSeg rules 3 and 4.
    fn on_suspicion(&mut self, room: u64) -> Option<Transmit> {
        if self.phase != Phase::Recovery || !self.agreed.sack || room < self.smss_u64() {
            return None;
        }
        if let Some((start, end)) = self.board.next_unsacked() {
            return Some(self.cut(start, end, Kind::Retransmission));
        }
        if self.board.una() <= self.rescue {
            return None;
        }
        let (start, end) = self.board.last_hole(self.smss_u64())?;
        self.rescue = self.recover;
        Some(self.cut(start, end, Kind::Rescue))
    }

    /// Returns the beginning of a hole as a segment.
    fn cut(&self, start: u64, end: u64, kind: Kind) -> Transmit {
        let data_end = end.min(self.written).min(start + self.smss_u64());
        let fin = end > self.written && data_end == self.written.max(start);
        Transmit { start, len: data_end.saturating_sub(start) as u32, fin, kind }
    }

    /// Returns new data, if there is any and the windows and Nagle allow it.
    #[inline]
    fn fresh(&mut self, room: u64) -> Option<Transmit> {
        self.filled = false;
        let start = self.board.high();
        let unsent = self.written.saturating_sub(start);
        if unsent == 0 {
            let fin = self.closed && start == self.written;
            return fin.then_some(Transmit { start, len: 0, fin, kind: Kind::New });
        }
        let usable = (self.board.una() + self.window).saturating_sub(start);
        let len = unsent.min(self.smss_u64()).min(usable);
        let last = len == unsent;
        if len < self.smss_u64() && !self.may_be_small(len, last) {
            return None;
        }
        self.filled = len > room;
        if self.filled || !self.frto.allows_fresh() {
            return None;
        }
        Some(Transmit { start, len: len as u32, fin: last && self.closed, kind: Kind::New })
    }

    /// Returns `true` if a short segment may be sent: silly window avoidance, Nagle.
    ///
    /// RFC 9293 3.8.6.2.1, 3.7.4.
    fn may_be_small(&self, len: u64, last: bool) -> bool {
        if !last {
            return len > 0 && 2 * len >= self.largest_window;
        }
        len > 0 && (!self.config.nagle || self.closed || self.board.flight() == 0)
    }

    /// Returns the number of bytes that fit the congestion window.
    #[inline]
    fn room(&self) -> u64 {
        let cwnd = self.cc.window();
        match self.phase {
            Phase::Recovery if !self.agreed.sack => self.inflated(cwnd).saturating_sub(self.board.flight()),
            Phase::Recovery => match &self.prr {
                Some(prr) => prr.room(),
                None => cwnd.saturating_sub(self.board.pipe()),
            },
            Phase::Loss => cwnd.saturating_sub(self.board.pipe()),
            Phase::Open | Phase::Reduced if !self.config.limited_transmit => {
                cwnd.saturating_sub(self.board.flight())
            }
            Phase::Open | Phase::Reduced => {
                let extra = if self.agreed.sack { 0 } else { self.dup_acks.min(2) * self.agreed.smss };
                (cwnd + u64::from(extra)).saturating_sub(self.board.pipe())
            }
        }
    }

    /// Returns the number of bytes after which two segments wait behind the congestion window.
    pub(super) fn sendable(&self) -> u64 {
        let unsent = self.written.saturating_sub(self.board.high());
        (self.room() + 2 * self.smss_u64()).saturating_sub(unsent)
    }

    fn inflated(&self, cwnd: u64) -> u64 {
        cwnd.saturating_add_signed(self.inflation).max(self.smss_u64())
    }

    /// Records that a segment of [`Sender::next`] was sent, with `tsval` as its timestamp.
    #[inline]
    pub(super) fn on_sent(&mut self, sent: &Transmit, now: Time, tsval: u32, timers: &mut Timers) {
        let len = sent.end() - sent.start;
        match sent.kind {
            Kind::New => self.on_fresh_sent(sent, now),
            Kind::Retransmission | Kind::Rescue => self.on_repair_sent(sent, tsval),
            Kind::Probe => {
                self.tally.probes += 1;
                return;
            }
        }
        if let Some(prr) = self.prr.as_mut() {
            prr.on_sent(len);
        }
        self.last_sent = now;
        timers.clear(Timer::Persist);
        timers.start(Timer::Retransmit, now + self.rtt.rto());
        if let Some(gap) = self.gap(len) {
            self.pace_at = self.pace_at.max(now) + gap;
        }
    }

    #[inline]
    fn on_fresh_sent(&mut self, sent: &Transmit, now: Time) {
        let flight = self.board.flight();
        self.cc.on_sent(&Sent { now, bytes: sent.len.into(), flight });
        self.board.extend(sent.end() - sent.start);
        if self.dup_acks > 0 && self.phase == Phase::Open {
            self.limited += u64::from(sent.len);
        }
        self.frto.on_fresh_sent();
        if !self.agreed.timestamps && self.timed.is_none() {
            self.timed = Some((sent.end(), now));
        }
    }

    fn on_repair_sent(&mut self, sent: &Transmit, tsval: u32) {
        self.tally.retransmits += 1;
        // Karn: the ACK of the timed segment might be for this copy.
        self.timed = None;
        self.eifel.on_repair_sent(tsval, sent.start >= self.repaired);
        self.repaired = self.repaired.max(sent.end());
        self.count_quick_start_repair(sent);
        if sent.kind == Kind::Retransmission {
            self.board.on_repair(sent.start, sent.end());
        }
    }

    /// Returns `true` if the segment is to carry CWR.
    ///
    /// That is the first new data after the window was reduced for an echo.
    #[inline]
    pub(super) fn take_cwr(&mut self, sent: &Transmit) -> bool {
        self.cwr && sent.kind == Kind::New && sent.len > 0 && std::mem::take(&mut self.cwr)
    }

    /// Returns `true` if the segment is ECN-capable. Only new data is (RFC 3168 6.1.5).
    #[inline]
    pub(super) fn is_ect(&self, sent: &Transmit) -> bool {
        self.agreed.ecn && sent.kind == Kind::New && sent.len > 0
    }

    /// Arms the timers that wait for a change, as no more may be sent now.
    #[inline]
    pub(super) fn on_stopped(&mut self, now: Time, timers: &mut Timers) {
        if self.pace_at > now && (self.has_unsent() || self.phase != Phase::Open) {
            timers.set(Timer::Pacing, self.pace_at);
        } else if self.board.flight() == 0 && self.has_unsent() {
            // The peer's window is what stops it.
            timers.start(Timer::Persist, now + self.rtt.rto());
        }
    }

    /// Restarts the window after idleness (RFC 5681 4.1, RFC 2861 3).
    #[inline]
    fn apply_idle_restart(&mut self, now: Time) {
        if self.board.flight() > 0 || !self.has_unsent() {
            return;
        }
        let idle = now.since(self.last_sent);
        if idle < self.rtt.rto() {
            return;
        }
        let (cwnd, restart) = (self.cc.window(), self.restart_window());
        let reduced = match self.config.window_validation {
            WindowValidation::Keep => return,
            WindowValidation::Restart => restart,
            WindowValidation::Decay => {
                let halvings = idle.as_nanos() / self.rtt.rto().as_nanos().max(1);
                cwnd.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0).max(restart)
            }
            WindowValidation::Validate if idle >= usage::VALID_FOR => (cwnd / 2).max(restart),
            WindowValidation::Validate => return,
        };
        if reduced < cwnd {
            self.cc.on_idle(reduced);
        }
        self.last_sent = now;
    }

    fn restart_window(&self) -> u64 {
        u64::from(self.config.initial_window.max(1)) * self.smss_u64()
    }
}
