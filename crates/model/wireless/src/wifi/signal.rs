//! Received power that moves between levels, and the resulting frame loss.
//!
//! Levels form a continuous-time Markov chain: each holds for an exponential time, then a neighbour follows,
//! either with the same probability. A frame of 1000 bytes at rate number n (0 is the lowest) is lost with
//! probability 1 / (1 + exp((power - sensitivity - n step) / slope)); other lengths as if bits failed
//! independently. Not modelled: fading within a frame's time, interference. The two directions have separate
//! signals.

use bentpipe_net::InvalidConfig;
use bentpipe_net::channel::{SignalConfig, SignalLevel};
use bentpipe_units::{RandomStream, Span, Time};

use super::phy::{MAC, OVERHEAD};

/// Boundaries of power states I, II, III in dBm. SatNEx platform paper, figure 12.
const STATES_DBM: [f64; 2] = [-30.0, -60.0];

/// A frame of 1000 bytes of IP, for which the curves are given.
const REFERENCE_BYTES: f64 = (1000 + OVERHEAD) as f64;

/// A signal as it wanders.
#[derive(Debug)]
pub(super) struct Signal {
    config: SignalConfig,
    level: usize,
    /// End of the level; `None` before the first frame.
    until: Option<Time>,
}

/// Reception of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameReception {
    Whole,
    /// The header arrived: who sent it is known.
    Header,
    Nothing,
}

impl Signal {
    pub(super) fn new(config: &SignalConfig) -> Result<Signal, InvalidConfig> {
        // From far below the noise of any receiver to ten megawatts.
        let is_power = |dbm: f64| (-200.0..=100.0).contains(&dbm);
        let level = |level: &SignalLevel| is_power(level.power_dbm) && !level.hold.is_zero();
        let is_real = !config.levels.is_empty() && config.levels.iter().all(level);
        InvalidConfig::ensure(
            is_real,
            "levels",
            "at least one level, each with a power from -200 to 100 dBm and more than no time",
        )?;
        let is_falling = config.levels.is_sorted_by(|a, b| a.power_dbm >= b.power_dbm);
        InvalidConfig::ensure(is_falling, "levels", "levels from the strongest to the weakest")?;
        InvalidConfig::ensure(is_power(config.sensitivity_dbm), "sensitivity_dbm", "from -200 to 100 dBm")?;
        InvalidConfig::ensure((0.0..=100.0).contains(&config.step_db), "step_db", "from 0 to 100 dB")?;
        let has_slope = config.slope_db > 0.0 && config.slope_db <= 100.0;
        InvalidConfig::ensure(has_slope, "slope_db", "more than 0, at most 100 dB")?;
        Ok(Signal { config: config.clone(), level: 0, until: None })
    }

    /// Returns the state of the present power. 0 is above -30 dBm, 1 down to -60 dBm, 2 below.
    pub(super) fn state(&self) -> usize {
        let power = self.config.levels[self.level].power_dbm;
        STATES_DBM.iter().filter(|threshold| power < **threshold).count()
    }

    /// Returns the reception of a frame of `bytes` sent at rate number `rate`.
    pub(super) fn receive(
        &mut self,
        at: Time,
        bytes: usize,
        rate: usize,
        stream: &mut RandomStream,
    ) -> FrameReception {
        self.wander(at, stream);
        let loss = self.frame_loss(rate, bytes);
        if !stream.chance(loss) {
            return FrameReception::Whole;
        }
        // Preamble and PHY header are sent at the lowest rate, the MAC header at the frame's own.
        let header = (1.0 - self.frame_loss(0, MAC)) * (1.0 - self.frame_loss(rate, MAC));
        // Of frames that are lost those whose header arrived are as many less as arrived whole.
        let of_lost = ((header - (1.0 - loss)) / loss).clamp(0.0, 1.0);
        if stream.chance(of_lost) { FrameReception::Header } else { FrameReception::Nothing }
    }

    /// Returns the loss probability of a frame of `bytes` at rate number `rate`.
    fn frame_loss(&self, rate: usize, bytes: usize) -> f64 {
        let SignalConfig { sensitivity_dbm, step_db, slope_db, .. } = self.config;
        let margin = self.config.levels[self.level].power_dbm - sensitivity_dbm - step_db * rate as f64;
        // ln(1 - loss) of the reference frame, which is the sum over its bytes.
        let whole = -libm::log1p(libm::exp(-margin / slope_db));
        -libm::expm1(whole * bytes as f64 / REFERENCE_BYTES)
    }

