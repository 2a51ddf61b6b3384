//! Engine of the Licklider Transmission Protocol (RFC 5326), without I/O.
//!
//! Models red and green data, checkpoints at the end of the red part and of each retransmission, reports split to fit
//! a segment, cancellation from both ends, and timers that stand still while the peer cannot be reached. A timer starts
//! when the link takes the segment: [`Engine::poll_transmit`] is to be called when it does.
//! Does not model checkpoints within the red part, authentication (RFC 5327), and asynchronous reports.
//!
//! All state is bounded: sessions of either side, length of blocks, claims, and the memory of closed sessions. So are answers:
//! addresses can be forged, and a session causes at most three times the bytes that came of it (`Credit`). A session that sends listens to
//! the engine of its receiver alone, and to reports that name one of its checkpoints. Each checkpoint has its data repeated once.

mod export;
mod few;
mod import;
mod pieces;
mod ranges;
mod timers;

use std::collections::{HashMap, HashSet, VecDeque};

use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::dtn::ltp::{BUNDLE_PROTOCOL, Content, Data, Reason, Report, Segment, SessionId};
use foldhash::quality::RandomState;

use export::Export;
use import::{Closed, Import};
use timers::Timers;

/// Closed sessions that are remembered, so that late segments do not open them again.
const MEMORY: usize = 4096;

/// Maximum number of answers that wait for a peer.
const MAX_CONTROL: usize = 100_000;

/// Settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of this engine.
    pub engine: u64,
    /// Longest segment in bytes, its header included.
    pub segment: usize,
    /// Transmissions of a checkpoint, report or cancellation before giving up.
    pub tries: u32,
    /// Maximum number of sessions that send.
    pub exports: usize,
    /// Maximum number of sessions that receive.
    pub imports: usize,
    /// Longest block that is received, in bytes.
    pub block: u64,
    /// Maximum number of bytes of all incomplete blocks that are received. Beyond it no block begins.
    ///
    /// Those that have begun may take as much again, so that they do not wait for each other.
    pub incomplete: u64,
    /// Seed of serial numbers, which begin at random.
    pub seed: u64,
    /// Number of the first session. Default: a random one.
    ///
    /// An engine that starts again must not use numbers that its peers remember.
    pub first_session: Option<u64>,
    /// First serial numbers are random ones up to this. Default: 16,000, at most 2^28 - 1.
    ///
    /// A report is believed that names the checkpoint of its session: the more there are, the harder it is to forge.
    pub serials: u64,
    /// Client service whose blocks are received. Those for others are cancelled. Default: that of bundles.
    pub service: u64,
}

impl Config {
    /// Creates settings of an engine with a number.
    pub fn new(engine: u64) -> Config {
        Config {
            engine,
            segment: 1400,
            tries: 10,
            exports: 1000,
            imports: 1000,
            block: 1 << 24,
            incomplete: 1 << 28,
            seed: engine,
            first_session: None,
            serials: 16_000,
            service: BUNDLE_PROTOCOL,
        }
    }
}

/// Engine at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peer {
    /// Light time, one way.
    pub light_time: Span,
    /// Time that segments wait at both ends, over which timers wait longer.
    pub margin: Span,
}

impl Peer {
    fn timeout(&self) -> Span {
        self.light_time + self.light_time + self.margin
    }
}

/// Event that the client of an engine is to handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A red part or a green block has arrived.
    Received {
        /// Session.
        session: SessionId,
        /// Client service.
        client: u64,
        /// Data.
        data: Vec<u8>,
        /// Set for a red part, which its sender keeps until it is acknowledged.
        is_red: bool,
    },
    /// The red data is acknowledged whole, or the green data sent.
    Sent(SessionId),
    /// A session that sends has ended without success.
    Failed(SessionId, Reason),
    /// The receiver has cancelled a session that sends.
    Refused(SessionId, Reason),
    /// A session that receives has been cancelled.
    Cancelled(SessionId, Reason),
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Data segments sent, repeated ones included.
    pub data_sent: u64,
    /// Data segments sent again.
    pub data_repeated: u64,
    /// Reports sent, repeated ones included.
    pub reports_sent: u64,
    /// Timers that expired.
    pub timeouts: u64,
    /// Segments of unknown or other engines, malformed, or beyond a limit.
    ///
    /// Reports that name none of the session's checkpoints are among them.
    pub refused: u64,
    /// Sessions that failed or were cancelled.
    pub failed: u64,
}

