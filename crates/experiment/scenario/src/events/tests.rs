use super::*;
use crate::{Document, Moment, Scenario};

const LINK: &str = r#"
title = "t"
duration = "60 s"
node.a = {}
node.b = {}
[link.hop]
between = ["a", "b"]
rate = "8 Mbit/s"
delay = "10 ms"
channel = { kind = "packet-errors", loss = 0.1 }
"#;

fn scenario(events: &str) -> Result<Scenario, String> {
    let document = Document::parse("file.toml", format!("{LINK}{events}").as_bytes()).expect("TOML");
    document.scenario().map_err(|refusal| refusal.to_string())
}

/// Returns the states after each event.
fn states(scenario: &Scenario) -> Vec<Scenario> {
    let mut state = Scenario { event: Vec::new(), timeline: [].into(), ..scenario.clone() };
    let after = |moment: &Moment| {
        assert!(!moment.difference.is_more, "{:?}", moment.changes);
        moment.difference.apply(&mut state);
        state.clone()
    };
    scenario.timeline.iter().map(after).collect()
}

/// Returns times and changes, as text.
fn timeline(events: &str) -> Vec<String> {
    let scenario = scenario(events).unwrap_or_else(|refusal| panic!("{refusal}"));
    let shown = |moment: &Moment| {
        let changes: Vec<String> = moment
            .changes
            .iter()
            .map(|(key, value)| format!("{key} {}", value.as_deref().unwrap_or("-")))
            .collect();
        format!("{}: {}", moment.at, changes.join(", "))
    };
    scenario.timeline.iter().map(shown).collect()
}

#[test]
fn steps_and_ramps_take_values_from_what_holds_at_their_time() {
    let set = "[[event]]\nat = \"5 s\"\nset = { \"link.hop.rate\" = \"2 Mbit/s\" }\n";
    assert_eq!(timeline(set), ["5 s: link.hop.rate 2 Mbit/s"]);
    let scaled =
        "[[event]]\nat = \"9 s\"\nscale.link.hop.rate = 0.5\nadd = { \"link.hop.delay\" = \"-4 ms\" }\n";
    // An event that comes first in time counts first, wherever it is in the file.
    let both = format!("{scaled}{set}");
    assert_eq!(
        timeline(&both),
        ["5 s: link.hop.rate 2 Mbit/s", "9 s: link.hop.delay 6 ms, link.hop.rate 1 Mbit/s"]
    );
    let ramp = "[[event]]\nat = \"10 s\"\nset = { \"link.hop.forward.rate\" = \"2 Mbit/s\" }\nover = \"3 s\"\nramp = \"1 s\"\n";
    assert_eq!(
        timeline(ramp),
        [
            "11 s: link.hop.forward.rate 6 Mbit/s",
            "12 s: link.hop.forward.rate 4 Mbit/s",
            "13 s: link.hop.forward.rate 2 Mbit/s"
        ],
        "a direction starts from its link's value"
    );
    assert_eq!(timeline(&ramp.replace("ramp = \"1 s\"\n", "")).len(), 20);
}

#[test]
fn a_held_change_returns_along_its_ramp() {
    let held = "[[event]]\nat = \"10 s\"\nset = { \"link.hop.channel.loss\" = 0.3 }\nover = \"2 s\"\nramp = \"1 s\"\nhold = \"5 s\"\n";
    let loss = |value: &str| format!("link.hop.channel.loss {value}");
    assert_eq!(
        timeline(held),
        [
            format!("11 s: {}", loss("0.2")),
            format!("12 s: {}", loss("0.3")),
            format!("18 s: {}", loss("0.2")),
            format!("19 s: {}", loss("0.1"))
        ]
    );
    let times: Vec<Span> =
        scenario(held).expect("a scenario").event[0].instants(Span::from_secs(60)).collect();
    assert_eq!(times, [10, 12, 17, 19].map(Span::from_secs));
}

#[test]
fn states_are_scenarios_of_their_own_and_the_first_is_untouched() {
    let scenario = scenario("[[event]]\nat = \"5 s\"\nset = { \"link.hop.rate\" = \"2 Mbit/s\" }\n");
    let scenario = scenario.expect("a scenario");
    let rate = |scenario: &Scenario| scenario.link["hop"].rate.map(Rate::as_bps);
    assert_eq!((rate(&scenario), rate(&states(&scenario)[0])), (Some(8_000_000), Some(2_000_000)));
    assert_eq!(scenario.timeline[0].difference.len(), 1, "it has nothing else");
}

