//! Captures in and out: IP packets of any link type, ROHC packets.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Session};
use bentpipe_hc as hc;
use bentpipe_record::WholeFile;
use bentpipe_wire as wire;
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::link::{self, Ppp};
use bentpipe_wire::pcap::{self, LinkType, ReadError, Record};
use bentpipe_wire::rohc::pdcp::{Pdu, SnLen};
use bentpipe_wire::rohc::ppp as ncp;

/// Size from which reading a file takes long enough for progress to be shown.
const LONG_FILE_BYTES: u64 = 16 << 20;

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
pub enum Content {
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

/// Count of the records skipped for one reason.
#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    records: u64,
    /// Number of the first.
    first: u64,
}

/// Capture that is being read.
pub struct Capture {
    path: PathBuf,
    reader: pcap::Reader<Box<dyn Read>>,
    content: Content,
    records: u64,
    skipped: BTreeMap<String, Skipped>,
    /// The file ends within a record.
    is_truncated: bool,
}

impl Capture {
    /// Opens a file, or standard input for "-".
    ///
    /// # Errors
    /// Returns an error if it cannot be read or is not a capture.
    pub fn open(path: &Path, content: Content, session: &dyn Session) -> Result<Capture, Error> {
        let source = source(path, session).map_err(|source| Error::Open { path: path.into(), source })?;
        Capture::new(path, source, content)
    }

    fn new(path: &Path, source: Box<dyn Read>, content: Content) -> Result<Capture, Error> {
        let reader = pcap::Reader::new(source).map_err(|source| Error::Read { path: path.into(), source })?;
        let (records, skipped) = (0, BTreeMap::new());
        Ok(Capture { path: path.into(), reader, content, records, skipped, is_truncated: false })
    }

    /// Passes every packet to `each`, until the end or until `each` returns `false`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read on, or `each` fails. A last record that is cut short is the end of the file.
    pub fn for_each(
        &mut self,
        mut each: impl FnMut(&Packet<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        loop {
            let record = match self.reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(error) if is_cut_short(&error) => {
                    self.is_truncated = true;
                    return Ok(());
                }
                Err(source) => {
                    let (path, number) = (self.path.clone(), self.records + 1);
                    return Err(Error::Record { path, number, source });
                }
            };
            self.records += 1;
            match packet(&record, self.content, self.records) {
                Ok(packet) if !each(&packet)? => return Ok(()),
                Ok(_) => {}
                Err(why) => self.skip(why),
            }
        }
    }
}

impl Capture {
    fn skip(&mut self, why: String) {
        let first = Skipped { records: 0, first: self.records };
        self.skipped.entry(why).or_insert(first).records += 1;
    }

    /// Describes the records without such a packet, and an end within a record.
    pub fn remarks(&self) -> Vec<String> {
        let path = self.path.display();
        let skipped = self.skipped.iter().map(|(why, skipped)| match skipped.records {
            1 => format!("{path}: skipped record {}: {why}", skipped.first),
            records => format!("{path}: skipped {records} records, the first is {}: {why}", skipped.first),
        });
        let cut = self.is_truncated.then(|| cut_remark(&self.path, self.records + 1));
        skipped.chain(cut).collect()
    }

    /// Returns `true` if records were skipped.
    pub(crate) fn has_skipped(&self) -> bool {
        !self.skipped.is_empty()
    }

    /// Checks that the capture had a packet of the kind.
    ///
    /// # Errors
    /// Returns an error if there are records, and none holds one.
    pub(crate) fn check_found(&self) -> Result<(), Error> {
        let skipped: u64 = self.skipped.values().map(|skipped| skipped.records).sum();
        let most = self.skipped.iter().max_by_key(|(_, skipped)| skipped.records);
        let Some((why, _)) = most.filter(|_| skipped == self.records) else { return Ok(()) };
        let wanted = match self.content {
            Content::Rohc { .. } => "ROHC packets",
            Content::Schemes => "compressed headers",
            _ => "IP packets",
        };
        Err(Error::Usage(format!("{}: no {wanted}: records are {why}", self.path.display())))
    }
}

