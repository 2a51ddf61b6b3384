//! Declarations: names that columns can have, once each.

use super::*;

/// All catalogues of this crate.
fn catalogues() -> Vec<(&'static str, &'static [&'static Metric])> {
    vec![
        ("channel", crate::channel::metrics::ALL),
        ("gate", crate::external_port::metrics::ALL),
        ("link", crate::link::metrics::ALL),
        ("queue", crate::queue::metrics::ALL),
        ("quick-start", crate::quick_start::metrics::ALL),
        ("shaper", crate::shaper::metrics::ALL),
    ]
}

#[test]
fn names_can_stand_in_files_and_measures_are_made_once() {
    catalogues().into_iter().for_each(|(name, metrics)| crate::testing::check_metrics(name, metrics));
}

#[test]
fn growths_per_second_have_units() {
    assert_eq!(Unit::Bytes.per_second(), Unit::BitsPerSecond);
    assert_eq!(Unit::Seconds.per_second(), Unit::Ratio);
    assert_eq!((Unit::Bytes.per_second_factor(), Unit::Seconds.per_second_factor()), (8.0, 1.0));
    let mut symbols = Unit::ALL.map(Unit::symbol).to_vec();
    symbols.sort_unstable();
    symbols.dedup();
    assert_eq!(symbols.len(), Unit::ALL.len());
}
