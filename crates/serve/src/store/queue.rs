//! Place of a job in the queue: its reason to wait, and its expected start.

use rusqlite::{OptionalExtension, Transaction};
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::jobs::{ATTEMPT_STARTED, REAL_MS};
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
    let expected = expected(db, (&queued, before), room.places, now)?.map(|start| start.max(until));
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

/// Job whose end is expected.
struct Timed {
    /// Set for an emulation, which runs alone.
    is_alone: bool,
    /// Time to its end in milliseconds; that of one which is queued is its length.
    left: Option<i64>,
}

/// Times at which the places of jobs are free, in milliseconds since 1970.
struct Places(Vec<i64>);

impl Places {
    /// Adds a job to those that start before it. Returns its start.
    fn take(&mut self, is_alone: bool, length: i64) -> i64 {
        let all = &mut self.0;
        let (first, last) = (all.iter().min().copied(), all.iter().max().copied());
        let start = if is_alone { last } else { first }.unwrap_or_default();
        match all.iter_mut().min() {
            // Nothing overtakes one that runs alone.
            _ if is_alone => all.fill(start.saturating_add(length)),
            Some(place) => *place = start.saturating_add(length),
            None => {}
        }
        start
    }
}

/// Returns the expected start of the job at a position of the queue, from 0.
fn expected(
    db: &Transaction<'_>,
    (queued, position): (&[(i64, u32)], usize),
    places: usize,
    now: i64,
) -> Result<Option<i64>> {
    let mean = "SELECT CAST(avg(ended - started) AS INTEGER) FROM (SELECT started, ended FROM job
        WHERE started IS NOT NULL AND ended IS NOT NULL AND origin IS NULL ORDER BY ended DESC LIMIT ?1)";
    let mean: Option<i64> = db.query_row(mean, [KNOWN], |row| row.get(0)).optional()?.flatten();
    let running = running(db, mean, now)?;
    let mut ends = Vec::new();
    for one in &running {
        let Some(left) = one.left else { return Ok(None) };
        ends.push(now.saturating_add(left));
    }
    // While one runs alone no other place is free.
    let alone = running.iter().zip(&ends).filter(|(one, _)| one.is_alone).map(|(_, end)| *end).max();
    ends.resize(ends.len().max(places.max(1)), alone.unwrap_or(now));
    let mut places = Places(ends);
    for (id, _) in &queued[..position] {
        let Timed { is_alone, left } = of_queue(db, *id, mean)?;
        let Some(left) = left else { return Ok(None) };
        places.take(is_alone, left);
    }
    let own = of_queue(db, queued[position].0, mean)?;
    Ok(Some(places.take(own.is_alone, 0)))
}

/// Returns the running jobs with the times that they have left.
///
/// In real time it is that of their length, else that of their progress, or that of other jobs.
fn running(db: &Transaction<'_>, mean: Option<i64>, now: i64) -> Result<Vec<Timed>> {
    let query = format!(
        "SELECT kind = 'emulate', coalesce({ATTEMPT_STARTED}, started, ?1), share, {REAL_MS} FROM job WHERE state = 'running'"
    );
    let mut query = db.prepare(&query)?;
    let rows = query.query_map([now], |row| {
        let (is_alone, started, share): (bool, i64, f64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (passed, real_ms) = ((now - started).max(0), row.get::<_, Option<i64>>(3)?);
        let by_share = (share > ENOUGH)
            .then(|| (passed as f64 * (1.0 - share) / share) as i64)
            .or(mean.map(|mean| mean - passed));
        let left = real_ms.map(|real_ms| real_ms.saturating_sub(passed)).or(by_share);
        Ok(Timed { is_alone, left: left.map(|left| left.max(0)) })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the length of a queued job: its real time, or the mean of others.
fn of_queue(db: &Transaction<'_>, id: i64, mean: Option<i64>) -> Result<Timed> {
    let query = format!("SELECT kind = 'emulate', {REAL_MS} FROM job WHERE id = ?1");
    Ok(db.query_row(&query, [id], |row| {
        Ok(Timed { is_alone: row.get(0)?, left: row.get::<_, Option<i64>>(1)?.or(mean) })
    })?)
}
