//! Removal of jobs.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use rusqlite::Transaction;

use super::access::may_change;
use super::body::Ids;
use super::files::forget;
use crate::app::{App, blocking};
use crate::audited::log;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::space;
use crate::store::jobs::{self, Job};
use crate::store::people::User;
use crate::store::{files, sites};

/// Checks that a user may remove a job, and that nothing works on it.
pub(crate) fn check(db: &Transaction<'_>, user: &User, job: &Job) -> Result<()> {
    may_change(user, job.owner_id)?;
    let conflict = |detail: String| Err(Problem::new(StatusCode::CONFLICT, detail));
    if !job.is_over() {
        return conflict(format!("the job is {}: cancel it first", job.state.word()));
    }
    match sites::owing(db, job.id)? {
        Some(site) => {
            conflict(format!("site {site} still has files of it: wait until the site is back, or revoke it"))
        }
        None => Ok(()),
    }
}

/// Removes jobs with their results, all or none of them.
pub(crate) async fn discard(app: &App, caller: &Caller, ids: Vec<i64>) -> Result<()> {
    let (user, kept, all) = (caller.user.clone(), app.clone(), ids.clone());
    let removed = app
        .write(move |db| {
            for id in all {
                let job = jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
                let named =
                    |problem: Problem| Problem { detail: format!("job {id}: {}", problem.detail), ..problem };
                check(db, &user, &job).map_err(named)?;
                let contents = files::of_job(db, id)?;
                sites::remove_tasks(db, id)?;
                jobs::remove(db, id)?;
                contents.iter().try_for_each(|content| forget(db, &kept, &content.sha256))?;
                space::put_aside(&kept.settings.folder, id).map_err(|error| Problem::internal(&error))?;
            }
            Ok(())
        })
        .await;
    let (kept, all) = (app.clone(), ids.clone());
    if let Err(problem) = removed {
        blocking(move || {
            all.iter().for_each(|id| space::put_back(&kept.settings.folder, *id));
            Ok(())
        })
        .await?;
        return Err(problem);
    }
    for id in ids {
        app.announce(id);
        log(app, &caller.user.name, &caller.address, ("remove job", &id.to_string(), "done")).await?;
    }
    blocking(move || {
        all.iter().for_each(|id| space::discard(&kept.settings.folder, *id));
        Ok(())
    })
    .await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    discard(&app, &caller, vec![id]).await?;
    Ok(StatusCode::NO_CONTENT)
}
