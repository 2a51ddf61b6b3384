//! DHCP server for the one machine behind an attached interface (RFC 2131, RFC 2132).
//!
//! It has one lease: the address of the host in whose place the machine is. Not modelled: relays, leases that run out (the first
//! machine has it until it releases it), options other than those below.

use std::net::Ipv4Addr;

use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{ipv4, udp};

const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// Time of a lease in seconds.
const LEASE_S: u32 = 3600;
/// Length of the fixed part, before the options' magic cookie.
const FIXED_LEN: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Shortest message that all clients take (RFC 1542).
const MIN_LEN: usize = 300;
/// Maximum number of routes in an option.
const MAX_ROUTES: usize = 28;

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;
const RELEASE: u8 = 7;
const INFORM: u8 = 8;

/// Codes of options.
mod option {
    pub(super) const MASK: u8 = 1;
    pub(super) const MTU: u8 = 26;
    pub(super) const ADDRESS: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const ROUTES: u8 = 121;
}

/// Server with one lease.
#[derive(Debug)]
pub(crate) struct Server {
    /// Address of the lease.
    address: Ipv4Addr,
    /// Address of the server: one of the nodes behind it.
    own: Ipv4Addr,
    mask: Ipv4Addr,
    /// Addresses outside of the prefix, on the same Ethernet (RFC 3442).
    routes: Vec<Ipv4Addr>,
    mtu: u16,
    holder: Option<MacAddr>,
}

/// Message of a client.
struct Message {
    kind: u8,
    id: [u8; 4],
    flags: [u8; 2],
    /// Address that the client has.
    current: Ipv4Addr,
    client: MacAddr,
    requested: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
}

impl Server {
    /// Creates a server of `address`, for nodes with the addresses `behind` it. Returns `None` if there are none.
    pub(crate) fn new(address: Ipv4Addr, behind: &[Ipv4Addr], mtu: u16) -> Option<Server> {
        let own = *behind.first()?;
        let covers = |prefix: u32| {
            let host = u32::MAX >> prefix;
            let differs = |other: &Ipv4Addr| (other.to_bits() ^ address.to_bits()) > host;
            // Neither the network's address nor its broadcast address.
            let is_usable = |address: &Ipv4Addr| ![0, host].contains(&(address.to_bits() & host));
            !behind.iter().any(differs) && behind.iter().chain([&address]).all(is_usable)
        };
        // A shorter prefix would take the machine's routes to others.
        let prefix = (8..31).rev().find(|prefix| covers(*prefix));
        let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - prefix.unwrap_or(32)).unwrap_or(0));
        let routes =
            if prefix.is_none() { behind.iter().copied().take(MAX_ROUTES).collect() } else { Vec::new() };
        Some(Server { address, own, mask, routes, mtu, holder: None })
    }

    /// Returns the answer to a client's message: the MAC address and the packet. Returns `None` for
    /// other packets and for messages without an answer.
    pub(crate) fn answer(&mut self, packet: &[u8]) -> Option<(MacAddr, Vec<u8>)> {
        let message = Message::parse(packet)?;
        if message.kind == RELEASE && self.holder == Some(message.client) {
            self.holder = None;
            return None;
        }
        if message.server.is_some_and(|server| server != self.own) {
            return None;
        }
        let is_holder = self.holder.is_none_or(|holder| holder == message.client);
        let kind = match message.kind {
            DISCOVER if is_holder => OFFER,
            INFORM => ACK,
            REQUEST => {
                let wanted = message.requested.unwrap_or(message.current);
                if is_holder && wanted == self.address {
                    self.holder = Some(message.client);
                    ACK
                } else {
                    NAK
                }
            }
            _ => return None,
        };
        Some(self.reply(kind, &message))
    }

    fn reply(&self, kind: u8, message: &Message) -> (MacAddr, Vec<u8>) {
        let mut bytes = vec![0; FIXED_LEN];
        bytes[..4].copy_from_slice(&[2, 1, 6, 0]);
        bytes[4..8].copy_from_slice(&message.id);
        bytes[10..12].copy_from_slice(&message.flags);
        let gives = kind != NAK && message.kind != INFORM;
        if message.kind == INFORM || message.kind == REQUEST {
            bytes[12..16].copy_from_slice(&message.current.octets());
        }
        if gives {
            bytes[16..20].copy_from_slice(&self.address.octets());
        }
        bytes[28..34].copy_from_slice(&message.client.0);
        bytes.extend(COOKIE);
        let mut put = |code: u8, value: &[u8]| {
            bytes.extend([code, value.len() as u8]);
            bytes.extend_from_slice(value);
        };
        put(option::TYPE, &[kind]);
        put(option::SERVER, &self.own.octets());
        if gives {
            put(option::LEASE, &LEASE_S.to_be_bytes());
        }
        if kind != NAK {
            put(option::MASK, &self.mask.octets());
            put(option::MTU, &self.mtu.to_be_bytes());
            if !self.routes.is_empty() {
                // A gateway of zeros: the destination is on this Ethernet.
                let route = |to: &Ipv4Addr| [&[32][..], &to.octets(), &[0; 4]].concat();
                put(option::ROUTES, &self.routes.iter().flat_map(route).collect::<Vec<u8>>());
            }
        }
        bytes.push(255);
        bytes.resize(bytes.len().max(MIN_LEN), 0);
        let (mac, to) = if kind == NAK {
            (MacAddr::BROADCAST, Ipv4Addr::BROADCAST)
        } else if !message.current.is_unspecified() {
            (message.client, message.current)
        } else if message.flags[0] & 0x80 != 0 {
            (MacAddr::BROADCAST, Ipv4Addr::BROADCAST)
        } else {
            (message.client, self.address)
        };
        (mac, datagram(self.own, to, &bytes))
    }
}

