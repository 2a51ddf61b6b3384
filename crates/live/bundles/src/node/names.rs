//! Identifiers of nodes of scheme dtn, by their numbers.
//!
//! Those of the node file stay. Others are what peers have stated: a host has [`OF_HOST`] at most, and all of them [`MOST`]. Beyond that the host
//! with the most forgets its oldest.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_wire::dtn::eid::Eid;

use super::file::NodeId;

/// Identifiers that a host may have stated.
const OF_HOST: usize = 1000;
/// Identifiers that all hosts may have stated.
const MOST: usize = 10_000;
/// Characters of an identifier in a line of the log.
const SHOWN: usize = 100;

/// Identifiers of nodes.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_number: BTreeMap<u64, Eid>,
    /// Numbers of those that hosts have stated, the oldest first.
    stated: BTreeMap<u64, VecDeque<u64>>,
    /// Number of those.
    count: usize,
}

impl Names {
    /// Returns the identifier of a node.
    pub(super) fn get(&self, number: u64) -> Option<&Eid> {
        self.by_number.get(&number)
    }

    /// Returns `true` if a node of the node file is noted.
    ///
    /// Another one may have its number.
    pub(super) fn configure(&mut self, node: &NodeId) -> bool {
        let Some(name) = &node.name else { return true };
        for numbers in self.stated.values_mut() {
            let before = numbers.len();
            numbers.retain(|number| *number != node.number);
            self.count -= before - numbers.len();
        }
        *self.by_number.entry(node.number).or_insert_with(|| name.clone()) == *name
    }

    /// Returns `true` if a node that a host has stated is noted.
    ///
    /// An identifier may be forgotten for it. Another node may have its number.
    pub(super) fn state(&mut self, node: &NodeId, host: u64) -> (bool, Option<Eid>) {
        let Some(name) = &node.name else { return (true, None) };
        if let Some(present) = self.by_number.get(&node.number) {
            return (present == name, None);
        }
        self.by_number.insert(node.number, name.clone());
        let own = self.stated.entry(host).or_default();
        own.push_back(node.number);
        self.count += 1;
        let has_too_many = own.len() > OF_HOST;
        let giver = match self.count > MOST {
            _ if has_too_many => Some(host),
            true => self.stated.iter().max_by_key(|(_, numbers)| numbers.len()).map(|(host, _)| *host),
            false => None,
        };
        (true, giver.and_then(|host| self.forget_oldest(host)))
    }

    fn forget_oldest(&mut self, host: u64) -> Option<Eid> {
        let numbers = self.stated.get_mut(&host)?;
        let number = numbers.pop_front()?;
        if numbers.is_empty() {
            self.stated.remove(&host);
        }
        self.count -= 1;
        self.by_number.remove(&number)
    }
}

/// Returns a text for a line of the log, cut if it is long.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::of(&format!("dtn://{name}/").parse().expect("an identifier")).expect("a node")
    }

    #[test]
    fn a_host_has_a_share_and_the_node_file_has_precedence() {
        let (mut names, own, two) = (Names::default(), node("own"), node("two"));
        assert!(names.configure(&own) && names.state(&own, 1) == (true, None));
        assert_eq!(names.state(&two, 2), (true, None));
        let forgotten = (0..3 * OF_HOST).filter_map(|n| names.state(&node(&format!("n{n}")), 1).1).count();
        assert!((2 * OF_HOST - 1..=2 * OF_HOST).contains(&forgotten));
        assert!(names.by_number.len() <= OF_HOST + 2 && names.stated[&1].len() == OF_HOST);
        for host in 3..20 {
            (0..OF_HOST).for_each(|n| _ = names.state(&node(&format!("n{host}-{n}")), host));
        }
        assert_eq!((names.count, names.count + 1), (MOST, names.by_number.len()));
        assert!(names.get(two.number).is_some(), "a host with one keeps it");
        // What the node file has from then on is no host's.
        assert!(names.configure(&two));
        assert_eq!((names.count, names.stated.get(&2).map(VecDeque::len)), (MOST - 1, Some(0)));
        let false_own = NodeId { number: own.number, ..node("other") };
        assert!(!names.state(&false_own, 1).0 && !names.configure(&false_own));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown("dtn://two/"), "dtn://two/");
        assert_eq!(shown(&"\u{e9}".repeat(60_000)), format!("{}...", "\u{e9}".repeat(100)));
    }
}
