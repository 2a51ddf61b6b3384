//! Review of a scenario: errors collected with their keys.

use std::rc::Rc;

use bentpipe_units::Span;
use indexmap::IndexSet;

use crate::{Named, Problem};

/// Errors of a scenario found up to now, with the context of checks.
pub struct Review<'a> {
    nodes: Rc<IndexSet<&'a str>>,
    duration: Span,
    /// Set for a state that an event makes.
    is_later: bool,
    /// Function for the hint after an unknown name.
    instead: fn(&str, &[&str]) -> String,
    problems: Vec<Problem>,
}

impl<'a> Review<'a> {
    /// Creates a review of a scenario with these nodes and this duration. `instead` makes the hint after an unknown name.
    pub fn new(nodes: Vec<&'a str>, duration: Span, instead: fn(&str, &[&str]) -> String) -> Review<'a> {
        Review::of_nodes(Rc::new(nodes.into_iter().collect()), duration, instead)
    }

    /// Creates a review as [`Review::new`] does, with nodes that several reviews have in common.
    pub fn of_nodes(
        nodes: Rc<IndexSet<&'a str>>,
        duration: Span,
        instead: fn(&str, &[&str]) -> String,
    ) -> Review<'a> {
        Review { nodes, duration, is_later: false, instead, problems: Vec::new() }
    }

    /// Sets that an event makes the reviewed state, in which a line may be down.
    #[must_use]
    pub fn after_events(self, is_later: bool) -> Review<'a> {
        Review { is_later, ..self }
    }

    /// Returns `true` for a state that an event makes.
    pub fn is_later(&self) -> bool {
        self.is_later
    }

    /// Returns the duration of the run.
    pub fn duration(&self) -> Span {
        self.duration
    }

    /// Returns `true` if there is a node of this name.
    pub fn is_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// Returns the names of all nodes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.nodes.iter().copied()
    }

    /// Reports an error.
    pub fn refuse(&mut self, key: &str, problem: impl Into<String>) {
        self.problems.push(Problem::new(key, problem));
    }

    /// Reports an error unless `holds`.
    pub fn ensure(&mut self, holds: bool, key: &str, problem: impl Into<String>) {
        if !holds {
            self.refuse(key, problem);
        }
    }

    /// Reports an error unless a table has this name. `what` is the noun: "carrier".
    pub fn ensure_named<T>(&mut self, table: &Named<T>, what: &str, key: &str, name: &str) {
        if !table.contains_key(name) {
            let known: Vec<&str> = table.keys().map(String::as_str).collect();
            self.refuse_name(&known, what, key, name);
        }
    }

    /// Reports an error unless there is a node of this name.
    pub fn ensure_node(&mut self, key: &str, name: &str) {
        if !self.is_node(name) {
            let known: Vec<&str> = self.nodes().collect();
            self.refuse_name(&known, "node", key, name);
        }
    }

    /// Reports that `name` is unknown, with the known names.
    pub fn refuse_name(&mut self, known: &[&str], what: &str, key: &str, name: &str) {
        let shown: String = name.chars().take(60).collect();
        let hint = (self.instead)(name, known);
        self.refuse(key, format!("no {what} is called \"{shown}\": {hint}"));
    }

    /// Returns all errors.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Returns `true` if no error was reported.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}
