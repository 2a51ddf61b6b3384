//! Stream of a sender: queue, encapsulator, and units in flight.

use std::collections::VecDeque;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::Queue;
use bentpipe_net::{Body, Busy, Cx, Observer, Packet, Why};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{bbframe, gse};

use super::{PathConfig, Refusal};
use crate::bridge;
use crate::encapsulator::{Encapsulator, Pdu};
use crate::line::Modcod;
use crate::metrics;
use crate::multiplex::{PduSource, TsSource};
use crate::unit::{CarriedPacket, Unit, digest};

/// Beginning of a packet that a frame without reception has cut.
const CUT: u64 = u64::MAX;

/// Stream of a multiplex.
pub(super) struct Path {
    name: String,
    /// Set if it is for groups: packets are delivered by the streams of its receivers.
    is_common: bool,
    pub(super) encapsulator: Encapsulator,
    pub(super) queue: Box<dyn Queue>,
    pub(super) modcod: Option<Modcod>,
    pub(super) delay: Span,
    mtu: usize,
    /// Set if packets are carried in Ethernet frames.
    pub(super) is_bridged: bool,
    /// Encapsulated packets with the places of beginning and end. The end is a TS packet, or a byte of all data
    /// fields.
    carried_packets: VecDeque<([u64; 2], CarriedPacket)>,
    /// Bytes of all data fields sent.
    consumed: u64,
    /// Bytes that are encapsulated before packets wait in the queue.
    pub(super) backlog: usize,
    scratch: Vec<u8>,
    /// Frames in flight with TS packets of it, and the packets that end in them.
    pub(super) framed: VecDeque<(u64, Vec<CarriedPacket>)>,
    pub(super) in_flight: u64,
    too_big: u64,
    lost: u64,
    faded: u64,
    /// Set if a unit without reception had a part of the last unit's first packet.
    is_first_cut: bool,
    units: u64,
    unit_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    /// Total transmission time of its units.
    pub(super) busy: Busy,
}

impl Path {
    /// Creates a stream whose GSE packets have this label, unless they have an address.
    pub(super) fn new(config: &PathConfig, label: Option<gse::Label>) -> Result<Path, Refusal> {
        let refusal = |part| move |impossible| Refusal { path: None, part, impossible };
        let encapsulator = Encapsulator::new(&config.dvb).map_err(refusal("dvb"))?;
        Ok(Path {
            name: config.name.clone(),
            is_common: config.is_common(),
            encapsulator: encapsulator.labelled(label.unwrap_or(gse::Label::Broadcast)),
            queue: config.queue.build().map_err(refusal("queue"))?,
            modcod: config.modcod,
            delay: config.delay,
            mtu: usize::try_from(config.mtu.get()).unwrap_or(usize::MAX),
            is_bridged: config.dvb.bridged,
            carried_packets: VecDeque::new(),
            consumed: 0,
            backlog: usize::MAX,
            scratch: Vec::new(),
            framed: VecDeque::new(),
            in_flight: 0,
            too_big: 0,
            lost: 0,
            faded: 0,
            is_first_cut: false,
            units: 0,
            unit_bytes: 0,
            delivered: 0,
            delivered_bytes: 0,
            busy: Busy::default(),
        })
    }

    /// Returns the time from which on a TS packet can be sent, if one waits.
    pub(super) fn ready(&self) -> Option<Time> {
        if self.is_backlogged() {
            return Some(Time::ZERO);
        }
        let queue = Some(self.queue.ready()).filter(|ready| !ready.is_never());
        queue.into_iter().chain(self.encapsulator.due()).min()
    }

    /// Returns `true` if packets wait in the queue before they are encapsulated.
    fn is_backlogged(&self) -> bool {
        self.encapsulator.is_full(self.backlog)
    }

    /// Queues a packet, or encapsulates it at once if nothing waits before it.
    pub(super) fn take(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let now = cx.now();
        if packet.len() > self.mtu {
            self.too_big += 1;
            return packet.lose(Why::TooBig);
        }
        if self.is_backlogged() || self.queue.packets() > 0 {
            let is_held = self.queue.ready() > now;
            self.queue.enqueue(packet, now, cx.stream());
            // This one may pass others that the queue holds back.
            if is_held {
                self.serve(now);
            }
        } else if let Some(packet) = self.queue.pass(packet, now, now, cx.stream()) {
            self.encapsulate(now, packet);
        }
    }

