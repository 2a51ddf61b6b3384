//! Sending a plan over a socket.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bentpipe_units::{RandomStream, Span};
use bentpipe_wire::rtp::{self, Repr};
use socket2::SockRef;

use super::mark::{self, Mark};
use super::plan::{Departure, Plan};
use bentpipe_emu::datagrams::{BATCH, Outbox};
use bentpipe_emu::{Clock, Lateness, Monotonic, Pacer, request_realtime_priority};

/// Distinction between streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// The synchronisation source alone: all go to one port.
    #[default]
    BySsrc,
    /// Streams by port too. Each stream's is two above the previous (RFC 3550, section 11).
    ByPort,
}

/// Result of sending.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets that the kernel took.
    pub packets: u64,
    /// Bytes of RTP in them.
    pub bytes: u64,
    /// Packets that it did not take.
    pub refused: u64,
    /// Error of the last refusal.
    pub error: Option<io::Error>,
    /// Time from the start to the last packet.
    pub elapsed: Span,
    /// Lateness with which packets were given to the kernel.
    pub lateness: Lateness,
    /// Set if every packet was sent before a stop.
    pub is_whole: bool,
}

/// Source and destination of a stream. Numbers and times begin at random, as RFC 3550, section 5.1, has it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    ssrc: u32,
    seq: u16,
    timestamp: u32,
    to: SocketAddr,
}

/// Streams that are ready to be sent.
#[derive(Debug)]
pub struct Sender {
    plan: Plan,
    socket: UdpSocket,
    origins: Vec<Origin>,
}

/// Time from the call to the first packet.
const START: Span = Span::from_millis(5);

/// Maximum busy-wait before a packet is due. A quarter of the packet interval also limits it. A thread with real-time
/// priority that never sleeps is stopped by the kernel for 50 ms of each second (sched(7), `sched_rt_runtime_us`).
const SPIN: Span = Span::from_micros(60);

/// Interval between reports of progress.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

impl Sender {
    /// Streams to `to`, with a differentiated services codepoint. Synchronisation sources and where numbers begin follow from `seed`.
    ///
    /// # Errors
    /// If there are more streams than ports from `to` on, or no socket of its family can be had.
    pub fn new(plan: Plan, (to, dscp): (SocketAddr, u8), streams: Streams, seed: u64) -> io::Result<Sender> {
        let here: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let origins = origins(plan.streams(), to, streams, seed)?;
        let socket = UdpSocket::bind(here)?;
        let traffic_class = u32::from(dscp) << 2;
        let shared = SockRef::from(&socket);
        match to {
            SocketAddr::V4(_) => shared.set_tos_v4(traffic_class)?,
            SocketAddr::V6(_) => shared.set_tclass_v6(traffic_class)?,
        }
        Ok(Sender { plan, socket, origins })
    }