fn datagram(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let len = udp::HEADER_LEN + payload.len();
    let repr = ip::Repr::new(from.into(), to.into(), Protocol::UDP, len);
    let mut packet = vec![0; repr.buffer_len()];
    repr.emit(&mut packet);
    let start = packet.len();
    packet.extend([SERVER_PORT, CLIENT_PORT, len as u16, 0].map(u16::to_be_bytes).concat());
    packet.extend_from_slice(payload);
    let pseudo = Pseudo::new(from.into(), to.into(), Protocol::UDP);
    udp::Datagram::new_unchecked(&mut packet[start..]).fill_checksum(&pseudo);
    packet
}

impl Message {
    fn parse(packet: &[u8]) -> Option<Message> {
        let packet = ipv4::Packet::new_checked(packet).ok()?;
        let is_whole = !packet.more_fragments() && packet.fragment_offset() == 0;
        if packet.protocol() != Protocol::UDP || !is_whole {
            return None;
        }
        let datagram = udp::Datagram::new_checked(packet.payload()).ok()?;
        if (datagram.src_port(), datagram.dst_port()) != (CLIENT_PORT, SERVER_PORT) {
            return None;
        }
        let (fixed, rest) = datagram.payload().split_at_checked(FIXED_LEN)?;
        // A request of Ethernet, not relayed.
        if fixed[..3] != [1, 1, 6] || fixed[24..28] != [0; 4] {
            return None;
        }
        let mut options = rest.strip_prefix(&COOKIE)?;
        let (mut kind, mut requested, mut server) = (None, None, None);
        while let Some((&code, rest)) = options.split_first() {
            match code {
                0 => options = rest,
                255 => break,
                _ => {
                    let (&len, rest) = rest.split_first()?;
                    let (value, rest) = rest.split_at_checked(usize::from(len))?;
                    let address = || <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
                    match code {
                        option::TYPE => kind = value.first().copied(),
                        option::ADDRESS => requested = address(),
                        option::SERVER => server = address(),
                        _ => {}
                    }
                    options = rest;
                }
            }
        }
        let four = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        let client = MacAddr(fixed[28..34].try_into().ok()?);
        let (id, flags) = (four(4), [fixed[10], fixed[11]]);
        (!client.is_multicast()).then_some(())?;
        Some(Message { kind: kind?, id, flags, current: four(12).into(), client, requested, server })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 4);
    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn server() -> Server {
        Server::new(LEASE, &[OWN, Ipv4Addr::new(10, 0, 0, 3)], 1400).expect("a node")
    }

