//! Superframes of a beacon-enabled network: their contention access period, and its backoff boundaries.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy;

/// Highest order of superframes.
const MAX_ORDER: u8 = 14;
/// Superframe of order 0 (aBaseSuperframeDuration, 960 symbols).
const BASE: Span = Span::from_micros(15_360);
/// Length of a beacon with short addresses and without pending addresses, with its FCS.
const BEACON_LEN: usize = 13;

/// Superframes of a beacon-enabled network, in which devices access the channel by slotted CSMA-CA.
///
/// Device 0 sends the beacons. All devices have its time, and their radios are off in the inactive part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WpanSuperframe")]
pub struct Superframe {
    /// Interval of beacons: 15.36 ms times 2 to this power (macBeaconOrder).
    #[schemars(range(min = 0, max = 14))]
    pub beacon_order: u8,
    /// Active part of it: 15.36 ms times 2 to this power (macSuperframeOrder).
    #[schemars(range(min = 0, max = 14))]
    pub superframe_order: u8,
}

impl Superframe {
    /// Checks the orders.
    ///
    /// # Errors
    /// Returns an error if an order is above 14, or the active part longer than the interval.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(self.beacon_order <= MAX_ORDER, "superframe.beacon_order", "0 to 14")?;
        InvalidConfig::ensure(
            self.superframe_order <= self.beacon_order,
            "superframe.superframe_order",
            "at most `beacon_order`",
        )
    }

    /// Returns the interval from beacon to beacon.
    pub fn interval(&self) -> Span {
        BASE * (1 << self.beacon_order)
    }

    /// Returns the part of an interval in which radios are on.
    pub fn active(&self) -> Span {
        BASE * (1 << self.superframe_order)
    }

    /// Returns the contention access period, from the start of the beacon.
    ///
    /// It begins on the first backoff boundary after the beacon and its spacing, and takes the rest of the active part.
    pub fn contention(&self) -> (Span, Span) {
        let beacon = phy::airtime(BEACON_LEN) + phy::spacing(BEACON_LEN);
        (phy::BACKOFF * beacon.as_nanos().div_ceil(phy::BACKOFF.as_nanos()), self.active())
    }

    /// Returns the time on the air of the beacons that began before an instant.
    pub(super) fn beacons(&self, now: Time) -> Span {
        phy::airtime(BEACON_LEN) * now.as_nanos().div_ceil(self.interval().as_nanos())
    }

    /// Returns the active time up to an instant.
    pub(super) fn active_until(&self, now: Time) -> Span {
        let (whole, rest) =
            (now.as_nanos() / self.interval().as_nanos(), now.as_nanos() % self.interval().as_nanos());
        self.active() * whole + Span::from_nanos(rest).min(self.active())
    }

    /// Returns the contention access period that has not ended at an instant.
    fn period(&self, at: Time) -> (Time, Time) {
        let start = Time::from_nanos(at.as_nanos() / self.interval().as_nanos() * self.interval().as_nanos());
        let (first, end) = self.contention();
        let start = if at < start + end { start } else { start + self.interval() };
        (start + first, start + end)
    }

    /// Returns the end of a backoff that starts on the next boundary.
    ///
    /// It stands still outside of contention access periods.
    pub(super) fn back_off(&self, from: Time, mut units: u64) -> Time {
        let mut at = boundary(from);
        loop {
            let (start, end) = self.period(at);
            at = at.max(start);
            let left = (end - at).as_nanos() / phy::BACKOFF.as_nanos();
            if units < left {
                return at + phy::BACKOFF * units;
            }
            units -= left;
            at = end;
        }
    }

    /// Returns the next period for a transaction that does not fit its own.
    pub(super) fn postponed(&self, at: Time, transaction: Span) -> Option<Time> {
        let (_, end) = self.period(at);
        (at + transaction > end).then(|| self.period(end).0)
    }
}

/// Returns the first backoff boundary at or after an instant. Superframes start on boundaries.
pub(super) fn boundary(at: Time) -> Time {
    Time::from_nanos(at.as_nanos().next_multiple_of(phy::BACKOFF.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn backoffs_stand_still_outside_of_the_contention_access_period() {
        let superframe = Superframe { beacon_order: 1, superframe_order: 0 };
        assert_eq!(superframe.interval(), Span::from_micros(30_720));
        // A beacon of 19 B with its header takes 38 symbols, its spacing 12: the third boundary follows.
        assert_eq!(superframe.contention(), (Span::from_micros(960), Span::from_micros(15_360)));
        assert_eq!(superframe.back_off(at(0), 0), at(960));
        assert_eq!(superframe.back_off(at(1000), 2), at(1280 + 640));
        assert_eq!(superframe.back_off(at(15_040), 0), at(15_040));
        assert_eq!(superframe.back_off(at(15_040), 1), at(30_720 + 960));
        assert_eq!(superframe.back_off(at(20_000), 3), at(30_720 + 960 + 960));
        // 45 units per period.
        assert_eq!(superframe.back_off(at(0), 100), at(61_440 + 960 + 3200));
        assert_eq!(superframe.postponed(at(960), Span::from_micros(14_400)), None);
        assert_eq!(superframe.postponed(at(1280), Span::from_micros(14_400)), Some(at(30_720 + 960)));
    }

    #[test]
    fn radios_are_on_in_the_active_part() {
        let superframe = Superframe { beacon_order: 3, superframe_order: 1 };
        assert_eq!(superframe.active_until(at(10)), Span::from_micros(10));
        assert_eq!(superframe.active_until(at(100_000)), Span::from_micros(30_720));
        assert_eq!(superframe.active_until(at(122_880 + 5)), Span::from_micros(30_725));
        assert_eq!(superframe.beacons(at(122_881)), Span::from_micros(608 * 2));
        assert!(superframe.check().is_ok());
        assert!(Superframe { beacon_order: 15, superframe_order: 0 }.check().is_err());
        assert!(Superframe { beacon_order: 3, superframe_order: 4 }.check().is_err());
    }
}
