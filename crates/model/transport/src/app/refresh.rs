//! Refresh packets of a header compressor in unidirectional mode, as sizes of datagrams.
//!
//! A source sends packets of these sizes without compressing (Wang and Seah, WCNC 2004).

use bentpipe_net::InvalidConfig;
use bentpipe_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Larger datagrams in place of some. The first is one, then after 1, 2, 3 and so on, until each `every`-th is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Payload of refresh datagrams. No default.
    pub payload: Bytes,
    /// Distance of refresh datagrams after the slow start. No default.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub every: u64,
}

impl Refresh {
    /// Returns the number of the first refresh at the final distance.
    pub const fn slow_start(self) -> u64 {
        self.every * (self.every + 1) / 2
    }

    /// Returns `true` if datagram `number`, from 0, is a refresh.
    pub fn is_due(self, number: u64) -> bool {
        match number.checked_sub(self.slow_start()) {
            Some(after) => after.is_multiple_of(self.every),
            None => is_triangular(number),
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error if the distance is impossible.
    pub fn check(self) -> Result<(), InvalidConfig> {
        let fits = (1..=1_000_000).contains(&self.every);
        InvalidConfig::ensure(fits, "every", "1 to 1000000 datagrams")
            .map_err(|error| error.inside("refresh"))
    }
}

/// Returns `true` if a number is a sum of 1, 2, 3 and so on.
fn is_triangular(number: u64) -> bool {
    let root = (8 * number + 1).isqrt();
    root * root == 8 * number + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_thin_out_and_stay() {
        let refresh = Refresh { payload: Bytes::new(92), every: 4 };
        let due: Vec<u64> = (0..25).filter(|number| refresh.is_due(*number)).collect();
        assert_eq!(due, [0, 1, 3, 6, 10, 14, 18, 22]);
        assert_eq!(Refresh { every: 30, ..refresh }.slow_start(), 465);
        assert_eq!(Refresh { every: 10, ..refresh }.slow_start(), 55);
        assert!(Refresh { every: 0, ..refresh }.check().is_err());
    }
}
