//! Samples for Prometheus. Names that the simulated proxy has too are its own.

use bentpipe_emu::exposition::Sample;
use bentpipe_net::metric::Metric;
use bentpipe_transport::tcp::pep::metrics::{BROKEN, HELD, LOST, OPENED, OVER_LIMIT, RELAYED, SPLIT};

use crate::figures::Figures;

bentpipe_net::metrics! {
    Counter FINISHED = "connections-finished", Count, "Split connections of which both directions ended";
    Counter REFUSED = "connections-refused", Count, "Connections that the server refused or did not answer";
    Counter IDLE = "connections-idle", Count, "Connections reset after a time without data";
    Counter STALLED = "connections-stalled", Count, "Connections reset because they delivered too little while memory was short";
    Counter UNSPLIT = "connections-over-half-open-limit", Count, "Connections forwarded as they are because too many were half open";
    Counter CACHED = "syns-cached", Count, "SYNs answered from the SYN cache";
    Counter DISPLACED = "syns-displaced", Count, "Entries of the SYN cache that gave way to others";
    Gauge HALF_OPEN = "connections-half-open", Count, "Half-open connections, with those of the SYN cache";
    Counter LOOPS = "connections-looped", Count, "Connections to the proxy itself, or that came back to it";
    Counter FAILED = "connections-failed", Count, "Connections that the system could not open";
    Counter LIMIT_REACHED = "connection-limit-reached", Count, "Times at which the limit of connections was reached";
    Counter NO_MEMORY = "segments-without-memory", Count, "Segments dropped for want of memory";
}

/// Returns the samples of all metrics.
pub(crate) fn samples(figures: &Figures) -> Vec<Sample> {
    let of = |metric: &'static Metric, value: u64, labels| Sample { metric, labels, value: value as f64 };
    let plain = [
        (&OPENED.metric, figures.split),
        (&FINISHED.metric, figures.finished),
        (&BROKEN.metric, figures.broken),
        (&REFUSED.metric, figures.refused),
        (&IDLE.metric, figures.idle),
        (&STALLED.metric, figures.stalled),
        (&LOOPS.metric, figures.loops),
        (&FAILED.metric, figures.failed),
        (&NO_MEMORY.metric, figures.no_memory),
        (&LOST.metric, figures.lost),
        (&SPLIT.metric, figures.present),
        (&HELD.metric, figures.held),
    ];
    let relayed = [("satellite", figures.to_satellite), ("ground", figures.to_ground)];
    let relayed = relayed.map(|(side, bytes)| of(&RELAYED.metric, bytes, vec![("towards", side.to_owned())]));
    // A figure that the mode does not count has no sample.
    let limits = [
        (&OVER_LIMIT.metric, figures.over_limit),
        (&LIMIT_REACHED.metric, figures.limit_reached),
        (&UNSPLIT.metric, figures.unsplit),
        (&CACHED.metric, figures.cached),
        (&DISPLACED.metric, figures.displaced),
        (&HALF_OPEN.metric, figures.half_open),
    ];
    let limits = limits.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
    let plain = plain.into_iter().chain(limits).map(|(metric, value)| of(metric, value, Vec::new()));
    plain.chain(relayed).collect()
}
