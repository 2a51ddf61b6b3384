//! State of a call.

use std::net::IpAddr;

use bentpipe_units::{Span, Time};

use super::peer_of;
use crate::dialog::Dialog;
use crate::sdp::{self, Body, Capabilities, Negotiated, Session, body_of};
use crate::sip::Message;
use crate::transaction::{ClientId, Peer, ServerId};

/// Maximum number of branches of a fork that are acknowledged.
pub(super) const MAX_BRANCHES: usize = 16;
/// Option of reliable provisional responses.
pub(super) const RELIABLE: &str = "100rel";

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
    /// Audio by the answer in a provisional response.
    pub(super) answered: Option<Negotiated>,
}

/// INVITE of the peer without a final response.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) server: ServerId,
    pub(super) invite: Message,
    pub(super) offer: Option<Session>,
    /// Answer in a provisional response, and its outcome.
    pub(super) answered: Option<(Session, Negotiated)>,
    pub(super) reliable: Option<Reliable>,
    /// Set once it is to be answered, when PRACK comes.
    pub(super) waits_for_prack: bool,
}

impl Incoming {
    pub(super) fn new(server: ServerId, invite: Message, offer: Option<Session>) -> Incoming {
        Incoming { server, invite, offer, answered: None, reliable: None, waits_for_prack: false }
    }
}

/// Reliable provisional response of this side (RFC 3262 3).
#[derive(Debug)]
pub(super) struct Reliable {
    pub(super) response: Message,
    /// Number in RSeq.
    pub(super) number: u32,
    pub(super) interval: Span,
    pub(super) next: Time,
    pub(super) until: Time,
    pub(super) is_acknowledged: bool,
}

/// Early dialog of a caller with one branch (RFC 3261 12.1).
#[derive(Debug)]
pub(super) struct Early {
    pub(super) dialog: Dialog,
    /// RSeq of the last reliable response.
    pub(super) number: Option<u32>,
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
    /// Dialogs of a caller before the answer.
    pub(super) early: Vec<Early>,
    /// Host that an ACK or PRACK of this dialog came from.
    pub(super) proven: Option<IpAddr>,
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
        let reliable = self.incoming.as_ref().and_then(|incoming| incoming.reliable.as_ref());
        let reliable = reliable.filter(|reliable| !reliable.is_acknowledged);
        let reliable = reliable.map_or(Time::NEVER, |reliable| reliable.next.min(reliable.until));
        unacknowledged.min(reliable).min(self.retry)
    }

    /// Returns the destination of requests of this side in its dialog.
    ///
    /// Any host may be in the Contact and the routes of an INVITE. They count if the INVITE or its ACK came from there; what this
    /// side called was chosen by it.
    pub(super) fn destination(&self) -> Peer {
        let named = self.dialog.as_ref().and_then(|dialog| peer_of(dialog.next_hop()));
        let is_caller = self.merge_key.is_none();
        let host = |at: IpAddr| at.to_canonical();
        let is_proven = |to: &Peer| {
            let named = host(to.address.ip());
            is_caller
                || named == host(self.peer.address.ip())
                || self.proven.is_some_and(|from| named == host(from))
        };
        named.filter(is_proven).unwrap_or(self.peer)
    }

    /// Returns the dialog with a tag of the peer, established or early.
    pub(super) fn dialog_with(&mut self, tag: Option<&str>) -> Option<&mut Dialog> {
        let is_of = |dialog: &Dialog| dialog.remote.tag().is_none() || dialog.remote.tag() == tag;
        match &mut self.dialog {
            Some(dialog) => Some(dialog).filter(|dialog| is_of(dialog)),
            None => self.early.iter_mut().map(|early| &mut early.dialog).find(|dialog| is_of(dialog)),
        }
    }

    /// Returns the next version of the session description.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

/// Returns the audio by the answer to an offer that a response has.
pub(super) fn answer_in(offer: &Session, response: &Message) -> Option<Negotiated> {
    let Body::Description(bytes) = body_of(response) else { return None };
    sdp::outcome(offer, &Session::parse(bytes).ok()?).ok()
}
