//! The path of all workloads: host, access link, router, bottleneck, router, access link, host, both ways.

use bentpipe_net::{Node, Observer, Port, Unit, link};
use bentpipe_sim::{Builder, ElementId, Network};

/// Connects two nodes' interfaces with a link each way.
pub(crate) fn join(builder: &mut Builder, name: &str, ends: [(ElementId, Port); 2], config: &link::Config) {
    for (way, (from, to)) in [("there", (ends[0], ends[1])), ("back", (ends[1], ends[0]))] {
        let link = bentpipe_net::Link::new(config).expect("a possible link");
        let link = builder.add(format!("link/{name}/{way}"), link);
        builder.connect(from, (link, Port(0)));
        builder.connect((link, Port(0)), to);
    }
}

/// A host of one interface and one endpoint, which listens to a range of UDP ports.
pub(crate) fn host(address: &str, ports: std::ops::Range<u16>) -> Node {
    let mut node = Node::new(1);
    node.add_address(address.parse().expect("an address"));
    node.add_route("0.0.0.0/0".parse().expect("a prefix"), Port(0));
    let endpoint = node.add_endpoint();
    ports.for_each(|port| node.bind(endpoint, bentpipe_net::node::UDP, port));
    node
}

/// A router between 10.1.0.0/16 at interface 0 and 10.2.0.0/16 at interface 1.
pub(crate) fn router() -> Node {
    let mut node = Node::new(2);
    node.add_route("10.1.0.0/16".parse().expect("a prefix"), Port(0));
    node.add_route("10.2.0.0/16".parse().expect("a prefix"), Port(1));
    node
}

/// The sum of a value over all elements of a kind: "link/delivered" is the value "delivered" of those under "link/".
pub(crate) fn total(network: &mut Network, name: &str) -> f64 {
    let (kind, value) = name.split_once('/').expect("kind/value");
    let mut total = Total { name: value, sum: 0.0 };
    for id in network.ids() {
        if network.path(id).starts_with(kind) {
            network.observe(id, &mut total);
        }
    }
    total.sum
}

struct Total<'a> {
    name: &'a str,
    sum: f64,
}

impl Observer for Total<'_> {
    fn counter(&mut self, name: &'static str, unit: Unit, total: u64) {
        self.gauge(name, unit, total as f64);
    }
    fn gauge(&mut self, name: &'static str, _unit: Unit, value: f64) {
        if name == self.name {
            self.sum += value;
        }
    }
}
