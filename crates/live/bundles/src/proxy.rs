//! TCP streams as bundles.
//!
//! The data that a connection brings is cut into bundles, and assembled at the other end.
//! Each bundle has a header of 17 bytes: kind (0 data, 1 end, 2 reset), stream, and offset of the data in its direction. The side that
//! accepts connections numbers the streams; the other connects to its target when the first bundle of a stream has come, in any order.
//! What is missing is waited for; a stream that waits with more than 64 MB is reset.
//!
//! Data that connections do not take has a bound for all streams together. Beyond it bundles are not acknowledged, so that the node keeps
//! what follows in its store. Where all of it waits for missing data they are, one at a time, as the missing data is among what follows. All streams have one session with the node, and wait together then. So one that delivers too little of what
//! it holds is reset once half of the memory is in use.
//!
//! Bundles of guests of the node may state the other proxy as their source. They have a quarter of the streams, which give way to those of
//! known senders, and no say in streams that others opened.

mod order;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::{open_files, shares};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::dtn::bundle::BundleFlags;
use bentpipe_wire::dtn::eid::Eid;
use rustix::event::PollFlags;

use crate::client::{Access, Client, HEADERS, Letter, is_of_guest};
use crate::clock::dtn_time;
use crate::link::{Link, Progress, READ};
use order::{MAX_WAITING, Order, Ready};

const DATA: u8 = 0;
const END: u8 = 1;
const RESET: u8 = 2;
/// Length of the header of a bundle.
const HEADER: usize = 17;
/// Default of [`Proxying::memory`].
pub const MEMORY: Bytes = Bytes::new(256_000_000);
/// Default of [`Proxying::stall`].
pub const STALL: Span = Span::from_secs(60);
/// Bytes beyond the memory that a node may have on their way.
///
/// A node of this project stops at 8 MiB without an acknowledgement. One that goes on is not read any more.
const MAX_FLIGHT: usize = 16 << 20;
/// Part of the streams that bundles of guests may open.
const GUESTS: usize = 4;
/// Time without data after which a stream of guests gives way to another one.
///
/// If its target has sent nothing yet it ends.
const IDLE: Span = Span::from_secs(60);
/// Time between lines about bundles of guests that are left out.
const NOTICE_INTERVAL: Span = Span::from_secs(60);
/// Time between looks for streams that give way.
const RELIEF_INTERVAL: Span = Span::from_secs(1);
/// Most streams that give way at a look.
const RELIEVED: usize = 8;
/// Bundles that the node has not acknowledged before connections are read again.
const MAX_PENDING: usize = 64;
/// Maximum number of streams.
const MAX_STREAMS: usize = 1000;
/// Descriptors that streams leave to the rest of the program.
const OTHERS: u64 = 64;
/// Number of ended streams whose late bundles are recognised.
const REMEMBERED: usize = 10_000;

/// Settings of a proxy.
#[derive(Clone, Debug)]
pub struct Proxying {
    /// Address of the node.
    pub node: Access,
    /// Endpoint of this proxy.
    pub from: Eid,
    /// Endpoint of the other proxy.
    pub to: Eid,
    /// Address at which connections are accepted.
    pub listen: Option<SocketAddr>,
    /// Target of streams from the other proxy.
    pub connect: Option<SocketAddr>,
    /// Longest data of a bundle.
    pub segment: usize,
    /// Lifetime.
    pub lifetime: Span,
    /// Memory for data that connections have not taken. Beyond it the node keeps bundles.
    pub memory: Bytes,
    /// Time in which a stream delivers 64 KiB of more that it holds.
    ///
    /// One that delivers less gives way once half of the memory is in use.
    pub stall: Span,
}

/// Counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Streams opened.
    pub streams: u64,
    /// Bytes into bundles.
    pub sent: u64,
    /// Bytes out of bundles.
    pub received: u64,
    /// Streams that were reset.
    pub resets: u64,
    /// Streams of these that gave way, as they delivered too little while memory was short.
    pub stalled: u64,
    /// Bundles of guests for streams of others, or beyond their part of the streams.
    pub left_out: u64,
    /// Maximum of the memory of data that connections had not taken.
    pub peak: u64,
    /// Maximum of the part of it that waited for missing data.
    pub waited: u64,
}

