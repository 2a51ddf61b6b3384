//! Codecs that lower their rate in a call, by the other end's reports.
//!
//! *Models*: low-pass filtered loss of receiver reports with two thresholds between which the rate stays (Busse, Deffner and Schulzrinne, "Dynamic
//! QoS control of multimedia applications based on RTP", Computer Communications 19, 1996: weight 0.3, thresholds 2 and 4 %). In addition a
//! round-trip time far above the least one lowers the rate, as queues grow before they overflow. A step is one mode of the codec for each report.
//! *Does not model*: mode requests of the receiver in payloads (RFC 4867, section 4.3.1; RFC 4749, section 5.2), probes before a rise.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, Format};
use crate::emodel::Impairment;

/// Weight of a new report in the filtered loss.
const WEIGHT: f64 = 0.3;

/// Adaptation of a codec's rate to the reports of the other end.
///
/// The configured rate is the first and the highest one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Adapt {
    /// Filtered loss above which the rate falls. Default: 0.04.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub falls_above: f64,
    /// Filtered loss below which the rate rises. Default: 0.02.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rises_below: f64,
    /// Round-trip time above the least one beyond which the rate falls. Default: 200 ms.
    pub queueing: Span,
    /// Number of reports in a row, all good, before the rate rises. Default: 3.
    pub good_reports: u32,
    /// Minimum rate. Default: the lowest of the codec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Rate>,
}

impl Default for Adapt {
    fn default() -> Adapt {
        let (falls_above, rises_below, queueing) = (0.04, 0.02, Span::from_millis(200));
        Adapt { falls_above, rises_below, queueing, good_reports: 3, least: None }
    }
}

impl Adapt {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error if a value is impossible, or the codec has one rate.
    pub(super) fn check(&self, usual: &Usual) -> Result<(), InvalidConfig> {
        let (low, high) = (self.rises_below, self.falls_above);
        InvalidConfig::ensure((0.0..=1.0).contains(&high), "falls_above", "0 to 1")?;
        InvalidConfig::ensure((0.0..=high).contains(&low), "rises_below", "0 to `falls_above`")?;
        InvalidConfig::ensure(!self.queueing.is_zero(), "queueing", "more than zero")?;
        InvalidConfig::ensure((1..=1000).contains(&self.good_reports), "good_reports", "1 to 1000 reports")?;
        let expected = "a rate of the codec below `rate`: \"amr\", \"amr-wb\", \"g729.1\", \"opus\" and \"speex\" have several";
        InvalidConfig::ensure(Mode::all(usual, self)?.len() > 1, "least", expected)
    }
}

/// Codec of a call before its rate changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) codec: Codec,
    pub(super) rate: Option<Rate>,
    pub(super) frames: Option<u32>,
    pub(super) impairment: Option<Impairment>,
}

/// Rate of a codec with what depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mode {
    /// Rate in bit/s.
    pub(super) bps: u64,
    /// Payload of a speech packet in bytes.
    pub(super) payload_len: u32,
    /// Equipment impairment without losses; NaN if that is not known.
    pub(super) ie: f64,
}

impl Mode {
    /// Returns the modes of a configuration, the highest rate first.
    ///
    /// # Errors
    /// Returns an error if the codec does not have the configured rate.
    pub(super) fn all(usual: &Usual, adapt: &Adapt) -> Result<Vec<Mode>, InvalidConfig> {
        let Usual { codec, rate, frames, impairment } = *usual;
        let format = codec.format(rate)?;
        let frames = frames.unwrap_or(format.usual_frames());
        let least = adapt.least.map_or(0, Rate::as_bps);
        let most = rate.map_or_else(|| usual_bps(codec), Rate::as_bps);
        let mode = |bps: u64, format: &Format| {
            let ie = impairment.map(|of| of.ie).or(format.rated.map(|rated| rated.ie));
            Mode { bps, payload_len: format.payload_len(frames) as u32, ie: ie.unwrap_or(f64::NAN) }
        };
        let mut modes = vec![mode(most, &format)];
        for bps in rates(codec).iter().rev().copied().filter(|bps| (least..most).contains(bps)) {
            modes.push(mode(bps, &codec.format(Some(Rate::from_bps(bps)))?));
        }
        Ok(modes)
    }
}

/// Returns the rates that a codec changes between in a call.
///
/// Opus has any rate: these are some of it.
fn rates(codec: Codec) -> &'static [u64] {
    match codec {
        Codec::Amr => &[4750, 5150, 5900, 6700, 7400, 7950, 10_200, 12_200],
        Codec::AmrWb => &[6600, 8850, 12_650, 14_250, 15_850, 18_250, 19_850, 23_050, 23_850],
        Codec::G7291 => {
            &[8000, 12_000, 14_000, 16_000, 18_000, 20_000, 22_000, 24_000, 26_000, 28_000, 30_000, 32_000]
        }
        Codec::Opus => &[6000, 8000, 12_000, 16_000, 20_000, 24_000, 32_000, 40_000, 64_000, 96_000, 128_000],
        Codec::Speex => &[2150, 3950, 5950, 8000, 11_000, 15_000, 18_200, 24_600],
        _ => &[],
    }
}

