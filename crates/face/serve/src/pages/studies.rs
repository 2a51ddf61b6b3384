//! Page of the studies that jobs reproduce.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::html;
use serde::Deserialize;

use super::layout::{Answer, Done, sheet};
use crate::api::jobs as api;
use crate::app::{App, blocking};
use crate::guard::Caller;

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let all = blocking(move || Ok(crate::studies::list(app.settings.studies.as_deref()))).await?;
    let can_launch = caller.user.level >= 1;
    let body = html! {
        h1 { "Studies" }
        p { "A study repeats a published experiment and compares its values with the printed ones. Its job runs on this machine like any other." }
        @if all.is_empty() {
            p { "This server has no folder of studies. Its administrator names one with " code { "bentpipe serve --studies FOLDER" } "." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Studies" { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Title" } @if can_launch { th scope="col" { "Launch" } } } }
                tbody { @for (name, title) in &all { tr {
                    td { (name) }
                    td { (title) }
                    @if can_launch { td {
                        form.row method="post" action="/studies/launch" {
                            input type="hidden" name="study" value=(name);
                            button.quiet name="length" value="quick" aria-label={ "Quick: " (name) } { "Quick" }
                            button.quiet name="length" value="full" aria-label={ "Full: " (name) } { "Full" }
                        }
                    } }
                } } }
            } }
        }
    };
    Ok(sheet(&caller, "Studies", &body))
}

/// Study to be launched.
#[derive(Deserialize)]
pub(super) struct LaunchForm {
    study: String,
    #[serde(default)]
    length: String,
}

pub(super) async fn launch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<LaunchForm>,
) -> Done {
    let quick = sent.length == "quick";
    let new = api::NewJob { study: Some(sent.study), quick, ..api::NewJob::default() };
    let job = api::start(&app, &caller, new, None).await?;
    Ok(Redirect::to(&format!("/jobs/{}", job.id)))
}