/// Header of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    kind: u8,
    stream: u64,
    offset: u64,
}

impl Header {
    fn put(self, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + data.len());
        out.push(self.kind);
        out.extend(self.stream.to_be_bytes());
        out.extend(self.offset.to_be_bytes());
        out.extend(data);
        out
    }

    fn read(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (head, data) = bytes.split_at_checked(HEADER)?;
        let word = |at: usize| head[at..at + 8].try_into().ok().map(u64::from_be_bytes);
        let header = Header { kind: head[0], stream: word(1)?, offset: word(9)? };
        (header.kind <= RESET).then_some((header, data))
    }
}

struct Stream {
    link: Link,
    /// Host that began it, if that is here.
    client: Option<IpAddr>,
    /// Set if a bundle of a guest began it.
    is_guests: bool,
    /// Time of the last data of either direction.
    active_at: Time,
    sent: u64,
    order: Order,
    /// Data for the connection.
    ready: Ready,
    progress: order::Progress,
    /// Memory that the proxy counts, and the part of it that waits for missing data.
    counted: [usize; 2],
    /// Set once the end of this side has been sent.
    is_ended: bool,
    /// Set once the end of the other side has been passed on.
    is_shut: bool,
}

impl Stream {
    fn new(link: Link, (client, is_guests): (Option<IpAddr>, bool), now: Time) -> Stream {
        Stream {
            link,
            client,
            is_guests,
            active_at: now,
            sent: 0,
            order: Order::default(),
            ready: Ready::default(),
            progress: order::Progress::new(now),
            counted: [0; 2],
            is_ended: false,
            is_shut: false,
        }
    }

    /// Returns the memory of data that the connection has not taken.
    fn held(&self) -> usize {
        self.order.held() + self.ready.held() + self.link.backlog()
    }

    /// Writes data as far as the connection takes it.
    fn write(&mut self, now: Time) -> std::io::Result<()> {
        loop {
            while !self.link.is_full()
                && let Some(part) = self.ready.pop()
            {
                self.link.put(&part);
            }
            self.link.flush()?;
            if self.link.backlog() > 0 || self.ready.held() == 0 {
                let waiting = (self.ready.held() + self.link.backlog()) as u64;
                let delivered = self.order.next().saturating_sub(waiting);
                self.progress.note(self.held() as u64, delivered, now);
                return Ok(());
            }
        }
    }
}

struct Proxy<'a> {
    proxying: &'a Proxying,
    client: Client,
    listener: Option<TcpListener>,
    streams: HashMap<u64, Stream>,
    over: Vec<u64>,
    next: u64,
    /// Maximum number of streams.
    most: usize,
    /// Memory of data that connections have not taken.
    held: usize,
    /// Part of it that waits for missing data.
    waiting: usize,
    /// Bundles that are taken and not acknowledged.
    unaccepted: usize,
    /// Set once a bundle of the other proxy has come that no guest brought.
    is_peer_known: bool,
    /// Streams that guests have opened, or tried to, since an instant.
    opened_by_guests: (usize, Time),
    /// Time of the next look for streams that give way.
    relieved_at: Time,
    totals: Totals,
}

/// Event that the caller of [`proxy`] is to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Connections are accepted.
    Ready,
    /// Number of guests' bundles left out in the last minute, and number of streams.
    LeftOut(u64, usize),
}

