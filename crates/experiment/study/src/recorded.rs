//! Results of full runs that are kept with a study, and their tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use bentpipe_record::write_json;
use serde::{Deserialize, Serialize};
use time::{SignedDuration, UtcDateTime};

use crate::comparison::Comparison;
use crate::expected::{Kind, Verdict};
use crate::reproduce::Reproduced;
use crate::study::Study;

/// Results of a full run of a study, in the file `results.json` of its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Date of the run: "2026-11-29".
    pub date: String,
    /// Wall-clock time of its runs in seconds, one after the other.
    pub seconds: u64,
    /// Rows in the order of the study.
    pub rows: Vec<RecordedRow>,
}

/// Row of [`Recorded`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRow {
    /// Name in the study.
    pub id: String,
    /// Description.
    pub what: String,
    /// Worth of the comparison.
    pub kind: Kind,
    /// Published value, or that of the study itself in a row of its own.
    pub expected: String,
    /// Simulated value.
    pub simulated: String,
    /// Result of the comparison.
    pub verdict: Verdict,
    /// Cause of a known miss; empty if there is none.
    pub known: String,
}

impl Recorded {
    /// Returns the results of a run.
    ///
    /// It ended the given number of seconds after 1970 began.
    pub fn new(reproduced: &Reproduced, since_1970_s: u64) -> Recorded {
        let rows = reproduced.comparisons.iter().map(RecordedRow::new).collect();
        let (date, seconds) = (date(since_1970_s / 86_400), reproduced.seconds.round() as u64);
        Recorded { date, seconds, rows }
    }

    /// Reads the results kept in the folder of a study; `None` if there are none.
    ///
    /// # Errors
    /// Returns an error if the file is not one of results.
    pub fn read(folder: &Path) -> io::Result<Option<Recorded>> {
        match std::fs::read(path(folder)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the results in the folder of a study.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(&path(folder), self)
    }
}

impl RecordedRow {
    fn new(comparison: &Comparison) -> RecordedRow {
        let row = &comparison.row;
        RecordedRow {
            id: row.id.clone(),
            what: row.what.clone(),
            kind: row.kind,
            expected: comparison.expected_text(),
            simulated: comparison.simulated_text(),
            verdict: comparison.verdict,
            known: row.missed.clone(),
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("results.json")
}

/// Returns the date of a day after 1970-01-01.
fn date(days: u64) -> String {
    let days = SignedDuration::days(i64::try_from(days).unwrap_or(0));
    let date = UtcDateTime::UNIX_EPOCH.saturating_add(days).date();
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}

/// Returns a Markdown table with the state of each published result of the studies.
pub fn state_table(studies: &[(Study, Option<Recorded>)]) -> String {
    let mut table = String::from(
        "| | published | study | predictions and claims | other published values | own checks |\n|---|---|---|---|---|---|\n",
    );
    for (study, recorded) in studies {
        let rows = recorded.as_ref().map_or(&[][..], |recorded| &recorded.rows);
        for (id, what) in &study.published {
            let states = [JUDGED, OTHERS, &[Kind::Own]].map(|kinds| state(rows, id, kinds)).join(" | ");
            let _ = writeln!(table, "| {id} | {what} | `{}` | {states} |", study.name);
        }
    }
    table
}

/// Kinds that a result stands or falls with.
const JUDGED: &[Kind] = &[Kind::Predicted, Kind::Claim];

/// Other kinds with a published value.
const OTHERS: &[Kind] = &[Kind::Calibrated, Kind::Arithmetic, Kind::Input];

/// Returns the verdicts of the rows of a result that are of some kinds.
fn state(rows: &[RecordedRow], id: &str, kinds: &[Kind]) -> String {
    let text = counted(rows.iter().filter(|row| row.id == id && kinds.contains(&row.kind)));
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Returns the number of rows with each verdict: "3 met, 1 missed".
fn counted<'a>(rows: impl Iterator<Item = &'a RecordedRow>) -> String {
    let verdicts: Vec<Verdict> = rows.map(|row| row.verdict).collect();
    let count = |verdict: Verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (verdict, count(verdict)));
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    counts.map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", ")
}

/// Returns a Markdown page with all rows of the studies' kept results.
pub fn results_page(studies: &[(Study, Option<Recorded>)]) -> String {
    let mut page = String::new();
    for (study, recorded) in studies {
        let _ = write!(page, "\n## {}\n\n", study.name);
        let Some(recorded) = recorded else {
            page.push_str("No full run is kept.\n");
            continue;
        };
        let time = recorded.seconds.div_ceil(60);
        let _ = write!(page, "Full run of {}: {time} min on one processor.\n\n", recorded.date);
        page.push_str(&totals(&recorded.rows));
        page.push_str(
            "\n| | what | published or expected | simulated | verdict | kind |\n|---|---|---|---|---|---|\n",
        );
        recorded.rows.iter().for_each(|row| line(&mut page, row));
    }
    page
}

/// Returns the counts of verdicts, a line for each kind.
fn totals(rows: &[RecordedRow]) -> String {
    let mut by_kind: BTreeMap<usize, Vec<&RecordedRow>> = BTreeMap::new();
    for row in rows {
        let place = Kind::ALL.iter().position(|kind| *kind == row.kind).unwrap_or(0);
        by_kind.entry(place).or_default().push(row);
    }
    let line = |(place, rows): (&usize, &Vec<&RecordedRow>)| {
        format!("- {}: {}\n", Kind::ALL[*place].heading(), counted(rows.iter().copied()))
    };
    by_kind.iter().map(line).collect()
}

fn line(page: &mut String, row: &RecordedRow) {
    let RecordedRow { id, what, kind, expected, simulated, verdict, known } = row;
    let known = if known.is_empty() { String::new() } else { format!(" ({known})") };
    let cells = [
        id.clone(),
        what.clone(),
        expected.clone(),
        simulated.clone(),
        format!("{verdict}{known}"),
        kind.to_string(),
    ];
    let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(
            [0, 59, 11_016, 20_786].map(date),
            ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-29"]
        );
    }

