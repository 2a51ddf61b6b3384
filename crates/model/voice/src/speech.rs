//! Real speech: samples, and what a receiver plays in place of lost ones.

pub mod conceal;
pub mod g711;
