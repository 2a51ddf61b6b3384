//! Times in which flows send, and the part of their copies that have begun.

use std::collections::{BTreeSet, HashMap};

use bentpipe_scenario::{Flow, Scenario, copies};
use bentpipe_site::application::Application;
use bentpipe_units::Span;

use super::moments;

/// The most instants of one flow: starts and ends of copies, silences of its application.
const MOST_CUTS: usize = 64;

/// The most copies times states of a flow whose copies have means of their own.
const MOST_WEIGHTS: usize = 20_000;

/// Time of a copy, and what it loads something with.
///
/// Copies of a group load one copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up<const N: usize> {
    pub(super) group: u64,
    /// Start and end in seconds.
    pub(super) time: [f64; 2],
    pub(super) load: [f64; N],
}

/// Returns the greatest sums of loads at any one time, each by itself.
pub(super) fn most_at_once<const N: usize>(all: &[Up<N>]) -> [f64; N] {
    let mut changes: Vec<(u64, f64, f64, &[f64; N])> = all
        .iter()
        .filter(|up| up.time[0] < up.time[1])
        .flat_map(|up| [(up.group, up.time[0], 1.0, &up.load), (up.group, up.time[1], -1.0, &up.load)])
        .collect();
    // At one instant the ends come first.
    changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)));
    let (mut most, mut now, mut group) = ([0.0_f64; N], [0.0; N], None);
    for (of, _, sign, load) in changes {
        if group.replace(of) != Some(of) {
            now = [0.0; N];
        }
        for (n, load) in load.iter().enumerate() {
            now[n] += sign * load;
            most[n] = most[n].max(now[n]);
        }
    }
    most
}

/// Times in which one flow may send.
struct Active {
    /// Set if an event turns it off or on.
    is_switched: bool,
    /// Starts and ends in order of times in which it is on.
    times: Vec<(Span, Span)>,
    /// Starts of its copies in order, those after the end left out, in seconds.
    starts: Vec<f64>,
    /// Sums of the starts up to each of them.
    sums: Vec<f64>,
    /// Number of its copies.
    copies: f64,
    /// Time that each copy sends for, from its start on, in seconds.
    lasts: f64,
    /// Seconds of writing and of silence in turn, where these are fixed.
    cycle: Option<[f64; 2]>,
}

/// Times in which the flows of a scenario may send.
pub(super) struct Activities {
    of: Vec<Active>,
    duration: Span,
    warm_up: Span,
}

impl Activities {
    /// Finds the times. `lasting` has the lengths of flows that end by themselves, by their numbers.
    pub(super) fn new(scenario: &Scenario, lasting: &HashMap<usize, Span>) -> Activities {
        let switches = switches(scenario);
        let one = |(n, (name, flow)): (usize, (&String, &Flow))| {
            let lasts = lasting.get(&n).map_or(f64::INFINITY, |lasts| lasts.as_secs_f64());
            let switched = switches.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            Active::new(scenario, (name, flow), switched, lasts)
        };
        let of = scenario.flow.iter().enumerate().map(one).collect();
        Activities { of, duration: scenario.duration, warm_up: scenario.probe.warm_up }
    }

    /// Returns the times in which copies of a flow may send, with the copies' numbers.
    pub(super) fn of_copies(&self, scenario: &Scenario, flow: usize) -> Vec<(u64, [f64; 2])> {
        let Some((name, settings)) = scenario.flow.get_index(flow) else { return Vec::new() };
        let active = &self.of[flow];
        let of_copy = |n: u64| {
            let start = copies::start(scenario, (name, settings), n, scenario.seed).as_secs_f64();
            let of = move |(from, to): &(Span, Span)| {
                [from.as_secs_f64().max(start), to.as_secs_f64().min(start + active.lasts)]
            };
            active.times.iter().map(of).filter(|[from, to]| from < to).map(move |time| (n, time))
        };
        copies::of(scenario, (name, settings)).into_iter().flat_map(of_copy).collect()
    }

    /// Returns the number of a flow's copies that have its settings.
    pub(super) fn copies(&self, flow: usize) -> f64 {
        self.of[flow].copies
    }

    /// Returns the instants at which one flow begins or ends to send.
    pub(super) fn cuts_of(&self, flow: usize) -> Vec<Span> {
        self.of[flow].cuts()
    }

    /// Returns the instants at which flows begin or end to send.
    pub(super) fn cuts(&self) -> BTreeSet<Span> {
        let all = self.of.iter().flat_map(Active::cuts);
        all.filter(|at| !at.is_zero() && *at < self.duration).collect()
    }

    /// Returns the end of the warm-up, if it is in the run.
    pub(super) fn warm_up(&self) -> Option<Span> {
        (!self.warm_up.is_zero() && self.warm_up < self.duration).then_some(self.warm_up)
    }

    /// Returns the seconds between two instants in which copies may send, added up.
    pub(super) fn overlap(&self, flow: usize, from: Span, to: Span) -> f64 {
        self.of[flow].overlap(from.as_secs_f64(), to.as_secs_f64())
    }

