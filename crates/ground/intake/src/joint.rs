//! Joint of the pieces of a transport stream.
//!
//! Files and datagrams may cut packets anywhere.

use bentpipe_wire::ts::{PACKET_LEN, SYNC};

/// TS packet.
type Packet = [u8; PACKET_LEN];

/// Number of sync bytes in place that confirm a layout (ETSI TR 101 290).
const CONFIRMED: usize = 5;
/// Number of sync bytes in place in an unknown sender's datagram that cuts packets.
const CONFIRMED_IN_DATAGRAM: usize = 3;
/// Longest distance of packets.
const MAX_STRIDE: usize = 208;
/// Bytes within which a layout is confirmed or not.
const PROBED: usize = CONFIRMED * MAX_STRIDE;

/// Distance of stored packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Distance of sync bytes.
    pub stride: usize,
    /// Bytes in front of a sync byte that belong to its packet.
    pub lead: usize,
}

impl Layout {
    /// Layouts that are found.
    ///
    /// They are bare packets, and those with Reed-Solomon parity (EN 300 429), with an arrival time in front (M2TS), with the
    /// parity of ATSC (A/53).
    pub const ALL: [Layout; 4] = [
        Layout { stride: PACKET_LEN, lead: 0 },
        Layout { stride: 204, lead: 0 },
        Layout { stride: 192, lead: 4 },
        Layout { stride: MAX_STRIDE, lead: 0 },
    ];

    /// Returns the layout of datagrams of whole packets, if `bytes` is one.
    fn of_datagram(bytes: &[u8]) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| {
            let is_whole = !bytes.is_empty() && bytes.len().is_multiple_of(layout.stride);
            is_whole && layout.has_syncs(bytes, layout.lead)
        })
    }

    /// Returns `true` if all places of sync bytes from `at` on have one.
    fn has_syncs(self, bytes: &[u8], at: usize) -> bool {
        let mut places = (at..bytes.len()).step_by(self.stride);
        places.all(|place| bytes[place] == SYNC)
    }

    /// Returns `true` if the sync bytes from `at` on may be those of arrival times.
    ///
    /// Another one follows each.
    fn is_doubtful(self, bytes: &[u8], at: usize) -> bool {
        let mut places = (at..bytes.len()).step_by(self.stride).take(CONFIRMED);
        self.lead > 0 && places.all(|place| bytes.get(place + 1).is_none_or(|byte| *byte == SYNC))
    }
}

/// Place at which packets start.
enum Found {
    Layout(usize, Layout),
    /// More bytes are needed from this place on.
    Undecided(usize),
    Nothing,
}

/// Joint of the pieces of one stream. It keeps less than six packets.
#[derive(Clone, Debug, Default)]
pub struct Joint {
    layout: Option<Layout>,
    /// Start of a packet, or without a layout bytes in which packets are searched for.
    rest: Vec<u8>,
    /// Bytes between the last packet and the next sync byte.
    gap: usize,
    /// Set once a layout was found.
    has_begun: bool,
    /// Set once datagrams have cut a packet.
    is_cut: bool,
    outside: u64,
    joined: u64,
    faults: SyncFaults,
    /// Packets that are missing in front of the next one.
    missing: u64,
    /// Packets of the last datagram.
    in_datagram: u64,
    /// Layout that was lost, and the bytes since its last packet.
    lost: Option<(Layout, usize)>,
    gaps: Gaps,
}

/// Bytes between packets in other places than before, of one length each.
///
/// Those are the headers of a container. Damage has other lengths, or is of whole packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Length in bytes.
    pub len: usize,
    /// Number of gaps of this length.
    pub count: u64,
    /// Number of gaps of other lengths since the first of these.
    others: u64,
}

impl Gaps {
    fn add(&mut self, len: usize) {
        match self.count {
            0 => (self.len, self.count) = (len, 1),
            _ if self.len == len => self.count += 1,
            _ => self.others += 1,
        }
        // Another length may be that of most.
        if self.others > 2 * self.count {
            *self = Gaps::default();
        }
    }

    /// Returns `true` if most gaps have this length, and there are many.
    pub fn are_regular(self) -> bool {
        self.count >= REGULAR && self.count > self.others
    }
}

/// Number of gaps of one length that show a container.
const REGULAR: u64 = 20;

