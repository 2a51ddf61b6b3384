//! Conferences over a satellite: delays, ratings, and what crosses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_sim::ElementId;

use super::*;

/// Three members at one site, two at the other, G.711 without pauses: 50 packets per second each.
const ROOM: &str = r#"
title = "conference"
duration = "60 s"
node.pisa-phones = {}
node.pisa = { kind = "router", role = "conference" }
node.genoa = { kind = "router", role = "conference" }
node.genoa-phones = {}
link.pisa-lan = { between = ["pisa", "pisa-phones"], rate = "1 Gbit/s", delay = "1 ms" }
link.satellite = { between = ["pisa", "genoa"], rate = "1 Gbit/s", delay = "250 ms" }
link.genoa-lan = { between = ["genoa", "genoa-phones"], rate = "1 Gbit/s", delay = "1 ms" }
flow.pisa = { from = "BRIDGE", to = "pisa-phones", count = 3, traffic = { kind = "conference", KEYS } }
flow.genoa = { from = "BRIDGE", to = "genoa-phones", count = 2, traffic = { kind = "conference", KEYS } }
"#;
const PLAIN: &str = r#"codec = "g711u", silence_suppression = false, rtcp = "none""#;

#[derive(Default)]
struct Figures(BTreeMap<&'static str, f64>);

impl Observer for Figures {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(metric.name, total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(metric.name, value);
    }
}

fn room(bridge: &str, keys: &str) -> String {
    ROOM.replace("BRIDGE", bridge).replace("KEYS", keys)
}

/// Returns the counters and gauges of an element.
pub(super) fn figures(built: &mut Built, element: ElementId) -> BTreeMap<&'static str, f64> {
    let mut figures = Figures::default();
    built.network.observe(element, &mut figures);
    figures.0
}

