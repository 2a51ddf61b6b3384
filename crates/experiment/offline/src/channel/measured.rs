//! Loss traces from files and captures.

use std::cmp::Reverse;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use bentpipe_assemble::traces;
use bentpipe_intake::{Account, Link, Reason};
use bentpipe_net::channel::Trace;
use bentpipe_net::channel::loss::{Sequence, SequenceField};
use bentpipe_paths::read_at_most;
use bentpipe_record::write_whole;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::pcap;
use bentpipe_wire::rtp::{Numbers, Place};
use bentpipe_wire::udp;
use indexmap::IndexMap;
use serde_json::Value;

use crate::capture::{Capture, Packet, Wanted};
use crate::{Error, Intake, Session};

/// Reads a trace file; a capture is refused with the option that reads it.
pub(crate) fn trace(path: &Path) -> Result<Trace, String> {
    let said = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let bytes = read_at_most(path, traces::MAX_BYTES).map_err(|error| said(&error))?;
    if pcap::Reader::new(&bytes[..]).is_ok() {
        return Err(said(&"a capture: expected a trace, or --sequence to say where its numbers are"));
    }
    Trace::parse(&bytes).map_err(|error| said(&error))
}

/// The most streams that a capture may have.
const MAX_STREAMS: usize = 1000;

/// The most packets of a source that wait for two in sequence.
const MAX_FIRST: usize = 64;

/// The most sources that may have a second packet in sequence.
const MAX_SOURCES: usize = 1 << 16;

/// The most packets of a stream of RTP, missing ones counted.
const MAX_PACKETS: usize = 1 << 26;

/// The most streams that an error names.
const MAX_NAMED: usize = 6;

/// Packets of a counter of which one is late at most.
///
/// Paths that reorder more are not lossy channels, and two counters in turn have every second packet late.
const MOST_LATE: u64 = 3;

/// Bytes behind a number that show whether a datagram is one of bentpipe.
const LOOKED_AT: usize = 64;

/// Trace of a capture.
pub(crate) struct Measured {
    pub(crate) trace: Trace,
    /// Description of the capture; empty for a trace.
    pub(crate) about: String,
    /// Set if the capture is damaged.
    pub(crate) has_damage: bool,
    /// Account of the capture.
    pub(crate) account: Option<Value>,
}

/// Identity of a numbered stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StreamId {
    link: Link,
    src: IpAddr,
    dst: IpAddr,
    /// UDP source and destination port; `None` for identifications of IPv4.
    ports: Option<(u16, u16)>,
    ssrc: Option<u32>,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.src, self.dst)?;
        self.ports.iter().try_for_each(|(_, port)| write!(f, " port {port}"))?;
        self.ssrc.iter().try_for_each(|ssrc| write!(f, " SSRC {ssrc:#010x}"))?;
        write!(f, "{}", self.link)
    }
}

/// Sequence number of a packet.
#[derive(Clone, Copy, Debug)]
struct Number {
    number: u64,
    /// Time stamp, of use for RTP alone.
    stamp: u32,
}

/// Source that is followed once two packets are in sequence (RFC 3550, appendix A.1).
struct Source {
    packets: u64,
    /// First packets, until two are in sequence.
    first: Vec<Number>,
    followed: Option<Followed>,
    /// First number that is too far ahead.
    jump: Option<String>,
}

impl Source {
    /// Begins before the first packet. Only RTP needs two in sequence: other numbers are where the user says.
    fn begin(numbers: SequenceField) -> Source {
        let followed = (numbers != SequenceField::Rtp).then(|| Followed::new(numbers));
        Source { packets: 0, first: Vec::new(), followed, jump: None }
    }

    fn note(&mut self, record: u64, number: Number) {
        self.packets += 1;
        if self.followed.is_some() {
            return self.follow(record, number);
        }
        let is_next = |before: &Number| number.number == (before.number + 1) & u64::from(u16::MAX);
        let is_real = self.first.last().is_some_and(is_next);
        if self.first.len() < MAX_FIRST {
            self.first.push(number);
        } else {
            // The last one is compared with the next.
            self.first[MAX_FIRST - 1] = number;
        }
        if is_real {
            self.join(record);
        }
    }

    /// Follows the source from its first packets on.
    fn join(&mut self, record: u64) {
        self.followed = Some(Followed::Rtp(RtpTrace::default()));
        for number in std::mem::take(&mut self.first) {
            self.follow(record, number);
        }
    }

    fn follow(&mut self, record: u64, number: Number) {
        if let (Some(followed), None) = (&mut self.followed, &self.jump) {
            self.jump = followed.note(number).err().map(|problem| format!("record {record}: {problem}"));
        }
    }
}

