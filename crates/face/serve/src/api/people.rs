//! Operations on users, sessions and tokens.

use std::net::IpAddr;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use bentpipe_emu::plain::is_unseen;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{Body, Health, Ids, Search};
use crate::app::App;
use crate::audited::{log, refused, refused_from};
use crate::clock::now_ms;
use crate::guard::{Caller, Peer, device_cookie, session_cookie, stated_devices};
use crate::logins::Source;
use crate::problem::{Problem, Result};
use crate::quota::{self, Usage};
use crate::store::audit::{self, Logged};
use crate::store::counts::Counted;
use crate::store::people::{self, Session, Token, User};
use crate::totp;

/// Validity of tokens in days, unless it is chosen, and the longest one.
pub(crate) const TOKEN_DAYS: u32 = 90;
pub(crate) const MAX_TOKEN_DAYS: u32 = 365;

/// Name and password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    /// Name of the user.
    pub(crate) name: String,
    /// Password.
    pub(crate) password: String,
    /// Code of the second factor, or one of its recovery codes.
    ///
    /// Empty for users without a second factor.
    #[serde(default)]
    pub(crate) code: String,
}

/// Change of a password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    /// Present password.
    pub(crate) old: String,
    /// Next password, at least 12 characters.
    pub(crate) new: String,
    /// Set to keep the own tokens, which end with the password otherwise. Default: `false`.
    #[serde(default)]
    pub(crate) keep_tokens: bool,
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
    /// Set to keep the tokens of the user, which end with the password otherwise. Default: `false`.
    pub(crate) keep_tokens: bool,
    /// Set to end the second factor of the user. Default: `false`.
    pub(crate) end_second_factor: bool,
}

/// Token to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Name.
    pub(crate) name: String,
    /// Scope: "read", "run" or "admin".
    pub(crate) scope: String,
    /// Validity in days, 1 to 365. Default: 90.
    #[serde(default = "token_days")]
    pub(crate) days: u32,
}

