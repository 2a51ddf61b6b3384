//! Hosts with Ethernet interfaces: ARP, neighbour discovery, and a bridge with another machine on it.

use std::process::Command;

use super::rig::{Running, rtts_ms, shortest};

/// Round trip times of five pings from the near host, or from the namespace `from`, to an address of the far one.
///
/// A sixth follows, for whose answer `ping` waits no longer than its interval.
fn ping(from: &str, to: &str) -> Vec<f64> {
    let mut ping = Command::new("ip");
    ping.args(["netns", "exec", from, "ping", "-n", "-c", "6", "-i", "0.05", "-W", "2", to]);
    let mut rtts = rtts_ms(&String::from_utf8_lossy(&ping.output().expect("starts").stdout));
    rtts.truncate(5);
    rtts
}

fn start(host: &str) -> Option<Running> {
    Running::start_with(host, None, &["--set", "node.left.ethernet=true", "--set", "link.hop.delay=20 ms"])
}

/// A namespace of the test's own; it goes with the value.
struct Guest(String);

impl Guest {
    fn add(name: String) -> Guest {
        assert!(Command::new("ip").args(["netns", "add", &name]).status().expect("starts").success());
        Guest(name)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

#[test]
fn a_host_finds_the_far_one_by_arp_and_by_neighbour_discovery() {
    let Some(mut running) = start("wired") else { return };
    let left = running.namespace("left");
    for to in ["10.0.0.2", "fd00::2"] {
        let rtts = ping(&left, to);
        assert_eq!(rtts.len(), 5, "{to}");
        assert!((40.0..70.0).contains(&shortest(&rtts)), "{rtts:?}");
    }
    let neighbours = Command::new("ip").args(["-n", &left, "neighbour", "show", "dev", "hop"]).output();
    let text = String::from_utf8_lossy(&neighbours.expect("starts").stdout).into_owned();
    assert_eq!(text.matches("lladdr 02:62:70:").count(), 2, "{text}");
    // From the other side, whose device knows no Ethernet.
    assert_eq!(ping(&running.namespace("wired"), "10.0.0.1").len(), 5);
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_machine_on_a_bridge_takes_the_host_s_place() {
    let Some(mut running) = start("bridged") else { return };
    let left = running.namespace("left");
    let guest = Guest::add(format!("test-guest-{}", running.process()));
    let script = format!(
        "set -e
        ip -n {left} link add br0 type bridge
        ip -n {left} address flush dev hop
        ip -n {left} link set hop master br0
        ip -n {left} link set br0 up
        ip -n {left} link add port type veth peer name eth0 netns {guest}
        ip -n {left} link set port master br0
        ip -n {left} link set port up
        ip -n {guest} link set eth0 mtu 1500 up
        ip -n {guest} address add 10.0.0.1/32 dev eth0
        ip -n {guest} address add fd00::1/128 dev eth0 nodad
        ip -n {guest} -4 route add default dev eth0
        ip -n {guest} -6 route add default dev eth0",
        guest = guest.0,
    );
    let made = Command::new("sh").args(["-c", &script]).output().expect("starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for to in ["10.0.0.2", "fd00::2"] {
        assert!(ping(&guest.0, to).len() >= 4, "{to}");
    }
    // The far host speaks first: the near side has to be asked for.
    let far = running.namespace("bridged");
    assert!(ping(&far, "10.0.0.1").len() >= 4);
    assert_eq!(running.end().0, Some(0));
}
