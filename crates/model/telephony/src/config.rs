//! Settings of calls.

use bentpipe_net::InvalidConfig;
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pabx::Line;
use crate::protocol::{IaxSettings, Phone, PhoneVoice, SipSettings, Voice};

/// SIP calls placed at random times, over UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Phones at exchanges. Default: both hosts call each other without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pabx: Option<Line>,
    /// Voice of calls, from the answer to the end. Default: signalling alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<PhoneVoice>,
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
            pabx: None,
            media: None,
        }
    }
}

impl Config {
    /// Returns what is common to all protocols.
    pub fn calls(&self) -> Calls {
        let Config { interval, hold, ring, ring_limit, calls, dscp, .. } = *self;
        Calls { interval, hold, ring, ring_limit, calls, dscp }
    }

    /// Returns the timers, and the phone of an end if it has one.
    pub fn settings(&self, phone: Option<Phone>) -> SipSettings {
        SipSettings { t1: self.t1, t2: self.t2, phone, media: self.media }
    }

    /// Checks the timers.
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn ensure(&self) -> Result<(), InvalidConfig> {
        let millis = Span::from_millis(1);
        InvalidConfig::ensure(self.t1 >= millis && self.t1 <= Span::from_secs(60), "t1", "1 ms to 60 s")?;
        InvalidConfig::ensure(self.t2 >= self.t1, "t2", "at least `t1`")?;
        self.media.as_ref().map_or(Ok(()), PhoneVoice::ensure)
    }
}

/// IAX2 calls placed at random times, with voice in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct IaxConfig {
    /// Mean time between calls, exponentially distributed. Default: 10 s.
    pub interval: Span,
    /// Mean length of a call from its answer, exponentially distributed. Default: 120 s.
    pub hold: Span,
    /// Time from NEW to answer at the callee. Default: 3 s.
    pub ring: Span,
    /// Longest time from NEW to answer at the caller, who then ends the call. Default: 60 s.
    pub ring_limit: Span,
    /// Most calls that are placed. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Codec, of which each direction sends a frame of 20 ms. Default: "gsm".
    pub codec: Voice,
    /// Period in which voice of all calls is gathered into a trunk frame. Default: a mini frame each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<Span>,
    /// Differentiated services codepoint. Default: 46 (expedited forwarding).
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
}

impl Default for IaxConfig {
    fn default() -> IaxConfig {
        let Calls { interval, hold, ring, ring_limit, calls, .. } = Config::default().calls();
        IaxConfig { interval, hold, ring, ring_limit, calls, codec: Voice::default(), trunk: None, dscp: 46 }
    }
}

impl IaxConfig {
    /// Returns what is common to all protocols.
    pub fn calls(&self) -> Calls {
        let IaxConfig { interval, hold, ring, ring_limit, calls, dscp, .. } = *self;
        Calls { interval, hold, ring, ring_limit, calls, dscp }
    }

    /// Returns the settings of voice.
    pub fn settings(&self) -> IaxSettings {
        IaxSettings { voice: self.codec, accepts_all: false, trunk: self.trunk }
    }

    /// Checks the period of trunks.
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn ensure(&self) -> Result<(), InvalidConfig> {
        let (least, most) = (Span::from_millis(1), Span::from_secs(1));
        let is_possible = self.trunk.is_none_or(|period| period >= least && period <= most);
        InvalidConfig::ensure(is_possible, "trunk", "1 ms to 1 s")
    }
}

/// Calls at random times, by any protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    /// Mean time between calls.
    pub interval: Span,
    /// Mean length of a call.
    pub hold: Span,
    /// Time to the answer at the callee.
    pub ring: Span,
    /// Longest time to the answer at the caller.
    pub ring_limit: Span,
    /// Most calls that are placed.
    pub calls: Option<u64>,
    /// Differentiated services codepoint.
    pub dscp: u8,
}

impl Calls {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error with the key of the first impossible value.
    pub fn ensure(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.interval >= Span::from_millis(1), "interval", "at least 1 ms")?;
        InvalidConfig::ensure(self.dscp < 64, "dscp", "a codepoint from 0 to 63")
    }
}
