//! Split connection: two connections back to back.

use std::net::SocketAddr;

use bentpipe_net::{Cx, Packet, Why};
use bentpipe_units::{Bytes, Span, Time};

use super::syn_cache::Entry;
use super::{Config, Ends, NODE, PepConfig, RESERVE, STALL, read};
use crate::tcp::connection::{Connection, Failure, State};
use crate::tcp::content::{Elided, elide};

/// Reason for the end of a split connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both directions ended.
    Finished,
    /// The server refused or did not answer.
    Refused,
    /// Failure of a side.
    Broken,
    /// No segment arrived for a time.
    Idle,
    /// Too little of what was held was delivered, and memory was needed.
    Stalled,
    /// The proxy crashed.
    Cut,
}

/// Most ranges of a stream that wait behind gaps. Each takes memory of its own.
const MAX_RANGES: usize = 1024;

/// Latest progress of a direction that holds content.
#[derive(Clone, Copy, Debug)]
struct Progress {
    at: Time,
    delivered: u64,
}

/// Two connections back to back, and the data between them.
pub(super) struct Split {
    client: Connection,
    server: Connection,
    /// SYN of the client that waits for the server's answer.
    syn: Option<Packet>,
    /// Deadline under which the proxy lists it.
    pub(super) listed_at: Time,
    /// Memory of the content that the proxy counts.
    pub(super) counted: usize,
    /// Set if the proxy counts it as half open.
    pub(super) is_counted_half_open: bool,
    /// Progress towards client and server.
    progress: [Progress; 2],
    /// Set if the client is at the other end of the satellite.
    is_behind: bool,
    is_broken: bool,
    idle: Option<Span>,
    active_at: Time,
    /// Time of the next look at `active_at`.
    idle_at: Time,
    /// Reason for which the proxy itself ended it.
    ended: Option<Ended>,
}

/// Returns the configuration of a side, with segments that fit its MTU.
fn fitted(config: &Config, mtu: Option<Bytes>, end: SocketAddr) -> Config {
    let headers = if end.is_ipv4() { 40 } else { 60 };
    let most = mtu.map_or(u64::MAX, |mtu| mtu.get().saturating_sub(headers).max(64));
    Config { mss: config.mss.min(Bytes::new(most)), ..config.clone() }
}

/// Returns the bytes that one connection has acknowledged and the other has not delivered.
fn held(from: &Connection, to: &Connection) -> u64 {
    from.tally.bytes_delivered.saturating_sub(to.sender.bytes_acked())
}

/// Returns `true` if the connection ended before its stream was acknowledged to the end.
fn is_failed(connection: &Connection) -> bool {
    let is_closed = connection.state() == State::Closed;
    connection.failure().is_some() || is_closed && !connection.sender.is_finished()
}

/// Delivers a segment to its connection, and its content to the other one.
///
/// Content is kept within `room` bytes of the first that was not delivered, so that the next bytes always have their place.
///
/// # Errors
/// Returns the reason for which the segment is dropped: it is damaged, or memory for it is lacking.
fn accept(
    from: &mut Connection,
    to: &mut Connection,
    packet: &Packet,
    room: u64,
    cx: &mut Cx<'_>,
) -> Result<(), Why> {
    let (elided, payload) = match elide(packet, !to.content.is_empty()) {
        Elided::Parts(elided, payload) => (elided, payload),
        Elided::Plain => return from.receive(packet, cx).then_some(()).ok_or(Why::Checksum),
        // It is lost, and not delivered as zeros.
        Elided::Unfit => return Err(Why::Malformed),
    };
    let (next, before) = (from.receiver.next(), from.tally.data_segments_received);
    let (at, una) = (from.peer_position(payload.seq), to.sender.board.una());
    if at.is_some_and(|at| at + payload.bytes.len() as u64 > una.max(1).saturating_add(room)) {
        return Err(Why::Queue);
    }
    // A hostile sender could send every second byte.
    if at.is_some_and(|at| at > next) && from.receiver.ranges() >= MAX_RANGES {
        return Err(Why::Queue);
    }
    from.receive(&elided, cx);
    elided.recycle();
    // Content of a segment that was not accepted would replace what was. That in front of RCV.NXT may have been sent.
    if from.tally.data_segments_received > before
        && let Some(at) = at
    {
        let known = next.saturating_sub(at).min(payload.bytes.len() as u64);
        to.content.trim(una);
        to.content.put(at + known, &payload.bytes[known as usize..]);
    }
    Ok(())
}

/// Moves received data to the other connection, as far as its buffer has room.
///
/// The end of the stream follows the last data.
fn relay(from: &mut Connection, to: &mut Connection) {
    let bytes = from.readable().min(to.writable());
    if bytes > 0 {
        from.read(bytes);
        to.write(bytes);
    }
    if from.is_read_out() && matches!(to.state(), State::Established | State::CloseWait) {
        to.close();
    }
}

