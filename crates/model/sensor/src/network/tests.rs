use super::*;
use bentpipe_wireless::wpan::{Listen, Mac, Superframe};

use crate::query::Column;
use crate::world::Conditions;

fn field(layout: Layout) -> Field {
    Field {
        layout,
        mac: Default::default(),
        radio: Default::default(),
        world: Conditions::default(),
        samples: None,
        capture: 0,
        sleep: false,
        slot: None,
        beacons: 20,
        battery: 20_000.0,
        table: Default::default(),
    }
}

struct Run {
    motes: Motes,
    stream: RandomStream,
    now: Time,
}

impl Run {
    fn new(field: Field) -> Run {
        let mut stream = RandomStream::new(1, "field");
        Run { motes: Motes::new(field, None, &mut stream), stream, now: Time::ZERO }
    }

    fn start(&mut self, text: &str, ships_everything: bool) -> u8 {
        let query = self.motes.field.parse(text).expect("a query");
        self.motes.start(query, text, ships_everything, self.now).expect("room")
    }

    fn until(&mut self, seconds: u64) -> Vec<Collected> {
        self.now = Time::ZERO + Span::from_secs(seconds);
        self.motes.advance(self.now, &mut self.stream);
        self.motes.take_results()
    }
}

/// Returns messages per epoch with and without aggregation.
fn messages(layout: &Layout) -> [u64; 2] {
    [true, false].map(|ships_everything| {
        let mut run = Run::new(field(layout.clone()));
        run.start("SELECT avg(light), count(*) FROM sensors SAMPLE PERIOD 10 s FOR 100 s", ships_everything);
        let results = run.until(200);
        let motes = layout.motes() as f32;
        assert_eq!(results.len(), 10);
        assert!(results.iter().all(|result| result.row.values[1] == motes), "{results:?}");
        let totals = run.motes.totals();
        assert_eq!((totals.lost, totals.late), (0, 0));
        assert_eq!(totals.messages % 10, 0);
        totals.messages / 10
    })
}

#[test]
fn aggregation_needs_a_message_per_mote_and_raw_collection_one_per_hop() {
    // Six motes at depths 1, 2, 2, 3, 4, 4.
    assert_eq!(messages(&Layout::Tree { parents: vec![0, 1, 1, 2, 4, 4] }), [16, 6]);
    for count in [1, 5, 12_u64] {
        let line = Layout::Tree { parents: (0..count as u16).collect() };
        assert_eq!(messages(&line), [count * (count + 1) / 2, count]);
    }
    for depth in [2, 3, 4_u32] {
        // The children of mote n are 2 n + 1 and 2 n + 2.
        let motes = 2_u64.pow(depth + 1) - 2;
        let parents = (1..=motes as u16).map(|mote| (mote - 1) / 2).collect();
        let raw = (u64::from(depth) - 1) * 2_u64.pow(depth + 1) + 2;
        assert_eq!(messages(&Layout::Tree { parents }), [raw, motes]);
    }
}

#[test]
fn rows_are_those_of_the_motes_that_meet_the_conditions() {
    let text =
        "SELECT node, epoch, light FROM sensors WHERE node > 1 AND sound > 0 SAMPLE PERIOD 100 ms FOR 2 s";
    for ships_everything in [false, true] {
        let mut run = Run::new(field(Layout::Cell { motes: 3 }));
        run.start(text, ships_everything);
        let mut results = run.until(60);
        assert_eq!(results.len(), 40);
        results.sort_by_key(|result| (result.row.epoch, result.row.node));
        for (n, result) in results.iter().enumerate() {
            let (epoch, node) = (n as u32 / 2, n as u16 % 2 + 2);
            assert_eq!((result.row.epoch, result.row.node), (epoch, node));
            let at = result.start + Span::from_millis(100) * u64::from(epoch);
            let place = run.motes.places[usize::from(node)];
            let light = run.motes.world.value(Sensor::Light, place, at);
            assert_eq!(result.row.values, [f32::from(node), epoch as f32, light]);
        }
        // Silent motes send nothing, unless everything is shipped.
        assert_eq!(run.motes.totals().messages, if ships_everything { 60 } else { 40 });
    }
}

