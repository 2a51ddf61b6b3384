//! Pages of the own account, of users and of the audit log.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::{Ids, Search};
use crate::api::people::{self as api, Before, NewPassword, NewToken, NewUser, UserChange};
use crate::api::second_factor as factor;
use crate::app::App;
use crate::audited::log;
use crate::guard::Caller;
use crate::inputs::MAX_OWN;
use crate::problem::Problem;
use crate::store::people::{self, Session, Token, User};
use crate::store::{audit, jobs};
use crate::totp;
use crate::{quota, space};

/// Meanings of the levels.
const LEVELS: [&str; 4] =
    ["0: looks", "1: runs own tests", "2: configures what is shared", "3: administers users"];

pub(super) async fn account(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let user = caller.user.id;
    let kept = app.clone();
    let (sessions, tokens, (count, _), used, recovery) = app
        .read(move |db| {
            let (sessions, tokens) = (people::sessions(db, user)?, people::tokens(db, user)?);
            let used = quota::of(db, &kept, user)?;
            Ok((sessions, tokens, jobs::kept_of(db, user)?, used, people::recovery_codes(db, user)?))
        })
        .await?;
    let free = space::free(&app.settings.folder).map(space::shown);
    let body = html! {
        h1 { "Account" }
        dl.facts {
            div { dt { "Name" } dd { (caller.user.name) } }
            div { dt { "Level" } dd { (LEVELS[usize::from(caller.user.level).min(3)]) } }
            div { dt { "Jobs that are over" } dd { (count) ", with " (space::shown(used.results)) " of results" } }
            div { dt { "Files" } dd { (space::mebibytes(used.files)) " of " (space::mebibytes(MAX_OWN)) } }
            div { dt { "Scenarios with all versions, presets, texts of jobs" } dd { (space::mebibytes(used.texts)) " of " (space::mebibytes(quota::MAX_TEXTS)) } }
            div { dt { "All together" } dd { (space::shown(used.sum())) " of " (space::shown(used.quota)) } }
            @if let Ok(free) = free { div { dt { "Free disk of the server" } dd { (free) } } }
        }
        h2 { "Sessions" }
        (session_table(&caller, &sessions))
        h2 { "Tokens of programs" }
        (token_table(&tokens))
        form.row method="post" action="/account/tokens" {
            label { "Name" input name="name" required maxlength="100"; }
            label { "Scope" select name="scope" { @for scope in ["read", "run", "admin"] { option { (scope) } } } }
            label { "Days" input name="days" type="number" min="1" max=(api::MAX_TOKEN_DAYS) value=(api::TOKEN_DAYS); }
            button.quiet { "Make a token" }
        }
        h2 { "Second factor" }
        (factor_form(&caller.user, recovery))
        h2 { "Password" }
        form.stack method="post" action="/account/password" {
            label { "Present password" input name="old" type="password" autocomplete="current-password" required maxlength="1024"; }
            label { "New password, at least 12 characters" input name="new" type="password" autocomplete="new-password" required minlength="12" maxlength="1024"; }
            label.check { input type="checkbox" name="keep_tokens" value="true"; " keep the tokens of programs" }
            button.quiet { "Change it, and end all sessions and tokens" }
        }
    };
    Ok(sheet(&caller, "Account", &body))
}

fn factor_form(user: &User, recovery: i64) -> Markup {
    let (action, button) = match user.second_factor {
        true => ("/account/second-factor/end", "End it"),
        false => ("/account/second-factor", "Set it up"),
    };
    html! {
        @if user.second_factor { p { "Logins need a code of your phone. " (recovery) " recovery codes are left." } }
        @else { p { "None: a login needs the password alone. With one it needs a code of an authenticator program too." } }
        form.stack method="post" action=(action) {
            label { "Present password" input name="password" type="password" autocomplete="current-password" required maxlength="1024"; }
            button.quiet { (button) }
        }
    }
}

pub(super) async fn offer_factor(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<factor::Password>,
) -> Answer {
    let offered = factor::offer(&app, &caller, sent.password).await?;
    let body = html! {
        h1 { "Second factor" }
        p { "Scan this with the authenticator program of your phone, or type the secret. It is shown this once." }
        (totp::qr(&offered.uri))
        dl.facts { div { dt { "Secret" } dd { code { (offered.secret) } } } div { dt { "Address" } dd { code { (offered.uri) } } } }
        form.stack method="post" action="/account/second-factor/confirm" {
            label { "Code that the program shows" input name="code" inputmode="numeric" autocomplete="one-time-code" required maxlength="6"; }
            button { "Confirm" }
        }
    };
    Ok(sheet(&caller, "Second factor", &body))
}

