//! Pages of jobs: list, progress, results, comparison.

use std::collections::{BTreeSet, HashMap};

use axum::Extension;
use axum::extract::{Form, Multipart, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bentpipe_agent::protocol::Program;
use maud::{Markup, PreEscaped, html};
use rusqlite::Transaction;
use serde_json::Value;

use super::field;
use super::layout::{Answer, Done, Refused, sheet, state, time};
use super::packets;
use crate::api::body::{Ids, Search};
use crate::api::{access, import, jobs as api};
use crate::app::{App, blocking};
use crate::archive::MAX_PACKED;
use crate::guard::Caller;
use crate::plots::{MAX_OVERLAID, MAX_SERIES, Source, Window};
use crate::problem::Problem;
use crate::space;
use crate::store::jobs::{self, Artifact, Event, Job, JobMeasure, JobState, Method, Selection};
use crate::store::sites;
use crate::url::encoded;
use crate::work::{ComparedJob, Comparison, Drawing, Task};

/// Most files in the list of a page.
const MAX_LISTED: usize = 200;
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

fn percent(share: f64) -> String {
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

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let user = caller.user.clone();
    let (job, tasks, measures, files, events, points) = app
        .read(move |db| {
            Ok((
                // With its events, after whose last one the page follows it: a state between the two would never be seen.
                jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)?,
                sites::tasks(db, id)?,
                jobs::measures(db, id, "")?,
                jobs::artifacts(db, id)?,
                jobs::events(db, id, 0, 1000)?,
                jobs::points(db, id)?,
            ))
        })
        .await?;
    let results = app.read(move |db| Ok(jobs::folder(db, id)?)).await?;
    let source =
        results.and_then(|folder| Source::new(id, &app.job_folder(id).join("results").join(folder), &files));
    let source = source.filter(|source| job.is_over() && source.bytes <= MAX_SERIES);
    let pictures = drawn(&app, &caller, source.into_iter().collect(), Window::default()).await?;
    let place = crate::api::queue::of(&app, &caller, id).await?;
    let can_stop = caller.user.level >= 1 && access::may_change(&caller.user, job.owner_id).is_ok();
    let report = files.iter().find(|file| file.path == "report.html");
    let has_query = crate::queries::has_query(files.iter().map(|file| &file.path[..]))
        || (job.is_running() && !job.is_campaign() && {
            let results = app.job_folder(id).join("results");
            blocking(move || Ok(crate::queries::is_there(&results))).await?
        });
    let capture = files.iter().find(|file| file.path.ends_with(".pcap"));
    let has_emulation = tasks.iter().any(|task| matches!(task.program, Some(Program::Emulate { .. })));
    let last = events.last().map_or(0, |event| event.id);
    let body = html! {
        p.crumb {
            a href="/jobs" { "Jobs" } " / "
            @if let Some(scenario) = job.scenario { a href={ "/scenarios/" (scenario) "/report" } { (job.name) } } @else { (job.name) }
        }
        h1 { (job.kind.name().noun()) " #" (job.id) }
        div #live data-job=[(!job.is_over()).then_some(job.id)] data-last=(last) {
            dl.facts aria-live="polite" {
                div { dt { "State" } dd #state { (state(job.state.word())) } }
                div { dt { "Runs" } dd #runs { (job.finished) @if job.runs > 0 { " of " (job.runs) } } }
                div { dt { "Owner" } dd { (job.owner) } }
                div { dt { (if job.origin.is_some() { "Imported (UTC)" } else { "Launched (UTC)" }) } dd { (time(job.created)) } }
                @if let Some(ended) = job.ended { div { dt { "Ended (UTC)" } dd { (time(ended)) } } }
                @if let Some(Method::Search(question)) = job.method() {
                    div { dt { "Searched" } dd { (question.over) } }
                    div { dt { "While" } dd { (question.conditions.join(", ")) } }
                }
                @if job.attempt > 1 { div { dt { "Attempt" } dd { (job.attempt) } } }
                @if let [(_, fingerprint)] = &points[..] { div { dt { "Fingerprint" } dd { (fingerprint) } } }
                @if let Some(other) = job.repeats { div { dt { "Repeats" } dd { a href={ "/jobs/" (other) } { "#" (other) } } } }
                @if let Some(origin) = &job.origin { div { dt { "Origin" } dd { "job #" (origin.job) " of bentpipe " (origin.program) } } }
            }
            (reproduction(&job))
            @if let Some(place) = &place {
                p.note {
                    "It waits: " (place.reason) ". Position " (place.position) " of " (place.of) " in the queue."
                    @if let Some(expected) = place.expected { " Expected start: " (time(expected)) " (UTC)." }
                }
            }
            @if !job.is_over() {
                progress #progress max="1" value=(job.share) aria-label="Progress" { (percent(job.share)) }
                p.hint {
                    "This page follows the job. It can be closed: the job goes on."
                    @if job.is_campaign() { " Finished runs are counted as processes end, each after about ten seconds." }
                }
                div #plots.plots {}
                @if !job.is_campaign() && !job.is_on_sites() { (packets::tail(job.id)) }
                @if job.is_emulation() || has_emulation { (changes(&job, &events, can_stop)) }
                @if can_stop && !job.cancel {
                    form method="post" action={ "/jobs/" (job.id) "/cancel" } { button.quiet { "Cancel, and keep finished runs" } }
                } @else if job.cancel { p { "Its end was requested." } }
            }
        }
        @if !job.message.is_empty() { h2 { "Message" } pre tabindex="0" { (job.message) } }
        @if let Some(report) = report {
            p { a.button href={ "/jobs/" (job.id) "/report" } { "Open the report" } " " a href={ "/jobs/" (job.id) "/files/" (report.number) } { "Download it" } }
        }
        @if job.is_over() && caller.user.level >= 1 {
            form method="post" action={ "/jobs/" (id) "/repeat" } { button.quiet { "Run again, and compare fingerprints" } }
        }
        @if job.is_over() && can_stop {
            form method="get" action="/jobs/remove" { input type="hidden" name="job" value=(id); button.quiet { "Remove it" } }
        }
        @if !tasks.is_empty() { (task_table(&tasks)) }
        (remarks(&job, can_stop))
        @if !pictures.0.is_empty() {
            details open[!job.is_campaign()] {
                summary { "Plots" @if job.runs > 1 { " of the first run" } }
                (pictures)
                p { a href={ "/compare?job=" (id) "&plots=yes" } { "Zoom into these plots" } }
                p { a href={ "/api/v1/jobs/" (id) "/series?select=*" } download={ "job-" (id) "-series.csv" } { "The series as a table (CSV)" } }
            }
        }
        (measure_table(&measures, &points))
        @if has_query { (field::link(id)) }
        (packets::link(id, capture.filter(|_| job.is_over()).map(|file| &file.path[..])))
        (file_table(job.id, &files))
        details { summary { "Events" }
            div.scroll tabindex="0" role="region" aria-label="Events" { table {
                thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "Kind" } th scope="col" { "Content" } } }
                tbody { @for event in &events { tr { td { (time(event.at)) } td { (event.kind) } td { code { (event.content) } } } } }
            } }
        }
    };
    Ok(sheet(&caller, &format!("Job #{id}"), &body))
}

