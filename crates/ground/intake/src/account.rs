//! Account of what was read: used, or left out with a reason.

use std::collections::BTreeMap;
use std::fmt;

use bentpipe_wire::pcap::{Damaged, Record};
use serde_json::{Value, json};

/// Most details of a reason that are kept apart.
const MAX_DETAILS: usize = 64;
/// Most details that a line lists.
const MAX_LISTED: usize = 12;

/// Kind of reason to leave a record out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Not selected by the user.
    NotSelected,
    /// Link type that is not read.
    LinkType,
    /// Another protocol.
    Protocol,
    /// The protocol without the content.
    Content,
    /// Packet that came before.
    Duplicate,
    /// Stream beyond the room for them.
    Streams,
    /// Fragment of an incomplete datagram.
    Fragment,
    /// Packet that the capture cut.
    Cut,
    /// Packet over 65,535 bytes.
    Long,
    /// Malformed header.
    Malformed,
    /// Bytes outside packets.
    Outside,
    /// Time before the first packet's, as of a clock that was set back.
    Time,
    /// Refused by the job.
    Refused,
}

impl Reason {
    /// Returns `true` if something was lost, not only something else found.
    pub const fn is_damage(self) -> bool {
        use Reason::{Cut, Fragment, Long, Malformed, Outside, Refused, Streams, Time};
        matches!(self, Streams | Fragment | Cut | Long | Malformed | Outside | Time | Refused)
    }

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::NotSelected => "not-selected",
            Reason::LinkType => "link-type",
            Reason::Protocol => "protocol",
            Reason::Content => "content",
            Reason::Duplicate => "duplicate",
            Reason::Streams => "streams",
            Reason::Fragment => "fragment",
            Reason::Cut => "cut",
            Reason::Long => "long",
            Reason::Malformed => "malformed",
            Reason::Outside => "outside",
            Reason::Time => "time",
            Reason::Refused => "refused",
        }
    }
}

/// Peculiarity of a used record, which was repaired or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repair {
    /// Length of 0 in its header, as offload leaves it; the record's length was used.
    Length,
    /// Checksum of 0 in its IPv4 header, as offload leaves it; it is kept.
    Checksum,
    /// Segment of TCP over 1500 bytes, as segmentation offload leaves it; it is kept.
    Segment,
    /// Packet whose end the capture cut; its length is known.
    Cut,
    /// Fragment that was put together with others.
    Reassembled,
    /// Datagram that goes on with the TS packet that one before has begun.
    Joined,
}

impl Repair {
    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Repair::Length => "length",
            Repair::Checksum => "checksum",
            Repair::Segment => "segment",
            Repair::Cut => "cut",
            Repair::Reassembled => "reassembled",
            Repair::Joined => "joined",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Repair::Length => "of length 0, taken from the record",
            Repair::Checksum => "without a header checksum",
            Repair::Segment => "of TCP segments over 1500 bytes",
            Repair::Cut => "that the capture cut",
            Repair::Reassembled => "of reassembled fragments",
            Repair::Joined => "that go on with a TS packet",
        }
    }
}

/// Records and their bytes. Bare streams have no records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of records.
    pub records: u64,
    /// Number of bytes that the file has of them.
    pub bytes: u64,
    /// Number of the first record, from 1, or the offset of the first byte.
    pub first: u64,
}

impl Tally {
    fn add(&mut self, records: u64, bytes: u64, at: u64) {
        // What waited is counted later than what came behind it.
        let is_first = self.records + self.bytes == 0;
        self.first = if is_first { at } else { self.first.min(at) };
        self.records += records;
        self.bytes += bytes;
    }
}

/// Account of an input. What was read is used or left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Records and bytes that were read.
    pub read: Tally,
    /// Records and bytes that were used.
    pub used: Tally,
    /// Set if the input is a capture, whose records count.
    is_of_records: bool,
    left_out: BTreeMap<Reason, BTreeMap<String, Tally>>,
    repaired: BTreeMap<Repair, u64>,
    /// Bytes of used records that belong to no packet.
    pub outside_bytes: u64,
    /// Number of the record within which the file ends or is damaged.
    pub cut_in: Option<u64>,
    /// Error in that record, unless the file ends.
    pub damage: Option<String>,
    /// Blocks of pcapng that were passed over, as their two lengths differ.
    pub damaged: Option<Damaged>,
    /// Interfaces of records that were not selected, by number, with their names.
    interfaces: BTreeMap<u32, String>,
}

