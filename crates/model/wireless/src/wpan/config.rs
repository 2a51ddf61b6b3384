//! Settings of MAC and radio.

use bentpipe_net::InvalidConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Listen, Superframe};

/// CSMA-CA (IEEE 802.15.4), unslotted without `superframe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WpanMac")]
pub struct Mac {
    /// Backoff exponent of the first attempt (macMinBE). Default: 3.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 8))]
    pub min_exponent: u8,
    /// Maximum backoff exponent (macMaxBE). Default: 5.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 8))]
    pub max_exponent: u8,
    /// Maximum number of backoffs after the first (macMaxCSMABackoffs). Default: 4.
    #[serde(default = "four")]
    #[schemars(range(min = 0, max = 5))]
    pub backoffs: u8,
    /// Maximum number of retransmissions (macMaxFrameRetries). Default: 3.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 7))]
    pub retries: u8,
    /// Superframes of a beacon-enabled network, with slotted CSMA-CA. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superframe: Option<Superframe>,
    /// Low-power listening, without `superframe`. Default: none, radios stay on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<Listen>,
}

const fn three() -> u8 {
    3
}

const fn four() -> u8 {
    4
}

const fn five() -> u8 {
    5
}

impl Default for Mac {
    fn default() -> Mac {
        Mac {
            min_exponent: three(),
            max_exponent: five(),
            backoffs: four(),
            retries: three(),
            superframe: None,
            listen: None,
        }
    }
}

impl Mac {
    /// Checks the exponents, the superframe and the listening.
    ///
    /// # Errors
    /// Returns an error if the minimum exponent is above the maximum, or a time or order is out of its range.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(
            self.min_exponent <= self.max_exponent && self.max_exponent <= 8,
            "min_exponent",
            "at most `max_exponent`, which is at most 8",
        )?;
        self.superframe.map_or(Ok(()), |superframe| superframe.check())?;
        self.listen.map_or(Ok(()), |listen| listen.check())?;
        let is_one = self.superframe.is_none() || self.listen.is_none();
        InvalidConfig::ensure(is_one, "listen", "none in a network with `superframe`")
    }
}

/// Radio of a device, with its propagation and supply.
///
/// Defaults are of the CC2420 at 3 V, as commonly cited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WpanRadio")]
pub struct Radio {
    /// Transmit power in dBm. Default: 0.
    #[serde(default)]
    #[schemars(range(min = -60, max = 30))]
    pub power: f64,
    /// Received power in dBm at which 1 % of frames of 20 B are lost. Default: -95.
    #[serde(default = "sensitivity")]
    #[schemars(range(min = -130, max = -20))]
    pub sensitivity: f64,
    /// Path loss at 1 m in dB. Default: 40, of free space at 2.4 GHz.
    #[serde(default = "reference_loss")]
    #[schemars(range(min = 0, max = 100))]
    pub reference_loss: f64,
    /// Path loss exponent. Default: 3.
    #[serde(default = "exponent")]
    #[schemars(range(min = 1, max = 8))]
    pub exponent: f64,
    /// Standard deviation of log-normal shadowing in dB, the same both ways. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20))]
    pub shadowing: f64,
    /// Supply voltage in V. Default: 3.
    #[serde(default = "volts")]
    #[schemars(range(min = 0.1, max = 100))]
    pub volts: f64,
    /// Current while listening or receiving in mA. Default: 18.8.
    #[serde(default = "listening")]
    #[schemars(range(min = 0, max = 10000))]
    pub listening: f64,
    /// Current while sending in mA. Default: 17.4.
    #[serde(default = "sending")]
    #[schemars(range(min = 0, max = 10000))]
    pub sending: f64,
    /// Current while asleep in mA. Default: 0.02.
    #[serde(default = "asleep")]
    #[schemars(range(min = 0, max = 10000))]
    pub asleep: f64,
}

const fn sensitivity() -> f64 {
    -95.0
}

const fn reference_loss() -> f64 {
    40.0
}

const fn exponent() -> f64 {
    3.0
}

const fn volts() -> f64 {
    3.0
}

const fn listening() -> f64 {
    18.8
}

const fn sending() -> f64 {
    17.4
}

const fn asleep() -> f64 {
    0.02
}

impl Default for Radio {
    fn default() -> Radio {
        Radio {
            power: 0.0,
            sensitivity: sensitivity(),
            reference_loss: reference_loss(),
            exponent: exponent(),
            shadowing: 0.0,
            volts: volts(),
            listening: listening(),
            sending: sending(),
            asleep: asleep(),
        }
    }
}
