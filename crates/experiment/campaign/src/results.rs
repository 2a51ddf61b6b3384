//! Results of a campaign that is small enough for a report.

use bentpipe_lab::plan::Plan;
use bentpipe_record::{FinalValues, FrameValues, Measure, Outcome, RunResult, Summary, Timing, verify};
use bentpipe_scenario::Document;
use bentpipe_units::Span;

use crate::campaign::Campaign;
use crate::gather::RUNS_FILE;
use crate::part::{self, BUILD, ERROR, EVENTS, FINGERPRINT, HASH, POINT, SEED, WALL};
use crate::{CampaignError, Result, at};

/// Most points of a campaign that has a report.
const MAX_POINTS: u64 = 1000;

/// Most runs of a campaign that has a report.
const MAX_RUNS: u64 = 10_000;

/// Results of a campaign, as those of `bentpipe run` but without series.
#[derive(Clone, Debug)]
pub struct CampaignResults {
    /// The scenario with the settings of the plan.
    pub document: Document,
    /// Points and their seeds.
    pub plan: Plan,
    /// Runs that have a result, in the order of the plan.
    pub runs: Vec<RunResult>,
    /// Means over the seeds.
    pub summary: Summary,
}

/// Reads the gathered runs of a campaign. `None` if it has more than 1000 points or 10,000 runs.
///
/// # Errors
/// Returns an error if the table of runs, the scenario or a point cannot be read, or the build is another one.
pub fn results(campaign: &Campaign, build: &str) -> Result<Option<CampaignResults>> {
    let manifest = campaign.manifest();
    if manifest.points > MAX_POINTS || manifest.runs() > MAX_RUNS {
        return Ok(None);
    }
    let document = campaign.document(build)?;
    let plan =
        Plan::new(&document, campaign.seeds()).map_err(|error| CampaignError::File(error.to_string()))?;
    let runs = runs(campaign)?;
    let settings = plan.points.iter().map(|point| &point.settings[..]);
    let mut summary = Summary::new(&manifest.title, &plan.axes, settings, &runs);
    for (point, of) in summary.points.iter_mut().zip(&plan.points) {
        point.warm_up = of.scenario.probe.warm_up;
    }
    Ok(Some(CampaignResults { document, plan, runs, summary }))
}

fn runs(campaign: &Campaign) -> Result<Vec<RunResult>> {
    let path = campaign.folder().join(RUNS_FILE);
    verify(&path).map_err(CampaignError::File)?;
    let frame = part::read(&path, |_| true).map_err(at(&path))?;
    let (points, seeds, events) =
        (part::whole(&frame, POINT), part::whole(&frame, SEED), part::whole(&frame, EVENTS));
    let measures: Vec<(String, String, &Vec<f64>)> = frame
        .columns
        .iter()
        .skip(part::front_of(&frame, campaign.manifest().keys.len()))
        .filter_map(|column| match &column.values {
            FrameValues::Numbers(values) => {
                let (name, unit) = part::name_and_unit(&column.title);
                Some((name, unit, values))
            }
            _ => None,
        })
        .collect();
    let wall_s = |row: usize| match frame.column(WALL).map(|column| &column.values) {
        Some(FrameValues::Numbers(values)) => values.get(row).copied().unwrap_or(0.0),
        _ => 0.0,
    };
    let of = |row: usize| {
        let text = |title: &str| part::text(&frame, title, row).to_owned();
        let measures = measures.iter().filter_map(|(name, unit, values)| {
            let value = values.get(row).copied().filter(|value| !value.is_nan())?;
            Measure::new(name.clone(), unit, value)
        });
        let outcome = Outcome {
            hash: text(HASH),
            seed: seeds[row],
            fingerprint: text(FINGERPRINT),
            definitions: u32::try_from(part::definitions(&frame)).unwrap_or(1),
            deliveries: events.get(row).copied().unwrap_or(0),
            wakeups: 0,
            stray: 0,
            interval_asked: Span::ZERO,
            interval: Span::ZERO,
            captures: Vec::new(),
            measures: measures.collect(),
            ledger: Vec::new(),
            units: Vec::new(),
            flow_notes: Vec::new(),
            warm_up: Span::ZERO,
            distributions: Vec::new(),
            totals: FinalValues::default(),
        };
        let timing = Timing { build: text(BUILD), wall_s: wall_s(row), real_time: None, captures: None };
        RunResult { point: points[row] as usize, outcome, timing, reused: true }
    };
    let has_result = |row: &usize| part::text(&frame, ERROR, *row).is_empty();
    let rows = points.len().min(seeds.len());
    let fits = |row: &usize| points[*row] < campaign.manifest().points;
    Ok((0..rows).filter(has_result).filter(fits).map(of).collect())
}
