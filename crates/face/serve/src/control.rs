//! Changes of emulations that run: here, or on sites.

use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use bentpipe_agent::control::{self, SetError};
use bentpipe_agent::protocol::{Act, Outcome, Program};

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::runner::pid_of;
use crate::store::jobs::Job;
use crate::store::sites::{self, Task};

/// Time that a site has to answer, and time between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(50);

fn refused(error: &SetError) -> Problem {
    match error {
        SetError::Gone => Problem::new(StatusCode::CONFLICT, error.to_string()),
        SetError::Refused(why) => Problem::bad(why.clone()),
    }
}

/// Changes a key of a job's emulation on this machine.
///
/// Returns the time of the run in seconds.
///
/// # Errors
/// Returns the emulation's refusal, or an error if it is not there yet, or no more.
pub(crate) fn set(folder: &Path, attempt: i64, assignment: &str) -> Result<f64> {
    let pid = pid_of(folder, attempt).ok_or_else(|| refused(&SetError::Gone))?;
    control::set(pid.as_raw_nonzero().get(), assignment).map_err(|error| refused(&error))
}

/// Changes a key of a job's emulation on sites.
///
/// Where two sites share it, both change it.
///
/// Returns the time of the run in seconds.
///
/// # Errors
/// Returns the refusal of an emulation, or an error if none runs or its site does not answer.
pub(crate) async fn set_on_sites(app: &App, job: &Job, assignment: &str) -> Result<f64> {
    let (id, assignment) = (job.id, assignment.to_owned());
    let asked = app
        .write(move |db| {
            let runs = |task: &Task| {
                matches!(task.program, Some(Program::Emulate { .. })) && task.state == "running"
            };
            let mut asked = Vec::new();
            for task in sites::tasks(db, id)?.into_iter().filter(runs) {
                let act = Act::Set { task: task.id.unsigned_abs(), assignment: assignment.clone() };
                asked.push((task.site_name, sites::command(db, task.site, &act)?));
            }
            Ok(asked)
        })
        .await?;
    if asked.is_empty() {
        return Err(refused(&SetError::Gone));
    }
    app.sites.wake();
    let mut first = None;
    for (site, command) in asked {
        match answer(app, command).await? {
            Some(Outcome::Set { at_s }) => first = first.or(Some(at_s)),
            Some(Outcome::Refused { why }) => return Err(Problem::bad(format!("site {site}: {why}"))),
            _ => {
                let detail = format!("site {site} does not answer: the change may come late");
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
        }
    }
    first.ok_or_else(|| refused(&SetError::Gone))
}

/// Waits for the outcome of a command. One that does not come in time is withdrawn.
async fn answer(app: &App, command: i64) -> Result<Option<Outcome>> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(outcome) = app.read(move |db| Ok(sites::outcome(db, command)?)).await? {
            return Ok(Some(outcome));
        }
        if tokio::time::Instant::now() > end {
            app.write(move |db| Ok(sites::withdraw(db, command)?)).await?;
            return Ok(None);
        }
        tokio::time::sleep(TURN).await;
    }
}
