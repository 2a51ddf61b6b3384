//! Integration tests, one program: each module is built and linked once.

mod link;
mod metrics;
