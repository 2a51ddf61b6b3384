//! Synthetic phenomena: day, storm, and noise that is correlated in space and time.
//!
//! Noise is a sum of plane waves of random direction: its covariance over distance is about that of a Gaussian. A value
//! depends on sensor, place and time alone, so that any order of samples gives the same values.

use std::f64::consts::TAU;

use bentpipe_units::{RandomStream, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::query::Sensor;

/// Number of waves of each sensor.
const WAVES: usize = 12;

/// Conditions in a field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SensorWorld")]
pub struct Conditions {
    /// Length of a day; the run starts at sunrise. Default: 88775 s, of Mars.
    #[serde(default = "day")]
    pub day: Span,
    /// Start of a storm, which dims light, and raises sound and acceleration. Default: no storm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<Span>,
    /// Duration of the storm. Default: 1 h.
    #[serde(default = "hour")]
    pub storm_duration: Span,
    /// Distance in metres over which noise is correlated. Default: 50.
    #[serde(default = "reach")]
    #[schemars(range(min = 0.1, max = 1000000))]
    pub correlation: f64,
    /// Time over which noise is correlated. Default: 10 min.
    #[serde(default = "memory")]
    pub memory: Span,
}

const fn day() -> Span {
    Span::from_secs(88_775)
}

const fn hour() -> Span {
    Span::from_secs(3600)
}

const fn reach() -> f64 {
    50.0
}

const fn memory() -> Span {
    Span::from_secs(600)
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions { day: day(), storm: None, storm_duration: hour(), correlation: reach(), memory: memory() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Wave {
    x: f64,
    y: f64,
    time: f64,
    phase: f64,
}

/// Phenomena of a field.
#[derive(Clone, Debug)]
pub struct World {
    conditions: Conditions,
    waves: Vec<[Wave; WAVES]>,
}

impl World {
    /// Creates the phenomena of a random stream.
    pub fn new(conditions: Conditions, stream: &mut RandomStream) -> World {
        let mut wave = |_| {
            let (x, y) = stream.normal_pair();
            let time = stream.normal_pair().0 / conditions.memory.as_secs_f64().max(1e-3);
            let (x, y) = (x / conditions.correlation, y / conditions.correlation);
            Wave { x, y, time, phase: TAU * stream.unit() }
        };
        let waves = Sensor::ALL.map(|_| std::array::from_fn(&mut wave)).to_vec();
        World { conditions, waves }
    }

    /// Returns noise of mean 0 and variance 1.
    fn noise(&self, sensor: Sensor, [x, y]: [f64; 2], seconds: f64) -> f64 {
        let waves = &self.waves[sensor as usize];
        let sum: f64 = waves
            .iter()
            .map(|wave| libm::cos(wave.x * x + wave.y * y + wave.time * seconds + wave.phase))
            .sum();
        sum * libm::sqrt(2.0 / WAVES as f64)
    }

    /// Returns the value of a sample.
    pub fn value(&self, sensor: Sensor, place: [f64; 2], at: Time) -> f32 {
        let seconds = at.as_secs_f64();
        let noise = self.noise(sensor, place, seconds);
        let turn = TAU * seconds / self.conditions.day.as_secs_f64().max(1e-3);
        let storm = self.conditions.storm.is_some_and(|start| {
            let start = Time::ZERO + start;
            start <= at && at < start + self.conditions.storm_duration
        });
        let value = match sensor {
            Sensor::Light => {
                let sun = 800.0 * libm::sin(turn).max(0.0);
                (if storm { 0.2 * sun } else { sun } * (1.0 + 0.1 * noise)).max(0.0)
            }
            // The ground is warmest some time after noon.
            Sensor::Temperature => -60.0 + 30.0 * libm::sin(turn - 0.6) + 2.0 * noise,
            Sensor::Sound => (if storm { 60.0 } else { 35.0 }) + 3.0 * noise,
            Sensor::Acceleration => (if storm { 60.0 } else { 5.0 }) * noise,
            Sensor::Magnetism => 30.0 + 2.0 * noise,
        };
        value as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(conditions: Conditions) -> World {
        World::new(conditions, &mut RandomStream::new(1, "world"))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn light_follows_the_day_and_storms() {
        let storm = Conditions { storm: Some(Span::from_secs(20_000)), ..Conditions::default() };
        let (calm, stormy) = (world(Conditions::default()), world(storm));
        let (noon, night) = (at(22_194), at(66_000));
        assert!((calm.value(Sensor::Light, [0.0, 0.0], noon) - 800.0).abs() < 250.0);
        assert_eq!(calm.value(Sensor::Light, [0.0, 0.0], night), 0.0);
        let ratio =
            stormy.value(Sensor::Light, [3.0, 4.0], noon) / calm.value(Sensor::Light, [3.0, 4.0], noon);
        assert!((ratio - 0.2).abs() < 1e-3);
        assert!(
            stormy.value(Sensor::Sound, [0.0, 0.0], noon)
                > calm.value(Sensor::Sound, [0.0, 0.0], noon) + 20.0
        );
        assert_eq!(
            stormy.value(Sensor::Sound, [0.0, 0.0], night),
            calm.value(Sensor::Sound, [0.0, 0.0], night)
        );
    }

    #[test]
    fn noise_is_correlated_over_the_distance_given() {
        let (mut near, mut far, mut own, count) = (0.0, 0.0, 0.0, 4000);
        for seed in 0..count {
            let world = World::new(Conditions::default(), &mut RandomStream::new(seed, "world"));
            let noise = |x: f64| world.noise(Sensor::Sound, [x, 0.0], 0.0);
            own += noise(0.0) * noise(0.0);
            near += noise(0.0) * noise(25.0);
            far += noise(0.0) * noise(200.0);
        }
        let of = |sum: f64| sum / count as f64;
        assert!((of(own) - 1.0).abs() < 0.08, "{}", of(own));
        // exp(-(25 / 50)^2 / 2) and exp(-8).
        assert!((of(near) - 0.8825).abs() < 0.08, "{}", of(near));
        assert!(of(far).abs() < 0.08, "{}", of(far));
    }
}
