//! Operations on reservations of the testbed.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::may_change;
use super::body::{Body, Ids};
use super::people::checked_title;
use crate::app::App;
use crate::clock::{now_ms, shown};
use crate::guard::{Caller, log};
use crate::problem::{Problem, Result};
use crate::store::reservations::{self, Reservation};

/// Longest reservation, in milliseconds: a week.
const MAX_LENGTH_MS: i64 = 7 * 86_400_000;
/// Farthest end of a reservation from today, in milliseconds: a year.
const MAX_AHEAD_MS: i64 = 366 * 86_400_000;
/// Most reservations of a user that are not over.
const MAX_OWN: usize = 50;

/// Reservation to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReservation {
    /// Start in milliseconds since 1970, UTC.
    pub(crate) start: i64,
    /// End in milliseconds since 1970, UTC; at most a week later.
    pub(crate) end: i64,
    /// Purpose.
    pub(crate) purpose: String,
}

pub(crate) async fn list(State(app): State<App>) -> Result<Json<Vec<Reservation>>> {
    Ok(Json(app.read(|db| Ok(reservations::after(db, now_ms())?)).await?))
}

/// Reserves the testbed for the caller.
pub(crate) async fn make(app: &App, caller: &Caller, new: NewReservation) -> Result<Reservation> {
    let now = now_ms();
    let is_ordered = new.start < new.end && new.end > now;
    if !is_ordered || new.end - new.start > MAX_LENGTH_MS || new.end - now > MAX_AHEAD_MS {
        return Err(Problem::bad(
            "end: expected a time after the start and after now, at most a week long, within a year",
        ));
    }
    let (purpose, user) = (checked_title(&new.purpose)?, caller.user.clone());
    let made = app
        .write(move |db| {
            if let Some(other) = reservations::clash(db, (new.start, new.end))? {
                let (from, to) = (shown(other.start), shown(other.end));
                let detail =
                    format!("reserved by {} from {from} to {to} (UTC): {}", other.owner, other.purpose);
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            let all = reservations::after(db, now)?;
            if all.iter().filter(|one| one.owner_id == user.id).count() >= MAX_OWN {
                return Err(Problem::bad(format!("you have {MAX_OWN} reservations: remove some")));
            }
            let id = reservations::add(db, user.id, (new.start, new.end), &purpose)?;
            reservations::find(db, id)?.ok_or_else(Problem::not_found)
        })
        .await?;
    log(app, &caller.user.name, &caller.address, ("reserve testbed", &made.id.to_string(), "done")).await?;
    Ok(made)
}

pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewReservation>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make(&app, &caller, body).await?)))
}

/// Removes a reservation of the caller, or of others with level 2.
pub(crate) async fn cancel(app: &App, caller: &Caller, id: i64) -> Result<()> {
    let user = caller.user.clone();
    app.write(move |db| {
        let reservation = reservations::find(db, id)?.ok_or_else(Problem::not_found)?;
        may_change(&user, reservation.owner_id)?;
        Ok(reservations::remove(db, id)?)
    })
    .await?;
    log(app, &caller.user.name, &caller.address, ("release testbed", &id.to_string(), "done")).await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    cancel(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
