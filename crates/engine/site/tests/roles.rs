//! The table of roles with kinds of its own: well-known ports, clients, shared objects, and refusals.

use std::any::Any;
use std::sync::Arc;

use bentpipe_net::channel::{ContactFile, Outage, Trace, TraceConfig};
use bentpipe_net::link::DelayChange;
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_site::line::DelayChanges;
use bentpipe_site::{
    Changes, Files, Ground, IpVersion, LinkAt, Named, NodeAt, Nodes, Order, Problem, Review, RoleAt,
    RoleHandle, RoleKind, RolePlans, Router, Site, Topology,
};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Server that passes each datagram to its only client and each of the client's back to nobody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct Server {
    port: u16,
    /// Name of a shared object.
    book: String,
}

impl RoleKind for Server {
    type Shared = Named<u8>;

    fn check(&self, at: &RoleAt<'_>, books: &Named<u8>, review: &mut Review<'_>) {
        review.ensure_named(books, "book", &format!("{}.book", at.key), &self.book);
    }

    fn plan(&self, books: &Named<u8>, ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        assert_eq!(ground.bind_at(Protocol::UDP, self.port)?, Port(0));
        let (own, number) = ground.bind(Protocol::UDP, 2)?;
        assert_eq!((own, number), (Port(1), 1024));
        ground.reach("far", IpVersion::V4)?;
        Ok(Box::new(Relay { book: books[&self.book], got: 0 }))
    }
}

/// A kind without settings and without shared objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct Idle {}

impl RoleKind for Idle {
    type Shared = ();
    fn check(&self, _: &RoleAt<'_>, (): &(), _: &mut Review<'_>) {}
    fn plan(&self, (): &(), _: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        Ok(Box::new(Relay { book: 0, got: 0 }))
    }
}

bentpipe_site::roles! {
    /// A server.
    Server "server" Server, shares
        /// Books.
        book: Named<u8>;
    /// A role that does nothing.
    Idle "idle" Idle;
}

/// What comes from the node goes to the first client, at port 2.
struct Relay {
    book: u8,
    got: u32,
}

impl Element for Relay {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.got += 1;
        cx.emit(Port(2), packet);
        Time::NEVER
    }
    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }
    fn forwards(&self, from: Port, to: Port) -> bool {
        from != to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }
    fn observe(&mut self, _: Time, _: &mut dyn Observer) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn trace(&self, _: &TraceConfig, _: u64, path: &str) -> Result<Arc<Trace>, (&'static str, String)> {
        Err(("file", path.to_owned()))
    }
    fn outages(&self, contacts: &ContactFile) -> Result<Vec<Outage>, (&'static str, String)> {
        Err(("file", contacts.file.display().to_string()))
    }
    fn open(&self, path: &std::path::Path) -> Result<bentpipe_site::Opened, String> {
        Err(path.display().to_string())
    }
    fn make(&self, what: &str, _: &serde_json::Value) -> Result<Vec<Vec<u8>>, String> {
        Err(what.to_owned())
    }
    fn delay_changes(&self, _: &DelayChanges, _: Span) -> Result<Arc<[DelayChange]>, (&'static str, String)> {
        Ok(Arc::default())
    }
}

fn topology() -> Topology {
    let node = |forwards| NodeAt { forwards, addresses: Vec::new() };
    let link = LinkAt {
        between: ["near".to_owned(), "far".to_owned()],
        ip_versions: Default::default(),
        mtu: Bytes::new(1500),
        delay: [Span::from_millis(1); 2],
        passage: Default::default(),
    };
    Topology {
        node: Named::from_iter([("near".to_owned(), node(true)), ("far".to_owned(), node(false))]),
        link: Named::from_iter([("wire".to_owned(), link)]),
        ..Topology::default()
    }
}

fn at(n: usize) -> RoleAt<'static> {
    RoleAt { node: "near", n, key: format!("node.near.role.{n}"), links: vec!["wire"], forwards: true }
}

fn server(port: u16) -> Role {
    Role::Server(Server { port, book: "red".to_owned() })
}

fn tables() -> RoleTables {
    RoleTables { book: Named::from_iter([("red".to_owned(), 7)]) }
}

fn plan(roles: &[Role], topology: &Topology) -> Result<(), Problem> {
    let (mut nodes, mut router) = (Nodes::new(topology), Router::new(topology)?);
    let mut plans = RolePlans::default();
    for (n, role) in roles.iter().enumerate() {
        let plan = |ground: &mut Ground<'_, '_>| role.plan(&tables(), ground);
        plans.add((&at(n), role.word()), (topology, &NoFiles), &mut nodes, &mut router, plan)?;
    }
    Ok(())
}

