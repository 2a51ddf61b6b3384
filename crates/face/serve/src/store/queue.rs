//! Place of a job in the queue: its reason to wait, and its expected start.

use rusqlite::Transaction;
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::lengths::{self, Timed};
use super::reservations::{self, Reservation};
use super::turns;
use crate::clock::shown;

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

/// Times at which the places of jobs are free, in milliseconds since 1970.
struct Places(Vec<i64>);

impl Places {
    /// Adds a job to those that start before it. Returns its start.
    fn take(&mut self, is_alone: bool, length: i64) -> i64 {
        let all = &mut self.0;
        let (first, last) = (all.iter().min().copied(), all.iter().max().copied());
        let start = if is_alone { last } else { first }.unwrap_or_default();
        match all.iter_mut().min() {
            // What overtakes one that runs alone is to end before others have.
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
    let mean = lengths::mean(db)?;
    let running = lengths::running(db, mean, now)?;
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
        let Timed { is_alone, left, .. } = lengths::of_queue(db, *id, mean)?;
        let Some(left) = left else { return Ok(None) };
        places.take(is_alone, left);
    }
    let own = lengths::of_queue(db, queued[position].0, mean)?;
    Ok(Some(places.take(own.is_alone, 0)))
}
