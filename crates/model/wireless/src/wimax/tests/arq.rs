//! ARQ: what it repairs, what it costs, and the bytes of its feedback.

use std::collections::BTreeMap;

use bentpipe_net::testing::Harness;
use bentpipe_wire::wman::arq::{Ack, Discard, Feedback};

use super::*;

/// SNR at which one block of 64-QAM 3/4 in ten is lost, and one in a hundred.
const TENTH: f64 = 20.2;
const HUNDREDTH: f64 = 21.0;

fn flow(arq: Option<Arq>) -> ServiceFlow {
    ServiceFlow { arq, ..ServiceFlow::default() }
}

/// Directions of a station, of which the downlink has this SNR and ARQ.
fn noisy(snr: [f64; 2], arq: Option<Arq>) -> Vec<PathConfig> {
    let mut all = paths(1);
    all[0].flows = vec![flow(arq)];
    for path in &mut all {
        path.radio = Radio { snr, profile: Some([Profile::Qam64R34; 2]), ..Radio::default() };
    }
    all
}

/// Sends numbered packets of `len` bytes downlink, one each 10 ms, and returns the numbers of those that arrive.
fn sent(rig: &mut Harness<Wimax>, count: u16, len: usize) -> Vec<u16> {
    (0..count).for_each(|n| rig.receive(u64::from(n) * 10 * MS, 0, numbered(n, len)));
    rig.run_until(u64::from(count) * 10 * MS + 3000 * MS);
    let number = |packet: &Packet| u16::from_be_bytes([packet.to_vec()[4], packet.to_vec()[5]]);
    rig.out.iter().map(|(.., packet)| number(packet)).collect()
}

/// Returns `true` if a count of successes in `n` trials of probability `p` is within four standard errors.
fn agrees(found: f64, p: f64, n: f64) -> bool {
    (found / n - p).abs() < 4.0 * (p * (1.0 - p) / n).sqrt()
}

#[test]
fn lost_blocks_are_sent_again_until_they_arrive() {
    // A packet of 64 bytes is a block, and its PDU is in one symbol.
    let p = Profile::Qam64R34.block_error(TENTH);
    let plain = sent(&mut rig(&testbed(), &noisy([TENTH, 30.0], None)), 4000, 64);
    assert!(agrees(plain.len() as f64, 1.0 - p, 4000.0), "{}", plain.len());
    let mut rig = rig(&testbed(), &noisy([TENTH, 30.0], Some(Arq::default())));
    let found = sent(&mut rig, 4000, 64);
    assert!(found == (0..4000).collect::<Vec<u16>>(), "{} in order", found.len());
    // Each block takes 1 / (1 - p) transmissions; in rounds, those of later blocks go with it.
    let blocks = total(&mut rig, "arq-blocks");
    assert!(agrees(4000.0, 1.0 - p, blocks), "{blocks} transmissions at {p}");
    assert_eq!(blocks - total(&mut rig, "arq-retransmitted-blocks"), 4000.0);
    assert_eq!((total(&mut rig, "dropped-errors"), total(&mut rig, "dropped-lifetime")), (0.0, 0.0));
}

#[test]
fn throughput_falls_by_the_share_of_lost_pdus() {
    let goodput = |snr: f64| {
        let arq = Arq { window: 1024, block: Bytes::new(512), ..Arq::default() };
        let mut rig = rig(&testbed(), &noisy([snr, 30.0], Some(arq)));
        for n in 0..4000 {
            rig.receive(n * MS, 0, packet(1500));
        }
        rig.run_until(4000 * MS);
        let lost = total(&mut rig, "mac-pdus-lost") / total(&mut rig, "mac-pdus");
        (delivered_bytes(&mut rig, 0), lost)
    };
    let ((clean, none), (noisy, lost)) = (goodput(40.0), goodput(HUNDREDTH));
    // 1500 bytes are three blocks, mostly whole in a PDU of 14 or 15 symbols. The window never stops the sender.
    let p = Profile::Qam64R34.block_error(HUNDREDTH);
    let expected = 1.0 - (1.0 - p).powf(14.5);
    assert!(none == 0.0 && (lost / expected - 1.0).abs() < 0.1, "{lost} of {expected}");
    assert!((noisy / clean / (1.0 - lost) - 1.0).abs() < 0.03, "{noisy} of {clean}, {lost} lost, {expected}");
}

