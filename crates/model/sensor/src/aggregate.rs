//! Partial aggregates, merged on the way and evaluated at the base station (TAG).

use crate::query::{Function, Item};

/// State of a partial aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Number, of minimum, maximum and sum.
    Number(f32),
    /// Sum and number of values.
    Mean(f32, u16),
    /// Number of values.
    Count(u16),
    /// Number of values in each bucket.
    Buckets(Vec<u16>),
}

impl State {
    /// Creates the state of one value.
    pub fn new(function: Function, value: f32) -> State {
        match function {
            Function::Min | Function::Max | Function::Sum => State::Number(value),
            Function::Avg => State::Mean(value, 1),
            Function::Count => State::Count(1),
            Function::Histogram { low, high, buckets } => {
                let mut counts = vec![0; usize::from(buckets)];
                let place = (value - low) / (high - low) * f32::from(buckets);
                counts[(place.max(0.0) as usize).min(usize::from(buckets) - 1)] = 1;
                State::Buckets(counts)
            }
        }
    }

    /// Merges another state of the same function.
    pub fn merge(&mut self, function: Function, other: &State) {
        match (self, other) {
            (State::Number(own), State::Number(other)) => {
                *own = match function {
                    Function::Min => own.min(*other),
                    Function::Max => own.max(*other),
                    _ => *own + other,
                }
            }
            (State::Mean(sum, count), State::Mean(other, more)) => {
                *sum += other;
                *count = count.saturating_add(*more);
            }
            (State::Count(count), State::Count(more)) => *count = count.saturating_add(*more),
            (State::Buckets(own), State::Buckets(other)) => {
                own.iter_mut().zip(other).for_each(|(own, other)| *own = own.saturating_add(*other));
            }
            _ => {}
        }
    }

    /// Appends the value, or those of all buckets.
    pub fn evaluate(&self, out: &mut Vec<f32>) {
        match self {
            State::Number(number) => out.push(*number),
            State::Mean(sum, count) => out.push(sum / f32::from(*count)),
            State::Count(count) => out.push(f32::from(*count)),
            State::Buckets(counts) => out.extend(counts.iter().map(|count| f32::from(*count))),
        }
    }

    /// Returns the length in bytes of a function's state.
    pub const fn len_of(function: Function) -> usize {
        match function {
            Function::Min | Function::Max | Function::Sum => 4,
            Function::Avg => 6,
            Function::Count => 2,
            Function::Histogram { buckets, .. } => 2 * buckets as usize,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            State::Number(number) => out.extend(number.to_be_bytes()),
            State::Mean(sum, count) => {
                out.extend(sum.to_be_bytes());
                out.extend(count.to_be_bytes());
            }
            State::Count(count) => out.extend(count.to_be_bytes()),
            State::Buckets(counts) => out.extend(counts.iter().flat_map(|count| count.to_be_bytes())),
        }
    }

    fn parse(function: Function, bytes: &[u8]) -> Option<State> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(f32::from_be_bytes);
        let count = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes);
        Some(match function {
            Function::Min | Function::Max | Function::Sum => State::Number(number(0)?),
            Function::Avg => State::Mean(number(0)?, count(4)?),
            Function::Count => State::Count(count(0)?),
            Function::Histogram { buckets, .. } => {
                let counts = (0..usize::from(buckets)).map(|n| count(2 * n));
                State::Buckets(counts.collect::<Option<_>>()?)
            }
        })
    }
}

/// Partial aggregates of the groups of an epoch, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(pub Vec<(f32, Vec<State>)>);

/// Returns the functions of a selection.
pub fn functions(items: &[Item]) -> Vec<Function> {
    let function = |item: &Item| match item {
        Item::Aggregate(function, _) => Some(*function),
        Item::Column(_) => None,
    };
    items.iter().filter_map(function).collect()
}

/// Returns the length in bytes of a group: key and states.
pub fn group_len(functions: &[Function]) -> usize {
    4 + functions.iter().map(|function| State::len_of(*function)).sum::<usize>()
}

