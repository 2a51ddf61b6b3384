//! `bentpipe emulate`: a scenario in real time, with real programs at its ends.
#![allow(clippy::disallowed_methods, reason = "real time is what this is for")]

mod control;
mod hosts;
mod live;
mod programs;
mod view;

pub(super) use control::set;
pub(super) use hosts::{Hosts, shell};
pub(super) use live::RealTimeRun;
pub(super) use view::View;

use programs::{Programs, Started};

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_emu::{Driver, Monotonic};
use bentpipe_lab::build::{Changer, Emulated};
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::report;
use bentpipe_lab::run::{self, CapturePoint, Folder, Request, Results};
use bentpipe_lab::scenario::{Document, Scenario};
use bentpipe_units::Span;

use super::run::add_captures;
use super::{Failure, command_line, document};
use crate::arguments::EmulateArguments;
use crate::{build, interrupt, show};

/// A century, which no emulation reaches.
pub(super) const FOREVER: Span = Span::from_secs(100 * 365 * 86_400);

/// Runs until the scenario's duration is over, the command ends, or Ctrl-C; the exit code is the command's.
pub(super) fn emulate(arguments: &EmulateArguments) -> Result<u8, Failure> {
    let mut document = document(&arguments.scenario, &arguments.set)?;
    add_captures(&mut document, &arguments.pcap)?;
    let mut plan =
        Plan::new(&document, Seeds { first: arguments.seed, count: Some(1) }).map_err(Failure::bad)?;
    if plan.points.len() > 1 {
        return Err(Failure::bad("a sweep cannot be emulated: set each of its keys with --set"));
    }
    let point = &plan.points[0];
    let emulated = Emulated::new(&point.scenario, point.seeds[0], &plan.folder);
    let emulated =
        emulated.map_err(|problem| Failure::bad(document.refusal(&problem.key, problem.problem)))?;
    let asked = std::mem::replace(&mut plan.points[0].scenario, emulated.scenario.clone());
    if arguments.open_ended() {
        // Nothing but the user ends it.
        plan.points[0].scenario.duration = FOREVER;
    }
    let stop = interrupt::flag();
    say_cleaned_up();
    let hosts = Hosts::create(&emulated.hosts).map_err(Failure::bad)?;
    emulated.notices.iter().for_each(|notice| show::note(notice));
    let results = Emulation { asked: &asked, arguments, document: &document, plan: &plan, stop: &stop }
        .run(emulated, hosts)?;
    finish(arguments, &document, &plan, results)
}

pub(super) fn say_cleaned_up() {
    for name in bentpipe_emu::clean_up_after_crash() {
        show::note(&format!("removed {name}, which an emulation that crashed left behind"));
    }
    control::remove_orphans();
}

struct Emulation<'a> {
    /// The scenario before it was made ready for real hosts.
    asked: &'a Scenario,
    arguments: &'a EmulateArguments,
    document: &'a Document,
    plan: &'a Plan,
    stop: &'a Arc<AtomicBool>,
}

/// What an emulation leaves: its results, and the exit code of the programs that ran in it.
struct Left {
    results: Results,
    command: Option<u8>,
}

impl Emulation<'_> {
    fn run(&self, emulated: Emulated, mut hosts: Hosts) -> Result<Left, Failure> {
        let changer = Changer::new(&emulated, self.asked);
        let captures = capture_points(&emulated);
        let links = emulated.built.links;
        let mut driver = Driver::new(emulated.built.network, Monotonic::start());
        hosts.open(&mut driver);
        let control = control::Server::start(self.document.clone(), changer, driver.control());
        let control =
            control.map_err(|error| Failure::bad(format!("no socket for `bentpipe set`: {error}")))?;
        let programs = Programs::new(self.arguments, &hosts)?;
        if programs.is_empty() {
            show::out(&hosts.usage(control.path()));
        }
        let mut started = None;
        // A program that prints on the same terminal would be drawn over.
        let shares_terminal = !programs.is_empty() && std::io::stdout().is_terminal();
        let mut programs = (!programs.is_empty()).then_some(programs);
        let view = View::start(links, self.arguments.quiet || shares_terminal);
        let mut live = RealTimeRun::new(driver, Arc::clone(self.stop), self.arguments.late);
        let name = self.arguments.scenario.file_stem().unwrap_or_default().to_string_lossy();
        let (build, command_line) = (build::identity(), command_line());
        let request = Request {
            document: self.document,
            plan: self.plan,
            folder: Folder::new(&self.arguments.out, &format!("{name}-emulated-{}", stamp()), self.plan),
            jobs: 1,
            force: true,
            snap_len: self.arguments.snap_len,
            build: &build,
            command: &command_line,
        };
        let look = |live: &mut RealTimeRun| {
            view.show(live);
            // Only now do packets move: one sent earlier would wait for the loop, and seem to have been late on the way.
            if let Some(programs) = programs.take() {
                started = Some(programs.start(Arc::clone(self.stop)));
            }
            match started {
                Some(Err(_)) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let results = run::follow(&request, &mut live, &captures, look, RealTimeRun::conclude);
        self.stop.store(true, Ordering::SeqCst);
        view.end();
        let command = started.transpose().map_err(Failure::bad)?.and_then(Started::code);
        Ok(Left { results: results?, command })
    }
}

fn capture_points(emulated: &Emulated) -> Vec<CapturePoint> {
    CapturePoint::of(&emulated.built.captures)
}

/// Seconds since 1970: each emulation is another, so it gets a folder of its own.
fn stamp() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn finish(arguments: &EmulateArguments, document: &Document, plan: &Plan, left: Left) -> Result<u8, Failure> {
    let results = left.results;
    let (build, command) = (build::identity(), command_line());
    let mut plan = plan.clone();
    plan.points[0].scenario.duration = results.duration();
    let request = Request {
        document,
        plan: &plan,
        folder: results.folder.clone(),
        jobs: 1,
        force: true,
        snap_len: arguments.snap_len,
        build: &build,
        command: &command,
    };
    let page = results.folder.path().join("report.html");
    report::results_page(&results, &request).write(&page).map_err(Failure::bad)?;
    if let Some(real_time) = results.runs.first().and_then(|run| run.timing.real_time.as_ref()) {
        show::out(&real_time.to_string());
    }
    show::out(&format!("report: {}\n", page.display()));
    Ok(left.command.unwrap_or(0))
}
