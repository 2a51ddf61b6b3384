//! Network address and port translation of a router (NAPT, RFC 3022).
//!
//! *Models*: mappings of UDP, TCP and ICMP echo that do not depend on the destination (RFC 4787, REQ-1), with time-outs that packets
//! from inside renew (RFC 4787, RFC 5382, RFC 5508); filtering by nothing, or by the remote address; incremental checksums, so that
//! wrong ones stay wrong; a bounded number of port numbers for each protocol.
//!
//! *Does not model*: ICMP errors about translated packets, hairpinning, fragments, other protocols, application gateways, IPv6.
//! These packets are dropped and counted.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use bentpipe_units::{Span, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::{ipv4, tcp};

use crate::{Cx, Element, Observer, Packet, Port, Why};

pub mod metrics;

/// Protocols that are translated, in the order of their port ranges.
pub const PROTOCOLS: [Protocol; 3] = [Protocol::UDP, Protocol::TCP, Protocol::ICMP];

/// Configuration of a translator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Address outside.
    pub outside: Ipv4Addr,
    /// First port number of each of [`PROTOCOLS`], and their count.
    pub first: [u16; 3],
    /// Number of port numbers of each protocol.
    pub count: u16,
    /// Idle time after which mappings end: of UDP, established TCP, other TCP, ICMP.
    pub timeouts: [Span; 4],
    /// Set if packets from outside pass only from addresses that the mapping sent to.
    pub is_filtered: bool,
}

/// Translator. Its ports below `inside` get packets from inside.
///
/// The others get those from outside: to the outside address, or to a hidden one, which it drops.
#[derive(Debug)]
pub struct Nat {
    config: Config,
    inside: u16,
    tables: [Table; 3],
    translated: [u64; 2],
    exhausted: u64,
    unmapped: u64,
    filtered: u64,
    untranslatable: u64,
}

/// Mappings of a protocol.
#[derive(Debug, Default)]
struct Table {
    /// Number of the outside port of each inside end.
    numbers: BTreeMap<SocketAddrV4, u16>,
    mappings: BTreeMap<u16, Mapping>,
    /// Last use of each mapping from inside, with its number.
    uses: BTreeSet<(Time, u16)>,
    next: u16,
}

#[derive(Debug)]
struct Mapping {
    inside: SocketAddrV4,
    /// Addresses that it sent to, if packets are filtered by them.
    remotes: BTreeSet<Ipv4Addr>,
    ends_at: Time,
    /// Set once a TCP connection had segments in both directions without FIN or RST.
    is_established: bool,
}

/// Maximum number of remote addresses of a mapping. Packets from others are filtered.
const MAX_REMOTES: usize = 1024;

/// Reason for which a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Exhausted,
    Unmapped,
    Filtered,
    Untranslatable,
}

/// Fields of a packet that translation reads and changes.
#[derive(Clone, Copy, Debug)]
struct Fields {
    protocol: usize,
    source: SocketAddrV4,
    destination: SocketAddrV4,
    /// Offset of the transport header.
    offset: usize,
    flags: Option<tcp::Flags>,
    is_request: bool,
}

impl Nat {
    /// Creates a translator whose first `inside` ports get packets from inside.
    pub fn new(config: Config, inside: u16) -> Nat {
        Nat {
            config,
            inside,
            tables: Default::default(),
            translated: [0; 2],
            exhausted: 0,
            unmapped: 0,
            filtered: 0,
            untranslatable: 0,
        }
    }

    /// Returns the number of mappings of all protocols.
    pub fn mappings(&self) -> usize {
        self.tables.iter().map(|table| table.mappings.len()).sum()
    }

    fn outwards(&mut self, packet: &mut Packet, now: Time) -> Result<(), Refusal> {
        let fields = Fields::read(packet).filter(|fields| fields.protocol != 2 || fields.is_request);
        let fields = fields.ok_or(Refusal::Untranslatable)?;
        let Config { first, count, timeouts, is_filtered, outside } = self.config;
        let table = &mut self.tables[fields.protocol];
        table.expire(now);
        let number = table.number(fields.source, count).ok_or(Refusal::Exhausted)?;
        let timeout = |mapping: &Mapping| timeout(timeouts, fields.protocol, mapping.is_established);
        table.renew(number, fields, now, timeout);
        if let Some(mapping) = table.mappings.get_mut(&number).filter(|_| is_filtered) {
            let has_room = mapping.remotes.len() < MAX_REMOTES;
            has_room.then(|| mapping.remotes.insert(*fields.destination.ip()));
        }
        let port = first[fields.protocol] + number;
        fields.write_source(packet, SocketAddrV4::new(outside, port));
        self.translated[0] += 1;
        Ok(())
    }

