//! Packets of captures: IP of any link type, ROHC, frames of PPP and Ethernet.

use std::borrow::Cow;
use std::time::Duration;

use bentpipe_hc as hc;
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::link::{self, Ppp};
use bentpipe_wire::pcap::{LinkType, Record};
use bentpipe_wire::rohc::pdcp::{Pdu, SnLen};
use bentpipe_wire::rohc::ppp as ncp;
use bentpipe_wire::{Error, Kind, rtp, udp};

use crate::offload::{is_segment, with_length, without_checksum};
use crate::streams::ethertype;
use crate::{Account, LeftOut, Reason, Repair, Select, StreamId};

/// Reason in words.
pub type Refusal = (Reason, Cow<'static, str>);

/// IP or ROHC packet, as far as the capture kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of its record in the file, from 1.
    pub number: u64,
    /// Time of its record, nanoseconds since 1970.
    pub time_ns: u64,
    /// Length in bytes, of which `bytes` may be fewer.
    pub len: usize,
    /// Bytes that the capture kept.
    pub bytes: &'a [u8],
    /// Protocol field of PPP, 0 where none is read.
    pub protocol: u16,
}

impl Packet<'_> {
    /// Returns the time for a compressor or decompressor.
    pub fn at(&self) -> Duration {
        Duration::from_nanos(self.time_ns)
    }

    /// Returns `true` if bytes at the end are missing.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.len
    }
}

/// Kind of packet that a capture is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// IP packets, of any link layer.
    Ip,
    /// Every record of a raw IP capture, and the IP packets of any link layer.
    Network,
    /// ROHC packets, whole records of linktype USER0, or in frames of PPP (RFC 3241).
    Rohc {
        /// Enables large CIDs. PPP has a protocol number for either size.
        has_large_cids: bool,
        /// Records of linktype USER0 are PDUs of PDCP, with sequence numbers of this length.
        pdcp: Option<SnLen>,
    },
    /// Frames of PPP with IP, or headers compressed before ROHC (RFC 1332, 3544).
    Schemes,
    /// Ethernet frames.
    Ethernet,
}

/// Intake of the packets of captures, one in each record.
#[derive(Debug)]
pub struct Packets {
    wanted: Wanted,
    select: Select,
    account: Account,
    /// Packet whose header was repaired, or the reason of the last one left out.
    repaired: Vec<u8>,
    detail: Cow<'static, str>,
}

impl Packets {
    /// Creates an intake of selected packets.
    pub fn new(wanted: Wanted, select: Select) -> Packets {
        Packets { wanted, select, account: Account::default(), repaired: Vec::new(), detail: "".into() }
    }

    /// Returns the account of what was read.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Records that the file ends within the next record, or has a `damage` there.
    pub fn cut(&mut self, damage: Option<String>) {
        self.account.cut_in = Some(self.account.read.records + 1);
        self.account.damage = damage;
    }

    /// Returns the packet of a record.
    ///
    /// # Errors
    /// The record with its reason, if it is left out.
    pub fn take<'a>(&'a mut self, record: &Record<'a>) -> Result<Packet<'a>, LeftOut<'a>> {
        self.take_if(record, |_| Ok(()))
    }

    /// Returns the packet of a record, if the caller wants it as well.
    ///
    /// `wants` returns the reason for which it does not, such as content "that is not TCP".
    ///
    /// # Errors
    /// The record with its reason, if it is left out.
    pub fn take_if<'a>(
        &'a mut self,
        record: &Record<'a>,
        wants: impl FnOnce(&Packet<'_>) -> Result<(), Refusal>,
    ) -> Result<Packet<'a>, LeftOut<'a>> {
        let number = self.account.read_record(record.bytes.len());
        let found = self.packet(record, number).map(|packet| (packet, self.with_length(&packet)));
        let found = found.and_then(|(packet, repaired)| {
            let bytes = repaired.as_deref().unwrap_or(packet.bytes);
            wants(&Packet { bytes, ..packet })?;
            Ok((packet, repaired))
        });
        match found {
            Ok((packet, repaired)) => {
                self.account.use_record(number, record.bytes.len());
                Ok(self.repair(packet, repaired))
            }
            Err((reason, detail)) => {
                self.account.leave_out(reason, &detail, number, record.bytes.len());
                self.detail = detail;
                Err(LeftOut { number, record: *record, reason, detail: &self.detail })
            }
        }
    }

    fn packet<'a>(&self, record: &Record<'a>, number: u64) -> Result<Packet<'a>, Refusal> {
        let packet = packet_in(record, self.wanted, number)?;
        match self.admits(record, &packet) {
            true => Ok(packet),
            false => Err((Reason::NotSelected, format!("not selected by {}", self.select).into())),
        }
    }

    /// Returns `true` if interface, addresses, port and sender are selected.
    fn admits(&self, record: &Record<'_>, packet: &Packet<'_>) -> bool {
        self.select == Select::default()
            || self.select.admits_record(record) && self.select.admits_packet(packet)
    }

    /// Returns an IP packet with its length in the header, if that is 0.
    fn with_length(&self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        if self.is_ip() { with_length(packet.bytes, packet.len) } else { None }
    }

    fn is_ip(&self) -> bool {
        matches!(self.wanted, Wanted::Ip | Wanted::Network)
    }

    /// Completes the length in the header of an IP packet, and counts what offload left.
    fn repair<'a>(&'a mut self, packet: Packet<'a>, repaired: Option<Vec<u8>>) -> Packet<'a> {
        if !self.is_ip() {
            return packet;
        }
        if let Some(repaired) = repaired {
            self.account.repair(Repair::Length, 1);
            self.repaired = repaired;
            return Packet { bytes: &self.repaired, ..packet };
        }
        self.account.repair(Repair::Checksum, u64::from(without_checksum(packet.bytes)));
        self.account.repair(Repair::Segment, u64::from(is_segment(packet.bytes, packet.len)));
        packet
    }
}

