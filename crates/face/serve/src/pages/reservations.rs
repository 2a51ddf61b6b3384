//! Page of reservations.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use bentpipe_agent::protocol::Program;
use maud::html;
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::Ids;
use crate::api::{access, reservations as api};
use crate::app::App;
use crate::clock::{now_ms, parsed};
use crate::guard::Caller;
use crate::problem::Problem;
use crate::store::{reservations, sites};

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let now = now_ms();
    let (all, known, capacity) = app
        .read(move |db| {
            let (capacity, _) = reservations::free(db, (now, now))?;
            Ok((reservations::after(db, now)?, sites::list(db)?, capacity))
        })
        .await?;
    let most = app.settings.limits.of(caller.user.level).reservation;
    let can_remove = |owner| access::may_change(&caller.user, owner).is_ok();
    let body = html! {
        h1 { "Reservations" }
        p { "What is reserved is for jobs of the person who reserved it. Jobs that run already go on." }
        @if all.is_empty() { p { "Nothing is reserved." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Reservations" { table {
                thead { tr { th scope="col" { "From (UTC)" } th scope="col" { "To (UTC)" } th scope="col" { "By" } th scope="col" { "What" } th scope="col" { "Purpose" } th scope="col" { "State" } } }
                tbody { @for one in &all { tr {
                    td { (time(one.start)) }
                    td { (time(one.end)) }
                    td { (one.owner) }
                    td { (one.words()) }
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
            h2 { "Reserve" }
            p {
                "At level " (caller.user.level) " a reservation is at most " (api::days(most.length_ms)) " long and ends within " (api::days(most.ahead_ms))
                "; all that are not over have at most " (api::days(most.sum_ms)) " together."
            }
            form.stack method="post" action="/reservations/add" {
                label { "From (UTC)" input name="start" type="datetime-local" required; }
                label { "To (UTC)" input name="end" type="datetime-local" required; }
                label { "What" input name="capability" value="testbed" list="capabilities" required maxlength="100"; }
                datalist #capabilities {
                    option value="testbed" {}
                    option value="emulation" {}
                    option value="1 processor" {}
                    @for site in &known { option value={ "site " (site.name) } {} }
                    @for program in Program::NAMES.iter().filter(|name| known.iter().any(|site| site.programs.iter().any(|one| one == *name))) {
                        option value={ "site with " (program) } {}
                    }
                }
                p.hint {
                    code { "testbed" } ": all of it. " code { "emulation" } ": emulations on this server. "
                    code { "2 processors" } ": as many of its " (capacity) ", on which jobs run. "
                    code { "site NAME" } ", or " code { "site with gateway, emulate" } ": any site that permits these programs."
                }
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
    #[serde(default)]
    capability: String,
}

pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Sent>,
) -> Done {
    let wrong = |name: &str| Problem::bad(format!("{name}: expected a time such as 2026-11-25T14:30"));
    let start = parsed(&sent.start).ok_or_else(|| wrong("from"))?;
    let end = parsed(&sent.end).ok_or_else(|| wrong("to"))?;
    api::make(
        &app,
        &caller,
        api::NewReservation { start, end, purpose: sent.purpose, capability: Some(sent.capability) },
    )
    .await?;
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
