//! Figures of what is drawn, and of what waits: bounds, means, advice, and their notes.

use bentpipe_lab::budget::{Budget, FlowBudget};

use crate::common::{built, found, scenario};

/// Two nodes with a link of these settings, and the rest of a scenario.
fn between(link: &str, rest: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"12 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.l]\nbetween = [\"a\", \"b\"]\n{link}\n{rest}"
    )
}

/// A transfer of flow `f` over TCP.
fn transfer(application: &str) -> String {
    format!(
        "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"tcp\", controller = \"cubic\" }}\n{application}"
    )
}

fn bulk(size: &str) -> String {
    transfer(&format!("application = {{ kind = \"bulk\", size = \"{size}\" }}\n"))
}

/// Datagrams of 1000 B of flow `f`.
fn datagrams(rate: &str, more: &str) -> String {
    format!(
        "[flow.f]\nfrom = \"a\"\nto = \"b\"\n{more}traffic = {{ kind = \"udp\", payload = \"1000 B\", \
         pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }} }}\n"
    )
}

fn budget(text: &str) -> FlowBudget {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    Budget::new(&scenario).expect("ways").flows[0].clone()
}

/// Returns figures of a flow in a run.
fn run<const N: usize>(text: &str, names: [&str; N]) -> [f64; N] {
    let scenario = scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let value = found(&scenario, &mut built(&scenario));
    names.map(|name| value(&format!("flow.f.{name}")).unwrap_or_else(|| panic!("no {name}\n{text}")))
}

fn has(flow: &FlowBudget, note: &str) -> bool {
    flow.warnings.iter().any(|warning| warning.contains(note))
}

/// Slow start has delays that are drawn by their mean, and the least time of a transfer by their least.
#[test]
fn slow_start_has_means_and_completion_has_the_least() {
    let link = |law: &str| {
        format!(
            "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nchannel = {{ kind = \"jitter\", law = {{ {law} }} }}"
        )
    };
    let wide = "kind = \"uniform\", min = \"0 ms\", max = \"200 ms\"";
    let narrow = "kind = \"uniform\", min = \"99 ms\", max = \"101 ms\"";
    let slow = [wide, narrow].map(|law| {
        let flow = budget(&between(&link(law), &transfer("")));
        flow.tcp.and_then(|tcp| tcp.slow_start).expect("it opens").as_secs_f64()
    });
    assert!((slow[0] / slow[1] - 1.0).abs() < 0.02 && slow[0] > 1.9, "{slow:?}");
    let [wide, narrow] = [wide, narrow].map(|law| {
        let flow = budget(&between(&link(law), &bulk("100 kB")));
        flow.tcp.and_then(|tcp| tcp.completion).expect("a size").as_secs_f64()
    });
    assert!(wide < 0.4 * narrow, "{wide} {narrow}");
}

/// Laws and tables with a least delay have it in the least time of a transfer.
#[test]
fn the_least_of_a_law_counts_in_a_least_time() {
    let link = |channel: &str| format!("rate = \"5 Mbit/s\"\ndelay = \"20 ms\"\nchannel = {{ {channel} }}");
    let pareto = "kind = \"jitter\", law = { kind = \"pareto\", mean = \"20 ms\", deviation = \"10 ms\" }";
    let table = "kind = \"jitter-table\", values = [-8192, 0, 8192], mean = \"20 ms\", deviation = \"12 ms\"";
    let none = "kind = \"jitter\", law = { kind = \"exponential\", mean = \"20 ms\" }";
    let least = |channel: &str| {
        let text = between(&link(channel), &bulk("1000 B"));
        let least = budget(&text).tcp.and_then(|tcp| tcp.completion).expect("a size").as_secs_f64();
        let [took] = run(&text, ["completion"]);
        assert!(took >= least, "{took} for {least}\n{text}");
        least
    };
    let [pareto, table, none] = [pareto, table, none].map(least);
    // A handshake and the data: three ways.
    assert!((pareto - none - 0.98 * 3.0 * (20e-3 - 10e-3 / 3.0_f64.sqrt())).abs() < 1e-3, "{pareto} {none}");
    assert!((table - none - 0.98 * 3.0 * 8e-3).abs() < 1e-3, "{table} {none}");
}

/// A mean of what channels or stations draw has a note where a run may have more.
#[test]
fn a_mean_that_a_run_may_exceed_is_noted() {
    let drawn = "draw which packets they lose or copy: its max goodput is a mean";
    let bursts =
        "rate = \"200 kbit/s\"\nforward.channel = { kind = \"gilbert-elliott\", p = 0.02, r = 0.02 }";
    assert!(has(&budget(&between(bursts, &datagrams("400 kbit/s", ""))), drawn));
    assert!(has(&budget(&between(bursts, &transfer(""))), drawn));
    // A flow cannot have more than it offers.
    assert!(!has(&budget(&between(bursts, &datagrams("80 kbit/s", ""))), drawn));
    let bits = "rate = \"200 kbit/s\"\nforward.channel = { kind = \"bit-errors\", ber = 1e-5 }";
    assert!(has(&budget(&between(bits, &datagrams("400 kbit/s", ""))), drawn));
    let few = "rate = \"20 Mbit/s\"\nforward.channel = { kind = \"packet-errors\", loss = 0.001 }";
    assert!(!has(&budget(&between(few, &datagrams("40 Mbit/s", ""))), drawn));
    let wifi = "medium = { kind = \"wifi\", standard = \"b\" }";
    let backoff = "stations of l forward draw their backoff";
    assert!(has(&budget(&between(wifi, &bulk("14480 B"))), backoff));
    // Of thousands of packets the mean is that of each run.
    assert!(!has(&budget(&between(wifi, &datagrams("9 Mbit/s", ""))), backoff));
}

