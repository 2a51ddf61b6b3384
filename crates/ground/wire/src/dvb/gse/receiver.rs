//! Reassembly of PDUs from data fields.

use crate::crc32::Crc32;
use crate::dvb::ule::{Extensions, Payload, Type};
use crate::lan::ethernet::MacAddr;
use crate::{Error, Kind};

use super::{Label, Packet, TYPE_LEN, crc, packet_len};

/// Number of frames, the first included, within which a fragmented PDU must be complete.
const MAX_FRAMES: u64 = 256;

/// Labels that a receiver accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Any label.
    #[default]
    All,
    /// Broadcast and these.
    Only(Vec<Label>),
}

impl Filter {
    fn accepts(&self, label: Label) -> bool {
        match self {
            Filter::All => true,
            Filter::Only(wanted) => label == Label::Broadcast || wanted.contains(&label),
        }
    }
}

/// A PDU that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pdu<'a> {
    /// Whom it is for.
    pub label: Label,
    /// Optional extension headers.
    pub extensions: Extensions<'a>,
    /// Content.
    pub payload: Payload<'a>,
}

impl<'a> Pdu<'a> {
    fn parse(kind: Type, label: Label, body: &'a [u8]) -> Result<Pdu<'a>, Error> {
        let (extensions, kind) = Extensions::parse(kind, body, 0)?;
        let at = extensions.buffer_len();
        Ok(Pdu { label, extensions, payload: Payload::parse(kind, &body[at..], at)? })
    }
}

/// Counters of a stream's frames, packets and PDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Data fields.
    pub frames: u64,
    /// GSE packets.
    pub packets: u64,
    /// PDUs passed on.
    pub pdus: u64,
    /// Test PDUs, which are dropped.
    pub tests: u64,
    /// PDUs for other receivers.
    pub others: u64,
    /// Packets longer than the rest of their data field, or shorter than their own fields. Also PDUs too
    /// short for their extension headers or the bridged frame in them.
    pub length_errors: u64,
    /// Fragments after the first with a label, labels re-used without a previous one, zero labels.
    pub label_errors: u64,
    /// Fragments of a PDU whose first one was not received, or is too long ago.
    pub orphans: u64,
    /// PDUs in fragments that were given up: another one began under their number.
    pub abandoned: u64,
    /// PDUs in fragments that are not as long as their Total Length.
    pub total_length_errors: u64,
    /// PDUs in fragments with a wrong CRC.
    pub crc_errors: u64,
    /// PDUs with an unknown mandatory extension header.
    pub type_errors: u64,
    /// PDUs whose concatenated TS packets or PDUs do not make up their length.
    pub concat_errors: u64,
}

impl Counts {
    /// Returns the errors by their cause.
    pub const fn causes(&self) -> [(&'static str, u64); 8] {
        [
            ("length of a packet", self.length_errors),
            ("label", self.label_errors),
            ("fragment without its first", self.orphans),
            ("incomplete PDU", self.abandoned),
            ("total length", self.total_length_errors),
            ("CRC", self.crc_errors),
            ("unknown extension header", self.type_errors),
            ("concatenated PDUs", self.concat_errors),
        ]
    }
}

/// Incomplete PDU.
#[derive(Clone, Debug)]
struct Partial {
    kind: Type,
    label: Label,
    crc: Crc32,
    body: Vec<u8>,
    body_len: usize,
    first_frame: u64,
}

/// Fragmented PDU of a fragment identifier.
#[derive(Clone, Debug, Default)]
enum Slot {
    /// No fragment.
    #[default]
    Empty,
    /// Incomplete PDU.
    Partial(Partial),
    /// Incomplete PDU for another receiver, which began with this frame.
    Other(u64),
}

/// Receiver of one stream that reassembles at most 256 PDUs of 65,535 bytes.
#[derive(Clone, Debug)]
pub struct Receiver {
    filter: Filter,
    /// Fragmented PDUs by fragment identifier, none before the first fragment.
    slots: Vec<Slot>,
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver without incomplete PDUs.
    pub fn new(filter: Filter) -> Receiver {
        Receiver { filter, slots: Vec::new(), counts: Counts::default() }
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of incomplete PDUs, without those of other receivers.
    pub fn waiting(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Partial(_))).count()
    }