    fn inwards(&mut self, packet: &mut Packet, now: Time) -> Result<(), Refusal> {
        if destination(packet) != Some(self.config.outside) {
            return Err(Refusal::Unmapped);
        }
        let fields = Fields::read(packet).filter(|fields| fields.protocol != 2 || !fields.is_request);
        let fields = fields.ok_or(Refusal::Untranslatable)?;
        let table = &mut self.tables[fields.protocol];
        table.expire(now);
        let number = fields.destination.port().checked_sub(self.config.first[fields.protocol]);
        let mapping = number.and_then(|number| table.mappings.get_mut(&number)).ok_or(Refusal::Unmapped)?;
        if self.config.is_filtered && !mapping.remotes.contains(fields.source.ip()) {
            return Err(Refusal::Filtered);
        }
        mapping.is_established |= fields.flags.is_some_and(|flags| !flags.intersects(ENDING));
        mapping.is_established &= !fields.flags.is_some_and(|flags| flags.contains(tcp::Flags::RST));
        let inside = mapping.inside;
        fields.write_destination(packet, inside);
        self.translated[1] += 1;
        Ok(())
    }

    fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Exhausted => &mut self.exhausted,
            Refusal::Unmapped => &mut self.unmapped,
            Refusal::Filtered => &mut self.filtered,
            Refusal::Untranslatable => &mut self.untranslatable,
        } += 1;
    }
}

/// Flags of segments that begin or end a connection.
const ENDING: tcp::Flags =
    tcp::Flags::from_bits(tcp::Flags::SYN.bits() | tcp::Flags::FIN.bits() | tcp::Flags::RST.bits());

fn timeout([udp, established, transitory, icmp]: [Span; 4], protocol: usize, is_established: bool) -> Span {
    match protocol {
        0 => udp,
        1 if is_established => established,
        1 => transitory,
        _ => icmp,
    }
}

/// Returns the address that a packet goes to.
fn destination(packet: &Packet) -> Option<Ipv4Addr> {
    let header = packet.header();
    Some(ipv4::Packet::new_elided(header, packet.len() - header.len()).ok()?.dst())
}

impl Table {
    /// Ends mappings whose time is over.
    fn expire(&mut self, now: Time) {
        while let Some(&(ends_at, number)) = self.uses.first().filter(|(ends_at, _)| *ends_at <= now) {
            self.uses.remove(&(ends_at, number));
            if let Some(mapping) = self.mappings.remove(&number) {
                self.numbers.remove(&mapping.inside);
            }
        }
    }

    /// Returns the number of an inside end's mapping, which may be a new one.
    ///
    /// Returns `None` if all are taken.
    fn number(&mut self, inside: SocketAddrV4, count: u16) -> Option<u16> {
        if let Some(number) = self.numbers.get(&inside) {
            return Some(*number);
        }
        if self.mappings.len() >= usize::from(count) {
            return None;
        }
        while self.mappings.contains_key(&self.next) {
            self.next = (self.next + 1) % count;
        }
        let number = self.next;
        self.next = (number + 1) % count;
        let (remotes, ends_at, is_established) = (BTreeSet::new(), Time::ZERO, false);
        self.mappings.insert(number, Mapping { inside, remotes, ends_at, is_established });
        self.numbers.insert(inside, number);
        Some(number)
    }

    /// Extends the time of a mapping for a packet from inside.
    fn renew(&mut self, number: u16, fields: Fields, now: Time, timeout: impl Fn(&Mapping) -> Span) {
        let Some(mapping) = self.mappings.get_mut(&number) else { return };
        self.uses.remove(&(mapping.ends_at, number));
        mapping.is_established &= !fields.flags.is_some_and(|flags| flags.intersects(ENDING));
        mapping.ends_at = now + timeout(mapping);
        self.uses.insert((mapping.ends_at, number));
    }
}

