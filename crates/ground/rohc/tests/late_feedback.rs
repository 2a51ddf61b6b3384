//! Feedback that is late or lost, on channels whose CIDs are reused.

#![allow(clippy::print_stdout, reason = "says what was measured")]

use std::collections::VecDeque;
use std::time::Duration;

use crate::support::{Dice, Ends, Outcome, corpus, files, read_pcap};
use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, PacketType,
    Profile, Profiles, RtpRule,
};

/// Time between two packets.
const GAP: Duration = Duration::from_millis(20);

/// Packet `number` of an RTP flow over IPv4, whose addresses and SSRC have `flow` in them.
fn packet(flow: u16, first_sn: u16, number: u16) -> Vec<u8> {
    packet_with_id(flow, first_sn, number, 0)
}

/// The same with an identification.
fn packet_with_id(flow: u16, first_sn: u16, number: u16, id: u16) -> Vec<u8> {
    let (sn, ts) = (first_sn.wrapping_add(number), 160 * u32::from(number));
    let [high, low] = flow.to_be_bytes();
    let [id_high, id_low] = id.to_be_bytes();
    let mut packet =
        vec![0x45, 0, 0, 48, id_high, id_low, 0x40, 0, 64, 17, 0, 0, 10, 0, high, low, 10, 1, high, low];
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.extend_from_slice(&[0x20, low, 0x20, 2, 0, 28, 0, 0, 0x80, 0]);
    packet.extend_from_slice(&sn.to_be_bytes());
    packet.extend_from_slice(&ts.to_be_bytes());
    packet.extend_from_slice(&[1, 2, high, low, 7, 7, 7, 7, 7, 7, 7, 7]);
    packet
}

fn ends(cids: CidSpace, mode: Mode) -> Ends {
    ends_of(Channel { cids, ..Channel::default() }, mode)
}

/// Both ends of a channel with these profiles, in O-mode with feedback 30 packets late.
fn late_ends(profiles: Profiles) -> Ends {
    ends_of(Channel { profiles, ..Channel::default() }, Mode::Optimistic).with_feedback_delay(30)
}

fn ends_of(channel: Channel, mode: Mode) -> Ends {
    Ends::new(
        CompressorConfig { channel, ..CompressorConfig::default() },
        DecompressorConfig { channel, mode, peer_confirms: true, ..DecompressorConfig::default() },
    )
}

/// A flow takes the CID of another one while acknowledgements of that one are on their way, with the same numbers. None of the
/// new flow's packets arrives: it goes on with IRs.
#[test]
fn late_feedback_of_an_earlier_flow_confirms_nothing() {
    let mut ends = ends(CidSpace::Small { max_cid: 0 }, Mode::Reliable).with_feedback_delay(8);
    for number in 0..40 {
        ends.send(GAP * u32::from(number), &packet(1, 500, number), false);
    }
    for number in 0..30 {
        let (now, packet) = (GAP * u32::from(40 + number), packet(2, 500, number));
        let sent = ends.compress(now, &packet).expect("compresses");
        assert_eq!(sent.packet_type, PacketType::Ir, "{number}");
    }
}

/// Short flows in turn on few CIDs, packets and feedback lost, feedback late: no packet is delivered with the addresses of
/// another flow, nor otherwise wrong.
#[test]
fn reused_cids_deliver_nothing_wrong() {
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        for delay in [0, 5, 20, 60] {
            let mut total = Outcome::default();
            for seed in 0..20 {
                let mut dice = Dice(seed);
                let mut ends = ends(CidSpace::Small { max_cid: 1 }, mode).with_feedback_delay(delay);
                let mut now = Duration::ZERO;
                for flow in 0..60 {
                    // Every other flow begins with the same number, the others anywhere.
                    let first_sn = if dice.one_in(2) { 100 } else { dice.roll() as u16 };
                    for number in 0..6 + dice.below(40) as u16 {
                        now += GAP;
                        let packet = packet(flow, first_sn, number);
                        ends.compress(now, &packet).expect("compresses");
                        if dice.percent(10) {
                            continue;
                        }
                        let _ = ends.arrive(now, &packet);
                        ends.answer(|| dice.percent(10));
                    }
                }
                total.add(ends.outcome);
            }
            println!("{mode:?}, {delay} packets late: {total:?}");
            assert_eq!(total.wrong, 0, "{mode:?}, {delay} packets late: {total:?}");
        }
    }
}

