//! Marks of speech payloads: the time of sending, with its clock.
//!
//! They are in place of the properties that speech has in scenarios.

use bentpipe_rtp::Mark;
use bentpipe_units::{Span, Time};
use bentpipe_voice::call::exchange::{Sound, Source};
use bentpipe_voice::call::{Settings, Spoken};
use bentpipe_voice::emodel::Impairment;
use bentpipe_wire::rtp;

/// Writer and reader of marks.
pub(crate) struct Marks {
    /// Voice of the phone.
    pub(crate) settings: Settings,
    /// Nanoseconds since 1970 at time 0.
    pub(crate) origin_ns: u64,
    /// Identifier of this machine.
    pub(crate) machine: u32,
    /// Bound of the error of other machines' clocks. Default: they are not believed.
    pub(crate) clock_error: Option<Span>,
}

/// Clock that the time in a packet is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Clock of this machine.
    Own,
    /// Clock of another machine with a stated error.
    Stated,
    /// Clock of another machine, or none.
    Unknown,
}

impl Marks {
    /// Returns the phone's time at a time of the day.
    pub(crate) fn time(&self, at_ns: u64) -> Time {
        Time::from_nanos(at_ns.saturating_sub(self.origin_ns))
    }

    /// Writes the mark of sending over the properties of speech, and returns its time.
    pub(crate) fn write(&self, bytes: &mut [u8]) -> Option<u64> {
        let (payload_type, len) = described(bytes)?;
        if self.settings.is_noise(payload_type, len) {
            return None;
        }
        let payload = &mut bytes[rtp::HEADER_LEN..];
        let mouth = Spoken::parse(payload).mouth;
        payload.fill(0);
        let sent_ns = self.origin_ns + (mouth + self.settings.held()).as_nanos();
        Mark::new(self.machine, sent_ns).emit(payload);
        Some(sent_ns)
    }

    /// Returns the time of sending in a payload that this side sent.
    ///
    /// `first_sent_ns` is that of the first packet of its call.
    ///
    /// Packets of a call are whole intervals apart, to the nanosecond. Those of another call on this machine are not.
    pub(crate) fn returned(&self, payload: &[u8], first_sent_ns: Option<u64>) -> Option<u64> {
        let (first, sent) = (first_sent_ns?, Mark::parse(payload, self.machine)?.sent_ns);
        let since = sent.checked_sub(first)?;
        since.is_multiple_of(self.settings.interval().as_nanos()).then_some(sent)
    }

    /// Writes the properties of speech over its mark, and returns whose clock that has.
    ///
    /// Speech of an unknown clock is taken as sent when it arrived: its losses count, and its delays do not.
    pub(crate) fn read(&self, bytes: &mut Vec<u8>, arrived: Time) -> Option<Whose> {
        let (payload_type, len) = described(bytes)?;
        if self.settings.is_noise(payload_type, len) {
            return None;
        }
        let payload = bytes.get(rtp::HEADER_LEN..)?;
        let at_ns = self.origin_ns + arrived.as_nanos();
        let own = Mark::parse(payload, self.machine).map(|mark| (mark.sent_ns, Whose::Own));
        let stated = || {
            let mark = Mark::parse_any(payload, at_ns).filter(|_| self.clock_error.is_some())?;
            Some((mark.sent_ns, Whose::Stated))
        };
        let (sent_ns, of) = own.or_else(stated).unwrap_or((at_ns, Whose::Unknown));
        let before = self.origin_ns + self.settings.held().as_nanos();
        let mouth = Time::from_nanos(sent_ns.saturating_sub(before));
        let impairment = Some(Impairment { ie: 0.0, bpl: 1.0 });
        let sound = Sound { rooms: 1, speech: Some(Source { is_concealed: false, impairment }) };
        bytes.resize(bytes.len().max(rtp::HEADER_LEN + Spoken::LEN), 0);
        Spoken { sound, mouth, level: 0 }.emit(&mut bytes[rtp::HEADER_LEN..]);
        Some(of)
    }
}

