//! Attachments in the places of hosts: interfaces, VLANs, and network namespaces.

use std::process::{Child, Command, Stdio};

use crate::rig::{Running, rtts_ms, shortest};

/// Namespaces of the test's own: a machine that emulates, and one on a cable to it. They go with the value.
struct Lab {
    machine: String,
    guest: String,
    children: Vec<Child>,
}

impl Lab {
    fn new(name: &str) -> Option<Lab> {
        let names = ["machine", "guest"].map(|part| format!("test-{part}-{name}-{}", std::process::id()));
        let [machine, guest] = names;
        let lab = Lab { machine, guest, children: Vec::new() };
        let made = lab.script(
            "ip netns add MACHINE && ip netns add GUEST
             ip -n GUEST link set lo up
             ip -n MACHINE link add eth1 type veth peer name eth0 netns GUEST
             ip -n GUEST link set eth0 up",
        );
        if made.is_none() {
            crate::rig::skip("no network namespaces");
        }
        made.map(|_| lab)
    }

    /// Runs a script, and returns its output unless it fails.
    fn script(&self, text: &str) -> Option<String> {
        let text = text.replace("MACHINE", &self.machine).replace("GUEST", &self.guest);
        let output = Command::new("sh").args(["-e", "-c", &text]).output().expect("starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            eprintln!("{errors}");
        }
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn inside(&self, text: &str) -> String {
        self.script(&format!("ip netns exec GUEST {text}")).unwrap_or_default()
    }

    /// Gives the guest the address of the host on its interface.
    fn address(&self, device: &str) {
        self.script(&format!(
            "ip -n GUEST address add 10.0.0.1/24 dev {device}
             ip -n GUEST address add fd00::1/64 dev {device} nodad"
        ))
        .expect("addresses");
    }

    fn state(&self) -> String {
        let state = "ip -n MACHINE -d link; ip -n GUEST -d link; ip -n GUEST address; ip -n GUEST route; ip -n GUEST -6 route";
        let text = self.script(state).expect("a state");
        // Addresses of IPv6 take a second, and carriers follow.
        let volatile = |line: &&str| {
            !line.contains("fe80") && !line.contains("valid_lft") && !line.contains("link/ether")
        };
        let line = |line: &str| {
            // The kernel keeps some of an interface that was up once.
            let words =
                ["UP", "DOWN", "LOWERLAYERDOWN", "UNKNOWN", "tentative", "linkdown", "noop", "noqueue"];
            let kept = line.split(' ').filter(|word| !words.contains(word));
            let kept = kept.collect::<Vec<_>>().join(" ");
            kept.replace("NO-CARRIER,", "").replace(",LOWER_UP", "").replace(",M-DOWN", "")
        };
        text.lines().filter(volatile).map(line).collect::<Vec<_>>().join("\n")
    }

    fn ping(&self, to: &str) -> Vec<f64> {
        rtts_ms(&self.inside(&format!("ping -n -c 5 -i 0.05 -W 2 {to}")))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = self.script("ip netns delete MACHINE; ip netns delete GUEST");
    }
}

const DELAY: &str = "link.hop.delay=20 ms";

#[test]
fn an_interface_takes_a_host_s_place_and_is_as_it_was() {
    let Some(lab) = Lab::new("cable") else { return };
    lab.address("eth0");
    let before = lab.state();
    assert!(before.contains("eth1@"), "{before}");
    let arguments = ["--set", DELAY, "--attach", "left=eth1"];
    let Some(mut running) = Running::start_in(&lab.machine, "cabled", &arguments) else { return };
    for to in ["10.0.0.2", "fd00::2"] {
        let rtts = lab.ping(to);
        assert!(rtts.len() >= 4 && (40.0..80.0).contains(&shortest(&rtts)), "{to}: {rtts:?}");
    }
    // Trains of segments and incomplete checksums pass both ways, and the far host speaks first.
    let far = running.namespace("cabled");
    let mut server = Command::new("ip");
    server.args(["netns", "exec", &far, "iperf3", "-s", "-1"]).stdout(Stdio::null());
    let mut server = server.spawn().expect("iperf3 starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let text = lab.inside("iperf3 -c 10.0.0.2 -t 3 -J");
    let _ = server.kill();
    let _ = server.wait();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let rate = result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_default();
    assert!((6e6..10.5e6).contains(&rate), "{rate} of 10 Mbit/s: {text}");
    assert_eq!(running.end().0, Some(0));
    assert_eq!(lab.state(), before);
}

#[test]
fn an_interface_is_put_back_after_a_crash_by_the_next_start() {
    let Some(lab) = Lab::new("crashed") else { return };
    lab.address("eth0");
    let before = lab.state();
    let arguments = ["--set", DELAY, "--attach", "left=eth1"];
    let Some(mut running) = Running::start_in(&lab.machine, "killed", &arguments) else { return };
    assert!(lab.ping("10.0.0.2").len() >= 4);
    running.signal("-KILL");
    running.finish();
    assert_ne!(lab.state(), before, "nothing puts it back");
    let mut again = Running::start_in(&lab.machine, "killed", &arguments).expect("starts");
    assert!(lab.ping("10.0.0.2").len() >= 4);
    assert_eq!(again.end().0, Some(0));
    assert_eq!(lab.state(), before);
}

#[test]
fn a_vlan_is_made_and_goes() {
    let Some(lab) = Lab::new("vlan") else { return };
    let vlan = "ip -n GUEST link add link eth0 name eth0.7 type vlan id 7; ip -n GUEST link set eth0.7 up";
    if lab.script(vlan).is_none() {
        // A kernel's modules are not installed by a package, so it is no reason to fail in CI.
        return eprintln!("skipped: no VLANs in this kernel");
    }
    lab.address("eth0.7");
    let before = lab.state();
    let arguments = ["--set", DELAY, "--attach", "left=eth1.7"];
    let Some(mut running) = Running::start_in(&lab.machine, "tagged", &arguments) else { return };
    assert!(lab.ping("10.0.0.2").len() >= 4);
    assert_eq!(running.end().0, Some(0));
    assert_eq!(lab.state(), before);
}

#[test]
fn a_namespace_takes_a_host_s_place_by_name_and_by_process() {
    let Some(mut lab) = Lab::new("joined") else { return };
    let mut sleeper = Command::new("ip");
    let sleeper = sleeper.args(["netns", "exec", &lab.guest, "sleep", "600"]).spawn().expect("starts");
    let process = sleeper.id();
    lab.children.push(sleeper);
    lab.script("ip -n GUEST address add 192.0.2.2/24 dev eth0; ip -n GUEST route add default via 192.0.2.1")
        .expect("a route");
    let before = lab.state();
    for target in [lab.guest.clone(), process.to_string()] {
        let attach = format!("left=netns:{target}");
        let arguments = ["--set", DELAY, "--attach", &attach];
        let Some(mut running) = Running::start_in(&lab.machine, "far", &arguments) else { return };
        let rtts = lab.ping("10.0.0.2");
        assert!(rtts.len() >= 4 && shortest(&rtts) >= 40.0, "{target}: {rtts:?}");
        let route = lab.script("ip -n GUEST route get 203.0.113.1").unwrap_or_default();
        assert!(route.contains("via 192.0.2.1"), "the default route stays: {route}");
        assert_eq!(running.end().0, Some(0));
        assert_eq!(lab.state(), before, "{target}");
    }
    assert!(lab.children[0].try_wait().expect("known").is_none(), "its programs run on");
}

#[test]
fn what_cannot_be_attached_is_refused_and_nothing_stays() {
    let Some(lab) = Lab::new("refused") else { return };
    let before = lab.state();
    for (attach, problem) in [
        ("left=eth9", "no network interface is called \"eth9\""),
        ("left=eth1.5000", "no network interface"),
        ("left=netns:nothing", "no network namespace \"nothing\""),
        ("router=eth1", "not a host: expected one of left, pinged"),
        ("left", "expected HOST=INTERFACE"),
        ("left=eth1,pinged=eth1", "no network interface"),
    ] {
        let (folder, path) = crate::rig::scenario("pinged");
        let mut program = Command::new("nsenter");
        program.arg(format!("--net=/run/netns/{}", lab.machine)).arg(env!("CARGO_BIN_EXE_bentpipe"));
        program.arg("emulate").arg(&path).args(["--out"]).arg(folder.path()).args(["--attach", attach]);
        let output = program.output().expect("starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(problem), "{attach}: {errors}");
    }
    // The interface comes up, and its MTU is too small.
    lab.script("ip -n MACHINE link set eth1 mtu 1400").expect("an MTU");
    let before_mtu = lab.state();
    assert_ne!(before, before_mtu);
    let (folder, path) = crate::rig::scenario("pinged");
    let mut program = Command::new("nsenter");
    program.arg(format!("--net=/run/netns/{}", lab.machine)).arg(env!("CARGO_BIN_EXE_bentpipe"));
    program.arg("emulate").arg(&path).args(["--out"]).arg(folder.path()).args(["--attach", "left=eth1"]);
    let output = program.output().expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("its MTU of 1400 B is less than the link's, 1500 B"), "{errors}");
    assert_eq!(lab.state(), before_mtu);
}
