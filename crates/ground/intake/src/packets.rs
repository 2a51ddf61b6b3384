//! Packets of captures: IP of any link type, ROHC, frames of PPP and Ethernet.

use bentpipe_hc as hc;
use bentpipe_rohc::DecompressorConfig;
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::link::{self, Ppp};
use bentpipe_wire::pcap::{Damaged, LinkType, Reader, Record};
use bentpipe_wire::rohc::pdcp::{Pdu, SnLen};
use bentpipe_wire::rohc::ppp as ncp;
use bentpipe_wire::{Error, Kind, rtp, udp};

use crate::duplicates::Duplicates;
use crate::kept::{Fragments, GivenUp, Kept, is_one};
use crate::offload::{ip_len, is_over, is_segment, with_length, without_checksum};
use crate::refusal::{EachLeftOut, Refusal, copied, ethertype, incomplete, mixed};
use crate::rohc::Restoration;
use crate::{Account, Echo, LeftOut, Link, Packet, Reason, Repair, Select, StreamId, Wanted};

/// Packet, and its bytes if their length was repaired.
type Found<'a> = (Packet<'a>, Option<Vec<u8>>);

/// Intake of the packets of captures, one in each record or in several fragments.
#[derive(Debug)]
pub struct Packets {
    wanted: Wanted,
    select: Select,
    account: Account,
    fragments: Fragments,
    duplicates: Duplicates,
    /// Packet whose header was repaired, or that was put together.
    repaired: Vec<u8>,
    rohc: Option<Box<Restoration>>,
    keeps_copies: bool,
}

impl Packets {
    /// Creates an intake of selected packets.
    pub fn new(wanted: Wanted, select: Select) -> Packets {
        let (account, fragments, duplicates) =
            (Account::of_records(), Fragments::default(), Duplicates::default());
        let (repaired, rohc, keeps_copies) = (Vec::new(), None, false);
        Packets { wanted, select, account, fragments, duplicates, repaired, rohc, keeps_copies }
    }

    /// Uses copies of packets too.
    #[must_use]
    pub fn keeping_copies(self) -> Packets {
        Packets { keeps_copies: true, ..self }
    }

    /// Returns the contents that come again, if most do.
    pub fn echo(&self) -> Option<Echo> {
        self.duplicates.echo()
    }

    /// Creates an intake of ROHC packets, whose IP packets are restored and selected.
    pub fn restoring(config: DecompressorConfig, select: Select) -> Packets {
        let (rohc, of_records) = Restoration::new(config, select);
        let packets = Packets::new(rohc.wanted(), of_records);
        Packets { rohc: Some(Box::new(rohc)), ..packets }
    }

    /// Returns the account of what was read.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the kind of packet that records are read for.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Records that the file ends within the next record, or has a `damage` there.
    pub fn cut(&mut self, damage: Option<String>) {
        self.account.cut_in = Some(self.account.read.records + 1);
        self.account.damage = damage;
    }

    /// Records that blocks of the file are damaged.
    pub fn damaged(&mut self, damaged: Option<Damaged>) {
        self.account.damaged = damaged;
    }

