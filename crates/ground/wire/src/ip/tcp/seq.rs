//! Sequence numbers.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A sequence number: arithmetic modulo 2^32 (RFC 9293, section 3.4).
///
/// Comparisons are right while the numbers are less than 2^31 apart, which the largest window (2^30) ensures. They are
/// methods rather than `Ord` because the order is not transitive.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Returns `true` if this comes before `other`.
    #[inline]
    pub const fn before(self, other: SeqNumber) -> bool {
        self.delta(other) < 0
    }

    /// Returns `true` if this comes after `other`.
    #[inline]
    pub const fn after(self, other: SeqNumber) -> bool {
        self.delta(other) > 0
    }

    /// Returns `true` if this is `other` or comes before it.
    #[inline]
    pub const fn at_or_before(self, other: SeqNumber) -> bool {
        self.delta(other) <= 0
    }

    /// Returns `true` if this is `other` or comes after it.
    #[inline]
    pub const fn at_or_after(self, other: SeqNumber) -> bool {
        self.delta(other) >= 0
    }

    /// Returns the distance after `other` in bytes, negative if before.
    #[inline]
    pub const fn delta(self, other: SeqNumber) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Returns the distance after `earlier` in bytes, modulo 2^32.
    #[inline]
    pub const fn since(self, earlier: SeqNumber) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns `true` if this is one of the `len_bytes` numbers from `start` on.
    #[inline]
    pub const fn is_within(self, start: SeqNumber, len_bytes: u32) -> bool {
        self.since(start) < len_bytes
    }

    /// Returns the later of the two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: SeqNumber) -> SeqNumber {
        if self.before(other) { other } else { self }
    }

    /// Returns the earlier of the two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: SeqNumber) -> SeqNumber {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline]
    fn add(self, len_bytes: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(len_bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline]
    fn add_assign(&mut self, len_bytes: u32) {
        *self = *self + len_bytes;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = SeqNumber;
    #[inline]
    fn sub(self, len_bytes: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_sub(len_bytes))
    }
}

impl SubAssign<u32> for SeqNumber {
    #[inline]
    fn sub_assign(&mut self, len_bytes: u32) {
        *self = *self - len_bytes;
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
