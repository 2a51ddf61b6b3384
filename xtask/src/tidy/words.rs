//! Counts of words and phrases that the style guide replaces, as a ratchet.
//!
//! The guide is in CONTRIBUTING.md. A count may only fall.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use regex::{Regex, RegexBuilder};

use super::source::{Class, pieces, sources, without_tests};

/// Part of a file that a rule reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// First sentence of a doc comment.
    Opening,
    /// Doc comment of a function that returns `bool`.
    Predicate,
    /// Comments, doc comments included.
    Comments,
    /// String literals.
    Literals,
    /// Markdown pages.
    Pages,
    /// Code, for identifiers.
    Code,
}

/// Rules on the first sentence of a doc comment.
const OPENINGS: &[(&str, &str)] = &[
    ("question word", r"^(What|How|Whether|When|Where|Which|Who|Whose|Why)\b"),
    ("pronoun", r"^(Its|Their|It|They|Those|These|This)\b"),
    ("vague verb", r"^(Takes|Puts|Gives|Hands|Lets|Leads|Brings|Makes|Looks|Goes)\b"),
    ("connective", r"^(As|So)\b"),
    ("preposition", r"^(Of|From|To|For|In|By|At|With|Without|Behind|Before|After)\b"),
    ("quantifier", r"^(One|All|None|Nothing|Nobody|Everything|Somebody)\b"),
    ("result in a tail", r"; (when|how|what|whether|where|how many|none|nothing|true)\b"),
    ("over 15 words", r"^\s*(\S+\s+){15,}\S"),
];

/// Words and phrases in comments, literals and pages.
const PHRASES: &[(&str, &str)] = &[
    ("reckon", r"\breckon\w*"),
    ("anew", r"\banew\b"),
    ("so many", r"\bso (many|much|often|far)\b"),
    ("beside", r"\b(beside|besides)\b"),
    ("tell", r"\b(re)?(tells?|told)\b"),
    ("hear", r"\b(hears?|heard)\b"),
    ("trouble", r"\btroubles?\b"),
    ("stranger", r"\bstrang(e|ers?)\b|\bstands?[- ]in\b|\bweather\b"),
    ("take down", r"\btakes? down\b|\bput(s|ting)? (down|right|in order)\b"),
    ("hold against", r"\b(held|holds?) (\w+ )?against\b"),
    ("is no", r"\b(is|are|was) (none|no) \w+"),
    ("somebody", r"\b(some|no|every|any)body\b|\bwho(ever|soever)\b|\bwhatever\b"),
    ("under way", r"\bunder way\b|\bat hand\b|\bfor ever\b|\bat one go\b"),
    ("is said", r"\b(is|are|was|were) (said|told)\b|\bas (the )?\w+ says?\b"),
    ("ours", r"\bours?\b"),
    ("seed as a source", r"\bseed 0\d\d\b|\bthe seed's\b"),
    ("CRC of n bits", r"\bCRCs? of (3|7|8|three|seven|eight) bits\b"),
];

/// Private words in identifiers.
const IDENTIFIERS: &str = r"\b(\w*_)?(patience|straits?|born|births?|weather|strangers?|reckon|unlose|told|tells?|retell\w*|hears?|heard|beside|minds|heed|hurry|fate|trouble\w*|mistakes?|anew|islands?)(_\w+)?\b";

/// Longest sentence of a page, in words.
const LONGEST_SENTENCE: usize = 35;

/// Longest page of a model, in words.
const LONGEST_MODEL: usize = 1200;

/// Breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Name of the rule, with the part it reads.
    pub(super) rule: String,
    /// File, relative to the root.
    pub(super) file: PathBuf,
    /// Line in the file, counted from 1.
    pub(super) line: usize,
    /// Text that the rule matches.
    pub(super) text: String,
}

/// Number of breaches of each rule.
pub(super) type Counts = BTreeMap<String, u64>;

