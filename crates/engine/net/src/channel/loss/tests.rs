//! Models against theory, fits against what was fitted to, and sequences.

use bentpipe_units::RandomStream;

use super::*;
use crate::channel::{Fit, SyntheticTrace, Trace};

const CHAIN: Model = Model { p: 0.02, r: 0.1, loss_good: 0.03, loss_bad: 0.7 };

fn made(model: Model, frames: u64) -> Trace {
    model.trace(frames, &mut RandomStream::new(1, "made")).expect("frames")
}

fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() < share, "{value}, expected {expected}");
}

#[test]
fn special_cases_have_their_textbook_lengths() {
    let bernoulli = Model::bernoulli(0.2);
    near(bernoulli.mean_run(true), 1.0 / 0.8, 1e-12);
    near(bernoulli.mean_run(false), 5.0, 1e-12);
    near(bernoulli.residual(7), 0.2_f64.powi(7), 1e-9);
    let bistable = Model::bistable(1.0 / 27.0, 1.0 / 3.0);
    near(bistable.loss(), 0.1, 1e-12);
    near(bistable.mean_run(true), 3.0, 1e-12);
    near(bistable.mean_run(false), 27.0, 1e-12);
    for (n, share) in bistable.beyond(true, 5).iter().enumerate() {
        near(*share, (2.0_f64 / 3.0).powi(n as i32 + 1), 1e-12);
    }
}

#[test]
fn a_made_trace_has_the_chain_s_loss_runs_and_histogram() {
    let trace = made(CHAIN, 4_000_000);
    let counts = Counts::of(&trace);
    near(counts.loss(), CHAIN.loss(), 0.01);
    near(counts.bursts.mean().expect("bursts"), CHAIN.mean_run(true), 0.01);
    near(counts.gaps.mean().expect("gaps"), CHAIN.mean_run(false), 0.01);
    for (lost, lengths) in [(true, &counts.bursts), (false, &counts.gaps)] {
        let expected = CHAIN.beyond(lost, 400);
        // Kolmogorov and Smirnov: a largest distance above 1.95 / sqrt(n) is one in a thousand.
        let far = lengths.beyond().into_iter().filter(|(len, _)| *len <= 400);
        let far = far.map(|(len, share)| (share - expected[len as usize - 1]).abs()).fold(0.0, f64::max);
        assert!(far < 1.95 / (lengths.runs() as f64).sqrt(), "{lost}: {far}");
    }
    for lag in [1, 5, 20] {
        let both = (0..trace.frames() - lag).filter(|n| trace.is_lost(*n) && trace.is_lost(n + lag)).count();
        let covariance = both as f64 / trace.frames() as f64 - counts.loss().powi(2);
        near(covariance, CHAIN.covariance(lag as u32), 0.06);
    }
    for attempts in [1, 2, 7] {
        near(Counts::residual(&trace, attempts), CHAIN.residual(attempts), 0.04);
    }
}

#[test]
fn fits_find_what_made_the_trace() {
    let bistable = Model::bistable(0.03, 0.3);
    let trace = made(bistable, 1_000_000);
    let found = |by, trace: &Trace| fit(by, trace, &Counts::of(trace)).expect("a model").model;
    near(found(Fit::Bistable, &trace).p, 0.03, 0.02);
    near(found(Fit::Bistable, &trace).r, 0.3, 0.02);
    let gilbert = Model { p: 0.02, r: 0.1, loss_good: 0.0, loss_bad: 0.5 };
    let model = found(Fit::Gilbert, &made(gilbert, 4_000_000));
    near(model.p, 0.02, 0.05);
    near(model.r, 0.1, 0.05);
    near(model.loss_bad, 0.5, 0.05);
    let model = found(Fit::GilbertElliott, &made(CHAIN, 500_000));
    near(model.p, CHAIN.p, 0.15);
    near(model.r, CHAIN.r, 0.15);
    near(model.loss_good, CHAIN.loss_good, 0.1);
    near(model.loss_bad, CHAIN.loss_bad, 0.05);
}

