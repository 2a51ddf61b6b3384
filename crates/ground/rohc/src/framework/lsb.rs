//! Least-significant-bit encoding and its window of references (RFC 3095 4.5.1 and 4.5.2).
//!
//! A value is sent as its k low bits. The receiver picks the one value with those bits in the interval
//! `[reference - p, reference - p + 2^k - 1]`. All arithmetic is modulo 2^32; for a 16-bit field truncate the result,
//! and give [`fits`] the mask of the field.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Decodes the low `bits` bits `lsb` against `reference`, with interval offset `p`.
#[inline]
pub(crate) const fn decode(reference: u32, lsb: u32, bits: u32, p: u32) -> u32 {
    let low = reference.wrapping_sub(p);
    if bits >= 32 {
        return lsb;
    }
    low.wrapping_add(lsb.wrapping_sub(low) & ((1 << bits) - 1))
}

/// Returns `true` if `bits` low bits of `value` decode to it against `reference`. `field` is the mask of the field's
/// width.
#[inline]
pub(crate) const fn fits(reference: u32, value: u32, bits: u32, p: u32, field: u32) -> bool {
    bits >= 32 || value.wrapping_sub(reference.wrapping_sub(p)) & field < 1 << bits
}

/// The offset p = -1 (RFC 3095 5.11: a generated sequence number never repeats).
pub(crate) const P_MINUS_ONE: u32 = u32::MAX;

/// The last `N` values that the other side may hold as reference, oldest first. There is room for as many as were ever kept:
/// four, eight, and so on up to `N`.
#[derive(Debug)]
pub(crate) struct Window<T, const N: usize> {
    /// A ring; its length is a power of two, or nothing yet.
    values: Box<[T]>,
    head: u8,
    len: u8,
}

impl<T: Copy + Default, const N: usize> Window<T, N> {
    const IS_POWER_OF_TWO: () = assert!(N >= 4 && N < 128 && N.is_power_of_two());

    pub(crate) fn new() -> Self {
        let () = Self::IS_POWER_OF_TWO;
        Self { values: Box::default(), head: 0, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Returns the index of the value `after` the given number of others.
    #[inline]
    fn place(&self, after: usize) -> usize {
        (usize::from(self.head) + after) & self.values.len().wrapping_sub(1)
    }

    /// Adds `value`, keeping the newest `width` values (at most `N`).
    #[inline]
    pub(crate) fn push(&mut self, value: T, width: usize) {
        let width = width.clamp(1, N);
        let head = usize::from(self.head);
        if self.len() == width
            && self.values.len() == width
            && let Some(oldest) = self.values.get_mut(head)
        {
            *oldest = value;
            self.head = self.place(1) as u8;
            return;
        }
        let surplus = (self.len() + 1).saturating_sub(width);
        (self.head, self.len) = (self.place(surplus) as u8, self.len - surplus as u8);
        if self.len() == self.values.len() {
            self.grow();
        }
        let at = self.place(self.len());
        if let Some(place) = self.values.get_mut(at) {
            *place = value;
            self.len += 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.values.len()).clamp(4, N);
        let mut values = Vec::with_capacity(room);
        values.extend(self.iter().copied());
        values.resize(room, T::default());
        (self.values, self.head) = (values.into_boxed_slice(), 0);
    }

    /// Changes every value.
    pub(crate) fn update(&mut self, change: impl FnMut(&mut T)) {
        self.values.iter_mut().for_each(change);
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(crate) fn pop_oldest(&mut self) {
        if self.len > 0 {
            self.head = self.place(1) as u8;
            self.len -= 1;
        }
    }

    pub(crate) fn pop_newest(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Oldest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        (0..self.len()).map(|at| &self.values[self.place(at)])
    }

    #[inline]
    pub(crate) fn newest(&self) -> Option<&T> {
        let last = self.len().checked_sub(1)?;
        self.values.get(self.place(last))
    }

    #[inline]
    pub(crate) fn oldest(&self) -> Option<&T> {
        self.values.get(self.place(0)).filter(|_| self.len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_decodes_and_what_does_not_decodes_wrongly() {
        for bits in [1, 3, 4, 6, 8] {
            for p in [P_MINUS_ONE, 0, 1, 3] {
                for distance in -300i32..300 {
                    let reference = 5u32;
                    let value = reference.wrapping_add_signed(distance) & 0xffff;
                    let decoded = decode(reference, value & ((1 << bits) - 1), bits, p) & 0xffff;
                    assert_eq!(
                        fits(reference, value, bits, p, 0xffff),
                        decoded == value,
                        "{bits} {p} {distance}"
                    );
                }
            }
        }
    }

    #[test]
    fn window_keeps_the_newest() {
        let mut window = Window::<u32, 8>::new();
        for value in 0..10 {
            window.push(value, 3);
        }
        assert!(window.iter().copied().eq([7, 8, 9]));
        assert_eq!((window.oldest(), window.newest()), (Some(&7), Some(&9)));
        window.pop_oldest();
        window.push(10, 8);
        window.push(11, 8);
        window.push(12, 8);
        assert!(window.iter().copied().eq(8..13) && !window.is_full());
        for value in 13..30 {
            window.push(value, 100);
        }
        assert!(window.iter().copied().eq(22..30) && window.is_full());
        window.update(|value| *value *= 2);
        assert_eq!((window.oldest(), window.newest()), (Some(&44), Some(&58)));
    }
}