/// Counts the hits of each rule; a rule without any counts 0.
pub(super) fn counts(rules: &Rules, hits: &[Hit]) -> Counts {
    let mut counts: Counts = rules.names().map(|name| (name, 0)).collect();
    hits.iter().for_each(|hit| *counts.entry(hit.rule.clone()).or_default() += 1);
    counts
}

/// Compiled rules.
pub(super) struct Rules {
    rules: Vec<(String, Part, Regex)>,
}

impl Rules {
    /// Compiles the rules.
    pub(super) fn new() -> Result<Rules> {
        let mut rules = Vec::new();
        for (name, pattern) in OPENINGS {
            rules.push((format!("opening: {name}"), Part::Opening, compiled(pattern, false)?));
        }
        rules.push(("predicate".into(), Part::Predicate, compiled("^Returns `true`", false)?));
        for (name, pattern) in PHRASES {
            let expression = compiled(pattern, true)?;
            for (part, place) in
                [(Part::Comments, "comments"), (Part::Literals, "literals"), (Part::Pages, "pages")]
            {
                rules.push((format!("{place}: {name}"), part, expression.clone()));
            }
        }
        rules.push(("identifiers".into(), Part::Code, compiled(IDENTIFIERS, false)?));
        Ok(Rules { rules })
    }

    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let whole = ["pages: long sentence", "pages: long model page"].map(String::from);
        self.rules.iter().map(|(name, ..)| name.clone()).chain(whole)
    }

    /// Finds the breaches in all sources and pages of the repository.
    pub(super) fn hits(&self, root: &Path) -> Result<Vec<Hit>> {
        let mut hits = Vec::new();
        for file in sources(root) {
            let text = read(&file)?;
            hits.extend(self.in_source(&relative(root, &file), without_tests(&text)));
        }
        for file in pages(root) {
            let text = read(&file)?;
            hits.extend(self.in_page(&relative(root, &file), &text));
        }
        Ok(hits)
    }

    fn in_source(&self, file: &Path, source: &str) -> Vec<Hit> {
        let lines = Lines::new(source);
        let mut hits = Vec::new();
        for piece in pieces(source) {
            let part = match piece.class {
                Class::Code => Part::Code,
                Class::Comment => Part::Comments,
                Class::Literal => Part::Literals,
            };
            self.apply(part, piece.text, |rule, at, text| {
                hits.push(hit(rule, file, lines.number(piece.offset + at), text));
            });
        }
        for doc in docs(source) {
            let opening = first_sentence(&doc.text);
            self.apply(Part::Opening, &opening, |rule, _, _| hits.push(hit(rule, file, doc.line, &opening)));
            if doc.is_of_predicate {
                self.lacking(&opening, |rule| hits.push(hit(rule, file, doc.line, &opening)));
            }
        }
        hits
    }

    fn in_page(&self, file: &Path, text: &str) -> Vec<Hit> {
        let lines = Lines::new(text);
        let mut hits = Vec::new();
        self.apply(Part::Pages, text, |rule, at, text| hits.push(hit(rule, file, lines.number(at), text)));
        let long = sentences(text).into_iter().filter(|(_, sentence)| words(sentence) > LONGEST_SENTENCE);
        hits.extend(long.map(|(line, sentence)| hit("pages: long sentence", file, line, &sentence)));
        if file.starts_with("docs/models") && words(text) > LONGEST_MODEL {
            hits.push(hit("pages: long model page", file, 1, &format!("{} words", words(text))));
        }
        hits
    }

    fn apply(&self, part: Part, text: &str, mut found: impl FnMut(&str, usize, &str)) {
        for (name, _, rule) in self.rules.iter().filter(|(_, reads, _)| *reads == part) {
            rule.find_iter(text).for_each(|hit| found(name, hit.start(), hit.as_str()));
        }
    }

    fn lacking(&self, opening: &str, mut found: impl FnMut(&str)) {
        let rules = self.rules.iter().filter(|(_, part, _)| *part == Part::Predicate);
        rules.filter(|(.., rule)| !rule.is_match(opening)).for_each(|(name, ..)| found(name));
    }
}

