//! Values of a plot at full precision, for the download as CSV.
//!
//! They are attributes of the drawing.

use std::fmt::Write as _;

use super::escape::escape;
use super::plot::{Curve, Plot};

/// Most values of a plot that are in the page. Of more, the download has what is drawn, to four digits.
const MAX_VALUES: usize = 4000;

/// Values of a plot's curves.
pub(super) struct Data<'a> {
    plot: &'a Plot,
    is_kept: bool,
}

impl Data<'_> {
    /// Returns the values of a plot.
    pub(super) fn of(plot: &Plot) -> Data<'_> {
        let values: usize = plot.curves.iter().map(|curve| curve.points.len()).sum();
        Data { plot, is_kept: values <= MAX_VALUES }
    }

    /// Returns the attribute with the titles of the columns.
    pub(super) fn head(plot: &Plot) -> String {
        let titled = |label: &str, unit: &str| {
            let title = if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") };
            bentpipe_record::quoted(&title)
        };
        let (x, y) = (titled(&plot.x.label, &plot.x.unit), titled(&plot.y.label, &plot.y.unit));
        let interval = if Data::has_intervals(plot) { ",ci95" } else { "" };
        format!(" data-head=\"{}\"", escape(&format!("curve,{x},{y}{interval}")))
    }

    fn has_intervals(plot: &Plot) -> bool {
        let is_band = |curve: &Curve| curve.mark == super::plot::Mark::Band;
        plot.curves.iter().any(|curve| !is_band(curve) && curve.errors.iter().any(|half| half.is_finite()))
    }

    /// Returns the attributes of a curve. `entry` is the number of its entry in the legend.
    pub(super) fn of_curve(&self, curve: &Curve, entry: usize) -> String {
        format!(" data-curve=\"{entry}\"{}", self.of_points(&curve.name, &curve.points, &curve.errors))
    }

    /// Returns the attributes with the name and the values of points, a row for each.
    pub(super) fn of_points(&self, name: &str, points: &[(f64, f64)], errors: &[f64]) -> String {
        if !self.is_kept {
            return String::new();
        }
        let has_intervals = Data::has_intervals(self.plot);
        let mut rows = String::new();
        for (n, (x, y)) in points.iter().enumerate().filter(|(_, (x, y))| x.is_finite() && y.is_finite()) {
            let _ = match self.plot.x.words.get(*x as usize) {
                Some(word) => write!(rows, "{},{y}", bentpipe_record::quoted(word)),
                None => write!(rows, "{x},{y}"),
            };
            if has_intervals {
                let half = errors.get(n).filter(|half| half.is_finite());
                let _ = write!(rows, ",{}", half.map(f64::to_string).unwrap_or_default());
            }
            rows.push('\n');
        }
        let name = escape(&bentpipe_record::quoted(name));
        format!(" data-name=\"{name}\" data-values=\"{}\"", escape(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;

    #[test]
    fn values_have_all_their_digits() {
        let mut plot = Plot::new("Goodput", Axis::time(), Axis::new("goodput", "bit/s"));
        let points = vec![(0.1, 8_756_693.333_333_334), (0.2, f64::NAN), (0.30000000000000004, 1e-7)];
        plot.curves = vec![Curve { name: "a, \"b\"".into(), points, ..Curve::default() }];
        let drawn = plot.to_svg();
        assert!(drawn.contains("data-head=\"curve,time (s),goodput (bit/s)\""), "{drawn}");
        assert!(
            drawn.contains("data-values=\"0.1,8756693.333333334\n0.30000000000000004,0.0000001\n\""),
            "{drawn}"
        );
        assert!(drawn.contains("data-name=\"&quot;a, &quot;&quot;b&quot;&quot;&quot;\""), "{drawn}");
        plot.curves[0].errors = vec![1.5];
        assert!(plot.to_svg().contains("data-values=\"0.1,8756693.333333334,1.5\n"), "the interval is there");
        plot.curves[0].points = (0..5000).map(|n| (f64::from(n), 1.0)).collect();
        assert!(!plot.to_svg().contains("data-values"), "too many");
    }
}
