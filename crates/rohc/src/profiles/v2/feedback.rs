//! Feedback of the profiles (RFC 5225 6.9).

use crate::framework::crc::CRC8;
use crate::framework::feedback::{Acknowledgement, Queue, option};
use crate::framework::frame::Cid;

/// Bits of the acknowledgement number in FEEDBACK-2.
const NUMBER_BITS: u32 = 14;
/// Option type of the clock resolution (RFC 5225 6.9.2.4).
const CLOCK_RESOLUTION: u8 = 10;

/// A parsed FEEDBACK-1 or FEEDBACK-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    pub(super) kind: Acknowledgement,
    /// Low bits of the acknowledged master sequence number, and how many they are. `None` with ACKNUMBER-NOT-VALID.
    pub(super) number: Option<(u16, u32)>,
    pub(super) reject: bool,
    pub(super) context_memory: bool,
    pub(super) clock_ms: Option<u8>,
}

impl Feedback {
    const fn ack(number: u16, bits: u32) -> Self {
        Self {
            kind: Acknowledgement::Ack,
            number: Some((number, bits)),
            reject: false,
            context_memory: false,
            clock_ms: None,
        }
    }

    /// Parses the field `field`, the end of `data`. `None` when it is malformed, has an unknown option, or fails its CRC.
    pub(super) fn parse(data: &[u8], field: &[u8]) -> Option<Self> {
        match *field {
            [number] => Some(Self::ack(u16::from(number), 8)),
            [first, second, crc, ref options @ ..] => {
                let crc_at = data.len() - options.len() - 1;
                let before = CRC8.update(CRC8.start(), &data[..crc_at]);
                let computed = CRC8.update(CRC8.update(before, &[0]), options);
                let mut feedback = Self::ack(u16::from_be_bytes([first & 0x3f, second]), NUMBER_BITS);
                feedback.kind = match first >> 6 {
                    0 => Acknowledgement::Ack,
                    1 => Acknowledgement::Nack,
                    2 => Acknowledgement::StaticNack,
                    _ => return None,
                };
                feedback.options(options).filter(|()| computed == crc)?;
                Some(feedback)
            }
            _ => None,
        }
    }

    fn options(&mut self, mut options: &[u8]) -> Option<()> {
        let mut seen = 0u16;
        while let [head, rest @ ..] = options {
            let (kind, (value, behind)) = (head >> 4, rest.split_at_checked(usize::from(head & 0x0f))?);
            if seen >> kind & 1 == 1 {
                return None;
            }
            seen |= 1 << kind;
            match (kind, value) {
                (option::REJECT, []) => self.reject = true,
                (option::SN_NOT_VALID, []) => self.number = None,
                (option::CONTEXT_MEMORY, []) => self.context_memory = true,
                (CLOCK_RESOLUTION, [clock]) => self.clock_ms = Some(*clock),
                _ => return None,
            }
            options = behind;
        }
        Some(())
    }
}

/// Appends FEEDBACK-2 to `queue`. Without `msn` no header is acknowledged; `clock_ms` adds the clock resolution.
pub(super) fn send(
    queue: &mut Queue,
    cid: Cid,
    kind: Acknowledgement,
    msn: Option<u16>,
    clock_ms: Option<u8>,
) {
    let kind = match kind {
        Acknowledgement::Ack => 0,
        Acknowledgement::Nack => 1,
        Acknowledgement::StaticNack => 2,
    };
    let [high, low] = msn.unwrap_or(0).to_be_bytes();
    let mut field = [kind << 6 | high & 0x3f, low, 0, 0, 0, 0];
    let mut len = 3;
    if msn.is_none() {
        field[len] = option::SN_NOT_VALID << 4;
        len += 1;
    }
    if let Some(clock) = clock_ms {
        field[len..len + 2].copy_from_slice(&[CLOCK_RESOLUTION << 4 | 1, clock]);
        len += 2;
    }
    queue.push(cid, &field[..len], Some(2));
}

/// Appends the refusal of a flow for lack of room to `queue`.
pub(super) fn reject(queue: &mut Queue, cid: Cid) {
    queue.push(cid, &[2 << 6, 0, 0, option::REJECT << 4, option::SN_NOT_VALID << 4], Some(2));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::config::CidSpace;
    use crate::framework::frame::{PacketStart, front};
    use alloc::vec::Vec;

    #[test]
    fn what_is_sent_is_understood_and_protected() {
        for kind in [Acknowledgement::Ack, Acknowledgement::Nack, Acknowledgement::StaticNack] {
            for (msn, clock) in
                [(None, None), (Some(0x1234), Some(10)), (None, Some(0)), (Some(0xffff), None)]
            {
                let (mut queue, mut out) = (Queue::default(), Vec::new());
                let cids = CidSpace::Small { max_cid: 15 };
                send(&mut queue, Cid { cids, cid: 3 }, kind, msn, clock);
                queue.drain_into(&mut out);
                let Ok(PacketStart::Feedback { data, rest: [] }) = front(&out) else { panic!("one element") };
                let mut data = data.to_vec();
                let parsed = Feedback::parse(&data, &data[1..]).expect("parses");
                assert_eq!((parsed.kind, parsed.clock_ms), (kind, clock));
                assert_eq!(parsed.number, msn.map(|msn| (msn & 0x3fff, 14)));
                data[2] ^= 4;
                assert_eq!(Feedback::parse(&data, &data[1..]), None);
            }
        }
    }

    #[test]
    fn unknown_and_repeated_options_discard_the_element() {
        let parse = |options: &[u8]| {
            let mut data = Vec::from([0x00, 0x11, 0x00]);
            data.extend_from_slice(options);
            data[2] = CRC8.of(&data);
            Feedback::parse(&data, &data)
        };
        assert!(parse(&[0x20]).is_some_and(|feedback| feedback.reject));
        assert!(parse(&[0x90, 0xa1, 7]).is_some_and(|feedback| feedback.clock_ms == Some(7)));
        for discarded in [&[0x20, 0x20][..], &[0x41, 0], &[0x10], &[0xf0], &[0xa0], &[0xa1], &[0x30, 0x30]] {
            assert_eq!(parse(discarded), None, "{discarded:02x?}");
        }
    }
}
