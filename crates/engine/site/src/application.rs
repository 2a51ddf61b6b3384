//! Applications that write into a transport connection.

use bentpipe_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Application data of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Application {
    /// No data; the application closes after its peer.
    #[default]
    Nothing,
    /// Unlimited data, as fast as the connection accepts it.
    Bulk(Bulk),
    /// A constant rate, in writes of one size (CBR over TCP).
    Paced(Paced),
    /// Times of writing and of silence, in turn.
    OnOff(OnOff),
}

impl Application {
    /// Returns `true` for bursts whose rate is that of the connection.
    pub fn is_burst_without_rate(&self) -> bool {
        matches!(self, Application::OnOff(OnOff { rate: None, .. }))
    }
}

/// A bulk transfer. It ends after `size` or `duration`, whichever comes first; with neither it does not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bulk {
    /// Bytes to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Time after which no more is written. Data in the buffer by then is still sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// Writes at regular times. Those that find the buffer full wait, and are made up for later.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Paced {
    /// Bits per second.
    pub rate: Rate,
    /// Bytes in each write.
    pub write: Bytes,
    /// Time after which no more is written; unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// Writes for a time, then is silent for a time, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OnOff {
    /// Duration of each burst.
    pub on: Span,
    /// Duration of the silence after each burst.
    pub off: Span,
    /// Take both times as means of an exponential distribution.
    pub exponential: bool,
    /// Rate of writing; unset: as fast as the congestion window allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Time after which no more is written; unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

impl Default for Paced {
    fn default() -> Paced {
        Paced { rate: Rate::from_bps(64_000), write: Bytes::new(1000), duration: None }
    }
}

impl Default for OnOff {
    fn default() -> OnOff {
        let (on, off) = (Span::from_secs(1), Span::from_secs(1));
        OnOff { on, off, exponential: false, rate: None, duration: None }
    }
}

impl Application {
    /// Returns the mean rate that it writes, where that does not depend on the connection.
    pub fn offered(&self) -> Option<Rate> {
        match self {
            Application::Nothing => Some(Rate::from_bps(0)),
            Application::Bulk(_) => None,
            Application::Paced(paced) => Some(paced.rate),
            Application::OnOff(OnOff { on, off, rate, .. }) => {
                let part = on.as_secs_f64() / (*on + *off).as_secs_f64().max(f64::MIN_POSITIVE);
                rate.map(|rate| rate.mul_f64(part))
            }
        }
    }

    /// Returns the time after which it writes no more, if it has one.
    pub fn lasts(&self) -> Option<Span> {
        match self {
            Application::Nothing => None,
            Application::Bulk(bulk) => bulk.duration,
            Application::Paced(paced) => paced.duration,
            Application::OnOff(on_off) => on_off.duration,
        }
    }

    /// Returns the number of bytes that it writes, if it ends after them.
    pub fn size(&self) -> Option<Bytes> {
        let Application::Bulk(bulk) = self else { return None };
        bulk.size
    }

    /// Returns the fixed seconds of writing, without a rate, and of silence in turn.
    pub fn cycle(&self) -> Option<[f64; 2]> {
        match self {
            Application::OnOff(OnOff { on, off, exponential: false, rate: None, .. }) if !on.is_zero() => {
                Some([on.as_secs_f64(), off.as_secs_f64()])
            }
            _ => None,
        }
    }

    /// Returns the application with an end after `duration` where it does not say one.
    pub fn lasting(mut self, duration: Option<Span>) -> Application {
        match &mut self {
            Application::Nothing => {}
            Application::Bulk(bulk) => bulk.duration = bulk.duration.or(duration),
            Application::Paced(paced) => paced.duration = paced.duration.or(duration),
            Application::OnOff(on_off) => on_off.duration = on_off.duration.or(duration),
        }
        self
    }
}
