//! `bentpipe reproduce`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_emulation::{ThisMachine, clean_up};
use bentpipe_record::{Cell, Table};
use bentpipe_study::{
    Comparison, Kernel, Recorded, Reproduced, Request, Study, Verdict, by_origin, emulated_table,
    kernel_notes, kernel_table, summary,
};

use super::emulate::{Streams, display};
use crate::arguments::tools::ReproduceArguments;
use crate::commands::{Failure, command_line};
use crate::confine::{Reach, confine};
use crate::monitor::Terminal;
use crate::progress::Journal;
use crate::{build, show};

/// The exit code if a published value is missed.
const MISSED: u8 = 1;

pub(super) fn reproduce(arguments: &ReproduceArguments) -> Result<u8, Failure> {
    if arguments.confine {
        confine(std::slice::from_ref(&arguments.studies), Reach::Study).map_err(Failure::bad)?;
    }
    let Some(path) = &arguments.progress else {
        return reproduce_with(arguments, |_| ()).map(|ended| ended.0);
    };
    let wrong = |error| Failure::bad(format!("{}: {error}", path.display()));
    let journal = Journal::append(path, arguments.live.as_deref()).map_err(wrong)?;
    match reproduce_with(arguments, |terminal| terminal.write_to(journal.clone())) {
        Ok((code, folder)) => {
            let name = folder.as_ref().and_then(|folder| folder.file_name()?.to_str());
            journal.end(code, name);
            Ok(code)
        }
        Err(failure) => {
            show::error(&failure.text);
            journal.end(failure.code, None);
            Ok(failure.code)
        }
    }
}

/// Reproduces studies, and returns the exit code and the folder of the last.
fn reproduce_with(
    arguments: &ReproduceArguments,
    set_up: impl FnOnce(&mut Terminal),
) -> Result<(u8, Option<PathBuf>), Failure> {
    let studies = folders(arguments)?;
    let studies = studies.iter().map(|folder| Study::read(folder).map_err(Failure::bad));
    let studies = studies.collect::<Result<Vec<_>, _>>()?;
    let (build, command) = (build::identity(), command_line());
    let mut monitor = Terminal::new(arguments.common.quiet);
    set_up(&mut monitor);
    let this_machine = is_emulated(arguments, &studies)?.then(|| ThisMachine {
        stop: monitor.stop_flag(),
        console: &Streams,
        display: (!arguments.common.quiet).then_some(display as fn() -> _),
        build: &build,
        commit: build::COMMIT,
        command: &command,
    });
    #[cfg(feature = "serve")]
    let controller = super::controlled::OwnController { jobs: jobs_at_once(arguments) };
    #[cfg(feature = "serve")]
    let controller: Option<&dyn bentpipe_study::Controller> = Some(&controller);
    #[cfg(not(feature = "serve"))]
    let controller: Option<&dyn bentpipe_study::Controller> = None;
    let (mut all, mut folder) = (Vec::new(), None);
    let mut all_met = true;
    for study in &studies {
        let request = Request {
            study,
            quick: arguments.quick,
            parent: &arguments.common.out,
            jobs: arguments.common.jobs.into(),
            force: arguments.common.force,
            build: &build,
            commit: build::COMMIT,
            command: &command,
            kernel: this_machine.as_ref().map(|kernel| kernel as &dyn Kernel),
            controller,
        };
        let reproduced = bentpipe_study::reproduce(&request, &monitor);
        monitor.clear();
        let reproduced = reproduced?;
        if arguments.write {
            keep(study, &reproduced)?;
        }
        all_met &= reproduced.is_met();
        show::out(&shown(study, &reproduced, arguments.common.quiet));
        folder = Some(reproduced.folder);
        all.extend(reproduced.comparisons);
    }
    if studies.len() > 1 {
        show::out(&format!("all {} studies\n{}", studies.len(), counted(&all)));
    }
    Ok((if all_met { 0 } else { MISSED }, folder))
}

/// Keeps the results with the study.
#[expect(clippy::disallowed_methods, reason = "kept results have their date")]
fn keep(study: &Study, reproduced: &Reproduced) -> Result<(), Failure> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let recorded = Recorded::new(reproduced, since_1970.as_secs());
    let wrong = |error| Failure::bad(format!("{}: {error}", study.folder.display()));
    recorded.write(&study.folder).map_err(wrong)
}

/// Returns the number of jobs at a time. Default: one for each processor.
#[cfg(feature = "serve")]
fn jobs_at_once(arguments: &ReproduceArguments) -> usize {
    match usize::from(arguments.common.jobs) {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(64),
        jobs => jobs.min(64),
    }
}

