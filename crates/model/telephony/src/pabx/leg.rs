//! Sides of a call through an exchange.

use bentpipe_signalling::agent::CallId as SipId;
use bentpipe_signalling::iax::CallId as IaxId;
use bentpipe_site::CallEnd;
use bentpipe_units::Time;

use crate::protocol::Voice;

/// Side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leg {
    Sip(SipId),
    Iax(IaxId),
    /// Member of a conference here.
    Room {
        conference: usize,
        member: u32,
    },
}

/// Link of a conference to that of another exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Call to the other bridge.
    Call(usize),
    /// Time of the next attempt.
    Wait(Time),
}

/// Returns the Q.850 cause of a SIP status (RFC 3398, section 8.2.6.1).
pub(super) fn cause_of(status: u16) -> u8 {
    match status {
        404 => 1,
        480 => 20,
        486 => 17,
        487 => 16,
        403 => 21,
        408 => 102,
        503 => 42,
        _ => 31,
    }
}

/// Returns the SIP status of a Q.850 cause (RFC 3398, section 7.2.4.1).
pub(super) fn status_of(cause: u8) -> u16 {
    match cause {
        1 => 404,
        16 => 487,
        17 => 486,
        20 => 480,
        21 => 403,
        42 => 503,
        102 => 408,
        _ => 480,
    }
}

/// Returns the end of a call that failed with a status.
pub(super) fn end_of(status: u16) -> CallEnd {
    match status {
        487 => CallEnd::Cancelled,
        408 => CallEnd::TimedOut,
        _ => CallEnd::Failed,
    }
}

/// Returns the name of a codec as flows have it in their records.
pub(super) fn codec_name(encoding: &str) -> String {
    Voice::of_encoding(encoding).map_or(encoding, |voice| voice.name()).to_owned()
}
