//! Loop of a node.

mod accept;
mod claims;
mod deliver;
mod disk;
mod operate;
mod parts;
mod places;
mod sharing;
mod turns;
mod watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use accept::Origin;
use bentpipe_dtn::node::{Arrival, Config, Limits, Node};
use bentpipe_dtn::session::{self, Event};
use bentpipe_emu::{Clock, Monotonic, exporter, open_files, random_bits};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::{Bundle, UNIX_OFFSET};
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::tcpcl::refusal;
use disk::Fresh;
use rustix::event::PollFlags;

use super::control::Control;
use super::counters::Counters;
use super::echo::Echo;
use super::file::{Listen, Neighbour, NodeFile, NodeId, NodeLayer};
use super::identity::expiry;
use super::journal::{Content, Journal, Kept, Slot};
use super::local::Mailboxes;
use super::names::{Names, shown};
use super::peers::{Dial, Item, MtcpInput, MtcpOutput, Peer, Role, Verdict};
use super::radio::{Radio, first_session, is_datagram};
use super::rare::Rare;
use super::schedule::{Schedule, opening, routing, schedule};
use crate::clock::dtn_time;
use crate::host::host_key;
use crate::link::{Link, SessionLink, wait};
use crate::tls::Security;

/// Longest wait, so that a stop is seen.
const LONGEST_WAIT: Span = Span::from_millis(50);
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 1024;
/// Descriptors that connections leave to the rest of the program.
///
/// They are of the store, sockets of datagrams, and clients of `control` and `--prometheus`.
const OTHERS: u64 = 192;
/// Connections of a listener that are accepted in a turn.
const ACCEPTED: usize = 32;
/// Time in which bundles wait for an unlisted node after its last session.
///
/// One that comes and goes costs what waits for it once in this time.
const AWAY: Span = Span::from_secs(10);
/// Memory of a stored bundle in addition to its bytes.
///
/// 300,000 bundles of 46 B take 700 B each.
const OVERHEAD: u64 = 512;
/// Wait after a peer had no room.
const PAUSE: Span = Span::from_secs(1);
/// Fragments into which a bundle may be cut for a neighbour on TCPCL.
///
/// A neighbour that takes 64 kB gets bundles of 64 MB.
const MAX_FRAGMENTS: u64 = 1000;
/// Interval of the search for bundles of applications whose life has ended.
const SWEEP: Span = Span::from_secs(1);
/// Bundles of the store that are read at a time.
const BATCH: usize = 256;
/// Batches of them that may wait.
const READ_AHEAD: usize = 16;

/// Bundle node on sockets.
pub struct Daemon {
    file: NodeFile,
    own: u64,
    node: Node,
    journal: Journal,
    mailboxes: Mailboxes,
    echo: Echo,
    /// Arrivals of this turn, which a full disk refuses.
    fresh: Fresh,
    /// Set while the disk has no room.
    is_disk_full: bool,
    radio: Radio,
    listeners: Vec<(Listen, TcpListener)>,
    security: Security,
    peers: BTreeMap<u64, Peer>,
    inputs: BTreeMap<u64, MtcpInput>,
    outputs: Vec<MtcpOutput>,
    dials: Vec<Dial>,
    /// Unlisted nodes without a session, and the instants at which they are gone.
    away: BTreeMap<u64, Time>,
    schedule: Option<Schedule>,
    clock: Monotonic,
    /// Time of the node at the start of the clock.
    offset: Span,
    next_local: u64,
    next_peer: u64,
    /// Maximum number of connections. The limit of open files may lower it.
    most_connections: usize,
    /// Time before which no connection is accepted, for want of descriptors.
    accept_at: Time,
    /// Number of this turn.
    turn: u64,
    next_sweep: Time,
    /// Set if blocks of LTP brought bundles in this turn.
    has_blocks: bool,
    counters: Counters,
    log: Vec<String>,
    rare: Rare,
    /// Lines about configured neighbours, which those about others do not crowd out.
    complaints: Rare,
    names: Names,
    control: Option<Control>,
    /// Pages of the exporter, if there is one.
    pages: Option<exporter::Shared>,
}

