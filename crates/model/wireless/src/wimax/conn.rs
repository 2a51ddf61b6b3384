//! Connection: the queue of a service flow, and the PDUs made of it.

use bentpipe_net::queue::Queue;
use bentpipe_net::{InvalidConfig, Packet, Why};
use bentpipe_units::{RandomStream, Time};
use bentpipe_wire::wman::{CRC_LEN, Cid, Fragment, Grant, HEADER_LEN, Layout, MAX_PDU_LEN, Numbers};

use super::air::PduRecord;
use super::arq::{self, Done, Link};
use super::config::{Cell, Convergence, PathConfig, ServiceFlow};
use super::contend::Contention;
use super::phs::Suppressor;
use super::rohc::Channel;

/// Smallest first or middle fragment in bytes.
const MIN_FRAGMENT: usize = 16;

/// Rules by which PDUs are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mac {
    /// Bytes of header and CRC.
    pub(super) fixed: usize,
    fragmentation: bool,
    packing: bool,
    convergence: Convergence,
    /// Set if PDUs may be recorded.
    is_recorded: bool,
}

impl Mac {
    /// Creates the rules of a cell.
    pub(super) fn new(cell: &Cell) -> Mac {
        let fixed = HEADER_LEN + if cell.crc { CRC_LEN } else { 0 };
        let Cell { fragmentation, packing, convergence, .. } = *cell;
        Mac { fixed, fragmentation, packing, convergence, is_recorded: cell.record.is_some() }
    }

    /// Returns the length in bytes of a PDU with one unfragmented IP packet.
    pub(super) fn pdu_len(&self, packet: usize) -> usize {
        self.fixed + self.convergence.sdu_len(packet)
    }

    /// Returns the length in bytes of a PDU with one packet of a flow.
    pub(super) fn pdu_len_of(&self, flow: &ServiceFlow, packet: usize) -> usize {
        let blocks = if flow.arq.is_some() { self.block_overhead() } else { 0 };
        let subheader = blocks + if flow.slip_indicator { Grant::LEN } else { 0 };
        self.fixed + subheader + flow.sent_len(self.convergence.sdu_len(packet))
    }

    /// Returns the bytes of the subheader of blocks.
    fn block_overhead(&self) -> usize {
        let layout = if self.packing { Layout::Packed } else { Layout::Fragment };
        layout.overhead(Numbers::Extended, 1)
    }

    /// Returns the length in bytes of a PDU of feedback elements, which is packed.
    fn feedback_len(&self, elements: usize) -> usize {
        self.fixed + Layout::Packed.overhead(Numbers::Short, 1) + elements
    }

    /// Returns `true` if packets may be sent in fragments.
    pub(super) fn fragments(&self) -> bool {
        self.fragmentation
    }

    /// Returns the bytes of a fragment in a PDU of `len` bytes, at least 1.
    pub(super) fn fragment_of(&self, len: usize) -> usize {
        len.saturating_sub(self.fixed + self.part_overhead()).max(1)
    }

    fn part_overhead(&self) -> usize {
        let layout = if self.packing { Layout::Packed } else { Layout::Fragment };
        layout.overhead(Numbers::Short, 1)
    }
}

/// Losses of the blocks of a burst, one a symbol, as one station receives them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Data bytes of a symbol.
    pub(super) bytes: usize,
    /// Probability that a block is lost.
    pub(super) loss: f64,
    last: Option<(usize, bool)>,
}

impl Blocks {
    /// Creates the losses of a burst.
    pub(super) fn new(bytes: usize, loss: f64) -> Blocks {
        Blocks { bytes, loss, last: None }
    }

    /// Returns `true` if a block is lost that has bytes from `start` to before `end`. Each block is drawn once.
    fn lose(&mut self, start: usize, end: usize, stream: &mut RandomStream) -> bool {
        if self.loss < 1e-9 {
            return false;
        }
        let mut lost = false;
        for block in start / self.bytes..=(end - 1) / self.bytes {
            let this = match self.last {
                Some((last, was_lost)) if last == block => was_lost,
                _ => stream.chance(self.loss),
            };
            self.last = Some((block, this));
            lost |= this;
        }
        lost
    }
}

