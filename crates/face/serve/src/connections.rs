//! Connections: limits of addresses, and room for newcomers.
//!
//! A connection makes room when others come to an address that has as many as it may, or when all are taken: of the address that has
//! the most. The oldest one goes that no known user has used. Then users share what is left: of one with many connections the idle
//! ones go, then those in use, and of one with few the idle ones. So connections that are held, idle, slow or in use, keep out
//! neither others at the same address nor elsewhere.
//!
//! A newcomer whose first request is in flight goes after idle connections of users that have others. It does not if there are more
//! newcomers than a share of the address: then the oldest one goes first, so that a flood of them takes only that share from users.
//! An idle connection of a user ends in order, without a reset.
//!
//! A request that has arrived in full is worked on, and its connection stays until the answer begins: a connection that was closed
//! meanwhile would leave its client in doubt about the effect. One that has made room begins no work.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use bentpipe_emu::streams;
use hyper::body::{Frame, SizeHint};
use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::source;

/// Most connections.
pub(crate) const MAX: usize = 512;
/// Most connections of an address that is not one of a trusted proxy.
const MAX_OF_ADDRESS: usize = 256;
/// Connections in use that a user keeps in a crowd: several pages of a browser.
const KEPT: usize = 16;
/// Newcomers of an address for which idle connections of users make room.
const NEWCOMERS: usize = MAX_OF_ADDRESS / 4;
/// Time in which a client sends the head of a request.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);
/// Most bytes of an unread body that are taken: those of the largest file.
const REST: usize = 64 << 20;
/// Pause after which no more of the rest is waited for.
const REST_PAUSE: Duration = Duration::from_secs(2);
/// Time in which an idle connection that makes room ends in order.
const FAREWELL: Duration = Duration::from_secs(1);
/// Time in which a peer takes something of what is sent, before its connection ends.
const PATIENCE: Duration = Duration::from_secs(30);
/// Least rate in bytes a second at which a peer takes what waits for it. Below it, the connection ends after twice that time.
const RATE: u32 = 8 << 10;
/// Time between two looks at what a peer has taken.
const LOOK: Duration = Duration::from_millis(100);

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
    /// User of the last request that had one.
    user: Option<i64>,
    /// Requests of users that are not answered in full.
    held: usize,
    /// Requests that have arrived in full, and whose answers have not begun.
    working: usize,
    /// Set for a site, whose connection never makes room.
    is_kept: bool,
    /// Last use: the beginning or end of a user's request, as a number that ascends.
    used: u64,
    /// Time of its beginning.
    since: Instant,
    /// Set once a request without a user was answered.
    is_answered: bool,
    end: Arc<End>,
}

impl Record {
    /// Returns `true` for a newcomer, whose first request is in flight.
    fn is_new(&self, now: Instant) -> bool {
        self.user.is_none() && !self.is_answered && now < self.since + HEAD_TIME
    }
}

/// Notices to a connection that it has to make room.
#[derive(Debug, Default)]
struct End {
    at_once: Notify,
    /// Notice to an idle connection, which ends in order.
    in_order: Notify,
    /// Set for one that ends in order: others have its place.
    is_leaving: AtomicBool,
}

/// Turn of a connection to make room, the first ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Connection without a request of a known user.
    Unknown,
    /// Newcomer, where there are more than their share.
    NewOfMany,
    /// Connection without an open request, of a user with many.
    IdleOfMany,
    /// Connection without an open request, of a user with others.
    IdleOfSeveral,
    /// Newcomer.
    New,
    /// Connection in use, of a user with many.
    BusyOfMany,
    /// Connection without an open request, the only one of its user.
    Idle,
}

impl Turn {
    /// Returns the turn of a connection; `None` if it stays. Its user has `own` at the address.
    ///
    /// `newcomer` is that of a newcomer.
    fn of(record: &Record, own: usize, newcomer: Turn, now: Instant) -> Option<Turn> {
        match (record.user, own, record.held > 0) {
            _ if record.is_kept || record.working > 0 => None,
            (None, ..) if record.is_new(now) => Some(newcomer),
            (None, ..) => Some(Turn::Unknown),
            (Some(_), own, is_busy) if own > KEPT => {
                Some(if is_busy { Turn::BusyOfMany } else { Turn::IdleOfMany })
            }
            (Some(_), _, true) => None,
            (Some(_), 0 | 1, false) => Some(Turn::Idle),
            (Some(_), _, false) => Some(Turn::IdleOfSeveral),
        }
    }
}

