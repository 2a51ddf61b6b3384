//! Reassembly of packets from FPDUs.

use crate::crc32::Crc32;
use crate::dvb::ule::Type;
use crate::{Error, Kind};

use super::{Alpdu, FRAG_IDS, Ppdu, Profile, Protection, ppdu_len};

/// The label type of signalling.
const SIGNALLING: u8 = 3;

/// A packet that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdu<'a> {
    /// Protocol type.
    pub kind: Type,
    /// Bytes of the packet.
    pub bytes: &'a [u8],
}

/// Counters of a stream's FPDUs, PPDUs and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// FPDUs.
    pub fpdus: u64,
    /// PPDUs.
    pub ppdus: u64,
    /// Packets passed on.
    pub sdus: u64,
    /// PPDUs longer than the rest of their FPDU or shorter than their own header. Also ALPDUs too short for
    /// their protocol type and a byte.
    pub length_errors: u64,
    /// ALPDUs of signalling, or with a label type that has no length here.
    pub labels: u64,
    /// ALPDUs with an unknown protocol type, or whose omitted type the packet does not show.
    pub type_errors: u64,
    /// Fragments of an ALPDU whose first one was not received.
    pub orphans: u64,
    /// ALPDUs in fragments that were given up: another one began under their number.
    pub abandoned: u64,
    /// ALPDUs in fragments that are not as long as their total length.
    pub total_length_errors: u64,
    /// ALPDUs in fragments with a wrong CRC.
    pub crc_errors: u64,
    /// Fragmented ALPDUs with an unexpected sequence number. One or more before were lost, and their
    /// fragments may be among these.
    pub sequence_errors: u64,
}

/// Incomplete ALPDU.
#[derive(Clone, Debug)]
struct Partial {
    kind: Type,
    protection: Protection,
    sdu: Vec<u8>,
    /// Length of packet and trailer.
    len: usize,
}

