//! Reference points of G.107 and of tables computed with it.

use super::*;

/// G.711 with its concealment, and without.
const G711: [Impairment; 2] = [Impairment { ie: 0.0, bpl: 25.1 }, Impairment { ie: 0.0, bpl: 4.3 }];
const G729A: Impairment = Impairment { ie: 11.0, bpl: 19.0 };
const G7231: Impairment = Impairment { ie: 15.0, bpl: 16.1 };
const EFR: Impairment = Impairment { ie: 5.0, bpl: 10.0 };

fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found:.4} instead of {expected}");
}

/// A connection whose echo takes as long as its speech, with the loop's delay apart.
fn with_echo(ms: f64, loop_delay: f64) -> Params {
    Params { delay: ms, echo_delay: ms, loop_delay, ..Params::default() }
}

#[test]
fn terms_at_the_defaults() {
    let terms = Params::default().terms();
    for (what, found, expected) in [
        ("No", terms.noise, -61.179),
        ("Ro", terms.ro, 94.769),
        ("Iolr", terms.loudness, 0.440),
        ("Ist", terms.sidetone, -0.001),
        ("Iq", terms.quantisation, 0.974),
        ("Idle", terms.listener_echo, 0.149),
        ("R", terms.r(), 93.206),
    ] {
        close(found, expected, 0.001, what);
    }
    close(mos(terms.r()), 4.409, 0.0005, "MOS");
}

#[test]
fn delay_with_echo() {
    for (ms, r, score) in [
        (250.0, 80.05, Some(4.026)),
        (300.0, 73.61, Some(3.7615)),
        (100.0, 91.24, None),
        (150.0, 90.23, None),
        (200.0, 86.59, None),
        (280.0, 76.09, Some(3.868)),
        (350.0, 68.04, Some(3.504)),
        (400.0, 63.33, Some(3.271)),
    ] {
        let found = with_echo(ms, 0.0).r();
        close(found, r, 0.01, &format!("R at {ms} ms"));
        score.iter().for_each(|score| close(mos(found), *score, 0.001, &format!("MOS at {ms} ms")));
    }
    for (ms, r, score) in
        [(500.0, 56.0, 2.89), (600.0, 50.8, 2.62), (800.0, 44.3, 2.28), (1000.0, 40.8, 2.10)]
    {
        let found = with_echo(ms, 0.0).r();
        close(found, r, 0.06, &format!("R at {ms} ms"));
        close(mos(found), score, 0.006, &format!("MOS at {ms} ms"));
    }
    for (ms, r, score) in [(250.0, 79.18, 3.993), (300.0, 72.67, 3.719)] {
        let found = with_echo(ms, 2.0 * ms).r();
        close(found, r, 0.01, &format!("R at {ms} ms with the loop"));
        close(mos(found), score, 0.001, &format!("MOS at {ms} ms with the loop"));
    }
    for (ms, r, score) in [(250.0, 84.29, 4.175), (300.0, 78.45, 3.964)] {
        let found = Params { delay: ms, ..Params::default() }.r();
        close(found, r, 0.01, &format!("R at {ms} ms without echo"));
        close(mos(found), score, 0.001, &format!("MOS at {ms} ms without echo"));
    }
}

#[test]
fn loss_with_delay_and_echo() {
    let call = |impairment, loss_percent| Params { impairment, loss_percent, ..with_echo(250.0, 0.0) }.r();
    for (found, r, score) in [
        (call(G711[1], 1.0), 62.12, 3.209),
        (call(G711[0], 1.0), 76.41, 3.881),
        (call(G729A, 0.0), 69.05, 3.552),
    ] {
        close(found, r, 0.01, "R");
        close(mos(found), score, 0.001, "MOS");
    }
}

#[test]
fn loss_without_delay() {
    let table: [(Impairment, &[f64]); 5] = [
        (G711[1], &[93.2, 75.3, 63.0, 54.2, 42.1, 26.8, 15.0]),
        (G711[0], &[93.2, 89.6, 86.2, 83.1, 77.4, 66.1, 51.1]),
        (G729A, &[82.2, 78.0, 74.2, 70.8, 64.7, 53.2, 39.1]),
        (G7231, &[78.2, 73.5, 69.4, 65.6, 59.2, 47.6]),
        (EFR, &[88.2, 80.0, 73.2, 67.4, 58.2, 43.2]),
    ];
    for (impairment, row) in table {
        for (loss_percent, expected) in [0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0].into_iter().zip(row) {
            let found = Params { impairment, loss_percent, ..Params::default() }.r();
            close(found, *expected, 0.06, &format!("{impairment:?} at {loss_percent} %"));
        }
    }
    let satellite =
        |impairment, loss_percent| Params { impairment, loss_percent, delay: 280.0, ..Params::default() };
    for (impairment, row) in
        [(G711[0], [80.7, 77.1, 73.7, 70.6, 64.9]), (G729A, [69.7, 65.5, 61.7, 58.2, 52.2])]
    {
        for (loss, expected) in [0.0, 1.0, 2.0, 3.0, 5.0].into_iter().zip(row) {
            close(satellite(impairment, loss).r(), expected, 0.06, &format!("{loss} % at 280 ms"));
        }
    }
}

#[test]
fn bursts_of_losses() {
    for (burst_ratio, expected) in [(1.0, 83.06), (2.0, 82.49), (4.0, 82.18)] {
        let call = Params { impairment: G711[0], loss_percent: 3.0, burst_ratio, ..Params::default() };
        close(call.r(), expected, 0.01, &format!("burst ratio {burst_ratio}"));
    }
    // Ie-eff at 2 % loss of another table: G.711 7, G.729A 19, G.723.1 24.
    for (impairment, expected) in [(G711[0], 7.0), (G729A, 19.0), (G7231, 23.8)] {
        close(impairment.effective(2.0, 1.0), expected, 0.06, "Ie-eff at 2 %");
    }
}

