//! `bentpipe dtn send`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bentpipe_dtn::session::{Config, Event, Session};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::bundle::{Bundle, Content, HopCount, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::mtcp;
use clap::Args;

use super::wire::{Clock, Layer, dtn_time, prepare, turn};
use crate::show::out;

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Address of the next node: HOST:PORT
    to_node: String,
    /// File whose bytes are the payload
    file: Option<PathBuf>,
    /// Convergence layer
    #[arg(long, value_enum, default_value_t = Layer::Tcpcl)]
    layer: Layer,
    /// Source endpoint
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Destination endpoint
    #[arg(long, value_name = "EID")]
    to: Eid,
    /// Length of a payload of zeros, in place of a file
    #[arg(long, value_name = "BYTES", conflicts_with = "file")]
    size: Option<Bytes>,
    /// Number of bundles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Lifetime
    #[arg(long, value_name = "TIME", default_value = "1 h")]
    lifetime: Span,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Time within which a connection must be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bundles without acknowledgement.
const WINDOW: usize = 64;

impl SendArgs {
    fn payload(&self) -> Result<Payload, String> {
        let bytes = match (&self.file, self.size) {
            (_, Some(size)) => return Ok(Payload::elided(size.get())),
            (Some(path), None) => {
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            (None, None) => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
                bytes
            }
        };
        Ok(Payload::new(bytes))
    }

    fn bundle(&self, payload: &Payload, number: u64, start: u64) -> Vec<u8> {
        let stamp = Timestamp { time: start, sequence: number };
        let lifetime = self.lifetime.as_nanos() / 1_000_000;
        let primary = Primary::new(self.from.clone(), self.to.clone(), stamp, lifetime);
        let payload = Payload { crc: CrcKind::Castagnoli, ..payload.clone() };
        let mut bundle = Bundle { primary, blocks: vec![], payload };
        bundle.set(Content::HopCount(HopCount { limit: 64, count: 0 }));
        bundle.to_vec()
    }
}

/// Sends all bundles and returns the exit code.
pub(super) fn run(args: &SendArgs, stop: &AtomicBool) -> Result<u8, String> {
    let payload = args.payload()?;
    let start = dtn_time();
    let bundles = (0..args.count).map(|number| args.bundle(&payload, number, start));
    let wrong = |error: std::io::Error| format!("{}: {error}", args.to_node);
    let address = args.to_node.to_socket_addrs().map_err(wrong)?.next();
    let address = address.ok_or_else(|| format!("{}: no address", args.to_node))?;
    let sent = match args.layer {
        Layer::Udp => over_udp(address, bundles).map_err(wrong)?,
        Layer::Mtcp => over_mtcp(address, bundles).map_err(wrong)?,
        Layer::Tcpcl => over_tcpcl(args, address, bundles, stop)?,
    };
    if !args.quiet {
        let word = if args.layer == Layer::Tcpcl { "acknowledged" } else { "sent" };
        out(&format!("{sent} of {} bundles {word}\n", args.count));
    }
    Ok(u8::from(sent < args.count))
}

fn over_udp(address: SocketAddr, bundles: impl Iterator<Item = Vec<u8>>) -> std::io::Result<u64> {
    let local: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(local)?;
    let mut sent = 0;
    for bundle in bundles {
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
    args: &SendArgs,
    address: SocketAddr,
    mut bundles: impl Iterator<Item = Vec<u8>>,
    stop: &AtomicBool,
) -> Result<u64, String> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .map_err(|error| format!("{}: {error}", args.to_node))?;
    prepare(&stream)?;
    let clock = Clock::new();
    let mut session = Session::new(Config::new(args.from.node().to_string()), clock.now());
    let (mut acknowledged, mut is_over) = (0, false);
    loop {
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
        let is_open = turn(&mut session, &mut stream, &clock)?;
        while let Some(event) = session.poll_event() {
            acknowledged += u64::from(matches!(event, Event::Sent(_)));
        }
        if !is_open || stop.load(Ordering::Relaxed) {
            return Ok(acknowledged);
        }
    }
}
