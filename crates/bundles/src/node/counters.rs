//! Counters of a daemon.

use bentpipe_dtn::ltp;
use bentpipe_dtn::node::Counts;

/// Counters of a daemon, with those of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Counters of the node.
    pub node: Counts,
    /// Bundles that were received before.
    pub duplicates: u64,
    /// Parts kept of bundles whose transfer was cut.
    pub parts: u64,
    /// Bundles that could not be read or break a rule.
    pub malformed: u64,
    /// Bundles that applications have acknowledged.
    pub delivered: u64,
    /// Bundles echoed.
    pub echoed: u64,
    /// Bundles for the echo service that are answers themselves, or came too often.
    pub echo_refused: u64,
    /// Bundles dropped by the discard service.
    pub discarded: u64,
    /// Datagrams of unknown neighbours, or that the kernel did not take.
    pub datagrams_refused: u64,
    /// Bundles that are too long, or for applications without room for them.
    pub no_room: u64,
    /// Counters of LTP.
    pub ltp: ltp::Counts,
    /// Blocks of LTP that neighbours have cancelled.
    pub ltp_cancelled: u64,
    /// Bundles waiting for neighbours and their bytes.
    pub stored: (u64, u64),
    /// Bundles waiting for applications.
    pub waiting: u64,
    /// Bundles found in the store at the start.
    pub restored: u64,
}

impl Counters {
    /// Returns the counters as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let Counters { node, stored, ltp, .. } = self;
        serde_json::json!({
            "originated": node.originated,
            "received": node.received,
            "forwarded": node.forwarded,
            "delivered": self.delivered,
            "duplicates": self.duplicates + node.duplicates,
            "malformed": self.malformed + node.malformed,
            "expired": node.expired,
            "evicted": node.evicted,
            "refused": node.refused + self.no_room,
            "hop_limit": node.hop_limit,
            "rerouted": node.rerouted,
            "fragments": node.fragments,
            "parts": self.parts,
            "resumed": node.resumed,
            "spared_bytes": node.spared,
            "reports": node.reports,
            "echoed": self.echoed,
            "echo_refused": self.echo_refused,
            "discarded": self.discarded,
            "datagrams_refused": self.datagrams_refused,
            "ltp_sent": ltp.data_sent,
            "ltp_repeated": ltp.data_repeated,
            "ltp_timeouts": ltp.timeouts,
            "ltp_failed": ltp.failed,
            "ltp_cancelled": self.ltp_cancelled,
            "ltp_refused": ltp.refused,
            "stored": stored.0,
            "stored_bytes": stored.1,
            "waiting": self.waiting,
            "restored": self.restored,
        })
    }
}
