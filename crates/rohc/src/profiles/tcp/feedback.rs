//! Feedback of the TCP profile (RFC 6846 8.3).

use crate::framework::crc::CRC8;
use crate::framework::feedback::{Acknowledgement, Queue, option};
use crate::framework::frame::Cid;

/// Bits of the master sequence number in FEEDBACK-2.
const MSN_BITS: u32 = 14;

/// A parsed FEEDBACK-1 or FEEDBACK-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    pub(super) kind: Acknowledgement,
    /// Low bits of the last restored MSN, and their number. `None` with MSN-NOT-VALID.
    pub(super) msn: Option<(u16, u32)>,
    pub(super) reject: bool,
    pub(super) context_memory: bool,
}

impl Feedback {
    /// Parses the field `field`, the end of `data`. `None` if it is malformed or its CRC is wrong.
    pub(super) fn parse(data: &[u8], field: &[u8]) -> Option<Self> {
        match *field {
            [msn] => Some(Self::ack(u16::from(msn), 8)),
            [first, second, crc, ref options @ ..] => {
                let crc_at = data.len() - options.len() - 1;
                let before = CRC8.update(CRC8.start(), &data[..crc_at]);
                let computed = CRC8.update(CRC8.update(before, &[0]), options);
                let mut feedback = Self::ack(u16::from_be_bytes([first & 0x3f, second]), MSN_BITS);
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

    const fn ack(msn: u16, bits: u32) -> Self {
        Self { kind: Acknowledgement::Ack, msn: Some((msn, bits)), reject: false, context_memory: false }
    }

    fn options(&mut self, mut options: &[u8]) -> Option<()> {
        let mut seen = 0u16;
        while let [head, rest @ ..] = options {
            let (kind, (value, behind)) = (head >> 4, rest.split_at_checked(usize::from(head & 0x0f))?);
            // Each at most once, and the MSN is not both valid and not.
            let is_msn = matches!(kind, option::SN | option::SN_NOT_VALID);
            let conflicts = if is_msn { 1 << option::SN | 1 << option::SN_NOT_VALID } else { 1 << kind };
            let is_known = is_msn || matches!(kind, option::REJECT | option::CONTEXT_MEMORY);
            if is_known && seen & conflicts != 0 {
                return None;
            }
            seen |= 1 << kind;
            match (kind, value) {
                (option::REJECT, _) => self.reject = true,
                (option::SN_NOT_VALID, _) => self.msn = None,
                (option::SN, [more]) => {
                    self.msn = self.msn.map(|(msn, _)| (msn << 2 | u16::from(more >> 6), 16))
                }
                (option::CONTEXT_MEMORY, _) => self.context_memory = true,
                _ => {}
            }
            options = behind;
        }
        Some(())
    }
}

/// Appends FEEDBACK-2 to `queue`. Without `msn`, nothing was restored in this context yet.
pub(super) fn send(queue: &mut Queue, cid: Cid, kind: Acknowledgement, msn: Option<u16>) {
    let kind = match kind {
        Acknowledgement::Ack => 0,
        Acknowledgement::Nack => 1,
        Acknowledgement::StaticNack => 2,
    };
    let [high, low] = msn.unwrap_or(0).to_be_bytes();
    let field = [kind << 6 | high & 0x3f, low, 0, option::SN_NOT_VALID << 4];
    let len = if msn.is_some() { 3 } else { 4 };
    queue.push(cid, &field[..len], Some(2));
}

/// Appends the refusal of a flow for lack of room to `queue`.
pub(crate) fn reject(queue: &mut Queue, cid: Cid) {
    queue.push(cid, &[2 << 6, 0, 0, option::REJECT << 4, option::SN_NOT_VALID << 4], Some(2));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::config::CidSpace;
    use crate::framework::frame::{PacketStart, front};
    use alloc::vec::Vec;

    fn sent(cid: u16, kind: Acknowledgement, msn: Option<u16>) -> Vec<u8> {
        let (mut queue, mut out) = (Queue::default(), Vec::new());
        let cids = CidSpace::Small { max_cid: 15 };
        send(&mut queue, Cid { cids, cid }, kind, msn);
        queue.drain_into(&mut out);
        let Ok(PacketStart::Feedback { data, rest: [] }) = front(&out) else { panic!("one element") };
        data.to_vec()
    }

    #[test]
    fn what_is_sent_is_understood_and_protected() {
        for kind in [Acknowledgement::Ack, Acknowledgement::Nack, Acknowledgement::StaticNack] {
            for msn in [None, Some(0), Some(0x1234), Some(0xffff)] {
                let mut data = sent(3, kind, msn);
                let parsed = Feedback::parse(&data, &data[1..]).expect("parses");
                assert_eq!((parsed.kind, parsed.msn), (kind, msn.map(|msn| (msn & 0x3fff, 14))));
                data[2] ^= 4;
                assert_eq!(Feedback::parse(&data, &data[1..]), None);
            }
        }
    }

    #[test]
    fn contradictory_and_repeated_options_discard_the_element() {
        let parse = |options: &[u8]| {
            let mut data = Vec::from([0x00, 0x11, 0x00]);
            data.extend_from_slice(options);
            data[2] = CRC8.of(&data);
            Feedback::parse(&data, &data)
        };
        assert_eq!(parse(&[0x41, 0x80]).and_then(|feedback| feedback.msn), Some((0x11 << 2 | 2, 16)));
        assert!(parse(&[0x20]).is_some_and(|feedback| feedback.reject));
        assert!(parse(&[0x90, 0xf2, 1, 2]).is_some_and(|feedback| feedback.context_memory));
        for discarded in [&[0x20, 0x20][..], &[0x30, 0x41, 0], &[0x41, 0, 0x30], &[0x90, 0x90], &[0x41]] {
            assert_eq!(parse(discarded), None, "{discarded:02x?}");
        }
    }
}
