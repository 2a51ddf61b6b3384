//! ATM networks against theory, and trains of cells against single ones.

use std::any::Any;

use crate::atm_path::{Adjust, Greedy, Load, OC3, Path, Values, World, seed_abr, seed_tcp};
use bentpipe_atm::erica::{Fairness, Measurement};
use bentpipe_atm::interface::LINE;
use bentpipe_atm::switch::{self, Algorithm, ByCategory, Discard};
use bentpipe_atm::{
    Channel, Class, Content, Coupling, Interface, Service, Switch, Vc, abr, line, receive, vsvd,
};
use bentpipe_net::{Cx, Element, Link, Observer, Packet, Port, link};
use bentpipe_sim::{Builder, ElementId, Network};
use bentpipe_units::{Rate, Span, Time};

#[test]
fn one_source_gets_the_line() {
    let mut world = Path::wan(1).build();
    world.run_ms(400);
    let before = world.value("receiver/0", "packets");
    world.run_ms(900);
    let goodput = (world.value("receiver/0", "packets") - before) * 512.0 * 8.0 / 0.5;
    // 12 cells of 31 in 32: the seed's 121.3 Mbit/s.
    assert!((goodput / 121.29e6 - 1.0).abs() < 0.003, "{goodput}");
}

#[test]
fn trains_of_cells_change_no_result() {
    let mut path = Path { load: seed_tcp(200_000), ..Path::wan(5) };
    // One of the hosts is slower than its share, says so, and loses cells.
    const SLOWER: receive::Config =
        receive::Config { rate: Rate::from_bps(5_000_000), limit: 60, congested: Some(20), ..SLOW };
    path.receive = |n| (n == 2).then_some(SLOWER);
    path.background = Some(|| {
        let ms = Span::from_millis(7);
        let rates = (0..40_u64).map(move |n| (ms, Rate::from_bps(n % 5 * 20_000_000)));
        vec![Box::new(rates.clone()), Box::new(rates.rev())]
    });
    let [few, many] = compare(&path);
    assert!(few * 5 < many, "{few} events with trains, {many} without");
    let switch = switch::Config { efci: Some(30), ..path.switch };
    compare(&Path { switch, ..path.clone() });
    let vsvd = Some(vsvd::Config { limit: Some(300), ..Default::default() });
    compare(&Path { vsvd, ..path });
}

/// Every element delivers each cell in its own event.
const UNBATCHED: Adjust = Adjust {
    interface: Interface::disable_batching,
    switch: Switch::disable_batching,
    coupling: Coupling::disable_batching,
};

/// A path with cells in trains against the same with single ones, and against itself with hosts run in turns, and looked at often;
/// how many events trains took, and single cells.
fn compare(path: &Path) -> [u64; 2] {
    let run = |unbatched, in_turns, steps: u64| {
        let adjust = if unbatched { UNBATCHED } else { Adjust::NONE };
        let mut world = Path { adjust, ..path.clone() }.build();
        if in_turns {
            // Whoever listens hears everything in the order of time.
            let first = world.network().ids().next().expect("an element");
            world.network().tap(first, Port(0), |_, _| {});
        }
        let mut seen = Vec::new();
        for step in 1..=20 * steps {
            world.network().run_until(Time::ZERO + Span::from_millis(20) * step / steps);
            let values = world.values();
            if step % steps == 0 {
                seen.push((values, world.digests()));
            }
        }
        let work = world.network().work();
        (seen, work.deliveries + work.wakeups, world.network().fingerprint())
    };
    let ((trains, few, fingerprint), (cells, many, _)) = (run(false, false, 1), run(true, false, 1));
    for (others, events, of_others) in [run(false, true, 1), run(false, false, 50)] {
        assert_eq!((events, of_others), (few, fingerprint));
        assert!(
            trains.iter().zip(&others).all(|(these, others)| format!("{these:?}") == format!("{others:?}"))
        );
    }
    let of_slow = |name| trains[19].0[&("vc/2/exit".to_owned(), name)];
    assert!(of_slow("receive-lost") > 0.0 && of_slow("rm-destination-sent") > 0.0);
    for (step, (with, without)) in trains.iter().zip(&cells).enumerate() {
        for (key, value) in &with.0 {
            assert!(*value == without.0[key] || value.is_nan(), "{step} {key:?}: {value} {}", without.0[key]);
        }
        assert_eq!(with.1, without.1, "step {step}");
    }
    [few, many]
}

