//! When contexts are refreshed, in the RFC 3095 family and in TCP, and the mode of IR and type 0 alone.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig,
    Lookup, Mode, PacketType, Profiles, Refresh, RtpRule,
};

const GAP: Duration = Duration::from_millis(20);

fn ipv4(protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let [len, id] = [payload.len() as u16 + 20, id].map(u16::to_be_bytes);
    let mut packet = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, protocol, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    packet.extend(payload);
    packet
}

fn udp(flow: u8, id: u16, checksum: u16) -> Vec<u8> {
    let sum = checksum.to_be_bytes();
    ipv4(17, id, &[0x20, flow, 0x20, 2, 0, 12, sum[0], sum[1], 1, 2, 3, 4])
}

fn rtp(number: u16) -> Vec<u8> {
    let [seq, stamp] = [u32::from(number) << 16, u32::from(number) * 160].map(u32::to_be_bytes);
    let mut udp = [&[0x13, 0x8c, 0x13, 0x8c, 0, 40, 0, 0, 0x80, 0, seq[0], seq[1]][..], &stamp].concat();
    udp.extend([1, 2, 3, 4].into_iter().chain([0x55; 20]));
    // With the addresses of `ipv4`, the protocol and the length.
    let words = udp.chunks(2).chain([&[10, 0][..], &[0, 1], &[10, 0], &[0, 2], &[0, 17], &[0, 40]]);
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    udp[6..8].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    ipv4(17, number, &udp)
}

