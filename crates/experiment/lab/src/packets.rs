//! Recording of the packets of flows: times, places and losses.
//!
//! Models: what became of a packet, and where, is the end that its account has ([`Network::follow`]). Packets in no account, as in
//! the cells of a virtual channel, are followed from element to element by their addresses, ports, first transport bytes and time of creation,
//! through translators by the rest of these. A packet that its receiver drops for its checksum has not arrived.
//! Does not model: copies that a router makes for a group (the last one that arrives counts).

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_assemble::FlowHandle;
use bentpipe_net::ledger::{Entry, MAX_FOLLOWED};
use bentpipe_net::{Body, Packet, Port};
use bentpipe_record::{
    Delivery, FIRST_PACKETS_FILE, PACKETS_FILE, PacketRecord, Packets, RecordedFlow, Subject, TcpFields,
    write_first_packets,
};
use bentpipe_scenario::Scenario;
use bentpipe_sim::{ElementId, Network, PacketEnd};
use bentpipe_site::{Artefact, Input};
use bentpipe_transport::app::{payload_len, verified};
use bentpipe_units::{Span, Time};

use crate::measure::empty_paths;

/// Maximum number of packets of a run that are recorded: half a gigabyte.
const MAX_RECORDS: usize = MAX_FOLLOWED;

/// Bytes of the transport header that identify a packet. They end behind the checksum of TCP.
const IDENTIFYING: usize = 20;

/// Protocol number of TCP.
const TCP: u8 = 6;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Protocol number of DCCP.
const DCCP: u8 = 33;

/// Watches the packets of the flows that the scenario's probe names. Returns the files that are written of them.
pub(crate) fn record(
    network: &mut Network,
    flows: &[FlowHandle],
    scenario: &Scenario,
) -> Vec<Artefact<Input>> {
    let wanted = &scenario.probe.packets;
    let is_wanted = |flow: &&FlowHandle| {
        wanted.iter().any(|name| name == "*" || *name == flow.name || *name == flow.flow)
    };
    let flows: Vec<&FlowHandle> = flows.iter().filter(is_wanted).collect();
    if flows.is_empty() {
        return Vec::new();
    }
    let mut follower = Follower::new(network, &flows);
    let empty_paths = empty_paths(scenario);
    let delay = |flow: &&FlowHandle| empty_paths.get(&flow.flow).copied().unwrap_or_default();
    follower.empty_paths = flows.iter().map(delay).collect();
    let follower = Arc::new(Mutex::new(follower));
    follow(network, &follower);
    let watching = Arc::clone(&follower);
    network.watch(move |now, at, packet, place| {
        watching.lock().unwrap_or_else(PoisonError::into_inner).see(now, at, (packet, place));
    });
    files(&follower)
}

/// Follows the packets that enter the network, for a follower.
fn follow(network: &mut Network, follower: &Arc<Mutex<Follower>>) {
    let inputs: Vec<Input> =
        follower.lock().unwrap_or_else(PoisonError::into_inner).entries.keys().copied().collect();
    let follower = Arc::clone(follower);
    network.follow(&inputs, move |ends| {
        follower.lock().unwrap_or_else(PoisonError::into_inner).ends = ends;
    });
}

/// Returns the files of a follower.
fn files(follower: &Arc<Mutex<Follower>>) -> Vec<Artefact<Input>> {
    let taken = Arc::clone(follower);
    let packets = Artefact {
        file: PACKETS_FILE.to_owned(),
        taps: Vec::new(),
        write: Box::new(move |out: &mut dyn io::Write| {
            let mut follower = taken.lock().unwrap_or_else(PoisonError::into_inner);
            follower.settle();
            let mut bytes = Vec::new();
            follower.packets.write_parquet(&mut bytes).map_err(io::Error::other)?;
            out.write_all(&bytes)
        }),
    };
    let taken = Arc::clone(follower);
    let first = Artefact {
        file: FIRST_PACKETS_FILE.to_owned(),
        taps: Vec::new(),
        write: Box::new(move |out: &mut dyn io::Write| {
            let follower = taken.lock().unwrap_or_else(PoisonError::into_inner);
            write_first_packets(&follower.packets.first(), out)
        }),
    };
    vec![packets, first]
}

/// End of a flow. It is its number, and the direction of the packets that it sends or receives.
type End = (u32, bool);

