//! Page of a job: progress, results, remarks.

use axum::Extension;
use axum::extract::State;
use bentpipe_agent::protocol::Program;
use maud::{Markup, html};
use serde_json::Value;

use super::accounts;
use super::field;
use super::jobs::{drawn, percent};
use super::layout::{Answer, estimate, settings_text, sheet, state, time};
use super::packets;
use crate::api::access;
use crate::api::body::Ids;
use crate::app::{App, RESULTS, blocking};
use crate::guard::Caller;
use crate::plots::{MAX_SERIES, Source, Window};
use crate::problem::{Problem, Result};
use crate::queries;
use crate::store::jobs::{self, Artifact, Event, Job, JobMeasure, JobState, Method};
use crate::store::queue::QueuePlace;
use crate::store::sites;
use crate::url::encoded;

/// Most files in the list of a page.
const MAX_LISTED: usize = 200;

/// Rows of a job, of one state of the database.
struct Rows {
    /// Job, and its events: the page follows it after the last one.
    ///
    /// A state between the two would never be seen.
    job: Job,
    tasks: Vec<sites::Task>,
    measures: Vec<JobMeasure>,
    files: Vec<Artifact>,
    events: Vec<Event>,
    points: Vec<(Value, String)>,
    /// Folder of its results.
    folder: Option<String>,
}

/// Job with what its page shows to a caller.
struct View {
    rows: Rows,
    /// Place of a queued one.
    place: Option<QueuePlace>,
    /// Plots of the first run.
    pictures: Markup,
    has_query: bool,
    /// Set for those who may launch jobs.
    may_launch: bool,
    /// Set for those who may end, change and remove it.
    may_change: bool,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Answer {
    let view = View::of(&app, &caller, id).await?;
    Ok(sheet(&caller, &format!("Job #{id}"), &view.page()))
}

impl Rows {
    async fn of(app: &App, caller: &Caller, id: i64) -> Result<Rows> {
        let user = caller.user.clone();
        app.read(move |db| {
            Ok(Rows {
                job: jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)?,
                tasks: sites::tasks(db, id)?,
                measures: jobs::measures(db, id, "")?,
                files: jobs::artifacts(db, id)?,
                events: jobs::events(db, id, 0, 1000)?,
                points: jobs::points(db, id)?,
                folder: jobs::folder(db, id)?,
            })
        })
        .await
    }

    /// Returns the series of its first run, if they are to be drawn.
    fn source(&self, app: &App) -> Option<Source> {
        let source = Source::new(app, (self.job.id, self.folder.as_deref()?), &self.files)?;
        (self.job.is_over() && source.bytes <= MAX_SERIES).then_some(source)
    }

    /// Returns `true` if it has a query to a sensor field, running or over.
    async fn has_query(&self, app: &App) -> Result<bool> {
        let is_listed = queries::has_query(self.files.iter().map(|file| &file.path[..]));
        if is_listed || !self.job.is_running() || self.job.is_campaign() {
            return Ok(is_listed);
        }
        let results = app.job_folder(self.job.id).join(RESULTS);
        blocking(move || Ok(queries::is_there(&results))).await
    }

    fn has_emulation(&self) -> bool {
        let emulates = |task: &sites::Task| matches!(task.program, Some(Program::Emulate { .. }));
        self.job.is_emulation() || self.tasks.iter().any(emulates)
    }
}

impl View {
    async fn of(app: &App, caller: &Caller, id: i64) -> Result<View> {
        let rows = Rows::of(app, caller, id).await?;
        let sources = rows.source(app).into_iter().collect();
        let may_launch = caller.user.level >= 1;
        Ok(View {
            place: crate::api::queue::of(app, caller, id).await?,
            pictures: drawn(app, caller, sources, Window::default()).await?,
            has_query: rows.has_query(app).await?,
            may_launch,
            may_change: may_launch && access::may_change(&caller.user, rows.job.owner_id).is_ok(),
            rows,
        })
    }

    fn page(&self) -> Markup {
        let Rows { job, tasks, events, .. } = &self.rows;
        html! {
            p.crumb {
                a href="/jobs" { "Jobs" } " / "
                @if let Some(scenario) = job.scenario { a href={ "/scenarios/" (scenario) "/report" } { (job.name) } } @else { (job.name) }
            }
            h1 { (job.kind.name().noun()) " #" (job.id) }
            (self.live())
            (self.end())
            @if !tasks.is_empty() { (task_table(tasks)) }
            (remarks(job, self.may_change))
            (self.plots())
            (self.results())
            (event_table(events))
        }
    }

