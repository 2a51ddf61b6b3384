//! Hosts that peers act from.

use std::net::IpAddr;

/// Returns the key of a host: its address, or with IPv6 its network.
pub(crate) fn host_key(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}