pub(super) async fn confirm_factor(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<factor::Code>,
) -> Answer {
    let made = factor::confirm(&app, &caller, &sent.code).await?;
    let body = html! {
        h1 { "Recovery codes" }
        p { "Each replaces the phone once. They are shown this once: print them, or keep them with your passwords." }
        pre tabindex="0" { (made.codes.join("\n")) }
        p { a href="/account" { "Back to the account" } }
    };
    Ok(sheet(&caller, "Recovery codes", &body))
}

pub(super) async fn end_factor(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<factor::Password>,
) -> Done {
    factor::end(&app, &caller, sent.password).await?;
    Ok(Redirect::to("/account"))
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
        thead { tr { th scope="col" { "Name" } th scope="col" { "Scope" } th scope="col" { "Last request (UTC)" } th scope="col" { "Expires (UTC)" } th scope="col" { span.hidden { "Revoke" } } } }
        tbody { @for token in tokens { tr {
            td { (token.name) }
            td { (token.scope) }
            td { @match token.seen { Some(seen) => (time(seen)), None => "none" } }
            td { (time(token.expires)) }
            td { form method="post" action="/account/tokens/revoke" { input type="hidden" name="id" value=(token.id); button.quiet { "Revoke" } } }
        } } }
    } } } }
}

pub(super) async fn password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<NewPassword>,
) -> Done {
    api::change_own_password(&app, &caller, sent).await?;
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
            td { label.check { input type="checkbox" name="keep_tokens" form=(form) aria-label={ "tokens of " (user.name) " outlive a new password" }; } }
            td { @if user.second_factor { label.check { input type="checkbox" name="end_second_factor" form=(form); " end it" } } @else { "none" } }
            td { button.quiet form=(form) { "Apply" } }
        } }
    };
    let body = html! {
        h1 { "Users" }
        div.scroll tabindex="0" role="region" aria-label="Users" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Level" } th scope="col" { "Locked" } th scope="col" { "New password" } th scope="col" { "Keep tokens" } th scope="col" { "Second factor" } th scope="col" { span.hidden { "Apply" } } } }
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
    #[serde(default)]
    keep_tokens: Option<String>,
    #[serde(default)]
    end_second_factor: Option<String>,
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
        keep_tokens: sent.keep_tokens.is_some(),
        end_second_factor: sent.end_second_factor.is_some(),
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
    let (entries, broken, first) = app
        .read(move |db| {
            Ok((audit::list(db, before, 200)?, audit::broken_at(db)?, audit::first_after_loss(db)?))
        })
        .await?;
    if let Some(id) = broken {
        log(&app, &caller.user.name, &caller.address, ("verify audit log", &id.to_string(), "broken"))
            .await?;
    }
    let body = html! {
        h1 { "Audit log" }
        @if let Some(first) = first {
            div.alert role="alert" { "Entries before " (first) " cannot be verified: their key was lost, and the operator had another one made." }
        }
        @match broken {
            None => p { "The chain of hashes is whole. The journal of the server has the hash of its end once a minute: if an entry of that hash is missing, the log was cut." },
            Some(id) => div.alert role="alert" { "The chain of hashes is broken at entry " (id) ": it or one before it was changed." },
        }
        div.scroll tabindex="0" role="region" aria-label="Audit log" { table {
            thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "User" } th scope="col" { "Address" } th scope="col" { "Action" } th scope="col" { "Object" } th scope="col" { "Outcome" } th scope="col" { "Entry, and start of its hash" } } }
            tbody { @for entry in &entries { tr {
                td { (time(entry.at)) } td { (entry.user) } td { (entry.address) } td { (entry.action) } td { (entry.object) } td { (entry.outcome) } td { (entry.id) " " code { (entry.hash[..12]) } }
            } } }
        } }
        @if let Some(last) = entries.last().filter(|_| entries.len() == 200) { p { a href={ "/audit?before=" (last.id) } { "Older entries" } } }
    };
    Ok(sheet(&caller, "Audit log", &body))
}
