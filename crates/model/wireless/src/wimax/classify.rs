//! Classifier of packets: the service flow that carries each (802.16-2004, 5.2).

use bentpipe_net::Packet;
use bentpipe_wire::ip::{self, Protocol};

use super::config::{Payload, ServiceFlow};

impl Payload {
    /// Returns what the bytes of a datagram say (RFC 5761, section 4).
    fn of(datagram: &[u8]) -> Option<Payload> {
        match datagram {
            [version, kind, ..] if version >> 6 == 2 => {
                Some(if (192..224).contains(kind) { Payload::Rtcp } else { Payload::Rtp })
            }
            _ => None,
        }
    }
}

/// Ports and payload of a packet, as far as its first bytes have them.
struct Upper {
    ports: [u16; 2],
    payload: Option<Payload>,
}

impl Upper {
    /// Reads UDP, TCP and other transports whose header begins with the ports. Later fragments have none.
    fn of(packet: &Packet) -> Option<Upper> {
        const UDP_HEADER: usize = 8;
        let header = packet.header();
        let parsed = ip::Packet::new_elided(header, packet.len().saturating_sub(header.len())).ok()?;
        let upper = parsed.upper().ok()?;
        let has_ports = [Protocol::UDP, Protocol::TCP].contains(&upper.protocol);
        let &[a, b, c, d, ..] = upper.bytes else { return None };
        if !has_ports || upper.is_fragment {
            return None;
        }
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let content = upper.bytes.get(UDP_HEADER..).filter(|_| upper.protocol == Protocol::UDP);
        Some(Upper { ports, payload: content.and_then(Payload::of) })
    }
}

/// Returns the DSCP of an IP packet.
fn dscp_of(packet: &Packet) -> u8 {
    match packet.header() {
        [first, class, ..] if first >> 4 == 4 => class >> 2,
        [first, second, ..] if first >> 4 == 6 => (first << 4 | second >> 4) >> 2,
        _ => 0,
    }
}

impl ServiceFlow {
    /// Returns `true` if it takes all packets.
    pub(super) fn takes_all(&self) -> bool {
        self.dscp.is_none() && self.ports.is_none() && self.payload.is_none()
    }

