//! Module graph of each crate and the circles in it.
//!
//! Nodes are modules, in files or inline. At each level, module `a` depends on its sibling `b` if code in `a` or below it
//! names something in `b` or below it by a path that starts with `crate`, `super` or `self`, re-exports followed. A
//! parent and its own submodules may refer to each other. Tests, comments and literals do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::{Token, is_test, tokens};

/// Names of the modules from the crate's root to one of them. Empty for the root.
type ModulePath = Vec<String>;

/// Siblings that depend on each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// Crate and path of their parent: `net`, `lab::scenario`.
    pub(super) parent: String,
    /// Names of the siblings, sorted.
    pub(super) members: BTreeSet<String>,
    /// References that close the circle: `a -> b (names crate::b::X)`.
    pub(super) steps: Vec<String>,
}

impl Circle {
    /// Returns the circle's name as in the list of known circles: `net::{channel, wifi}`.
    pub(super) fn name(&self) -> String {
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        format!("{}::{{{}}}", self.parent, members.join(", "))
    }

    /// Returns `true` if `known`, a circle's name, covers all members.
    pub(super) fn is_within(&self, known: &str) -> bool {
        let inside =
            known.strip_prefix(&self.parent).and_then(|rest| rest.strip_prefix("::{")?.strip_suffix('}'));
        inside.is_some_and(|names| {
            let names: BTreeSet<&str> = names.split(", ").collect();
            self.members.iter().all(|member| names.contains(member.as_str()))
        })
    }
}

/// Finds the circles in the crate whose sources are below `folder`.
pub(super) fn circles(name: &str, folder: &Path) -> Vec<Circle> {
    let files = crate::files(folder, ".rs").into_iter().filter_map(|path| {
        let inside = path.strip_prefix(folder).ok()?;
        (!is_test(inside)).then(|| Some((module_path(inside), std::fs::read_to_string(&path).ok()?)))?
    });
    circles_in(name, &files.collect::<Vec<_>>())
}

/// Returns the path of the module that a file holds: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod")
        || path.len() == 1 && ["lib", "main"].contains(&&*path[0])
    {
        path.pop();
    }
    path
}

fn circles_in(name: &str, files: &[(ModulePath, String)]) -> Vec<Circle> {
    let tree = Tree::new(files);
    let levels = tree.edges();
    levels.iter().flat_map(|(parent, edges)| circles_of(&shown(name, parent), edges)).collect()
}

fn shown(name: &str, path: &[String]) -> String {
    std::iter::once(name).chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join("::")
}

/// Edges between siblings, each with a path that makes it.
pub(super) type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// Finds the circles among siblings.
pub(super) fn circles_of(parent: &str, edges: &Edges) -> Vec<Circle> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|from| (from.as_str(), reachable(edges, from))).collect();
    let is_mutual =
        |a: &str, b: &str| reach[a].contains(b) && reach.get(b).is_some_and(|back| back.contains(a));
    let mut found: Vec<Circle> = Vec::new();
    for from in edges.keys().filter(|from| is_mutual(from, from)) {
        if found.iter().any(|circle| circle.members.contains(from)) {
            continue;
        }
        let members = edges.keys().filter(|to| is_mutual(from, to)).cloned().collect();
        found.push(Circle { parent: parent.into(), members, steps: shortest(edges, from) });
    }
    found
}

fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        let next = edges.get(at).into_iter().flat_map(BTreeMap::keys);
        open.extend(next.filter(|to| seen.insert(to.as_str())).map(String::as_str));
    }
    seen
}

/// Returns the steps of a shortest way from `start` back to itself.
fn shortest(edges: &Edges, start: &str) -> Vec<String> {
    let mut ways: Vec<Vec<&str>> = vec![vec![start]];
    let mut seen = BTreeSet::new();
    for _ in 0..=edges.len() {
        let mut longer = Vec::new();
        for way in &ways {
            for to in edges.get(way[way.len() - 1]).into_iter().flat_map(BTreeMap::keys) {
                let mut next = way.clone();
                next.push(to);
                if to == start {
                    return next.windows(2).map(|step| shown_step(edges, step[0], step[1])).collect();
                }
                if seen.insert(to) {
                    longer.push(next);
                }
            }
        }
        ways = longer;
    }
    Vec::new()
}

