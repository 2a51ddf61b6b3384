//! Removal of points that a plot cannot show.

/// Returns at most four points of a curve for each of `columns` columns. These are the first, lowest, highest and
/// last of each column, in order, so every extreme stays visible. NaN, which breaks the curve, is kept.
pub(super) fn decimate(points: &[(f64, f64)], low: f64, high: f64, columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= columns * 2 {
        return points.to_vec();
    }
    let column = |x: f64| ((x - low) / (high - low) * columns as f64).floor();
    let same = |a: &(f64, f64), b: &(f64, f64)| column(a.0) == column(b.0) && a.1.is_nan() == b.1.is_nan();
    points.chunk_by(same).flat_map(extremes).collect()
}

fn extremes(run: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let by_value = |a: &usize, b: &usize| run[*a].1.total_cmp(&run[*b].1);
    let last = run.len() - 1;
    let lowest = (0..=last).min_by(by_value).unwrap_or(0);
    let highest = (0..=last).max_by(by_value).unwrap_or(0);
    let mut kept = [0, lowest, highest, last];
    kept.sort_unstable();
    let mut kept = kept.to_vec();
    kept.dedup();
    kept.into_iter().map(|i| run[i]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_and_most_goes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[54_321].1 = 1e6;
        let kept = decimate(&points, 0.0, 100_000.0, 500);
        assert!(kept.len() <= 2000, "{}", kept.len());
        assert!(kept.contains(&(54_321.0, 1e6)));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[99_999]));
    }

    #[test]
    fn gaps_stay() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 5000 { f64::NAN } else { 1.0 })).collect();
        assert_eq!(decimate(&points, 0.0, 10_000.0, 100).iter().filter(|p| p.1.is_nan()).count(), 1);
    }
}
