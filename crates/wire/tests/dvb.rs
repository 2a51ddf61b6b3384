//! tshark reads the transport streams that this crate writes, and finds the same in them.
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

mod tool;

use bentpipe_wire::ethernet::{EtherType, MacAddr};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::ts::{self, Method, Pid};
use bentpipe_wire::{ipv4, mpe, udp};
use tool::{Scratch, capture, fields, has};

const DST: MacAddr = MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);

fn pid(number: u16) -> Pid {
    Pid::new(number).unwrap()
}

/// An IPv4 and UDP packet with `payload_len` bytes of payload to a port.
fn packet(port: u16, payload_len: usize) -> Vec<u8> {
    let udp = udp::Repr { src_port: 5000, dst_port: port, payload_len };
    let ip = ipv4::Repr::new(
        [10, 0, 0, 1].into(),
        [10, 0, 0, 2].into(),
        Protocol::UDP,
        udp::HEADER_LEN + payload_len,
    );
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN + payload_len];
    ip.emit(&mut bytes);
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes
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
    let scratch = Scratch::new("mpe");
    for (method, ethertype) in
        [(Method::Padding, None), (Method::Packing, None), (Method::Packing, Some(EtherType::IPV4))]
    {
        let (mut encapsulator, mut stream) = (mpe::Encapsulator::new(pid(0x105), method), Vec::new());
        let ports: Vec<u16> = (6001..6030).collect();
        for (index, &port) in ports.iter().enumerate() {
            let repr = mpe::Repr { dst: DST, ethertype };
            encapsulator.push(&repr, &packet(port, index * 31), &mut stream).unwrap();
        }
        encapsulator.flush(&mut stream);
        let path = capture(&scratch, "mpe.pcap", LinkType::MPEG_2_TS, &frames(&stream));
        let rows = fields(
            &path,
            &["mpeg_sect.verify_crc:TRUE", "ip.check_checksum:TRUE"],
            &[],
            &[
                "mp2t.pid",
                "mp2t.cc.drop",
                "mpeg_sect.crc.status",
                "dvb_data_mpe.dst_mac",
                "udp.dstport",
                "_ws.malformed",
            ],
        );
        let column = |index: usize| {
            rows.iter()
                .flat_map(|row| row[index].split(','))
                .filter(|value| !value.is_empty())
                .collect::<Vec<_>>()
        };
        assert!(column(0).iter().all(|&pid| pid == "0x00000105"), "{:?}", column(0));
        assert_eq!((column(1).len(), column(5).len()), (0, 0));
        assert_eq!(
            column(4),
            ports.iter().map(u16::to_string).collect::<Vec<_>>(),
            "{method:?} {ethertype:?}"
        );
        assert!(column(3).iter().all(|&mac| mac == "00:11:22:33:44:55"));
        assert_eq!(column(3).len(), ports.len());
        assert!(column(2).iter().all(|&status| status == "1"), "{:?}", column(2));
    }
}
