//! Packet diagrams: a script plays the peer of one endpoint, and says what the endpoint has to send.
//!
//! A line is a segment that the endpoint sends (`>`) or receives (`<`), with what is special about it:
//!
//! ```text
//! @100 < syn ack 1 win 65535 sack-ok
//!      > ack 1
//!      > seq 1..1001
//! @200 < ack 1001 sack 2001-3001
//! ```
//!
//! `@` is a time in milliseconds. Numbers count from each end's SYN, which is 0. What the endpoint sends must be in the
//! script, all of it and in this order; without a time it must be sent at once. `@300 -` says that nothing is sent until
//! then. Of Quick-Start, `ask 5` and `report 5` are IP options with code 5 for a rate; `answer 5` is the option of TCP that
//! answers so, by the peer to the endpoint's last request, with `nonce` or `ttl` wrong if these words follow. The text behind `#` is for the reader.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_transport::tcp::{Config, Endpoint, ReceiveBuffer};
use bentpipe_units::{Bytes, RandomStream, Span, Time};
use bentpipe_wire::ip::{self, Ecn, Protocol, TrafficClass};
use bentpipe_wire::ipv4;
use bentpipe_wire::quick_start::{self, Function, IpOption, RateCode, Response, TCP_OPTION};
use bentpipe_wire::tcp::{Flags, Options, Repr, Segment, SeqNumber};

pub(crate) const ENDPOINT: &str = "10.0.0.1:1000";
pub(crate) const PEER: &str = "10.0.0.2:2000";

/// No timestamps and no window scale, so that a segment carries 1000 bytes and windows read as they are.
pub(crate) fn plain() -> Config {
    Config {
        mss: Bytes::new(1000),
        timestamps: false,
        window_scaling: false,
        sack: false,
        initial_window: 4,
        receive_buffer: ReceiveBuffer::Exact(Bytes::new(50_000)),
        initial_sequence: Some(0),
        ..Config::default()
    }
}

/// A line's segment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    flags: Vec<&'static str>,
    seq: Option<(u32, u32)>,
    ack: Option<u32>,
    window: Option<u16>,
    sack: Vec<(u32, u32)>,
    sack_ok: bool,
    mss: Option<u16>,
    ts: Option<(u32, u32)>,
    ask: Option<u8>,
    report: Option<u8>,
    answer: Option<u8>,
    /// What of the answer is wrong.
    wrong: Option<&'static str>,
}

/// The peer's request but for its rate: sent with hop limit 64, so that 54 is the difference.
const PEERS_REQUEST: IpOption =
    IpOption { function: Function::Request, rate: RateCode::NONE, ttl: 10, nonce: 0x0123_4567 };

const FLAGS: [(&str, Flags); 5] =
    [("syn", Flags::SYN), ("fin", Flags::FIN), ("rst", Flags::RST), ("ece", Flags::ECE), ("cwr", Flags::CWR)];

