//! Dialogs (RFC 3261 12).

use crate::sip::{CSeq, Message, Method, NameAddr, StartLine, Uri, name};

/// State that two user agents share for the length of a call.
///
/// *Does not model*: strict routers of RFC 2543.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    /// Call-ID.
    pub call_id: String,
    /// Local address, with its tag.
    pub local: NameAddr,
    /// Remote address, with its tag if it has one.
    pub remote: NameAddr,
    /// Number of the last request sent.
    pub local_number: u32,
    /// Number of the last request received.
    pub remote_number: Option<u32>,
    /// Contact of the peer.
    pub target: Uri,
    /// Proxies to pass, next one first.
    pub routes: Vec<NameAddr>,
}

impl Dialog {
    /// Creates the dialog of a caller from INVITE and response (RFC 3261 12.1.2).
    pub fn of_caller(invite: &Message, response: &Message) -> Option<Dialog> {
        let contact = response.headers.addresses(name::CONTACT)?.into_iter().next();
        let target = contact.map(|contact| contact.uri).or_else(|| invite.uri().cloned())?;
        let mut routes = response.headers.addresses(name::RECORD_ROUTE)?;
        routes.reverse();
        Some(Dialog {
            call_id: invite.call_id()?.to_owned(),
            local: invite.headers.address(name::FROM)?,
            remote: response.headers.address(name::TO)?,
            local_number: invite.cseq()?.number,
            remote_number: None,
            target,
            routes,
        })
    }

    /// Creates the dialog of a callee from INVITE and tag (RFC 3261 12.1.1).
    pub fn of_callee(invite: &Message, tag: &str) -> Option<Dialog> {
        let remote = invite.headers.address(name::FROM)?;
        let contact = invite.headers.addresses(name::CONTACT)?.into_iter().next();
        Some(Dialog {
            call_id: invite.call_id()?.to_owned(),
            local: invite.headers.address(name::TO)?.with_tag(tag),
            target: contact.map_or_else(|| remote.uri.clone(), |contact| contact.uri),
            remote,
            local_number: 0,
            remote_number: Some(invite.cseq()?.number),
            routes: invite.headers.addresses(name::RECORD_ROUTE)?,
        })
    }

    /// Returns the dialog with the numbers of an early one, which requests continue.
    #[must_use]
    pub(crate) fn numbered_as(self, early: &Dialog) -> Dialog {
        let local_number = self.local_number.max(early.local_number);
        Dialog { local_number, remote_number: self.remote_number.max(early.remote_number), ..self }
    }

    /// Returns a request within the dialog, with the next number.
    pub fn request(&mut self, method: Method) -> Message {
        self.local_number += 1;
        self.numbered(method, self.local_number)
    }

    /// Returns the ACK of a 2xx to the INVITE with the number (RFC 3261 13.2.2.4).
    pub fn ack(&self, number: u32) -> Message {
        self.numbered(Method::ACK, number)
    }

    fn numbered(&self, method: Method, number: u32) -> Message {
        let mut message = Message::request(method.clone(), self.target.clone());
        for route in &self.routes {
            message.headers.push(name::ROUTE, route);
        }
        message.headers.push(name::MAX_FORWARDS, 70);
        message.headers.push(name::FROM, &self.local);
        message.headers.push(name::TO, &self.remote);
        message.headers.push(name::CALL_ID, &self.call_id);
        message.headers.push(name::CSEQ, CSeq { number, method });
        message
    }

    /// Returns the URI of the next hop: the first proxy, else the peer.
    pub fn next_hop(&self) -> &Uri {
        self.routes.first().map_or(&self.target, |route| &route.uri)
    }

    /// Returns `true` if the request is new, and records its number (RFC 3261 12.2.2).
    pub fn accepts(&mut self, request: &Message) -> bool {
        let Some(CSeq { number, .. }) = request.cseq() else { return false };
        let is_new = self.remote_number.is_none_or(|last| number > last);
        if is_new {
            self.remote_number = Some(number);
        }
        is_new
    }

    /// Sets the target from the Contact of a request or response that may change it.
    pub fn refresh(&mut self, message: &Message) {
        debug_assert!(!matches!(message.start, StartLine::Response { status: 300.., .. }));
        let contact =
            message.headers.addresses(name::CONTACT).and_then(|contacts| contacts.into_iter().next());
        if let Some(contact) = contact {
            self.target = contact.uri;
        }
    }
}
