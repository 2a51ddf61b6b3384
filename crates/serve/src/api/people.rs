//! Operations on users, sessions and tokens.

use std::net::IpAddr;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{Body, Health, Ids, Search};
use crate::app::App;
use crate::guard::{Caller, Peer, log, prefix, session_cookie};
use crate::password;
use crate::problem::{Problem, Result};
use crate::store::audit::{self, Logged};
use crate::store::people::{self, Session, Token, User};

/// Name and password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    /// Name of the user.
    name: String,
    /// Password.
    password: String,
}

/// Change of a password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    /// Present password.
    old: String,
    /// Next password, at least 12 characters.
    new: String,
}

/// User to be added.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    /// Name: letters, digits, ".", "_", "-" and "@", at most 64.
    pub(crate) name: String,
    /// Password, at least 12 characters.
    pub(crate) password: String,
    /// Level, 0 to 3.
    pub(crate) level: u8,
}

/// Change of a user.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UserChange {
    /// Level, 0 to 3.
    pub(crate) level: Option<u8>,
    /// Set to keep the user from logging in.
    pub(crate) disabled: Option<bool>,
    /// Password, at least 12 characters.
    pub(crate) password: Option<String>,
}

/// Token to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Name.
    pub(crate) name: String,
    /// Scope: "read", "run" or "admin".
    pub(crate) scope: String,
    /// Validity in days, 1 to 3650.
    pub(crate) days: u32,
}

/// Token that was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeToken {
    /// Number.
    pub(crate) id: i64,
    /// Secret, which is shown this once.
    pub(crate) secret: String,
}

pub(crate) async fn health() -> Json<Health> {
    Json(Health { version: env!("CARGO_PKG_VERSION") })
}

/// Checks name and password and starts a session; returns its secret.
///
/// # Errors
/// Returns the same problem for unknown names and wrong passwords, after the same time.
pub(crate) async fn log_in(
    app: &App,
    peer: IpAddr,
    agent: String,
    name: &str,
    password: String,
) -> Result<(User, String)> {
    let name: String = name.trim().chars().take(64).collect();
    let subjects = vec![format!("name {}", name.to_lowercase()), format!("from {}", prefix(peer))];
    let (asked, delayed) = (name.clone(), subjects.clone());
    let (found, delay) =
        app.read(move |db| Ok((people::by_name(db, &asked)?, people::login_delay(db, &delayed)?))).await?;
    let address = peer.to_string();
    if delay > 0 {
        log(app, &name, &address, ("log in", "", "refused: too many failures")).await?;
        return Err(Problem::later(delay.div_euclid(1000) + 1));
    }
    let hash = found.as_ref().map_or_else(|| app.dummy.0.clone(), |(_, hash)| hash.clone());
    let is_right = app.is_right(password, hash).await?;
    let Some((user, _)) = found.filter(|_| is_right) else {
        app.write(move |db| Ok(people::login_failed(db, &subjects)?)).await?;
        log(app, &name, &address, ("log in", "", "refused")).await?;
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "name or password is wrong"));
    };
    let (id, from) = (user.id, address.clone());
    let secret = app
        .write(move |db| {
            people::login_succeeded(db, &subjects[0])?;
            Ok(people::start_session(db, id, &from, &agent)?)
        })
        .await?;
    log(app, &user.name, &address, ("log in", "", "done")).await?;
    Ok((user, secret))
}

