//! Applications over UDP: sources of many flows, sinks that measure them, and the replay of a capture.
//!
//! They send and receive whole IP packets through a port of their [node](crate::Node). TCP's applications are part of
//! its element.

pub(crate) mod arrivals;
pub(crate) mod delays;
pub(crate) mod flow;
mod replay;
mod sink;
mod source;
mod timetable;

pub use arrivals::Arrivals;
pub use flow::{Endpoints, Header, Identification};
pub use replay::Replay;
pub use sink::{FlowStats, Sink, SinkConfig};
pub use source::{Law, Pattern, Source, SourceConfig};