/// Returns the settings of the connections of client and server.
fn sides(client: SocketAddr, config: &PepConfig, is_behind: bool) -> (Config, Config) {
    let satellite = fitted(&config.satellite, config.satellite_mtu, client);
    let ground = fitted(&config.ground, config.ground_mtu, client);
    if is_behind { (satellite, ground) } else { (ground, satellite) }
}

/// Answers a client's SYN without a connection, with a given initial sequence number.
pub(super) fn answer_alone(
    (client, server): Ends,
    config: &PepConfig,
    is_behind: bool,
    (syn, iss): (&Packet, u32),
    cx: &mut Cx<'_>,
) {
    let (near, _) = sides(client, config, is_behind);
    let mut connection = Connection::new(Config { initial_sequence: Some(iss), ..near }, server, NODE);
    connection.listen();
    connection.receive(syn, cx);
}

impl Split {
    fn new((client, server): Ends, near: Config, far: Config, is_behind: bool, now: Time) -> Split {
        Split {
            client: Connection::new(near, server, NODE),
            server: Connection::new(far, client, NODE),
            syn: None,
            listed_at: Time::NEVER,
            counted: 0,
            is_counted_half_open: false,
            progress: [Progress { at: now, delivered: 0 }; 2],
            is_behind,
            is_broken: false,
            idle: None,
            active_at: now,
            idle_at: Time::NEVER,
            ended: None,
        }
    }

    fn with_idle(mut self, idle: Option<Span>) -> Split {
        self.idle = idle;
        self.idle_at = idle.map_or(Time::NEVER, |idle| self.active_at + idle);
        self
    }

    /// Opens a connection to the server.
    ///
    /// The client's SYN is answered if it need not wait.
    pub(super) fn open(
        ends: Ends,
        config: &PepConfig,
        is_behind: bool,
        syn: Packet,
        cx: &mut Cx<'_>,
    ) -> Split {
        let (near, far) = sides(ends.0, config, is_behind);
        let mut split = Split::new(ends, near, far, is_behind, cx.now()).with_idle(config.idle);
        split.syn = Some(syn);
        split.client.listen();
        split.server.open(ends.1, cx);
        if config.answers_at_once
            && let Some(syn) = split.syn.take()
        {
            split.client.receive(&syn, cx);
            syn.recycle();
        }
        split
    }

    /// Opens a connection to the server, once the client has acknowledged an answer.
    pub(super) fn resume(
        ends: Ends,
        config: &PepConfig,
        is_behind: bool,
        entry: &Entry,
        cx: &mut Cx<'_>,
    ) -> Split {
        let (near, far) = sides(ends.0, config, is_behind);
        let near = Config { initial_sequence: Some(entry.iss), ..near };
        let mut split = Split::new(ends, near, far, is_behind, cx.now()).with_idle(config.idle);
        let syn = Packet::from_bytes(&entry.syn);
        split.client.resume(&syn, (entry.at, entry.repeats), cx);
        syn.recycle();
        split.server.open(ends.1, cx);
        split
    }

    /// Returns `true` until the client has acknowledged an answer.
    ///
    /// That shows that its address is its own.
    pub(super) fn is_half_open(&self) -> bool {
        self.syn.is_some() || self.client.state() == State::SynReceived
    }

    /// Returns the time since which a direction that holds content delivers too little.
    pub(super) fn stalled_since(&self, now: Time) -> Option<Time> {
        let held = [&self.client, &self.server].map(|end| end.content.capacity() as u64 > RESERVE);
        let stalled = held.into_iter().zip(self.progress).filter(|(holds, _)| *holds);
        stalled.map(|(_, progress)| progress.at).filter(|at| *at + STALL <= now).min()
    }

    fn note_progress(&mut self, now: Time) {
        for (end, progress) in [&self.client, &self.server].into_iter().zip(&mut self.progress) {
            let delivered = end.sender.bytes_acked();
            if end.content.capacity() as u64 <= RESERVE || delivered >= progress.delivered + RESERVE {
                *progress = Progress { at: now, delivered };
            }
        }
    }

    /// Resets both connections, which deliver too little.
    pub(super) fn give_way(&mut self, cx: &mut Cx<'_>) {
        self.end(Ended::Stalled, cx);
    }

    /// Returns `true` if there was memory for a segment. Then its connection has it.
    pub(super) fn deliver(&mut self, packet: Packet, is_clients: bool, room: u64, cx: &mut Cx<'_>) -> bool {
        self.active_at = cx.now();
        let taken = match (is_clients, &self.syn) {
            // The client repeats its SYN while the server has not answered.
            (true, Some(_)) => Ok(()),
            (true, None) => accept(&mut self.client, &mut self.server, &packet, room, cx),
            (false, _) => accept(&mut self.server, &mut self.client, &packet, room, cx),
        };
        match taken {
            Ok(()) => packet.recycle(),
            Err(why) => packet.lose(why),
        }
        taken != Err(Why::Queue)
    }