impl Daemon {
    /// Opens the store and the sockets of a node.
    ///
    /// # Errors
    /// Returns an error if a file, the store or an address cannot be used.
    pub fn open(file: NodeFile) -> Result<Daemon, String> {
        let Eid::Ipn(ipn) = file.eid else { return Err("expected a node of scheme ipn".into()) };
        // Both clocks begin together: a large store takes seconds to open.
        let (own, start, clock) = (ipn.number(), dtn_time(), Monotonic::start());
        let epoch = match (&file.plan, file.plan_start) {
            (Some(_), Some(unix)) => unix.saturating_sub(UNIX_OFFSET) * 1000,
            _ => start,
        };
        let offset = start.checked_sub(epoch).ok_or("`plan_start` lies in the future")?;
        let schedule = schedule(&file, own, epoch)?;
        let routing = routing(&file, schedule.as_ref(), own);
        let config = Config {
            eid: file.eid.clone(),
            storage: file.storage.get(),
            reports: file.reports,
            epoch,
            no_route: Some(file.no_route),
        };
        let (journal, content) = Journal::open(&file.store, file.sync, start)
            .map_err(|error| format!("{}: {error}", file.store.display()))?;
        let security = file.tls.as_ref().map_or(Ok(Security::default()), Security::open)?;
        let random = || random_bits().map_err(|error| format!("random numbers: {error}"));
        let mut daemon = Daemon {
            own,
            node: Node::new(config, routing),
            journal,
            mailboxes: Mailboxes::new(file.storage.get()),
            echo: Echo::default(),
            fresh: Fresh::default(),
            is_disk_full: false,
            radio: Radio::new(
                own,
                (&file.neighbour, file.ltp_sessions),
                (file.max_bundle.get(), file.storage.get()),
                (random()?, first_session(random()?)),
            ),
            listeners: Vec::new(),
            security,
            peers: BTreeMap::new(),
            inputs: BTreeMap::new(),
            outputs: Vec::new(),
            dials: Vec::new(),
            away: BTreeMap::new(),
            schedule,
            clock,
            offset: Span::from_millis(offset),
            next_local: content.next,
            next_peer: 0,
            most_connections: open_files::allow(MAX_CONNECTIONS, 1, OTHERS + 2 * file.neighbour.len() as u64),
            accept_at: Time::ZERO,
            turn: 0,
            next_sweep: Time::ZERO,
            has_blocks: false,
            counters: Counters::default(),
            log: Vec::new(),
            rare: Rare::default(),
            complaints: Rare::default(),
            names: Names::default(),
            control: None,
            pages: None,
            file,
        };
        if daemon.most_connections < MAX_CONNECTIONS {
            let most = daemon.most_connections;
            daemon.log.push(format!(
                "the limit of open files allows {most} connections, not {MAX_CONNECTIONS}; help: `ulimit -n` shows it"
            ));
        }
        daemon.node.set_overhead(OVERHEAD);
        daemon.know_names();
        daemon.restore(content);
        daemon.listen()?;
        daemon.know_neighbours();
        match Control::open(&daemon.file.store) {
            Ok(control) => daemon.control = Some(control),
            Err(error) => {
                daemon.log.push(format!("no control socket in {}: {error}", daemon.file.store.display()))
            }
        }
        Ok(daemon)
    }