/// Faults of synchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFaults {
    /// Packets without their sync byte (TR 101 290, 1.2).
    pub sync_bytes: u64,
    /// Losses of synchronisation (TR 101 290, 1.1).
    ///
    /// They are two such packets in a row or more, or packets in other places.
    pub losses: u64,
}

impl Joint {
    /// Creates a joint before the first byte.
    pub fn new() -> Joint {
        Joint::default()
    }

    /// Returns the layout, while there is one.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Returns the number of bytes that belong to no packet.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// Returns the gaps between packets of a byte stream.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Returns the faults of synchronisation between packets.
    pub fn faults(&self) -> SyncFaults {
        self.faults
    }

    /// Returns the number of packets that were put together of two datagrams or more.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Returns `true` if a datagram is one of the stream, whose packets are passed on.
    ///
    /// Another one changes nothing. It has whole packets, goes on with the packet that one before has begun, or has three sync bytes in place.
    /// `each` gets the number of packets that are missing in front of each, too.
    pub fn datagram(&mut self, bytes: &[u8], mut each: impl FnMut(u64, &Packet)) -> bool {
        let Some(start) = self.start_of(bytes) else { return false };
        let (had, mut count) = (self.rest.len(), 0_u64);
        self.locked(&bytes[start..], &mut |missing, packet| {
            each(missing, packet);
            count += 1;
        });
        self.in_datagram = count;
        self.joined += u64::from(had > 0 && count > 0);
        self.is_cut |= !self.rest.is_empty();
        true
    }

    /// Returns `true` if a sender's first datagram shows packets.
    pub fn is_start(bytes: &[u8]) -> bool {
        Joint::new().start_of(bytes).is_some()
    }

    /// Notes that datagrams are missing, each of as many packets as the last one.
    pub fn miss(&mut self, datagrams: u64) {
        self.missing = self.missing.saturating_add(datagrams.saturating_mul(self.in_datagram));
        self.lose();
    }

    /// Drops the start of a packet whose end was lost.
    pub fn lose(&mut self) {
        self.faults.losses += u64::from(!self.rest.is_empty());
        self.outside += self.rest.len() as u64;
        self.rest.clear();
        self.gap = 0;
    }

    /// Returns `true` if a datagram has whole packets alone.
    pub fn is_whole(bytes: &[u8]) -> bool {
        Layout::of_datagram(bytes).is_some()
    }

    /// Returns `true` if a datagram goes on where the one before ended.
    pub fn goes_on(&self, bytes: &[u8]) -> bool {
        let Some(layout) = self.layout.filter(|_| !bytes.is_empty()) else { return false };
        // In a stream of whole packets a short datagram shows nothing by its first byte.
        if !self.is_cut && self.rest.is_empty() && bytes.len() < PACKET_LEN {
            return false;
        }
        layout.has_syncs(bytes, self.next())
    }

    /// Returns `true` if a datagram shows packets, or a sync byte in place.
    pub(crate) fn shows(&self, bytes: &[u8]) -> bool {
        let is_in_place = self.layout.is_some() && self.next() < bytes.len() && self.goes_on(bytes);
        is_in_place || Joint::is_start(bytes)
    }

    /// Returns the place of the next sync byte.
    fn next(&self) -> usize {
        let between = self.layout.map_or(0, |layout| layout.stride - PACKET_LEN);
        self.gap + if self.rest.is_empty() { 0 } else { PACKET_LEN - self.rest.len() + between }
    }

    /// Returns this joint in the place of one whose stream it resumes.
    pub(crate) fn behind(self, before: &Joint) -> Joint {
        let outside = self.outside + before.outside + before.rest.len() as u64;
        let SyncFaults { sync_bytes, losses } = before.faults;
        let faults = SyncFaults { sync_bytes, losses: losses + u64::from(before.has_begun) };
        Joint { outside, joined: self.joined + before.joined, faults, is_cut: true, ..self }
    }

    /// Returns the place from which a datagram goes on with packets, or has some.
    fn start_of(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.goes_on(bytes) {
            return Some(0);
        }
        match Layout::of_datagram(bytes) {
            Some(layout) => {
                self.begin(layout);
                Some(layout.lead)
            }
            None => self.cut_datagram(bytes),
        }
    }

