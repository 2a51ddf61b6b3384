//! Pages of jobs: list, operations, comparison.

use std::collections::{BTreeSet, HashMap};

use axum::Extension;
use axum::extract::{Form, Multipart, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, PreEscaped, html};
use rusqlite::Transaction;
use serde_json::Value;

use super::layout::{Answer, Done, Refused, estimate, sheet, state, time};
use crate::api::body::{Ids, Search};
use crate::api::{import, jobs as api};
use crate::app::App;
use crate::archive::MAX_PACKED;
use crate::guard::Caller;
use crate::plots::{MAX_OVERLAID, MAX_SERIES, Source, Window};
use crate::problem::Problem;
use crate::space;
use crate::store::jobs::{self, Job, JobMeasure, JobState, Selection};
use crate::url::encoded;
use crate::work::{ComparedJob, Comparison, Drawing, Task};

/// Most jobs that are compared.
const MAX_COMPARED: usize = 200;
/// Most points and measures of them, and most bytes of their scenarios.
const MAX_POINTS: usize = 20_000;
const MAX_MEASURES: usize = 12;
const MAX_TEXTS: usize = 4 << 20;

/// Returns jobs as a table.
///
/// For a `chooser` it has boxes to choose some, to compare or to remove them.
pub(super) fn job_table(all: &[Job], chooser: Option<&Caller>) -> Markup {
    let table = html! {
        div.scroll tabindex="0" role="region" aria-label="Jobs" { table {
            thead { tr {
                @if chooser.is_some() { th scope="col" { span.hidden { "Choose" } } }
                th scope="col" { "Job" } th scope="col" { "Scenario" } th scope="col" { "State" }
                th.num scope="col" { "Runs" } th scope="col" { "Owner" } th scope="col" { "Launched (UTC)" }
            } }
            tbody { @for job in all { tr {
                @if chooser.is_some() { td { input type="checkbox" name="job" value=(job.id) aria-label={ "choose job " (job.id) }; } }
                td { a href={ "/jobs/" (job.id) } { "#" (job.id) } }
                td { (job.name) (job.kind.name().remark()) @if job.origin.is_some() { " (imported)" } @for tag in &job.tags { " " a.tag href={ "/jobs?search=" (encoded(tag)) } { (tag) } } }
                td { (state(job.state.word())) @if job.is_running() { " " (percent(job.share)) } }
                td.num { (job.finished) @if job.runs > 0 { " of " (job.runs) } }
                td { (job.owner) }
                td { (time(job.created)) }
            } } }
        } }
    };
    let Some(chooser) = chooser else { return table };
    html! { form method="get" action="/compare" { (table) p {
        button.quiet { "Compare the chosen jobs" }
        @if chooser.user.level >= 1 { " " button.quiet formaction="/jobs/remove" { "Remove the chosen jobs" } }
    } } }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(search): Search<api::JobSearch>,
) -> Answer {
    let (state, text) = (search.state.clone().unwrap_or_default(), search.search.clone().unwrap_or_default());
    let selection = Selection::try_from(search)?;
    let (user, asked) = (caller.user.clone(), selection.clone());
    let all = app.read(move |db| Ok(jobs::list(db, &user, &asked)?)).await?;
    let last = all.last().filter(|_| all.len() as u32 == selection.limit).map(|job| job.id);
    let body = html! {
        h1 { "Jobs" }
        @if let Some(why) = space::shortage(&app.settings) { p.alert role="alert" { "Queued jobs wait: " (why) "." } }
        form.row method="get" role="search" {
            label { "Name, note or tag" input name="search" value=(text) maxlength="100"; }
            label { "State" select name="state" {
                option value="" { "any" }
                @for word in JobState::ALL.map(JobState::word) { option value=(word) selected[word == state] { (word) } }
            } }
            button.quiet { "Search" }
        }
        @if all.is_empty() { p { "No jobs." } } @else { (job_table(&all, Some(&caller))) }
        @if let Some(before) = last {
            p { a href={ "/jobs?before=" (before) "&state=" (encoded(&state)) "&search=" (encoded(&text)) } { "Older jobs" } }
        }
        @if caller.user.level >= 1 {
            details {
                summary { "Import a job" }
                form.stack method="post" action="/jobs/import" enctype="multipart/form-data" {
                    label { "Zip file of a job, from this server or another" input name="file" type="file" accept=".zip" required; }
                    p.hint { "It has at most " (MAX_PACKED >> 20) " MiB. Its hashes and fingerprints are checked; run the job again to see whether it gives the same here." }
                    button.quiet { "Import" }
                }
            }
        }
    };
    Ok(sheet(&caller, "Jobs", &body))
}

