//! Means of faults over many packets, for forecasts.

use bentpipe_units::Span;

use super::Config;
use super::pieces::{Matrix, Stage};

impl Config {
    /// Returns the mean delay that it adds to a packet.
    pub fn mean_delay(&self) -> Span {
        match self {
            Config::Jitter { law, .. } => law.mean(),
            Config::JitterTable(table) => table.mean_delay(&table.values),
            Config::Reordering { probability, delay } => delay.mul_f64(*probability),
            _ => Span::ZERO,
        }
    }

    /// Returns the least delay that it adds to a packet.
    ///
    /// `numbers` are those of a table's file. Without them the least of a table in a file is not known, and zero.
    pub fn least_delay(&self, numbers: &[i16]) -> Span {
        match self {
            Config::Jitter { law, .. } => law.shortest(),
            Config::JitterTable(table) if table.file.is_some() => table.least_delay(numbers),
            Config::JitterTable(table) => table.least_delay(&table.values),
            _ => Span::ZERO,
        }
    }

    /// Returns the mean number of packets that leave it for one that passes.
    pub fn mean_copies(&self) -> f64 {
        match self {
            Config::Duplication { probability } => 1.0 + probability,
            _ => 1.0,
        }
    }

    /// Returns `true` if it delays packets at random.
    pub fn is_random_delay(&self) -> bool {
        matches!(self, Config::Jitter { .. } | Config::JitterTable(_) | Config::Reordering { .. })
    }

    /// Returns the mean part of packets of `len` bytes that it loses or damages.
    ///
    /// `None` for a trace, a signal and a code near its threshold, which have to be read or run. Outages lose packets by their times: none here.
    pub fn mean_loss(&self, len: usize) -> Option<f64> {
        match *self {
            Config::Coded(ref config) => config.mean_loss(len),
            Config::PacketErrors { loss } => Some(loss),
            Config::BitErrors { ber, .. } => Some(1.0 - libm::pow(1.0 - ber, 8.0 * len as f64)),
            Config::BitBursts { p, r, ber_good, ber_bad } => {
                Some(1.0 - clean([p, r], [1.0 - ber_good, 1.0 - ber_bad], 8 * len))
            }
            Config::GilbertElliott { p, r, loss_good, loss_bad } => {
                let bad = stationary([p, r]);
                Some((1.0 - bad) * loss_good + bad * loss_bad)
            }
            Config::Trace(_) | Config::Signal(_) => None,
            Config::Outages { .. }
            | Config::Duplication { .. }
            | Config::Reordering { .. }
            | Config::Jitter { .. }
            | Config::JitterTable(_) => Some(0.0),
        }
    }
}

impl Config {
    /// Returns what it does to pieces of `len` bytes that come one after the other.
    ///
    /// `None` where its loss is not known ([`Config::mean_loss`]).
    pub fn stage(&self, len: usize) -> Option<Stage> {
        match *self {
            Config::GilbertElliott { p, r, loss_good, loss_bad } => {
                let right = [1.0 - loss_good, 1.0 - loss_bad];
                Some(Stage::Chain {
                    bad: stationary([p, r]),
                    clean: step([p, r], right),
                    all: step([p, r], [1.0; 2]),
                })
            }
            Config::BitBursts { p, r, ber_good, ber_bad } => {
                let over = |right: [f64; 2]| power(step([p, r], right), 8 * len);
                let (clean, all) = (over([1.0 - ber_good, 1.0 - ber_bad]), over([1.0; 2]));
                Some(Stage::Chain { bad: stationary([p, r]), clean, all })
            }
            Config::Duplication { probability } => Some(Stage::Copies(probability)),
            _ => self.mean_loss(len).map(Stage::Loss),
        }
    }
}

/// Returns the probability of the bad state. A chain that never changes stays in the good one.
fn stationary([p, r]: [f64; 2]) -> f64 {
    if p + r > 0.0 { p / (p + r) } else { 0.0 }
}

