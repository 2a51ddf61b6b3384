//! Work on users' input, done by child processes with limits.
//!
//! A valid input may cost any amount of memory and time. So nothing that is computed from one is computed in the server: it
//! writes a [`Task`] to the standard input of `bentpipe serve work`, a process with limits of memory, processor time, size of
//! files and number of processes, and reads the answer from its standard output. The server's own memory depends on neither.

mod results;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bentpipe_report::{DrawnPart, draw_with};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use results::{ComparedJob, Comparison, Drawing, ROWS, SELECTED};

use crate::app::{App, Settings, blocking};
use crate::archive::{self, Arrived};
use crate::children::{Child, Excess, Failure, Limits, Turn};
use crate::diff;
use crate::drafts::{self, Draft, Edited};
use crate::forms::{self, Outline};
use crate::inputs::{self, Inputs, Staging};
use crate::launch::{self, LaunchSettings};
use crate::problem::{Finding, Problem, Result};
use crate::store::files::Content;
use crate::store::people::User;
use crate::url::form_address;

/// Work of a child.
#[derive(Serialize, Deserialize)]
pub(crate) enum Task {
    /// Check of a scenario, also for a launch.
    Check { text: String, inputs: Inputs, job: Option<LaunchSettings> },
    /// Check and outline of a scenario for its pages, with the fields of a form.
    Open { text: String, inputs: Inputs, scenario: i64, form: Option<Vec<String>> },
    /// Outline alone.
    Outline { text: String, form: Option<Vec<String>> },
    /// Change of a key, with a check of the result.
    Edit { text: String, key: String, value: Option<String>, inputs: Inputs },
    /// Search for the key that makes a check cost too much.
    Blame { text: String, detail: String },
    /// Removal of a key.
    Remove { text: String, key: String },
    /// Values of a form, written into a text.
    Form { text: String, path: Vec<String>, sent: Vec<(String, String)> },
    /// Empty entry of a section.
    AddEntry { text: String, section: String, name: String },
    /// Keys of an entry, as a preset.
    MakePreset { text: String, entry: [String; 2] },
    /// Preset, set in an entry.
    LoadPreset { text: String, entry: [String; 2], preset: String },
    /// Job file of a job on sites.
    Sites { file: String, scenario: String },
    /// Bytes that the archive of a job has unpacked.
    Weigh { archive: PathBuf },
    /// Archive of a job, unpacked into the folder `archive` of the working folder.
    Import { archive: PathBuf },
    /// Points and measures of a summary, as lines of a file in the working folder.
    Rows { results: PathBuf },
    /// Selected series of results, as CSV.
    Select { results: PathBuf, patterns: Vec<String> },
    /// Plots of runs, as a part of a page.
    Draw(Drawing),
    /// Lines that differ between two texts, with their marks.
    Difference { from: String, to: String },
    /// Keys that differ between points of jobs.
    Compare { texts: Vec<String>, jobs: Vec<ComparedJob> },
}

/// Checked scenario, as its pages show it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Number of points of the sweep.
    pub(crate) points: usize,
    pub(crate) duration: String,
    pub(crate) seed: u64,
    pub(crate) seeds: u32,
    /// Budget, as `bentpipe check` prints it.
    pub(crate) budget: Option<String>,
    /// Drawing of the network, if it was asked for and is not too large.
    pub(crate) drawing: Option<String>,
    /// Files that the scenario names.
    pub(crate) files: Vec<Content>,
    /// Length of the job in real time, if it is an emulation, in milliseconds.
    pub(crate) real_ms: Option<i64>,
}

/// Task of a job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlannedTask {
    pub(crate) name: String,
    pub(crate) site: String,
    /// Name of its program.
    pub(crate) program: String,
    /// Longest time to its end from the common start, in milliseconds.
    pub(crate) real_ms: i64,
}

/// Findings of a check, or what it found without any.
pub(crate) type Findings = std::result::Result<Checked, Vec<Finding>>;