    /// Encapsulates waiting packets until a TS packet is full or the byte limit is reached.
    fn serve(&mut self, now: Time) {
        while !self.is_backlogged() {
            let Some(packet) = self.queue.dequeue(now) else { return };
            self.encapsulate(now, packet);
        }
    }

    /// Encapsulates packets that the queue held back until `now`.
    pub(super) fn release(&mut self, now: Time) {
        let ready = self.queue.ready();
        if ready > Time::ZERO && ready <= now {
            self.serve(now);
        }
    }

    fn encapsulate(&mut self, now: Time, packet: Packet) {
        self.scratch.clear();
        if self.is_bridged {
            bridge::write_header(&packet, &mut self.scratch);
        }
        let header_len = self.scratch.len();
        let (bytes, elided) = match packet.body() {
            Body::Zeros(zeros) if !self.is_bridged => (packet.header(), *zeros as usize),
            Body::Zeros(zeros) => {
                self.scratch.extend_from_slice(packet.header());
                (&self.scratch[..], *zeros as usize)
            }
            _ => {
                packet.write_to(&mut self.scratch);
                (&self.scratch[..], 0)
            }
        };
        let pdu = if self.is_bridged { Pdu::ethernet(bytes) } else { Pdu::ip(bytes) };
        let ip = &bytes[header_len..];
        let len = ip.len() + elided;
        let digest = digest(ip, elided);
        let before = self.encapsulator.sent().dropped;
        let begin = self.consumed + self.encapsulator.waiting_len() as u64;
        if self.encapsulator.push(now, &pdu.with_zeros(elided)).is_ok() {
            let carried = CarriedPacket { digest, len: len as u32, origin: packet.into_origin() };
            let end = match self.encapsulator.waiting_len() as u64 {
                0 => self.encapsulator.filled() - u64::from(!self.encapsulator.is_pending()),
                waiting => self.consumed + waiting,
            };
            self.carried_packets.push_back(([begin, end], carried));
        } else {
            let is_filtered = self.encapsulator.sent().dropped > before;
            packet.lose(if is_filtered { Why::Policy } else { Why::Refusal });
        }
    }

    /// Returns the unit of a TS packet just sent, with packets that end in it.
    pub(super) fn ts_unit(&mut self, packet: [u8; PACKET_LEN]) -> Unit {
        let number = self.encapsulator.sent().frames - 1;
        self.unit_bytes += PACKET_LEN as u64;
        self.unit(packet.to_vec(), number)
    }

    /// Accounts for `share` of the `len` bytes of a data field, and of its overhead.
    pub(super) fn account_frame(&mut self, share: usize, len: usize, capacity: usize) {
        let octets = (bbframe::HEADER_LEN + capacity) as u64;
        self.unit_bytes += octets * share as u64 / len.max(1) as u64;
    }

    /// Returns the unit of a frame that was just filled.
    pub(super) fn frame_unit(&mut self, frame: Vec<u8>) -> Unit {
        self.unit(frame, self.consumed)
    }

    /// Returns a unit with the packets that end in it or before.
    fn unit(&mut self, bytes: Vec<u8>, end: u64) -> Unit {
        self.units += 1;
        let ending = self.carried_packets.iter().take_while(|([_, at], _)| *at <= end).count();
        let first = self.carried_packets.front().filter(|_| ending > 0);
        self.is_first_cut = first.is_some_and(|([begin, _], _)| *begin == CUT);
        Unit {
            number: 0,
            bytes,
            adaptation: None,
            carried_packets: self.carried_packets.drain(..ending).map(|(_, carried)| carried).collect(),
        }
    }

    /// Counts a frame that is not received, and the packets with a part in it.
    ///
    /// The one that goes on in the next frame ends here too.
    pub(super) fn fade(&mut self, unit: &Unit) {
        self.lost += 1;
        self.faded += unit.carried_packets.len() as u64 - u64::from(self.is_first_cut);
        if let Some(([begin, _], next)) = self.carried_packets.front_mut()
            && *begin < self.consumed
        {
            *begin = CUT;
            self.faded += 1;
            next.origin.end(Why::Fade);
        }
    }

