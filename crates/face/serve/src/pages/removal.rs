//! Page that asks before jobs are removed.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::html;

use super::layout::{Answer, Done, sheet, state, time};
use crate::api::body::Search;
use crate::api::removal as api;
use crate::app::App;
use crate::guard::Caller;
use crate::problem::Problem;
use crate::space;
use crate::store::jobs::{self, Job};

/// Most jobs that are removed at a time.
const MAX_REMOVED: usize = 1000;

/// Pairs of a query or a form: numbers of jobs.
type Pairs = Vec<(String, String)>;

fn numbers(pairs: &Pairs) -> Vec<i64> {
    let chosen = pairs.iter().filter(|(name, _)| name == "job").filter_map(|(_, id)| id.parse().ok());
    let mut all: Vec<i64> = chosen.take(MAX_REMOVED).collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) async fn ask(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(query): Search<Pairs>,
) -> Answer {
    let (user, chosen) = (caller.user.clone(), numbers(&query));
    let found: Vec<(Job, i64, Option<Problem>)> = app
        .read(move |db| {
            let mut all = Vec::new();
            for id in chosen {
                let job = jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
                let why = api::check(db, &user, &job).err();
                all.push((job, jobs::size(db, id)?, why));
            }
            Ok(all)
        })
        .await?;
    let going: Vec<i64> = found.iter().filter(|(_, _, why)| why.is_none()).map(|(job, ..)| job.id).collect();
    let bytes: i64 = found.iter().filter(|(_, _, why)| why.is_none()).map(|(_, bytes, _)| bytes).sum();
    let count = match going.len() {
        1 => "1 job".to_owned(),
        many => format!("{many} jobs"),
    };
    let body = html! {
        p.crumb { a href="/jobs" { "Jobs" } }
        h1 { "Remove jobs" }
        @if found.is_empty() { p { "Choose jobs in the list of jobs, or in the report of a scenario." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Jobs" { table {
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "Scenario" } th scope="col" { "State" } th.num scope="col" { "Files" }
                    th scope="col" { "Owner" } th scope="col" { "Launched (UTC)" } th scope="col" { "Stays because" }
                } }
                tbody { @for (job, bytes, why) in &found { tr {
                    td { a href={ "/jobs/" (job.id) } { "#" (job.id) } }
                    td { (job.name) }
                    td { (state(job.state.word())) }
                    td.num { (space::shown(bytes.unsigned_abs())) }
                    td { (job.owner) }
                    td { (time(job.created)) }
                    td { @if let Some(why) = why { (why.detail) } }
                } } }
            } }
        }
        @if !going.is_empty() {
            p { "Reports, series, captures and measures of " (count) " go with all other results. This cannot be undone: to keep a copy, download the zip file of a job first." }
            form method="post" action="/jobs/remove" {
                @for id in &going { input type="hidden" name="job" value=(id); }
                button { "Remove " (count) " (" (space::shown(bytes.unsigned_abs())) ")" } " "
                a href="/jobs" { "Keep all" }
            }
        }
    };
    Ok(sheet(&caller, "Remove jobs", &body))
}

pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Pairs>,
) -> Done {
    api::discard(&app, &caller, numbers(&sent)).await?;
    Ok(Redirect::to("/jobs"))
}
