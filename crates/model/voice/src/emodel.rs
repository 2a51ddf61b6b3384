//! E-model: transmission rating R and mean opinion score (ITU-T G.107, G.107.1).
//!
//! *Models*: all terms of narrow-band G.107 (noise, simultaneous and delay impairments, echo, effective equipment
//! impairment with burst ratio, advantage) with the delay sensitivity classes; G.107.1 with delay and equipment terms.
//! *Does not model*: full band (G.107.2), talker echo on the wide-band scale, bursts on the wide-band scale beyond the
//! burst ratio. Times are in milliseconds and levels in decibels, as in the Recommendation.

use libm::{exp, exp10, fabs, log10, pow, sqrt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum of R on the narrow-band scale; the default is 93.2.
pub const NARROW_SCALE: f64 = 100.0;
/// Ratio of the wide-band scale to the narrow-band one (G.107.1).
pub const WIDE_RATIO: f64 = 1.29;
/// Basic signal-to-noise ratio on the wide-band scale (G.107.1).
const WIDE_RO: f64 = 129.0;
/// Shift of a narrow-band codec's impairment to the wide-band scale.
pub const WIDE_SHIFT: f64 = 35.8;

/// Sensitivity of a conversation to delay (G.107, delay sensitivity classes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sensitivity {
    /// Conversation with fast turns: sT 1, mT 100 ms.
    #[default]
    Default,
    /// Conversation without fast turns: sT 0.55, mT 120 ms.
    Low,
    /// Conversation with rare turns: sT 0.4, mT 150 ms.
    VeryLow,
}

impl Sensitivity {
    /// Returns sT, and mT in milliseconds.
    const fn constants(self) -> (f64, f64) {
        match self {
            Sensitivity::Default => (1.0, 100.0),
            Sensitivity::Low => (0.55, 120.0),
            Sensitivity::VeryLow => (0.4, 150.0),
        }
    }
}

/// Equipment impairment of a codec (G.113, appendices I and IV).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Impairment {
    /// Equipment impairment factor without loss.
    #[schemars(range(min = 0.0, max = 95.0))]
    pub ie: f64,
    /// Packet loss robustness factor.
    #[schemars(range(min = 1.0))]
    pub bpl: f64,
}

impl Impairment {
    /// Returns the effective equipment impairment Ie-eff at a loss in percent and a burst ratio.
    pub fn effective(&self, loss_percent: f64, burst_ratio: f64) -> f64 {
        self.ie + (95.0 - self.ie) * loss_percent / (loss_percent / burst_ratio + self.bpl)
    }
}

/// Input parameters of G.107. [`Params::default`] has the Recommendation's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Sending loudness rating (SLR).
    pub slr: f64,
    /// Receiving loudness rating (RLR).
    pub rlr: f64,
    /// Sidetone masking rating (STMR).
    pub stmr: f64,
    /// D-value of the telephone at the sending side (Ds).
    pub ds: f64,
    /// Listener sidetone rating (LSTR).
    pub lstr: f64,
    /// Talker echo loudness rating (TELR).
    pub telr: f64,
    /// Weighted echo path loss (WEPL).
    pub wepl: f64,
    /// Mean one-way delay of the echo path (T).
    pub echo_delay: f64,
    /// Round trip delay of the four-wire loop (Tr).
    pub loop_delay: f64,
    /// Absolute delay in echo-free connections (Ta).
    pub delay: f64,
    /// Number of quantisation distortion units (qdu).
    pub qdu: f64,
    /// Circuit noise in dBm0p (Nc).
    pub circuit_noise: f64,
    /// Noise floor at the receiving side in dBmp (Nfor).
    pub noise_floor: f64,
    /// Room noise at the sending side in dB(A) (Ps).
    pub room_noise_send: f64,
    /// Room noise at the receiving side in dB(A) (Pr).
    pub room_noise_receive: f64,
    /// Packet loss probability in percent (Ppl).
    pub loss_percent: f64,
    /// Burst ratio (BurstR): 1 for independent losses.
    pub burst_ratio: f64,
    /// Equipment impairment (Ie, Bpl).
    pub impairment: Impairment,
    /// Advantage factor (A), 0 to 20.
    pub advantage: f64,
    /// Sensitivity to delay.
    pub sensitivity: Sensitivity,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            slr: 8.0,
            rlr: 2.0,
            stmr: 15.0,
            ds: 3.0,
            lstr: 18.0,
            telr: 65.0,
            wepl: 110.0,
            echo_delay: 0.0,
            loop_delay: 0.0,
            delay: 0.0,
            qdu: 1.0,
            circuit_noise: -70.0,
            noise_floor: -64.0,
            room_noise_send: 35.0,
            room_noise_receive: 35.0,
            loss_percent: 0.0,
            burst_ratio: 1.0,
            impairment: Impairment { ie: 0.0, bpl: 4.3 },
            advantage: 0.0,
            sensitivity: Sensitivity::Default,
        }
    }
}

