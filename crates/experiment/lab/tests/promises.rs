//! Promises of a forecast that no run breaks: the most goodput, and the least time of a transfer.

use bentpipe_lab::budget::{Budget, FlowBudget};
use bentpipe_units::Rate;

use crate::common::{built, found, measured, scenario};

/// Two nodes with a link of these settings, and the rest of a scenario of 20 s.
fn between(link: &str, rest: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.l]\nbetween = [\"a\", \"b\"]\n{link}\n{rest}"
    )
}

/// A transfer of flow `f` with settings of TCP.
fn transfer(size: &str, tcp: &str) -> String {
    format!(
        "[flow.f]\nfrom = \"a\"\nto = \"b\"\napplication = {{ kind = \"bulk\", size = \"{size}\" }}\n\
         traffic = {{ kind = \"tcp\", {tcp} }}\n"
    )
}

fn budget(text: &str) -> Budget {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    Budget::new(&scenario).expect("ways")
}

/// Returns the forecast of a flow, with its goodput and its completion in the run.
fn compared(text: &str) -> (FlowBudget, f64, Option<f64>) {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let mut built = built(&scenario);
    let value = found(&scenario, &mut built);
    let flow = Budget::new(&scenario).expect("ways").flows[0].clone();
    (flow, value("flow.f.goodput").unwrap_or_default(), value("flow.f.completion"))
}

/// Asserts that a run keeps the promises of a transfer of flow `f`: it takes the forecast time or up to some factor of it.
fn keeps(text: &str, factor: f64) {
    let (flow, had, took) = compared(text);
    let tcp = flow.tcp.as_ref().expect("a window");
    let (least, took) = (tcp.completion.expect("a size").as_secs_f64(), took.expect("it ends"));
    assert!((1.0..factor).contains(&(took / least)), "{took} for {least}\n{text}{}", budget(text));
    let is_within = |most: Rate| had <= 1.02 * most.as_bps() as f64;
    assert!(is_within(flow.ceiling) && is_within(tcp.window_limit), "{had}\n{text}{}", budget(text));
    assert!(tcp.with_slow_start.is_none_or(is_within), "{had}\n{text}{}", budget(text));
}

/// While a window grows, ACKs that wait behind each other let more data through than they allow.
#[test]
fn acks_that_fill_their_way_do_not_limit_a_window_that_grows() {
    for (controller, back, size) in
        [("newreno", 40, "3 MB"), ("cubic", 40, "3 MB"), ("newreno", 20, "1 MB"), ("cubic", 80, "300 kB")]
    {
        let link = |queue: &str| {
            format!(
                "forward.rate = \"5 Mbit/s\"\nreturn.rate = \"{back} kbit/s\"\ndelay = \"50 ms\"\n\
                 queue = {{ kind = \"drop-tail\", bytes = \"{queue}\" }}\n"
            )
        };
        let flow = transfer(size, &format!("controller = \"{controller}\""));
        keeps(&between(&link("4 MB"), &flow), 1.1);
        // A short queue loses ACKs, and others acknowledge more.
        keeps(
            &between(&link("100 kB"), &flow)
                .replace("return.rate", "return.queue = { kind = \"drop-tail\", packets = 10 }\nreturn.rate"),
            4.0,
        );
    }
    let text = between(
        "forward.rate = \"5 Mbit/s\"\nreturn.rate = \"40 kbit/s\"\ndelay = \"50 ms\"\n",
        &transfer("3 MB", "controller = \"newreno\""),
    );
    let shown = budget(&text).to_string();
    assert!(
        shown.contains("as ACKs allow") && shown.contains("where none is lost and its window stays"),
        "{shown}"
    );
}

