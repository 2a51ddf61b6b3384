//! Events: keys that change during a run, at once or along a ramp.

pub(crate) mod series;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;

use super::error::{Diagnostic, Origin};
use super::event_keys::{Event, MAX_CHANGES};
use super::schema::Scenario;
use super::tree::{Node, Table, Value};
use super::{Access, key, place};
use bentpipe_units::{Bytes, Rate, Span};

/// Default number of steps in a ramp.
const STEPS: u64 = 20;

/// Changes of one instant.
pub(crate) struct Step {
    pub(crate) at: Span,
    pub(crate) event: usize,
    /// Keys and values; `None` takes a key back that the file does not give.
    pub(crate) values: Vec<(String, Option<Node>)>,
}

/// Scenario that events change.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The file without events.
    pub(crate) root: &'a Node,
    /// The scenario with all defaults, and its values once they are needed.
    pub(crate) scenario: &'a Scenario,
    pub(crate) defaults: &'a OnceCell<Json>,
    /// Access to the files of events.
    pub(crate) access: &'a Access,
    /// Length of the run.
    pub(crate) duration: Span,
}

/// Removes the events of a tree.
pub(crate) fn take(root: &mut Node) -> Option<Node> {
    root.table_mut()?.remove("event")
}

/// Returns the changes of all events in the order of their times.
///
/// `written` is the list in the file.
///
/// # Errors
/// Returns the errors of all events: keys without a value to start from, amounts of different kinds, overlapping changes.
pub(crate) fn steps(
    events: &[Event],
    written: &Node,
    ground: Ground<'_>,
) -> Result<Vec<Step>, Vec<Diagnostic>> {
    let mut order: Vec<(Span, usize)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let starts = event.starts(ground.duration, MAX_CHANGES).map_err(|(key, problem)| {
            let origin = written.nearest_origin(&format!("{number}.{key}"));
            vec![Diagnostic { key: format!("event.{number}.{key}"), problem: problem.to_owned(), origin }]
        })?;
        order.extend(starts.map(|start| (start, number)));
    }
    order.sort_by_key(|&(start, _)| start);
    let mut schedule = Schedule {
        ground,
        now: BTreeMap::new(),
        steps: Vec::new(),
        placed: BTreeSet::new(),
        diagnostics: Vec::new(),
    };
    for (at, number) in order {
        schedule.event(number, &Event { at, ..events[number].clone() }, written);
        if !schedule.diagnostics.is_empty() && events[number].every.is_some() {
            // Each start would report the same.
            break;
        }
    }
    schedule.finish()
}

