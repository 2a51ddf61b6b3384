//! Split connection: two connections back to back.

use bentpipe_net::{Cx, Packet};
use bentpipe_units::Time;

use super::{Config, Ends, NODE, read};
use crate::tcp::connection::{Connection, State};
use crate::tcp::content::{Elided, elide};

/// Two connections back to back, and the data between them.
pub(super) struct Split {
    client: Connection,
    server: Connection,
    /// SYN of the client that waits for the server's answer.
    syn: Option<Packet>,
    /// Deadline under which the proxy lists it.
    pub(super) listed_at: Time,
    is_broken: bool,
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

/// Passes a segment to its connection, and its content to the other one.
fn accept(from: &mut Connection, to: &mut Connection, packet: &Packet, cx: &mut Cx<'_>) {
    let (elided, payload) = match elide(packet, !to.content.is_empty()) {
        Elided::Parts(elided, payload) => (elided, payload),
        Elided::Plain => return from.receive(packet, cx),
        // It is lost, and not delivered as zeros.
        Elided::Unfit => return,
    };
    let (next, before) = (from.receiver.next(), from.tally.data_segments_received);
    let at = from.peer_position(payload.seq);
    from.receive(&elided, cx);
    elided.recycle();
    // Content of a segment that was not accepted would replace what was. That in front of RCV.NXT may have been sent.
    if from.tally.data_segments_received > before
        && let Some(at) = at
    {
        let known = next.saturating_sub(at).min(payload.bytes.len() as u64);
        to.content.trim(to.sender.board.una());
        to.content.put(at + known, &payload.bytes[known as usize..]);
    }
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

impl Split {
    /// Opens a connection to the server.
    ///
    /// The client's SYN is answered if it need not wait. The configurations are of client and server.
    pub(super) fn open(
        (client, server): Ends,
        [near, far]: [&Config; 2],
        syn: Packet,
        answers_at_once: bool,
        cx: &mut Cx<'_>,
    ) -> Split {
        let mut split = Split {
            client: Connection::new(near.clone(), server, NODE),
            server: Connection::new(far.clone(), client, NODE),
            syn: Some(syn),
            listed_at: Time::NEVER,
            is_broken: false,
        };
        split.client.listen();
        split.server.open(server, cx);
        if answers_at_once && let Some(syn) = split.syn.take() {
            split.client.receive(&syn, cx);
            syn.recycle();
        }
        split
    }

    /// Passes a segment to its connection.
    pub(super) fn deliver(&mut self, packet: Packet, is_clients: bool, cx: &mut Cx<'_>) {
        match (is_clients, &self.syn) {
            // The client repeats its SYN while the server has not answered.
            (true, Some(_)) => {}
            (true, None) => accept(&mut self.client, &mut self.server, &packet, cx),
            (false, _) => accept(&mut self.server, &mut self.client, &packet, cx),
        }
        packet.recycle();
    }

    pub(super) fn wake(&mut self, cx: &mut Cx<'_>) {
        self.client.wake(cx);
        self.server.wake(cx);
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
        self.client.deadline().min(self.server.deadline())
    }

    /// Returns the bytes that the proxy has acknowledged and not delivered.
    pub(super) fn held(&self) -> u64 {
        held(&self.client, &self.server) + held(&self.server, &self.client)
    }

    /// Returns the bytes that arrived at their other end.
    pub(super) fn relayed(&self) -> u64 {
        self.client.sender.bytes_acked() + self.server.sender.bytes_acked()
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
