//! Checks on `bentpipe-voice`: any RTP and RTCP at an end of calls, any subframes at the partner of an aggregator.
//!
//! What arrives has right addresses and checksums: all else is refused at the door.

use std::net::SocketAddr;

use bentpipe_net::metric::{self, Of};
use bentpipe_net::{Cx, Element, Observer, Outbox, Packet, Port, Wire};
use bentpipe_transport::app::{Endpoints, datagram};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_voice::aggregate::{self, Separator};
use bentpipe_voice::call::{Agent, Config, Ends, Plan, Side};
use bentpipe_voice::{Codec, Party, Playout};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ipv4;

/// An element under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("agent", fuzz_agent), ("separator", fuzz_separator)];

/// Most calls of an element by one input.
const MOST_CALLS: usize = 200;

/// Observer that drops what it gets.
struct Nothing;

impl Observer for Nothing {
    fn counter(&mut self, _: &'static Of<metric::Counter>, _: u64) {}
    fn gauge(&mut self, _: &'static Of<metric::Gauge>, _: f64) {}
}

/// Hands a packet to an element, or wakes it, and returns how many packets it sent.
fn call(element: &mut impl Element, packet: Option<Packet>, now: Time) -> usize {
    let (mut outbox, wires) = (Outbox::default(), [Wire::new(0, Port(0))]);
    let mut stream = RandomStream::new(7, "fuzz-voice");
    let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
    let deadline = match packet {
        Some(packet) => element.receive(Port(0), packet, &mut cx),
        None => element.wake(&mut cx),
    };
    assert!(deadline >= now, "a deadline in the past");
    std::iter::from_fn(|| outbox.pop()).count()
}

/// Packets of length, call and port, time, and bytes, at an end of two calls, or of a conference with two members.
pub fn fuzz_agent(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else { return };
    let playout = match first % 4 {
        0 => Playout::default(),
        1 => Playout::FastRise,
        2 => Playout::Spikes,
        _ => Playout::Histogram { window: 8, quantile: 0.9 },
    };
    let config = Config { playout, ..Config::new(Codec::G711U) };
    let settings = config.settings().expect("possible");
    let [local, remote] =
        ["10.0.0.1:5000", "10.0.0.2:6000"].map(|text| text.parse::<SocketAddr>().expect("an address"));
    let conversations = (1, "fuzz".to_owned());
    let (start, stop) = (Time::ZERO, Time::ZERO + Span::from_secs(1000));
    let side = match first >> 2 & 3 {
        1 => Side::Members { first: 1, all: 4 },
        2 => Side::Bridge,
        _ => Side::Party(Party::A),
    };
    let ends = Ends { local, remote };
    let mut agent = Agent::new(Plan { settings, ends, side, count: 2, start, stop, conversations });
    agent.speak(vec![Some(vec![1; 160]), None, Some(vec![2; 160])]);
    agent.listen();
    let mut now = Time::ZERO;
    call(&mut agent, None, now);
    for _ in 0..MOST_CALLS {
        let [len, port, ms, after @ ..] = rest else { break };
        let (payload, next) = after.split_at(usize::from(*len).min(after.len()));
        now += Span::from_millis(u64::from(*ms));
        let above = u16::from(port % 4);
        let ends = Endpoints {
            source: SocketAddr::new(remote.ip(), 6000 + above),
            destination: SocketAddr::new(local.ip(), 5000 + above),
        };
        call(&mut agent, None, now);
        call(&mut agent, Some(Packet::from_bytes(&datagram(ends, payload))), now);
        rest = next;
    }
    call(&mut agent, None, now + Span::from_secs(30));
    agent.observe(now + Span::from_secs(60), &mut Nothing);
    let log = agent.take_log();
    assert!(agent.arrived(log).len() <= MOST_CALLS, "more packets than arrived");
}

/// Subframes of an aggregate, and a PPP frame.
pub fn fuzz_separator(data: &[u8]) {
    let data = &data[..data.len().min(9000)];
    let config = aggregate::Config { rohc: true, ..aggregate::Config::default() };
    let mut separator = Separator::new(&config);
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    let ends = [1, 2].map(|last| std::net::Ipv4Addr::new(169, 254, 0, last));
    ipv4::Repr::new(ends[0], ends[1], Protocol(115), 5 + data.len()).emit(&mut bytes);
    bytes.extend([0, 0, 0, 1, 0x59]);
    bytes.extend_from_slice(data);
    let sent = call(&mut separator, Some(Packet::from_bytes(&bytes)), Time::ZERO);
    assert!(sent <= data.len(), "more packets than bytes");
    let config = aggregate::Config { outer: aggregate::Outer::Ppp, ..config };
    let sent = call(&mut Separator::new(&config), Some(Packet::from_bytes(data)), Time::ZERO);
    assert!(sent <= data.len().max(1), "more packets than bytes of a frame");
    // Feedback of each packet, and of the other end.
    let rohc = aggregate::Config { feedback: true, ..config };
    let scheme = Some(aggregate::Scheme::Crtp);
    for config in [rohc, aggregate::Config { rohc: false, scheme, ..rohc }] {
        let sent = call(&mut Separator::new(&config), Some(Packet::from_bytes(data)), Time::ZERO);
        assert!(sent <= 3 * data.len().max(1), "more packets than bytes of a frame");
    }
}
