//! Network of bundles that roles share: contact plan and convergence layer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bentpipe_site::{Named, Problem, Review, SharedTable};
use bentpipe_transport::tcp;
use bentpipe_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::Aggregation;
use crate::node::Routing;
use crate::plan::Plan;
use crate::route::{Graph, Options};

/// Unix time of instant 0 in seconds: 2026-01-01T00:00:00 UTC.
pub(crate) const START: f64 = 1_767_225_600.0;

/// Networks of bundles by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Networks(pub Named<Network>);

/// Network of bundles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DtnNetwork")]
pub struct Network {
    /// Contact plan in ION's form (bytes per second, light seconds) or HDTN's JSON. Nodes by name or number.
    ///
    /// Numbers count from 1 in the order of the file. Instant 0 is 2026-01-01 00:00:00 UTC. A node sends to another
    /// only in a contact, and at its rate.
    pub plan: String,
    /// Convergence layer of all hops. Default: "udp".
    #[serde(default)]
    pub layer: Layer,
    /// Maximum payload of a datagram. Over UDP longer bundles are fragmented. Default: 1472 B.
    #[serde(default = "datagram")]
    pub datagram: Bytes,
    /// Settings of LTP.
    #[serde(default)]
    pub ltp: LtpConfig,
    /// TCP of layer "tcpcl", with the defaults of a flow's. Default: those, but `nagle = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<tcp::Config>>,
    /// Keeps the part of a bundle that arrived before its session of layer "tcpcl" ended. Default: true.
    ///
    /// The rest alone is sent on: reactive fragmentation.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub reactive: bool,
    /// Rule by which bundles find their way. Default: `{ kind = "contact-graph" }`.
    #[serde(default)]
    pub routing: Way,
    /// Maximum number of candidate routes of a destination in contact graph routing. Default: 10.
    #[serde(default = "candidates")]
    #[schemars(range(min = 1, max = 1000))]
    pub candidates: u16,
    /// Contact graph, once a node has asked for it.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) graph: Shared,
}

/// Contact graph that the nodes of a network share.
///
/// Each of them would read the whole plan otherwise.
/// A copy of a network, whose plan may change, has none.
#[derive(Debug, Default)]
pub(crate) struct Shared(OnceLock<Arc<Graph>>);

impl Clone for Shared {
    fn clone(&self) -> Shared {
        Shared::default()
    }
}

impl PartialEq for Shared {
    fn eq(&self, _: &Shared) -> bool {
        true
    }
}

/// Convergence layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// UDP datagrams of one bundle each, not acknowledged (RFC 7122).
    #[default]
    Udp,
    /// Red blocks of LTP over UDP (RFC 5326).
    Ltp,
    /// Green blocks of LTP over UDP: not acknowledged.
    LtpGreen,
    /// Sessions over TCP, acknowledged (RFC 9174). TCP, not the plan, limits their rate.
    Tcpcl,
    /// DCCP packets of one bundle each, not acknowledged (RFC 7122). TFRC (CCID 3), not the plan, limits their rate.
    Dccp,
}

/// Rule by which bundles find their way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "DtnRouting")]
pub enum Way {
    /// Routes through the contacts of the plan (SABR).
    #[default]
    ContactGraph,
    /// Neighbours by node and destination. Bundles wait for the contacts with them.
    Static {
        /// Neighbour by destination, or by `default`, at each node.
        routes: Named<Named<String>>,
    },
    /// A copy to each node that is met.
    Epidemic,
    /// Copies to the first nodes that are met; then each copy waits for the destination.
    SprayAndWait {
        /// Maximum number of copies of a bundle.
        #[schemars(range(min = 1, max = 1000000))]
        copies: u32,
        /// Enables giving half of a node's copies to another. Otherwise the source gives one at a time. Default: true.
        #[serde(default = "yes")]
        binary: bool,
    },
}

const fn yes() -> bool {
    true
}