impl Account {
    /// Creates the account of a capture, whose records count.
    pub(crate) fn of_records() -> Account {
        Account { is_of_records: true, ..Account::default() }
    }

    /// Declares the input a capture.
    pub(crate) fn begin_records(&mut self) {
        self.is_of_records = true;
    }

    /// Notes the interface of a record that is not selected.
    pub(crate) fn note_interface(&mut self, record: &Record<'_>) {
        if self.interfaces.len() < MAX_DETAILS {
            let name = || record.interface_name.unwrap_or_default().to_owned();
            self.interfaces.entry(record.interface).or_insert_with(name);
        }
    }

    /// Returns the interfaces of records that were not selected, by number or name.
    pub fn interfaces(&self) -> impl Iterator<Item = String> {
        self.interfaces.iter().map(|(number, name)| match name {
            name if name.is_empty() => number.to_string(),
            name => name.clone(),
        })
    }

    /// Returns `true` if records count, not bytes.
    fn counts_records(&self) -> bool {
        self.is_of_records || self.read.records > 0
    }

    /// Counts a record, and returns its number from 1.
    pub(crate) fn read_record(&mut self, bytes: usize) -> u64 {
        self.read.add(1, bytes as u64, 1);
        self.read.records
    }

    pub(crate) fn read_bytes(&mut self, bytes: usize) {
        self.read.add(0, bytes as u64, 0);
    }

    pub(crate) fn use_record(&mut self, number: u64, bytes: usize) {
        self.used.add(1, bytes as u64, number);
    }

    pub(crate) fn use_bytes(&mut self, bytes: u64, at: u64) {
        self.used.add(0, bytes, at);
    }

    pub(crate) fn leave_out(&mut self, reason: Reason, detail: &str, number: u64, bytes: usize) {
        self.leave(reason, detail, 1, bytes as u64, number);
    }

    pub(crate) fn leave_out_bytes(&mut self, reason: Reason, detail: &str, bytes: u64, at: u64) {
        if bytes > 0 {
            self.leave(reason, detail, 0, bytes, at);
        }
    }

    fn leave(&mut self, reason: Reason, detail: &str, records: u64, bytes: u64, at: u64) {
        let of = self.left_out.entry(reason).or_default();
        if let Some(tally) = of.get_mut(detail) {
            return tally.add(records, bytes, at);
        }
        let detail = if of.len() < MAX_DETAILS { detail } else { "of other kinds" };
        of.entry(detail.to_owned()).or_default().add(records, bytes, at);
    }

    pub(crate) fn repair(&mut self, repair: Repair, count: u64) {
        if count > 0 {
            *self.repaired.entry(repair).or_default() += count;
        }
    }

    /// Returns what was left out, by reason and detail.
    pub fn left_out(&self) -> impl Iterator<Item = (Reason, &str, Tally)> {
        self.left_out
            .iter()
            .flat_map(|(reason, of)| of.iter().map(|(detail, tally)| (*reason, &**detail, *tally)))
    }

    /// Returns the sum of what was left out.
    pub fn left_out_sum(&self) -> Tally {
        let mut sum = Tally::default();
        self.left_out().for_each(|(.., tally)| sum.add(tally.records, tally.bytes, tally.first));
        sum
    }

    /// Returns the number of records that were repaired so.
    pub fn repaired(&self, repair: Repair) -> u64 {
        self.repaired.get(&repair).copied().unwrap_or(0)
    }

    /// Returns the number of peculiarities of used records.
    pub fn repaired_sum(&self) -> u64 {
        self.repaired.values().sum()
    }

    /// Returns `true` if something was lost: damage, a cut, or bytes outside packets.
    pub fn has_damage(&self) -> bool {
        let is_damage = self.left_out.keys().any(|reason| reason.is_damage());
        is_damage || self.outside_bytes > 0 || self.cut_in.is_some() || self.damaged.is_some()
    }