/// More than a line can take: two channels of streams and one that has something to send at any time.
fn overloaded(unbatched: bool) -> u64 {
    let mut interface =
        Interface::new("line", &line::Config { rate: OC3, delay: Span::from_millis(1) }).unwrap();
    let streams = |mbps: &'static [u64]| {
        let rates = move |mbps: &u64| {
            let pieces = [mbps * 1_000_000, 0, mbps * 2_000_000]
                .map(|bps| (Span::from_millis(9), Rate::from_bps(bps)));
            Box::new(pieces.into_iter().cycle()) as bentpipe_atm::Rates
        };
        Content::Streams(mbps.iter().map(rates).collect())
    };
    let contents = [streams(&[40, 27]), streams(&[51]), Content::Packets(Default::default())];
    let services = [Service::Vbr { pcr: None }, Service::Ubr { pcr: None }, seed_abr(0)];
    for (n, (content, service)) in contents.into_iter().zip(services).enumerate() {
        let vc = Vc::new(Vc::FIRST.vci() + n as u16).unwrap();
        let path = format!("vc/{n}");
        interface.add(Channel { path, vc, service, content, limit: None, receive: None }).unwrap();
    }
    if unbatched {
        interface.disable_batching();
    }
    let mut builder = Builder::new(1);
    let [source, interface] =
        [builder.add("source", Greedy::new(Span::ZERO)), builder.add("interface", interface)];
    builder.connect((source, Port(0)), (interface, Port(3)));
    let mut network = builder.build().unwrap();
    network.run_until(Time::ZERO + Span::from_millis(200));
    network.observe(interface, &mut Values::default());
    network.element::<Interface>(interface).unwrap().digest()
}

#[test]
fn rows_of_cells_change_nothing_where_channels_share_a_line() {
    assert_eq!(overloaded(false), overloaded(true));
}

/// The VCs' shares of the trunk, and its use, from `from_ms` to `to_ms`.
fn shares(world: &mut World, from_ms: u64, to_ms: u64) -> (Vec<f64>, f64) {
    let read = |world: &mut World| {
        let values = world.values();
        let cells = |n: usize| values[&(format!("vc/{n}/exit"), "cells-received")];
        let all: Vec<f64> = (0..world.senders.len()).map(cells).collect();
        (all, values[&("link/trunk/forward".to_owned(), "delivered")])
    };
    world.run_ms(from_ms);
    let before = read(world);
    world.run_ms(to_ms);
    let after = read(world);
    let seconds = (to_ms - from_ms) as f64 / 1000.0;
    let rates = before.0.iter().zip(&after.0).map(|(before, after)| (after - before) / seconds).collect();
    (rates, (after.1 - before.1) / seconds / (155.52e6 / 424.0))
}

