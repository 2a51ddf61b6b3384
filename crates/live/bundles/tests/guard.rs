//! Nodes under bundles that answer each other, and on a full disk.
#![allow(clippy::disallowed_methods, reason = "nodes run in real time")]
#![allow(clippy::print_stdout, reason = "a failure shows what was tried")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bentpipe_bundles::cfdp::Carrier;
use bentpipe_bundles::client::{Client, LONGEST, Letter};
use bentpipe_bundles::node::{Counters, Daemon, NodeFile};
use bentpipe_bundles::perf::{Control, Load, perf};
use bentpipe_bundles::ping::{Pinging, ping};
use bentpipe_bundles::tls::Security;
use bentpipe_bundles::trace::{Tracing, trace};
use bentpipe_bundles::{Layer, Sending, receive_via, send};
use bentpipe_testkit::{Folder, Watch, free_port, until};
use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::{
    Bundle, BundleFlags, Content, Fragment, HopCount, Payload, Primary, Timestamp,
};
use bentpipe_wire::dtn::eid::Eid;

/// Returns a bound in seconds on a machine that is as late as it was.
fn most(seconds: u64, watch: Watch) -> Duration {
    Duration::from_secs(seconds) + 20 * watch.end().quantile(0.99)
}

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Node in a thread.
struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Counters, Vec<String>)>,
}

impl Running {
    fn start(file: NodeFile) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let mut daemon = Daemon::open(file).expect("a node");
        let thread = std::thread::spawn(move || {
            let mut lines = Vec::new();
            daemon.run(&asked, &mut |line| lines.push(line.to_owned())).expect("a store");
            (daemon.counters(), lines)
        });
        Running { stop, thread }
    }

    fn end(self) -> (Counters, Vec<String>) {
        let (watch, asked) = (Watch::start(), Instant::now());
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join().expect("no panic");
        let (taken, most) = (asked.elapsed(), most(5, watch));
        assert!(taken < most, "a stop is obeyed at once: {taken:?} of {most:?}");
        ended
    }
}

fn file(store: &Path, number: u32, rest: &str) -> NodeFile {
    let text = format!("eid = \"ipn:{number}.0\"\nstore = {store:?}\nsync = false\n{rest}");
    NodeFile::parse(&text).expect("a good file")
}

fn bundle(source: &str, to: &str, sequence: u64, flags: BundleFlags) -> Vec<u8> {
    let stamp = Timestamp { time: 849_000_000_000, sequence };
    let [source, to] = [source, to].map(|eid| eid.parse::<Eid>().expect("an endpoint"));
    let mut primary = Primary::new(source.clone(), to, stamp, 1_000_000_000_000);
    (primary.flags, primary.report_to) = (flags, source);
    let mut bundle = Bundle { primary, blocks: vec![], payload: Payload::new(vec![7; 100]) };
    bundle.set(Content::HopCount(HopCount { limit: 64, count: 0 }));
    bundle.to_vec()
}

