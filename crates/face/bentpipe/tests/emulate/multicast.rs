//! Multicast between real hosts: joins, leaves, and groups of the scenario.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bentpipe_testkit::until;
use socket2::{Domain, Socket, Type};

use super::rig::Running;

const PORT: u16 = 5000;
/// Number of datagrams that end a receiver.
const ENOUGH: usize = 20;

/// A sender and two receivers with a satellite link between their routers.
const SCENARIO: &str = r#"
title = "Multicast"
duration = "60 s"
node.left = {}
node.near = { kind = "router" }
node.far = { kind = "router" }
node.pinged = {}
node.third = {}
link.lan = { between = ["left", "near"], rate = "100 Mbit/s", delay = "1 ms" }
link.sky = { between = ["near", "far"], rate = "10 Mbit/s", delay = "50 ms" }
link.east = { between = ["far", "pinged"], rate = "100 Mbit/s", delay = "1 ms" }
link.west = { between = ["far", "third"], rate = "100 Mbit/s", delay = "1 ms" }
"#;

/// Starts this test program as `role` of [`helper`] at a host, whose device has the name of its link.
fn spawn(running: &Running, (host, device): (&str, &str), role: &str, group: &str) -> Child {
    let program = std::env::current_exe().expect("a program");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &running.namespace(host)]).arg(program);
    command.args(["--exact", "emulate::multicast::helper", "--ignored", "--nocapture"]);
    command.env("ROLE", role).env("GROUP", group).env("DEVICE", device);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts")
}

fn output(child: Child) -> String {
    String::from_utf8_lossy(&child.wait_with_output().expect("ends").stdout).into_owned()
}

/// Program that the tests start inside a host.
#[test]
#[ignore = "only other tests start it"]
#[allow(clippy::print_stdout, reason = "the test that started it reads it")]
fn helper() {
    let var = |name| std::env::var(name);
    let (Ok(role), Ok(group), Ok(device)) = (var("ROLE"), var("GROUP"), var("DEVICE")) else { return };
    let index = std::fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).expect("an index");
    let index: u32 = index.trim().parse().expect("a number");
    let group: IpAddr = group.parse().expect("an address");
    let domain = if group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None).expect("a socket");
    if role == "send" {
        match group {
            IpAddr::V4(_) => socket.set_multicast_ttl_v4(8),
            IpAddr::V6(_) => socket.set_multicast_hops_v6(8).and_then(|()| socket.set_multicast_if_v6(index)),
        }
        .expect("an option");
        for _ in 0..200 {
            socket.send_to(&[7; 100], &SocketAddr::new(group, PORT).into()).expect("sent");
            std::thread::sleep(Duration::from_millis(10));
        }
        return;
    }
    let any: IpAddr =
        if group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(any, PORT).into()).expect("bound");
    match group {
        IpAddr::V4(group) => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(group) => socket.join_multicast_v6(&group, index),
    }
    .expect("joined");
    let socket = std::net::UdpSocket::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("an option");
    // One that counts all goes on until nothing comes.
    let enough = if role == "count" { usize::MAX } else { ENOUGH };
    let (mut received, start) = (0, Instant::now());
    while received < enough && start.elapsed() < Duration::from_secs(5) {
        received += usize::from(socket.recv(&mut [0; 200]).is_ok());
    }
    println!("received {received} datagrams");
}

/// Number of packets that a host's device has delivered.
fn delivered(running: &Running, (host, device): (&str, &str)) -> u64 {
    let path = format!("/sys/class/net/{device}/statistics/rx_packets");
    let output = Command::new("ip").args(["netns", "exec", &running.namespace(host), "cat", &path]).output();
    String::from_utf8_lossy(&output.expect("starts").stdout).trim().parse().expect("a number")
}

/// Total of a node's counter in the results.
fn total(running: &Running, node: &str, counter: &str) -> u64 {
    total_of(running, &format!("node.{node}"), counter)
}