/// Changes up to an event, and the state of the keys that they changed.
struct Schedule<'a> {
    ground: Ground<'a>,
    /// Value of each changed key, and the end of its last change.
    now: BTreeMap<String, (Option<Node>, Span)>,
    steps: Vec<(Span, usize, String, Option<Node>)>,
    /// Keys that were found in the file.
    placed: BTreeSet<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Schedule<'_> {
    fn event(&mut self, number: usize, event: &Event, written: &Node) {
        let place = format!("event.{number}");
        let empty = Table::default();
        let mut count = 0;
        if let Some(file) = &event.file {
            if let Err(problem) =
                self.file(number, event, file, &written.nearest_origin(&format!("{number}.file")))
            {
                let origin = written.nearest_origin(&format!("{number}.file"));
                self.diagnostics.push(Diagnostic { key: format!("{place}.file"), problem, origin });
            }
            return;
        }
        for part in ["set", "add", "scale"] {
            let table = written.at(&format!("{number}.{part}"));
            for (key, node) in flat(table.and_then(Node::table).unwrap_or(&empty)) {
                count += 1;
                if let Err(problem) = self.key(number, event, part, &key, node) {
                    let (key, origin) = (format!("{place}.{part}.\"{key}\""), node.origin.clone());
                    self.diagnostics.push(Diagnostic { key, problem, origin });
                }
            }
        }
        if count == 0 {
            let origin = written.nearest_origin(&number.to_string());
            let problem = "changes nothing: expected `set`, `add`, `scale` or `file`".to_owned();
            self.diagnostics.push(Diagnostic { key: place, problem, origin });
        }
    }

    /// Adds the changes of a file.
    fn file(&mut self, number: usize, event: &Event, file: &Path, origin: &Origin) -> Result<(), String> {
        let is_alone = event.set.is_empty() && event.add.is_empty() && event.scale.is_empty();
        let has_ramp = event.over.is_some() || event.ramp.is_some() || event.hold.is_some();
        if !is_alone || has_ramp {
            return Err(
                "conflicts with `set`, `add`, `scale`, `over`, `ramp` and `hold`: expected `at` alone"
                    .to_owned(),
            );
        }
        let shown = self.ground.access.shown(file);
        let bytes = self.ground.access.read_at_most(file, series::MAX_BYTES);
        let bytes = bytes.map_err(|error| format!("{shown}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{shown}: expected text in UTF-8"))?;
        let rows = series::parse(&text).map_err(|(line, problem)| format!("{shown}:{line}: {problem}"))?;
        for (line, at, key, text) in rows {
            let key = &key::normal(key);
            // What is wrong with a value has the line that it is in.
            let node = Node::of_text(text, &Origin::Override(format!("{shown}:{line}").into()));
            let placed = self.ensure_placed(key, origin, &node);
            placed.map_err(|problem| format!("{shown}:{line}: {key}: {problem}"))?;
            let at = event.at + at;
            if self.now.get(key).is_some_and(|(_, until)| *until > at) {
                return Err(format!("{shown}:{line}: {key}: another event still changes it at that time"));
            }
            if self.steps.len() >= MAX_CHANGES {
                return Err(format!("{shown}:{line}: more than {MAX_CHANGES} changes: expected fewer"));
            }
            self.steps.push((at, number, key.to_owned(), Some(node.clone())));
            self.now.insert(key.to_owned(), (Some(node), at));
        }
        Ok(())
    }

    /// Checks that a key is one of the file. Each is tried once, in a copy of its entry.
    fn ensure_placed(&mut self, key: &str, origin: &Origin, node: &Node) -> Result<(), String> {
        if !self.placed.contains(key) {
            place::try_place(self.ground.root, key, origin, node.clone())?;
            self.placed.insert(key.to_owned());
        }
        Ok(())
    }

    /// Returns the present value of a key, which may be its default.
    fn value(&self, key: &str, origin: &Origin) -> Option<Node> {
        let changed = self.now.get(key).and_then(|(value, _)| value.as_ref());
        let written = changed.or_else(|| inherited(self.ground.root, key)).cloned();
        let Ground { scenario, defaults, .. } = self.ground;
        let defaults = || defaults.get_or_init(|| serde_json::to_value(scenario).unwrap_or_default());
        written.or_else(|| default_of(defaults(), key, origin))
    }

    /// Adds the changes of one key.
    fn key(
        &mut self,
        number: usize,
        event: &Event,
        part: &str,
        key: &str,
        node: &Node,
    ) -> Result<(), String> {
        self.ensure_placed(key, &node.origin, node)?;
        if self.now.get(key).is_some_and(|(_, until)| *until > event.at) {
            return Err("another event still changes it at that time".to_owned());
        }
        let before = self.value(key, &node.origin);
        let is_relative = part != "set" || event.over.is_some();
        if is_relative && before.is_none() {
            return Err("the file has no value of this key to start from: expected one".to_owned());
        }
        // What the file does not give returns to its default.
        let changed = self.now.get(key).and_then(|(value, _)| value.as_ref());
        let is_given = changed.or_else(|| inherited(self.ground.root, key)).is_some();
        let old = before.clone().filter(|_| is_given);
        let before = before.unwrap_or_else(|| node.clone());
        let value = match part {
            "set" => node.value.clone(),
            "add" => Amount::of(&before)?.plus(node)?.value(),
            _ => Amount::of(&before)?.times(node)?.value(),
        };
        let after = Node { value, origin: node.origin.clone() };
        let mut end = event.at + self.ramp(number, event, event.at, key, (&before, &after))?;
        if let Some(hold) = event.hold {
            end += hold;
            let back = Node { origin: node.origin.clone(), ..before.clone() };
            end += self.ramp(number, event, end, key, (&after, &back))?;
            if let (None, Some(last)) = (&old, self.steps.last_mut()) {
                last.3 = None;
            }
        }
        let last = if event.hold.is_some() { old } else { Some(after) };
        self.now.insert(key.to_owned(), (last, end));
        Ok(())
    }

    /// Adds the steps from one value to another, and returns their duration.
    fn ramp(
        &mut self,
        number: usize,
        event: &Event,
        start: Span,
        key: &str,
        (from, to): (&Node, &Node),
    ) -> Result<Span, String> {
        let over = event.over.unwrap_or(Span::ZERO);
        let steps = match event.ramp {
            Some(step) if step.is_zero() => return Err("`ramp`: expected more than no time".to_owned()),
            Some(step) => over.as_nanos().div_ceil(step.as_nanos()),
            None => STEPS,
        };
        let steps = if over.is_zero() { 1 } else { steps };
        if self.steps.len() as u64 + steps > MAX_CHANGES as u64 {
            return Err(format!("more than {MAX_CHANGES} changes: expected fewer steps"));
        }
        for n in 1..steps {
            let at = start + Span::from_nanos(portion(over.as_nanos(), n, steps));
            let value = Amount::of(from)?.towards(&Amount::of(to)?, n as f64 / steps as f64)?.value();
            let node = Node { value, origin: to.origin.clone() };
            self.steps.push((at, number, key.to_owned(), Some(node)));
        }
        self.steps.push((start + over, number, key.to_owned(), Some(to.clone())));
        Ok(over)
    }

    fn finish(mut self) -> Result<Vec<Step>, Vec<Diagnostic>> {
        if !self.diagnostics.is_empty() {
            return Err(self.diagnostics);
        }
        self.steps.sort_by_key(|(at, ..)| *at);
        let mut steps: Vec<Step> = Vec::new();
        for (at, event, key, value) in self.steps {
            match steps.last_mut().filter(|step| step.at == at) {
                Some(step) => step.values.push((key, value)),
                None => steps.push(Step { at, event, values: vec![(key, value)] }),
            }
        }
        Ok(steps)
    }
}