/// Returns what is known of a job's results in comparison with others.
fn reproduction(job: &Job) -> Markup {
    let other = job.repeats.unwrap_or_default();
    html! {
        @match (job.equal, job.repeats.is_some() && job.state == JobState::DONE) {
            (Some(true), _) => p.note { "Equal fingerprints: it reproduces job #" (other) "." },
            (Some(false), _) => p.alert role="alert" { "Different fingerprints: it does not reproduce job #" (other) "." },
            (None, true) => p.note { "Not compared: jobs of this kind have no fingerprints, such as emulations." },
            (None, false) => {}
        }
        @if job.origin.is_some() {
            p.note { "Imported: its results are as its archive states them. Run it again to see whether they are reproduced here." }
        }
    }
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
        let mut arrival = import::Arrival::new(&app).await?;
        while let Some(block) = field.chunk().await.map_err(|error| wrong(&error))? {
            arrival.add(&block)?;
        }
        let job = arrival.import(&app, &caller).await?;
        return Ok(Redirect::to(&format!("/jobs/{}", job.id)));
    }
    Err(Problem::bad("expected a file").into())
}

/// Returns the tasks of a job on sites.
fn task_table(tasks: &[sites::Task]) -> Markup {
    let clock = |task: &sites::Task| {
        task.error_us.map_or(String::new(), |error_us| format!("\u{b1} {:.2} ms", error_us / 1e3))
    };
    html! {
        h2 { "Tasks" }
        div.scroll tabindex="0" role="region" aria-label="Tasks" { table {
            thead { tr {
                th scope="col" { "Task" } th scope="col" { "Site" } th scope="col" { "Program" } th scope="col" { "State" }
                th scope="col" { "Clock" } th scope="col" { "Exit code" }
            } }
            tbody { @for task in tasks { tr {
                td { (task.name) }
                td { (task.site_name) }
                td { (task.program.as_ref().map_or("", |program| program.name())) }
                td { (task.state) @if !task.why.is_empty() { ": " (task.why) } }
                td { (clock(task)) }
                td { @if let Some(code) = task.code { (code) } }
            } } }
        } }
    }
}

/// Returns the changes of this attempt, and a form for those who may make more.
fn changes(job: &Job, events: &[Event], can_change: bool) -> Markup {
    let is_start =
        |event: &Event| event.kind == "state" && event.content["state"] == JobState::Running.word();
    let attempt = events.iter().rposition(is_start).unwrap_or(0);
    html! {
        ul #changes.note aria-live="polite" {
            @for event in events[attempt..].iter().filter(|event| event.kind == "set") {
                @let at_s = event.content["at"].as_f64().unwrap_or_default();
                li data-at=(at_s) { (format!("{at_s:.1} s: ")) code { (text_of(&event.content, "key")) " = " (text_of(&event.content, "value")) } }
            }
        }
        @if can_change && job.is_running() {
            form.row method="post" action={ "/jobs/" (job.id) "/set" } {
                label { "Key" input name="key" required placeholder="link.satellite.delay" maxlength="1000"; }
                label { "Value" input name="value" required placeholder="300 ms" maxlength="1000"; }
                button { "Set while it runs" }
            }
        }
    }
}

