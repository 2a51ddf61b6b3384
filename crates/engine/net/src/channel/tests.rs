use super::*;
use crate::testing::{Harness, MS, ms, packet};

fn rig(config: Config) -> Harness<Channel> {
    Harness::new(Channel::new(&config).expect("possible"))
}

/// For each of `count` packets, whether it was lost.
fn losses(config: Config, count: u64) -> Vec<bool> {
    let mut rig = rig(config);
    (0..count)
        .map(|at| {
            rig.receive(at, 0, packet(100));
            rig.out.pop().is_none()
        })
        .collect()
}

fn share(fates: &[bool]) -> f64 {
    fates.iter().filter(|&&lost| lost).count() as f64 / fates.len() as f64
}

/// The mean length of runs of `kind`.
fn mean_run(fates: &[bool], kind: bool) -> f64 {
    let runs: Vec<usize> =
        fates.chunk_by(|a, b| a == b).filter(|run| run[0] == kind).map(<[bool]>::len).collect();
    runs.iter().sum::<usize>() as f64 / runs.len() as f64
}

#[test]
fn independent_losses_have_their_rate_and_no_memory() {
    for loss in [0.001, 0.1, 0.5] {
        let fates = losses(Config::PacketErrors { loss }, 400_000);
        let sigma = (loss * (1.0 - loss) / 4e5_f64).sqrt();
        assert!((share(&fates) - loss).abs() < 4.0 * sigma, "{loss}: {}", share(&fates));
        assert!((mean_run(&fates, true) * (1.0 - loss) - 1.0).abs() < 0.1, "{loss}");
    }
    assert_eq!(share(&losses(Config::PacketErrors { loss: 0.0 }, 1000)), 0.0);
    assert_eq!(share(&losses(Config::PacketErrors { loss: 1.0 }, 1000)), 1.0);
}

#[test]
fn bursts_and_gaps_have_their_lengths() {
    let (p, r) = (0.01, 0.2);
    let fates = losses(Config::GilbertElliott { p, r, loss_good: 0.0, loss_bad: 1.0 }, 1_000_000);
    assert!((share(&fates) * (p + r) / p - 1.0).abs() < 0.05, "{}", share(&fates));
    assert!((mean_run(&fates, true) * r - 1.0).abs() < 0.05);
    assert!((mean_run(&fates, false) * p - 1.0).abs() < 0.05);
}

#[test]
fn losses_in_both_states_have_the_chain_s_rate_and_covariance() {
    let (p, r, k, h) = (0.02, 0.1, 0.05, 0.6);
    let fates = losses(Config::GilbertElliott { p, r, loss_good: k, loss_bad: h }, 1_000_000);
    let bad = p / (p + r);
    let rate = bad * h + (1.0 - bad) * k;
    assert!((share(&fates) / rate - 1.0).abs() < 0.03, "{} {rate}", share(&fates));
    for lag in [1, 5, 10_u32] {
        let both = fates.iter().zip(&fates[lag as usize..]).filter(|(a, b)| **a && **b).count();
        let measured = both as f64 / fates.len() as f64 - share(&fates).powi(2);
        let expected = bad * (1.0 - bad) * (h - k).powi(2) * (1.0 - p - r).powi(lag as i32);
        assert!((measured / expected - 1.0).abs() < 0.08, "lag {lag}: {measured} {expected}");
    }
}

#[test]
fn bits_are_flipped_at_their_rate() {
    let ber = 1e-4;
    let mut rig = rig(Config::BitErrors { ber, crc: false });
    let mut ones = 0;
    for at in 0..20_000 {
        rig.receive(at, 0, packet(100));
        let (_, _, out) = rig.out.pop().expect("passed on");
        ones += out.to_vec().iter().map(|byte| byte.count_ones()).sum::<u32>();
    }
    let bits = 20_000.0 * 800.0;
    assert!((f64::from(ones) - ber * bits).abs() < 4.0 * (ber * bits).sqrt(), "{ones}");
    let whole = (1.0 - rig.value("damaged") / 20_000.0, (1.0 - ber).powi(800));
    assert!((whole.0 - whole.1).abs() < 0.008, "{whole:?}");
}