    /// Handles a data field and calls `sink` with each PDU that ends in it.
    pub fn push(&mut self, data_field: &[u8], mut sink: impl FnMut(&Pdu<'_>)) {
        self.counts.frames += 1;
        let (mut rest, mut label) = (data_field, None);
        loop {
            let len = match packet_len(rest) {
                Ok(Some(len)) => len,
                Ok(None) => return,
                // The rest cannot be delimited any more.
                Err(error) => return self.count(error),
            };
            let (packet, behind) = rest.split_at(len);
            self.counts.packets += 1;
            match Packet::parse_exact(packet) {
                Ok(packet) => self.packet(packet, &mut label, &mut sink),
                Err(error) => self.count(error),
            }
            rest = behind;
        }
    }

    fn packet(&mut self, packet: Packet<'_>, last: &mut Option<Label>, sink: &mut impl FnMut(&Pdu<'_>)) {
        match packet {
            Packet::Complete { kind, label, body } => {
                if let Some(label) = self.label(label, last) {
                    self.deliver(kind, label, body, sink);
                }
            }
            Packet::First { frag_id, total_len, kind, label: shown, body } => {
                // A label that is left out is neither counted in Total Length nor in the CRC.
                let crc = crc(total_len, kind, shown).add_bytes(body);
                let head_len = TYPE_LEN + shown.map_or(0, Label::len);
                let Some(label) = self.label(shown, last) else { return };
                if !self.filter.accepts(label) {
                    return self.begin(frag_id, Slot::Other(self.counts.frames));
                }
                match total_len.checked_sub(head_len).filter(|&body_len| body.len() <= body_len) {
                    Some(body_len) => {
                        let (body, first_frame) = (body.to_vec(), self.counts.frames);
                        let partial = Partial { kind, label, crc, body, body_len, first_frame };
                        self.begin(frag_id, Slot::Partial(partial));
                    }
                    None => self.counts.total_length_errors += 1,
                }
            }
            Packet::Middle { frag_id, body } => {
                if let Some(partial) = self.continued(frag_id, body, false) {
                    *self.slot(frag_id) = Slot::Partial(partial);
                }
            }
            Packet::Last { frag_id, body, crc } => {
                if let Some(partial) = self.continued(frag_id, body, true) {
                    self.finish(&partial, crc, sink);
                }
            }
        }
    }

    /// The label of a packet: its own, or the one before in the same frame.
    fn label(&mut self, shown: Option<Label>, last: &mut Option<Label>) -> Option<Label> {
        let zeros = Label::Six(MacAddr([0; 6]));
        let label = shown.or(*last).filter(|&label| label != zeros);
        if label.is_none() {
            self.counts.label_errors += 1;
        }
        *last = label;
        label
    }

    fn slot(&mut self, frag_id: u8) -> &mut Slot {
        if self.slots.is_empty() {
            self.slots.resize_with(usize::from(u8::MAX) + 1, Slot::default);
        }
        &mut self.slots[usize::from(frag_id)]
    }

    fn begin(&mut self, frag_id: u8, slot: Slot) {
        let before = std::mem::replace(self.slot(frag_id), slot);
        self.counts.abandoned += u64::from(matches!(before, Slot::Partial(_)));
    }

    /// Removes an incomplete PDU and adds a fragment, if not too old or long. A PDU for another receiver is counted
    /// with its last fragment.
    fn continued(&mut self, frag_id: u8, fragment: &[u8], is_last: bool) -> Option<Partial> {
        let frames = self.counts.frames;
        let is_in_time = |first: u64| frames - first < MAX_FRAMES;
        let mut partial = match std::mem::take(self.slot(frag_id)) {
            Slot::Partial(partial) if is_in_time(partial.first_frame) => partial,
            Slot::Other(first) if is_in_time(first) => {
                self.counts.others += u64::from(is_last);
                if !is_last {
                    *self.slot(frag_id) = Slot::Other(first);
                }
                return None;
            }
            _ => {
                self.counts.orphans += 1;
                return None;
            }
        };
        if partial.body.len() + fragment.len() > partial.body_len {
            self.counts.total_length_errors += 1;
            return None;
        }
        partial.crc = partial.crc.add_bytes(fragment);
        partial.body.extend_from_slice(fragment);
        Some(partial)
    }

    fn finish(&mut self, partial: &Partial, crc: u32, sink: &mut impl FnMut(&Pdu<'_>)) {
        if partial.body.len() != partial.body_len {
            self.counts.total_length_errors += 1;
        } else if partial.crc.register() != crc {
            self.counts.crc_errors += 1;
        } else {
            self.deliver(partial.kind, partial.label, &partial.body, sink);
        }
    }

    fn deliver(&mut self, kind: Type, label: Label, body: &[u8], sink: &mut impl FnMut(&Pdu<'_>)) {
        if !self.filter.accepts(label) {
            self.counts.others += 1;
            return;
        }
        match Pdu::parse(kind, label, body) {
            Ok(Pdu { payload: Payload::Test(_), .. }) => self.counts.tests += 1,
            Ok(pdu) => {
                self.counts.pdus += 1;
                sink(&pdu);
            }
            Err(Error { kind: Kind::Malformed(_), .. }) => self.counts.concat_errors += 1,
            Err(error) => self.count(error),
        }
    }

    fn count(&mut self, error: Error) {
        let count = match error.kind {
            Kind::Unsupported(_) => &mut self.counts.type_errors,
            Kind::Malformed(_) => &mut self.counts.label_errors,
            Kind::Truncated { .. } | Kind::Checksum => &mut self.counts.length_errors,
        };
        *count += 1;
    }
}
