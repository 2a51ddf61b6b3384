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
