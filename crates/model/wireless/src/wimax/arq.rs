//! Automatic repeat request of a connection: window of blocks, and feedback.
//!
//! Both ends are in the cell. Blocks go from one to the other in PDUs; the sender learns what arrived from the bytes of feedback
//! elements alone, which the other direction carries and may lose.

use std::collections::VecDeque;

use bentpipe_net::{Packet, Why};
use bentpipe_units::Time;
use bentpipe_wire::wman::arq::{Ack, Discard, Feedback};
use bentpipe_wire::wman::{Cid, Fragment};

use super::config::Arq;

/// Number of block sequence numbers.
const MODULUS: u64 = 2048;
/// Blocks of a map.
const MAP: usize = 16;

/// Packet that is complete at a byte of a burst.
#[derive(Debug)]
pub(super) struct Done {
    /// Packet.
    pub(super) packet: Packet,
    /// End of its last PDU in the burst.
    pub(super) end: usize,
}

/// State of a block at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    /// Sent, and not acknowledged.
    Out,
    /// Lost, and not sent again yet.
    Again,
    Acked,
    /// Given up, with a message to the receiver.
    Discarded,
}

/// Block of the window.
#[derive(Clone, Copy, Debug)]
struct Block {
    state: State,
    /// Time of the last transmission, and of its end at the receiver.
    sent: Time,
    arrives: Time,
    /// Set once the receiver has it.
    has: bool,
    /// Time since which the receiver has it.
    had_at: Time,
}

/// SDU with blocks in the window.
#[derive(Debug)]
struct Sdu {
    /// Packet, until it is delivered or lost.
    packet: Option<Packet>,
    len: usize,
    first: u64,
    blocks: u64,
    /// Blocks that the receiver does not have.
    missing: u64,
    /// Time of the first transmission.
    since: Time,
    /// Bytes, if PDUs may be recorded.
    bytes: Option<Vec<u8>>,
}

impl Sdu {
    fn end(&self) -> u64 {
        self.first + self.blocks
    }
}

/// Blocks of one SDU that follow each other, in a PDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First block, and their number.
    pub(super) first: u64,
    count: u64,
    /// Bytes of the blocks.
    pub(super) len: usize,
    /// Place in the SDU.
    pub(super) fragment: Fragment,
    /// Offset of the bytes in the SDU.
    from: usize,
    sdu: usize,
}

/// Run that is sent: its end in the burst, and whether it is lost.
#[derive(Clone, Copy, Debug)]
struct Flying {
    first: u64,
    count: u64,
    end: usize,
    is_lost: bool,
}

/// Feedback on its way to the sender.
#[derive(Debug)]
struct Report {
    at: Time,
    /// Time at which the receiver wrote it.
    written: Time,
    bytes: Vec<u8>,
}

/// Counters of a connection's ARQ.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Blocks sent, and those of them that were sent before.
    pub(super) blocks: u64,
    /// Blocks sent again.
    pub(super) again: u64,
    /// Bytes of feedback elements.
    pub(super) feedback: u64,
    /// Packets given up after their lifetime.
    pub(super) dropped: u64,
}

/// Both ends of a connection's ARQ.
#[derive(Debug)]
pub(super) struct Link {
    config: Arq,
    cid: Cid,
    /// Number of the first block of the window; its lowest 11 bits are sent.
    start: u64,
    blocks: VecDeque<Block>,
    /// Next block that was never sent.
    next: u64,
    sdus: VecDeque<Sdu>,
    /// Number of blocks that are to be sent again.
    again: usize,
    flying: Vec<Flying>,
    /// Arrivals that no feedback reported.
    unreported: VecDeque<Time>,
    reports: VecDeque<Report>,
    /// Last block of a discard message on its way, and the time of sending.
    discard: Option<(u64, Time)>,
    /// Counters.
    pub(super) counts: Counts,
}

