//! Node file.
//!
//! These declarations are the format: reading and messages are made from them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bentpipe_dtn::blocks::Aggregation;
use bentpipe_dtn::node::Routing;
use bentpipe_units::{Bytes, Rate, Span};
use serde::{Deserialize, Deserializer, de};

use bentpipe_wire::dtn::eid::Eid;
use sha2::{Digest, Sha256};

use crate::resolve;
use crate::tls::{Policy, Settings};

/// Bundle node: endpoint, store, listeners, neighbours and routes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// Endpoint of the node: "ipn:NUMBER.0".
    #[serde(deserialize_with = "eid")]
    pub eid: Eid,
    /// Folder of the store, from the folder of this file.
    pub store: PathBuf,
    /// Bytes of bundles that wait, in memory and on disk, and 512 B of each. Default: 256 MB.
    #[serde(default = "default_storage")]
    pub storage: Bytes,
    /// Longest bundle that is accepted. Default: 64 MB.
    #[serde(default = "default_bundle")]
    pub max_bundle: Bytes,
    /// Enables waiting for the disk before a bundle is acknowledged. Default: true.
    #[serde(default = "default_true")]
    pub sync: bool,
    /// Enables status reports. Default: true.
    #[serde(default = "default_true")]
    pub reports: bool,
    /// Time for which a bundle waits for a route before it is deleted. Default: 5 s.
    ///
    /// Bundles for nodes that have been connected wait until their lifetime ends.
    #[serde(default = "default_no_route")]
    pub no_route: Span,
    /// Contact plan, in ION's form or HDTN's JSON. Without one, routes are static.
    pub plan: Option<PathBuf>,
    /// Start of the plan's relative times, in Unix seconds. Default: the start of the node.
    pub plan_start: Option<u64>,
    /// Listeners.
    #[serde(default)]
    pub listen: Vec<Listen>,
    /// Neighbours.
    #[serde(default)]
    pub neighbour: Vec<Neighbour>,
    /// Neighbours by destination node; `default` for all others.
    #[serde(default)]
    pub routes: BTreeMap<String, NodeId>,
    /// Copies to neighbours in place of routes. Default: none; bundles follow the plan or the routes.
    pub routing: Option<Copies>,
    /// Interval of keepalives on TCPCL. Default: 30 s.
    #[serde(default = "default_keepalive")]
    pub keepalive: Span,
    /// Maximum number of blocks of LTP in transmission, and in reception. Default: 256.
    #[serde(default = "default_sessions")]
    pub ltp_sessions: u32,
    /// TLS on TCPCL. Default: none.
    pub tls: Option<Settings>,
}

/// Routing by copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Copies {
    /// A copy to each neighbour.
    Epidemic,
    /// Copies to the first neighbours; then each copy waits for the destination.
    SprayAndWait {
        /// Maximum number of copies of a bundle.
        copies: u32,
        /// Enables giving half of a node's copies to another. Otherwise the source gives one at a time. Default: true.
        #[serde(default = "default_true")]
        binary: bool,
    },
}

impl From<Copies> for Routing {
    fn from(copies: Copies) -> Routing {
        match copies {
            Copies::Epidemic => Routing::Epidemic,
            Copies::SprayAndWait { copies, binary } => Routing::Spray { copies, is_binary: binary },
        }
    }
}

/// Convergence layer of a listener or neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeLayer {
    /// TCP convergence layer version 4 (RFC 9174).
    Tcpcl,
    /// Minimal TCP convergence layer, without acknowledgements.
    Mtcp,
    /// Bundles in datagrams (RFC 7122).
    Udp,
    /// Licklider Transmission Protocol over UDP (RFC 5326, RFC 7122).
    Ltp,
}

/// Listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Convergence layer.
    pub layer: NodeLayer,
    /// Local address.
    #[serde(deserialize_with = "address")]
    pub at: SocketAddr,
    /// Enables applications of other machines, for endpoints of this node. Default: those of this machine only.
    #[serde(default)]
    pub applications: bool,
    /// Use of TLS by its sessions. Default: that of `[tls]`.
    pub tls: Option<Policy>,
}

