//! Promises where queues, lines and timers keep data over changes of a way.

use bentpipe_lab::budget::{Budget, FlowBudget};
use bentpipe_lab::measure;
use bentpipe_record::LedgerRow;
use bentpipe_units::{Rate, Span};

use crate::common::{built, by_name, measured, recorded, scenario};

/// Nodes in a row with links of these settings, and the rest of a scenario.
fn row(links: &[&str], rest: &str) -> String {
    let name = |n: usize| if n == links.len() { "z".to_owned() } else { format!("n{n}") };
    let inner = |n: usize| if (1..links.len()).contains(&n) { "kind = \"router\"\n" } else { "" };
    let node = |n: usize| format!("[node.{}]\n{}", name(n), inner(n));
    let nodes: String = (0..=links.len()).map(node).collect();
    let link = |(n, settings): (usize, &&str)| {
        format!("[link.l{n}]\nbetween = [\"{}\", \"{}\"]\n{settings}\n", name(n), name(n + 1))
    };
    let all: String = links.iter().enumerate().map(link).collect();
    format!("title = \"t\"\nduration = \"20 s\"\n{nodes}{all}{rest}")
}

/// A flow from the first node to the last.
fn flow(more: &str, traffic: &str) -> String {
    format!("[flow.f]\nfrom = \"n0\"\nto = \"z\"\n{more}traffic = {{ {traffic} }}\n")
}

/// A transfer of a size with settings of TCP.
fn transfer(size: &str, tcp: &str) -> String {
    flow(
        &format!("application = {{ kind = \"bulk\", size = \"{size}\" }}\n"),
        &format!("kind = \"tcp\", {tcp}"),
    )
}

fn event(at: &str, set: &str) -> String {
    format!("[[event]]\nat = \"{at}\"\nset = {{ {set} }}\n")
}

/// Returns the forecast of the flow and all of it as text, with its goodput and its completion in the run.
fn compared(text: &str) -> (FlowBudget, String, f64, Option<f64>) {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let budget = Budget::new(&scenario).expect("ways");
    let mut built = built(&scenario);
    let recording = recorded(&scenario, &mut built, Span::from_millis(100));
    let ledger = LedgerRow::of_running(&built.network.statements());
    let all = by_name(measure::measures(&scenario, 1, &recording, &ledger));
    let (had, took) =
        (all.get("flow.f.goodput").copied().unwrap_or_default(), all.get("flow.f.completion").copied());
    (budget.flows[0].clone(), format!("{text}{budget}"), had, took)
}

/// Asserts that a transfer takes the forecast time or up to some factor of it.
fn keeps(text: &str, factor: f64) {
    let (flow, shown, had, took) = compared(text);
    let tcp = flow.tcp.as_ref().expect("a window");
    let (least, took) = (tcp.completion.expect("a size").as_secs_f64(), took.expect("it ends"));
    assert!((1.0..factor).contains(&(took / least)), "{took} for {least}\n{shown}");
    let is_within = |most: Rate| had <= 1.02 * most.as_bps() as f64;
    assert!(is_within(flow.ceiling) && tcp.with_slow_start.is_none_or(is_within), "{had}\n{shown}");
}

const TWO: [&str; 2] = ["rate = \"4 Mbit/s\"\ndelay = \"10 ms\"", "rate = \"1 Mbit/s\"\ndelay = \"10 ms\""];

fn swapped() -> String {
    event("4 s", "\"link.l0.rate\" = \"100 kbit/s\", \"link.l1.rate\" = \"4 Mbit/s\"")
}

/// The first link slows down when the second speeds up: what waits between them goes on.
#[test]
fn a_queue_keeps_what_came_before_a_change_of_two_links() {
    keeps(&row(&TWO, &format!("{}{}", transfer("700 kB", "controller = \"cubic\""), swapped())), 1.1);
    for offered in [600, 2000] {
        let pattern = format!("{{ kind = \"constant-rate\", rate = \"{offered} kbit/s\" }}");
        let source = flow("", &format!("kind = \"udp\", payload = \"1000 B\", pattern = {pattern}"));
        let (flow, shown, had, _) = compared(&row(&TWO, &format!("{source}{}", swapped())));
        assert!(had <= 1.002 * flow.ceiling.as_bps() as f64, "{had}\n{shown}");
        let fair = flow.fair_share.min(flow.offered.expect("a rate")).as_bps() as f64;
        assert!((had / fair - 1.0).abs() < 0.05, "{had} for {fair}\n{shown}");
        let ceiling = flow.ceiling.as_bps() as f64;
        assert!(offered > 600 || ceiling > 0.35 * 600e3, "{shown}");
    }
}