#[test]
fn samples_are_taken_for_conditions_that_matter() {
    let run = |text: &str| {
        let mut run = Run::new(field(Layout::Cell { motes: 1 }));
        run.start(text, false);
        run.until(60);
        run.motes.totals()
    };
    // It is dark at sunrise, so that the magnetometer is never needed.
    let dark = run("SELECT node FROM sensors WHERE magnetism > 0 AND light > 900 SAMPLE PERIOD 1 s FOR 10 s");
    assert_eq!((dark.samples, dark.messages), (10, 0));
    let all = run("SELECT magnetism FROM sensors WHERE light < 900 SAMPLE PERIOD 1 s FOR 10 s");
    assert_eq!((all.samples, all.messages), (20, 10));
    assert!((all.sampling - 10.0 * 270.5e-6).abs() < 1e-9);
}

#[test]
fn groups_and_joins_with_a_stored_table() {
    let mut field = field(Layout::Cell { motes: 4 });
    let rows = vec![vec![1.0, 7.0], vec![2.0, 8.0], vec![3.0, 8.0]];
    field.table.insert("rooms".to_owned(), crate::field::Table { columns: vec!["room".to_owned()], rows });
    let text = "SELECT room, count(*), max(node) FROM sensors JOIN rooms ON node GROUP BY room SAMPLE PERIOD 1 s FOR 3 s";
    for ships_everything in [false, true] {
        let mut run = Run::new(field.clone());
        run.start(text, ships_everything);
        let results = run.until(60);
        let values: Vec<&[f32]> = results.iter().map(|result| &result.row.values[..]).collect();
        let epoch: [&[f32]; 2] = [&[7.0, 1.0, 1.0], &[8.0, 2.0, 3.0]];
        assert_eq!(values, [epoch, epoch, epoch].concat());
    }
}

#[test]
fn motes_are_joined_by_epoch() {
    let text = "SELECT a.epoch, a.node, b.node, a.sound, b.sound FROM sensors a JOIN sensors b ON epoch WHERE a.node = 1 AND b.node > 2 AND a.sound > b.sound SAMPLE PERIOD 100 s FOR 10000 s";
    for ships_everything in [false, true] {
        let mut run = Run::new(field(Layout::Cell { motes: 4 }));
        run.start(text, ships_everything);
        let mut found: Vec<Vec<f32>> =
            run.until(10_200).into_iter().map(|result| result.row.values).collect();
        let world = &run.motes.world;
        let start = run.motes.queries[0].epoch(0);
        let sound = |mote: u16, epoch: u32| {
            let at = start + Span::from_secs(100) * u64::from(epoch);
            world.value(Sensor::Sound, run.motes.places[usize::from(mote)], at)
        };
        let mut expected = Vec::new();
        for (epoch, other) in (0..100).flat_map(|epoch| [3, 4].map(|other| (epoch, other))) {
            let (own, others) = (sound(1, epoch), sound(other, epoch));
            if own > others {
                expected.push(vec![epoch as f32, 1.0, f32::from(other), own, others]);
            }
        }
        found.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
        assert_eq!(found, expected);
        assert!(!expected.is_empty() && expected.len() < 200);
        // Mote 2 is on neither side.
        assert_eq!(run.motes.totals().messages, if ships_everything { 400 } else { 300 });
    }
}

#[test]
fn motes_are_joined_within_a_time() {
    // Pairs of any two samples of motes 1 and 2, and of mote 1 with its own past.
    for (text, others) in [
        (
            "SELECT a.epoch, b.epoch, a.sound, b.sound FROM sensors a JOIN sensors b WITHIN 250 s WHERE a.node = 1 AND b.node = 2 SAMPLE PERIOD 100 s FOR 1000 s",
            2,
        ),
        (
            "SELECT a.epoch, b.epoch, a.sound, b.sound FROM sensors a JOIN sensors b WITHIN 250 s WHERE a.node = 1 AND b.node = 1 SAMPLE PERIOD 100 s FOR 1000 s",
            1_u16,
        ),
    ] {
        for ships_everything in [false, true] {
            let mut run = Run::new(field(Layout::Cell { motes: 3 }));
            run.start(text, ships_everything);
            let mut found: Vec<Vec<f32>> =
                run.until(1_200).into_iter().map(|result| result.row.values).collect();
            let (world, start) = (&run.motes.world, run.motes.queries[0].epoch(0));
            let sound = |mote: u16, epoch: u32| {
                let at = start + Span::from_secs(100) * u64::from(epoch);
                world.value(Sensor::Sound, run.motes.places[usize::from(mote)], at)
            };
            let epochs = (0..10_u32).flat_map(|a| (0..10_u32).map(move |b| (a, b)));
            // The window of 250 s has two whole periods.
            let near = epochs.filter(|(a, b)| a.abs_diff(*b) <= 2 && (others != 1 || a != b));
            let expected: Vec<Vec<f32>> =
                near.map(|(a, b)| vec![a as f32, b as f32, sound(1, a), sound(others, b)]).collect();
            found.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
            assert_eq!(found, expected);
            assert_eq!(expected.len(), if others == 1 { 34 } else { 44 });
        }
    }
}

