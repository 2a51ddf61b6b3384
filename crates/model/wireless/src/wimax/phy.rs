//! OFDM-256 arithmetic: sampling, symbols, burst profiles, frames (802.16-2004, 8.3).

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Points of the FFT.
const FFT: u64 = 256;
/// Carriers that are used: 192 of data and 8 pilots.
const USED_CARRIERS: f64 = 200.0;
/// Bytes that the FEC's tail takes of a burst.
pub(super) const TAIL: usize = 1;
/// Symbols of the preamble in front of the downlink.
pub(super) const LONG_PREAMBLE: u32 = 2;
/// Symbols of the preamble in front of an uplink burst.
pub(super) const SHORT_PREAMBLE: u32 = 1;

/// Channel bandwidth, written as "3.5 MHz".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Bandwidth {
    hertz: u32,
}

impl Bandwidth {
    /// Creates a bandwidth of that many kilohertz.
    pub const fn kilohertz(kilohertz: u32) -> Bandwidth {
        Bandwidth { hertz: kilohertz * 1000 }
    }

    /// Returns the sampling frequency in Hz: a multiple of 8 kHz.
    pub fn sampling(self) -> u64 {
        const FACTORS: [(u32, u64, u64); 5] =
            [(1750, 8, 7), (1500, 86, 75), (1250, 144, 125), (2750, 316, 275), (2000, 57, 50)];
        let of_it = |step: &&(u32, u64, u64)| self.hertz.is_multiple_of(step.0 * 1000);
        let (_, over, under) = FACTORS.iter().find(of_it).copied().unwrap_or((0, 8, 7));
        u64::from(self.hertz) * over / under / 8000 * 8000
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Bandwidth, &'static str> {
        const EXPECTED: &str = "expected a bandwidth in MHz, as \"3.5 MHz\"";
        let number = text.strip_suffix("MHz").map(str::trim).and_then(|number| number.parse::<f64>().ok());
        let hertz = number.filter(|mhz| (0.0..=4000.0).contains(mhz)).ok_or(EXPECTED)?;
        Ok(Bandwidth { hertz: libm::round(hertz * 1e6) as u32 })
    }
}

impl From<Bandwidth> for String {
    fn from(bandwidth: Bandwidth) -> String {
        format!("{} MHz", f64::from(bandwidth.hertz) / 1e6)
    }
}

/// Guard time of a symbol, as a share of its useful time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Guard {
    /// A quarter.
    #[default]
    #[serde(rename = "1/4")]
    Quarter,
    /// An eighth.
    #[serde(rename = "1/8")]
    Eighth,
    /// A sixteenth.
    #[serde(rename = "1/16")]
    Sixteenth,
    /// A thirty-second.
    #[serde(rename = "1/32")]
    ThirtySecond,
}

impl Guard {
    /// Returns the length of a symbol in thirty-seconds of its useful time.
    const fn thirty_seconds(self) -> u64 {
        match self {
            Guard::Quarter => 40,
            Guard::Eighth => 36,
            Guard::Sixteenth => 34,
            Guard::ThirtySecond => 33,
        }
    }
}

/// Burst profile: modulation and FEC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Profile {
    /// BPSK 1/2.
    #[default]
    #[serde(rename = "bpsk-1/2")]
    Bpsk12,
    /// QPSK 1/2.
    #[serde(rename = "qpsk-1/2")]
    Qpsk12,
    /// QPSK 3/4.
    #[serde(rename = "qpsk-3/4")]
    Qpsk34,
    /// 16-QAM 1/2.
    #[serde(rename = "16qam-1/2")]
    Qam16R12,
    /// 16-QAM 3/4.
    #[serde(rename = "16qam-3/4")]
    Qam16R34,
    /// 64-QAM 2/3.
    #[serde(rename = "64qam-2/3")]
    Qam64R23,
    /// 64-QAM 3/4.
    #[serde(rename = "64qam-3/4")]
    Qam64R34,
}

impl Profile {
    /// Profiles from the most robust to the fastest.
    pub const ALL: [Profile; 7] = [
        Profile::Bpsk12,
        Profile::Qpsk12,
        Profile::Qpsk34,
        Profile::Qam16R12,
        Profile::Qam16R34,
        Profile::Qam64R23,
        Profile::Qam64R34,
    ];

    /// Returns the number of the profile, from 0 for BPSK 1/2.
    pub const fn number(self) -> usize {
        self as usize
    }

    /// Returns the data bytes of a symbol.
    pub const fn bytes(self) -> usize {
        [12, 24, 36, 48, 72, 96, 108][self.number()]
    }

