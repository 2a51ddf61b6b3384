//! Captures made here: link layers, snapshots, pipes, tables and plots, and what is refused.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use bentpipe_testkit::{Tshark, has};
use sha2::{Digest, Sha256};

use super::*;

#[test]
fn a_capture_there_and_back() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 200, 65_535);
    let text = said(&rohc(&["compress", "--verify"], &[&input, &stream]), 0);
    let left_out =
        "in.pcap: 201 records, 200 used, 1 left out: 1 of EtherType 0x0806 (ARP), not IP, record 1";
    assert!(text.contains(left_out), "{text}");
    assert!(text.contains("200 packets: 200 ok."), "{text}");
    said(&rohc(&["decompress"], &[&stream, &back]), 0);
    let expected: Vec<_> = (0..200).map(udp).collect();
    assert_eq!(packets(&back), (Some(LinkType::RAW), expected.clone()));
    let (link_type, compressed) = packets(&stream);
    assert_eq!(link_type, Some(LinkType::USER0));
    let bytes = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).sum::<usize>();
    let saved = bytes(&expected) - bytes(&compressed);
    assert!(saved > 200 * 23, "{saved} bytes saved of 200 headers of 28");
}

#[test]
fn a_snapshot_is_compressed_as_the_whole_would_be() {
    let folder = Folder::new();
    let [whole, cut, whole_stream, cut_stream, back] =
        ["whole", "cut", "whole.rohc", "cut.rohc", "back"].map(|name| folder.file(name));
    udp_capture(&whole, 50, 65_535);
    udp_capture(&cut, 50, 18 + 28);
    said(&rohc(&["compress"], &[&whole, &whole_stream]), 0);
    said(&rohc(&["compress", "--verify"], &[&cut, &cut_stream]), 0);
    said(&rohc(&["decompress"], &[&cut_stream, &back]), 0);
    for (cut, whole) in packets(&cut_stream).1.iter().zip(packets(&whole_stream).1) {
        assert_eq!(cut[..], whole[..whole.len() - 20]);
    }
    for (number, packet) in (0..).zip(packets(&back).1) {
        assert_eq!(packet[..], udp(number)[..28]);
    }
}

/// A record that holds no IP packet is left out, and named by its protocol. One that cannot be read is damage.
#[test]
fn records_of_other_protocols_are_left_out() {
    let folder = Folder::new();
    let [input, stream, out, other] =
        ["in.pcap", "rohc.pcap", "out.pcap", "other"].map(|name| folder.file(name));
    udp_capture(&input, 50, 65_535);
    for (command, files) in
        [("stats", vec![&input]), ("compress", vec![&input, &stream]), ("roundtrip", vec![&input])]
    {
        let files: Vec<&Path> = files.into_iter().map(|file| &**file).collect();
        let text = said(&rohc(&[command], &files), 0);
        let left_out = "51 records, 50 used, 1 left out: 1 of EtherType 0x0806 (ARP), not IP, record 1";
        assert!(text.contains(left_out), "{command}: {text}");
        said(&rohc(&[command, "--skip-other"], &files), 0);
    }
    assert_eq!(packets(&stream).1.len(), 50);
    said(&rohc(&["decompress"], &[&stream, &out]), 0);
    // A stream with a record of another link type, behind its packets.
    let compressed = packets(&stream).1;
    let mut pcapng: Vec<u8> = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]
        .iter()
        .flat_map(|word: &u32| word.to_le_bytes())
        .collect();
    [147, 1]
        .iter()
        .for_each(|link| pcapng.extend([1u32, 20, *link, 0, 20].iter().flat_map(|word| word.to_le_bytes())));
    let records = compressed.iter().map(|unit| (0u32, &unit[..])).chain([(1, &b"other"[..])]);
    for (interface, bytes) in records {
        let len = bytes.len() as u32;
        let block = 32 + len.next_multiple_of(4);
        pcapng.extend([6, block, interface, 0, 0, len, len].iter().flat_map(|word: &u32| word.to_le_bytes()));
        pcapng.extend(bytes);
        pcapng.resize(pcapng.len().next_multiple_of(4), 0);
        pcapng.extend(block.to_le_bytes());
    }
    fs::write(&other, pcapng).expect("a file");
    let text = said(&rohc(&["decompress"], &[&other, &out]), 1);
    let left_out =
        "1 left out: 1 malformed: Ethernet at byte 0: truncated: 14 bytes needed, 5 there, record 51";
    assert!(text.contains(left_out), "{text}");
    assert_eq!(packets(&out).1.len(), 50);
}

