//! What a plot shows.

use super::axis::{Axis, Scale};

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A line with a marker now and then to tell it by.
    #[default]
    Line,
    /// A thin dashed line, for what belongs to another curve (ssthresh to cwnd) or is a limit.
    Dashed,
    /// A marker at each point, joined by a line: measured points of a sweep.
    Points,
    /// Markers alone.
    Dots,
    /// Bars from each point to the next, in rows: points come in pairs with NaN between them.
    Rows,
}

/// Points in the order they are joined; NaN breaks the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Half the length of the error bar at each point; empty for none, NaN where there is none.
    pub errors: Vec<f64>,
    /// How it is drawn.
    pub mark: Mark,
    /// Which colour and marker of the palette.
    pub colour: usize,
}

/// A diagram of curves over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What to look at in it; may be empty.
    pub note: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// On an axis of positive values that differ by more than this factor, small ones would be squeezed together.
const WIDE: f64 = 60.0;

impl Plot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        Plot { title: title.into(), note: String::new(), x, y, curves: Vec::new() }
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        !self.curves.iter().flat_map(|curve| &curve.points).any(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Makes the axis to the right logarithmic if its values are positive and very different.
    pub fn spread_x(mut self) -> Plot {
        let range = range(self.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)));
        if range.is_some_and(|(low, high)| low > 0.0 && high / low > WIDE) && self.x.words.is_empty() {
            self.x.scale = Scale::Logarithmic;
        }
        self
    }

    /// The least and greatest finite x.
    pub(super) fn x_range(&self) -> Option<(f64, f64)> {
        range(self.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0)))
    }

    /// The least and greatest finite y, error bars included; of what is never negative, bars below zero are not.
    pub(super) fn y_range(&self) -> Option<(f64, f64)> {
        let is_positive = !self.curves.iter().flat_map(|curve| &curve.points).any(|point| point.1 < 0.0);
        range(self.curves.iter().flat_map(|curve| {
            curve.points.iter().enumerate().flat_map(|(i, p)| {
                let half = curve.errors.get(i).copied().filter(|e| e.is_finite()).unwrap_or(0.0);
                [if is_positive { (p.1 - half).max(0.0) } else { p.1 - half }, p.1 + half]
            })
        }))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((v.min(low), v.max(high))),
    })
}
