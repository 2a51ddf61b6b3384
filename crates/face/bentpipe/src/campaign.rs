//! `bentpipe campaign`: sweeps too long for one command or one machine.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bentpipe_campaign::{
    Campaign, CampaignError, Driver, Planned, Status, drive, gather, plan, results, work,
};
use bentpipe_lab::plan::Seeds;
use bentpipe_lab::run::{Folder, Request, Results};
use bentpipe_record::write_json;
use bentpipe_report::results_page;
use bentpipe_study::Study;
use clap::{Args, Subcommand};

use crate::common::Inputs;
use crate::interrupt::INTERRUPTED;
use crate::monitor::Terminal;
use crate::progress::Journal;
use crate::{build, show};

/// Exit code where runs are missing or have no result.
const INCOMPLETE: u8 = 1;

/// Most ranges and failures that are printed.
const MAX_SHOWN: usize = 10;

/// Campaigns.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Plan a campaign: write its folder from a scenario with a sweep
    #[command(after_help = "\
Examples:
  bentpipe campaign plan sweep.toml --out losses
  bentpipe campaign plan geo.toml --seeds 8 --set duration='5 s' --out campaign
  bentpipe campaign plan studies/wichmo --run adapt --out adapt

A study has several runs, each a campaign: all of them, in folders of their names, or the one of
--run. Up to 1000 points are read and checked; of a longer sweep a sample, with the values of each
axis.")]
    Plan(PlanArguments),
    /// Run a part of a campaign in this process
    #[command(after_help = "\
Examples:
  bentpipe campaign part campaign --runs 1200..1300
  bentpipe campaign part campaign --part 3/16

Finished runs are left out. Rows are written every ten seconds and at Ctrl-C. As an array of Slurm:
sbatch --array=1-100 --wrap='bentpipe campaign part campaign --part $SLURM_ARRAY_TASK_ID/100'")]
    Part(PartArguments),
    /// Run all that is missing, on the processors of this machine
    #[command(after_help = "\
Examples:
  bentpipe campaign run campaign
  bentpipe campaign run campaign --jobs 8
  bentpipe campaign run downloads --scenario geo.toml --gather

Child processes run about ten seconds of work each. A run that ends its process, as without
memory, is found by halving and noted; the others go on. The same command resumes after Ctrl-C or
a crash.")]
    Run(RunArguments),
    /// Show what is finished, failed and missing; exit code 1 if something is
    #[command(after_help = "\
Examples:
  bentpipe campaign status campaign")]
    Status {
        /// Folder of the campaign
        folder: PathBuf,
    },
    /// Write tables of runs and of means; exit code 1 if runs are missing
    #[command(after_help = "\
Examples:
  bentpipe campaign gather campaign

runs.parquet has a row for each run in their order; polars, pandas and DuckDB read it. summary.csv
has the mean of each measure at each point with its 95 % confidence interval over the seeds. Up to
1000 points and 10,000 runs also get summary.json, as of a run, and report.html.")]
    Gather {
        /// Folder of the campaign
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Scenario file, or folder of a study
    scenario: PathBuf,
    /// Folder of the campaign
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Run of the study [default: all]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Shorter runs of a study, with one seed
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    files: Inputs,
}

/// Changes of a plan to the scenario.
#[derive(Debug, Args)]
struct Changes {
    /// Set a key of the scenario, as KEY=VALUE; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// First seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of seeds, in place of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct PartArguments {
    /// Folder of the campaign
    folder: PathBuf,
    /// Runs, as FIRST..END; END is left out
    #[arg(long, value_name = "A..B", value_parser = range, conflicts_with = "part")]
    runs: Option<Range<u64>>,
    /// Part K of N equal ones, from 1 on
    #[arg(long, value_name = "K/N", value_parser = fraction)]
    part: Option<(u64, u64)>,
    /// Run again what has no result
    #[arg(long)]
    retry: bool,
    /// Open only files of the campaign's folder, as it was planned with --inputs
    #[arg(long)]
    confined: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Folder of the campaign
    folder: PathBuf,
    /// Number of runs at a time; 0 for one per processor
    #[arg(long, short, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    jobs: u16,
    /// Run again what has no result
    #[arg(long)]
    retry: bool,
    /// Plan the campaign of this scenario first
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    files: Inputs,
    #[command(flatten)]
    changes: Changes,
    /// Write the tables and the report at the end, also after Ctrl-C
    #[arg(long)]
    gather: bool,
    /// Append the progress to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    match ends {
        Some((first, end)) if first < end => Ok(first..end),
        _ => Err("expected FIRST..END, such as 1200..1300".to_owned()),
    }
}