/// Feedback elements of another connection, to be sent.
#[derive(Debug)]
struct Control {
    /// Connection whose receiver wrote them.
    of: usize,
    written: Time,
    bytes: Vec<u8>,
}

/// Feedback elements that are sent: their end in the burst, unless they are lost.
#[derive(Debug)]
pub(super) struct SentControl {
    /// Connection whose receiver wrote them.
    pub(super) of: usize,
    /// Time at which they were written.
    pub(super) written: Time,
    /// Bytes.
    pub(super) bytes: Vec<u8>,
    /// End of the PDU in the burst; `None` if it is lost.
    pub(super) end: Option<usize>,
    /// Set if further elements did not fit.
    pub(super) is_rest: bool,
}

/// Packet of which fragments are sent.
struct Head {
    packet: Packet,
    len: usize,
    sent: usize,
    lost: bool,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// PDUs sent.
    pub(super) pdus: u64,
    /// PDUs lost on the channel.
    pub(super) pdus_lost: u64,
    /// Fragments sent.
    pub(super) fragments: u64,
    /// Packets lost because a PDU with a part of them was.
    pub(super) dropped_errors: u64,
    /// Packets dropped after the last attempt to ask for bandwidth.
    pub(super) dropped_requests: u64,
    /// Requests sent by contention.
    pub(super) requests: u64,
    /// Requests that collided.
    pub(super) collided: u64,
    /// Piggyback requests.
    pub(super) piggybacks: u64,
    /// Grants beyond those of the interval, for slips.
    pub(super) slip_grants: u64,
    /// Unicast polls.
    pub(super) polls: u64,
    /// Granted bytes.
    pub(super) granted: u64,
}

/// Connection of a service flow.
pub(super) struct Conn {
    /// Path under which it is reported.
    pub(super) name: String,
    /// Number of the direction, its port.
    pub(super) path: usize,
    /// Number of the station.
    pub(super) station: usize,
    /// Service flow.
    pub(super) flow: ServiceFlow,
    queue: Box<dyn Queue>,
    /// Bytes of the SDUs that wait in the queue.
    waiting: usize,
    /// Set if the queue holds back all packets behind the head.
    is_held: bool,
    head: Option<Head>,
    head_since: Time,
    idle_since: Time,
    /// Bytes that the base station knows of, and has not granted.
    pub(super) demand: usize,
    /// Bytes granted in a map whose allocations are to come.
    pub(super) coming: usize,
    /// Time of the request, for deadlines.
    pub(super) asked_at: Time,
    /// Contention of the uplink.
    pub(super) contention: Contention,
    /// Nominal time of the next grant or poll.
    pub(super) due: Time,
    /// Slip indicator of UGS that the base station got last.
    pub(super) slips: bool,
    /// Share of one more grant that a connection has for its slips.
    pub(super) spare: f64,
    /// Size of ertPS grants in bytes.
    pub(super) grant_size: usize,
    /// Start of the last uplink in which it sent.
    pub(super) sent_at: Time,
    /// PDUs sent until the last grant.
    pub(super) pdus_at_grant: u64,
    /// Bytes served, averaged, for proportional fairness.
    pub(super) served: f64,
    /// Counters.
    pub(super) counts: Counts,
    /// PDUs that are made, while they are recorded.
    pub(super) record: Option<Vec<PduRecord>>,
    /// Number of the next fragment in a record.
    fragment: u16,
    /// Payload header suppression.
    pub(super) phs: Option<Box<Suppressor>>,
    /// Robust header compression.
    pub(super) rohc: Option<Box<Channel>>,
    /// Automatic repeat request.
    pub(super) arq: Option<Box<Link>>,
    /// Connection of the other direction that carries feedback of this one's ARQ.
    pub(super) carrier: Option<usize>,
    /// Connection of the other direction that carries feedback of this one's header compression.
    pub(super) rohc_partner: Option<usize>,
    /// Feedback of connections of the other direction, and what is sent of it.
    control: Vec<Control>,
    pub(super) sent_control: Vec<SentControl>,
}

