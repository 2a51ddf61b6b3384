//! The video source's noise against theory: the Hurst parameter that estimators recover, moments, and what pruning does.
//!
//! Tolerances are four standard deviations of the estimator on exact noise of that length, and at most 0.05.
#![allow(clippy::print_stdout, reason = "the figures, with --nocapture")]

mod hurst;

use bentpipe_mpeg::{Bounding, Fgn, RateConfig, Rates, Synthesis};
use bentpipe_units::{RandomStream, Rate, Time};
use hurst::{abry_veitch, dfa, local_whittle};

const N: usize = 1 << 16;

fn path(synthesis: Synthesis, hurst: f64) -> Vec<f64> {
    let [path, _] = Fgn::new(synthesis, hurst, N).paths(&mut RandomStream::new(1, "theory"));
    path
}

#[test]
fn three_estimators_recover_the_hurst_parameter() {
    for synthesis in [Synthesis::DaviesHarte, Synthesis::Paxson] {
        for hurst in [0.5, 0.7, 0.8, 0.9] {
            let x = path(synthesis, hurst);
            let [dfa, whittle, wavelet] = [dfa(&x), local_whittle(&x), abry_veitch(&x, 3)];
            println!(
                "{synthesis:?} H {hurst}: DFA {dfa:.3}, local Whittle {whittle:.3}, Abry-Veitch {wavelet:.3}"
            );
            assert!((dfa - hurst).abs() < 0.05, "{synthesis:?} H {hurst}: DFA {dfa}");
            assert!((whittle - hurst).abs() < 0.05, "{synthesis:?} H {hurst}: local Whittle {whittle}");
            assert!((wavelet - hurst).abs() < 0.03, "{synthesis:?} H {hurst}: Abry-Veitch {wavelet}");
        }
    }
}

#[test]
fn the_noise_has_its_variance_at_every_aggregation() {
    // The variance of a mean of m values is m^(2H - 2) exactly; over 40 paths, so that the mean of each counts.
    let fgn = Fgn::new(Synthesis::DaviesHarte, 0.8, 1 << 12);
    let mut stream = RandomStream::new(2, "theory");
    let paths: Vec<Vec<f64>> = (0..100).flat_map(|_| fgn.paths(&mut stream)).collect();
    for m in [1, 16, 256, 4096] {
        let means: Vec<f64> = paths
            .iter()
            .flat_map(|path| path.chunks(m).map(|block| block.iter().sum::<f64>() / m as f64))
            .collect();
        let variance = means.iter().map(|x| x * x).sum::<f64>() / means.len() as f64;
        let ratio = variance / (m as f64).powf(-0.4);
        // At worst the 200 blocks are independent: standard error sqrt(2/200).
        assert!((ratio - 1.0).abs() < 4.0 * (2.0_f64 / 200.0).sqrt(), "m {m}: {ratio}");
    }
}

/// So many rates of one programme in Mbit/s, one from each piece.
fn rates(mean: u64, deviation: u64, count: usize, seed: u64) -> Vec<f64> {
    bounded_rates(mean, deviation, Bounding::Prune, count, seed)
}

fn bounded_rates(mean: u64, deviation: u64, bounding: Bounding, count: usize, seed: u64) -> Vec<f64> {
    let config = RateConfig::new(Rate::from_bps(mean), Rate::from_bps(deviation));
    let config = RateConfig { samples: 1 << 16, bounding, ..config };
    let mut stream = RandomStream::new(seed, "theory");
    let mut rates = Rates::new(&config, Time::ZERO, &mut stream).expect("possible");
    (0..count).map(|_| rates.next_piece(&mut stream).rate.as_bps() as f64 / 1e6).collect()
}