#[test]
fn what_answers_by_itself_answers_no_answer() {
    let folder = Folder::new();
    let (one, two) = (free(), free());
    let node = |number: u32, at: SocketAddr, peer: u32, to: SocketAddr| {
        let rest = format!(
            "reports = true\n[[listen]]\nlayer = \"udp\"\nat = \"{at}\"\n\
             [[neighbour]]\nnode = {peer}\nlayer = \"udp\"\nat = \"{to}\"\nrate = \"100 Mbit/s\"\n[routes]\ndefault = {peer}\n"
        );
        Running::start(file(&folder.file(format!("store-{number}")), number, &rest))
    };
    let (first, second) = (node(1, one, 2, two), node(2, two, 1, one));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let all = [BundleFlags::REPORT_RECEPTION, BundleFlags::REPORT_FORWARDING, BundleFlags::REPORT_DELIVERY];
    let reports = all.into_iter().fold(BundleFlags::default(), BundleFlags::with);
    let mut sent = 0;
    for source in ["ipn:1.7", "ipn:1.2047", "ipn:2.7", "ipn:2.2047", "ipn:1.0", "ipn:2.0", "dtn://two/echo"] {
        for to in ["ipn:1.7", "ipn:1.2047", "ipn:1.9", "ipn:1.0"] {
            for flags in [BundleFlags::default(), reports] {
                sent += 1;
                sender.send_to(&bundle(source, to, sent, flags), one).expect("a socket");
            }
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = std::fs::metadata(folder.file("store-1/000000000001.log")).expect("a store").len();
    std::thread::sleep(Duration::from_millis(500));
    let after = std::fs::metadata(folder.file("store-1/000000000001.log")).expect("a store").len();
    assert_eq!(before, after, "the nodes are quiet");
    let ((first, _), (second, _)) = (first.end(), second.end());
    assert_eq!((first.echoed, second.echoed), (0, 0), "{first:?} {second:?}");
    assert!((28..200).contains(&first.echo_refused), "reports to an echo service too: {first:?}");
    assert!(first.node.reports <= 3 * 28 && second.node.reports == 0, "{first:?} {second:?}");
}

#[test]
fn a_full_disk_refuses_bundles_and_takes_them_again() {
    let folder = Folder::new();
    let small = folder.file("small");
    std::fs::create_dir_all(&small).expect("a folder");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(&small).status();
    if !mount.is_ok_and(|status| status.success()) {
        return bentpipe_testkit::skip("a small disk needs root");
    }
    struct Mounted(std::path::PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let _mounted = Mounted(small.clone());
    let (apps, next) = (free(), free());
    let rest = format!(
        "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n\
         [[neighbour]]\nnode = 2\nlayer = \"mtcp\"\nat = \"{next}\"\n[routes]\ndefault = 2\n"
    );
    let node = Running::start(file(&small.join("store"), 1, &rest));
    let send = |count: u32| -> (u32, Option<String>) {
        let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
        let letter =
            Letter { to: Eid::ipn(2, 9), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
        for n in 0..count {
            client.send(&letter, vec![n as u8; 100_000]).expect("a session");
            while client.pending() > 0 {
                if let Err(problem) = client.turn(Span::from_millis(50)) {
                    return (n, Some(problem));
                }
            }
        }
        (count, None)
    };
    let (taken, problem) = send(40);
    assert!((10..20).contains(&taken), "{taken}");
    assert!(problem.is_some_and(|problem| problem.contains("its storage is full")));
    // Other programs take the rest: not even a record of a removal has room.
    let filler = small.join("filler");
    let _ = std::fs::write(&filler, vec![1; 4 << 20]);
    assert_eq!(send(1).0, 0);
    // The neighbour comes, and all that was taken goes to it.
    let listen = format!("[[listen]]\nlayer = \"mtcp\"\nat = \"{next}\"\n");
    let neighbour = Running::start(file(&folder.file("store-2"), 2, &listen));
    std::thread::sleep(Duration::from_secs(2));
    std::fs::remove_file(&filler).expect("a file");
    let mut more = 0;
    until("bundles that are taken again", || {
        let (taken, problem) = send(40 - more);
        more += taken;
        println!("{more} taken, then {problem:?}");
        more == 40
    });
    std::thread::sleep(Duration::from_secs(2));
    let ((node, lines), (neighbour, _)) = (node.end(), neighbour.end());
    assert_eq!((node.stored.0, neighbour.discarded), (0, u64::from(taken) + 40), "{node:?} {lines:?}");
    let said = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert!(said("no room on the disk") >= 1 && said("there is room on the disk again") >= 1, "{lines:?}");
    let log: u64 = std::fs::read_dir(small.join("store"))
        .expect("a store")
        .map(|entry| entry.and_then(|entry| entry.metadata()).map_or(0, |file| file.len()))
        .sum();
    assert!(log < 1 << 20, "{log} B of what is delivered are left");
}

/// Sends bundles of 60 kB from an endpoint until one is refused. Returns the number of those taken.
fn fill(node: SocketAddr, from: &Eid, to: &Eid, most: u32) -> u32 {
    let mut client = Client::connect(&node.to_string().into(), from).expect("a node");
    let letter = Letter { to: to.clone(), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for n in 0..most {
        client.send(&letter, vec![n as u8; 60_000]).expect("a session");
        while client.pending() > 0 {
            if client.turn(Span::from_millis(50)).is_err() {
                return n;
            }
        }
    }
    most
}

#[test]
fn an_unknown_host_takes_no_storage_from_applications_of_the_node() {
    let folder = Folder::new();
    let (apps, nowhere) = (free(), free());
    let rest = format!(
        "storage = \"2 MB\"\nmax_bundle = \"1 MB\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n\
         [[neighbour]]\nnode = 2\nlayer = \"mtcp\"\nat = \"{nowhere}\"\n[routes]\ndefault = 2\n"
    );
    let start = || Running::start(file(&folder.file("store"), 1, &rest));
    let node = start();
    let stranger = Eid::ipn(99, 0);
    // What is to be forwarded, and what waits for an application that never comes.
    for (to, own) in [(Eid::ipn(2, 6), Eid::ipn(2, 7)), (Eid::ipn(1, 6), Eid::ipn(1, 8))] {
        let taken = fill(apps, &stranger, &to, 100);
        assert!((25..35).contains(&taken), "it may have all: {taken}");
        assert_eq!(fill(apps, &Eid::ipn(1, 5), &own, 10), 10, "an application of the node");
        assert_eq!(fill(apps, &stranger, &to, 1), 0, "the unknown host has its share");
    }
    let (counters, _) = node.end();
    assert!(counters.node.evicted >= 20 && counters.stored.1 <= 2_000_000, "{counters:?}");
    let (stored, waiting) = (counters.stored.0, counters.waiting);
    // A restart does not make them known.
    let node = start();
    for own in [Eid::ipn(2, 7), Eid::ipn(1, 8)] {
        assert_eq!(fill(apps, &Eid::ipn(1, 5), &own, 20), 20);
    }
    let (counters, _) = node.end();
    assert_eq!(counters.restored, stored + waiting);
    assert!(counters.node.evicted >= 35 && counters.stored.0 >= 30, "{counters:?}");
}

#[test]
fn a_host_that_connects_again_and_again_has_few_lines() {
    let folder = Folder::new();
    let apps = free();
    let listen = format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n");
    let node = Running::start(file(&folder.file("store"), 1, &listen));
    for _ in 0..300 {
        drop(std::net::TcpStream::connect(apps).expect("a node"));
    }
    for _ in 0..50 {
        drop(Client::connect(&apps.to_string().into(), &Eid::ipn(99, 0)).expect("a node"));
    }
    std::thread::sleep(Duration::from_millis(500));
    let (_, lines) = node.end();
    assert!((5..20).contains(&lines.len()), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("like it before")), "{lines:?}");
}

/// Sends bundles from an application of a node to ipn:2.6.
fn send_some(apps: SocketAddr, count: u64) {
    send_to(apps, Eid::ipn(2, 6), count);
}

/// Sends bundles from an application of a node.
fn send_to(apps: SocketAddr, to: Eid, count: u64) {
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to, lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for n in 0..count {
        client.send(&letter, vec![n as u8; 600]).expect("a session");
    }
    until("acknowledgements", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.acknowledged() == count
    });
    client.close();
}

/// Returns the number of bundles that a peer is given by its name, after it has sent one itself.
fn taken_as(node: SocketAddr, name: &str, time: Duration) -> u64 {
    let eid = name.parse::<Eid>().expect("an endpoint");
    let mut client = Client::connect(&node.to_string().into(), &eid).expect("a session");
    let letter = Letter { to: Eid::ipn(1, 9), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    client.send(&letter, b"from a guest".to_vec()).expect("a session");
    let (end, mut count) = (Instant::now() + time, 0);
    while Instant::now() < end {
        if client.turn(Span::from_millis(20)).is_err() {
            break;
        }
        while client.receive().is_some() {
            client.accept();
            count += 1;
        }
    }
    assert_eq!(client.acknowledged(), 1, "what {name} sends is taken");
    count
}

#[test]
fn the_number_of_a_neighbour_alone_is_given_none_of_its_bundles() {
    // The neighbour is at another host of this machine; the thief is at 127.0.0.1.
    let there = SocketAddr::from(([127, 0, 0, 9], free_port()));
    let second = Duration::from_secs(1);
    for layer in ["udp", "tcpcl", "ltp", "mtcp"] {
        let (folder, apps, ltp) = (Folder::new(), free(), free());
        let rest = format!(
            "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n[[listen]]\nlayer = \"ltp\"\nat = \"{ltp}\"\n\
             [[neighbour]]\nnode = 2\nlayer = \"{layer}\"\nat = \"{there}\"\nrate = \"1 kbit/s\"\n\
             [routes]\ndefault = 2\n7 = 2\n"
        );
        let node = Running::start(file(&folder.file("store"), 1, &rest));
        send_some(apps, 6);
        for name in ["ipn:2.0", "ipn:2.50", "ipn:7.0", "dtn://two/app"] {
            assert_eq!(taken_as(apps, name, second), 0, "{name} by {layer}");
        }
        let (counters, lines) = node.end();
        assert_eq!(counters.discarded, 4, "{layer}: {lines:?}");
        assert!(lines.iter().any(|line| line.contains("as 2 and is sent nothing")), "{layer}: {lines:?}");
    }
}

#[test]
fn a_claim_draws_no_bundles_that_go_elsewhere() {
    let nowhere = SocketAddr::from(([127, 0, 0, 9], free_port()));
    let second = Duration::from_secs(1);
    for (tables, expected) in [
        ("[routes]\n7 = 2\n", 6),
        ("[routes]\ndefault = 2\n", 0),
        ("[routing]\nkind = \"epidemic\"\n", 0),
        ("[routing]\nkind = \"spray-and-wait\"\ncopies = 4\n", 0),
    ] {
        let (folder, apps) = (Folder::new(), free());
        let rest = format!(
            "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n\
             [[neighbour]]\nnode = 2\nlayer = \"mtcp\"\nat = \"{nowhere}\"\n{tables}"
        );
        let node = Running::start(file(&folder.file("store"), 1, &rest));
        send_to(apps, Eid::ipn(99, 6), 6);
        assert_eq!(taken_as(apps, "ipn:99.0", second), expected, "{tables}");
        let (_, lines) = node.end();
        let is_said = lines.iter().any(|line| line.contains("99 is not a neighbour in it"));
        assert_eq!(is_said, expected == 0, "{tables}: {lines:?}");
    }
}

#[test]
fn a_long_identifier_is_refused_in_few_words() {
    let (folder, apps) = (Folder::new(), free());
    let listen = format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n");
    let node = Running::start(file(&folder.file("store"), 1, &listen));
    let connect = |len: usize| {
        let eid: Eid = format!("dtn://{}/", "a".repeat(len)).parse().expect("an endpoint");
        Client::connect(&apps.to_string().into(), &eid).is_ok()
    };
    assert!(connect(1000) && !connect(1100) && !connect(65_000));
    std::thread::sleep(Duration::from_millis(200));
    let (_, lines) = node.end();
    assert!(lines.iter().any(|line| line.contains("has 65007 B, expected 1024 B at most")), "{lines:?}");
    assert!(lines.iter().all(|line| line.len() < 300), "{lines:?}");
}

/// Sends the same bytes again and again on connections of a host, until `stop` is set or the node ends them.
fn flood(
    to: SocketAddr,
    count: usize,
    first: &[u8],
    bytes: &[u8],
    stop: &Arc<AtomicBool>,
) -> Vec<JoinHandle<bool>> {
    let connection = |_| {
        let mut stream = std::net::TcpStream::connect(to).expect("a node");
        stream.write_all(first).expect("a node");
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a socket");
        let (bytes, stop) = (bytes.to_vec(), Arc::clone(stop));
        std::thread::spawn(move || {
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                match stream.write(&bytes[at..]) {
                    Ok(len) => at = (at + len) % bytes.len(),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return true,
                }
            }
            false
        })
    };
    (0..count).map(connection).collect()
}

#[test]
fn a_flood_of_guests_keeps_no_application_waiting() {
    let (folder, apps, mtcp) = (Folder::new(), free(), free());
    let rest = format!(
        "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n[[listen]]\nlayer = \"mtcp\"\nat = \"{mtcp}\"\n"
    );
    let node = Running::start(file(&folder.file("store"), 1, &rest));
    let stop = Arc::new(AtomicBool::new(false));
    let foreign = flood(mtcp, 8, &[], &[0x40; 1 << 16], &stop);
    // The same bundle, framed, and the same transfer of a byte that is no bundle.
    let one = bundle("ipn:99.5", "ipn:1.9", 1, BundleFlags::default());
    let framed = [&[0x58, one.len() as u8][..], &one].concat().repeat(1000);
    let mut floods = flood(mtcp, 8, &[], &framed, &stop);
    let mut hello = b"dtn!\x04\x00\x07\x00\x00".to_vec();
    hello.extend([1_u64 << 20, 1 << 30].map(u64::to_be_bytes).concat());
    hello.extend(b"\x00\x08ipn:99.0\x00\x00\x00\x00");
    let transfer = [&[1, 3][..], &[0; 12], &1_u64.to_be_bytes(), &[7]].concat().repeat(1000);
    floods.extend(flood(apps, 8, &hello, &transfer, &stop));
    std::thread::sleep(Duration::from_secs(1));
    let (watch, begun) = (Watch::start(), Instant::now());
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 50)).expect("a session");
    let letter = Letter { to: Eid::ipn(1, 7), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for n in 0..5 {
        client.send(&letter, vec![n; 100]).expect("a session");
        until("an echo", || {
            client.turn(Span::from_millis(20)).expect("a session");
            client.receive().is_some()
        });
    }
    let (taken, most) = (begun.elapsed(), most(3, watch));
    stop.store(true, Ordering::Relaxed);
    let ended = |floods: Vec<JoinHandle<bool>>| -> Vec<bool> {
        floods.into_iter().map(|flood| flood.join().expect("no panic")).collect()
    };
    let (foreign, floods) = (ended(foreign), ended(floods));
    let (counters, lines) = node.end();
    assert!(taken < most, "{taken:?} of {most:?} {counters:?}");
    assert!(foreign.iter().all(|is_ended| *is_ended), "{foreign:?} {lines:?}");
    assert!(floods.iter().all(|is_ended| !is_ended), "they wait: {floods:?} {lines:?}");
    assert!(lines.iter().any(|line| line.contains("is not a bundle, connection ended")), "{lines:?}");
    assert!(counters.duplicates > 1000 && counters.node.malformed > 1000, "each has turns: {counters:?}");
}

#[test]
fn a_neighbour_without_an_address_is_believed_with_a_note() {
    let (folder, apps) = (Folder::new(), free());
    let rest = format!(
        "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n[[neighbour]]\nnode = 2\nlayer = \"tcpcl\"\n[routes]\ndefault = 2\n"
    );
    let node = Running::start(file(&folder.file("store"), 1, &rest));
    send_some(apps, 6);
    assert_eq!(taken_as(apps, "ipn:2.50", Duration::from_secs(1)), 0, "a service is no node");
    assert_eq!(taken_as(apps, "ipn:2.0", Duration::from_secs(1)), 6);
    let (_, lines) = node.end();
    assert!(lines.iter().any(|line| line.contains("neighbour 2 has no `at`")), "{lines:?}");
    // One with an address is believed from there, though it begins the session.
    let there = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let rest = rest.replace("[routes]", &format!("at = \"{there}\"\n[routes]"));
    let node = Running::start(file(&folder.file("other"), 1, &rest));
    send_some(apps, 6);
    assert_eq!(taken_as(apps, "ipn:2.0", Duration::from_secs(1)), 6);
    let (_, lines) = node.end();
    assert!(!lines.iter().any(|line| line.contains("has no `at`")), "{lines:?}");
}

/// Sends a bundle to the discard service of node 1 from a socket. Its sender says it is node 2.
fn claim(from: &UdpSocket, to: SocketAddr, sequence: u64, content: u8) {
    let mut sent =
        Bundle::parse(&bundle("ipn:2.5", "ipn:1.9", sequence, BundleFlags::default())).expect("good");
    sent.payload = Payload::new(vec![content; 100]);
    sent.set(Content::PreviousNode(Eid::ipn(2, 0)));
    from.send_to(&sent.to_vec(), to).expect("a socket");
}

#[test]
fn a_guest_that_states_an_identity_keeps_no_bundle_away() {
    for routing in ["", "routing = { kind = \"epidemic\" }\n"] {
        let (folder, at) = (Folder::new(), free());
        let [two, guest] = ["127.0.0.9:0", "127.0.0.8:0"].map(|at| UdpSocket::bind(at).expect("loopback"));
        let there = two.local_addr().expect("an address");
        let rest = format!(
            "{routing}[[listen]]\nlayer = \"udp\"\nat = \"{at}\"\n\
             [[neighbour]]\nnode = 2\nlayer = \"udp\"\nat = \"{there}\"\n"
        );
        let store = folder.file("store");
        // At the second start both repeat themselves.
        for found in [(40, 0), (0, 40)] {
            let node = Running::start(file(&store, 1, &rest));
            for n in 0..20 {
                claim(&guest, at, n, 8);
            }
            std::thread::sleep(Duration::from_millis(300));
            for n in 0..20 {
                claim(&two, at, n, 7);
            }
            std::thread::sleep(Duration::from_millis(300));
            let (counters, lines) = node.end();
            assert_eq!((counters.discarded, counters.duplicates), found, "{counters:?} {lines:?}");
        }
    }
}

#[test]
fn a_guest_that_takes_few_bytes_at_a_time_gets_no_bundle_in_a_thousand_fragments() {
    let (folder, apps) = (Folder::new(), free());
    let listen = format!("max_bundle = \"8 MB\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n");
    let node = Running::start(file(&folder.file("store"), 1, &listen));
    let guest = Client::connect_for(&apps.to_string().into(), &Eid::ipn(900, 0), 300);
    let mut guest = guest.expect("a session");
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = |to| Letter { to, lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    client.send(&letter(Eid::ipn(900, 6)), vec![7; 4_000_000]).expect("a session");
    let (watch, begun) = (Watch::start(), Instant::now());
    client.send(&letter(Eid::ipn(1, 7)), vec![7; 100]).expect("a session");
    until("an echo", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.receive().is_some()
    });
    let (taken, most) = (begun.elapsed(), most(2, watch));
    assert!(taken < most, "{taken:?} of {most:?}");
    client.send(&letter(Eid::ipn(900, 6)), vec![8; 20_000]).expect("a session");
    let mut bytes = 0;
    until("all fragments", || {
        client.turn(Span::from_millis(5)).expect("a session");
        guest.turn(Span::from_millis(5)).expect("a session");
        while let Some(part) = guest.receive() {
            assert!(part.payload.to_vec().iter().all(|byte| *byte == 8));
            bytes += part.payload.len();
        }
        bytes == 20_000
    });
    let (counters, lines) = node.end();
    assert_eq!(counters.node.too_long, 1, "{counters:?} {lines:?}");
    assert!((50..1000).contains(&counters.node.fragments), "{counters:?}");
}

#[test]
fn fragments_of_a_guest_that_join_nothing_shut_out_no_application() {
    let (folder, apps, udp) = (Folder::new(), free(), free());
    let rest = format!(
        "max_bundle = \"8 MB\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n[[listen]]\nlayer = \"udp\"\nat = \"{udp}\"\n"
    );
    let node = Running::start(file(&folder.file("store"), 1, &rest));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let whole = Bundle::parse(&bundle("ipn:99.5", "ipn:1.7", 1, BundleFlags::default())).expect("good");
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 50)).expect("a session");
    let letter = Letter { to: Eid::ipn(1, 7), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    let (watch, begun) = (Watch::start(), Instant::now());
    for n in 0..30_000_u64 {
        let mut part = Bundle { payload: Payload::new(vec![7]), ..whole.clone() };
        part.primary.fragment = Some(Fragment { offset: 2 * n, total: 8_000_000 });
        sender.send_to(&part.to_vec(), udp).expect("a socket");
        if n % 100 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    client.send(&letter, vec![7; 100]).expect("a session");
    until("an echo", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.receive().is_some()
    });
    // It pauses 300 times.
    let (taken, late) = (begun.elapsed(), watch.end());
    let most = Duration::from_secs(8) + 300 * late.quantile(0.9);
    let (counters, lines) = node.end();
    assert!(taken < most, "{taken:?} of {most:?} {counters:?}");
    assert!(counters.waiting <= 1 << 14, "{counters:?} {lines:?}");
}

/// Returns the longest transfer that a program accepts from the node that it connects to.
fn accepted(program: impl FnOnce(SocketAddr)) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = listener.local_addr().expect("an address");
    let node = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"dtn!\x04\x00").expect("a connection");
        let mut hello = [0; 6 + 3 + 8 + 8];
        stream.read_exact(&mut hello).expect("contact and initialisation");
        hello.last_chunk().map(|bytes| u64::from_be_bytes(*bytes)).expect("8 bytes")
    });
    program(at);
    node.join().expect("no panic")
}

