//! Header fields in their order.

use std::borrow::Cow;

use super::scan::{is_token, split_list};
use super::{NameAddr, Via};

/// Header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name in its long form.
    pub name: Cow<'static, str>,
    /// Value on one line, without white space around it.
    pub value: String,
}

/// Header fields of a message, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

macro_rules! names {
    ($($constant:ident $text:literal $($compact:literal)?;)+) => {
        /// Names of header fields.
        pub mod name {
            $(#[doc = concat!("`", $text, "`.")] pub const $constant: &str = $text;)+
        }

        fn canonical(name: &str) -> Option<&'static str> {
            $(if name.eq_ignore_ascii_case($text) $(|| name.eq_ignore_ascii_case($compact))? {
                return Some($text);
            })+
            None
        }
    };
}

names! {
    VIA "Via" "v";
    FROM "From" "f";
    TO "To" "t";
    CALL_ID "Call-ID" "i";
    CSEQ "CSeq";
    CONTACT "Contact" "m";
    MAX_FORWARDS "Max-Forwards";
    CONTENT_LENGTH "Content-Length" "l";
    CONTENT_TYPE "Content-Type" "c";
    ROUTE "Route";
    RECORD_ROUTE "Record-Route";
    EXPIRES "Expires";
    MIN_EXPIRES "Min-Expires";
    ALLOW "Allow";
    ACCEPT "Accept";
    SUPPORTED "Supported" "k";
    UNSUPPORTED "Unsupported";
    REQUIRE "Require";
    PROXY_REQUIRE "Proxy-Require";
    AUTHORIZATION "Authorization";
    PROXY_AUTHORIZATION "Proxy-Authorization";
    WWW_AUTHENTICATE "WWW-Authenticate";
    PROXY_AUTHENTICATE "Proxy-Authenticate";
    DATE "Date";
    RETRY_AFTER "Retry-After";
    USER_AGENT "User-Agent";
    SERVER "Server";
    SUBJECT "Subject" "s";
    CONTENT_ENCODING "Content-Encoding" "e";
    WARNING "Warning";
    RSEQ "RSeq";
    RACK "RAck";
}

/// Names whose fields may be joined with commas (RFC 3261 7.3.1).
const LISTS: &[&str] = &[
    name::VIA,
    name::CONTACT,
    name::ROUTE,
    name::RECORD_ROUTE,
    name::ALLOW,
    name::ACCEPT,
    name::SUPPORTED,
    name::UNSUPPORTED,
    name::REQUIRE,
    name::PROXY_REQUIRE,
];

impl Headers {
    /// Adds a field at the end. The value must be on one line.
    pub fn push(&mut self, name: &str, value: impl ToString) {
        let name = canonical(name).map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed);
        let value = value.to_string();
        debug_assert!(is_token(&name) && !value.contains(['\r', '\n']), "{name}: {value}");
        self.0.push(Header { name, value });
    }

    /// Adds a field in front of all others.
    pub fn push_front(&mut self, name: &str, value: impl ToString) {
        self.push(name, value);
        self.0.rotate_right(1);
    }

    /// Replaces all fields of a name by one, in the place of the first.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        let first = self.0.iter().position(|header| header.name.eq_ignore_ascii_case(name));
        self.push(name, value);
        if let (Some(first), Some(header)) = (first, self.0.pop_if(|_| first.is_some())) {
            self.0.retain(|header| !header.name.eq_ignore_ascii_case(name));
            self.0.insert(first, header);
        }
    }

    /// Removes all fields of a name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|header| !header.name.eq_ignore_ascii_case(name));
    }

    /// Returns all fields.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }

    /// Returns the values of all fields of a name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| &header.value[..])
    }

    /// Returns the value of the first field of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the items of a list, of all fields of the name. Items of unclosed lists are left out.
    pub fn list(&self, name: &str) -> Vec<&str> {
        self.all(name).filter_map(split_list).flatten().filter(|item| !item.is_empty()).collect()
    }

    /// Returns the addresses of a list. `None` if one does not follow the grammar.
    pub fn addresses(&self, name: &str) -> Option<Vec<NameAddr>> {
        let lists: Option<Vec<_>> = self.all(name).map(split_list).collect();
        lists?.into_iter().flatten().map(NameAddr::parse).collect()
    }

    /// Returns the address of a field that has one.
    pub fn address(&self, name: &str) -> Option<NameAddr> {
        NameAddr::parse(self.get(name)?)
    }

    /// Returns the topmost Via.
    pub fn via(&self) -> Option<Via> {
        Via::parse(split_list(self.get(name::VIA)?)?.first()?)
    }

    /// Removes the first item of a list.
    pub fn pop_item(&mut self, name: &str) {
        let Some(at) = self.0.iter().position(|header| header.name.eq_ignore_ascii_case(name)) else {
            return;
        };
        let rest = split_list(&self.0[at].value).map(|items| items[1..].join(", ")).unwrap_or_default();
        if rest.is_empty() {
            self.0.remove(at);
        } else {
            self.0[at].value = rest;
        }
    }

    /// Replaces the first item of a list.
    pub fn replace_item(&mut self, name: &str, value: impl ToString) {
        self.pop_item(name);
        let at = self.0.iter().position(|header| header.name.eq_ignore_ascii_case(name));
        self.push(name, value);
        if let Some(header) = self.0.pop() {
            self.0.insert(at.unwrap_or(0), header);
        }
    }

    /// Returns `true` if the fields of the name may be joined with commas.
    pub(super) fn is_list(name: &str) -> bool {
        LISTS.contains(&name)
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list of fields is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
