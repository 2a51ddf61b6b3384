//! Rate-controlled media: TFRC over UDP or over DCCP with CCID 3, with Quick-Start.
//!
//! `bentpipe_cc::tfrc` has the control; this module has its two ends as elements, an application in front of
//! the sender, and the wire formats. Over DCCP (RFC 4340, RFC 4342) that is a connection: request, response,
//! data with window counters, feedback in options, close and reset. Over UDP it is a private header with the
//! fields that RFC 5348, section 3.2, requires. Quick-Start (RFC 4782, RFC 5634) travels with the first
//! packet, DCCP's request or UDP's first data, and in mid-connection with data after silence or after less
//! than the allowed rate.
//!
//! Other elements send messages of real bytes through the same ends over DCCP ([`Sender::of_messages`], [`Receiver::of_messages`]).
//!
//! Not modelled: other CCIDs and their negotiation (CCID 3 is requested and taken as agreed), Sync packets,
//! Loss Intervals options (the Loss Event Rate feature is used instead), and ECN.

mod dccp;
mod kind;
pub mod metrics;
mod quick_start;
mod receiver;
mod sender;
mod udp;
mod waits;

use bentpipe_cc::tfrc::Params;
use bentpipe_net::InvalidConfig;
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::quick_start::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use receiver::Receiver;
pub use sender::Sender;

/// A flow of media whose rate TFRC controls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Data bytes of each packet, without transport and IP headers. Over UDP they include the 8 bytes of
    /// TFRC's own header. No default.
    pub payload: Bytes,
    /// Rate at which the application generates data. Default: unlimited data.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Maximum number of packets waiting at the sender; more are lost there. Default: 1000.
    #[serde(default = "thousand")]
    pub queue: u32,
    /// Transport protocol. Default: "udp".
    #[serde(default)]
    pub transport: Transport,
    /// Rate requested from routers at the start (Quick-Start), with headers. It is rounded up to the next of
    /// the sixteen codes. Default: no request.
    #[serde(default)]
    pub quick_start: Option<Rate>,
    /// Minimum interval of Quick-Start requests, at least 6 s.
    ///
    /// Further requests follow silence, or less data than allowed, when there is more to send than allowed.
    /// The interval doubles with each refusal, and requests end beyond 64 s (RFC 5634). Default: one request,
    /// at the start.
    #[serde(default)]
    pub quick_start_interval: Option<Span>,
    /// Silences of the application, which has a `rate`. Without them it makes data from its start to its stop.
    #[serde(default)]
    pub pauses: Option<Pauses>,
    /// TFRC's constants.
    #[serde(default)]
    pub control: Params,
    /// Differentiated services codepoint, 0 to 63. Default: 0.
    #[serde(default)]
    pub dscp: u8,
}

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

    /// Settings of messages of applications over DCCP.
    fn of_messages(segment: Bytes) -> Config {
        Config { transport: Transport::Dccp, ..Config::new(segment) }
    }

    fn check_pauses(&self) -> Result<(), InvalidConfig> {
        let (asks, interval) = (self.quick_start.is_some(), self.quick_start_interval);
        InvalidConfig::ensure(
            asks || interval.is_none(),
            "quick_start_interval",
            "none without `quick_start`",
        )?;
        let is_long = interval.is_none_or(|interval| interval >= LEAST_INTERVAL);
        InvalidConfig::ensure(is_long, "quick_start_interval", "at least \"6 s\" (RFC 5634)")?;
        InvalidConfig::ensure(self.pauses.is_none() || self.rate.is_some(), "pauses", "none without `rate`")?;
        let both = self.pauses.is_none_or(|pauses| !pauses.on.is_zero() && !pauses.off.is_zero());
        InvalidConfig::ensure(both, "pauses", "more than no time for `on` and `off`")
    }
}

/// RFC 5634, section 2.1.1: the least Initial_QSI.
const LEAST_INTERVAL: Span = Span::from_secs(6);

/// Data and silence in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// Duration of each burst, the first one at the start. No default.
    pub on: Span,
    /// Duration of the silence after each burst. No default.
    pub off: Span,
}

impl Pauses {
    /// Returns the generation time of a packet due at `at` without the silences.
    fn resume(&self, begin: Time, at: Time) -> Time {
        let cycle = (self.on + self.off).as_nanos();
        let into = at.since(begin).as_nanos() % cycle;
        if into < self.on.as_nanos() { at } else { at + Span::from_nanos(cycle - into) }
    }
}

/// Transport protocol of TFRC's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP with a header of 8 bytes: sequence number and round trip time.
    #[default]
    Udp,
    /// DCCP with CCID 3 (RFC 4342), or CCID 4 for small packets (RFC 5622).
    Dccp,
}

/// Mean length of messages, over some 16 (RFC 5348, section 4.1).
#[derive(Clone, Copy, Debug, Default)]
struct MeanLength(Option<f64>);

impl MeanLength {
    /// Returns the mean with another message in it.
    fn with(&mut self, len: usize) -> f64 {
        const WEIGHT: f64 = 1.0 / 16.0;
        let mean = self.0.map_or(len as f64, |mean| mean + WEIGHT * (len as f64 - mean));
        *self.0.insert(mean)
    }
}

/// Packet received by a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inbound {
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