    fn restore(&mut self, mut content: Content) {
        let (now, today) = (self.now(), dtn_time());
        let parts = content.kept.split_off(&Slot::Part(0));
        self.counters.incomplete_bytes += content.lost;
        if let Some((bytes, segment)) = &content.damaged {
            self.counters.damaged_bytes += bytes;
            let segment = segment.display();
            self.log.push(format!(
                "store: {segment}: {bytes} B are damaged, and their bundles are lost; others are kept"
            ));
        }
        if content.lost > 0 {
            self.log.push(format!("store: {} B at the end of a segment were incomplete", content.lost));
        }
        // Two processors: bundles are read while those before are stored.
        std::thread::scope(|scope| {
            let (parsed, ready) = mpsc::sync_channel(READ_AHEAD);
            scope.spawn(move || {
                let mut rest = content.kept.into_iter().peekable();
                while rest.peek().is_some() {
                    let batch: Vec<_> = rest
                        .by_ref()
                        .take(BATCH)
                        .map(|(slot, kept)| (slot, Bundle::parse(&kept.bundle).ok(), kept))
                        .collect();
                    if parsed.send(batch).is_err() {
                        return;
                    }
                }
            });
            for (slot, bundle, kept) in ready.into_iter().flatten() {
                match bundle {
                    Some(bundle) => self.restore_one(slot, bundle, &kept, today, now),
                    // Its batch is whole, but this version does not read it.
                    None => {
                        self.counters.damaged_bytes += kept.bundle.len() as u64;
                        self.journal.remove(slot);
                    }
                }
            }
        });
        self.node.record_changes(content.next);
        self.restore_parts(parts, today, now);
    }

    fn restore_one(&mut self, slot: Slot, bundle: Bundle, kept: &Kept, today: u64, now: Time) {
        self.counters.restored += 1;
        let len = kept.bundle.len() as u64;
        match slot {
            Slot::Waiting(id) => {
                let from = (kept.from != 0 && kept.from != self.own).then_some(kept.from);
                let resided = Span::from_millis(today.saturating_sub(kept.arrival).min(1 << 40));
                self.node.restore(id, (bundle, len), (from, self.share_of_kept(kept.from)), resided, now);
            }
            Slot::Local(id) => {
                let expiry = expiry(&bundle, kept.arrival);
                let share = self.share_of_kept(kept.from);
                self.mailboxes.keep(id, bundle, len, expiry, share);
            }
            Slot::Part(_) => {}
        }
    }

    fn listen(&mut self) -> Result<(), String> {
        for listen in self.file.listen.clone() {
            let wrong = |error: std::io::Error| format!("{}: {error}", listen.at);
            let at = if is_datagram(listen.layer) {
                self.radio.listen(listen.layer, listen.at).map_err(wrong)?
            } else {
                let listener = TcpListener::bind(listen.at).map_err(wrong)?;
                listener.set_nonblocking(true).map_err(wrong)?;
                let at = listener.local_addr().map_err(wrong)?;
                self.listeners.push((listen, listener));
                at
            };
            self.log.push(format!("listening for {} at {at}", layer_name(listen.layer)));
        }
        self.radio.complete().map_err(|error| error.to_string())
    }

    fn know_neighbours(&mut self) {
        let now = self.now();
        for neighbour in self.file.neighbour.clone() {
            self.know_neighbour(&neighbour, now);
        }
        self.node.reroute(now);
        self.note_claims();
    }

    fn know_neighbour(&mut self, neighbour: &Neighbour, now: Time) {
        let number = neighbour.node.number;
        let is_planned =
            self.schedule.as_ref().is_some_and(|schedule| schedule.contacts.contains_key(&number));
        // No plan has contacts of a node whose identifier is of scheme dtn.
        if self.schedule.is_none() || !is_planned && neighbour.node.name.is_some() {
            self.node.add_direct(number, now);
        }
        self.node.meet(number);
        match (neighbour.layer, neighbour.at) {
            (NodeLayer::Tcpcl, Some(at)) => self.dials.push(Dial::new(number, at)),
            (NodeLayer::Mtcp, Some(at)) => self.outputs.push(MtcpOutput::new(Dial::new(number, at))),
            _ => {}
        }
    }

    /// Notes the numbers of the nodes of scheme dtn in the file.
    fn know_names(&mut self) {
        let destinations = self.file.routes.keys().filter_map(|to| to.parse().ok());
        let neighbours = self.file.neighbour.iter().map(|neighbour| neighbour.node.clone());
        for node in destinations.chain(neighbours).collect::<Vec<NodeId>>() {
            let is_noted = self.names.configure(&node);
            if let Some(name) = node.name.filter(|_| is_noted) {
                self.node.set_name(&name, node.number);
            }
        }
    }

