//! Contents of a stream by PID.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bentpipe_dvb::Encapsulation;
use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::si::{Description, Sdt};
use bentpipe_wire::ts::{Continuity, PACKET_LEN, Packet, Pid, Step};
use bentpipe_wire::{bbframe, gse, mpe, section, ule};

use super::files::Unit;
use super::of;

/// Number of PDUs by the name of their kind.
pub type Kinds = BTreeMap<String, u64>;

/// Most PIDs of all streams of an input whose contents are kept. A stream has at most 8192.
const MAX_PIDS: usize = 1 << 14;
/// Most kinds of PDUs that are kept apart.
const MAX_KINDS: usize = 64;

/// Surveys of the streams of an input, which share the room for PIDs and maps.
#[derive(Debug, Default)]
pub(super) struct Surveys {
    all: Vec<Survey>,
    pids: usize,
    maps: usize,
}

impl Surveys {
    /// Adds a TS packet or a frame of the stream with this place.
    pub(super) fn add(&mut self, place: usize, unit: Unit<'_>) {
        let survey = of(&mut self.all, place);
        let (pids, maps) = (survey.streams.len(), survey.pmts.len());
        survey.room = Room { pids: MAX_PIDS - self.pids, maps: MAX_MAPS - self.maps };
        survey.add(unit);
        self.pids += survey.streams.len() - pids;
        self.maps += survey.pmts.len() - maps;
    }

    /// Returns the surveys by place, at least `count` of them.
    pub(super) fn into_all(mut self, count: usize) -> Vec<Survey> {
        self.all.resize_with(self.all.len().max(count), Survey::default);
        self.all
    }
}

/// Describes what the surveys of an input had no room for.
pub(super) fn beyond_room(all: &[Survey]) -> Option<String> {
    let beyond: u64 = all.iter().map(|survey| survey.beyond_room).sum();
    (beyond > 0).then(|| format!("{beyond} TS packets of more than {MAX_PIDS} PIDs are not described"))
}

/// Room for further PIDs and programme maps.
#[derive(Clone, Copy, Debug)]
struct Room {
    pids: usize,
    maps: usize,
}

/// PDUs of a PID, or of all frames, by one encapsulation.
#[derive(Debug, Default)]
pub struct Carried {
    /// PDUs by kind.
    pub kinds: Kinds,
    /// Bytes of PDUs.
    pub pdu_bytes: u64,
}

impl Carried {
    fn count(&mut self, payload: &ule::Payload<'_>) {
        let mut pdu = |name: Cow<'static, str>, len: usize| {
            self.pdu_bytes += len as u64;
            if let Some(count) = self.kinds.get_mut(&*name) {
                *count += 1;
                return;
            }
            let name = if self.kinds.len() < MAX_KINDS { name } else { "other".into() };
            *self.kinds.entry(name.into_owned()).or_default() += 1;
        };
        match payload {
            ule::Payload::Pdu(ethertype, bytes) => pdu(name(*ethertype), bytes.len()),
            ule::Payload::Bridged(frame) => pdu("bridged".into(), frame.len()),
            ule::Payload::Ts(packets) => pdu("TS-Concat".into(), packets.as_flattened().len()),
            ule::Payload::Pdus(pdus) => {
                pdus.pdus().for_each(|bytes| pdu("in PDU-Concat".into(), bytes.len()))
            }
            ule::Payload::Test(_) => {}
        }
    }
}

/// Returns the name of an EtherType.
fn name(ethertype: EtherType) -> Cow<'static, str> {
    match ethertype {
        EtherType::IPV4 => "IPv4".into(),
        EtherType::IPV6 => "IPv6".into(),
        EtherType::ROHC => "ROHC".into(),
        EtherType::ARP => "ARP".into(),
        EtherType(other) => format!("{other:#06x}").into(),
    }
}

