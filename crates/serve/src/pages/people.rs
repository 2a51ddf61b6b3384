//! Pages of the own account, of users and of the audit log.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::{Ids, Search};
use crate::api::people::{self as api, Before, NewToken, NewUser, UserChange};
use crate::app::App;
use crate::guard::{Caller, log};
use crate::problem::Problem;
use crate::space;
use crate::store::people::{self, Session, Token, User};
use crate::store::{audit, jobs};

/// Meanings of the levels.
const LEVELS: [&str; 4] =
    ["0: looks", "1: runs own tests", "2: configures what is shared", "3: administers users"];

pub(super) async fn account(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let user = caller.user.id;
    let (sessions, tokens, (count, bytes)) = app
        .read(move |db| {
            Ok((people::sessions(db, user)?, people::tokens(db, user)?, jobs::kept_of(db, user)?))
        })
        .await?;
    let free = space::free(&app.settings.folder).map(space::shown);
    let body = html! {
        h1 { "Account" }
        dl.facts {
            div { dt { "Name" } dd { (caller.user.name) } }
            div { dt { "Level" } dd { (LEVELS[usize::from(caller.user.level).min(3)]) } }
            div { dt { "Jobs that are over" } dd { (count) ", with " (space::shown(bytes.unsigned_abs())) " of results" } }
            @if let Ok(free) = free { div { dt { "Free disk of the server" } dd { (free) } } }
        }
        h2 { "Sessions" }
        (session_table(&caller, &sessions))
        h2 { "Tokens of programs" }
        (token_table(&tokens))
        form.row method="post" action="/account/tokens" {
            label { "Name" input name="name" required maxlength="100"; }
            label { "Scope" select name="scope" { @for scope in ["read", "run", "admin"] { option { (scope) } } } }
            label { "Days" input name="days" type="number" min="1" max="3650" value="90"; }
            button.quiet { "Make a token" }
        }
        h2 { "Password" }
        form.stack method="post" action="/account/password" {
            label { "Present password" input name="old" type="password" autocomplete="current-password" required maxlength="1024"; }
            label { "New password, at least 12 characters" input name="new" type="password" autocomplete="new-password" required minlength="12" maxlength="1024"; }
            button.quiet { "Change it, and end all sessions" }
        }
    };
    Ok(sheet(&caller, "Account", &body))
}

fn session_table(caller: &Caller, sessions: &[Session]) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label="Sessions" { table {
        thead { tr { th scope="col" { "Last request (UTC)" } th scope="col" { "Address" } th scope="col" { "Browser" } th scope="col" { span.hidden { "End" } } } }
        tbody { @for session in sessions { tr {
            td { (time(session.seen)) }
            td { (session.address) }
            td { (session.agent) }
            td { @if Some(session.id) == caller.session { "this one" } @else {
                form method="post" action="/account/sessions/end" { input type="hidden" name="id" value=(session.id); button.quiet { "End" } }
            } }
        } } }
    } } }
}

fn token_table(tokens: &[Token]) -> Markup {
    html! { @if tokens.is_empty() { p { "None." } } @else { div.scroll tabindex="0" role="region" aria-label="Tokens" { table {
        thead { tr { th scope="col" { "Name" } th scope="col" { "Scope" } th scope="col" { "Expires (UTC)" } th scope="col" { span.hidden { "Revoke" } } } }
        tbody { @for token in tokens { tr {
            td { (token.name) }
            td { (token.scope) }
            td { (time(token.expires)) }
            td { form method="post" action="/account/tokens/revoke" { input type="hidden" name="id" value=(token.id); button.quiet { "Revoke" } } }
        } } }
    } } } }
}

/// Change of the own password.
#[derive(Deserialize)]
pub(super) struct Passwords {
    old: String,
    new: String,
}

pub(super) async fn password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Passwords>,
) -> Done {
    api::change_own_password(&app, &caller, sent.old, sent.new).await?;
    Ok(Redirect::to("/login"))
}

/// Number of an object.
#[derive(Deserialize)]
pub(super) struct Id {
    id: i64,
}

pub(super) async fn end_session(
    State(app): State<App>,
    caller: Extension<Caller>,
    Form(sent): Form<Id>,
) -> Done {
    api::end_session(State(app), caller, Ids(sent.id)).await?;
    Ok(Redirect::to("/account"))
}

pub(super) async fn add_token(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<NewToken>,
) -> Answer {
    let made = api::make_token(&app, &caller, sent).await?;
    let body = html! {
        h1 { "Token" }
        p { "The token is shown this once. Programs send it as " code { "Authorization: Bearer TOKEN" } "." }
        pre tabindex="0" { (made.secret) }
        p { a href="/account" { "Back to the account" } }
    };
    Ok(sheet(&caller, "Token", &body))
}