impl Conn {
    /// Creates the connection of a service flow, the `n`th of its direction.
    ///
    /// # Errors
    /// Returns an error that names the key of the queue with an invalid value.
    pub(super) fn new(
        (path, cid): (usize, Cid),
        config: &PathConfig,
        n: usize,
        flow: &ServiceFlow,
        mac: &Mac,
    ) -> Result<Conn, InvalidConfig> {
        let name = if n == 0 { config.name.clone() } else { format!("{}/flow.{}", config.name, n + 1) };
        Ok(Conn {
            name,
            path,
            station: config.station,
            flow: flow.clone(),
            queue: config.queue.build()?,
            waiting: 0,
            is_held: false,
            head: None,
            head_since: Time::ZERO,
            idle_since: Time::ZERO,
            demand: 0,
            coming: 0,
            asked_at: Time::ZERO,
            contention: Contention::Idle,
            due: Time::ZERO,
            slips: false,
            spare: 1.0,
            grant_size: mac.pdu_len_of(flow, flow.sdu.get() as usize),
            sent_at: Time::NEVER,
            pdus_at_grant: 0,
            served: 0.0,
            counts: Counts::default(),
            record: None,
            fragment: 0,
            phs: flow.phs.as_ref().map(|phs| Box::new(Suppressor::new(phs, mac.convergence))),
            rohc: flow.rohc.as_ref().map(|rohc| Box::new(Channel::new(rohc))),
            arq: flow.arq.as_ref().map(|arq| Box::new(Link::new(arq, cid))),
            carrier: None,
            rohc_partner: None,
            control: Vec::new(),
            sent_control: Vec::new(),
        })
    }

    /// Returns the queue.
    pub(super) fn queue(&mut self) -> &mut dyn Queue {
        &mut *self.queue
    }

    /// Returns the queue, to be read.
    pub(super) fn queued(&self) -> &dyn Queue {
        &*self.queue
    }

    /// Returns the length in bytes of what is sent of a packet, without PDU headers.
    ///
    /// It is the same each time: rules stay, and a packet that no rule matched when it came gets none later.
    #[inline]
    fn sent_len(&self, packet: &Packet, mac: &Mac) -> usize {
        match &self.phs {
            Some(phs) => phs.sent_len(packet),
            None => mac.convergence.sdu_len(packet.len()),
        }
    }

    /// Queues a packet, or drops it.
    pub(super) fn accept(&mut self, packet: Packet, mac: &Mac, now: Time, stream: &mut RandomStream) {
        let packet = match &mut self.rohc {
            Some(rohc) => rohc.compress(packet, now),
            None => packet,
        };
        self.enqueue(packet, mac, now, stream);
    }

    /// Queues a packet in its form on the air, or drops it.
    pub(super) fn enqueue(&mut self, packet: Packet, mac: &Mac, now: Time, stream: &mut RandomStream) {
        if let Some(phs) = &mut self.phs {
            phs.learn(&packet);
        }
        let len = self.sent_len(&packet, mac);
        if self.head.is_none() && self.queue.packets() == 0 {
            let passed = self.queue.pass(packet, now, self.idle_since.min(now), stream);
            self.head = passed.map(|packet| Head { packet, len, sent: 0, lost: false });
            self.head_since = now;
            if self.queue.packets() > 0 {
                (self.waiting, self.is_held) = (len, true);
            }
            return;
        }
        let (packets, bytes, own) = (self.queue.packets(), self.queue.bytes(), packet.len() as u64);
        self.queue.enqueue(packet, now, stream);
        if self.queue.packets() > packets {
            self.waiting += len;
        } else if self.queue.bytes() != bytes {
            // A discipline made room by packets that it had accepted: their bytes are known, not their headers on the air.
            let dropped = (bytes + own).saturating_sub(self.queue.bytes()) as usize;
            self.waiting = (self.waiting + len).saturating_sub(dropped);
        }
        // A queue that held all back may let this one pass.
        if self.head.is_none() {
            self.advance(mac, now);
        } else {
            self.note_held(now);
        }
    }

