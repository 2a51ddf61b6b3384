//! Two ends of calls over a channel that a test makes.

use std::net::SocketAddr;

use bentpipe_net::metric::Of;
use bentpipe_net::{Outbox, Wire, metric};
use bentpipe_wire::pcap::{LinkType, Writer};

use super::*;
use crate::codec::Codec;
use crate::conversation::Speech;
use crate::{Config, Playout};

const MS: u64 = 1_000_000;

/// Both ends, with packets in flight between them.
struct Line {
    agents: [Agent; 2],
    streams: [RandomStream; 2],
    wakes: [Time; 2],
    /// Arrival, receiving end, packet.
    flight: Vec<(Time, usize, Packet)>,
    now: Time,
    sent: [u64; 2],
    seen: [Vec<Packet>; 2],
    /// Arrivals at B.
    arrived: Vec<(Time, Packet)>,
}

/// Fate of a packet: its delay, or its loss.
type Fate<'a> = &'a mut dyn FnMut(usize, u64) -> Option<Span>;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn line(config: &Config, count: u32, stop: Time) -> Line {
    let settings = config.settings().expect("possible settings");
    let [a, b] = ["10.0.0.1:5000", "10.0.0.2:6000"].map(address);
    let end = |local, remote, party| {
        let conversations = (7, "test".to_owned());
        let ends = Ends { local, remote };
        Agent::new(Plan {
            settings,
            ends,
            side: Side::Party(party),
            count,
            start: Time::ZERO,
            stop,
            conversations,
        })
    };
    Line {
        agents: [end(a, b, Party::A), end(b, a, Party::B)],
        streams: ["a", "b"].map(|path| RandomStream::new(1, path)),
        wakes: [Time::ZERO; 2],
        flight: Vec::new(),
        now: Time::ZERO,
        sent: [0; 2],
        seen: [Vec::new(), Vec::new()],
        arrived: Vec::new(),
    }
}

impl Line {
    /// Runs until `until`.
    fn run(&mut self, until: Time, fate: Fate<'_>) {
        loop {
            let arrival = self.flight.iter().map(|(at, ..)| *at).min().unwrap_or(Time::NEVER);
            let next = self.wakes[0].min(self.wakes[1]).min(arrival);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if arrival == next {
                let place = self.flight.iter().position(|(at, ..)| *at == next).expect("there is one");
                let (_, to, packet) = self.flight.remove(place);
                if to == 1 {
                    self.arrived.push((next, packet.clone()));
                }
                self.turn(to, Some(packet), fate);
            } else {
                self.turn(usize::from(self.wakes[1] == next && self.wakes[0] != next), None, fate);
            }
        }
    }

    fn turn(&mut self, end: usize, packet: Option<Packet>, fate: Fate<'_>) {
        let (mut outbox, wires) = (Outbox::default(), [Wire::new(0, Port(0))]);
        let mut cx = Cx::new(self.now, &wires, &mut outbox, &mut self.streams[end]);
        self.wakes[end] = match packet {
            Some(packet) => self.agents[end].receive(NODE, packet, &mut cx),
            None => self.agents[end].wake(&mut cx),
        };
        while let Some((_, packet)) = outbox.pop() {
            self.sent[end] += 1;
            self.seen[end].push(packet.clone());
            if let Some(delay) = fate(end, self.sent[end]) {
                self.flight.push((self.now + delay, 1 - end, packet));
            }
        }
    }

    fn figures(&mut self, end: usize) -> Figures {
        let mut figures = Figures::default();
        self.agents[end].observe(self.now, &mut figures);
        figures
    }
}

