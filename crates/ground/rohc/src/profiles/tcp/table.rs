//! TCP options in compression: items and list of each packet (RFC 6846 6.3).

use super::ip::u32_at;
use super::options::{self, Items, List};
use super::refs::Stamps;
use crate::framework::octets::Writer;

/// Items known to be known: more than any number of repeats.
const CONFIRMED: u8 = u8::MAX;

/// The options of one packet, and how they are to be sent.
pub(super) struct Plan<'a> {
    pub(super) list: List,
    bytes: &'a [u8],
    /// End of each option in `bytes`.
    ends: [u8; options::MAX_OPTIONS],
    /// Options that must be list items: bit n is the n-th.
    must: u16,
    /// Generic options treated as constant.
    is_static: u16,
    /// Octets of the timestamps in the irregular item.
    timestamp_lens: [u32; 2],
}

impl<'a> Plan<'a> {
    /// Returns `true` if an option must be a list item.
    pub(super) const fn needs_list(&self) -> bool {
        self.must != 0
    }

    /// The options with their indexes and positions.
    fn options(&self) -> impl Iterator<Item = (usize, u8, &'a [u8])> {
        let mut start = 0;
        self.list.indexes().iter().zip(self.ends).enumerate().map(move |(position, (&index, end))| {
            let option = &self.bytes[start..usize::from(end)];
            start = usize::from(end);
            (position, index, option)
        })
    }
}

/// Record of what was sent of each item.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) items: Items,
    pub(super) list: List,
    stamps: Stamps,
    /// Number of times each item was sent whole, or [`CONFIRMED`].
    sent: [u8; options::ITEMS],
    /// The packet that brought each item as it is.
    since: [u16; options::ITEMS],
    /// Number of packets with the present contents of changing items: SACK and generic ones.
    stable: [u8; options::ITEMS],
    /// Set if no generic option is sent as constant.
    never_static: bool,
}

impl Table {
    /// Creates the table of a new flow. Generic options go as constant if they `may_be_static`.
    pub(super) fn new(may_be_static: bool) -> Self {
        Self { never_static: !may_be_static, ..Self::default() }
    }

    /// Forgets what was sent: another decompressor, or another flow.
    pub(super) fn forget(&mut self) {
        self.sent = [0; options::ITEMS];
        self.stable = [0; options::ITEMS];
        self.stamps.clear();
    }