/// Terms of a narrow-band rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Sum of all noise powers at the 0 dBr point (No).
    pub noise: f64,
    /// Basic signal-to-noise ratio (Ro).
    pub ro: f64,
    /// Impairment of too low an overall loudness rating (Iolr).
    pub loudness: f64,
    /// Impairment of sidetone (Ist).
    pub sidetone: f64,
    /// Impairment of quantisation (Iq).
    pub quantisation: f64,
    /// Impairment of talker echo (Idte).
    pub talker_echo: f64,
    /// Impairment of listener echo (Idle).
    pub listener_echo: f64,
    /// Impairment of absolute delay (Idd).
    pub delay: f64,
    /// Effective equipment impairment (Ie-eff).
    pub equipment: f64,
    /// Advantage factor (A).
    pub advantage: f64,
}

impl Terms {
    /// Returns the transmission rating R.
    pub fn r(&self) -> f64 {
        let simultaneous = self.loudness + self.sidetone + self.quantisation;
        let delayed = self.talker_echo + self.listener_echo + self.delay;
        self.ro - simultaneous - delayed - self.equipment + self.advantage
    }
}

impl Params {
    /// Returns all terms of the rating (G.107, section 7).
    pub fn terms(&self) -> Terms {
        let noise = self.noise();
        let ro = 15.0 - 1.5 * (self.slr + noise);
        let sidetone = self.sidetone();
        Terms {
            noise,
            ro,
            loudness: self.loudness(noise),
            sidetone,
            quantisation: self.quantisation(ro),
            talker_echo: self.talker_echo(noise, sidetone),
            listener_echo: self.listener_echo(ro),
            delay: delay_impairment(self.delay, self.sensitivity),
            equipment: self.impairment.effective(self.loss_percent, self.burst_ratio),
            advantage: self.advantage,
        }
    }

    /// Returns the transmission rating R.
    pub fn r(&self) -> f64 {
        self.terms().r()
    }

    fn noise(&self) -> f64 {
        let send = self.room_noise_send - self.slr - self.ds;
        let excess = self.room_noise_send - (self.slr + self.rlr) - self.ds - 14.0;
        let sending = send - 100.0 + 0.004 * excess * excess;
        let pre = self.room_noise_receive + 10.0 * log10(1.0 + exp10((10.0 - self.lstr) / 10.0));
        let receiving = self.rlr - 121.0 + pre + 0.008 * (pre - 35.0) * (pre - 35.0);
        let floor = self.noise_floor + self.rlr;
        let powers = [self.circuit_noise, sending, receiving, floor].map(|level| exp10(level / 10.0));
        10.0 * log10(powers.iter().sum())
    }

    fn loudness(&self, noise: f64) -> f64 {
        let x = (self.slr + self.rlr + 0.2 * (64.0 + noise - self.rlr)) / 8.0;
        20.0 * (root(1.0 + pow(x, 8.0), 8.0) - x)
    }

    /// Returns STMRo, the sidetone masking rating with the echo that comes with it.
    fn sidetone_rating(&self) -> f64 {
        let echo = exp(-self.echo_delay / 4.0) * exp10(-self.telr / 10.0);
        -10.0 * log10(exp10(-self.stmr / 10.0) + echo)
    }

    fn sidetone(&self) -> f64 {
        let rating = self.sidetone_rating();
        let term = |by: f64, power: f64| root(1.0 + pow(fabs(by), power), power);
        12.0 * term((rating - 13.0) / 6.0, 8.0)
            - 28.0 * root(1.0 + odd_power((rating + 1.0) / 19.4, 35.0), 35.0)
            - 13.0 * root(1.0 + odd_power((rating - 3.0) / 33.0, 13.0), 13.0)
            + 29.0
    }

