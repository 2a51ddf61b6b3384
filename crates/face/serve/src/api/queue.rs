//! Place of a job in the queue.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::body::Ids;
use super::jobs::found;
use crate::app::App;
use crate::clock::now_ms;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::runner::MAX_PER_USER;
use crate::space;
use crate::store::queue::{self, QueuePlace, Room};

/// Returns the place of a queued job that the caller sees.
pub(crate) async fn of(app: &App, caller: &Caller, id: i64) -> Result<Option<QueuePlace>> {
    found(app, caller, id).await?;
    let room = Room { places: app.settings.jobs, most_of_user: MAX_PER_USER };
    let place = app.read(move |db| Ok(queue::place(db, id, room, now_ms())?)).await?;
    let shortage = space::shortage(&app.settings);
    Ok(place.map(|place| match shortage {
        Some(reason) => QueuePlace { reason, expected: None, ..place },
        None => place,
    }))
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<QueuePlace>> {
    let place = of(&app, &caller, id).await?;
    place.map(Json).ok_or_else(|| Problem::new(StatusCode::CONFLICT, "the job is not queued"))
}