impl Link {
    /// Creates the ARQ of a connection.
    pub(super) fn new(config: &Arq, cid: Cid) -> Link {
        Link {
            config: config.clone(),
            cid,
            start: MODULUS,
            blocks: VecDeque::new(),
            next: MODULUS,
            sdus: VecDeque::new(),
            again: 0,
            flying: Vec::new(),
            unreported: VecDeque::new(),
            reports: VecDeque::new(),
            discard: None,
            counts: Counts::default(),
        }
    }

    fn block(&mut self, number: u64) -> Option<&mut Block> {
        self.blocks.get_mut(number.checked_sub(self.start)? as usize)
    }

    fn end(&self) -> u64 {
        self.start + self.blocks.len() as u64
    }

    fn block_len(&self) -> usize {
        self.config.block.get() as usize
    }

    /// Returns `true` if anything is on its way, or to be sent.
    pub(super) fn is_open(&self) -> bool {
        !self.blocks.is_empty() || !self.unreported.is_empty() || !self.reports.is_empty()
    }

    /// Returns `true` if the window takes blocks of another SDU.
    pub(super) fn takes_sdu(&self) -> bool {
        self.next == self.end() && self.allowed() > 0
    }

    /// Returns the number of new blocks that the window allows.
    pub(super) fn allowed(&self) -> u64 {
        (self.start + u64::from(self.config.window)).saturating_sub(self.next)
    }

    /// Returns `true` if blocks or a discard message can be sent.
    pub(super) fn can_send(&self) -> bool {
        self.again > 0 || self.discard_due().is_some() || (self.next < self.end() && self.allowed() > 0)
    }

    /// Adds an SDU whose bytes on the air are `len`.
    pub(super) fn push(&mut self, packet: Packet, len: usize, bytes: Option<Vec<u8>>) {
        let blocks = len.div_ceil(self.block_len()).max(1) as u64;
        let (first, since) = (self.end(), Time::NEVER);
        self.sdus.push_back(Sdu { packet: Some(packet), len, first, blocks, missing: blocks, since, bytes });
        let never = Time::NEVER;
        let block = Block { state: State::Unsent, sent: never, arrives: never, has: false, had_at: never };
        self.blocks.extend((0..blocks).map(|_| block));
    }

    /// Does what is due: feedback that came, lifetimes, and retries.
    pub(super) fn begin(&mut self, now: Time) {
        while self.reports.front().is_some_and(|report| report.at <= now) {
            let Some(report) = self.reports.pop_front() else { break };
            self.apply(&report);
        }
        self.expire(now);
        let retry = self.config.retry;
        for block in &mut self.blocks {
            if block.state == State::Out && block.sent + retry <= now {
                block.state = State::Again;
                self.again += 1;
            }
        }
        if self.discard.is_some_and(|(up_to, _)| up_to < self.start) {
            self.discard = None;
        }
        if let Some((_, sent)) = &mut self.discard
            && *sent != Time::NEVER
            && *sent + retry <= now
        {
            *sent = Time::NEVER;
        }
    }

    /// Discards SDUs whose lifetime is over.
    fn expire(&mut self, now: Time) {
        let lifetime = self.config.lifetime;
        if lifetime.is_zero() {
            return;
        }
        for n in 0..self.sdus.len() {
            let sdu = &self.sdus[n];
            if sdu.since == Time::NEVER || sdu.since + lifetime > now {
                return;
            }
            let (first, end) = (sdu.first.max(self.start), sdu.end());
            let mut given_up = false;
            for number in first..end {
                let Some(block) = self.block(number) else { continue };
                let was = block.state;
                if matches!(was, State::Acked | State::Discarded) {
                    continue;
                }
                block.state = State::Discarded;
                self.again -= usize::from(was == State::Again);
                given_up = true;
            }
            self.next = self.next.max(end);
            if given_up {
                self.discard = Some((end - 1, Time::NEVER));
            }
        }
    }

