//! Detection of missing packets of a stream in a capture, by sequence number.

use crate::channel::Trace;

/// The most packets of a stream, missing ones counted.
const MAX_PACKETS: usize = 1 << 26;
/// A number that is more than this ahead of the last belongs to another stream.
const MAX_AHEAD: u64 = 1_000_000;

/// Position of sequence numbers in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceField {
    /// RTP (RFC 3550): 16 bits in the third and fourth byte of the UDP payload.
    Rtp,
    /// Header of bentpipe's own datagrams: 32 bits.
    Probe,
    /// Identification of IPv4: 16 bits. Valid only if the sender increments it with each packet of the
    /// stream.
    IpId,
    /// A big-endian number in the UDP payload.
    Field {
        /// Offset in bytes.
        offset: usize,
        /// Length in bytes, 1 to 8.
        bytes: usize,
    },
}

impl SequenceField {
    /// Returns the place in the UDP payload, if there.
    pub fn place(self) -> Option<(usize, usize)> {
        match self {
            SequenceField::Rtp => Some((2, 2)),
            SequenceField::Probe => Some((0, 4)),
            SequenceField::IpId => None,
            SequenceField::Field { offset, bytes } => Some((offset, bytes)),
        }
    }

    /// Returns the number of bits of a sequence number.
    pub fn bits(self) -> u32 {
        self.place().map_or(16, |(_, bytes)| bytes as u32 * 8)
    }
}

impl std::str::FromStr for SequenceField {
    type Err = String;

    fn from_str(text: &str) -> Result<SequenceField, String> {
        let expected =
            "expected rtp, probe, ip-id, or OFFSET:BYTES of a number in the UDP payload of 1 to 8 bytes";
        match text {
            "rtp" => return Ok(SequenceField::Rtp),
            "probe" => return Ok(SequenceField::Probe),
            "ip-id" => return Ok(SequenceField::IpId),
            _ => {}
        }
        let field = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let field = field.filter(|(offset, bytes)| *offset < 65_536 && (1..=8).contains(bytes));
        field.map(|(offset, bytes)| SequenceField::Field { offset, bytes }).ok_or_else(|| expected.to_owned())
    }
}

/// A stream whose numbers are being followed.
#[derive(Clone, Debug)]
pub struct Sequence {
    bits: u32,
    /// Flag for each packet from the first number on, set if it is missing.
    missing: Vec<bool>,
    last: u64,
    /// Numbers that came more than once.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub late: u64,
}

impl Sequence {
    /// Creates an empty stream with numbers of `bits` bits.
    pub fn new(bits: u32) -> Sequence {
        Sequence { bits: bits.clamp(1, 64), missing: Vec::new(), last: 0, duplicates: 0, late: 0 }
    }

    /// Notes a packet.
    ///
    /// # Errors
    /// If its number is too far ahead to be of the same stream, or there are too many packets.
    pub fn note(&mut self, number: u64) -> Result<(), String> {
        if self.missing.is_empty() {
            (self.last, self.missing) = (number, vec![false]);
            return Ok(());
        }
        // The difference modulo the numbers' range, as a signed one.
        let unused = 64 - self.bits;
        let ahead = (number.wrapping_sub(self.last) << unused) as i64 >> unused;
        if ahead <= 0 {
            self.behind(ahead.unsigned_abs());
            return Ok(());
        }
        let ahead = ahead as u64;
        if ahead > MAX_AHEAD || self.missing.len() + ahead as usize > MAX_PACKETS {
            let last = self.last;
            return Err(format!(
                "the number {number} follows {last}: more than one stream, or no numbers that count packets"
            ));
        }
        self.missing.extend(std::iter::repeat_n(true, ahead as usize - 1));
        self.missing.push(false);
        self.last = number;
        Ok(())
    }

    /// Records a packet `by` numbers before the highest. One from before the first is not part of the trace.
    fn behind(&mut self, by: u64) {
        let at = usize::try_from(by).ok().and_then(|by| (self.missing.len() - 1).checked_sub(by));
        match at.map(|at| std::mem::replace(&mut self.missing[at], false)) {
            Some(true) => self.late += 1,
            Some(false) => self.duplicates += 1,
            None => self.late += 1,
        }
    }

    /// Returns the trace, or `None` without packets.
    pub fn trace(&self) -> Option<Trace> {
        Trace::from_losses(self.missing.iter().copied())
    }
}