/// Finds the packets missing in a capture, and describes the capture.
pub(crate) fn of_capture(
    path: &Path,
    numbers: SequenceField,
    intake: &Intake,
    session: &dyn Session,
) -> Result<Measured, String> {
    let said = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let mut capture =
        Capture::open(path, Wanted::Datagrams, intake, session).map_err(|error| error.to_string())?;
    let mut sources: IndexMap<StreamId, Source> = IndexMap::new();
    let (mut of_all, mut by_ports, mut real) = (Counter::default(), IndexMap::new(), 0);
    let wants = |packet: &Packet<'_>| match number(packet, numbers) {
        Some(_) => Ok(()),
        None => Err((Reason::Content, without(numbers).into())),
    };
    let read = capture.for_each_if(wants, |packet| {
        let Some((stream, number)) = number(packet, numbers) else { return Ok(true) };
        if numbers == SequenceField::IpId {
            let apart = StreamId { ports: ports(packet), ..stream };
            of_all.note(number.number as u16);
            if by_ports.len() < MAX_STREAMS || by_ports.contains_key(&apart) {
                by_ports.entry(apart).or_insert_with(Counter::default).note(number.number as u16);
            }
        }
        if sources.len() == MAX_SOURCES && !sources.contains_key(&stream) {
            return Ok(true);
        }
        let source = sources.entry(stream).or_insert_with(|| Source::begin(numbers));
        let was_real = source.followed.is_some() && source.packets > 0;
        // Of several streams none is needed.
        if real <= 1 || !was_real {
            source.note(packet.number, number);
        } else {
            source.packets += 1;
        }
        real += usize::from(!was_real && source.followed.is_some());
        if real > MAX_STREAMS {
            let text = format!("more than {MAX_STREAMS} streams: {}", choose(numbers));
            return Err(Error::Usage(said(&text)));
        }
        Ok(true)
    });
    read.map_err(|error| error.to_string())?;
    // A source alone needs no second packet in sequence.
    if let (0, 1, Some((_, source))) = (real, sources.len(), sources.first_mut()) {
        source.join(0);
    }
    let (found, isolated): (Vec<_>, Vec<_>) =
        sources.into_iter().partition(|(_, source)| source.followed.is_some());
    let streams: IndexMap<StreamId, u64> =
        found.iter().map(|(stream, source)| (*stream, source.packets)).collect();
    if streams.len() > 1 {
        return Err(said(&several(&streams, numbers)));
    }
    let nothing = |account: &Account| said(&format!("no packet has such a number: {account}"));
    let Some((_, Source { followed: Some(sequence), jump, .. })) = found.into_iter().next() else {
        return Err(nothing(capture.account()));
    };
    if let Some(problem) = jump {
        return Err(said(&problem));
    }
    let lost_apart: u64 = by_ports.values().map(Counter::lost).sum();
    if by_ports.len() > 1 && of_all.is_doubtful() && 2 * lost_apart < of_all.lost() {
        let counts = by_ports.into_iter().map(|(stream, counter)| (stream, counter.came)).collect();
        return Err(said(&several(&counts, SequenceField::Probe)));
    }
    let packets: u64 = streams.values().sum();
    if let Followed::Plain(Sequence { late, .. }) = &sequence
        && *late > packets / MOST_LATE
    {
        let text = format!("{late} of {packets} packets are late: their numbers are not of one counter");
        return Err(said(&text));
    }
    let account = capture.account();
    let records = account.read.records;
    let trace = sequence.trace().ok_or_else(|| nothing(account))?;
    let single: u64 = isolated.iter().map(|(_, source)| source.packets).sum();
    if single > 0 {
        session.note(&format!(
            "{single} packets are of sources without two numbers in sequence, and not counted"
        ));
    }
    session.note(&capture.remark());
    if numbers == SequenceField::IpId && intake.select.port.is_some() {
        session.note(
            "a sender may count identifications over all of its ports: what others have counts as lost then",
        );
    }
    let cut = match (account.cut_in, &account.damage) {
        (None, _) => String::new(),
        (Some(record), None) => format!(", cut short within record {record}"),
        (Some(record), Some(damage)) => format!(", not read on from record {record}: {damage}"),
    };
    let about = format!("{}: {packets} packets of {records} records, {sequence}{cut}", path.display());
    let json = account.json(&path.display().to_string());
    Ok(Measured { trace, about, has_damage: account.has_damage(), account: Some(json) })
}

/// Describes packets that have no such number.
fn without(numbers: SequenceField) -> &'static str {
    match numbers {
        SequenceField::Rtp => "without RTP",
        SequenceField::IpId => "of later fragments or without an identification of IPv4",
        SequenceField::Probe => "without a datagram of bentpipe, a number in front of zeros",
        SequenceField::Field { .. } => "without UDP or with too short a payload",
    }
}

