//! Checks on `bentpipe-transport`: any segments at a TCP and at a proxy that splits it, any datagrams at both ends of
//! TFRC.
//!
//! What arrives has right checksums, and numbers near those that the end expects: all else is refused at the door, and the
//! formats have targets of their own. An end may send for what it hears, but never for ever at one instant, and never more
//! than its window.

use std::collections::HashMap;
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_transport::app::Endpoints;
use bentpipe_transport::tcp::{self, Bulk, Endpoint, HalfOpen, Pep, PepConfig, PepState};
use bentpipe_transport::tfrc;
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{dccp, udp};

/// An element under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("tcp_end", fuzz_tcp_end), ("tfrc", fuzz_tfrc), ("pep", fuzz_pep)];

/// An element alone, and what it sent at each of its outputs.
struct Bench<E> {
    element: E,
    now: Time,
    deadline: Time,
    stream: RandomStream,
    sent: Vec<Packet>,
}

/// The most times that an element may be woken at one instant: pacing and bursts take one each, a loop takes all.
const MOST_AT_ONCE: usize = 1000;

impl<E: Element> Bench<E> {
    fn new(element: E) -> Bench<E> {
        let stream = RandomStream::new(7, "fuzz-ends");
        Bench { element, now: Time::ZERO, deadline: Time::ZERO, stream, sent: Vec::new() }
    }

    /// Hands a packet in, or wakes the element.
    fn call(&mut self, packet: Option<Packet>) {
        let wires: Vec<Wire> = (0..4).map(|port| Wire::new(port, Port(0))).collect();
        let mut outbox = Outbox::default();
        let mut cx = Cx::new(self.now, &wires, &mut outbox, &mut self.stream);
        self.deadline = match packet {
            Some(packet) => self.element.receive(Port(0), packet, &mut cx),
            None => self.element.wake(&mut cx),
        };
        assert!(self.deadline >= self.now, "a deadline in the past");
        self.sent.clear();
        self.sent.extend(std::iter::from_fn(|| outbox.pop()).map(|(_, packet)| packet));
    }

