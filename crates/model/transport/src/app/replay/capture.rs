//! Packets of a capture file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;

use bentpipe_dvb::Rohc;
use bentpipe_intake::{Account, Packets, Reason, Refusal, Select, Wanted};
use bentpipe_site::{Opened, Recorded};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::{ip, ipv4, pcap};

use super::direction::Direction;

/// The most bytes of packets that a replay holds, repetitions counted.
const MAX_BYTES: usize = 256 << 20;
/// Bytes at the start of a file by which mirrored streams are known.
const LEARNT_LEN: u64 = 4 << 20;
/// Most pairs of addresses with two directions.
const MAX_PAIRS: usize = 1 << 16;
/// Most pairs of addresses that a note names.
const MAX_NAMED: usize = 3;
/// Time by which packets of several interfaces are out of order at most, in nanoseconds.
const DISORDER_NS: u64 = 1_000_000_000;

/// Packets with their times after the first of the capture.
pub(super) type Timed = Vec<(Span, Vec<u8>)>;

/// The same, for flows that have a capture in common.
pub(super) type Shared = Arc<[(Span, Vec<u8>)]>;

/// IP packets of a capture that one end sends, and their destinations.
#[derive(Default)]
pub(super) struct Half {
    pub(super) packets: Shared,
    pub(super) destinations: BTreeSet<IpAddr>,
}

impl Half {
    /// Returns the packets within a time.
    pub(super) fn within(&self, lasts: Span) -> Shared {
        let is_within = |(after, _): &&(Span, Vec<u8>)| *after < lasts;
        match self.packets.iter().all(|packet| is_within(&packet)) {
            true => Arc::clone(&self.packets),
            false => self.packets.iter().filter(is_within).cloned().collect(),
        }
    }
}

/// IP packets of a capture.
pub(super) struct Captured {
    /// Packets of the sender, and of the receiver.
    pub(super) halves: [Half; 2],
    /// Number of records that are not sent.
    pub(super) left_out: u64,
}

/// Reads a capture, whose packets are to be sent `times` times.
///
/// # Errors
/// Returns an error that begins with the path if the file is not a capture, or has no packets to send or too many.
pub(super) fn read(
    file: Opened,
    times: u32,
    direction: &Direction,
    rohc: Option<&Rohc>,
) -> Result<Captured, String> {
    let Opened { shown, bytes } = file;
    let said = |problem: String| format!("{shown}: {problem}");
    let (mut once, mut pairs) = (Vec::new(), Pairs::default());
    let (account, _) = each(bytes, rohc, |at, packet, ends| {
        pairs.add(at, packet.len(), ends, direction);
        once.push((at, packet, ends));
    })
    .map_err(said)?;
    pairs.settle(direction);
    check(&pairs, &account, direction).map_err(said)?;
    let period = pairs.period();
    let (mut halves, mut sum) = ([Timed::new(), Timed::new()], 0);
    let mut destinations = [BTreeSet::new(), BTreeSet::new()];
    let mut unsent = account.left_out_sum().records;
    for (at, packet, ends) in once {
        let end = pairs.sender(ends, direction);
        let Some(half) = halves.get_mut(end) else {
            unsent += 1;
            continue;
        };
        sum += packet.len();
        destinations[end].insert(ends.1);
        half.push((at, packet));
    }
    if sum.saturating_mul(times as usize) > MAX_BYTES {
        return Err(said(format!("more than {MAX_BYTES} bytes of packets, repetitions counted")));
    }
    let [there, back] = halves.map(|once| repeat(&once, period, times).into());
    let [of_there, of_back] = destinations;
    let halves =
        [Half { packets: there, destinations: of_there }, Half { packets: back, destinations: of_back }];
    Ok(Captured { halves, left_out: unsent })
}