    /// Returns `true` if nothing was used.
    pub fn is_unused(&self) -> bool {
        self.used.records == 0 && self.used.bytes == 0
    }

    /// Describes the account of an input as JSON.
    pub fn json(&self, input: &str) -> Value {
        let left_out = self.left_out().map(|(reason, detail, tally)| {
            json!({
                "reason": reason.name(),
                "detail": detail,
                "records": tally.records,
                "bytes": tally.bytes,
                "first": tally.first,
            })
        });
        let repaired = self.repaired.iter().map(|(repair, count)| (repair.name(), json!(count)));
        json!({
            "input": input,
            "read": { "records": self.read.records, "bytes": self.read.bytes },
            "used": { "records": self.used.records, "bytes": self.used.bytes },
            "left_out": left_out.collect::<Vec<_>>(),
            "repaired": repaired.collect::<Value>(),
            "duplicated": self.duplicated(),
            "outside_bytes": self.outside_bytes,
            "cut_in": self.cut_in,
            "damage": self.damage,
            "damaged_blocks": self.damaged.map_or(0, |damaged| damaged.blocks),
            "damaged_at": self.damaged.map(|damaged| damaged.first),
        })
    }

    /// Returns the number of records left out as they came before.
    pub fn duplicated(&self) -> u64 {
        self.left_out().filter(|(reason, ..)| *reason == Reason::Duplicate).map(|(.., of)| of.records).sum()
    }

    /// Describes a reason with its count.
    fn part(&self, detail: &str, tally: Tally) -> String {
        let (count, first) = (self.count(tally), thousands(tally.first));
        match count {
            _ if count == self.count(self.read) => detail.to_owned(),
            1 if tally.records == 1 => format!("1 {detail}, record {first}"),
            _ if tally.records > 0 => format!("{} {detail}, the first {first}", thousands(count)),
            _ => format!("{} {detail}", thousands(count)),
        }
    }

    /// Returns the count of a tally: records, or bytes of a bare stream.
    fn count(&self, tally: Tally) -> u64 {
        if self.counts_records() { tally.records } else { tally.bytes }
    }
}

impl fmt::Display for Account {
    /// Writes one line, to stand behind the name of the input.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, used) = (self.count(self.read), self.count(self.used));
        let unit = if self.counts_records() { "records" } else { "bytes" };
        write!(f, "{} {unit}", thousands(read))?;
        match used {
            _ if read == 0 => {}
            _ if used == read => f.write_str(", all used")?,
            0 => f.write_str(", none used")?,
            _ => write!(f, ", {} used", thousands(used))?,
        }
        if !self.repaired.is_empty() {
            let parts = self.repaired.iter();
            let parts = parts.map(|(repair, count)| format!("{} {}", thousands(*count), repair.text()));
            write!(f, " ({})", parts.collect::<Vec<_>>().join(", "))?;
        }
        let left_out = self.count(self.left_out_sum());
        if left_out > 0 {
            let parts = self.left_out().take(MAX_LISTED).map(|(_, detail, tally)| self.part(detail, tally));
            write!(f, ", {} left out: {}", thousands(left_out), parts.collect::<Vec<_>>().join("; "))?;
            let rest = self.left_out().skip(MAX_LISTED).map(|(.., tally)| self.count(tally)).sum();
            if rest > 0 {
                write!(f, "; {} of other kinds", thousands(rest))?;
            }
        }
        if self.outside_bytes > 0 {
            write!(f, ", {} bytes outside packets", thousands(self.outside_bytes))?;
        }
        if let Some(Damaged { blocks, first }) = self.damaged {
            let [blocks, first] = [blocks, first].map(thousands);
            write!(
                f,
                ", blocks of pcapng with two lengths passed over: {blocks}, the first at byte {first}"
            )?;
        }
        match (self.cut_in, &self.damage) {
            (None, _) => Ok(()),
            (Some(record), None) => write!(f, ", cut short within record {}", thousands(record)),
            (Some(record), Some(damage)) => {
                write!(f, ", not read on from record {}: {damage}", thousands(record))
            }
        }
    }
}

/// Formats a number with commas.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
