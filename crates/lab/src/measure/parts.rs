//! Looking up what elements reported.

use std::collections::HashMap;

use bentpipe_units::Span;

use crate::record::{Recording, Series};
use crate::stats;

/// What all elements reported at the end of the warm-up and of the run.
pub(super) struct Parts<'a> {
    /// Element paths, in the order of the network.
    pub(super) elements: Vec<&'a str>,
    end: HashMap<(&'a str, &'a str), f64>,
    warm: HashMap<(&'a str, &'a str), f64>,
    series: &'a Series,
    seconds: Vec<f64>,
    warm_up_s: f64,
    duration_s: f64,
}

impl<'a> Parts<'a> {
    pub(super) fn of(recording: &'a Recording) -> Parts<'a> {
        let mut elements: Vec<&str> =
            recording.end.entries.iter().map(|(element, ..)| &element[..]).collect();
        elements.dedup();
        Parts {
            elements,
            end: index(&recording.end.entries),
            warm: index(&recording.warm.entries),
            series: &recording.series,
            seconds: recording.series.seconds(),
            warm_up_s: recording.warm.at.as_secs_f64(),
            duration_s: recording.end.at.as_secs_f64(),
        }
    }

    /// What `element` reported at the end under the first of `names` that it knows.
    pub(super) fn at_end(&self, element: &str, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| self.end.get(&(element, *name)).copied())
    }

    /// How much a total grew after the warm-up.
    pub(super) fn grown(&self, element: &str, names: &[&str]) -> Option<f64> {
        let name = names.iter().find(|name| self.end.contains_key(&(element, **name)))?;
        let before = self.warm.get(&(element, *name)).copied().unwrap_or(0.0);
        Some(self.end[&(element, *name)] - if before.is_nan() { 0.0 } else { before })
    }

    /// How much all totals of `element` grew whose names begin so.
    pub(super) fn grown_all(&self, element: &str, prefix: &str) -> f64 {
        let mut names: Vec<&str> =
            self.end.keys().filter(|(e, _)| *e == element).map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
            .iter()
            .filter(|n| n.starts_with(prefix))
            .filter_map(|name| self.grown(element, &[name]))
            .sum::<f64>()
            + 0.0
    }

    /// The time average of a gauge after the warm-up.
    pub(super) fn average(&self, element: &str, names: &[&str]) -> Option<f64> {
        let column = names.iter().find_map(|name| self.series.column(element, name))?;
        stats::time_average(&self.seconds, &column.data.to_f64(), self.warm_up_s)
    }

    /// The median of a gauge's samples after the warm-up.
    pub(super) fn median(&self, element: &str, names: &[&str]) -> Option<f64> {
        let column = names.iter().find_map(|name| self.series.column(element, name))?;
        let samples = self.seconds.iter().zip(column.data.to_f64());
        stats::median(samples.filter(|(at, _)| **at >= self.warm_up_s).map(|(_, value)| value).collect())
    }

    /// The median of what a total grew by in a second, over the samples after the warm-up.
    pub(super) fn median_growth(&self, element: &str, names: &[&str]) -> Option<f64> {
        let column = names.iter().find_map(|name| self.series.column(element, name))?;
        let values = column.data.to_f64();
        let steps = self.seconds.windows(2).zip(values.windows(2));
        let after = steps.filter(|(at, _)| at[0] >= self.warm_up_s && at[1] > at[0]);
        stats::median(after.map(|(at, value)| (value[1] - value[0]) / (at[1] - at[0])).collect())
    }

    /// The length of the part of the run after the warm-up from `start` on to `stop`, in seconds.
    pub(super) fn on_s(&self, start: Span, stop: Option<Span>) -> f64 {
        let from = start.as_secs_f64().max(self.warm_up_s);
        let to = stop.map_or(self.duration_s, |stop| stop.as_secs_f64().min(self.duration_s));
        to - from
    }
}

fn index(
    entries: &[(String, String, bentpipe_net::Unit, crate::record::Value)],
) -> HashMap<(&str, &str), f64> {
    entries.iter().map(|(element, name, _, value)| ((&element[..], &name[..]), value.as_f64())).collect()
}
