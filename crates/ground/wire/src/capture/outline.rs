//! A captured packet in a line: from whom, to whom, what.

use crate::bbframe;
use crate::capture::link::{self, Network};
use crate::capture::pcap::LinkType;
use crate::dtn::ltp;
use crate::ethernet::{EtherType, Frame};
use crate::ip::{Packet, Protocol, Upper};
use crate::wpan::{self, Address};
use crate::{Error, arp, dccp, icmp, tcp, ts, udp, udplite};

/// UDP port of LTP (RFC 5326, section 10.1), and of SIP (RFC 3261).
const LTP_PORT: u16 = 1113;
const SIP_PORT: u16 = 5060;
/// Longest text that is taken from a payload, in bytes.
const MAX_TEXT: usize = 80;

/// Summary of a packet. No text in it is longer than 200 bytes, and none has control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Address of the sender; empty if there is none.
    pub source: String,
    /// Address of the receiver; empty if there is none.
    pub destination: String,
    /// Innermost protocol that was recognised, such as "TCP".
    pub protocol: String,
    /// Values of its header, or why it cannot be read.
    pub info: String,
}

impl Outline {
    fn new(protocol: impl ToString, info: impl Into<String>) -> Outline {
        Outline { protocol: protocol.to_string(), info: info.into(), ..Outline::default() }
    }

    fn wrong(protocol: impl ToString, error: &Error) -> Outline {
        Outline::new(protocol, format!("cannot be read: {error}"))
    }

    fn between(mut self, source: impl ToString, destination: impl ToString) -> Outline {
        (self.source, self.destination) = (source.to_string(), destination.to_string());
        self
    }
}

/// Summarises a captured packet of `original_len` bytes, of which `bytes` were kept.
///
/// The payload of UDP is recognised by its ports: LTP, SIP and the baseband frames of captures.
///
/// ```
/// use bentpipe_wire::{outline, pcap::LinkType};
/// let found = outline::outline(LinkType::RAW, &[0x45], 1);
/// assert_eq!((&found.protocol[..], found.source.is_empty()), ("IPv4", true));
/// ```
pub fn outline(link_type: LinkType, bytes: &[u8], original_len: usize) -> Outline {
    match link_type {
        LinkType::MPEG_2_TS => transport_stream(bytes),
        LinkType::IEEE802_15_4 => radio(bytes),
        LinkType::USER0 => Outline::new("private", format!("{original_len} bytes of a private link type")),
        _ => match link::network(link_type, bytes) {
            Ok(network) => in_link(link_type, bytes, network, original_len),
            Err(error) => framed(link_type, bytes, Outline::wrong("link", &error)),
        },
    }
}

/// Adds the addresses of an Ethernet frame.
fn framed(link_type: LinkType, bytes: &[u8], outline: Outline) -> Outline {
    match Frame::new_elided(bytes, usize::from(u16::MAX)) {
        Ok(frame) if link_type == LinkType::ETHERNET && outline.source.is_empty() => {
            outline.between(frame.src(), frame.dst())
        }
        _ => outline,
    }
}

fn in_link(link_type: LinkType, bytes: &[u8], network: Network<'_>, original_len: usize) -> Outline {
    let missing = original_len.saturating_sub(bytes.len());
    match network.ethertype {
        EtherType::IPV4 | EtherType::IPV6 => {
            framed(link_type, bytes, internet(network.ethertype, network.bytes, missing))
        }
        EtherType::ARP => match arp::Packet::new_checked(network.bytes) {
            Err(error) => framed(link_type, bytes, Outline::wrong("ARP", &error)),
            Ok(message) => {
                let ((mac, from), (_, to)) = (message.sender(), message.target());
                let info = match message.operation() {
                    arp::Operation::REQUEST => format!("who has {to}?"),
                    arp::Operation::REPLY => format!("{from} is at {mac}"),
                    arp::Operation(number) => format!("operation {number}"),
                };
                Outline::new("ARP", info).between(from, to)
            }
        },
        EtherType(number) => {
            framed(link_type, bytes, Outline::new(format!("EtherType 0x{number:04x}"), String::new()))
        }
    }
}