#[test]
fn erica_plus_is_fair_and_uses_the_line() {
    for n in [2, 7, 15] {
        // From very different beginnings.
        let greedy = Load::Greedy(|n| Span::from_millis(23 * n as u64));
        let mut world = Path { load: greedy, ..Path::wan(n) }.build();
        let (rates, used) = shares(&mut world, 1000, 2000);
        let mean = rates.iter().sum::<f64>() / n as f64;
        let worst = rates.iter().map(|rate| (rate / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < 0.01, "{n}: {worst} of {mean}");
        assert!(used > 0.985, "{n}: {used}");
    }
}

#[test]
fn erica_keeps_to_its_share() {
    let abr =
        Algorithm::Erica { utilisation: 0.9, fairness: Default::default(), measure: Default::default() };
    let switch = switch::Config { abr, ..Default::default() };
    let mut world = Path { switch, ..Path::wan(5) }.build();
    let (rates, used) = shares(&mut world, 1000, 2000);
    assert!((used - 0.9).abs() < 0.01, "{used}");
    assert!(rates.iter().all(|rate| (rate / rates[0] - 1.0).abs() < 0.01), "{rates:?}");
    assert_eq!(world.value("link/trunk/forward", "abr-queue"), 0.0);
}

#[test]
fn shares_are_max_min_where_one_asks_for_less() {
    // Four at one port; one has a peak of 10 Mbit/s. The others get a third of the rest each.
    let service = |n| match seed_abr(n) {
        Service::Abr(config) if n == 0 => {
            Service::Abr(abr::Config { pcr: Some(Rate::from_bps(10_000_000)), ..config })
        }
        other => other,
    };
    let mut world = Path { service, ..Path::wan(4) }.build();
    let (rates, used) = shares(&mut world, 1000, 3000);
    let mbps: Vec<f64> = rates.iter().map(|rate| rate * 424.0 / 1e6).collect();
    assert!((mbps[0] - 10.0).abs() < 0.1, "{mbps:?}");
    let expected = (155.52 - 10.0) / 3.0;
    // Rates breathe about what is fair, and after each overshoot the queue takes its share: a tenth on average.
    assert!(mbps[1..].iter().all(|rate| (rate / expected - 0.93).abs() < 0.07), "{mbps:?}");
    assert!(mbps[1..].iter().all(|rate| (rate / mbps[1] - 1.0).abs() < 0.01), "{mbps:?}");
    assert!(used > 0.9, "{used}");
}

#[test]
fn efci_and_relative_decrease_hold_the_queue() {
    let service = |n| match seed_abr(n) {
        Service::Abr(config) => Service::Abr(abr::Config { rif: 1.0 / 16384.0, rdf: 1.0 / 1024.0, ..config }),
        other => other,
    };
    let switch = switch::Config { efci: Some(300), ..Default::default() };
    let mut world = Path { switch, service, ..Path::wan(3) }.build();
    let (_, used) = shares(&mut world, 2000, 4000);
    assert!(used > 0.8, "{used}");
    let queue = world.value("link/trunk/forward", "abr-queue-max");
    assert!((300.0..20_000.0).contains(&queue), "{queue}");
}

#[test]
fn cells_of_the_switchs_own_come_before_the_destinations() {
    // All delay is behind the switch, so that what the destination turns round comes 60 ms later than what the switch says.
    let service = |n| match seed_abr(n) {
        Service::Abr(config) => Service::Abr(abr::Config { rif: 1.0 / 16384.0, rdf: 1.0 / 4.0, ..config }),
        other => other,
    };
    let run = |becn| {
        let switch = switch::Config { efci: Some(300), becn, ..Default::default() };
        let delays = [Span::from_millis(1), Span::from_millis(15), Span::from_millis(15)];
        let mut world = Path { switch, service, delays, ..Path::wan(20) }.build();
        let (_, used) = shares(&mut world, 1000, 2000);
        let made: f64 = (0..20).map(|n| world.value(&format!("link/access.{n}/return"), "rm-made")).sum();
        (world.value("link/trunk/forward", "abr-queue-max"), used, made)
    };
    let (with, without) = (run(Some(300)), run(None));
    assert_eq!(without.2, 0.0);
    // At most ten a second for each of twenty channels.
    assert!(with.2 >= 20.0 && with.2 <= 20.0 * 21.0, "{with:?}");
    assert!(with.0 < 0.7 * without.0, "{with:?} {without:?}");
}

/// A host that takes 20 Mbit/s, with room for 5000 cells.
const SLOW: receive::Config =
    receive::Config { rate: Rate::from_bps(20_000_000), limit: 5000, congested: None, explicit_rate: false };

/// What it takes in a second, in cells.
const TAKEN: f64 = 20e6 / 424.0;

/// One source of ABR over switches that say nothing, with 30 ms there and back, and a slow host.
fn to_slow_host(receive: fn(usize) -> Option<receive::Config>) -> World {
    let service = |n| match seed_abr(n) {
        Service::Abr(config) => Service::Abr(abr::Config { rif: 1.0 / 4096.0, ..config }),
        other => other,
    };
    Path { receive, service, switch: switch::Config::default(), ..Path::wan(1) }.build()
}

#[test]
fn a_slow_host_that_says_nothing_loses_cells_and_one_that_does_loses_none() {
    let run = |receive| {
        let mut world = to_slow_host(receive);
        world.run_ms(5000);
        ["receive-queue-max", "receive-lost", "rm-destination-sent", "cells-received"]
            .map(|name| world.value("vc/0/exit", name))
    };
    let [queue, lost, made, received] = run(|_| Some(SLOW));
    assert!(queue == 5000.0 && made == 0.0, "{queue} {made}");
    // What comes of data but is not taken: 31 of 32 cells that come are data, and 5000 still wait.
    let data = received * 31.0 / 32.0;
    assert!((lost / (data - 5000.0 - 5.0 * TAKEN) - 1.0).abs() < 0.02, "{lost} of {received}");
    let [queue, lost, made, _] = run(|_| Some(receive::Config { congested: Some(500), ..SLOW }));
    assert!(queue < 2500.0 && lost == 0.0 && made > 0.0, "{queue} {lost} {made}");
}

#[test]
fn a_source_comes_to_the_rate_of_its_host() {
    const SAID: receive::Config = receive::Config { congested: Some(500), explicit_rate: true, ..SLOW };
    let mut world = to_slow_host(|_| Some(SAID));
    let mut acr = Vec::new();
    let mut queue = Vec::new();
    let mut handed_over = 0.0;
    for ms in 0..300 {
        world.run_ms(1000 + 10 * ms);
        acr.push(world.value("vc/0/access", "acr"));
        queue.push(world.value("vc/0/exit", "receive-queue"));
        handed_over = if ms == 0 { world.value("receiver/0", "packets") } else { handed_over };
    }
    // The buffer is never empty, so that the host has all that it takes: 12 cells a packet.
    let packets = world.value("receiver/0", "packets") - handed_over;
    assert!((packets * 12.0 / (TAKEN * 2.99) - 1.0).abs() < 0.001, "{packets}");
    // With 31 of 32 cells data, a source that is told 20 Mbit/s sends a little less, so that the queue sinks below the threshold,
    // and rises from there until the source hears of it, 30 ms later: then it has had 90 cells a second more with each of the 1474
    // answers a second, for those 30 ms and for the 12 until it sent more than is taken, and again as long on the way up.
    let mean = acr.iter().sum::<f64>() / acr.len() as f64;
    assert!((mean / (20e6 * 32.0 / 31.0) - 1.0).abs() < 0.02, "{mean}");
    let slope = PCR_CELLS / 4096.0 * TAKEN / 32.0;
    let above = slope * (0.030 + 2.0 * 0.042_f64).powi(2) / 2.0;
    let highest = queue.iter().copied().fold(0.0, f64::max);
    let lowest = queue.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(highest < 500.0 + above && lowest > 500.0 - above, "{lowest} {highest} {above}");
}

/// OC-3 in cells a second.
const PCR_CELLS: f64 = 155.52e6 / 424.0;

/// Four greedy sources behind a satellite, with VBR of 100 Mbit/s in each first half of a second on the trunk, with or without boxes
/// at the near end of the satellite.
fn over_satellite(vsvd: Option<vsvd::Config>) -> World {
    let ms = Span::from_millis;
    // A virtual source that has less to send than it may must not count as if it did not.
    let count_rates = vsvd.is_some_and(|vsvd| !vsvd.transparent);
    let measure = Measurement { count_rates, ..Measurement::default() };
    let abr = Algorithm::EricaPlus { queue: Default::default(), fairness: Default::default(), measure };
    let switch = switch::Config { abr, ..Default::default() };
    let mut path = Path { delays: [ms(250), ms(5), ms(1)], vsvd, switch, ..Path::wan(4) };
    path.background = Some(|| {
        let half = Span::from_millis(500);
        let on_off = [100_000_000, 0].map(|bps| (half, Rate::from_bps(bps)));
        vec![Box::new(on_off.into_iter().cycle())]
    });
    path.build()
}

/// The longest queues from 3 s to 5 s, of the trunk and of all boxes together.
fn longest(world: &mut World) -> [f64; 2] {
    let mut longest = [0.0_f64; 2];
    for n in 0..200 {
        world.run_ms(3000 + 10 * n);
        let values = world.values();
        let get = |part: String, name| values.get(&(part, name)).copied().unwrap_or(0.0);
        let trunk = get("link/trunk/forward".to_owned(), "abr-queue");
        let boxes: f64 = (0..4).map(|n| get(format!("vc/{n}/box/on"), "queue")).sum();
        longest = [longest[0].max(trunk), longest[1].max(boxes)];
    }
    longest
}

#[test]
fn virtual_sources_keep_the_queue_of_the_switch_short() {
    let run = |vsvd| {
        let mut world = over_satellite(vsvd);
        let longest = longest(&mut world);
        let (rates, used) = shares(&mut world, 5000, 7000);
        let mean = rates.iter().sum::<f64>() / 4.0;
        assert!(rates.iter().all(|rate| (rate / mean - 1.0).abs() < 0.02), "{rates:?}");
        (longest, used)
    };
    let ([alone, _], used_alone) = run(None);
    let ([trunk, boxes], used) = run(Some(vsvd::Config::default()));
    // What the sources send too much in the satellite's round trip waits in the boxes instead, and is no more than that was.
    assert!(alone > 20_000.0 && trunk < alone / 20.0, "{alone} {trunk}");
    assert!(boxes < 1.2 * alone && (used / used_alone - 1.0).abs() < 0.02, "{boxes} {used} {used_alone}");
    // Transparent boxes are a little more of line.
    let ([trunk, boxes], used) = run(Some(vsvd::Config { transparent: true, ..Default::default() }));
    assert!((trunk / alone - 1.0).abs() < 0.02 && boxes <= 8.0, "{trunk} {alone} {boxes}");
    assert!((used / used_alone - 1.0).abs() < 0.01, "{used} {used_alone}");
}

/// A box from a line of 155.52 Mbit/s to one of 34 Mbit/s, in whose way are 10 Mbit/s each of UBR, VBR and CBR, in the order of their
/// numbers, and a greedy source of ABR; and the box.
fn into_a_narrow_line() -> (Network, ElementId) {
    let ten = || {
        let rate = Rate::from_bps(10_000_000);
        Content::Streams(vec![Box::new(std::iter::once((Span::from_secs(9), rate)))])
    };
    let Service::Abr(abr) = seed_abr(0) else { unreachable!() };
    let abr = Service::Abr(abr::Config { pcr: None, ..abr });
    let other = [Service::Ubr { pcr: None }, Service::Vbr { pcr: None }, Service::Cbr { pcr: None }];
    let all = other.map(|service| (service, ten(), Content::Sink));
    let packets = || Content::Packets(Default::default());
    let wide = line::Config { rate: OC3, delay: Span::from_millis(1) };
    let narrow = line::Config { rate: Rate::from_bps(34_000_000), ..wide };
    let [mut near, mut far] = [wide, narrow].map(|line| Interface::new("line", &line).unwrap());
    let paths = ["return", "forward"].map(str::to_owned);
    let mut coupling = Coupling::new(&Default::default(), paths, [&wide, &narrow]).unwrap();
    let mut builder = Builder::new(1);
    for (n, (service, from, to)) in all.into_iter().chain([(abr, packets(), packets())]).enumerate() {
        let vc = Vc::new(Vc::FIRST.vci() + n as u16).unwrap();
        for (end, content) in [(&mut near, from), (&mut far, to)] {
            let path = format!("vc/{n}");
            end.add(Channel { path, vc, service, content, limit: None, receive: None }).unwrap();
        }
        coupling.connect(vc, &service, ["back", "on"].map(|way| format!("{n}/{way}"))).unwrap();
    }
    let [near, far] = [("near", near), ("far", far)].map(|(path, end)| builder.add(path, end));
    let [coupling, source] = [builder.add("box", coupling), builder.add("source", Greedy::new(Span::ZERO))];
    builder.connect((source, Port(0)), (near, Port(4)));
    for (side, end) in [near, far].into_iter().enumerate() {
        builder.connect((end, LINE), (coupling, Port(side as u16)));
        builder.connect((coupling, Port(side as u16)), (end, LINE));
    }
    (builder.build().unwrap(), coupling)
}

#[test]
fn boxes_serve_categories_as_switches_do() {
    let (mut network, coupling) = into_a_narrow_line();
    let mut sent = |seconds| {
        network.run_until(Time::ZERO + Span::from_secs(seconds));
        let mut values = Values::default();
        network.observe(coupling, &mut values);
        let of = |name| [0, 1, 2, 3].map(|n| values.found[&(format!("{n}/on"), name)]);
        [of("cells-sent"), of("queue-max")]
    };
    let ([before, _], [after, most]) = (sent(1), sent(2));
    let mbps: Vec<f64> = before.iter().zip(after).map(|(before, after)| (after - before) * 424e-6).collect();
    // ABR's virtual source may send as fast as the line is: what CBR and VBR leave is its, and nothing is left to UBR.
    assert!((mbps[1] - 10.0).abs() < 0.01 && (mbps[2] - 10.0).abs() < 0.01, "{mbps:?}");
    assert!((mbps[3] - 14.0).abs() < 0.01 && mbps[0] < 0.01, "{mbps:?}");
    // A cell of CBR waits for the one on the line, one of VBR also for one of CBR.
    assert!(most[2] <= 1.0 && most[1] <= 2.0 && most[0] > 20_000.0, "{most:?}");
}

#[test]
fn each_loop_takes_its_own_time_and_no_cell_is_lost_between_them() {
    let mut world = over_satellite(Some(vsvd::Config::default()));
    let mut acr = |ms| {
        world.run_ms(ms);
        ["vc/0/box/on", "vc/0/access"].map(|part| world.value(part, "acr") / 1e6)
    };
    // VBR comes to the switch 250 ms after it began, and leaves a quarter of 55.52 or of 155.52 Mbit/s. The virtual source is told at once,
    // the source behind the satellite 250 ms later, and what its cells do to the box is seen another 250 ms later.
    let (during, after) = (acr(4280), acr(4780));
    assert!(
        (during[0] / 13.88 - 1.0).abs() < 0.15 && (after[0] / 38.88 - 1.0).abs() < 0.15,
        "{during:?} {after:?}"
    );
    assert!(during[1] > 15.0 && after[1] < 10.0, "{during:?} {after:?}");
    for n in 0..4 {
        let mut get = |half: &str, name| world.value(&format!("vc/{n}/box/{half}"), name);
        let rm = ["rm-forward-sent", "rm-backward-sent", "rm-out-of-rate-sent"];
        let forward_came = get("back", "rm-backward-sent") + get("back", "rm-overwritten");
        let came = get("back", "cells-received") - get("back", "rm-backward-received") - forward_came;
        let gone = get("on", "cells-sent") - rm.iter().map(|name| get("on", name)).sum::<f64>();
        // A forward RM cell may wait to be turned round.
        let missing = came - gone - get("on", "queue");
        assert!(missing == 0.0 || missing == 1.0, "{n}: {missing} of {came}");
        assert!(gone > 50_000.0 && get("on", "lost") == 0.0);
    }
}

#[test]
fn no_cell_is_lost_or_made() {
    let mut path = Path { load: seed_tcp(100_000), ..Path::wan(3) };
    path.background =
        Some(|| vec![Box::new(std::iter::repeat_n((Span::from_millis(9), Rate::from_bps(60_000_000)), 50))]);
    let mut world = path.build();
    for step in 1..=10 {
        world.run_ms(70 * step);
        let values = world.values();
        let sum =
            |name: &str| -> f64 { values.iter().filter(|((_, n), _)| *n == name).map(|(_, v)| v).sum() };
        let waiting: f64 = values
            .iter()
            .filter(|((p, n), _)| p.starts_with("link/") && n.ends_with("-queue"))
            .map(|(_, v)| v)
            .sum();
        // Every cell sent is received, on a line, or in a queue; the lines are known only to hold so many.
        let (sent, received) = (sum("cells-sent"), sum("cells-received"));
        let on_lines = 3.0 * 5e-3 * 155.52e6 / 424.0 * 8.0;
        let under_way = sent - received - waiting;
        assert!((0.0..on_lines).contains(&under_way), "{sent} {received} {waiting}");
    }
    // Once the sources fall silent all of it arrives: 12 cells a segment, RM cells one in 32.
    assert_eq!(world.value("link/trunk/forward", "dropped-abr"), 0.0);
    let vc = world.values();
    let get = |part: &str, name| vc[&(part.to_owned(), name)];
    for n in 0..3 {
        let (cells, pdus) =
            (get(&format!("vc/{n}/access"), "cells-sent"), get(&format!("vc/{n}/access"), "pdus-sent"));
        let rm = get(&format!("vc/{n}/access"), "rm-forward-sent")
            + get(&format!("vc/{n}/access"), "rm-backward-sent");
        // The first packets are SYN and ACK, of two cells; one may be under way.
        let data = cells - rm;
        assert!((data - 12.0 * pdus).abs() <= 40.0, "{n}: {cells} {pdus} {rm}");
    }
}

/// UBR from three greedy sources into a queue of 2000 cells: PDUs that arrive whole a second, and the use of the trunk.
fn ubr(epd: Option<u32>, ppd: bool) -> (f64, f64) {
    let limit = switch::Limits { ubr: Some(2000), ..Default::default() };
    let (epd, ppd) = (epd.map(Discard::Data), Some(Discard::Data(ppd)));
    let switch = switch::Config { limit, epd, ppd, ..Default::default() };
    let service = |_| Service::Ubr { pcr: None };
    let mut world = Path { switch, service, ..Path::wan(3) }.build();
    let (_, used) = shares(&mut world, 300, 1300);
    let whole =
        |world: &mut World| (0..3).map(|n| world.value(&format!("receiver/{n}"), "packets")).sum::<f64>();
    (whole(&mut world) / 1.3, used)
}

#[test]
fn discarding_whole_pdus_saves_the_others() {
    let (plain, used) = ubr(None, false);
    let (partial, _) = ubr(None, true);
    let (early, used_early) = ubr(Some(1500), true);
    // Full, the line carries 366,792/12 PDUs a second.
    assert!(used > 0.99 && used_early > 0.99, "{used} {used_early}");
    assert!(plain < 0.7 * early && partial < early, "{plain} {partial} {early}");
    assert!(early > 0.98 * 366_792.0 / 12.0 * (1.3 - 0.015) / 1.3, "{early}");
}

/// Sources at the line's rate without feedback, into a queue of 2000 cells.
///
/// Returns PDUs that arrive whole, and cells that EPD, PPD and the full queue drop.
fn without_feedback(class: Class, epd: Option<Discard<u32>>, ppd: Option<Discard<bool>>) -> [f64; 4] {
    let most = Some(2000);
    let limit = switch::Limits { cbr: most, vbr: most, abr: most, ubr: most };
    let switch = switch::Config { limit, epd, ppd, ..Default::default() };
    let service = match class {
        Class::Cbr => |_| Service::Cbr { pcr: None },
        Class::Vbr => |_| Service::Vbr { pcr: None },
        Class::Ubr => |_| Service::Ubr { pcr: None },
        Class::Abr => |_| Service::Abr(abr::Config { tbe: 16_777_215, cdf: 0.0, ..abr::Config::default() }),
    };
    let mut world = Path { switch, service, ..Path::wan(3) }.build();
    world.run_ms(300);
    let whole = (0..3).map(|n| world.value(&format!("receiver/{n}"), "packets")).sum::<f64>();
    let full = match class {
        Class::Cbr => "dropped-cbr",
        Class::Vbr => "dropped-vbr",
        Class::Abr => "dropped-abr",
        Class::Ubr => "dropped-ubr",
    };
    let [early, partial, full] =
        ["dropped-epd", "dropped-ppd", full].map(|name| world.value("link/trunk/forward", name));
    [whole, early, partial, full]
}

#[test]
fn each_category_discards_whole_pdus_as_configured() {
    for class in Class::ALL {
        let each = |value: u32| {
            let [cbr, vbr, abr, ubr] = Class::ALL.map(|other| (other == class).then_some(value));
            Some(Discard::Each(ByCategory { cbr, vbr, abr, ubr }))
        };
        let all = Some(true);
        let ppd = Some(Discard::Each(ByCategory { cbr: all, vbr: all, abr: all, ubr: all }));
        let plain = without_feedback(class, None, None);
        let partial = without_feedback(class, None, ppd);
        let early = without_feedback(class, each(1500), ppd);
        assert_eq!(plain[1..3], [0.0, 0.0], "{class:?}");
        assert!(partial[1] == 0.0 && partial[2] > 0.0, "{class:?}: {partial:?}");
        // Below the threshold by more than a PDU of each source: nothing is dropped but whole PDUs, and RM cells.
        assert!(early[1] > 0.0 && early[0] > 1.2 * plain[0], "{class:?}: {plain:?} {early:?}");
        assert!(early[3] < 0.01 * plain[3], "{class:?}: {plain:?} {early:?}");
    }
    // A number alone holds for ABR and UBR, and for no other.
    for (class, drops) in [(Class::Abr, true), (Class::Ubr, true), (Class::Vbr, false), (Class::Cbr, false)] {
        let found = without_feedback(class, Some(Discard::Data(1500)), None);
        assert_eq!(found[1] > 0.0, drops, "{class:?}: {found:?}");
    }
}

/// Rates in Mbit/s, use of the trunk, and ABR queues after one second and two.
fn with_minima(fairness: Fairness, minima: &'static [u64]) -> (Vec<f64>, f64, [f64; 2]) {
    let abr = Algorithm::EricaPlus { queue: Default::default(), fairness, measure: Default::default() };
    let switch = switch::Config { abr, ..Default::default() };
    let start: fn(usize) -> Service = |n| match seed_abr(n) {
        Service::Abr(config) => {
            // The third weighs two.
            Service::Abr(abr::Config { weight: if n == 2 { 2.0 } else { 1.0 }, ..config })
        }
        other => other,
    };
    let mut path = Path { switch, service: start, ..Path::wan(minima.len()) };
    path.minima = minima;
    let mut world = path.build();
    world.run_ms(1000);
    let early = world.value("link/trunk/forward", "abr-queue");
    let (rates, used) = shares(&mut world, 1001, 2000);
    let late = world.value("link/trunk/forward", "abr-queue");
    (rates.iter().map(|rate| rate * 424.0 / 1e6).collect(), used, [early, late])
}

#[test]
fn minimum_rates_have_their_share_and_the_queue_ends() {
    const MINIMA: &[u64] = &[116_000_000, 4_000_000, 0, 0];
    let line = 155.52;
    let above = (line - 120.0) / 4.0;
    let expected = [
        (Fairness::McrPlusEqualShare, [116.0 + above, 4.0 + above, above, above]),
        (
            Fairness::MaxOfMcrAndShare,
            [116.0, (line - 116.0) / 3.0, (line - 116.0) / 3.0, (line - 116.0) / 3.0],
        ),
        (Fairness::McrProportional, [line * 116.0 / 120.0, line * 4.0 / 120.0, 0.0, 0.0]),
        (Fairness::McrPlusWeightedShare, [116.0 + above * 0.8, 4.0 + above * 0.8, above * 1.6, above * 0.8]),
    ];
    for (fairness, expected) in expected {
        let (rates, used, [early, late]) = with_minima(fairness, MINIMA);
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate - expected).abs() < 0.5 + 0.03 * expected, "{fairness:?}: {rates:?} {expected:?}");
        }
        assert!(used > 0.95, "{fairness:?}: {used}");
        assert!(late < early + 200.0 && late < 2000.0, "{fairness:?}: {early} {late}");
    }
}

