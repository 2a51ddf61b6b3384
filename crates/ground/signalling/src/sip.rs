//! SIP messages (RFC 3261): parser, writer and typed header fields.
//!
//! [`Message::parse`] splits a datagram into start line, header fields and body. [`Message::check`] then applies the grammar of the
//! header fields it knows. A server can thus answer a request of which a part is malformed.
//!
//! *Does not model*: multipart bodies (RFC 5621) are carried as bytes; S/MIME.

mod address;
mod check;
mod error;
mod framer;
mod headers;
mod message;
mod method;
mod params;
mod scan;
mod uri;
mod via;

pub use address::NameAddr;
pub use error::{MAX_LINES, MAX_MESSAGE, Malformed, Problem};
pub use framer::Framer;
pub use headers::{Header, Headers, name};
pub use message::{CSeq, Message, StartLine, reason};
pub use method::Method;
pub use params::Params;
pub(crate) use scan::Cursor;
pub use scan::{is_token, quote};
pub use uri::{SipUri, Uri};
pub use via::{Transport, Via};

#[cfg(test)]
mod tests;
