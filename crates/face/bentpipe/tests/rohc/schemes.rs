//! `--scheme`: frames of PPP by the schemes before ROHC, there and back, and as tshark reads them.

use bentpipe_testkit::Tshark;

use super::*;

/// Writes a raw IP capture of segments of two TCP connections, datagrams, and one ICMP packet.
fn mixed_capture(path: &Path, count: u32, snap_len: usize) -> Vec<Vec<u8>> {
    let file = fs::File::create(path).expect("a file");
    let mut writer = Writer::with_snap_len(file, LinkType::RAW, snap_len).expect("a capture");
    let packet = |number: u32| match number {
        7 => ip(number as u16, 1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]),
        _ if number % 3 == 2 => udp(number as u16),
        _ => segment(number),
    };
    let packets: Vec<Vec<u8>> = (0..count).map(packet).collect();
    for (number, packet) in packets.iter().enumerate() {
        writer.write(number as u64 * 20_000_000, packet, 0).expect("writes");
    }
    packets
}

/// A segment with 50 bytes of one of two connections, its checksum right.
fn segment(number: u32) -> Vec<u8> {
    let mut tcp = vec![0x13, 0x88 + (number % 2) as u8, 0, 80];
    // Never by the length of the data: tshark takes the TCP header of a whole segment for data.
    tcp.extend((number * 50).to_be_bytes());
    tcp.extend([0, 0, 0, 9, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend([number as u8; 50]);
    let mut packet = ip(number as u16, 6, &tcp);
    let pseudo = [&packet[12..20], &[0, 6, 0, tcp.len() as u8], &tcp].concat();
    let checksum = sum(&pseudo);
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn ip(number: u16, protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 20 + content.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let checksum = sum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(content);
    packet
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Protocol numbers of PPP in a capture with an octet of direction, and how often each comes.
fn protocols(path: &Path) -> std::collections::BTreeMap<u16, usize> {
    let (link_type, frames) = packets(path);
    assert_eq!(link_type, Some(LinkType::PPP_WITH_DIR));
    let mut counts = std::collections::BTreeMap::new();
    for frame in frames {
        assert_eq!(frame[..3], [1, 0xff, 3]);
        *counts.entry(u16::from_be_bytes([frame[3], frame[4]])).or_default() += 1;
    }
    counts
}

#[test]
fn every_scheme_there_and_back() {
    let folder = Folder::new();
    let [input, ppp, out, cut] = ["in", "ppp", "out", "cut"].map(|name| folder.file(name));
    let sent = mixed_capture(&input, 300, 65_535);
    for (scheme, numbers) in
        [("vj", &[0x21, 0x2d, 0x2f][..]), ("iphc", &[0x61, 0x63, 0x65]), ("crtp", &[0x21, 0x61, 0x63, 0x67])]
    {
        let text = said(&rohc(&["compress", "--scheme", scheme, "--verify"], &[&input, &ppp]), 0);
        assert!(text.contains("300 packets: 300 ok."), "{text}");
        let counts = protocols(&ppp);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), numbers, "{scheme}: {counts:x?}");
        let text = said(&rohc(&["decompress", "--scheme", scheme], &[&ppp, &out]), 0);
        assert_eq!(packets(&out), (Some(LinkType::RAW), sent.clone()), "{scheme}: {text}");
        let text = said(&rohc(&["roundtrip", "--scheme", scheme], &[&input]), 0);
        assert!(text.contains("300 packets: 300 ok."), "{text}");
        // What a snapshot kept of each packet comes back.
        mixed_capture(&cut, 300, 44);
        said(&rohc(&["compress", "--scheme", scheme, "--verify"], &[&cut, &ppp]), 0);
        said(&rohc(&["decompress", "--scheme", scheme], &[&ppp, &out]), 0);
        let kept: Vec<Vec<u8>> = sent.iter().map(|packet| packet[..packet.len().min(44)].to_vec()).collect();
        assert_eq!(packets(&out).1, kept, "{scheme}");
    }
}

#[test]
fn tshark_restores_the_segments_of_van_jacobson_and_knows_the_others() {
    let folder = Folder::new();
    let [input, ppp] = ["in", "ppp"].map(|name| folder.file(name));
    mixed_capture(&input, 60, 65_535);
    let fields = ["ip.src", "ip.id", "ip.len", "tcp.srcport", "tcp.seq_raw", "tcp.ack_raw", "tcp.checksum"];
    said(&rohc(&["compress", "--scheme", "vj"], &[&input, &ppp]), 0);
    let (Some(before), Some(behind)) = (Tshark::on(&input), Tshark::on(&ppp)) else { return };
    assert_eq!(behind.fields(&fields), before.fields(&fields));
    said(&rohc(&["compress", "--scheme", "iphc"], &[&input, &ppp]), 0);
    let Some(tshark) = Tshark::on(&ppp) else { return };
    let kinds = tshark.fields(&["ppp.protocol", "_ws.malformed"]);
    assert_eq!(kinds.len(), 60);
    let counts = protocols(&ppp);
    for (number, count) in counts {
        let read = kinds.iter().filter(|row| row[0] == format!("{number:#06x}") && row[1].is_empty()).count();
        assert_eq!(read, count, "{number:#06x}");
    }
}

/// A frame that is missing makes the decompressor ask for a full header, in frames that tshark knows.
#[test]
fn a_lost_frame_is_answered_by_a_context_state() {
    let folder = Folder::new();
    let [input, ppp, lossy, out, back] = ["in", "ppp", "lossy", "out", "back"].map(|name| folder.file(name));
    mixed_capture(&input, 60, 65_535);
    said(&rohc(&["compress", "--scheme", "crtp"], &[&input, &ppp]), 0);
    let (_, mut frames) = packets(&ppp);
    // A datagram, and a segment whose difference cannot be found again as the one behind it is not like it.
    frames.remove(35);
    let mut writer =
        Writer::new(fs::File::create(&lossy).expect("a file"), LinkType::PPP_WITH_DIR).expect("a capture");
    frames.iter().for_each(|frame| writer.write(0, frame, 0).expect("writes"));
    drop(writer);
    let text = said(&rohc(&["decompress", "--scheme", "crtp", "--feedback"], &[&back, &lossy, &out]), 1);
    assert!(text.contains("refused: gap in the sequence of frames"), "{text}");
    let (_, states) = packets(&back);
    assert!(
        !states.is_empty() && states.iter().all(|frame| frame[1..6] == [0xff, 3, 0x20, 0x65, 1]),
        "{states:x?}"
    );
    let Some(tshark) = Tshark::on(&back) else { return };
    let read = tshark.fields(&["ppp.protocol", "_ws.malformed"]);
    assert!(read.iter().all(|row| *row == ["0x2065", ""]), "{read:?}");
    // They are for the compressor of the other direction.
    let text = said(&rohc(&["decompress", "--scheme", "crtp"], &[&back, &out]), 2);
    assert!(text.contains("of CONTEXT_STATE, which is for the other direction's compressor"), "{text}");
}

#[test]
fn options_of_the_other_kind_are_refused() {
    let folder = Folder::new();
    let [input, out] = ["in", "out"].map(|name| folder.file(name));
    mixed_capture(&input, 3, 65_535);
    for (options, expected) in [
        ("compress --scheme vj --mode o", "--mode"),
        ("compress --scheme vj --link ppp", "--link"),
        ("compress --scheme iphc --refresh 3,3", "--refresh"),
        ("compress --scheme iphc --caution 3", "--caution"),
        ("compress --max-period 3", "--scheme"),
        ("compress --scheme vj --contexts 300", "expected 1 to 256 with this scheme, got 300"),
        ("compress --scheme crtp --contexts 0", "expected 1 to 65535 with this scheme, got 0"),
        ("decompress --scheme crtp --verify", "--verify"),
        (
            "decompress --scheme crtp",
            "no compressed headers: 3 records, none used, 3 left out: of link type 101, not PPP",
        ),
    ] {
        let text = said(&rohc(&words(options), &[&input, &out]), 2);
        assert!(text.contains(expected), "{options}: {text}");
    }
}
