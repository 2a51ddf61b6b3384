//! Present connections, and their places in the events of the system.

use std::collections::HashSet;

use crate::pair::{Ends, Pair};

/// Place of a connection. It is not used again while an event may still name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    index: u32,
    generation: u32,
}

impl Place {
    /// Returns the place as the data of an event.
    pub(crate) fn to_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the place that an event names.
    pub(crate) fn from_data(data: u64) -> Place {
        Place { index: data as u32, generation: (data >> 32) as u32 }
    }
}

/// Present connections.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pairs: Vec<(u32, Option<Pair>)>,
    free: Vec<u32>,
    ends: HashSet<Ends>,
}

/// Generations keep clear of the data of listeners.
const GENERATIONS: u32 = 1 << 30;

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if there is a connection of this client and server.
    pub(crate) fn contains(&self, ends: &Ends) -> bool {
        self.ends.contains(ends)
    }

    pub(crate) fn insert(&mut self, pair: Pair) -> Place {
        self.ends.insert(pair.ends);
        let index = self.free.pop().unwrap_or(self.pairs.len() as u32);
        if index as usize == self.pairs.len() {
            self.pairs.push((0, None));
        }
        let (generation, place) = &mut self.pairs[index as usize];
        *place = Some(pair);
        Place { index, generation: *generation }
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Pair> {
        let (generation, pair) = self.pairs.get_mut(place.index as usize)?;
        pair.as_mut().filter(|_| *generation == place.generation)
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Pair> {
        self.get_mut(place)?;
        let (generation, pair) = &mut self.pairs[place.index as usize];
        *generation = (*generation + 1) % GENERATIONS;
        self.free.push(place.index);
        let pair = pair.take()?;
        self.ends.remove(&pair.ends);
        Some(pair)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Place, &mut Pair)> {
        self.pairs.iter_mut().enumerate().filter_map(|(index, (generation, pair))| {
            let place = Place { index: index as u32, generation: *generation };
            pair.as_mut().map(|pair| (place, pair))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, &Pair)> {
        self.pairs.iter().enumerate().filter_map(|(index, (generation, pair))| {
            let place = Place { index: index as u32, generation: *generation };
            pair.as_ref().map(|pair| (place, pair))
        })
    }
}