/// Source of a packet of 48 bytes at each interval.
struct Periodic(Span, Time);

impl Element for Periodic {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.1
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if cx.now() >= self.1 {
            cx.emit(Port(0), Packet::from_bytes(&[0; 48]));
            self.1 = cx.now() + self.0;
        }
        self.1
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A channel over two lines, with plain lines in front of it and behind it.
///
/// Clusters of up to eight elements are executed ahead, unless something listens.
fn between_plain_lines([before, behind]: [usize; 2], in_turns: bool) -> Network {
    let line = |rate: u64, ms| line::Config { rate: Rate::from_bps(rate), delay: Span::from_millis(ms) };
    let (wide, narrow) = (line(2_048_000, 5), line(1_024_000, 1));
    let mut switch = Switch::new(&switch::Config::default());
    let near_port = switch.add_port("p/return", &wide).unwrap();
    let far_port = switch.add_port("q/forward", &narrow).unwrap();
    switch.connect((near_port, Vc::FIRST), (far_port, Vc::FIRST), Class::Ubr);
    let mut builder = Builder::new(1);
    let plain = |builder: &mut Builder, from, name: &str, count: usize| {
        (0..count).fold(from, |from, n| {
            let rate = Some(Rate::from_bps(50_000_000));
            let config = link::Config { rate, delay: Span::from_millis(2), ..link::Config::default() };
            let line = builder.add(format!("{name}/{n}"), Link::new(&config).unwrap());
            builder.connect(from, (line, Port(0)));
            (line, Port(0))
        })
    };
    let source = builder.add("source", Periodic(Span::from_nanos(743_337), Time::ZERO));
    let last = plain(&mut builder, (source, Port(0)), "before", before);
    let switch = builder.add("switch", switch);
    let mut ends = Vec::new();
    for (name, line, port) in [("near", &wide, near_port), ("far", &narrow, far_port)] {
        let mut end = Interface::new(name, line).unwrap();
        let (service, content) = (Service::Ubr { pcr: None }, Content::Packets(Default::default()));
        let path = format!("vc/{name}");
        end.add(Channel { path, vc: Vc::FIRST, service, content, limit: None, receive: None }).unwrap();
        let end = builder.add(name, end);
        builder.connect((end, LINE), (switch, port));
        builder.connect((switch, port), (end, LINE));
        ends.push(end);
    }
    builder.connect(last, (ends[0], Port(1)));
    plain(&mut builder, (ends[1], Port(1)), "behind", behind);
    let mut network = builder.build().unwrap();
    if in_turns {
        network.tap(source, Port(0), |_, _| {});
    }
    network
}

/// A switch whose output is busy reacts to no arrival sooner than its shortest line allows: what stands behind it is not passed over.
#[test]
fn hosts_executed_ahead_overtake_nothing_behind_a_busy_output() {
    let run = |lines, in_turns| {
        let mut network = between_plain_lines(lines, in_turns);
        network.run_until(Time::ZERO + Span::from_millis(500));
        (network.fingerprint(), format!("{:?}", network.work()))
    };
    // Up to eight elements are executed ahead: of [0, 8] the near side alone is.
    for lines in [0, 3, 8].into_iter().flat_map(|before| [0, 3, 8].map(|behind| [before, behind])) {
        assert_eq!(run(lines, false), run(lines, true), "{lines:?}");
    }
}
