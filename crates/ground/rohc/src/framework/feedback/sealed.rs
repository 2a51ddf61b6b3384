//! FEEDBACK-1, and FEEDBACK-2 with CRC and 14-bit number (RFC 5225 6.9, RFC 6846 8.3).

use super::{Acknowledgement, Queue, acknowledgement, option};
use crate::framework::crc::CRC8;
use crate::framework::frame::Cid;

/// Bits of the number in FEEDBACK-2.
const NUMBER_BITS: u32 = 14;

/// A parsed FEEDBACK-1 or FEEDBACK-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feedback {
    pub(crate) kind: Acknowledgement,
    /// Low bits of the acknowledged master sequence number, and how many they are. `None` where none is valid.
    pub(crate) number: Option<(u16, u32)>,
    pub(crate) reject: bool,
    pub(crate) context_memory: bool,
    pub(crate) clock_ms: Option<u8>,
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

    /// Parses the field `field`, the end of `data`. `None` if it is malformed or its CRC is wrong.
    ///
    /// `read` reads an option of a type with its value, behind the types of a set (bit n: type n). `None` discards the element.
    pub(crate) fn parse(
        data: &[u8],
        field: &[u8],
        read: fn(&mut Self, u8, &[u8], u16) -> Option<()>,
    ) -> Option<Self> {
        match *field {
            [number] => Some(Self::ack(u16::from(number), 8)),
            [first, second, crc, ref options @ ..] => {
                let crc_at = data.len() - options.len() - 1;
                let before = CRC8.update(CRC8.start(), &data[..crc_at]);
                let computed = CRC8.update(CRC8.update(before, &[0]), options);
                let mut feedback = Self::ack(u16::from_be_bytes([first & 0x3f, second]), NUMBER_BITS);
                feedback.kind = acknowledgement(first >> 6)?;
                feedback.options(options, read).filter(|()| computed == crc)?;
                Some(feedback)
            }
            _ => None,
        }
    }

    fn options(
        &mut self,
        mut options: &[u8],
        read: fn(&mut Self, u8, &[u8], u16) -> Option<()>,
    ) -> Option<()> {
        let mut seen = 0u16;
        while let [head, rest @ ..] = options {
            let (kind, (value, behind)) = (head >> 4, rest.split_at_checked(usize::from(head & 0x0f))?);
            read(self, kind, value, seen)?;
            seen |= 1 << kind;
            options = behind;
        }
        Some(())
    }
}

/// Appends FEEDBACK-2 to `queue`. Without `msn` no header is acknowledged; `clock_ms` adds the clock resolution.
pub(crate) fn send(
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
        field[len..len + 2].copy_from_slice(&[option::CLOCK_RESOLUTION << 4 | 1, clock]);
        len += 2;
    }
    queue.push(cid, &field[..len], Some(2));
}

/// Appends the refusal of a flow for lack of room to `queue`.
pub(crate) fn reject(queue: &mut Queue, cid: Cid) {
    queue.push(cid, &[2 << 6, 0, 0, option::REJECT << 4, option::SN_NOT_VALID << 4], Some(2));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::framework::config::CidSpace;
    use crate::framework::frame::{PacketStart, front};
    use alloc::vec::Vec;

    /// Parses FEEDBACK-2 with the right CRC and `options`.
    pub(crate) fn parse_options(
        options: &[u8],
        parse: fn(&[u8], &[u8]) -> Option<Feedback>,
    ) -> Option<Feedback> {
        let mut data = Vec::from([0x00, 0x11, 0x00]);
        data.extend_from_slice(options);
        data[2] = CRC8.of(&data);
        parse(&data, &data)
    }

    /// Checks that `parse` understands what is sent, and that a flipped bit discards it.
    pub(crate) fn check_what_is_sent(clocks: &[Option<u8>], parse: fn(&[u8], &[u8]) -> Option<Feedback>) {
        for kind in [Acknowledgement::Ack, Acknowledgement::Nack, Acknowledgement::StaticNack] {
            for msn in [None, Some(0), Some(0x1234), Some(0xffff)] {
                for &clock in clocks {
                    let (mut queue, mut out) = (Queue::default(), Vec::new());
                    let cids = CidSpace::Small { max_cid: 15 };
                    send(&mut queue, Cid { cids, cid: 3 }, kind, msn, clock);
                    queue.drain_into(&mut out);
                    let Ok(PacketStart::Feedback { data, rest: [] }) = front(&out) else {
                        panic!("one element")
                    };
                    let mut data = data.to_vec();
                    let parsed = parse(&data, &data[1..]).expect("parses");
                    assert_eq!((parsed.kind, parsed.clock_ms), (kind, clock));
                    assert_eq!(parsed.number, msn.map(|msn| (msn & 0x3fff, 14)));
                    data[2] ^= 4;
                    assert_eq!(parse(&data, &data[1..]), None);
                }
            }
        }
    }
}
