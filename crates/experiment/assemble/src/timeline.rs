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
    each_moment(built, scenario, prepared, |built, moment, changes| {
        built.network.schedule(Time::ZERO + moment.at, move |network| {
            // Values were checked by `rehearse`.
            changes.into_iter().for_each(|change| drop(change.apply(network)));
        });
        Ok(())
    })
}

/// Applies all changes at once to a network that will not run.
///
/// # Errors
/// Returns the refusal of an element.
pub(super) fn rehearse(built: &mut Built, scenario: &Scenario, prepared: &Scenario) -> Result<(), Problem> {
    // Those of one moment at a time: thousands of copies change in each step of a ramp.
    each_moment(built, scenario, prepared, |built, moment, changes| {
        let mut changes = changes.into_iter();
        changes
            .try_for_each(|change| change.apply(&mut built.network))
            .map_err(|problem| at_event(moment, problem))
    })
}

/// Passes on the changes of elements at each moment.
fn each_moment(
    built: &mut Built,
    scenario: &Scenario,
    prepared: &Scenario,
    mut pass: impl FnMut(&mut Built, &Moment, Vec<Change>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // A network without events needs no scenario to compare with.
    if scenario.timeline.is_empty() {
        return Ok(());
    }
    let (mut changer, mut state) = (Changer::of(built, prepared), scenario.clone());
    for moment in scenario.timeline.iter() {
        moment.difference.apply(&mut state);
        let changes = changer.turn(real::prepared_difference(&state, moment));
        pass(built, moment, changes.map_err(|problem| at_event(moment, problem))?)?;
    }
    Ok(())
}

/// Returns a problem at its event.
fn at_event(moment: &Moment, Problem { key, problem }: Problem) -> Problem {
    let keys: Vec<&str> = moment.changes.iter().map(|(key, _)| key.as_str()).collect();
    let what = if key.is_empty() { keys.join(", ") } else { key };
    Problem::new(format!("event.{}", moment.event), format!("{what}: {problem}"))
}
