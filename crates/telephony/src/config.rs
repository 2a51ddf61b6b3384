//! Settings of SIP calls.

use bentpipe_net::InvalidConfig;
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SIP calls placed at random times, over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Mean time between calls, exponentially distributed. Default: 10 s.
    pub interval: Span,
    /// Mean length of a call from its answer, exponentially distributed. Default: 120 s.
    pub hold: Span,
    /// Time from INVITE to answer at the callee. Default: 3 s.
    pub ring: Span,
    /// Longest time from INVITE to answer at the caller, who then cancels. Default: 60 s.
    pub ring_limit: Span,
    /// Most calls that are placed. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Estimate of the round-trip time, from which all timers follow (RFC 3261 T1). Default: 500 ms.
    pub t1: Span,
    /// Longest retransmission interval (RFC 3261 T2). Default: 4 s.
    pub t2: Span,
    /// Differentiated services codepoint. Default: 24 (class selector 3, RFC 4594).
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            interval: Span::from_secs(10),
            hold: Span::from_secs(120),
            ring: Span::from_secs(3),
            ring_limit: Span::from_secs(60),
            calls: None,
            t1: Span::from_millis(500),
            t2: Span::from_secs(4),
            dscp: 24,
        }
    }
}

impl Config {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn ensure(&self) -> Result<(), InvalidConfig> {
        let millis = Span::from_millis(1);
        InvalidConfig::ensure(self.interval >= millis, "interval", "at least 1 ms")?;
        InvalidConfig::ensure(self.t1 >= millis && self.t1 <= Span::from_secs(60), "t1", "1 ms to 60 s")?;
        InvalidConfig::ensure(self.t2 >= self.t1, "t2", "at least `t1`")?;
        InvalidConfig::ensure(self.dscp < 64, "dscp", "a codepoint from 0 to 63")
    }
}
