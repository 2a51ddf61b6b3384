//! Emulation of one part of a scenario, joined with another machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bentpipe_assemble::ScenarioPart;
use bentpipe_emu::joint::{Ending, Joining, MAX_SILENCE, Path, Skew, read_key};
use bentpipe_emu::{Joint, Monotonic};
use bentpipe_lab::plan::Plan;
use bentpipe_record::VERSION;
use bentpipe_scenario::{Document, Scenario};
use bentpipe_units::Span;
use sha2::{Digest, Sha256};

use crate::{Console, Error};

/// Time that a packet needs in both emulators, and margin for jitter of the path.
const MARGIN: Span = Span::from_millis(2);

/// Least time that packets leave ahead, if the link's delay has room for it.
const USUAL_AHEAD: Span = Span::from_millis(10);

/// Share of the delay above which the clocks' error is a warning.
const NOTABLE_ERROR: f64 = 0.01;

/// Part of a scenario, and the machine with the other part.
#[derive(Clone, Debug)]
pub struct Join {
    /// Link that is cut.
    pub link: String,
    /// Node whose part is emulated here.
    pub node: String,
    /// Own address.
    pub bind: SocketAddr,
    /// Address of the other machine.
    pub peer: SocketAddr,
    /// File with the key that both machines have.
    pub key: PathBuf,
    /// Time to wait for the other machine.
    pub max_wait: Span,
    /// Error of this machine's clock, made for tests.
    pub skew: Skew,
}

/// Machine that was met.
pub(crate) struct Joined {
    pub(crate) part: ScenarioPart,
    joint: Joint,
}

impl Join {
    /// Meets the other machine, measures the path, and divides the delay of the link.
    pub(crate) fn meet(
        &self,
        document: &Document,
        plan: &Plan,
        stop: &Arc<AtomicBool>,
        console: &dyn Console,
    ) -> Result<Joined, Error> {
        let scenario = &plan.points[0].scenario;
        let part = ScenarioPart::new(scenario, &self.link, &self.node);
        let part = part.map_err(|problem| document.refusal(&problem.key, problem.problem))?;
        let key = read_key(&self.key)?;
        let joining = Joining {
            bind: self.bind,
            peer: self.peer,
            side: part.side(),
            fingerprint: self.fingerprint(document, plan)?,
            max_wait: Duration::from_nanos(self.max_wait.as_nanos()),
            skew: self.skew,
        };
        console.note(&format!("waiting for the other part at {}", self.peer));
        let joint = Joint::meet(joining, key, Arc::clone(stop))?;
        let (path, delay) = (joint.path(), part.shortest_delay(scenario));
        let ahead = ahead(path, delay)
            .map_err(|problem| document.refusal(&format!("link.{}.delay", self.link), problem))?;
        console.note(&describe_path(path, delay, ahead));
        Ok(Joined { part: part.ahead_by(ahead), joint })
    }

    /// Returns a hash of all that both machines need to have in common.
    fn fingerprint(&self, document: &Document, plan: &Plan) -> Result<[u8; 32], Error> {
        let point = &plan.points[0];
        let mut scenario = Scenario { seed: point.seeds[0], seeds: 1, ..point.scenario.clone() };
        let event = std::mem::take(&mut scenario.event);
        // Captures and attachments are each machine's own.
        scenario.probe.capture.clear();
        scenario.node.values_mut().for_each(|node| node.real = false);
        let scenario = scenario.to_json().map_err(Error::other)?;
        let text = serde_json::json!([scenario, event]).to_string();
        let name = PathBuf::from(document.name());
        let files = plan.inputs.iter().filter(|(path, _)| **path != name).map(|(_, hash)| hash.to_hex());
        let mut files: Vec<String> = files.collect();
        files.sort();
        let parts = [VERSION, &self.link, &text, &files.concat()];
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Ok(hasher.finalize().into())
    }
}

