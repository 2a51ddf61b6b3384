//! Client transactions (RFC 3261 17.1, RFC 6026 7.2).

use bentpipe_units::{Span, Time};

use super::Timers;

/// State of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No response yet: "Calling" of INVITE, "Trying" of the others.
    Calling,
    /// Provisional responses only.
    Proceeding,
    /// Final response; repeated ones are absorbed.
    Completed,
    /// 2xx to INVITE; those of other branches of a fork are delivered.
    Accepted,
    /// Finished.
    Terminated,
}

/// Consequence of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The request is to be sent again (Timers A and E).
    Retransmit,
    /// No response came (Timers B and F).
    TimedOut,
    /// Mere change of state.
    Quiet,
}

/// Consequence of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaction {
    /// Set if the transaction user gets the response.
    pub(super) deliver: bool,
    /// Set if an ACK is to be sent: of failures of INVITE.
    pub(super) ack: bool,
}

/// Client transaction without its messages.
#[derive(Clone, Debug)]
pub(super) struct Client {
    state: State,
    is_invite: bool,
    is_reliable: bool,
    interval: Span,
    retransmit: Time,
    end: Time,
}

impl Client {
    /// Creates the transaction of a request that is sent at `now`.
    pub(super) fn new(now: Time, is_invite: bool, is_reliable: bool, timers: &Timers) -> Client {
        let retransmit = if is_reliable { Time::NEVER } else { now + timers.t1 };
        let end = now + timers.give_up();
        Client { state: State::Calling, is_invite, is_reliable, interval: timers.t1, retransmit, end }
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
            let is_waiting = matches!(self.state, State::Calling | State::Proceeding);
            self.terminate();
            return if is_waiting { Expiry::TimedOut } else { Expiry::Quiet };
        }
        if self.retransmit > now {
            return Expiry::Quiet;
        }
        let doubled = self.interval * 2;
        self.interval = match self.state {
            _ if self.is_invite => doubled,
            State::Proceeding => timers.t2,
            _ => doubled.min(timers.t2),
        };
        self.retransmit = now + self.interval;
        Expiry::Retransmit
    }

    /// Handles a response.
    pub(super) fn on_response(&mut self, now: Time, status: u16, timers: &Timers) -> Reaction {
        let is_final = status >= 200;
        let fails_invite = self.is_invite && status >= 300;
        match self.state {
            State::Calling | State::Proceeding if is_final => self.finish(now, status, timers),
            State::Calling | State::Proceeding => self.proceed(),
            State::Accepted => Reaction { deliver: (200..300).contains(&status), ack: false },
            State::Completed => Reaction { deliver: false, ack: fails_invite },
            State::Terminated => Reaction { deliver: false, ack: false },
        }
    }

    fn proceed(&mut self) -> Reaction {
        self.state = State::Proceeding;
        if self.is_invite {
            (self.retransmit, self.end) = (Time::NEVER, Time::NEVER);
        }
        Reaction { deliver: true, ack: false }
    }

    fn finish(&mut self, now: Time, status: u16, timers: &Timers) -> Reaction {
        self.retransmit = Time::NEVER;
        let succeeds_invite = self.is_invite && status < 300;
        self.state = if succeeds_invite { State::Accepted } else { State::Completed };
        self.end = now
            + match (succeeds_invite, self.is_reliable, self.is_invite) {
                (true, ..) => timers.give_up(),
                (_, true, _) => Span::ZERO,
                (_, _, true) => timers.d(),
                _ => timers.t4,
            };
        Reaction { deliver: true, ack: self.is_invite && !succeeds_invite }
    }

    /// Sets the latest time of a final response.
    pub(super) fn limit(&mut self, until: Time) {
        if matches!(self.state, State::Calling | State::Proceeding) {
            self.end = self.end.min(until);
        }
    }

    /// Ends the transaction.
    pub(super) fn terminate(&mut self) {
        (self.state, self.retransmit, self.end) = (State::Terminated, Time::NEVER, Time::NEVER);
    }
}
