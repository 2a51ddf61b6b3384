//! Voice with peers that move, hold, send from elsewhere, send back what they get, or dial digits.
#![allow(clippy::disallowed_methods, reason = "waits for packets in real time")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_phone::{Answering, Dialling, Figures, MediaSettings, Phone, PhoneVoice, answer, place};
use bentpipe_signalling::agent::Config;
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction};
use bentpipe_signalling::sip::Transport;
use bentpipe_signalling::transaction::Peer;
use bentpipe_testkit::Watch;
use bentpipe_units::Span;
use bentpipe_wire::rtp;
use serde_json::Value;

/// Returns an address of loopback that is of this process alone.
fn host(last: u8) -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 1, low, last).into()
}

fn phone(last: u8, digits: &str) -> (Phone, SocketAddr) {
    let at = SocketAddr::new(host(last), 25_060);
    let mut phone = Phone::open(Config::new("bob", at), u64::from(last)).expect("sockets");
    let voice = PhoneVoice { lines: 4, ..PhoneVoice::default() };
    let digits = digits.to_owned();
    let settings = MediaSettings { voice, first_port: 26_000, clock_error: None, digits };
    phone.open_media(&settings).expect("lines");
    (phone, at)
}

fn answering(address: IpAddr) -> Answering {
    Answering {
        most: 100,
        refuse: None,
        ring: Span::ZERO,
        hold: None,
        calls: None,
        duration: None,
        early: false,
        capabilities: capabilities(address),
    }
}

fn capabilities(address: IpAddr) -> Capabilities {
    let codecs = vec![Codec::new(8, "PCMA", 8000)];
    Capabilities { address, port: 4000, codecs, ptime: 20, direction: Direction::SendRecv }
}

/// Caller without a phone: it sends requests as text, and has two sockets for voice.
struct Caller {
    signals: UdpSocket,
    voice: [UdpSocket; 2],
    to: SocketAddr,
    tag: String,
    number: u32,
}

impl Caller {
    fn new(last: u8, to: SocketAddr) -> Caller {
        let socket = || {
            let socket = UdpSocket::bind((host(last), 0)).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
            socket
        };
        Caller { signals: socket(), voice: [socket(), socket()], to, tag: String::new(), number: 0 }
    }

    fn send(&self, method: &str, body: &str) {
        let (from, to, tag, number) =
            (self.signals.local_addr().expect("bound"), self.to, &self.tag, self.number);
        let request = format!(
            "{method} sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{method}{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@{from}>;tag=a\r\nTo: <sip:bob@{to}>{tag}\r\nCall-ID: one\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:alice@{from}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.signals.send_to(request.as_bytes(), to).expect("sent");
    }

    /// Offers voice at an address with attributes, and acknowledges the answer, which it returns.
    fn offer(&mut self, at: SocketAddr, attribute: &str) -> String {
        self.number += 1;
        let (ip, port) = (at.ip(), at.port());
        self.send(
            "INVITE",
            &format!(
                "v=0\r\no=- 1 {} IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {port} RTP/AVP 8 96\r\n\
                 a=rtpmap:96 telephone-event/8000\r\n{attribute}",
                self.number
            ),
        );
        let (mut bytes, cseq) = ([0; 4000], format!("CSeq: {} INVITE\r\n", self.number));
        let answer = loop {
            let count = self.signals.recv(&mut bytes).expect("an answer");
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text.starts_with("SIP/2.0 200") && text.contains(&cseq) {
                break text;
            }
        };
        let line = answer.lines().find(|line| line.starts_with("To:")).expect("a header");
        self.tag = line[line.find(";tag=").expect("a tag")..].to_owned();
        self.send("ACK", "");
        answer
    }

    fn at(&self, n: usize) -> SocketAddr {
        self.voice[n].local_addr().expect("bound")
    }

    /// Returns the packets that come to each socket in a third of a second, after those on their way.
    fn heard(&self) -> [usize; 2] {
        std::thread::sleep(Duration::from_millis(60));
        let drain = |socket: &UdpSocket| {
            socket.set_nonblocking(true).expect("set");
            let count = std::iter::from_fn(|| socket.recv(&mut [0; 2000]).ok()).count();
            socket.set_nonblocking(false).expect("set");
            count
        };
        let _ = self.voice.iter().map(&drain).sum::<usize>();
        std::thread::sleep(Duration::from_millis(330));
        [drain(&self.voice[0]), drain(&self.voice[1])]
    }
}

/// Sends packets of speech in sequence, one each 20 ms.
fn speak(from: &UdpSocket, to: SocketAddr, (ssrc, first, count): (u32, u16, u16)) {
    for n in 0..count {
        let mut bytes = vec![0xd5; rtp::HEADER_LEN + 160];
        rtp::Repr::new(8, first + n, 160 * u32::from(n), ssrc).emit(&mut bytes[..rtp::HEADER_LEN]);
        from.send_to(&bytes, to).expect("sent");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has a phone answer while a caller acts, and returns the figures.
fn answered(last: u8, act: impl FnOnce(&mut Caller)) -> (Figures, Value) {
    let (mut phone, at) = phone(last, "");
    let (plan, stop) = (answering(at.ip()), AtomicBool::new(false));
    let mut caller = Caller::new(last + 1, at);
    let figures = std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&mut phone, &plan, &stop, |_| {}));
        act(&mut caller);
        stop.store(true, Ordering::Relaxed);
        answering.join().expect("no panic").expect("no registration")
    });
    let voice = figures.voice.clone().expect("figures");
    (figures, voice)
}

