//! `bentpipe dtn` as its users meet it: bundles over loopback, and contact plans.
#![allow(clippy::disallowed_methods, reason = "waits for a program in real time")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bentpipe_testkit::{
    Folder, PATIENCE, Tshark, await_socket, free_address, free_port, skip, text, until, until_some,
};

fn dtn(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("dtn").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(words: &[&str]) -> Output {
    dtn(words).output().expect("bentpipe starts")
}

/// Sends bundles as often as it takes the receiver to listen.
fn carry(layer: &str, words: &[&str], count: &str) -> (Output, Output, Vec<String>, Folder) {
    let folder = Folder::new();
    let address = free_address();
    let inbox = folder.file("inbox");
    let inbox = inbox.to_str().expect("a path");
    let receive = ["receive", &address, "--layer", layer, "--count", count, "--out", inbox];
    let receiver: Child = dtn(&receive).spawn().expect("bentpipe starts");
    await_socket(&receiver, &address);
    let base = ["send", &address, "--layer", layer, "--from", "ipn:1.1", "--to", "ipn:2.1"];
    let sent = run(&[&base[..], words].concat());
    let received = receiver.wait_with_output().expect("it ends");
    let mut names: Vec<String> = std::fs::read_dir(inbox)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .collect();
    names.sort();
    (sent, received, names, folder)
}

#[test]
fn bundles_cross_each_layer() {
    for layer in ["udp", "mtcp", "tcpcl"] {
        let (sent, received, names, _folder) = carry(layer, &["--size", "1 kB", "--count", "20"], "20");
        assert_eq!(
            (sent.status.code(), received.status.code()),
            (Some(0), Some(0)),
            "{layer}: {}{}",
            text(&sent),
            text(&received)
        );
        assert_eq!(names.len(), 20, "{layer}");
        assert!(names.iter().all(|name| std::fs::read(name).expect("a payload") == vec![0; 1000]), "{layer}");
        assert!(
            text(&received).contains("20 ipn:1.1 -> ipn:2.1 payload 1000 B"),
            "{layer}: {}",
            text(&received)
        );
    }
}

#[test]
fn a_file_of_several_segments_arrives_whole() {
    let folder = Folder::new();
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    let file = folder.write("picture", &data);
    let (sent, received, names, _inbox) = carry("tcpcl", &[file.to_str().expect("a path")], "1");
    assert_eq!(sent.status.code(), Some(0), "{}{}", text(&sent), text(&received));
    assert!(std::fs::read(&names[0]).expect("a payload") == data);
}

#[test]
fn a_refused_connection_is_an_error() {
    let address = free_address();
    let sent = run(&["send", &address, "--from", "ipn:1.1", "--to", "ipn:2.1", "--size", "1 B"]);
    assert_eq!(sent.status.code(), Some(2), "{}", text(&sent));
    let wrong = run(&["send", &address, "--from", "ipn:1", "--to", "ipn:2.1", "--size", "1 B"]);
    assert!(
        wrong.status.code() == Some(2) && text(&wrong).contains("expected an endpoint identifier"),
        "{}",
        text(&wrong)
    );
}

/// Plan of Fraire et al. (2021), figure 3, one direction of each pair.
const PLAN: &str = "a range +0 +60 1 2 1\na range +0 +60 2 3 1\na range +0 +60 1 3 1\na range +0 +60 3 4 1\na range +0 +60 1 5 1\n\
    a range +0 +60 4 5 1\na contact +0 +60 1 2 1000\na contact +0 +60 2 3 1000\na contact +0 +60 1 3 1000\n\
    a contact +0 +30 3 4 1000\na contact +10 +20 1 5 1000\na contact +0 +10 4 5 1000\na contact +30 +40 4 5 1000\n\
    a contact +50 +60 4 5 1000\n";

#[test]
fn a_plan_has_routes_a_forecast_and_another_form() {
    let folder = Folder::new();
    let plan = folder.write("plan.ionrc", PLAN);
    let (plan, json) = (plan.to_str().expect("a path"), folder.file("plan.json"));
    let pairs = text(&run(&["plan", plan, "--write", json.to_str().expect("a path")]));
    assert!(pairs.contains("60000"), "{pairs}");
    for plan in [plan, json.to_str().expect("a path")] {
        let routes = text(&run(&["plan", plan, "--from", "1", "--to", "5", "--size", "100 B"]));
        let lines: Vec<&str> = routes.lines().collect();
        assert_eq!(lines.len(), 1 + 7 + 1, "{routes}");
        assert!(lines[1].ends_with("1-3-4-5") && lines[3].ends_with("1-5"), "{routes}");
        // 200 bytes with overhead at 1000 B/s and 1 s of light on three hops.
        assert!(lines[8].contains("arrives at 3.600 s by 1-3-4-5"), "{routes}");
    }
    let none = run(&["plan", plan, "--from", "5", "--to", "1"]);
    assert_eq!(none.status.code(), Some(1));
    let wrong = folder.write("wrong.ionrc", "a contact +0 +60 1 2\n");
    let wrong = run(&["plan", wrong.to_str().expect("a path")]);
    assert!(wrong.status.code() == Some(2) && text(&wrong).contains("wrong.ionrc:1"), "{}", text(&wrong));
}

/// Node file of a chain: applications at `own`, and the neighbour at `next`.
fn node_file(folder: &Folder, number: u32, own: &str, peer: u32, next: &str) -> String {
    let text = format!(
        "eid = \"ipn:{number}.0\"\nstore = \"store-{number}\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{own}\"\n\
         [[neighbour]]\nnode = {peer}\nlayer = \"tcpcl\"\nat = \"{next}\"\n[routes]\ndefault = {peer}\n"
    );
    folder.write(format!("node-{number}.toml"), text.as_bytes()).display().to_string()
}

/// Starts a node, and waits until it listens.
fn start(file: &str, at: &str) -> Child {
    let child = dtn(&["node", file, "--quiet"]).spawn().expect("bentpipe starts");
    until(&format!("node at {at}"), || TcpStream::connect(at).is_ok());
    child
}

/// Sends numbered bundles, and keeps the number of those that the node has acknowledged until it ends.
fn send_numbers(at: &str, first: u32, acknowledged: &AtomicU32) {
    use bentpipe_bundles::client::{Client, Letter};
    use bentpipe_wire::dtn::bundle::BundleFlags;
    use bentpipe_wire::dtn::eid::Eid;
    let Ok(mut client) = Client::connect(&at.into(), &Eid::ipn(1, 5)) else { return };
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    let mut sent = 0;
    loop {
        while client.pending() < 50 && client.send(&letter, (first + sent).to_be_bytes().to_vec()).is_ok() {
            sent += 1;
        }
        let has_ended = client.turn(bentpipe_units::Span::from_millis(10)).is_err();
        acknowledged.store(client.acknowledged() as u32, Ordering::SeqCst);
        if has_ended {
            return;
        }
    }
}

#[test]
fn killed_nodes_lose_nothing_that_was_acknowledged_and_deliver_once() {
    let folder = Folder::new();
    let (one, two) = (free_address(), free_address());
    let files = [node_file(&folder, 1, &one, 2, &two), node_file(&folder, 2, &two, 1, &one)];
    let mut second = start(&files[1], &two);
    let (mut next, mut acknowledged) = (0, Vec::new());
    for round in 0..4u64 {
        let mut first = start(&files[0], &one);
        let (at, taken) = (one.clone(), Arc::new(AtomicU32::new(0)));
        let counter = taken.clone();
        let sender = std::thread::spawn(move || send_numbers(&at, next, &counter));
        until("acknowledgement", || taken.load(Ordering::SeqCst) > 0);
        // A kill at any moment of the transfer is right; these are four of them.
        std::thread::sleep(Duration::from_millis(200 + 70 * round));
        if round % 2 == 1 {
            second.kill().expect("a process");
            second.wait().expect("it ends");
            second = start(&files[1], &two);
            std::thread::sleep(Duration::from_millis(100));
        }
        // SIGKILL, in the middle of a transfer.
        first.kill().expect("a process");
        first.wait().expect("it ends");
        sender.join().expect("a thread");
        let count = taken.load(Ordering::SeqCst);
        acknowledged.extend(next..next + count);
        next += 1_000_000;
    }
    let mut first = start(&files[0], &one);
    let inbox = folder.file("inbox");
    let mut receiver =
        dtn(&["receive", "--via", &two, "--node", "ipn:2.6", "--out", inbox.to_str().expect("a path")])
            // A pipe that nobody reads would fill with a line per bundle, and stop it.
            .stdout(Stdio::null())
            .spawn()
            .expect("bentpipe starts");
    let found = || {
        let files = std::fs::read_dir(&inbox).into_iter().flatten().flatten();
        let numbers = files.filter_map(|file| std::fs::read(file.path()).ok()?.try_into().ok());
        let mut numbers: Vec<u32> = numbers.map(u32::from_be_bytes).collect();
        numbers.sort_unstable();
        numbers
    };
    // Until nothing has come for five seconds after all that was acknowledged, or for a minute.
    let (mut count, mut latest) = (0, Instant::now());
    while latest.elapsed() < if count < acknowledged.len() { PATIENCE } else { Duration::from_secs(5) } {
        std::thread::sleep(Duration::from_millis(100));
        let present = std::fs::read_dir(&inbox).map_or(0, Iterator::count);
        if present != count {
            (count, latest) = (present, Instant::now());
        }
    }
    for child in [&mut receiver, &mut first, &mut second] {
        child.kill().expect("a process");
        child.wait().expect("it ends");
    }
    let found = found();
    let mut once = found.clone();
    once.dedup();
    assert_eq!(found.len(), once.len(), "delivered twice");
    let missing: Vec<u32> =
        acknowledged.iter().copied().filter(|number| once.binary_search(number).is_err()).collect();
    assert!(
        missing.is_empty(),
        "{} of {} lost: {:?}",
        missing.len(),
        acknowledged.len(),
        &missing[..5.min(missing.len())]
    );
}

#[test]
fn a_running_node_is_asked_and_changed() {
    let folder = Folder::new();
    let (at, second) = (free_address(), free_address());
    let file = folder.write(
        "node.toml",
        format!(
            "eid = \"ipn:1.0\"\nstore = \"store\"\nno_route = \"1 h\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n"
        ),
    );
    let file = file.to_str().expect("a path");
    let none = run(&["status", file]);
    assert!(
        none.status.code() == Some(2) && text(&none).contains("no node runs with the store"),
        "{}",
        text(&none)
    );
    let mut node = start(file, &at);
    let sent = run(&["send", &at, "--from", "ipn:1.5", "--to", "ipn:2.6", "--size", "10 B", "--count", "2"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent));
    let asked = |words: &[&str]| {
        let output = run(&[&words[..1], &[file], &words[1..]].concat());
        (output.status.code(), text(&output))
    };
    let (code, list) = asked(&["list"]);
    assert!(code == Some(0) && list.contains("no route") && list.contains("2 bundles"), "{list}");
    assert_eq!(asked(&["delete", "0"]).0, Some(0));
    assert_eq!(asked(&["delete", "0"]).0, Some(1), "it is gone");
    let table = format!("node = \"dtn://two/\"\nlayer = \"tcpcl\"\nat = \"{second}\"");
    let (code, neighbours) = asked(&["neighbours", "--add", &table]);
    assert!(
        code == Some(0) && neighbours.contains("dtn://two/") && neighbours.contains(&second),
        "{neighbours}"
    );
    let (_, routes) = asked(&["routes", "--add", "default=dtn://two/"]);
    assert!(routes.contains("default by dtn://two/"), "{routes}");
    let (_, status) = asked(&["status"]);
    assert!(
        status.contains("ipn:1.0 up") && status.contains("cancelled 1") && !status.contains("expired"),
        "{status}"
    );
    let (_, json) = asked(&["status", "--json"]);
    assert!(json.contains("\"waiting\": 1"), "{json}");
    let (code, contacts) = asked(&["contacts"]);
    assert!(code == Some(2) && contacts.contains("no contact plan"), "{contacts}");
    node.kill().expect("a process");
    node.wait().expect("it ends");
}

#[test]
fn a_contact_that_is_not_there_is_not_removed_in_silence() {
    let (folder, at) = (Folder::new(), free_address());
    folder.write("plan.ionrc", "a contact +0 +7200 1 2 125000\na range +0 +7200 1 2 0\n");
    let text_of_file = format!(
        "eid = \"ipn:1.0\"\nstore = \"store\"\nplan = \"plan.ionrc\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n"
    );
    let file = folder.write("node.toml", text_of_file);
    let file = file.to_str().expect("a path");
    let mut node = start(file, &at);
    let remove = |pair: &str, more: &[&str]| {
        let output = run(&[&["contacts", file, "--remove", pair], more].concat());
        (output.status.code(), text(&output))
    };
    let (code, words) = remove("1,9", &[]);
    assert!(code == Some(1) && words.contains("no contact from 1 to 9: none removed"), "{words}");
    let (code, words) = remove("1,2", &["--at", "9000"]);
    assert!(code == Some(1) && words.contains("no contact from 1 to 2 at 9000 s"), "{words}");
    let (code, words) = remove("1,2", &[]);
    assert!(code == Some(0) && words.contains("1 contacts removed"), "{words}");
    node.kill().expect("a process");
    node.wait().expect("it ends");
}

/// Returns the folder of dtn7's programs, if they are installed.
fn dtn7() -> Option<std::path::PathBuf> {
    let folders = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    folders.into_iter().find(|folder| folder.join("dtnd").is_file() && folder.join("dtnsend").is_file())
}

#[test]
#[allow(clippy::print_stderr, reason = "says why the test is skipped: dtn7 is not a package of Debian")]
fn bundles_cross_to_dtn7_and_back() {
    let Some(programs) = dtn7() else {
        eprintln!("skipped: no dtnd on the path; help: cargo install dtn7 --locked");
        return;
    };
    let folder = Folder::new();
    let [one, peer, web] = [(); 3].map(|()| free_port());
    let (at, there) = (format!("127.0.0.1:{one}"), format!("127.0.0.1:{peer}"));
    let work = folder.file("dtn7");
    std::fs::create_dir_all(&work).expect("a folder");
    let words =
        format!("-n 23 -w {web} -i0 -p 1h -r epidemic -C tcp:port={peer} -e 42 -W {}", work.display());
    let mut daemon = Command::new(programs.join("dtnd"))
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dtnd starts");
    await_socket(&daemon, &there);
    await_socket(&daemon, &format!("127.0.0.1:{web}"));
    let file = node_file(&folder, 1, &at, 23, &there);
    let mut node = start(&file, &at);
    let sent =
        run(&["send", &at, "--from", "ipn:1.5", "--to", "ipn:23.42", "--size", "20 kB", "--count", "3"]);
    let bundles = taken_by_dtn7(&programs, web, 3);
    let payload = folder.write("payload", b"hello from dtn7");
    let back = Command::new(programs.join("dtnsend"))
        .args(["-p", &web.to_string(), "-r", "ipn:1.6", payload.to_str().expect("a path")])
        .output()
        .expect("dtnsend starts");
    let inbox = folder.file("inbox");
    let mut receiver = dtn(&["receive", "--via", &at, "--node", "ipn:1.6", "--count", "1"])
        .args(["--out", inbox.to_str().expect("a path")])
        .spawn()
        .expect("bentpipe starts");
    let arrived = || {
        let file = std::fs::read_dir(&inbox).ok()?.flatten().next()?;
        std::fs::read(file.path()).ok().filter(|payload| !payload.is_empty())
    };
    let payload = until_some("bundle of dtn7", arrived);
    for child in [&mut daemon, &mut node, &mut receiver] {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!(payload, b"hello from dtn7", "{}", text(&back));
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent));
    assert_eq!(bundles.len(), 3, "bundles at dtn7");
}

