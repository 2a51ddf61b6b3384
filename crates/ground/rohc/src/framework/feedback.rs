//! Feedback: framing (RFC 3095 5.2.2), and contents of the RFC 3095 family (5.7.6).

pub(crate) mod sealed;

use alloc::vec::Vec;

use crate::framework::config::CidSpace;
use crate::framework::crc::CRC8;
use crate::framework::frame::{Cid, FEEDBACK};
use crate::framework::profile::Mode;

/// Octets of feedback that wait to be taken. More is dropped: feedback is repeated when it matters.
const MAX_WAITING_BYTES: usize = 4096;

/// Queue of complete feedback elements, with type octet and size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Vec<u8>);

impl Queue {
    /// Adds the element for `cid` whose feedback field (behind the CID) is `field`. If there is a CRC octet in it, it
    /// is at `crc_at` and gets the CRC-8 over CID and field (RFC 4815 2.3).
    pub(crate) fn push(&mut self, cid: Cid, field: &[u8], crc_at: Option<usize>) {
        if self.0.len() + field.len() + 5 > MAX_WAITING_BYTES {
            return;
        }
        let start = self.0.len();
        self.0.extend_from_slice(&[FEEDBACK, 0]);
        cid.write_in_feedback(&mut self.0);
        let field_at = self.0.len();
        self.0.extend_from_slice(field);
        if let Some(crc_at) = crc_at {
            self.0[field_at + crc_at] = 0;
            self.0[field_at + crc_at] = CRC8.of(&self.0[start + 2..]);
        }
        self.close(start);
    }

    /// Adds an element whose data (CID and feedback) came from elsewhere.
    pub(crate) fn push_data(&mut self, data: &[u8]) {
        if self.0.len() + data.len() + 2 <= MAX_WAITING_BYTES && data.len() < 256 {
            let start = self.0.len();
            self.0.extend_from_slice(&[FEEDBACK, 0]);
            self.0.extend_from_slice(data);
            self.close(start);
        }
    }

    fn close(&mut self, start: usize) {
        let len = self.0.len() - start - 2;
        if len < 8 {
            self.0[start] = FEEDBACK | len as u8;
            self.0.remove(start + 1);
        } else {
            self.0[start + 1] = len as u8;
        }
    }

    /// Returns `true` if there was anything, after moving it to the end of `out`.
    #[inline]
    pub(crate) fn drain_into(&mut self, out: &mut Vec<u8>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        out.extend_from_slice(&self.0);
        self.0.clear();
        true
    }

    /// Appends complete elements, as long as they fit the queue.
    pub(crate) fn extend(&mut self, elements: &[u8]) {
        if self.0.len() + elements.len() <= MAX_WAITING_BYTES {
            self.0.extend_from_slice(elements);
        }
    }
}

/// Appends the refusal of a flow in the format of the RFC 3095 family. It is a STATIC-NACK with REJECT (RFC 3095
/// 5.7.6.4).
pub(crate) fn push_reject(cid: Cid, mode: Mode, queue: &mut Queue) {
    let static_nack = 2 << 6 | (mode as u8) << 4;
    let options = [option::REJECT << 4, option::SN_NOT_VALID << 4, option::CRC << 4 | 1, 0];
    let field = [static_nack, 0, options[0], options[1], options[2], options[3]];
    queue.push(cid, &field, Some(5));
}

/// Returns the CID and the feedback field of feedback data (RFC 3095 5.2.2). `None` if there is no field.
pub(crate) fn split(data: &[u8], cids: CidSpace) -> Option<(u16, &[u8])> {
    let (cid, field) = match (cids.is_large(), data) {
        (true, [octet @ 0x00..=0x7f, field @ ..]) => (u16::from(*octet), field),
        (true, [high @ 0x80..=0xbf, low, field @ ..]) => (u16::from_be_bytes([high & 0x3f, *low]), field),
        (true, _) => return None,
        (false, [octet @ 0xe0..=0xef, field @ ..]) if !field.is_empty() => (u16::from(octet & 0x0f), field),
        (false, field) => (0, field),
    };
    (!field.is_empty()).then_some((cid, field))
}

/// Acknowledgement type of feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    Ack,
    Nack,
    StaticNack,
}

