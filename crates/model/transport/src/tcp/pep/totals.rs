//! Counts of a proxy, and reports of connections that gave way.

use std::net::SocketAddr;

use bentpipe_units::Span;

/// Connection that was reset while memory was needed.
///
/// It delivered too little of what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveWay {
    /// Client of the connection.
    pub client: SocketAddr,
    /// Server of the connection.
    pub server: SocketAddr,
    /// Memory of its content.
    pub bytes: usize,
    /// Time for which it delivered less than [`RESERVE`](super::RESERVE).
    pub stalled: Span,
}

/// Counts of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PepTotals {
    /// Connections split.
    pub split: u64,
    /// Connections not split because of the limit.
    pub over_limit: u64,
    /// Connections of which both directions ended.
    pub finished: u64,
    /// Connections to servers that refused or did not answer.
    pub refused: u64,
    /// Connections of which one side failed.
    pub broken: u64,
    /// Connections reset after a time without a segment.
    pub idle: u64,
    /// Connections reset because they delivered too little of what they held, and memory was needed.
    pub stalled: u64,
    /// Connections reset by a crash.
    pub cut: u64,
    /// Connections not split because too many were half open.
    ///
    /// That is so where the server is to answer first.
    pub unsplit: u64,
    /// SYNs answered from the SYN cache.
    pub cached: u64,
    /// Entries of the SYN cache that gave way to others.
    pub displaced: u64,
    /// Entries of the SYN cache, and other half-open connections.
    pub half_open: u64,
    /// Present connections.
    pub present: u64,
    /// Maximum of present connections.
    pub peak: u64,
    /// Segments dropped for want of memory.
    pub no_memory: u64,
    /// Bytes delivered over the satellite.
    pub to_satellite: u64,
    /// Bytes delivered on the ground.
    pub to_ground: u64,
    /// Bytes acknowledged to their sender and lost.
    pub lost: u64,
    /// Bytes acknowledged to their sender and not delivered.
    pub held: u64,
}
