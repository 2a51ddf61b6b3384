//! Voice of calls by the budget beside what a run measures on each link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_assemble::Built;
use bentpipe_units::{Span, Time};

use super::*;

/// Phones at two sites, with an exchange each.
const SITES: &str = r#"
title = "phones"
duration = "100 s"
node.pisa-phones = {}
node.pisa-desk = {}
node.pisa-router = { kind = "router" }
node.pisa = { role = "pabx" }
node.genoa = { kind = "router", role = "pabx" }
node.genoa-phones = {}
link.pisa-lan = { between = ["pisa-phones", "pisa-router"], rate = "100 Mbit/s", delay = "1 ms" }
link.desk-lan = { between = ["pisa-desk", "pisa-router"], rate = "100 Mbit/s", delay = "1 ms" }
link.exchange = { between = ["pisa", "pisa-router"], rate = "100 Mbit/s", delay = "1 ms" }
link.satellite = { between = ["pisa-router", "genoa"], rate = "1 Mbit/s", delay = "50 ms" }
link.genoa-lan = { between = ["genoa-phones", "genoa"], rate = "100 Mbit/s", delay = "1 ms" }
pabx.pisa = { rtcp = false, extensions = ["20X"], dial = [{ pattern = "3XX", trunk = "genoa", TRUNK }], PERIOD }
pabx.genoa = { rtcp = false, extensions = ["3XX"], dial = [{ pattern = "020X", trunk = "pisa", strip = 1, TRUNK }] }
"#;

/// Calls from the phones in Pisa; five at a time, if nothing else is asked for.
fn calls(name: &str, to: &str, more: &str) -> String {
    format!(
        "flow.{name} = {{ from = \"pisa-phones\", to = \"{to}\", traffic = {{ kind = \"sip\", ring = \"10 ms\", {more} }} }}\n"
    )
}

const FIVE: &str =
    "interval = \"1 ms\", calls = 5, hold = \"100000 s\", media = { codec = \"g729\", rtcp = \"none\" }";

fn sites(trunk: &str, period: &str, flows: &str) -> String {
    format!("{}{flows}", SITES.replace("TRUNK", trunk).replace("PERIOD", period))
}

/// Compares the voice on each link with the IP packets of a run from the third second on.
fn agrees(text: &str, seconds: u64, tolerance: f64) -> Vec<(String, f64)> {
    let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let budget = Budget::new(&scenario).expect("ways");
    let mut built = Built::new(&scenario, 1, &bentpipe_scenario::Access::default()).expect("possible");
    let mut measured = Vec::new();
    for side in built.links.clone() {
        let bytes = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&bytes);
        built.network.tap(side.input.0, side.input.1, move |_, packet| {
            // Voice and IAX2 have DSCP 46; messages of SIP are not counted.
            let is_voice = packet.to_vec()[1] >> 2 == 46;
            sum.fetch_add(if is_voice { packet.len() as u64 } else { 0 }, Ordering::Relaxed);
        });
        measured.push((side.name.clone(), bytes));
    }
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    built.network.run_until(at(3));
    let before: Vec<u64> = measured.iter().map(|(_, sum)| sum.load(Ordering::Relaxed)).collect();
    built.network.run_until(at(3 + seconds));
    let mut rates = Vec::new();
    for ((link, (name, sum)), before) in budget.links.iter().zip(&measured).zip(before) {
        assert_eq!(&link.name, name);
        let found = 8.0 * (sum.load(Ordering::Relaxed) - before) as f64 / seconds as f64;
        let expected = link.voice.as_ref().map_or(0.0, |voice| voice.rate.as_bps() as f64);
        let place = format!("{name} {}: {found} bit/s, expected {expected}", link.direction);
        assert!((found - expected).abs() <= tolerance * expected, "{place}\n{text}");
        rates.push((format!("{name} {}", link.direction), expected));
    }
    rates
}

fn rate(rates: &[(String, f64)], link: &str) -> f64 {
    rates.iter().find(|(name, _)| name == link).unwrap_or_else(|| panic!("{link}")).1
}

/// Five calls of G.729 in RTP: packets of 60 bytes.
const FIVE_BPS: f64 = 5.0 * 50.0 * 60.0 * 8.0;

