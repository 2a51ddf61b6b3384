//! Differences between states of a scenario.

use bentpipe_site::Named;

use super::elements::Framing;
use super::schema::{Difference, Direction, Flow, Link, Node, Scenario};
use super::stages::Stages;

impl Difference {
    /// Returns the difference of a state from the one before.
    pub fn between(before: &Scenario, after: &Scenario) -> Difference {
        let mut is_more = !have_same_rest(before, after);
        let node = differing(&before.node, &after.node, Node::fixed, &mut is_more);
        let link = differing(&before.link, &after.link, Link::fixed, &mut is_more);
        let flow = differing(&before.flow, &after.flow, Flow::fixed, &mut is_more);
        let shared = (before.shared != after.shared).then(|| Box::new(after.shared.clone()));
        Difference { node, link, flow, shared, is_more }
    }

    /// Returns `true` if nothing differs.
    pub fn is_empty(&self) -> bool {
        let Difference { node, link, flow, shared, is_more } = self;
        node.is_empty() && link.is_empty() && flow.is_empty() && shared.is_none() && !is_more
    }

    /// Returns the number of its entries.
    pub fn len(&self) -> usize {
        self.node.len() + self.link.len() + self.flow.len() + usize::from(self.shared.is_some())
    }

    /// Inserts its entries into a scenario, in which they may be new.
    pub fn apply(&self, scenario: &mut Scenario) {
        let Difference { node, link, flow, shared, .. } = self;
        scenario.node.extend(node.iter().cloned());
        scenario.link.extend(link.iter().cloned());
        scenario.flow.extend(flow.iter().cloned());
        shared.iter().for_each(|shared| scenario.shared.clone_from(shared));
    }

    /// Exchanges its entries with those of a scenario that has them all.
    pub fn swap(&mut self, scenario: &mut Scenario) {
        fn each<T>(entries: &mut [(String, T)], table: &mut Named<T>) {
            for (name, entry) in entries {
                table.get_mut(name).into_iter().for_each(|own| std::mem::swap(own, entry));
            }
        }
        each(&mut self.node, &mut scenario.node);
        each(&mut self.link, &mut scenario.link);
        each(&mut self.flow, &mut scenario.flow);
        self.shared.iter_mut().for_each(|shared| std::mem::swap(&mut **shared, &mut scenario.shared));
    }
}

/// Returns the entries that differ. Sets `is_more` if one differs in what is fixed, or a name is missing.
fn differing<T: Clone + PartialEq>(
    before: &Named<T>,
    after: &Named<T>,
    fixed: fn(&T) -> T,
    is_more: &mut bool,
) -> Vec<(String, T)> {
    *is_more |= before.len() != after.len();
    let mut found = Vec::new();
    for (name, new) in after {
        match before.get(name) {
            Some(old) if old == new => {}
            Some(old) => {
                *is_more |= fixed(old) != fixed(new);
                found.push((name.clone(), new.clone()));
            }
            None => *is_more = true,
        }
    }
    found
}

/// Returns `true` if all but nodes, links, flows, shared objects and events is the same.
fn have_same_rest(one: &Scenario, other: &Scenario) -> bool {
    let Scenario {
        title,
        description,
        duration,
        seed,
        seeds,
        node: _,
        link: _,
        shared: _,
        role_tables,
        tunnel,
        group,
        flow: _,
        event: _,
        probe,
        sweep,
        timeline: _,
    } = one;
    (title, description, duration) == (&other.title, &other.description, &other.duration)
        && (seed, seeds, role_tables) == (&other.seed, &other.seeds, &other.role_tables)
        && (tunnel, group) == (&other.tunnel, &other.group)
        && (probe, sweep) == (&other.probe, &other.sweep)
}

impl Node {
    /// Returns the node without what a running network changes.
    pub(crate) fn fixed(&self) -> Node {
        Node { role: None, ..self.clone() }
    }
}

impl Flow {
    /// Returns the flow without what a running network changes.
    pub(crate) fn fixed(&self) -> Flow {
        Flow { active: true, ..self.clone() }
    }
}

impl Link {
    /// Returns the link without what media, stages and channels change while they run.
    pub(crate) fn fixed(&self) -> Link {
        Link {
            between: self.between.clone(),
            mtu: self.mtu,
            ip_versions: self.ip_versions,
            rate: None,
            delay: None,
            delay_changes: None,
            framing: Framing::None,
            queue: None,
            channel: None,
            stages: Stages::default(),
            medium: None,
            forward: Direction::default(),
            reverse: Direction::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn scenario(set: &[&str]) -> Scenario {
        let text = "title = \"t\"\nduration = \"1 s\"\nnode.a = {}\nnode.b = {}\n\
            link.l = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }\n\
            flow.f = { from = \"a\", to = \"b\", traffic = \"tcp\" }\n";
        let mut document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        set.iter().for_each(|set| document.set(set).unwrap_or_else(|refusal| panic!("{refusal}")));
        document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    #[test]
    fn a_difference_has_what_differs_and_turns_one_state_into_the_other() {
        let (before, after) = (scenario(&[]), scenario(&["link.l.rate=2 Mbit/s", "flow.f.active=false"]));
        let difference = Difference::between(&before, &after);
        assert_eq!((difference.len(), difference.is_more), (2, false));
        let mut applied = before.clone();
        difference.apply(&mut applied);
        assert_eq!(applied, after);
        let (mut swapped, mut back) = (before.clone(), difference);
        back.swap(&mut swapped);
        assert_eq!(swapped, after);
        back.swap(&mut swapped);
        assert_eq!(swapped, before);
        assert!(Difference::between(&before, &before).is_empty());
    }

    #[test]
    fn what_no_running_network_takes_on_is_more() {
        let before = scenario(&[]);
        for set in [
            "title=other",
            "link.l.mtu=576 B",
            "flow.f.start=1 ms",
            "node.a.kind=router",
            "probe.nulls=false",
        ] {
            assert!(Difference::between(&before, &scenario(&[set])).is_more, "{set}");
        }
    }
}
