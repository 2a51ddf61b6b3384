//! Page of the files that scenarios name.

use axum::Extension;
use axum::extract::{Multipart, State};
use axum::response::Redirect;
use maud::html;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::Ids;
use crate::api::{access, files as api};
use crate::app::App;
use crate::guard::Caller;
use crate::inputs::{MAX_FILE, MAX_OWN};
use crate::problem::Problem;
use crate::space;
use crate::store::files;

/// Longest field of the form other than the file, in bytes.
const MAX_FIELD: usize = 1000;

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let user = caller.user.clone();
    let (all, (_, used)) =
        app.read(move |db| Ok((files::list(db, &user, 0, 2000)?, files::used(db, user.id)?))).await?;
    let can_remove = |owner| caller.user.level >= 1 && access::may_change(&caller.user, owner).is_ok();
    let body = html! {
        h1 { "Files" }
        p { "Scenarios name these files in keys such as " code { "file = \"fade.csv\"" } ": traces, captures, streams, delays. A job keeps what it reads." }
        @if all.is_empty() { p { "The list is empty." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Files" { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Size" } th scope="col" { "SHA-256" } th scope="col" { "Owner" } th scope="col" { "Uploaded (UTC)" } th scope="col" { "Visible to" } } }
                tbody { @for one in &all { tr {
                    td { a href={ "/api/v1/files/" (one.id) } { (one.name) } }
                    td { (one.size) " B" }
                    td { code title=(one.sha256) { (one.sha256[..12]) } }
                    td { (one.owner) }
                    td { (time(one.created)) }
                    td {
                        (if one.shared { "all" } else { "owner" })
                        @if can_remove(one.owner_id) {
                            form method="post" action={ "/files/" (one.id) "/remove" } {
                                button.quiet aria-label={ "Remove " (one.name) } { "Remove" }
                            }
                        }
                    }
                } } }
            } }
        }
        @if caller.user.level >= 1 {
            h2 { "Upload a file" }
            p { "A file of the same name is replaced. It has at most " (MAX_FILE >> 20) " MiB; you use " (space::mebibytes(used.unsigned_abs())) " of " (space::mebibytes(MAX_OWN)) "." }
            form.stack method="post" action="/files/add" enctype="multipart/form-data" {
                @if caller.user.level >= access::CONFIGURES {
                    label.check { input type="checkbox" name="shared" value="1"; "For the scenarios of all users" }
                }
                label { "Name, if another than that of the file" input name="name" maxlength="100"; }
                label { "File" input name="file" type="file" required; }
                button { "Upload" }
            }
        }
    };
    Ok(sheet(&caller, "Files", &body))
}

/// Receives the form. Its file comes last.
pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    mut form: Multipart,
) -> Done {
    let wrong = |error: &dyn std::fmt::Display| Problem::bad(format!("the form cannot be read: {error}"));
    let (mut name, mut shared) = (String::new(), false);
    while let Some(mut field) = form.next_field().await.map_err(|error| wrong(&error))? {
        if field.name() == Some("file") {
            let given = field.file_name().unwrap_or_default();
            let name = if name.is_empty() { given.to_owned() } else { name };
            let mut upload = api::Upload::new(&app, &caller, name, shared).await?;
            while let Some(block) = field.chunk().await.map_err(|error| wrong(&error))? {
                upload.add(&app, &block)?;
            }
            upload.save(&app, &caller).await?;
            return Ok(Redirect::to("/files"));
        }
        let is_name = field.name() == Some("name");
        let mut text = Vec::new();
        while let Some(block) = field.chunk().await.map_err(|error| wrong(&error))? {
            text.extend_from_slice(&block);
            if text.len() > MAX_FIELD {
                return Err(Problem::bad("the form has a field that is too long").into());
            }
        }
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        match is_name {
            true => name = text,
            false => shared = !text.is_empty(),
        }
    }
    Err(Problem::bad("expected a file").into())
}

pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    api::discard(&app, &caller, id).await?;
    Ok(Redirect::to("/files"))
}
