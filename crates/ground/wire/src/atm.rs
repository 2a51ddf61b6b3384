//! ATM formats: cells, AAL1 and AAL5.

pub mod aal1;
pub mod aal5;
mod cell;

pub use cell::*;
