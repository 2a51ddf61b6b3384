//! Transparent sockets: listeners, and connections with a client's address.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bentpipe_emu::streams::set_max_pacing_rate;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::{Config, Side};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listener of one IP version and side.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    pub(crate) address: SocketAddr,
    pub(crate) side: Side,
}

/// Accepted connection.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    pub(crate) client: SocketAddr,
    /// Address that the client connects to.
    pub(crate) server: SocketAddr,
}

/// Returns the addresses of all listeners.
pub(crate) fn addresses(port: u16) -> [(SocketAddr, Side); 4] {
    let at = |is_v6: bool, port| {
        if is_v6 { (Ipv6Addr::LOCALHOST, port).into() } else { (Ipv4Addr::LOCALHOST, port).into() }
    };
    [
        (at(false, port), Side::Ground),
        (at(true, port), Side::Ground),
        (at(false, port + 1), Side::Satellite),
        (at(true, port + 1), Side::Satellite),
    ]
}

impl Listener {
    /// Opens a listener on loopback. Clients reach it by a rule only.
    pub(crate) fn open(config: &Config, address: SocketAddr, side: Side) -> Result<Listener, String> {
        let wrong = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => {
                "transparent sockets need CAP_NET_ADMIN, which this process does not have; run it as root"
                    .to_owned()
            }
            ErrorKind::AddrInUse => {
                format!("{address}: {error}; help: is another proxy running? Choose another --port")
            }
            _ => format!("{address}: {error}"),
        };
        let socket = stream(address).map_err(wrong)?;
        set_up(&socket, config, side)?;
        socket.bind(&address.into()).map_err(wrong)?;
        socket.listen(BACKLOG).map_err(wrong)?;
        Ok(Listener { socket, address, side })
    }

    /// Accepts a connection; `None` if none waits.
    pub(crate) fn accept(&self) -> io::Result<Option<Accepted>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, client) = match acceptfrom_with(&self.socket, flags) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let socket: Socket = socket.into();
        let client = client.and_then(|address| SocketAddr::try_from(address).ok());
        let server = socket.local_addr()?.as_socket();
        prepare(&socket)?;
        match client.zip(server) {
            Some((client, server)) => Ok(Some(Accepted { socket, client, server })),
            None => Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// Creates a transparent socket that does not block.
fn stream(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    Ok(socket)
}

/// Sets options of each connection: reset at a crash, and small segments at once.
fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)
}

/// Sets controller, rate and buffers of a side. Accepted connections inherit them.
fn set_up(socket: &Socket, config: &Config, side: Side) -> Result<(), String> {
    if let Some(bytes) = config.buffer(side) {
        let force = || {
            // The kernel doubles the values for its bookkeeping (socket(7)).
            set_socket_send_buffer_size_force(socket, bytes)?;
            set_socket_recv_buffer_size_force(socket, bytes)
        };
        force().map_err(|error| format!("buffer of {bytes} B: {error}"))?;
    }
    if side == Side::Ground {
        return Ok(());
    }
    if let Some(controller) = &config.controller {
        socket.set_tcp_congestion(controller.as_bytes()).map_err(|_| unknown_controller(controller))?;
    }
    if let Some(rate) = config.rate {
        set_max_pacing_rate(socket, rate).map_err(|error| format!("rate {rate}: {error}"))?;
    }
    Ok(())
}

fn unknown_controller(name: &str) -> String {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = std::fs::read_to_string(file).unwrap_or_default();
    format!("the kernel has no congestion controller \"{name}\"; help: expected one of: {}", known.trim())
}

/// Starts a connection from the client's address to the server.
///
/// # Errors
/// Returns an error if it cannot be opened, or the server's address has no route.
pub(crate) fn connect(
    config: &Config,
    client: SocketAddr,
    server: SocketAddr,
    side: Side,
) -> io::Result<Socket> {
    let socket = stream(client)?;
    prepare(&socket)?;
    set_up(&socket, config, side).map_err(io::Error::other)?;
    socket.bind(&client.into())?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}