    pub(super) fn wake(&mut self, cx: &mut Cx<'_>) {
        self.client.wake(cx);
        self.server.wake(cx);
        if let Some(idle) = self.idle.filter(|_| self.idle_at <= cx.now()) {
            self.idle_at = self.active_at + idle;
            if self.idle_at <= cx.now() {
                self.idle_at = Time::NEVER;
                self.end(Ended::Idle, cx);
            }
        }
    }

    /// Resets both connections, as at a crash of the proxy.
    pub(super) fn cut(&mut self, cx: &mut Cx<'_>) {
        self.end(Ended::Cut, cx);
    }

    /// Resets both connections for a reason of the proxy's own, unless they have ended.
    fn end(&mut self, reason: Ended, cx: &mut Cx<'_>) {
        if !self.is_lingering() {
            self.ended = Some(reason);
            // A client that was not answered is not reset: it repeats its SYN, which is forwarded.
            self.syn = None;
        }
        self.abort(cx);
    }

    /// Returns the reason for the end.
    pub(super) fn ended(&self) -> Ended {
        let has_refused = matches!(self.server.failure(), Some(Failure::Refused | Failure::SynTimeout));
        match self.ended {
            Some(reason) => reason,
            None if has_refused => Ended::Refused,
            None if self.is_broken => Ended::Broken,
            None => Ended::Finished,
        }
    }

    /// Returns the memory of the content of both directions.
    pub(super) fn content(&self) -> usize {
        self.client.content.capacity() + self.server.content.capacity()
    }

    /// Returns the bytes delivered, towards the satellite and towards the ground.
    pub(super) fn passed(&self) -> [u64; 2] {
        let [to_client, to_server] = [&self.client, &self.server].map(|end| end.sender.bytes_acked());
        if self.is_behind { [to_client, to_server] } else { [to_server, to_client] }
    }

    /// Moves data, passes ends on, and sends the segments that both connections may.
    pub(super) fn run(&mut self, refusing: &Config, cx: &mut Cx<'_>) {
        self.answer(refusing, cx);
        for connection in [&mut self.client, &mut self.server] {
            if !connection.content.is_empty() {
                connection.content.trim(connection.sender.board.una());
            }
        }
        relay(&mut self.client, &mut self.server);
        relay(&mut self.server, &mut self.client);
        if self.syn.is_none() && (is_failed(&self.client) || is_failed(&self.server)) {
            return self.abort(cx);
        }
        self.client.output(cx);
        self.server.output(cx);
        self.note_progress(cx.now());
    }

    /// Answers a client that waits for the server, once that has answered.
    fn answer(&mut self, refusing: &Config, cx: &mut Cx<'_>) {
        if self.server.state() == State::SynSent {
            return;
        }
        let Some(syn) = self.syn.take() else { return };
        if self.server.state() == State::Closed
            && let Some(seen) = read(&syn)
        {
            // A closed connection answers a SYN with a reset.
            self.client = Connection::new(refusing.clone(), seen.dst, NODE);
        }
        self.client.receive(&syn, cx);
        syn.recycle();
    }

    /// Resets both connections, as far as they have not ended.
    pub(super) fn abort(&mut self, cx: &mut Cx<'_>) {
        self.is_broken |= !self.is_lingering();
        for connection in [&mut self.client, &mut self.server] {
            if !matches!(connection.state(), State::Closed | State::TimeWait) {
                connection.abort(cx);
            }
        }
    }

    /// Returns the deadline of both connections.
    pub(super) fn deadline(&self) -> Time {
        self.client.deadline().min(self.server.deadline()).min(self.idle_at)
    }

    /// Returns the bytes that the proxy has acknowledged and not delivered.
    pub(super) fn held(&self) -> u64 {
        held(&self.client, &self.server) + held(&self.server, &self.client)
    }

    /// Returns the segments that both connections sent.
    pub(super) fn segments_sent(&self) -> u64 {
        self.client.tally.segments_sent + self.server.tally.segments_sent
    }

    /// Returns `true` if one side failed.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns `true` if both connections have ended.
    pub(super) fn is_over(&self) -> bool {
        let ended = |connection: &Connection| connection.state() == State::Closed;
        self.syn.is_none() && ended(&self.client) && ended(&self.server)
    }

    /// Returns `true` if both connections have ended but for TIME-WAIT.
    pub(super) fn is_lingering(&self) -> bool {
        let ended = |connection: &Connection| matches!(connection.state(), State::Closed | State::TimeWait);
        self.syn.is_none() && !self.is_failed() && ended(&self.client) && ended(&self.server)
    }

    fn is_failed(&self) -> bool {
        is_failed(&self.client) || is_failed(&self.server)
    }
}
