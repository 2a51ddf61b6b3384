//! Session of the TCP convergence layer version 4 (RFC 9174), without I/O.
//!
//! Models contact, initialisation, transfers in segments up to the peer's limits, acknowledgements, refusals, keepalives,
//! rejections and an orderly end. Bytes go in by [`Session::handle_bytes`] and come out by [`Session::poll_output`].
//! TLS is the caller's: the session agrees on it, and waits at [`Session::wants_tls`] until [`Session::start_in_tls`].
//!
//! Of a transfer that is cut both ends may keep what was acknowledged: see [`Config::parts`].
//!
//! Memory is bounded by the limits of segments and transfers that this node announces.

use std::collections::VecDeque;
use std::fmt;

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::tcpcl::{
    self, CAN_TLS, CONTACT, CONTACT_LEN, Extension, KEEPS_PARTS, Message, Read, SegmentFlags, SessionInit,
    TRANSFER_LENGTH, parse_contact, refusal, rejection, termination,
};

mod parts;
pub use parts::LEAST_PART;
use parts::Unaccepted;

/// Settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Endpoint identifier of this node.
    pub node: String,
    /// Interval of keepalives in seconds; 0 for none.
    pub keepalive: u16,
    /// Longest segment that it accepts, in bytes.
    pub segment_mru: u64,
    /// Longest bundle that it accepts, in bytes.
    pub transfer_mru: u64,
    /// Time that contact and initialisation may take.
    pub handshake: Span,
    /// Use of TLS.
    pub tls: Tls,
    /// Set if the caller acknowledges each bundle by [`Session::accept`] or [`Session::decline`].
    pub is_deferred: bool,
    /// Least length of a part that is kept of a cut transfer. Default: `None`, no part.
    ///
    /// It is announced by the extension [`KEEPS_PARTS`], and matters if the peer announces it too. The caller then acknowledges
    /// by [`Session::acknowledge`], and is to be deferred.
    pub parts: Option<u64>,
    /// Set if the peer made the connection.
    ///
    /// With [`Config::parts`] such a session waits for SESS_INIT, and announces nothing that the peer did not announce.
    pub is_passive: bool,
}

/// Use of TLS (RFC 9174, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not offered.
    #[default]
    Off,
    /// Used if the peer offers it too.
    Offered,
    /// Required of the peer.
    Required,
}

impl Config {
    /// Creates the settings of a node, with defaults elsewhere.
    pub fn new(node: impl Into<String>) -> Config {
        let (segment_mru, transfer_mru) = (1 << 20, 1 << 30);
        Config {
            node: node.into(),
            keepalive: 60,
            segment_mru,
            transfer_mru,
            handshake: Span::from_secs(30),
            tls: Tls::Off,
            is_deferred: false,
            parts: None,
            is_passive: false,
        }
    }
}

/// Event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session is established with the node of this identifier.
    Established(String),
    /// A bundle has arrived; it is acknowledged unless that is deferred.
    Received(Vec<u8>),
    /// A bundle of [`Session::send`] has been acknowledged whole.
    Sent(u64),
    /// A bundle has been refused, with the reason.
    Refused(u64, u8),
    /// First bytes of a bundle whose transfer was cut by the end of the session.
    Cut(Vec<u8>),
    /// A bundle is not known to have arrived when the session ended.
    ///
    /// The peer keeps its first bytes, as many as the second number says.
    Failed(u64, u64),
    /// The session has ended: the connection is to be closed.
    Ended,
}

/// Reason for which a peer is refused before the session is established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer offers no TLS, which is required.
    NoTls,
    /// The peer's certificate does not name the node of this identifier.
    Impostor(String),
    /// The peer speaks another version of the protocol.
    Version(u8),
    /// The peer's identifier is longer than [`LONGEST_NODE`]: its length.
    LongName(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoTls => f.write_str("TLS is required, and the peer offers none"),
            Refusal::Version(version) => {
                write!(f, "the peer speaks version {version} of TCPCL, expected version {}", CONTACT[4])
            }
            Refusal::Impostor(node) => write!(f, "certificate of the peer does not name {node:?}"),
            Refusal::LongName(len) => {
                write!(f, "the peer's identifier has {len} B, expected {LONGEST_NODE} B at most")
            }
        }
    }
}

/// Stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Contact,
    /// TLS is agreed on and not yet established.
    Tls,
    Init,
    Established,
    /// SESS_TERM has been sent.
    Ending,
    Ended,
}

/// Limits of the peer.
#[derive(Clone, Copy, Debug)]
struct PeerLimits {
    segment: u64,
    transfer: u64,
}

/// Bundle on its way out.
#[derive(Debug)]
struct Outgoing {
    transfer: u64,
    data: Vec<u8>,
    sent: usize,
    acknowledged: u64,
    /// Set once refused before it began: it is not sent.
    is_over: bool,
    /// Set once refused while it was sent: it is cut short, and not acknowledged.
    is_refused: bool,
}

/// Bundle sent whole that is not acknowledged whole.
#[derive(Debug)]
struct Sent {
    transfer: u64,
    len: u64,
    acknowledged: u64,
}

/// Bundle on its way in.
#[derive(Debug)]
struct Incoming {
    transfer: u64,
    data: Vec<u8>,
    /// Set if it is refused, so that the rest is dropped.
    is_refused: bool,
}

/// Session over one connection.
#[derive(Debug)]
pub struct Session {
    config: Config,
    stage: Stage,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<Event>,
    peer: PeerLimits,
    keepalive: Span,
    next_transfer: u64,
    outgoing: VecDeque<Outgoing>,
    unacknowledged: VecDeque<Sent>,
    incoming: Option<Incoming>,
    /// Segments that the caller has not acknowledged.
    unaccepted: VecDeque<Unaccepted>,
    /// Ends of bundles among them.
    unaccepted_ends: usize,
    /// Least length of a part that the peer keeps, if both ends keep parts.
    parts: Option<u64>,
    /// Set if parts are not to be kept after all.
    is_whole: bool,
    /// Set once a message other than SESS_INIT has arrived.
    has_spoken: bool,
    /// Set if the peer has ended the session without a message after an announcement.
    is_unanswered: bool,
    last_sent: Time,
    last_received: Time,
    /// Messages that arrived at a stage which forbids them.
    violations: u32,
    /// Reason of the end that is to come when all bundles are acknowledged.
    end_reason: Option<u8>,
    /// Set once the peer's SESS_TERM has arrived.
    is_answered: bool,
    /// Nodes that the peer's certificate names, if it is to be one of them.
    certified: Option<Vec<Eid>>,
    refusal: Option<Refusal>,
}

/// Maximum number of bytes that wait for the connection before another segment is made.
const OUTPUT: usize = 1 << 16;
/// Maximum length of a segment if parts are kept.
///
/// A cut transfer loses one segment, and what is on its way.
const PART_SEGMENT: usize = 1 << 13;
/// Maximum number of bytes set aside for a bundle of announced length.
const RESERVE: u64 = 1 << 20;
/// Longest identifier of a peer in bytes.
///
/// RFC 9174 has no limit below that of its field, 65,535. A peer's identifier is kept longer than its session.
pub const LONGEST_NODE: usize = 1024;
/// Length of an acknowledgement in bytes.
const ACK: usize = 18;
/// Forbidden messages that are rejected before the session is ended.
const MAX_VIOLATIONS: u32 = 10;

