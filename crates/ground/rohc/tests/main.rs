//! Integration tests, one program: each module is built and linked once.

mod buffers;
mod clean_channel;
mod evidence;
mod features;
mod fuzz;
mod late_feedback;
mod librohc;
mod librohc_peer;
mod notation;
mod options;
mod policies;
mod properties;
mod residual;
mod round_trip;
#[path = "../../../../fuzz/src/sequences.rs"]
#[allow(unreachable_pub, reason = "shared with other crates")]
mod sequences;
mod sizes;
mod support;
mod tcp;
mod tcp_memory;
mod v2;
mod versions;
mod wireshark;
