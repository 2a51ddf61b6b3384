//! Checks on `bentpipe-wire`: no input makes a decoder panic, and what a decoder understood comes out of the encoder in
//! as many bytes as it said and is understood the same again.

use bentpipe_units::Time;
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::crc32::Crc32;
use bentpipe_wire::dtn::{admin, bpsec, bundle, mtcp, security, tcpcl};
use bentpipe_wire::ip::{Packet, Protocol, Upper, fragments};
use bentpipe_wire::pcap::{LinkType, MAX_RECORD_LEN, Reader};
use bentpipe_wire::space::{aos, convolutional, crc, encapsulation, proximity, reed_solomon, tm};
use bentpipe_wire::ule::{self, Payload, Sndu};
use bentpipe_wire::{
    aal1, aal5, arp, atm, bbframe, dccp, dtcp, erf, ethernet, gre, gse, icmp, ipv4, ipv6, link, llc,
    membership, mpe, ogg, outline, pes, psi, rle, rohc, rtcp, rtp, section, si, sixin4, tcp, ts, udp,
    udplite, wav, wman, wpan,
};

/// A decoder under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("ip", fuzz_ip),
    ("fragments", fuzz_fragments),
    ("tcp", fuzz_tcp),
    ("udp", fuzz_udp),
    ("udplite", fuzz_udplite),
    ("dccp", fuzz_dccp),
    ("icmp", fuzz_icmp),
    ("membership", fuzz_membership),
    ("gre", fuzz_gre),
    ("dtcp", fuzz_dtcp),
    ("rtp", fuzz_rtp),
    ("rtcp", fuzz_rtcp),
    ("ogg", fuzz_ogg),
    ("wav", fuzz_wav),
    ("ethernet", fuzz_ethernet),
    ("arp", fuzz_arp),
    ("llc", fuzz_llc),
    ("aal1", fuzz_aal1),
    ("aal5", fuzz_aal5),
    ("atm", fuzz_atm),
    ("erf", fuzz_erf),
    ("link", fuzz_link),
    ("outline", fuzz_outline),
    ("pcap", fuzz_pcap),
    ("pcapng", fuzz_pcap),
    ("psi", fuzz_psi),
    ("pes", fuzz_pes),
    ("ts", fuzz_ts),
    ("sndu", fuzz_sndu),
    ("ule", fuzz_ule),
    ("mpe", fuzz_mpe),
    ("mpe_parts", fuzz_mpe_parts),
    ("sections", fuzz_sections),
    ("ts_framing", fuzz_ts_framing),
    ("ts_datagrams", fuzz_ts_datagrams),
    ("gse", fuzz_gse),
    ("rle", fuzz_rle),
    ("bbframe", fuzz_bbframe),
    ("bbframe_ts", fuzz_bbframe_ts),
    ("bundle", fuzz_bundle),
    ("bpsec", fuzz_bpsec),
    ("admin", fuzz_admin),
    ("ltp", fuzz_ltp),
    ("cfdp", fuzz_cfdp),
    ("tcpcl", fuzz_tcpcl),
    ("mtcp", fuzz_mtcp),
    ("wman", fuzz_wman),
    ("wman_phs", fuzz_wman_phs),
    ("wpan", fuzz_wpan),
    ("space_frame", fuzz_space_frame),
    ("space_code", fuzz_space_code),
    ("rohc", fuzz_rohc),
];

/// The first two bytes of an input say how many zeros are elided behind the rest.
fn split(data: &[u8]) -> Option<(usize, &[u8])> {
    let (count, bytes) = data.split_first_chunk::<2>()?;
    Some((u16::from_le_bytes(*count).into(), bytes))
}

fn pseudo(protocol: Protocol) -> Pseudo {
    Pseudo::v4([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), protocol)
}

/// IPv4 and IPv6 with options and extension headers, what they carry, and a tunnel inside.
pub fn fuzz_ip(data: &[u8]) {
    let Some((elided, bytes)) = split(data) else { return };
    let Ok(packet) = Packet::new_elided(bytes, elided) else { return };
    match &packet {
        Packet::V4(packet) => round_trip_ipv4(packet),
        Packet::V6(packet) => round_trip_ipv6(packet),
    }
    if let Ok(upper) = packet.upper() {
        assert_eq!(upper.offset + upper.len(), packet.total_len());
        carried(&upper);
    }
    forward(bytes, elided);
}

/// Packets, each behind a byte of its length: a receiver puts them together, and a sender takes them apart.
pub fn fuzz_fragments(data: &[u8]) {
    let (mut rest, mut reassembler) = (data, fragments::Reassembler::default());
    while let [len, tail @ ..] = rest {
        let (packet, after) = tail.split_at(tail.len().min((*len).into()));
        if let Some(whole) = reassembler.add(packet, Time::ZERO) {
            let parts = fragments::split_at_source(&whole, 96, 7);
            let mut again = fragments::Reassembler::default();
            let back = parts.iter().flatten().filter_map(|part| again.add(part, Time::ZERO)).count();
            assert_eq!(back, usize::from(parts.is_some()));
        }
        rest = after;
    }
    assert!(reassembler.waiting() <= data.len() as u64);
}

fn round_trip_ipv4(packet: &ipv4::Packet<&[u8]>) {
    let Ok(repr) = ipv4::Repr::parse(packet) else { return };
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(out.len(), packet.header_len());
    let again = ipv4::Packet::new_elided(&out[..], packet.payload_len()).expect("a written header is read");
    again.verify_checksum().expect("a written checksum is right");
    assert_eq!(ipv4::Repr::parse(&again), Ok(repr));
    let count = repr.options.iter().count();
    assert!(count <= ipv4::Options::MAX_LEN / 2);
}

fn round_trip_ipv6(packet: &ipv6::Packet<&[u8]>) {
    let repr = ipv6::Repr::parse(packet);
    let mut out = [0xff; ipv6::HEADER_LEN];
    repr.emit(&mut out);
    assert_eq!(ipv6::Repr::parse(&ipv6::Packet::new_unchecked(&out[..])), repr);
    assert!(packet.ext_headers().count() <= ipv6::ext::MAX_HEADERS + 1);
}

