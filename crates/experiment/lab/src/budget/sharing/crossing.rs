//! Packets of a flow that cross the links of its way over the run.

use bentpipe_scenario::Way;

use super::super::path::Path;
use super::super::states::States;

/// Packets of a copy of a flow at a direction of a link.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Crossing {
    pub(in super::super) at: (usize, Way),
    /// Length of its packets there.
    pub(in super::super) len: u64,
    /// Packets that are sent into it.
    pub(in super::super) enter: f64,
    /// Packets that come out of it.
    pub(in super::super) leave: f64,
}

/// Payload that a copy of a flow carries in a state.
pub(super) struct Carried<'a> {
    /// Rate that it sends, if it does not slow down.
    pub(super) offered: Option<f64>,
    /// Rate that passes its narrowest link.
    pub(super) rate: f64,
    /// Number of that link on the way. `None` if it gets what it asks for.
    pub(super) limit: Option<usize>,
    /// Parts that come to each link and to the end. Empty if nothing is lost.
    pub(super) parts: &'a [f64],
}

impl Carried<'_> {
    /// Returns the rates that come to a link and out of it.
    ///
    /// What a source of a fixed rate has too much is dropped where its way is narrowest.
    fn at(&self, hop: usize) -> [f64; 2] {
        let part = |hop: usize| self.parts.get(hop).copied().unwrap_or(1.0);
        let sent = self.offered.unwrap_or(self.rate).max(self.rate);
        let behind = |hop: usize| if self.limit.is_some_and(|limit| hop > limit) { self.rate } else { sent };
        [behind(hop) * part(hop), behind(hop + 1) * part(hop + 1)]
    }
}

/// Returns what crosses each link of a path, there and back.
pub(super) fn all<'a>(
    states: &States,
    (flow, path): (usize, &Path),
    carried: impl Fn(usize) -> Carried<'a>,
) -> Vec<Crossing> {
    let [there, back] = [path.hops_there(), path.hops_back()];
    let [per_bit, answers_per_bit] = path.per_bit();
    let of = |hops: &[(usize, Way, u64)], len: u64| {
        let crossing = |(link, way, more): &(usize, Way, u64)| Crossing {
            at: (*link, *way),
            len: len + more,
            enter: 0.0,
            leave: 0.0,
        };
        hops.iter().map(crossing).collect::<Vec<_>>()
    };
    let mut data = of(there, path.packet);
    let mut answers = if answers_per_bit > 0.0 { of(back, path.answer_len()) } else { Vec::new() };
    for state in 0..states.len() {
        let seconds = states.seconds_of_copy(state, flow);
        if seconds <= 0.0 {
            continue;
        }
        let carried = carried(state);
        for (hop, crossing) in data.iter_mut().enumerate() {
            let [enter, leave] = carried.at(hop).map(|rate| rate * seconds * per_bit);
            crossing.enter += enter;
            crossing.leave += leave;
        }
        // Speech goes back however much of the other arrives.
        let arrives = match (&path.voice, there.len()) {
            (None, links @ 1..) => carried.at(links - 1)[1],
            _ => carried.at(0)[0],
        };
        for crossing in &mut answers {
            crossing.enter += arrives * seconds * answers_per_bit;
            crossing.leave = crossing.enter;
        }
    }
    data.into_iter().chain(answers).collect()
}
