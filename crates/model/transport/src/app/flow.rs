//! Packets of a flow: addresses, headers, and the number of each packet.

use std::net::SocketAddr;

use bentpipe_net::{InvalidConfig, Packet};
use bentpipe_units::Time;
use bentpipe_wire::checksum::{Accumulator, Pseudo};
use bentpipe_wire::ip::{self, Protocol, TrafficClass};
use bentpipe_wire::{rtp, udp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Both ends of a source's first flow. Ports of the next are higher by [`Header::port_step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The sending end.
    pub source: SocketAddr,
    /// The receiving end, of the same IP version.
    pub destination: SocketAddr,
}

/// The real bytes at the beginning of a payload, which number the packets. The rest of the payload is zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Header {
    /// A sequence number of 32 bits: 4 bytes.
    #[default]
    Sequence,
    /// Fixed RTP header (RFC 3550, section 5.1), 12 bytes. It has a 16-bit sequence number, a timestamp of
    /// 8000 ticks per second, the flow's number as SSRC and payload type 96.
    Rtp,
}

/// Choice of the identification field of IPv4 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Identification {
    /// Zero: packets are not fragmented (RFC 6864, section 4.1).
    #[default]
    Zero,
    /// Each flow counts its packets.
    Flow,
    /// The host counts the packets of all flows together, so that each flow sees strides.
    Host,
}

/// Version 2, no padding, extension, CSRC or marker, first dynamic payload type. RFC 3551, section 6.
const RTP_FIRST: u64 = 0x8060;
/// The clock of narrow-band audio, 8 kHz (RFC 3551, section 4.5).
const RTP_TICK_NS: u64 = 125_000;
/// The same in Hz.
pub(super) const RTP_CLOCK_HZ: u32 = (1_000_000_000 / RTP_TICK_NS) as u32;

impl Header {
    /// Returns the length in bytes.
    pub const fn len_bytes(self) -> usize {
        match self {
            Header::Sequence => 4,
            Header::Rtp => rtp::HEADER_LEN,
        }
    }

    /// Returns the distance of the ports of two flows.
    ///
    /// RTP takes even ports and leaves the next higher ones to RTCP (RFC 3550, section 11).
    pub const fn port_step(self) -> u16 {
        match self {
            Header::Sequence => 1,
            Header::Rtp => 2,
        }
    }

    /// Returns the number of bits of the sequence number.
    pub(super) const fn sequence_bits(self) -> u32 {
        match self {
            Header::Sequence => 32,
            Header::Rtp => 16,
        }
    }

    /// Returns the sequence number in a payload that starts with `bytes`.
    #[inline]
    pub(super) fn sequence(self, bytes: &[u8]) -> Option<u32> {
        match self {
            Header::Sequence => Some(u32::from_be_bytes(*bytes.first_chunk()?)),
            Header::Rtp => rtp::Packet::new_checked(bytes).ok().map(|rtp| rtp.seq().into()),
        }
    }

    /// Returns the SSRC in a payload that starts with `bytes`, if it is RTP.
    pub(super) fn source(self, bytes: &[u8]) -> Option<u32> {
        let rtp = (self == Header::Rtp).then(|| rtp::Packet::new_checked(bytes).ok());
        rtp.flatten().map(|rtp| rtp.ssrc())
    }

    /// Writes the header to `bytes`, which has its length, and adds it to `sum`.
    ///
    /// The addition saves reading the bytes again.
    #[inline]
    fn emit(self, bytes: &mut [u8], flow: u32, number: u64, now: Time, sum: Accumulator) -> Accumulator {
        match self {
            Header::Sequence => {
                bytes.copy_from_slice(&(number as u32).to_be_bytes());
                sum.add(u64::from(number as u32))
            }
            Header::Rtp => {
                let ticks = (now.as_nanos() / RTP_TICK_NS) as u32;
                let fixed = RTP_FIRST << 48 | u64::from(number as u16) << 32 | u64::from(ticks);
                bytes[..8].copy_from_slice(&fixed.to_be_bytes());
                bytes[8..].copy_from_slice(&flow.to_be_bytes());
                sum.add(fixed).add(flow.into())
            }
        }
    }
}

