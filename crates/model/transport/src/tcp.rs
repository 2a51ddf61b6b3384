//! TCP: a full sender and receiver on real segments.
//!
//! An [`Endpoint`] is one end of a connection with its application; a [`Connection`] is the protocol alone, for
//! elements that have several or another use for the stream.
//!
//! Modelled: the state machine, windows, persist and Nagle (RFC 9293), congestion control's transport side (RFC 5681),
//! recovery by New Reno (RFC 6582) or SACK (RFC 2018, 6675, 2883), limited transmit (RFC 3042), proportional rate
//! reduction (RFC 6937), the retransmission timer (RFC 6298), window scaling, timestamps and PAWS (RFC 7323), spurious
//! timeouts (RFC 5682, 3522), ECN (RFC 3168), unused windows (RFC 5681 4.1, 2861, 7661), Linux's receive buffer
//! accounting and quick ACKs. Slow start and window laws are `bentpipe-cc`'s.
//!
//! Not modelled: urgent data, keep-alives, path MTU discovery, Fast Open, RACK and tail loss probes (RFC 8985),
//! autotuning of buffers, segmentation offload. The stream's content is zeros, so only lengths pass; a [`Stream`] carries bytes.

mod app;
mod config;
mod connection;
mod content;
mod endpoint;
mod kind;
pub mod metrics;
pub mod pep;
mod plain;
mod ramp;
mod ranges;
mod receiver;
mod scoreboard;
mod segment;
mod sender;
mod stream;
mod template;
mod timers;
mod window;

pub use app::{Bulk, OnOff, Paced, Sink, Source};
pub use config::{Config, LinuxBuffer, PartialAcks, ReceiveBuffer, WindowValidation};
pub use connection::{Connection, Failure, State};
pub use endpoint::Endpoint;
pub use pep::{Behind, GaveWay, HalfOpen, Leads, Pep, PepConfig, PepState, PepTotals, Prefixes};
pub use stream::Stream;