/// Settings of LTP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LtpConfig {
    /// Maximum number of blocks in transmission at a time; other bundles wait in the storage.
    ///
    /// Default: those of 100 B that a round trip of the contacts holds, at least 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000))]
    pub sessions: Option<u32>,
    /// Maximum number of transmissions of a checkpoint, report or cancellation. Default: 10.
    #[serde(default = "tries")]
    #[schemars(range(min = 1, max = 10000))]
    pub tries: u32,
    /// Time that timers allow for queues at both ends. Default: 1 s.
    #[serde(default = "margin")]
    pub margin: Span,
    /// Limits of blocks of several bundles. Default: none, a bundle each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Aggregation>,
}

impl Default for LtpConfig {
    fn default() -> LtpConfig {
        LtpConfig { sessions: None, tries: tries(), margin: margin(), aggregate: None }
    }
}

fn datagram() -> Bytes {
    Bytes::new(1472)
}

const fn candidates() -> u16 {
    10
}

const fn tries() -> u32 {
    10
}

const fn margin() -> Span {
    Span::from_secs(1)
}

impl Network {
    /// Returns the contact graph, which all nodes share. `number` returns the number of a node by its name.
    ///
    /// # Errors
    /// Returns an error at the plan's key.
    pub(crate) fn graph(
        &self,
        name: &str,
        number: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Arc<Graph>, Problem> {
        if let Some(graph) = self.graph.0.get() {
            return Ok(Arc::clone(graph));
        }
        let options = Options { candidates: self.candidates.into(), margin: 0.0 };
        let graph = Arc::new(Graph::new(self.plan(name, number)?, options));
        Ok(Arc::clone(self.graph.0.get_or_init(|| graph)))
    }

    /// Returns the rule of next hops at the node `own`. `number` returns the number of a node by its name.
    ///
    /// # Errors
    /// Returns an error at the key of a static route whose neighbour the plan does not have.
    pub(crate) fn routing(
        &self,
        name: &str,
        own: (&str, u64),
        graph: &Arc<Graph>,
        number: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Routing, Problem> {
        match &self.routing {
            Way::ContactGraph => Ok(Routing::contacts(own.1, Arc::clone(graph))),
            Way::Epidemic => Ok(Routing::Epidemic),
            Way::SprayAndWait { copies, binary } => {
                Ok(Routing::Spray { copies: *copies, is_binary: *binary })
            }
            Way::Static { routes } => {
                let key = format!("dtn.{name}.routing.routes.{}", own.0);
                static_routes(routes.get(own.0), &key, own.1, graph.plan(), number)
            }
        }
    }

    /// Returns the settings of TCP.
    pub fn tcp(&self) -> tcp::Config {
        let default = || tcp::Config { nagle: false, ..tcp::Config::default() };
        self.tcp.as_deref().cloned().unwrap_or_else(default)
    }

    /// Returns the contact plan. `number` returns the number of a node by its name.
    ///
    /// # Errors
    /// Returns an error at the plan's key.
    pub fn plan(&self, name: &str, number: &dyn Fn(&str) -> Option<u64>) -> Result<Plan, Problem> {
        let text = if self.plan.trim_start().starts_with('{') {
            self.plan.clone()
        } else {
            numbered(&self.plan, number)
        };
        Plan::parse(&text, START).map_err(|error| Problem::new(format!("dtn.{name}.plan"), error.to_string()))
    }
}

impl Network {
    /// Checks that a layer with connections has both directions between nodes.
    fn check_directions(&self, name: &str, plan: &Plan, names: &[String], review: &mut Review<'_>) {
        if !matches!(self.layer, Layer::Tcpcl | Layer::Dccp) {
            return;
        }
        let pairs: BTreeSet<(u64, u64)> =
            plan.contacts.iter().map(|contact| (contact.from, contact.to)).collect();
        let name_of = |number: u64| {
            let name = usize::try_from(number).ok().and_then(|n| names.get(n.checked_sub(1)?));
            name.cloned().unwrap_or_else(|| number.to_string())
        };
        if let Some((from, to)) = pairs.iter().find(|(from, to)| !pairs.contains(&(*to, *from))) {
            let [from, to] = [*from, *to].map(name_of);
            let problem = format!("expected a contact from {to} to {from}: connections need both directions");
            review.refuse(&format!("dtn.{name}.plan"), problem);
        }
    }

    fn check_tcp(&self, name: &str, review: &mut Review<'_>) {
        let Some(tcp) = &self.tcp else { return };
        let key = format!("dtn.{name}.tcp");
        review.ensure(self.layer == Layer::Tcpcl, &key, "expected none without `layer = \"tcpcl\"`");
        if let Err(error) = tcp.check() {
            review.refuse(&key, error.to_string());
        }
    }

    fn check_routing(&self, name: &str, names: &[String], review: &mut Review<'_>) {
        let Way::Static { routes } = &self.routing else { return };
        for own in routes.keys() {
            let problem = format!("no node \"{own}\"");
            let key = format!("dtn.{name}.routing.routes.{own}");
            review.ensure(names.contains(own), &key, problem);
        }
    }
}

/// Returns static routes of the node `own`.
fn static_routes(
    table: Option<&Named<String>>,
    key: &str,
    own: u64,
    plan: &Plan,
    number: &dyn Fn(&str) -> Option<u64>,
) -> Result<Routing, Problem> {
    let (mut routes, mut default) = (HashMap::new(), None);
    for (to, via) in table.into_iter().flatten() {
        let at = |problem: String| Problem::new(format!("{key}.{to}"), problem);
        let neighbour = number(via).ok_or_else(|| at(format!("no node \"{via}\"")))?;
        if plan.between(own, neighbour).next().is_none() {
            return Err(at(format!("the plan has no contact to \"{via}\"")));
        }
        match number(to) {
            _ if to == "default" => default = Some(neighbour),
            Some(to) => {
                routes.insert(to, neighbour);
            }
            None => return Err(at(format!("expected a node or `default`, got \"{to}\""))),
        }
    }
    Ok(Routing::Static { routes, default })
}

/// Returns a plan with numbers in place of names.
fn numbered(text: &str, number: &dyn Fn(&str) -> Option<u64>) -> String {
    replace_nodes(text, &mut |word| number(word).map_or(word.to_owned(), |number| number.to_string()))
}

/// Returns a plan in ION's form with numbers of all nodes. One in HDTN's form has them.
pub(crate) fn with_numbers(text: &str, number: &mut dyn FnMut(&str) -> u64) -> String {
    match text.trim_start().starts_with('{') {
        true => text.to_owned(),
        false => replace_nodes(text, &mut |word| number(word).to_string()),
    }
}

/// Replaces the nodes of `a contact START END FROM TO` and of `a range`.
fn replace_nodes(text: &str, replace: &mut dyn FnMut(&str) -> String) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_entry = line.split_whitespace().next() == Some("a");
        let replaced = line.split_whitespace().enumerate().map(|(n, word)| match n {
            4 | 5 if is_entry => replace(word),
            _ => word.to_owned(),
        });
        lines.push(replaced.collect::<Vec<_>>().join(" "));
    }
    lines.join("\n")
}

impl SharedTable for Networks {
    fn check(&self, review: &mut Review<'_>) {
        for (name, network) in &self.0 {
            let names: Vec<String> = review.nodes().map(str::to_owned).collect();
            let number = |node: &str| names.iter().position(|name| name == node).map(|n| n as u64 + 1);
            match network.plan(name, &number) {
                Ok(plan) => network.check_directions(name, &plan, &names, review),
                Err(Problem { key, problem }) => review.refuse(&key, problem),
            }
            network.check_tcp(name, review);
            network.check_routing(name, &names, review);
            if let Some(Err(problem)) = network.ltp.aggregate.map(|aggregate| aggregate.check()) {
                review.refuse(&format!("dtn.{name}.ltp.aggregate.bytes"), problem);
            }
            let bytes = network.datagram.get();
            let problem = format!("expected 100 to 65507 B, got {bytes} B");
            review.ensure((100..=65_507).contains(&bytes), &format!("dtn.{name}.datagram"), problem);
        }
    }
}
