//! The continuity counter of one PID (ISO/IEC 13818-1, section 2.4.3.3).

use super::{Packet, Pid};

/// Relation of a packet to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// First packet, packet after a signalled discontinuity, or one without a counter.
    Unknown,
    /// The next one.
    Next,
    /// The same one again.
    Duplicate,
    /// Packets in between were lost.
    Gap,
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
    /// Duplicate packet.
    Duplicate,
}

/// Follows the continuity counter of one PID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continuity {
    last: Option<u8>,
}

impl Continuity {
    /// Records a packet. Do not pass one with a transport error, whose counter may be wrong: call
    /// [`Continuity::forget`].
    #[inline]
    pub fn follow<T: AsRef<[u8]>>(&mut self, packet: &Packet<T>) -> Step {
        if !packet.has_payload() || packet.pid() == Pid::NULL {
            return Step::Unknown;
        }
        if packet.is_discontinuous() {
            self.forget();
        }
        let now = packet.continuity();
        match self.last.replace(now) {
            None => Step::Unknown,
            Some(last) if last == now => Step::Duplicate,
            Some(last) if (last + 1) & 0x0f == now => Step::Next,
            Some(_) => Step::Gap,
        }
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
            Step::Duplicate => Err(Refusal::Duplicate),
            step => Ok(step == Step::Gap),
        }
    }

    /// Accepts the next packet without a check.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