/// Node by its number, with its identifier if that is of scheme dtn.
///
/// The number of a node of scheme dtn is a hash of its name above all others, the same in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeId {
    /// Number.
    pub number: u64,
    /// Identifier of scheme dtn.
    pub name: Option<Eid>,
}

/// First number of nodes of scheme dtn.
const NAMED: u64 = 0xffff_ffff_0000_0000;

impl NodeId {
    /// Returns the node of an endpoint.
    ///
    /// `None` for the null endpoint and those that have meaning on one node alone.
    pub fn of(eid: &Eid) -> Option<NodeId> {
        match eid {
            _ if eid.is_null() || eid.is_local() => None,
            Eid::Ipn(ipn) => Some(NodeId { number: ipn.number(), name: None }),
            Eid::Dtn(_) => {
                let name = eid.node();
                let digest = Sha256::digest(name.to_string());
                let hash = digest[..4].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte));
                Some(NodeId { number: NAMED | hash, name: Some(name) })
            }
            Eid::None => None,
        }
    }
}

impl From<u64> for NodeId {
    fn from(number: u64) -> NodeId {
        NodeId { number, name: None }
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => name.fmt(f),
            None => self.number.fmt(f),
        }
    }
}

impl std::str::FromStr for NodeId {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeId, String> {
        let of_number = text.parse().ok().map(|number: u64| NodeId::from(number));
        let of_name = || text.parse().ok().as_ref().and_then(NodeId::of);
        of_number
            .or_else(of_name)
            .ok_or_else(|| format!("expected a node as 2, \"ipn:2.0\" or \"dtn://two/\", got \"{text}\""))
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeId, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a node as 2, \"ipn:2.0\" or \"dtn://two/\"")]
        enum Written {
            Number(u64),
            Name(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(number.into()),
            Written::Name(name) => name.parse().map_err(de::Error::custom),
        }
    }
}

/// Neighbour.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Node: its number, or its identifier as "ipn:2.0" or "dtn://two/".
    pub node: NodeId,
    /// Convergence layer.
    pub layer: NodeLayer,
    /// Address or host name, and port. Without one, a neighbour on TCPCL has to connect itself.
    #[serde(default, deserialize_with = "some_address")]
    pub at: Option<SocketAddr>,
    /// Rate of UDP and LTP without a contact plan. Default: 10 Mbit/s.
    #[serde(default = "default_rate")]
    pub rate: Rate,
    /// Light time for LTP without a contact plan, one way. Default: 0 s.
    #[serde(default)]
    pub light_time: Span,
    /// Time that segments of LTP wait at both ends. Default: 1 s.
    #[serde(default = "default_margin")]
    pub margin: Span,
    /// Longest datagram of UDP or segment of LTP. Default: 1400 B.
    #[serde(default = "default_datagram")]
    pub datagram: Bytes,
    /// Red part of LTP blocks: acknowledged. Default: true.
    #[serde(default = "default_true")]
    pub red: bool,
    /// Limits of LTP blocks of several bundles. Default: none, a bundle each.
    pub aggregate: Option<Aggregation>,
    /// Keeps parts of bundles whose transfer on TCPCL was cut. Default: true.
    ///
    /// The neighbour has to do so too.
    #[serde(default = "default_true")]
    pub reactive: bool,
    /// Use of TLS by sessions that this node begins. Default: that of `[tls]`.
    pub tls: Option<Policy>,
    /// Host name in the neighbour's certificate, for the policy of `network_id`.
    pub name: Option<String>,
}

fn default_storage() -> Bytes {
    Bytes::new(256_000_000)
}

fn default_bundle() -> Bytes {
    Bytes::new(64_000_000)
}

fn default_true() -> bool {
    true
}

fn default_no_route() -> Span {
    Span::from_secs(5)
}

fn default_rate() -> Rate {
    Rate::from_bps(10_000_000)
}

fn default_sessions() -> u32 {
    256
}

fn default_margin() -> Span {
    Span::from_secs(1)
}

fn default_keepalive() -> Span {
    Span::from_secs(30)
}

fn default_datagram() -> Bytes {
    Bytes::new(1400)
}

