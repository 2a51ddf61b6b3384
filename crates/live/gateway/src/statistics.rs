//! Statistics of a site.

use bentpipe_dvb::{Anomaly, Received, Sent};
use bentpipe_rohc::FlowStats;
use bentpipe_units::{Span, Time};

use super::udlr::UdlrCounts;
use super::{carrier, input, output, tap};

/// Counters of a site since it started, and its gauges.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Uptime.
    pub uptime: Span,
    /// LAN.
    pub lan: LanCounts,
    /// Carrier.
    pub carrier: carrier::Counts,
    /// Lateness of datagrams after the end of their last slot: median, 99 %, maximum.
    pub lateness: [Span; 3],
    /// Each output.
    pub outputs: Vec<output::Counts>,
    /// Each input.
    pub inputs: Vec<input::Counts>,
    /// TS packets or BBFRAMEs of no remote site.
    pub strays: StrayCounts,
    /// PIDs or input streams without a receiver, in the order in which they came.
    pub unexpected: Vec<u16>,
    /// Each remote site.
    pub remotes: Vec<RemoteStatistics>,
    /// Captures.
    pub captures: tap::Counts,
    /// Processor time of the thread of the gateway.
    pub cpu: Span,
    /// Anomalies since the last request.
    pub anomalies: Vec<Anomalies>,
}

/// Counters of the LAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanCounts {
    /// Packets or frames read from the device.
    pub read: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Packets or frames written to the device.
    pub written: u64,
    /// Bytes written.
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
    /// Frames to reserved addresses, spanning tree among them, which no bridge forwards.
    pub reserved: u64,
    /// Stations in the bridge's table.
    pub stations: u64,
    /// Moves of stations.
    pub station_moves: u64,
    /// Frames whose source was not learnt because the table was full.
    pub stations_refused: u64,
}

/// Counters of unassigned packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrayCounts {
    /// NULL packets.
    pub nulls: u64,
    /// TS packets with tables.
    pub tables: u64,
    /// TS packets or BBFRAMEs of PIDs or input streams without a receiver.
    pub unknown: u64,
    /// BBFRAMEs or mode adaptation headers that cannot be parsed.
    pub malformed: u64,
}

/// Counters of a remote site.
#[derive(Clone, Debug, Default)]
pub struct RemoteStatistics {
    /// Name.
    pub name: String,
    /// Sent packets.
    pub sent: Sent,
    /// Compression.
    pub compression: FlowStats,
    /// Contexts of the compressor.
    pub contexts: u64,
    /// Backlog in bytes.
    pub queue_bytes: u64,
    /// Packets dropped because the backlog was at its limit.
    pub overflowed: u64,
    /// Packets from it to a network behind it.
    pub looped: u64,
    /// Tunnel of a one-way carrier.
    pub udlr: Option<UdlrCounts>,
    /// Received packets, by PID.
    pub received: Vec<(u16, Received)>,
}

/// Anomalies of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomalies {
    /// Time of the first.
    pub at: Time,
    /// Remote site.
    pub remote: String,
    /// PID.
    pub pid: u16,
    /// Kind.
    pub what: Anomaly,
    /// Number since then.
    pub count: u64,
}

/// Maximum number of kinds that are distinguished between two requests.
const MAX_SORTS: usize = 64;

/// Log of anomalies, one entry for each kind and PID: a storm makes a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    entries: Vec<(Time, usize, u16, Anomaly, u64)>,
}

impl Journal {
    pub(crate) fn note(&mut self, now: Time, remote: usize, pid: u16, what: Anomaly) {
        let same = |entry: &&mut (Time, usize, u16, Anomaly, u64)| {
            (entry.1, entry.2, entry.3) == (remote, pid, what)
        };
        if let Some(entry) = self.entries.iter_mut().find(same) {
            entry.4 += 1;
        } else if self.entries.len() < MAX_SORTS {
            self.entries.push((now, remote, pid, what, 1));
        }
    }

    pub(crate) fn take(&mut self, name: impl Fn(usize) -> String) -> Vec<Anomalies> {
        let entries = self.entries.drain(..);
        entries
            .map(|(at, remote, pid, what, count)| Anomalies { at, remote: name(remote), pid, what, count })
            .collect()
    }
}
