//! Operations on presets.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{may_change, may_share};
use super::body::{Body, Ids, Search};
use super::people::checked_title;
use crate::app::App;
use crate::drafts;
use crate::forms::SECTIONS;
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::quota::{self, Added};
use crate::store::counts::Counted;
use crate::store::presets::{self, Preset};

/// Most bytes of a preset.
const MAX_TEXT: usize = 64 << 10;

/// Preset to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPreset {
    /// Section, such as "link".
    pub(crate) section: String,
    /// Name. One of the own presets with it is replaced.
    pub(crate) name: String,
    /// Keys and values, TOML.
    pub(crate) text: String,
    /// Set if all users see it; needs level 2. Default: `false`.
    #[serde(default)]
    pub(crate) shared: bool,
}

/// Selection of a list.
#[derive(Deserialize)]
pub(crate) struct OfSection {
    section: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(search): Search<OfSection>,
) -> Result<Json<Vec<Preset>>> {
    let section = search.section.filter(|section| !section.is_empty());
    Ok(Json(app.read(move |db| Ok(presets::list(db, &caller.user, section.as_deref())?)).await?))
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Preset>> {
    let found = app.read(move |db| presets::find(db, &caller.user, id)?.ok_or_else(Problem::not_found));
    Ok(Json(found.await?))
}

/// Saves a preset of the caller.
pub(crate) async fn make(app: &App, caller: &Caller, new: NewPreset) -> Result<Preset> {
    may_share(&caller.user, new.shared)?;
    if !SECTIONS.iter().any(|(section, _)| *section == new.section) {
        return Err(Problem::bad("section: expected one such as \"link\" or \"flow\""));
    }
    if new.text.len() > MAX_TEXT || !drafts::is_table(&new.text) {
        return Err(Problem::bad(format!("text: expected TOML of at most {MAX_TEXT} bytes")));
    }
    let (name, user) = (checked_title(&new.name)?, caller.user.clone());
    let kept = app.clone();
    app.write(move |db| {
        quota::admit(db, &kept, user.id, Added::Text(new.text.len()))?;
        let id = presets::save(db, user.id, (&new.section, &name), (&new.text, new.shared))?;
        if let Some(detail) = Counted::Preset.excess(db, user.id)? {
            return Err(Problem::too_many(detail));
        }
        presets::find(db, &user, id)?.ok_or_else(Problem::not_found)
    })
    .await
}

pub(crate) async fn save(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewPreset>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make(&app, &caller, body).await?)))
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    app.write(move |db| {
        let preset = presets::find(db, &caller.user, id)?.ok_or_else(Problem::not_found)?;
        may_change(&caller.user, preset.owner_id)?;
        Ok(presets::remove(db, id)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
