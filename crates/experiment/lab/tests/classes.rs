//! Classes of queues on every medium: ceilings, shares and forecasts of both, and changes while they run.

use bentpipe_lab::budget::Budget;

use crate::common::{built, measured, scenario};

/// Queue with a class of DSCP 46 that has a ceiling, and one with all other packets.
fn queue(ceil: &str) -> String {
    format!(
        "queue = {{ kind = \"classes\", class = [{{ name = \"held\", dscp = [46], ceil = \"{ceil}\" }}, {{ name = \"rest\", weight = 2 }}] }}\n"
    )
}

/// Flow of datagrams of 1000 B in packets of 1028 B.
fn datagrams(name: &str, dscp: u8, rate: &str) -> String {
    format!(
        "[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"udp\", payload = \"1000 B\", dscp = {dscp}, \
         pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }} }}\n"
    )
}

/// Two nodes with a link.
fn between(link: &str, rest: &str) -> String {
    format!("title = \"t\"\nduration = \"40 s\"\nnode.a = {{}}\nnode.b = {{}}\n{link}{rest}")
}

/// Links of all media with queues, each of them of some 1 Mbit/s or more.
fn media(queue: &str) -> Vec<(&'static str, String)> {
    let link = |medium: &str| format!("[link.l]\nbetween = [\"a\", \"b\"]\n{queue}{medium}");
    let dvb = |encapsulation: &str, carrier: &str| {
        link(&format!(
            "delay = \"100 ms\"\nreturn.rate = \"1 Mbit/s\"\nforward.medium = {{ kind = \"dvb\", line = \"c\", encapsulation = \"{encapsulation}\" }}\n[dvb.c]\n{carrier}"
        ))
    };
    let ts = "kind = \"transport-stream\"\nrate = \"2 Mbit/s\"\n";
    let frames = "kind = \"dvb-s2\"\nframe = \"short\"\nsymbol_rate = 1_000_000\n";
    vec![
        ("line", link("rate = \"2 Mbit/s\"\ndelay = \"100 ms\"\n")),
        ("line of no length", link("rate = \"2 Mbit/s\"\n")),
        ("transport stream", dvb("ule", ts)),
        ("frames", dvb("gse", frames)),
        (
            "space",
            link("delay = \"100 ms\"\nmedium = { kind = \"space\", rate = \"2 Mbit/s\", frame = \"aos\" }\n"),
        ),
        (
            "proximity",
            link(
                "delay = \"1 ms\"\nmedium = { kind = \"space\", rate = \"2 Mbit/s\", frame = \"proximity-1\" }\n",
            ),
        ),
        ("wifi", link("medium = { kind = \"wifi\", standard = \"b\", rate = \"11 Mbit/s\" }\n")),
        (
            "terminal",
            format!(
                "carrier.r = {{ preset = \"skyplex\" }}\n{}",
                link(
                    "delay = \"250 ms\"\nreturn.rate = \"1 Mbit/s\"\nforward.medium = { kind = \"dama\", carrier = \"r\", cra = \"1 Mbit/s\" }\n"
                )
            ),
        ),
        ("wimax", format!("cell.c = {{}}\n{}", link("medium = { kind = \"wimax\", cell_name = \"c\" }\n"))),
    ]
}

/// A class that offers twice its ceiling gets it, alone and next to others, which lose nothing. `check` forecasts it.
#[test]
fn a_class_has_its_ceiling_on_every_medium() {
    for (name, link) in media(&queue("200 kbit/s")) {
        let held = datagrams("held", 46, "400 kbit/s");
        let rest = datagrams("rest", 0, "150 kbit/s");
        for flows in [held.clone(), format!("{held}{rest}")] {
            let mut text = between(&link, &flows);
            if name == "wimax" {
                text = text.replace("node.a = {}", "node.a = { kind = \"router\" }");
            }
            let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{name}: {refusal}\n{text}"));
            let of = measured(&scenario, &mut built(&scenario));
            let rate = of("link.l.forward.class.held.rate");
            assert!((rate / 200e3 - 1.0).abs() < 0.005, "{name}: {rate}");
            let goodput = of("flow.held.goodput");
            let expected = 200e3 * 1000.0 / 1028.0;
            assert!((goodput / expected - 1.0).abs() < 0.01, "{name}: {goodput} {expected}");
            let budget = Budget::new(&scenario).expect("ways");
            let ceiling = budget.flows[0].ceiling.as_bps() as f64;
            assert!(
                ceiling > goodput * 0.999 && ceiling < 1.01 * expected,
                "{name}: {ceiling} {goodput}\n{budget}"
            );
            if flows.contains("flow.rest") {
                assert_eq!(of("flow.rest.loss"), 0.0, "{name}");
                let rate = of("link.l.forward.class.rest.rate");
                assert!((rate / 150e3 - 1.0).abs() < 0.02, "{name}: {rate}");
                let ceiling = budget.flows[1].ceiling.as_bps() as f64;
                assert!(ceiling > 500e3, "{name}: {ceiling}\n{budget}");
            }
        }
    }
}

