//! Pages of a scenario: its five steps, its text and its history.

use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::{Extension, Json};
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;

use super::jobs::job_table;
use super::layout::{Answer, Done, Refused, findings, sheet, time};
use crate::api::body::{Ids, Search};
use crate::api::{access, jobs as api_jobs, scenarios as api};
use crate::app::App;
use crate::forms::{Outline, SECTIONS, SINGLE, columns};
use crate::guard::Caller;
use crate::problem::{Finding, Problem};
use crate::store::jobs::{self, JobState, Question, Selection};
use crate::store::scenarios::{self, Scenario};
use crate::url::form_address;
use crate::work::{Checked, Findings};

/// Steps, in the order of the controller of UCIT/TATPA.
const STEPS: &[(&str, &str)] = &[
    ("system", "System"),
    ("connections", "Connections"),
    ("test", "Test"),
    ("launch", "Launch"),
    ("report", "Report"),
];

/// Sections that are connections; the others belong to the system.
const CONNECTIONS: &[&str] = &["flow", "group", "tunnel"];

/// Scenario on its page, with its check.
pub(super) struct Open {
    pub(super) scenario: Scenario,
    pub(super) text: String,
    pub(super) draft: Findings,
    pub(super) outline: Outline,
}

impl Open {
    pub(super) fn findings(&self) -> &[Finding] {
        self.draft.as_ref().err().map_or(&[], |findings| findings)
    }

    pub(super) fn may_change(&self, caller: &Caller) -> bool {
        caller.user.level >= 1 && access::may_change(&caller.user, self.scenario.owner_id).is_ok()
    }
}

pub(super) async fn open(app: &App, caller: &Caller, id: i64) -> Result<Open, Refused> {
    open_form(app, caller, (id, None)).await
}

/// Opens a scenario with the fields of a form.
pub(super) async fn open_form(
    app: &App,
    caller: &Caller,
    (id, form): (i64, Option<Vec<String>>),
) -> Result<Open, Refused> {
    let (scenario, text) = api::found(app, caller, id).await?;
    let inputs = app.inputs(caller.user.id).await?;
    let (draft, outline) = app.open(&caller.user, (text.clone(), inputs), (id, form)).await?;
    Ok(Open { scenario, text, draft, outline })
}

/// Returns the head of a scenario's page.
pub(super) fn head(scenario: &Scenario, step: &str) -> Markup {
    let id = scenario.id;
    html! {
        header.top {
            p.crumb { a href="/" { "Scenarios" } }
            h1 { (scenario.name) }
        }
        nav.steps aria-label="Steps" {
            ol {
                @for (name, title) in STEPS {
                    li { a href={ "/scenarios/" (id) "/" (name) } aria-current=[(*name == step).then_some("page")] { (title) } }
                }
            }
            ul {
                @for (name, title) in [("text", "Text"), ("history", "History")] {
                    li { a href={ "/scenarios/" (id) "/" (name) } aria-current=[(name == step).then_some("page")] { (title) } }
                }
            }
        }
    }
}

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let user = caller.user.clone();
    let (all, archived, recent) = app
        .read(move |db| {
            let selection = Selection { limit: 5, ..Selection::default() };
            let archived = scenarios::archived(db, &user, 0, 1000)?;
            Ok((scenarios::list(db, &user, 0, 1000)?, archived, jobs::list(db, &user, &selection)?))
        })
        .await?;
    let body = html! {
        h1 { "Scenarios" }
        @if all.is_empty() { p { "The list is empty." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Scenarios" { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Owner" } th scope="col" { "Changed (UTC)" } th scope="col" { "Visible to" } } }
                tbody { @for scenario in &all { tr {
                    td { a href={ "/scenarios/" (scenario.id) "/system" } { (scenario.name) } }
                    td { (scenario.owner) }
                    td { (time(scenario.changed)) }
                    td { (if scenario.shared { "all" } else { "owner" }) }
                } } }
            } }
        }
        @if caller.user.level >= 1 {
            details {
                summary { "New scenario" }
                form.stack method="post" action="/scenarios" {
                    label { "Name" input name="name" required maxlength="100"; }
                    label { "Text (TOML); empty for a small one to start from" textarea name="text" rows="8" spellcheck="false" {} }
                    button { "Add" }
                }
            }
        }
        @if caller.user.level >= 1 && !archived.is_empty() {
            details {
                summary { "Archived scenarios" }
                div.scroll tabindex="0" role="region" aria-label="Archived scenarios" { table {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Owner" } th scope="col" { "Changed (UTC)" } th scope="col" { span.hidden { "Restore" } } } }
                    tbody { @for scenario in &archived { tr {
                        td { (scenario.name) }
                        td { (scenario.owner) }
                        td { (time(scenario.changed)) }
                        td {
                            form method="post" action={ "/scenarios/" (scenario.id) "/restore" } {
                                button.quiet aria-label={ "Restore " (scenario.name) } { "Restore" }
                            }
                            form method="post" action={ "/scenarios/" (scenario.id) "/discard" } {
                                button.quiet aria-label={ "Remove " (scenario.name) " for good" } { "Remove for good" }
                            }
                        }
                    } } }
                } }
            }
        }
        @if !recent.is_empty() {
            h2 { "Latest jobs" }
            (job_table(&recent, None))
        }
    };
    Ok(sheet(&caller, "Scenarios", &body))
}

