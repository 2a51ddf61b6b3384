//! tshark reads MAC PDUs of 802.16 in their Ethernet envelope.
//!
//! Maps and descriptors are not among the bursts, as tshark reads those of OFDMA.

use crate::tool;
use bentpipe_testkit::{Folder, has};
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::wman::{
    Cid, CrcForm, Fragment, HEADER_LEN, Layout, Numbers, Part, Repr, Request, Urgency, m2m,
};
use bentpipe_wire::{ipv4, udp};

/// Returns an IPv4 packet of UDP with `len` bytes of data.
fn packet(ident: u16, len: usize) -> Vec<u8> {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let datagram = udp::Repr { src_port: 40_000, dst_port: 5004, payload_len: len };
    let udp_len = datagram.buffer_len() + len;
    let header = ipv4::Repr { ident, ..ipv4::Repr::new(src, dst, Protocol::UDP, udp_len) };
    let mut bytes = vec![0; header.buffer_len() + udp_len];
    header.emit(&mut bytes);
    datagram.emit(&mut bytes[header.buffer_len()..]);
    bytes
}

fn whole(bytes: &[u8]) -> Part<'_> {
    Part { fragment: Fragment::Whole, number: 0, bytes }
}

/// Returns tshark's text of a burst in its envelope.
fn read(scratch: &Folder, name: &str, pdus: &[u8]) -> String {
    let burst = m2m::Burst {
        to: MacAddr([2, 0, 0, 0, 0, 2]),
        from: MacAddr([2, 0, 0, 0, 0, 1]),
        sequence: 1,
        frame: 77,
        number: 0,
        pdus,
    };
    let mut frame = Vec::new();
    burst.emit(&mut frame);
    assert_eq!(m2m::Burst::parse(&frame), Ok(burst));
    let path = tool::capture(scratch, name, LinkType::ETHERNET, &[&frame]);
    assert_eq!(tool::fields(&path, &[], &[], &["m2m.frame_number"])[0], ["77"]);
    bentpipe_testkit::Tshark::on(path).expect("asked for before").options(&["-V"]).text()
}

#[test]
fn tshark_reads_pdus_of_every_layout() {
    if !has("tshark") {
        return;
    }
    let scratch = Folder::new();
    let crc = Some(CrcForm::Ofdma);
    let (long, short) = (packet(0x1111, 60), packet(0x2222, 20));
    let mut pdus = Vec::new();
    Repr { crc, ..Repr::new(Cid(0x2001)) }.emit(&[whole(&long)], &mut pdus);
    let text = read(&scratch, "whole.pcap", &pdus);
    for said in ["0x1111", "8193", "Dst Port: 5004"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("Malformed") && !text.contains("incorrect"), "{text}");
    assert!(text.contains("[correct]"), "{text}");
    let packed = Repr { crc, layout: Layout::Packed, numbers: Numbers::Extended, ..Repr::new(Cid(0x2002)) };
    pdus.clear();
    packed.emit(&[whole(&short), whole(&long)], &mut pdus);
    let text = read(&scratch, "packed.pcap", &pdus);
    assert!(text.contains("0x1111") && text.contains("0x2222") && !text.contains("Malformed"), "{text}");
    let fragment = Repr { crc, layout: Layout::Fragment, ..Repr::new(Cid(0x2003)) };
    pdus.clear();
    let part = Part { fragment: Fragment::First, number: 5, bytes: &long[..40] };
    fragment.emit(&[part], &mut pdus);
    let mut request = [0; HEADER_LEN];
    Request { kind: Urgency::Aggregate, bytes: 4321, cid: Cid(0x2003) }.emit(&mut request);
    pdus.extend(request);
    let text = read(&scratch, "fragment.pcap", &pdus);
    assert!(
        text.contains("4321") && text.contains("Payload Fragment (40 bytes)") && !text.contains("Malformed"),
        "{text}"
    );
}
