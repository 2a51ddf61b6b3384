//! Figures that users read: within what the network can carry, of one interval a row, and within their scales.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::budget::Budget;
use bentpipe_lab::measure;
use bentpipe_record::LedgerRow;
use bentpipe_scenario::Scenario;
use bentpipe_units::{RandomStream, Span};

use super::common;

/// Measures of a run, by name.
type Measures = BTreeMap<String, f64>;

fn measures(text: &str) -> Measures {
    let scenario = common::scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    all(&scenario, common::built(&scenario))
}

/// Returns the measures of a run.
fn all(scenario: &Scenario, mut built: Built) -> Measures {
    let recording = common::recorded(scenario, &mut built, Span::from_millis(100));
    let ledger = LedgerRow::of(&built.network.close());
    common::by_name(measure::measures(scenario, 1, &recording, &ledger))
}

/// A link between two hosts with flows from one to the other.
fn link(duration_s: u32, link: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration_s} s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.l]\nbetween = [\"a\", \"b\"]\n{link}\n{flows}"
    )
}

#[test]
fn bytes_behind_a_hole_count_when_they_arrive() {
    let queue =
        "rate = \"20 Mbit/s\"\ndelay = \"280 ms\"\nqueue = { kind = \"drop-tail\", bytes = \"1400 kB\" }";
    let flow = "[flow.dl]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"tcp\", controller = \"hybla\" }\n";
    let whole = measures(&link(17, queue, flow));
    let cut = measures(&link(17, queue, &format!("{flow}[probe]\nwarm_up = \"12 s\"\n")));
    for measures in [whole, cut] {
        let [goodput, median] = ["goodput", "goodput-p50"].map(|name| measures[&format!("flow.dl.{name}")]);
        assert!(goodput <= 20e6 && median <= 20e6, "{goodput} {median}");
        assert!(goodput > 5e6, "{goodput}");
    }
}

#[test]
fn rates_of_different_times_are_not_added() {
    let line = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"drop-tail\", bytes = \"50 kB\" }";
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ncount = 4\nstagger = \"20 s\"\ntraffic = \"tcp\"\n";
    let measures = measures(&link(60, line, flow));
    let sum = measures["group.f.goodput.sum"];
    assert!(sum <= 10e6 && (sum - measures["flows.goodput"]).abs() < 1.0, "{sum}");
    assert_eq!((measures["group.f.n"], measures["group.f.of"]), (3.0, 4.0), "one would start at the end");
    assert_eq!(measures["group.f.goodput.n"], 3.0);
    assert!(!measures.keys().any(|name| name.starts_with("flow.f.4.")), "{measures:?}");
}

#[test]
fn what_arrives_after_a_stop_counts_with_its_time() {
    let line =
        "rate = \"2 Mbit/s\"\ndelay = \"270 ms\"\nqueue = { kind = \"drop-tail\", bytes = \"140 kB\" }\n";
    let udp = "{ kind = \"udp\", pattern = { kind = \"constant-rate\", rate = \"1 Mbit/s\" }, payload = \"1000 B\" }";
    let flow = |name: &str, stop: &str, traffic: &str| {
        format!("[flow.{name}]\nfrom = \"a\"\nto = \"b\"\nstop = \"{stop}\"\ntraffic = {traffic}\n")
    };
    let goodput = |name: &str, stop: &str, traffic: &str| {
        let text = format!("{}[probe]\nwarm_up = \"10 s\"\n", flow(name, stop, traffic));
        measures(&link(30, line, &text)).get(&format!("flow.{name}.goodput")).copied()
    };
    // A sender of TCP goes on with its buffer.
    for stop in ["9 s", "10100 ms", "20 s"] {
        let tcp = goodput("bulk", stop, "\"tcp\"").expect("arrivals");
        assert!((1.8e6..2e6).contains(&tcp), "{tcp} with {stop}");
    }
    let at_stop = goodput("steady", "20 s", udp).expect("arrivals");
    // The rate is that of IP packets.
    assert!((at_stop / (1e6 * 1000.0 / 1028.0) - 1.0).abs() < 0.01, "{at_stop}");
    assert_eq!(goodput("steady", "5 s", udp), None, "all arrived in the warm-up");
}