#[test]
fn phones_without_an_exchange_send_to_each_other() {
    let rates = agrees(&sites("", "", &calls("direct", "genoa-phones", FIVE)), 5, 0.01);
    assert_eq!(rate(&rates, "satellite return"), FIVE_BPS);
    assert_eq!(rate(&rates, "exchange forward"), 0.0);
}

#[test]
fn calls_within_a_site_pass_its_exchange_alone() {
    let line = format!("{FIVE}, pabx = {{ at = \"pisa\", number = \"201\", dial = \"202\" }}");
    let rates = agrees(&sites("", "", &calls("local", "pisa-desk", &line)), 5, 0.01);
    // From either phone to the exchange, and on to the other.
    assert_eq!(rate(&rates, "exchange forward"), 2.0 * FIVE_BPS);
    assert_eq!(rate(&rates, "desk-lan return"), FIVE_BPS);
    assert_eq!(rate(&rates, "satellite forward"), 0.0);
}

#[test]
fn trunks_have_their_codec_and_form() {
    let line = format!("{FIVE}, pabx = {{ at = \"pisa\", number = \"201\", dial = \"301\" }}");
    let flows = calls("remote", "genoa-phones", &line);
    // GSM of 33 bytes behind 40 of RTP, UDP and IPv4, or 32 of mini frames.
    let rates = agrees(&sites("protocol = \"sip\"", "", &flows), 5, 0.01);
    assert_eq!(rate(&rates, "satellite forward"), 5.0 * 50.0 * 73.0 * 8.0);
    assert_eq!(rate(&rates, "genoa-lan forward"), FIVE_BPS);
    let rates = agrees(&sites("protocol = \"iax\"", "", &flows), 5, 0.01);
    assert_eq!(rate(&rates, "satellite forward"), 5.0 * 50.0 * 65.0 * 8.0);
    // Only Pisa sends trunk frames: 36 bytes of headers for all, and 39 for each call.
    let rates = agrees(&sites("protocol = \"iax\"", "trunk_period = \"20 ms\"", &flows), 5, 0.03);
    assert_eq!(rate(&rates, "satellite forward"), 50.0 * (36.0 + 5.0 * 39.0) * 8.0);
    assert_eq!(rate(&rates, "satellite return"), 5.0 * 50.0 * 65.0 * 8.0);
}

#[test]
fn a_conference_has_a_stream_each_way_for_each_member() {
    let text = sites("protocol = \"sip\"", "", "")
        .replace("extensions = [\"3XX\"]", "extensions = [\"3XX\"], conferences = [{ number = \"400\" }]");
    let text = text.replace("pattern = \"3XX\"", "pattern = \"400\"");
    let member = |n: u32| {
        let one = FIVE.replace("calls = 5", "calls = 1");
        let line = format!("{one}, pabx = {{ at = \"pisa\", number = \"20{n}\", dial = \"400\" }}");
        calls(&format!("member-{n}"), "genoa", &line)
    };
    let rates = agrees(&format!("{text}{}{}{}", member(1), member(2), member(3)), 5, 0.01);
    assert_eq!(rate(&rates, "satellite forward"), 3.0 * 50.0 * 73.0 * 8.0);
    // A mix lists the two others.
    assert_eq!(rate(&rates, "satellite return"), 3.0 * 50.0 * 81.0 * 8.0);
    assert_eq!(rate(&rates, "genoa-lan forward"), 0.0);
}

/// Members are sources of mixes while they speak.
#[test]
fn mixes_list_members_who_pause_while_they_speak() {
    let text = sites("protocol = \"sip\"", "", "")
        .replace("extensions = [\"3XX\"]", "extensions = [\"3XX\"], conferences = [{ number = \"400\" }]")
        .replace("pattern = \"3XX\"", "pattern = \"400\"");
    let member = |n: u32| {
        let one = FIVE.replace("calls = 5", "calls = 1");
        let one = one.replace("rtcp =", "silence_suppression = true, rtcp =");
        let line = format!("{one}, pabx = {{ at = \"pisa\", number = \"20{n}\", dial = \"400\" }}");
        calls(&format!("member-{n}"), "genoa", &line)
    };
    let budget = budget(&format!("{text}{}{}{}", member(1), member(2), member(3)));
    let mixes = budget.links.iter().find(|link| (&*link.name, link.direction) == ("satellite", "return"));
    let rate = mixes.and_then(|link| link.voice.as_ref()).expect("voice").rate.as_bps() as f64;
    // Two others, each for 42.5 % of the time: 3.4 bytes, rounded.
    let expected = 3.0 * 50.0 * 8.0 * 76.0;
    assert!((rate - expected).abs() < 1.0, "{rate} in place of {expected}");
}

