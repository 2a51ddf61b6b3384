//! Loop of a gateway, and the requests to it.

mod own;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use bentpipe_dvb::{Event, Pdu};
use bentpipe_net::InvalidConfig;
use bentpipe_units::{Span, Time};
use bentpipe_wire::bbframe::{self, Stream};
use bentpipe_wire::ethernet::{self, MacAddr};
use bentpipe_wire::ip;
use bentpipe_wire::ts::{PACKET_LEN, Pid};

use super::administrator::Administrator;
use super::carrier::Carrier;
use super::config::{Config, Framing, LanKind, Remote as RemoteConfig};
use super::input::{Input, InputConfig};
use super::lan::Lan;
use super::learning::{Side, Stations};
use super::output::{Output, OutputConfig};
use super::place::OpenError;
use super::remote::{Piece, Remote};
use super::routes::{Prefix, Routes};
use super::statistics::{Journal, LanCounts, RemoteStatistics, Statistics};
use super::strays::Strays;
use super::tap::{Captures, Point, Tap};
use super::udlr::{Tunnel, UdlrCounts};
use bentpipe_emu::privileges::User;
use bentpipe_emu::signals::Waker;
use bentpipe_emu::{Clock, Monotonic, SetupError, cpu_time, poll, set_min_timer_slack};

/// Maximum number of packets read from the device before the carrier is served.
const LAN_BATCH: usize = 128;
/// Maximum number of batches read from an input before the carrier is served.
const INPUT_BATCHES: usize = 4;
/// Maximum length of a packet or frame of the device.
const MAX_PACKET: usize = 65_536 + ethernet::HEADER_LEN + 2 * ethernet::TAG_LEN;
/// Pause after an error of the device, because it is down or gone.
const LAN_PAUSE: Span = Span::from_millis(100);
/// Rest after a wake-up, so that packets and datagrams are taken together.
///
/// A wake-up costs more than the rest of their processing, and a slot of 8 Mbit/s is longer.
const REST: Span = Span::from_micros(100);
/// Maximum sleep.
const LONGEST_SLEEP: Span = Span::from_secs(1);
/// Number of PIDs, more than that of input stream identifiers.
const PIDS: usize = Pid::NULL.number() as usize + 1;

/// Error returned when a gateway cannot be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device cannot be made.
    #[error("the device {0}: {1}")]
    Lan(String, SetupError),
    /// An input or output cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A capture cannot be opened.
    #[error("capture: {0}")]
    Capture(io::Error),
    /// The event that wakes the loop cannot be made.
    #[error(transparent)]
    Waker(io::Error),
    /// The settings of a remote site are not possible.
    #[error("remote site {0}: {1}")]
    Remote(String, InvalidConfig),
    /// The setting cannot change while the gateway runs.
    #[error("{0} cannot change while the gateway is running; restart it")]
    Fixed(&'static str),
    /// The gateway has ended.
    #[error("the gateway has ended")]
    Ended,
}

enum Request {
    Statistics(Sender<Statistics>),
    Reload(Box<Config>, Sender<Result<Vec<String>, Error>>),
    End,
}

/// Handle for requests of other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: Sender<Request>,
    waker: Arc<Waker>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Request::Statistics(_) => "Statistics",
            Request::Reload(..) => "Reload",
            Request::End => "End",
        })
    }
}

impl Handle {
    /// Returns the statistics; `None` if the gateway has ended.
    pub fn statistics(&self) -> Option<Statistics> {
        let (sender, answer) = mpsc::channel();
        self.ask(Request::Statistics(sender))?;
        answer.recv_timeout(Duration::from_secs(5)).ok()
    }

    /// Changes the settings and returns the changes in words. Contexts of unchanged streams are kept.
    ///
    /// # Errors
    /// Returns the setting that cannot change or be opened. The others stay as far as possible.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, Error> {
        let (sender, answer) = mpsc::channel();
        self.ask(Request::Reload(Box::new(config), sender)).ok_or(Error::Ended)?;
        answer.recv_timeout(Duration::from_secs(30)).map_err(|_| Error::Ended)?
    }

    /// Ends [`Gateway::run`].
    pub fn end(&self) {
        let _ = self.ask(Request::End);
    }

    fn ask(&self, request: Request) -> Option<()> {
        self.requests.send(request).ok()?;
        self.waker.wake();
        Some(())
    }
}

/// Remote site that sends on a PID, and the index of the PID there.
type Owner = Option<(u16, u16)>;

