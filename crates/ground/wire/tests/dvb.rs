//! tshark reads the transport streams that this crate writes, and finds the same in them.

use crate::tool::{capture, fields};
use bentpipe_testkit::{Folder, has};
use bentpipe_wire::bbframe::{self, FrameSize, MODCODS};
use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::{self, Method, Pid};
use bentpipe_wire::ule::Type;
use bentpipe_wire::{gse, ipv4, mpe, psi, section, udp, ule};

const DST: MacAddr = MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);

fn pid(number: u16) -> Pid {
    Pid::new(number).unwrap()
}

/// What no dissector makes anything of.
const EXPERIMENT: Protocol = Protocol(253);

/// An IPv4 packet by its identification, with `payload_len` bytes that nobody looks into.
fn packet(ident: u16, payload_len: usize) -> Vec<u8> {
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = ipv4::Repr { ident, ..ipv4::Repr::new(ends.0, ends.1, EXPERIMENT, payload_len) };
    let mut bytes = vec![0x5a; ip.buffer_len() + payload_len];
    ip.emit(&mut bytes);
    bytes
}

/// tshark's values of a field over all frames.
fn column(rows: &[Vec<String>], index: usize) -> Vec<&str> {
    rows.iter().flat_map(|row| row[index].split(',')).filter(|value| !value.is_empty()).collect()
}

/// The identifications that tshark printed.
fn idents(rows: &[Vec<String>], index: usize) -> Vec<u16> {
    column(rows, index)
        .iter()
        .map(|id| u16::from_str_radix(id.trim_start_matches("0x"), 16).unwrap())
        .collect()
}

/// The TS packets of a stream as the frames of a capture.
fn frames(stream: &[u8]) -> Vec<&[u8]> {
    let (packets, rest) = stream.as_chunks::<{ ts::PACKET_LEN }>();
    assert!(rest.is_empty());
    packets.iter().map(|packet| &packet[..]).collect()
}

#[test]
fn mpe_sections_are_read_with_their_crc() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    for (method, ethertype) in
        [(Method::Padding, None), (Method::Packing, None), (Method::Packing, Some(EtherType::IPV4))]
    {
        let (mut encapsulator, mut stream) = (mpe::Encapsulator::new(pid(0x105), method), Vec::new());
        let sent: Vec<u16> = (1..30).collect();
        for &ident in &sent {
            let repr = mpe::Repr { dst: DST, ethertype };
            encapsulator.push(&repr, &packet(ident, usize::from(ident) * 31), &mut stream).unwrap();
        }
        encapsulator.flush(&mut stream);
        let path = capture(&scratch, "mpe.pcap", LinkType::MPEG_2_TS, &frames(&stream));
        let names = [
            "mp2t.pid",
            "mp2t.cc.drop",
            "mpeg_sect.crc.status",
            "dvb_data_mpe.dst_mac",
            "ip.id",
            "_ws.malformed",
        ];
        let rows = fields(&path, &["mpeg_sect.verify_crc:TRUE", "ip.check_checksum:TRUE"], &[], &names);
        assert!(column(&rows, 0).iter().all(|&pid| pid == "0x00000105"));
        assert_eq!((column(&rows, 1).len(), column(&rows, 5).len()), (0, 0));
        assert_eq!(column(&rows, 2), vec!["1"; sent.len()], "CRC-32 of each section");
        assert_eq!(column(&rows, 3), vec!["00:11:22:33:44:55"; sent.len()]);
        assert_eq!(idents(&rows, 4), sent, "{method:?} {ethertype:?}");
    }
}