/// The run is 60 s long.
#[test]
fn an_event_repeats_up_to_its_number_or_the_end_of_the_run() {
    let outage = |more: &str| {
        format!(
            "[[event]]\nat = \"10 s\"\nset = {{ \"link.hop.rate\" = \"0 bit/s\" }}\nhold = \"1 s\"\n{more}\n"
        )
    };
    let rate = |at: u64, value: &str| format!("{at} s: link.hop.rate {value}");
    let twice = [rate(10, "0 bit/s"), rate(11, "8 Mbit/s"), rate(25, "0 bit/s"), rate(26, "8 Mbit/s")];
    assert_eq!(timeline(&outage("every = \"15 s\"\ntimes = 2")), twice);
    assert_eq!(timeline(&outage("every = \"15 s\"")).len(), 8, "at 10, 25, 40 and 55 s");
    let rising =
        "[[event]]\nat = \"1 s\"\nadd = { \"link.hop.delay\" = \"1 ms\" }\nevery = \"1 s\"\ntimes = 3\n";
    let last = timeline(rising).pop().expect("three");
    assert_eq!(last, "3 s: link.hop.delay 13 ms");
    for (more, problem) in [
        ("times = 2", "event.0.times: expected `every`"),
        ("every = \"0 s\"", "event.0.every: expected more than no time"),
        ("every = \"500 ms\"", "another event still changes it"),
        ("every = \"1 s\"\ntimes = 0", "event.0.times"),
    ] {
        let refusal = scenario(&outage(more)).err().unwrap_or_else(|| panic!("{more} is taken"));
        assert!(refusal.contains(problem), "{more}: {refusal}");
    }
    let refusal = scenario(&outage("every = \"2 s\"\ntimes = 4000000000")).expect_err("too many");
    assert!(refusal.contains("more than 10000 changes"), "{refusal}");
}

#[test]
fn a_line_may_be_down_from_an_event_on_but_not_at_the_start() {
    let down = "[[event]]\nat = \"5 s\"\nset = { \"link.hop.rate\" = \"0 Mbit/s\" }\n";
    assert_eq!(timeline(down), ["5 s: link.hop.rate 0 Mbit/s"]);
    let text = LINK.replace("8 Mbit/s", "0 bit/s");
    let refusal = Document::parse("file.toml", text.as_bytes()).expect("TOML").scenario().map(drop);
    assert!(refusal.expect_err("no rate").to_string().contains("expected more than zero"));
}

#[test]
fn wrong_events_are_reported_at_their_place() {
    let event = |rest: &str| format!("[[event]]\nat = \"5 s\"\n{rest}\n");
    for (rest, place, problem) in [
        ("set = { \"link.hop.rate\" = \"fast\" }", "file.toml:13:", "a rate such as"),
        ("set = { \"link.hopp.rate\" = \"1 Mbit/s\" }", "file.toml:13:", "no link is called \"hopp\""),
        ("set = { \"link.hop.speed\" = 1 }", "file.toml:13:", "unknown key"),
        // The value of the file is right until the event.
        (
            "set = { \"link.hop.channel.kind\" = \"outages\" }",
            "file.toml:13:",
            "link.hop.channel.kind: link.hop.channel.loss: unknown key",
        ),
        ("add = { \"link.hop.delay\" = \"-1 s\" }", "file.toml:13:", "would fall below zero"),
        ("add = { \"link.hop.delay\" = \"1 Mbit/s\" }", "file.toml:13:", "of another kind"),
        ("scale = { \"link.hop.rate\" = \"2 s\" }", "file.toml:13:", "expected a factor"),
        ("scale = { \"link.hop.forward.queue.packets\" = 2 }", "file.toml:13:", "no value of this key"),
        ("file = \"fade.csv\"\nhold = \"2 s\"", "file.toml:13:", "conflicts with"),
        ("file = \"absent.csv\"", "file.toml:13:", "absent.csv: this scenario may read no file"),
        ("over = \"1 s\"", "file.toml:11:", "changes nothing"),
        (
            "set = { \"link.hop.rate\" = \"1 Mbit/s\" }\nover = \"9 s\"\nramp = \"0 s\"",
            "file.toml:13:",
            "more than no time",
        ),
        (
            "set = { \"link.hop.rate\" = \"1 Mbit/s\" }\nover = \"9 s\"\nramp = \"1 us\"",
            "file.toml:13:",
            "more than 10000 changes",
        ),
        ("set = { \"link.hop.channel\" = \"none\" }\nover = \"9 s\"", "file.toml:13:", "expected a number"),
    ] {
        let refusal = scenario(&event(rest)).err().unwrap_or_else(|| panic!("{rest} is taken"));
        assert!(refusal.contains(place) && refusal.contains(problem), "{rest}: {refusal}");
    }
    let overlapping =
        "[[event]]\nat = \"1 s\"\nset = { \"link.hop.rate\" = \"1 Mbit/s\" }\nover = \"9 s\"\n".to_owned();
    let refusal = scenario(&(overlapping + &event("set = { \"link.hop.rate\" = \"2 Mbit/s\" }"))).err();
    assert!(refusal.is_some_and(|text| text.contains("another event still changes it")));
}