impl Joined {
    /// Agrees on the start, and returns the clock of the run.
    pub(crate) fn start(mut self) -> Result<(Monotonic, Option<Joint>), Error> {
        let clock = self.joint.agree_on_start()?;
        Ok((clock, Some(self.joint)))
    }
}

/// Returns the time ahead that packets leave a machine, of a link's delay.
///
/// The path has to fit by its usual round trip: a machine that is late for an instant makes single ones long.
fn ahead(path: Path, delay: Span) -> Result<Span, String> {
    // One way is not known better than that it is less than both.
    let needed = path.usual_round_trip + MARGIN;
    if needed > delay {
        return Err(format!(
            "{delay}, and the path between both machines has a median round trip of {}: expected a link with at least {needed}, or a shorter \
             path",
            path.usual_round_trip
        ));
    }
    let longest = path.longest_round_trip.max(path.usual_round_trip);
    Ok(delay.min((longest + MARGIN + longest).max(USUAL_AHEAD)))
}

fn describe_path(path: Path, delay: Span, ahead: Span) -> String {
    let share = path.clock_error.as_secs_f64() / delay.as_secs_f64().max(1e-9);
    let remark =
        if share > NOTABLE_ERROR { "; one-way delays are off by as much, round trips are not" } else { "" };
    let late = match path.longest_round_trip + MARGIN > delay {
        true => "; packets that take as long as the longest of them may be late",
        false => "",
    };
    format!(
        "path to the other machine: round trips of {} to {}; clocks agree within {}, {:.3} % of the link's {delay}{remark}; packets leave \
         {ahead} ahead{late}",
        path.shortest_round_trip,
        path.longest_round_trip,
        path.clock_error,
        100.0 * share
    )
}

/// Describes a joint at its end.
pub(crate) fn describe(joint: &Joint) -> String {
    let (counts, path) = (joint.counts(), joint.path());
    let end = match joint.ended() {
        Some(Ending::ByOther) => "; it has ended its part".to_owned(),
        Some(Ending::Silence) => {
            format!("; nothing came from it for {} s, so this part has ended", MAX_SILENCE.as_secs())
        }
        None => String::new(),
    };
    format!(
        "joined with {}: {} packets sent, {} received; {} datagrams lost on the path, {} not taken by the kernel; dropped: {} of another \
         form, {} of another key, {} replayed; clocks within {}{end}",
        joint.peer(),
        counts.sent,
        counts.received,
        counts.missing,
        counts.refused,
        counts.malformed,
        counts.forged,
        counts.replayed,
        path.clock_error
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a path by its usual and its longest round trip.
    fn path(usual_us: u64, longest_us: u64) -> Path {
        let [usual_round_trip, longest_round_trip] = [usual_us, longest_us].map(Span::from_micros);
        Path { usual_round_trip, longest_round_trip, ..Path::default() }
    }

    #[test]
    fn the_path_is_taken_off_the_delay_and_has_to_fit() {
        let delay = Span::from_millis(250);
        assert_eq!(ahead(path(300, 300), delay), Ok(USUAL_AHEAD));
        assert_eq!(ahead(path(300, 40_000), delay), Ok(Span::from_millis(82)));
        assert_eq!(ahead(path(200_000, 200_000), delay), Ok(delay));
        let refused = ahead(path(249_000, 249_000), delay).expect_err("too long");
        assert!(
            refused.contains("a median round trip of 249 ms:") && refused.contains("at least 251 ms"),
            "{refused}"
        );
        assert_eq!(ahead(path(300, 300), Span::from_millis(5)), Ok(Span::from_millis(5)));
    }

    #[test]
    fn a_late_round_trip_is_no_refusal_and_is_named() {
        let (delay, late) = (Span::from_millis(270), path(300, 311_000));
        assert_eq!(ahead(late, delay), Ok(delay));
        let said = describe_path(late, delay, delay);
        assert!(
            said.ends_with(
                "packets leave 270 ms ahead; packets that take as long as the longest of them may be late"
            ),
            "{said}"
        );
        assert!(!describe_path(path(300, 40_000), delay, delay).contains("may be late"));
    }
}