/// Returns `n` of `of` equal parts of `whole`.
fn portion(whole: u64, n: u64, of: u64) -> u64 {
    (u128::from(whole) * u128::from(n) / u128::from(of)) as u64
}

/// Returns keys and values of a table. A key without quotes is a table in a table.
fn flat(table: &Table) -> Vec<(String, &Node)> {
    let mut found = Vec::new();
    for (key, _, node) in table.iter() {
        match node.table() {
            Some(inner) if !key.contains('.') => {
                let key = key::normal(key);
                found.extend(flat(inner).into_iter().map(|(rest, node)| (format!("{key}.{rest}"), node)));
            }
            _ => found.push((key::normal(key), node)),
        }
    }
    found
}

/// Returns the value of a key. A direction without its own has that of its link.
fn inherited<'a>(root: &'a Node, key: &str) -> Option<&'a Node> {
    let of_link = || {
        let (link, rest) = key.split_once(".forward.").or_else(|| key.split_once(".return."))?;
        root.at(&format!("{link}.{rest}"))
    };
    root.at(key).or_else(of_link)
}

/// Returns the default of a key. A direction without its own has that of its link.
fn default_of(defaults: &Json, key: &str, origin: &Origin) -> Option<Node> {
    let at = |key: &str| {
        let value = key.split('.').try_fold(defaults, |value, part| value.get(part));
        value.filter(|value| !value.is_null())
    };
    let of_link = || {
        let (link, rest) = key.split_once(".forward.").or_else(|| key.split_once(".return."))?;
        at(&format!("{link}.{rest}"))
    };
    let value = match at(key).or_else(of_link)? {
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Integer(value),
            None => Value::Float(number.as_f64()?),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    };
    Some(Node { value, origin: origin.clone() })
}

/// A value that can be added to, multiplied, and interpolated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Rate(f64),
    Span(f64),
    Bytes(f64),
    Whole(f64),
    Number(f64),
}

/// Constructor of a kind of amount.
type Kind = fn(f64) -> Amount;

const AMOUNT: &str = "expected a number, or an amount such as \"2 Mbit/s\", \"20 ms\" or \"60 kB\"";

impl Amount {
    /// Reads a value, which may be negative.
    fn of(node: &Node) -> Result<Amount, String> {
        match &node.value {
            Value::Integer(value) => Ok(Amount::Whole(*value as f64)),
            Value::Float(value) => Ok(Amount::Number(*value)),
            Value::String(text) => Amount::parse(text).ok_or_else(|| format!("\"{text}\": {AMOUNT}")),
            _ => Err(format!("{}: {AMOUNT}", node.kind())),
        }
    }

    fn parse(text: &str) -> Option<Amount> {
        let (sign, text) =
            text.trim().strip_prefix('-').map_or((1.0, text.trim()), |rest| (-1.0, rest.trim()));
        let rate = text.parse::<Rate>().map(|rate| Amount::Rate(sign * rate.as_bps() as f64));
        let span = || text.parse::<Span>().map(|span| Amount::Span(sign * span.as_nanos() as f64));
        let bytes = || text.parse::<Bytes>().map(|bytes| Amount::Bytes(sign * bytes.get() as f64));
        rate.ok().or_else(|| span().ok()).or_else(|| bytes().ok())
    }