/// Returns the rate that a codec has by default.
fn usual_bps(codec: Codec) -> u64 {
    match codec {
        Codec::Amr => 12_200,
        Codec::AmrWb => 12_650,
        Codec::G7291 => 16_000,
        Codec::Opus => 24_000,
        Codec::Speex => 15_000,
        // No other mode is below it.
        _ => 0,
    }
}

/// Rate of one direction of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateControl {
    /// Present mode: 0 is the highest.
    pub(super) mode: usize,
    loss: f64,
    good: u32,
    least_round_trip: Option<Span>,
}

impl RateControl {
    /// Returns `true` if a report changes the mode. `modes` is their number.
    pub(super) fn report(
        &mut self,
        adapt: &Adapt,
        (loss, round_trip): (f64, Option<Span>),
        modes: usize,
    ) -> bool {
        self.loss += WEIGHT * (loss - self.loss);
        self.least_round_trip = self.least_round_trip.into_iter().chain(round_trip).min();
        let queued = round_trip.zip(self.least_round_trip).map_or(Span::ZERO, |(now, least)| now - least);
        let before = self.mode;
        if self.loss > adapt.falls_above || queued > adapt.queueing {
            (self.mode, self.good) = ((before + 1).min(modes - 1), 0);
        } else if self.loss < adapt.rises_below && queued <= adapt.queueing.mul_f64(0.5) {
            self.good += 1;
            if self.good >= adapt.good_reports {
                (self.mode, self.good) = (before.saturating_sub(1), 0);
            }
        } else {
            self.good = 0;
        }
        self.mode != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::call::Rtcp;

    #[test]
    fn rates_fall_by_loss_or_delay_and_rise_after_good_reports() {
        let adapt = Adapt::default();
        let mut control = RateControl::default();
        let ms = |ms| Some(Span::from_millis(ms));
        // One report with 10 % is 3 % filtered: between the thresholds. The next makes it 5.1 %.
        let falls = [0.1, 0.1, 0.1].map(|loss| control.report(&adapt, (loss, ms(550)), 8));
        assert_eq!((falls, control.mode), ([false, true, true], 2));
        // 6.57 % falls by 0.7 for each report without loss: below 2 % after four, and then three in a row.
        let rises: Vec<bool> = (0..6).map(|_| control.report(&adapt, (0.0, ms(550)), 8)).collect();
        assert_eq!(rises, [true, false, false, false, false, true]);
        assert_eq!(control.mode, 2);
        let mut control = RateControl::default();
        assert!(!control.report(&adapt, (0.0, ms(550)), 3) && control.report(&adapt, (0.0, ms(751)), 3));
        assert!(control.report(&adapt, (0.0, ms(900)), 3) && !control.report(&adapt, (0.0, ms(900)), 3));
        // With 150 ms in queues the rate stays, with 50 ms it rises.
        assert!((0..9).all(|_| !control.report(&adapt, (0.0, ms(700)), 3)));
        assert_eq!((0..3).filter(|_| control.report(&adapt, (0.0, ms(600)), 3)).count(), 1);
    }

    #[test]
    fn modes_have_the_lengths_of_their_payload_formats() {
        let lens = |codec: Codec, adapt: Adapt| -> Vec<u32> {
            let all = Mode::all(&Config::new(codec).usual(), &adapt).expect("possible");
            all.iter().map(|mode| mode.payload_len).collect()
        };
        // RFC 4867: 4 bits of request, 6 of the table, then the frame. RFC 4749: a byte, then the layers.
        assert_eq!(lens(Codec::Amr, Adapt::default()), [32, 27, 22, 20, 18, 16, 15, 14]);
        assert_eq!(lens(Codec::G7291, Adapt::default()), [41, 36, 31, 21]);
        let least = Some(Rate::from_bps(12_000));
        assert_eq!(lens(Codec::Opus, Adapt { least, ..Adapt::default() }), [60, 50, 40, 30]);
        let config = Config { adapt: Some(Adapt::default()), ..Config::new(Codec::G729) };
        assert!(config.settings().is_err_and(|error| error.path() == "adapt.least"));
        let config = Config {
            rtcp: Rtcp::None,
            ..Config { adapt: Some(Adapt::default()), ..Config::new(Codec::Amr) }
        };
        assert!(config.settings().is_err_and(|error| error.key == "rtcp"));
    }
}