    /// Returns `true` if a node that a host has stated is noted.
    ///
    /// Another node of scheme dtn may have its number.
    fn know_stated(&mut self, node: &NodeId, host: IpAddr) -> bool {
        let (is_noted, forgotten) = self.names.state(node, host_key(host));
        forgotten.iter().for_each(|name| self.node.forget_name(name));
        if let Some(name) = node.name.as_ref().filter(|_| is_noted) {
            self.node.set_name(name, node.number);
        }
        is_noted
    }

    /// Returns a node as the log names it.
    fn name_of(&self, number: u64) -> String {
        match self.names.get(number) {
            Some(name) => shown(&name.to_string()),
            None if number == 0 => "an unknown node".to_owned(),
            None => number.to_string(),
        }
    }

    /// Returns the time of the node: from the start of its plan.
    fn now(&self) -> Time {
        self.clock.now() + self.offset
    }

    /// Returns the address of the first listener on TCP.
    pub fn local(&self) -> Option<SocketAddr> {
        self.listeners.first().and_then(|(_, listener)| listener.local_addr().ok())
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        let (count, bytes) = self.node.stored();
        Counters {
            node: self.node.counts(),
            datagrams_refused: self.radio.refused,
            ltp: self.radio.engine.counts(),
            ltp_cancelled: self.radio.refusals,
            stored: (count as u64, bytes),
            waiting: self.mailboxes.len() as u64,
            ..self.counters
        }
    }