/// Flows without room at the decompressor: how many packets that costs is told, and --rtp-ports is not blamed.
#[test]
fn a_lack_of_room_is_told() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 400, 65_535);
    let files = [&input, Path::new("--csv"), &table];
    let text = said(&rohc(&words("stats --mode o --max-contexts 1"), &files), 0);
    let uncompressed = rows(&table).iter().filter(|row| row[9] == "0x0000").count();
    assert!(uncompressed > 180, "{uncompressed}");
    let lack = format!(
        "more flows than the decompressor has room for: {uncompressed} of 400 packets went uncompressed"
    );
    assert!(text.contains(&lack), "{text}");
    assert!(!text.contains("likely"), "{text}");
}

/// What is in front of an IPv4 packet of 48 bytes, by link type.
const LINKS: [(u16, &[u8]); 15] = [
    (0, &[2, 0, 0, 0]),
    (1, b"addressesof2\x08\0"),
    (1, b"addressesof2\x88\xa8\0\x05\x81\0\0\x07\x08\0"),
    (1, b"addressesof2\x91\0\0\x05\x81\0\0\x07\x08\0"),
    (1, b"addressesof2\x81\0\0\x07\x88\x64\x11\0\0\x01\0\x32\0\x21"),
    (9, &[0x21]),
    (9, &[0xff, 3, 0, 0x21]),
    (12, &[]),
    (50, &[0xff, 3, 0, 0x21]),
    (101, &[]),
    (104, &[0x0f, 0, 8, 0]),
    (108, &[0, 0, 0, 2]),
    (113, b"\0\0\0\x01\0\x06address8\x08\0"),
    (228, &[]),
    (276, b"\x08\0\0\0\0\0\0\x03\0\x01\0\x06address8"),
];

/// The same packets give the same stream out of every link layer, also if one file has them all.
#[test]
fn every_link_type_is_read() {
    let folder = Folder::new();
    let [input, stream, back, all] = ["in", "rohc", "back", "all"].map(|name| folder.file(name));
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let mut pcapng: Vec<u8> = section.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let block = |file: &mut Vec<u8>, kind: u32, words: &[u32], bytes: &[u8]| {
        let len = (12 + 4 * words.len() + bytes.len().next_multiple_of(4)) as u32;
        [kind, len].iter().chain(words).for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend(len.to_le_bytes());
    };
    LINKS.iter().for_each(|(link, _)| block(&mut pcapng, 1, &[u32::from(*link), 0], &[]));
    let mut streams = Vec::new();
    for (index, (link, header)) in LINKS.iter().enumerate() {
        let file = fs::File::create(&input).expect("a file");
        let mut writer = Writer::new(file, LinkType(*link)).expect("a capture");
        for number in 0..20 {
            let frame = [header, &udp(number)[..]].concat();
            writer.write(0, &frame, 0).expect("writes");
            let len = frame.len() as u32;
            block(&mut pcapng, 6, &[index as u32, 0, 0, len, len], &frame);
        }
        said(&rohc(&["compress", "--verify"], &[&input, &stream]), 0);
        streams.push(packets(&stream).1);
    }
    assert!(streams.iter().all(|stream| *stream == streams[0]));
    fs::write(&all, pcapng).expect("a file");
    said(&rohc(&["compress", "--verify"], &[&all, &stream]), 0);
    said(&rohc(&["decompress"], &[&stream, &back]), 0);
    let once: Vec<_> = (0..20).map(udp).collect();
    assert_eq!(packets(&back).1, vec![once; LINKS.len()].concat());
}

/// Returns a capture of PPP with the records of a stream, behind one of another protocol.
fn in_ppp(stream: &[u8], protocol: [u8; 2]) -> Vec<u8> {
    let mut file = stream[..24].to_vec();
    file[20..24].copy_from_slice(&9u32.to_le_bytes());
    // A frame of IPCP comes first.
    let ipcp = [0x80, 0x21, 1, 1, 0, 4];
    file.extend([[0; 8].as_slice(), &6u32.to_le_bytes(), &6u32.to_le_bytes(), &ipcp].concat());
    let mut rest = &stream[24..];
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (record, next) = behind.split_at(word(8) as usize);
        file.extend(&head[..8]);
        file.extend([word(8), word(12)].map(|len| (len + 2).to_le_bytes()).concat());
        file.extend(protocol.iter().chain(record));
        rest = next;
    }
    file
}