    /// Advances the level to `at`.
    fn wander(&mut self, at: Time, stream: &mut RandomStream) {
        let mut until = match self.until {
            Some(until) => until,
            None => {
                self.level = self.stationary(stream);
                self.ends(Time::ZERO, stream)
            }
        };
        while until <= at {
            self.level = self.neighbour(stream);
            until = self.ends(until, stream);
        }
        self.until = Some(until);
    }

    fn ends(&self, from: Time, stream: &mut RandomStream) -> Time {
        let hold_s = stream.exponential(self.config.levels[self.level].hold.as_secs_f64());
        from + Span::from_secs_f64(hold_s).max(Span::from_nanos(1))
    }

    fn neighbour(&self, stream: &mut RandomStream) -> usize {
        let last = self.config.levels.len() - 1;
        match self.level {
            _ if last == 0 => 0,
            0 => 1,
            level if level == last => last - 1,
            level if stream.chance(0.5) => level - 1,
            level => level + 1,
        }
    }

    /// Draws a level by its share of time.
    ///
    /// That is the number of visits (one at each end, two between) times the time of a visit.
    fn stationary(&self, stream: &mut RandomStream) -> usize {
        let last = self.config.levels.len() - 1;
        let visits = |n: usize| if n == 0 || n == last { 1.0 } else { 2.0 };
        let weight = |(n, level): (usize, &SignalLevel)| visits(n) * level.hold.as_secs_f64();
        let weights: Vec<f64> = self.config.levels.iter().enumerate().map(weight).collect();
        let mut at = stream.unit() * weights.iter().sum::<f64>();
        let passed = |weight: &f64| {
            at -= weight;
            at < 0.0
        };
        weights.iter().position(passed).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(levels: &[(f64, u64)]) -> SignalConfig {
        let level = |&(power_dbm, ms): &(f64, u64)| SignalLevel { power_dbm, hold: Span::from_millis(ms) };
        let levels = levels.iter().map(level).collect();
        SignalConfig { levels, sensitivity_dbm: -92.0, step_db: 3.0, slope_db: 1.0 }
    }

    #[test]
    fn levels_have_their_share_of_time() {
        // Two visits to the middle for one to each end: 1*100 : 2*50 : 1*200.
        let mut signal = Signal::new(&config(&[(-20.0, 100), (-50.0, 50), (-80.0, 200)])).expect("possible");
        let mut stream = RandomStream::new(1, "signal");
        let mut seen = [0.0_f64; 3];
        for n in 0..2_000_000_u64 {
            signal.wander(Time::from_nanos(n * 5_000_000), &mut stream);
            seen[signal.state()] += 1.0 / 2e6;
        }
        for (seen, share) in seen.iter().zip([0.25, 0.25, 0.5]) {
            assert!((seen / share - 1.0).abs() < 0.03, "{seen} {share}");
        }
    }

    #[test]
    fn frames_fail_as_the_curve_of_their_rate_says() {
        let mut stream = RandomStream::new(2, "signal");
        // At the sensitivity of rate 2 half of the frames fail, three steps of slope below 1 / (1 + e^3).
        for (power, rate, loss) in
            [(-86.0, 2, 0.5), (-83.0, 2, 1.0 / (1.0 + 3_f64.exp())), (-86.0, 3, 0.952_574)]
        {
            let mut signal = Signal::new(&config(&[(power, 100)])).expect("possible");
            let bytes = REFERENCE_BYTES as usize;
            let lost = (0..100_000)
                .filter(|_| signal.receive(Time::ZERO, bytes, rate, &mut stream) != FrameReception::Whole)
                .count();
            assert!((lost as f64 / 1e5 - loss).abs() < 0.007, "{power} {rate} {lost}");
            // Half as long a frame survives with the root of the probability.
            let half = 1.0 - signal.frame_loss(rate, bytes / 2);
            assert!((half * half - (1.0 - loss)).abs() < 1e-4, "{half}");
        }
    }

    #[test]
    fn most_lost_frames_leave_their_header() {
        let mut signal = Signal::new(&config(&[(-86.0, 100)])).expect("possible");
        let mut stream = RandomStream::new(3, "signal");
        let reception: Vec<FrameReception> =
            (0..100_000).map(|_| signal.receive(Time::ZERO, 1036, 2, &mut stream)).collect();
        let count = |what| reception.iter().filter(|reception| **reception == what).count() as f64 / 1e5;
        // ln of half shared among bytes: 28 of 1036 for the MAC header, and hardly anything at the lowest rate.
        let header = 0.5_f64.powf(28.0 / 1036.0);
        assert!(
            (count(FrameReception::Nothing) - (1.0 - header)).abs() < 0.003,
            "{}",
            count(FrameReception::Nothing)
        );
    }
}
