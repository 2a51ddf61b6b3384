use proptest::prelude::*;

use super::*;

const LINE: Rate = Rate::from_bps(155_520_000);
const PCR: f64 = 155_520_000.0 / 424.0;

fn system(config: Config) -> EndSystem {
    EndSystem::new(&config, Vc::FIRST, LINE).unwrap()
}

fn icr(bps: u64) -> Config {
    Config { icr: Some(Rate::from_bps(bps)), ..Config::default() }
}

fn backward(change: impl FnOnce(rm::Repr) -> rm::Repr) -> Word {
    let repr = rm::Repr { backward: true, explicit: rm::Rate::MAX, ..rm::Repr::default() };
    Word::rm(Vc::FIRST, false, &change(repr))
}

fn forward(current: f64) -> Word {
    let current = rm::Rate::from_cells_per_second(current);
    Word::rm(Vc::FIRST, false, &rm::Repr { explicit: rm::Rate::MAX, current, ..rm::Repr::default() })
}

/// What goes out in `cells` cells from `from` on, one as soon as it may: times and RM cells.
fn send(system: &mut EndSystem, from: Time, cells: usize, has_data: bool) -> Vec<(Time, Option<rm::Repr>)> {
    let step = |_| {
        let at = system.next().max(from);
        match system.choose(at, has_data) {
            NextCell::Data => (at, None),
            NextCell::Rm(word) => (at, Some(word.rm_repr())),
        }
    };
    (0..cells).map(step).collect()
}

#[test]
fn the_first_cell_is_a_forward_one_and_then_every_nrm_th() {
    let mut source = system(icr(10_000_000));
    let sent = send(&mut source, Time::ZERO, 97, true);
    let places: Vec<usize> = (0..97).filter(|n| sent[*n].1.is_some()).collect();
    assert_eq!(places, [0, 32, 64, 96]);
    let rm = sent[0].1.unwrap();
    let rate = |bps: f64| rm::Rate::from_cells_per_second(bps / 424.0);
    assert_eq!((rm.explicit, rm.current, rm.minimum), (rate(155.52e6), rate(10e6), rm::Rate::ZERO));
    assert!(!rm.backward && !rm.congestion && !rm.no_increase);
    // 10 Mbit/s are 42.4 us a cell, to the nanosecond over all of them.
    assert_eq!(sent[96].0, Time::from_nanos(96 * 42_400));
}

#[test]
fn rates_step_as_rules_8_and_9_say() {
    let config = Config { rif: 1.0 / 16.0, rdf: 1.0 / 512.0, ..icr(10_000_000) };
    let mut source = system(config);
    let start = 10e6 / 424.0;
    source.on_rm(backward(|rm| rm));
    assert!((source.acr() - (start + PCR / 16.0)).abs() < 1e-6);
    source.on_rm(backward(|rm| rm::Repr { no_increase: true, ..rm }));
    assert!((source.acr() - (start + PCR / 16.0)).abs() < 1e-6);
    source.on_rm(backward(|rm| rm::Repr { congestion: true, ..rm }));
    assert!((source.acr() - (start + PCR / 16.0) * 511.0 / 512.0).abs() < 1e-6);
    let explicit = rm::Rate::from_cells_per_second(5000.0);
    source.on_rm(backward(|rm| rm::Repr { explicit, ..rm }));
    assert_eq!(source.acr(), explicit.cells_per_second());
    // With RIF = 1 one cell leads to the explicit rate, or to the peak if there is no limit.
    let mut fast = system(Config { rif: 1.0, ..config });
    fast.on_rm(backward(|rm| rm));
    assert_eq!(fast.acr(), PCR);
    fast.on_rm(backward(|rm| rm::Repr { explicit: rm::Rate::from_cells_per_second(PCR), ..rm }));
    assert_eq!(fast.acr(), PCR);
}

#[test]
fn the_minimum_holds_and_a_rate_of_zero_leaves_out_of_rate_cells() {
    let mut kept = system(Config { mcr: Rate::from_bps(424_000), ..icr(10_000_000) });
    kept.on_rm(backward(|rm| rm::Repr { explicit: rm::Rate::ZERO, ..rm }));
    assert_eq!(kept.acr(), 1000.0);
    let mut stopped = system(icr(10_000_000));
    send(&mut stopped, Time::ZERO, 1, true);
    stopped.on_rm(backward(|rm| rm::Repr { explicit: rm::Rate::ZERO, ..rm }));
    let sent = send(&mut stopped, Time::from_nanos(1000), 3, true);
    // Ten a second.
    let times: Vec<u64> = sent.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [100, 200, 300]);
    assert!(sent.iter().all(|(_, rm)| rm.is_some()));
    assert_eq!(stopped.counts.out_of_rate_sent, 3);
    stopped.on_rm(backward(|rm| rm));
    assert!(stopped.next() < Time::from_nanos(400_000_000));
}