impl Session {
    /// Creates a session whose connection has just been made; both sides begin alike.
    pub fn new(config: Config, now: Time) -> Session {
        let mut output = CONTACT.to_vec();
        output.push(if config.tls == Tls::Off { 0 } else { CAN_TLS });
        Session {
            config,
            stage: Stage::Contact,
            input: Vec::new(),
            output,
            events: VecDeque::new(),
            peer: PeerLimits { segment: 0, transfer: 0 },
            keepalive: Span::ZERO,
            next_transfer: 0,
            outgoing: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            incoming: None,
            unaccepted: VecDeque::new(),
            unaccepted_ends: 0,
            parts: None,
            is_whole: false,
            has_spoken: false,
            is_unanswered: false,
            last_sent: now,
            last_received: now,
            violations: 0,
            end_reason: None,
            is_answered: false,
            certified: None,
            refusal: None,
        }
    }

    /// Returns `true` if bundles can be sent.
    pub fn is_established(&self) -> bool {
        self.stage == Stage::Established
    }

    /// Returns `true` if TLS is to be established, once the output is written.
    pub fn wants_tls(&self) -> bool {
        self.stage == Stage::Tls
    }

    /// Removes and returns bytes that arrived after the contact header: they belong to TLS.
    pub fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Notes that TLS is established: from here on bytes are those inside.
    ///
    /// With `certified`, a peer that is at none of these nodes is refused (RFC 9174, section 4.4.4.3).
    pub fn start_in_tls(&mut self, certified: Option<Vec<Eid>>) {
        if self.wants_tls() {
            self.certified = certified;
            self.initialise();
        }
    }

    /// Notes that TLS is established with a peer that is not to be talked to.
    pub fn refuse_in_tls(&mut self) {
        if self.wants_tls() {
            self.put(&Message::Terminate { is_reply: false, reason: termination::CONTACT_FAILURE });
            self.stop();
        }
    }

    /// Returns the reason for which the peer was refused, if it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Returns `true` if the session has ended.
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Returns the number of bundles that are not acknowledged.
    pub fn pending(&self) -> usize {
        self.outgoing.len() + self.unacknowledged.len()
    }

    /// Returns `true` if a bundle of [`Session::send`] has not left whole.
    pub fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns the length of the longest bundle that the peer accepts.
    pub fn transfer_limit(&self) -> u64 {
        self.peer.transfer
    }

    /// Returns the bytes of incomplete messages and bundles in memory.
    pub fn buffered(&self) -> usize {
        let withheld = self.unaccepted.len() * size_of::<Unaccepted>();
        self.input.len() + withheld + self.incoming.as_ref().map_or(0, |incoming| incoming.data.len())
    }

    /// Returns the bytes of answers to the peer that wait.
    ///
    /// They are those made, and those of bundles that the caller has not accepted yet. More input makes more of them. So a caller reads no more while there are many, and a peer that reads nothing costs no memory.
    pub fn unanswered(&self) -> usize {
        self.output.len() + self.unaccepted_ends * ACK
    }

    /// Sends a bundle and returns the number of its transfer.
    ///
    /// `None` if the peer does not accept its length.
    pub fn send(&mut self, data: Vec<u8>) -> Option<u64> {
        let is_open = self.is_established() && self.end_reason.is_none();
        if !is_open || data.len() as u64 > self.peer.transfer || data.is_empty() {
            return None;
        }
        let transfer = self.next_transfer;
        self.next_transfer += 1;
        let out = Outgoing { transfer, data, sent: 0, acknowledged: 0, is_over: false, is_refused: false };
        self.outgoing.push_back(out);
        Some(transfer)
    }

    /// Ends the session once all bundles are acknowledged or refused. No other bundle is sent after this.
    pub fn end(&mut self, reason: u8) {
        self.end_reason.get_or_insert(reason);
        self.end_if_drained();
    }

    /// Sends SESS_TERM if the end is wanted and no bundle is on its way.
    fn end_if_drained(&mut self) {
        let is_open = matches!(self.stage, Stage::Established | Stage::Init);
        if let Some(reason) = self.end_reason.filter(|_| is_open && self.pending() == 0) {
            self.put(&Message::Terminate { is_reply: false, reason });
            self.stage = Stage::Ending;
        }
        self.end_if_idle();
    }

