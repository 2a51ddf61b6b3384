//! Point-to-multipoint channels (ITU-T I.150): links with one `multicast` name from one root.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bentpipe_site::{Member, Review, Way};

use super::{Atm, Kind, Ways, peak};
use crate::Class;

/// Maximum number of lines and switches that a budget names.
const SHOWN: usize = 8;

/// Returns the root and the name of a leaf's channel.
pub(super) fn channel<'s>(member: &Member<'s, Kind>) -> (&'s str, Option<&'s str>) {
    (super::ends(member)[0], member.medium.multicast.as_deref())
}

/// Reports errors of point-to-multipoint channels.
pub(super) fn check(all: &[Member<'_, Kind>], review: &mut Review<'_>) {
    let mut firsts: HashMap<_, Member<'_, Kind>> = HashMap::new();
    let mut leaves = HashSet::new();
    for member in all.iter().filter(|member| member.way == Way::Forward) {
        let (place, kind) = (member.place, member.medium);
        let channel = channel(member);
        let (_, Some(name)) = channel else { continue };
        let first = firsts.entry(channel).or_insert(*member);
        const NO_ABR: &str = "\"abr\" needs a way back for RM cells, which a point-to-multipoint channel has not: expected \
                              \"cbr\", \"vbr\" or \"ubr\"";
        review.ensure(kind.service.class() != Class::Abr, &place.key("medium.service"), NO_ABR);
        let common = [
            ("service", kind.service == first.medium.service),
            ("encapsulation", kind.encapsulation == first.medium.encapsulation),
            ("limit", kind.limit == first.medium.limit),
        ];
        for (key, _) in common.iter().filter(|(_, is_same)| !is_same) {
            let problem = format!(
                "differs from that of link \"{}\": expected the same at all leaves of \"{name}\"",
                first.name
            );
            review.refuse(&place.key(&format!("medium.{key}")), problem);
        }
        let problem = twice(member.to, name);
        let is_new = leaves.insert((channel, member.to));
        review.ensure(is_new, &format!("{}.between", place.link_key()), problem);
    }
}

/// Returns the refusal of a second leaf at a node.
pub(super) fn twice(node: &str, channel: &str) -> String {
    format!("\"{node}\" is a leaf of \"{channel}\" already: expected each node once")
}

/// Returns the lines of a budget about each channel.
///
/// They are those of its first leaf, by its number among all members.
pub(super) fn notes(all: &[Member<'_, Kind>], atm: &Atm, ways: &mut Ways<'_>) -> HashMap<usize, Vec<String>> {
    let mut channels: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (n, member) in all.iter().enumerate() {
        if member.way == Way::Forward && member.medium.multicast.is_some() {
            channels.entry(channel(member)).or_default().push(n);
        }
    }
    let of = |((root, name), leaves): (_, Vec<usize>)| {
        let notes = Tree::new(root, leaves.iter().map(|n| &all[*n]), ways).notes(name, atm, all[leaves[0]]);
        (leaves[0], notes)
    };
    channels.into_iter().map(of).collect()
}

/// Lines of a channel, and the leaves behind each.
#[derive(Default)]
struct Tree {
    /// Leaves behind each line, and the end where it begins.
    lines: BTreeMap<usize, (u64, Way)>,
    /// Lines to leaves, of which each copy of a leaf has one.
    last: BTreeSet<usize>,
    /// Number of leaves, and of lines if each had a channel of its own.
    leaves: u64,
    apart: u64,
}

impl Tree {
    fn new<'m>(root: &str, leaves: impl Iterator<Item = &'m Member<'m, Kind>>, ways: &mut Ways<'_>) -> Tree {
        let mut tree = Tree::default();
        for leaf in leaves {
            let path = ways.branch(root, leaf.to).unwrap_or_default();
            let copies = u64::from(leaf.copies.max(1));
            (tree.leaves, tree.apart) = (tree.leaves + copies, tree.apart + copies * path.len() as u64);
            for (line, way) in &path {
                tree.lines.entry(*line).or_insert((0, *way)).0 += copies;
            }
            tree.last.extend(path.last().map(|(line, _)| *line));
        }
        tree
    }

    fn notes(&self, name: Option<&str>, atm: &Atm, leaf: Member<'_, Kind>) -> Vec<String> {
        let of_line = |line: &usize| atm.line.get_index(*line).map_or("", |(name, _)| name);
        // Each copy of a leaf has a copy of the last line.
        let is_shared = |line: &usize, leaves: u64| leaves > 1 && !self.last.contains(line);
        let all: u64 = self
            .lines
            .iter()
            .map(|(line, (leaves, _))| if self.last.contains(line) { *leaves } else { 1 })
            .sum();
        let name = name.unwrap_or_default();
        let mut notes = vec![format!(
            "point-to-multipoint channel \"{name}\": {} leaves; a cell is sent on {all} lines, {} with a channel for each leaf",
            self.leaves, self.apart
        )];
        let rate =
            peak(leaf.medium.service).map_or_else(String::new, |peak| format!("up to {peak} of cells, "));
        let shared: Vec<_> =
            self.lines.iter().filter(|(line, (leaves, _))| is_shared(line, *leaves)).collect();
        notes.extend(shared.iter().take(SHOWN).map(|(line, (leaves, _))| {
            format!("line \"{}\": {rate}once for {leaves} leaves", of_line(line))
        }));
        notes.extend(
            (shared.len() > SHOWN)
                .then(|| format!("{} further lines with several leaves", shared.len() - SHOWN)),
        );
        let mut branches: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (line, (leaves, way)) in &self.lines {
            let Some((name, config)) = atm.line.get_index(*line) else { continue };
            let copies =
                if self.last.contains(line) && *leaves > 1 { format!(" ({leaves})") } else { String::new() };
            branches.entry(&config.between[way.index()]).or_default().push(format!("\"{name}\"{copies}"));
        }
        branches.retain(|from, to| atm.switch.contains_key(*from) && (to.len() > 1 || to[0].ends_with(')')));
        let count = branches.len();
        notes.extend(branches.into_iter().take(SHOWN).map(|(switch, mut to)| {
            let further = to.len().saturating_sub(SHOWN);
            to.truncate(SHOWN);
            to.extend((further > 0).then(|| format!("{further} others")));
            format!("switch \"{switch}\" copies cells to lines {}", to.join(", "))
        }));
        notes.extend((count > SHOWN).then(|| format!("{} further switches copy cells", count - SHOWN)));
        notes
    }
}
