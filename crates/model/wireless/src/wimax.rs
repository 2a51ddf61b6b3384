//! IEEE 802.16-2004 cell with the OFDM-256 PHY (fixed WiMAX).
//!
//! *Models*: a base station and its subscriber stations; FDD and TDD frames counted in symbols, with preambles, FCH, DL-MAP, UL-MAP, DCD and UCD of true sizes; burst
//! profiles by SNR with hysteresis; block errors by a table; Rician fading; the services UGS, ertPS, rtPS, nrtPS and best
//! effort with contention, piggyback requests, polls and grants per station; fragmentation, packing, CRC, ARQ with
//! selective acknowledgement, payload header suppression, ROHC; three schedulers; stations that forward a limited number of packets per second. *Does not model*: network entry (stations
//! are ranged and registered from the start), dynamic service flows, subchannels, OFDMA, mobility, PKM.
//!
//! The element wakes at busy frames and at symbols that complete packets.
//!
//! *References*: IEEE 802.16-2004, clauses 6.3 and 8.3; thresholds of 802.16e-2005.

mod air;
mod arq;
mod cell;
mod classify;
mod config;
mod conn;
mod contend;
mod downlink;
mod kind;
pub mod metrics;
mod overhead;
mod phs;
mod phy;
mod picture;
mod plan;
mod rohc;
mod share;
mod station;
#[cfg(test)]
mod tests;
mod uplink;

pub use air::{AirLog, Record};
pub use cell::{Refusal, Wimax};
pub use config::{
    Arq, Cell, Convergence, Duplex, Fading, PathConfig, Payload, Phs, Radio, Rohc, RohcMode, RohcVersion,
    Scheduler, Service, ServiceFlow,
};
pub use kind::Kind;
pub use phy::{Bandwidth, Guard, Phy, Profile};
