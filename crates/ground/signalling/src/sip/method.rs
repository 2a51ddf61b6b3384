//! Methods.

use std::borrow::Cow;
use std::fmt;

use super::scan::is_token;

/// Method of a request; case matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method(Cow<'static, str>);

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident)+) => {
        impl Method {
            $($(#[$doc])* pub const $name: Method = Method(Cow::Borrowed(stringify!($name)));)+

            const KNOWN: &'static [Method] = &[$(Method::$name),+];
        }
    };
}

methods! {
    /// Starts or changes a session.
    INVITE
    /// Confirms a final response to INVITE.
    ACK
    /// Ends a session.
    BYE
    /// Cancels a pending INVITE.
    CANCEL
    /// Registers contacts.
    REGISTER
    /// Asks for capabilities.
    OPTIONS
    /// Confirms a reliable provisional response (RFC 3262).
    PRACK
    /// Changes a session, also before its answer (RFC 3311).
    UPDATE
    /// Asks for a call to another party (RFC 3515).
    REFER
    /// Carries information of an application (RFC 6086).
    INFO
    /// Carries a text (RFC 3428).
    MESSAGE
    /// Asks for notifications (RFC 6665).
    SUBSCRIBE
    /// Notifies of a state (RFC 6665).
    NOTIFY
    /// Publishes a state (RFC 3903).
    PUBLISH
}

impl Method {
    /// Parses a method. `None` if it is not a token.
    pub fn parse(text: &str) -> Option<Method> {
        let known = Method::KNOWN.iter().find(|method| method.0 == text).cloned();
        known.or_else(|| is_token(text).then(|| Method(Cow::Owned(text.to_owned()))))
    }

    /// Returns `true` if a standard defines the method.
    pub fn is_known(&self) -> bool {
        Method::KNOWN.contains(self)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