    /// Returns `true` if it takes a packet: all criteria that it has are met.
    pub(super) fn takes(&self, packet: &Packet) -> bool {
        if self.dscp.as_ref().is_some_and(|dscps| !dscps.contains(&dscp_of(packet))) {
            return false;
        }
        if self.ports.is_none() && self.payload.is_none() {
            return true;
        }
        let Some(upper) = Upper::of(packet) else { return false };
        let within = |range: &[u16; 2]| upper.ports.iter().any(|port| (range[0]..=range[1]).contains(port));
        self.ports.as_ref().is_none_or(|ranges| ranges.iter().any(within))
            && self.payload.is_none_or(|payload| upper.payload == Some(payload))
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_net::Port;
    use bentpipe_net::queue::Discipline;
    use bentpipe_net::testing::Harness;
    use bentpipe_units::{Bytes, Span};
    use bentpipe_wire::{ipv4, ipv6, udp};

    use super::super::{Cell, PathConfig, Radio, Service, Wimax};
    use super::*;

    /// Returns a datagram over IPv4 or IPv6, whole or with elided zeros at its end.
    fn datagram(is_v6: bool, ports: [u16; 2], payload: &[u8], elided: usize) -> Packet {
        let ends = if is_v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        let [src, dst] = ends.map(|text| text.parse().expect("an address"));
        let len = udp::HEADER_LEN + payload.len();
        let ip_len = if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let mut bytes = vec![0; ip_len + udp::HEADER_LEN];
        ip::Repr::new(src, dst, Protocol::UDP, len + elided).emit(&mut bytes[..ip_len]);
        let header =
            udp::Repr { src_port: ports[0], dst_port: ports[1], payload_len: payload.len() + elided };
        header.emit(&mut bytes[ip_len..]);
        bytes.extend_from_slice(payload);
        if elided == 0 {
            return Packet::from_bytes(&bytes);
        }
        let mut packet = Packet::new(bytes.len(), elided as u32);
        packet.header_mut().copy_from_slice(&bytes);
        packet
    }

    fn flow(ports: Option<Vec<[u16; 2]>>, payload: Option<Payload>) -> ServiceFlow {
        ServiceFlow { ports, payload, ..ServiceFlow::default() }
    }

    #[test]
    fn a_flow_takes_the_packets_that_meet_all_its_criteria() {
        let report = [&[0x81, 201][..], &[0; 150]].concat();
        for is_v6 in [false, true] {
            let rtp = datagram(is_v6, [5000, 6000], &[0x80, 0x92, 0, 1], 28);
            let rtcp = datagram(is_v6, [5001, 6001], &report, 0);
            let rtp_flow = flow(None, Some(Payload::Rtp));
            let rtcp_flow = flow(None, Some(Payload::Rtcp));
            assert!(rtp_flow.takes(&rtp) && !rtp_flow.takes(&rtcp));
            assert!(rtcp_flow.takes(&rtcp) && !rtcp_flow.takes(&rtp));
            for (range, is_taken) in
                [([5001, 5001], true), ([6001, 6003], true), ([5002, 6000], false), ([0, u16::MAX], true)]
            {
                assert_eq!(flow(Some(vec![[1, 2], range]), None).takes(&rtcp), is_taken, "{range:?}");
            }
            assert!(!flow(Some(vec![[5001, 5001]]), Some(Payload::Rtp)).takes(&rtcp));
            let marked = ServiceFlow { dscp: Some(vec![46]), ..rtcp_flow };
            assert!(!marked.takes(&rtcp), "its DSCP is 0");
        }
        assert!(flow(None, None).takes_all() && !flow(Some(Vec::new()), None).takes_all());
    }

    #[test]
    fn packets_without_ports_are_of_flows_without_criteria() {
        let any = flow(Some(vec![[0, u16::MAX]]), None);
        for bytes in [&[][..], &[0x45], &[0x60; 39], &[0xff; 60]] {
            assert!(!any.takes(&Packet::from_bytes(bytes)));
            assert!(flow(None, None).takes(&Packet::from_bytes(bytes)));
        }
    }

    /// Longest delay in ms of a call of G.729 with a report each second.
    fn longest_delay(flows: Vec<ServiceFlow>) -> f64 {
        const MS: u64 = 1_000_000;
        let path = |is_downlink, flows| PathConfig {
            name: format!("link/house/{is_downlink}"),
            station: 0,
            is_downlink,
            radio: Radio::default(),
            flows,
            queue: Discipline::default(),
            delay: Span::ZERO,
            mtu: Bytes::new(1500),
        };
        let paths = [path(true, Vec::new()), path(false, flows)];
        let mut rig = Harness::new(Wimax::new(&Cell::default(), &paths).expect("possible"));
        let sent: Vec<u64> = (0..250).map(|n| (n * 20 + 3) * MS).collect();
        let report = [&[0x81, 201][..], &[0; 150]].concat();
        for (n, at) in sent.iter().enumerate() {
            rig.receive(*at, 1, datagram(false, [5000, 6000], &[0x80, 18, 0, 1], 28));
            if n % 50 == 25 {
                rig.receive(*at + MS, 1, datagram(false, [5001, 6001], &report, 0));
            }
        }
        rig.run_until(6000 * MS);
        let voice = rig.out.iter().filter(|(_, port, packet)| *port == Port(1) && packet.len() == 60);
        let delays = voice.zip(&sent).map(|((at, ..), sent)| (at.as_nanos() - sent) as f64 / MS as f64);
        assert_eq!(rig.out.len(), 255, "all arrive");
        delays.fold(0.0, f64::max)
    }

    #[test]
    fn reports_in_a_flow_of_their_own_do_not_hold_up_voice() {
        let voice = ServiceFlow { service: Service::Ugs, sdu: Bytes::new(60), ..ServiceFlow::default() };
        let together = longest_delay(vec![voice.clone()]);
        let apart = longest_delay(vec![flow(None, Some(Payload::Rtcp)), voice]);
        assert!(apart < 25.0 && together > apart + 20.0, "{apart} and {together}");
    }
}
