//! Groups of I, P and B pictures, and their shares of a stream's bits.

use bentpipe_net::InvalidConfig;
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest group of pictures.
const MOST: u8 = 120;

/// Groups of I, P and B pictures, as encoders send them. Each group has a rate of its own, and a picture's bits leave
/// evenly within its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Pictures {
    /// Time between pictures. Default: "40 ms".
    #[serde(default = "interval")]
    pub interval: Span,
    /// Number of pictures in a group, from one I picture to the next (N). Default: 12.
    #[serde(default = "group")]
    #[schemars(range(min = 1, max = 120))]
    pub group: u8,
    /// Distance of I and P pictures (M); the others are B pictures. Default: 3.
    #[serde(default = "distance")]
    #[schemars(range(min = 1, max = 120))]
    pub distance: u8,
    /// Sizes of I, P and B pictures relative to each other. Default: [5, 3, 1].
    #[serde(default = "sizes")]
    pub sizes: [f64; 3],
}

fn interval() -> Span {
    Span::from_millis(40)
}

fn group() -> u8 {
    12
}

fn distance() -> u8 {
    3
}

fn sizes() -> [f64; 3] {
    [5.0, 3.0, 1.0]
}

impl Default for Pictures {
    fn default() -> Pictures {
        Pictures { interval: interval(), group: group(), distance: distance(), sizes: sizes() }
    }
}

impl Pictures {
    /// Rejects invalid values.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let lasts = (Span::from_millis(1)..=Span::from_secs(10)).contains(&self.interval);
        InvalidConfig::ensure(lasts, "pictures.interval", "from \"1 ms\" to \"10 s\"")?;
        InvalidConfig::ensure((1..=MOST).contains(&self.group), "pictures.group", "1 to 120 pictures")?;
        let is_whole = self.distance >= 1 && self.group.is_multiple_of(self.distance);
        InvalidConfig::ensure(is_whole, "pictures.distance", "a divisor of `group`")?;
        let are_sizes = self.sizes.iter().all(|size| (0.0..=1e6).contains(size)) && self.sizes[0] > 0.0;
        InvalidConfig::ensure(are_sizes, "pictures.sizes", "0 to 1e6, that of I pictures more than 0")
    }

    /// Returns the number of pictures in a group.
    pub(crate) fn len(&self) -> usize {
        self.group.into()
    }

    /// Returns the relative size of picture `number` of a group.
    fn size(&self, number: usize) -> f64 {
        match number {
            0 => self.sizes[0],
            _ if number.is_multiple_of(self.distance.into()) => self.sizes[1],
            _ => self.sizes[2],
        }
    }

    /// Returns the rate of a picture in bit/s, in a group of mean rate `group`.
    pub(crate) fn rate(&self, group: u64, number: usize) -> u64 {
        let total: f64 = (0..self.len()).map(|number| self.size(number)).sum();
        libm::round(group as f64 * self.size(number) * self.len() as f64 / total) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_share_the_bits_of_a_group() {
        let pictures = Pictures::default();
        // One I, three P and eight B pictures: 5 + 9 + 8 = 22 parts.
        let rates: Vec<u64> = (0..12).map(|number| pictures.rate(22_000_000, number)).collect();
        assert_eq!(rates[..4], [60_000_000, 12_000_000, 12_000_000, 36_000_000]);
        assert_eq!(rates.iter().sum::<u64>(), 12 * 22_000_000);
        let intra = Pictures { group: 1, distance: 1, ..pictures };
        assert_eq!((intra.rate(4_000_000, 0), intra.check()), (4_000_000, Ok(())));
    }

    #[test]
    fn impossible_groups_are_named() {
        let key = |pictures: Pictures| pictures.check().map_err(|error| error.key);
        assert_eq!(key(Pictures { distance: 5, ..Pictures::default() }), Err("pictures.distance"));
        assert_eq!(key(Pictures { group: 0, ..Pictures::default() }), Err("pictures.group"));
        assert_eq!(key(Pictures { interval: Span::ZERO, ..Pictures::default() }), Err("pictures.interval"));
        assert_eq!(key(Pictures { sizes: [0.0; 3], ..Pictures::default() }), Err("pictures.sizes"));
        assert_eq!(
            key(Pictures { sizes: [1.0, f64::NAN, 1.0], ..Pictures::default() }),
            Err("pictures.sizes")
        );
    }
}
