//! UDP socket, TCP listener and TCP connections of an agent.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bentpipe_emu::datagrams::{refusals, report_refusals};
use bentpipe_emu::{open_files, shares, streams};
use bentpipe_signalling::sip::{Framer, Malformed, Message, Transport};
use bentpipe_signalling::transaction::{Peer, Transmit};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Maximum number of TCP connections.
const MAX_CONNECTIONS: usize = 1024;
/// Descriptors that connections leave to the sockets of voice and to others.
const OTHERS: u64 = 256;
/// Maximum number of bytes that wait for a connection.
const MAX_WAITING: usize = 4 << 20;
/// Maximum number of bytes that wait for all connections.
const MAX_WAITING_IN_ALL: usize = 64 << 20;
/// Maximum number of datagrams or connections taken before other sockets have their turn.
const BATCH: usize = 256;
/// Buffers of a TCP connection in bytes.
const STREAM_BUFFER: usize = 64 << 10;
/// Time for which a peer may leave what was sent to it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Buffers of the UDP socket in bytes.
const BUFFER: usize = 4 << 20;

/// Arrival at the sockets.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Datagram.
    Datagram(Peer, Vec<u8>),
    /// Message of a connection, or the defect found in its place.
    Message(Peer, Result<Message, Box<Malformed>>),
    /// Peer that cannot be reached, or whose connection ended. Set if its port is closed.
    Lost(Peer, bool),
}

struct Connection {
    stream: TcpStream,
    framer: Framer,
    waiting: Vec<u8>,
    /// Number among the connections, in the order of their beginning.
    number: u64,
    /// Set if the peer began it.
    is_accepted: bool,
}

/// UDP socket and TCP listener at the same address, with the connections made and accepted.
pub struct Sockets {
    udp: UdpSocket,
    listener: TcpListener,
    connections: HashMap<SocketAddr, Connection>,
    /// Maximum number of them.
    most: usize,
    /// Connections that gave way.
    lost: Vec<Peer>,
    local: SocketAddr,
    refused: u64,
    next: u64,
    buffer: Vec<u8>,
}

impl Sockets {
    /// Opens the sockets at an address. Port 0 chooses a free port.
    ///
    /// # Errors
    /// Returns an error if the address is taken or not local.
    pub fn open(at: SocketAddr) -> io::Result<Sockets> {
        let listener = TcpListener::bind(at)?;
        streams::bound(&listener, STREAM_BUFFER, PATIENCE)?;
        let local = listener.local_addr()?;
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
        // Smaller buffers than asked for lose datagrams, which are then sent again.
        let _ = (socket.set_recv_buffer_size(BUFFER), socket.set_send_buffer_size(BUFFER));
        socket.bind(&SockAddr::from(local))?;
        let udp = UdpSocket::from(socket);
        report_refusals(&udp, local.is_ipv6())?;
        udp.set_nonblocking(true)?;
        listener.set_nonblocking(true)?;
        Ok(Sockets {
            udp,
            listener,
            connections: HashMap::new(),
            most: open_files::allow(MAX_CONNECTIONS, 1, OTHERS),
            lost: Vec::new(),
            local,
            refused: 0,
            next: 0,
            buffer: vec![0; 65_536],
        })
    }

