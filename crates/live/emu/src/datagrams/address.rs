//! Socket addresses as the kernel has them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address of either family. All bytes zero is "none".
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    pub(super) storage: libc::sockaddr_storage,
    /// Number of bytes used.
    pub(super) len: libc::socklen_t,
}

impl RawAddress {
    pub(super) const SIZE: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

    pub(super) fn none() -> RawAddress {
        // SAFETY: `sockaddr_storage` is plain data for which all bytes zero is a value.
        RawAddress { storage: unsafe { std::mem::zeroed() }, len: 0 }
    }

    pub(super) fn of(address: SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(address) => RawAddress::of_v4(address),
            SocketAddr::V6(address) => RawAddress::of_v6(address),
        }
    }

    fn of_v4(address: SocketAddrV4) -> RawAddress {
        let mut raw = RawAddress::none();
        // SAFETY: `sockaddr_storage` is at least as long as a `sockaddr_in`, and aligned for all families.
        let v4 = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in>() };
        v4.sin_family = libc::AF_INET as libc::sa_family_t;
        v4.sin_port = address.port().to_be();
        v4.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
        raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        raw
    }

    fn of_v6(address: SocketAddrV6) -> RawAddress {
        let mut raw = RawAddress::none();
        // SAFETY: `sockaddr_storage` is at least as long as a `sockaddr_in6`, and aligned for all families.
        let v6 = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in6>() };
        v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        v6.sin6_port = address.port().to_be();
        v6.sin6_flowinfo = address.flowinfo();
        v6.sin6_addr.s6_addr = address.ip().octets();
        v6.sin6_scope_id = address.scope_id();
        raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        raw
    }

    /// Returns the address, or `None` if it is of another family. One of IPv4 that came to a socket of IPv6 is given
    /// as IPv4.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        let (v4_len, v6_len) = (size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>());
        match (libc::c_int::from(self.storage.ss_family), self.len as usize) {
            (libc::AF_INET, len) if len >= v4_len => {
                // SAFETY: the storage holds a `sockaddr_in`, says its family.
                let v4 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            (libc::AF_INET6, len) if len >= v6_len => {
                // SAFETY: the storage holds a `sockaddr_in6`, says its family.
                let v6 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddrV4::new(ip, port).into(),
                    None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_they_were() {
        for text in ["10.1.2.3:5004", "[fd00::1]:65535", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(RawAddress::of(address).get(), Some(address));
        }
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:5004".parse().expect("an address");
        assert_eq!(RawAddress::of(mapped).get(), Some("10.1.2.3:5004".parse().expect("an address")));
        assert_eq!(RawAddress::none().get(), None);
    }
}
