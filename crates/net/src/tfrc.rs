//! Media at a controlled rate: TFRC over UDP or over DCCP with CCID 3, and Quick-Start for it.
//!
//! The control is `bentpipe_cc::tfrc`; here are its two ends as elements, an application in front of the sender, and what
//! is on the wire. Over DCCP (RFC 4340, RFC 4342) that is a connection: request, response, data with window counters,
//! feedback in options, close and reset. Over UDP it is a header of our own that carries what RFC 5348, section 3.2,
//! asks for. Quick-Start (RFC 4782, RFC 5634) rides on the first packet, DCCP's request or UDP's first data, and in
//! mid-connection on data after silence or after less than was allowed.
//!
//! Not modelled: other CCIDs and their negotiation (CCID 3 is asked for and taken for granted), Sync packets, Loss
//! Intervals options (the Loss Event Rate feature is used instead), and ECN.

mod dccp;
mod quick_start;
mod receiver;
mod sender;
mod udp;

use bentpipe_cc::tfrc::Params;
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::quick_start::Response;

use crate::Impossible;

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
    /// The least time from one request to the next, at least 6 s: routers are asked again when there is more to send than is
    /// allowed after silence, or after less than was allowed. It doubles with each request that is refused, and beyond 64 s
    /// there are none any more (RFC 5634). Without it they are asked at the start only.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quick_start_interval: Option<Span>,
    /// Silences of the application, which has a `rate`. Without them it makes data from its start to its stop.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pauses: Option<Pauses>,
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
            quick_start_interval: None,
            pauses: None,
            control: Params::default(),
            dscp: 0,
        }
    }

    fn check_pauses(&self) -> Result<(), Impossible> {
        let (asks, interval) = (self.quick_start.is_some(), self.quick_start_interval);
        Impossible::unless(asks || interval.is_none(), "quick_start_interval", "none without `quick_start`")?;
        let is_long = interval.is_none_or(|interval| interval >= LEAST_INTERVAL);
        Impossible::unless(is_long, "quick_start_interval", "at least \"6 s\" (RFC 5634)")?;
        Impossible::unless(self.pauses.is_none() || self.rate.is_some(), "pauses", "none without `rate`")?;
        let both = self.pauses.is_none_or(|pauses| !pauses.on.is_zero() && !pauses.off.is_zero());
        Impossible::unless(both, "pauses", "more than no time for `on` and `off`")
    }
}

/// RFC 5634, section 2.1.1: the least Initial_QSI.
const LEAST_INTERVAL: Span = Span::from_secs(6);

/// Data and silence in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Pauses {
    /// How long it makes data at a time, from its start on. No default.
    pub on: Span,
    /// How long it is silent then. No default.
    pub off: Span,
}

impl Pauses {
    /// When the next packet is made that would be made at `at` without them.
    fn resume(&self, begin: Time, at: Time) -> Time {
        let cycle = (self.on + self.off).as_nanos();
        let into = at.since(begin).as_nanos() % cycle;
        if into < self.on.as_nanos() { at } else { at + Span::from_nanos(cycle - into) }
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
