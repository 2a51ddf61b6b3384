//! Operations on scenarios.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{may_change, may_share};
use super::body::{Body, Ids, Search};
use super::people::checked_title;
use crate::app::App;
use crate::audited::log;
use crate::drafts::{self, Edited};
use crate::guard::Caller;
use crate::problem::{Finding, Problem, Result};
use crate::quota::{self, Added};
use crate::store::scenarios::{self, Scenario, Version};
use crate::work::Task;

/// Text of a scenario.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    /// Text, TOML.
    pub(crate) text: String,
}

/// Scenario to be added.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewScenario {
    /// Name.
    name: String,
    /// Text, TOML.
    text: String,
    /// Set if all users see it; needs level 2. Default: `false`.
    #[serde(default)]
    shared: bool,
}

/// Name and visibility of a scenario.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    /// Name.
    name: String,
    /// Set if all users see it; needs level 2.
    shared: bool,
}

/// Scenario with the text of its newest version.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ScenarioText {
    #[serde(flatten)]
    scenario: Scenario,
    /// Text, TOML.
    text: String,
}

/// Verdict on a text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Verdict {
    /// Errors. A scenario without any can be run.
    problems: Vec<Finding>,
    /// Number of points of its sweep.
    points: usize,
    /// Budget in words: capacities, round-trip times, windows and buffers.
    budget: String,
}

/// Change of a key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// Text, TOML.
    text: String,
    /// Key, its parts joined by dots.
    key: String,
    /// Value as TOML, or a plain text. `null` removes the key.
    value: Option<String>,
}

/// Page of a list.
#[derive(Deserialize)]
pub(crate) struct Page {
    pub(crate) after: Option<i64>,
    pub(crate) limit: Option<u32>,
}

impl Page {
    pub(crate) fn limit(&self) -> u32 {
        self.limit.unwrap_or(100).clamp(1, 1000)
    }
}

/// Place in the list of scenarios, or in that of archived ones.
#[derive(Deserialize)]
pub(crate) struct Listed {
    after: Option<i64>,
    limit: Option<u32>,
    #[serde(default)]
    archived: bool,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(Listed { after, limit, archived }): Search<Listed>,
) -> Result<Json<Vec<Scenario>>> {
    let page = Page { after, limit };
    let (after, limit) = (page.after.unwrap_or(0), page.limit());
    let query = if archived { scenarios::archived } else { scenarios::list };
    Ok(Json(app.read(move |db| Ok(query(db, &caller.user, after, limit)?)).await?))
}

/// Returns a scenario that the caller sees, with its text.
pub(crate) async fn found(app: &App, caller: &Caller, id: i64) -> Result<(Scenario, String)> {
    let user = caller.user.clone();
    app.read(move |db| {
        let scenario = scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
        let text = scenarios::text(db, scenario.version)?;
        Ok((scenario, text))
    })
    .await
}

fn with_etag(status: StatusCode, (scenario, text): (Scenario, String)) -> impl IntoResponse {
    let tag = format!("\"{}\"", scenario.version);
    (status, [(header::ETAG, tag)], Json(ScenarioText { scenario, text }))
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<impl IntoResponse> {
    Ok(with_etag(StatusCode::OK, found(&app, &caller, id).await?))
}

fn sized(text: String) -> Result<String> {
    let most = drafts::MAX_TEXT;
    if text.len() > most {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("text: expected at most {most} bytes"),
        ));
    }
    Ok(text)
}

/// Adds a scenario of the caller and returns its number. The text may have errors: a draft is kept as it is.
pub(crate) async fn make(
    app: &App,
    caller: &Caller,
    (name, text): (&str, String),
    shared: bool,
) -> Result<i64> {
    may_share(&caller.user, shared)?;
    let (name, text, owner) = (checked_title(name)?, sized(text)?, caller.user.id);
    let kept = app.clone();
    app.write(move |db| {
        quota::admit(db, &kept, owner, Added::Text(text.len()))?;
        Ok(scenarios::add(db, owner, &name, &text, shared)?)
    })
    .await
}

pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewScenario>,
) -> Result<impl IntoResponse> {
    let id = make(&app, &caller, (&body.name, body.text), body.shared).await?;
    Ok(with_etag(StatusCode::CREATED, found(&app, &caller, id).await?))
}

/// Saves a version of a scenario, based on version `base` if that is given.
///
/// # Errors
/// Returns "precondition failed" if another version was saved since `base`.
pub(crate) async fn save_version(
    app: &App,
    caller: &Caller,
    id: i64,
    (base, text): (Option<i64>, String),
) -> Result<()> {
    let (user, text, kept) = (caller.user.clone(), sized(text)?, app.clone());
    app.write(move |db| {
        let scenario = scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
        may_change(&user, scenario.owner_id)?;
        if base.is_some_and(|base| base != scenario.version) {
            let detail =
                format!("the scenario was changed since: version {} is the newest", scenario.version);
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, detail));
        }
        if scenarios::text(db, scenario.version)? != text {
            quota::admit(db, &kept, scenario.owner_id, Added::Text(text.len()))?;
            scenarios::add_version(db, id, Some(scenario.version), user.id, &text)?;
        }
        Ok(())
    })
    .await
}