#[test]
fn rohc_over_ppp_is_read() {
    let folder = Folder::new();
    let [input, stream, ppp, out] = ["in", "rohc", "ppp", "out"].map(|name| folder.file(name));
    udp_capture(&input, 30, 65_535);
    for (cids, protocol) in [("small", [0, 3]), ("large", [0, 5])] {
        said(&rohc(&["compress", "--cid", cids], &[&input, &stream]), 0);
        fs::write(&ppp, in_ppp(&fs::read(&stream).expect("a stream"), protocol)).expect("a file");
        let text = said(&rohc(&["decompress", "--cid", cids], &[&ppp, &out]), 0);
        assert!(text.contains("of IPCP: Configure-Request without ROHC, record 1"), "{text}");
        assert_eq!(fs::read(&out).expect("packets").len(), 24 + 30 * (16 + 48));
    }
    let text = said(&rohc(&words("decompress --cid small"), &[&ppp, &out]), 2);
    assert!(text.contains("of ROHC with large CIDs (--cid large)"), "{text}");
}

#[test]
fn rohc_over_ppp_is_written() {
    let folder = Folder::new();
    let [input, ppp, out] = ["in", "ppp", "out"].map(|name| folder.file(name));
    udp_capture(&input, 30, 65_535);
    for (cids, protocol) in [("small", 3), ("large", 5)] {
        said(&rohc(&["compress", "--link", "ppp", "--cid", cids], &[&input, &ppp]), 0);
        let (link_type, frames) = packets(&ppp);
        assert_eq!((link_type, frames.len()), (Some(LinkType::PPP), 30));
        assert!(frames.iter().all(|frame| frame.starts_with(&[0xff, 3, 0, protocol])));
        said(&rohc(&["decompress", "--cid", cids], &[&ppp, &out]), 0);
        assert_eq!(fs::read(&out).expect("packets").len(), 24 + 30 * (16 + 48));
        let text = said(&rohc(&words("decompress --link pdcp12"), &[&ppp, &out]), 2);
        assert!(text.contains("of link type 9, not 147 (USER0) with PDCP"), "{text}");
    }
    if !has("tshark") {
        return;
    }
    let text =
        Tshark::on(&ppp).expect("asked for before").options(&["-T", "fields", "-e", "ppp.protocol"]).text();
    assert_eq!(text.lines().filter(|line| line.contains("0x0005")).count(), 30, "{text}");
}

/// PDUs of PDCP carry the same ROHC packets behind their numbers, and feedback as control PDUs; Wireshark reads the numbers.
#[test]
fn rohc_over_pdcp_there_and_back() {
    let folder = Folder::new();
    let [input, stream, pdcp, out, feedback, wrapped] =
        ["in", "rohc", "pdcp", "out", "feedback", "wrapped"].map(|name| folder.file(name));
    udp_capture(&input, 30, 65_535);
    said(&rohc(&words("compress --mode o"), &[&input, &stream]), 0);
    for (link, bits) in [("pdcp12", 12), ("pdcp18", 18)] {
        let options = words("compress --mode o --link");
        let options = [&options[..], &[link, "--feedback"]].concat();
        said(&rohc(&options, &[&feedback, &input, &pdcp]), 0);
        let (link_type, pdus) = packets(&pdcp);
        assert_eq!((link_type, pdus.len()), (Some(LinkType::USER0), 30));
        let header = if bits == 12 { 2 } else { 3 };
        for (number, (pdu, packet)) in pdus.iter().zip(packets(&stream).1).enumerate() {
            assert_eq!((pdu[0], usize::from(pdu[header - 1]), &pdu[header..]), (0x80, number, &packet[..]));
        }
        let control = packets(&feedback).1;
        assert!(!control.is_empty() && control.iter().all(|pdu| pdu[0] == 0x10 && pdu.len() > 1));
        said(&rohc(&["decompress", "--mode", "o", "--link", link], &[&pdcp, &out]), 0);
        assert_eq!(packets(&out).1, (0..30).map(udp).collect::<Vec<_>>());
        let text = said(&rohc(&["decompress", "--link", link], &[&feedback, &out]), 2);
        assert!(text.contains("of PDCP: feedback, which is for the other direction's compressor"), "{text}");
        if has("tshark") {
            fs::write(&wrapped, pdcp_in_udp(&pdus, bits)).expect("a file");
            let tshark = Tshark::on(&wrapped).expect("asked for before");
            let read = tshark.options(&["--enable-heuristic", "pdcp_lte_udp"]).fields(&["pdcp-lte.seq-num"]);
            let numbers: Vec<String> = read.into_iter().flatten().collect();
            assert_eq!(numbers, (0..30).map(|number| number.to_string()).collect::<Vec<_>>());
        }
    }
}