/// Connection in the registry, until the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    number: u64,
    registry: Connections,
    end: Arc<End>,
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
        let is_crowded = own >= MAX_OF_ADDRESS && !is_proxy;
        let is_full = registry.all.len() >= MAX;
        match () {
            () if is_crowded => registry.make_room(&source)?,
            () if is_full => registry.make_any_room()?,
            () => {}
        }
        let (number, end) = (registry.tick(), Arc::new(End::default()));
        let record = Record {
            source,
            user: None,
            held: 0,
            working: 0,
            is_kept: false,
            used: number,
            since: Instant::now(),
            is_answered: false,
            end: Arc::clone(&end),
        };
        registry.all.insert(number, record);
        let entry = Entry { number, registry: self.clone(), end };
        Some((Connection(Arc::new(entry)), is_crowded || is_full))
    }
}

impl Registry {
    /// Returns a number that is larger than all before.
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Ends a connection of the address with the most, if one can go.
    fn make_any_room(&mut self) -> Option<()> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for record in self.all.values() {
            *counts.entry(&record.source).or_default() += 1;
        }
        let mut sources: Vec<_> =
            counts.into_iter().map(|(source, count)| (count, source.to_owned())).collect();
        sources.sort_unstable();
        sources.iter().rev().find_map(|(_, source)| self.make_room(source))
    }

    /// Ends the connection of an address that is the first to make room.
    fn make_room(&mut self, source: &str) -> Option<()> {
        let (mut of_user, mut newcomers, now) = (HashMap::new(), 0, Instant::now());
        for record in self.all.values().filter(|record| record.source == source) {
            *of_user.entry(record.user).or_insert(0) += 1;
            newcomers += usize::from(record.is_new(now));
        }
        let newcomer = if newcomers > NEWCOMERS { Turn::NewOfMany } else { Turn::New };
        // Of users the one with the most goes first, and of its connections the one that was used the longest ago.
        let order = |record: &Record| {
            let own = of_user[&record.user];
            Turn::of(record, own, newcomer, now).map(|turn| (turn, Reverse(own), record.used))
        };
        let of_source = self.all.iter().filter(|(_, record)| record.source == source);
        let able = of_source.filter_map(|(number, record)| Some((order(record)?, *number)));
        let (_, first) = able.min()?;
        let record = self.all.remove(&first)?;
        match record.user.is_some() && record.held == 0 {
            true => {
                record.end.is_leaving.store(true, Ordering::Relaxed);
                record.end.in_order.notify_one();
            }
            false => record.end.at_once.notify_one(),
        }
        Some(())
    }
}

impl Connection {
    /// Waits until the connection has to make room at once.
    pub(crate) async fn ended(&self) {
        self.0.end.at_once.notified().await;
    }

    /// Waits until the connection has to make room, and is idle.
    pub(crate) async fn ended_in_order(&self) {
        self.0.end.in_order.notified().await;
    }

    /// Ends the connection, as one that makes room.
    pub(crate) fn end(&self) {
        self.0.end.at_once.notify_one();
    }

    /// Counts a request of a known user, until the result is dropped.
    pub(crate) fn hold(&self, user: i64) -> Hold {
        self.0.change(|record, now| {
            (record.user, record.used) = (Some(user), now);
            record.held += 1;
        });
        Hold(self.clone())
    }

    /// Counts a request that has arrived in full, until the result is dropped. `None` if the connection had to make room.
    pub(crate) fn work(&self) -> Option<Work> {
        let mut is_there = false;
        self.0.change(|record, _| {
            record.working += 1;
            is_there = true;
        });
        is_there.then(|| Work(self.clone()))
    }

    /// Keeps the connection for good: it is one of a site.
    pub(crate) fn keep(&self) {
        self.0.change(|record, _| record.is_kept = true);
    }
}

impl Entry {
    /// Changes the record, unless the connection had to make room.
    fn change(&self, change: impl FnOnce(&mut Record, u64)) {
        let mut registry = self.registry.lock();
        let now = registry.tick();
        if let Some(record) = registry.all.get_mut(&self.number) {
            change(record, now);
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
        self.0.0.change(|record, now| {
            (record.held, record.used) = (record.held.saturating_sub(1), now);
        });
    }
}

/// Request that has arrived in full, and whose answer has not begun.
#[derive(Debug)]
pub(crate) struct Work(Connection);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.change(|record, now| {
            (record.working, record.used, record.is_answered) = (record.working.saturating_sub(1), now, true);
        });
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

/// Socket of a connection, of which its owner keeps a copy.
///
/// So it sees what the peer has not taken at the end.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Socket>);

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    /// Set once the peer has taken nothing for too long.
    is_late: AtomicBool,
    /// Longest time in which a peer takes nothing.
    longest: Duration,
    /// Least rate in bytes a second.
    rate: u32,
}

