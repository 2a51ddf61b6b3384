//! Errors of scenario files: each with its place, the key, and what is expected.

use bentpipe_assemble::checked;
use bentpipe_lab::check::{Checked, check};
use bentpipe_lab::plan::Plan;
use bentpipe_scenario::{Document, Framing, NodeKind, Scenario, ScenarioError, Traffic};

const GOOD: &str = r#"
title = "One flow over a GEO link"
duration = "20 s"

[node.client]
[node.gateway]
kind = "router"
[node.server]

[link.access]
between = ["client", "gateway"]
rate = "1 Gbit/s"
delay = "1 ms"

[link.satellite]
between = ["gateway", "server"]
rate = "10 Mbit/s"
delay = "270 ms"
queue = { kind = "drop-tail", bytes = "500 kB" }

[flow.bulk]
from = "client"
to = "server"
traffic = { kind = "tcp", controller = "cubic", receive_buffer = "1 MB" }
"#;

fn scenario(text: &str) -> Result<Scenario, ScenarioError> {
    checked(&Document::parse("file.toml", text.as_bytes())?)
}

#[test]
fn a_good_file_is_read() {
    let scenario = scenario(GOOD).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(scenario.link["satellite"].between, ["gateway", "server"]);
    assert_eq!(scenario.node["gateway"].kind, NodeKind::Router);
}

/// What is said about `GOOD` with `from` replaced by `to`.
fn said(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    scenario(&GOOD.replace(from, to)).map(|_| String::new()).unwrap_or_else(|refusal| refusal.to_string())
}

#[test]
fn a_missing_unit_is_shown_in_its_place() {
    let expected = r#"file.toml:18:9: link.satellite.delay: a whole number without a unit: expected a text with number and unit such as "270 ms"
   |
18 | delay = 270
   |         ^^^"#;
    assert_eq!(said("\"270 ms\"", "270"), expected);
}

#[test]
fn a_word_stands_for_a_table_that_needs_no_more() {
    let short =
        scenario(&GOOD.replace("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\"\nframing = \"ethernet\""))
            .unwrap();
    assert_eq!(short.link["satellite"].framing, Framing::Ethernet);
    let wrong = said("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\"\nframing = \"fixed\"");
    assert!(wrong.contains("unknown \"fixed\""), "{wrong}");
}

/// Replaces `from` by `to` in `GOOD` and compares all that is said with `expected`.
#[track_caller]
fn mistake(from: &str, to: &str, expected: &str) {
    assert_eq!(said(from, to), expected.trim_matches('\n'));
}

#[test]
fn a_misspelt_key_gets_the_right_one() {
    mistake(
        "delay = \"270 ms\"",
        "dealy = \"270 ms\"",
        r#"
file.toml:18:1: link.satellite.dealy: unknown key: did you mean "delay"? ("between", "medium", "rate", "delay", "delay_changes", "framing", "mtu", "ip_versions", "queue", "channel", "shaper", "quick_start", "aggregate", "custom", "forward", "return")
   |
18 | dealy = "270 ms"
   | ^^^^^
"#,
    );
}

#[test]
fn a_misspelt_name_gets_the_right_one() {
    mistake(
        "to = \"server\"",
        "to = \"sever\"",
        r#"
file.toml:23:6: flow.bulk.to: no node is called "sever": did you mean "server"? ("client", "gateway", "server")
   |
23 | to = "sever"
   |      ^^^^^^^
"#,
    );
}

#[test]
fn a_negative_rate_is_refused() {
    mistake(
        "\"10 Mbit/s\"",
        "\"-10 Mbit/s\"",
        r#"
file.toml:17:8: link.satellite.rate: negative value in "-10 Mbit/s": expected a rate such as "155.52 Mbit/s" or "64 kbit/s"
   |
17 | rate = "-10 Mbit/s"
   |        ^^^^^^^^^^^^
"#,
    );
}

#[test]
fn a_missing_key_is_named_where_it_belongs() {
    mistake(
        "between = [\"gateway\", \"server\"]",
        "",
        r#"
file.toml:15:7: link.satellite: `between` is missing: expected a list
   |
15 | [link.satellite]
   |       ^^^^^^^^^
"#,
    );
    mistake(
        "kind = \"drop-tail\", ",
        "",
        r#"
file.toml:19:1: link.satellite.queue: `kind` is missing: expected one of "drop-tail", "red", "priority", "codel", "fq-codel", "pie", "dualpi2", "classes"
   |
19 | queue = { bytes = "500 kB" }
   | ^^^^^
"#,
    );
    mistake(
        "rate = \"10 Mbit/s\"",
        "forward.rate = \"10 Mbit/s\"",
        r#"
file.toml:15:7: link.satellite: no rate in the return direction: expected `rate = "10 Mbit/s"`, or `return.rate`
   |
15 | [link.satellite]
   |       ^^^^^^^^^
"#,
    );
}

