//! Order of the data that bundles bring, and its way to a connection.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_units::{Span, Time};

/// Bytes of a stream that wait for missing ones.
pub(super) const MAX_WAITING: usize = 64 << 20;
/// Memory of a part that waits in addition to its bytes.
const OVERHEAD: usize = 64;
/// Bytes that a stream may hold for any time.
///
/// One that holds more and delivers less in a time is stalled.
pub(super) const RESERVE: u64 = 1 << 16;

/// Reassembly of the data of a direction.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    pub(super) end: Option<u64>,
}

impl Order {
    /// Returns `true` unless too much waits after adding data.
    ///
    /// The parts that are in order are appended to `ready`.
    pub(super) fn add(&mut self, offset: u64, data: &[u8], ready: &mut Ready) -> bool {
        if offset.checked_add(data.len() as u64).is_some_and(|end| end > self.next) {
            self.bytes += data.len() + OVERHEAD;
            if let Some(old) = self.waiting.insert(offset, data.to_vec()) {
                self.bytes -= old.len() + OVERHEAD;
            }
        }
        while let Some((&start, _)) = self.waiting.first_key_value()
            && start <= self.next
            && let Some(mut part) = self.waiting.remove(&start)
        {
            self.bytes -= part.len() + OVERHEAD;
            let known = ((self.next - start) as usize).min(part.len());
            part.drain(..known);
            self.next += part.len() as u64;
            ready.push(part);
        }
        self.bytes <= MAX_WAITING
    }

    /// Returns the number of bytes in order.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the memory of what waits for missing data.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if all data is in order.
    pub(super) fn is_over(&self) -> bool {
        self.end == Some(self.next)
    }
}

/// Data in order that waits for its connection.
#[derive(Debug, Default)]
pub(super) struct Ready {
    parts: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Ready {
    fn push(&mut self, part: Vec<u8>) {
        if !part.is_empty() {
            self.bytes += part.len() + OVERHEAD;
            self.parts.push_back(part);
        }
    }

    /// Removes and returns the first part.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let part = self.parts.pop_front()?;
        self.bytes -= part.len() + OVERHEAD;
        Some(part)
    }

    /// Returns the memory of all parts.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }
}

/// Latest progress of a stream that holds data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    at: Time,
    delivered: u64,
}

impl Progress {
    /// Creates the progress of a stream that begins.
    pub(super) fn new(now: Time) -> Progress {
        Progress { at: now, delivered: 0 }
    }

    /// Notes what a stream holds, and the bytes that it has delivered.
    pub(super) fn note(&mut self, held: u64, delivered: u64, now: Time) {
        if held <= RESERVE || delivered >= self.delivered + RESERVE {
            *self = Progress { at: now, delivered };
        }
    }

    /// Returns `true` if too little of what is held was delivered for a time.
    pub(super) fn is_stalled(&self, longest: Span, now: Time) -> bool {
        self.at + longest <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(order: &mut Order, offset: u64, data: &[u8]) -> Option<Vec<u8>> {
        let mut ready = Ready::default();
        let fits = order.add(offset, data, &mut ready);
        let mut out = Vec::new();
        while let Some(part) = ready.pop() {
            out.extend(part);
        }
        assert_eq!(ready.held(), 0);
        fits.then_some(out)
    }

    #[test]
    fn data_is_put_in_order_with_overlaps_and_bounded() {
        let mut order = Order::default();
        assert_eq!(add(&mut order, 3, b"def"), Some(vec![]));
        assert_eq!(add(&mut order, 2, b"cdefgh"), Some(vec![]));
        assert_eq!(add(&mut order, 0, b"abc"), Some(b"abcdefgh".to_vec()));
        assert_eq!(add(&mut order, 0, b"abc"), Some(vec![]), "a repetition");
        order.end = Some(8);
        assert!(order.is_over() && order.held() == 0);
        assert_eq!(add(&mut order, 1 << 40, &vec![0; MAX_WAITING + 1]), None);
        assert_eq!(add(&mut order, u64::MAX, b"x"), None, "beyond any stream: still too much waits");
    }

    #[test]
    fn a_stream_is_stalled_that_delivers_little_of_what_it_holds() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let minute = Span::from_secs(60);
        let mut progress = Progress::new(at(0));
        progress.note(1 << 20, RESERVE - 1, at(59));
        assert!(!progress.is_stalled(minute, at(59)) && progress.is_stalled(minute, at(60)));
        progress.note(1 << 20, RESERVE, at(60));
        assert!(!progress.is_stalled(minute, at(119)));
        // Little waits with it: nothing is gained by its end.
        progress.note(RESERVE, RESERVE, at(200));
        assert!(!progress.is_stalled(minute, at(259)));
    }
}
