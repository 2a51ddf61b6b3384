//! Operations on the second factor of the caller.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::Body;
use super::people::{check_password, needs_session};
use crate::app::App;
use crate::audited::{log, refused};
use crate::clock::{now_ms, secret};
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::store::people;
use crate::totp;

/// Number of recovery codes, and characters of each: 112 bits.
///
/// With fewer a fast hash would not do (ASVS 5.0, 6.5.2).
const RECOVERY_CODES: usize = 10;
const RECOVERY_CHARS: usize = 28;

/// Password of the caller.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Password {
    /// Present password.
    pub(crate) password: String,
}

/// Secret of a second factor, to be taken over by a program on a phone.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Offered {
    /// Secret in Base32.
    pub(crate) secret: String,
    /// Address for programs on phones, such as from a QR code.
    pub(crate) uri: String,
}

/// First code of a second factor.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Code {
    /// Code that the program on the phone shows.
    pub(crate) code: String,
}

/// Codes of which each replaces the phone once.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecoveryCodes {
    /// Codes, which are shown this once.
    pub(crate) codes: Vec<String>,
}

/// Creates a secret for the caller. It counts after its first code.
pub(crate) async fn offer(app: &App, caller: &Caller, password: String) -> Result<Offered> {
    check_password(app, caller, ("set up second factor", password)).await?;
    let (user, secret) = (caller.user.clone(), totp::secret());
    let offered = Offered { secret: totp::shown(&secret), uri: totp::uri(&user.name, &secret) };
    let set = app.write(move |db| Ok(people::offer_second_factor(db, user.id, &secret)?)).await?;
    let detail = "you have a second factor: end it first";
    set.then_some(offered).ok_or_else(|| Problem::new(StatusCode::CONFLICT, detail))
}

/// Confirms the second factor of the caller by its first code. Returns the recovery codes.
pub(crate) async fn confirm(app: &App, caller: &Caller, code: &str) -> Result<RecoveryCodes> {
    let session = needs_session(caller)?;
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| secret()[..RECOVERY_CHARS].to_owned()).collect();
    let (user, code, kept) = (caller.user.id, code.trim().to_owned(), codes.clone());
    let is_right = app
        .write(move |db| {
            let is_right = people::confirm_second_factor(db, user, (&code, now_ms()), &kept)?;
            // They were begun with the password alone.
            if is_right {
                people::end_other_sessions(db, user, session)?;
            }
            Ok(is_right)
        })
        .await?;
    if is_right {
        app.right_ended();
    }
    let (name, action) = (&caller.user.name, "set up second factor");
    match is_right {
        true => log(app, name, &caller.address, (action, name, "done")).await?,
        false => refused(app, (name, &caller.address), (action, name, "refused")).await?,
    }
    let detail = "code: not the one of now; is the clock of the phone right? A new secret starts again";
    is_right.then_some(RecoveryCodes { codes }).ok_or_else(|| Problem::bad(detail))
}

/// Ends the second factor of the caller.
pub(crate) async fn end(app: &App, caller: &Caller, password: String) -> Result<()> {
    check_password(app, caller, ("end second factor", password)).await?;
    let (user, name) = (caller.user.id, &caller.user.name);
    app.write(move |db| Ok(people::end_second_factor(db, user)?)).await?;
    app.right_ended();
    log(app, name, &caller.address, ("end second factor", name, "done")).await
}

pub(crate) async fn post(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Password>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(offer(&app, &caller, body.password).await?)))
}

pub(crate) async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Code>,
) -> Result<Json<RecoveryCodes>> {
    Ok(Json(confirm(&app, &caller, &body.code).await?))
}

pub(crate) async fn post_end(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Password>,
) -> Result<StatusCode> {
    end(&app, &caller, body.password).await?;
    Ok(StatusCode::NO_CONTENT)
}
