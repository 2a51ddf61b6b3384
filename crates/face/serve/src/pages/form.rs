//! Form of a section, generated from the schema.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Answer, Done, Refused, findings, sheet};
use super::scenarios::{head, open_form};
use crate::api::body::{Ids, Search};
use crate::api::presets::NewPreset;
use crate::api::scenarios as api;
use crate::app::App;
use crate::drafts;
use crate::forms::{self, Branch, Field, Kind, SECTIONS, SINGLE};
use crate::guard::Caller;
use crate::problem::Problem;
use crate::store::presets::{self, Preset};
use crate::url::encoded;
use crate::work::Task;

/// Path of a form in the address.
#[derive(Deserialize)]
pub(super) struct Path {
    #[serde(default)]
    path: String,
}

fn parsed(path: &str) -> Result<Vec<String>, Problem> {
    let parts: Vec<String> = match path {
        "" => Vec::new(),
        _ => {
            let keys = toml_edit::Key::parse(path).map_err(|_| Problem::not_found())?;
            keys.iter().map(|key| key.get().to_owned()).collect()
        }
    };
    if forms::is_path(&parts) { Ok(parts) } else { Err(Problem::not_found()) }
}

fn title(path: &[String]) -> String {
    let of = |list: &[(&str, &str)], name: &str| {
        list.iter()
            .find(|(known, _)| *known == name)
            .map_or_else(String::new, |(_, title)| (*title).to_owned())
    };
    match path {
        [table] => of(SINGLE, table),
        [section, name] => format!("{} {name}", of(SECTIONS, section)),
        _ => "Title, duration and seeds".to_owned(),
    }
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(query): Search<Path>,
) -> Answer {
    let path = parsed(&query.path)?;
    let mut open = open_form(&app, &caller, (id, Some(path.clone()))).await?;
    let Some(all) = open.outline.fields.take() else { return Err(Refused(Problem::not_found())) };
    let can_change = open.may_change(&caller);
    let prefix = drafts::key_of(&path);
    let (mine, others): (Vec<_>, Vec<_>) = open.findings().iter().cloned().partition(|finding| {
        !prefix.is_empty() && (finding.key == prefix || finding.key.starts_with(&format!("{prefix}.")))
    });
    let step = if matches!(path.first().map(String::as_str), Some("flow" | "group" | "tunnel")) {
        "connections"
    } else {
        "system"
    };
    let presets = match &path[..] {
        [section, _] => {
            let (user, section) = (caller.user.clone(), section.clone());
            app.read(move |db| Ok(presets::list(db, &user, Some(&section))?)).await?
        }
        _ => Vec::new(),
    };
    let body = html! {
        (head(&open.scenario, step))
        h2.first { (title(&path)) }
        (findings(&mine))
        @if !others.is_empty() { p.hint { "The scenario has " (others.len()) " error(s) elsewhere: see " a href={ "/scenarios/" (id) "/text" } { "the text" } "." } }
        form.fields method="post" action={ "/scenarios/" (id) "/form/save" } {
            input type="hidden" name="form.path" value=(query.path);
            input type="hidden" name="form.base" value=(open.scenario.version);
            fieldset.plain disabled[!can_change] { @for field in &all { (shown(field, "")) } }
            @if can_change { div.row.sticky { button { "Apply" } button.quiet type="reset" { "Reset" } } }
            @else { p.hint { "Copy the scenario to change it." } }
        }
        @if can_change && path.len() == 2 {
            (preset_forms(&caller, id, &query.path, &presets))
            form method="post" action={ "/scenarios/" (id) "/entry/remove" } {
                input type="hidden" name="path" value=(query.path);
                button.quiet { "Remove " (path[1]) }
            }
        }
    };
    Ok(sheet(&caller, &format!("{}: {}", title(&path), open.scenario.name), &body))
}