/// tshark does not put datagrams together, but it checks every section.
#[test]
fn datagrams_over_several_mpe_sections() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let repr = mpe::Repr { dst: DST, ethertype: Some(EtherType::IPV6) };
    let (mut encapsulator, mut stream) = (mpe::Encapsulator::new(pid(0x105), Method::Packing), Vec::new());
    let lens = [3000, 4072, 4073, 9000, 60_000];
    lens.iter().for_each(|&len| encapsulator.push(&repr, &vec![0x60; len], &mut stream).unwrap());
    encapsulator.flush(&mut stream);
    let path = capture(&scratch, "parts.pcap", LinkType::MPEG_2_TS, &frames(&stream));
    let names = [
        "mpeg_sect.crc.status",
        "dvb_data_mpe.sect_num",
        "dvb_data_mpe.last_sect_num",
        "mpeg_sect.len",
        "dvb_data_mpe.llc_snap_flag",
    ];
    let rows = fields(&path, &["mpeg_sect.verify_crc:TRUE"], &[], &names);
    let lasts: Vec<usize> = lens.iter().map(|len| (len + 8).div_ceil(4080) - 1).collect();
    let numbers = lasts.iter().flat_map(|&last| (0..=last).map(|n| n.to_string()));
    assert!(column(&rows, 1).iter().copied().eq(numbers.collect::<Vec<_>>().iter().map(String::as_str)));
    let lasts = lasts.iter().flat_map(|&last| vec![last.to_string(); last + 1]);
    assert!(column(&rows, 2).iter().copied().eq(lasts.collect::<Vec<_>>().iter().map(String::as_str)));
    let sections = column(&rows, 1).len();
    assert_eq!(column(&rows, 0), vec!["1"; sections], "CRC-32 of each section");
    let lengths: usize = column(&rows, 3).iter().map(|len| len.parse::<usize>().unwrap()).sum();
    assert_eq!(lengths, lens.iter().sum::<usize>() + 8 * lens.len() + 13 * sections);
    assert_eq!(column(&rows, 4), vec!["0x01"; sections]);
}

/// Baseband frames of every MODCOD and length, full of GSE, in UDP behind mode adaptation headers.
fn baseband_frames(encapsulator: &mut gse::Encapsulator) -> Vec<Vec<u8>> {
    let sizes = [FrameSize::Normal, FrameSize::Short];
    let kinds = sizes.iter().flat_map(|&size| MODCODS.iter().map(move |&modcod| (modcod, size)));
    let kinds = kinds.filter_map(|(modcod, size)| Some((modcod, size, modcod.data_field_len(size)?)));
    kinds
        .enumerate()
        .map(|(number, (modcod, size, capacity))| {
            let mut field = Vec::new();
            encapsulator.fill(capacity, &mut field);
            let mut bytes = vec![0; bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN];
            let has_pilots = number % 2 == 0;
            let adaptation = bbframe::Adaptation {
                modcod: Some(modcod),
                size,
                has_pilots,
                carrier_to_noise: 100,
                number: number as u8,
            };
            adaptation.emit(&mut bytes);
            bbframe::Repr::gse(field.len()).emit(&mut bytes[bbframe::ADAPTATION_LEN..]);
            bytes.extend(field);
            // What the FEC needs beyond the data field is padding.
            bytes.resize(bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN + capacity, 0);
            bytes
        })
        .collect()
}

#[test]
fn gse_in_every_baseband_frame_is_read() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let mut encapsulator = gse::Encapsulator::new().re_using_labels();
    let labels = [gse::Label::Six(DST), gse::Label::Three([1, 2, 3]), gse::Label::Broadcast];
    let mut sent = 0;
    while encapsulator.waiting_len() < 230_000 {
        let repr = gse::Repr::new(Type::IPV4, labels[sent / 5 % 3]);
        encapsulator.push(&repr, &packet(sent as u16, sent * 37 % 1400)).unwrap();
        sent += 1;
    }
    let frames = baseband_frames(&mut encapsulator);
    assert_eq!(frames.len(), 28 + 24);
    let datagrams: Vec<Vec<u8>> = frames.iter().map(|frame| datagram(7001, frame)).collect();
    let path = capture(
        &scratch,
        "gse.pcap",
        LinkType::RAW,
        &datagrams.iter().map(Vec::as_slice).collect::<Vec<_>>(),
    );
    let preferences =
        ["dvb-s2_modeadapt.decode_df:TRUE", "dvb-s2_modeadapt.full_decode:TRUE", "ip.check_checksum:TRUE"];
    let names = [
        "dvb-s2_modeadapt.acmcmd.modcod",
        "dvb-s2_bb.crc.status",
        "dvb-s2_gse.crc.status",
        "ip.id",
        "ip.checksum.status",
        "_ws.malformed",
    ];
    let rows = fields(&path, &preferences, &["-d", "udp.port==7001,dvb-s2_modeadapt"], &names);
    let modcods: Vec<u8> = column(&rows, 0).iter().map(|value| value.parse().unwrap()).collect();
    let expected = (1..=28).chain((1..=28).filter(|number| ![11, 17, 23, 28].contains(number)));
    assert_eq!(modcods, expected.collect::<Vec<_>>());
    assert_eq!(column(&rows, 1), vec!["1"; frames.len()], "CRC-8 of each header");
    let sums = column(&rows, 2);
    assert!(
        sums.len() > 20 && sums.iter().all(|&status| status == "1"),
        "CRC-32 of each PDU in fragments: {sums:?}"
    );
    assert!(column(&rows, 4).iter().all(|&status| status == "1"));
    assert_eq!(column(&rows, 5).len(), 0);
    let outer = usize::from(OUTER);
    let inner: Vec<usize> =
        idents(&rows, 3).into_iter().map(usize::from).filter(|&ident| ident != outer).collect();
    let (mut receiver, mut received) = (gse::Receiver::new(gse::Filter::All), 0);
    frames.iter().for_each(|frame| receiver.push(bbframe::parse(&frame[4..]).unwrap().1, |_| received += 1));
    assert!(inner.into_iter().eq(0..received), "tshark finds what our receiver does");
    assert!(received > sent / 2, "{received} of {sent}");
}

