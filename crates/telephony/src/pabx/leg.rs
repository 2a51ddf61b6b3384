//! Sides of a call through an exchange.

use bentpipe_signalling::agent::CallId as SipId;
use bentpipe_signalling::iax::CallId as IaxId;

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
