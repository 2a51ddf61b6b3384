//! Events of a scenario, scheduled in its network.

use std::borrow::Cow;

use bentpipe_scenario::{Moment, Problem, Scenario, copies};
use bentpipe_site::Change;
use bentpipe_units::Time;

use super::change::Changer;
use super::{Built, real};

/// Returns the scenario to build. It has no copies, and idle channels for events to set.
pub(super) fn prepared(scenario: &Scenario) -> Cow<'_, Scenario> {
    let mut spread = copies::spread(scenario);
    if !scenario.timeline.is_empty() {
        spread.to_mut().link.iter_mut().for_each(|(name, link)| real::fill_channels(name, link));
    }
    spread
}

/// Schedules the events of `scenario` in a network that was made of `prepared`.
///
/// # Errors
/// Returns an error if an event changes what a running network cannot change.
pub(super) fn schedule(built: &mut Built, scenario: &Scenario, prepared: &Scenario) -> Result<(), Problem> {
    for (moment, changes) in changes(built, scenario, prepared)? {
        built.network.schedule(Time::ZERO + moment.at, move |network| {
            // Values were checked by `rehearse`.
            changes.into_iter().for_each(|change| drop(change.apply(network)));
        });
    }
    Ok(())
}

/// Applies all changes at once to a network that will not run.
///
/// # Errors
/// Returns the refusal of an element.
pub(super) fn rehearse(built: &mut Built, scenario: &Scenario, prepared: &Scenario) -> Result<(), Problem> {
    for (moment, changes) in changes(built, scenario, prepared)? {
        for change in changes {
            change.apply(&mut built.network).map_err(|problem| at_event(moment, problem))?;
        }
    }
    Ok(())
}

/// Returns the changes of elements at each moment.
fn changes<'a>(
    built: &Built,
    scenario: &'a Scenario,
    prepared: &Scenario,
) -> Result<Vec<(&'a Moment, Vec<Change>)>, Problem> {
    // A network without events needs no scenario to compare with.
    if scenario.timeline.is_empty() {
        return Ok(Vec::new());
    }
    let (mut changer, mut state) = (Changer::of(built, prepared), scenario.clone());
    let mut all = Vec::new();
    for moment in scenario.timeline.iter() {
        moment.difference.apply(&mut state);
        let changes = changer.turn(real::prepared_difference(&state, moment));
        all.push((moment, changes.map_err(|problem| at_event(moment, problem))?));
    }
    Ok(all)
}

/// Returns a problem at its event.
fn at_event(moment: &Moment, Problem { key, problem }: Problem) -> Problem {
    let keys: Vec<&str> = moment.changes.iter().map(|(key, _)| key.as_str()).collect();
    let what = if key.is_empty() { keys.join(", ") } else { key };
    Problem::new(format!("event.{}", moment.event), format!("{what}: {problem}"))
}
