//! Max-min fair shares of resources (Bertsekas & Gallager 1992, 6.5.2).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Rate that a flow asks for, and what a unit of it takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// The most that it takes; infinite if it takes all that there is.
    pub(super) most: f64,
    /// Resources, and the part of each that a unit of the rate takes.
    pub(super) uses: Vec<(usize, f64)>,
}

/// Rate that a flow gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) rate: f64,
    /// Resource that limits it; `None` if it gets all that it asks for.
    pub(super) limit: Option<usize>,
}

/// Level of rates at which a demand is content, or a resource is full.
#[derive(Clone, Copy, PartialEq)]
struct Event {
    level: f64,
    of: Of,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Demand(usize),
    Resource(usize),
}

impl Eq for Event {}

impl Ord for Event {
    /// The least level is the greatest event, so that a heap returns it first.
    fn cmp(&self, other: &Event) -> Ordering {
        other.level.total_cmp(&self.level).then_with(|| other.of.cmp(&self.of))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Resource that fills as rates rise.
#[derive(Clone, Default)]
struct Resource {
    /// Part that demands with a rate take.
    taken: f64,
    /// Part that a unit of the other demands takes.
    weight: f64,
    /// Number of those.
    open: usize,
    users: Vec<usize>,
}

impl Resource {
    fn level(&self) -> f64 {
        ((1.0 - self.taken) / self.weight.max(f64::MIN_POSITIVE)).max(0.0)
    }
}

/// Raises all rates together; each stops at its demand, or where a resource is full.
///
/// Each resource has a capacity of one. Takes time in proportion to all uses, but for a logarithm.
pub(super) fn max_min(resources: usize, demands: &[Demand]) -> Vec<Share> {
    let mut all = vec![Resource::default(); resources];
    for (n, demand) in demands.iter().enumerate() {
        for (resource, part) in &demand.uses {
            let resource = &mut all[*resource];
            resource.weight += part;
            resource.open += 1;
            resource.users.push(n);
        }
    }
    let of_demands = demands.iter().enumerate().map(|(n, demand)| (demand.most, Of::Demand(n)));
    let of_resources = all.iter().enumerate().filter(|(_, resource)| resource.open > 0);
    let of_resources = of_resources.map(|(n, resource)| (resource.level(), Of::Resource(n)));
    let events = of_demands.chain(of_resources).map(|(level, of)| Event { level, of });
    let mut events: BinaryHeap<Event> = events.collect();
    let mut shares: Vec<Option<Share>> = vec![None; demands.len()];
    while let Some(Event { level, of }) = events.pop() {
        match of {
            Of::Demand(n) => close(&mut all, demands, &mut shares, n, Share { rate: level, limit: None }),
            Of::Resource(n) if all[n].open == 0 => {}
            // Since demands were content, it lasts longer.
            Of::Resource(n) if all[n].level() > level * (1.0 + 1e-9) => {
                events.push(Event { level: all[n].level(), of });
            }
            Of::Resource(n) => {
                for user in std::mem::take(&mut all[n].users) {
                    close(&mut all, demands, &mut shares, user, Share { rate: level, limit: Some(n) });
                }
            }
        }
    }
    shares.into_iter().map(|share| share.unwrap_or(Share { rate: 0.0, limit: None })).collect()
}

/// Sets the rate of a demand that has none.
fn close(all: &mut [Resource], demands: &[Demand], shares: &mut [Option<Share>], n: usize, share: Share) {
    if shares[n].is_some() {
        return;
    }
    shares[n] = Some(share);
    for (resource, part) in &demands[n].uses {
        let resource = &mut all[*resource];
        resource.taken += part * share.rate;
        resource.weight -= part;
        resource.open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(resources: usize, demands: &[(f64, &[(usize, f64)])]) -> Vec<f64> {
        let demand = |(most, uses): &(f64, &[(usize, f64)])| Demand { most: *most, uses: uses.to_vec() };
        let demands: Vec<Demand> = demands.iter().map(demand).collect();
        max_min(resources, &demands).iter().map(|share| share.rate).collect()
    }

    /// Bertsekas & Gallager 1992, figure 6.11: three flows of unequal paths.
    #[test]
    fn what_others_leave_is_shared() {
        let inf = f64::INFINITY;
        let expected = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0];
        let found = rates(
            2,
            &[(inf, &[(0, 1.0)]), (inf, &[(0, 1.0)]), (inf, &[(0, 1.0), (1, 1.0)]), (inf, &[(1, 1.0)])],
        );
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9),
            "{found:?}"
        );
        // A call that is content leaves the rest; a packet of a slower station takes more of the cell.
        let found = rates(1, &[(0.1, &[(0, 1.0)]), (inf, &[(0, 1.0)]), (inf, &[(0, 2.0)])]);
        assert!(found.iter().zip([0.1, 0.3, 0.3]).all(|(found, expected)| (found - expected).abs() < 1e-9));
    }

    #[test]
    fn ten_thousand_flows_take_no_quadratic_time() {
        // A quadratic one would take 40 billion steps.
        let demands = (0..200_000).map(|n| Demand { most: n as f64, uses: vec![(0, 1e-9), (1 + n, 1e-6)] });
        let shares = max_min(200_001, &demands.collect::<Vec<_>>());
        let sum: f64 = shares.iter().map(|share| share.rate).sum();
        assert!((sum / 1e9 - 1.0).abs() < 1e-6, "{sum}");
    }
}
