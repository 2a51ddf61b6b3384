//! Frames of PPP as tshark reads them: it restores Van Jacobson's, and takes the fields of IPHC and CRTP apart.

#![allow(clippy::print_stdout, reason = "says what was skipped")]

use std::time::Duration;

use crate::support::{Segment, rtp, transfer, udp};
use bentpipe_hc::{Compressor, Config, Kind, Scheme};
use bentpipe_testkit::{Folder, Tshark};

/// Link types of captures: raw IP, and PPP behind an octet of direction.
const RAW: u32 = 101;
const PPP_WITH_DIR: u32 = 204;

/// Returns a capture file.
fn capture(link_type: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file =
        [0xa1b2_c3d4_u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4], 65535_u32.to_le_bytes()].concat();
    file.extend(link_type.to_le_bytes());
    for (n, frame) in frames.iter().enumerate() {
        let len = (frame.len() as u32).to_le_bytes();
        file.extend([(n as u32).to_le_bytes(), [0; 4], len, len].concat());
        file.extend(frame);
    }
    file
}

/// Returns the frames of PPP of these packets, and their kinds.
fn frames(scheme: Scheme, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Kind>) {
    let mut compressor = Compressor::new(Config::new(scheme));
    let frame = |(n, packet): (usize, &Vec<u8>)| {
        let mut frame = Vec::new();
        let sent = compressor.compress(Duration::from_millis(20 * n as u64), packet, &mut frame);
        let head = [&[1, 0xff, 3][..], &sent.kind.ppp().to_be_bytes()].concat();
        ([head, frame].concat(), sent.kind)
    };
    packets.iter().enumerate().map(frame).unzip()
}

#[test]
fn tshark_restores_segments_of_van_jacobson() {
    // Two connections, data and its acknowledgements, windows that change, a push and urgent data.
    let segment = |n: u32| Segment {
        host: (n / 7 % 2) as u8,
        flags: [0x10, 0x18, 0x30, 0x10, 0x10][n as usize % 5],
        window: 8000 + 700 * (n % 3) as u16,
        urgent: if n % 5 == 2 { 5 } else { 0 },
        ack: 9 + 300 * (n / 4),
        data: if n % 4 == 3 { 0 } else { 1000 },
        ..transfer(4, n, false)
    };
    let packets: Vec<Vec<u8>> = (0..60).map(|n| segment(n).packet()).collect();
    let (frames, kinds) = frames(Scheme::VanJacobson, &packets);
    let compressed = kinds.iter().filter(|kind| **kind == Kind::VjCompressed).count();
    assert!(compressed > 20, "{compressed} of {}", kinds.len());
    let folder = Folder::new();
    let names = [
        "ip.src",
        "ip.id",
        "ip.len",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.flags",
        "tcp.window_size_value",
        "tcp.checksum",
        "tcp.urgent_pointer",
    ];
    let fields = |name: &str, file: Vec<u8>| Some(Tshark::on(folder.write(name, file))?.fields(&names));
    let Some(sent) = fields("raw.pcap", capture(RAW, &packets)) else { return };
    let Some(restored) = fields("vj.pcap", capture(PPP_WITH_DIR, &frames)) else { return };
    assert_eq!(sent.len(), 60);
    assert_eq!(restored, sent);
}

#[test]
fn tshark_takes_frames_of_iphc_and_crtp_apart() {
    let call = |n: u16| {
        udp(4, (n % 2) as u8, n / 2, 5004, true, &rtp(n / 2, 160 * u32::from(n / 2), n == 8, 3, &[]))
    };
    let packets: Vec<Vec<u8>> = (0..40).map(call).collect();
    let folder = Folder::new();
    for (scheme, name) in [(Scheme::Iphc, "iphc.pcap"), (Scheme::Crtp, "crtp.pcap")] {
        let (frames, kinds) = frames(scheme, &packets);
        let file = folder.write(name, capture(PPP_WITH_DIR, &frames));
        let Some(tshark) = Tshark::on(&file) else { return };
        let rows = tshark.fields(&[
            "ppp.protocol",
            "crtp.cid",
            "crtp.gen",
            "crtp.seq",
            "ip.src",
            "udp.srcport",
            "udp.length",
        ]);
        for (n, (row, kind)) in rows.iter().zip(&kinds).enumerate() {
            let flow = n % 2;
            assert_eq!(u16::from_str_radix(row[0].trim_start_matches("0x"), 16), Ok(kind.ppp()), "{row:?}");
            match kind {
                Kind::FullHeader => {
                    // Identifier, and addresses, ports and lengths as they were.
                    assert_eq!(row[1], flow.to_string(), "{name} {n}: {row:?}");
                    assert_eq!(
                        row[4..7],
                        [format!("10.0.0.{flow}"), "5004".into(), "53".into()],
                        "{name} {n}"
                    );
                }
                Kind::CompressedNonTcp => assert_eq!(row[1..3], [flow.to_string(), "1".into()], "{name} {n}"),
                _ => {}
            }
        }
        assert_eq!(rows.len(), kinds.len());
    }
}
