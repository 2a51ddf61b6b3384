//! Windows and queues that a connection needs.

use bentpipe_site::Window;
use bentpipe_units::{Bytes, Rate, Span};
use serde::Serialize;

use super::FlowBudget;
use super::transfer::Transfer;

/// Window that a flow needs to fill its path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TcpBudget {
    /// Bandwidth-delay product in payload bytes, the window needed: goodput without losses * mean round trip.
    pub window_needed: Bytes,
    /// Window allowed by its buffers: the least of send and receive buffer. Without scaling at most 65535 B.
    pub window_allowed: Bytes,
    /// Queue that a halved window needs to stay busy: one bandwidth-delay product, in IP bytes.
    ///
    /// What packets wait for the medium counts in the mean. Least: four packets, of which the last three report a loss of the first.
    pub buffer_needed: Bytes,
    /// That product, however small.
    #[serde(skip)]
    pub(super) product: Bytes,
    /// Mean goodput that the window allows: window_allowed / round trip, at most the ceiling.
    pub window_limit: Rate,
    /// Time from the SYN until the controller has opened the window on the idle path. The window is the one needed, or allowed.
    ///
    /// `None` if it does not get there, or cannot be known.
    pub slow_start: Option<Span>,
    /// Most goodput over its time with slow start, where that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_slow_start: Option<Rate>,
    /// Least time from the start of a transfer of a size to its last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Span>,
}

/// Packets of the least queue that a window needs.
///
/// A loss is found by three segments behind it (RFC 5681, section 3.2).
const LEAST_PACKETS: u64 = 4;

impl TcpBudget {
    /// Computes windows of a path that carries a rate in the mean. `waits` is what its round trip is without.
    pub(super) fn new(
        (window, allowed): (Window, Rate),
        (carries, (rtt, waits)): (Rate, (Span, Span)),
        flow: &FlowBudget,
        transfer: Option<Transfer>,
    ) -> TcpBudget {
        let window_needed = carries.bdp(rtt);
        let in_packets = flow.packet.get() as f64 / flow.payload.get().max(1) as f64;
        let product = Bytes::new((carries.bdp(rtt + waits).get() as f64 * in_packets) as u64);
        let limit = allowed.min(flow.ceiling);
        let is_less = |rate: &Rate| (rate.as_bps() as f64) < 0.99 * limit.as_bps() as f64;
        TcpBudget {
            window_needed,
            window_allowed: window.most,
            buffer_needed: product.max(Bytes::new(LEAST_PACKETS * flow.packet.get())),
            product,
            window_limit: limit,
            slow_start: transfer.and_then(|transfer| transfer.slow_start),
            with_slow_start: transfer.and_then(|transfer| transfer.goodput).filter(is_less),
            completion: transfer.and_then(|transfer| transfer.takes.filter(|_| transfer.is_of_size)),
        }
    }
}
