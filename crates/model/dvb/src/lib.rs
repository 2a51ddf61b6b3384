//! IP over DVB: ULE and MPE in transport streams, GSE in BBFRAMEs, header compression.
//!
//! [`Encapsulator`] and [`Decapsulator`] are the two ends of a stream: state machines that a simulated link and a gateway
//! on real packets share. Both have the same [`Config`]: PID, encapsulation, packing threshold, addresses, which packets
//! are compressed ([`Filter`]) and how ([`Rohc`]).
//!
//! As elements: a [`Sender`] is the near end of a [`Line`], with a queue for each stream. It emits TS packets or BBFRAMEs as
//! packets of real bytes, which a [`Channel`](bentpipe_net::Channel) may damage; a [`Receiver`] is the far end of one stream.
//! Slots are exact and NULL packets only counted, so work depends on what is carried alone.
//!
//! The content of slots and data fields is decided by [`multiplex`], PAT and PMT are [`Tables`]: both without clock and I/O.
//!
//! RFC 4326, RFC 5163 (what is received), EN 301 192, TS 102 606, EN 300 421, EN 302 307-1; RFC 3095 and RFC 6846 for ROHC, which is carried by its
//! EtherType. Not modelled: address resolution, encryption, concatenation when sending; the FEC (what is left of errors behind it is the channel's), synchronisation of a receiver.

mod bridge;
#[cfg(test)]
mod change_tests;
mod config;
pub mod dama;
mod decapsulator;
#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod element_tests;
mod encapsulator;
mod filter;
mod framed;
pub mod kind;
mod line;
pub mod metrics;
pub mod multiplex;
mod receiver;
mod sender;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod timing;
pub mod udlr;
mod unit;

pub use config::{Cid, Compatibility, Config, Encapsulation, Reorder, Rohc, RohcMode};
pub use decapsulator::{Anomaly, Decapsulator, Event, Received};
pub use encapsulator::{Encapsulator, Kind, Pdu, Refused, Sent};
pub use filter::{Action, ChannelProfiles, Filter, FilterDecision, ProfileName, RohcVersion, Rule};
pub use framed::Idle;
pub use line::{CodeRate, FrameSize, InputStreams, Line, Modcod, RollOff, Step};
pub use receiver::Receiver;
pub use sender::{PathConfig, Refusal, Sender};
pub use tables::{Tables, elementary};
pub use text::{Address, DataPid};
pub use timing::Slots;
pub use unit::{CarriedPacket, Unit};
