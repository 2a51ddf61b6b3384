//! tshark reads frames of 802.15.4, with their FCS.

use crate::tool;
use bentpipe_testkit::{Folder, has};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::wpan::{Address, Endpoint, FrameType, Repr};

const NAMES: [&str; 9] = [
    "wpan.frame_type",
    "wpan.seq_no",
    "wpan.ack_request",
    "wpan.version",
    "wpan.dst_pan",
    "wpan.dst16",
    "wpan.src16",
    "wpan.src64",
    "wpan.fcs_ok",
];

#[test]
fn tshark_reads_frames_of_all_types_and_addresses() {
    if !has("tshark") {
        return;
    }
    let extended = Endpoint { pan: 0x22, address: Address::Extended(0x0011_2233_4455_6677) };
    let headers = [
        Repr::data(0x22, [2, 1], 7),
        Repr::ack(7),
        Repr { source: Some(extended), version: 1, ..Repr::data(0x22, [2, 1], 8) },
        Repr { is_compressed: false, ..Repr::data(0x22, [2, 0xffff], 9) },
        Repr { frame_type: FrameType::Command, pending: true, ..Repr::data(0x22, [2, 1], 10) },
    ];
    let frames: Vec<Vec<u8>> = headers
        .iter()
        .map(|header| {
            let payload = if header.frame_type == FrameType::Ack { &[][..] } else { &[4; 25] };
            let mut out = Vec::new();
            header.emit(payload, &mut out);
            out
        })
        .collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let scratch = Folder::new();
    let path = tool::capture(&scratch, "wpan.pcap", LinkType::IEEE802_15_4, &frames);
    let rows = tool::fields(&path, &[], &[], &NAMES);
    let expected = [
        ["0x0001", "7", "1", "0", "0x0022", "0x0001", "0x0002", "", "1"],
        ["0x0002", "7", "0", "0", "", "", "", "", "1"],
        ["0x0001", "8", "1", "1", "0x0022", "0x0001", "", "00:11:22:33:44:55:66:77", "1"],
        ["0x0001", "9", "0", "0", "0x0022", "0xffff", "0x0002", "", "1"],
        ["0x0003", "10", "1", "0", "0x0022", "0x0001", "0x0002", "", "1"],
    ];
    assert_eq!(rows, expected);
    let lengths = tool::fields(&path, &[], &[], &["frame.len"]);
    assert_eq!(lengths[..2], [["36"], ["5"]]);
}