    /// Goes on for `span`, calling what is due, at most so often as that an element which has much to do may do it.
    fn pass(&mut self, span: Span, mut each: impl FnMut(&mut Bench<E>)) {
        let end = self.now + span;
        let mut at_once = 0;
        for _ in 0..MOST_AT_ONCE {
            if self.deadline > end || self.deadline.is_never() {
                break;
            }
            at_once = if self.deadline == self.now { at_once + 1 } else { 0 };
            self.now = self.deadline;
            self.call(None);
            each(self);
        }
        assert!(at_once < MOST_AT_ONCE - 1, "woken for ever at {}", self.now);
        self.now = if self.deadline < end { self.deadline.max(self.now) } else { end };
    }
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

const OURS: u16 = 1000;
const PEERS: u16 = 2000;

/// An IPv4 packet from the peer, whose transport header has its checksum filled by `fill`.
fn from_peer(protocol: Protocol, mut upper: Vec<u8>, fill: impl FnOnce(&mut [u8], &Pseudo)) -> Packet {
    let (src, dst) = (address(2, 0).ip(), address(1, 0).ip());
    fill(&mut upper, &Pseudo::new(src, dst, protocol));
    let header = ip::Repr::new(src, dst, protocol, upper.len());
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(upper);
    Packet::from_bytes(&bytes)
}

/// What a byte says about time: mostly little, now and then more than any timer.
fn span(code: u8) -> Span {
    [Span::ZERO, Span::from_millis(1), Span::from_millis(250), Span::from_secs(70)][usize::from(code & 3)]
}

/// Two bytes of configuration. Then segments of eight bytes and their options: time and length of the options; flags;
/// distance of the sequence number from the expected one, in two bytes; of the acknowledgement from the highest sent, in two;
/// window; length of the payload.
pub fn fuzz_tcp_end(data: &[u8]) {
    let Some((&[first, second], mut rest)) = data.split_first_chunk::<2>() else { return };
    let (local, remote) = (address(1, OURS), address(2, PEERS));
    let config = tcp_config(first, second);
    let most = config.send_buffer.get() / config.mss.get().min(64) + 64;
    let end = match first & 1 {
        0 => Endpoint::active(config, local, remote),
        _ => Endpoint::passive(config, local),
    };
    let source = match second >> 6 {
        0 => tcp::Source::Nothing,
        n => tcp::Source::Bulk(Bulk { size: (n > 1).then_some(Bytes::new(30_000)), ..Bulk::default() }),
    };
    let mut bench = Bench::new(end.expect("a possible configuration").with_source(source));
    let mut peer = Peer::default();
    bench.call(None);
    peer.hear(&bench.sent);
    while let Some((&event, behind)) = rest.split_first_chunk::<8>() {
        let (options, behind) = behind.split_at(behind.len().min(usize::from(event[0] >> 2) % 41));
        rest = behind;
        bench.pass(span(event[0]), |bench| peer.hear(&bench.sent));
        bench.call(Some(peer.segment(&event, options)));
        assert!(bench.sent.len() as u64 <= most, "{} packets at once", bench.sent.len());
        peer.hear(&bench.sent);
    }
    bench.pass(Span::from_secs(400), |_| {});
}

fn tcp_config(first: u8, second: u8) -> tcp::Config {
    let has = |bit: u8| second & bit != 0;
    let controllers = ["newreno", "westwood+", "hybla", "cubic", "vegas", "bbr", "newreno", "cubic"];
    tcp::Config {
        controller: controllers[usize::from(first >> 1 & 7)].parse().expect("a controller"),
        mss: Bytes::new(536),
        send_buffer: Bytes::new(20_000),
        receive_buffer: tcp::ReceiveBuffer::Exact(Bytes::new(20_000)),
        sack: has(1),
        dsack: has(1),
        timestamps: has(2),
        ecn: has(4),
        fack: has(8),
        prr: has(8),
        frto: has(16),
        eifel: has(16),
        detect_lost_retransmissions: has(32),
        quick_start: (first & 0x10 != 0).then(|| Rate::from_bps(1_000_000)),
        nagle: first & 0x20 != 0,
        max_burst: (first & 0x40 != 0).then_some(3),
        limited_transmit: first & 0x80 != 0,
        ..tcp::Config::default()
    }
}

/// What the attacker knows of the end.
#[derive(Default)]
struct Peer {
    /// The number that the end expects.
    seq: u32,
    /// The end of what it sent.
    ack: u32,
}

impl Peer {
    fn hear(&mut self, packets: &[Packet]) {
        for packet in packets {
            let whole =
                ip::Packet::new_elided(packet.header(), packet.elided()).expect("a packet that we sent");
            let upper = whole.upper().expect("a packet that we sent");
            let segment = bentpipe_wire::tcp::Segment::new_elided(upper.bytes, upper.elided).expect("ours");
            segment.verify_checksum(&upper.pseudo).expect("right checksums");
            if let Some(ack) = segment.ack() {
                self.seq = ack.0;
            }
            let flags = segment.flags();
            let unseen = [bentpipe_wire::tcp::Flags::SYN, bentpipe_wire::tcp::Flags::FIN];
            let unseen = unseen.into_iter().filter(|flag| flags.contains(*flag)).count();
            let end = segment.seq().0.wrapping_add((segment.payload_len() + unseen) as u32);
            let is_new = end.wrapping_sub(self.ack) < 1 << 31 || self.ack == 0;
            self.ack = if is_new { end } else { self.ack };
        }
    }

