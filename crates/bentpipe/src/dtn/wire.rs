//! Common parts of `send` and `receive`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use bentpipe_dtn::session::Session;
use bentpipe_record::write_whole;
use bentpipe_units::Time;
use clap::ValueEnum;

/// Convergence layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    /// Datagrams of one bundle each (RFC 7122)
    Udp,
    /// Byte strings of one bundle each, without acknowledgements
    Mtcp,
    /// TCP convergence layer version 4 (RFC 9174), without TLS
    Tcpcl,
}

/// Time for which a read waits, so that Ctrl-C is seen.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// Clock of a command.
pub(super) struct Clock(std::time::Instant);

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "commands on sockets run in real time")]
    pub(super) fn new() -> Clock {
        Clock(std::time::Instant::now())
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Returns the milliseconds since 2000 by the computer's clock.
#[allow(clippy::disallowed_methods, reason = "bundles carry the time of day")]
pub(super) fn dtn_time() -> u64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (unix.as_millis() as u64).saturating_sub(bentpipe_wire::dtn::bundle::UNIX_OFFSET * 1000)
}

/// Moves bytes between a session and its connection once.
///
/// Returns `false` at the end of the connection.
pub(super) fn turn(session: &mut Session, stream: &mut TcpStream, clock: &Clock) -> Result<bool, String> {
    session.handle_timeout(clock.now());
    flush(session, stream, clock)?;
    let mut buffer = vec![0; 1 << 16];
    match stream.read(&mut buffer) {
        Ok(0) => {
            session.disconnect();
            return Ok(false);
        }
        Ok(len) => session.handle_bytes(&buffer[..len], clock.now()),
        Err(error) if is_idle(&error) => {}
        Err(error) => {
            session.disconnect();
            return Err(error.to_string());
        }
    }
    flush(session, stream, clock)?;
    Ok(!session.is_ended())
}

fn flush(session: &mut Session, stream: &mut TcpStream, clock: &Clock) -> Result<(), String> {
    loop {
        let output = session.poll_output(clock.now());
        if output.is_empty() {
            return Ok(());
        }
        stream.write_all(&output).map_err(|error| error.to_string())?;
    }
}

/// Returns `true` if a read found nothing in its turn.
pub(super) fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Prepares a connection: short turns, and no wait for full segments.
pub(super) fn prepare(stream: &TcpStream) -> Result<(), String> {
    stream
        .set_read_timeout(Some(TURN))
        .and_then(|()| stream.set_nodelay(true))
        .map_err(|error| error.to_string())
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    write_whole(path, |file| file.write_all(bytes)).map_err(|error| error.to_string())
}
