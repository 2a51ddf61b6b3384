//! The place of the sequence number among those before it.
//!
//! A decompressor takes a packet behind its newest one for a late one, which it reads against what it had then and does not
//! adopt, or for numbers that begin again, which it adopts. Which of them depends on what arrived. Hence such packets go out
//! whole, and the newest packet of the decompressor is one of an interval until the numbers have left it.

use crate::framework::profile::Profile;
use crate::profiles::v2::control::mask;

/// Packets behind its newest one up to which a packet may count as late.
const LATE: u32 = 64;

/// Numbers that the newest packet of the decompressor may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    lowest: u32,
    highest: u32,
}

/// Place of a number relative to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Beyond all: any decompressor adopts the packet.
    Ahead,
    /// Close behind or equal: the packet may be taken for a late one.
    Behind,
    /// Far behind: any decompressor adopts the packet.
    Back,
}

impl Place {
    /// Creates the place after a packet that any decompressor adopts.
    #[inline]
    pub(super) const fn at(number: u32) -> Self {
        Self { lowest: number, highest: number }
    }

    /// Returns the ends of the interval.
    pub(super) const fn ends(&self) -> [u32; 2] {
        [self.lowest, self.highest]
    }

    /// Returns the furthest number.
    #[inline]
    pub(super) const fn highest(&self) -> u32 {
        self.highest
    }

    /// Moves on to `number`.
    pub(super) const fn step(&mut self, profile: Profile, number: u32) -> Step {
        let mask = mask(profile);
        let back = self.highest.wrapping_sub(number) & mask;
        let span = self.highest.wrapping_sub(self.lowest) & mask;
        if back > span.saturating_add(LATE) {
            *self = Self::at(number);
            return if back > mask / 2 { Step::Ahead } else { Step::Back };
        }
        if back == 0 || back > span {
            self.lowest = number;
        }
        Step::Behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_widen_the_interval_until_one_leaves_it() {
        let mut place = Place::at(100);
        let mut step = |number| (place.step(Profile::RtpV2, number), place.ends());
        assert_eq!(step(101), (Step::Ahead, [101, 101]));
        assert_eq!(step(90), (Step::Behind, [90, 101]));
        assert_eq!(step(95), (Step::Behind, [90, 101]));
        assert_eq!(step(40), (Step::Behind, [40, 101]));
        assert_eq!(step(102), (Step::Ahead, [102, 102]));
        assert_eq!(step(37), (Step::Back, [37, 37]));
        assert_eq!(step(0xffff), (Step::Behind, [0xffff, 37]));
        assert_eq!(step(37), (Step::Behind, [37, 37]));
        assert_eq!(step(0xff00), (Step::Back, [0xff00, 0xff00]));
    }
}
