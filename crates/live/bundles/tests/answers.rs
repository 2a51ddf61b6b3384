//! Bytes that a node sends of its own accord, over the bytes that caused them.
//!
//! The table of `docs/reference/dtn.md` has these figures; those of LTP and CFDP are in the tests of `bentpipe-dtn`.
#![allow(clippy::disallowed_methods, reason = "nodes run in real time")]
#![allow(clippy::print_stdout, reason = "the table has the figures")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bentpipe_bundles::node::{Counters, Daemon, NodeFile};
use bentpipe_testkit::{Folder, free_port};
use bentpipe_wire::dtn::bundle::{
    Block, BlockFlags, Bundle, BundleFlags, Content, Payload, Primary, Timestamp,
};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::tcpcl::{Message, SegmentFlags, SessionInit};

/// Time without a datagram or a byte after which no more is to come.
const SILENCE: Duration = Duration::from_millis(500);

/// Node 1 in a thread. All bundles leave to a socket of the test, which is node 2.
struct Bench {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Counters>,
    udp: SocketAddr,
    tcpcl: SocketAddr,
    two: UdpSocket,
    guest: UdpSocket,
    _folder: Folder,
}

impl Bench {
    fn new() -> Bench {
        let folder = Folder::new();
        let [udp, tcpcl] = [0; 2].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let [two, guest] = ["127.0.0.9:0", "127.0.0.8:0"].map(|at| UdpSocket::bind(at).expect("loopback"));
        two.set_read_timeout(Some(SILENCE)).expect("a socket");
        let there = two.local_addr().expect("an address");
        let text = format!(
            "eid = \"ipn:1.0\"\nstore = {:?}\nsync = false\nreports = true\n\
             [[listen]]\nlayer = \"udp\"\nat = \"{udp}\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"{tcpcl}\"\n\
             [[neighbour]]\nnode = 2\nlayer = \"udp\"\nat = \"{there}\"\nrate = \"100 Mbit/s\"\n[routes]\ndefault = 2\n",
            folder.file("store")
        );
        let mut daemon = Daemon::open(NodeFile::parse(&text).expect("a good file")).expect("a node");
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            daemon.run(&asked, &mut |_| {}).expect("a store");
            daemon.counters()
        });
        Bench { stop, thread, udp, tcpcl, two, guest, _folder: folder }
    }

    /// Sends bundles of the guest and returns the bytes that reach node 2 for each byte of them.
    fn answers(&self, bundles: impl Iterator<Item = Vec<u8>>) -> f64 {
        let two = self.two.try_clone().expect("a socket");
        let reader = std::thread::spawn(move || {
            let (mut buffer, mut went) = (vec![0; 1 << 16], 0);
            while let Ok(len) = two.recv(&mut buffer) {
                went += len;
            }
            went
        });
        let mut came = 0;
        for (n, bundle) in bundles.enumerate() {
            came += self.guest.send_to(&bundle, self.udp).expect("a socket");
            if n % 50 == 49 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        reader.join().expect("no panic") as f64 / came as f64
    }

    fn end(self) -> Counters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Returns the shortest bundle of an endpoint at node 2: without CRC, and with a byte of payload.
fn shortest(to: Eid, sequence: u64, flags: BundleFlags) -> Bundle {
    let stamp = Timestamp { time: 849_000_000_000, sequence };
    let mut primary = Primary::new(Eid::ipn(2, 5), to, stamp, 1_000_000_000_000);
    (primary.flags, primary.report_to, primary.crc) = (flags, Eid::ipn(2, 6), CrcKind::None);
    Bundle { primary, blocks: vec![], payload: Payload { crc: CrcKind::None, ..Payload::new(vec![7]) } }
}

#[test]
fn reports_have_three_times_the_bytes_of_bundles_and_are_few() {
    let flags = [BundleFlags::ANY_REPORT, BundleFlags::REPORT_TIME];
    let flags = flags.into_iter().fold(BundleFlags::default(), BundleFlags::with);
    let asking = |to: Eid, sequence: u64| {
        let mut sent = shortest(to, sequence, flags);
        let content = Content::Other { code: 200, data: [0].into() };
        sent.blocks.push(Block { flags: BlockFlags::REPORT, crc: CrcKind::None, number: 2, content });
        sent.to_vec()
    };
    let bench = Bench::new();
    let delivered = bench.answers((0..200).map(|n| asking(Eid::ipn(1, 9), n)));
    println!("reports on bundles that are delivered: {delivered:.2}");
    let flood = bench.answers((1000..6000).map(|n| asking(Eid::ipn(1, 9), n)));
    println!("reports in a flood: {flood:.2}");
    let counters = bench.end();
    assert!((1.0..=3.0).contains(&delivered), "{delivered:.2} {counters:?}");
    assert!(flood < 1.5 && counters.node.reports_left_out > 10_000, "{flood:.2} {counters:?}");
}

#[test]
fn an_echo_is_as_long_as_what_it_answers() {
    let bench = Bench::new();
    let echoed =
        bench.answers((0..500).map(|n| shortest(Eid::ipn(1, 7), n, BundleFlags::default()).to_vec()));
    println!("echo: {echoed:.2}");
    let counters = bench.end();
    assert_eq!(counters.echoed, 500, "{counters:?}");
    assert!((1.0..2.0).contains(&echoed), "{echoed:.2}");
}

/// Returns the bytes that answer those of a peer on TCPCL.
fn tcpcl_answers(at: SocketAddr, messages: &[Message<'_>]) -> f64 {
    let mut stream = TcpStream::connect(at).expect("a node");
    stream.set_read_timeout(Some(SILENCE)).expect("a socket");
    let mut hello = b"dtn!\x04\x00".to_vec();
    let init = SessionInit {
        keepalive: 0,
        segment_mru: 1 << 20,
        transfer_mru: 1 << 20,
        node: "ipn:99.0",
        extensions: &[],
    };
    Message::Init(init).emit(&mut hello);
    stream.write_all(&hello).expect("a node");
    let (mut buffer, mut sent) = (vec![0; 1 << 16], Vec::new());
    while stream.read(&mut buffer).is_ok_and(|len| len > 0) {}
    messages.iter().for_each(|message| message.emit(&mut sent));
    let mut reading = stream.try_clone().expect("a socket");
    let reader = std::thread::spawn(move || {
        let mut went = 0;
        while let Ok(len) = reading.read(&mut buffer)
            && len > 0
        {
            went += len;
        }
        went
    });
    // The node ends the session of one that keeps to no rule.
    let _ = stream.write_all(&sent);
    reader.join().expect("no panic") as f64 / sent.len() as f64
}

#[test]
fn a_peer_on_tcpcl_has_no_more_bytes_than_it_sends() {
    let segment = |flags: u8, transfer: u64, data: &'static [u8]| Message::Segment {
        flags: SegmentFlags(flags),
        transfer,
        extensions: &[],
        data,
    };
    let bench = Bench::new();
    let bytes: Vec<_> =
        [segment(2, 0, &[7])].into_iter().chain((0..5000).map(|_| segment(0, 0, &[7]))).collect();
    let empty: Vec<_> = (0..5000).map(|n| segment(3, n, &[])).collect();
    let unexpected: Vec<_> = (0..100).map(|n| segment(0, n, &[7])).collect();
    let refusals: Vec<_> = (0..5000).map(|transfer| Message::Refuse { reason: 1, transfer }).collect();
    for (what, messages) in [
        ("segments of a byte", bytes),
        ("empty transfers", empty),
        ("segments of no transfer", unexpected),
        ("refusals of nothing", refusals),
    ] {
        let ratio = tcpcl_answers(bench.tcpcl, &messages);
        println!("{what}: {ratio:.2}");
        assert!(ratio <= 1.0, "{what}: {ratio:.2}");
    }
    bench.end();
}