    /// Gets the next packet where the queue held packets back.
    pub(super) fn refill(&mut self, mac: &Mac, now: Time) {
        if self.is_held && self.head.is_none() {
            self.advance(mac, now);
        } else if self.is_held {
            self.note_held(now);
        }
    }

    fn note_held(&mut self, now: Time) {
        self.is_held = self.queue.packets() > 0 && self.queue.ready() > now;
    }

    /// Returns the bytes of MAC PDUs of everything that waits.
    #[inline]
    pub(super) fn need(&self, mac: &Mac) -> usize {
        if self.arq.is_some() || !self.control.is_empty() {
            return self.need_with_control(mac);
        }
        self.need_of_packets(mac)
    }

    #[inline]
    fn need_of_packets(&self, mac: &Mac) -> usize {
        let Some(head) = &self.head else { return 0 };
        let fragment = if head.sent > 0 || mac.packing { mac.part_overhead() } else { 0 };
        let first = head.len - head.sent + mac.fixed + fragment;
        let each = if mac.packing { mac.part_overhead() } else { mac.fixed };
        // Nothing is asked for packets that may not leave.
        let rest = if self.is_held { 0 } else { self.waiting + self.queue.packets() * each };
        let more = if mac.packing { rest / MAX_PDU_LEN * mac.fixed } else { 0 };
        first + rest + more
    }

    /// Returns the bytes of MAC PDUs with feedback of other connections, or of blocks.
    fn need_with_control(&self, mac: &Mac) -> usize {
        let control: usize = self.control.iter().map(|control| mac.feedback_len(control.bytes.len())).sum();
        let Some(link) = &self.arq else { return control + self.need_of_packets(mac) };
        let discard = link.discard_message().map_or(0, |message| mac.fixed + message.len());
        let each = mac.block_overhead() + if mac.packing { 0 } else { mac.fixed };
        let (blocks, runs) = link.need();
        let mut payload = blocks + runs * each;
        // What waits is asked for as far as the window takes it.
        if let Some(head) = &self.head {
            let all = head.len + if self.is_held { 0 } else { self.waiting };
            let block = self.flow.arq.as_ref().map_or(1, |arq| arq.block.get() as usize);
            let within = all.min((link.allowed() as usize * block).saturating_sub(blocks));
            let packets = 1 + if self.is_held { 0 } else { self.queue.packets() };
            payload += within + if within == 0 { 0 } else { (packets * within).div_ceil(all.max(1)) * each };
        }
        if mac.packing && payload > 0 {
            payload += mac.fixed * payload.div_ceil(MAX_PDU_LEN - mac.fixed);
        }
        control + discard + payload
    }

    /// Returns `true` if anything can be sent.
    #[inline]
    pub(super) fn is_backlogged(&self) -> bool {
        match &self.arq {
            None => self.head.is_some() || !self.control.is_empty(),
            Some(link) => {
                let takes_more = self.head.is_some() && link.takes_sdu();
                takes_more || link.can_send() || !self.control.is_empty()
            }
        }
    }