/// Timer of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// Checkpoint by its serial number.
    Checkpoint(SessionId, u64),
    /// Report by its serial number.
    Report(SessionId, u64),
    /// Cancellation of a session that sends.
    CancelExport(SessionId),
    /// Cancellation of a session that receives.
    CancelImport(SessionId),
    /// End of an incomplete block of which no more arrives.
    Idle(SessionId),
}

/// LTP engine.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    peers: HashMap<u64, Peer, RandomState>,
    exports: HashMap<SessionId, Export, RandomState>,
    imports: HashMap<SessionId, Import, RandomState>,
    /// Last report of closed sessions that received.
    closed: HashMap<SessionId, Closed, RandomState>,
    closed_order: VecDeque<SessionId>,
    /// Control segments and sessions with data, by peer.
    outgoing: HashMap<u64, Outgoing, RandomState>,
    /// Bytes of incomplete blocks.
    held: u64,
    timers: Timers<Timer>,
    events: VecDeque<Event>,
    counts: Counts,
    stream: RandomStream,
    next_session: u64,
}

/// Traffic that waits for a peer's link.
#[derive(Debug, Default)]
struct Outgoing {
    control: VecDeque<Control>,
    /// Content of `control`, so that a segment waits once.
    waiting: HashSet<Control, RandomState>,
    /// Sessions with data to send, in the order of their blocks.
    sessions: VecDeque<SessionId>,
}

/// Segment without data that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Control {
    Report(SessionId, u64),
    /// Report of a session that is closed already.
    LateReport(SessionId, Report),
    ReportAck(SessionId, u64),
    CancelExport(SessionId),
    CancelImport(SessionId),
    SenderCancelAck(SessionId),
    ReceiverCancelAck(SessionId),
}

/// Error returned when a block cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer is not known.
    #[error("unknown engine {0}")]
    UnknownPeer(u64),
    /// No session is free.
    #[error("all sessions are in use")]
    NoSession,
    /// The block has no data.
    #[error("empty block")]
    Empty,
}

impl Engine {
    /// Creates an engine.
    ///
    /// # Panics
    /// Panics if segments are too short for their header: under 64 bytes.
    pub fn new(config: Config) -> Engine {
        assert!(config.segment >= 64, "segments of at least 64 bytes");
        let mut stream = RandomStream::new(config.seed, "ltp");
        let random = 1 + (stream.unit() * 16_000.0) as u64;
        let next_session = config.first_session.unwrap_or(random);
        Engine {
            config,
            peers: HashMap::default(),
            exports: HashMap::default(),
            imports: HashMap::default(),
            closed: HashMap::default(),
            closed_order: VecDeque::new(),
            outgoing: HashMap::default(),
            held: 0,
            timers: Timers::new(),
            events: VecDeque::new(),
            counts: Counts::default(),
            stream,
            next_session,
        }
    }

    /// Adds or changes a peer.
    pub fn set_peer(&mut self, engine: u64, peer: Peer) {
        self.peers.insert(engine, peer);
    }

