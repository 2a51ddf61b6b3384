//! Responses of user agents and registrars.

use crate::sip::{Message, name};

/// Returns a response to a request, with the tag in To unless that has one.
pub(crate) fn response(request: &Message, status: u16, tag: &str) -> Message {
    let mut response = Message::response(&request.headers, status);
    let to = request.headers.address(name::TO).filter(|to| to.tag().is_none());
    if let Some(to) = to {
        response.headers.set(name::TO, to.with_tag(tag));
    }
    response
}
