//! Fragments of packets longer than their path's MTU.

use bentpipe_scenario::Ip;
use bentpipe_wire::ip::fragments;

/// Fragments of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragments {
    pub(super) count: u64,
    pub(super) mean: u64,
    /// Length of all but the last.
    pub(super) longest: u64,
    pub(super) last: u64,
}

impl Fragments {
    /// Returns those of a packet of a length.
    pub(super) fn of(ip: Ip, len: u64, mtu: u64) -> Fragments {
        let (count, total) = fragments::sizes(ip == Ip::V4, len, mtu);
        let headers = if ip == Ip::V4 { 20 } else { 48 };
        let longest = if count == 1 { len } else { headers + mtu.saturating_sub(headers) / 8 * 8 };
        let last = total.saturating_sub(longest * (count - 1));
        Fragments { count, mean: total / count, longest, last }
    }
}