/// A hop changes hops and checksum, and nothing that made the packet valid.
fn forward(bytes: &[u8], elided: usize) {
    let mut bytes = bytes.to_vec();
    let mut packet = Packet::new_elided(&mut bytes[..], elided).expect("read before");
    let hops = packet.hop_limit();
    assert_eq!(packet.decrement_hop_limit(), hops > 1);
    assert_eq!(packet.hop_limit(), if hops > 1 { hops - 1 } else { hops });
}

fn carried(upper: &Upper<'_>) {
    let (bytes, elided) = (upper.bytes, upper.elided);
    match upper.protocol {
        Protocol::TCP => tcp(bytes, elided, &upper.pseudo),
        Protocol::UDP => udp(bytes, elided, &upper.pseudo),
        Protocol::UDP_LITE => udplite(bytes, elided, &upper.pseudo),
        Protocol::DCCP => dccp(bytes, elided, &upper.pseudo),
        Protocol::ICMP | Protocol::ICMPV6 => icmp(bytes, elided),
        Protocol::IPV6 => {
            if let Ok(packet) = sixin4::inner(upper) {
                let _ = packet.upper();
            }
        }
        _ => {}
    }
}

/// TCP segments.
pub fn fuzz_tcp(data: &[u8]) {
    if let Some((elided, bytes)) = split(data) {
        tcp(bytes, elided, &pseudo(Protocol::TCP));
    }
}

fn tcp(bytes: &[u8], elided: usize, pseudo: &Pseudo) {
    let Ok(segment) = tcp::Segment::new_elided(bytes, elided) else { return };
    let _ = segment.verify_checksum(pseudo);
    assert_eq!(segment.header_len() + segment.payload_len(), bytes.len() + elided);
    let Ok(repr) = tcp::Repr::parse(&segment) else { return };
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    let mut again = tcp::Segment::new_elided(&mut out[..], elided).expect("a written header is read");
    again.fill_checksum(pseudo);
    again.verify_checksum(pseudo).expect("a written checksum is right");
    assert_eq!(tcp::Repr::parse(&again), Ok(repr));
}

/// UDP datagrams.
pub fn fuzz_udp(data: &[u8]) {
    if let Some((elided, bytes)) = split(data) {
        udp(bytes, elided, &pseudo(Protocol::UDP));
    }
}

fn udp(bytes: &[u8], elided: usize, pseudo: &Pseudo) {
    let Ok(datagram) = udp::Datagram::new_elided(bytes, elided) else { return };
    let _ = (datagram.verify_checksum(pseudo), datagram.payload());
    let repr = udp::Repr::parse(&datagram);
    let mut out = bytes.to_vec();
    repr.emit(&mut out);
    let mut again = udp::Datagram::new_elided(&mut out[..], elided).expect("a written header is read");
    again.fill_checksum(pseudo);
    again.verify_checksum(pseudo).expect("a written checksum is right");
    assert_eq!(udp::Repr::parse(&again), repr);
}

/// UDP-Lite datagrams.
pub fn fuzz_udplite(data: &[u8]) {
    if let Some((elided, bytes)) = split(data) {
        udplite(bytes, elided, &pseudo(Protocol::UDP_LITE));
    }
}

fn udplite(bytes: &[u8], elided: usize, pseudo: &Pseudo) {
    let Ok(datagram) = udplite::Datagram::new_elided(bytes, elided) else { return };
    let _ = (datagram.verify_checksum(pseudo), datagram.payload());
    let repr = udplite::Repr::parse(&datagram);
    let mut out = bytes.to_vec();
    repr.emit(&mut out);
    let mut again = udplite::Datagram::new_elided(&mut out[..], elided).expect("a written header is read");
    again.fill_checksum(pseudo);
    again.verify_checksum(pseudo).expect("a written checksum is right");
    assert_eq!(udplite::Repr::parse(&again), repr);
}

/// DCCP packets with their options.
pub fn fuzz_dccp(data: &[u8]) {
    if let Some((elided, bytes)) = split(data) {
        dccp(bytes, elided, &pseudo(Protocol::DCCP));
    }
}

fn dccp(bytes: &[u8], elided: usize, pseudo: &Pseudo) {
    let Ok(packet) = dccp::Packet::new_elided(bytes, elided) else { return };
    let _ = (packet.verify_checksum(pseudo), packet.payload(), packet.coverage());
    assert_eq!(packet.header_len() + packet.payload_len(), bytes.len() + elided);
    let Ok(repr) = dccp::Repr::parse(&packet) else { return };
    let options = &repr.options;
    let _ = (options.elapsed_ns(), options.receive_rate(), options.loss_event_rate(), options.quick_start());
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    let mut again = dccp::Packet::new_elided(&mut out[..], elided).expect("a written header is read");
    again.fill_checksum(pseudo);
    again.verify_checksum(pseudo).expect("a written checksum is right");
    assert_eq!(dccp::Repr::parse(&again), Ok(repr));
}

