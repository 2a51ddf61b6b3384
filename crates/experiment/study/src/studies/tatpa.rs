//! Reopening of the congestion window after losses (UCIT/TATPA, figure 17).

use bentpipe_record::stats;

use crate::runs::{Points, StudyRuns};

use super::Code;

/// Values by name.
pub(super) const CODES: &[(&str, Code)] = &[
    ("tatpa-reopening-hybla", |runs| reopening(runs, "hybla")),
    ("tatpa-reopening-newreno", |runs| reopening(runs, "newreno")),
    ("tatpa-reopening-ratio", |runs| Ok(reopening(runs, "hybla")? / reopening(runs, "newreno")?)),
    ("tatpa-reopening-law", |runs| Ok(reopening(runs, "one-loss")? / law(runs, "one-loss")?)),
];

/// Share of the window before a loss at which it is open again.
const OPEN: f64 = 0.9;
/// Segment in bytes: an MTU of 1500 B without headers and timestamps.
const SEGMENT: f64 = 1448.0;

/// Samples of a sender.
struct Sender {
    cwnd: Points,
    /// Limit of the receiver.
    window: Points,
    srtt: Points,
    recoveries: Points,
}

impl Sender {
    fn of(runs: &StudyRuns, run: &str) -> Result<Sender, String> {
        let column = |name: &str| runs.column(run, 0, &format!("flow.satellite.sender.{name}"));
        Ok(Sender {
            cwnd: column("cwnd")?,
            window: column("peer-window")?,
            srtt: column("srtt")?,
            recoveries: column("fast-recoveries")?,
        })
    }

    /// Returns the samples at which losses were found, with the windows before.
    fn losses(&self) -> impl Iterator<Item = (usize, f64)> {
        let pairs = self.recoveries.windows(2).enumerate();
        pairs
            .filter(|(_, pair)| pair[1].1 > pair[0].1)
            .map(|(n, _)| (n + 1, self.cwnd[n].1.min(self.window[n].1)))
    }

    /// Returns the round trips from a sample until the window is open again.
    ///
    /// A window that stays closed counts until the end of the run.
    fn rounds(&self, from: usize, before: f64) -> f64 {
        let mut rounds = 0.0;
        for n in from..self.cwnd.len() - 1 {
            if self.cwnd[n].1 >= OPEN * before {
                break;
            }
            rounds += (self.cwnd[n + 1].0 - self.cwnd[n].0) / self.srtt[n].1;
        }
        rounds
    }
}

/// Returns the median round trips of a run's losses until cwnd is back.
///
/// It is back at [`OPEN`] of the window before the loss.
fn reopening(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let sender = Sender::of(runs, run)?;
    let rounds = sender.losses().map(|(from, before)| sender.rounds(from, before)).collect();
    stats::median(rounds).ok_or_else(|| format!("\"{run}\" has no losses"))
}

/// Returns the round trips that New Reno needs after its only loss.
///
/// The first repairs the loss; from then on the window grows by a segment in each.
fn law(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    let sender = Sender::of(runs, run)?;
    let (from, before) = sender.losses().next().ok_or_else(|| format!("\"{run}\" has no losses"))?;
    Ok(1.0 + (OPEN * before - sender.cwnd[from].1) / SEGMENT)
}
