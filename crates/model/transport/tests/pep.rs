//! Splitting proxy alone: its segments at refusals, half-closed connections, floods and unexpected packets.

use std::net::SocketAddr;

use bentpipe_net::testing::Harness;
use bentpipe_net::{Body, Packet};
use bentpipe_transport::tcp::{Config, HalfOpen, Pep, PepConfig, PepState};
use bentpipe_units::Bytes;
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Options, Repr, Segment, SeqNumber};

const SECOND: u64 = 1_000_000_000;
const CLIENT: &str = "10.0.0.1:1000";
const SERVER: &str = "10.0.1.1:80";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn pep(edit: impl FnOnce(&mut PepConfig)) -> Harness<Pep> {
    let side = Config { timestamps: false, send_buffer: Bytes::new(20_000), ..Config::default() };
    let mut config = PepConfig {
        satellite: side.clone(),
        ground: side,
        answers_at_once: true,
        connections: 100,
        satellite_mtu: None,
        ground_mtu: None,
        half_open: None,
        idle: None,
        memory: None,
        behind_satellite: [address(CLIENT).ip()].into(),
        own: vec![address("10.0.9.9:1").ip()],
        state: PepState::On,
    };
    edit(&mut config);
    Harness::new(Pep::new(config).expect("a possible configuration"))
}

/// Segment with `len` bytes of data.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seg {
    src: SocketAddr,
    dst: SocketAddr,
    flags: Flags,
    seq: u32,
    ack: Option<u32>,
    len: usize,
}

impl Seg {
    fn new((src, dst): (&str, &str), flags: Flags, seq: u32, ack: Option<u32>) -> Seg {
        let flags = if ack.is_some() { flags | Flags::ACK } else { flags };
        Seg { src: address(src), dst: address(dst), flags, seq, ack, len: 0 }
    }

    fn with(mut self, len: usize) -> Seg {
        self.len = len;
        self
    }

    fn bytes(&self, fill: u8) -> Vec<u8> {
        let repr = Repr {
            src_port: self.src.port(),
            dst_port: self.dst.port(),
            seq: SeqNumber(self.seq),
            ack: self.ack.map(SeqNumber),
            flags: self.flags,
            window: 60_000,
            urgent: None,
            options: Options::NONE,
        };
        let mut upper = vec![0; repr.buffer_len()];
        repr.emit(&mut upper);
        upper.resize(upper.len() + self.len, fill);
        let pseudo = Pseudo::new(self.src.ip(), self.dst.ip(), Protocol::TCP);
        Segment::new_unchecked(&mut upper[..]).fill_checksum(&pseudo);
        let header = ip::Repr::new(self.src.ip(), self.dst.ip(), Protocol::TCP, upper.len());
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        bytes.extend(upper);
        bytes
    }

    fn read(packet: &Packet) -> Seg {
        let elided = if let Body::Zeros(count) = packet.body() { *count as usize } else { 0 };
        let bytes = if elided > 0 { packet.header().to_vec() } else { packet.to_vec() };
        let ip = ip::Packet::new_elided(&bytes[..], elided).expect("IP");
        let upper = ip.upper().expect("a protocol");
        let segment = Segment::new_elided(upper.bytes, upper.elided).expect("TCP");
        segment.verify_checksum(&upper.pseudo).expect("a right checksum");
        Seg {
            src: SocketAddr::new(ip.src(), segment.src_port()),
            dst: SocketAddr::new(ip.dst(), segment.dst_port()),
            flags: segment.flags(),
            seq: segment.seq().0,
            ack: segment.ack().map(|ack| ack.0),
            len: segment.payload_len(),
        }
    }
}