/// Numbers of the chosen stream.
enum Followed {
    /// Numbers of RTP.
    Rtp(RtpTrace),
    /// Other numbers.
    Plain(Sequence),
}

impl Followed {
    fn new(numbers: SequenceField) -> Followed {
        match numbers {
            SequenceField::Rtp => Followed::Rtp(RtpTrace::default()),
            _ => Followed::Plain(Sequence::new(numbers.bits())),
        }
    }

    fn note(&mut self, Number { number, stamp }: Number) -> Result<(), String> {
        match self {
            Followed::Rtp(trace) => trace.note(number as u16, stamp),
            Followed::Plain(sequence) => sequence.note(number),
        }
    }

    fn trace(&self) -> Option<Trace> {
        match self {
            Followed::Rtp(trace) => Trace::from_losses(trace.missing.iter().copied()),
            Followed::Plain(sequence) => sequence.trace(),
        }
    }
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Followed::Plain(Sequence { late, duplicates, .. }) => {
                write!(f, "{late} of them late, {duplicates} twice")
            }
            Followed::Rtp(trace) => {
                write!(f, "{} of them late, {} twice", trace.late, trace.duplicates)?;
                let (restarts, strays) = trace.numbers.map_or((0, 0), |it| (it.restarts(), it.strays()));
                let counts = [(restarts, "restarts of the sender"), (strays, "with a number of no stream")];
                let counts = counts.iter().filter(|(count, _)| *count > 0);
                counts.clone().try_for_each(|(count, what)| write!(f, ", {count} {what}"))
            }
        }
    }
}

/// Losses by the sequence numbers of RTP. What was lost while a sender restarted is not known.
#[derive(Default)]
struct RtpTrace {
    numbers: Option<Numbers>,
    /// Flag for each packet that was sent, set if it is missing.
    missing: Vec<bool>,
    /// Place of the first packet since the sender began.
    start: usize,
    late: u64,
    duplicates: u64,
}

impl RtpTrace {
    fn note(&mut self, seq: u16, stamp: u32) -> Result<(), String> {
        let Some(numbers) = &mut self.numbers else {
            self.numbers = Some(Numbers::begin_at(seq, stamp));
            self.missing.push(false);
            return Ok(());
        };
        match numbers.take_at(seq, stamp) {
            Place::Ahead(missing) => {
                self.missing.extend(std::iter::repeat_n(true, missing.into()));
                self.missing.push(false);
            }
            Place::Late(behind) => self.late(behind.into()),
            Place::Duplicate => self.duplicates += 1,
            Place::Jump => {}
            Place::Outage(missing) => {
                self.missing.extend(std::iter::repeat_n(true, missing.into()));
                self.missing.extend([false; 2]);
            }
            Place::Restart => {
                self.start = self.missing.len();
                self.missing.extend([false; 2]);
            }
        }
        match self.missing.len() {
            0..=MAX_PACKETS => Ok(()),
            _ => Err(format!("more than {MAX_PACKETS} packets were sent")),
        }
    }

    /// Notes a packet `behind` the highest, which may be from before the first that came.
    fn late(&mut self, behind: usize) {
        self.late += 1;
        let had = self.missing.len() - self.start;
        if behind >= had {
            let earlier = std::iter::repeat_n(true, behind + 1 - had);
            self.missing.splice(self.start..self.start, earlier);
        }
        let place = self.missing.len() - 1 - behind;
        self.missing[place] = false;
    }
}

/// Returns the options that choose a stream.
fn choose(numbers: SequenceField) -> &'static str {
    match numbers {
        SequenceField::Rtp => "choose one by --src, --dst, --port, --ssrc, --vlan or --interface",
        SequenceField::IpId => "choose one by --src, --dst, --vlan or --interface",
        SequenceField::Probe | SequenceField::Field { .. } => {
            "choose one by --src, --dst, --port, --vlan or --interface"
        }
    }
}