/// Summarises an IP packet, `missing` bytes of which were not captured.
fn internet(ethertype: EtherType, bytes: &[u8], missing: usize) -> Outline {
    let version = if ethertype == EtherType::IPV4 { "IPv4" } else { "IPv6" };
    let packet = match Packet::new_elided(bytes, missing) {
        Ok(packet) => packet,
        Err(error) => return Outline::wrong(version, &error),
    };
    let outline = match packet.upper() {
        Err(error) => Outline::wrong(version, &error),
        Ok(upper) if upper.is_later_fragment => {
            Outline::new(upper.protocol, format!("later fragment, {} bytes", upper.len()))
        }
        Ok(upper) => transport(&upper).unwrap_or_else(|error| Outline::wrong(upper.protocol, &error)),
    };
    outline.between(packet.src(), packet.dst())
}

fn transport(upper: &Upper<'_>) -> Result<Outline, Error> {
    // A first fragment has less than its header says.
    let elided = if upper.is_fragment { usize::from(u16::MAX) } else { upper.elided };
    let info = match upper.protocol {
        Protocol::TCP => segment(&tcp::Segment::new_elided(upper.bytes, upper.elided)?),
        Protocol::UDP => return datagram(upper, elided),
        Protocol::UDP_LITE => {
            let datagram = udplite::Datagram::new_elided(upper.bytes, upper.elided)?;
            format!("{} \u{2192} {}", datagram.src_port(), datagram.dst_port())
        }
        Protocol::DCCP => {
            let packet = dccp::Packet::new_elided(upper.bytes, upper.elided)?;
            let (from, to) = (packet.src_port(), packet.dst_port());
            format!("{from} \u{2192} {to} {:?}, seq {}", packet.kind(), packet.sequence())
        }
        Protocol::ICMP => icmp_v4(&icmp::Message::new_elided(upper.bytes, upper.elided)?),
        Protocol::ICMPV6 => icmp_v6(&icmp::Message::new_elided(upper.bytes, upper.elided)?),
        Protocol::IPV4 | Protocol::IPV6 => {
            let inner = Packet::new_elided(upper.bytes, upper.elided)?;
            let what = inner.upper().map_or(Protocol::NO_NEXT_HEADER, |upper| upper.protocol);
            format!("carries {} \u{2192} {} {what}", inner.src(), inner.dst())
        }
        _ => format!("{} bytes", upper.len()),
    };
    Ok(Outline::new(upper.protocol, info))
}

fn segment(segment: &tcp::Segment<&[u8]>) -> String {
    const NAMES: [(tcp::Flags, &str); 6] = [
        (tcp::Flags::SYN, "SYN"),
        (tcp::Flags::FIN, "FIN"),
        (tcp::Flags::RST, "RST"),
        (tcp::Flags::PSH, "PSH"),
        (tcp::Flags::ECE, "ECE"),
        (tcp::Flags::CWR, "CWR"),
    ];
    let flags = segment.flags();
    let names: Vec<&str> =
        NAMES.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
    let names = if names.is_empty() { String::new() } else { format!(" {}", names.join(" ")) };
    let ack = segment.ack().map(|ack| format!(", ack {ack}")).unwrap_or_default();
    format!(
        "{} \u{2192} {}{names}, seq {}{ack}, window {}, {} bytes",
        segment.src_port(),
        segment.dst_port(),
        segment.seq(),
        segment.window(),
        segment.payload_len()
    )
}

fn datagram(upper: &Upper<'_>, elided: usize) -> Result<Outline, Error> {
    let datagram = udp::Datagram::new_elided(upper.bytes, elided)?;
    let ports = [datagram.src_port(), datagram.dst_port()];
    let payload = datagram.payload();
    let known = match ports {
        ports if ports.contains(&LTP_PORT) => ltp::Segment::parse(payload).ok().map(|found| bundles(&found)),
        ports if ports.contains(&SIP_PORT) => first_line(payload).map(|line| Outline::new("SIP", line)),
        ports if ports.contains(&bbframe::CAPTURE_PORT) => baseband(payload),
        _ => None,
    };
    let [from, to] = ports;
    let plain = || {
        Outline::new(
            upper.protocol,
            format!("{from} \u{2192} {to}, {} bytes", datagram.len().saturating_sub(8)),
        )
    };
    Ok(known.unwrap_or_else(plain))
}