/// Capture of PDUs in the UDP datagrams by which Wireshark's dissector is told what they are.
fn pdcp_in_udp(pdus: &[Vec<u8>], bits: u8) -> Vec<u8> {
    let mut file = Vec::new();
    [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101]
        .iter()
        .for_each(|word: &u32| file.extend(word.to_le_bytes()));
    for pdu in pdus {
        // Signature; a PDU with a header of the user plane, with ROHC; length of numbers; the PDU.
        let told = [b"pdcp-lte", &[0, 2, 1, 2, bits, 1][..], pdu].concat();
        let len = (28 + told.len()) as u16;
        let mut packet = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([192, 0, 2, 1, 192, 0, 2, 2, 0x30, 0x39, 0x30, 0x39]);
        packet.extend((len - 20).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(told);
        let len = packet.len() as u32;
        [0, 0, len, len].iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
        file.extend(packet);
    }
    file
}

/// With the integrity check value of IPsec's ROHC, a packet of another key or with another content is refused.
#[test]
fn the_icv_of_ipsec_lets_nothing_wrong_through() {
    const KEY: &str = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
    let folder = Folder::new();
    let [input, plain, stream, out, cut] =
        ["in", "plain", "rohc", "out", "cut"].map(|name| folder.file(name));
    udp_capture(&input, 30, 65_535);
    said(&rohc(&["compress"], &[&input, &plain]), 0);
    for len in [16, 4] {
        let icv = format!("--icv-key {KEY} --icv-len {len}");
        said(&rohc(&words(&format!("compress {icv}")), &[&input, &stream]), 0);
        let units = packets(&stream).1;
        for (number, (unit, packet)) in units.iter().zip(packets(&plain).1).enumerate() {
            let code = hmac_of_twenty_0b(&udp(number as u16));
            assert_eq!(*unit, [&packet[..], &code[..len]].concat());
        }
        said(&rohc(&words(&format!("decompress {icv}")), &[&stream, &out]), 0);
        assert_eq!(packets(&out).1, (0..30).map(udp).collect::<Vec<_>>());
        let text =
            said(&rohc(&words(&format!("decompress {}", icv.replacen("0b", "0c", 1))), &[&stream, &out]), 1);
        assert!(text.contains("refused: its ICV is another packet's"), "{text}");
        assert_eq!(packets(&out).1.len(), 0);
    }
    udp_capture(&cut, 5, 18 + 28);
    let icv = format!("--icv-key {KEY}");
    let text = said(&rohc(&words(&format!("compress {icv}")), &[&cut, &stream]), 2);
    assert!(text.contains("cut by the capture, so that its ICV cannot be calculated"), "{text}");
    for wrong in ["", "0", "0x", "zz"] {
        let text = said(&rohc(&["compress", &format!("--icv-key={wrong}")], &[&input, &stream]), 2);
        assert!(text.contains("expected pairs of hexadecimal digits") || wrong.is_empty(), "{text}");
    }
}

/// HMAC-SHA-256 with a key of 20 octets 0x0b, as RFC 2104 2 defines it.
fn hmac_of_twenty_0b(message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| {
        let mut pad = vec![with; 64];
        pad[..20].iter_mut().for_each(|octet| *octet ^= 0x0b);
        pad
    };
    let inner = Sha256::digest([&pad(0x36)[..], message].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}

/// Whoever looks for a mistake is told file, packet and what was expected.
#[test]
fn failures_name_file_and_packet() {
    let folder = Folder::new();
    let [input, stream, out, broken] = ["in", "rohc", "out", "broken"].map(|name| folder.file(name));
    udp_capture(&input, 5, 65_535);
    let text = said(&rohc(&words("compress --mrru 30 --mtu 20"), &[&input, &stream]), 2);
    assert!(text.contains("/in: packet 2: not compressed: "), "{text}");
    assert!(text.contains(" bytes with a CRC-32, above the channel's MRRU of 30"), "{text}");
    said(&rohc(&["compress"], &[&input, &stream]), 0);
    let text = said(&rohc(&words("decompress --cid large"), &[&stream, &out]), 1);
    assert!(text.contains("/rohc: packet 1: refused: profile "), "{text}");
    assert!(text.contains("are --cid, --contexts, --profiles and --mrru those of the compressor?"), "{text}");
    let mut file = fs::read(&input).expect("a capture");
    let third = 24 + 16 + 42 + 16 + 69;
    file[third + 8..third + 12].fill(0x7f);
    fs::write(&broken, file).expect("a file");
    let text = said(&rohc(&["stats"], &[&broken]), 1);
    assert!(text.contains(", not read on from record 3: pcap at byte "), "{text}");
}

/// Wireshark's dissector, told that USER0 is ROHC, reads what the compressor wrote of a flow.
#[test]
fn wireshark_reads_the_stream() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let [input, stream] = ["in.pcap", "rohc.pcap"].map(|name| folder.file(name));
    rtp_capture(&input, 12);
    said(&rohc(&words("compress --rtp-ports all --mode o"), &[&input, &stream]), 0);
    let table = r#"uat:user_dlts:"User 0 (DLT=147)","rohc","0","","0","""#;
    let text = Tshark::on(&stream).expect("asked for before").preferences(&[table]).options(&["-V"]).text();
    assert!(!text.contains("Malformed"), "{text}");
    let (first, rest) = text.split_once("Frame 2:").expect("several packets");
    for said in [
        "IR packet",
        "Profile: RTP (1)",
        "Static IPv4 chain (prot=UDP: 10.0.0.1 -> 10.0.0.2)",
        "Static UDP chain (4096 -> 8192)",
        "Time to Live: 64",
        "UDP Checksum: 0x0000",
        "Sequence Number(SN): 0",
        "RTP Timestamp: 0",
    ] {
        assert!(first.contains(said), "{said}:\n{first}");
    }
    assert!(rest.contains("UO-0 packet"), "{rest}");
}

#[test]
fn segments_are_records_of_their_own() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 20, 65_535);
    let options = words("compress --mrru 100 --mtu 16 --verify");
    said(&rohc(&options, &[&input, &stream]), 0);
    let (_, units) = packets(&stream);
    assert!(units.len() > 40 && units.iter().all(|unit| unit.len() <= 16), "{}", units.len());
    said(&rohc(&words("decompress --mrru 100"), &[&stream, &back]), 0);
    assert_eq!(packets(&back).1, (0..20).map(udp).collect::<Vec<_>>());
    assert_eq!(rohc(&words("decompress"), &[&stream, &back]).status.code(), Some(1));
}