/// Open site.
pub struct Gateway {
    config: Config,
    /// User of programs.
    user: Option<User>,
    clock: Monotonic,
    lan: Lan,
    carrier: Carrier,
    outputs: Vec<Output>,
    inputs: Vec<Input>,
    remotes: Vec<Remote>,
    /// Devices of remote sites that have their own.
    devices: Vec<Option<Lan>>,
    owners: Box<[Owner]>,
    routes: Routes,
    stations: Stations,
    journal: Journal,
    lan_counts: LanCounts,
    /// Time before which the device is not read, because of an error.
    lan_again: Time,
    strays: Strays,
    captures: Captures,
    /// Taps of device and inputs.
    lan_tap: Option<Tap>,
    received_tap: Option<Tap>,
    buffer: Vec<u8>,
    /// Time of the last wake-up.
    woke: Time,
    requests: Receiver<Request>,
    handle: Handle,
}

impl Gateway {
    /// Opens outputs, inputs and the device. `identity` distinguishes senders of RTP. Programs run as `user`, if there is one.
    ///
    /// # Errors
    /// Returns the part that cannot be opened, and the cause.
    pub fn open(config: &Config, identity: u32, user: Option<&User>) -> Result<Gateway, Error> {
        let clock = Monotonic::start();
        let now = clock.now();
        let (sender, requests) = mpsc::channel();
        let waker = Waker::new().map_err(Error::Waker)?;
        let handle = Handle { requests: sender, waker: Arc::new(waker) };
        let queue = config.carrier.queue.get() as usize;
        let new = |remote: &RemoteConfig| {
            Remote::new(remote, queue).map_err(|why| Error::Remote(remote.name.clone(), why))
        };
        let mut remotes = config.remotes.iter().map(new).collect::<Result<Vec<_>, _>>()?;
        remotes.iter_mut().try_for_each(Remote::open_tunnel)?;
        let open = |(n, config)| open_output(n, config, identity, user);
        let outputs = config.outputs.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let open = |(n, config)| open_input(n, config, now, user);
        let inputs = config.inputs.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let lan = Lan::open(&config.lan, &networks(&config.remotes));
        let lan = lan.map_err(|error| Error::Lan(config.lan.device.clone(), error))?;
        let devices = own::open(config)?;
        let (stations, ageing) = match config.lan.kind {
            LanKind::Bridge { stations, ageing, .. } => (stations, ageing),
            LanKind::Router => (0, Span::ZERO),
        };
        let kinds =
            (config.lan.kind != LanKind::Router, matches!(config.carrier.framing, Framing::Ts { .. }));
        let captures = Captures::open(config.capture.as_ref(), kinds, clock.now()).map_err(Error::Capture)?;
        let mut gateway = Gateway {
            clock,
            lan,
            carrier: Carrier::new(&config.carrier, &config.remotes, now),
            outputs,
            inputs,
            remotes,
            devices,
            owners: vec![None; PIDS].into_boxed_slice(),
            routes: Routes::default(),
            stations: Stations::new(stations, ageing),
            journal: Journal::default(),
            lan_counts: LanCounts::default(),
            lan_again: Time::ZERO,
            strays: Strays::default(),
            lan_tap: captures.tap(Point::Lan),
            received_tap: captures.tap(Point::Received),
            captures,
            buffer: vec![0; MAX_PACKET],
            woke: Time::ZERO,
            requests,
            handle,
            user: user.cloned(),
            config: config.clone(),
        };
        gateway.carrier.set_tap(gateway.captures.tap(Point::Sent));
        gateway.index();
        Ok(gateway)
    }

    /// Leaves later changes of addresses and routes to an administrator.
    pub(crate) fn delegate(&mut self, administrator: Administrator) {
        self.lan.delegate(administrator);
    }

    /// Returns a handle for requests.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until a request to end.
    pub fn run(&mut self) {
        self.captures.start();
        set_min_timer_slack();
        while !self.answer() {
            let is_busy = self.pass();
            if !is_busy {
                self.wait();
            }
        }
    }

    /// Returns `true` if there may be more at once, after sending and receiving.
    fn pass(&mut self) -> bool {
        let now = self.clock.now();
        // What is read in this pass waits from now on: the carrier has passed its idle slots before.
        let more_to_send = self.carrier.send(now, &mut self.remotes, &mut self.outputs);
        let more_returned = self.serve_tunnels(now) | self.read_devices(now);
        let more_to_read = self.read_lan(now);
        let more_arrived = self.read_inputs(now);
        for lan in std::iter::once(&mut self.lan).chain(self.devices.iter_mut().flatten()) {
            self.lan_counts.write_errors += u64::from(lan.flush().is_err());
        }
        more_to_send || more_to_read || more_arrived || more_returned
    }

