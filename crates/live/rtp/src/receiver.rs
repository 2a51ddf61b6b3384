//! Receiving streams at sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bentpipe_units::Span;

use super::mark;
use super::reception::Reception;
use bentpipe_emu::datagrams::{BATCH, Inbox, grow_receive_buffer, stamp_arrivals};
use bentpipe_emu::{Lateness, poll, set_min_timer_slack};

/// The longest datagram of UDP.
const LONGEST: usize = 65_535;

/// Receive buffers of the sockets together in bytes.
const BUFFER: usize = 8 << 20;

/// Batches taken from one socket before others have their turn.
const MAX_BATCHES: usize = 16;

/// Poll interval of the sockets. Datagrams have the kernel's time of arrival, so faster polling gains nothing, and
/// batches cost less.
const REST: Duration = Duration::from_millis(1);

/// The longest wait for a datagram, so that a stop is seen.
const LONGEST_WAIT: Span = Span::from_millis(50);

/// Change of the offset between system and monotonic clock that counts as a clock step.
const STEP_NS: u64 = 1_000_000;

/// Sockets that streams come to.
pub struct Receiver {
    sockets: Vec<Door>,
    inbox: Inbox,
    reception: Reception,
    clock: ClockWatch,
    errors: u64,
    lateness: Lateness,
    clock_error: Option<Span>,
}

struct Door {
    port: u16,
    socket: UdpSocket,
    /// Datagrams that the kernel dropped, as far as it said.
    drops: u32,
}

/// Decision of an observer of a reception.
pub type Watch<'a> = &'a mut dyn FnMut(&Reception) -> std::ops::ControlFlow<()>;

impl Receiver {
    /// Listens at `ports` ports from `at` on, in steps of two. Without an address it listens at all addresses of both
    /// families. `streams` is the number of streams, `clock_hz` the clock rate of payload types without a fixed one.
    ///
    /// # Errors
    /// If a port is taken or beyond the last, or there are more than the process may open.
    pub fn listen(
        at: (Option<IpAddr>, u16),
        ports: u16,
        streams: usize,
        clock_hz: Option<u32>,
    ) -> io::Result<Receiver> {
        let port = |nth: u16| at.1.checked_add(nth.checked_mul(2)?);
        let sockets = (0..ports).map(|nth| match port(nth) {
            Some(port) => Door::open(at.0, port, BUFFER / usize::from(ports)),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "ports end at 65535")),
        });
        Ok(Receiver {
            sockets: sockets.collect::<io::Result<_>>()?,
            inbox: Inbox::new(LONGEST),
            reception: Reception::new(streams, mark::machine(), clock_hz),
            clock: ClockWatch::start(),
            errors: 0,
            lateness: Lateness::default(),
            clock_error: None,
        })
    }

    /// Believes the clocks of other machines, which differ from this one's by at most `error`.
    #[must_use]
    pub fn believing_others(self, error: Span) -> Receiver {
        let reception = self.reception.believing_others();
        Receiver { reception, clock_error: Some(error), ..self }
    }

    /// Returns the bound of the error of delays.
    ///
    /// On one machine there is none; between machines it is the stated one.
    pub fn delay_error(&self) -> Span {
        self.clock_error.filter(|_| self.reception.others() > 0).unwrap_or(Span::ZERO)
    }

    /// The ports that it listens at.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.sockets.iter().map(|door| door.port)
    }

    /// Receives until `stop` is set or `watch` returns `false`. It is called every few milliseconds.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn run(&mut self, stop: &AtomicBool, watch: Watch<'_>) -> io::Result<()> {
        set_min_timer_slack();
        while !stop.load(Ordering::Relaxed) && watch(&self.reception).is_continue() {
            let sockets = self.sockets.iter().map(|door| door.socket.as_fd());
            match poll::wait(sockets, LONGEST_WAIT) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.drain();
            self.clock.look();
            self.rest();
        }
        self.drain();
        Ok(())
    }

    /// Rests, and notes how much too long: that is the machine's own doing.
    fn rest(&mut self) {
        let started = Instant::now();
        std::thread::sleep(REST);
        let late = started.elapsed().saturating_sub(REST);
        self.lateness.record(Span::from_nanos(late.as_nanos() as u64));
    }

    fn drain(&mut self) {
        for door in &mut self.sockets {
            self.errors += u64::from(door.drain(&mut self.inbox, &mut self.reception).is_err());
        }
    }

    /// Returns the reception until now.
    pub fn reception(&self) -> &Reception {
        &self.reception
    }

    /// Returns the number of datagrams that the kernel reported dropped at full receive buffers.
    pub fn overflows(&self) -> u64 {
        self.sockets.iter().map(|door| u64::from(door.drops)).sum()
    }

    /// Errors of the sockets.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the lateness of the machine's own timers, of sleeps of a millisecond.
    pub fn timer_lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Returns the number of clock steps during reception. Intervals and delays around them are wrong.
    pub fn clock_steps(&self) -> u64 {
        self.clock.steps
    }
}

impl Door {
    fn open(at: Option<IpAddr>, port: u16, buffer: usize) -> io::Result<Door> {
        let socket = match at {
            Some(at) => UdpSocket::bind((at, port)),
            // A socket of IPv6 takes IPv4 as well, where there is IPv6.
            None => UdpSocket::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
                .or_else(|_| UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))),
        };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("port {port}: {error}"));
        let socket = socket.map_err(named)?;
        stamp_arrivals(&socket)?;
        grow_receive_buffer(&socket, buffer)?;
        Ok(Door { port: socket.local_addr()?.port(), socket, drops: 0 })
    }

    /// Receives waiting datagrams in a bounded number of batches, for fairness between sockets.
    fn drain(&mut self, inbox: &mut Inbox, reception: &mut Reception) -> io::Result<()> {
        for _ in 0..MAX_BATCHES {
            let count = inbox.receive(&self.socket)?;
            self.drops = inbox.drops().unwrap_or(self.drops);
            for datagram in inbox.iter() {
                match (datagram.arrived_ns, datagram.is_truncated) {
                    (Some(at_ns), false) => {
                        let host = datagram.from.map(|from| from.ip());
                        reception.take_from(host, self.port, at_ns, datagram.bytes);
                    }
                    _ => reception.take_truncated(),
                }
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }
}

/// Detects changes of the machine's clock.
struct ClockWatch {
    started: Instant,
    /// The machine's clock less the monotonic one.
    offset_ns: i64,
    steps: u64,
}

impl ClockWatch {
    fn start() -> ClockWatch {
        let started = Instant::now();
        ClockWatch { started, offset_ns: offset_ns(started).unwrap_or(0), steps: 0 }
    }

    fn look(&mut self) {
        let Some(offset_ns) = offset_ns(self.started) else { return };
        self.steps += u64::from(offset_ns.abs_diff(self.offset_ns) > STEP_NS);
        self.offset_ns = offset_ns;
    }
}

/// Returns the system clock minus the time since `started`. `None` if the two readings were too far apart.
fn offset_ns(started: Instant) -> Option<i64> {
    let before = started.elapsed();
    let real = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let took = started.elapsed() - before;
    (took < Duration::from_micros(100)).then(|| real.as_nanos() as i64 - before.as_nanos() as i64)
}

#[cfg(test)]
mod tests;
