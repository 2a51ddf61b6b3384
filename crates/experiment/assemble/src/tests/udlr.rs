//! One-way links, without and with a tunnelled return.

use bentpipe_transport::ping::Pinger;
use bentpipe_transport::tcp;

use super::*;

/// Server, feed, receiver and user. The feed sends over a satellite; the ground line joins both as well.
fn text(back: &str, rest: &str) -> String {
    format!(
        r#"
title = "one-way"
duration = "60 s"
node.server = {{}}
node.feed = {{ kind = "router" }}
node.receiver = {{ kind = "router" }}
node.user = {{}}
link.lan = {{ between = ["server", "feed"], rate = "100 Mbit/s", delay = "1 ms" }}
link.home = {{ between = ["receiver", "user"], rate = "100 Mbit/s", delay = "1 ms" }}
dvb.carrier = {{ kind = "transport-stream", rate = "8 Mbit/s" }}
link.ground = {{ between = ["feed", "receiver"], rate = "1 Mbit/s", delay = "300 ms" }}
[link.sky]
between = ["feed", "receiver"]
delay = "250 ms"
return = {{ medium = {back} }}
[link.sky.forward]
medium = {{ kind = "dvb", line = "carrier", pid = "0x201", encapsulation = "ule" }}
queue = {{ kind = "drop-tail", bytes = "400 kB" }}
[flow.download]
from = "server"
to = "user"
traffic = "tcp"
application = {{ kind = "bulk", size = "2 MB" }}
start = "1 s"
[flow.ping]
from = "server"
to = "user"
traffic = {{ kind = "ping", packets = 5, interval = "1 s" }}
start = "2 s"
{rest}"#
    )
}

/// Bytes of the download and the mean round-trip time of pings in milliseconds.
fn result(built: &mut Built) -> (u64, u64) {
    let end: &mut tcp::Endpoint = built.network.element(built.flows[0].receivers[0]).expect("an end");
    let bytes = end.bytes_delivered();
    let pinger: &mut Pinger = built.network.element(built.flows[1].sender).expect("a source");
    (bytes, pinger.rtts().mean().map_or(0, |mean| mean.as_nanos() / 1_000_000))
}

#[test]
fn packets_return_over_the_ground_with_and_without_a_tunnel() {
    // Over the satellite there, over the ground back: 250 + 300 ms, and the times of the lines.
    for (back, tunnelled) in [("{ kind = \"none\" }", false), ("{ kind = \"udlr\" }", true)] {
        let mut built = built(&text(back, ""));
        built.network.run_until(at(60));
        let (bytes, rtt_ms) = result(&mut built);
        assert_eq!(bytes, 2_000_000, "{back}");
        assert!((554..570).contains(&rtt_ms), "{back}: {rtt_ms} ms");
        let feed: &mut Node = built.network.element(built.nodes[1].element).expect("a node");
        assert_eq!(feed.dropped(bentpipe_net::node::Drop::NoListener), 0, "{back}");
        assert_eq!(feed.dropped(bentpipe_net::node::Drop::NoRoute), 0, "{back}");
        assert_eq!(
            built.links.iter().any(|link| link.receiver.is_some() && link.way == bentpipe_site::Way::Return),
            tunnelled
        );
    }
}

#[test]
fn both_ip_versions_return_in_the_tunnel() {
    let rest = "[flow.six]\nfrom = \"server\"\nto = \"user\"\nip = 6\ntraffic = \"tcp\"\n\
                application = { kind = \"bulk\", size = \"1 MB\" }\nstart = \"1 s\"";
    let mut built = built(&text("{ kind = \"udlr\" }", rest));
    built.network.run_until(at(60));
    let end: &mut tcp::Endpoint = built.network.element(built.flows[2].receivers[0]).expect("an end");
    assert_eq!(end.bytes_delivered(), 1_000_000);
}