#[test]
fn programs_take_no_longer_transfer_than_what_they_wait_for() {
    let (never, second, blocks) = (AtomicBool::new(false), Span::from_secs(1), 1 << 16);
    let (from, to) = (Eid::ipn(1, 50), Eid::ipn(2, 7));
    let of_ping = accepted(|at| {
        let (node, from, to) = (at.to_string().into(), from.clone(), to.clone());
        let pinging = Pinging { node, from, to, count: 1, interval: second, size: 1000, wait: second };
        ping(&pinging, &never, &mut |_, _| {}).expect_err("the node is none");
    });
    let of_send = accepted(|at| {
        let sending = Sending {
            to_node: at.to_string(),
            layer: Layer::Tcpcl,
            from: from.clone(),
            to: to.clone(),
            payload: Payload::new(vec![7; 1000]),
            count: 1,
            lifetime: second,
            security: Security::default(),
        };
        let _ = send(&sending, &never);
    });
    let of_trace = accepted(|at| {
        let (node, from, to) = (at.to_string().into(), from.clone(), to.clone());
        let tracing = Tracing { node, from, to, size: 1000, hops: 10, lifetime: second, wait: second };
        trace(&tracing, &never, &mut |_| {}).expect_err("the node is none");
    });
    let of_perf = accepted(|at| {
        let load = Load {
            node: at.to_string().into(),
            from: from.clone(),
            to: to.clone(),
            size: 1000,
            control: Control::Window(1),
            count: Some(1),
            duration: None,
            wait: second,
            lifetime: second,
        };
        perf(&load, &never).expect_err("the node is none");
    });
    let of_cfdp = accepted(|at| {
        Carrier::bundles(&at.to_string().into(), &from, second).err().expect("the node is none");
    });
    let of_receive = accepted(|at| {
        receive_via(&at.to_string().into(), &from, (None, 5000), &never, &mut |_| Ok(()))
            .expect_err("the node is none");
    });
    assert_eq!((of_ping, of_send, of_trace), (1000 + blocks, blocks, blocks));
    assert_eq!((of_perf, of_cfdp, of_receive), (blocks, (1 << 17) + blocks, 5000));
    let client = accepted(|at| {
        Client::connect(&at.to_string().into(), &from).err().expect("the node is none");
    });
    assert_eq!(client, LONGEST);
}