/// Returns the packet of a segment without data, with a timestamp and the echo of another.
fn stamped(segment: Seg, stamps: (u32, u32)) -> Packet {
    let repr = Repr {
        src_port: segment.src.port(),
        dst_port: segment.dst.port(),
        seq: SeqNumber(segment.seq),
        ack: segment.ack.map(SeqNumber),
        flags: segment.flags,
        window: 60_000,
        urgent: None,
        options: Options { timestamps: Some(stamps), ..Options::NONE },
    };
    let mut upper = vec![0; repr.buffer_len()];
    repr.emit(&mut upper);
    let pseudo = Pseudo::new(segment.src.ip(), segment.dst.ip(), Protocol::TCP);
    Segment::new_unchecked(&mut upper[..]).fill_checksum(&pseudo);
    let header = ip::Repr::new(segment.src.ip(), segment.dst.ip(), Protocol::TCP, upper.len());
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(upper);
    Packet::from_bytes(&bytes)
}

/// Returns the timestamps of a segment without data.
fn stamps(packet: &Packet) -> Option<(u32, u32)> {
    let bytes = packet.to_vec();
    let segment = Segment::new_checked(&bytes[20..]).expect("TCP");
    Repr::parse(&segment).expect("options").options.timestamps
}

#[test]
fn timestamps_of_a_peer_start_anywhere() {
    let mut pep = pep(|config| config.ground.timestamps = true);
    let out = send(&mut pep, 0, Seg::new(UP, Flags::SYN, 100, None));
    let iss = out.iter().find(|seg| seg.dst == address(SERVER)).expect("a SYN").seq;
    for (at, theirs) in [(5, 0xf000_0000), (6, 0xf000_0001)] {
        let flags = if at == 5 { Flags::SYN } else { Flags::FIN };
        pep.out.clear();
        pep.receive(at, 0, stamped(Seg::new(DOWN, flags, 495 + at as u32, Some(iss + 1)), (theirs, 0)));
        let acks: Vec<_> =
            pep.out.iter().filter(|(_, _, packet)| Seg::read(packet).dst == address(SERVER)).collect();
        let echoed: Vec<_> =
            acks.iter().map(|(_, _, packet)| stamps(packet).expect("timestamps").1).collect();
        assert_eq!(echoed, [theirs]);
    }
}

/// Hands a segment in and returns the answers.
fn send(pep: &mut Harness<Pep>, at: u64, segment: Seg) -> Vec<Seg> {
    pep.out.clear();
    pep.receive(at, 0, Packet::from_bytes(&segment.bytes(0)));
    pep.out.iter().map(|(_, _, packet)| Seg::read(packet)).collect()
}

const UP: (&str, &str) = (CLIENT, SERVER);
const DOWN: (&str, &str) = (SERVER, CLIENT);

/// Proxy with an established connection, and its initial sequence numbers towards client and server.
fn established(edit: impl FnOnce(&mut PepConfig)) -> (Harness<Pep>, u32, u32) {
    let mut pep = pep(edit);
    let out = send(&mut pep, 0, Seg::new(UP, Flags::SYN, 100, None));
    let to_server = out.iter().find(|seg| seg.dst == address(SERVER)).expect("a SYN").seq;
    let mut out = [out, send(&mut pep, 1, Seg::new(DOWN, Flags::SYN, 500, Some(to_server + 1)))].concat();
    out.retain(|seg| seg.dst == address(CLIENT));
    let to_client = out[0].seq;
    send(&mut pep, 2, Seg::new(UP, Flags::NONE, 101, Some(to_client + 1)));
    (pep, to_client + 1, to_server + 1)
}

