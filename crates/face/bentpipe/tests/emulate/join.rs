//! One scenario over two machines: each in a network namespace, with an emulated path between them.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bentpipe_emu::Namespace;
use bentpipe_testkit::{Folder, Process, said};

use super::rig::{Running, SCENARIO, bentpipe, is_unable, rtts_ms, shortest};

/// Path between the machines, whose two ways differ by 6 ms.
const PATH: &str = r#"
title = "Path between two machines"
duration = "10 s"
[node.left]
[node.pinged]
[link.path]
between = ["left", "pinged"]
rate = "1 Gbit/s"
forward.delay = "4 ms"
return.delay = "10 ms"
"#;

/// The hop as carriers of DVB, with U-mode header compression: GSE in DVB-S2 one way, ULE in DVB-S the other.
const CARRIERS: &str = r#"
title = "Two carriers"
duration = "10 s"
[node.left]
[node.pinged]
[dvb.down]
kind = "dvb-s2"
symbol_rate = 4_000_000
modcod = "QPSK 1/2"
[dvb.up]
kind = "dvb-s"
symbol_rate = 500_000
code_rate = "1/2"
[link.hop]
between = ["left", "pinged"]
delay = "200 ms"
forward.medium = { kind = "dvb", line = "down", encapsulation = "gse", rohc = { mode = "unidirectional" } }
return.medium = { kind = "dvb", line = "up", encapsulation = "ule", rohc = { mode = "unidirectional" } }
"#;

/// Two machines, and files that both have.
struct Lab {
    path: Running,
    far: String,
    folder: Folder,
}

impl Lab {
    fn new(far: &str) -> Option<Lab> {
        Lab::of(far, SCENARIO)
    }

    fn of(far: &str, scenario: &str) -> Option<Lab> {
        let path = Running::start_scenario(PATH, far)?;
        let folder = Folder::new();
        folder.write("hop.toml", scenario);
        let key = folder.write("join.key", "0123456789abcdef".repeat(4));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(key, mode).expect("set");
        Some(Lab { path, far: far.to_owned(), folder })
    }

    /// Returns an emulation of the near or far machine, with other arguments.
    fn machine(&self, is_far: bool, arguments: &[&str]) -> Command {
        let (machine, part, other) = match is_far {
            false => ("left", "left", "10.0.0.2:7700"),
            true => (&self.far[..], "pinged", "10.0.0.1:7700"),
        };
        let mut program = Command::new("nsenter");
        program.arg(format!("--net=/run/netns/{}", self.path.namespace(machine)));
        program
            .arg(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["emulate", "--quiet"])
            .arg(self.folder.file("hop.toml"));
        program
            .args(["--cut", "hop", "--part", part, "--join", other, "--key"])
            .arg(self.folder.file("join.key"));
        program.arg("--out").arg(self.folder.file(if is_far { "far" } else { "near" })).args(arguments);
        program.current_dir(self.folder.path());
        program
    }