/// Compiles a pattern. Words are ASCII, which keeps matching fast in text that is not.
fn compiled(pattern: &str, ignores_case: bool) -> Result<Regex> {
    let ascii = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]");
    RegexBuilder::new(&ascii)
        .case_insensitive(ignores_case)
        .build()
        .with_context(|| format!("rule {pattern}"))
}

fn hit(rule: &str, file: &Path, line: usize, text: &str) -> Hit {
    Hit { rule: rule.into(), file: file.into(), line, text: text.into() }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

fn relative(root: &Path, file: &Path) -> PathBuf {
    file.strip_prefix(root).unwrap_or(file).into()
}

/// Returns the Markdown pages of the repository.
///
/// Left out are the style guide, which names the words it replaces, and generated pages, whose words are
/// those of the source.
pub(super) fn pages(root: &Path) -> Vec<PathBuf> {
    let folders = ["docs", "studies", "crates", "contrib", "benches", "scenarios", "gateway"];
    let mut pages: Vec<PathBuf> =
        folders.iter().flat_map(|folder| crate::files(&root.join(folder), ".md")).collect();
    let top = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    pages.extend(top.filter(|path| is_page(path) && !path.ends_with("CONTRIBUTING.md")));
    let generated = ["cli", "keys", "metrics", "study-results"]
        .map(|name| root.join(format!("docs/reference/{name}.md")));
    pages.retain(|path| !generated.contains(path));
    pages.sort();
    pages
}

/// Starts of the lines of a text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Lines {
        Lines(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    fn number(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }
}

/// Doc comment.
struct Doc {
    /// First paragraph, on one line.
    text: String,
    /// Line of its start, counted from 1.
    line: usize,
    /// Set if it documents a function that returns `bool`.
    is_of_predicate: bool,
}

/// Returns the doc comments of a source, outer and inner.
fn docs(source: &str) -> Vec<Doc> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let Some(marker) = marker(lines[at]) else {
            at += 1;
            continue;
        };
        let block = lines[at..].iter().take_while(|line| line.starts_with(marker)).count();
        let first = lines[at..at + block].iter().map(|line| line[marker.len()..].trim());
        let text = first.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let is_of_predicate = marker == "///" && is_predicate(&lines[at + block..]);
        found.push(Doc { text, line: at + 1, is_of_predicate });
        at += block;
    }
    found
}

fn marker(line: &str) -> Option<&'static str> {
    let is_rule = line.starts_with("////");
    ["///", "//!"].into_iter().find(|marker| line.starts_with(marker) && !is_rule)
}

/// Returns `true` if the item at `lines`, after its attributes, returns `bool`.
fn is_predicate(lines: &[&str]) -> bool {
    let item: Vec<&&str> = lines.iter().skip_while(|line| line.starts_with("#[")).take(12).collect();
    let is_function = item.first().is_some_and(|line| line.starts_with("fn ") || line.contains(" fn "));
    let mut signature = String::new();
    for line in item {
        signature.push_str(line);
        if line.contains(['{', ';']) {
            break;
        }
    }
    let head = signature.split(['{', ';']).next().unwrap_or_default();
    let returned = head.rsplit("->").next().unwrap_or_default().split(" where ").next().unwrap_or_default();
    is_function && head.contains("->") && returned.trim() == "bool"
}

/// Returns the first sentence of a paragraph.
fn first_sentence(text: &str) -> String {
    let end = text.match_indices(". ").map(|(at, _)| at + 1).find(|end| !is_abbreviation(&text[..*end]));
    text[..end.unwrap_or(text.len())].to_string()
}

fn is_abbreviation(text: &str) -> bool {
    let last = text.rsplit(' ').next().unwrap_or_default().trim_start_matches('(');
    ["e.g.", "i.e.", "al.", "vs.", "cf.", "approx."].contains(&last)
}

