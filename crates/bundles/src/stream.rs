//! Session over a connection that blocks for short turns.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bentpipe_dtn::session::Session;
use bentpipe_emu::{Clock, Monotonic};

/// Time for which a read waits, so that a stop is seen.
pub(crate) const TURN: Duration = Duration::from_millis(50);

/// Moves bytes between a session and its connection once.
///
/// Returns `false` at the end of the connection.
pub(crate) fn turn(session: &mut Session, stream: &mut TcpStream, clock: &Monotonic) -> Result<bool, String> {
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

fn flush(session: &mut Session, stream: &mut TcpStream, clock: &Monotonic) -> Result<(), String> {
    loop {
        let output = session.poll_output(clock.now());
        if output.is_empty() {
            return Ok(());
        }
        stream.write_all(&output).map_err(|error| error.to_string())?;
    }
}

/// Returns `true` if a read found nothing in its turn.
pub(crate) fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Prepares a connection: short turns, and no wait for full segments.
pub(crate) fn prepare(stream: &TcpStream) -> Result<(), String> {
    stream
        .set_read_timeout(Some(TURN))
        .and_then(|()| stream.set_nodelay(true))
        .map_err(|error| error.to_string())
}