/// Smallest scenario that can be run.
const BLANK: &str = "\
title = \"New scenario\"
duration = \"30 s\"

[node.server]
[node.client]

[link.satellite]
between = [\"server\", \"client\"]
rate = \"10 Mbit/s\"
delay = \"270 ms\"

[flow.download]
from = \"server\"
to = \"client\"
traffic = { kind = \"tcp\" }
";

/// Scenario to be added.
#[derive(Deserialize)]
pub(super) struct NewScenario {
    name: String,
    #[serde(default)]
    text: String,
}

pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<NewScenario>,
) -> Done {
    let text = if sent.text.trim().is_empty() { BLANK.to_owned() } else { sent.text.replace("\r\n", "\n") };
    let id = api::make(&app, &caller, (&sent.name, text), false).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/system")))
}

pub(super) async fn copy(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    let (scenario, text) = api::found(&app, &caller, id).await?;
    let name: String = format!("{}, copy", scenario.name).chars().take(100).collect();
    let copy = api::make(&app, &caller, (&name, text), false).await?;
    Ok(Redirect::to(&format!("/scenarios/{copy}/system")))
}

/// Name and visibility.
#[derive(Deserialize)]
pub(super) struct NameSettings {
    name: String,
    #[serde(default)]
    shared: Option<String>,
}

pub(super) async fn settings(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<NameSettings>,
) -> Done {
    api::set_name(&app, &caller, id, (&sent.name, sent.shared.is_some())).await?;
    Ok(Redirect::to(&format!("/scenarios/{id}/system")))
}

pub(super) async fn restore(State(app): State<App>, caller: Extension<Caller>, id: Ids<i64>) -> Done {
    let Json(scenario) = api::restore(State(app), caller, id).await?;
    Ok(Redirect::to(&format!("/scenarios/{}/system", scenario.id)))
}

pub(super) async fn archive(State(app): State<App>, caller: Extension<Caller>, id: Ids<i64>) -> Done {
    api::archive(State(app), caller, id).await?;
    Ok(Redirect::to("/"))
}

/// Returns the entries of sections as tables with links to their forms.
fn entries(open: &Open, sections: &[(&str, &str)], can_change: bool) -> Markup {
    let id = open.scenario.id;
    html! {
        @for (section, title) in sections {
            @if let Some(entries) = open.outline.sections.get(*section) {
                h2 { (title) "s" }
                div.scroll tabindex="0" role="region" aria-label={ (title) "s" } { table {
                    thead { tr {
                        th scope="col" { "Name" }
                        @for column in columns(section) { th scope="col" { (column) } }
                    } }
                    tbody { @for (name, values) in &entries.first { tr {
                        td { a href=(form_address(id, &[section, name])) { (name) } }
                        @for value in values { td { (value) } }
                    } } }
                } }
                @if entries.count > entries.first.len() {
                    p.hint { "The first " (entries.first.len()) " of " (entries.count) ": " a href={ "/scenarios/" (id) "/text" } { "the text" } " has all." }
                }
            }
        }
        @if can_change {
            form.row method="post" action={ "/scenarios/" (id) "/entry/add" } {
                label { "Add" select name="section" { @for (section, title) in sections { option value=(section) { (title) } } } }
                label { "Name" input name="name" required maxlength="60"; }
                button.quiet { "Add" }
            }
        }
    }
}

pub(super) async fn system(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let open = open(&app, &caller, id).await?;
    let can_change = open.may_change(&caller);
    let drawing = open.draft.as_ref().ok().and_then(|draft| draft.drawing.as_deref());
    let sections: Vec<_> = SECTIONS.iter().filter(|(name, _)| !CONNECTIONS.contains(name)).copied().collect();
    let body = html! {
        (head(&open.scenario, "system"))
        (findings(open.findings()))
        @if let Some(drawing) = drawing { figure.scroll tabindex="0" { (PreEscaped(drawing)) } }
        @else if open.findings().is_empty() { p { "The network is too large to be drawn." } }
        (entries(&open, &sections, can_change))
        h2 { "Further settings" }
        ul.plain {
            li { a href={ "/scenarios/" (id) "/form?path=" } { "Title, duration and seeds" } }
            @for (table, title) in SINGLE { @if open.outline.keys.iter().any(|key| key == table) || *table == "probe" {
                li { a href=(form_address(id, &[table])) { (title) } }
            } }
        }
        (manage(&open, &caller, can_change))
    };
    Ok(sheet(&caller, &format!("System: {}", open.scenario.name), &body))
}

fn manage(open: &Open, caller: &Caller, can_change: bool) -> Markup {
    let Scenario { id, name, shared, .. } = &open.scenario;
    html! {
        @if caller.user.level >= 1 {
            h2 { "This scenario" }
            div.row {
                form method="post" action={ "/scenarios/" (id) "/copy" } { button.quiet { "Copy" } }
                @if can_change {
                    form.row method="post" action={ "/scenarios/" (id) "/settings" } {
                        label { "Name" input name="name" value=(name) required maxlength="100"; }
                        @if caller.user.level >= 2 {
                            label.check { input type="checkbox" name="shared" checked[*shared]; " visible to all" }
                        } @else if *shared { input type="hidden" name="shared" value="on"; }
                        button.quiet { "Rename" }
                    }
                    form method="post" action={ "/scenarios/" (id) "/archive" } { button.quiet { "Archive" } }
                }
            }
        }
    }
}

pub(super) async fn connections(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let open = open(&app, &caller, id).await?;
    let sections: Vec<_> = CONNECTIONS
        .iter()
        .filter_map(|name| SECTIONS.iter().find(|(known, _)| known == name))
        .copied()
        .collect();
    let body = html! {
        (head(&open.scenario, "connections"))
        (findings(open.findings()))
        (entries(&open, &sections, open.may_change(&caller)))
    };
    Ok(sheet(&caller, &format!("Connections: {}", open.scenario.name), &body))
}

pub(super) async fn test(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let open = open(&app, &caller, id).await?;
    let sweep = &open.outline.sweep;
    let body = html! {
        (head(&open.scenario, "test"))
        (findings(open.findings()))
        @if let Ok(draft) = &open.draft {
            dl.facts {
                div { dt { "Kind" } dd { (if draft.points > 1 { "sweep, simulated" } else { "simulation" }) } }
                div { dt { "Simulated time" } dd { (draft.duration) } }
                div { dt { "Points" } dd { (draft.points) } }
                div { dt { "Seeds" } dd { (draft.seeds) " from " (draft.seed) } }
            }
        }
        p { a href={ "/scenarios/" (id) "/form?path=" } { "Change title, duration, seeds and sweep" } }
        @if !sweep.trim().is_empty() { h2 { "Sweep" } pre tabindex="0" { (sweep.trim()) } }
        @if let Ok(Checked { budget: Some(budget), .. }) = &open.draft {
            h2 { "Expected before the run" }
            pre tabindex="0" { (budget.trim_end()) }
        }
        p { a.button href={ "/scenarios/" (id) "/launch" } { "Go on to launch" } }
    };
    Ok(sheet(&caller, &format!("Test: {}", open.scenario.name), &body))
}

pub(super) async fn launch_page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let open = open(&app, &caller, id).await?;
    let user = caller.user.clone();
    let queue = app
        .read(move |db| {
            let of = |state| Selection { state: Some(state), limit: 20, ..Selection::default() };
            let mut all = jobs::list(db, &user, &of(JobState::Running))?;
            all.extend(jobs::list(db, &user, &of(JobState::Queued))?);
            Ok(all)
        })
        .await?;
    let has_sites = !app.read(|db| Ok(crate::store::sites::list(db)?)).await?.is_empty();
    let body = html! {
        (head(&open.scenario, "launch"))
        (findings(open.findings()))
        @match &open.draft {
            Ok(draft) if caller.user.level >= 1 => {
                form.stack method="post" action={ "/scenarios/" (id) "/launch/start" } {
                    input type="hidden" name="version" value=(open.scenario.version);
                    label { "Simulated time" input name="duration" placeholder=(draft.duration) maxlength="40"; }
                    label { "Seeds" input name="seeds" type="number" min="1" max="1000" placeholder=(draft.seeds); }
                    label { "Priority (smaller numbers first)" input name="priority" type="number" min="-100" max="100" value="0"; }
                    p.hint { "Empty fields take the scenario's values. The job runs in a process of its own and goes on when this page is closed." }
                    p.row {
                        button { "Launch" }
                        @if draft.points > 1 {
                            button.quiet name="campaign" value="yes" { "Launch as a campaign" }
                        } @else {
                            button.quiet name="emulate" value="yes" { "Emulate in real time" }
                        }
                    }
                    @if draft.points == 1 {
                        p.hint { "An emulation sends real packets: iperf3 and ping stand for the flows between real hosts. It has one seed, and runs when no other job does." }
                    }
                    @if draft.points > 1 {
                        p.hint { "A campaign runs " (draft.points) " points with all seeds on the processors of this machine, and keeps tables of them; it has no series or captures." }
                    }
                }
                // Forms of their own, so that Enter in a field does what its button does.
                @if draft.points == 1 { (search_form(&open.scenario, draft)) }
                @if draft.points == 1 && has_sites { (sites_form(&open.scenario)) }
            }
            Ok(_) => p { "Launching needs level 1." },
            Err(_) => p { "Mend the errors first: in the forms of the system, or in the text." },
        }
        @if !queue.is_empty() { h2 { "Queue" } (job_table(&queue, None)) }
    };
    Ok(sheet(&caller, &format!("Launch: {}", open.scenario.name), &body))
}

