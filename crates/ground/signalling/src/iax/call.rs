//! State of one call or registration.

use std::net::SocketAddr;

use bentpipe_units::Time;

use super::leg::Leg;

/// Call of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// Reason for the failure of a call or registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// REJECT, REGREJ or HANGUP before the answer, with its cause code (RFC 5456 8.6.33).
    Rejected(Option<u8>),
    /// Retransmissions without acknowledgement.
    TimedOut,
    /// The peer does not know the call: INVAL.
    Unknown,
    /// A challenge for which this side has no password.
    NoPassword,
}

/// Report of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call comes in and is accepted; ring, answer or hang up.
    Incoming {
        /// Call.
        call: CallId,
        /// Number called.
        number: String,
        /// User who calls, if named.
        user: Option<String>,
        /// Number of the caller, if given.
        caller: Option<String>,
    },
    /// The callee's side took the call.
    Accepted {
        /// Call.
        call: CallId,
        /// Format of voice.
        format: u32,
    },
    /// The callee rings.
    Ringing {
        /// Call.
        call: CallId,
    },
    /// The callee answered.
    Answered {
        /// Call.
        call: CallId,
    },
    /// The peer has the answer of an incoming call.
    Confirmed {
        /// Call.
        call: CallId,
    },
    /// Voice came.
    Voice {
        /// Call.
        call: CallId,
        /// Timestamp in ms since the start of the call.
        timestamp: u32,
        /// Voice.
        payload: Vec<u8>,
    },
    /// Comfort noise came: a pause begins.
    Noise {
        /// Call.
        call: CallId,
        /// Timestamp in ms since the start of the call.
        timestamp: u32,
        /// Level in decibels below the overload point.
        level: u8,
    },
    /// The call is over.
    Ended {
        /// Call.
        call: CallId,
        /// Set if the peer ended it.
        by_peer: bool,
    },
    /// The call was not answered.
    Failed {
        /// Call.
        call: CallId,
        /// Reason.
        failure: Failure,
    },
    /// The registrar accepted this user for this number of seconds.
    Registered(u16),
    /// The registration failed.
    NotRegistered(Failure),
    /// A user registered here.
    Bound {
        /// User.
        user: String,
        /// Address.
        address: SocketAddr,
    },
}

/// State of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// NEW sent.
    Calling,
    /// AUTHREQ sent to a caller, or REGAUTH to a registrant.
    Challenged { user: String, challenge: String, new: Option<(String, u32)> },
    /// ACCEPT sent or received.
    Linked,
    /// ANSWER sent or received.
    Up,
    /// HANGUP, REJECT, REGACK or REGREJ sent: over with its acknowledgement.
    Ending,
    /// REGREQ sent.
    Registering,
}

/// Leg with its state.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) leg: Leg,
    pub(super) state: State,
    pub(super) is_caller: bool,
    /// Set once the application knows the call, and unset with its last event.
    pub(super) is_reported: bool,
    pub(super) is_confirmed: bool,
    pub(super) format: u32,
    /// Number of the caller of an incoming call.
    pub(super) caller: Option<String>,
    /// Upper 16 bits of the last full voice frame sent.
    pub(super) sent_high: Option<u16>,
    /// Timestamp of the last voice received.
    pub(super) last_voice: Option<u32>,
    pub(super) ping: Time,
    /// Timestamp and time of the PING that waits for its PONG.
    pub(super) pinged: Option<(u32, Time)>,
}

impl Call {
    pub(super) fn new(id: CallId, leg: Leg, state: State) -> Call {
        Call {
            id,
            leg,
            is_caller: state == State::Calling,
            state,
            is_reported: false,
            is_confirmed: false,
            format: 0,
            caller: None,
            sent_high: None,
            last_voice: None,
            ping: Time::NEVER,
            pinged: None,
        }
    }

    /// Returns the time of the next timer.
    pub(super) fn deadline(&self) -> Time {
        self.leg.deadline().min(self.ping)
    }

    /// Returns the whole timestamp of a mini frame: the one nearest to the last voice.
    pub(super) fn widen(&mut self, low: u16) -> Option<u32> {
        let last = self.last_voice?;
        let step = low.wrapping_sub(last as u16) as i16;
        let timestamp = last.wrapping_add_signed(step.into());
        self.last_voice = Some(timestamp.max(last));
        Some(timestamp)
    }
}
