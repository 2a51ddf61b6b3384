//! Decoder: repair of datagrams that were lost. Its input is not trusted.

use std::collections::VecDeque;

use bentpipe_wire::rtp;

use super::encoder::{Parity, plain};
use super::header::{HEADER_LEN, Header};

/// Number of datagrams that are remembered: more than two matrices, and a power of two.
const WINDOW: usize = 512;

/// Maximum number of parity packets that wait for more datagrams.
const MAX_WAITING: usize = 128;

/// Maximum number of datagrams that a parity packet protects.
const MAX_PROTECTED: u8 = 100;

/// Maximum length of a datagram that is remembered.
const MAX_LEN: usize = 2048;

/// Counters of a decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Parity packets.
    pub parity: u64,
    /// Datagrams repaired.
    pub recovered: u64,
    /// Parity packets that cannot be parsed, or contradict the datagrams.
    pub malformed: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.parity += other.parity;
        self.recovered += other.recovered;
        self.malformed += other.malformed;
    }
}

/// Decoder of the stream of a sender.
///
/// It remembers the latest 512 sequence numbers and 128 parity packets. Each parity packet repairs one datagram at most, so the work
/// of a packet is bounded.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Datagrams by the lower bits of their sequence numbers.
    window: Vec<Option<Box<[u8]>>>,
    /// Latest sequence number and the synchronisation source.
    latest: Option<(u16, u32)>,
    waiting: VecDeque<(Header, Box<[u8]>)>,
    counts: Counts,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            window: vec![None; WINDOW],
            latest: None,
            waiting: VecDeque::new(),
            counts: Counts::default(),
        }
    }
}

impl Decoder {
    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds a datagram that arrived, and calls `sink` with those that can then be repaired.
    pub fn push(&mut self, datagram: &[u8], sink: impl FnMut(&[u8])) {
        let Some((packet, _)) = plain(datagram).filter(|_| datagram.len() <= MAX_LEN) else { return };
        let (seq, ssrc) = (packet.seq(), packet.ssrc());
        let is_later = |latest: u16| seq.wrapping_sub(latest) < 0x8000;
        match self.latest {
            // A sender that started again, or another one: nothing of it is known.
            Some((latest, other)) if other != ssrc || !self.is_near(seq, latest) => {
                self.forget();
                self.latest = Some((seq, ssrc));
            }
            Some((latest, _)) if !is_later(latest) => {}
            _ => self.latest = Some((seq, ssrc)),
        }
        self.window[usize::from(seq) % WINDOW] = Some(datagram.into());
        self.repair(seq, sink);
    }

    /// Adds a parity packet, and calls `sink` with the datagrams that can be repaired.
    pub fn push_parity(&mut self, packet: &[u8], mut sink: impl FnMut(&[u8])) {
        self.counts.parity += 1;
        let parsed = rtp::Packet::new_checked(packet).ok().and_then(|_| {
            let payload = packet.get(rtp::HEADER_LEN..).filter(|payload| payload.len() <= MAX_LEN)?;
            let header = Header::parse(payload)?;
            Some((header, &payload[HEADER_LEN..]))
        });
        let Some((header, sum)) = parsed.filter(|(header, _)| header.count <= MAX_PROTECTED) else {
            self.counts.malformed += 1;
            return;
        };
        match self.missing(&header) {
            Missing::None | Missing::TooOld => {}
            Missing::One(seq) => {
                if self.restore(&header, sum, seq, &mut sink) {
                    self.repair(seq, sink);
                }
            }
            Missing::Several => {
                if self.waiting.len() == MAX_WAITING {
                    self.waiting.pop_front();
                }
                self.waiting.push_back((header, sum.into()));
            }
        }
    }

    fn is_near(&self, seq: u16, latest: u16) -> bool {
        let ahead = seq.wrapping_sub(latest);
        ahead < WINDOW as u16 || ahead.wrapping_neg() <= WINDOW as u16
    }

    fn forget(&mut self) {
        self.window.fill(None);
        self.waiting.clear();
    }

    /// Returns the datagram of a sequence number, if it is remembered.
    fn datagram(&self, seq: u16) -> Option<&[u8]> {
        let datagram = self.window[usize::from(seq) % WINDOW].as_deref()?;
        (u16::from_be_bytes([datagram[2], datagram[3]]) == seq).then_some(datagram)
    }

    fn missing(&self, header: &Header) -> Missing {
        let Some((latest, _)) = self.latest else { return Missing::Several };
        // Beyond the window a datagram that came is not distinguished from one that was lost.
        let age = latest.wrapping_sub(header.base);
        if age >= WINDOW as u16 && age < 0x8000 {
            return Missing::TooOld;
        }
        let mut lost = header.protected().filter(|seq| self.datagram(*seq).is_none());
        match (lost.next(), lost.next()) {
            (None, _) => Missing::None,
            (Some(seq), None) => Missing::One(seq),
            _ => Missing::Several,
        }
    }

    /// Drops the parity of datagrams outside the window. Their numbers will be used again.
    fn drop_old_parity(&mut self) {
        let Some((latest, _)) = self.latest else { return };
        let is_near = |base: u16| latest.wrapping_sub(base).min(base.wrapping_sub(latest)) < WINDOW as u16;
        self.waiting.retain(|(header, _)| is_near(header.base));
    }

    /// Repairs by the parity packets that wait, beginning with those that protect `seq`.
    fn repair(&mut self, seq: u16, mut sink: impl FnMut(&[u8])) {
        self.drop_old_parity();
        let mut known = vec![seq];
        while let Some(seq) = known.pop() {
            let mut at = 0;
            while at < self.waiting.len() {
                let missing = match self.waiting[at].0.protects(seq) {
                    true => self.missing(&self.waiting[at].0),
                    false => Missing::Several,
                };
                if matches!(missing, Missing::Several) {
                    at += 1;
                    continue;
                }
                let Some((header, sum)) = self.waiting.remove(at) else { break };
                if let Missing::One(lost) = missing
                    && self.restore(&header, &sum, lost, &mut sink)
                {
                    known.push(lost);
                }
            }
        }
    }

    /// Returns `true` if the only lost datagram of a parity packet was restored. Otherwise the packet contradicts the others.
    fn restore(&mut self, header: &Header, sum: &[u8], lost: u16, sink: &mut impl FnMut(&[u8])) -> bool {
        let mut parity = Parity {
            base: header.base,
            len: header.len,
            payload_type: header.payload_type,
            timestamp: header.timestamp,
            payload: sum.to_vec(),
        };
        for seq in header.protected().filter(|seq| *seq != lost) {
            if let Some((packet, payload)) = self.datagram(seq).and_then(plain) {
                parity.add(&packet, payload);
            }
        }
        let Parity { len, payload_type, timestamp, payload, .. } = parity;
        let ssrc = self.latest.map_or(0, |(_, ssrc)| ssrc);
        // What is beyond the length is the XOR of equal bytes, if all is right.
        let is_right = payload.get(usize::from(len)..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
        if !is_right || payload_type > 0x7f {
            self.counts.malformed += 1;
            return false;
        }
        let mut datagram = vec![0; rtp::HEADER_LEN];
        rtp::Repr::new(payload_type, lost, timestamp, ssrc).emit(&mut datagram);
        datagram.extend_from_slice(&payload[..usize::from(len)]);
        sink(&datagram);
        self.counts.recovered += 1;
        self.window[usize::from(lost) % WINDOW] = Some(datagram.into());
        true
    }
}

/// Losses among the datagrams of a parity packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    None,
    One(u16),
    Several,
    TooOld,
}
