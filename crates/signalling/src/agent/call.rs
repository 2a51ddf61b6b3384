//! State of a call.

use bentpipe_units::{Span, Time};

use crate::dialog::Dialog;
use crate::sdp::{Capabilities, Negotiated, Session};
use crate::sip::Message;
use crate::transaction::{ClientId, Peer, ServerId};

/// Call of a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(super) u64);

/// INVITE or re-INVITE of this side without a final response.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) client: ClientId,
    pub(super) invite: Message,
    pub(super) offer: Session,
    pub(super) has_credentials: bool,
    pub(super) is_provisional: bool,
    pub(super) is_cancelled: bool,
}

/// INVITE of the peer without a final response.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) server: ServerId,
    pub(super) invite: Message,
    pub(super) offer: Option<Session>,
}

/// 2xx of this side that waits for its ACK (RFC 3261 13.3.1.4).
#[derive(Debug)]
pub(super) struct Unacknowledged {
    pub(super) server: ServerId,
    pub(super) response: Message,
    pub(super) number: u32,
    /// Offer in the 2xx, if the INVITE had none.
    pub(super) offer: Option<Session>,
    pub(super) interval: Span,
    pub(super) next: Time,
    pub(super) until: Time,
    pub(super) is_first: bool,
}

/// ACK sent for the 2xx of a branch.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) tag: String,
    pub(super) number: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) to: Peer,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: String,
    pub(super) merge_key: Option<String>,
    pub(super) local_tag: String,
    pub(super) peer: Peer,
    pub(super) dialog: Option<Dialog>,
    pub(super) outgoing: Option<Outgoing>,
    pub(super) incoming: Option<Incoming>,
    pub(super) unacknowledged: Option<Unacknowledged>,
    /// ACKs by branch, so that a repeated 2xx gets the same again.
    pub(super) acknowledged: Vec<Acknowledged>,
    pub(super) capabilities: Capabilities,
    pub(super) media: Option<Negotiated>,
    pub(super) session: u64,
    pub(super) version: u64,
    /// Set once established.
    pub(super) is_up: bool,
    /// Set until the ACK, if the host has not proved its address.
    pub(super) is_unproven: bool,
    /// Set while it counts as a call of its source.
    pub(super) is_counted: bool,
    /// Set once BYE is sent, or to be sent after the ACK.
    pub(super) is_ending: bool,
    /// Set once the end of the call is reported, before its BYE is answered.
    pub(super) is_reported: bool,
    /// Transaction of the last INVITE, in which branches of a fork answer.
    pub(super) client: Option<ClientId>,
    /// Transaction of the BYE of this side.
    pub(super) bye: Option<ClientId>,
    /// BYE of this side, to be sent again with credentials.
    pub(super) has_bye_credentials: bool,
    /// Time of the next try of a re-INVITE after 491.
    pub(super) retry: Time,
}

impl Call {
    /// Returns the time of the next timer.
    pub(super) fn deadline(&self) -> Time {
        let unacknowledged =
            self.unacknowledged.as_ref().map_or(Time::NEVER, |waiting| waiting.next.min(waiting.until));
        unacknowledged.min(self.retry)
    }

    /// Returns the next version of the session description.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}
