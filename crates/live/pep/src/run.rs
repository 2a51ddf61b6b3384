//! Event loop of a proxy on kernel sockets.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::exporter::{self, Pages, Shared};
use bentpipe_emu::exposition::prometheus;
use bentpipe_emu::shares::source;
use bentpipe_emu::{Clock, Monotonic, open_files};
use bentpipe_units::{Span, Time};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::config::Config;
use crate::figures::{Figures, Notice, gave_way_text};
use crate::flow::Pipe;
use crate::metrics::samples;
use crate::pair::{Ends, Pair, Turn};
use crate::rules::{self, Guard};
use crate::sockets::{Accepted, Listener, addresses, connect};
use crate::table::{Place, Table};

/// Events of one wait.
const EVENTS: usize = 1024;

/// Connections accepted before others are served.
const ACCEPTS: usize = 256;

/// Longest wait, so that a request to stop is seen.
const LONGEST_WAIT: Span = Span::from_millis(100);

/// Time between looks at idle connections, and between samples of metrics.
const INTERVAL: Span = Span::from_secs(1);

/// Time between looks at the data that connections hold.
const HELD_INTERVAL: Span = Span::from_secs(10);

/// Data of a listener's events; its number is added.
const LISTENER: u64 = 1 << 63;

/// Descriptors that connections leave to the rest of the program.
const RESERVE: u64 = 100;

/// Descriptors of a connection.
const PER_CONNECTION: u64 = 2;

/// TCP-splitting proxy on kernel sockets.
pub(crate) struct SocketProxy {
    config: Config,
    clock: Monotonic,
    epoll: OwnedFd,
    /// Empty while the proxy splits no new connections.
    listeners: Vec<Listener>,
    table: Table,
    busy: VecDeque<Place>,
    pipe: Pipe,
    figures: Figures,
    looked_at: Time,
    /// Time of the last look at the data that connections hold.
    relieved_at: Time,
    pages: Option<Shared>,
    /// Removes the rules at the end of the process.
    guard: Option<Guard>,
    is_draining: bool,
}

impl SocketProxy {
    /// Opens a proxy. Connections are diverted to it from here on, if it sets up the rules.
    ///
    /// # Errors
    /// Returns an error that says which option or right is wrong, or which command failed.
    pub(crate) fn open(mut config: Config) -> Result<SocketProxy, String> {
        config.connections = open_files::allow(config.connections, PER_CONNECTION, RESERVE);
        let listeners = listen(&config)?;
        let pages = config.prometheus.map(serve).transpose()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {error}"))?;
        let guard = config.sets_rules.then(|| Guard::set_up(&config, None)).transpose()?;
        let proxy = SocketProxy {
            config,
            clock: Monotonic::start(),
            epoll,
            listeners,
            table: Table::default(),
            busy: VecDeque::new(),
            pipe: Pipe::new().map_err(|error| format!("pipe: {error}"))?,
            figures: Figures { limit_reached: Some(0), ..Figures::default() },
            looked_at: Time::ZERO,
            relieved_at: Time::ZERO,
            pages,
            guard,
            is_draining: false,
        };
        proxy.watch_listeners()?;
        Ok(proxy)
    }

    /// Splits connections until `stop` is set, and returns the figures. Those that give way are passed to `notice`.
    ///
    /// # Errors
    /// Returns an error if the system refuses to wait for events.
    pub(crate) fn run(mut self, stop: &AtomicBool, notice: Notice<'_>) -> Result<Figures, String> {
        while !stop.load(Ordering::Relaxed) {
            self.turn()?;
            self.relieve(notice);
        }
        self.drain()?;
        self.cut();
        drop(self.guard.take());
        Ok(self.figures())
    }

    /// Returns the limit of connections. The limit of open files may lower it.
    pub(crate) fn limit(&self) -> usize {
        self.config.connections
    }

