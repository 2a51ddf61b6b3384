//! Datagrams longer than their path's MTU: carried in fragments, budgeted, refused by choice.

use crate::accounts::{Run, flow, path};
use crate::common::{built, measured, scenario};
use bentpipe_lab::budget::Budget;
use bentpipe_net::Why;
use bentpipe_net::ledger::Entry;
use bentpipe_record::LedgerColumn;

/// Datagrams of 4000 bytes and pings over a path whose MTU is 1280 bytes behind the first hop, one way in a hundred frames lost.
fn text(ip: u8, forward: &str) -> String {
    format!(
        r#"
title = "Long datagrams"
duration = "20 s"
node.left = {{}}
node.near = {{ kind = "router" }}
node.far = {{ kind = "router" }}
node.right = {{}}
node.third = {{}}
group.both = {{ address = "{group}", members = ["right", "third"] }}
link.lan = {{ between = ["left", "near"], rate = "100 Mbit/s", delay = "1 ms", mtu = "1500 B" }}
link.sky = {{ between = ["near", "far"], rate = "10 Mbit/s", delay = "100 ms", mtu = "1280 B"{forward} }}
link.east = {{ between = ["far", "right"], rate = "100 Mbit/s", delay = "1 ms", mtu = "1500 B" }}
link.west = {{ between = ["far", "third"], rate = "100 Mbit/s", delay = "1 ms", mtu = "1500 B" }}
[flow.one]
from = "left"
to = "right"
ip = {ip}
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "10 ms" }}, payload = "4000 B" }}
[flow.all]
from = "left"
to = "both"
ip = {ip}
traffic = {{ kind = "udp", pattern = {{ kind = "constant", interval = "100 ms" }}, payload = "2000 B" }}
[flow.echo]
from = "right"
to = "left"
ip = {ip}
traffic = {{ kind = "ping", interval = "100 ms", payload = "3000 B" }}
"#,
        group = if ip == 4 { "239.1.1.1" } else { "ff0e::1" },
    )
}

#[test]
fn datagrams_groups_and_pings_longer_than_the_mtu_arrive() {
    for ip in [4, 6] {
        let scenario = scenario(&text(ip, "")).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut built = built(&scenario);
        let value = measured(&scenario, &mut built);
        let goodput = value("flow.one.goodput");
        assert!((goodput - 3_200_000.0).abs() < 32_000.0, "IPv{ip}: {goodput}");
        // Both members have the group's datagrams; some of 0.1 s are under way at the end.
        let (right, third) = (value("node.right.reassembled"), value("node.third.reassembled"));
        assert!((2380.0..=2400.0).contains(&right) && (197.0..=200.0).contains(&third), "{right} {third}");
        assert!(value("flow.echo.rtt-min") > 0.204, "IPv{ip}");
        // All but those under way at the end.
        let sent = value("node.left.fragments") + value("node.right.fragments");
        assert!(sent >= 2000.0 * 4.0 + 200.0 * 2.0 + 400.0 * 3.0 - 40.0, "IPv{ip}: {sent}");
        for node in ["left", "near", "far", "right", "third"] {
            for cause in ["too-big", "reassembly", "bad-header", "no-listener"] {
                assert_eq!(value(&format!("node.{node}.dropped-{cause}")), 0.0, "IPv{ip}: {node}, {cause}");
            }
        }
    }
}

#[test]
fn a_lost_fragment_loses_its_datagram() {
    let lossy = ", forward.channel = { kind = \"packet-errors\", loss = 0.02 }";
    for ip in [4, 6] {
        let scenario = scenario(&text(ip, lossy)).unwrap_or_else(|refusal| panic!("{refusal}"));
        let value = measured(&scenario, &mut built(&scenario));
        // Four fragments: 1 - 0.98^4 is 7.8 %; the deviation of 2000 datagrams is 0.6.
        let loss = 1.0 - value("flow.one.goodput") / 3_200_000.0;
        assert!((0.060..0.096).contains(&loss), "IPv{ip}: {loss}");
    }
}

