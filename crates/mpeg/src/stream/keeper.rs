//! Receiving end of a stream: keeps what arrives for the time after the run.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_transport::app::Arrivals;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;

use super::cells::{CELL_LEN, Received};

/// Received data with arrival times.
pub(super) type Shelf = Arc<Mutex<Vec<(Time, Vec<u8>)>>>;

/// Cells of other connections, whose headers damage made this one's.
///
/// They come at random instants while the stream's own cells do, with random payload, one in eight the last of a PDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Misinsertion {
    mean_s: f64,
    lasts: Span,
    end: Time,
    next: Time,
}

impl Misinsertion {
    /// Returns `share` of them for each of `cells`, which take `lasts`, unless it is zero.
    pub(super) fn new(share: f64, cells: usize, lasts: Span) -> Option<Misinsertion> {
        // Clocks that say all cells at one instant would make them endless.
        let mean_s = (lasts.as_secs_f64() / (share * cells as f64)).max(1e-9);
        (share > 0.0).then_some(Misinsertion { mean_s, lasts, end: Time::NEVER, next: Time::NEVER })
    }

    /// Begins with the first cell of the stream.
    fn begin(&mut self, now: Time, stream: &mut RandomStream) {
        if self.end.is_never() {
            self.end = now + self.lasts;
            self.draw(now, stream);
        }
    }

    fn draw(&mut self, from: Time, stream: &mut RandomStream) {
        let next = from + Span::from_secs_f64(stream.exponential(self.mean_s));
        self.next = if next > self.end { Time::NEVER } else { next };
    }
}

/// Keeps the packets that arrive at port 0, and adds misinserted cells.
#[derive(Debug)]
pub(super) struct Keeper {
    arrivals: Arrivals,
    shelf: Shelf,
    inserted: Option<Misinsertion>,
}

impl Keeper {
    pub(super) fn new(shelf: Shelf, inserted: Option<Misinsertion>) -> Keeper {
        Keeper { arrivals: Arrivals::new(), shelf, inserted }
    }

    fn keep(&self, now: Time, bytes: Vec<u8>) {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).push((now, bytes));
    }

    fn next(&self) -> Time {
        self.inserted.map_or(Time::NEVER, |inserted| inserted.next)
    }
}

impl Element for Keeper {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.keep(cx.now(), packet.to_vec());
        if let Some(inserted) = &mut self.inserted {
            inserted.begin(cx.now(), cx.stream());
        }
        self.arrivals.receive(port, packet, cx);
        self.next()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let Some(mut inserted) = self.inserted.filter(|inserted| inserted.next <= cx.now()) else {
            return self.next();
        };
        let (now, stream) = (cx.now(), cx.stream());
        let mut cell: [u8; CELL_LEN] = std::array::from_fn(|_| (stream.unit() * 256.0) as u8);
        cell[0] = u8::from(stream.chance(0.125));
        inserted.draw(now, stream);
        self.keep(now, cell.to_vec());
        self.inserted = Some(inserted);
        self.next()
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.arrivals.observe(now, observer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns the TS packets of UDP datagrams whose checksums are right.
pub(super) fn udp_payloads(packets: &[(Time, Vec<u8>)]) -> Received {
    let mut received = Received::default();
    for (at, packet) in packets {
        let Some(payload) = payload(packet) else {
            received.stats.bad_pdus += 1;
            continue;
        };
        for ts_packet in payload.as_chunks().0 {
            received.packets.push(*ts_packet);
            received.times.push(*at);
        }
    }
    received
}

fn payload(packet: &[u8]) -> Option<Vec<u8>> {
    let packet = ip::Packet::new_checked(packet).ok()?;
    let upper = packet.upper().ok().filter(|upper| upper.protocol == Protocol::UDP)?;
    let datagram = udp::Datagram::new_checked(upper.bytes).ok()?;
    datagram.verify_checksum(&upper.pseudo).ok()?;
    Some(datagram.payload().to_vec())
}
