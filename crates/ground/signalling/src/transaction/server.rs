//! Server transactions (RFC 3261 17.2, RFC 6026 7.1).

use bentpipe_units::{Span, Time};

use super::Timers;

/// State of a server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No final response yet: "Trying" or "Proceeding".
    Proceeding,
    /// Final response sent.
    Completed,
    /// ACK received after a failure of INVITE.
    Confirmed,
    /// 2xx to INVITE sent; repeated INVITEs are absorbed.
    Accepted,
    /// Finished.
    Terminated,
}

/// Consequence of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The final response is to be sent again (Timer G).
    Retransmit,
    /// 100 Trying is to be sent.
    Trying,
    /// No ACK came (Timer H).
    NotConfirmed,
    /// Mere change of state.
    Quiet,
}

/// Server transaction without its messages.
#[derive(Clone, Debug)]
pub(super) struct Server {
    state: State,
    is_invite: bool,
    is_reliable: bool,
    interval: Span,
    retransmit: Time,
    end: Time,
}

impl Server {
    /// Creates the transaction of a request received at `now`.
    pub(super) fn new(now: Time, is_invite: bool, is_reliable: bool, timers: &Timers) -> Server {
        let retransmit = if is_invite { now + timers.trying } else { Time::NEVER };
        Server {
            state: State::Proceeding,
            is_invite,
            is_reliable,
            interval: timers.t1,
            retransmit,
            end: Time::NEVER,
        }
    }

    /// Returns the time of the next timer.
    pub(super) fn deadline(&self) -> Time {
        self.retransmit.min(self.end)
    }

    /// Returns the state.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Handles timers that are due.
    pub(super) fn on_time(&mut self, now: Time, timers: &Timers) -> Expiry {
        if self.end <= now {
            let is_unconfirmed = self.is_invite && self.state == State::Completed;
            self.terminate();
            return if is_unconfirmed { Expiry::NotConfirmed } else { Expiry::Quiet };
        }
        if self.retransmit > now {
            return Expiry::Quiet;
        }
        if self.state == State::Proceeding {
            self.retransmit = Time::NEVER;
            return Expiry::Trying;
        }
        self.interval = (self.interval * 2).min(timers.t2);
        self.retransmit = now + self.interval;
        Expiry::Retransmit
    }

    /// Returns `true` if a response is to be sent, and records it.
    pub(super) fn on_answer(&mut self, now: Time, status: u16, timers: &Timers) -> bool {
        match self.state {
            State::Proceeding if status < 200 => self.retransmit = Time::NEVER,
            State::Proceeding => self.finish(now, status, timers),
            State::Accepted => return (200..300).contains(&status),
            _ => return false,
        }
        true
    }

    fn finish(&mut self, now: Time, status: u16, timers: &Timers) {
        let succeeds_invite = self.is_invite && status < 300;
        let is_short = self.is_reliable && !self.is_invite;
        self.state = if succeeds_invite { State::Accepted } else { State::Completed };
        self.end = now + if is_short { Span::ZERO } else { timers.give_up() };
        let repeats = self.is_invite && !succeeds_invite && !self.is_reliable;
        self.retransmit = if repeats { now + timers.t1 } else { Time::NEVER };
    }

    /// Returns `true` if a repeated request is answered by the last response.
    pub(super) fn on_repeat(&self) -> bool {
        matches!(self.state, State::Proceeding | State::Completed)
    }

    /// Returns `true` if an ACK is for the transaction user: that of a 2xx.
    pub(super) fn on_ack(&mut self, now: Time, timers: &Timers) -> bool {
        if self.state == State::Completed {
            (self.state, self.retransmit) = (State::Confirmed, Time::NEVER);
            self.end = now + if self.is_reliable { Span::ZERO } else { timers.t4 };
        }
        self.state == State::Accepted
    }

    /// Ends the transaction.
    pub(super) fn terminate(&mut self) {
        (self.state, self.retransmit, self.end) = (State::Terminated, Time::NEVER, Time::NEVER);
    }
}