/// Opens a file, or standard input for "-"; the session tracks a long one.
pub(crate) fn source(path: &Path, session: &dyn Session) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = bentpipe_paths::open(path)?;
    let len_bytes = file.metadata()?.len();
    if len_bytes < LONG_FILE_BYTES {
        return Ok(Box::new(BufReader::new(file)));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 18, session.track(file, len_bytes))))
}

/// Returns the remark on a capture that ends within a record.
pub(crate) fn cut_remark(path: &Path, record: u64) -> String {
    format!("{}: the capture ends within record {record}; it was read up to there", path.display())
}

/// Returns `true` if the file ends too early, as after a killed capture.
pub(crate) fn is_cut_short(error: &ReadError) -> bool {
    matches!(error, ReadError::Format(wire::Error { kind: wire::Kind::Truncated { .. }, .. }))
}

fn packet<'a>(record: &Record<'a>, content: Content, number: u64) -> Result<Packet<'a>, String> {
    let time_ns = record.time_ns.unwrap_or(0);
    match content {
        Content::Rohc { pdcp: Some(sn_len), .. } if record.link_type == LinkType::USER0 => {
            rohc_in_pdcp(record, sn_len, number)
        }
        Content::Rohc { pdcp: None, .. } if record.link_type == LinkType::USER0 => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Content::Rohc { pdcp: Some(_), .. } => {
            Err(format!("of link type {}, not 147 (USER0) with PDCP", record.link_type.0))
        }
        Content::Rohc { has_large_cids, .. } => rohc_in_ppp(record, has_large_cids, number),
        Content::Schemes => scheme_in_ppp(record, number),
        Content::Ethernet if record.link_type == LinkType::ETHERNET => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Content::Ethernet => Err(format!("of link type {}, not 1 (Ethernet)", record.link_type.0)),
        Content::Network if record.link_type == LinkType::RAW => {
            Ok(Packet { number, time_ns, len: record.original_len, bytes: record.bytes, protocol: 0 })
        }
        Content::Ip | Content::Network => {
            let network =
                link::network(record.link_type, record.bytes).map_err(|error| match error.kind {
                    wire::Kind::Unsupported("link type") => {
                        format!("of link type {}, which is not known", record.link_type.0)
                    }
                    _ => error.to_string(),
                })?;
            if !matches!(network.ethertype, EtherType::IPV4 | EtherType::IPV6) {
                return Err(format!("{}, not IP", protocol(network.ethertype)));
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
fn rohc_in_ppp<'a>(record: &Record<'a>, has_large_cids: bool, number: u64) -> Result<Packet<'a>, String> {
    let ppp = ppp(record, "neither 147 (USER0) nor PPP")?;
    let (small, large) = (Ppp::ROHC_SMALL_CIDS, Ppp::ROHC_LARGE_CIDS);
    match (ppp.protocol, has_large_cids) {
        (protocol, false) if protocol == small => {}
        (protocol, true) if protocol == large => {}
        (protocol, _) if protocol == small => return Err("of ROHC with small CIDs (--cid small)".to_owned()),
        (protocol, _) if protocol == large => return Err("of ROHC with large CIDs (--cid large)".to_owned()),
        (protocol @ (ncp::IPCP | ncp::IPV6CP), _) => return Err(negotiation(protocol, ppp.bytes)),
        (protocol, _) => return Err(format!("of PPP protocol {protocol:#06x}, not ROHC")),
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
fn ppp<'a>(record: &Record<'a>, other: &str) -> Result<Ppp<'a>, String> {
    link::ppp(record.link_type, record.bytes).map_err(|error| match error.kind {
        wire::Kind::Unsupported("link type") => {
            format!("of link type {}, {other}", record.link_type.0)
        }
        wire::Kind::Unsupported(_) => format!("without PPP, of link type {}", record.link_type.0),
        _ => error.to_string(),
    })
}

/// Returns the frame of a scheme before ROHC (RFC 3544), or of IP.
fn scheme_in_ppp<'a>(record: &Record<'a>, number: u64) -> Result<Packet<'a>, String> {
    let ppp = ppp(record, "not PPP")?;
    match hc::Kind::of_ppp(ppp.protocol) {
        Some(hc::Kind::ContextState) => {
            Err("of CONTEXT_STATE, which is for the other direction's compressor".to_owned())
        }
        Some(_) => Ok(in_ppp(record, &ppp, number)),
        None => match ppp.protocol {
            protocol @ (ncp::IPCP | ncp::IPV6CP) => Err(negotiation(protocol, ppp.bytes)),
            protocol @ (Ppp::ROHC_SMALL_CIDS | Ppp::ROHC_LARGE_CIDS) => {
                Err(format!("of PPP protocol {protocol:#06x}: ROHC, which needs no --scheme"))
            }
            protocol => Err(format!("of PPP protocol {protocol:#06x}, neither IP nor compressed headers")),
        },
    }
}

