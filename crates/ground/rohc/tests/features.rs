//! What the corpus does not reach: AH, GRE and minimal encapsulation, deep tunnels, timers, policies, transitions.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, CompressError, Compressor, CompressorConfig, CompressorState, Decompressor,
    DecompressorConfig, Mode, PacketType, Profile, Refresh, RtpRule,
};

const ADDRESSES: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

fn ipv4(protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16 + 20).to_be_bytes();
    let id = id.to_be_bytes();
    let mut head =
        [0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    head[12..].copy_from_slice(&ADDRESSES);
    let sum: u32 = head.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    head[10..12].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    [&head[..], payload].concat()
}

fn udp(number: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16 + 8).to_be_bytes();
    let sum = number.wrapping_mul(77).max(1).to_be_bytes();
    [&[0x20, 1, 0x20, 2, len[0], len[1], sum[0], sum[1]][..], payload].concat()
}

fn rtp(sn: u16, ts: u32, csrcs: &[u32]) -> Vec<u8> {
    let mut rtp = vec![0x80 | csrcs.len() as u8, 0];
    rtp.extend_from_slice(&sn.to_be_bytes());
    rtp.extend_from_slice(&ts.to_be_bytes());
    rtp.extend_from_slice(&[9; 4]);
    csrcs.iter().for_each(|csrc| rtp.extend_from_slice(&csrc.to_be_bytes()));
    rtp.extend_from_slice(&[0x55; 20]);
    rtp
}

fn ah(next: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let icv: Vec<u8> = (0..12).map(|octet| (sequence as u8).wrapping_mul(31) ^ octet).collect();
    [&[next, 4, 0, 0, 0, 0, 1, 7][..], &sequence.to_be_bytes(), &icv, payload].concat()
}

/// GRE with checksum, key and sequence number around IPv4.
fn gre(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let checksum = (sequence as u16).wrapping_mul(999).to_be_bytes();
    let head = [0xb0, 0, 0x08, 0, checksum[0], checksum[1], 0, 0, 0, 0, 0, 5];
    [&head[..], &sequence.to_be_bytes(), payload].concat()
}

fn minimal(next: u8, payload: &[u8]) -> Vec<u8> {
    [&[next, 0x80, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8][..], payload].concat()
}

struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    /// Length of the last ROHC header, and its type.
    last: (usize, PacketType, Profile),
}

impl Ends {
    fn new(mode: Mode, config: CompressorConfig) -> Self {
        let clock_resolution = Duration::from_millis(u64::from(config.timer_jitter > Duration::ZERO));
        let decompressor = DecompressorConfig { mode, clock_resolution, ..DecompressorConfig::default() };
        Self {
            compressor: Compressor::new(config),
            decompressor: Decompressor::new(decompressor),
            last: (0, PacketType::Ir, Profile::Uncompressed),
        }
    }

    /// Sends a packet; it must come back unless `lost`.
    fn send(&mut self, now: Duration, packet: &[u8], lost: bool) {
        let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let compressed = self.compressor.compress(now, packet, &mut rohc).expect("compresses");
        self.last = (compressed.header_out, compressed.packet_type, compressed.profile);
        if lost {
            return;
        }
        let result = self.decompressor.decompress(now, &rohc, &mut ip);
        assert!(matches!(result, Ok(Some(_))), "{result:?} {compressed:?}");
        assert_eq!(ip, packet, "{compressed:?}");
        if self.decompressor.take_feedback(&mut feedback) {
            self.compressor.feedback(&feedback);
        }
    }
}

const MODES: [Mode; 3] = [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable];

/// AH counts with the packets: only its ICV is sent. A jump of its counter is sent and forgotten.
#[test]
fn ah_costs_its_icv() {
    for mode in MODES {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        for number in 0..60u16 {
            let sequence = u32::from(number) + if number < 40 { 100 } else { 5000 };
            let inner = ah(17, sequence, &udp(number, b"payload"));
            ends.send(Duration::ZERO, &ipv4(51, number, &inner), number % 7 == 6 && number > 45);
            if number == 39 || number == 59 {
                assert!(ends.last.0 <= 1 + 12 + 2, "{mode:?} {:?}", ends.last);
                assert_eq!(ends.last.2, Profile::Udp);
            }
        }
    }
}