#[test]
fn a_key_that_the_file_does_not_give_starts_from_its_default_and_returns_to_it() {
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"tcp\" }\n";
    let count = "[[event]]\nat = \"5 s\"\nadd = { \"flow.f.count\" = 2, \"flow.f.start\" = \"3 s\" }\n";
    assert_eq!(timeline(&format!("{flow}{count}")), ["5 s: flow.f.count 3, flow.f.start 3 s"]);
    let shaped =
        "[[event]]\nat = \"5 s\"\nset = { \"link.hop.forward.queue.packets\" = 9 }\nhold = \"1 s\"\n";
    let with_queue = "[link.hop.forward]\nqueue.kind = \"drop-tail\"\n";
    let all = timeline(&format!("{with_queue}{shaped}"));
    assert_eq!(all, ["5 s: link.hop.forward.queue.packets 9", "6 s: link.hop.forward.queue.packets -"]);
    let scenario = scenario(&format!("{with_queue}{shaped}")).expect("a scenario");
    assert_eq!(states(&scenario)[1].link, scenario.link, "as at the start");
    let off = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"tcp\" }\n\
               [[event]]\nat = \"5 s\"\nset = { \"flow.f.active\" = false }\nhold = \"1 s\"\n";
    assert_eq!(timeline(off), ["5 s: flow.f.active false", "6 s: flow.f.active -"]);
}

#[test]
fn a_file_sets_keys_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("{LINK}[[event]]\nat = \"10 s\"\nfile = \"fade.csv\"\n");
    let read = |csv: &str| {
        std::fs::write(folder.path().join("fade.csv"), csv).expect("written");
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        let access = Access::beneath(folder.path()).expect("a folder");
        document.with_access(access).scenario().map_err(|refusal| refusal.to_string())
    };
    let scenario =
        read("time_s,link.hop.rate,link.hop.channel.loss\n0,4 Mbit/s,0.2\n1.5,2 Mbit/s,\n").expect("fine");
    let at: Vec<Span> = scenario.timeline.iter().map(|moment| moment.at).collect();
    assert_eq!(at, [Span::from_secs(10), Span::from_millis(11_500)]);
    let states = states(&scenario);
    let rates = states.iter().map(|state| state.link["hop"].rate.map(Rate::as_bps));
    assert_eq!(rates.collect::<Vec<_>>(), [Some(4_000_000), Some(2_000_000)]);
    for (csv, problem) in [
        ("time_s,link.hop.speed\n0,1\n", "unknown key"),
        ("time_s,link.hopp.rate\n0,1 Mbit/s\n", "fade.csv:2: link.hopp.rate: no link is called"),
        ("time_s,link.hop.rate\n0,fast\n", "a rate such as"),
        ("time_s,link.hop.rate\n0,4 Mbit/s\n2,0\n", "fade.csv:3: link.hop.rate: "),
        ("time_s,link.hop.rate\n0,0\n", "fade.csv:2: link.hop.rate: "),
        ("when\n", "fade.csv:1: \"when\": expected time_s"),
    ] {
        let refusal = read(csv).expect_err(csv);
        assert!(refusal.contains(problem), "{csv}: {refusal}");
    }
}