/// Packet template of one source's flows. A packet costs only the bytes that differ.
#[derive(Debug)]
pub struct Template {
    headers: [u8; 60],
    /// IP and UDP header, in bytes.
    headers_len: usize,
    header: Header,
    zeros: u32,
    ports: (u16, u16),
    /// Set if all flows have the ports of the first.
    shares_ports: bool,
    /// The UDP checksum's sum over pseudo-header and length.
    sum: Accumulator,
}

impl Template {
    /// Packets between `endpoints` with `payload_len` bytes in UDP.
    pub fn new(
        endpoints: Endpoints,
        payload_len: usize,
        header: Header,
        dscp: u8,
    ) -> Result<Template, InvalidConfig> {
        let (source, destination) = (endpoints.source, endpoints.destination);
        InvalidConfig::ensure(
            source.is_ipv4() == destination.is_ipv4(),
            "to",
            "an address of the same IP version",
        )?;
        InvalidConfig::ensure(payload_len <= 65_000, "payload", "at most \"65000 B\"")?;
        InvalidConfig::ensure(payload_len >= header.len_bytes(), "payload", "room for the header chosen")?;
        InvalidConfig::ensure(dscp < 64, "dscp", "a codepoint from 0 to 63")?;
        let udp_len = udp::HEADER_LEN + payload_len;
        let ip = ip_header(endpoints, udp_len, TrafficClass(dscp << 2));
        let mut template = Template {
            headers: [0; 60],
            headers_len: ip.buffer_len() + udp::HEADER_LEN,
            header,
            zeros: (payload_len - header.len_bytes()) as u32,
            ports: (source.port(), destination.port()),
            shares_ports: false,
            sum: Pseudo::new(source.ip(), destination.ip(), Protocol::UDP).sum(udp_len).add(udp_len as u64),
        };
        ip.emit(&mut template.headers);
        Ok(template)
    }

    /// Sets `shares_ports`: all flows have the ports of the first.
    pub fn sharing_ports(self, shares_ports: bool) -> Template {
        Template { shares_ports, ..self }
    }

    /// Returns the length of each packet in bytes.
    pub fn packet_len(&self) -> usize {
        self.headers_len + self.header.len_bytes() + self.zeros as usize
    }

    /// Returns the length of each payload in bytes.
    pub fn payload_len(&self) -> usize {
        self.header.len_bytes() + self.zeros as usize
    }

    /// Returns packet `number` of `flow`, sent at `now`.
    #[inline]
    pub fn packet(&self, flow: u32, number: u64, now: Time) -> Packet {
        let real = self.headers_len + self.header.len_bytes();
        let mut packet = Packet::new(real, self.zeros);
        packet.set_created_at(now);
        let bytes = packet.header_mut();
        let (headers, payload) = bytes.split_at_mut(self.headers_len);
        headers.copy_from_slice(&self.headers[..self.headers_len]);
        let above = if self.shares_ports { 0 } else { (flow as u16).wrapping_mul(self.header.port_step()) };
        let ports = (self.ports.0.wrapping_add(above), self.ports.1.wrapping_add(above));
        let sum = self.sum.add(ports.0.into()).add(ports.1.into());
        let sum = self.header.emit(payload, flow, number, now, sum);
        let udp_at = self.headers_len - udp::HEADER_LEN;
        self.emit_udp(&mut headers[udp_at..], ports, sum);
        packet
    }

    #[inline]
    fn emit_udp(&self, udp: &mut [u8], ports: (u16, u16), sum: Accumulator) {
        let payload_len = self.header.len_bytes() + self.zeros as usize;
        udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len }.emit(udp);
        // Zero means no checksum; its other form is sent (RFC 768).
        let checksum = if sum.checksum() == 0 { 0xffff } else { sum.checksum() };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns a whole UDP datagram in its IP packet.
pub fn datagram(endpoints: Endpoints, payload: &[u8]) -> Vec<u8> {
    let ports = (endpoints.source.port(), endpoints.destination.port());
    let udp = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() };
    let ip = ip_header(endpoints, udp.buffer_len() + payload.len(), TrafficClass::default());
    let mut bytes = vec![0; ip.buffer_len() + udp.buffer_len() + payload.len()];
    let (header, rest) = bytes.split_at_mut(ip.buffer_len());
    ip.emit(header);
    udp.emit(rest);
    rest[udp.buffer_len()..].copy_from_slice(payload);
    let pseudo = Pseudo::new(endpoints.source.ip(), endpoints.destination.ip(), Protocol::UDP);
    udp::Datagram::new_unchecked(rest).fill_checksum(&pseudo);
    bytes
}

