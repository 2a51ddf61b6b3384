//! IEEE 802 formats: Ethernet, LLC/SNAP, and ARP on top of them.

pub mod arp;
pub mod ethernet;
pub mod llc;
