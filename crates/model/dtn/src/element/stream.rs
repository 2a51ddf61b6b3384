//! Measures over a TCP stream, and the proxy that cuts it into bundles.

use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_transport::app::metrics as app;
use bentpipe_transport::tcp::{self, State, Stream};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Segment};

use super::{STAMP, Timing};
use crate::carry::Carry;
use crate::metrics;

/// Port of the node.
const NODE: Port = Port(0);
/// Port of the bundle node at the proxy.
const BUNDLES: Port = Port(1);
/// Time until a connection that failed is opened again.
const PAUSE: Span = Span::from_secs(1);
/// Maximum number of measures that wait for the connection. Later ones are lost.
const MAX_WAITING: usize = 1 << 20;

/// Sender of measures at a fixed interval over one TCP connection, at port 0.
///
/// Each measure begins with its number and the time at which it was taken, as the payload of a [`Sender`](super::Sender)'s bundle.
pub struct Measures {
    config: tcp::Config,
    ends: [SocketAddr; 2],
    len: usize,
    interval: Span,
    next: Time,
    stop: Time,
    left: u64,
    taken: u64,
    /// Numbers and times of measures that the connection has not taken.
    waiting: VecDeque<(u32, Time)>,
    /// Rest of the measure that is being written.
    unsent: Vec<u8>,
    stream: Option<Stream>,
    call_at: Time,
    repeated: u64,
}

impl Measures {
    /// Creates a sender of measures of `len` bytes. Its own end is the first.
    pub fn new(config: tcp::Config, ends: [SocketAddr; 2], len: u64, timing: Timing) -> Measures {
        Measures {
            config,
            ends,
            len: len as usize,
            interval: timing.interval,
            next: Time::ZERO + timing.start,
            stop: timing.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            left: timing.bundles,
            taken: 0,
            waiting: VecDeque::new(),
            unsent: Vec::new(),
            stream: None,
            call_at: Time::ZERO + timing.start,
            repeated: 0,
        }
    }

    /// Queues the measures that are due.
    fn measure(&mut self, now: Time) {
        while self.next <= now && !self.next.is_never() {
            if self.next >= self.stop || self.left == 0 {
                self.next = Time::NEVER;
                break;
            }
            if self.waiting.len() < MAX_WAITING {
                self.waiting.push_back((self.taken as u32, self.next));
            }
            self.taken += 1;
            self.left -= 1;
            self.next += self.interval;
        }
    }

    /// Writes what the connection takes.
    fn write(&mut self, cx: &mut Cx<'_>) {
        let Some(stream) = &mut self.stream else { return };
        loop {
            if self.unsent.is_empty() {
                let Some((number, at)) = self.waiting.pop_front() else { break };
                self.unsent.extend(number.to_be_bytes());
                self.unsent.extend(at.as_nanos().to_be_bytes());
                self.unsent.resize(self.len, 0);
            }
            let count = stream.write(&self.unsent);
            self.unsent.drain(..count);
            stream.output(cx);
            if !self.unsent.is_empty() {
                break;
            }
        }
    }

    /// Opens the connection if it is time, and writes.
    fn run(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.measure(now);
        if self.stream.is_none() && self.call_at <= now {
            let [local, remote] = self.ends;
            self.stream = Some(Stream::connect(self.config.clone(), local, remote, NODE, cx));
        }
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.deadline() <= now) {
            stream.wake(cx);
        }
        if self.stream.as_ref().is_some_and(|stream| stream.state() == State::Established) {
            self.write(cx);
        }
        if let Some(stream) = &mut self.stream {
            stream.output(cx);
        }
        if self.stream.as_ref().is_some_and(|stream| stream.state() == State::Closed) {
            // What the connection had taken is lost with it; the proxy drops a measure that was begun.
            self.repeated += self.stream.take().map_or(0, |stream| stream.retransmissions());
            self.unsent.clear();
            self.call_at = now + PAUSE;
        }
        self.next.min(self.stream.as_ref().map_or(self.call_at, Stream::deadline))
    }
}

