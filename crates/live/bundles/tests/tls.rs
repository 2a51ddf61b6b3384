//! TLS on TCPCLv4: nodes that trust each other, and all that is refused.
#![allow(clippy::disallowed_methods, reason = "nodes run in real time")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bentpipe_bundles::client::{Access, Client, Letter};
use bentpipe_bundles::node::{Daemon, NodeFile};
use bentpipe_bundles::ping::{Pinging, ping};
use bentpipe_bundles::tls::{Findings, Making, NamePolicy, Names, Policy, Security, Settings, make};
use bentpipe_bundles::{Layer, Sending, send};
use bentpipe_testkit::{Folder, await_socket, free_port, has, succeed, until};
use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::{BundleFlags, Payload};
use bentpipe_wire::dtn::eid::Eid;

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Makes a certificate, and returns the settings of its holder.
fn settings(folder: &Path, node: &str, days: i64) -> Settings {
    let making = Making {
        folder: folder.to_owned(),
        node: Some(node.parse().expect("a node")),
        hosts: vec!["localhost".to_owned()],
        addresses: vec!["127.0.0.1".parse().expect("an address")],
        days,
    };
    let made = make(&making).expect("a certificate");
    let (certificate, key) = made.node.expect("of a node");
    Settings::new(certificate, key, made.trust)
}

/// Node in a thread, with its log.
struct Running {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<u64>>,
}

impl Running {
    fn start(file: NodeFile) -> Running {
        let (stop, log) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (asked, lines) = (Arc::clone(&stop), Arc::clone(&log));
        let mut daemon = Daemon::open(file).expect("a node");
        let thread = std::thread::spawn(move || {
            let mut keep = |line: &str| lines.lock().expect("no panic").push(line.to_owned());
            daemon.run(&asked, &mut keep).expect("a store");
            daemon.counters().echoed
        });
        Running { stop, log, thread: Some(thread) }
    }

    /// Waits for a line of the log.
    fn wait_for(&self, words: &str) {
        let has_words = |log: &Vec<String>| log.iter().any(|line| line.contains(words));
        until(&format!("\"{words}\" in the log"), || has_words(&self.log.lock().expect("no panic")));
    }

    fn log(&self) -> String {
        self.log.lock().expect("no panic").join("\n")
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("no panic")
    }
}

/// Returns a node that listens at `at`, and at `apps` without TLS, and dials `peer`.
fn node(
    folder: &Path,
    number: u32,
    tls: Option<Settings>,
    at: SocketAddr,
    apps: SocketAddr,
    peer: (u32, SocketAddr),
) -> NodeFile {
    let (store, (neighbour, there)) = (folder.join(format!("store-{number}")), peer);
    let text = format!(
        "eid = \"ipn:{number}.0\"\nstore = {store:?}\nsync = false\n\
         [[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\ntls = \"off\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n\
         [[neighbour]]\nnode = {neighbour}\nlayer = \"tcpcl\"\nat = \"{there}\"\n[routes]\ndefault = {neighbour}\n"
    );
    NodeFile { tls, ..NodeFile::parse(&text).expect("a good file") }
}

fn pinging(node: Access, wait: Span) -> Pinging {
    let (from, to) = (Eid::ipn(1, 50), Eid::ipn(2, 7));
    Pinging { node, from, to, count: 5, interval: Span::from_millis(5), size: 100_000, wait }
}

fn answers(node: Access, wait: Span) -> Result<usize, String> {
    let never = AtomicBool::new(false);
    ping(&pinging(node, wait), &never, &mut |_, _| {}).map(|found| found.times.len())
}