#[test]
fn silence_costs_the_rate_and_trm_makes_forward_cells_more_frequent() {
    let mut source = system(Config { rif: 1.0, ..icr(10_000_000) });
    send(&mut source, Time::ZERO, 5, true);
    source.on_rm(backward(|rm| rm));
    assert_eq!(source.acr(), PCR);
    // Rule 3: after 100 ms the next cell is a forward one, as more than Mrm went out. Rule 5: not yet ADTF.
    let late = send(&mut source, Time::ZERO + Span::from_millis(300), 1, true);
    assert!(late[0].1.is_some() && source.acr() == PCR);
    send(&mut source, Time::ZERO + Span::from_millis(301), 3, true);
    let later = send(&mut source, Time::ZERO + Span::from_millis(900), 1, true);
    assert_eq!(later[0].1.map(|rm| rm.current), Some(rm::Rate::from_cells_per_second(10e6 / 424.0)));
}

#[test]
fn unanswered_cells_cut_the_rate() {
    let config = Config { crm: Some(2), cdf: 0.5, ..icr(42_400_000) };
    let mut source = system(config);
    let sent = send(&mut source, Time::ZERO, 129, true);
    let rates: Vec<f64> =
        sent.iter().filter_map(|(_, rm)| Some(rm.as_ref()?.current.cells_per_second())).collect();
    let kept = |cells: f64| rm::Rate::from_cells_per_second(cells).cells_per_second();
    assert_eq!(rates, [1e5, 1e5, 5e4, 2.5e4, 1.25e4].map(kept));
    source.on_rm(backward(|rm| rm::Repr { not_by_source: true, no_increase: true, ..rm }));
    assert_eq!(source.unanswered, 5);
    source.on_rm(backward(|rm| rm::Repr { no_increase: true, ..rm }));
    assert_eq!(source.unanswered, 0);
    // Seed 004 sets CDF to zero: then nothing is cut.
    let mut uncut = system(Config { cdf: 0.0, ..config });
    send(&mut uncut, Time::ZERO, 129, true);
    assert_eq!(uncut.acr(), 1e5);
}

#[test]
fn a_destination_turns_cells_round_with_its_congestion_and_the_newest_wins() {
    let mut end = system(icr(10_000_000));
    send(&mut end, Time::ZERO, 1, true);
    end.on_data(true);
    end.on_rm(forward(100.0));
    end.on_rm(forward(200.0));
    assert_eq!(end.counts.overwritten, 1);
    let [(_, first), (_, second)] = send(&mut end, Time::ZERO, 2, true)[..] else { panic!("two") };
    let turned = first.unwrap();
    // An overwritten cell's content is gone, but not the mark, which is written when the cell goes out.
    assert!(turned.backward && !turned.not_by_source && turned.congestion);
    assert_eq!(turned.current, rm::Rate::from_cells_per_second(200.0));
    assert_eq!(second, None);
    // With data waiting one backward cell goes out between two forward ones; without, each at once.
    end.on_rm(forward(1.0));
    assert_eq!(send(&mut end, Time::ZERO, 1, true)[0].1, None);
    // The state goes with one cell.
    assert!(send(&mut end, Time::ZERO, 1, false)[0].1.is_some_and(|rm| rm.backward && !rm.congestion));
    end.on_data(true);
    end.on_rm(forward(1.0));
    assert!(send(&mut end, Time::ZERO, 1, false)[0].1.is_some_and(|rm| rm.congestion));
}

#[test]
fn a_congested_destination_says_so_in_the_cells_it_turns_round() {
    let mut end = system(icr(10_000_000));
    send(&mut end, Time::ZERO, 1, true);
    let mut turned = |signal| {
        end.set_congestion(signal);
        end.on_rm(forward(200.0));
        send(&mut end, Time::ZERO, 1, false)[0].1.expect("a backward one")
    };
    let free = turned(None);
    assert!(!free.congestion && free.explicit == rm::Rate::MAX);
    let full = turned(Some(CongestionSignal::Congestion));
    assert!(full.backward && !full.not_by_source && full.congestion && full.explicit == rm::Rate::MAX);
    let rate = rm::Rate::from_cells_per_second(5000.0);
    let slow = turned(Some(CongestionSignal::Rate(rate)));
    assert_eq!((slow.explicit, slow.congestion, slow.no_increase), (rate, false, false));
    assert_eq!(slow.current, rm::Rate::from_cells_per_second(200.0));
}