#[test]
fn tables_and_plots() {
    let folder = Folder::new();
    let [input, table, plot] = ["in.pcap", "rows.csv", "plot.svg"].map(|name| folder.file(name));
    udp_capture(&input, 100, 65_535);
    let files = [&input, Path::new("--csv"), &table, Path::new("--plot"), &plot];
    let text = said(&rohc(&["stats"], &files), 0);
    assert!(text.starts_with("Headers shrink from 28.0 to "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("UDP/IP           IR ")), "{text}");
    let versions: Vec<&str> = text.lines().filter(|line| line.starts_with("ROHC")).collect();
    assert!(versions[0].starts_with("ROHC, v1") && versions[1].starts_with("ROHCv2"), "{text}");
    assert!(versions.iter().all(|row| row.contains(" 100 ") && row.contains(" 28.0 ")), "{text}");
    let rows = rows(&table);
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[0][11..], ["U-mode", "IR", "0.000000000", "10.0.0.1 4096 > 10.0.0.2 8192"]);
    assert_eq!(rows[99][11..], ["U-mode", "SO", "1.980000000", "10.0.0.1 4096 > 10.0.0.3 8192"]);
    assert_eq!(rows[3][1..5], ["5", "ok", "48", &format!("{:08x}", crc32fast::hash(&udp(3)))]);
    let svg = fs::read_to_string(plot).expect("a plot");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    assert!(svg.contains("with ROHC") && svg.contains("data-curve=\"0\""));
}

#[test]
fn a_lack_of_cids_is_told() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 100, 65_535);
    let lack = "more flows than CIDs (1): 99 of 100 packets took another flow's; --cid large has up to 16384";
    let output = rohc(&["stats", "--max-cid", "0"], &[&input]);
    assert!(said(&output, 0).contains(lack), "{output:?}");
    let output = rohc(&["stats", "--max-cid", "1"], &[&input]);
    assert!(!said(&output, 0).contains("CIDs"), "{output:?}");
}

