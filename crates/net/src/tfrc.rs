//! Media at a controlled rate: TFRC over UDP or over DCCP with CCID 3, and Quick-Start for it.
//!
//! The control is `bentpipe_cc::tfrc`; here are its two ends as elements, an application in front of the sender, and what
//! is on the wire. Over DCCP (RFC 4340, RFC 4342) that is a connection: request, response, data with window counters,
//! feedback in options, close and reset. Over UDP it is a header of our own that carries what RFC 5348, section 3.2,
//! asks for. Quick-Start (RFC 4782, RFC 5634) rides on the first packet: DCCP's request, or UDP's first data.
//!
//! Not modelled: other CCIDs and their negotiation (CCID 3 is asked for and taken for granted), Sync packets, Loss
//! Intervals options (the Loss Event Rate feature is used instead), ECN, and requests for Quick-Start in mid-connection.

mod dccp;
mod receiver;
mod sender;
mod udp;

use bentpipe_cc::tfrc::Params;
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::quick_start::Response;

pub use receiver::Receiver;
pub use sender::Sender;

/// A flow of media whose rate TFRC controls.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Config {
    /// The data in each packet, without transport and IP headers; over UDP the 8 bytes of TFRC's own header are part of
    /// it. No default.
    pub payload: Bytes,
    /// The rate at which the application makes data; without it there is always more to send.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rate: Option<Rate>,
    /// How many packets wait at the sender at most when the rate allows less than the application makes; more are lost
    /// there. Default: 1000.
    #[cfg_attr(feature = "serde", serde(default = "thousand"))]
    pub queue: u32,
    /// What carries it. Default: "udp".
    #[cfg_attr(feature = "serde", serde(default))]
    pub transport: Transport,
    /// The rate to ask routers for at the start (Quick-Start), headers included; it is rounded up to the next of its
    /// sixteen codes. Without it nobody is asked.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quick_start: Option<Rate>,
    /// TFRC's constants.
    #[cfg_attr(feature = "serde", serde(default))]
    pub control: Params,
    /// Differentiated services codepoint, 0 to 63. Default: 0.
    #[cfg_attr(feature = "serde", serde(default))]
    pub dscp: u8,
}

#[cfg(feature = "serde")]
const fn thousand() -> u32 {
    1000
}

impl Config {
    /// Packets with this much data and all else as by default.
    pub fn new(payload: Bytes) -> Config {
        Config {
            payload,
            rate: None,
            queue: 1000,
            transport: Transport::Udp,
            quick_start: None,
            control: Params::default(),
            dscp: 0,
        }
    }
}

/// What carries TFRC's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Transport {
    /// UDP with a header of 8 bytes: sequence number and round trip time.
    #[default]
    Udp,
    /// DCCP with CCID 3 (RFC 4342), or CCID 4 for small packets (RFC 5622).
    Dccp,
}

/// What a sender hears.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Heard {
    /// The connection is there.
    Established { response: Option<Response> },
    /// A report.
    Report(Report),
    /// The other end closed the connection.
    Closed,
}

/// A report as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Report {
    sequence: u64,
    receive_rate: f64,
    loss_event_rate: f64,
    delay: bentpipe_units::Span,
    response: Option<Response>,
}

#[cfg(test)]
mod tests;
