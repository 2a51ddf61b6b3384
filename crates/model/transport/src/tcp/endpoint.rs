//! TCP endpoint: an end of a connection with its application, as an element.

use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Histogram, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_site::Switchable;
use bentpipe_units::{Span, Time};

use super::app::{Reader, Sink, Source, Writer};
use super::config::Config;
use super::connection::{Connection, Failure, State};
use crate::tcp::metrics;

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// TCP endpoint with its application. Port 0, in and out, carries whole IP packets.
pub struct Endpoint {
    connection: Connection,
    role: Role,
    begin: Time,
    source: Source,
    writer: Option<Writer>,
    /// Time at which writing was turned off, while it is.
    off_since: Option<Time>,
    /// Time for which it was off before there was a writer.
    off: Span,
    reader: Reader,
    write_at: Time,
    read_at: Time,
    opened: bool,
    established: Option<Time>,
    finished: Option<Time>,
    completed: Option<Time>,
    delay: Option<Span>,
    /// Last arrival of new payload.
    last: Option<Time>,
    delays: Histogram,
}

/// Opening side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Active opening by this end, to the given address.
    Active(SocketAddr),
    /// Passive opening: the peer connects, from any address.
    Passive,
}

impl Endpoint {
    /// Creates an end that opens a connection from `local` to `remote`.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, or the addresses differ in IP version.
    pub fn active(config: Config, local: SocketAddr, remote: SocketAddr) -> Result<Endpoint, InvalidConfig> {
        let same = local.is_ipv4() == remote.is_ipv4();
        InvalidConfig::ensure(same, "remote", "an address of the same IP version as the local one")?;
        Endpoint::new(config, local, Role::Active(remote))
    }

    /// Creates an end that waits at `local` for one connection.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn passive(config: Config, local: SocketAddr) -> Result<Endpoint, InvalidConfig> {
        Endpoint::new(config, local, Role::Passive)
    }

    fn new(config: Config, local: SocketAddr, role: Role) -> Result<Endpoint, InvalidConfig> {
        config.check()?;
        Ok(Endpoint {
            connection: Connection::new(config, local, NODE),
            role,
            begin: Time::ZERO,
            source: Source::default(),
            writer: None,
            off_since: None,
            off: Span::ZERO,
            reader: Reader::new(Sink::default()),
            write_at: Time::ZERO,
            read_at: Time::NEVER,
            opened: false,
            established: None,
            finished: None,
            completed: None,
            delay: None,
            last: None,
            delays: Histogram::default(),
        })
    }

    /// Sets the traffic that the application writes.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Endpoint {
        self.source = source;
        self
    }

    /// Sets the reading behaviour of the application.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink) -> Endpoint {
        self.reader = Reader::new(sink);
        self
    }

    /// Sets the time of opening or listening, from which all times of the application count.
    #[must_use]
    pub fn starting_at(mut self, begin: Time) -> Endpoint {
        self.begin = begin;
        self.write_at = begin;
        self
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the time at which the connection was established.
    pub fn established_at(&self) -> Option<Time> {
        self.established
    }

    /// Returns the end of the connection: closed both ways, or failed.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished
    }

    /// Returns the time at which the application had read all data of the peer.
    pub fn completed_at(&self) -> Option<Time> {
        self.completed
    }

    /// Returns the number of bytes delivered to the application.
    pub fn bytes_delivered(&self) -> u64 {
        self.connection.tally.bytes_delivered
    }

    /// Bytes of the application's that the peer has acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.connection.sender.bytes_acked()
    }

    /// Returns the reason for a failure, if there was one.
    pub fn failure(&self) -> Option<Failure> {
        self.connection.failure()
    }

    /// Returns `true` once the connection is opened, which happens when it is due.
    fn is_open(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.opened && cx.now() >= self.begin {
            self.opened = true;
            self.write_at = Time::NEVER;
            match self.role {
                Role::Active(remote) => self.connection.open(remote, cx),
                Role::Passive => self.connection.listen(),
            }
        }
        self.opened
    }

    /// Runs the application, sends the results, and returns the next wake-up time.
    #[inline]
    fn run(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if self.connection.readable() > 0 || self.read_at <= now {
            self.read(now);
        }
        if self.completed.is_none() && self.connection.is_read_out() {
            self.completed = Some(now);
        }
        if self.connection.state() == State::Established || self.connection.state() == State::CloseWait {
            self.write(cx);
        }
        self.connection.output(cx);
        if self.connection.state() == State::Closed && self.finished.is_none() {
            self.finish(now);
        }
        self.connection.deadline().min(self.write_at).min(self.read_at).max(now)
    }

    fn finish(&mut self, now: Time) {
        (self.finished, self.write_at, self.read_at) = (Some(now), Time::NEVER, Time::NEVER);
    }

    #[inline]
    fn read(&mut self, now: Time) {
        let (bytes, again) = self.reader.poll(now, self.connection.readable(), self.connection.window_unit());
        self.connection.read(bytes);
        self.read_at = again;
    }

    #[inline]
    fn write(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = self.writer.insert(Writer::new(self.source, self.begin));
                writer.skip(self.off);
                (self.established, self.connection.schedule) = (Some(now), writer.schedule());
                writer
            }
        };
        if self.off_since.is_some() {
            self.write_at = Time::NEVER;
            return;
        }
        let done = match self.source {
            Source::Nothing => self.connection.is_read_out(),
            _ => {
                // A burst ends when its time is over, not when a send buffer that it filled at once is empty.
                let room = if self.source.is_burst_without_rate() {
                    self.connection.sendable()
                } else {
                    self.connection.writable()
                };
                writer.acknowledged(now, self.connection.sender.bytes_acked());
                let wish = writer.poll(now, room, cx.stream());
                self.connection.write(wish.bytes);
                self.write_at = wish.again;
                wish.done
            }
        };
        if done {
            self.write_at = Time::NEVER;
            self.connection.close();
        }
    }
}

