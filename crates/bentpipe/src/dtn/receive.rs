//! `bentpipe dtn receive`.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_dtn::session::{Config, Event, Session};
use bentpipe_wire::dtn::KEEP_ALIVE;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::mtcp;
use clap::Args;

use super::wire::{Clock, Layer, TURN, dtn_time, is_idle, prepare, turn, write};
use crate::show::{note, out};

#[derive(Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// Local address: PORT for all IPv4 addresses, or ADDRESS:PORT
    #[arg(value_parser = place)]
    at: SocketAddr,
    /// Convergence layer
    #[arg(long, value_enum, default_value_t = Layer::Tcpcl)]
    layer: Layer,
    /// Endpoint of this node, for TCPCL
    #[arg(long, value_name = "EID", default_value = "ipn:2.0")]
    node: Eid,
    /// End after this number of bundles
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Write each payload to a file in this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Longest bundle that is accepted, in bytes.
const LIMIT: u64 = 1 << 30;

fn place(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into());
    }
    text.parse().map_err(|_| "expected PORT, as 4556, or ADDRESS:PORT, as 10.0.0.1:4556".to_owned())
}

/// Bundles received up to now.
struct Inbox<'a> {
    args: &'a ReceiveArgs,
    stop: &'a AtomicBool,
    received: u64,
    refused: u64,
}

/// Receives until the end and returns the exit code.
pub(super) fn run(args: &ReceiveArgs, stop: &AtomicBool) -> Result<u8, String> {
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut inbox = Inbox { args, stop, received: 0, refused: 0 };
    match args.layer {
        Layer::Udp => inbox.datagrams()?,
        Layer::Mtcp | Layer::Tcpcl => inbox.connections()?,
    }
    if inbox.refused > 0 {
        note(&format!("{} bundles refused", inbox.refused));
    }
    Ok(u8::from(inbox.refused > 0))
}

impl Inbox<'_> {
    fn is_over(&self) -> bool {
        self.args.count.is_some_and(|count| self.received >= count) || self.stop.load(Ordering::Relaxed)
    }

    /// Checks and keeps an encoded bundle.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let bundle = Bundle::parse(bytes).map_err(|error| error.to_string());
        let bundle = bundle.and_then(|bundle| match bundle.check() {
            Ok(()) => Ok(bundle),
            Err(breach) => Err(breach.to_string()),
        });
        match bundle {
            Ok(bundle) => self.keep(&bundle, bytes.len()),
            Err(problem) => {
                self.refused += 1;
                note(&format!("bundle of {} B refused: {problem}", bytes.len()));
                Ok(())
            }
        }
    }

    fn keep(&mut self, bundle: &Bundle, len: usize) -> Result<(), String> {
        self.received += 1;
        if !self.args.quiet {
            let (source, destination) = (&bundle.primary.source, &bundle.primary.destination);
            let age = dtn_time().saturating_sub(bundle.primary.timestamp.time);
            let payload = bundle.payload.len();
            out(&format!(
                "{} {source} -> {destination} payload {payload} B of {len} B, {age} ms after its creation\n",
                self.received
            ));
        }
        match &self.args.out {
            Some(folder) => {
                write(&folder.join(format!("{:06}.bin", self.received)), &bundle.payload.to_vec())
            }
            None => Ok(()),
        }
    }

    fn datagrams(&mut self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.args.at);
        let socket = UdpSocket::bind(self.args.at).map_err(wrong)?;
        socket.set_read_timeout(Some(TURN)).map_err(|error| error.to_string())?;
        let mut buffer = vec![0; 1 << 16];
        while !self.is_over() {
            match socket.recv(&mut buffer) {
                Ok(len) if buffer[..len] == KEEP_ALIVE => {}
                Ok(len) => self.take(&buffer[..len])?,
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn connections(&mut self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.args.at);
        let listener = TcpListener::bind(self.args.at).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        while !self.is_over() {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
                    self.connection(stream)?;
                }
                Err(error) if is_idle(&error) => pause(),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn connection(&mut self, stream: TcpStream) -> Result<(), String> {
        prepare(&stream)?;
        let ended = match self.args.layer {
            Layer::Mtcp => self.mtcp(stream),
            _ => self.tcpcl(stream),
        };
        // A connection that fails ends itself alone.
        ended.unwrap_or_else(|problem| note(&problem));
        Ok(())
    }

    fn mtcp(&mut self, mut stream: TcpStream) -> Result<(), String> {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while !self.is_over() {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => input.extend(&buffer[..len]),
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
            while let Some((len, head)) = mtcp::read_head(&input, LIMIT).map_err(|error| error.to_string())? {
                if input.len() < head + len {
                    break;
                }
                self.take(&input[head..head + len])?;
                input.drain(..head + len);
            }
        }
        Ok(())
    }

    fn tcpcl(&mut self, mut stream: TcpStream) -> Result<(), String> {
        let clock = Clock::new();
        let mut session = Session::new(Config::new(self.args.node.node().to_string()), clock.now());
        let mut is_open = true;
        while is_open {
            is_open = turn(&mut session, &mut stream, &clock)?;
            while let Some(event) = session.poll_event() {
                if let Event::Received(bundle) = event {
                    self.take(&bundle)?;
                }
            }
            if self.is_over() {
                session.end(0);
            }
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a listener without connections waits in real time")]
fn pause() {
    std::thread::sleep(TURN);
}