/// A handover in slow start: the window opens by the round trips that follow.
#[test]
fn a_slow_start_goes_through_changes_of_its_path() {
    let event = |at: &str, key: &str, value: &str| {
        format!("[[event]]\nat = \"{at}\"\nset = {{ \"link.l.{key}\" = \"{value}\" }}\n")
    };
    let line = |delay: &str| format!("rate = \"10 Mbit/s\"\ndelay = \"{delay}\"\n");
    let flow = || transfer("2 MB", "controller = \"newreno\"");
    let cases = [
        (line("500 ms"), event("1500 ms", "delay", "20 ms"), 1.3),
        (line("500 ms"), event("4 s", "forward.delay", "20 ms"), 1.3),
        (line("20 ms"), event("200 ms", "delay", "300 ms"), 1.1),
        (line("100 ms"), event("800 ms", "rate", "2 Mbit/s"), 1.3),
        ("rate = \"1 Mbit/s\"\ndelay = \"50 ms\"\n".to_owned(), event("2 s", "rate", "20 Mbit/s"), 1.3),
        (line("50 ms"), format!("{}hold = \"2 s\"\n", event("700 ms", "rate", "0 bit/s")), 2.0),
    ];
    for (link, event, factor) in cases {
        keeps(&between(&link, &format!("{}{event}", flow())), factor);
    }
    let text = between(&line("270 ms"), &format!("{}{}", flow(), event("12 s", "rate", "9 Mbit/s")));
    let (flow, had, _) = compared(&text.replace(", size = \"2 MB\"", ""));
    let most = flow.tcp.as_ref().and_then(|tcp| tcp.with_slow_start).expect("a forecast").as_bps() as f64;
    assert!(had < 1.01 * most && had > 0.8 * most, "{had} for {most}\n{text}");
    assert!(flow.warnings.iter().any(|note| note.starts_with("rates or round trips of its way change")));
}

/// Copies that start around a change have paths of their own.
#[test]
fn the_least_time_is_that_of_any_copy() {
    for stagger in ["2 s", "500 ms"] {
        let copies = format!("from = \"a\"\ncount = 9\nstagger = \"{stagger}\"\n");
        let flow = transfer("300 kB", "controller = \"newreno\"").replace("from = \"a\"\n", &copies);
        let event = "[[event]]\nat = \"3 s\"\nset = { \"link.l.delay\" = \"20 ms\" }\n";
        let text = between("rate = \"50 Mbit/s\"\ndelay = \"300 ms\"\n", &format!("{flow}{event}"));
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let least = budget(&text).flows[0].tcp.as_ref().and_then(|tcp| tcp.completion).expect("a size");
        let mut built = built(&of);
        let value = measured(&of, &mut built);
        let all = (1..=9).map(|n| value(&format!("flow.f.{n}.completion"))).fold(f64::INFINITY, f64::min);
        assert!((1.0..1.3).contains(&(all / least.as_secs_f64())), "{all} for {least}\n{text}");
    }
}

/// Two nodes with bundles over a layer, on a line with a channel.
fn bundles(layer: &str, channel: &str, contact: &str) -> String {
    let node = |name: &str| format!("node.{name} = {{ role = {{ kind = \"dtn\", network = \"n\" }} }}\n");
    format!(
        "title = \"t\"\nduration = \"60 s\"\n{}{}[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"10 ms\"\n\
         forward.channel = {channel}\n[dtn.n]\nlayer = \"{layer}\"\n\
         plan = \"a range +0 +1000 a b 0.01\\na range +0 +1000 b a 0.01\\na contact {contact} a b 125000\\na contact +0 +1000 b a 125000\"\n\
         [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", payload = \"400 B\", interval = \"50 ms\" }}\n",
        node("a"),
        node("b")
    )
}

/// Datagrams in an outage are lost, and blocks of LTP are sent again.
#[test]
fn bundles_are_lost_where_their_layer_does_not_repeat() {
    let outage = "{ kind = \"outages\", outages = [{ at = \"10 s\", lasts = \"15 s\" }] }";
    let loss = "{ kind = \"packet-errors\", loss = 0.3 }";
    for (layer, channel, lost, note) in [
        ("udp", outage, 0.25, "bundles that are sent then are lost"),
        ("udp", loss, 0.3, ""),
        ("ltp", loss, 0.0, "channels lose 30.00 % of its packets, which LTP sends again"),
        (
            "tcpcl",
            "{ kind = \"packet-errors\", loss = 0.01 }",
            0.0,
            "channels lose 1.00 % of its packets, which TCP sends again",
        ),
    ] {
        let text = bundles(layer, channel, "+0 +1000");
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let (budget, found) = (budget(&text), measured(&of, &mut built(&of))("flow.f.loss"));
        assert!((budget.flows[0].lost - lost).abs() < 1e-3, "{layer}\n{budget}");
        assert!((found - lost).abs() < 0.05, "{layer}: {found} for {lost}\n{budget}");
        assert!(budget.to_string().contains(note), "no {note} in\n{budget}");
    }
    // What waits for a contact is not lost in an outage before it.
    let waits = budget(&bundles("udp", outage, "+30 +1000"));
    assert!(waits.flows[0].lost < 1e-9, "{waits}");
}

