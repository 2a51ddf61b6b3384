//! Spread of a measure over the copies of a flow that one sink counts.

use bentpipe_net::Observer;

use super::Figures;
use crate::app::metrics;

/// Reports the spread over the copies of a flow.
///
/// Losses are those up to the latest packet received. Copies without any have a gauge of their own.
pub(super) fn observe(flows: &[Figures], observer: &mut dyn Observer) {
    let with_packets = flows.iter().filter(|flow| flow.packets > 0);
    let mut losses: Vec<f64> =
        with_packets.map(|flow| flow.lost as f64 / flow.expected.max(1) as f64).collect();
    losses.sort_unstable_by(f64::total_cmp);
    observer.gauge(&metrics::COPIES_SILENT, (flows.len() - losses.len()) as f64);
    observer.gauge(&metrics::COPIES_LOSS_P50, nearest_rank(&losses, 0.5));
    observer.gauge(&metrics::COPIES_LOSS_P95, nearest_rank(&losses, 0.95));
    observer.gauge(&metrics::COPIES_LOSS_MAX, nearest_rank(&losses, 1.0));
    observer.gauge(&metrics::COPIES_JAIN, jain(flows.iter().map(|flow| flow.bytes as f64)));
}

/// Returns a quantile of sorted values by nearest rank; NaN without any.
fn nearest_rank(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns R. Jain's index of fairness: one if all have the same, 1/n if one has all.
fn jain(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let (sum, squares): (f64, f64) = (values.clone().sum(), values.clone().map(|value| value * value).sum());
    sum * sum / squares / values.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_sorted_values() {
        let losses: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!([0.5, 0.95, 1.0].map(|part| nearest_rank(&losses, part)), [10.0, 19.0, 20.0]);
        assert_eq!(nearest_rank(&losses[..1], 0.5), 1.0);
        assert!(nearest_rank(&[], 0.5).is_nan());
    }

    #[test]
    fn fairness_is_one_for_like_copies_and_least_for_one_that_has_all() {
        assert_eq!(jain([5.0, 5.0, 5.0, 5.0].into_iter()), 1.0);
        assert_eq!(jain([8.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }
}