#[test]
fn a_client_is_answered_at_once_or_after_the_server() {
    let mut at_once = pep(|_| {});
    let out = send(&mut at_once, 0, Seg::new(UP, Flags::SYN, 100, None));
    let ways: Vec<_> = out.iter().map(|seg| (seg.src, seg.dst, seg.flags, seg.ack)).collect();
    let (client, server) = (address(CLIENT), address(SERVER));
    assert_eq!(
        ways,
        [(client, server, Flags::SYN, None), (server, client, Flags::SYN | Flags::ACK, Some(101))]
    );
    let mut after = pep(|config| config.answers_at_once = false);
    let out = send(&mut after, 0, Seg::new(UP, Flags::SYN, 100, None));
    assert_eq!((out.len(), out[0].src), (1, client));
    // The client's repeated SYN is not answered either.
    assert_eq!(send(&mut after, 5, Seg::new(UP, Flags::SYN, 100, None)), []);
    let out = send(&mut after, 9, Seg::new(DOWN, Flags::SYN, 500, Some(out[0].seq + 1)));
    let ways: Vec<_> = out.iter().map(|seg| (seg.dst, seg.flags)).collect();
    assert!(
        ways.contains(&(client, Flags::SYN | Flags::ACK)) && ways.contains(&(server, Flags::ACK)),
        "{ways:?}"
    );
}

#[test]
fn a_refusal_is_passed_on() {
    for at_once in [true, false] {
        let mut pep = pep(|config| config.answers_at_once = at_once);
        let out = send(&mut pep, 0, Seg::new(UP, Flags::SYN, 100, None));
        let iss = out.iter().find(|seg| seg.dst == address(SERVER)).expect("a SYN").seq;
        let out = send(&mut pep, 5, Seg::new(DOWN, Flags::RST, 0, Some(iss + 1)));
        assert_eq!((out.len(), out[0].dst, out[0].ack), (1, address(CLIENT), Some(101)), "{out:?}");
        assert!(out[0].flags.contains(Flags::RST));
        assert_eq!(pep.element.connections(), 0);
    }
}

#[test]
fn a_half_closed_connection_delivers_the_other_direction() {
    let (mut pep, client, server) = established(|_| {});
    let out = send(&mut pep, 10, Seg::new(UP, Flags::FIN, 101, Some(client)).with(300));
    let request = out.iter().find(|seg| seg.dst == address(SERVER)).expect("the request");
    assert_eq!((request.seq, request.len, request.flags.contains(Flags::FIN)), (server, 300, true));
    send(&mut pep, 20, Seg::new(DOWN, Flags::NONE, 501, Some(server + 301)));
    for (n, at) in [(0, 30), (1, 40)] {
        let out =
            send(&mut pep, at, Seg::new(DOWN, Flags::NONE, 501 + n * 500, Some(server + 301)).with(500));
        let data = out.iter().find(|seg| seg.dst == address(CLIENT) && seg.len > 0).expect("the answer");
        assert_eq!((data.seq, data.len), (client + n * 500, 500));
        send(&mut pep, at + 1, Seg::new(UP, Flags::NONE, 402, Some(client + (n + 1) * 500)));
    }
    let out = send(&mut pep, 50, Seg::new(DOWN, Flags::FIN, 1501, Some(server + 301)));
    let fin = out.iter().find(|seg| seg.dst == address(CLIENT)).expect("the end");
    assert!(fin.flags.contains(Flags::FIN) && !fin.flags.contains(Flags::RST));
    send(&mut pep, 60, Seg::new(UP, Flags::NONE, 402, Some(client + 1001)));
    assert_eq!((pep.element.connections(), pep.element.held()), (1, 0));
    // Its port numbers may be used again during TIME-WAIT.
    let out = send(&mut pep, SECOND, Seg::new(UP, Flags::SYN, 90_000, None));
    assert_eq!((out.len(), pep.element.connections()), (2, 1));
}

#[test]
fn a_reset_of_either_end_reaches_the_other() {
    for is_clients in [true, false] {
        let (mut pep, client, server) = established(|_| {});
        let reset = match is_clients {
            true => Seg::new(UP, Flags::RST, 101, Some(client)),
            false => Seg::new(DOWN, Flags::RST, 501, Some(server)),
        };
        let out = send(&mut pep, 10, reset);
        assert_eq!((out.len(), out[0].dst), (1, reset.dst));
        assert!(out[0].flags.contains(Flags::RST));
        assert_eq!(out[0].seq, if is_clients { server } else { client });
        assert_eq!(pep.element.connections(), 0);
    }
    // A reset with another number is a stranger's (RFC 5961).
    let (mut pep, client, _) = established(|_| {});
    let out = send(&mut pep, 10, Seg::new(UP, Flags::RST, 111, Some(client)));
    assert_eq!((out.len(), out[0].dst, pep.element.connections()), (1, address(CLIENT), 1));
}

