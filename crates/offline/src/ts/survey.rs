//! Contents of a stream by PID.

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_dvb::Encapsulation;
use bentpipe_wire::ethernet::{EtherType, Filter};
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::ts::{Continuity, Packet, Pid, Refusal};
use bentpipe_wire::{bbframe, gse, mpe, section, ule};

use super::files::Unit;

/// Number of PDUs by the name of their kind.
pub type Kinds = BTreeMap<String, u64>;

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

/// Returns the name of an EtherType.
fn name(ethertype: EtherType) -> String {
    match ethertype {
        EtherType::IPV4 => "IPv4".into(),
        EtherType::IPV6 => "IPv6".into(),
        EtherType::ROHC => "ROHC".into(),
        EtherType::ARP => "ARP".into(),
        EtherType(other) => format!("{other:#06x}"),
    }
}

/// Contents of a PID, read both as ULE and as sections. One of the two has correct CRCs.
#[derive(Debug)]
pub struct PidStream {
    /// TS packets.
    pub packets: u64,
    /// Gaps of the continuity counter.
    pub continuity_errors: u64,
    /// Repeated TS packets.
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
        match self.continuity.admit(packet) {
            Ok(true) => self.continuity_errors += 1,
            Err(Refusal::TransmissionError) => self.transport_errors += 1,
            Err(Refusal::Scrambled) => self.scrambled += 1,
            Err(Refusal::Duplicate) => self.duplicates += 1,
            Ok(false) | Err(Refusal::NoPayload) => {}
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
    /// NULL packets.
    Null,
    /// IP by an encapsulation: ULE or MPE.
    Data(Encapsulation),
    /// Elementary stream of a type (ISO/IEC 13818-1, table 2-34).
    Elementary(u8),
    /// Neither named by a table nor borne out by CRCs.
    Unknown,
}

/// Contents of a stream.
#[derive(Debug)]
pub struct Survey {
    /// Contents by PID.
    pub streams: BTreeMap<Pid, PidStream>,
    /// Last programme association table.
    pub pat: Option<Pat>,
    /// PIDs that a PAT named for a programme map.
    named: BTreeSet<Pid>,
    /// Tables that look like a programme map, by PID.
    pmts: BTreeMap<Pid, Pmt>,
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

    /// Adds a TS packet or a frame.
    pub fn add(&mut self, unit: Unit<'_>) {
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
        let stream = self.streams.entry(pid).or_insert_with(|| PidStream::new(pid));
        stream.follow(&packet);
        if pid == Pid::NULL {
            return;
        }
        stream.ule.push(bytes, |sndu| stream.as_ule.count(&sndu.payload));
        stream.mpe.push(bytes, |datagram| {
            stream.as_mpe.count(&ule::Payload::Pdu(datagram.ethertype, datagram.bytes))
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

    /// Returns the programme maps by PID. They are those named by a PAT, or without one all candidates. A stream
    /// carried in another has its own, on any PID.
    pub fn maps(&self) -> impl Iterator<Item = (Pid, &Pmt)> {
        let counts = |pid: &Pid| self.pat.is_none() || self.named.contains(pid);
        self.pmts.iter().filter(move |(pid, _)| counts(pid)).map(|(pid, pmt)| (*pid, pmt))
    }

    /// Returns the programme map on a PID, if there is one.
    pub fn map_at(&self, pid: Pid) -> Option<&Pmt> {
        self.maps().find_map(|(at, pmt)| (at == pid).then_some(pmt))
    }

    /// Returns the role of a PID, as tables name it or CRCs bear it out.
    pub fn role(&self, pid: Pid) -> Role {
        let described = self.maps().flat_map(|(_, pmt)| &pmt.streams).find(|stream| stream.pid == pid);
        match (pid, described) {
            (Pid::NULL, _) => Role::Null,
            (Pid::PAT, _) => Role::Pat,
            _ if self.map_at(pid).is_some() => Role::Pmt,
            (_, Some(stream)) if stream.is_ule() => Role::Data(Encapsulation::Ule),
            (_, Some(stream)) if stream.is_mpe() => Role::Data(Encapsulation::Mpe),
            (_, Some(stream)) => Role::Elementary(stream.kind),
            (_, None) => {
                let format = self.streams.get(&pid).and_then(PidStream::borne_out);
                format.map_or(Role::Unknown, Role::Data)
            }
        }
    }
}