/// Packets count whole when they arrive, and take longer than the time between samples.
#[test]
fn rates_of_slow_lines_are_within_them() {
    let line = "rate = \"100 kbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"drop-tail\", packets = 10 }\n";
    for stop in ["", "stop = \"6 s\"\n", "stop = \"20 s\"\n"] {
        for warm_up in ["0 s", "5 s", "5050 ms", "5900 ms"] {
            let flow = format!(
                "[flow.f]\nfrom = \"a\"\nto = \"b\"\n{stop}traffic = \"tcp\"\n[probe]\nwarm_up = \"{warm_up}\"\n"
            );
            let of = measures(&link(40, line, &flow));
            for measure in ["goodput", "goodput-p50"] {
                let value = of[&format!("flow.f.{measure}")];
                assert!((80e3..100e3).contains(&value), "{measure} {value} with {stop}{warm_up}");
            }
        }
    }
    // 20 datagrams of a second each, of which 16 arrive in the window, and the last of them at 20 s.
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, \
        payload = \"1000 B\", packets = 20 }\n";
    for warm_up in ["4990 ms", "5 s", "5500 ms", "18900 ms", "19500 ms"] {
        let text = format!("{flow}[probe]\nwarm_up = \"{warm_up}\"\n");
        let of = measures(&link(30, "rate = \"8224 bit/s\"\ndelay = \"5 ms\"\n", &text));
        let value = of["flow.f.goodput"];
        assert!((value / 8000.0 - 1.0).abs() < 1e-3, "{value} behind {warm_up}");
    }
}