fn fraction(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if (1..=of).contains(&part) => Ok((part, of)),
        _ => Err("expected K/N with K from 1 to N, such as 3/16".to_owned()),
    }
}

/// Does what was asked; the exit code.
pub(crate) fn run(command: &Command) -> Result<u8, (String, u8)> {
    let done = match command {
        Command::Plan(arguments) => planned(arguments),
        Command::Part(arguments) => part(arguments),
        Command::Run(arguments) => run_all(arguments),
        Command::Status { folder } => Campaign::open(folder).and_then(|campaign| status(&campaign)),
        Command::Gather { folder } => Campaign::open(folder).and_then(|campaign| gathered(&campaign)),
    };
    done.map_err(|error| (error.to_string(), code_of(&error)))
}

/// Returns the exit code of an error.
fn code_of(error: &CampaignError) -> u8 {
    if matches!(error, CampaignError::Interrupted { .. }) { INTERRUPTED } else { 2 }
}

fn wrong(error: impl std::fmt::Display) -> CampaignError {
    CampaignError::File(error.to_string())
}

fn planned(arguments: &PlanArguments) -> Result<u8, CampaignError> {
    arguments.files.enforce().map_err(wrong)?;
    let folder = &arguments.scenario;
    if folder.join("study.toml").is_file() {
        return planned_study(arguments, &Study::read(folder).map_err(wrong)?);
    }
    if arguments.run.is_some() || arguments.quick {
        let problem = "--run and --quick are for studies: expected a folder with a study.toml";
        return Err(wrong(format!("{}: {problem}", folder.display())));
    }
    let changes = &arguments.changes;
    let seeds = Seeds { first: changes.seed, count: changes.seeds };
    let scenario = (folder.as_path(), &arguments.files);
    let planned = plan_one(scenario, changes.set.clone(), seeds, &arguments.out)?;
    show_plan(&planned, &arguments.out);
    Ok(0)
}

/// Plans a campaign for each run of a study, or for the requested one.
fn planned_study(arguments: &PlanArguments, study: &Study) -> Result<u8, CampaignError> {
    let wanted = |name: &str| arguments.run.as_deref().is_none_or(|run| run == name);
    let chosen: Vec<_> = study.runs.iter().filter(|(name, _)| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = study.runs.keys().map(String::as_str).collect();
        return Err(wrong(format!("--run: expected one of {}", names.join(", "))));
    }
    for (name, run) in chosen {
        let quick = run.quick.iter().filter(|_| arguments.quick);
        let changes = &arguments.changes;
        let settings = run.set.iter().chain(quick).chain(&changes.set).cloned().collect();
        let of_study = if arguments.quick { Some(1) } else { run.seeds };
        let seeds = Seeds { first: changes.seed, count: changes.seeds.or(of_study) };
        let out = if arguments.run.is_some() { arguments.out.clone() } else { arguments.out.join(name) };
        let scenario = study.folder.join(&run.scenario);
        let planned = plan_one((scenario.as_path(), &arguments.files), settings, seeds, &out)?;
        show_plan(&planned, &out);
    }
    Ok(0)
}

