//! Replays the fuzz targets' corpora, and a bounded number of mutations of them, without libFuzzer.
//!
//! An input that once broke a decoder is kept in `tests/corpus/<target>/`. The seeds there come from
//! `cargo test -p bentpipe-wire --test integration -- --ignored write_seeds`.

#[path = "../../../../fuzz/src/wire.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use crate::bundles;
use crate::frames;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use crate::frames::Frame;
use bentpipe_wire::atm::{self, PayloadType};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ip::{Packet, Protocol};
use bentpipe_wire::pcap::{LinkType, Writer};
use bentpipe_wire::{aal1, bbframe, gse, link, mpe, ogg, pes, psi, rle, rtcp, rtp, si, ts, ule, wav};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use targets::{TARGETS, Target};

/// Mutations tried of each target's corpus.
const MUTATIONS: usize = 20_000;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

fn inputs(name: &str) -> Vec<Vec<u8>> {
    let folder = fs::read_dir(corpus(name)).unwrap_or_else(|error| panic!("corpus of {name}: {error}"));
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "corpus of {name} is empty");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run(name: &str, target: Target, input: &[u8]) {
    assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}");
}

#[test]
fn corpora_pass() {
    for &(name, target) in TARGETS {
        inputs(name).iter().for_each(|input| run(name, target, input));
    }
}

#[test]
fn mutated_corpora_pass() {
    for &(name, target) in TARGETS {
        let inputs = inputs(name);
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        for _ in 0..MUTATIONS {
            run(name, target, &mutate(&inputs, &mut rng));
        }
    }
}

/// One input with a few bytes changed, perhaps cut short or continued with the end of another one.
fn mutate(inputs: &[Vec<u8>], rng: &mut TestRng) -> Vec<u8> {
    let mut pick = |bound: usize| rng.next_u32() as usize % bound.max(1);
    let mut input = inputs[pick(inputs.len())].clone();
    match pick(4) {
        0 => input.truncate(pick(input.len() + 1)),
        1 => {
            let other = &inputs[pick(inputs.len())];
            input.truncate(pick(input.len() + 1));
            input.extend(&other[pick(other.len())..]);
        }
        _ => {}
    }
    for _ in 0..pick(6) {
        let at = pick(input.len().min(80));
        if let Some(byte) = input.get_mut(at) {
            *byte = [0, 1, 0xff, *byte ^ 1 << pick(8), pick(256) as u8][pick(5)];
        }
    }
    input
}

#[test]
#[ignore = "writes the seeds into the source tree"]
fn write_seeds() {
    for frame in frames::all() {
        for (target, seed) in seeds(&frame) {
            write(target, frame.name, &seed);
        }
    }
    write_captures();
    write_cells();
    write_streams();
    write_sections();
    write_sar_pdus();
    write_tables();
    write_pes();
    write_data_fields();
    write_fpdus();
    write_sound();
    bundles::write_seeds();
}

/// A cell of data, an RM cell on its way back, and one of OAM.
fn write_cells() {
    let header = |payload_type| atm::Repr { payload_type, ..atm::Repr::new(1, 100) };
    let rate = atm::rm::Rate::from_cells_per_second(366_792.0);
    let repr = atm::rm::Repr { backward: true, congestion: true, explicit: rate, ..Default::default() };
    let mut rm = [0; atm::PAYLOAD_LEN];
    repr.emit(&mut rm);
    let mut oam = [0x6a; atm::PAYLOAD_LEN];
    oam[0] = 0x18;
    atm::crc10::fill(&mut oam);
    let data = PayloadType::User { congested: true, last: true };
    for (name, payload_type, payload) in [
        ("data", data, [7; atm::PAYLOAD_LEN]),
        ("rm", PayloadType::ResourceManagement, rm),
        ("oam", PayloadType::OamEndToEnd, oam),
    ] {
        let mut cell = vec![0; atm::HEADER_LEN];
        header(payload_type).emit(&mut cell);
        cell.extend(payload);
        write("atm", name, &cell);
    }
}

/// SAR-PDUs with one lost and one misinserted, and a matrix without three of its cells.
fn write_sar_pdus() {
    let cells = |fec| {
        let mut segmenter = aal1::Segmenter::new(fec);
        segmenter.push(&[0x47; 188]);
        segmenter.push(&[7; 400]);
        segmenter.finish();
        std::iter::from_fn(move || segmenter.pop()).collect::<Vec<_>>()
    };
    let mut plain = cells(aal1::Fec::None);
    plain.remove(3);
    plain.insert(6, plain[1]);
    write("aal1", "plain", &plain.concat());
    let mut coded = cells(aal1::Fec::Long);
    coded.drain(5..8);
    write("aal1", "fec", &coded.concat());
}

