//! Encapsulation of packets into TS packets, or into the data fields of BBFRAMEs.

use std::time::Duration;

use bentpipe_net::InvalidConfig;
use bentpipe_rohc::{Compressor, FlowStats, Profile};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::{EtherType, Frame, MacAddr};
use bentpipe_wire::ts::{Method, PACKET_LEN};
use bentpipe_wire::ule::Type;
use bentpipe_wire::{gse, ip, ipv6, mpe, ule};

use super::config::{Config, Encapsulation};
use super::filter::{Action, Filter, FilterDecision};

/// Kind of a packet to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IP packet of either version.
    Ip,
    /// An Ethernet frame without FCS.
    Ethernet,
}

/// A packet to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// Kind.
    pub kind: Kind,
    /// Bytes with all headers, without the elided zeros at the end.
    pub bytes: &'a [u8],
    /// Number of elided zeros.
    pub elided: usize,
}

impl<'a> Pdu<'a> {
    /// An IP packet.
    pub const fn ip(bytes: &'a [u8]) -> Pdu<'a> {
        Pdu { kind: Kind::Ip, bytes, elided: 0 }
    }

    /// An Ethernet frame without FCS.
    pub const fn ethernet(bytes: &'a [u8]) -> Pdu<'a> {
        Pdu { kind: Kind::Ethernet, bytes, elided: 0 }
    }

    /// Returns it with a number of elided zeros.
    #[must_use]
    pub const fn with_zeros(self, elided: usize) -> Pdu<'a> {
        Pdu { elided, ..self }
    }

    /// Returns the length in bytes.
    pub const fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }

    /// Returns `true` if the length is 0.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns its first `len` bytes.
    fn cut(self, len: usize) -> Pdu<'a> {
        let bytes = &self.bytes[..len.min(self.bytes.len())];
        Pdu { bytes, elided: len.saturating_sub(bytes.len()).min(self.elided), ..self }
    }
}

/// Error returned when a packet is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A rule of the filter drops it.
    #[error("dropped by the filter")]
    Dropped,
    /// Not an IP packet or Ethernet frame, or one with ROHC in it.
    #[error("neither an IP packet nor an Ethernet frame")]
    Unknown,
    /// Ethernet frame, which MPE does not carry.
    #[error("an Ethernet frame, which MPE does not carry")]
    Bridged,
    /// PDU longer than the maximum of the encapsulation.
    #[error("longer than the encapsulation carries")]
    TooLong,
    /// IPv6 packet without a length in its header. A receiver takes the header's length.
    #[error("an IPv6 packet of payload length 0: a jumbogram, or a length that offload left out")]
    Jumbo,
}

/// Counters of an encapsulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Encapsulated packets.
    pub pdus: u64,
    /// Number of bytes of the PDUs.
    pub pdu_bytes: u64,
    /// Encapsulated packets that went through ROHC.
    pub compressed: u64,
    /// Encapsulated packets that went through a profile of RTP.
    pub compressed_rtp: u64,
    /// Bytes of SNDUs, sections or GSE packets, those of GSE as if none was fragmented.
    pub sndu_bytes: u64,
    /// TS packets, or BBFRAMEs with packets of this stream.
    pub frames: u64,
    /// TS packets or BBFRAMEs that were padded after the packing threshold.
    pub flushed: u64,
    /// SNDUs of ROHC feedback.
    pub feedback: u64,
    /// Packets that the filter dropped.
    pub dropped: u64,
    /// Packets that cannot be carried.
    pub refused: u64,
}

#[derive(Debug)]
enum Carrier {
    Ule(ule::Encapsulator),
    Mpe(mpe::Encapsulator),
    Gse(gse::Encapsulator),
}

impl Carrier {
    fn is_pending(&self) -> bool {
        match self {
            Carrier::Ule(encapsulator) => encapsulator.is_pending(),
            Carrier::Mpe(encapsulator) => encapsulator.is_pending(),
            Carrier::Gse(encapsulator) => !encapsulator.is_empty(),
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            Carrier::Ule(encapsulator) => encapsulator.flush(out),
            Carrier::Mpe(encapsulator) => encapsulator.flush(out),
            Carrier::Gse(_) => {}
        }
    }
}