#[test]
fn a_reset_after_the_end_of_a_direction_reaches_the_other_too() {
    // The client has sent all and gives up: the server's data has no place to go.
    let (mut pep, client, server) = established(|_| {});
    send(&mut pep, 10, Seg::new(UP, Flags::FIN, 101, Some(client)));
    send(&mut pep, 20, Seg::new(DOWN, Flags::NONE, 501, Some(server + 1)).with(700));
    assert_eq!(pep.element.held(), 700);
    let out = send(&mut pep, 30, Seg::new(UP, Flags::RST, 102, Some(client)));
    assert!(out.iter().any(|seg| seg.dst == address(SERVER) && seg.flags.contains(Flags::RST)), "{out:?}");
    assert_eq!(pep.element.connections(), 0);
}

#[test]
fn a_flood_of_connections_takes_bounded_memory_and_the_rest_passes() {
    let mut pep = pep(|config| config.connections = 50);
    for n in 0..20_000_u32 {
        let client = format!("10.0.0.1:{}", 1 + n);
        let out = send(&mut pep, u64::from(n), Seg::new((&client, SERVER), Flags::SYN, 100, None));
        assert_eq!(out.len(), if n < 50 { 2 } else { 1 });
        assert_eq!(out.last().expect("a SYN").seq == 100, n >= 50, "{out:?}");
    }
    assert_eq!(pep.element.connections(), 50);
    // Neither end answers: all time out.
    pep.run_until(600 * SECOND);
    assert_eq!(pep.element.connections(), 0);
}

#[test]
fn packets_that_are_not_of_a_split_connection_pass_unchanged() {
    let mut pep = pep(|_| {});
    let alien = ("10.0.5.5:7", "10.0.6.6:7");
    let others = [
        Seg::new(UP, Flags::NONE, 77, Some(88)).with(40),
        Seg::new(UP, Flags::RST, 77, None),
        Seg::new(DOWN, Flags::SYN, 77, Some(88)),
        Seg::new(alien, Flags::SYN, 1, None),
        Seg::new((CLIENT, "10.0.9.9:1"), Flags::SYN, 1, None),
    ];
    for segment in others {
        assert_eq!(send(&mut pep, 0, segment), [segment]);
    }
    let mut fragment = Seg::new(UP, Flags::SYN, 1, None).bytes(0);
    fragment[6] = 0x20;
    for bytes in [vec![0x45], vec![0; 40], Vec::new(), fragment] {
        pep.out.clear();
        pep.receive(0, 0, Packet::from_bytes(&bytes));
        assert_eq!(pep.out[0].2.to_vec(), bytes);
    }
    assert_eq!(pep.element.connections(), 0);
}

/// Hands a segment with content in, and returns the data segments to the server: their numbers and bytes.
fn send_content(pep: &mut Harness<Pep>, at: u64, segment: Seg, content: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut bytes = segment.with(0).bytes(0);
    let header_len = bytes.len();
    bytes.extend(content);
    let total = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    let header = ip::Repr::new(segment.src.ip(), segment.dst.ip(), Protocol::TCP, bytes.len() - 20);
    header.emit(&mut bytes[..20]);
    let pseudo = Pseudo::new(segment.src.ip(), segment.dst.ip(), Protocol::TCP);
    Segment::new_unchecked(&mut bytes[20..]).fill_checksum(&pseudo);
    pep.out.clear();
    pep.receive(at, 0, Packet::from_bytes(&bytes));
    let packets = pep.out.iter().map(|(_, _, packet)| packet);
    let data = packets.map(|packet| (Seg::read(packet), packet.to_vec()));
    let data = data.filter(|(seg, _)| seg.len > 0 && seg.dst == segment.dst);
    data.map(|(seg, bytes)| (seg.seq, bytes[header_len..].to_vec())).collect()
}