#[test]
fn a_congested_destination_makes_ten_cells_a_second_at_most() {
    for signal in
        [CongestionSignal::Congestion, CongestionSignal::Rate(rm::Rate::from_cells_per_second(5000.0))]
    {
        let mut end = system(icr(10_000_000));
        send(&mut end, Time::ZERO, 1, true);
        end.make_backward(Time::from_nanos(1));
        assert!(!end.has_turn(), "it is not congested");
        end.set_congestion(Some(signal));
        let mut times = Vec::new();
        // Cells of data come each millisecond for a second.
        for ms in 1..=1000 {
            let now = Time::ZERO + Span::from_millis(ms);
            end.make_backward(now);
            if end.has_turn()
                && let [(at, Some(made))] = send(&mut end, now, 1, false)[..]
                && made.backward
            {
                assert!(made.not_by_source && (made.congestion || made.no_increase));
                assert_eq!((made.current, made.minimum), (rm::Rate::ZERO, rm::Rate::ZERO));
                assert_eq!(made.congestion, signal == CongestionSignal::Congestion);
                let told = if let CongestionSignal::Rate(rate) = signal { rate } else { rm::Rate::MAX };
                assert_eq!(made.explicit, told);
                times.push(at);
            }
        }
        assert_eq!((times.len() as u64, end.counts.destination_sent), (10, 10), "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_millis(100)), "{times:?}");
    }
}

#[test]
fn a_source_slows_down_at_once_though_no_forward_cell_came_back() {
    let start = 10e6 / 424.0;
    for (signal, expected) in [
        (CongestionSignal::Congestion, start * 15.0 / 16.0),
        (CongestionSignal::Rate(rm::Rate::from_cells_per_second(4096.0)), 4096.0),
    ] {
        let (mut source, mut destination) = (system(icr(10_000_000)), system(icr(10_000_000)));
        send(&mut source, Time::ZERO, 10, true);
        let before = source.unanswered;
        send(&mut destination, Time::ZERO, 1, false);
        destination.set_congestion(Some(signal));
        destination.make_backward(Time::from_nanos(1));
        let next = destination.next().max(Time::from_nanos(1));
        let NextCell::Rm(made) = destination.choose(next, false) else { panic!("no cell") };
        source.on_rm(made);
        assert!((source.acr() - expected).abs() < 1e-6, "{}", source.acr());
        // It answers nothing: rule 6 goes on counting.
        assert_eq!((source.unanswered, before), (1, 1));
        // A cell that waits says it too, so that none is made beside it.
        destination.on_rm(forward(1.0));
        destination.make_backward(Time::ZERO + Span::from_secs(1));
        let next = destination.next();
        let NextCell::Rm(turned) = destination.choose(next, false) else { panic!("no cell") };
        assert!(!turned.rm_repr().not_by_source);
        assert_eq!(destination.counts.destination_sent, 1);
    }
}

#[test]
fn sources_stopped_both_ways_hear_of_each_other() {
    let stopped = || {
        let mut end = system(Config { rif: 1.0, ..icr(10_000_000) });
        send(&mut end, Time::ZERO, 1, true);
        end.on_rm(backward(|rm| rm::Repr { explicit: rm::Rate::ZERO, ..rm }));
        end
    };
    let mut ends = [stopped(), stopped()];
    for tenth in 1..=4 {
        for n in 0..2 {
            let now = Time::ZERO + Span::from_millis(100 * tenth);
            let is_slow = ends[n].acr() == 0.0;
            if (is_slow || ends[n].has_turn())
                && let NextCell::Rm(cell) = ends[n].choose(now, true)
            {
                assert_eq!(cell.clp(), is_slow);
                ends[1 - n].on_rm(cell);
            }
        }
    }
    // With out-of-rate cells only, forward and backward in turn, not more often than TCR; one answer is enough.
    let told = ends.each_ref().map(|end| (end.acr() == PCR, end.counts.backward_received));
    assert_eq!(told, [(true, 2), (true, 2)]);
}

#[test]
fn impossible_parameters_are_named() {
    let key = |config: Config| EndSystem::new(&config, Vc::FIRST, LINE).unwrap_err().key;
    let fine = Config::default();
    assert_eq!(key(Config { rif: 0.0, ..fine }), "rif");
    assert_eq!(key(Config { rdf: 1.5, ..fine }), "rdf");
    assert_eq!(key(Config { cdf: f64::NAN, ..fine }), "cdf");
    assert_eq!(key(Config { nrm: 1, ..fine }), "nrm");
    assert_eq!(key(Config { mrm: 32, ..fine }), "mrm");
    assert_eq!(key(Config { tbe: 0, ..fine }), "tbe");
    assert_eq!(key(Config { mcr: Rate::from_bps(156_000_000), ..fine }), "mcr");
    assert_eq!(key(icr(156_000_000)), "icr");
    // TBE over FRTT: 512 cells in 30 ms are 7.2 Mbit/s.
    let exposed = system(Config { tbe: 512, frtt: Some(Span::from_millis(30)), ..icr(10_000_000) });
    assert!((exposed.acr() * 424.0 - 7_236_267.0).abs() < 1.0);
    // But no less than the minimum.
    let config = Config {
        tbe: 512,
        frtt: Some(Span::from_secs(1)),
        mcr: Rate::from_bps(4_240_000),
        ..icr(10_000_000)
    };
    assert_eq!(system(config).acr(), 10_000.0);
}

#[test]
fn what_is_not_used_is_lost_but_for_the_initial_rate() {
    let config = Config { rif: 1.0, use_it_or_lose_it: true, ..icr(4_240_000) };
    for (keeps, expected) in [(false, 10_000.0 + 1000.0), (true, PCR)] {
        let mut source = system(Config { use_it_or_lose_it: !keeps, ..config });
        send(&mut source, Time::ZERO, 1, true);
        source.on_rm(backward(|rm| rm));
        // A cell each millisecond, up to the next forward RM cell.
        let sent = (1..=32).map(|ms| source.choose(Time::from_nanos(ms * 1_000_000), true));
        assert_eq!(sent.filter(|choice| *choice != NextCell::Data).count(), 1);
        assert!((source.acr() - expected).abs() < 1e-6, "{}", source.acr());
    }
}

#[test]
fn one_gap_back_is_where_it_began() {
    for rate in [0.003, 10.0, 4242.42, PCR, 1e9 / 7.0] {
        let gap = Gap::of(rate);
        let mut carried = 0;
        let mut at = Time::from_nanos(12_345);
        for _ in 0..1000 {
            let before = (at, carried);
            at = gap.after(at, &mut carried);
            assert_eq!(gap.before((at, carried)), before, "{rate}");
        }
    }
}

proptest! {
    /// Steps to the next cell of data with its mark, or to the next forward RM cell, which is turned round when that may go out.
    #[test]
    fn marks_that_are_told_before_are_met_when_they_come(
        steps in prop::collection::vec((0_u64..6, 0..5), 1..60),
        ahead in 1_usize..30,
    ) {
        let (mut told, mut plain) = (system(icr(10_000_000)), system(icr(10_000_000)));
        let mut at = Time::ZERO;
        let cells: Vec<(Time, Option<bool>)> = steps.iter().map(|(wait, what)| {
            at += Span::from_micros(40 * wait);
            (at, (*what > 0).then_some(*what > 2))
        }).collect();
        let (mut of_plain, mut of_told, mut met) = (Vec::new(), Vec::new(), 0);
        for (n, &(at, mark)) in cells.iter().enumerate() {
            if n % ahead == 0 {
                for &(at, mark) in cells[n..].iter().take(ahead) {
                    mark.into_iter().for_each(|mark| told.will_meet(cells[n].0, at, mark));
                }
            }
            if mark.is_some() {
                continue;
            }
            [&mut told, &mut plain].into_iter().for_each(|system| system.on_rm(forward(1000.0)));
            while plain.has_turn() {
                let now = plain.next().max(at);
                while let Some((_, mark)) = cells.get(met).filter(|(at, _)| *at <= now && met < n / ahead * ahead + ahead) {
                    mark.iter().for_each(|mark| plain.on_data(*mark));
                    met += 1;
                }
                of_plain.push(plain.choose(now, false));
                of_told.push(told.choose(now, false));
            }
        }
        prop_assert_eq!(of_told, of_plain);
    }
}
