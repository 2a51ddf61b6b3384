//! `bentpipe gateway` on real packets: sites in network namespaces, with a sky between them. Needs root, `ip`, `ping`,
//! `iperf3` and `tshark`; without them the tests say so and pass, but never in CI.
//!
//! One test runs at a time: they share the machine's time.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for real packets")]

mod anomalies;
mod bridge;
mod calls;
mod chaos;
mod fec;
mod mesh;
mod privileges;
mod reload;
mod rig;
mod settings;
mod udlr;
mod ways;