fn text_of<'a>(content: &'a Value, name: &str) -> &'a str {
    content[name].as_str().unwrap_or_default()
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

/// Returns note and tags, as a form for those who may change them.
fn remarks(job: &Job, can_change: bool) -> Markup {
    html! {
        @if can_change {
            details open[!job.note.is_empty() || !job.tags.is_empty()] {
                summary { "Note and tags" }
                form.stack method="post" action={ "/jobs/" (job.id) "/remarks" } {
                    label { "Note" textarea name="note" rows="3" maxlength="4000" { "\n" (job.note) } }
                    label { "Tags, separated by spaces" input name="tags" value=(job.tags.join(" ")) maxlength="900"; }
                    button.quiet { "Save note and tags" }
                }
            }
        } @else if !job.note.is_empty() || !job.tags.is_empty() {
            h2 { "Note and tags" }
            @if !job.note.is_empty() { p.note { (job.note) } }
            p { @for tag in &job.tags { a.tag href={ "/jobs?search=" (encoded(tag)) } { (tag) } " " } }
        }
    }
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

fn settings_text(settings: &Value) -> String {
    let pairs = settings.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| format!("{key} = {}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn measure_table(measures: &[JobMeasure], points: &[(Value, String)]) -> Markup {
    html! {
        @if !measures.is_empty() {
            h2 { "Measures" }
            details open[measures.len() <= 40] {
            summary { (measures.len()) " values" }
            div.scroll tabindex="0" role="region" aria-label="Measures" { table {
                thead { tr { @if points.len() > 1 { th scope="col" { "Point" } } th scope="col" { "Measure" } th.num scope="col" { "Mean" } th scope="col" { "Unit" } th.num scope="col" { "Seeds" } } }
                tbody { @for measure in measures.iter().take(500) { tr {
                    @if points.len() > 1 { td { (points.get(measure.point as usize).map(|(settings, _)| settings_text(settings)).unwrap_or_default()) } }
                    td { (measure.name) }
                    td.num { (estimate(measure)) }
                    td { (measure.unit) }
                    td.num { (measure.n) }
                } } }
            } }
            @if measures.len() > 500 { p.hint { "The first 500 of " (measures.len()) "; the file summary.csv has all." } }
            }
        }
    }
}

fn estimate(measure: &JobMeasure) -> String {
    match (measure.mean, measure.half) {
        (Some(mean), Some(half)) => bentpipe_report::with_interval(mean, Some(half)),
        (Some(mean), None) => bentpipe_report::number(mean),
        (None, _) => "\u{2013}".to_owned(),
    }
}

fn file_table(job: i64, files: &[Artifact]) -> Markup {
    html! {
        @if !files.is_empty() {
            h2 { "Files" }
            div.scroll tabindex="0" role="region" aria-label="Files" { table {
                thead { tr { th scope="col" { "File" } th.num scope="col" { "Bytes" } } }
                tbody { @for file in files.iter().take(MAX_LISTED) { tr {
                    td { a href={ "/jobs/" (job) "/files/" (file.number) } { (file.path) } }
                    td.num { (file.bytes) }
                } } }
            } }
            p { a href={ "/api/v1/jobs/" (job) "/archive" } { "Download all as a zip file" } }
            @if files.len() > MAX_LISTED { p.hint { "The first " (MAX_LISTED) " of " (files.len()) "; the API lists all." } }
        }
    }
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
async fn drawn(app: &App, caller: &Caller, runs: Vec<Source>, window: Window) -> Found<PreEscaped<String>> {
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
                let results = folder.map(|folder| kept.job_folder(id).join("results").join(folder));
                let files = jobs::artifacts(db, id)?;
                all.extend(results.and_then(|results| Source::new(id, &results, &files)));
            }
            Ok(all)
        })
        .await?;
    Ok(sources.into_iter().filter(|source| source.bytes <= MAX_SERIES).take(MAX_OVERLAID).collect())
}

/// Returns rows of points; the keys that differ come first, then the measures.
fn comparison(ids: &BTreeSet<i64>, text: &str, compared: &Compared, differing: &Comparison) -> Markup {
    let Compared { jobs, rows, names, .. } = compared;
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
                    td { a href={ "/jobs/" (jobs[*job].id) } { "#" (jobs[*job].id) " " (jobs[*job].name) } }
                    @for value in values { td { (value) } }
                    @for (name, _) in names {
                        td.num { (measures.iter().find(|measure| measure.name == *name).map(estimate).unwrap_or_default()) }
                    }
                } } }
            } }
            p.hint { "Means over the seeds, with 95 % confidence intervals where a job has several." }
        }
    }
}