    /// Starts a machine and waits until it runs.
    fn start(&self, is_far: bool, arguments: &[&str]) -> Process {
        Process::start(self.machine(is_far, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Returns what the report of a machine says of real time.
    fn timing(&self, name: &str) -> String {
        Running::timing(&self.folder.file(name))
    }
}

/// Waits until an emulation says how to end it, and returns what it printed.
fn until_it_runs(process: &mut Process) -> String {
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut printed = Vec::new();
    for line in lines {
        let is_last = line.starts_with("end it:");
        printed.push(line);
        if is_last {
            break;
        }
    }
    printed.join("\n")
}

/// Returns the least time of datagrams between sockets of two hosts, in milliseconds. Both are on one machine in truth, so
/// its clock is the measure.
fn one_way_ms(from: &UdpSocket, to: &UdpSocket) -> f64 {
    let times = (0..20u8).filter_map(|n| {
        let sent = Instant::now();
        from.send_to(&[n], to.local_addr().expect("bound")).expect("sent");
        let mut byte = [0];
        let came = to.recv(&mut byte).is_ok() && byte == [n];
        came.then(|| sent.elapsed().as_secs_f64() * 1e3)
    });
    shortest(&times.collect::<Vec<_>>())
}

fn socket(process: u32, host: &str, address: &str) -> UdpSocket {
    let name = format!("bentpipe-{process}-{host}");
    let namespace = Namespace::join(&format!("probe-{host}"), &name).expect("there");
    let socket = namespace.within(|| UdpSocket::bind(address)).expect("inside").expect("its address");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    socket
}

#[test]
fn a_link_over_two_machines_has_its_delay_whatever_their_clocks_and_path() {
    let Some(lab) = Lab::new("cut-far") else { return };
    assert!(lab.path.rtt_ms() >= 14.0);
    // The far machine's clock is a day ahead, and gains 50 µs a second.
    let mut far = lab.start(true, &["--clock-skew", "86400,50"]);
    let mut near = lab.start(false, &["--clock-skew", "-3600,0"]);
    assert!(until_it_runs(&mut near).contains("end it:") && until_it_runs(&mut far).contains("end it:"));
    let ping = |count: &str| {
        let mut shell = bentpipe();
        let id = near.id().to_string();
        let output = shell.args(["shell", "left", "--emulation", &id, "--"]);
        said(&output.args(["ping", "-n", "-c", count, "-i", "0.2", "10.0.0.2"]).output().expect("starts"), 0)
    };
    let rtts = rtts_ms(&ping("10"));
    assert!(rtts.len() == 10 && (400.0..404.0).contains(&shortest(&rtts)), "{rtts:?} ms over 400 ms");
    // The ways of the path differ by 6 ms, so the clocks seem to by 3 ms: later one way and earlier the other.
    let sockets = [socket(near.id(), "left", "10.0.0.1:0"), socket(far.id(), "pinged", "10.0.0.2:0")];
    let ways = [one_way_ms(&sockets[0], &sockets[1]), one_way_ms(&sockets[1], &sockets[0])];
    assert!((ways[0] + ways[1] - 400.0).abs() < 3.0, "{ways:?} ms");
    assert!(ways.iter().all(|way| (way - 200.0).abs() < 3.0 + 2.0), "{ways:?} ms");
    assert_eq!(near.end().0, Some(0));
    let (code, errors) = far.finish();
    assert_eq!(code, Some(0), "it ends with the other: {errors}");
    assert!(errors.contains("clocks agree within 7"), "{errors}");
    for name in ["near", "far"] {
        let timing = lab.timing(name);
        assert!(timing.contains("joined with") && timing.contains("0 datagrams lost"), "{timing}");
    }
}

#[test]
fn carriers_of_dvb_over_two_machines_have_the_round_trips_of_one() {
    let Some(lab) = Lab::of("cut-carrier", CARRIERS) else { return };
    let ping = ["ping", "-n", "-c", "10", "-i", "0.2", "-s", "800", "10.0.0.2"];
    let mut far = lab.start(true, &[]);
    let output = lab.machine(false, &[&["--on", "left", "--"], &ping[..]].concat()).output().expect("starts");
    let cut = rtts_ms(&said(&output, 0));
    assert_eq!(far.finish().0, Some(0));
    let mut whole = bentpipe();
    whole.arg("emulate").arg(lab.folder.file("hop.toml")).args(["--on", "left", "--"]).args(ping);
    let whole = rtts_ms(&said(&whole.current_dir(lab.folder.path()).output().expect("starts"), 0));
    assert!(cut.len() == 10 && whole.len() == 10, "{cut:?} and {whole:?}");
    // One way has frames of 8 ms, the other takes 14 ms for 828 B of IP.
    let [cut, whole] = [cut, whole].map(|rtts| shortest(&rtts));
    assert!((414.0..450.0).contains(&whole) && (cut - whole).abs() < 10.0, "{cut} ms instead of {whole} ms");
}

#[test]
fn a_path_longer_than_the_link_and_other_scenarios_are_refused() {
    let Some(lab) = Lab::new("cut-refused") else { return };
    let both = |near: &[&str], far: &[&str]| {
        let mut far = lab.start(true, far);
        let output = lab.machine(false, near).output().expect("starts");
        let (_, errors) = far.finish();
        (said(&output, 2), errors)
    };
    let short = ["--set", "link.hop.delay=12 ms"];
    let (near, far) = both(&short, &short);
    for errors in [near, far] {
        let is_refused = errors.contains("link.hop.delay") && errors.contains("a median round trip of");
        assert!(is_refused || errors.contains("fallen silent"), "{errors}");
    }
    let (near, far) = both(&["--max-wait", "5 s"], &["--seed", "7", "--max-wait", "5 s"]);
    for errors in [near, far] {
        assert!(errors.contains("emulates another scenario"), "{errors}");
    }
    let alone = lab.machine(false, &["--max-wait", "1 s"]).output().expect("starts");
    assert!(said(&alone, 2).contains("10.0.0.2:7700 does not answer"));
    let wrong = lab.machine(false, &["--set", "link.hop.rate=0 bit/s"]).output().expect("starts");
    assert!(said(&wrong, 2).contains("link.hop.rate"));
}

/// Returns an IPv4 packet with a UDP datagram from the far machine's address and port.
fn of_far_machine(payload: &[u8]) -> Vec<u8> {
    let len = 28 + payload.len() as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet.extend([7700u16, 7700, len - 20, 0].map(u16::to_be_bytes).concat());
    packet.extend_from_slice(payload);
    packet
}

#[test]
fn datagrams_of_others_do_not_matter() {
    let Some(lab) = Lab::new("cut-flooded") else { return };
    let mut far = lab.start(true, &[]);
    // The flood has the address and port of the far machine: it is on that machine.
    let mut near = lab.start(false, &[]);
    assert!(until_it_runs(&mut near).contains("end it:") && until_it_runs(&mut far).contains("end it:"));
    let flood = Namespace::join("flood", &lab.path.namespace(&lab.far)).expect("there");
    let raw = flood.within(|| {
        let protocol = Some(socket2::Protocol::from(255));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, protocol)?;
        socket.set_header_included_v4(true).map(|()| socket)
    });
    let raw = raw.expect("inside").expect("root may");
    let to = socket2::SockAddr::from(std::net::SocketAddr::from(([10, 0, 0, 1], 0)));
    let mut forged = [&b"BPJ1\x02"[..], &7u64.to_be_bytes(), &[0; 8], &[0x45; 40], &[0; 16]].concat();
    for n in 0..2000u32 {
        forged[30..34].copy_from_slice(&n.to_be_bytes());
        for payload in [&forged[..], b"nonsense"] {
            raw.send_to(&of_far_machine(payload), &to).expect("sent");
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    let mut ping = Command::new("ip");
    ping.args([
        "netns",
        "exec",
        &format!("bentpipe-{}-left", near.id()),
        "ping",
        "-n",
        "-c",
        "5",
        "-i",
        "0.2",
        "10.0.0.2",
    ]);
    let text = said(&ping.output().expect("starts"), 0);
    assert_eq!(rtts_ms(&text).len(), 5, "{text}");
    near.end();
    far.finish();
    let timing = lab.timing("near");
    assert!(timing.contains("2000 of another form, 2000 of another key"), "{timing}");
}

#[test]
fn a_key_file_and_the_link_are_checked_first() {
    let folder = Folder::new();
    let scenario = folder.write("hop.toml", SCENARIO);
    let key = folder.write("open.key", "00".repeat(32));
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("set");
    let refused = |cut: &str, key: &Path| {
        let mut program = bentpipe();
        program.arg("emulate").arg(&scenario).args([
            "--cut",
            cut,
            "--part",
            "left",
            "--join",
            "127.0.0.1:9",
            "--key",
        ]);
        let output = program.arg(key).output().expect("starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let errors = refused("hop", &key);
    assert!(errors.contains("chmod 600") || is_unable(&errors), "{errors}");
    let errors = refused("hip", &key);
    assert!(errors.contains("no link \"hip\" to cut at: expected one of hop"), "{errors}");
}
