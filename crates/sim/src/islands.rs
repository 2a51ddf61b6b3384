//! Which elements may be run ahead of the others.
//!
//! Between elements that are patient ([`Element::patience`]) lie islands of those that are not. What happens on one is not seen on
//! another before a patient element was woken, so an island may be run up to there at one go: what it works with stays near the
//! processor, where in turns with others each would have to be fetched anew. This is conservative synchronisation, as of simulators
//! in parallel (Chandy and Misra 1979, Bryant 1977), on one processor.

use std::collections::HashMap;
use std::ops::Index;

use bentpipe_net::{Element, Wire};
use bentpipe_units::Span;

/// Of an island with more elements the agenda finds the first sooner.
const LARGEST: usize = 8;

/// The islands of a network; none if no element is patient.
#[derive(Debug, Default)]
pub(crate) struct Islands {
    islands: Vec<Island>,
    /// For each element its island; none for those that are patient, and those of large islands.
    of: Vec<Option<u32>>,
    /// The least of the patient elements.
    patience: Span,
}

/// Elements that are wired to each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Island {
    pub(crate) elements: Vec<u32>,
    /// The patient elements that lead here.
    pub(crate) straits: Vec<u32>,
}

impl Islands {
    /// `wires[e][p]` is where output `p` of element `e` leads.
    pub(crate) fn find(elements: &[&dyn Element], wires: &[&[Wire]]) -> Islands {
        let patience: Vec<Span> = elements.iter().map(|element| element.patience()).collect();
        let is_patient = |element: &usize| !patience[*element].is_zero();
        let Some(least) = patience.iter().copied().filter(|patience| !patience.is_zero()).min() else {
            return Islands::default();
        };
        let connected = |from: usize| wires[from].iter().filter(|wire| wire.is_connected());
        let all = || 0..elements.len();
        // Elements that are wired belong together, and those that lead to one input of a patient one.
        let (mut names, mut leads): (Vec<usize>, HashMap<u64, usize>) = (all().collect(), HashMap::new());
        for from in all().filter(|from| !is_patient(from)) {
            for wire in connected(from) {
                let to = wire.to() as usize;
                let other = if is_patient(&to) { *leads.entry(wire.number()).or_insert(from) } else { to };
                join(&mut names, from, other);
            }
        }
        let mut islands: Vec<Island> = all().map(|_| Island::default()).collect();
        for element in all() {
            if !is_patient(&element) {
                islands[name(&names, element)].elements.push(element as u32);
                continue;
            }
            for wire in connected(element).filter(|wire| !is_patient(&(wire.to() as usize))) {
                let straits = &mut islands[name(&names, wire.to() as usize)].straits;
                if straits.last() != Some(&(element as u32)) {
                    straits.push(element as u32);
                }
            }
        }
        islands.retain(|island| (1..=LARGEST).contains(&island.elements.len()));
        let mut of = vec![None; elements.len()];
        for (place, island) in islands.iter().enumerate() {
            island.elements.iter().for_each(|&element| of[element as usize] = Some(place as u32));
        }
        Islands { islands, of, patience: least }
    }

    /// The island of an element, if that may be run ahead.
    #[inline]
    pub(crate) fn of(&self, element: usize) -> Option<usize> {
        self.of.get(element).copied().flatten().map(|island| island as usize)
    }

    /// How long after a packet came in none of the patient elements does anything because of it.
    pub(crate) fn patience(&self) -> Span {
        self.patience
    }
}

impl Index<usize> for Islands {
    type Output = Island;

    fn index(&self, island: usize) -> &Island {
        &self.islands[island]
    }
}

/// The element that an island is called by.
fn name(names: &[usize], mut element: usize) -> usize {
    while names[element] != element {
        element = names[element];
    }
    element
}

fn join(names: &mut [usize], a: usize, b: usize) {
    let (a, b) = (name(names, a), name(names, b));
    names[a.max(b)] = a.min(b);
}

#[cfg(test)]
mod tests;