/// Does the task on the standard input, and writes its answer to the standard output.
///
/// It is the whole of a child of a server. `confine` confines the process to the working folder, and to files and folders that
/// the task reads, before anything of a user is parsed.
///
/// # Errors
/// Returns an error if the one cannot be read, the other cannot be written, or the process cannot be confined.
pub fn work(
    confine: impl FnOnce(&[PathBuf]) -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let task: Task = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    drop(bytes);
    let mut folders = task.readable();
    confine(&folders)?;
    folders.extend(std::env::current_dir());
    let answer = task.run().map_err(|problem| problem.without(&folders));
    let answer = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
    std::io::stdout().lock().write_all(&answer).map_err(|error| error.to_string())
}

impl Task {
    /// Returns the files and folders outside of the working folder that it reads.
    fn readable(&self) -> Vec<PathBuf> {
        match self {
            Task::Check { inputs, .. } | Task::Open { inputs, .. } | Task::Edit { inputs, .. } => {
                inputs.paths()
            }
            Task::Weigh { archive } | Task::Import { archive } => vec![archive.clone()],
            Task::Rows { results } | Task::Select { results, .. } => vec![results.clone()],
            Task::Draw(drawing) => drawing.runs.iter().map(|run| run.folder.clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn run(self) -> Result<serde_json::Value> {
        match self {
            Task::Check { text, inputs, job } => value(&check(&text, &inputs, (None, job.as_ref()))?),
            Task::Open { text, inputs, scenario, form } => {
                let outline = forms::outline(&text, form.as_deref());
                value(&(check(&text, &inputs, (Some(scenario), None))?, outline))
            }
            Task::Outline { text, form } => value(&forms::outline(&text, form.as_deref())),
            Task::Edit { text, key, value: new, inputs } => {
                let text = drafts::edit(&text, &key, new.as_deref())?;
                let problems = drafts::check(&text, &inputs).err().unwrap_or_default();
                value(&Edited { text, problems })
            }
            Task::Blame { text, detail } => value(&drafts::too_costly(&text, &detail)),
            Task::Remove { text, key } => value(&drafts::edit(&text, &key, None)?),
            Task::Form { text, path, sent } => value(&forms::apply(&text, &path, &sent)?),
            Task::AddEntry { text, section, name } => value(&drafts::add_table(&text, &section, &name)?),
            Task::MakePreset { text, entry: [section, name] } => {
                value(&drafts::preset_of(&text, [&section, &name])?)
            }
            Task::LoadPreset { text, entry: [section, name], preset } => {
                value(&drafts::load_preset(&text, [&section, &name], &preset)?)
            }
            Task::Sites { file, scenario } => value(&planned(&file, &scenario)?),
            Task::Weigh { archive } => value(&archive::weigh(&archive)?),
            Task::Import { archive } => value(&arrived(&archive)?),
            Task::Rows { results } => value(&results::write_rows(&results)?),
            Task::Select { results, patterns } => value(&results::select(&results, patterns)?),
            Task::Draw(drawing) => value(&drawing.html()),
            Task::Difference { from, to } => value(&diff::lines(&from, &to)),
            Task::Compare { texts, jobs } => value(&results::compare(&texts, &jobs)),
        }
    }
}

fn value(answer: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(answer).map_err(|error| Problem::internal(&error))
}

/// Checks a scenario, and with the settings of a job what it asks for.
fn check(
    text: &str,
    inputs: &Inputs,
    (drawn_for, job): (Option<i64>, Option<&LaunchSettings>),
) -> Result<Findings> {
    let draft = match drafts::check(text, inputs) {
        Ok(draft) => draft,
        Err(findings) => return Ok(Err(findings)),
    };
    let mut checked = Checked {
        points: draft.points,
        duration: draft.scenario.duration.to_string(),
        seed: draft.scenario.seed,
        seeds: draft.scenario.seeds,
        budget: draft.budget.as_ref().map(ToString::to_string),
        drawing: drawn_for.and_then(|scenario| drawing(&draft, scenario)),
        files: draft.files.clone(),
        real_ms: None,
    };
    checked.real_ms = job.map_or(Ok(None), |job| launch::check(draft, job))?;
    Ok(Ok(checked))
}

fn planned(file: &str, scenario: &str) -> Result<Vec<PlannedTask>> {
    let planned = drafts::on_sites(file, scenario).map_err(|why| Problem::bad(format!("sites: {why}")))?;
    let task = |task: bentpipe_agent::job::SiteTask| PlannedTask {
        program: task.program.name().to_owned(),
        real_ms: task.start_us / 1000 + i64::from(task.most_s) * 1000,
        name: task.name,
        site: task.site,
    };
    Ok(planned.tasks.into_iter().map(task).collect())
}

/// Draws the network of a scenario. Its parts lead to the forms of a scenario's page.
fn drawing(draft: &Draft, scenario: i64) -> Option<String> {
    let target = |part: DrawnPart<'_>| match part {
        DrawnPart::Node(name) => Some(form_address(scenario, &["node", name])),
        DrawnPart::Link(name) => Some(form_address(scenario, &["link", name])),
    };
    draw_with(&drafts::network(draft), &target)
}

/// Unpacks and checks an archive.
///
/// The points and measures of its summary are left in a file.
fn arrived(archive: &Path) -> Result<Arrived> {
    let (arrived, summary) = archive::arrive(archive)?;
    summary.map_or(Ok(()), |summary| results::write_summary(&summary))?;
    Ok(arrived)
}

/// Returns what does a task within limits.
fn child<'a>(settings: &'a Settings, limits: Limits, folder: &'a Path) -> Child<'a> {
    Child { program: &settings.program, arguments: &["serve", "work"], folder, limits, is_short: false }
}

fn bytes_of(task: &Task) -> std::result::Result<Vec<u8>, Failure> {
    serde_json::to_vec(task).map_err(|error| Failure::Other(Problem::internal(&error)))
}

/// Does a task of a job in a child, and waits for its end. It is for threads that may block.
///
/// # Errors
/// Returns the reason why it was not done.
pub(crate) fn do_now<T: DeserializeOwned>(
    settings: &Settings,
    limits: &Limits,
    (task, folder): (&Task, &Path),
) -> std::result::Result<T, String> {
    let done = bytes_of(task).and_then(|task| child(settings, *limits, folder).run_to_end(&task));
    done.map_err(|failure| match failure {
        Failure::Other(problem) => problem.detail,
        Failure::Excess(excess) => excess.to_string(),
    })
}

impl App {
    /// Does a task of a user in a child, and returns its answer.
    ///
    /// # Errors
    /// Returns the problem that the child found, or the limit that it went over.
    pub(crate) async fn work<T: DeserializeOwned>(&self, user: &User, task: Task) -> Result<T> {
        let answer = self.attempt(user, &task).await;
        answer.map_err(|failure| refused(failure, user.level))
    }

    /// Does a task as [`App::work`], in a folder of the caller.
    ///
    /// The task may leave files there.
    ///
    /// # Errors
    /// Returns the problem that the child found, or the limit that it went over.
    pub(crate) async fn work_in<T: DeserializeOwned>(
        &self,
        user: &User,
        (task, folder): (&Task, &Path),
    ) -> Result<T> {
        // A second attempt would find what the first one left.
        let _turn = self.pool.long_turn(user.id).await?;
        let limits = self.settings.limits.of(user.level).request;
        let answer = self.run((limits, false), (task, folder)).await;
        answer.map_err(|failure| refused(failure, user.level))
    }

    /// Waits for a user's turn, then makes a task and does it.
    ///
    /// So the memory has no texts of tasks that wait.
    ///
    /// # Errors
    /// Returns the problem that the child found, or the limit that it went over.
    pub(crate) async fn work_on<T: DeserializeOwned>(
        &self,
        user: &User,
        make: impl Future<Output = Result<Task>>,
    ) -> Result<T> {
        let turn = self.pool.turn(user.id).await?;
        let (task, folder) = (make.await?, self.staging().await?);
        let answer = self.attempt_with(turn, user, (&task, folder.path())).await;
        answer.map_err(|failure| refused(failure, user.level))
    }

    async fn attempt<T: DeserializeOwned>(
        &self,
        user: &User,
        task: &Task,
    ) -> std::result::Result<T, Failure> {
        let folder = self.staging().await.map_err(Failure::Other)?;
        let turn = self.pool.turn(user.id).await.map_err(Failure::Other)?;
        let answer = self.attempt_with(turn, user, (task, folder.path())).await;
        // Not on the threads that serve requests.
        let gone = blocking(move || {
            drop(folder);
            Ok(())
        })
        .await;
        gone.map_err(Failure::Other).and(answer)
    }

    /// Does a task in a turn. One that is too long for a place for short work begins again in another place.
    async fn attempt_with<T: DeserializeOwned>(
        &self,
        turn: Turn,
        user: &User,
        (task, folder): (&Task, &Path),
    ) -> std::result::Result<T, Failure> {
        let limits = self.settings.limits.of(user.level).request;
        let short = limits.of_short_work();
        let turn = match turn.is_short() && short != limits {
            false => turn,
            true => match self.run((short, true), (task, folder)).await {
                Err(Failure::Excess(Excess::Processor { .. } | Excess::Time { .. })) => {
                    turn.lengthen().await.map_err(Failure::Other)?
                }
                done => return done,
            },
        };
        let done = self.run((limits, false), (task, folder)).await;
        drop(turn);
        done
    }

    async fn run<T: DeserializeOwned>(
        &self,
        (limits, is_short): (Limits, bool),
        (task, folder): (&Task, &Path),
    ) -> std::result::Result<T, Failure> {
        let child = Child { is_short, ..child(&self.settings, limits, folder) };
        child.run(&self.groups, bytes_of(task)?).await
    }

    /// Creates an empty folder in the data folder. It goes when the result is dropped.
    pub(crate) async fn staging(&self) -> Result<Staging> {
        let app = self.clone();
        blocking(move || app.staging_now().map_err(|error| Problem::internal(&error))).await
    }

    /// Creates a folder as [`App::staging`]. It is for threads that may block.
    pub(crate) fn staging_now(&self) -> std::io::Result<Staging> {
        inputs::staging(&self.settings.folder, self.settings.job_user)
    }

    /// Checks a scenario's text for its pages.
    ///
    /// Returns its outline too, with the fields of a form.
    ///
    /// # Errors
    /// Returns an error if that could not be done.
    pub(crate) async fn open(
        &self,
        user: &User,
        (text, inputs): (String, Inputs),
        (scenario, form): (i64, Option<Vec<String>>),
    ) -> Result<(Findings, Outline)> {
        let task = Task::Open { text: text.clone(), inputs, scenario, form: form.clone() };
        match self.attempt(user, &task).await {
            Ok(opened) => Ok(opened),
            Err(Failure::Other(problem)) => Err(problem),
            // Forms and lists of a text that costs too much to be checked are there all the same.
            Err(failure @ Failure::Excess(_)) => {
                let found = self.too_costly(user, text.clone(), failure).await?;
                let outline = self.work(user, Task::Outline { text, form }).await?;
                Ok((Err(found), outline))
            }
        }
    }

    /// Checks a scenario's text.
    ///
    /// For a launch it has the settings of a job. A limit that the check went over is a finding.
    ///
    /// # Errors
    /// Returns an error if no check could be made, or the settings are refused.
    pub(crate) async fn check(
        &self,
        user: &User,
        (text, inputs): (String, Inputs),
        job: Option<LaunchSettings>,
    ) -> Result<Findings> {
        let task = Task::Check { text: text.clone(), inputs, job };
        match self.attempt(user, &task).await {
            Ok(findings) => Ok(findings),
            Err(Failure::Other(problem)) => Err(problem),
            Err(failure @ Failure::Excess(_)) => Ok(Err(self.too_costly(user, text, failure).await?)),
        }
    }

    /// Returns the findings of a text whose check went over a limit.
    async fn too_costly(&self, user: &User, text: String, failure: Failure) -> Result<Vec<Finding>> {
        let detail = refused(failure, user.level).detail;
        self.work(user, Task::Blame { text, detail }).await
    }
}

/// Returns the answer to a request whose work failed.
fn refused(failure: Failure, level: u8) -> Problem {
    match failure {
        Failure::Other(problem) => problem,
        Failure::Excess(excess) => Problem::bad(format!(
            "too much work for a request at level {level}: {excess}. {}",
            excess.remedy()
        )),
    }
}