#[test]
fn a_budget_counts_the_fragments() {
    let budget = Budget::new(&scenario(&text(4, "")).expect("a scenario")).expect("a way");
    let one = budget.flows.iter().find(|flow| flow.name == "one").expect("the flow");
    // 4008 bytes behind IP in pieces of 1256: four headers of 20.
    assert_eq!((one.fragments, one.packet.get(), one.payload.get()), (4, 4088 / 4, 1000));
    let share = 4000.0 / 4088.0;
    assert!((one.ceiling.as_bps() as f64 / 1e7 - share).abs() < 0.01, "{:?}", one.ceiling);
    assert!(budget.to_string().contains("mean of the 4 fragments of a datagram"), "{budget}");
    let scenario = scenario(&text(4, "")).expect("a scenario");
    // The other flows' packets are in the way of the replies.
    let echo = budget.flows.iter().find(|flow| flow.name == "echo").expect("the flow");
    let value = measured(&scenario, &mut built(&scenario));
    let (least, measured) = (echo.min_rtt.expect("answers").as_secs_f64(), value("flow.echo.rtt-min"));
    assert!(least > 0.204 && (least..least + 0.005).contains(&measured), "{measured} for {least}");
}

#[test]
fn who_forbids_fragments_is_told_of_datagrams_that_need_them() {
    let text = text(6, "").replace("to = \"right\"\nip = 6", "to = \"right\"\nip = 6\ndont_fragment = true");
    let refused = scenario(&text).expect_err("refused");
    let expected = "flow.one.traffic.payload: makes packets of 4048 B: \
                    expected at most the path's MTU, 1280 B, with `dont_fragment`";
    assert!(refused.contains(expected), "{refused}");
    let refused = scenario(&text.replace("dont_fragment = true", "").replace("4000 B", "65500 B"));
    let refused = refused.expect_err("refused");
    assert!(refused.contains("makes packets of 65548 B: expected at most 65535 B"), "{refused}");
}

