//! Running the points of a plan.

mod files;

pub use files::write_whole;
