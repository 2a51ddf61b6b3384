//! Cells evenly spaced at rates that change: piecewise constant sources.

use bentpipe_units::Time;

use super::line::cells_per_second;
use super::service::Rates;
use super::sort::Sorter;

/// Maximum number of cells of a source that are generated in one batch.
const AHEAD: f64 = 64.0;

/// Source of cells at even distances while a rate holds. A partial cell is carried over to the next rate.
struct Source {
    rates: Rates,
    /// Time up to which everything is done.
    at_ns: f64,
    /// Part of a cell missing until the next one is sent, up to 1.
    missing: f64,
    cells_per_ns: f64,
    /// Time between cells.
    gap_ns: f64,
    /// Time of the next cell if the rate holds.
    cell_ns: f64,
    /// Until when the rate holds.
    end_ns: f64,
}

impl Source {
    fn new(rates: Rates) -> Source {
        Source {
            rates,
            at_ns: 0.0,
            missing: 1.0,
            cells_per_ns: 0.0,
            gap_ns: f64::INFINITY,
            cell_ns: f64::INFINITY,
            end_ns: 0.0,
        }
    }

    /// Returns the end of known cells: the next change of rate, or a limit.
    fn horizon_ns(&self) -> f64 {
        self.end_ns.min(self.cell_ns + self.gap_ns * AHEAD)
    }

    /// Adds the cells that go out before `until_ns`, up to which the rate holds.
    fn generate(&mut self, until_ns: f64, cells: &mut Vec<Time>) {
        let mut cell_ns = self.cell_ns;
        while cell_ns < until_ns {
            cells.push(not_before(cell_ns));
            (self.at_ns, self.missing) = (cell_ns, 1.0);
            cell_ns += self.gap_ns;
        }
        self.cell_ns = cell_ns;
    }

    fn change(&mut self) {
        let ns = self.end_ns;
        self.missing -= (ns - self.at_ns) * self.cells_per_ns;
        self.at_ns = ns;
        let (span, rate) = self.rates.next().map_or((f64::INFINITY, 0.0), |(span, rate)| {
            // No line sends more than a cell in a nanosecond.
            (span.as_nanos().max(1) as f64, (cells_per_second(rate) / 1e9).min(1.0))
        });
        (self.end_ns, self.cells_per_ns) = (ns + span, rate);
        // Rounding may leave a cell that was due at the very end a little too late.
        self.missing = self.missing.max(0.0);
        self.gap_ns = 1.0 / rate;
        self.cell_ns = ns + self.missing / rate;
    }
}

/// Returns the first whole nanosecond not before `ns`.
#[inline]
fn not_before(ns: f64) -> Time {
    // Signed, as processors convert those in one step.
    let whole = ns as i64;
    Time::from_nanos(whole as u64 + u64::from((whole as f64) < ns))
}

/// Sum of several sources.
///
/// While no rate changes all cells ahead are known, so they are sorted in batches.
pub(crate) struct Streams {
    sources: Vec<Source>,
    /// Cells that go out before the horizon, in their order.
    cells: Vec<Time>,
    gone: usize,
    horizon_ns: f64,
    sorter: Sorter,
    /// Cells of each source, while they are sorted.
    generated: Vec<Time>,
}

impl Streams {
    pub(crate) fn new(rates: Vec<Rates>) -> Streams {
        let sources = rates.into_iter().map(Source::new).collect();
        Streams {
            sources,
            cells: Vec::new(),
            gone: 0,
            horizon_ns: 0.0,
            sorter: Sorter::default(),
            generated: Vec::new(),
        }
    }

    /// Returns the time of the next event.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.cells.get(self.gone).copied().unwrap_or_else(|| self.horizon())
    }

    fn horizon(&self) -> Time {
        if self.horizon_ns.is_finite() { not_before(self.horizon_ns) } else { Time::NEVER }
    }

    /// Returns the next cells, as far as they are known.
    #[inline]
    pub(crate) fn ahead(&self) -> &[Time] {
        &self.cells[self.gone..]
    }

    /// Skips `count` of those cells.
    #[inline]
    pub(crate) fn pass_over(&mut self, count: usize) {
        self.gone += count;
    }

    /// Returns `true` if the next event, which it processes, sends a cell.
    #[inline]
    pub(crate) fn pass(&mut self) -> bool {
        let is_cell = self.gone < self.cells.len();
        if is_cell {
            self.gone += 1;
        } else {
            self.look_ahead();
        }
        is_cell
    }

    /// Generates the cells up to the next horizon.
    #[cold]
    fn look_ahead(&mut self) {
        let here_ns = self.horizon_ns;
        let ending = self.sources.iter_mut().filter(|source| source.end_ns <= here_ns);
        ending.for_each(Source::change);
        self.horizon_ns = self.sources.iter().map(Source::horizon_ns).fold(f64::INFINITY, f64::min);
        self.gone = 0;
        self.cells.clear();
        self.sources.iter_mut().for_each(|source| source.generate(self.horizon_ns, &mut self.generated));
        self.sorter.append(&mut self.generated, &mut self.cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_units::{Rate, Span};

    fn times(rates: Vec<(Span, Rate)>) -> Vec<u64> {
        times_of(vec![rates])
    }

    fn times_of(streams: Vec<Vec<(Span, Rate)>>) -> Vec<u64> {
        let rates = streams.into_iter().map(|rates| Box::new(rates.into_iter()) as Rates);
        let mut streams = Streams::new(rates.collect());
        let mut times = Vec::new();
        while !streams.next().is_never() {
            let at = streams.next();
            if streams.pass() {
                times.push(at.as_nanos());
            }
        }
        times
    }

    #[test]
    fn a_begun_cell_is_carried_over_a_change_of_rate() {
        let (ms, rate) = (Span::from_millis(1), |per_ms: u64| Rate::from_bps(424_000 * per_ms));
        assert_eq!(times(vec![(ms * 3, rate(2))])[..3], [500_000, 1_000_000, 1_500_000]);
        // 3.5 cells in the first 7 ms, then half a cell at twice the rate.
        let cells =
            times(vec![(ms * 7, Rate::from_bps(212_000)), (ms, Rate::from_bps(0)), (ms * 2, rate(1))]);
        assert_eq!(cells, [2_000_000, 4_000_000, 6_000_000, 8_500_000, 9_500_000]);
        assert_eq!(times(vec![(Span::ZERO, rate(1)), (ms, Rate::from_bps(0))]), [0_u64; 0]);
    }

    #[test]
    fn the_number_of_cells_is_the_integral_of_the_rate() {
        let rates = (1..200).map(|n| (Span::from_micros(311 * n), Rate::from_bps(99_991 * (n % 17))));
        let rates: Vec<_> = rates.collect();
        let bits: f64 = rates.iter().map(|(span, rate)| span.as_secs_f64() * rate.as_bps() as f64).sum();
        let cells = times(rates).len() as f64;
        assert!((cells - bits / 424.0).abs() < 1.0, "{cells} cells of {bits} bits");
    }

    #[test]
    fn several_streams_are_as_each_by_itself() {
        let ms = Span::from_millis(1);
        let rates = |n: u64| -> Vec<(Span, Rate)> {
            let rate = |k: u64| Rate::from_bps((k * 7 + n * 5) % 11 * 1_700_003);
            (0..40).map(|k| (ms * (1 + (k * 13 + n * 3) % 19), rate(k))).collect()
        };
        let mut expected: Vec<u64> = (0..6).flat_map(|n| times(rates(n))).collect();
        expected.sort_unstable();
        let together = times_of((0..6).map(rates).collect());
        assert!(together == expected && together.len() > 10_000);
    }
}
