//! Digest authentication (RFC 2617, RFC 7616, RFC 8760), as SIP uses it (RFC 3261 22).
//!
//! [`Challenge`] is the server's question, [`Credentials`] the client's answer. [`Guard`] is a server that keeps no state per
//! challenge: its nonces carry their time and a keyed hash.
//!
//! *Does not model*: SHA-512-256, `userhash`, `Authentication-Info`.

mod guard;

use std::fmt;

use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::sip::{Cursor, Params, quote};

pub use guard::{Guard, Refusal};

/// Hash function of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// MD5 with nonces in A1.
    Md5Sess,
    /// SHA-256.
    Sha256,
    /// SHA-256 with nonces in A1.
    Sha256Sess,
}

impl Algorithm {
    const ALL: [Algorithm; 4] =
        [Algorithm::Md5, Algorithm::Md5Sess, Algorithm::Sha256, Algorithm::Sha256Sess];

    /// Returns the name in header fields.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Md5Sess => "MD5-sess",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha256Sess => "SHA-256-sess",
        }
    }

    /// Parses a name. No name at all means MD5.
    pub fn parse(name: Option<&str>) -> Option<Algorithm> {
        let Some(name) = name else { return Some(Algorithm::Md5) };
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    fn is_sess(self) -> bool {
        matches!(self, Algorithm::Md5Sess | Algorithm::Sha256Sess)
    }

    /// Returns the hash of the text in hexadecimal digits.
    pub fn hash(self, data: &[u8]) -> String {
        match self {
            Algorithm::Md5 | Algorithm::Md5Sess => hex(&Md5::digest(data)),
            Algorithm::Sha256 | Algorithm::Sha256Sess => hex(&Sha256::digest(data)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Quality of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qop {
    /// Method and URI are protected.
    Auth,
    /// The body is protected too.
    AuthInt,
}

impl Qop {
    fn name(self) -> &'static str {
        match self {
            Qop::Auth => "auth",
            Qop::AuthInt => "auth-int",
        }
    }

    fn parse(name: &str) -> Option<Qop> {
        [Qop::Auth, Qop::AuthInt].into_iter().find(|qop| qop.name().eq_ignore_ascii_case(name))
    }
}

/// User and password of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Request that a digest protects.
#[derive(Clone, Copy, Debug)]
pub struct Protected<'a> {
    /// Method.
    pub method: &'a str,
    /// URI of the digest, which is the Request-URI.
    pub uri: &'a str,
    /// Body.
    pub body: &'a [u8],
}

/// Value of WWW-Authenticate or Proxy-Authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Protection domain.
    pub realm: String,
    /// Nonce.
    pub nonce: String,
    /// Text to be returned unchanged.
    pub opaque: Option<String>,
    /// Hash function.
    pub algorithm: Algorithm,
    /// Qualities of protection on offer, which RFC 2069 does not have.
    pub qop: Vec<Qop>,
    /// Set if the response was right but for an old nonce.
    pub stale: bool,
}

/// Value of Authorization or Proxy-Authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Protection domain.
    pub realm: String,
    /// Nonce of the challenge.
    pub nonce: String,
    /// URI of the digest.
    pub uri: String,
    /// Response, in hexadecimal digits.
    pub response: String,
    /// Hash function.
    pub algorithm: Algorithm,
    /// Text of the challenge.
    pub opaque: Option<String>,
    /// Protection with the client's nonce and its count of requests.
    pub protection: Option<Protection>,
}

/// Client's part of a protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Quality.
    pub qop: Qop,
    /// Nonce of the client.
    pub cnonce: String,
    /// Number of requests with the nonce, from 1.
    pub count: u32,
}

/// Parses `Digest name=value, ...`. `None` for other schemes and malformed values.
fn pairs(text: &str) -> Option<Params> {
    let mut cursor = Cursor::new(text.trim());
    cursor.token().filter(|scheme| scheme.eq_ignore_ascii_case("Digest"))?;
    let mut params = Params::default();
    while !cursor.is_at_end() {
        cursor.skip_space();
        let name = cursor.token()?;
        cursor.eat('=')?;
        let value = if cursor.peek() == Some('"') {
            cursor.quoted()?
        } else {
            cursor.take_while(|byte| byte.is_ascii_graphic() && !b",\"".contains(&byte))?
        };
        let is_new = params.get(name).is_none();
        is_new.then(|| params.set(name, Some(value)))?;
        let has_more = cursor.eat(',').is_some();
        (has_more || cursor.is_at_end()).then_some(())?;
    }
    Some(params)
}