#[test]
fn duplicates_come_twice() {
    let mut rig = rig(Config::Duplication { probability: 0.25 });
    (0..10_000).for_each(|at| rig.receive(at, 0, packet(100)));
    assert!((rig.out.len() as f64 - 12_500.0).abs() < 200.0);
    assert_eq!(rig.value("duplicated"), rig.out.len() as f64 - 10_000.0);
}

#[test]
fn held_packets_are_passed_by_others() {
    let mut rig = rig(Config::Reordering { probability: 0.1, delay: ms(5) });
    for i in 0..1000 {
        rig.receive(i * MS, 0, packet(100 + i as usize));
    }
    rig.run_until(2000 * MS);
    assert_eq!(rig.out.len(), 1000);
    let late = rig.times().iter().filter(|&&(at, len)| at == (len as u64 - 100 + 5) * MS).count();
    let prompt = rig.times().iter().filter(|&&(at, len)| at == (len as u64 - 100) * MS).count();
    assert_eq!(late + prompt, 1000);
    assert!((60..140).contains(&late), "{late}");
}

#[test]
fn jitter_has_its_law_and_may_keep_order() {
    let uniform = JitterLaw::Uniform { min: ms(1), max: ms(9) };
    let laws = [
        (uniform, 5e-3, 8e-3 / 12_f64.sqrt()),
        (JitterLaw::Exponential { mean: ms(4) }, 4e-3, 4e-3),
        (JitterLaw::Normal { mean: ms(50), deviation: ms(5) }, 50e-3, 5e-3),
    ];
    for (law, mean, deviation) in laws {
        let mut stream = RandomStream::new(3, "jitter");
        let draws: Vec<f64> = (0..40_000).map(|_| law.draw(&mut stream).as_secs_f64()).collect();
        let average = draws.iter().sum::<f64>() / 4e4;
        let variance = draws.iter().map(|draw| (draw - average).powi(2)).sum::<f64>() / 4e4;
        assert!(
            (average / mean - 1.0).abs() < 0.02 && (variance.sqrt() / deviation - 1.0).abs() < 0.03,
            "{law:?}"
        );
    }
    for keep_order in [true, false] {
        let mut rig = rig(Config::Jitter { law: uniform, keep_order });
        assert_eq!(rig.element.lookahead(), ms(1));
        (0..200).for_each(|i| rig.receive(i * MS, 0, packet(100 + i as usize)));
        rig.run_until(1000 * MS);
        assert_eq!(rig.times().is_sorted_by_key(|(_, len)| *len), keep_order);
        assert_eq!(rig.out.len(), 200);
    }
}

#[test]
fn a_new_fault_holds_from_the_next_packet_on() {
    let mut rig = rig(Config::Reordering { probability: 1.0, delay: ms(5) });
    rig.receive(0, 0, packet(100));
    rig.element.set(&[Config::PacketErrors { loss: 1.0 }]).expect("possible");
    rig.receive(MS, 0, packet(200));
    assert!(rig.element.set(&[Config::PacketErrors { loss: 2.0 }]).is_err());
    rig.receive(2 * MS, 0, packet(300));
    rig.run_until(10 * MS);
    assert_eq!((rig.times(), rig.value("lost")), (vec![(5 * MS, 100)], 2.0));
}

#[test]
fn new_faults_may_be_more_or_fewer_than_before() {
    let mut rig = rig(Config::Reordering { probability: 1.0, delay: ms(5) });
    rig.receive(0, 0, packet(100));
    let doubling = Config::Duplication { probability: 1.0 };
    rig.element.set(&[doubling.clone(), doubling.clone(), doubling]).expect("possible");
    rig.receive(MS, 0, packet(200));
    rig.element.set(&[]).expect("possible");
    rig.receive(2 * MS, 0, packet(300));
    let later = Config::Reordering { probability: 1.0, delay: ms(7) };
    rig.element.set(&[Config::PacketErrors { loss: 0.0 }, later]).expect("possible");
    rig.receive(3 * MS, 0, packet(400));
    rig.element.set(&[Config::PacketErrors { loss: 1.0 }]).expect("possible");
    rig.receive(4 * MS, 0, packet(500));
    rig.run_until(20 * MS);
    let eight = std::iter::repeat_n((MS, 200), 8);
    let expected: Vec<_> = eight.chain([(2 * MS, 300), (5 * MS, 100), (10 * MS, 400)]).collect();
    assert_eq!(rig.times(), expected);
    assert_eq!((rig.value("lost"), rig.value("duplicated"), rig.value("delivered")), (1.0, 7.0, 11.0));
}