    /// The synchronisation sources, stream by stream.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> {
        self.origins.iter().map(|origin| origin.ssrc)
    }

    /// Sends all, or until `stop` is set. `sent` counts along.
    pub fn run(&self, stop: &AtomicBool, sent: &AtomicU64) -> Tally {
        let clock = Monotonic::start();
        let mut pacer = Pacer::new(clock, SPIN.min(self.plan.spacing().mul_f64(0.25)));
        let (mut outbox, mut dues, machine) = (Outbox::new(), Vec::with_capacity(BATCH), mark::machine());
        let (mut tally, mut next) = (Tally::default(), 0);
        let start = clock.now() + START;
        while let Some(first) = self.plan.departure(next) {
            let Some(now) = pacer.wait(start + first.at, stop) else { break };
            let sent_ns = since_1970();
            while let Some(departure) = self.plan.departure(next).filter(|it| start + it.at <= now) {
                if outbox.len() == BATCH {
                    break;
                }
                self.write(&departure, Mark::new(machine, sent_ns), &mut outbox);
                dues.push(start + departure.at);
                next += 1;
            }
            self.send(&mut outbox, &mut tally);
            let done = pacer.now();
            dues.drain(..).for_each(|due| pacer.record(due, done));
            tally.elapsed = done.since(start);
            sent.store(next, Ordering::Relaxed);
        }
        Tally { is_whole: next == self.plan.packets(), lateness: pacer.lateness().clone(), ..tally }
    }

    /// Sends on a separate real-time thread, until all is sent or `stop` is set. `watch` is called every 50 ms with
    /// the number of packets sent; `refused` at once if the process may not have that priority.
    ///
    /// # Panics
    /// If the sending thread does.
    pub fn run_with_priority(
        &self,
        stop: &AtomicBool,
        refused: impl FnOnce(&io::Error) + Send,
        mut watch: impl FnMut(u64),
    ) -> Tally {
        let sent = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                if let Err(error) = request_realtime_priority() {
                    refused(&error);
                }
                self.run(stop, &sent)
            });
            while !sending.is_finished() {
                std::thread::sleep(WATCH_INTERVAL);
                watch(sent.load(Ordering::Relaxed));
            }
            sending.join().expect("the sending thread does not panic")
        })
    }

    fn write(&self, departure: &Departure, mark: Mark, outbox: &mut Outbox) {
        let (format, origin) = (self.plan.format(), &self.origins[departure.stream as usize]);
        let seq = origin.seq.wrapping_add(departure.index as u16);
        let timestamp = origin.timestamp.wrapping_add(self.plan.timestamp(departure.index));
        let header = Repr::new(format.payload_type, seq, timestamp, origin.ssrc);
        // The marker is where a talk-spurt begins (RFC 3551, section 4.1), and this is one.
        let header = Repr { marker: departure.index == 0, ..header };
        let datagram =
            outbox.datagram(Some(origin.to), rtp::HEADER_LEN + self.plan.payload_len(departure.index));
        header.emit(datagram);
        mark.emit(&mut datagram[rtp::HEADER_LEN..]);
    }

    fn send(&self, outbox: &mut Outbox, tally: &mut Tally) {
        let result = outbox.send(&self.socket);
        tally.packets += result.sent as u64;
        tally.bytes += result.bytes as u64;
        tally.refused += result.refused as u64;
        tally.error = result.error.or(tally.error.take());
    }
}

fn origins(count: u32, to: SocketAddr, streams: Streams, seed: u64) -> io::Result<Vec<Origin>> {
    let (mut random, mut taken) = (RandomStream::new(seed, "rtp"), HashSet::new());
    let mut draw = move || (random.unit() * 4_294_967_296.0) as u32;
    let origin = |stream: u32| {
        let ssrc = std::iter::repeat_with(&mut draw).find(|ssrc| taken.insert(*ssrc)).unwrap_or(stream);
        Some(Origin { ssrc, seq: draw() as u16, timestamp: draw(), to: nth(to, streams, stream)? })
    };
    let origins: Option<Vec<Origin>> = (0..count).map(origin).collect();
    let problem = || format!("{count} streams have no ports of their own from {} on", to.port());
    origins.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, problem()))
}

fn nth(mut to: SocketAddr, streams: Streams, stream: u32) -> Option<SocketAddr> {
    if streams == Streams::ByPort {
        to.set_port(u16::try_from(u32::from(to.port()) + 2 * stream.min(u16::MAX.into())).ok()?);
    }
    Some(to)
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_begin_at_random_and_the_same_seed_begins_the_same() {
        let to = "127.0.0.1:5004".parse().expect("an address");
        let drawn = |seed| origins(5000, to, Streams::BySsrc, seed).expect("one port");
        let ssrcs: HashSet<u32> = drawn(1).iter().map(|origin| origin.ssrc).collect();
        assert_eq!(ssrcs.len(), 5000);
        assert_eq!(drawn(2)[7].ssrc, drawn(2)[7].ssrc);
        assert_ne!(drawn(1)[7].ssrc, drawn(2)[7].ssrc);
    }

    #[test]
    fn ports_are_even_steps_as_far_as_there_are() {
        let to = "[::1]:65000".parse().expect("an address");
        let ports =
            |count| origins(count, to, Streams::ByPort, 1).map(|all| all.last().map(|it| it.to.port()));
        assert_eq!(ports(268).expect("enough"), Some(65_534));
        assert!(ports(269).is_err() && ports(70_000).is_err());
    }
}
