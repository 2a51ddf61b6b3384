use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::dvb::ts::PACKET_LEN;

/// EN 302 307-1: Kbch, and spectral efficiency to table 13's digits without pilots; then the same for short FECFRAMEs, from
/// table 5b and this crate's facts of the frame.
const NORMAL: [(u32, f64); 28] = [
    (16_008, 0.490243),
    (21_408, 0.656448),
    (25_728, 0.789412),
    (32_208, 0.988858),
    (38_688, 1.188304),
    (43_040, 1.322253),
    (48_408, 1.487473),
    (51_648, 1.587196),
    (53_840, 1.654663),
    (57_472, 1.766451),
    (58_192, 1.788612),
    (38_688, 1.779991),
    (43_040, 1.980636),
    (48_408, 2.228124),
    (53_840, 2.478562),
    (57_472, 2.646012),
    (58_192, 2.679207),
    (43_040, 2.637201),
    (48_408, 2.966728),
    (51_648, 3.165623),
    (53_840, 3.300184),
    (57_472, 3.523143),
    (58_192, 3.567342),
    (48_408, 3.703295),
    (51_648, 3.951571),
    (53_840, 4.119540),
    (57_472, 4.397854),
    (58_192, 4.453027),
];

#[test]
fn table_13() {
    for (modcod, (bits, efficiency)) in MODCODS.into_iter().zip(NORMAL) {
        assert_eq!(modcod.bbframe_bits(FrameSize::Normal), Some(bits), "{modcod}");
        let computed = modcod.efficiency(FrameSize::Normal, false).unwrap();
        assert!((computed - efficiency).abs() < 5e-7, "{modcod}: {computed} for {efficiency}");
    }
    assert_eq!(MODCODS[27].data_field_len(FrameSize::Normal), Some(MAX_DATA_FIELD_LEN));
    assert_eq!((MODCODS[0].es_n0_db(), MODCODS[27].es_n0_db()), (-2.35, 16.05));
}

#[test]
fn frames_with_pilots_and_short_ones() {
    let symbols = |number, size, pilots| Modcod::new(number).unwrap().frame_symbols(size, pilots);
    use FrameSize::{Normal, Short};
    assert_eq!([1, 12, 18, 24].map(|n| symbols(n, Normal, false)), [32_490, 21_690, 16_290, 13_050]);
    assert_eq!([1, 12, 18, 24].map(|n| symbols(n, Normal, true)), [33_282, 22_194, 16_686, 13_338]);
    assert_eq!([1, 12, 18, 24].map(|n| symbols(n, Short, false)), [8190, 5490, 4140, 3330]);
    assert_eq!([1, 12, 18, 24].map(|n| symbols(n, Short, true)), [8370, 5598, 4212, 3402]);
    let lens: Vec<_> = MODCODS.iter().take(11).map(|modcod| modcod.data_field_len(Short)).collect();
    let expected = [374, 644, 779, 869, 1184, 1319, 1454, 1544, 1634, 1769].map(Some);
    assert_eq!((&lens[..10], lens[10]), (&expected[..], None));
    let efficiency = MODCODS[26].efficiency(Short, true).unwrap();
    assert!((efficiency - 4.1599).abs() < 5e-5, "{efficiency}");
}

#[test]
fn names() {
    assert_eq!("qpsk 3/4".parse(), Ok(Modcod::new(7).unwrap()));
    assert!(MODCODS.into_iter().all(|modcod| modcod.to_string().parse() == Ok(modcod)));
    let message = "no MODCOD of DVB-S2 is called \"QPSK 7/8\"; one is \"QPSK 3/4\"";
    assert_eq!("QPSK 7/8".parse::<Modcod>().unwrap_err().to_string(), message);
    assert_eq!((Modcod::new(0), Modcod::new(29)), (None, None));
}

#[test]
fn headers_that_others_wrote() {
    assert_eq!(crc8(b"123456789"), 0xbc);
    let bytes = [0x72, 0, 0, 0, 0x02, 0xf0, 0, 0, 0, 0x15];
    let repr = Repr { is_constant: true, roll_off: RollOff::R020, ..Repr::gse(94) };
    assert_eq!(Repr::parse(&bytes), Ok(repr));
    let mut written = [0xff; HEADER_LEN];
    repr.emit(&mut written);
    assert_eq!(written, bytes);
    let high_efficiency = [0xb2, 0, 0, 0, 0x02, 0xf0, 0, 0, 0, 0x87];
    assert_eq!(Repr::parse(&high_efficiency).unwrap_err().kind, Kind::Unsupported("GSE-HEM"));
}