/// Returns the payload type and payload length of a plain RTP packet.
fn described(bytes: &[u8]) -> Option<(u8, usize)> {
    let packet = rtp::Packet::new_checked(bytes).ok()?;
    let len = packet.payload().len();
    (len + rtp::HEADER_LEN == bytes.len()).then(|| (packet.payload_type(), len))
}

#[cfg(test)]
mod tests {
    use bentpipe_telephony::PhoneVoice;

    use super::*;

    const MS: u64 = 1_000_000;
    const ORIGIN_NS: u64 = 1_800_000_000 * 1000 * MS;

    fn marks(clock_error: Option<Span>) -> Marks {
        let settings = PhoneVoice::default().settings().expect("possible");
        Marks { settings, origin_ns: ORIGIN_NS, machine: 3, clock_error }
    }

    /// Returns a packet of G.711 with a mark, 100 ms before time 1 s.
    fn packet(machine: u32) -> Vec<u8> {
        let mut bytes = vec![0; rtp::HEADER_LEN + 160];
        rtp::Repr::new(8, 1, 160, 7).emit(&mut bytes);
        Mark::new(machine, ORIGIN_NS + 900 * MS).emit(&mut bytes[rtp::HEADER_LEN..]);
        bytes
    }

    fn read(marks: &Marks, bytes: &mut Vec<u8>) -> Option<(Whose, u64)> {
        let whose = marks.read(bytes, Time::from_nanos(1000 * MS))?;
        Some((whose, Spoken::parse(&bytes[rtp::HEADER_LEN..]).mouth.as_nanos() / MS))
    }

    #[test]
    fn only_known_clocks_are_believed() {
        let alone = marks(None);
        // A packet of 20 ms left 100 ms ago.
        assert_eq!(read(&alone, &mut packet(3)), Some((Whose::Own, 880)));
        assert_eq!(read(&alone, &mut packet(4)), Some((Whose::Unknown, 980)));
        let stated = marks(Some(Span::from_millis(1)));
        assert_eq!(read(&stated, &mut packet(4)), Some((Whose::Stated, 880)));
        // Speech of a phone that has no marks is no time of today.
        let mut foreign = packet(4);
        foreign[rtp::HEADER_LEN..].fill(0xd5);
        assert_eq!(read(&stated, &mut foreign), Some((Whose::Unknown, 980)));
    }

    #[test]
    fn own_payloads_are_known_by_their_times() {
        let marks = marks(None);
        let first = Some(ORIGIN_NS + 700 * MS + 1);
        let payload = |machine, sent_ns| {
            let mut payload = [0; 160];
            Mark::new(machine, sent_ns).emit(&mut payload);
            payload
        };
        let own = ORIGIN_NS + 900 * MS + 1;
        assert_eq!(marks.returned(&payload(3, own), first), Some(own));
        assert_eq!(marks.returned(&payload(3, own), None), None);
        for other in [payload(3, own + 1), payload(4, own), payload(3, ORIGIN_NS + 680 * MS + 1)] {
            assert_eq!(marks.returned(&other, first), None);
        }
    }

    #[test]
    fn what_is_no_speech_stays_as_it_is() {
        let marks = marks(None);
        let mut noise = vec![0; rtp::HEADER_LEN + 1];
        rtp::Repr::new(13, 1, 160, 7).emit(&mut noise);
        for bytes in [Vec::new(), vec![0x80; 11], vec![0; 40], noise] {
            let mut after = bytes.clone();
            assert_eq!(read(&marks, &mut after), None, "{bytes:?}");
            assert_eq!(after, bytes);
        }
        // Speech that is too short for its properties gets room.
        let mut short = packet(3);
        short.truncate(rtp::HEADER_LEN + 5);
        assert!(read(&marks, &mut short).is_some() && short.len() == rtp::HEADER_LEN + Spoken::LEN);
    }
}
