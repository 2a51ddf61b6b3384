//! Numbers of waiting packets and bytes, their means and peaks.

use bentpipe_units::Time;

use super::integral::Integral;
use crate::metric::{Gauge, Of};
use crate::queue::metrics;
use crate::{Observer, Peak};

/// Packets and bytes that wait, to leave in any order.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    packets: usize,
    bytes: u64,
    integral: Integral,
    most_packets: Peak,
    most_bytes: Peak,
}

impl Tally {
    #[inline]
    pub(super) fn arrive(&mut self, len: usize, now: Time) {
        self.integral.arrive(len, now);
        self.packets += 1;
        self.bytes += len as u64;
        self.most_packets.note(self.packets as u64);
        self.most_bytes.note(self.bytes);
    }

    #[inline]
    pub(super) fn leave(&mut self, len: usize, now: Time) {
        self.integral.leave(len, now);
        self.packets -= 1;
        self.bytes -= len as u64;
    }

    /// Notes a change of packets and bytes of a part of the queue.
    #[inline]
    pub(super) fn change(&mut self, before: (usize, u64), after: (usize, u64), now: Time) {
        self.integral.change(before, after, now);
        self.packets = self.packets + after.0 - before.0;
        self.bytes = self.bytes + after.1 - before.1;
        self.most_packets.note(self.packets as u64);
        self.most_bytes.note(self.bytes);
    }

    #[inline]
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the mean packets and bytes that waited since the window of measures started.
    pub(crate) fn means(&self, now: Time, observer: &mut dyn Observer) -> [f64; 2] {
        self.integral.means(now, (self.packets, self.bytes), observer)
    }

    /// Reports the most packets and bytes that waited.
    pub(crate) fn observe_peaks(
        &self,
        packets: &'static Of<Gauge>,
        bytes: &'static Of<Gauge>,
        observer: &mut dyn Observer,
    ) {
        self.most_packets.observe(packets, self.packets as u64, observer);
        self.observe_most_bytes(bytes, observer);
    }

    /// Reports the most bytes that waited.
    pub(super) fn observe_most_bytes(&self, metric: &'static Of<Gauge>, observer: &mut dyn Observer) {
        self.most_bytes.observe(metric, self.bytes, observer);
    }

    /// Reports how much waits, and how much did in the mean and at most.
    pub(super) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        observer.gauge(&metrics::QUEUE, self.packets as f64);
        observer.gauge(&metrics::QUEUE_BYTES, self.bytes as f64);
        observe_means(self.means(now, observer), observer);
        self.observe_peaks(&metrics::QUEUE_MAX, &metrics::QUEUE_MAX_BYTES, observer);
    }
}

/// Reports the mean packets and bytes of a queue.
pub(super) fn observe_means([packets, bytes]: [f64; 2], observer: &mut dyn Observer) {
    observer.gauge(&metrics::QUEUE_MEAN, packets);
    observer.gauge(&metrics::QUEUE_MEAN_BYTES, bytes);
}
