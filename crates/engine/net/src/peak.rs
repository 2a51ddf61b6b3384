//! Largest value of a quantity since the window of measures started.

use std::cell::Cell;

use crate::Observer;
use crate::metric::{Gauge, Of};

/// Largest value of a quantity, such as the bytes of a queue.
///
/// It starts again at the end of the warm-up ([`Observer::starts_window`]), so that it is of the same time as the mean next to it.
#[derive(Clone, Debug, Default)]
pub struct Peak(Cell<u64>);

impl Peak {
    /// Notes a value.
    #[inline]
    pub fn note(&self, value: u64) {
        if value > self.0.get() {
            self.0.set(value);
        }
    }

    /// Returns the largest value noted.
    pub fn get(&self) -> u64 {
        self.0.get()
    }

    /// Reports the largest value. Where the window starts, the present value is the first of it.
    pub fn observe(&self, metric: &'static Of<Gauge>, present: u64, observer: &mut dyn Observer) {
        observer.gauge(metric, self.get() as f64);
        if observer.starts_window() {
            self.0.set(present);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Counter, Unit};

    static LENGTH: Of<Gauge> = Of::<Gauge>::new("length", Unit::Packets, "Length");

    /// Observer that reads one gauge, perhaps where the window starts.
    struct Seen(f64, bool);

    impl Observer for Seen {
        fn counter(&mut self, _: &'static Of<Counter>, _: u64) {}
        fn gauge(&mut self, _: &'static Of<Gauge>, value: f64) {
            self.0 = value;
        }
        fn starts_window(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn a_peak_is_of_the_window() {
        let peak = Peak::default();
        let observed = |present, starts_window| {
            let mut seen = Seen(f64::NAN, starts_window);
            peak.observe(&LENGTH, present, &mut seen);
            seen.0
        };
        [3, 9, 5].into_iter().for_each(|length| peak.note(length));
        assert_eq!([observed(4, false), observed(4, true), observed(4, false)], [9.0, 9.0, 4.0]);
        peak.note(2);
        assert_eq!(peak.get(), 4);
    }
}
