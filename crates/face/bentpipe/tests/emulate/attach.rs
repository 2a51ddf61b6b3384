//! Attachments in the places of hosts: interfaces, VLANs, and network namespaces.

use std::process::{Child, Command, Stdio};

use bentpipe_testkit::await_socket;

use super::rig::{Running, rtts_ms, shortest};

/// Namespaces of the test's own: a machine that emulates, and one on a cable to it. They go with the value.
struct Lab {
    machine: String,
    guest: String,
    children: Vec<Child>,
}

impl Lab {
    fn new(name: &str) -> Option<Lab> {
        if !super::rig::go_apart() {
            return None;
        }
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
            super::rig::skip("no network namespaces");
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
    await_socket(&server, "10.0.0.2:5201");
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
    running.kill_survivor();
    running.signal("-KILL");
    running.finish();
    assert_ne!(lab.state(), before, "nothing puts it back");
    // Nor does a start in another network namespace, whose interfaces are others.
    let mut other = Running::start_in(&lab.guest, "elsewhere", &[]).expect("starts");
    assert_eq!(other.end().0, Some(0));
    assert_ne!(lab.state(), before, "it is not of that namespace");
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
fn an_interface_is_attached_by_one_emulation_and_its_own_addresses_are_noted() {
    let Some(lab) = Lab::new("twice") else { return };
    lab.script("ip -n MACHINE address add 198.51.100.1/24 dev eth1").expect("an address");
    let arguments = ["--attach", "left=eth1"];
    let Some(mut running) = Running::start_in(&lab.machine, "first", &arguments) else { return };
    let (folder, path) = super::rig::scenario("second");
    let emulate = |more: &[&str]| {
        let mut program = Command::new("nsenter");
        program.arg(format!("--net=/run/netns/{}", lab.machine)).arg(env!("CARGO_BIN_EXE_bentpipe"));
        program.arg("emulate").arg(&path).arg("--quiet").arg("--out").arg(folder.path());
        let output = program.args(arguments).args(more).output().expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = emulate(&[]);
    let problem = "cannot attach the interface \"eth1\": another emulation has it, process ";
    assert!(code != Some(0) && errors.contains(problem), "{errors}");
    assert_eq!(running.end().0, Some(0));
    // Free again. A command that SIGKILL ends, and one that is missing, have the exit codes of a shell.
    for (command, expected) in [("kill -KILL $$", 137), ("exec /nowhere/program", 127)] {
        let (code, errors) = emulate(&["--on", "second", "--", "sh", "-c", command]);
        assert_eq!(code, Some(expected), "{errors}");
        assert!(errors.contains("eth1 has addresses of this machine (198.51.100.1/24)"), "{errors}");
    }
    assert_eq!(emulate(&["--on", "second", "--", "/nowhere/program"]).0, Some(127));
}

#[test]
fn what_cannot_be_attached_is_refused_and_nothing_stays() {
    let Some(lab) = Lab::new("refused") else { return };
    let before = lab.state();
    for (attach, problem) in [
        ("left=eth9", "no network interface is called \"eth9\""),
        ("left=lo", "cannot attach the interface \"lo\": no packets come from outside of this machine there"),
        ("left=eth1.5000", "no network interface"),
        ("left=netns:nothing", "no network namespace \"nothing\""),
        ("router=eth1", "not a host: expected one of left, pinged"),
        ("left", "expected HOST=INTERFACE"),
        ("left=eth1,pinged=eth1", "no network interface"),
    ] {
        let (folder, path) = super::rig::scenario("pinged");
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
    let (folder, path) = super::rig::scenario("pinged");
    let mut program = Command::new("nsenter");
    program.arg(format!("--net=/run/netns/{}", lab.machine)).arg(env!("CARGO_BIN_EXE_bentpipe"));
    program.arg("emulate").arg(&path).args(["--out"]).arg(folder.path()).args(["--attach", "left=eth1"]);
    let output = program.output().expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("its MTU of 1400 B is less than the link's, 1500 B"), "{errors}");
    assert_eq!(lab.state(), before_mtu);
}

#[test]
fn a_machine_at_an_interface_gets_its_address_by_dhcp() {
    if !bentpipe_testkit::has("busybox") {
        return;
    }
    let Some(lab) = Lab::new("dhcp") else { return };
    let Some(mut running) = Running::start_in(&lab.machine, "dhcp-far", &["--attach", "left=eth1,dhcp"])
    else {
        return;
    };
    let folder = bentpipe_testkit::Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let script = folder.write(
        "bound.sh",
        "#!/bin/sh\n[ \"$1\" = bound ] && ip address add $ip/$mask dev $interface && echo bound $ip/$mask mtu $mtu server $serverid\nexit 0\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("set");
    // BusyBox's client judges each message of the server.
    let text =
        lab.inside(&format!("busybox udhcpc -f -n -q -R -t 5 -T 1 -O mtu -i eth0 -s '{}'", script.display()));
    assert!(text.contains("bound 10.0.0.1/") && text.contains("mtu 1500 server 10.0.0.2"), "{text}");
    let rtts = rtts_ms(&lab.inside("ping -n -c 5 -i 0.2 10.0.0.2"));
    assert!(rtts.len() >= 4 && (400.0..430.0).contains(&shortest(&rtts)), "{rtts:?} ms over 400 ms");
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn containers_of_two_runtimes_take_a_host_s_place() {
    if !super::rig::go_apart() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../contrib/containers/attach.sh");
    for (runtime, tool) in [("nspawn", "systemd-nspawn"), ("runc", "runc")] {
        if !bentpipe_testkit::has("busybox") || !bentpipe_testkit::has(tool) {
            continue;
        }
        let mut program = Command::new(script);
        program.arg(runtime).env("BENTPIPE", env!("CARGO_BIN_EXE_bentpipe"));
        program.env("SCENARIO", concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/geo.toml"));
        let output = program.output().expect("starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        if super::rig::is_unable(&errors) {
            return super::rig::skip(&errors);
        }
        let rtts = rtts_ms(&String::from_utf8_lossy(&output.stdout));
        assert!(rtts.len() == 3 && (542.0..600.0).contains(&shortest(&rtts)), "{runtime}: {rtts:?} {errors}");
    }
}

/// Answers ARP and pings for 10.0.0.1 at a TAP device, as a virtual machine's kernel does, until `end`.
fn guest(mut tap: std::fs::File, end: &std::sync::atomic::AtomicBool) {
    use std::io::{Read, Write};
    let mut frame = [0; 2048];
    while !end.load(std::sync::atomic::Ordering::Relaxed) {
        let Ok(len) = tap.read(&mut frame) else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        let own = [2, 0, 0, 0, 0, 9];
        let from: [u8; 6] = frame[6..12].try_into().expect("six");
        let is_question = frame[12..14] == [8, 6] && frame[21] == 1 && frame[38..42] == [10, 0, 0, 1];
        let is_ping = frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 8;
        frame[..6].copy_from_slice(&from);
        frame[6..12].copy_from_slice(&own);
        if is_question {
            let sender: [u8; 10] = frame[22..32].try_into().expect("ten");
            frame[21] = 2;
            frame[22..28].copy_from_slice(&own);
            frame[28..32].copy_from_slice(&[10, 0, 0, 1]);
            frame[32..42].copy_from_slice(&sender);
        } else if is_ping {
            let (source, destination) = (frame[26..30].to_vec(), frame[30..34].to_vec());
            frame[26..30].copy_from_slice(&destination);
            frame[30..34].copy_from_slice(&source);
            // Type 8 becomes 0, and the checksum grows by as much (RFC 1624).
            frame[34] = 0;
            let sum = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x0800;
            frame[36..38].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
        } else {
            continue;
        }
        let _ = tap.write(&frame[..len]);
    }
}

#[test]
fn a_virtual_machine_takes_a_host_s_place_by_its_tap() {
    let Some(lab) = Lab::new("tap") else { return };
    let machine = bentpipe_emu::Namespace::join("tap-vm", &lab.machine).expect("there");
    let tap = machine.within(|| bentpipe_emu::open_tap("tap0")).expect("inside").expect("a TAP");
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| guest(tap, &end));
        if let Some(mut running) = Running::start_in(&lab.machine, "tap-far", &["--attach", "left=tap0"]) {
            let output =
                running.shell("tap-far", &["ping", "-n", "-c", "5", "-i", "0.2", "10.0.0.1"]).output();
            let rtts = rtts_ms(&String::from_utf8_lossy(&output.expect("starts").stdout));
            let code = running.end().0;
            end.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(rtts.len() >= 4 && (400.0..430.0).contains(&shortest(&rtts)), "{rtts:?} ms over 400 ms");
            assert_eq!(code, Some(0));
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
