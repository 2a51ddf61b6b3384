//! Transport streams and baseband frames out of captures and files, each stream by itself.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, ADAPTATION_LEN, Deframer};
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::ip::fragments::Reassembler;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::pcap::{LinkType, OptionsBuf, Record};
use bentpipe_wire::rtp::{self, Numbers, Place};
use bentpipe_wire::ts::{PACKET_LEN, RTP_PAYLOAD_TYPE, SYNC};
use bentpipe_wire::{Kind, link, udp};

use crate::offload::with_length;
use crate::{Account, Joint, Layout, Reason, Repair, Select, StreamId};

/// Most streams that are kept apart.
pub const MAX_STREAMS: usize = 1000;
/// Most senders of short datagrams in which packets are searched for at a time.
pub const MAX_PENDING: usize = 64;
/// Most short datagrams of a sender that are searched.
const MAX_HELD: usize = 16;
/// Longest record that waits with its datagram, in bytes.
const MAX_HELD_LEN: usize = 2048;
/// Longest options that wait with their record, in bytes.
const MAX_OPTIONS_LEN: usize = 512;
/// Most fragments, and bytes of their records, that wait for others.
const MAX_FRAGMENTS: [usize; 2] = [1 << 14, 1 << 23];
/// Length from which a datagram shows by itself whether it has packets.
const LONG: usize = 640;

/// Unit of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'a> {
    /// A TS packet.
    Ts(&'a [u8; PACKET_LEN]),
    /// A baseband frame.
    Frame(&'a [u8]),
}

/// Record that is left out.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut<'a> {
    /// Number of the record in the file, from 1.
    pub number: u64,
    /// The record as it was read.
    pub record: Record<'a>,
    /// Kind of the reason.
    pub reason: Reason,
    /// The reason in words.
    pub detail: &'a str,
}

/// Receiver of what was taken in.
pub trait Sink {
    /// Receives a unit of the stream with this place in [`Streams::entries`], and its time.
    fn unit(&mut self, stream: usize, time_ns: Option<u64>, unit: Unit<'_>);

    /// Receives a record that is left out.
    fn left_out(&mut self, left_out: &LeftOut<'_>) {
        let _ = left_out;
    }
}

/// Stream that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamEntry {
    /// Identity.
    pub id: StreamId,
    /// Datagrams, or records of TS packets.
    pub datagrams: u64,
    /// TS packets.
    pub packets: u64,
    /// Baseband frames.
    pub frames: u64,
    /// RTP packets that are missing by their numbers.
    pub missing: u64,
    /// Bytes of its datagrams, or of the file, that belong to no packet.
    pub outside: u64,
    /// Layout of the last packets.
    pub layout: Option<Layout>,
}

/// State of a stream.
#[derive(Debug, Default)]
struct State {
    entry: StreamEntry,
    joint: Joint,
    deframer: Deframer,
    numbers: Option<Numbers>,
}

/// Copy of a record whose use is not decided yet.
#[derive(Debug)]
struct Kept {
    number: u64,
    time_ns: Option<u64>,
    interface: u32,
    interface_name: Option<String>,
    link_type: LinkType,
    original_len: usize,
    bytes: Vec<u8>,
    options: OptionsBuf,
}

impl Kept {
    fn new(number: u64, record: &Record<'_>) -> Kept {
        Kept {
            number,
            time_ns: record.time_ns,
            interface: record.interface,
            interface_name: record.interface_name.map(str::to_owned),
            link_type: record.link_type,
            original_len: record.original_len,
            bytes: record.bytes.to_vec(),
            options: record.options.copied(MAX_OPTIONS_LEN),
        }
    }

    fn record(&self) -> Record<'_> {
        Record {
            time_ns: self.time_ns,
            interface: self.interface,
            interface_name: self.interface_name.as_deref(),
            link_type: self.link_type,
            original_len: self.original_len,
            bytes: &self.bytes,
            options: self.options.options(),
        }
    }
}

/// Records of fragments whose datagram was given up.
type Dropped = Arc<Mutex<Vec<Kept>>>;

