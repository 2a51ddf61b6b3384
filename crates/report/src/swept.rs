//! Putting the values of a swept key along an axis.

use bentpipe_record::PointSummary;

use super::amount;
use super::axis::{Axis, Scale};
use super::plot::{Curve, Mark, Plot};

/// Returns an axis for the values of a swept key, and their positions.
pub fn axis(label: &str, values: &[&str]) -> (Axis, Vec<f64>) {
    let numbers: Option<Vec<(f64, &str)>> = values.iter().map(|value| amount::number(value)).collect();
    let unit = numbers.as_ref().and_then(|numbers| numbers.first()).map_or("", |(_, unit)| unit);
    match numbers {
        Some(numbers) if numbers.iter().all(|(_, own)| *own == unit) => {
            (Axis::new(label, unit), numbers.into_iter().map(|(number, _)| number).collect())
        }
        _ => of_words(label, values),
    }
}

fn of_words(label: &str, values: &[&str]) -> (Axis, Vec<f64>) {
    let mut axis = Axis::new(label, "");
    let place = |value: &&str| {
        let known = axis.words.iter().position(|word| word == value);
        known.unwrap_or_else(|| {
            axis.words.push((*value).to_owned());
            axis.words.len() - 1
        }) as f64
    };
    let places = values.iter().map(place).collect();
    (axis, places)
}

/// Returns a curve of means and confidence intervals, in rising order on the axis. Points without the measure are
/// left out.
pub fn curve(name: String, colour: usize, places: &[f64], points: &[&PointSummary], measure: &str) -> Curve {
    let value = |(x, point): (&f64, &&PointSummary)| {
        let averaged = point.value(measure)?;
        Some((*x, averaged.estimate.mean, averaged.estimate.ci95.unwrap_or(f64::NAN)))
    };
    let mut found: Vec<(f64, f64, f64)> = places.iter().zip(points).filter_map(value).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        name,
        points: found.iter().map(|(x, y, _)| (*x, *y)).collect(),
        errors: found.iter().map(|(.., half)| *half).collect(),
        mark: Mark::Points,
        colour,
    }
}

/// Returns the plot with axes fitted to its curves. They are logarithmic for positive values over decades, and do not
/// start at zero if all values are far from it. Over words, dots replace lines.
pub fn spread(plot: Plot) -> Plot {
    let mut plot = plot.spread_x();
    if !plot.x.words.is_empty() {
        // Between categories there is nothing that a line could stand for.
        let joined = plot.curves.iter_mut().filter(|curve| curve.mark == Mark::Points);
        joined.for_each(|curve| curve.mark = Mark::Dots);
    }
    let logarithmic = plot.x.scale == Scale::Logarithmic;
    let places = || plot.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0);
    let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
    let from_zero = !logarithmic && plot.x.from_zero && low <= high / 2.0;
    Plot { x: Axis { from_zero, ..plot.x }, ..plot }
}
