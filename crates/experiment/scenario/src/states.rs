//! States of a scenario after each of its events. Each is made of the one before and of what the event changes.

use std::collections::BTreeSet;
use std::rc::Rc;

use bentpipe_site::{Named, Way};
use indexmap::IndexSet;
use serde::Deserialize;

use super::check::{Checker, join};
use super::copies;
use super::error::{Diagnostic, Origin};
use super::events::{self, Step};
use super::media::Shared;
use super::place;
use super::schema::{Difference, Flow, Link, Node, SCHEMA, Scenario};
use super::separate::{Counts, counts, separate_by};
use super::sides::{Layout, Side};
use super::tree::{Node as Tree, Table, Value};
use super::typed::typed;
use super::validate;

/// Nodes, links, flows and shared objects of a part of a file.
#[derive(Default, Deserialize)]
struct Entries {
    #[serde(default)]
    node: Named<Node>,
    #[serde(default)]
    link: Named<Link>,
    #[serde(default)]
    flow: Named<Flow>,
    #[serde(flatten)]
    shared: Shared,
}

/// Places of the keys that a step changes.
#[derive(Default)]
struct Touched {
    /// Nodes, links and flows, with the names of their tables.
    entries: BTreeSet<(String, String)>,
    /// Tables of shared objects.
    shared: BTreeSet<String>,
    /// Other keys of the root.
    others: BTreeSet<String>,
}

impl Touched {
    fn of(step: &Step) -> Touched {
        let mut touched = Touched::default();
        for (key, _) in &step.values {
            let mut parts = key.split('.');
            let (first, second) = (parts.next().unwrap_or_default(), parts.next());
            match (first, second) {
                ("node" | "link" | "flow", Some(name)) => {
                    touched.entries.insert((first.to_owned(), name.to_owned()));
                }
                _ if Shared::TABLES.contains(&first) => drop(touched.shared.insert(first.to_owned())),
                _ => drop(touched.others.insert(first.to_owned())),
            }
        }
        touched
    }
}

/// Entry of a table whose entries may be copies with settings of their own.
trait Entry: Clone + PartialEq {
    /// Name of the table.
    const TABLE: &str;

    /// Returns the table of a scenario.
    fn table(scenario: &Scenario) -> &Named<Self>;

    /// Returns copy `n` of it, between the ends of another one.
    fn copy(&self, n: u32, ends: &Self) -> Self;

    /// Returns what a running network does not change of it.
    fn fixed(&self) -> Self;
}

impl Entry for Node {
    const TABLE: &str = "node";

    fn table(scenario: &Scenario) -> &Named<Node> {
        &scenario.node
    }

    fn copy(&self, _: u32, _: &Node) -> Node {
        Node { count: 1, ..self.clone() }
    }

    fn fixed(&self) -> Node {
        Node::fixed(self)
    }
}

impl Entry for Link {
    const TABLE: &str = "link";

    fn table(scenario: &Scenario) -> &Named<Link> {
        &scenario.link
    }

    fn copy(&self, n: u32, ends: &Link) -> Link {
        Link { between: ends.between.clone(), ..copies::copy_of(self, n) }
    }

    fn fixed(&self) -> Link {
        Link::fixed(self)
    }
}

impl Entry for Flow {
    const TABLE: &str = "flow";

    fn table(scenario: &Scenario) -> &Named<Flow> {
        &scenario.flow
    }

    fn copy(&self, _: u32, ends: &Flow) -> Flow {
        Flow { from: ends.from.clone(), to: ends.to.clone(), ..self.clone() }
    }

    fn fixed(&self) -> Flow {
        Flow::fixed(self)
    }
}

/// Returns an entry of a table. A copy without settings of its own is made of those of all copies.
fn entry<T: Entry>(table: &Named<T>, name: &str, ends: &T) -> Option<T> {
    let of_all = || {
        let (original, n) = copies::apart(table, name)?;
        Some(table[original].copy(n, ends))
    };
    table.get(name).cloned().or_else(of_all)
}

/// Walk from state to state.
pub(crate) struct States<'a> {
    /// The file as it holds now, without events.
    root: Tree,
    /// The scenario as it holds now.
    state: Scenario,
    /// Directions of its links, in their order.
    sides: Vec<[Side; 2]>,
    /// Copies with settings of their own, by their tables.
    own: BTreeSet<(&'static str, String)>,
    counts: Counts,
    /// Number of links and shared values that were checked with those that changed.
    pub(crate) together: usize,
    /// Names of all nodes.
    names: Rc<IndexSet<&'a str>>,
}

