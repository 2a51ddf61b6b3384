//! Downloads of archives, each of which takes a place and a thread.
//!
//! Those that stall give way to users who wait. A client that takes nothing for a time is disconnected (`connections`). One that takes a little again and again would keep its place
//! for days. So as long as no user waits, downloads have any time, over any line. When a user waits for a place, the one that has
//! stalled the longest ends: of the user's own, or of any user if all places are taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::clock::since_start_ms;
use crate::connections::Connection;

/// Bytes that a download passes on in each [`PATIENCE_MS`], or it stalls: 0.56 Mbit/s.
const LEAST: u64 = 2 << 20;
/// Time in milliseconds.
const PATIENCE_MS: i64 = 30_000;

/// Downloads that are being sent.
#[derive(Debug, Default)]
pub(crate) struct Downloads(Mutex<Vec<Weak<Download>>>);

/// Download until it is dropped.
#[derive(Debug)]
pub(crate) struct Download {
    user: i64,
    connection: Option<Connection>,
    progress: Mutex<Progress>,
}

/// Bytes since the last time that [`LEAST`] were complete.
#[derive(Debug)]
struct Progress {
    bytes: u64,
    since_ms: i64,
}

impl Downloads {
    /// Begins a download of a user over a connection.
    pub(crate) fn begin(&self, user: i64, connection: Option<Connection>) -> Arc<Download> {
        self.begin_at(user, connection, since_start_ms())
    }

    /// Ends a download that stalls, as a user waits for a place. `is_full` is set if all are taken.
    pub(crate) fn make_room(&self, user: i64, is_full: bool) {
        let Some(stalled) = self.stalled(user, is_full, since_start_ms()) else { return };
        stalled.connection.iter().for_each(Connection::end);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Download>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_at(&self, user: i64, connection: Option<Connection>, now: i64) -> Arc<Download> {
        let progress = Mutex::new(Progress { bytes: 0, since_ms: now });
        let download = Arc::new(Download { user, connection, progress });
        let mut all = self.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&download));
        download
    }

    /// Returns the download that has stalled the longest, of a user or of all.
    fn stalled(&self, user: i64, of_all: bool, now: i64) -> Option<Arc<Download>> {
        let all = self.lock();
        let able = all.iter().filter_map(Weak::upgrade).filter(|one| of_all || one.user == user);
        let stalled = able.filter(|one| now - one.since_ms() >= PATIENCE_MS);
        stalled.min_by_key(|one| one.since_ms())
    }
}

impl Download {
    /// Counts bytes that were passed on.
    pub(crate) fn pass(&self, bytes: usize) {
        self.pass_at(bytes, since_start_ms());
    }

    fn pass_at(&self, bytes: usize, now: i64) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.bytes += bytes as u64;
        if progress.bytes >= LEAST {
            *progress = Progress { bytes: 0, since_ms: now };
        }
    }

    fn since_ms(&self) -> i64 {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).since_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 64 << 10;

    #[test]
    fn of_those_that_stall_the_one_that_does_for_the_longest_gives_way() {
        let all = Downloads::default();
        let [slow, fast, other, done] =
            [(1, 0), (1, 0), (2, 5), (2, 0)].map(|(user, at)| all.begin_at(user, None, at));
        drop(done);
        for second in 1..=60 {
            slow.pass_at(PIECE / 2, second * 1000);
            fast.pass_at(PIECE * 5 / 4, second * 1000);
            other.pass_at(1, second * 1000);
        }
        let end = |user, of_all, now| all.stalled(user, of_all, now).map(|one| one.user);
        assert_eq!(end(1, false, PATIENCE_MS - 1), None);
        let first = all.stalled(3, true, 60_000).expect("one that stalls");
        assert!(Arc::ptr_eq(&first, &slow), "whoever waits, if all places are taken");
        assert_eq!(end(3, false, 60_000), None, "a user with no own one waits for a turn");
        assert_eq!(end(2, false, 60_000), Some(2), "one of the user's own");
        drop((first, slow));
        assert_eq!(end(1, false, 60_000), None, "at half a megabit a second none is cut off");
        assert_eq!(end(1, true, 60_000), Some(2));
    }
}