/// Sends a datagram again and again until `stop` is set, at a rate if there is one, and returns their number.
fn flood_by_datagrams(
    from: &'static str,
    to: SocketAddr,
    bytes: Vec<u8>,
    each: Option<Duration>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<u64> {
    let (socket, stop) = (UdpSocket::bind(from).expect("loopback"), Arc::clone(stop));
    std::thread::spawn(move || {
        let (begun, mut sent) = (Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            // A full buffer of the receiver is the purpose.
            let _ = socket.send_to(&bytes, to);
            sent += 1;
            if let Some(each) = each {
                std::thread::sleep((begun + each * sent).saturating_duration_since(Instant::now()));
            }
        }
        u64::from(sent)
    })
}

#[test]
fn a_flood_of_datagrams_loses_none_of_a_neighbour() {
    let (folder, udp, ltp) = (Folder::new(), free(), free());
    let two = UdpSocket::bind("127.0.0.9:0").expect("loopback");
    let there = two.local_addr().expect("an address");
    let rest = format!(
        "[[listen]]\nlayer = \"udp\"\nat = \"{udp}\"\n[[listen]]\nlayer = \"ltp\"\nat = \"{ltp}\"\n\
         [[neighbour]]\nnode = 2\nlayer = \"udp\"\nat = \"{there}\"\n"
    );
    let node = Running::start(file(&folder.file("store"), 1, &rest));
    let stop = Arc::new(AtomicBool::new(false));
    let one = bundle("ipn:99.5", "ipn:1.9", 1, BundleFlags::default());
    let floods = [
        flood_by_datagrams("127.0.0.8:0", udp, one, None, &stop),
        flood_by_datagrams("127.0.0.8:0", ltp, vec![0, 2, 5, 0, 1, 0, 1, 7], None, &stop),
    ];
    std::thread::sleep(Duration::from_millis(200));
    for n in 0..500 {
        two.send_to(&bundle("ipn:2.5", "ipn:1.9", n, BundleFlags::default()), udp).expect("a socket");
        if n % 10 == 9 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    stop.store(true, Ordering::Relaxed);
    let sent: Vec<u64> = floods.into_iter().map(|flood| flood.join().expect("no panic")).collect();
    let (counters, lines) = node.end();
    // The guest's bundle counts once, and is a repetition after that.
    assert_eq!(counters.discarded, 501, "{sent:?} {counters:?} {lines:?}");
    assert!(counters.duplicates > 1000 && counters.datagrams_refused > 1000, "{sent:?} {counters:?}");
}

#[test]
fn a_second_node_finds_the_port_in_use() {
    let (folder, udp) = (Folder::new(), free());
    let rest = format!(
        "[[listen]]\nlayer = \"udp\"\nat = \"{udp}\"\n\
         [[neighbour]]\nnode = 2\nlayer = \"udp\"\nat = \"127.0.0.9:4556\"\n"
    );
    let node = Running::start(file(&folder.file("store-1"), 1, &rest));
    let other = Daemon::open(file(&folder.file("store-2"), 1, &rest)).err();
    assert!(other.is_some_and(|error| error.contains("in use")));
    node.end();
}

/// Returns the round-trip times of bundles to the echo service of node 1, in order of their length.
fn round_trips(node: SocketAddr, count: u64) -> Vec<Span> {
    let (from, to, each) = (Eid::ipn(1, 60), Eid::ipn(1, 7), Span::from_millis(5));
    let node = node.to_string().into();
    let pinging = Pinging { node, from, to, count, interval: each, size: 100, wait: Span::from_secs(10) };
    let found = ping(&pinging, &AtomicBool::new(false), &mut |_, _| {}).expect("a node");
    assert_eq!(found.times.len() as u64, count, "{found:?}");
    let mut times = found.times;
    times.sort_unstable();
    times
}

/// A store that waits for the disk, as nodes have it. Bundles of the flood differ, so that each is stored.
#[test]
#[allow(clippy::print_stdout, reason = "decision 100 has the figures")]
fn a_flood_of_datagrams_keeps_no_application_waiting() {
    let (folder, apps, udp) = (Folder::new(), free(), free());
    let text = format!(
        "eid = \"ipn:1.0\"\nstore = {:?}\nsync = true\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n\
         [[listen]]\nlayer = \"udp\"\nat = \"{udp}\"\n",
        folder.file("store")
    );
    let node = Running::start(NodeFile::parse(&text).expect("a good file"));
    let watch = Watch::start();
    let quiet = round_trips(apps, 400);
    let stop = Arc::new(AtomicBool::new(false));
    let flood = {
        let (socket, stop) = (UdpSocket::bind("127.0.0.8:0").expect("loopback"), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (begun, mut sent) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    sent += 1;
                    let one = bundle("ipn:99.5", "ipn:1.6", sent, BundleFlags::default());
                    let _ = socket.send_to(&one, udp);
                }
                // 20,000 per second.
                let due = begun + Duration::from_micros(50 * sent);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            sent
        })
    };
    let flooded = round_trips(apps, 400);
    stop.store(true, Ordering::Relaxed);
    let sent = flood.join().expect("no panic");
    let late = watch.end();
    let (counters, _) = node.end();
    let p99 = |times: &[Span]| times[times.len() * 99 / 100];
    println!("p99 {} quiet, {} with {sent} datagrams; machine {late:?}", p99(&quiet), p99(&flooded));
    assert!(counters.waiting > 1000, "they are taken: {counters:?}");
}
