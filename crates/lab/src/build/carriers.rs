//! Carriers that terminals share: their structure, their terminals' contracts, and their control centres.

use std::sync::Arc;

use bentpipe_net::Port;
use bentpipe_net::dama::{Contract, ControlCentre, Frame};
use bentpipe_sim::{Builder, ElementId};

use super::{Problem, Way, copies, direction};
use crate::scenario::Scenario;

/// A carrier's control centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarrierHandle {
    /// Its name.
    pub name: String,
    /// Its structure.
    pub frame: Arc<Frame>,
    /// A `bentpipe_net::dama::ControlCentre`.
    pub centre: ElementId,
    /// The directions of links that are its terminals, by their number there: link and direction.
    pub terminals: Vec<(String, Way)>,
}

/// The terminals of a carrier: link, direction and contract, in the order of the file. Copies are counted.
pub(crate) fn terminals<'a>(
    scenario: &'a Scenario,
    carrier: &'a str,
) -> impl Iterator<Item = (&'a String, Way, Contract, u32)> {
    let both = scenario.link.iter().flat_map(|(name, link)| {
        let count = copies::copies(scenario, [&link.between[0], &link.between[1]]);
        [Way::Forward, Way::Return].map(|way| (name, way, direction(link, way).dama, count))
    });
    both.filter_map(move |(name, way, dama, count)| {
        let dama = dama.filter(|dama| dama.carrier == carrier)?;
        Some((name, way, dama.contract, count))
    })
}

/// A carrier's structure.
///
/// # Errors
/// The key whose value is impossible.
pub(crate) fn frame(scenario: &Scenario, carrier: &str) -> Result<Frame, Problem> {
    let count = terminals(scenario, carrier).map(|(.., count)| count).sum();
    let key = format!("carrier.{carrier}");
    let config = scenario.carrier.get(carrier).ok_or_else(|| Problem::new(&key, "no such carrier"))?;
    Frame::new(config, count).map_err(|error| Problem::impossible(&key, &error))
}

/// The control centres, added to the network.
pub(super) fn add(scenario: &Scenario, builder: &mut Builder) -> Result<Vec<CarrierHandle>, Problem> {
    let add = |name: &String| {
        let frame = Arc::new(frame(scenario, name)?);
        let of_it: Vec<_> = terminals(scenario, name).collect();
        let key = format!("carrier.{name}");
        let few = u16::try_from(of_it.len());
        few.map_err(|_| Problem::new(&key, "more than 65535 terminals"))?;
        let contracts: Vec<Contract> = of_it.iter().map(|(_, _, contract, _)| *contract).collect();
        let centre = ControlCentre::new(&frame, &contracts);
        let centre = centre.map_err(|error| Problem::impossible(&key, &error))?;
        Ok(CarrierHandle {
            name: name.clone(),
            frame,
            centre: builder.add(format!("carrier/{name}"), centre),
            terminals: of_it.into_iter().map(|(link, way, ..)| (link.clone(), way)).collect(),
        })
    };
    scenario.carrier.keys().map(add).collect()
}

impl CarrierHandle {
    /// The number of a terminal.
    pub(super) fn number(&self, link: &str, way: Way) -> Option<Port> {
        let number = self.terminals.iter().position(|(name, of)| (&name[..], *of) == (link, way))?;
        Some(Port(number as u16))
    }
}