/// Takes the bundles of dtn7's endpoint 42 until there are `count`.
fn taken_by_dtn7(programs: &std::path::Path, web: u16, count: usize) -> Vec<Vec<u8>> {
    let mut bundles = Vec::new();
    until("bundles at dtn7", || {
        let got = Command::new(programs.join("dtnrecv"))
            .args(["-p", &web.to_string(), "-e", "42"])
            .output()
            .expect("dtnrecv starts");
        bundles.extend((got.status.success() && got.stdout.len() == 20_000).then_some(got.stdout));
        bundles.len() == count
    });
    bundles
}

#[test]
#[allow(clippy::print_stderr, reason = "says why the test is skipped: dtn7 is not a package of Debian")]
fn bundles_cross_to_dtn7_and_back_over_mtcp_and_udp() {
    let Some(programs) = dtn7() else {
        eprintln!("skipped: no dtnd on the path; help: cargo install dtn7 --locked");
        return;
    };
    for layer in ["mtcp", "udp"] {
        let folder = Folder::new();
        let [own, peer, web] = [(); 3].map(|()| free_port());
        let (at, there) = (format!("127.0.0.1:{own}"), format!("127.0.0.1:{peer}"));
        let (work, inbox) = (folder.file("dtn7"), folder.file("inbox"));
        std::fs::create_dir_all(&work).expect("a folder");
        let words = format!(
            "-n 23 -w {web} -i0 -p 1h -r epidemic -C {layer}:port={peer} -s {layer}://{at}/1 -e 42 -W {}",
            work.display()
        );
        let mut daemon = Command::new(programs.join("dtnd"))
            .args(words.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dtnd starts");
        let mut receiver = dtn(&["receive", &at, "--layer", layer, "--node", "ipn:1.0", "--count", "1"])
            .args(["--out", inbox.to_str().expect("a path")])
            .spawn()
            .expect("bentpipe starts");
        await_socket(&daemon, &there);
        await_socket(&receiver, &at);
        let ends = ["--from", "ipn:1.5", "--to", "ipn:23.42", "--size", "20 kB", "--count", "2"];
        let sent = run(&[&["send", &there, "--layer", layer][..], &ends].concat());
        let bundles = taken_by_dtn7(&programs, web, 2);
        let payload = folder.write("payload", b"hello from dtn7");
        let back = Command::new(programs.join("dtnsend"))
            .args(["-p", &web.to_string(), "-r", "ipn:1.6", payload.to_str().expect("a path")])
            .output()
            .expect("dtnsend starts");
        until("end of the receiver", || receiver.try_wait().expect("a process").is_some());
        for child in [&mut daemon, &mut receiver] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let files = std::fs::read_dir(&inbox).into_iter().flatten().flatten();
        let payloads: Vec<_> = files.filter_map(|file| std::fs::read(file.path()).ok()).collect();
        assert_eq!(sent.status.code(), Some(0), "{layer}: {}", text(&sent));
        assert_eq!(bundles.len(), 2, "{layer}: bundles at dtn7");
        assert_eq!(payloads, [b"hello from dtn7".to_vec()], "{layer}: {}", text(&back));
    }
}

/// Blocks that a relay has passed, each with its direction.
type Blocks = Vec<(bool, Vec<u8>)>;

/// Relay of one connection. Returns its address, and what has passed, with `true` for the side that connected.
fn recording_relay(to: String) -> (String, std::thread::JoinHandle<Blocks>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("an address").to_string();
    let thread = std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a connection");
        let server = TcpStream::connect(to).expect("a receiver");
        let passed = Arc::new(Mutex::new(Vec::new()));
        let directions =
            [(true, &client, &server), (false, &server, &client)].map(|(is_first, from, into)| {
                let (mut from, mut into) =
                    (from.try_clone().expect("a copy"), into.try_clone().expect("a copy"));
                let passed = Arc::clone(&passed);
                std::thread::spawn(move || {
                    let mut buffer = [0; 1200];
                    while let Ok(len @ 1..) = from.read(&mut buffer) {
                        passed.lock().expect("no panic").push((is_first, buffer[..len].to_vec()));
                        if into.write_all(&buffer[..len]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(Shutdown::Write);
                })
            });
        directions.into_iter().for_each(|direction| direction.join().expect("no panic"));
        Arc::try_unwrap(passed).expect("no thread is left").into_inner().expect("no panic")
    });
    (at, thread)
}

/// Length of a contact header of TCPCL (RFC 9174, section 4.2).
const CONTACT_HEADER: usize = 6;

/// Writes what has passed over a connection as a capture of TCP.
fn write_capture(folder: &Folder, passed: &[(bool, Vec<u8>)]) -> std::path::PathBuf {
    use bentpipe_wire::ip::Protocol;
    use bentpipe_wire::pcap::{LinkType, Writer};
    use bentpipe_wire::{ipv4, tcp};
    let ends = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 4556)];
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).expect("a capture");
    let mut next = [1u32; 2];
    for (n, (is_first, data)) in passed.iter().enumerate() {
        let (own, other) = if *is_first { (0, 1) } else { (1, 0) };
        let mut repr = tcp::Repr::new(ends[own].1, ends[other].1, tcp::SeqNumber(next[own]));
        repr.ack = Some(tcp::SeqNumber(next[other]));
        next[own] += data.len() as u32;
        let mut segment = vec![0; repr.buffer_len()];
        repr.emit(&mut segment);
        segment.extend(data);
        let ip = ipv4::Repr::new(ends[own].0.into(), ends[other].0.into(), Protocol::TCP, segment.len());
        let mut packet = vec![0; ip.buffer_len()];
        ip.emit(&mut packet);
        packet.extend(segment);
        writer.write(1_000_000_000 + 1_000_000 * n as u64, &packet, 0).expect("a capture");
    }
    folder.write("tls.pcap", writer.into_inner())
}