/// A GRE tunnel: key and counter go, the checksum stays.
#[test]
fn gre_costs_its_checksum() {
    for mode in MODES {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        for number in 0..40u16 {
            let inner = ipv4(17, number, &udp(number, &rtp(number, u32::from(number) * 160, &[])));
            let packet = ipv4(47, 500 + number, &gre(u32::from(number) + 9, &inner));
            ends.send(Duration::ZERO, &packet, false);
        }
        assert!(ends.last.0 <= 2 + 2 + 2, "{mode:?} {:?}", ends.last);
        assert_eq!(ends.last.2, Profile::Rtp);
    }
}

#[test]
fn minimal_encapsulation_costs_nothing() {
    for mode in MODES {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        for number in 0..30u16 {
            ends.send(Duration::ZERO, &ipv4(55, number, &minimal(17, &udp(number, b"data"))), false);
        }
        assert!(ends.last.0 <= 4, "{mode:?} {:?}", ends.last);
    }
}

/// Mixers come and go; what changes is sent as differences where that is shorter.
#[test]
fn csrc_lists_change_and_settle() {
    for mode in MODES {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        let lists: [&[u32]; 7] =
            [&[], &[1, 2, 3], &[1, 2, 3, 4], &[2, 4], &[], &[4, 2, 7, 8, 9, 10, 11, 12, 13, 14], &[4, 2, 9]];
        for number in 0..140u16 {
            let list = lists[usize::from(number / 20)];
            let packet = ipv4(17, number, &udp(number, &rtp(number, u32::from(number) * 160, list)));
            ends.send(Duration::ZERO, &packet, false);
            if number % 20 == 19 {
                assert!(ends.last.0 <= 4, "{mode:?} {number} {:?}", ends.last);
            }
        }
    }
}

/// Five IPv4 headers: two compressed away, three at their dynamic part (RFC 3843 3.2).
#[test]
fn any_number_of_ip_headers() {
    let mut ends = Ends::new(Mode::Optimistic, CompressorConfig::default());
    for number in 0..20u16 {
        let packet = (0..5)
            .fold(udp(number, b"deep"), |inner, level| ipv4(if level == 0 { 17 } else { 4 }, number, &inner));
        ends.send(Duration::ZERO, &packet, false);
    }
    assert_eq!(ends.last.2, Profile::Ip);
    assert!(ends.last.0 <= 3 + 3 * 6, "{:?}", ends.last);
}

/// After long silence a timer-based timestamp takes no more bits than before it.
#[test]
fn timers_bridge_silence() {
    let header_after_silence = |timer_jitter: Duration| {
        let config = CompressorConfig { timer_jitter, ..CompressorConfig::default() };
        let mut ends = Ends::new(Mode::Optimistic, config);
        let (mut now, mut ts) = (Duration::from_secs(5), 1000u32);
        for number in 0..120u16 {
            ends.send(now, &ipv4(17, number, &udp(number, &rtp(number, ts, &[]))), false);
            now += Duration::from_millis(20);
            ts += 160;
        }
        now += Duration::from_secs(600);
        ts += 160 * 50 * 600;
        ends.send(now, &ipv4(17, 120, &udp(120, &rtp(120, ts, &[]))), false);
        ends.last.0
    };
    let with_timer = header_after_silence(Duration::from_millis(40));
    let without = header_after_silence(Duration::ZERO);
    assert!(with_timer < without && with_timer <= 2 + 2, "{with_timer} against {without}");
}

/// Only IR and type 0 packets, whatever changes.
#[test]
fn only_ir_and_so() {
    let config = CompressorConfig { only_ir_and_so: true, ..CompressorConfig::default() };
    let mut ends = Ends::new(Mode::Unidirectional, config);
    for number in 0..100u16 {
        let ts = u32::from(number) * 160 + if number > 50 { 7 } else { 0 };
        ends.send(Duration::ZERO, &ipv4(17, number * 3, &udp(number, &rtp(number, ts, &[]))), false);
        assert!(matches!(ends.last.1, PacketType::Ir | PacketType::Uo0), "{:?}", ends.last);
    }
}