/// Returns the ROHC packet in a PDU of PDCP.
fn rohc_in_pdcp<'a>(record: &Record<'a>, sn_len: SnLen, number: u64) -> Result<Packet<'a>, String> {
    match Pdu::parse(record.bytes, sn_len).map_err(|error| error.to_string())? {
        Pdu::Data { packet: bytes, .. } => {
            let cut = record.original_len.saturating_sub(record.bytes.len());
            let time_ns = record.time_ns.unwrap_or(0);
            Ok(Packet { number, time_ns, len: bytes.len() + cut, bytes, protocol: 0 })
        }
        Pdu::Feedback(_) => {
            Err("of PDCP: feedback, which is for the other direction's compressor".to_owned())
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

/// Describes the protocol of a frame by its EtherType.
fn protocol(ethertype: EtherType) -> String {
    let name = match ethertype {
        EtherType::ARP => " (ARP)",
        EtherType(0x8863) => " (PPPoE discovery)",
        EtherType(0x88cc) => " (LLDP)",
        EtherType(0x8847) => " (MPLS)",
        EtherType(0x888e) => " (EAPOL)",
        _ => "",
    };
    format!("of EtherType {:#06x}{name}", ethertype.0)
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

/// Capture that is being written.
pub struct Output {
    path: PathBuf,
    writer: pcap::Writer<Sink>,
    /// Number of records read.
    pub records: u64,
}

impl Output {
    /// Creates a file, or writes to standard output for "-".
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or is `input`.
    pub fn create(path: &Path, link_type: LinkType, input: &Path) -> Result<Output, Error> {
        if is_same(path, input) {
            return Err(Error::Usage(format!("{} would overwrite what is read", path.display())));
        }
        let writer = Sink::create(path).and_then(|sink| pcap::Writer::with_micros(sink, link_type));
        let writer = writer.map_err(|source| Error::Write { path: path.into(), source })?;
        Ok(Output { path: path.into(), writer, records: 0 })
    }

    /// Writes a packet of `len` bytes, of which `bytes` are known.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], len: usize) -> Result<(), Error> {
        self.records += 1;
        self.writer
            .write_kept(time_ns, bytes, len)
            .map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Writes out the buffer, and gives the file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.writer.into_inner().finish().map_err(|source| Error::Write { path: self.path, source })
    }
}

/// Returns `true` if both are the same file.
pub(crate) fn is_same(output: &Path, input: &Path) -> bool {
    match (output.canonicalize(), input.canonicalize()) {
        (Ok(output), Ok(input)) => output == input && output.is_file(),
        _ => false,
    }
}

/// Standard output, or a file that appears under its name once it is finished.
pub(crate) enum Sink {
    Stdout(BufWriter<StdoutLock<'static>>),
    File(WholeFile),
}

impl Sink {
    /// Creates a file, or writes to standard output for "-", buffered.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Sink> {
        if path == Path::new("-") {
            return Ok(Sink::Stdout(BufWriter::new(io::stdout().lock())));
        }
        WholeFile::create(path).map(Sink::File)
    }

    /// Writes out the buffer, and gives a file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Sink::Stdout(mut stdout) => stdout.flush(),
            Sink::File(file) => file.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(link_type: LinkType, bytes: &[u8], original_len: usize) -> Record<'_> {
        Record { time_ns: Some(5), link_type, original_len, bytes }
    }

    fn ethernet(ethertype: u16, content: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes(), content].concat()
    }

    #[test]
    fn a_link_pads_and_a_raw_capture_does_not() {
        let ip = [&[0x45, 0, 0, 21][..], &[0; 17], b"padding"].concat();
        let frame = ethernet(0x0800, &ip);
        let found = packet(&record(LinkType::ETHERNET, &frame, frame.len()), Content::Ip, 1).unwrap();
        assert_eq!((found.bytes, found.len), (&ip[..21], 21));
        let found = packet(&record(LinkType::RAW, &ip, ip.len()), Content::Ip, 1).unwrap();
        assert_eq!(found.len, 28);
    }

    #[test]
    fn a_raw_record_of_no_ip_version_is_a_packet_where_anything_can_be_carried() {
        let other = record(LinkType::RAW, &[0x13, 7], 2);
        assert!(packet(&other, Content::Ip, 1).is_err());
        assert_eq!(packet(&other, Content::Network, 1).unwrap().bytes, [0x13, 7]);
    }

    #[test]
    fn a_snapshot_keeps_the_length() {
        let ip = [&[0x60, 0, 0, 0, 0, 100, 59, 1][..], &[0; 32]].concat();
        let frame = ethernet(0x86dd, &ip);
        let found = packet(&record(LinkType::ETHERNET, &frame, 154), Content::Ip, 1).unwrap();
        assert_eq!((found.bytes.len(), found.len, found.is_cut()), (40, 140, true));
    }

    #[test]
    fn what_is_no_such_packet_is_said() {
        let arp = ethernet(0x0806, &[0; 28]);
        let why = packet(&record(LinkType::ETHERNET, &arp, 42), Content::Ip, 1).unwrap_err();
        assert_eq!(why, "of EtherType 0x0806 (ARP), not IP");
        let rohc = |has_large_cids| Content::Rohc { has_large_cids, pdcp: None };
        let why = packet(&record(LinkType::RAW, &[0x45], 1), rohc(false), 1).unwrap_err();
        assert!(why.contains("101"));
        let frame = [0xff, 3, 0, 5, 0xfd, 7];
        let found = packet(&record(LinkType::PPP, &frame, 9), rohc(true), 1).unwrap();
        assert_eq!((found.bytes, found.len), (&frame[4..], 5));
        let why = packet(&record(LinkType::PPP, &frame, 6), rohc(false), 1).unwrap_err();
        assert_eq!(why, "of ROHC with large CIDs (--cid large)");
        let why = packet(&record(LinkType::PPP, &[0xc0, 0x21, 1], 3), rohc(false), 1).unwrap_err();
        assert_eq!(why, "of PPP protocol 0xc021, not ROHC");
        let request = [0x80, 0x21, 1, 7, 0, 20, 2, 16, 0, 3, 0, 15, 0, 0, 0, 168, 1, 6, 0, 0, 1, 1];
        let why = packet(&record(LinkType::PPP, &request, 22), rohc(false), 1).unwrap_err();
        let channel = "of IPCP: Configure-Request of ROHC with CIDs 0 to 15, MRRU 0, profiles 0x0000, 0x0101";
        assert_eq!(why, channel);
    }

    #[test]
    fn a_file_that_ends_within_a_record_is_read_up_to_there() {
        let mut writer = pcap::Writer::new(Vec::new(), LinkType::USER0).unwrap();
        writer.write(1, &[0xfd, 1, 2], 0).unwrap();
        let mut file = writer.into_inner();
        file.extend([0, 0]);
        let source = Box::new(io::Cursor::new(file));
        let mut capture =
            Capture::new(Path::new("x"), source, Content::Rohc { has_large_cids: false, pdcp: None })
                .unwrap();
        let mut found = Vec::new();
        let mut keep = |packet: &Packet<'_>| {
            found.extend_from_slice(packet.bytes);
            Ok(true)
        };
        capture.for_each(&mut keep).unwrap();
        assert_eq!(found, [0xfd, 1, 2]);
        assert_eq!(capture.remarks(), ["x: the capture ends within record 2; it was read up to there"]);
    }
}