/// Record of a fragment. If the reassembly drops it, it is in the list of the dropped.
#[derive(Debug)]
struct Fragment {
    kept: Option<Kept>,
    dropped: Dropped,
}

impl Drop for Fragment {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
    }
}

/// Sender of short datagrams that may have packets.
#[derive(Debug)]
struct Pending {
    id: StreamId,
    joint: Joint,
    held: Vec<Kept>,
    is_given_up: bool,
}

/// Records that a datagram came in.
enum Origin<'a> {
    Record(u64, &'a Record<'a>),
    Kept(Vec<Kept>),
}

/// Reason in words.
type Refusal = (Reason, Cow<'static, str>);

/// Datagram within a record.
enum Content<'a> {
    Datagram(StreamId, &'a [u8]),
    /// IP packet that is a fragment.
    Fragment(&'a [u8]),
}

/// Intake of transport streams and baseband frames.
#[derive(Debug, Default)]
pub struct Streams {
    select: Select,
    account: Account,
    states: Vec<State>,
    places: HashMap<StreamId, usize>,
    last: Option<(StreamId, usize)>,
    pending: VecDeque<Pending>,
    fragments: Reassembler<Fragment>,
    /// Fragments that wait, and bytes of their records.
    waiting: [usize; 2],
    dropped: Dropped,
}

impl Streams {
    /// Creates an intake of the selected streams.
    pub fn new(select: Select) -> Streams {
        Streams { select, ..Streams::default() }
    }

    /// Returns the streams that were found, in the order of their first packets.
    pub fn entries(&self) -> impl Iterator<Item = StreamEntry> {
        let entry = |State { entry, joint, .. }: &State| StreamEntry {
            outside: joint.outside(),
            layout: joint.layout(),
            ..*entry
        };
        self.states.iter().map(entry)
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

    /// Handles a record of a capture.
    pub fn record<S: Sink>(&mut self, record: &Record<'_>, sink: &mut S) {
        let number = self.account.read_record(record.bytes.len());
        let origin = Origin::Record(number, record);
        if !self.select.admits_record(record) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        if record.link_type == LinkType::MPEG_2_TS {
            let id = StreamId { interface: record.interface, ..StreamId::default() };
            return self.datagram(id, record.bytes, record.time_ns, origin, sink);
        }
        let repaired = repaired(record);
        self.account.repair(Repair::Length, u64::from(repaired.is_some()));
        let view = match &repaired {
            Some(bytes) => {
                let original_len = bytes.len() + record.original_len - record.bytes.len();
                Record { link_type: LinkType::RAW, original_len, bytes, ..*record }
            }
            None => *record,
        };
        match content(&view) {
            Ok(Content::Datagram(id, bytes)) => self.datagram(id, bytes, record.time_ns, origin, sink),
            Ok(Content::Fragment(packet)) => self.fragment(number, record, packet, sink),
            Err(refusal) => self.refuse(origin, refusal, sink),
        }
    }

    /// Handles the next bytes of a file of packets.
    pub fn bytes<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) {
        self.account.read_bytes(bytes.len());
        let place = self.bare();
        let State { entry, joint, .. } = &mut self.states[place];
        joint.bytes(bytes, |packet| {
            entry.packets += 1;
            sink.unit(place, None, Unit::Ts(packet));
        });
    }

    /// Returns the place of the one stream of a file of packets.
    fn bare(&mut self) -> usize {
        if self.states.is_empty() {
            self.states.push(State::default());
        }
        0
    }

    /// Ends the input: what waits is used or left out.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) {
        self.give_up_fragments(sink);
        for pending in std::mem::take(&mut self.pending) {
            self.refuse(Origin::Kept(pending.held), no_packets(), sink);
        }
        if self.account.read.records == 0 && !self.states.is_empty() {
            return self.finish_bytes(sink);
        }
        for State { joint, .. } in &self.states {
            self.account.outside_bytes += joint.outside();
            self.account.repair(Repair::Joined, joint.joined());
        }
    }

    fn finish_bytes<S: Sink>(&mut self, sink: &mut S) {
        let State { entry, joint, .. } = &mut self.states[0];
        joint.end(|packet| {
            entry.packets += 1;
            sink.unit(0, None, Unit::Ts(packet));
        });
        let outside = if entry.packets == 0 { self.account.read.bytes } else { joint.outside() };
        self.account.leave_out_bytes(Reason::Outside, "bytes outside packets", outside, 0);
        self.account.use_bytes(self.account.read.bytes - outside, 0);
        if entry.packets == 0 {
            self.states.clear();
        }
    }

    fn not_selected(&self) -> Refusal {
        (Reason::NotSelected, format!("not selected by {}", self.select).into())
    }

    fn accept(&mut self, origin: Origin<'_>) {
        match origin {
            Origin::Record(number, record) => self.account.use_record(number, record.bytes.len()),
            Origin::Kept(all) => {
                all.iter().for_each(|kept| self.account.use_record(kept.number, kept.bytes.len()));
            }
        }
    }

    fn refuse<S: Sink>(&mut self, origin: Origin<'_>, (reason, detail): Refusal, sink: &mut S) {
        let mut leave = |number, record: Record<'_>| {
            self.account.leave_out(reason, &detail, number, record.bytes.len());
            sink.left_out(&LeftOut { number, record, reason, detail: &detail });
        };
        match origin {
            Origin::Record(number, record) => leave(number, *record),
            Origin::Kept(all) => all.iter().for_each(|kept| leave(kept.number, kept.record())),
        }
    }

    /// Handles a fragment, and the datagram that it completes.
    fn fragment<S: Sink>(&mut self, number: u64, record: &Record<'_>, packet: &[u8], sink: &mut S) {
        let [count, bytes] = [self.waiting[0] + 1, self.waiting[1] + record.bytes.len()];
        if count > MAX_FRAGMENTS[0] || bytes > MAX_FRAGMENTS[1] {
            self.give_up_fragments(sink);
        }
        let kept = Kept::new(number, record);
        self.wait(&kept);
        let kept = Some(kept);
        let attached = Fragment { kept, dropped: Arc::clone(&self.dropped) };
        let now = Time::from_nanos(record.time_ns.unwrap_or(0));
        let whole = self.fragments.add_with(packet, now, attached);
        self.drop_fragments(sink);
        let Some((packet, mut attached)) = whole else { return };
        let all: Vec<Kept> = attached.iter_mut().filter_map(|fragment| fragment.kept.take()).collect();
        self.wait_no_longer(&all);
        let count = all.len() as u64;
        let whole =
            Record { link_type: LinkType::RAW, original_len: packet.len(), bytes: &packet, ..*record };
        match content(&whole) {
            Ok(Content::Datagram(id, bytes)) => {
                self.account.repair(Repair::Reassembled, count);
                self.datagram(id, bytes, record.time_ns, Origin::Kept(all), sink);
            }
            Ok(Content::Fragment(_)) => self.refuse(Origin::Kept(all), incomplete(), sink),
            Err(refusal) => self.refuse(Origin::Kept(all), refusal, sink),
        }
    }

    /// Drops the datagrams that are incomplete.
    fn give_up_fragments<S: Sink>(&mut self, sink: &mut S) {
        drop(std::mem::take(&mut self.fragments));
        self.drop_fragments(sink);
    }

    fn wait(&mut self, fragment: &Kept) {
        self.waiting[0] += 1;
        self.waiting[1] += fragment.bytes.len();
    }

    fn wait_no_longer(&mut self, all: &[Kept]) {
        self.waiting[0] -= all.len();
        self.waiting[1] -= all.iter().map(|fragment| fragment.bytes.len()).sum::<usize>();
    }

    fn drop_fragments<S: Sink>(&mut self, sink: &mut S) {
        let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        if !dropped.is_empty() {
            self.wait_no_longer(&dropped);
            self.refuse(Origin::Kept(dropped), incomplete(), sink);
        }
    }

    /// Handles a datagram of packets, plain or in RTP, or of a baseband frame.
    fn datagram<S: Sink>(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        time_ns: Option<u64>,
        origin: Origin<'_>,
        sink: &mut S,
    ) {
        if !self.select.admits_ends(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        if bbframe::Adaptation::parse(bytes).is_ok() {
            return self.frame(id, &bytes[ADAPTATION_LEN..], time_ns, origin, sink);
        }
        if let Some(packet) = rtp_of(bytes)
            && self.is_rtp(&id, &packet, bytes)
        {
            return self.rtp(id, &packet, time_ns, origin, sink);
        }
        let place = self.place(&id);
        if place.is_none() && !Joint::is_start(bytes) {
            return self.short(id, bytes, origin, sink);
        }
        if !self.select.admits_sender(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        let Some(place) = place.or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        match self.pieces(place, bytes, time_ns, sink) {
            true => self.accept(origin),
            false => self.refuse(origin, no_packets(), sink),
        }
    }

    /// Returns `true` if what may be RTP is not a piece of a plain stream.
    fn is_rtp(&mut self, id: &StreamId, packet: &Rtp<'_>, bytes: &[u8]) -> bool {
        if self.place(&StreamId { ssrc: Some(packet.ssrc), ..*id }).is_some() {
            return true;
        }
        if self.place(id).is_some_and(|place| self.states[place].joint.goes_on(bytes)) {
            return false;
        }
        let is_likely = packet.payload_type == RTP_PAYLOAD_TYPE || packet.payload.first() == Some(&SYNC);
        Joint::is_whole(packet.payload) || is_likely && Joint::is_start(packet.payload)
    }

    /// Returns the place of a stream that is known.
    fn place(&mut self, id: &StreamId) -> Option<usize> {
        if let Some((last, place)) = &self.last
            && last == id
        {
            return Some(*place);
        }
        let place = *self.places.get(id)?;
        self.last = Some((*id, place));
        Some(place)
    }

    fn begin(&mut self, id: StreamId) -> Option<usize> {
        let place = self.states.len();
        if place == MAX_STREAMS {
            return None;
        }
        self.states.push(State { entry: StreamEntry { id, ..StreamEntry::default() }, ..State::default() });
        self.places.insert(id, place);
        Some(place)
    }

    /// Returns `true` if a datagram is one of the stream, whose packets are passed on.
    fn pieces<S: Sink>(&mut self, place: usize, bytes: &[u8], time_ns: Option<u64>, sink: &mut S) -> bool {
        let State { entry, joint, .. } = &mut self.states[place];
        let is_used = joint.datagram(bytes, |packet| {
            entry.packets += 1;
            sink.unit(place, time_ns, Unit::Ts(packet));
        });
        entry.datagrams += u64::from(is_used);
        is_used
    }

    fn frame<S: Sink>(
        &mut self,
        id: StreamId,
        frame: &[u8],
        time_ns: Option<u64>,
        origin: Origin<'_>,
        sink: &mut S,
    ) {
        let Ok((repr, field)) = bbframe::parse(frame) else {
            let detail = "of baseband frames that cannot be read".into();
            return self.refuse(origin, (Reason::Malformed, detail), sink);
        };
        let id = StreamId { isi: repr.input, ..id };
        if !self.select.admits_sender(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        let Some(place) = self.place(&id).or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        let State { entry, deframer, .. } = &mut self.states[place];
        entry.datagrams += 1;
        if repr.stream == bbframe::Stream::Transport {
            deframer.push(&repr, field, |packet| {
                entry.packets += 1;
                sink.unit(place, time_ns, Unit::Ts(packet));
            });
        } else {
            entry.frames += 1;
            sink.unit(place, time_ns, Unit::Frame(frame));
        }
        self.accept(origin);
    }

    /// Handles RTP of any payload type.
    fn rtp<S: Sink>(
        &mut self,
        id: StreamId,
        packet: &Rtp<'_>,
        time_ns: Option<u64>,
        origin: Origin<'_>,
        sink: &mut S,
    ) {
        let id = StreamId { ssrc: Some(packet.ssrc), ..id };
        if !self.select.admits_sender(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        let Some(place) = self.place(&id).or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        if self.follow(place, packet.seq) {
            let detail = "of RTP packets that came before".into();
            return self.refuse(origin, (Reason::Duplicate, detail), sink);
        }
        if self.pieces(place, packet.payload, time_ns, sink) {
            return self.accept(origin);
        }
        self.refuse(origin, (Reason::Content, "of RTP without TS packets".into()), sink);
    }

    /// Returns `true` if a packet came before, by the numbers of its sender.
    fn follow(&mut self, place: usize, seq: u16) -> bool {
        let State { entry, joint, numbers, .. } = &mut self.states[place];
        let Some(numbers) = numbers else {
            *numbers = Some(Numbers::begin(seq));
            return false;
        };
        match numbers.take(seq) {
            Place::Duplicate => return true,
            Place::Ahead(0) | Place::Restart => {}
            Place::Ahead(missing) => {
                entry.missing += u64::from(missing);
                joint.lose();
            }
            Place::Late(_) => {
                entry.missing = entry.missing.saturating_sub(1);
                joint.lose();
            }
            Place::Jump => joint.lose(),
        }
        false
    }

    /// Handles a datagram that does not show packets by itself.
    fn short<S: Sink>(&mut self, id: StreamId, bytes: &[u8], origin: Origin<'_>, sink: &mut S) {
        let Origin::Record(number, record) = &origin else {
            return self.refuse(origin, no_packets(), sink);
        };
        let is_held = record.bytes.len() <= MAX_HELD_LEN;
        if bytes.is_empty() || bytes.len() >= LONG || !is_held || self.place(&id).is_some() {
            return self.refuse(origin, no_packets(), sink);
        }
        let at = match self.pending.iter().position(|pending| pending.id == id) {
            Some(at) => at,
            None => self.begin_pending(id, sink),
        };
        if self.pending[at].is_given_up {
            return self.refuse(origin, no_packets(), sink);
        }
        let (time_ns, mut packets) = (record.time_ns, Vec::new());
        let Pending { joint, held, .. } = &mut self.pending[at];
        held.push(Kept::new(*number, record));
        joint.bytes(bytes, |packet| packets.push(*packet));
        if !packets.is_empty() {
            return self.promote(at, &packets, time_ns, sink);
        }
        if held.len() == MAX_HELD {
            let held = std::mem::take(held);
            self.pending[at].is_given_up = true;
            self.refuse(Origin::Kept(held), no_packets(), sink);
        }
    }

    /// Begins to search the datagrams of a sender.
    ///
    /// The oldest is given up if there are too many.
    fn begin_pending<S: Sink>(&mut self, id: StreamId, sink: &mut S) -> usize {
        if self.pending.len() == MAX_PENDING
            && let Some(oldest) = self.pending.pop_front()
        {
            self.refuse(Origin::Kept(oldest.held), no_packets(), sink);
        }
        self.pending.push_back(Pending { id, joint: Joint::new(), held: Vec::new(), is_given_up: false });
        self.pending.len() - 1
    }

    /// Begins the stream of a sender in whose datagrams packets were found.
    fn promote<S: Sink>(
        &mut self,
        at: usize,
        packets: &[[u8; PACKET_LEN]],
        time_ns: Option<u64>,
        sink: &mut S,
    ) {
        let Some(Pending { id, joint, held, .. }) = self.pending.remove(at) else { return };
        if !self.select.admits_sender(&id) {
            return self.refuse(Origin::Kept(held), self.not_selected(), sink);
        }
        let Some(place) = self.begin(id) else {
            return self.refuse(Origin::Kept(held), too_many(), sink);
        };
        let entry = &mut self.states[place].entry;
        (entry.datagrams, entry.packets) = (held.len() as u64, packets.len() as u64);
        self.states[place].joint = joint;
        packets.iter().for_each(|packet| sink.unit(place, time_ns, Unit::Ts(packet)));
        self.accept(Origin::Kept(held));
    }
}

fn no_packets() -> Refusal {
    (Reason::Content, "of UDP without TS packets".into())
}

fn incomplete() -> Refusal {
    (Reason::Fragment, "of incomplete fragments".into())
}

fn too_many() -> Refusal {
    (Reason::Streams, format!("of more than {MAX_STREAMS} streams").into())
}

/// RTP packet.
struct Rtp<'a> {
    ssrc: u32,
    seq: u16,
    payload_type: u8,
    payload: &'a [u8],
}

/// Returns the RTP packet in a datagram; RTCP has other types (RFC 5761, section 4).
fn rtp_of(bytes: &[u8]) -> Option<Rtp<'_>> {
    let packet = rtp::Packet::new_checked(bytes).ok()?;
    let is_rtcp = (192..=223).contains(&bytes[1]);
    let payload = &bytes[packet.header_len()..bytes.len() - packet.padding_len()];
    let (ssrc, seq, payload_type) = (packet.ssrc(), packet.seq(), packet.payload_type());
    (!is_rtcp).then_some(Rtp { ssrc, seq, payload_type, payload })
}

/// Returns the datagram or fragment in a record.
fn content<'a>(record: &Record<'a>) -> Result<Content<'a>, Refusal> {
    let network = link::network(record.link_type, record.bytes).map_err(|error| match error.kind {
        Kind::Unsupported("link type") => {
            (Reason::LinkType, format!("of link type {}", record.link_type.0).into())
        }
        Kind::Unsupported(_) => (Reason::Protocol, format!("without IP: {error}").into()),
        _ => broken(record, "frames"),
    })?;
    if !matches!(network.ethertype, EtherType::IPV4 | EtherType::IPV6) {
        return Err((Reason::Protocol, ethertype(network.ethertype).into()));
    }
    let packet = ip::Packet::new_checked(network.bytes).map_err(|_| broken(record, "IP packets"))?;
    let upper = packet.upper().map_err(|_| broken(record, "IP packets"))?;
    if upper.is_fragment {
        return Ok(Content::Fragment(network.bytes));
    }
    if upper.protocol != Protocol::UDP {
        return Err((Reason::Protocol, format!("of {}", name_of(upper.protocol)).into()));
    }
    let datagram = &network.bytes[upper.offset..upper.offset + upper.bytes.len()];
    let [a, b, c, d, high, low, _, _, payload @ ..] = datagram else {
        return Err(broken(record, "UDP datagrams"));
    };
    // Offload leaves 0 in datagrams that are cut into several behind the capture.
    let payload = match usize::from(u16::from_be_bytes([*high, *low])) {
        0 => payload,
        len => len
            .checked_sub(udp::HEADER_LEN)
            .and_then(|len| payload.get(..len))
            .ok_or_else(|| broken(record, "UDP datagrams"))?,
    };
    let port = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
    let from = SocketAddr::new(packet.src(), port(a, b));
    let to = SocketAddr::new(packet.dst(), port(c, d));
    let id = StreamId { interface: record.interface, ends: Some((from, to)), ..StreamId::default() };
    Ok(Content::Datagram(id, payload))
}

/// Returns the IP packet of a record without a length in its header, with it.
fn repaired(record: &Record<'_>) -> Option<Vec<u8>> {
    let network = link::network(record.link_type, record.bytes).ok()?;
    with_length(network.bytes, record.original_len - network.offset)
}

/// Returns the reason of a record whose header cannot be read.
fn broken(record: &Record<'_>, what: &str) -> Refusal {
    match record.is_cut() {
        true => (Reason::Cut, format!("of {what} that the capture cut").into()),
        false => (Reason::Malformed, format!("of malformed {what}").into()),
    }
}

/// Describes the protocol of a frame by its EtherType.
pub(crate) fn ethertype(ethertype: EtherType) -> String {
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

fn name_of(protocol: Protocol) -> String {
    match protocol.0 {
        1 => "ICMP".to_owned(),
        2 => "IGMP".to_owned(),
        6 => "TCP".to_owned(),
        58 => "ICMPv6".to_owned(),
        other => format!("IP protocol {other}"),
    }
}
