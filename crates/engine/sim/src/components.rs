//! Components of a network: parts without a wire between them.
//!
//! What happens in one has no effect in another. So each is executed up to the end of a step before the next one: its
//! data stays in the cache.

use std::collections::BTreeMap;

use bentpipe_net::Wire;
use bentpipe_units::Time;

use crate::Agenda;
use crate::clusters::{join, name};

/// Place of an element in its component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    component: u32,
    member: u32,
}

/// Agendas of all components.
#[derive(Debug)]
pub(crate) struct Components {
    components: Vec<Component>,
    /// First deadline of each component, except that of the one that is executed.
    first: Agenda,
    executed: Option<u32>,
}

#[derive(Debug)]
struct Component {
    /// Elements in their order, so that ties go to the lowest.
    members: Vec<u32>,
    agenda: Agenda,
}

impl Components {
    /// Finds the components, and the place of each element.
    ///
    /// `wires[e][p]` is the destination of output `p` of element `e`.
    pub(crate) fn find(wires: &[&[Wire]]) -> (Components, Vec<Place>) {
        let mut names: Vec<usize> = (0..wires.len()).collect();
        for (from, outs) in wires.iter().enumerate() {
            outs.iter()
                .filter(|wire| wire.is_connected())
                .for_each(|wire| join(&mut names, from, wire.to() as usize));
        }
        let mut found: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for element in 0..wires.len() {
            found.entry(name(&names, element)).or_default().push(element as u32);
        }
        Components::new(found.into_values().collect(), wires.len())
    }

    /// Returns all elements as one component, and the place of each.
    pub(crate) fn one(count: usize) -> (Components, Vec<Place>) {
        Components::new(vec![(0..count as u32).collect()], count)
    }

    fn new(members: Vec<Vec<u32>>, count: usize) -> (Components, Vec<Place>) {
        let mut places = vec![Place::default(); count];
        for (component, members) in members.iter().enumerate() {
            for (member, &element) in members.iter().enumerate() {
                places[element as usize] = Place { component: component as u32, member: member as u32 };
            }
        }
        let first = Agenda::new(members.len());
        let component = |members: Vec<u32>| Component { agenda: Agenda::new(members.len()), members };
        (
            Components { components: members.into_iter().map(component).collect(), first, executed: None },
            places,
        )
    }

    /// Sets the deadline of the element at a place.
    #[inline]
    pub(crate) fn set(&mut self, place: Place, time: Time) {
        let component = &mut self.components[place.component as usize];
        component.agenda.set(place.member as usize, time);
        if self.executed != Some(place.component) {
            self.first.set(place.component as usize, component.agenda.first().0);
        }
    }

    /// Returns the first deadline of all.
    pub(crate) fn deadline(&self) -> Time {
        self.first.first().0
    }

    /// Returns `true` if a component has a deadline up to `end`. The first one is then executed.
    pub(crate) fn begin(&mut self, end: Time) -> bool {
        let (time, component) = self.first.first();
        let begins = time <= end && !time.is_never();
        self.executed = begins.then_some(component as u32);
        begins
    }

    /// Returns the first deadline in the component that is executed, and its element.
    ///
    /// Without one that is never.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let Some(executed) = self.executed else { return (Time::NEVER, 0) };
        let component = &self.components[executed as usize];
        let (time, member) = component.agenda.first();
        // Beyond the last member there is only what never happens.
        (time, component.members.get(member).map_or(0, |&element| element as usize))
    }

    /// Ends the execution of a component.
    pub(crate) fn end(&mut self) {
        if let Some(executed) = self.executed.take() {
            self.first.set(executed as usize, self.components[executed as usize].agenda.first().0);
        }
    }

    #[cfg(test)]
    pub(crate) fn members(&self) -> Vec<&[u32]> {
        self.components.iter().map(|component| &component.members[..]).collect()
    }
}

#[cfg(test)]
mod tests;