/// Returns the sentences of a page with their lines. Headings, tables, code and HTML are left out.
fn sentences(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut is_code, mut paragraph) = (Vec::new(), false, (1, String::new()));
    for (index, line) in page.lines().chain([""]).enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        is_code ^= fence;
        let starts_item = ["- ", "* ", "1. "].iter().any(|mark| line.starts_with(mark));
        let ends = line.is_empty() || starts_item || line.starts_with(['#', '|', '<']) || fence || is_code;
        if ends {
            found.extend(split(&std::mem::take(&mut paragraph)));
        }
        if !ends || starts_item {
            if paragraph.1.is_empty() {
                paragraph.0 = index + 1;
            }
            paragraph.1.push_str(line);
            paragraph.1.push(' ');
        }
    }
    found
}

fn split((line, text): &(usize, String)) -> Vec<(usize, String)> {
    let mut rest = text.as_str();
    let mut found = Vec::new();
    while !rest.trim().is_empty() {
        let sentence = first_sentence(rest);
        rest = &rest[sentence.len()..];
        found.push((*line, sentence.trim().to_string()));
    }
    found
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(source: &str) -> Vec<String> {
        let hits = Rules::new().unwrap().in_source(Path::new("a.rs"), source);
        hits.into_iter().map(|hit| format!("{} {}", hit.line, hit.rule)).collect()
    }

    #[test]
    fn checks_openings_of_doc_comments() {
        let source =
            "//! How a queue works.\n\n/// Whether it is empty.\n#[inline]\npub fn f(&self) -> bool {\n";
        let expected = ["1 opening: question word", "3 opening: question word", "3 predicate"];
        assert_eq!(rules_of(source), expected);
        assert_eq!(rules_of("/// Returns `true` if it is empty.\nfn f() -> bool;"), [""; 0]);
        assert_eq!(rules_of("/// Checks it.\npub(crate) const fn f() -> bool {"), ["1 predicate"]);
        assert_eq!(rules_of("/// Sets the flag.\nfn f(on: bool) {}"), [""; 0]);
        assert_eq!(rules_of("/// Number of bits.\nbits: u8,\n}\n\nfn f() -> bool {"), [""; 0]);
    }

    #[test]
    fn counts_the_words_of_the_first_sentence_only() {
        let long = "/// A b c d e f g h i j k l m n o p.";
        assert_eq!(rules_of(long), ["1 opening: over 15 words"]);
        assert_eq!(rules_of("/// A b c d e f g h i j k l m n o.\n/// And a second sentence."), [""; 0]);
        assert_eq!(
            rules_of("/// A b c d e f g h i j k l m n interval.\n/// And a second sentence."),
            [""; 0]
        );
    }

    #[test]
    fn tells_comments_literals_and_code_apart() {
        let source = "// anew\nlet heard_it = \"besides\"; // Besides\n";
        let mut found = rules_of(source);
        found.sort();
        assert_eq!(found, ["1 comments: anew", "2 comments: beside", "2 identifiers", "2 literals: beside"]);
    }

    #[test]
    fn finds_long_sentences_of_pages_outside_code_and_tables() {
        let long = "word ".repeat(36);
        let page = format!("# {long}\n\n| {long} |\n\n```\n{long}\n```\n\nShort one. {long}.\n- {long}\n");
        let hits = Rules::new().unwrap().in_page(Path::new("docs/a.md"), &page);
        assert_eq!(hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), [9, 10]);
    }

    #[test]
    fn every_rule_has_a_count() {
        let rules = Rules::new().unwrap();
        let counts = counts(&rules, &[hit("predicate", Path::new("a.rs"), 1, "")]);
        assert_eq!((counts["predicate"], counts["identifiers"]), (1, 0));
        assert_eq!(counts.len(), rules.names().count());
    }
}