impl Element for Measures {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Some(stream) = &mut self.stream {
            stream.receive(&packet, cx);
        }
        packet.recycle();
        self.run(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.run(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let present = self.stream.as_ref().map_or(0, Stream::retransmissions);
        observer.counter(&metrics::SENT, self.taken);
        observer.counter(&app::SENT_BYTES, self.taken * self.len as u64);
        observer.counter(&metrics::TCP_REPEATED, self.repeated + present);
        observer.gauge(&metrics::WAITING, self.waiting.len() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Proxy that cuts a TCP stream into bundles of equal payloads.
///
/// The stream is that of the node at port 0, and the bundles are for the bundle node at port 1. The node
/// stores them while no contact is open. What was acknowledged over TCP is then the node's alone: end-to-end
/// acknowledgements of the stream are lost, as at any split connection (RFC 3135, section 4.1).
pub struct Cutter {
    config: tcp::Config,
    local: SocketAddr,
    template: Bundle,
    len: usize,
    stream: Option<Stream>,
    /// Bytes of the measure that is not whole.
    part: Vec<u8>,
    sent: u64,
}

impl Cutter {
    /// Creates a proxy at `local` that sends copies of a bundle. Its payload gives the length.
    pub fn new(config: tcp::Config, local: SocketAddr, template: Bundle) -> Cutter {
        let len = (template.payload.len() as usize).max(STAMP);
        Cutter { config, local, template, len, stream: None, part: Vec::new(), sent: 0 }
    }

    /// Begins a connection with a SYN, unless one is being opened.
    fn listen(&mut self, packet: &Packet) {
        let is_opening =
            matches!(self.stream.as_ref().map(Stream::state), Some(State::Listen | State::SynReceived));
        if opens(packet) && !is_opening {
            self.stream = Some(Stream::listen(self.config.clone(), self.local, NODE));
            self.part.clear();
        }
    }

    /// Sends a bundle of each whole measure.
    fn cut(&mut self, cx: &mut Cx<'_>) {
        let Some(stream) = &mut self.stream else { return };
        self.part.extend(stream.read());
        let whole = self.part.len() / self.len * self.len;
        for measure in self.part[..whole].chunks_exact(self.len) {
            let mut bundle = self.template.clone();
            (bundle.payload.bytes, bundle.payload.zeros) = (measure.to_vec(), 0);
            self.sent += 1;
            cx.emit(BUNDLES, Packet::carrying(0, Box::new(Carry(bundle))));
        }
        self.part.drain(..whole);
        if stream.is_read_out() {
            stream.close();
        }
        stream.output(cx);
    }

    fn deadline(&self) -> Time {
        self.stream.as_ref().map_or(Time::NEVER, Stream::deadline)
    }
}

impl Element for Cutter {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == NODE {
            self.listen(&packet);
            if let Some(stream) = &mut self.stream {
                stream.receive(&packet, cx);
            }
            self.cut(cx);
        }
        packet.recycle();
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.deadline() <= cx.now()) {
            stream.wake(cx);
        }
        self.cut(cx);
        self.deadline()
    }

    fn forwards(&self, from: Port, _to: Port) -> bool {
        from == NODE
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::SENT, self.sent);
        let present = self.stream.as_ref().map_or(0, Stream::retransmissions);
        observer.counter(&metrics::TCP_REPEATED, present);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns `true` if a packet asks for a connection.
fn opens(packet: &Packet) -> bool {
    let bytes = packet.to_vec();
    let Ok(packet) = ip::Packet::new_checked(&bytes[..]) else { return false };
    let Ok(upper) = packet.upper() else { return false };
    if upper.protocol != Protocol::TCP || upper.is_fragment {
        return false;
    }
    let flags = Segment::new_checked(upper.bytes).map(|segment| segment.flags());
    flags.is_ok_and(|flags| flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK))
}
