//! `bentpipe voice savings`.

use bentpipe_lab::plan::Seeds;
use bentpipe_lab::run::{self, Assembled, Folder, Request};
use bentpipe_lab::savings::{Choices, Savings};
use bentpipe_report::{self as report, results_page};

use crate::commands::{Failure, command_line, document};
use crate::common::Inputs;
use crate::monitor::Terminal;
use crate::voice::SavingsArgs;
use crate::{build, show};

pub(super) fn run(arguments: &SavingsArgs) -> Result<u8, Failure> {
    let document = document(&arguments.scenario, &Inputs::default(), &arguments.changes.set)?;
    let choices =
        Choices { link: arguments.link.clone(), counts: arguments.calls.clone(), period: arguments.period };
    let seeds = Seeds { first: arguments.changes.seed, count: arguments.changes.seeds };
    let savings = Savings::new(&document, &choices, seeds).map_err(Failure::bad)?;
    if !savings.is_native {
        show::note(&format!(
            "link \"{}\" carries both means in a tunnel, whose headers are 25 B",
            savings.link
        ));
    }
    let name = arguments.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let (build, command) = (build::identity(), command_line());
    let request = Request {
        document: &document,
        plan: &savings.plan,
        folder: Folder::new(&arguments.common.out, &format!("{name}-savings"), &savings.plan),
        jobs: arguments.common.jobs.into(),
        force: arguments.common.force,
        captures: usize::MAX.into(),
        build: &build,
        commit: build::COMMIT,
        command: &command,
    };
    let assembled = Assembled::unfinished(&request).map_err(Failure::bad)?;
    let monitor = Terminal::new(arguments.common.quiet);
    let prepare = |point: &_, seed| assembled.prepare(point, seed);
    let results = run::execute(&request, &prepare, &monitor);
    monitor.clear();
    let results = results?;
    let shown = report::Savings {
        points: &results.summary.points,
        link: &savings.link,
        subjects: &savings.subjects,
        flows: &savings.flows,
    };
    let path = results.folder.path().join("report.html");
    let mut page = results_page(&results.with_texts(&request));
    page.blocks.splice(1..1, shown.blocks());
    page.write(&path).map_err(Failure::bad)?;
    if !arguments.common.quiet {
        show::out(&format!("{}\n\n{}", results.summary.title, show::table(&shown.table())));
    }
    show::out(&format!("report: {}\n", path.display()));
    Ok(0)
}
