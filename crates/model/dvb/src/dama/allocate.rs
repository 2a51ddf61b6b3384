//! Assignment of capacity in units: CRA, then RBDC, then VBDC, then FCA.
//!
//! A unit is a slot in each multiframe of a superframe. CRA is given whether it is used or not. The others are shared by
//! one of two schedulers. Proportional gives each class by share of demand; what the division into whole units takes
//! from a terminal is made up to it later. Round robin gives a unit at a time in turn, and goes on where it stopped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scheduler under overload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Shares in proportion to demand, with fractions of a unit carried over.
    #[default]
    Proportional,
    /// Round robin by units.
    RoundRobin,
}

/// Demand of a terminal for a superframe, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Continuous assignment.
    pub constant: u32,
    /// Requested rate beyond the continuous assignment.
    pub rate: u32,
    /// Requested volume.
    pub volume: u32,
    /// Set if free capacity may be assigned.
    pub free: bool,
    /// Maximum of all classes together.
    pub most: u32,
}

/// Assignment of a terminal for a superframe, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Continuous assignment.
    pub constant: u32,
    /// Assignment for its rate.
    pub rate: u32,
    /// Assignment for its volume.
    pub volume: u32,
    /// Free capacity.
    pub free: u32,
}

impl Allocation {
    /// Returns the units of all classes.
    pub fn total(&self) -> u32 {
        self.constant + self.rate + self.volume + self.free
    }
}

/// Scheduler of a superframe's units. Fractions and turns carry over to the next one.
#[derive(Clone, Debug)]
pub struct Scheduler {
    units: u32,
    scheduling: Scheduling,
    rate: Turns,
    volume: Turns,
    free: Turns,
}

impl Scheduler {
    /// Creates a scheduler of units for terminals.
    pub fn new(units: u32, scheduling: Scheduling, terminals: usize) -> Scheduler {
        let turns = Turns { credit: vec![0.0; terminals], next: 0 };
        Scheduler { units, scheduling, rate: turns.clone(), volume: turns.clone(), free: turns }
    }

    /// Shares a superframe's units. Constant assignments are given in full as long as they fit, in the order of the
    /// terminals; the caller ensures that added terminals fit.
    pub fn share(&mut self, claims: &[Claim]) -> Vec<Allocation> {
        let mut left = self.units;
        let mut given = vec![Allocation::default(); claims.len()];
        for (claim, given) in claims.iter().zip(&mut given) {
            given.constant = claim.constant.min(claim.most).min(left);
            left -= given.constant;
        }
        let wants = |given: &[Allocation], of: fn(&Claim) -> u32| -> Vec<u32> {
            let want = |(claim, given): (&Claim, &Allocation)| of(claim).min(claim.most - given.total());
            claims.iter().zip(given).map(want).collect()
        };
        let rates = self.rate.share(self.scheduling, &wants(&given, |claim| claim.rate), &mut left);
        given.iter_mut().zip(rates).for_each(|(given, units)| given.rate = units);
        let volumes = self.volume.share(self.scheduling, &wants(&given, |claim| claim.volume), &mut left);
        given.iter_mut().zip(volumes).for_each(|(given, units)| given.volume = units);
        // Free capacity is not guaranteed, so nothing is made up for.
        let anything = |claim: &Claim| if claim.free { u32::MAX } else { 0 };
        let free = self.free.share(Scheduling::RoundRobin, &wants(&given, anything), &mut left);
        given.iter_mut().zip(free).for_each(|(given, units)| given.free = units);
        given
    }
}

/// State of a class.
#[derive(Clone, Debug)]
struct Turns {
    /// Units that each terminal is owed; negative if it was given too many.
    credit: Vec<f64>,
    /// Terminal whose turn it is.
    next: usize,
}

