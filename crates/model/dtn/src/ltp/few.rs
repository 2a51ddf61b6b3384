//! Map of which most have one entry.

use std::collections::HashMap;

use foldhash::quality::RandomState;

/// Values by number. One of them is kept without memory of its own, as most blocks have one checkpoint and one report.
#[derive(Clone, Debug)]
pub(super) struct Few<V> {
    one: Option<(u64, V)>,
    /// Entries beyond one.
    more: HashMap<u64, V, RandomState>,
}

impl<V> Default for Few<V> {
    fn default() -> Few<V> {
        Few { one: None, more: HashMap::default() }
    }
}

impl<V> Few<V> {
    pub(super) fn len(&self) -> usize {
        usize::from(self.one.is_some()) + self.more.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, number: u64) -> Option<&V> {
        match &self.one {
            Some((one, value)) if *one == number => Some(value),
            _ if self.more.is_empty() => None,
            _ => self.more.get(&number),
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        match &mut self.one {
            Some((one, value)) if *one == number => Some(value),
            _ if self.more.is_empty() => None,
            _ => self.more.get_mut(&number),
        }
    }

    /// Returns `true` if a value is entered, and not in place of an earlier one.
    pub(super) fn insert(&mut self, number: u64, value: V) -> bool {
        if let Some(old) = self.get_mut(number) {
            *old = value;
            return false;
        }
        match &self.one {
            None => self.one = Some((number, value)),
            Some(_) => {
                self.more.insert(number, value);
            }
        }
        true
    }

    pub(super) fn remove(&mut self, number: u64) {
        match &self.one {
            Some((one, _)) if *one == number => self.one = None,
            _ if self.more.is_empty() => {}
            _ => {
                self.more.remove(&number);
            }
        }
    }

    /// Removes all entries and returns their numbers.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u64> {
        let one = self.one.take().map(|(number, _)| number);
        one.into_iter().chain(self.more.drain().map(|(number, _)| number))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        let one = self.one.iter().map(|(number, value)| (*number, value));
        one.chain(self.more.iter().map(|(number, value)| (*number, value)))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        self.iter().map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(calls in proptest::collection::vec((0u64..6, 0u8..4), 0..60)) {
            let (mut few, mut map) = (Few::default(), BTreeMap::new());
            for (number, call) in calls {
                match call {
                    0 | 1 => prop_assert_eq!(few.insert(number, call), map.insert(number, call).is_none()),
                    2 => {
                        few.remove(number);
                        map.remove(&number);
                    }
                    _ => {
                        let mut drained: Vec<u64> = few.drain().collect();
                        drained.sort_unstable();
                        prop_assert_eq!(drained, std::mem::take(&mut map).into_keys().collect::<Vec<_>>());
                    }
                }
                let entries: BTreeMap<u64, u8> = few.iter().map(|(number, value)| (number, *value)).collect();
                prop_assert_eq!(&entries, &map);
                prop_assert_eq!((few.len(), few.is_empty(), few.keys().count()), (map.len(), map.is_empty(), map.len()));
                prop_assert_eq!(few.get(number), map.get(&number));
                prop_assert_eq!(few.get_mut(number), map.get_mut(&number));
            }
        }
    }
}