fn count(voice: &Value, keys: &[&str]) -> u64 {
    let found = keys.iter().fold(voice, |value, key| &value[*key]);
    found.as_f64().unwrap_or_default() as u64
}

#[test]
fn voice_follows_each_offer_at_once() {
    let many = |heard: usize| heard > 8;
    let (figures, _) = answered(20, |caller| {
        let [a, b] = [caller.at(0), caller.at(1)];
        let answer = caller.offer(a, "a=sendonly\r\n");
        assert!(answer.contains("a=recvonly"));
        assert_eq!(caller.heard(), [0, 0], "the first offer only sends");
        caller.offer(a, "");
        let heard = caller.heard();
        assert!(many(heard[0]) && heard[1] == 0, "{heard:?}");
        caller.offer(b, "");
        let heard = caller.heard();
        assert!(many(heard[1]) && heard[0] == 0, "moved: {heard:?}");
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, b.port()));
        for (at, attribute, said) in [
            (b, "a=sendonly\r\n", "a=recvonly"),
            (b, "a=inactive\r\n", "a=inactive"),
            (nowhere, "", "a=recvonly"),
        ] {
            let answer = caller.offer(at, attribute);
            assert!(answer.contains(said), "told and done are the same: {answer}");
            assert_eq!(caller.heard(), [0, 0], "{attribute}{at}");
        }
        let answer = caller.offer(a, "a=recvonly\r\n");
        assert!(answer.contains("a=sendonly"));
        let heard = caller.heard();
        assert!(many(heard[0]) && heard[1] == 0, "resumed: {heard:?}");
    });
    assert_eq!((figures.calls, figures.established), (1, 1));
}

#[test]
fn voice_from_another_port_is_taken_and_answered_and_injected_packets_are_counted() {
    let (_, voice) = answered(24, |caller| {
        caller.offer(caller.at(0), "");
        let line = SocketAddr::new(caller.to.ip(), 26_000);
        let stranger = UdpSocket::bind((host(26), 0)).expect("a socket");
        std::thread::scope(|scope| {
            scope.spawn(|| speak(&caller.voice[1], line, (7, 100, 40)));
            std::thread::sleep(Duration::from_millis(50));
            speak(&stranger, line, (8, 5000, 30));
        });
        let heard = caller.heard();
        assert!(heard[1] > 10 && heard[0] == 0, "voice goes where it comes from: {heard:?}");
        // A type that was not negotiated, and what is no packet.
        let mut other = vec![0; rtp::HEADER_LEN + 20];
        rtp::Repr::new(18, 200, 0, 7).emit(&mut other[..rtp::HEADER_LEN]);
        caller.voice[1].send_to(&other, line).expect("sent");
        caller.voice[1].send_to(b"speech", line).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
    });
    assert_eq!((count(&voice, &["received"]), count(&voice, &["lost"])), (40, 0), "{voice}");
    assert_eq!(count(&voice, &["refused", "other-source"]), 30, "{voice}");
    assert_eq!(count(&voice, &["refused", "payload-type"]), 1, "{voice}");
    assert_eq!(count(&voice, &["refused", "malformed"]), 1, "{voice}");
    let outcomes = ["played", "late", "duplicates"].map(|key| count(&voice, &[key]));
    assert_eq!(outcomes.iter().sum::<u64>(), 40, "one account: {voice}");
}

#[test]
fn own_packets_that_come_back_are_no_speech_of_the_other_side() {
    // As they are, and with another source and other numbers.
    for (last, changed) in [(28, false), (30, true)] {
        let (_, voice) = answered(last, |caller| {
            caller.offer(caller.at(0), "");
            let (end, mut bytes) = (Instant::now() + Duration::from_millis(600), [0; 2000]);
            while Instant::now() < end {
                let (len, from) = caller.voice[0].recv_from(&mut bytes).expect("voice");
                if changed {
                    bytes[3] = bytes[3].wrapping_add(9);
                    bytes[11] ^= 1;
                }
                caller.voice[0].send_to(&bytes[..len], from).expect("sent");
            }
            std::thread::sleep(Duration::from_millis(50));
        });
        assert!(count(&voice, &["sent-back", "packets"]) >= 20, "{voice}");
        assert_eq!(count(&voice, &["received"]), 0, "{voice}");
        assert!(voice["mouth-to-ear-ms"].is_null() && voice["loss"].is_null(), "{voice}");
        let trip = voice["sent-back"]["round-trip-ms"].as_f64().expect("known by its marks");
        assert!(trip < 20.0, "{voice}");
    }
}

