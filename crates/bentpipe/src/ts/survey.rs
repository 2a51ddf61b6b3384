//! What a stream has, PID by PID.

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::ts::{Continuity, Packet, Pid, Refusal};
use bentpipe_wire::{bbframe, gse, mpe, section, ule};

use super::Format;
use super::files::Unit;

/// What is carried, by name, and how often.
pub(super) type Kinds = BTreeMap<String, u64>;

/// What one encapsulation makes of a PID, or of all frames.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) kinds: Kinds,
    /// Bytes of PDUs.
    pub(super) pdu_bytes: u64,
}

impl Carried {
    fn note(&mut self, payload: &ule::Payload<'_>) {
        let mut pdu = |name: String, len: usize| {
            *self.kinds.entry(name).or_default() += 1;
            self.pdu_bytes += len as u64;
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

/// What an EtherType is called.
pub(super) fn name(ethertype: EtherType) -> String {
    match ethertype {
        EtherType::IPV4 => "IPv4".into(),
        EtherType::IPV6 => "IPv6".into(),
        EtherType::ROHC => "ROHC".into(),
        EtherType::ARP => "ARP".into(),
        EtherType(other) => format!("{other:#06x}"),
    }
}

/// A PID, looked at as ULE and as sections at once: one of the two will have right CRCs.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) packets: u64,
    pub(super) continuity_errors: u64,
    pub(super) duplicates: u64,
    pub(super) transport_errors: u64,
    pub(super) scrambled: u64,
    continuity: Continuity,
    pub(super) ule: ule::Receiver,
    pub(super) as_ule: Carried,
    pub(super) mpe: mpe::Receiver,
    pub(super) as_mpe: Carried,
    tables: section::Receiver,
}

impl Stream {
    fn new(pid: Pid) -> Stream {
        Stream {
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
        match self.continuity.admit(packet) {
            Ok(true) => self.continuity_errors += 1,
            Err(Refusal::TransmissionError) => self.transport_errors += 1,
            Err(Refusal::Scrambled) => self.scrambled += 1,
            Err(Refusal::Duplicate) => self.duplicates += 1,
            Ok(false) | Err(Refusal::NoPayload) => {}
        }
    }

    /// Which encapsulation has more right CRCs, if any has one.
    fn borne_out(&self) -> Option<Format> {
        let (ule, mpe) = (self.ule.counts().sndus, self.mpe.counts().datagrams);
        match ule.max(mpe) {
            0 => None,
            most if most == ule => Some(Format::Ule),
            _ => Some(Format::Mpe),
        }
    }
}

/// What a PID is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Pat,
    Pmt,
    Null,
    Data(Format),
    /// An elementary stream by its type.
    Elementary(u8),
    Unknown,
}

/// What a stream has.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) streams: BTreeMap<Pid, Stream>,
    pub(super) pat: Option<Pat>,
    /// PIDs that a PAT named for a programme's map.
    named: BTreeSet<Pid>,
    /// What looks like a programme's map, by the PID that it came on.
    pmts: BTreeMap<Pid, Pmt>,
    /// TS packets, and those that are none.
    pub(super) packets: u64,
    pub(super) malformed: u64,
    /// Baseband frames, and those that could not be read.
    pub(super) frames: u64,
    pub(super) frame_errors: u64,
    pub(super) frame_bytes: u64,
    pub(super) gse: gse::Receiver,
    pub(super) as_gse: Carried,
}

impl Survey {
    pub(super) fn new() -> Survey {
        Survey {
            streams: BTreeMap::new(),
            pat: None,
            named: BTreeSet::new(),
            pmts: BTreeMap::new(),
            packets: 0,
            malformed: 0,
            frames: 0,
            frame_errors: 0,
            frame_bytes: 0,
            gse: gse::Receiver::new(gse::Filter::All),
            as_gse: Carried::default(),
        }
    }

    /// Takes in a TS packet or a frame.
    pub(super) fn add(&mut self, unit: Unit<'_>) {
        match unit {
            Unit::Ts(bytes) => self.packet(bytes),
            Unit::Frame(bytes) => self.frame(bytes),
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        self.frames += 1;
        self.frame_bytes += bytes.len() as u64;
        match bbframe::parse(bytes) {
            Ok((repr, field)) if repr.stream == bbframe::Stream::Continuous => {
                self.gse.push(field, |pdu| self.as_gse.note(&pdu.payload));
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
        let stream = self.streams.entry(pid).or_insert_with(|| Stream::new(pid));
        stream.follow(&packet);
        if pid == Pid::NULL {
            return;
        }
        stream.ule.push(bytes, |sndu| stream.as_ule.note(&sndu.payload));
        stream.mpe.push(bytes, |datagram| {
            stream.as_mpe.note(&ule::Payload::Pdu(datagram.ethertype, datagram.bytes))
        });
        let (pat, named, pmts) = (&mut self.pat, &mut self.named, &mut self.pmts);
        stream.tables.push(bytes, |section| {
            if pid == Pid::PAT {
                if let Ok(newer) = Pat::parse(section) {
                    named.extend(newer.programmes.iter().map(|programme| programme.map));
                    *pat = Some(newer);
                }
            } else if let Ok(pmt) = Pmt::parse(section) {
                pmts.insert(pid, pmt);
            }
        });
    }

    /// The programmes' maps by their PIDs: those that a PAT names, or where none came, all that look like one. A stream that is
    /// carried in another brings its own along, on whatever PID.
    pub(super) fn maps(&self) -> impl Iterator<Item = (Pid, &Pmt)> {
        let counts = |pid: &Pid| self.pat.is_none() || self.named.contains(pid);
        self.pmts.iter().filter(move |(pid, _)| counts(pid)).map(|(pid, pmt)| (*pid, pmt))
    }

    /// The programme's map on a PID, if there is one.
    pub(super) fn map_at(&self, pid: Pid) -> Option<&Pmt> {
        self.maps().find_map(|(at, pmt)| (at == pid).then_some(pmt))
    }

    /// What a PID is there for, as tables say or CRCs bear out.
    pub(super) fn role(&self, pid: Pid) -> Role {
        let described = self.maps().flat_map(|(_, pmt)| &pmt.streams).find(|stream| stream.pid == pid);
        match (pid, described) {
            (Pid::NULL, _) => Role::Null,
            (Pid::PAT, _) => Role::Pat,
            _ if self.map_at(pid).is_some() => Role::Pmt,
            (_, Some(stream)) if stream.is_ule() => Role::Data(Format::Ule),
            (_, Some(stream)) if stream.is_mpe() => Role::Data(Format::Mpe),
            (_, Some(stream)) => Role::Elementary(stream.kind),
            (_, None) => {
                let format = self.streams.get(&pid).and_then(Stream::borne_out);
                format.map_or(Role::Unknown, Role::Data)
            }
        }
    }
}