    /// Applies the feedback of the receiver.
    fn apply(&mut self, report: &Report) {
        let Ok(list) = Feedback::parse_list(&report.bytes) else { return };
        for element in list {
            match element.ack {
                Ack::Cumulative(up_to) => self.acknowledge_up_to(up_to),
                Ack::Selective { first, maps } => self.acknowledge(first, &maps, report.written),
                Ack::CumulativeSelective { up_to, maps } => {
                    self.acknowledge_up_to(up_to);
                    self.acknowledge(up_to, &maps, report.written);
                }
            }
        }
        self.slide();
    }

    /// Returns the whole number of a block, unless it was not sent.
    ///
    /// Numbers count from the block before the window on.
    fn whole(&self, number: u16) -> Option<u64> {
        let base = self.start - 1;
        let whole = base + (u64::from(number) + MODULUS - base % MODULUS) % MODULUS;
        (whole < self.next).then_some(whole)
    }

    fn acknowledge_up_to(&mut self, up_to: u16) {
        let Some(up_to) = self.whole(up_to) else { return };
        (self.start..=up_to).for_each(|number| self.acknowledge_one(number));
    }

    fn acknowledge_one(&mut self, number: u64) {
        let Some(block) = self.block(number) else { return };
        let was = std::mem::replace(&mut block.state, State::Acked);
        self.again -= usize::from(was == State::Again);
    }

    /// Applies maps. A block that was there to be received, and was not, is sent again.
    fn acknowledge(&mut self, first: u16, maps: &[u16], written: Time) {
        let Some(first) = self.whole(first) else { return };
        for n in 0..maps.len() * MAP {
            let number = first + n as u64;
            if number >= self.next {
                return;
            }
            if maps[n / MAP] >> (MAP - 1 - n % MAP) & 1 == 1 {
                self.acknowledge_one(number);
            } else if let Some(block) = self.block(number)
                && block.state == State::Out
                && block.arrives <= written
            {
                block.state = State::Again;
                self.again += 1;
            }
        }
    }

    /// Moves the window behind blocks that are acknowledged.
    fn slide(&mut self) {
        while self.blocks.front().is_some_and(|block| block.state == State::Acked) {
            self.blocks.pop_front();
            self.start += 1;
        }
        while self.sdus.front().is_some_and(|sdu| sdu.end() <= self.start && sdu.packet.is_none()) {
            self.sdus.pop_front();
        }
    }

    /// Returns bytes and number of runs of what the window can send.
    pub(super) fn need(&self) -> (usize, usize) {
        let (mut bytes, mut runs, mut last) = (0, 0, u64::MAX);
        let limit = self.start + u64::from(self.config.window);
        if self.again == 0 && self.next == self.end() {
            return (0, 0);
        }
        for sdu in &self.sdus {
            for number in sdu.first.max(self.start)..sdu.end() {
                let state = self.blocks[(number - self.start) as usize].state;
                let is_new = state == State::Unsent && number < limit;
                if !is_new && state != State::Again {
                    continue;
                }
                bytes += self.len_of(sdu, number);
                runs += usize::from(number != last.wrapping_add(1) || number == sdu.first);
                last = number;
            }
        }
        (bytes, runs)
    }

    fn len_of(&self, sdu: &Sdu, number: u64) -> usize {
        let before = (number - sdu.first) as usize * self.block_len();
        (sdu.len - before.min(sdu.len)).min(self.block_len())
    }

