//! A run's fingerprint.

use std::fmt;

use bentpipe_units::Time;

/// Hash over every delivery of a run: its time, its input, the packet's
/// [digest](bentpipe_net::Packet::digest).
///
/// It is independent of the order of computation. Two runs that differ in any packet's behaviour differ in
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) const EMPTY: Fingerprint = Fingerprint(0x243f_6a88_85a3_08d3);

    #[inline]
    pub(crate) fn add(&mut self, now: Time, input: u64, digest: u64) {
        // A sum of well-mixed terms is independent of their order, so executing clusters ahead does not
        // change it.
        let event = now.as_nanos() ^ input.rotate_left(48) ^ digest.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = (event ^ event >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = self.0.wrapping_add((spread ^ spread >> 29).wrapping_mul(0xc4ce_b9fe_1a85_ec53));
    }

    /// Returns the hash.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
