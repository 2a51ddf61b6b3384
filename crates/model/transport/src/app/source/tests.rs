use bentpipe_net::testing::{Harness, MS, ms};

use super::*;

fn ends() -> Endpoints {
    let [source, destination] = ["10.0.0.1:5000", "10.0.0.2:6000"].map(|end| end.parse().expect("an end"));
    Endpoints { source, destination }
}

fn source(config: &SourceConfig) -> Harness<Source> {
    Harness::new(Source::new(config, ends()).expect("a possible source"))
}

fn config(pattern: Pattern) -> SourceConfig {
    SourceConfig::new(pattern, Bytes::new(72))
}

#[test]
fn a_constant_flow_keeps_its_interval() {
    let pattern = Pattern::Constant { interval: ms(20) };
    let mut rig =
        source(&SourceConfig { spread: false, start: ms(5), stop: Some(ms(65)), ..config(pattern) });
    rig.run_until(1000 * MS);
    assert_eq!(rig.times(), [(5 * MS, 100), (25 * MS, 100), (45 * MS, 100)]);
    assert_eq!((rig.value("sent"), rig.value("sent-bytes")), (3.0, 300.0));
}

#[test]
fn many_flows_share_one_element_each_with_its_phase() {
    let pattern = Pattern::Constant { interval: ms(20) };
    let mut rig = source(&SourceConfig { count: 50, packets: Some(4), ..config(pattern) });
    rig.run_until(1000 * MS);
    assert_eq!(rig.out.len(), 200);
    assert!(rig.out.is_sorted_by_key(|(at, _, _)| *at));
    for flow in 0..50_u16 {
        let port = (6000 + flow).to_be_bytes();
        let sent = rig.out.iter().filter(|(_, _, packet)| packet.header()[22..24] == port);
        let times: Vec<u64> = sent.map(|(at, _, _)| at.as_nanos()).collect();
        assert!(times[0] < 20 * MS && times.windows(2).all(|pair| pair[1] - pair[0] == 20 * MS), "{times:?}");
    }
    assert!(rig.out[..50].windows(2).filter(|pair| pair[0].0 == pair[1].0).count() < 5, "phases differ");
}

#[test]
fn a_flow_of_no_packets_sends_none() {
    for pattern in [Pattern::Constant { interval: ms(20) }, Pattern::Poisson { mean_interval: ms(20) }] {
        let mut rig = source(&SourceConfig { packets: Some(0), ..config(pattern) });
        rig.run_until(1000 * MS);
        assert_eq!(rig.out.len(), 0);
    }
}

#[test]
fn a_constant_rate_is_met_without_drift() {
    let pattern = Pattern::ConstantRate { rate: Rate::from_bps(700_000) };
    let mut rig = source(&SourceConfig { spread: false, count: 3, ..config(pattern) });
    rig.run_until(7_000_000_000);
    // 100 bytes take 8/7 ms: 6125 packets of each flow before 7 s, and one at 7 s.
    assert_eq!(rig.out.len(), 3 * 6126);
    assert_eq!(rig.times().last(), Some(&(7_000_000_000, 100)));
}

/// Packets that 200 flows send in 20 s, per flow and second.
/// One that is off from its start left packets out at one instant for ever.
#[test]
fn a_flow_that_is_off_leaves_its_packets_out_at_their_times() {
    for pattern in [
        Pattern::ConstantRate { rate: Rate::from_bps(1_000_000) },
        Pattern::Constant { interval: Span::from_millis(8) },
        Pattern::Poisson { mean_interval: Span::from_millis(8) },
    ] {
        let mut rig = source(&config(pattern));
        rig.element.set_active(Time::ZERO, false);
        rig.run_until(1_000_000_000);
        assert!(rig.out.is_empty());
        rig.element.set_active(Time::ZERO, true);
        rig.run_until(2_000_000_000);
        assert!(rig.out.len() > 20, "{pattern:?}: {}", rig.out.len());
    }
}

fn rate(pattern: Pattern) -> f64 {
    let mut rig = source(&SourceConfig { count: 200, ..config(pattern) });
    rig.run_until(20_000 * MS);
    rig.out.len() as f64 / 200.0 / 20.0
}

#[test]
fn random_patterns_have_their_mean_rate() {
    let poisson = rate(Pattern::Poisson { mean_interval: ms(10) });
    assert!((poisson - 100.0).abs() < 2.0, "{poisson}");
    let on_off = |law| Pattern::OnOff { interval: ms(1), mean_on: ms(100), mean_off: ms(150), law };
    let exponential = rate(on_off(Law::Exponential));
    // A packet each millisecond of 40 % of the time, and half a packet more a burst.
    assert!((exponential - 402.0).abs() < 8.0, "{exponential}");
    let pareto = rate(on_off(Law::Pareto { shape: 2.5 }));
    assert!((pareto - 402.0).abs() < 12.0, "{pareto}");
}

