//! TCP-Friendly Rate Control: throughput equation, receiver's loss event rate, sender's allowed rate.
//!
//! Modelled: RFC 5348, and RFC 3448 where it differs ([`Revision`]); loss events separated by round-trip times or by
//! the window counter of CCID 3 (RFC 4342, section 10.2); history discounting; reduction of oscillations; the variant
//! for small packets (RFC 4828); Quick-Start as CCID 3 uses it (RFC 5634, section 3.2). Not modelled: the ECN nonce,
//! losses taken back when a packet comes after three later ones (RFC 5348, section 5.1, allows both). The caller
//! says the size of segments, or its mean.
//!
//! As all of this crate it knows neither packets nor clocks: a transport passes arrived data to a [`Receiver`] and
//! reports to a [`Sender`]. Rates are bytes a second, of data without headers.

mod equation;
mod history;
mod quick_start;
mod receiver;
mod sender;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use equation::{loss_event_rate, rate};
pub use history::{Arrival, LossEventRule, LossHistory};
pub use receiver::{Receiver, Report};
pub use sender::{Feedback, SMALL_PACKET_GAP, Sender, State};

/// Revision of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Revision {
    /// RFC 5348 (2008): initial window of RFC 3390. A data-limited sender is not limited to twice the
    /// received rate.
    #[default]
    Rfc5348,
    /// RFC 3448 (2003). Starts with one packet per round trip, always limited to twice the reported rate.
    Rfc3448,
}

/// Constants of TFRC; both ends have the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Revision of the specification.
    pub revision: Revision,
    /// Enables scaling of the rate by the square root of the RTT. This damps oscillations (RFC 5348, section
    /// 4.5).
    pub damping: bool,
    /// Enables discounting of old loss intervals while the present one is long. RFC 5348, section 5.5.
    pub discounting: bool,
    /// Enables sending credit of up to one round trip (RFC 5348, section 4.6).
    pub credit: bool,
    /// Enables the small-packet variant (RFC 4828). As fair as a TCP with segments of 1460 bytes, at most 100
    /// packets per second.
    pub small_packets: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            revision: Revision::Rfc5348,
            damping: true,
            discounting: true,
            credit: true,
            small_packets: false,
        }
    }
}

/// Header bytes of a packet as RFC 4828, section 3, counts them for small packets.
pub(crate) const SMALL_PACKET_HEADER: f64 = 40.0;
/// Segment size in bytes that the small-packet variant is fair with (RFC 4828, section 3).
pub(crate) const NOMINAL_SEGMENT: f64 = 1460.0;

impl Params {
    /// Returns the segment size in the throughput equation for packets with `segment` bytes of data. RFC
    /// 4828, section 3.
    pub(crate) fn equation_segment(&self, segment: f64) -> f64 {
        if self.small_packets { NOMINAL_SEGMENT } else { segment }
    }
}

#[cfg(test)]
mod tests;
