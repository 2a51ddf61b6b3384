//! A run's fingerprint.

use std::fmt;

use bentpipe_units::Time;

/// A hash over every delivery of a run: when, to which input, and the packet's [digest](bentpipe_net::Packet::digest).
/// Two runs that differ in anything that a packet did differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) const EMPTY: Fingerprint = Fingerprint(0x243f_6a88_85a3_08d3);

    #[inline]
    pub(crate) fn add(&mut self, now: Time, input: u64, digest: u64) {
        // One multiplication in the chain a delivery; the inputs are spread before they enter it.
        let event = now.as_nanos() ^ input.rotate_left(48) ^ digest.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (self.0.rotate_left(23) ^ event).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }

    /// The hash.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
