//! IP over DVB: packets in transport streams, by ULE or MPE, and in DVB-S2's baseband frames, by GSE, with header
//! compression.
//!
//! [`Encapsulator`] and [`Decapsulator`] are the two ends of a stream: state machines that a simulated link and a gateway
//! on real packets share. Both have the same [`Config`]: PID, encapsulation, packing threshold, addresses, which packets
//! are compressed ([`Filter`]) and how ([`Rohc`]).
//!
//! RFC 4326, RFC 5163 (what is received), EN 301 192, TS 102 606; RFC 3095 and RFC 6846 for ROHC, which is carried by its
//! EtherType. Not modelled: address resolution, encryption, concatenation when sending.

mod config;
mod decapsulator;
mod encapsulator;
mod filter;
#[cfg(test)]
mod tests;
mod text;

pub use config::{Cid, Config, Encapsulation, Rohc, RohcMode, Rtp};
pub use decapsulator::{Decapsulator, Event, Received, Trouble};
pub use encapsulator::{Encapsulator, Kind, Pdu, Refused, Sent};
pub use filter::{Action, Filter, ProfileName, Rule, Verdict};
pub use text::{Address, DataPid, Ports, Prefix, Transport, Unreadable};
