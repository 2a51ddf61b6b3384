//! `bentpipe gateway` on real packets: sites in network namespaces, with a sky between them. Needs root, `ip`, `ping`,
//! `iperf3` and `tshark`; without them the tests say so and pass, but never in CI.
//!
//! One test runs at a time: they share the machine's time.
#![allow(clippy::print_stderr, reason = "says why a test is skipped")]
#![allow(clippy::disallowed_methods, reason = "waits for real packets")]

#[path = "gateway/anomalies.rs"]
mod anomalies;
#[path = "gateway/bridge.rs"]
mod bridge;
#[path = "gateway/calls.rs"]
mod calls;
#[path = "gateway/chaos.rs"]
mod chaos;
#[path = "gateway/fec.rs"]
mod fec;
#[path = "gateway/mesh.rs"]
mod mesh;
#[path = "gateway/privileges.rs"]
mod privileges;
#[path = "gateway/reload.rs"]
mod reload;
#[path = "gateway/rig.rs"]
mod rig;
#[path = "gateway/settings.rs"]
mod settings;
#[path = "gateway/udlr.rs"]
mod udlr;
#[path = "gateway/ways.rs"]
mod ways;