impl Fields {
    /// Reads a packet of a protocol that is translated; `None` for others and fragments.
    fn read(packet: &Packet) -> Option<Fields> {
        let header = packet.header();
        let ip = ipv4::Packet::new_elided(header, packet.len() - header.len()).ok()?;
        let (src, dst, offset) = (ip.src(), ip.dst(), ip.header_len());
        if ip.fragment_offset() > 0 || ip.more_fragments() {
            return None;
        }
        let protocol = PROTOCOLS.iter().position(|protocol| *protocol == ip.protocol())?;
        let bytes = header.get(offset..)?;
        let at = |place: usize| Some(u16::from_be_bytes([*bytes.get(place)?, *bytes.get(place + 1)?]));
        let (ports, flags, is_request) = match protocol {
            2 => {
                let kind = *bytes.first()?;
                if !matches!(kind, 0 | 8) {
                    return None;
                }
                ([at(4)?; 2], None, kind == 8)
            }
            1 => ([at(0)?, at(2)?], Some(tcp::Flags::from_bits(at(12)?)), false),
            _ => ([at(0)?, at(2)?], None, false),
        };
        let (source, destination) = (SocketAddrV4::new(src, ports[0]), SocketAddrV4::new(dst, ports[1]));
        Some(Fields { protocol, source, destination, offset, flags, is_request })
    }

    fn write_source(&self, packet: &mut Packet, to: SocketAddrV4) {
        self.write(packet, (12, self.source), to, if self.protocol == 2 { 4 } else { 0 });
    }

    fn write_destination(&self, packet: &mut Packet, to: SocketAddrV4) {
        self.write(packet, (16, self.destination), to, if self.protocol == 2 { 4 } else { 2 });
    }

    /// Replaces an address at `place` and a port at `port` of their headers.
    fn write(
        &self,
        packet: &mut Packet,
        (place, from): (usize, SocketAddrV4),
        to: SocketAddrV4,
        port: usize,
    ) {
        let header = packet.header_mut();
        let (ip, transport) = header.split_at_mut(self.offset);
        let words = |end: SocketAddrV4| {
            let [a, b, c, d] = end.ip().octets();
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        };
        let (old, new) = (words(from), words(to));
        ip[place..place + 4].copy_from_slice(&to.ip().octets());
        update(ip, 10, &old, &new);
        transport[port..port + 2].copy_from_slice(&to.port().to_be_bytes());
        let sum = [6, 16, 2][self.protocol];
        let is_summed = transport.get(sum..sum + 2).is_some_and(|sum| sum != [0, 0]);
        // ICMP has no pseudo-header, and zero stands for no checksum in UDP alone.
        if self.protocol != 2 && (self.protocol == 1 || is_summed) {
            update(transport, sum, &old, &new);
        }
        if self.protocol != 0 || is_summed {
            update(transport, sum, &[from.port()], &[to.port()]);
        }
    }
}

/// Updates the checksum at `place` for words that were replaced (RFC 1624, equation 3).
fn update(bytes: &mut [u8], place: usize, old: &[u16], new: &[u16]) {
    let Some(field) = bytes.get_mut(place..place + 2) else { return };
    let before = u16::from_be_bytes([field[0], field[1]]);
    let removed = old.iter().map(|word| u32::from(!word));
    let added = new.iter().map(|word| u32::from(*word));
    let mut sum = u32::from(!before) + removed.chain(added).sum::<u32>();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    field.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

impl Element for Nat {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        let result = if port.0 < self.inside {
            self.outwards(&mut packet, cx.now())
        } else {
            self.inwards(&mut packet, cx.now())
        };
        match result {
            Ok(()) => cx.emit(port, packet),
            Err(refusal) => {
                self.count(refusal);
                packet.lose(Why::Policy);
            }
        }
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from == to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.tables.iter_mut().for_each(|table| table.expire(now));
        observer.counter(&metrics::OUTWARDS, self.translated[0]);
        observer.counter(&metrics::INWARDS, self.translated[1]);
        observer.gauge(&metrics::MAPPINGS, self.mappings() as f64);
        observer.counter(&metrics::DROPPED_EXHAUSTED, self.exhausted);
        observer.counter(&metrics::DROPPED_UNMAPPED, self.unmapped);
        observer.counter(&metrics::DROPPED_FILTERED, self.filtered);
        observer.counter(&metrics::DROPPED_UNTRANSLATABLE, self.untranslatable);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