#[test]
fn a_grid_makes_a_tree_over_good_links_that_reaches_all() {
    let mut run = Run::new(field(Layout::Grid { columns: 7, rows: 7, spacing: 30.0 }));
    run.start("SELECT count(*) FROM sensors SAMPLE PERIOD 10 s FOR 200 s", false);
    let results = run.until(300);
    let (reached, depth) = run.motes.tree();
    assert_eq!(reached, 49);
    // 210 m at hops of at most 68 m.
    assert!((4..=8).contains(&depth), "{depth} levels");
    let counts: Vec<f32> = results.iter().map(|result| result.row.values[0]).collect();
    let mean = counts.iter().sum::<f32>() / 20.0;
    assert!(counts.len() == 20 && mean > 48.5, "{counts:?}");
    let links = run.motes.cell.links();
    let mean = (1..50_usize)
        .map(|mote| links.success(mote, usize::from(run.motes.motes[mote].parent.expect("a parent")), 40))
        .sum::<f64>()
        / 49.0;
    assert!(mean > 0.97, "{mean} of frames arrive on links of the tree");
}

#[test]
fn sleep_saves_energy_and_keeps_the_results() {
    let run = |sleep: bool| {
        let layout = Layout::Tree { parents: vec![0, 1, 2, 2] };
        let slot = Some(Span::from_millis(100));
        let mut run = Run::new(Field { sleep, slot, ..field(layout) });
        run.start("SELECT avg(light), count(*) FROM sensors SAMPLE PERIOD 10 s FOR 1000 s", false);
        let results = run.until(1000);
        assert!(results.iter().all(|result| result.row.values[1] == 4.0));
        assert!(results.len() >= 98, "{}", results.len());
        (run.motes.energy(run.now), run.motes.lifetime(run.now))
    };
    let ((awake, short), (asleep, long)) = (run(false), run(true));
    // Radios that are always on listen: 4 motes, 1000 s, 18.8 mA at 3 V.
    assert!((awake.total / (4.0 * 56.4) - 1.0).abs() < 0.01, "{awake:?}");
    // A parent listens in one slot of 105 ms per 10 s; all listened for some 6 s to the query.
    assert!(asleep.total < awake.total / 30.0, "{asleep:?}");
    assert!(long > 20.0 * short);
}

#[test]
fn a_sleeping_field_runs_one_query_after_the_other() {
    let mut run = Run::new(Field { sleep: true, ..field(Layout::Cell { motes: 2 }) });
    let text = "SELECT light FROM sensors SAMPLE PERIOD 1 s FOR 10 s";
    let query = run.motes.field.parse(text).expect("a query");
    run.start(text, false);
    run.until(25);
    run.start(text, false);
    let second = run.until(100);
    assert_eq!(run.motes.totals().rows, 40);
    assert!(second.iter().any(|result| result.query == 1));
    run.start("SELECT light FROM sensors SAMPLE PERIOD 1 s", false);
    let refused = run.motes.start(query, text, false, run.now).expect_err("no end");
    assert!(refused.contains("one query at a time"), "{refused}");
}

#[test]
fn columns_without_a_sensor_need_no_sample() {
    let mut run = Run::new(field(Layout::Cell { motes: 2 }));
    run.start("SELECT node FROM sensors SAMPLE PERIOD 1 s FOR 2 s", false);
    assert_eq!(run.until(30).len(), 4);
    assert_eq!(run.motes.totals().samples, 0);
    assert_eq!(run.motes.queries.len(), 1);
    let _ = Column::Node;
}

/// Returns the mean count per epoch and the levels of 1000 motes at 30 m.
fn thousand(hours: u64) -> (f32, u8) {
    let layout = Layout::Grid { columns: 40, rows: 25, spacing: 30.0 };
    let mut run = Run::new(Field { sleep: true, ..field(layout) });
    run.start("SELECT avg(light), count(*) FROM sensors SAMPLE PERIOD 30 s", false);
    let results = run.until(hours * 3600);
    let counts: Vec<f32> = results.iter().map(|result| result.row.values[1]).collect();
    assert!(counts.len() as u64 >= hours * 120 - 4, "{} epochs", counts.len());
    let (reached, depth) = run.motes.tree();
    assert_eq!(reached, 1000);

    (counts.iter().sum::<f32>() / counts.len() as f32, depth)
}