    /// Returns the weights of some times in the mean over a flow's copies.
    ///
    /// Each copy has a mean over its own time. Of very many copies all their seconds count alike.
    pub(super) fn weights(&self, flow: usize, spans: &[Option<(Span, Span)>]) -> Vec<f64> {
        let active = &self.of[flow];
        let over = |of: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            let one = |span: &Option<(Span, Span)>| {
                span.map_or(0.0, |(from, to)| of(from.as_secs_f64(), to.as_secs_f64()))
            };
            spans.iter().map(one).collect()
        };
        let starts = &active.starts;
        let are_alike = starts.first() == starts.last();
        if are_alike || starts.len() * spans.len() > MOST_WEIGHTS {
            return over(&|from, to| active.overlap(from, to));
        }
        let mut all = vec![0.0; spans.len()];
        for start in starts {
            let alone = active.copy_from(*start);
            let own = over(&|from, to| alone.overlap(from, to));
            let seconds: f64 = own.iter().sum();
            if seconds > 0.0 {
                all.iter_mut().zip(own).for_each(|(sum, part)| *sum += part / seconds);
            }
        }
        all
    }

    /// Returns the mean seconds between two instants in which a started copy may send.
    pub(super) fn mean(&self, flow: usize, from: Span, to: Span) -> f64 {
        self.overlap(flow, from, to) / self.of[flow].starts.len().max(1) as f64
    }

    /// Returns the mean part of a flow's copies that may send between two instants.
    pub(super) fn part(&self, flow: usize, from: Span, to: Span) -> f64 {
        let length = to.saturating_sub(from).as_secs_f64().max(f64::MIN_POSITIVE);
        self.overlap(flow, from, to) / (length * self.of[flow].copies)
    }

    /// Returns the starts of a flow's copies in order, those after its end left out.
    pub(super) fn starts(&self, flow: usize) -> &[f64] {
        &self.of[flow].starts
    }

    /// Returns the part of a flow's copies that begin.
    pub(super) fn begin(&self, flow: usize) -> f64 {
        let active = &self.of[flow];
        let sends =
            active.times.iter().any(|(from, to)| active.overlap(from.as_secs_f64(), to.as_secs_f64()) > 0.0);
        if sends { active.starts.len() as f64 / active.copies } else { 0.0 }
    }

    /// Returns `true` if an event turns a flow off or on.
    pub(super) fn is_switched(&self, flow: usize) -> bool {
        self.of[flow].is_switched
    }

    /// Returns the seconds in which a flow's first copy is on, of how many.
    pub(super) fn total(&self, flow: usize, at: &Flow) -> [f64; 2] {
        let end = at.stop.unwrap_or(Span::MAX).min(self.duration);
        let all: Span = self.of[flow].times.iter().map(|(from, to)| *to - *from).sum();
        [all.as_secs_f64(), end.saturating_sub(at.start).as_secs_f64()]
    }
}

impl Active {
    fn new(
        scenario: &Scenario,
        (name, flow): (&str, &Flow),
        switched: &[(Span, bool)],
        lasts: f64,
    ) -> Active {
        let stop = flow.stop.unwrap_or(Span::MAX).min(scenario.duration);
        let end = end(scenario, flow, lasts);
        let of = copies::of(scenario, (name, flow));
        let starts = of.iter().map(|n| copies::start(scenario, (name, flow), *n, scenario.seed));
        let mut starts: Vec<f64> = starts.filter(|at| *at < stop).map(Span::as_secs_f64).collect();
        starts.sort_by(f64::total_cmp);
        let sum = |sum: &mut f64, start: &f64| {
            *sum += start;
            Some(*sum)
        };
        Active {
            is_switched: !switched.is_empty(),
            times: times(flow, switched, end),
            sums: starts.iter().scan(0.0, sum).collect(),
            starts,
            copies: of.len().max(1) as f64,
            lasts,
            cycle: flow.traffic.kind().takes().application.then(|| flow.application.cycle()).flatten(),
        }
    }

    /// Returns one of its copies, with its start.
    fn copy_from(&self, start: f64) -> Active {
        Active { times: self.times.clone(), starts: vec![start], sums: vec![start], copies: 1.0, ..*self }
    }

    /// Returns the seconds up to an instant of all copies since their starts.
    fn since_starts(&self, at: f64) -> f64 {
        let begun = self.starts.partition_point(|start| *start <= at);
        if begun == 0 { 0.0 } else { begun as f64 * at - self.sums[begun - 1] }
    }

    /// Returns the seconds between two instants in which copies send unless turned off.
    fn between(&self, from: f64, to: f64) -> f64 {
        let begun = |from: f64, to: f64| self.since_starts(to) - self.since_starts(from);
        let ended = if self.lasts.is_finite() { begun(from - self.lasts, to - self.lasts) } else { 0.0 };
        begun(from, to) - ended
    }

    fn overlap(&self, from: f64, to: f64) -> f64 {
        let of = |(begin, end): &(Span, Span)| {
            let (begin, end) = (begin.as_secs_f64().max(from), end.as_secs_f64().min(to));
            if begin < end { self.writing(begin, end) } else { 0.0 }
        };
        self.times.iter().map(of).sum()
    }

