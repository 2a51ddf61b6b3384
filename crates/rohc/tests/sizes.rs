//! The size of compressed streams beside librohc's, with the same parameters.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

#[allow(unreachable_pub, reason = "shared between test files")]
mod support;

use std::path::Path;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles,
    RtpRule,
};
use support::{corpus, files, name, read_pcap, read_rows};

const RTP_PORTS: [u16; 6] = [1234, 36_780, 33_238, 5020, 5002, 5006];

/// Captures whose stream may be larger than librohc's: by how many octets at most, and why.
const LARGER: [(&str, usize, &str); 6] = [
    (
        "rfc3095__ipv4__udp__rtp__afl35-rtp-version-changing.v1.",
        9,
        "packet 4 has RTP version 0: librohc's IR packet says so in V, which RFC 3095 5.7.7.6 has as 2 (A.1: known a \
         priori, A.3.1: not sent); here it is a packet of UDP, and so packet 5 is the fourth IR packet of the RTP flow",
    ),
    ("rfc3095__ipv6ext__udp-torture-test-for-list-comp.v1.", 26, SAME_ITEMS),
    ("rfc6846__ipv6ext__tcp__afl22-many-exts.v1.", 5, SAME_ITEMS),
    ("rfc6846__ipv6ext__tcp__afl23-many-exts.v1.", 5, SAME_ITEMS),
    ("rfc3095__ipv6ext__icmp-large-ipv6-ext.v1.", 1, LONG_HEADER),
    ("rfc6846__ipv6ext__tcp__afl20-many-exts.v1.", 3, LONG_HEADER),
];

const SAME_ITEMS: &str = "extension headers that come several times: RFC 4815 5.6 demands that each be sent whole in an IR \
                          packet. librohc compresses no such chain at all, and sends it Uncompressed, for ever (packets \
                          3 to 6 of the torture test; the only one of the others)";

const LONG_HEADER: &str = "its one packet has an extension header of 2048 or 1032 octets and begins an IP flow here, with an \
                           IR packet (RFC 3843 3.1 to 3.3), 4 to 6 octets longer than what it stands for; librohc does not \
                           compress such flows, and sends it Uncompressed, 3 octets longer";

/// Octets of our packets and of librohc's, for the packets that librohc took.
fn sizes(table: &Path, capture: &Path, mode: Mode) -> (usize, usize) {
    let large = name(table).contains(".large16383");
    let cids = if large { CidSpace::Large { max_cid: 16_383 } } else { CidSpace::Small { max_cid: 15 } };
    // What librohc's set v1 has.
    let profiles =
        Profiles::ALL.without(bentpipe_rohc::Profile::UdpLite).without(bentpipe_rohc::Profile::RtpUdpLite);
    let channel = Channel { cids, profiles, ..Channel::default() };
    let rtp = RtpRule::Ports(RTP_PORTS.to_vec());
    let mut compressor = Compressor::new(CompressorConfig { channel, rtp, ..CompressorConfig::default() });
    let mut decompressor =
        Decompressor::new(DecompressorConfig { channel, mode, ..DecompressorConfig::default() });
    let (mut ours, mut theirs) = (0, 0);
    let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
    for (record, row) in read_pcap(capture).iter().zip(read_rows(table)) {
        rohc.clear();
        ip.clear();
        feedback.clear();
        let compressed = compressor.compress(record.at, &record.bytes, &mut rohc);
        let _ = decompressor.decompress(record.at, &rohc, &mut ip);
        if decompressor.take_feedback(&mut feedback) {
            compressor.feedback(&feedback);
        }
        if row.record.is_some() {
            assert!(compressed.is_ok(), "{}: librohc took a packet that we refuse", name(table));
            ours += rohc.len();
            theirs += row.rohc_len;
        }
    }
    (ours, theirs)
}

fn compare(set: &str, mode: Mode) {
    let Some(corpus) = corpus() else { return };
    let (mut ours, mut theirs, mut larger) = (0, 0, Vec::new());
    for (folder, captures) in [("librohc", "ip"), ("synthetic/librohc", "synthetic/inputs")] {
        for table in files(&corpus.join(folder), ".csv") {
            let file = name(&table);
            let Some((capture, _)) = file.split_once(&format!(".{set}.")) else { continue };
            let (own, librohc) = sizes(&table, &corpus.join(captures).join(format!("{capture}.pcap")), mode);
            ours += own;
            theirs += librohc;
            let excused =
                LARGER.iter().find(|(start, ..)| file.starts_with(start)).map_or(0, |(_, octets, _)| *octets);
            if own > librohc + excused {
                larger.push(format!("{file}: {own} against {librohc}"));
            }
        }
    }
    println!("{set}: {ours} octets, librohc {theirs}");
    assert!(theirs > 1_000_000, "{theirs}");
    assert!(ours < theirs, "{set}: {ours} against {theirs}");
    assert!(
        larger.is_empty(),
        "{set}: {ours} against {theirs}; {} larger:\n{}",
        larger.len(),
        larger.join("\n")
    );
}

#[test]
fn unidirectional_streams_are_no_larger_than_librohcs() {
    compare("v1", Mode::Unidirectional);
}

#[test]
fn optimistic_streams_are_no_larger_than_librohcs() {
    compare("v1-omode", Mode::Optimistic);
}
