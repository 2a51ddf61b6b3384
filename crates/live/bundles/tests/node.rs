//! Bundle nodes on loopback: layers, stores, outages, hostile peers.
#![allow(clippy::disallowed_methods, reason = "nodes run in real time")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use bentpipe_bundles::client::{Client, LONGEST, Letter};
use bentpipe_bundles::node::{Counters, Daemon, NodeFile};
use bentpipe_bundles::perf::{Control, Load, perf};
use bentpipe_bundles::ping::{Pinging, RoundTrips, ping};
use bentpipe_bundles::trace::{Sighting, Step, Tracing, trace};
use bentpipe_testkit::{Folder, free_port, until, until_some};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::bundle::BundleFlags;
use bentpipe_wire::dtn::eid::Eid;

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Node in a thread.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counters>>,
}

impl Running {
    fn start(file: NodeFile) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let mut daemon = Daemon::open(file).expect("a node");
        let thread = std::thread::spawn(move || {
            daemon.run(&asked, &mut |_| {}).expect("a store");
            daemon.counters()
        });
        Running { stop, thread: Some(thread) }
    }

    fn end(mut self) -> Counters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("no panic")
    }
}

fn file(folder: &Path, number: u32, rest: &str) -> NodeFile {
    let store = folder.join(format!("store-{number}"));
    let text = format!("eid = \"ipn:{number}.0\"\nstore = {store:?}\nsync = false\n{rest}");
    NodeFile::parse(&text).expect("a good file")
}

fn round_trips(at: SocketAddr, to: Eid, size: usize) -> RoundTrips {
    let pinging = Pinging {
        node: at.to_string().into(),
        from: Eid::ipn(1, 50),
        to,
        count: 5,
        interval: Span::from_millis(5),
        size,
        wait: Span::from_secs(20),
    };
    ping(&pinging, &AtomicBool::new(false), &mut |_, _| {}).expect("a session")
}

/// Returns the files of two nodes that are neighbours over a layer, and the address for applications of the first.
fn pair(folder: &Path, layer: &str, more: &str) -> (NodeFile, NodeFile, SocketAddr) {
    let (one, other, apps) = (free(), free(), free());
    let node = |number: u32, at: SocketAddr, peer: u32, to: SocketAddr, apps: SocketAddr| {
        file(
            folder,
            number,
            &format!(
                "[[listen]]\nlayer = \"tcpcl\"\nat = \"{apps}\"\n[[listen]]\nlayer = \"{layer}\"\nat = \"{at}\"\n\
                 [[neighbour]]\nnode = {peer}\nlayer = \"{layer}\"\nat = \"{to}\"\n{more}[routes]\ndefault = {peer}\n"
            ),
        )
    };
    (node(1, one, 2, other, apps), node(2, other, 1, one, free()), apps)
}

#[test]
fn pings_cross_every_layer() {
    let several = "aggregate = { bytes = \"20 kB\", wait = \"30 ms\" }\n";
    for (layer, more) in [("tcpcl", ""), ("mtcp", ""), ("udp", ""), ("ltp", ""), ("ltp", several)] {
        let folder = Folder::new();
        let (one, two, apps) = pair(&folder.file(""), layer, more);
        let (one, two) = (Running::start(one), Running::start(two));
        // Bundles of several datagrams are fragmented on UDP and cut into segments on LTP.
        let found = round_trips(apps, Eid::ipn(2, 7), 5000);
        let (one, two) = (one.end(), two.end());
        assert_eq!((found.sent, found.times.len(), found.duplicates), (5, 5, 0), "{layer}: {one:?} {two:?}");
        if !more.is_empty() {
            // The first one waits at both nodes, and others that come in that time go with it.
            let longest = found.times.iter().max().expect("five");
            assert!(*longest >= Span::from_millis(60), "{longest}");
        }
        assert_eq!(two.echoed, 5, "{layer}");
        assert_eq!((one.stored, two.stored), ((0, 0), (0, 0)), "{layer}");
    }
}

/// Waits until the files of a node's store have a number of bytes.
fn await_bytes(store: &Path, bytes: u64) {
    let len = || {
        let files = std::fs::read_dir(store).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>()
    };
    until(&format!("{bytes} B in {}", store.display()), || len() >= bytes);
}