    /// Runs until `stop` is set. `log` gets a line for each event that an operator is to know.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn run(&mut self, stop: &AtomicBool, log: &mut dyn FnMut(&str)) -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            self.write_log(log);
            self.turn()?;
        }
        self.store().map_err(|error| self.wrong(&error))?;
        self.journal.finish().map_err(|error| self.wrong(&error))?;
        self.peers.values_mut().for_each(|peer| peer.connection.session.end(0));
        self.turn()?;
        self.finish_log(log);
        Ok(())
    }

    /// Receives, commits, acknowledges and sends once.
    fn turn(&mut self) -> Result<(), String> {
        self.wait();
        let now = self.now();
        self.turn += 1;
        self.accept_connections(now);
        self.dial(now);
        self.receive(now);
        self.deliver(now);
        self.node.handle_timeout(now);
        self.serve_operators(now);
        self.watch(now);
        self.sweep(now);
        self.store_parts(now);
        self.store().map_err(|error| self.wrong(&error))?;
        self.follow_plan(now);
        self.feed(now);
        self.answer().map_err(|error| self.wrong(&error))?;
        self.write(now);
        self.bound_incomplete();
        Ok(())
    }

    fn wrong(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.file.store.display())
    }

    /// Acknowledges bundles that are on disk. They may have been sent on before that.
    fn answer(&mut self) -> std::io::Result<()> {
        let synced = self.journal.synced()?;
        self.peers.values_mut().for_each(|peer| peer.answer(synced));
        Ok(())
    }

    fn wait(&self) {
        if self.node.has_delivery() || !self.radio.waiting.is_empty() {
            return;
        }
        let now = self.now();
        let sessions = self.peers.values().map(|peer| peer.connection.session.next_timeout());
        let first = sessions.min().unwrap_or(Time::NEVER).min(self.node.next_timeout());
        let until = first.min(self.radio.next_timeout(&self.node));
        let sessions = self.peers.values().map(|peer| peer.connection.interest());
        let links = sessions.chain(self.inputs.values().map(|input| input.link.interest()));
        let listeners = self.listeners.iter().filter(|_| now >= self.accept_at);
        let listeners = listeners.map(|(_, listener)| listener.as_fd());
        let others = listeners
            .chain(self.radio.descriptors())
            .chain(self.journal.descriptor())
            .map(|fd| (fd, PollFlags::IN));
        let outputs = self.outputs.iter().filter_map(MtcpOutput::interest);
        let operators = self.control.iter().flat_map(Control::interests);
        wait(links.chain(outputs).chain(operators).chain(others), (until - now).min(LONGEST_WAIT));
    }

    /// Returns the settings of a session. With `is_reactive` parts of cut transfers may be kept.
    fn session_config(&self, is_reactive: bool) -> session::Config {
        session::Config {
            keepalive: (self.file.keepalive.as_nanos() / 1_000_000_000).min(u16::MAX.into()) as u16,
            transfer_mru: self.file.max_bundle.get(),
            is_deferred: true,
            parts: (is_reactive && !self.node.makes_copies()).then_some(session::LEAST_PART),
            ..session::Config::new(self.file.eid.to_string())
        }
    }

    fn connections(&self) -> usize {
        self.peers.len() + self.inputs.len()
    }

    fn accept_connections(&mut self, now: Time) {
        if now < self.accept_at {
            return;
        }
        for n in 0..self.listeners.len() {
            for _ in 0..ACCEPTED {
                let (stream, address) = match self.listeners[n].1.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if open_files::is_exhausted(&error) => {
                        self.miss_descriptor(&error, now);
                        break;
                    }
                    Err(_) => break,
                };
                let Ok(link) = Link::new(stream) else { continue };
                if self.connections() >= self.most_connections && !self.make_room(address.ip(), now) {
                    continue;
                }
                let listen = self.listeners[n].0;
                if listen.layer == NodeLayer::Mtcp {
                    let input = MtcpInput::new(link, address, self.file.max_bundle.get());
                    self.inputs.insert(self.next_peer, input);
                    self.next_peer += 1;
                    continue;
                }
                let security = self.security.with_policy(listen.tls);
                let config = session::Config { is_passive: true, ..self.session_config(true) };
                let secure = security.passive(address.ip());
                let connection = SessionLink::new(config, security.policy(), link, secure, now);
                let mut peer = Peer::new(connection, address);
                peer.may_apply = listen.applications || address.ip().is_loopback();
                self.add_peer(peer);
            }
        }
    }

    fn add_peer(&mut self, peer: Peer) {
        self.peers.insert(self.next_peer, peer);
        self.next_peer += 1;
    }

    fn dial(&mut self, now: Time) {
        for n in 0..self.dials.len() {
            let Dial { number, address, next_at, is_plain, .. } = self.dials[n];
            let is_there = |peer: &Peer| peer.dialled == Some(number) || peer.role == Role::Neighbour(number);
            if next_at > now || self.peers.values().any(is_there) {
                continue;
            }
            // The connection after this one has an announcement again: the end may have been an accident.
            self.dials[n].is_plain = false;
            match Link::connect(address) {
                Ok(link) => {
                    let neighbour = self.file.neighbour(number);
                    let security = self.security.with_policy(neighbour.and_then(|neighbour| neighbour.tls));
                    let name = neighbour.and_then(|neighbour| neighbour.name.as_deref());
                    let is_reactive = neighbour.is_some_and(|neighbour| neighbour.reactive) && !is_plain;
                    let config = self.session_config(is_reactive);
                    let secure = security.active(name, address.ip());
                    let connection = SessionLink::new(config, security.policy(), link, secure, now);
                    let mut peer = Peer::new(connection, address);
                    peer.dialled = Some(number);
                    self.add_peer(peer);
                }
                Err(error) => {
                    self.dials[n].fail(now);
                    self.complain(number, &format!("{address}: {error}"), now);
                }
            }
        }
    }

    fn handle_events(&mut self, id: u64, now: Time) {
        while let Some(event) = self.peers.get_mut(&id).and_then(|peer| peer.connection.session.poll_event())
        {
            self.handle(id, event, now);
        }
    }

    fn handle(&mut self, id: u64, event: Event, now: Time) {
        match event {
            Event::Established(node) => self.establish(id, &node, now),
            Event::Received(bytes) => {
                let peer = self.peers.get(&id).map(|peer| (peer.role, self.share_of(peer)));
                let verdict = match peer {
                    Some((Role::Neighbour(number) | Role::Guest(number), share)) => {
                        self.take_whole(id, &bytes, (number, share), now)
                    }
                    Some((Role::Application(_), share)) => {
                        let arrival = Arrival::Refusable;
                        self.take(&bytes, Origin { from: self.own, is_own: true, share, arrival }, now)
                    }
                    // A peer that was refused may have sent a bundle before it could know.
                    Some((Role::Unknown, _)) | None => Err(refusal::NOT_ACCEPTABLE),
                };
                let verdict = verdict.map_or_else(Verdict::Decline, |()| Verdict::Accept);
                self.peers.get_mut(&id).into_iter().for_each(|peer| peer.verdicts.push(verdict));
            }
            Event::Cut(bytes) => self.take_part(id, &bytes, now),
            Event::Sent(transfer) => self.finish(id, transfer, true, now),
            Event::Failed(transfer, kept) => self.fail(id, transfer, kept, now),
            // Sending again would be refused again.
            Event::Refused(transfer, refusal::COMPLETED | refusal::NOT_ACCEPTABLE) => {
                self.finish(id, transfer, true, now);
            }
            Event::Refused(transfer, _) => {
                let pause = now + PAUSE;
                if let Some(peer) = self.peers.get_mut(&id) {
                    peer.paused_until = pause;
                    if let Role::Neighbour(number) = peer.role {
                        self.complain(number, "it has no room for bundles", now);
                    }
                }
                self.finish(id, transfer, false, now);
            }
            Event::Ended => self.leave(id, now),
        }
    }

    fn finish(&mut self, id: u64, transfer: u64, is_sent: bool, now: Time) {
        match self.peers.get_mut(&id).and_then(|peer| peer.take(transfer)) {
            Some(Item::Waiting(bundle, ..)) => self.node.done(bundle, is_sent, now),
            Some(Item::Local(bundle, _)) if is_sent => {
                self.counters.delivered += 1;
                if let Some((taken, share)) = self.mailboxes.take(bundle) {
                    self.node.note_delivery_for((&taken, share), now);
                }
                self.journal.remove(Slot::Local(bundle));
            }
            Some(Item::Local(bundle, _)) => self.mailboxes.put_back(bundle),
            None => {}
        }
    }

    /// Removes a peer whose session has ended.
    fn leave(&mut self, id: u64, now: Time) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        // The last words of the session, such as SESS_TERM.
        let _ = peer.connection.write(now);
        for dial in self.dials.iter_mut().filter(|dial| peer.dialled == Some(dial.number)) {
            dial.fail(now);
            if peer.connection.session.is_unanswered() {
                dial.speak_plainly();
            }
        }
        let why = peer.failure.take().map_or(String::new(), |failure| format!(": {failure}"));
        match peer.role {
            Role::Neighbour(number) => {
                let line = format!("neighbour {} disconnected{why}", self.name_of(number));
                self.say_of(peer.address, line, now);
                if self.file.neighbour(number).is_none() {
                    // At once if another way was found for its bundles.
                    let wait = if self.doubt(&peer, number).is_none() { AWAY } else { Span::ZERO };
                    self.away.insert(number, now + wait);
                    if wait.is_zero() {
                        self.part_with_absent(now);
                    }
                }
            }
            Role::Application(service) => {
                self.say_of(peer.address, format!("application at service {service} left"), now);
            }
            Role::Guest(number) => {
                let line = format!("{} as {} disconnected{why}", peer.address, self.name_of(number));
                self.say_of(peer.address, line, now);
            }
            Role::Unknown if peer.dialled.is_none() || peer.connection.concerns_tls() => {
                self.say_of(peer.address, format!("{}: no session{why}", peer.address), now);
            }
            Role::Unknown => {
                let number = peer.dialled.unwrap_or(0);
                self.complain(number, &format!("{}: no session{why}", peer.address), now);
            }
        }
    }

    fn sweep(&mut self, now: Time) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        let today = dtn_time();
        self.journal.expire(today);
        self.part_with_absent(now);
        self.note_forgotten(now);
        self.publish();
        self.measure_disk();
        let over = self.mailboxes.expire(today);
        over.into_iter().for_each(|id| self.journal.remove(Slot::Local(id)));
    }

    /// Removes unlisted nodes that have not come back.
    fn part_with_absent(&mut self, now: Time) {
        let over: Vec<u64> =
            self.away.iter().filter(|(_, until)| **until <= now).map(|(number, _)| *number).collect();
        for number in over {
            self.away.remove(&number);
            let is_there = self.peers.values().any(|peer| peer.role == Role::Neighbour(number));
            if !is_there && self.file.neighbour(number).is_none() {
                self.node.remove_direct(number, now);
            }
        }
    }

    /// Logs that identities were forgotten for others.
    ///
    /// Bundles that come again are taken then.
    fn note_forgotten(&mut self, now: Time) {
        let forgotten = self.journal.take_forgotten() + self.node.take_forgotten();
        if forgotten > 0 {
            self.rare.say(
                "forgotten",
                format!("{forgotten} identities of bundles were forgotten early, the oldest of the hosts with the most"),
                now,
            );
        }
    }

    /// Routes bundles again when a contact begins or ends.
    fn follow_plan(&mut self, now: Time) {
        let Some(schedule) = &mut self.schedule else { return };
        let before = schedule.done;
        while schedule.changes.get(schedule.done).is_some_and(|change| *change <= now) {
            schedule.done += 1;
        }
        let is_over = schedule.done == schedule.changes.len();
        if schedule.done > before {
            self.node.reroute(now);
            if is_over {
                let waiting = self.node.stored().0;
                self.log.push(format!(
                    "the contact plan has no more contacts of this node; {waiting} bundles wait"
                ));
            }
        }
    }

    /// Sends bundles to neighbours and applications.
    fn feed(&mut self, now: Time) {
        let (node, mailboxes) = (&mut self.node, &mut self.mailboxes);
        for peer in self.peers.values_mut() {
            while peer.has_room(now) {
                let is_fed = match peer.role {
                    Role::Neighbour(number) => {
                        let is_open = opening(&self.schedule, &self.file, number, now).is_some();
                        is_open && feed_neighbour(peer, number, node, now)
                    }
                    Role::Application(service) => feed_application(peer, service, mailboxes),
                    Role::Guest(_) | Role::Unknown => false,
                };
                if !is_fed {
                    break;
                }
            }
        }
        for output in &mut self.outputs {
            if opening(&self.schedule, &self.file, output.dial.number, now).is_some() {
                output.transmit(node, now);
            } else {
                output.rest();
            }
        }
        let opening = |number: u64| opening(&self.schedule, &self.file, number, now);
        self.radio.transmit(node, now, &opening);
    }

    fn write(&mut self, now: Time) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            if let Err(problem) = peer.connection.write(now) {
                peer.failure = Some(problem);
                peer.connection.session.disconnect();
            }
            self.end_unread(id, now);
            self.handle_events(id, now);
        }
    }
}

