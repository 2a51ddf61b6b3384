//! Distributions of a run, such as the one-way delays of a flow's packets.

use bentpipe_net::Histogram;
use bentpipe_net::histogram::lower_bound_s;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Recording;

/// Maximum number of buckets of a histogram that are one bucket in files. Eight are left of an octave.
const MOST_MERGED: usize = 128;

/// Number of buckets in files up to which fewer are merged.
///
/// Few values keep the histogram's resolution.
const FEW: usize = 32;

/// Distribution of a subject's metric over a run, the warm-up left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Subject: "flow.cubic.receiver".
    pub subject: String,
    /// Metric: "delays".
    pub metric: String,
    /// Unit of the bounds.
    pub unit: String,
    /// Buckets that are not empty: lower bound, upper bound, count.
    pub buckets: Vec<(f64, f64, u64)>,
    /// Bounds of all values: the least and the greatest of the run.
    pub range: (f64, f64),
}

impl Distribution {
    /// Returns the distributions of a recording.
    pub fn of(recording: &Recording) -> Vec<Distribution> {
        let (end, warm) = (&recording.end, &recording.warm);
        let of = |(part, metric, values): &(u32, &'static bentpipe_net::metric::Metric, _)| {
            let values: &Histogram = values;
            let before = warm.histograms_of(*part).iter().find(|(_, known, _)| known.is(metric));
            let grown = before.map_or_else(|| values.clone(), |(.., before)| values.since(before));
            let (min, max) = grown.range().unwrap_or_default();
            Distribution {
                subject: end.parts[*part as usize].replace('/', "."),
                metric: metric.name.to_owned(),
                unit: metric.unit.symbol().to_owned(),
                buckets: merged(&grown),
                range: (min.as_secs_f64(), max.as_secs_f64()),
            }
        };
        end.histograms.iter().map(of).filter(|distribution| !distribution.buckets.is_empty()).collect()
    }

    /// Adds the counts of another distribution of the same metric.
    ///
    /// Its buckets may be of other widths.
    pub fn add(&mut self, other: &Distribution) {
        self.range = (self.range.0.min(other.range.0), self.range.1.max(other.range.1));
        self.buckets.extend(&other.buckets);
        self.buckets.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
        self.buckets.dedup_by(|later, kept| {
            let same = (later.0, later.1) == (kept.0, kept.1);
            kept.2 += if same { later.2 } else { 0 };
            same
        });
    }

    /// Returns the cumulative distribution in steps: values, and the share that is not above them.
    ///
    /// Of a bucket only its bounds are known, so that its values count at the upper one. A line between the bounds would show
    /// values that none had.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let all = self.buckets.iter().map(|bucket| bucket.2).sum::<u64>() as f64;
        let mut below = 0;
        let mut points = vec![(self.range.0, 0.0)];
        for (_, high, count) in &self.buckets {
            let at = high.clamp(self.range.0, self.range.1);
            points.push((at, below as f64 / all));
            below += count;
            points.push((at, below as f64 / all));
        }
        points.dedup();
        points
    }
}

/// Returns the buckets that files have of a histogram.
///
/// Twice as many are merged until they are few.
fn merged(histogram: &Histogram) -> Vec<(f64, f64, u64)> {
    let mut width = 1;
    loop {
        let merged = merged_by(histogram, width);
        if merged.len() <= FEW || width == MOST_MERGED {
            return merged;
        }
        width *= 2;
    }
}

fn merged_by(histogram: &Histogram, width: usize) -> Vec<(f64, f64, u64)> {
    let mut merged: Vec<(usize, u64)> = Vec::new();
    for (bucket, count) in histogram.buckets() {
        let bucket = bucket / width;
        match merged.last_mut() {
            Some((last, counted)) if *last == bucket => *counted += u64::from(count),
            _ => merged.push((bucket, u64::from(count))),
        }
    }
    let bounds = |n: usize| (lower_bound_s(n * width), lower_bound_s((n + 1) * width));
    merged.into_iter().map(|(n, count)| (bounds(n).0, bounds(n).1, count)).collect()
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Span;

    use super::*;

    #[test]
    fn shares_rise_from_none_to_all() {
        let of = |buckets| Distribution {
            subject: "flow.a.receiver".into(),
            metric: "delays".into(),
            unit: "s".into(),
            buckets,
            range: (0.15, 0.45),
        };
        let mut both = of(vec![(0.1, 0.2, 1), (0.4, 0.5, 2)]);
        both.add(&of(vec![(0.1, 0.2, 1)]));
        assert_eq!(both.buckets, [(0.1, 0.2, 2), (0.4, 0.5, 2)]);
        let steps = [(0.15, 0.0), (0.2, 0.0), (0.2, 0.5), (0.45, 0.5), (0.45, 1.0)];
        assert_eq!(both.cumulative(), steps);
        both.add(&of(vec![(0.35, 0.375, 4)]));
        assert_eq!(both.cumulative()[3..5], [(0.375, 0.25), (0.375, 0.75)], "of a finer resolution");
    }

    #[test]
    fn few_values_are_steps_at_their_places() {
        let mut histogram = Histogram::default();
        let values = [270, 275, 281];
        values.iter().for_each(|ms| (0..10).for_each(|_| histogram.record(Span::from_millis(*ms))));
        let few = merged(&histogram);
        let is_of = |((low, high, count), ms): (&(f64, f64, u64), u64)| {
            let seconds = ms as f64 / 1e3;
            *low <= seconds && seconds < *high && high / low < 1.001 && *count == 10
        };
        assert!(few.len() == 3 && few.iter().zip(values).all(is_of), "{few:?}");
        (0..2000).for_each(|n| histogram.record(Span::from_micros(100_000 + 500 * n)));
        let many = merged(&histogram);
        assert!(many.len() <= FEW && many.iter().map(|bucket| bucket.2).sum::<u64>() == 2030, "{many:?}");
    }
}