/// A flow that was held up in the warm-up has the window for its time, but for a packet.
#[test]
fn a_flow_that_was_held_up_has_the_time_of_the_window() {
    let outage = "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"\nchannel = { kind = \"outages\", outages = [{ at = \"3 s\", lasts = \"17 s\" }] }\n";
    let flow = "[flow.u]\nfrom = \"a\"\nto = \"b\"\nstop = \"30 s\"\n\
        traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"1000 B\" }\n\
        [probe]\nwarm_up = \"10 s\"\n";
    let value = measures(&link(40, outage, flow))["flow.u.goodput"];
    assert!((value / 400e3 - 1.0).abs() < 3e-3, "{value}: half of the window");
}

/// What an outage takes of a source's end counts in its time, as what others lose does.
#[test]
fn a_source_whose_end_is_lost_has_its_whole_time() {
    let dies = "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\nchannel = { kind = \"outages\", outages = [{ at = \"1 s\", lasts = \"99 s\" }] }\n";
    for (until, packets) in [("stop = \"8 s\"\n", ""), ("", ", packets = 8000")] {
        let flow = format!(
            "[flow.u]\nfrom = \"a\"\nto = \"b\"\n{until}\
             traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"1 ms\" }}, payload = \"1000 B\"{packets} }}\n"
        );
        let of = measures(&link(10, dies, &flow));
        let is = |name: &str, value: f64| {
            let found = of[&format!("flow.u.{name}")];
            assert!((found / value - 1.0).abs() < 0.01, "{name}: {found} for {value} with {until}{packets}");
        };
        is("goodput", 1e6);
        is("sent", 8.0 * 1028.0 * 1e3);
        is("completion", 8.0);
    }
    // One that has not stopped yet has its time up to the end of the run.
    let flow = "[flow.u]\nfrom = \"a\"\nto = \"b\"\nstop = \"9500 ms\"\n\
                traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"4 s\" }, payload = \"1000 B\" }\n";
    let of = measures(&link(9, "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n", flow));
    assert_eq!(of.get("flow.u.completion"), None);
}

/// A connection whose application stops before it may write delivers nothing, and so does not complete.
#[test]
fn a_connection_without_data_does_not_complete() {
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\nstart = \"1 s\"\nstop = \"1050 ms\"\ntraffic = \"tcp\"\n";
    let of = measures(&link(10, "rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\n", flow));
    assert_eq!((of.get("flow.f.completion"), of.get("flow.f.goodput")), (None, Some(&0.0)));
    // Nor does a source from which nothing arrives.
    let gone = "rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\nchannel = { kind = \"outages\", outages = [{ at = \"0 s\", lasts = \"99 s\" }] }\n";
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 ms\" }, payload = \"100 B\" }";
    let flow = flow.replace("\"tcp\"", udp);
    assert_eq!(measures(&link(10, gone, &flow)).get("flow.f.completion"), None);
}

#[test]
fn a_peak_is_of_the_same_time_as_the_mean_next_to_it() {
    let line = "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"";
    // A burst of slow start fills the queue; later a slow sender leaves it empty.
    let flows = "[flow.burst]\nfrom = \"a\"\nto = \"b\"\nstop = \"2 s\"\ntraffic = \"tcp\"\n\
        [flow.slow]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 s\" }, \
        payload = \"100 B\" }\n";
    let whole = measures(&link(10, line, flows));
    let cut = measures(&link(10, line, &format!("{flows}[probe]\nwarm_up = \"5 s\"\n")));
    let peak = |measures: &Measures| measures["link.l.forward.queue-max-bytes"];
    assert!(peak(&whole) > 10_000.0, "{}", peak(&whole));
    assert_eq!((peak(&cut), cut["link.l.forward.queue-mean-bytes"]), (0.0, 0.0));
}

#[test]
fn a_request_in_flight_at_the_end_is_not_unanswered() {
    let ping = "[flow.ping]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"ping\"\n";
    let unanswered = |line: &str| measures(&link(10, line, ping))["flow.ping.unanswered"];
    assert_eq!(unanswered("rate = \"50 Mbit/s\"\ndelay = \"125 ms\""), 0.0);
    let channel = |loss: &str| {
        format!(
            "rate = \"50 Mbit/s\"\ndelay = \"125 ms\"\nreturn.channel = {{ kind = \"packet-errors\", loss = {loss} }}"
        )
    };
    assert_eq!(unanswered(&channel("1.0")), 1.0, "all but those that may be in flight are lost");
    let half = unanswered(&channel("0.5"));
    assert!(half > 0.0 && half < 1.0, "{half}");
}

#[test]
fn ratings_are_within_their_scale_and_so_are_their_means() {
    let line =
        "rate = \"1 Mbit/s\"\ndelay = \"900 ms\"\nforward.channel = { kind = \"packet-errors\", loss = 0.5 }";
    let flows = "[flow.call]\nfrom = \"a\"\nto = \"b\"\ncount = 6\ntraffic = { kind = \"voice\", codec = \"g729\", \
        silence_suppression = false, playout = { kind = \"fixed\", delay = \"60 ms\" } }\n[probe]\nwarm_up = \"2 s\"\n";
    let measures = measures(&link(30, line, flows));
    let [r, worst, mos] = ["r", "r-min", "mos"].map(|name| measures[&format!("flow.call.{name}")]);
    assert_eq!((r, worst, mos), (0.0, 0.0, 1.0), "R of G.107 is below its scale");
}

#[test]
fn the_delay_of_a_rate_controlled_stream_is_the_networks() {
    let line = "rate = \"10 Mbit/s\"\ndelay = \"250 ms\"";
    for transport in ["udp", "dccp"] {
        let flow = format!(
            "[flow.s]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"tfrc\", rate = \"1 Mbit/s\", payload = \"1000 B\", \
             transport = \"{transport}\" }}\n"
        );
        let measures = measures(&link(10, line, &flow));
        let value = |name: &str| measures[&format!("flow.s.{name}")];
        // Slow start begins with four packets each round trip, and the source has 125 a second.
        assert!((0.25..0.26).contains(&value("delay-p99")), "{transport}: {}", value("delay-p99"));
        assert!(value("wait-p95") > 0.5, "{transport}: {}", value("wait-p95"));
    }
}

#[test]
fn a_call_has_its_figures_in_both_directions() {
    let line =
        "rate = \"1 Mbit/s\"\ndelay = \"250 ms\"\nreturn.channel = { kind = \"packet-errors\", loss = 0.2 }";
    let flows = "[flow.call]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"voice\", codec = \"g711a\", \
        silence_suppression = false, good = { loss = 0.1, delay = \"300 ms\" } }\n";
    let measures = measures(&link(30, line, flows));
    let value = |name: &str| measures[&format!("flow.call.{name}")];
    assert_eq!((value("loss"), value("good-calls")), (0.0, 0.0), "the delay of speech is above 300 ms");
    assert!((value("back.loss") - 0.2).abs() < 0.05 && value("back.r") < value("r"), "{measures:?}");
    assert_eq!((value("good-loss"), value("good-delay"), value("back.good-loss")), (0.1, 0.3, 0.1));
    assert!(!measures.contains_key("flows.goodput"), "one flow");
}

#[test]
fn channels_behind_each_other_have_one_loss_ratio() {
    let line = "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"\nforward.channel = [{ kind = \"packet-errors\", loss = 0.2 }, \
        { kind = \"jitter\", law = { kind = \"exponential\", mean = \"1 ms\" } }]";
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"udp\", payload = \"100 B\", \
        pattern = { kind = \"constant\", interval = \"10 ms\" } }\n";
    let measures = measures(&link(30, line, flow));
    let [ratio, loss] = ["link.l.forward.channel-loss-ratio", "flow.f.loss"].map(|name| measures[name]);
    assert!((ratio - loss).abs() < 0.01, "{ratio} {loss}");
}

#[test]
fn flows_that_ask_for_different_rates_have_no_fairness() {
    let line = "rate = \"1 Mbit/s\"\ndelay = \"10 ms\"";
    let flow = |name: &str, rate: &str| {
        format!(
            "[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"udp\", payload = \"500 B\", \
             pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }} }}\n"
        )
    };
    let fairness = |rates: [&str; 2]| {
        let flows = flow("one", rates[0]) + &flow("two", rates[1]);
        measures(&link(10, line, &flows)).get("flows.fairness").copied()
    };
    assert_eq!(fairness(["100 kbit/s", "10 kbit/s"]), None, "both have what they ask for");
    assert!(fairness(["100 kbit/s", "100 kbit/s"]).is_some_and(|index| index > 0.99));
}

#[test]
fn bundles_that_neither_arrived_nor_wait_are_lost() {
    let bundles = |channel: &str, contact: &str| {
        let text = format!(
            "title = \"t\"\nduration = \"60 s\"\nnode.a = {{ role = {{ kind = \"dtn\", network = \"net\" }} }}\n\
             node.b = {{ role = {{ kind = \"dtn\", network = \"net\" }} }}\n[dtn.net]\nlayer = \"udp\"\nplan = \"\"\"\n\
             a range +0 +9000 a b 0.1\na contact {contact} a b 125000\na contact +0 +9000 b a 125000\n\"\"\"\n\
             [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n{channel}\n[flow.f]\n\
             from = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", interval = \"100 ms\", payload = \"500 B\" }}\n"
        );
        measures(&text)["flow.f.loss"]
    };
    assert_eq!(bundles("", "+0 +9000"), 0.0);
    let dies = "forward.channel = { kind = \"outages\", outages = [{ at = \"1 s\", lasts = \"100 s\" }] }";
    let lost = bundles(dies, "+0 +9000");
    assert!(lost > 0.95 && lost < 1.0, "no later one arrived, and none waits: {lost}");
    assert_eq!(bundles("", "+0 +20"), 0.0, "most wait for a contact that is not in the plan");
}

/// Checks what holds for the measures of any run.
fn check(name: &str, scenario: &Scenario, measures: &Measures) {
    let fail = |what: &str| panic!("{name}: {what}: {measures:#?}");
    let ratios = [
        "loss",
        "voice-loss",
        "late",
        "unanswered",
        "retransmitted",
        "drop-ratio",
        "channel-loss-ratio",
        "fairness",
        "jain",
        "good-ratio",
        "talker-loss",
        "copies-loss-p50",
        "copies-loss-max",
        "copies-jain",
    ];
    for (measure, value) in measures {
        let last = measure.rsplit('.').next().unwrap_or_default();
        let scale = match last {
            "r" | "r-min" => Some((0.0, 129.0)),
            // A frame that has begun counts as a whole.
            "utilisation" => Some((0.0, 1.03)),
            "mos" => Some((1.0, 4.5)),
            _ => ratios.contains(&last).then_some((0.0, 1.0)),
        };
        if scale.is_some_and(|(least, most)| *value < least || *value > most + 1e-9) {
            fail(measure);
        }
    }
    order(measures, &["delay-p50", "delay-p95", "delay-p99"], &fail);
    order(measures, &["copies-loss-p50", "copies-loss-p95", "copies-loss-max"], &fail);
    order(measures, &["rtt-min", "rtt-mean", "rtt-max"], &fail);
    order(measures, &["queue-mean-bytes", "queue-max-bytes"], &fail);
    order(measures, &["queue-mean", "queue-max"], &fail);
    order(measures, &["r-min", "r"], &fail);
    order_of_groups(measures, &fail);
    within_capacities(scenario, measures, &fail);
}

/// Checks that the measures of each subject that end in these names ascend.
fn order(measures: &Measures, ascending: &[&str], fail: &impl Fn(&str)) {
    for (measure, first) in measures {
        let Some(subject) = measure.strip_suffix(ascending[0]).filter(|of| of.ends_with('.')) else {
            continue;
        };
        let mut last = *first;
        for name in &ascending[1..] {
            let Some(next) = measures.get(&format!("{subject}{name}")) else { continue };
            if last > next * (1.0 + 1e-9) + 1e-12 {
                fail(&format!("{subject}{name}"));
            }
            last = *next;
        }
    }
}

/// Checks the spreads of groups, and that no more copies have a value than there are.
fn order_of_groups(measures: &Measures, fail: &impl Fn(&str)) {
    order(measures, &["p5", "p50", "p95"], fail);
    for (measure, of) in measures.iter().filter(|(name, _)| name.ends_with(".of")) {
        let group = measure.strip_suffix("of").unwrap_or_default();
        let counts = measures.range(group.to_owned()..).take_while(|(name, _)| name.starts_with(group));
        if counts.filter(|(name, _)| name.ends_with(".n")).any(|(_, n)| n > of) {
            fail(measure);
        }
    }
}

/// Checks that no flow has more than its path carries, and that its delay is not below the path's.
fn within_capacities(scenario: &Scenario, measures: &Measures, fail: &impl Fn(&str)) {
    let sum: f64 = measures.iter().filter(|(name, _)| is_goodput_of_flow(name)).map(|(_, value)| value).sum();
    if measures.get("flows.goodput").is_some_and(|all| *all > sum * (1.0 + 1e-9)) {
        fail("flows.goodput");
    }
    if !scenario.event.is_empty() || scenario.node.values().any(|node| node.count > 1) {
        return;
    }
    for flow in Budget::new(scenario).expect("ways").flows {
        let copies = (1..=flow.copies).map(|n| format!("flow.{}.{n}", flow.name));
        for subject in copies.chain([format!("flow.{}", flow.name)]) {
            let value = |name: &str| measures.get(&format!("{subject}.{name}"));
            if value("delay-p50").is_some_and(|delay| *delay < propagation(scenario, &flow.path)) {
                fail(&format!("{subject}.delay-p50"));
            }
        }
    }
}

fn is_goodput_of_flow(name: &str) -> bool {
    name.starts_with("flow.") && name.ends_with(".goodput")
}

/// Returns the least delay of the links between successive nodes, in seconds.
fn propagation(scenario: &Scenario, path: &[String]) -> f64 {
    let hop = |ends: &[String]| {
        let between = scenario.link.values().filter(|link| {
            let [a, b] = &link.between;
            (a, b) == (&ends[0], &ends[1]) || (a, b) == (&ends[1], &ends[0])
        });
        let fixed = between.filter(|link| link.delay_changes.is_none());
        let delay = |link: &bentpipe_scenario::Link| link.delay.unwrap_or_default().as_secs_f64();
        fixed.map(delay).reduce(f64::min).unwrap_or(0.0)
    };
    path.windows(2).map(hop).sum()
}

#[test]
fn the_figures_of_every_example_agree() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let files = std::fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    for file in files {
        let document = bentpipe_paths::document(&file).unwrap_or_else(|error| panic!("{error}"));
        let mut scenario = checked(&document).expect("valid");
        scenario.duration = scenario.duration.min(Span::from_secs(8));
        for warm_up in [Span::ZERO, Span::from_secs(3)] {
            scenario.probe.warm_up = warm_up.min(scenario.duration / 2);
            let measures = all(&scenario, Built::new(&scenario, 1, document.access()).expect("possible"));
            check(&file.display().to_string(), &scenario, &measures);
        }
    }
}

/// Returns one of some words.
fn one_of<'a>(stream: &mut RandomStream, words: &[&'a str]) -> &'a str {
    words[(stream.unit() * words.len() as f64) as usize % words.len()]
}

