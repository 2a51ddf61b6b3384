//! Cells evenly spaced at rates that change: piecewise constant sources.

use bentpipe_units::Time;

use super::line::cells_per_second;
use super::order::Order;
use super::service::Rates;

/// One source: cells at even distances while a rate holds, the part of a cell that is begun carried to the next rate.
struct Source {
    rates: Rates,
    /// All up to here is done.
    at_ns: f64,
    /// How much of a cell is missing until the next one goes out, up to 1.
    missing: f64,
    cells_per_ns: f64,
    /// From one cell to the next.
    gap_ns: f64,
    /// When the next cell goes out if the rate holds.
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

    /// When the next cell goes out or the rate changes.
    #[inline]
    fn next(&self) -> f64 {
        self.cell_ns.min(self.end_ns)
    }

    /// Sends the cell, or changes the rate; whether it was a cell.
    #[inline]
    fn pass(&mut self) -> bool {
        let is_cell = self.cell_ns < self.end_ns;
        if is_cell {
            (self.at_ns, self.missing) = (self.cell_ns, 1.0);
            self.cell_ns += self.gap_ns;
        } else {
            self.change();
        }
        is_cell
    }

    #[cold]
    fn change(&mut self) {
        let ns = self.end_ns;
        self.missing -= (ns - self.at_ns) * self.cells_per_ns;
        self.at_ns = ns;
        let (span, rate) = self.rates.next().map_or((f64::INFINITY, 0.0), |(span, rate)| {
            (span.as_nanos().max(1) as f64, cells_per_second(rate) / 1e9)
        });
        (self.end_ns, self.cells_per_ns) = (ns + span, rate);
        // Rounding may leave a cell that was due at the very end a little too late.
        self.missing = self.missing.max(0.0);
        self.gap_ns = 1.0 / rate;
        self.cell_ns = ns + self.missing / rate;
    }
}

/// The first whole nanosecond that is not before `ns`.
#[inline]
fn not_before(ns: f64) -> Time {
    // Signed, as processors convert those in one step.
    let whole = ns as i64;
    Time::from_nanos(whole as u64 + u64::from((whole as f64) < ns))
}

/// The sum of several sources.
pub(crate) struct Streams {
    sources: Vec<Source>,
    order: Order,
}

impl Streams {
    pub(crate) fn new(rates: Vec<Rates>) -> Streams {
        let sources: Vec<Source> = rates.into_iter().map(Source::new).collect();
        let mut order = Order::new(sources.len());
        (0..sources.len()).for_each(|n| order.set(n, Time::ZERO));
        Streams { sources, order }
    }

    /// When something happens next.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.order.first().0
    }

    /// Does what happens next; whether it is a cell that goes out.
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> bool {
        let (_, n) = self.order.first();
        let source = &mut self.sources[n];
        let is_cell = source.pass();
        let ns = source.next();
        self.order.set(n, if ns.is_finite() { not_before(ns) } else { Time::NEVER });
        is_cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_units::{Rate, Span};

    fn times(rates: Vec<(Span, Rate)>) -> Vec<u64> {
        let mut streams = Streams::new(vec![Box::new(rates.into_iter())]);
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
}