#[test]
fn the_next_bytes_have_a_place_when_memory_is_full() {
    let (mut pep, client, server) = established(|config| {
        config.ground.nagle = false;
        config.memory = Some(Bytes::new(1));
    });
    let up = |seq| Seg::new(UP, Flags::NONE, seq, Some(client));
    // Bytes behind a gap take all of the memory.
    assert_eq!(send_content(&mut pep, 10, up(101 + 60_000), &[7; 1000]), []);
    assert!((1000..2000).contains(&pep.element.content()), "no memory for the gap");
    assert_eq!(send_content(&mut pep, 11, up(101), b"hello"), [(server, b"hello".to_vec())]);
    assert_eq!(pep.element.totals().no_memory, 0);
}

#[test]
fn content_passes_in_order_and_is_sent_again() {
    let (mut pep, client, server) = established(|config| config.ground.nagle = false);
    let up = |seq| Seg::new(UP, Flags::NONE, seq, Some(client));
    assert_eq!(send_content(&mut pep, 10, up(106), b"world"), []);
    assert_eq!(send_content(&mut pep, 11, up(101), b"hello"), [(server, b"helloworld".to_vec())]);
    // What has been sent on cannot be replaced, neither by a repetition nor by an overlapping segment.
    assert_eq!(send_content(&mut pep, 12, up(101), b"HELLOWORLD"), []);
    assert_eq!(send_content(&mut pep, 13, up(109), b"LD, again"), [(server + 10, b", again".to_vec())]);
    // The server has nothing of it: the timer sends the oldest again.
    pep.out.clear();
    pep.run_until(4 * SECOND);
    let packets = pep.out.iter().map(|(_, _, packet)| packet);
    let again = packets.filter(|packet| Seg::read(packet).len > 0).map(Packet::to_vec).next();
    let again = again.expect("a retransmission");
    assert!(again.ends_with(b"helloworld") || again.ends_with(b"helloworld, again"), "{again:?}");
}

#[test]
fn content_of_a_segment_that_is_not_accepted_is_dropped() {
    let (mut pep, client, server) = established(|config| config.ground.nagle = false);
    let up = |seq, ack| Seg::new(UP, Flags::NONE, seq, Some(ack));
    assert_eq!(send_content(&mut pep, 10, up(106, client), b"world"), []);
    // It acknowledges what was never sent.
    assert_eq!(send_content(&mut pep, 11, up(106, client + 99_999), b"WORLD"), []);
    assert_eq!(send_content(&mut pep, 12, up(101, client), b"hello"), [(server, b"helloworld".to_vec())]);
}

#[test]
fn content_behind_elided_data_keeps_its_place() {
    let (mut pep, client, server) = established(|config| config.ground.nagle = false);
    let up = |seq, ack| Seg::new(UP, Flags::NONE, seq, Some(ack));
    for n in 0..40 {
        let data = up(101 + 1000 * n, client).with(1000);
        send(&mut pep, 10 + u64::from(n), data);
        let acknowledged = Seg::new(DOWN, Flags::NONE, 501, Some(server + 1000 * (n + 1)));
        send(&mut pep, 10 + u64::from(n), acknowledged);
    }
    let up = |seq| Seg::new(UP, Flags::NONE, seq, Some(client));
    assert_eq!(send_content(&mut pep, 60, up(40_104), b"abc"), []);
    assert_eq!(send_content(&mut pep, 61, up(40_101), b"xyz"), [(server + 40_000, b"xyzabc".to_vec())]);
}

