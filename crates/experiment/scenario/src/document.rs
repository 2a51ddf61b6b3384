//! Parsed scenario file: text, overrides, sweep axes, and the scenario of each point.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use bentpipe_units::Span;
use toml::de::DeTable;

use super::axes::{self, Axis};
use super::check::Checker;
use super::error::{Diagnostic, Origin, Problem, ScenarioError};
use super::schema::SCHEMA;
use super::states::States;
use super::tree::{Node, OutOfRange, Table, Value};
use super::typed::typed;
use super::{
    Access, Moment, Scenario, copies, events, files, key, older, place, resolve, separate, validate,
};

/// The longest scenario file that is read. Ten thousand terminals with a link and a flow each have 1.6 MB.
pub const MAX_FILE_BYTES: u64 = 1 << 22;

/// The most links and values that events have checked again with what they share.
const MAX_TOGETHER: usize = 250_000;

/// Maximum number of nodes, links and flows that all events change, copies counted.
const MAX_CHANGED: usize = 100_000;

/// Error returned when a scenario cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The content is invalid.
    #[error(transparent)]
    Refused(#[from] ScenarioError),
}

/// A scenario file that was read, with overrides, and the axes of its sweep.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    text: String,
    access: Access,
    root: Node,
    axes: Vec<Axis>,
    /// Keys set in tables that are swept: they hold at each value.
    set_in_swept: Vec<(String, Node)>,
    notes: Vec<String>,
}