/// What is on a long line arrives in the measured time, with what is sent when the line is short.
#[test]
fn a_line_keeps_what_was_sent_before_the_measured_time() {
    for (settings, set) in [
        ("rate = \"2 Mbit/s\"\ndelay = \"500 ms\"", "\"link.l0.delay\" = \"10 ms\""),
        ("rate = \"2 Mbit/s\"\ndelay = \"500 ms\"", "\"link.l0.rate\" = \"200 kbit/s\""),
    ] {
        let rest = format!("[probe]\nwarm_up = \"16 s\"\n{}", event("16 s", set));
        let rate = "{ kind = \"constant-rate\", rate = \"3 Mbit/s\" }";
        let source = flow("", &format!("kind = \"udp\", payload = \"1000 B\", pattern = {rate}"));
        let (flow, shown, had, _) = compared(&row(&[settings], &format!("{source}{rest}")));
        let most = flow.ceiling.as_bps() as f64;
        assert!((0.98..1.003).contains(&(had / most)), "{had} for {most}\n{shown}");
    }
}

/// The answer to a SYN comes by a path that has become shorter.
#[test]
fn a_handshake_goes_by_changes_of_delay() {
    let flow = transfer("9 kB", "controller = \"newreno\"").replace("from =", "start = \"1 s\"\nfrom =");
    for (at, set) in [
        ("1100 ms", "\"link.l0.delay\" = \"20 ms\""),
        ("1250 ms", "\"link.l0.delay\" = \"20 ms\""),
        ("1050 ms", "\"link.l0.return.delay\" = \"20 ms\""),
    ] {
        let line = "rate = \"2 Mbit/s\"\ndelay = \"200 ms\"";
        keeps(&row(&[line], &format!("{flow}{}", event(at, set))), 1.15);
    }
}

/// ACKs wait on a way back that is down, and go on when it is up.
#[test]
fn a_way_back_that_is_down_holds_acks_for_that_time() {
    let flow = transfer("60 kB", "controller = \"newreno\"").replace("from =", "start = \"6600 ms\"\nfrom =");
    let down = format!("{}hold = \"3 s\"\n", event("4 s", "\"link.l0.return.rate\" = \"0 bit/s\""));
    keeps(&row(&["rate = \"1 Mbit/s\"\ndelay = \"100 ms\""], &format!("{flow}{down}")), 5.0);
}

/// A receiver with few segments acknowledges them by its timer.
#[test]
fn timers_acknowledge_before_numbers_of_segments() {
    for (rate, delay, every, size) in
        [(400, 400, 16, "200 kB"), (100, 50, 8, "60 kB"), (400, 50, 4, "200 kB"), (2000, 400, 16, "200 kB")]
    {
        let line = format!("rate = \"{rate} kbit/s\"\ndelay = \"{delay} ms\"");
        for controller in ["newreno", "bbr"] {
            let tcp = format!("controller = \"{controller}\", ack_every = {every}");
            keeps(&row(&[&line], &transfer(size, &tcp)), 1.2);
        }
    }
}

/// Short packets of a transfer, of its handshake, and of a receiver that opens it.
#[test]
fn short_packets_take_less_than_full_ones() {
    let line = "rate = \"100 kbit/s\"\ndelay = \"10 ms\"";
    let small = |tcp: &str| transfer("100 B", &format!("controller = \"newreno\", {tcp}"));
    let off = event("15 s", "\"flow.f.active\" = false");
    // A report of Quick-Start goes in front of the data.
    keeps(&row(&[line], &small("quick_start = \"1 Mbit/s\"")), 1.2);
    keeps(&row(&[line], &format!("{}{off}", small("sack = true"))), 1.1);
    let slow = "forward.rate = \"2 Mbit/s\"\nreturn.rate = \"5 kbit/s\"\ndelay = \"10 ms\"";
    for tcp in ["opened_by = \"receiver\"", "opened_by = \"receiver\", timestamps = false", "sack = false"] {
        keeps(&row(&[slow], &small(tcp)), 1.1);
    }
    // The line is slower than in the file when the transfer begins.
    let later = format!("{}{}", small("sack = true"), event("0 s", "\"link.l0.rate\" = \"50 kbit/s\""));
    keeps(&row(&[line], &later), 1.1);
}

