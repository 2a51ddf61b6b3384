//! Sending end: queue, encapsulation, frames in their slots, and those on their way.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::{Discipline, Queue};
use bentpipe_net::{Busy, Cx, Element, InvalidConfig, Observer, Origin, Packet, Port, Why};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::dtn::{BUNDLE_PORT, LTP_PORT};
use bentpipe_wire::space::encapsulation::{self, IDLE, Protocol};
use bentpipe_wire::space::{FirstHeader, aos, proximity, tm};
use bentpipe_wire::{ipv4, ipv6, udp};

use crate::config::{Config, Frame, Layout};
use crate::metrics;
use crate::unit::{CarriedPacket, Unit};

/// Spacecraft identifier of all frames.
const SPACECRAFT: u8 = 42;

/// Encapsulation packet that waits for frames, or is partly in them.
#[derive(Debug)]
struct Waiting {
    /// Numbers of its bytes in the stream of data fields: first, and behind the last.
    start: u64,
    end: u64,
    origin: Origin,
    headers: Vec<u8>,
    /// Length of the packet before encapsulation.
    len: u64,
}

/// Sending end of a direction.
pub struct Sender {
    config: Config,
    layout: Layout,
    delay: Span,
    mtu: Bytes,
    queue: Box<dyn Queue>,
    /// Encapsulated bytes that are in no frame yet.
    buffer: VecDeque<u8>,
    waiting: VecDeque<Waiting>,
    /// Number of the first byte of `buffer` in the stream of data fields.
    offset: u64,
    /// Instant at which the slots of frames begin, and the number of the next slot.
    grid: Time,
    slot: u64,
    /// End of the last frame.
    free_at: Time,
    /// Frames on their way, with the number and bytes of packets that end in them.
    flight: VecDeque<(Time, Packet, [u64; 2])>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    frames: u64,
    frame_bytes: u64,
    idle: u64,
    idle_bytes: u64,
    packets: u64,
    packet_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    too_big: u64,
    cut: u64,
    busy: Span,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("config", &self.config)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Sender {
    /// Creates the sending end of a direction.
    ///
    /// # Errors
    /// Returns the key whose value is impossible.
    pub fn new(
        config: &Config,
        queue: &Discipline,
        delay: Span,
        mtu: Bytes,
    ) -> Result<Sender, InvalidConfig> {
        Ok(Sender {
            config: *config,
            layout: config.layout()?,
            delay,
            mtu,
            queue: queue.build()?,
            buffer: VecDeque::new(),
            waiting: VecDeque::new(),
            offset: 0,
            grid: Time::ZERO,
            slot: 0,
            free_at: Time::ZERO,
            flight: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// Changes settings and delay. The frame that is being sent is the last one before.
    ///
    /// # Errors
    /// Returns the key whose value is impossible; nothing is changed then.
    pub fn set(&mut self, now: Time, config: &Config, delay: Span) -> Result<(), InvalidConfig> {
        let layout = config.layout()?;
        self.delay = delay;
        if *config == self.config {
            return Ok(());
        }
        let next = self.next_start(now);
        if (config.frame == Frame::Proximity1) != (self.config.frame == Frame::Proximity1) {
            self.drop_cut_packet();
        }
        (self.config, self.layout, self.grid, self.slot) = (*config, layout, next, 0);
        Ok(())
    }

    /// Changes the queue.
    ///
    /// # Errors
    /// Returns the key whose value is impossible.
    pub fn set_queue(&mut self, now: Time, discipline: &Discipline) -> Result<(), InvalidConfig> {
        self.queue.set(discipline, now)
    }

    /// Drops the rest of a packet that is partly sent. Frames of the other form cannot continue it.
    fn drop_cut_packet(&mut self) {
        if let Some(first) = self.waiting.front().filter(|first| first.start < self.offset) {
            let rest = (first.end - self.offset) as usize;
            self.buffer.drain(..rest);
            self.offset = first.end;
            let first = self.waiting.pop_front();
            first.into_iter().for_each(|first| first.origin.lose(Why::Restoration));
            self.counts.cut += 1;
        }
    }

    /// Returns the time that symbols take, to the next whole nanosecond.
    fn span_of(&self, symbols: u64) -> Span {
        let nanos = (u128::from(symbols) * 1_000_000_000).div_ceil(u128::from(self.config.rate.as_bps()));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
    }

    /// Returns the start of a slot.
    fn slot_start(&self, slot: u64) -> Time {
        self.grid + self.span_of(self.layout.symbols.saturating_mul(slot))
    }

    /// Returns the start of the next frame. Frames of constant length are sent without a pause, so it is that of a slot.
    fn next_start(&mut self, now: Time) -> Time {
        if self.config.frame == Frame::Proximity1 {
            return now.max(self.free_at).max(self.grid);
        }
        let elapsed = u128::from(now.max(self.grid).since(self.grid).as_nanos());
        let rate = u128::from(self.config.rate.as_bps());
        let passed = elapsed * rate / (1_000_000_000 * u128::from(self.layout.symbols));
        let mut slot = u64::try_from(passed).unwrap_or(u64::MAX).max(self.slot);
        while self.slot_start(slot) < now {
            slot += 1;
        }
        self.counts.idle += slot - self.slot;
        self.slot = slot;
        self.slot_start(slot)
    }

    /// Returns `true` if a packet may be sent now.
    fn has_data(&self, now: Time) -> bool {
        !self.buffer.is_empty() || self.queue.ready() <= now
    }

    /// Encapsulates a packet.
    fn put(&mut self, packet: Packet) {
        let bytes = packet.to_vec();
        let native = if self.config.native { native_of(&bytes) } else { None };
        let extension = [encapsulation::ip_extension(bytes[0] >> 4).unwrap_or(0)];
        let (protocol, front, at) = match native {
            Some((protocol, at)) => (protocol, &[][..], at),
            None => (Protocol::Ip, &extension[..], 0),
        };
        let mut header = Vec::with_capacity(encapsulation::MAX_HEADER_LEN);
        encapsulation::Repr::new(protocol, front.len() + bytes.len() - at).put(&mut header);
        let start = self.offset + self.buffer.len() as u64;
        self.buffer.extend(header.iter().chain(front).chain(&bytes[at..]));
        let end = self.offset + self.buffer.len() as u64;
        let (headers, len) = (bytes[..at].to_vec(), bytes.len() as u64);
        self.waiting.push_back(Waiting { start, end, origin: packet.into_origin(), headers, len });
        self.counts.packets += 1;
        self.counts.packet_bytes += (bytes.len() - at) as u64;
    }

    /// Encapsulates waiting packets until a data field is full.
    fn fill(&mut self, room: usize, now: Time) {
        while self.buffer.len() < room {
            match self.queue.dequeue(now) {
                Some(packet) => self.put(packet),
                None => return,
            }
        }
    }

    /// Sends the frame that starts at `now`.
    fn send(&mut self, now: Time) {
        let (bytes, offset) = match self.config.frame {
            Frame::Proximity1 => self.proximity_frame(now),
            Frame::Tm | Frame::Aos => self.constant_frame(now),
        };
        let plain = match self.config.frame {
            Frame::Proximity1 => bytes.len() - bentpipe_wire::space::crc::PROXIMITY_LEN,
            _ => bytes.len(),
        };
        let span = self.span_of(self.config.symbols(plain));
        self.slot += 1;
        // Slots are rounded by their number, so that they do not drift.
        self.free_at = match self.config.frame {
            Frame::Proximity1 => now + span,
            _ => self.slot_start(self.slot),
        };
        self.counts.busy += span;
        self.counts.frames += 1;
        self.counts.frame_bytes += bytes.len() as u64;
        let ended = self.waiting.iter().take_while(|packet| packet.end <= self.offset).count();
        let content = [ended as u64, self.waiting.iter().take(ended).map(|packet| packet.len).sum()];
        let carried = self.waiting.drain(..ended).map(|packet| {
            let Waiting { start, origin, headers, .. } = packet;
            CarriedPacket { start, origin, headers }
        });
        let unit = Unit { bytes, config: self.config, offset, carried: carried.collect() };
        // A shorter delay does not let frames overtake one another.
        let last = self.flight.back().map_or(Time::ZERO, |(due, _, _)| *due);
        self.flight.push_back(((self.free_at + self.delay).max(last), unit.into_packet(), content));
    }

    /// Removes bytes of the stream for a data field.
    fn take(&mut self, len: usize, out: &mut Vec<u8>) {
        out.extend(self.buffer.drain(..len));
        self.offset += len as u64;
    }

    fn constant_frame(&mut self, now: Time) -> (Vec<u8>, u64) {
        let (offset, field) = (self.offset, self.layout.field);
        self.fill(field, now);
        let data = self.buffer.len().min(field);
        // The first packet that starts at or behind the start of the field; else the first idle one.
        let start = self.waiting.iter().map(|packet| packet.start).find(|start| *start >= offset);
        let start = start.unwrap_or(offset + data as u64) - offset;
        let first_header = match usize::try_from(start) {
            Ok(start) if start < field => FirstHeader::At(start as u16),
            _ => FirstHeader::None,
        };
        let head = match self.config.frame {
            Frame::Aos => aos::HEADER_LEN + aos::MULTIPLEX_LEN,
            _ => tm::HEADER_LEN,
        };
        let mut bytes = vec![0; head];
        self.take(data, &mut bytes);
        // Fill is in the stream too, so that both ends count alike.
        bytes.resize(head + field, IDLE);
        self.offset += (field - data) as u64;
        self.counts.idle_bytes += (field - data) as u64;
        bytes.resize(self.layout.frame, 0);
        let control = self.config.control_field.then_some(0);
        let count = self.counts.frames;
        match self.config.frame {
            Frame::Aos => aos::Repr {
                spacecraft: SPACECRAFT,
                channel: 0,
                count: (count & 0xff_ffff) as u32,
                is_replay: false,
                cycle: None,
                first_header,
                control,
            }
            .emit(&mut bytes, self.config.frame_check),
            _ => tm::Repr {
                spacecraft: SPACECRAFT.into(),
                channel: 0,
                // Idle frames, which are on another virtual channel, count here.
                master_count: (count + self.counts.idle) as u8,
                channel_count: count as u8,
                first_header,
                control,
            }
            .emit(&mut bytes, self.config.frame_check),
        }
        (bytes, offset)
    }

    fn proximity_frame(&mut self, now: Time) -> (Vec<u8>, u64) {
        let (offset, field) = (self.offset, self.layout.field);
        self.fill(1, now);
        let first = self.waiting.front().map_or(offset, |packet| packet.end);
        let mut bytes = vec![0; proximity::HEADER_LEN];
        let is_whole = self.waiting.front().is_some_and(|packet| packet.start == offset);
        let content = if is_whole && (first - offset) as usize <= field {
            let mut end = first;
            self.fill(field, now);
            for packet in self.waiting.iter().skip(1) {
                if packet.end - offset > field as u64 {
                    break;
                }
                end = packet.end;
            }
            self.take((end - offset) as usize, &mut bytes);
            proximity::Content::Packets
        } else {
            let len = ((first - offset) as usize).min(field - proximity::SEGMENT_HEADER_LEN);
            let is_last = offset + len as u64 == first;
            let packet = (self.counts.packets & 0x3f) as u8;
            bytes.push(proximity::Segment { is_first: is_whole, is_last, packet }.byte());
            self.take(len, &mut bytes);
            proximity::Content::Segment
        };
        let repr = proximity::Repr {
            is_expedited: true,
            is_supervisory: false,
            content,
            spacecraft: SPACECRAFT.into(),
            physical_channel: 0,
            port: 0,
            is_destination: true,
            sequence: self.counts.frames as u8,
            data_len: bytes.len() - proximity::HEADER_LEN,
        };
        bytes.resize(repr.buffer_len(), 0);
        repr.emit(&mut bytes);
        (bytes, offset)
    }

    /// Sends what is due and returns the next instant.
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        while self.flight.front().is_some_and(|(due, _, _)| *due <= now)
            && let Some((_, packet, [packets, bytes])) = self.flight.pop_front()
        {
            self.counts.delivered += packets;
            self.counts.delivered_bytes += bytes;
            cx.emit(Port(0), packet);
        }
        let mut next = Time::NEVER;
        while self.has_data(now) {
            let start = self.next_start(now);
            if start > now {
                next = start;
                break;
            }
            self.send(now);
        }
        if !self.has_data(now) {
            next = self.queue.ready();
        }
        self.flight.front().map_or(next, |(due, _, _)| next.min(*due))
    }
}

/// Returns protocol and start of the payload of a datagram of LTP or bundles. Fragments are refused.
fn native_of(bytes: &[u8]) -> Option<(Protocol, usize)> {
    let (protocol, at) = match bytes.first()? >> 4 {
        4 if bytes[0] & 15 == 5 && bytes.get(6)? & 0x3f == 0 && *bytes.get(7)? == 0 => {
            (*bytes.get(9)?, ipv4::HEADER_LEN)
        }
        6 => (*bytes.get(6)?, ipv6::HEADER_LEN),
        _ => return None,
    };
    let port = u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]);
    let payload = at + udp::HEADER_LEN;
    let native = match port {
        LTP_PORT => Protocol::Ltp,
        BUNDLE_PORT => Protocol::Bundle,
        _ => return None,
    };
    (protocol == 17 && bytes.len() > payload).then_some((native, payload))
}

impl Element for Sender {
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if packet.len() as u64 > self.mtu.get() || packet.is_empty() {
            self.counts.too_big += 1;
            packet.lose(Why::TooBig);
        } else if self.buffer.is_empty() && self.queue.packets() == 0 && self.free_at <= now {
            if let Some(packet) = self.queue.pass(packet, now, self.free_at, cx.stream()) {
                self.put(packet);
            }
        } else {
            self.queue.enqueue(packet, now, cx.stream());
        }
        self.turn(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.turn(cx)
    }