/// IR packets at growing gaps, until the period is reached.
#[test]
fn slow_start_spreads_irs() {
    let config = CompressorConfig {
        slow_start: true,
        ir_refresh: Refresh::every_packets(40),
        fo_refresh: Refresh::NEVER,
        ..CompressorConfig::default()
    };
    let mut ends = Ends::new(Mode::Unidirectional, config);
    let mut irs = Vec::new();
    for number in 0..200u16 {
        ends.send(Duration::ZERO, &ipv4(17, number, &udp(number, b"x")), false);
        if ends.last.1 == PacketType::Ir {
            irs.push(number);
        }
    }
    let gaps: Vec<u16> = irs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.first() == Some(&2) && gaps.last() == Some(&41), "{gaps:?}");
}

/// So many IR packets at each refresh, and between them as many others as the period says.
#[test]
fn refreshes_are_repeated() {
    let config = CompressorConfig {
        repeats: 3,
        refresh_repeats: 3,
        ir_refresh: Refresh::every_packets(40),
        fo_refresh: Refresh::NEVER,
        ..CompressorConfig::default()
    };
    let mut ends = Ends::new(Mode::Unidirectional, config);
    let mut irs = Vec::new();
    for number in 0..100u16 {
        ends.send(Duration::ZERO, &ipv4(17, number, &udp(number, b"x")), false);
        if ends.last.1 == PacketType::Ir {
            irs.push(number);
        }
    }
    assert_eq!(irs, [0, 1, 2, 43, 44, 45, 86, 87, 88]);
}

/// Refreshes by time.
#[test]
fn refreshes_follow_the_callers_clock() {
    let config = CompressorConfig {
        ir_refresh: Refresh::every(Duration::from_secs(1)),
        ..CompressorConfig::default()
    };
    let mut ends = Ends::new(Mode::Unidirectional, config);
    let mut irs = 0;
    for number in 0..300u16 {
        ends.send(
            Duration::from_millis(u64::from(number) * 20),
            &ipv4(17, number, &udp(number, b"x")),
            false,
        );
        irs += usize::from(ends.last.1 == PacketType::Ir);
    }
    assert_eq!(irs, 4 + 5);
}

/// Contexts set up together do not refresh together.
#[test]
fn spread_refreshes_are_not_in_unison() {
    let config = CompressorConfig {
        spread_refreshes: true,
        ir_refresh: Refresh::every_packets(100),
        fo_refresh: Refresh::NEVER,
        repeats: 1,
        ..CompressorConfig::default()
    };
    let mut compressor = Compressor::new(config);
    let mut most = 0;
    for number in 0..400u16 {
        let mut irs = 0;
        for flow in 0..15u8 {
            let mut packet = ipv4(17, number, &udp(number, b"x"));
            packet[20] = 0x20 + flow;
            let compressed =
                compressor.compress(Duration::ZERO, &packet, &mut Vec::new()).expect("compresses");
            irs += usize::from(compressed.packet_type == PacketType::Ir);
        }
        if number > 0 {
            most = most.max(irs);
        }
    }
    assert!((1..=3).contains(&most), "{most} refreshes at once");
}

/// The decompressor may ask for any mode at any time; nothing is lost on the way.
#[test]
fn modes_change_while_packets_flow() {
    let mut ends = Ends::new(Mode::Reliable, CompressorConfig { confirm: 0, ..CompressorConfig::default() });
    let mut kinds = Vec::new();
    let mut number = 0u16;
    for mode in [Mode::Reliable, Mode::Optimistic, Mode::Unidirectional, Mode::Reliable, Mode::Unidirectional]
    {
        ends.decompressor.set_mode(mode);
        for _ in 0..40 {
            number += 1;
            let packet = ipv4(17, number, &udp(number, &rtp(number, u32::from(number) * 160, &[])));
            ends.send(Duration::ZERO, &packet, false);
        }
        kinds.push(ends.last.1);
    }
    assert!(matches!(kinds[0], PacketType::R0 | PacketType::R0Crc), "{kinds:?}");
    assert_eq!([kinds[1], kinds[2], kinds[4]], [PacketType::Uo0; 3]);
}