#[test]
fn a_node_that_cannot_be_reached_is_named() {
    mistake(
        "kind = \"router\"",
        "",
        r#"
file.toml:23:6: flow.bulk.to: no way from "client" to "server" for IPv4: "gateway" is a host and does not forward; expected `kind = "router"` there
   |
23 | to = "server"
   |      ^^^^^^^^
"#,
    );
}

#[test]
fn a_loop_without_delay_is_refused() {
    let text = GOOD.replace("\"1 Gbit/s\"", "\"100 Gbit/s\"").replace("delay = \"1 ms\"", "delay = \"0 s\"");
    let text = text.replace("[node.client]\n", "[node.client]\nkind = \"router\"\n");
    let said = scenario(&text).unwrap_err().to_string();
    assert!(said.starts_with("file.toml:14:9: link.access.delay: a loop without delay: "), "{said}");
    assert!(
        said.contains("expected a delay above zero\n   |\n14 | delay = \"0 s\"\n   |         ^^^^^"),
        "{said}"
    );
}

#[test]
fn wrong_controllers_and_their_parameters_are_told() {
    mistake(
        "controller = \"cubic\", ",
        "controller = { name = \"cubic\", betta = 0.7 }, ",
        r#"
file.toml:24:58: flow.bulk.traffic.controller.betta: unknown key: did you mean "beta"? ("name", "form", "c", "beta", "fast_convergence", "reno_friendly", "slow_start", "slow_start_exit", "counting", "pacing")
   |
24 | traffic = { kind = "tcp", controller = { name = "cubic", betta = 0.7 }, receive_buffer = "1 MB" }
   |                                                          ^^^^^
"#,
    );
    let said = said("\"cubic\"", "\"cubik\"");
    assert!(said.contains("unknown \"cubik\": did you mean \"cubic\"? (\"newreno\""), "{said}");
}

#[test]
fn absurd_amounts_are_refused() {
    for (from, to, expected) in [
        ("\"20 s\"", "\"400 d\"", "duration: longer than 31622400 s"),
        (
            "\"20 s\"",
            "\"60 d\"\natm.line.x = { between = [\"client\", \"server\"], rate = \"1 Mbit/s\" }",
            "duration: longer than 4320000 s, the most with cells",
        ),
        ("\"20 s\"", "\"0 s\"", "duration: expected more than no time"),
        ("\"10 Mbit/s\"", "\"0 bit/s\"", "link.satellite.rate: expected more than zero"),
        ("\"10 Mbit/s\"", "\"1e9 Gbit/s\"", "link.satellite.rate: faster than 100000 Gbit/s"),
        ("\"270 ms\"", "\"30 h\"", "link.satellite.delay: longer than 86400 s"),
        ("\"1 MB\"", "\"5 GB\"", "flow.bulk.traffic.receive_buffer: expected 1 B to 1 GiB"),
        (
            "to = \"server\"",
            "to = \"server\"\ncount = 0",
            "flow.bulk.count: 0 is out of range: expected from 1 to 100000",
        ),
        ("to = \"server\"", "to = \"server\"\ncount = 70000", "flow.bulk.count: no port is left at node"),
        ("\n[node.client]", "seed = -1\n[node.client]", "seed: -1 is out of range: expected at least 0"),
        (
            "[flow.bulk]",
            "[probe]\ninterval = \"1 ns\"\n[flow.bulk]",
            "probe.interval: 20000000000 samples in 20 s",
        ),
        ("title = ", "title = 99999999999999999999\nx = ", "a number that does not fit"),
    ] {
        let said = said(from, to);
        assert!(said.contains(expected), "{to}: {said}");
    }
}