/// Contents of a PID, read both as ULE and as sections. One of the two has correct CRCs.
#[derive(Debug)]
pub struct PidStream {
    /// TS packets.
    pub packets: u64,
    /// Gaps of the continuity counter, and TS packets that came more than twice.
    pub continuity_errors: u64,
    /// TS packets that came for the second time.
    pub duplicates: u64,
    /// TS packets marked as erroneous.
    pub transport_errors: u64,
    /// Scrambled TS packets.
    pub scrambled: u64,
    continuity: Continuity,
    pub(crate) ule: ule::Receiver,
    pub(crate) as_ule: Carried,
    pub(crate) mpe: mpe::Receiver,
    pub(crate) as_mpe: Carried,
    tables: section::Receiver,
}

impl PidStream {
    fn new(pid: Pid) -> PidStream {
        PidStream {
            packets: 0,
            continuity_errors: 0,
            duplicates: 0,
            transport_errors: 0,
            scrambled: 0,
            continuity: Continuity::default(),
            ule: ule::Receiver::new(pid, Filter::All),
            as_ule: Carried::default(),
            mpe: mpe::Receiver::new(pid, Filter::All),
            as_mpe: Carried::default(),
            tables: section::Receiver::new(pid),
        }
    }

    fn follow(&mut self, packet: &Packet<&[u8; 188]>) {
        self.packets += 1;
        if packet.has_error() {
            self.transport_errors += 1;
            return self.continuity.forget();
        }
        self.scrambled += u64::from(packet.scrambling() != 0);
        let step = self.continuity.follow(packet);
        self.continuity_errors += u64::from(step.is_error());
        self.duplicates += u64::from(step == Step::Duplicate);
    }

    /// Returns the number of SNDUs or datagrams that the end of the stream cuts.
    pub(super) fn cut_by_end(&self, encapsulation: Encapsulation) -> u64 {
        match encapsulation {
            Encapsulation::Ule => u64::from(self.ule.waiting_len() > 0),
            Encapsulation::Mpe => u64::from(self.mpe.is_waiting()),
            Encapsulation::Gse => 0,
        }
    }

    /// Returns the encapsulation with more right CRCs, if either has one.
    fn borne_out(&self) -> Option<Encapsulation> {
        let (ule, mpe) = (self.ule.counts().sndus, self.mpe.counts().datagrams);
        match ule.max(mpe) {
            0 => None,
            most if most == ule => Some(Encapsulation::Ule),
            _ => Some(Encapsulation::Mpe),
        }
    }
}

/// Role of a PID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Programme association table.
    Pat,
    /// Programme map table.
    Pmt,
    /// Service description table.
    Sdt,
    /// NULL packets.
    Null,
    /// IP by an encapsulation: ULE or MPE.
    Data(Encapsulation),
    /// Elementary stream of a type (ISO/IEC 13818-1, table 2-34).
    Elementary(u8),
    /// Neither named by a table nor borne out by CRCs.
    Unknown,
}

/// Maximum number of programme maps of an input that are kept.
const MAX_MAPS: usize = 1 << 16;

/// Service of the service description table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEntry {
    /// Running status: 4 is running.
    pub running: u8,
    /// Type and names, if the service has them.
    pub description: Option<Description>,
}

/// Contents of a stream.
#[derive(Debug)]
pub struct Survey {
    /// Contents by PID.
    pub streams: BTreeMap<Pid, PidStream>,
    /// Sections of the last programme association table by number.
    pats: BTreeMap<u8, Pat>,
    /// Services of the service description table by number.
    pub services: BTreeMap<u16, ServiceEntry>,
    /// PIDs that a PAT named for a programme map.
    named: BTreeSet<Pid>,
    /// Tables that look like a programme map, by PID and programme.
    pmts: BTreeMap<(Pid, u16), Pmt>,
    /// Sections of the service description table that were read, by number, and their version.
    sdts: BTreeMap<u8, u8>,
    /// TS packets.
    pub packets: u64,
    /// TS packets that cannot be read.
    pub malformed: u64,
    /// Baseband frames.
    pub frames: u64,
    /// Baseband frames that cannot be read.
    pub frame_errors: u64,
    /// Bytes of baseband frames.
    pub frame_bytes: u64,
    pub(crate) gse: gse::Receiver,
    /// PDUs of GSE.
    pub as_gse: Carried,
    room: Room,
    /// TS packets of PIDs beyond the room for them.
    pub beyond_room: u64,
    /// TS packets of PIDs that are not chosen.
    pub others: u64,
}

