//! Via (RFC 3261 20.42).

use std::fmt;

use super::Params;
use super::scan::Cursor;

/// Transport protocol of a Via header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP: unreliable, so that requests are retransmitted.
    Udp,
    /// TCP.
    Tcp,
}

impl Transport {
    /// Returns `true` if the transport delivers all messages.
    pub fn is_reliable(self) -> bool {
        self == Transport::Tcp
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        })
    }
}

/// Hop of the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Transport, as written: "UDP".
    pub transport: String,
    /// Host of `sent-by`.
    pub host: String,
    /// Port of `sent-by`.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params,
}

/// Start of branches that identify transactions (RFC 3261 8.1.1.7).
pub(crate) const COOKIE: &str = "z9hG4bK";

impl Via {
    /// Creates a hop that asks for `rport` (RFC 3581).
    pub fn new(transport: Transport, host: &str, port: u16, branch: &str) -> Via {
        let mut params = Params::default();
        params.set("rport", None);
        params.set("branch", Some(branch));
        Via { transport: transport.to_string(), host: host.to_owned(), port: Some(port), params }
    }

    /// Parses one hop. `None` if it does not follow the grammar.
    pub fn parse(text: &str) -> Option<Via> {
        let mut cursor = Cursor::new(text.trim());
        cursor.token().filter(|name| name.eq_ignore_ascii_case("SIP"))?;
        cursor.eat('/')?;
        cursor.token().filter(|version| *version == "2.0")?;
        cursor.eat('/')?;
        let transport = cursor.token()?.to_owned();
        cursor.skip_space();
        let host = cursor.host()?.to_owned();
        let port = cursor.port()?;
        let params = Params::parse(&mut cursor)?;
        cursor.is_at_end().then_some(Via { transport, host, port, params })
    }

    /// Returns the branch.
    pub fn branch(&self) -> Option<&str> {
        self.params.get("branch")
    }

    /// Returns the branch if it identifies a transaction as RFC 3261 has it.
    pub fn transaction_branch(&self) -> Option<&str> {
        let has_cookie = |branch: &&str| {
            branch.get(..COOKIE.len()).is_some_and(|start| start.eq_ignore_ascii_case(COOKIE))
                && branch.len() > COOKIE.len()
        };
        self.branch().filter(has_cookie)
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIP/2.0/{} {}", self.transport, self.host)?;
        self.port.iter().try_for_each(|port| write!(f, ":{port}"))?;
        self.params.fmt(f)
    }
}
