//! The continuity counter of one PID (ISO/IEC 13818-1, section 2.4.3.3).

use super::{Packet, Pid};

/// How a packet follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first one, one after a jump that was announced, or one that the counter says nothing of: without payload, or
    /// of the NULL PID.
    Unknown,
    /// The next one.
    Next,
    /// The same one again.
    Duplicate,
    /// Packets in between were lost.
    Gap,
}

/// Why a packet's payload is not to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has a transport error indicator.
    TransmissionError,
    /// It is scrambled.
    Scrambled,
    /// It has none.
    NoPayload,
    /// It came before.
    Duplicate,
}

/// Follows the continuity counter of one PID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continuity {
    last: Option<u8>,
}

impl Continuity {
    /// Takes in a packet. One with a transport error is not to be shown here: its counter may be wrong, so
    /// [`Continuity::forget`] instead.
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

    /// Takes in any packet and says whether its payload is to be looked at, and if so, whether packets before it were lost.
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

    /// Takes the next packet as it comes.
    pub fn forget(&mut self) {
        self.last = None;
    }
}