/// Gauges and counters by their names.
#[derive(Default)]
struct Figures(std::collections::BTreeMap<&'static str, f64>);

impl Observer for Figures {
    fn counter(&mut self, metric: &'static Of<metric::Counter>, total: u64) {
        self.0.insert(metric.name, total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<metric::Gauge>, value: f64) {
        self.0.insert(metric.name, value);
    }
}

impl std::ops::Index<&str> for Figures {
    type Output = f64;
    fn index(&self, name: &str) -> &f64 {
        &self.0[name]
    }
}

const SATELLITE: Span = Span::from_millis(260);

fn until(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn always(config: Config) -> Config {
    Config { speech: Speech::Continuous, silence_suppression: false, ..config }
}

#[test]
fn a_lossless_call_has_the_rating_of_its_delay() {
    let mut line = line(&always(Config::new(Codec::G711U)), 1, Time::NEVER);
    line.run(until(60), &mut |_, _| Some(SATELLITE));
    for end in 0..2 {
        let figures = line.figures(end);
        assert_eq!((figures["loss-ratio"], figures["late"], figures["jitter"]), (0.0, 0.0, 0.0));
        // 20 ms of packet, 260 of network, 60 of buffer: R of 340 ms without echo.
        assert!((figures["mouth-to-ear"] - 0.34).abs() < 1e-6, "{}", figures["mouth-to-ear"]);
        let expected = crate::emodel::Params { delay: 340.0, ..Default::default() }.r();
        assert!((figures["r"] - expected).abs() < 1e-6 && (figures["r-now"] - expected).abs() < 1e-6);
        assert_eq!((figures["calls"], figures["good-calls"]), (1.0, 1.0));
        // RTCP measures the path there and back.
        assert!((figures["round-trip"] - 0.52).abs() < 1e-4, "{}", figures["round-trip"]);
        assert!(figures["reports-sent"] >= 9.0 && figures["reports-received"] >= 8.0);
    }
}

#[test]
fn a_call_without_packets_is_counted_and_rates_nothing() {
    let config = Config { rtcp: Rtcp::None, ..always(Config::new(Codec::G711U)) };
    let mut line = line(&config, 2, Time::NEVER);
    // In each interval both calls send one packet; B gets those of one call.
    line.run(until(10), &mut |end, n| (end == 1 || n % 2 == 0).then_some(SATELLITE));
    let figures = line.figures(1);
    assert_eq!((figures["calls"], figures["silent-calls"], figures["good-calls"]), (2.0, 1.0, 1.0));
    assert_eq!((figures["expected-packets"], figures["burst-ratio"]), (figures["packets"], 1.0));
    let mut dead = self::line(&config, 2, Time::NEVER);
    dead.run(until(10), &mut |end, _| (end == 1).then_some(SATELLITE));
    let figures = dead.figures(1);
    assert_eq!((figures["silent-calls"], figures["good-calls"]), (2.0, 0.0));
    for name in ["burst-ratio", "r", "r-min", "mos", "loss-ratio"] {
        assert!(figures[name].is_nan(), "{name}: {}", figures[name]);
    }
}

#[test]
fn losses_and_late_packets_are_counted_apart() {
    let mut line = line(&always(Config::new(Codec::G711U)), 1, Time::NEVER);
    // Each 50th packet of A is lost, each 20th takes 100 ms more than the buffer.
    line.run(until(100), &mut |end, n| match (end, n) {
        (0, n) if n % 50 == 25 => None,
        (0, n) if n % 20 == 0 => Some(SATELLITE + Span::from_millis(160)),
        _ => Some(SATELLITE),
    });
    let figures = line.figures(1);
    assert!((figures["loss-ratio"] - 0.02).abs() < 1e-3, "{}", figures["loss-ratio"]);
    assert!((figures["late-ratio"] - 0.05).abs() < 1e-3, "{}", figures["late-ratio"]);
    assert!((figures["voice-loss"] - 0.07).abs() < 2e-3);
    assert_eq!((figures["good-calls"], figures["reordered"] > 200.0), (0.0, true));
    let back = line.figures(0);
    assert_eq!((back["voice-loss"], back["good-calls"]), (0.0, 1.0));
}

#[test]
fn both_parties_follow_one_conversation() {
    let config = Config { hangover: Span::ZERO, ..Config::new(Codec::G729) };
    let mut line = line(&config, 200, Time::NEVER);
    line.run(until(60), &mut |_, _| Some(SATELLITE));
    for end in 0..2 {
        let figures = line.figures(end);
        let speech = (figures["sent"] - figures["noise-sent"]) / (200.0 * 60.0 * 50.0);
        assert!((speech - 0.425).abs() < 0.01, "{speech}");
        // One noise packet per pause: a cycle takes 2.44 s.
        let cycles = figures["noise-sent"] / (200.0 * 60.0 / 2.436);
        assert!((cycles - 1.0).abs() < 0.05, "{cycles}");
    }
}

/// Sequence numbers count all packets; time stamps count the time of pauses too; the marker is at the start of spurts.
#[test]
fn rtp_fields_are_those_of_rfc_3551() {
    let mut line = line(&Config { rtcp: Rtcp::None, ..Config::new(Codec::G711U) }, 1, Time::NEVER);
    line.run(until(100), &mut |_, _| Some(SATELLITE));
    let (mut before, mut spurts): (Option<(u16, u32, u8, Time)>, u32) = (None, 0);
    for packet in &line.seen[0] {
        let bytes = packet.to_vec();
        let rtp = rtp::Packet::new_checked(&bytes[28..]).expect("RTP");
        let is_speech = rtp.payload_type() == 0;
        assert_eq!(rtp.payload_len(), if is_speech { 160 } else { 1 });
        assert!(is_speech || rtp.payload_type() == 13);
        if let Some((seq, timestamp, last_type, at)) = before {
            assert_eq!(rtp.seq(), seq.wrapping_add(1));
            let elapsed = packet.created_at().since(at).as_nanos() / 125_000;
            assert_eq!(u64::from(rtp.timestamp().wrapping_sub(timestamp)), elapsed);
            assert_eq!(rtp.marker(), is_speech && last_type == 13, "marker");
        }
        spurts += u32::from(rtp.marker());
        before = Some((rtp.seq(), rtp.timestamp(), rtp.payload_type(), packet.created_at()));
    }
    assert!((25..60).contains(&spurts), "{spurts}");
}

#[test]
fn stopped_calls_say_goodbye() {
    let mut line = line(&Config::new(Codec::Gsm), 3, until(10));
    line.run(until(20), &mut |_, _| Some(SATELLITE));
    let byes = line.seen[0].iter().filter(|packet| {
        let bytes = packet.to_vec();
        let packets = bentpipe_wire::rtcp::parse_compound(&bytes[28..]);
        packets.is_ok_and(|packets| matches!(packets.last(), Some(bentpipe_wire::rtcp::Repr::Bye { .. })))
    });
    assert_eq!(byes.count(), 3);
    assert!(line.agents.iter().all(|agent| agent.calls.reports.iter().all(|reports| reports.has_left)));
    assert_eq!(line.wakes, [Time::NEVER; 2]);
}

#[test]
fn jitter_of_bursts_is_twice_the_interval_less_its_share() {
    // Packets each 20 ms leave in bursts 91.2 ms apart: J = 2 tau (1 - tau / P) = 31.2 ms.
    let period = 91_200_000;
    let mut line = line(&always(Config { rtcp: Rtcp::None, ..Config::new(Codec::G711U) }), 1, Time::NEVER);
    let mut at = 0_u64;
    line.run(until(60), &mut |end, n| {
        if end == 1 {
            return Some(SATELLITE);
        }
        at = if n == 1 { 20 * MS } else { at + 20 * MS };
        let wait = (at / period + 1) * period - at;
        Some(SATELLITE + Span::from_nanos(wait))
    });
    let jitter = line.figures(1)["jitter"];
    assert!((jitter / 0.0312 - 1.0).abs() < 0.25, "{jitter}");
}

#[test]
fn calls_without_factors_have_no_rating_unless_given_them() {
    let bare = Config::new(Codec::Opus);
    let mut of_bare = line(&bare, 1, Time::NEVER);
    of_bare.run(until(20), &mut |_, _| Some(SATELLITE));
    assert!(of_bare.figures(1)["r"].is_nan() && of_bare.figures(1)["mos"].is_nan());
    let wanted = Config { good: crate::call::Good { r: Some(70.0), ..Default::default() }, ..bare };
    assert_eq!(wanted.settings().map(|_| ()).unwrap_err().key, "good.r");
    let given = Config { impairment: Some(crate::emodel::Impairment { ie: 10.0, bpl: 20.0 }), ..wanted };
    assert!(given.settings().is_ok());
}

#[test]
fn adaptive_buffers_follow_a_longer_path() {
    for playout in [Playout::FastRise, Playout::Spikes, Playout::Minimum] {
        let mut line = line(&Config { playout, ..Config::new(Codec::G711U) }, 1, Time::NEVER);
        line.run(until(60), &mut |_, _| Some(SATELLITE));
        line.run(until(180), &mut |_, _| Some(SATELLITE + Span::from_millis(200)));
        let now = line.figures(1);
        assert!(now["loss-now"] < 0.05 || now["loss-now"].is_nan(), "{playout:?}: {}", now["loss-now"]);
    }
}

#[test]
fn hostile_packets_are_counted_and_change_nothing() {
    let mut line = line(&Config::new(Codec::G711U), 2, Time::NEVER);
    line.run(until(5), &mut |_, _| Some(SATELLITE));
    let mut stream = RandomStream::new(9, "noise");
    let packets: Vec<Packet> = line.seen[1].iter().take(200).cloned().collect();
    for packet in packets {
        let mut bytes = packet.to_vec();
        let at = (stream.unit() * bytes.len() as f64) as usize;
        bytes[at] ^= 1 << (stream.next_u32() % 8);
        bytes.truncate((stream.unit() * bytes.len() as f64 * 2.0) as usize);
        line.turn(0, Some(Packet::from_bytes(&bytes)), &mut |_, _| None);
    }
    line.run(until(30), &mut |_, _| Some(SATELLITE));
    let figures = line.figures(0);
    assert!(figures["dropped-bad-checksum"] + figures["dropped-unexpected"] > 100.0);
    assert_eq!(figures["lost"], 0.0);
}

/// Statistics of an RTP stream by tshark: packets, losses, maximum jitter in milliseconds.
fn judged(arrived: &[(Time, Packet)]) -> Option<Vec<(u64, i64, f64)>> {
    let scratch = bentpipe_testkit::Folder::new();
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).expect("a header");
    for (at, packet) in arrived {
        writer.write(at.as_nanos(), packet.header(), packet.elided()).expect("a record");
    }
    let capture = scratch.write("call.pcap", writer.into_inner());
    let tshark = bentpipe_testkit::Tshark::on(&capture)?;
    // As reports say it: nothing names the port.
    let text = tshark.options(&["--enable-heuristic", "rtp_udp", "-q", "-z", "rtp,streams"]).text();
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let share = words.iter().position(|word| word.starts_with('(') && word.ends_with("%)"))?;
        let jitter = words.get(share + 6)?.parse().ok()?;
        Some((words[share - 2].parse().ok()?, words[share - 1].parse().ok()?, jitter))
    });
    Some(rows.collect())
}

