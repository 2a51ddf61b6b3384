//! Mixes that wait for their encoder's look-ahead.

use std::collections::VecDeque;

use bentpipe_net::Packet;
use bentpipe_units::Time;

/// Packets in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Time, Packet)>);

impl Waiting {
    pub(super) fn push(&mut self, at: Time, packet: Packet) {
        self.0.push_back((at, packet));
    }

    /// Returns the next packet that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<Packet> {
        if self.deadline() > now {
            return None;
        }
        self.0.pop_front().map(|(_, packet)| packet)
    }

    pub(super) fn deadline(&self) -> Time {
        self.0.front().map_or(Time::NEVER, |(at, _)| *at)
    }
}