impl Shared {
    pub(crate) fn new(stream: TcpStream) -> Shared {
        Shared::with_limit(stream, PATIENCE, RATE)
    }

    fn with_limit(stream: TcpStream, longest: Duration, rate: u32) -> Shared {
        Shared(Arc::new(Socket { stream, is_late: AtomicBool::new(false), longest, rate }))
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0.stream
    }

    fn untaken(&self) -> u64 {
        streams::unacknowledged(self.stream()).unwrap_or(0)
    }

    /// Ends the direction to the peer, and waits until it has taken what was sent.
    ///
    /// A rest of what it sends is read.
    ///
    /// The connection keeps its place meanwhile. One that takes nothing for too long, or has to make room, is reset, so that the kernel drops the rest.
    pub(crate) async fn finish(&self, own: &Connection) {
        let is_leaving = own.0.end.is_leaving.load(Ordering::Relaxed);
        // Others have the place of one that leaves.
        let most = if is_leaving { FAREWELL } else { 5 * self.0.longest };
        let rest = async {
            self.taken().await;
            if self.untaken() == 0 {
                self.linger().await;
            }
        };
        let is_over = tokio::select! {
            biased;
            () = own.ended() => false,
            () = own.ended_in_order() => true,
            _ = tokio::time::timeout(most, rest) => true,
        };
        if !is_over || self.untaken() > 0 {
            self.reset();
        }
    }

    /// Reads what the peer sends until it ends.
    ///
    /// It is bounded in bytes, in time and in its pauses. The end of a socket with unread bytes resets the connection. A client that sends a whole body before it reads would not see why
    /// it was refused.
    async fn linger(&self) {
        let pause = REST_PAUSE.min(self.0.longest);
        let (mut bytes, mut left) = ([0; 4096], REST);
        let end = Instant::now() + self.0.longest;
        while let Ok(Ok(())) = tokio::time::timeout(pause, self.stream().readable()).await {
            match self.stream().try_read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1..=4096) if left > 0 && Instant::now() < end => left = left.saturating_sub(4096),
                _ => return,
            }
        }
    }

    /// Has the end of the socket drop what the peer has not taken.
    pub(crate) fn reset(&self) {
        // A connection that is gone needs none.
        let _ = streams::reset_at_end(self.stream());
    }

    /// Waits until the peer has taken everything, or is late.
    async fn taken(&self) {
        if self.0.is_late.load(Ordering::Relaxed) {
            return;
        }
        let start = Instant::now();
        let (mut least, mut since) = (u64::MAX, start);
        loop {
            // ENOTCONN of a socket that the peer has reset, of which the kernel still counts what it had not acknowledged.
            if rustix::net::shutdown(self.stream(), Shutdown::Write).is_err() {
                return;
            }
            let (left, now) = (self.untaken(), Instant::now());
            if left < least {
                (least, since) = (left, now);
            }
            if left == 0 || now >= since + self.0.longest || now >= start + 4 * self.0.longest {
                return;
            }
            sleep(LOOK.min(self.0.longest / 4)).await;
        }
    }
}

/// Stream that fails if the peer takes nothing for a time.
///
/// So it does if the peer takes too little for longer.
pub(crate) struct Patient {
    shared: Shared,
    end: Pin<Box<Sleep>>,
    /// Time since which the peer is waited for.
    since: Option<Instant>,
    /// Time for which it may be waited for. Each byte that it takes adds to it.
    left: Duration,
}

impl Patient {
    pub(crate) fn new(shared: Shared) -> Patient {
        let end = Box::pin(sleep(shared.0.longest));
        let left = 2 * shared.0.longest;
        Patient { shared, end, since: None, left }
    }

    /// Passes the outcome of a write on; one that has waited too long fails.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Socket { longest, rate, .. } = *self.shared.0;
        if let Poll::Ready(taken) = &outcome {
            let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            let bytes = taken.as_ref().copied().unwrap_or(0);
            let earned = Duration::from_secs_f64(bytes as f64 / f64::from(rate));
            self.left = (self.left.saturating_sub(waited) + earned).min(2 * longest);
            return outcome;
        }
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.end.as_mut().reset(now + longest.min(self.left));
        }
        ready!(self.end.as_mut().poll(context));
        self.shared.0.is_late.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Tries until there is an outcome, or the socket is not ready.