/// A parsed FEEDBACK-1 or FEEDBACK-2 of the RFC 3095 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feedback {
    pub(crate) kind: Acknowledgement,
    /// The mode in force or wanted; absent in FEEDBACK-1.
    pub(crate) mode: Option<Mode>,
    /// Low `sn_bits` bits of a sequence number. `None` with SN-NOT-VALID.
    pub(crate) sn: Option<(u32, u32)>,
    /// Protected by a CRC that was right.
    pub(crate) protected: bool,
    pub(crate) reject: bool,
    /// RFC 3843 3.7.
    pub(crate) context_memory: bool,
    pub(crate) clock_ms: Option<u8>,
    pub(crate) jitter: Option<u8>,
    pub(crate) loss: Option<u8>,
}

/// Option types (RFC 3095 5.7.6.3 to 5.7.6.9, RFC 3843 3.7).
pub(crate) mod option {
    pub(crate) const CRC: u8 = 1;
    pub(crate) const REJECT: u8 = 2;
    pub(crate) const SN_NOT_VALID: u8 = 3;
    pub(crate) const SN: u8 = 4;
    pub(crate) const CLOCK: u8 = 5;
    pub(crate) const JITTER: u8 = 6;
    pub(crate) const LOSS: u8 = 7;
    pub(crate) const CONTEXT_MEMORY: u8 = 9;
    /// RFC 5225 6.9.2.4.
    pub(crate) const CLOCK_RESOLUTION: u8 = 10;
}

impl Feedback {
    /// Parses the field `field`, the end of `data`. `None` if it is malformed or a CRC in it is wrong.
    pub(crate) fn parse(data: &[u8], field: &[u8]) -> Option<Self> {
        let mut feedback = Self {
            kind: Acknowledgement::Ack,
            mode: None,
            sn: None,
            protected: false,
            reject: false,
            context_memory: false,
            clock_ms: None,
            jitter: None,
            loss: None,
        };
        match field {
            [sn] => feedback.sn = Some((u32::from(*sn), 8)),
            [first, second, options @ ..] => {
                feedback.kind = acknowledgement(first >> 6)?;
                feedback.mode = Mode::from_bits(first >> 4 & 3);
                feedback.sn = Some((u32::from(first & 0x0f) << 8 | u32::from(*second), 12));
                feedback.options(data, options)?;
            }
            [] => return None,
        }
        Some(feedback)
    }

    fn options(&mut self, data: &[u8], mut options: &[u8]) -> Option<()> {
        let mut sn_valid = true;
        // The CRC is over the data with zeros in place of every CRC (RFC 3095 5.7.6.3, RFC 4815 8.6).
        let mut zeroed = Zeroed { data, crc: CRC8.start(), done: 0 };
        let mut claimed = None;
        while let [head, rest @ ..] = options {
            let (value, behind) = rest.split_at_checked(usize::from(head & 0x0f))?;
            match (head >> 4, value) {
                (option::CRC, [crc]) => {
                    zeroed.skip(data.len() - rest.len());
                    claimed = (claimed.is_none() || claimed == Some(*crc)).then_some(*crc);
                    claimed?;
                }
                (option::REJECT, _) => self.reject = true,
                (option::SN_NOT_VALID, _) => sn_valid = false,
                (option::SN, [more]) => self.more_sn(*more),
                (option::CLOCK, [clock]) => self.clock_ms = Some(*clock),
                (option::JITTER, [jitter]) => self.jitter = Some(*jitter),
                (option::LOSS, [loss]) => self.loss = Some(*loss),
                (option::CONTEXT_MEMORY, _) => self.context_memory = true,
                _ => {}
            }
            options = behind;
        }
        if let Some(claimed) = claimed {
            self.protected = true;
            (zeroed.finish() == claimed).then_some(())?;
        }
        self.sn = self.sn.filter(|_| sn_valid);
        Some(())
    }

    /// Concatenates the SN option (RFC 4815 8.5).
    fn more_sn(&mut self, more: u8) {
        if let Some((sn, bits)) = &mut self.sn {
            *sn = *sn << 8 | u32::from(more);
            *bits = (*bits + 8).min(32);
        }
    }
}

/// A CRC over data in which some octets count as zero.
struct Zeroed<'a> {
    data: &'a [u8],
    crc: u8,
    done: usize,
}

