//! Content of a plot.

use super::axis::{Axis, Scale};

/// Style of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Line with markers that identify it.
    #[default]
    Line,
    /// Thin dashed line, for a limit or a secondary curve (ssthresh next to cwnd).
    Dashed,
    /// A marker at each point, joined by a line: measured points of a sweep.
    Points,
    /// Markers alone.
    Dots,
    /// Bars from point to point, in rows. Points come in pairs with NaN between them.
    Rows,
    /// Filled area between the points less and plus their errors, behind the other curves.
    #[serde(skip)]
    Band,
    /// Vertical lines at the x of each point, whose y is NaN: instants.
    #[serde(skip)]
    Instants,
}

/// Points in the order they are joined; NaN breaks the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Half-length of the error bar of each point; empty for none, NaN where absent.
    pub errors: Vec<f64>,
    /// Style.
    pub mark: Mark,
    /// Index of colour and marker in the palette.
    pub colour: usize,
}

/// A diagram of curves over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Note on its features. May be empty.
    pub note: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// Ratio of positive values above which an axis is logarithmic.
const WIDE: f64 = 60.0;

impl Plot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        Plot { title: title.into(), note: String::new(), x, y, curves: Vec::new() }
    }

    /// Returns `true` if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        !self.curves.iter().flat_map(|curve| &curve.points).any(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Sets a logarithmic horizontal axis if its values are positive and widely spread.
    pub fn spread_x(mut self) -> Plot {
        let range = range(self.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)));
        if range.is_some_and(|(low, high)| low > 0.0 && high / low > WIDE) && self.x.words.is_empty() {
            self.x.scale = Scale::Logarithmic;
        }
        self
    }

    /// The least and greatest finite x.
    pub(super) fn x_range(&self) -> Option<(f64, f64)> {
        let covered = self.x.covers.into_iter().flat_map(|(low, high)| [low, high]);
        range(self.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0)).chain(covered))
    }

    /// Returns the least and greatest finite y, error bars included. For quantities that are never negative, negative
    /// parts of bars are ignored.
    pub(super) fn y_range(&self) -> Option<(f64, f64)> {
        let is_positive = !self.curves.iter().flat_map(|curve| &curve.points).any(|point| point.1 < 0.0);
        let covered = self.y.covers.into_iter().flat_map(|(low, high)| [low, high]);
        let of_curves = self.curves.iter().flat_map(|curve| {
            curve.points.iter().enumerate().flat_map(|(i, p)| {
                let half = curve.errors.get(i).copied().filter(|e| e.is_finite()).unwrap_or(0.0);
                [if is_positive { (p.1 - half).max(0.0) } else { p.1 - half }, p.1 + half]
            })
        });
        range(of_curves.chain(covered))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}
