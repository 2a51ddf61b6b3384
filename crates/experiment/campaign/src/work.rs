//! Running a range of a campaign in this process.

use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bentpipe_lab::plan::{Point, Points};
use bentpipe_lab::run::{Failure, Monitor, outcome_alone};
use bentpipe_record::Outcome;
use bentpipe_scenario::Document;

use crate::campaign::Campaign;
use crate::part::{self, Row};
use crate::{CampaignError, Result, at};

/// A part has at most this many runs.
const MAX_ROWS: usize = 1000;

/// Time after which a part is written, in seconds. An end by force may lose that much.
const PART_S: f64 = 10.0;

/// Runs what is missing of a range, and writes parts. Returns the number of runs it made.
///
/// A run that fails or panics is a row with the reason. One that ends the process is not: [`crate::drive()`] finds such.
///
/// # Errors
/// Returns an error if the build or an input is another one, or a file cannot be written; [`CampaignError::Interrupted`] if the
/// monitor wanted to stop. Finished runs are kept.
pub fn work(
    campaign: &Campaign,
    range: Range<u64>,
    retry: bool,
    (build, host): (&str, &str),
    monitor: &dyn Monitor,
) -> Result<u64> {
    let document = campaign.document(build)?;
    let missing = campaign.status_within(range.clone(), retry)?.missing;
    let runs: Vec<u64> = missing.within(range).collect();
    monitor.begin(runs.len(), 0);
    let scratch = campaign.folder().join(format!(".scratch-{}", std::process::id()));
    fs::create_dir_all(&scratch).map_err(at(&scratch))?;
    let mut worker = Worker {
        campaign,
        document: &document,
        points: Points::new(&document, campaign.seeds()),
        last: None,
        scratch: &scratch,
        monitor,
    };
    let done = worker.all(&runs, (build, host));
    let _ = fs::remove_dir_all(&scratch);
    match done? {
        done if done < runs.len() => Err(CampaignError::Interrupted {
            finished: campaign.status(retry)?.missing.finished(),
            runs: campaign.manifest().runs(),
        }),
        done => Ok(done as u64),
    }
}

struct Worker<'a> {
    campaign: &'a Campaign,
    document: &'a Document,
    points: Points<'a>,
    /// The last point that was read: its seeds follow one another.
    last: Option<(u64, std::result::Result<Point, String>)>,
    scratch: &'a Path,
    monitor: &'a dyn Monitor,
}

impl Worker<'_> {
    /// Runs each of `runs` until the monitor wants to stop. Returns their number.
    fn all(&mut self, runs: &[u64], (build, host): (&str, &str)) -> Result<usize> {
        let (mut rows, mut taken_s, mut done) = (Vec::new(), 0.0, 0);
        for &run in runs {
            let row = if self.monitor.wants_stop() { None } else { self.row(run) };
            let Some(row) = row else { break };
            taken_s += row.wall_s;
            done += 1;
            self.monitor.done(&format!("run {run}"));
            rows.push(row);
            if rows.len() >= MAX_ROWS || taken_s >= PART_S {
                self.write(&rows, (build, host))?;
                (rows, taken_s) = (Vec::new(), 0.0);
            }
        }
        self.write(&rows, (build, host))?;
        Ok(done)
    }

    fn write(&self, rows: &[Row], (build, host): (&str, &str)) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let frame = part::frame(rows, &self.campaign.manifest().keys, build, host);
        part::write(&self.campaign.parts(), &frame).map(drop)
    }

    /// Runs one and returns its row. `None` if the monitor wanted to stop.
    fn row(&mut self, run: u64) -> Option<Row> {
        let started_s = self.monitor.clock_s();
        let (number, seed) = self.campaign.manifest().place(run);
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            let point = self.points.at(number as usize).map_err(|error| error.to_string());
            self.last = Some((number, point));
        }
        let (_, point) = self.last.as_ref()?;
        let (hash, settings, outcome) = match point {
            Ok(point) => {
                let settings = point.settings.iter().map(|setting| setting.value.clone()).collect();
                (point.run_hash(seed).to_hex(), settings, self.outcome(point, seed)?)
            }
            Err(error) => (String::new(), Vec::new(), Err(error.clone())),
        };
        let wall_s = self.monitor.clock_s() - started_s;
        Some(Row { run, point: number, seed, hash, settings, outcome, wall_s })
    }

    /// Runs a point. `None` if the monitor wanted to stop.
    fn outcome(&self, point: &Point, seed: u64) -> Option<std::result::Result<Outcome, String>> {
        // A run has no state that another one sees, so what a panic leaves behind is dropped with it.
        let run = || outcome_alone((point, seed), self.document, self.scratch, self.monitor);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => Some(Ok(outcome)),
            Ok(Err(Failure::Interrupted { .. })) => None,
            Ok(Err(failure)) => Some(Err(failure.to_string())),
            Err(panic) => Some(Err(format!("panicked: {}", reason(&*panic)))),
        }
    }
}

fn reason(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a reason")
}
