//! Times in which flows send, and the part of their copies that have begun.

use std::collections::{BTreeSet, HashMap};

use bentpipe_scenario::{Flow, Scenario, copies};
use bentpipe_units::Span;

/// Times in which one flow may send.
struct Active {
    /// Set if an event turns it off or on.
    is_switched: bool,
    /// Starts and ends in order, of its first copy.
    times: Vec<(Span, Span)>,
    /// Part of its copies that start before the end. All of them count from the first start on.
    started: f64,
}

/// Times in which the flows of a scenario may send.
pub(super) struct Activities {
    of: Vec<Active>,
    duration: Span,
}

impl Activities {
    /// Finds the times. `lasting` has the lengths of flows that end by themselves, by their numbers.
    pub(super) fn new(scenario: &Scenario, lasting: &HashMap<usize, Span>) -> Activities {
        let switches = switches(scenario);
        let one = |(n, (name, flow)): (usize, (&String, &Flow))| {
            let end = lasting.get(&n).map_or(Span::MAX, |lasts| flow.start + *lasts);
            let end = end.min(flow.stop.unwrap_or(Span::MAX)).min(scenario.duration);
            let switched = switches.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            let is_switched = !switched.is_empty();
            Active {
                is_switched,
                times: times(flow, switched, end),
                started: started(scenario, (name, flow)),
            }
        };
        Activities { of: scenario.flow.iter().enumerate().map(one).collect(), duration: scenario.duration }
    }

    /// Returns the instants at which a flow begins or ends to send.
    pub(super) fn cuts(&self) -> BTreeSet<Span> {
        let ends =
            |active: &Active| active.times.iter().flat_map(|(from, to)| [*from, *to]).collect::<Vec<_>>();
        let all = self.of.iter().flat_map(ends);
        all.filter(|at| !at.is_zero() && *at < self.duration).collect()
    }

    /// Returns the seconds between two instants in which a flow's first copy may send.
    pub(super) fn overlap(&self, flow: usize, from: Span, to: Span) -> f64 {
        overlap(&self.of[flow].times, from, to)
    }

    /// Returns the mean part of a flow's copies that may send between two instants.
    pub(super) fn part(&self, flow: usize, from: Span, to: Span) -> f64 {
        let length = to.saturating_sub(from).as_secs_f64().max(f64::MIN_POSITIVE);
        self.of[flow].started * self.overlap(flow, from, to) / length
    }

    /// Returns `true` if an event turns a flow off or on.
    pub(super) fn is_switched(&self, flow: usize) -> bool {
        self.of[flow].is_switched
    }

    /// Returns the seconds in which a flow's first copy may send, of how many.
    pub(super) fn total(&self, flow: usize, at: &Flow) -> [f64; 2] {
        let end = at.stop.unwrap_or(Span::MAX).min(self.duration);
        [self.overlap(flow, Span::ZERO, Span::MAX), end.saturating_sub(at.start).as_secs_f64()]
    }
}

fn overlap(times: &[(Span, Span)], from: Span, to: Span) -> f64 {
    let within =
        |(begin, end): &(Span, Span)| (*end).min(to).saturating_sub((*begin).max(from)).as_secs_f64();
    times.iter().map(within).sum()
}

/// Returns the times at which events turn flows off and on.
fn switches(scenario: &Scenario) -> HashMap<&str, Vec<(Span, bool)>> {
    let mut all: HashMap<&str, Vec<(Span, bool)>> = HashMap::new();
    for moment in scenario.timeline.iter() {
        for (name, flow) in &moment.difference.flow {
            all.entry(name).or_default().push((moment.at, flow.active));
        }
    }
    all
}

/// Returns the times in which a flow is active, between its start and `end`.
fn times(flow: &Flow, switches: &[(Span, bool)], end: Span) -> Vec<(Span, Span)> {
    let (mut times, mut from) = (Vec::new(), flow.active.then_some(Span::ZERO));
    let mut close = |from: Option<Span>, at: Span| {
        let time = from.map(|from| (from.max(flow.start), at.min(end)));
        times.extend(time.filter(|(from, to)| from < to));
    };
    for (at, active) in switches {
        match (from, active) {
            (Some(_), false) => close(from.take(), *at),
            (None, true) => from = Some(*at),
            _ => {}
        }
    }
    close(from, end);
    times
}

/// Returns the part of a flow's copies that start before the end.
fn started(scenario: &Scenario, flow: (&str, &Flow)) -> f64 {
    let (started, of) = copies::started(scenario, flow, scenario.seed);
    started as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_sends_between_its_switches() {
        let text = "title = \"t\"\nduration = \"60 s\"\nnode.a = {}\nnode.b = {}\n\
            link.l = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }\n\
            flow.f = { from = \"a\", to = \"b\", start = \"5 s\", stop = \"50 s\", count = 3, stagger = \"10 s\", \
            active = false, traffic = \"tcp\" }\n\
            [[event]]\nat = \"10 s\"\nset = { \"flow.f.active\" = true }\nhold = \"20 s\"\n\
            [[event]]\nat = \"40 s\"\nset = { \"flow.f.active\" = true }\n";
        let document = bentpipe_scenario::Document::parse("file.toml", text.as_bytes()).expect("TOML");
        let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
        let active = Activities::new(&scenario, &HashMap::new());
        let s = Span::from_secs;
        assert_eq!(active.of[0].times, [(s(10), s(30)), (s(40), s(50))]);
        assert_eq!(active.of[0].started, 1.0);
        assert_eq!(active.total(0, &scenario.flow[0]), [30.0, 45.0]);
        assert!((active.part(0, s(25), s(35)) - 0.5).abs() < 1e-12);
        assert_eq!(active.part(0, s(30), s(40)), 0.0);
        assert_eq!(active.cuts(), [10, 30, 40, 50].map(s).into());
    }
}
