//! Nodes on loopback as their operator and other implementations meet them: reports, routes, changes while they run.
#![allow(clippy::disallowed_methods, reason = "nodes run in real time")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bentpipe_bundles::client::{Client, LONGEST, Letter};
use bentpipe_bundles::node::control::{Request, ask};
use bentpipe_bundles::node::{Counters, Daemon, NodeFile};
use bentpipe_bundles::{Arrival, Layer, Receiving, dtn_time, receive_via};
use bentpipe_testkit::{Folder, free_port, until, until_some};
use bentpipe_units::Span;
use bentpipe_wire::dtn::admin::{Record, reason};
use bentpipe_wire::dtn::bundle::{
    Block, BlockFlags, Bundle, BundleFlags, Content, Payload, Primary, Timestamp,
};
use bentpipe_wire::dtn::eid::Eid;

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Node in a thread, with its log.
struct Running {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<Counters>>,
}

impl Running {
    fn start(folder: &Path, number: u32, rest: &str) -> Running {
        let store = folder.join(format!("store-{number}"));
        let text = format!("eid = \"ipn:{number}.0\"\nstore = {store:?}\nsync = false\n{rest}");
        let mut daemon = Daemon::open(NodeFile::parse(&text).expect("a good file")).expect("a node");
        let (stop, log) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (asked, lines) = (Arc::clone(&stop), Arc::clone(&log));
        let thread = std::thread::spawn(move || {
            let mut note = |line: &str| lines.lock().expect("a log").push(line.to_owned());
            daemon.run(&asked, &mut note).expect("a store");
            daemon.counters()
        });
        Running { stop, log, thread: Some(thread) }
    }

    fn end(mut self) -> Counters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("no panic")
    }

    fn has_line(&self, words: &str) -> bool {
        self.log.lock().expect("a log").iter().any(|line| line.contains(words))
    }
}

/// Returns a listener on an address as lines of a node file.
fn listen(layer: &str, at: SocketAddr) -> String {
    format!("[[listen]]\nlayer = \"{layer}\"\nat = \"{at}\"\n")
}

fn neighbour(node: &str, layer: &str, at: SocketAddr) -> String {
    format!("[[neighbour]]\nnode = {node}\nlayer = \"{layer}\"\nat = \"{at}\"\n")
}

/// Returns a bundle from ipn:3.1 with another sequence number each time.
fn bundle(to: &str, flags: u64) -> Bundle {
    static SEQUENCE: AtomicU64 = AtomicU64::new(1);
    let stamp = Timestamp { time: dtn_time(), sequence: SEQUENCE.fetch_add(1, Ordering::Relaxed) };
    let destination = to.parse().expect("an endpoint");
    let mut primary = Primary::new(Eid::ipn(3, 1), destination, stamp, 600_000);
    (primary.flags, primary.report_to) = (BundleFlags(flags), Eid::ipn(2, 7));
    Bundle { primary, blocks: vec![], payload: Payload::new(b"hello".to_vec()) }
}

fn with_block(mut bundle: Bundle, code: u64, data: &[u8], flags: u64) -> Bundle {
    let content = Content::Other { code, data: data.into() };
    bundle.blocks.push(Block { flags: BlockFlags(flags), ..Block::new(2, content) });
    bundle
}

/// Returns what a datagram is: events of a report and its reason, or "bundle".
fn name(bytes: &[u8]) -> String {
    let bundle = Bundle::parse(bytes).expect("a bundle");
    if !bundle.primary.flags.has(BundleFlags::ADMIN) {
        return "bundle".to_owned();
    }
    let Ok(Record::Status(report)) = Record::parse(&bundle.payload.to_vec()) else { panic!("{bundle:?}") };
    let events = [report.received, report.forwarded, report.delivered, report.deleted];
    let names = ["received", "forwarded", "delivered", "deleted"];
    let asserted = events.iter().zip(names).filter(|(event, _)| event.is_asserted).map(|(_, name)| name);
    format!("{} {}", asserted.collect::<String>(), report.reason)
}