    /// Returns blocks to send, of at most `room` bytes; repeats go first.
    pub(super) fn take(&mut self, room: usize, now: Time) -> Option<Run> {
        let wanted = if self.again > 0 { State::Again } else { State::Unsent };
        let limit = if self.again > 0 { self.next } else { self.start + u64::from(self.config.window) };
        let first = if self.again > 0 {
            self.start + self.blocks.iter().position(|block| block.state == wanted)? as u64
        } else {
            self.next
        };
        if first >= limit.min(self.end()) {
            return None;
        }
        let n = self.sdus.iter().position(|sdu| first < sdu.end())?;
        let sdu = &self.sdus[n];
        let (mut count, mut len) = (0, 0);
        while first + count < sdu.end().min(limit) {
            let number = first + count;
            let more = self.len_of(sdu, number);
            if self.blocks[(number - self.start) as usize].state != wanted || len + more > room {
                break;
            }
            (count, len) = (count + 1, len + more);
        }
        if count == 0 {
            return None;
        }
        let fragment = Fragment::at(first == sdu.first, first + count == sdu.end());
        let from = (first - sdu.first) as usize * self.block_len();
        self.sdus[n].since = self.sdus[n].since.min(now);
        for number in first..first + count {
            if let Some(block) = self.block(number) {
                (block.state, block.sent, block.arrives) = (State::Out, now, Time::NEVER);
            }
        }
        self.counts.blocks += count;
        if wanted == State::Again {
            self.again -= count as usize;
            self.counts.again += count;
        } else {
            self.next = first + count;
        }
        Some(Run { first, count, len, fragment, from, sdu: n })
    }