#[test]
fn zeros_between_content_stay_zeros() {
    let (mut pep, client, server) = established(|config| config.ground.nagle = false);
    let up = |seq| Seg::new(UP, Flags::NONE, seq, Some(client));
    assert_eq!(send_content(&mut pep, 10, up(104), b"abc"), []);
    assert_eq!(send_content(&mut pep, 11, up(101), &[0; 3]), [(server, b"\0\0\0abc".to_vec())]);
}

#[test]
fn a_stalled_receiver_stops_its_sender() {
    let (mut pep, client, server) = established(|config| {
        config.ground.receive_buffer = bentpipe_transport::tcp::ReceiveBuffer::Exact(Bytes::new(10_000));
    });
    // The client never acknowledges: 20000 bytes wait to be sent, 10000 to be read.
    let mut sent = 0;
    for n in 0..100 {
        let data = Seg::new(DOWN, Flags::NONE, 501 + sent, Some(server)).with(1000);
        send(&mut pep, 10 + n, data);
        sent = (sent + 1000).min(30_000);
        assert!(pep.element.held() <= 30_000);
    }
    assert_eq!((pep.element.held(), client), (30_000, client));
    // In the end it gives up, and resets the server.
    pep.out.clear();
    pep.run_until(3000 * SECOND);
    let last = Seg::read(&pep.out.last().expect("a reset").2);
    assert!(last.flags.contains(Flags::RST), "{last:?}");
    assert_eq!(pep.element.connections(), 0);
}

/// Proxy in front of [`SERVER`] with a SYN cache, and 4 half-open connections at most.
fn cached(entries: usize) -> Harness<Pep> {
    pep(|config| {
        config.behind_satellite = [address(SERVER).ip()].into();
        config.half_open = Some(HalfOpen { connections: 4, cached: entries });
        config.ground.nagle = false;
    })
}

/// Opens a connection of a client over the SYN cache, and returns what the proxy sends for the ACK with data.
fn open_cached(pep: &mut Harness<Pep>, at: u64, client: &str) -> Vec<Seg> {
    let ends = (client, SERVER);
    let out = send(pep, at, Seg::new(ends, Flags::SYN, 700, None));
    let answers: Vec<_> = out.iter().map(|seg| (seg.src, seg.flags, seg.ack)).collect();
    assert_eq!(answers, [(address(SERVER), Flags::SYN | Flags::ACK, Some(701))], "the server is not called");
    send(pep, at + 1, Seg::new(ends, Flags::NONE, 701, Some(out[0].seq + 1)).with(5))
}

#[test]
fn a_flood_of_syns_from_forged_addresses_stops_no_client() {
    let mut pep = cached(1000);
    for n in 0..20_000_u32 {
        let client = format!("10.7.{}.{}:{}", n / 250 % 250, 1 + n % 250, 1000 + n / 60_000);
        let out = send(&mut pep, u64::from(n), Seg::new((&client, SERVER), Flags::SYN, 100, None));
        assert_eq!(out.len(), if n < 4 { 2 } else { 1 }, "{out:?}");
    }
    let totals = pep.element.totals();
    assert_eq!((totals.present, totals.cached, totals.half_open), (4, 19_996, 1004));
    assert_eq!(totals.displaced, 18_996);
    // A client has its connection, and the server gets the data.
    let out = open_cached(&mut pep, 30_000, "10.9.0.1:1000");
    let syn = out.iter().find(|seg| seg.dst == address(SERVER)).expect("a SYN");
    assert_eq!((syn.flags, syn.len), (Flags::SYN, 0));
    let down = (SERVER, "10.9.0.1:1000");
    let out = send(&mut pep, 30_002, Seg::new(down, Flags::SYN, 500, Some(syn.seq + 1)));
    assert!(out.iter().any(|seg| seg.dst == address(SERVER) && seg.len == 5), "{out:?}");
    // What nobody acknowledged is forgotten.
    pep.run_until(20 * SECOND);
    assert_eq!((pep.element.totals().half_open, pep.element.totals().present), (4, 5));
    pep.run_until(600 * SECOND);
    assert_eq!(pep.element.totals().half_open, 0);
}

