//! Links of frames end to end: packets arrive whole and in time, and losses are those of theory.

use bentpipe_net::Packet;
use bentpipe_net::queue::Discipline;
use bentpipe_net::testing::Harness;
use bentpipe_space::{Coding, Config, Frame, Receiver, Sender, Unit, decoded_ber, frame_loss, symbol_error};
use bentpipe_units::{Bytes, Rate, Span, Time};

fn config(frame: Frame, coding: Coding) -> Config {
    Config { frame, coding, ..Config::new(Rate::from_bps(1_000_000)) }
}

fn sender(config: &Config) -> Harness<Sender> {
    let queue = Discipline::default();
    Harness::new(Sender::new(config, &queue, Span::from_secs(1), Bytes::new(65_535)).expect("possible"))
}

/// Returns IPv4 packets of several lengths, numbered in their data.
fn packets(count: usize) -> Vec<Packet> {
    let one = |n: usize| {
        let len = 40 + (n * 389) % 3000;
        let mut bytes = vec![0; len];
        bytes[0] = 0x45;
        bytes[20..28].copy_from_slice(&(n as u64).to_be_bytes());
        bytes[len - 1] = n as u8;
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_created_at(Time::from_nanos(n as u64));
        packet
    };
    (0..count).map(one).collect()
}

/// Sends packets, and returns the frames that come out.
fn frames(sender: &mut Harness<Sender>, packets: &[Packet]) -> Vec<(Time, Packet)> {
    for (n, packet) in packets.iter().enumerate() {
        sender.receive(n as u64 * 30_000_000, 0, packet.clone());
    }
    sender.run_until(1_000_000_000_000);
    std::mem::take(&mut sender.out).into_iter().map(|(at, _, frame)| (at, frame)).collect()
}

fn received(receiver: &mut Harness<Receiver>, frames: &[(Time, Packet)]) -> Vec<Packet> {
    frames.iter().for_each(|(at, frame)| receiver.receive(at.as_nanos(), 0, frame.clone()));
    std::mem::take(&mut receiver.out).into_iter().map(|(_, _, packet)| packet).collect()
}

const KINDS: [(Frame, Coding); 8] = [
    (Frame::Tm, Coding::None),
    (Frame::Tm, Coding::ReedSolomon),
    (Frame::Tm, Coding::Concatenated),
    (Frame::Aos, Coding::Convolutional),
    (Frame::Aos, Coding::Turbo12),
    (Frame::Aos, Coding::Ldpc78),
    (Frame::Proximity1, Coding::None),
    (Frame::Proximity1, Coding::Convolutional),
];

#[test]
fn packets_arrive_whole_over_each_frame_and_code() {
    for (frame, coding) in KINDS {
        let config = config(frame, coding);
        let sent = packets(100);
        let frames = frames(&mut sender(&config), &sent);
        let found = received(&mut Harness::new(Receiver::default()), &frames);
        let [sent, found] = [&sent, &found].map(|all| all.iter().map(Packet::to_vec).collect::<Vec<_>>());
        assert!(found == sent, "{frame:?} {coding:?}: {} of {}", found.len(), sent.len());
    }
}

#[test]
fn creation_times_pass_and_a_lost_frame_costs_the_packets_in_it() {
    for (frame, coding) in KINDS {
        let sent = packets(100);
        let mut frames = frames(&mut sender(&config(frame, coding)), &sent);
        frames.remove(frames.len() / 2);
        let mut receiver = Harness::new(Receiver::default());
        let found = received(&mut receiver, &frames);
        let lost = sent.len() - found.len();
        assert!((1..30).contains(&lost), "{frame:?}: {lost} lost");
        assert!(
            found.iter().all(|packet| sent.iter().any(|sent| {
                (sent.created_at(), sent.to_vec()) == (packet.created_at(), packet.to_vec())
            }))
        );
        assert_eq!((receiver.value("sequence-gaps"), receiver.value("altered")), (1.0, 0.0), "{frame:?}");
    }
}