/// Returns a description with what is in backquotes as code.
fn prose(text: &str) -> Markup {
    html! { @for (n, part) in text.split('`').enumerate() { @if n % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// Returns a field; `branch` is the kind of the tables around.
fn shown(field: &Field, branch: &str) -> Markup {
    let name = format!("{}{branch}", field.key);
    match &field.kind {
        Kind::Group { is_there, fields } => html! {
            details open[*is_there] {
                summary { (field.name) }
                p.hint { (prose(&field.description)) }
                div.inner { @for field in fields { (shown(field, branch)) } }
            }
        },
        Kind::Kinds { chosen, branches } => kinds(field, (chosen, branches), branch),
        kind => html! {
            div.field {
                label for=(name) { (field.name) @if field.required { span.must title="required" { " *" } } }
                (input(kind, &name, &field.default))
                p.hint id={ (name) "?" } { (prose(&field.description)) }
            }
        },
    }
}

fn input(kind: &Kind, name: &str, default: &str) -> Markup {
    let described = format!("{name}?");
    let text = |value: &str, placeholder: &str| {
        html! { input id=(name) name=(name) value=(value) placeholder=(placeholder) aria-describedby=(described) maxlength="2000" autocomplete="off"; }
    };
    let empty = if default.is_empty() { "default".to_owned() } else { format!("default: {default}") };
    match kind {
        Kind::Text { value, .. } if value.contains('\n') => html! {
            textarea id=(name) name=(name) rows="5" aria-describedby=(described) { "\n" (value) }
        },
        Kind::Text { value, example } => match (default, &example[..]) {
            ("", "") => text(value, ""),
            ("", example) => text(value, &format!("such as {example}")),
            _ => text(value, &empty),
        },
        Kind::Number { value } => html! {
            input id=(name) name=(name) value=(value) placeholder=(if default.is_empty() { "" } else { &empty }) inputmode="decimal" aria-describedby=(described) maxlength="40" autocomplete="off";
        },
        Kind::Toml { value } => html! {
            input.toml id=(name) name=(name) value=(value) placeholder="TOML" spellcheck="false" aria-describedby=(described) autocomplete="off";
        },
        Kind::Choice { value, words, .. } => choice(name, &described, value, words, &empty),
        Kind::Switch { value } => {
            choice(name, &described, value, &["true".to_owned(), "false".to_owned()], &empty)
        }
        Kind::Group { .. } | Kind::Kinds { .. } => html! {},
    }
}

fn choice(name: &str, described: &str, value: &str, words: &[String], empty: &str) -> Markup {
    html! {
        select id=(name) name=(name) aria-describedby=(described) {
            option value="" selected[value.is_empty()] { (empty) }
            @for word in words { option value=(word) selected[word == value] { (word) } }
        }
    }
}

fn kinds(field: &Field, (chosen, branches): (&str, &[Branch]), branch: &str) -> Markup {
    let name = format!("{}.kind{branch}", field.key);
    let words: Vec<String> = branches.iter().map(|(name, ..)| name.clone()).collect();
    let empty = if field.default.is_empty() {
        "none, or the default".to_owned()
    } else {
        format!("default: {}", field.default)
    };
    html! {
        fieldset.kinds {
            legend { (field.name) @if field.required { span.must title="required" { " *" } } }
            div.field {
                label for=(name) { "kind" }
                (choice(&name, &format!("{name}?"), chosen, &words, &empty))
                p.hint id={ (name) "?" } { (prose(&field.description)) }
            }
            @for (kind, description, fields) in branches {
                @if !fields.is_empty() {
                    details.branch data-of=(name) data-kind=(kind) open[kind == chosen] {
                        summary { (kind) }
                        p.hint { (prose(description)) }
                        div.inner { @for field in fields { (shown(field, &format!("{branch}@{kind}"))) } }
                    }
                } @else if kind != chosen && !description.is_empty() {
                    p.hint.branch data-of=(name) data-kind=(kind) { b { (kind) } ": " (description) " Apply shows its settings." }
                }
            }
        }
    }
}

pub(super) async fn save(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<Vec<(String, String)>>,
) -> Result<Response, Refused> {
    let value = |name: &str| sent.iter().find(|(sent, _)| sent == name).map(|(_, value)| value.clone());
    let address = value("form.path").unwrap_or_default();
    let (path, base) = (parsed(&address)?, value("form.base").and_then(|base| base.parse().ok()));
    let (_, text) = api::found(&app, &caller, id).await?;
    let edited = app.work(&caller.user, Task::Form { text, path, sent }).await?;
    api::save_version(&app, &caller, id, (base, edited)).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/form?path={}", encoded(&address))).into_response())
}

/// Entry to be added.
#[derive(Deserialize)]
pub(super) struct NewEntry {
    section: String,
    name: String,
}

pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<NewEntry>,
) -> Done {
    let path = [sent.section, sent.name.trim().to_owned()];
    let key = drafts::key_of(&path);
    let is_plain = path[1].chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    if !forms::is_path(&path) || !is_plain {
        return Err(Refused(Problem::bad("name: expected letters, digits, \"-\" or \"_\"")));
    }
    let (scenario, text) = api::found(&app, &caller, id).await?;
    let [section, name] = path;
    let added = app.work(&caller.user, Task::AddEntry { text, section, name }).await?;
    api::save_version(&app, &caller, id, (Some(scenario.version), added)).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/form?path={}", encoded(&key))))
}

pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<Path>,
) -> Done {
    let path = parsed(&sent.path)?;
    if path.len() != 2 {
        return Err(Refused(Problem::not_found()));
    }
    let (scenario, text) = api::found(&app, &caller, id).await?;
    let task = Task::Remove { text, key: drafts::key_of(&path) };
    let removed = app.work(&caller.user, task).await?;
    api::save_version(&app, &caller, id, (Some(scenario.version), removed)).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/system")))
}

fn preset_forms(caller: &Caller, id: i64, path: &str, presets: &[Preset]) -> Markup {
    let address = |action: &str| format!("/scenarios/{id}/preset/{action}");
    html! {
        details {
            summary { "Presets" }
            @if !presets.is_empty() {
                form.row method="post" action=(address("load")) {
                    input type="hidden" name="path" value=(path);
                    label { "Preset" select name="preset" {
                        @for preset in presets { option value=(preset.id) { (preset.name) @if preset.owner_id != caller.user.id { " (shared)" } } }
                    } }
                    button.quiet { "Load" }
                    button.quiet formaction=(address("remove")) { "Remove" }
                }
            }
            form.row method="post" action=(address("save")) {
                input type="hidden" name="path" value=(path);
                label { "Save the present settings as" input name="name" required maxlength="100"; }
                @if caller.user.level >= 2 { label.check { input type="checkbox" name="shared"; " visible to all" } }
                button.quiet { "Save" }
            }
            p.hint { "Saving under a name of yours changes that preset. Ends of links and flows are not part of it." }
        }
    }
}

/// Preset that was chosen, or the name of a new one.
#[derive(Deserialize)]
pub(super) struct PresetForm {
    path: String,
    #[serde(default)]
    preset: i64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    shared: Option<String>,
}

fn entry(path: &str) -> Result<[String; 2], Problem> {
    parsed(path)?.try_into().map_err(|_| Problem::not_found())
}

fn back(id: i64, path: &str) -> Redirect {
    Redirect::to(&format!("/scenarios/{id}/form?path={}", encoded(path)))
}

pub(super) async fn save_preset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<PresetForm>,
) -> Done {
    let entry = entry(&sent.path)?;
    let (section, (_, text)) = (entry[0].clone(), api::found(&app, &caller, id).await?);
    let text = app.work(&caller.user, Task::MakePreset { text, entry }).await?;
    let new = NewPreset { section, name: sent.name, text, shared: sent.shared.is_some() };
    crate::api::presets::make(&app, &caller, new).await?;
    Ok(back(id, &sent.path))
}

pub(super) async fn load_preset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<PresetForm>,
) -> Done {
    let entry = entry(&sent.path)?;
    let (user, wanted) = (caller.user.clone(), sent.preset);
    let preset = app.read(move |db| presets::find(db, &user, wanted)?.ok_or_else(Problem::not_found)).await?;
    let (scenario, text) = api::found(&app, &caller, id).await?;
    let task = Task::LoadPreset { text, entry, preset: preset.text };
    let loaded = app.work(&caller.user, task).await?;
    api::save_version(&app, &caller, id, (Some(scenario.version), loaded)).await?;
    Ok(back(id, &sent.path))
}

pub(super) async fn remove_preset(
    State(app): State<App>,
    caller: Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<PresetForm>,
) -> Done {
    crate::api::presets::remove(State(app), caller, Ids(sent.preset)).await?;
    Ok(back(id, &sent.path))
}
