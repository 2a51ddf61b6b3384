//! Data fields that PDUs of several sources share.

use bentpipe_units::Time;
use bentpipe_wire::gse::InputStream;

/// Source of PDUs for data fields.
pub trait PduSource {
    /// Returns the number of bytes that wait.
    fn waiting_len(&self) -> usize;

    /// Returns the time at which a data field is sent that is not full.
    ///
    /// It is `None` if nothing waits.
    fn due(&self) -> Option<Time>;

    /// Returns `true` if the first part of a PDU is sent, and the rest waits.
    fn is_fragmented(&self) -> bool;

    /// Appends a packet of at most `room` bytes to a data field. Returns its length.
    ///
    /// It is 0 if nothing waits or the room does not suffice.
    fn fill_packet(&mut self, at: Time, stream: &mut InputStream, room: usize, out: &mut Vec<u8>) -> usize;

    /// Ends a data field with packets of this source. `is_full`: it was not sent because of a packing threshold.
    fn end_field(&mut self, at: Time, is_full: bool);
}

/// Sources whose PDUs go into the same data fields.
#[derive(Clone, Debug)]
struct Group {
    members: Vec<usize>,
    /// Number of the input stream.
    stream: usize,
    /// Bytes of a data field.
    capacity: usize,
}

/// Multiplexer of PDUs into data fields, each with PDUs of one group of sources.
///
/// The source with the least start tag sends next, so sources that have much to send get equal bytes, and the packets of
/// others go with the next data field. A source has its start tag from the instant at which it begins to wait. So a group
/// that waits while another fills a field keeps its place. Between groups, padding counts as bytes of those that left it. A PDU
/// that is cut at the end of a field goes on in the next one of its group.
#[derive(Clone, Debug)]
pub struct Fields {
    groups: Vec<Group>,
    streams: Vec<InputStream>,
    /// Finish tag of each source: bytes in virtual time.
    tags: Vec<u64>,
    /// Start tag of each source that waits.
    starts: Vec<Option<u64>>,
    /// Start tag of the last packet that began.
    virtual_time: u64,
    /// Bytes of each source in the last data field.
    shares: Vec<(usize, usize)>,
}

impl Fields {
    /// Creates a multiplexer of sources in groups.
    ///
    /// Each group has its members and the number of its input stream.
    pub fn new(sources: usize, groups: Vec<(Vec<usize>, usize)>) -> Fields {
        let mut fields = Fields {
            groups: Vec::new(),
            streams: Vec::new(),
            tags: vec![0; sources],
            starts: vec![None; sources],
            virtual_time: 0,
            shares: Vec::new(),
        };
        fields.regroup(groups);
        fields
    }

