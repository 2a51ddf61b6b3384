//! Wi-Fi links: the cells they share, one element each.

use std::path::Path;

use bentpipe_net::wifi::PathConfig;
use bentpipe_net::{Port, Wifi};
use bentpipe_sim::{Builder, ElementId};
use indexmap::IndexMap;

use super::links::{direction, mtu};
use super::{Problem, Way};
use crate::loss;
use crate::scenario::{Fault, Link, Scenario};

/// Where each direction of each Wi-Fi link is.
pub(super) struct Cells(IndexMap<(String, bool), (ElementId, Port)>);

/// A cell before it is built.
#[derive(Default)]
struct Cell<'a> {
    /// Directions in the order of their ports.
    members: Vec<(&'a str, &'a Link, Way)>,
    /// Nodes: each is a station.
    stations: Vec<&'a str>,
}

impl Cells {
    /// Adds an element for each cell.
    ///
    /// # Errors
    /// What is impossible in the links of a cell.
    pub(super) fn add(
        scenario: &Scenario,
        seed: u64,
        folder: &Path,
        builder: &mut Builder,
    ) -> Result<Cells, Problem> {
        let mut cells: IndexMap<String, Cell<'_>> = IndexMap::new();
        for (name, link) in &scenario.link {
            let Some(wifi) = &link.wifi else { continue };
            let path = wifi.cell.as_ref().map_or(format!("link/{name}"), |cell| format!("cell/{cell}"));
            let cell = cells.entry(path).or_default();
            cell.members.extend([Way::Forward, Way::Return].map(|way| (name.as_str(), link, way)));
            for node in &link.between {
                if !cell.stations.contains(&node.as_str()) {
                    cell.stations.push(node);
                }
            }
        }
        let mut places = IndexMap::new();
        for (path, cell) in cells {
            let element = builder.add(path, cell.build(seed, folder)?);
            for (port, (name, _, way)) in cell.members.iter().enumerate() {
                places.insert(((*name).to_owned(), *way == Way::Forward), (element, Port(port as u16)));
            }
        }
        Ok(Cells(places))
    }

    /// Where a direction of a link is; nothing if it is no Wi-Fi link.
    pub(super) fn of(&self, link: &str, way: Way) -> Option<(ElementId, Port)> {
        self.0.get(&(link.to_owned(), way == Way::Forward)).copied()
    }
}

impl Cell<'_> {
    fn build(&self, seed: u64, folder: &Path) -> Result<Wifi, Problem> {
        let paths = self.members.iter().map(|(name, link, way)| self.path(name, link, *way, seed, folder));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        Wifi::new(&paths).map_err(|refusal| {
            let (name, link, way) = self.members[refusal.path];
            let key = match refusal.part {
                "" => format!("link.{name}"),
                "wifi" => format!("link.{name}.wifi"),
                "queue" => key(name, link, way, "queue"),
                part => key(name, link, way, part),
            };
            Problem::impossible(&key, &refusal.impossible)
        })
    }

    fn path(
        &self,
        name: &str,
        link: &Link,
        way: Way,
        seed: u64,
        folder: &Path,
    ) -> Result<PathConfig, Problem> {
        let settings = direction(link, way);
        let path = format!("link/{name}/{}", way.name());
        let from = &link.between[usize::from(way == Way::Return)];
        Ok(PathConfig {
            station: self.stations.iter().position(|node| node == from).unwrap_or(0),
            wifi: link.wifi.clone().unwrap_or_default(),
            queue: settings.queue.unwrap_or_default(),
            errors: errors(name, link, way, &path, seed, folder)?,
            delay: settings.delay.unwrap_or_default(),
            mtu: mtu(link),
            name: path,
        })
    }
}

/// What loses frames, with its trace if it has one.
fn errors(
    name: &str,
    link: &Link,
    way: Way,
    path: &str,
    seed: u64,
    folder: &Path,
) -> Result<Option<Fault>, Problem> {
    let key = key(name, link, way, "channel");
    let settings = direction(link, way);
    let fault = match settings.channel.as_ref().map_or(&[][..], |channel| channel.faults()) {
        [] => return Ok(None),
        [one] => one,
        _ => return Err(Problem::new(key, "several faults: expected one, which acts on frames")),
    };
    let loaded = loss::load(fault, folder, seed, path);
    loaded.map(Some).map_err(|(part, problem)| Problem::new(format!("{key}.{part}"), problem))
}

/// The key of a setting: the direction's own if it has one.
fn key(name: &str, link: &Link, way: Way, setting: &str) -> String {
    let own = if way == Way::Forward { &link.forward } else { &link.reverse };
    let is_own = if setting == "queue" { own.queue.is_some() } else { own.channel.is_some() };
    if is_own { format!("link.{name}.{}.{setting}", way.name()) } else { format!("link.{name}.{setting}") }
}