/// Runs for a minute and returns the figures of what both sites' members receive, and packets into the satellite, there and back.
fn run(text: &str) -> ([BTreeMap<&'static str, f64>; 2], [u64; 2], Built) {
    let mut built = built(text);
    let sides: Vec<_> = built.sides.iter().filter(|side| side.name == "satellite").cloned().collect();
    let counts = [0, 1].map(|side| {
        let (count, (element, port)) = (Arc::new(AtomicU64::new(0)), sides[side].input);
        let seen = Arc::clone(&count);
        built.network.tap(element, port, move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        count
    });
    built.network.run_until(at(60));
    let found = [0, 1].map(|flow| {
        let element = built.flows[flow].receivers[0];
        figures(&mut built, element)
    });
    (found, counts.map(|count| count.load(Ordering::Relaxed)), built)
}

#[test]
fn streams_of_the_members_at_the_other_site_cross_the_satellite() {
    for (bridge, members) in [("pisa", 2), ("genoa", 3)] {
        let ([pisa, genoa], crossed, _) = run(&room(bridge, PLAIN));
        // A mix each 20 ms from 0 on; voice starts within 20 ms and takes 20 ms to be packed.
        assert!(
            crossed.iter().all(|packets| (members * 2998..=members * 3001).contains(packets)),
            "{bridge}: {crossed:?}"
        );
        // All are heard: rooms of all others, or three.
        assert!((pisa["rooms"] - 3.0).abs() < 0.05 && (genoa["rooms"] - 3.0).abs() < 0.05);
    }
}

#[test]
fn delay_and_rating_are_the_sums_of_their_parts() {
    let speech =
        r#"codec = "g711u", speech = { kind = "continuous" }, silence_suppression = false, rtcp = "none""#;
    let ([pisa, genoa], _, mut built) = run(&room("pisa", speech));
    let pisa_bridge = built.roles.iter().find(|role| role.node == "pisa").expect("a bridge").element;
    let bridge = figures(&mut built, pisa_bridge);
    assert_eq!((bridge["members"], bridge["concealed"]), (5.0, 0.0));
    assert_eq!(bridge["mixes"], 5.0 * 3000.0 + 5.0);
    // Continuous talk of the loudest: two buffers of 60 ms, 20 ms of packing, up to 20 ms until the mix.
    let (pisa_ear, genoa_ear) = (pisa["mouth-to-ear"], genoa["mouth-to-ear"]);
    assert!((0.142..0.142 + 0.25 + 0.0201).contains(&pisa_ear), "{pisa_ear}");
    // Nothing reaches Genoa without a satellite hop.
    assert!((0.392..0.392 + 0.25 + 0.0201).contains(&genoa_ear), "{genoa_ear}");
    for found in [&pisa, &genoa] {
        assert_eq!((found["talker-loss"], found["voice-loss"]), (0.0, 0.0));
    }
    let members = built.flows[0].receivers[0];
    assert!(built.network.element::<bentpipe_voice::call::Agent>(members).is_some());
}

/// Two members at one site, both without pauses and with one codec: each hears the other alone.
#[test]
fn two_members_have_the_rating_of_a_tandem() {
    let text = |loss: &str| {
        let two = r#"codec = "g729", speech = { kind = "continuous" }, rtcp = "none""#;
        let text = room("pisa", two).replace("count = 3", "count = 1").replace("count = 2", "count = 1");
        text.replace(
            r#"delay = "250 ms""#,
            &format!(r#"delay = "250 ms", reverse.channel = {{ kind = "packet-errors", loss = {loss} }}"#),
        )
    };
    let text = |loss: &str| text(loss).replace("reverse.channel", "return.channel");
    let ([pisa, genoa], ..) = run(&text("0.0"));
    let wait = |ear: f64| ear - 0.001 - 0.251 - 2.0 * 0.06 - 0.025 - 0.005;
    for found in [&pisa, &genoa] {
        let ear = found["mouth-to-ear"];
        assert!((0.0..0.0201).contains(&wait(ear)), "{ear}");
        let delay = bentpipe_voice::emodel::Params { delay: 1e3 * ear, ..Default::default() };
        let expected = delay.r() - 2.0 * 11.0;
        assert!((found["r"] - expected).abs() < 0.05, "{} instead of {expected}", found["r"]);
        assert_eq!(found["rooms"], 1.0);
    }
    // Losses from Genoa impair what Pisa hears by the talkers' legs, and not what Genoa hears.
    let ([pisa, genoa], ..) = run(&text("0.05"));
    assert!((pisa["talker-loss"] - 0.05).abs() < 0.007, "{}", pisa["talker-loss"]);
    assert_eq!((pisa["voice-loss"], genoa["talker-loss"]), (0.0, 0.0));
    let impaired = 11.0 + 84.0 * 5.0 / (5.0 + 19.0);
    let delay = bentpipe_voice::emodel::Params { delay: 1e3 * pisa["mouth-to-ear"], ..Default::default() };
    assert!((pisa["r"] - (delay.r() - 11.0 - impaired)).abs() < 2.5, "{}", pisa["r"]);
}

#[test]
fn pauses_turns_and_faults() {
    let ([pisa, _], crossed, _) = run(&room("pisa", r#"codec = "g711u", rtcp = "none""#));
    // Mixes to Genoa while somebody else speaks, voice from Genoa while one of its two does.
    let occupied = [0.775, 0.17];
    for (packets, share) in crossed.iter().zip(occupied) {
        let expected = 2.0 * 3000.0 * share;
        assert!((*packets as f64 / expected - 1.0).abs() < 0.45, "{packets} instead of {expected}");
    }
    assert!(pisa["r"] > 60.0 && pisa["rooms"] < 1.2, "{pisa:?}");
    let text = room("pisa-phones", PLAIN).replace("to = \"pisa-phones\"", "to = \"pisa\"");
    let refusal = refused(&text);
    assert!(
        refusal.contains("flow.pisa.from") && refusal.contains("has no role \"conference\""),
        "{refusal}"
    );
}