/// Returns the name that a browser gives itself.
pub(crate) fn agent(headers: &HeaderMap) -> String {
    let value = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

pub(crate) async fn start_session(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    Body(body): Body<LogIn>,
) -> Result<impl IntoResponse> {
    let (user, secret) = log_in(&app, peer, agent(&headers), &body.name, body.password).await?;
    Ok((AppendHeaders([(header::SET_COOKIE, session_cookie(&app, &secret))]), Json(user)))
}

pub(crate) async fn log_out(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse> {
    if let Some(session) = caller.session {
        app.write(move |db| Ok(people::end_session(db, caller.user.id, session)?)).await?;
    }
    Ok((StatusCode::NO_CONTENT, AppendHeaders([(header::SET_COOKIE, session_cookie(&app, ""))])))
}

pub(crate) async fn me(Extension(caller): Extension<Caller>) -> Json<User> {
    Json(caller.user)
}

/// Changes the password of the caller and ends all sessions.
pub(crate) async fn change_own_password(app: &App, caller: &Caller, old: String, new: String) -> Result<()> {
    let name = caller.user.name.clone();
    let found = app.read(move |db| Ok(people::by_name(db, &name)?)).await?;
    let (user, hash) = found.ok_or_else(Problem::not_found)?;
    let subject = vec![format!("name {}", user.name.to_lowercase())];
    let asked = subject.clone();
    let delay = app.read(move |db| Ok(people::login_delay(db, &asked)?)).await?;
    if delay > 0 {
        return Err(Problem::later(delay / 1000 + 1));
    }
    if !app.is_right(old, hash).await? {
        app.write(move |db| Ok(people::login_failed(db, &subject)?)).await?;
        log(app, &user.name, &caller.address, ("change password", &user.name, "refused")).await?;
        return Err(Problem::forbidden("the present password is wrong"));
    }
    if let Some(reason) = password::refusal(&user.name, &new) {
        return Err(Problem::bad(reason));
    }
    let hash = app.hash(new).await?;
    app.write(move |db| Ok(people::set_password(db, user.id, &hash)?)).await?;
    log(app, &user.name, &caller.address, ("change password", &user.name, "done")).await
}

pub(crate) async fn set_password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewPassword>,
) -> Result<StatusCode> {
    needs_session(&caller)?;
    change_own_password(&app, &caller, body.old, body.new).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses tokens where a leaked one could become more than it is.
fn needs_session(caller: &Caller) -> Result<()> {
    let refused = || Problem::forbidden("this needs a session: log in with name and password");
    caller.session.map(drop).ok_or_else(refused)
}

pub(crate) async fn sessions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Session>>> {
    Ok(Json(app.read(move |db| Ok(people::sessions(db, caller.user.id)?)).await?))
}

pub(crate) async fn end_session(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    let ended = app.write(move |db| Ok(people::end_session(db, caller.user.id, id)?)).await?;
    ended.then_some(StatusCode::NO_CONTENT).ok_or_else(Problem::not_found)
}

pub(crate) async fn tokens(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Token>>> {
    Ok(Json(app.read(move |db| Ok(people::tokens(db, caller.user.id)?)).await?))
}

/// Creates a token for the caller.
pub(crate) async fn make_token(app: &App, caller: &Caller, new: NewToken) -> Result<MadeToken> {
    needs_session(caller)?;
    if !matches!(&new.scope[..], "read" | "run" | "admin") {
        return Err(Problem::bad("scope: expected \"read\", \"run\" or \"admin\""));
    }
    if !(1..=3650).contains(&new.days) {
        return Err(Problem::bad("days: expected 1 to 3650"));
    }
    let name = checked_title(&new.name)?;
    let (user, object) = (caller.user.id, name.clone());
    let (id, secret) =
        app.write(move |db| Ok(people::add_token(db, user, (&name, &new.scope), new.days)?)).await?;
    log(app, &caller.user.name, &caller.address, ("make token", &object, "done")).await?;
    Ok(MadeToken { id, secret })
}

pub(crate) async fn add_token(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewToken>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make_token(&app, &caller, body).await?)))
}

