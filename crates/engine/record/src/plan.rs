//! Burst time plans of runs: a line for each burst that a terminal may send.

use std::io::BufRead;

/// Returns the name of the file that holds a carrier's plan in a run's folder.
pub fn plan_file(carrier: &str) -> String {
    format!("plan-{carrier}.csv")
}

/// A burst that a terminal may send.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst {
    /// Start, in seconds.
    pub start_s: f64,
    /// End, in seconds.
    pub end_s: f64,
    /// The number of its carrier.
    pub carrier: u16,
    /// The terminal's link.
    pub terminal: String,
}

/// Reads a burst time plan, as far as it is one.
pub fn read_plan(file: impl BufRead) -> Vec<Burst> {
    let burst = |line: String| {
        let mut fields = line.split(',');
        let (start_s, end_s) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (carrier, terminal) = (fields.next()?.parse().ok()?, fields.next()?.to_owned());
        Some(Burst { start_s, end_s, carrier, terminal })
    };
    file.lines().map_while(Result::ok).filter_map(burst).collect()
}
