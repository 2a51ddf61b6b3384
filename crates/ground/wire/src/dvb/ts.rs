//! MPEG-2 transport stream (ISO/IEC 13818-1, ITU-T H.222.0): packets of 188 bytes. Their adaptation field,
//! PCR, continuity counter, and NULL packets.
//!
//! Not here: PES, and descrambling. A scrambled packet is a packet, but [`Packet::payload`] refuses it.

mod adaptation;
mod continuity;
mod datagram;
mod framer;
mod packer;
#[cfg(test)]
mod tests;

use std::fmt;

pub use adaptation::{Adaptation, Pcr};
pub use continuity::{Continuity, Refusal, Step};
pub use datagram::{MAX_DATAGRAM_PACKETS, RTP_PAYLOAD_TYPE, Unpacker, UnpackerCounts};
pub use framer::Framer;
pub use packer::Method;
pub(crate) use packer::Packer;

use crate::bytes::be16;
use crate::{Error, Layer};

/// Length in bytes of a packet.
pub const PACKET_LEN: usize = 188;
/// Length in bytes of a packet's header, adaptation field not counted.
pub const HEADER_LEN: usize = 4;
/// Length in bytes of the payload of a packet without adaptation field.
pub const PAYLOAD_LEN: usize = PACKET_LEN - HEADER_LEN;
/// The first byte of each packet.
pub const SYNC: u8 = 0x47;
/// Value of unused payload bytes.
pub const STUFFING: u8 = 0xff;

/// A packet that means nothing, to keep the rate of a multiplex constant.
pub const NULL_PACKET: [u8; PACKET_LEN] = null_packet();

const fn null_packet() -> [u8; PACKET_LEN] {
    let mut packet = [STUFFING; PACKET_LEN];
    packet[0] = SYNC;
    packet[1] = 0x1f;
    packet[2] = 0xff;
    packet[3] = 0x10;
    packet
}

/// A packet identifier: which of the multiplex's streams a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(u16);

#[allow(missing_docs, reason = "the names are the standard's")]
impl Pid {
    pub const PAT: Pid = Pid(0);
    pub const CAT: Pid = Pid(1);
    pub const NIT: Pid = Pid(0x10);
    pub const SDT: Pid = Pid(0x11);
    pub const NULL: Pid = Pid(0x1fff);
}

impl Pid {
    /// Creates a PID by its number; `None` above 0x1fff.
    pub const fn new(number: u16) -> Option<Pid> {
        if number > Pid::NULL.0 { None } else { Some(Pid(number)) }
    }

    /// Returns the number, 13 bits.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the PID in the low 13 bits of a field. The upper bits are ignored.
    #[inline]
    pub(crate) const fn from_low_bits(field: u16) -> Pid {
        Pid(field & Pid::NULL.0)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A view of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view of the packet at the start of `buffer`.
    ///
    /// # Errors
    /// Returns an error if it is truncated; `Malformed` without sync byte, with the reserved adaptation field
    /// control 00, or with an adaptation field longer or shorter than a packet with or without payload has
    /// room for. Behind a transport error indicator nothing but the sync byte is looked at, for anything may
    /// be wrong there.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        let have = buffer.as_ref().len();
        if have < PACKET_LEN {
            return Err(Error::truncated(Layer::Ts, 0, PACKET_LEN, have));
        }
        let packet = Packet { buffer };
        if packet.bytes()[0] != SYNC {
            return Err(Error::malformed(Layer::Ts, 0, "no sync byte"));
        }
        if !packet.has_error() {
            packet.check_adaptation()?;
        }
        Ok(packet)
    }

