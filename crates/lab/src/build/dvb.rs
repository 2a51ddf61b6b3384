//! Lines of DVB: each node that sends on one has a multiplex of the streams that it sends there.

use bentpipe_net::Port;
use bentpipe_net::dvb::{Encapsulation, Idle, PathConfig, Refusal, Sender};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_units::Rate;
use indexmap::IndexMap;

use super::links::{direction, mtu};
use super::{LinkHandle, Problem, Way};
use crate::record::Form;
use crate::scenario::{DvbLine, Link, Scenario};

/// Where a direction of a link is in a multiplex.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The sending end.
    pub(super) sender: ElementId,
    /// The stream's number there.
    pub(super) number: Port,
    /// How many streams there are.
    streams: u16,
    /// The line's rate.
    pub(super) rate: Rate,
    /// What captures have of it.
    pub(super) form: Form,
}

impl Place {
    /// The input for feedback that is to be sent.
    fn to_send(self) -> (ElementId, Port) {
        (self.sender, Port(self.streams + self.number.0))
    }

    /// The input for feedback that came.
    fn came(self) -> (ElementId, Port) {
        (self.sender, Port(2 * self.streams + self.number.0))
    }
}

/// A multiplex before it is built.
struct Multiplex<'a> {
    line: &'a str,
    /// Streams in the order of their numbers.
    members: Vec<(&'a str, &'a Link, Way)>,
}

/// Where each direction of each link of DVB is.
pub(super) struct Places(IndexMap<(String, bool), Place>);

impl Places {
    /// Adds the sending end of each multiplex.
    ///
    /// # Errors
    /// What is impossible.
    pub(super) fn add(scenario: &Scenario, builder: &mut Builder) -> Result<Places, Problem> {
        let mut multiplexes: IndexMap<String, Multiplex<'_>> = IndexMap::new();
        let both = scenario.link.iter().flat_map(|link| [(link, Way::Forward), (link, Way::Return)]);
        for ((name, link), way) in both {
            let Some(dvb) = direction(link, way).dvb else { continue };
            let Some((line, _)) = scenario.dvb.get_key_value(&dvb.line) else { continue };
            let from = &link.between[usize::from(way == Way::Return)];
            let of = multiplexes.entry(format!("dvb/{line}/{from}"));
            of.or_insert_with(|| Multiplex { line, members: Vec::new() }).members.push((name, link, way));
        }
        let mut places = IndexMap::new();
        for (path, multiplex) in multiplexes {
            let line = &scenario.dvb[multiplex.line];
            let sender = builder.add(path, multiplex.build(line)?);
            for (number, (name, link, way)) in multiplex.members.iter().enumerate() {
                let encapsulation = direction(link, *way).dvb.map(|dvb| dvb.stream.encapsulation);
                let in_frames =
                    encapsulation == Some(Encapsulation::Gse) || matches!(line, DvbLine::DvbS2 { .. });
                let place = Place {
                    sender,
                    number: Port(number as u16),
                    streams: multiplex.members.len() as u16,
                    rate: line.rate(),
                    form: if in_frames { Form::Frames } else { Form::TransportStream },
                };
                places.insert(((*name).to_owned(), *way == Way::Forward), place);
            }
        }
        Ok(Places(places))
    }

    /// Where a direction of a link is; nothing if it is no link of DVB.
    pub(super) fn of(&self, link: &str, way: Way) -> Option<&Place> {
        self.0.get(&(link.to_owned(), way == Way::Forward))
    }

    /// Joins each receiving end to the sending end of the other direction: what the one has to tell the other end goes
    /// there with its packets.
    pub(super) fn join(&self, links: &[LinkHandle], builder: &mut Builder) {
        for link in links {
            let back = if link.way == Way::Forward { Way::Return } else { Way::Forward };
            let ends = (self.of(&link.name, link.way), self.of(&link.name, back), link.receiver);
            if let (Some(_), Some(back), Some(receiver)) = ends {
                builder.connect((receiver, Port(1)), back.to_send());
                builder.connect((receiver, Port(2)), back.came());
            }
        }
    }
}

impl Multiplex<'_> {
    fn build(&self, line: &DvbLine) -> Result<Sender, Problem> {
        let paths: Vec<PathConfig> =
            self.members.iter().map(|(name, link, way)| path(name, link, *way)).collect();
        // Inputs of 16 bits have room for three of each stream.
        if paths.len() > usize::from(u16::MAX / 3) {
            return Err(Problem::new(format!("dvb.{}", self.line), "more than 21845 streams from one node"));
        }
        Sender::new(line, &paths).map_err(|refusal| self.problem(&refusal))
    }

    fn problem(&self, refusal: &Refusal) -> Problem {
        let member = refusal.path.and_then(|number| self.members.get(number));
        let key = member.map_or(format!("dvb.{}", self.line), |(name, link, way)| {
            let own = if *way == Way::Forward { &link.forward } else { &link.reverse };
            let is_own = if refusal.part == "queue" { own.queue.is_some() } else { own.dvb.is_some() };
            let part = refusal.part;
            if is_own { format!("link.{name}.{}.{part}", way.name()) } else { format!("link.{name}.{part}") }
        });
        Problem::impossible(&key, &refusal.impossible)
    }
}

fn path(name: &str, link: &Link, way: Way) -> PathConfig {
    let settings = direction(link, way);
    let dvb = settings.dvb.unwrap_or_default();
    PathConfig {
        name: format!("link/{name}/{}", way.name()),
        dvb: dvb.stream,
        modcod: dvb.modcod,
        queue: settings.queue.unwrap_or_default(),
        delay: settings.delay.unwrap_or_default(),
        mtu: mtu(link),
    }
}

/// What the line that a direction of a link is on sends where nothing waits; nothing if it carries no transport stream.
pub(super) fn idle(scenario: &Scenario, handle: &LinkHandle) -> Option<Idle> {
    let dvb = direction(scenario.link.get(&handle.name)?, handle.way).dvb?;
    let is_gse = dvb.stream.encapsulation == Encapsulation::Gse;
    scenario.dvb.get(&dvb.line).filter(|_| !is_gse).map(Idle::new)
}