impl Line {
    fn parse(words: &[&str]) -> Line {
        let mut line = Line::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let number = |text: Option<&&str>| text.expect("a number").parse::<u32>().expect("a number");
            let pair = |text: &str, by: &str| {
                let (left, right) = text.split_once(by).expect("two numbers");
                (left.parse().expect("a number"), right.parse().expect("a number"))
            };
            match word {
                "seq" => line.seq = words.next().map(|text| pair(text, "..")),
                "ack" => line.ack = Some(number(words.next())),
                "win" => line.window = Some(number(words.next()) as u16),
                "mss" => line.mss = Some(number(words.next()) as u16),
                "ts" => line.ts = words.next().map(|text| pair(text, ":")),
                "sack" => {
                    line.sack = words.next().expect("ranges").split(',').map(|text| pair(text, "-")).collect()
                }
                "sack-ok" => line.sack_ok = true,
                "ask" => line.ask = Some(number(words.next()) as u8),
                "report" => line.report = Some(number(words.next()) as u8),
                "answer" => line.answer = Some(number(words.next()) as u8),
                "nonce" | "ttl" => line.wrong = Some(if word == "ttl" { "ttl" } else { "nonce" }),
                "ect" | "ce" => line.flags.push(if word == "ect" { "ect" } else { "ce" }),
                _ => line.flags.push(FLAGS.iter().find(|(name, _)| *name == word).expect(word).0),
            }
        }
        line
    }

    fn options(&self, request: Option<&IpOption>) -> Options {
        let mut options = Options {
            mss: self.mss,
            sack_permitted: self.sack_ok,
            timestamps: self.ts,
            sack: self.sack.iter().map(|&(left, right)| (SeqNumber(left), SeqNumber(right))).collect(),
            ..Options::NONE
        };
        if let Some(code) = self.answer {
            let request = request.expect("a request to answer");
            let mut answer = Response { rate: RateCode::from_bits(code), ..Response::to(request, 64) };
            match self.wrong {
                Some("nonce") => answer.nonce ^= 1,
                Some(_) => answer.ttl_diff = answer.ttl_diff.wrapping_add(1),
                None => {}
            }
            options.unknown.push(TCP_OPTION, &answer.data());
        }
        options
    }

    /// The packet from the peer; `seq` is used where the line says nothing, `request` is what it answers.
    fn packet(&self, from: SocketAddr, to: SocketAddr, seq: u32, request: Option<&IpOption>) -> Packet {
        let (start, end) = self.seq.unwrap_or((seq, seq));
        let flags = FLAGS.iter().filter(|(name, _)| self.flags.contains(name));
        let repr = Repr {
            ack: self.ack.map(SeqNumber),
            flags: flags.fold(Flags::NONE, |all, (_, flag)| all | *flag),
            window: self.window.unwrap_or(50_000),
            options: self.options(request),
            ..Repr::new(from.port(), to.port(), SeqNumber(start))
        };
        let (tcp_len, payload) = (repr.buffer_len(), end - start);
        let mut ip = ip::Repr::new(from.ip(), to.ip(), Protocol::TCP, tcp_len + payload as usize);
        if let (ip::Repr::V4(ip), true) = (&mut ip, self.flags.contains(&"ce")) {
            ip.traffic_class = TrafficClass::default().with_ecn(Ecn::Ce);
        }
        if let (ip::Repr::V4(ip), Some(code)) = (&mut ip, self.ask) {
            let request = IpOption { rate: RateCode::from_bits(code), ..PEERS_REQUEST };
            ip.options = ipv4::Options::parse(&request.ipv4()).expect("an option");
        }
        let mut packet = Packet::new(ip.buffer_len() + tcp_len, payload);
        let (head, tcp) = packet.header_mut().split_at_mut(ip.buffer_len());
        ip.emit(head);
        repr.emit(tcp);
        let pseudo = bentpipe_wire::checksum::Pseudo::new(from.ip(), to.ip(), Protocol::TCP);
        Segment::new_elided(tcp, payload as usize).expect("a segment").fill_checksum(&pseudo);
        packet
    }

    /// What the endpoint sent, in the words of `like`: what that says nothing of is left out.
    fn read(packet: &Packet, like: &Line) -> Line {
        let ip = ip::Packet::new_elided(packet.header(), packet.elided()).expect("an IP packet");
        let upper = ip.upper().expect("a TCP segment");
        let segment = Segment::new_elided(upper.bytes, upper.elided).expect("a TCP segment");
        segment.verify_checksum(&upper.pseudo).expect("a right checksum");
        let options = Options::parse(segment.options()).expect("options");
        let (seq, len) = (segment.seq().0, segment.payload_len() as u32);
        let mut flags: Vec<&str> =
            FLAGS.iter().filter(|(_, flag)| segment.flags().contains(*flag)).map(|(name, _)| *name).collect();
        if ip.traffic_class().ecn() == Ecn::Ect0 {
            flags.push("ect");
        }
        let option = quick_start::find(packet.header()).map(|(_, option)| option);
        let code =
            |function| option.filter(|option| option.function == function).map(|option| option.rate.bits());
        let answer = options.unknown.iter().find(|(kind, _)| *kind == TCP_OPTION);
        let answer = answer.map(|(_, data)| Response::parse(data).expect("an answer"));
        let is_right = |answer: &Response| (answer.ttl_diff, answer.nonce) == (54, PEERS_REQUEST.nonce);
        assert!(answer.as_ref().is_none_or(is_right), "{answer:?}");
        Line {
            flags,
            ask: code(Function::Request),
            report: code(Function::Report),
            answer: answer.map(|answer| answer.rate.bits()),
            wrong: None,
            seq: (len > 0 || like.seq.is_some()).then_some((seq, seq + len)),
            ack: segment.ack().map(|ack| ack.0).filter(|_| like.ack.is_some()),
            window: like.window.map(|_| segment.window()),
            sack: options.sack.iter().map(|(left, right)| (left.0, right.0)).collect(),
            sack_ok: like.sack_ok && options.sack_permitted,
            mss: options.mss.filter(|_| like.mss.is_some()),
            ts: options.timestamps.filter(|_| like.ts.is_some()),
        }
    }
}

/// An endpoint with a script for its peer.
pub(crate) struct Diagram {
    pub(crate) endpoint: Endpoint,
    stream: RandomStream,
    outbox: Outbox,
    now: Time,
    deadline: Time,
    sent: VecDeque<(Time, Packet)>,
    /// The peer's next sequence number.
    peer_seq: u32,
    /// The endpoint's last Quick-Start request.
    request: Option<IpOption>,
}

/// The longest wait for something to be sent.
const PATIENCE: Span = Span::from_secs(1000);