fn eid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Eid, D::Error> {
    let text = String::deserialize(deserializer)?;
    let eid: Eid = text.parse().map_err(de::Error::custom)?;
    match &eid {
        Eid::Ipn(ipn) if ipn.service == 0 && !eid.is_null() && !eid.is_local() => Ok(eid),
        _ => Err(de::Error::custom(format!("expected a node as \"ipn:1.0\", got \"{text}\""))),
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        de::Error::custom(format!("expected an address and a port as \"127.0.0.1:4556\", got \"{text}\""))
    })
}

/// Reads the address of a neighbour. A host name is looked up when the file is read.
fn some_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_place =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !is_place {
        return Err(de::Error::custom(format!(
            "expected an address or a host name, and a port as \"127.0.0.1:4556\", got \"{text}\""
        )));
    }
    resolve(&text).map(Some).map_err(de::Error::custom)
}

/// Flaw in a node file, at a key of one of its tables.
struct Flaw {
    /// Name and number of the table; `None` for the keys in front of all tables.
    table: Option<(&'static str, usize)>,
    key: String,
    problem: String,
}

impl Flaw {
    fn new(table: Option<(&'static str, usize)>, key: &str, problem: impl Into<String>) -> Flaw {
        Flaw { table, key: key.to_owned(), problem: problem.into() }
    }

    /// Returns the line of the key, or that of its table if it is missing.
    fn line(&self, text: &str) -> usize {
        let (mut of_table, mut count) = (if self.table.is_none() { Some(1) } else { None }, 0);
        let mut is_inside = self.table.is_none();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('[') {
                let name = line.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
                is_inside = self.table.is_some_and(|(table, number)| table == name && number == count);
                count += usize::from(self.table.is_some_and(|(table, _)| table == name));
                if is_inside {
                    of_table = Some(n + 1);
                }
            } else if is_inside
                && line.split_once('=').is_some_and(|(key, _)| key.trim().trim_matches('"') == self.key)
            {
                return n + 1;
            }
        }
        of_table.unwrap_or(1)
    }
}

impl NodeFile {
    /// Reads a node file. Paths in it are from its folder.
    ///
    /// # Errors
    /// Returns an error with file, line and key if the file cannot be read or has a mistake.
    pub fn read(path: &Path) -> Result<NodeFile, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut file = NodeFile::parse(&text)
            .map_err(|problem| format!("{}: {}", path.display(), problem.trim_end()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        file.store = folder.join(&file.store);
        file.plan = file.plan.map(|plan| folder.join(plan));
        file.tls.iter_mut().for_each(|tls| tls.place(folder));
        Ok(file)
    }

    /// Parses a node file.
    ///
    /// # Errors
    /// Returns an error with line and key if it has a mistake.
    pub fn parse(text: &str) -> Result<NodeFile, String> {
        let file: NodeFile = toml::from_str(text).map_err(|error| error.to_string())?;
        file.check().map_err(|flaw| format!("line {}: {}", flaw.line(text), flaw.problem))?;
        Ok(file)
    }

    fn check(&self) -> Result<(), Flaw> {
        for (n, neighbour) in self.neighbour.iter().enumerate() {
            let at = |key: &str, problem: String| {
                Flaw::new(Some(("neighbour", n)), key, format!("neighbour {}: {problem}", n + 1))
            };
            neighbour.check().map_err(|(key, problem)| at(key, problem))?;
            if self.is_own(&neighbour.node) {
                return Err(at("node", format!("node {} is this node: expected another", neighbour.node)));
            }
            if self.neighbour[..n].iter().any(|other| other.node.number == neighbour.node.number) {
                return Err(at("node", format!("node {} is listed twice", neighbour.node)));
            }
        }
        self.check_tls()?;
        let has_ltp = self.listen.iter().any(|listen| listen.layer == NodeLayer::Ltp);
        let on_ltp = self.neighbour.iter().position(|neighbour| neighbour.layer == NodeLayer::Ltp);
        if let Some(n) = on_ltp.filter(|_| !has_ltp) {
            let problem = "a neighbour on LTP needs a listener with `layer = \"ltp\"`: reports arrive there";
            return Err(Flaw::new(Some(("neighbour", n)), "layer", problem));
        }
        let top = |key: &str, problem: String| Err(Flaw::new(None, key, problem));
        if !(1_000..=1 << 40).contains(&self.storage.get()) {
            return top("storage", format!("`storage`: expected 1 kB to 1.1 TB, got {}", self.storage));
        }
        if self.max_bundle > self.storage {
            let problem = format!(
                "`max_bundle`: expected at most the storage of {}, got {}",
                self.storage, self.max_bundle
            );
            return top("max_bundle", problem);
        }
        if !(1..=1_000_000).contains(&self.ltp_sessions) {
            let problem = format!("`ltp_sessions`: expected 1 to 1000000, got {}", self.ltp_sessions);
            return top("ltp_sessions", problem);
        }
        self.check_copies()?;
        self.routes.iter().try_for_each(|(to, via)| self.check_route(to, via))
    }

    /// Checks a file that was changed while the node runs.
    ///
    /// # Errors
    /// Returns the first mistake.
    pub(super) fn verify(&self) -> Result<(), String> {
        self.check().map_err(|flaw| flaw.problem)
    }

    fn is_own(&self, node: &NodeId) -> bool {
        matches!(&self.eid, Eid::Ipn(own) if own.number() == node.number)
    }

    /// Adds a neighbour while the node runs: the text of its table.
    ///
    /// # Errors
    /// Returns an error if it has a mistake, or is there.
    pub(super) fn add_neighbour(&mut self, text: &str) -> Result<(), String> {
        let neighbour: Neighbour = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let mut file = self.clone();
        file.neighbour.push(neighbour);
        file.verify()?;
        *self = file;
        Ok(())
    }

    /// Returns the neighbour of a number.
    pub(super) fn neighbour(&self, number: u64) -> Option<&Neighbour> {
        self.neighbour.iter().find(|neighbour| neighbour.node.number == number)
    }

    fn check_copies(&self) -> Result<(), Flaw> {
        match self.routing {
            Some(_) if !self.routes.is_empty() => {
                let problem = "`routes` conflicts with `routing`: copies go to all neighbours";
                Err(Flaw::new(Some(("routes", 0)), "", problem))
            }
            Some(Copies::SprayAndWait { copies, .. }) if !(1..=1_000_000).contains(&copies) => {
                let problem = format!("`routing.copies`: expected 1 to 1000000, got {copies}");
                Err(Flaw::new(Some(("routing", 0)), "copies", problem))
            }
            _ => Ok(()),
        }
    }

    /// Checks that keys of TLS stand where there are sessions and credentials.
    fn check_tls(&self) -> Result<(), Flaw> {
        let listeners = self.listen.iter().enumerate();
        let listeners = listeners.map(|(n, listen)| (("listen", n), listen.layer, listen.tls, false));
        let neighbours = self.neighbour.iter().enumerate().map(|(n, neighbour)| {
            (("neighbour", n), neighbour.layer, neighbour.tls, neighbour.name.is_some())
        });
        for (table, layer, tls, is_named) in listeners.chain(neighbours) {
            let what = format!("{} {}", table.0, table.1 + 1);
            let key = if is_named { "name" } else { "tls" };
            if layer != NodeLayer::Tcpcl && (tls.is_some() || is_named) {
                let problem = format!("{what}: `tls` and `name` are for `layer = \"tcpcl\"`");
                return Err(Flaw::new(Some(table), key, problem));
            }
            if self.tls.is_none() && (is_named || tls.is_some_and(|tls| tls != Policy::Off)) {
                let problem =
                    format!("{what}: TLS needs the table [tls] with `certificate`, `key` and `trust`");
                return Err(Flaw::new(Some(table), key, problem));
            }
        }
        Ok(())
    }

    fn check_route(&self, to: &str, via: &NodeId) -> Result<(), Flaw> {
        let at = |problem: String| Err(Flaw::new(Some(("routes", 0)), to, problem));
        if to != "default" && to.parse::<NodeId>().is_err() {
            return at(format!("`routes.{to}`: expected a node as 2 or \"dtn://two/\", or `default`"));
        }
        if self.plan.is_some() {
            return at("`routes` conflicts with `plan`: routes are computed from the plan".to_owned());
        }
        match self.neighbour(via.number).is_some() {
            true => Ok(()),
            false => at(format!("`routes.{to}`: node {via} is not a neighbour")),
        }
    }
}

impl Neighbour {
    /// Checks the keys, and returns the one with a mistake.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.at.is_none() && self.layer != NodeLayer::Tcpcl {
            return Err(("at", "missing key `at`: only a neighbour on TCPCL can connect itself".to_owned()));
        }
        if !(64..=65_000).contains(&self.datagram.get()) {
            return Err(("datagram", format!("`datagram`: expected 64 to 65,000 B, got {}", self.datagram)));
        }
        if self.rate.as_bps() == 0 {
            return Err(("rate", "`rate`: expected more than 0".to_owned()));
        }
        match self.aggregate {
            Some(_) if self.layer != NodeLayer::Ltp => {
                Err(("aggregate", "`aggregate`: only LTP has blocks of several bundles".to_owned()))
            }
            Some(aggregation) => {
                aggregation.check().map_err(|problem| ("aggregate", format!("`aggregate.bytes`: {problem}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        eid = "ipn:1.0"
        store = "store"
        [[listen]]
        layer = "tcpcl"
        at = "127.0.0.1:4556"
        [[neighbour]]
        node = 2
        layer = "tcpcl"
        at = "127.0.0.1:4557"
        [routes]
        default = 2
    "#;

    #[test]
    fn a_file_has_defaults() {
        let file = NodeFile::parse(GOOD).expect("a good file");
        assert_eq!((file.storage.get(), file.sync, file.neighbour[0].red), (256_000_000, true, true));
    }

    #[test]
    fn mistakes_name_their_key() {
        let wrong = |from: &str, to: &str| NodeFile::parse(&GOOD.replace(from, to)).expect_err("a mistake");
        assert!(
            wrong("ipn:1.0", "ipn:1.5").contains("expected a node as"),
            "{}",
            wrong("ipn:1.0", "ipn:1.5")
        );
        assert!(wrong("default = 2", "default = 3").contains("node 3 is not a neighbour"));
        assert!(
            wrong("node = 2\n        layer = \"tcpcl\"\n", "node = 1\n        layer = \"tcpcl\"\n")
                .contains("node 1 is this node")
        );
        assert!(wrong("store = ", "stor = ").contains("stor"));
        assert!(wrong("127.0.0.1:4556", "nohost").contains("a port as \"127.0.0.1:4556\", got \"nohost\""));
        assert!(
            wrong("node = 2\n        layer = \"tcpcl\"", "node = 2\n        layer = \"ltp\"")
                .contains("needs a listener")
        );
        assert!(wrong("default = 2", "x = 2").contains("routes.x"));
        let aggregate = wrong("[routes]", "aggregate = { bytes = \"1 kB\" }\n        [routes]");
        assert!(aggregate.contains("`aggregate`: only LTP has blocks of several bundles"), "{aggregate}");
        let at = |from: &str, to: &str, line: usize| {
            let problem = wrong(from, to);
            assert!(problem.starts_with(&format!("line {line}: ")), "{problem}");
        };
        at("store = ", "storage = \"10 B\"\nstore = ", 3);
        at("store = ", "max_bundle = \"1 GB\"\nstore = ", 3);
        at("at = \"127.0.0.1:4557\"", "rate = \"0 bit/s\"", 10);
        at("default = 2", "# a comment\n7 = 9", 13);
        // A key that is missing has the line of its table.
        at("layer = \"tcpcl\"\n        at = \"127.0.0.1:4557\"", "layer = \"udp\"", 7);
        at("[routes]", "[[neighbour]]\nlayer = \"tcpcl\"\nnode = 2\n[routes]", 13);
        assert!(wrong("[routes]", "[routing]\nkind = \"epidemic\"\n[routes]").contains("conflicts"));
        let spray = |copies: u32| {
            wrong(
                "[routes]\n        default = 2",
                &format!("[routing]\nkind = \"spray-and-wait\"\ncopies = {copies}"),
            )
        };
        assert!(spray(0).contains("expected 1 to 1000000, got 0"));
        assert!(wrong("[routes]\n        default = 2", "[routing]\nkind = \"gossip\"").contains("gossip"));
        assert!(wrong("at = \"127.0.0.1:4557\"", "rate = \"0 bit/s\"").contains("rate"));
    }
}
