//! Contents of a scenario file, listed and described: `bentpipe list`, `describe` and `schema`.
//!
//! All of it comes from the JSON Schema of the declarations, so it cannot differ from the parser.

mod describe;
mod index;
mod limits;

use std::fmt;
use std::path::Path;

use serde::Serialize;

pub use describe::{Description, Field};
pub use index::Entry;
pub use limits::limits;

use crate::older::respelt;
use crate::{Document, SCHEMA, suggest};

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

/// Lists scenarios, studies, elements and controllers.
///
/// Scenarios and studies are those in the folders `scenarios` and `studies` of `root`; missing folders list
/// nothing.
pub fn list(root: &Path) -> Listing {
    let entries = index::entries();
    let elements = entries.iter().filter(|entry| !entry.is_controller());
    let line = |(name, about): &(&str, &str)| Line::new(*name, about);
    Listing {
        scenarios: scenarios(&root.join("scenarios")),
        studies: studies(&root.join("studies")),
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

/// Returns the files in a folder, by name. A missing folder has none.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn scenarios(folder: &Path) -> Vec<Line> {
    let files =
        files(folder).into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let line = |path: std::path::PathBuf| {
        let title = Document::read(&path).ok().and_then(|document| document.title());
        let about = title.unwrap_or_else(|| "cannot be read; `bentpipe check` says why".to_owned());
        Line { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), about }
    };
    files.map(line).collect()
}

fn studies(folder: &Path) -> Vec<Line> {
    let folders = files(folder).into_iter().filter(|path| path.is_dir());
    let line = |path: std::path::PathBuf| {
        let readme = std::fs::read_to_string(path.join("README.md")).unwrap_or_default();
        let about = readme.lines().next().unwrap_or("").trim_start_matches('#').trim().to_owned();
        Line { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), about }
    };
    folders.map(line).collect()
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
