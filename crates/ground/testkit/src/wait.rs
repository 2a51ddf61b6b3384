//! Waiting for events.

use std::time::{Duration, Instant};

/// Longest wait for an event.
///
/// Events come in milliseconds: only a fault takes as long, and no busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until an event has come.
///
/// # Panics
/// After a minute, with the name of the event.
#[track_caller]
pub fn until(event: &str, mut has_come: impl FnMut() -> bool) {
    until_some(event, || has_come().then_some(()));
}

/// Waits until an event has come, and returns what it brought.
///
/// # Panics
/// After a minute, with the name of the event.
#[track_caller]
pub fn until_some<T>(event: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{event}: not within {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_awaited() {
        let mut looks = 0;
        let found = until_some("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }
}