#[test]
fn files_that_are_no_scenarios_are_refused() {
    let refused = |bytes: &[u8]| {
        Document::parse("file.toml", bytes).and_then(|document| checked(&document)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(b"title = \"caf\xe9\"\n"),
        "file.toml:1:13: not UTF-8: byte 0xe9 at offset 12\n  |\n1 | title = \"caf\n  |             ^"
    );
    let cut = refused(&GOOD.as_bytes()[..GOOD.len() - 12]);
    assert!(
        cut.starts_with("file.toml:24:") && cut.contains("the file ends here: is it cut short?"),
        "{cut}"
    );
    assert!(refused(&vec![b'#'; 1 << 23]).contains("longer than 4194304 bytes"));
    let twice = said("[node.server]", "[node.client]");
    assert!(twice.contains(":8:") && twice.contains("duplicate key"), "{twice}");
    assert_eq!(refused(b"").lines().count(), 7);
}

#[test]
fn all_that_is_wrong_is_said_in_the_order_of_the_file() {
    let text = GOOD
        .replace("kind = \"router\"", "kind = \"rooter\"")
        .replace("\"1 ms\"", "1")
        .replace("bulk", "b u l k");
    let refusal = scenario(&text.replace("[flow.b u l k]", "[flow.\"b u l k\"]")).unwrap_err();
    let keys: Vec<&str> = refusal.diagnostics().iter().map(|diagnostic| diagnostic.key.as_str()).collect();
    assert_eq!(keys, ["node.gateway.kind", "link.access.delay"]);
}

#[test]
fn overrides_are_checked_as_the_file_is() {
    let with = |assignment: &str| {
        let mut document = Document::parse("file.toml", GOOD.as_bytes()).unwrap();
        document.set(assignment).and_then(|()| checked(&document)).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(
        with("link.satellite.rate = 2 Mbit/s").unwrap().link["satellite"].rate.unwrap().as_bps(),
        2_000_000
    );
    assert_eq!(with("seed=7").unwrap().seed, 7);
    let window = with("flow.bulk.traffic.controller={ name = \"hybla\", rtt0 = \"50 ms\" }").unwrap();
    let Traffic::Tcp(tcp) = &window.flow["bulk"].traffic else { panic!("TCP") };
    assert_eq!(tcp.controller.name(), "hybla");
    for (assignment, expected) in [
        (
            "link.sat.rate=1 Mbit/s",
            "--set link.sat.rate=1 Mbit/s: link.sat.rate: no link is called \"sat\": did you mean \"satellite\"? (\"access\", \"satellite\")",
        ),
        (
            "carrier.sky.slots=6",
            "--set carrier.sky.slots=6: carrier.sky.slots: no carrier is called \"sky\": there is none",
        ),
        (
            "link.satellite.rate=10",
            "--set link.satellite.rate=10: link.satellite.rate: a whole number without a unit: expected a text with number and unit such as \"155.52 Mbit/s\"",
        ),
        (
            "link.satellite.rat=1 Mbit/s",
            "--set link.satellite.rat=1 Mbit/s: link.satellite.rat: unknown key: did you mean \"rate\"? (\"between\", \"medium\", \"rate\", \"delay\", \"delay_changes\", \"framing\", \"mtu\", \"ip_versions\", \"queue\", \"channel\", \"shaper\", \"quick_start\", \"aggregate\", \"custom\", \"forward\", \"return\")",
        ),
        (
            "durration=1 s",
            "--set durration=1 s: durration: unknown key: did you mean \"duration\"? (\"title\", \"description\", \"duration\", \"seed\", \"seeds\", \"node\", \"link\", \"carrier\", \"dvb\", \"atm\", \"cell\", \"dtn\", \"field\", \"pabx\", \"tunnel\", \"group\", \"flow\", \"event\", \"probe\", \"sweep\")",
        ),
        (
            "sweep.sweep.seed=[1]",
            "--set sweep.sweep.seed=[1]: sweep.sweep.seed: a sweep in a sweep: expected keys of the scenario",
        ),
        ("sweep.seed=[]", "--set sweep.seed=[]: sweep.seed: an empty list: expected the values to run with"),
        ("seed", "--set seed: expected KEY=VALUE"),
        ("title.x=1", "--set title.x=1: title.x: `title` is not a table"),
        ("flow=1", "--set flow=1: flow: a whole table cannot be replaced: expected flow.NAME.KEY"),
    ] {
        assert_eq!(with(assignment).unwrap_err(), expected);
    }
}

#[test]
fn sweeps_say_what_is_wrong_with_them() {
    let swept = |lines: &str| {
        let text = format!("{GOOD}[sweep]\n{lines}");
        let document = Document::parse("file.toml", text.as_bytes());
        let plan = document.and_then(|document| Plan::new(&document, Default::default()));
        plan.map(|plan| plan.points.len()).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(swept("link.satellite.delay = [\"10 ms\", \"20 ms\"]"), Ok(2));
    let error = |lines| swept(lines).unwrap_err();
    assert_eq!(
        error("\"flow.bluk.start\" = [\"1 s\"]"),
        "file.toml:26:1: flow.bluk.start: no flow is called \"bluk\": did you mean \"bulk\"?\n   |\n26 | \"flow.bluk.start\" = [\"1 s\"]\n   | ^^^^^^^^^^^^^^^^^"
    );
    assert!(error("\"flow.bulk.strat\" = [\"1 s\"]").contains("unknown key: did you mean \"start\"?"));
    assert!(
        error("\"link.satellite.rate\" = [\"1 Mbit/s\", 2]")
            .contains("26:38: link.satellite.rate: a whole number without a unit")
    );
    assert!(error("\"link.satellite.rate\" = []").contains("an empty list"));
    assert!(error("\"link.satellite.rate\" = 5").contains("expected a list of values"));
    let twice = "\"link.satellite.rate\" = [\"1 Mbit/s\"]\n\"link.satellite. rate\" = [\"2 Mbit/s\"]";
    let expected = "26:1: sweep.link.satellite.rate: \"link.satellite.rate\" is swept further down, which replaces these values";
    assert!(error(twice).contains(expected), "{}", error(twice));
    let many = format!("seed = {:?}\nseeds = {:?}", [1; 400], [1; 400]);
    assert!(error(&many).contains("sweep: 160000 points: expected at most 100000"));
}

#[test]
fn ranges_make_the_points_of_a_sweep() {
    let points = |lines: &str| {
        let document = Document::parse("file.toml", format!("{GOOD}[sweep]\n{lines}").as_bytes());
        let plan = document.and_then(|document| Plan::new(&document, Default::default()));
        let plan = plan.map_err(|refusal| refusal.to_string())?;
        Ok::<_, String>(plan.points.iter().map(|point| point.label()).collect::<Vec<_>>().join("; "))
    };
    assert_eq!(
        points("\"flow.bulk.count\" = \"1 to 7 by 3\"").as_deref(),
        Ok("count = 1; count = 4; count = 7")
    );
    assert_eq!(
        points("link.satellite.rate = \"1 to 4 Mbit/s times 2\"").as_deref(),
        Ok("rate = 1 Mbit/s; rate = 2 Mbit/s; rate = 4 Mbit/s")
    );
    assert_eq!(
        points("link.satellite.rate = \"1 to 4 Mbit/s\"").unwrap_err(),
        "file.toml:26:23: sweep.link.satellite.rate: \"1 to 4 Mbit/s\": expected a range such as \"1 to 20 by 1\" or \
         \"1 to 64 kbit/s times 2\" or a list of values\n   |\n26 | link.satellite.rate = \"1 to 4 Mbit/s\"\n   |                       ^^^^^^^^^^^^^^^"
    );
    let mut document = Document::parse("file.toml", GOOD.as_bytes()).expect("TOML");
    document.set("sweep.flow.bulk.count=1 to 20 by 1").expect("a range");
    assert_eq!(document.axes().collect::<Vec<_>>(), [("flow.bulk.count", 20)]);
}

/// Checks `GOOD` with a sweep of `lines`, after replacing `from` by `to`.
fn checked_sweep(from: &str, to: &str, lines: &str) -> Result<Checked, String> {
    assert!(GOOD.contains(from), "{from}");
    let text = format!("{}[sweep]\n{lines}", GOOD.replace(from, to));
    let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
    check(&document).map_err(|error| error.to_string())
}

#[test]
fn every_point_of_a_sweep_is_checked_or_an_even_sample() {
    let rates = "\"link.satellite.rate\" = [\"1 Mbit/s\", \"0 bit/s\"]\n\"flow.bulk.count\" = [1, 2]";
    let error = checked_sweep("\"20 s\"", "\"20 s\"", rates).unwrap_err();
    assert!(error.contains("link.satellite.rate"), "{error}");
    assert!(
        error.ends_with("at the point of the sweep with link.satellite.rate = 0 bit/s, flow.bulk.count = 1"),
        "{error}"
    );
    let checked = checked_sweep("\"20 s\"", "\"20 s\"", "\"seed\" = \"1 to 50 by 1\"").expect("fine");
    assert_eq!((checked.points, checked.of), (50, 50));
    let long = checked_sweep("\"20 s\"", "\"20 s\"", "\"seed\" = \"1 to 1000 by 1\"").expect("fine");
    assert_eq!((long.points, long.of), (100, 1000));
    assert!(long.coverage().expect("a sweep").starts_with("100 of 1000 points"));
}

#[test]
fn a_value_that_a_sweep_overrides_is_checked_too() {
    let delays = "\"link.satellite.delay\" = [\"10 ms\", \"20 ms\"]";
    let error = checked_sweep("\"270 ms\"", "270", delays).unwrap_err();
    assert!(error.contains("18:9: link.satellite.delay: a whole number without a unit"), "{error}");
    // A key that only the sweep has is not missing.
    let without = checked_sweep("delay = \"270 ms\"\n", "", delays).expect("the sweep has the delay");
    assert_eq!((without.points, without.of), (2, 2));
}

#[test]
fn a_point_that_is_captured_twice_is_refused() {
    let probe = "[probe]\ncapture = [\"server:satellite\", \"client:access\", \"server:satellite\"]\n";
    let error = scenario(&format!("{GOOD}{probe}")).expect_err("twice").to_string();
    assert!(
        error.contains("probe.capture.2: \"server:satellite\" is captured twice: expected each point once"),
        "{error}"
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        if let Ok(document) = Document::parse("file.toml", text.as_bytes()) {
            proptest::prop_assert!(checked(&document).is_err(), "a scenario needs more than that");
        }
    }
}

/// Rover and Earth with two orbiters between them, all contacts open.
fn diamond(routing: &str) -> String {
    let pairs = [("rover", "one"), ("rover", "two"), ("one", "earth"), ("two", "earth")];
    let mut text = "title = \"t\"\nduration = \"100 s\"\n[dtn.mars]\n".to_owned();
    text += &format!("routing = {routing}\nplan = \"\"\"\n");
    for (from, to) in pairs {
        text += &format!(
            "a range +0 +999 {from} {to} 1\na contact +0 +999 {from} {to} 9000\na contact +0 +999 {to} {from} 9000\n"
        );
    }
    text += "\"\"\"\n";
    for node in ["rover", "one", "two", "earth"] {
        text +=
            &format!("[node.{node}]\nkind = \"router\"\nrole = {{ kind = \"dtn\", network = \"mars\" }}\n");
    }
    for (from, to) in pairs {
        text += &format!(
            "[link.{from}-{to}]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"\n"
        );
    }
    text + "[flow.measures]\nfrom = \"rover\"\nto = \"earth\"\n\
        traffic = { kind = \"bundles\", payload = \"100 B\", interval = \"1 s\", bundles = 50 }\n"
}

#[test]
fn bundles_go_as_their_network_says() {
    let run = |routing: &str| {
        let scenario = scenario(&diamond(routing)).unwrap_or_else(|refusal| panic!("{routing}: {refusal}"));
        let mut built = bentpipe_assemble::Built::new(&scenario, 1, &bentpipe_scenario::Access::default())
            .expect("possible");
        built.network.run_until(bentpipe_units::Time::ZERO + bentpipe_units::Span::from_secs(100));
        built.network.work().deliveries
    };
    let of = |routing: &str| run(&format!("{{ kind = {routing} }}"));
    let [waiting, two, all, routed] = [
        "\"spray-and-wait\", copies = 1",
        "\"spray-and-wait\", copies = 2",
        "\"epidemic\"",
        "\"static\", routes = { rover = { earth = \"one\" }, one = { default = \"earth\" } }",
    ]
    .map(of);
    assert_eq!(of("\"contact-graph\""), routed, "one way of two hops");
    // One copy never leaves. Of two, one goes to an orbiter, and the other stays. All copies cross all links.
    assert!(waiting < two && two <= routed && routed < all, "{waiting} {two} {routed} {all}");
}

#[test]
fn routing_of_bundles_is_refused_with_its_key() {
    let said = |routing: &str| {
        let scenario = scenario(&diamond(routing)).map_err(|refusal| refusal.to_string());
        let built = scenario.and_then(|scenario| {
            let built = bentpipe_assemble::Built::new(&scenario, 1, &bentpipe_scenario::Access::default());
            built.map(|_| ()).map_err(|problem| problem.to_string())
        });
        built.expect_err(routing)
    };
    for (routing, words) in [
        ("{ kind = \"gossip\" }", ["dtn.mars.routing", "gossip"]),
        ("{ kind = \"spray-and-wait\" }", ["dtn.mars.routing", "copies"]),
        ("{ kind = \"spray-and-wait\", copies = 0 }", ["dtn.mars.routing", "copies"]),
        ("{ kind = \"epidemic\", copies = 3 }", ["dtn.mars.routing", "copies"]),
        ("{ kind = \"static\", routes = { venus = {} } }", ["dtn.mars.routing.routes.venus", "no node"]),
        (
            "{ kind = \"static\", routes = { rover = { earth = \"venus\" } } }",
            ["dtn.mars.routing.routes.rover.earth", "no node \"venus\""],
        ),
        (
            "{ kind = \"static\", routes = { rover = { earth = \"earth\" } } }",
            ["dtn.mars.routing.routes.rover.earth", "no contact to \"earth\""],
        ),
    ] {
        let said = said(routing);
        assert!(words.iter().all(|word| said.contains(word)), "{routing}: {said}");
    }
}
