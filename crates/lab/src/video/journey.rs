//! The way of a stream's cells through a network.

use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::app::{Arrivals, Replay};
use bentpipe_net::{Channel, Impossible, Link, Port, Shaper, link};
use bentpipe_sim::{Builder, Network};
use bentpipe_units::{Span, Time};
use bentpipe_wire::atm;

use super::cells::{self, Cell, Received, Receiver};
use super::config::Stream;
use super::stream::{TransportStream, Unreadable};
use crate::scenario::Direction;

/// Where the cells go.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    /// What the flow is called, for the elements' paths.
    pub name: &'a str,
    /// When the first cell may leave.
    pub start: Span,
    /// The link: a shaper if there is one, a queue, a line of cells, a delay, a channel.
    pub link: &'a Direction,
    /// Of random numbers.
    pub seed: u64,
}

/// Cells as they arrived, and when: put there by a tap in the network, taken when that has run.
type Shelf = Arc<Mutex<Vec<(Time, Vec<u8>)>>>;

/// How long after the last cell was due, and the line's delay, the queue and the channel may still hold some.
const AFTER: Span = Span::from_secs(5);
/// How often a run can be looked at and stopped.
const STEPS: u64 = 200;

/// A network that carries one stream, and what is needed to receive it.
pub struct Journey {
    /// To be run for as long as the stream and its way take.
    pub network: Network,
    setup: Stream,
    arrived: Shelf,
    sent: u64,
    end: Time,
}

/// What arrived of a stream.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Packets, times and counts.
    pub received: Received,
    /// How many cells were sent.
    pub cells_sent: u64,
}

impl Arrived {
    /// The packets as a stream.
    pub fn stream(&self) -> TransportStream {
        TransportStream::of(self.received.packets.clone())
    }
}

impl Journey {
    /// Cells of `stream`, and strangers among them, ready to go.
    ///
    /// # Errors
    /// If the stream has no clock, or the link says something that is impossible.
    pub fn new(stream: &TransportStream, setup: &Stream, way: &Way<'_>) -> Result<Journey, String> {
        let unreadable = |error: Unreadable| error.to_string();
        let times: Vec<Span> =
            stream.times().map_err(unreadable)?.iter().map(|time| way.start + *time).collect();
        let cells = cells::sent(&stream.packets, &times, setup.adaptation, setup.ts_packets.into());
        let ends = [cells.first(), cells.last()].map(|cell| cell.map_or(Span::ZERO, |(at, _)| *at));
        let delay = way.link.delay.unwrap_or_default();
        // They reach the receiver while the stream's own cells do.
        let strangers = strangers(setup.misinsertion, cells.len(), ends.map(|end| end + delay), way);
        let sent = cells.len() as u64;
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let network =
            network(cells, strangers, way, Arc::clone(&arrived)).map_err(|error| error.to_string())?;
        let end = Time::ZERO + ends[1] + delay + AFTER;
        Ok(Journey { network, setup: setup.clone(), arrived, sent, end })
    }

    /// Runs the network until everything is through, and receives. `go_on` is told the share that is done, and may stop
    /// it: then what has arrived by then is received.
    pub fn run(mut self, mut go_on: impl FnMut(f64) -> bool) -> Arrived {
        let step = self.end.since(Time::ZERO) / STEPS;
        for n in 1..=STEPS {
            if !go_on((n - 1) as f64 / STEPS as f64) {
                break;
            }
            self.network.run_until(if n == STEPS { self.end } else { Time::ZERO + step * n });
        }
        self.receiving().receive()
    }

    /// What receives what the network will have carried by then.
    pub fn receiving(&self) -> Receiving {
        Receiving { setup: self.setup.clone(), arrived: Arc::clone(&self.arrived), sent: self.sent }
    }
}

/// The receiving end of a journey, apart from its network.
pub struct Receiving {
    setup: Stream,
    arrived: Shelf,
    sent: u64,
}

impl Receiving {
    /// Makes a stream of the cells that arrived so far.
    pub fn receive(&self) -> Arrived {
        let Stream { adaptation, ts_packets, deliver_errored, .. } = self.setup;
        let mut receiver = Receiver::new(adaptation, ts_packets.into(), deliver_errored);
        let cells = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter().for_each(|(at, cell)| receiver.cell(*at, cell));
        let end = cells.last().map_or(Time::ZERO, |(at, _)| *at);
        Arrived { received: receiver.finish(end), cells_sent: self.sent }
    }
}

/// Cells of other connections, whose headers damage made ours: at random instants, with random payload, one in eight the
/// last of a PDU.
fn strangers(share: f64, cells: usize, [start, end]: [Span; 2], way: &Way<'_>) -> Vec<(Span, Cell)> {
    let mut stream = bentpipe_units::Stream::new(way.seed, &format!("flow/{}/strangers", way.name));
    if share <= 0.0 {
        return Vec::new();
    }
    // Clocks that say all cells at one instant would make the loop endless.
    let mean_s = (end.saturating_sub(start).as_secs_f64() / (share * cells as f64)).max(1e-9);
    let (mut at, mut strangers) = (start.as_secs_f64(), Vec::new());
    loop {
        at += stream.exponential(mean_s);
        if at > end.as_secs_f64() {
            return strangers;
        }
        let payload: [u8; atm::PAYLOAD_LEN] = std::array::from_fn(|_| (stream.unit() * 256.0) as u8);
        strangers.push((Span::from_secs_f64(at), cells::cell(&payload, stream.chance(0.125))));
    }
}

fn network(
    cells: Vec<(Span, Cell)>,
    strangers: Vec<(Span, Cell)>,
    way: &Way<'_>,
    arrived: Shelf,
) -> Result<Network, Impossible> {
    let mut builder = Builder::new(way.seed);
    let path = |part: &str| format!("flow/{}/{part}", way.name);
    let sender = builder.add(path("sender"), replay(cells)?);
    let config = link::Config {
        rate: way.link.rate,
        delay: way.link.delay.unwrap_or_default(),
        queue: way.link.queue.unwrap_or_default(),
        ..link::Config::default()
    };
    let mut last = sender;
    if let Some(shaper) = &way.link.shaper {
        let shaper = builder.add(path("shaper"), Shaper::new(shaper)?);
        builder.connect((last, Port(0)), (shaper, Port(0)));
        last = shaper;
    }
    let line = builder.add(path("line"), Link::new(&config)?);
    builder.connect((last, Port(0)), (line, Port(0)));
    last = line;
    for (n, fault) in way.link.channel.iter().flat_map(|channel| channel.faults()).enumerate() {
        let channel = builder.add(path(&format!("channel.{}", n + 1)), Channel::new(fault)?);
        builder.connect((last, Port(0)), (channel, Port(0)));
        last = channel;
    }
    let receiver = builder.add(path("receiver"), Arrivals::new());
    builder.connect((last, Port(0)), (receiver, Port(0)));
    let strange = builder.add(path("strangers"), replay(strangers)?);
    builder.connect((strange, Port(0)), (receiver, Port(0)));
    // Nothing in it goes round.
    let Ok(mut network) = builder.build() else { unreachable!("a line without loops") };
    network.tap(receiver, Port(0), move |at, packet| {
        arrived.lock().unwrap_or_else(PoisonError::into_inner).push((at, packet.to_vec()));
    });
    Ok(network)
}

fn replay(cells: Vec<(Span, Cell)>) -> Result<Replay, Impossible> {
    Replay::new(cells.into_iter().map(|(at, cell)| (at, cell.to_vec())).collect(), Span::ZERO)
}