    /// Returns the figures of this moment.
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = self.figures;
        figures.present = self.table.len() as u64;
        for (_, pair) in self.table.iter() {
            let [to_satellite, to_ground] = pair.delivered();
            figures.to_satellite += to_satellite;
            figures.to_ground += to_ground;
            figures.held += pair.held();
        }
        figures
    }

    /// Waits for connections to end. New ones are forwarded as they are.
    fn drain(&mut self) -> Result<(), String> {
        self.is_draining = true;
        self.listeners.clear();
        let end = self.clock.now() + self.config.drain;
        while self.table.len() > 0 && self.clock.now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Resets the connections that are left.
    fn cut(&mut self) {
        let places: Vec<Place> = self.table.iter().map(|(place, _)| place).collect();
        self.figures.cut += places.len() as u64;
        places.into_iter().for_each(|place| self.remove(place));
    }

    fn turn(&mut self) -> Result<(), String> {
        let timeout = if self.busy.is_empty() { LONGEST_WAIT } else { Span::ZERO };
        for data in self.wait(timeout)? {
            match data & LISTENER {
                0 => self.advance(Place::from_data(data)),
                _ => self.accept((data ^ LISTENER) as usize),
            }
        }
        for _ in 0..self.busy.len() {
            if let Some(place) = self.busy.pop_front() {
                self.advance(place);
            }
        }
        self.look();
        self.keep_limit()
    }

    /// Waits for events and returns their data.
    fn wait(&self, timeout: Span) -> Result<Vec<u64>, String> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("epoll: {error}")),
        }
        Ok(events.iter().map(|event| event.data.u64()).collect())
    }

    fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(number) else { return };
            match listener.accept() {
                Ok(Some(accepted)) => self.open_pair(number, accepted),
                Ok(None) => return,
                // The connection is gone already, or descriptors are short.
                Err(_) => {
                    self.figures.failed += 1;
                    return;
                }
            }
        }
    }

    /// Opens the connection to the server.
    fn open_pair(&mut self, number: usize, accepted: Accepted) {
        let Accepted { socket, client, server } = accepted;
        let (side, address) = (self.listeners[number].side, self.listeners[number].address);
        // Without a rule in between a client reached the listener itself.
        if server == address || self.table.contains(&(client, server)) {
            self.figures.loops += 1;
            return;
        }
        let now = self.clock.now();
        let opened = connect(&self.config, client, server, side.other());
        let pair = match opened {
            Ok(to_server) => Pair::new((client, server), socket, to_server, side, now),
            Err(error) => {
                let is_unreachable = matches!(
                    error.kind(),
                    io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
                );
                self.figures.split += u64::from(is_unreachable);
                self.figures.refused += u64::from(is_unreachable);
                self.figures.failed += u64::from(!is_unreachable);
                return;
            }
        };
        self.figures.split += 1;
        let place = self.table.insert(pair);
        self.figures.peak = self.figures.peak.max(self.table.len() as u64);
        if self.watch(place).is_err() {
            self.figures.failed += 1;
            self.remove(place);
        }
    }

    fn watch(&mut self, place: Place) -> io::Result<()> {
        let Some(pair) = self.table.get_mut(place) else { return Ok(()) };
        // An urgent byte alone does not make a socket readable.
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::PRI
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        for socket in pair.sockets() {
            epoll::add(&self.epoll, socket, epoll::EventData::new_u64(place.to_data()), flags)?;
        }
        Ok(())
    }

    fn watch_listeners(&self) -> Result<(), String> {
        for (number, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENER | number as u64);
            epoll::add(&self.epoll, &listener.socket, data, epoll::EventFlags::IN)
                .map_err(|error| format!("epoll: {error}"))?;
        }
        Ok(())
    }

    fn advance(&mut self, place: Place) {
        let now = self.clock.now();
        let Some(pair) = self.table.get_mut(place) else { return };
        match pair.turn(&self.pipe, now) {
            Turn::Waiting => return,
            Turn::Busy => return self.busy.push_back(place),
            Turn::Over => self.figures.finished += 1,
            Turn::Refused => self.figures.refused += 1,
            Turn::Broken => self.figures.broken += 1,
        }
        self.remove(place);
    }

    /// Closes both sockets. Those that have not ended are reset.
    fn remove(&mut self, place: Place) {
        let Some(pair) = self.table.remove(place) else { return };
        let [to_satellite, to_ground] = pair.delivered();
        self.figures.to_satellite += to_satellite;
        self.figures.to_ground += to_ground;
        self.figures.lost += pair.held();
    }

    /// Resets idle connections, and publishes the metrics.
    fn look(&mut self) {
        let now = self.clock.now();
        if now < self.looked_at + INTERVAL {
            return;
        }
        self.looked_at = now;
        let is_idle = |pair: &Pair| pair.active_at + self.config.idle <= now;
        let idle: Vec<Place> =
            self.table.iter().filter(|(_, pair)| is_idle(pair)).map(|(place, _)| place).collect();
        self.figures.idle += idle.len() as u64;
        idle.into_iter().for_each(|place| self.remove(place));
        self.pages.iter().for_each(|pages| publish(pages, "tproxy", &self.figures()));
    }

    /// Resets stalled connections while all together hold more than `--memory`.
    ///
    /// Those of the client that holds the most go first.
    fn relieve(&mut self, notice: Notice<'_>) {
        let now = self.clock.now();
        if now < self.relieved_at + HELD_INTERVAL {
            return;
        }
        self.relieved_at = now;
        let held: Vec<(Place, Ends, u64)> =
            self.table.iter_mut().map(|(place, pair)| (place, pair.ends, pair.note_progress(now))).collect();
        let mut total: u64 = held.iter().map(|(_, _, bytes)| bytes).sum();
        if total <= self.config.memory().get() {
            return;
        }
        for (place, ends, bytes, since) in self.stalled(&held, now) {
            if total <= self.config.memory().get() {
                return;
            }
            total -= bytes;
            self.figures.stalled += 1;
            self.remove(place);
            notice(&gave_way_text(ends, bytes, now.since(since)));
        }
    }

    /// Returns the stalled connections, in the order in which they give way.
    fn stalled(&mut self, held: &[(Place, Ends, u64)], now: Time) -> Vec<(Place, Ends, u64, Time)> {
        let mut shares: HashMap<IpAddr, u64> = HashMap::new();
        for (_, (client, _), bytes) in held {
            *shares.entry(source(client.ip())).or_default() += bytes;
        }
        let stalled = held.iter().filter_map(|&(place, ends, bytes)| {
            let since = self.table.get_mut(place)?.stalled_since(now)?;
            Some((place, ends, bytes, since))
        });
        let mut stalled: Vec<_> = stalled.collect();
        stalled.sort_by_key(|&(_, ends, _, since)| (Reverse(shares[&source(ends.0.ip())]), since, ends));
        stalled
    }

    /// Closes the listeners at the limit of connections. Below nine tenths of it they open again.
    ///
    /// Without a listener the kernel forwards connections as they are (nft(8), `tproxy`).
    fn keep_limit(&mut self) -> Result<(), String> {
        if self.table.len() >= self.config.connections && !self.listeners.is_empty() {
            self.listeners.clear();
            *self.figures.limit_reached.get_or_insert(0) += 1;
        } else if self.listeners.is_empty()
            && !self.is_draining
            && self.table.len() <= self.config.connections * 9 / 10
        {
            self.listeners = listen(&self.config)?;
            self.watch_listeners()?;
        }
        Ok(())
    }
}

/// Opens the listeners of both sides. IPv6 is left out where the kernel has none.
fn listen(config: &Config) -> Result<Vec<Listener>, String> {
    let has_v6 = std::path::Path::new("/proc/net/if_inet6").exists() && rules::has_loopback_v6();
    let wanted = addresses(config.port).into_iter().filter(|(address, _)| address.is_ipv4() || has_v6);
    wanted.map(|(address, side)| Listener::open(config, address, side)).collect()
}

/// Publishes figures as metrics and as a page.
pub(crate) fn publish(pages: &Shared, mode: &str, figures: &Figures) {
    let metrics = prometheus("bentpipe_pep", ("mode", mode), &samples(figures));
    let page = exporter::page("bentpipe pep", &figures.to_string());
    exporter::publish(pages, Pages { metrics, page });
}

/// Serves metrics at an address.
pub(crate) fn serve(address: std::net::SocketAddr) -> Result<Shared, String> {
    let pages = Shared::default();
    exporter::start(address, pages.clone()).map_err(|error| format!("--prometheus: {address}: {error}"))?;
    Ok(pages)
}