    /// Notes that the connection is gone.
    pub fn disconnect(&mut self) {
        self.stop();
    }

    /// Removes and returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Removes and returns bytes for the connection; empty if there are none.
    pub fn poll_output(&mut self, now: Time) -> Vec<u8> {
        while self.output.len() < OUTPUT && self.put_segment() {}
        self.end_if_drained();
        if !self.output.is_empty() {
            self.last_sent = now;
        }
        std::mem::take(&mut self.output)
    }

    fn put(&mut self, message: &Message<'_>) {
        message.emit(&mut self.output);
    }

    /// Returns `true` if there was a segment to append.
    fn put_segment(&mut self) -> bool {
        if !matches!(self.stage, Stage::Established | Stage::Ending) {
            return false;
        }
        let Some(out) = self.outgoing.front_mut() else { return false };
        if out.is_over {
            self.outgoing.pop_front();
            return true;
        }
        let left = out.data.len() - out.sent;
        let most = if self.parts.is_some() { PART_SEGMENT } else { OUTPUT };
        let len = left.min(usize::try_from(self.peer.segment).unwrap_or(usize::MAX)).min(most);
        let (is_start, is_end) = (out.sent == 0, len == left);
        let flags = SegmentFlags(u8::from(is_end) | u8::from(is_start) << 1);
        let mut extensions = Vec::new();
        if is_start && !is_end {
            let value = (out.data.len() as u64).to_be_bytes();
            Extension { is_critical: false, code: TRANSFER_LENGTH, value: &value }.put(&mut extensions);
        }
        let data = &out.data[out.sent..out.sent + len];
        tcpcl::put_segment_head(&mut self.output, flags, out.transfer, &extensions, len as u64);
        self.output.extend(data);
        out.sent += len;
        if is_end
            && let Some(out) = self.outgoing.pop_front()
            && !out.is_refused
        {
            let Outgoing { transfer, acknowledged, .. } = out;
            self.unacknowledged.push_back(Sent { transfer, len: out.data.len() as u64, acknowledged });
        }
        true
    }

