//! Behaviour of a flow's IPv4 Identification (RFC 3095 4.5.5, RFC 3843 3.3).

use crate::profiles::rfc3095::header::IpChanging;

/// A jump of more than this is not a counter's.
const MAX_STEP: u16 = 64;
/// Number of agreeing packets before a compatible behaviour is adopted.
const BELIEVE: u8 = 3;

/// The behaviours that have their own encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    Counting,
    CountingSwapped,
    Random,
    Constant,
}

impl Behaviour {
    /// Returns the behaviour that two consecutive identifications suggest.
    #[inline]
    pub(super) fn of_step(from: u16, to: u16) -> Self {
        let step = to.wrapping_sub(from);
        let swapped = to.swap_bytes().wrapping_sub(from.swap_bytes());
        match (step, swapped) {
            (0, _) => Self::Constant,
            (1..=MAX_STEP, _) => Self::Counting,
            (_, 1..=MAX_STEP) => Self::CountingSwapped,
            _ => Self::Random,
        }
    }

    /// The flags that announce it.
    pub(super) fn mark(self, changing: &mut IpChanging) {
        (changing.rnd, changing.nbo, changing.sid) = match self {
            Self::Counting => (false, true, false),
            Self::CountingSwapped => (false, false, false),
            Self::Random => (true, true, false),
            Self::Constant => (false, true, true),
        };
    }

    fn of(changing: &IpChanging) -> Self {
        match (changing.rnd, changing.sid, changing.nbo) {
            (true, ..) => Self::Random,
            (_, true, _) => Self::Constant,
            (_, _, true) => Self::Counting,
            (_, _, false) => Self::CountingSwapped,
        }
    }
}

/// Watches the identifications of one IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Behaviour other than the one in force, and the steps that showed it.
    other: Option<Behaviour>,
    seen: u8,
    /// Set once a step was seen. Until then the behaviour is a guess from one packet.
    stepped: bool,
}

impl Watch {
    /// The behaviour to assume for the first packet of a flow.
    pub(super) fn first(first: &IpChanging, constant_allowed: bool) -> Behaviour {
        // Atomic datagrams often have no identification (RFC 6864).
        if first.id == 0 && first.df && constant_allowed { Behaviour::Constant } else { Behaviour::Counting }
    }

    /// A packet was as the behaviour in force has it.
    #[inline]
    pub(super) fn agrees(&mut self) {
        (self.seen, self.stepped) = (0, true);
    }

    /// The behaviour for a packet with the identification `id` after `last`. `free`: changing it costs nothing now
    /// (an IR packet is sent anyway).
    pub(super) fn step(
        &mut self,
        last: &IpChanging,
        id: u16,
        constant_allowed: bool,
        free: bool,
    ) -> Behaviour {
        let present = Behaviour::of(last);
        let seen = match Behaviour::of_step(last.id, id) {
            Behaviour::Constant if !constant_allowed => Behaviour::Random,
            seen => seen,
        };
        if seen == present {
            self.agrees();
            return present;
        }
        let guessed = !core::mem::replace(&mut self.stepped, true);
        self.seen = if self.other == Some(seen) { self.seen.saturating_add(1) } else { 1 };
        self.other = Some(seen);
        // A constant that moved cannot be sent at all; everything else can wait.
        let at_once = present == Behaviour::Constant || free || guessed;
        if at_once || self.seen >= BELIEVE {
            self.seen = 0;
            return seen;
        }
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ids: &[u16]) -> Behaviour {
        let mut watch = Watch::default();
        let mut last = IpChanging { id: ids[0], df: true, ..IpChanging::default() };
        Watch::first(&last, true).mark(&mut last);
        for &id in &ids[1..] {
            watch.step(&last, id, true, false).mark(&mut last);
            last.id = id;
        }
        Behaviour::of(&last)
    }

    #[test]
    fn behaviours_are_told_apart() {
        assert_eq!(run(&[5, 6, 8, 9, 20]), Behaviour::Counting);
        assert_eq!(run(&[0x0500, 0x0600, 0x0700, 0x0900]), Behaviour::CountingSwapped);
        assert_eq!(run(&[1, 40_000, 7, 30_000]), Behaviour::Random);
        assert_eq!(run(&[0, 0, 0]), Behaviour::Constant);
        assert_eq!(run(&[9, 9, 9, 9]), Behaviour::Constant);
        assert_eq!(run(&[5, 6, 40_000, 40_001, 40_002]), Behaviour::Counting);
    }
}
