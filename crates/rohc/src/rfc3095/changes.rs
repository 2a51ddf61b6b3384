//! What few packets change, and the memory for it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::header::IpChanging;
use super::list::{List, Received};
use crate::packet::MAX_LEVELS;

/// What only few packets change; where AH or GRE count on, or there are more than two IP headers, each does.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) extensions: [Option<Received>; 2],
    pub(crate) csrcs: Option<Received>,
    /// Protocol of the innermost IP header (PR).
    pub(crate) protocol: Option<u8>,
    /// Changing values and lists of the IP headers beyond two.
    pub(crate) deeper: Vec<(IpChanging, Received)>,
    /// Lists that are not needed any more, to be written anew.
    blank: Vec<List>,
}

impl Changes {
    /// A list to be written anew.
    pub(super) fn blank(&mut self) -> List {
        self.blank.pop().unwrap_or_default()
    }

    /// Makes this no changes without giving back memory.
    fn clear(&mut self) {
        let received = self.extensions.iter_mut().chain([&mut self.csrcs]).filter_map(Option::take);
        let deeper = self.deeper.drain(..).map(|(_, received)| received);
        self.blank.extend(received.chain(deeper).map(Received::into_list));
        self.blank.truncate(MAX_LEVELS + 1);
        self.protocol = None;
    }
}

/// What the last packet of a channel changed, to be written anew: so that packets which follow one another in a flow take no new
/// memory.
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
