//! A fast hash for small fixed keys whose tables only a scenario fills.
//!
//! Packets only look keys up, so a sender who knows the hash cannot make a table slow.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with [`Mixer`].
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A hash set with [`Mixer`].
pub(crate) type Set<K> = std::collections::HashSet<K, BuildHasherDefault<Mixer>>;

/// Multiplies and rotates, a word at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mixer(u64);

impl Mixer {
    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(byte.into()));
    }
    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.mix(value.into());
    }
    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(value.into());
    }
    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }
    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.mix(value as u64);
        self.mix((value >> 64) as u64);
    }
    #[inline]
    fn finish(&self) -> u64 {
        // The table takes its group from the low bits and its tag from the high ones.
        self.0 ^ self.0 >> 32
    }
}