/// Returns number, bytes and length of what the sender sends in a time.
///
/// It has a note on what is not sent.
///
/// # Errors
/// Returns an error as [`read`] does.
pub(super) fn recorded(
    open: &mut dyn FnMut() -> Result<Opened, String>,
    (times, direction): (u32, &Direction),
    rohc: Option<&Rohc>,
    until: Span,
) -> Result<Recorded, String> {
    let Opened { shown, bytes } = open()?;
    let said = |problem: String| format!("{shown}: {problem}");
    let mut pairs = Pairs::default();
    let count = |at, packet: Vec<u8>, ends| pairs.add(at, packet.len(), ends, direction);
    let (account, clock) = each(bytes, rohc, count).map_err(said)?;
    pairs.settle(direction);
    check(&pairs, &account, direction).map_err(said)?;
    let (once, period, times) = (pairs.sum(0, direction), pairs.period(), u64::from(times));
    let all = Sum {
        packets: once.packets * times,
        bytes: once.bytes * times,
        last: period * (times - 1) + once.last,
        ..once
    };
    // What the capture has behind that time is not sent.
    let sent = if all.last < until {
        all
    } else {
        pairs.sent_in(open()?, (direction, rohc), (times, until)).map_err(said)?
    };
    let first = once.first.unwrap_or(once.last);
    Ok(Recorded {
        packets: sent.packets,
        bytes: Bytes::new(sent.bytes),
        lasts: if sent.packets < all.packets { until - first } else { all.last - first },
        of: (all.packets, Bytes::new(all.bytes), all.last - first),
        note: pairs.note((&account, &clock), direction),
    })
}

fn check(pairs: &Pairs, account: &Account, direction: &Direction) -> Result<(), String> {
    match direction {
        _ if pairs.packets == 0 => Err(format!("no IP packet in it: {account}{}", help(account))),
        Direction::From(source) if pairs.sum(0, direction).packets == 0 => {
            let from = pairs.sources();
            Err(format!("no packet from {source} in it: packets are from {from}"))
        }
        _ => Ok(()),
    }
}

/// Returns a help for captures of ROHC packets, which are of link type USER0.
fn help(account: &Account) -> &'static str {
    let user0 = format!("of link type {},", pcap::LinkType::USER0.0);
    let is_any = account.left_out().any(|(_, detail, _)| detail.starts_with(&user0));
    if is_any { "; help: `rohc = {}` next to `file` restores packets of ROHC" } else { "" }
}

/// Calls `visit` with each IP packet, its time after the first, and its addresses.
fn each(
    mut file: Box<dyn Read>,
    rohc: Option<&Rohc>,
    mut visit: impl FnMut(Span, Vec<u8>, (IpAddr, IpAddr)),
) -> Result<(Account, Clock), String> {
    let mut start = Vec::new();
    let opened = file.by_ref().take(LEARNT_LEN).read_to_end(&mut start);
    opened.map_err(|error| error.to_string())?;
    let mut packets = match rohc {
        Some(rohc) => Packets::restoring(rohc.decompressor(), Select::default()),
        None => Packets::new(Wanted::Ip, Select::default()),
    };
    if rohc.is_none() {
        packets.learn(&start);
    }
    let file = io::BufReader::new((&start[..]).chain(file));
    let mut reader = pcap::Reader::new(file).map_err(|error| error.to_string())?;
    let (mut clock, mut bytes) = (Clock::default(), 0);
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(pcap::ReadError::Format(error)) if packets.account().read.records > 0 => {
                let is_cut = matches!(error.kind, bentpipe_wire::Kind::Truncated { .. });
                packets.cut((!is_cut).then(|| error.to_string()));
                break;
            }
            Err(error) => return Err(error.to_string()),
        };
        let time_ns = record.time_ns;
        let mut found = None;
        let wants = |packet: &bentpipe_intake::Packet<'_>| -> Result<(), Refusal> {
            let malformed = || (Reason::Malformed, "of malformed IP packets".into());
            found = Some(whole(packet.bytes).ok_or_else(malformed)?);
            Ok(())
        };
        packets.take_if(&record, wants, &mut |_| {});
        let Some((packet, ends)) = found else { continue };
        bytes += packet.len();
        if bytes > MAX_BYTES {
            return Err(format!("more than {MAX_BYTES} bytes of packets"));
        }
        visit(clock.at(time_ns), packet, ends);
    }
    packets.damaged(reader.damaged());
    Ok((packets.account().clone(), clock))
}