    /// Returns the name as files have it.
    pub const fn name(self) -> &'static str {
        ["bpsk-1/2", "qpsk-1/2", "qpsk-3/4", "16qam-1/2", "16qam-3/4", "64qam-2/3", "64qam-3/4"]
            [self.number()]
    }

    /// Returns the SNR in dB for a BER of 1e-6 (802.16e-2005, as remembered).
    pub const fn threshold(self) -> f64 {
        [3.0, 6.0, 8.5, 11.5, 15.0, 19.0, 21.0][self.number()]
    }

    /// Returns the SNR in dB for block error rates of 0.5, 0.1 and 0.01.
    ///
    /// The source is a link simulation of RS and convolutional code, interleaver and multipath.
    const fn block_errors(self) -> [f64; 3] {
        [
            [-0.6, 0.8, 2.1],
            [4.2, 5.3, 6.2],
            [6.7, 7.9, 9.1],
            [10.5, 11.4, 12.1],
            [13.5, 14.2, 14.7],
            [18.2, 19.2, 20.1],
            [19.3, 20.2, 21.0],
        ][self.number()]
    }

    /// Returns the probability that a symbol's block is lost at an SNR in dB.
    ///
    /// The logarithm is interpolated between the three points of the table, and extrapolated beyond.
    pub fn block_error(self, snr: f64) -> f64 {
        let at = self.block_errors();
        let lg = [libm::log10(0.5), -1.0, -2.0];
        let n = usize::from(snr > at[1]);
        let slope = (lg[n + 1] - lg[n]) / (at[n + 1] - at[n]);
        libm::pow(10.0, lg[n] + slope * (snr - at[n])).min(1.0)
    }

    /// Returns the symbols of a burst of that many bytes, its preamble not counted.
    pub const fn symbols(self, bytes: usize) -> u32 {
        if bytes == 0 { 0 } else { (bytes + TAIL).div_ceil(self.bytes()) as u32 }
    }

    /// Returns the bytes that a burst of that many symbols carries.
    pub const fn capacity(self, symbols: u32) -> usize {
        (symbols as usize * self.bytes()).saturating_sub(TAIL)
    }

    /// Returns the fastest profile for an SNR and a margin in dB.
    pub fn fastest(snr: f64, margin: f64) -> Profile {
        let carries = |profile: &&Profile| snr >= profile.threshold() + margin;
        Profile::ALL.iter().rev().find(carries).copied().unwrap_or_default()
    }

    /// Returns the profile after a change of SNR.
    ///
    /// A faster one is entered `margins[0]` dB above its threshold, and left less than `margins[1]` dB above.
    pub fn follow(self, snr: f64, margins: [f64; 2]) -> Profile {
        let up = Profile::fastest(snr, margins[0]);
        if up > self {
            return up;
        }
        if snr >= self.threshold() + margins[1] { self } else { self.min(Profile::fastest(snr, margins[1])) }
    }
}

/// Symbols and frames of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    sampling: u64,
    guard: Guard,
    frame: Span,
}

/// Frame durations in microseconds, by their code in the DCD.
const FRAMES: [u64; 7] = [2500, 4000, 5000, 8000, 10_000, 12_500, 20_000];

impl Phy {
    /// Creates the arithmetic of a channel.
    ///
    /// # Errors
    /// Returns an error if the standard has no such bandwidth or frame duration.
    pub fn new(bandwidth: Bandwidth, guard: Guard, frame: Span) -> Result<Phy, InvalidConfig> {
        let range = 1_250_000..=28_000_000;
        InvalidConfig::ensure(range.contains(&bandwidth.hertz), "bandwidth", "1.25 to 28 MHz")?;
        let known = FRAMES.iter().any(|micros| Span::from_micros(*micros) == frame);
        InvalidConfig::ensure(known, "frame", "2.5, 4, 5, 8, 10, 12.5 or 20 ms")?;
        Ok(Phy { sampling: bandwidth.sampling(), guard, frame })
    }

    /// Returns the code of the frame duration in the DCD.
    pub fn frame_code(&self) -> u8 {
        FRAMES.iter().position(|micros| Span::from_micros(*micros) == self.frame).unwrap_or_default() as u8
    }

    /// Returns the duration of a frame.
    pub fn frame(&self) -> Span {
        self.frame
    }

    /// Returns the duration of `count` symbols. Roundings do not add up.
    pub fn symbols(&self, count: u32) -> Span {
        let thirty_seconds = u128::from(count) * u128::from(FFT * self.guard.thirty_seconds());
        Span::from_nanos((thirty_seconds * 1_000_000_000 / (32 * u128::from(self.sampling))) as u64)
    }

    /// Returns the whole symbols in a span.
    pub fn whole_symbols(&self, span: Span) -> u32 {
        let ticks = u128::from(span.as_nanos()) * 32 * u128::from(self.sampling);
        (ticks / (u128::from(FFT * self.guard.thirty_seconds()) * 1_000_000_000)) as u32
    }

    /// Returns the physical slots of 4 samples in a span, rounded up.
    pub fn physical_slots(&self, span: Span) -> u32 {
        (u128::from(span.as_nanos()) * u128::from(self.sampling)).div_ceil(4_000_000_000) as u32
    }

