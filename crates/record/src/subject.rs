//! Subjects of figures: what an element's path or a measure's name begins with.

use std::fmt;

/// Thing that figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject<'a> {
    /// Flow, or a copy with its number: "download.3".
    Flow(&'a str),
    /// Direction of a link or of an ATM line: name and way.
    Link(&'a str, &'a str),
    /// End of a virtual channel: name and end.
    Channel(&'a str, &'a str),
    /// Node.
    Node(&'a str),
}

impl<'a> Subject<'a> {
    /// Returns the subject of an element, and the rest of its path.
    ///
    /// The rest is "sender", "channel.2", or nothing.
    ///
    /// `None` for elements of something else, such as a medium that several links share.
    pub fn of_element(path: &'a str) -> Option<(Subject<'a>, &'a str)> {
        let (kind, rest) = path.split_once('/')?;
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let second = || rest.split_once('/').unwrap_or((rest, ""));
        match kind {
            // Of a flow to a group, each member has a part of the receiver.
            "flow" => Some((Subject::Flow(name), second().0)),
            "node" => Some((Subject::Node(name), rest)),
            "link" | "line" if !rest.is_empty() => Some((Subject::Link(name, second().0), second().1)),
            "vc" => Some((Subject::Channel(name, second().0), second().1)),
            _ => None,
        }
    }
}

/// Beginning of the names of its measures.
impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Flow(name) => write!(f, "flow.{name}"),
            Subject::Link(name, way) => write!(f, "link.{name}.{way}"),
            Subject::Channel(name, end) => write!(f, "vc.{name}.{end}"),
            Subject::Node(name) => write!(f, "node.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_subjects() {
        for (path, subject, rest) in [
            ("flow/f.1/sender", Subject::Flow("f.1"), "sender"),
            ("flow/f/receiver/b", Subject::Flow("f"), "receiver"),
            ("link/l/forward", Subject::Link("l", "forward"), ""),
            ("link/l/forward/channel.1", Subject::Link("l", "forward"), "channel.1"),
            ("vc/x/near", Subject::Channel("x", "near"), ""),
            ("node/a", Subject::Node("a"), ""),
            ("node/a/dtn", Subject::Node("a"), "dtn"),
        ] {
            assert_eq!(Subject::of_element(path), Some((subject, rest)), "{path}");
        }
        assert_eq!(Subject::of_element("link/w"), None, "a medium");
        assert_eq!(Subject::of_element("carrier/c"), None);
        assert_eq!(Subject::Flow("f.1").to_string(), "flow.f.1");
    }
}