    /// Regroups the same sources.
    pub fn regroup(&mut self, groups: Vec<(Vec<usize>, usize)>) {
        let streams = groups.iter().map(|(_, stream)| stream + 1).max().unwrap_or(0);
        self.streams.resize(streams, InputStream::default());
        let group = |(members, stream)| Group { members, stream, capacity: usize::MAX };
        self.groups = groups.into_iter().map(group).collect();
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the members of a group.
    pub fn members(&self, group: usize) -> &[usize] {
        &self.groups[group].members
    }

    /// Sets the length in bytes of the next data field of a group.
    pub fn set_capacity(&mut self, group: usize, capacity: usize) {
        self.groups[group].capacity = capacity;
    }

    /// Returns the number of bytes that a source of a group should have ready.
    ///
    /// It is a data field if the source is alone, else one PDU.
    pub fn backlog(&self, group: usize) -> usize {
        let Group { members, capacity, .. } = &self.groups[group];
        if members.len() == 1 { *capacity } else { 1 }
    }

    /// Returns the time at which a group has a data field to send.
    ///
    /// A full one is sent at once.
    pub fn ready<S: PduSource>(&self, group: usize, sources: &[S]) -> Option<Time> {
        let group = &self.groups[group];
        let members = || group.members.iter().map(|n| &sources[*n]);
        let waiting: usize = members().map(PduSource::waiting_len).sum();
        if waiting >= group.capacity {
            return Some(Time::ZERO);
        }
        members().filter_map(PduSource::due).min()
    }

    /// Returns the group that sends next at `at`.
    ///
    /// It is the one with the least start tag of those that are ready.
    pub fn next_group<S: PduSource>(&mut self, at: Time, sources: &[S]) -> Option<usize> {
        self.note_waiting(sources);
        let ready = (0..self.groups.len())
            .filter(|group| self.ready(*group, sources).is_some_and(|ready| ready <= at));
        let least = |group: &usize| self.groups[*group].members.iter().filter_map(|n| self.starts[*n]).min();
        ready.min_by_key(least)
    }

    /// Sets the start tags of sources that began to wait.
    ///
    /// That is the virtual time, or where their last packet ended.
    fn note_waiting<S: PduSource>(&mut self, sources: &[S]) {
        for (n, source) in sources.iter().enumerate() {
            let start = self.starts[n].unwrap_or(self.tags[n].max(self.virtual_time));
            self.starts[n] = (source.waiting_len() > 0).then_some(start);
        }
    }

    /// Returns the next source of a group. It is one with a cut PDU, else the least start tag.
    fn next_source<S: PduSource>(&self, group: usize, sources: &[S]) -> Option<usize> {
        let waiting = self.groups[group].members.iter().copied();
        let waiting = waiting.filter_map(|n| Some((!sources[n].is_fragmented(), self.starts[n]?, n)));
        waiting.min().map(|(.., n)| n)
    }

    /// Appends a data field of a group and returns its length. `None` if nothing can be sent.
    pub fn fill<S: PduSource>(
        &mut self,
        at: Time,
        group: usize,
        sources: &mut [S],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let Group { stream, capacity, .. } = self.groups[group];
        let is_full = self.ready(group, sources) == Some(Time::ZERO);
        let begin = out.len();
        self.note_waiting(sources);
        self.streams[stream].begin_field();
        self.shares.clear();
        while let Some(next) = self.next_source(group, sources) {
            let (source, room) = (&mut sources[next], capacity - (out.len() - begin));
            let len = source.fill_packet(at, &mut self.streams[stream], room, out);
            let is_waiting = source.waiting_len() > 0;
            if len == 0 && is_waiting {
                break;
            }
            self.charge(next, len, is_waiting);
        }
        self.shares.iter().for_each(|(n, _)| sources[*n].end_field(at, is_full));
        let len = out.len() - begin;
        self.charge_padding(capacity.saturating_sub(len));
        Some(len).filter(|len| *len > 0)
    }

    /// Notes that the rest of a data field stayed empty. Other groups could have had it, so its sources pay for it.
    fn charge_padding(&mut self, len: usize) {
        let each = len.checked_div(self.shares.len()).filter(|_| self.groups.len() > 1).unwrap_or(0);
        for (source, _) in &self.shares {
            self.tags[*source] += each as u64;
            self.starts[*source] = self.starts[*source].map(|start| start + each as u64);
        }
    }

    /// Notes that a source sent `len` bytes from its start tag on.
    ///
    /// `is_waiting`: it has more to send.
    fn charge(&mut self, source: usize, len: usize, is_waiting: bool) {
        let start = self.starts[source].unwrap_or(self.virtual_time);
        self.virtual_time = self.virtual_time.max(start);
        self.tags[source] = start + len as u64;
        self.starts[source] = is_waiting.then_some(self.tags[source]);
        if len == 0 {
            return;
        }
        match self.shares.iter_mut().find(|(n, _)| *n == source) {
            Some((_, share)) => *share += len,
            None => self.shares.push((source, len)),
        }
    }

    /// Returns the sources in the last data field, each with its bytes.
    pub fn shares(&self) -> &[(usize, usize)] {
        &self.shares
    }
}