/// Follows packets through a network.
struct Follower {
    packets: Packets,
    /// Inputs that the ends of flows send to.
    entries: HashMap<Input, End>,
    /// Elements at the ends of flows, which receive. A node that answers by itself is an end too, of any number of flows.
    exits: HashSet<(ElementId, End)>,
    /// Places of recorded packets among those that their accounts follow.
    followed: Vec<Option<usize>>,
    /// Ends of the packets that are followed.
    ends: Vec<PacketEnd>,
    /// Records of packets in flight.
    open: HashMap<u64, usize>,
    /// Inputs of translators, and those that they send to.
    translators: HashMap<Input, Input>,
    /// Records of packets at translators, by where they go and what is not translated.
    crossing: HashMap<(Input, u64), usize>,
    /// Set for records of packets whose checksum was right.
    is_sound: Vec<bool>,
    /// Delays of empty paths by flow.
    empty_paths: Vec<Span>,
    /// Time of the last packet seen.
    now: Time,
}

impl Follower {
    fn new(network: &Network, flows: &[&FlowHandle]) -> Follower {
        let (mut entries, mut exits) = (HashMap::new(), HashSet::new());
        for (n, flow) in flows.iter().enumerate() {
            let mut end = |element: ElementId, is_sender: bool| {
                entries
                    .extend(network.leads_to(element, Port(0)).map(|entry| (entry, (n as u32, !is_sender))));
                exits.insert((element, (n as u32, is_sender)));
            };
            end(flow.sender, true);
            flow.receivers.iter().for_each(|receiver| end(*receiver, false));
            if flow.receivers.is_empty() {
                let node = format!("node/{}", flow.to);
                exits.extend(
                    network.ids().find(|id| network.path(*id) == node).map(|node| (node, (n as u32, false))),
                );
            }
        }
        let named = |flow: &&FlowHandle| RecordedFlow {
            name: flow.name.clone(),
            from: flow.from.clone(),
            to: flow.to.clone(),
        };
        let places = network.ids().map(|id| network.path(id).to_owned()).collect();
        let packets = Packets { flows: flows.iter().map(named).collect(), places, records: Vec::new() };
        let empty_paths = vec![Span::ZERO; flows.len()];
        Follower {
            packets,
            entries,
            exits,
            followed: Vec::new(),
            ends: Vec::new(),
            open: HashMap::new(),
            translators: translators(network),
            crossing: HashMap::new(),
            is_sound: Vec::new(),
            empty_paths,
            now: Time::ZERO,
        }
    }

    /// Sets the fates of packets at the end of the run.
    fn settle(&mut self) {
        self.packets.settle(self.now, |flow| self.empty_paths[flow]);
        for (record, place) in self.packets.records.iter_mut().zip(&self.followed) {
            if let Some(end) = place.and_then(|place| self.ends.get(place)) {
                conclude(record, end);
            }
        }
    }

    /// Notes that a packet is at an input.
    ///
    /// It has its place among those that are followed, if it enters there.
    fn see(&mut self, now: Time, at: Input, (packet, place): (&Packet, Option<usize>)) {
        self.now = now;
        let Some(seen) = Seen::of(packet) else { return };
        let key = seen.key(packet);
        if let Some(end) = self.entries.get(&at) {
            self.begin((now, at.0), *end, (key, packet), &seen);
            return self.followed.resize(self.packets.records.len(), place);
        }
        if !self.crossing.is_empty()
            && let Some(number) = self.crossing.remove(&(at, seen.untranslated(packet)))
        {
            self.open.insert(key, number);
        }
        let Some(number) = self.open.get(&key).copied() else { return };
        let record = &mut self.packets.records[number];
        record.place = at.0.index() as u32;
        if let Some(to) = self.translators.get(&at) {
            self.open.remove(&key);
            self.crossing.insert((*to, seen.untranslated(packet)), number);
        } else if self.exits.contains(&(at.0, (record.flow, record.is_return))) {
            let is_damaged = self.is_sound[number] && verified(packet) != Some(true);
            record.arrived = (!is_damaged).then_some(now);
            self.open.remove(&key);
        }
    }

    /// Begins the record of a packet that an end of a flow has sent.
    fn begin(
        &mut self,
        (now, at): (Time, ElementId),
        (flow, is_return): End,
        (key, packet): (u64, &Packet),
        seen: &Seen,
    ) {
        if self.packets.records.len() >= MAX_RECORDS {
            return;
        }
        self.is_sound.push(verified(packet) == Some(true));
        self.open.insert(key, self.packets.records.len());
        self.packets.records.push(PacketRecord {
            flow,
            is_return,
            sent: now,
            len: seen.len,
            payload: seen.payload(packet),
            ports: [0, 2].map(|at| u16::from_be_bytes([seen.transport[at], seen.transport[at + 1]])),
            tcp: seen.tcp(),
            arrived: None,
            place: at.index() as u32,
            delivery: Delivery::InFlight,
        });
    }
}