/// Returns a scenario of one link with some flows.
fn generated(stream: &mut RandomStream) -> (f64, String) {
    let rate = one_of(stream, &["100 kbit/s", "2 Mbit/s", "20 Mbit/s"]);
    let bps = rate.parse::<bentpipe_units::Rate>().expect("a rate").as_bps() as f64;
    let delay = one_of(stream, &["0 s", "5 ms", "270 ms"]);
    let queue = one_of(stream, &["5 kB", "100 kB", "2 MB"]);
    let channel = one_of(stream, &["", "forward.channel = { kind = \"packet-errors\", loss = 0.03 }\n"]);
    let warm_up = one_of(stream, &["0 s", "1 s", "4 s"]);
    let mut flows = String::new();
    for name in ["one", "two"] {
        let traffic = one_of(
            stream,
            &[
                "\"tcp\"",
                "{ kind = \"tcp\", controller = \"newreno\", sack = false }",
                "{ kind = \"udp\", pattern = { kind = \"constant-rate\", rate = \"3 Mbit/s\" }, payload = \"1000 B\" }",
                "{ kind = \"voice\", codec = \"g729\" }",
                "\"ping\"",
            ],
        );
        let count = one_of(stream, &["1", "3"]);
        let stagger = one_of(stream, &["0 s", "1 s", "5 s"]);
        let stop = one_of(stream, &["", "stop = \"4100 ms\"\n", "stop = \"4 s\"\n", "stop = \"3500 ms\"\n"]);
        flows += &format!(
            "[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ncount = {count}\nstagger = \"{stagger}\"\n{stop}traffic = {traffic}\n"
        );
    }
    let line = format!(
        "rate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = {{ kind = \"drop-tail\", bytes = \"{queue}\" }}\n{channel}"
    );
    (bps, link(8, &line, &format!("{flows}[probe]\nwarm_up = \"{warm_up}\"\n")))
}