    /// Returns the bytes of a run, if PDUs may be recorded.
    pub(super) fn bytes(&self, run: &Run) -> Vec<u8> {
        let bytes = self.sdus.get(run.sdu).and_then(|sdu| sdu.bytes.as_ref());
        let part = bytes.and_then(|bytes| bytes.get(run.from..run.from + run.len));
        part.map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Sends a run whose PDU ends at `end` of the burst. The receiver delivers what is complete with it.
    pub(super) fn send(&mut self, run: &Run, end: usize, is_lost: bool, done: &mut Vec<Done>) {
        let Run { first, count, .. } = *run;
        self.flying.push(Flying { first, count, end, is_lost });
        if is_lost {
            return;
        }
        let mut fresh = 0;
        for number in first..first + count {
            if let Some(block) = self.block(number) {
                fresh += u64::from(!std::mem::replace(&mut block.has, true));
            }
        }
        if let Some(sdu) = self.sdus.get_mut(run.sdu) {
            sdu.missing -= fresh;
        }
        self.deliver(end, done);
    }

    /// Delivers complete packets.
    fn deliver(&mut self, end: usize, done: &mut Vec<Done>) {
        for sdu in &mut self.sdus {
            if sdu.packet.is_none() {
                continue;
            }
            if sdu.missing == 0 {
                done.extend(sdu.packet.take().map(|packet| Done { packet, end }));
            } else if self.config.in_order {
                return;
            }
        }
    }

    /// Returns the last block of a discard message that is due.
    fn discard_due(&self) -> Option<u64> {
        self.discard.filter(|(_, sent)| *sent == Time::NEVER).map(|(up_to, _)| up_to)
    }

    /// Returns the discard message that is to be sent.
    pub(super) fn discard_message(&self) -> Option<Vec<u8>> {
        let up_to = (self.discard_due()? % MODULUS) as u16;
        let mut bytes = Vec::with_capacity(Discard::LEN);
        Discard { cid: self.cid, up_to }.emit(&mut bytes);
        Some(bytes)
    }

    /// Sends the discard message. The receiver drops what is incomplete, and delivers what waited for it.
    pub(super) fn send_discard(&mut self, now: Time, end: usize, is_lost: bool, done: &mut Vec<Done>) {
        let Some((up_to, sent)) = &mut self.discard else { return };
        *sent = now;
        if is_lost {
            return;
        }
        let up_to = *up_to;
        for sdu in self.sdus.iter_mut().take_while(|sdu| sdu.first <= up_to) {
            if sdu.missing > 0 {
                sdu.missing = 0;
                self.counts.dropped += u64::from(sdu.packet.is_some());
                sdu.packet.take().into_iter().for_each(|packet| packet.lose(Why::Lifetime));
            }
        }
        let (first, count) = (self.start, (up_to + 1).saturating_sub(self.start));
        (first..first + count).for_each(|number| {
            self.block(number).into_iter().for_each(|block| block.has = true);
        });
        self.flying.push(Flying { first, count, end, is_lost });
        self.deliver(end, done);
    }

    /// Notes when the runs of the last burst arrive.
    pub(super) fn settle(&mut self, arrival: impl Fn(usize) -> Time) {
        for flying in std::mem::take(&mut self.flying) {
            let at = arrival(flying.end);
            for number in flying.first..flying.first + flying.count {
                if let Some(block) = self.block(number) {
                    block.arrives = at;
                    if !flying.is_lost {
                        block.had_at = block.had_at.min(at);
                    }
                }
            }
            if !flying.is_lost && self.unreported.back() != Some(&at) {
                self.unreported.push_back(at);
            }
        }
    }

    /// Returns the receiver's feedback elements at `now`, if anything came since the last ones.
    pub(super) fn feedback(&self, now: Time) -> Option<Vec<u8>> {
        self.unreported.front().filter(|at| **at <= now)?;
        let has = |block: &Block| block.had_at <= now;
        let missing = self.blocks.iter().position(|block| !has(block)).unwrap_or(self.blocks.len());
        let highest = self.blocks.iter().rposition(has).map_or(0, |n| n + 1);
        let number = |place: usize| ((self.start + place as u64) % MODULUS) as u16;
        // Its bit is the first of the maps.
        let up_to = ((self.start + missing as u64 - 1) % MODULUS) as u16;
        let bit = |place: usize| self.blocks.get(place).is_some_and(has);
        let maps = |from: usize, first: bool| -> Vec<u16> {
            let bits = highest + usize::from(first) - from;
            let map = |map: usize| {
                (0..MAP).fold(0, |bits, n| {
                    let place = from + map * MAP + n;
                    let is_set = if first { place == from || bit(place - 1) } else { bit(place) };
                    bits << 1 | u16::from(is_set)
                })
            };
            (0..bits.div_ceil(MAP).min(Ack::MAX_MAPS)).map(map).collect()
        };
        let mut list = Vec::new();
        let (cid, last) = (self.cid, false);
        if highest <= missing {
            list.push(Feedback { cid, last, ack: Ack::Cumulative(up_to) });
        } else {
            let ack = Ack::CumulativeSelective { up_to, maps: maps(missing, true) };
            list.push(Feedback { cid, last, ack });
            let mut from = missing + Ack::MAX_MAPS * MAP - 1;
            while from < highest {
                let ack = Ack::Selective { first: number(from), maps: maps(from, false) };
                list.push(Feedback { cid, last, ack });
                from += Ack::MAX_MAPS * MAP;
            }
        }
        Some(emit(&list))
    }

    /// Notes feedback that was sent, and that arrives at `at` unless it is lost.
    ///
    /// With a rest that did not fit, the next burst has a list of its own.
    pub(super) fn report(&mut self, written: Time, bytes: Vec<u8>, is_rest: bool, at: Option<Time>) {
        if !is_rest {
            self.unreported.retain(|arrival| *arrival > written);
        }
        self.counts.feedback += bytes.len() as u64;
        self.reports.extend(at.map(|at| Report { at, written, bytes }));
    }
}

/// Removes the elements that fit into `room` bytes from the start of a list.
///
/// Returns `None` if none fits.
pub(super) fn take_elements(list: &mut Vec<u8>, room: usize) -> Option<Vec<u8>> {
    if list.len() <= room {
        return Some(std::mem::take(list));
    }
    let (mut fit, mut rest) = (Vec::new(), Vec::new());
    for element in Feedback::parse_list(list).ok()? {
        let left = room - fit.iter().map(Feedback::buffer_len).sum::<usize>();
        if rest.is_empty() {
            let (first, behind) = cut(element, left);
            fit.extend(first);
            rest.extend(behind);
        } else {
            rest.push(element);
        }
    }
    let [fit, rest] = [fit, rest].map(|list| emit(&list));
    *list = rest;
    (!fit.is_empty()).then_some(fit)
}

/// Writes a list of elements, the last of them marked.
fn emit(list: &[Feedback]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, element) in list.iter().enumerate() {
        Feedback { last: n + 1 == list.len(), ..element.clone() }.emit(&mut bytes);
    }
    bytes
}