impl Document {
    /// Parses the bytes of a file called `name` in messages. It has access to no other file.
    ///
    /// # Errors
    /// Returns an error if they are not UTF-8, not TOML, or too many; if a sweep names an unknown key.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Document, ScenarioError> {
        let (text, mut root) = read_tree(name, bytes)?;
        let axes =
            axes::take(&mut root).map_err(|diagnostics| ScenarioError::new(name, &text, diagnostics))?;
        let mut notes = Vec::new();
        older::rewrite(&mut root, &mut notes)
            .map_err(|diagnostics| ScenarioError::new(name, &text, diagnostics))?;
        let name = name.to_owned();
        Ok(Document { name, text, access: Access::default(), root, axes, set_in_swept: Vec::new(), notes })
    }

    /// Returns the document with access to the files that it names.
    #[must_use]
    pub fn with_access(self, access: Access) -> Document {
        Document { access, ..self }
    }

    /// Sets a key, as `--set key=value` does. A value that is not TOML is taken as text, so quotes are not needed. If the
    /// file sweeps the key or one in its table, it no longer does; in a table that is swept it holds at each value. `sweep.KEY=[...]` sweeps a key over a list of values, `sweep.KEY=1 to 9 by 2` over a
    /// range.
    ///
    /// # Errors
    /// If it has no `=`, or names a link, node or flow that is not there. Whether the value is right is checked with the
    /// rest, by [`Document::scenario`].
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        self.set_by(&format!("--set {assignment}"), assignment)
    }

    /// Sets a key because of an option, as [`Document::set`] does. Errors name the option as it was given.
    ///
    /// # Errors
    /// Returns the errors of [`Document::set`].
    pub fn set_by(&mut self, option: &str, assignment: &str) -> Result<(), ScenarioError> {
        let origin = Origin::Override(option.into());
        let result = match assignment.split_once('=') {
            None => Err((String::new(), "expected KEY=VALUE".to_owned())),
            Some((key, value)) => {
                let key = key::normal(key);
                let node = Node::of_text(value.trim(), &origin);
                let result = match key.strip_prefix("sweep.") {
                    Some(swept) => axes::replace(&mut self.axes, swept, &origin, &node),
                    None => {
                        self.axes.retain(|axis| !axis.ends_with(&key));
                        if self.axes.iter().any(|axis| axis.has_table_of(&key)) {
                            self.set_in_swept.push((key.clone(), node.clone()));
                        }
                        place::place(&mut self.root, &key, &origin, node)
                    }
                };
                result.map_err(|problem| (key, problem))
            }
        };
        result.map_err(|(key, problem)| self.refuse(vec![Diagnostic { key, problem, origin }]))
    }

    /// Removes a key, whose default then holds.
    pub fn unset(&mut self, key: &str) {
        place::remove(&mut self.root, key);
    }

    /// Returns the sweep axes by name, each with its number of values. They are in the order of the file.
    pub fn axes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.axes.iter().map(|axis| (axis.name.as_str(), axis.len()))
    }

    /// Returns the keys and values of a sweep point, with the number of their axis. Strings have no quotes.
    pub fn settings_at(&self, point: &[usize]) -> impl Iterator<Item = (usize, String, String)> {
        let axes = self.axes.iter().zip(point).enumerate();
        axes.flat_map(|(number, (axis, &n))| {
            axis.values(n).map(move |(key, _, node)| (number, older::current_key(key), node.shown()))
        })
    }

    /// Returns the scenario without its sweep, or its first point if it has one.
    ///
    /// It is checked against the schema and for names and amounts. Errors that only a network reveals (a
    /// zero-delay loop, a value that an element rejects) are found by assembling it.
    ///
    /// # Errors
    /// Returns all errors of the scenario.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        self.scenario_at(&vec![0; self.axes.len()])
    }

    /// Returns the scenario at a point: on each axis the value of that number.
    ///
    /// # Errors
    /// Returns all errors of the scenario.
    pub fn scenario_at(&self, point: &[usize]) -> Result<Scenario, ScenarioError> {
        self.scenario_with(point.iter().copied().map(Some))
    }

    /// Returns the first point's scenario with one axis left out.
    ///
    /// The keys of that axis have their values outside the sweep. `None` if one of those keys has no such value.
    pub fn scenario_without(&self, axis: usize) -> Option<Result<Scenario, ScenarioError>> {
        let mut keys = self.axes.get(axis)?.keys();
        let has_own = keys.all(|key| self.root.at(&older::current_key(key)).is_some());
        let point = (0..self.axes.len()).map(|other| (other != axis).then_some(0));
        has_own.then(|| self.scenario_with(point))
    }

    fn scenario_with(
        &self,
        point: impl IntoIterator<Item = Option<usize>>,
    ) -> Result<Scenario, ScenarioError> {
        let mut root = self.root.clone();
        let mut diagnostics = Vec::new();
        let set = self.axes.iter().zip(point).filter_map(|(axis, n)| Some((axis, n?)));
        for (axis, n) in set {
            for (key, origin, node) in axis.values(n) {
                if let Err(problem) = place::place(&mut root, key, origin, node.clone()) {
                    diagnostics.push(Diagnostic { key: key.to_owned(), problem, origin: origin.clone() });
                }
            }
        }
        for (key, node) in &self.set_in_swept {
            if let Err(problem) = place::place(&mut root, key, &node.origin, node.clone()) {
                diagnostics.push(Diagnostic { key: key.clone(), problem, origin: node.origin.clone() });
            }
        }
        if !diagnostics.is_empty() {
            return Err(self.refuse(diagnostics));
        }
        let mut scenario = self.typed_scenario(root.clone())?;
        if let Some(written) = events::take(&mut root) {
            scenario.timeline = self.timeline(&scenario, &written, root)?.into();
        }
        Ok(scenario)
    }

    /// Returns what each event of a scenario changes. `root` is the file without them.
    fn timeline(
        &self,
        scenario: &Scenario,
        written: &Node,
        root: Node,
    ) -> Result<Vec<Moment>, ScenarioError> {
        let defaults = OnceCell::new();
        let (access, duration) = (&self.access, scenario.duration);
        let ground = events::Ground { root: &root, scenario, defaults: &defaults, access, duration };
        let steps = events::steps(&scenario.event, written, ground).map_err(|errors| self.refuse(errors))?;
        let (mut states, mut size) = (States::new(root, scenario), 0);
        let mut moments = Vec::new();
        for step in steps {
            let difference = states.step(&step).map_err(|errors| self.refuse(errors))?;
            size += copies::changed(scenario, &difference);
            if size > MAX_CHANGED {
                let key = format!("event.{}", step.event);
                let problem = format!(
                    "up to {} more than {MAX_CHANGED} nodes, links and flows change, copies counted: expected fewer steps",
                    step.at
                );
                return Err(self.refusal(&key, problem));
            }
            if states.together > MAX_TOGETHER {
                let key = format!("event.{}", step.event);
                let problem = format!(
                    "up to {} more than {MAX_TOGETHER} checks of links and values that share what changes: expected fewer events, or fewer links that share",
                    step.at
                );
                return Err(self.refusal(&key, problem));
            }
            let shown =
                |(key, value): &(String, Option<Node>)| (key.clone(), value.as_ref().map(Node::shown));
            let changes = step.values.iter().map(shown).collect();
            moments.push(Moment { at: step.at, event: step.event, changes, difference });
        }
        Ok(moments)
    }

    /// Returns the scenario of a tree whose sweep is resolved.
    fn typed_scenario(&self, mut root: Node) -> Result<Scenario, ScenarioError> {
        separate::separate(&mut root);
        let found = Checker::check(&SCHEMA, &root);
        if !found.diagnostics.is_empty() {
            return Err(self.refuse(found.diagnostics));
        }
        found.shorthands.iter().for_each(|(key, tag)| place::expand(&mut root, key, tag));
        let mut scenario: Scenario = typed(&root).map_err(|diagnostic| self.refuse(vec![diagnostic]))?;
        copies::set_apart(&mut scenario.link);
        let diagnostics = validate::validate(&scenario, &root);
        if !diagnostics.is_empty() {
            return Err(self.refuse(diagnostics));
        }
        let refuse = |Problem { key, problem }| {
            let origin = root.nearest_origin(&key);
            self.refuse(vec![Diagnostic { key, problem, origin }])
        };
        resolve::resolve(&mut scenario, |key| root.at(key).is_some()).map_err(refuse)?;
        Ok(scenario)
    }

    /// Returns an error of a scenario from this file, at `key`, with `problem`. For errors that are found
    /// later.
    pub fn refusal(&self, key: &str, problem: impl Into<String>) -> ScenarioError {
        let origin = self.root.nearest_origin(key);
        self.refuse(vec![Diagnostic { key: key.to_owned(), problem: problem.into(), origin }])
    }

    fn refuse(&self, diagnostics: Vec<Diagnostic>) -> ScenarioError {
        ScenarioError::new(&self.name, &self.text, diagnostics)
    }

    /// Returns the document without its events.
    pub fn without_events(&self) -> Document {
        let mut document = self.clone();
        events::take(&mut document.root);
        document
    }

    /// Returns notes about the file: older spellings that it has.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the title, also of a file with errors elsewhere.
    pub fn title(&self) -> Option<String> {
        self.root.at("title")?.text().map(str::to_owned)
    }

    /// Returns the file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the file's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the access to the files that it names.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the names of all files in it, at every point of its sweep.
    pub fn named_files(&self) -> BTreeSet<String> {
        self.file_nodes().into_iter().filter_map(|(_, node)| node.text().map(str::to_owned)).collect()
    }

    /// Checks the name of each file in it, at every point of its sweep.
    ///
    /// # Errors
    /// Returns the problems of the names, at their places.
    pub fn check_files(&self, problem: impl Fn(&str) -> Option<String>) -> Result<(), ScenarioError> {
        let wrong = |(key, node): (String, &Node)| {
            let problem = problem(node.text()?)?;
            Some(Diagnostic { key, problem, origin: node.origin.clone() })
        };
        let wrong: Vec<Diagnostic> = self.file_nodes().into_iter().filter_map(wrong).collect();
        if wrong.is_empty() { Ok(()) } else { Err(self.refuse(wrong)) }
    }

    fn file_nodes(&self) -> Vec<(String, &Node)> {
        let mut found = Vec::new();
        files::names_in("", &self.root, &mut found);
        for axis in &self.axes {
            axis.all_values().for_each(|(key, node)| files::names_in(key, node, &mut found));
        }
        found
    }

    /// Returns the duration at the first point of the sweep, if it is one.
    pub fn duration(&self) -> Option<Span> {
        let swept = self.axes.iter().flat_map(|axis| axis.values(0)).find(|(key, ..)| *key == "duration");
        let node = swept.map(|(.., node)| node).or_else(|| self.root.at("duration"));
        node?.text()?.parse().ok()
    }
}

