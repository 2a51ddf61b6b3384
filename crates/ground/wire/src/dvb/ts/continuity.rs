//! The continuity counter of one PID.
//!
//! ISO/IEC 13818-1, section 2.4.3.3; ETSI TR 101 290, item 1.4.

use super::{PACKET_LEN, Packet, Pid};

/// Relation of a packet to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// First packet, packet after a signalled discontinuity, or one without a counter.
    Unknown,
    /// The next one.
    Next,
    /// The same one for the second time, which is legal.
    Duplicate,
    /// The same one for the third time or more often.
    Repeated,
    /// Packets in between were lost. The counter is another one, or the same one comes with another payload.
    Gap,
}

impl Step {
    /// Returns `true` if the step is a Continuity_count_error of TR 101 290.
    pub const fn is_error(self) -> bool {
        matches!(self, Step::Gap | Step::Repeated)
    }

    /// Returns `true` if the payload came before.
    pub const fn is_repeat(self) -> bool {
        matches!(self, Step::Duplicate | Step::Repeated)
    }
}

/// Reason to ignore a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Transport error indicator set.
    TransmissionError,
    /// Scrambled payload.
    Scrambled,
    /// No payload.
    NoPayload,
    /// Packet that came before, however often.
    Duplicate,
}

/// Packet that the next one is compared with.
#[derive(Clone, Copy, Debug)]
struct Last {
    counter: u8,
    /// Set once it came twice.
    is_doubled: bool,
    /// Bytes of the payload.
    len: u8,
    payload: [u8; PACKET_LEN],
}

impl Last {
    /// Returns `true` if the packet is this one again. Clock references of a duplicate differ, so payloads count.
    fn is_repeated_by(&self, counter: u8, payload: &[u8]) -> bool {
        self.counter == counter && self.payload[..self.len.into()] == *payload
    }
}

/// Follows the continuity counter of one PID.
#[derive(Clone, Debug, Default)]
pub struct Continuity {
    last: Option<Last>,
}

impl Continuity {
    /// Records a packet. Do not pass one with a transport error, whose counter may be wrong: call
    /// [`Continuity::forget`].
    #[inline]
    pub fn follow<T: AsRef<[u8]>>(&mut self, packet: &Packet<T>) -> Step {
        if !packet.has_payload() || packet.pid() == Pid::NULL {
            return Step::Unknown;
        }
        let (counter, payload) = (packet.continuity(), packet.sent_payload());
        let step = match &mut self.last {
            None => Step::Unknown,
            Some(last) if last.is_repeated_by(counter, payload) => {
                let step = if last.is_doubled { Step::Repeated } else { Step::Duplicate };
                last.is_doubled = true;
                return step;
            }
            // A duplicate may repeat the announcement of a jump.
            Some(_) if packet.is_discontinuous() => Step::Unknown,
            Some(last) if (last.counter + 1) & 0x0f == counter => Step::Next,
            Some(_) => Step::Gap,
        };
        self.keep(counter, payload);
        step
    }

    #[inline]
    fn keep(&mut self, counter: u8, payload: &[u8]) {
        let empty = Last { counter, is_doubled: false, len: 0, payload: [0; PACKET_LEN] };
        let last = self.last.get_or_insert(empty);
        (last.counter, last.is_doubled, last.len) = (counter, false, payload.len() as u8);
        last.payload[..payload.len()].copy_from_slice(payload);
    }

    /// Records any packet and returns whether its payload is usable and follows a loss.
    ///
    /// # Errors
    /// Why it is not.
    #[inline]
    pub fn admit<T: AsRef<[u8]>>(&mut self, packet: &Packet<T>) -> Result<bool, Refusal> {
        if packet.has_error() {
            self.forget();
            return Err(Refusal::TransmissionError);
        }
        if packet.scrambling() != 0 {
            return Err(Refusal::Scrambled);
        }
        if !packet.has_payload() {
            return Err(Refusal::NoPayload);
        }
        match self.follow(packet) {
            Step::Duplicate | Step::Repeated => Err(Refusal::Duplicate),
            step => Ok(step == Step::Gap),
        }
    }

    /// Accepts the next packet without a check.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
