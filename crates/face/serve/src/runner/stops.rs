//! Jobs that may not go on: over a limit, or on a disk without room.

use std::collections::{BTreeSet, HashMap};

use super::INPUT;
use crate::app::App;
use crate::clock::{now_ms, since_start_ms};
use crate::output::{self, Output};
use crate::store::jobs::{self, Job};
use crate::store::{Result, StoreError, people};
use crate::{quota, real_time, reserve, space};

/// Time between two looks at the output of running jobs, in milliseconds.
const LOOK_MS: i64 = 250;
/// Least time between two looks, as a multiple of the time that one takes.
const REST: i64 = 20;
/// Growth of the disk's content in bytes after which the next look is early.
const GROWTH: u64 = 16 << 20;
/// Divisor of the room that is kept free, below which all jobs stop at once.
const LAST_ROOM: u64 = 2;

/// Jobs that are being ended, and what is known of their output.
#[derive(Default)]
pub(super) struct Stops {
    why: HashMap<i64, String>,
    outputs: Vec<Output>,
    /// Time of the next look, in milliseconds since the start.
    next: i64,
    /// Free bytes of the disk at the last look.
    free: u64,
}

impl Stops {
    /// Returns why a job is ended, if it is.
    pub(super) fn why(&self, job: i64) -> Option<&str> {
        self.why.get(&job).map(|why| &why[..])
    }

    /// Forgets a job that is over.
    pub(super) fn forget(&mut self, app: &App, job: i64) {
        self.why.remove(&job);
        self.outputs.retain(|one| one.job != job);
        app.outputs.forget(job);
    }

    /// Notes which of the running jobs are to end.
    pub(super) fn look(&mut self, app: &App, running: &[Job]) -> Result<()> {
        let now = since_start_ms();
        let free = reserve::free(&app.settings.folder).unwrap_or_default();
        if now >= self.next || free.saturating_add(GROWTH) < self.free {
            self.free = free;
            self.measure(app, running);
            self.next = since_start_ms() + LOOK_MS.max(REST * (since_start_ms() - now));
            for job in running.iter().filter(|job| job.is_emulation() || job.is_on_sites()) {
                let why = overdue(app, job)?;
                self.stop(Some(job.id), why);
            }
            self.keep_quotas(app)?;
        }
        if let Some(why) = space::shortage(&app.settings) {
            self.make_room(app, running, &format!("stopped: {why}"));
        }
        Ok(())
    }

    fn measure(&mut self, app: &App, running: &[Job]) {
        self.outputs.clear();
        for job in running {
            let size = output::size(&app.job_folder(job.id), INPUT);
            if size.is_none() {
                self.stop(Some(job.id), Some("stopped: it has too many files".to_owned()));
            }
            let bytes = size.unwrap_or_default();
            self.outputs.push(Output { job: job.id, owner: job.owner_id, bytes });
        }
        app.outputs.set(&self.outputs);
    }

    /// Ends a job of each user who is over the quota.
    fn keep_quotas(&mut self, app: &App) -> Result<()> {
        let owners: BTreeSet<i64> = self.outputs.iter().map(|one| one.owner).collect();
        for owner in owners {
            let used = app.store.read(|db| quota::stored(db, app, owner))?;
            if let Some(why) = used.excess() {
                let own = self.outputs.iter().filter(|one| one.owner == owner);
                let job = output::largest(own, |job| self.why.contains_key(&job));
                self.stop(job, Some(why));
            }
        }
        Ok(())
    }

    /// Ends the job with the largest output, and all if little room is left.
    ///
    /// What sites send is refused as it comes.
    fn make_room(&mut self, app: &App, running: &[Job], why: &str) {
        let is_meant = |one: &&Output| running.iter().any(|job| job.id == one.job && !job.is_on_sites());
        let is_last =
            reserve::free(&app.settings.folder).is_ok_and(|free| free < app.settings.keep_free / LAST_ROOM);
        let all = self.outputs.iter().filter(is_meant);
        let ended: Vec<i64> = match is_last {
            true => all.map(|one| one.job).collect(),
            false => output::largest(all, |job| self.why.contains_key(&job)).into_iter().collect(),
        };
        ended.into_iter().for_each(|job| self.stop(Some(job), Some(why.to_owned())));
    }

    /// Notes that a job is to end. The first reason stays.
    pub(super) fn stop(&mut self, job: Option<i64>, why: Option<String>) {
        if let (Some(job), Some(why)) = (job, why) {
            self.why.entry(job).or_insert(why);
        }
    }
}

/// Returns why a job in real time is ended, if it is.
fn overdue(app: &App, job: &Job) -> Result<Option<String>> {
    let (started, owner) = app.store.read(|db| {
        Ok::<_, StoreError>((jobs::attempt_started(db, job.id)?, people::find(db, job.owner_id)?))
    })?;
    let limits = app.settings.limits.of(owner.map_or(0, |owner| owner.level)).job;
    Ok(started.and_then(|started| real_time::overdue(now_ms() - started, &limits)))
}
