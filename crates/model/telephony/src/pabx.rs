//! Exchanges of sites (PABX).
//!
//! *Models*: a registrar (RFC 3261, section 10) with digest authentication of phones (RFC 7616), a back-to-back user
//! agent of SIP and IAX2 calls, a dial plan with patterns and limits, trunks to other exchanges with voice over IAX2, or over SIP
//! with RTP, the voice of phones on its way through exchanges, conferences with numbers, and call records.
//! *Does not model*: queues and groups of phones, forwarding, transfers, DTMF.

mod element;
mod kind;
mod leg;
mod link;
mod media;
pub mod metrics;
mod number;
mod plan;
mod relay;

pub use element::Pabx;
pub use kind::{Kind, Line};
pub use number::Pattern;
pub(crate) use plan::MAX_HOPS;
pub use plan::{
    Conference, DialLine, Digest, DigestAlgorithm, DigestQop, Exchange, Exchanges, Rule, Step, TrunkProtocol,
};