#[test]
fn small_blocks_are_repeated_no_more_than_large_ones() {
    for (block, window) in [(64, 1024), (128, 512), (512, 128)] {
        let arq = Arq { window, block: Bytes::new(block), ..Arq::default() };
        let mut rig = rig(&testbed(), &noisy([HUNDREDTH, 30.0], Some(arq)));
        (0..4000).for_each(|n| rig.receive(n * MS, 0, packet(1500)));
        rig.run_until(4000 * MS);
        let lost = total(&mut rig, "mac-pdus-lost") / total(&mut rig, "mac-pdus");
        let again = total(&mut rig, "arq-retransmitted-blocks") / total(&mut rig, "arq-blocks");
        // Feedback of 1024 blocks takes 200 bytes, and grows while its grant is on the way.
        assert!(
            again < lost + 0.03,
            "{block} bytes: {again} of the blocks repeated, {lost} of the PDUs lost"
        );
    }
}

#[test]
fn feedback_fits_into_small_grants_part_by_part() {
    // A grant is two symbols of 12 bytes less the tail: header, subheader and CRC, and 11 of 12 bytes of feedback.
    let mut all = noisy([HUNDREDTH, 30.0], Some(Arq { block: Bytes::new(16), ..Arq::default() }));
    let profile = Some([Profile::Qam64R34, Profile::Bpsk12]);
    all.iter_mut().for_each(|path| path.radio.profile = profile);
    let ugs = ServiceFlow { service: Service::Ugs, sdu: Bytes::new(6), ..ServiceFlow::default() };
    all[1].flows = vec![ugs];
    let mut rig = rig(&testbed(), &all);
    assert!(sent(&mut rig, 200, 1000) == (0..200).collect::<Vec<u16>>());
    assert!(rig.element.arqs_are_idle());
    let again = total(&mut rig, "arq-retransmitted-blocks") / total(&mut rig, "arq-blocks");
    assert!(again < 0.15, "a tenth of the PDUs is lost, {again} of the blocks repeated");
}

#[test]
fn a_window_limits_what_is_on_its_way() {
    let rate = |window: u16| {
        let arq = Arq { window, block: Bytes::new(100), ..Arq::default() };
        let mut rig = rig(&testbed(), &noisy([40.0, 40.0], Some(arq)));
        for n in 0..2000 {
            rig.receive(n * 2 * MS, 0, packet(500));
        }
        rig.run_until(4000 * MS);
        delivered_bytes(&mut rig, 0)
    };
    // Feedback of one frame is asked for by contention: half the window has half the rate, far below what is offered.
    let [ten, five] = [rate(10), rate(5)];
    assert!((ten / five - 2.0).abs() < 0.2 && ten < 0.7 * 1_000_000.0, "{ten} {five}");
}

#[test]
fn packets_are_given_up_after_their_lifetime() {
    let arq = |in_order| {
        let (retry, lifetime) = (Span::from_millis(60), Span::from_millis(120));
        Some(Arq { retry, lifetime, in_order, ..Arq::default() })
    };
    for in_order in [true, false] {
        // A packet has ten blocks in a PDU of six or seven symbols, a fifth of which are lost.
        let snr = 19.9;
        let mut rig = rig(&testbed(), &noisy([snr, 30.0], arq(in_order)));
        let found = sent(&mut rig, 1000, 640);
        let dropped = total(&mut rig, "dropped-lifetime");
        assert_eq!(found.len() as f64 + dropped, 1000.0, "each packet arrives or is counted");
        assert!(dropped > 20.0 && found.len() > 300, "{dropped}");
        assert!(found.is_sorted() == in_order, "in order: {in_order}");
        let mut unique = found.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), found.len(), "none twice");
        assert!(rig.element.arqs_are_idle(), "nothing stays open");
    }
}

#[test]
fn lost_feedback_costs_transmissions_and_no_packets() {
    let again = |snr| {
        let mut rig =
            rig(&testbed(), &noisy([30.0, snr], Some(Arq { lifetime: Span::ZERO, ..Arq::default() })));
        assert!(sent(&mut rig, 1000, 200) == (0..1000).collect::<Vec<u16>>());
        assert!(total(&mut rig, "arq-feedback-bytes") > 0.0);
        total(&mut rig, "arq-retransmitted-blocks")
    };
    let [clean, noisy] = [again(30.0), again(19.3)];
    assert!(clean == 0.0 && noisy > 0.0, "{clean} {noisy}");
}

/// Parts of SDUs in a record: connection, number of the first block, place and bytes.
type Parts = Vec<(u16, u16, wman::Fragment, Vec<u8>)>;