#[test]
fn bundles_wait_on_disk_for_a_neighbour_and_an_application() {
    let folder = Folder::new();
    let (one, two, apps) = pair(&folder.file(""), "tcpcl", "");
    let second_apps = two.listen[0].at;
    let first = Running::start(one.clone());
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for n in 0..100u8 {
        client.send(&letter, vec![n; 300]).expect("a session");
    }
    while client.acknowledged() < 100 {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    client.close();
    assert_eq!(first.end().stored.0, 100);
    // Nothing but the store is left of the first node.
    let first = Running::start(one);
    let second = Running::start(two.clone());
    await_bytes(&folder.file("store-2"), 100 * 300);
    // The last acknowledgements go back; nothing shows them from outside.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let counters = first.end();
    assert_eq!((counters.restored, counters.stored.0, counters.node.forwarded), (100, 0, 100));
    assert_eq!(second.end().waiting, 100);
    let second = Running::start(two);
    let mut found = Vec::new();
    let mut take = |arrival: bentpipe_bundles::Arrival<'_>| {
        if let bentpipe_bundles::Arrival::Bundle(bundle, _) = arrival {
            found.push(bundle.payload.to_vec());
        }
        Ok(())
    };
    let stop = AtomicBool::new(false);
    bentpipe_bundles::receive_via(
        &second_apps.to_string().into(),
        &Eid::ipn(2, 6),
        (Some(100), LONGEST),
        &stop,
        &mut take,
    )
    .expect("a node");
    assert_eq!(found, (0..100u8).map(|n| vec![n; 300]).collect::<Vec<_>>());
    let counters = second.end();
    assert_eq!((counters.restored, counters.delivered, counters.waiting), (100, 100, 0));
}

#[test]
fn what_a_damaged_store_loses_is_counted() {
    let folder = Folder::new();
    let (one, _, apps) = pair(&folder.file(""), "tcpcl", "");
    let running = Running::start(one.clone());
    send_letters(apps, 20, 1000);
    assert_eq!(running.end().stored.0, 20);
    let log = folder.file("store-1").join("000000000001.log");
    let whole = std::fs::read(&log).expect("a log");
    // Behind the length of the first batch: it has one bundle at least.
    let mut flipped = whole.clone();
    flipped[500] ^= 4;
    std::fs::write(&log, &flipped).expect("a log");
    let counters = Running::start(one).end();
    assert!(counters.restored < 20 && counters.damaged_bytes > 1000, "{counters:?}");
    assert_eq!(counters.stored.0, counters.restored);
    let lost = 20 - counters.restored;
    assert!(counters.damaged_bytes > lost * 1000, "{counters:?}");
    let json = counters.to_json();
    assert_eq!(json["damaged_bytes"], counters.damaged_bytes);
}

/// Sends letters of a length from an application of the first node to one of the second.
fn send_letters(apps: SocketAddr, count: u64, len: usize) {
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    for _ in 0..count {
        client.send(&letter, vec![7; len]).expect("a session");
    }
    while client.acknowledged() < count {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    client.close();
}

#[test]
fn blocks_of_ltp_wait_for_room_at_their_receiver() {
    let folder = Folder::new();
    let (one, mut two, apps) = pair(&folder.file(""), "ltp", "");
    (two.storage, two.max_bundle) = (Bytes::new(100_000), Bytes::new(50_000));
    let second_apps = two.listen[0].at;
    let (one, two) = (Running::start(one), Running::start(two));
    send_letters(apps, 10, 20_000);
    // Four of them fit the storage of the second node, and no application takes them. The fifth follows at once.
    await_bytes(&folder.file("store-2"), 4 * 20_000);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut found = 0;
    let stop = AtomicBool::new(false);
    let mut take = |arrival: bentpipe_bundles::Arrival<'_>| {
        if let bentpipe_bundles::Arrival::Bundle(..) = arrival {
            found += 1;
        }
        stop.store(found == 10, Ordering::Relaxed);
        Ok(())
    };
    let (node, endpoint) = (second_apps.to_string().into(), Eid::ipn(2, 6));
    bentpipe_bundles::receive_via(&node, &endpoint, (None, LONGEST), &stop, &mut take).expect("a session");
    let (one, two) = (one.end(), two.end());
    assert_eq!((found, two.delivered, two.waiting), (10, 10, 0), "{one:?} {two:?}");
    assert!(two.no_room >= 1 && one.ltp_cancelled >= 1, "{one:?} {two:?}");
}

#[test]
fn a_block_that_is_too_long_for_its_receiver_pauses() {
    let folder = Folder::new();
    let (one, mut two, apps) = pair(&folder.file(""), "ltp", "");
    (two.storage, two.max_bundle) = (Bytes::new(100_000), Bytes::new(50_000));
    let (one, two) = (Running::start(one), Running::start(two));
    send_letters(apps, 1, 60_000);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let (one, two) = (one.end(), two.end());
    assert!((1..=3).contains(&one.ltp_cancelled), "at 0 s and after 1 s: {one:?} {two:?}");
    assert_eq!(one.stored.0, 1);
}

