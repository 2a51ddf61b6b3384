//! Applications over UDP: sources of many flows, measuring sinks, replay of a capture.
//!
//! They send and receive whole IP packets through a port of their [node](bentpipe_net::Node). TCP's
//! applications are part of its element.

mod arrivals;
pub mod custom;
pub(crate) mod delays;
pub(crate) mod flow;
mod kind;
pub mod metrics;
mod missing;
pub(crate) mod payload;
mod refresh;
mod replay;
mod sink;
mod source;
mod timetable;

pub use arrivals::Arrivals;
pub use flow::{Endpoints, Header, Identification, Template, datagram, datagram_packet};
pub use kind::{Udp, datagram_ends, endpoints, port_numbers, sample};
pub use missing::Missing;
pub use payload::payload_len;
pub use refresh::Refresh;
pub use replay::{Direction, Replay, ReplayConfig, ReplaySink, Sent, verified};
pub use sink::{FlowStats, Sink, SinkConfig};
pub use source::{Law, Pattern, Source, SourceConfig};