/// Total of an element's counter in the results.
fn total_of(running: &Running, element: &str, counter: &str) -> u64 {
    let folders = std::fs::read_dir(&running.folder).expect("there").flatten();
    let outcomes =
        folders.filter_map(|entry| std::fs::read_to_string(entry.path().join("outcome.json")).ok());
    let text = outcomes.collect::<String>();
    let (_, of_node) = text.split_once(&format!("\"{element}\":{{")).expect("the element");
    let (_, value) = of_node.split_once(&format!("\"{counter} [packets]\":")).expect("the counter");
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn a_group_reaches_the_hosts_that_joined_it_and_no_other() {
    let Some(mut running) = Running::start_scenario(SCENARIO, "joined") else { return };
    for group in ["239.1.2.3", "ff0e::1:3"] {
        let [east, west] = [("joined", "east"), ("third", "west")];
        let before = delivered(&running, west);
        let receiver = spawn(&running, east, "receive", group);
        output(spawn(&running, ("left", "lan"), "send", group));
        let text = output(receiver);
        assert!(text.contains("received 20 datagrams"), "{group}: {text}");
        assert!(delivered(&running, west) - before < 50, "{group} at a host that did not join");
        // The receiver has left: its router asks twice within two seconds, and forwards no more.
        std::thread::sleep(Duration::from_secs(3));
        let before = delivered(&running, east);
        output(spawn(&running, ("left", "lan"), "send", group));
        assert!(delivered(&running, east) - before < 50, "{group} at a host that has left");
    }
    let (code, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    // Every datagram is forwarded, or dropped with a reason.
    let [forwarded, dropped] = ["forwarded", "dropped-no-member"].map(|name| total(&running, "near", name));
    assert!(forwarded >= 80 && dropped >= 380, "{forwarded} {dropped}");
    assert_eq!(forwarded + dropped, 800);
}

#[test]
fn real_members_of_a_group_of_the_scenario_need_not_join() {
    let text = format!("{SCENARIO}\ngroup.news = {{ address = \"239.7.7.7\", members = [\"third\"] }}\n");
    let Some(mut running) = Running::start_scenario(&text, "outside") else { return };
    let [east, west] = [("outside", "east"), ("third", "west")];
    let before = [east, west].map(|at| delivered(&running, at));
    let since = |n: usize| delivered(&running, [east, west][n]) - before[n];
    // The router at the sender learns of the member over the satellite, and drops what comes before.
    until("a round of datagrams at the member", || {
        output(spawn(&running, ("left", "lan"), "send", "239.7.7.7"));
        since(1) >= 200
    });
    assert!(since(0) < 50, "{}", since(0));
    assert_eq!(running.end().0, Some(0));
}

/// Joins cross the IPv4 satellite link in the tunnel, as the group does.
#[test]
fn a_group_passes_a_tunnel_to_hosts_that_joined() {
    let text = SCENARIO.replace(r#"delay = "50 ms" }"#, r#"delay = "50 ms", ip_versions = "ipv4" }"#);
    let text = format!("{text}\ntunnel.six = {{ between = [\"near\", \"far\"] }}\n");
    let Some(mut running) = Running::start_scenario(&text, "tunnelled") else { return };
    let [east, west] = [("tunnelled", "east"), ("third", "west")];
    let before = delivered(&running, west);
    let receiver = spawn(&running, east, "receive", "ff0e::1:3");
    output(spawn(&running, ("left", "lan"), "send", "ff0e::1:3"));
    let text = output(receiver);
    assert!(text.contains("received 20 datagrams"), "{text}");
    assert!(delivered(&running, west) - before < 50, "at a host that did not join");
    assert_eq!(running.end().0, Some(0));
}

/// A sender behind a hub, and three sites on one carrier, with a stream for groups. The second loses a fifth of its TS packets.
const BROADCAST: &str = r#"
title = "A group by satellite"
duration = "60 s"
node.left = {}
node.hub = { kind = "router" }
dvb.up = { kind = "transport-stream", rate = "2 Mbit/s", tables = "100 ms" }
link.lan = { between = ["left", "hub"], rate = "100 Mbit/s", delay = "1 ms" }
"#;

fn broadcast(rohc: &str) -> String {
    let site = |(n, site): (usize, &str)| {
        let loss = if site == "second" { 0.2 } else { 0.0 };
        format!(
            "node.{site} = {{}}\nnode.at-{site} = {{ kind = \"router\" }}\n\
             link.to-{site} = {{ between = [\"at-{site}\", \"{site}\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
             link.sky-{n} = {{ between = [\"hub\", \"at-{site}\"], delay = \"50 ms\", return.rate = \"1 Mbit/s\", \
             forward.channel = {{ kind = \"packet-errors\", loss = {loss} }}, forward.medium = {{ kind = \"dvb\", \
             line = \"up\", pid = \"0x20{n}\", multicast = \"0x300\"{rohc} }} }}\n"
        )
    };
    let sites = ["first", "second", "third"].into_iter().enumerate().map(site);
    sites.fold(BROADCAST.to_owned(), |text, site| text + &site)
}

/// Programs that join at two sites get each datagram that the sky does not lose; it goes over the satellite once.
#[test]
fn a_group_goes_once_over_an_emulated_satellite() {
    for (name, rohc) in [("once", ""), ("packed", ", rohc = { refresh = 20, dynamic_refresh = 0 }")] {
        let Some(mut running) = Running::start_scenario(&broadcast(rohc), name) else { return };
        let third = ("third", "to-third");
        for group in ["239.1.2.3", "ff0e::1:3"] {
            let before = delivered(&running, third);
            let receivers = ["first", "second"]
                .map(|site| spawn(&running, (site, &format!("to-{site}")), "count", group));
            // A join takes a satellite round trip at most; nothing tells here that it is over.
            std::thread::sleep(Duration::from_millis(500));
            output(spawn(&running, ("left", "lan"), "send", group));
            let counts = receivers.map(|child| {
                let text = output(child);
                let (_, count) = text.split_once("received ").expect("a count");
                count.split_whitespace().next().and_then(|count| count.parse::<u64>().ok()).expect("a number")
            });
            assert_eq!(counts[0], 200, "{name} {group}: {counts:?}");
            assert!((40..195).contains(&counts[1]), "{name} {group}: {counts:?}");
            assert!(delivered(&running, third) - before < 30, "{group} at a site that did not join");
        }
        let (code, errors) = running.end();
        assert_eq!(code, Some(0), "{errors}");
        // 400 datagrams, and some membership messages.
        let once = total_of(&running, "link.sky-0.forward.multicast", "packets-in");
        assert!((400..440).contains(&once), "{name}: {once}");
    }
}