#[test]
fn what_is_no_probability_is_refused() {
    let key = |config| Channel::new(&config).err().map(|error| error.key);
    assert_eq!(key(Config::PacketErrors { loss: 1.1 }), Some("loss"));
    assert_eq!(key(Config::BitErrors { ber: f64::NAN, crc: true }), Some("ber"));
    assert_eq!(key(Config::GilbertElliott { p: 0.1, r: -0.1, loss_good: 0.0, loss_bad: 1.0 }), Some("r"));
    let law = JitterLaw::Uniform { min: ms(2), max: ms(1) };
    assert_eq!(key(Config::Jitter { law, keep_order: true }), Some("max"));
}

/// Bits come in bursts: as many as the stationary chain says, and close together.
#[test]
fn bits_are_flipped_in_bursts() {
    let (p, r) = (1e-4, 0.02);
    let config = Config::BitBursts { p, r, ber_good: 0.0, ber_bad: 0.5 };
    let mut rig = Harness::new(Channel::new(&config).unwrap());
    for n in 0..20_000 {
        rig.receive(n, 0, Packet::from_bytes(&[0; 188]));
    }
    let flipped: Vec<u64> = (0..)
        .zip(&rig.out)
        .flat_map(|(n, (_, _, packet))| {
            let bytes = packet.to_vec();
            (0..1504)
                .filter(move |bit| bytes[bit / 8] & 0x80 >> (bit % 8) != 0)
                .map(move |bit| n * 1504 + bit as u64)
        })
        .collect();
    let expected = 20_000.0 * 1504.0 * 0.5 * p / (p + r);
    assert!((flipped.len() as f64 / expected - 1.0).abs() < 0.08, "{} of {expected}", flipped.len());
    // Within a burst the next flip is 2 bits away in the mean; a burst goes on with probability (1 - r) / (1 + r).
    let near = flipped.windows(2).filter(|pair| pair[1] - pair[0] <= 64).count() as f64;
    assert!(near / flipped.len() as f64 > 0.93, "{near} of {}", flipped.len());
    let damaged =
        rig.out.iter().filter(|(_, _, packet)| packet.to_vec().iter().any(|byte| *byte != 0)).count();
    assert_eq!(rig.value("damaged"), damaged as f64);
}

#[test]
fn outages_lose_exactly_the_packets_that_arrive_meanwhile() {
    let outage = |at, lasts| Outage { at: Span::from_nanos(at), lasts: Span::from_nanos(lasts) };
    let lost = |outages: Vec<Outage>, every: Option<u64>, count| {
        let fates =
            losses(Config::Outages { outages, contacts: None, every: every.map(Span::from_nanos) }, count);
        fates.iter().enumerate().filter(|(_, lost)| **lost).map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(lost(vec![outage(3, 2), outage(5, 0), outage(9, 1)], None, 30), [3, 4, 9]);
    assert_eq!(lost(vec![outage(0, 1), outage(3, 2)], Some(10), 30), [0, 3, 4, 10, 13, 14, 20, 23, 24]);
    assert_eq!(lost(vec![outage(7, u64::MAX - 7)], None, 9), [7, 8]);
}

#[test]
fn outages_out_of_order_are_refused() {
    let outage = |at, lasts| Outage { at: Span::from_secs(at), lasts: Span::from_secs(lasts) };
    let key = |outages, every| {
        let every: Option<u64> = every;
        let config = Config::Outages { outages, contacts: None, every: every.map(Span::from_secs) };
        Channel::new(&config).err().map(|error| error.key)
    };
    assert_eq!(key(vec![outage(3, 2), outage(4, 1)], None), Some("outages"));
    assert_eq!(key(vec![outage(5, 2), outage(3, 1)], None), Some("outages"));
    assert_eq!(key(vec![outage(5, 6)], Some(10)), Some("every"));
    assert_eq!(key(vec![outage(5, 1)], Some(0)), Some("every"));
    let endless = Outage { at: Span::from_nanos(u64::MAX), lasts: Span::from_nanos(1) };
    assert_eq!(key(vec![endless], None), Some("outages"));
    assert_eq!(key(vec![outage(1, 1); 10_001], None), Some("outages"));
    assert_eq!(key(Vec::new(), None), Some("outages"));
}