/// Returns a packet of a whole UDP datagram.
pub fn datagram_packet(endpoints: Endpoints, payload: Vec<u8>) -> Packet {
    let ports = (endpoints.source.port(), endpoints.destination.port());
    let udp = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() };
    let len = udp.buffer_len() + payload.len();
    let ip = ip_header(endpoints, len, TrafficClass::default());
    let mut bytes = [0; 60];
    let (header, rest) = bytes.split_at_mut(ip.buffer_len());
    let rest = &mut rest[..udp::HEADER_LEN];
    ip.emit(header);
    udp.emit(rest);
    let pseudo = Pseudo::new(endpoints.source.ip(), endpoints.destination.ip(), Protocol::UDP);
    let checksum = pseudo.sum(len).add_bytes(rest).add_bytes(&payload).checksum();
    // Zero means no checksum; its other form is sent (RFC 768).
    let checksum = if checksum == 0 { 0xffff } else { checksum };
    rest[6..8].copy_from_slice(&checksum.to_be_bytes());
    Packet::from_parts(&bytes[..ip.buffer_len() + udp::HEADER_LEN], payload)
}

fn ip_header(endpoints: Endpoints, payload_len: usize, class: TrafficClass) -> ip::Repr {
    let (source, destination) = (endpoints.source.ip(), endpoints.destination.ip());
    match ip::Repr::new(source, destination, Protocol::UDP, payload_len) {
        ip::Repr::V4(repr) => ip::Repr::V4(bentpipe_wire::ipv4::Repr { traffic_class: class, ..repr }),
        ip::Repr::V6(repr) => ip::Repr::V6(bentpipe_wire::ipv6::Repr { traffic_class: class, ..repr }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_valid_udp() {
        for (from, to) in [("10.0.0.1:5000", "10.0.0.2:6000"), ("[2001:db8::1]:5000", "[2001:db8::2]:6000")] {
            let endpoints =
                Endpoints { source: from.parse().expect("from"), destination: to.parse().expect("to") };
            for header in [Header::Sequence, Header::Rtp] {
                let template = Template::new(endpoints, 45, header, 46).expect("fine");
                let packet = template.packet(7, 0x1_2345, Time::from_nanos(1_000_000_000));
                assert_eq!(packet.len(), template.packet_len());
                let bytes = packet.to_vec();
                let ip = ip::Packet::new_checked(&bytes[..]).expect("IP");
                assert_eq!((ip.total_len(), ip.traffic_class().dscp()), (bytes.len(), 46));
                let upper = ip.upper().expect("no extension");
                let udp = udp::Datagram::new_checked(upper.bytes).expect("UDP");
                udp.verify_checksum(&upper.pseudo).expect("a checksum");
                let above = 7 * header.port_step();
                assert_eq!(
                    (udp.src_port(), udp.dst_port(), udp.payload_len()),
                    (5000 + above, 6000 + above, 45)
                );
                let wanted = if header == Header::Rtp { 0x2345 } else { 0x1_2345 };
                assert_eq!(header.sequence(udp.payload()), Some(wanted));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let ends = |to: &str| Endpoints {
            source: "10.0.0.1:1".parse().expect("from"),
            destination: to.parse().expect("to"),
        };
        let key =
            |to, len, dscp| Template::new(ends(to), len, Header::Rtp, dscp).err().map(|error| error.key);
        assert_eq!(key("10.0.0.2:1", 12, 0), None);
        assert_eq!(key("[::1]:1", 12, 0), Some("to"));
        assert_eq!(key("10.0.0.2:1", 11, 0), Some("payload"));
        assert_eq!(key("10.0.0.2:1", 12, 64), Some("dscp"));
    }
}