    /// Chooses an item for each option of `bytes`; `None` if no list can carry them.
    pub(super) fn plan<'a>(&self, bytes: &'a [u8], repeats: u8) -> Option<Plan<'a>> {
        if let Some(plan) = self.plan_timestamps(bytes, repeats) {
            return Some(plan);
        }
        let (list, ends) = (List::default(), [0; options::MAX_OPTIONS]);
        let mut plan = Plan { list, bytes, ends, must: 0, is_static: 0, timestamp_lens: [0; 2] };
        let (mut used, mut position, mut rest) = (0u16, 0, bytes);
        while !rest.is_empty() {
            let (option, behind) = options::split_first(rest)?;
            let index = self.index_for(option, used, &plan)?;
            plan.list.push(index)?;
            plan.ends[position] = (bytes.len() - behind.len()) as u8;
            used |= 1 << index;
            let known =
                self.fits(index, option, position, &mut plan) && self.sent[usize::from(index)] >= repeats;
            plan.must |= u16::from(!known) << position;
            (rest, position) = (behind, position + 1);
        }
        Some(plan)
    }

    /// Returns the plan for established, aligned timestamps and nothing else.
    #[inline]
    fn plan_timestamps<'a>(&self, bytes: &'a [u8], repeats: u8) -> Option<Plan<'a>> {
        let Some(Some((_, timestamp_lens))) = self.steady(bytes, repeats) else { return None };
        let mut ends = [0; options::MAX_OPTIONS];
        ends[..3].copy_from_slice(&[1, 2, 12]);
        Some(Plan { list: self.list, bytes, ends, must: 0, is_static: 0, timestamp_lens })
    }

    /// Returns the timestamps and their octets if nothing else is to be sent. The options are none, or what most
    /// packets have.
    #[inline]
    pub(super) fn steady(&self, bytes: &[u8], repeats: u8) -> Option<Option<([u32; 2], [u32; 2])>> {
        let [1, 1, 8, 10, ref values @ ..] = *bytes else {
            return (bytes.is_empty() && self.list == List::default()).then_some(None);
        };
        let values = <&[u8; 8]>::try_from(values).ok()?;
        let sent = |index: u8| self.sent[usize::from(index)] >= repeats;
        if self.list != List::TIMESTAMPS || !sent(options::NOP) || !sent(options::TIMESTAMP) {
            return None;
        }
        let values = [u32_at(values, 0), u32_at(values, 4)];
        Some(Some((values, self.stamps.lens(values)?)))
    }

    /// Records these timestamps as [`Table::sent`] does, with all else as before.
    #[inline]
    pub(super) fn sent_timestamps(&mut self, values: [u32; 2], msn: u16, width: u8) {
        self.stamps.push(msn, values, usize::from(width));
        self.items.store_timestamps(values);
    }

    /// Returns the item for `option`: that of its type, unless another option has it.
    fn index_for(&self, option: &[u8], used: u16, plan: &Plan<'_>) -> Option<u8> {
        match options::reserved_index(option) {
            Some(options::NOP) => Some(options::NOP),
            Some(index) if used >> index & 1 == 0 || holds(plan, index, option) => Some(index),
            // One of a length that SACK never has is damaged: it would upset the context of its flow for nothing.
            None if option.first() == Some(&options::SACK_KIND) => None,
            _ => self.generic_index_for(option, used, plan),
        }
    }

    fn generic_index_for(&self, option: &[u8], used: u16, plan: &Plan<'_>) -> Option<u8> {
        let is_free = |index: u8| used >> index & 1 == 0;
        let same_type =
            |index: u8| self.items.generic(index).is_some_and(|entry| entry.bytes()[..2] == option[..2]);
        let mut indexes = Items::generic_indexes();
        if option.len() < 2 {
            return None;
        }
        indexes
            .clone()
            .find(|&index| !is_free(index) && holds(plan, index, option))
            .or_else(|| indexes.clone().find(|&index| is_free(index) && same_type(index)))
            .or_else(|| indexes.clone().find(|&index| is_free(index) && !self.items.knows(index)))
            .or_else(|| indexes.find(|&index| is_free(index)))
    }

    /// Returns `true` if the item and an irregular item yield `option`.
    fn fits(&self, index: u8, option: &[u8], position: usize, plan: &mut Plan<'_>) -> bool {
        match index {
            options::SACK => self.items.knows(index),
            options::TIMESTAMP => match self.stamps.lens(timestamps(option)) {
                Some(lens) => {
                    plan.timestamp_lens = lens;
                    true
                }
                None => false,
            },
            options::GENERIC.. => match self.items.generic(index) {
                Some(entry) if entry.bytes()[..2] == option[..2] => {
                    let same = entry.bytes() == option;
                    plan.is_static |= u16::from(entry.is_static && same) << position;
                    !entry.is_static || same
                }
                _ => {
                    plan.is_static |= u16::from(!self.never_static) << position;
                    false
                }
            },
            options::NOP | options::SACK_PERMITTED => true,
            _ => self.items.matches(index, option),
        }
    }

    /// Writes the list with list items for the options that need them, or for all.
    pub(super) fn write_list(&self, plan: &Plan<'_>, all: bool, ack: u32, out: &mut Writer<'_>) {
        let present = if all { u16::MAX } else { plan.must };
        options::write_list_head(&plan.list, present, out);
        for (position, index, option) in plan.options() {
            if present >> position & 1 != 0 {
                let is_static = plan.is_static >> position & 1 != 0;
                options::write_item(index, option, is_static, ack, out);
            }
        }
    }

    /// Writes the irregular items. `with_list` states that a list was sent, with what must be list items in it.
    pub(super) fn write_irregular(
        &self,
        plan: &Plan<'_>,
        with_list: bool,
        ack: u32,
        repeats: u8,
        out: &mut Writer<'_>,
    ) {
        debug_assert!(with_list || !plan.needs_list(), "what must be a list item needs a list");
        for (position, index, option) in plan.options() {
            if plan.must >> position & 1 == 0 {
                self.write_irregular_item(index, option, plan, ack, repeats, out);
            }
        }
    }

    fn write_irregular_item(
        &self,
        index: u8,
        option: &[u8],
        plan: &Plan<'_>,
        ack: u32,
        repeats: u8,
        out: &mut Writer<'_>,
    ) {
        let is_stable = || self.items.matches(index, option) && self.stable[usize::from(index)] >= repeats;
        match index {
            options::TIMESTAMP => {
                for (value, len) in timestamps(option).into_iter().zip(plan.timestamp_lens) {
                    options::write_timestamp(value, len, out);
                }
            }
            options::SACK if is_stable() => out.u8(0),
            options::SACK => options::write_sack(&option[2..], ack, out),
            options::GENERIC.. if self.items.generic(index).is_some_and(|entry| entry.is_static) => {}
            options::GENERIC.. => options::write_irregular_generic(option, is_stable(), out),
            _ => {}
        }
    }

    /// Records the packet `msn` as sent and returns the items that it carried whole. The list had all options
    /// (`Some(true)`), those that must be in it (`Some(false)`), or there was none.
    pub(super) fn sent(&mut self, plan: &Plan<'_>, list: Option<bool>, msn: u16, width: u8) -> u16 {
        let present = match list {
            None => 0,
            Some(true) => u16::MAX,
            Some(false) => plan.must,
        };
        let mut whole = 0;
        for (position, index, option) in plan.options() {
            let is_static = plan.is_static >> position & 1 != 0;
            if present >> position & 1 != 0 {
                whole |= 1 << index;
                self.count_whole(index, option, is_static, msn);
            }
            self.count_stable(index, option);
            match index {
                options::NOP => continue,
                options::TIMESTAMP => self.stamps.push(msn, timestamps(option), usize::from(width)),
                _ => {}
            }
            self.items.store(index, option);
            if index >= options::GENERIC && present >> position & 1 != 0 {
                self.items.set_static(index, is_static);
            }
        }
        self.list = plan.list;
        whole
    }

    fn count_whole(&mut self, index: u8, option: &[u8], is_static: bool, msn: u16) {
        let at = usize::from(index);
        let same = match index {
            options::SACK | options::TIMESTAMP => self.items.knows(index),
            options::GENERIC.. => self.items.generic(index).is_some_and(|entry| {
                entry.bytes()[..2] == option[..2]
                    && entry.is_static == is_static
                    && (!is_static || entry.bytes() == option)
            }),
            _ => self.items.matches(index, option),
        };
        if same && self.sent[at] > 0 {
            self.sent[at] = self.sent[at].saturating_add(1);
        } else {
            self.sent[at] = 1;
            self.since[at] = msn;
        }
    }

    fn count_stable(&mut self, index: u8, option: &[u8]) {
        if index >= options::SACK {
            let stable = &mut self.stable[usize::from(index)];
            *stable = if self.items.matches(index, option) { stable.saturating_add(1) } else { 1 };
        }
    }

    /// The decompressor has the packet `msn`, which said the items `whole`.
    pub(super) fn acknowledge(&mut self, msn: u16, whole: u16) {
        for index in 0..options::ITEMS {
            if whole >> index & 1 != 0 && msn.wrapping_sub(self.since[index]) < 1 << 15 {
                self.sent[index] = CONFIRMED;
            }
        }
        self.stamps.acknowledge(msn);
    }
}

/// Returns `true` if the option of `plan` with the item `index` is `option`.
fn holds(plan: &Plan<'_>, index: u8, option: &[u8]) -> bool {
    plan.options().any(|(_, other, bytes)| other == index && bytes == option)
}

fn timestamps(option: &[u8]) -> [u32; 2] {
    [u32_at(option, 2), u32_at(option, 6)]
}