    fn row(id: &str, kind: Kind, verdict: Verdict) -> RecordedRow {
        let text = |text: &str| text.to_owned();
        let (what, expected, simulated, known) = (text("delay | mean"), text("1 s"), text("2 s"), text(""));
        RecordedRow { id: id.to_owned(), what, kind, expected, simulated, verdict, known }
    }

    #[test]
    fn tables_count_predictions_and_claims_apart() {
        let study = crate::study::parsed(
            "title = \"t\"\nsource = \"s\"\nrow = []\n[published]\nK1 = \"The window\"\nK2 = \"The rest\"\n",
        )
        .expect("a study");
        let rows = vec![
            row("K1", Kind::Predicted, Verdict::Met),
            row("K1", Kind::Claim, Verdict::Missed),
            row("K1", Kind::Calibrated, Verdict::Met),
            row("K1", Kind::Own, Verdict::Met),
        ];
        let recorded = Recorded { date: "2026-11-29".into(), seconds: 61, rows };
        let studies = [(study, Some(recorded))];
        let table = state_table(&studies);
        assert!(
            table.contains("| K1 | The window | `test` | 1 met, 1 missed | 1 met | 1 met |\n"),
            "{table}"
        );
        assert!(table.contains("| K2 | The rest | `test` | - | - | - |\n"), "{table}");
        let page = results_page(&studies);
        assert!(page.contains("Full run of 2026-11-29: 2 min"), "{page}");
        assert!(page.contains("| K1 | delay \\| mean | 1 s | 2 s | missed | claim |\n"), "{page}");
        assert!(page.contains("- own checks, not published: 1 met\n"), "{page}");
    }
}