pub(crate) async fn save(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    headers: HeaderMap,
    Body(body): Body<Text>,
) -> Result<impl IntoResponse> {
    let base = match headers.get(header::IF_MATCH).and_then(|tag| tag.to_str().ok()) {
        None | Some("*") => None,
        Some(tag) => Some(tag.trim_matches('"').parse().unwrap_or(-1)),
    };
    save_version(&app, &caller, id, (base, body.text)).await?;
    Ok(with_etag(StatusCode::OK, found(&app, &caller, id).await?))
}

/// Renames or shares a scenario.
pub(crate) async fn set_name(
    app: &App,
    caller: &Caller,
    id: i64,
    (name, shared): (&str, bool),
) -> Result<Scenario> {
    let (user, name) = (caller.user.clone(), checked_title(name)?);
    app.write(move |db| {
        let scenario = scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
        may_change(&user, scenario.owner_id)?;
        if shared != scenario.shared {
            may_share(&user, true)?;
        }
        scenarios::rename(db, id, &name, shared)?;
        scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)
    })
    .await
}

pub(crate) async fn rename(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Body(body): Body<Rename>,
) -> Result<Json<Scenario>> {
    Ok(Json(set_name(&app, &caller, id, (&body.name, body.shared)).await?))
}

pub(crate) async fn archive(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    app.write(move |db| {
        let scenario = scenarios::find(db, &caller.user, id)?.ok_or_else(Problem::not_found)?;
        may_change(&caller.user, scenario.owner_id)?;
        Ok(scenarios::archive(db, id)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes an archived scenario for good, with its versions.
pub(crate) async fn discard(app: &App, caller: &Caller, id: i64) -> Result<()> {
    let user = caller.user.clone();
    let name = app
        .write(move |db| {
            let name = scenarios::find_archived(db, &user, id)?.ok_or_else(Problem::not_found)?.name;
            match scenarios::remove(db, id)? {
                true => Ok(name),
                false => Err(Problem::new(StatusCode::CONFLICT, "jobs are of it: remove them first")),
            }
        })
        .await?;
    log(app, &caller.user.name, &caller.address, ("remove scenario", &format!("{id} {name}"), "done")).await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    discard(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes an old version of a scenario.
pub(crate) async fn discard_version(app: &App, caller: &Caller, id: i64, version: i64) -> Result<()> {
    let user = caller.user.clone();
    app.write(move |db| {
        let scenario = scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
        may_change(&user, scenario.owner_id)?;
        if version == scenario.version {
            return Err(Problem::new(StatusCode::CONFLICT, "it is the newest version: archive the scenario"));
        }
        if !scenarios::versions(db, id)?.iter().any(|known| known.id == version) {
            return Err(Problem::not_found());
        }
        match scenarios::remove_version(db, version)? {
            true => Ok(()),
            false => Err(Problem::new(StatusCode::CONFLICT, "jobs are of this version: remove them first")),
        }
    })
    .await?;
    log(app, &caller.user.name, &caller.address, ("remove version", &format!("{id}/{version}"), "done")).await
}

pub(crate) async fn remove_version(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids((id, version)): Ids<(i64, i64)>,
) -> Result<StatusCode> {
    discard_version(&app, &caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns an archived scenario to the list.
pub(crate) async fn restore(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Scenario>> {
    let restored = app.write(move |db| match scenarios::restore(db, &caller.user, id)? {
        true => scenarios::find(db, &caller.user, id)?.ok_or_else(Problem::not_found),
        false => Err(Problem::not_found()),
    });
    Ok(Json(restored.await?))
}

pub(crate) async fn versions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Vec<Version>>> {
    let versions = app.read(move |db| {
        scenarios::find(db, &caller.user, id)?.ok_or_else(Problem::not_found)?;
        Ok(scenarios::versions(db, id)?)
    });
    Ok(Json(versions.await?))
}

/// Returns the text of a version of a scenario that the caller sees.
pub(crate) async fn version_text(app: &App, caller: &Caller, id: i64, version: i64) -> Result<String> {
    let user = caller.user.clone();
    app.read(move |db| {
        scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
        let known = scenarios::versions(db, id)?.iter().any(|known| known.id == version);
        if known { Ok(scenarios::text(db, version)?) } else { Err(Problem::not_found()) }
    })
    .await
}

pub(crate) async fn version(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids((id, version)): Ids<(i64, i64)>,
) -> Result<Json<Text>> {
    Ok(Json(Text { text: version_text(&app, &caller, id, version).await? }))
}

pub(crate) async fn check(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Text>,
) -> Result<Json<Verdict>> {
    let inputs = app.inputs(caller.user.id).await?;
    let findings = app.check(&caller.user, (body.text, inputs), None).await?;
    Ok(Json(match findings {
        Ok(checked) => Verdict {
            problems: Vec::new(),
            points: checked.points,
            budget: checked.budget.unwrap_or_default(),
        },
        Err(problems) => Verdict { problems, points: 0, budget: String::new() },
    }))
}

pub(crate) async fn edit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<Edit>,
) -> Result<Json<Edited>> {
    let inputs = app.inputs(caller.user.id).await?;
    let Edit { text, key, value } = body;
    let task = Task::Edit { text: sized(text)?, key, value, inputs };
    Ok(Json(app.work(&caller.user, task).await?))
}

pub(crate) async fn schema() -> Json<&'static serde_json::Value> {
    Json(bentpipe_scenario::catalogue::schema())
}
