//! Tables of objects that links or roles of one kind share.

use crate::review::Review;
use crate::topology::Named;

/// Table of objects that links of one kind share.
pub trait SharedTable: Default + PartialEq {
    /// Reports its errors.
    fn check(&self, _: &mut Review<'_>) {}

    /// Copies what ends at nodes of which there are several.
    fn spread(&mut self, _count: &dyn Fn(&str) -> u32) {}

    /// Sets the limits that an emulation needs and reports them.
    fn bound(&mut self, _notices: &mut Vec<String>) {}
}

impl SharedTable for () {}

impl<T: PartialEq> SharedTable for Named<T> {}