    fn segment(&self, event: &[u8; 8], options: &[u8]) -> Packet {
        let distance = |at: usize| i32::from(i16::from_be_bytes([event[at], event[at + 1]])) as u32;
        let mut upper = Vec::with_capacity(60);
        upper.extend(PEERS.to_be_bytes());
        upper.extend(OURS.to_be_bytes());
        upper.extend(self.seq.wrapping_add(distance(2)).to_be_bytes());
        upper.extend(self.ack.wrapping_add(distance(4)).to_be_bytes());
        let options_len = options.len().next_multiple_of(4);
        upper.extend([(5 + options_len / 4) as u8 * 16, event[1]]);
        upper.extend((u16::from(event[6]) * 64).to_be_bytes());
        upper.extend([0; 4]);
        upper.extend(options);
        upper.resize(20 + options_len + usize::from(event[7]) * 4, 0);
        from_peer(Protocol::TCP, upper, |upper, pseudo| {
            bentpipe_wire::tcp::Segment::new_unchecked(upper).fill_checksum(pseudo);
        })
    }
}

/// A byte of configuration. Then datagrams: time, length, and over DCCP distances of both numbers from the last, before the
/// bytes of a header from its type on; over UDP the payload. They go to the sender and to the receiver alike.
pub fn fuzz_tfrc(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let is_dccp = first & 1 != 0;
    let config = tfrc::Config {
        rate: (first & 2 != 0).then(|| Rate::from_bps(400_000)),
        transport: if is_dccp { tfrc::Transport::Dccp } else { tfrc::Transport::Udp },
        quick_start: (first & 4 != 0).then(|| Rate::from_bps(1_000_000)),
        ..tfrc::Config::new(Bytes::new(100))
    };
    let endpoints = Endpoints { source: address(1, OURS), destination: address(2, PEERS) };
    let sender = tfrc::Sender::new(&config, endpoints, Span::ZERO, Some(Span::from_secs(30)));
    attack(Bench::new(sender.expect("possible")), is_dccp, rest);
    attack(Bench::new(tfrc::Receiver::new(&config, address(1, OURS))), is_dccp, rest);
}

fn attack(mut bench: Bench<impl Element>, is_dccp: bool, mut rest: &[u8]) {
    let (mut sequence, mut ack) = (0, 0);
    bench.call(None);
    while let Some((&[time, len], behind)) = rest.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        let mut hear = |sent: &[Packet]| ack = sent.last().map_or(ack, sequence_of);
        hear(&bench.sent);
        bench.pass(span(time), |bench| hear(&bench.sent));
        let packet = if is_dccp { dccp_packet(bytes, &mut sequence, ack) } else { udp_packet(bytes) };
        bench.call(Some(packet));
        // An RTT's packets, if none went for so long.
        assert!(bench.sent.len() <= 100_001, "{} packets at once", bench.sent.len());
    }
    bench.pass(Span::from_secs(400), |_| {});
}

/// The DCCP sequence number of what an end sent.
fn sequence_of(packet: &Packet) -> u64 {
    let whole = ip::Packet::new_elided(packet.header(), packet.elided()).expect("a packet that we sent");
    let upper = whole.upper().expect("a packet that we sent");
    match upper.protocol {
        Protocol::DCCP => {
            dccp::Packet::new_elided(upper.bytes, upper.elided).map_or(0, |view| view.sequence())
        }
        _ => 0,
    }
}

fn udp_packet(payload: &[u8]) -> Packet {
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    let ports = [PEERS, OURS, len, 0].into_iter().flat_map(u16::to_be_bytes);
    from_peer(Protocol::UDP, ports.chain(payload.iter().copied()).collect(), |upper, pseudo| {
        udp::Datagram::new_unchecked(upper).fill_checksum(pseudo);
    })
}

/// Bytes: type and CCVal, distance of the sequence number, of the acknowledgement; what is behind them.
fn dccp_packet(bytes: &[u8], sequence: &mut u64, ack: u64) -> Packet {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let kind = byte(0) & 15;
    *sequence += u64::from(byte(1));
    let ack = ack.saturating_sub(u64::from(byte(2)));
    let tail = bytes.get(3..).unwrap_or_default();
    let fixed = match kind {
        0 => 20,
        2 => 16,
        1 | 7 => 28,
        _ => 24,
    };
    let options_len = if kind == 2 { 0 } else { tail.len().min(200).next_multiple_of(4) };
    let mut upper = [PEERS.to_be_bytes(), OURS.to_be_bytes()].concat();
    upper.extend([((fixed + options_len) / 4) as u8, byte(0) >> 4 << 4, 0, 0, kind << 1 | 1, 0]);
    upper.extend(&sequence.to_be_bytes()[2..]);
    if kind != 0 && kind != 2 {
        upper.extend([0, 0]);
        upper.extend(&ack.to_be_bytes()[2..]);
    }
    upper.resize(fixed, 0);
    upper.extend(&tail[..tail.len().min(200)]);
    upper.resize(upper.len().next_multiple_of(4), 0);
    from_peer(Protocol::DCCP, upper, |upper, pseudo| {
        if let Ok(mut view) = dccp::Packet::new_checked(upper) {
            view.fill_checksum(pseudo);
        }
    })
}

/// Most connections of the proxy.
const SPLITS: usize = 4;
/// Most bytes that one of its connections holds: a receive and a send buffer each way.
const HELD: u64 = 2 * 40_000;

