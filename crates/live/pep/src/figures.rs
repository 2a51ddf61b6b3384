//! Counters of a proxy.

use std::net::SocketAddr;

use bentpipe_transport::tcp::PepTotals;
use bentpipe_transport::tcp::pep::RESERVE;
use bentpipe_units::Span;
use serde_json::{Value, json};

/// Receiver of lines for the log.
pub type Notice<'a> = &'a dyn Fn(&str);

/// Returns the line about a connection that gave way.
pub(crate) fn gave_way_text((client, server): (SocketAddr, SocketAddr), bytes: u64, stalled: Span) -> String {
    let seconds = stalled.as_nanos() / 1_000_000_000;
    format!(
        "reset the connection of {client} to {server}: memory is short, it held {bytes} B, and delivered less than {RESERVE} B in {seconds} s"
    )
}

/// Returns the line about connections that were forwarded because many are half open.
pub(crate) fn unsplit_text(new: u64, half_open: u64) -> String {
    format!(
        "connections forwarded as they are, not split: {new}; half-open ones: {half_open} (--answer after-server)"
    )
}

/// Counters of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Connections split.
    pub split: u64,
    /// Connections of which both directions ended.
    pub finished: u64,
    /// Connections that one end reset, or whose end fell silent.
    pub broken: u64,
    /// Connections to servers that refused or did not answer.
    pub refused: u64,
    /// Connections reset after a time without data.
    pub idle: u64,
    /// Connections reset because they delivered too little of what they held, and memory was needed.
    pub stalled: u64,
    /// Connections to the proxy itself, or that came back to it.
    pub loops: u64,
    /// Connections that could not be opened for want of descriptors or ports.
    pub failed: u64,
    /// Connections not split because of the limit. `None` by TPROXY: the kernel forwards them, and the proxy does not see them.
    pub over_limit: Option<u64>,
    /// Times at which the limit of connections was reached. `None` by TUN.
    pub limit_reached: Option<u64>,
    /// Connections not split because too many were half open. `None` by TPROXY.
    ///
    /// That is so where the server is to answer first.
    pub unsplit: Option<u64>,
    /// SYNs answered from the SYN cache. `None` by TPROXY, where the kernel has SYN cookies.
    pub cached: Option<u64>,
    /// Entries of the SYN cache that gave way to others. `None` by TPROXY.
    pub displaced: Option<u64>,
    /// Half-open connections. `None` by TPROXY: the kernel has them.
    pub half_open: Option<u64>,
    /// Segments dropped for want of memory, which their senders repeat.
    pub no_memory: u64,
    /// Connections that the end of the proxy reset.
    pub cut: u64,
    /// Present connections.
    pub present: u64,
    /// Maximum of present connections.
    pub peak: u64,
    /// Bytes that receivers towards the satellite have acknowledged.
    pub to_satellite: u64,
    /// Bytes that receivers towards the ground have acknowledged.
    pub to_ground: u64,
    /// Bytes acknowledged to their sender and lost, when connections broke or were cut.
    pub lost: u64,
    /// Bytes acknowledged to their sender and not delivered, of present connections.
    pub held: u64,
}

impl From<PepTotals> for Figures {
    fn from(totals: PepTotals) -> Figures {
        Figures {
            split: totals.split,
            finished: totals.finished,
            broken: totals.broken,
            refused: totals.refused,
            idle: totals.idle,
            stalled: totals.stalled,
            unsplit: Some(totals.unsplit),
            cached: Some(totals.cached),
            displaced: Some(totals.displaced),
            half_open: Some(totals.half_open),
            over_limit: Some(totals.over_limit),
            no_memory: totals.no_memory,
            cut: totals.cut,
            present: totals.present,
            peak: totals.peak,
            to_satellite: totals.to_satellite,
            to_ground: totals.to_ground,
            lost: totals.lost,
            held: totals.held,
            ..Figures::default()
        }
    }
}

impl Figures {
    /// Returns the figures as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "connections": {
                "split": self.split,
                "finished": self.finished,
                "broken": self.broken,
                "refused": self.refused,
                "idle": self.idle,
                "stalled": self.stalled,
                "loops": self.loops,
                "failed": self.failed,
                "cut": self.cut,
                "present": self.present,
                "peak": self.peak,
                "over_limit": self.over_limit,
                "limit_reached": self.limit_reached,
                "half_open": self.half_open,
                "over_half_open_limit": self.unsplit,
            },
            "syn_cache": { "answered": self.cached, "displaced": self.displaced },
            "segments": { "dropped_for_want_of_memory": self.no_memory },
            "bytes": {
                "to_satellite": self.to_satellite,
                "to_ground": self.to_ground,
                "acknowledged_and_lost": self.lost,
                "acknowledged_and_not_delivered": self.held,
            },
        })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "connections split   {} (at most {} at a time)", self.split, self.peak)?;
        let Figures { finished, broken, refused, idle, stalled, cut, .. } = self;
        writeln!(
            f,
            "  of them           {finished} finished, {broken} broken, {refused} refused, {idle} idle, {stalled} stalled, {cut} cut"
        )?;
        write!(f, "not split           {} loops, {} failed", self.loops, self.failed)?;
        if let Some(connections) = self.over_limit {
            write!(f, ", {connections} over the limit")?;
        }
        if let Some(connections @ 1..) = self.unsplit {
            write!(f, ", {connections} over the limit of half-open ones")?;
        }
        match self.limit_reached {
            None => writeln!(f),
            Some(1) => writeln!(f, ", limit reached once"),
            Some(times) => writeln!(f, ", limit reached {times} times"),
        }?;
        if let Some(cached @ 1..) = self.cached {
            writeln!(f, "SYN cache           {cached} answers, {} displaced", self.displaced.unwrap_or(0))?;
        }
        writeln!(f, "to the satellite    {} B", self.to_satellite)?;
        writeln!(f, "to the ground       {} B", self.to_ground)?;
        writeln!(f, "acknowledged, lost  {} B", self.lost)?;
        match self.no_memory {
            0 => Ok(()),
            segments => writeln!(f, "no memory           {segments} segments dropped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_reports_the_figure_of_the_limit_that_it_counts() {
        let tun = Figures::from(PepTotals { over_limit: 195, ..PepTotals::default() });
        assert!(tun.to_string().contains("0 failed, 195 over the limit\n"), "{tun}");
        let after_server = Figures::from(PepTotals { unsplit: 7, ..PepTotals::default() });
        let text = after_server.to_string();
        assert!(text.contains("0 over the limit, 7 over the limit of half-open ones\n"), "{text}");
        let tproxy = |times| Figures { limit_reached: Some(times), ..Figures::default() };
        assert!(tproxy(1).to_string().contains("0 failed, limit reached once\n"), "{}", tproxy(1));
        assert!(tproxy(0).to_string().contains("limit reached 0 times\n"), "{}", tproxy(0));
        let connections = |figures: Figures| figures.to_json()["connections"].clone();
        assert_eq!(connections(tun)["over_limit"], 195);
        assert_eq!(connections(tproxy(1))["over_limit"], Value::Null);
    }
}