/// Encapsulator of a stream: filter, compressor, encapsulation on a PID of its own, packing threshold.
///
/// It is a state machine without clock or I/O. Packets are pushed with [`Encapsulator::push`]; TS packets are removed with
/// [`Encapsulator::pop`], data fields of GSE filled with [`Encapsulator::fill`]. The caller bounds the backlog: each packet
/// becomes TS packets at once.
///
/// ```
/// use bentpipe_dvb::{Config, Decapsulator, Encapsulator, Event, Pdu};
/// use bentpipe_units::Time;
///
/// let ip = [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];
/// let config = Config { rohc: Some(Default::default()), ..Config::default() };
/// let mut encapsulator = Encapsulator::new(&config)?;
/// let mut decapsulator = Decapsulator::new(&config, Default::default())?;
/// encapsulator.push(Time::ZERO, &Pdu::ip(&ip)).unwrap();
/// let packet = encapsulator.pop(Time::ZERO).expect("padding: it is sent at once");
/// let mut received = Vec::new();
/// decapsulator.push(Time::ZERO, &packet, |event| if let Event::Ip(bytes) = event {
///     received.push(bytes.to_vec());
/// });
/// assert_eq!(received, [ip]);
/// # Ok::<(), bentpipe_net::InvalidConfig>(())
/// ```
#[derive(Debug)]
pub struct Encapsulator {
    carrier: Carrier,
    compressor: Option<Compressor>,
    /// CIDs that the filter keeps and flows have.
    kept: Vec<u16>,
    filter: Filter,
    to: Option<MacAddr>,
    /// Label of GSE packets without an address of their receiver.
    label: gse::Label,
    /// GSE input stream of its own.
    stream: gse::InputStream,
    llc: bool,
    packing: Option<Span>,
    /// Time since which a partly filled TS packet, or data field, waits.
    waiting_since: Option<Time>,
    /// TS packets, those before `popped` removed.
    ready: Vec<u8>,
    popped: usize,
    pdu: Vec<u8>,
    sent: Sent,
}

/// Form of a PDU on the carrier: type and bytes.
enum Form {
    /// Unchanged.
    Plain(Type),
    /// Contents of the buffer, elided zeros, and the profile.
    Compressed(Type, usize, Profile),
}