/// All captures, as many packets and as much feedback lost, feedback 20 packets late.
#[test]
fn captures_with_late_feedback_deliver_nothing_wrong() {
    let Some(corpus) = corpus() else { return };
    let folders = [corpus.join("ip"), corpus.join("synthetic/inputs")];
    let captures: Vec<_> = folders.iter().flat_map(|folder| files(folder, ".pcap")).collect();
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        let mut total = Outcome::default();
        for (seed, capture) in captures.iter().enumerate() {
            for cids in [CidSpace::SMALL, CidSpace::Small { max_cid: 2 }] {
                let mut dice = Dice(seed as u64);
                let mut ends = ends(cids, mode).with_feedback_delay(20);
                for record in read_pcap(capture) {
                    if ends.compress(record.at, &record.bytes).is_none() || dice.percent(10) {
                        continue;
                    }
                    let _ = ends.arrive(record.at, &record.bytes);
                    ends.answer(|| dice.percent(10));
                }
                total.add(ends.outcome);
            }
        }
        println!("{mode:?}: {total:?}");
        assert_eq!(total.wrong, 0, "{mode:?}: {total:?}");
    }
}

/// The flow before was of another family of profiles, whose feedback looks alike.
#[test]
fn late_feedback_of_another_profile_confirms_nothing() {
    let channel = Channel { cids: CidSpace::Small { max_cid: 0 }, ..Channel::default() };
    let mut ends = Ends::new(
        CompressorConfig { channel, rtp: RtpRule::Likely, ..CompressorConfig::default() },
        DecompressorConfig { channel, mode: Mode::Optimistic, ..DecompressorConfig::default() },
    )
    .with_feedback_delay(3);
    // What is no IP packet goes Uncompressed, and is acknowledged as number zero.
    for number in 0..3 {
        ends.send(GAP * number, &[0x13, 7, 7, 7, 7, 7, 7, 7], false);
    }
    for number in 0..12 {
        let packet = packet(2, 250, number);
        let sent = ends.compress(GAP * (3 + u32::from(number)), &packet).expect("compresses");
        assert_eq!(sent.profile, Profile::Rtp);
        assert!(number >= 4 || sent.packet_type == PacketType::Ir, "{number}: {sent:?}");
    }
}

/// Steps of the identification from packet to packet.
///
/// Constant, counting, and counting over the packets of other flows.
const ID_STEPS: [u16; 3] = [0, 1, 7];

/// More packets in a round trip than the compressor keeps references: R-mode still sends short packets.
#[test]
fn reliable_mode_goes_on_with_short_packets() {
    for (id_step, delay) in ID_STEPS.into_iter().flat_map(|step| [5, 20, 27, 40].map(|delay| (step, delay))) {
        let mut ends = ends(CidSpace::SMALL, Mode::Reliable).with_feedback_delay(delay);
        let mut long = 0;
        for number in 0..1000 {
            let packet = packet_with_id(1, 500, number, number.wrapping_mul(id_step));
            let now = GAP * u32::from(number);
            let sent = ends.compress(now, &packet).expect("compresses");
            long += usize::from(matches!(sent.packet_type, PacketType::Ir | PacketType::IrDyn));
            assert!(number < 200 || sent.header_out <= 8, "{delay}: {sent:?}");
            assert!(matches!(ends.arrive(now, &packet), Ok(Some(_))), "{delay}: {number}");
            ends.answer(|| false);
        }
        assert_eq!(ends.outcome.wrong, 0);
        assert!(long <= 4, "step {id_step}, {delay} packets late: {long} IR and IR-DYN");
    }
}

