//! Header sizes over time, in bounded memory.

use bentpipe_report::{Axis, Curve, Mark, Plot};

use super::totals::Sizes;

/// Maximum number of intervals.
const SPANS: usize = 2048;

/// Initial length of an interval; it doubles when there are too many.
const FIRST_SPAN_NS: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    packets: u64,
    ip_header: u64,
    rohc_header: u64,
    rohc_largest: u64,
}

impl Span {
    fn plus(self, other: Span) -> Span {
        Span {
            packets: self.packets + other.packets,
            ip_header: self.ip_header + other.ip_header,
            rohc_header: self.rohc_header + other.rohc_header,
            rohc_largest: self.rohc_largest.max(other.rohc_largest),
        }
    }
}

/// Sums over intervals since the first packet. A packet before it, in a capture out of order, counts as first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    start_ns: Option<u64>,
    /// Number of times that the interval was doubled.
    doublings: u32,
    spans: Vec<Span>,
}

impl Series {
    pub(crate) fn add(&mut self, time_ns: u64, sizes: &Sizes) {
        let since_ns = time_ns.saturating_sub(*self.start_ns.get_or_insert(time_ns));
        while since_ns / self.span_ns() >= SPANS as u64 {
            self.double();
        }
        let at = (since_ns / self.span_ns()) as usize;
        self.spans.resize(self.spans.len().max(at + 1), Span::default());
        let (ip_header, rohc_header) = (sizes.ip_header as u64, sizes.rohc_header as u64);
        let one = Span { packets: 1, ip_header, rohc_header, rohc_largest: rohc_header };
        self.spans[at] = self.spans[at].plus(one);
    }

    fn span_ns(&self) -> u64 {
        FIRST_SPAN_NS << self.doublings
    }

    fn double(&mut self) {
        self.doublings += 1;
        self.spans =
            self.spans.chunks(2).map(|pair| pair.iter().copied().fold(Span::default(), Span::plus)).collect();
    }

    fn curve(&self, name: &str, colour: usize, mark: Mark, value: impl Fn(&Span) -> f64) -> Curve {
        let seconds = self.span_ns() as f64 / 1e9;
        let used = self.spans.iter().enumerate().filter(|(_, span)| span.packets > 0);
        let points = used.map(|(index, span)| ((index as f64 + 0.5) * seconds, value(span))).collect();
        Curve { name: name.into(), points, errors: Vec::new(), mark, colour }
    }

    /// Plots the mean header before and after compression, and the largest after it.
    pub(crate) fn plot(&self) -> Plot {
        let mean = |sum: u64, span: &Span| sum as f64 / span.packets as f64;
        let mut plot =
            Plot::new("Header size", Axis::new("time", "s"), Axis::new("header a packet", "bytes"));
        plot.curves = vec![
            self.curve("without ROHC", 1, Mark::Line, |span| mean(span.ip_header, span)),
            self.curve("with ROHC", 0, Mark::Line, |span| mean(span.rohc_header, span)),
            self.curve("with ROHC, largest", 0, Mark::Dashed, |span| span.rohc_largest as f64),
        ];
        plot
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::{Form, Method};
    use super::*;
    use bentpipe_rohc::{PacketType, Profile};

    fn sizes(rohc_header: usize) -> Sizes {
        let (method, form) = (Method::Rohc(Profile::Udp), Form::Rohc(PacketType::Uo0));
        Sizes { method, form, ip_len: 100, ip_header: 28, kept: 0, rohc_len: 72 + rohc_header, rohc_header }
    }

    #[test]
    fn a_long_capture_is_summed_over_longer_spans() {
        let mut series = Series::default();
        for second in 0..10_000u64 {
            series.add(second * 1_000_000_000, &sizes(if second == 0 { 31 } else { 1 }));
        }
        assert!(series.spans.len() <= SPANS && series.spans.len() > SPANS / 2, "{}", series.spans.len());
        assert_eq!(series.spans.iter().map(|span| span.packets).sum::<u64>(), 10_000);
        let plot = series.plot();
        assert_eq!(plot.curves[2].points[0].1, 31.0);
        assert_eq!(plot.curves[1].points.last().unwrap().1, 1.0);
        assert!(plot.curves[0].points.iter().all(|point| point.1 == 28.0));
    }

    #[test]
    fn stamps_from_anywhere_are_survived() {
        let mut series = Series::default();
        for time_ns in [5, 0, u64::MAX, 7] {
            series.add(time_ns, &sizes(3));
        }
        assert!(series.spans.len() <= SPANS);
    }
}