    /// Finds the packets of a datagram that begins within one.
    ///
    /// That is after a loss, or where the stream is joined.
    fn cut_datagram(&mut self, bytes: &[u8]) -> Option<usize> {
        let is_layout = |at: usize, layout: Layout| {
            let count = (at..bytes.len()).step_by(layout.stride).count();
            count >= CONFIRMED_IN_DATAGRAM && layout.has_syncs(bytes, at)
        };
        let all = (0..bytes.len().min(MAX_STRIDE)).filter(|at| bytes[*at] == SYNC);
        let mut found =
            all.filter_map(|at| Layout::ALL.into_iter().find(|of| is_layout(at, *of)).map(|of| (at, of)));
        let first = found.next()?;
        let is_sound = |(at, layout): &(usize, Layout)| !layout.is_doubtful(bytes, *at);
        let (at, layout) = Some(first).filter(is_sound).or_else(|| found.find(is_sound)).unwrap_or(first);
        let was_begun = self.has_begun;
        self.begin(layout);
        // A stream that is joined begins within a packet.
        self.outside += if was_begun { at as u64 } else { 0 };
        Some(at)
    }

    /// Begins with a packet of this layout. The start of another one is lost.
    fn begin(&mut self, layout: Layout) {
        self.faults.losses += u64::from(!self.rest.is_empty());
        self.outside += self.rest.len() as u64;
        self.rest.clear();
        (self.layout, self.gap, self.has_begun) = (Some(layout), 0, true);
    }

    /// Handles the next bytes of a byte stream, as of a file.
    ///
    /// `each` gets the number of packets that are missing in front of each by the places of sync bytes, too.
    pub fn bytes(&mut self, bytes: &[u8], mut each: impl FnMut(u64, &Packet)) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            bytes = match self.layout {
                Some(_) => self.locked(bytes, &mut each),
                None if self.rest.is_empty() => self.search(bytes, false),
                None => self.search_rest(bytes, &mut each),
            };
        }
    }

    /// Ends a byte stream, whose last packets have fewer behind them than confirm a layout.
    pub fn end(&mut self, mut each: impl FnMut(u64, &Packet)) {
        while self.layout.is_none() && !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let mut bytes = self.search(&rest, true);
            while !bytes.is_empty() && self.layout.is_some() {
                bytes = self.locked(bytes, &mut each);
            }
            self.rest.extend_from_slice(bytes);
        }
        // What is lost at the end is not found again.
        self.faults.losses += u64::from(self.lost.take().is_some());
        self.outside += self.rest.len() as u64;
        self.rest.clear();
    }

    /// Handles bytes of the present layout.
    ///
    /// It returns those from the first packet without sync byte on.
    fn locked<'a>(&mut self, bytes: &'a [u8], each: &mut impl FnMut(u64, &Packet)) -> &'a [u8] {
        let Some(layout) = self.layout else { return bytes };
        let between = layout.stride - PACKET_LEN;
        let mut bytes = bytes;
        loop {
            let gap = self.gap.min(bytes.len());
            (self.gap, bytes) = (self.gap - gap, &bytes[gap..]);
            let Some(first) = bytes.first() else { return bytes };
            if self.rest.is_empty() && *first != SYNC {
                (self.layout, self.lost) = (None, Some((layout, 0)));
                return bytes;
            }
            match bytes.first_chunk::<PACKET_LEN>().filter(|_| self.rest.is_empty()) {
                Some(packet) => {
                    each(std::mem::take(&mut self.missing), packet);
                    (self.gap, bytes) = (between, &bytes[PACKET_LEN..]);
                }
                None => {
                    let (part, behind) = bytes.split_at(bytes.len().min(PACKET_LEN - self.rest.len()));
                    self.rest.extend_from_slice(part);
                    bytes = behind;
                    if let Some(packet) = self.rest.first_chunk() {
                        each(std::mem::take(&mut self.missing), packet);
                        self.rest.clear();
                        self.gap = between;
                    }
                }
            }
        }
    }

    /// Searches bytes for packets, and returns those from the first packet on.
    ///
    /// What may start one is kept.
    fn search<'a>(&mut self, bytes: &'a [u8], is_end: bool) -> &'a [u8] {
        let end = &bytes[bytes.len()..];
        let found = self.in_place(bytes, is_end, find(bytes, is_end, !self.has_begun));
        let (skipped, rest) = match found {
            Found::Layout(at, layout) => {
                (self.layout, self.gap, self.has_begun) = (Some(layout), 0, true);
                self.found(at, layout);
                (at.saturating_sub(layout.lead), &bytes[at..])
            }
            Found::Undecided(at) => {
                self.rest.extend_from_slice(&bytes[at..]);
                (at, end)
            }
            Found::Nothing => (bytes.len(), end),
        };
        if let (Some((_, since)), None) = (&mut self.lost, self.layout) {
            *since += skipped;
        }
        self.outside += skipped as u64;
        rest
    }

    /// Returns the packet behind one without sync byte.
    ///
    /// Packets that go on in other places before are found as ever.
    ///
    /// One of the two behind it confirms the place, so that each second sync byte may be wrong.
    fn in_place(&self, bytes: &[u8], is_end: bool, found: Found) -> Found {
        let Some((layout, 0)) = self.lost else { return found };
        let is_sync = |count: usize| bytes.get(count * layout.stride) == Some(&SYNC);
        match found {
            Found::Layout(at, _) if at < layout.stride => found,
            Found::Undecided(at) if at < layout.stride => Found::Undecided(0),
            _ if !is_end && bytes.len() <= 3 * layout.stride => Found::Undecided(0),
            _ if is_sync(1) && (is_sync(2) || is_sync(3)) => Found::Layout(layout.stride, layout),
            _ => found,
        }
    }

    /// Counts the fault that ends with a packet `at` bytes on.
    fn found(&mut self, at: usize, layout: Layout) {
        let Some((before, since)) = self.lost.take() else { return };
        let distance = since + at;
        let is_in_place = before == layout && distance.is_multiple_of(layout.stride);
        let damaged = if is_in_place { distance / layout.stride } else { 0 };
        if !is_in_place {
            self.gaps.add(distance);
        }
        // A byte too many or too few does not make a packet.
        self.missing += ((distance + layout.stride / 2) / layout.stride) as u64;
        self.faults.sync_bytes += damaged as u64;
        self.faults.losses += u64::from(damaged != 1);
    }

    /// Searches the bytes that wait with more of those that come.
    fn search_rest<'a>(&mut self, bytes: &'a [u8], each: &mut impl FnMut(u64, &Packet)) -> &'a [u8] {
        let (more, behind) = bytes.split_at(bytes.len().min(PROBED));
        let rest = [&std::mem::take(&mut self.rest)[..], more].concat();
        let mut found = self.search(&rest, false);
        while !found.is_empty() {
            found = match self.layout {
                Some(_) => self.locked(found, each),
                None => self.search(found, false),
            };
        }
        behind
    }
}