    /// Limits the length of segments further, as for a peer that is new.
    pub fn limit_segment(&mut self, len: usize) {
        self.config.segment = self.config.segment.min(len.max(64));
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of sessions that send and of those that receive.
    pub fn sessions(&self) -> (usize, usize) {
        (self.exports.len(), self.imports.len())
    }

    /// Returns the bytes of incomplete blocks.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Returns `true` if a block can be sent.
    pub fn has_session(&self) -> bool {
        self.exports.len() < self.config.exports
    }

    /// Starts the transmission of a block whose first `red` bytes are red.
    ///
    /// # Errors
    /// Returns an error if the peer is unknown, all sessions are in use, or the block is empty.
    pub fn send(&mut self, to: u64, client: u64, data: Vec<u8>, red: u64) -> Result<SessionId, SendError> {
        if !self.peers.contains_key(&to) {
            return Err(SendError::UnknownPeer(to));
        }
        if !self.has_session() {
            return Err(SendError::NoSession);
        }
        if data.is_empty() {
            return Err(SendError::Empty);
        }
        let session = SessionId { engine: self.config.engine, number: self.next_session };
        // Some engines keep 32 bits of a number.
        self.next_session = self.next_session % u64::from(u32::MAX) + 1;
        let serial = self.serial();
        self.exports.insert(session, Export::new(to, client, data, red, serial));
        self.outgoing.entry(to).or_default().sessions.push_back(session);
        Ok(session)
    }

    /// Cancels a session that sends.
    pub fn cancel(&mut self, session: SessionId, reason: Reason) {
        let Some(export) = self.exports.get_mut(&session) else { return };
        if export.cancel(reason) {
            let peer = export.peer;
            export
                .checkpoints
                .keys()
                .for_each(|serial| self.timers.stop(&Timer::Checkpoint(session, serial)));
            self.counts.failed += 1;
            self.events.push_back(Event::Failed(session, reason));
            self.push(peer, Control::CancelExport(session));
        }
    }

    /// Cancels a session whose block was received. Reports that wait for the link are not sent.
    ///
    /// To be called before the next [`Engine::poll_transmit`], for a block without room. The sender of green data does not keep it,
    /// and its session is over.
    pub fn refuse(&mut self, session: SessionId) {
        self.cancel_import(session, Reason::System);
    }

    /// Returns a random first serial number, not 0.
    fn serial(&mut self) -> u64 {
        1 + (self.stream.unit() * self.config.serials as f64) as u64
    }

    fn push(&mut self, peer: u64, control: Control) {
        let out = self.outgoing.entry(peer).or_default();
        // Reports and cancellations are bounded by sessions, and their timers begin when they are sent.
        let is_bounded =
            matches!(control, Control::Report(..) | Control::CancelExport(_) | Control::CancelImport(_));
        if out.control.len() >= MAX_CONTROL && !is_bounded {
            self.counts.refused += 1;
        } else if out.waiting.insert(control.clone()) {
            out.control.push_back(control);
        }
    }

    fn timeout(&self, peer: u64) -> Span {
        self.peers.get(&peer).map_or(Span::from_secs(1), Peer::timeout)
    }

    /// Suspends the timers of a peer that cannot be reached.
    pub fn suspend(&mut self, peer: u64, now: Time) {
        self.timers.suspend(peer, now);
    }

    /// Resumes the timers of a peer that can be reached again.
    pub fn resume(&mut self, peer: u64, now: Time) {
        self.timers.resume(peer, now);
    }

    /// Removes and returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the instant at which [`Engine::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Time {
        self.timers.next()
    }

    /// Returns `true` if a segment waits for a peer's link.
    pub fn has_segment(&self, peer: u64) -> bool {
        self.outgoing.get(&peer).is_some_and(|out| !out.control.is_empty() || !out.sessions.is_empty())
    }

    /// Removes and returns the next segment for a peer, whose link takes it now.
    pub fn poll_transmit(&mut self, peer: u64, now: Time) -> Option<Vec<u8>> {
        while let Some(control) = self.outgoing.get_mut(&peer)?.control.pop_front() {
            self.outgoing.get_mut(&peer)?.waiting.remove(&control);
            if let Some(segment) = self.control_segment(peer, &control, now) {
                return Some(segment);
            }
        }
        while let Some(session) = self.outgoing.get_mut(&peer)?.sessions.front().copied() {
            match self.data_segment(session, now) {
                Some(segment) => return Some(segment),
                None => self.outgoing.get_mut(&peer)?.sessions.pop_front(),
            };
        }
        None
    }

    fn control_segment(&mut self, peer: u64, control: &Control, now: Time) -> Option<Vec<u8>> {
        let after = self.timeout(peer);
        let (session, content) = match control {
            Control::Report(session, serial) => {
                let (report, is_paid) = self.imports.get_mut(session)?.send_report(*session, *serial)?;
                self.timers.start(Timer::Report(*session, *serial), peer, now, after);
                // Beyond the credit of its session it counts as lost.
                if !is_paid {
                    return None;
                }
                self.counts.reports_sent += 1;
                (*session, Content::Report(report))
            }
            Control::LateReport(session, report) => {
                self.counts.reports_sent += 1;
                (*session, Content::Report(report.clone()))
            }
            Control::ReportAck(session, serial) => (*session, Content::ReportAck(*serial)),
            Control::CancelExport(session) => {
                let reason = self.exports.get(session)?.cancelled?.0;
                self.timers.start(Timer::CancelExport(*session), peer, now, after);
                (*session, Content::CancelBySender(reason))
            }
            Control::CancelImport(session) => {
                let reason = self.imports.get(session)?.cancelled?.0;
                self.timers.start(Timer::CancelImport(*session), peer, now, after);
                let segment = Segment::new(*session, Content::CancelByReceiver(reason)).to_vec();
                return self.imports.get_mut(session)?.may_send(segment.len()).then_some(segment);
            }
            Control::SenderCancelAck(session) => (*session, Content::SenderCancelAck),
            Control::ReceiverCancelAck(session) => (*session, Content::ReceiverCancelAck),
        };
        Some(Segment::new(session, content).to_vec())
    }

