//! Queue of TS packets that come from elsewhere.

use std::collections::VecDeque;

use bentpipe_units::Time;
use bentpipe_wire::ts::{PACKET_LEN, Packet, Pcr, Pid, restamp};

use super::TsSource;

/// Bounded queue of TS packets. Optionally adds the queueing delay to clock references.
#[derive(Clone, Debug)]
pub struct TsQueue {
    limit: usize,
    restamps: bool,
    /// Packets with their times of arrival.
    waiting: VecDeque<(Time, [u8; PACKET_LEN])>,
    sent: u64,
    dropped: u64,
}

impl TsQueue {
    /// Creates a queue of at most `limit` packets.
    pub fn new(limit: usize) -> TsQueue {
        TsQueue { limit, restamps: false, waiting: VecDeque::new(), sent: 0, dropped: 0 }
    }

    /// Enables the correction of clock references by the time that their packets waited.
    #[must_use]
    pub fn restamping(self) -> TsQueue {
        TsQueue { restamps: true, ..self }
    }

    /// Enqueues a packet and returns `false` if the queue is full. NULL packets are left out, as the multiplex has others.
    pub fn push(&mut self, now: Time, packet: &[u8; PACKET_LEN]) -> bool {
        if Packet::new_checked(packet).is_ok_and(|packet| packet.pid() == Pid::NULL) {
            return true;
        }
        let has_room = self.waiting.len() < self.limit;
        if has_room {
            self.waiting.push_back((now, *packet));
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// Returns the number of waiting packets.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of packets dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl TsSource for TsQueue {
    fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]> {
        let (came, mut packet) = self.waiting.pop_front()?;
        self.sent += 1;
        if self.restamps {
            let nanos = u128::from(at.since(came).as_nanos());
            restamp(&mut packet, (nanos * u128::from(Pcr::TICKS_PER_S) / 1_000_000_000) as u64);
        }
        Some(packet)
    }
}