/// Returns the form of a search.
fn search_form(scenario: &Scenario, draft: &Checked) -> Markup {
    html! {
        details {
            summary { "Search how many fit" }
            form.stack method="post" action={ "/scenarios/" (scenario.id) "/launch/start" } {
                input type="hidden" name="version" value=(scenario.version);
                label { "Key and its values" input name="over" required maxlength="500" placeholder="flow.call.count='1 to 30 by 1'"; }
                label { "Conditions on measures, one a line" textarea name="conditions" required rows="3" maxlength="4000" placeholder="flow.call.loss <= 1 %" {} }
                label { "Simulated time" input name="duration" placeholder=(draft.duration) maxlength="40"; }
                label { "Seeds" input name="seeds" type="number" min="1" max="1000" placeholder=(draft.seeds); }
                p.hint { "The search halves the range, and finds the last value for which all conditions hold. Values that hold are expected first." }
                p.row { button.quiet name="search" value="yes" { "Search" } }
            }
        }
    }
}

/// Returns the form of a job on sites.
fn sites_form(scenario: &Scenario) -> Markup {
    html! {
        details {
            summary { "Run on sites" }
            form.stack method="post" action={ "/scenarios/" (scenario.id) "/launch/start" } {
                input type="hidden" name="version" value=(scenario.version);
                label { "Job file, TOML: which site runs what" textarea name="sites" required rows="8" maxlength="65536" placeholder=(SITES_EXAMPLE) spellcheck="false" {} }
                p.hint { "All tasks start together. An emulation is of this scenario; its results are those of the job." }
                p.row { button.quiet name="on_sites" value="yes" { "Launch on sites" } }
            }
        }
    }
}