impl Groups {
    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Merges a group.
    pub fn add(&mut self, functions: &[Function], key: f32, states: &[State]) {
        match self.0.binary_search_by(|(other, _)| other.total_cmp(&key)) {
            Ok(at) => {
                let own = &mut self.0[at].1;
                for ((own, other), function) in own.iter_mut().zip(states).zip(functions) {
                    own.merge(*function, other);
                }
            }
            Err(at) => self.0.insert(at, (key, states.to_vec())),
        }
    }

    /// Merges other groups.
    pub fn merge(&mut self, functions: &[Function], other: &Groups) {
        other.0.iter().for_each(|(key, states)| self.add(functions, *key, states));
    }

    /// Returns the groups in pieces of at most `limit` bytes, one group at least.
    pub fn emit(&self, functions: &[Function], limit: usize) -> Vec<Vec<u8>> {
        let count = (limit / group_len(functions)).max(1);
        let piece = |groups: &[(f32, Vec<State>)]| {
            let mut out = Vec::new();
            for (key, states) in groups {
                out.extend(key.to_be_bytes());
                states.iter().for_each(|state| state.emit(&mut out));
            }
            out
        };
        self.0.chunks(count).map(piece).collect()
    }

    /// Parses a piece; `None` if it does not hold whole groups of these functions.
    pub fn parse(functions: &[Function], bytes: &[u8]) -> Option<Groups> {
        let len = group_len(functions);
        if bytes.is_empty() || !bytes.len().is_multiple_of(len) {
            return None;
        }
        let mut groups = Groups::default();
        for group in bytes.chunks(len) {
            let key = f32::from_be_bytes(group[..4].try_into().ok()?);
            let (mut at, mut states) = (4, Vec::new());
            for function in functions {
                states.push(State::parse(*function, &group[at..])?);
                at += State::len_of(*function);
            }
            groups.add(functions, key, &states);
        }
        Some(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Function; 6] = [
        Function::Avg,
        Function::Min,
        Function::Max,
        Function::Sum,
        Function::Count,
        Function::Histogram { low: 0.0, high: 100.0, buckets: 4 },
    ];

    proptest! {
        /// Any tree of merges over the radio gives the aggregate of all values.
        #[test]
        fn merging_in_any_order_equals_the_aggregate_of_all(
            values in proptest::collection::vec(-50_i16..150, 1..40),
            cuts in proptest::collection::vec(any::<u8>(), 40),
        ) {
            let mut parts: Vec<Groups> = values.iter().map(|value| {
                let value = f32::from(*value);
                let mut groups = Groups::default();
                groups.add(&ALL, libm::floorf(value / 100.0), &ALL.map(|function| State::new(function, value)));
                groups
            }).collect();
            for cut in cuts {
                if parts.len() == 1 {
                    break;
                }
                let one = parts.swap_remove(usize::from(cut) % parts.len());
                let at = usize::from(cut / 2) % parts.len();
                for piece in one.emit(&ALL, 30) {
                    parts[at].merge(&ALL, &Groups::parse(&ALL, &piece).expect("whole groups"));
                }
            }
            let mut whole = parts.pop().expect("one");
            parts.iter().for_each(|part| whole.merge(&ALL, part));
            for (key, states) in &whole.0 {
                let of: Vec<f32> = values.iter().map(|value| f32::from(*value)).filter(|value| libm::floorf(value / 100.0) == *key).collect();
                let mut found = Vec::new();
                states.iter().for_each(|state| state.evaluate(&mut found));
                let sum: f32 = of.iter().sum();
                let expected = [sum / of.len() as f32, of.iter().copied().fold(f32::MAX, f32::min), of.iter().copied().fold(f32::MIN, f32::max), sum, of.len() as f32];
                for (found, expected) in found.iter().zip(expected) {
                    prop_assert!((found - expected).abs() < 1e-3);
                }
                prop_assert_eq!(found[5..].iter().sum::<f32>(), of.len() as f32);
            }
        }
    }
}
