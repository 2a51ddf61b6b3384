//! What terminals of shared carriers may expect.

use bentpipe_units::{Rate, Span};
use serde::Serialize;

use crate::build::{self, Problem};
use crate::scenario::Scenario;

/// A terminal: what it gets of its carriers, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TerminalBudget {
    /// The link.
    pub name: String,
    /// `forward` or `return`.
    pub direction: &'static str,
    /// How many there are of it.
    pub copies: u32,
    /// Its carriers.
    pub carrier: String,
    /// The least that can be assigned: a slot in each multiframe.
    pub granularity: Rate,
    /// What it always gets: its constant assignment in whole slots.
    pub least: Rate,
    /// What it can get when nobody else asks.
    pub most: Rate,
    /// Its even share of what is left beyond constant assignments, if all terminals of the carrier ask.
    pub share: Rate,
    /// From data to the slots that were asked for it: least, mean and most; none where requests ride on bursts.
    pub request_to_grant: Option<[Span; 3]>,
}

/// All terminals of a scenario.
pub(super) fn budgets(scenario: &Scenario) -> Result<Vec<TerminalBudget>, Problem> {
    let mut budgets = Vec::new();
    for carrier in scenario.carrier.keys() {
        let frame = build::frame(scenario, carrier)?;
        let of_it: Vec<_> = build::terminals(scenario, carrier).collect();
        let all: u32 = of_it.iter().map(|(.., copies)| copies).sum();
        let constant = of_it.iter().map(|(_, _, contract, copies)| contract.constant_units(&frame) * copies);
        let left = frame.rate_of(frame.units().saturating_sub(constant.sum()));
        let mut number = 0;
        for (name, way, contract, copies) in of_it {
            let least = frame.rate_of(contract.constant_units(&frame));
            let most = frame.rate_of(contract.most_units(&frame));
            let share = Rate::from_bps(least.as_bps() + left.as_bps() / u64::from(all.max(1)));
            budgets.push(TerminalBudget {
                name: name.clone(),
                direction: way.name(),
                copies,
                carrier: carrier.clone(),
                granularity: frame.granularity(),
                least,
                most,
                share: share.min(most),
                request_to_grant: frame.request_to_grant(number),
            });
            number += copies;
        }
    }
    Ok(budgets)
}