/// A datagram to port 5060 of the first node.
fn datagram() -> Packet {
    let addresses = ["10.0.0.2", "10.0.0.1"].map(|address| address.parse().expect("an address"));
    let ip = ip::Repr::new(addresses[0], addresses[1], Protocol::UDP, 18);
    let mut packet = Packet::new(ip.buffer_len() + 8, 10);
    let header = packet.header_mut();
    ip.emit(header);
    udp::Repr { src_port: 9, dst_port: 5060, payload_len: 10 }.emit(&mut header[ip.buffer_len()..]);
    packet
}

#[test]
fn a_role_binds_ports_and_serves_clients() {
    let topology = topology();
    let (mut nodes, mut router) = (Nodes::new(&topology), Router::new(&topology).expect("no tunnels"));
    let mut plans = RolePlans::default();
    let (server, tables) = (server(5060), tables());
    let plan = |ground: &mut Ground<'_, '_>| server.plan(&tables, ground);
    plans
        .add((&at(0), server.word()), (&topology, &NoFiles), &mut nodes, &mut router, plan)
        .expect("possible");
    assert_eq!(plans.client_of(0, "idle"), None);
    assert_eq!(plans.client_of(1, "server"), None);
    assert_eq!((plans.clients_of(0, "server"), plans.clients_of(0, "idle")), (Some(0), None));
    let client = plans.client_of(0, "server").expect("a role");
    let mut site = Site::new(1, &NoFiles);
    let nodes = nodes.install(&mut site, &mut router);
    let roles = plans.install(&nodes, &mut site);
    let sink = site.add(Order::Flow(0, 0, 0), "flow/sink", Relay { book: 0, got: 0 });
    assert_eq!(roles.client(client).1, Port(2));
    site.connect(roles.client(client), (sink, Port(0)));
    let mut installed = site.finish().expect("no loop");
    let (node, sink) = (installed.element(nodes[0].part), installed.element(sink));
    let handles = roles.numbered(&installed);
    let path = installed.network.path(handles[0].element).to_owned();
    assert_eq!((path.as_str(), handles[0].word), ("node/near/server", "server"));
    installed.network.inject(node, Port(0), datagram());
    installed.network.run_until(Time::ZERO);
    let role: &mut Relay = installed.network.element(handles[0].element).expect("the role");
    assert_eq!((role.book, role.got), (7, 1));
    let client: &mut Relay = installed.network.element(sink).expect("the client");
    assert_eq!(client.got, 1);
}

#[test]
fn one_role_of_a_node_has_a_well_known_port() {
    let topology = topology();
    let problem = plan(&[server(5060), server(5060)], &topology).expect_err("taken");
    assert_eq!(problem.key, "node.near.role.1");
    assert!(problem.problem.contains("UDP port 5060 of node \"near\" is taken"), "{problem}");
    let given = plan(&[server(5060), server(1025)], &topology).expect_err("given to the first");
    assert!(given.problem.contains("port 1025"), "{given}");
    plan(&[server(5060), Role::Idle(Idle {})], &topology).expect("possible");
}

#[test]
fn shared_objects_are_checked_by_name_and_changes_are_refused_by_default() {
    let mut review = Review::new(vec!["near"], Span::from_secs(1), |_, known| known.join(", "));
    server(1).check(&at(0), &RoleTables::default(), &mut review);
    let problems = review.into_problems();
    assert_eq!(problems[0].key, "node.near.role.0.book");
    assert_eq!(Role::KINDS, ["server", "idle"]);
    let mut site = Site::new(1, &NoFiles);
    let element = site.add(Order::Gate, "x", Relay { book: 0, got: 0 });
    let installed = site.finish().expect("no loop");
    let element = installed.element(element);
    let handle = RoleHandle {
        node: "near".into(),
        n: 0,
        word: "server",
        key: "node.near.role".into(),
        element,
        calls: None,
    };
    let mut changes = Changes::default();
    server(1).change(&server(1), &handle, &mut changes).expect("nothing differs");
    let problem = server(1).change(&server(2), &handle, &mut changes).expect_err("no change");
    assert_eq!(problem.key, "node.near.role");
    assert!(server(1).change(&Role::Idle(Idle {}), &handle, &mut changes).is_err());
    assert!(changes.is_empty());
}
