//! Session over a connection, in short turns.

use std::io::ErrorKind;
use std::time::Duration;

use bentpipe_emu::{Clock, Monotonic};
use bentpipe_units::Span;

use crate::link::{Progress, READ, SessionLink, wait};

/// Time for which a read waits, so that a stop is seen.
pub(crate) const TURN: Duration = Duration::from_millis(50);

/// Moves bytes between a session and its connection once, and waits for them.
///
/// Returns `false` at the end of the connection.
pub(crate) fn turn(connection: &mut SessionLink, clock: &Monotonic) -> Result<bool, String> {
    connection.write(clock.now())?;
    if !connection.session.is_ended() {
        wait([connection.interest()], Span::from_millis(50));
        return step(connection, clock);
    }
    Ok(false)
}

/// Moves bytes that are there.
///
/// Returns `false` at the end of the connection.
pub(crate) fn step(connection: &mut SessionLink, clock: &Monotonic) -> Result<bool, String> {
    let read = connection.read(READ, clock.now());
    if !matches!(read, Ok(Progress::Idle | Progress::More)) {
        connection.session.disconnect();
    }
    let written = connection.write(clock.now());
    // A peer that has closed the connection need not get the last words.
    if read? == Progress::Closed {
        return Ok(false);
    }
    written?;
    Ok(!connection.session.is_ended())
}

/// Returns `true` if a read found nothing in its turn.
pub(crate) fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