fn shown_step(edges: &Edges, from: &str, to: &str) -> String {
    format!("{from} -> {to} (names {})", edges[from][to])
}

/// Declarations and names of one module.
#[derive(Debug, Default)]
struct Module {
    /// Names of the items that it declares itself.
    items: BTreeSet<String>,
    /// Names that it imports or re-exports, with their full paths.
    aliases: BTreeMap<String, ModulePath>,
    /// Modules of which it imports everything.
    globs: Vec<ModulePath>,
    /// Full paths within the crate that its code names.
    named: BTreeSet<ModulePath>,
}

/// Modules of a crate.
#[derive(Debug, Default)]
struct Tree {
    modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    fn new(files: &[(ModulePath, String)]) -> Tree {
        let mut tree = Tree::default();
        let mut test_modules = BTreeSet::new();
        for (path, source) in files {
            let mut reader =
                Reader { tree: &mut tree, tests: &mut test_modules, at: path.clone(), depths: Vec::new() };
            reader.read(&tokens(source));
        }
        tree.modules.retain(|path, _| !test_modules.iter().any(|test| path.starts_with(test)));
        tree
    }

    /// Returns the edges between siblings, by the path of their parent.
    fn edges(&self) -> BTreeMap<ModulePath, Edges> {
        let mut levels: BTreeMap<ModulePath, Edges> = BTreeMap::new();
        for (from, module) in &self.modules {
            for named in &module.named {
                let to = self.resolve(named, 0);
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                    let edges = levels.entry(from[..common].to_vec()).or_default();
                    edges
                        .entry(a.clone())
                        .or_default()
                        .entry(b.clone())
                        .or_insert_with(|| shown("crate", named));
                }
            }
        }
        levels
    }

    /// Returns the module in which the item at `path` is declared.
    fn resolve(&self, path: &[String], depth: usize) -> ModulePath {
        let mut at = ModulePath::new();
        for (index, name) in path.iter().enumerate() {
            let below: ModulePath = at.iter().chain([name]).cloned().collect();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let source = if depth < 16 { self.origin(&at, name, depth) } else { None };
            return source.map_or(at, |source| {
                let full: ModulePath = source.iter().chain(&path[index + 1..]).cloned().collect();
                self.resolve(&full, depth + 1)
            });
        }
        at
    }

    /// Returns the full path of what module `at` imports or re-exports under `name`.
    fn origin(&self, at: &[String], name: &str, depth: usize) -> Option<ModulePath> {
        let module = self.modules.get(at)?;
        if module.items.contains(name) {
            return None;
        }
        module.aliases.get(name).cloned().or_else(|| {
            let within = |glob: &ModulePath| [self.resolve(glob, depth + 1), vec![name.to_string()]].concat();
            module.globs.iter().map(within).find(|path| self.declares(path))
        })
    }

    fn declares(&self, path: &[String]) -> bool {
        let Some((name, module)) = path.split_last() else { return false };
        let has = |module: &Module| module.items.contains(name) || module.aliases.contains_key(name);
        self.modules.contains_key(path) || self.modules.get(module).is_some_and(has)
    }
}

