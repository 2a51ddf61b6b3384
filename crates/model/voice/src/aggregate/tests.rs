//! Packets of several calls through an aggregator and its partner.

use std::net::SocketAddr;

use bentpipe_net::{Outbox, Wire};
use bentpipe_transport::app::{Endpoints, datagram};
use bentpipe_units::RandomStream;
use bentpipe_wire::rtp;

use super::*;

/// Calls a function with a context, and returns what it sent.
fn with_cx(now: Time, act: impl FnOnce(&mut Cx<'_>)) -> Vec<Packet> {
    let (mut outbox, wires) = (Outbox::default(), [Wire::new(0, Port(0))]);
    act(&mut Cx::new(now, &wires, &mut outbox, &mut RandomStream::new(1, "test")));
    std::iter::from_fn(|| outbox.pop().map(|(_, packet)| packet)).collect()
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Packet `number` of a call with G.729: 60 bytes.
fn voice(call: u16, number: u16) -> Packet {
    let [source, destination] = [("10.0.0.1", 5000), ("10.0.0.2", 6000)]
        .map(|(ip, port)| SocketAddr::new(ip.parse().unwrap(), port + 2 * call));
    let mut payload = vec![0; 32];
    rtp::Repr::new(18, number, 160 * u32::from(number), call.into()).emit(&mut payload);
    let mut packet = Packet::from_bytes(&datagram(Endpoints { source, destination }, &payload));
    packet.set_created_at(at_ms(20 * u64::from(number)));
    packet
}

/// Sends 50 packets of each call, and returns what arrives and the bytes on the medium.
fn carry(config: Config, calls: u16) -> (Vec<Packet>, usize) {
    config.check().expect("possible");
    let (mut front, mut behind) = (Aggregator::new(config), Separator::new(&config));
    let (mut arrived, mut on_medium) = (Vec::new(), 0);
    for number in 0..50 {
        let now = at_ms(20 * u64::from(number));
        let mut sent = with_cx(now, |cx| {
            (0..calls).for_each(|call| {
                front.receive(Port(0), voice(call, number), cx);
            });
        });
        sent.extend(with_cx(now + config.period, |cx| {
            front.wake(cx);
        }));
        let outer = config.outer.len();
        for packet in sent {
            on_medium += packet.len();
            assert!(packet.len() as u64 <= config.size.get().max(61), "{}", packet.len());
            assert!(packet.header().len() >= outer);
            arrived.extend(with_cx(now, |cx| {
                behind.receive(Port(0), packet, cx);
            }));
        }
    }
    (arrived, on_medium)
}

#[test]
fn packets_come_out_as_they_went_in() {
    let versions = [(false, RohcVersion::V1), (true, RohcVersion::V1), (true, RohcVersion::V2)];
    let both = versions.map(|(rohc, version)| [Outer::L2tp, Outer::Ppp].map(|outer| (rohc, version, outer)));
    for (rohc, rohc_version, outer) in both.into_iter().flatten() {
        let (arrived, _) = carry(Config { rohc, rohc_version, outer, ..Config::default() }, 10);
        assert_eq!(arrived.len(), 500);
        for (n, packet) in arrived.iter().enumerate() {
            let sent = voice((n % 10) as u16, (n / 10) as u16);
            assert_eq!(
                (packet.to_vec(), packet.created_at()),
                (sent.to_vec(), sent.created_at()),
                "packet {n}"
            );
        }
    }
}

/// Ten calls of 60 bytes: an aggregate has 25 bytes of outer headers, one of protocol, and one of length for each.
#[test]
fn savings_are_those_of_the_formats() {
    let plain = 500 * 60;
    let (_, alone) = carry(Config { max_packet: Bytes::new(10), ..Config::default() }, 10);
    assert_eq!(alone, plain);
    let (_, aggregated) = carry(Config::default(), 10);
    assert_eq!(aggregated, 50 * (OUTER_LEN + 1 + 10 * 61));
    let (_, both) = carry(Config { rohc: true, ..Config::default() }, 10);
    // Compressed headers have at most 6 bytes in place of 40, after the first packets.
    assert!(both < 50 * (OUTER_LEN + 1 + 10 * 27) + 3 * 10 * 45, "{both}");
    assert!(both < aggregated / 2 + aggregated / 10);
    let second = Config { rohc: true, rohc_version: RohcVersion::V2, ..Config::default() };
    let (_, second) = carry(second, 10);
    assert!((second as f64 / both as f64 - 1.0).abs() < 0.1, "{second} by version 2, {both} by version 1");
}

/// PPP: one byte in front of a packet that is alone, or of subframes with lengths (RFC 3153).
#[test]
fn frames_of_a_line_have_no_tunnel() {
    let ppp = Config { outer: Outer::Ppp, ..Config::default() };
    let (_, aggregated) = carry(ppp, 10);
    assert_eq!(aggregated, 50 * (1 + 1 + 10 * 61));
    let (_, alone) = carry(Config { period: Span::ZERO, ..ppp }, 10);
    assert_eq!(alone, 500 * 61);
    let (arrived, passed) = carry(Config { max_packet: Bytes::new(10), ..ppp }, 10);
    assert_eq!((arrived.len(), passed, arrived[7].to_vec()), (500, 500 * 61, voice(7, 0).to_vec()));
    let (arrived, compressed) = carry(Config { period: Span::ZERO, rohc: true, ..ppp }, 10);
    assert_eq!(arrived.len(), 500);
    // Protocol, a large CID, and a compressed header of at most 5 bytes.
    assert!(compressed < 500 * (1 + 6 + 20) + 3 * 10 * 45, "{compressed}");
}

/// PPP, a protocol field, and what CRTP (RFC 2508) or IPHC (RFC 2507) leave of 40 bytes; Van Jacobson's scheme has TCP only.
#[test]
fn schemes_before_rohc_save_what_their_formats_say() {
    let config =
        |scheme| Config { period: Span::ZERO, outer: Outer::Ppp, scheme: Some(scheme), ..Config::default() };
    for outer in [Outer::L2tp, Outer::Ppp] {
        for scheme in [Scheme::Vj, Scheme::Iphc, Scheme::Crtp] {
            let (arrived, _) = carry(Config { outer, ..config(scheme) }, 10);
            assert_eq!(arrived.len(), 500);
            for (n, packet) in arrived.iter().enumerate() {
                assert_eq!(packet.to_vec(), voice((n % 10) as u16, (n / 10) as u16).to_vec(), "packet {n}");
            }
        }
    }
    let bytes = |scheme| carry(config(scheme), 10).1;
    assert_eq!(bytes(Scheme::Vj), 500 * 61);
    // A full header, then one with new differences, one byte of the identification and two of the time stamp; then
    // identifier, sequence and checksum.
    assert_eq!(bytes(Scheme::Crtp), 10 * (61 + 1 + 20 + 4 + 1 + 2 + 48 * (1 + 20 + 4)));
    // Full headers after 1, 2, 4, 8 and 16 others; else identifier, generation, identification and checksum, and RTP.
    assert_eq!(bytes(Scheme::Iphc), 10 * (6 * 61 + 44 * (1 + 32 + 6)));
    assert!(Config { rohc: true, ..config(Scheme::Vj) }.check().is_err());
}

#[test]
fn a_size_and_a_period_bound_an_aggregate() {
    let (arrived, on_medium) =
        carry(Config { size: Bytes::new(220), max_packet: Bytes::new(200), ..Config::default() }, 10);
    // Three packets of 60 fit: 25 + 62 + 2 * 61 = 209.
    assert_eq!((arrived.len(), on_medium), (500, 50 * (3 * 209 + 25 + 62)));
    let mut front = Aggregator::new(Config { period: Span::from_millis(7), ..Config::default() });
    let mut deadline = Time::NEVER;
    let sent = with_cx(at_ms(100), |cx| deadline = front.receive(Port(0), voice(0, 5), cx));
    assert_eq!((sent.len(), deadline), (0, at_ms(107)));
    let sent = with_cx(deadline, |cx| deadline = front.wake(cx));
    assert_eq!((sent.len(), deadline), (1, Time::NEVER));
    assert_eq!(front.waited_ns, 7_000_000);
}

#[test]
fn long_packets_pass_and_keep_their_order() {
    let mut front = Aggregator::new(Config::default());
    let long = Packet::new(40, 1000);
    let sent = with_cx(at_ms(0), |cx| {
        front.receive(Port(0), voice(0, 0), cx);
        front.receive(Port(0), long.clone(), cx);
    });
    assert_eq!((sent.len(), &sent[1]), (2, &long));
    assert!(is_aggregate(sent[0].header()));
}

#[test]
fn hostile_aggregates_are_counted() {
    let mut front = Aggregator::new(Config { rohc: true, ..Config::default() });
    let sent = with_cx(at_ms(0), |cx| {
        (0..5).for_each(|call| {
            front.receive(Port(0), voice(call, 0), cx);
        });
        front.flush(cx);
    });
    let mut stream = RandomStream::new(3, "bits");
    for n in 0..2000 {
        // A frame of PPP is an aggregate without the tunnel.
        let (outer, skipped) = if n % 2 == 0 { (Outer::L2tp, 0) } else { (Outer::Ppp, OUTER_LEN - 1) };
        let mut behind = Separator::new(&Config { rohc: true, outer, ..Config::default() });
        let mut bytes = sent[0].to_vec();
        for _ in 0..3 {
            let bit = OUTER_LEN * 8 + (stream.unit() * ((bytes.len() - OUTER_LEN) * 8) as f64) as usize;
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
        bytes.truncate(OUTER_LEN + (stream.unit() * bytes.len() as f64) as usize);
        bytes.drain(..skipped);
        with_cx(at_ms(0), |cx| {
            behind.receive(Port(0), Packet::from_bytes(&bytes), cx);
        });
    }
    assert!(Config { size: Bytes::new(63), ..Config::default() }.check().is_err());
    assert!(Config { max_packet: Bytes::new(1401), ..Config::default() }.check().is_err());
}

#[test]
fn the_outer_header_has_the_dscp_that_all_packets_have() {
    /// Returns the outer traffic class of an aggregate of packets with these.
    fn outer_of(classes: &[u8]) -> u8 {
        let mut front = Aggregator::new(Config::default());
        let mut sent = with_cx(at_ms(0), |cx| {
            for class in classes {
                let mut packet = voice(1, 0);
                packet.header_mut()[1] = *class;
                front.receive(Port(0), packet, cx);
            }
        });
        sent.extend(with_cx(at_ms(20), |cx| {
            front.wake(cx);
        }));
        assert_eq!(sent.len(), 1);
        sent[0].header()[1]
    }
    let (voice, video) = (46 << 2, 34 << 2);
    assert_eq!(outer_of(&[voice, voice, voice]), voice);
    assert_eq!(outer_of(&[voice, video, voice]), 0, "no mark of one packet is forced on another");
    assert_eq!(outer_of(&[voice | 2, voice | 1]), voice, "ECN is not copied");
    assert_eq!(outer_of(&[0, voice]), 0);
}

/// Both directions of a line with 100 ms, and which voice packets of the first come out as they went in.
///
/// Of the frames of each direction one in `one_in` is lost.
fn carry_with_losses(config: Config, one_in: u64) -> usize {
    config.check().expect("possible");
    let wires = [0, 1, 2].map(|port| Wire::new(port, Port(0)));
    let act = |now: Time, act: &mut dyn FnMut(&mut Cx<'_>)| {
        let mut outbox = Outbox::default();
        act(&mut Cx::new(now, &wires, &mut outbox, &mut RandomStream::new(1, "test")));
        let port = |wire: Wire| wires.iter().position(|one| *one == wire).expect("an output");
        std::iter::from_fn(|| outbox.pop().map(|(wire, packet)| (port(wire), packet))).collect::<Vec<_>>()
    };
    let mut fronts = [0, 1].map(|_| Aggregator::new(config));
    let mut partners = [0, 1].map(|_| Separator::new(&config));
    let mut on_way: std::collections::VecDeque<(Time, usize, Packet)> = std::collections::VecDeque::new();
    let (mut right, mut frames) = (0, 0);
    for number in 0..1000 {
        let now = at_ms(20 * u64::from(number));
        let mut sent: Vec<(usize, Packet)> = Vec::new();
        while on_way.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, way, frame)) = on_way.pop_front() else { break };
            let came = act(now, &mut |cx| {
                partners[way].receive(Port(0), frame.clone(), cx);
            });
            for (port, packet) in came {
                match port {
                    0 if way == 0 => {
                        let number = u16::from_be_bytes([packet.header()[30], packet.header()[31]]);
                        right += usize::from(packet.to_vec() == voice(0, number).to_vec());
                    }
                    0 => {}
                    port => {
                        let back = 1 - way;
                        let out = act(now, &mut |cx| {
                            fronts[back].receive(Port(port as u16), packet.clone(), cx);
                        });
                        sent.extend(out.into_iter().map(|(_, packet)| (back, packet)));
                    }
                }
            }
        }
        let out = act(now, &mut |cx| {
            fronts[0].receive(Port(0), voice(0, number), cx);
        });
        sent.extend(out.into_iter().map(|(_, packet)| (0, packet)));
        for (way, packet) in sent {
            frames += 1;
            if frames % one_in != 0 {
                on_way.push_back((now + Span::from_millis(100), way, packet));
            }
        }
    }
    right
}

/// Feedback ends within a round trip what a loss began; without it a context waits for its next refresh.
#[test]
fn feedback_goes_with_the_packets_of_the_other_direction() {
    for outer in [Outer::Ppp, Outer::L2tp] {
        let plain = Config { period: Span::ZERO, outer, ..Config::default() };
        let crtp = Config { scheme: Some(Scheme::Crtp), ..plain };
        let [without, with] =
            [false, true].map(|feedback| carry_with_losses(Config { feedback, ..crtp }, 83));
        // 12 losses; 200 ms are 10 packets, and one more finds the gap.
        assert!(with > 1000 - 12 * 14 && without < 500, "{outer:?}: {without}, with feedback {with}");
        let rohc = Config { rohc: true, feedback: true, ..plain };
        let robust = carry_with_losses(rohc, 83);
        assert!(robust > 980, "{outer:?}: {robust}");
    }
    assert!(Config { feedback: true, ..Config::default() }.check().is_err());
    let vj = Config { feedback: true, scheme: Some(Scheme::Vj), ..Config::default() };
    assert!(vj.check().is_err(), "RFC 1144 has none");
}