/// A sender makes one packet for all members, whose fragments fit the least MTU of them, and each loses with its own.
#[test]
fn a_group_is_forecast_with_the_fragments_of_its_least_mtu() {
    for (ip, mtus) in [(4, [400, 1500]), (6, [1500, 1280]), (4, [1500, 1500])] {
        let group = if ip == 4 { "239.1.1.1" } else { "ff0e::1" };
        let payload = if ip == 4 { 1000 } else { 1400 };
        let text = format!(
            "title = \"t\"\nduration = \"200 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.y = {{}}\nnode.z = {{}}\n\
             group.g = {{ address = \"{group}\", members = [\"y\", \"z\"] }}\n\
             link.u = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\", \
             forward.channel = {{ kind = \"packet-errors\", loss = 0.05 }} }}\n\
             link.y = {{ between = [\"r\", \"y\"], rate = \"10 Mbit/s\", delay = \"5 ms\", mtu = \"{} B\" }}\n\
             link.z = {{ between = [\"r\", \"z\"], rate = \"10 Mbit/s\", delay = \"5 ms\", mtu = \"{} B\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"g\"\nip = {ip}\n\
             traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"10 ms\" }}, payload = \"{payload} B\" }}\n",
            mtus[0], mtus[1]
        );
        let of = scenario(&text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let value = measured(&of, &mut built(&of));
        let (found, fragments) = (value("flow.f.loss"), value("node.a.fragments"));
        let members = Budget::new(&of).expect("ways").flows;
        assert_eq!(members.len(), 2, "{text}");
        for member in members {
            // 20,000 datagrams: the deviation of a loss of 14 % is 0.25 %.
            assert!((member.lost - found).abs() < 0.01, "{found} for {}\n{text}", member.lost);
            let pieces = (fragments / 20_000.0).round().max(1.0);
            assert_eq!(f64::from(member.fragments as u32), pieces, "{text}");
        }
    }
}

/// One frame in twenty is lost on the channel, and so more datagrams than frames of a hundred.
#[test]
fn a_datagram_whose_fragment_is_lost_is_booked_where_it_was_lost() {
    for ip in [4, 6] {
        let lossy = ", forward.channel = { kind = \"packet-errors\", loss = 0.05 }";
        let scenario = scenario(&text(ip, lossy)).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut built = built(&scenario);
        drop(measured(&scenario, &mut built));
        let statements = built.network.close();
        let one =
            statements.iter().find(|statement| &*statement.sender == "flow/one/sender").expect("an account");
        let [mut channel, mut elsewhere] = [0; 2];
        for (entry, place, packets) in &one.entries {
            match entry {
                Entry::Dropped(Why::Channel) if &**place == "link/sky/forward/channel" => channel += packets,
                Entry::Dropped(_) => elsewhere += packets,
                _ => {}
            }
        }
        // Four fragments each: 1 - 0.95^4.
        let share = channel as f64 / one.account.sent as f64;
        assert!((share - 0.185).abs() < 0.03 && elsewhere == 0, "IPv{ip}: {share}, {:?}", one.entries);
        assert_eq!(one.elsewhere(), 0, "IPv{ip}: {one:?}");
    }
}

const SIP: &str = "{ kind = \"sip\", interval = \"1 s\", hold = \"3 s\", ring = \"200 ms\", media = { codec = \"g711a\" } }";
const TRUNK: &str = "{ kind = \"iax\", interval = \"500 ms\", hold = \"20 s\", ring = \"200 ms\", codec = \"g711a\", trunk = \"20 ms\" }";

/// Checks that a run has at least some fragments, and drops nothing as too long.
fn check_fits(name: &str, run: &Run, least: f64) {
    run.check(name);
    let of_node = |end: &str| -> f64 {
        run.values.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, value)| value).sum()
    };
    assert!(of_node(".fragments") >= least, "{name}: {}", of_node(".fragments"));
    assert_eq!(of_node(".dropped-too-big"), 0.0, "{name}");
    assert!(!run.ledger.iter().any(|row| row.reason == "too-big"), "{name}: {:#?}", run.ledger);
}

#[test]
fn calls_travel_in_fragments_where_their_path_is_narrow() {
    for (mtu, traffic) in [(300, SIP), (150, SIP), (576, TRUNK), (300, TRUNK)] {
        let text = path(20, &format!(", mtu = \"{mtu} B\""), &flow("c", traffic));
        let run = Run::new(&text);
        check_fits(&text, &run, 50.0);
        let calls = run.value("flow.c.calls-established");
        assert!(calls > 5.0 && calls >= run.value("flow.c.calls") - 2.0, "{mtu}: {calls}");
        assert_eq!(run.column("flow.c.sender", LedgerColumn::Dropped), 0, "{mtu}");
    }
}

#[test]
fn calls_of_two_flows_have_fragments_of_their_own() {
    // Both ends of both flows are at the same addresses: identifications are the nodes'.
    let flows = ["one", "two", "three"].map(|name| flow(name, SIP)).concat();
    let run = Run::new(&path(20, ", mtu = \"300 B\"", &flows));
    check_fits("three flows", &run, 50.0);
    for name in ["one", "two", "three"] {
        assert_eq!(run.value(&format!("flow.{name}.receiver.dropped-bad-checksum")), 0.0, "{name}");
        assert!(run.value(&format!("flow.{name}.calls-established")) > 5.0, "{name}");
    }
}

