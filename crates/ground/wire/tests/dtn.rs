//! Other decoders read the bundles, segments and sessions that this crate writes: tshark and hardy-bpv7.

use crate::bundles;
use crate::tool::capture;
use bentpipe_testkit::{Folder, Tshark, has};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::{ipv4, tcp, udp};

fn ip(protocol: Protocol, len: usize) -> Vec<u8> {
    let repr = ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, len);
    let mut out = vec![0; repr.buffer_len()];
    repr.emit(&mut out);
    out
}

fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend(payload);
    udp::Repr { src_port: port, dst_port: port, payload_len: payload.len() }.emit(&mut bytes);
    let pseudo = Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP);
    udp::Datagram::new_elided(&mut bytes[..], 0).unwrap().fill_checksum(&pseudo);
    [ip(Protocol::UDP, bytes.len()), bytes].concat()
}

fn segment(seq: u32, payload: &[u8]) -> Vec<u8> {
    let repr = tcp::Repr::new(40_000, 4556, tcp::SeqNumber(seq));
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    [ip(Protocol::TCP, bytes.len()), bytes].concat()
}

/// Returns tshark's account of frames.
fn account(frames: &[Vec<u8>]) -> String {
    let scratch = Folder::new();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    let path = capture(&scratch, "dtn.pcap", LinkType::RAW, &frames);
    Tshark::on(&path).expect("asked for before").options(&["-V"]).text()
}

fn has_complaints(account: &str) -> bool {
    ["Malformed", "[Bad]", "incorrect", "Bad CRC", "CRC Status: Bad"]
        .iter()
        .any(|word| account.contains(word))
}

#[test]
fn tshark_reads_each_bundle_with_good_crcs() {
    if !has("tshark") {
        return;
    }
    for (name, bundle) in bundles::all() {
        let account = account(&[datagram(4556, &bundle.to_vec())]);
        assert!(!has_complaints(&account), "{name}: {account}");
        let expected = match name {
            "blocks" => {
                vec!["dtn://mars/rover", "dtn://orbiter/", "Hop Limit: 30", "Age: 81", "Status: Good"]
            }
            "report" => vec!["Status Report", "DELIVERED"],
            "signed" => vec!["Block Integrity", "Target"],
            "fragment" => vec!["Fragment Offset", "Total Application Data Unit Length: 12"],
            _ => vec!["CRC Status: Good", "Payload"],
        };
        let missing: Vec<_> = expected.into_iter().filter(|words| !account.contains(words)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?} is not in {account}");
    }
}

#[test]
fn tshark_finds_a_wrong_crc() {
    if !has("tshark") {
        return;
    }
    let mut bytes = bundles::all()[0].1.to_vec();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    let account = account(&[datagram(4556, &bytes)]);
    assert!(account.contains("CRC Status: Bad") || account.contains("[Bad]"), "{account}");
}

#[test]
fn tshark_reads_segments_of_ltp() {
    if !has("tshark") {
        return;
    }
    for (name, segment) in bundles::segments() {
        let account = account(&[datagram(1113, &segment)]);
        assert!(account.contains("Licklider") && !has_complaints(&account), "{name}: {account}");
        let expected = match name {
            "red" => "Red data, Checkpoint, EORP, EOB",
            "green" => "Green data, EOB",
            "report" => "Report segment",
            "report_ack" => "Report-acknowledgment segment",
            "cancel" => "Cancel segment from block sender",
            _ => "Cancel segment from block receiver",
        };
        assert!(account.to_lowercase().contains(&expected.to_lowercase()), "{name}: {account}");
    }
}

#[test]
fn tshark_reads_a_session_of_tcpcl() {
    if !has("tshark") {
        return;
    }
    let session = bundles::session();
    let account = account(&[segment(1, &session[..6]), segment(7, &session[6..])]);
    for words in ["TCPCL", "SESS_INIT", "ipn:2.0", "XFER_SEGMENT", "SESS_TERM", "dtn://mars/rover"] {
        assert!(account.contains(words), "{words}: {account}");
    }
    assert!(!has_complaints(&account), "{account}");
}

#[test]
fn hardy_reads_each_bundle_alike() {
    use hardy_bpv7::bundle::ParsedBundle;
    for (name, bundle) in bundles::all() {
        let parsed = ParsedBundle::parse(&bundle.to_vec(), hardy_bpv7::bpsec::no_keys);
        let theirs = parsed.unwrap_or_else(|error| panic!("{name}: {error}")).bundle;
        assert_eq!(theirs.id.source.to_string(), bundle.primary.source.to_string(), "{name}");
        assert_eq!(theirs.destination.to_string(), bundle.primary.destination.to_string(), "{name}");
        assert_eq!(theirs.lifetime.as_millis() as u64, bundle.primary.lifetime, "{name}");
        assert_eq!(theirs.blocks.len(), bundle.blocks.len() + 2, "{name}");
        assert_eq!(theirs.hop_count.map(|hops| hops.count), bundle.hop_count().map(|hops| hops.count));
    }
}

#[test]
fn hardy_writes_what_is_read_here() {
    use hardy_bpv7::builder::Builder;
    use hardy_bpv7::creation_timestamp::CreationTimestamp;
    for (source, destination) in
        [("ipn:2.1", "ipn:1.2"), ("dtn://mars/a", "dtn://earth/b"), ("ipn:977000.1.1", "ipn:1.2")]
    {
        let builder = Builder::new(source.parse().unwrap(), destination.parse().unwrap());
        let builder = builder.with_payload(b"hello"[..].into());
        let stamp =
            CreationTimestamp::from_parts(Some(hardy_bpv7::dtn_time::DtnTime::new(820_540_800_000)), 7);
        let (_, bytes) = builder.build(stamp).unwrap();
        let ours = Bundle::parse(&bytes).unwrap();
        assert_eq!((ours.primary.source.to_string().as_str(), ours.to_vec()), (source, bytes.to_vec()));
        assert_eq!((ours.payload.to_vec(), ours.check()), (b"hello".to_vec(), Ok(())));
    }
}