/// Runs two nodes and returns their logs, once the second has the words in its log, and the answers to pings.
fn two_nodes(one: Option<Settings>, two: Option<Settings>, words: [&str; 2], wait: Span) -> (usize, String) {
    let folder = Folder::new();
    let (at, to, apps) = (free(), free(), free());
    let one = Running::start(node(&folder.file(""), 1, one, at, apps, (2, to)));
    let two = Running::start(node(&folder.file(""), 2, two, to, free(), (1, at)));
    one.wait_for(words[0]);
    two.wait_for(words[1]);
    let answers = answers(apps.to_string().into(), wait).expect("a session without TLS");
    let log = format!("{}\n{}", one.log(), two.log());
    one.end();
    two.end();
    (answers, log)
}

const CONNECTED: [&str; 2] = ["neighbour 2 connected", "neighbour 1 connected"];
const SHORT: Span = Span::from_millis(300);

#[test]
fn bundles_cross_between_nodes_that_trust_each_other() {
    let folder = Folder::new();
    let [one, two] = ["ipn:1.0", "ipn:2.0"].map(|node| settings(&folder.file("pki"), node, 10));
    let (found, log) = two_nodes(Some(one), Some(two), CONNECTED, Span::from_secs(10));
    assert_eq!(found, 5, "{log}");
}

#[test]
fn a_peer_without_tls_is_refused_where_it_is_required_and_welcome_where_it_is_offered() {
    let folder = Folder::new();
    let one = settings(&folder.file("pki"), "ipn:1.0", 10);
    let refused = ["TLS is required, and the peer offers none", "no session"];
    let (found, log) = two_nodes(Some(one.clone()), None, refused, SHORT);
    assert_eq!(found, 0, "{log}");
    let offered = Settings { policy: Policy::Offered, ..one };
    let (found, log) = two_nodes(Some(offered), None, CONNECTED, Span::from_secs(10));
    assert_eq!(found, 5, "{log}");
}

#[test]
fn certificates_of_others_expired_or_of_unknown_authorities_are_refused() {
    let folder = Folder::new();
    let good = || settings(&folder.file("pki"), "ipn:1.0", 10);
    let cases = [
        (settings(&folder.file("pki"), "ipn:3.0", 10), "certificate of the peer does not name \"ipn:2.0\""),
        (settings(&folder.file("pki"), "ipn:2.0", -1), "certificate of the peer refused: it has expired"),
        (
            Settings {
                trust: folder.file("pki/authority.pem"),
                ..settings(&folder.file("other"), "ipn:2.0", 10)
            },
            "certificate of the peer refused: no trusted authority has issued it",
        ),
    ];
    for (two, words) in cases {
        // Node 2 accepts node 1, whose certificate is good, and is refused by it.
        let is_impostor = words.contains("name");
        let other = if is_impostor { "neighbour 1 disconnected" } else { "no session" };
        let (found, log) = two_nodes(Some(good()), Some(two), [words, other], SHORT);
        assert_eq!(found, 0, "{log}");
        assert!(!log.contains("neighbour 2 connected"), "{log}");
    }
}

#[test]
fn a_certificate_of_another_node_ends_the_session_with_any_policy() {
    let folder = Folder::new();
    let three = settings(&folder.file("pki"), "ipn:3.0", 10);
    for node_id in [NamePolicy::Ignored, NamePolicy::IfPresent] {
        let one = Settings { node_id, ..settings(&folder.file("pki"), "ipn:1.0", 10) };
        // Node 2 has the certificate of node 3.
        let words = ["certificate of the peer does not name \"ipn:2.0\"", "neighbour 1 disconnected"];
        let (found, log) = two_nodes(Some(one), Some(three.clone()), words, SHORT);
        assert_eq!(found, 0, "{log}");
        assert!(!log.contains("neighbour 2 connected"), "{log}");
    }
}