fn bundles(segment: &ltp::Segment<'_>) -> Outline {
    let info = match &segment.content {
        ltp::Content::Data(data, bytes) => {
            let colour = if data.is_green { "green" } else { "red" };
            let checkpoint = if data.checkpoint.is_some() { ", checkpoint" } else { "" };
            format!(
                "{colour} data {} to {}{checkpoint}",
                data.offset,
                data.offset.saturating_add(bytes.len() as u64)
            )
        }
        ltp::Content::Report(report) => {
            format!("report {} to {}, {} claims", report.lower, report.upper, report.claims.len())
        }
        ltp::Content::ReportAck(serial) => format!("acknowledgement of report {serial}"),
        ltp::Content::CancelBySender(reason) => format!("cancelled by the sender: {reason:?}"),
        ltp::Content::SenderCancelAck | ltp::Content::ReceiverCancelAck => {
            "acknowledgement of a cancellation".to_owned()
        }
        ltp::Content::CancelByReceiver(reason) => format!("cancelled by the receiver: {reason:?}"),
    };
    let session = segment.session;
    Outline::new("LTP", format!("session {}/{}, {info}", session.engine, session.number))
}

/// Returns the start of the first line of a text, in printable ASCII.
fn first_line(payload: &[u8]) -> Option<String> {
    let line: String = payload
        .iter()
        .take(MAX_TEXT)
        .take_while(|byte| !matches!(byte, b'\r' | b'\n'))
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
        .collect();
    (!line.trim().is_empty()).then_some(line)
}

fn baseband(payload: &[u8]) -> Option<Outline> {
    let adaptation = bbframe::Adaptation::parse(payload).ok()?;
    let Some(modcod) = adaptation.modcod else { return Some(Outline::new("BBFRAME", "dummy frame")) };
    let header = bbframe::Repr::parse(payload.get(bbframe::ADAPTATION_LEN..)?).ok()?;
    let info = format!("{modcod}, {:?}, data field of {} bytes", header.stream, header.data_field_len);
    Some(Outline::new("BBFRAME", info))
}

fn icmp_v4(message: &icmp::Message<&[u8]>) -> String {
    use icmp::v4::Repr;
    match Repr::parse(message) {
        Repr::EchoRequest { ident, seq } => format!("echo request, id {ident}, seq {seq}"),
        Repr::EchoReply { ident, seq } => format!("echo reply, id {ident}, seq {seq}"),
        Repr::DestinationUnreachable { code, .. } => format!("destination unreachable, code {code}"),
        Repr::TimeExceeded { code } => format!("time exceeded, code {code}"),
        Repr::ParameterProblem { code, pointer } => format!("parameter problem, code {code}, byte {pointer}"),
        Repr::Other { kind, code, .. } => format!("type {kind}, code {code}"),
    }
}

fn icmp_v6(message: &icmp::Message<&[u8]>) -> String {
    use icmp::v6::Repr;
    match Repr::parse(message) {
        Repr::EchoRequest { ident, seq } => format!("echo request, id {ident}, seq {seq}"),
        Repr::EchoReply { ident, seq } => format!("echo reply, id {ident}, seq {seq}"),
        Repr::DestinationUnreachable { code } => format!("destination unreachable, code {code}"),
        Repr::PacketTooBig { mtu } => format!("packet too big, MTU {mtu}"),
        Repr::TimeExceeded { code } => format!("time exceeded, code {code}"),
        Repr::ParameterProblem { code, pointer } => format!("parameter problem, code {code}, byte {pointer}"),
        Repr::Other { kind, code, .. } => format!("type {kind}, code {code}"),
    }
}

