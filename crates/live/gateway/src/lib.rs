//! Site of a satellite mesh on real packets. On one side it has a TUN or TAP device, on the other a transport
//! stream or baseband frames over UDP, files, pipes or programs.
//!
//! Each remote site has a stream to it and one or more from it, each with filter, header compression and encapsulation of its
//! own ([`bentpipe_dvb`]). A [`Gateway`] is one thread with one loop: it fills the elapsed slots of the carrier, reads the
//! device and the inputs, and waits. Nothing blocks it: what an output or the device has no room for is dropped and counted,
//! queues are bounded, and all input is assumed hostile.
//!
//! An [`Operation`] is a gateway made from a site file ([`settings::read`]) with its statistics (JSON, Prometheus, journal,
//! tables) and its control socket ([`control::ask`]). [`forecast`] describes a site without running it.
//!
//! *Does not model*: routing protocols, spanning tree, address resolution for ULE (RFC 4947), encryption: the stream is as open
//! as a satellite's.
#![allow(clippy::disallowed_methods, reason = "real time is the purpose of this crate")]

mod administrator;
mod carrier;
mod config;
pub mod control;
pub mod fec;
pub mod file;
mod forecast;
mod input;
mod journal;
mod lan;
mod learning;
pub mod metrics;
mod numbering;
mod operation;
mod output;
mod pace;
mod place;
mod privileges;
mod remote;
mod reorder;
mod repair;
mod routes;
mod run;
pub mod settings;
mod socket;
mod statistics;
mod strays;
mod tap;
mod udlr;
mod view;

pub use carrier::Counts as CarrierCounts;
pub use config::{Carrier, Config, Framing, Lan, LanKind, Nulls, Remote, Tables};
pub use forecast::forecast;
pub use input::{Counts as InputCounts, InputConfig};
pub use operation::{Console, Operation, OperationError, changes_text, run};
pub use output::{Counts as OutputCounts, OutputConfig};
pub use place::OpenError;
pub use privileges::Privileges;
pub use routes::{NoPrefix, Prefix};
pub use run::{Error, Gateway, Handle};
pub use socket::{Listen, Send, interfaces, listener};
pub use statistics::{Anomalies, LanCounts, RemoteStatistics, Statistics, StrayCounts};
pub use tap::{CaptureConfig, Counts as CaptureCounts, Point as CapturePoint};
pub use udlr::{UdlrConfig, UdlrCounts, UdlrRole, fuzz_content};
