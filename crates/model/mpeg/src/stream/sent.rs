//! Units of a stream, and places of those that arrived.
//!
//! Thousands of receivers may have one stream. So each keeps the place of what it knows from the sender, and the bytes
//! of the rest alone.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use bentpipe_units::Time;

/// Units that a stream sends: cells, or payloads of datagrams.
#[derive(Debug, Default)]
pub(super) struct Sent {
    bytes: Vec<u8>,
    /// Length of a unit; the last one may be shorter.
    unit: usize,
    /// Departure time of each.
    times: Vec<Time>,
    /// Digest and place of each in order, for units out of turn.
    places: OnceLock<Vec<(u64, u32)>>,
}

impl Sent {
    /// Returns units of `unit` bytes, which leave at these times.
    pub(super) fn new(bytes: Vec<u8>, unit: usize, times: Vec<Time>) -> Sent {
        Sent { bytes, unit, times, places: OnceLock::new() }
    }

    /// Returns the number of units.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns the departure times.
    pub(super) fn times(&self) -> &[Time] {
        &self.times
    }

    fn unit(&self, place: usize) -> Option<&[u8]> {
        let from = place.checked_mul(self.unit)?;
        let to = (from + self.unit).min(self.bytes.len());
        self.bytes.get(from..to).filter(|unit| !unit.is_empty())
    }

    /// Returns the place of the first unit with this content, at `next` or behind it.
    fn place(&self, content: &[u8], next: usize) -> Option<usize> {
        if self.unit(next) == Some(content) {
            return Some(next);
        }
        let places = self.places.get_or_init(|| self.sorted());
        let wanted = (digest(content), next as u32);
        let (of, place) = *places.get(places.partition_point(|known| *known < wanted))?;
        (of == wanted.0 && self.unit(place as usize) == Some(content)).then_some(place as usize)
    }

    fn sorted(&self) -> Vec<(u64, u32)> {
        let units = self.bytes.chunks(self.unit.max(1)).zip(0..);
        let mut places: Vec<(u64, u32)> = units.map(|(unit, place)| (digest(unit), place)).collect();
        places.sort_unstable();
        places
    }
}

fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// Unit that a receiver has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived<'a> {
    /// Arrival time.
    pub(super) at: Time,
    /// Content.
    pub(super) content: &'a [u8],
    /// Place among the units sent, in their order. `None` if none has this content, or it has come already.
    pub(super) place: Option<usize>,
}

/// Units that a receiver has kept, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Kept {
    sent: Arc<Sent>,
    /// Arrival time and place; places behind the last one sent are those of `other`.
    arrived: Vec<(Time, u32)>,
    /// Content that was not sent so, and where each ends.
    other: Vec<u8>,
    ends: Vec<usize>,
    /// Place behind the last one that came.
    next: usize,
    /// Number of datagrams that were damaged.
    pub(super) bad: u64,
}

impl Kept {
    /// Returns what a receiver of `sent` has at the beginning: nothing.
    pub(super) fn of(sent: Arc<Sent>) -> Kept {
        Kept { sent, ..Kept::default() }
    }

    /// Keeps a unit that has arrived.
    pub(super) fn keep(&mut self, at: Time, content: &[u8]) {
        let place = match self.sent.place(content, self.next) {
            Some(place) => {
                self.next = place + 1;
                place
            }
            None => {
                self.other.extend(content);
                self.ends.push(self.other.len());
                self.sent.len() + self.ends.len() - 1
            }
        };
        self.arrived.push((at, place as u32));
    }

    /// Returns the units.
    pub(super) fn units(&self) -> impl Iterator<Item = Arrived<'_>> {
        self.arrived.iter().map(|&(at, place)| {
            let place = place as usize;
            if let Some(content) = self.sent.unit(place).filter(|_| place < self.sent.len()) {
                return Arrived { at, content, place: Some(place) };
            }
            let other = place - self.sent.len();
            let from = other.checked_sub(1).map_or(0, |before| self.ends[before]);
            Arrived { at, content: &self.other[from..self.ends[other]], place: None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_kept_in_order_with_their_places() {
        let sent = Arc::new(Sent::new(b"aabbaaccd".to_vec(), 2, vec![Time::ZERO; 5]));
        let mut kept = Kept::of(Arc::clone(&sent));
        // The second of two that are alike, damage, one that was passed, and the short one at the end.
        let came: [(&[u8], Option<usize>); 7] = [
            (b"aa", Some(0)),
            (b"aa", Some(2)),
            (b"xyz", None),
            (b"bb", None),
            (b"cc", Some(3)),
            (b"", None),
            (b"d", Some(4)),
        ];
        came.iter().for_each(|(content, _)| kept.keep(Time::ZERO, content));
        let found: Vec<_> = kept.units().map(|unit| (unit.content, unit.place)).collect();
        assert_eq!(found, came);
    }

    #[test]
    fn a_receiver_of_all_keeps_no_bytes() {
        let bytes: Vec<u8> = (0..49 * 100u32).map(|n| (n / 49) as u8).collect();
        let mut kept = Kept::of(Arc::new(Sent::new(bytes.clone(), 49, vec![Time::ZERO; 100])));
        bytes.chunks(49).filter(|cell| cell[0] % 10 != 0).for_each(|cell| kept.keep(Time::ZERO, cell));
        assert_eq!((kept.arrived.len(), kept.other.len()), (90, 0));
    }
}