/// Returns the text and the values of a file called `name` in messages.
pub(super) fn read_tree(name: &str, bytes: &[u8]) -> Result<(String, Node), ScenarioError> {
    let text = as_text(name, bytes)?;
    let refuse = |diagnostic| ScenarioError::new(name, text, vec![diagnostic]);
    let table = DeTable::parse(text).map_err(|error| refuse(syntax_error(&error, text)))?;
    let table = Table::from_toml(table.get_ref()).map_err(|OutOfRange(range)| {
        refuse(whole_file(
            Origin::File(range),
            "a number that does not fit: expected a finite one of 64 bits",
        ))
    })?;
    let root = Node { value: Value::Table(table), origin: Origin::File(0..text.len()) };
    Ok((text.to_owned(), root))
}

fn as_text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, ScenarioError> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let problem = format!("longer than {MAX_FILE_BYTES} bytes: expected a text of some lines");
        return Err(ScenarioError::new(name, "", vec![whole_file(Origin::File(0..0), problem)]));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = error.valid_up_to();
        // The part before is shown, so that the line number is right.
        let before = String::from_utf8_lossy(&bytes[..valid]).into_owned();
        let problem = format!("not UTF-8: byte {:#04x} at offset {valid}", bytes[valid]);
        ScenarioError::new(name, &before, vec![whole_file(Origin::File(valid..valid), problem)])
    })
}