#[test]
fn frames_leave_in_their_slots() {
    // 1115 B and the marker at 1 Mbit/s: 8952 us.
    let config = config(Frame::Tm, Coding::None);
    let mut sender = sender(&config);
    let small = packets(1).remove(0);
    sender.receive(1, 0, small.clone());
    sender.receive(40_000_000, 0, small);
    sender.run_until(3_000_000_000);
    let times: Vec<u64> = sender.out.iter().map(|(at, _, _)| at.as_nanos() - 1_000_000_000).collect();
    assert_eq!(times, [2 * 8_952_000, 6 * 8_952_000]);
    assert_eq!(sender.value("frames-idle"), 4.0);
    // Frames of Proximity-1 wait for nothing: marker, header, CRC and the packet of 43 B in its encapsulation.
    let mut sender = self::sender(&self::config(Frame::Proximity1, Coding::None));
    sender.receive(1, 0, packets(1).remove(0));
    sender.run_until(3_000_000_000);
    assert_eq!(sender.out[0].0.as_nanos(), 1_000_000_001 + 8_000 * (3 + 5 + 43 + 4));
}

#[test]
fn headers_of_udp_are_left_out_if_the_link_is_native() {
    let payload = vec![7; 100];
    let mut bytes = vec![0; 28];
    bytes[..10].copy_from_slice(&[0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17]);
    bytes[22..24].copy_from_slice(&1113u16.to_be_bytes());
    bytes.extend(&payload);
    for (native, len) in [(true, 102), (false, 131)] {
        let config = Config { native, ..config(Frame::Proximity1, Coding::None) };
        let frames = frames(&mut sender(&config), &[Packet::from_bytes(&bytes)]);
        assert_eq!(frames[0].1.len(), 5 + len + 4);
        let found = received(&mut Harness::new(Receiver::default()), &frames);
        assert_eq!(found[0].to_vec(), bytes);
    }
}

#[test]
fn all_settings_change_while_frames_are_sent() {
    let mut sender = sender(&config(Frame::Tm, Coding::None));
    let mut receiver = Harness::new(Receiver::default());
    let sent = packets(240);
    let mut kinds = KINDS.iter().cycle();
    for (n, packet) in sent.iter().enumerate() {
        sender.receive(n as u64 * 30_000_000, 0, packet.clone());
        if n % 20 == 19 {
            let (frame, coding) = *kinds.next().expect("a cycle");
            let rate = Rate::from_bps(800_000 + 1000 * n as u64);
            let wanted = Config { rate, control_field: n % 40 == 19, ..config(frame, coding) };
            let now = Time::from_nanos(n as u64 * 30_000_000);
            sender.element.set(now, &wanted, Span::from_secs(1)).expect("possible");
            sender.poke();
        }
    }
    sender.run_until(1_000_000_000_000);
    let frames: Vec<_> =
        std::mem::take(&mut sender.out).into_iter().map(|(at, _, frame)| (at, frame)).collect();
    let found = received(&mut receiver, &frames);
    // A packet that is partly sent is lost if the form of frames changes.
    assert!(sent.len() - found.len() <= 8, "{} of {}", found.len(), sent.len());
    assert_eq!(receiver.value("crc-errors") + receiver.value("header-errors"), 0.0);
}

/// Sends `count` frames through the channel and returns the ratio of lost ones, and of wrong symbols.
fn loss(config: &Config, count: usize) -> (f64, f64) {
    let mut sender = sender(config);
    let mut receiver = Harness::new(Receiver::default());
    let mut packet = Packet::new(20, 6_000);
    packet.header_mut()[0] = 0x45;
    sender.receive(0, 0, packet.clone());
    let mut at = 0;
    while sender.out.len() < count {
        at += 20_000_000;
        sender.receive(at, 0, packet.clone());
    }
    for (at, _, frame) in sender.out.drain(..).take(count) {
        assert!(frame.carried::<Unit>().is_some());
        receiver.receive(at.as_nanos(), 0, frame);
    }
    let lost = receiver.value("frames-uncorrectable")
        + receiver.value("crc-errors")
        + receiver.value("header-errors");
    let symbols = receiver.value("channel-errors") / receiver.value("channel-symbols");
    (lost / count as f64, symbols)
}

/// Checks a ratio of `count` trials: within four standard deviations of a binomial number.
fn assert_ratio(found: f64, expected: f64, count: usize, what: &str) {
    let deviation = (expected * (1.0 - expected) / count as f64).sqrt();
    assert!((found - expected).abs() < 4.0 * deviation + 1e-9, "{what}: {found} for {expected}");
}