#[test]
fn bundles_by_udp_have_the_reports_of_the_standard() {
    let folder = Folder::new();
    let (at, inbox) = (free(), UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let to = inbox.local_addr().expect("an address");
    let rest = format!("{}{}[routes]\ndefault = 2\n", listen("udp", at), neighbour("2", "udp", to));
    let node = Running::start(&folder.file(""), 1, &rest);
    let out = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    inbox.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    let exchange = |bytes: &[u8]| {
        out.send_to(bytes, at).expect("a socket");
        let mut buffer = [0; 2000];
        std::iter::from_fn(|| inbox.recv(&mut buffer).ok().map(|len| name(&buffer[..len])))
            .collect::<Vec<_>>()
    };
    let all = 0x7_4000;
    let unreadable = ["received 0", "deleted 8"];
    let cases: [(&str, Bundle, &[&str]); 9] = [
        ("from the neighbour's own host", bundle("ipn:2.1", 0), &["bundle"]),
        ("all reports", bundle("ipn:99.1", all), &["received 0", "bundle", "forwarded 0"]),
        ("of scheme dtn", bundle("dtn://two/x", all), &["received 0", "bundle", "forwarded 0"]),
        ("flag 2", with_block(bundle("ipn:2.1", 0), 200, &[1], 2), &["received 11", "bundle"]),
        ("flag 4", with_block(bundle("ipn:2.1", 0x4_0000), 200, &[1], 4), &["deleted 11"]),
        ("hop count", with_block(bundle("ipn:2.1", all), 10, b"\xff\xff", 0), &unreadable),
        ("age", with_block(bundle("ipn:2.1", all), 7, b"\x61a", 0), &unreadable),
        ("previous node", with_block(bundle("ipn:2.1", all), 6, b"\x01", 0), &unreadable),
        (
            "without a clock",
            {
                let mut clockless = bundle("ipn:2.1", all);
                clockless.primary.timestamp.time = 0;
                clockless
            },
            &unreadable,
        ),
    ];
    for (case, bundle, right) in cases {
        assert_eq!(exchange(&bundle.to_vec()), right, "{case}");
    }
    let mut nameless = with_block(bundle("ipn:2.1", 4), 200, &[1], 2);
    nameless.primary.source = Eid::None;
    assert!(exchange(&nameless.to_vec()).is_empty(), "malformed, and nothing to report on");
    // Two bundles of the null source may have one name.
    nameless.blocks.clear();
    for _ in 0..2 {
        assert_eq!(exchange(&nameless.to_vec()), ["bundle"]);
    }
    let known = bundle("ipn:2.1", 0).to_vec();
    assert_eq!((exchange(&known), exchange(&known)), (vec!["bundle".to_owned()], vec![]), "a duplicate");
    assert_eq!(node.end().duplicates, 1);
}

#[test]
fn a_bundle_that_no_route_leads_on_is_logged_and_reported() {
    let folder = Folder::new();
    let apps = free();
    let node = Running::start(&folder.file(""), 1, &format!("no_route = \"1 s\"\n{}", listen("tcpcl", apps)));
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter =
        Letter { to: Eid::ipn(99, 1), lifetime: 60_000, hops: 5, flags: BundleFlags::REPORT_DELETION };
    client.send(&letter, vec![7; 10]).expect("a session");
    let report = until_some("a report", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.receive()
    });
    assert_eq!(name(&report.to_vec()), format!("deleted {}", reason::NO_ROUTE));
    assert!(node.has_line("ipn:99.0: no route, a bundle waits 1 s for one"));
    until("a line", || node.has_line("ipn:99.0: no route, a bundle was deleted"));
    assert_eq!(node.end().node.no_route, 1);
}

