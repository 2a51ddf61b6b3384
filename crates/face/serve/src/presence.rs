//! Sites that are connected, and the connections over which they logged in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bentpipe_agent::protocol::{Clock, MAX_WAIT_MS, Poll, TaskReport};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::now_ms;

/// Time without a message after which a site counts as gone, in milliseconds.
const SILENT_MS: i64 = MAX_WAIT_MS as i64 + 10_000;
/// Time between two notes of a site's state in the database, in milliseconds.
const NOTE_MS: i64 = 20_000;
/// Longest wait of a message for its turn. More of a kind are refused.
const MOST_WAITING: Duration = Duration::from_secs(5);

/// Kind of messages of a site, with a pace of its own.
///
/// The server may write for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// Log-in, which the audit log has.
    LogIn,
    /// Poll with results, tasks and the state of the machine.
    Poll,
    /// Live samples.
    Live,
}

impl Message {
    /// Returns the least time between two such messages of a site. Those of this program are further apart.
    fn distance(self) -> Duration {
        match self {
            Message::LogIn => Duration::from_secs(1),
            Message::Poll | Message::Live => Duration::from_millis(10),
        }
    }
}

/// Sites that are connected.
#[derive(Default)]
pub(crate) struct Sites {
    /// SHA-256 of the server's certificate, which may be renewed. Without TLS of its own no site can log in.
    pub(crate) certificate: OnceLock<Box<dyn Fn() -> [u8; 32] + Send + Sync>>,
    present: Mutex<HashMap<i64, Presence>>,
    /// Times at which tasks of cancelled jobs were to end first, in milliseconds since 1970.
    stopping: Mutex<HashMap<i64, i64>>,
    /// Times of the next messages of sites.
    turns: Mutex<HashMap<(i64, Message), Instant>>,
    /// Reports that there may be commands.
    pub(crate) news: Notify,
}

/// Connection of a site.
#[derive(Debug)]
struct Presence {
    /// Number of the connection. A later one takes its place.
    channel: u64,
    seen_ms: i64,
    noted_ms: i64,
    /// Tasks as they were last reported.
    tasks: Vec<TaskReport>,
    /// Clock as it was last stated.
    clock: Clock,
}

/// Connection of a client, over which a site may log in.
#[derive(Clone, Debug)]
pub(crate) struct Channel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: u64,
    /// Exporter value of its TLS session.
    binding: Option<[u8; 32]>,
    site: OnceLock<i64>,
}

impl Channel {
    /// Returns a new channel with the exporter value of its TLS 1.3 session.
    pub(crate) fn new(binding: Option<[u8; 32]>) -> Channel {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Channel(Arc::new(Inner { number, binding, site: OnceLock::new() }))
    }

    /// Returns the exporter value of the connection's TLS session.
    pub(crate) fn binding(&self) -> Option<[u8; 32]> {
        self.0.binding
    }

    /// Returns the site that logged in.
    pub(crate) fn site(&self) -> Option<i64> {
        self.0.site.get().copied()
    }
}

/// Work of a poll at the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Set if its results or tasks are to be taken in.
    pub(crate) apply: bool,
    /// Set if the state of the machine is to be noted.
    pub(crate) note: bool,
}

impl Sites {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Presence>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a site is connected.
    pub(crate) fn is_connected(&self, site: i64) -> bool {
        self.lock().get(&site).is_some_and(|presence| now_ms() - presence.seen_ms < SILENT_MS)
    }

    /// Returns the time since which a task is to end, in milliseconds since 1970. The first call begins it.
    pub(crate) fn stopping_since(&self, task: i64) -> i64 {
        let mut all = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry(task).or_insert_with(now_ms)
    }

    /// Forgets tasks that are over.
    pub(crate) fn forget_stopping(&self, tasks: impl Iterator<Item = i64>) {
        let mut all = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.for_each(|task| _ = all.remove(&task));
    }

    /// Returns the time that a message of a site waits for its turn. `None` if too many wait.
    pub(crate) fn turn(&self, site: i64, message: Message, now: Instant) -> Option<Duration> {
        let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let next = all.entry((site, message)).or_insert(now);
        let wait = next.saturating_duration_since(now);
        if wait > MOST_WAITING {
            return None;
        }
        *next = now + wait + message.distance();
        Some(wait)
    }

    /// Wakes sites that wait for commands.
    pub(crate) fn wake(&self) {
        self.news.notify_waiters();
    }

    /// Assigns a channel to a site, in place of an earlier one.
    pub(crate) fn enter(&self, site: i64, channel: &Channel) {
        let _ = channel.0.site.set(site);
        let (tasks, clock) = (Vec::new(), Clock::default());
        let presence = Presence { channel: channel.0.number, seen_ms: now_ms(), noted_ms: 0, tasks, clock };
        self.lock().insert(site, presence);
        self.wake();
    }

    /// Forgets a channel that is closed.
    pub(crate) fn leave(&self, channel: &Channel) {
        self.lock().retain(|_, presence| presence.channel != channel.0.number);
    }

    /// Forgets a site that was revoked.
    pub(crate) fn expel(&self, site: i64) {
        self.lock().remove(&site);
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| *of != site);
        self.wake();
    }

    /// Returns `true` if a channel is still that of its site.
    pub(crate) fn is_current(&self, site: i64, channel: &Channel) -> bool {
        self.lock().get(&site).is_some_and(|presence| presence.channel == channel.0.number)
    }

    /// Returns the clock of a site that is connected.
    pub(crate) fn clock(&self, site: i64) -> Option<Clock> {
        self.lock().get(&site).map(|presence| presence.clock.clone())
    }

    /// Notes a message of a site. Returns what is due, or `None` if another connection took the place.
    pub(crate) fn note(&self, site: i64, channel: &Channel, poll: &Poll) -> Option<Due> {
        let mut all = self.lock();
        let presence = all.get_mut(&site).filter(|presence| presence.channel == channel.0.number)?;
        presence.seen_ms = now_ms();
        let note = presence.seen_ms - presence.noted_ms >= NOTE_MS;
        if note {
            presence.noted_ms = presence.seen_ms;
        }
        // The first message counts: tasks may be missing.
        let apply = presence.tasks != poll.tasks || note;
        poll.tasks.clone_into(&mut presence.tasks);
        presence.clock = poll.clock.clone();
        Some(Due { apply, note })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A site that sends without a pause had the server write for each message.
    #[test]
    fn messages_of_a_site_have_a_pace() {
        let (sites, start) = (Sites::default(), Instant::now());
        let ms = Duration::from_millis;
        let turn = |site, at, message| sites.turn(site, message, start + ms(at));
        assert_eq!((turn(1, 0, Message::Poll), turn(1, 20, Message::Poll)), (Some(ms(0)), Some(ms(0))));
        assert_eq!((turn(1, 21, Message::Poll), turn(1, 21, Message::Poll)), (Some(ms(9)), Some(ms(19))));
        assert_eq!((turn(2, 21, Message::Poll), turn(1, 21, Message::Live)), (Some(ms(0)), Some(ms(0))));
        let waits: Vec<_> = (0..7).map(|_| turn(1, 100, Message::LogIn)).collect();
        assert_eq!((waits[1], waits[5], waits[6]), (Some(ms(1000)), Some(ms(5000)), None));
        assert_eq!(turn(1, 60_000, Message::LogIn), Some(ms(0)));
        sites.expel(1);
        assert!(sites.turns.lock().expect("not poisoned").keys().all(|(site, _)| *site == 2));
    }
}