/// Notes name what a slow start is forecast without.
#[test]
fn what_a_slow_start_leaves_out_is_noted() {
    let noted = |text: &str, part: &str| {
        let shown = budget(text).to_string();
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    };
    let line = "rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\n";
    noted(&between(line, &transfer("1 MB", "max_burst = 1")), "it sends at most 1 segments for an ACK");
    noted(
        &between(&format!("{line}quick_start = {{}}\n"), &transfer("1 MB", "quick_start = \"2 Mbit/s\"")),
        "its completion is forecast without slow start, as routers decide about its first window",
    );
    let bulk = transfer("1 MB", "quick_start = \"2 Mbit/s\"").replace(", size = \"1 MB\"", "");
    noted(&between(line, &bulk), "its slow start is not forecast, as routers decide");
    let short = "rate = \"10 Mbit/s\"\ndelay = \"50 ms\"\nmtu = \"256 B\"\nqueue = { kind = \"drop-tail\", bytes = \"100 kB\" }\n";
    noted(&between(short, &transfer("3 MB", "sack = false")), "without SACK it sends one lost segment again");
    noted(
        &between("rate = \"1 Mbit/s\"\n", &transfer("9 MB", "ecn = true")),
        "and the run has 20 s for them",
    );
    let late = "[flow.u]\nfrom = \"a\"\nto = \"b\"\ncount = 5\nstagger = \"9 s\"\ntraffic = { kind = \"udp\", payload = \"100 B\", \
        pattern = { kind = \"constant\", interval = \"20 ms\" } }\n";
    noted(
        &between(line, &format!("{}{late}", transfer("1 MB", "ecn = true"))),
        "4 flows share l forward: u (3), f",
    );
}

/// A transfer whose slow start is not forecast takes no less than at the rate of the line.
#[test]
fn completion_has_a_bound_where_slow_start_has_none() {
    let proxied = "title = \"t\"\nduration = \"20 s\"\nnode.a = {}\nnode.e = { kind = \"router\", role = { kind = \"pep\", link = \"l\" } }\n\
        node.b = {}\nlink.k = { between = [\"a\", \"e\"], rate = \"100 Mbit/s\", delay = \"5 ms\" }\n\
        link.l = { between = [\"e\", \"b\"], rate = \"10 Mbit/s\", delay = \"250 ms\" }\n";
    let bucket = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nforward.shaper = { rate = \"1 Mbit/s\", burst = \"500 kB\", limit = \"200 kB\" }\n";
    let off = "[[event]]\nat = \"2 s\"\nset = { \"flow.f.active\" = false }\nhold = \"3 s\"\n";
    let flow = || transfer("1 MB", "controller = \"cubic\"");
    for text in [
        format!("{proxied}{}", flow()),
        between(bucket, &flow()),
        between("rate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n", &format!("{}{off}", flow())),
        between(
            "rate = \"10 Mbit/s\"\ndelay = \"100 ms\"\nquick_start = {}\n",
            &transfer("1 MB", "quick_start = \"8 Mbit/s\""),
        ),
    ] {
        let (flow, _, took) = compared(&text);
        let least = flow.tcp.as_ref().and_then(|tcp| tcp.completion).expect("a size").as_secs_f64();
        let took = took.expect("it ends");
        assert!(took >= least && took < 5.0 * least, "{took} for {least}\n{text}{}", budget(&text));
        assert!(
            flow.warnings.iter().any(|note| note.contains("is forecast without slow start")),
            "{}",
            budget(&text)
        );
    }
}