fn attempt<V>(
    mut ready: impl FnMut() -> Poll<io::Result<()>>,
    mut attempt: impl FnMut() -> io::Result<V>,
) -> Poll<io::Result<V>> {
    loop {
        ready!(ready())?;
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return Poll::Ready(outcome),
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.shared.stream();
        let read = ready!(attempt(
            || stream.poll_read_ready(context),
            || stream.try_read(buffer.initialize_unfilled())
        ))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.shared.stream();
        let outcome = attempt(|| stream.poll_write_ready(context), || stream.try_write(bytes));
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.shared.stream();
        let outcome = attempt(|| stream.poll_write_ready(context), || stream.try_write_vectored(pieces));
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(self.shared.stream(), Shutdown::Write)?))
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

    /// Opens connections with a request each, and returns them with their requests.
    fn in_use(all: &Connections, last: u8, user: i64, count: usize) -> Vec<(Hold, Connection)> {
        let open = |_| {
            let (connection, _) = all.enter(at(last), false).expect("room");
            (connection.hold(user), connection)
        };
        (0..count).map(open).collect()
    }

    fn is_there(all: &Connections, connection: &Connection) -> bool {
        all.lock().all.contains_key(&connection.0.number)
    }

    #[test]
    fn who_shares_the_address_of_a_crowd_keeps_the_own_connection() {
        let all = Connections::default();
        let (own, _) = all.enter(at(1), false).expect("room");
        drop(own.hold(1));
        // Connections without a request, with one, and with one that has no end, all younger.
        let _silent: Vec<_> =
            (0..2 * MAX_OF_ADDRESS).map(|_| all.enter(at(1), false).expect("room")).collect();
        assert!(is_there(&all, &own), "of unknown ones the oldest goes");
        let idle: Vec<_> = in_use(&all, 1, 2, MAX_OF_ADDRESS).into_iter().map(|(_, idle)| idle).collect();
        assert!(is_there(&all, &own), "of users the one with the most");
        let busy = in_use(&all, 1, 3, 2 * MAX_OF_ADDRESS);
        assert!(is_there(&all, &own), "in use too");
        assert!(is_there(&all, &busy[2 * MAX_OF_ADDRESS - 1].1) && !is_there(&all, &busy[0].1));
        let left = idle.iter().filter(|idle| is_there(&all, idle)).count();
        assert!(left <= KEPT, "idle ones go before those in use: {left}");
        assert!(all.enter(at(2), false).is_some_and(|(_, crowded)| !crowded));
    }

    /// A client that loses its connection cannot know if its request had an effect.
    #[test]
    fn a_request_in_work_keeps_its_connection_and_one_that_made_room_begins_none() {
        let all = Connections::default();
        let (first, _) = all.enter(at(1), false).expect("room");
        let work = first.work().expect("it is there");
        let (second, _) = all.enter(at(1), false).expect("room");
        let crowd: Vec<_> = (0..2 * MAX_OF_ADDRESS).map(|_| all.enter(at(1), false).expect("room")).collect();
        assert!(is_there(&all, &first) && !is_there(&all, &second));
        assert!(second.work().is_none(), "it had to make room");
        drop(work);
        let more: Vec<_> = (0..2 * MAX_OF_ADDRESS).map(|_| all.enter(at(1), false).expect("room")).collect();
        assert!(!is_there(&all, &first), "its answer has begun");
        // Of users with many connections too.
        let busy = in_use(&all, 1, 3, KEPT + 1);
        let work: Vec<_> = busy.iter().map(|(_, own)| own.work().expect("there")).collect();
        let rest: Vec<_> = (0..2 * MAX_OF_ADDRESS).map(|_| all.enter(at(1), false).expect("room")).collect();
        assert!(busy.iter().all(|(_, own)| is_there(&all, own)));
        drop((crowd, more, rest, work));
    }

    #[test]
    fn few_connections_in_use_are_kept_and_the_largest_crowd_makes_room() {
        let all = Connections::default();
        let users = 0..(MAX_OF_ADDRESS / KEPT) as i64;
        let held: Vec<_> = users.flat_map(|user| in_use(&all, 1, user, KEPT)).collect();
        assert!(all.enter(at(1), false).is_none(), "all of the address are in use, by many");
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

    /// Returns a connection: the server's end, of which the kernel keeps 64 KiB, and that of a client.
    async fn pair() -> (Shared, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        streams::bound(&listener, 64 << 10, Duration::from_secs(60)).expect("bounds");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (stream, _) = listener.accept().expect("connected");
        stream.set_nonblocking(true).expect("set");
        let stream = TcpStream::from_std(stream).expect("a stream");
        (Shared::with_limit(stream, Duration::from_millis(200), RATE), client)
    }

    /// Returns the bytes that a client reads, and `true` if a reset is their end.
    fn read(mut client: std::net::TcpStream) -> (usize, bool) {
        let mut bytes = Vec::new();
        let outcome = io::Read::read_to_end(&mut client, &mut bytes);
        (bytes.len(), outcome.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset))
    }

    /// A client takes something each tenth of a second, which is far from the least rate.
    #[tokio::test]
    async fn a_peer_that_takes_too_little_is_late() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (shared, client) = pair().await;
        let stream = Arc::into_inner(shared.0).expect("one").stream;
        let shared = Shared::with_limit(stream, Duration::from_millis(400), 100 << 20);
        client.set_nonblocking(true).expect("set");
        let mut client = TcpStream::from_std(client).expect("a stream");
        let reading = tokio::spawn(async move {
            let (mut bytes, mut count) = (vec![0; 40 << 10], 0);
            while let Ok(1..) = client.read(&mut bytes).await {
                count += 1;
                sleep(Duration::from_millis(100)).await;
            }
            count
        });
        let mut patient = Patient::new(shared.clone());
        let write = async {
            loop {
                if let Err(error) = patient.write(&[7; 16 << 10]).await {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(Duration::from_secs(10), write).await.expect("it is late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        shared.reset();
        drop((patient, shared));
        assert!(reading.await.expect("no panic") > 4, "it took something all the time");
    }

    /// Clients without TLS's close_notify close before they read that of the server, which is answered by a reset.
    #[tokio::test]
    async fn a_peer_that_is_gone_is_not_waited_for() {
        let all = Connections::default();
        let (own, _) = all.enter(at(1), false).expect("room");
        let (shared, client) = pair().await;
        let stream = Arc::into_inner(shared.0).expect("one").stream;
        let shared = Shared::with_limit(stream, Duration::from_secs(60), RATE);
        drop(client);
        shared.stream().writable().await.expect("room");
        assert_eq!(shared.stream().try_write(&[7; 24]).expect("written"), 24);
        let finished = tokio::time::timeout(Duration::from_secs(20), shared.finish(&own));
        finished.await.expect("its place is free at once");
        assert_eq!(shared.untaken(), 24, "though the kernel counts what was not acknowledged");
    }

    #[tokio::test]
    async fn the_kernel_drops_what_a_peer_does_not_take() {
        use tokio::io::AsyncWriteExt;
        let all = Connections::default();
        let (own, _) = all.enter(at(1), false).expect("room");
        let (shared, client) = pair().await;
        let (mut patient, mut taken) = (Patient::new(shared.clone()), 0);
        let error = loop {
            match patient.write(&[7; 16 << 10]).await {
                Ok(len) => taken += len,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let left = shared.untaken();
        // The last piece may go over the limit of 128 KiB.
        assert!(left > 0 && left <= 192 << 10 && taken < 1 << 20, "{taken} B, {left} B not taken");
        shared.finish(&own).await;
        drop((patient, shared));
        let (got, is_reset) = read(client);
        assert!(is_reset && got < taken, "{got} of {taken} B");
        // An answer that fits is waited for, and one that is not taken is dropped too.
        let (shared, client) = pair().await;
        let mut rest = 0;
        while shared.stream().writable().await.is_ok() && shared.stream().try_write(&[7; 4096]).is_ok() {
            rest += 4096;
        }
        let start = Instant::now();
        shared.finish(&own).await;
        assert!(start.elapsed() >= Duration::from_millis(200));
        drop(shared);
        assert!(read(client).1, "{rest} B");
        // One that is taken is whole.
        let (shared, client) = pair().await;
        Patient::new(shared.clone()).write_all(&[7; 3000]).await.expect("written");
        shared.finish(&own).await;
        drop(shared);
        assert_eq!(read(client), (3000, false));
        // A place that others need is not waited for.
        let (shared, client) = pair().await;
        while shared.stream().try_write(&[7; 4096]).is_ok() {}
        own.end();
        shared.finish(&own).await;
        drop(shared);
        assert!(read(client).1);
    }
}