/// What is on a link when a later one changes has its new delay, and that of its own line from before.
#[test]
fn each_link_has_its_delay_when_a_packet_comes_to_it() {
    let long = ["rate = \"10 Mbit/s\"\ndelay = \"200 ms\""; 2];
    let both = "\"link.l0.delay\" = \"300 ms\", \"link.l1.delay\" = \"5 ms\"";
    let back = "\"link.l0.return.delay\" = \"5 ms\", \"link.l1.return.delay\" = \"400 ms\"";
    for (at, set) in [
        ("900 ms", "\"link.l1.delay\" = \"5 ms\""),
        ("900 ms", both),
        ("500 ms", "\"link.l0.return.delay\" = \"5 ms\""),
        ("500 ms", back),
    ] {
        for size in ["600 B", "9 kB"] {
            keeps(&row(&long, &format!("{}{}", transfer(size, "sack = true"), event(at, set))), 1.15);
        }
    }
}

/// What changes behind the end of a transfer does not change its forecast.
#[test]
fn a_transfer_is_forecast_up_to_its_end() {
    for size in ["2768 B", "700 B", "20 kB"] {
        let flow = transfer(size, "controller = \"newreno\"");
        let line = "rate = \"120 kbit/s\"\ndelay = \"50 ms\"";
        let completion = |text: &str| compared(text).0.tcp.and_then(|tcp| tcp.completion).expect("a size");
        let still = completion(&row(&[line], &flow));
        for set in ["\"link.l0.rate\" = \"30 kbit/s\"", "\"link.l0.delay\" = \"1 ms\""] {
            let text = row(&[line], &format!("{flow}{}", event("10 s", set)));
            assert_eq!(completion(&text), still, "{text}");
            keeps(&text, 1.1);
        }
    }
}

/// One packet that is short on every link: goodput has its time too.
#[test]
fn one_short_packet_is_short_on_every_link() {
    let lines = ["rate = \"180 kbit/s\"\ndelay = \"1400 us\"", "rate = \"166 kbit/s\"\ndelay = \"7300 us\""];
    for size in ["259 B", "1200 B"] {
        keeps(&row(&lines, &transfer(size, "controller = \"westwood+\"")), 1.1);
    }
}

/// Without timestamps one segment at a time shows a round trip, and laws that go by delays know less.
#[test]
fn laws_of_delays_have_fewer_samples_without_timestamps() {
    for (rate, delay, back, size) in
        [(1465, 28, 283, "90 kB"), (4000, 100, 20_000, "300 kB"), (1000, 5, 300, "30 kB")]
    {
        let line = format!(
            "forward.rate = \"{rate} kbit/s\"\nreturn.rate = \"{back} kbit/s\"\ndelay = \"{delay} ms\"\nmtu = \"576 B\""
        );
        for controller in ["vegas", "cubic", "hybla", "bbr"] {
            let tcp = format!("controller = \"{controller}\", timestamps = false");
            keeps(&row(&[&line], &transfer(size, &tcp)), 2.0);
        }
    }
}

/// Where ACKs release few segments, the answer to a SYN releases as many, and repeated answers no more.
///
/// If the receiver opens, answers are ACKs: each releases some.
#[test]
fn bursts_at_the_start_are_counted() {
    for opener in ["sender", "receiver"] {
        for (delay, size, factor) in [(300, "40 kB", 2.0), (900, "40 kB", 2.0), (1700, "20 kB", 2.0)] {
            let tcp = format!("controller = \"newreno\", max_burst = 2, opened_by = \"{opener}\"");
            let line = format!("rate = \"2 Mbit/s\"\ndelay = \"{delay} ms\"");
            keeps(&row(&[&line], &transfer(size, &tcp)), factor);
        }
        for (burst, size, factor) in [(1, "20 kB", 20.0), (2, "40 kB", 2.0), (4, "200 kB", 2.0)] {
            let tcp = format!("controller = \"newreno\", max_burst = {burst}, opened_by = \"{opener}\"");
            keeps(&row(&["rate = \"2 Mbit/s\"\ndelay = \"500 ms\""], &transfer(size, &tcp)), factor);
        }
    }
}

