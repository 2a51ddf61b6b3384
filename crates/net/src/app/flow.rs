//! What a flow's packets look like: addresses, headers, and the number each packet carries.

use std::net::SocketAddr;

use bentpipe_units::Time;
use bentpipe_wire::checksum::{Pseudo, Sum};
use bentpipe_wire::ip::{self, Protocol, TrafficClass};
use bentpipe_wire::{rtp, udp};

use crate::{Impossible, Packet};

/// Both ends of a source's first flow; flow i has both ports higher by i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The sending end.
    pub source: SocketAddr,
    /// The receiving end, of the same IP version.
    pub destination: SocketAddr,
}

/// The real bytes at the beginning of a payload, which number the packets. The rest of the payload is zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Header {
    /// A sequence number of 32 bits: 4 bytes.
    #[default]
    Sequence,
    /// A fixed RTP header (RFC 3550, section 5.1): 12 bytes, with a sequence number of 16 bits, a timestamp that counts
    /// 8000 a second, and the flow's number as SSRC; payload type 96.
    Rtp,
}

/// How the identification of IPv4 packets is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Identification {
    /// Zero: packets are not fragmented (RFC 6864, section 4.1).
    #[default]
    Zero,
    /// Each flow counts its packets.
    Flow,
    /// The host counts the packets of all flows together, so that each flow sees strides.
    Host,
}

/// Version 2, no padding, extension or CSRC, no marker, and the first dynamic payload type (RFC 3551, section 6).
const RTP_FIRST: u64 = 0x8060;
/// The clock of narrow-band audio, 8 kHz (RFC 3551, section 4.5).
const RTP_TICK_NS: u64 = 125_000;

impl Header {
    /// Its length in bytes.
    pub const fn len_bytes(self) -> usize {
        match self {
            Header::Sequence => 4,
            Header::Rtp => rtp::HEADER_LEN,
        }
    }

    /// How many bits its sequence numbers have.
    pub(super) const fn sequence_bits(self) -> u32 {
        match self {
            Header::Sequence => 32,
            Header::Rtp => 16,
        }
    }

    /// The sequence number in a payload that starts with `bytes`.
    #[inline]
    pub(super) fn sequence(self, bytes: &[u8]) -> Option<u32> {
        match self {
            Header::Sequence => Some(u32::from_be_bytes(*bytes.first_chunk()?)),
            Header::Rtp => rtp::Packet::new_checked(bytes).ok().map(|rtp| rtp.seq().into()),
        }
    }

    /// The SSRC in a payload that starts with `bytes`, if it is RTP.
    pub(super) fn source(self, bytes: &[u8]) -> Option<u32> {
        let rtp = (self == Header::Rtp).then(|| rtp::Packet::new_checked(bytes).ok());
        rtp.flatten().map(|rtp| rtp.ssrc())
    }

    /// Writes it and adds it to `sum`, which saves reading back what was just written. `bytes` has its length.
    #[inline]
    fn emit(self, bytes: &mut [u8], flow: u32, number: u64, now: Time, sum: Sum) -> Sum {
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

/// Makes the packets of one source's flows from a template; a packet costs the bytes that differ.
#[derive(Debug)]
pub(crate) struct Template {
    headers: [u8; 60],
    /// IP and UDP header, in bytes.
    headers_len: usize,
    header: Header,
    zeros: u32,
    ports: (u16, u16),
    /// Whether all flows have the ports of the first.
    shares_ports: bool,
    /// The UDP checksum's sum over pseudo-header and length.
    sum: Sum,
}

impl Template {
    /// Packets between `endpoints` with `payload_len` bytes in UDP.
    pub(crate) fn new(
        endpoints: Endpoints,
        payload_len: usize,
        header: Header,
        dscp: u8,
    ) -> Result<Template, Impossible> {
        let (source, destination) = (endpoints.source, endpoints.destination);
        Impossible::unless(
            source.is_ipv4() == destination.is_ipv4(),
            "to",
            "an address of the same IP version",
        )?;
        Impossible::unless(payload_len <= 65_000, "payload", "at most \"65000 B\"")?;
        Impossible::unless(payload_len >= header.len_bytes(), "payload", "room for the header chosen")?;
        Impossible::unless(dscp < 64, "dscp", "a codepoint from 0 to 63")?;
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

    /// The same with the ports of the first flow in all of them.
    pub(crate) fn sharing_ports(self, shares_ports: bool) -> Template {
        Template { shares_ports, ..self }
    }

    /// The length of each packet in bytes.
    pub(crate) fn packet_len(&self) -> usize {
        self.headers_len + self.header.len_bytes() + self.zeros as usize
    }

    /// Packet `number` of `flow`, sent at `now`.
    #[inline]
    pub(crate) fn packet(&self, flow: u32, number: u64, now: Time) -> Packet {
        let real = self.headers_len + self.header.len_bytes();
        let mut packet = Packet::new(real, self.zeros);
        packet.set_born(now);
        let bytes = packet.header_mut();
        let (headers, payload) = bytes.split_at_mut(self.headers_len);
        headers.copy_from_slice(&self.headers[..self.headers_len]);
        let above = if self.shares_ports { 0 } else { flow as u16 };
        let ports = (self.ports.0.wrapping_add(above), self.ports.1.wrapping_add(above));
        let sum = self.sum.add(ports.0.into()).add(ports.1.into());
        let sum = self.header.emit(payload, flow, number, now, sum);
        let udp_at = self.headers_len - udp::HEADER_LEN;
        self.emit_udp(&mut headers[udp_at..], ports, sum);
        packet
    }

    #[inline]
    fn emit_udp(&self, udp: &mut [u8], ports: (u16, u16), sum: Sum) {
        let payload_len = self.header.len_bytes() + self.zeros as usize;
        udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len }.emit(udp);
        // Zero means that there is no checksum; its other form is sent (RFC 768).
        let checksum = if sum.checksum() == 0 { 0xffff } else { sum.checksum() };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
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
                assert_eq!((udp.src_port(), udp.dst_port(), udp.payload_len()), (5007, 6007, 45));
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
