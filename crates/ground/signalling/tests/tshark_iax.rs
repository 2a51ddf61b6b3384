//! tshark reads written frames of IAX2 as meant.

use bentpipe_signalling::iax::{
    Element, Elements, Frame, FullFrame, Kind, MiniFrame, Trunk, TrunkedCall, format, iax,
};
use bentpipe_testkit::{Folder, Tshark};

/// Capture of IP packets with a datagram each, from and to port 4569.
fn capture(folder: &Folder, frames: &[Frame]) -> std::path::PathBuf {
    let mut pcap: Vec<u8> =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 228, 0, 0, 0];
    for (at, frame) in frames.iter().enumerate() {
        let payload = frame.emit();
        let len = (payload.len() + 28) as u32;
        pcap.extend([(at as u32).to_le_bytes(), [0; 4], len.to_le_bytes(), len.to_le_bytes()].concat());
        let ip_len = (len as u16).to_be_bytes();
        pcap.extend([0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        let udp_len = (payload.len() as u16 + 8).to_be_bytes();
        pcap.extend([0x11, 0xd9, 0x11, 0xd9, udp_len[0], udp_len[1], 0, 0]);
        pcap.extend(payload);
    }
    folder.write("iax.pcap", pcap)
}

fn full(
    source: u16,
    destination: u16,
    timestamp: u32,
    kind: Kind,
    subclass: u32,
    payload: Vec<u8>,
) -> FullFrame {
    FullFrame {
        source,
        destination,
        is_repeated: false,
        timestamp,
        outbound: 0,
        inbound: 1,
        kind,
        subclass,
        payload,
    }
}

fn trunk(has_timestamps: bool, calls: &[u16]) -> Frame {
    let call = |source: &u16| TrunkedCall {
        source: *source,
        timestamp: has_timestamps.then_some(40),
        payload: vec![0; 33],
    };
    Frame::Trunk(Trunk { timestamp: 7, has_timestamps, calls: calls.iter().map(call).collect() })
}

#[test]
fn tshark_reads_written_frames() {
    let new = Elements::default()
        .with_u16(Element::VERSION, 2)
        .with(Element::CALLED_NUMBER, b"555")
        .with_u32(Element::FORMAT, format::GSM);
    let challenge =
        Elements::default().with_u16(Element::AUTH_METHODS, 2).with(Element::CHALLENGE, b"123456");
    let again = FullFrame { is_repeated: true, ..full(6, 5, 9, Kind::Iax, iax::AUTHREQ, challenge.emit()) };
    let frames = [
        Frame::Full(full(5, 0, 3, Kind::Iax, iax::NEW, new.emit())),
        Frame::Full(again),
        Frame::Full(full(5, 6, 20, Kind::Voice, format::G729, vec![0; 20])),
        Frame::Mini(MiniFrame { source: 5, timestamp: 40, payload: vec![0; 20] }),
        trunk(true, &[5, 7]),
        trunk(false, &[5, 7]),
    ];
    let folder = Folder::new();
    let Some(tshark) = Tshark::on(capture(&folder, &frames)) else { return };
    let fields = tshark.fields(&[
        "iax2.packet_type",
        "iax2.src_call",
        "iax2.dst_call",
        "iax2.retransmission",
        "iax2.timestamp",
        "iax2.iax.subclass",
        "iax2.voice.codec",
        "iax2.iax.called_number",
        "iax2.iax.auth.challenge",
        "iax2.iax.format",
        "iax2.trunk.call.scallno",
        "iax2.trunk.call.len",
        "_ws.malformed",
    ]);
    let expected = [
        ["1", "5", "0", "0", "3", "1", "", "555", "", "2", "", "", ""],
        ["1", "6", "5", "1", "9", "8", "", "", "123456", "", "", "", ""],
        ["1", "5", "6", "0", "20", "", "256", "", "", "", "", "", ""],
        ["0", "5", "", "", "40", "", "", "", "", "", "", "", ""],
        ["3", "", "", "", "7", "", "", "", "", "", "5,7", "33,33", ""],
    ];
    assert_eq!(fields[..5], expected);
    // Of calls without timestamps, tshark 4.0 reads the first and calls the rest malformed.
    assert!(fields[5][10].starts_with('5') && fields[5][11].starts_with("33"), "{:?}", fields[5]);
}