/// A decompressor that knows nothing, in the middle of a flow that is never refreshed.
#[test]
fn a_replaced_decompressor_is_initialized() {
    for mode in [Mode::Optimistic, Mode::Reliable] {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        let packet = |number: u16| ipv4(17, number, &udp(number, b"x"));
        (0..30).for_each(|number| ends.send(Duration::ZERO, &packet(number), false));
        let config = DecompressorConfig { mode, ..DecompressorConfig::default() };
        ends.decompressor = Decompressor::new(config);
        let (mut rohc, mut feedback) = (Vec::new(), Vec::new());
        ends.compressor.compress(Duration::ZERO, &packet(30), &mut rohc).expect("compresses");
        assert!(ends.decompressor.decompress(Duration::ZERO, &rohc, &mut Vec::new()).is_err());
        assert!(ends.decompressor.take_feedback(&mut feedback));
        ends.compressor.feedback(&feedback);
        (31..60).for_each(|number| ends.send(Duration::ZERO, &packet(number), false));
    }
}

/// All IR packets of a flow are lost, and what follows is answered for want of a context: from there on both ends are in
/// the same mode.
#[test]
fn a_context_that_was_never_heard_of_begins_in_the_mode_asked_for() {
    for mode in MODES {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        let packet = |number: u16| ipv4(17, number, &udp(number, &rtp(number, u32::from(number) * 160, &[])));
        (0..10).for_each(|number| ends.send(Duration::ZERO, &packet(number), true));
        let (mut rohc, mut feedback) = (Vec::new(), Vec::new());
        ends.compressor.compress(Duration::ZERO, &packet(10), &mut rohc).expect("compresses");
        assert!(ends.decompressor.decompress(Duration::ZERO, &rohc, &mut Vec::new()).is_err());
        assert_eq!(ends.decompressor.take_feedback(&mut feedback), mode != Mode::Unidirectional);
        ends.compressor.feedback(&feedback);
        if mode != Mode::Unidirectional {
            (11..60).for_each(|number| ends.send(Duration::ZERO, &packet(number), false));
            assert_eq!(ends.compressor.flow_state(0).map(|state| state.0), Some(mode));
        }
    }
}

/// The end of a list is told in every mode, by whatever packet says it: type 2, or IR-DYN (in which an empty list without
/// a name would say that nothing changed) where the UDP checksum ends with it.
#[test]
fn a_list_ends_in_every_mode() {
    for (mode, ends_checksum) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let mut ends = Ends::new(mode, CompressorConfig::default());
        for number in 0..60u16 {
            let mut data = udp(number, b"data");
            if ends_checksum && number >= 30 {
                data[6..8].fill(0);
            }
            let packet = if number < 30 { ah(17, u32::from(number), &data) } else { data };
            let protocol = if number < 30 { 51 } else { 17 };
            ends.send(
                Duration::ZERO,
                &ipv4(protocol, number, &packet),
                (20..40).contains(&number) && mode == Mode::Reliable,
            );
            if number == 30 {
                let expected = if ends_checksum { PacketType::IrDyn } else { PacketType::Uor2 };
                assert_eq!(ends.last.1, expected, "{mode:?}");
            }
        }
    }
}

