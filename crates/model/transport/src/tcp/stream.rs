//! End of a connection whose application writes and reads bytes.
//!
//! Connections pass streams as lengths. Here the bytes are kept next to them: written ones until the peer has acknowledged them,
//! received ones until they are read. The windows of the connection bound both.

use std::net::SocketAddr;

use bentpipe_net::{Cx, Packet, Port};
use bentpipe_units::Time;

use super::config::Config;
use super::connection::{Connection, Failure, State};
use super::content::{Content, Elided, elide};

/// End of a connection with the bytes of both directions.
///
/// [`Stream::receive`] and [`Stream::wake`] take what happens, [`Stream::read`] and [`Stream::write`] are the application's, and
/// [`Stream::output`] follows all of them.
pub struct Stream {
    connection: Connection,
    local: SocketAddr,
    /// Bytes that arrived, by their positions in the peer's stream.
    inbox: Content,
    /// Position of the next byte to read.
    read: u64,
    /// Position of the next byte to write.
    written: u64,
}

impl Stream {
    /// Opens a connection to `remote` whose packets leave at `port`.
    pub fn connect(
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        port: Port,
        cx: &mut Cx<'_>,
    ) -> Stream {
        let mut stream = Stream::new(config, local, port);
        stream.connection.open(remote, cx);
        stream
    }

    /// Waits at `local` for a connection, whose SYN goes to [`Stream::receive`].
    pub fn listen(config: Config, local: SocketAddr, port: Port) -> Stream {
        let mut stream = Stream::new(config, local, port);
        stream.connection.listen();
        stream
    }

    fn new(config: Config, local: SocketAddr, port: Port) -> Stream {
        let connection = Connection::new(config, local, port);
        // The SYN has position 0.
        Stream { connection, local, inbox: Content::default(), read: 1, written: 1 }
    }

    /// Returns the address of this end.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the address of the peer, once it is known.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.connection.remote()
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> State {
        self.connection.state()
    }

    /// Returns the reason for a failure, if there was one.
    pub fn failure(&self) -> Option<Failure> {
        self.connection.failure()
    }

    /// Returns the number of segments that were repeated.
    pub fn retransmissions(&self) -> u64 {
        self.connection.sender.tally.retransmits
    }

    /// Returns the time at which [`Stream::wake`] is to be called.
    pub fn deadline(&self) -> Time {
        self.connection.deadline()
    }

    /// Returns `true` if a packet, which it accepts, is a segment of the peer.
    pub fn receive(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let (elided, payload) = match elide(packet, !self.inbox.is_empty()) {
            Elided::Parts(elided, payload) => (elided, payload),
            Elided::Plain => return self.connection.receive(packet, cx),
            // It is lost, and not delivered as zeros.
            Elided::Unfit => return false,
        };
        let next = self.connection.receiver.next();
        let before = self.connection.tally.data_segments_received;
        let at = self.connection.peer_position(payload.seq);
        let is_segment = self.connection.receive(&elided, cx);
        elided.recycle();
        // Content of a segment that was not accepted would replace what was. That in front of RCV.NXT may have been read.
        if self.connection.tally.data_segments_received > before
            && let Some(at) = at
        {
            let known = next.saturating_sub(at).min(payload.bytes.len() as u64);
            self.inbox.put(at + known, &payload.bytes[known as usize..]);
        }
        is_segment
    }

    /// Runs the timers that are due.
    pub fn wake(&mut self, cx: &mut Cx<'_>) {
        self.connection.wake(cx);
    }

    /// Returns the number of bytes that can be written.
    ///
    /// At most two segments wait behind the congestion window.
    pub fn writable(&self) -> usize {
        usize::try_from(self.connection.sendable()).unwrap_or(usize::MAX)
    }

    /// Returns the number of bytes that wait to be read.
    pub fn readable(&self) -> u64 {
        self.connection.readable()
    }

    /// Writes as many bytes as there is room for, and returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.writable());
        self.connection.content.trim(self.connection.sender.board.una());
        self.connection.content.put(self.written, &bytes[..count]);
        self.connection.write(count as u64);
        self.written += count as u64;
        count
    }

    /// Reads all bytes that are there.
    pub fn read(&mut self) -> Vec<u8> {
        let count = self.connection.readable();
        if count == 0 {
            return Vec::new();
        }
        let bytes = self.inbox.bytes(self.read, count as usize);
        self.read += count;
        self.inbox.trim(self.read);
        self.connection.read(count);
        bytes
    }

    /// Returns `true` if the peer has closed its side and all its bytes are read.
    pub fn is_read_out(&self) -> bool {
        self.connection.is_read_out()
    }

    /// Sends what the connection may send.
    pub fn output(&mut self, cx: &mut Cx<'_>) {
        self.connection.content.trim(self.connection.sender.board.una());
        self.connection.output(cx);
    }

    /// Closes the sending direction.
    pub fn close(&mut self) {
        self.connection.close();
    }

    /// Ends the connection with a reset.
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        self.connection.abort(cx);
    }
}
