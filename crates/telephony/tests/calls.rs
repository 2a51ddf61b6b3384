//! Calls over GEO delay and loss, compared with arithmetic.

use bentpipe_net::metric::{Counter, Gauge, Histogram as Distribution, Of};
use bentpipe_net::testing::check_metrics;
use bentpipe_net::{Channel, Histogram, Link, Observer, Port, channel, link};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_telephony::{Callee, Caller, Config, metrics};
use bentpipe_units::{Rate, Span, Time};

struct Pair {
    network: Network,
    caller: ElementId,
    callee: ElementId,
}

/// A caller and a callee with a delay and a loss ratio each way.
fn pair(config: &Config, delay: Span, loss: f64, ipv6: bool) -> Pair {
    let (from, to) = match ipv6 {
        true => ("[fd00::1]:5060", "[fd00::2]:5060"),
        false => ("10.0.0.1:5060", "10.0.0.2:5060"),
    };
    let ends = (from.parse().expect("one"), to.parse().expect("one"));
    let line = || {
        let config =
            link::Config { rate: Some(Rate::from_bps(10_000_000)), delay, ..link::Config::default() };
        Link::new(&config).expect("possible")
    };
    let channel = || Channel::new(&channel::Config::PacketErrors { loss }).expect("possible");
    let mut builder = Builder::new(5);
    let caller = builder
        .add("caller", Caller::new(config, ends, Span::ZERO, Some(Span::from_secs(2000))).expect("possible"));
    let callee = builder.add("callee", Callee::new(config, ends.1));
    let (there, back) = (builder.add("there", line()), builder.add("back", line()));
    let (loss_there, loss_back) = (builder.add("loss-there", channel()), builder.add("loss-back", channel()));
    for (a, b) in [
        (caller, there),
        (there, loss_there),
        (loss_there, callee),
        (callee, back),
        (back, loss_back),
        (loss_back, caller),
    ] {
        builder.connect((a, Port(0)), (b, Port(0)));
    }
    Pair { network: builder.build().expect("no loop"), caller, callee }
}

#[derive(Default)]
struct Seen {
    values: Vec<(&'static str, f64)>,
    distributions: Vec<(&'static str, Histogram)>,
}

impl Observer for Seen {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.values.push((metric.name, total as f64));
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.values.push((metric.name, value));
    }
    fn histogram(&mut self, metric: &'static Of<Distribution>, values: &Histogram) {
        self.distributions.push((metric.name, values.clone()));
    }
}

impl Pair {
    fn seen(&mut self, of: ElementId) -> Seen {
        let mut seen = Seen::default();
        self.network.observe(of, &mut seen);
        seen
    }

    fn value(&mut self, of: ElementId, name: &str) -> f64 {
        let seen = self.seen(of);
        seen.values
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| *value)
            .unwrap_or_else(|| panic!("{name}"))
    }

    /// Quantile of a distribution at the caller, in seconds.
    fn quantile(&mut self, name: &str, q: f64) -> f64 {
        let seen = self.seen(self.caller);
        let (_, found) = seen.distributions.iter().find(|(other, _)| *other == name).expect("reported");
        found.quantile(q).expect("not empty")
    }

    fn run_to(&mut self, seconds: u64) {
        self.network.run_until(Time::ZERO + Span::from_secs(seconds));
    }
}

#[test]
fn metrics_are_well_formed() {
    check_metrics("telephony", metrics::ALL);
}

#[test]
fn without_loss_set_up_over_geo_takes_a_round_trip_and_the_ringing() {
    for ipv6 in [false, true] {
        let config = Config { hold: Span::from_secs(60), ..Config::default() };
        let mut pair = pair(&config, Span::from_millis(270), 0.0, ipv6);
        pair.run_to(3000);
        let placed = pair.value(pair.caller, "calls");
        assert!((150.0..250.0).contains(&placed), "{placed} calls in 2000 s, one each 10 s");
        for (end, name) in
            [(pair.caller, "calls-established"), (pair.caller, "calls-ended"), (pair.callee, "calls-ended")]
        {
            assert_eq!(pair.value(end, name), placed, "{name}");
        }
        // 540 ms and the serialisation of about 800 bytes each way; buckets are within 10 %.
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.1 * expected;
        let (post_dial, set_up) =
            (pair.quantile("post-dial-delays", 0.5), pair.quantile("set-up-times", 0.95));
        assert!(near(post_dial, 0.542) && near(set_up, 3.542), "{post_dial} {set_up}");
        // The round trip exceeds T1: INVITE and BYE of each call are sent twice.
        assert_eq!(pair.value(pair.caller, "requests-repeated"), 2.0 * placed);
        assert_eq!(pair.value(pair.callee, "requests-absorbed"), 2.0 * placed);
    }
}

#[test]
fn losses_delay_calls_and_a_dead_path_fails_them_by_timer_b() {
    let config = Config { interval: Span::from_secs(2), hold: Span::from_secs(20), ..Config::default() };
    let mut lossy = pair(&config, Span::from_millis(270), 0.2, false);
    lossy.run_to(3000);
    let placed = lossy.value(lossy.caller, "calls");
    let outcomes = ["calls-ended", "calls-timed-out", "calls-failed"];
    assert_eq!(outcomes.map(|name| lossy.value(lossy.caller, name)).iter().sum::<f64>(), placed);
    // Seven transmissions, each way lost with 0.2: none in a thousand calls fails by Timer B.
    assert_eq!(lossy.value(lossy.caller, "calls-timed-out"), 0.0);
    // 0.2 of the INVITEs are lost once, so that the quantile 0.95 has at least one wait of T1.
    assert!(lossy.quantile("post-dial-delays", 0.95) > 1.0);
    let mut dead = pair(&config, Span::from_millis(270), 1.0, false);
    dead.run_to(3000);
    let placed = dead.value(dead.caller, "calls");
    assert_eq!(
        (dead.value(dead.caller, "calls-timed-out"), dead.value(dead.caller, "calls-up")),
        (placed, 0.0)
    );
    // Six retransmissions within 64 T1 (RFC 3261 17.1.1.2).
    assert_eq!(dead.value(dead.caller, "requests-repeated"), 6.0 * placed);
}

#[test]
fn impossible_settings_are_refused() {
    let ends = ("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"));
    let refused =
        |config: Config| Caller::new(&config, ends, Span::ZERO, None).expect_err("refused").to_string();
    assert!(refused(Config { interval: Span::ZERO, ..Config::default() }).contains("interval"));
    assert!(refused(Config { t1: Span::ZERO, ..Config::default() }).contains("t1"));
    assert!(refused(Config { t2: Span::ZERO, ..Config::default() }).contains("t2"));
    assert!(refused(Config { dscp: 64, ..Config::default() }).contains("dscp"));
}

#[test]
fn a_run_repeats_itself() {
    let config = Config { interval: Span::from_secs(3), hold: Span::from_secs(20), ..Config::default() };
    let run = || {
        let mut pair = pair(&config, Span::from_millis(270), 0.1, false);
        pair.run_to(500);
        pair.network.fingerprint()
    };
    assert_eq!(run(), run());
}