#[test]
fn pruned_rates_have_the_moments_of_a_truncated_normal() {
    for (mean, deviation) in [(5_000_000, 5_000_000), (7_500_000, 7_000_000), (10_000_000, 5_000_000)] {
        let theory = RateConfig::new(Rate::from_bps(mean), Rate::from_bps(deviation)).bounded();
        let all: Vec<f64> = (0..10).flat_map(|seed| rates(mean, deviation, N, seed)).collect();
        let ours = all.iter().sum::<f64>() / all.len() as f64;
        let spread = (all.iter().map(|x| (x - ours).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        println!(
            "({mean}, {deviation}): mean {ours:.3}, {:.3} in theory; deviation {spread:.3}, {:.3}",
            theory.mean / 1e6,
            theory.deviation / 1e6
        );
        // The mean of 10 paths of 2^16 values with H below 0.8: a deviation under 4 * (2^16)^-0.2/sqrt 10 = 0.14.
        assert!((ours - theory.mean / 1e6).abs() < 0.3, "{ours}");
        assert!((spread * 1e6 / theory.deviation - 1.0).abs() < 0.02, "{spread}");
    }
}

#[test]
fn pruning_lowers_the_hurst_parameter() {
    // Found for the three settings by an independent program over 65,536 rates before pruning: about 0.75, 0.71, 0.75.
    for (mean, deviation, expected) in
        [(5_000_000, 5_000_000, 0.750), (7_500_000, 7_000_000, 0.711), (10_000_000, 5_000_000, 0.746)]
    {
        let paths: Vec<Vec<f64>> = (0..8).map(|seed| rates(mean, deviation, N, seed)).collect();
        let mean_of =
            |estimator: &dyn Fn(&[f64]) -> f64| paths.iter().map(|path| estimator(path)).sum::<f64>() / 8.0;
        let [whittle, wavelet] = [mean_of(&local_whittle), mean_of(&|path| abry_veitch(path, 3))];
        println!("({mean}, {deviation}): local Whittle {whittle:.3}, Abry-Veitch {wavelet:.3}");
        assert!((whittle - expected).abs() < 0.02, "{whittle}, not {expected}");
        assert!(wavelet < 0.75 && wavelet > 0.65, "{wavelet}");
    }
}

#[test]
fn clipping_and_exponentiation_keep_the_hurst_parameter() {
    // A monotone function of each value has Hermite rank 1, so its memory is that of the noise (Taqqu 1975). Pruning
    // takes values out, which moves the others together.
    let mean_of = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    for (mean, deviation) in [(5_000_000, 5_000_000), (7_500_000, 7_000_000), (10_000_000, 5_000_000)] {
        let mut found = Vec::new();
        for bounding in [Bounding::Prune, Bounding::Clip, Bounding::Exponentiate] {
            let path = |seed| bounded_rates(mean, deviation, bounding, N, seed);
            let paths: Vec<Vec<f64>> = (0..8).map(path).collect();
            let config = RateConfig::new(Rate::from_bps(mean), Rate::from_bps(deviation));
            let theory = RateConfig { bounding, ..config }.bounded();
            let average = mean_of(&paths.iter().map(|path| mean_of(path)).collect::<Vec<_>>());
            let square = |path: &Vec<f64>| mean_of(&path.iter().map(|x| x * x).collect::<Vec<_>>());
            let spread = (mean_of(&paths.iter().map(square).collect::<Vec<_>>()) - average.powi(2)).sqrt();
            let hurst = mean_of(&paths.iter().map(|path| local_whittle(path)).collect::<Vec<_>>());
            println!(
                "({mean}, {deviation}) {bounding:?}: mean {average:.3}, deviation {spread:.3}, H {hurst:.3}"
            );
            // The mean of a path has a deviation of 5 * (2^16)^-0.2 = 0.54; four of the mean of eight paths are 0.77.
            assert!((average - theory.mean / 1e6).abs() < 0.77, "{bounding:?}: {average}");
            assert!((spread * 1e6 / theory.deviation - 1.0).abs() < 0.1, "{bounding:?}: {spread}");
            found.push(hurst);
        }
        assert!(found[1] > found[0] + 0.02 && found[1] < 0.82, "{found:?}");
        assert!(found[2] > found[0] && found[2] < 0.82, "{found:?}");
    }
}