fn shown(study: &Study, reproduced: &Reproduced, quiet: bool) -> String {
    let report = format!("report: {}\n", reproduced.folder.join("report.html").display());
    if quiet {
        return report;
    }
    let kernel = match reproduced.kernel.is_empty() {
        true => String::new(),
        false => format!("\n{}", show::table(&kernel_table(&reproduced.kernel))),
    };
    let emulated = match reproduced.emulated.is_empty() {
        true => String::new(),
        false => format!("\n{}", show::table(&emulated_table(&reproduced.emulated))),
    };
    let notes: String = kernel_notes(&reproduced.kernel).iter().map(|note| format!("{note}\n")).collect();
    let table = compared(&reproduced.comparisons);
    let time = format!("runs: {:.0} s on one processor\n", reproduced.seconds);
    format!("{}\n{}\n\n{table}{kernel}{emulated}{notes}{time}\n{report}", study.title, study.source)
}

/// Formats the rows of a study and the counts of their verdicts.
fn compared(comparisons: &[Comparison]) -> String {
    let (published, own) = by_origin(comparisons);
    let tables = [("published", published), ("expected", own)];
    let tables = tables.iter().filter(|(_, rows)| !rows.is_empty());
    let tables: String = tables.map(|(head, rows)| show::table(&rows_of(head, rows)) + "\n").collect();
    tables + &counted(comparisons)
}

/// Returns the counts of verdicts, a line for each kind of row.
fn counted<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> String {
    summary(comparisons).iter().map(|line| format!("{line}\n")).collect()
}

fn rows_of(expected: &str, comparisons: &[&Comparison]) -> Table {
    let head = ["", "what", expected, "simulated", "deviation", "verdict", "kind"];
    let row = |comparison: &&Comparison| {
        let verdict = comparison.verdict.to_string();
        vec![
            Cell::Text(comparison.row.id.clone()),
            Cell::Text(comparison.row.what.clone()),
            Cell::Number(comparison.expected_text()),
            Cell::Number(comparison.simulated_text()),
            Cell::Number(comparison.deviation_text()),
            match comparison.verdict {
                Verdict::Met => Cell::Good(verdict),
                Verdict::Missed => Cell::Bad(verdict),
                Verdict::Undecided | Verdict::NotJudged => Cell::Text(verdict),
            },
            Cell::Text(comparison.row.kind.to_string()),
        ]
    };
    let rows = comparisons.iter().map(row).collect();
    Table { caption: String::new(), head: head.map(String::from).to_vec(), rows }
}

/// Returns `true` if the kernel's TCP is asked for, and makes this machine ready.
fn is_emulated(arguments: &ReproduceArguments, studies: &[Study]) -> Result<bool, Failure> {
    if !arguments.emulate {
        return Ok(false);
    }
    if studies
        .iter()
        .all(|study| study.kernel.is_none() && study.live.is_empty() && study.emulated.is_empty())
    {
        return Err(Failure::bad(
            "--emulate: none of these studies sends in real time; koreasat, pep and votos (the kernel's TCP), tatpa (its TCP, and bundles), rohc-ule and wimax-voip (voice) and voip-satellite (calls) do",
        ));
    }
    clean_up(&Streams);
    Ok(true)
}

/// The folders of the studies asked for, or of all.
fn folders(arguments: &ReproduceArguments) -> Result<Vec<PathBuf>, Failure> {
    if arguments.study.is_empty() {
        return all(&arguments.studies);
    }
    arguments.study.iter().map(|name| named(name, &arguments.studies)).collect()
}

/// The folder of a study: by its name in `parent`, or by its path.
fn named(name: &str, parent: &Path) -> Result<PathBuf, Failure> {
    let folders = [parent.join(name), PathBuf::from(name)];
    folders.into_iter().find(|folder| folder.is_dir()).ok_or_else(|| {
        let parent = parent.display();
        Failure::bad(format!(
            "{name}: no such study in {parent}/; --studies names the folder that holds them"
        ))
    })
}

fn all(parent: &Path) -> Result<Vec<PathBuf>, Failure> {
    let missing = |error| Failure::bad(format!("{}: {error}", parent.display()));
    let entries = std::fs::read_dir(parent).map_err(missing)?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join("study.toml").is_file()).collect();
    folders.sort();
    if folders.is_empty() {
        Err(Failure::bad(format!("{}: no study in it", parent.display())))
    } else {
        Ok(folders)
    }
}