fn packet_in<'a>(record: &Record<'a>, wanted: Wanted, number: u64) -> Result<Packet<'a>, Refusal> {
    let time_ns = record.time_ns.unwrap_or(0);
    match wanted {
        Wanted::Rohc { pdcp: Some(sn_len), .. } if record.link_type == LinkType::USER0 => {
            rohc_in_pdcp(record, sn_len, number)
        }
        Wanted::Rohc { pdcp: None, .. } if record.link_type == LinkType::USER0 => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Wanted::Rohc { pdcp: Some(_), .. } => {
            Err(link_type(format!("of link type {}, not 147 (USER0) with PDCP", record.link_type.0)))
        }
        Wanted::Rohc { has_large_cids, .. } => rohc_in_ppp(record, has_large_cids, number),
        Wanted::Schemes => scheme_in_ppp(record, number),
        Wanted::Ethernet if record.link_type == LinkType::ETHERNET => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Wanted::Ethernet => Err(link_type(format!("of link type {}, not 1 (Ethernet)", record.link_type.0))),
        Wanted::Network if record.link_type == LinkType::RAW => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Wanted::Ip | Wanted::Network => {
            let network =
                link::network(record.link_type, record.bytes).map_err(|error| match error.kind {
                    Kind::Unsupported("link type") => {
                        link_type(format!("of link type {}, which is not known", record.link_type.0))
                    }
                    Kind::Unsupported(_) => protocol(error.to_string()),
                    _ => malformed(record, &error),
                })?;
            if !matches!(network.ethertype, EtherType::IPV4 | EtherType::IPV6) {
                return Err(protocol(format!("{}, not IP", ethertype(network.ethertype))));
            }
            let on_link = record.original_len - network.offset;
            // Only a link pads; what is behind the packet in a raw capture was put there on purpose.
            let len =
                if record.link_type == LinkType::RAW { on_link } else { ip_len(network.bytes, on_link) };
            let bytes = &network.bytes[..network.bytes.len().min(len)];
            Ok(Packet { number, time_ns, len, bytes, protocol: 0 })
        }
    }
}

/// Returns the ROHC packet in a PPP frame (RFC 3241 2.1).
fn rohc_in_ppp<'a>(record: &Record<'a>, has_large_cids: bool, number: u64) -> Result<Packet<'a>, Refusal> {
    let ppp = ppp(record, "neither 147 (USER0) nor PPP")?;
    let (small, large) = (Ppp::ROHC_SMALL_CIDS, Ppp::ROHC_LARGE_CIDS);
    match (ppp.protocol, has_large_cids) {
        (found, false) if found == small => {}
        (found, true) if found == large => {}
        (found, _) if found == small => {
            return Err(protocol("of ROHC with small CIDs (--cid small)".to_owned()));
        }
        (found, _) if found == large => {
            return Err(protocol("of ROHC with large CIDs (--cid large)".to_owned()));
        }
        (found @ (ncp::IPCP | ncp::IPV6CP), _) => return Err(protocol(negotiation(found, ppp.bytes))),
        (found, _) => return Err(protocol(format!("of PPP protocol {found:#06x}, not ROHC"))),
    }
    Ok(in_ppp(record, &ppp, number))
}