/// Returns the error of a capture with several streams, those with the most packets first.
fn several(streams: &IndexMap<StreamId, u64>, numbers: SequenceField) -> String {
    let mut sorted: Vec<_> = streams.iter().collect();
    sorted.sort_by_key(|(_, packets)| Reverse(**packets));
    let named =
        sorted.iter().take(MAX_NAMED).map(|(stream, packets)| format!("{stream} ({packets} packets)"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if streams.len() > MAX_NAMED { ", and others" } else { "" };
    format!("{} streams: {}: {named}{more}", streams.len(), choose(numbers))
}

/// Returns the stream and sequence number of a packet with one.
fn number(packet: &Packet<'_>, numbers: SequenceField) -> Option<(StreamId, Number)> {
    let link = packet.link;
    let packet = ip::Packet::new_elided(packet.bytes, packet.len - packet.bytes.len()).ok()?;
    let upper = packet.upper().ok()?;
    if upper.is_later_fragment {
        return None;
    }
    let is_udp = upper.protocol == Protocol::UDP;
    let datagram =
        is_udp.then(|| udp::Datagram::new_elided(upper.bytes, usize::from(u16::MAX)).ok()).flatten();
    let ports = datagram.as_ref().map(|datagram| (datagram.src_port(), datagram.dst_port()));
    let stream = StreamId { link, src: packet.src(), dst: packet.dst(), ports, ssrc: None };
    let Some((offset, bytes)) = numbers.place() else {
        let ip::Packet::V4(packet) = &packet else { return None };
        let number = Number { number: u64::from(packet.ident()), stamp: 0 };
        return Some((StreamId { ports: None, ..stream }, number));
    };
    let payload = upper.bytes.get(udp::HEADER_LEN..).filter(|_| datagram.is_some())?;
    let ssrc = if numbers == SequenceField::Rtp { Some(rtp_source(payload)?) } else { None };
    let field = payload.get(offset..offset + bytes)?;
    // Behind the number of bentpipe's own datagrams all bytes are zeros.
    let is_other = || payload.iter().skip(bytes).take(LOOKED_AT).any(|byte| *byte != 0);
    if numbers == SequenceField::Probe && is_other() {
        return None;
    }
    let number = field.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let stamp = payload.get(4..8).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_be_bytes);
    Some((StreamId { ssrc, ..stream }, Number { number, stamp }))
}

/// Packets by their identifications, without their places.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: u16,
    /// Packets up to the highest number.
    sent: u64,
    came: u64,
}

impl Counter {
    fn note(&mut self, number: u16) {
        let ahead = number.wrapping_sub(self.last);
        let is_first = self.came == 0;
        if is_first || ahead < 1 << 15 {
            self.sent += if is_first { 1 } else { ahead.into() };
            self.last = number;
        }
        self.came += 1;
    }

    fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.came)
    }

    /// Returns `true` if more is lost than on most channels: a tenth.
    fn is_doubtful(&self) -> bool {
        10 * self.lost() > self.sent
    }
}

/// Returns the ports of a packet of UDP or TCP.
fn ports(packet: &Packet<'_>) -> Option<(u16, u16)> {
    let packet = ip::Packet::new_elided(packet.bytes, packet.len - packet.bytes.len()).ok()?;
    let upper = packet.upper().ok()?;
    let has_ports = matches!(upper.protocol, Protocol::UDP | Protocol::TCP) && !upper.is_later_fragment;
    let [a, b, c, d] = *upper.bytes.first_chunk().filter(|_| has_ports)?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Returns the SSRC of an RTP packet (RFC 3550 section 5.1).
///
/// `None` for other payloads, such as RTCP (RFC 5761 section 4).
fn rtp_source(payload: &[u8]) -> Option<u32> {
    let &[first, second, _, _, _, _, _, _, a, b, c, d, ..] = payload else { return None };
    let is_rtcp = (192..=223).contains(&second);
    (first >> 6 == 2 && !is_rtcp).then(|| u32::from_be_bytes([a, b, c, d]))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Numbers that were taken, and the sent and lost packets of their trace.
    fn followed(numbers: &[u16]) -> (RtpTrace, usize, usize) {
        let mut trace = RtpTrace::default();
        numbers.iter().for_each(|&seq| trace.note(seq, 0).expect("few packets"));
        let (sent, lost) = (trace.missing.len(), trace.missing.iter().filter(|is_lost| **is_lost).count());
        (trace, sent, lost)
    }

    #[test]
    fn a_sender_that_restarts_has_lost_nothing() {
        let numbers: Vec<u16> = (100..120).chain(10_100..10_120).collect();
        let (trace, sent, lost) = followed(&numbers);
        assert_eq!((sent, lost, trace.numbers.expect("packets").restarts()), (40, 0, 1));
        let (trace, sent, lost) = followed(&[5, 6, 9, 8, 4, 40_000, 10, 10]);
        assert_eq!((sent, lost, trace.late, trace.duplicates), (7, 1, 2, 1));
        let about = "2 of them late, 1 twice, 1 with a number of no stream";
        assert_eq!(Followed::Rtp(trace).to_string(), about);
    }

    proptest! {
        #[test]
        fn the_trace_has_what_the_numbers_count(numbers in vec(prop_oneof![any::<u16>(), 0..300_u16], 1..300)) {
            let (trace, sent, lost) = followed(&numbers);
            let counted = trace.numbers.expect("packets");
            prop_assert_eq!((sent as u64, lost as u64), (counted.expected(), counted.lost()));
        }
    }
}