    /// Returns the next data segment of a session; `None` if it has none.
    fn data_segment(&mut self, session: SessionId, now: Time) -> Option<Vec<u8>> {
        let export = self.exports.get_mut(&session)?;
        let (data, range) = export.next(self.config.segment, &session)?;
        let segment = Segment::new(session, Content::Data(data, &export.data[range.clone()])).to_vec();
        self.counts.data_sent += 1;
        self.counts.data_repeated += u64::from(!export.mark_sent(&range));
        let (peer, is_done) = (export.peer, export.is_done());
        if let Some((serial, _)) = data.checkpoint {
            let after = self.timeout(peer);
            self.timers.start(Timer::Checkpoint(session, serial), peer, now, after);
        }
        if is_done {
            self.finish_export(session);
        }
        Some(segment)
    }

    fn finish_export(&mut self, session: SessionId) {
        let Some(export) = self.exports.remove(&session) else { return };
        export.checkpoints.keys().for_each(|serial| self.timers.stop(&Timer::Checkpoint(session, serial)));
        if export.cancelled.is_none() {
            self.events.push_back(Event::Sent(session));
        }
    }

    /// Handles a segment that arrived from the engine `from`.
    pub fn handle_segment(&mut self, from: u64, bytes: &[u8], now: Time) {
        let Ok(segment) = Segment::parse(bytes) else {
            self.counts.refused += 1;
            return;
        };
        let session = segment.session;
        let is_own = session.engine == self.config.engine;
        let is_known = self.peers.contains_key(&from) && (is_own || session.engine == from);
        match (segment.content, is_own) {
            _ if !is_known => self.counts.refused += 1,
            (Content::Data(data, content), false) => {
                self.handle_data((session, bytes.len()), &data, content, now);
            }
            (Content::ReportAck(serial), false) => self.handle_report_ack(session, serial),
            (Content::CancelBySender(reason), false) => self.handle_sender_cancel(session, reason),
            (Content::ReceiverCancelAck, false) => self.forget_import(session),
            (Content::Report(report), true) => self.handle_report(from, session, &report),
            (Content::CancelByReceiver(reason), true) => self.handle_receiver_cancel(from, session, reason),
            (Content::SenderCancelAck, true) => self.handle_sender_cancel_ack(from, session),
            _ => self.counts.refused += 1,
        }
    }

    /// Handles all timers that have expired.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop(now) {
            self.counts.timeouts += 1;
            match timer {
                Timer::Checkpoint(session, serial) => self.checkpoint_expired(session, serial),
                Timer::Report(session, serial) => self.report_expired(session, serial),
                Timer::CancelExport(session) => self.cancel_export_expired(session),
                Timer::CancelImport(session) => self.cancel_import_expired(session),
                Timer::Idle(session) => self.idle_expired(session),
            }
        }
    }
}

/// Returns the limit of transmissions for a bit error ratio, by ION's rule.
///
/// A segment of `len` bytes then arrives with 1 - 10^-6. At least 3.
pub fn tries(ber: f64, len: usize) -> u32 {
    let survival = (8.0 * len as f64 * (-ber).ln_1p()).exp();
    let loss = (1.0 - survival).clamp(0.0, 0.99);
    let mut tries = 1;
    while tries < 10_000 && loss.powi(tries) > 1e-6 {
        tries += 1;
    }
    (tries as u32).max(3)
}

/// Returns the mean number of rounds of a block of `n` segments.
///
/// `p` is the probability that a segment is lost. The maximum of `n` geometric variables; reports arrive always.
pub fn mean_rounds(n: u32, p: f64) -> f64 {
    let mut sum = 0.0;
    let mut power = 1.0;
    loop {
        let term = 1.0 - (1.0f64 - power).powi(n as i32);
        sum += term;
        power *= p;
        if term < 1e-12 {
            return sum;
        }
    }
}

#[cfg(test)]
mod tests;