/// A packet starts each burst, however short it is.
#[test]
fn bursts_have_the_packets_that_are_forecast() {
    let laws = [Law::Exponential, Law::Pareto { shape: 2.5 }, Law::Pareto { shape: 4.0 }];
    for (interval, on, off) in [(20, 2, 40), (20, 20, 30), (10, 35, 50), (7, 100, 10)] {
        for law in laws {
            let of_run =
                rate(Pattern::OnOff { interval: ms(interval), mean_on: ms(on), mean_off: ms(off), law });
            let packets = Pattern::packets_per_burst(ms(interval), ms(on), law);
            let forecast = packets / (ms(on) + ms(off)).as_secs_f64();
            assert!(
                (of_run / forecast - 1.0).abs() < 0.02,
                "{interval} {on} {off} {law:?}: {of_run} for {forecast}"
            );
        }
    }
    let exponential = Pattern::packets_per_burst(ms(10), ms(20), Law::Exponential);
    assert!((exponential - 1.0 / (1.0 - libm::exp(-0.5))).abs() < 1e-12);
    // A shape without end is a fixed length: 2.5 intervals have three packets.
    let fixed = Pattern::packets_per_burst(ms(10), ms(25), Law::Pareto { shape: 1e4 });
    assert!((fixed - 3.0).abs() < 1e-6, "{fixed}");
}

#[test]
fn what_would_send_for_ever_at_one_instant_is_refused() {
    let key = |pattern| check(pattern).err().map(|error| error.key);
    assert_eq!(key(Pattern::Constant { interval: Span::ZERO }), Some("interval"));
    assert_eq!(key(Pattern::ConstantRate { rate: Rate::from_bps(0) }), Some("rate"));
    assert_eq!(key(Pattern::Poisson { mean_interval: Span::ZERO }), Some("mean_interval"));
    let law = Law::Pareto { shape: 1.0 };
    assert_eq!(key(Pattern::OnOff { interval: ms(1), mean_on: ms(1), mean_off: ms(1), law }), Some("shape"));
}

/// Copies in step filled memory faster than a run could empty it.
#[test]
fn packets_of_all_copies_have_a_least_distance() {
    let ns = Span::from_nanos;
    let law = Law::Exponential;
    let key = |pattern, count| {
        let config = SourceConfig { count, ..config(pattern) };
        Source::new(&config, ends()).err().map(|error| error.key)
    };
    let constant = |nanos| Pattern::Constant { interval: ns(nanos) };
    assert_eq!((key(constant(9), 1), key(constant(10), 1)), (Some("interval"), None));
    assert_eq!((key(constant(599), 60), key(constant(600), 60)), (Some("interval"), None));
    let poisson = |nanos| Pattern::Poisson { mean_interval: ns(nanos) };
    assert_eq!((key(poisson(599), 60), key(poisson(600), 60)), (Some("mean_interval"), None));
    let bursts = |nanos| Pattern::OnOff { interval: ns(nanos), mean_on: ms(1), mean_off: ms(1), law };
    assert_eq!((key(bursts(599), 60), key(bursts(600), 60)), (Some("interval"), None));
    let rate = |mbit: u64| Pattern::ConstantRate { rate: Rate::from_bps(mbit * 1_000_000) };
    assert_eq!((key(rate(1_000_000), 1000), key(rate(1), 1000)), (Some("rate"), None));
}

#[test]
fn identifications_are_counted_by_flow_or_host() {
    let idents = |identification| {
        let pattern = Pattern::Constant { interval: ms(20) };
        let config = SourceConfig { spread: false, count: 2, identification, ..config(pattern) };
        let mut rig = source(&config);
        rig.run_until(50 * MS);
        let ident = |packet: &Packet| {
            let ip = ipv4::Packet::new_elided(packet.header(), packet.len() - packet.header().len());
            let ip = ip.expect("IPv4");
            ip.verify_checksum().expect("a checksum");
            ip.ident()
        };
        rig.out.iter().map(|(_, _, packet)| ident(packet)).collect::<Vec<_>>()
    };
    assert_eq!(idents(Identification::Zero), [0; 6]);
    assert_eq!(idents(Identification::Flow), [0, 0, 1, 1, 2, 2]);
    assert_eq!(idents(Identification::Host), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn ports_are_shared_by_rtp_alone() {
    let pattern = Pattern::Constant { interval: ms(20) };
    let ends = || {
        let end = |text: &str| text.parse().expect("an end");
        Endpoints { source: end("10.0.0.1:5000"), destination: end("10.0.0.2:6000") }
    };
    let shared = SourceConfig { shared_ports: true, ..config(pattern) };
    assert_eq!(Source::new(&shared, ends()).err().map(|error| error.key), Some("shared_ports"));
    let mut rig = source(&SourceConfig { header: Header::Rtp, count: 3, spread: false, ..shared });
    rig.run_until(MS);
    assert!(
        rig.out.len() == 3 && rig.out.iter().all(|(_, _, packet)| packet.header()[22..24] == [0x17, 0x70])
    );
}
