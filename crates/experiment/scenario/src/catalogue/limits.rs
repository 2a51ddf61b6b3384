//! Limits of a scenario file as a whole.

use crate::axes::MAX_POINTS;
use crate::document::MAX_FILE_BYTES;
use crate::validate::{MAX_DURATION, MAX_FLOWS, MAX_LINKS, MAX_NODES, MAX_SAMPLES};

/// Returns the limits of a file as a whole: quantity and value.
pub fn limits() -> Vec<(&'static str, String)> {
    vec![
        ("size of the file", format!("{} KiB", MAX_FILE_BYTES >> 10)),
        ("nodes, copies included, and tables of links", MAX_NODES.to_string()),
        ("links, copies included", MAX_LINKS.to_string()),
        ("flows, copies included", MAX_FLOWS.to_string()),
        ("points of a sweep, and runs", MAX_POINTS.to_string()),
        ("duration", format!("{} days", MAX_DURATION.as_nanos() / 86_400_000_000_000)),
        ("samples of each value", MAX_SAMPLES.to_string()),
        ("rate of a line", bentpipe_site::line::MAX_RATE.to_string()),
        ("delay of a link", bentpipe_site::MAX_DELAY.to_string()),
    ]
}