    /// Returns the packet of a record, or that its fragment completes.
    pub fn take<'a>(&'a mut self, record: &Record<'a>, left_out: &mut EachLeftOut<'_>) -> Option<Packet<'a>> {
        self.take_if(record, |_| Ok(()), left_out)
    }

    /// Returns the packet of a record, if the caller wants it as well.
    ///
    /// `wants` returns the reason for which it does not, such as content "that is not TCP". `left_out` gets the records that are
    /// left out. These have none, nor has a fragment that waits for others.
    pub fn take_if<'a>(
        &'a mut self,
        record: &Record<'a>,
        wants: impl FnOnce(&Packet<'_>) -> Result<(), Refusal>,
        left_out: &mut EachLeftOut<'_>,
    ) -> Option<Packet<'a>> {
        let Some(mut rohc) = self.rohc.take() else { return self.take_plain(record, wants, left_out) };
        let mut len = 0;
        let wants = |packet: &Packet<'_>| {
            len = rohc.restore(packet)?;
            wants(&Packet { len, bytes: rohc.ip(), ..*packet })
        };
        let taken = self.take_plain(record, wants, left_out);
        let taken =
            taken.map(|Packet { number, link, time_ns, protocol, .. }| (number, link, time_ns, protocol));
        let bytes = self.rohc.insert(rohc).ip();
        taken.map(|(number, link, time_ns, protocol)| Packet { number, link, time_ns, len, bytes, protocol })
    }

    fn take_plain<'a>(
        &'a mut self,
        record: &Record<'a>,
        wants: impl FnOnce(&Packet<'_>) -> Result<(), Refusal>,
        left_out: &mut EachLeftOut<'_>,
    ) -> Option<Packet<'a>> {
        let number = self.account.read_record(record.bytes.len());
        let found = self.packet(record, number);
        if let Ok((packet, None)) = &found
            && self.is_fragment(packet)
        {
            return self.fragment(packet, record, wants, left_out);
        }
        let found = found.and_then(|(packet, repaired)| {
            let bytes = repaired.as_deref().unwrap_or(packet.bytes);
            wants(&Packet { bytes, ..packet })?;
            Ok((packet, repaired))
        });
        match found {
            Ok((packet, repaired)) => {
                self.account.use_record(number, record.bytes.len());
                Some(self.repair(packet, repaired))
            }
            Err(refusal) => {
                self.leave_out(number, record, &refusal, left_out);
                None
            }
        }
    }

    /// Learns which streams are mirrored, from the start of a capture.
    pub fn learn(&mut self, start: &[u8]) {
        let Ok(mut reader) = Reader::new(start) else { return };
        while let Ok(Some(record)) = reader.next_record() {
            if let Ok(packet) = packet_in(&record, self.wanted, 0) {
                let packet = Packet { link: Link::of(&record), ..packet };
                let repaired = self.with_length(&packet);
                let seen = Packet { bytes: repaired.as_deref().unwrap_or(packet.bytes), ..packet };
                if !self.admits(&record, &seen) {
                    continue;
                }
                self.is_copy(&record, &packet, repaired.as_deref());
            }
        }
        self.duplicates.begin();
    }

    /// Ends the input: fragments that wait are left out.
    pub fn finish(&mut self, left_out: &mut EachLeftOut<'_>) {
        self.fragments.give_up();
        self.refuse_dropped(left_out);
    }

    fn leave_out(
        &mut self,
        number: u64,
        record: &Record<'_>,
        (reason, detail): &Refusal,
        left_out: &mut EachLeftOut<'_>,
    ) {
        self.account.leave_out(*reason, detail, number, record.bytes.len());
        left_out(&LeftOut { number, record: *record, reason: *reason, detail });
    }

    fn refuse(&mut self, all: &[Kept], refusal: &Refusal, left_out: &mut EachLeftOut<'_>) {
        all.iter().for_each(|kept| self.leave_out(kept.number, &kept.record(), refusal, left_out));
    }

    fn refuse_dropped(&mut self, left_out: &mut EachLeftOut<'_>) {
        let GivenUp { copies, incomplete: rest } = self.fragments.dropped();
        self.refuse(&copies, &copied(), left_out);
        self.refuse(&rest, &incomplete(), left_out);
    }

    /// Returns `true` for a fragment that can be put together with others.
    fn is_fragment(&self, packet: &Packet<'_>) -> bool {
        let upper = || Some(ip::Packet::new_checked(packet.bytes).ok()?.upper().ok()?.is_fragment);
        self.reassembles() && !packet.is_cut() && upper() == Some(true)
    }

    /// Returns `true` if fragments are put together. Only the first one has a port and a sender to choose by.
    fn reassembles(&self) -> bool {
        let has_choice = self.select.port.is_some() || self.select.ssrc.is_some();
        self.wanted == Wanted::Datagrams || has_choice && self.is_ip()
    }

    /// Returns the packet that a fragment completes.
    fn fragment<'a>(
        &'a mut self,
        packet: &Packet<'_>,
        record: &Record<'_>,
        wants: impl FnOnce(&Packet<'_>) -> Result<(), Refusal>,
        left_out: &mut EachLeftOut<'_>,
    ) -> Option<Packet<'a>> {
        let &Packet { number, link, time_ns, .. } = packet;
        let whole = self.fragments.add(number, link, record, packet.bytes);
        self.refuse_dropped(left_out);
        let (bytes, all) = whole?;
        let whole = Packet { len: bytes.len(), bytes: &bytes, ..*packet };
        let refusal = if !self.select.admits_packet(&whole) {
            Some(self.not_selected())
        } else if !is_one(&bytes) {
            Some(mixed())
        } else if self.leaves_out_copies()
            && self.duplicates.is_copy_of_fragments(&bytes, record.time_ns, link)
        {
            Some(copied())
        } else {
            wants(&whole).err()
        };
        if let Some(refusal) = refusal {
            self.refuse(&all, &refusal, left_out);
            return None;
        }
        all.iter().for_each(|kept| self.account.use_record(kept.number, kept.bytes.len()));
        self.account.repair(Repair::Reassembled, all.len() as u64);
        self.repaired = bytes;
        Some(Packet { number, link, time_ns, len: self.repaired.len(), bytes: &self.repaired, protocol: 0 })
    }

    /// Returns the packet of a record, and its bytes if their length was repaired.
    fn packet<'a>(&mut self, record: &Record<'a>, number: u64) -> Result<Found<'a>, Refusal> {
        let packet = Packet { link: Link::of(record), ..packet_in(record, self.wanted, number)? };
        let repaired = self.with_length(&packet);
        let seen = Packet { bytes: repaired.as_deref().unwrap_or(packet.bytes), ..packet };
        if !self.admits(record, &seen) {
            self.account.note_interface(record);
            return Err(self.not_selected());
        }
        if self.is_ip() && repaired.is_none() && is_over(packet.bytes, packet.len) {
            return Err(over());
        }
        match self.is_copy(record, &packet, repaired.as_deref()) {
            true => Err(copied()),
            false => Ok((packet, repaired)),
        }
    }

    /// Returns `true` if a packet is a copy, which is left out.
    fn is_copy(&mut self, record: &Record<'_>, packet: &Packet<'_>, repaired: Option<&[u8]>) -> bool {
        let bytes = repaired.unwrap_or(packet.bytes);
        self.leaves_out_copies() && self.duplicates.is_copy(bytes, packet.len, record.time_ns, packet.link)
    }

    /// Returns `true` if copies are left out. What is compressed comes back packet by packet, copies included.
    fn leaves_out_copies(&self) -> bool {
        !self.keeps_copies && matches!(self.wanted, Wanted::Ip | Wanted::Datagrams | Wanted::Distinct)
    }

    fn not_selected(&self) -> Refusal {
        (Reason::NotSelected, format!("not selected by {}", self.select).into())
    }

    /// Returns `true` if interface, VLAN, addresses, port and sender are selected.
    ///
    /// Addresses and ports of fragments are known once they are put together.
    fn admits(&self, record: &Record<'_>, packet: &Packet<'_>) -> bool {
        self.select == Select::default()
            || self.select.admits_record(record, &packet.link)
                && (self.is_fragment(packet) || self.select.admits_packet(packet))
    }

    /// Returns an IP packet with its length in the header, if that is 0.
    fn with_length(&self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        if self.is_ip() { with_length(packet.bytes, packet.len) } else { None }
    }

    fn is_ip(&self) -> bool {
        matches!(self.wanted, Wanted::Ip | Wanted::Datagrams | Wanted::Network | Wanted::Distinct)
    }

    /// Completes the length in the header of an IP packet, and counts what offload left.
    fn repair<'a>(&'a mut self, packet: Packet<'a>, repaired: Option<Vec<u8>>) -> Packet<'a> {
        if !self.is_ip() {
            return packet;
        }
        if let Some(repaired) = repaired {
            self.account.repair(Repair::Length, 1);
            self.account.repair(Repair::Cut, u64::from(repaired.len() < packet.len));
            self.repaired = repaired;
            return Packet { bytes: &self.repaired, ..packet };
        }
        self.account.repair(Repair::Cut, u64::from(packet.is_cut()));
        self.account.repair(Repair::Checksum, u64::from(without_checksum(packet.bytes)));
        self.account.repair(Repair::Segment, u64::from(is_segment(packet.bytes, packet.len)));
        packet
    }
}

