//! Page of the testbed's reservations.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::html;
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::Ids;
use crate::api::{access, reservations as api};
use crate::app::App;
use crate::clock::{now_ms, parsed};
use crate::guard::Caller;
use crate::problem::Problem;
use crate::store::reservations;

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let now = now_ms();
    let all = app.read(move |db| Ok(reservations::after(db, now)?)).await?;
    let can_remove = |owner| access::may_change(&caller.user, owner).is_ok();
    let body = html! {
        h1 { "Reservations" }
        p { "While the testbed is reserved, only jobs of the person who reserved it start. Jobs that run already go on." }
        @if all.is_empty() { p { "The testbed is not reserved." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Reservations" { table {
                thead { tr { th scope="col" { "From (UTC)" } th scope="col" { "To (UTC)" } th scope="col" { "By" } th scope="col" { "Purpose" } th scope="col" { "State" } } }
                tbody { @for one in &all { tr {
                    td { (time(one.start)) }
                    td { (time(one.end)) }
                    td { (one.owner) }
                    td { (one.purpose) }
                    td {
                        (if one.start <= now { "now" } else { "to come" })
                        @if caller.user.level >= 1 && can_remove(one.owner_id) {
                            form method="post" action={ "/reservations/" (one.id) "/remove" } {
                                button.quiet aria-label={ "Remove: " (one.purpose) } { "Remove" }
                            }
                        }
                    }
                } } }
            } }
        }
        @if caller.user.level >= 1 {
            h2 { "Reserve the testbed" }
            form.stack method="post" action="/reservations/add" {
                label { "From (UTC)" input name="start" type="datetime-local" required; }
                label { "To (UTC)" input name="end" type="datetime-local" required; }
                label { "Purpose" input name="purpose" required maxlength="100"; }
                button { "Reserve" }
            }
        }
    };
    Ok(sheet(&caller, "Reservations", &body))
}

/// Reservation of the form, with times as browsers write them.
#[derive(Deserialize)]
pub(super) struct Sent {
    start: String,
    end: String,
    purpose: String,
}

pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Sent>,
) -> Done {
    let wrong = |name: &str| Problem::bad(format!("{name}: expected a time such as 2026-11-25T14:30"));
    let start = parsed(&sent.start).ok_or_else(|| wrong("from"))?;
    let end = parsed(&sent.end).ok_or_else(|| wrong("to"))?;
    api::make(&app, &caller, api::NewReservation { start, end, purpose: sent.purpose }).await?;
    Ok(Redirect::to("/reservations"))
}

pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    api::cancel(&app, &caller, id).await?;
    Ok(Redirect::to("/reservations"))
}