/// Returns the content of a PPP frame.
fn in_ppp<'a>(record: &Record<'a>, ppp: &Ppp<'a>, number: u64) -> Packet<'a> {
    // What the snapshot left out was behind what it kept; PPPoE's padding is not among it.
    let cut = record.original_len.saturating_sub(record.bytes.len());
    let time_ns = record.time_ns.unwrap_or(0);
    Packet { number, time_ns, len: ppp.bytes.len() + cut, bytes: ppp.bytes, protocol: ppp.protocol }
}

/// Reads a frame of PPP.
fn ppp<'a>(record: &Record<'a>, other: &str) -> Result<Ppp<'a>, Refusal> {
    link::ppp(record.link_type, record.bytes).map_err(|error| match error.kind {
        Kind::Unsupported("link type") => link_type(format!("of link type {}, {other}", record.link_type.0)),
        Kind::Unsupported(_) => protocol(format!("without PPP, of link type {}", record.link_type.0)),
        _ => malformed(record, &error),
    })
}

/// Returns the frame of a scheme before ROHC (RFC 3544), or of IP.
fn scheme_in_ppp<'a>(record: &Record<'a>, number: u64) -> Result<Packet<'a>, Refusal> {
    let ppp = ppp(record, "not PPP")?;
    match hc::Kind::of_ppp(ppp.protocol) {
        Some(hc::Kind::ContextState) => {
            Err(protocol("of CONTEXT_STATE, which is for the other direction's compressor".to_owned()))
        }
        Some(_) => Ok(in_ppp(record, &ppp, number)),
        None => match ppp.protocol {
            found @ (ncp::IPCP | ncp::IPV6CP) => Err(protocol(negotiation(found, ppp.bytes))),
            found @ (Ppp::ROHC_SMALL_CIDS | Ppp::ROHC_LARGE_CIDS) => {
                Err(protocol(format!("of PPP protocol {found:#06x}: ROHC, which needs no --scheme")))
            }
            found => {
                Err(protocol(format!("of PPP protocol {found:#06x}, neither IP nor compressed headers")))
            }
        },
    }
}

/// Returns the ROHC packet in a PDU of PDCP.
fn rohc_in_pdcp<'a>(record: &Record<'a>, sn_len: SnLen, number: u64) -> Result<Packet<'a>, Refusal> {
    match Pdu::parse(record.bytes, sn_len).map_err(|error| malformed(record, &error))? {
        Pdu::Data { packet: bytes, .. } => {
            let cut = record.original_len.saturating_sub(record.bytes.len());
            let time_ns = record.time_ns.unwrap_or(0);
            Ok(Packet { number, time_ns, len: bytes.len() + cut, bytes, protocol: 0 })
        }
        Pdu::Feedback(_) => {
            Err(protocol("of PDCP: feedback, which is for the other direction's compressor".to_owned()))
        }
    }
}

/// Describes a packet of IPCP or IPV6CP by the ROHC channel in it.
fn negotiation(protocol: u16, bytes: &[u8]) -> String {
    let name = if protocol == ncp::IPCP { "IPCP" } else { "IPV6CP" };
    let packet = match ncp::Repr::parse(bytes) {
        Ok(packet) => packet,
        Err(error) => return format!("of {name}: {error}"),
    };
    let code = packet.code.name();
    let Some(rohc) = packet.rohc() else { return format!("of {name}: {code} without ROHC") };
    let profiles: Vec<String> = rohc.profiles.iter().map(|profile| format!("{profile:#06x}")).collect();
    let (cid, mrru) = (rohc.max_cid, rohc.mrru);
    format!("of {name}: {code} of ROHC with CIDs 0 to {cid}, MRRU {mrru}, profiles {}", profiles.join(", "))
}

impl Select {
    /// Returns `true` if addresses, port and sender of an IP packet are selected.
    pub fn admits_packet(&self, packet: &Packet<'_>) -> bool {
        let id = stream_of(packet).unwrap_or_default();
        self.admits_ends(&id) && self.admits_sender(&id)
    }
}

/// Returns the stream of an IP packet.
///
/// It has the synchronisation source of what can be RTP.
fn stream_of(packet: &Packet<'_>) -> Option<StreamId> {
    let ip = ip::Packet::new_elided(packet.bytes, packet.len - packet.bytes.len()).ok()?;
    let upper = ip.upper().ok()?;
    let first = upper.bytes.first_chunk::<4>().copied().filter(|_| !upper.is_later_fragment);
    let [a, b, c, d] = first.unwrap_or_default();
    let [from, to] = [[a, b], [c, d]].map(u16::from_be_bytes);
    let payload = upper.bytes.get(udp::HEADER_LEN..).filter(|_| upper.protocol == Protocol::UDP);
    let rtp = payload.and_then(|payload| rtp::Packet::new_elided(payload, usize::from(u16::MAX)).ok());
    let ends = Some(((ip.src(), from).into(), (ip.dst(), to).into()));
    Some(StreamId { ends, ssrc: rtp.map(|rtp| rtp.ssrc()), ..StreamId::default() })
}

