//! Matching of messages to transactions (RFC 3261 17.1.3, 17.2.3).

use crate::sip::{Message, Method, name};

/// Identity of a server transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerKey {
    branch: String,
    method: Method,
}

impl ServerKey {
    /// Returns the key of a request. ACK has that of its INVITE.
    pub(super) fn of(request: &Message) -> Option<ServerKey> {
        let method = request.method()?;
        let method = if method == Method::ACK { Method::INVITE } else { method };
        Some(ServerKey { branch: identity(request)?, method })
    }

    /// Returns the key of the INVITE that a CANCEL is for (RFC 3261 9.2).
    pub(super) fn of_cancelled(request: &Message) -> Option<ServerKey> {
        Some(ServerKey { branch: identity(request)?, method: Method::INVITE })
    }
}

/// Returns branch and `sent-by`; without a branch of RFC 3261 the fields of RFC 2543.
fn identity(request: &Message) -> Option<String> {
    let via = request.headers.via()?;
    let port = via.port.unwrap_or(5060);
    if let Some(branch) = via.transaction_branch() {
        return Some(format!("{branch} {}:{port}", via.host.to_ascii_lowercase()));
    }
    let (uri, number) = (request.uri()?, request.cseq()?.number);
    let (call, from) = (request.call_id()?, request.tag(name::FROM).unwrap_or_default());
    let branch = via.branch().unwrap_or_default();
    Some(format!("2543 {uri} {number} {call} {from} {branch} {}:{port}", via.host.to_ascii_lowercase()))
}