/// Returns all of a record as a packet.
fn whole<'a>(record: &Record<'a>, number: u64) -> Packet<'a> {
    Packet {
        number,
        time_ns: record.time_ns.unwrap_or(0),
        len: record.original_len,
        bytes: record.bytes,
        ..Packet::default()
    }
}

pub(crate) fn packet_in<'a>(record: &Record<'a>, wanted: Wanted, number: u64) -> Result<Packet<'a>, Refusal> {
    match wanted {
        Wanted::Rohc { pdcp: Some(sn_len), .. } if record.link_type == LinkType::USER0 => {
            rohc_in_pdcp(record, sn_len, number)
        }
        Wanted::Rohc { pdcp: None, .. } if record.link_type == LinkType::USER0 => Ok(whole(record, number)),
        Wanted::Rohc { pdcp: Some(_), .. } => {
            Err(link_type(format!("of link type {}, not 147 (USER0) with PDCP", record.link_type.0)))
        }
        Wanted::Rohc { has_large_cids, .. } => {
            rohc_in_ethernet(record, number).map_or_else(|| rohc_in_ppp(record, has_large_cids, number), Ok)
        }
        Wanted::Schemes => scheme_in_ppp(record, number),
        Wanted::Ethernet if record.link_type == LinkType::ETHERNET => Ok(whole(record, number)),
        Wanted::Ethernet => Err(link_type(format!("of link type {}, not 1 (Ethernet)", record.link_type.0))),
        Wanted::Network | Wanted::Distinct if record.link_type == LinkType::RAW => Ok(whole(record, number)),
        Wanted::Ip | Wanted::Datagrams | Wanted::Network | Wanted::Distinct => {
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
            Ok(Packet { len, bytes, ..whole(record, number) })
        }
    }
}

