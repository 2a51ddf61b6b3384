//! Receiving end of a stream: keeps what arrives for the time after the run.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_transport::app::{Arrivals, ReplaySink, Sent};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;

use super::cells::{CELL_LEN, Received};
use super::sent::Kept;

/// Received data, for the time after the run.
pub(super) type Shelf = Arc<Mutex<Kept>>;

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
    counted: Counted,
    shelf: Shelf,
    inserted: Option<Misinsertion>,
    scratch: Vec<u8>,
}

/// Count of what arrives.
#[derive(Debug)]
enum Counted {
    /// Cells, which are kept whole.
    Cells(Arrivals),
    /// Datagrams, of which the payload is kept.
    Datagrams(Box<ReplaySink>),
}

impl Keeper {
    /// Creates a receiver of cells.
    pub(super) fn of_cells(shelf: Shelf, inserted: Option<Misinsertion>) -> Keeper {
        Keeper { counted: Counted::Cells(Arrivals::new()), shelf, inserted, scratch: Vec::new() }
    }

    /// Creates a receiver of UDP datagrams, which are sent so.
    pub(super) fn of_datagrams(shelf: Shelf, sent: Arc<[Sent]>) -> Keeper {
        let counted = Counted::Datagrams(Box::new(ReplaySink::new(sent)));
        Keeper { counted, shelf, inserted: None, scratch: Vec::new() }
    }

    fn keep(&self, now: Time, packet: &[u8]) {
        let mut kept = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        match self.counted {
            Counted::Cells(_) => kept.keep(now, packet),
            Counted::Datagrams(_) => kept.bad += u64::from(keep_payload(&mut kept, now, packet).is_none()),
        }
    }

    fn next(&self) -> Time {
        self.inserted.map_or(Time::NEVER, |inserted| inserted.next)
    }
}

impl Element for Keeper {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let mut bytes = std::mem::take(&mut self.scratch);
        packet.write_to(&mut bytes);
        self.keep(cx.now(), &bytes);
        bytes.clear();
        self.scratch = bytes;
        if let Some(inserted) = &mut self.inserted {
            inserted.begin(cx.now(), cx.stream());
        }
        match &mut self.counted {
            Counted::Cells(arrivals) => _ = arrivals.receive(port, packet, cx),
            Counted::Datagrams(sink) => _ = sink.receive(port, packet, cx),
        }
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
        self.keep(now, &cell);
        self.inserted = Some(inserted);
        self.next()
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        match &mut self.counted {
            Counted::Cells(arrivals) => arrivals.observe(now, observer),
            Counted::Datagrams(sink) => sink.observe(now, observer),
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns the TS packets of the payloads of datagrams.
pub(super) fn udp_payloads(kept: &Kept) -> Received {
    let mut received = Received::default();
    received.stats.bad_pdus = kept.bad;
    for unit in kept.units() {
        for ts_packet in unit.content.as_chunks().0 {
            received.packets.push(*ts_packet);
            received.times.push(unit.at);
        }
    }
    received
}

/// Keeps the payload of a UDP datagram whose checksum is right.
fn keep_payload(kept: &mut Kept, now: Time, packet: &[u8]) -> Option<()> {
    let packet = ip::Packet::new_checked(packet).ok()?;
    let upper = packet.upper().ok().filter(|upper| upper.protocol == Protocol::UDP)?;
    let datagram = udp::Datagram::new_checked(upper.bytes).ok()?;
    datagram.verify_checksum(&upper.pseudo).ok()?;
    kept.keep(now, datagram.payload());
    Some(())
}
