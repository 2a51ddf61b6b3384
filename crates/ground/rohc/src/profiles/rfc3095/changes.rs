//! Rare changes of a packet, and the memory for them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::header::IpChanging;
use super::list::{List, Received};
use crate::framework::packet::MAX_LEVELS;

/// Rare changes of a packet. With AH or GRE, or a third IP header, every packet has some.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) extensions: [Option<Received>; 2],
    pub(crate) csrcs: Option<Received>,
    /// Protocol of the innermost IP header (PR).
    pub(crate) protocol: Option<u8>,
    /// Changing values and lists of the IP headers beyond two.
    pub(crate) deeper: Vec<(IpChanging, Received)>,
    /// Memory of unused lists.
    blank: Vec<List>,
}

impl Changes {
    /// Returns the memory of an unused list.
    pub(super) fn blank(&mut self) -> List {
        self.blank.pop().unwrap_or_default()
    }

    /// Removes all changes without freeing memory.
    fn clear(&mut self) {
        let received = self.extensions.iter_mut().chain([&mut self.csrcs]).filter_map(Option::take);
        let deeper = self.deeper.drain(..).map(|(_, received)| received);
        self.blank.extend(received.chain(deeper).map(Received::into_list));
        self.blank.truncate(MAX_LEVELS + 1);
        self.protocol = None;
    }
}

/// Memory of the last packet's changes, for reuse without allocation.
#[derive(Debug, Default)]
pub(crate) struct Spare(RefCell<Option<Box<Changes>>>);

impl Spare {
    pub(super) fn take(&self) -> Box<Changes> {
        self.0.take().unwrap_or_default()
    }

    pub(super) fn keep(&self, mut changes: Box<Changes>) {
        changes.clear();
        self.0.replace(Some(changes));
    }
}
