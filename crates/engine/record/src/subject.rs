//! Subjects of figures: what an element's path or a measure's name begins with.
//!
//! Nothing else takes such paths and names apart.

use std::fmt;

use bentpipe_net::metric::End;

/// Kind of a thing that figures are of, in the order of tables and diagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    /// Flow or flow of calls.
    Flow,
    /// Direction of a link.
    Link,
    /// Direction of an ATM line.
    Line,
    /// End of a virtual channel.
    Channel,
    /// Group of copies.
    Group,
    /// Node.
    Node,
}

impl SubjectKind {
    const ALL: [SubjectKind; 6] = [
        SubjectKind::Flow,
        SubjectKind::Link,
        SubjectKind::Line,
        SubjectKind::Channel,
        SubjectKind::Group,
        SubjectKind::Node,
    ];

    /// Returns the first part of paths and names.
    const fn word(self) -> &'static str {
        match self {
            SubjectKind::Flow => "flow",
            SubjectKind::Link => "link",
            SubjectKind::Line => "line",
            SubjectKind::Channel => "vc",
            SubjectKind::Group => "group",
            SubjectKind::Node => "node",
        }
    }

    /// Returns the kind of a column or measure, and its name without it: "access.forward.rate".
    pub fn of_name(name: &str) -> Option<(SubjectKind, &str)> {
        let (word, rest) = name.split_once('.')?;
        SubjectKind::ALL.into_iter().find(|kind| kind.word() == word).map(|kind| (kind, rest))
    }
}

/// Measure's name in its parts.
///
/// "flow.download.3.back.goodput" is the "goodput" of the flow "download.3.back".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureName<'a> {
    /// Kind of the thing.
    pub kind: SubjectKind,
    /// Name of the thing.
    ///
    /// That of a link ends with the direction, that of a call's other direction with "back".
    pub thing: &'a str,
    /// Last part. Of a group it is the statistic: "mean" of the thing "access.forward.rate".
    pub measure: &'a str,
}

