//! Compression gain by flow.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use bentpipe_rohc::Profile;
use bentpipe_wire::{ipv4, ipv6};

use super::totals::{Method, PacketTotals, Sizes, row};

/// Source and destination of the innermost IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ends {
    source: IpAddr,
    destination: IpAddr,
    /// Source and destination port of UDP, UDP-Lite and TCP.
    ports: Option<(u16, u16)>,
}

impl Ends {
    /// Reads those of the IP packet `bytes`, compressed by `method`.
    pub(crate) fn of(bytes: &[u8], method: Method) -> Option<Ends> {
        Ends::within(bytes, method, DEPTH)
    }

    /// Reads those of the IP packet `bytes` with their ports.
    pub(crate) fn with_ports(bytes: &[u8]) -> Option<Ends> {
        Ends::within(bytes, Method::Rohc(Profile::Udp), DEPTH)
    }

    /// Reads those in tunnels up to `depth` deep.
    fn within(bytes: &[u8], method: Method, depth: u8) -> Option<Ends> {
        let cut = usize::from(u16::MAX);
        let (ends, protocol, at, is_later) = match bytes.first()? >> 4 {
            4 => {
                let packet = ipv4::Packet::new_elided(bytes, cut).ok()?;
                let addresses = (IpAddr::V4(packet.src()), IpAddr::V4(packet.dst()));
                (addresses, packet.protocol(), packet.header_len(), packet.fragment_offset() > 0)
            }
            _ => {
                let packet = ipv6::Packet::new_elided(bytes, cut).ok()?;
                let addresses = (IpAddr::V6(packet.src()), IpAddr::V6(packet.dst()));
                (addresses, packet.next_header(), ipv6::HEADER_LEN, false)
            }
        };
        if is_later {
            // Its bytes are of the middle of a datagram.
            return Some(Ends { source: ends.0, destination: ends.1, ports: None });
        }
        let rest = bytes.get(at..)?;
        let inner = if depth > 0 && matches!(protocol.0, IPV4 | IPV6) {
            Self::within(rest, method, depth - 1)
        } else {
            None
        };
        let has_ports =
            matches!(protocol.0, TCP | UDP | UDP_LITE) && method != Method::Rohc(Profile::Uncompressed);
        let ports = rest.first_chunk::<4>().filter(|_| has_ports);
        let ports = ports.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        Some(inner.unwrap_or(Ends { source: ends.0, destination: ends.1, ports }))
    }
}

const IPV4: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const UDP_LITE: u8 = 136;
/// Maximum depth of tunnels within tunnels.
const DEPTH: u8 = 7;

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ports {
            Some((source, destination)) => {
                write!(f, "{} {source} > {} {destination}", self.source, self.destination)
            }
            None => write!(f, "{} > {}", self.source, self.destination),
        }
    }
}

/// Sums of the sizes of packets by flow.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Number of flows to list.
    listed: usize,
    sums: HashMap<(Method, Option<Ends>), PacketTotals>,
}

impl Flows {
    pub(crate) fn new(listed: usize) -> Flows {
        Flows { listed, sums: HashMap::new() }
    }

    pub(crate) fn add(&mut self, ip: Option<&[u8]>, sizes: &Sizes) {
        let ends = ip.and_then(|ip| Ends::of(ip, sizes.method));
        self.sums.entry((sizes.method, ends)).or_default().add(sizes);
    }
}

impl fmt::Display for Flows {
    /// Lists the flows, those with the most header bytes first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self
            .sums
            .iter()
            .map(|((method, ends), sum)| {
                (sum, method.name(), ends.map_or("no IP".into(), |ends| ends.to_string()))
            })
            .collect();
        rows.sort_by(|one, two| {
            two.0.ip_header.cmp(&one.0.ip_header).then_with(|| (one.1, &one.2).cmp(&(two.1, &two.2)))
        });
        writeln!(f, "{} flows, those with the most header bytes first:", rows.len())?;
        for (sum, profile, ends) in rows.iter().take(self.listed) {
            row(f, profile, "", sum)?;
            writeln!(f, "  {ends}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::Form;
    use super::*;
    use bentpipe_rohc::PacketType;

    fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
        let len = (20 + rest.len()) as u8;
        [&[0x45, 0, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], rest].concat()
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut packet = ipv4(UDP, &[0, 53, 0x04, 0xd2, 0, 8, 0, 0]);
        let shown = |packet: &[u8]| Ends::with_ports(packet).map(|ends| ends.to_string());
        assert_eq!(shown(&packet).as_deref(), Some("10.0.0.1 53 > 10.0.0.2 1234"));
        packet[7] = 9;
        assert_eq!(shown(&packet).as_deref(), Some("10.0.0.1 > 10.0.0.2"));
    }

    #[test]
    fn flows_are_distinguished_by_their_ends() {
        let sizes = Sizes {
            method: Method::Rohc(Profile::Udp),
            form: Form::Rohc(PacketType::Uo0),
            ip_len: 128,
            ip_header: 28,
            kept: 0,
            rohc_len: 102,
            rohc_header: 2,
        };
        let udp = [0, 53, 0x04, 0xd2, 0, 8, 0, 0];
        let mut flows = Flows::new(2);
        flows.add(Some(&ipv4(TCP, &[])), &sizes);
        for _ in 0..3 {
            flows.add(Some(&ipv4(IPV4, &ipv4(UDP, &udp))), &sizes);
            flows.add(Some(&ipv4(UDP, &udp)), &sizes);
        }
        flows.add(Some(&[0x45, 1, 2]), &Sizes { method: Method::Rohc(Profile::Uncompressed), ..sizes });
        flows.add(None, &Sizes { method: Method::Rohc(Profile::Uncompressed), ..sizes });
        let text = flows.to_string();
        assert!(text.starts_with("3 flows,"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains(" 6 ") && lines[2] == "  10.0.0.1 53 > 10.0.0.2 1234", "{text}");
        assert_eq!(lines.len(), 5, "{text}");
    }
}