impl Encapsulator {
    /// Creates the encapsulator of a stream.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn new(config: &Config) -> Result<Encapsulator, InvalidConfig> {
        config.check()?;
        let method = method(config);
        let pid = config.pid.pid();
        let carrier = match config.encapsulation {
            Encapsulation::Ule => Carrier::Ule(ule::Encapsulator::new(pid, method)),
            Encapsulation::Mpe => Carrier::Mpe(mpe::Encapsulator::new(pid, method)),
            Encapsulation::Gse => Carrier::Gse(gse::Encapsulator::new().re_using_labels()),
        };
        Ok(Encapsulator {
            carrier,
            compressor: config.rohc.as_ref().map(|rohc| Compressor::new(rohc.compressor())),
            kept: Vec::new(),
            filter: config.filter.clone(),
            to: config.to.map(|address| address.0),
            label: gse::Label::Broadcast,
            stream: gse::InputStream::default(),
            llc: config.llc,
            packing: config.packing,
            waiting_since: None,
            ready: Vec::new(),
            popped: 0,
            pdu: Vec::new(),
            sent: Sent::default(),
        })
    }

    /// Sets the label of GSE packets where the configuration has no address of the receiver. Default: broadcast.
    #[must_use]
    pub fn labelled(self, label: gse::Label) -> Encapsulator {
        Encapsulator { label, ..self }
    }

    /// Changes filter, packing threshold, receiver address and LLC/SNAP headers, from the next packet on. ROHC
    /// contexts, the CIDs of flows, PID, encapsulation and ROHC settings stay. Waiting data is sent when the new
    /// threshold is over, or at once without one.
    ///
    /// # Errors
    /// The key whose value is impossible; nothing is changed then.
    pub fn set(&mut self, config: &Config) -> Result<(), InvalidConfig> {
        config.check()?;
        let method = method(config);
        match &mut self.carrier {
            Carrier::Ule(encapsulator) => encapsulator.set_method(method),
            Carrier::Mpe(encapsulator) => encapsulator.set_method(method),
            Carrier::Gse(_) => {}
        }
        self.filter = config.filter.clone();
        self.packing = config.packing;
        (self.to, self.llc) = (config.to.map(|address| address.0), config.llc);
        Ok(())
    }

    /// Encapsulates a packet.
    ///
    /// # Errors
    /// Returns the reason if it is not carried; only counters are changed then.
    pub fn push(&mut self, now: Time, pdu: &Pdu<'_>) -> Result<(), Refused> {
        let done = self.carry(now, pdu);
        match done {
            Ok(()) => {
                self.sent.pdus += 1;
                self.sent.pdu_bytes += pdu.len() as u64;
            }
            Err(Refused::Dropped) => self.sent.dropped += 1,
            Err(_) => self.sent.refused += 1,
        }
        done
    }

    fn carry(&mut self, now: Time, pdu: &Pdu<'_>) -> Result<(), Refused> {
        match self.form(now, pdu)? {
            Form::Plain(kind) => self.encapsulate(now, kind, pdu.bytes, pdu.elided),
            Form::Compressed(kind, elided, profile) => {
                let buffer = std::mem::take(&mut self.pdu);
                let done = self.encapsulate(now, kind, &buffer, elided);
                self.pdu = buffer;
                let is_rtp = matches!(profile, Profile::Rtp | Profile::RtpUdpLite);
                self.sent.compressed += u64::from(done.is_ok());
                self.sent.compressed_rtp += u64::from(done.is_ok() && is_rtp);
                done
            }
        }
    }

    /// Filters a packet, and compresses it if the filter allows.
    fn form(&mut self, now: Time, pdu: &Pdu<'_>) -> Result<Form, Refused> {
        let network = Network::of(pdu)?;
        if pdu.kind == Kind::Ethernet && matches!(self.carrier, Carrier::Mpe(_)) {
            return Err(Refused::Bridged);
        }
        if network.is_rohc && self.compressor.is_some() {
            return Err(Refused::Unknown);
        }
        let plain = Form::Plain(network.carried_as());
        let Some(packet) = network.packet else {
            return match self.filter.judge(&[], pdu.len()).action {
                Action::Drop => Err(Refused::Dropped),
                _ => Ok(plain),
            };
        };
        let decision = self.filter.judge(packet.bytes, packet.elided);
        match decision.action {
            Action::Drop => Err(Refused::Dropped),
            Action::Compress if self.compressor.is_some() => {
                let compressed = self.compress(now, &decision, pdu, &network, &packet);
                Ok(compressed.unwrap_or(plain))
            }
            Action::Compress | Action::Plain => Ok(plain),
        }
    }

    /// Writes the compressed packet, behind the header of its frame if any, to the buffer.
    fn compress(
        &mut self,
        now: Time,
        decision: &FilterDecision,
        pdu: &Pdu<'_>,
        network: &Network<'_>,
        packet: &Pdu<'_>,
    ) -> Option<Form> {
        let compressor = self.compressor.as_mut()?;
        self.pdu.clear();
        if let Some(header_len) = network.header_len {
            self.pdu.extend_from_slice(&pdu.bytes[..header_len]);
            self.pdu[header_len - 2..].copy_from_slice(&EtherType::ROHC.0.to_be_bytes());
        }
        compressor.restrict(decision.profiles);
        if let Some(cid) = decision.cid.filter(|cid| !self.kept.contains(cid)) {
            let mut whole = packet.bytes.to_vec();
            whole.resize(packet.len(), 0);
            compressor.reserve_cid(cid, &whole).ok()?;
            self.kept.push(cid);
        }
        let now = Duration::from_nanos(now.as_nanos());
        let done = compressor.compress_header(now, packet.bytes, packet.len(), &mut self.pdu).ok()?;
        self.pdu.extend_from_slice(&packet.bytes[done.header_in..]);
        let kind = if network.header_len.is_some() { Type::BRIDGED } else { Type::ROHC };
        Some(Form::Compressed(kind, packet.elided, done.profile))
    }

    fn encapsulate(&mut self, now: Time, kind: Type, pdu: &[u8], elided: usize) -> Result<(), Refused> {
        let made = self.ready.len();
        let pdu_len = pdu.len() + elided;
        let sndu_len = match &mut self.carrier {
            Carrier::Ule(encapsulator) => {
                let repr = ule::Repr { npa: self.to, ..ule::Repr::new(kind) };
                let pushed = encapsulator.push_elided(&repr, pdu, elided, &mut self.ready);
                pushed.map(|()| repr.sndu_len(pdu_len)).ok()
            }
            Carrier::Mpe(encapsulator) => {
                let ethertype = Some(EtherType(kind.0)).filter(|kind| self.llc || *kind == EtherType::ROHC);
                let repr = mpe::Repr { dst: self.to.unwrap_or(MacAddr::BROADCAST), ethertype };
                let pushed = encapsulator.push_elided(&repr, pdu, elided, &mut self.ready);
                pushed.map(|()| repr.section_len(pdu_len)).ok()
            }
            Carrier::Gse(encapsulator) => {
                let label = self.to.map_or(self.label, gse::Label::Six);
                let repr = gse::Repr::new(kind, label);
                encapsulator.push_elided(&repr, pdu, elided).map(|()| repr.packet_len(pdu_len)).ok()
            }
        };
        self.sent.sndu_bytes += sndu_len.ok_or(Refused::TooLong)? as u64;
        self.after(now, self.ready.len() > made);
        Ok(())
    }

    /// Updates the time since which something waits. A TS packet begun behind a full one has just begun.
    fn after(&mut self, now: Time, filled: bool) {
        self.waiting_since = match self.waiting_since {
            _ if !self.carrier.is_pending() => None,
            Some(since) if !filled => Some(since),
            _ => Some(now),
        };
    }

    /// Returns the time at which a partly filled TS packet, or data field, is sent.
    ///
    /// It is `None` if nothing waits.
    pub fn due(&self) -> Option<Time> {
        let since = self.waiting_since?;
        // What is longer than time itself never comes.
        Some(Time::from_nanos(since.as_nanos().saturating_add(self.packing.map_or(0, Span::as_nanos))))
    }

    /// Returns `true` if a TS packet or a data field is full or overdue.
    pub fn is_ready(&self, now: Time, capacity: usize) -> bool {
        self.is_full(capacity) || self.due().is_some_and(|due| due <= now)
    }

    /// Returns `true` if a TS packet, or a data field of `capacity` bytes, is full.
    pub fn is_full(&self, capacity: usize) -> bool {
        self.popped < self.ready.len() || self.waiting_len() >= capacity
    }

    /// Returns the number of bytes that wait for data fields; 0 without GSE.
    pub fn waiting_len(&self) -> usize {
        match &self.carrier {
            Carrier::Gse(encapsulator) => encapsulator.waiting_len(),
            Carrier::Ule(_) | Carrier::Mpe(_) => 0,
        }
    }

    /// Returns `true` if a TS packet is partly filled.
    pub fn is_pending(&self) -> bool {
        self.carrier.is_pending()
    }

    /// Returns the number of TS packets filled since the start, also those not removed yet.
    pub fn filled(&self) -> u64 {
        self.sent.frames + ((self.ready.len() - self.popped) / PACKET_LEN) as u64
    }

    /// Removes and returns the next TS packet, the partly filled one if it is due. `None` with GSE.
    pub fn pop(&mut self, now: Time) -> Option<[u8; PACKET_LEN]> {
        if self.popped == self.ready.len() {
            self.ready.clear();
            self.popped = 0;
            let in_frames = matches!(self.carrier, Carrier::Gse(_));
            self.due().filter(|&due| due <= now && !in_frames)?;
            self.carrier.flush(&mut self.ready);
            self.waiting_since = None;
            self.sent.flushed += 1;
        }
        let packet = *self.ready[self.popped..].first_chunk()?;
        self.popped += PACKET_LEN;
        self.sent.frames += 1;
        Some(packet)
    }

    /// Appends a data field of at most `capacity` bytes, and returns its length.
    ///
    /// It is `None` if no data field is full or due, and without GSE.
    pub fn fill(&mut self, now: Time, capacity: usize, out: &mut Vec<u8>) -> Option<usize> {
        let is_full = self.waiting_len() >= capacity;
        if !self.is_ready(now, capacity) || !matches!(self.carrier, Carrier::Gse(_)) {
            return None;
        }
        let start = out.len();
        let mut stream = std::mem::take(&mut self.stream);
        stream.begin_field();
        while self.fill_packet(&mut stream, capacity - (out.len() - start), out) > 0 {}
        self.stream = stream;
        let len = out.len() - start;
        (len > 0).then(|| self.end_field(now, is_full))?;
        Some(len)
    }

    /// Appends one GSE packet to a data field of `stream`, and returns its length.
    ///
    /// The length is at most `room`, and 0 if nothing waits or the room does not suffice, and without GSE. Other encapsulators may
    /// fill the same data field.
    ///
    /// Other encapsulators may fill the same data field. The length is 0 if nothing waits or the room does not suffice, and
    /// without GSE.
    pub fn fill_packet(&mut self, stream: &mut gse::InputStream, room: usize, out: &mut Vec<u8>) -> usize {
        match &mut self.carrier {
            Carrier::Gse(encapsulator) => encapsulator.fill_packet(stream, room, out),
            Carrier::Ule(_) | Carrier::Mpe(_) => 0,
        }
    }

    /// Returns `true` if the first part of a PDU is sent, and the rest waits.
    pub fn is_fragmented(&self) -> bool {
        matches!(&self.carrier, Carrier::Gse(encapsulator) if encapsulator.is_fragmented())
    }

    /// Ends a data field with packets of this stream. `is_full`: the packing threshold was not the reason to send it.
    pub fn end_field(&mut self, now: Time, is_full: bool) {
        self.sent.frames += 1;
        self.sent.flushed += u64::from(!is_full);
        // The rest of a full data field begins to wait here.
        self.after(now, is_full);
    }

    /// Processes feedback elements received from the other end of this stream.
    pub fn feedback(&mut self, elements: &[u8]) {
        if let Some(compressor) = &mut self.compressor {
            compressor.feedback(elements);
        }
    }

    /// Sends feedback elements of a decompressor at this end.
    ///
    /// They are a ROHC packet of their own (RFC 3095, section 5.2.1).
    pub fn send_feedback(&mut self, now: Time, elements: &[u8]) {
        if !elements.is_empty() && self.encapsulate(now, Type::ROHC, elements, 0).is_ok() {
            self.sent.feedback += 1;
        }
    }

    /// Restarts every context, because the other end was replaced.
    pub fn reinitialize(&mut self) {
        if let Some(compressor) = &mut self.compressor {
            compressor.reinitialize();
        }
    }

    /// Returns the counters.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Returns the counters of the compressor, zero without one.
    pub fn compression(&self) -> FlowStats {
        self.compressor.as_ref().map(Compressor::stats).unwrap_or_default()
    }

    /// Returns the number of contexts of the compressor.
    pub fn contexts(&self) -> usize {
        self.compressor.as_ref().map_or(0, Compressor::contexts)
    }
}