/// Datagrams of three classes share a line by their rates, ceilings and weights.
#[test]
fn classes_share_a_line() {
    let queue = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n\
        [link.l.queue]\nkind = \"classes\"\n\
        [[link.l.queue.class]]\nname = \"one\"\ndscp = [46]\nrate = \"3 Mbit/s\"\n\
        [[link.l.queue.class]]\nname = \"two\"\ndscp = [10]\nrate = \"2 Mbit/s\"\nweight = 2\nceil = \"2500 kbit/s\"\n\
        [[link.l.queue.class]]\nname = \"three\"\nrate = \"1 Mbit/s\"\nweight = 5\n";
    let all = [
        datagrams("one", 46, "12 Mbit/s"),
        datagrams("two", 10, "12 Mbit/s"),
        datagrams("three", 0, "12 Mbit/s"),
    ]
    .concat();
    let scenario = scenario(&between(queue, &all)).unwrap_or_else(|refusal| panic!("{refusal}"));
    let of = measured(&scenario, &mut built(&scenario));
    // Of the 4 Mbit/s beyond guarantees the second could have 1, but 0.5 reach its ceiling. The others share 3.5 as 1 to 5.
    for (class, expected) in [("one", 3e6 + 3.5e6 / 6.0), ("two", 2.5e6), ("three", 1e6 + 3.5e6 * 5.0 / 6.0)]
    {
        let rate = of(&format!("link.l.forward.class.{class}.rate"));
        assert!((rate / expected - 1.0).abs() < 0.03, "{class}: {rate}");
    }
    let [rates, sent] = [
        ["one", "two", "three"]
            .map(|class| of(&format!("link.l.forward.class.{class}.rate")))
            .iter()
            .sum::<f64>(),
        of("link.l.forward.rate"),
    ];
    assert!((rates / sent - 1.0).abs() < 0.001, "{rates} {sent}");
}

/// Ceilings that events change hold from then on.
#[test]
fn a_ceiling_changes_while_it_runs() {
    for (name, link) in media(&queue("200 kbit/s")) {
        let event = "[[event]]\nat = \"22 s\"\nset = { \"link.l.queue\" = { kind = \"classes\", class = [\
            { name = \"held\", dscp = [46], ceil = \"100 kbit/s\" }, { name = \"rest\" }] } }\n";
        let mut text = between(&link, &datagrams("held", 46, "400 kbit/s")) + event;
        if name == "wimax" {
            text = text.replace("node.a = {}", "node.a = { kind = \"router\" }");
        }
        if name == "terminal" {
            // A terminal takes no other queue while it runs.
            continue;
        }
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{name}: {refusal}\n{text}"));
        let rate = measured(&scenario, &mut built(&scenario))("link.l.forward.class.held.rate");
        assert!((rate / 155e3 - 1.0).abs() < 0.01, "{name}: {rate}");
    }
}

