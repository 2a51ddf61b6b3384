//! Mixes that wait for their encoder's look-ahead.

use std::collections::VecDeque;

use bentpipe_net::Packet;
use bentpipe_units::Time;

/// Packets in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Time, u32, Packet)>);

impl Waiting {
    /// Adds a packet to a member.
    pub(super) fn push(&mut self, at: Time, member: u32, packet: Packet) {
        self.0.push_back((at, member, packet));
    }

    /// Returns the next packet that is due, and its member.
    pub(super) fn pop(&mut self, now: Time) -> Option<(u32, Packet)> {
        if self.deadline() > now {
            return None;
        }
        self.0.pop_front().map(|(_, member, packet)| (member, packet))
    }

    pub(super) fn deadline(&self) -> Time {
        self.0.front().map_or(Time::NEVER, |(at, ..)| *at)
    }
}