fn plan_one(
    (scenario, files): (&Path, &Inputs),
    settings: Vec<String>,
    seeds: Seeds,
    out: &Path,
) -> Result<Planned, CampaignError> {
    let mut document = files.read(scenario).map_err(wrong)?;
    for setting in &settings {
        document.set(setting).map_err(wrong)?;
    }
    let planned = plan(&document, &settings, seeds, out, &build::identity())?;
    document.notes().iter().for_each(|note| show::note(note));
    Ok(planned)
}

fn show_plan(planned: &Planned, out: &Path) {
    let Planned { manifest, checked } = planned;
    let what = match *checked == manifest.points {
        true => "all checked".to_owned(),
        false => format!("{checked} checked"),
    };
    show::out(&format!(
        "{}\n\n{} runs: {} points ({what}) of {} seeds\n\nbentpipe campaign run {}\n",
        manifest.title,
        manifest.runs(),
        manifest.points,
        manifest.seeds,
        out.display()
    ));
}

/// Opens a campaign, whose scenario may be confined to files of its folder.
fn open(folder: &Path, is_confined: bool) -> Result<Campaign, CampaignError> {
    let campaign = Campaign::open(folder)?;
    Ok(if is_confined { campaign.confined() } else { campaign })
}

fn part(arguments: &PartArguments) -> Result<u8, CampaignError> {
    let campaign = open(&arguments.folder, arguments.confined)?;
    let runs = campaign.manifest().runs();
    let of_part = |(part, of): (u64, u64)| {
        let end = |part: u64| (u128::from(runs) * u128::from(part) / u128::from(of)) as u64;
        end(part - 1)..end(part)
    };
    let range = arguments.runs.clone().or(arguments.part.map(of_part)).unwrap_or(0..runs);
    let monitor = Terminal::of_many(arguments.quiet);
    let done = work(&campaign, range, arguments.retry, (&build::identity(), &host()), &monitor);
    monitor.clear();
    let done = done?;
    if !arguments.quiet {
        show::out(&format!("{done} runs made\n"));
    }
    Ok(0)
}

