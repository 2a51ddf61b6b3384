use proptest::prelude::*;

use super::*;

#[test]
fn quantities_read_with_their_unit() {
    assert_eq!("155.52 Mbit/s".parse(), Ok(Rate::from_bps(155_520_000)));
    assert_eq!("64kbit/s".parse(), Ok(Rate::from_bps(64_000)));
    assert_eq!("270 ms".parse(), Ok(Span::from_millis(270)));
    assert_eq!("1e3 us".parse(), Ok(Span::from_millis(1)));
    assert_eq!("2.5E-3 s".parse(), Ok(Span::from_micros(2500)));
    assert_eq!("6 MB".parse(), Ok(Bytes::new(6_000_000)));
    assert_eq!("64 KiB".parse(), Ok(Bytes::new(65_536)));
}

#[test]
fn what_is_wrong_is_said() {
    let error = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
    assert!(error("10").starts_with("no unit in \"10\""), "{}", error("10"));
    assert!(error("10 MB/s").contains("unknown unit \"MB/s\""));
    assert!(error("-1 Mbit/s").contains("negative"));
    assert!(error("1e30 Gbit/s").contains("too large"));
    assert!(error("Mbit/s").contains("no number"));
    assert!(error("nan Mbit/s").contains("no number"));
    assert!("0.1 ns".parse::<Span>().unwrap_err().to_string().contains("too small"));
    assert!("1é".parse::<Span>().is_err());
}

#[test]
fn transmission_times_do_not_drift() {
    let mut link = Serialiser::new(Rate::from_bps(155_520_000));
    let total: Span = (0..155_520).map(|_| link.transmit(Bytes::new(125))).sum();
    assert_eq!(total, Span::from_secs(1));
}

#[test]
fn streams_differ_by_path_and_seed_and_repeat() {
    let draw = |seed, path| RandomStream::new(seed, path).unit();
    assert_eq!(draw(1, "a"), draw(1, "a"));
    assert_ne!(draw(1, "a"), draw(2, "a"));
    assert_ne!(draw(1, "a"), draw(1, "b"));
}

#[test]
fn stream_laws_have_their_means() {
    let mut stream = RandomStream::new(7, "laws");
    let n = 200_000;
    let mean = (0..n).map(|_| stream.exponential(2.0)).sum::<f64>() / f64::from(n);
    assert!((mean - 2.0).abs() < 0.02, "exponential mean {mean}");
    let mean = (0..n).map(|_| stream.failures_before_success(0.1) as f64).sum::<f64>() / f64::from(n);
    assert!((mean - 9.0).abs() < 0.1, "geometric mean {mean}");
}

#[test]
fn normal_numbers_have_their_moments_and_tails() {
    let mut stream = RandomStream::new(7, "normal");
    let pairs: Vec<(f64, f64)> = (0..100_000).map(|_| stream.normal_pair()).collect();
    let all: Vec<f64> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let moment = |power: i32| all.iter().map(|x| x.powi(power)).sum::<f64>() / all.len() as f64;
    // Four standard errors of each: the k-th moment's variance is (moment 2k - moment k squared)/n.
    for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let error = moment(power) - expected;
        assert!(error.abs() < 4.0 * (variance / all.len() as f64).sqrt(), "moment {power}: {error}");
    }
    let beyond = all.iter().filter(|x| x.abs() > 3.0).count() as f64 / all.len() as f64;
    assert!((beyond - 0.002_70).abs() < 0.000_47, "{beyond}");
    let product = pairs.iter().map(|(a, b)| a * b).sum::<f64>() / 1e5;
    assert!(product.abs() < 4.0 / 1e5_f64.sqrt(), "correlated: {product}");
}

proptest! {
    #[test]
    fn printed_quantities_read_back(nanos in 0_u64..1 << 50, bps in 0_u64..1 << 45, bytes in 0_u64..1 << 45) {
        prop_assert_eq!(Span::from_nanos(nanos).to_string().parse(), Ok(Span::from_nanos(nanos)));
        prop_assert_eq!(Rate::from_bps(bps).to_string().parse(), Ok(Rate::from_bps(bps)));
        prop_assert_eq!(Bytes::new(bytes).to_string().parse(), Ok(Bytes::new(bytes)));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Span>();
    }
}