#[test]
fn a_load_is_reported_bundle_by_bundle() {
    let folder = Folder::new();
    let (one, two, apps) = pair(&folder.file(""), "tcpcl", "");
    let (one, two) = (Running::start(one), Running::start(two));
    let load = Load {
        node: apps.to_string().into(),
        from: Eid::ipn(1, 60),
        to: Eid::ipn(2, 9),
        size: 1000,
        control: Control::Window(100),
        count: Some(2000),
        duration: None,
        wait: Span::from_secs(20),
        lifetime: Span::from_secs(100),
    };
    let figures = perf(&load, &AtomicBool::new(false)).expect("a session");
    assert_eq!((figures.sent, figures.delivered, figures.deleted), (2000, 2000, 0));
    assert!(figures.goodput() > 0.0 && figures.times.len() == 2000);
    one.end();
    assert_eq!(two.end().discarded, 2000);
}

#[test]
fn hostile_peers_end_alone() {
    use std::io::Read;
    let folder = Folder::new();
    let (one, _, apps) = pair(&folder.file(""), "mtcp", "");
    let mtcp = one.listen[1].at;
    let node = Running::start(one);
    let garbage = |at: SocketAddr, bytes: &[u8]| {
        TcpStream::connect(at).expect("a listener").write_all(bytes).expect("a connection");
    };
    garbage(apps, b"GET / HTTP/1.1\r\n\r\n");
    garbage(apps, b"dtn!\x04\x00\x07\xff\xff");
    garbage(mtcp, &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    garbage(mtcp, b"\x43abc");
    // A peer of version 3 (RFC 7242) is refused.
    let mut older = TcpStream::connect(apps).expect("a listener");
    older.write_all(b"dtn!\x03\x01\x00\x3c\x05dtn:a").expect("a connection");
    let mut answer = Vec::new();
    older.read_to_end(&mut answer).expect("an end");
    assert_eq!(answer, *b"dtn!\x04\x00\x05\x00\x02", "SESS_TERM, version mismatch");
    // Bundles for the node's own services would never reach it.
    let refused = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 9)).and_then(|mut client| {
        (0..100).try_for_each(|_| client.turn(Span::from_millis(50)))?;
        Ok(client)
    });
    assert!(refused.is_err());
    let silent = TcpStream::connect(apps).expect("a listener");
    let found = round_trips(apps, Eid::ipn(1, 7), 64);
    drop(silent);
    assert_eq!(found.times.len(), 5, "the node still serves");
    let counters = node.end();
    assert_eq!((counters.malformed, counters.node.malformed, counters.node.received), (0, 1, 1));
}

/// Calls `test` with the address of a proxy at a node, whose partner at another node leads to `back`. Returns the totals of both.
fn through_proxies(
    back: SocketAddr,
    test: &mut dyn FnMut(SocketAddr),
) -> [bentpipe_bundles::proxy::Totals; 2] {
    use bentpipe_bundles::proxy::{MEMORY, STALL};
    through_proxies_with(back, (MEMORY, STALL), test)
}

/// Does as [`through_proxies`], with another memory of each, and another time after which a stream is stalled.
fn through_proxies_with(
    back: SocketAddr,
    bounds: (Bytes, Span),
    test: &mut dyn FnMut(SocketAddr),
) -> [bentpipe_bundles::proxy::Totals; 2] {
    through_proxies_over("tcpcl", back, bounds, &mut |front, _| test(front))
}

/// Does as [`through_proxies_with`], over a layer. `test` has the address of the other node on it too.
fn through_proxies_over(
    layer: &str,
    back: SocketAddr,
    (memory, stall): (Bytes, Span),
    test: &mut dyn FnMut(SocketAddr, SocketAddr),
) -> [bentpipe_bundles::proxy::Totals; 2] {
    use bentpipe_bundles::proxy::{Proxying, proxy};
    let folder = Folder::new();
    let (one, two, apps) = pair(&folder.file(""), layer, "");
    let (far_apps, far) = (two.listen[0].at, two.listen[1].at);
    let (one, two) = (Running::start(one), Running::start(two));
    let front = free();
    let side = |node: SocketAddr, own: u32, other: u32, listen, connect| Proxying {
        node: node.to_string().into(),
        from: Eid::ipn(own, 20),
        to: Eid::ipn(other, 20),
        listen,
        connect,
        segment: 5000,
        lifetime: Span::from_secs(600),
        memory,
        stall,
    };
    let sides = [side(apps, 1, 2, Some(front), None), side(far_apps, 2, 1, None, Some(back))];
    let stop = Arc::new(AtomicBool::new(false));
    let proxies = sides.map(|side| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || proxy(&side, &stop, &mut |_| ()).expect("a node"))
    });
    test(front, far);
    stop.store(true, Ordering::Relaxed);
    let totals = proxies.map(|proxy| proxy.join().expect("no panic"));
    one.end();
    two.end();
    totals
}

fn connect(address: SocketAddr) -> TcpStream {
    until_some(&format!("listener at {address}"), || TcpStream::connect(address).ok())
}