/// Times of packets one behind the other.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Latest stamp of the capture.
    stamp_ns: Option<u64>,
    at_ns: u64,
    /// Last time between two packets.
    spacing_ns: u64,
    /// Number of packets at which the stamps are set back.
    set_back: u64,
    /// Number of packets without stamps.
    untimed: u64,
}

impl Clock {
    /// Returns the time of the next packet, from the first one on.
    ///
    /// Captures of several interfaces may be a little out of order: a packet is never in front of the one before. Behind a clock that was
    /// set back the spacing goes on.
    fn at(&mut self, stamp_ns: Option<u64>) -> Span {
        let Some(now) = stamp_ns else {
            self.untimed += 1;
            return Span::from_nanos(self.at_ns);
        };
        let before = *self.stamp_ns.get_or_insert(now);
        if before.saturating_sub(now) > DISORDER_NS {
            self.set_back += 1;
            self.at_ns = self.at_ns.saturating_add(self.spacing_ns);
            self.stamp_ns = Some(now);
        } else if now > before {
            self.spacing_ns = now - before;
            self.at_ns = self.at_ns.saturating_add(self.spacing_ns);
            self.stamp_ns = Some(now);
        }
        Span::from_nanos(self.at_ns)
    }

    /// Adds a note on packets without times of their own, if there are any.
    fn note(&self, note: &mut String) {
        let mut add = |text: String| {
            let _ = write!(note, "{}{text}", if note.is_empty() { "" } else { "; " });
        };
        if self.set_back > 0 {
            let places = if self.set_back == 1 { "once".into() } else { format!("{} times", self.set_back) };
            add(format!("its clock is set back {places}: packets behind go on at the spacing in front"));
        }
        if self.untimed > 0 {
            let [s, have] = if self.untimed == 1 { ["", "has"] } else { ["s", "have"] };
            add(format!(
                "{} packet{s} {have} no time: each leaves at once with the one before",
                self.untimed
            ));
        }
    }
}

/// Returns an IP packet with zeros for truncated bytes, and its addresses.
///
/// Its header has a checksum.
fn whole(bytes: &[u8]) -> Option<(Vec<u8>, (IpAddr, IpAddr))> {
    let packet = ip::Packet::new_elided(bytes, usize::from(u16::MAX)).ok()?;
    let len = packet.total_len();
    let mut whole = bytes[..bytes.len().min(len)].to_vec();
    whole.resize(len, 0);
    // A card that computes checksums does so behind the capture.
    if matches!(packet, ip::Packet::V4(_)) && whole[10..12] == [0, 0] {
        ipv4::Packet::new_unchecked(&mut whole[..]).fill_checksum();
    }
    Some((whole, (packet.src(), packet.dst())))
}

/// Packets of one direction between two addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
    first: Option<Span>,
    last: Span,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        let firsts = self.first.into_iter().chain(other.first);
        *self = Sum {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            first: firsts.min(),
            last: self.last.max(other.last),
        };
    }
}

/// Packets by their addresses, the smaller one first, and direction.
#[derive(Debug, Default)]
struct Pairs {
    of: HashMap<(IpAddr, IpAddr), [Sum; 2]>,
    /// Packets of further addresses, which the sender sends.
    beyond: Sum,
    packets: u64,
    last: Span,
    /// Ends at which the addresses are, where both ends send: `true` is the receiver's.
    sides: HashMap<IpAddr, bool>,
}