    fn quantisation(&self, ro: f64) -> f64 {
        let q = 37.0 - 15.0 * log10(self.qdu);
        let g = 1.07 + 0.258 * q + 0.0602 * q * q;
        let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
        let z = 46.0 / 30.0 - g / 40.0;
        15.0 * log10(1.0 + exp10(y) + exp10(z))
    }

    fn talker_echo(&self, noise: f64, sidetone: f64) -> f64 {
        let t = self.echo_delay;
        if t < 1.0 {
            return 0.0;
        }
        let low_sidetone = if self.stmr < 9.0 { sidetone / 2.0 } else { 0.0 };
        let spread = 40.0 * log10((1.0 + t / 10.0) / (1.0 + t / 150.0));
        let terv = self.telr - spread + 6.0 * exp(-0.3 * t * t) + low_sidetone;
        let difference = -1.5 * (noise - self.rlr) - (80.0 + 2.5 * (terv - 14.0));
        let echo = difference / 2.0 + sqrt(difference * difference / 4.0 + 100.0) - 1.0;
        let echo = echo * (1.0 - exp(-t));
        if self.stmr > 20.0 { sqrt(echo * echo + sidetone * sidetone) } else { echo }
    }

    fn listener_echo(&self, ro: f64) -> f64 {
        let rle = 10.5 * (self.wepl + 7.0) * pow(self.loop_delay + 1.0, -0.25);
        let difference = ro - rle;
        difference / 2.0 + sqrt(difference * difference / 4.0 + 169.0)
    }
}

/// Returns the impairment of an absolute delay in milliseconds (Idd).
pub fn delay_impairment(delay: f64, sensitivity: Sensitivity) -> f64 {
    let (slope, free) = sensitivity.constants();
    if delay <= free {
        return 0.0;
    }
    let (x, power) = (libm::log2(delay / free), 6.0 * slope);
    25.0 * (root(1.0 + pow(x, power), power) - 3.0 * root(1.0 + pow(x / 3.0, power), power) + 2.0)
}

/// Returns the wide-band rating without echo (G.107.1).
///
/// `impairment` is on the wide-band scale: Ie,WB of the codec, or that of a narrow-band codec plus [`WIDE_SHIFT`].
pub fn wide_band_r(delay: f64, sensitivity: Sensitivity, equipment: f64, advantage: f64) -> f64 {
    WIDE_RO - delay_impairment(delay, sensitivity) - equipment + advantage
}

/// Returns the mean opinion score of a narrow-band rating (G.107, annex B), 1 to 4.5.
pub fn mos(r: f64) -> f64 {
    if r.is_nan() {
        return r;
    }
    let r = r.clamp(0.0, NARROW_SCALE);
    (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
}

/// Returns the mean opinion score of a wide-band rating (G.107.1).
pub fn wide_band_mos(r: f64) -> f64 {
    mos(r / WIDE_RATIO)
}

/// Returns the share of users who find a call good or better, in percent (GoB).
pub fn good_or_better(r: f64) -> f64 {
    normal_percent((r - 60.0) / 16.0)
}

/// Returns the share of users who find a call poor or worse, in percent (PoW).
pub fn poor_or_worse(r: f64) -> f64 {
    normal_percent((45.0 - r) / 16.0)
}

fn normal_percent(x: f64) -> f64 {
    50.0 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Returns the rating whose score is `score`, 1 to 4.5 (G.107, appendix I).
pub fn r_of_mos(score: f64) -> f64 {
    let score = score.clamp(1.0, 4.5);
    // The score grows with R above 6.5, so bisection finds the only rating there.
    let (mut low, mut high) = (6.5, NARROW_SCALE);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mos(middle) < score { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Returns the root of degree `degree`.
fn root(x: f64, degree: f64) -> f64 {
    pow(x, 1.0 / degree)
}

/// Returns an odd power of a number of any sign.
fn odd_power(x: f64, power: f64) -> f64 {
    if x < 0.0 { -pow(-x, power) } else { pow(x, power) }
}

#[cfg(test)]
mod tests;
