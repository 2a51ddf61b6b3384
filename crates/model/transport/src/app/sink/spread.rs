//! Spread of a measure over the copies of a flow that one sink counts.

use bentpipe_net::Observer;
use bentpipe_net::ledger::Tally;

use super::Figures;
use crate::app::metrics;

/// Reports the spread over the copies of a flow.
///
/// `sent` are the accounts of the copies, if each has one. Their losses are those of all packets sent in the window whose end is known;
/// without accounts, those up to the latest packet received.
pub(super) fn observe(flows: &[Figures], sent: &[Tally], observer: &mut dyn Observer) {
    let by_number = || {
        let with_packets = flows.iter().filter(|flow| flow.packets > 0);
        with_packets.map(|flow| flow.lost as f64 / flow.expected.max(1) as f64).collect()
    };
    let of_accounts = || sent.iter().filter_map(loss).collect();
    let mut losses: Vec<f64> = if sent.is_empty() { by_number() } else { of_accounts() };
    losses.sort_unstable_by(f64::total_cmp);
    // A copy of which nothing was sent in the window, or all is on its way, is in none of these.
    let is_counted = |copy: usize| sent.get(copy).is_none_or(Tally::has_ends);
    let counted = || flows.iter().enumerate().filter(|(copy, _)| is_counted(*copy));
    let is_silent = |copy: usize, flow: &Figures| match sent.get(copy) {
        Some(sent) => sent.arrived() == 0,
        None => flow.packets == 0,
    };
    let silent = counted().filter(|(copy, flow)| is_silent(*copy, flow)).count();
    let left_out = flows.len() - counted().count();
    observer.gauge(&metrics::COPIES_SILENT, if left_out < flows.len() { silent as f64 } else { f64::NAN });
    observer.gauge(&metrics::COPIES_LEFT_OUT, if left_out > 0 { left_out as f64 } else { f64::NAN });
    observer.gauge(&metrics::COPIES_LOSS_P50, nearest_rank(&losses, 0.5));
    observer.gauge(&metrics::COPIES_LOSS_P95, nearest_rank(&losses, 0.95));
    observer.gauge(&metrics::COPIES_LOSS_MAX, nearest_rank(&losses, 1.0));
    observer.gauge(&metrics::COPIES_JAIN, jain(counted().map(|(_, flow)| flow.bytes as f64)));
}

/// Returns the share of packets lost, of those lost or arrived.
fn loss(sent: &Tally) -> Option<f64> {
    let (lost, arrived) = (sent.lost(), sent.arrived());
    (lost + arrived > 0).then(|| lost as f64 / (lost + arrived) as f64)
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
    fn losses_are_those_of_an_account_and_not_what_is_on_its_way() {
        let sent = Tally { sent: 100, delivered: 30, dropped: 60, ..Tally::default() };
        assert_eq!(loss(&sent), Some(2.0 / 3.0));
        let copied = Tally { copied: 50, delivered: 60, dropped: 80, again: 20, spared: 30, ..sent };
        assert_eq!(
            loss(&copied),
            Some(50.0 / 90.0),
            "40 arrived, 10 remain and 50 were lost with all their copies"
        );
        assert_eq!(loss(&Tally { sent: 5, ..Tally::default() }), None);
    }

    #[test]
    fn fairness_is_one_for_like_copies_and_least_for_one_that_has_all() {
        assert_eq!(jain([5.0, 5.0, 5.0, 5.0].into_iter()), 1.0);
        assert_eq!(jain([8.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }
}