    fn read_lan(&mut self, now: Time) -> bool {
        if now < self.lan_again {
            return false;
        }
        for taken in 0..LAN_BATCH {
            let len = match self.lan.read(&mut self.buffer) {
                Ok(Some(len)) => len,
                Ok(None) => return taken > 0,
                Err(_) => {
                    self.lan_counts.read_errors += 1;
                    self.lan_again = now + LAN_PAUSE;
                    return false;
                }
            };
            self.lan_counts.read += 1;
            self.lan_counts.read_bytes += len as u64;
            if let Some(tap) = &self.lan_tap {
                tap.packet(now, &self.buffer[..len]);
            }
            if self.lan.is_bridge() { self.bridge(now, len) } else { self.route(now, len) }
        }
        true
    }

    /// Sends the packet in the buffer to the sites of its destination.
    fn route(&mut self, now: Time, len: usize) {
        let packet = &self.buffer[..len];
        let sites = destination(packet).map_or(&[][..], |address| self.routes.find(address));
        self.lan_counts.unrouted += u64::from(sites.is_empty());
        for &site in sites {
            self.remotes[site].push(now, &Pdu::ip(packet));
        }
    }

    /// Sends the frame in the buffer to its destination, or to all sites.
    fn bridge(&mut self, now: Time, len: usize) {
        let frame = &self.buffer[..len];
        let Some((dst, src)) = addresses(frame) else { return };
        if is_reserved(dst) {
            self.lan_counts.reserved += 1;
            return;
        }
        self.stations.learn(now, src, Side::Here);
        let side = if dst.is_multicast() { None } else { self.stations.side_of(now, dst) };
        match side {
            Some(Side::Here) => self.lan_counts.local += 1,
            Some(Side::Remote(site)) => self.remotes[site].push(now, &Pdu::ethernet(frame)),
            None => {
                self.lan_counts.flooded += 1;
                let at_lan = self.remotes.iter_mut().filter(|remote| remote.config.device.is_none());
                at_lan.for_each(|remote| remote.push(now, &Pdu::ethernet(frame)));
            }
        }
    }

    fn read_inputs(&mut self, now: Time) -> bool {
        let mut arrival = Arrival {
            now,
            remotes: &mut self.remotes,
            devices: &mut self.devices,
            owners: &self.owners,
            lan: &mut self.lan,
            lan_counts: &mut self.lan_counts,
            strays: &mut self.strays,
            routes: &self.routes,
            stations: &mut self.stations,
            journal: &mut self.journal,
            taps: (self.lan_tap.as_ref(), self.received_tap.as_ref()),
        };
        let mut any = false;
        for input in &mut self.inputs {
            for _ in 0..INPUT_BATCHES {
                let more = match self.carrier.framing() {
                    Framing::Ts { .. } => input.read(now, |packet| arrival.packet(packet)),
                    Framing::Frames { has_adaptation, .. } => {
                        input.read_whole(|datagram| arrival.frame(datagram, *has_adaptation))
                    }
                };
                any |= more;
                if !more {
                    break;
                }
            }
        }
        any
    }

    /// Waits for the next slot, packet, datagram or request.
    fn wait(&mut self) {
        let now = self.clock.now();
        let inputs = self.inputs.iter().map(Input::due).fold(Time::NEVER, Time::min);
        let is_paused = now < self.lan_again;
        let lan_again = if is_paused { self.lan_again } else { Time::NEVER };
        let tunnels = || self.remotes.iter().filter_map(|remote| remote.tunnel.as_ref());
        let hello = tunnels().map(Tunnel::due).fold(Time::NEVER, Time::min);
        let due = self.carrier.due(now, &self.remotes).min(inputs).min(lan_again).min(hello);
        if due <= now {
            return;
        }
        let rested = self.woke + REST;
        if now < rested {
            let _ = poll::wait([self.handle.waker.fd()], rested.min(due).since(now));
            if due <= rested {
                return;
            }
        }
        let waker = &self.handle.waker;
        let fds = self.inputs.iter().flat_map(Input::fds).chain(tunnels().map(Tunnel::fd));
        let fds = fds.chain(self.devices.iter().flatten().filter_map(Lan::fd).filter(|_| !is_paused));
        let fds = fds.chain(self.lan.fd().filter(|_| !is_paused));
        let now = self.clock.now();
        let ready = poll::wait(fds.chain([waker.fd()]), due.since(now).min(LONGEST_SLEEP));
        self.woke = self.clock.now();
        // An interrupted or failed wait only means that the loop comes round early.
        if ready.is_ok_and(|ready| ready.is_last()) {
            waker.clear();
        }
    }

