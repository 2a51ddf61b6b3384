//! The burst time plan as it was broadcast: a line for each burst that a terminal may send.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::Packet;
use bentpipe_net::dama::{Frame, PlanEntry};
use bentpipe_units::Time;

/// Bursts that are kept at most, from the beginning of the run.
const MAX_BURSTS: usize = 50_000;

/// Takes down a carrier's burst time plans.
pub struct PlanLog {
    frame: Arc<Frame>,
    bursts: Arc<Mutex<Vec<Burst>>>,
}

/// A burst that a terminal may send.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst {
    /// When it starts, in seconds.
    pub start_s: f64,
    /// When it ends, in seconds.
    pub end_s: f64,
    /// The number of its carrier.
    pub carrier: u16,
    /// The terminal's link.
    pub terminal: String,
}

impl PlanLog {
    /// An empty log of carriers of this structure.
    pub fn new(frame: &Arc<Frame>) -> PlanLog {
        PlanLog { frame: Arc::clone(frame), bursts: Arc::default() }
    }

    /// What to tap a terminal's input of plans with.
    pub fn tap(&self, terminal: &str) -> impl FnMut(Time, &Packet) + Send + use<> {
        let (frame, bursts, terminal) =
            (Arc::clone(&self.frame), Arc::clone(&self.bursts), terminal.to_owned());
        move |_, packet| {
            let mut bursts = bursts.lock().unwrap_or_else(PoisonError::into_inner);
            if bursts.len() < MAX_BURSTS
                && let Some(entry) = PlanEntry::parse(packet)
            {
                bursts.extend(of_entry(&entry, &frame, &terminal));
            }
        }
    }

    /// Writes the log as CSV, in the order of time.
    ///
    /// # Errors
    /// As `out` gives.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bursts = self.bursts.lock().unwrap_or_else(PoisonError::into_inner);
        bursts.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.carrier.cmp(&b.carrier)));
        writeln!(out, "start_s,end_s,carrier,terminal")?;
        bursts.iter().try_for_each(|burst| {
            writeln!(out, "{},{},{},{}", burst.start_s, burst.end_s, burst.carrier, burst.terminal)
        })
    }
}

fn of_entry<'a>(
    entry: &'a PlanEntry,
    frame: &'a Frame,
    terminal: &'a str,
) -> impl Iterator<Item = Burst> + 'a {
    entry.bursts(frame).map(move |(start, carrier)| Burst {
        start_s: start.as_secs_f64(),
        end_s: (start + frame.slot()).as_secs_f64(),
        carrier,
        terminal: terminal.to_owned(),
    })
}

/// Reads what [`PlanLog::write`] wrote, as far as it is that.
pub fn read_plan(file: impl BufRead) -> Vec<Burst> {
    let burst = |line: String| {
        let mut fields = line.split(',');
        let (start_s, end_s) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (carrier, terminal) = (fields.next()?.parse().ok()?, fields.next()?.to_owned());
        Some(Burst { start_s, end_s, carrier, terminal })
    };
    file.lines().map_while(Result::ok).filter_map(burst).collect()
}