fn transport_stream(bytes: &[u8]) -> Outline {
    match ts::Packet::new_checked(bytes) {
        Err(error) => Outline::wrong("MPEG-TS", &error),
        Ok(packet) => {
            let start = if packet.unit_start() { ", unit starts" } else { "" };
            let damaged = if packet.has_error() { ", damaged" } else { "" };
            let pid = packet.pid().number();
            Outline::new("MPEG-TS", format!("PID 0x{pid:x}, count {}{start}{damaged}", packet.continuity()))
        }
    }
}

fn radio(bytes: &[u8]) -> Outline {
    let frame = match wpan::Frame::new_checked(bytes) {
        Ok(frame) => frame,
        Err(error) => return Outline::wrong("802.15.4", &error),
    };
    let header = frame.header();
    let name = |end: Option<wpan::Endpoint>| match end.map(|end| end.address) {
        None => String::new(),
        Some(Address::BROADCAST) => "all".to_owned(),
        Some(Address::Short(address)) => format!("0x{address:04x}"),
        Some(Address::Extended(address)) => format!("{address:016x}"),
    };
    let info = format!("{:?}, seq {}, {} bytes", header.frame_type, header.sequence, frame.payload().len());
    Outline::new("802.15.4", info).between(name(header.source), name(header.destination))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Repr as IpRepr;
    use proptest::prelude::*;

    fn packet(protocol: Protocol, content: &[u8]) -> Vec<u8> {
        let header =
            IpRepr::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), protocol, content.len());
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes);
        bytes.extend(content);
        bytes
    }

    fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let mut content = vec![0; 8];
        udp::Repr { src_port: ports[0], dst_port: ports[1], payload_len: payload.len() }.emit(&mut content);
        content.extend(payload);
        packet(Protocol::UDP, &content)
    }

    #[test]
    fn packets_in_lines() {
        let mut repr = tcp::Repr::new(40_000, 5001, tcp::SeqNumber(7));
        repr.flags = tcp::Flags::SYN;
        let mut content = vec![0; repr.buffer_len()];
        repr.emit(&mut content);
        let bytes = packet(Protocol::TCP, &content);
        let line = outline(LinkType::RAW, &bytes, bytes.len());
        assert_eq!(
            (&line.source[..], &line.destination[..], &line.protocol[..]),
            ("10.0.0.1", "10.0.0.2", "TCP")
        );
        assert!(line.info.starts_with("40000 \u{2192} 5001 SYN, seq 7"), "{}", line.info);
        let bytes = udp([1, 2], &[0; 100]);
        assert_eq!(outline(LinkType::RAW, &bytes, bytes.len()).info, "1 \u{2192} 2, 100 bytes");
        // Of a packet cut by a snapshot the lengths are those on the link.
        assert_eq!(outline(LinkType::RAW, &bytes[..40], bytes.len()).info, "1 \u{2192} 2, 100 bytes");
        let segment =
            ltp::Segment::new(ltp::SessionId { engine: 1, number: 5 }, ltp::Content::ReportAck(9)).to_vec();
        let bytes = udp([1113, 1113], &segment);
        let line = outline(LinkType::RAW, &bytes, bytes.len());
        assert_eq!((&line.protocol[..], &line.info[..]), ("LTP", "session 1/5, acknowledgement of report 9"));
    }

    #[test]
    fn text_of_a_stranger_is_short_and_printable() {
        let hostile = [b"INVITE <script>\x1b[31m\xff\0".as_slice(), &[b'x'; 5000]].concat();
        let bytes = udp([5060, 5060], &hostile);
        let line = outline(LinkType::RAW, &bytes, bytes.len());
        assert_eq!(line.protocol, "SIP");
        assert!(line.info.starts_with("INVITE <script>.[31m..xxx") && line.info.len() == MAX_TEXT);
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_line(
            number in prop::sample::select(vec![0_u16, 1, 9, 101, 113, 147, 195, 197, 243, 276]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            more in 0_usize..2000,
        ) {
            let line = outline(LinkType(number), &bytes, bytes.len() + more);
            for text in [&line.source, &line.destination, &line.protocol, &line.info] {
                prop_assert!(text.len() <= 200 && !text.chars().any(char::is_control), "{text:?}");
            }
        }
    }
}