    /// Handles bytes of the connection.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time) {
        if self.stage == Stage::Ended {
            return;
        }
        self.last_received = now;
        let mut input = std::mem::take(&mut self.input);
        input.extend(bytes);
        let mut at = 0;
        while self.stage != Stage::Ended {
            match self.handle_front(&input[at..]) {
                Some(len) => at += len,
                None => break,
            }
        }
        input.drain(..at);
        self.input = input;
    }

    /// Handles the front of the input and returns its length, if it is whole.
    fn handle_front(&mut self, input: &[u8]) -> Option<usize> {
        match self.stage {
            Stage::Contact => return self.handle_contact(input),
            Stage::Tls => return None,
            _ => {}
        }
        match Message::parse(input, self.config.segment_mru) {
            Ok(Read::Whole(message, len)) => {
                self.handle_message(&message);
                Some(len)
            }
            Ok(Read::Incomplete(_)) => None,
            Err(_) => {
                // The length of what is not understood is unknown, so nothing after it can be read.
                self.put(&Message::Reject {
                    reason: rejection::UNKNOWN,
                    header: input.first().copied().unwrap_or(0),
                });
                self.stop();
                None
            }
        }
    }

    fn handle_contact(&mut self, input: &[u8]) -> Option<usize> {
        match parse_contact(input) {
            Ok(None) => None,
            Ok(Some((version, flags))) if version == CONTACT[4] => {
                let is_offered = flags & CAN_TLS != 0;
                match self.config.tls {
                    Tls::Offered | Tls::Required if is_offered => self.stage = Stage::Tls,
                    Tls::Required => {
                        let reason = termination::CONTACT_FAILURE;
                        self.refusal = Some(Refusal::NoTls);
                        self.put(&Message::Terminate { is_reply: false, reason });
                        self.stop();
                        return None;
                    }
                    _ => self.initialise(),
                }
                Some(CONTACT_LEN)
            }
            Ok(Some((version, _))) => {
                self.refusal = Some(Refusal::Version(version));
                self.put(&Message::Terminate { is_reply: false, reason: termination::VERSION });
                self.stop();
                None
            }
            Err(_) => {
                self.stop();
                None
            }
        }
    }

    /// Sends SESS_INIT, unless that of the peer has to be there first.
    fn initialise(&mut self) {
        self.stage = Stage::Init;
        if !self.waits_for_init() {
            self.put_init();
        }
    }

    fn put_init(&mut self) {
        let Config { node, keepalive, segment_mru, transfer_mru, .. } = self.config.clone();
        let extensions = &self.announcement();
        self.put(&Message::Init(SessionInit {
            keepalive,
            segment_mru,
            transfer_mru,
            node: &node,
            extensions,
        }));
    }

    fn handle_message(&mut self, message: &Message<'_>) {
        self.has_spoken |= !matches!(message, Message::Init(_));
        match (message, self.stage) {
            (Message::Init(init), Stage::Init) => self.handle_init(init),
            (Message::Terminate { .. }, _) => self.handle_terminate(),
            (Message::Keepalive, _) => {}
            (Message::Reject { .. }, _) => self.violate(),
            (Message::Segment { flags, transfer, extensions, data }, Stage::Established | Stage::Ending) => {
                self.handle_segment(*flags, *transfer, extensions, data);
            }
            (Message::Ack { transfer, len, .. }, Stage::Established | Stage::Ending) => {
                self.handle_ack(*transfer, *len)
            }
            (Message::Refuse { reason, transfer }, Stage::Established | Stage::Ending) => {
                self.handle_refuse(*transfer, *reason);
            }
            _ => self.reject(message),
        }
    }

    fn reject(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        self.put(&Message::Reject { reason: rejection::UNEXPECTED, header: bytes[0] });
        self.violate();
    }

    /// Ends the session of a peer that keeps to no rule.
    fn violate(&mut self) {
        self.violations += 1;
        if self.violations >= MAX_VIOLATIONS {
            self.stop();
        }
    }

    fn handle_init(&mut self, init: &SessionInit<'_>) {
        let items = Extension::parse_all(init.extensions).unwrap_or_default();
        if init.node.len() > LONGEST_NODE {
            self.refusal = Some(Refusal::LongName(init.node.len()));
            self.put(&Message::Terminate { is_reply: false, reason: termination::CONTACT_FAILURE });
            return self.stop();
        }
        let is_refused = items.iter().any(|item| item.is_critical && item.code != KEEPS_PARTS);
        if is_refused || init.segment_mru == 0 || init.transfer_mru == 0 {
            self.put(&Message::Terminate { is_reply: false, reason: termination::CONTACT_FAILURE });
            return self.stop();
        }
        let is_certified = |nodes: &Vec<Eid>| {
            let peer = init.node.parse::<Eid>();
            peer.is_ok_and(|peer| nodes.iter().any(|node| peer.is_at(node)))
        };
        if !self.certified.as_ref().is_none_or(is_certified) {
            self.refusal = Some(Refusal::Impostor(init.node.to_owned()));
            self.put(&Message::Terminate { is_reply: false, reason: termination::CONTACT_FAILURE });
            return self.stop();
        }
        self.agree_on_parts(&items);
        if self.waits_for_init() {
            self.put_init();
        }
        self.peer = PeerLimits { segment: init.segment_mru, transfer: init.transfer_mru };
        self.keepalive = Span::from_secs(init.keepalive.min(self.config.keepalive).into());
        self.stage = Stage::Established;
        self.events.push_back(Event::Established(init.node.to_owned()));
    }

    fn handle_segment(&mut self, flags: SegmentFlags, transfer: u64, extensions: &[u8], data: &[u8]) {
        let is_expected = match &self.incoming {
            Some(incoming) => !flags.is_start() && incoming.transfer == transfer,
            None => flags.is_start(),
        };
        // An empty segment that begins and ends nothing has no use, and each would have an acknowledgement.
        let is_idle = data.is_empty() && !flags.is_start() && !flags.is_end();
        if !is_expected || is_idle {
            self.put(&Message::Reject { reason: rejection::UNEXPECTED, header: 1 });
            return self.violate();
        }
        if flags.is_start() {
            self.begin(transfer, extensions);
        }
        let limit = self.config.transfer_mru;
        let Some(incoming) = &mut self.incoming else { return };
        if !incoming.is_refused && (incoming.data.len() + data.len()) as u64 > limit {
            self.refuse(transfer, refusal::NO_RESOURCES);
        }
        self.take(flags, transfer, data);
    }

    /// Begins a transfer, or refuses it by its announced length.
    fn begin(&mut self, transfer: u64, extensions: &[u8]) {
        self.incoming = Some(Incoming { transfer, data: Vec::new(), is_refused: false });
        let Ok(items) = Extension::parse_all(extensions) else {
            return self.refuse(transfer, refusal::EXTENSION);
        };
        if items.iter().any(|item| item.is_critical && item.code != TRANSFER_LENGTH) {
            return self.refuse(transfer, refusal::EXTENSION);
        }
        let announced = items.iter().find(|item| item.code == TRANSFER_LENGTH);
        let len = announced.and_then(|item| item.value.try_into().ok().map(u64::from_be_bytes));
        if let (Some(len), Some(incoming)) = (len, &mut self.incoming) {
            incoming.data.reserve(len.min(RESERVE) as usize);
        }
        if len.is_some_and(|len| len > self.config.transfer_mru) {
            self.refuse(transfer, refusal::NO_RESOURCES);
        } else if self.stage == Stage::Ending {
            self.refuse(transfer, refusal::TERMINATING);
        }
    }

    fn refuse(&mut self, transfer: u64, reason: u8) {
        self.put(&Message::Refuse { reason, transfer });
        if let Some(incoming) = &mut self.incoming {
            incoming.is_refused = true;
            incoming.data = Vec::new();
        }
        self.unaccepted.retain(|waiting| waiting.transfer != transfer || waiting.flags.is_end());
    }

    /// Adds a segment's data and acknowledges it.
    fn take(&mut self, flags: SegmentFlags, transfer: u64, data: &[u8]) {
        let Some(incoming) = &mut self.incoming else { return };
        if !incoming.is_refused {
            incoming.data.extend(data);
            let len = incoming.data.len() as u64;
            if self.config.is_deferred && (flags.is_end() || self.parts.is_some()) {
                self.unaccepted_ends += usize::from(flags.is_end());
                self.unaccepted.push_back(Unaccepted { flags, transfer, len });
            } else {
                self.put(&Message::Ack { flags, transfer, len });
            }
        }
        if flags.is_end()
            && let Some(incoming) = self.incoming.take()
        {
            if !incoming.is_refused {
                self.events.push_back(Event::Received(incoming.data));
            }
            self.end_if_idle();
        }
    }

    /// Handles an acknowledgement. Flags are ignored, since some peers leave them 0.
    fn handle_ack(&mut self, transfer: u64, len: u64) {
        let Some(first) = self.unacknowledged.front_mut() else {
            let mut out = self.outgoing.iter_mut().take(1).filter(|out| out.transfer == transfer);
            if let Some(out) = out.next().filter(|out| len <= out.sent as u64) {
                out.acknowledged = out.acknowledged.max(len);
            }
            return;
        };
        if first.transfer != transfer {
            return;
        }
        if len == first.len {
            self.unacknowledged.pop_front();
            self.events.push_back(Event::Sent(transfer));
            self.end_if_drained();
        } else if len < first.len {
            first.acknowledged = first.acknowledged.max(len);
        }
    }

    fn handle_refuse(&mut self, transfer: u64, reason: u8) {
        let waiting = self.unacknowledged.iter().position(|sent| sent.transfer == transfer);
        let unsent =
            self.outgoing.iter_mut().find(|out| out.transfer == transfer && !out.is_over && !out.is_refused);
        if let Some(out) = unsent {
            // Segments of it may not just stop: the receiver drops them until it ends.
            if out.sent == 0 {
                out.is_over = true;
            } else {
                out.is_refused = true;
                out.data.truncate((out.sent + 1).min(out.data.len()));
            }
        } else if let Some(waiting) = waiting {
            self.unacknowledged.remove(waiting);
        } else {
            return;
        }
        self.events.push_back(Event::Refused(transfer, reason));
        self.end_if_drained();
    }

    /// Answers the peer's end. Bundles that have not begun are not sent any more (RFC 9174, section 6.1).
    fn handle_terminate(&mut self) {
        if matches!(self.stage, Stage::Established | Stage::Init) {
            self.put(&Message::Terminate { is_reply: true, reason: termination::UNKNOWN });
            self.stage = Stage::Ending;
            let waiting =
                self.outgoing.iter().filter(|out| out.sent == 0 && !out.is_over).map(|out| out.transfer);
            self.events.extend(waiting.map(|transfer| Event::Failed(transfer, 0)));
            self.outgoing.retain(|out| out.sent > 0);
        }
        self.is_answered = true;
        self.end_if_idle();
    }

    /// Ends an ending session that has no transfer left.
    fn end_if_idle(&mut self) {
        let is_idle = self.pending() == 0 && self.incoming.is_none() && self.unaccepted.is_empty();
        if self.stage == Stage::Ending && self.is_answered && is_idle {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if self.stage == Stage::Ended {
            return;
        }
        let has_announced = matches!(self.stage, Stage::Init | Stage::Established | Stage::Ending)
            && !self.announcement().is_empty();
        self.is_unanswered = has_announced && self.parts.is_none() && !self.has_spoken;
        self.stage = Stage::Ended;
        self.end_incoming();
        let outgoing = self.outgoing.drain(..).filter(|out| !out.is_over && !out.is_refused);
        let outgoing = outgoing.map(|out| (out.transfer, out.acknowledged));
        let sent = self.unacknowledged.drain(..).map(|sent| (sent.transfer, sent.acknowledged));
        let lost: Vec<(u64, u64)> = sent.chain(outgoing).collect();
        for (transfer, acknowledged) in lost {
            self.events.push_back(Event::Failed(transfer, self.kept(acknowledged)));
        }
        self.events.push_back(Event::Ended);
    }

    /// Returns the instant at which [`Session::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Time {
        match self.stage {
            Stage::Ended => Time::NEVER,
            Stage::Contact | Stage::Tls | Stage::Init => self.last_received + self.config.handshake,
            Stage::Ending if self.keepalive.is_zero() => self.last_received + self.config.handshake,
            _ if self.keepalive.is_zero() => Time::NEVER,
            _ => (self.last_sent + self.keepalive).min(self.last_received + self.keepalive * 2),
        }
    }

    /// Sends a keepalive, or ends a session whose peer is silent.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.next_timeout() > now {
            return;
        }
        let silence = match self.stage {
            Stage::Contact | Stage::Tls | Stage::Init => self.config.handshake,
            Stage::Ending if self.keepalive.is_zero() => self.config.handshake,
            _ => self.keepalive * 2,
        };
        if self.last_received + silence <= now {
            let reason = if self.is_established() { termination::IDLE } else { termination::CONTACT_FAILURE };
            self.put(&Message::Terminate { is_reply: false, reason });
            return self.stop();
        }
        self.put(&Message::Keepalive);
        self.last_sent = now;
    }
}

#[cfg(test)]
mod tests;