/// Two bytes of configuration. Then segments of eight bytes: time; direction, port number and content; flags; distance of the
/// sequence number from the expected one; of the acknowledgement from the highest sent; window; length of the payload, in two.
pub fn fuzz_pep(data: &[u8]) {
    let Some((&[first, second], mut rest)) = data.split_first_chunk::<2>() else { return };
    let side = |byte| tcp::Config { quick_start: None, ..tcp_config(byte, second) };
    let config = PepConfig {
        satellite: side(first & 0xe),
        ground: side(0),
        answers_at_once: first & 1 != 0,
        connections: SPLITS,
        satellite_mtu: None,
        ground_mtu: None,
        half_open: (first & 0x80 != 0).then_some(HalfOpen { connections: 1, cached: 2 }),
        idle: None,
        memory: (first & 0x40 != 0).then_some(Bytes::new(50_000)),
        behind_satellite: [address(2, 0).ip()].into(),
        own: Vec::new(),
        state: PepState::On,
    };
    let mut bench = Bench::new(Pep::new(config).expect("possible"));
    let mut known = HashMap::new();
    bench.call(None);
    while let Some((event, behind)) = rest.split_first_chunk::<8>() {
        rest = behind;
        bench.pass(span(event[0]), |bench| note(&mut known, &bench.sent));
        bench.call(Some(any_segment(event, &known)));
        note(&mut known, &bench.sent);
        let (count, held) = (bench.element.connections(), bench.element.held());
        assert!(count <= SPLITS && held <= count as u64 * HELD, "{count} connections hold {held} B");
        assert!(bench.sent.len() <= 500, "{} packets at once", bench.sent.len());
    }
    bench.pass(Span::from_secs(400), |_| {});
    bench.element.set_state(PepState::Down);
    bench.call(None);
    assert_eq!((bench.element.connections(), bench.element.held()), (0, 0));
}

/// Numbers that each end may use: the one that the proxy expects of it, and the end of what the proxy sent it.
type Known = HashMap<(SocketAddr, SocketAddr), (u32, u32)>;

fn note(known: &mut Known, packets: &[Packet]) {
    for packet in packets {
        let elided = packet.elided();
        let bytes = if elided > 0 { packet.header().to_vec() } else { packet.to_vec() };
        let Ok(ip) = ip::Packet::new_elided(&bytes[..], elided) else { continue };
        let Ok(upper) = ip.upper() else { continue };
        let Ok(segment) = bentpipe_wire::tcp::Segment::new_elided(upper.bytes, upper.elided) else {
            continue;
        };
        let ends =
            (SocketAddr::new(ip.dst(), segment.dst_port()), SocketAddr::new(ip.src(), segment.src_port()));
        let flags = segment.flags();
        let unseen = [bentpipe_wire::tcp::Flags::SYN, bentpipe_wire::tcp::Flags::FIN];
        let unseen = unseen.into_iter().filter(|flag| flags.contains(*flag)).count();
        let end = segment.seq().0.wrapping_add((segment.payload_len() + unseen) as u32);
        let expected = segment.ack().map_or(0, |ack| ack.0);
        known.insert(ends, (expected, end));
    }
}

fn any_segment(event: &[u8; 8], known: &Known) -> Packet {
    let port = PEERS + u16::from(event[1] >> 1 & 7);
    let (client, server) = (address(2, port), address(1, OURS));
    let (src, dst) = if event[1] & 1 == 0 { (client, server) } else { (server, client) };
    let (seq, ack) = known.get(&(src, dst)).copied().unwrap_or_default();
    let distance = |byte: u8| i32::from(byte as i8) as u32;
    let mut upper = [src.port().to_be_bytes(), dst.port().to_be_bytes()].concat();
    upper.extend(seq.wrapping_add(distance(event[3])).to_be_bytes());
    upper.extend(ack.wrapping_add(distance(event[4])).to_be_bytes());
    upper.extend([0x50, event[2]]);
    upper.extend((u16::from(event[5]) * 64).to_be_bytes());
    upper.extend([0; 4]);
    let len = usize::from(u16::from_be_bytes([event[6], event[7]]) % 1500);
    upper.resize(20 + len, event[1] >> 7);
    let pseudo = Pseudo::new(src.ip(), dst.ip(), Protocol::TCP);
    bentpipe_wire::tcp::Segment::new_unchecked(&mut upper[..]).fill_checksum(&pseudo);
    let header = ip::Repr::new(src.ip(), dst.ip(), Protocol::TCP, upper.len());
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(upper);
    Packet::from_bytes(&bytes)
}
