//! Values that depend on the network, such as segment sizes of TCP.

use bentpipe_site::{PathFacts, Problem, Router, Topology};
use bentpipe_units::Bytes;

use super::schema::{Ip, Scenario};
use super::sides::Layout;

/// Fills in what traffic takes of its path where the file does not say it. `is_given` returns `true` for a key of the file.
/// Flows without a path are left for assembling to refuse.
///
/// # Errors
/// Returns an error if a medium has no rate and delay.
pub(crate) fn resolve(scenario: &mut Scenario, is_given: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let as_read = scenario.clone();
    let layout = Layout::new(&as_read);
    let topology = layout.topology(&layout.facts()?);
    let Ok(mut router) = Router::new(&topology) else { return Ok(()) };
    for (name, flow) in &mut scenario.flow {
        let mut path = || facts(&topology, &mut router, [&flow.from, &flow.to], flow.ip);
        let is_given = |key: &str| is_given(&format!("flow.{name}.traffic.{key}"));
        flow.traffic.kind_mut().resolve(&mut path, &is_given);
    }
    Ok(())
}

/// Returns the path between two nodes, if there is one both ways.
fn facts(topology: &Topology, router: &mut Router<'_>, ends: [&String; 2], ip: Ip) -> Option<PathFacts> {
    let [from, to] = ends.map(|node| topology.find(node));
    let (from, to) = (from?, to?);
    let (there, back) = (router.mtu(from, to, ip)?, router.mtu(to, from, ip)?);
    Some(PathFacts { ip, mtu: Bytes::new(there.min(back)) })
}
