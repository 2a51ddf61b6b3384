//! Driving a campaign on one machine: child processes that run parts.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bentpipe_lab::run::Monitor;
use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::Campaign;
use crate::{CampaignError, Result, at};

/// Time that a child should work for, in seconds.
///
/// It is long in comparison with its start, and short in comparison with a campaign.
const BATCH_S: f64 = 10.0;

/// Minimum time that a child works for, in seconds. Its start takes a few hundredths.
const LEAST_S: f64 = 1.0;

/// Most runs of a child.
const MAX_BATCH: u64 = 1000;

/// Exit code of a child that every other one would have, as for another build.
const BAD: i32 = 2;

/// Exit code of a child that was interrupted.
const INTERRUPTED: i32 = 130;

/// Interval at which the monitor is asked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Most bytes that are kept of what a child prints on its standard error.
const MAX_ERROR: u64 = 4096;

/// Settings of a driver.
#[derive(Clone, Debug)]
pub struct Driver {
    /// Program of the children: bentpipe.
    pub program: PathBuf,
    /// Number of children at a time.
    pub jobs: usize,
    /// Set to run again what has no result.
    pub retry: bool,
    /// Identifier of the program's build.
    pub build: String,
    /// Name of this machine.
    pub host: String,
}

/// A child that ended.
struct Ended {
    batch: Batch,
    pid: u32,
    status: std::io::Result<ExitStatus>,
    /// The time it took, in seconds.
    error: String,
}

/// Range of runs for a child.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    range: Range<u64>,
    /// Number of children that ended by force with it.
    deaths: u32,
}

/// Runs all that is missing. A child that a run ends by force (by the kernel out of memory, by an abort) has its range halved until
/// the run is found, which then counts as finished without a result.
///
/// # Errors
/// Returns an error if a child reports one that all would report; [`CampaignError::Interrupted`] if the monitor wanted to
/// stop. Finished runs are kept.
pub fn drive(campaign: &Campaign, driver: &Driver, monitor: &dyn Monitor) -> Result<()> {
    campaign.document(&driver.build)?;
    let status = campaign.status(driver.retry)?;
    let (finished, runs) = (status.missing.finished(), status.missing.runs());
    monitor.begin((runs - finished) as usize, finished as usize);
    let mut fleet = Fleet {
        campaign,
        driver,
        monitor,
        suspects: VecDeque::new(),
        rest: status.missing.ranges().collect(),
        left: runs - finished,
        children: BTreeMap::new(),
        ended: channel(),
        run_s: None,
        problem: None,
    };
    fleet.run();
    let finished = campaign.status(false)?.missing.finished();
    match fleet.problem {
        Some(problem) => Err(problem),
        None if finished < runs => Err(CampaignError::Interrupted { finished, runs }),
        None => Ok(()),
    }
}

struct Fleet<'a> {
    campaign: &'a Campaign,
    driver: &'a Driver,
    monitor: &'a dyn Monitor,
    /// Halves of ranges whose child ended by force.
    suspects: VecDeque<Batch>,
    /// Missing ranges that no child has yet.
    rest: VecDeque<Range<u64>>,
    /// Number of runs in `rest`.
    left: u64,
    /// Running children by process ID, with the time of their start in seconds.
    children: BTreeMap<u32, f64>,
    ended: (Sender<Ended>, Receiver<Ended>),
    /// Estimated time of a run, in seconds.
    run_s: Option<f64>,
    problem: Option<CampaignError>,
}

