//! UDP sockets for transport streams: unicast and multicast, IPv4 and IPv6.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bentpipe_emu::datagrams::{Datagram, grow_receive_buffer};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

/// Requested buffer of a socket in bytes: a fifth of a second at 155 Mbit/s.
const BUFFER_BYTES: usize = 4 << 20;

/// Socket of incoming datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port to listen at. A multicast group is joined.
    pub at: SocketAddr,
    /// Interface on which a group is joined. Default: chosen by the kernel.
    pub interface: Option<String>,
    /// Senders whose datagrams are taken; all if empty.
    pub from: Vec<IpAddr>,
}

/// Sockets of outgoing datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Addresses and ports of receivers, or multicast groups. Each gets each datagram.
    pub to: Vec<SocketAddr>,
    /// Interface of outgoing multicast. Default: chosen by the kernel.
    pub interface: Option<String>,
    /// Maximum number of routers that multicast crosses.
    pub ttl: u8,
    /// Differentiated services codepoint.
    pub dscp: u8,
}

/// Opens the sockets to send with, one for each family of the receivers.
pub(crate) fn sender(send: &Send, is_v6: bool) -> io::Result<Socket> {
    let socket = udp(is_v6)?;
    // With privilege the kernel's limit may be exceeded; without, it gives what it gives.
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    let index = send.interface.as_deref().map(|name| interface_index(&socket, name)).transpose()?;
    let traffic_class = u32::from(send.dscp) << 2;
    if is_v6 {
        socket.set_tclass_v6(traffic_class)?;
        socket.set_multicast_hops_v6(send.ttl.into())?;
        socket.set_multicast_loop_v6(false)?;
        index.map_or(Ok(()), |index| socket.set_multicast_if_v6(index))?;
    } else {
        socket.set_tos_v4(traffic_class)?;
        socket.set_multicast_ttl_v4(send.ttl.into())?;
        socket.set_multicast_loop_v4(false)?;
        if let Some(index) = index {
            set_multicast_index_v4(&socket, index)?;
        }
    }
    Ok(socket)
}

/// Opens the socket to receive with. It is bound to its group, if any, so that it gets nothing else.
///
/// # Errors
/// Returns an error if the address is taken or not this machine's, or the group cannot be joined.
pub fn listener(listen: &Listen) -> io::Result<Socket> {
    let socket = udp(listen.at.is_ipv6())?;
    grow_receive_buffer(&socket, BUFFER_BYTES)?;
    let group = listen.at.ip();
    if group.is_multicast() {
        // Several programs may listen to a group.
        socket.set_reuse_address(true)?;
    }
    if listen.at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&listen.at.into())?;
    let index =
        listen.interface.as_deref().map(|name| interface_index(&socket, name)).transpose()?.unwrap_or(0);
    match group {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?;
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, index)?,
        _ => {}
    }
    Ok(socket)
}

/// Returns `true` if no senders are listed, or a datagram is from one.
pub(crate) fn is_wanted(datagram: &Datagram<'_>, from: &[IpAddr]) -> bool {
    from.is_empty() || datagram.from.is_some_and(|sender| from.contains(&sender.ip()))
}

fn udp(is_v6: bool) -> io::Result<Socket> {
    let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the names of this machine's interfaces.
pub fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns the index of an interface.
fn interface_index(socket: &Socket, name: &str) -> io::Result<u32> {
    let unknown = |_| {
        let there = interfaces().join(", ");
        let text = format!("unknown interface \"{name}\"; help: interfaces are {there}");
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    rustix::net::netdevice::name_to_index(socket, name).map_err(unknown)
}

/// Sets `IP_MULTICAST_IF` by index. By address, an interface without an IPv4 address could not be chosen.
fn set_multicast_index_v4(socket: &Socket, index: u32) -> io::Result<()> {
    let any = Ipv4Addr::UNSPECIFIED;
    Ok(rustix::net::sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)?)
}