pub(super) async fn revoke_token(
    State(app): State<App>,
    caller: Extension<Caller>,
    Form(sent): Form<Id>,
) -> Done {
    api::revoke_token(State(app), caller, Ids(sent.id)).await?;
    Ok(Redirect::to("/account"))
}

fn level_select(selected: u8) -> Markup {
    html! { select name="level" aria-label="Level" {
        @for (level, meaning) in LEVELS.iter().enumerate() { option value=(level) selected[level == usize::from(selected)] { (meaning) } }
    } }
}

pub(super) async fn users(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let users = app.read(|db| Ok(people::list(db)?)).await?;
    let row = |user: &User| {
        let form = format!("user-{}", user.id);
        html! { tr {
            td { (user.name) form id=(form) method="post" action={ "/users/" (user.id) } {} }
            td { select name="level" form=(form) aria-label={ "level of " (user.name) } {
                @for (level, meaning) in LEVELS.iter().enumerate() { option value=(level) selected[level == usize::from(user.level)] { (meaning) } }
            } }
            td { label.check { input type="checkbox" name="disabled" form=(form) checked[user.disabled] aria-label={ (user.name) " cannot log in" }; } }
            td { input type="password" name="password" form=(form) autocomplete="new-password" placeholder="unchanged" aria-label={ "new password of " (user.name) } maxlength="1024"; }
            td { button.quiet form=(form) { "Apply" } }
        } }
    };
    let body = html! {
        h1 { "Users" }
        div.scroll tabindex="0" role="region" aria-label="Users" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Level" } th scope="col" { "Locked" } th scope="col" { "New password" } th scope="col" { span.hidden { "Apply" } } } }
            tbody { @for user in &users { (row(user)) } }
        } }
        h2 { "New user" }
        form.stack method="post" action="/users" {
            label { "Name" input name="name" required maxlength="64" autocomplete="off"; }
            label { "Password, at least 12 characters" input name="password" type="password" required minlength="12" maxlength="1024" autocomplete="new-password"; }
            label { "Level" (level_select(1)) }
            button { "Add" }
        }
    };
    Ok(sheet(&caller, "Users", &body))
}

pub(super) async fn add_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<NewUser>,
) -> Done {
    api::make_user(&app, &caller, sent).await?;
    Ok(Redirect::to("/users"))
}

/// Settings of a user.
#[derive(Deserialize)]
pub(super) struct UserForm {
    level: u8,
    #[serde(default)]
    disabled: Option<String>,
    #[serde(default)]
    password: String,
}

pub(super) async fn change_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<UserForm>,
) -> Done {
    let user = app.read(move |db| Ok(people::find(db, id)?)).await?.ok_or_else(Problem::not_found)?;
    let disabled = sent.disabled.is_some();
    // Unchanged values end no sessions.
    let change = UserChange {
        level: (sent.level != user.level).then_some(sent.level),
        disabled: (disabled != user.disabled).then_some(disabled),
        password: Some(sent.password).filter(|password| !password.is_empty()),
    };
    api::alter_user(&app, &caller, id, change).await?;
    Ok(Redirect::to("/users"))
}

pub(super) async fn audit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(search): Search<Before>,
) -> Answer {
    let before = search.before.unwrap_or(i64::MAX);
    let (entries, broken) =
        app.read(move |db| Ok((audit::list(db, before, 200)?, audit::broken_at(db)?))).await?;
    if let Some(id) = broken {
        log(&app, &caller.user.name, &caller.address, ("verify audit log", &id.to_string(), "broken"))
            .await?;
    }
    let body = html! {
        h1 { "Audit log" }
        @match broken {
            None => p { "The chain of hashes is whole." },
            Some(id) => div.alert role="alert" { "The chain of hashes is broken at entry " (id) ": it or one before it was changed." },
        }
        div.scroll tabindex="0" role="region" aria-label="Audit log" { table {
            thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "User" } th scope="col" { "Address" } th scope="col" { "Action" } th scope="col" { "Object" } th scope="col" { "Outcome" } } }
            tbody { @for entry in &entries { tr {
                td { (time(entry.at)) } td { (entry.user) } td { (entry.address) } td { (entry.action) } td { (entry.object) } td { (entry.outcome) }
            } } }
        } }
        @if let Some(last) = entries.last().filter(|_| entries.len() == 200) { p { a href={ "/audit?before=" (last.id) } { "Older entries" } } }
    };
    Ok(sheet(&caller, "Audit log", &body))
}