#[test]
fn uncoded_frames_are_lost_as_often_as_calculated() {
    for ber in [1e-5, 1e-4] {
        let config = Config { ber: Some(ber), ..config(Frame::Tm, Coding::None) };
        let (found, _) = loss(&config, 3000);
        assert_ratio(found, frame_loss(&config).expect("a formula"), 3000, "uncoded");
    }
    // Hard decisions of BPSK at 6 dB: Q(sqrt(2 x 3.98)).
    let config = Config { es_n0_db: Some(6.0), ..config(Frame::Tm, Coding::None) };
    assert!((symbol_error(&config) - 2.388e-3).abs() < 1e-5, "{}", symbol_error(&config));
}

#[test]
fn reed_solomon_loses_as_often_as_the_binomial_tail() {
    for (interleaving, ber) in [(1, 6e-3), (1, 8e-3), (5, 6e-3), (8, 5.5e-3)] {
        let config = Config { ber: Some(ber), interleaving, ..config(Frame::Tm, Coding::ReedSolomon) };
        let expected = frame_loss(&config).expect("a formula");
        assert!((0.005..0.995).contains(&expected), "{expected}");
        let (found, symbols) = loss(&config, 1000);
        assert_ratio(found, expected, 1000, "Reed-Solomon");
        assert!((symbols / ber - 1.0).abs() < 0.05, "{symbols}");
    }
}

#[test]
fn the_viterbi_decoder_is_as_good_as_the_union_bound_says() {
    // Soft decisions at 1.5 dB and 2 dB of Es/N0: 4.5 dB and 5 dB of Eb/N0; hard ones.
    for (es_n0_db, ber) in [(Some(1.2), None), (None, Some(0.02))] {
        let config = Config { es_n0_db, ber, ..config(Frame::Tm, Coding::Convolutional) };
        let (found, bound) = (loss(&config, 1000).0, frame_loss(&config).expect("a formula"));
        assert!((0.55..1.05).contains(&(found / bound)), "{config:?}: {found} for at most {bound}");
        assert!(decoded_ber(&config) < 1e-4, "{}", decoded_ber(&config));
    }
}

#[test]
fn the_concatenated_code_works_where_its_parts_do_not() {
    let with = |coding: Coding| Config { es_n0_db: Some(0.0), ..config(Frame::Tm, coding) };
    // 3.57 dB of Eb/N0 for the pair; published curves are below 1e-5 from 2.6 dB.
    assert_eq!(loss(&with(Coding::Concatenated), 100).0, 0.0);
    assert!(loss(&with(Coding::ReedSolomon), 100).0 > 0.99);
    assert!(loss(&with(Coding::Convolutional), 100).0 > 0.05);
}

#[test]
fn tables_lose_as_often_as_they_say() {
    let turbo = Config { es_n0_db: Some(0.85 - 3.03), ..config(Frame::Tm, Coding::Turbo12) };
    let expected = frame_loss(&turbo).expect("a row");
    assert!((0.005..0.2).contains(&expected), "{expected}");
    assert_ratio(loss(&turbo, 2000).0, expected, 2000, "turbo");
}

#[test]
fn impossible_settings_are_explained() {
    let refusal = |config: Config| {
        let queue = Discipline::default();
        Sender::new(&config, &queue, Span::ZERO, Bytes::new(1500)).expect_err("impossible").to_string()
    };
    let tm = config(Frame::Tm, Coding::None);
    let len = |coding, len: u64| Config { coding, frame_length: Some(Bytes::new(len)), ..tm };
    assert!(
        refusal(len(Coding::ReedSolomon, 1116))
            .contains("frame_length: expected a multiple of `interleaving`")
    );
    assert!(refusal(len(Coding::Turbo12, 1000)).contains("expected 1115 B"));
    assert!(refusal(len(Coding::Ldpc12, 1000)).contains("128 B, 512 B or 2048 B"));
    assert!(refusal(len(Coding::None, 4000)).contains("24 B to 2048 B"));
    assert!(
        refusal(Config { interleaving: 9, coding: Coding::ReedSolomon, ..tm })
            .contains("interleaving: expected 1 to 8")
    );
    assert!(
        refusal(Config { ber: Some(0.1), es_n0_db: Some(1.0), ..tm }).contains("one of `ber` and `es_n0_db`")
    );
    assert!(refusal(Config { ber: Some(f64::NAN), ..tm }).contains("ber: expected 0 to 0.5"));
    assert!(
        refusal(config(Frame::Proximity1, Coding::ReedSolomon)).contains("\"none\" or \"convolutional\"")
    );
    assert!(refusal(Config { rate: Rate::from_bps(0), ..tm }).contains("rate: expected above zero"));
}