impl Default for Survey {
    fn default() -> Survey {
        Survey::new()
    }
}

impl Survey {
    /// Creates a survey of nothing.
    pub fn new() -> Survey {
        Survey {
            streams: BTreeMap::new(),
            pats: BTreeMap::new(),
            services: BTreeMap::new(),
            named: BTreeSet::new(),
            pmts: BTreeMap::new(),
            sdts: BTreeMap::new(),
            packets: 0,
            malformed: 0,
            frames: 0,
            frame_errors: 0,
            frame_bytes: 0,
            gse: gse::Receiver::new(gse::Filter::All),
            as_gse: Carried::default(),
            room: Room { pids: MAX_PIDS, maps: MAX_MAPS },
            beyond_room: 0,
            others: 0,
        }
    }

    /// Adds a TS packet or a frame.
    pub fn add(&mut self, unit: Unit<'_>) {
        match unit {
            Unit::Ts(bytes) => self.packet(bytes),
            Unit::Frame(bytes) => self.frame(bytes),
            Unit::Missing(_) => {}
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        self.frames += 1;
        self.frame_bytes += bytes.len() as u64;
        match bbframe::parse(bytes) {
            Ok((repr, field)) if repr.stream == bbframe::Stream::Continuous => {
                self.gse.push(field, |pdu| self.as_gse.count(&pdu.payload));
            }
            _ => self.frame_errors += 1,
        }
    }

    fn packet(&mut self, bytes: &[u8; 188]) {
        self.packets += 1;
        let Ok(packet) = Packet::new_checked(bytes) else {
            self.malformed += 1;
            return;
        };
        let pid = packet.pid();
        let stream = match self.streams.entry(pid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) if self.room.pids > 0 => {
                self.room.pids -= 1;
                entry.insert(PidStream::new(pid))
            }
            Entry::Vacant(_) => {
                self.beyond_room += 1;
                return;
            }
        };
        stream.follow(&packet);
        if pid == Pid::NULL {
            return;
        }
        stream.ule.push(bytes, |sndu| stream.as_ule.count(&sndu.payload));
        stream.mpe.push(bytes, |datagram| {
            stream.as_mpe.count(&ule::Payload::Pdu(datagram.ethertype, datagram.bytes))
        });
        // Taken out while its sections are read.
        let mut tables = std::mem::replace(&mut stream.tables, section::Receiver::new(pid));
        tables.push(bytes, |section| self.section(pid, section));
        if let Some(stream) = self.streams.get_mut(&pid) {
            stream.tables = tables;
        }
    }

    /// Adds a section of a table.
    pub(super) fn section(&mut self, pid: Pid, section: &[u8]) {
        match pid {
            Pid::PAT => self.pat(section),
            Pid::SDT => self.sdt(section),
            _ => {
                let Ok(pmt) = Pmt::parse(section) else { return };
                let key = (pid, pmt.number);
                if self.pmts.contains_key(&key) {
                    self.pmts.insert(key, pmt);
                } else if self.room.maps > 0 {
                    self.room.maps -= 1;
                    self.pmts.insert(key, pmt);
                }
            }
        }
    }

    fn pat(&mut self, section: &[u8]) {
        let Ok((pat, part)) = Pat::parse_part(section) else { return };
        let is_same = |other: &Pat| (other.version, other.stream_id) == (pat.version, pat.stream_id);
        self.pats.retain(|number, other| *number <= part.last && is_same(other));
        self.named.extend(pat.programmes.iter().map(|programme| programme.map));
        self.pats.insert(part.number, pat);
    }