/// A transport stream with ULE and MPE in it, in frames of each MODCOD in turn, each with a whole header.
fn transport_frames(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut framer = bbframe::Framer::new();
    stream.as_chunks().0.iter().for_each(|packet| framer.push(packet));
    let mut frames = Vec::new();
    for modcod in MODCODS.iter().cycle() {
        let capacity = modcod.data_field_len(FrameSize::Normal).unwrap();
        if framer.waiting_len() < capacity {
            break;
        }
        let mut field = Vec::new();
        let repr = framer.fill(capacity, &mut field);
        let mut bytes = vec![0; bbframe::ADAPTATION_LEN + bbframe::HEADER_LEN];
        let (modcod, size) = (Some(*modcod), FrameSize::Normal);
        let number = frames.len() as u8;
        let adaptation =
            bbframe::Adaptation { modcod, size, has_pilots: false, carrier_to_noise: 100, number };
        adaptation.emit(&mut bytes);
        repr.emit(&mut bytes[bbframe::ADAPTATION_LEN..]);
        bytes.extend(field);
        frames.push(bytes);
    }
    frames
}

#[test]
fn transport_streams_in_baseband_frames_are_read() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let (mut encapsulator, mut stream) = (mpe::Encapsulator::new(pid(0x105), Method::Padding), Vec::new());
    for ident in 1..=400_u16 {
        encapsulator
            .push(&mpe::Repr::new(DST), &packet(ident, usize::from(ident) * 7 % 1400), &mut stream)
            .unwrap();
        stream.extend(ts::NULL_PACKET);
    }
    let frames = transport_frames(&stream);
    let datagrams: Vec<Vec<u8>> = frames.iter().map(|frame| datagram(7001, frame)).collect();
    let captured: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
    let path = capture(&scratch, "bbframe-ts.pcap", LinkType::RAW, &captured);
    let names = [
        "dvb-s2_bb.crc.status",
        "dvb-s2_bb.up.crc.status",
        "mp2t.pid",
        "mpeg_sect.crc.status",
        "ip.id",
        "dvb-s2_bb.syncd_invalid",
        "_ws.malformed",
    ];
    let preferences =
        ["dvb-s2_modeadapt.decode_df:TRUE", "dvb-s2_modeadapt.full_decode:TRUE", "mpeg_sect.verify_crc:TRUE"];
    let rows = fields(&path, &preferences, &["-d", "udp.port==7001,dvb-s2_modeadapt"], &names);
    assert_eq!(column(&rows, 0), vec!["1"; frames.len()], "CRC-8 of each header");
    let (mut deframer, mut packets) = (bbframe::Deframer::new(), Vec::<u8>::new());
    for frame in &frames {
        let (repr, field) = bbframe::parse(&frame[bbframe::ADAPTATION_LEN..]).unwrap();
        deframer.push(&repr, field, |packet| packets.extend(packet));
    }
    assert_eq!(packets, stream[..packets.len()]);
    let (pids, sums) = (column(&rows, 2), column(&rows, 1));
    // The first of a frame has that of a packet which tshark does not keep: "2", not verified.
    let verified = sums.iter().filter(|&&status| status == "1").count();
    assert!(verified + frames.len() >= sums.len(), "CRC-8 of each TS packet: {sums:?}");
    assert!(!sums.contains(&"0"));
    assert_eq!(pids.len(), packets.len() / ts::PACKET_LEN, "tshark finds what our receiver does");
    assert!(column(&rows, 3).iter().all(|&status| status == "1"));
    let outer = |ident: &u16| *ident != OUTER;
    let inner: Vec<u16> = idents(&rows, 4).into_iter().filter(outer).collect();
    assert!(inner.len() > 300 && inner.is_sorted(), "{inner:?}");
    assert_eq!((column(&rows, 5).len(), column(&rows, 6).len()), (0, 0));
}

/// The identification of the packets around frames.
const OUTER: u16 = 0xffff;

