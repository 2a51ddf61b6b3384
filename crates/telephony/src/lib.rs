//! SIP calls between hosts of the simulator.
//!
//! *Models*: a [`Caller`] that places calls at random times and a [`Callee`] that lets them ring and answers, with the transactions and
//! dialogs of [`bentpipe_signalling`] over UDP. Messages have their real bytes.
//!
//! *Does not model*: media; proxies between the hosts; SIP over TCP.

mod callee;
mod caller;
mod config;
mod datagram;
mod kind;
pub mod metrics;
mod station;

pub use callee::Callee;
pub use caller::Caller;
pub use config::Config;
