//! One frame of everything this crate can build, for tshark to judge and for the fuzz targets to start from.

use std::net::{Ipv4Addr, Ipv6Addr};

use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::erf::{self, AtmHeader, Content};
use bentpipe_wire::ethernet::{self, EtherType, MacAddr, Tag};
use bentpipe_wire::icmp::nd;
use bentpipe_wire::ip::{Ecn, Protocol, TrafficClass};
use bentpipe_wire::ipv6::ext;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::tcp::{Flags, Options, SeqNumber};
use bentpipe_wire::{
    aal5, arp, dccp, dtcp, gre, icmp, ipv4, ipv6, llc, quick_start, rtcp, rtp, sixin4, tcp, udp, udplite,
};

const A4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);

/// What tshark says of an IPv4 header checksum that is right.
pub(crate) const IP_OK: &str = "[Header checksum status: Good]";
/// What it says of a transport checksum that is right.
pub(crate) const SUM_OK: &str = "[Checksum Status: Good]";

/// A frame, of which the last `elided` bytes are zeros left out, and lines of tshark's account of it.
pub(crate) struct Frame {
    pub(crate) name: &'static str,
    pub(crate) link_type: LinkType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) elided: usize,
    #[allow(dead_code, reason = "only the tshark test reads it")]
    pub(crate) expected: Vec<&'static str>,
}

fn frame(name: &'static str, bytes: Vec<u8>, elided: usize, expected: &[&'static str]) -> Frame {
    Frame { name, link_type: LinkType::RAW, bytes, elided, expected: expected.to_vec() }
}

