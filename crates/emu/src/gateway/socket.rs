//! UDP sockets for transport streams: unicast and multicast, IPv4 and IPv6.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::datagrams::grow_receive_buffer;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

/// What the kernel may hold for a socket, in bytes: a fifth of a second at 155 Mbit/s. It may give less.
const BUFFER_BYTES: usize = 4 << 20;

/// Where datagrams come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address and port to listen at: one of this machine, the unspecified one, or a multicast group, which is joined.
    pub at: SocketAddr,
    /// The interface on which a group is joined; the kernel chooses if there is none.
    pub interface: Option<String>,
    /// Whose datagrams are taken; everybody's if empty.
    pub from: Vec<IpAddr>,
}

/// Where datagrams go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Addresses and ports of receivers, or multicast groups. Each gets each datagram.
    pub to: Vec<SocketAddr>,
    /// The interface that multicast leaves by; the kernel chooses if there is none.
    pub interface: Option<String>,
    /// How many routers multicast may cross.
    pub ttl: u8,
    /// Differentiated services codepoint.
    pub dscp: u8,
}

/// The sockets to send with: one for each family among the receivers.
pub(super) fn sender(send: &Send, is_v6: bool) -> io::Result<Socket> {
    let socket = udp(is_v6)?;
    // With privilege the kernel's limit may be exceeded; without, it gives what it gives.
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    let index = send.interface.as_deref().map(interface_index).transpose()?;
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

/// The socket to receive with. It is bound to the group, if it is one, so that it gets nothing else.
pub(super) fn listener(listen: &Listen) -> io::Result<Socket> {
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
    let index = listen.interface.as_deref().map(interface_index).transpose()?.unwrap_or(0);
    match group {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?;
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, index)?,
        _ => {}
    }
    Ok(socket)
}

fn udp(is_v6: bool) -> io::Result<Socket> {
    let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The number of an interface.
fn interface_index(name: &str) -> io::Result<u32> {
    let text = CString::new(name)?;
    // SAFETY: reads a text that ends with a zero byte and lives for the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no interface \"{name}\""))),
        index => Ok(index),
    }
}

/// `IP_MULTICAST_IF` by number: by address, as others have it, an interface without IPv4 address could not be said.
fn set_multicast_index_v4(socket: &Socket, index: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: `ip_mreqn` is plain data for which all bytes zero is a value.
    let mut request: libc::ip_mreqn = unsafe { std::mem::zeroed() };
    request.imr_ifindex = index as libc::c_int;
    // SAFETY: reads one `ip_mreqn` of the length given, which lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            (&raw const request).cast(),
            size_of::<libc::ip_mreqn>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
