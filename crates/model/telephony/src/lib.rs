//! SIP and IAX2 calls between hosts of the simulator.
//!
//! *Models*: a [`Caller`] that places calls at random times and a [`Callee`] that lets them ring and answers. Their [`Protocol`] is that
//! of [`bentpipe_signalling`] over UDP: [`Sip`], or [`Iax`] with voice in mini frames or trunks. Messages have their real bytes.
//!
//! SIP phones may have voice, of a constant rate or with silence suppression, rated by the E-model from mouth to ear, and RTCP.
//!
//! *Does not model*: proxies between the hosts; SIP over TCP.

mod callee;
mod caller;
mod config;
mod datagram;
mod kind;
pub mod load;
pub mod metrics;
pub mod pabx;
mod party;
mod protocol;
mod station;

pub use callee::{Answering, Callee};
pub use caller::{Caller, Placing};
pub use config::{Calls, Config, IaxConfig};
pub use party::{Party, Role};
pub use protocol::{
    Happening, Iax, IaxSettings, Lines, Outcomes, Phone, PhoneVoice, Protocol, Repeats, Sip, SipSettings,
    Voice,
};
pub use station::Station;