/// Reads the tokens of one file into the tree.
struct Reader<'a> {
    tree: &'a mut Tree,
    /// Paths of modules that exist in tests only.
    tests: &'a mut BTreeSet<ModulePath>,
    /// Path of the module that is being read.
    at: ModulePath,
    /// Depth of braces at which each inline module ends.
    depths: Vec<usize>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: &[Token<'_>]) {
        self.module();
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let rest = &tokens[at..];
            match rest {
                _ if is_test_attribute(rest) => at += self.skip_test_item(rest),
                [Token::Word("mod"), Token::Word(name), Token::Mark('{'), ..] => {
                    self.depths.push(depth);
                    self.at.push((*name).to_string());
                    self.module();
                    (depth, at) = (depth + 1, at + 3);
                }
                [Token::Word("use"), ..] => at += 1 + self.import(&rest[1..], &[]),
                [Token::Word("crate" | "super" | "self"), Token::Path, ..] => at += self.name(rest),
                [Token::Mark('{'), ..] => (depth, at) = (depth + 1, at + 1),
                [Token::Mark('}'), ..] => {
                    depth = depth.saturating_sub(1);
                    if self.depths.last() == Some(&depth) {
                        self.depths.pop();
                        self.at.pop();
                    }
                    at += 1;
                }
                _ => {
                    self.declare(rest);
                    at += 1;
                }
            }
        }
    }

    fn module(&mut self) -> &mut Module {
        self.tree.modules.entry(self.at.clone()).or_default()
    }

    fn declare(&mut self, rest: &[Token<'_>]) {
        const KINDS: [&str; 9] =
            ["struct", "enum", "union", "trait", "fn", "const", "static", "type", "macro_rules"];
        let name = match rest {
            [Token::Word("macro_rules"), Token::Mark('!'), Token::Word(name), ..] => name,
            [Token::Word(kind), Token::Word(name), ..] if KINDS.contains(kind) => name,
            _ => return,
        };
        self.module().items.insert((*name).to_string());
    }

    /// Records a path in code; returns the number of its tokens.
    fn name(&mut self, rest: &[Token<'_>]) -> usize {
        let mut names = Vec::new();
        let mut len = 0;
        while let Some(Token::Word(word)) = rest.get(len) {
            names.push(*word);
            len += 1;
            if rest.get(len) != Some(&Token::Path) {
                break;
            }
            len += 1;
        }
        if let Some(path) = self.absolute(&names) {
            self.module().named.insert(path);
        }
        len
    }

    /// Reads a tree of imports below `prefix`; returns the number of its tokens.
    fn import(&mut self, rest: &[Token<'_>], prefix: &[&str]) -> usize {
        let (mut names, mut len) = (prefix.to_vec(), 0);
        loop {
            match &rest[len.min(rest.len())..] {
                [Token::Path, ..] => len += 1,
                [Token::Word("as"), Token::Word(alias), ..] => {
                    self.imported(&names, alias);
                    return len + 2;
                }
                [Token::Word(word), ..] => {
                    names.push(word);
                    len += 1;
                }
                [Token::Mark('*'), ..] => {
                    self.imported_all(&names);
                    return len + 1;
                }
                [Token::Mark('{'), ..] => return len + 1 + self.import_group(&rest[len + 1..], &names),
                _ => {
                    let alias = names.iter().rev().find(|name| **name != "self").copied();
                    self.imported(&names, alias.unwrap_or_default());
                    return len;
                }
            }
        }
    }

    fn import_group(&mut self, rest: &[Token<'_>], prefix: &[&str]) -> usize {
        let mut len = 0;
        loop {
            match rest.get(len) {
                None => return len,
                Some(Token::Mark('}')) => return len + 1,
                Some(Token::Mark(',')) => len += 1,
                Some(_) => len += self.import(&rest[len..], prefix).max(1),
            }
        }
    }

    fn imported(&mut self, names: &[&str], alias: &str) {
        if let Some(path) = self.absolute(names) {
            self.module().named.insert(path.clone());
            self.module().aliases.insert(alias.to_string(), path);
        }
    }

    fn imported_all(&mut self, names: &[&str]) {
        if let Some(path) = self.absolute(names) {
            self.module().named.insert(path.clone());
            self.module().globs.push(path);
        }
    }

    /// Returns the path of `names` from the crate's root. A bare name is treated as one of this module's
    /// submodules.
    fn absolute(&self, names: &[&str]) -> Option<ModulePath> {
        let (first, mut rest) = names.split_first()?;
        let mut base = match *first {
            "crate" => Vec::new(),
            "super" => self.at.split_last().map(|(_, parent)| parent.to_vec())?,
            "self" => self.at.clone(),
            _ => {
                rest = names;
                self.at.clone()
            }
        };
        while let Some((&"super", after)) = rest.split_first() {
            base.pop()?;
            rest = after;
        }
        base.extend(rest.iter().filter(|name| **name != "self").map(|name| (*name).to_string()));
        Some(base)
    }

    /// Skips an item that exists in tests only; returns the number of tokens.
    fn skip_test_item(&mut self, rest: &[Token<'_>]) -> usize {
        let (mut len, mut depth) = (TEST_ATTRIBUTE.len(), 0_usize);
        while let Some(token) = rest.get(len) {
            if let [Token::Word("mod"), Token::Word(name), Token::Mark(';'), ..] = &rest[len..] {
                self.tests.insert([&self.at[..], &[(*name).to_string()]].concat());
            }
            len += 1;
            match token {
                Token::Mark('{' | '(' | '[') => depth += 1,
                Token::Mark(')' | ']') => depth = depth.saturating_sub(1),
                Token::Mark('}') if depth <= 1 => return len - usize::from(depth == 0),
                Token::Mark('}') => depth -= 1,
                Token::Mark(';') if depth == 0 => return len,
                _ => {}
            }
        }
        len
    }
}

const TEST_ATTRIBUTE: [Token<'static>; 7] = [
    Token::Mark('#'),
    Token::Mark('['),
    Token::Word("cfg"),
    Token::Mark('('),
    Token::Word("test"),
    Token::Mark(')'),
    Token::Mark(']'),
];

fn is_test_attribute(rest: &[Token<'_>]) -> bool {
    rest.starts_with(&TEST_ATTRIBUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (module_path(Path::new(path)), text.to_string())).collect();
        circles_in("x", &files).iter().map(Circle::name).collect()
    }

    #[test]
    fn finds_two_modules_that_import_each_other() {
        let circle =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::{A, C};")];
        assert_eq!(found(&circle), ["x::{a, b}"]);
        assert_eq!(found(&circle[..2]), [""; 0]);
    }

    #[test]
    fn follows_reexports_of_the_root() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B as Other;"),
            ("a.rs", "pub struct A; fn f(b: crate::Other) {}"),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&files), ["x::{a, b}"]);
    }

    #[test]
    fn follows_globs() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::*;"),
            ("a.rs", "pub struct A; use crate::b;"),
            ("b.rs", "fn f() { crate::A }"),
        ];
        assert_eq!(found(&files), ["x::{a, b}"]);
    }

    #[test]
    fn finds_circles_within_a_folder() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; struct A;"),
            ("a/b.rs", "use super::c::C; use super::A;"),
            ("a/c.rs", "use crate::a::b::B; mod d { use super::super::A; }"),
        ];
        assert_eq!(found(&files), ["x::a::{b, c}"]);
    }

    #[test]
    fn lets_parents_and_submodules_refer_to_each_other() {
        let files = [
            ("lib.rs", "mod a; use a::A; struct B;"),
            ("a.rs", "mod c; use crate::B;"),
            ("a/c.rs", "use super::D;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn ignores_tests_comments_and_literals() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod rig;"),
            ("a.rs", "use crate::b; #[cfg(test)] use crate::rig;"),
            (
                "b.rs",
                "/// [`crate::a`]\nconst S: &str = \"crate::a\"; #[cfg(test)] mod tests { use crate::a; }",
            ),
            ("rig.rs", "use crate::a;"),
            ("b/tests.rs", "use crate::a;"),
        ];
        assert_eq!(found(&files[..4]), [""; 0]);
        assert!(is_test(Path::new(files[4].0)));
    }

    #[test]
    fn names_the_steps_of_a_longer_circle() {
        let files = [
            (vec!["a".into()], "use crate::b::B;".to_string()),
            (vec!["b".into()], "use crate::c::C;".to_string()),
            (vec!["c".into()], "fn f() { super::a::go() }".to_string()),
        ];
        let circles = circles_in("x", &files);
        let steps =
            ["a -> b (names crate::b::B)", "b -> c (names crate::c::C)", "c -> a (names crate::a::go)"];
        assert_eq!(circles[0].steps, steps);
    }

    #[test]
    fn known_circles_cover_their_parts_only() {
        let members = ["a", "b"].map(String::from).into();
        let circle = Circle { parent: "x::y".into(), members, steps: Vec::new() };
        assert!(circle.is_within("x::y::{a, b}") && circle.is_within("x::y::{a, b, c}"));
        assert!(!circle.is_within("x::y::{a, c}") && !circle.is_within("x::{a, b}"));
    }
}
