//! Addresses of peers, and the local address that leads to them.

use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Port of SIP (RFC 3261, section 19.1.2).
const SIP_PORT: u16 = 5060;

/// Returns the first address of "HOST" or "HOST:PORT".
///
/// # Errors
/// Returns an error if the name has no address.
pub fn resolve(text: &str) -> Result<SocketAddr, String> {
    let with_port = if text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        text.to_owned()
    } else {
        format!("{text}:{SIP_PORT}")
    };
    let mut addresses = with_port.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?;
    addresses.next().ok_or_else(|| format!("{text}: no address"))
}

/// Returns the local address that leads to a peer, with any port.
///
/// # Errors
/// Returns an error if no route leads there.
pub fn local_for(peer: SocketAddr) -> Result<SocketAddr, String> {
    let any: IpAddr = if peer.is_ipv6() { [0_u16; 8].into() } else { [0, 0, 0, 0].into() };
    let probe = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(peer).map(|()| socket));
    let address = probe.and_then(|socket| socket.local_addr()).map_err(|error| format!("{peer}: {error}"))?;
    Ok(SocketAddr::new(address.ip(), 0))
}

/// Returns a seed that cannot be guessed, for tags and branches.
pub fn random_seed() -> u64 {
    // Hash maps of std take their keys from the system's random numbers.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_sip_is_the_default() {
        assert_eq!(resolve("127.0.0.1"), Ok(SocketAddr::from(([127, 0, 0, 1], 5060))));
        assert_eq!(resolve("[::1]:9").map(|address| address.port()), Ok(9));
        let local = local_for(SocketAddr::from(([127, 0, 0, 1], 5060)));
        assert_eq!(local.map(|local| local.ip().is_loopback()), Ok(true));
    }
}