/// Sets the fate of a packet to the end that its account has.
fn conclude(record: &mut PacketRecord, end: &PacketEnd) {
    record.arrived = end.arrived;
    let of = |(entry, place): (Entry, ElementId)| {
        let delivery = match entry {
            Entry::Dropped(_) => Delivery::Lost,
            Entry::TakenOver => Delivery::TakenOver,
            Entry::Waiting => Delivery::Waiting,
            Entry::InFlight | Entry::Copied | Entry::Again | Entry::Repeated | Entry::Spared => {
                Delivery::InFlight
            }
        };
        (delivery, place.index() as u32)
    };
    (record.delivery, record.place) = match (end.arrived, end.end) {
        (Some(_), _) => (Delivery::Arrived, record.place),
        (None, Some(ended)) => of(ended),
        (None, None) => (Delivery::InFlight, record.place),
    };
}

/// Returns the inputs of translators, and those that they send to.
fn translators(network: &Network) -> HashMap<Input, Input> {
    let is_translator = |id: &ElementId| {
        let of_node = Subject::of_element(network.path(*id));
        matches!(of_node, Some((Subject::Node(_), role)) if role.split('.').next() == Some("nat"))
    };
    let ports = |id: ElementId| {
        let leads = move |port| network.leads_to(id, Port(port)).map(|to| ((id, Port(port)), to));
        (0..u16::MAX).map_while(leads)
    };
    network.ids().filter(is_translator).flat_map(ports).collect()
}

/// Fields of an IP packet that stay the same on its way.
struct Seen {
    len: u32,
    /// Length of the IP header.
    header_len: usize,
    is_ipv6: bool,
    protocol: u8,
    transport: [u8; IDENTIFYING],
}

impl Seen {
    /// Returns the fields of a packet. `None` if it is not IP, such as a frame.
    fn of(packet: &Packet) -> Option<Seen> {
        if matches!(packet.body(), Body::Carried(_)) {
            return None;
        }
        let header = packet.header();
        let is_ipv6 = header.first()? >> 4 == 6;
        let (header_len, protocol) = match header.first()? >> 4 {
            4 => (usize::from(header[0] & 0xf) * 4, *header.get(9)?),
            6 => (40, *header.get(6)?),
            _ => return None,
        };
        let mut transport = [0; IDENTIFYING];
        let body: &[u8] = if let Body::Bytes(bytes) = packet.body() { bytes } else { &[] };
        let rest = header.iter().chain(body).skip(header_len);
        transport.iter_mut().zip(rest).for_each(|(byte, value)| *byte = *value);
        Some(Seen { len: packet.len() as u32, header_len, is_ipv6, protocol, transport })
    }

    /// Returns a hash of the packet that is the same at each element.
    fn key(&self, packet: &Packet) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Hop limit, DSCP and checksum of the header change on the way; identification and addresses do not.
        let header = packet.header();
        let kept = if self.is_ipv6 { 8..40 } else { 12..20 };
        (header.get(kept), header.get(4..6).filter(|_| !self.is_ipv6)).hash(&mut hasher);
        (self.len, self.protocol, self.transport, packet.created_at().as_nanos()).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns a hash of what a translator leaves as it is.
    ///
    /// It changes addresses, ports, identifiers of ICMP and checksums.
    fn untranslated(&self, packet: &Packet) -> u64 {
        let mut hasher = DefaultHasher::new();
        let kept: [std::ops::Range<usize>; 2] = match self.protocol {
            TCP => [4..16, 18..20],
            UDP => [4..6, 8..20],
            _ => [0..2, 6..20],
        };
        kept.map(|kept| self.transport[kept].to_vec()).hash(&mut hasher);
        packet.header().get(4..6).hash(&mut hasher);
        (self.len, self.protocol, packet.created_at().as_nanos()).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the number of payload bytes, as the goodput of its flow counts them.
    fn payload(&self, packet: &Packet) -> u32 {
        match self.protocol {
            DCCP => {
                let transport = usize::from(self.transport[4]) * 4;
                self.len.saturating_sub((self.header_len + transport) as u32)
            }
            _ => payload_len(packet) as u32,
        }
    }

    fn tcp(&self) -> Option<TcpFields> {
        let word =
            |at: usize| self.transport[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let fields = || TcpFields { sequence: word(4), acknowledgement: word(8), flags: self.transport[13] };
        (self.protocol == TCP).then(fields)
    }
}

#[cfg(test)]
mod tests;