impl Pairs {
    /// Finds the ends at which addresses are, where both ends send.
    ///
    /// Packets go by their destination, so that an address is at one end. Of each two addresses the one that sends more bytes is at
    /// the sender's, unless pairs with more bytes have placed them. One that only sends to itself is at the receiver's.
    fn settle(&mut self, direction: &Direction) {
        if *direction != Direction::Both {
            return;
        }
        let mut pairs: Vec<(u64, (IpAddr, IpAddr))> = Vec::new();
        self.each(|ends, sum| {
            if self.is_of_data(ends) {
                pairs.push((sum.bytes, ends));
            }
        });
        pairs.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        let mut sides = Sides::default();
        pairs.iter().for_each(|(_, (from, to))| sides.part(*from, *to));
        let all: HashSet<IpAddr> = pairs.iter().flat_map(|(_, (from, to))| [*from, *to]).collect();
        self.sides = all.into_iter().map(|address| (address, sides.is_other(address))).collect();
    }

    /// Returns the sum of what the sender sends in a time, the capture `times` times.
    fn sent_in(
        &self,
        file: Opened,
        (direction, rohc): (&Direction, Option<&Rohc>),
        (times, until): (u64, Span),
    ) -> Result<Sum, String> {
        let (mut sum, period) = (Sum::default(), self.period().as_nanos().max(1));
        each(file.bytes, rohc, |at, packet, ends| {
            if self.sender(ends, direction) == 0 && at < until {
                let count = (1 + ((until - at).as_nanos() - 1) / period).min(times);
                sum.add(Sum {
                    packets: count,
                    bytes: count * packet.len() as u64,
                    first: Some(at),
                    last: at,
                });
            }
        })?;
        Ok(sum)
    }

    fn add(&mut self, at: Span, len: usize, ends: (IpAddr, IpAddr), direction: &Direction) {
        self.packets += 1;
        self.last = at;
        let one = Sum { packets: 1, bytes: len as u64, first: Some(at), last: at };
        let (pair, way) = place(ends);
        match self.of.len() < MAX_PAIRS || self.of.contains_key(&pair) {
            true => self.of.entry(pair).or_default()[way].add(one),
            false if direction.admits(ends.0) => self.beyond.add(one),
            false => {}
        }
    }

    /// Returns the end that sends packets with these addresses.
    ///
    /// 0 is the sender, 1 the receiver, 2 none.
    fn sender(&self, ends: (IpAddr, IpAddr), direction: &Direction) -> usize {
        let is_forward = match direction {
            Direction::All => true,
            Direction::From(source) => ends.0 == *source,
            Direction::Data => self.is_of_data(ends),
            // The end at which the destination is not.
            Direction::Both => {
                return usize::from(self.sides.get(&ends.1).is_some_and(|is_receivers| !is_receivers));
            }
        };
        if is_forward { 0 } else { 2 }
    }

    /// Returns `true` if this direction has more bytes than the other one.
    ///
    /// Of two with as many it is the first one.
    fn is_of_data(&self, ends: (IpAddr, IpAddr)) -> bool {
        let (pair, way) = place(ends);
        let Some(sums) = self.of.get(&pair) else { return true };
        let (own, other) = (sums[way], sums[1 - way]);
        own.bytes > other.bytes || own.bytes == other.bytes && own.first <= other.first
    }

    /// Returns the sum of what an end sends.
    fn sum(&self, end: usize, direction: &Direction) -> Sum {
        let mut sum = if end == 0 { self.beyond } else { Sum::default() };
        self.each(|ends, one| {
            if self.sender(ends, direction) == end {
                sum.add(one);
            }
        });
        sum
    }

    fn each(&self, mut visit: impl FnMut((IpAddr, IpAddr), Sum)) {
        for (&(low, high), [up, down]) in &self.of {
            for (ends, sum) in [((low, high), up), ((high, low), down)] {
                if sum.packets > 0 {
                    visit(ends, *sum);
                }
            }
        }
    }

