//! Records whose use is not decided yet, and fragments that wait for others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_units::Time;
use bentpipe_wire::ip::fragments::Reassembler;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::pcap::{LinkType, OptionsBuf, Record};
use bentpipe_wire::udp;

use crate::Link;
use crate::duplicates::Sum;

/// Longest options that wait with their record, in bytes.
const MAX_OPTIONS_LEN: usize = 512;
/// Most fragments, and bytes of their records, that wait for others.
const MAX_FRAGMENTS: [usize; 2] = [1 << 14, 1 << 23];

/// Most used fragments that are remembered.
const MAX_USED: usize = 1024;
/// Longest time from a used fragment to its copy, nanoseconds.
const COPY_NS: u64 = 1_000_000_000;

/// Copy of a record whose use is not decided yet.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    time_ns: Option<u64>,
    interface: u32,
    interface_name: Option<String>,
    link_type: LinkType,
    original_len: usize,
    pub(crate) bytes: Vec<u8>,
    options: OptionsBuf,
}

impl Kept {
    pub(crate) fn new(number: u64, record: &Record<'_>) -> Kept {
        Kept {
            number,
            time_ns: record.time_ns,
            interface: record.interface,
            interface_name: record.interface_name.map(str::to_owned),
            link_type: record.link_type,
            original_len: record.original_len,
            bytes: record.bytes.to_vec(),
            options: record.options.copied(MAX_OPTIONS_LEN),
        }
    }

    fn sum(&self) -> u64 {
        let mut sum = Sum(u64::from(self.interface) + 1);
        sum.bytes(&self.bytes);
        sum.0
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            time_ns: self.time_ns,
            interface: self.interface,
            interface_name: self.interface_name.as_deref(),
            link_type: self.link_type,
            original_len: self.original_len,
            bytes: &self.bytes,
            options: self.options.options(),
        }
    }
}

/// Records of fragments whose datagram was given up.
type Dropped = Arc<Mutex<Vec<Kept>>>;

/// Record of a fragment. If the reassembly drops it, it is in the list of the dropped.
#[derive(Debug)]
struct Fragment {
    kept: Option<Kept>,
    dropped: Dropped,
}

impl Drop for Fragment {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
    }
}

/// Packet of fragments, and their records.
pub(crate) type Whole = (Vec<u8>, Vec<Kept>);

/// Fragments that wait for others, those of each link by themselves.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    links: Vec<(Link, Reassembler<Fragment>)>,
    /// Fragments that wait, and bytes of their records.
    waiting: [usize; 2],
    dropped: Dropped,
    /// Sums of the last fragments that were used, with their times.
    used: VecDeque<(u64, u64)>,
}

/// Returns `true` unless a checksum shows that a packet's fragments are of several.
///
/// Identifications recur, and a lost fragment leaves the place of its packet to another one.
pub(crate) fn is_one(packet: &[u8]) -> bool {
    let Ok(ip) = ip::Packet::new_checked(packet) else { return true };
    let Ok(upper) = ip.upper() else { return true };
    if upper.protocol != Protocol::UDP || upper.is_fragment {
        return true;
    }
    let datagram = udp::Datagram::new_elided(upper.bytes, upper.elided);
    datagram.is_ok_and(|datagram| datagram.checksum() == 0 || datagram.verify_checksum(&upper.pseudo).is_ok())
}

/// Fragments that are given up.
pub(crate) struct GivenUp {
    /// Fragments that came shortly before, in a packet that was complete.
    pub(crate) copies: Vec<Kept>,
    /// Fragments of incomplete packets.
    pub(crate) incomplete: Vec<Kept>,
}

impl Fragments {
    /// Most links whose fragments are kept apart; those of further ones replace the oldest.
    const MAX_LINKS: usize = 16;

    /// Adds the record of a fragment, and returns the packet that it completes.
    ///
    /// Records that are given up meanwhile are in [`Fragments::dropped`].
    pub(crate) fn add(
        &mut self,
        number: u64,
        link: Link,
        record: &Record<'_>,
        packet: &[u8],
    ) -> Option<Whole> {
        let [count, bytes] = [self.waiting[0] + 1, self.waiting[1] + record.bytes.len()];
        if count > MAX_FRAGMENTS[0] || bytes > MAX_FRAGMENTS[1] {
            self.give_up();
        }
        let kept = Kept::new(number, record);
        self.waiting[0] += 1;
        self.waiting[1] += kept.bytes.len();
        let attached = Fragment { kept: Some(kept), dropped: Arc::clone(&self.dropped) };
        let now = Time::from_nanos(record.time_ns.unwrap_or(0));
        let (packet, mut attached) = self.of(link).add_with(packet, now, attached)?;
        let all: Vec<Kept> = attached.iter_mut().filter_map(|fragment| fragment.kept.take()).collect();
        self.wait_no_longer(&all);
        let excess = (self.used.len() + all.len()).saturating_sub(MAX_USED);
        self.used.drain(..excess.min(self.used.len()));
        self.used.extend(all.iter().map(|kept| (kept.sum(), kept.time_ns.unwrap_or(0))));
        Some((packet, all))
    }

    /// Returns the fragments of a link.
    fn of(&mut self, link: Link) -> &mut Reassembler<Fragment> {
        let place = self.links.iter().position(|(of, _)| *of == link).unwrap_or_else(|| {
            if self.links.len() == Fragments::MAX_LINKS {
                self.links.remove(0);
            }
            self.links.push((link, Reassembler::default()));
            self.links.len() - 1
        });
        &mut self.links[place].1
    }

    /// Drops the packets that are incomplete.
    pub(crate) fn give_up(&mut self) {
        self.links.clear();
    }

    fn wait_no_longer(&mut self, all: &[Kept]) {
        self.waiting[0] -= all.len();
        self.waiting[1] -= all.iter().map(|fragment| fragment.bytes.len()).sum::<usize>();
    }

    /// Returns the records of fragments that were given up since the last call.
    pub(crate) fn dropped(&mut self) -> GivenUp {
        let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
        self.wait_no_longer(&dropped);
        let (copies, incomplete) = dropped.into_iter().partition(|kept| self.came_before(kept));
        GivenUp { copies, incomplete }
    }

    /// Returns `true` if a fragment is one that was used shortly before.
    fn came_before(&self, kept: &Kept) -> bool {
        let Some(time_ns) = kept.time_ns else { return false };
        let sum = kept.sum();
        self.used.iter().any(|(used, at_ns)| *used == sum && time_ns.abs_diff(*at_ns) <= COPY_NS)
    }
}