/// Ceilings are forecast as events change them. One behind the end of the run changes nothing.
#[test]
fn ceilings_that_events_change_are_forecast() {
    let link = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n\
        forward.queue = { kind = \"classes\", class = [{ name = \"held\", ceil = \"300 kbit/s\" }] }\n";
    let event = |at: &str, ceil: &str, more: &str| {
        format!(
            "[[event]]\nat = \"{at}\"\nset = {{ \"link.l.forward.queue.class.0.ceil\" = \"{ceil}\" }}\n{more}"
        )
    };
    let part = 1000.0 / 1028.0;
    for (events, expected) in [
        (event("20 s", "500 kbit/s", ""), 400e3),
        (event("10 s", "100 kbit/s", "hold = \"20 s\"\n"), 200e3),
        (event("50 s", "500 kbit/s", ""), 300e3),
        (String::new(), 300e3),
    ] {
        let text = between(link, &datagrams("f", 0, "4 Mbit/s")) + &events;
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        let goodput = measured(&scenario, &mut built(&scenario))("flow.f.goodput");
        let budget = Budget::new(&scenario).expect("ways");
        let most = budget.flows[0].ceiling.as_bps() as f64;
        assert!(goodput < 1.001 * most && most < 1.01 * part * expected, "{goodput} {most}\n{budget}");
        assert_eq!(budget.flows[0].bottleneck, "l forward", "{budget}");
    }
}

/// A transfer in a class whose ceiling rises takes no less than is forecast, and not much more.
#[test]
fn a_transfer_follows_a_ceiling_that_rises() {
    let link = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n\
        forward.queue = { kind = \"classes\", class = [{ name = \"held\", ceil = \"300 kbit/s\" }] }\n";
    let flow = "[flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"tcp\", controller = \"cubic\" }\n\
        application = { kind = \"bulk\", size = \"100 kB\" }\n\
        [[event]]\nat = \"1 s\"\nset = { \"link.l.forward.queue.class.0.ceil\" = \"2 Mbit/s\" }\n";
    let text = between(link, flow);
    let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
    let of = measured(&scenario, &mut built(&scenario));
    let budget = Budget::new(&scenario).expect("ways");
    let flow = &budget.flows[0];
    let least = flow.tcp.as_ref().and_then(|tcp| tcp.completion).expect("a size").as_secs_f64();
    let took = of("flow.f.completion");
    assert!((1.0..1.15).contains(&(took / least)), "{took} for {least}\n{budget}");
    assert!(of("flow.f.goodput") < 1.001 * flow.ceiling.as_bps() as f64, "{budget}");
}

/// A class below its ceiling does not take from others, though it offers more.
#[test]
fn what_a_class_holds_back_is_taken_from_no_other() {
    let link = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"500 kbit/s\"\ndelay = \"1 ms\"\n\
        forward.queue = { kind = \"classes\", class = [{ name = \"ef\", dscp = [46], ceil = \"100 kbit/s\" }, \
        { name = \"rest\", ceil = \"200 kbit/s\" }] }\n";
    let flows = format!("{}{}", datagrams("u", 0, "600 kbit/s"), datagrams("v", 46, "400 kbit/s"));
    let found = |link: &str| {
        let scenario = scenario(&between(link, &flows)).unwrap_or_else(|refusal| panic!("{refusal}"));
        Budget::new(&scenario).expect("ways").to_string().contains("sends more than its share")
    };
    assert!(!found(link));
    assert!(found(&link.replace("200 kbit/s", "490 kbit/s")));
}

#[test]
fn what_classes_have_is_noted() {
    let shown = |queue: &str, rate: &str| {
        let link = format!("[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"{rate}\"\n{queue}");
        let text = between(&link, &datagrams("f", 46, "100 kbit/s"));
        let scenario = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        Budget::new(&scenario).expect("ways").to_string()
    };
    let classes = "queue = { kind = \"classes\", class = [{ name = \"held\", dscp = [46], rate = \"1 Mbit/s\", ceil = \"3 Mbit/s\" }, \
        { name = \"rest\", priority = 2, queue = { kind = \"codel\" } }] }\n";
    let note = "classes of its queue, in IP packets: held at least 1 Mbit/s, at most 3 Mbit/s, priority 0, weight 1; rest priority 2, weight 1";
    let found = shown(classes, "4 Mbit/s");
    assert!(found.contains(note), "{found}");
    assert!(!found.contains("none can rely"), "{found}");
    let found = shown(classes, "500 kbit/s");
    assert!(
        found.contains("its classes are guaranteed 1 Mbit/s, more than the 500 kbit/s that it carries"),
        "{found}"
    );
    assert!(found.contains("the target of class rest of its queue, 5.0 ms, is less than"), "{found}");
    let found = shown("queue = { kind = \"dualpi2\" }\n", "4 Mbit/s");
    assert!(
        found.contains("`step_thresh` of its queue marks from 1.0 ms on, less than the 2.1 ms"),
        "{found}"
    );
    let found = shown("queue = { kind = \"dualpi2\", min_qlen_step = 1 }\n", "4 Mbit/s");
    assert!(!found.contains("step_thresh"), "{found}");
}
