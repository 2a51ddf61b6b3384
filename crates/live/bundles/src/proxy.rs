//! TCP streams as bundles.
//!
//! The data that a connection brings is cut into bundles, and assembled at the other end.
//! Each bundle has a header of 17 bytes: kind (0 data, 1 end, 2 reset), stream, and offset of the data in its direction. The side that
//! accepts connections numbers the streams; the other connects to its target when the first bundle of a stream has come, in any order.
//! What is missing is waited for; a stream that waits with more than 64 MB is reset.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::BundleFlags;
use bentpipe_wire::dtn::eid::Eid;
use rustix::event::PollFlags;

use crate::client::{Access, Client, HEADERS, Letter};
use crate::clock::dtn_time;
use crate::link::{Link, Progress, READ};

const DATA: u8 = 0;
const END: u8 = 1;
const RESET: u8 = 2;
/// Length of the header of a bundle.
const HEADER: usize = 17;
/// Bytes of a stream that wait for missing ones.
const MAX_WAITING: usize = 64 << 20;
/// Memory of a part that waits in addition to its bytes.
const OVERHEAD: usize = 64;
/// Bundles that the node has not acknowledged before connections are read again.
const MAX_PENDING: usize = 64;
/// Maximum number of streams.
const MAX_STREAMS: usize = 1000;
/// Number of ended streams whose late bundles are recognised.
const MEMORY: usize = 10_000;

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

/// Reassembly of the data of a direction.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    end: Option<u64>,
}

impl Order {
    /// Adds data and returns what is in order. `None` if too much waits.
    fn add(&mut self, offset: u64, data: &[u8]) -> Option<Vec<u8>> {
        if offset.checked_add(data.len() as u64).is_some_and(|end| end > self.next) {
            self.bytes += data.len() + OVERHEAD;
            if let Some(old) = self.waiting.insert(offset, data.to_vec()) {
                self.bytes -= old.len() + OVERHEAD;
            }
        }
        let mut out = Vec::new();
        while let Some((&start, _)) = self.waiting.first_key_value()
            && start <= self.next
            && let Some(part) = self.waiting.remove(&start)
        {
            self.bytes -= part.len() + OVERHEAD;
            let known = ((self.next - start) as usize).min(part.len());
            out.extend(&part[known..]);
            self.next += (part.len() - known) as u64;
        }
        (self.bytes <= MAX_WAITING).then_some(out)
    }

    fn is_over(&self) -> bool {
        self.end == Some(self.next)
    }
}

struct Stream {
    link: Link,
    sent: u64,
    order: Order,
    /// Set once the end of this side has been sent.
    is_ended: bool,
    /// Set once the end of the other side has been passed on.
    is_shut: bool,
}

impl Stream {
    fn new(link: Link) -> Stream {
        Stream { link, sent: 0, order: Order::default(), is_ended: false, is_shut: false }
    }
}

struct Proxy<'a> {
    proxying: &'a Proxying,
    client: Client,
    listener: Option<TcpListener>,
    streams: HashMap<u64, Stream>,
    over: Vec<u64>,
    next: u64,
    totals: Totals,
}