/// Start of a job file, as a hint.
const SITES_EXAMPLE: &str = "[task.satellite]\nsite = \"b\"\nprogram = \"emulate\"";

/// Settings of a launch.
#[derive(Deserialize)]
pub(super) struct LaunchForm {
    version: i64,
    #[serde(default)]
    duration: String,
    #[serde(default)]
    seeds: String,
    #[serde(default)]
    priority: i64,
    /// Filled by the button that launches a campaign.
    #[serde(default)]
    campaign: String,
    #[serde(default)]
    sites: String,
    /// Filled by the button that launches on sites.
    #[serde(default)]
    on_sites: String,
    /// Filled by the button that launches an emulation.
    #[serde(default)]
    emulate: String,
    /// Filled by the button that launches a search.
    #[serde(default)]
    search: String,
    #[serde(default)]
    over: String,
    #[serde(default)]
    conditions: String,
}

impl LaunchForm {
    /// Returns the question of a search, if its button was used.
    fn question(&self) -> Option<Question> {
        let lines = self.conditions.lines().map(str::trim).filter(|line| !line.is_empty());
        let question =
            || Question { over: self.over.trim().to_owned(), conditions: lines.map(str::to_owned).collect() };
        (!self.search.is_empty()).then(question)
    }
}

pub(super) async fn launch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<LaunchForm>,
) -> Done {
    let seeds = match sent.seeds.trim() {
        "" => None,
        text => Some(text.parse().map_err(|_| Problem::bad("seeds: expected a number"))?),
    };
    let duration = Some(sent.duration.trim().to_owned()).filter(|text| !text.is_empty());
    let new = api_jobs::NewJob {
        scenario: Some(id),
        version: Some(sent.version),
        seeds,
        duration,
        priority: sent.priority,
        campaign: !sent.campaign.is_empty(),
        emulate: !sent.emulate.is_empty(),
        search: sent.question(),
        sites: (!sent.on_sites.is_empty()).then(|| sent.sites.replace("\r\n", "\n")),
        ..api_jobs::NewJob::default()
    };
    let job = api_jobs::start(&app, &caller, new, None).await?;
    Ok(Redirect::to(&format!("/jobs/{}", job.id)))
}

