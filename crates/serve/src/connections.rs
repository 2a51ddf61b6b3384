//! Connections: limits of addresses, and room for newcomers.
//!
//! A connection without a request of a known user makes room when others come: the oldest one of the address that has the
//! most. So clients that hold connections and ask nothing keep out neither others nor themselves.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::source;

/// Most connections.
const MAX: usize = 512;
/// Most connections of an address that is not one of a trusted proxy.
const MAX_OF_ADDRESS: usize = 256;
/// Time in which a peer takes something of what is sent, before its connection ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Registry of the connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<Registry>>);

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    all: HashMap<u64, Record>,
}

#[derive(Debug)]
struct Record {
    source: String,
    /// Requests of users that are not answered in full. A site counts as one for good.
    held: usize,
    end: Arc<Notify>,
}

/// Connection in the registry, until the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    number: u64,
    registry: Connections,
    end: Arc<Notify>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. Returns it, and `true` if another one had to make room; `None` if none could.
    pub(crate) fn enter(&self, peer: IpAddr, is_proxy: bool) -> Option<(Connection, bool)> {
        let source = source(peer);
        let mut registry = self.lock();
        let own = registry.all.values().filter(|record| record.source == source).count();
        let crowded = match () {
            () if own >= MAX_OF_ADDRESS && !is_proxy => Some(source.clone()),
            () if registry.all.len() >= MAX => Some(registry.largest()?),
            () => None,
        };
        if let Some(crowded) = &crowded {
            registry.make_room(crowded)?;
        }
        let (number, end) = (registry.next, Arc::new(Notify::new()));
        registry.next += 1;
        registry.all.insert(number, Record { source, held: 0, end: Arc::clone(&end) });
        let entry = Entry { number, registry: self.clone(), end };
        Some((Connection(Arc::new(entry)), crowded.is_some()))
    }
}

impl Registry {
    /// Returns the address that has the most connections which can make room.
    fn largest(&self) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for record in self.all.values().filter(|record| record.held == 0) {
            *counts.entry(&record.source).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(source, _)| source.to_owned())
    }

    /// Ends the oldest connection of an address without requests of known users.
    fn make_room(&mut self, source: &str) -> Option<()> {
        let can_go = |record: &Record| record.held == 0 && record.source == source;
        let oldest = self.all.iter().filter(|(_, record)| can_go(record)).map(|(number, _)| *number).min()?;
        let record = self.all.remove(&oldest)?;
        record.end.notify_one();
        Some(())
    }
}

impl Connection {
    /// Waits until the connection has to make room.
    pub(crate) async fn ended(&self) {
        self.0.end.notified().await;
    }

    /// Counts a request of a known user, until the result is dropped.
    pub(crate) fn hold(&self) -> Hold {
        if let Some(record) = self.0.registry.lock().all.get_mut(&self.0.number) {
            record.held += 1;
        }
        Hold(self.clone())
    }

    /// Keeps the connection for good: it is one of a site.
    pub(crate) fn keep(&self) {
        if let Some(record) = self.0.registry.lock().all.get_mut(&self.0.number) {
            record.held = record.held.max(1);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.lock().all.remove(&self.number);
    }
}

/// Request of a known user.
#[derive(Debug)]
pub(crate) struct Hold(Connection);

impl Drop for Hold {
    fn drop(&mut self) {
        let entry = &self.0.0;
        if let Some(record) = entry.registry.lock().all.get_mut(&entry.number) {
            record.held = record.held.saturating_sub(1);
        }
    }
}

/// Body that holds something until it was sent.
pub(crate) struct Held<T> {
    body: Body,
    _held: T,
}

/// Returns a body that holds `held` until it was sent.
pub(crate) fn holding<T: Send + Unpin + 'static>(body: Body, held: T) -> Body {
    Body::new(Held { body, _held: held })
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Stream that fails if the peer takes nothing for a time.
pub(crate) struct Patient<T> {
    stream: T,
    end: Pin<Box<Sleep>>,
    waits: bool,
}

impl<T> Patient<T> {
    pub(crate) fn new(stream: T) -> Patient<T> {
        Patient { stream, end: Box::pin(sleep(PATIENCE)), waits: false }
    }

    /// Passes the outcome of a write on; one that has waited too long fails.
    fn judge<V>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if outcome.is_ready() {
            self.waits = false;
            return outcome;
        }
        if !self.waits {
            self.waits = true;
            self.end.as_mut().reset(Instant::now() + PATIENCE);
        }
        ready!(self.end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(last: u8) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, last))
    }

    #[test]
    fn an_address_has_its_share_and_newcomers_find_room() {
        let all = Connections::default();
        let count = || all.lock().all.len();
        let idle: Vec<_> = (0..MAX_OF_ADDRESS).map(|_| all.enter(at(1), false).expect("room")).collect();
        assert!(idle.iter().all(|(_, crowded)| !crowded));
        let (_newest, crowded) = all.enter(at(1), false).expect("room");
        assert_eq!((crowded, count()), (true, MAX_OF_ADDRESS), "the oldest one made room");
        let (_other, crowded) = all.enter(at(2), false).expect("room");
        assert!(!crowded, "another address has its own");
    }

    #[test]
    fn requests_of_users_are_kept_and_the_largest_crowd_makes_room() {
        let all = Connections::default();
        let held: Vec<_> = (0..MAX_OF_ADDRESS)
            .map(|_| {
                let (connection, _) = all.enter(at(1), false).expect("room");
                (connection.hold(), connection)
            })
            .collect();
        assert!(all.enter(at(1), false).is_none(), "all of the address are in use");
        let idle: Vec<_> =
            (0..MAX - MAX_OF_ADDRESS).map(|_| all.enter(at(2), false).expect("room")).collect();
        let (_third, crowded) = all.enter(at(3), false).expect("room");
        assert!(crowded && all.lock().all.len() == MAX);
        drop(held);
        assert!(all.enter(at(1), false).is_some_and(|(_, crowded)| !crowded));
        drop(idle);
    }

    #[test]
    fn a_proxy_has_as_many_as_there_are_and_sites_stay() {
        let all = Connections::default();
        let (site, _) = all.enter(at(9), false).expect("room");
        site.keep();
        let proxy: Vec<_> = (1..MAX).map(|_| all.enter(at(1), true).expect("room")).collect();
        assert!(proxy.iter().all(|(_, crowded)| !crowded));
        for _ in 0..10 {
            assert!(all.enter(at(1), true).is_some());
        }
        assert!(all.lock().all.contains_key(&site.0.number));
    }
}