#[test]
fn an_operator_changes_a_node_while_it_runs() {
    let folder = Folder::new();
    let (apps, second, to_second) = (free(), free(), free());
    let rest = format!("no_route = \"1 h\"\n{}", listen("tcpcl", apps));
    let one = Running::start(&folder.file(""), 1, &rest);
    let two = Running::start(
        &folder.file(""),
        2,
        &format!("{}{}", listen("tcpcl", second), listen("udp", to_second)),
    );
    let store = folder.file("store-1");
    let operate = |request: Request| ask(&store, &request);
    let mode = std::fs::metadata(store.join("control")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for _ in 0..3 {
        client.send(&letter, vec![7; 10]).expect("a session");
    }
    until("acknowledgements", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.acknowledged() == 3
    });
    let list = || operate(Request::List { first: 0, most: 10, local: false }).expect("a list");
    let rows = list();
    assert_eq!(
        (rows["bundles"].as_array().map(Vec::len), &rows["bundles"][0]["state"]),
        (Some(3), &"no route".into())
    );
    let id = rows["bundles"][1]["id"].as_str().expect("a number").to_owned();
    let deleted = operate(Request::Delete { ids: vec![id.clone(), "999999".into()] }).expect("an answer");
    assert_eq!(deleted["deleted"], serde_json::json!([id]));
    assert!(
        operate(Request::Delete { ids: vec!["x".into()] }).is_err_and(|problem| problem.contains("\"x\""))
    );
    // A neighbour comes, with the key that its table needs, and goes.
    let wrong = operate(Request::AddNeighbour { table: "node = 2".into() });
    assert!(wrong.is_err_and(|problem| problem.contains("layer")));
    let table = format!("node = 2\nlayer = \"tcpcl\"\nat = \"localhost:{}\"", second.port());
    operate(Request::AddNeighbour { table }).expect("a neighbour");
    until("the bundles at the other node", || {
        let answer = ask(&folder.file("store-2"), &Request::List { first: 0, most: 10, local: true });
        answer.expect("a list")["bundles"].as_array().map(Vec::len) == Some(2)
    });
    let status = operate(Request::Status).expect("a status");
    assert_eq!(
        (&status["neighbours"][0]["connected"], &status["counters"]["cancelled"]),
        (&true.into(), &1.into())
    );
    assert!(operate(Request::Contacts).is_err_and(|problem| problem.contains("no contact plan")));
    operate(Request::AddRoute { to: "dtn://far/".into(), via: "2".into() }).expect("a route");
    assert!(operate(Request::AddRoute { to: "7".into(), via: "5".into() }).is_err());
    assert!(operate(Request::RemoveNeighbour { node: "2".into() }).is_err(), "a route leads by it");
    operate(Request::RemoveRoute { to: "dtn://far/".into() }).expect("no route");
    operate(Request::RemoveNeighbour { node: "2".into() }).expect("no neighbour");
    until("the end of the session", || one.has_line("neighbour 2 disconnected"));
    let routes = operate(Request::Routes).expect("routes");
    assert_eq!(routes, serde_json::json!({ "routes": {}, "direct": [] }));
    // A neighbour of datagrams too.
    operate(Request::AddNeighbour { table: format!("node = 2\nlayer = \"udp\"\nat = \"{to_second}\"") })
        .expect("a neighbour");
    client.send(&letter, vec![8; 10]).expect("a session");
    until("a bundle by UDP", || {
        client.turn(Span::from_millis(20)).expect("a session");
        let answer = ask(&folder.file("store-2"), &Request::Status).expect("a status");
        answer["counters"]["received"] == 3
    });
    drop(client);
    one.end();
    two.end();
    assert!(
        operate(Request::Status).is_err_and(|problem| problem.contains("no node runs")),
        "no socket is left"
    );
}

#[test]
fn requests_are_bounded() {
    let folder = Folder::new();
    let node = Running::start(&folder.file(""), 1, &listen("tcpcl", free()));
    let path = folder.file("store-1").join("control");
    let exchange = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&path).expect("a node");
        // The node may end before all is written.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(exchange(b"nonsense\n").contains("error"));
    assert!(exchange(b"{\"do\": \"dance\"}\n").contains("error"));
    assert!(exchange(b"{\"do\": \"list\", \"first\": 0}\n").contains("error"), "a key is missing");
    assert!(exchange(&vec![b'x'; 70_000]).contains("at most 65536 B"));
    // Clients that say nothing take no more than their places, for a time.
    let silent: Vec<UnixStream> = (0..40).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    assert!(!silent.is_empty());
    drop(silent);
    assert!(exchange(b"{\"do\": \"status\"}\n").contains("ipn:1.0"));
    node.end();
}

#[test]
fn contacts_are_added_and_removed_while_a_node_runs() {
    let folder = Folder::new();
    let (apps, second) = (free(), free());
    let plan = folder.write("plan.ionrc", b"a contact +3600 +7200 1 2 125000\na range +0 +7200 1 2 0\n");
    let rest = format!("plan = {plan:?}\n{}{}", listen("tcpcl", apps), neighbour("2", "tcpcl", second));
    let one = Running::start(&folder.file(""), 1, &rest);
    let two = Running::start(&folder.file(""), 2, &listen("tcpcl", second));
    let store = folder.file("store-1");
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 9_000_000, hops: 10, flags: BundleFlags::default() };
    client.send(&letter, vec![7; 10]).expect("a session");
    until("an acknowledgement", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.acknowledged() == 1
    });
    let contacts = ask(&store, &Request::Contacts).expect("contacts");
    assert_eq!((&contacts["count"], &contacts["contacts"][0]["state"]), (&1.into(), &"later".into()));
    let add = |lines: &str| ask(&store, &Request::AddContacts { lines: lines.into() });
    assert!(add("a contact +4000 +5000 1 2 1\n").is_err_and(|problem| problem.contains("overlaps")));
    assert!(add("a contact 1 2").is_err());
    assert_eq!(add("a contact +0 +3000 1 2 125000\n").expect("a contact")["added"], 1);
    until("the bundle at the other node", || {
        let answer = ask(&folder.file("store-2"), &Request::List { first: 0, most: 10, local: true });
        answer.expect("a list")["bundles"].as_array().map(Vec::len) == Some(1)
    });
    let removed =
        ask(&store, &Request::RemoveContacts { from: 1, to: 2, at: Some(10.0) }).expect("an answer");
    assert_eq!(removed["removed"], 1);
    assert_eq!(ask(&store, &Request::Contacts).expect("contacts")["contacts"][0]["start_s"], 3600.0);
    drop(client);
    one.end();
    two.end();
}

