//! Window of datagram numbers, against replay (RFC 4303, section 3.4.3).

/// Numbers that are remembered.
const SIZE: u64 = 4096;

/// Window of the latest numbers.
#[derive(Debug)]
pub(super) struct Window {
    highest: u64,
    accepted: u64,
    seen: Vec<u64>,
}

impl Default for Window {
    fn default() -> Window {
        Window { highest: 0, accepted: 0, seen: vec![0; (SIZE / 64) as usize] }
    }
}

impl Window {
    /// Returns `true` if a number is new and not too old, and records it. Numbers start at one.
    pub(super) fn accept(&mut self, number: u64) -> bool {
        if number == 0 || number + SIZE <= self.highest {
            return false;
        }
        if number > self.highest {
            let new = (self.highest + 1..=number).rev().take(SIZE as usize);
            new.for_each(|number| self.seen[slot(number).0] &= !slot(number).1);
            self.highest = number;
        }
        let (word, bit) = slot(number);
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        self.accepted += u64::from(is_new);
        is_new
    }

    /// Returns how many numbers up to the highest have not come.
    pub(super) fn missing(&self) -> u64 {
        self.highest - self.accepted
    }
}

/// Returns the place of a number.
fn slot(number: u64) -> (usize, u64) {
    ((number % SIZE / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_accepted_once() {
        let mut window = Window::default();
        assert!(!window.accept(0));
        assert!(window.accept(3) && window.accept(1) && !window.accept(3) && !window.accept(1));
        assert_eq!(window.missing(), 1);
        assert!(window.accept(3 + SIZE) && !window.accept(3) && window.accept(4) && !window.accept(4));
        assert!(window.accept(u64::MAX / 2) && !window.accept(5 + SIZE));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(numbers in proptest::collection::vec(1u64..20_000, 0..400)) {
            let (mut window, mut seen, mut highest) = (Window::default(), BTreeSet::new(), 0);
            for number in numbers {
                let expected = number + SIZE > highest && !seen.contains(&number);
                prop_assert_eq!(window.accept(number), expected);
                highest = highest.max(number);
                seen.insert(number);
            }
        }
    }
}