/// Makes a certificate with names, as OpenSSL writes them, and none of a node. Returns the settings of its holder.
fn nameless(folder: &Path, names: &str) -> Settings {
    let pki = folder.join("pki");
    let made = settings(&pki, "ipn:9.0", 10);
    let file = |end: &str| folder.join(format!("host{end}"));
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=host"];
    succeed(
        Command::new("openssl")
            .args(["req", "-new"])
            .args(key)
            .args(["-keyout"])
            .arg(file("-key.pem"))
            .arg("-out")
            .arg(file(".csr")),
    );
    std::fs::write(file(".ext"), format!("basicConstraints=CA:false\n{names}")).expect("written");
    let mut sign = Command::new("openssl");
    sign.args(["x509", "-req", "-days", "10", "-in"]).arg(file(".csr")).arg("-CA").arg(&made.trust);
    sign.arg("-CAkey").arg(pki.join("authority-key.pem")).arg("-CAcreateserial");
    succeed(sign.arg("-extfile").arg(file(".ext")).arg("-out").arg(file(".pem")));
    let mut permissions = std::fs::metadata(file("-key.pem")).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(file("-key.pem"), permissions).expect("set");
    Settings { node_id: NamePolicy::IfPresent, ..Settings::new(file(".pem"), file("-key.pem"), made.trust) }
}

/// Returns the number of bundles that a peer is given as node 2.
fn given(settings: &Settings, at: SocketAddr, most: usize) -> usize {
    let access = Access { place: at.to_string(), security: Security::open(settings).expect("files") };
    let mut client = Client::connect(&access, &Eid::ipn(2, 0)).expect("a session");
    let (end, mut count) = (Instant::now() + Duration::from_millis(1500), 0);
    while Instant::now() < end && count < most && client.turn(Span::from_millis(20)).is_ok() {
        while client.receive().is_some() {
            client.accept();
            count += 1;
        }
    }
    count
}