#[test]
fn a_server_that_is_to_answer_first_does_in_a_flood_too() {
    let mut pep = pep(|config| {
        config.behind_satellite = [address(SERVER).ip()].into();
        config.half_open = Some(HalfOpen { connections: 4, cached: 50 });
        config.answers_at_once = false;
    });
    // A host that calls a dead address takes half of the places, and what it opens beyond passes as it is.
    for port in 1..10 {
        let syn = Seg::new((&format!("10.7.0.1:{port}"), SERVER), Flags::SYN, 100, None);
        let out = send(&mut pep, 0, syn);
        assert_eq!(out == [syn], port > 2, "{out:?}");
        assert!(out.iter().all(|seg| seg.dst == address(SERVER)), "{out:?}");
    }
    // Others find the rest, and beyond it the server's own answer.
    let [split, passed] = ["10.9.0.1:1000", "10.9.0.2:1000"].map(|client| {
        let out = send(&mut pep, 1, Seg::new((client, SERVER), Flags::SYN, 700, None));
        assert_eq!(out.len(), 1, "{out:?}");
        let answer = Seg::new((SERVER, client), Flags::SYN, 500, Some(out[0].seq + 1));
        (answer, send(&mut pep, 2, answer))
    });
    assert!(split.1.iter().any(|seg| seg.flags == Flags::SYN | Flags::ACK && seg.seq != 500), "{split:?}");
    assert!(passed.1.iter().any(|seg| seg.flags == Flags::SYN | Flags::ACK), "{passed:?}");
    let fifth = Seg::new(("10.9.0.3:1000", SERVER), Flags::SYN, 700, None);
    assert_eq!(send(&mut pep, 3, fifth), [fifth]);
    let answer = Seg::new((SERVER, "10.9.0.3:1000"), Flags::SYN, 500, Some(701));
    assert_eq!(send(&mut pep, 4, answer), [answer], "the server's answer is the client's");
    let totals = pep.element.totals();
    assert_eq!((totals.cached, totals.unsplit, totals.half_open), (0, 8, 4));
    // Places are free again when nobody answers.
    pep.run_until(600 * SECOND);
    assert_eq!(pep.element.totals().half_open, 0);
}

#[test]
fn a_host_with_many_half_open_connections_displaces_its_own() {
    let mut pep = cached(50);
    for port in 1..5 {
        send(&mut pep, 0, Seg::new((&format!("10.7.0.1:{port}"), SERVER), Flags::SYN, 100, None));
    }
    let patient = ("10.9.0.1:1000", SERVER);
    let answer = send(&mut pep, 1, Seg::new(patient, Flags::SYN, 700, None));
    for port in 1..5001 {
        send(&mut pep, 2, Seg::new((&format!("10.7.0.2:{port}"), SERVER), Flags::SYN, 100, None));
    }
    // A repeated SYN has the same answer, and its ACK opens the connection.
    let again = send(&mut pep, 3, Seg::new(patient, Flags::SYN, 700, None));
    assert_eq!(again[0].seq, answer[0].seq);
    let out = send(&mut pep, 4, Seg::new(patient, Flags::NONE, 701, Some(answer[0].seq + 1)));
    assert!(out.iter().any(|seg| seg.dst == address(SERVER) && seg.flags == Flags::SYN), "{out:?}");
}