fn link_type(detail: String) -> Refusal {
    (Reason::LinkType, detail.into())
}

fn protocol(detail: String) -> Refusal {
    (Reason::Protocol, detail.into())
}

/// Returns the reason of a record with a header that cannot be read.
fn malformed(record: &Record<'_>, error: &Error) -> Refusal {
    let reason = if record.is_cut() { Reason::Cut } else { Reason::Malformed };
    (reason, format!("malformed: {error}").into())
}

/// Returns the length in an IP header, if `on_link` bytes suffice for it.
fn ip_len(bytes: &[u8], on_link: usize) -> usize {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
    let len = match bytes.first().map(|first| first >> 4) {
        Some(4) => field(2).filter(|&len| len >= 20),
        // A jumbogram has zero (RFC 2675).
        Some(6) => field(4).filter(|&len| len > 0).map(|len| len + 40),
        _ => None,
    };
    len.unwrap_or(on_link).min(on_link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_wire::pcap::Options;

    fn record(link_type: LinkType, bytes: &[u8], original_len: usize) -> Record<'_> {
        let (interface_name, options) = (None, Options::default());
        Record { time_ns: Some(5), interface: 0, interface_name, link_type, original_len, bytes, options }
    }

    fn ethernet(ethertype: u16, content: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes(), content].concat()
    }

    #[test]
    fn a_link_pads_and_a_raw_capture_does_not() {
        let ip = [&[0x45, 0, 0, 21][..], &[0; 17], b"padding"].concat();
        let frame = ethernet(0x0800, &ip);
        let found = packet_in(&record(LinkType::ETHERNET, &frame, frame.len()), Wanted::Ip, 1).unwrap();
        assert_eq!((found.bytes, found.len), (&ip[..21], 21));
        let found = packet_in(&record(LinkType::RAW, &ip, ip.len()), Wanted::Ip, 1).unwrap();
        assert_eq!(found.len, 28);
    }

    #[test]
    fn a_raw_record_of_no_ip_version_is_a_packet_where_anything_can_be_carried() {
        let other = record(LinkType::RAW, &[0x13, 7], 2);
        assert!(packet_in(&other, Wanted::Ip, 1).is_err());
        assert_eq!(packet_in(&other, Wanted::Network, 1).unwrap().bytes, [0x13, 7]);
    }

    #[test]
    fn a_snapshot_keeps_the_length() {
        let ip = [&[0x60, 0, 0, 0, 0, 100, 59, 1][..], &[0; 32]].concat();
        let frame = ethernet(0x86dd, &ip);
        let found = packet_in(&record(LinkType::ETHERNET, &frame, 154), Wanted::Ip, 1).unwrap();
        assert_eq!((found.bytes.len(), found.len, found.is_cut()), (40, 140, true));
    }

    #[test]
    fn what_is_no_such_packet_is_said() {
        let arp = ethernet(0x0806, &[0; 28]);
        let why = packet_in(&record(LinkType::ETHERNET, &arp, 42), Wanted::Ip, 1).unwrap_err();
        assert_eq!(why.1, "of EtherType 0x0806 (ARP), not IP");
        let rohc = |has_large_cids| Wanted::Rohc { has_large_cids, pdcp: None };
        let why = packet_in(&record(LinkType::RAW, &[0x45], 1), rohc(false), 1).unwrap_err();
        assert!(why.1.contains("101"));
        let frame = [0xff, 3, 0, 5, 0xfd, 7];
        let found = packet_in(&record(LinkType::PPP, &frame, 9), rohc(true), 1).unwrap();
        assert_eq!((found.bytes, found.len), (&frame[4..], 5));
        let why = packet_in(&record(LinkType::PPP, &frame, 6), rohc(false), 1).unwrap_err();
        assert_eq!(why.1, "of ROHC with large CIDs (--cid large)");
        let why = packet_in(&record(LinkType::PPP, &[0xc0, 0x21, 1], 3), rohc(false), 1).unwrap_err();
        assert_eq!(why.1, "of PPP protocol 0xc021, not ROHC");
        let request = [0x80, 0x21, 1, 7, 0, 20, 2, 16, 0, 3, 0, 15, 0, 0, 0, 168, 1, 6, 0, 0, 1, 1];
        let why = packet_in(&record(LinkType::PPP, &request, 22), rohc(false), 1).unwrap_err();
        let channel = "of IPCP: Configure-Request of ROHC with CIDs 0 to 15, MRRU 0, profiles 0x0000, 0x0101";
        assert_eq!(why.1, channel);
    }
}