/// Returns the ROHC packet in a frame with ROHC's EtherType.
///
/// What pads a short frame counts as a part of the packet, as the frame has no length of it.
fn rohc_in_ethernet<'a>(record: &Record<'a>, number: u64) -> Option<Packet<'a>> {
    let network = link::network(record.link_type, record.bytes).ok()?;
    let len = record.original_len.checked_sub(network.offset)?;
    (network.ethertype == EtherType::ROHC).then(|| Packet {
        len,
        bytes: network.bytes,
        ..whole(record, number)
    })
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
    Packet { len: ppp.bytes.len() + cut, bytes: ppp.bytes, protocol: ppp.protocol, ..whole(record, number) }
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
            Ok(Packet { len: bytes.len() + cut, bytes, ..whole(record, number) })
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

/// Returns the reason of a packet whose length no header has.
fn over() -> Refusal {
    (Reason::Long, "of packets over 65,535 bytes, as of BIG TCP and jumbograms".into())
}

fn protocol(detail: String) -> Refusal {
    (Reason::Protocol, detail.into())
}

/// Returns the reason of a record with a header that cannot be read.
fn malformed(record: &Record<'_>, error: &Error) -> Refusal {
    let reason = if record.is_cut() { Reason::Cut } else { Reason::Malformed };
    (reason, format!("malformed: {error}").into())
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

    #[test]
    fn fragments_are_put_together_and_copies_left_out() {
        let mut datagram = vec![0x45, 0, 0, 228, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        datagram.extend([15, 160, 19, 140, 0, 208, 0, 0]);
        datagram.extend((0..200).map(|n| n as u8));
        let mut all = ip::fragments::split_at_source(&datagram, 100, 9).expect("fragments");
        all.insert(1, all[0].clone());
        all.push(datagram.clone());
        all.push(ip::fragments::split_at_source(&datagram, 100, 10).expect("fragments").remove(0));
        let select = Select { port: Some(5004), ..Select::default() };
        let all_of = |wanted| (wanted, Select::default(), 5);
        for (wanted, select, count) in
            [(Wanted::Datagrams, select.clone(), 2), (Wanted::Ip, select, 2), all_of(Wanted::Ip)]
        {
            let (mut packets, mut left_out, mut lens) = (Packets::new(wanted, select), 0, Vec::new());
            for bytes in &all {
                let record = record(LinkType::RAW, bytes, bytes.len());
                lens.extend(packets.take(&record, &mut |_| left_out += 1).map(|packet| packet.len));
            }
            packets.finish(&mut |_| left_out += 1);
            let (account, out) = (packets.account(), packets.account().left_out_sum().records);
            assert_eq!((account.used.records + out, out), (all.len() as u64, left_out), "{account}");
            assert_eq!((lens.len(), account.duplicated()), (count, 1), "{account}");
        }
    }
}