fn feed_neighbour(peer: &mut Peer, number: u64, node: &mut Node, now: Time) -> bool {
    let limits = Limits { len: peer.connection.session.transfer_limit(), fragments: MAX_FRAGMENTS };
    let Some((id, bundle)) = node.poll_transmit_within(number, limits, now) else { return false };
    let start = bundle.payload_start();
    let is_sent = peer.send(bundle.to_vec(), |len| Item::Waiting(id, len, start));
    if !is_sent {
        peer.paused_until = now + PAUSE;
        node.done(id, false, now);
    }
    is_sent
}

fn feed_application(peer: &mut Peer, service: u32, mailboxes: &mut Mailboxes) -> bool {
    let limit = peer.connection.session.transfer_limit();
    let Some((id, bundle)) = mailboxes.next(service, limit) else { return false };
    let bytes = bundle.to_vec();
    let is_sent = peer.send(bytes, |len| Item::Local(id, len));
    if !is_sent {
        mailboxes.put_back(id);
    }
    is_sent
}

fn layer_name(layer: NodeLayer) -> &'static str {
    match layer {
        NodeLayer::Tcpcl => "TCPCL",
        NodeLayer::Mtcp => "MTCP",
        NodeLayer::Udp => "UDP",
        NodeLayer::Ltp => "LTP",
    }
}
