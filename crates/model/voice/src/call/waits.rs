//! Waits of mixes at the bridge.
//!
//! A packet has the time of the mouth, and its network delay begins later.

use std::sync::{Arc, Mutex, PoisonError};

/// Packets of a member of which the waits are known: those of some seconds.
const KEPT: usize = 256;

/// Bits of a wait in nanoseconds, which the number of its packet is next to.
const WAIT_BITS: u32 = 48;

/// Waits of the packets that the bridge sent last to each member. Both ends of a conference share them.
#[derive(Clone, Debug, Default)]
pub struct Waits(Arc<Mutex<Vec<[u64; KEPT]>>>);

impl Waits {
    /// Notes the wait of a packet in nanoseconds.
    pub(super) fn note(&self, member: u32, seq: u16, wait_ns: u64) {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let member = member as usize;
        if member >= members.len() {
            members.resize(member + 1, [0; KEPT]);
        }
        let wait_ns = wait_ns.min((1 << WAIT_BITS) - 1);
        members[member][usize::from(seq) % KEPT] = u64::from(seq) << WAIT_BITS | wait_ns;
    }

    /// Returns the wait of a packet; zero if it is not known.
    pub(super) fn of(&self, member: usize, seq: u16) -> u64 {
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = members.get(member).map_or(0, |kept| kept[usize::from(seq) % KEPT]);
        if kept >> WAIT_BITS == u64::from(seq) { kept & ((1 << WAIT_BITS) - 1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_of_the_last_packets() {
        let waits = Waits::default();
        (0..300).for_each(|seq| waits.note(2, seq, u64::from(seq) * 1000));
        assert_eq!([299, 44, 43, 5].map(|seq| waits.of(2, seq)), [299_000, 44_000, 0, 0]);
        assert_eq!((waits.of(0, 299), waits.of(9, 299)), (0, 0));
    }
}