/// Uploads have packets of the MTU, which the tunnel's headers make longer: the outer ones go in fragments.
#[test]
fn long_packets_go_through_in_fragments() {
    let rest = "[flow.upload]\nfrom = \"user\"\nto = \"server\"\ntraffic = \"tcp\"\n\
                application = { kind = \"bulk\", size = \"300 kB\" }\nstart = \"1 s\"";
    let mut built = built(&text("{ kind = \"udlr\" }", rest));
    built.network.run_until(at(60));
    let end: &mut tcp::Endpoint = built.network.element(built.flows[2].receivers[0]).expect("an end");
    assert_eq!(end.bytes_delivered(), 300_000);
}

/// While the satellite is dark for longer than three intervals, the receiver forgets the tunnel and learns it again.
#[test]
fn an_outage_of_the_satellite_ends_the_tunnel() {
    let outage = text("{ kind = \"udlr\", hello_interval = \"1 s\" }", "").replace(
        "queue = { kind = \"drop-tail\", bytes = \"400 kB\" }",
        "queue = { kind = \"drop-tail\", bytes = \"400 kB\" }\nchannel = { kind = \"outages\", outages = [{ at = \"9.5 s\", lasts = \"6 s\" }] }",
    );
    let mut built = built(&outage);
    let count = |built: &mut Built, name: &'static str| {
        let back =
            built.links.iter().find(|link| link.name == "sky" && link.way == bentpipe_site::Way::Return);
        let (line, now) = (back.expect("observed").line, built.network.now());
        let end: &mut bentpipe_dvb::udlr::TunnelEnd = built.network.element(line).expect("an end");
        let mut seen = Seen { name, total: 0 };
        bentpipe_net::Element::observe(end, now, &mut seen);
        seen.total
    };
    built.network.run_until(at(9));
    assert_eq!((count(&mut built, "hellos"), count(&mut built, "tunnels-lost")), (9, 0), "sent from 0 s on");
    built.network.run_until(at(15));
    assert_eq!((count(&mut built, "hellos"), count(&mut built, "tunnels-lost")), (10, 1));
    built.network.run_until(at(20));
    assert!(count(&mut built, "hellos") >= 13, "received again after the outage");
}

/// Observer of a counter.
struct Seen {
    name: &'static str,
    total: u64,
}

impl bentpipe_net::Observer for Seen {
    fn counter(
        &mut self,
        metric: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Counter>,
        total: u64,
    ) {
        if metric.name == self.name {
            self.total = total;
        }
    }
    fn gauge(&mut self, _: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Gauge>, _: f64) {}
}

#[test]
fn impossible_one_way_links_are_refused() {
    let udlr = "{ kind = \"udlr\" }";
    for (text, expected) in [
        (
            text(udlr, "").replace("link.ground", "link.other").replace(
                "rate = \"1 Mbit/s\"",
                "rate = \"1 Mbit/s\", return = { medium = { kind = \"none\" } }",
            ),
            "other than this link, for the tunnel",
        ),
        (
            text("{ kind = \"udlr\", hello_interval = \"1500 ms\" }", ""),
            "link.sky.return.medium.hello_interval: expected 1 to 255 whole seconds",
        ),
        (text("{ kind = \"udlr\", feed_address = \"224.0.0.1\" }", ""), "224.0.0.1 is not a host address"),
        (text("{ kind = \"udlr\", feed_address = \"10.0.0.1\" }", ""), "10.0.0.1 is node \"server\"'s"),
        (
            text(udlr, "").replace("return = { medium", "return = { delay = \"1 ms\", medium"),
            "link.sky.return.delay: the direction without a carrier has none",
        ),
        (
            text(udlr, "").replace(
                "medium = { kind = \"dvb\", line = \"carrier\", pid = \"0x201\", encapsulation = \"ule\" }",
                "medium = { kind = \"none\" }",
            ),
            "without a carrier has no queue",
        ),
    ] {
        let said = refused(&text);
        assert!(said.contains(expected), "{said}");
    }
}