#[test]
fn tcp_streams_cross_as_bundles() {
    use std::io::Read;

    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let back = target.local_addr().expect("an address");
    // The server reads to the end of the stream, and answers after that.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = target.accept().expect("a connection");
        let mut question = Vec::new();
        stream.read_to_end(&mut question).expect("a stream");
        stream.write_all(&question.iter().rev().copied().collect::<Vec<_>>()).expect("a stream");
    });
    let question: Vec<u8> = (0..300_000u32).map(|n| (n / 3) as u8).collect();
    let totals = through_proxies(back, &mut |front| {
        let mut client = connect(front);
        client.write_all(&question).expect("a stream");
        client.shutdown(std::net::Shutdown::Write).expect("a stream");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("a stream");
        assert!(answer.iter().rev().eq(&question), "{} B came back", answer.len());
    });
    server.join().expect("no panic");
    assert!(totals.iter().all(|totals| totals.streams == 1 && totals.resets == 0 && totals.sent == 300_000));
}

#[test]
fn a_target_that_does_not_read_leaves_bundles_at_its_node() {
    use std::io::Read;

    const LEN: usize = 60_000_000;
    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let back = target.local_addr().expect("an address");
    let content = |at: usize| (at / 7) as u8;
    let totals = through_proxies_with(back, (Bytes::new(1_000_000), Span::from_secs(3600)), &mut |front| {
        let mut client = connect(front);
        let sender = std::thread::spawn(move || {
            for start in (0..LEN).step_by(100_000) {
                let piece: Vec<u8> = (start..start + 100_000).map(content).collect();
                client.write_all(&piece).expect("a stream");
            }
            client
        });
        let (mut stream, _) = target.accept().expect("a connection");
        // The nodes have all of it by and by.
        let client = sender.join().expect("no panic");
        drop(client);
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            match stream.read(&mut buffer).expect("a stream") {
                0 => break,
                len => {
                    assert!(
                        buffer[..len].iter().enumerate().all(|(n, byte)| *byte == content(at + n)),
                        "at {at}"
                    );
                    at += len;
                }
            }
        }
        assert_eq!(at, LEN);
    });
    let [_, far] = totals;
    assert_eq!((far.resets, far.received), (0, LEN as u64), "{far:?}");
    // A node has 8 MiB on their way; a turn has one more. Nodes that both connect share bundles between two sessions, one of which may
    // be ahead.
    assert!((1_000_000..1_000_000 + (9 << 20) + far.waited).contains(&far.peak), "{far:?}");
}

/// What is missing is behind more data than memory and the bundles on their way have.
#[test]
fn a_proxy_whose_memory_waits_for_missing_data_takes_more() {
    use bentpipe_bundles::proxy::{Proxying, proxy};
    use std::io::Read;

    const PIECE: usize = 50_000;
    const PIECES: usize = 400;
    let folder = Folder::new();
    let (one, two, apps) = pair(&folder.file(""), "tcpcl", "");
    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let side = Proxying {
        node: two.listen[0].at.to_string().into(),
        from: Eid::ipn(2, 20),
        to: Eid::ipn(1, 20),
        listen: None,
        connect: Some(target.local_addr().expect("an address")),
        segment: 5000,
        lifetime: Span::from_secs(600),
        memory: Bytes::new(1_000_000),
        stall: Span::from_secs(3600),
    };
    let (one, two) = (Running::start(one), Running::start(two));
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let far = std::thread::spawn(move || proxy(&side, &asked, &mut |_| ()).expect("a node"));
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 20)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 20), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    // The first piece comes last.
    for piece in (1..PIECES).chain([0]) {
        let head = [&[0][..], &7u64.to_be_bytes(), &((piece * PIECE) as u64).to_be_bytes()].concat();
        client.send(&letter, [&head[..], &vec![piece as u8; PIECE]].concat()).expect("a session");
    }
    while client.acknowledged() < PIECES as u64 {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    let (mut stream, _) = target.accept().expect("a connection");
    let mut data = vec![0; PIECES * PIECE];
    stream.read_exact(&mut data).expect("all of it");
    let mut pieces = data.chunks(PIECE).enumerate();
    assert!(pieces.all(|(n, piece)| piece.iter().all(|byte| *byte == n as u8)));
    client.close();
    stop.store(true, Ordering::Relaxed);
    let far = far.join().expect("no panic");
    assert!(far.resets == 0 && far.waited > 15_000_000, "{far:?}");
    one.end();
    two.end();
}