/// A UDP datagram over IPv4 to a port.
fn datagram(dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let udp = udp::Repr { src_port: 5000, dst_port, payload_len: payload.len() };
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let payload_len = udp::HEADER_LEN + payload.len();
    let ip = ipv4::Repr { ident: OUTER, ..ipv4::Repr::new(ends.0, ends.1, Protocol::UDP, payload_len) };
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}

/// Every kind of SNDU, with an address or without, packed.
fn every_kind_of_sndu() -> Vec<u8> {
    let (mut encapsulator, mut stream) = (ule::Encapsulator::new(pid(0x101), Method::Packing), Vec::new());
    let stamp = 1_234_567_u32.to_be_bytes();
    let stamped = [ule::Extension::timestamp(&stamp), ule::Extension::padding(6)];
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &packet(3, 300)].concat();
    let mut concat = ule::Concat::new(Type::IPV4);
    assert!(concat.push(&packet(4, 30), 1500) && concat.push(&packet(5, 40), 1500));
    let plain = ule::Repr::new(Type::IPV4);
    let mut push = |repr: ule::Repr<'_>, pdu: &[u8]| encapsulator.push(&repr, pdu, &mut stream).unwrap();
    push(plain, &packet(1, 100));
    push(ule::Repr { extensions: &stamped, ..plain.to(DST) }, &packet(2, 500));
    push(ule::Repr::new(Type::BRIDGED), &frame);
    push(ule::Repr::new(Type::PDU_CONCAT).to(DST), concat.bytes());
    push(ule::Repr::new(Type::TEST), &[7; 90]);
    push(plain, &packet(6, 1000));
    encapsulator.flush(&mut stream);
    stream
}

/// The dissector in `contrib/wireshark`, which finds ULE's PIDs in the PMT or is told.
#[test]
fn the_lua_dissector_reads_ule() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let stream = every_kind_of_sndu();
    let pmt = psi::Pmt {
        number: 1,
        version: 0,
        clock: Pid::NULL,
        descriptors: Vec::new(),
        streams: vec![psi::Elementary::ule(pid(0x101))],
    };
    let pat =
        psi::Pat { programmes: vec![psi::Programme { number: 1, map: pid(0x100) }], ..psi::Pat::default() };
    let mut with_tables = Vec::new();
    for (pid, table) in [(Pid::PAT, pat.to_section()), (pid(0x100), pmt.to_section())] {
        section::Encapsulator::new(pid, Method::Padding).push(&table, &mut with_tables);
    }
    with_tables.extend(&stream);
    for (stream, preferences) in [(&with_tables, &[][..]), (&stream, &["ule.pids:0x101"][..])] {
        let rows = lua(&scratch, stream, preferences);
        let types =
            ["0x0800", "0x0301", "0x0300", "0x0800", "0x0001", "0x0003", "0x0800", "0x0000", "0x0800"];
        assert_eq!(column(&rows, 0), types);
        assert_eq!(column(&rows, 1), vec!["1"; 6], "CRC-32 of each SNDU");
        assert_eq!(idents(&rows, 2), [1, 2, 3, 4, 5, 6]);
        assert_eq!(column(&rows, 3), ["1234567"]);
        assert_eq!(column(&rows, 4), vec!["00:11:22:33:44:55"; 2]);
        assert_eq!(column(&rows, 5), Vec::<&str>::new());
        assert_eq!(column(&rows, 6), ["02:00:00:00:00:01"], "the bridged frame");
        assert_eq!(column(&rows, 7), Vec::<&str>::new());
    }
    let mut damaged = stream.clone();
    damaged[4 + 30] ^= 1;
    damaged.drain(5 * 188..6 * 188);
    let rows = lua(&scratch, &damaged, &["ule.pids:0x101"]);
    assert_eq!(column(&rows, 1).iter().filter(|&&status| status == "0").count(), 1);
    assert!(column(&rows, 5).contains(&"SNDU lost by a continuity error"), "{:?}", column(&rows, 5));
}

fn lua(scratch: &Folder, stream: &[u8], preferences: &[&str]) -> Vec<Vec<String>> {
    let path = capture(scratch, "ule.pcap", LinkType::MPEG_2_TS, &frames(stream));
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../../contrib/wireshark/ule.lua");
    let names = [
        "ule.type",
        "ule.crc.status",
        "ip.id",
        "ule.timestamp",
        "ule.npa",
        "ule.problem",
        "eth.dst",
        "_ws.lua.error",
    ];
    fields(&path, preferences, &["-X", script], &names)
}
