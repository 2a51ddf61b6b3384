//! One end of a TCP connection with its application, as an element.

use std::net::SocketAddr;

use bentpipe_units::{Span, Time};

use super::app::{Reader, Sink, Source, Writer};
use super::config::Config;
use super::connection::{Connection, Failure, State};
use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// One end of a TCP connection with its application. Port 0, in and out, carries whole IP packets.
pub struct Endpoint {
    connection: Connection,
    role: Role,
    begin: Time,
    source: Source,
    writer: Option<Writer>,
    reader: Reader,
    write_at: Time,
    read_at: Time,
    opened: bool,
    established: Option<Time>,
    finished: Option<Time>,
    delay: Option<Span>,
}

/// Who opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// This end, to there.
    Active(SocketAddr),
    /// The peer, whoever it is.
    Passive,
}

impl Endpoint {
    /// An end that opens a connection from `local` to `remote`, addresses of the same IP version.
    ///
    /// # Errors
    /// If the configuration or the pair of addresses is impossible.
    pub fn active(config: Config, local: SocketAddr, remote: SocketAddr) -> Result<Endpoint, Impossible> {
        let same = local.is_ipv4() == remote.is_ipv4();
        Impossible::unless(same, "remote", "an address of the same IP version as the local one")?;
        Endpoint::new(config, local, Role::Active(remote))
    }

    /// An end that waits at `local` for one connection.
    ///
    /// # Errors
    /// If the configuration is impossible.
    pub fn passive(config: Config, local: SocketAddr) -> Result<Endpoint, Impossible> {
        Endpoint::new(config, local, Role::Passive)
    }

    fn new(config: Config, local: SocketAddr, role: Role) -> Result<Endpoint, Impossible> {
        config.check()?;
        Ok(Endpoint {
            connection: Connection::new(config, local, NODE),
            role,
            begin: Time::ZERO,
            source: Source::default(),
            writer: None,
            reader: Reader::new(Sink::default()),
            write_at: Time::ZERO,
            read_at: Time::NEVER,
            opened: false,
            established: None,
            finished: None,
            delay: None,
        })
    }

    /// What the application writes.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Endpoint {
        self.source = source;
        self
    }

    /// How the application reads.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink) -> Endpoint {
        self.reader = Reader::new(sink);
        self
    }

    /// When the connection is opened, or listened for; a paced or on-off source and every duration count from then.
    #[must_use]
    pub fn starting_at(mut self, begin: Time) -> Endpoint {
        self.begin = begin;
        self.write_at = begin;
        self
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// When the connection was established.
    pub fn established_at(&self) -> Option<Time> {
        self.established
    }

    /// When the connection was over: closed both ways, or failed.
    pub fn finished_at(&self) -> Option<Time> {
        self.finished
    }

    /// Bytes handed to the application so far.
    pub fn bytes_delivered(&self) -> u64 {
        self.connection.tally.bytes_delivered
    }

    /// Bytes of the application's that the peer has acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.connection.sender.bytes_acked()
    }

    /// What went wrong, if anything.
    pub fn failure(&self) -> Option<Failure> {
        self.connection.failure()
    }

    /// Opens when it is time, and until then says no.
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

    /// Lets the application read and write, sends what results, and says when to be woken.
    #[inline]
    fn run(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if self.connection.readable() > 0 || self.read_at <= now {
            self.read(now);
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
                (self.established, self.connection.schedule) = (Some(now), writer.schedule());
                writer
            }
        };
        let done = match self.source {
            Source::Nothing => self.connection.is_read_out(),
            _ => {
                let wish = writer.poll(now, self.connection.writable(), cx.stream());
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

impl Element for Endpoint {
    #[inline]
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if !self.is_open(cx) {
            return self.begin;
        }
        let before = self.connection.tally.bytes_delivered;
        self.connection.receive(&packet, cx);
        if self.connection.tally.bytes_delivered > before {
            self.delay = Some(cx.now().since(packet.born()));
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
        observer.gauge("one_way_delay", Unit::Seconds, delay);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
