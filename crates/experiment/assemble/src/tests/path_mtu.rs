//! Links with a smaller MTU than their neighbours: nothing is lost in silence.

use super::*;

/// A transfer with segments of 1440 bytes over a link of this MTU.
fn transfer(ip: u8, mtu: &str) -> Built {
    let mut built = built(&format!(
        r#"
title = "narrow"
duration = "20 s"
node.client = {{}}
node.near = {{ kind = "router" }}
node.far = {{ kind = "router" }}
node.server = {{}}
link.lan = {{ between = ["client", "near"], rate = "100 Mbit/s" }}
link.satellite = {{ between = ["near", "far"], rate = "2 Mbit/s", delay = "50 ms", mtu = "{mtu}" }}
link.far-lan = {{ between = ["far", "server"], rate = "100 Mbit/s" }}
[flow.upload]
from = "client"
to = "server"
ip = {ip}
application = {{ kind = "bulk", size = "500 kB" }}
traffic = {{ kind = "tcp", mss = "1440 B" }}"#
    ));
    built.network.run_until(at(20));
    built
}

#[test]
fn tcp_finds_the_mtu_of_its_path() {
    for (ip, mtu) in [(4, "1000 B"), (6, "1300 B")] {
        let mut built = transfer(ip, mtu);
        let receiver: &mut tcp::Endpoint =
            built.network.element(built.flows[0].receivers[0]).expect("an end");
        assert_eq!(receiver.bytes_delivered(), 500_000, "IPv{ip}");
        let near: &mut Node = built.network.element(built.nodes[1].element).expect("a node");
        let refused = near.dropped(bentpipe_net::node::Drop::TooBig);
        // What was in flight by then: an initial window.
        assert!((1..=10).contains(&refused), "{refused}");
    }
}