#[test]
fn what_is_no_frame() {
    let frame = |repr: Repr, len: usize| {
        let mut bytes = vec![0; HEADER_LEN + len];
        repr.emit(&mut bytes);
        bytes
    };
    assert_eq!(parse(&frame(Repr::gse(20), 30)).unwrap().1.len(), 20);
    assert_eq!(parse(&frame(Repr::gse(20), 19)).unwrap_err().kind, Kind::Truncated { needed: 30, have: 29 });
    assert_eq!(parse(&[0; 9]).unwrap_err().kind, Kind::Truncated { needed: 10, have: 9 });
    let changed = |at: usize, value: u8| {
        let mut bytes = frame(Repr::gse(20), 20);
        bytes[at] = value;
        bytes[9] = crc8(&bytes[..9]);
        parse(&bytes).unwrap_err().kind
    };
    assert_eq!(changed(0, 0x63), Kind::Unsupported("roll-off of DVB-S2X"));
    assert_eq!(changed(5, 161), Kind::Malformed("data field length"));
    assert_eq!(changed(4, 0xf0), Kind::Malformed("data field length"));
    let mut bytes = frame(Repr::gse(20), 20);
    bytes[3] ^= 1;
    assert_eq!(parse(&bytes).unwrap_err(), Error::checksum(Layer::BbFrame, 9));
}

#[test]
fn mode_adaptation() {
    let repr = Adaptation {
        modcod: Modcod::new(7),
        size: FrameSize::Short,
        has_pilots: true,
        carrier_to_noise: 89,
        number: 3,
    };
    let mut bytes = [0; ADAPTATION_LEN];
    repr.emit(&mut bytes);
    assert_eq!(bytes, [0xb8, 0x67, 89, 3]);
    assert_eq!(Adaptation::parse(&bytes), Ok(repr));
    assert_eq!(Adaptation::parse(&[0xb8, 0, 0, 0]).unwrap().modcod, None);
    assert!(matches!(Adaptation::parse(&[0xb8, 29, 0, 0]).unwrap_err().kind, Kind::Unsupported(_)));
    assert!(matches!(Adaptation::parse(&[0xb9, 1, 0, 0]).unwrap_err().kind, Kind::Malformed(_)));
}

/// TS packets that differ, the second byte without an error indicator.
fn ts_packets(count: usize) -> Vec<[u8; PACKET_LEN]> {
    let packet = |n: usize| {
        let mut packet = [n as u8; PACKET_LEN];
        (packet[0], packet[1], packet[4]) = (0x47, 0x01, (n >> 8) as u8);
        packet
    };
    (0..count).map(packet).collect()
}

/// Data fields of these lengths, as many as TS packets suffice for.
fn transport_frames(packets: &[[u8; PACKET_LEN]], lens: &[usize]) -> Vec<(Repr, Vec<u8>)> {
    let mut framer = Framer::new();
    packets.iter().for_each(|packet| framer.push(packet));
    let mut frames = Vec::new();
    for &len in lens.iter().cycle() {
        if framer.waiting_len() < len {
            return frames;
        }
        let mut field = Vec::new();
        frames.push((framer.fill(len, &mut field), field));
    }
    frames
}

fn deframed(frames: &[(Repr, Vec<u8>)]) -> (Vec<[u8; PACKET_LEN]>, DeframerCounts) {
    let (mut deframer, mut packets) = (Deframer::new(), Vec::new());
    frames.iter().for_each(|(repr, field)| deframer.push(repr, field, |packet| packets.push(*packet)));
    (packets, *deframer.counts())
}

#[test]
fn a_transport_stream_has_the_crc_of_each_packet_in_place_of_the_next_sync_byte() {
    let packets = ts_packets(3);
    let [(repr, field)] = &transport_frames(&packets, &[400])[..] else { panic!("one frame") };
    assert_eq!(
        (repr.stream, repr.packet_bits, repr.sync, repr.distance_bits),
        (Stream::Transport, 1504, 0x47, 0)
    );
    assert_eq!((field[0], field[188], field[376]), (0, crc8(&packets[0][1..]), crc8(&packets[1][1..])));
    assert_eq!(field[1..188], packets[0][1..]);
    let frames = transport_frames(&ts_packets(20), &[100, 50, 400, 300]);
    let distances: Vec<_> = frames.iter().take(4).map(|(repr, _)| repr.distance_bits).collect();
    assert_eq!(distances, [0, 65_535, 8 * 38, 8 * 14]);
}