    /// Returns the rate of a profile in symbols back to back.
    pub fn rate(&self, profile: Profile) -> Rate {
        let bits = u128::from(self.sampling) * 32 * profile.bytes() as u128 * 8;
        Rate::from_bps((bits / u128::from(FFT * self.guard.thirty_seconds())) as u64)
    }

    /// Returns the thermal noise in dBm for a noise figure in dB.
    pub fn noise(&self, figure: f64) -> f64 {
        -174.0 + 10.0 * libm::log10(self.sampling as f64 * USED_CARRIERS / FFT as f64) + figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phy(kilohertz: u32, guard: Guard) -> Phy {
        Phy::new(Bandwidth::kilohertz(kilohertz), guard, Span::from_millis(10)).expect("a frame")
    }

    #[test]
    fn sampling_and_symbols_are_the_standard_s() {
        let sampling = |kilohertz| Bandwidth::kilohertz(kilohertz).sampling();
        assert_eq!(
            [3500, 7000, 1750, 3000, 5000].map(sampling),
            [4_000_000, 8_000_000, 2_000_000, 3_440_000, 5_760_000]
        );
        assert_eq!([2750, 2000, 4200].map(sampling), [3_160_000, 2_280_000, 4_800_000]);
        let guards = [Guard::Quarter, Guard::Eighth, Guard::Sixteenth, Guard::ThirtySecond];
        let symbol = |kilohertz| guards.map(|guard| phy(kilohertz, guard).symbols(1).as_nanos());
        assert_eq!(symbol(3500), [80_000, 72_000, 68_000, 66_000]);
        assert_eq!(symbol(7000), [40_000, 36_000, 34_000, 33_000]);
        assert_eq!(phy(3500, Guard::Quarter).whole_symbols(Span::from_millis(10)), 125);
        assert_eq!(phy(5000, Guard::Quarter).symbols(9).as_nanos(), 500_000);
    }

    #[test]
    fn rates_are_those_of_the_table() {
        let rates =
            |guard| Profile::ALL.map(|profile| (phy(3500, guard).rate(profile).as_bps() + 5000) / 10_000);
        assert_eq!(rates(Guard::Quarter), [120, 240, 360, 480, 720, 960, 1080]);
        assert_eq!(rates(Guard::Eighth), [133, 267, 400, 533, 800, 1067, 1200]);
        assert_eq!(rates(Guard::Sixteenth), [141, 282, 424, 565, 847, 1129, 1271]);
        assert_eq!(rates(Guard::ThirtySecond), [145, 291, 436, 582, 873, 1164, 1309]);
        assert!((phy(3500, Guard::Quarter).noise(5.0) + 104.05).abs() < 0.06);
    }

    #[test]
    fn bursts_lose_a_byte_to_the_tail() {
        // A G.711 packet of 200 bytes with a header: 9 symbols of QPSK 1/2, 3 of 16-QAM 3/4; G.729 of 60: 3 and 1.
        assert_eq!(Profile::Qpsk12.symbols(6 + 200), 9);
        assert_eq!(Profile::Qam16R34.symbols(6 + 200), 3);
        assert_eq!([Profile::Qpsk12.symbols(66), Profile::Qam16R34.symbols(66)], [3, 1]);
        assert_eq!(
            [Profile::Bpsk12.symbols(11), Profile::Bpsk12.symbols(12), Profile::Bpsk12.symbols(0)],
            [1, 2, 0]
        );
        assert_eq!(Profile::Qam64R34.capacity(2), 215);
    }

    #[test]
    fn errors_go_through_the_table_and_fall() {
        for profile in Profile::ALL {
            for (snr, error) in profile.block_errors().into_iter().zip([0.5, 0.1, 0.01]) {
                assert!((profile.block_error(snr) / error - 1.0).abs() < 1e-9, "{profile:?}");
            }
            let errors: Vec<f64> =
                (-200..400).map(|tenths| profile.block_error(f64::from(tenths) / 10.0)).collect();
            assert!(errors.is_sorted_by(|a, b| a >= b) && errors[0] == 1.0);
        }
    }

    #[test]
    fn profiles_follow_with_hysteresis() {
        let margins = [2.0, 1.0];
        assert_eq!(Profile::fastest(23.0, 2.0), Profile::Qam64R34);
        assert_eq!(Profile::Qam64R23.follow(22.9, margins), Profile::Qam64R23);
        assert_eq!(Profile::Qam64R23.follow(23.0, margins), Profile::Qam64R34);
        assert_eq!(Profile::Qam64R34.follow(22.0, margins), Profile::Qam64R34);
        assert_eq!(Profile::Qam64R34.follow(21.9, margins), Profile::Qam64R23);
        assert_eq!(Profile::Qam64R34.follow(-5.0, margins), Profile::Bpsk12);
        assert_eq!(Profile::Bpsk12.follow(40.0, margins), Profile::Qam64R34);
    }
}
