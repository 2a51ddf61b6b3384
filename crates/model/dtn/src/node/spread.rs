//! Copies that are left of a stored bundle, and who has it.

/// Copies that may be made of a stored bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Number of copies left, this one included.
    pub(super) copies: u32,
    /// Neighbours that have it, or to which a copy flies.
    pub(super) had: Vec<u64>,
    /// Neighbours in whose queues it is.
    pub(super) waiting: Vec<u64>,
    /// Copies given to convergence layers.
    pub(super) flying: u32,
}

impl Spread {
    pub(super) fn boxed(copies: u32) -> Box<Spread> {
        Box::new(Spread { copies, had: Vec::new(), waiting: Vec::new(), flying: 0 })
    }

    /// Returns the copies of a fragment.
    pub(super) fn again(&self) -> Box<Spread> {
        Box::new(Spread { copies: self.copies, had: self.had.clone(), waiting: Vec::new(), flying: 0 })
    }

    /// Returns `true` if a copy may go to a neighbour.
    pub(super) fn is_for(&self, neighbour: u64, is_destination: bool) -> bool {
        (is_destination || self.copies > 1) && !self.had.contains(&neighbour)
    }
}
