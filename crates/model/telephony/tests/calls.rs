//! Calls over GEO delay and loss, compared with arithmetic.

use bentpipe_net::metric::{Counter, Gauge, Histogram as Distribution, Of};
use bentpipe_net::testing::check_metrics;
use bentpipe_net::{Channel, Histogram, Link, Observer, Port, channel, link};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_site::{CallEnd, CallReader, CallRecord};
use bentpipe_telephony::{Callee, Caller, Calls, Config, Iax, IaxConfig, Protocol, Sip, metrics};
use bentpipe_units::{Rate, Span, Time};

struct Pair {
    network: Network,
    caller: ElementId,
    callee: ElementId,
}

/// A caller and a callee with a delay and a loss ratio each way.
fn pair(config: &Config, delay: Span, loss: f64, ipv6: bool) -> Pair {
    pair_of::<Sip>((&config.calls(), config.settings(None)), delay, loss, ipv6)
}

fn pair_of<P: Protocol>(
    (calls, settings): (&Calls, P::Settings),
    delay: Span,
    loss: f64,
    ipv6: bool,
) -> Pair {
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
    let caller = Caller::<P>::new(calls, settings.clone(), ends, Span::ZERO, Some(Span::from_secs(2000)));
    let caller = builder.add("caller", caller.expect("possible"));
    let callee = builder.add("callee", Callee::<P>::new(calls, settings, ends.1));
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

/// One long IAX2 call after another: the round trip sets nothing off twice, and voice is a frame each 20 ms.
#[test]
fn iax_calls_over_geo_repeat_nothing_and_carry_their_voice() {
    for trunk in [None, Some(Span::from_millis(20))] {
        let config = IaxConfig { hold: Span::from_secs(60), trunk, ..IaxConfig::default() };
        let mut pair =
            pair_of::<Iax>((&config.calls(), config.settings()), Span::from_millis(270), 0.0, false);
        pair.run_to(3000);
        let placed = pair.value(pair.caller, "calls");
        assert!((150.0..250.0).contains(&placed), "{placed} calls in 2000 s, one each 10 s");
        for (end, name) in
            [(pair.caller, "calls-established"), (pair.caller, "calls-ended"), (pair.callee, "calls-ended")]
        {
            assert_eq!(pair.value(end, name), placed, "{name}");
        }
        let (post_dial, set_up) =
            (pair.quantile("post-dial-delays", 0.5), pair.quantile("set-up-times", 0.95));
        assert!((0.49..0.6).contains(&post_dial) && (3.2..3.9).contains(&set_up), "{post_dial} {set_up}");
        assert_eq!(pair.value(pair.caller, "requests-repeated"), 0.0);
        let (sent, received) =
            (pair.value(pair.caller, "voice-sent"), pair.value(pair.callee, "voice-received"));
        // 50 frames a second in calls of 60 s on average; those that pass HANGUP on its way are not counted.
        assert!((sent / (placed * 3000.0) - 1.0).abs() < 0.3, "{sent} of {placed} calls");
        assert!(sent - received <= 15.0 * placed && received <= sent, "{sent} {received}");
    }
}

/// A recording has the same columns in all samples.
#[test]
fn ends_report_the_same_metrics_before_and_after_their_start() {
    let config = IaxConfig::default();
    let mut pair = pair_of::<Iax>((&config.calls(), config.settings()), Span::from_millis(1), 0.0, false);
    let names =
        |pair: &mut Pair, end| pair.seen(end).values.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let ends = [pair.caller, pair.callee];
    let before = ends.map(|end| names(&mut pair, end));
    pair.run_to(60);
    assert_eq!(before, ends.map(|end| names(&mut pair, end)));
    assert!(before[0].contains(&"voice-sent"));
}

/// Bytes at IP of one GSM call: 29.2 kbit/s over RTP, 26 kbit/s in mini frames.
#[test]
fn voice_in_mini_frames_has_the_rate_of_the_literature() {
    let config = IaxConfig {
        interval: Span::from_secs(1),
        hold: Span::from_secs(100_000),
        calls: Some(1),
        ..IaxConfig::default()
    };
    let mut pair = pair_of::<Iax>((&config.calls(), config.settings()), Span::from_millis(270), 0.0, false);
    pair.run_to(100);
    let before = pair.value(pair.caller, "iax-bytes") + 28.0 * pair.value(pair.caller, "iax-frames");
    pair.run_to(1100);
    let after = pair.value(pair.caller, "iax-bytes") + 28.0 * pair.value(pair.caller, "iax-frames");
    let rate = (after - before) * 8.0 / 1000.0;
    // Mini frames of 65 bytes. In 1000 s there are 50 times PING, PONG and ACK of 40 bytes, and 15 times a full frame with 8 bytes
    // more and an ACK.
    let expected = 26_000.0 + 8.0 * f64::from(3 * 50 * 40 + 15 * (8 + 40)) / 1000.0;
    assert!((rate - expected).abs() < 3.0, "{rate} bit/s instead of {expected}");
}

/// Records of calls that were answered, given up, refused by a dead path, and still up at the end.
#[test]
fn each_call_has_a_record_of_its_times_and_end() {
    let config = Config { hold: Span::from_secs(20), calls: Some(40), ..Config::default() };
    let mut pair = pair(&config, Span::from_millis(270), 0.0, false);
    pair.run_to(2000);
    let records = records_of(&mut pair);
    assert_eq!(records.len(), 40);
    let is_over = |record: &CallRecord| record.end == CallEnd::Ended && record.protocol == "sip";
    assert!(records.iter().all(is_over), "{records:?}");
    let mean = |of: fn(&CallRecord) -> Option<Span>| {
        records.iter().filter_map(of).map(Span::as_secs_f64).sum::<f64>() / 40.0
    };
    let (post_dial, set_up) = (mean(|call| call.post_dial), mean(|call| call.set_up));
    assert!((0.54..0.56).contains(&post_dial) && (3.5..4.1).contains(&set_up), "{post_dial} {set_up}");
    let held = mean(|call| call.duration(Time::NEVER));
    assert!((10.0..30.0).contains(&held), "{held} s instead of 20 s");
    let impatient = Config { ring_limit: Span::from_secs(2), calls: Some(5), ..Config::default() };
    let mut given_up = self::pair(&impatient, Span::from_millis(270), 0.0, false);
    given_up.run_to(500);
    let records = records_of(&mut given_up);
    assert!(records.len() == 5 && records.iter().all(|call| call.end == CallEnd::Cancelled), "{records:?}");
    assert!(records.iter().all(|call| call.post_dial.is_some() && call.set_up.is_none()));
    let mut dead = self::pair(&impatient, Span::from_millis(270), 1.0, false);
    dead.run_to(40);
    assert!(records_of_dead(&mut dead));
}

/// Returns `true` if calls on a dead path have failed or still wait.
fn records_of_dead(pair: &mut Pair) -> bool {
    let records = records_of(pair);
    let ends = [CallEnd::Waiting, CallEnd::Cancelled, CallEnd::TimedOut];
    !records.is_empty() && records.iter().all(|call| ends.contains(&call.end) && call.post_dial.is_none())
}

fn records_of(pair: &mut Pair) -> Vec<CallRecord> {
    CallReader::of::<Caller<Sip>>().read(&mut pair.network, pair.caller)
}

#[test]
fn impossible_settings_are_refused() {
    let ends = ("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"));
    let refused = |config: Config| {
        let caller = Caller::<Sip>::new(&config.calls(), config.settings(None), ends, Span::ZERO, None);
        config.ensure().and(caller.map(|_| ())).expect_err("refused").to_string()
    };
    assert!(refused(Config { interval: Span::ZERO, ..Config::default() }).contains("interval"));
    assert!(refused(Config { t1: Span::ZERO, ..Config::default() }).contains("t1"));
    assert!(refused(Config { t2: Span::ZERO, ..Config::default() }).contains("t2"));
    assert!(refused(Config { dscp: 64, ..Config::default() }).contains("dscp"));
    let trunk = IaxConfig { trunk: Some(Span::ZERO), ..IaxConfig::default() };
    assert!(trunk.ensure().expect_err("refused").to_string().contains("trunk"));
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
