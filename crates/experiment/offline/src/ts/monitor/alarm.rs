//! Alarms, their limits, and the timers that raise them.

use bentpipe_report::number;
use bentpipe_units::{Rate, Span};
use bentpipe_wire::ts::Pid;

/// Limits of the alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time without any packet.
    pub silence: Span,
    /// Longest interval of PAT and PMT (items 1.3.a and 1.5.a).
    pub tables: Span,
    /// Longest interval of packets of a PID that a PMT names (item 1.6).
    pub pid: Span,
    /// Longest interval of clock references (items 2.3a and 2.3b).
    ///
    /// It is by values, and of those further apart by arrival.
    pub references: Span,
    /// Longest time without any, by arrival. Datagrams come in bursts, so it is longer.
    pub clock_silence: Span,
    /// Longest interval of presentation time stamps (item 2.5).
    pub stamps: Span,
    /// Lowest and highest rate of all packets over a second.
    pub rate: [Option<Rate>; 2],
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            silence: Span::from_millis(500),
            tables: Span::from_millis(500),
            pid: Span::from_secs(5),
            references: Span::from_millis(100),
            clock_silence: Span::from_millis(500),
            stamps: Span::from_millis(700),
            rate: [None, None],
        }
    }
}

/// Alarm of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Time in nanoseconds since 1970.
    pub at_ns: u64,
    /// Indicator: number and name of TR 101 290, or a name alone.
    pub indicator: Indicator,
    /// PID, if it is about one.
    pub pid: Option<Pid>,
    /// Set if the condition has ended.
    pub is_over: bool,
    /// Details.
    pub text: String,
}

/// Conditions that raise alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Indicator {
    /// No packets, or bytes that are not packets.
    SyncLoss,
    /// Datagram or packet that cannot be read.
    SyncByte,
    /// PAT missing, scrambled, or another table on its PID.
    Pat,
    /// Gap of a continuity counter.
    Continuity,
    /// PMT missing.
    Pmt,
    /// PID of a PMT missing.
    Pid,
    /// Transport error indicator.
    Transport,
    /// Wrong CRC of a table.
    Crc,
    /// Clock references too rare by arrival.
    PcrRepetition,
    /// Clock references too far apart by their values, as at unannounced jumps.
    PcrDiscontinuity,
    /// Presentation time stamps too rare.
    Pts,
    /// Rate outside of its band.
    Rate,
    /// RTP datagrams lost.
    Rtp,
}

impl Indicator {
    /// Returns all indicators in the order of the document.
    pub const ALL: [Indicator; 13] = [
        Indicator::SyncLoss,
        Indicator::SyncByte,
        Indicator::Pat,
        Indicator::Continuity,
        Indicator::Pmt,
        Indicator::Pid,
        Indicator::Transport,
        Indicator::Crc,
        Indicator::PcrRepetition,
        Indicator::PcrDiscontinuity,
        Indicator::Pts,
        Indicator::Rate,
        Indicator::Rtp,
    ];

    /// Returns the number in TR 101 290, empty without one, and the name.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Indicator::SyncLoss => ("1.1", "TS_sync_loss"),
            Indicator::SyncByte => ("1.2", "Sync_byte_error"),
            Indicator::Pat => ("1.3.a", "PAT_error_2"),
            Indicator::Continuity => ("1.4", "Continuity_count_error"),
            Indicator::Pmt => ("1.5.a", "PMT_error_2"),
            Indicator::Pid => ("1.6", "PID_error"),
            Indicator::Transport => ("2.1", "Transport_error"),
            Indicator::Crc => ("2.2", "CRC_error"),
            Indicator::PcrRepetition => ("2.3a", "PCR_repetition_error"),
            Indicator::PcrDiscontinuity => ("2.3b", "PCR_discontinuity_indicator_error"),
            Indicator::Pts => ("2.5", "PTS_error"),
            Indicator::Rate => ("", "rate"),
            Indicator::Rtp => ("", "RTP loss"),
        }
    }
}

impl std::fmt::Display for Indicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.names() {
            ("", name) => f.write_str(name),
            (item, name) => write!(f, "{item} {name}"),
        }
    }
}

/// Timer of something that must come again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer {
    /// Time of the last event, or of the start of waiting. `None` if nothing is expected.
    pub(super) last_ns: Option<u64>,
    pub(super) is_raised: bool,
}

impl Timer {
    /// Notes an event. Returns the seconds since the last one if they were too many, and `true` if that is known already.
    pub(super) fn note(&mut self, at_ns: u64, limit: Span) -> Option<(f64, bool)> {
        let gap_ns = at_ns.saturating_sub(self.last_ns.replace(at_ns)?);
        let was_raised = std::mem::take(&mut self.is_raised);
        (was_raised || gap_ns > limit.as_nanos()).then_some((gap_ns as f64 / 1e9, was_raised))
    }

    /// Begins to wait, if it does not yet.
    pub(super) fn expect(&mut self, at_ns: u64) {
        self.last_ns.get_or_insert(at_ns);
    }

    /// Returns the seconds without an event once they are too many.
    pub(super) fn check(&mut self, now_ns: u64, limit: Span) -> Option<f64> {
        let gap_ns = now_ns.saturating_sub(self.last_ns?);
        let is_late = gap_ns > limit.as_nanos() && !self.is_raised;
        self.is_raised |= is_late;
        is_late.then_some(gap_ns as f64 / 1e9)
    }

    /// Begins again, as after a pause of the whole stream.
    pub(super) fn restart(&mut self, at_ns: u64) {
        if self.last_ns.is_some() {
            *self = Timer { last_ns: Some(at_ns), is_raised: self.is_raised };
        }
    }
}

pub(super) fn event(at_ns: u64, indicator: Indicator, pid: Option<Pid>, text: String) -> Alarm {
    Alarm { at_ns, indicator, pid, is_over: false, text }
}

/// Returns the alarm of an event that came too late. It is its end, or all of it if it was not known before.
pub(super) fn noted(
    late: Option<(f64, bool)>,
    at_ns: u64,
    indicator: Indicator,
    pid: Option<Pid>,
) -> Option<Alarm> {
    let (gap_s, was_raised) = late?;
    let gap = number(gap_s);
    let text = if was_raised { format!("over after {gap} s") } else { format!("{gap} s apart") };
    Some(Alarm { is_over: was_raised, ..event(at_ns, indicator, pid, text) })
}
