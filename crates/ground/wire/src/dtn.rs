//! Formats of delay-tolerant networks: bundles of version 7 and what carries them.
//!
//! Bundles of version 6 (RFC 5050) and their convergence layers (RFC 7242) are left out.

pub mod admin;
pub mod bpsec;
pub mod bundle;
pub mod cbor;
pub mod cfdp;
pub mod crc;
pub mod eid;
pub mod ltp;
pub mod mtcp;
pub mod sdnv;
pub mod security;
pub mod tcpcl;

/// UDP and TCP port of bundles (RFC 7122, RFC 9174).
pub const BUNDLE_PORT: u16 = 4556;
/// UDP port of LTP segments (RFC 7122, section 3.5.1).
pub const LTP_PORT: u16 = 1113;
/// Keep-alive datagram of both UDP convergence layers (RFC 7122, section 3.7): four zero octets.
pub const KEEP_ALIVE: [u8; 4] = [0; 4];