#[test]
fn the_figures_of_generated_scenarios_agree() {
    let mut stream = RandomStream::new(7, "figures");
    for _ in 0..40 {
        let (bps, text) = generated(&mut stream);
        let scenario = common::scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let measures = all(&scenario, common::built(&scenario));
        check(&text, &scenario, &measures);
        let window_s = (scenario.duration - scenario.probe.warm_up).as_secs_f64();
        // Of a packet that began to arrive before the window, all counts in it.
        let most = |seconds: f64| bps + 12_000.0 / seconds;
        for (name, value) in &measures {
            let is_sum = name == "flows.goodput" || name.ends_with("goodput.sum");
            assert!(!is_sum || *value <= most(window_s), "{name} {value}: {text}");
            assert!(!is_goodput_of_flow(name) || *value <= most(window_s), "{name} {value}: {text}");
        }
    }
}

#[test]
fn the_delay_of_a_conference_is_the_networks_and_its_voice_has_the_waits() {
    let text = "title = \"t\"\nduration = \"30 s\"\nnode.a = { role = { kind = \"conference\" } }\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\" }\n\
        [flow.c]\nfrom = \"a\"\nto = \"b\"\ncount = 3\ntraffic = { kind = \"conference\", codec = \"g711a\" }\n";
    let measures = measures(text);
    // 200 bytes and the propagation.
    assert!((measures["flow.c.delay-p50"] - 0.0502).abs() < 0.0005, "{}", measures["flow.c.delay-p50"]);
    assert!(measures["flow.c.mouth-to-ear"] > 0.15, "{}", measures["flow.c.mouth-to-ear"]);
}