/// Bridges that are linked share one call, which is counted once.
#[test]
fn linked_conferences_have_a_stream_each_way() {
    for protocol in ["sip", "iax"] {
        let text = sites(
            &format!("protocol = \"{protocol}\""),
            "conferences = [{ number = \"299\", linked = \"400\" }]",
            "",
        );
        let text = text.replace(
            "extensions = [\"3XX\"]",
            "extensions = [\"3XX\"], conferences = [{ number = \"400\" }]",
        );
        let text = text.replace("pattern = \"3XX\"", "pattern = \"400\"");
        let member = |n: u32| {
            let one = FIVE.replace("calls = 5", "calls = 1");
            let line = format!("{one}, pabx = {{ at = \"pisa\", number = \"20{n}\", dial = \"299\" }}");
            calls(&format!("member-{n}"), "pisa", &line)
        };
        let rates = agrees(&format!("{text}{}{}{}", member(1), member(2), member(3)), 5, 0.01);
        // A mix to the other bridge lists the three members here; nobody is there.
        let packet = if protocol == "sip" { 73.0 + 12.0 } else { 65.0 };
        assert_eq!(rate(&rates, "satellite forward"), 50.0 * packet * 8.0);
    }
}

/// Phones speak for a part of the time, and the noise in their pauses and the reports are not counted.
#[test]
fn phones_with_silence_suppression_send_less() {
    let media = "media = { codec = \"g729\", silence_suppression = true }";
    let paused = FIVE.replace("media = { codec = \"g729\", rtcp = \"none\" }", media);
    let line = format!("{paused}, pabx = {{ at = \"pisa\", number = \"201\", dial = \"301\" }}");
    let text =
        sites("protocol = \"iax\"", "trunk_period = \"20 ms\"", &calls("remote", "genoa-phones", &line));
    let rates = agrees(&text, 60, 0.15);
    assert!((rate(&rates, "pisa-lan forward") / FIVE_BPS - 0.425).abs() < 0.01);
}

/// Random calls, limited by the lines of a phone and by a rule.
#[test]
fn random_calls_have_their_mean_number() {
    let media = "media = { codec = \"g729\", rtcp = \"none\", lines = 6 }";
    let line = format!(
        "interval = \"200 ms\", hold = \"1 s\", {media}, pabx = {{ at = \"pisa\", number = \"201\", dial = \"301\" }}"
    );
    let flows = calls("remote", "genoa-phones", &line);
    let near = sites("protocol = \"sip\", calls = 4", "", &flows).replace("50 ms", "1 ms");
    let rates = agrees(&near, 90, 0.08);
    let calls = rate(&rates, "satellite forward") / (50.0 * 73.0 * 8.0);
    // Five Erlang offered, less what six lines and then four calls block.
    assert!((2.5..3.5).contains(&calls), "{calls}");
}