pub(crate) async fn revoke_token(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    let user = caller.user.id;
    let revoked = app.write(move |db| Ok(people::revoke_token(db, user, id)?)).await?;
    if !revoked {
        return Err(Problem::not_found());
    }
    log(&app, &caller.user.name, &caller.address, ("revoke token", &id.to_string(), "done")).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn users(State(app): State<App>) -> Result<Json<Vec<User>>> {
    Ok(Json(app.read(|db| Ok(people::list(db)?)).await?))
}

/// Returns a title without control characters.
///
/// # Errors
/// Returns an error if it is empty or has over 100 characters.
pub(crate) fn checked_title(text: &str) -> Result<String> {
    let text = text.trim();
    let fits = !text.is_empty() && text.chars().count() <= 100 && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| Problem::bad("name: expected 1 to 100 characters in one line"))
}

/// Returns the reason for which a user's name is refused.
pub(crate) fn name_refusal(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    (!fits).then(|| "name: expected 1 to 64 letters, digits, \".\", \"_\", \"-\" or \"@\"".to_owned())
}

/// Adds a user in the name of `caller`.
pub(crate) async fn make_user(app: &App, caller: &Caller, new: NewUser) -> Result<User> {
    if let Some(reason) = name_refusal(&new.name).or_else(|| password::refusal(&new.name, &new.password)) {
        return Err(Problem::bad(reason));
    }
    if new.level > 3 {
        return Err(Problem::bad("level: expected 0 to 3"));
    }
    let hash = app.hash(new.password).await?;
    let (name, level) = (new.name.clone(), new.level);
    let added = app.write(move |db| match people::add(db, &name, &hash, level)? {
        Some(id) => Ok(people::find(db, id)?),
        None => Ok(None),
    });
    let user = added.await?.ok_or_else(|| Problem::new(StatusCode::CONFLICT, "the name is taken"))?;
    let object = format!("{} level {level}", user.name);
    log(app, &caller.user.name, &caller.address, ("add user", &object, "done")).await?;
    Ok(user)
}

pub(crate) async fn add_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewUser>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make_user(&app, &caller, body).await?)))
}

/// Changes a user in the name of `caller`. The last administrator stays one.
pub(crate) async fn alter_user(app: &App, caller: &Caller, id: i64, change: UserChange) -> Result<User> {
    let user = app.read(move |db| Ok(people::find(db, id)?)).await?.ok_or_else(Problem::not_found)?;
    if change.level.is_some_and(|level| level > 3) {
        return Err(Problem::bad("level: expected 0 to 3"));
    }
    if let Some(reason) = change.password.as_deref().and_then(|new| password::refusal(&user.name, new)) {
        return Err(Problem::bad(reason));
    }
    let hash = match change.password {
        Some(password) => Some(app.hash(password).await?),
        None => None,
    };
    let (level, disabled) = (change.level, change.disabled);
    let changed = app
        .write(move |db| {
            if let Some(level) = level {
                people::set_level(db, id, level)?;
            }
            if let Some(disabled) = disabled {
                people::set_disabled(db, id, disabled)?;
            }
            if let Some(hash) = hash {
                people::set_password(db, id, &hash)?;
            }
            if people::administrators(db)? == 0 {
                return Err(Problem::new(StatusCode::CONFLICT, "the last administrator cannot be removed"));
            }
            people::find(db, id)?.ok_or_else(Problem::not_found)
        })
        .await?;
    let object = format!(
        "{} level {}{}",
        changed.name,
        changed.level,
        if changed.disabled { ", disabled" } else { "" }
    );
    log(app, &caller.user.name, &caller.address, ("change user", &object, "done")).await?;
    Ok(changed)
}

pub(crate) async fn change_user(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Body(body): Body<UserChange>,
) -> Result<Json<User>> {
    Ok(Json(alter_user(&app, &caller, id, body).await?))
}

/// Start of a page of the audit log.
#[derive(Deserialize)]
pub(crate) struct Before {
    pub(crate) before: Option<i64>,
}

pub(crate) async fn audit(
    State(app): State<App>,
    Search(search): Search<Before>,
) -> Result<Json<Vec<Logged>>> {
    let before = search.before.unwrap_or(i64::MAX);
    Ok(Json(app.read(move |db| Ok(audit::list(db, before, 200)?)).await?))
}