/// Any host can send a datagram with a bundle that says it is of the other proxy.
#[test]
fn bundles_of_guests_leave_streams_to_the_other_proxy() {
    use std::io::Read;

    use bentpipe_bundles::proxy::{MEMORY, STALL};
    use bentpipe_wire::dtn::bundle::{Bundle, Payload, Primary, Timestamp};

    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let back = target.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in target.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 100];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    let _ = stream.write_all(&buffer[..len]);
                }
            });
        }
    });
    let ask = |front: SocketAddr| {
        let mut client = connect(front);
        client.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
        client.write_all(b"question").expect("a stream");
        let mut answer = [0; 8];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"question");
    };
    let totals = through_proxies_over("udp", back, (MEMORY, STALL), &mut |front, far| {
        let guest = std::net::UdpSocket::bind("127.0.9.9:0").expect("loopback");
        let send = |stream: u64, kind: u8, number: u64| {
            let stamp = Timestamp { time: 849_000_000_000, sequence: number };
            let primary = Primary::new(Eid::ipn(1, 20), Eid::ipn(2, 20), stamp, 1_000_000_000_000);
            let head = [&[kind][..], &stream.to_be_bytes(), &0u64.to_be_bytes(), b"xx"].concat();
            let bundle = Bundle { primary, blocks: vec![], payload: Payload::new(head) };
            guest.send_to(&bundle.to_vec(), far).expect("a socket");
        };
        for n in 0..1200 {
            send(n, 0, n);
            if n % 50 == 49 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        (0..3).for_each(|_| ask(front));
        // A stream that is open hears no reset of a guest, whose numbers are those of time.
        let mut client = connect(front);
        client.write_all(b"first").expect("a stream");
        client.read_exact(&mut [0; 5]).expect("an answer");
        (0..200).for_each(|n| send(n, 2, 5000 + n));
        client.write_all(b"second").expect("a stream");
        client.read_exact(&mut [0; 6]).expect("an answer");
    });
    let [_, far] = totals;
    assert!(far.left_out >= 900 && far.streams <= 260, "{far:?}");
}

#[test]
fn a_stream_whose_target_does_not_read_gives_way_to_others() {
    use std::io::{ErrorKind, Read};

    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let back = target.local_addr().expect("an address");
    let totals = through_proxies_with(back, (Bytes::new(1_000_000), Span::from_secs(1)), &mut |front| {
        let mut greedy = connect(front);
        let writer = std::thread::spawn(move || {
            let end = loop {
                if let Err(error) = greedy.write_all(&[7; 100_000]) {
                    break error.kind();
                }
            };
            assert!(matches!(end, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{end}");
        });
        let (_silent, _) = target.accept().expect("a connection");
        writer.join().expect("no panic");
        let mut client = connect(front);
        client.write_all(b"question").expect("a stream");
        client.shutdown(std::net::Shutdown::Write).expect("a stream");
        let (mut stream, _) = target.accept().expect("a connection");
        let mut question = Vec::new();
        stream.read_to_end(&mut question).expect("a stream");
        assert_eq!(question, b"question");
        drop(stream);
        client.read_to_end(&mut Vec::new()).expect("a stream");
    });
    let [_, far] = totals;
    assert_eq!((far.streams, far.stalled), (2, 1), "{far:?}");
}

/// An end in place of a reset would make a part of a stream look like the whole.
#[test]
fn streams_without_a_target_are_reset() {
    use std::io::{ErrorKind, Read};

    // Nothing listens there, and nothing can: the first is found while connecting, the second at once.
    for target in [free(), SocketAddr::from(([255, 255, 255, 255], 9))] {
        let totals = through_proxies(target, &mut |front| {
            let mut client = connect(front);
            client.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
            client.write_all(b"question").expect("a stream");
            let end = client.read(&mut [0; 10]).map_err(|error| error.kind());
            assert_eq!(end, Err(ErrorKind::ConnectionReset), "{target}");
        });
        assert_eq!(totals.map(|totals| totals.resets), [1, 1], "{target}");
    }
}

#[test]
fn copies_cross_nodes_that_know_no_routes() {
    let kept = Folder::new();
    let at = [free(), free(), free()];
    let node = |number: usize, neighbours: &[usize], routing: &str| {
        // Stores of its own for each routing: copies that are left would go on in the next.
        let folder = kept.file(routing.replace(['"', '\n', ' '], ""));
        let mut text = format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[number - 1]);
        for other in neighbours {
            text +=
                &format!("[[neighbour]]\nnode = {other}\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[other - 1]);
        }
        file(&folder, number as u32, &format!("{text}[routing]\n{routing}\n"))
    };
    for routing in ["kind = \"epidemic\"", "kind = \"spray-and-wait\"\ncopies = 4"] {
        // A triangle: each bundle has two ways to the third node, and arrives there once.
        let nodes = [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])].map(|(n, others)| node(n, &others, routing));
        let nodes = nodes.map(Running::start);
        let found = round_trips(at[0], Eid::ipn(3, 7), 500);
        assert_eq!((found.times.len(), found.duplicates), (5, 0), "{routing}");
        let counters = nodes.map(Running::end);
        assert_eq!(counters[2].echoed, 5, "{routing}: {counters:?}");
    }
}

