//! Split connection: two sockets, and the data between them.

use std::io;
use std::net::SocketAddr;

use bentpipe_emu::streams::unacknowledged;
use bentpipe_transport::tcp::pep::{RESERVE, STALL};
use bentpipe_units::Time;
use socket2::Socket;

use crate::config::Side;
use crate::flow::{Flow, Pipe};

/// Client and server of a connection.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// State of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Waits for its sockets.
    Waiting,
    /// Has more to do at once.
    Busy,
    /// Both directions ended, and all data is acknowledged.
    Over,
    /// The server refused or cannot be reached.
    Refused,
    /// Failure of a side.
    Broken,
}

/// Latest progress of a direction that holds data.
#[derive(Clone, Copy, Debug)]
struct Progress {
    at: Time,
    delivered: u64,
}

/// Two connections back to back.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ends: Ends,
    client: Socket,
    server: Socket,
    /// Side of the client.
    side: Side,
    is_connected: bool,
    /// Flows from the client and from the server.
    flows: [Flow; 2],
    /// Time of the last data.
    pub(crate) active_at: Time,
    progress: [Progress; 2],
}

impl Pair {
    pub(crate) fn new(ends: Ends, client: Socket, server: Socket, side: Side, now: Time) -> Pair {
        let progress = [Progress { at: now, delivered: 0 }; 2];
        let flows = Default::default();
        Pair { ends, client, server, side, is_connected: false, flows, active_at: now, progress }
    }

    /// Returns the sockets of client and server.
    pub(crate) fn sockets(&self) -> [&Socket; 2] {
        [&self.client, &self.server]
    }

    /// Moves data until the sockets block or others are to be served.
    pub(crate) fn turn(&mut self, pipe: &Pipe, now: Time) -> Turn {
        match self.advance(pipe, now) {
            Ok(turn) => turn,
            // A reset that came before the answer was looked at does not count as refusal: to a SYN the kernel says that as another error.
            Err(error) if !self.is_connected && error.kind() != io::ErrorKind::ConnectionReset => {
                Turn::Refused
            }
            Err(_) => Turn::Broken,
        }
    }

    fn advance(&mut self, pipe: &Pipe, now: Time) -> io::Result<Turn> {
        if !self.is_connected && !self.has_connected()? {
            return Ok(Turn::Waiting);
        }
        let before = self.moved();
        let [from_client, from_server] = &mut self.flows;
        let is_busy = from_client.run(&self.client, &self.server, pipe)?
            | from_server.run(&self.server, &self.client, pipe)?;
        if self.moved() != before {
            self.active_at = now;
        }
        for socket in self.sockets() {
            socket.take_error()?.map_or(Ok(()), Err)?;
        }
        match (is_busy, self.is_over()) {
            (_, true) => Ok(Turn::Over),
            (true, false) => Ok(Turn::Busy),
            (false, false) => Ok(Turn::Waiting),
        }
    }

    /// Returns `true` once the server has answered.
    fn has_connected(&mut self) -> io::Result<bool> {
        for socket in self.sockets() {
            socket.take_error()?.map_or(Ok(()), Err)?;
        }
        self.is_connected = self.server.peer_addr().is_ok();
        Ok(self.is_connected)
    }

    fn moved(&self) -> u64 {
        self.flows.iter().map(|flow| flow.moved).sum()
    }

    /// Returns `true` if both directions have ended and both ends have all data.
    fn is_over(&self) -> bool {
        let is_delivered = |socket: &Socket| unacknowledged(socket).is_ok_and(|bytes| bytes == 0);
        self.flows.iter().all(|flow| flow.is_shut) && self.sockets().into_iter().all(is_delivered)
    }

    /// Returns the bytes acknowledged to their sender and not delivered.
    pub(crate) fn held(&self) -> u64 {
        let [client, server] = self.sockets();
        self.flows[0].held(client, server) + self.flows[1].held(server, client)
    }

    /// Notes the progress of both directions, and returns the bytes that they hold.
    pub(crate) fn note_progress(&mut self, now: Time) -> u64 {
        let ways = [(&self.client, &self.server), (&self.server, &self.client)];
        let looks = self.flows.iter().zip(ways).zip(&mut self.progress);
        let held = looks.map(|((flow, (from, to)), progress)| {
            let (held, delivered) = (flow.held(from, to), flow.delivered(to));
            if held <= RESERVE || delivered >= progress.delivered + RESERVE {
                *progress = Progress { at: now, delivered };
            }
            held
        });
        held.sum()
    }

    /// Returns the time since which a direction that holds data delivers too little.
    pub(crate) fn stalled_since(&self, now: Time) -> Option<Time> {
        self.progress.iter().map(|progress| progress.at).filter(|at| *at + STALL <= now).min()
    }

    /// Returns the bytes delivered, towards the satellite and towards the ground.
    ///
    /// Those are acknowledged: what the kernel has queued is held, and may be lost.
    pub(crate) fn delivered(&self) -> [u64; 2] {
        let [from_client, from_server] =
            [self.flows[0].delivered(&self.server), self.flows[1].delivered(&self.client)];
        match self.side {
            Side::Ground => [from_client, from_server],
            Side::Satellite => [from_server, from_client],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use bentpipe_units::Span;

    use super::*;

    fn seconds(number: u64) -> Time {
        Time::ZERO + Span::from_secs(number)
    }

    /// Returns two ends of a connection over loopback.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        (near, listener.accept().expect("connected").0)
    }

    #[test]
    fn a_pair_whose_server_reads_nothing_is_stalled_after_a_minute() {
        let ((mut sender, client), (server, _receiver)) = (connection(), connection());
        let ends = (client.peer_addr().expect("connected"), server.peer_addr().expect("connected"));
        let pipe = Pipe::new().expect("a pipe");
        let mut pair = Pair::new(ends, client.into(), server.into(), Side::Ground, Time::ZERO);
        pair.sockets().into_iter().for_each(|socket| socket.set_nonblocking(true).expect("set"));
        assert_eq!(pair.note_progress(seconds(100)), 0);
        assert_eq!(pair.stalled_since(seconds(120)), None, "it holds nothing");
        sender.set_nonblocking(true).expect("set");
        while pair.note_progress(seconds(100)) < 4 * RESERVE {
            let _ = sender.write(&[7; 1 << 16]);
            pair.turn(&pipe, seconds(100));
        }
        pair.note_progress(seconds(101));
        let (early, late) = (seconds(100) + STALL / 2, seconds(102) + STALL);
        assert_eq!(pair.stalled_since(early), None);
        assert!(pair.stalled_since(late).is_some_and(|since| since + Span::from_secs(2) >= seconds(100)));
    }
}