fn token_days() -> u32 {
    TOKEN_DAYS
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

/// Client that logs in.
pub(crate) struct Client {
    peer: IpAddr,
    /// Name that a browser gives itself.
    agent: String,
    /// Devices that it states.
    devices: String,
}

impl Client {
    pub(crate) fn new(app: &App, peer: IpAddr, headers: &HeaderMap) -> Client {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default().to_owned();
        Client { peer, agent, devices: stated_devices(app, headers) }
    }
}

/// Cookies of a log-in: of the device, and of the session.
pub(crate) type Cookies = AppendHeaders<[(HeaderName, String); 2]>;

/// Checks name and password and starts a session; returns its cookies.
///
/// # Errors
/// Returns the same problem for unknown names and wrong passwords, after the same time.
pub(crate) async fn log_in(app: &App, client: &Client, sent: LogIn) -> Result<(User, Cookies)> {
    let name: String = sent.name.trim().chars().take(64).collect();
    let from = origin(app, client, &name).await?;
    begin(app, client, (&name, &from)).await?;
    let (user, hash) = check_name(app, client, (&name, sent.password)).await?;
    if user.second_factor {
        check_code(app, (&user, &from), client, sent.code).await?;
    }
    app.logins.succeeded(&name, &from);
    app.logins.succeeded(&name, &Source::Address(client.peer));
    let cookies = start(app, client, (&user, &hash)).await?;
    log(app, &user.name, &client.peer.to_string(), ("log in", "", "done")).await?;
    Ok((user, cookies))
}

/// Returns the proven device of a client, or its address.
async fn origin(app: &App, client: &Client, name: &str) -> Result<Source> {
    let address = Source::Address(client.peer);
    let Some(device) = app.devices.find(&client.devices, name, now_ms() / 1000) else { return Ok(address) };
    let asked = name.to_owned();
    let found = app.read(move |db| Ok(people::by_name(db, &asked)?)).await?;
    let is_current = found.is_some_and(|(_, hash)| app.devices.is_current(&device, &hash));
    Ok(if is_current { Source::Device(device.number) } else { address })
}

/// Counts an attempt, or refuses it.
async fn begin(app: &App, client: &Client, (name, from): (&str, &Source)) -> Result<()> {
    let Err(seconds) = app.logins.begin(name, from) else { return Ok(()) };
    log_refusal(app, client, (name, "", "refused: too many failures")).await?;
    let detail = format!("too many wrong passwords of this account, or from this address: wait {seconds} s");
    Err(Problem { detail, ..Problem::later(seconds) })
}

async fn log_refusal(app: &App, client: &Client, (name, object, outcome): (&str, &str, &str)) -> Result<()> {
    refused_from(app, (name, client.peer), ("log in", object, outcome)).await
}

/// Returns a user and the hash of the password, if that is right.
async fn check_name(app: &App, client: &Client, (name, password): (&str, String)) -> Result<(User, String)> {
    let asked = name.to_owned();
    let found = app.read(move |db| Ok(people::by_name(db, &asked)?)).await?;
    let hash = found.as_ref().map_or_else(|| app.dummy.0.clone(), |(_, hash)| hash.clone());
    let is_right = app.is_right(password, hash).await?;
    if let Some(found) = found.filter(|_| is_right) {
        return Ok(found);
    }
    log_refusal(app, client, (name, "", "refused")).await?;
    Err(Problem::new(StatusCode::UNAUTHORIZED, "name or password is wrong"))
}

/// Checks the second factor of a user whose password is right.
async fn check_code(app: &App, (user, from): (&User, &Source), client: &Client, code: String) -> Result<()> {
    let refused = |detail: &str| Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
    if code.trim().is_empty() {
        return refused("code: expected the code of the second factor, or one of its recovery codes");
    }
    // Recovery codes are too long to be guessed: with one the account opens while another guesses.
    let is_counted = totp::may_be_code(&code);
    if is_counted && let Err(seconds) = app.logins.begin_code(&user.name, from) {
        log_refusal(app, client, (&user.name, "second factor", "refused: too many wrong codes")).await?;
        let detail = "too many wrong codes of this account: its password may be known to others. A recovery code is taken at once";
        return Err(Problem { detail: detail.to_owned(), ..Problem::later(seconds) });
    }
    let id = user.id;
    let is_right = app.write(move |db| Ok(people::take_second_factor(db, id, (&code, now_ms()))?)).await?;
    if !is_right {
        log_refusal(app, client, (&user.name, "second factor", "refused")).await?;
        return refused("code: wrong, or used before");
    }
    if is_counted {
        app.logins.right_code(&user.name, from);
    }
    Ok(())
}

/// Starts a session. Returns the cookies of the device and of the session.
async fn start(app: &App, client: &Client, (user, hash): (&User, &str)) -> Result<Cookies> {
    let (id, from, agent) = (user.id, client.peer.to_string(), client.agent.clone());
    let secret = app.write(move |db| Ok(people::start_session(db, id, &from, &agent)?)).await?;
    let device = app.devices.cookie(&client.devices, (&user.name, hash), now_ms() / 1000);
    // That of the session comes last: programs that know one cookie alone take the last.
    Ok(AppendHeaders([
        (header::SET_COOKIE, device_cookie(app, &device)),
        (header::SET_COOKIE, session_cookie(app, &secret)),
    ]))
}

pub(crate) async fn start_session(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    Body(body): Body<LogIn>,
) -> Result<impl IntoResponse> {
    let (user, cookies) = log_in(&app, &Client::new(&app, peer, &headers), body).await?;
    Ok((cookies, Json(user)))
}

pub(crate) async fn log_out(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse> {
    if let Some(session) = caller.session {
        app.write(move |db| Ok(people::end_session(db, caller.user.id, session)?)).await?;
        app.right_ended();
    }
    Ok((StatusCode::NO_CONTENT, AppendHeaders(cleared(&app))))
}

/// Returns the headers that end the session in a browser, and clear its pages.
///
/// Cookies of other servers of the same site stay.
pub(crate) fn cleared(app: &App) -> [(HeaderName, String); 2] {
    let clear = HeaderName::from_static("clear-site-data");
    [(header::SET_COOKIE, session_cookie(app, "")), (clear, "\"cache\", \"storage\"".to_owned())]
}

pub(crate) async fn me(Extension(caller): Extension<Caller>) -> Json<User> {
    Json(caller.user)
}

/// Shows what is stored for the caller.
pub(crate) async fn usage(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Usage>> {
    let kept = app.clone();
    Ok(Json(app.read(move |db| quota::of(db, &kept, caller.user.id)).await?))
}

/// Checks the password of a caller, for what a session alone may not do.
pub(crate) async fn check_password(
    app: &App,
    caller: &Caller,
    (action, password): (&str, String),
) -> Result<()> {
    let session = needs_session(caller)?;
    let name = caller.user.name.clone();
    let from = Source::Session(session);
    app.logins.begin(&name, &from).map_err(Problem::later)?;
    let found = app.read(move |db| Ok(people::by_name(db, &name)?)).await?;
    let (user, hash) = found.ok_or_else(Problem::not_found)?;
    if !app.is_right(password, hash).await? {
        refused(app, (&user.name, &caller.address), (action, &user.name, "refused")).await?;
        return Err(Problem::forbidden("the present password is wrong"));
    }
    app.logins.succeeded(&user.name, &from);
    Ok(())
}

/// Changes the password of the caller, and ends the sessions.
///
/// Tokens end too, unless they are kept.
pub(crate) async fn change_own_password(app: &App, caller: &Caller, change: NewPassword) -> Result<()> {
    let NewPassword { old, new, keep_tokens } = change;
    let (id, name) = (caller.user.id, &caller.user.name);
    let is_same = old == new;
    check_password(app, caller, ("change password", old)).await?;
    if is_same {
        return Err(Problem::bad("new: expected another password than the present one"));
    }
    app.check_new_password(name, &new).await?;
    let hash = app.hash(new).await?;
    app.write(move |db| Ok(people::set_password(db, id, &hash, keep_tokens)?)).await?;
    app.right_ended();
    log(app, name, &caller.address, ("change password", name, "done")).await
}

pub(crate) async fn set_password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewPassword>,
) -> Result<StatusCode> {
    change_own_password(&app, &caller, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses tokens where a leaked one could become more than it is.
pub(super) fn needs_session(caller: &Caller) -> Result<i64> {
    let refused = || Problem::forbidden("this needs a session: log in with name and password");
    caller.session.ok_or_else(refused)
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
    app.right_ended();
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
    if !(1..=MAX_TOKEN_DAYS).contains(&new.days) {
        return Err(Problem::bad(format!("days: expected 1 to {MAX_TOKEN_DAYS}")));
    }
    let name = checked_title(&new.name)?;
    let (user, object) = (caller.user.id, name.clone());
    let made = app.write(move |db| {
        let made = people::add_token(db, user, (&name, &new.scope), new.days)?;
        Counted::Token.excess(db, user)?.map_or(Ok(made), |detail| Err(Problem::too_many(detail)))
    });
    let (id, secret) = made.await?;
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
    app.right_ended();
    log(&app, &caller.user.name, &caller.address, ("revoke token", &id.to_string(), "done")).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn users(State(app): State<App>) -> Result<Json<Vec<User>>> {
    Ok(Json(app.read(|db| Ok(people::list(db)?)).await?))
}

/// Returns a title of visible characters.
///
/// One with others would look like another title, or like none.
///
/// # Errors
/// Returns an error if it is empty or has over 100 characters.
pub(crate) fn checked_title(text: &str) -> Result<String> {
    let text = text.trim();
    let is_hidden = |c: char| is_unseen(c) || c.is_whitespace() && c != ' ';
    let fits = !text.is_empty() && text.chars().count() <= 100 && !text.chars().any(is_hidden);
    fits.then(|| text.to_owned())
        .ok_or_else(|| Problem::bad("name: expected 1 to 100 visible characters in one line"))
}

/// Returns the reason for which a user's name is refused.
pub(crate) fn name_refusal(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    (!fits).then(|| "name: expected 1 to 64 letters, digits, \".\", \"_\", \"-\" or \"@\"".to_owned())
}

/// Adds a user in the name of `caller`.
pub(crate) async fn make_user(app: &App, caller: &Caller, new: NewUser) -> Result<User> {
    needs_session(caller)?;
    if let Some(reason) = name_refusal(&new.name) {
        return Err(Problem::bad(reason));
    }
    app.check_new_password(&new.name, &new.password).await?;
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
///
/// A token only takes away: it locks users and lowers levels.
pub(crate) async fn alter_user(app: &App, caller: &Caller, id: i64, change: UserChange) -> Result<User> {
    let user = app.read(move |db| Ok(people::find(db, id)?)).await?.ok_or_else(Problem::not_found)?;
    let gives = change.password.is_some()
        || change.disabled == Some(false)
        || change.end_second_factor
        || change.level.is_some_and(|level| level > user.level);
    if gives {
        needs_session(caller)?;
    }
    if change.level.is_some_and(|level| level > 3) {
        return Err(Problem::bad("level: expected 0 to 3"));
    }
    if let Some(password) = &change.password {
        app.check_new_password(&user.name, password).await?;
    }
    let hash = match change.password {
        Some(password) => Some(app.hash(password).await?),
        None => None,
    };
    let (level, disabled, keeps_tokens) = (change.level, change.disabled, change.keep_tokens);
    let ends_factor = change.end_second_factor;
    let changed = app
        .write(move |db| {
            if let Some(level) = level {
                people::set_level(db, id, level)?;
            }
            if let Some(disabled) = disabled {
                people::set_disabled(db, id, disabled)?;
            }
            if let Some(hash) = hash {
                people::set_password(db, id, &hash, keeps_tokens)?;
            }
            if ends_factor {
                people::end_second_factor(db, id)?;
            }
            if people::administrators(db)? == 0 {
                return Err(Problem::new(StatusCode::CONFLICT, "the last administrator cannot be removed"));
            }
            people::find(db, id)?.ok_or_else(Problem::not_found)
        })
        .await?;
    app.right_ended();
    let object = format!(
        "{} level {}{}{}",
        changed.name,
        changed.level,
        if changed.disabled { ", disabled" } else { "" },
        if ends_factor { ", second factor ended" } else { "" }
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

#[cfg(test)]
mod tests {
    use super::checked_title;

    #[test]
    fn titles_are_seen_as_they_are() {
        let long = "x".repeat(101);
        for (title, is_good) in [
            (" Load of 5 % ", true),
            ("Grüße 你好", true),
            ("", false),
            (" ", false),
            (&long, false),
            ("a\nb", false),
            ("a\u{1b}[2J", false),
            ("\u{200b}", false),
            ("\u{202e}daoL", false),
            ("Lo\u{e0041}ad", false),
            ("\u{3164}", false),
            ("Load\u{fe0f}", false),
            ("\u{2800}", false),
            ("a\u{a0}b", false),
        ] {
            assert_eq!(checked_title(title).is_ok(), is_good, "{title:?}");
        }
    }
}