/// A copy that starts late stops before its data are written.
#[test]
fn a_transfer_that_stops_early_has_no_completion() {
    let copies = "stop = \"4 s\"\ncount = 4\nstagger = \"1 s\"\nstart = \"500 ms\"\nfrom =";
    let flow = transfer("300 kB", "controller = \"newreno\"").replace("from =", copies);
    let (of_size, shown, ..) = compared(&row(&["rate = \"1 Mbit/s\"\ndelay = \"300 ms\""], &flow));
    assert!(of_size.tcp.as_ref().is_some_and(|tcp| tcp.completion.is_none()), "{shown}");
    assert!(shown.contains("it may stop before all of its data are written"), "{shown}");
}

/// BBR with a window of few segments.
#[test]
fn few_segments_at_the_start_take_no_less_than_the_forecast() {
    for controller in ["bbr", "cubic", "newreno"] {
        for (window, size) in [(1, "40 kB"), (1, "300 kB"), (2, "100 kB"), (3, "300 kB")] {
            for (rate, delay) in [(10_000, 50), (2000, 270), (10_000, 10)] {
                let line = format!("rate = \"{rate} kbit/s\"\ndelay = \"{delay} ms\"");
                let tcp = format!("controller = \"{controller}\", initial_window = {window}");
                keeps(&row(&[&line], &transfer(size, &tcp)), 1.5);
            }
        }
    }
    // The round trip of a handshake paces the first segments.
    let few =
        "controller = \"bbr\", initial_window = 1, mss = \"536 B\", ack_delay = \"500 ms\", sack = false";
    keeps(&row(&["rate = \"109463 bit/s\"\ndelay = \"5310 us\""], &transfer("14992 B", few)), 1.1);
}

/// A bundle in segments is lost with any of them.
#[test]
fn bundles_are_lost_with_each_of_their_segments() {
    for (layer, payload, datagram, tolerance) in [
        ("ltp-green", 20_000, 1472, 0.05),
        ("ltp-green", 5_000, 500, 0.05),
        ("dccp", 5_000, 1472, 0.08),
        ("udp", 5_000, 500, 0.05),
    ] {
        let node = |name: &str| format!("node.{name} = {{ role = {{ kind = \"dtn\", network = \"n\" }} }}\n");
        let text = format!(
            "title = \"t\"\nduration = \"100 s\"\n{}{}[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"4 Mbit/s\"\ndelay = \"10 ms\"\n\
             forward.channel = {{ kind = \"packet-errors\", loss = 0.05 }}\n[dtn.n]\nlayer = \"{layer}\"\ndatagram = \"{datagram} B\"\n\
             plan = \"a range +0 +1000 a b 0.01\\na range +0 +1000 b a 0.01\\na contact +0 +1000 a b 500000\\na contact +0 +1000 b a 500000\"\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", payload = \"{payload} B\", interval = \"100 ms\" }}\n",
            node("a"),
            node("b")
        );
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let budget = Budget::new(&of).expect("ways");
        let lost = measured(&of, &mut built(&of))("flow.f.loss");
        assert!((budget.flows[0].lost - lost).abs() < tolerance, "{layer}: {lost}\n{text}{budget}");
    }
}

/// Figures of a window that stays say so, and a note of one link says for how long it is that.
#[test]
fn figures_of_a_part_of_the_time_say_so() {
    let back = "forward.rate = \"5 Mbit/s\"\nreturn.rate = \"20 kbit/s\"\ndelay = \"50 ms\"";
    let (flow, shown, ..) = compared(&row(&[back], &transfer("300 kB", "controller = \"newreno\"")));
    let tcp = flow.tcp.as_ref().expect("a window");
    let most = tcp.with_slow_start.expect("slow start");
    assert!(flow.by_answers.is_some_and(|steady| steady < most), "{shown}");
    assert!(shown.contains(", once its window stays\n"), "{shown}");
    let text = row(&TWO, &format!("{}{}", flow_of_bulk(), swapped()));
    let (_, shown, ..) = compared(&text);
    assert!(
        shown.contains("l0 forward limits it for 80.00 % of its time, and other links for the rest"),
        "{shown}"
    );
}

fn flow_of_bulk() -> String {
    flow("", "kind = \"tcp\", controller = \"cubic\"")
}