    fn request(kind: u8, mac: u8, options: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        bytes[..4].copy_from_slice(&[1, 1, 6, 0]);
        bytes[4..8].copy_from_slice(&[1, 2, 3, 4]);
        bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, mac]);
        bytes.extend(COOKIE);
        bytes.extend([option::TYPE, 1, kind]);
        for (code, value) in options {
            bytes.extend([*code, value.len() as u8]);
            bytes.extend_from_slice(value);
        }
        bytes.push(255);
        let mut packet = datagram(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &bytes);
        packet[20..24].copy_from_slice(&[0, 68, 0, 67]);
        packet
    }

    /// Returns the type, address and options of an answer.
    fn read(answer: Option<(MacAddr, Vec<u8>)>) -> Option<(u8, Ipv4Addr, Vec<u8>)> {
        let (_, packet) = answer?;
        let datagram = udp::Datagram::new_checked(&packet[20..]).expect("UDP");
        datagram
            .verify_checksum(&Pseudo::v4(
                OWN,
                ipv4::Packet::new_checked(&packet[..]).expect("IP").dst(),
                Protocol::UDP,
            ))
            .expect("right");
        let payload = &packet[28..];
        assert_eq!(payload[4..8], [1, 2, 3, 4]);
        let address: [u8; 4] = payload[16..20].try_into().expect("four");
        Some((payload[FIXED_LEN + 6], address.into(), payload[FIXED_LEN + 4..].to_vec()))
    }

    #[test]
    fn the_first_machine_gets_the_lease_of_its_host() {
        let mut server = server();
        let (kind, address, options) = read(server.answer(&request(DISCOVER, 1, &[]))).expect("an offer");
        assert_eq!((kind, address), (OFFER, LEASE));
        assert!(options.windows(6).any(|bytes| bytes == [1, 4, 255, 255, 255, 248]), "{options:?}");
        assert!(options.windows(4).any(|bytes| bytes == [26, 2, 5, 120]), "{options:?}");
        let wanted = [(option::ADDRESS, &LEASE.octets()[..]), (option::SERVER, &OWN.octets()[..])];
        let granted = read(server.answer(&request(REQUEST, 1, &wanted))).expect("an answer");
        assert_eq!((granted.0, granted.1), (ACK, LEASE));
        assert!(server.answer(&request(DISCOVER, 2, &[])).is_none(), "it is given");
        assert_eq!(read(server.answer(&request(REQUEST, 2, &wanted))).expect("an answer").0, NAK);
        assert!(server.answer(&request(RELEASE, 1, &[(option::SERVER, &OWN.octets())])).is_none());
        assert_eq!(read(server.answer(&request(DISCOVER, 2, &[]))).expect("an offer").0, OFFER);
    }

    #[test]
    fn other_addresses_and_servers_are_not_granted() {
        let mut server = server();
        let other = [(option::ADDRESS, &[10, 9, 9, 9][..])];
        assert_eq!(read(server.answer(&request(REQUEST, 1, &other))).expect("an answer").0, NAK);
        assert!(server.answer(&request(REQUEST, 1, &[(option::SERVER, &[10, 9, 9, 9])])).is_none());
        let far = Server::new(LEASE, &[Ipv4Addr::new(192, 0, 2, 1)], 1500).expect("a node");
        assert_eq!((far.mask, far.routes.len()), (Ipv4Addr::BROADCAST, 1));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..400), options in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut server = server();
            let _ = server.answer(&bytes);
            let mut packet = request(DISCOVER, 1, &[]);
            packet.truncate(28 + FIXED_LEN + 4);
            packet.extend(options);
            let len = packet.len() as u16;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
            ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
            let _ = server.answer(&packet);
        }
    }
}