pub(super) async fn repeat(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    let job = import::again(&app, &caller, id).await?;
    Ok(Redirect::to(&format!("/jobs/{}", job.id)))
}

/// Receives the archive of a form.
pub(super) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    mut form: Multipart,
) -> Done {
    let wrong = |error: &dyn std::fmt::Display| Problem::bad(format!("the form cannot be read: {error}"));
    while let Some(mut field) = form.next_field().await.map_err(|error| wrong(&error))? {
        if field.name() != Some("file") {
            continue;
        }
        let mut arrival = import::Arrival::new(&app, &caller).await?;
        while let Some(block) = field.chunk().await.map_err(|error| wrong(&error))? {
            arrival.add(&app, &block)?;
        }
        let job = arrival.import(&app, &caller).await?;
        return Ok(Redirect::to(&format!("/jobs/{}", job.id)));
    }
    Err(Problem::bad("expected a file").into())
}

pub(super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<api::Change>,
) -> Done {
    api::change(&app, &caller, id, sent).await?;
    Ok(Redirect::to(&format!("/jobs/{id}")))
}

pub(super) async fn annotate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Form(sent): Form<api::Remarks>,
) -> Done {
    api::remark(&app, &caller, id, sent).await?;
    Ok(Redirect::to(&format!("/jobs/{id}")))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    api::stop(&app, &caller, id).await?;
    Ok(Redirect::to(&format!("/jobs/{id}")))
}

/// Policy of reports: inline style and script, in an isolated origin.
const REPORT_POLICY: &str = "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'";

pub(super) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Response, Refused> {
    api::found(&app, &caller, id).await?;
    let files = app.read(move |db| Ok(jobs::artifacts(db, id)?)).await?;
    let report = files.iter().find(|file| file.path == "report.html").ok_or_else(Problem::not_found)?;
    let (report, file) = api::open_artifact(&app, &caller, id, report.number).await?;
    let body = api::streamed(file, report.bytes.unsigned_abs());
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    Ok(response)
}

type Found<T> = Result<T, Problem>;

/// Pairs of a query: numbers of jobs, and a text in names of measures.
type Pairs = Vec<(String, String)>;

/// Jobs that are compared.
#[derive(Default)]
struct Compared {
    jobs: Vec<Job>,
    /// Points: the place of the job, and its measures of the names below.
    rows: Vec<(usize, Vec<JobMeasure>)>,
    /// Names and units of the measures.
    names: Vec<(String, String)>,
    /// Versions of the definitions of the jobs' measures.
    definitions: Vec<u32>,
    /// Work of a child: the keys that differ.
    texts: Vec<String>,
    points: Vec<ComparedJob>,
}