#[test]
fn tshark_reads_sessions_in_tls_with_their_keys() {
    let folder = Folder::new();
    let pki = folder.file("pki");
    let pki = pki.to_str().expect("a path");
    for node in ["ipn:1.0", "ipn:2.0"] {
        let made = run(&["certificate", pki, node]);
        assert_eq!(made.status.code(), Some(0), "{}", text(&made));
    }
    let credentials = |node: u32| {
        let file = |ending: &str| format!("{pki}/ipn-{node}.0{ending}.pem");
        [
            "--certificate".into(),
            file(""),
            "--key".into(),
            file("-key"),
            "--trust".into(),
            format!("{pki}/authority.pem"),
        ]
    };
    let (address, keys) = (free_address(), folder.file("keys"));
    let receiver = dtn(&["receive", &address, "--node", "ipn:2.0", "--count", "2"])
        .args(credentials(2))
        .env("SSLKEYLOGFILE", &keys)
        .spawn()
        .expect("bentpipe starts");
    await_socket(&receiver, &address);
    let (relay, thread) = recording_relay(address);
    let sent =
        dtn(&["send", &relay, "--from", "ipn:1.1", "--to", "ipn:2.1", "--size", "3 kB", "--count", "2"])
            .args(credentials(1))
            .output()
            .expect("bentpipe starts");
    let received = receiver.wait_with_output().expect("it ends");
    assert_eq!(
        (sent.status.code(), received.status.code()),
        (Some(0), Some(0)),
        "{}{}",
        text(&sent),
        text(&received)
    );
    let mut passed = thread.join().expect("no panic");
    // Both ends send their contact header at once. tshark takes the end of the first one for the active entity, and reads no TLS of the other.
    if let Some((_, first)) = passed.iter_mut().find(|(is_first, _)| *is_first) {
        let rest = first.split_off(CONTACT_HEADER);
        let header = std::mem::replace(first, rest);
        passed.insert(0, (true, header));
        passed.retain(|(_, data)| !data.is_empty());
    }
    let whole: Vec<u8> = passed.iter().flat_map(|(_, data)| data.clone()).collect();
    assert!(!whole.windows(7).any(|window| window == b"ipn:1.0"), "a node identifier in the clear");
    let capture = write_capture(&folder, &passed);
    let Some(tshark) = Tshark::on(&capture) else { return };
    let account =
        tshark.preferences(&[&format!("tls.keylog_file:{}", keys.display())]).options(&["-V"]).text();
    for words in
        ["Contact Header", "TLSv1.3", "SESS_INIT", "ipn:1.0", "XFER_SEGMENT", "XFER_ACK", "SESS_TERM"]
    {
        assert!(account.contains(words), "{words}: {account}");
    }
    assert!(!account.contains("Malformed"), "{account}");
}