impl<'a> States<'a> {
    /// Creates the walk from a scenario that was made of a file.
    pub(crate) fn new(root: Tree, scenario: &'a Scenario) -> States<'a> {
        let names = Rc::new(scenario.node.keys().map(String::as_str).collect());
        let (state, counts) = (scenario.clone(), counts(&root));
        let sides = state.link.iter().map(|(name, link)| Way::BOTH.map(|way| link.side(name, way))).collect();
        let mut states = States { root, state, sides, own: BTreeSet::new(), counts, together: 0, names };
        states.find_own::<Node>();
        states.find_own::<Link>();
        states.find_own::<Flow>();
        states
    }

    fn find_own<T: Entry>(&mut self) {
        let table = T::table(&self.state);
        let own = table.keys().filter(|name| copies::apart(table, name).is_some());
        self.own.extend(own.map(|name| (T::TABLE, name.clone())));
    }

    /// Applies a step to the state and returns the difference.
    ///
    /// # Errors
    /// Returns the errors of the state after it, which are then the step's.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Difference, Vec<Diagnostic>> {
        let touched = Touched::of(step);
        let (others, flows) = (self.others(&touched), self.flows(&touched));
        let wrong = events::apply(&mut self.root, step);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if !touched.shared.is_empty() {
            self.together += Shared::TABLES
                .iter()
                .filter_map(|table| self.root.at(table))
                .map(Tree::values)
                .sum::<usize>();
        }
        let (part, mut entries) = self.read(&touched).map_err(|errors| blamed(step, errors))?;
        let mut is_more = others != self.others(&touched);
        entries.flow = self.active(&flows, &entries.flow, &mut is_more);
        let mut difference = Difference {
            node: self.changed(&entries.node, &mut is_more),
            link: self.changed(&entries.link, &mut is_more),
            flow: self.changed(&entries.flow, &mut is_more),
            ..Difference::default()
        };
        if !touched.shared.is_empty() && entries.shared != self.state.shared {
            difference.shared = Some(Box::new(entries.shared));
        }
        difference.is_more = is_more;
        let wrong = if is_more { Vec::new() } else { self.enter(&difference, &part) };
        if wrong.is_empty() { Ok(difference) } else { Err(blamed(step, wrong)) }
    }

    /// Returns the values of keys that no network changes while it runs.
    fn others(&self, touched: &Touched) -> Vec<Option<toml::Value>> {
        touched.others.iter().map(|key| self.root.at(key).map(Tree::to_toml)).collect()
    }

    /// Returns flows as the file has them, without what depends on their paths.
    fn flows(&self, touched: &Touched) -> Named<Flow> {
        let entries = touched.entries.iter().filter(|(table, _)| table == Flow::TABLE).cloned().collect();
        let touched = Touched { entries, ..Touched::default() };
        if touched.entries.is_empty() {
            return Named::default();
        }
        self.read(&touched).map(|(_, entries)| entries.flow).unwrap_or_default()
    }

    /// Returns the entries of a part of the file, and that part.
    fn read(&self, touched: &Touched) -> Result<(Tree, Entries), Vec<Diagnostic>> {
        let mut part = self.part(touched);
        separate_by(&mut part, &self.counts);
        let found = Checker::check_part(&SCHEMA, part.table().unwrap_or(&Table::default()));
        if !found.diagnostics.is_empty() {
            return Err(found.diagnostics);
        }
        found.shorthands.iter().for_each(|(key, tag)| place::expand(&mut part, key, tag));
        let mut entries: Entries = typed(&part).map_err(|diagnostic| vec![diagnostic])?;
        copies::set_apart(&mut entries.link);
        Ok((part, entries))
    }