    /// Returns the part that follows a job which is not over.
    fn live(&self) -> Markup {
        let Rows { job, events, .. } = &self.rows;
        let last = events.last().map_or(0, |event| event.id);
        html! {
            div #live data-job=[(!job.is_over()).then_some(job.id)] data-last=(last) {
                (facts(job, &self.rows.points))
                (reproduction(job))
                @if let Some(place) = &self.place {
                    p.note {
                        "It waits: " (place.reason) ". Position " (place.position) " of " (place.of) " in the queue."
                        @if let Some(expected) = place.expected { " Expected start: " (time(expected)) " (UTC)." }
                    }
                }
                @if !job.is_over() { (self.progress()) }
            }
        }
    }

    fn progress(&self) -> Markup {
        let job = &self.rows.job;
        html! {
            progress #progress max="1" value=(job.share) aria-label="Progress" { (percent(job.share)) }
            p.hint {
                "This page follows the job. It can be closed: the job goes on."
                @if job.is_campaign() { " Finished runs are counted as processes end, each after about ten seconds." }
            }
            div #plots.plots {}
            @if !job.is_campaign() && !job.is_on_sites() { (packets::tail(job.id)) }
            @if self.rows.has_emulation() { (changes(job, &self.rows.events, self.may_change)) }
            @if self.may_change && !job.cancel {
                form method="post" action={ "/jobs/" (job.id) "/cancel" } { button.quiet { "Cancel, and keep finished runs" } }
            } @else if job.cancel { p { "Its end was requested." } }
        }
    }

    /// Returns what a job ended with, and what can be done after that.
    fn end(&self) -> Markup {
        let Rows { job, files, .. } = &self.rows;
        let report = files.iter().find(|file| file.path == "report.html");
        html! {
            @if !job.message.is_empty() { h2 { "Message" } pre tabindex="0" { (job.message) } }
            @if let Some(report) = report {
                p { a.button href={ "/jobs/" (job.id) "/report" } { "Open the report" } " " a href={ "/jobs/" (job.id) "/files/" (report.number) } { "Download it" } }
            }
            @if job.is_over() && self.may_launch {
                form method="post" action={ "/jobs/" (job.id) "/repeat" } { button.quiet { "Run again" @if !job.is_emulation() { ", and compare fingerprints" } } }
            }
            @if job.is_over() && self.may_change {
                form method="get" action="/jobs/remove" { input type="hidden" name="job" value=(job.id); button.quiet { "Remove it" } }
            }
        }
    }

    fn plots(&self) -> Markup {
        let job = &self.rows.job;
        html! {
            @if !self.pictures.0.is_empty() {
                details open[!job.is_campaign()] {
                    summary { "Plots" @if job.runs > 1 { " of the first run" } }
                    (self.pictures)
                    p { a href={ "/compare?job=" (job.id) "&plots=yes" } { "Zoom into these plots" } }
                    p { a href={ "/api/v1/jobs/" (job.id) "/series?select=*" } download={ "job-" (job.id) "-series.csv" } { "The series as a table (CSV)" } }
                }
            }
        }
    }

    fn results(&self) -> Markup {
        let Rows { job, measures, points, files, .. } = &self.rows;
        let capture = files.iter().find(|file| file.path.ends_with(".pcap"));
        html! {
            (accounts::table(measures, points))
            (measure_table(measures, points))
            @if self.has_query { (field::link(job.id)) }
            (packets::link(job.id, capture.filter(|_| job.is_over()).map(|file| &file.path[..])))
            (file_table(job.id, files))
        }
    }
}

/// Returns the facts of a job as a list.
fn facts(job: &Job, points: &[(Value, String)]) -> Markup {
    html! {
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
            @if let ([(_, fingerprint)], false) = (points, job.is_emulation()) { div { dt { "Fingerprint" } dd { (fingerprint) } } }
            @if let Some(other) = job.repeats { div { dt { "Repeats" } dd { a href={ "/jobs/" (other) } { "#" (other) } } } }
            @if let Some(origin) = &job.origin { div { dt { "Origin" } dd { "job #" (origin.job) " of bentpipe " (origin.program) } } }
        }
    }
}

fn event_table(events: &[Event]) -> Markup {
    html! {
        details { summary { "Events" }
            div.scroll tabindex="0" role="region" aria-label="Events" { table {
                thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "Kind" } th scope="col" { "Content" } } }
                tbody { @for event in events { tr { td { (time(event.at)) } td { (event.kind) } td { code { (event.content) } } } } }
            } }
        }
    }
}

/// Returns what is known of a job's results in comparison with others.
fn reproduction(job: &Job) -> Markup {
    let other = job.repeats.unwrap_or_default();
    html! {
        @match (job.equal, job.repeats.is_some() && job.state == JobState::DONE) {
            (Some(true), _) => p.note { "Equal fingerprints: it reproduces job #" (other) "." },
            (Some(false), _) => p.alert role="alert" { "Different fingerprints: it does not reproduce job #" (other) "." },
            (None, true) => p.note { "Not compared: such jobs have no fingerprints that a second run repeats." },
            (None, false) => {}
        }
        @if job.origin.is_some() {
            p.note { "Imported: its results are as its archive states them. Run it again to see whether they are reproduced here." }
        }
    }
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

fn measure_table(measures: &[JobMeasure], points: &[(Value, String)]) -> Markup {
    let measures: Vec<&JobMeasure> = measures.iter().filter(|one| !accounts::is_account(one)).collect();
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
            p.hint { "Without the warm-up of the scenario." }
            @if measures.len() > 500 { p.hint { "The first 500 of " (measures.len()) "; the file summary.csv has all." } }
            }
        }
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
