//! Transport streams and baseband frames out of captures and files, each stream by itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_rohc::DecompressorConfig;
use bentpipe_wire::bbframe::{self, ADAPTATION_LEN, Deframer};
use bentpipe_wire::link;
use bentpipe_wire::pcap::{Damaged, LinkType, Options, Reader, Record};
use bentpipe_wire::rtp::{self, Numbers, Place};
use bentpipe_wire::ts::{PACKET_LEN, RTP_PAYLOAD_TYPE, SYNC};

use crate::content::{Content, content, repaired, restored};
use crate::duplicates::Duplicates;
use crate::hitless::Merged;
use crate::kept::{Fragments, GivenUp, Kept, is_one};
use crate::offload::ip_len;
use crate::refusal::{Refusal, copied, incomplete, mixed};
use crate::rohc::Restoration;
use crate::{
    Account, Echo, Gaps, Joint, Layout, LeftOut, Link, Reason, Repair, Select, StreamId, SyncFaults,
};

mod legs;

/// Most streams that are kept apart.
pub const MAX_STREAMS: usize = 1000;
/// Most senders of short datagrams in which packets are searched for at a time.
pub const MAX_PENDING: usize = 64;
/// Most short datagrams of a sender that are searched.
const MAX_HELD: usize = 16;
/// Longest record that waits with its datagram, in bytes.
const MAX_HELD_LEN: usize = 2048;
/// Length from which a datagram shows by itself whether it has packets.
const LONG: usize = 640;

