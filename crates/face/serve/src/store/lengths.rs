//! Lengths of jobs: the time that running ones have left, and that of queued ones.

use rusqlite::{OptionalExtension, Transaction};

use super::Result;
use super::jobs::{ATTEMPT_STARTED, REAL_MS};

/// Number of jobs that ended last, whose mean time is expected of others.
const KNOWN: i64 = 20;
/// Finished share from which a running job's time is computed by its own progress.
const ENOUGH: f64 = 0.02;

/// Job whose end is expected.
pub(super) struct Timed {
    /// Set for an emulation, which runs alone.
    pub(super) is_alone: bool,
    /// Time of its first start in milliseconds since 1970; zero for one that is queued.
    started: i64,
    /// Time to its end in milliseconds; that of one which is queued is its length.
    pub(super) left: Option<i64>,
}

/// Returns the mean time of the jobs that ended last, in milliseconds, if one has.
pub(super) fn mean(db: &Transaction<'_>) -> Result<Option<i64>> {
    let mean = "SELECT CAST(avg(ended - started) AS INTEGER) FROM (SELECT started, ended FROM job
        WHERE started IS NOT NULL AND ended IS NOT NULL AND origin IS NULL ORDER BY ended DESC LIMIT ?1)";
    Ok(db.query_row(mean, [KNOWN], |row| row.get(0)).optional()?.flatten())
}

/// Returns the longest job that may overtake a queued one which runs alone, in milliseconds.
///
/// It ends before those do which ran when the other one came. What overtook it since does not count, or it would wait indefinitely.
pub(super) fn most_before(db: &Transaction<'_>, alone: i64, now: i64) -> Result<i64> {
    let created: i64 = db.query_row("SELECT created FROM job WHERE id = ?1", [alone], |row| row.get(0))?;
    let running = running(db, mean(db)?, now)?;
    let earlier = running.iter().filter(|one| one.started < created);
    Ok(earlier.filter_map(|one| one.left).max().unwrap_or(0))
}

/// Returns `true` if a queued job is expected to take `most` milliseconds or less.
pub(super) fn fits(db: &Transaction<'_>, id: i64, most: i64) -> Result<bool> {
    Ok(of_queue(db, id, mean(db)?)?.left.is_some_and(|length| length <= most))
}

/// Returns the running jobs with the times that they have left.
///
/// In real time it is that of their length, else that of their progress, or that of other jobs.
pub(super) fn running(db: &Transaction<'_>, mean: Option<i64>, now: i64) -> Result<Vec<Timed>> {
    let query = format!(
        "SELECT kind = 'emulate', coalesce({ATTEMPT_STARTED}, started, ?1), share, {REAL_MS}, coalesce(started, ?1)
        FROM job WHERE state = 'running'"
    );
    let mut query = db.prepare(&query)?;
    let rows = query.query_map([now], |row| {
        let (is_alone, started, share): (bool, i64, f64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (passed, real_ms) = ((now - started).max(0), row.get::<_, Option<i64>>(3)?);
        let by_share = (share > ENOUGH)
            .then(|| (passed as f64 * (1.0 - share) / share) as i64)
            .or(mean.map(|mean| mean - passed));
        let left = real_ms.map(|real_ms| real_ms.saturating_sub(passed)).or(by_share);
        Ok(Timed { is_alone, started: row.get(4)?, left: left.map(|left| left.max(0)) })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the length of a queued job: its real time, or the mean of others.
pub(super) fn of_queue(db: &Transaction<'_>, id: i64, mean: Option<i64>) -> Result<Timed> {
    let query = format!("SELECT kind = 'emulate', {REAL_MS} FROM job WHERE id = ?1");
    Ok(db.query_row(&query, [id], |row| {
        Ok(Timed { is_alone: row.get(0)?, started: 0, left: row.get::<_, Option<i64>>(1)?.or(mean) })
    })?)
}
