//! Packets that wait with the instant of their arrival, for disciplines that control delay.

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};

use crate::{Packet, ledger};

/// Packets in the order in which they came, each with its arrival.
#[derive(Debug, Default)]
pub(super) struct Timed {
    packets: VecDeque<(Time, Packet)>,
    bytes: u64,
}

impl Drop for Timed {
    fn drop(&mut self) {
        ledger::as_waiting(|| self.packets.clear());
    }
}

impl Timed {
    #[inline]
    pub(super) fn push(&mut self, packet: Packet, now: Time) {
        self.bytes += packet.len() as u64;
        self.packets.push_back((now, packet));
    }

    /// Removes the first packet. Its sojourn time, from arrival to now, is returned with it.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, Span)> {
        let (arrival, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len() as u64;
        Some((packet, now.since(arrival)))
    }

    pub(super) fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