pub(super) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let (scenario, _) = api::found(&app, &caller, id).await?;
    let user = caller.user.clone();
    let selection = Selection { scenario: Some(id), limit: 200, ..Selection::default() };
    let all = app.read(move |db| Ok(jobs::list(db, &user, &selection)?)).await?;
    let body = html! {
        (head(&scenario, "report"))
        @if all.is_empty() { p { "Nothing was launched yet." } } @else { (job_table(&all, Some(&caller))) }
    };
    Ok(sheet(&caller, &format!("Report: {}", scenario.name), &body))
}

/// Version that is shown.
#[derive(Deserialize)]
pub(super) struct Shown {
    version: Option<i64>,
}

pub(super) async fn text(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(shown): Search<Shown>,
) -> Answer {
    let open = open(&app, &caller, id).await?;
    let (text, found) = match shown.version {
        None => (open.text.clone(), open.findings().to_vec()),
        Some(version) => (api::version_text(&app, &caller, id, version).await?, Vec::new()),
    };
    let body = editor(&open, (&text, &found), open.may_change(&caller));
    Ok(sheet(&caller, &format!("Text: {}", open.scenario.name), &body))
}

fn editor(open: &Open, (text, found): (&str, &[Finding]), can_change: bool) -> Markup {
    let Scenario { id, version, .. } = open.scenario;
    html! {
        (head(&open.scenario, "text"))
        div #problems aria-live="polite" { (findings(found)) }
        form.stack method="post" action={ "/scenarios/" (id) "/text/save" } {
            input type="hidden" name="base" value=(version);
            label for="text" { "Scenario, TOML" }
            div.editor {
                div.gutter #gutter aria-hidden="true" {}
                textarea #text name="text" rows="28" spellcheck="false" autocomplete="off" wrap="off" readonly[!can_change] { "\n" (text) }
            }
            @if can_change { div.row { button { "Save" } button.quiet name="check" value="on" { "Check only" } } }
            @else { p.hint { "Copy the scenario to change it." } }
        }
    }
}

/// Text that was sent.
#[derive(Deserialize)]
pub(super) struct SentText {
    base: i64,
    text: String,
    #[serde(default)]
    check: Option<String>,
}

pub(super) async fn save_text(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<SentText>,
) -> Answer {
    let text = sent.text.replace("\r\n", "\n");
    let text = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
    let saved = match sent.check.is_none() {
        true => api::save_version(&app, &caller, id, (Some(sent.base), text.clone())).await,
        false => Ok(()),
    };
    let has_conflict = saved.as_ref().is_err_and(|problem| problem.code() == StatusCode::PRECONDITION_FAILED);
    if !has_conflict {
        saved?;
    }
    let open = open(&app, &caller, id).await?;
    let inputs = app.inputs(caller.user.id).await?;
    let checked = app.check(&caller.user, (text.clone(), inputs), None).await?;
    let found = checked.err().unwrap_or_default();
    let outcome = match (found.is_empty(), sent.check.is_some()) {
        (true, true) => "The scenario has no errors. It is not saved yet.",
        (true, false) => "Saved. The scenario has no errors.",
        (false, true) => "Not saved.",
        (false, false) => "Saved, with errors: it cannot be launched.",
    };
    let can_change = open.may_change(&caller);
    let newest = open.scenario.version;
    let body = html! {
        (editor(&open, (&text, &found), can_change))
        @if has_conflict {
            div.alert role="alert" {
                h2 { "Conflict: not saved" }
                p {
                    "Version " (newest) " was saved while you edited. The text above is yours. "
                    a href={ "/scenarios/" (id) "/text?version=" (newest) } { "See version " (newest) } ", or "
                    a href={ "/scenarios/" (id) "/history?from=" (sent.base) "&to=" (newest) } { "what it changed" }
                    ". Save again to put yours on top of it."
                }
            }
        } @else { p.toast role="status" { (outcome) } }
    };
    Ok(sheet(&caller, &format!("Text: {}", open.scenario.name), &body))
}
