//! Transport protocols and their applications: UDP, TCP, TFRC, ICMP echo.
//!
//! Their ends are [elements](bentpipe_net::Element) that send and receive whole IP packets through a port of their
//! [node](bentpipe_net::Node).

pub mod app;
#[cfg(test)]
mod approver_tests;
mod checksum;
mod datagram;
pub mod ping;
pub mod tcp;
pub mod tfrc;
