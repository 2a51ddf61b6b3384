//! Packets to groups.

use bentpipe_scenario::{Flow, Problem, Scenario};
use bentpipe_site::{Router, Topology, path_mtu};

use super::receivers;

/// Returns the longest packet that passes to all members of a flow's group. A sender makes one packet for all of them.
///
/// A flow to a node has none.
pub(super) fn mtu(
    scenario: &Scenario,
    topology: &Topology,
    (name, flow): (&str, &Flow),
    router: &mut Router<'_>,
) -> Result<u64, Problem> {
    if !scenario.group.contains_key(&flow.to) {
        return Ok(u64::MAX);
    }
    let from = topology.number(&flow.from);
    let mtu = |to: &str| path_mtu(router, from, topology.number(to), flow.ip);
    let all: Result<Vec<u64>, Problem> = receivers(scenario, flow).into_iter().map(mtu).collect();
    let all = all.map_err(|problem| Problem::new(format!("flow.{name}.to"), problem.problem))?;
    Ok(all.into_iter().min().unwrap_or(u64::MAX))
}