/// Unit of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'a> {
    /// A TS packet.
    Ts(&'a [u8; PACKET_LEN]),
    /// A baseband frame.
    Frame(&'a [u8]),
    /// TS packets that are missing in front of the next one.
    ///
    /// The places of sync bytes or the numbers of RTP show them.
    Missing(u64),
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
    /// RTP packets that came on a leg once their place had passed on all.
    pub late: u64,
    /// Restarts of the sender of RTP. What was lost around them is not known.
    pub restarts: u64,
    /// Bytes of its datagrams, or of the file, that belong to no packet.
    pub outside: u64,
    /// Faults of synchronisation.
    pub faults: SyncFaults,
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

impl State {
    fn entry(&self) -> StreamEntry {
        let State { entry, joint, .. } = self;
        StreamEntry { outside: joint.outside(), faults: joint.faults(), layout: joint.layout(), ..*entry }
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

/// Intake of transport streams and baseband frames.
#[derive(Debug, Default)]
pub struct Streams {
    select: Select,
    account: Account,
    states: Vec<State>,
    places: HashMap<StreamId, usize>,
    last: Option<(StreamId, usize)>,
    pending: VecDeque<Pending>,
    /// Senders of baseband frames, without input stream.
    framed: HashSet<StreamId>,
    fragments: Fragments,
    duplicates: Duplicates,
    rohc: Option<Box<Restoration>>,
    /// Streams of several legs, if legs are merged.
    merged: Option<Vec<Merged>>,
    keeps_copies: bool,
}

impl Streams {
    /// Creates an intake of the selected streams.
    pub fn new(select: Select) -> Streams {
        Streams { select, ..Streams::default() }
    }

    /// Creates an intake of the selected streams in the IP packets that ROHC packets have.
    pub fn restoring(config: DecompressorConfig, select: Select) -> Streams {
        let (rohc, _) = Restoration::new(config, select.clone());
        Streams { rohc: Some(Box::new(rohc)), ..Streams::new(select) }
    }

    /// Uses copies of packets too.
    #[must_use]
    pub fn keeping_copies(self) -> Streams {
        Streams { keeps_copies: true, ..self }
    }

    /// Returns the contents that come again, if most do.
    pub fn echo(&self) -> Option<Echo> {
        self.duplicates.echo()
    }

    /// Returns the streams that were found, in the order of their first packets.
    pub fn entries(&self) -> impl Iterator<Item = StreamEntry> {
        self.states.iter().map(State::entry)
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

    /// Records that blocks of the file are damaged.
    pub fn damaged(&mut self, damaged: Option<Damaged>) {
        self.account.damaged = damaged;
    }

    /// Handles a record of a capture.
    pub fn record<S: Sink>(&mut self, record: &Record<'_>, sink: &mut S) {
        let number = self.account.read_record(record.bytes.len());
        let (origin, link) = (Origin::Record(number, record), Link::of(record));
        if !self.select.admits_record(record, &link) {
            self.account.note_interface(record);
            return self.refuse(origin, self.not_selected(), sink);
        }
        if let Some(mut rohc) = self.rohc.take() {
            match restored(&mut rohc, record, number) {
                Ok(len) => {
                    let bytes = rohc.ip();
                    let view = Record { link_type: LinkType::RAW, original_len: len, bytes, ..*record };
                    self.packet(&view, link, origin, sink);
                }
                Err(refusal) => self.refuse(origin, refusal, sink),
            }
            self.rohc = Some(rohc);
            return;
        }
        if record.link_type == LinkType::MPEG_2_TS {
            let id = StreamId { link, ..StreamId::default() };
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
        self.packet(&view, link, origin, sink);
    }

    /// Handles the IP packet of a record.
    fn packet<S: Sink>(&mut self, view: &Record<'_>, link: Link, origin: Origin<'_>, sink: &mut S) {
        match (content(view, link), origin) {
            (Ok(_), origin) if self.leaves_out_copies() && self.is_copy(view, link) => {
                self.refuse(origin, copied(), sink)
            }
            (Ok(Content::Datagram(id, bytes)), origin) => {
                self.datagram(id, bytes, view.time_ns, origin, sink)
            }
            (Ok(Content::Fragment(packet)), Origin::Record(number, record)) => {
                self.fragment(number, link, record, packet, sink);
            }
            // What waits has been put together.
            (Ok(Content::Fragment(_)), origin) => self.refuse(origin, incomplete(), sink),
            (Err(refusal), origin) => self.refuse(origin, refusal, sink),
        }
    }

    /// Returns `true` if copies are left out. Of legs the numbers of RTP show them.
    fn leaves_out_copies(&self) -> bool {
        self.merged.is_none() && !self.keeps_copies
    }

    /// Returns `true` if the packet came shortly before.
    fn is_copy(&mut self, record: &Record<'_>, link: Link) -> bool {
        let Ok(network) = link::network(record.link_type, record.bytes) else { return false };
        let len = ip_len(network.bytes, record.original_len - network.offset);
        self.duplicates.is_copy(&network.bytes[..network.bytes.len().min(len)], len, record.time_ns, link)
    }

    /// Begins a capture, and learns from its start which streams are mirrored.
    pub fn learn(&mut self, start: &[u8]) {
        self.account.begin_records();
        let Ok(mut reader) = Reader::new(start) else { return };
        if self.rohc.is_some() {
            return;
        }
        while let Ok(Some(record)) = reader.next_record() {
            let link = Link::of(&record);
            if self.select.admits_record(&record, &link) {
                self.is_copy(&record, link);
            }
        }
        self.duplicates.begin();
    }

    /// Handles a datagram of a live input.
    pub fn live<S: Sink>(&mut self, at_ns: u64, ends: (SocketAddr, SocketAddr), bytes: &[u8], sink: &mut S) {
        let number = self.account.read_record(bytes.len());
        let (interface, interface_name, options) = (0, None, Options::default());
        let (time_ns, link_type, original_len) = (Some(at_ns), LinkType::USER0, bytes.len());
        let record = Record { time_ns, interface, interface_name, link_type, original_len, bytes, options };
        let id = StreamId { ends: Some(ends), ..StreamId::default() };
        self.datagram(id, bytes, time_ns, Origin::Record(number, &record), sink);
    }

    /// Returns the gaps in a file of packets, if they are those of a container.
    pub fn container_gaps(&self) -> Option<Gaps> {
        let gaps = self.states.first()?.joint.gaps();
        (self.account.read.records == 0 && gaps.are_regular()).then_some(gaps)
    }

    /// Returns a stream by its place.
    pub fn entry(&self, place: usize) -> Option<StreamEntry> {
        self.states.get(place).map(State::entry)
    }

    /// Handles the next bytes of a file of packets.
    pub fn bytes<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) {
        self.account.read_bytes(bytes.len());
        let place = self.bare();
        let State { entry, joint, .. } = &mut self.states[place];
        joint.bytes(bytes, |missing, packet| {
            entry.packets += 1;
            pass(sink, place, None, missing, packet);
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
        for at in 0..self.merged.as_ref().map_or(0, Vec::len) {
            self.finish_legs(at, sink);
        }
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
        joint.end(|missing, packet| {
            entry.packets += 1;
            pass(sink, 0, None, missing, packet);
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
    fn fragment<S: Sink>(
        &mut self,
        number: u64,
        link: Link,
        record: &Record<'_>,
        packet: &[u8],
        sink: &mut S,
    ) {
        let whole = self.fragments.add(number, link, record, packet);
        self.drop_fragments(sink);
        let Some((packet, all)) = whole else { return };
        if !is_one(&packet) {
            return self.refuse(Origin::Kept(all), mixed(), sink);
        }
        let count = all.len() as u64;
        let whole =
            Record { link_type: LinkType::RAW, original_len: packet.len(), bytes: &packet, ..*record };
        match content(&whole, link) {
            Ok(_)
                if self.leaves_out_copies()
                    && self.duplicates.is_copy_of_fragments(&packet, record.time_ns, link) =>
            {
                self.refuse(Origin::Kept(all), copied(), sink);
            }
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
        self.fragments.give_up();
        self.drop_fragments(sink);
    }

    fn drop_fragments<S: Sink>(&mut self, sink: &mut S) {
        let GivenUp { copies, incomplete: rest } = self.fragments.dropped();
        for (all, refusal) in [(copies, copied()), (rest, incomplete())] {
            if !all.is_empty() {
                self.refuse(Origin::Kept(all), refusal, sink);
            }
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
        if self.is_frame(&id, bytes) {
            return self.frame(id, &bytes[ADAPTATION_LEN..], time_ns, origin, sink);
        }
        if let Some(packet) = rtp_of(bytes)
            && self.is_rtp(&id, &packet, bytes)
        {
            return self.rtp(id, &packet, time_ns, origin, sink);
        }
        let place = self.place(&id);
        let is_shown = match place {
            // A datagram that showed no place for its packets is not followed by one that shows none.
            Some(place) => !self.is_searched(&id) || self.states[place].joint.shows(bytes),
            None => Joint::is_start(bytes),
        };
        if !is_shown {
            return self.short(id, bytes, origin, sink);
        }
        if !self.select.admits_sender(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        let Some(place) = place.or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        match self.pieces(place, bytes, time_ns, sink) {
            true => {
                self.end_search(&id, sink);
                self.accept(origin);
            }
            false => self.short(id, bytes, origin, sink),
        }
    }

    /// Returns `true` if a datagram is a baseband frame.
    ///
    /// The sender decides: one of TS packets has datagrams that begin like a frame, in the middle of a packet.
    fn is_frame(&mut self, id: &StreamId, bytes: &[u8]) -> bool {
        if bbframe::Adaptation::parse(bytes).is_err() {
            return false;
        }
        self.framed.contains(id)
            || self.place(id).is_none()
                && !self.is_searched(id)
                && bbframe::parse(&bytes[ADAPTATION_LEN..]).is_ok()
    }

    /// Returns `true` if packets are searched for in the datagrams of a sender.
    fn is_searched(&self, id: &StreamId) -> bool {
        self.pending.iter().any(|pending| pending.id == *id && !pending.is_given_up)
    }

    /// Ends the search in datagrams of a sender that goes on where it was. They were others.
    fn end_search<S: Sink>(&mut self, id: &StreamId, sink: &mut S) {
        if let Some(at) = self.pending.iter().position(|pending| pending.id == *id)
            && let Some(pending) = self.pending.remove(at)
        {
            self.refuse(Origin::Kept(pending.held), no_packets(), sink);
        }
    }

    /// Returns `true` if what may be RTP is not a piece of a plain stream.
    fn is_rtp(&mut self, id: &StreamId, packet: &Rtp<'_>, bytes: &[u8]) -> bool {
        let of_sender = StreamId { ssrc: Some(packet.ssrc), ..*id };
        let is_leg = || self.merged.iter().flatten().any(|of| of.has_leg(&of_sender));
        if is_leg() || self.place(&of_sender).is_some() {
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
        let is_used = joint.datagram(bytes, |missing, packet| {
            entry.packets += 1;
            pass(sink, place, time_ns, missing, packet);
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
            return self.refuse(origin, unreadable(), sink);
        };
        let (sender, id) = (id, StreamId { isi: repr.input, ..id });
        if !self.select.admits_sender(&id) {
            return self.refuse(origin, self.not_selected(), sink);
        }
        let Some(place) = self.place(&id).or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        self.framed.insert(sender);
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
        if self.merged.is_some() {
            return self.leg(id, packet, time_ns, origin, sink);
        }
        let Some(place) = self.place(&id).or_else(|| self.begin(id)) else {
            return self.refuse(origin, too_many(), sink);
        };
        if self.follow(place, (packet.seq, packet.stamp)) {
            let detail = "of RTP packets that came before".into();
            return self.refuse(origin, (Reason::Duplicate, detail), sink);
        }
        if self.pieces(place, packet.payload, time_ns, sink) {
            return self.accept(origin);
        }
        self.refuse(origin, (Reason::Content, "of RTP without TS packets".into()), sink);
    }

    /// Returns `true` if a packet came before, by the numbers of its sender.
    fn follow(&mut self, place: usize, (seq, stamp): (u16, u32)) -> bool {
        let State { entry, joint, numbers, .. } = &mut self.states[place];
        let Some(numbers) = numbers else {
            *numbers = Some(Numbers::begin_at(seq, stamp));
            return false;
        };
        match numbers.take_at(seq, stamp) {
            Place::Duplicate => return true,
            Place::Ahead(0) => {}
            Place::Restart => entry.restarts += 1,
            Place::Ahead(missing) | Place::Outage(missing) => {
                entry.missing += u64::from(missing);
                joint.miss(u64::from(missing));
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
        if bytes.is_empty() || bytes.len() >= LONG || !is_held {
            let is_frame = bbframe::Adaptation::parse(bytes).is_ok() && self.place(&id).is_none();
            return self.refuse(origin, if is_frame { unreadable() } else { no_packets() }, sink);
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
        joint.bytes(bytes, |_, packet| packets.push(*packet));
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

    /// Begins or resumes the stream of a sender in whose datagrams packets were found.
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
        let Some(place) = self.place(&id).or_else(|| self.begin(id)) else {
            return self.refuse(Origin::Kept(held), too_many(), sink);
        };
        let State { entry, joint: before, .. } = &mut self.states[place];
        entry.datagrams += held.len() as u64;
        entry.packets += packets.len() as u64;
        *before = joint.behind(before);
        packets.iter().for_each(|packet| sink.unit(place, time_ns, Unit::Ts(packet)));
        self.accept(Origin::Kept(held));
    }
}

/// Passes a packet on, behind the number of those that are missing.
fn pass<S: Sink>(sink: &mut S, place: usize, time_ns: Option<u64>, missing: u64, packet: &[u8; PACKET_LEN]) {
    if missing > 0 {
        sink.unit(place, time_ns, Unit::Missing(missing));
    }
    sink.unit(place, time_ns, Unit::Ts(packet));
}

fn no_packets() -> Refusal {
    (Reason::Content, "of UDP without TS packets".into())
}

fn unreadable() -> Refusal {
    (Reason::Malformed, "of baseband frames that cannot be read".into())
}

fn too_many() -> Refusal {
    (Reason::Streams, format!("of more than {MAX_STREAMS} streams").into())
}

/// RTP packet.
struct Rtp<'a> {
    ssrc: u32,
    seq: u16,
    stamp: u32,
    payload_type: u8,
    payload: &'a [u8],
}

/// Returns the RTP packet in a datagram; RTCP has other types (RFC 5761, section 4).
fn rtp_of(bytes: &[u8]) -> Option<Rtp<'_>> {
    let packet = rtp::Packet::new_checked(bytes).ok()?;
    let is_rtcp = (192..=223).contains(&bytes[1]);
    let payload = &bytes[packet.header_len()..bytes.len() - packet.padding_len()];
    let (ssrc, seq, stamp) = (packet.ssrc(), packet.seq(), packet.timestamp());
    let payload_type = packet.payload_type();
    (!is_rtcp).then_some(Rtp { ssrc, seq, stamp, payload_type, payload })
}