impl<'a> MeasureName<'a> {
    /// Returns the parts of a name. `None` for measures of something else: "flows.fairness".
    pub fn of(name: &'a str) -> Option<MeasureName<'a>> {
        let (kind, rest) = SubjectKind::of_name(name)?;
        let (thing, measure) = subject_and_metric(rest)?;
        Some(MeasureName { kind, thing, measure })
    }

    /// Returns the thing and the measure of a group's mean.
    pub fn of_mean(name: &'a str) -> Option<(&'a str, &'a str)> {
        let name = MeasureName::of(name)?;
        let is_mean = name.kind == SubjectKind::Group && name.measure == "mean";
        is_mean.then(|| subject_and_metric(name.thing)).flatten()
    }
}

/// Returns the subject and the last part of a column's or measure's name.
pub fn subject_and_metric(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.')
}

/// Returns a dotted path with `*` for numbers: "flow.transfer.*.sender".
pub fn pattern(path: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut text = String::with_capacity(path.len());
    for (number, part) in path.split('.').enumerate() {
        if number > 0 {
            text.push('.');
        }
        text.push_str(if is_number(part) { "*" } else { part });
    }
    text
}

/// Returns the group of a copy, or of a pattern of copies.
///
/// That is "download" of "download.3", and "access.forward" of "access.2.forward" and "access.*.forward".
pub fn group_of(thing: &str) -> Option<String> {
    let pattern = pattern(thing);
    let parts = pattern.split('.').filter(|part| *part != "*");
    pattern.contains('*').then(|| parts.collect::<Vec<_>>().join("."))
}

/// Thing that figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject<'a> {
    /// Flow or flow of calls, of copies with the number: "download.3".
    Flow(&'a str),
    /// Group of copies.
    Group(&'a str),
    /// Direction of a link or of an ATM line: kind, name and way.
    Link(&'a str, &'a str, &'a str),
    /// End of a virtual channel: name and end.
    Channel(&'a str, &'a str),
    /// Node.
    Node(&'a str),
}

impl<'a> Subject<'a> {
    /// Returns the subject of an element, and the rest of its path.
    ///
    /// The rest is "sender", "channel.2", or nothing. `None` for elements of something else, such as a medium that several links share.
    pub fn of_element(path: &'a str) -> Option<(Subject<'a>, &'a str)> {
        let (kind, rest) = path.split_once('/')?;
        let (name, rest) = cut(rest, '/');
        Subject::new(kind, name, rest, '/')
    }

    /// Returns the subject of a column or measure, and the rest of its name.
    ///
    /// Of "flow.download.3.sender" the rest is "sender", of "link.sky.forward.rate" it is "rate".
    pub fn of_name(name: &'a str) -> Option<(Subject<'a>, &'a str)> {
        let (kind, rest) = name.split_once('.')?;
        let (name, rest) = numbered(rest);
        Subject::new(kind, name, rest, '.')
    }

    fn new(kind: &'a str, name: &'a str, rest: &'a str, mark: char) -> Option<(Subject<'a>, &'a str)> {
        let (second, others) = cut(rest, mark);
        match kind {
            "flow" => Some((Subject::Flow(name), rest)),
            "group" => Some((Subject::Group(name), rest)),
            "node" => Some((Subject::Node(name), rest)),
            "link" | "line" if !rest.is_empty() => Some((Subject::Link(kind, name, second), others)),
            "vc" => Some((Subject::Channel(name, second), others)),
            _ => None,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> SubjectKind {
        match self {
            Subject::Flow(_) => SubjectKind::Flow,
            Subject::Group(_) => SubjectKind::Group,
            Subject::Link(word, ..) if *word == SubjectKind::Line.word() => SubjectKind::Line,
            Subject::Link(..) => SubjectKind::Link,
            Subject::Channel(..) => SubjectKind::Channel,
            Subject::Node(_) => SubjectKind::Node,
        }
    }

    /// Returns the end that an element is, of a flow or of something else.
    pub(super) fn end(element: &str) -> Option<End> {
        match subject_and_metric(element)?.1 {
            "sender" => Some(End::Sender),
            "receiver" => Some(End::Receiver),
            _ => None,
        }
    }

    /// Returns the flow of which an element is an end, and the end.
    pub fn end_of_flow(element: &'a str) -> Option<(&'a str, End)> {
        Subject::part_of_flow(element)
            .filter(|(.., member)| member.is_empty())
            .map(|(flow, end, _)| (flow, end))
    }

    /// Returns the flow and the end that an element is, or is a part of.
    ///
    /// The part comes last. Of a flow to a group, each member has a part of the receiver.
    pub fn part_of_flow(element: &'a str) -> Option<(&'a str, End, &'a str)> {
        let mark = if element.contains('/') { '/' } else { '.' };
        let found = if mark == '/' { Subject::of_element(element) } else { Subject::of_name(element) };
        let (Subject::Flow(flow), rest) = found? else { return None };
        match cut(rest, mark) {
            ("sender", member) => Some((flow, End::Sender, member)),
            ("receiver", member) => Some((flow, End::Receiver, member)),
            _ => None,
        }
    }

    /// Returns the name without the kind: that of a flow, or "satellite.forward" of a link.
    pub fn title(&self) -> String {
        match self {
            Subject::Flow(name) | Subject::Group(name) | Subject::Node(name) => (*name).to_owned(),
            Subject::Link(_, name, way) => format!("{name}.{way}"),
            Subject::Channel(name, end) => format!("{name}.{end}"),
        }
    }
}

/// Returns the first part of a path, and the rest.
fn cut(path: &str, mark: char) -> (&str, &str) {
    path.split_once(mark).unwrap_or((path, ""))
}

/// Returns a name with the numbers of its copy, and the rest. In a pattern `*` stands for any number.
fn numbered(path: &str) -> (&str, &str) {
    let is_number =
        |part: &str| part == "*" || !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut end = cut(path, '.').0.len();
    while let Some(rest) = path[end..].strip_prefix('.') {
        let part = cut(rest, '.').0;
        if !is_number(part) {
            return (&path[..end], rest);
        }
        end += 1 + part.len();
    }
    (path, "")
}

/// Beginning of the names of its measures.
impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Flow(name) => write!(f, "flow.{name}"),
            Subject::Group(name) => write!(f, "group.{name}"),
            Subject::Link(kind, name, way) => write!(f, "{kind}.{name}.{way}"),
            Subject::Channel(name, end) => write!(f, "vc.{name}.{end}"),
            Subject::Node(name) => write!(f, "node.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_measures_have_subjects() {
        for (path, name, subject, rest) in [
            ("flow/f.1/sender", "flow.f.1.sender", Subject::Flow("f.1"), "sender"),
            ("link/l/forward", "link.l.forward", Subject::Link("link", "l", "forward"), ""),
            (
                "link/l.2/forward/channel.1",
                "link.l.2.forward.channel.1",
                Subject::Link("link", "l.2", "forward"),
                "channel.1",
            ),
            ("vc/x/near", "vc.x.near", Subject::Channel("x", "near"), ""),
            ("node/a", "node.a", Subject::Node("a"), ""),
            ("node/a/dtn", "node.a.dtn", Subject::Node("a"), "dtn"),
        ] {
            assert_eq!(Subject::of_element(path), Some((subject, rest)), "{path}");
            assert_eq!(Subject::of_name(name), Some((subject, rest)), "{name}");
        }
        assert_eq!(Subject::of_element("link/w"), None, "a medium");
        assert_eq!(Subject::of_element("carrier/c"), None);
        assert_eq!(Subject::of_name("flows.goodput"), None);
        assert_eq!(Subject::of_name("group.f.goodput.sum"), Some((Subject::Group("f"), "goodput.sum")));
        assert_eq!(Subject::Flow("f.1").to_string(), "flow.f.1");
        assert_eq!(Subject::Link("line", "l", "forward").title(), "l.forward");
    }

    #[test]
    fn measures_have_a_kind_a_thing_and_a_name() {
        let parts = |name| MeasureName::of(name).map(|it| (it.kind, it.thing, it.measure));
        assert_eq!(parts("flow.f.1.back.r"), Some((SubjectKind::Flow, "f.1.back", "r")));
        assert_eq!(parts("link.l.forward.rate"), Some((SubjectKind::Link, "l.forward", "rate")));
        assert_eq!(parts("group.f.goodput.sum"), Some((SubjectKind::Group, "f.goodput", "sum")));
        assert_eq!(parts("flows.fairness"), None);
        assert_eq!(parts("flow.f"), None);
        assert_eq!(MeasureName::of_mean("group.l.forward.rate.mean"), Some(("l.forward", "rate")));
        assert_eq!(MeasureName::of_mean("group.f.goodput.sum"), None);
        assert_eq!(MeasureName::of_mean("flow.f.mean"), None);
        for kind in SubjectKind::ALL {
            let name = format!("{}.a.forward", kind.word());
            assert_eq!(Subject::of_name(&name).map(|(subject, _)| subject.kind()), Some(kind));
        }
    }

    #[test]
    fn copies_have_a_group() {
        assert_eq!(group_of("download.3").as_deref(), Some("download"));
        assert_eq!(group_of("access.*.forward").as_deref(), Some("access.forward"));
        assert_eq!(group_of("access.forward"), None);
    }

    #[test]
    fn flows_have_two_ends() {
        assert_eq!(Subject::end_of_flow("flow.f.1.sender"), Some(("f.1", End::Sender)));
        assert_eq!(Subject::end_of_flow("flow/f/receiver/b"), None);
        assert_eq!(Subject::part_of_flow("flow/f/receiver/b"), Some(("f", End::Receiver, "b")));
        assert_eq!(Subject::end_of_flow("flow.f.*.receiver"), Some(("f.*", End::Receiver)));
        assert_eq!(Subject::end_of_flow("flow.f.proxy"), None);
        assert_eq!(Subject::end_of_flow("node.a.sender"), None);
    }
}
