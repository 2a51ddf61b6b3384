//! Least-significant-bit encoding and its window of references (RFC 3095 4.5.1 and 4.5.2).
//!
//! A value is sent as its k low bits. The receiver picks the one value with those bits in the interval
//! `[reference - p, reference - p + 2^k - 1]`. All arithmetic is modulo 2^32; for a 16-bit field truncate the result,
//! and give [`fits`] the mask of the field.

/// Decodes the low `bits` bits `lsb` against `reference`, with interval offset `p`.
#[inline]
pub(crate) const fn decode(reference: u32, lsb: u32, bits: u32, p: u32) -> u32 {
    let low = reference.wrapping_sub(p);
    if bits >= 32 {
        return lsb;
    }
    low.wrapping_add(lsb.wrapping_sub(low) & ((1 << bits) - 1))
}

/// Whether `bits` low bits of `value` decode to it against `reference`; `field` is the mask of the field's width.
#[inline]
pub(crate) const fn fits(reference: u32, value: u32, bits: u32, p: u32, field: u32) -> bool {
    bits >= 32 || value.wrapping_sub(reference.wrapping_sub(p)) & field < 1 << bits
}

/// The offset p = -1 (RFC 3095 5.11: a generated sequence number never repeats).
pub(crate) const P_MINUS_ONE: u32 = u32::MAX;

/// The last `N` values that the other side may hold as reference, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<T, const N: usize> {
    values: [T; N],
    head: u8,
    len: u8,
}

impl<T: Copy + Default, const N: usize> Window<T, N> {
    const FITS_U8: () = assert!(N > 0 && N < 128);

    pub(crate) fn new() -> Self {
        let () = Self::FITS_U8;
        Self { values: [T::default(); N], head: 0, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Adds `value`, keeping the newest `width` values (at most `N`).
    #[inline]
    pub(crate) fn push(&mut self, value: T, width: usize) {
        let width = width.clamp(1, N);
        while self.len() >= width {
            self.pop_oldest();
        }
        let at = (usize::from(self.head) + self.len()) % N;
        self.values[at] = value;
        self.len += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(crate) fn pop_oldest(&mut self) {
        if self.len > 0 {
            self.head = (self.head + 1) % N as u8;
            self.len -= 1;
        }
    }

    pub(crate) fn pop_newest(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Oldest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (head, len) = (usize::from(self.head), self.len());
        (head..head + len).map(|at| &self.values[at % N])
    }

    pub(crate) fn newest(&self) -> Option<&T> {
        self.iter().next_back()
    }

    pub(crate) fn oldest(&self) -> Option<&T> {
        self.iter().next()
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
        let mut window = Window::<u32, 4>::new();
        for value in 0..10 {
            window.push(value, 3);
        }
        assert!(window.iter().copied().eq([7, 8, 9]));
        assert_eq!((window.oldest(), window.newest()), (Some(&7), Some(&9)));
        window.pop_oldest();
        window.push(10, 8);
        window.push(11, 8);
        window.push(12, 8);
        assert!(window.iter().copied().eq([9, 10, 11, 12]));
        assert!(window.is_full());
    }
}