impl Turns {
    /// Assigns at most `left` units, and subtracts them. No terminal gets more than its demand.
    fn share(&mut self, scheduling: Scheduling, wants: &[u32], left: &mut u32) -> Vec<u32> {
        let all: u64 = wants.iter().map(|want| u64::from(*want)).sum();
        let given = if all <= u64::from(*left) {
            wants.to_vec()
        } else if *left == 0 {
            vec![0; wants.len()]
        } else {
            match scheduling {
                Scheduling::Proportional => self.proportional(wants, all, *left),
                Scheduling::RoundRobin => self.round_robin(wants, *left),
            }
        };
        // Who asks for nothing more has nothing to make up for.
        for (credit, (want, given)) in self.credit.iter_mut().zip(wants.iter().zip(&given)) {
            if want == given {
                *credit = 0.0;
            }
        }
        *left -= given.iter().sum::<u32>();
        given
    }

    /// Assigns whole units of each share, then one each by the amount owed.
    fn proportional(&mut self, wants: &[u32], all: u64, left: u32) -> Vec<u32> {
        let share = |want: u32| f64::from(want) * f64::from(left) / all as f64;
        let mut given: Vec<u32> = wants.iter().map(|want| share(*want) as u32).collect();
        for ((credit, want), given) in self.credit.iter_mut().zip(wants).zip(&given) {
            *credit += share(*want) - f64::from(*given);
        }
        let mut rest = left - given.iter().sum::<u32>();
        let mut order: Vec<usize> = (0..wants.len()).filter(|n| wants[*n] > given[*n]).collect();
        order.sort_by(|a, b| self.credit[*b].total_cmp(&self.credit[*a]).then(a.cmp(b)));
        // Fewer units are left than there are terminals with a fraction; a terminal gets more than one only if the
        // others have all they want.
        while rest > 0 {
            for &n in &order {
                if rest > 0 && given[n] < wants[n] {
                    given[n] += 1;
                    self.credit[n] -= 1.0;
                    rest -= 1;
                }
            }
        }
        given
    }

    /// Assigns whole rounds, then a unit each from the end of the last round.
    fn round_robin(&mut self, wants: &[u32], left: u32) -> Vec<u32> {
        let level = level(wants, left);
        let mut given: Vec<u32> = wants.iter().map(|want| (*want).min(level)).collect();
        let mut rest = left - given.iter().sum::<u32>();
        let count = wants.len();
        let first = self.next;
        for n in (0..count).map(|step| (first + step) % count) {
            if rest == 0 {
                break;
            }
            if wants[n] > given[n] {
                given[n] += 1;
                rest -= 1;
                self.next = (n + 1) % count;
            }
        }
        given
    }
}

