//! Results of tests: counts, and a report in JUnit's format, which other programs read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    /// Returns the sum over all closing lines of the harness in a text.
    pub(crate) fn of(text: &str) -> Self {
        let closing = text.lines().filter(|line| line.starts_with("test result: "));
        closing.fold(Self::default(), |sum, line| sum + Self::of_line(line))
    }

    fn of_line(line: &str) -> Self {
        let count = |what: &str| {
            let words: Vec<&str> = line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| *word == what);
            at.and_then(|at| words[at.checked_sub(1)?].parse().ok()).unwrap_or(0)
        };
        Self { passed: count("passed"), failed: count("failed"), ignored: count("ignored") }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

/// Returns a line on tests that did nothing, by their list: a test and its reason in each line.
pub(crate) fn skipped(list: &str) -> Option<String> {
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (test, reason) in list.lines().filter_map(|line| line.split_once('\t')) {
        tests.entry(reason).or_default().insert(test);
    }
    let count: usize = tests.values().map(BTreeSet::len).sum();
    let reasons: Vec<String> =
        tests.iter().map(|(reason, tests)| format!("{} for {reason}", tests.len())).collect();
    (count > 0).then(|| format!("skipped, though counted as passed: {count} tests, {}", reasons.join("; ")))
}

/// Result of a test program.
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) has_passed: bool,
    /// Everything that it printed.
    pub(crate) text: String,
}

impl Suite {
    /// Returns the part of the text in which a failed program says what failed: the harness' own, or else the last lines.
    pub(crate) fn failures(&self) -> String {
        /// Lines of a program that ended without a word of the harness.
        const LAST: usize = 40;
        let lines: Vec<&str> = self.text.lines().collect();
        let harness = lines.iter().position(|line| *line == "failures:");
        lines[harness.unwrap_or(lines.len().saturating_sub(LAST))..].join("\n")
    }
}

/// Returns a report of all programs in JUnit's format.
pub(crate) fn junit(suites: &[Suite]) -> String {
    let all: String = suites.iter().map(suite).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n{all}</testsuites>\n")
}

fn suite(suite: &Suite) -> String {
    let name = escaped(&suite.name);
    let mut text = format!("<testsuite name=\"{name}\" time=\"{:.3}\">\n", suite.seconds);
    for line in suite.text.lines().filter_map(|line| line.strip_prefix("test ")) {
        let Some((test, result)) = line.split_once(" ... ") else { continue };
        let content = match result.split([' ', ',']).next() {
            Some("ok") => "",
            Some("ignored") => "<skipped/>",
            _ => "<failure/>",
        };
        let _ =
            writeln!(text, "<testcase classname=\"{name}\" name=\"{}\">{content}</testcase>", escaped(test));
    }
    if !suite.has_passed {
        let _ = writeln!(text, "<system-out>{}</system-out>", escaped(&suite.text));
    }
    text + "</testsuite>\n"
}

/// Returns a text without characters that XML reserves or forbids.
fn escaped(text: &str) -> String {
    let is_allowed = |letter: &char| !letter.is_control() || *letter == '\n';
    let text: String = text.chars().filter(is_allowed).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
running 3 tests
test links::is_read ... ok
test links::is_slow ... ignored, takes minutes
test links::is_refused ... FAILED
thread 'links::is_refused' panicked: expected <a> & got <b>
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s
";

    #[test]
    fn closing_lines_are_summed() {
        let more = "test result: ok. 20 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out\n";
        let counts = Counts::of(&[TEXT, more].concat());
        assert_eq!(counts, Counts { passed: 21, failed: 1, ignored: 4 });
        assert_eq!(counts.to_string(), "21 passed, 1 failed, 4 ignored");
    }

    #[test]
    fn skipped_tests_are_counted_by_their_reasons() {
        let list =
            "live::a\tneeds root\nlive::b\tneeds root\nlive::b\tneeds root\ncaps\ttshark is not installed\n";
        let line = skipped(list).expect("three");
        assert!(line.ends_with("3 tests, 2 for needs root; 1 for tshark is not installed"), "{line}");
        assert_eq!(skipped(""), None);
    }

    #[test]
    fn failures_are_what_the_harness_says_or_the_last_lines() {
        let suite =
            |text: &str| Suite { name: String::new(), seconds: 1.0, has_passed: false, text: text.into() };
        let said =
            suite("running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwhy\n").failures();
        assert_eq!(said, "failures:\n\n---- a stdout ----\nwhy");
        let lines: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert!(suite(&lines.join("\n")).failures().starts_with("60\n61\n"));
    }

    #[test]
    fn a_report_has_each_test_and_what_a_failed_program_printed() {
        let suite = Suite { name: "links of net".into(), seconds: 1.5, has_passed: false, text: TEXT.into() };
        let report = junit(&[suite]);
        assert!(report.contains("name=\"links::is_read\"></testcase>"));
        assert!(report.contains("name=\"links::is_slow\"><skipped/>"));
        assert!(report.contains("name=\"links::is_refused\"><failure/>"));
        assert!(report.contains("expected &lt;a&gt; &amp; got"));
    }
}