#[test]
fn segments_that_do_not_acknowledge_an_answer_open_nothing() {
    let mut pep = cached(50);
    for port in 1..5 {
        send(&mut pep, 0, Seg::new((&format!("10.7.0.1:{port}"), SERVER), Flags::SYN, 100, None));
    }
    let ends = ("10.9.0.1:1000", SERVER);
    let iss = send(&mut pep, 1, Seg::new(ends, Flags::SYN, 700, None))[0].seq;
    let odd = [
        Seg::new(ends, Flags::NONE, 701, Some(iss)),
        Seg::new(ends, Flags::NONE, 701, Some(iss + 2)).with(1000),
        Seg::new(ends, Flags::NONE, 701 + 70_000, Some(iss + 1)).with(1),
        Seg::new(ends, Flags::NONE, 600, Some(iss + 1)),
        Seg::new(ends, Flags::FIN, 701, None),
        Seg::new(ends, Flags::SYN, 701, Some(iss + 1)),
        Seg::new(ends, Flags::RST, 999, None),
    ];
    for segment in odd {
        assert_eq!(send(&mut pep, 2, segment), [], "{segment:?}");
    }
    assert_eq!((pep.element.totals().half_open, pep.element.content()), (5, 0));
    // The client's reset ends it: its ACK, delayed, is a segment of no connection.
    send(&mut pep, 3, Seg::new(ends, Flags::RST, 701, None));
    assert_eq!(pep.element.totals().half_open, 4);
    let late = Seg::new(ends, Flags::NONE, 701, Some(iss + 1));
    assert_eq!(send(&mut pep, 4, late), [late]);
}

#[test]
fn a_client_that_finds_the_limit_after_its_handshake_is_reset() {
    let mut pep = pep(|config| {
        config.behind_satellite = [address(SERVER).ip()].into();
        config.half_open = Some(HalfOpen { connections: 0, cached: 50 });
        config.connections = 1;
    });
    let iss = send(&mut pep, 0, Seg::new(("10.9.0.1:1", SERVER), Flags::SYN, 700, None))[0].seq;
    open_cached(&mut pep, 1, "10.9.0.2:1");
    let out = send(&mut pep, 3, Seg::new(("10.9.0.1:1", SERVER), Flags::NONE, 701, Some(iss + 1)));
    assert_eq!(out.iter().map(|seg| (seg.flags, seg.seq)).collect::<Vec<_>>(), [(Flags::RST, iss + 1)]);
    assert_eq!(pep.element.totals().over_limit, 1);
}

#[test]
fn many_bytes_behind_gaps_take_bounded_memory() {
    let (mut pep, client, _) = established(|_| {});
    for n in 0..5000 {
        let odd = Seg::new(UP, Flags::NONE, 103 + 2 * n, Some(client));
        send_content(&mut pep, 10, odd, b"x");
    }
    let totals = pep.element.totals();
    assert!(pep.element.content() < 150_000, "{} B", pep.element.content());
    assert_eq!(totals.no_memory, 5000 - 1024);
}

#[test]
fn a_connection_that_delivers_nothing_gives_way_when_memory_is_short() {
    let (mut pep, client, _) = established(|config| config.memory = Some(Bytes::new(60_000)));
    // The server acknowledges nothing. Beyond its reserve a direction has no memory.
    let up = |n: u32| Seg::new(UP, Flags::NONE, 101 + 1000 * n, Some(client));
    for n in 0..100 {
        send_content(&mut pep, 10, up(n), &[7; 1000]);
    }
    let (held, totals) = (pep.element.content(), pep.element.totals());
    assert!(totals.no_memory > 0 && held > 60_000, "{held} B, {totals:?}");
    pep.run_until(50 * SECOND);
    send_content(&mut pep, 50 * SECOND, up(90), &[7; 1000]);
    assert_eq!(pep.element.totals().stalled, 0, "it has a minute");
    pep.run_until(61 * SECOND);
    pep.out.clear();
    send_content(&mut pep, 61 * SECOND, up(90), &[7; 1000]);
    let resets = pep.out.iter().filter(|(_, _, packet)| Seg::read(packet).flags.contains(Flags::RST));
    assert_eq!((resets.count(), pep.element.connections()), (2, 0));
    let gave_way = pep.element.take_gave_way();
    assert_eq!((gave_way.len(), gave_way[0].client, gave_way[0].bytes), (1, address(CLIENT), held));
    assert_eq!((pep.element.totals().stalled, pep.element.content()), (1, 0));
}
