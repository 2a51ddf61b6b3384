//! Addresses of From, To, Contact, Route and Record-Route.

use std::fmt;

use super::scan::{Cursor, is_token_byte, quote, unquote};
use super::{Params, Uri};

/// Address with a display name and parameters (RFC 3261 20.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAddr {
    /// Display name, without quotes.
    pub display: Option<String>,
    /// URI.
    pub uri: Uri,
    /// Parameters of the header field.
    pub params: Params,
}

impl NameAddr {
    /// Creates an address without display name and parameters.
    pub fn new(uri: Uri) -> NameAddr {
        NameAddr { display: None, uri, params: Params::default() }
    }

    /// Parses one address. `None` if it does not follow the grammar.
    pub fn parse(text: &str) -> Option<NameAddr> {
        let mut cursor = Cursor::new(text.trim());
        let (display, uri) = bracketed(&mut cursor).or_else(|| bare(&mut cursor))?;
        let params = Params::parse(&mut cursor)?;
        cursor.is_at_end().then_some(NameAddr { display, uri, params })
    }

    /// Returns the tag.
    pub fn tag(&self) -> Option<&str> {
        self.params.get("tag")
    }

    /// Returns the address with the tag.
    pub fn with_tag(mut self, tag: &str) -> NameAddr {
        self.params.set("tag", Some(tag));
        self
    }
}

/// Parses `name <uri>`; moves the cursor only if it can.
fn bracketed(cursor: &mut Cursor<'_>) -> Option<(Option<String>, Uri)> {
    let mut ahead = *cursor;
    let display = if ahead.peek() == Some('"') {
        Some(unquote(ahead.quoted()?))
    } else {
        let words = ahead.take_while(|byte| is_token_byte(byte) || b" \t".contains(&byte)).unwrap_or("");
        Some(words.trim().to_owned()).filter(|words| !words.is_empty())
    };
    ahead.skip_space();
    ahead.eat_tight('<')?;
    let uri = Uri::parse(ahead.until('>')?)?;
    *cursor = ahead;
    Some((display, uri))
}

/// Parses a URI without brackets, whose semicolons start parameters of the header field.
fn bare(cursor: &mut Cursor<'_>) -> Option<(Option<String>, Uri)> {
    let text = cursor.take_while(|byte| byte.is_ascii_graphic() && !b";,<>\"?".contains(&byte))?;
    let uri = Uri::parse(text)?;
    Some((None, uri))
}

impl fmt::Display for NameAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(display) = &self.display {
            write!(f, "{} ", quote(display))?;
        }
        write!(f, "<{}>{}", self.uri, self.params)
    }
}
