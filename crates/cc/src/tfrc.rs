//! TCP-Friendly Rate Control: the throughput equation, the receiver's loss event rate and the sender's allowed rate.
//!
//! Modelled: RFC 5348, and RFC 3448 where it differs ([`Edition`]); loss events told apart by round-trip times or by
//! the window counter of CCID 3 (RFC 4342, section 10.2); history discounting; reduction of oscillations; the variant
//! for small packets (RFC 4828); Quick-Start as CCID 3 uses it (RFC 5634, section 3.2). Not modelled: the ECN nonce,
//! losses taken back when a packet comes after three later ones (RFC 5348, section 5.1, allows both), and a mean
//! segment size estimated from varying packets: the caller says the size.
//!
//! As all of this crate it knows no packets and no clock: a transport tells a [`Receiver`] of data that arrived and a
//! [`Sender`] of reports that came back. Rates are bytes a second, of data without headers.

mod equation;
mod history;
mod quick_start;
mod receiver;
mod sender;

use bentpipe_units::Bytes;

pub use equation::{loss_event_rate, rate};
pub use history::{Arrival, LossHistory, Separation};
pub use receiver::{Receiver, Report};
pub use sender::{Feedback, Sender, State};

/// Which specification is followed where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Edition {
    /// RFC 5348 (2008): starts with the window of RFC 3390, and a sender that is limited by its data is not held to
    /// twice what was received of it.
    #[default]
    Rfc5348,
    /// RFC 3448 (2003): starts with a packet a round trip and is always held to twice what the last report says.
    Rfc3448,
}

/// Constants of TFRC; both ends have the same.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Params {
    /// Which specification is followed where they differ.
    pub edition: Edition,
    /// Whether the rate follows the square root of the RTT to damp oscillations (RFC 5348, section 4.5).
    pub damping: bool,
    /// Whether old loss intervals count less when the present one is long (RFC 5348, section 5.5).
    pub discounting: bool,
    /// Whether unused chances to send are kept for up to a round trip (RFC 5348, section 4.6).
    pub credit: bool,
    /// The variant for small packets (RFC 4828): as fair as a TCP with segments of 1460 bytes, at most 100 packets a
    /// second.
    pub small_packets: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            edition: Edition::Rfc5348,
            damping: true,
            discounting: true,
            credit: true,
            small_packets: false,
        }
    }
}

/// Header bytes of a packet as RFC 4828, section 3, counts them for small packets.
pub(crate) const SMALL_PACKET_HEADER: f64 = 40.0;
/// The segment size that the small-packet variant is fair with (RFC 4828, section 3), in bytes.
pub(crate) const NOMINAL_SEGMENT: f64 = 1460.0;

impl Params {
    /// The segment size in the throughput equation for packets with `segment` bytes of data (RFC 4828, section 3).
    pub(crate) fn equation_segment(&self, segment: Bytes) -> f64 {
        if self.small_packets { NOMINAL_SEGMENT } else { segment.get() as f64 }
    }
}

#[cfg(test)]
mod tests;
