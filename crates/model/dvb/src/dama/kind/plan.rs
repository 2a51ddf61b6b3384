//! Burst time plan as broadcast: one line per burst of a terminal.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dama::{Frame, Frames, PlanEntry};
use bentpipe_net::Packet;
use bentpipe_units::Time;

use bentpipe_site::Tap;

/// Maximum number of bursts that are kept, from the beginning of the run.
const MAX_BURSTS: usize = 50_000;

/// Log of a carrier's burst time plans.
pub(super) struct PlanLog {
    frames: Frames,
    bursts: Arc<Mutex<Vec<Burst>>>,
}

/// Burst that a terminal may send.
struct Burst {
    start_s: f64,
    end_s: f64,
    carrier: u16,
    /// The terminal's link.
    terminal: String,
}

impl PlanLog {
    /// Creates an empty log of carriers of these structures.
    pub(super) fn new(frames: Frames) -> PlanLog {
        PlanLog { frames, bursts: Arc::default() }
    }

    /// Returns the tap of a terminal's input of plans.
    pub(super) fn tap(&self, terminal: &str) -> Tap {
        let (frames, bursts, terminal) = (self.frames.clone(), Arc::clone(&self.bursts), terminal.to_owned());
        Box::new(move |_: Time, packet: &Packet| {
            let mut bursts = bursts.lock().unwrap_or_else(PoisonError::into_inner);
            if bursts.len() < MAX_BURSTS
                && let Some(entry) = PlanEntry::parse(packet)
                && let Some(frame) = frames.of(entry.superframe)
            {
                bursts.extend(of_entry(&entry, &frame, &terminal));
            }
        })
    }

    /// Writes the log as CSV, in the order of time.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
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