impl Compared {
    /// Adds a job with those of its measures whose names have a text in them.
    fn add(
        &mut self,
        db: &Transaction<'_>,
        job: Job,
        text: &str,
        known: &mut HashMap<i64, usize>,
    ) -> Found<()> {
        let version = job.kind.version().unwrap_or_default();
        let place = match known.get(&version) {
            Some(place) => *place,
            None => {
                self.texts.push(jobs::text(db, &job)?);
                known.insert(version, self.texts.len() - 1);
                self.texts.len() - 1
            }
        };
        if self.texts.iter().map(String::len).sum::<usize>() > MAX_TEXTS {
            let most = MAX_TEXTS >> 20;
            return Err(Problem::bad(format!(
                "the scenarios of these jobs have over {most} MiB: compare fewer"
            )));
        }
        self.definitions.push(jobs::definitions(db, job.id)?);
        let points = jobs::points(db, job.id)?;
        if self.rows.len() + points.len() > MAX_POINTS {
            return Err(Problem::bad(format!("these jobs have over {MAX_POINTS} points: compare fewer")));
        }
        let mut measures: HashMap<i64, Vec<JobMeasure>> = HashMap::new();
        for measure in jobs::measures(db, job.id, text)? {
            let is_known = self.names.iter().any(|(name, _)| *name == measure.name);
            if !is_known && self.names.len() < MAX_MEASURES {
                self.names.push((measure.name.clone(), measure.unit.clone()));
            }
            if is_known || self.names.last().is_some_and(|(name, _)| *name == measure.name) {
                measures.entry(measure.point).or_default().push(measure);
            }
        }
        let number = self.jobs.len();
        self.rows.extend(
            (0..points.len()).map(|point| (number, measures.remove(&(point as i64)).unwrap_or_default())),
        );
        self.points.push(ComparedJob {
            text: place,
            set: set_by(&job),
            points: points.into_iter().map(|(settings, _)| pairs_of(&settings)).collect(),
        });
        self.jobs.push(job);
        Ok(())
    }
}

/// Returns the keys that the settings of a job set.
fn set_by(job: &Job) -> Vec<(String, String)> {
    let duration = job.duration.iter().map(|duration| ("duration".to_owned(), duration.clone()));
    let seeds = job.seeds.iter().map(|seeds| ("seeds".to_owned(), seeds.to_string()));
    duration.chain(seeds).collect()
}

fn pairs_of(settings: &Value) -> Vec<(String, String)> {
    let pairs = settings.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// Returns plots of runs as a part of a page. Those that would be too much for one are left out.
pub(super) async fn drawn(
    app: &App,
    caller: &Caller,
    runs: Vec<Source>,
    window: Window,
) -> Found<PreEscaped<String>> {
    if runs.is_empty() {
        return Ok(PreEscaped(String::new()));
    }
    let drawing = Task::Draw(Drawing { runs, window });
    match app.work(&caller.user, drawing).await {
        Ok(html) => Ok(PreEscaped(html)),
        Err(problem) if problem.code() == StatusCode::UNPROCESSABLE_ENTITY => {
            Ok(html! { p.note { "No plots: " (problem.detail) } })
        }
        Err(problem) => Err(problem),
    }
}

pub(super) async fn compare(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(query): Search<Pairs>,
) -> Answer {
    let ids: BTreeSet<i64> = query
        .iter()
        .filter(|(name, _)| name == "job")
        .filter_map(|(_, id)| id.parse().ok())
        .take(MAX_COMPARED)
        .collect();
    let text = query.iter().find(|(name, _)| name == "measure").map(|(_, text)| text.clone());
    let text = text.unwrap_or_else(|| "goodput".to_owned());
    let (user, wanted, asked) = (caller.user.clone(), ids.clone(), text.clone());
    let mut compared = app
        .read(move |db| {
            let (mut compared, mut known) = (Compared::default(), HashMap::new());
            for id in wanted {
                let job = jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
                compared.add(db, job, &asked, &mut known)?;
            }
            Ok(compared)
        })
        .await?;
    let (texts, jobs) = (std::mem::take(&mut compared.texts), std::mem::take(&mut compared.points));
    let differing: Comparison = match jobs.is_empty() {
        true => Comparison::default(),
        false => app.work(&caller.user, Task::Compare { texts, jobs }).await?,
    };
    let wants_plots = query.iter().any(|(name, _)| name == "plots");
    let is_whole = query.iter().any(|(name, _)| name == "whole");
    let window = if is_whole { Window::default() } else { Window::of(&query) };
    let runs = if wants_plots { first_runs(&app, &caller, &ids).await? } else { Vec::new() };
    let pictures = drawn(&app, &caller, runs, window).await?;
    let body = html! {
        (comparison(&ids, &text, &compared, &differing))
        @if wants_plots {
            h2 { "Plots" }
            @if pictures.0.is_empty() { p { "These jobs have no series that fit on a page." } } @else {
                p.hint { "Of the first run of each job, on the same axes." }
                (zoom_form(&ids, &text, window))
                (pictures)
            }
        }
    };
    Ok(sheet(&caller, "Compare", &body))
}

/// Returns the form of the time that all plots show.
fn zoom_form(ids: &BTreeSet<i64>, text: &str, window: Window) -> Markup {
    let is_zoomed = window != Window::default();
    html! {
        form.row #zoom method="get" {
            @for id in ids { input type="hidden" name="job" value=(id); }
            input type="hidden" name="measure" value=(text);
            input type="hidden" name="plots" value="yes";
            label { "From (s)" input name="from" inputmode="decimal" maxlength="20" size="8" value=[window.from_s]; }
            label { "Until (s)" input name="until" inputmode="decimal" maxlength="20" size="8" value=[window.until_s]; }
            button.quiet { "Zoom all plots" }
            @if is_zoomed { button.quiet name="whole" value="yes" { "Show all again" } }
        }
        p.hint { "All plots have the same axis of time. Drag over one to zoom into all of them; go back in the browser to zoom out one step." }
    }
}

