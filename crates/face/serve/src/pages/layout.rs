//! Frame of all pages, and pieces that several have.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};
use serde_json::Value;

use super::assets::tag;
use crate::guard::Caller;
use crate::problem::{Finding, Problem, Shown, add_retry};
use crate::store::jobs::JobMeasure;

/// Page with a title.
pub(super) struct Sheet {
    pub(super) status: StatusCode,
    pub(super) html: Markup,
}

impl IntoResponse for Sheet {
    fn into_response(self) -> Response {
        let html = [(axum::http::header::CONTENT_TYPE, "text/html; charset=utf-8")];
        (self.status, html, self.html.into_string()).into_response()
    }
}

/// Answer to a request for a page.
pub(super) type Answer = Result<Sheet, Refused>;

/// Redirection after a form.
pub(super) type Done = Result<Redirect, Refused>;

/// Problem shown as a page.
pub(super) struct Refused(pub(super) Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused(problem)
    }
}

impl From<crate::store::StoreError> for Refused {
    fn from(error: crate::store::StoreError) -> Refused {
        Refused(error.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        problem(&self.0)
    }
}

/// Returns a page of the caller.
pub(super) fn sheet(caller: &Caller, title: &str, body: &Markup) -> Sheet {
    Sheet { status: StatusCode::OK, html: page(Some(caller), title, body) }
}

/// Returns a whole page.
pub(super) fn page(caller: Option<&Caller>, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{2013} bentpipe" }
                link rel="stylesheet" href={ "/style.css?" (tag()) };
                link rel="icon" href="data:,";
                script src={ "/script.js?" (tag()) } defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                @if let Some(caller) = caller { (bar(caller)) }
                main #main { (body) }
                @if let Some(caller) = caller {
                    footer.who {
                        form method="post" action="/logout" {
                            span { "Logged in as " b { (caller.user.name) } ", level " (caller.user.level) }
                            button.quiet { "Log out" }
                        }
                    }
                }
            }
        }
    }
}

fn bar(caller: &Caller) -> Markup {
    html! {
        header.bar {
            nav aria-label="Main" {
                a.brand href="/" { "bentpipe" }
                a href="/" { "Scenarios" }
                a href="/studies" { "Studies" }
                a href="/jobs" { "Jobs" }
                a href="/files" { "Files" }
                a href="/reservations" { "Reservations" }
                a href="/sites" { "Sites" }
                @if caller.user.level >= 3 {
                    a href="/users" { "Users" }
                    a href="/audit" { "Audit" }
                }
                a href="/account" { "Account" }
            }
        }
    }
}

/// Returns a refusal as a page. A page that needs a session leads to the login.
pub(crate) fn refuse(refused: &Problem, method: &Method) -> Response {
    match refused.status {
        401 if *method == Method::GET => Redirect::to("/login").into_response(),
        _ => problem(refused),
    }
}

/// Returns a page with a problem.
pub(crate) fn problem(problem: &Problem) -> Response {
    let mut response = problem_page(problem, None, None);
    response.extensions_mut().insert(Shown(problem.clone()));
    response
}

/// Returns a page with a problem and a link to the page before.
pub(crate) fn problem_page(problem: &Problem, caller: Option<&Caller>, from: Option<&str>) -> Response {
    let body = html! {
        h1 { (problem.title) }
        p.lead { (problem.detail) }
        (findings(&problem.problems))
        @match from {
            Some(from) => p { a href=(from) { "Back to the page before" } },
            None => p { a href="/" { "Back to the scenarios" } },
        }
    };
    let mut response =
        Sheet { status: problem.code(), html: page(caller, &problem.title, &body) }.into_response();
    add_retry(response.headers_mut(), problem.retry_after_s);
    response
}

/// Returns the errors of a scenario as a list.
pub(super) fn findings(findings: &[Finding]) -> Markup {
    html! {
        @if !findings.is_empty() {
            div.alert role="alert" {
                h2 { (findings.len()) " error" (if findings.len() == 1 { "" } else { "s" }) }
                ul {
                    @for finding in findings {
                        li {
                            @if finding.line > 0 { span.place { "line " (finding.line) ", column " (finding.column) } " " }
                            @if !finding.key.is_empty() { code { (finding.key) } ": " }
                            (finding.message)
                        }
                    }
                }
            }
        }
    }
}

/// Returns a time, which scripts show in the reader's zone.
pub(super) fn time(ms: i64) -> Markup {
    html! { time datetime={ (crate::clock::shown(ms).replace(' ', "T")) "Z" } { (crate::clock::shown(ms)) } }
}

/// Returns the state of a job as a word with a colour.
pub(super) fn state(state: &str) -> Markup {
    html! { span.state.(state) { (state) } }
}

/// Returns the settings of a point in a line.
pub(super) fn settings_text(settings: &Value) -> String {
    let pairs = settings.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| format!("{key} = {}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the mean of a measure with its interval.
pub(super) fn estimate(measure: &JobMeasure) -> String {
    match (measure.mean, measure.half) {
        (Some(mean), Some(half)) => bentpipe_report::with_interval(mean, Some(half)),
        (Some(mean), None) => bentpipe_report::number(mean),
        (None, _) => "\u{2013}".to_owned(),
    }
}
