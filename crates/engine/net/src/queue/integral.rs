//! Time integral of a queue, for its exact mean.

use std::cell::Cell;

use bentpipe_units::Time;

use crate::Observer;

/// Time integral of the packets and bytes of a queue.
///
/// A packet adds its length times its time in the queue. That is the difference of two products, of which one is subtracted
/// when it arrives and one is added when it leaves, so that no sample is needed. Sums wrap around; their differences do not.
#[derive(Debug, Default)]
pub(super) struct Integral {
    /// Packets times nanoseconds.
    packets: u64,
    /// Bytes times nanoseconds.
    bytes: u128,
    /// Start of the window of measures, with the integrals up to it.
    window: Cell<(Time, u64, u128)>,
}

impl Integral {
    #[inline]
    pub(super) fn arrive(&mut self, len: usize, now: Time) {
        self.packets = self.packets.wrapping_sub(now.as_nanos());
        self.bytes = self.bytes.wrapping_sub(product(len as u64, now));
    }

    #[inline]
    pub(super) fn leave(&mut self, len: usize, now: Time) {
        self.packets = self.packets.wrapping_add(now.as_nanos());
        self.bytes = self.bytes.wrapping_add(product(len as u64, now));
    }

    /// Notes a change of packets and bytes at `now`.
    #[inline]
    pub(super) fn change(&mut self, before: (usize, u64), after: (usize, u64), now: Time) {
        let packets = (before.0 as u64).wrapping_sub(after.0 as u64);
        self.packets = self.packets.wrapping_add(packets.wrapping_mul(now.as_nanos()));
        self.bytes = self.bytes.wrapping_add(product(before.1, now)).wrapping_sub(product(after.1, now));
    }

    /// Returns the mean packets and bytes since the window of measures started.
    ///
    /// The queue holds `packets` and `bytes`. NaN at the start of the window.
    pub(super) fn means(
        &self,
        now: Time,
        (packets, bytes): (usize, u64),
        observer: &mut dyn Observer,
    ) -> [f64; 2] {
        let packets = self.packets.wrapping_add((packets as u64).wrapping_mul(now.as_nanos()));
        let bytes = self.bytes.wrapping_add(product(bytes, now));
        let (since, packets_before, bytes_before) = self.window.get();
        if observer.starts_window() {
            self.window.set((now, packets, bytes));
        }
        let nanos = now.since(since).as_nanos() as f64;
        let (packets, bytes) = (packets.wrapping_sub(packets_before), bytes.wrapping_sub(bytes_before));
        [packets as i64 as f64 / nanos, bytes as i128 as f64 / nanos]
    }
}

#[inline]
fn product(bytes: u64, now: Time) -> u128 {
    u128::from(bytes) * u128::from(now.as_nanos())
}