/// Returns the largest equal limit whose assignments sum to at most `left`.
fn level(wants: &[u32], left: u32) -> u32 {
    let mut sorted: Vec<u32> = wants.iter().copied().filter(|want| *want > 0).collect();
    sorted.sort_unstable();
    let (mut left, mut count) = (left, sorted.len() as u32);
    for want in sorted {
        if want > left / count {
            return left / count;
        }
        left -= want;
        count -= 1;
    }
    u32::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asks(rate: &[u32]) -> Vec<Claim> {
        rate.iter().map(|&rate| Claim { rate, most: 48, ..Claim::default() }).collect()
    }

    fn rates(scheduler: &mut Scheduler, wants: &[u32]) -> Vec<u32> {
        scheduler.share(&asks(wants)).iter().map(|given| given.rate).collect()
    }

    #[test]
    fn enough_for_all_is_given_to_all() {
        for scheduling in [Scheduling::Proportional, Scheduling::RoundRobin] {
            assert_eq!(rates(&mut Scheduler::new(48, scheduling, 3), &[10, 0, 38]), [10, 0, 38]);
        }
    }

    #[test]
    fn proportional_makes_up_for_fractions() {
        let mut scheduler = Scheduler::new(10, Scheduling::Proportional, 3);
        let sums = (0..3).fold([0; 3], |sums: [u32; 3], _| {
            let given = rates(&mut scheduler, &[20, 20, 20]);
            [0, 1, 2].map(|n| sums[n] + given[n])
        });
        assert_eq!(sums, [10, 10, 10]);
        assert_eq!(rates(&mut Scheduler::new(12, Scheduling::Proportional, 2), &[36, 12]), [9, 3]);
    }

    #[test]
    fn round_robin_is_fair_whatever_is_asked() {
        let mut scheduler = Scheduler::new(11, Scheduling::RoundRobin, 4);
        assert_eq!(rates(&mut scheduler, &[40, 2, 40, 0]), [5, 2, 4, 0]);
        assert_eq!(rates(&mut scheduler, &[40, 2, 40, 0]), [4, 2, 5, 0]);
    }

    #[test]
    fn classes_come_in_their_order() {
        let claim = |constant, rate, volume, free| Claim { constant, rate, volume, free, most: 48 };
        let mut scheduler = Scheduler::new(48, Scheduling::Proportional, 3);
        let claims = [claim(8, 20, 0, false), claim(0, 0, 30, false), claim(0, 0, 0, true)];
        let given = scheduler.share(&claims);
        assert_eq!(given.map_totals(), [28, 20, 0]);
        let given = scheduler.share(&[claim(8, 0, 0, false), claim(0, 0, 30, false), claim(0, 0, 0, true)]);
        assert_eq!(given.map_totals(), [8, 30, 10]);
    }

    trait Totals {
        fn map_totals(&self) -> Vec<u32>;
    }

    impl Totals for Vec<Allocation> {
        fn map_totals(&self) -> Vec<u32> {
            self.iter().map(Allocation::total).collect()
        }
    }

    fn claim() -> impl Strategy<Value = Claim> {
        // Up to 12 terminals with up to 8 of 100 units each: guarantees always fit.
        (0..=8_u32, 0..200_u32, 0..200_u32, any::<bool>(), 8..=60_u32)
            .prop_map(|(constant, rate, volume, free, most)| Claim { constant, rate, volume, free, most })
    }

    proptest! {
        /// Over any sequence of demands: never more than the frame holds, never more to one than it asked for or can
        /// use, never less than its guarantee, and nothing left while somebody wants it.
        #[test]
        fn capacity_is_conserved(
            proportional in any::<bool>(),
            superframes in prop::collection::vec(prop::collection::vec(claim(), 12), 1..20),
        ) {
            let scheduling = if proportional { Scheduling::Proportional } else { Scheduling::RoundRobin };
            let mut scheduler = Scheduler::new(100, scheduling, 12);
            for claims in &superframes {
                let given = scheduler.share(claims);
                let sum: u32 = given.iter().map(Allocation::total).sum();
                prop_assert!(sum <= 100);
                for (claim, given) in claims.iter().zip(&given) {
                    prop_assert_eq!(given.constant, claim.constant);
                    prop_assert!(given.rate <= claim.rate && given.volume <= claim.volume);
                    prop_assert!(given.total() <= claim.most);
                    prop_assert!(claim.free || given.free == 0);
                    let wants = claim.rate.saturating_add(claim.volume) + claim.constant;
                    let satisfied = given.total() >= wants.min(claim.most);
                    prop_assert!(satisfied || sum == 100, "{claim:?} {given:?}");
                }
            }
        }

        /// Demands that stay: over time nobody who asks for a rate is more than a unit behind its share.
        #[test]
        fn nobody_falls_behind(
            proportional in any::<bool>(),
            wants in prop::collection::vec(0..60_u32, 12),
        ) {
            let scheduling = if proportional { Scheduling::Proportional } else { Scheduling::RoundRobin };
            let mut scheduler = Scheduler::new(100, scheduling, 12);
            let all: u32 = wants.iter().sum();
            let turns = 40;
            let mut sums = [0_u32; 12];
            for _ in 0..turns {
                let claims: Vec<Claim> =
                    wants.iter().map(|&rate| Claim { rate, most: 60, ..Claim::default() }).collect();
                scheduler.share(&claims).iter().zip(&mut sums).for_each(|(given, sum)| *sum += given.rate);
            }
            for (want, sum) in wants.iter().zip(sums) {
                let fair = if all <= 100 {
                    f64::from(*want)
                } else if proportional {
                    f64::from(*want) * 100.0 / f64::from(all)
                } else {
                    // Max-min: at least an even share, or all it wants.
                    f64::from(*want).min(100.0 / 12.0)
                };
                // Those with less than a unit to come wait at most as long as there are terminals.
                prop_assert!(f64::from(sum) >= fair * f64::from(turns) - 12.0, "{want}: {sum} of {fair}");
            }
        }
    }
}