    /// Returns `true` if a packet waits, or blocks are not acknowledged.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.head.is_some()
            || self.is_held
            || !self.control.is_empty()
            || self.arq.as_ref().is_some_and(|link| link.is_open())
    }

    /// Replaces the feedback of a connection of the other direction that is to be sent.
    pub(super) fn set_control(&mut self, of: usize, written: Time, bytes: Option<Vec<u8>>) {
        self.control.retain(|control| control.of != of);
        self.control.extend(bytes.map(|bytes| Control { of, written, bytes }));
    }

    /// Returns the time at which the packet at the head got there.
    pub(super) fn head_since(&self) -> Time {
        self.head_since
    }

    /// Drops the packet at the head.
    pub(super) fn drop_head(&mut self, mac: &Mac, now: Time) {
        if let Some(head) = self.head.take() {
            head.packet.lose(Why::Retries);
            self.counts.dropped_requests += 1;
        }
        self.advance(mac, now);
    }

    fn advance(&mut self, mac: &Mac, now: Time) {
        self.idle_since = now;
        let packet = self.queue.dequeue(now);
        self.note_held(now);
        let Some(packet) = packet else { return };
        let len = self.sent_len(&packet, mac);
        // A discipline may drop at this moment what it had accepted; an empty queue ends any error of the count.
        self.waiting = if self.queue.packets() == 0 { 0 } else { self.waiting.saturating_sub(len) };
        self.head_since = now;
        self.head = Some(Head { packet, len, sent: 0, lost: false });
    }

    /// Returns the grants of UGS beyond `due` ones of the interval.
    ///
    /// A connection whose queue slips gets one at once, and after that at most 1 % of its grants (802.16-2004, 6.3.5.2.1).
    pub(super) fn extra_grants(&mut self, due: usize) -> usize {
        if !self.flow.slip_indicator {
            return 0;
        }
        self.spare = (self.spare + 0.01 * due as f64).min(1.0);
        if !self.slips || self.spare < 1.0 {
            return 0;
        }
        self.spare -= 1.0;
        self.counts.slip_grants += 1;
        1
    }

    /// Fills a part of a burst with PDUs and returns their end.
    ///
    /// `grant` puts a grant management subheader into the first of them.
    pub(super) fn fill(
        &mut self,
        (from, to): (usize, usize),
        grant: bool,
        mac: &Mac,
        (now, stream): (Time, &mut RandomStream),
        blocks: &mut Blocks,
        done: &mut Vec<Done>,
    ) -> usize {
        let (mut at, mut grant) = (from, grant);
        if !self.control.is_empty() {
            (at, grant) = self.fill_control((from, to), grant, mac, stream, blocks);
        }
        if self.arq.is_some() {
            return self.fill_blocks((at, to), grant, mac, (now, stream), blocks, done);
        }
        while self.head.is_some() {
            let fixed = mac.fixed + if grant { Grant::LEN } else { 0 };
            let room = to.saturating_sub(at).min(MAX_PDU_LEN);
            let first = done.len();
            self.begin_record(grant, mac);
            let len = if mac.packing {
                self.pack(fixed, room, mac, now, done)
            } else {
                self.single(fixed, room, mac, now, done)
            };
            if len == 0 {
                if let Some(record) = &mut self.record {
                    record.pop();
                }
                break;
            }
            self.end_pdu((at, at + len), (first, stream), blocks, done);
            (at, grant) = (at + len, false);
        }
        at
    }

    /// Fills a part of a burst with feedback of other connections.
    fn fill_control(
        &mut self,
        (from, to): (usize, usize),
        mut grant: bool,
        mac: &Mac,
        stream: &mut RandomStream,
        blocks: &mut Blocks,
    ) -> (usize, bool) {
        let mut at = from;
        while let Some(control) = self.control.first_mut() {
            let with_grant = if grant { Grant::LEN } else { 0 };
            let room = to.saturating_sub(at + with_grant + mac.feedback_len(0));
            let Some(bytes) =
                arq::take_elements(&mut control.bytes, room.min(MAX_PDU_LEN - mac.feedback_len(0)))
            else {
                break;
            };
            let (of, written, is_rest) = (control.of, control.written, !control.bytes.is_empty());
            if !is_rest {
                self.control.remove(0);
            }
            let len = mac.feedback_len(bytes.len()) + with_grant;
            if let Some(record) = &mut self.record {
                let (grant, parts) = (grant.then_some(0), vec![(Fragment::Whole, 0, bytes.clone())]);
                let layout = Layout::Packed;
                record.push(PduRecord { grant, layout, parts, is_feedback: true, ..PduRecord::default() });
            }
            let is_lost = self.send_pdu((at, at + len), stream, blocks);
            (at, grant) = (at + len, false);
            let end = (!is_lost).then_some(at);
            self.sent_control.push(SentControl { of, written, bytes, end, is_rest });
        }
        (at, grant)
    }

    /// Returns `true` if a PDU, which is counted, is lost.
    fn send_pdu(
        &mut self,
        (start, end): (usize, usize),
        stream: &mut RandomStream,
        blocks: &mut Blocks,
    ) -> bool {
        self.counts.pdus += 1;
        let is_lost = blocks.lose(start, end, stream);
        self.counts.pdus_lost += u64::from(is_lost);
        is_lost
    }

    /// Fills a part of a burst with PDUs of blocks, and with a discard message.
    fn fill_blocks(
        &mut self,
        (from, to): (usize, usize),
        mut grant: bool,
        mac: &Mac,
        (now, stream): (Time, &mut RandomStream),
        blocks: &mut Blocks,
        done: &mut Vec<Done>,
    ) -> usize {
        let mut at = from;
        loop {
            let with_grant = if grant { Grant::LEN } else { 0 };
            let room = to.saturating_sub(at).min(MAX_PDU_LEN);
            let message = self.arq.as_ref().and_then(|link| link.discard_message());
            let (mut len, mut runs) = (mac.fixed + with_grant, Vec::new());
            if let Some(message) = &message {
                len += message.len();
            } else {
                while let Some(run) =
                    self.take_blocks(room.saturating_sub(len + mac.block_overhead()), mac, now)
                {
                    len += mac.block_overhead() + run.len;
                    runs.push(run);
                    if !mac.packing {
                        break;
                    }
                }
            }
            if len > room || (message.is_none() && runs.is_empty()) {
                return at;
            }
            self.record_blocks(grant, message, &runs, mac);
            let is_lost = self.send_pdu((at, at + len), stream, blocks);
            (at, grant) = (at + len, false);
            let Some(link) = &mut self.arq else { return at };
            if runs.is_empty() {
                link.send_discard(now, at, is_lost, done);
            }
            for run in &runs {
                self.counts.fragments += u64::from(run.fragment != Fragment::Whole);
                link.send(run, at, is_lost, done);
            }
        }
    }

    /// Removes blocks to be sent from the window.
    ///
    /// The packet at the head goes into the window once all before it are sent.
    fn take_blocks(&mut self, room: usize, mac: &Mac, now: Time) -> Option<super::arq::Run> {
        let link = self.arq.as_mut()?;
        if link.takes_sdu()
            && let Some(Head { packet, len, .. }) = self.head.take()
        {
            if let Some(phs) = &mut self.phs {
                phs.count(&packet, len);
            }
            let bytes = mac.is_recorded.then(|| match &self.phs {
                Some(phs) => phs.sent(&packet),
                None => mac.convergence.sdu(&packet.to_vec()),
            });
            link.push(packet, len, bytes);
            self.advance(mac, now);
        }
        self.arq.as_mut()?.take(room, now)
    }

    /// Records a PDU of a discard message or of blocks, if PDUs are recorded.
    fn record_blocks(
        &mut self,
        has_grant: bool,
        message: Option<Vec<u8>>,
        runs: &[super::arq::Run],
        mac: &Mac,
    ) {
        let (Some(record), Some(link)) = (&mut self.record, &self.arq) else { return };
        let grant = has_grant.then_some(0);
        if let Some(message) = message {
            let parts = vec![(Fragment::Whole, 0, message)];
            record.push(PduRecord { grant, parts, is_management: true, ..PduRecord::default() });
            return;
        }
        let layout = if mac.packing { Layout::Packed } else { Layout::Fragment };
        let number = |first: u64| (first % u64::from(Numbers::Extended.modulus())) as u16;
        let parts = runs.iter().map(|run| (run.fragment, number(run.first), link.bytes(run))).collect();
        record.push(PduRecord { grant, layout, numbers: Numbers::Extended, parts, ..PduRecord::default() });
    }

    /// Begins the record of a PDU, if PDUs are recorded.
    fn begin_record(&mut self, has_grant: bool, mac: &Mac) {
        if let Some(record) = &mut self.record {
            let grant = has_grant.then_some(0);
            // Of a PDU with one part the fragment decides.
            let layout = if mac.packing { Layout::Packed } else { Layout::Whole };
            record.push(PduRecord { grant, layout, ..PduRecord::default() });
        }
    }

    /// Records bytes of the head from `from` on, if PDUs are recorded.
    fn record_part(&mut self, from: usize, part: usize, mac: &Mac) {
        let (Some(record), Some(head)) = (&mut self.record, &self.head) else { return };
        let fragment = Fragment::at(from == 0, from + part == head.len);
        let number = self.fragment;
        if fragment != Fragment::Whole {
            self.fragment = (number + 1) % Numbers::Short.modulus();
        }
        let mut bytes = match &self.phs {
            Some(phs) => phs.sent(&head.packet),
            None => mac.convergence.sdu(&head.packet.to_vec()),
        };
        bytes.truncate(from + part);
        bytes.drain(..from.min(bytes.len()));
        if let Some(pdu) = record.last_mut() {
            if pdu.layout == Layout::Whole && fragment != Fragment::Whole {
                pdu.layout = Layout::Fragment;
            }
            pdu.parts.push((fragment, number, bytes));
        }
    }

    /// Ends a PDU: its packets are complete at its end, unless it is lost.
    fn end_pdu(
        &mut self,
        (start, end): (usize, usize),
        (first, stream): (usize, &mut RandomStream),
        blocks: &mut Blocks,
        done: &mut Vec<Done>,
    ) {
        self.counts.pdus += 1;
        done[first..].iter_mut().for_each(|done| done.end = end);
        if !blocks.lose(start, end, stream) {
            return;
        }
        self.counts.pdus_lost += 1;
        self.counts.dropped_errors += (done.len() - first) as u64;
        done.drain(first..).for_each(|done| done.packet.lose(Why::Channel));
        // Of the packet at the head a fragment may have been in it.
        if let Some(head) = self.head.as_mut().filter(|head| head.sent > 0) {
            head.lost = true;
        }
    }

    /// Builds a PDU of one packet or fragment and returns its length, or zero.
    fn single(&mut self, fixed: usize, room: usize, mac: &Mac, now: Time, done: &mut Vec<Done>) -> usize {
        let Some(head) = &self.head else { return 0 };
        let rest = head.len - head.sent;
        let fragment = if head.sent > 0 { mac.part_overhead() } else { 0 };
        if fixed + fragment + rest <= room {
            self.send(rest, mac, now, done);
            return fixed + fragment + rest;
        }
        let part = room.saturating_sub(fixed + mac.part_overhead());
        if !mac.fragmentation || part < MIN_FRAGMENT {
            return 0;
        }
        self.send(part, mac, now, done);
        fixed + mac.part_overhead() + part
    }

    /// Packs packets into a PDU and returns its length; zero if nothing fits.
    fn pack(&mut self, fixed: usize, room: usize, mac: &Mac, now: Time, done: &mut Vec<Done>) -> usize {
        let mut len = fixed;
        while let Some(head) = &self.head {
            let rest = head.len - head.sent;
            let left = room.saturating_sub(len + mac.part_overhead());
            let part = if rest <= left { rest } else { left };
            if part < rest && (!mac.fragmentation || part < MIN_FRAGMENT) {
                break;
            }
            len += mac.part_overhead() + part;
            self.send(part, mac, now, done);
            if part < rest {
                break;
            }
        }
        if len == fixed { 0 } else { len }
    }

    /// Sends `part` bytes of the head, and dequeues after its last byte.
    fn send(&mut self, part: usize, mac: &Mac, now: Time, done: &mut Vec<Done>) {
        if self.record.is_some() {
            let from = self.head.as_ref().map_or(0, |head| head.sent);
            self.record_part(from, part, mac);
        }
        let Some(head) = &mut self.head else { return };
        head.sent += part;
        if head.sent < head.len {
            self.counts.fragments += 1;
            return;
        }
        self.counts.fragments += u64::from(part < head.len);
        if let Some(Head { packet, len, lost, .. }) = self.head.take() {
            if let Some(phs) = &mut self.phs {
                phs.count(&packet, len);
            }
            if lost {
                self.counts.dropped_errors += 1;
                packet.lose(Why::Channel);
            } else {
                done.push(Done { packet, end: 0 });
            }
        }
        self.advance(mac, now);
    }
}