/// Every frame.
pub(crate) fn all() -> Vec<Frame> {
    [
        tcp_frames(),
        tcp_v6_frames(),
        udp_frames(),
        dccp_frames(),
        quick_start_frames(),
        icmp_frames(),
        neighbour_frames(),
        ipv6_frames(),
        ethernet_frames(),
        gre_frames(),
        erf_frames(),
        captured_frames(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A transport datagram whose checksum has been filled.
struct Datagram {
    protocol: Protocol,
    bytes: Vec<u8>,
    elided: usize,
}

impl Datagram {
    fn in_v4(self) -> Vec<u8> {
        self.in_v4_with(|repr| repr)
    }

    fn in_v4_with(self, change: impl FnOnce(ipv4::Repr) -> ipv4::Repr) -> Vec<u8> {
        let repr = change(ipv4::Repr::new(A4, B4, self.protocol, self.bytes.len() + self.elided));
        let mut packet = vec![0; repr.buffer_len()];
        repr.emit(&mut packet);
        packet.extend(self.bytes);
        packet
    }

    fn in_v6(self) -> Vec<u8> {
        self.in_v6_behind(self.protocol, &[], B6)
    }

    /// Behind extension headers, the first of which `next` names.
    fn in_v6_behind(&self, next: Protocol, headers: &[u8], dst: Ipv6Addr) -> Vec<u8> {
        let payload_len = headers.len() + self.bytes.len() + self.elided;
        let mut packet = vec![0; ipv6::HEADER_LEN];
        ipv6::Repr { flow_label: 0x12345, ..ipv6::Repr::new(A6, dst, next, payload_len) }.emit(&mut packet);
        packet.extend(headers);
        packet.extend(&self.bytes);
        packet
    }
}

fn v4(protocol: Protocol) -> Pseudo {
    Pseudo::v4(A4, B4, protocol)
}

fn v6(protocol: Protocol) -> Pseudo {
    Pseudo::v6(A6, B6, protocol)
}

fn tcp(repr: tcp::Repr, elided: usize, pseudo: Pseudo) -> Datagram {
    let mut bytes = vec![0xff; repr.buffer_len()];
    repr.emit(&mut bytes);
    tcp::Segment::new_elided(&mut bytes[..], elided).unwrap().fill_checksum(&pseudo);
    Datagram { protocol: Protocol::TCP, bytes, elided }
}

fn udp(dst_port: u16, payload: &[u8], elided: usize, pseudo: Pseudo) -> Datagram {
    let repr = udp::Repr { src_port: 40000, dst_port, payload_len: payload.len() + elided };
    let mut bytes = vec![0xff; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    udp::Datagram::new_elided(&mut bytes[..], elided).unwrap().fill_checksum(&pseudo);
    Datagram { protocol: Protocol::UDP, bytes, elided }
}

fn data() -> tcp::Repr {
    tcp::Repr {
        ack: Some(SeqNumber(0x2000_0001)),
        flags: Flags::PSH,
        window: 0x1234,
        options: Options::timestamps(111_111, 222_222),
        ..tcp::Repr::new(40000, 9, SeqNumber(0xffff_ff00))
    }
}

fn tcp_frames() -> Vec<Frame> {
    let syn_options =
        Options { mss: Some(9140), window_scale: Some(8), sack_permitted: true, ..Options::timestamps(1, 0) };
    let syn =
        tcp::Repr { ack: None, flags: Flags::SYN | Flags::ECE | Flags::CWR, options: syn_options, ..data() };
    let mut unknown = Options::NONE;
    unknown.unknown.push(254, &[0x0a, 0x0b, 1, 2]);
    let blocks =
        |count: u32| (0..count).map(|i| (SeqNumber(5000 + i * 3000), SeqNumber(6000 + i * 3000))).collect();
    let sack = |count, options| tcp::Repr {
        flags: Flags::NONE,
        options: Options { sack: blocks(count), ..options },
        ..data()
    };
    let segment = |repr, elided| tcp(repr, elided, v4(Protocol::TCP)).in_v4();
    let ok = [IP_OK, SUM_OK];
    let with = |more: &[&'static str]| [&ok[..], more].concat();
    vec![
        frame(
            "tcp_syn",
            segment(syn, 0),
            0,
            &with(&[
                "MSS Value: 9140",
                "Shift count: 8",
                "TCP Option - SACK permitted",
                "Timestamp value: 1\n",
                "Flags: 0x0c2",
            ]),
        ),
        frame(
            "tcp_data",
            segment(data(), 1448),
            1448,
            &with(&["TCP payload (1448 bytes)", "Timestamp value: 111111", "Flags: 0x018"]),
        ),
        frame("tcp_data_odd", segment(data(), 1), 1, &with(&["TCP payload (1 byte)"])),
        frame(
            "tcp_sack_3",
            segment(sack(3, Options::timestamps(1, 2)), 0),
            0,
            &with(&["[TCP SACK Count: 3]", "left edge = 5000", "right edge = 12000"]),
        ),
        frame(
            "tcp_sack_4",
            segment(sack(4, Options::NONE), 0),
            0,
            &with(&["[TCP SACK Count: 4]", "left edge = 14000"]),
        ),
        frame(
            "tcp_unknown_option",
            segment(tcp::Repr { options: unknown, urgent: Some(7), ..data() }, 20),
            20,
            &with(&["Urgent Pointer: 7"]),
        ),
        frame(
            "tcp_fin",
            segment(tcp::Repr { flags: Flags::FIN, ..data() }, 0),
            0,
            &with(&["Flags: 0x011 (FIN, ACK)"]),
        ),
    ]
}

/// Data in TCP over IPv6, and in a tunnel.
fn tcp_v6_frames() -> Vec<Frame> {
    vec![
        frame(
            "tcp_v6",
            tcp(data(), 1428, v6(Protocol::TCP)).in_v6(),
            1428,
            &[SUM_OK, "TCP payload (1428 bytes)", "Flow Label: 0x12345"],
        ),
        frame(
            "tcp_6in4",
            tunnelled(),
            500,
            &[IP_OK, SUM_OK, "Protocol: IPv6 (41)", "TCP payload (500 bytes)"],
        ),
    ]
}

fn tunnelled() -> Vec<u8> {
    let inner = tcp(data(), 500, v6(Protocol::TCP)).in_v6();
    let packet = ipv6::Packet::new_elided(&inner[..], 500).unwrap();
    let outer = sixin4::Tunnel { src: A4, dst: B4, ttl: 33 }.outer(&packet);
    let mut bytes = vec![0; outer.buffer_len()];
    outer.emit(&mut bytes);
    bytes.extend(inner);
    bytes
}

fn udp_frames() -> Vec<Frame> {
    let plain = || udp(9, &[], 45, v4(Protocol::UDP));
    let alert = ipv4::Options::parse(&[148, 4, 0, 0]).unwrap();
    let mut forwarded = plain().in_v4();
    let mut packet = ipv4::Packet::new_elided(&mut forwarded[..], 45).unwrap();
    assert!(packet.decrement_ttl());
    packet.mark_ecn(Ecn::Ce);
    let class = TrafficClass::new(46, Ecn::Ect0);
    let ok = [IP_OK, SUM_OK];
    let with = |more: &[&'static str]| [&ok[..], more].concat();
    vec![
        frame("udp", plain().in_v4(), 45, &with(&["UDP payload (45 bytes)"])),
        frame("udp_forwarded", forwarded, 45, &with(&["Time to Live: 63", "Congestion Experienced"])),
        frame(
            "ipv4_options",
            plain().in_v4_with(|repr| ipv4::Repr { options: alert, traffic_class: class, ident: 77, ..repr }),
            45,
            &with(&["IP Option - Router Alert", "Expedited Forwarding", "Header Length: 24 bytes"]),
        ),
        frame("udplite_partial", udplite(Some(20)).in_v4(), 0, &[IP_OK, "Checksum coverage: 20", SUM_OK]),
        frame("udplite_whole", udplite(None).in_v4(), 0, &[IP_OK, "Checksum coverage: 0", SUM_OK]),
        frame(
            "rtp",
            udp(5004, &rtp_packet(), 0, v4(Protocol::UDP)).in_v4(),
            0,
            &with(&[
                "Contributing source identifiers count: 2",
                "CSRC item 1: 0x12",
                "Sequence number: 4660",
                "Header extension: 0xaabbccdd",
                "Padding count: 4",
                "Payload: 0909090909",
            ]),
        ),
        frame("rtcp", udp(5005, &rtcp_packet(), 0, v4(Protocol::UDP)).in_v4(), 0, &with(&RTCP_FIELDS)),
    ]
}

fn udplite(coverage: Option<usize>) -> Datagram {
    let mut bytes = vec![0x5a; 38];
    udplite::Repr { src_port: 40000, dst_port: 9, coverage }.emit(&mut bytes);
    udplite::Datagram::new_checked(&mut bytes[..]).unwrap().fill_checksum(&v4(Protocol::UDP_LITE));
    Datagram { protocol: Protocol::UDP_LITE, bytes, elided: 0 }
}

fn dccp(kind: dccp::Type, ack: u64, extra: u32, payload: &[u8], options: dccp::Options) -> Datagram {
    let header = dccp::Repr {
        src_port: 40000,
        dst_port: 5001,
        kind,
        ccval: 5,
        sequence: 0x0102_0304_0506,
        ack,
        extra,
        options,
    };
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(payload);
    dccp::Packet::new_checked(&mut bytes[..]).unwrap().fill_checksum(&v4(Protocol::DCCP));
    Datagram { protocol: Protocol::DCCP, bytes, elided: 0 }
}

fn dccp_frames() -> Vec<Frame> {
    let none = dccp::Options::default;
    let mut change = none();
    change.push(dccp::kind::CHANGE_L, &[1, 3]);
    change.push(dccp::kind::CHANGE_R, &[192, 1]);
    let mut feedback = none();
    feedback.push_elapsed_ns(12_340_000);
    feedback.push_receive_rate(128_000);
    feedback.push_loss_event_rate(0.01);
    feedback.push_quick_start(&quick_start::Response {
        rate: quick_start::RateCode::from_bits(5),
        ttl_diff: 3,
        nonce: 0x1234_5678,
    });
    let ack = 0x0102_0304_0405;
    let packet = |kind, ack, extra, payload: &[u8], options| dccp(kind, ack, extra, payload, options).in_v4();
    let number = "Sequence Number (raw): 1108152157446";
    vec![
        frame(
            "dccp_request",
            packet(dccp::Type::Request, 0, 0x5446_5243, &[], change),
            0,
            &[IP_OK, "Type: Request (0)", number, "Feature Number: Congestion Control ID (CCID) (1)", SUM_OK],
        ),
        frame("dccp_response", packet(dccp::Type::Response, ack, 0x5446_5243, &[], none()), 0, &[SUM_OK]),
        frame("dccp_data", packet(dccp::Type::Data, 0, 0, &[7; 50], none()), 0, &["CCVal: 5", SUM_OK]),
        frame(
            "dccp_feedback",
            packet(dccp::Type::Ack, ack, 0, &[], feedback),
            0,
            &["1108152157189", "Elapsed Time: 1234", "128000", SUM_OK],
        ),
        frame("dccp_close", packet(dccp::Type::Close, ack, 0, &[], none()), 0, &[SUM_OK]),
        frame(
            "dccp_reset",
            packet(dccp::Type::Reset, ack, 1 << 24, &[], none()),
            0,
            &["Reset Code: Closed (1)", SUM_OK],
        ),
    ]
}

fn quick_start_frames() -> Vec<Frame> {
    let request = quick_start::IpOption {
        function: quick_start::Function::Request,
        rate: quick_start::RateCode::from_bits(5),
        ttl: 61,
        nonce: 0x2345_6789,
    };
    let options = ipv4::Options::parse(&request.ipv4()).unwrap();
    let data = request.data();
    let hop_by_hop = options_header(Protocol::UDP, &[(quick_start::IPV6_OPTION, &data)]);
    let expected = &["Quick-Start", "Rate request (0)", "1.28 Mbit/s (5)", "TTL: 61", "0x23456789"];
    vec![
        frame(
            "quick_start_v4",
            udp(9, b"fast", 0, v4(Protocol::UDP)).in_v4_with(|ip| ipv4::Repr { options, ..ip }),
            0,
            &[&[IP_OK, SUM_OK][..], expected].concat(),
        ),
        frame(
            "quick_start_v6",
            udp(9, b"fast", 0, v6(Protocol::UDP)).in_v6_behind(Protocol::HOP_BY_HOP, &hop_by_hop, B6),
            0,
            &[&[SUM_OK][..], expected].concat(),
        ),
    ]
}

fn rtp_packet() -> Vec<u8> {
    let mut csrcs = rtp::Csrcs::default();
    assert!(csrcs.push(0x11) && csrcs.push(0x12));
    let extension = Some(rtp::Extension { profile: 0x1234, data: &[0xaa, 0xbb, 0xcc, 0xdd] });
    let repr =
        rtp::Repr { marker: true, csrcs, extension, padding_len: 4, ..rtp::Repr::new(96, 0x1234, 160, 7) };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend([9; 20]);
    bytes.extend([0, 0, 0, 4]);
    bytes
}

/// Fields of [`rtcp_packet`] by tshark.
const RTCP_FIELDS: [&str; 22] = [
    "Packet type: Sender Report (200)",
    "Timestamp, MSW: 3000000000",
    "RTP timestamp: 160",
    "Sender's packet count: 50",
    "Fraction lost: 64 / 256",
    "Cumulative number of packets lost: -2",
    "Extended highest sequence number received: 65543",
    "Interarrival jitter: 88",
    "Delay since last SR timestamp: 98304",
    "Text: a@example",
    "VoIP Metrics Report Block (7)",
    "Fraction lost: 12 / 256",
    "Fraction discarded: 13 / 256",
    "Burst Density: 85",
    "Gap Duration(ms): 255",
    "Round Trip Delay(ms): 560",
    "Gmin: 16",
    "R Factor: 76",
    "MOS - Conversational Quality: 3.8",
    "Nominal Jitter Buffer Size: 60",
    "Packet type: Goodbye (203)",
    "RTCP frame length check: OK",
];

fn rtcp_packet() -> Vec<u8> {
    let block = rtcp::ReportBlock {
        ssrc: 8,
        fraction_lost: 64,
        cumulative_lost: -2,
        highest_seq: 0x1_0007,
        jitter: 88,
        last_report: 0xaabb_ccdd,
        since_last_report: 98_304,
    };
    let info = rtcp::SenderInfo {
        ntp: 3_000_000_000 << 32 | 1 << 31,
        rtp_timestamp: 160,
        packets: 50,
        octets: 8000,
    };
    let metrics = rtcp::VoipMetrics {
        ssrc: 8,
        loss_rate: 12,
        discard_rate: 13,
        burst_density: 85,
        gap_density: 10,
        burst_duration: 120,
        gap_duration: 255,
        round_trip_delay: 560,
        end_system_delay: 80,
        signal_level: 127,
        noise_level: 127,
        echo_return_loss: 65,
        gmin: 16,
        r_factor: 76,
        external_r_factor: 127,
        mos_lq: 42,
        mos_cq: 38,
        receiver_config: 0x20,
        buffer_nominal: 60,
        buffer_maximum: 60,
        buffer_absolute_maximum: 60,
    };
    let packets = [
        rtcp::Repr::SenderReport { ssrc: 7, info, blocks: vec![block], extension: Vec::new() },
        rtcp::Repr::Description(vec![rtcp::Chunk {
            ssrc: 7,
            items: vec![(rtcp::CNAME, b"a@example".to_vec())],
        }]),
        rtcp::Repr::Extended { ssrc: 7, blocks: vec![rtcp::Block::VoipMetrics(metrics)] },
        rtcp::Repr::Bye { sources: vec![7], reason: Some(b"done".to_vec()) },
    ];
    let mut bytes = vec![0; rtcp::compound_len(&packets)];
    rtcp::emit_compound(&packets, &mut bytes);
    bytes
}

fn icmp4(repr: icmp::v4::Repr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    icmp::Message::new_checked(&mut bytes[..]).unwrap().fill_checksum(None);
    Datagram { protocol: Protocol::ICMP, bytes, elided: 0 }.in_v4()
}

fn icmp6(repr: icmp::v6::Repr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    icmp::Message::new_checked(&mut bytes[..]).unwrap().fill_checksum(Some(&v6(Protocol::ICMPV6)));
    Datagram { protocol: Protocol::ICMPV6, bytes, elided: 0 }.in_v6()
}

fn icmp_frames() -> Vec<Frame> {
    use icmp::{v4::Repr as V4, v6::Repr as V6};
    let about4 = udp(9, &[0; 45], 0, v4(Protocol::UDP)).in_v4();
    let about6 = udp(9, &[0; 45], 0, v6(Protocol::UDP)).in_v6();
    let ok4 = [IP_OK, SUM_OK];
    let with4 = |more: &[&'static str]| [&ok4[..], more].concat();
    vec![
        frame(
            "icmp_echo_request",
            icmp4(V4::EchoRequest { ident: 1, seq: 2 }, &[7; 57]),
            0,
            &with4(&["Type: 8 (Echo (ping) request)"]),
        ),
        frame(
            "icmp_echo_reply",
            icmp4(V4::EchoReply { ident: 1, seq: 2 }, &[7; 57]),
            0,
            &with4(&["Type: 0 (Echo (ping) reply)"]),
        ),
        frame(
            "icmp_too_big",
            icmp4(V4::DestinationUnreachable { code: V4::FRAGMENTATION_NEEDED, next_hop_mtu: 1480 }, &about4),
            0,
            &with4(&["MTU of next hop: 1480"]),
        ),
        frame(
            "icmp_time_exceeded",
            icmp4(V4::TimeExceeded { code: 0 }, &about4[..28]),
            0,
            &with4(&["Time to live exceeded in transit"]),
        ),
        frame(
            "icmp_parameter_problem",
            icmp4(V4::ParameterProblem { code: 0, pointer: 20 }, &about4[..28]),
            0,
            &with4(&["Pointer: 20"]),
        ),
        frame(
            "icmpv6_echo_request",
            icmp6(V6::EchoRequest { ident: 1, seq: 2 }, &[7; 57]),
            0,
            &[SUM_OK, "Echo (ping) request (128)"],
        ),
        frame(
            "icmpv6_echo_reply",
            icmp6(V6::EchoReply { ident: 1, seq: 2 }, &[7; 57]),
            0,
            &[SUM_OK, "Echo (ping) reply (129)"],
        ),
        frame("icmpv6_too_big", icmp6(V6::PacketTooBig { mtu: 1400 }, &about6), 0, &[SUM_OK, "MTU: 1400"]),
        frame(
            "icmpv6_unreachable",
            icmp6(V6::DestinationUnreachable { code: V6::PORT_UNREACHABLE }, &about6),
            0,
            &[SUM_OK, "Port unreachable"],
        ),
        frame(
            "icmpv6_time_exceeded",
            icmp6(V6::TimeExceeded { code: 0 }, &about6),
            0,
            &[SUM_OK, "hop limit exceeded"],
        ),
        frame(
            "icmpv6_parameter_problem",
            icmp6(V6::ParameterProblem { code: 1, pointer: 40 }, &about6),
            0,
            &[SUM_OK, "Pointer: 40"],
        ),
    ]
}

/// Who has this address, and who has: ARP, and neighbour discovery, whose hop limit is 255.
fn neighbour_frames() -> Vec<Frame> {
    let (near, far) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let arp = |operation, sender, target| {
        let repr = arp::Repr { operation, sender, target };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes
    };
    let request = arp(arp::Operation::REQUEST, (near, A4), (MacAddr::default(), B4));
    let reply = arp(arp::Operation::REPLY, (far, B4), (near, A4));
    let on_wire =
        |name, bytes: &[u8], expected| on_ethernet(name, EtherType::ARP, [None; 2], bytes, 0, expected);
    let discovery = |repr: nd::Repr, src, dst| {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        let pseudo = Pseudo::v6(src, dst, Protocol::ICMPV6);
        icmp::Message::new_checked(&mut bytes[..]).unwrap().fill_checksum(Some(&pseudo));
        let header = ipv6::Repr::new(src, dst, Protocol::ICMPV6, bytes.len());
        let mut packet = vec![0; ipv6::HEADER_LEN];
        ipv6::Repr { hop_limit: nd::HOP_LIMIT, ..header }.emit(&mut packet);
        [packet, bytes].concat()
    };
    let solicitation = nd::Repr::Solicitation { target: B6, source: Some(near) };
    let (router, solicited, overrides) = (false, true, true);
    let advertisement = nd::Repr::Advertisement { router, solicited, overrides, target: B6, link: Some(far) };
    vec![
        on_wire("arp_request", &request, &["Opcode: request (1)", "Target IP address: 198.51.100.2"]),
        on_wire("arp_reply", &reply, &["Opcode: reply (2)", "Sender MAC address: 02:00:00:00:00:02"]),
        frame(
            "icmpv6_solicitation",
            discovery(solicitation, A6, nd::solicited_node(B6)),
            0,
            &[SUM_OK, "Type: Neighbor Solicitation (135)", "(Source link-layer address : 02:00:00:00:00:01)"],
        ),
        frame(
            "icmpv6_advertisement",
            discovery(advertisement, B6, A6),
            0,
            &[
                SUM_OK,
                "Type: Neighbor Advertisement (136)",
                ".1.. .... .... .... .... .... .... .... = Solicited: Set",
            ],
        ),
    ]
}

fn options_header(next: Protocol, options: &[(u8, &[u8])]) -> Vec<u8> {
    let repr = ext::OptionsRepr { next, options };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

fn ipv6_frames() -> Vec<Frame> {
    let datagram = udp(9, &[], 100, v6(Protocol::UDP));
    let mut options = options_header(Protocol::DESTINATION_OPTIONS, &[(5, &[0, 0])]);
    // Type 0x1e is for experiments (RFC 4727): skipped by who does not know it.
    options.extend(options_header(Protocol::UDP, &[(0x1e, &[1, 2, 3, 4, 5])]));
    let mut atomic = vec![0; ext::FRAGMENT_LEN];
    ext::Fragment { offset: 0, more: false, ident: 0xabcd }.emit(Protocol::UDP, &mut atomic);
    // Segment routing with two segments, one left: the packet is on its way to a waypoint, its checksum is for B6.
    let mut routing = vec![17, 4, 4, 1, 1, 0, 0, 0];
    routing.extend(B6.octets());
    routing.extend(A6.octets());
    let on_its_way = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 3);
    vec![
        frame(
            "ipv6_options",
            datagram.in_v6_behind(Protocol::HOP_BY_HOP, &options, B6),
            100,
            &[
                SUM_OK,
                "IPv6 Hop-by-Hop Option",
                "Router Alert: MLD (0)",
                "Destination Options for IPv6",
                "UDP payload (100 bytes)",
            ],
        ),
        frame(
            "ipv6_fragment",
            datagram.in_v6_behind(Protocol::FRAGMENT, &atomic, B6),
            100,
            &[SUM_OK, "Identification: 0x0000abcd", "UDP payload (100 bytes)"],
        ),
        frame(
            "ipv6_routing",
            datagram.in_v6_behind(Protocol::ROUTING, &routing, on_its_way),
            100,
            &[SUM_OK, "Segment Routing", "Segments Left: 1", "UDP payload (100 bytes)"],
        ),
    ]
}

const MACS: (MacAddr, MacAddr) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));

fn on_ethernet(
    name: &'static str,
    ethertype: EtherType,
    tags: [Option<Tag>; 2],
    payload: &[u8],
    elided: usize,
    expected: &[&'static str],
) -> Frame {
    let repr = ethernet::Repr { tags, ..ethernet::Repr::new(MACS.0, MACS.1, ethertype) };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend(payload);
    Frame { link_type: LinkType::ETHERNET, ..frame(name, bytes, elided, expected) }
}

fn snap(ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let header = llc::Repr::Routed(ethertype);
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(packet);
    bytes
}

fn ethernet_frames() -> Vec<Frame> {
    let packet = udp(9, &[], 100, v4(Protocol::UDP)).in_v4();
    let tag = |protocol, control| Some(Tag { protocol, control });
    let (customer, service) = (tag(EtherType::VLAN, 0xa064), tag(EtherType::SERVICE_VLAN, 0x07d0));
    let logical = snap(EtherType::IPV4, &packet);
    let ok = [IP_OK, SUM_OK];
    let with = |more: &[&'static str]| [&ok[..], more].concat();
    vec![
        on_ethernet(
            "ethernet",
            EtherType::IPV4,
            [None; 2],
            &packet,
            100,
            &with(&["Source: 02:00:00:00:00:01", "Type: IPv4 (0x0800)"]),
        ),
        on_ethernet(
            "ethernet_vlan",
            EtherType::IPV4,
            [customer, None],
            &packet,
            100,
            &with(&["802.1Q Virtual LAN, PRI: 5, DEI: 0, ID: 100"]),
        ),
        on_ethernet(
            "ethernet_two_tags",
            EtherType::IPV4,
            [service, customer],
            &packet,
            100,
            &with(&["IEEE 802.1ad, ID: 2000", "802.1Q Virtual LAN, PRI: 5, DEI: 0, ID: 100"]),
        ),
        on_ethernet(
            "ethernet_snap",
            EtherType(136),
            [None; 2],
            &logical,
            100,
            &with(&["IEEE 802.3 Ethernet", "DSAP: SNAP (0xaa)", "Type: IPv4 (0x0800)"]),
        ),
    ]
}

fn in_erf(name: &'static str, content: Content, payload: Vec<u8>, expected: &[&'static str]) -> Frame {
    let header = erf::Repr::new(1_000_000_000, content, payload.len());
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes);
    bytes.extend(payload);
    Frame { link_type: LinkType::ERF, ..frame(name, bytes, 0, expected) }
}

fn in_aal5(mut payload: Vec<u8>, elided: usize) -> Vec<u8> {
    payload.resize(payload.len() + elided, 0);
    let trailer = aal5::Repr::new(payload.len());
    payload.resize(trailer.buffer_len(), 0);
    trailer.emit(&mut payload);
    payload
}

fn erf_frames() -> Vec<Frame> {
    let channel = Content::Aal5(AtmHeader { vpi: 1, vci: 100 });
    let routed4 = snap(EtherType::IPV4, &tcp(data(), 512, v4(Protocol::TCP)).in_v4());
    let routed6 = snap(EtherType::IPV6, &tcp(data(), 9140, v6(Protocol::TCP)).in_v6());
    let plain4 = udp(9, &[0; 20], 0, v4(Protocol::UDP)).in_v4();
    let plain6 = udp(9, &[0; 20], 0, v6(Protocol::UDP)).in_v6();
    let mut bridged = vec![0; 10];
    llc::Repr::BridgedEthernet { with_fcs: false }.emit(&mut bridged);
    bridged.extend(on_ethernet("", EtherType::IPV4, [None; 2], &plain4, 0, &[]).bytes);
    vec![
        in_erf(
            "aal5_ipv4",
            channel,
            in_aal5(routed4, 512),
            &[
                IP_OK,
                SUM_OK,
                "VPI: 1",
                "VCI: 100",
                "DSAP: SNAP (0xaa)",
                "Cells: 13",
                "AAL5 len: 572",
                "(correct)",
                "TCP payload (512 bytes)",
            ],
        ),
        in_erf(
            "aal5_ipv6",
            channel,
            in_aal5(routed6, 9140),
            &[
                SUM_OK,
                "DSAP: SNAP (0xaa)",
                "Cells: 193",
                "AAL5 len: 9220",
                "(correct)",
                "TCP payload (9140 bytes)",
            ],
        ),
        in_erf(
            "aal5_bridged",
            channel,
            in_aal5(bridged, 0),
            &[IP_OK, SUM_OK, "Cells: 2", "Protocol ID: 0x0007", "(correct)"],
        ),
        in_erf("erf_ipv4", Content::Ipv4, plain4.clone(), &[IP_OK, SUM_OK]),
        in_erf("erf_ipv6", Content::Ipv6, plain6, &[SUM_OK]),
        in_erf(
            "erf_ethernet",
            Content::Ethernet,
            on_ethernet("", EtherType::IPV4, [None; 2], &plain4, 0, &[]).bytes,
            &[IP_OK, SUM_OK],
        ),
    ]
}

/// Link layers that are only read, laid out by hand.
fn captured_frames() -> Vec<Frame> {
    let with = |name, link_type, header: &[u8], expected: &[&'static str]| {
        let packet = udp(9, &[], 60, v4(Protocol::UDP)).in_v4();
        Frame { link_type, ..frame(name, [header, &packet].concat(), 60, expected) }
    };
    let sll = [0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0];
    let sll2 = [8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    // 88 bytes of IP behind it.
    let pppoe = [0x11, 0, 0, 7, 0, 90, 0, 0x21];
    let tagged = [&[2; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x88, 0x64], &pppoe].concat();
    let pppoe_said = [IP_OK, SUM_OK, "Session ID: 0x0007", "Payload Length: 90"];
    vec![
        with("ppp", LinkType::PPP, &[0xff, 3, 0, 0x21], &[IP_OK, SUM_OK, "Point-to-Point Protocol"]),
        with("ppp_hdlc", LinkType::PPP_HDLC, &[0xff, 3, 0, 0x21], &[IP_OK, "Point-to-Point Protocol"]),
        with("c_hdlc", LinkType::C_HDLC, &[0x0f, 0, 8, 0], &[IP_OK, SUM_OK, "Cisco HDLC"]),
        with("ppp_ether", LinkType::PPP_ETHER, &pppoe, &pppoe_said),
        with("pppoe_tagged", LinkType::ETHERNET, &tagged, &pppoe_said),
        with("sll", LinkType::LINUX_SLL, &sll, &[IP_OK, SUM_OK, "Linux cooked capture v1"]),
        with("sll2", LinkType::LINUX_SLL2, &sll2, &[IP_OK, SUM_OK, "Linux cooked capture v2"]),
        with("null", LinkType::NULL, &[2, 0, 0, 0], &[IP_OK, SUM_OK, "Null/Loopback"]),
    ]
}

/// A HELLO of a feed, as an Ethernet frame in GRE.
fn gre_frames() -> Vec<Frame> {
    let hello = dtcp::Repr {
        command: dtcp::Command::Join,
        interval_s: 5,
        sequence: 7,
        receives: false,
        tunnel_type: Protocol::GRE.0,
        feed: A4.into(),
        tunnels: vec![B4.into()],
    };
    let mut datagram = vec![0; udp::HEADER_LEN + hello.buffer_len()];
    hello.emit(&mut datagram[udp::HEADER_LEN..]);
    let payload_len = hello.buffer_len();
    udp::Repr { src_port: dtcp::PORT, dst_port: dtcp::PORT, payload_len }.emit(&mut datagram);
    let pseudo = Pseudo::v4(A4, dtcp::GROUP_V4, Protocol::UDP);
    udp::Datagram::new_unchecked(&mut datagram[..]).fill_checksum(&pseudo);
    let inner = ipv4::Repr { ttl: 1, ..ipv4::Repr::new(A4, dtcp::GROUP_V4, Protocol::UDP, datagram.len()) };
    let group = MacAddr::of_group(dtcp::GROUP_V4.into()).expect("a group");
    let header = ethernet::Repr::new(MacAddr([2, 0, 192, 0, 2, 1]), group, EtherType::IPV4);
    let len = gre::HEADER_LEN + header.buffer_len() + inner.buffer_len();
    let outer = ipv4::Repr::new(B4, A4, Protocol::GRE, len + datagram.len());
    let mut bytes = vec![0; outer.buffer_len() + len];
    outer.emit(&mut bytes);
    let mut at = outer.buffer_len();
    gre::Repr { protocol: EtherType::BRIDGED }.emit(&mut bytes[at..]);
    at += gre::HEADER_LEN;
    header.emit(&mut bytes[at..]);
    at += header.buffer_len();
    inner.emit(&mut bytes[at..]);
    bytes.extend(datagram);
    let said = [
        "Protocol Type: Transparent Ethernet bridging (0x6558)",
        "Dst: 01:00:5e:00:00:24",
        "Destination Port: 652",
        IP_OK,
        SUM_OK,
    ];
    vec![frame("hello_in_gre", bytes, 0, &said)]
}
