//! Parameters after a semicolon.

use std::fmt;

use super::scan::{Cursor, is_token_byte, unquote};

/// Parameters of a header field or URI, in their order.
///
/// Names compare without case. Values keep their quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, Option<String>)>);

impl Params {
    /// Parses `;name=value` parameters up to the end of the text.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Option<Params> {
        let mut params = Params::default();
        while cursor.eat(';').is_some() {
            let name = cursor.token()?.to_owned();
            let value = match cursor.eat('=') {
                Some(()) => Some(value(cursor)?.to_owned()),
                None => None,
            };
            params.0.push((name, value));
        }
        Some(params)
    }

    /// Creates parameters from pairs of a URI.
    pub(super) fn from_pairs(pairs: Vec<(String, Option<String>)>) -> Params {
        Params(pairs)
    }

    /// Returns the value of a parameter: the empty text if it has none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.unwrap_or(""))
    }

    /// Returns the value of a parameter without quotes.
    pub fn unquoted(&self, name: &str) -> Option<String> {
        self.get(name).map(unquote)
    }

    /// Sets a parameter. The value must be a token, a host or a quoted string.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        match self.0.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(name)) {
            Some((_, place)) => *place = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes a parameter.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    /// Returns the parameters in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (&name[..], value.as_deref()))
    }

    /// Returns `true` if a name occurs twice.
    pub(super) fn has_duplicates(&self) -> bool {
        let twice = |at: usize| self.0[..at].iter().any(|(name, _)| name.eq_ignore_ascii_case(&self.0[at].0));
        (1..self.0.len()).any(twice)
    }
}

/// Returns a token, host or quoted string.
fn value<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    match cursor.peek()? {
        '"' => cursor.quoted(),
        _ => cursor.take_while(|byte| is_token_byte(byte) || b"[]:/".contains(&byte)),
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, value)| match value {
            Some(value) => write!(f, ";{name}={value}"),
            None => write!(f, ";{name}"),
        })
    }
}
