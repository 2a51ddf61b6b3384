//! Log in and out.

use axum::Extension;
use axum::extract::{Form, State};
use axum::http::HeaderMap;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::layout::{Sheet, page};
use crate::api::people::{self, Client, LogIn};
use crate::app::App;
use crate::guard::{Caller, Peer, by_cookie};
use crate::problem::{Problem, Result, add_retry};

fn form(problem: Option<&Problem>) -> Markup {
    page(
        None,
        "Log in",
        &html! {
            div.narrow {
                h1 { "bentpipe" }
                p.lead { "Satellite-network laboratory: configure, launch, report." }
                @if let Some(problem) = problem {
                    div.alert role="alert" { (problem.detail) }
                }
                form.stack method="post" action="/login" {
                    label { "Name" input name="name" autocomplete="username" required autofocus maxlength="64"; }
                    label { "Password" input name="password" type="password" autocomplete="current-password" required maxlength="1024"; }
                    label { "Code of the second factor, if you have one" input name="code" autocomplete="one-time-code" maxlength="40"; }
                    button { "Log in" }
                }
            }
        },
    )
}

pub(super) async fn login_page(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response> {
    Ok(match by_cookie(&app, &headers, peer).await? {
        Some(_) => Redirect::to("/").into_response(),
        None => Sheet { status: axum::http::StatusCode::OK, html: form(None) }.into_response(),
    })
}

pub(super) async fn log_in(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    Form(sent): Form<LogIn>,
) -> Response {
    match people::log_in(&app, &Client::new(&app, peer, &headers), sent).await {
        Ok((_, cookies)) => (cookies, Redirect::to("/")).into_response(),
        Err(problem) => {
            let mut response = Sheet { status: problem.code(), html: form(Some(&problem)) }.into_response();
            add_retry(response.headers_mut(), problem.retry_after_s);
            response
        }
    }
}

pub(super) async fn log_out(State(app): State<App>, caller: Extension<Caller>) -> Result<Response> {
    people::log_out(State(app.clone()), caller).await?;
    Ok((AppendHeaders(people::cleared(&app)), Redirect::to("/login")).into_response())
}