#[test]
fn a_stream_goes_on_in_its_middle() {
    let packets = ts_packets(9);
    let whole = transport_frames(&packets, &[500]);
    let mut framer = Framer::behind(&packets[1]);
    packets[2..8].iter().for_each(|packet| framer.push(packet));
    framer.skip(500 - 2 * PACKET_LEN);
    let mut field = Vec::new();
    assert_eq!((framer.fill(500, &mut field), field), whole[1]);
}

#[test]
fn a_lost_frame_costs_the_packets_in_it() {
    let packets = ts_packets(40);
    let mut frames = transport_frames(&packets, &[1000]);
    frames.remove(2);
    let (received, counts) = deframed(&frames);
    // Bytes 2000 to 3000 are of packets 10 to 15.
    let expected: Vec<_> = (0..10).chain(16..37).map(|n| packets[n]).collect();
    assert!(received == expected, "{} packets", received.len());
    assert_eq!((counts.sync_errors, counts.crc_errors, counts.frames), (1, 0, 6));
}

#[test]
fn a_damaged_packet_is_marked() {
    let packets = ts_packets(12);
    let mut frames = transport_frames(&packets, &[1000]);
    frames[0].1[188 * 2 + 50] ^= 4;
    let (received, counts) = deframed(&frames);
    assert_eq!((received.len(), counts.crc_errors), (10, 1));
    assert_eq!((received[2][1], received[1], received[3]), (0x81, packets[1], packets[3]));
}

#[test]
fn frames_that_are_no_plain_transport_stream() {
    let frames = transport_frames(&ts_packets(8), &[500]);
    let count = |change: fn(&mut Repr)| {
        let mut frames = frames.clone();
        change(&mut frames[1].0);
        let (received, counts) = deframed(&frames);
        (received.len(), counts.unsupported, counts.sync_errors)
    };
    assert_eq!(count(|repr| repr.has_sync = true), (3, 1, 0));
    assert_eq!(count(|repr| repr.deletes_nulls = true), (3, 1, 0));
    assert_eq!(count(|repr| repr.stream = Stream::Continuous), (3, 1, 0));
    assert_eq!(count(|repr| repr.packet_bits = 1632), (3, 1, 0));
    assert_eq!(count(|repr| repr.distance_bits = 4), (3, 0, 1));
    assert_eq!(count(|repr| repr.distance_bits = 4000), (3, 0, 1));
    assert_eq!(count(|repr| repr.distance_bits = 65_535), (3, 0, 1));
    assert_eq!(count(|_| {}), (7, 0, 0));
}

proptest! {
    #[test]
    fn round_trip(
        input: Option<u8>, flags: [bool; 3], stream in 0usize..3, roll_off in 0usize..3, packet_bits: u16,
        data_field_len in 0usize..=MAX_DATA_FIELD_LEN, sync: u8, distance_bits: u16,
    ) {
        let [is_constant, has_sync, deletes_nulls] = flags;
        let stream = [Stream::Transport, Stream::Packetized, Stream::Continuous][stream];
        let roll_off = [RollOff::R035, RollOff::R025, RollOff::R020][roll_off];
        let repr = Repr {
            stream, input, is_constant, has_sync, deletes_nulls, roll_off, packet_bits, data_field_len, sync, distance_bits,
        };
        let mut bytes = [0xff; HEADER_LEN];
        repr.emit(&mut bytes);
        prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
        let theirs = ::dvb_gse::bbheader::BBHeader::new(&bytes);
        prop_assert!(theirs.crc_is_valid());
        prop_assert_eq!((theirs.isi(), theirs.issyi(), theirs.npd()), (input.unwrap_or(0), has_sync, deletes_nulls));
        prop_assert_eq!((theirs.upl(), theirs.dfl(), theirs.syncd()), (Some(packet_bits), data_field_len as u16 * 8, distance_bits));
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = (parse(&bytes).is_ok(), Adaptation::parse(&bytes).is_ok());
    }

    #[test]
    fn transport_streams_come_out_as_they_went_in(
        count in 0usize..60, lens in proptest::collection::vec(1usize..2000, 1..6),
    ) {
        let packets = ts_packets(count);
        let frames = transport_frames(&packets, &lens);
        let carried: usize = frames.iter().map(|(_, field)| field.len()).sum();
        let (received, counts) = deframed(&frames);
        prop_assert!(received == packets[..carried / PACKET_LEN]);
        prop_assert_eq!((counts.crc_errors, counts.sync_errors, counts.unsupported), (0, 0, 0));
    }
}
