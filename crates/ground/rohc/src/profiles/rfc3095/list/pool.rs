//! The items that a context knows, each kept once.

use alloc::vec::Vec;
use core::ops::Range;

use crate::framework::packet::MAX_EXTENSIONS;

/// Mark in the place of a number: no item, or one that is gone.
pub(crate) const NOWHERE: u8 = u8::MAX;

/// Items by number, one behind the other, and a note on each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool<T = ()> {
    bytes: Vec<u8>,
    places: Vec<Place<T>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place<T> {
    note: T,
    /// End of the item in `bytes`; the place of an empty one is free.
    end: u16,
}

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), places: Vec::new() }
    }

    /// Places, free ones included.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Octets of all items.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    fn range(&self, at: u8) -> Range<usize> {
        let at = usize::from(at);
        let start = at.checked_sub(1).and_then(|before| self.places.get(before)).map_or(0, |place| place.end);
        usize::from(start)..usize::from(self.places.get(at).map_or(start, |place| place.end))
    }

    /// The item `at`; an empty one where there is none.
    pub(crate) fn item(&self, at: u8) -> &[u8] {
        self.bytes.get(self.range(at)).unwrap_or_default()
    }

    /// The items and the free places, in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.item(at as u8))
    }

    /// The note on the item `at`.
    pub(crate) fn note(&self, at: u8) -> Option<&T> {
        self.places.get(usize::from(at)).map(|place| &place.note)
    }

    /// Returns all notes, by number.
    pub(crate) fn notes_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().map(|place| &mut place.note)
    }
}

impl<T: Copy + Default> Pool<T> {
    /// Stores `item` at `at`, replacing another. The note stays.
    pub(crate) fn set(&mut self, at: u8, item: &[u8]) {
        let place = usize::from(at);
        if self.len() <= place {
            let end = self.bytes.len() as u16;
            self.places.reserve_exact(place + 1 - self.places.len());
            self.places.resize(place + 1, Place { note: T::default(), end });
        }
        let range = self.range(at);
        if range.len() == item.len() {
            self.bytes[range].copy_from_slice(item);
            return;
        }
        let old_len = range.len();
        self.bytes.reserve_exact(item.len().saturating_sub(old_len));
        self.bytes.splice(range, item.iter().copied());
        for place in &mut self.places[place..] {
            place.end = (usize::from(place.end) + item.len() - old_len) as u16;
        }
    }
}

/// Numbers of the items of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    ids: [u8; MAX_EXTENSIONS],
    count: u8,
}

impl Default for Ids {
    fn default() -> Self {
        Self { ids: [NOWHERE; MAX_EXTENSIONS], count: 0 }
    }
}

impl Ids {
    /// Creates the numbers of a list of `count` unknown items.
    pub(crate) fn unknown(count: usize) -> Self {
        Self { count: count.min(MAX_EXTENSIONS) as u8, ..Self::default() }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.ids[..usize::from(self.count)]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.ids[..usize::from(self.count)]
    }

    /// The item `id` is not what it was.
    pub(crate) fn forget(&mut self, id: u8) {
        self.as_mut_slice().iter_mut().filter(|known| **known == id).for_each(|known| *known = NOWHERE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_numbers() {
        let mut pool = Pool::<()>::new();
        pool.set(2, b"two");
        pool.set(0, b"nought");
        assert_eq!((pool.item(0), pool.item(1), pool.item(2)), (&b"nought"[..], &b""[..], &b"two"[..]));
        pool.set(0, b"0");
        pool.set(1, b"one");
        assert_eq!(pool.items().collect::<Vec<_>>(), [&b"0"[..], b"one", b"two"]);
        pool.set(1, b"");
        pool.set(2, b"TWO");
        assert_eq!((pool.len(), pool.bytes_len(), pool.item(2), pool.item(9)), (3, 4, &b"TWO"[..], &b""[..]));
    }
}