    /// Returns the sources of most bytes.
    fn sources(&self) -> String {
        let mut sources: HashMap<IpAddr, u64> = HashMap::new();
        self.each(|ends, sum| *sources.entry(ends.0).or_default() += sum.bytes);
        let mut sources: Vec<(u64, IpAddr)> =
            sources.into_iter().map(|(source, bytes)| (bytes, source)).collect();
        sources.sort_unstable_by(|one, other| other.cmp(one));
        let named: Vec<String> =
            sources.iter().take(MAX_NAMED).map(|(_, source)| source.to_string()).collect();
        let more = if sources.len() > MAX_NAMED { " and others" } else { "" };
        named.join(", ") + more
    }

    /// Returns the time after which a repetition begins: one mean spacing behind the last packet.
    fn period(&self) -> Span {
        self.last + self.last / self.packets.saturating_sub(1).max(1)
    }

    /// Returns a note on what is not sent as it is in the file.
    fn note(&self, (account, clock): (&Account, &Clock), direction: &Direction) -> Option<String> {
        let mut note = String::new();
        let is_plain = account.left_out_sum().records == 0 && account.repaired_sum() == 0;
        if !is_plain || account.has_damage() {
            let _ = write!(note, "{account}");
        }
        clock.note(&mut note);
        let is_of = |end: usize| move |ends| self.sender(ends, direction) == end;
        let is_inside =
            |(from, to)| self.sides.get(&from).is_some_and(|side| self.sides.get(&to) == Some(side));
        match direction {
            Direction::Both => {
                self.note_on(&is_of(1), "sent by the receiver", &mut note);
                self.note_on(
                    &is_inside,
                    "between addresses of one end, and sent by the other one",
                    &mut note,
                );
            }
            Direction::From(_) => {
                self.note_on(&is_of(2), "left out: `direction` has another source", &mut note);
            }
            _ => self.note_on(&is_of(2), "of the other direction and left out: see `direction`", &mut note),
        }
        (!note.is_empty()).then_some(note)
    }

    /// Adds a note on the packets of some pairs of addresses, if there are any.
    fn note_on(&self, is_meant: &dyn Fn((IpAddr, IpAddr)) -> bool, outcome: &str, note: &mut String) {
        let mut ends = Vec::new();
        self.each(|of, sum| {
            if is_meant(of) {
                ends.push((sum.packets, of));
            }
        });
        if ends.is_empty() {
            return;
        }
        let packets: u64 = ends.iter().map(|(packets, _)| packets).sum();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        let named = ends.iter().take(MAX_NAMED).map(|(_, (from, to))| format!("{from} to {to}"));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if ends.len() > MAX_NAMED { " and others" } else { "" };
        let behind = if note.is_empty() { "" } else { "; " };
        let [s, are] = if packets == 1 { ["", "is"] } else { ["s", "are"] };
        let _ = write!(note, "{behind}{packets} packet{s} from {named}{more} {are} {outcome}");
    }
}

/// Addresses at either of two ends, as pairs that have one at each.
#[derive(Default)]
struct Sides {
    /// Address that places another one, and `true` if it is opposite.
    by: HashMap<IpAddr, (IpAddr, bool)>,
    /// Numbers of the pairs with which addresses came that no other places.
    since: HashMap<IpAddr, usize>,
}

impl Sides {
    /// Returns the address that places one, and `true` if it is opposite.
    fn find(&mut self, address: IpAddr) -> (IpAddr, bool) {
        let (mut at, mut is_other) = (address, false);
        while let Some((by, other)) = self.by.get(&at).copied() {
            (at, is_other) = (by, is_other ^ other);
        }
        if at != address {
            self.by.insert(address, (at, is_other));
        }
        (at, is_other)
    }

    /// Places two addresses at different ends, unless pairs before have placed both.
    fn part(&mut self, from: IpAddr, to: IpAddr) {
        let ((first, from_other), (second, to_other)) = (self.find(from), self.find(to));
        if first == second {
            return;
        }
        let number = self.since.len();
        let of = |root| self.since.get(root).copied();
        // Those with which the larger pair came stay.
        let [stays, goes] = match (of(&first), of(&second)) {
            (None, Some(_)) => [second, first],
            (Some(first_came), Some(second_came)) if second_came < first_came => [second, first],
            _ => [first, second],
        };
        self.since.entry(stays).or_insert(number);
        self.by.insert(goes, (stays, !(from_other ^ to_other)));
    }