    /// Returns kind and number.
    const fn parts(self) -> (Kind, f64) {
        match self {
            Amount::Rate(value) => (Amount::Rate, value),
            Amount::Span(value) => (Amount::Span, value),
            Amount::Bytes(value) => (Amount::Bytes, value),
            Amount::Whole(value) => (Amount::Whole, value),
            Amount::Number(value) => (Amount::Number, value),
        }
    }

    /// Returns the number of another amount if it is of the same kind.
    fn same_kind(self, other: Amount) -> Result<(Kind, f64, f64), String> {
        let ((kind, value), (_, more)) = (self.parts(), other.parts());
        match (self, other) {
            (Amount::Whole(_), Amount::Number(_)) => Ok((Amount::Number, value, more)),
            (Amount::Number(_), Amount::Whole(_)) => Ok((kind, value, more)),
            _ if std::mem::discriminant(&self) == std::mem::discriminant(&other) => Ok((kind, value, more)),
            _ => Err("of another kind than the value at that time".to_owned()),
        }
    }

    fn plus(self, more: &Node) -> Result<Amount, String> {
        let (kind, value, more) = self.same_kind(Amount::of(more)?)?;
        kind(value + more).not_negative()
    }

    fn times(self, factor: &Node) -> Result<Amount, String> {
        let Ok(Amount::Whole(factor) | Amount::Number(factor)) = Amount::of(factor) else {
            return Err("expected a factor, a number without a unit".to_owned());
        };
        let (kind, value) = self.parts();
        kind(value * factor).not_negative()
    }

    /// Returns the value at `part` of the way to another.
    fn towards(self, to: &Amount, part: f64) -> Result<Amount, String> {
        let (kind, from, to) = self.same_kind(*to)?;
        Ok(kind(from + (to - from) * part))
    }

    /// Refuses what has a unit and falls below zero.
    fn not_negative(self) -> Result<Amount, String> {
        match self {
            Amount::Rate(value) | Amount::Span(value) | Amount::Bytes(value) if value < 0.0 => {
                Err("the value would fall below zero".to_owned())
            }
            other => Ok(other),
        }
    }

    fn value(self) -> Value {
        match self {
            Amount::Rate(value) => Value::String(Rate::from_bps(value.round() as u64).to_string()),
            Amount::Span(value) => Value::String(Span::from_nanos(value.round() as u64).to_string()),
            Amount::Bytes(value) => Value::String(Bytes::new(value.round() as u64).to_string()),
            Amount::Whole(value) => Value::Integer(value.round() as i64),
            Amount::Number(value) => Value::Float(value),
        }
    }
}

/// Applies the values of a step to a tree.
pub(crate) fn apply(root: &mut Node, step: &Step) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (key, node) in &step.values {
        let Some(node) = node else {
            place::remove(root, key);
            continue;
        };
        let origin: &Origin = &node.origin;
        if let Err(problem) = place::place(root, key, origin, node.clone()) {
            diagnostics.push(Diagnostic { key: key.clone(), problem, origin: origin.clone() });
        }
    }
    diagnostics
}

/// Moves an error outside of a step's values to the value that causes it.
///
/// The scenario before the step is correct, so a value that contradicts another one is the step's fault.
pub(crate) fn blame(step: &Step, diagnostic: &mut Diagnostic) {
    let values = || step.values.iter().filter_map(|(key, node)| Some((key, &node.as_ref()?.origin)));
    let is_within = |outer: &Origin| match (&diagnostic.origin, outer) {
        (Origin::File(inner), Origin::File(outer)) => outer.start <= inner.start && inner.end <= outer.end,
        (inner, outer) => inner == outer,
    };
    if values().any(|(_, origin)| is_within(origin)) {
        return;
    }
    let common = |key: &str| {
        let parts = key.split('.').zip(diagnostic.key.split('.'));
        parts.take_while(|(one, other)| one == other).count()
    };
    if let Some((key, origin)) = values().max_by_key(|(key, _)| common(key)) {
        let problem = format!("{}: {}", diagnostic.key, diagnostic.problem);
        *diagnostic = Diagnostic { key: key.clone(), problem, origin: origin.clone() };
    }
}

#[cfg(test)]
mod tests;