    /// A packet is out after its frame and the delay.
    fn lookahead(&self) -> Span {
        let least = match self.config.frame {
            Frame::Proximity1 => self.config.symbols(proximity::HEADER_LEN),
            _ => self.layout.symbols,
        };
        self.delay + self.span_of(least)
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let Counts { frames, frame_bytes, idle, idle_bytes, packets, packet_bytes, .. } = self.counts;
        observer.delay(self.delay);
        observer.counter(&link_metrics::DELIVERED, self.counts.delivered);
        observer.counter(&link_metrics::DELIVERED_BYTES, self.counts.delivered_bytes);
        observer.counter(&link_metrics::DROPPED_TOO_BIG, self.counts.too_big);
        let in_flight: u64 = self.flight.iter().map(|(_, _, [packets, _])| packets).sum();
        observer.gauge(&link_metrics::IN_FLIGHT, (in_flight + self.waiting.len() as u64) as f64);
        let busy = Busy::of_line(self.counts.busy, self.free_at, now).as_secs_f64();
        observer.gauge(&link_metrics::BUSY, busy);
        observer.gauge(&link_metrics::UTILISATION, busy / now.as_secs_f64());
        observer.counter(&metrics::FRAMES_SENT, frames);
        observer.counter(&metrics::FRAMES_SENT_BYTES, frame_bytes);
        observer.counter(&metrics::FRAMES_IDLE, idle);
        observer.counter(&metrics::FILL_BYTES, idle_bytes);
        observer.counter(&metrics::PACKETS_IN, packets);
        observer.counter(&metrics::PACKETS_IN_BYTES, packet_bytes);
        observer.counter(&metrics::DROPPED_CUT, self.counts.cut);
        self.queue.observe(now, observer);
        self.queue.observe_classes(now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