#[test]
fn stats_have_the_processor_time_of_both_searches() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 200, 65_535);
    let text = said(&rohc(&["stats", "--cpu"], &[&input]), 0);
    for search in ["hash of the static fields", "linear search"] {
        let row = text.lines().find(|line| line.starts_with(search)).unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = row[search.len()..].split_whitespace().collect();
        assert_eq!(words[1..4], ["ns", "a", "packet,"], "{row}");
        assert!(words[0].parse::<f64>().is_ok_and(|time| time > 0.0), "{row}");
        // Two flows take turns: a search finds one of them first.
        assert!(words[4].parse::<f64>().is_ok_and(|compared| (0.9..=2.0).contains(&compared)), "{row}");
        assert!(row.ends_with(" % of a processor at the capture's rate"), "{row}");
    }
}

#[test]
fn losses_are_counted_and_cost_no_more_than_they_must() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 1000, 65_535);
    for mode in ["u", "o", "r"] {
        // More repeats than are ever lost in a row here: after so many the decompressor may hold packets back.
        let options =
            format!("roundtrip --mode {mode} --repeats 8 --loss 10% --seed 5 --csv {}", table.display());
        said(&rohc(&words(&options), &[&input]), 0);
        let fates: Vec<_> = rows(&table).into_iter().map(|row| row[2].clone()).collect();
        let count = |fate: &str| fates.iter().filter(|known| known.starts_with(fate)).count();
        assert!((70..140).contains(&count("lost")), "{mode}: {} lost", count("lost"));
        assert_eq!(count("ok") + count("lost"), 1000, "{mode}: a loss costs the packet and no more");
    }
}

/// Feedback that is lost and arrives after the CID went to another flow lets nothing wrong through (exit status 0).
#[test]
fn feedback_can_be_late_and_lost() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 1000, 65_535);
    let impairments = ["--loss", "0.1", "--feedback-loss", "30 %", "--feedback-delay", "400 ms", "--csv"];
    for mode in ["o", "r"] {
        let options = [&["roundtrip", "--mode", mode, "--max-cid", "0"][..], &impairments].concat();
        said(&rohc(&options, &[&table, &input]), 0);
        assert!(rows(&table).iter().any(|row| row[2] == "lost"), "{mode}");
    }
    // Until its first acknowledgement arrives either flow sends more IRs, and no more than four; the rest is short.
    for mode in ["o", "r"] {
        let [prompt, late] = ["0 ms", "400 ms"].map(|delay| {
            let options = ["roundtrip", "--mode", mode, "--feedback-delay", delay, "--csv"];
            said(&rohc(&options, &[&table, &input]), 0);
            let is_long = |row: &&Vec<String>| ["IR", "IR-DYN"].contains(&row[10].as_str());
            rows(&table).iter().filter(is_long).count()
        });
        assert!(
            prompt < late && late <= 2 * 4,
            "{mode}: {late} IR and IR-DYN, {prompt} with prompt feedback"
        );
    }
}

/// A raw IP capture may hold anything: what is not IP goes through the profile Uncompressed.
#[test]
fn raw_records_of_no_ip_version_are_carried() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "back.pcap"].map(|name| folder.file(name));
    let file = fs::File::create(&input).expect("a file");
    let mut writer = Writer::with_snap_len(file, LinkType::RAW, 65_535).expect("a capture");
    for (number, packet) in [udp(0), vec![0x13, 7, 7, 7], udp(2), vec![0xff; 60]].iter().enumerate() {
        writer.write(number as u64 * 20_000_000, packet, 0).expect("writes");
    }
    said(&rohc(&["compress"], &[&input, &stream]), 0);
    said(&rohc(&["decompress"], &[&stream, &back]), 0);
    assert_eq!(packets(&back).1, packets(&input).1);
}