/// Returns the first runs of jobs with series that fit on a page.
async fn first_runs(app: &App, caller: &Caller, ids: &BTreeSet<i64>) -> Found<Vec<Source>> {
    let (user, wanted, kept) = (caller.user.clone(), ids.clone(), app.clone());
    let sources: Vec<Source> = app
        .read(move |db| {
            let mut all = Vec::new();
            for id in wanted {
                let job = jobs::find(db, &user, id)?.filter(Job::is_over);
                let folder = job.and(jobs::folder(db, id)?);
                let files = jobs::artifacts(db, id)?;
                all.extend(folder.and_then(|folder| Source::new(&kept, (id, &folder), &files)));
            }
            Ok(all)
        })
        .await?;
    Ok(sources.into_iter().filter(|source| source.bytes <= MAX_SERIES).take(MAX_OVERLAID).collect())
}

/// Returns rows of points; the keys that differ come first, then the measures.
fn comparison(ids: &BTreeSet<i64>, text: &str, compared: &Compared, differing: &Comparison) -> Markup {
    let Compared { jobs, rows, names, definitions, .. } = compared;
    let is_mixed = definitions.iter().any(|version| *version != definitions[0]);
    html! {
        h1 { "Compare" }
        form.row method="get" {
            @for id in ids { input type="hidden" name="job" value=(id); }
            label { "Measures with" input name="measure" value=(text) maxlength="100"; }
            button.quiet { "Show" }
            @if !rows.is_empty() { button.quiet name="plots" value="yes" { "Show with plots" } }
        }
        @if rows.is_empty() { p { "Choose finished jobs in the list of jobs, or in the report of a scenario." } } @else {
            @if differing.keys.is_empty() { p { "No keys differ." } }
            div.scroll tabindex="0" role="region" aria-label="Comparison" { table {
                thead { tr {
                    th scope="col" { "Job" }
                    @for key in &differing.keys { th scope="col" { code { (key) } } }
                    @for (name, unit) in names { th.num scope="col" { (name) " (" (unit) ")" } }
                } }
                tbody { @for ((job, measures), values) in rows.iter().zip(&differing.rows) { tr {
                    td {
                        a href={ "/jobs/" (jobs[*job].id) } { "#" (jobs[*job].id) " " (jobs[*job].name) }
                        @if is_mixed { " (definitions " (definitions[*job]) ")" }
                    }
                    @for value in values { td { (value) } }
                    @for (name, _) in names {
                        td.num { (measures.iter().find(|measure| measure.name == *name).map(estimate).unwrap_or_default()) }
                    }
                } } }
            } }
            @if is_mixed {
                p.note { "These jobs are of several versions of the definitions of measures: some mean something else in each. Run the older ones again." }
            }
            p.hint { "Means over the seeds, with 95 % confidence intervals where a job has several." }
        }
    }
}
