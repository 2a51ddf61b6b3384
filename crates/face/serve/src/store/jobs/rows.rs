//! Points and measures of a job, from lines of a file.
//!
//! A child makes the lines of a summary, which may have millions of measures: no more than a line is in the server's memory.

use std::io::{BufRead, Read, Write};

use bentpipe_record::Summary;
use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::store::files::OF_FILE;
use crate::store::{Result, StoreError};

/// Longest line.
const MAX_LINE: u64 = 1 << 20;

/// Line of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// Version of the definitions of all measures.
    Definitions(u32),
    /// Settings and fingerprints of the next point.
    Point { settings: Value, fingerprints: Vec<String> },
    /// Measure of that point.
    ///
    /// Its name and unit, number of seeds, mean, and half of the 95 % confidence interval.
    Measure(String, String, i64, Option<f64>, Option<f64>),
}

/// Writes the points and measures of a summary as lines.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub(crate) fn write_lines(summary: &Summary, out: &mut impl Write) -> std::io::Result<()> {
    let finite = |value: f64| value.is_finite().then_some(value);
    writeln!(out, "{}", json!(Line::Definitions(summary.definitions)))?;
    for point in &summary.points {
        let line = Line::Point { settings: json!(point.settings), fingerprints: point.fingerprints.clone() };
        writeln!(out, "{}", json!(line))?;
        for (name, averaged) in &point.measures {
            let estimate = &averaged.estimate;
            let (mean, half) = (finite(estimate.mean), estimate.ci95.and_then(finite));
            let line = Line::Measure(name.clone(), averaged.unit.clone(), estimate.n as i64, mean, half);
            writeln!(out, "{}", json!(line))?;
        }
    }
    Ok(())
}

/// Bytes of a point, a measure and a change without their texts.
const OF_POINT: usize = 16;
const OF_MEASURE: usize = 32;
pub(super) const OF_CHANGE: usize = 32;

/// Returns the bytes of a job's other rows.
///
/// They are of changes while it ran, of finished runs, and of the files that it reads.
fn others(db: &Transaction<'_>, id: i64) -> Result<usize> {
    let query = "SELECT
        (SELECT coalesce(sum(octet_length(json) + ?2), 0) FROM job_event WHERE job = ?1 AND kind IN ('set', 'run'))
          + (SELECT coalesce(sum(octet_length(name) + ?3), 0) FROM job_file WHERE job = ?1)";
    let bytes: i64 = db.query_row(query, params![id, OF_CHANGE as i64, OF_FILE], |row| row.get(0))?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Replaces the points and measures of a job by those of lines.
///
/// # Errors
/// Returns an error if they cannot be read, or are not what [`write_lines`] wrote.
pub(crate) fn set_rows(db: &Transaction<'_>, id: i64, mut lines: impl BufRead) -> Result<()> {
    db.execute("DELETE FROM point WHERE job = ?1", [id])?;
    db.execute("DELETE FROM measure WHERE job = ?1", [id])?;
    let mut add_point =
        db.prepare("INSERT INTO point(job, number, settings, fingerprints) VALUES (?1, ?2, ?3, ?4)")?;
    let mut add_measure = db.prepare(
        "INSERT OR REPLACE INTO measure(job, point, name, unit, n, mean, half) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let (mut bytes, mut points, mut taken) = (Vec::new(), 0_i64, others(db, id)?);
    loop {
        bytes.clear();
        if (&mut lines).take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            db.execute("UPDATE job SET rows = ?2 WHERE id = ?1", params![id, taken as i64])?;
            return Ok(());
        }
        match serde_json::from_slice(&bytes).map_err(|error| StoreError::from(std::io::Error::from(error)))? {
            Line::Definitions(version) => {
                db.execute("UPDATE job SET definitions = ?2 WHERE id = ?1", params![id, version])?;
            }
            Line::Point { settings, fingerprints } => {
                let (settings, fingerprints) = (settings.to_string(), fingerprints.join(" "));
                taken += OF_POINT + settings.len() + fingerprints.len();
                add_point.execute(params![id, points, settings, fingerprints])?;
                points += 1;
            }
            Line::Measure(name, unit, n, mean, half) => {
                taken += OF_MEASURE + name.len() + unit.len();
                add_measure.execute(params![id, points - 1, name, unit, n, mean, half])?;
            }
        }
    }
}
