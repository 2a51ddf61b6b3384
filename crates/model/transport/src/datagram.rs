//! Datagrams as transports over IP put them together and take them apart.

use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{InvalidConfig, Packet};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Protocol, TrafficClass};
use bentpipe_wire::ipv6::ext::OptionsRepr;
use bentpipe_wire::quick_start::{self, IpOption};
use bentpipe_wire::{ipv4, ipv6};

use crate::checksum;

/// Addresses and marking of a conversation's datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    class: TrafficClass,
}

/// The hop limit that packets are sent with.
pub(crate) const HOP_LIMIT: u8 = 64;

impl Path {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr, dscp: u8) -> Result<Path, InvalidConfig> {
        let same = local.is_ipv4() == remote.is_ipv4();
        InvalidConfig::ensure(same, "to", "an address of the same IP version")?;
        InvalidConfig::ensure(dscp < 64, "dscp", "a codepoint from 0 to 63")?;
        Ok(Path { local, remote, class: TrafficClass(dscp << 2) })
    }

    /// Returns the pseudo-header part of a transport checksum.
    pub(crate) fn pseudo(&self, protocol: Protocol) -> Pseudo {
        Pseudo::new(self.local.ip(), self.remote.ip(), protocol)
    }

    /// Returns a packet of transport header bytes and elided zeros, with any Quick-Start option.
    pub(crate) fn packet(
        &self,
        protocol: Protocol,
        option: Option<&IpOption>,
        transport: &[u8],
        zeros: u32,
    ) -> Packet {
        let carried = transport.len() + zeros as usize;
        let headers = match (self.local.ip(), self.remote.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let options = option.map_or(ipv4::Options::EMPTY, |option| {
                    ipv4::Options::parse(&option.ipv4()).expect("a well-formed option")
                });
                let repr = ipv4::Repr::new(src, dst, protocol, carried);
                let repr = ipv4::Repr { options, ttl: HOP_LIMIT, traffic_class: self.class, ..repr };
                let mut headers = vec![0; repr.buffer_len()];
                repr.emit(&mut headers);
                headers
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.headers_v6((src, dst), protocol, option, carried),
            _ => unreachable!("checked when the path was made"),
        };
        let mut packet = Packet::new(headers.len() + transport.len(), zeros);
        let (ip, rest) = packet.header_mut().split_at_mut(headers.len());
        ip.copy_from_slice(&headers);
        rest.copy_from_slice(transport);
        packet
    }

    fn headers_v6(
        &self,
        (src, dst): (std::net::Ipv6Addr, std::net::Ipv6Addr),
        protocol: Protocol,
        option: Option<&IpOption>,
        carried: usize,
    ) -> Vec<u8> {
        let data = option.map(IpOption::data);
        let options: Vec<(u8, &[u8])> =
            data.iter().map(|data| (quick_start::IPV6_OPTION, &data[..])).collect();
        let hop_by_hop = OptionsRepr { next: protocol, options: &options };
        let extra = if option.is_some() { hop_by_hop.buffer_len() } else { 0 };
        let next = if extra > 0 { Protocol::HOP_BY_HOP } else { protocol };
        let repr = ipv6::Repr::new(src, dst, next, carried + extra);
        let repr = ipv6::Repr { hop_limit: HOP_LIMIT, traffic_class: self.class, ..repr };
        let mut headers = vec![0; ipv6::HEADER_LEN + extra];
        repr.emit(&mut headers);
        if extra > 0 {
            hop_by_hop.emit(&mut headers[ipv6::HEADER_LEN..]);
        }
        headers
    }
}

/// Reason for which an endpoint rejects a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadChecksum,
    Unexpected,
}

/// Transport part of an IP packet with verified checksum, and its Quick-Start fields.
pub(crate) struct Arrived<'a> {
    /// The transport part's bytes that are there.
    pub(crate) bytes: &'a [u8],
    /// Number of elided zeros after the bytes.
    pub(crate) elided: usize,
    pub(crate) source: IpAddr,
    /// Offset in the packet behind the transport part.
    pub(crate) end: usize,
    hop_limit: u8,
    option: Option<IpOption>,
}

impl<'a> Arrived<'a> {
    /// Reads a packet of `protocol` whose transport checksum covers everything.
    pub(crate) fn read(packet: &'a Packet, protocol: Protocol) -> Result<Arrived<'a>, Refusal> {
        let header = packet.header();
        let ip =
            ip::Packet::new_elided(header, packet.len() - header.len()).map_err(|_| Refusal::Unexpected)?;
        let upper = ip.upper().map_err(|_| Refusal::Unexpected)?;
        if upper.protocol != protocol || upper.is_fragment {
            return Err(Refusal::Unexpected);
        }
        if !checksum::sum(packet, upper.offset, upper.len(), &upper.pseudo).is_valid() {
            return Err(Refusal::BadChecksum);
        }
        Ok(Arrived {
            bytes: &header[upper.offset..upper.offset + upper.bytes.len()],
            elided: upper.elided,
            source: ip.src(),
            end: upper.offset + upper.len(),
            hop_limit: ip.hop_limit(),
            option: quick_start::find(header).map(|(_, option)| option),
        })
    }

    /// Returns the response to the Quick-Start request in the packet.
    pub(crate) fn quick_start_response(&self) -> Option<quick_start::Response> {
        let request = self.option.filter(|option| option.function == quick_start::Function::Request)?;
        Some(quick_start::Response::to(&request, self.hop_limit))
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::quick_start::{Function, RateCode};
    use bentpipe_wire::tcp;

    use super::*;
    use bentpipe_net::LONGEST_HEADERS;

    #[test]
    fn there_is_room_for_the_longest_headers() {
        let option =
            IpOption { function: Function::Report, rate: RateCode::at_least(1_000_000), ttl: 0, nonce: 1 };
        let mut transport = [0; tcp::MAX_HEADER_LEN];
        // A checksum that is right is all that is asked of it here.
        let longest = |transport: &[u8]| {
            let [local, remote] =
                ["[2001:db8::1]:1", "[2001:db8::2]:2"].map(|address| address.parse().unwrap());
            let path = Path::new(local, remote, 0).unwrap();
            path.packet(Protocol::TCP, Some(&option), transport, 100)
        };
        let checksum = (0..=u16::MAX).find(|checksum| {
            transport[16..18].copy_from_slice(&checksum.to_be_bytes());
            Arrived::read(&longest(&transport), Protocol::TCP).is_ok()
        });
        assert!(checksum.is_some());
        let mut packet = longest(&transport);
        assert_eq!((packet.header().len(), packet.len()), (LONGEST_HEADERS, LONGEST_HEADERS + 100));
        let arrived = Arrived::read(&packet, Protocol::TCP).unwrap();
        assert_eq!((arrived.bytes, arrived.option), (&transport[..], Some(option)));
        packet.prepend(LONGEST_HEADERS);
        assert_eq!(packet.len(), 2 * LONGEST_HEADERS + 100);
    }
}