/// A queue of the advised length fills the medium as well as a long one.
#[test]
fn an_advised_queue_has_room_for_what_the_medium_takes() {
    let wimax = "medium = { kind = \"wimax\", cell_name = \"h\", base = \"a\", snr = [22.0, 22.0] }";
    let up = |text: String| {
        let text = text.replace("from = \"a\"\nto = \"b\"", "from = \"b\"\nto = \"a\"");
        text.replace("node.a = {}", "cell.h.frame = \"5 ms\"\nnode.a = {}")
    };
    let wifi = "medium = { kind = \"wifi\", standard = \"b\" }";
    for (way, text) in
        [("forward", between(wifi, &bulk("2 MB"))), ("return", up(between(wimax, &bulk("2 MB"))))]
    {
        let flow = budget(&text);
        let needed = flow.tcp.as_ref().expect("a window").buffer_needed;
        assert!(needed.get() >= 4 * flow.packet.get(), "{needed}");
        let short = text.replace(
            "[\"a\", \"b\"]\nmedium",
            &format!(
                "[\"a\", \"b\"]\n{way}.queue = {{ kind = \"drop-tail\", bytes = \"{} B\" }}\nmedium",
                needed.get()
            ),
        );
        assert_ne!(short, text);
        let [long, short] = [&text, &short].map(|text| run(text, ["goodput"])[0]);
        assert!(short > 0.7 * long, "{short} for {long}\n{text}");
    }
}

/// What waits at a stop raises the goodput where it arrives faster than before, and else does not.
#[test]
fn what_waits_at_a_stop_is_noted_where_it_counts() {
    let note = "when it stops arrives behind that: up to ";
    let queue = "queue = { kind = \"drop-tail\", bytes = \"200 kB\" }\n";
    let still = format!("rate = \"2 Mbit/s\"\n{queue}");
    let outage = "rate = \"5 Mbit/s\"\ndelay = \"200 us\"\n\
        forward.channel = [{ kind = \"outages\", outages = [{ at = \"1 s\", lasts = \"900 ms\" }] }]\n";
    let tfrc = "[flow.f]\nfrom = \"a\"\nto = \"b\"\nstart = \"500 ms\"\nstop = \"1950 ms\"\n\
        traffic = { kind = \"tfrc\", payload = \"1000 B\" }\n";
    let stops = datagrams("3 Mbit/s", "stop = \"8 s\"\n");
    let slow = "[[event]]\nat = \"0 s\"\nset = { \"link.l.rate\" = \"200 kbit/s\" }\nhold = \"7900 ms\"\n";
    for (text, is_noted) in [
        (between(&still, &stops), false),
        (between(&still, &format!("{stops}{slow}")), true),
        (between(outage, tfrc), true),
    ] {
        let flow = budget(&text);
        let noted = flow.warnings.iter().find_map(|warning| warning.split_once(note));
        assert_eq!(noted.is_some(), is_noted, "{text}{:?}", flow.warnings);
        let more = noted.map_or(0.0, |(_, more)| {
            more.split_once(" %").and_then(|(part, _)| part.parse::<f64>().ok()).expect("a part")
        });
        let [had] = run(&text, ["goodput"]);
        let most = flow.ceiling.as_bps() as f64 * (1.001 + more / 100.0);
        assert!(had < most, "{had} for {most}\n{text}{:?}", flow.warnings);
        assert!(!is_noted || had > 1.02 * flow.ceiling.as_bps() as f64, "{had}\n{text}");
    }
}

/// Notes have what the bottleneck carries, and no flow that never sends.
#[test]
fn notes_on_a_bottleneck_are_those_of_its_packets() {
    let text = "title = \"t\"\nduration = \"30 s\"\nnode.a = {}\nnode.r = { kind = \"router\" }\nnode.b = {}\n\
        link.x = { between = [\"a\", \"r\"], rate = \"5 Mbit/s\", delay = \"1 ms\", \
        forward.channel = { kind = \"packet-errors\", loss = 0.1 } }\n\
        link.y = { between = [\"r\", \"b\"], rate = \"500 kbit/s\", delay = \"1 ms\" }\n";
    let off = "[flow.t]\nfrom = \"a\"\nto = \"b\"\nactive = false\ntraffic = { kind = \"tcp\", controller = \"cubic\" }\n";
    let text = format!("{text}{}{off}", datagrams("1 Mbit/s", ""));
    let flow = budget(&text);
    assert!(has(&flow, "y forward carries only 486.38"), "{:?}", flow.warnings);
    assert!(!has(&flow, "others fill the queue"), "{:?}", flow.warnings);
    let on = text.replace("active = false\n", "");
    assert!(has(&budget(&on), "others fill the queue of y forward"), "{:?}", budget(&on).warnings);
}