/// Carries streams until `stop` is set. `ready` is called once connections are accepted.
///
/// # Errors
/// Returns an error if the address cannot be used, or the node cannot be reached or ends the session.
pub fn proxy(proxying: &Proxying, stop: &AtomicBool, ready: &mut dyn FnMut()) -> Result<Totals, String> {
    // A stream ends at what is longer.
    let client = Client::connect_for(&proxying.node, &proxying.from, MAX_WAITING as u64 + HEADERS)?;
    let listener = proxying.listen.map(listen).transpose()?;
    let mut proxy = Proxy {
        proxying,
        client,
        listener,
        streams: HashMap::new(),
        over: Vec::new(),
        next: dtn_time() << 16,
        totals: Totals::default(),
    };
    ready();
    while !stop.load(Ordering::Relaxed) {
        proxy.turn()?;
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
        let is_reading = self.client.pending() < MAX_PENDING;
        let streams = self.streams.values();
        let interests = streams.map(|stream| stream.link.interest_in(is_reading && !stream.is_ended));
        let listener = self.listener.iter().map(|listener| (listener.as_fd(), PollFlags::IN));
        self.client.wait_with(interests.chain(listener), Span::from_millis(50));
        self.client.turn(Span::ZERO)?;
        self.accept();
        while let Some(bundle) = self.client.receive() {
            if bundle.primary.source == self.proxying.to {
                self.take(&bundle.payload.to_vec())?;
            }
        }
        if self.client.pending() < MAX_PENDING {
            for id in self.streams.keys().copied().collect::<Vec<_>>() {
                self.read(id)?;
            }
        }
        self.write()
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            if self.streams.len() < MAX_STREAMS
                && let Ok(link) = Link::new(stream)
            {
                self.streams.insert(self.next, Stream::new(link));
                self.next += 1;
                self.totals.streams += 1;
            }
        }
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

    /// Handles a bundle of the other proxy.
    fn take(&mut self, payload: &[u8]) -> Result<(), String> {
        let Some((header, data)) = Header::read(payload) else { return Ok(()) };
        let id = header.stream;
        if !self.streams.contains_key(&id) && (header.kind == RESET || !self.open(id)) {
            return self.refuse(header);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if header.kind == RESET {
            self.remove(id, true);
            return Ok(());
        }
        if header.kind == END {
            stream.order.end = Some(header.offset);
        }
        match stream.order.add(header.offset, data) {
            Some(data) => {
                self.totals.received += data.len() as u64;
                stream.link.put(&data);
                Ok(())
            }
            None => {
                self.remove(id, true);
                self.send(Header { kind: RESET, stream: id, offset: 0 }, &[])
            }
        }
    }

    /// Sends a reset, once, for a stream that has no connection here.
    fn refuse(&mut self, Header { kind, stream, .. }: Header) -> Result<(), String> {
        if kind == RESET || self.over.contains(&stream) {
            return Ok(());
        }
        self.remove(stream, true);
        self.send(Header { kind: RESET, stream, offset: 0 }, &[])
    }

    /// Returns `true` if a new stream of the other proxy is connected to the target.
    fn open(&mut self, id: u64) -> bool {
        if self.over.contains(&id) || self.streams.len() >= MAX_STREAMS {
            return false;
        }
        let Some(link) = self.proxying.connect.and_then(|target| Link::connect(target).ok()) else {
            return false;
        };
        self.streams.insert(id, Stream::new(link));
        self.totals.streams += 1;
        true
    }

    /// Writes to connections, and passes ends on.
    fn write(&mut self) -> Result<(), String> {
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if stream.link.flush().is_err() {
                self.remove(id, true);
                self.send(Header { kind: RESET, stream: id, offset: 0 }, &[])?;
                continue;
            }
            if stream.order.is_over() && stream.link.backlog() == 0 && !stream.is_shut {
                stream.link.shut();
                stream.is_shut = true;
            }
            if stream.is_shut && stream.is_ended {
                self.remove(id, false);
            }
        }
        Ok(())
    }

    fn remove(&mut self, id: u64, is_reset: bool) {
        let stream = self.streams.remove(&id);
        if is_reset {
            stream.iter().for_each(|stream| stream.link.reset());
            self.totals.resets += 1;
        }
        self.over.push(id);
        if self.over.len() > MEMORY {
            self.over.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_put_in_order_with_overlaps_and_bounded() {
        let mut order = Order::default();
        assert_eq!(order.add(3, b"def"), Some(vec![]));
        assert_eq!(order.add(2, b"cdefgh"), Some(vec![]));
        assert_eq!(order.add(0, b"abc"), Some(b"abcdefgh".to_vec()));
        assert_eq!(order.add(0, b"abc"), Some(vec![]), "a repetition");
        order.end = Some(8);
        assert!(order.is_over() && order.bytes == 0);
        assert_eq!(order.add(1 << 40, &vec![0; MAX_WAITING + 1]), None);
        assert_eq!(order.add(u64::MAX, b"x"), None, "beyond any stream: still too much waits");
    }

    #[test]
    fn headers_round_trip() {
        let header = Header { kind: END, stream: 7 << 40, offset: 9 };
        assert_eq!(Header::read(&header.put(b"x")), Some((header, &b"x"[..])));
        assert_eq!((Header::read(&[0; 16]), Header::read(&[3; 17])), (None, None));
    }
}
