//! Path of all workloads, both ways: host, access link, router, bottleneck, and the mirror image.

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Node, Observer, Port, link};
use bentpipe_sim::{Builder, ElementId, Network};

/// Connects two nodes' interfaces with a link each way.
pub(crate) fn join(builder: &mut Builder, name: &str, ends: [(ElementId, Port); 2], config: &link::Config) {
    lead(builder, &format!("{name}/there"), ends, config);
    lead(builder, &format!("{name}/back"), [ends[1], ends[0]], config);
}

/// Connects one node's interface to another element through a link.
pub(crate) fn lead(
    builder: &mut Builder,
    name: &str,
    [from, to]: [(ElementId, Port); 2],
    config: &link::Config,
) {
    let link = bentpipe_net::Link::new(config).expect("a possible link");
    let link = builder.add(format!("link/{name}"), link);
    builder.connect(from, (link, Port(0)));
    builder.connect((link, Port(0)), to);
}

/// Returns a host of one interface, 10.SIDE.NUMBER.1, and one endpoint, which accepts everything.
pub(crate) fn tcp_host(side: u8, number: u8) -> Node {
    let mut node = host(&format!("10.{side}.{number}.1"), 0..0);
    node.bind_rest(Port(1));
    node
}

/// Returns a router with the other side at interface 0 and `hosts` hosts after it.
pub(crate) fn hub(side: u8, hosts: u8) -> Node {
    let mut node = Node::new(1 + u16::from(hosts));
    node.add_route("0.0.0.0/0".parse().expect("a prefix"), Port(0));
    for host in 0..hosts {
        let prefix = format!("10.{side}.{host}.0/24").parse().expect("a prefix");
        node.add_route(prefix, Port(1 + u16::from(host)));
    }
    node
}

/// Returns a host of one interface and one endpoint on a range of UDP ports.
pub(crate) fn host(address: &str, ports: std::ops::Range<u16>) -> Node {
    let mut node = Node::new(1);
    node.add_address(address.parse().expect("an address"));
    node.add_route("0.0.0.0/0".parse().expect("a prefix"), Port(0));
    let endpoint = node.add_endpoint();
    ports.for_each(|port| node.bind(endpoint, bentpipe_net::node::UDP, port));
    node
}

/// Returns a router between 10.1.0.0/16 at interface 0 and 10.2.0.0/16 at interface 1.
pub(crate) fn router() -> Node {
    let mut node = Node::new(2);
    node.add_route("10.1.0.0/16".parse().expect("a prefix"), Port(0));
    node.add_route("10.2.0.0/16".parse().expect("a prefix"), Port(1));
    node
}

/// Returns the sum of a value over all elements of a kind. "link/delivered" is the value "delivered" of those
/// under "link/".
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
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == self.name {
            self.sum += total as f64;
        }
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        if metric.name == self.name {
            self.sum += value;
        }
    }
}