/// Carries streams until `stop` is set.
///
/// # Errors
/// Returns an error if the address cannot be used, or the node cannot be reached or ends the session.
pub fn proxy(
    proxying: &Proxying,
    stop: &AtomicBool,
    print: &mut dyn FnMut(Notice),
) -> Result<Totals, String> {
    // A stream ends at what is longer.
    let longest = MAX_WAITING as u64 + HEADERS;
    let client = Client::connect_deferred(&proxying.node, &proxying.from, longest)?;
    let listener = proxying.listen.map(listen).transpose()?;
    let mut proxy = Proxy {
        proxying,
        client,
        listener,
        streams: HashMap::new(),
        over: Vec::new(),
        next: dtn_time() << 16,
        most: open_files::allow(MAX_STREAMS, 1, OTHERS),
        held: 0,
        waiting: 0,
        unaccepted: 0,
        is_peer_known: false,
        opened_by_guests: (0, Time::ZERO),
        relieved_at: Time::ZERO,
        totals: Totals::default(),
    };
    print(Notice::Ready);
    let (mut noted, mut note_at) = (0, Time::ZERO);
    while !stop.load(Ordering::Relaxed) {
        proxy.turn()?;
        let (left_out, now) = (proxy.totals.left_out, proxy.client.now());
        if left_out > noted && now >= note_at {
            print(Notice::LeftOut(left_out - noted, proxy.streams.len()));
            (noted, note_at) = (left_out, now + NOTICE_INTERVAL);
        }
    }
    proxy.client.close();
    Ok(proxy.totals)
}

fn listen(at: SocketAddr) -> Result<TcpListener, String> {
    let wrong = |error: std::io::Error| format!("{at}: {error}");
    let listener = TcpListener::bind(at).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}