fn method(config: &Config) -> Method {
    if config.packing.is_some() { Method::Packing } else { Method::Padding }
}

/// Position of an IP packet in a PDU.
struct Network<'a> {
    /// Length in bytes of the Ethernet header in front of it.
    header_len: Option<usize>,
    /// IP packet without the padding of its frame; `None` of another protocol.
    packet: Option<Pdu<'a>>,
    version: u8,
    is_rohc: bool,
}

/// Returns `true` if an IPv6 header of payload length 0 has a payload (RFC 2675).
fn is_jumbo(bytes: &[u8], len: usize) -> bool {
    const NO_NEXT_HEADER: u8 = 59;
    let [first, _, _, _, high, low, next, ..] = *bytes else { return false };
    first >> 4 == 6 && [high, low] == [0, 0] && next != NO_NEXT_HEADER && len > ipv6::HEADER_LEN
}

impl<'a> Network<'a> {
    fn of(pdu: &Pdu<'a>) -> Result<Network<'a>, Refused> {
        let header_len = match pdu.kind {
            Kind::Ip => None,
            Kind::Ethernet => {
                let frame = Frame::new_elided(pdu.bytes, pdu.elided).map_err(|_| Refused::Unknown)?;
                let ethertype = frame.ethertype();
                if !matches!(ethertype, EtherType::IPV4 | EtherType::IPV6) {
                    let is_rohc = ethertype == EtherType::ROHC;
                    return Ok(Network { header_len: Some(0), packet: None, version: 0, is_rohc });
                }
                Some(frame.header_len())
            }
        };
        let inner = Pdu { kind: Kind::Ip, bytes: &pdu.bytes[header_len.unwrap_or(0)..], elided: pdu.elided };
        let version = inner.bytes.first().map_or(0, |first| first >> 4);
        if header_len.is_none() && !matches!(version, 4 | 6) {
            return Err(Refused::Unknown);
        }
        let is_jumbo = is_jumbo(inner.bytes, inner.len());
        if header_len.is_none() && is_jumbo {
            return Err(Refused::Jumbo);
        }
        let len = ip::Packet::new_elided(inner.bytes, inner.elided).map(|packet| packet.total_len());
        let len = len.ok().filter(|_| !is_jumbo);
        let packet = len.filter(|len| *len <= inner.len()).map(|len| inner.cut(len));
        Ok(Network { header_len, packet, version, is_rohc: false })
    }

    /// Returns the type of the PDU if it is not compressed.
    fn carried_as(&self) -> Type {
        match (self.header_len, self.version) {
            (Some(_), _) => Type::BRIDGED,
            (None, 6) => Type::IPV6,
            (None, _) => Type::IPV4,
        }
    }
}
