//! Internet protocols: IPv4, IPv6, and the protocols directly above them.
//!
//! [`Packet`] and [`Repr`] are headers of either version; the rest is one module per protocol.

pub mod checksum;
pub mod dccp;
pub mod dtcp;
mod fields;
pub mod fragments;
pub mod gre;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod membership;
mod packet;
pub mod quick_start;
pub mod sixin4;
pub mod tcp;
pub mod udp;
pub mod udplite;
mod upper;

pub use fields::{Ecn, Protocol, TrafficClass};
pub use packet::{Packet, Repr};
pub use upper::Upper;
