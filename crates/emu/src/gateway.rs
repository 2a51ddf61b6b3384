//! One site of a satellite mesh on real packets: a TUN or TAP device on one side, a transport stream or baseband frames
//! over UDP, files, pipes or programs on the other.
//!
//! For each remote site there is a stream to it and one or more from it, each with filter, header compression and
//! encapsulation of its own ([`bentpipe_net::dvb`]). A [`Gateway`] is one thread with one loop: it fills the slots of the
//! carrier that are over, takes what the device and the inputs have, and waits. Nothing blocks it: what an output or the
//! device has no room for is dropped and counted, queues are bounded, and whatever arrives is taken for hostile.
//!
//! Not here: routing protocols, spanning tree, address resolution for ULE (RFC 4947), and encryption: the stream is as
//! open as a satellite's.

mod carrier;
mod config;
mod input;
mod lan;
mod learning;
mod numbering;
mod output;
mod pace;
mod remote;
mod routes;
mod run;
mod signals;
mod socket;
mod statistics;
mod tables;

pub use carrier::Counts as CarrierCounts;
pub use config::{Carrier, Config, Framing, Lan, LanKind, Nulls, Remote, Tables};
pub use input::{Counts as InputCounts, InputConfig};
pub use output::{Counts as OutputCounts, OutputConfig};
pub use routes::{NoPrefix, Prefix};
pub use run::{Error, Gateway, Handle};
pub use signals::{Waker, asked_to_end, asked_to_reload, watch};
pub use socket::{Listen, Send};
pub use statistics::{LanCounts, RemoteStatistics, Statistics, StrayCounts, Troubles};