#[test]
fn a_certificate_without_a_node_speaks_for_its_host_alone() {
    if !has("openssl") {
        return;
    }
    // The neighbour is at another host of this machine.
    let there = SocketAddr::from(([127, 0, 0, 9], free_port()));
    for (names, is_given) in [
        ("", false),
        ("subjectAltName=DNS:other.example,IP:127.0.0.1\n", false),
        ("subjectAltName=DNS:two.example\n", true),
        ("subjectAltName=IP:127.0.0.9\n", true),
    ] {
        let folder = Folder::new();
        let host = nameless(&folder.file(""), names);
        let one = settings(&folder.file("pki"), "ipn:1.0", 10);
        let one = Settings { node_id: NamePolicy::IfPresent, ..one };
        let (at, apps) = (free(), free());
        let mut file = node(&folder.file(""), 1, Some(one), at, apps, (2, there));
        file.neighbour[0].name = Some("two.example".to_owned());
        let running = Running::start(file);
        let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
        let letter =
            Letter { to: Eid::ipn(2, 9), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
        (0..3).for_each(|n| _ = client.send(&letter, vec![n; 10]).expect("a session"));
        until("acknowledgements", || {
            client.turn(Span::from_millis(20)).expect("a session");
            client.acknowledged() == 3
        });
        client.close();
        assert_eq!(given(&host, at, 3), if is_given { 3 } else { 0 }, "{names}: {}", running.log());
        if !is_given {
            running.wait_for("connected as 2 and is sent nothing: 2 is at 127.0.0.9");
        }
        running.end();
    }
}

#[test]
fn a_certificate_of_an_endpoint_that_is_no_node_ends_the_session() {
    if !has("openssl") {
        return;
    }
    let folder = Folder::new();
    let one = settings(&folder.file("pki"), "ipn:1.0", 10);
    let (at, apps) = (free(), free());
    let one = Settings { node_id: NamePolicy::IfPresent, ..one };
    let mut file = node(&folder.file(""), 1, Some(one), at, apps, (2, free()));
    file.neighbour[0].at = None;
    let running = Running::start(file);
    // With required TLS there is one listener that does not require it.
    running.wait_for(&format!("neighbour 2 has no `at`, and TLS is not required at {apps}: "));
    for eid in ["ipn:5.5", "dtn://five/x", "ipn:2.5", "ipn:1.77", "ipn:02.0", "UTF8:ipn:2.0"] {
        let value = if eid.starts_with("UTF8") { eid.to_owned() } else { format!("IA5STRING:{eid}") };
        let names = format!("subjectAltName=IP:127.0.0.1,otherName:1.3.6.1.5.5.7.8.11;{value}\n");
        let holder = nameless(&folder.file(""), &names);
        let access = Access { place: at.to_string(), security: Security::open(&holder).expect("files") };
        let client = Client::connect(&access, &Eid::ipn(2, 0));
        assert!(client.is_err(), "{eid}: {}", running.log());
    }
    running.wait_for("certificate of the peer does not name \"ipn:2.0\"");
    assert!(!running.log().contains("neighbour 2 connected"), "{}", running.log());
    running.end();
}

#[test]
fn a_node_without_an_address_is_believed_with_a_note_where_certificates_need_no_node() {
    let folder = Folder::new();
    let one = settings(&folder.file("pki"), "ipn:1.0", 10);
    let text = |store: &str| {
        let store = folder.file(store);
        format!(
            "eid = \"ipn:1.0\"\nstore = {store:?}\nsync = false\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{}\"\n\
             [[neighbour]]\nnode = 2\nlayer = \"tcpcl\"\n",
            free()
        )
    };
    let file = |store: &str, node_id| NodeFile {
        tls: Some(Settings { node_id, ..one.clone() }),
        ..NodeFile::parse(&text(store)).expect("a good file")
    };
    let running = Running::start(file("a", NamePolicy::IfPresent));
    running.wait_for("neighbour 2 has no `at`, and certificates need not name a node");
    running.end();
    let running = Running::start(file("b", NamePolicy::Required));
    running.wait_for("listening for TCPCL");
    assert!(!running.log().contains("has no `at`"), "{}", running.log());
    running.end();
}

#[test]
fn names_of_the_network_are_compared_if_the_policy_says_so() {
    let folder = Folder::new();
    let making = |node: &str, address: &str| Making {
        folder: folder.file("pki"),
        node: Some(node.parse().expect("a node")),
        hosts: vec![],
        addresses: vec![address.parse().expect("an address")],
        days: 10,
    };
    let with = |node: &str, address: &str, network_id: NamePolicy| {
        let made = make(&making(node, address)).expect("a certificate");
        let (certificate, key) = made.node.expect("of a node");
        Settings { network_id, ..Settings::new(certificate, key, made.trust) }
    };
    let one = || with("ipn:1.0", "127.0.0.1", NamePolicy::Required);
    let two = |address: &str| with("ipn:2.0", address, NamePolicy::IfPresent);
    let (found, log) = two_nodes(Some(one()), Some(two("127.0.0.1")), CONNECTED, Span::from_secs(10));
    assert_eq!(found, 5, "{log}");
    let words = ["certificate of the peer names ipn:2.0, 10.9.8.7, not 127.0.0.1", "no session"];
    let (found, log) = two_nodes(Some(one()), Some(two("10.9.8.7")), words, SHORT);
    assert_eq!(found, 0, "{log}");
}

/// Relay that clears the flag CAN_TLS in both contact headers, as an attacker in the path would. Returns its address and what passed.
fn stripping_relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let passed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&passed);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(to) else { continue };
            for (from, into) in [(&client, &server), (&server, &client)] {
                let (mut from, mut into) =
                    (from.try_clone().expect("a copy"), into.try_clone().expect("a copy"));
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || {
                    let (mut buffer, mut total) = ([0; 4096], 0);
                    while let Ok(len @ 1..) = from.read(&mut buffer) {
                        if (total..total + len).contains(&5) {
                            buffer[5 - total] = 0;
                        }
                        total += len;
                        seen.lock().expect("no panic").extend(&buffer[..len]);
                        if into.write_all(&buffer[..len]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (at, passed)
}

#[test]
fn a_flag_cleared_in_the_path_ends_the_session_where_tls_is_required() {
    let folder = Folder::new();
    let [one, two] = ["ipn:1.0", "ipn:2.0"].map(|node| settings(&folder.file("pki"), node, 10));
    let to = free();
    let passive = Running::start(node(&folder.file(""), 2, Some(two.clone()), to, free(), (1, free())));
    let (relay, passed) = stripping_relay(to);
    let mut sending = Sending {
        to_node: relay.to_string(),
        layer: Layer::Tcpcl,
        from: Eid::ipn(1, 1),
        to: Eid::ipn(2, 9),
        payload: Payload::new(b"a secret".to_vec()),
        count: 1,
        lifetime: Span::from_secs(10),
        security: Security::open(&one).expect("files"),
    };
    let never = AtomicBool::new(false);
    let problem = send(&sending, &never).expect_err("no TLS");
    assert!(problem.contains("TLS is required, and the peer offers none"), "{problem}");
    let has_secret = |bytes: &[u8]| bytes.windows(8).any(|window| window == b"a secret");
    assert!(!has_secret(&passed.lock().expect("no panic")));
    sending.to_node = to.to_string();
    assert_eq!(send(&sending, &never), Ok(1));
    passive.end();
}

#[test]
fn openssl_accepts_the_certificates_and_talks_to_both_sides() {
    if !has("python3") || !has("openssl") {
        return;
    }
    let folder = Folder::new();
    let [one, two] = ["ipn:1.0", "ipn:2.0"].map(|node| settings(&folder.file("pki"), node, 10));
    let verified = succeed(
        Command::new("openssl")
            .arg("verify")
            .args(["-x509_strict", "-purpose", "sslserver", "-CAfile"])
            .args([&one.trust, &one.certificate]),
    );
    assert!(String::from_utf8_lossy(&verified.stdout).contains("OK"), "{verified:?}");
    let shown = succeed(Command::new("openssl").args(["asn1parse", "-in"]).arg(&one.certificate));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("X509v3 Subject Alternative Name"), "{shown}");
    // A passive peer of OpenSSL, as ipn:1.0, to which this side sends; then an active one, as ipn:1.0, which sends here.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_peer.py");
    let python = |role: &str, at: SocketAddr, as_node: &Settings| {
        let mut command = Command::new("python3");
        command.arg(&script).arg(role).arg(at.port().to_string());
        command.args([&as_node.certificate, &as_node.key, &as_node.trust]);
        command
    };
    let at = free();
    let mut peer = python("passive", at, &one).spawn().expect("python3 starts");
    let sending = |to: SocketAddr| Sending {
        to_node: to.to_string(),
        layer: Layer::Tcpcl,
        from: Eid::ipn(2, 1),
        to: Eid::ipn(1, 9),
        payload: Payload::new(vec![7; 3000]),
        count: 2,
        lifetime: Span::from_secs(10),
        security: Security::open(&two).expect("files"),
    };
    let never = AtomicBool::new(false);
    await_socket(&peer, &at.to_string());
    assert_eq!(send(&sending(at), &never), Ok(2));
    assert!(peer.wait().expect("it ends").success());
    let to = free();
    let passive = Running::start(node(&folder.file(""), 2, Some(two.clone()), to, free(), (1, free())));
    let active = succeed(&mut python("active", to, &one));
    assert!(String::from_utf8_lossy(&active.stdout).contains("TLSv1.3 ipn:2.0"), "{active:?}");
    passive.wait_for("neighbour 1 connected");
    passive.end();
}

#[test]
fn an_application_has_the_certificate_of_its_node() {
    let folder = Folder::new();
    let [one, two] = ["ipn:1.0", "ipn:2.0"].map(|node| settings(&folder.file("pki"), node, 10));
    let (at, to) = (free(), free());
    let first = Running::start(node(&folder.file(""), 1, Some(one.clone()), at, free(), (2, to)));
    let second = Running::start(node(&folder.file(""), 2, Some(two.clone()), to, free(), (1, at)));
    let access = |settings: &Settings, place: String| Access {
        place,
        security: Security::open(settings).expect("files"),
    };
    let wait = Span::from_secs(10);
    assert_eq!(answers(access(&one, at.to_string()), wait), Ok(5));
    let by_name = Settings { network_id: NamePolicy::Required, ..one };
    assert_eq!(answers(access(&by_name, format!("localhost:{}", at.port())), wait), Ok(5));
    // Node 2 may not take the bundles of node 1's applications.
    let problem = answers(access(&two, at.to_string()), SHORT).expect_err("refused");
    // In words that depend on how soon the end is seen.
    let words = ["session has ended", "ended the session", "closed"];
    assert!(words.iter().any(|words| problem.contains(words)), "{problem}");
    first.wait_for("certificate of the peer does not name \"ipn:1.50\"");
    first.end();
    second.end();
}

#[test]
fn names_are_found_and_compared() {
    let folder = Folder::new();
    let made = settings(&folder.file("pki"), "dtn://earth/", 10);
    let pem = std::fs::read_to_string(&made.certificate).expect("a file");
    let output =
        Command::new("openssl").args(["x509", "-outform", "DER", "-in"]).arg(&made.certificate).output();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
    assert_eq!(made.certificate.file_name(), Some("dtn-earth.pem".as_ref()));
    let Ok(output) = output else { return };
    let names = Names::parse(&output.stdout).expect("a certificate");
    let (local, other): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
    assert_eq!(names.node(&"dtn://earth/inbox".parse().unwrap()), Findings::Success);
    assert_eq!(names.node(&Eid::ipn(1, 0)), Findings::Failure);
    assert_eq!(names.network(None, local), Findings::Success);
    assert_eq!(names.network(None, other), Findings::Failure);
    assert_eq!(names.network(Some("LOCALHOST."), other), Findings::Success);
    assert_eq!(Names::default().network(Some("localhost"), local), Findings::Absent);
    assert!(
        Findings::Absent.satisfies(NamePolicy::IfPresent)
            && !Findings::Absent.satisfies(NamePolicy::Required)
    );
    assert!(
        Findings::Failure.satisfies(NamePolicy::Ignored)
            && !Findings::Failure.satisfies(NamePolicy::IfPresent)
    );
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = Folder::new();
    let [one, two] = ["ipn:1.0", "ipn:2.0"].map(|node| settings(&folder.file("pki"), node, 10));
    let refusal = |settings: Settings| Security::open(&settings).expect_err("refused");
    let mixed = refusal(Settings { key: two.key, ..one.clone() });
    assert!(mixed.contains("expected the key of the first certificate in"), "{mixed}");
    let none = refusal(Settings { trust: PathBuf::from("/none.pem"), ..one.clone() });
    assert!(none.contains("/none.pem"), "{none}");
    let empty = refusal(Settings { trust: one.key.clone(), ..one.clone() });
    assert!(empty.contains("expected certificates in PEM, found none"), "{empty}");
    let open = folder.write("open.pem", std::fs::read(&one.key).expect("a file"));
    let mut permissions = std::fs::metadata(&open).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
    std::fs::set_permissions(&open, permissions).expect("set");
    let open = refusal(Settings { key: open, ..one });
    assert!(open.contains("other users can read this key"), "{open}");
    let file = |rest: &str| {
        NodeFile::parse(&format!("eid = \"ipn:1.0\"\nstore = \"s\"\n{rest}")).expect_err("a mistake")
    };
    let lacking = file("[[listen]]\nlayer = \"tcpcl\"\nat = \"127.0.0.1:1\"\ntls = \"required\"\n");
    assert!(lacking.contains("listen 1: TLS needs the table [tls]"), "{lacking}");
    let layer = file("[[listen]]\nlayer = \"udp\"\nat = \"127.0.0.1:1\"\ntls = \"off\"\n");
    assert!(layer.contains("listen 1: `tls` and `name` are for"), "{layer}");
}
