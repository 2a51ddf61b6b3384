//! Timers of a connection: a small table. The element is woken for the earliest.

use bentpipe_units::Time;

/// Event awaited by a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// An acknowledgement: retransmission (RFC 6298), of a SYN too.
    Retransmit,
    /// A window to open (RFC 9293 3.8.6.1).
    Persist,
    /// More data to acknowledge (RFC 9293 3.8.6.3).
    DelayedAck,
    /// The next segment's turn, when the controller paces.
    Pacing,
    /// Old segments to die out (RFC 9293 3.6.1).
    TimeWait,
}

const ALL: [Timer; 5] =
    [Timer::Retransmit, Timer::Persist, Timer::DelayedAck, Timer::Pacing, Timer::TimeWait];

/// A deadline for each [`Timer`].
#[derive(Clone, Debug)]
pub(super) struct Timers([Time; ALL.len()]);

impl Timers {
    /// No timer armed.
    pub(super) const IDLE: Timers = Timers([Time::NEVER; ALL.len()]);

    #[inline]
    pub(super) fn set(&mut self, timer: Timer, deadline: Time) {
        self.0[timer as usize] = deadline;
    }

    /// Sets it if it is not running.
    #[inline]
    pub(super) fn start(&mut self, timer: Timer, deadline: Time) {
        if !self.is_running(timer) {
            self.set(timer, deadline);
        }
    }

    #[inline]
    pub(super) fn clear(&mut self, timer: Timer) {
        self.set(timer, Time::NEVER);
    }

    #[inline]
    pub(super) fn is_running(&self, timer: Timer) -> bool {
        !self.0[timer as usize].is_never()
    }

    /// Clears and returns a timer whose time has come.
    pub(super) fn expire(&mut self, now: Time) -> Option<Timer> {
        let timer = ALL.into_iter().find(|&timer| self.0[timer as usize] <= now)?;
        self.clear(timer);
        Some(timer)
    }

    /// Returns the earliest deadline.
    #[inline]
    pub(super) fn earliest(&self) -> Time {
        self.0.iter().fold(Time::NEVER, |earliest, &deadline| earliest.min(deadline))
    }
}