#[test]
fn a_copy_that_another_node_still_has_is_dropped_after_a_restart() {
    let folder = Folder::new();
    let (folder, at) = (folder.file(""), [free(), free(), free()]);
    let node = |number: usize, neighbours: [usize; 2]| {
        let mut text = format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[number - 1]);
        for other in neighbours {
            text +=
                &format!("[[neighbour]]\nnode = {other}\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[other - 1]);
        }
        file(&folder, number as u32, &format!("{text}[routing]\nkind = \"epidemic\"\n"))
    };
    let files = [node(1, [2, 3]), node(2, [1, 3]), node(3, [1, 2])];
    // Two of the nodes at a time, until the second has what it is to have.
    let together = |one: usize, other: usize, is_done: &dyn Fn(&Counters) -> bool| {
        for wait in 1..10 {
            let running = [one, other].map(|n| Running::start(files[n - 1].clone()));
            std::thread::sleep(std::time::Duration::from_millis(300 * wait));
            let [_, counters] = running.map(Running::end);
            if is_done(&counters) {
                return counters;
            }
        }
        panic!("nodes {one} and {other} do not meet");
    };
    let first = Running::start(files[0].clone());
    let mut client = Client::connect(&at[0].to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(3, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    client.send(&letter, vec![7; 300]).expect("a session");
    while client.acknowledged() < 1 {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    client.close();
    assert_eq!(first.end().stored.0, 1);
    together(1, 2, &|two| two.stored.0 == 1);
    together(1, 3, &|three| three.waiting == 1);
    let three = together(2, 3, &|three| three.duplicates == 1);
    assert_eq!(three.waiting, 1, "{three:?}");
}

#[test]
fn a_trace_lists_the_nodes_on_the_way() {
    let folder = Folder::new();
    let (folder, at) = (folder.file(""), [free(), free(), free()]);
    let node = |number: usize, neighbours: &[usize], routes: &str| {
        let mut text = format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[number - 1]);
        for other in neighbours {
            text +=
                &format!("[[neighbour]]\nnode = {other}\nlayer = \"tcpcl\"\nat = \"{}\"\n", at[other - 1]);
        }
        file(&folder, number as u32, &format!("{text}[routes]\n{routes}\n"))
    };
    let nodes =
        [node(1, &[2], "default = 2"), node(2, &[1, 3], "1 = 1\n3 = 3"), node(3, &[2], "default = 2")];
    let nodes = nodes.map(Running::start);
    let follow = |hops: u8, wanted: &[(u32, Step)]| {
        let tracing = Tracing {
            node: at[0].to_string().into(),
            from: Eid::ipn(1, 70),
            to: Eid::ipn(3, 9),
            size: 64,
            hops,
            lifetime: Span::from_secs(100),
            wait: Span::from_secs(20),
        };
        let (mut seen, stop) = (Vec::new(), AtomicBool::new(false));
        let mut note = |sighting: &Sighting| {
            assert!(sighting.clock_ms.is_some_and(|ms| (-1000..20_000).contains(&ms)), "{sighting}");
            seen.push((sighting.node.clone(), sighting.step));
            let is_there = |(node, step): &(u32, Step)| seen.contains(&(Eid::ipn(*node, 0), *step));
            stop.store(wanted.iter().all(is_there), Ordering::Relaxed);
        };
        let is_delivered = trace(&tracing, &stop, &mut note).expect("a session");
        assert_eq!(seen.len(), wanted.len(), "{seen:?}");
        is_delivered
    };
    let way = [(1, Step::Forwarded), (2, Step::Received), (2, Step::Forwarded), (3, Step::Received)];
    assert!(follow(64, &[&way[..], &[(3, Step::Delivered)]].concat()));
    // The second hop would exceed the limit.
    assert!(!follow(1, &[&way[..2], &[(2, Step::Deleted)]].concat()));
    let counters = nodes.map(Running::end);
    assert_eq!(counters[2].discarded, 1, "the other was deleted");
}

/// Relays a connection until `most` bytes went to the node at `to` and its answers have `least` bytes; then cuts it.
fn cut(listener: &TcpListener, to: SocketAddr, most: usize, least: usize, at_cut: &dyn Fn()) {
    use std::io::Read;
    let (mut near, _) = listener.accept().expect("a connection");
    let mut far = TcpStream::connect(to).expect("a node");
    let (mut source, mut sink) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
    let forward = std::thread::spawn(move || {
        let (mut buffer, mut left) = ([0; 1 << 16], most);
        while left > 0 {
            let len = source.read(&mut buffer[..left.min(1 << 16)]).expect("a stream");
            sink.write_all(&buffer[..len]).expect("a stream");
            left -= len;
        }
    });
    let (mut buffer, mut answered) = ([0; 1 << 12], 0);
    while answered < least {
        let len = far.read(&mut buffer).expect("a stream");
        assert!(len > 0, "the node ended the session");
        near.write_all(&buffer[..len]).expect("a stream");
        answered += len;
    }
    forward.join().expect("no panic");
    at_cut();
    for stream in [near, far] {
        stream.shutdown(std::net::Shutdown::Both).expect("a socket");
    }
}

/// Relays connections to the node at `to`, for as long as the test runs.
fn pass_on(listener: TcpListener, to: SocketAddr) {
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("a connection");
            let Ok(far) = TcpStream::connect(to) else { continue };
            let ends = [(&near, &far), (&far, &near)]
                .map(|(from, to)| (from.try_clone().expect("a socket"), to.try_clone().expect("a socket")));
            for (mut from, mut to) in ends {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
}

/// Sends 3 MB over two hops. The first is cut when it has carried 2.5 MB. Returns the counters of the nodes.
///
/// With `is_crash` the second node is as it was at that moment, its store alone.
fn send_over_a_cut(is_crash: bool) -> [Counters; 3] {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let relay = listener.local_addr().expect("an address");
    let [one, two, three] = [free(), free(), free()];
    let node = |number: u32, at: SocketAddr, rest: &str| {
        file(&folder.file(""), number, &format!("[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n{rest}"))
    };
    let to = |node: u32, at: SocketAddr| {
        format!(
            "[[neighbour]]\nnode = {node}\nlayer = \"tcpcl\"\nat = \"{at}\"\n[routes]\ndefault = {node}\n"
        )
    };
    // Parts are kept of neighbours in the file, as there is a default route.
    let mut second = node(2, two, &format!("[[neighbour]]\nnode = 1\nlayer = \"tcpcl\"\n{}", to(3, three)));
    let nodes = [node(1, one, &to(2, relay)), second.clone(), node(3, three, "")];
    let [first, mut middle, last] = nodes.map(Running::start);
    let payload: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    let mut client = Client::connect(&one.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(3, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    client.send(&letter, payload.clone()).expect("a session");
    while client.acknowledged() < 1 {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    client.close();
    let (store, copy) = (folder.file("store-2"), folder.file("store-2-at-the-crash"));
    let at_cut = || {
        std::fs::create_dir(&copy).expect("a folder");
        for entry in std::fs::read_dir(&store).expect("a store") {
            let path = entry.expect("a file").path();
            // The control socket has nothing of the store.
            if path.is_file() {
                std::fs::copy(&path, copy.join(path.file_name().expect("a name"))).expect("a file");
            }
        }
    };
    // Acknowledgements of a megabyte and more. They come after a second, as the relay passes nothing more.
    cut(&listener, two, 2_500_000, 128 * 18 + 100, if is_crash { &at_cut } else { &|| () });
    if is_crash {
        middle.end();
        second.store = copy;
        middle = Running::start(second);
    }
    pass_on(listener, two);
    let mut found = Vec::new();
    let mut take = |arrival: bentpipe_bundles::Arrival<'_>| {
        if let bentpipe_bundles::Arrival::Bundle(bundle, _) = arrival {
            found.push(bundle.payload.to_vec());
        }
        Ok(())
    };
    let stop = AtomicBool::new(false);
    let bounds = (Some(1), LONGEST);
    bentpipe_bundles::receive_via(&three.to_string().into(), &Eid::ipn(3, 6), bounds, &stop, &mut take)
        .expect("a node");
    assert!(found == [payload], "the bundle, whole");
    [first, middle, last].map(Running::end)
}

#[test]
fn the_rest_alone_follows_a_cut_transfer() {
    let counters = send_over_a_cut(false);
    let [one, two, _] = &counters;
    assert_eq!((one.node.resumed, one.node.forwarded, two.parts), (1, 1, 1), "{counters:?}");
    assert!((1_000_000..2_500_000).contains(&one.node.spared), "{counters:?}");
    // The part and the rest.
    assert_eq!((two.node.received, two.node.forwarded, two.stored), (2, 2, (0, 0)), "{counters:?}");
}

#[test]
fn a_crash_loses_nothing_of_a_transfer_that_was_acknowledged() {
    let counters = send_over_a_cut(true);
    let [one, two, _] = &counters;
    assert_eq!((one.node.resumed, two.restored, two.parts), (1, 1, 1), "{counters:?}");
    assert!(one.node.spared >= 1_000_000, "{counters:?}");
}

#[test]
fn parts_of_a_hostile_peer_are_bounded_by_the_storage() {
    use std::io::Read;

    use bentpipe_wire::dtn::bundle::{Bundle, Payload, Primary, Timestamp};
    use bentpipe_wire::dtn::tcpcl::{Extension, KEEPS_PARTS, Message, SegmentFlags, SessionInit};
    let (folder, at) = (Folder::new(), free());
    let limits = "storage = \"100 kB\"\nmax_bundle = \"100 kB\"\n";
    let listen = format!("{limits}[[listen]]\nlayer = \"tcpcl\"\nat = \"{at}\"\n");
    let node = Running::start(file(&folder.file(""), 1, &listen));
    let mut extensions = Vec::new();
    Extension { is_critical: false, code: KEEPS_PARTS, value: &[0; 8] }.put(&mut extensions);
    let init = SessionInit {
        keepalive: 0,
        segment_mru: 1 << 20,
        transfer_mru: 1 << 20,
        node: "ipn:9.0",
        extensions: &extensions,
    };
    // Every second one has less than is kept.
    for n in 0..400 {
        let stamp = Timestamp { time: 800_000_000_000, sequence: n };
        let primary = Primary::new(Eid::ipn(9, 1), Eid::ipn(3, 1), stamp, 100_000_000_000);
        let bundle = Bundle { primary, blocks: vec![], payload: Payload::new(vec![1; 90_000]) }.to_vec();
        let mut bytes = b"dtn!\x04\x00".to_vec();
        Message::Init(init.clone()).emit(&mut bytes);
        let data = &bundle[..if n % 2 == 0 { 1100 } else { 900 }];
        Message::Segment { flags: SegmentFlags(2), transfer: 0, extensions: &[], data }.emit(&mut bytes);
        let mut peer = TcpStream::connect(at).expect("a node");
        peer.write_all(&bytes).expect("a stream");
        peer.shutdown(std::net::Shutdown::Write).expect("a socket");
        let _ = peer.read_to_end(&mut Vec::new());
    }
    let counters = node.end();
    // A part of 1.1 kB counts 512 B in addition.
    assert!((58..65).contains(&counters.parts) && counters.stored.1 <= 100_000, "{counters:?}");
    assert_eq!(counters.node.refused, 200 - counters.parts, "{counters:?}");
}

/// Two nodes on TCPCL that wait for the disk, and an application that measures.
///
/// `cargo test --release -p bentpipe-bundles --test integration -- --ignored --nocapture throughput`
#[test]
#[ignore = "a measurement of a minute"]
#[allow(clippy::print_stdout, reason = "figures are its purpose")]
fn throughput_of_long_and_short_bundles() {
    for (size, window, seconds) in [(1_000_000, 20, 5), (1000, 1000, 5)] {
        let mut rates = Vec::new();
        for _ in 0..5 {
            let folder = Folder::new();
            let (mut one, mut two, apps) = pair(&folder.file(""), "tcpcl", "");
            (one.sync, two.sync) = (true, true);
            let (one, two) = (Running::start(one), Running::start(two));
            let load = Load {
                node: apps.to_string().into(),
                from: Eid::ipn(1, 60),
                to: Eid::ipn(2, 9),
                size,
                control: Control::Window(window),
                count: None,
                duration: Some(Span::from_secs(seconds)),
                wait: Span::from_secs(20),
                lifetime: Span::from_secs(100),
            };
            let figures = perf(&load, &AtomicBool::new(false)).expect("a session");
            one.end();
            two.end();
            assert_eq!(figures.sent, figures.delivered);
            rates.push((figures.goodput() / 1e6, figures.bundle_rate()));
        }
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        println!("{size} B: median {:.0} Mbit/s, {:.0} bundles/s of {rates:?}", rates[2].0, rates[2].1);
    }
}

/// `cargo test --release -p bentpipe-bundles --test integration -- --ignored --nocapture reopened`
#[test]
#[ignore = "a measurement of half a minute"]
#[allow(clippy::print_stdout, reason = "figures are its purpose")]
fn a_million_bundles_are_reopened() {
    let folder = Folder::new();
    let (mut one, _, apps) = pair(&folder.file(""), "tcpcl", "");
    one.storage = bentpipe_units::Bytes::new(1 << 30);
    let node = Running::start(one.clone());
    let mut client = Client::connect(&apps.to_string().into(), &Eid::ipn(1, 5)).expect("a node");
    let letter = Letter { to: Eid::ipn(2, 6), lifetime: 600_000, hops: 10, flags: BundleFlags::default() };
    let start = std::time::Instant::now();
    for n in 0..1_000_000_u32 {
        client.send(&letter, [[1; 30].as_slice(), &n.to_be_bytes(), &[1; 66]].concat()).expect("a session");
        while client.pending() > 2000 {
            client.turn(Span::from_millis(50)).expect("a session");
        }
    }
    while client.pending() > 0 {
        client.turn(Span::from_millis(50)).expect("a session");
    }
    println!("accepted in {:.2} s", start.elapsed().as_secs_f64());
    client.close();
    assert_eq!(node.end().stored.0, 1_000_000);
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let daemon = Daemon::open(one.clone()).expect("a node");
        println!("reopened in {:.2} s", start.elapsed().as_secs_f64());
        assert_eq!(daemon.counters().stored.0, 1_000_000);
    }
}
