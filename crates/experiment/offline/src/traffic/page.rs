//! Page of the statistics of a rate.

use std::path::Path;

use bentpipe_mpeg::lrd::{Points, autocorrelation, log_scale, rescaled_range, variance_time};
use bentpipe_report::{Axis, Block, Curve, Mark, Page, Plot, Scale, number};

use super::{Series, Statistics, tables};

/// Number of lags in the plot of the autocorrelation.
const LAGS: usize = 200;
/// Number of points of the plots of rate and distribution.
const POINTS: usize = 1000;

const HOW_TO_READ: &str = "A Hurst parameter of 0.5 means that rates far apart are independent; above, they are long-range \
    dependent, and queues grow longer than by independent rates of the same deviation. The interval is that of fractional Gaussian \
    noise with this parameter. Trends and seasons raise all three estimates.";

pub(super) fn page(path: &Path, series: &Series, statistics: &Statistics) -> Page {
    let mut blocks: Vec<Block> = tables(series, statistics).into_iter().map(Block::Table).collect();
    blocks.push(Block::Paragraph(HOW_TO_READ.to_owned()));
    let mut plots = vec![rate(series), distribution(series), correlation(series)];
    if statistics.estimates.is_some() {
        plots.extend([
            fit(
                "Variance-time plot",
                "block length",
                "variance of block means, (bit/s)²",
                &variance_time(&series.rates),
            ),
            fit("Rescaled range (R/S)", "block length", "R/S", &rescaled_range(&series.rates)),
            fit("Wavelet energies", "scale", "energy of details", &log_scale(&series.rates)),
        ]);
    }
    blocks.push(Block::Plots(plots));
    let title = format!("Traffic of {}", path.display());
    let lead = [&series.about[..], &series.remark].join(if series.remark.is_empty() { "" } else { ". " });
    Page { title, lead, facts: Vec::new(), blocks }
}

fn rate(series: &Series) -> Plot {
    let mut plot = Plot::new("Rate", Axis::new("time", "s"), Axis::new("rate", "bit/s"));
    let step = series.rates.len().div_ceil(POINTS).max(1);
    plot.note = format!("mean over {} s each", number(step as f64 * series.interval_s));
    let point = |(n, part): (usize, &[f64])| {
        (n as f64 * step as f64 * series.interval_s, part.iter().sum::<f64>() / part.len() as f64)
    };
    let points = series.rates.chunks(step).enumerate().map(point).collect();
    plot.curves.push(Curve { points, ..Curve::default() });
    plot
}

fn distribution(series: &Series) -> Plot {
    let mut plot = Plot::new("Distribution", Axis::new("rate", "bit/s"), Axis::new("share below", ""));
    let shares: Vec<f64> = (0..=200).map(|n| f64::from(n) / 200.0).collect();
    let values = bentpipe_mpeg::lrd::quantiles(&series.rates, &shares);
    plot.curves.push(Curve { points: values.into_iter().zip(shares).collect(), ..Curve::default() });
    plot
}

fn correlation(series: &Series) -> Plot {
    let mut plot = Plot::new("Autocorrelation", Axis::new("lag", "s"), Axis::new("autocorrelation", ""));
    let most = LAGS.min(series.rates.len() / 2);
    let lags: Vec<usize> = (0..=most).collect();
    let points = autocorrelation(&series.rates, &lags);
    let points = points.into_iter().map(|(lag, value)| (lag as f64 * series.interval_s, value)).collect();
    plot.curves.push(Curve { points, ..Curve::default() });
    plot
}

fn fit(title: &str, scale: &str, statistic: &str, points: &Points) -> Plot {
    let logarithmic = |label: &str, unit: &str| Axis { scale: Scale::Logarithmic, ..Axis::new(label, unit) };
    let mut plot = Plot::new(title, logarithmic(scale, "intervals"), logarithmic(statistic, ""));
    plot.note = format!("Hurst parameter {:.3}", points.hurst());
    let points = points.all.iter().map(|[scale, statistic, _]| (scale.exp(), statistic.exp())).collect();
    plot.curves.push(Curve { points, mark: Mark::Points, ..Curve::default() });
    plot
}