impl Challenge {
    /// Parses a challenge. `None` if the scheme or the algorithm is unknown, or the value malformed.
    pub fn parse(text: &str) -> Option<Challenge> {
        let params = pairs(text)?;
        let qop = params.unquoted("qop").unwrap_or_default();
        let qop: Vec<Qop> = qop.split(',').filter_map(|name| Qop::parse(name.trim())).collect();
        if qop.is_empty() && params.get("qop").is_some() {
            return None;
        }
        Some(Challenge {
            realm: params.unquoted("realm")?,
            nonce: params.unquoted("nonce")?,
            opaque: params.unquoted("opaque"),
            algorithm: Algorithm::parse(params.unquoted("algorithm").as_deref())?,
            qop,
            stale: params.unquoted("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
    }

    /// Returns the credentials of an account for a request.
    ///
    /// The client's nonce is used if the server offers a quality of protection. `auth` is preferred.
    pub fn answer(&self, account: &Account, request: Protected<'_>, cnonce: &str, count: u32) -> Credentials {
        let qop = self.qop.iter().min().copied();
        let protection = qop.map(|qop| Protection { qop, cnonce: cnonce.to_owned(), count });
        let mut credentials = Credentials {
            user: account.user.clone(),
            realm: self.realm.clone(),
            nonce: self.nonce.clone(),
            uri: request.uri.to_owned(),
            response: String::new(),
            algorithm: self.algorithm,
            opaque: self.opaque.clone(),
            protection,
        };
        credentials.response = credentials.expected(&account.password, request, cnonce);
        credentials
    }
}

impl Credentials {
    /// Parses credentials. `None` if the scheme or the algorithm is unknown, or the value malformed.
    pub fn parse(text: &str) -> Option<Credentials> {
        let params = pairs(text)?;
        let protection = match params.unquoted("qop") {
            None => None,
            Some(qop) => Some(Protection {
                qop: Qop::parse(&qop)?,
                cnonce: params.unquoted("cnonce")?,
                count: params
                    .get("nc")
                    .filter(|count| count.len() == 8 && count.bytes().all(|byte| byte.is_ascii_hexdigit()))
                    .and_then(|nc| u32::from_str_radix(nc, 16).ok())?,
            }),
        };
        Some(Credentials {
            user: params.unquoted("username")?,
            realm: params.unquoted("realm")?,
            nonce: params.unquoted("nonce")?,
            uri: params.unquoted("uri")?,
            response: params.unquoted("response")?,
            algorithm: Algorithm::parse(params.unquoted("algorithm").as_deref())?,
            opaque: params.unquoted("opaque"),
            protection,
        })
    }

    /// Returns `true` if the response proves the password for the request.
    pub fn proves(&self, password: &str, request: Protected<'_>) -> bool {
        let cnonce = self.protection.as_ref().map_or("", |protection| &protection.cnonce[..]);
        let expected = self.expected(password, request, cnonce);
        let differences =
            expected.bytes().zip(self.response.bytes()).fold(0, |sum, (one, two)| sum | (one ^ two));
        // All bytes are compared, so that the time does not show the first that differs.
        expected.len() == self.response.len() && differences == 0
    }

    /// Returns the response (RFC 7616 3.4.1).
    fn expected(&self, password: &str, request: Protected<'_>, cnonce: &str) -> String {
        let hash = |text: String| self.algorithm.hash(text.as_bytes());
        let mut a1 = hash(format!("{}:{}:{password}", self.user, self.realm));
        if self.algorithm.is_sess() {
            a1 = hash(format!("{a1}:{}:{cnonce}", self.nonce));
        }
        let mut a2 = format!("{}:{}", request.method, self.uri);
        if self.protection.as_ref().is_some_and(|protection| protection.qop == Qop::AuthInt) {
            a2 = format!("{a2}:{}", self.algorithm.hash(request.body));
        }
        let a2 = hash(a2);
        match &self.protection {
            None => hash(format!("{a1}:{}:{a2}", self.nonce)),
            Some(Protection { qop, cnonce, count }) => {
                hash(format!("{a1}:{}:{count:08x}:{cnonce}:{}:{a2}", self.nonce, qop.name()))
            }
        }
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest realm={}, nonce={}", quote(&self.realm), quote(&self.nonce))?;
        self.opaque.iter().try_for_each(|opaque| write!(f, ", opaque={}", quote(opaque)))?;
        write!(f, ", algorithm={}", self.algorithm.name())?;
        if !self.qop.is_empty() {
            let names: Vec<_> = self.qop.iter().map(|qop| qop.name()).collect();
            write!(f, ", qop=\"{}\"", names.join(","))?;
        }
        f.write_str(if self.stale { ", stale=true" } else { "" })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest username={}, realm={}", quote(&self.user), quote(&self.realm))?;
        write!(f, ", nonce={}, uri={}", quote(&self.nonce), quote(&self.uri))?;
        write!(f, ", response=\"{}\", algorithm={}", self.response, self.algorithm.name())?;
        self.opaque.iter().try_for_each(|opaque| write!(f, ", opaque={}", quote(opaque)))?;
        match &self.protection {
            None => Ok(()),
            Some(Protection { qop, cnonce, count }) => {
                write!(f, ", qop={}, cnonce={}, nc={count:08x}", qop.name(), quote(cnonce))
            }
        }
    }
}

#[cfg(test)]
mod tests;