    /// Returns the part of that in which its application writes. All copies have the times of the first.
    fn writing(&self, from: f64, to: f64) -> f64 {
        let all = self.between(from, to);
        let (Some([on, off]), Some(first)) = (self.cycle, self.starts.first()) else { return all };
        let written = |at: f64| {
            let at = (at - first).max(0.0);
            let whole = (at / (on + off)).floor();
            whole * on + (at - whole * (on + off)).min(on)
        };
        all * (written(to) - written(from)) / (to - from)
    }

    /// Returns the instants at which it begins and ends to send. Of many copies they are a sample.
    fn cuts(&self) -> Vec<Span> {
        let every = self.starts.len().div_ceil(MOST_CUTS).max(1);
        let starts = || self.starts.iter().step_by(every).copied();
        let ends = starts().map(|start| start + self.lasts).filter(|end| end.is_finite());
        let on = self.times.iter().flat_map(|(from, to)| [*from, *to]);
        let all = starts().chain(ends).chain(self.silences()).map(Span::from_secs_f64);
        let is_on = |at: &Span| self.times.iter().any(|(from, to)| from < at && at < to);
        on.chain(all.filter(is_on)).collect()
    }

    /// Returns the instants at which its application pauses and resumes, if they are few.
    fn silences(&self) -> Vec<f64> {
        let (Some([on, off]), Some(first)) = (self.cycle, self.starts.first()) else { return Vec::new() };
        let end = self.times.last().map_or(0.0, |(_, end)| end.as_secs_f64()).min(first + self.lasts);
        let cycles = ((end - first) / (on + off)).ceil();
        if cycles > MOST_CUTS as f64 / 2.0 {
            return Vec::new();
        }
        (0..cycles as u32).map(|n| first + f64::from(n) * (on + off)).flat_map(|at| [at, at + on]).collect()
    }
}

/// Returns the instant at which a flow's copies end to send.
///
/// Those that end by themselves do so before.
fn end(scenario: &Scenario, flow: &Flow, lasts: f64) -> Span {
    let stop = flow.stop.unwrap_or(Span::MAX).min(scenario.duration);
    let Some(writes) = drains(scenario, flow) else { return stop };
    // A bulk transfer goes on with what is in its buffer: that is in `lasts`, of the first copy.
    let is_stopped = flow.start + writes == stop && lasts >= writes.as_secs_f64();
    let drained = if is_stopped && lasts.is_finite() {
        flow.start + Span::from_secs_f64(lasts)
    } else {
        scenario.duration
    };
    drained.min(scenario.duration)
}

/// Returns the times at which events turn flows off and on.
fn switches(scenario: &Scenario) -> HashMap<&str, Vec<(Span, bool)>> {
    let mut all: HashMap<&str, Vec<(Span, bool)>> = HashMap::new();
    for moment in moments(scenario) {
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

/// Returns the time that a flow writes for without a pause. `None` if it pauses.
pub(super) fn time(scenario: &Scenario, flow: &Flow) -> Option<Span> {
    let end = flow.stop.unwrap_or(Span::MAX).min(scenario.duration).saturating_sub(flow.start);
    let lasts = flow.application.lasts().unwrap_or(Span::MAX).min(end);
    let pauses = flow.application.offered().is_some() || flow.application.is_burst_without_rate();
    (!pauses && flow.active && !lasts.is_zero()).then_some(lasts)
}

/// Returns `true` if it writes as fast as the connection takes it.
pub(super) fn is_bulk(flow: &Flow) -> bool {
    matches!(flow.application, Application::Bulk(_))
}

/// Returns the time from the start of a flow to the end of the run.
pub(super) fn rest_of(scenario: &Scenario, flow: &Flow) -> Span {
    scenario.duration.saturating_sub(flow.start)
}

/// Returns the time after which a bulk transfer writes no more. `None` if it writes to the end.
///
/// What is in its buffer is sent after that.
pub(super) fn drains(scenario: &Scenario, flow: &Flow) -> Option<Span> {
    let is_drained = flow.traffic.kind().takes().application && is_bulk(flow);
    time(scenario, flow).filter(|_| is_drained && ends_early(scenario, flow))
}

/// Returns `true` if its application ends before the run, by its time.
pub(super) fn ends_early(scenario: &Scenario, flow: &Flow) -> bool {
    time(scenario, flow).is_some_and(|time| time < rest_of(scenario, flow))
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
        assert_eq!(active.of[0].starts, [5.0, 15.0, 25.0]);
        assert_eq!(active.total(0, &scenario.flow[0]), [30.0, 45.0]);
        assert!((active.part(0, s(25), s(35)) - 0.5).abs() < 1e-12);
        assert_eq!(active.part(0, s(30), s(40)), 0.0);
        // Two more copies start in the first of these times.
        assert_eq!(active.cuts(), [10, 15, 25, 30, 40, 50].map(s).into());
    }
}