/// A PAT, and a PMT with descriptors.
fn write_tables() {
    let pid = |number| ts::Pid::new(number).unwrap();
    let programmes =
        vec![psi::Programme { number: 1, map: pid(32) }, psi::Programme { number: 2, map: pid(33) }];
    let pat = psi::Pat { stream_id: 1, version: 3, network: Some(ts::Pid::NIT), programmes };
    let stream = |kind, number| psi::Elementary { kind, pid: pid(number), descriptors: vec![10, 2, 1, 2] };
    let streams = vec![stream(2, 256), stream(3, 257)];
    let pmt = psi::Pmt { number: 1, version: 0, clock: pid(256), descriptors: vec![0xc0, 1, 7], streams };
    write("psi", "pat", &pat.to_section());
    write("psi", "pmt", &pmt.to_section());
    let service = |number: u16, name: &[u8]| si::Service {
        number,
        has_schedule: true,
        has_present: false,
        running: 4,
        is_restricted: false,
        descriptors: si::service_descriptor(1, b"Provider", name),
    };
    let services = vec![service(1, b"Caf\xc2e"), service(2, b"\x15z\xc3\xbcri"), service(3, b"\x12\xc7\xd1")];
    let part = psi::Part { number: 0, last: 1 };
    let sdt = si::Sdt { stream_id: 1, network_id: 2, version: 3, is_actual: true, part, services };
    write("psi", "sdt", &sdt.to_section());
}

/// Headers with one time stamp and with both.
fn write_pes() {
    let stamp = |ticks| Some(pes::Stamp::new(ticks));
    let headers = [("pts", 0xc0, None), ("dts", 0xe0, stamp(126_000))];
    for (name, stream_id, dts) in headers {
        let repr = pes::Repr { packet_len: 300, ..pes::Repr::new(stream_id, stamp(133_200), dts) };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        write("pes", name, &bytes);
    }
}

pub(crate) fn write(target: &str, name: &str, seed: &[u8]) {
    fs::create_dir_all(corpus(target)).unwrap();
    fs::write(corpus(target).join(name), seed).unwrap();
}

/// An input whose first two bytes say `count`.
fn counted(count: usize, bytes: &[u8]) -> Vec<u8> {
    [&(count as u16).to_le_bytes()[..], bytes].concat()
}

fn seeds(frame: &Frame) -> Vec<(&'static str, Vec<u8>)> {
    // Long payloads would only slow the fuzzer down.
    if frame.bytes.len() > 2000 {
        return Vec::new();
    }
    let mut seeds = vec![("link", counted(frame.link_type.0.into(), &frame.bytes))];
    match frame.link_type {
        LinkType::RAW => seeds.extend(packet_seeds(&frame.bytes, frame.elided)),
        LinkType::ETHERNET => {
            seeds.push(("ethernet", counted(frame.elided, &frame.bytes)));
            if frame.name.starts_with("arp") {
                seeds.push(("arp", frame.bytes[14..].to_vec()));
            }
        }
        LinkType::ERF => {
            seeds.push(("erf", frame.bytes.clone()));
            if frame.name.starts_with("aal5") {
                seeds.push(("aal5", frame.bytes[20..].to_vec()));
                seeds.push(("llc", frame.bytes[20..32].to_vec()));
            }
        }
        _ => {}
    }
    seeds
}

fn packet_seeds(bytes: &[u8], elided: usize) -> Vec<(&'static str, Vec<u8>)> {
    let packet = Packet::new_elided(bytes, elided).unwrap();
    let upper = packet.upper().unwrap();
    let carried = |target| vec![("ip", counted(elided, bytes)), (target, counted(upper.elided, upper.bytes))];
    match upper.protocol {
        Protocol::TCP => carried("tcp"),
        Protocol::UDP if upper.bytes.len() > 8 => {
            let payload = &upper.bytes[8..];
            let rtcp = rtcp::is_rtcp(payload).then(|| ("rtcp", payload.to_vec()));
            [carried("udp"), vec![("rtp", counted(0, payload))], rtcp.into_iter().collect()].concat()
        }
        Protocol::UDP => carried("udp"),
        Protocol::UDP_LITE => carried("udplite"),
        Protocol::DCCP => carried("dccp"),
        Protocol::ICMP | Protocol::ICMPV6 => carried("icmp"),
        _ => vec![("ip", counted(elided, bytes))],
    }
}

