//! Turns of queued jobs: which one starts next.
//!
//! Jobs with a smaller priority number go first. Of one priority users take turns: the first jobs of each user go before the second
//! ones, running jobs counted, and of users with as many the one whose last start is the longest ago is next. So a user who queues a
//! hundred jobs keeps others waiting for one of them.

use rusqlite::{OptionalExtension, Transaction, params};

use super::Result;
use super::jobs::{JOB, Job, JobState, KindName, job, set_state};
use super::lengths;
use crate::clock::now_ms;

/// Queued jobs in the order of their starts, with running jobs of the owner.
///
/// The last start of a user is that of the newest job which has one. The sign keeps SQLite to the index of states.
const ORDER: &str = "WITH
    queued AS MATERIALIZED (
        SELECT id, owner, priority, row_number() OVER (PARTITION BY owner, priority ORDER BY id) AS place
        FROM job WHERE state = 'queued' AND cancel = 0),
    known AS MATERIALIZED (
        SELECT owner,
            (SELECT count(*) FROM job WHERE state = 'running' AND +owner = each.owner) AS running,
            (SELECT started FROM job WHERE owner = each.owner AND started IS NOT NULL ORDER BY id DESC LIMIT 1) AS last
        FROM (SELECT DISTINCT owner FROM queued) AS each)
    SELECT id, running FROM queued JOIN known USING (owner) ORDER BY priority, place + running, coalesce(last, 0), id";

/// Condition on jobs that no reservation of others keeps back at the time `?2`.
///
/// An owner's reserved places count as taken until jobs of the owner have them. Jobs on sites need none.
const PERMITTED: &str = "NOT EXISTS (
        SELECT 1 FROM reservation AS of_other WHERE start <= ?2 AND end > ?2 AND of_other.owner <> job.owner AND (
            what = 'testbed' OR (what = 'emulate' AND job.kind = 'emulate')
            OR (what = 'processors' AND job.kind IN ('emulate', 'campaign'))
            OR (what = 'site' AND EXISTS (
                SELECT 1 FROM job_site WHERE job_site.job = job.id AND job_site.site = of_other.site))))
    AND (job.kind = 'sites' OR NOT EXISTS (
        SELECT 1 FROM reservation AS of_other
        WHERE start <= ?2 AND end > ?2 AND of_other.owner <> job.owner AND what = 'processors')
      OR (SELECT processors FROM capacity)
        > (SELECT count(*) FROM job AS other WHERE other.state = 'running' AND other.kind <> 'sites')
        + (SELECT coalesce(sum(max(0, held.places - (
                SELECT count(*) FROM job AS other
                WHERE other.state = 'running' AND other.kind <> 'sites' AND other.owner = held.owner))), 0)
            FROM (SELECT owner, sum(processors) AS places FROM reservation
                WHERE start <= ?2 AND end > ?2 AND what = 'processors' GROUP BY owner) AS held
            WHERE held.owner <> job.owner))";

/// Returns the queued jobs in the order in which they start.
///
/// Each has the number of running jobs of its owner.
pub(super) fn order(db: &Transaction<'_>) -> Result<Vec<(i64, u32)>> {
    let mut query = db.prepare(ORDER)?;
    let all = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(all.collect::<rusqlite::Result<_>>()?)
}

/// Returns the kind of a queued job, unless a reservation keeps it back.
pub(super) fn permitted(db: &Transaction<'_>, job: i64, now: i64) -> Result<Option<KindName>> {
    let query = format!("SELECT kind FROM job WHERE id = ?1 AND {PERMITTED}");
    Ok(db.query_row(&query, params![job, now], |row| row.get(0)).optional()?)
}

/// Returns `true` if a job runs that fits a condition.
fn runs(db: &Transaction<'_>, condition: &str) -> Result<bool> {
    let query = format!("SELECT EXISTS (SELECT 1 FROM job WHERE state = 'running' AND {condition})");
    Ok(db.query_row(&query, [], |row| row.get(0))?)
}

/// Returns the first job that users, reservations and running jobs let start.
fn next(db: &Transaction<'_>, most_per_user: u32) -> Result<Option<i64>> {
    if runs(db, "kind = 'emulate'")? {
        return Ok(None);
    }
    let (now, is_busy) = (now_ms(), runs(db, "true")?);
    // Their sites may be the same machines.
    let has_sites = runs(db, "kind = 'sites'")?;
    // Longest job that may overtake an emulation which waits.
    let mut most = None;
    for (id, running) in order(db)? {
        if running >= most_per_user {
            continue;
        }
        match permitted(db, id, now)? {
            None => {}
            Some(KindName::Emulate) if is_busy || most.is_some() => {
                let known = most.map_or_else(|| lengths::most_before(db, id, now), Ok)?;
                most = Some(known);
            }
            Some(KindName::Sites) if has_sites => {}
            Some(_) if most.map_or(Ok(true), |most| lengths::fits(db, id, most))? => return Ok(Some(id)),
            Some(_) => {}
        }
    }
    Ok(None)
}

/// Starts the first job in the queue and returns it.
///
/// A reservation is for jobs of its owner: all of the testbed, emulations, sites, or places of jobs. An emulation runs alone, and
/// waits for others to end. What is queued behind it starts if it is expected to end before those that ran when it came.
pub(crate) fn claim(db: &Transaction<'_>, most_per_user: u32) -> Result<Option<Job>> {
    let next = next(db, most_per_user)?;
    let Some(id) = next else { return Ok(None) };
    db.execute(
        "UPDATE job SET attempt = attempt + 1, offset = 0, runs = 0, finished = 0, started = coalesce(started, ?2)
         WHERE id = ?1",
        params![id, now_ms()],
    )?;
    set_state(db, id, JobState::Running, "")?;
    Ok(Some(db.query_row(&format!("SELECT {JOB} WHERE job.id = ?1"), [id], job)?))
}