impl Switchable for Endpoint {
    fn set_active(&mut self, now: Time, active: bool) {
        match (self.off_since, active) {
            (None, false) => {
                self.off_since = Some(now);
                if let Some(writer) = &mut self.writer {
                    writer.take_back(self.connection.withdraw());
                }
            }
            (Some(since), true) => {
                self.off_since = None;
                let off = now.since(since.max(self.begin).min(now));
                match &mut self.writer {
                    Some(writer) => {
                        writer.skip(off);
                        self.connection.schedule = writer.schedule();
                    }
                    None => self.off += off,
                }
            }
            _ => {}
        }
    }
}

impl Element for Endpoint {
    #[inline]
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if !self.is_open(cx) {
            return self.begin;
        }
        let before = self.connection.bytes_arrived();
        if !self.connection.receive(&packet, cx) {
            cx.refuse(packet, Why::Checksum);
            return self.run(cx);
        }
        if self.connection.bytes_arrived() > before {
            let delay = cx.now().since(packet.created_at());
            (self.delay, self.last) = (Some(delay), Some(cx.now()));
            self.delays.record(delay);
        }
        packet.recycle();
        self.run(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if !self.is_open(cx) {
            return self.begin;
        }
        self.connection.wake(cx);
        self.run(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        self.connection.observe(observer);
        let delay = self.delay.map_or(f64::NAN, Span::as_secs_f64);
        observer.gauge(&metrics::ONE_WAY_DELAY, delay);
        observer.histogram(&metrics::DELAYS, &self.delays);
        observer.last_arrival(self.last);
        if matches!(self.source, Source::OnOff(_)) {
            let none = Histogram::default();
            let times = self.writer.as_ref().map_or(&none, Writer::burst_completions);
            observer.histogram(&metrics::BURSTS, times);
        }
        // A connection that is closed before its application wrote anything completes nothing.
        let completed = self.completed.filter(|_| self.connection.tally.bytes_delivered > 0);
        observer.gauge(&metrics::COMPLETED, completed.map_or(f64::NAN, Time::as_secs_f64));
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
