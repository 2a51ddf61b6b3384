//! Integration tests, one program: each module is built and linked once.

mod dama;
mod fuzz;
mod metrics;