    fn sdt(&mut self, section: &[u8]) {
        let Ok(sdt) = Sdt::parse(section) else { return };
        if !sdt.is_actual || self.sdts.get(&sdt.part.number) == Some(&sdt.version) {
            return;
        }
        if self.sdts.values().any(|version| *version != sdt.version) {
            self.sdts.clear();
            self.services.clear();
        }
        self.sdts.insert(sdt.part.number, sdt.version);
        for service in &sdt.services {
            let entry = ServiceEntry { running: service.running, description: service.description() };
            self.services.insert(service.number, entry);
        }
    }

    /// Forgets the PIDs that are not chosen.
    ///
    /// Their number of packets and what their tables name stay.
    pub(super) fn choose(&mut self, pids: &[Pid]) {
        self.streams.retain(|pid, stream| {
            let is_chosen = pids.contains(pid);
            self.others += if is_chosen { 0 } else { stream.packets };
            is_chosen
        });
    }

    /// Returns `true` if the contents of a packet's PID are kept.
    pub(super) fn describes(&self, packet: &[u8; PACKET_LEN]) -> bool {
        self.beyond_room == 0
            || Packet::new_checked(packet).is_ok_and(|packet| self.streams.contains_key(&packet.pid()))
    }

    /// Returns the number of SNDUs, datagrams and PDUs that the end of the stream cuts.
    pub(super) fn cut_by_end(&self) -> u64 {
        let of = |(pid, role): (&Pid, &Role)| match role {
            Role::Data(encapsulation) => Some(self.streams.get(pid)?.cut_by_end(*encapsulation)),
            _ => None,
        };
        self.roles().iter().filter_map(of).sum::<u64>() + self.gse.waiting() as u64
    }

    /// Returns `true` if the stream has a programme association table.
    pub fn has_pat(&self) -> bool {
        !self.pats.is_empty()
    }

    /// Returns the programmes of the last programme association table.
    pub fn programmes(&self) -> impl Iterator<Item = &Programme> {
        self.pats.values().flat_map(|pat| &pat.programmes)
    }

    /// Returns the programme maps by PID. They are those named by a PAT, or without one all candidates. A stream
    /// carried in another has its own, on any PID.
    pub fn maps(&self) -> impl Iterator<Item = (Pid, &Pmt)> {
        self.pmts.iter().filter(|((pid, _), _)| self.is_map(*pid)).map(|((pid, _), pmt)| (*pid, pmt))
    }

    fn is_map(&self, pid: Pid) -> bool {
        self.pats.is_empty() || self.named.contains(&pid)
    }

    /// Returns the map of a programme, if there is one.
    pub fn map_of(&self, programme: &Programme) -> Option<&Pmt> {
        self.pmts.get(&(programme.map, programme.number)).filter(|_| self.is_map(programme.map))
    }

    /// Returns elementary streams by PID, each with the PID of its clock.
    pub fn elementary_streams(&self) -> BTreeMap<Pid, (&Elementary, Pid)> {
        let mut all = BTreeMap::new();
        for (_, pmt) in self.maps() {
            for stream in &pmt.streams {
                all.entry(stream.pid).or_insert((stream, pmt.clock));
            }
        }
        all
    }

    /// Returns the role of each PID, as tables name it or CRCs bear it out.
    pub fn roles(&self) -> BTreeMap<Pid, Role> {
        let described = self.elementary_streams();
        let of = |(&pid, stream): (&Pid, &PidStream)| {
            (pid, self.role_of(pid, described.get(&pid).map(|(found, _)| *found), stream.borne_out()))
        };
        self.streams.iter().map(of).collect()
    }

    /// Returns the role of one PID, as [`Survey::roles`].
    pub fn role(&self, pid: Pid) -> Role {
        let described = self.maps().flat_map(|(_, pmt)| &pmt.streams).find(|stream| stream.pid == pid);
        self.role_of(pid, described, self.streams.get(&pid).and_then(PidStream::borne_out))
    }