    /// Returns the touched entries of the file, and all shared objects if one is touched.
    fn part(&self, touched: &Touched) -> Tree {
        let nowhere = Origin::File(0..0);
        let mut part = Tree { value: Value::Table(Table::default()), origin: nowhere.clone() };
        let mut put = |table: &str, name: Option<&str>| {
            let key = name.map_or_else(|| table.to_owned(), |name| join(table, name));
            let Some(found) = self.root.at(&key) else { return };
            let at = part.table_mut().map(|root| root.entry(table, &nowhere));
            let at = match name {
                Some(name) => at.and_then(Tree::table_mut).map(|table| table.entry(name, &nowhere)),
                None => at,
            };
            at.into_iter().for_each(|at| at.clone_from(found));
        };
        touched.entries.iter().for_each(|(table, name)| put(table, Some(name)));
        touched.others.iter().for_each(|key| put(key, None));
        if !touched.shared.is_empty() {
            Shared::TABLES.iter().for_each(|table| put(table, None));
        }
        part
    }

    /// Returns flows that were read as they are in the state, turned off or on. `before` are those before the step.
    fn active(&self, before: &Named<Flow>, read: &Named<Flow>, is_more: &mut bool) -> Named<Flow> {
        let mut all = Named::new();
        for (name, flow) in read {
            *is_more |= entry(before, name, flow).as_ref().map(Flow::fixed) != Some(flow.fixed());
            if let Some(had) = entry(&self.state.flow, name, flow) {
                all.insert(name.clone(), Flow { active: flow.active, ..had });
            }
        }
        all
    }

    /// Returns the entries that differ from those of the state. Sets `is_more` if one differs in what is fixed.
    fn changed<T: Entry>(&self, read: &Named<T>, is_more: &mut bool) -> Vec<(String, T)> {
        let state = T::table(&self.state);
        let mut after: Vec<(String, T)> =
            read.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        for (original, entry) in read {
            // Copies that had settings of their own, which they lose.
            let start = (T::TABLE, format!("{original}."));
            let own = self.own.range(start.clone()..).map(|(table, name)| (*table, name));
            let own = own.take_while(|(table, name)| *table == T::TABLE && name.starts_with(&start.1));
            for (_, name) in own.filter(|(_, name)| !read.contains_key(*name)) {
                let copy = copies::apart(state, name).filter(|(of, _)| *of == original);
                after.extend(copy.map(|(_, n)| (name.clone(), entry.copy(n, &state[name]))));
            }
        }
        after.retain(|(name, new)| {
            *is_more |= entry(state, name, new).as_ref().map(T::fixed) != Some(new.fixed());
            state.get(name) != Some(new)
        });
        after
    }

    /// Returns the number of links that are checked with those of a difference.
    fn others_of(&self, difference: &Difference) -> usize {
        let is_alone = |sides: &[Side; 2]| sides.iter().all(|side| side.medium.is_alone());
        let number = |(name, _): &(String, Link)| self.state.link.get_index_of(name);
        let mut changed = difference.link.iter().filter_map(number).filter_map(|n| self.sides.get(n));
        let is_shared = difference.shared.is_some() || changed.any(|sides| !is_alone(sides));
        if is_shared { self.sides.iter().filter(|sides| !is_alone(sides)).count() } else { 0 }
    }

    /// Enters a difference into the state, and returns the errors of the state after it.
    fn enter(&mut self, difference: &Difference, part: &Tree) -> Vec<Diagnostic> {
        difference.apply(&mut self.state);
        for (name, link) in &difference.link {
            let sides = Way::BOTH.map(|way| link.side(name, way));
            match self.state.link.get_index_of(name).and_then(|n| self.sides.get_mut(n)) {
                Some(known) => *known = sides,
                None => self.sides.push(sides),
            }
        }
        let names = difference.link.iter().map(|(name, _)| (Link::TABLE, name));
        let names = names.chain(difference.node.iter().map(|(name, _)| (Node::TABLE, name)));
        let names = names.chain(difference.flow.iter().map(|(name, _)| (Flow::TABLE, name)));
        self.own
            .extend(names.filter(|(_, name)| name.contains('.')).map(|(table, name)| (table, name.clone())));
        self.together += self.others_of(difference);
        let layout = Layout::of(&self.state, std::mem::take(&mut self.sides));
        let found = validate::validate_difference(&layout, part, difference, Rc::clone(&self.names));
        self.sides = layout.into_sides();
        found
    }
}

/// Moves errors to the values of the step that causes them.
fn blamed(step: &Step, mut errors: Vec<Diagnostic>) -> Vec<Diagnostic> {
    errors.iter_mut().for_each(|error| events::blame(step, error));
    errors
}