/// Receiver of one stream that reassembles at most 8 packets of 4095 bytes.
#[derive(Clone, Debug)]
pub struct Receiver {
    profile: Profile,
    /// Incomplete ALPDUs by Fragment-Id.
    partial: [Option<Partial>; FRAG_IDS as usize],
    /// The next sequence number of each, once one was seen.
    sequence: [Option<u8>; FRAG_IDS as usize],
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver without incomplete packets.
    pub fn new(profile: Profile) -> Receiver {
        Receiver {
            profile,
            partial: Default::default(),
            sequence: Default::default(),
            counts: Counts::default(),
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the bytes of incomplete packets.
    pub fn waiting_len(&self) -> usize {
        self.partial.iter().flatten().map(|partial| partial.sdu.len()).sum()
    }

    /// Handles an FPDU and calls `sink` with each packet that ends in it.
    pub fn push(&mut self, fpdu: &[u8], mut sink: impl FnMut(&Sdu<'_>)) {
        self.counts.fpdus += 1;
        let mut rest = fpdu;
        loop {
            let len = match ppdu_len(rest) {
                Ok(Some(len)) => len,
                Ok(None) => return,
                // The rest cannot be delimited any more.
                Err(error) => return self.count(error),
            };
            let (ppdu, behind) = rest.split_at(len);
            self.counts.ppdus += 1;
            match Ppdu::parse_exact(ppdu) {
                Ok(ppdu) => self.ppdu(ppdu, &mut sink),
                Err(error) => self.count(error),
            }
            rest = behind;
        }
    }

    fn ppdu(&mut self, ppdu: Ppdu<'_>, sink: &mut impl FnMut(&Sdu<'_>)) {
        match ppdu {
            Ppdu::Full { alpdu, body } => {
                if let Some((kind, at)) = self.kind(alpdu, body) {
                    self.deliver(kind, &body[at..], sink);
                }
            }
            Ppdu::Start { frag_id, protection, total_len, alpdu, body } => {
                if self.partial[usize::from(frag_id)].take().is_some() {
                    self.counts.abandoned += 1;
                }
                let Some((kind, at)) = self.kind(alpdu, body) else { return };
                let sdu = body[at..].to_vec();
                let partial = Partial { kind, protection, sdu, len: total_len.saturating_sub(at) };
                self.keep(frag_id, partial);
            }
            Ppdu::Continuation { frag_id, body } => {
                if let Some(mut partial) = self.taken(frag_id) {
                    partial.sdu.extend_from_slice(body);
                    self.keep(frag_id, partial);
                }
            }
            Ppdu::End { frag_id, body } => {
                if let Some(partial) = self.taken(frag_id) {
                    self.finish(frag_id, partial, body, sink);
                }
            }
        }
    }

    /// Returns the content of an ALPDU and its offset in the body.
    fn kind(&mut self, alpdu: Alpdu, body: &[u8]) -> Option<(Type, usize)> {
        if alpdu.label_type != 0 {
            debug_assert!(alpdu.label_type <= SIGNALLING, "two bits");
            self.counts.labels += 1;
            return None;
        }
        let read = self.profile.types.read(alpdu.is_suppressed, body);
        read.inspect_err(|error| self.count(*error)).ok()
    }

    /// Keeps an incomplete packet, or drops it over its announced length. The trailer arrives whole in the end.
    fn keep(&mut self, frag_id: u8, partial: Partial) {
        if partial.sdu.len() + partial.protection.len() > partial.len {
            self.counts.total_length_errors += 1;
        } else {
            self.partial[usize::from(frag_id)] = Some(partial);
        }
    }

    fn taken(&mut self, frag_id: u8) -> Option<Partial> {
        let partial = self.partial[usize::from(frag_id)].take();
        self.counts.orphans += u64::from(partial.is_none());
        partial
    }

    fn finish(&mut self, frag_id: u8, mut partial: Partial, body: &[u8], sink: &mut impl FnMut(&Sdu<'_>)) {
        let Some(at) = body.len().checked_sub(partial.protection.len()) else {
            self.counts.length_errors += 1;
            return;
        };
        let (rest, trailer) = body.split_at(at);
        let is_whole = partial.sdu.len() + body.len() == partial.len;
        partial.sdu.extend_from_slice(rest);
        // The number is recorded for any outcome of the packet.
        let is_right = self.check(frag_id, &partial, trailer);
        if !is_whole {
            self.counts.total_length_errors += 1;
        } else if is_right {
            self.deliver(partial.kind, &partial.sdu, sink);
        } else {
            let errors = match partial.protection {
                Protection::Sequence => &mut self.counts.sequence_errors,
                Protection::Crc => &mut self.counts.crc_errors,
            };
            *errors += 1;
        }
    }

    /// Returns `true` if the trailer is correct. Sequence number 0 always is: the sender may have logged on
    /// again.
    fn check(&mut self, frag_id: u8, partial: &Partial, trailer: &[u8]) -> bool {
        match partial.protection {
            Protection::Crc => {
                let crc = Crc32::new().add_bytes(&partial.kind.0.to_be_bytes()).add_bytes(&partial.sdu);
                crc.register().to_be_bytes() == *trailer
            }
            Protection::Sequence => {
                let expected = self.sequence[usize::from(frag_id)].replace(trailer[0].wrapping_add(1));
                trailer[0] == 0 || expected.is_none_or(|expected| expected == trailer[0])
            }
        }
    }

    fn deliver(&mut self, kind: Type, bytes: &[u8], sink: &mut impl FnMut(&Sdu<'_>)) {
        self.counts.sdus += 1;
        sink(&Sdu { kind, bytes });
    }

    fn count(&mut self, error: Error) {
        let count = match error.kind {
            Kind::Unsupported(_) | Kind::Malformed(_) => &mut self.counts.type_errors,
            Kind::Truncated { .. } | Kind::Checksum => &mut self.counts.length_errors,
        };
        *count += 1;
    }
}