/// A change in the timestamp's step is lost with every packet that carried it, and a packet behind them is acknowledged:
/// it is told again before a header needs it.
#[test]
fn what_an_acknowledgement_shows_to_be_lost_is_told_again() {
    let mut ends = Ends::new(Mode::Optimistic, CompressorConfig::default());
    let mut ts = 0;
    let mut kinds = Vec::new();
    for number in 0..60u16 {
        // The step is 240 from 20 on; packet 26 is between steps, so that it has the timestamp itself.
        ts += match number {
            0..20 => 160,
            26 => 247,
            _ => 240,
        };
        let packet = ipv4(17, number, &udp(number, &rtp(number, ts, &[])));
        let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let sent = ends.compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
        kinds.push(sent.packet_type);
        if (20..26).contains(&number) {
            continue;
        }
        let restored = ends.decompressor.decompress(Duration::ZERO, &rohc, &mut ip);
        assert!(restored.is_err() || ip == packet, "{number}");
        assert!(matches!(restored, Ok(Some(_))) || number < 26, "{number} {restored:?}");
        ends.decompressor.take_feedback(&mut feedback);
        ends.compressor.feedback(&feedback);
    }
    assert!(kinds[26..32].contains(&PacketType::IrDyn), "{kinds:?}");
}

/// Large packets, reserved CIDs, what is no IP at all.
#[test]
fn policies_and_oddities() {
    let config =
        CompressorConfig { max_packet_bytes: 100, rtp: RtpRule::Never, ..CompressorConfig::default() };
    let mut ends = Ends::new(Mode::Unidirectional, config);
    ends.compressor.reserve_cid(7, &ipv4(17, 0, &udp(0, b"reserved"))).expect("in range");
    assert_eq!(
        ends.compressor.reserve_cid(16, &ipv4(17, 0, &udp(0, b"x"))),
        Err(CompressError::CidOutOfRange(16))
    );
    ends.send(Duration::ZERO, &ipv4(17, 1, &udp(1, b"reserved")), false);
    assert_eq!(ends.last.2, Profile::Udp);
    assert_eq!(ends.compressor.flow_stats(7).map(|stats| stats.packets), Some(1));
    ends.send(Duration::ZERO, &ipv4(17, 1, &udp(1, &[1; 200])), false);
    assert_eq!(ends.last.2, Profile::Uncompressed);
    for first in [0x00, 0x1f, 0x70, 0xe3, 0xf0, 0xff] {
        for _ in 0..6 {
            ends.send(Duration::ZERO, &[first, 1, 2, 3], false);
        }
    }
    assert_eq!(ends.compressor.compress(Duration::ZERO, &[], &mut Vec::new()), Err(CompressError::Empty));
    assert_eq!(ends.compressor.stats().packets, 2 + 36);
}

/// A context says which state it is in: everything to tell, changes, nothing.
#[test]
fn states_are_those_of_the_rfc() {
    let packet = |profile: Profile, number: u16| match profile {
        Profile::Udp => ipv4(17, number, &udp(number, b"x")),
        Profile::Tcp => ipv4(6, number, &segment(number, 0)),
        _ => vec![0x70, 1, 2, 3],
    };
    for profile in [Profile::Udp, Profile::Tcp, Profile::Uncompressed] {
        let mut ends = Ends::new(Mode::Unidirectional, CompressorConfig::default());
        assert_eq!(ends.compressor.flow_state(0), None);
        let states: Vec<_> = (0..20)
            .map(|number| {
                ends.send(Duration::ZERO, &packet(profile, number), false);
                ends.compressor.flow_state(0).expect("a context").1
            })
            .collect();
        assert_eq!(states[0], CompressorState::Initialization, "{profile:?}");
        assert_eq!(states[19], CompressorState::SecondOrder, "{profile:?}");
        assert!(states.is_sorted(), "{profile:?}: {states:?}");
    }
    let mut ends = Ends::new(Mode::Optimistic, CompressorConfig::default());
    (0..9).for_each(|number| ends.send(Duration::ZERO, &packet(Profile::Udp, number), false));
    assert_eq!(ends.compressor.flow_state(0), Some((Mode::Optimistic, CompressorState::SecondOrder)));
    let mut changed = packet(Profile::Udp, 9);
    (changed[8], changed[10]) = (63, changed[10].wrapping_add(1));
    ends.send(Duration::ZERO, &changed, true);
    assert_eq!(ends.compressor.flow_state(0), Some((Mode::Optimistic, CompressorState::FirstOrder)));
    ends.send(Duration::ZERO, &changed, false);
    assert_eq!(ends.compressor.flow_state(0), Some((Mode::Optimistic, CompressorState::SecondOrder)), "told");
}

