//! Bundles sent to the next node, without a node of its own.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bentpipe_dtn::session::{Config, Event};
use bentpipe_emu::{Clock, Monotonic};
use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::{Bundle, Content, HopCount, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::mtcp;

use crate::clock::dtn_time;
use crate::link::{Link, SessionLink};
use crate::stream::turn;
use crate::tls::Security;
use crate::{Layer, host, resolve};

/// Time within which a connection must be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest payload of a UDP datagram in bytes.
const MAX_DATAGRAM: usize = 65_507;
/// Maximum number of bundles without acknowledgement.
const WINDOW: usize = 64;

/// Longest bundle, and segment of one, that is accepted meanwhile. None is wanted.
const MAX_RECEIVED: u64 = 1 << 16;

/// Bundles to send to a node.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Address of the next node, as "HOST:PORT".
    pub to_node: String,
    /// Convergence layer.
    pub layer: Layer,
    /// Source endpoint.
    pub from: Eid,
    /// Destination endpoint.
    pub to: Eid,
    /// Payload of each bundle.
    pub payload: Payload,
    /// Number of bundles.
    pub count: u64,
    /// Lifetime.
    pub lifetime: Span,
    /// TLS on TCPCL.
    pub security: Security,
}

impl Sending {
    fn bundle(&self, number: u64, start: u64) -> Vec<u8> {
        let stamp = Timestamp { time: start, sequence: number };
        let lifetime = self.lifetime.as_nanos() / 1_000_000;
        let primary = Primary::new(self.from.clone(), self.to.clone(), stamp, lifetime);
        let payload = Payload { crc: CrcKind::Castagnoli, ..self.payload.clone() };
        let mut bundle = Bundle { primary, blocks: vec![], payload };
        bundle.set(Content::HopCount(HopCount { limit: 64, count: 0 }));
        bundle.to_vec()
    }
}

/// Sends all bundles and returns the number of those acknowledged.
///
/// It is the number of those sent where the layer has no acknowledgements.
///
/// # Errors
/// Returns an error if the node cannot be reached or accepts no bundle of this length.
pub fn send(sending: &Sending, stop: &AtomicBool) -> Result<u64, String> {
    let start = dtn_time();
    let bundles = (0..sending.count).map(|number| sending.bundle(number, start));
    let wrong = |error: std::io::Error| format!("{}: {error}", sending.to_node);
    let address = resolve(&sending.to_node)?;
    match sending.layer {
        Layer::Udp => over_udp(address, bundles).map_err(wrong),
        Layer::Mtcp => over_mtcp(address, bundles).map_err(wrong),
        Layer::Tcpcl => over_tcpcl(sending, address, bundles, stop),
    }
}

fn over_udp(address: SocketAddr, bundles: impl Iterator<Item = Vec<u8>>) -> std::io::Result<u64> {
    let local: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(local)?;
    let mut sent = 0;
    for bundle in bundles {
        if bundle.len() > MAX_DATAGRAM {
            let problem =
                format!("a bundle of {} B: expected at most {MAX_DATAGRAM} B in a datagram", bundle.len());
            return Err(std::io::Error::other(problem));
        }
        socket.send_to(&bundle, address)?;
        sent += 1;
    }
    Ok(sent)
}

fn over_mtcp(address: SocketAddr, bundles: impl Iterator<Item = Vec<u8>>) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    let mut sent = 0;
    for bundle in bundles {
        let mut head = Vec::new();
        mtcp::put_head(&mut head, bundle.len());
        stream.write_all(&head)?;
        stream.write_all(&bundle)?;
        sent += 1;
    }
    Ok(sent)
}

fn over_tcpcl(
    sending: &Sending,
    address: SocketAddr,
    mut bundles: impl Iterator<Item = Vec<u8>>,
    stop: &AtomicBool,
) -> Result<u64, String> {
    let wrong = |problem: String| format!("{}: {problem}", sending.to_node);
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
    let link = stream.and_then(Link::new).map_err(|error| wrong(error.to_string()))?;
    let clock = Monotonic::start();
    let node = sending.from.node().to_string();
    let config = Config { transfer_mru: MAX_RECEIVED, segment_mru: MAX_RECEIVED, ..Config::new(node) };
    let security = &sending.security;
    let secure = security.active(host(&sending.to_node), address.ip());
    let mut connection = SessionLink::new(config, security.policy(), link, secure, clock.now());
    let (mut acknowledged, mut is_over) = (0, false);
    loop {
        let session = &mut connection.session;
        while session.is_established() && !is_over && session.pending() < WINDOW {
            match bundles.next() {
                Some(bundle) => {
                    let len = bundle.len();
                    session.send(bundle).ok_or_else(|| format!("the peer accepts no bundle of {len} B"))?;
                }
                None => {
                    session.end(0);
                    is_over = true;
                }
            }
        }
        let is_open = turn(&mut connection, &clock).map_err(wrong)?;
        while let Some(event) = connection.session.poll_event() {
            acknowledged += u64::from(matches!(event, Event::Sent(_)));
        }
        if !is_open || stop.load(Ordering::Relaxed) {
            return Ok(acknowledged);
        }
    }
}