/// Reads a record: parts of SDUs, feedback, and discard messages.
fn read(log: &AirLog) -> (Parts, Vec<Feedback>, Vec<Discard>) {
    let (mut parts, mut feedback, mut discards) = (Vec::new(), Vec::new(), Vec::new());
    for burst in log.frames().iter().flat_map(|frame| &frame.bursts) {
        for bytes in burst.pdus.iter().filter(|pdu| pdu[0] & 0x80 == 0) {
            let pdu = wman::Pdu::new_checked(&bytes[..], wman::CrcForm::Ofdma).expect("a PDU");
            for part in pdu.parts().map(|part| part.expect("a part")) {
                if pdu.header.arq_feedback {
                    feedback.extend(Feedback::parse_list(part.bytes).expect("elements"));
                } else if pdu.header.cid < 0x2001 {
                    discards.push(Discard::parse(part.bytes).expect("a message"));
                } else {
                    parts.push((pdu.header.cid, part.number, part.fragment, part.bytes.to_vec()));
                }
            }
        }
    }
    (parts, feedback, discards)
}

#[test]
fn recorded_blocks_and_feedback_are_what_was_sent() {
    for packing in [false, true] {
        let arq = Arq { lifetime: Span::from_millis(150), retry: Span::from_millis(80), ..Arq::default() };
        let record = Some(Record { frames: 2000, ..Record::default() });
        let mut rig = rig(&Cell { packing, record, ..testbed() }, &noisy([19.6, 30.0], Some(arq)));
        let log = AirLog::default();
        rig.element.record(&log);
        let found = sent(&mut rig, 180, 700);
        let (parts, feedback, discards) = read(&log);
        // Of each block the record has the bytes of its packet, each time that it was sent.
        let mut blocks = BTreeMap::<u16, Vec<u8>>::new();
        for (_, number, _, bytes) in &parts {
            for (n, block) in bytes.chunks(64).enumerate() {
                let same = blocks.entry(*number + n as u16).or_insert_with(|| block.to_vec());
                assert_eq!(same, block);
            }
        }
        assert_eq!(blocks.len(), 180 * 11, "11 blocks of each packet, less than the numbers that there are");
        let all: Vec<u8> = blocks.values().flatten().copied().collect();
        let wanted: Vec<u8> = (0..180).flat_map(|n| numbered(n, 700).to_vec()).collect();
        assert!(all == wanted, "packing {packing}");
        assert!(feedback.iter().all(|element| element.cid == wman::Cid(0x2001)));
        let bytes: usize = feedback.iter().map(Feedback::buffer_len).sum();
        assert_eq!(bytes as f64, total(&mut rig, "arq-feedback-bytes"));
        assert!(feedback.iter().any(|element| matches!(element.ack, Ack::CumulativeSelective { .. })));
        assert!(feedback.iter().any(|element| matches!(element.ack, Ack::Cumulative(_))));
        let dropped = 180 - found.len();
        assert!(dropped == 0 || !discards.is_empty(), "{dropped} given up");
        assert!(discards.iter().all(|message| (message.up_to + 1) % 11 == 0), "at the end of a packet");
    }
}

#[test]
fn an_uplink_repeats_too_and_shares_its_bursts_with_feedback() {
    let mut all = noisy([HUNDREDTH, TENTH], Some(Arq::default()));
    all[1].flows = vec![flow(Some(Arq { block: Bytes::new(32), ..Arq::default() }))];
    for duplex in [Duplex::Fdd, Duplex::Tdd] {
        let mut rig = rig(&Cell { duplex, ..Cell::default() }, &all);
        for n in 0..1000 {
            rig.receive(n * 10 * MS, (n % 2) as u16, numbered(n as u16, [60, 300, 1200][n as usize % 3]));
        }
        rig.run_until(14_000 * MS);
        for port in [0, 1] {
            let numbers: Vec<u16> = rig
                .out
                .iter()
                .filter(|(_, out, _)| *out == Port(port))
                .map(|(.., packet)| u16::from_be_bytes([packet.to_vec()[4], packet.to_vec()[5]]))
                .collect();
            assert!(numbers == (port..1000).step_by(2).collect::<Vec<u16>>(), "{duplex:?} {port}");
        }
        assert!(total(&mut rig, "arq-retransmitted-blocks") > 50.0);
    }
}

#[test]
fn impossible_arq_is_refused_with_its_key() {
    let refused = |arq: Arq| flow(Some(arq)).check().expect_err("refused").to_string();
    assert!(refused(Arq { block: Bytes::new(8), ..Arq::default() }).contains("block"));
    assert!(refused(Arq { window: 1025, ..Arq::default() }).contains("window"));
    assert!(refused(Arq { retry: Span::ZERO, ..Arq::default() }).contains("retry"));
    assert!(refused(Arq { lifetime: Span::from_millis(5), ..Arq::default() }).contains("lifetime"));
    let error = Wimax::new(&testbed(), &noisy([30.0; 2], Some(Arq::default()))[..1]).err().expect("one way");
    assert_eq!(error.impossible.key, "arq");
}
