//! Address of a client behind a proxy that is named.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use bentpipe_agent::Network;

/// Header in which each proxy adds the address of its client.
const HEADER: &str = "x-forwarded-for";

/// Returns the address of the client.
///
/// It is the last one that is not of a trusted proxy.
///
/// Any client can send the header: it counts only as far as trusted proxies wrote it.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    let lines = headers.get_all(HEADER).into_iter().filter_map(|line| line.to_str().ok());
    let named: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let mut client = peer;
    for text in named.iter().rev() {
        let Some(before) = address(text).filter(|_| is_one_of(client, proxies)) else { break };
        client = before;
    }
    client
}

/// Returns `true` if an address is of a trusted proxy.
pub(crate) fn is_one_of(address: IpAddr, proxies: &[Network]) -> bool {
    proxies.iter().any(|network| network.contains(address))
}

fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().ok().map(|socket: SocketAddr| socket.ip());
    text.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, line.parse().expect("a value"));
        }
        let proxies =
            ["127.0.0.1/32", "10.0.0.0/8"].map(|text| Network::try_from(text.to_owned()).expect("a network"));
        client(peer.parse().expect("an address"), &headers, &proxies).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(seen("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(seen("127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(seen("127.0.0.1", &[]), "127.0.0.1");
        // The client wrote the first address itself.
        assert_eq!(seen("127.0.0.1", &["203.0.113.9, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(seen("127.0.0.1", &["203.0.113.9, 198.51.100.7, 10.1.1.1"]), "198.51.100.7");
        assert_eq!(seen("127.0.0.1", &["203.0.113.9", "2001:db8::1"]), "2001:db8::1");
        assert_eq!(seen("127.0.0.1", &["198.51.100.7:5555"]), "198.51.100.7");
        assert_eq!(seen("127.0.0.1", &["198.51.100.7, x"]), "127.0.0.1");
        assert_eq!(seen("127.0.0.1", &["::ffff:198.51.100.7"]), "198.51.100.7");
    }
}