    /// Returns the local address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sets the differentiated services codepoint of datagrams.
    pub(crate) fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        let (socket, traffic_class) = (SockRef::from(&self.udp), u32::from(dscp) << 2);
        match self.local {
            SocketAddr::V4(_) => socket.set_tos_v4(traffic_class),
            SocketAddr::V6(_) => socket.set_tclass_v6(traffic_class),
        }
    }

    /// Returns the number of messages that the kernel did not accept.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns `true` if bytes wait for a connection.
    pub(crate) fn is_waiting(&self) -> bool {
        self.connections.values().any(|connection| !connection.waiting.is_empty())
    }

    /// Returns the descriptors to wait for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connections = self.connections.values().map(|connection| connection.stream.as_fd());
        [self.udp.as_fd(), self.listener.as_fd()].into_iter().chain(connections)
    }

    /// Sends a message. Returns the peer if it cannot be reached, with `true` if its port is closed.
    pub(crate) fn send(&mut self, transmit: &Transmit) -> Result<(), (Peer, bool)> {
        match transmit.to.transport {
            Transport::Udp => {
                // A datagram that the kernel has no room for is lost, as on any path.
                self.refused += u64::from(self.send_datagram(transmit).is_err());
                Ok(())
            }
            Transport::Tcp => self.send_stream(transmit).map_err(|error| (transmit.to, is_refusal(&error))),
        }
    }

    /// Sends a datagram. The refusal of an earlier one is the error of this one, which is then sent again.
    fn send_datagram(&self, transmit: &Transmit) -> io::Result<usize> {
        let send = || self.udp.send_to(&transmit.bytes, transmit.to.address);
        send().or_else(|error| if is_refusal(&error) { send() } else { Err(error) })
    }

    fn send_stream(&mut self, transmit: &Transmit) -> io::Result<()> {
        let address = transmit.to.address;
        if !self.connections.contains_key(&address) {
            let stream = connect(address)?;
            self.insert(address, stream, false)?;
        }
        let is_crowded = self.is_slow(address) && self.waiting() > MAX_WAITING_IN_ALL;
        let Some(connection) = self.connections.get_mut(&address) else { return Ok(()) };
        if connection.waiting.len() > MAX_WAITING || is_crowded {
            return Err(ErrorKind::WouldBlock.into());
        }
        connection.waiting.extend(&transmit.bytes);
        connection.flush()
    }

    /// Returns `true` if bytes wait for a connection.
    fn is_slow(&self, address: SocketAddr) -> bool {
        self.connections.get(&address).is_some_and(|connection| !connection.waiting.is_empty())
    }

    /// Returns the bytes that wait for all connections.
    fn waiting(&self) -> usize {
        self.connections.values().map(|connection| connection.waiting.len()).sum()
    }

    /// Adds a connection. Of too many, the oldest of the host that began the most gives way to one of another.
    fn insert(&mut self, address: SocketAddr, stream: TcpStream, is_accepted: bool) -> io::Result<()> {
        if self.connections.len() >= self.most && !self.make_room(address.ip()) {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.next += 1;
        stream.set_nonblocking(true)?;
        let _ = stream.set_nodelay(true);
        let (framer, waiting, number) = (Framer::default(), vec![], self.next);
        self.connections.insert(address, Connection { stream, framer, waiting, number, is_accepted });
        Ok(())
    }

    /// Returns `true` if a connection of another host gave way.
    fn make_room(&mut self, host: IpAddr) -> bool {
        let accepted = self.connections.iter().filter(|(_, connection)| connection.is_accepted);
        let places = accepted.map(|(at, connection)| (at.ip(), (connection.number, *at)));
        let Some((_, oldest)) = shares::gives_way(places, host) else { return false };
        self.connections.remove(&oldest);
        self.lost.push(Peer { transport: Transport::Tcp, address: oldest });
        true
    }

    /// Returns the maximum number of TCP connections, if the limit of open files lowers it.
    pub fn lowered_limit(&self) -> Option<usize> {
        Some(self.most).filter(|most| *most < MAX_CONNECTIONS)
    }

    /// Receives what has arrived, in batches.
    pub(crate) fn take(&mut self) -> Vec<Arrival> {
        let mut arrivals = vec![];
        for _ in 0..BATCH {
            let (len, address) = match self.udp.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if is_refusal(&error) => continue,
                Err(_) => break,
            };
            let peer = Peer { transport: Transport::Udp, address };
            arrivals.push(Arrival::Datagram(peer, self.buffer[..len].to_vec()));
        }
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    self.refused += u64::from(self.insert(address, stream, true).is_err());
                }
                // The next one finds the descriptor of the one that gives way.
                Err(error) if open_files::is_exhausted(&error) => {
                    self.refused += 1;
                    if !self.make_room(Ipv4Addr::UNSPECIFIED.into()) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let refused = refusals(&self.udp).into_iter();
        let refused = refused.map(|address| Peer { transport: Transport::Udp, address });
        arrivals.extend(refused.map(|peer| Arrival::Lost(peer, true)));
        arrivals.extend(self.lost.drain(..).map(|peer| Arrival::Lost(peer, false)));
        self.take_streams(&mut arrivals);
        arrivals
    }

    fn take_streams(&mut self, arrivals: &mut Vec<Arrival>) {
        let mut addresses: Vec<SocketAddr> = self.connections.keys().copied().collect();
        addresses.sort_unstable();
        for address in addresses {
            let Some(connection) = self.connections.get_mut(&address) else { continue };
            let peer = Peer { transport: Transport::Tcp, address };
            let result = connection.flush().and_then(|()| connection.read(&mut self.buffer));
            let is_refused = result.as_ref().is_err_and(is_refusal);
            let is_open = result.unwrap_or(false);
            while let Some(message) = connection.framer.next_message() {
                arrivals.push(Arrival::Message(peer, message));
            }
            if !is_open || connection.framer.is_broken() {
                self.connections.remove(&address);
                arrivals.push(Arrival::Lost(peer, is_refused));
            }
        }
    }
}

/// Starts a connection without waiting for it.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if !is_pending(&error) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Returns `true` if the error says that the peer's port is closed.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

/// Returns `true` if the error says that a connection is being made.
fn is_pending(error: &io::Error) -> bool {
    const EINPROGRESS: i32 = 115;
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(EINPROGRESS)
}

impl Connection {
    /// Writes waiting bytes, as many as the kernel accepts.
    fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(len) => drop(self.waiting.drain(..len)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return self.stream.take_error()?.map_or(Ok(()), Err);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns `true` if the connection is open, after reading one buffer of bytes.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match self.stream.read(buffer) {
            Ok(0) => Ok(false),
            Ok(len) => {
                self.framer.push(&buffer[..len]);
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected => Ok(true),
                _ => Err(error),
            },
        }
    }
}