fn write_captures() {
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).unwrap();
    for frame in frames::all().iter().filter(|frame| frame.name.starts_with("udp")) {
        let network = link::network(frame.link_type, &frame.bytes).unwrap();
        writer.write(1_500_000_000, network.bytes, frame.elided).unwrap();
    }
    let pcap = writer.into_inner();
    write("pcap", "nanoseconds_big_endian", &pcap);
    let mut swapped = pcap[..24 + 16].to_vec();
    swapped.chunks_mut(4).for_each(<[u8]>::reverse);
    swapped[4..8].copy_from_slice(&[2, 0, 4, 0]);
    swapped.extend(&pcap[24 + 16..24 + 16 + 73]);
    write("pcap", "nanoseconds_little_endian", &swapped);
    write("pcapng", "two_packets", &pcapng(&[&pcap[40..60], &pcap[40..56]]));
}

/// A section with one interface, each packet once in an enhanced and once in a simple block.
fn pcapng(packets: &[&[u8]]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX, 28]);
    file.extend(words(&[1, 32, 101 << 16, 0, 0x0009_0001, 0x0900_0000, 0, 32]));
    for packet in packets {
        let len = packet.len() as u32;
        file.extend(words(&[6, 32 + len, 0, 0, 1_000_000, len, len]));
        file.extend(*packet);
        file.extend(words(&[32 + len, 3, 16 + len, len]));
        file.extend(*packet);
        file.extend(words(&[16 + len]));
    }
    file
}

/// SNDUs of every kind, packed into TS packets; and a packet with an adaptation field.
fn write_streams() {
    let pid = ts::Pid::new(0x101).unwrap();
    let (mut encapsulator, mut stream) = (ule::Encapsulator::new(pid, ule::Method::Packing), Vec::new());
    let mut concat = ule::Concat::new(ule::Type::IPV4);
    assert!(concat.push(&[0x45; 20], 1500) && concat.push(&[1, 2, 3], 1500));
    let frame = [&[2; 12][..], &[0, 3, 0xaa, 0xaa, 3]].concat();
    let pdus = [
        ("ipv4", ule::Type::IPV4, &[0x45; 40][..]),
        ("rohc", ule::Type::ROHC, &[0xfd, 4, 1]),
        ("test", ule::Type::TEST, &[7; 20]),
        ("bridged", ule::Type::BRIDGED, &frame),
        ("pdu_concat", ule::Type::PDU_CONCAT, concat.bytes()),
        ("ts_concat", ule::Type::TS_CONCAT, &ts::NULL_PACKET),
    ];
    let stamp = [0, 1, 2, 3];
    let extensions = [ule::Extension::timestamp(&stamp), ule::Extension::padding(6)];
    for (name, kind, pdu) in pdus {
        let with = |repr| ule::Repr { extensions: &extensions, ..repr };
        let plain = ule::Repr::new(kind);
        for repr in [plain, with(plain.to(MacAddr([2, 0, 0, 0, 0, 1])))] {
            let mut sndu = vec![0; repr.header_len()];
            repr.emit(pdu.len(), &mut sndu);
            sndu.extend(pdu);
            sndu.extend([0; 4]);
            write("sndu", &format!("{name}_{}", repr.npa.map_or("plain", |_| "extended")), &sndu);
            encapsulator.push(&repr, pdu, &mut stream).unwrap();
        }
    }
    encapsulator.flush(&mut stream);
    write("ule", "packed", &stream);
    write("ts", "ule", &stream[..188]);
    let pieces: Vec<&[u8]> = stream[..5 * 188].chunks(250).collect();
    let pieces = pieces.iter().flat_map(|piece| [&[piece.len() as u8][..], piece].concat());
    write("ts_framing", "behind_rubbish", &[3, 1, 2, 3].into_iter().chain(pieces).collect::<Vec<u8>>());
    for (name, rtp) in [("plain", false), ("rtp", true)] {
        let mut input = vec![u8::from(rtp)];
        for (seq, packets) in (1_u16..).zip(stream[..5 * 188].chunks(2 * 188)) {
            let mut header = [0; rtp::HEADER_LEN];
            rtp::Repr::new(ts::RTP_PAYLOAD_TYPE, seq, 0, 7).emit(&mut header);
            let header: &[u8] = if rtp { &header } else { &[] };
            input.extend(((header.len() + packets.len()) as u16).to_le_bytes());
            input.extend([header, packets].concat());
        }
        write("ts_datagrams", name, &input);
    }
    let adaptation = ts::Adaptation {
        len_bytes: 30,
        pcr: Some(ts::Pcr::new(1_234_567)),
        opcr: Some(ts::Pcr::new(7)),
        splice_countdown: Some(-1),
        private_data: Some(&[1, 2]),
        extension: Some(&[0x1f]),
        ..ts::Adaptation::default()
    };
    ts::Repr { adaptation: Some(adaptation), ..ts::Repr::new(pid, 5) }.emit(&mut stream);
    write("ts", "adaptation", &stream[..188]);
}

