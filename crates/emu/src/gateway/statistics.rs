//! What a site did so far.

use bentpipe_net::dvb::{Received, Sent, Trouble};
use bentpipe_rohc::FlowStats;
use bentpipe_units::{Span, Time};

use super::{carrier, input, output};

/// All counts of a site since it started, and its gauges.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// How long it has been running.
    pub uptime: Span,
    /// The network here.
    pub lan: LanCounts,
    /// What was sent.
    pub carrier: carrier::Counts,
    /// How long after the end of its last slot a datagram left: median, 99 %, worst.
    pub lateness: [Span; 3],
    /// Each output.
    pub outputs: Vec<output::Counts>,
    /// Each input.
    pub inputs: Vec<input::Counts>,
    /// TS packets or baseband frames that are none of a remote site's: of no PID that was asked for, or damaged.
    pub strays: StrayCounts,
    /// Each remote site.
    pub remotes: Vec<RemoteStatistics>,
    /// Processor time that the gateway's thread took.
    pub cpu: Span,
    /// What went wrong since this was asked last.
    pub troubles: Vec<Troubles>,
}

/// The network here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanCounts {
    /// Packets or frames that the device gave.
    pub read: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Packets or frames that it was given.
    pub written: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Errors reading.
    pub read_errors: u64,
    /// Packets or frames that it did not take.
    pub write_errors: u64,
    /// Packets for no remote site's network.
    pub unrouted: u64,
    /// Frames between stations that are both here.
    pub local: u64,
    /// Frames that went to all remote sites.
    pub flooded: u64,
    /// Frames that no bridge passes on: to addresses 01:80:c2:00:00:00 to 0f, spanning tree among them.
    pub reserved: u64,
    /// Stations in the bridge's table.
    pub stations: u64,
    /// How often a station moved.
    pub station_moves: u64,
    /// Frames whose source was not learnt because the table was full.
    pub stations_refused: u64,
}

/// What arrived and is nobody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrayCounts {
    /// NULL packets.
    pub nulls: u64,
    /// TS packets of PIDs, or baseband frames of input streams, that were not asked for.
    pub unknown: u64,
    /// Baseband frames, or their mode adaptation headers, that cannot be read.
    pub malformed: u64,
}

/// A remote site.
#[derive(Clone, Debug, Default)]
pub struct RemoteStatistics {
    /// What it is called.
    pub name: String,
    /// What was sent to it.
    pub sent: Sent,
    /// What its compressor made.
    pub compression: FlowStats,
    /// Contexts of the compressor.
    pub contexts: u64,
    /// What waits to be sent, in bytes.
    pub queue_bytes: u64,
    /// Packets dropped because as much waited as may.
    pub overflowed: u64,
    /// Packets from it that were for it.
    pub looped: u64,
    /// What came from it, by PID.
    pub received: Vec<(u16, Received)>,
}

/// Something that went wrong, once or many times.
#[derive(Clone, Debug, PartialEq)]
pub struct Troubles {
    /// When first.
    pub at: Time,
    /// The remote site.
    pub remote: String,
    /// The PID.
    pub pid: u16,
    /// What.
    pub what: Trouble,
    /// How often since then.
    pub count: u64,
}

/// At most so many sorts of trouble are told apart between two looks.
const MAX_SORTS: usize = 64;

/// Gathers what goes wrong, one entry for each sort of it at each PID: so a storm makes a line, not a flood.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    entries: Vec<(Time, usize, u16, Trouble, u64)>,
}

impl Journal {
    pub(super) fn note(&mut self, now: Time, remote: usize, pid: u16, what: Trouble) {
        let same = |entry: &&mut (Time, usize, u16, Trouble, u64)| {
            (entry.1, entry.2, entry.3) == (remote, pid, what)
        };
        if let Some(entry) = self.entries.iter_mut().find(same) {
            entry.4 += 1;
        } else if self.entries.len() < MAX_SORTS {
            self.entries.push((now, remote, pid, what, 1));
        }
    }

    pub(super) fn take(&mut self, name: impl Fn(usize) -> String) -> Vec<Troubles> {
        let entries = self.entries.drain(..);
        entries
            .map(|(at, remote, pid, what, count)| Troubles { at, remote: name(remote), pid, what, count })
            .collect()
    }
}
