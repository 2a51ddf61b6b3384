//! Parts of a bundle that no route takes whole: proactive fragmentation.

use std::borrow::Borrow;

use bentpipe_units::Time;

use super::{Choice, Demand, Graph, Ledger, Route};

/// Least payload of a part, unless less is left.
const LEAST: u64 = 1000;

/// Part of a bundle with a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Encoded length in bytes.
    pub size: u64,
    /// Route that it takes.
    pub choice: Choice,
}

impl Graph {
    /// Returns the parts of a bundle that no route takes whole, in their order.
    ///
    /// Each is as long as the route of earliest arrival takes. A part has `overhead` bytes beyond its payload. Returns `None` if the bundle
    /// must stay whole, or the routes do not take all of it in time. The ledger stays as it is; the other arguments
    /// are those of [`Graph::choose`].
    pub fn parts(
        &self,
        routes: &[impl Borrow<Route>],
        (demand, overhead): (&Demand, u64),
        ledger: &mut Ledger,
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<Vec<Part>> {
        let mut left = demand.size.saturating_sub(overhead);
        if !demand.may_fragment || left < 2 * LEAST {
            return None;
        }
        let of = |size: u64| Demand { size, may_fragment: false, ..*demand };
        let mut parts: Vec<Part> = Vec::new();
        while left > 0 {
            let planned = |to: u64| {
                let before = parts.iter().filter(|part| part.choice.neighbour == to);
                backlog(to) + before.map(|part| part.size).sum::<u64>()
            };
            let (mut size, mut too_long) = (overhead + left.min(LEAST), overhead + left + 1);
            let Some(mut choice) = self.choose(routes, &of(size), ledger, now, &planned) else { break };
            let route = choice.route;
            while too_long - size > 1 {
                let middle = size + (too_long - size) / 2;
                let one = std::slice::from_ref(&routes[route]);
                match self.choose(one, &of(middle), ledger, now, &planned) {
                    Some(found) => (size, choice) = (middle, Choice { route, ..found }),
                    None => too_long = middle,
                }
            }
            ledger.book(routes[route].borrow(), &of(size));
            parts.push(Part { size, choice });
            left -= size - overhead;
        }
        for part in &parts {
            ledger.release(routes[part.choice.route].borrow(), &of(part.size));
        }
        (left == 0).then_some(parts)
    }
}
