//! Exchanges of sites (PABX).
//!
//! *Models*: a registrar (RFC 3261, section 10) with digest authentication of phones (RFC 7616), a back-to-back user
//! agent of SIP and IAX2 calls, a dial plan with patterns, trunks to other exchanges over IAX2 with voice, or over SIP,
//! and call records.
//! *Does not model*: media of phones, queues and groups of phones, forwarding, transfers, DTMF.

mod element;
mod kind;
pub mod metrics;
mod number;
mod plan;

pub use element::Pabx;
pub use kind::{Kind, Line};
pub use number::Pattern;
pub use plan::{
    DialLine, Digest, DigestAlgorithm, DigestQop, Exchange, Exchanges, Rule, Step, TrunkProtocol,
};
