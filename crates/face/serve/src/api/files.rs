//! Operations on files of users.

use std::fs;
use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_core::Stream;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::access::{may_change, may_share};
use super::body::{Ids, Search};
use super::jobs::streamed;
use super::scenarios::Page;
use crate::app::{App, blocking};
use crate::audited::log;
use crate::guard::Caller;
use crate::inputs::{self, Arrival, MAX_FILE, MAX_FILES, MAX_OWN, Receiving};
use crate::problem::{Problem, Result};
use crate::quota::{self, Added};
use crate::space;
use crate::store::files::{self, UserFile};

/// Bytes of a file, as the body of a request.
pub(crate) struct Octets;

impl JsonSchema for Octets {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Octets".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "binary" })
    }
}

/// Name of a file that is sent.
#[derive(Deserialize)]
pub(crate) struct Named {
    name: String,
    #[serde(default)]
    shared: bool,
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(page): Search<Page>,
) -> Result<Json<Vec<UserFile>>> {
    let (after, limit) = (page.after.unwrap_or(0), page.limit());
    Ok(Json(app.read(move |db| Ok(files::list(db, &caller.user, after, limit)?)).await?))
}

/// Upload of the caller.
pub(crate) struct Upload {
    name: String,
    shared: bool,
    left: u64,
    arrival: Arrival,
    receiving: Receiving,
}

impl Upload {
    /// Begins an upload, if its name is one and the caller has room.
    pub(crate) async fn new(app: &App, caller: &Caller, name: String, shared: bool) -> Result<Upload> {
        may_share(&caller.user, shared)?;
        space::check(&app.settings)?;
        if !inputs::is_name(&name) {
            return Err(Problem::bad(
                "name: expected letters, digits, `.`, `-` and `_`, a letter or digit first, at most 100, and not scenario.toml",
            ));
        }
        let user = caller.user.id;
        let kept = app.clone();
        let used = app
            .read(move |db| {
                check_count(db, user)?;
                quota::of(db, &kept, user)
            })
            .await?;
        let left = MAX_OWN.saturating_sub(used.files).min(used.quota.saturating_sub(used.sum()));
        let (data, arrival) = (app.settings.folder.clone(), Arrival::new(&app.arriving, user));
        let receiving = blocking(move || Receiving::new(&data).map_err(|error| Problem::internal(&error)));
        Ok(Upload { name, shared, left, arrival, receiving: receiving.await? })
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, app: &App, block: &Bytes) -> Result<()> {
        let size = self.receiving.size() + block.len() as u64;
        let large = |detail: String| Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        if size > MAX_FILE {
            return large(format!("a file has at most {} MiB", MAX_FILE >> 20));
        }
        // Other uploads of the user are on their way too.
        if self.arrival.add(block.len() as u64) > self.left {
            return large(format!(
                "your files and those of your jobs have at most {} MiB together: remove some",
                MAX_OWN >> 20
            ));
        }
        space::check_growth(&app.settings, self.receiving.size(), block.len() as u64)?;
        self.receiving.add(block).map_err(|error| Problem::internal(&error))
    }

    /// Saves the file.
    pub(crate) async fn save(self, app: &App, caller: &Caller) -> Result<UserFile> {
        // It counts as arriving until it counts as kept.
        let Upload { name, shared, receiving, arrival: _arrival, .. } = self;
        let (user, kept) = (caller.user.clone(), app.clone());
        let receiving = blocking(move || {
            receiving.sync().map_err(|error| Problem::internal(&error))?;
            Ok(receiving)
        })
        .await?;
        let saved = app
            .write(move |db| {
                check_count(db, user.id)?;
                if !files::has(db, user.id, &receiving.sha256())? {
                    quota::admit(db, &kept, user.id, Added::Files(receiving.size()))?;
                }
                // In the transaction, so that no removal of equal content comes between.
                let content = receiving.keep(&name).map_err(|error| Problem::internal(&error))?;
                let known = files::list(db, &user, 0, u32::MAX)?;
                let before = known.into_iter().find(|one| one.owner_id == user.id && one.name == name);
                let id = files::save(db, user.id, &content, shared)?;
                if let Some(before) = before {
                    forget(db, &kept, &before.sha256)?;
                }
                files::find(db, &user, id)?.ok_or_else(Problem::not_found)
            })
            .await?;
        log(app, &caller.user.name, &caller.address, ("upload file", &saved.name, "done")).await?;
        Ok(saved)
    }
}

/// Refuses another file of a user who has as many as a user may have.
fn check_count(db: &rusqlite::Transaction<'_>, user: i64) -> Result<()> {
    let (count, _) = files::used(db, user)?;
    let detail = || Problem::bad(format!("you have {MAX_FILES} files: remove some"));
    (count.unsigned_abs() < MAX_FILES).then_some(()).ok_or_else(detail)
}

/// Removes content that no file and no job has.
pub(super) fn forget(db: &rusqlite::Transaction<'_>, app: &App, sha256: &str) -> Result<()> {
    if !files::is_used(db, sha256)? {
        let _ = fs::remove_file(inputs::path(&app.settings.folder, sha256));
    }
    Ok(())
}

pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(named): Search<Named>,
    body: HttpBody,
) -> Result<impl IntoResponse> {
    let mut blocks = body.into_data_stream();
    let mut upload = Upload::new(&app, &caller, named.name, named.shared).await;
    let mut refused = 0;
    while let Some(block) = poll_fn(|cx| Pin::new(&mut blocks).poll_next(cx)).await {
        let block = block.map_err(|_| Problem::bad("the body ended early"))?;
        // A client that is still sending would not read the refusal.
        if upload.is_err() {
            refused += block.len() as u64;
            if refused > MAX_FILE {
                break;
            }
        }
        upload = upload.and_then(|mut upload| upload.add(&app, &block).map(|()| upload));
    }
    Ok((StatusCode::CREATED, Json(upload?.save(&app, &caller).await?)))
}

/// Returns a file that the caller sees.
async fn found(app: &App, caller: &Caller, id: i64) -> Result<UserFile> {
    let user = caller.user.clone();
    app.read(move |db| files::find(db, &user, id)?.ok_or_else(Problem::not_found)).await
}

pub(crate) async fn content(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Response> {
    let file = found(&app, &caller, id).await?;
    let opened = inputs::open(&app.settings.folder, &file.sha256);
    let opened = opened.map_err(|_| Problem::not_found())?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", file.name)),
        (header::CONTENT_LENGTH, file.size.to_string()),
    ];
    Ok((headers, streamed(opened, file.size.unsigned_abs())).into_response())
}

/// Removes a file of the caller, or of others with level 2. Jobs keep what they read.
pub(crate) async fn discard(app: &App, caller: &Caller, id: i64) -> Result<()> {
    let (user, kept) = (caller.user.clone(), app.clone());
    let name = app
        .write(move |db| {
            let file = files::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
            may_change(&user, file.owner_id)?;
            files::remove(db, id)?;
            forget(db, &kept, &file.sha256)?;
            Ok(file.name)
        })
        .await?;
    log(app, &caller.user.name, &caller.address, ("remove file", &name, "done")).await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    discard(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
