//! URIs (RFC 3261 19.1).

use std::fmt;
use std::str::FromStr;

use super::Params;
use super::scan::{Cursor, is_escaped, unescape};

/// URI of a request line or header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uri {
    /// `sip:` or `sips:`.
    Sip(Box<SipUri>),
    /// Absolute URI of another scheme.
    Other {
        /// Scheme, as written.
        scheme: String,
        /// Text after the colon.
        rest: String,
    },
}

/// SIP or SIPS URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipUri {
    /// Set for `sips:`.
    pub secure: bool,
    /// User, with escapes.
    pub user: Option<String>,
    /// Password, with escapes.
    pub password: Option<String>,
    /// Host name or address, IPv6 in brackets.
    pub host: String,
    /// Port.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params,
    /// Header fields after `?`, with escapes.
    pub headers: Option<String>,
}

const USER: &[u8] = b"-_.!~*'()&=+$,;?/";
const PASSWORD: &[u8] = b"-_.!~*'()&=+$,";
const PARAM: &[u8] = b"-_.!~*'()[]/:&+$";
const HEADERS: &[u8] = b"-_.!~*'()[]/?:+$&=";
const OTHER: &[u8] = b"-_.!~*'()[]/?:+$&=;@,#";

fn is_text(text: &str, marks: &[u8]) -> bool {
    is_escaped(text, |byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

impl SipUri {
    /// Creates a SIP URI without port and parameters.
    pub fn new(user: Option<&str>, host: &str) -> SipUri {
        SipUri {
            secure: false,
            user: user.map(str::to_owned),
            password: None,
            host: host.to_owned(),
            port: None,
            params: Params::default(),
            headers: None,
        }
    }

    /// Returns the user with escapes replaced.
    pub fn user_bytes(&self) -> Option<Vec<u8>> {
        self.user.as_deref().map(unescape)
    }

    /// Returns `true` if the URI has the parameter `lr` of loose routers.
    pub fn is_loose(&self) -> bool {
        self.params.get("lr").is_some()
    }

    fn parse(secure: bool, text: &str) -> Option<SipUri> {
        let (userinfo, rest) = match text.split_once('@') {
            Some((userinfo, rest)) => (Some(userinfo), rest),
            None => (None, text),
        };
        let (user, password) = userinfo.map_or(Some((None, None)), parse_userinfo)?;
        let (rest, headers) = match rest.split_once('?') {
            Some((rest, headers)) => (rest, Some(headers)),
            None => (rest, None),
        };
        let mut cursor = Cursor::new(rest);
        let host = cursor.host()?.to_owned();
        let port = cursor.port()?;
        let params = parse_params(cursor.rest())?;
        let is_valid = headers.is_none_or(|headers| !headers.is_empty() && is_text(headers, HEADERS));
        is_valid.then(|| SipUri {
            secure,
            user,
            password,
            host,
            port,
            params,
            headers: headers.map(str::to_owned),
        })
    }

    /// Returns `true` if both URIs are equivalent (RFC 3261 19.1.4).
    pub fn is_equivalent(&self, other: &SipUri) -> bool {
        let decoded = |text: &Option<String>| text.as_deref().map(unescape);
        self.secure == other.secure
            && self.user_bytes() == other.user_bytes()
            && decoded(&self.password) == decoded(&other.password)
            && self.host.eq_ignore_ascii_case(&other.host)
            && self.port == other.port
            && self.agrees_with(other)
            && other.agrees_with(self)
            && sorted_headers(self) == sorted_headers(other)
    }

    /// Returns `true` if the other URI has each parameter or may lack it.
    fn agrees_with(&self, other: &SipUri) -> bool {
        const MUST_MATCH: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];
        self.params.iter().all(|(name, value)| match other.params.get(name) {
            Some(there) => unescape(value.unwrap_or("")).eq_ignore_ascii_case(&unescape(there)),
            None => !MUST_MATCH.iter().any(|must| must.eq_ignore_ascii_case(name)),
        })
    }
}

fn sorted_headers(uri: &SipUri) -> Vec<Vec<u8>> {
    let mut headers: Vec<_> =
        uri.headers.iter().flat_map(|headers| headers.split('&')).map(unescape).collect();
    headers.sort();
    headers
}

type UserInfo = (Option<String>, Option<String>);

fn parse_userinfo(text: &str) -> Option<UserInfo> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let is_valid =
        !user.is_empty() && is_text(user, USER) && password.is_none_or(|text| is_text(text, PASSWORD));
    is_valid.then(|| (Some(user.to_owned()), password.map(str::to_owned)))
}

fn parse_params(text: &str) -> Option<Params> {
    if text.is_empty() {
        return Some(Params::default());
    }
    let pairs = text.strip_prefix(';')?.split(';').map(|param| {
        let (name, value) = match param.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (param, None),
        };
        let is_valid =
            !name.is_empty() && is_text(name, PARAM) && value.is_none_or(|text| is_text(text, PARAM));
        is_valid.then(|| (name.to_owned(), value.map(str::to_owned)))
    });
    pairs.collect::<Option<Vec<_>>>().map(Params::from_pairs)
}

impl Uri {
    /// Parses a URI. `None` if it does not follow the grammar.
    pub fn parse(text: &str) -> Option<Uri> {
        let (scheme, rest) = text.split_once(':')?;
        let secure = scheme.eq_ignore_ascii_case("sips");
        if secure || scheme.eq_ignore_ascii_case("sip") {
            return SipUri::parse(secure, rest).map(|uri| Uri::Sip(Box::new(uri)));
        }
        let is_scheme = scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_valid = is_scheme && !rest.is_empty() && is_text(rest, OTHER);
        is_valid.then(|| Uri::Other { scheme: scheme.to_owned(), rest: rest.to_owned() })
    }

    /// Returns the SIP URI, if it is one.
    pub fn as_sip(&self) -> Option<&SipUri> {
        match self {
            Uri::Sip(uri) => Some(uri),
            Uri::Other { .. } => None,
        }
    }

    /// Returns `true` if both URIs are equivalent.
    pub fn is_equivalent(&self, other: &Uri) -> bool {
        match (self, other) {
            (Uri::Sip(one), Uri::Sip(two)) => one.is_equivalent(two),
            _ => self == other,
        }
    }
}

impl From<SipUri> for Uri {
    fn from(uri: SipUri) -> Uri {
        Uri::Sip(Box::new(uri))
    }
}

impl FromStr for Uri {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Uri, &'static str> {
        Uri::parse(text).ok_or("expected a URI such as \"sip:alice@192.0.2.1:5060\"")
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uri::Sip(uri) => uri.fmt(f),
            Uri::Other { scheme, rest } => write!(f, "{scheme}:{rest}"),
        }
    }
}

impl fmt::Display for SipUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.secure { "sips:" } else { "sip:" })?;
        if let Some(user) = &self.user {
            f.write_str(user)?;
            self.password.iter().try_for_each(|password| write!(f, ":{password}"))?;
            f.write_str("@")?;
        }
        f.write_str(&self.host)?;
        self.port.iter().try_for_each(|port| write!(f, ":{port}"))?;
        self.params.fmt(f)?;
        self.headers.iter().try_for_each(|headers| write!(f, "?{headers}"))
    }
}