#[test]
fn tshark_measures_the_same_stream() {
    let mut line = line(&Config { rtcp: Rtcp::None, ..always(Config::new(Codec::G711U)) }, 1, Time::NEVER);
    // Each 40th packet is lost, and delays alternate by 10 ms.
    line.run(until(60), &mut |_, n| match n {
        n if n % 40 == 7 => None,
        n if n % 2 == 0 => Some(SATELLITE + Span::from_millis(10)),
        _ => Some(SATELLITE),
    });
    let Some(streams) = judged(&line.arrived) else { return };
    let figures = line.figures(1);
    let [(packets, lost, jitter)] = streams[..] else { panic!("{streams:?}") };
    assert_eq!((packets as f64, lost as f64), (figures["packets"], figures["lost"]));
    assert!((jitter / 1e3 - figures["jitter"]).abs() < 1e-3, "{jitter} ms, {} s", figures["jitter"]);
}

/// A bridge's end with two members, its packets for one mix of three sources, and its answers to the members' packets.
#[test]
fn mixes_have_their_sources_in_rtp() {
    use crate::call::exchange::{Mix, Source};
    let settings = Config::new(Codec::G729).settings().expect("possible");
    let [local, remote] = ["10.0.0.1:5000", "10.0.0.2:6000"].map(address);
    let plan = Plan {
        settings,
        ends: Ends { local, remote },
        side: Side::Bridge,
        count: 2,
        start: Time::ZERO,
        stop: Time::NEVER,
        conversations: (7, "test".to_owned()),
    };
    let (mut agent, mut stream) = (Agent::new(plan), RandomStream::new(1, "bridge"));
    let mut turn = |now: Time, packet: Option<(Port, Packet)>| {
        let (mut outbox, wires) = (Outbox::default(), [0, 1].map(|port| Wire::new(0, Port(port))));
        let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
        match packet {
            Some((port, packet)) => agent.receive(port, packet, &mut cx),
            None => agent.wake(&mut cx),
        };
        let sent: Vec<_> =
            std::iter::from_fn(|| outbox.pop()).map(|(wire, packet)| (wire.port(), packet)).collect();
        sent
    };
    assert_eq!(turn(Time::ZERO, None).len(), 1, "it joins the bridge");
    let sound = Sound { rooms: 3, speech: Some(Source { is_concealed: true, impairment: None }) };
    let mouth = Some(Time::from_nanos(5 * MS));
    let mix = Mix { member: 1, is_speech: true, mouth, sources: vec![0x11, 0xabcd, 7], sound };
    let now = Time::from_nanos(100 * MS);
    assert!(turn(now, Some((BRIDGE, mix.into_packet()))).is_empty(), "the encoder looks ahead");
    let at = now + Span::from_millis(5);
    let [(NODE, packet)] = &turn(at, None)[..] else { panic!("one packet") };
    // From the mouth to here, less the 25 ms that its receiver adds.
    assert_eq!(packet.created_at(), Time::from_nanos(30 * MS));
    assert_eq!(packet.len(), 20 + 8 + 12 + 3 * 4 + 20);
    let scratch = bentpipe_testkit::Folder::new();
    let bytes = packet.to_vec();
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).expect("a header");
    writer.write(at.as_nanos(), &bytes, 0).expect("a record");
    let capture = scratch.write("mix.pcap", writer.into_inner());
    let Some(tshark) = bentpipe_testkit::Tshark::on(&capture) else { return };
    let fields = tshark.decode_as("udp.port==6002,rtp").fields(&[
        "rtp.cc",
        "rtp.csrc.item",
        "rtp.marker",
        "udp.dstport",
    ]);
    let [row] = &fields[..] else { panic!("{fields:?}") };
    let sources: Vec<u32> = row[1]
        .split(',')
        .map(|item| {
            let item = item.trim();
            item.strip_prefix("0x")
                .map_or_else(|| item.parse(), |hex| u32::from_str_radix(hex, 16))
                .expect("a number")
        })
        .collect();
    assert_eq!((row[0].as_str(), sources, row[3].as_str()), ("3", vec![0x11, 0xabcd, 7], "6002"));
}