#[test]
fn each_fit_keeps_what_it_is_fitted_to() {
    let trace = SyntheticTrace { frames: 300_000, ..SyntheticTrace::default() }.trace().expect("frames");
    let counts = Counts::of(&trace);
    let model = |by| fit(by, &trace, &counts).expect("a model").model;
    let (burst, gap) = (counts.bursts.mean().expect("bursts"), counts.gaps.mean().expect("gaps"));
    near(model(Fit::Bernoulli).loss(), counts.loss(), 1e-12);
    near(model(Fit::BernoulliByBursts).mean_run(true), burst, 1e-9);
    near(model(Fit::BernoulliByGaps).mean_run(false), gap, 1e-9);
    near(model(Fit::Bistable).mean_run(true), burst, 1e-9);
    near(model(Fit::Bistable).mean_run(false), gap, 1e-9);
    // Runs of both kinds are longer than independent losses have, so by bursts there are too many losses, by gaps too few.
    assert!(model(Fit::BernoulliByBursts).loss() > 2.0 * counts.loss());
    assert!(model(Fit::BernoulliByGaps).loss() < 0.8 * counts.loss());
    // More parameters never fit worse where the fit is by likelihood.
    let log = |by| model(by).log_likelihood(&trace);
    assert!(log(Fit::GilbertElliott) > log(Fit::Bistable) && log(Fit::GilbertElliott) > log(Fit::Bernoulli));
}

#[test]
fn packets_are_lost_behind_retransmission_as_the_stand_in_s_law_says() {
    let config = SyntheticTrace { frames: 4_000_000, shape: 3.0, ..SyntheticTrace::default() };
    let trace = config.trace().expect("frames");
    for attempts in [1, 3, 7] {
        near(Counts::residual(&trace, attempts), config.residual(attempts as i32), 0.1);
    }
}

#[test]
fn likelihoods_are_probabilities() {
    // Of all traces of six frames the probabilities sum up to one.
    let all = (0..64_u32).map(|bits| Trace::from_losses((0..6).map(|n| bits >> n & 1 == 1)).expect("frames"));
    let sum: f64 = all.map(|trace| CHAIN.log_likelihood(&trace).exp()).sum();
    near(sum, 1.0, 1e-12);
    assert_eq!(Model::bernoulli(0.0).log_likelihood(&made(CHAIN, 1000)), f64::NEG_INFINITY);
}

#[test]
fn traces_without_losses_or_without_anything_else_have_few_fits() {
    for text in ["0000", "1111"] {
        let trace = Trace::parse(text.as_bytes()).expect("a trace");
        let fits = fit_all(&trace, &Counts::of(&trace));
        for (by, fitted) in fits {
            let loss = fitted.map(|fitted| fitted.model.loss());
            assert!(loss.is_err() || loss == Ok(trace.is_lost(0).into()), "{text} {by:?} {loss:?}");
        }
    }
}

#[test]
fn counts_are_of_whole_and_cut_runs() {
    let counts = Counts::of(&Trace::parse(b"0011101").expect("a trace"));
    assert_eq!((counts.bursts.runs(), counts.bursts.frames(), counts.bursts.longest()), (2, 4, 3));
    assert_eq!((counts.gaps.runs(), counts.gaps.mean()), (2, Some(1.5)));
    assert_eq!((counts.pairs, counts.triples), (2, [1, 1]));
    assert_eq!(counts.bursts.beyond(), [(1, 0.5), (3, 0.0)]);
    assert_eq!(counts.bursts.classes(), [(1, 1), (4, 1)]);
    // 0, 0, 1 1 lost with two attempts, 1 0 arrives, 1 is not done with.
    assert_eq!(Counts::residual(&Trace::parse(b"0011101").expect("a trace"), 2), 0.25);
}

#[test]
fn numbers_of_a_stream_are_followed_over_their_end() {
    let mut sequence = Sequence::new(16);
    for number in [65_533, 65_534, 0, 1, 65_535, 1, 4] {
        sequence.note(number).expect("one stream");
    }
    assert_eq!(sequence.trace().map(|trace| trace.to_text("")).as_deref(), Some("00000110\n"));
    assert_eq!((sequence.late, sequence.duplicates), (1, 1));
    let mut sequence = Sequence::new(32);
    sequence.note(7).expect("the first");
    assert!(sequence.note(2_000_000).expect_err("too far").contains("follows 7"));
    // From before the first.
    sequence.note(3).expect("late");
    assert_eq!((sequence.late, sequence.trace().map(|trace| trace.frames())), (1, Some(1)));
    assert!(Sequence::new(8).trace().is_none());
}

#[test]
fn places_of_numbers_are_read() {
    assert_eq!("rtp".parse(), Ok(SequenceField::Rtp));
    assert_eq!("4:8".parse(), Ok(SequenceField::Field { offset: 4, bytes: 8 }));
    for wrong in ["", "4", "4:9", "4:0", "x:2", "70000:2"] {
        assert!(wrong.parse::<SequenceField>().is_err(), "{wrong}");
    }
}
