//! History of a scenario: its versions, their differences, and what is removed of it.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::html;
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use super::scenarios::head;
use crate::api::body::{Ids, Search};
use crate::api::{access, scenarios as api};
use crate::app::App;
use crate::guard::Caller;
use crate::problem::Result;
use crate::store::scenarios;
use crate::work::Task;

/// Versions to be compared.
#[derive(Deserialize)]
pub(super) struct Pair {
    from: Option<i64>,
    to: Option<i64>,
}

/// Returns the lines that differ between two versions, with their marks.
async fn difference(
    app: &App,
    caller: &Caller,
    id: i64,
    (from, to): (i64, i64),
) -> Result<Vec<(char, String)>> {
    let task = async {
        let from = api::version_text(app, caller, id, from).await?;
        Ok(Task::Difference { from, to: api::version_text(app, caller, id, to).await? })
    };
    app.work_on(&caller.user, task).await
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(pair): Search<Pair>,
) -> Answer {
    let (scenario, _) = api::found(&app, &caller, id).await?;
    let versions = app.read(move |db| Ok(scenarios::versions(db, id)?)).await?;
    let difference = match (pair.from, pair.to) {
        (Some(from), Some(to)) => Some(difference(&app, &caller, id, (from, to)).await?),
        _ => None,
    };
    let can_remove = caller.user.level >= 1 && access::may_change(&caller.user, scenario.owner_id).is_ok();
    let body = html! {
        (head(&scenario, "history"))
        form method="get" {
            div.scroll tabindex="0" role="region" aria-label="Versions" { table {
                thead { tr { th scope="col" { "Version" } th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Saved (UTC)" } th scope="col" { "By" } th scope="col" { "SHA-256" } th scope="col" { span.hidden { "Remove" } } } }
                tbody { @for (n, version) in versions.iter().enumerate() { tr {
                    td { a href={ "/scenarios/" (id) "/text?version=" (version.id) } { (version.id) } }
                    td { input type="radio" name="from" value=(version.id) aria-label={ "from version " (version.id) } checked[pair.from.map_or(n == 1, |from| from == version.id)]; }
                    td { input type="radio" name="to" value=(version.id) aria-label={ "to version " (version.id) } checked[pair.to.map_or(n == 0, |to| to == version.id)]; }
                    td { (time(version.created)) }
                    td { (version.author) }
                    td { code { (version.hash[..12]) } }
                    td { @if n > 0 && can_remove { button.quiet form="removal" name="version" value=(version.id) aria-label={ "Remove version " (version.id) } { "Remove" } } }
                } } }
            } }
            @if versions.len() > 1 { p { button.quiet { "Show the difference" } } }
        }
        form #removal method="post" action={ "/scenarios/" (id) "/history/remove" } {}
        @if let Some(lines) = difference {
            h2 { "Difference" }
            pre.diff tabindex="0" { @for (mark, line) in &lines {
                @match mark { '+' => ins { "+ " (line) "\n" }, '-' => del { "- " (line) "\n" }, _ => { "  " (line) "\n" } }
            } }
        }
    };
    Ok(sheet(&caller, &format!("History: {}", scenario.name), &body))
}

/// Version to be removed.
#[derive(Deserialize)]
pub(super) struct Old {
    version: i64,
}

pub(super) async fn remove_version(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(old): Form<Old>,
) -> Done {
    api::discard_version(&app, &caller, id, old.version).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/history")))
}

pub(super) async fn discard(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    api::discard(&app, &caller, id).await?;
    Ok(Redirect::to("/"))
}