impl Fleet<'_> {
    fn run(&mut self) {
        let mut stopping = false;
        loop {
            if !stopping && (self.problem.is_some() || self.monitor.wants_stop()) {
                stopping = true;
                self.children.keys().for_each(|pid| interrupt(*pid));
            }
            while !stopping && self.children.len() < self.driver.jobs.max(1) {
                let Some(batch) = self.next() else { break };
                if let Err(error) = self.start(batch) {
                    self.problem = Some(at(&self.driver.program)(error));
                    break;
                }
            }
            if self.children.is_empty() {
                return;
            }
            if let Ok(ended) = self.ended.1.recv_timeout(LOOK) {
                self.end(ended);
            }
        }
    }

    /// Returns the next range to run.
    ///
    /// Ranges are short at first, then of ten seconds, and short again at the end.
    fn next(&mut self) -> Option<Batch> {
        if let Some(batch) = self.suspects.pop_front() {
            return Some(batch);
        }
        let range = self.rest.pop_front()?;
        let runs_in = |span_s: f64| self.run_s.map_or(1, |run_s| (span_s / run_s.max(1e-6)).round() as u64);
        let share = self.left / (4 * self.driver.jobs.max(1) as u64);
        let size = runs_in(BATCH_S).min(share.max(runs_in(LEAST_S))).clamp(1, MAX_BATCH);
        let end = (range.start + size).min(range.end);
        self.left -= end - range.start;
        if end < range.end {
            self.rest.push_front(end..range.end);
        }
        Some(Batch { range: range.start..end, deaths: 0 })
    }

    fn start(&mut self, batch: Batch) -> std::io::Result<()> {
        let range = format!("{}..{}", batch.range.start, batch.range.end);
        let mut command = Command::new(&self.driver.program);
        command.args(["campaign", "part"]).arg(self.campaign.folder()).args(["--runs", &range, "--quiet"]);
        if self.campaign.is_confined() {
            command.arg("--confined");
        }
        if self.driver.retry {
            command.arg("--retry");
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let (pid, ended, errors) = (child.id(), self.ended.0.clone(), child.stderr.take());
        self.children.insert(pid, self.monitor.clock_s());
        std::thread::spawn(move || {
            let mut error = Vec::new();
            if let Some(mut errors) = errors {
                let _ = errors.by_ref().take(MAX_ERROR).read_to_end(&mut error);
                let _ = std::io::copy(&mut errors, &mut std::io::sink());
            }
            let error = String::from_utf8_lossy(&error).trim().to_owned();
            let _ = ended.send(Ended { batch, pid, status: child.wait(), error });
        });
        Ok(())
    }

    fn end(&mut self, ended: Ended) {
        let Ended { batch, pid, status, error } = ended;
        let took_s = self.children.remove(&pid).map_or(0.0, |started_s| self.monitor.clock_s() - started_s);
        let runs = batch.range.end - batch.range.start;
        match status.map(|status| (status.code(), status)) {
            Ok((Some(0), _)) => {
                let run_s = took_s / runs.max(1) as f64;
                self.run_s = Some(self.run_s.map_or(run_s, |before| 0.7 * before + 0.3 * run_s));
                (batch.range.start..batch.range.end).for_each(|run| {
                    self.monitor.advance(1.0);
                    self.monitor.done(&format!("run {run}"));
                });
            }
            Ok((Some(INTERRUPTED), _)) => {}
            Ok((Some(BAD), _)) => {
                let text = if error.is_empty() { "a part failed without a reason".to_owned() } else { error };
                let text = text.strip_prefix("error: ").map_or(text.clone(), str::to_owned);
                self.problem.get_or_insert(CampaignError::File(text));
            }
            Ok((_, status)) => {
                if let Err(problem) = self.suspect(&batch, &status, &error) {
                    self.problem.get_or_insert(problem);
                }
            }
            Err(problem) => {
                self.problem.get_or_insert(at(&self.driver.program)(problem));
            }
        }
    }

    /// Halves the range of a child that ended by force. A run that did so twice by itself is noted.
    fn suspect(&mut self, batch: &Batch, status: &ExitStatus, error: &str) -> Result<()> {
        let Range { start, end } = batch.range;
        let deaths = batch.deaths + 1;
        if end - start > 1 {
            let middle = start + (end - start) / 2;
            // A run that was finished and written before is not run again by the child that gets it.
            self.suspects.push_back(Batch { range: start..middle, deaths: 0 });
            self.suspects.push_back(Batch { range: middle..end, deaths: 0 });
            return Ok(());
        }
        if deaths < 2 {
            self.suspects.push_back(Batch { range: start..end, deaths });
            return Ok(());
        }
        let last = error.lines().last().unwrap_or_default();
        let reason = format!("killed: {status}{}{last}", if last.is_empty() { "" } else { ": " });
        self.campaign.note_failure(start, reason, (&self.driver.build, &self.driver.host))?;
        self.monitor.advance(1.0);
        self.monitor.done(&format!("run {start}, which ends its process"));
        Ok(())
    }
}

fn interrupt(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::INT);
    }
}