fn tcp(flow: u8, number: u16) -> Vec<u8> {
    let seq = (u32::from(number) * 10).to_be_bytes();
    let fixed = [0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 1, 2, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
    ipv4(6, number, &[&[0x9c, flow, 0, 80], &seq, &fixed[..]].concat())
}

/// The numbers of the packets that were IR, of `flows` flows that begin together and send every 20 ms.
fn irs(config: &CompressorConfig, flows: u8, packets: u16, make: fn(u8, u16) -> Vec<u8>) -> Vec<Vec<u16>> {
    let mut compressor = Compressor::new(config.clone());
    let mut irs = vec![Vec::new(); usize::from(flows)];
    for number in 0..packets {
        for flow in 0..flows {
            let sent = compressor.compress(GAP * number.into(), &make(flow, number), &mut Vec::new());
            if sent.is_ok_and(|sent| sent.packet_type == PacketType::Ir) {
                irs[usize::from(flow)].push(number);
            }
        }
    }
    irs
}

/// The octets of `flows` flows that send in turn, on fewer CIDs than flows if `max_cid` is less.
fn sent(lookup: Lookup, flows: u8, max_cid: u16, make: fn(u8, u16) -> Vec<u8>) -> Vec<u8> {
    let channel = Channel { cids: CidSpace::Large { max_cid }, ..Channel::default() };
    let mut compressor = Compressor::new(CompressorConfig { channel, lookup, ..CompressorConfig::default() });
    let mut out = Vec::new();
    for (number, flow) in (0..40).flat_map(|number| (0..flows).map(move |flow| (number, flow))) {
        compressor.compress(GAP * number.into(), &make(flow, number), &mut out).expect("compresses");
    }
    out
}

#[test]
fn a_linear_search_sends_the_same() {
    for make in FAMILIES {
        for max_cid in [127, 20] {
            let [hashed, linear] =
                [Lookup::Hashed, Lookup::Linear].map(|lookup| sent(lookup, 40, max_cid, make));
            assert!(hashed == linear, "up to CID {max_cid}");
        }
    }
}

const FAMILIES: [fn(u8, u16) -> Vec<u8>; 2] = [|flow, number| udp(flow, number, 0), tcp];

/// Contexts that began together refresh apart from each other, each as often as the period says, whatever is refreshed of
/// them in between.
#[test]
fn spread_refreshes_come_as_often_as_others() {
    let by_packets = CompressorConfig {
        spread_refreshes: true,
        ir_refresh: Refresh::every_packets(300),
        fo_refresh: Refresh::every_packets(70),
        ..CompressorConfig::default()
    };
    let by_time = CompressorConfig {
        ir_refresh: Refresh::every(GAP * 301),
        fo_refresh: Refresh::every(GAP * 71),
        ..by_packets.clone()
    };
    for make in FAMILIES {
        for config in [&by_packets, &by_time] {
            let irs = irs(config, 8, 1800, make);
            let firsts: Vec<u16> = irs.iter().map(|irs| irs[4]).collect();
            let mut sorted = firsts.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{firsts:?}");
            for irs in &irs {
                assert!(irs[4] <= 3 + 301, "{irs:?}");
                assert!(irs[4..].windows(2).all(|pair| pair[1] - pair[0] == 301), "{irs:?}");
                assert!((5..=6).contains(&irs[4..].len()), "{irs:?}");
            }
        }
    }
}

/// Where only IR carries what is refreshed, all of it comes at the shorter period.
#[test]
fn spread_refreshes_by_ir_alone_come_as_often_as_the_shorter_period() {
    let config = CompressorConfig {
        spread_refreshes: true,
        only_ir_and_so: true,
        ir_refresh: Refresh::every_packets(300),
        fo_refresh: Refresh::every_packets(70),
        ..CompressorConfig::default()
    };
    for irs in irs(&config, 8, 1800, FAMILIES[0]) {
        assert!(irs[4] <= 3 + 71 && irs[4..].windows(2).all(|pair| pair[1] - pair[0] == 71), "{irs:?}");
    }
}

/// A slow start grows to the period, in packets or time, and then the contexts refresh apart.
#[test]
fn a_slow_start_grows_to_the_period() {
    let by_packets = CompressorConfig {
        slow_start: true,
        spread_refreshes: true,
        ir_refresh: Refresh::every_packets(100),
        ..CompressorConfig::default()
    };
    let by_time = CompressorConfig { ir_refresh: Refresh::every(GAP * 101), ..by_packets.clone() };
    for make in FAMILIES {
        for flow in irs(&by_packets, 4, 800, make) {
            let gaps: Vec<u16> = flow.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(gaps[..7], [2, 3, 5, 9, 17, 33, 65], "{flow:?}");
            assert!(gaps[8..].iter().all(|gap| *gap == 101), "{flow:?}");
        }
        for flow in irs(&by_time, 1, 800, make) {
            let gaps: Vec<u16> = flow.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(gaps[..8], [2, 3, 5, 9, 17, 33, 65, 101], "{flow:?}");
            assert!(gaps[7..].iter().all(|gap| *gap == 101), "{flow:?}");
        }
    }
}

/// Without a period a slow start goes on for good.
#[test]
fn a_slow_start_without_a_period_grows_on() {
    let config = CompressorConfig {
        slow_start: true,
        ir_refresh: Refresh::NEVER,
        fo_refresh: Refresh::NEVER,
        ..CompressorConfig::default()
    };
    for flow in FAMILIES.map(|make| irs(&config, 1, 2200, make)) {
        assert_eq!(flow[0], [0, 2, 5, 10, 19, 36, 69, 134, 263, 520, 1033, 2058]);
    }
}

/// Checksums that come and go and identifications that stand still are changes that only IR-DYN or IR carry; where
/// only IR may, every packet still comes back, and a decompressor that lost its context is answered.
#[test]
fn only_ir_and_so_carry_every_change() {
    for mode in [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable] {
        let config = CompressorConfig { only_ir_and_so: true, ..CompressorConfig::default() };
        let mut compressor = Compressor::new(config);
        let fresh = || Decompressor::new(DecompressorConfig { mode, ..DecompressorConfig::default() });
        let mut decompressor = fresh();
        let mut failed = 0;
        for number in 0..400u16 {
            if number == 307 {
                decompressor = fresh();
            }
            let is_odd = number / 20 % 2 == 1;
            let id = if number < 200 || is_odd { number } else { number / 20 * 20 };
            let packet = udp(1, id, if number < 200 && is_odd { 77 } else { 0 });
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            let sent = compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
            let is_allowed = matches!(sent.packet_type, PacketType::Ir | PacketType::Uo0);
            assert!(mode == Mode::Reliable || is_allowed, "{mode:?} {number}: {sent:?}");
            let restored = decompressor.decompress(Duration::ZERO, &rohc, &mut ip);
            failed += u16::from(restored.is_err());
            assert!(ip == packet || (number >= 307 && restored.is_err()), "{mode:?} {number}: {restored:?}");
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(&feedback);
        }
        let most = if mode == Mode::Unidirectional { 20 } else { 1 };
        assert!((1..=most).contains(&failed), "{mode:?}: {failed}");
    }
}

/// Behind a long loss packets with a CRC-7 fail as others do: their numbers have too few bits. The static part is not damaged by
/// it, so the next IR-DYN repairs the context.
#[test]
fn an_ir_dyn_repairs_what_a_long_loss_broke() {
    let cases = [(0, false, 30), (8, false, 30), (8, true, 30), (8, false, 290)];
    let of_versions = |profiles: Profiles| cases.map(|case| (profiles, case));
    for (profiles, (confirm, peer_confirms, burst)) in
        [Profiles::V1, Profiles::V2].into_iter().flat_map(of_versions)
    {
        let channel = Channel { profiles, ..Channel::default() };
        let config =
            CompressorConfig { channel, confirm, rtp: RtpRule::Likely, ..CompressorConfig::default() };
        let mut compressor = Compressor::new(config);
        let config = DecompressorConfig { channel, peer_confirms, ..DecompressorConfig::default() };
        let mut decompressor = Decompressor::new(config);
        let (mut is_repaired, mut refused) = (false, 0);
        for number in 0..1500u16 {
            let (now, packet, mut rohc, mut ip) = (GAP * number.into(), rtp(number), Vec::new(), Vec::new());
            let sent = compressor.compress(now, &packet, &mut rohc).expect("compresses");
            if (400..400 + burst).contains(&number) {
                continue;
            }
            let is_refresh = matches!(sent.packet_type, PacketType::IrDyn | PacketType::CoRepair);
            is_repaired |= number >= 400 && is_refresh;
            let result = decompressor.decompress(now, &rohc, &mut ip);
            let is_right = matches!(result, Ok(Some(_))) && ip == packet;
            refused += u16::from(!is_right);
            assert!(
                is_right || number >= 400 && !is_repaired,
                "{profiles:?} {confirm} {burst} {number}: {result:?}"
            );
        }
        assert!(is_repaired && refused < 310, "{profiles:?} {confirm} {burst}: {refused}");
    }
}

/// Packets that fail behind an IR-DYN show that the static part is another flow's (RFC 3095 5.3.2.2.3 c).
#[test]
fn failures_behind_an_ir_dyn_lose_the_context() {
    let fo_refresh = Refresh::every_packets(70);
    let config = CompressorConfig { fo_refresh, ..CompressorConfig::default() };
    let mut compressors = [(); 2].map(|()| Compressor::new(config.clone()));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let mut of_refreshes = Vec::new();
    for number in 0..400u16 {
        let now = GAP * number.into();
        let mut sent = [Vec::new(), Vec::new()];
        let kinds = [0, 1].map(|of| {
            let packet = udp(of as u8, number, 0);
            compressors[of].compress(now, &packet, &mut sent[of]).expect("compresses").packet_type
        });
        let of = usize::from(number >= 50);
        let result = decompressor.decompress(now, &sent[of], &mut Vec::new());
        if of == 1 && kinds[of] == PacketType::IrDyn {
            of_refreshes.push(result.map(|_| ()));
        }
    }
    assert_eq!(of_refreshes.first(), Some(&Ok(())));
    assert_eq!(of_refreshes.last(), Some(&Err(DecompressError::NotAllowedInState)), "{of_refreshes:?}");
}
