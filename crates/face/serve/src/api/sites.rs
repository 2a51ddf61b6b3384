//! Operations on sites.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use bentpipe_agent::Invitation;
use bentpipe_agent::protocol::name_refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{Body, Ids};
use super::people::needs_session;
use crate::app::App;
use crate::audited::log;
use crate::clock::now_ms;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::store::sites::{self, Site};

/// Time for which an invitation holds, in milliseconds: 15 min.
const INVITATION_MS: i64 = 900_000;
/// Most sites.
const MAX_SITES: usize = 100;

/// Site to be invited.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSite {
    /// Name: at most 40 lower-case letters, digits and "-", a letter first.
    pub(crate) name: String,
}

/// Invitation that was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeInvitation {
    /// Name of the site.
    pub(crate) name: String,
    /// Code for `bentpipe site enrol`, which has the server's certificate in it. It is shown once.
    pub(crate) code: String,
    /// End of validity in milliseconds since 1970, UTC.
    pub(crate) expires: i64,
}

/// Returns the sites, with whether they are connected.
pub(crate) async fn all(app: &App) -> Result<Vec<Site>> {
    let mut all = app.read(|db| Ok(sites::list(db)?)).await?;
    for site in &mut all {
        site.connected = app.sites.is_connected(site.id);
        if let Some(clock) = app.sites.clock(site.id) {
            site.offset_us = clock.offset_us;
            site.error_us = clock.error_us;
        }
    }
    Ok(all)
}

pub(crate) async fn list(State(app): State<App>) -> Result<Json<Vec<Site>>> {
    Ok(Json(all(&app).await?))
}

/// Adds an invitation.
///
/// A site's key outlives a token, and is given files of jobs: a leaked token makes none.
pub(crate) async fn make(app: &App, caller: &Caller, new: NewSite) -> Result<MadeInvitation> {
    needs_session(caller)?;
    if let Some(why) = name_refusal(&new.name) {
        return Err(Problem::bad(format!("name: {why}")));
    }
    let certificate = app.sites.certificate.get().ok_or_else(|| {
        let detail =
            "sites need TLS of the server itself: start it with --certificate and --key, or --self-signed";
        Problem::new(StatusCode::CONFLICT, detail)
    })?;
    let known = all(app).await?;
    if known.iter().any(|site| site.name == new.name) || known.len() >= MAX_SITES {
        let detail =
            format!("name: there is a site {} already, or there are {MAX_SITES}: revoke one first", new.name);
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let invitation = Invitation::new(certificate());
    let (code, expires) = (invitation.to_string(), now_ms() + INVITATION_MS);
    let (author, name) = (caller.user.id, new.name.clone());
    app.write(move |db| Ok(sites::invite(db, author, (&name, &invitation.secret), expires)?)).await?;
    log(app, &caller.user.name, &caller.address, ("invite site", &new.name, "done")).await?;
    Ok(MadeInvitation { name: new.name, code, expires })
}

pub(crate) async fn invite(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewSite>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make(&app, &caller, body).await?)))
}

/// Revokes a site.
pub(crate) async fn end(app: &App, caller: &Caller, id: i64) -> Result<()> {
    let (name, jobs) = app
        .write(move |db| {
            let site = sites::find(db, id)?.ok_or_else(Problem::not_found)?;
            Ok::<_, Problem>((site.name, sites::revoke(db, id)?))
        })
        .await?;
    app.sites.expel(id);
    jobs.into_iter().for_each(|job| app.announce(job));
    log(app, &caller.user.name, &caller.address, ("revoke site", &name, "done")).await
}

pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    end(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
