//! Paths of virtual channels over ATM lines: least delay, then fewest lines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bentpipe_units::Span;

use super::Atm;
use bentpipe_site::Way;

/// Returns the numbers of the lines from one node to another, each with its direction. The path leads over
/// switches.
///
/// # Errors
/// Returns an error that names both if no lines join them.
pub(super) fn path(atm: &Atm, from: &str, to: &str) -> Result<Vec<(usize, Way)>, String> {
    let mut best: BTreeMap<&str, (Span, u32)> = BTreeMap::from([(to, (Span::ZERO, 0))]);
    let mut next: BTreeMap<&str, (usize, Way, &str)> = BTreeMap::new();
    let mut open = BinaryHeap::from([Reverse((Span::ZERO, 0_u32, to))]);
    while let Some(Reverse((delay, hops, at))) = open.pop() {
        if best[at] != (delay, hops) || (at != to && !atm.passes(at)) {
            continue;
        }
        for (n, line) in atm.line.values().enumerate() {
            let [a, b] = line.between.each_ref().map(String::as_str);
            for (here, there, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let cost = (delay + line.delay, hops + 1);
                if there == at && best.get(here).is_none_or(|known| cost < *known) {
                    best.insert(here, cost);
                    next.insert(here, (n, way, there));
                    open.push(Reverse((cost.0, cost.1, here)));
                }
            }
        }
    }
    let (mut at, mut lines) = (from, Vec::new());
    while at != to {
        let Some((line, way, then)) = next.get(at) else {
            return Err(format!(
                "no way from \"{from}\" to \"{to}\" over ATM lines: expected `atm.line` to join them"
            ));
        };
        lines.push((*line, *way));
        at = then;
    }
    Ok(lines)
}
