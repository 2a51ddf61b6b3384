//! Committed limits (`xtask/ratchet.toml`): counts of words and known circles of modules, which may only shrink.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::modules::Circle;
use super::words::{Counts, Hit};
use crate::{output_of, root};

/// Breaches shown for each rule.
const SHOWN: usize = 12;

/// Limits as committed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratchet {
    /// Circles of modules and crates that are still to be cut.
    circles: Vec<String>,
    /// Highest count allowed for each rule on words.
    words: Counts,
}

fn file() -> PathBuf {
    root().join("xtask/ratchet.toml")
}

impl Ratchet {
    /// Reads the committed limits.
    pub(super) fn read() -> Result<Ratchet> {
        let text = std::fs::read_to_string(file())
            .with_context(|| format!("{} cannot be read", file().display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not as expected", file().display()))
    }

    /// Lowers the limits to the present counts and circles, and writes them back.
    pub(super) fn update(self, circles: &[Circle], counts: &Counts) -> Result<()> {
        let text =
            toml::to_string_pretty(&self.lowered(circles, counts)).context("limits cannot be written")?;
        std::fs::write(file(), HEAD.to_string() + &text)
            .with_context(|| format!("{} cannot be written", file().display()))
    }

    fn lowered(self, circles: &[Circle], counts: &Counts) -> Ratchet {
        let known = circles.iter().filter(|circle| self.is_known(circle)).map(Circle::name);
        let limit = |(rule, count): (&String, &u64)| {
            (rule.clone(), *self.words.get(rule).unwrap_or(count).min(count))
        };
        Ratchet { circles: known.collect(), words: counts.iter().map(limit).collect() }
    }

    fn is_known(&self, circle: &Circle) -> bool {
        self.circles.iter().any(|known| circle.is_within(known))
    }

    /// Returns a message for each circle that is not known.
    pub(super) fn new_circles(&self, circles: &[Circle]) -> Vec<String> {
        let new = circles.iter().filter(|circle| !self.is_known(circle));
        new.map(|circle| format!("circle {}: {}", circle.name(), circle.steps.join(", "))).collect()
    }

    /// Returns a message for each rule that is broken more often than allowed.
    ///
    /// It has places in files that differ from `main`, or any.
    pub(super) fn new_words(&self, counts: &Counts, hits: &[Hit]) -> Vec<String> {
        let grown = counts.iter().filter(|(rule, count)| **count > self.limit(rule));
        grown
            .flat_map(|(rule, count)| {
                let head =
                    format!("{rule}: {count} breaches, {} allowed (CONTRIBUTING.md)", self.limit(rule));
                std::iter::once(head).chain(places(rule, hits))
            })
            .collect()
    }

    fn limit(&self, rule: &str) -> u64 {
        self.words.get(rule).copied().unwrap_or(0)
    }

    /// Returns how many limits are above the present counts.
    pub(super) fn slack(&self, counts: &Counts) -> usize {
        counts.iter().filter(|(rule, count)| **count < self.limit(rule)).count()
    }
}

const HEAD: &str = "\
# Limits of `cargo xtask tidy` that may only fall: words and phrases that CONTRIBUTING.md replaces, and circles of modules
# that are still to be cut. `cargo xtask tidy --update` lowers them.
";

fn places(rule: &str, hits: &[Hit]) -> Vec<String> {
    let of_rule: Vec<&Hit> = hits.iter().filter(|hit| hit.rule == rule).collect();
    let changed = output_of("git", &["diff", "--name-only", "main"]).unwrap_or_default();
    let recent: Vec<&Hit> = of_rule
        .iter()
        .copied()
        .filter(|hit| changed.lines().any(|file| hit.file.as_os_str() == file))
        .collect();
    let shown = if recent.is_empty() { of_rule } else { recent };
    shown.iter().take(SHOWN).map(|hit| shown_place(hit)).collect()
}

/// Returns the place and the text of a breach, on a line.
pub(super) fn shown_place(hit: &Hit) -> String {
    let text: String = hit.text.chars().take(100).collect();
    format!("  {}:{}: {}", hit.file.display(), hit.line, text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(members: [&str; 2]) -> Circle {
        Circle { parent: "x".into(), members: members.map(String::from).into(), steps: vec!["a -> b".into()] }
    }

    fn ratchet() -> Ratchet {
        Ratchet {
            circles: vec!["x::{a, b, c}".into()],
            words: [("anew".into(), 3), ("told".into(), 1)].into(),
        }
    }

    #[test]
    fn refuses_what_grows() {
        let counts: Counts = [("anew".into(), 4), ("told".into(), 0)].into();
        let hits = [Hit { rule: "anew".into(), file: "no/such.rs".into(), line: 7, text: "Anew".into() }];
        let expected = ["anew: 4 breaches, 3 allowed (CONTRIBUTING.md)", "  no/such.rs:7: Anew"];
        assert_eq!(ratchet().new_words(&counts, &hits), expected);
        assert_eq!(ratchet().slack(&counts), 1);
        assert_eq!(ratchet().new_circles(&[circle(["a", "b"])]), [""; 0]);
        assert_eq!(ratchet().new_circles(&[circle(["a", "d"])]), ["circle x::{a, d}: a -> b"]);
    }

    #[test]
    fn lowers_limits_and_never_raises_them() {
        let counts: Counts = [("anew".into(), 4), ("told".into(), 0)].into();
        let lowered = ratchet().lowered(&[circle(["a", "b"]), circle(["a", "d"])], &counts);
        let words: Counts = [("anew".into(), 3), ("told".into(), 0)].into();
        assert_eq!(lowered, Ratchet { circles: vec!["x::{a, b}".into()], words });
    }
}
