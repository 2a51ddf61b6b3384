//! The rate in time; its law is tested in `tests/video_theory.rs`.

use super::*;

fn mbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

#[test]
fn units_carry_what_the_pieces_earned() {
    let config = RateConfig { programmes: 3, ..RateConfig::new(mbit(5), mbit(5)) };
    let cell = Bytes::new(53);
    for seed in 0..5 {
        let [mut by_cell, mut by_piece] = [(); 2].map(|()| RandomStream::new(seed, "video"));
        let mut cells = Rates::new(&config, Time::ZERO, &mut by_cell).expect("possible");
        let mut pieces = Rates::new(&config, Time::ZERO, &mut by_piece).expect("possible");
        let mut earned: u128 = 0;
        let mut count: u128 = 0;
        let mut next = cells.next_unit(cell, &mut by_cell);
        for _ in 0..500 {
            let piece = pieces.next_piece(&mut by_piece);
            earned += u128::from(piece.rate.as_bps()) * u128::from(piece.span.as_nanos());
            while next <= piece.start + piece.span {
                count += 1;
                next = cells.next_unit(cell, &mut by_cell);
            }
            let whole = earned / (424 * 1_000_000_000);
            assert_eq!(count, whole, "after {:?}", piece);
        }
        assert!(count > 100_000);
    }
}

#[test]
fn pieces_are_as_long_as_the_clock_references_are_apart() {
    let config = RateConfig::new(mbit(5), mbit(5));
    let mut stream = RandomStream::new(1, "video");
    let mut rates = Rates::new(&config, Time::ZERO, &mut stream).expect("possible");
    assert!(rates.next_piece(&mut stream).span < Span::from_millis(100));
    let spans: Vec<f64> = (0..20_000).map(|_| rates.next_piece(&mut stream).span.as_secs_f64()).collect();
    assert!(spans.iter().all(|span| (0.02..=0.1).contains(span)));
    let mean = spans.iter().sum::<f64>() / 20_000.0;
    let square = spans.iter().map(|span| (span - mean).powi(2)).sum::<f64>() / 20_000.0;
    // Uniform over 80 ms: mean 60 ms, variance 80^2/12 ms^2.
    assert!((mean - 0.06).abs() < 4.0 * 0.0231 / 20_000_f64.sqrt(), "{mean}");
    assert!((square.sqrt() / 0.023_094 - 1.0).abs() < 0.02, "{square}");
}

#[test]
fn rates_stay_within_their_bounds() {
    let config =
        RateConfig { lowest: mbit(2), highest: mbit(9), samples: 64, ..RateConfig::new(mbit(5), mbit(5)) };
    let mut stream = RandomStream::new(1, "video");
    let mut rates = Rates::new(&config, Time::ZERO, &mut stream).expect("possible");
    for _ in 0..2000 {
        assert!((mbit(2)..=mbit(9)).contains(&rates.next_piece(&mut stream).rate));
    }
}

#[test]
fn pruned_moments_are_those_computed_elsewhere() {
    // The settings of ATM Forum 97-0177: mean, deviation, and what pruning to 0 to 15 Mbit/s leaves of them.
    for (mean, deviation, pruned) in [
        (5_000_000, 5_000_000, [0.8186, 6.148, 3.605]),
        (7_500_000, 7_000_000, [0.7160, 7.5, 4.006]),
        (10_000_000, 5_000_000, [0.8186, 8.852, 3.605]),
    ] {
        let ours = RateConfig::new(Rate::from_bps(mean), Rate::from_bps(deviation)).bounded();
        let ours = [ours.kept, ours.mean / 1e6, ours.deviation / 1e6];
        for (ours, expected) in ours.into_iter().zip(pruned) {
            assert!((ours - expected).abs() < 6e-4, "{mean}: {ours}, not {expected}");
        }
    }
}

#[test]
fn clipped_and_exponentiated_moments_are_those_of_an_integral() {
    // The same settings by the midpoint rule over 400,000 values of the noise.
    for (mean, deviation, clipped, exponentiated) in [
        (5_000_000, 5_000_000, [0.8186, 5.3741, 4.2211], [0.9587, 4.7035, 3.6849]),
        (7_500_000, 7_000_000, [0.7160, 7.5, 5.2406], [0.8982, 6.6594, 4.2781]),
        (10_000_000, 5_000_000, [0.8186, 9.6259, 4.2211], [0.8631, 9.3837, 3.5610]),
    ] {
        for (bounding, expected) in [(Bounding::Clip, clipped), (Bounding::Exponentiate, exponentiated)] {
            let config = RateConfig::new(Rate::from_bps(mean), Rate::from_bps(deviation));
            let found = RateConfig { bounding, ..config }.bounded();
            let found = [found.kept, found.mean / 1e6, found.deviation / 1e6];
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-4, "{bounding:?} {mean}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn an_exponential_needs_a_mean() {
    let config = RateConfig { bounding: Bounding::Exponentiate, ..RateConfig::new(mbit(0), mbit(5)) };
    assert_eq!(config.check().map_err(|error| error.key), Err("mean"));
}

#[test]
fn pictures_repeat_with_their_group_and_keep_the_mean() {
    let pictures = crate::Pictures::default();
    let config = RateConfig { pictures: Some(pictures), ..RateConfig::new(mbit(6), mbit(1)) };
    let mut stream = RandomStream::new(3, "video");
    let mut rates = Rates::new(&config, Time::ZERO, &mut stream).expect("possible");
    rates.next_piece(&mut stream);
    // The first picture of a programme began before the start.
    let pieces: Vec<Piece> = (0..12 * 2000).map(|_| rates.next_piece(&mut stream)).collect();
    assert!(pieces.iter().all(|piece| piece.span == Span::from_millis(40)));
    let bits = |piece: &Piece| piece.rate.as_bps() as f64;
    let mean = pieces.iter().map(bits).sum::<f64>() / pieces.len() as f64;
    assert!((mean / config.bounded().mean - 1.0).abs() < 0.05, "{mean}");
    // Sizes of 5, 1, 1, 3 within each group: an I picture has five times the bits of the B picture behind it.
    let first = (0..12).max_by_key(|n| pieces[*n].rate).expect("pictures");
    for group in pieces[first..].chunks_exact(12) {
        assert!((bits(&group[0]) / bits(&group[1]) - 5.0).abs() < 1e-4, "{group:?}");
        assert!((bits(&group[3]) / bits(&group[2]) - 3.0).abs() < 1e-4, "{group:?}");
    }
    let wrong = RateConfig { shortest: Span::from_millis(10), ..config };
    assert_eq!(wrong.check().map_err(|error| error.key), Err("shortest"));
}

#[test]
fn the_number_of_programmes_is_bounded() {
    for (programmes, is_good) in [(0, false), (1, true), (1000, true), (1001, false), (u16::MAX, false)] {
        let config = RateConfig { programmes, ..RateConfig::new(mbit(5), mbit(5)) };
        assert_eq!(config.check().is_ok(), is_good, "{programmes}");
    }
}