/// Every policy of the library that has a switch does what it says. Both flows of the capture have a constant IP-ID step.
#[test]
fn policies_have_their_switches() {
    let folder = Folder::new();
    let [input, table] = ["in.pcap", "rows.csv"].map(|name| folder.file(name));
    udp_capture(&input, 400, 65_535);
    let rows_with = |options: &str| {
        let options = format!("roundtrip --csv {} {options}", table.display());
        said(&rohc(&words(&options), &[&input]), 0);
        rows(&table)
    };
    let count = |rows: &[Vec<String>], column: usize, value: &str| {
        rows.iter().filter(|row| row[column] == value).count()
    };
    let (cid, profile, kind) = (8, 9, 10);
    let plain = rows_with("");
    assert_eq!((count(&plain, cid, "0"), count(&plain, cid, "1")), (200, 200));
    // Frame 3 is the second flow's first packet: frame 1 is ARP.
    let reserved = rows_with("--reserve 9=3");
    assert_eq!((count(&reserved, cid, "0"), count(&reserved, cid, "9")), (200, 200));
    let crowded = rows_with("--mode o --max-contexts 1");
    assert!(count(&crowded, profile, "0x0000") > 180, "the second flow is rejected");
    assert!(count(&crowded, profile, "0x0002") >= 200, "the first one is not");
    assert_eq!(count(&rows_with("--repeats 2"), kind, "IR"), 4);
    assert_eq!(count(&rows_with("--refresh 0,50"), kind, "IR-DYN"), 6);
    assert_eq!(count(&rows_with("--refresh 0,50 --refresh-repeats 2"), kind, "IR-DYN"), 12);
    assert!(count(&rows_with("--refresh 1s,0"), kind, "IR") > 12);
    assert!(count(&rows_with("--slow-start"), kind, "IR") > 12);
    assert!(count(&rows_with("--max-packet 47"), profile, "0x0000") == 400);
    let irs_and_so = rows_with("--only-ir-so");
    assert_eq!(count(&irs_and_so, kind, "IR") + count(&irs_and_so, kind, "UO-0"), 400);
    let first_refresh = |rows: &[Vec<String>], flow: &str| {
        let numbers: Vec<_> = rows.iter().filter(|row| row[cid] == flow).enumerate().collect();
        numbers.iter().filter(|(_, row)| row[kind] == "IR").map(|(number, _)| *number).nth(4)
    };
    let spread = rows_with("--spread --refresh 60,0");
    assert_ne!(first_refresh(&spread, "0"), first_refresh(&spread, "1"));
    let unison = rows_with("--refresh 60,0");
    assert_eq!(first_refresh(&unison, "0"), first_refresh(&unison, "1"));
}

#[test]
fn timers_and_reports_are_told() {
    let folder = Folder::new();
    let [input, stream, back] = ["in.pcap", "rohc.pcap", "feedback.pcap"].map(|name| folder.file(name));
    rtp_capture(&input, 200);
    let feedback = |options: &str| {
        let options = format!("compress --rtp-ports all --mode o --feedback {} {options}", back.display());
        said(&rohc(&words(&options), &[&input, &stream]), 0);
        packets(&back).1.concat()
    };
    // The CLOCK option: type 5, one octet, 10 ms.
    let has_clock = |feedback: &[u8]| feedback.windows(2).any(|option| option == [0x51, 10]);
    assert!(!has_clock(&feedback("")));
    let large = packets(&stream).1.iter().map(Vec::len).sum::<usize>();
    assert!(has_clock(&feedback("--clock 10ms --timer-jitter 20ms")));
    let small = packets(&stream).1.iter().map(Vec::len).sum::<usize>();
    assert!(small < large, "timestamps by the clock take {small} bytes, others {large}");
}

#[test]
fn through_pipes() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 10, 65_535);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command
        .args(["rohc", "compress", "--skip-other", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&fs::read(&input).expect("a capture")).expect("takes it");
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    let stream = folder.file("rohc.pcap");
    fs::write(&stream, &output.stdout).expect("a file");
    assert_eq!(packets(&stream).1.len(), 10);
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 packets: 10 ok."));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_whole_file() {
    let folder = Folder::new();
    let [input, stream] = ["in.pcap", "rohc.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 300, 65_535);
    let capture = fs::read(&input).expect("a capture");
    let (child, mut stdin) = compressing(&folder, &capture[..capture.len() / 2], &stream);
    interrupt(&child);
    (0..20).for_each(|_| pause());
    let _ = stdin.write_all(&capture[capture.len() / 2..]);
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130));
    let (_, sent) = packets(&stream);
    let file_len: usize = 24 + sent.iter().map(|packet| 16 + packet.len()).sum::<usize>();
    assert_eq!(fs::metadata(&stream).expect("a file").len() as usize, file_len, "no half record");
    assert!(sent.len() < 300, "it ended early");
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_leaves_nothing() {
    let folder = Folder::new();
    let [input, stream] = ["in.pcap", "rohc.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 300, 65_535);
    let capture = fs::read(&input).expect("a capture");
    fs::remove_file(&input).expect("not needed");
    fs::write(&stream, b"of yesterday").expect("written");
    // It waits for the rest of the first record: between two records one interrupt would do.
    let (mut child, stdin) = compressing(&folder, &capture[..24 + 8], &stream);
    let ended = (0..1000).find_map(|_| {
        interrupt(&child);
        pause();
        child.try_wait().expect("a child")
    });
    drop(stdin);
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    assert_eq!(folder.names(), ["rohc.pcap"]);
    assert_eq!(fs::read(&stream).expect("there"), b"of yesterday");
}

/// A program that has begun to compress what it is given by a pipe, which stays open.
#[cfg(unix)]
fn compressing(folder: &Folder, capture: &[u8], stream: &Path) -> (Child, ChildStdin) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["rohc", "compress", "-"]).arg(stream).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(capture).expect("takes it");
    // A temporary file is there once the program is at work, its handler installed before.
    let is_at_work = || folder.names().iter().any(|name| name.ends_with(".part"));
    assert!(
        (0..1000).any(|_| is_at_work() || {
            pause();
            false
        }),
        "does not begin"
    );
    (child, stdin)
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
}

