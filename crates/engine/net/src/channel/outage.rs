//! Outages: times in which a channel receives nothing.

use bentpipe_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::InvalidConfig;

/// Maximum number of outages of a channel.
pub const MAX_OUTAGES: usize = 10_000;

/// Time without reception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Start, at the receiver.
    pub at: Span,
    /// Length.
    pub lasts: Span,
}

/// Outages in order, that may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outages {
    /// Starts and ends in nanoseconds, each end before the next start.
    periods: Vec<(u64, u64)>,
    /// Nanoseconds after which they repeat; `u64::MAX` if they do not.
    every: u64,
}

impl Outages {
    /// Creates the outages of a channel.
    ///
    /// # Errors
    /// Returns an error unless the outages follow each other, within one repetition.
    pub(super) fn new(outages: &[Outage], every: Option<Span>) -> Result<Outages, InvalidConfig> {
        InvalidConfig::ensure(outages.len() <= MAX_OUTAGES, "outages", "10000 or fewer")?;
        InvalidConfig::ensure(every.is_none_or(|every| !every.is_zero()), "every", "more than no time")?;
        let every = every.map_or(u64::MAX, Span::as_nanos);
        let end = |outage: &Outage| outage.at.as_nanos().checked_add(outage.lasts.as_nanos());
        let periods: Option<Vec<_>> =
            outages.iter().map(|outage| Some((outage.at.as_nanos(), end(outage)?))).collect();
        let periods = periods.ok_or(InvalidConfig::new("outages", "ends within 500 years"))?;
        let in_order = periods.is_sorted_by(|before, after| before.1 <= after.0);
        InvalidConfig::ensure(in_order, "outages", "outages in order, each after the end of the one before")?;
        let fits = periods.last().is_none_or(|last| last.1 <= every);
        InvalidConfig::ensure(fits, "every", "a time at which all outages are over")?;
        Ok(Outages { periods, every })
    }

    /// Returns `true` if nothing is received at `now`.
    #[inline]
    pub(super) fn is_out(&self, now: Time) -> bool {
        let now = now.as_nanos() % self.every;
        let begun = self.periods.partition_point(|(start, _)| *start <= now);
        begun > 0 && now < self.periods[begun - 1].1
    }
}
