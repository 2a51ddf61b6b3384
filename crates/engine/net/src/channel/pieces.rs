//! Arrival of a packet whose pieces and copies meet faults in a row, for forecasts.
//!
//! A packet arrives if of each of its pieces a copy does. Pieces follow each other without packets of others between them.

/// Probabilities of a step of two states, by both states.
pub type Matrix = [[f64; 2]; 2];

/// Fault as pieces meet it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Each is lost with the same probability.
    Loss(f64),
    /// Each comes twice with this probability.
    Copies(f64),
    /// Two states that change with the pieces.
    Chain {
        /// Probability of the bad state at first.
        bad: f64,
        /// Steps with which a piece passes.
        clean: Matrix,
        /// Steps with which it passes or not.
        all: Matrix,
    },
}

/// The most chains that are followed. Further ones lose their mean.
const MOST_CHAINS: usize = 4;

/// The most copies of a piece that are followed.
const MOST_COPIES: usize = 16;

impl Stage {
    /// Returns the mean part of pieces that it loses.
    fn mean_loss(&self) -> f64 {
        match self {
            Stage::Loss(loss) => *loss,
            Stage::Copies(_) => 0.0,
            Stage::Chain { bad, clean, .. } => {
                1.0 - (1.0 - bad) * (clean[0][0] + clean[0][1]) - bad * (clean[1][0] + clean[1][1])
            }
        }
    }
}

/// Returns the probability that a packet in `pieces` arrives behind faults in a row.
pub fn arrives(stages: &[Stage], pieces: u64) -> f64 {
    let is_copied = stages.iter().any(|stage| matches!(stage, Stage::Copies(_)));
    if pieces <= 1 && !is_copied {
        return stages.iter().map(|stage| 1.0 - stage.mean_loss()).product();
    }
    let mut walk = Walk::new(stages);
    (0..pieces).for_each(|_| walk.piece());
    walk.states.iter().sum()
}

/// Pieces on their way, by the states of all chains.
struct Walk {
    /// Faults, with the number of the chain of each.
    stages: Vec<(Stage, usize)>,
    /// Probabilities of the states in which all pieces have arrived. A bit each is set in the bad state.
    states: Vec<f64>,
}

/// Probabilities of the number of copies.
type Counts = [f64; MOST_COPIES + 1];

impl Walk {
    fn new(stages: &[Stage]) -> Walk {
        let mut walk = Walk { stages: Vec::new(), states: vec![1.0] };
        let mut chains = 0;
        for stage in stages {
            match *stage {
                Stage::Chain { bad, .. } if chains < MOST_CHAINS => {
                    let good = walk.states.iter().map(|state| state * (1.0 - bad));
                    walk.states = good.chain(walk.states.iter().map(|state| state * bad)).collect();
                    walk.stages.push((*stage, chains));
                    chains += 1;
                }
                Stage::Chain { .. } => walk.stages.push((Stage::Loss(stage.mean_loss()), 0)),
                Stage::Loss(_) | Stage::Copies(_) => walk.stages.push((*stage, 0)),
            }
        }
        walk
    }

    /// Sends a piece through all faults.
    fn piece(&mut self) {
        let one = |state: &f64| {
            let mut counts = [0.0; MOST_COPIES + 1];
            counts[1] = *state;
            counts
        };
        let mut all: Vec<Counts> = self.states.iter().map(one).collect();
        for (stage, chain) in &self.stages {
            all = match stage {
                Stage::Loss(loss) => all.iter().map(|counts| thinned(counts, *loss)).collect(),
                Stage::Copies(part) => all.iter().map(|counts| doubled(counts, *part)).collect(),
                Stage::Chain { clean, all: steps, .. } => stepped(&all, *chain, (clean, steps)),
            };
        }
        self.states = all.iter().map(|counts| counts[1..].iter().sum()).collect();
    }
}

/// Returns the numbers of copies of which each is lost with a probability.
fn thinned(counts: &Counts, loss: f64) -> Counts {
    let mut out = [0.0; MOST_COPIES + 1];
    for (n, part) in counts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
        of_each(n, 1.0 - loss).iter().enumerate().for_each(|(kept, chance)| out[kept] += part * chance);
    }
    out
}

/// Returns the numbers of copies of which each comes twice with a probability.
fn doubled(counts: &Counts, twice: f64) -> Counts {
    let mut out = [0.0; MOST_COPIES + 1];
    for (n, part) in counts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
        for (more, chance) in of_each(n, twice).iter().enumerate().take(n + 1) {
            out[(n + more).min(MOST_COPIES)] += part * chance;
        }
    }
    out
}

/// Returns the probabilities of the number of hits in some trials.
fn of_each(trials: usize, hit: f64) -> Counts {
    let mut all = [0.0; MOST_COPIES + 1];
    all[0] = 1.0;
    for _ in 0..trials {
        for n in (0..=MOST_COPIES).rev() {
            let before = if n > 0 { all[n - 1] } else { 0.0 };
            all[n] = all[n] * (1.0 - hit) + before * hit;
        }
    }
    all
}