impl Diagram {
    pub(crate) fn new(endpoint: Endpoint) -> Diagram {
        let stream = RandomStream::new(1, "diagram");
        let outbox = Outbox::default();
        Diagram {
            endpoint,
            stream,
            outbox,
            now: Time::ZERO,
            deadline: Time::ZERO,
            sent: VecDeque::new(),
            peer_seq: 0,
            request: None,
        }
    }

    /// An endpoint that opens the connection.
    pub(crate) fn client(config: &Config, change: impl FnOnce(Endpoint) -> Endpoint) -> Diagram {
        let (from, to) = (ENDPOINT.parse().expect("an end"), PEER.parse().expect("an end"));
        Diagram::new(change(Endpoint::active(config.clone(), from, to).expect("a possible end")))
    }

    /// An endpoint that waits for the connection.
    pub(crate) fn server(config: &Config, change: impl FnOnce(Endpoint) -> Endpoint) -> Diagram {
        let at = ENDPOINT.parse().expect("an end");
        Diagram::new(change(Endpoint::passive(config.clone(), at).expect("a possible end")))
    }

    pub(crate) fn play(&mut self, script: &str) -> &mut Diagram {
        for text in script.lines() {
            let text = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            if !words.is_empty() {
                self.line(&words, text.trim());
            }
        }
        self
    }

    fn line(&mut self, words: &[&str], text: &str) {
        let at = words[0].strip_prefix('@').map(|ms| ms.parse::<u64>().expect("milliseconds"));
        let at = at.map(|ms| Time::ZERO + Span::from_millis(ms));
        let rest = if at.is_some() { &words[1..] } else { words };
        match rest[0] {
            ">" => self.expect(at, &Line::parse(&rest[1..]), text),
            "<" => {
                self.quiet_until(at.unwrap_or(self.now), text);
                self.give(&Line::parse(&rest[1..]));
            }
            "-" => self.quiet_until(at.expect("a time"), text),
            other => panic!("{other}: expected > or < or -"),
        }
    }

    fn expect(&mut self, at: Option<Time>, line: &Line, text: &str) {
        let limit = if at.is_some() { self.now + PATIENCE } else { self.now };
        while self.sent.is_empty() && self.deadline <= limit {
            self.wake();
        }
        let (sent_at, packet) =
            self.sent.pop_front().unwrap_or_else(|| panic!("{text}: nothing is sent at {}", self.now));
        let option = quick_start::find(packet.header()).map(|(_, option)| option);
        self.request = option.filter(|option| option.function == Function::Request).or(self.request);
        let mut expected = line.clone();
        let order = |name: &&str| FLAGS.iter().position(|(flag, _)| flag == name).unwrap_or(FLAGS.len());
        expected.flags.sort_by_key(order);
        assert_eq!(Line::read(&packet, line), expected, "{text}, at {sent_at}");
        if let Some(at) = at {
            let off = at.since(sent_at) + sent_at.since(at);
            assert!(off < Span::from_millis(1), "{text}: sent at {sent_at}");
        }
    }

    fn quiet_until(&mut self, at: Time, text: &str) {
        assert!(at >= self.now, "{text}: it is {} already", self.now);
        while self.sent.is_empty() && self.deadline <= at {
            self.wake();
        }
        if let Some((sent_at, packet)) = self.sent.front() {
            let like = Line { seq: Some((0, 0)), ack: Some(0), window: Some(0), ..Line::default() };
            panic!("{text}: before it, at {sent_at}, was sent {:?}", Line::read(packet, &like));
        }
        self.now = at;
    }

    fn give(&mut self, line: &Line) {
        let (from, to) = (PEER.parse().expect("an end"), ENDPOINT.parse().expect("an end"));
        let packet = line.packet(from, to, self.peer_seq, self.request.as_ref());
        let syn_or_fin = line.flags.iter().filter(|flag| ["syn", "fin"].contains(flag)).count() as u32;
        self.peer_seq = self.peer_seq.max(line.seq.map_or(self.peer_seq, |(_, end)| end) + syn_or_fin);
        self.call(|endpoint, cx| endpoint.receive(Port(0), packet, cx));
    }

    fn wake(&mut self) {
        self.now = self.now.max(self.deadline);
        self.call(|endpoint, cx| endpoint.wake(cx));
    }

    fn call(&mut self, f: impl FnOnce(&mut Endpoint, &mut Cx<'_>) -> Time) {
        let wires = [Wire::new(0, Port(0))];
        let mut cx = Cx::new(self.now, &wires, &mut self.outbox, &mut self.stream);
        self.deadline = f(&mut self.endpoint, &mut cx);
        while let Some((_, packet)) = self.outbox.pop() {
            self.sent.push_back((self.now, packet));
        }
    }
}