#[allow(clippy::disallowed_methods, reason = "waits for another program")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

#[test]
fn what_is_no_capture_is_refused_with_a_reason() {
    let folder = Folder::new();
    let [output, bad] = ["out.pcap", "bad.pcap"].map(|name| folder.file(name));
    let garbage: Vec<u8> = (0..4000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [&b""[..], b"\xd4", b"\xd4\xc3\xb2\xa1\x02\x00", &garbage] {
        fs::write(&bad, content).expect("a file");
        for command in ["compress", "decompress"] {
            let text = said(&rohc(&[command], &[&bad, &output]), 2);
            assert!(text.starts_with("error: ") && text.contains("bad.pcap: "), "{text}");
        }
    }
    let text = said(&rohc(&["stats"], &[&folder.file("missing.pcap")]), 2);
    assert!(text.contains("missing.pcap: No such file"), "{text}");
    said(&rohc(&["stats"], &[folder.path()]), 2);
}

#[test]
fn what_holds_other_packets_is_refused() {
    let folder = Folder::new();
    let [input, output] = ["in.pcap", "out.pcap"].map(|name| folder.file(name));
    udp_capture(&input, 3, 65_535);
    let text = said(&rohc(&["decompress"], &[&input, &output]), 2);
    assert!(
        text.contains("no ROHC packets: 4 records, none used, 4 left out: without PPP, of link type 1"),
        "{text}"
    );
    let stream = folder.file("rohc.pcap");
    said(&rohc(&["compress"], &[&input, &stream]), 0);
    for command in [&["stats"][..], &["roundtrip"]] {
        let text = said(&rohc(command, &[&stream]), 2);
        assert!(text.contains("3 left out: of link type 147, which is not known"), "{text}");
    }
    let before = fs::read(&input).expect("a file");
    let text = said(&rohc(&["compress"], &[&input, &input]), 2);
    assert!(text.contains("would overwrite"), "{text}");
    assert_eq!(fs::read(&input).expect("a file"), before);
}

#[test]
fn bad_options_are_refused() {
    let folder = Folder::new();
    let input = folder.file("in.pcap");
    udp_capture(&input, 3, 65_535);
    for options in [
        "stats --max-cid 16",
        "stats --cid large --max-cid 16384",
        "stats --profiles rtp,voice",
        "stats --mode x",
        "stats --refresh 5",
        "stats --repeats 0",
        "stats --rtp-ports 5,99999",
        "roundtrip --loss 20",
        "stats --mtu 20",
        "stats --reserve 16=2",
        "stats --reserve 1=0",
        "stats --damage-threshold 9,8",
        "stats --clock 5",
    ] {
        said(&rohc(&words(options), &[&input]), 2);
    }
}

#[test]
fn every_command_has_help_with_examples() {
    for command in ["compress", "decompress", "roundtrip", "stats"] {
        let text = said(&rohc(&[command, "--help"], &[]), 0);
        assert!(text.contains(&format!("  bentpipe rohc {command} ")), "{text}");
    }
}

#[test]
fn statistics_say_when_rtp_is_missed() {
    let call = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/call.pcap");
    let missed = said(&rohc(&["stats"], &[call.as_ref()]), 0);
    assert!(
        missed.contains("with --rtp-ports likely packets shrink by 60.3 % instead of 40.8 %"),
        "{missed}"
    );
    for rule in ["likely", "all"] {
        let found = said(&rohc(&["stats", "--rtp-ports", rule], &[call.as_ref()]), 0);
        assert!(!found.contains("with --rtp-ports"), "{found}");
    }
}