#[test]
fn echo_loudness_distortion_and_room_noise() {
    let telr = |telr, ms| Params { telr, ..with_echo(ms, 2.0 * ms) }.r();
    for (rating, at_150, at_300) in [
        (65.0, 89.5, 72.7),
        (60.0, 87.1, 67.9),
        (55.0, 82.0, 59.5),
        (50.0, 73.3, 48.9),
        (45.0, 62.5, 37.4),
        (40.0, 50.9, 25.4),
    ] {
        close(telr(rating, 150.0), at_150, 0.06, &format!("TELR {rating} at 150 ms"));
        close(telr(rating, 300.0), at_300, 0.06, &format!("TELR {rating} at 300 ms"));
    }
    for (qdu, expected) in [(1.0, 93.2), (2.0, 91.5), (4.0, 88.2), (7.0, 82.4), (14.0, 66.3)] {
        close(Params { qdu, ..Params::default() }.r(), expected, 0.06, &format!("{qdu} qdu"));
    }
    for (noise, expected) in [(35.0, 93.2), (45.0, 90.7), (55.0, 79.2), (60.0, 70.3)] {
        let call = Params { room_noise_send: noise, room_noise_receive: noise, ..Params::default() };
        close(call.r(), expected, 0.06, &format!("{noise} dB(A)"));
    }
    for (slr, rlr, expected) in [(12.0, 6.0, 82.4), (4.0, -2.0, 89.5)] {
        close(Params { slr, rlr, ..Params::default() }.r(), expected, 0.06, &format!("SLR {slr}"));
    }
}

#[test]
fn sensitivity_to_delay() {
    for (ms, expected) in [
        (200.0, [90.2, 90.9, 92.3]),
        (280.0, [80.7, 84.7, 88.2]),
        (400.0, [69.1, 76.3, 82.0]),
        (600.0, [58.0, 67.7, 75.2]),
    ] {
        let classes = [Sensitivity::Default, Sensitivity::Low, Sensitivity::VeryLow];
        for (sensitivity, expected) in classes.into_iter().zip(expected) {
            let call = Params { delay: ms, sensitivity, ..Params::default() };
            close(call.r(), expected, 0.06, &format!("{sensitivity:?} at {ms} ms"));
        }
    }
}

/// A printed table of the longest echo-free delay at which R is 70, if that of G.711 is 94.
#[test]
fn longest_delays_give_the_equipment_impairments() {
    let idd = |ms| delay_impairment(ms, Sensitivity::Default);
    for (ms, expected) in [
        (375.0, 2.0),
        (342.0, 5.0),
        (332.0, 6.0),
        (322.0, 7.0),
        (294.0, 10.0),
        (293.0, 10.1),
        (280.0, 11.6),
        (262.0, 13.7),
        (239.0, 16.5),
        (214.0, 19.5),
        (197.0, 21.3),
        (251.0, 15.0),
        (219.0, 18.9),
        (177.0, 22.9),
    ] {
        close(idd(400.0) - idd(ms), expected, 0.11, &format!("{ms} ms"));
    }
}

#[test]
fn wide_band() {
    let r = |ms, ie: f64| {
        wide_band_r(ms, Sensitivity::Default, Impairment { ie, bpl: 4.3 }.effective(0.0, 1.0), 0.0)
    };
    let times = [0.0, 150.0, 280.0, 400.0];
    let scores = [4.34, 4.33, 4.03, 3.65];
    for ((ms, expected), score) in times.into_iter().zip([116.0, 115.8, 103.5, 91.9]).zip(scores) {
        close(r(ms, 13.0), expected, 0.06, &format!("Ie,WB 13 at {ms} ms"));
        close(wide_band_mos(r(ms, 13.0)), score, 0.006, &format!("MOS at {ms} ms"));
    }
    for (ms, expected) in times.into_iter().zip([128.0, 127.8, 115.5, 103.9]) {
        close(r(ms, 1.0), expected, 0.06, &format!("Ie,WB 1 at {ms} ms"));
    }
    let narrow = [3.70, 3.69, 3.23, 2.76];
    for ((ms, expected), score) in times.into_iter().zip([93.2, 93.0, 80.7, 69.1]).zip(narrow) {
        close(r(ms, WIDE_SHIFT), expected, 0.06, &format!("narrow band at {ms} ms"));
        close(wide_band_mos(r(ms, WIDE_SHIFT)), score, 0.006, &format!("MOS at {ms} ms"));
    }
}

#[test]
fn scores_and_shares() {
    for (r, expected) in
        [(50.0, 2.575), (60.0, 3.100), (70.0, 3.597), (80.0, 4.024), (90.0, 4.339), (100.0, 4.5)]
    {
        close(mos(r), expected, 0.001, &format!("MOS of {r}"));
        close(r_of_mos(mos(r)), r, 1e-6, "R of MOS");
    }
    assert_eq!((mos(-3.0), mos(3.0), mos(120.0)), (1.0, 1.0, 4.5));
    assert!(mos(f64::NAN).is_nan());
    close(good_or_better(60.0), 50.0, 1e-9, "GoB");
    close(poor_or_worse(45.0), 50.0, 1e-9, "PoW");
    close(good_or_better(93.2), 98.1, 0.05, "GoB at the default");
}