/// Runs a campaign, and writes its progress to a file if one is given.
fn run_all(arguments: &RunArguments) -> Result<u8, CampaignError> {
    arguments.files.enforce().map_err(wrong)?;
    let Some(path) = &arguments.progress else { return run_with(arguments, None) };
    let journal = Journal::of_many(path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    let ended = run_with(arguments, Some(&journal));
    let code = ended.as_ref().map_or_else(code_of, |code| *code);
    let folder = arguments.folder.file_name().and_then(|name| name.to_str());
    journal.end(code, folder.filter(|_| arguments.folder.is_dir()));
    ended
}

fn run_with(arguments: &RunArguments, journal: Option<&Journal>) -> Result<u8, CampaignError> {
    if let Some(scenario) = &arguments.scenario {
        let changes = &arguments.changes;
        let seeds = Seeds { first: changes.seed, count: changes.seeds };
        plan_one((scenario.as_path(), &arguments.files), changes.set.clone(), seeds, &arguments.folder)?;
    }
    let campaign = open(&arguments.folder, arguments.files.inputs.is_some())?;
    let program = std::env::current_exe().map_err(|error| CampaignError::File(error.to_string()))?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = if arguments.jobs == 0 { processors } else { arguments.jobs.into() };
    let driver = Driver { program, jobs, retry: arguments.retry, build: build::identity(), host: host() };
    let mut monitor = Terminal::of_many(arguments.quiet);
    journal.into_iter().for_each(|journal| monitor.write_to(journal.clone()));
    let ended = drive(&campaign, &driver, &monitor);
    monitor.clear();
    let is_over = matches!(ended, Ok(()) | Err(CampaignError::Interrupted { .. }));
    let has_runs = || campaign.status(false).is_ok_and(|status| status.parts > 0);
    if arguments.gather && is_over && has_runs() {
        gathered(&campaign)?;
        let status = campaign.status(false)?;
        return ended.map(|()| if is_complete(&status) { 0 } else { INCOMPLETE });
    }
    ended?;
    status(&campaign)
}

fn status(campaign: &Campaign) -> Result<u8, CampaignError> {
    let status = campaign.status(false)?;
    show::out(&text(campaign, &status));
    Ok(if is_complete(&status) { 0 } else { INCOMPLETE })
}

/// Returns `true` if no run is missing or without a result.
fn is_complete(status: &Status) -> bool {
    status.missing.finished() == status.missing.runs() && status.failures == 0
}

fn text(campaign: &Campaign, status: &Status) -> String {
    let (finished, runs) = (status.missing.finished(), status.missing.runs());
    let mut text = format!(
        "{}\n\n{finished} of {runs} runs finished, {} of them without a result\n{} parts\n",
        campaign.manifest().title,
        status.failures,
        status.parts
    );
    let ranges: Vec<_> = status.missing.ranges().take(MAX_SHOWN + 1).collect();
    if !ranges.is_empty() {
        let shown: Vec<String> =
            ranges.iter().take(MAX_SHOWN).map(|range| format!("{}..{}", range.start, range.end)).collect();
        let more = if ranges.len() > MAX_SHOWN { ", and more" } else { "" };
        text.push_str(&format!("missing: {}{more}\n", shown.join(", ")));
    }
    for (run, error) in status.failed.iter().take(MAX_SHOWN) {
        let (point, seed) = campaign.manifest().place(*run);
        text.push_str(&format!("run {run} (point {point}, seed {seed}): {error}\n"));
    }
    if status.failures > MAX_SHOWN as u64 {
        text.push_str(&format!(
            "and {} more; runs.parquet has them all\n",
            status.failures - MAX_SHOWN as u64
        ));
    }
    for (path, problem) in status.damaged.iter().take(MAX_SHOWN) {
        text.push_str(&format!("{}: damaged ({problem}); its runs count as missing\n", path.display()));
    }
    text
}

fn gathered(campaign: &Campaign) -> Result<u8, CampaignError> {
    let gathered = gather(campaign, |_, _| {})?;
    let status = campaign.status(false)?;
    let mut said = text(campaign, &status);
    if gathered.duplicates > 0 {
        said.push_str(&format!("{} runs were made twice, with the same fingerprints\n", gathered.duplicates));
    }
    said.push_str(&format!(
        "\n{}: {} rows, {} columns\n{}: means of each point\n",
        gathered.runs.display(),
        gathered.rows,
        gathered.columns,
        gathered.summary.display()
    ));
    if let Some(page) = report(campaign)? {
        said.push_str(&format!("report: {}\n", page.display()));
    }
    show::out(&said);
    Ok(if status.missing.finished() == status.missing.runs() { 0 } else { INCOMPLETE })
}

/// Writes the summary and the report of a campaign that is small enough for them.
fn report(campaign: &Campaign) -> Result<Option<PathBuf>, CampaignError> {
    let build = build::identity();
    // Another build gathers tables too, but it reads no scenario that it did not plan.
    if build != campaign.manifest().build {
        return Ok(None);
    }
    let Some(results) = results(campaign, &build)? else { return Ok(None) };
    let command = ["bentpipe", "campaign", "run", &campaign.folder().display().to_string()].map(String::from);
    let request = Request {
        document: &results.document,
        plan: &results.plan,
        folder: Folder::new(campaign.folder(), "runs", &results.plan),
        jobs: 1,
        force: false,
        captures: 0.into(),
        build: &build,
        commit: build::COMMIT,
        command: &command,
    };
    let folder = request.folder.clone();
    let results = Results { folder, runs: results.runs, summary: results.summary, has_lost_packets: false };
    write_json(&campaign.folder().join("summary.json"), &results.summary).map_err(wrong)?;
    campaign.update_checksums(&["summary.json"])?;
    let page = campaign.folder().join("report.html");
    results_page(&results.with_texts(&request)).write(&page).map_err(wrong)?;
    Ok(Some(page))
}

/// Returns the name of this machine.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| String::new(), |name| name.trim().into())
}