/// Returns the probability that none of `bits` in succession is wrong. The first state is stationary.
///
/// `right` has the probabilities of a right bit in the good and the bad state. The state may change after each bit.
fn clean([p, r]: [f64; 2], right: [f64; 2], bits: usize) -> f64 {
    let bad = stationary([p, r]);
    let all = power(step([p, r], right), bits);
    (1.0 - bad) * (all[0][0] + all[0][1]) + bad * (all[1][0] + all[1][1])
}

/// Returns the probabilities of a right bit or packet with the state behind it.
fn step([p, r]: [f64; 2], right: [f64; 2]) -> Matrix {
    [[right[0] * (1.0 - p), right[0] * p], [right[1] * r, right[1] * (1.0 - r)]]
}

/// Returns a power of a matrix by repeated squaring.
fn power(mut base: Matrix, mut exponent: usize) -> Matrix {
    let mut all = [[1.0, 0.0], [0.0, 1.0]];
    while exponent > 0 {
        if exponent % 2 == 1 {
            all = product(all, base);
        }
        base = product(base, base);
        exponent /= 2;
    }
    all
}

fn product(a: Matrix, b: Matrix) -> Matrix {
    let cell = |row: usize, column: usize| a[row][0] * b[0][column] + a[row][1] * b[1][column];
    [[cell(0, 0), cell(0, 1)], [cell(1, 0), cell(1, 1)]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{JitterLaw, JitterTable};

    #[test]
    fn bursts_of_one_rate_are_independent_errors() {
        let same = Config::BitBursts { p: 0.1, r: 0.3, ber_good: 1e-4, ber_bad: 1e-4 };
        let independent = Config::BitErrors { ber: 1e-4, crc: true };
        let [same, independent] = [same, independent].map(|fault| fault.mean_loss(1000).expect("a mean"));
        assert!((same - independent).abs() < 1e-9, "{same} {independent}");
        // Of long bursts a packet has all or nothing: the part of the time in the bad state.
        let long = Config::BitBursts { p: 1e-7, r: 3e-7, ber_good: 0.0, ber_bad: 0.5 };
        assert!((long.mean_loss(100).expect("a mean") - 0.25).abs() < 1e-3);
    }

    /// The least delay of a law is what it draws at the least.
    #[test]
    fn laws_and_tables_have_a_least_delay() {
        let jitter = |law| Config::Jitter { law, keep_order: true };
        let ms = Span::from_millis;
        let pareto = jitter(JitterLaw::Pareto { mean: ms(20), deviation: ms(10), shape: 3.0 });
        // The mean less the deviation times the root of 1 / 3.
        let least = pareto.least_delay(&[]).as_secs_f64();
        assert!((least - (20e-3 - 10e-3 / 3.0_f64.sqrt())).abs() < 1e-9, "{least}");
        assert_eq!(jitter(JitterLaw::Uniform { min: ms(7), max: ms(9) }).least_delay(&[]), ms(7));
        assert_eq!(jitter(JitterLaw::Exponential { mean: ms(9) }).least_delay(&[]), Span::ZERO);
        let table = JitterTable {
            file: None,
            values: vec![-4096, 0, 8192],
            mean: ms(20),
            deviation: ms(10),
            keep_order: true,
        };
        assert_eq!(Config::JitterTable(table.clone()).least_delay(&[]), ms(15));
        let of_file =
            Config::JitterTable(JitterTable { file: Some("t".into()), values: Vec::new(), ..table });
        assert_eq!(of_file.least_delay(&[-8192, 8192]), ms(10));
        assert_eq!(of_file.least_delay(&[]), Span::ZERO);
    }

    #[test]
    fn two_states_lose_their_mean() {
        let fault = Config::GilbertElliott { p: 0.01, r: 0.09, loss_good: 0.0, loss_bad: 0.5 };
        assert!((fault.mean_loss(100).expect("a mean") - 0.05).abs() < 1e-12);
        let still = Config::GilbertElliott { p: 0.0, r: 0.0, loss_good: 0.1, loss_bad: 1.0 };
        assert_eq!(still.mean_loss(100), Some(0.1));
    }
}
