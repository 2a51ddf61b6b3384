//! Bytes of answers that what has arrived may cause.
//!
//! The sender's address of a datagram can be forged. Then answers go to a host that asked for nothing, and are not to be worth the
//! forger's while. Neither LTP nor CFDP proves an address, so the bound holds for a session or transaction until its end, and for a host whose bundles ask for reports.

/// Bytes of answers for each byte that arrived: that of QUIC (RFC 9000, section 8.1).
const FACTOR: u64 = 3;

/// Bytes of answers that may still be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit(u64);

impl Credit {
    /// Adds what bytes that arrived may cause.
    pub(crate) fn earn(&mut self, bytes: u64) {
        self.0 = self.0.saturating_add(bytes.saturating_mul(FACTOR));
    }

    /// Drops what is more than `most` bytes.
    pub(crate) fn cap(&mut self, most: u64) {
        self.0 = self.0.min(most);
    }

    /// Returns `true` if an answer of this length may be sent, and counts it.
    pub(crate) fn spend(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Returns the number of bytes that may be sent.
    pub(crate) fn left(&self) -> u64 {
        self.0
    }
}