    fn role_of(&self, pid: Pid, described: Option<&Elementary>, borne_out: Option<Encapsulation>) -> Role {
        let has_map = || self.pmts.range((pid, 0)..=(pid, u16::MAX)).next().is_some() && self.is_map(pid);
        match (pid, described) {
            (Pid::NULL, _) => Role::Null,
            (Pid::PAT, _) => Role::Pat,
            (Pid::SDT, None) if !self.sdts.is_empty() => Role::Sdt,
            _ if has_map() => Role::Pmt,
            (_, Some(stream)) if stream.is_ule() => Role::Data(Encapsulation::Ule),
            (_, Some(stream)) if stream.is_mpe() => Role::Data(Encapsulation::Mpe),
            (_, Some(stream)) => Role::Elementary(stream.kind),
            (_, None) => borne_out.map_or(Role::Unknown, Role::Data),
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::psi::Part;
    use bentpipe_wire::section::Encapsulator;
    use bentpipe_wire::si::{Service, service_descriptor};
    use bentpipe_wire::ts::Method;

    use super::*;

    /// Passes sections of a PID to a survey in TS packets.
    fn add(survey: &mut Survey, pid: Pid, sections: &[Vec<u8>]) {
        let (mut encapsulator, mut bytes) = (Encapsulator::new(pid, Method::Padding), Vec::new());
        sections.iter().for_each(|section| encapsulator.push(section, &mut bytes));
        bytes.as_chunks().0.iter().for_each(|packet| survey.add(Unit::Ts(packet)));
    }

    #[test]
    fn tables_of_many_sections_are_whole() {
        const COUNT: u16 = 10_000;
        let mut survey = Survey::new();
        let numbers: Vec<u16> = (1..=COUNT).collect();
        let map = |number: u16| Pid::new(0x20 + number % 0x1f00).expect("13 bits");
        let last = (numbers.chunks(240).count() - 1) as u8;
        let pats = numbers.chunks(240).zip(0..).map(|(numbers, number)| {
            let programmes = numbers.iter().map(|&number| Programme { number, map: map(number) }).collect();
            Pat { stream_id: 1, programmes, ..Pat::default() }.to_section_of(Part { number, last })
        });
        add(&mut survey, Pid::PAT, &pats.collect::<Vec<_>>());
        let last = (numbers.chunks(40).count() - 1) as u8;
        let sdts = numbers.chunks(40).zip(0..=last).map(|(numbers, number)| {
            let service = |number: &u16| Service {
                number: *number,
                has_schedule: false,
                has_present: false,
                running: 4,
                is_restricted: false,
                descriptors: service_descriptor(1, b"P", format!("S{number}").as_bytes()),
            };
            let (part, services) = (Part { number, last }, numbers.iter().map(service).collect());
            Sdt { stream_id: 1, network_id: 1, version: 0, is_actual: true, part, services }.to_section()
        });
        let sdts: Vec<Vec<u8>> = sdts.collect();
        add(&mut survey, Pid::SDT, &sdts);
        assert_eq!((survey.programmes().count(), survey.services.len()), (10_000, 10_000));
        let name = survey.services[&777].description.as_ref().map(|of| of.name.clone());
        assert_eq!((name.as_deref(), survey.role(Pid::SDT)), (Some("S777"), Role::Sdt));
        // Two programmes may have their maps on one PID.
        let maps = [(100, 0x1f80), (100 + 0x1f00, 0x1f81)].map(|(number, stream)| {
            let stream =
                Elementary { kind: 2, pid: Pid::new(stream).expect("13 bits"), descriptors: Vec::new() };
            let (clock, descriptors) = (stream.pid, Vec::new());
            Pmt { number, version: 0, clock, descriptors, streams: vec![stream] }.to_section()
        });
        add(&mut survey, map(100), &maps);
        let streams: Vec<u16> = survey
            .programmes()
            .filter_map(|programme| Some(survey.map_of(programme)?.streams[0].pid.number()))
            .collect();
        assert_eq!((streams, survey.elementary_streams().len()), (vec![0x1f80, 0x1f81], 2));
        // Another version replaces the table.
        let sdt = Sdt { version: 1, ..Sdt::parse(&sdts[0]).expect("an SDT") };
        add(&mut survey, Pid::SDT, &[sdt.to_section()]);
        assert_eq!(survey.services.len(), 40);
    }
}
