//! Place of a job in the queue: its reason to wait, and its expected start.

use rusqlite::{OptionalExtension, Transaction};
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::reservations::{self, Reservation};
use super::turns;
use crate::clock::shown;

/// Number of jobs that ended last, whose mean time is expected of others.
const KNOWN: i64 = 20;
/// Finished share from which a running job's time is computed by its own progress.
const ENOUGH: f64 = 0.02;

/// Place of a job in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct QueuePlace {
    /// Position, from 1.
    pub(crate) position: i64,
    /// Number of queued jobs.
    pub(crate) of: i64,
    /// Reason for which it waits.
    pub(crate) reason: String,
    /// Expected start in milliseconds since 1970, UTC; `null` if no job has ended yet.
    pub(crate) expected: Option<i64>,
}

/// Places of jobs, in all and of a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) places: usize,
    pub(crate) most_of_user: u32,
}

/// Returns the place of a job, unless it is not queued.
pub(crate) fn place(db: &Transaction<'_>, job: i64, room: Room, now: i64) -> Result<Option<QueuePlace>> {
    let queued = turns::order(db)?;
    let Some(before) = queued.iter().position(|(id, _)| *id == job) else { return Ok(None) };
    let blocking = blocking(db, job, now)?;
    let until = blocking.as_ref().map_or(now, |reservation| reservation.end);
    let expected = expected(db, before, room.places, now)?.map(|start| start.max(until));
    let reason = match blocking {
        Some(reservation) => format!(
            "{} is reserved by {} until {} (UTC)",
            reservation.words(),
            reservation.owner,
            shown(reservation.end)
        ),
        None => reason(db, job, (before, room))?,
    };
    Ok(Some(QueuePlace { position: before as i64 + 1, of: queued.len() as i64, reason, expected }))
}

/// Returns the reservation of another user that keeps a job back.
fn blocking(db: &Transaction<'_>, job: i64, now: i64) -> Result<Option<Reservation>> {
    if turns::permitted(db, job, now)?.is_some() {
        return Ok(None);
    }
    let owner: i64 = db.query_row("SELECT owner FROM job WHERE id = ?1", [job], |row| row.get(0))?;
    let all = reservations::after(db, now)?;
    let is_other = |one: &Reservation| one.start <= now && one.owner_id != owner;
    Ok(all.into_iter().filter(is_other).max_by_key(|one| one.end))
}

fn reason(db: &Transaction<'_>, job: i64, (before, room): (usize, Room)) -> Result<String> {
    let query = "SELECT kind = 'emulate',
        (SELECT count(*) FROM job AS other WHERE other.state = 'running' AND other.owner = job.owner),
        (SELECT count(*) FROM job AS other WHERE other.state = 'running'),
        (SELECT count(*) FROM job AS other WHERE other.state = 'running' AND other.kind = 'emulate')
        FROM job WHERE id = ?1";
    let (is_emulation, of_owner, running, emulations) = db.query_row(query, [job], |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, u32>(1)?, row.get::<_, u32>(2)?, row.get::<_, u32>(3)?))
    })?;
    Ok(match () {
        () if of_owner >= room.most_of_user => {
            format!("{of_owner} jobs of its owner run, as many as a user has at a time")
        }
        () if emulations > 0 => "an emulation runs, alone on the machine".to_owned(),
        () if is_emulation && running > 0 => "an emulation waits until no other job runs".to_owned(),
        () if before > 0 => format!("{before} queued before it"),
        () if running as usize >= room.places => format!("{running} running, as many as there are places"),
        () => "it starts in a moment".to_owned(),
    })
}

/// Returns the expected start of a job with a number of jobs before it.
fn expected(db: &Transaction<'_>, before: usize, places: usize, now: i64) -> Result<Option<i64>> {
    let mean = "SELECT CAST(avg(ended - started) AS INTEGER) FROM (SELECT started, ended FROM job
        WHERE started IS NOT NULL AND ended IS NOT NULL AND origin IS NULL ORDER BY ended DESC LIMIT ?1)";
    let mean: Option<i64> = db.query_row(mean, [KNOWN], |row| row.get(0)).optional()?.flatten();
    let mut query = db.prepare("SELECT started, share FROM job WHERE state = 'running'")?;
    let running = query
        .query_map([], |row| Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(now), row.get::<_, f64>(1)?)))?;
    let mut ends: Vec<i64> = Vec::new();
    for one in running {
        let (started, share) = one?;
        let passed = (now - started).max(0);
        let left = if share > ENOUGH { Some((passed as f64 * (1.0 - share) / share) as i64) } else { None };
        let Some(left) = left.or_else(|| Some((mean? - passed).max(0))) else { return Ok(None) };
        ends.push(now + left);
    }
    ends.resize(ends.len().max(places.max(1)), now);
    for _ in 0..before {
        let Some(mean) = mean else { return Ok(None) };
        if let Some(first) = ends.iter_mut().min() {
            *first += mean;
        }
    }
    Ok(ends.into_iter().min())
}