    /// Returns `true` if a request asks to end, after answering all.
    fn answer(&mut self) -> bool {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                // The client may have gone.
                Request::Statistics(answer) => drop(answer.send(self.statistics())),
                Request::Reload(config, answer) => drop(answer.send(self.reload(*config))),
                Request::End => return true,
            }
        }
        false
    }

    /// Returns the statistics.
    pub fn statistics(&mut self) -> Statistics {
        let now = self.clock.now();
        let tunnels: Vec<_> = self
            .remotes
            .iter_mut()
            .map(|remote| remote.tunnel.as_mut().map(|tunnel| tunnel.counts(now)))
            .collect();
        let remote = |(remote, udlr): (&Remote, Option<UdlrCounts>)| RemoteStatistics {
            udlr,
            name: remote.config.name.clone(),
            sent: remote.encapsulator().sent(),
            compression: remote.encapsulator().compression(),
            contexts: remote.encapsulator().contexts() as u64,
            queue_bytes: remote.waiting_bytes() as u64,
            overflowed: remote.overflowed,
            looped: remote.looped,
            received: remote.decapsulators().map(|(pid, stream)| (pid, stream.received())).collect(),
        };
        let late = self.carrier.lateness();
        let names: Vec<&str> = self.remotes.iter().map(|remote| remote.config.name.as_str()).collect();
        Statistics {
            uptime: self.clock.now().since(Time::ZERO),
            lan: LanCounts {
                stations: self.stations.count() as u64,
                station_moves: self.stations.moves(),
                stations_refused: self.stations.refused(),
                ..self.lan_counts
            },
            carrier: self.carrier.counts(),
            lateness: [late.quantile(0.5), late.quantile(0.99), late.max()],
            outputs: self.outputs.iter().map(|output| *output.counts()).collect(),
            inputs: self.inputs.iter().map(Input::counts).collect(),
            strays: self.strays.counts,
            unexpected: self.strays.unexpected().to_vec(),
            captures: self.captures.counts(),
            cpu: cpu_time(),
            anomalies: self.journal.take(|remote| names.get(remote).copied().unwrap_or_default().to_owned()),
            remotes: self.remotes.iter().zip(tunnels).map(remote).collect(),
        }
    }

    /// Changes the settings. Unchanged parts stay open, and unchanged streams keep their contexts.
    fn reload(&mut self, config: Config) -> Result<Vec<String>, Error> {
        if !self.lan.is(&config.lan) {
            return Err(Error::Fixed("the device on the LAN side (name, kind, MTU)"));
        }
        if config.capture != self.config.capture {
            return Err(Error::Fixed("the captures"));
        }
        if own::names(&config) != own::names(&self.config) {
            return Err(Error::Fixed("a device of a remote site"));
        }
        if config.carrier.framing != *self.carrier.framing() {
            return Err(Error::Fixed("the carrier's framing"));
        }
        let now = self.clock.now();
        let queue = config.carrier.queue.get() as usize;
        let mut changes = Vec::new();
        // What can fail comes first.
        let mut fresh = Vec::new();
        for new in &config.remotes {
            let kept = self.config.remotes.iter().any(|old| old.name == new.name && old.keeps_contexts(new));
            if !kept {
                let mut remote =
                    Remote::new(new, queue).map_err(|why| Error::Remote(new.name.clone(), why))?;
                remote.open_tunnel()?;
                fresh.push(remote);
            }
        }
        self.reopen(&config, now, &mut changes)?;
        let failed = |error| Error::Lan(config.lan.device.clone(), error);
        self.lan.set_addresses(&config.lan.addresses).map_err(failed)?;
        self.lan.set_routes(&networks(&config.remotes)).map_err(failed)?;
        self.exchange(&config, fresh, queue, &mut changes);
        self.reorder_devices(&config);
        if config.carrier != self.config.carrier {
            changes.push("the carrier's rate or queue".to_owned());
        }
        self.carrier.change(config.carrier.rate, &config.remotes, now);
        self.config = config;
        self.index();
        Ok(changes)
    }

    /// Opens new outputs and inputs, and keeps the others.
    fn reopen(&mut self, config: &Config, now: Time, changes: &mut Vec<String>) -> Result<(), Error> {
        if config.outputs != self.config.outputs {
            let user = self.user.as_ref();
            let open = |(n, config)| open_output(n, config, n as u32, user);
            self.outputs = config.outputs.iter().enumerate().map(open).collect::<Result<_, _>>()?;
            self.config.outputs = config.outputs.clone();
            changes.push("outputs opened again".to_owned());
        }
        if config.inputs != self.config.inputs {
            // Their ports have to be free first.
            self.inputs.clear();
            let user = self.user.as_ref();
            let open = |(n, config)| open_input(n, config, now, user);
            let opened = config.inputs.iter().enumerate().map(open).collect::<Result<_, _>>();
            if opened.is_err() {
                let old = self.config.inputs.iter().filter_map(|old| Input::open(old, now, user).ok());
                self.inputs = old.collect();
            }
            self.inputs = opened?;
            self.config.inputs = config.inputs.clone();
            changes.push("inputs opened again".to_owned());
        }
        Ok(())
    }

    /// Reorders the remote sites: those that stay with their streams, others `fresh`.
    fn exchange(&mut self, config: &Config, fresh: Vec<Remote>, queue: usize, changes: &mut Vec<String>) {
        let mut old: Vec<Option<Remote>> = self.remotes.drain(..).map(Some).collect();
        let mut fresh = fresh.into_iter();
        let mut numbers = vec![None; old.len()];
        for (number, new) in config.remotes.iter().enumerate() {
            let stays = |remote: &&Option<Remote>| {
                remote
                    .as_ref()
                    .is_some_and(|old| old.config.name == new.name && old.config.keeps_contexts(new))
            };
            let at = old.iter().position(|remote| stays(&remote));
            let remote = match at.and_then(|at| old[at].take()) {
                Some(mut remote) => {
                    if remote.config != *new {
                        changes.push(format!("remote site {} changed, contexts kept", new.name));
                    }
                    remote.change(new, queue);
                    numbers[at.unwrap_or(0)] = Some(number);
                    remote
                }
                None => {
                    changes.push(format!("remote site {} starts again", new.name));
                    fresh.next().expect("one was made for each that does not stay")
                }
            };
            self.remotes.push(remote);
        }
        for gone in old.into_iter().flatten() {
            if config.remotes.iter().all(|new| new.name != gone.config.name) {
                changes.push(format!("remote site {} is gone", gone.config.name));
            }
        }
        self.stations.renumber(|old| numbers.get(old).copied().flatten());
    }

    /// Indexes PIDs and networks.
    fn index(&mut self) {
        self.owners.fill(None);
        self.routes = Routes::default();
        for (site, remote) in self.config.remotes.iter().enumerate() {
            for (n, &pid) in remote.receive.iter().enumerate() {
                self.owners[usize::from(pid) % PIDS] = Some((site as u16, n as u16));
            }
            if remote.device.is_none() {
                remote.networks.iter().for_each(|&network| self.routes.add(network, site));
            }
        }
    }
}

