//! Contract of a role: actions of a node on packets in addition to forwarding.

use bentpipe_net::node::Divert;
use bentpipe_net::{Element, Port};
use bentpipe_sim::ElementId;
use bentpipe_units::Rate;

use crate::call::CallReader;
use crate::capture::Artefact;
use crate::change::{Changes, UNCHANGEABLE};
use crate::files::Files;
use crate::ground::Ground;
use crate::real::{RealAt, RealProgram};
use crate::{
    At, Installed, NodeHandle, Nodes, Order, Part, Problem, Review, Router, SharedTable, Site, Topology,
};

/// Node that has a role.
#[derive(Clone, Debug)]
pub struct RoleAt<'s> {
    /// Name of the node.
    pub node: &'s str,
    /// Number of the role among those of the node.
    pub n: usize,
    /// Key of the role: "node.edge.role", or "node.edge.role.1" in a list.
    pub key: String,
    /// Names of the node's links.
    pub links: Vec<&'s str>,
    /// Set if the node forwards packets of others.
    pub forwards: bool,
}

/// Role of a node.
pub trait RoleKind: Clone + PartialEq {
    /// Objects that roles of this kind share by name; `()` if there are none.
    type Shared: SharedTable;

    /// Reports its errors.
    fn check(&self, at: &RoleAt<'_>, shared: &Self::Shared, review: &mut Review<'_>);

    /// Sets up the node and creates the element. Its ports are those that the ground returned, then those of clients.
    ///
    /// # Errors
    /// Returns an error if the configuration is impossible at this node.
    fn plan(&self, shared: &Self::Shared, ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem>;

    /// Returns the reader of the calls that its element has records of. Default: none.
    fn calls(&self) -> Option<CallReader> {
        None
    }

    /// Returns the link in front of which it splits TCP connections. Default: none.
    fn splits_at(&self) -> Option<&str> {
        None
    }

    /// Returns the rate that it sends split connections with, if that is fixed. Default: it is not.
    fn split_rate(&self) -> Option<Rate> {
        None
    }

    /// Set if a program of this one stands for it at a real host: [`RoleKind::program`]. Default: none does.
    const HAS_PROGRAM: bool = false;

    /// Returns the program that stands for it at a real host.
    ///
    /// # Errors
    /// Returns an error at the key that no program can follow.
    fn program(&self, _shared: &Self::Shared, at: &RealAt<'_>) -> Result<RealProgram, Problem> {
        Err(Problem::new(at.key.as_str(), "no program stands for this role"))
    }

    /// Lists what changes while it runs, of a value that differs. Default: refuses all changes.
    ///
    /// # Errors
    /// Returns an error if something differs that cannot be changed.
    fn change(&self, _after: &Self, at: &RoleHandle, _: &mut Changes) -> Result<(), Problem> {
        Err(Problem::new(at.key.as_str(), UNCHANGEABLE))
    }
}

/// Role of a node and its element; `E` numbers elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleHandle<E = ElementId> {
    /// Name of the node.
    pub node: String,
    /// Number of the role among those of the node.
    pub n: usize,
    /// Word of the kind.
    pub word: &'static str,
    /// Key of the role.
    pub key: String,
    /// Element of the role.
    pub element: E,
    /// Reader of the calls that it has records of.
    pub calls: Option<CallReader>,
}

/// Roles of all nodes before their elements are recorded.
#[derive(Default)]
pub struct RolePlans {
    planned: Vec<Planned>,
    artefacts: Vec<Artefact<At>>,
}

struct Planned {
    node: usize,
    handle: RoleHandle<()>,
    path: String,
    element: Box<dyn Element>,
    /// Ports of the node by the port of the element.
    joined: Vec<Port>,
    /// Conditions on packets in transit that it keeps.
    kept: Vec<Divert>,
    clients: u16,
}

/// Place at a role's element that traffic of the same node attaches to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    role: usize,
    port: Port,
}

impl Client {
    /// Returns the port of the role's element that the client has.
    pub fn port(&self) -> Port {
        self.port
    }
}

