//! Settings of a job, checked with its scenario.

use bentpipe_lab::search::{self, Condition};
use bentpipe_scenario::Document;
use bentpipe_scenario::files::names_file;
use serde::{Deserialize, Serialize};

use crate::drafts::Draft;
use crate::problem::{Problem, Result, findings};
use crate::real_time;
use crate::store::jobs::Question;

/// Most runs of a job: points times seeds.
pub(crate) const MAX_RUNS: usize = 10_000;

/// Most runs of a campaign.
const MAX_CAMPAIGN: usize = 1_000_000;

/// Most conditions of a search, and most bytes of one.
const MAX_CONDITIONS: usize = 20;
const MAX_QUESTION: usize = 500;

/// Settings of a job that depend on its scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LaunchSettings {
    pub(crate) duration: Option<String>,
    pub(crate) seeds: Option<u32>,
    pub(crate) campaign: bool,
    pub(crate) emulate: bool,
    pub(crate) search: Option<Question>,
}

/// Checks the settings of a job. Returns its length in real time in milliseconds, if it is an emulation.
///
/// # Errors
/// Returns an error if they do not fit the scenario, or ask for too many runs.
pub(crate) fn check(draft: Draft, new: &LaunchSettings) -> Result<Option<i64>> {
    let Draft { mut document, points, mut scenario, .. } = draft;
    if let Some(duration) = &new.duration {
        let refused = |error: &bentpipe_scenario::ScenarioError| Problem {
            problems: findings(error),
            ..Problem::bad("duration: the scenario has errors with it")
        };
        // As text, so that it cannot be anything but a duration.
        let assignment = format!("duration={}", serde_json::Value::from(duration.as_str()));
        document.set(&assignment).map_err(|error| refused(&error))?;
        scenario = document.scenario().map_err(|error| refused(&error))?;
    }
    let seeds = new.seeds.unwrap_or(scenario.seeds).max(1) as usize;
    let runs = points.saturating_mul(seeds);
    if new.emulate {
        let real_ms = real_time::milliseconds(scenario.duration.as_secs_f64());
        return check_emulation(new, points).map(|()| Some(real_ms));
    }
    if let Some(question) = &new.search {
        return check_search(new, &document, question, seeds).map(|()| None);
    }
    match (runs > MAX_RUNS, new.campaign) {
        (true, false) => Err(Problem::bad(format!(
            "{runs} runs of points times seeds: expected at most {MAX_RUNS}, or a campaign, which has room for more"
        ))),
        (_, true) if runs > MAX_CAMPAIGN => {
            Err(Problem::bad(format!("{runs} runs of points times seeds: expected at most {MAX_CAMPAIGN}")))
        }
        _ => Ok(None),
    }
}

/// Checks the question of a search, and that its runs are not too many.
fn check_search(new: &LaunchSettings, document: &Document, question: &Question, seeds: usize) -> Result<()> {
    if new.campaign {
        return Err(Problem::bad("expected one of `campaign` and `search`"));
    }
    let Question { over, conditions } = question;
    if !(1..=MAX_CONDITIONS).contains(&conditions.len()) {
        return Err(Problem::bad(format!("search: expected 1 to {MAX_CONDITIONS} conditions in `while`")));
    }
    if conditions.iter().chain([over]).any(|text| text.len() > MAX_QUESTION) {
        return Err(Problem::bad(format!("search: expected at most {MAX_QUESTION} bytes each")));
    }
    let refused = |what: &str, error: &dyn std::fmt::Display| Problem::bad(format!("search.{what}: {error}"));
    if names_file(over) {
        return Err(refused("over", &"a search is over numbers: expected no name of a file"));
    }
    for condition in conditions {
        condition.parse::<Condition>().map_err(|error| refused("while", &error))?;
    }
    let swept = search::swept(document, over).map_err(|error| refused("over", &error))?;
    let values = swept.axes().next().map_or(0, |(_, values)| values);
    for value in [0, values.saturating_sub(1)] {
        swept.scenario_at(&[value]).map_err(|error| refused("over", &error))?;
    }
    let runs = search::most_tries(values).saturating_mul(seeds);
    match runs > MAX_RUNS {
        true => {
            Err(Problem::bad(format!("up to {runs} runs of values times seeds: expected at most {MAX_RUNS}")))
        }
        false => Ok(()),
    }
}

/// Checks that an emulation has one run. Of a scenario's seeds it has the first.
fn check_emulation(new: &LaunchSettings, points: usize) -> Result<()> {
    if new.campaign || new.search.is_some() {
        return Err(Problem::bad("expected one of `campaign`, `emulate` and `search`"));
    }
    if points > 1 || new.seeds.is_some_and(|seeds| seeds > 1) {
        return Err(Problem::bad(
            "emulate: expected one run, in real time: leave out the sweep, and `seeds`",
        ));
    }
    Ok(())
}
