//! Version of the definitions of measures.
//!
//! A measure may change its meaning from one release to another, with the same name. Results state the version they were made
//! with, and those of two versions are not compared where a meaning changed. `docs/reference/metrics.md` has the definitions.

/// Version of the definitions of this program.
pub const DEFINITIONS: u32 = 2;

/// Returns the version of results that state none.
pub(super) const fn first() -> u32 {
    1
}

/// Returns `true` for the version of results that state none.
pub(super) fn is_first(version: &u32) -> bool {
    *version == first()
}