#[test]
fn mixes_have_even_time_stamps_from_the_first_on() {
    let text = "title = \"t\"\nduration = \"30 s\"\nnode.a = { role = { kind = \"conference\" } }\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], rate = \"100 Mbit/s\", delay = \"50 ms\" }\n\
        [flow.c]\nfrom = \"a\"\nto = \"b\"\ncount = 3\n\
        traffic = { kind = \"conference\", codec = \"g711u\", silence_suppression = false, playout = { kind = \"fixed\", delay = \"5 ms\" } }\n";
    let measures = measures(text);
    for way in ["c", "c.back"] {
        assert_eq!(measures[&format!("flow.{way}.voice-loss")[..]], 0.0, "{way}");
    }
}

#[test]
fn a_link_of_frames_is_used_no_more_than_whole() {
    let text = "title = \"t\"\nduration = \"20 s\"\nnode.a = {}\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], delay = \"1 s\", medium = { kind = \"space\", rate = \"128 kbit/s\" } }\n\
        [flow.u]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"udp\", pattern = { kind = \"constant-rate\", rate = \"200 kbit/s\" }, \
        payload = \"500 B\" }\n";
    let utilisation = measures(text)["link.l.forward.utilisation"];
    assert!((0.98..=1.0).contains(&utilisation), "{utilisation}");
}