/// A quiet flow in O-mode: with late feedback the compressor confirms more often, and is acknowledged as seldom as with
/// prompt feedback.
#[test]
fn confirmations_are_acknowledged_seldom() {
    let channel = Channel::default();
    for (id_step, delay) in ID_STEPS.into_iter().flat_map(|step| [0, 3, 27].map(|delay| (step, delay))) {
        let mut compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
        let mode = Mode::Optimistic;
        let config = DecompressorConfig { channel, mode, peer_confirms: true, ..Default::default() };
        let mut decompressor = Decompressor::new(config);
        let (mut on_the_way, mut acknowledged, mut confirmed) = (VecDeque::new(), 0, 0);
        for number in 0..3000_u16 {
            while on_the_way.front().is_some_and(|(due, _)| *due <= number) {
                let (_, feedback): (u16, Vec<u8>) = on_the_way.pop_front().expect("there is one");
                compressor.feedback(&feedback);
            }
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            let packet = packet_with_id(1, 500, number, number.wrapping_mul(id_step));
            let now = GAP * u32::from(number);
            let sent = compressor.compress(now, &packet, &mut rohc).expect("compresses");
            let is_short = matches!(sent.packet_type, PacketType::Uo0 | PacketType::Uo1Id);
            confirmed += usize::from(!is_short);
            decompressor.decompress(now, &rohc, &mut ip).expect("decompresses");
            if decompressor.take_feedback(&mut feedback) {
                on_the_way.push_back((number + 1 + delay, feedback));
                acknowledged += 1;
            }
        }
        let most = 3000 / 120 + 8;
        assert!(acknowledged <= most, "step {id_step}, {delay} packets late: {acknowledged}");
        let expected = if delay > 8 { 3000 / 10..3000 / 7 } else { 3000 / 130..3000 / 60 };
        assert!(expected.contains(&confirmed), "step {id_step}, {delay} packets late: {confirmed}");
    }
}

/// Bursts of losses in O-mode with late feedback: a confirmation ends the doubt before a NACK could, but for flows whose
/// identification leads away from what was received last. There, nothing but the IR-DYN that the NACK brings is delivered.
#[test]
fn confirmations_end_doubts_before_late_feedback() {
    let versions = [Profiles::V1, Profiles::V2];
    let steps = ID_STEPS.into_iter().zip([12, 12, 75]);
    for (profiles, (id_step, most_per_mille)) in
        versions.into_iter().flat_map(|version| steps.clone().map(move |step| (version, step)))
    {
        let mut total = Outcome::default();
        for seed in 0..10 {
            let mut ends = late_ends(profiles);
            let (mut dice, mut burst) = (Dice(100 * seed + u64::from(id_step)), 0_u8);
            for number in 0..20_000 {
                if burst == 0 && dice.one_in(400) {
                    burst = 8;
                }
                let packet = packet_with_id(1, 500, number, number.wrapping_mul(id_step));
                ends.send(GAP * u32::from(number), &packet, burst > 0);
                burst = burst.saturating_sub(1);
            }
            total.add(ends.outcome);
        }
        println!("step {id_step}: {total:?}");
        assert_eq!(total.wrong, 0, "step {id_step}: {total:?}");
        assert!(total.refused * 1000 < most_per_mille * total.packets, "step {id_step}: {total:?}");
    }
}

/// Gaps in a flow's own numbers, of which the channel loses the first packet with its CRC-7: those behind it carry one too, as a NACK
/// would bring it a round trip later.
#[test]
fn gaps_before_the_compressor_survive_losses_behind_them() {
    [Profiles::V1, Profiles::V2].into_iter().for_each(losses_behind_gaps);
}

fn losses_behind_gaps(profiles: Profiles) {
    let mut total = Outcome::default();
    for seed in 0..10 {
        let mut ends = late_ends(profiles);
        let (mut dice, mut number) = (Dice(seed + 1), 0u16);
        for sent in 0..5_000 {
            number = number.wrapping_add(if dice.one_in(50) { 12 } else { 1 });
            let packet = packet_with_id(1, 500, number, number);
            ends.send(GAP * sent, &packet, dice.percent(10));
        }
        total.add(ends.outcome);
    }
    println!("{total:?}");
    assert_eq!(total.wrong, 0, "{total:?}");
    assert!(total.refused * 1000 < 8 * total.packets, "{total:?}");
}

/// The hop limit changes while the acknowledgement that leads to R-mode is on its way, and none of the packets that say so
/// arrives: R-mode says it until it is acknowledged.
#[test]
fn changes_before_reliable_mode_are_sent_until_acknowledged() {
    for (tos, hops) in (0..8).flat_map(|class| (65..129).map(move |hops| (class * 4, hops))) {
        let mut ends = ends(CidSpace::SMALL, Mode::Reliable).with_feedback_delay(30);
        for number in 0..120_u16 {
            let mut packet = packet(1, 500, number);
            if number >= 25 {
                // Some of these look the same to CRC-7.
                (packet[1], packet[8]) = (tos, hops);
                packet[10..12].fill(0);
                let words =
                    packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
                let sum = words.sum::<u32>();
                packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
            }
            ends.send(GAP * u32::from(number), &packet, (25..46).contains(&number));
        }
        assert_eq!(ends.outcome.wrong, 0, "class {tos}, hop limit {hops}: {:?}", ends.outcome);
    }
}