/// Returns the numbers of copies behind a chain, whose state changes with each of them.
fn stepped(all: &[Counts], chain: usize, (clean, steps): (&Matrix, &Matrix)) -> Vec<Counts> {
    let (bit, mut out) = (1 << chain, vec![[0.0; MOST_COPIES + 1]; all.len()]);
    for (state, counts) in all.iter().enumerate() {
        let from = usize::from(state & bit != 0);
        for (n, part) in counts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            for (to, counts) in passed(from, n, clean, steps).iter().enumerate() {
                let next = if to == 1 { state | bit } else { state & !bit };
                out[next].iter_mut().zip(counts).for_each(|(sum, chance)| *sum += part * chance);
            }
        }
    }
    out
}

/// Returns the probabilities of the number of `copies` that pass, by the state behind them.
fn passed(from: usize, copies: usize, clean: &Matrix, steps: &Matrix) -> [Counts; 2] {
    let mut now = [[0.0; MOST_COPIES + 1]; 2];
    now[from][0] = 1.0;
    for _ in 0..copies {
        let mut next = [[0.0; MOST_COPIES + 1]; 2];
        for (from, to, n) in
            (0..2).flat_map(|from| (0..2).flat_map(move |to| (0..MOST_COPIES).map(move |n| (from, to, n))))
        {
            next[to][n + 1] += now[from][n] * clean[from][to];
            next[to][n] += now[from][n] * (steps[from][to] - clean[from][to]);
        }
        now = next;
    }
    now
}

#[cfg(test)]
mod tests {
    use bentpipe_units::RandomStream;

    use super::super::{Config, GilbertElliott, Trials};
    use super::*;

    /// Returns the part of packets in pieces that arrive behind copies and a chain of two states.
    fn drawn(pieces: u64, twice: f64, [p, r]: [f64; 2], loss: [f64; 2]) -> f64 {
        let mut stream = RandomStream::new(1, "pieces");
        let (mut copies, mut chain) =
            (Trials::new(twice), GilbertElliott::new([p, r], loss).expect("probabilities"));
        let count = 200_000;
        let arrives = |_| {
            let all: Vec<bool> = (0..pieces)
                .map(|_| {
                    let more = copies.hits(&mut stream);
                    let passes: Vec<bool> =
                        (0..=usize::from(more)).map(|_| !chain.loses(&mut stream)).collect();
                    passes.contains(&true)
                })
                .collect();
            all.iter().all(|piece| *piece)
        };
        (0..count).map(arrives).filter(|whole| *whole).count() as f64 / f64::from(count)
    }

    #[test]
    fn a_packet_arrives_as_often_as_drawn() {
        for (pieces, twice, change, loss) in [
            (3, 0.0, [0.02, 0.2], [0.0, 1.0]),
            (1, 0.5, [0.02, 0.2], [0.0, 1.0]),
            (4, 0.3, [0.1, 0.3], [0.01, 0.7]),
            (2, 1.0, [0.0, 0.0], [0.3, 1.0]),
            (5, 0.2, [0.9, 0.8], [0.2, 0.6]),
        ] {
            let chain =
                Config::GilbertElliott { p: change[0], r: change[1], loss_good: loss[0], loss_bad: loss[1] };
            let copies = Config::Duplication { probability: twice };
            let stages: Vec<Stage> = [copies, chain].iter().filter_map(|fault| fault.stage(100)).collect();
            let (found, drawn) = (arrives(&stages, pieces), drawn(pieces, twice, change, loss));
            assert!((found - drawn).abs() < 0.005, "{pieces} {twice}: {found} for {drawn}");
        }
    }

    /// Three pieces pass a good state that stays good: 10/11 * 0.98^2. Independent ones would be (10/11)^3.
    #[test]
    fn pieces_in_a_burst_are_lost_together() {
        let chain = Config::GilbertElliott { p: 0.02, r: 0.2, loss_good: 0.0, loss_bad: 1.0 };
        let stage = chain.stage(500).expect("a chain");
        assert!((arrives(&[stage], 3) - 10.0 / 11.0 * 0.98 * 0.98).abs() < 1e-12);
        assert!((arrives(&[stage], 1) - 10.0 / 11.0).abs() < 1e-12);
        // Bits that change by bits: as one packet of all bytes.
        let bits = Config::BitBursts { p: 1e-4, r: 0.01, ber_good: 0.0, ber_bad: 0.5 };
        let (pieces, whole) = (bits.stage(500).expect("a chain"), bits.mean_loss(1500).expect("a mean"));
        assert!((arrives(&[pieces], 3) - (1.0 - whole)).abs() < 1e-9);
    }

    #[test]
    fn a_packet_is_lost_with_all_its_copies() {
        let stages = [Stage::Copies(0.5), Stage::Loss(0.3)];
        assert!((arrives(&stages, 1) - (1.0 - 0.5 * 0.3 - 0.5 * 0.09)).abs() < 1e-12);
        let [copies, loss] = stages;
        assert!((arrives(&[loss, copies], 1) - 0.7).abs() < 1e-12);
        assert!((arrives(&[copies, copies, loss], 1) - (1.0 - 0.3 * lost_of_two())).abs() < 1e-9);
    }

    /// Of the other copies behind two faults that copy: with none, one, two and three of them.
    fn lost_of_two() -> f64 {
        0.25 + 0.375 * 0.3 + 0.25 * 0.09 + 0.125 * 0.027
    }
}