impl Proxy<'_> {
    fn turn(&mut self) -> Result<(), String> {
        let most = self.proxying.memory.get() as usize;
        let bound = most.saturating_add(MAX_FLIGHT);
        // What is missing is read in any case, up to what a stream may wait with.
        self.client.hold(self.held - self.waiting >= bound || self.held >= bound.saturating_add(MAX_WAITING));
        let is_reading = self.client.pending() < MAX_PENDING;
        let streams = self.streams.values();
        let interests = streams.map(|stream| stream.link.interest_in(is_reading && !stream.is_ended));
        let listener = self.listener.iter().map(|listener| (listener.as_fd(), PollFlags::IN));
        self.client.wait_with(interests.chain(listener), Span::from_millis(50));
        self.client.turn(Span::ZERO)?;
        self.accept()?;
        while let Some(bundle) = self.client.receive() {
            self.unaccepted += 1;
            if bundle.primary.source == self.proxying.to {
                self.take(&bundle.payload.to_vec(), is_of_guest(&bundle))?;
            }
        }
        if self.client.pending() < MAX_PENDING {
            for id in self.streams.keys().copied().collect::<Vec<_>>() {
                self.read(id)?;
            }
        }
        self.write()?;
        self.relieve()?;
        // What is acknowledged makes the node send more.
        while self.unaccepted > 0 && self.held < most {
            self.unaccepted -= 1;
            self.client.accept();
        }
        // No connection takes any of it, so that none of it goes before what is missing has come.
        if self.unaccepted > 0 && self.held == self.waiting {
            self.unaccepted -= 1;
            self.client.accept();
        }
        Ok(())
    }

    /// Counts the memory of a stream again.
    fn count(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let new = [stream.held(), stream.order.held()];
        let old = std::mem::replace(&mut stream.counted, new);
        self.held = self.held - old[0] + new[0];
        self.waiting = self.waiting - old[1] + new[1];
        self.totals.peak = self.totals.peak.max(self.held as u64);
        self.totals.waited = self.totals.waited.max(self.waiting as u64);
    }

    /// Resets stalled streams once half of the memory is in use.
    ///
    /// Those that hold the most are first.
    fn relieve(&mut self) -> Result<(), String> {
        let (now, stall) = (self.client.now(), self.proxying.stall);
        if now < self.relieved_at || (self.held as u64) < self.proxying.memory.get() / 2 {
            return Ok(());
        }
        self.relieved_at = now + RELIEF_INTERVAL;
        let stalled = self.streams.iter().filter(|(_, stream)| stream.progress.is_stalled(stall, now));
        let mut stalled: Vec<_> = stalled.map(|(id, stream)| (stream.counted[0], *id)).collect();
        stalled.sort_unstable_by(|one, other| other.cmp(one));
        for (_, id) in stalled.into_iter().take(RELIEVED) {
            self.totals.stalled += 1;
            self.reset(id)?;
        }
        Ok(())
    }

    /// Resets a stream at both ends.
    fn reset(&mut self, id: u64) -> Result<(), String> {
        self.remove(id, true);
        self.send(Header { kind: RESET, stream: id, offset: 0 }, &[])
    }

    /// Accepts connections. Beyond the maximum the oldest of the host that has the most gives way to one of another.
    fn accept(&mut self) -> Result<(), String> {
        while let Some(accepted) = self.listener.as_ref().map(TcpListener::accept) {
            let (stream, host) = match accepted {
                Ok((stream, address)) => (Some(stream), address.ip()),
                // The next one finds the descriptor of the one that gives way.
                Err(error) if open_files::is_exhausted(&error) => (None, Ipv4Addr::UNSPECIFIED.into()),
                Err(_) => return Ok(()),
            };
            let is_full = self.streams.len() >= self.most || stream.is_none();
            if is_full && !self.make_room(host)? {
                // One that is dropped has ended; without a descriptor there is nothing to drop.
                if stream.is_none() {
                    return Ok(());
                }
                continue;
            }
            if let Some(link) = stream.and_then(|stream| Link::new(stream).ok()) {
                self.streams.insert(self.next, Stream::new(link, (Some(host), false), self.client.now()));
                self.next += 1;
                self.totals.streams += 1;
            }
        }
        Ok(())
    }

    /// Returns `true` if a stream of another host gave way.
    fn make_room(&mut self, host: IpAddr) -> Result<bool, String> {
        let held = self.streams.iter().filter_map(|(id, stream)| Some((stream.client?, *id)));
        let Some(id) = shares::gives_way(held, host) else { return Ok(false) };
        self.reset(id)?;
        Ok(true)
    }

    fn send(&mut self, header: Header, data: &[u8]) -> Result<(), String> {
        let lifetime = (self.proxying.lifetime.as_nanos() / 1_000_000).max(1);
        let (to, flags) = (self.proxying.to.clone(), BundleFlags::default());
        self.client.send(&Letter { to, lifetime, hops: 64, flags }, header.put(data)).map(|_| ())
    }

    /// Cuts what a connection has brought into bundles.
    fn read(&mut self, id: u64) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_ended) else { return Ok(()) };
        let mut data = Vec::new();
        let result = stream.link.read(READ, &mut |bytes| {
            data.extend(bytes);
            true
        });
        let offset = stream.sent;
        if !data.is_empty() {
            stream.active_at = self.client.now();
        }
        stream.sent += data.len() as u64;
        self.totals.sent += data.len() as u64;
        for (n, part) in data.chunks(self.proxying.segment).enumerate() {
            let offset = offset + (n * self.proxying.segment) as u64;
            self.send(Header { kind: DATA, stream: id, offset }, part)?;
        }
        let kind = match result {
            Ok(Progress::Idle | Progress::More) => return Ok(()),
            Ok(Progress::Closed) => END,
            Err(_) => RESET,
        };
        self.send(Header { kind, stream: id, offset: offset + data.len() as u64 }, &[])?;
        match self.streams.get_mut(&id) {
            Some(stream) if kind == END => stream.is_ended = true,
            _ => self.remove(id, true),
        }
        Ok(())
    }

    /// Handles a bundle that says it is of the other proxy. One of a guest may be of anyone.
    fn take(&mut self, payload: &[u8], is_guests: bool) -> Result<(), String> {
        let Some((header, data)) = Header::read(payload) else { return Ok(()) };
        let id = header.stream;
        let known = self.streams.get(&id).map(|stream| stream.is_guests);
        self.is_peer_known |= !is_guests;
        // Where the nodes are guests of each other all bundles are such.
        let has_say = known != Some(false) || !self.is_peer_known;
        // No answer: it would be one for each, to a proxy that has asked for nothing.
        if is_guests && (!has_say || known.is_none() && !self.has_room_for_guests()?) {
            self.totals.left_out += 1;
            return Ok(());
        }
        if known == Some(true) && !is_guests {
            // The other proxy has this number, which a guest has guessed.
            self.remove(id, true);
            self.over.retain(|over| *over != id);
        }
        if !self.streams.contains_key(&id) && (header.kind == RESET || !self.open(id, is_guests)?) {
            return self.refuse(header);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.active_at = self.client.now();
        if header.kind == RESET {
            self.remove(id, true);
            return Ok(());
        }
        if header.kind == END {
            stream.order.end = Some(header.offset);
        }
        let before = stream.order.next();
        if !stream.order.add(header.offset, data, &mut stream.ready) {
            return self.reset(id);
        }
        self.totals.received += stream.order.next() - before;
        self.count(id);
        Ok(())
    }

    /// Sends a reset, once, for a stream that has no connection here.
    fn refuse(&mut self, Header { kind, stream, .. }: Header) -> Result<(), String> {
        if kind == RESET || self.over.contains(&stream) {
            return Ok(());
        }
        self.reset(stream)
    }

    /// Returns `true` if a guest's bundle may open a stream. One without data for a time gives way.
    fn has_room_for_guests(&mut self) -> Result<bool, String> {
        let now = self.client.now();
        if now >= self.opened_by_guests.1 + IDLE {
            self.opened_by_guests = (0, now);
        }
        // They end as fast as they begin, if their sender resets them.
        if self.opened_by_guests.0 >= self.most / GUESTS {
            return Ok(false);
        }
        let guests = self.streams.values().filter(|stream| stream.is_guests).count();
        if guests < self.most / GUESTS && self.streams.len() < self.most {
            return Ok(true);
        }
        let Some((id, active_at)) = self.idle_guest() else { return Ok(false) };
        let is_idle = active_at + IDLE <= now;
        if is_idle {
            self.reset(id)?;
        }
        Ok(is_idle)
    }

    /// Returns the stream of guests that has been idle for the longest, and since when.
    fn idle_guest(&self) -> Option<(u64, Time)> {
        let guests = self.streams.iter().filter(|(_, stream)| stream.is_guests);
        let (at, id) = guests.map(|(id, stream)| (stream.active_at, *id)).min()?;
        Some((id, at))
    }

    /// Returns `true` if a new stream is connected to the target. One of guests gives way to one of the other proxy.
    fn open(&mut self, id: u64, is_guests: bool) -> Result<bool, String> {
        self.opened_by_guests.0 += usize::from(is_guests);
        let is_full = self.streams.len() >= self.most;
        if is_full && let Some((idle, _)) = self.idle_guest().filter(|_| !is_guests) {
            self.reset(idle)?;
        }
        if self.over.contains(&id) || self.streams.len() >= self.most {
            return Ok(false);
        }
        let Some(link) = self.proxying.connect.and_then(|target| Link::connect(target).ok()) else {
            return Ok(false);
        };
        self.streams.insert(id, Stream::new(link, (None, is_guests), self.client.now()));
        self.totals.streams += 1;
        Ok(true)
    }

    /// Writes to connections, and passes ends on.
    fn write(&mut self) -> Result<(), String> {
        let now = self.client.now();
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            // A guest that knows the target's protocol has an answer of it.
            let is_idle = stream.is_guests && stream.sent == 0 && stream.active_at + IDLE <= now;
            if is_idle || stream.write(now).is_err() {
                self.reset(id)?;
                continue;
            }
            if stream.order.is_over() && stream.held() == 0 && !stream.is_shut {
                stream.link.shut();
                stream.is_shut = true;
            }
            if stream.is_shut && stream.is_ended {
                self.remove(id, false);
            }
            self.count(id);
        }
        Ok(())
    }

    fn remove(&mut self, id: u64, is_reset: bool) {
        let stream = self.streams.remove(&id);
        let [held, waiting] = stream.as_ref().map_or([0; 2], |stream| stream.counted);
        (self.held, self.waiting) = (self.held - held, self.waiting - waiting);
        if is_reset {
            stream.iter().for_each(|stream| stream.link.reset());
            self.totals.resets += 1;
        }
        self.over.push(id);
        if self.over.len() > REMEMBERED {
            self.over.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = Header { kind: END, stream: 7 << 40, offset: 9 };
        assert_eq!(Header::read(&header.put(b"x")), Some((header, &b"x"[..])));
        assert_eq!((Header::read(&[0; 16]), Header::read(&[3; 17])), (None, None));
    }
}