/// Ogg with packets of one and more segments, and WAV files.
fn write_sound() {
    let long = vec![9; 600];
    let packets = [&b"OpusHead"[..], &[1; 60], &[], &long].map(|bytes| ogg::Packet { bytes, granule: 3 });
    write("ogg", "short", &ogg::write(7, &packets[..3]));
    write("ogg", "long", &ogg::write(7, &packets));
    let samples = vec![0, -1, 300, 7];
    write("wav", "mono", &wav::Repr { rate_hz: 8000, channels: 1, samples: samples.clone() }.to_bytes());
    write("wav", "stereo", &wav::Repr { rate_hz: 44_100, channels: 2, samples }.to_bytes());
}

/// MPE sections with and without LLC/SNAP, alone and packed into TS packets.
fn write_sections() {
    let (mut encapsulator, mut stream) =
        (mpe::Encapsulator::new(ts::Pid::PAT, ts::Method::Packing), Vec::new());
    for (name, ethertype) in [("ip", None), ("snap", Some(EtherType::IPV4))] {
        let repr = mpe::Repr { dst: MacAddr([2, 0, 0, 0, 0, 1]), ethertype };
        let datagram = [0x45; 40];
        let mut alone = Vec::new();
        mpe::Encapsulator::new(ts::Pid::PAT, ts::Method::Padding).push(&repr, &datagram, &mut alone).unwrap();
        write("mpe", name, &alone[5..5 + repr.section_len(datagram.len())]);
        for _ in 0..4 {
            encapsulator.push(&repr, &datagram, &mut stream).unwrap();
        }
    }
    encapsulator.flush(&mut stream);
    write("sections", "packed", &stream);
    // Three sections of one datagram, one that it is missing a part of, and one that is whole.
    let part = |number: u8, last: u8| [&[last << 3 | number, 30][..], &[0x45; 30]].concat();
    let parts = [part(0, 2), part(1, 2), part(2, 2), part(0, 1), part(0, 0)].concat();
    write("mpe_parts", "three", &parts);
}

/// FPDUs with packets whole and in fragments, with each form of protocol type and trailer.
fn write_fpdus() {
    use rle::{Protection, Types};
    for (n, types) in [Types::Suppressed, Types::Compressed, Types::Full].into_iter().enumerate() {
        for (protection, name) in [(Protection::Sequence, "sequence"), (Protection::Crc, "crc")] {
            let mut encapsulator = rle::Encapsulator::new(rle::Profile { types, protection });
            for (kind, len) in [(0x0800, 20), (0x0800, 300), (0x0806, 28), (0x88cc, 90), (0x86dd, 60)] {
                encapsulator
                    .push(ule::Type(kind), &vec![if kind == 0x86dd { 0x60 } else { 0x45 }; len])
                    .unwrap();
            }
            let mut input = vec![n as u8];
            while !encapsulator.is_empty() {
                let mut fpdu = Vec::new();
                encapsulator.fill(120, &mut fpdu);
                input.push(120);
                input.extend(&fpdu);
                input.resize(input.len() + 120 - fpdu.len(), 0);
            }
            write("rle", &format!("{name}-{n}"), &input);
        }
    }
}

/// Data fields with a PDU in fragments between whole ones, and the frame of the first.
fn write_data_fields() {
    let mut encapsulator = gse::Encapsulator::new().re_using_labels();
    for label in
        [gse::Label::Six(MacAddr([2, 0, 0, 0, 0, 1])), gse::Label::Three([1, 2, 3]), gse::Label::Broadcast]
    {
        for len in [20, 20, 300] {
            encapsulator.push(&gse::Repr::new(ule::Type::IPV4, label), &vec![0x45; len]).unwrap();
        }
    }
    let (mut input, mut frame) = (Vec::new(), vec![0; bbframe::HEADER_LEN]);
    while !encapsulator.is_empty() {
        let mut field = Vec::new();
        encapsulator.fill(150, &mut field);
        input.push(field.len() as u8);
        input.extend(&field);
        if frame.len() == bbframe::HEADER_LEN {
            bbframe::Repr::gse(field.len()).emit(&mut frame);
            frame.extend(field);
        }
    }
    write("gse", "fragments", &input);
    write("bbframe", "gse", &frame);
    write("bbframe", "adaptation", &[0xb8, 0x67, 1, 2]);
    let (mut framer, mut input) = (bbframe::Framer::new(), Vec::new());
    (0..8).for_each(|_| framer.push(&ts::NULL_PACKET));
    while framer.waiting_len() >= 200 {
        let mut field = Vec::new();
        let repr = framer.fill(200, &mut field);
        input.extend([200, (repr.distance_bits / 8) as u8]);
        input.extend(field);
    }
    write("bbframe_ts", "nulls", &input);
}