impl Gateway {
    /// Writes what waits for captures, and ends them.
    ///
    /// # Errors
    /// Returns the first error of the disk. The files have the packets before it.
    pub fn end_captures(&mut self) -> io::Result<()> {
        (self.lan_tap, self.received_tap) = (None, None);
        self.carrier.set_tap(None);
        self.captures.finish()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // An error counts where a gateway ends in order.
        let _ = self.end_captures();
    }
}

/// Opens the `n`-th output.
fn open_output(n: usize, config: &OutputConfig, identity: u32, user: Option<&User>) -> Result<Output, Error> {
    let of_key = |error| {
        let (key, value) = config.place();
        Error::Open(OpenError::new(format!("output.{n}.{key}"), value, error))
    };
    Output::open(config, identity, user).map_err(of_key)
}

/// Opens the `n`-th input.
fn open_input(n: usize, config: &InputConfig, now: Time, user: Option<&User>) -> Result<Input, Error> {
    let of_key = |error| {
        let (key, value) = config.place();
        Error::Open(OpenError::new(format!("input.{n}.{key}"), value, error))
    };
    Input::open(config, now, user).map_err(of_key)
}

fn networks(remotes: &[RemoteConfig]) -> Vec<Prefix> {
    let at_lan = remotes.iter().filter(|remote| remote.device.is_none());
    at_lan.flat_map(|remote| remote.networks.iter().copied()).collect()
}