/// Finds the first place with sync bytes as far apart as in a layout.
///
/// At the end of a stream there may be fewer than confirm it. One alone counts where it is first, or its packet ends the
/// stream. A doubtful place counts if no other follows it.
fn find(bytes: &[u8], is_end: bool, is_first: bool) -> Found {
    let mut doubtful: Option<(usize, Layout)> = None;
    for at in (0..bytes.len()).filter(|at| bytes[*at] == SYNC) {
        if let Some((first, layout)) = doubtful
            && at >= first + layout.stride
        {
            return Found::Layout(first, layout);
        }
        let mut is_open = false;
        for layout in Layout::ALL {
            let mut places = (at..bytes.len()).step_by(layout.stride).take(CONFIRMED);
            let count = places.len();
            if !places.all(|place| bytes[place] == SYNC) {
                continue;
            }
            let left = bytes.len() - at;
            let is_last = left >= PACKET_LEN && (count > 1 || left == PACKET_LEN || at == 0 && is_first);
            let is_found = count == CONFIRMED || is_end && is_last;
            match is_found {
                true if layout.is_doubtful(bytes, at) => doubtful = doubtful.or(Some((at, layout))),
                true => return Found::Layout(at, layout),
                false => is_open = !is_end,
            }
        }
        if is_open {
            return Found::Undecided(doubtful.map_or(at, |(first, _)| first));
        }
    }
    match doubtful {
        Some((first, layout)) if is_end || bytes.len() >= first + layout.stride => {
            Found::Layout(first, layout)
        }
        Some((first, _)) => Found::Undecided(first),
        None => Found::Nothing,
    }
}