impl RolePlans {
    /// Plans one role with `plan`, which is [`RoleKind::plan`] of its kind.
    ///
    /// # Errors
    /// Returns an error if the configuration is impossible at this node.
    pub fn add<'a>(
        &mut self,
        (at, word): (&RoleAt<'_>, &'static str),
        (topology, files): (&'a Topology, &'a dyn Files),
        nodes: &mut Nodes<'a>,
        router: &mut Router<'a>,
        plan: impl FnOnce(&mut Ground<'_, 'a>) -> Result<Box<dyn Element>, Problem>,
    ) -> Result<(), Problem> {
        let node = topology.number(at.node);
        let mut ground = Ground::new((topology, files), nodes, router, (node, at.n, &at.key));
        let element = plan(&mut ground)?;
        let mut earlier = self.planned.iter().filter(|other| other.node == node);
        if let Some(other) = earlier.find(|other| ground.comes_behind(&other.kept)) {
            let (word, first) = (word, other.handle.word);
            let problem = format!("role \"{first}\" gets packets in transit that this \"{word}\" would need");
            let right = "expected the roles at two nodes, or a marker in front of others";
            return Err(Problem::new(at.key.as_str(), format!("{problem}: {right}")));
        }
        let (joined, artefacts, kept) = ground.into_parts();
        self.artefacts.extend(artefacts);
        let twins =
            self.planned.iter().filter(|other| other.node == node && other.handle.word == word).count();
        let number = if twins == 0 { String::new() } else { format!(".{}", twins + 1) };
        let path = format!("node/{}/{word}{number}", at.node);
        let (name, key) = (at.node.to_owned(), at.key.clone());
        let handle = RoleHandle { node: name, n: at.n, word, key, element: (), calls: None };
        self.planned.push(Planned { node, handle, path, element, joined, kept, clients: 0 });
        Ok(())
    }

    /// Sets the reader of the calls of the role that was added last.
    pub fn keep_calls(&mut self, calls: Option<CallReader>) {
        if let Some(planned) = self.planned.last_mut() {
            planned.handle.calls = calls;
        }
    }

    /// Returns the element of a node's first role of a kind.
    pub fn element_of(&mut self, node: usize, word: &str) -> Option<&mut dyn Element> {
        let planned = self.planned.iter_mut().find(|role| role.node == node && role.handle.word == word)?;
        Some(&mut *planned.element)
    }

    /// Returns the number of clients of a node's first role of a kind.
    pub fn clients_of(&self, node: usize, word: &str) -> Option<u16> {
        let role = self.planned.iter().find(|role| role.node == node && role.handle.word == word)?;
        Some(role.clients)
    }

    /// Returns the next client's place at a node's first role of a kind.
    ///
    /// The number of places is limited.
    pub fn client_of(&mut self, node: usize, word: &str) -> Option<Client> {
        let role = self.planned.iter().position(|role| role.node == node && role.handle.word == word)?;
        let planned = &mut self.planned[role];
        let port = u16::try_from(planned.joined.len() + usize::from(planned.clients)).ok().map(Port)?;
        // The last number is left, so that the count stays one.
        planned.clients = planned.clients.checked_add(1)?;
        Some(Client { role, port })
    }

    /// Removes and returns the files that roles leave.
    pub fn take_artefacts(&mut self) -> Vec<Artefact<At>> {
        std::mem::take(&mut self.artefacts)
    }

    /// Records the elements and joins them to their nodes.
    pub fn install(self, nodes: &[NodeHandle], site: &mut Site<'_>) -> Roles {
        let add = |Planned { node, handle, path, element, joined, .. }: Planned| {
            let part = site.add_boxed(Order::Role(node, handle.n), path, element);
            for (n, port) in joined.into_iter().enumerate() {
                let ends = [(part, Port(n as u16)), (nodes[node].part, port)];
                site.connect(ends[0], ends[1]);
                site.connect(ends[1], ends[0]);
            }
            let RoleHandle { node, n, word, key, calls, .. } = handle;
            RoleHandle { node, n, word, key, element: part, calls }
        };
        Roles(self.planned.into_iter().map(add).collect())
    }
}

/// Roles of all nodes, recorded.
#[derive(Clone, Debug)]
pub struct Roles(Vec<RoleHandle<Part>>);

impl Roles {
    /// Returns the input and output of a role's element for a client.
    pub fn client(&self, client: Client) -> At {
        (self.0[client.role].element, client.port)
    }

    /// Returns the roles with the numbers of their elements.
    pub fn numbered(self, installed: &Installed) -> Vec<RoleHandle> {
        let number = |RoleHandle { node, n, word, key, element, calls }: RoleHandle<Part>| RoleHandle {
            node,
            n,
            word,
            key,
            element: installed.element(element),
            calls,
        };
        self.0.into_iter().map(number).collect()
    }
}
