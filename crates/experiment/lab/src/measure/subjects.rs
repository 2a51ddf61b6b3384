//! Subjects of measures: flows, directions of links and ATM lines, ends of virtual channels.

use std::collections::HashMap;
use std::sync::Arc;

use bentpipe_net::metric::End;
use bentpipe_record::Subject as Named;
use bentpipe_scenario::{Flow, Scenario, copies};

/// Beginning of the paths of flows.
const FLOW: &str = "flow/";

/// Kind of a subject, in the order in which measures are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Flow.
    Flow,
    /// Direction of a link or of an ATM line.
    Line,
    /// End of a virtual channel.
    ChannelEnd,
}

/// Something that measures are of, with its parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Subject<'a> {
    /// Path in the scenario: "flow/cubic", "link/satellite/forward".
    pub(super) path: &'a str,
    /// Word for the opposite direction of a call: "back", or nothing.
    pub(super) way: &'static str,
    /// Kind.
    pub(super) kind: Kind,
    /// Numbers of its parts, and the ends of a flow that they are.
    pub(super) parts: Vec<(u32, Option<End>)>,
}

impl<'a> Subject<'a> {
    /// Returns the same flow in the opposite direction, in which its receiver sends.
    pub(super) fn back(&self) -> Subject<'a> {
        let other = |end: &Option<End>| match end {
            Some(End::Sender) => Some(End::Receiver),
            Some(End::Receiver) => Some(End::Sender),
            None => None,
        };
        let parts = self.parts.iter().map(|(part, end)| (*part, other(end))).collect();
        Subject { path: self.path, way: "back", kind: self.kind, parts }
    }
}

/// Returns the subjects of these parts.
///
/// Flows come first, then lines, then ends of channels, each in the order of the network.
pub(super) fn of(parts: &[Arc<str>]) -> Vec<Subject<'_>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for (number, path) in parts.iter().enumerate() {
        let Some((path, kind, end)) = subject(path) else { continue };
        let place = *places.entry(path).or_insert(subjects.len());
        if place == subjects.len() {
            subjects.push(Subject { path, way: "", kind, parts: Vec::new() });
        }
        subjects[place].parts.push((number as u32, end));
    }
    subjects.sort_by_key(|subject| subject.kind);
    subjects
}

/// Returns a part's subject: path, kind and end of a flow.
fn subject(path: &str) -> Option<(&str, Kind, Option<End>)> {
    let (subject, rest) = Named::of_element(path)?;
    match subject {
        Named::Flow(name) => {
            let end = Named::part_of_flow(path).map(|(_, end, _)| end);
            Some((&path[..FLOW.len() + name.len()], Kind::Flow, end))
        }
        // What a link sends to a group on behalf of others too: a mean with the link's own stream would be of neither.
        // Nor is a class of a queue one of several parts: the direction has the packets of all classes.
        Named::Link("link", ..) if rest == "multicast" || is_class(rest) => Some((path, Kind::Line, None)),
        Named::Link(..) => Some((path.strip_suffix(rest)?.trim_end_matches('/'), Kind::Line, None)),
        Named::Channel(..) => Some((path, Kind::ChannelEnd, None)),
        Named::Group(_) | Named::Node(_) => None,
    }
}

/// Returns `true` if a path ends with a class of a queue.
fn is_class(rest: &str) -> bool {
    rest.rsplit('/').next().is_some_and(|last| last.starts_with("class."))
}

/// Returns a flow of the scenario, with its name and its copy's number from zero. Copy number n is called NAME.n.
pub(super) fn find<'a>(scenario: &'a Scenario, path: &str) -> Option<(&'a str, &'a Flow, u64)> {
    let (Named::Flow(name), _) = Named::of_element(path)? else { return None };
    let of = |name: &str| scenario.flow.get_key_value(name).map(|(name, flow)| (name.as_str(), flow));
    let copy = || {
        let (base, number) = copies::apart(&scenario.flow, name)?;
        of(base).map(|(base, flow)| (base, flow, number.into()))
    };
    of(name).map(|(name, flow)| (name, flow, 0)).or_else(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_belong_to_their_subjects() {
        let paths = [
            "node/a",
            "link/l/forward",
            "flow/f.1/sender",
            "vc/x/near",
            "link/l/forward/channel.1",
            "flow/f.1/receiver",
            "link/w",
            "link/l/forward/multicast",
            "link/l/forward/class.voice",
        ];
        let parts: Vec<Arc<str>> = paths.into_iter().map(Arc::from).collect();
        let subjects = of(&parts);
        let found: Vec<_> = subjects.iter().map(|subject| (subject.path, subject.parts.len())).collect();
        assert_eq!(
            found,
            [
                ("flow/f.1", 2),
                ("link/l/forward", 2),
                ("link/l/forward/multicast", 1),
                ("link/l/forward/class.voice", 1),
                ("vc/x/near", 1)
            ]
        );
        assert_eq!(subjects[0].parts, [(2, Some(End::Sender)), (5, Some(End::Receiver))]);
    }
}