/// Returns a Python that has pyd3tn: that of `BENTPIPE_PYTHON`, or of `cargo xtask python`.
fn python_of_ud3tn() -> Option<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let folder = std::env::var("BENTPIPE_PYTHON").unwrap_or_else(|_| format!("{root}/target/python/bin"));
    let python = format!("{folder}/python");
    let found = Command::new(&python).args(["-c", "import pyd3tn"]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    skip(&format!("{python} has no pyd3tn; `cargo xtask python` installs it"));
    None
}

#[test]
fn bundles_cross_to_ud3tns_library_and_back() {
    let Some(python) = python_of_ud3tn() else { return };
    let peer = |words: &[&str]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/ud3tn.py");
        let mut command = Command::new(&python);
        command.arg(script).args(words).stdout(Stdio::piped()).spawn().expect("Python starts")
    };
    let port = free_port().to_string();
    let mut receiver = peer(&["receive", &port, "5"]);
    let mut output = std::io::BufReader::new(receiver.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut String::new()).expect("it is ready");
    let address = format!("127.0.0.1:{port}");
    let words = ["--layer", "mtcp", "--from", "ipn:1.1", "--to", "ipn:2.1", "--size", "1 kB", "--count", "5"];
    let sent = run(&[&["send", &address][..], &words].concat());
    let mut said = String::new();
    output.read_to_string(&mut said).expect("text");
    assert!(receiver.wait().expect("it ends").success(), "{said}{}", text(&sent));
    assert_eq!(said, "ipn:1.1 ipn:2.1 1000\n".repeat(5));
    // Six bundles with each pair of CRCs.
    let folder = Folder::new();
    let (address, inbox) = (free_address(), folder.file("inbox"));
    let inbox = inbox.to_str().expect("a path");
    let receiver = dtn(&["receive", &address, "--layer", "mtcp", "--count", "6", "--out", inbox]).spawn();
    let receiver = receiver.expect("bentpipe starts");
    await_socket(&receiver, &address);
    let port = address.rsplit(':').next().expect("a port");
    assert!(peer(&["send", port, "ipn:2.1", "ipn:1.1", "6"]).wait().expect("it ends").success());
    let received = receiver.wait_with_output().expect("it ends");
    assert_eq!(received.status.code(), Some(0), "{}", text(&received));
    let count = std::fs::read_dir(inbox).expect("a folder").count();
    assert_eq!(count, 6, "{}", text(&received));
}