#[test]
fn a_neighbour_of_scheme_dtn_exchanges_bundles_by_tcpcl() {
    let folder = Folder::new();
    let (apps, other) = (free(), free());
    let rest = format!(
        "{}{}[routes]\ndefault = \"dtn://two/\"\n",
        listen("tcpcl", apps),
        neighbour("\"dtn://two/\"", "tcpcl", other)
    );
    let node = Running::start(&folder.file(""), 1, &rest);
    let stop = AtomicBool::new(false);
    let named = "dtn://two/".parse().expect("a node");
    let security = Default::default();
    let (count, longest) = (Some(2), LONGEST);
    let receiving = Receiving { at: other, layer: Layer::Tcpcl, node: named, security, count, longest };
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let take = &mut |arrival: Arrival<'_>| {
                if let Arrival::Bundle(bundle, _) = arrival {
                    found.push(bundle.primary.destination.to_string());
                }
                Ok(())
            };
            bentpipe_bundles::receive(&receiving, &stop, take).expect("a receiver");
        });
        let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
        for to in ["dtn://two/in", "ipn:9.1"] {
            let to = to.parse().expect("an endpoint");
            let letter = Letter { to, lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
            client.send(&letter, vec![7; 10]).expect("a session");
        }
        until("both bundles", || {
            client.turn(Span::from_millis(20)).expect("a session");
            node.has_line("neighbour dtn://two/ disconnected")
        });
    });
    assert_eq!(found, ["dtn://two/in", "ipn:9.1"]);
    // One that is not in the file connects itself, and its bundles are taken.
    let mut named =
        Client::connect(&apps.to_string().into(), &"dtn://three/".parse().expect("a node")).expect("a node");
    let letter = Letter { to: Eid::ipn(1, 5), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    named.send(&letter, vec![7; 10]).expect("a session");
    until("an acknowledgement", || {
        named.turn(Span::from_millis(20)).expect("a session");
        named.acknowledged() == 1
    });
    assert!(
        node.has_line("connected as dtn://three/ and is sent nothing: the node file has a default route")
    );
    named.close();
    node.end();
}

#[test]
fn a_receiver_takes_as_many_bundles_as_it_is_to() {
    let folder = Folder::new();
    let apps = free();
    let node = Running::start(&folder.file(""), 1, &listen("tcpcl", apps));
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(1, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for n in 0..10 {
        client.send(&letter, vec![n; 10]).expect("a session");
    }
    until("acknowledgements", || {
        client.turn(Span::from_millis(20)).expect("a session");
        client.acknowledged() == 10
    });
    let stop = AtomicBool::new(false);
    let mut found = Vec::new();
    for count in [3, 2, 5] {
        let mut take = |arrival: Arrival<'_>| {
            if let Arrival::Bundle(bundle, _) = arrival {
                found.push(bundle.payload.to_vec()[0]);
            }
            Ok(())
        };
        receive_via(&apps.to_string().into(), &Eid::ipn(1, 6), (Some(count), LONGEST), &stop, &mut take)
            .expect("a node");
    }
    assert_eq!(found, (0..10).collect::<Vec<u8>>(), "in their order, none lost");
    client.close();
    assert_eq!(node.end().waiting, 0);
}

#[test]
fn no_application_has_a_service_of_the_node_itself() {
    let folder = Folder::new();
    let apps = free();
    let node = Running::start(&folder.file(""), 1, &listen("tcpcl", apps));
    for service in [7, 9, 2047] {
        // The session may be there for a moment before its end comes.
        drop(Client::connect(&apps.to_string().into(), &Eid::ipn(1, service)));
        let line = format!("refused an application at service {service}, which the node serves itself");
        until("a refusal", || node.has_line(&line));
        assert!(!node.has_line(&format!("application at service {service} connected")));
    }
}

#[test]
fn counters_are_served_to_prometheus() {
    let folder = Folder::new();
    let (store, at) = (folder.file("store"), free());
    let text = format!("eid = \"ipn:1.0\"\nstore = {store:?}\n");
    let mut daemon = Daemon::open(NodeFile::parse(&text).expect("a good file")).expect("a node");
    daemon.export_at(at).expect("an address");
    let mut stream = TcpStream::connect(at).expect("an exporter");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a connection");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    assert!(page.contains("bentpipe_dtn_received_total{node=\"ipn:1.0\"} 0"), "{page}");
}
