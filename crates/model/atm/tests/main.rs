//! Integration tests, one program: each module is built and linked once.

mod atm;
mod atm_path;
mod metrics;