/// State for processing received units.
struct Arrival<'a> {
    now: Time,
    remotes: &'a mut [Remote],
    devices: &'a mut [Option<Lan>],
    owners: &'a [Owner],
    lan: &'a mut Lan,
    lan_counts: &'a mut LanCounts,
    strays: &'a mut Strays,
    routes: &'a Routes,
    stations: &'a mut Stations,
    journal: &'a mut Journal,
    /// Taps of device and inputs.
    taps: (Option<&'a Tap>, Option<&'a Tap>),
}

impl Arrival<'_> {
    /// Processes a TS packet, whose sync byte was checked.
    fn packet(&mut self, packet: &[u8; PACKET_LEN]) {
        if let Some(tap) = self.taps.1 {
            tap.packet(self.now, packet);
        }
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        if pid == Pid::NULL.number() {
            self.strays.counts.nulls += 1;
        } else {
            self.piece(pid, Piece::Packet(packet));
        }
    }

    /// Processes a BBFRAME.
    fn frame(&mut self, datagram: &[u8], has_adaptation: bool) {
        if let Some(tap) = self.taps.1 {
            tap.frame(self.now, datagram);
        }
        let start = if has_adaptation { bbframe::ADAPTATION_LEN } else { 0 };
        let is_adapted = !has_adaptation || bbframe::Adaptation::parse(datagram).is_ok();
        let frame = datagram.get(start..).filter(|_| is_adapted);
        match frame.and_then(|frame| bbframe::parse(frame).ok()) {
            Some((repr, field)) if repr.stream == Stream::Continuous => {
                self.piece(repr.input.unwrap_or(0).into(), Piece::Field(field));
            }
            _ => self.strays.counts.malformed += 1,
        }
    }

    fn piece(&mut self, pid: u16, piece: Piece<'_>) {
        let Some((site, n)) = self.owners[usize::from(pid)] else {
            return match piece {
                Piece::Packet(packet) => self.strays.note_packet(pid, packet),
                Piece::Field(_) => self.strays.note(pid),
            };
        };
        let site = usize::from(site);
        let Arrival { now, remotes, devices, lan, lan_counts, routes, stations, journal, taps, .. } = self;
        let own = devices.get_mut(site).and_then(Option::as_mut);
        let is_own = own.is_some();
        let lan = own.unwrap_or(lan);
        let lan_tap = taps.0;
        let mut looped = 0;
        remotes[site].receive(*now, n.into(), piece, |event| match event {
            Event::Anomaly(what) => journal.note(*now, site, pid, what),
            Event::Ip(packet) if !lan.is_bridge() => {
                if !is_own && is_from_there(routes, packet, site) {
                    looped += 1;
                } else {
                    deliver(lan, lan_counts, packet, (*now, lan_tap));
                }
            }
            Event::Ethernet(frame) if lan.is_bridge() => {
                let Some((dst, src)) = addresses(frame) else { return };
                if !is_reserved(dst) {
                    if !is_own {
                        stations.learn(*now, src, Side::Remote(site));
                    }
                    deliver(lan, lan_counts, frame, (*now, lan_tap));
                }
            }
            // The other end is a router where this one is a bridge, or the other way round.
            Event::Ip(_) | Event::Ethernet(_) => lan_counts.unrouted += 1,
        });
        remotes[site].looped += looped;
    }
}

/// Returns `true` if a packet from a site is for a network behind that site.
///
/// The kernel would send it back there.
fn is_from_there(routes: &Routes, packet: &[u8], site: usize) -> bool {
    let address = destination(packet).filter(|address| !address.is_multicast());
    address.is_some_and(|address| routes.find(address).contains(&site))
}

fn deliver(lan: &mut Lan, counts: &mut LanCounts, bytes: &[u8], (now, tap): (Time, Option<&Tap>)) {
    if let Some(tap) = tap {
        tap.packet(now, bytes);
    }
    match lan.write(bytes) {
        Ok(()) => {
            counts.written += 1;
            counts.written_bytes += bytes.len() as u64;
        }
        Err(_) => counts.write_errors += 1,
    }
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    ip::Packet::new_checked(packet).ok().map(|packet| packet.dst())
}

/// Returns destination and source of a frame.
fn addresses(frame: &[u8]) -> Option<(MacAddr, MacAddr)> {
    let (dst, rest) = frame.split_first_chunk()?;
    Some((MacAddr(*dst), MacAddr(*rest.first_chunk()?)))
}

/// Returns `true` if frames to an address stay on their link (IEEE 802.1Q, table 8-1).
fn is_reserved(dst: MacAddr) -> bool {
    matches!(dst.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}
