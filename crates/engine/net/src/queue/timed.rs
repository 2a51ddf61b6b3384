//! Packets that wait with the instant of their arrival, for disciplines that control delay.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};

use crate::{Packet, ledger};

/// Packets in the order in which they came, each with its arrival.
///
/// A discipline may add a note.
#[derive(Debug)]
pub(super) struct Timed<N = ()> {
    packets: VecDeque<(Time, Packet, N)>,
    bytes: u64,
}

impl<N> Default for Timed<N> {
    fn default() -> Timed<N> {
        Timed { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<N> Drop for Timed<N> {
    fn drop(&mut self) {
        ledger::as_waiting(|| self.packets.clear());
    }
}

impl Timed {
    #[inline]
    pub(super) fn push(&mut self, packet: Packet, now: Time) {
        self.push_noted(packet, now, ());
    }

    /// Removes the first packet. Its sojourn time, from arrival to now, is returned with it.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, Span)> {
        self.pop_noted(now).map(|(packet, sojourn, ())| (packet, sojourn))
    }
}

impl<N> Timed<N> {
    #[inline]
    pub(super) fn push_noted(&mut self, packet: Packet, now: Time, note: N) {
        self.bytes += packet.len() as u64;
        self.packets.push_back((now, packet, note));
    }

    /// Removes the first packet, with its sojourn time and its note.
    #[inline]
    pub(super) fn pop_noted(&mut self, now: Time) -> Option<(Packet, Span, N)> {
        let (arrival, packet, note) = self.packets.pop_front()?;
        self.bytes -= packet.len() as u64;
        Some((packet, now.since(arrival), note))
    }

    /// Returns the time that the first packet has waited; zero of none.
    pub(super) fn age(&self, now: Time) -> Span {
        self.packets.front().map_or(Span::ZERO, |(arrival, ..)| now.since(*arrival))
    }

    pub(super) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
