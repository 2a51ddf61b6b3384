//! Datagrams that hosts refused.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::address::RawAddress;

/// Room for the kernel's remarks on a refusal, in words.
const CONTROL_WORDS: usize = 32;
/// Most refusals of one call. The kernel keeps the others.
const MOST: usize = 64;

/// Reads the kernel's reports of a socket, and returns the destinations with a closed port.
///
/// The socket has them since [`super::report_refusals`].
pub fn refusals(socket: impl AsFd) -> Vec<SocketAddr> {
    let taken = (0..MOST).map_while(|_| take(&socket));
    taken.flatten().collect()
}

/// Reads one report. It may be of another error than a closed port.
fn take(socket: &impl AsFd) -> Option<Option<SocketAddr>> {
    let mut name = RawAddress::none();
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: `msghdr` is plain data with null pointers and zero lengths for which all bytes zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut name.storage).cast();
    header.msg_namelen = RawAddress::SIZE;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points at an address and room for remarks, with their lengths; both live for the call.
    let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    if len < 0 {
        return None;
    }
    name.len = header.msg_namelen;
    Some(name.get().filter(|_| error_of(&header) == Some(libc::ECONNREFUSED)))
}

/// Returns the number of the error in a report.
fn error_of(header: &libc::msghdr) -> Option<libc::c_int> {
    let kinds = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    // SAFETY: the kernel filled the header's control bytes and set their length; they are aligned, and live.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: not null, it points at a whole `cmsghdr` within the control bytes, by the macros' contract.
    while let Some(remark) = unsafe { next.as_ref() } {
        if kinds.contains(&(remark.cmsg_level, remark.cmsg_type)) {
            // SAFETY: this remark holds a `sock_extended_err`; `read_unaligned` needs no alignment.
            let error = unsafe { libc::CMSG_DATA(remark).cast::<libc::sock_extended_err>().read_unaligned() };
            return libc::c_int::try_from(error.ee_errno).ok();
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    use super::super::report_refusals;
    use super::*;

    #[test]
    fn the_destination_of_a_refused_datagram_is_named() {
        for host in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let (Ok(closed), Ok(socket)) = (UdpSocket::bind(host), UdpSocket::bind(host)) else { continue };
            let (open, to) = (UdpSocket::bind(host).expect("a socket"), closed.local_addr().expect("bound"));
            drop(closed);
            report_refusals(&socket, host.is_ipv6()).expect("set");
            socket.send_to(b"speech", to).expect("sent");
            // The error of the one datagram may be that of the next call.
            let _ = socket.send_to(b"speech", open.local_addr().expect("bound"));
            assert_eq!(refusals(&socket), [to]);
            assert!(refusals(&socket).is_empty());
        }
    }
}