impl Zeroed<'_> {
    fn skip(&mut self, at: usize) {
        self.crc = CRC8.update(CRC8.update(self.crc, &self.data[self.done..at]), &[0]);
        self.done = at + 1;
    }

    fn finish(&self) -> u8 {
        CRC8.update(self.crc, &self.data[self.done..])
    }
}

const fn acknowledgement(bits: u8) -> Option<Acknowledgement> {
    match bits {
        0 => Some(Acknowledgement::Ack),
        1 => Some(Acknowledgement::Nack),
        2 => Some(Acknowledgement::StaticNack),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::frame::{PacketStart, front};

    const SMALL: CidSpace = CidSpace::Small { max_cid: 15 };

    /// The example of RFC 3095 5.7.6.11: ACK for SN 17, CID 8, reliable mode, in its four forms.
    #[test]
    fn the_rfcs_example() {
        let large = CidSpace::Large { max_cid: 100 };
        for (data, cids, cid, mode, bits) in [
            (&[0xe8u8, 0x30, 0x11][..], SMALL, 8, Some(Mode::Reliable), 12),
            (&[0x08, 0x11], large, 8, None, 8),
            (&[0xe8, 0x11], SMALL, 8, None, 8),
            (&[0x11], SMALL, 0, None, 8),
        ] {
            let (found, field) = split(data, cids).expect("splits");
            let feedback = Feedback::parse(data, field).expect("parses");
            assert_eq!((found, feedback.kind), (cid, Acknowledgement::Ack));
            assert_eq!((feedback.mode, feedback.sn, feedback.protected), (mode, Some((17, bits)), false));
        }
    }

    /// librohc's acknowledgements in the corpus: 0x20 0x01 (ACK, O-mode, SN 1), CRC option.
    #[test]
    fn crc_option_is_checked_and_made_as_librohc_does() {
        let data = [0x20, 0x00, 0x11, 0xe9];
        let feedback = Feedback::parse(&data, &data).expect("the CRC of another implementation is right");
        assert_eq!((feedback.protected, feedback.mode), (true, Some(Mode::Optimistic)));
        assert_eq!(Feedback::parse(&[0x20, 0x00, 0x11, 0xe8], &[0x20, 0x00, 0x11, 0xe8]), None);
        let mut queue = Queue::default();
        queue.push(Cid { cids: SMALL, cid: 0 }, &[0x20, 0x00, 0x11, 0], Some(3));
        assert_eq!(queue.0, [0xf4, 0x20, 0x00, 0x11, 0xe9]);
    }

    #[test]
    fn every_option_is_read_and_unknown_ones_are_skipped() {
        let field = [0x61, 0x02, 0x41, 0x33, 0x30, 0x20, 0x51, 9, 0x61, 8, 0x71, 7, 0x90, 0xf2, 1, 2];
        let feedback = Feedback::parse(&field, &field).expect("parses");
        assert_eq!(feedback.kind, Acknowledgement::Nack);
        assert_eq!((feedback.sn, feedback.reject, feedback.context_memory), (None, true, true));
        assert_eq!((feedback.clock_ms, feedback.jitter, feedback.loss), (Some(9), Some(8), Some(7)));
        let field = [0x01, 0x02, 0x41, 0x33, 0x41, 0x44];
        assert_eq!(Feedback::parse(&field, &field).and_then(|feedback| feedback.sn), Some((0x0102_3344, 28)));
        assert_eq!(Feedback::parse(&[0x01, 0x02, 0x42, 0x33], &[0x01, 0x02, 0x42, 0x33]), None);
        assert_eq!(Feedback::parse(&[0xc1, 0x02], &[0xc1, 0x02]), None);
    }

    #[test]
    fn long_elements_have_a_size_octet() {
        let mut queue = Queue::default();
        queue.push_data(&[5; 7]);
        queue.push_data(&[6; 8]);
        let mut out = Vec::new();
        assert!(queue.drain_into(&mut out));
        let Ok(PacketStart::Feedback { data, rest }) = front(&out) else { panic!("feedback") };
        assert_eq!(data, [5; 7]);
        let Ok(PacketStart::Feedback { data, rest: [] }) = front(rest) else { panic!("feedback") };
        assert_eq!(data, [6; 8]);
        assert!(!queue.drain_into(&mut out));
        for _ in 0..2000 {
            queue.push_data(&[1; 200]);
        }
        assert!(queue.0.len() <= MAX_WAITING_BYTES);
    }
}