/// Every fifth packet of its stream is the other side's own; none is lost.
#[test]
fn a_stream_of_own_packets_and_others_has_all_its_numbers() {
    let (_, voice) = answered(36, |caller| {
        caller.offer(caller.at(0), "");
        let (end, mut bytes, mut seq) = (Instant::now() + Duration::from_millis(900), [0; 2000], 700_u16);
        while Instant::now() < end {
            let (len, from) = caller.voice[0].recv_from(&mut bytes).expect("voice");
            bytes[2..4].copy_from_slice(&seq.to_be_bytes());
            bytes[11] ^= 1;
            if seq.is_multiple_of(5) {
                bytes[rtp::HEADER_LEN..len].fill(0xd5);
            }
            seq += 1;
            caller.voice[0].send_to(&bytes[..len], from).expect("sent");
        }
        std::thread::sleep(Duration::from_millis(50));
    });
    let back = count(&voice, &["sent-back", "packets"]);
    assert!(back >= 25 && count(&voice, &["received"]) >= 30, "{voice}");
    assert_eq!((count(&voice, &["lost"]), count(&voice, &["sent-back", "lost"])), (0, 0), "{voice}");
    assert!(voice["mouth-to-ear-ms"].is_null() && voice["loss"] == 0.0, "{voice}");
}

/// A phone whose peer has no program at its port knows at once (RFC 3261 18.4), over UDP and TCP.
#[test]
fn a_closed_port_is_a_refused_connection() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let (mut caller, _) = phone(37, "");
        let closed = UdpSocket::bind((host(38), 0)).expect("a socket").local_addr().expect("bound");
        let dialling = Dialling {
            target: format!("sip:bob@{closed}").parse().expect("a URI"),
            peer: Peer { transport, address: closed },
            calls: 2,
            interval: Span::from_millis(20),
            hold: Span::from_millis(100),
            ring_limit: Span::from_secs(60),
            capabilities: capabilities(host(37)),
            duration: None,
            random: None,
        };
        let (watch, started) = (Watch::start(), Instant::now());
        let figures = place(&mut caller, &dialling, &AtomicBool::new(false), |_| {});
        let (taken, late) = (started.elapsed(), watch.end());
        assert!(
            taken < Duration::from_secs(30) + late.worst(),
            "{taken:?}, timer B ends them after 32 s: {late:?}"
        );
        let reasons: Vec<(&String, &u64)> = figures.failed.iter().collect();
        assert!(
            matches!(&reasons[..], [(reason, 2)] if reason.starts_with("connection refused")),
            "{reasons:?}"
        );
    }
}

/// A call in which nothing came from the other side says so.
#[test]
fn a_call_without_voice_of_the_other_side_is_named() {
    let (figures, voice) = answered(39, |caller| {
        caller.offer(caller.at(0), "");
        std::thread::sleep(Duration::from_millis(100));
    });
    assert_eq!(count(&voice, &["calls-without-voice"]), 1, "{voice}");
    let shown = figures.to_string();
    assert!(shown.contains("no voice came from the other side in 1 of 1 call\n"), "{shown}");
    assert!(figures.to_json()["post-dial-delay-ms"]["p50"].is_null(), "nothing has no median");
}

#[test]
fn digits_are_dialled_in_the_voice_of_a_call() {
    let ((mut caller, _), (mut callee, address)) = (phone(32, "12#A"), phone(33, ""));
    let answering = answering(address.ip());
    let dialling = Dialling {
        target: format!("sip:bob@{address}").parse().expect("a URI"),
        peer: Peer { transport: Transport::Udp, address },
        calls: 1,
        interval: Span::from_millis(50),
        hold: Span::from_millis(2000),
        ring_limit: Span::from_secs(60),
        capabilities: capabilities(address.ip()),
        duration: None,
        random: None,
    };
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let (placed, answered) = std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&mut callee, &answering, &stop, |_| {}));
        let placed = place(&mut caller, &dialling, &never, |_| {});
        stop.store(true, Ordering::Relaxed);
        (placed, answering.join().expect("no panic").expect("no registration"))
    });
    let (sent, received) = (placed.voice.expect("figures"), answered.voice.expect("figures"));
    assert_eq!(sent["digits"]["sent"], "12#A");
    assert_eq!(received["digits"]["received"], "12#A");
    assert_eq!(count(&received, &["lost"]), 0, "events are in the account of speech: {received}");
}