fn whole_file(origin: Origin, problem: impl Into<String>) -> Diagnostic {
    Diagnostic { key: String::new(), problem: problem.into(), origin }
}

fn syntax_error(error: &toml::de::Error, text: &str) -> Diagnostic {
    let range = error.span().unwrap_or(0..0);
    let ended = range.start >= text.trim_end().len() && !text.trim().is_empty();
    let message = error.message().trim().replace('\n', ", ");
    let problem = if ended { format!("{message}; the file ends here: is it cut short?") } else { message };
    whole_file(Origin::File(range), problem)
}

#[cfg(test)]
mod tests {
    use super::Document;

    #[test]
    fn a_text_that_a_type_refuses_is_named_with_its_key_and_line() {
        let file = |modcod: &str, more: &str| {
            format!(
                "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{}}\n[dvb.down]\nkind = \"dvb-s2\"\n\
                 symbol_rate = 1_000_000\nmodcod = \"{modcod}\"\n[link.sky]\nbetween = [\"a\", \"b\"]\n\
                 medium = {{ kind = \"dvb\", line = \"down\", encapsulation = \"gse\"{more} }}\n"
            )
        };
        let refused = |text: String| {
            let document = Document::parse("f.toml", text.as_bytes()).expect("TOML");
            document.scenario().map(|_| ()).expect_err("refused").to_string()
        };
        let errors = refused(file("QPSK 7/8", ""));
        assert!(errors.starts_with("f.toml:8:10: dvb.down.modcod: no MODCOD of DVB-S2"), "{errors}");
        let errors = refused(file("QPSK 3/4", ", modcod = \"8PSK 1/2\""));
        assert!(
            errors.starts_with("f.toml:11:") && errors.contains("link.sky.medium.modcod: no MODCOD"),
            "{errors}"
        );
    }

    #[test]
    fn a_set_table_ends_the_sweep_of_its_keys_and_a_set_key_holds_in_a_swept_table() {
        let file = |sweep: &str| {
            format!(
                "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
                 link.l = {{ between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }}\n\
                 flow.f = {{ from = \"a\", to = \"b\", traffic = \"tcp\" }}\n[sweep]\n{sweep}\n"
            )
        };
        let after = |sweep: &str, set: &str| {
            let mut document = Document::parse("f.toml", file(sweep).as_bytes()).expect("TOML");
            document.set(set).unwrap_or_else(|refusal| panic!("{set}: {refusal}"));
            let points = document.axes().map(|(_, values)| values).product::<usize>();
            let last: Vec<usize> = document.axes().map(|(_, values)| values - 1).collect();
            (points, document.scenario_at(&last).unwrap_or_else(|refusal| panic!("{set}: {refusal}")))
        };
        let controllers = "\"flow.f.traffic.controller\" = [\"cubic\", \"hybla\"]";
        let (points, scenario) =
            after(controllers, "flow.f.traffic={ kind = \"tcp\", controller = \"vegas\" }");
        let written = serde_json::to_value(&scenario.flow["f"]).expect("JSON").to_string();
        assert!(points == 1 && written.contains("vegas"), "{points} {written}");
        assert_eq!(after(controllers, "duration=2 s").0, 2, "another key");
        let mut document = Document::parse("f.toml", file("").as_bytes()).expect("TOML");
        for set in
            ["sweep.flow.f.traffic.controller=[\"cubic\", \"hybla\"]", "flow.f.traffic={ kind = \"tcp\" }"]
        {
            document.set(set).unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        assert_eq!(document.axes().next(), Some(("flow.f.traffic.controller", 2)), "an option's sweep stays");
        let kinds = "\"flow.f.traffic\" = [{ kind = \"tcp\" }, { kind = \"tcp\", controller = \"hybla\" }]";
        let (points, scenario) = after(kinds, "flow.f.traffic.ecn=true");
        let written = serde_json::to_value(&scenario.flow["f"]).expect("JSON").to_string();
        assert!(points == 2 && written.contains("hybla") && written.contains("\"ecn\":true"), "{written}");
    }
}