    #[inline]
    fn check_adaptation(&self) -> Result<(), Error> {
        match (self.has_adaptation(), self.has_payload()) {
            (false, true) => Ok(()),
            (false, false) => Err(Error::malformed(Layer::Ts, 3, "reserved adaptation field control")),
            (true, has_payload) => adaptation::check_len(self.bytes()[HEADER_LEN], has_payload),
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns `true` if a demodulator marked the packet as damaged beyond repair
    /// (transport_error_indicator).
    #[inline]
    pub fn has_error(&self) -> bool {
        self.bytes()[1] & 0x80 != 0
    }

    /// Returns `true` if a section, SNDU or PES packet starts in the payload (payload_unit_start_indicator,
    /// PUSI).
    #[inline]
    pub fn unit_start(&self) -> bool {
        self.bytes()[1] & 0x40 != 0
    }

    /// Returns `true` if the packet goes before others of its PID.
    #[inline]
    pub fn has_priority(&self) -> bool {
        self.bytes()[1] & 0x20 != 0
    }

    /// Packet identifier.
    #[inline]
    pub fn pid(&self) -> Pid {
        Pid::from_low_bits(be16(self.bytes(), 1))
    }

    /// Returns the two scrambling control bits, 0 if the payload is in clear.
    #[inline]
    pub fn scrambling(&self) -> u8 {
        self.bytes()[3] >> 6
    }

    /// Returns `true` if there is an adaptation field.
    #[inline]
    pub fn has_adaptation(&self) -> bool {
        self.bytes()[3] & 0x20 != 0
    }

    /// Returns `true` if there is a payload.
    #[inline]
    pub fn has_payload(&self) -> bool {
        self.bytes()[3] & 0x10 != 0
    }

    /// Returns the continuity counter, 4 bits.
    #[inline]
    pub fn continuity(&self) -> u8 {
        self.bytes()[3] & 0x0f
    }

    /// Length in bytes of header and adaptation field.
    fn header_len(&self) -> usize {
        if self.has_adaptation() {
            HEADER_LEN + 1 + usize::from(self.bytes()[HEADER_LEN])
        } else {
            HEADER_LEN
        }
    }

    /// Returns the adaptation field, if there is one.
    ///
    /// # Errors
    /// Returns an error if a part of it does not fit its length, or a clock reference is none; behind a
    /// transport error indicator.
    pub fn adaptation(&self) -> Result<Option<Adaptation<'_>>, Error> {
        self.check_error()?;
        if !self.has_adaptation() {
            return Ok(None);
        }
        Adaptation::parse(&self.bytes()[HEADER_LEN..self.header_len()]).map(Some)
    }

    /// Returns `true` if the packet says that the continuity counter may jump here (discontinuity_indicator).
    pub fn is_discontinuous(&self) -> bool {
        let bytes = self.bytes();
        !self.has_error()
            && self.has_adaptation()
            && bytes[HEADER_LEN] > 0
            && bytes[HEADER_LEN + 1] & 0x80 != 0
    }

    /// Returns the payload, empty if there is none.
    ///
    /// # Errors
    /// `Unsupported` if it is scrambled; `Malformed` behind a transport error indicator.
    pub fn payload(&self) -> Result<&[u8], Error> {
        self.check_error()?;
        if self.scrambling() != 0 {
            return Err(Error::unsupported(Layer::Ts, 3, "scrambled payload"));
        }
        Ok(if self.has_payload() { &self.bytes()[self.header_len()..PACKET_LEN] } else { &[] })
    }

    /// Returns the payload as it was sent, in clear or scrambled.
    ///
    /// It is empty behind a transport error indicator.
    #[inline]
    pub(crate) fn sent_payload(&self) -> &[u8] {
        let has_any = self.has_payload() && !self.has_error();
        if has_any { &self.bytes()[self.header_len()..PACKET_LEN] } else { &[] }
    }

    fn check_error(&self) -> Result<(), Error> {
        if self.has_error() {
            return Err(Error::malformed(Layer::Ts, 1, "transport error indicated"));
        }
        Ok(())
    }
}

/// A packet's header and adaptation field as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// transport_error_indicator.
    pub has_error: bool,
    /// payload_unit_start_indicator.
    pub unit_start: bool,
    /// transport_priority.
    pub has_priority: bool,
    /// Packet identifier.
    pub pid: Pid,
    /// Scrambling control, two bits.
    pub scrambling: u8,
    /// Continuity counter, four bits.
    pub continuity: u8,
    /// Adaptation field.
    pub adaptation: Option<Adaptation<'a>>,
    /// Set if there is a payload. Without one there is an adaptation field, of 183 bytes behind its length.
    pub has_payload: bool,
}

impl<'a> Repr<'a> {
    /// Creates a header in front of 184 bytes of payload.
    pub const fn new(pid: Pid, continuity: u8) -> Repr<'a> {
        Repr {
            has_error: false,
            unit_start: false,
            has_priority: false,
            pid,
            scrambling: 0,
            continuity,
            adaptation: None,
            has_payload: true,
        }
    }

    /// Reads the header of a checked packet.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::adaptation`].
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Result<Repr<'a>, Error> {
        Ok(Repr {
            has_error: packet.has_error(),
            unit_start: packet.unit_start(),
            has_priority: packet.has_priority(),
            pid: packet.pid(),
            scrambling: packet.scrambling(),
            continuity: packet.continuity(),
            adaptation: packet.adaptation()?,
            has_payload: packet.has_payload(),
        })
    }

    /// Length in bytes of header and adaptation field; the payload is the rest of 188.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.adaptation.map_or(0, |adaptation| adaptation.buffer_len())
    }

    /// Writes header and adaptation field at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`], a value does not fit its field, or the adaptation field's length
    /// is not one that a packet with or without payload has.
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.scrambling < 4 && self.continuity < 16, "a field of the TS header is too large");
        buffer[..HEADER_LEN].copy_from_slice(&self.header());
        match &self.adaptation {
            Some(adaptation) => {
                adaptation::check_len(adaptation.len_bytes, self.has_payload)
                    .expect("adaptation field's length");
                adaptation.emit(&mut buffer[HEADER_LEN..]);
            }
            None => assert!(self.has_payload, "a TS packet has an adaptation field or a payload"),
        }
    }

    fn header(&self) -> [u8; HEADER_LEN] {
        let flags = u16::from(self.has_error) << 15
            | u16::from(self.unit_start) << 14
            | u16::from(self.has_priority) << 13;
        let [high, low] = (flags | self.pid.0).to_be_bytes();
        let control = u8::from(self.adaptation.is_some()) << 5 | u8::from(self.has_payload) << 4;
        [SYNC, high, low, self.scrambling << 6 | control | self.continuity]
    }
}

/// Adds ticks of 27 MHz to the clock reference of a delayed packet. Unchanged if it has none or cannot be
/// read.
pub fn restamp(packet: &mut [u8; PACKET_LEN], ticks: u64) {
    let clock = Packet::new_checked(&*packet).ok().and_then(|packet| packet.adaptation().ok()??.pcr);
    if let Some(clock) = clock {
        // The first part of an adaptation field, behind length and flags.
        packet[HEADER_LEN + 2..][..Pcr::LEN].copy_from_slice(&clock.plus(ticks).bytes());
    }
}

/// Returns the offset of the next packet in a byte stream of unknown framing. The first offset of a whole
/// packet from which sync bytes are 188 bytes apart, five of them or as many as there are.
pub fn find_sync(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(PACKET_LEN)?;
    (0..=last).find(|&at| bytes[at..].iter().step_by(PACKET_LEN).take(5).all(|&byte| byte == SYNC))
}