/// A flow gets the CID of another one and all its IR packets are lost: nothing may come out with the addresses of the
/// other flow, and the NACK must bring the static part.
#[test]
fn a_reused_cid_is_not_taken_for_its_last_flow() {
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        let channel = Channel { cids: CidSpace::Small { max_cid: 0 }, ..Channel::default() };
        let config = CompressorConfig {
            channel,
            fo_refresh: Refresh::every_packets(9),
            ..CompressorConfig::default()
        };
        let mut compressor = Compressor::new(config);
        let mut decompressor =
            Decompressor::new(DecompressorConfig { channel, mode, ..DecompressorConfig::default() });
        for tcp in [false, true] {
            let (mut right, mut feedback) = (0, Vec::new());
            for number in 0..120u16 {
                let second = number >= 60;
                let mut packet = if tcp {
                    ipv4(6, number, &segment(number, u8::from(second)))
                } else {
                    ipv4(17, number, &udp(number, b"flow"))
                };
                packet[20] ^= u8::from(second);
                let (mut rohc, mut ip) = (Vec::new(), Vec::new());
                compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
                if (60..66).contains(&number) {
                    continue;
                }
                feedback.clear();
                if let Ok(Some(_)) = decompressor.decompress(Duration::ZERO, &rohc, &mut ip) {
                    assert_eq!(ip, packet, "{mode:?} tcp {tcp} packet {number}");
                    right += usize::from(second);
                }
                decompressor.take_feedback(&mut feedback);
                compressor.feedback(&feedback);
            }
            assert!(right > 30, "{mode:?} tcp {tcp}: {right}");
        }
    }
}

/// A TCP segment of a bulk transfer.
fn segment(number: u16, flow: u8) -> Vec<u8> {
    let seq = (u32::from(number) * 1000).to_be_bytes();
    let checksum = number.wrapping_mul(999).to_be_bytes();
    let mut tcp = vec![0x30, flow, 0, 80];
    tcp.extend_from_slice(&seq);
    tcp.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 0x20, 0, checksum[0], checksum[1], 0, 0]);
    tcp.extend_from_slice(&[7; 30]);
    tcp
}

/// UDP over IPv6 behind extension headers of these types and lengths.
fn ipv6(extensions: &[(u8, usize)]) -> Vec<u8> {
    let types = extensions.iter().map(|(kind, _)| *kind).chain([17]).collect::<Vec<_>>();
    let mut chain = Vec::new();
    for (index, (_, len)) in extensions.iter().enumerate() {
        chain.extend([types[index + 1], (len / 8 - 1) as u8, 1, (len - 4) as u8]);
        chain.resize(chain.len() + len - 4, 0);
    }
    chain.extend(udp(7, b"payload"));
    let len = (chain.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, len[0], len[1], types[0], 64][..], &[0x20; 32], &chain].concat()
}

/// Chains that no node passes on, or too long for lists, take no context from others.
#[test]
fn extension_headers_that_gain_nothing_go_uncompressed() {
    let mut ends = Ends::new(Mode::Optimistic, CompressorConfig::default());
    let mut profile = |extensions: &[(u8, usize)]| {
        ends.send(Duration::ZERO, &ipv6(extensions), false);
        ends.last.2
    };
    assert_eq!(profile(&[(0, 8), (60, 8), (43, 8), (60, 16)]), Profile::Udp);
    assert_eq!(profile(&[(0, 256), (60, 256)]), Profile::Udp);
    assert_eq!(profile(&[(0, 256), (60, 264)]), Profile::Uncompressed);
    assert_eq!(profile(&[(60, 8), (0, 8)]), Profile::Uncompressed);
    assert_eq!(profile(&[(60, 8); 15]), Profile::Udp);
    assert_eq!(profile(&[(60, 8); 16]), Profile::Uncompressed);
}