#[test]
fn calls_that_may_not_be_fragmented_are_refused_where_they_do_not_fit() {
    let text = |mtu: u32, traffic: &str| {
        path(5, &format!(", mtu = \"{mtu} B\""), &(flow("c", traffic) + "dont_fragment = true\n"))
    };
    let refusal = |mtu, traffic| scenario(&text(mtu, traffic)).expect_err("refused");
    let long = refusal(300, SIP);
    assert!(long.contains("flow.c.traffic.kind: makes packets of "), "{long}");
    assert!(long.contains("expected at most the path's MTU, 300 B, with `dont_fragment`"), "{long}");
    let trunk = refusal(576, TRUNK);
    assert!(trunk.contains("flow.c.traffic.codec: makes packets of 1236 B: expected at most"), "{trunk}");
    // What is said to fit does.
    let least = (300..1500).find(|mtu| scenario(&text(*mtu, SIP)).is_ok()).expect("an MTU");
    let run = Run::new(&text(least, SIP).replacen("5 s", "20 s", 1));
    run.check("no fragments");
    assert!((400..1200).contains(&least), "{least}");
    assert!(!run.ledger.iter().any(|row| row.reason == "too-big"), "{least}: {:#?}", run.ledger);
}

#[test]
fn exchanges_fragment_for_their_phones_and_trunks() {
    let narrow = "delay = \"50 ms\"\nmtu = \"300 B\"";
    // Frames of IAX2 are short.
    for (protocol, least) in [("", 0.0), (", protocol = \"sip\"", 10.0)] {
        let text = crate::books::offices(60, narrow, protocol, "");
        let run = Run::new(&text);
        check_fits(protocol, &run, least);
        assert!(run.value("flow.s.calls-established") >= 2.0, "{protocol}");
    }
    let lan = crate::books::offices(60, "delay = \"50 ms\"", "", "").replace(
        "rate = \"100 Mbit/s\", delay = \"1 ms\"",
        "rate = \"100 Mbit/s\", delay = \"1 ms\", mtu = \"300 B\"",
    );
    let run = Run::new(&lan);
    check_fits("phones", &run, 10.0);
    assert!(run.value("flow.s.calls-established") >= 2.0);
}

#[test]
fn bundles_travel_over_narrow_paths() {
    for layer in ["udp", "ltp", "ltp-green", "dccp", "tcpcl"] {
        let role = "role = { kind = \"dtn\", network = \"net\" }";
        let text = format!(
            "title = \"t\"\nduration = \"60 s\"\nnode.a = {{ {role} }}\nnode.b = {{ {role} }}\n\
             [dtn.net]\nlayer = \"{layer}\"\nplan = \"\"\"\na range +0 +9000 a b 0.1\n\
             a contact +0 +9000 a b 125000\na contact +0 +9000 b a 125000\n\"\"\"\n\
             [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\nmtu = \"576 B\"\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", interval = \"200 ms\", payload = \"4 kB\" }}\n"
        );
        let run = Run::new(&text);
        match layer {
            "tcpcl" => assert!(!run.ledger.iter().any(|row| row.reason == "too-big"), "{:#?}", run.ledger),
            _ => check_fits(layer, &run, 50.0),
        }
        let delivered = run.units("flow.f", bentpipe_net::metric::UnitColumn::Delivered, "");
        assert!(delivered > 280, "{layer}: {}", run.line("flow.f"));
    }
}

#[test]
fn segments_of_proxies_fit_their_paths() {
    let pep = "kind = \"router\", role = { kind = \"pep\", link = \"sky\" }";
    let text = format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.r = {{ {pep} }}\nnode.s = {{ {pep} }}\nnode.b = {{}}\n\
         link.near = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n\
         link.sky = {{ between = [\"r\", \"s\"], rate = \"10 Mbit/s\", delay = \"100 ms\", mtu = \"576 B\" }}\n\
         link.far = {{ between = [\"s\", \"b\"], rate = \"10 Mbit/s\", delay = \"5 ms\", mtu = \"300 B\" }}\n{}",
        flow("t", "\"tcp\"")
    );
    let run = Run::new(&text);
    run.check("proxies");
    assert!(!run.ledger.iter().any(|row| row.reason == "too-big"), "{:#?}", run.ledger);
    assert!(run.value("flow.t.goodput") > 5e6, "{}", run.value("flow.t.goodput"));
}
