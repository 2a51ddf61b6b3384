//! Contexts of a compressor, found by what identifies a flow.

use std::collections::{BTreeMap, HashMap};

use super::chain::{Chain, Upper, u32_at};

/// Fields that identify a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 42]);

impl Key {
    /// Returns the key of a packet's flow; `ssrc` is that of an RTP header.
    pub(crate) fn of(chain: &Chain, header: &[u8], ssrc: Option<u32>) -> Key {
        let mut key = [0; 42];
        let (protocol, addresses) =
            if chain.is_v4 { (header[9], &header[12..20]) } else { (header[6], &header[8..40]) };
        (key[0], key[1]) = (u8::from(chain.is_v4) | u8::from(ssrc.is_some()) << 1, protocol);
        key[2..2 + addresses.len()].copy_from_slice(addresses);
        if chain.upper != Upper::Other {
            key[34..38].copy_from_slice(&u32_at(header, chain.ip_len).to_be_bytes());
        }
        key[38..].copy_from_slice(&ssrc.unwrap_or_default().to_be_bytes());
        Key(key)
    }
}

#[derive(Clone, Debug)]
struct Slot<C> {
    key: Key,
    used: u64,
    context: C,
}

/// Table of contexts. The one that was not used for longest gives way.
#[derive(Clone, Debug)]
pub(crate) struct Contexts<C> {
    slots: Vec<Slot<C>>,
    places: HashMap<Key, usize>,
    /// Places by their last use.
    order: BTreeMap<u64, usize>,
    limit: usize,
    uses: u64,
}

impl<C> Contexts<C> {
    pub(crate) fn new(limit: usize) -> Contexts<C> {
        Contexts { slots: Vec::new(), places: HashMap::new(), order: BTreeMap::new(), limit, uses: 0 }
    }

    /// Returns the number of a flow's context, if it has one.
    pub(crate) fn find(&mut self, key: &Key) -> Option<usize> {
        let place = *self.places.get(key)?;
        self.uses += 1;
        let slot = self.slots.get_mut(place)?;
        let before = std::mem::replace(&mut slot.used, self.uses);
        self.order.remove(&before);
        self.order.insert(self.uses, place);
        Some(place)
    }

    /// Stores the context of a flow. Returns its number, and the context that had it before.
    pub(crate) fn claim(&mut self, key: Key, context: C) -> (usize, Option<C>) {
        self.uses += 1;
        let slot = Slot { key, used: self.uses, context };
        if self.slots.len() < self.limit {
            self.places.insert(key, self.slots.len());
            self.order.insert(self.uses, self.slots.len());
            self.slots.push(slot);
            return (self.slots.len() - 1, None);
        }
        let place = self.order.pop_first().map_or(0, |(_, place)| place);
        self.order.insert(self.uses, place);
        let before = std::mem::replace(&mut self.slots[place], slot);
        self.places.remove(&before.key);
        self.places.insert(key, place);
        (place, Some(before.context))
    }

    /// Returns the context of a number.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut C> {
        self.slots.get_mut(place).map(|slot| &mut slot.context)
    }
}
