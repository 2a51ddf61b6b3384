//! Contents of a scenario file, listed and described: `bentpipe list`, `describe` and `schema`.
//!
//! All of it comes from the JSON Schema of the declarations, so it cannot differ from the parser.

mod describe;
mod index;
mod limits;

use std::fmt;

use serde::Serialize;

pub use describe::{Description, Field};
pub use index::Entry;
pub use limits::limits;

use crate::older::respelt;
use crate::{SCHEMA, suggest};

/// Returns the JSON Schema (draft 2020-12) of scenario files, for editors and other tools.
pub fn schema() -> &'static serde_json::Value {
    SCHEMA.root()
}

/// List of all names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Listing {
    /// Scenario files with their titles.
    pub scenarios: Vec<Line>,
    /// Studies with the first line of their README.
    pub studies: Vec<Line>,
    /// Sections, and the kinds of elements that go into them.
    pub elements: Vec<Line>,
    /// Congestion controllers.
    pub controllers: Vec<Line>,
}

/// Name with a one-line description.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The name.
    pub name: String,
    /// Description.
    pub about: String,
}

impl Line {
    fn new(name: impl Into<String>, about: &str) -> Line {
        let first = about.split_once(". ").map_or(about, |(first, _)| first).trim_end_matches('.');
        Line { name: name.into(), about: first.replace('\n', " ") }
    }
}

/// Lists elements and controllers next to scenarios and studies that were found.
pub fn listing(scenarios: Vec<Line>, studies: Vec<Line>) -> Listing {
    let entries = index::entries();
    let elements = entries.iter().filter(|entry| !entry.is_controller());
    let line = |(name, about): &(&str, &str)| Line::new(*name, about);
    Listing {
        scenarios,
        studies,
        elements: elements.map(|entry| Line::new(entry.title(), &entry.about)).collect(),
        controllers: bentpipe_cc::NAMES.iter().map(line).collect(),
    }
}

/// Describes a section ("link"), a kind ("red"), a controller ("cubic"), or a dotted key.
///
/// A key may have any depth ("flow.traffic.receive_buffer").
///
/// # Errors
/// Returns an error with suggestions if the name is unknown.
pub fn describe(name: &str) -> Result<Vec<Description>, UnknownName> {
    let entries = index::entries();
    let found = index::find(&entries, name);
    if !found.is_empty() {
        return Ok(found);
    }
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let keys: Vec<&str> = entries.iter().flat_map(|entry| entry.keys()).collect();
    names.extend(keys);
    names.sort_unstable();
    names.dedup();
    Err(UnknownName {
        name: name.chars().take(60).collect(),
        now: respelt(name),
        nearest: suggest::nearest(name, &names).map(str::to_owned),
    })
}

/// Returns every table and kind of a scenario file once, from the outside in.
pub fn reference() -> Vec<Description> {
    let mut found: Vec<Description> = Vec::new();
    for entry in index::entries() {
        let description = entry.description();
        let is_known = |one: &Description| {
            one.chosen_by == description.chosen_by
                && one.about == description.about
                && one.fields == description.fields
        };
        if !found.iter().any(is_known) {
            found.push(description);
        }
    }
    found
}

/// Returns the keys that may change while an emulation runs: "link.NAME.rate".
///
/// Keys of a direction are those of its link and left out.
pub fn changeable() -> Vec<String> {
    let of_link = |key: &String| !key.contains(".forward.") && !key.contains(".return.");
    let entries = index::entries();
    let keys = entries.iter().flat_map(index::Entry::changeable).filter(of_link);
    let mut seen = std::collections::BTreeSet::new();
    keys.filter(|key| seen.insert(key.clone())).collect()
}

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownName {
    name: String,
    /// Present spelling and kind of an older spelling.
    now: Option<(String, &'static str)>,
    nearest: Option<String>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((now, kind)) = &self.now {
            let name = &self.name;
            return write!(
                f,
                "\"{name}\" is an older spelling of \"{now}\" with kind = \"{kind}\": see `bentpipe describe {kind}`"
            );
        }
        write!(f, "nothing is called \"{}\"", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, ": did you mean \"{nearest}\"?"),
            None => f.write_str("; `bentpipe list` shows what there is"),
        }
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("Scenarios", &self.scenarios),
            ("Studies", &self.studies),
            ("Elements", &self.elements),
            ("Controllers", &self.controllers),
        ];
        let parts = parts.iter().filter(|(_, lines)| !lines.is_empty());
        for (n, (head, lines)) in parts.enumerate() {
            writeln!(f, "{}{head}", if n == 0 { "" } else { "\n" })?;
            let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
            lines.iter().try_for_each(|line| writeln!(f, "  {:<width$}  {}", line.name, line.about))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