    /// Counts the packets of a unit that has arrived.
    pub(super) fn deliver(&mut self, unit: &Unit) {
        self.in_flight -= 1;
        self.delivered += unit.carried_packets.len() as u64;
        self.delivered_bytes +=
            unit.carried_packets.iter().map(|carried| u64::from(carried.len)).sum::<u64>();
    }

    /// Reports all counters.
    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let (sent, rohc) = (self.encapsulator.sent(), self.encapsulator.compression());
        observer.part(&self.name);
        if !self.is_common {
            observer.counter(&link_metrics::DELIVERED, self.delivered);
            observer.counter(&link_metrics::DELIVERED_BYTES, self.delivered_bytes);
        }
        observer.counter(&link_metrics::DROPPED_TOO_BIG, self.too_big);
        observer.counter(&metrics::DROPPED_BY_FILTER, sent.dropped);
        observer.counter(&metrics::DROPPED_REFUSED, sent.refused);
        observer.counter(&metrics::UNITS_SENT, self.units);
        observer.counter(&metrics::UNITS_SENT_BYTES, self.unit_bytes);
        observer.counter(&metrics::UNITS_FLUSHED, sent.flushed);
        observer.counter(&metrics::UNITS_FADED, self.lost);
        observer.counter(&metrics::PACKETS_FADED, self.faded);
        observer.counter(&metrics::SNDUS, sent.pdus + sent.feedback);
        observer.counter(&metrics::SNDU_BYTES, sent.sndu_bytes);
        observer.counter(&metrics::PACKETS_IN, sent.pdus);
        observer.counter(&metrics::PACKETS_IN_BYTES, sent.pdu_bytes);
        observer.counter(&metrics::COMPRESSED, sent.compressed);
        observer.counter(&metrics::COMPRESSED_RTP, sent.compressed_rtp);
        observer.counter(&metrics::HEADERS_IN_BYTES, rohc.header_in);
        observer.counter(&metrics::HEADERS_OUT_BYTES, rohc.header_out);
        observer.counter(&metrics::ROHC_IRS, rohc.irs);
        observer.counter(&metrics::ROHC_FEEDBACK_SENT, sent.feedback);
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        observer.gauge(&metrics::ROHC_HEADER, ratio(rohc.header_out, rohc.packets));
        observer.gauge(&metrics::ROHC_CONTEXTS, self.encapsulator.contexts() as f64);
        observer.gauge(&metrics::EFFICIENCY, ratio(sent.pdu_bytes, self.unit_bytes));
        observer.gauge(&metrics::IN_FLIGHT, self.in_flight as f64);
        let busy = self.busy.until(now).as_secs_f64();
        observer.gauge(&link_metrics::BUSY, busy);
        observer.gauge(&link_metrics::UTILISATION, busy / now.as_secs_f64());
        self.queue.observe(now, observer);
    }
}

impl TsSource for Path {
    fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]> {
        self.ready().filter(|ready| *ready <= at)?;
        self.serve(at);
        self.encapsulator.pop(at)
    }
}

impl PduSource for Path {
    fn waiting_len(&self) -> usize {
        // Packets that are held back wait for nothing on the carrier.
        let queue = if self.queue.ready() == Time::ZERO { self.queue.bytes() } else { 0 };
        self.encapsulator.waiting_len() + queue as usize
    }

    fn due(&self) -> Option<Time> {
        let held = Some(self.queue.ready()).filter(|ready| !ready.is_never() && *ready > Time::ZERO);
        held.into_iter().chain(self.encapsulator.due()).min()
    }

    fn is_fragmented(&self) -> bool {
        self.encapsulator.is_fragmented()
    }

    fn fill_packet(
        &mut self,
        at: Time,
        stream: &mut gse::InputStream,
        room: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        self.serve(at);
        let before = self.encapsulator.waiting_len();
        let len = self.encapsulator.fill_packet(stream, room, out);
        self.consumed += (before - self.encapsulator.waiting_len()) as u64;
        len
    }

    fn end_field(&mut self, at: Time, is_full: bool) {
        // The next PDU begins to wait, even if others filled the field before its turn.
        self.serve(at);
        self.encapsulator.end_field(at, is_full);
    }
}