    /// Returns `true` if an address is at the receiver's end.
    fn is_other(&mut self, address: IpAddr) -> bool {
        let (root, is_other) = self.find(address);
        is_other || !self.since.contains_key(&root)
    }
}

impl Direction {
    /// Returns `true` if packets from a source may be the sender's.
    fn admits(&self, source: IpAddr) -> bool {
        !matches!(self, Direction::From(of) if *of != source)
    }
}

/// Returns the pair of addresses, and the direction within it.
fn place((from, to): (IpAddr, IpAddr)) -> ((IpAddr, IpAddr), usize) {
    if from <= to { ((from, to), 0) } else { ((to, from), 1) }
}

/// The packets `times` times, one `period` apart.
fn repeat(once: &[(Span, Vec<u8>)], period: Span, times: u32) -> Timed {
    let shifted = |n: u64| once.iter().map(move |(at, packet)| (period * n + *at, packet.clone()));
    (0..u64::from(times)).flat_map(shifted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_wire::pcap::{LinkType, Writer};

    /// UDP of IPv4 between two hosts of 10.0.0.0/24, with its own length in the header or 0.
    fn packet([from, to]: [u8; 2], len: u8, in_header: u8) -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0, in_header, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
        packet.resize(usize::from(len), from);
        packet
    }

    /// Frames at times in milliseconds.
    fn opened(frames: &[(u64, u16, Vec<u8>)]) -> Opened {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, LinkType::ETHERNET).expect("written");
        for (at, ethertype, content) in frames {
            let frame = match ethertype {
                5 => [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], content].concat(),
                _ => [&[2; 12][..], &ethertype.to_be_bytes(), content].concat(),
            };
            writer.write(at * 1_000_000, &frame, 0).expect("written");
        }
        Opened { shown: "a.pcap".to_owned(), bytes: Box::new(io::Cursor::new(bytes)) }
    }

    fn sent(frames: &[(u64, u16, Vec<u8>)], direction: &Direction) -> [Vec<(u64, usize)>; 2] {
        let captured = read(opened(frames), 1, direction, None).expect("readable");
        captured.halves.map(|half| {
            half.packets.iter().map(|(at, packet)| (at.as_nanos() / 1_000_000, packet.len())).collect()
        })
    }

    #[test]
    fn a_replay_reads_what_other_commands_read_and_accounts_for_it() {
        let frames = [
            (0, 0x800, packet([1, 2], 100, 100)),
            (1, 5, packet([1, 2], 90, 90)),
            (2, 0x806, vec![0; 28]),
            (3, 0x800, packet([1, 2], 200, 0)),
            (4, 0x800, vec![0x45, 0]),
        ];
        assert_eq!(sent(&frames, &Direction::Data), [vec![(0, 100), (1, 90), (3, 200)], vec![]]);
        let recorded =
            recorded(&mut || Ok(opened(&frames)), (2, &Direction::Data), None, Span::MAX).expect("readable");
        assert_eq!((recorded.packets, recorded.bytes), (6, Bytes::new(780)));
        let note = recorded.note.expect("a note");
        let said = "5 records, 3 used (1 of length 0, taken from the record, ";
        assert!(note.starts_with(said) && note.contains("of EtherType 0x0806 (ARP)"), "{note}");
        assert_eq!(read(opened(&frames), 1, &Direction::Data, None).expect("readable").left_out, 2);
        let arp = read(opened(&frames[2..3]), 1, &Direction::Data, None).err().expect("an error");
        let said =
            "a.pcap: no IP packet in it: 1 records, none used, 1 left out: of EtherType 0x0806 (ARP), not IP";
        assert_eq!(arp, said);
    }

    #[test]
    fn a_header_without_a_checksum_gets_one() {
        let mut captured = packet([1, 2], 100, 100);
        captured[10..12].fill(0);
        let frames = [(0, 0x800, captured)];
        let sent = read(opened(&frames), 1, &Direction::Data, None).expect("readable").halves;
        let ip = ipv4::Packet::new_checked(&sent[0].packets[0].1[..]).expect("a packet");
        assert_eq!(ip.verify_checksum(), Ok(()));
        let note = recorded(&mut || Ok(opened(&frames)), (1, &Direction::Data), None, Span::MAX)
            .expect("readable")
            .note;
        assert_eq!(note.as_deref(), Some("1 records, all used (1 without a header checksum)"));
    }

    #[test]
    fn a_capture_of_rohc_has_a_help() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, LinkType::USER0).expect("written");
        writer.write(0, &[0xfd, 4, 1, 2], 0).expect("written");
        let opened = Opened { shown: "a.pcap".to_owned(), bytes: Box::new(io::Cursor::new(bytes)) };
        let error = read(opened, 1, &Direction::Data, None).err().expect("an error");
        assert!(error.ends_with("; help: `rohc = {}` next to `file` restores packets of ROHC"), "{error}");
    }

    #[test]
    fn packets_of_rohc_are_restored() {
        let rohc = Rohc { contexts: 4, ..Rohc::default() };
        let mut compressor = bentpipe_rohc::Compressor::new(rohc.compressor());
        let mut sent: Vec<Vec<u8>> = (0..20).map(|n| packet([1, 2], 60 + n, 60 + n)).collect();
        for packet in &mut sent {
            ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
        }
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, LinkType::USER0).expect("written");
        for (n, packet) in (0..).zip(&sent) {
            let mut out = Vec::new();
            let at = std::time::Duration::from_millis(20 * n);
            compressor.compress(at, packet, &mut out).expect("compressed");
            writer.write(20_000_000 * n, &out, 0).expect("written");
        }
        let opened =
            || Opened { shown: "a.pcap".to_owned(), bytes: Box::new(io::Cursor::new(bytes.clone())) };
        let captured = read(opened(), 1, &Direction::Data, Some(&rohc)).expect("readable");
        let packets: Vec<&[u8]> = captured.halves[0].packets.iter().map(|(_, packet)| &packet[..]).collect();
        assert_eq!((packets.len(), captured.left_out), (20, 0));
        assert!(packets.iter().zip(&sent).all(|(packet, sent)| *packet == &sent[..]));
        let all = recorded(&mut || Ok(opened()), (2, &Direction::Data), Some(&rohc), Span::MAX);
        assert_eq!(all.expect("readable").packets, 40);
    }

    #[test]
    fn the_direction_is_that_of_most_bytes_or_chosen() {
        let frames = [
            (0, 0x800, packet([2, 1], 60, 60)),
            (10, 0x800, packet([1, 2], 200, 200)),
            (20, 0x800, packet([2, 1], 61, 61)),
            (30, 0x800, packet([1, 3], 50, 50)),
        ]
        .map(|(at, ethertype, mut packet)| {
            ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
            (at, ethertype, packet)
        });
        let there = vec![(10, 200), (30, 50)];
        let back = vec![(0, 60), (20, 61)];
        assert_eq!(sent(&frames, &Direction::Data), [there.clone(), vec![]]);
        assert_eq!(sent(&frames, &Direction::Both), [there, back.clone()]);
        assert_eq!(sent(&frames, &Direction::All)[0].len(), 4);
        let chosen = "10.0.0.2".to_owned().try_into().expect("an address");
        assert_eq!(sent(&frames, &chosen), [back, vec![]]);
        let of = |direction: &Direction, until| {
            recorded(&mut || Ok(opened(&frames)), (2, direction), None, until).expect("readable")
        };
        let note = |direction: &Direction| of(direction, Span::MAX).note;
        let said =
            "2 packets from 10.0.0.2 to 10.0.0.1 are of the other direction and left out: see `direction`";
        assert_eq!(note(&Direction::Data).as_deref(), Some(said));
        assert_eq!(note(&Direction::All), None);
        let none = "10.0.0.9".to_owned().try_into().expect("an address");
        let error = read(opened(&frames), 1, &none, None).err().expect("an error");
        assert_eq!(error, "a.pcap: no packet from 10.0.0.9 in it: packets are from 10.0.0.1, 10.0.0.2");
        assert!(Direction::try_from("up".to_owned()).is_err());
        // What is sent before a time is the packets in front of it, repetitions counted.
        for (until, packets, bytes, lasts) in
            [(30, 1, 200, 20), (31, 2, 250, 21), (51, 3, 450, 41), (90, 4, 500, 60)]
        {
            let found = of(&Direction::Data, Span::from_millis(until));
            assert_eq!(
                (found.packets, found.bytes, found.lasts),
                (packets, Bytes::new(bytes), Span::from_millis(lasts))
            );
            assert_eq!(found.of, (4, Bytes::new(500), Span::from_millis(60)));
        }
        // Repetitions keep the pace of the whole capture.
        let twice =
            read(opened(&frames), 2, &Direction::Data, None).expect("readable").halves[0].packets.clone();
        assert_eq!(twice[2].0, Span::from_millis(50));
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_the_spacing_and_packets_without_times_are_said() {
        let mut times: Vec<u64> = (0..5).map(|n| 7_000_000 + 20 * n).collect();
        times.extend((0..3).map(|n| 20 * n));
        // Two interfaces, a little out of order.
        times.insert(3, 7_000_030);
        let frame = |(n, at): (u8, u64)| {
            let mut packet = packet([1, 2], 100, 100);
            packet[5] = n;
            (at, 0x800, packet)
        };
        let frames: Vec<(u64, u16, Vec<u8>)> = (0..).zip(times).map(frame).collect();
        let found: Vec<u64> = sent(&frames, &Direction::Data)[0].iter().map(|(at, _)| *at).collect();
        assert_eq!(found, [0, 20, 40, 40, 60, 80, 100, 120, 140]);
        let note = recorded(&mut || Ok(opened(&frames)), (1, &Direction::Data), None, Span::MAX)
            .expect("readable")
            .note
            .expect("a note");
        assert!(note.contains("its clock is set back once: packets behind go on at the spacing"), "{note}");
        let mut clock = Clock::default();
        assert_eq!([clock.at(Some(5)), clock.at(None), clock.at(Some(8))], [0, 0, 3].map(Span::from_nanos));
        let mut text = String::new();
        clock.note(&mut text);
        assert_eq!(text, "1 packet has no time: each leaves at once with the one before");
    }

    /// An address is at one end: packets for it come from the other one, whoever sends more.
    #[test]
    fn each_address_is_at_one_end() {
        // 1 sends most to 2, and 3 most to 1, which sends to itself too.
        let frames = [
            (0, 0x800, packet([1, 2], 200, 200)),
            (10, 0x800, packet([3, 1], 150, 150)),
            (20, 0x800, packet([1, 3], 60, 60)),
            (30, 0x800, packet([2, 1], 61, 61)),
            (40, 0x800, packet([1, 1], 62, 62)),
        ];
        let [there, back] = sent(&frames, &Direction::Both);
        assert_eq!(there, [(0, 200), (20, 60)]);
        assert_eq!(back, [(10, 150), (30, 61), (40, 62)]);
        let halves = read(opened(&frames), 1, &Direction::Both, None).expect("readable").halves;
        assert!(halves[0].destinations.is_disjoint(&halves[1].destinations));
        let note = recorded(&mut || Ok(opened(&frames)), (1, &Direction::Both), None, Span::MAX)
            .expect("readable")
            .note;
        let said =
            "1 packet from 10.0.0.1 to 10.0.0.1 is between addresses of one end, and sent by the other one";
        assert!(note.as_ref().is_some_and(|note| note.ends_with(said)), "{note:?}");
        // One that has no other is at the receiver's end.
        assert_eq!(sent(&frames[4..], &Direction::Both), [vec![(0, 62)], vec![]]);
    }
}