/// Cuts an element into one of at most `room` bytes, and the rest.
fn cut(element: Feedback, room: usize) -> (Option<Feedback>, Option<Feedback>) {
    let fitting = room.saturating_sub(Feedback::LEN) / 2;
    let (first, maps, is_cumulative) = match &element.ack {
        Ack::Cumulative(_) => (0, &[][..], true),
        Ack::Selective { first, maps } => (*first, &maps[..], false),
        Ack::CumulativeSelective { up_to, maps } => (*up_to, &maps[..], true),
    };
    if element.buffer_len() <= room {
        return (Some(element), None);
    }
    if room < Feedback::LEN || (fitting == 0 && !is_cumulative) {
        return (None, Some(element));
    }
    let (now, later) = maps.split_at(fitting.min(maps.len()));
    let ack = match (is_cumulative, now) {
        (true, []) => Ack::Cumulative(first),
        (true, _) => Ack::CumulativeSelective { up_to: first, maps: now.to_vec() },
        (false, _) => Ack::Selective { first, maps: now.to_vec() },
    };
    let behind = (usize::from(first) + MAP * now.len()) % MODULUS as usize;
    let rest = Ack::Selective { first: behind as u16, maps: later.to_vec() };
    (Some(Feedback { ack, ..element.clone() }), Some(Feedback { ack: rest, ..element }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks of a list, each with its acknowledgement.
    fn blocks(list: &[u8]) -> Vec<(u16, bool)> {
        let mut all = Vec::new();
        for element in Feedback::parse_list(list).expect("elements") {
            let (first, maps) = match element.ack {
                Ack::Cumulative(up_to) => {
                    all.push((up_to, true));
                    continue;
                }
                Ack::Selective { first, maps } => (first, maps),
                Ack::CumulativeSelective { up_to, maps } => (up_to, maps),
            };
            let bit = |n: usize| maps[n / MAP] >> (MAP - 1 - n % MAP) & 1 == 1;
            all.extend((0..maps.len() * MAP).map(|n| ((first + n as u16) % MODULUS as u16, bit(n))));
        }
        all
    }

    #[test]
    fn parts_of_a_list_say_what_the_list_says() {
        let cid = Cid(0x2001);
        let element = |ack| Feedback { cid, last: false, ack };
        let all = emit(&[
            element(Ack::CumulativeSelective { up_to: 2000, maps: vec![0x8001, 0x1234, 0xffff, 0x0100] }),
            element(Ack::Selective { first: 16, maps: vec![0xa5a5, 0x5a5a, 0x0001] }),
            element(Ack::Selective { first: 64, maps: vec![0x0007] }),
        ]);
        assert_eq!(all.len(), 12 + 10 + 6);
        for room in 0..=all.len() {
            let (mut rest, mut found) = (all.clone(), Vec::new());
            match take_elements(&mut rest, room) {
                None => assert!(room < Feedback::LEN && rest == all, "{room}"),
                Some(part) => {
                    assert!(part.len() <= room && part.len() + 6 > room.min(all.len()), "{room}");
                    found.extend(blocks(&part));
                }
            }
            if !rest.is_empty() {
                found.extend(blocks(&rest));
            }
            found.dedup();
            assert_eq!(found, blocks(&all), "{room}");
        }
    }
}