#[test]
fn what_does_not_fit_is_said_before_the_run() {
    let many = FIVE.replace("calls = 5", "calls = 30");
    let text = sites("", "", &calls("direct", "genoa-phones", &many));
    let shown = budget(&text).to_string();
    for line in [
        "satellite forward  30.0   1500       720 kbit/s  720 kbit/s   72.0 %",
        "30.0 at a time, G.729 in RTP, 1500 packets/s each way",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let lines = "media = { codec = \"g711a\", lines = 100 }";
    let too_many = many
        .replace("calls = 30", "calls = 90")
        .replace("media = { codec = \"g729\", rtcp = \"none\" }", lines);
    let shown = budget(&sites("", "", &calls("direct", "genoa-phones", &too_many))).to_string();
    assert!(shown.contains("720.0 % (too much)"), "{shown}");
    assert!(shown.contains("but satellite forward carries only"), "{shown}");
}

/// A line between two nodes, of which one may be a bridge.
fn line(rate: &str, role: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{ {role} }}\nnode.b = {{}}\n\
        link.l = {{ between = [\"a\", \"b\"], rate = \"{rate}\", delay = \"20 ms\" }}\n{flows}"
    )
}

fn flow(name: &str, keys: &str, traffic: &str) -> String {
    format!("flow.{name} = {{ from = \"a\", to = \"b\", {keys}, traffic = {{ {traffic} }} }}\n")
}

const G729: &str = "kind = \"voice\", codec = \"g729\", silence_suppression = false, rtcp = \"none\"";

/// Copies that come and go load a line with as many as are up at once. A call has 24 kbit/s of IP.
#[test]
fn voice_is_that_of_the_most_calls_at_any_one_time() {
    let early = flow("v", "count = 4, stagger = \"15 s\"", G729);
    let short = flow("w", "count = 3, start = \"5 s\", stop = \"6 s\"", G729);
    let next = flow("x", "count = 2, start = \"6 s\", stop = \"7 s\"", G729);
    let never = flow("y", "count = 9, start = \"8 s\", stagger = \"1 s\", stop = \"9 s\"", G729);
    let late = flow("z", "count = 20, stagger = \"1 s\", stop = \"10 s\"", G729);
    for (flows, calls) in [
        (early.clone() + &short, 4.0),
        (short.clone() + &next, 3.0),
        (early.clone() + &short + &next, 4.0),
        (never.clone() + &next, 2.0),
        (never, 1.0),
        (late, 10.0),
    ] {
        for link in &budget(&line("100 kbit/s", "", &flows)).links {
            let voice = link.voice.as_ref().expect("voice");
            let found = [voice.calls, voice.packets_per_s, voice.rate.as_bps() as f64, voice.share];
            let expected = [calls, 50.0 * calls, 24e3 * calls, 0.24 * calls];
            let is_close =
                found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
            assert!(is_close, "{found:?} in place of {expected:?}: {flows}");
        }
    }
    // Calls go on when no more are placed.
    let sip = "kind = \"sip\", ring = \"1 ms\", interval = \"1 ms\", calls = 2, hold = \"3 s\", \
        media = { codec = \"g729\", silence_suppression = false, rtcp = \"none\" }";
    let follows = flow("s", "stop = \"2 s\"", sip) + &flow("t", "start = \"4 s\"", sip);
    let voice = budget(&line("1 Mbit/s", "", &follows)).links[0].voice.clone().expect("voice");
    assert!((voice.calls - 4.0).abs() < 1e-6, "{}", voice.calls);
}

/// On each copy of a line there are the calls of its own ends.
#[test]
fn copies_of_a_line_have_calls_of_their_own() {
    let text = "title = \"t\"\nduration = \"20 s\"\nnode.hub = {}\nnode.home = { count = 3 }\n\
        link.l = { between = [\"home\", \"hub\"], rate = \"100 kbit/s\" }\n";
    let more = |ends: &str, keys: &str| format!("flow.{ends}, {keys}, traffic = {{ {G729} }} }}\n");
    let all = more("v = { from = \"home\", to = \"hub\"", "count = 2, stagger = \"1 s\"");
    let third = more("w = { from = \"home.3\", to = \"hub\"", "count = 5");
    let first = more("x = { from = \"hub\", to = \"home.1\"", "count = 4");
    for (flows, calls) in [(all.clone(), 2.0), (all.clone() + &third, 7.0), (all + &third + &first, 7.0)] {
        let voice = budget(&format!("{text}{flows}")).links[0].voice.clone().expect("voice");
        assert!((voice.calls - calls).abs() < 1e-6, "{} in place of {calls}: {flows}", voice.calls);
    }
}

fn members(count: u32, keys: &str) -> String {
    let traffic = format!("kind = \"conference\", codec = \"g729\", rtcp = \"none\", {keys}");
    flow("m", &format!("count = {count}"), &traffic)
}

const STEADY: &str = "speech = { kind = \"continuous\" }";

/// Mixes have the length that a run measures, with the sources that they list.
#[test]
fn mixes_list_their_sources() {
    for (role, others, len) in [
        ("role = { kind = \"conference\", mixing = \"linear\" }", 9, 96_u32),
        ("role = \"conference\"", 9, 72),
        ("role = \"conference\"", 2, 68),
        ("role = { kind = \"conference\", contributors = false }", 9, 60),
    ] {
        let text = line("10 Mbit/s", role, &members(others + 1, STEADY));
        let rates = agrees(&text, 10, 0.01);
        let all = 50.0 * f64::from(others + 1) * 8.0;
        assert_eq!([rate(&rates, "l forward"), rate(&rates, "l return")], [all * f64::from(len), all * 60.0]);
        let narrow = budget(&line("300 kbit/s", role, &members(others + 1, STEADY)));
        assert_eq!(
            (narrow.flows[0].packet, narrow.flows[0].payload),
            (Bytes::new(len.into()), Bytes::new(20))
        );
        let ceiling = 300e3 * 20.0 / f64::from(len);
        assert!(
            (narrow.flows[0].ceiling.as_bps() as f64 - ceiling).abs() < 2.0,
            "{}",
            narrow.flows[0].ceiling
        );
    }
}

/// A member hears the others: P.59's single talk of n - 1 in n, and double talk.
#[test]
fn mixes_are_offered_while_others_speak() {
    for (count, kbit) in [(1, 0.0), (2, 3.398), (5, 5.081)] {
        let found = budget(&line("10 Mbit/s", "role = \"conference\"", &members(count, "frames = 2")));
        let offered = found.flows[0].offered.expect("a rate").as_bps() as f64 / 1e3;
        assert!((offered - kbit).abs() < 0.01, "{count}: {offered}");
        assert!(count == 1 || found.to_string().contains("it sends at random"), "{found}");
    }
    // Pauses of some members, from a run.
    let steady = "kind = \"conference\", codec = \"g729\", rtcp = \"none\", silence_suppression = false";
    let mixed =
        members(3, "speech = { kind = \"p59\" }, comfort_noise = \"1 h\"") + &flow("s", "count = 2", steady);
    let long = line("10 Mbit/s", "role = \"conference\"", &mixed).replace("20 s", "400 s");
    agrees(&long, 390, 0.06);
}

/// Members who come and go are sources while they are there.
#[test]
fn mixes_follow_members_who_come_and_go() {
    let stay = format!("kind = \"conference\", codec = \"g729\", rtcp = \"none\", {STEADY}");
    let flows =
        flow("m", "count = 2", &stay) + &flow("n", "count = 2, start = \"10 s\", stop = \"15 s\"", &stay);
    let found = budget(&line("10 Mbit/s", "role = \"conference\"", &flows));
    // One other for three quarters of the time, and three; then always three.
    assert_eq!([found.flows[0].packet, found.flows[1].packet], [66, 72].map(Bytes::new));
}

/// Nobody answers the voice of calls: what is lost on the way back is no request without answer.
#[test]
fn voice_on_the_way_back_is_no_answer() {
    let lossy = |role: &str, flows: &str| {
        let text = line("1 Mbit/s", role, flows);
        budget(&text.replace("delay =", "channel = { kind = \"packet-errors\", loss = 0.02 }, delay ="))
            .to_string()
    };
    for shown in
        [lossy("", &flow("v", "count = 2", G729)), lossy("role = \"conference\"", &members(3, STEADY))]
    {
        assert!(shown.contains("lost by channels") && !shown.contains("unanswered"), "{shown}");
    }
}

/// Messages of calls are no transfer of full packets.
#[test]
fn messages_of_calls_have_no_rate() {
    let sip = "kind = \"sip\", interval = \"60 s\", hold = \"200 s\", ring = \"2 s\"";
    let shares = flow("s", "count = 20", sip) + &flow("f", "count = 1", "kind = \"tcp\"");
    let found = budget(&line("10 Mbit/s", "", &shares));
    assert!(found.flows[0].is_unsized && !found.flows[1].is_unsized);
    assert_eq!(found.flows[1].fair_share, found.flows[1].ceiling, "messages take nothing of it");
    let shown = found.flows[0].to_string();
    assert!(shown.contains("packets                of lengths that are not forecast"), "{shown}");
    assert!(shown.contains("max goodput            not forecast"), "{shown}");
    assert!(shown.contains("it has messages of calls alone"), "{shown}");
    for bulk in ["1472 B", "bit/s", "fair share"] {
        assert!(!shown.contains(bulk), "{bulk}: {shown}");
    }
    assert_eq!(found.links.iter().map(|link| link.flows).collect::<Vec<_>>(), [21, 21]);
    let alone = budget(&line("10 Mbit/s", "", &flow("s", "count = 20", sip)));
    assert_eq!(alone.links[1].packet, alone.links[1].mtu, "no length is known");
    let voiced = sip.to_owned() + ", media = { codec = \"g729\" }";
    let found = budget(&line("10 Mbit/s", "", &flow("s", "count = 1", &voiced)));
    assert!(!found.flows[0].is_unsized && found.to_string().contains("max goodput"), "{found}");
}
