//! Integration tests, one program: each module is built and linked once.

mod fuzz;
mod round_trip;
#[path = "../../../../fuzz/src/sequences.rs"]
#[allow(unreachable_pub, reason = "shared with other crates")]
mod sequences;
mod support;
mod tshark;