/// IGMP and MLD; the first byte chooses between them.
pub fn fuzz_membership(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let (family, pseudo) = match first & 1 {
        0 => (membership::Family::V4, pseudo(Protocol::IGMP)),
        _ => {
            let (src, dst) = ([0xfe80, 0, 0, 0, 0, 0, 0, 1].into(), membership::MLD_ROUTERS);
            (membership::Family::V6, Pseudo::v6(src, dst, Protocol::ICMPV6))
        }
    };
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 4 {
        // The checksum is mended, or hardly any input would come further.
        bytes[2..4].fill(0);
        let sum = match family {
            membership::Family::V4 => bentpipe_wire::checksum::checksum(&bytes),
            membership::Family::V6 => pseudo.datagram(&bytes, 0).checksum(),
        };
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let Ok(repr) = family.parse(&bytes, &pseudo) else { return };
    if let membership::Repr::Report(records) = &repr {
        assert!(records.len() * 8 <= bytes.len(), "as many records as there are bytes for");
    }
    let again = repr.message(family, 1000, &pseudo);
    assert_eq!(family.parse(&again, &pseudo), Ok(repr));
}

/// ICMP messages of both versions.
pub fn fuzz_icmp(data: &[u8]) {
    if let Some((elided, bytes)) = split(data) {
        icmp(bytes, elided);
    }
}

fn icmp(bytes: &[u8], elided: usize) {
    let Ok(message) = icmp::Message::new_elided(bytes, elided) else { return };
    let _ = (message.verify_checksum(None), message.payload(), message.payload_len());
    let (mut v4, mut v6) = ([0xff; icmp::HEADER_LEN], [0xff; icmp::HEADER_LEN]);
    icmp::v4::Repr::parse(&message).emit(&mut v4);
    icmp::v6::Repr::parse(&message).emit(&mut v6);
    assert_eq!(v4, v6);
    assert_eq!((&v4[..2], &v4[4..]), (&bytes[..2], &bytes[4..icmp::HEADER_LEN]));
    if let Ok(repr) = icmp::nd::Repr::parse(&message) {
        let mut out = vec![0xff; repr.buffer_len()];
        repr.emit(&mut out);
        assert!(out.len() <= bytes.len());
        let again = icmp::Message::new_checked(&out[..]).expect("a written header is read");
        assert_eq!(icmp::nd::Repr::parse(&again), Ok(repr));
    }
}

/// RTP packets.
pub fn fuzz_rtp(data: &[u8]) {
    let Some((elided, bytes)) = split(data) else { return };
    let Ok(packet) = rtp::Packet::new_elided(bytes, elided) else { return };
    let repr = rtp::Repr::parse(&packet);
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(out.len(), packet.header_len());
    assert_eq!(out.len() + packet.payload_len() + packet.padding_len(), bytes.len() + elided);
    out.extend(&bytes[out.len()..]);
    let again = rtp::Packet::new_elided(&out[..], elided).expect("a written header is read");
    assert_eq!((rtp::Repr::parse(&again), again.payload()), (repr, packet.payload()));
}

/// RTCP packets, alone and compound.
pub fn fuzz_rtcp(data: &[u8]) {
    if let Ok((repr, len)) = rtcp::Repr::parse(data) {
        assert!(len <= data.len());
        fuzz_rtcp_again(std::slice::from_ref(&repr), |bytes| {
            rtcp::Repr::parse(bytes).map(|(repr, _)| vec![repr])
        });
    }
    if let Ok(packets) = rtcp::parse_compound(data) {
        fuzz_rtcp_again(&packets, rtcp::parse_compound);
    }
}

/// Packets that were read are the same after they are written.
fn fuzz_rtcp_again(
    packets: &[rtcp::Repr],
    parse: impl Fn(&[u8]) -> Result<Vec<rtcp::Repr>, bentpipe_wire::Error>,
) {
    let mut out = vec![0xff; rtcp::compound_len(packets)];
    rtcp::emit_compound(packets, &mut out);
    assert_eq!(parse(&out).as_deref(), Ok(packets));
}

/// Pages of Ogg, whose checksums are made right first, as nearly all are wrong otherwise.
pub fn fuzz_ogg(data: &[u8]) {
    let mut data = data.to_vec();
    let mut at = 0;
    while let Some(header) = data.get(at..at + ogg::HEADER_LEN) {
        let table = data.get(at + ogg::HEADER_LEN..at + ogg::HEADER_LEN + usize::from(header[26]));
        let Some(table) = table else { break };
        let len = ogg::HEADER_LEN + table.len() + table.iter().map(|len| usize::from(*len)).sum::<usize>();
        let Some(page) = data.get_mut(at..at + len) else { break };
        page[22..26].fill(0);
        let crc = bentpipe_wire::crc32::Crc32::zero().add_bytes(page).register();
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        at += len;
    }
    let Ok(packets) = ogg::packets(&data) else { return };
    assert!(packets.iter().map(Vec::len).sum::<usize>() <= data.len());
    let stream: Vec<_> = packets.iter().map(|bytes| ogg::Packet { bytes, granule: 0 }).collect();
    assert_eq!(ogg::packets(&ogg::write(1, &stream)), Ok(packets.clone()));
}

/// WAV files.
pub fn fuzz_wav(data: &[u8]) {
    let Ok(wav) = bentpipe_wire::wav::Repr::parse(data) else { return };
    assert!(2 * wav.samples.len() <= data.len());
    assert_eq!(wav::Repr::parse(&wav.to_bytes()), Ok(wav));
}

/// ARP messages.
pub fn fuzz_arp(data: &[u8]) {
    let Ok(packet) = arp::Packet::new_checked(data) else { return };
    let repr = arp::Repr::parse(&packet);
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(out, data[..arp::LEN]);
}

/// Headers of GRE.
pub fn fuzz_gre(data: &[u8]) {
    let Ok((repr, payload)) = gre::Repr::parse(data) else { return };
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    out.extend_from_slice(payload);
    assert_eq!(gre::Repr::parse(&out), Ok((repr, payload)));
}

/// HELLOs of feeds of unidirectional links.
pub fn fuzz_dtcp(data: &[u8]) {
    let Ok(repr) = dtcp::Repr::parse(data) else { return };
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert!(out.len() <= data.len());
    assert_eq!(dtcp::Repr::parse(&out), Ok(repr));
}

/// Ethernet frames.
pub fn fuzz_ethernet(data: &[u8]) {
    let Some((elided, bytes)) = split(data) else { return };
    let Ok(frame) = ethernet::Frame::new_elided(bytes, elided) else { return };
    let repr = ethernet::Repr::parse(&frame);
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(out, bytes[..frame.header_len()]);
    assert!(frame.payload().len() <= frame.payload_len());
}

/// LLC/SNAP headers.
pub fn fuzz_llc(data: &[u8]) {
    let Ok(repr) = llc::Repr::parse(data) else { return };
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(out[..llc::HEADER_LEN], data[..llc::HEADER_LEN]);
}

/// The payloads of cells of one AAL1 connection: what comes out is bounded, whole, and good only if nothing is missing.
pub fn fuzz_aal1(data: &[u8]) {
    for fec in [aal1::Fec::None, aal1::Fec::Long] {
        let mut reassembler = aal1::Reassembler::new(fec);
        let mut payloads = 0;
        for cell in data.chunks(aal1::SAR_PDU_LEN) {
            let is_whole = cell.len() == aal1::SAR_PDU_LEN;
            assert_eq!(reassembler.push(cell).is_ok(), is_whole);
            payloads += std::iter::from_fn(|| reassembler.pop()).count();
        }
        reassembler.finish();
        payloads += std::iter::from_fn(|| reassembler.pop()).count();
        let (stats, cells) = (reassembler.stats(), data.len() / aal1::SAR_PDU_LEN);
        assert_eq!(stats.received, cells as u64);
        match fec {
            aal1::Fec::None => {
                let taken = stats.received - stats.bad_headers - stats.misinserted;
                assert_eq!(payloads as u64, taken + stats.lost);
            }
            aal1::Fec::Long => assert!(payloads <= (cells * 8) * 124 && payloads.is_multiple_of(124)),
        }
    }
    let pdu = aal1::SarPdu::new_checked(&data[..data.len().min(aal1::SAR_PDU_LEN)]);
    if let Some((pdu, pointer)) = pdu.ok().and_then(|pdu| Some((pdu, pdu.pointer().ok()?))) {
        assert_eq!(aal1::pointer_octet(pointer), pdu.payload()[0]);
    }
}

/// The tables of a transport stream; the CRC is put right, so that there is something to read.
pub fn fuzz_psi(data: &[u8]) {
    let mut section = data.to_vec();
    if let Some(end) = section.len().checked_sub(section::CRC_LEN) {
        let crc = Crc32::new().add_bytes(&section[..end]).register();
        section[end..].copy_from_slice(&crc.to_be_bytes());
    }
    if let Ok((pat, part)) = psi::Pat::parse_part(&section) {
        assert_eq!(psi::Pat::parse_part(&pat.to_section_of(part)), Ok((pat, part)));
    }
    if let Ok(sdt) = si::Sdt::parse(&section) {
        let names = sdt.services.iter().filter_map(si::Service::description);
        assert!(names.flat_map(|names| [names.provider, names.name]).all(|text| text.len() <= 4 * 255));
        assert_eq!(si::Sdt::parse(&sdt.to_section()), Ok(sdt));
    }
    assert!(!si::text(data).chars().any(char::is_control));
    if let Ok(pmt) = psi::Pmt::parse(&section) {
        assert_eq!(psi::Pmt::parse(&pmt.to_section()), Ok(pmt.clone()));
        assert!(psi::descriptors(&pmt.descriptors).count() <= pmt.descriptors.len() / 2);
    }
}

/// Headers of PES packets.
pub fn fuzz_pes(data: &[u8]) {
    let Ok(repr) = pes::Repr::parse(data) else { return };
    let mut out = vec![0; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(pes::Repr::parse(&out), Ok(repr));
}

/// AAL5 CPCS-PDUs.
pub fn fuzz_aal5(data: &[u8]) {
    let Ok(pdu) = aal5::Pdu::new_checked(data) else { return };
    let repr = aal5::Repr::parse(&pdu);
    let mut out = data.to_vec();
    repr.emit(&mut out);
    assert_eq!((repr.buffer_len(), aal5::cells(repr.payload_len) * 48), (data.len(), data.len()));
    let again = aal5::Pdu::new_checked(&out[..]).expect("a written PDU is read");
    again.verify_crc().expect("a written CRC is right");
    assert_eq!((aal5::Repr::parse(&again), again.payload()), (repr, pdu.payload()));
}

/// Cell headers, with their HEC put right if that can be, and RM and OAM cells.
pub fn fuzz_atm(data: &[u8]) {
    let Some((header, payload)) = data.split_first_chunk::<{ atm::HEADER_LEN }>() else { return };
    let mut header = *header;
    atm::hec::Receiver::new().receive(&mut header);
    for interface in [atm::Interface::Uni, atm::Interface::Nni] {
        let Ok(repr) = atm::Repr::parse(interface, &header) else { continue };
        let mut out = [0xff; atm::HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out, header);
    }
    let mut payload = payload.to_vec();
    fuzz_management(&payload);
    // Few inputs have a right CRC; give it to those that are long enough.
    if payload.len() == atm::PAYLOAD_LEN {
        atm::crc10::fill(&mut payload);
        fuzz_management(&payload);
        assert!(atm::oam::Repr::parse(&payload).is_ok());
    }
}

fn fuzz_management(payload: &[u8]) {
    let _ = atm::oam::Repr::parse(payload);
    let Ok(repr) = atm::rm::Repr::parse(payload) else { return };
    let mut out = [0xff; atm::PAYLOAD_LEN];
    repr.emit(&mut out);
    assert_eq!(atm::rm::Repr::parse(&out), Ok(repr));
}

/// ERF record headers.
pub fn fuzz_erf(data: &[u8]) {
    let Ok((repr, len)) = erf::Repr::parse(data) else { return };
    assert!(len <= data.len());
    // A record of 65,535 bytes may say that its packet was longer than a record can be.
    if repr.buffer_len() + repr.payload_len > usize::from(u16::MAX) {
        return;
    }
    let mut out = vec![0xff; repr.buffer_len()];
    repr.emit(&mut out);
    assert_eq!(erf::Repr::parse(&out), Ok((repr, out.len())));
}

/// Captured frames of a link type, which the first two bytes give, down to IP.
pub fn fuzz_link(data: &[u8]) {
    let Some((number, bytes)) = split(data) else { return };
    let _ = link::ppp(LinkType(number as u16), bytes);
    let Ok(network) = link::network(LinkType(number as u16), bytes) else { return };
    assert!(network.offset + network.bytes.len() <= bytes.len());
    if let Ok(packet) = Packet::new_checked(network.bytes) {
        let _ = packet.upper();
    }
}

/// Packets of any link type in a line, cut or not. The first two bytes are the link type.
pub fn fuzz_outline(data: &[u8]) {
    let Some((number, bytes)) = split(data) else { return };
    for missing in [0, 1000, 100_000] {
        let line = outline::outline(LinkType(number as u16), bytes, bytes.len() + missing);
        for text in [line.source, line.destination, line.protocol, line.info] {
            assert!(text.len() <= 200 && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}

/// Capture files of both formats.
pub fn fuzz_pcap(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else { return };
    let mut records = 0;
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.bytes.len() <= MAX_RECORD_LEN && record.bytes.len() <= data.len());
        records += 1;
    }
    // Each record costs the file at least a header, so a file cannot make a reader run for longer than it is.
    assert!(records <= data.len() / 16);
    assert!(matches!(reader.next_record(), Ok(None)), "nothing comes after the end or an error");
}

/// TS packets.
pub fn fuzz_ts(data: &[u8]) {
    if let Some(at) = ts::find_sync(data) {
        assert_eq!(data[at], ts::SYNC);
    }
    let Ok(packet) = ts::Packet::new_checked(data) else { return };
    let payload_len = packet.payload().map_or(0, <[u8]>::len);
    let Ok(repr) = ts::Repr::parse(&packet) else { return };
    let mut out = data[..ts::PACKET_LEN].to_vec();
    repr.emit(&mut out);
    let again = ts::Packet::new_checked(&out).expect("a written packet is read");
    assert_eq!(ts::Repr::parse(&again), Ok(repr));
    assert_eq!(again.payload().map_or(0, <[u8]>::len), payload_len);
}

/// SNDUs, whose CRC is made right so that what is behind it is looked at.
pub fn fuzz_sndu(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(at) = bytes.len().checked_sub(ule::CRC_LEN) {
        let crc = Crc32::new().add_bytes(&bytes[..at]).register();
        bytes[at..].copy_from_slice(&crc.to_be_bytes());
    }
    let Ok(sndu) = Sndu::parse(&bytes) else { return };
    let extensions: Vec<_> = sndu.extensions.into_iter().collect();
    let (kind, pdu) = match sndu.payload {
        Payload::Pdu(ethertype, pdu) => (ethertype.into(), pdu),
        Payload::Bridged(frame) => (ule::Type::BRIDGED, frame),
        Payload::Test(bytes) => (ule::Type::TEST, bytes),
        Payload::Ts(packets) => (ule::Type::TS_CONCAT, packets.as_flattened()),
        Payload::Pdus(pdus) => {
            assert_eq!(pdus.pdus().count(), pdus.payloads().count());
            return;
        }
    };
    let repr = ule::Repr { npa: sndu.npa, extensions: &extensions, kind };
    let mut out = vec![0; repr.header_len()];
    repr.emit(pdu.len(), &mut out);
    assert_eq!(out, bytes[..out.len()]);
    assert_eq!(repr.sndu_len(pdu.len()), bytes.len());
}

/// TS packets of one PID into a ULE receiver; their sync byte and PID are put right.
pub fn fuzz_ule(data: &[u8]) {
    let pid = ts::Pid::new(0x101).expect("13 bits");
    let mut receiver = ule::Receiver::new(pid, ule::Filter::All);
    let mut bytes = 0;
    for chunk in data.chunks(ts::PACKET_LEN) {
        let mut packet = ts::NULL_PACKET;
        packet[..chunk.len()].copy_from_slice(chunk);
        (packet[0], packet[2]) = (ts::SYNC, 0x01);
        packet[1] = packet[1] & 0xe0 | 0x01;
        receiver.push(&packet, |_| bytes += 1);
        assert!(receiver.waiting_len() < ule::MAX_LEN);
    }
    assert_eq!(receiver.counts().sndus, bytes);
}

/// MPE sections, whose CRC is made right so that what is behind it is looked at.
pub fn fuzz_mpe(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(at) = bytes.len().checked_sub(section::CRC_LEN) {
        let crc = Crc32::new().add_bytes(&bytes[..at]).register();
        bytes[at..].copy_from_slice(&crc.to_be_bytes());
    }
    let Ok(datagram) = mpe::Datagram::parse(&bytes) else { return };
    let repr = mpe::Repr { dst: datagram.dst, ethertype: datagram.has_llc.then_some(datagram.ethertype) };
    assert_eq!(repr.section_len(datagram.bytes.len()), bytes.len());
    let pid = ts::Pid::PAT;
    let mut stream = Vec::new();
    if mpe::Encapsulator::new(pid, ts::Method::Padding).push(&repr, datagram.bytes, &mut stream).is_ok() {
        let mut receiver = section::Receiver::new(pid);
        let mut out = Vec::new();
        stream
            .as_chunks()
            .0
            .iter()
            .for_each(|packet| receiver.push(packet, |section| out = section.to_vec()));
        // Reserved bits and current_next_indicator are as the sender likes, and with them the CRC-32.
        (out[1], out[5], bytes[1], bytes[5]) =
            (out[1] | 0x70, out[5] | 0xc1, bytes[1] | 0x70, bytes[5] | 0xc1);
        let end = bytes.len() - section::CRC_LEN;
        assert_eq!(out[..end], bytes[..end]);
    }
}

/// Parts of datagrams, each one byte of numbers (its own and the last one's) and one of length before it, put into sections
/// that are right, into a receiver.
pub fn fuzz_mpe_parts(data: &[u8]) {
    let (pid, mut stream) = (ts::Pid::PAT, Vec::new());
    let mut encapsulator = section::Encapsulator::new(pid, ts::Method::Packing);
    let mut rest = data;
    while let Some((&[numbers, len], behind)) = rest.split_first_chunk::<2>() {
        let (part, behind) = behind.split_at(usize::from(len).min(behind.len()));
        let mut section = vec![mpe::TABLE_ID, 0xb0, (9 + part.len() + section::CRC_LEN) as u8, 0, 0];
        // The longest section cannot be said in a byte, so lengths are short; numbers and flags are what matters here.
        section.extend([0xc1 | numbers >> 6 & 2, numbers & 7, numbers >> 3 & 7, 0, 0, 0, 0]);
        section.extend(part);
        if section.len() <= 255 + section::HEADER_LEN - section::CRC_LEN {
            section.extend(Crc32::new().add_bytes(&section).register().to_be_bytes());
            encapsulator.push(&section, &mut stream);
        }
        rest = behind;
    }
    encapsulator.flush(&mut stream);
    let (mut receiver, mut datagrams) = (mpe::Receiver::new(pid, ethernet::Filter::All), 0);
    for packet in stream.as_chunks().0 {
        receiver.push(packet, |datagram| {
            assert!(datagram.bytes.len() <= mpe::MAX_DATAGRAM_LEN + 3);
            datagrams += 1;
        });
        assert!(receiver.waiting_len() <= mpe::MAX_DATAGRAM_LEN + 11);
    }
    assert_eq!(receiver.counts().datagrams, datagrams);
}

/// TS packets of one PID into a receiver of sections; their sync byte and PID are put right.
pub fn fuzz_sections(data: &[u8]) {
    let mut receiver = section::Receiver::new(ts::Pid::PAT);
    let mut sections = 0;
    for chunk in data.chunks(ts::PACKET_LEN) {
        let mut packet = ts::NULL_PACKET;
        packet[..chunk.len()].copy_from_slice(chunk);
        (packet[0], packet[1], packet[2]) = (ts::SYNC, packet[1] & 0xe0, 0);
        receiver.push(&packet, |section| {
            assert!(section.len() <= section::MAX_LEN);
            sections += 1;
        });
        assert!(receiver.waiting_len() < section::MAX_LEN);
    }
    assert_eq!(receiver.counts().sections, sections);
}

/// Data fields, each behind its length of one byte, into a GSE receiver; and what is read of them written again.
pub fn fuzz_gse(data: &[u8]) {
    let mut receiver = gse::Receiver::new(gse::Filter::All);
    let (mut rest, mut pdus) = (data, 0);
    while let Some((&len, behind)) = rest.split_first() {
        let (field, behind) = behind.split_at(usize::from(len).min(behind.len()));
        receiver.push(field, |_| pdus += 1);
        if let Ok(Some((packet, len))) = gse::Packet::parse(field) {
            let mut out = Vec::new();
            packet.emit(&mut out);
            assert_eq!(out, field[..len]);
        }
        rest = behind;
    }
    assert_eq!(receiver.counts().pdus, pdus);
}

/// The first byte is how protocol types are written; then FPDUs, each behind its length of one byte, into an RLE receiver, and
/// what is read of them written again.
pub fn fuzz_rle(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let types = [rle::Types::Suppressed, rle::Types::Compressed, rle::Types::Full][usize::from(first % 3)];
    let mut receiver = rle::Receiver::new(rle::Profile { types, ..rle::Profile::default() });
    let mut sdus = 0;
    while let Some((&len, behind)) = rest.split_first() {
        let (fpdu, behind) = behind.split_at(usize::from(len).min(behind.len()));
        receiver.push(fpdu, |_| sdus += 1);
        assert!(receiver.waiting_len() <= usize::from(rle::FRAG_IDS) * rle::MAX_TOTAL_LENGTH);
        if let Ok(Some((ppdu, len))) = rle::Ppdu::parse(fpdu) {
            let mut out = Vec::new();
            ppdu.emit(&mut out);
            assert_eq!(out, fpdu[..len]);
        }
        rest = behind;
    }
    assert_eq!(receiver.counts().sdus, sdus);
}

/// Baseband frames, whose CRC-8 is made right so that what is behind it is looked at.
pub fn fuzz_bbframe(data: &[u8]) {
    if let Ok(adaptation) = bbframe::Adaptation::parse(data) {
        let mut out = [0; bbframe::ADAPTATION_LEN];
        adaptation.emit(&mut out);
        assert_eq!((out[0], out[1] & 0x7f, out[2], out[3]), (data[0], data[1] & 0x7f, data[2], data[3]));
    }
    let mut bytes = data.to_vec();
    if bytes.len() >= bbframe::HEADER_LEN {
        bytes[9] = bbframe::crc8(&bytes[..9]);
    }
    let Ok((repr, field)) = bbframe::parse(&bytes) else { return };
    assert_eq!(repr.data_field_len, field.len());
    let mut out = [0; bbframe::HEADER_LEN];
    repr.emit(&mut out);
    assert_eq!(bbframe::Repr::parse(&out), Ok(repr));
}

/// Data fields of a transport stream, each behind its length of one byte and one that says where its first packet starts.
pub fn fuzz_bbframe_ts(data: &[u8]) {
    let (mut deframer, mut packets, mut rest) = (bbframe::Deframer::new(), 0, data);
    while let Some((&[len, distance], behind)) = rest.split_first_chunk::<2>() {
        let (field, behind) = behind.split_at(usize::from(len).min(behind.len()));
        let distance_bits = if distance == 0xff { u16::MAX } else { u16::from(distance) * 8 };
        let stream = bbframe::Stream::Transport;
        let repr =
            bbframe::Repr { stream, packet_bits: 1504, distance_bits, ..bbframe::Repr::gse(field.len()) };
        deframer.push(&repr, field, |packet| {
            assert_eq!(packet[0], ts::SYNC);
            packets += 1;
        });
        rest = behind;
    }
    assert_eq!(deframer.counts().packets, packets);
    let whole = data.as_chunks::<{ ts::PACKET_LEN }>().0;
    transport_round_trip(whole);
}

/// Packets into frames of several lengths and out again.
fn transport_round_trip(packets: &[[u8; ts::PACKET_LEN]]) {
    let (mut framer, mut deframer) = (bbframe::Framer::new(), bbframe::Deframer::new());
    packets.iter().for_each(|packet| framer.push(packet));
    let mut received = Vec::new();
    while framer.waiting_len() > 0 {
        let mut field = Vec::new();
        let repr = framer.fill(framer.waiting_len().min(150 + received.len()), &mut field);
        deframer.push(&repr, &field, |packet| received.push(*packet));
    }
    let same = |(sent, got): (&[u8; ts::PACKET_LEN], &[u8; ts::PACKET_LEN])| sent[1..] == got[1..];
    assert!(received.len() == packets.len() && packets.iter().zip(&received).all(same));
}

/// A byte stream in which TS packets are, in pieces each behind its length of one byte; then the same in one piece.
pub fn fuzz_ts_framing(data: &[u8]) {
    let (mut framer, mut packets, mut rest, mut stream) = (ts::Framer::new(), Vec::new(), data, Vec::new());
    while let Some((&len, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(usize::from(len).min(behind.len()));
        framer.push(piece, |packet| packets.push(*packet));
        assert!(framer.waiting_len() <= 5 * ts::PACKET_LEN);
        stream.extend(piece);
        rest = behind;
    }
    assert!(packets.iter().all(|packet| packet[0] == ts::SYNC));
    let taken = packets.len() * ts::PACKET_LEN + framer.waiting_len();
    assert_eq!(taken as u64 + framer.skipped_bytes(), stream.len() as u64, "each byte is somewhere");
    let (mut whole, mut again) = (ts::Framer::new(), Vec::new());
    whole.push(&stream, |packet| again.push(*packet));
    assert_eq!(again, packets, "pieces do not matter");
}

/// Datagrams, each behind its length of two bytes, with RTP headers or without.
pub fn fuzz_ts_datagrams(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let (mut unpacker, mut packets) = (ts::Unpacker::new(first & 1 == 1), 0);
    while let Some((&len, behind)) = rest.split_first_chunk::<2>() {
        let (datagram, behind) = behind.split_at(usize::from(u16::from_le_bytes(len)).min(behind.len()));
        let found = unpacker.unpack(datagram);
        assert!(found.iter().all(|packet| packet[0] == ts::SYNC));
        packets += found.len() as u64;
        assert!(unpacker.senders() <= 32);
        rest = behind;
    }
    assert_eq!(unpacker.counts().packets, packets);
}

/// Bundles: what is accepted is written again in the same bytes, in fragments too.
pub fn fuzz_bundle(data: &[u8]) {
    if let Some(part) = bundle::Bundle::parse_part(data) {
        assert!(part.primary.fragment.is_some() && part.payload.len() <= data.len() as u64);
        assert_eq!(bundle::Bundle::parse(&part.to_vec()), Ok(part));
    }
    let Ok(bundle) = bundle::Bundle::parse(data) else { return };
    assert_eq!(bundle.to_vec(), data);
    assert_eq!(bundle.encoded_len(), data.len() as u64);
    assert_eq!(bundle::Bundle::parse_first(&[data, data].concat()), Ok((bundle.clone(), data.len())));
    let _ = (bundle.check(), bpsec::verify(&bundle, &bpsec::Key(vec![7; 16])));
    let text = bundle.primary.source.to_string();
    assert_eq!(text.parse().as_ref(), Ok(&bundle.primary.source), "{text}");
    let limit = data.len() as u64 * 3 / 4;
    let Ok(parts) = bundle.clone().fragments(limit) else { return };
    assert!(parts.len() > 1 && parts.iter().all(|part| part.encoded_len() <= limit));
    if bundle.primary.fragment.is_none() {
        assert_eq!(bundle::Bundle::reassemble(&parts).map(|whole| whole.to_vec()), Some(data.to_vec()));
    }
}

/// Abstract security blocks.
pub fn fuzz_bpsec(data: &[u8]) {
    if let Ok(block) = security::SecurityBlock::parse(data) {
        assert_eq!(block.to_vec(), data);
    }
}

/// Administrative records.
pub fn fuzz_admin(data: &[u8]) {
    if let Ok(record) = admin::Record::parse(data) {
        assert_eq!(record.to_vec(), data);
    }
}

/// LTP segments. SDNVs have several lengths, so that it is the values which come again.
pub fn fuzz_ltp(data: &[u8]) {
    use bentpipe_wire::dtn::ltp::Segment;
    let Ok(segment) = Segment::parse(data) else { return };
    let out = segment.to_vec();
    assert!(out.len() <= data.len());
    assert_eq!(Segment::parse(&out), Ok(segment));
}

/// PDUs of CFDP. Options of directives are read over, so that it is the rest which comes again.
pub fn fuzz_cfdp(data: &[u8]) {
    use bentpipe_wire::dtn::cfdp::Pdu;
    let Ok(pdu) = Pdu::parse(data) else { return };
    let out = pdu.to_vec();
    assert!(out.len() <= data.len());
    assert_eq!(Pdu::parse(&out), Ok(pdu));
}

/// A stream of TCPCL messages, which does not depend on how it is cut.
pub fn fuzz_tcpcl(data: &[u8]) {
    let _ = tcpcl::parse_contact(data);
    let mut rest = data;
    while let Ok(tcpcl::Read::Whole(message, len)) = tcpcl::Message::parse(rest, 1000) {
        let cut = tcpcl::Message::parse(&rest[..len - 1], 1000);
        assert!(matches!(cut, Ok(tcpcl::Read::Incomplete(needed)) if needed <= len));
        let mut out = Vec::new();
        message.emit(&mut out);
        let (whole, _) = (tcpcl::Read::Whole(message.clone(), out.len()), out.len());
        assert_eq!(tcpcl::Message::parse(&out, 1000), Ok(whole));
        if let tcpcl::Message::Segment { extensions, .. } = message {
            let _ = tcpcl::Extension::parse_all(extensions);
        }
        rest = &rest[len..];
    }
}

/// Heads of bundles in a stream.
pub fn fuzz_mtcp(data: &[u8]) {
    if let Ok(Some((len, head))) = mtcp::read_head(data, 1000) {
        let mut out = Vec::new();
        mtcp::put_head(&mut out, len);
        assert_eq!(out, data[..head]);
    }
}

/// Frames of 802.15.4, which are written again in the same bytes.
pub fn fuzz_wpan(data: &[u8]) {
    // The FCS is made true, as mutations would hardly ever find it.
    let mut bytes = data.to_vec();
    bytes.extend(wpan::fcs(data).to_le_bytes());
    for bytes in [data, &bytes] {
        if let Ok(frame) = wpan::Frame::new_checked(bytes) {
            let mut out = Vec::new();
            frame.header().emit(frame.payload(), &mut out);
            assert_eq!(out, bytes);
        }
    }
}

/// Bursts of 802.16: headers, PDUs with their parts, maps, descriptors, feedback and the envelope.
pub fn fuzz_wman(data: &[u8]) {
    for form in [wman::CrcForm::Ofdm, wman::CrcForm::Ofdma] {
        if let Ok(pdu) = wman::Pdu::new_checked(data, form) {
            round_trip_pdu(&pdu, form);
        }
    }
    let mut out = Vec::new();
    if let Ok(map) = wman::DlMap::parse(data) {
        map.emit(&mut out);
        assert_eq!(out, data);
    }
    out.clear();
    if let Ok(map) = wman::UlMap::parse(data) {
        map.emit(&mut out);
        assert_eq!(wman::UlMap::parse(&out), Ok(map));
    }
    out.clear();
    if let Ok(dcd) = wman::channel::Dcd::parse(data) {
        dcd.emit(&mut out);
        assert_eq!(wman::channel::Dcd::parse(&out), Ok(dcd));
    }
    let _ = (wman::Fch::parse(data), wman::channel::Ucd::parse(data));
    let _ = (wman::arq::Feedback::parse_list(data), wman::m2m::Burst::parse(data));
    let _ = wman::arq::Discard::parse(data);
}

/// Rules of payload header suppression, and SDUs that they restore.
///
/// The first byte says how many bytes are the rule; an SDU follows.
pub fn fuzz_wman_phs(data: &[u8]) {
    let Some((len, rest)) = data.split_first() else { return };
    let Some((elements, sdu)) = rest.split_at_checked((*len).into()) else { return };
    let Ok(rule) = wman::phs::Rule::parse(elements) else { return };
    let mut out = Vec::new();
    rule.emit(&mut out);
    assert_eq!(wman::phs::Rule::parse(&out), Ok(rule.clone()));
    let rules = [rule];
    let sent = wman::phs::suppress(&rules, sdu);
    let restored = wman::phs::restore(&rules, &sent).expect("own bytes");
    assert_eq!(restored.len(), sdu.len());
    if rules[0].verifies {
        assert_eq!(restored, sdu);
    }
    let _ = wman::phs::restore(&rules, sdu);
}

/// Emits what was understood of a PDU. Reserved bits of subheaders are not kept, so the result is parsed again.
fn round_trip_pdu(pdu: &wman::Pdu<'_>, form: wman::CrcForm) {
    let parts: Vec<wman::Part<'_>> = pdu.parts().map(|part| part.expect("a checked view")).collect();
    let header = pdu.header;
    let layout = match (header.packing, header.fragmentation) {
        (true, _) => wman::Layout::Packed,
        (false, true) => wman::Layout::Fragment,
        (false, false) => wman::Layout::Whole,
    };
    let numbers = if header.extended { wman::Numbers::Extended } else { wman::Numbers::Short };
    let repr = wman::Repr {
        cid: wman::Cid(header.cid),
        grant: pdu.grant,
        layout,
        numbers,
        arq_feedback: header.arq_feedback,
        crc: header.crc.then_some(form),
    };
    let mut out = Vec::new();
    repr.emit(&parts, &mut out);
    assert_eq!(out.len(), pdu.total_len());
    let again = wman::Pdu::new_checked(&out, form).expect("understood again");
    assert_eq!(again.parts().collect::<Result<Vec<_>, _>>().expect("a checked view"), parts);
}

/// Negotiation and framing of ROHC channels: IPCP and IPV6CP, IKEv2's notification, PDCP.
pub fn fuzz_rohc(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(packet) = rohc::ppp::Repr::parse(data) {
        packet.emit(&mut out);
        let again = rohc::ppp::Repr::parse(&out).expect("understood again");
        assert_eq!(again, packet);
    }
    out.clear();
    if let Ok((supported, next)) = rohc::ikev2::Supported::parse(data) {
        supported.emit(next, &mut out);
        assert_eq!(rohc::ikev2::Supported::parse(&out), Ok((supported, next)));
    }
    for sn_len in [rohc::pdcp::SnLen::Twelve, rohc::pdcp::SnLen::Eighteen] {
        out.clear();
        if let Ok(pdu) = rohc::pdcp::Pdu::parse(data, sn_len) {
            pdu.emit(sn_len, &mut out);
            assert_eq!(out, data);
        }
    }
    let icv = rohc::esp::Icv::new(rohc::esp::Integrity::HmacSha256, b"key", Some(4));
    if let Ok((packet, code)) = icv.split(data) {
        let mut sealed = packet.to_vec();
        icv.seal(packet, &mut sealed);
        assert_eq!(icv.check(packet, code).is_ok(), sealed == data);
    }
}

/// The first byte selects the trailer, and whether the CRCs are made right, which chance would not; then a frame of each kind, and
/// encapsulation packets.
pub fn fuzz_space_frame(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let trailer = tm::Trailer { has_control: first & 1 != 0, has_crc: first & 2 != 0 };
    let mut bytes = data.to_vec();
    if first & 4 != 0 && trailer.has_crc && bytes.len() >= crc::FRAME_LEN {
        let end = bytes.len() - crc::FRAME_LEN;
        let register = crc::frame(&bytes[..end]);
        bytes[end..].copy_from_slice(&register.to_be_bytes());
    }
    if let Ok((repr, field)) = tm::Repr::parse(&bytes, trailer) {
        assert_eq!(tm::Repr::buffer_len(field.len(), trailer), bytes.len());
        let mut again = bytes.clone();
        repr.emit(&mut again, trailer.has_crc);
        assert_eq!(again, bytes);
    }
    if let Ok((repr, zone)) = aos::Repr::parse(&bytes, trailer) {
        assert_eq!(aos::Repr::buffer_len(zone.len(), trailer), bytes.len());
        let mut again = bytes.clone();
        repr.emit(&mut again, trailer.has_crc);
        assert_eq!(aos::Repr::parse(&again, trailer), Ok((repr, zone)));
    }
    let mut bytes = data.to_vec();
    if first & 4 != 0 && bytes.len() >= crc::PROXIMITY_LEN {
        let end = bytes.len() - crc::PROXIMITY_LEN;
        let register = crc::proximity(&bytes[..end]);
        bytes[end..].copy_from_slice(&register.to_be_bytes());
    }
    if let Ok((repr, _)) = proximity::Repr::parse(&bytes) {
        let mut again = bytes.clone();
        repr.emit(&mut again);
        assert_eq!(again, bytes);
    }
    let mut rest = data;
    while let Ok(Some(repr)) = encapsulation::Repr::parse(rest) {
        let mut out = Vec::new();
        repr.put(&mut out);
        assert_eq!(encapsulation::Repr::parse(&out), Ok(Some(repr)));
        rest = rest.get(repr.len()..).unwrap_or_default();
    }
}

/// The first bytes are interleaving depth and length of a frame; then errors, a place and a value each.
pub fn fuzz_space_code(data: &[u8]) {
    let [depth, len, errors @ ..] = data else { return };
    let depth = 1 + usize::from(depth % 8);
    let len = depth * (1 + usize::from(*len) % reed_solomon::DATA);
    let frame: Vec<u8> = errors.iter().copied().chain(0..=255).cycle().take(len).collect();
    let mut sent = frame.clone();
    reed_solomon::encode(&mut sent, depth);
    let mut received = sent.clone();
    for error in errors.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([error[0], error[1]])) % received.len();
        received[at] ^= error[2];
    }
    let wrong = |n: usize| (n..sent.len()).step_by(depth).filter(|at| sent[*at] != received[*at]).count();
    let most = (0..depth).map(wrong).max().unwrap_or(0);
    let all: usize = (0..depth).map(wrong).sum();
    let mut decoded = received.clone();
    match reed_solomon::decode(&mut decoded, depth) {
        Ok(count) if most <= reed_solomon::CORRECTABLE => assert_eq!((count, decoded), (all, sent)),
        Ok(_) => {}
        Err(reed_solomon::Uncorrectable) => {
            assert!(most > reed_solomon::CORRECTABLE);
            assert_eq!(decoded, received);
        }
    }
    let coded = convolutional::Encoder::default().encode(&frame[..len.min(64)]);
    assert_eq!(coded.len(), 2 * len.min(64));
}
