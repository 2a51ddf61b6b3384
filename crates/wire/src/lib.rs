//! Byte-exact wire formats.
//!
//! Each protocol is a module with a checked view over bytes (`Packet`, `Datagram`, `Segment`, `Frame`: the field's own
//! word) and a `Repr`, the header as values, with `parse`, `emit` and `buffer_len`. A view made by `new_checked` has had
//! its lengths checked, so its accessors do not panic.
//!
//! A simulated packet is its real header bytes and a count of payload bytes left out, which are zeros. Views of such a
//! packet are made by `new_elided(bytes, elided)`, and checksums count the zeros without touching them.
//!
//! All input is hostile: decoding returns an [`Error`] that says layer, offset and kind, never panics and holds no
//! unbounded state. Misuse of the API (a buffer too short to emit into, a value that does not fit its field) panics, and
//! each such function says so.
//!
//! Nothing here knows time or the simulator.

pub mod aal1;
pub mod aal5;
pub mod arp;
pub mod atm;
pub mod bbframe;
mod bytes;
pub mod checksum;
pub mod crc32;
pub mod dccp;
pub mod erf;
mod error;
pub mod ethernet;
pub mod gse;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod llc;
pub mod mpe;
pub mod pcap;
pub mod psi;
pub mod quick_start;
pub mod rle;
pub mod rtp;
pub mod section;
pub mod sixin4;
pub mod tcp;
pub mod ts;
pub mod udp;
pub mod udplite;
pub mod ule;

pub use error::{Error, Kind, Layer};