#[test]
fn a_thousand_motes_answer_almost_all() {
    let (mean, depth) = thousand(1);
    assert!(mean > 950.0, "{mean} motes per epoch");
    assert!((10..30).contains(&depth), "{depth} levels");
}

#[test]
#[ignore = "a day, which is for optimised builds"]
fn a_thousand_motes_answer_for_a_day() {
    let (mean, _) = thousand(24);
    assert!(mean > 950.0, "{mean} motes per epoch");
}

#[test]
fn low_power_listening_keeps_the_results_and_saves_energy() {
    let run = |listen: Option<Listen>| {
        let layout = Layout::Grid { columns: 4, rows: 4, spacing: 25.0 };
        let mac = Mac { listen, ..Mac::default() };
        let mut run = Run::new(Field { mac, ..field(layout) });
        run.start("SELECT avg(light), count(*) FROM sensors SAMPLE PERIOD 30 s FOR 1800 s", false);
        let before = run.until(60).len();
        let start = run.motes.energy(run.now).total;
        let rows = run.until(1800);
        let energy = run.motes.energy(run.now).total - start;
        let counted: f32 = rows.iter().map(|result| result.row.values[1]).sum();
        (before + rows.len(), counted / rows.len() as f32, energy, run.motes.counts().frames)
    };
    let awake = run(None);
    let listen = Listen { interval: Span::from_millis(100), check: Span::from_micros(2500) };
    let asleep = run(Some(listen));
    assert_eq!((awake.0, asleep.0), (59, 59));
    // A message whose acknowledgements were lost may count twice.
    assert!((awake.1 - 16.0).abs() < 0.2 && (asleep.1 - 16.0).abs() < 0.5, "{awake:?} {asleep:?}");
    // Looks are 2.5 % of the time; trains come on top.
    assert!(asleep.2 > 0.025 * awake.2 && asleep.2 < 0.06 * awake.2, "{asleep:?} of {awake:?}");
    assert!(asleep.3 > 5 * awake.3, "copies until the parent wakes");
}

#[test]
fn a_beacon_enabled_field_has_the_same_rows() {
    let layout = Layout::Grid { columns: 3, rows: 3, spacing: 25.0 };
    let superframe = Some(Superframe { beacon_order: 4, superframe_order: 2 });
    let mac = Mac { superframe, ..Mac::default() };
    let mut run = Run::new(Field { mac, ..field(layout) });
    run.start("SELECT count(*) FROM sensors SAMPLE PERIOD 10 s FOR 200 s", false);
    let rows = run.until(400);
    assert!(rows.len() == 20 && rows.iter().all(|result| result.row.values == [9.0]), "{rows:?}");
    // A quarter of the time radios are on.
    let energy = run.motes.energy(run.now).total;
    let on = 9.0 * 400.0 * 3.0 * (0.25 * 18.8e-3 + 0.75 * 20e-6);
    assert!((energy / on - 1.0).abs() < 0.01, "{energy} of {on} J");
}

#[test]
fn samples_of_a_file_stand_in_for_phenomena() {
    let text = "time,node,light\n0,1,100\n30,1,300\n0,2,7\n";
    let samples = Samples::read(text.as_bytes(), "motes.csv", 3).expect("samples");
    let mut stream = RandomStream::new(1, "field");
    let motes = Motes::new(field(Layout::Cell { motes: 3 }), Some(samples), &mut stream);
    let mut run = Run { motes, stream, now: Time::ZERO };
    run.start("SELECT node, light FROM sensors WHERE node < 3 SAMPLE PERIOD 10 s FOR 40 s", false);
    let rows = run.until(100);
    let of = |mote: f32| -> Vec<f32> {
        let mut own: Vec<_> = rows.iter().filter(|result| result.row.values[0] == mote).collect();
        own.sort_by_key(|result| result.row.epoch);
        own.iter().map(|result| result.row.values[1]).collect()
    };
    // The tree is fixed at 20 s, and the first epoch is two seconds later.
    assert_eq!((of(1.0), of(2.0)), (vec![100.0, 300.0, 300.0, 300.0], vec![7.0; 4]));
}
